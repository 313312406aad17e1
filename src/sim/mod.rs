//! The simulation: origin, relay core and clients in one thread and virtual time, seeded.
//!
//! A [`scenario`] is drawn from a seed: a [`world`], an [`upstream`] with its stalls and restarts, clients
//! ([`player`]) with bad links, joins, silences and changing addresses, each with a [`role`] that the origin's
//! [`director`] gives it. A [`run`] plays it, and [`check`] compares every record that a client shows with the
//! oracle's ([`truth`]) and with what it may see ([`sight`]). What comes of it is an [`outcome`]: figures, and failures in
//! a sentence each with the seed that replays them.
//!
//! Invariant: a seed is a run. No clock, no thread, no order of a hash map and no function of the platform's
//! mathematics library has a part in it, so a failing run fails again.

pub mod audience;
pub mod bodies;
pub mod check;
pub mod counted;
pub mod dice;
pub mod director;
pub mod hasher;
pub mod leaks;
pub mod oracle;
pub mod outcome;
pub mod own;
pub mod player;
pub mod post;
pub mod provision;
pub mod quantiles;
pub mod role;
pub mod run;
pub mod scenario;
pub mod schemas;
pub mod settings;
pub mod sight;
pub mod spending;
pub mod starvation;
pub mod taint;
pub mod told;
pub mod truth;
pub mod upstream;
pub mod whole;
pub mod windows;
pub mod world;

#[cfg(test)]
mod tests;
