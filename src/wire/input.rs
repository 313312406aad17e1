//! Inputs on their way up: the block a client repeats until the relay has them (SPEC PRE4).
//!
//! A block begins with the oldest input the client still keeps and holds as many after it, in order, as fit. So its
//! first number says that all before are with the relay or lost, and the relay needs to remember one number alone: the
//! next it waits for. Inputs are numbered from 1, rising by one; a session ends long before they do.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::bytes::{ByteReader, ByteWriter, ReadError};
use crate::limits::{INPUT_BYTES_MAX, INPUTS_WINDOW};

/// Writes a block of the leading `inputs`, of which the first has the number `first`: at least one, at most
/// [`INPUTS_WINDOW`] of at most [`INPUT_BYTES_MAX`] bytes each.
pub fn put_inputs<'a>(
    first: u32,
    inputs: impl ExactSizeIterator<Item = &'a [u8]>,
    out: &mut impl ByteWriter,
) {
    debug_assert!((1..=INPUTS_WINDOW).contains(&inputs.len()) && first > 0);
    out.put_varint(first);
    out.put_u8(u8::try_from(inputs.len()).unwrap_or(0));
    for payload in inputs {
        debug_assert!(payload.len() <= INPUT_BYTES_MAX);
        out.put_u8(u8::try_from(payload.len()).unwrap_or(0));
        out.put(payload);
    }
}

/// A block that was read: its form is checked, its inputs are still in the datagram.
#[derive(Clone, Copy, Debug)]
pub struct InputsBlock<'a> {
    first: u32,
    count: u8,
    inputs: ByteReader<'a>,
}

impl<'a> InputsBlock<'a> {
    /// Reads a block.
    ///
    /// # Errors
    /// [`ReadError`]: no input or too many, one that is too long, a number that is zero or passes the largest, bytes
    /// missing.
    pub fn read(reader: &mut ByteReader<'a>) -> Result<InputsBlock<'a>, ReadError> {
        let first = reader.varint()?;
        let count = reader.u8()?;
        let in_bounds = first > 0 && first.checked_add(u32::from(count)).is_some();
        if count == 0 || usize::from(count) > INPUTS_WINDOW || !in_bounds {
            return Err(ReadError::OutOfRange);
        }
        let inputs = *reader;
        for _ in 0..count {
            take_input(reader)?;
        }
        Ok(InputsBlock { first, count, inputs })
    }

    /// Number of the first input.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The inputs with their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let mut inputs = self.inputs;
        (self.first..self.first.saturating_add(u32::from(self.count)))
            .map_while(move |number| take_input(&mut inputs).ok().map(|payload| (number, payload)))
    }
}

fn take_input<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], ReadError> {
    let length = usize::from(reader.u8()?);
    if length > INPUT_BYTES_MAX {
        return Err(ReadError::OutOfRange);
    }
    reader.bytes(length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inputs: [&[u8]; 3] = [b"left", b"", b"fire"];
        let mut bytes = Vec::new();
        put_inputs(7, inputs.iter().copied(), &mut bytes);
        let mut reader = ByteReader::new(&bytes);
        let block = InputsBlock::read(&mut reader).unwrap();
        reader.end().unwrap();
        let read: Vec<_> = block.iter().collect();
        assert_eq!(read, [(7, &b"left"[..]), (8, &b""[..]), (9, &b"fire"[..])]);
    }

    #[test]
    fn blocks_without_form_are_refused() {
        for bytes in [
            &[1, 0][..],
            &[0, 1, 0],
            &[1, 65],
            &[1, 1, 65],
            &[1, 2, 0],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1, 0],
        ] {
            assert!(
                InputsBlock::read(&mut ByteReader::new(bytes)).is_err(),
                "{bytes:?}"
            );
        }
    }
}
