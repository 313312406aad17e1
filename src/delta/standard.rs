//! The tables of [`Coding::Standard`](crate::state::coding::Coding::Standard).
//!
//! Made by `ackline trace tune` of recordings of several games; see `docs/PROTOCOL-delta.md`, *Tuned codes*.

use crate::state::coding::LENGTHS;

/// Lengths, a digit each.
pub(super) const STANDARD: [u8; LENGTHS] = digits(include_bytes!("../../docs/PROTOCOL-tables.txt"));

/// The digits of a text; all else in it is for people.
#[allow(clippy::indexing_slicing)] // At compile time, where a slip is an error.
const fn digits(text: &[u8]) -> [u8; LENGTHS] {
    let mut lengths = [0; LENGTHS];
    let (mut at, mut found) = (0, 0);
    while at < text.len() {
        if text[at] >= b'1' && text[at] <= b'8' {
            lengths[found] = text[at] - b'0';
            found += 1;
        }
        at += 1;
    }
    assert!(found == LENGTHS, "the table has another number of lengths");
    lengths
}
