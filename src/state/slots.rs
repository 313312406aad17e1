//! Dense places of a world and sets of them.
//!
//! A slot stands for an entity while it lives and for some time after, so that a slot number is never reused
//! while a packet that meant its former tenant can still arrive.

/// A dense place of a world, below [`SLOTS_MAX`](crate::limits::SLOTS_MAX).
pub type Slot = u16;

/// A set of slots as a bit mask.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// An empty set with room for `slots` slots.
    #[must_use]
    pub fn with_slots(slots: usize) -> SlotSet {
        SlotSet {
            words: vec![0; slots.div_ceil(64)],
        }
    }

    /// Adds a slot, growing as needed.
    pub fn insert(&mut self, slot: Slot) {
        let word = usize::from(slot) / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= 1 << (slot % 64);
        }
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: Slot) {
        if let Some(bits) = self.words.get_mut(usize::from(slot) / 64) {
            *bits &= !(1 << (slot % 64));
        }
    }

    /// True when the slot is in the set.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        self.words
            .get(usize::from(slot) / 64)
            .is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    /// Adds every slot of `other`. A tick's worth of changes is the OR of its dirty masks.
    pub fn union(&mut self, other: &SlotSet) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// The slots of this set that `other` lacks, in rising order.
    pub fn without<'a>(&'a self, other: &'a SlotSet) -> impl Iterator<Item = Slot> + 'a {
        let theirs = other.words.iter().copied().chain(core::iter::repeat(0));
        bits(
            (0..)
                .zip(&self.words)
                .zip(theirs)
                .map(|((word, mine), theirs)| (word, mine & !theirs)),
        )
    }

    /// The slots below `slot`, by 64, with how many of the set lie in each.
    pub fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().map(|bits| bits.count_ones())
    }

    /// How many slots of the set are among the 64 around `slot` and below it.
    #[must_use]
    pub fn before_in_word(&self, slot: Slot) -> usize {
        let word = self.words.get(usize::from(slot) / 64).copied().unwrap_or(0);
        (word & ((1 << (slot % 64)) - 1)).count_ones() as usize
    }

    /// The slots by 64, the lowest bit the lowest slot.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The 64 slots of a word; none beyond the last.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Sets the 64 slots of a word, growing as needed.
    pub fn set_word(&mut self, index: usize, bits: u64) {
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        if let Some(word) = self.words.get_mut(index) {
            *word = bits;
        }
    }

    /// Takes over the slots of another, keeping its own room.
    pub fn copy_from(&mut self, other: &SlotSet) {
        self.words.clone_from(&other.words);
    }

    /// Empties the set, keeping its room.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Number of slots in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// True when no slot is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|bits| *bits == 0)
    }

    /// The slots in rising order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.iter_from(0)
    }

    /// The slots from `first` on, in rising order.
    pub fn iter_from(&self, first: Slot) -> impl Iterator<Item = Slot> + '_ {
        let start = usize::from(first) / 64;
        let mut keep = u64::MAX << (first % 64);
        let words = (0..).zip(&self.words).skip(start);
        bits(words.map(move |(word, bits)| (word, bits & core::mem::replace(&mut keep, u64::MAX))))
    }

    /// Heap bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// The slots of one word, in rising order.
#[inline]
pub fn slots_of(word: usize, mut bits: u64) -> impl Iterator<Item = Slot> {
    core::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let bit = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        Slot::try_from(word * 64 + bit).ok()
    })
}

/// The slots of numbered words, in rising order.
fn bits(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = Slot> {
    words.flat_map(|(word, rest)| slots_of(word, rest))
}

impl Extend<Slot> for SlotSet {
    fn extend<T: IntoIterator<Item = Slot>>(&mut self, slots: T) {
        slots.into_iter().for_each(|slot| self.insert(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// A slot set is a set: the same as an ordered set of numbers under every operation.
        #[test]
        fn slot_sets_agree_with_ordered_sets(a in prop::collection::vec(0u16..700, 0..80),
                                             b in prop::collection::vec(0u16..700, 0..80)) {
            let (mut set, mut oracle) = (SlotSet::default(), BTreeSet::new());
            for slot in &a {
                set.insert(*slot);
                oracle.insert(*slot);
            }
            let mut other = SlotSet::with_slots(10);
            other.extend(b.iter().copied());
            let beside: Vec<Slot> = oracle.iter().copied().filter(|slot| !b.contains(slot)).collect();
            prop_assert_eq!(set.without(&other).collect::<Vec<_>>(), beside);
            let counts: Vec<u32> = set.counts().collect();
            for slot in (0..700).step_by(7) {
                let words: u32 = counts.iter().take(usize::from(slot) / 64).sum();
                let rank = words as usize + set.before_in_word(slot);
                prop_assert_eq!(rank, oracle.range(..slot).count());
            }
            for slot in &b {
                prop_assert_eq!(set.contains(*slot), oracle.contains(slot));
                set.remove(*slot);
                oracle.remove(slot);
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), oracle.iter().copied().collect::<Vec<_>>());
            let from = a.first().copied().unwrap_or(63);
            prop_assert_eq!(
                set.iter_from(from).collect::<Vec<_>>(),
                oracle.range(from..).copied().collect::<Vec<_>>()
            );
            let mut words = SlotSet::default();
            for (index, word) in set.words().iter().enumerate().rev() {
                prop_assert_eq!(set.word(index), *word);
                words.set_word(index, *word);
            }
            prop_assert_eq!(words.iter().collect::<Vec<_>>(), set.iter().collect::<Vec<_>>());
            prop_assert_eq!(words.word(700), 0);
            set.union(&other);
            oracle.extend(b.iter().copied());
            prop_assert_eq!(set.len(), oracle.len());
            prop_assert_eq!(set.is_empty(), oracle.is_empty());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), oracle.into_iter().collect::<Vec<_>>());
        }
    }
}
