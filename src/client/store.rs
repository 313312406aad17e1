//! Places for many small values of one type, counted: a value stays while something holds its place.
//!
//! A store grows by blocks, so nothing is ever copied, and a client in a swarm of thousands has no more than it
//! needs. A place that nothing holds is used again before the store grows. Places are taken in rising order, round
//! and round: values that came together lie together, and are read together later, so that the machine can fetch
//! ahead.
//!
//! Memory: R x (size of a value + 2 1/8) bytes and up to a block, R the most held at once; the small lists grow by doubling.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// Where a value is in its store.
pub(super) type Place = u32;

/// No place.
pub(super) const NONE: Place = Place::MAX;

/// Values in one block.
const BLOCK: usize = 128;

/// Counted values.
pub(super) struct Store<T> {
    blocks: Vec<Vec<T>>,
    /// Holders of each place; 0 when it is free.
    holders: Vec<u16>,
    /// A bit for each place: set when it is free.
    free: Vec<u64>,
    free_count: usize,
    /// The word of `free` where the search for a place goes on.
    cursor: usize,
}

/// What is held; what free places have in them means nothing.
impl<T: core::fmt::Debug> core::fmt::Debug for Store<T> {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let held = (0..).zip(&self.holders).filter(|(_, holders)| **holders > 0);
        to.debug_map()
            .entries(held.map(|(place, holders)| (place, (holders, self.at(place)))))
            .finish()
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store {
            blocks: Vec::new(),
            holders: Vec::new(),
            free: Vec::new(),
            free_count: 0,
            cursor: 0,
        }
    }
}

impl<T> Store<T> {
    /// The value at a place.
    pub(super) fn at(&self, place: Place) -> Option<&T> {
        let place = place as usize;
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)
    }

    /// The value at a place, to be changed by fault injection only: every holder sees it.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn at_mut(&mut self, place: Place) -> Option<&mut T> {
        let place = place as usize;
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)
    }

    /// Puts a value in; it has one holder.
    pub(super) fn put(&mut self, value: T) -> Place {
        if let Some(place) = self.take_free() {
            let at = place as usize;
            let block = self.blocks.get_mut(at / BLOCK);
            if let (Some(to), Some(holders)) = (
                block.and_then(|block| block.get_mut(at % BLOCK)),
                self.holders.get_mut(at),
            ) {
                *to = value;
                *holders = 1;
            }
            return place;
        }
        // A client has at most 33 tables of 32,768 slots, and a display: places stay far below NONE.
        let place = Place::try_from(self.holders.len()).unwrap_or(NONE);
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK => block.push(value),
            _ => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(value);
                self.blocks.push(block);
            }
        }
        self.holders.push(1);
        self.free.resize(self.holders.len().div_ceil(64), 0);
        place
    }

    fn take_free(&mut self) -> Option<Place> {
        if self.free_count == 0 {
            return None;
        }
        let words = self.free.len();
        for step in 0..words {
            let index = (self.cursor + step) % words;
            let Some(word) = self.free.get_mut(index).filter(|word| **word != 0) else {
                continue;
            };
            let bit = word.trailing_zeros();
            *word &= *word - 1;
            self.free_count -= 1;
            self.cursor = index;
            return Place::try_from(index * 64).ok().map(|base| base + bit);
        }
        None
    }

    /// One holder more.
    pub(super) fn hold(&mut self, place: Place) {
        if let Some(holders) = self.holders.get_mut(place as usize) {
            *holders += 1;
        }
    }

    /// One holder less; true when that was the last.
    pub(super) fn drop_holder(&mut self, place: Place) -> bool {
        let Some(holders) = self
            .holders
            .get_mut(place as usize)
            .filter(|holders| **holders > 0)
        else {
            return false;
        };
        *holders -= 1;
        let last = *holders == 0;
        if let Some(word) = self.free.get_mut(place as usize / 64).filter(|_| last) {
            *word |= 1 << (place % 64);
            self.free_count += 1;
        }
        last
    }

    /// Places held.
    pub(super) fn held(&self) -> usize {
        self.holders.len() - self.free_count
    }

    /// Places there are: the most held at once.
    pub(super) fn places(&self) -> usize {
        self.holders.len()
    }
}
