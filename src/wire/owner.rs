//! The state of a client's own entity on its way down (SPEC PRE2, DEC10).
//!
//! It goes beside the snapshot, newest wins: the owner's motion is no part of STATE (SPEC CTL3). The record is whole and
//! owes nothing to a baseline, so a lost block costs nothing but its age.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::bytes::{ByteReader, ByteWriter, ReadError};
use crate::sequence::Tick;

/// Bytes of a record in an owner block, at most.
pub const OWNER_RECORD_BYTES_MAX: usize = 160;
/// Bytes of an owner block, at most: ordinal and tick, time, input number, length, record.
pub const OWNER_BYTES_MAX: usize = 5 + 5 + 6 + 5 + 1 + OWNER_RECORD_BYTES_MAX;

/// An owner block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerBlock<'a> {
    /// Ordinal of the stream it is of.
    pub stream_epoch: u32,
    /// The tick of the state.
    pub tick: Tick,
    /// Server time of that tick, microseconds.
    pub server_us: u64,
    /// The last input the state has in it; 0 before any.
    pub processed: u32,
    /// A body of one complete entry: slot and record.
    pub record: &'a [u8],
}

impl<'a> OwnerBlock<'a> {
    /// Appends the block.
    pub fn encode(&self, out: &mut impl ByteWriter) {
        debug_assert!((1..=OWNER_RECORD_BYTES_MAX).contains(&self.record.len()));
        out.put_varint(self.stream_epoch);
        out.put_varint(self.tick.0);
        out.put_time48(self.server_us);
        out.put_varint(self.processed);
        out.put_u8(u8::try_from(self.record.len()).unwrap_or(0));
        out.put(self.record);
    }

    /// Reads a block; the record is still bits.
    ///
    /// # Errors
    /// [`ReadError`]: bytes missing, a record of no or too many bytes.
    pub fn decode(reader: &mut ByteReader<'a>) -> Result<OwnerBlock<'a>, ReadError> {
        let stream_epoch = reader.varint()?;
        let tick = Tick(reader.varint()?);
        let server_us = reader.time48()?;
        let processed = reader.varint()?;
        let length = usize::from(reader.u8()?);
        if length == 0 || length > OWNER_RECORD_BYTES_MAX {
            return Err(ReadError::OutOfRange);
        }
        Ok(OwnerBlock {
            stream_epoch,
            tick,
            server_us,
            processed,
            record: reader.bytes(length)?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_short_refused() {
        let block = OwnerBlock {
            stream_epoch: 3,
            tick: Tick(900),
            server_us: 45_000_000,
            processed: 0,
            record: &[0b011, 0, 1],
        };
        let mut bytes = Vec::new();
        block.encode(&mut bytes);
        assert!(bytes.len() <= OWNER_BYTES_MAX);
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(OwnerBlock::decode(&mut reader), Ok(block));
        reader.end().unwrap();
        for short in 0..bytes.len() {
            let cut = bytes.get(..short).unwrap();
            assert!(OwnerBlock::decode(&mut ByteReader::new(cut)).is_err());
        }
    }
}
