//! The relay's outbox in the simulation: datagram buffers that are used again.

use crate::limits::{DATAGRAM_MAX, SEND_SLOT_BYTES};
use crate::relay::outbox::{Outbox, Path};

/// Datagrams on their way out.
pub struct Post {
    room: usize,
    slots: Vec<[u8; SEND_SLOT_BYTES]>,
    letters: Vec<(Path, usize)>,
}

impl Post {
    /// An outbox that takes `room` datagrams before it must be emptied.
    #[must_use]
    pub fn new(room: usize) -> Post {
        Post {
            room,
            slots: Vec::new(),
            letters: Vec::new(),
        }
    }

    /// True when nothing is on its way out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Hands out every datagram in order, in a buffer with room behind it, and empties the outbox.
    pub fn drain(&mut self, mut each: impl FnMut(Path, &mut [u8], usize)) {
        for ((path, length), slot) in self.letters.drain(..).zip(&mut self.slots) {
            each(path, &mut slot[..], length);
        }
    }
}

impl Outbox for Post {
    fn room(&self) -> usize {
        self.room - self.letters.len()
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        let next = self.letters.len();
        if next >= self.room {
            return None;
        }
        if next == self.slots.len() {
            self.slots.push([0; SEND_SLOT_BYTES]);
        }
        self.slots.get_mut(next).map(|slot| &mut slot[..DATAGRAM_MAX])
    }

    fn commit(&mut self, length: usize, path: Path) {
        self.letters.push((path, length));
    }
}
