//! The lines of a zstd-compressed text, one at a time, none longer than the bound.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::TraceFault;
use crate::limits::TRACE_LINE_MAX;
use std::io::{BufRead, BufReader, Cursor, Read};

/// How a zstd frame begins.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// How a frame that readers skip begins, after a first byte of 0x50 to 0x5F.
const SKIPPED: [u8; 3] = [0x2A, 0x4D, 0x18];

/// Reads lines; holds one at a time.
pub(crate) struct Lines {
    stream: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines {
    /// The lines of a zstd stream.
    pub(crate) fn unpack(stream: impl Read + Send + 'static) -> Result<Lines, TraceFault> {
        let mut stream = stream;
        let mut begin = Vec::with_capacity(MAGIC.len());
        (&mut stream)
            .take(MAGIC.len() as u64)
            .read_to_end(&mut begin)
            .map_err(TraceFault::Stream)?;
        let is_skipped = begin
            .split_first()
            .is_some_and(|(first, rest)| first & 0xF0 == 0x50 && *rest == SKIPPED);
        // A beginning that is cut off is left to the decoder, which says so.
        if !MAGIC.starts_with(&begin) && !is_skipped {
            let is_text = begin.first() == Some(&b'{');
            return Err(TraceFault::NotZstd { is_text });
        }
        let decoder = zstd::Decoder::new(Cursor::new(begin).chain(stream)).map_err(TraceFault::Stream)?;
        Ok(Lines {
            stream: Box::new(BufReader::new(decoder)),
            buffer: Vec::new(),
            number: 0,
        })
    }

    /// The number of the line that was last asked for, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end, or `None` after the last. A last line needs no end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TraceFault> {
        self.number += 1;
        self.buffer.clear();
        let mut bounded = (&mut self.stream).take(TRACE_LINE_MAX as u64 + 1);
        let read = bounded
            .read_until(b'\n', &mut self.buffer)
            .map_err(TraceFault::Stream)?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        if self.buffer.len() > TRACE_LINE_MAX {
            return Err(TraceFault::LineTooLong);
        }
        Ok((read > 0).then_some(&self.buffer))
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Lines {
        Lines::unpack(Cursor::new(zstd::encode_all(text, 1).expect("memory"))).expect("a decoder")
    }

    #[test]
    fn lines_come_without_their_ends() {
        let mut lines = lines(b"one\n\nthree");
        for (number, text) in [(1, "one"), (2, ""), (3, "three")] {
            assert_eq!(lines.next().expect("a line"), Some(text.as_bytes()));
            assert_eq!(lines.number(), number);
        }
        assert_eq!(lines.next().expect("the end"), None);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
        let mut text = vec![b'x'; TRACE_LINE_MAX];
        text.extend_from_slice(b"\nshort");
        let mut whole = lines(&text);
        assert_eq!(
            whole.next().expect("the bound").map(<[u8]>::len),
            Some(TRACE_LINE_MAX)
        );
        assert_eq!(whole.next().expect("a line"), Some(&b"short"[..]));
        text.insert(0, b'x');
        let error = lines(&text).next().expect_err("one too many").to_string();
        assert_eq!(error, "the line is longer than 4194304 bytes");
    }
}
