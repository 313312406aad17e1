//! Byte-aligned reading and writing: little-endian integers, varints, counted strings.
//!
//! Invariant: one legal encoding. A varint is LEB128 in the fewest bytes; longer forms are refused, so what
//! decodes re-encodes to the same bytes (THREATS 32). Reading is checked, writing is bounded by the buffer.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// Why bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The bytes end before the value does.
    #[error("the bytes end too early")]
    Short,
    /// Bytes are left after the last value.
    #[error("bytes are left over")]
    Trailing,
    /// A value in a form longer than needed, or wider than its type.
    #[error("a number is not in its shortest form or too wide")]
    NotCanonical,
    /// A number outside what its field allows.
    #[error("a number is out of range")]
    OutOfRange,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotText,
}

/// Reads from a byte slice; never past its end.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

macro_rules! fixed {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Reads a little-endian `", stringify!($type), "`.")]
        ///
        /// # Errors
        /// [`ReadError::Short`].
        pub fn $name(&mut self) -> Result<$type, ReadError> {
            Ok(<$type>::from_le_bytes(self.array()?))
        }
    )*};
}

impl<'a> ByteReader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { rest: bytes }
    }

    fixed!(u8: u8, u16: u16, u32: u32, u64: u64, i32: i32, i64: i64, f64: f64);

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(ReadError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(ReadError::Short)?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads a time of 48 bits: microseconds, as a `u32` of low bits and a `u16` of high bits.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    pub fn time48(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from(self.u32()?) | u64::from(self.u16()?) << 32)
    }

    /// Reads a varint of at most 32 bits.
    ///
    /// # Errors
    /// [`ReadError::Short`]; [`ReadError::NotCanonical`] when longer than needed or wider than 32 bits.
    pub fn varint(&mut self) -> Result<u32, ReadError> {
        u32::try_from(self.varint64()?).map_err(|_| ReadError::NotCanonical)
    }

    /// Reads a varint of at most 64 bits.
    ///
    /// # Errors
    /// As [`varint`](ByteReader::varint).
    pub fn varint64(&mut self) -> Result<u64, ReadError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return Err(ReadError::NotCanonical);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return if byte == 0 && shift > 0 {
                    Err(ReadError::NotCanonical)
                } else {
                    Ok(value)
                };
            }
        }
        Err(ReadError::NotCanonical)
    }

    /// Reads text with a one-byte length.
    ///
    /// # Errors
    /// [`ReadError::Short`], [`ReadError::NotText`].
    pub fn text(&mut self) -> Result<&'a str, ReadError> {
        let length = usize::from(self.u8()?);
        core::str::from_utf8(self.bytes(length)?).map_err(|_| ReadError::NotText)
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`ReadError::Trailing`] when bytes are left.
    pub fn end(self) -> Result<(), ReadError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ReadError::Trailing)
        }
    }
}

/// Appends values to a growing buffer. Used where messages are built, not on the packet path's inner loop.
pub trait ByteWriter {
    /// Appends raw bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    /// Appends a little-endian `u16`.
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a little-endian `u32`.
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a little-endian `i32`.
    fn put_i32(&mut self, value: i32) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a little-endian `u64`.
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
    /// Appends a little-endian `f64`.
    fn put_f64(&mut self, value: f64) {
        self.put(&value.to_le_bytes());
    }
    /// Appends the low 48 bits of a time in microseconds (8.9 years).
    fn put_time48(&mut self, value: u64) {
        debug_assert!(value < 1 << 48, "a time of {value} us does not fit 48 bits");
        let [a, b, c, d, e, f, _, _] = value.to_le_bytes();
        self.put(&[a, b, c, d, e, f]);
    }
    /// Appends a varint in its shortest form.
    fn put_varint(&mut self, value: u32) {
        self.put_varint64(u64::from(value));
    }
    /// Appends a varint in its shortest form.
    #[allow(clippy::cast_possible_truncation)]
    fn put_varint64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }
    /// Appends text with a one-byte length; the caller bounds it to 255 bytes.
    fn put_text(&mut self, text: &str) {
        let length = u8::try_from(text.len());
        debug_assert!(
            length.is_ok(),
            "text of {} bytes does not fit one length byte",
            text.len()
        );
        self.put_u8(length.unwrap_or(0));
        self.put(text.as_bytes());
    }
}

