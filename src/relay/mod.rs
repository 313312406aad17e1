//! The fan-out core: one stream of frames in, a sealed delta for each client out. Sans-I/O.
//!
//! The walk down, once a tick: [`Shard::publish`](shard::Shard::publish) takes the frame,
//! [`Shard::transmit`](shard::Shard::transmit) serves each session: base, entries, bodies, seal. The walk up,
//! once a datagram: [`Shard::receive`](shard::Shard::receive) opens, checks, records and stops: a report
//! sends nothing, encodes nothing.
//!
//! What makes it cheap: what changed since a baseline is the OR of dirty masks, an entry's bits are made once
//! a tick and shared, and clients on the same whole baseline share whole bodies.

pub mod admission;
pub mod arena;
pub mod bodies;
pub mod budget;
pub mod changes;
pub mod choice;
pub mod claims;
pub mod compose;
pub mod contents;
pub mod counters;
pub mod egress;
pub mod entropy;
pub mod gate;
pub mod inputs;
pub mod interest;
pub mod kitchen;
pub mod outbox;
pub mod overload;
pub mod pace;
pub mod plan;
pub mod priority;
pub mod residents;
pub mod segments;
pub mod serve;
pub mod session;
pub mod shard;
pub mod spare;
pub mod stamp;
pub mod table;
pub mod throttle;

#[cfg(test)]
mod tests;
