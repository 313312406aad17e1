//! The receiving core: handshake, windows, tables, display, reports. Sans-I/O: no sockets, threads or clock.
//!
//! The walk of a datagram: [`Client::receive`](session::Client::receive) opens it (`link`), reads its blocks
//! (`down`), judges and takes its snapshot (`replica`: window, tables, [`display`]), hands its messages to the
//! `inbox`. The walk up: [`Client::poll_transmit`](session::Client::poll_transmit) says everything that is
//! held and refused, the [`inputs`] the relay lacks and where the [`camera`] is, in every packet. What a game draws of
//! all that is [`playback`].
//!
//! [`prediction`] is what a game may put on top: its own entity moves at once.
//!
//! Invariant: on no byte a stranger can send does anything here panic, allocate without bound, acknowledge, or
//! change what is held or shown; each refusal is counted by reason ([`refusal`]).

pub mod camera;
pub mod display;
pub mod inbox;
pub mod inputs;
pub mod owner;
pub mod playback;
pub mod prediction;
pub mod refusal;
pub mod replica;
pub mod session;
pub mod settings;
pub mod statistics;
pub mod table;

mod arrivals;
mod attempt;
mod down;
mod draft;
mod link;
mod rhythm;
mod store;

#[cfg(test)]
pub(crate) mod tests;
