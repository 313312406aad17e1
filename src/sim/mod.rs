//! The simulation: origin, relay core and clients in one thread and virtual time, seeded.

pub mod bodies;
pub mod dice;
pub mod hasher;
pub mod quantiles;
pub mod scenario;
pub mod truth;
pub mod world;
