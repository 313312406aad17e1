//! The stream between an origin and those who subscribe to it: messages, framing, fencing, the subscribing side.
//!
//! Sans-I/O: bytes in, events out. `docs/UPSTREAM.md` is the authority on the bytes, written so that a server in
//! another language can speak it. All values are absolute quantised integers in byte-aligned little-endian
//! fields, so a message is understood by itself and a missing one is healed by the next keyframe.
//!
//! Invariants: one legal encoding (what decodes encodes to the same bytes); a malformed message is refused by
//! itself and the stream goes on; no byte that a peer can send panics or reserves more than it paid for.

pub mod error;
pub mod fence;
pub mod message;
mod player;
pub mod splitter;
pub mod subscriber;
pub mod tick;

#[cfg(test)]
mod tests;

/// The protocol version spoken here. It rises with every change that an older reader would misread.
pub const VERSION: u16 = 2;

/// Follows the kind in the first message of each side.
pub const MAGIC: [u8; 4] = *b"ACKU";
