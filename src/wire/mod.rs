//! Bytes and bits of the wire. It knows no state.
//!
//! `docs/PROTOCOL.md` is the authority; every layout here is written there, and its examples are tests.

pub mod bits;
pub mod bytes;
#[cfg(feature = "relay")]
pub mod cookie;
#[cfg(any(feature = "client", feature = "relay"))]
pub mod handshake;
pub mod input;
pub mod owner;
pub mod payload;
pub mod report;
#[cfg(any(feature = "client", feature = "relay"))]
pub mod seal;
pub mod snapshot;
pub mod stream;
#[cfg(any(feature = "client", feature = "relay"))]
pub mod version;