impl ByteWriter for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes into a fixed buffer. The caller has made sure of the room; writing past it is a defect, asserted in
/// test builds, and leaves [`SliceWriter::finish`] at `None`.
#[derive(Debug)]
pub struct SliceWriter<'a> {
    buffer: &'a mut [u8],
    used: usize,
    overflow: bool,
}

impl<'a> SliceWriter<'a> {
    /// A writer at the start of `buffer`.
    #[must_use]
    pub fn new(buffer: &'a mut [u8]) -> SliceWriter<'a> {
        SliceWriter {
            buffer,
            used: 0,
            overflow: false,
        }
    }

    /// Bytes written.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Bytes written, or `None` when the buffer was too small.
    #[must_use]
    pub fn finish(self) -> Option<usize> {
        (!self.overflow).then_some(self.used)
    }
}

impl ByteWriter for SliceWriter<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.used.saturating_add(bytes.len());
        match self.buffer.get_mut(self.used..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used = end;
            }
            None => {
                debug_assert!(false, "{} bytes do not fit behind {}", bytes.len(), self.used);
                self.overflow = true;
            }
        }
    }
}

/// Bytes of a value's varint, 1 to 5.
#[must_use]
pub fn varint_bytes(value: u32) -> usize {
    (38 - value.leading_zeros() as usize).max(7) / 7
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_their_edges() {
        for shift in 0..64 {
            for value in [
                1u64 << shift,
                (1u64 << shift) - 1,
                (1u64 << shift).wrapping_add(1),
            ] {
                let mut bytes = Vec::new();
                bytes.put_varint64(value);
                let mut reader = ByteReader::new(&bytes);
                assert_eq!(reader.varint64(), Ok(value));
                reader.end().unwrap();
                if let Ok(narrow) = u32::try_from(value) {
                    assert_eq!(bytes.len(), varint_bytes(narrow), "{value}");
                }
            }
        }
    }

    /// THREATS 32: overlong, overflowing and endless varints are refused.
    #[test]
    fn threats_32_only_the_shortest_varint_is_read() {
        let read = |bytes: &[u8]| ByteReader::new(bytes).varint();
        assert_eq!(read(&[0x80, 0x00]), Err(ReadError::NotCanonical));
        assert_eq!(read(&[0xFF, 0x00]), Err(ReadError::NotCanonical));
        assert_eq!(
            read(&[0xFF, 0xFF, 0xFF, 0xFF, 0x1F]),
            Err(ReadError::NotCanonical)
        );
        assert_eq!(read(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), Ok(u32::MAX));
        assert_eq!(read(&[0x80]), Err(ReadError::Short));
        let endless = [0xFFu8; 11];
        assert_eq!(ByteReader::new(&endless).varint64(), Err(ReadError::NotCanonical));
    }

    #[test]
    fn reading_never_passes_the_end() {
        let mut reader = ByteReader::new(&[5, b'a', b'b']);
        assert_eq!(reader.text(), Err(ReadError::Short));
        assert_eq!(ByteReader::new(&[1, 0xFF]).text(), Err(ReadError::NotText));
        assert_eq!(ByteReader::new(&[1, 2, 3]).u32(), Err(ReadError::Short));
        assert_eq!(ByteReader::new(&[1]).end(), Err(ReadError::Trailing));
        let mut bytes = Vec::new();
        bytes.put_time48((1 << 48) - 2);
        assert_eq!(ByteReader::new(&bytes).time48(), Ok((1 << 48) - 2));
    }
}
