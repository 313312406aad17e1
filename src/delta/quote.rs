//! What a shot quotes: the instant its player saw, so that the origin can look there (SPEC PLY8, ENT2, ENT7).
//!
//! A game puts it into its own inputs; the relay never looks. `docs/PROTOCOL.md` has the layout. Invariant: one legal
//! encoding, at most [`QUOTE_BYTES_MAX`] bytes, so that it fits an input with as many bytes of the game's own.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::limits::INPUT_BYTES_MAX;
use crate::state::entity::Entity;
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

/// Bytes of a quote, at most: flags, stream, generation, time; id, generation, segment and view of a target.
pub const QUOTE_BYTES_MAX: usize = 1 + 4 + 5 + 6 + 3 * 5 + 1;
const _: () = assert!(2 * QUOTE_BYTES_MAX <= INPUT_BYTES_MAX);

const VIEW_READY: u8 = 1;
const TARGET: u8 = 2;

/// How an entity was shown (SPEC ENT2). The numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Sight {
    /// Between two observations, or at rest: valid.
    Interpolated = 0,
    /// Ahead of its last observation, within its allowance: valid.
    Extrapolated = 1,
    /// Where its allowance ended: not valid at the time quoted.
    Stale = 2,
    /// Without a pose in its segment.
    Missing = 3,
}

impl Sight {
    /// Every way.
    pub const ALL: [Sight; 4] = [
        Sight::Interpolated,
        Sight::Extrapolated,
        Sight::Stale,
        Sight::Missing,
    ];

    /// The way with this wire number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Sight> {
        Sight::ALL.into_iter().find(|sight| *sight as u8 == code)
    }

    /// True when the pose was one of the time quoted (SPEC ENT2, validAtR).
    #[must_use]
    pub fn is_valid(self) -> bool {
        matches!(self, Sight::Interpolated | Sight::Extrapolated)
    }
}

/// Who was aimed at, as it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whom.
    pub entity: Entity,
    /// The segment that was shown.
    pub segment: u32,
    /// How.
    pub sight: Sight,
}

/// What a shot quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// What the origin has told its players its stream is called, so that a time of an earlier one is never looked up in a
    /// later (SPEC PLY7); 0 where it tells nothing.
    pub stream: u32,
    /// The local playback generation: rises whenever the playback finds a new anchor (SPEC PLY5).
    pub generation: u32,
    /// The playback time r, server microseconds, below 2^48: the picture's, not a target of its own (SPEC PLY8).
    pub r_us: u64,
    /// No query-critical entity was stale or missing (SPEC ENT7).
    pub view_ready: bool,
    /// Who was aimed at; `None` where the origin is to find out who is hit.
    pub target: Option<Target>,
}

impl Quote {
    /// Appends the quote.
    pub fn encode(&self, out: &mut impl ByteWriter) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.put_u8(flag(self.view_ready, VIEW_READY) | flag(self.target.is_some(), TARGET));
        out.put_u32(self.stream);
        out.put_varint(self.generation);
        out.put_time48(self.r_us);
        if let Some(target) = &self.target {
            out.put_varint(target.entity.id);
            out.put_varint(target.entity.generation);
            out.put_varint(target.segment);
            out.put_u8(target.sight as u8);
        }
    }

    /// Reads a quote; what follows it is the game's.
    ///
    /// # Errors
    /// [`ReadError`]: bytes missing, unknown flags or sight, a number not in its shortest form.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Quote, ReadError> {
        let flags = reader.u8()?;
        if flags & !(VIEW_READY | TARGET) != 0 {
            return Err(ReadError::OutOfRange);
        }
        let (stream, generation, r_us) = (reader.u32()?, reader.varint()?, reader.time48()?);
        let target = if flags & TARGET == 0 {
            None
        } else {
            let (id, generation, segment) = (reader.varint()?, reader.varint()?, reader.varint()?);
            Some(Target {
                entity: Entity { id, generation },
                segment,
                sight: Sight::from_code(reader.u8()?).ok_or(ReadError::OutOfRange)?,
            })
        };
        Ok(Quote {
            stream,
            generation,
            r_us,
            view_ready: flags & VIEW_READY != 0,
            target,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn quote() -> Quote {
        Quote {
            stream: 0xFFFF_FFFF,
            generation: u32::MAX,
            r_us: (1 << 48) - 1,
            view_ready: true,
            target: Some(Target {
                entity: Entity {
                    id: u32::MAX,
                    generation: u32::MAX,
                },
                segment: u32::MAX,
                sight: Sight::Missing,
            }),
        }
    }

    /// SPEC PLY8: what is written is read, in at most so many bytes; what is cut is refused.
    #[test]
    fn ply8_a_quote_is_read_as_it_was_written() {
        let bare = Quote {
            generation: 0,
            target: None,
            view_ready: false,
            ..quote()
        };
        for (quote, length) in [(quote(), QUOTE_BYTES_MAX), (bare, 12)] {
            let mut bytes = Vec::new();
            quote.encode(&mut bytes);
            assert_eq!(bytes.len(), length);
            for short in 0..bytes.len() {
                assert!(Quote::decode(&mut ByteReader::new(&bytes[..short])).is_err());
            }
            bytes.push(0xAB);
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(Quote::decode(&mut reader), Ok(quote));
            assert_eq!(reader.rest(), [0xAB], "the rest is the game's");
        }
    }

    /// THREATS 32: one legal encoding: whatever decodes is written the same.
    #[test]
    fn threats_32_quotes_have_one_encoding() {
        let mut bytes = Vec::new();
        quote().encode(&mut bytes);
        let mut decoded = 0;
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = value;
                let mut reader = ByteReader::new(&changed);
                if let Ok(quote) = Quote::decode(&mut reader) {
                    let length = changed.len() - reader.rest().len();
                    let mut again = Vec::new();
                    quote.encode(&mut again);
                    assert_eq!(again, changed[..length]);
                    decoded += 1;
                }
            }
        }
        assert!(decoded > 1_000, "{decoded}");
    }
}
