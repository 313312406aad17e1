//! Cuts a byte stream into messages: each is a `u32` little-endian length and that many bytes of payload.
//!
//! Invariant: the splitter holds no more than one unfinished message and what was pushed last. A length above
//! the bound poisons it: where the next message begins cannot be known any more, so every later call says so.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::UpstreamError;

/// Bytes of a length prefix.
pub const PREFIX_BYTES: usize = 4;

/// A length-delimited reader without I/O: [`push`](Splitter::push) what came, then take messages with
/// [`next`](Splitter::next) until there is none.
#[derive(Clone, Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    start: usize,
    max: usize,
}

impl Splitter {
    /// A splitter for messages of at most `max` bytes of payload.
    #[must_use]
    pub fn new(max: usize) -> Splitter {
        Splitter {
            buffer: Vec::new(),
            start: 0,
            max,
        }
    }

    /// Takes in bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start.min(self.buffer.len()));
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The payload of the next whole message, or `None` until more bytes come.
    ///
    /// # Errors
    /// [`UpstreamError::TooLong`] for a length above the bound, now and on every later call.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<&[u8]>, UpstreamError> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix);
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if size > self.max {
            return Err(UpstreamError::TooLong {
                length,
                max: self.max,
            });
        }
        let Some(payload) = rest.get(..size) else {
            return Ok(None);
        };
        self.start += PREFIX_BYTES + size;
        Ok(Some(payload))
    }

    /// Bytes pushed and not yet taken: more than none at the end of a connection is a message cut short.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }

    /// Forgets what is pending and gives its memory back: a new connection begins.
    pub fn reset(&mut self) {
        self.buffer = Vec::new();
        self.start = 0;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn framed(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for payload in payloads {
            bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    #[test]
    fn messages_come_out_whole_however_they_are_cut() {
        let payloads: [&[u8]; 4] = [b"", b"a", b"hello", &[7; 300]];
        let bytes = framed(&payloads);
        for step in [1, 2, 3, 5, 64, bytes.len()] {
            let mut splitter = Splitter::new(300);
            let mut got = Vec::new();
            for piece in bytes.chunks(step) {
                splitter.push(piece);
                while let Some(payload) = splitter.next().unwrap() {
                    got.push(payload.to_vec());
                }
                assert!(splitter.buffer.len() <= 304 + step, "bounded");
            }
            assert_eq!(got, payloads);
            assert_eq!(splitter.pending(), 0);
        }
    }

    /// THREATS 83: a broken length prefix is refused at once, with nothing reserved for it, and stays refused.
    #[test]
    fn threats_83_a_broken_length_is_refused_at_once_and_for_good() {
        let mut splitter = Splitter::new(300);
        splitter.push(&framed(&[b"ok"]));
        splitter.push(&[0xFF, 0xFF, 0xFF, 0x7F]);
        assert_eq!(splitter.next().unwrap().unwrap(), b"ok");
        let error = splitter.next().unwrap_err();
        assert_eq!(
            error,
            UpstreamError::TooLong {
                length: 0x7FFF_FFFF,
                max: 300
            }
        );
        splitter.push(&framed(&[b"ok"]));
        assert_eq!(splitter.next().unwrap_err(), error);
        assert!(splitter.buffer.capacity() < 64);
        assert_eq!(
            error.to_string(),
            "upstream stream refused: a message of 2147483647 bytes is announced, at most 300 are allowed, so the length prefix is broken"
        );
        splitter.reset();
        splitter.push(&framed(&[b"ok"]));
        assert_eq!(splitter.next().unwrap().unwrap(), b"ok");
    }
}
