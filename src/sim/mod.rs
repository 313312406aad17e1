//! The simulation: origin, relay core and clients in one thread and virtual time, seeded.

pub mod bodies;
pub mod check;
pub mod dice;
pub mod hasher;
pub mod outcome;
pub mod player;
pub mod post;
pub mod quantiles;
pub mod run;
pub mod scenario;
pub mod truth;
pub mod upstream;
pub mod world;

#[cfg(test)]
mod tests;
