//! Bodies of snapshot parts.
//!
//! Bodies depend on the base table, the frame and the order of entries, never on the client: clients on the
//! same whole baseline share them. What they hold is noted in their [`Contents`].

use std::sync::Arc;

use crate::delta::encode;
use crate::limits::{BODY_MAX, PARTS_MAX, PARTS_PER_TICK};
use crate::wire::bits::BitWriter;

use super::choice::{PART_OVERHEAD, Portion};
use super::contents::{Closes, Contents, ContentsBuilder, InView, ViewContents};
use super::plan::{How, Planned, PlannedEntry};
use super::segments::SegmentCache;
use super::spare::Spare;

/// Bytes of a part while it is written: an entry more than fits, and the writer's head-room.
const PLACE: usize = BODY_MAX + (encode::ENTRY_BITS_MAX + encode::GAP_BITS_MAX) as usize / 8 + 16;

/// Where a part is written that begins at `start`.
fn place(bytes: &mut Vec<u8>, start: usize) -> &mut [u8] {
    if bytes.len() < start + PLACE {
        bytes.resize(start + PLACE, 0);
    }
    bytes.get_mut(start..).unwrap_or_default()
}

/// Where the parts end that hold all entries of a plan in slot order, and how many they are; `None` where they are too many, or
/// take more than `bytes` of datagrams.
fn split(
    plan: &Planned,
    segments: &mut SegmentCache,
    bytes: usize,
    ends: &mut [usize; PARTS_PER_TICK],
) -> Option<usize> {
    let (mut parts, mut bits, mut spent) = (0, 0, 0);
    let mut previous = None;
    for (index, entry) in plan.entries().iter().enumerate() {
        let of_entry = segments.segment(entry, plan).bits;
        let with_gap = segments.gaps().bits(previous, entry.slot) as usize + of_entry;
        if bits + with_gap <= BODY_MAX * 8 {
            bits += with_gap;
        } else {
            *ends.get_mut(parts)? = index;
            parts += 1;
            spent += bits.div_ceil(8) + PART_OVERHEAD;
            bits = segments.gaps().bits(None, entry.slot) as usize + of_entry;
        }
        previous = Some(entry.slot);
    }
    *ends.get_mut(parts)? = plan.entries().len();
    spent += bits.div_ceil(8) + PART_OVERHEAD;
    (spent <= bytes).then_some(parts + 1)
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
    /// Bytes of the parts.
    end: usize,
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

    /// True when all entries of a plan fit one part.
    #[must_use]
    pub fn fits_one_part(plan: &Planned, segments: &mut SegmentCache) -> bool {
        let mut bits = 0;
        let mut previous = None;
        plan.entries().iter().all(|entry| {
            bits += segments.gaps().bits(previous, entry.slot) as usize;
            bits += segments.segment(entry, plan).bits;
            previous = Some(entry.slot);
            bits <= BODY_MAX * 8
        })
    }

    /// Packs planned entries, in the plan's order, into at most [`PARTS_MAX`] parts. A part holds rising slots;
    /// where the order falls a new part begins. What does not fit is left out and the snapshot is then not
    /// exhaustive. With no entry there is one empty part: time moves on (SPEC DEC8).
    pub fn pack(&mut self, plan: &Planned, segments: &mut SegmentCache, spare: &mut Spare) {
        self.end = 0;
        self.parts.clear();
        self.records = 0;
        let recycled = self.recycled(spare);
        let mut builder = ContentsBuilder::reusing(recycled);
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

    /// Packs all entries of a view's plan into one part, where they take at most `room` bits; false, and nothing of use, where
    /// they take more.
    pub fn pack_all(
        &mut self,
        plan: &Planned,
        segments: &mut SegmentCache,
        in_view: InView<'_>,
        room: usize,
        spare: &mut Spare,
    ) -> bool {
        let mut contents = self.begin_view(in_view.closes, spare);
        let Some(view) = contents.view_mut() else {
            return false;
        };
        // Who has everybody needs no list of what was sent.
        let listed = !in_view.is_worth_a_set();
        let fits = self.pack_portion(plan.entries(), plan, segments, room, listed, view);
        if fits && !listed {
            view.has_everyone(in_view);
        }
        self.finish_view(contents);
        fits
    }

    /// Packs all entries of a view's plan into as few parts as hold them in slot order, where these take at most `bytes` of
    /// datagrams; false, and nothing, where they take more. The order of the parts turns with the ticks.
    pub fn pack_in_parts(
        &mut self,
        plan: &Planned,
        segments: &mut SegmentCache,
        in_view: InView<'_>,
        bytes: usize,
        spare: &mut Spare,
    ) -> bool {
        let turn = plan.turn();
        let mut ends = [0; PARTS_PER_TICK];
        let Some(parts) = split(plan, segments, bytes, &mut ends) else {
            return false;
        };
        let mut contents = self.begin_view(in_view.closes, spare);
        if let Some(view) = contents.view_mut() {
            for step in 0..parts {
                let part = (step + turn) % parts;
                let start = part.checked_sub(1).map_or(0, |before| ends[before]);
                let entries = plan.entries().get(start..ends[part]).unwrap_or_default();
                let fits = self.pack_portion(entries, plan, segments, BODY_MAX * 8, true, view);
                debug_assert!(fits, "parts end where they are full");
            }
            if in_view.is_worth_a_set() {
                view.has_everyone(in_view);
            }
        }
        self.finish_view(contents);
        true
    }

    /// Packs the portions of one view, each into a part. The order of the parts turns with the ticks, so that one that is always
    /// lost starves nobody (SPEC TAB8).
    pub fn pack_portions(
        &mut self,
        portions: &[Portion],
        plan: &Planned,
        segments: &mut SegmentCache,
        in_view: InView<'_>,
        exhaustive: bool,
        spare: &mut Spare,
    ) {
        let turn = plan.turn();
        let mut contents = self.begin_view(in_view.closes, spare);
        for step in 0..portions.len() {
            let portion = &portions[(step + turn) % portions.len()];
            if let Some(view) = contents.view_mut() {
                let fits = self.pack_portion(portion.entries(), plan, segments, BODY_MAX * 8, true, view);
                debug_assert!(fits, "a portion is counted with the longest gaps");
            }
        }
        if let Some(view) = contents.view_mut()
            && exhaustive
            && in_view.is_worth_a_set()
        {
            view.has_everyone(in_view);
        }
        self.finish_view(contents);
    }

    /// Memory for what the next parts hold: that of the last, where nobody needs it, else some that is spare.
    fn recycled(&mut self, spare: &mut Spare) -> Contents {
        if Arc::get_mut(&mut self.contents).is_none() {
            self.contents = spare.take();
        }
        Arc::get_mut(&mut self.contents)
            .map(core::mem::take)
            .unwrap_or_default()
    }

    fn begin_view(&mut self, closes: Closes, spare: &mut Spare) -> Contents {
        self.end = 0;
        self.parts.clear();
        self.records = 0;
        let recycled = self.recycled(spare);
        Contents::of_view(recycled, closes)
    }

    fn finish_view(&mut self, contents: Contents) {
        match Arc::get_mut(&mut self.contents) {
            Some(place) => *place = contents,
            None => self.contents = Arc::new(contents),
        }
    }

    /// Packs one part; false where the entries take more than `room` bits.
    fn pack_portion(
        &mut self,
        entries: &[PlannedEntry],
        plan: &Planned,
        segments: &mut SegmentCache,
        room: usize,
        listed: bool,
        view: &mut ViewContents,
    ) -> bool {
        debug_assert!(room <= BODY_MAX * 8);
        let (start, gaps) = (self.end, segments.gaps().clone());
        let mut writer = BitWriter::new(place(&mut self.bytes, start));
        let mut previous = None;
        for entry in entries {
            gaps.put(previous, entry.slot, &mut writer);
            let segment = segments.segment(entry, plan);
            writer.put_bits(segment.bytes, segment.bits);
            if writer.bits() > room {
                return false;
            }
            previous = Some(entry.slot);
            // That somebody moves is no record: the table keeps what the base has.
            if listed && entry.how != How::Awake {
                view.push(entry.slot, entry.is_removal());
            }
        }
        let length = writer.finish();
        self.end = start + length;
        self.parts.push(BodyPart {
            start,
            length,
            count: u32::try_from(entries.len()).unwrap_or(0),
        });
        self.records += entries.len();
        view.end_part();
        true
    }

    /// Packs one part and says how many entries it took.
    fn pack_part(
        &mut self,
        entries: &[PlannedEntry],
        plan: &Planned,
        segments: &mut SegmentCache,
        builder: &mut ContentsBuilder,
    ) -> usize {
        let (start, gaps) = (self.end, segments.gaps().clone());
        let mut writer = BitWriter::new(place(&mut self.bytes, start));
        let mut previous = None;
        let mut taken = 0;
        for entry in entries {
            if previous.is_some_and(|previous| entry.slot <= previous) {
                break;
            }
            let segment = segments.segment(entry, plan);
            let bits = gaps.bits(previous, entry.slot) as usize + segment.bits;
            if writer.bits() + bits > BODY_MAX * 8 {
                break;
            }
            gaps.put(previous, entry.slot, &mut writer);
            writer.put_bits(segment.bytes, segment.bits);
            builder.push(entry.slot, entry.is_removal());
            previous = Some(entry.slot);
            taken += 1;
        }
        let length = writer.finish();
        self.end = start + length;
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
