//! Bit strings: least significant bit first, into fixed buffers.
//!
//! Bit i of the string is bit i mod 8 of byte i / 8; a field's lowest bit comes first. The writer keeps a
//! 64-bit accumulator and stores eight bytes at a time without branches on the data (FLOORS 3). Encoders
//! bound what they write before they write it, so the writer asserts; the reader checks.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::bytes::ReadError;

/// Appends bit fields to a byte buffer of fixed size.
#[derive(Debug)]
pub struct BitWriter<'a> {
    buffer: &'a mut [u8],
    accumulator: u64,
    pending: u32,
    stored: usize,
}

impl<'a> BitWriter<'a> {
    /// The most bits of one [`put_long`](BitWriter::put_long).
    pub const LONG: u32 = 56;

    /// A writer at the start of `buffer`. The last 8 bytes of the buffer are head-room for whole-word stores:
    /// [`capacity_bits`](BitWriter::capacity_bits) does not count them.
    #[must_use]
    pub fn new(buffer: &'a mut [u8]) -> BitWriter<'a> {
        BitWriter {
            buffer,
            accumulator: 0,
            pending: 0,
            stored: 0,
        }
    }

    /// Bits this writer can take in all.
    #[must_use]
    pub fn capacity_bits(&self) -> usize {
        self.buffer.len().saturating_sub(8) * 8
    }

    /// Bits written so far.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.stored * 8 + self.pending as usize
    }

    /// Appends the low `count` bits of `value`, 0 to 32. Bits above must be zero.
    #[inline]
    pub fn put(&mut self, value: u32, count: u32) {
        debug_assert!(count <= 32, "{count} bits of 32");
        self.put_long(u64::from(value), count);
    }

    /// Appends the low `count` bits of `value`, 0 to [`LONG`](BitWriter::LONG). Bits above must be zero.
    #[inline]
    #[allow(clippy::indexing_slicing)]
    pub fn put_long(&mut self, value: u64, count: u32) {
        debug_assert!(
            count <= Self::LONG && value >> count == 0,
            "{value} does not fit {count} bits"
        );
        self.accumulator |= value << self.pending;
        self.pending += count;
        // Store all pending bits, keep the ones that do not fill a byte. `pending` is at most 7 + 56 here, so that not all of
        // the accumulator is whole.
        self.buffer[self.stored..self.stored + 8].copy_from_slice(&self.accumulator.to_le_bytes());
        let whole = self.pending / 8;
        self.stored += whole as usize;
        self.accumulator >>= whole * 8;
        self.pending %= 8;
    }

    /// Appends one bit.
    #[inline]
    pub fn put_bit(&mut self, bit: bool) {
        self.put(u32::from(bit), 1);
    }

    /// Appends the first `count` bits of `source`, whose bits start at its first byte. Where `source` goes on for 8 bytes
    /// beyond them, none of it is copied byte by byte.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub fn put_bits(&mut self, source: &[u8], count: usize) {
        debug_assert!(source.len() * 8 >= count, "the source holds {count} bits");
        let (mut rest, mut left) = (source, count);
        while left > 0 {
            let word = match rest.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => last_word(rest),
            };
            let taken = left.min(COPIED_BITS);
            self.put_long(word & (u64::MAX >> (64 - taken)), taken as u32);
            rest = rest.get(COPIED_BITS / 8..).unwrap_or_default();
            left -= taken;
        }
    }

    /// Ends the string: the last byte is padded with zero bits. Returns its length in bytes.
    #[must_use]
    pub fn finish(self) -> usize {
        self.stored + usize::from(self.pending > 0)
    }
}

/// Bits of a string copied at a time: with those pending in a byte they fit the accumulator.
const COPIED_BITS: usize = BitWriter::LONG as usize;

