//! Record against record gives bits: the one place where `state` and `wire` meet.
//!
//! A *body* is a bit string of entries in rising order of slot. An entry says how one slot's record in a frame
//! differs from the same slot's record in a baseline, or says it whole. Its bits depend only on the baseline's
//! record, the record now, the frame's time and the schema: never on the client, never on another entry. So an
//! entry is encoded once and stitched into the bodies of everyone who shares that baseline; only the gap
//! before it depends on its neighbour.
//!
//! [`layout`] is a schema worked out for coding, [`encode`] writes entries, [`decode`] reads bodies, [`schema`]
//! is the schema itself as canonical bytes, [`message`] what the reliable stream carries, [`quote`] what a shot says of the picture it was aimed in. `docs/PROTOCOL.md` is
//! the authority on every bit.
//!
//! Invariants: one legal encoding, so what decodes re-encodes to the same bits (THREATS 32); nothing is
//! differenced across a segment or a generation (SPEC TAB4); no float takes part in a delta (SPEC ID7).

pub mod decode;
pub mod encode;
pub mod layout;
pub mod message;
pub mod quote;
pub mod schema;
pub mod tune;

mod codebook;
mod codes;
mod prediction;
mod refusal;
mod standard;
mod tuned;

#[cfg(test)]
mod tests;
