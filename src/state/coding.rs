//! How the numbers of records become bits: plainly, or by prefix codes whose tables fit the game's motion.
//!
//! A table set is the lengths of 68 prefix codes (`docs/PROTOCOL-delta.md`, *Tuned codes*). Which number gets a short code
//! depends on how things move, so an origin may send its own, made of recordings (`ackline trace tune`).
//!
//! Invariant: each code of a [`Lengths`] is complete: every string of bits reads as one sequence of symbols.

use std::sync::Arc;

/// Bits of the longest code.
pub const LENGTH_MAX: u8 = 8;
/// Symbols of each code, in order, and how many codes have them: gaps; heads of entries; numbers.
pub const CODES: [(usize, usize); 3] = [(16, 1), (36, 1), (16, 66)];
/// Lengths in a set.
pub const LENGTHS: usize = CODES[0].0 * CODES[0].1 + CODES[1].0 * CODES[1].1 + CODES[2].0 * CODES[2].1;

/// How records become bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// Widths and raw bits: every reader of protocol version 2 knows it.
    #[default]
    Plain,
    /// Prefix codes with the tables of this crate, made of recordings of several games.
    Standard,
    /// Prefix codes with the origin's own tables.
    Own(Arc<Lengths>),
}

impl Coding {
    /// The lowest protocol version whose clients can read it.
    #[must_use]
    pub fn version(&self) -> u16 {
        match self {
            Coding::Plain => 0,
            Coding::Standard | Coding::Own(_) => 3,
        }
    }
}

/// The lengths of a set's codes, one code after another, a symbol each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths([u8; LENGTHS]);

/// Why lengths are no table set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LengthsError {
    /// A length is 0 or above [`LENGTH_MAX`].
    #[error("code {code} has a length of {length} bits, outside 1 to {LENGTH_MAX}")]
    OutOfRange {
        /// Which code, from 0.
        code: usize,
        /// The length.
        length: u8,
    },
    /// A code's lengths leave strings of bits unused, or use some twice.
    #[error("the lengths of code {code} make no complete prefix code")]
    Incomplete {
        /// Which code, from 0.
        code: usize,
    },
}

impl Lengths {
    /// A table set of these lengths.
    ///
    /// # Errors
    /// [`LengthsError`].
    pub fn new(lengths: [u8; LENGTHS]) -> Result<Lengths, LengthsError> {
        let set = Lengths(lengths);
        for (code, lengths) in set.codes().enumerate() {
            let mut used = 0u32;
            for length in lengths {
                if !(1..=LENGTH_MAX).contains(length) {
                    return Err(LengthsError::OutOfRange {
                        code,
                        length: *length,
                    });
                }
                used += 1 << (LENGTH_MAX - length);
            }
            if used != 1 << LENGTH_MAX {
                return Err(LengthsError::Incomplete { code });
            }
        }
        Ok(set)
    }

    /// Codes of nearly equal lengths: what is known of a game that nobody has recorded.
    #[must_use]
    pub fn flat() -> Lengths {
        let mut lengths = [4; LENGTHS];
        let (gaps, heads) = (CODES[0].0, CODES[1].0);
        // Of 36 symbols 28 have 5 bits and 8 have 6.
        for (at, length) in lengths.iter_mut().skip(gaps).take(heads).enumerate() {
            *length = if at < 28 { 5 } else { 6 };
        }
        Lengths(lengths)
    }

    /// The lengths as they are.
    #[must_use]
    pub fn as_array(&self) -> &[u8; LENGTHS] {
        &self.0
    }

    /// The lengths of each code, in order.
    pub fn codes(&self) -> impl Iterator<Item = &[u8]> {
        let sizes = CODES
            .iter()
            .flat_map(|(symbols, codes)| std::iter::repeat_n(*symbols, *codes));
        let mut rest = &self.0[..];
        sizes.map(move |symbols| {
            let (code, after) = rest.split_at_checked(symbols).unwrap_or_default();
            rest = after;
            code
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn complete_codes_alone_are_table_sets() {
        let good = Lengths::new(*Lengths::flat().as_array()).unwrap();
        assert_eq!(good.codes().count(), 68);
        assert_eq!(good.codes().map(<[u8]>::len).sum::<usize>(), LENGTHS);
        for (at, length, error) in [
            (0, 0, LengthsError::OutOfRange { code: 0, length: 0 }),
            (20, 9, LengthsError::OutOfRange { code: 1, length: 9 }),
            (20, 6, LengthsError::Incomplete { code: 1 }),
            (LENGTHS - 1, 3, LengthsError::Incomplete { code: 67 }),
        ] {
            let mut lengths = *Lengths::flat().as_array();
            lengths[at] = length;
            assert_eq!(Lengths::new(lengths), Err(error));
        }
    }
}