/// Fewer than 8 bytes as a word.
fn last_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// Reads bit fields; never past the end.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    /// Bits that [`peek`](BitReader::peek) shows.
    pub const AHEAD: u32 = 57;

    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, position: 0 }
    }

    /// Bits read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Reads `count` bits, 0 to 32.
    ///
    /// # Errors
    /// [`ReadError::Short`] when fewer are left.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub fn take(&mut self, count: u32) -> Result<u32, ReadError> {
        debug_assert!(count <= 32);
        let ahead = self.peek();
        self.skip(count)?;
        Ok((ahead & ((1u64 << count) - 1)) as u32)
    }

    /// The next [`AHEAD`](BitReader::AHEAD) bits or more without reading them; zeros stand for what is not there.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> u64 {
        let first = self.position / 8;
        let word = match self.bytes.get(first..first + 8) {
            Some(window) => window.try_into().map_or(0, u64::from_le_bytes),
            None => {
                let mut window = [0u8; 8];
                for (to, from) in window.iter_mut().zip(self.bytes.iter().skip(first)) {
                    *to = *from;
                }
                u64::from_le_bytes(window)
            }
        };
        word >> (self.position % 8)
    }

    /// Passes over `count` bits.
    ///
    /// # Errors
    /// [`ReadError::Short`] when fewer are left.
    #[inline]
    pub fn skip(&mut self, count: u32) -> Result<(), ReadError> {
        let end = self.position + count as usize;
        if end > self.bytes.len() * 8 {
            return Err(ReadError::Short);
        }
        self.position = end;
        Ok(())
    }

    /// Reads one bit.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn take_bit(&mut self) -> Result<bool, ReadError> {
        Ok(self.take(1)? == 1)
    }

    /// Ends the string: less than a byte may be left, and only zero bits.
    ///
    /// # Errors
    /// [`ReadError::Trailing`] when a byte or a set bit is left.
    pub fn end(mut self) -> Result<(), ReadError> {
        let left = self.bytes.len() * 8 - self.position;
        if left >= 8 || self.take(u32::try_from(left).unwrap_or(0))? != 0 {
            return Err(ReadError::Trailing);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field() -> impl Strategy<Value = (u32, u32)> {
        (any::<u32>(), 0u32..=32).prop_map(|(value, count)| {
            (
                if count == 32 {
                    value
                } else {
                    value & ((1 << count) - 1)
                },
                count,
            )
        })
    }

    proptest! {
        /// What is written is read, bit by bit the same as a plain list of bits.
        #[test]
        fn fields_round_trip_and_agree_with_a_list_of_bits(fields in prop::collection::vec(field(), 0..200)) {
            let mut buffer = vec![0xAA; 1000];
            let mut writer = BitWriter::new(&mut buffer);
            let mut oracle = Vec::new();
            for (value, count) in &fields {
                writer.put(*value, *count);
                oracle.extend((0..*count).map(|i| value >> i & 1 == 1));
            }
            prop_assert_eq!(writer.bits(), oracle.len());
            let length = writer.finish();
            let bytes = &buffer[..length];
            for (i, bit) in oracle.iter().enumerate() {
                prop_assert_eq!(bytes[i / 8] >> (i % 8) & 1 == 1, *bit);
            }
            let mut reader = BitReader::new(bytes);
            for (value, count) in &fields {
                prop_assert_eq!(reader.take(*count).unwrap(), *value);
            }
            reader.end().unwrap();
        }

        /// A long field is its two halves.
        #[test]
        fn long_fields_are_two_short_ones(fields in prop::collection::vec((any::<u64>(), 0..=BitWriter::LONG), 0..40)) {
            let (mut long, mut short) = (vec![0xAA; 400], vec![0x55; 400]);
            let (mut one, mut two) = (BitWriter::new(&mut long), BitWriter::new(&mut short));
            for (value, count) in fields {
                let value = value & ((1 << count) - 1);
                one.put_long(value, count);
                let low = count.min(32);
                two.put((value & ((1 << low) - 1)) as u32, low);
                two.put((value >> low) as u32, count - low);
            }
            let length = one.finish();
            prop_assert_eq!(length, two.finish());
            prop_assert_eq!(&long[..length], &short[..length]);
        }

        /// A stitched string is the concatenation of its pieces.
        #[test]
        fn stitching_is_concatenation(a in prop::collection::vec(field(), 0..40),
                                      b in prop::collection::vec(field(), 0..40)) {
            let write = |writer: &mut BitWriter<'_>, fields: &[(u32, u32)]| {
                fields.iter().for_each(|(value, count)| writer.put(*value, *count));
            };
            let (mut piece, mut stitched, mut direct) = (vec![0; 300], vec![0; 500], vec![0; 500]);
            let mut writer = BitWriter::new(&mut piece);
            write(&mut writer, &b);
            let bits = writer.bits();
            let _ = writer.finish();
            let mut writer = BitWriter::new(&mut stitched);
            write(&mut writer, &a);
            writer.put_bits(&piece, bits);
            let length = writer.finish();
            let mut writer = BitWriter::new(&mut direct);
            write(&mut writer, &a);
            write(&mut writer, &b);
            prop_assert_eq!(length, writer.finish());
            prop_assert_eq!(&stitched[..length], &direct[..length]);
        }
    }

    /// THREATS 34: bits left over are refused, and so is reading past the end.
    #[test]
    fn threats_34_leftovers_and_overruns_are_refused() {
        let mut reader = BitReader::new(&[0b101]);
        assert_eq!(reader.take(2), Ok(1));
        assert_eq!(reader.clone().end(), Err(ReadError::Trailing));
        assert_eq!(reader.take(7), Err(ReadError::Short));
        assert_eq!(reader.take(1), Ok(1));
        reader.end().unwrap();
        assert_eq!(BitReader::new(&[0, 0]).end(), Err(ReadError::Trailing));
        assert_eq!(BitReader::new(&[]).take(1), Err(ReadError::Short));
    }
}
