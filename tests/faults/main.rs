//! What went wrong for others, tried on a relay's shard and real clients over bad links (FAULTS; THREATS III and IV).
//!
//! One virtual clock, no socket. `rig` checks every shown record and every table at every datagram; the tests make the
//! situations and ask for the end.

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod entities;
mod joining;
mod players;
mod rig;
mod views;
mod windows;
