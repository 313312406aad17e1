//! The inputs of the player that the relay has not acknowledged: numbered, bounded, repeated (SPEC PRE4).
//!
//! > Every Up datagram carries the oldest inputs kept, as many as fit; so each stands for all before it, and nothing is
//! > sent again because it was lost. The relay says which one it waits for next; that number never goes back.
//!
//! Memory is fixed: [`INPUTS_WINDOW`] places of [`INPUT_BYTES_MAX`] bytes. One more input takes the oldest one's place.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::limits::{INPUT_BYTES_MAX, INPUTS_BLOCK_BYTES, INPUTS_WINDOW};
use crate::wire::bytes::ByteWriter;
use crate::wire::input::put_inputs;

/// Why an input was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It is too long.
    #[error("an input of {bytes} bytes is longer than {INPUT_BYTES_MAX}: make it smaller, or two")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The session is over, or ends.
    #[error("an input after the end of the session: make a new client")]
    SessionOver,
    /// There are no more numbers.
    #[error("the session has no number left for an input: make a new client")]
    Exhausted,
}

/// What pushing an input did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pushed {
    /// Its number.
    pub(super) number: u32,
    /// Number of the one that had to go for it.
    pub(super) lost: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    length: usize,
    bytes: [u8; INPUT_BYTES_MAX],
}

/// The inputs kept: those numbered from `oldest` to before `next`, each at its number modulo the places.
#[derive(Debug)]
pub(super) struct Inputs {
    places: Box<[Place]>,
    oldest: u32,
    next: u32,
}

impl Inputs {
    pub(super) fn new() -> Inputs {
        let empty = Place {
            length: 0,
            bytes: [0; INPUT_BYTES_MAX],
        };
        Inputs {
            places: vec![empty; INPUTS_WINDOW].into_boxed_slice(),
            oldest: 1,
            next: 1,
        }
    }

    /// True when every input is acknowledged or lost.
    pub(super) fn is_empty(&self) -> bool {
        self.oldest == self.next
    }

    /// Keeps an input.
    ///
    /// # Errors
    /// [`InputError`]; then nothing changed.
    pub(super) fn push(&mut self, payload: &[u8]) -> Result<Pushed, InputError> {
        let bytes = payload.len();
        let number = self.next;
        // The number after the last of a block must be one, too.
        let next = number.checked_add(1).filter(|next| *next < u32::MAX);
        let next = next.ok_or(InputError::Exhausted)?;
        let lost = (self.kept() == INPUTS_WINDOW).then_some(self.oldest);
        let place = self.places.get_mut(place_of(number));
        let (Some(place), true) = (place, bytes <= INPUT_BYTES_MAX) else {
            return Err(InputError::TooLong { bytes });
        };
        place.length = bytes;
        for (to, from) in place.bytes.iter_mut().zip(payload) {
            *to = *from;
        }
        if lost.is_some() {
            self.oldest = self.oldest.saturating_add(1);
        }
        self.next = next;
        Ok(Pushed { number, lost })
    }

    /// Forgets what is not acknowledged; gives the number of the first, and how many there were.
    pub(super) fn forget(&mut self) -> Option<(u32, u32)> {
        let first = core::mem::replace(&mut self.oldest, self.next);
        let count = self.next.saturating_sub(first);
        (count > 0).then_some((first, count))
    }

    fn kept(&self) -> usize {
        usize::try_from(self.next.saturating_sub(self.oldest)).unwrap_or(INPUTS_WINDOW)
    }

    /// True when a relay that has heard all that was said may wait for this number.
    pub(super) fn may_await(&self, number: u32) -> bool {
        (1..=self.next).contains(&number)
    }

    /// The relay waits for `number`: those before it are with it. An older word changes nothing. Gives how many went.
    pub(super) fn acknowledge(&mut self, number: u32) -> u32 {
        let before = self.oldest;
        self.oldest = before.max(number.min(self.next));
        self.oldest.saturating_sub(before)
    }

    fn payload(&self, number: u32) -> &[u8] {
        let place = self.places.get(place_of(number));
        place
            .and_then(|place| place.bytes.get(..place.length))
            .unwrap_or_default()
    }

