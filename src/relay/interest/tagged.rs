//! Who may be seen by its tags, in the newest frame: a set for each tag bit, shared by the sessions of a shard.
//!
//! Invariant: the sets are those of one frame; they are made for the first session that asks of it, and hold at most
//! 33 bits a slot.

use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::slots::SlotSet;
use crate::state::view::Tags;

/// Sets by tag bit.
#[derive(Debug, Default)]
pub(super) struct Tagged {
    /// Of whom the sets are: stream and tick.
    of: Option<(u32, Tick)>,
    untagged: SlotSet,
    by_bit: Vec<SlotSet>,
}

impl Tagged {
    /// Adds to `found` whom a view of these tags may see of those who live in `frame`.
    pub(super) fn permitted(&mut self, tags: Tags, frame: &Frame, found: &mut SlotSet) {
        if self.of != Some((frame.stream_epoch, frame.tick)) {
            self.of = Some((frame.stream_epoch, frame.tick));
            self.sort(frame);
        }
        found.union(&self.untagged);
        for bit in bits_of(tags) {
            if let Some(set) = self.by_bit.get(bit) {
                found.union(set);
            }
        }
    }

    fn sort(&mut self, frame: &Frame) {
        self.untagged.clear();
        self.by_bit.iter_mut().for_each(SlotSet::clear);
        for slot in frame.alive().iter() {
            let tags = frame.tags(slot);
            if tags == 0 {
                self.untagged.insert(slot);
            }
            for bit in bits_of(tags) {
                if self.by_bit.len() <= bit {
                    self.by_bit.resize_with(bit + 1, SlotSet::default);
                }
                if let Some(set) = self.by_bit.get_mut(bit) {
                    set.insert(slot);
                }
            }
        }
    }
}

/// Numbers of the bits that are set, rising.
fn bits_of(mut tags: Tags) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (tags != 0).then(|| tags.trailing_zeros() as usize)?;
        tags &= tags - 1;
        Some(bit)
    })
}
