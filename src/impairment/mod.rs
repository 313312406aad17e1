//! A bad link, modelled: loss, bursts of loss, delay, jitter, reordering, duplicates and flipped bits.
//!
//! The model is sans-I/O and seeded: time and datagrams are arguments, so the load generator runs it over
//! real sockets and the simulation in virtual time. The same settings, seed and calls give the same
//! deliveries on every platform.

mod chance;
pub mod counts;
pub mod link;
pub mod settings;
