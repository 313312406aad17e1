//! Bodies of snapshot parts, and the record of what each part holds.
//!
//! Bodies depend on the base table, the frame and the order of entries, never on the client: clients on the
//! same whole baseline share them. What was sent is kept with the candidate until its report comes.

use std::sync::Arc;

use crate::delta::encode;
use crate::limits::{BODY_MAX, PARTS_MAX};
use crate::state::slots::Slot;
use crate::wire::bits::BitWriter;

use super::plan::{Planned, PlannedEntry};
use super::segments::SegmentCache;

const REMOVED: u16 = 1 << 15;

/// What the parts of one snapshot hold: slots, each updated or removed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Contents {
    entries: Vec<u16>,
    ends: Vec<u16>,
    exhaustive: bool,
}

impl Contents {
    /// Number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.ends.len()
    }

    /// True when holding the parts of `mask` makes the table equal to the whole frame.
    #[must_use]
    pub fn is_exhaustive(&self, mask: u32) -> bool {
        self.exhaustive && mask == full_mask(self.ends.len())
    }

    /// The entries of the parts in `mask`: the slot, and whether it was removed.
    pub fn held(&self, mask: u32) -> impl Iterator<Item = (Slot, bool)> + '_ {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        let parts = starts
            .zip(&self.ends)
            .enumerate()
            .filter(move |(part, _)| mask >> part & 1 == 1);
        parts.flat_map(|(_, (start, end))| {
            let entries = self
                .entries
                .get(usize::from(start)..usize::from(*end))
                .unwrap_or_default();
            entries
                .iter()
                .map(|entry| (entry & !REMOVED, entry & REMOVED != 0))
        })
    }

    /// Heap bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        (self.entries.capacity() + self.ends.capacity()) * size_of::<u16>()
    }
}

/// A mask of the lowest `parts` bits.
#[must_use]
pub fn full_mask(parts: usize) -> u32 {
    u32::try_from((1u64 << parts.min(PARTS_MAX)) - 1).unwrap_or(u32::MAX)
}

/// Builds [`Contents`] part by part.
#[derive(Debug, Default)]
pub struct ContentsBuilder {
    contents: Contents,
}

impl ContentsBuilder {
    /// An entry of the current part.
    pub fn push(&mut self, slot: Slot, removed: bool) {
        self.contents
            .entries
            .push(slot | if removed { REMOVED } else { 0 });
    }

    /// The current part ends.
    pub fn end_part(&mut self) {
        self.contents
            .ends
            .push(u16::try_from(self.contents.entries.len()).unwrap_or(u16::MAX));
    }

    /// The contents; `exhaustive` when all parts together make the whole frame.
    #[must_use]
    pub fn finish(mut self, exhaustive: bool) -> Contents {
        self.contents.exhaustive = exhaustive;
        self.contents
    }
}

/// One part's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPart {
    start: usize,
    length: usize,
    /// Entries in it.
    pub count: u32,
}

/// The bodies of one snapshot.
#[derive(Debug, Default)]
pub struct Bodies {
    bytes: Vec<u8>,
    parts: Vec<BodyPart>,
    contents: Arc<Contents>,
    records: usize,
}

impl Bodies {
    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[BodyPart] {
        &self.parts
    }

    /// A part's bytes.
    #[must_use]
    pub fn body(&self, part: &BodyPart) -> &[u8] {
        self.bytes
            .get(part.start..part.start + part.length)
            .unwrap_or_default()
    }

    /// What the parts hold.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// Entries in all parts.
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// Packs planned entries, in the plan's order, into at most [`PARTS_MAX`] parts. A part holds rising slots;
    /// where the order falls a new part begins. What does not fit is left out and the snapshot is then not
    /// exhaustive. With no entry there is one empty part: time moves on (SPEC DEC8).
    pub fn pack(&mut self, plan: &Planned, segments: &mut SegmentCache) {
        self.bytes.clear();
        self.parts.clear();
        self.records = 0;
        let recycled = Arc::get_mut(&mut self.contents)
            .map(core::mem::take)
            .unwrap_or_default();
        let mut builder = ContentsBuilder { contents: recycled };
        builder.contents.entries.clear();
        builder.contents.ends.clear();
        let mut rest = plan.entries();
        loop {
            let taken = self.pack_part(rest, plan, segments, &mut builder);
            rest = rest.get(taken..).unwrap_or_default();
            if rest.is_empty() || self.parts.len() >= PARTS_MAX {
                break;
            }
        }
        let contents = builder.finish(plan.is_exhaustive() && rest.is_empty());
        match Arc::get_mut(&mut self.contents) {
            Some(place) => *place = contents,
            None => self.contents = Arc::new(contents),
        }
    }

    /// Packs one part and says how many entries it took.
    fn pack_part(
        &mut self,
        entries: &[PlannedEntry],
        plan: &Planned,
        segments: &mut SegmentCache,
        builder: &mut ContentsBuilder,
    ) -> usize {
        let start = self.bytes.len();
        self.bytes.resize(start + BODY_MAX + 8, 0);
        let mut writer = BitWriter::new(self.bytes.get_mut(start..).unwrap_or_default());
        let mut previous = None;
        let mut taken = 0;
        for entry in entries {
            if previous.is_some_and(|previous| entry.slot <= previous) {
                break;
            }
            let segment = segments.segment(entry, plan);
            let bits = encode::gap_bits(previous, entry.slot) as usize + segment.bits;
            if writer.bits() + bits > BODY_MAX * 8 {
                break;
            }
            encode::gap(previous, entry.slot, &mut writer);
            writer.put_bits(segment.bytes, segment.bits);
            builder.push(entry.slot, entry.is_removal());
            previous = Some(entry.slot);
            taken += 1;
        }
        let length = writer.finish();
        self.bytes.truncate(start + length);
        builder.end_part();
        self.parts.push(BodyPart {
            start,
            length,
            count: u32::try_from(taken).unwrap_or(0),
        });
        self.records += taken;
        taken
    }
}
