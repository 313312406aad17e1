//! Bytes and bits of the wire. It knows no state.
//!
//! `docs/PROTOCOL.md` is the authority; every layout here is written there, and its examples are tests.

pub mod bits;
pub mod bytes;
pub mod handshake;
pub mod report;
pub mod seal;
pub mod snapshot;
pub mod stream;