    /// Appends the block of the oldest inputs that fit; there must be one.
    pub(super) fn put_block(&self, out: &mut impl ByteWriter) {
        let mut room = INPUTS_BLOCK_BYTES;
        let fit = (self.oldest..self.next).take_while(|number| {
            let left = room.checked_sub(1 + self.payload(*number).len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let end = fit.last().map_or(self.oldest, |last| last.saturating_add(1));
        let payloads = (self.oldest..end).map(|number| self.payload(number));
        put_inputs(self.oldest, payloads, out);
    }
}

fn place_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(0) % INPUTS_WINDOW
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::wire::bytes::ByteReader;
    use crate::wire::input::InputsBlock;

    fn block(inputs: &Inputs) -> Vec<(u32, Vec<u8>)> {
        let mut bytes = Vec::new();
        inputs.put_block(&mut bytes);
        let mut reader = ByteReader::new(&bytes);
        let block = InputsBlock::read(&mut reader).unwrap();
        reader.end().unwrap();
        let read = block.iter().map(|(number, payload)| (number, payload.to_vec()));
        read.collect()
    }

    /// SPEC PRE4: inputs are repeated until the relay has them, oldest first; its word never goes back.
    #[test]
    fn pre4_inputs_are_kept_until_they_are_acknowledged() {
        let mut inputs = Inputs::new();
        for (number, payload) in (1u32..).zip([&b"left"[..], b"", b"fire"]) {
            let pushed = Pushed { number, lost: None };
            assert_eq!(inputs.push(payload), Ok(pushed));
        }
        let all = [(1, b"left".to_vec()), (2, Vec::new()), (3, b"fire".to_vec())];
        assert_eq!(block(&inputs), all);
        assert_eq!(inputs.acknowledge(3), 2);
        assert_eq!(inputs.acknowledge(2), 0, "older words come late");
        assert_eq!(block(&inputs), all[2..]);
        assert!(inputs.may_await(4) && !inputs.may_await(5) && !inputs.may_await(0));
        assert_eq!((inputs.acknowledge(4), inputs.is_empty()), (1, true));
        assert_eq!(inputs.push(b"jump").map(|pushed| pushed.number), Ok(4));
        assert_eq!(block(&inputs), [(4, b"jump".to_vec())]);
    }

    /// SPEC PRE4: the window is bounded: one more input takes the place of the oldest; one that is too long takes none.
    #[test]
    fn pre4_the_oldest_goes_when_the_window_is_full() {
        let mut inputs = Inputs::new();
        let long = [7; INPUT_BYTES_MAX + 1];
        assert_eq!(inputs.push(&long), Err(InputError::TooLong { bytes: 65 }));
        for number in 1..=INPUTS_WINDOW as u32 {
            assert_eq!(inputs.push(&number.to_le_bytes()).unwrap().lost, None);
        }
        assert!(inputs.push(&long).is_err());
        for number in 65..200u32 {
            let pushed = inputs.push(&number.to_le_bytes()).unwrap();
            let lost = number - INPUTS_WINDOW as u32;
            assert_eq!((pushed.number, pushed.lost), (number, Some(lost)));
        }
        let (first, payload) = block(&inputs).remove(0);
        assert_eq!((first, payload), (136, 136u32.to_le_bytes().to_vec()));
    }

    /// A block takes its bytes and no more, so that a report has room beside it.
    #[test]
    fn a_block_has_as_many_as_fit() {
        let mut inputs = Inputs::new();
        for _ in 0..20 {
            inputs.push(&[3; INPUT_BYTES_MAX]).unwrap();
        }
        assert_eq!(block(&inputs).len(), INPUTS_BLOCK_BYTES / (INPUT_BYTES_MAX + 1));
        let mut small = Inputs::new();
        for _ in 0..INPUTS_WINDOW {
            small.push(&[]).unwrap();
        }
        assert_eq!(block(&small).len(), INPUTS_WINDOW);
    }

    /// Numbers end before they wrap.
    #[test]
    fn the_last_number_is_the_last() {
        let mut inputs = Inputs::new();
        (inputs.oldest, inputs.next) = (u32::MAX - 2, u32::MAX - 2);
        assert_eq!(inputs.push(b"a").map(|pushed| pushed.number), Ok(u32::MAX - 2));
        assert_eq!(inputs.push(b"b"), Err(InputError::Exhausted));
        assert_eq!(block(&inputs), [(u32::MAX - 2, b"a".to_vec())]);
    }
}
