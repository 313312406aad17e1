//! Bodies of snapshot parts, and the record of what each part holds.
//!
//! Bodies depend on the base table, the frame and the order of entries, never on the client: clients on the
//! same whole baseline share them. What was sent is kept with the candidate until its report comes.

use std::sync::Arc;

use crate::delta::encode;
use crate::limits::{BODY_MAX, PARTS_MAX, PARTS_PER_TICK};
use crate::sequence::Tick;
use crate::state::slots::{Slot, SlotSet};
use crate::wire::bits::BitWriter;

use super::choice::{PART_OVERHEAD, Portion};
use super::plan::{How, Planned, PlannedEntry};
use super::segments::SegmentCache;
use super::spare::Spare;

/// What the parts of one snapshot hold: which slots, and which of them were removed.
///
/// Shared bodies hold much of a world: a part's slots rise and no other part's lie between them, so a part is a range of
/// slots and all of them together one bit a slot, and one more for what was removed: 256 bytes at a thousand entities,
/// whatever was sent. Those of one view hold little of a world that may be large, chosen by priority: two bytes an entry.
/// Where nothing was left out it is who is in view that tells what the client has then: a bit a slot.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Contents {
    slots: SlotSet,
    removed: SlotSet,
    ranges: Vec<Range>,
    exhaustive: bool,
    view: Option<ViewContents>,
}

/// First and last slot of a part; `None` for a part without entries.
type Range = Option<(Slot, Slot)>;

/// The bit of a listed slot that says it was removed.
const REMOVED: u16 = 1 << 15;
const _: () = assert!(crate::limits::SLOTS_MAX <= REMOVED as usize);

/// What a snapshot of one view holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ViewContents {
    /// Slots by part, with [`REMOVED`].
    listed: Vec<u16>,
    /// Where each part ends in the list.
    ends: Vec<u16>,
    /// Whether the base, or the base with all parts, has the whole view.
    closes: Closes,
    /// What the client has with all parts, where nothing was left out.
    everyone: Option<Everyone>,
    /// Memory for the next.
    spare: SlotSet,
}

/// Everybody in one view at a tick, each with the record of that tick, but perhaps one: the session's own entity, whose
/// motion goes beside the snapshots (SPEC CTL3), keeps the record of an older tick.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Everyone {
    /// Who.
    pub slots: SlotSet,
    /// The one, and the tick of its record.
    pub own: Option<(Slot, Tick)>,
}

impl Everyone {
    /// The tick of a slot's record in the table of `tick`.
    #[must_use]
    pub fn known(&self, slot: Slot, tick: Tick) -> Option<Tick> {
        let of_slot = match self.own {
            Some((own, known)) if own == slot => known,
            _ => tick,
        };
        self.slots.contains(slot).then_some(of_slot)
    }

    /// Everybody by rising slot, with the tick of its record in the table of `tick`.
    pub fn known_of_all(&self, tick: Tick) -> impl Iterator<Item = (Slot, Tick)> + '_ {
        self.slots.iter().map(move |slot| match self.own {
            Some((own, known)) if own == slot => (slot, known),
            _ => (slot, tick),
        })
    }
}

/// When a table made of a snapshot has every member of the view at its tick (SPEC DEC12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closes {
    /// Whatever is held of it: the base has them all.
    Always,
    /// With all its parts.
    WithAllParts,
    /// Not yet: somebody who enters was left out.
    No,
}

impl ViewContents {
    fn has_everyone(&mut self, in_view: InView<'_>) {
        let mut slots = core::mem::take(&mut self.spare);
        slots.copy_from(in_view.slots);
        self.everyone = Some(Everyone {
            slots,
            own: in_view.own,
        });
    }
}

/// Who is in a view whose plan is packed.
#[derive(Clone, Copy, Debug)]
pub struct InView<'a> {
    /// The members.
    pub slots: &'a SlotSet,
    /// How many they are.
    pub members: usize,
    /// The session's own entity, where its record stays that of an older tick, and that tick.
    pub own: Option<(Slot, Tick)>,
    /// When a table has them all.
    pub closes: Closes,
}

impl InView<'_> {
    /// A set takes no more than about twice what a list of the members would.
    fn is_worth_a_set(&self) -> bool {
        let listed = self.members * size_of::<(Slot, u16)>();
        size_of_val(self.slots.words()) <= 2 * listed + 128
    }
}

impl Contents {
    /// Number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.view
            .as_ref()
            .map_or(self.ranges.len(), |view| view.ends.len())
    }

    /// For a snapshot of one view: whether a table with the parts of `mask` has all of it. `None` for one of the whole
    /// world.
    #[must_use]
    pub fn closes_view(&self, mask: u32) -> Option<bool> {
        self.view.as_ref().map(|view| match view.closes {
            Closes::Always => true,
            Closes::WithAllParts => mask == full_mask(view.ends.len()),
            Closes::No => false,
        })
    }

    /// Whom the client has when it holds the parts of `mask`, where that is everybody in view.
    #[must_use]
    pub fn everyone(&self, mask: u32) -> Option<&Everyone> {
        let view = self.view.as_ref()?;
        let everyone = view.everyone.as_ref()?;
        (mask == full_mask(view.ends.len())).then_some(everyone)
    }

    /// True when holding the parts of `mask` makes the table equal to the whole frame.
    #[must_use]
    pub fn is_exhaustive(&self, mask: u32) -> bool {
        self.exhaustive && self.view.is_none() && mask == full_mask(self.ranges.len())
    }

    /// Entries of all parts.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.view
            .as_ref()
            .map_or_else(|| self.slots.len(), |view| view.listed.len())
    }

    /// The entries of the parts in `mask`: the slot, and whether it was removed.
    pub fn held(&self, mask: u32) -> impl Iterator<Item = (Slot, bool)> + '_ {
        let parts = self
            .ranges
            .iter()
            .enumerate()
            .filter(move |(part, _)| mask >> part & 1 == 1);
        parts
            .filter_map(|(_, range)| *range)
            .flat_map(|(first, last)| self.slots.iter_from(first).take_while(move |slot| *slot <= last))
            .map(|slot| (slot, self.removed.contains(slot)))
            .chain(self.listed(mask))
    }

    fn listed(&self, mask: u32) -> impl Iterator<Item = (Slot, bool)> + '_ {
        self.view.iter().flat_map(move |view| {
            let starts = core::iter::once(0).chain(view.ends.iter().copied());
            let parts = starts.zip(&view.ends).enumerate();
            let held = parts.filter(move |(part, _)| mask >> part & 1 == 1);
            held.flat_map(|(_, (start, end))| {
                let part = view.listed.get(usize::from(start)..usize::from(*end));
                part.unwrap_or_default()
                    .iter()
                    .map(|entry| (entry & !REMOVED, entry & REMOVED != 0))
            })
        })
    }

    /// Heap bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let view = self.view.as_ref().map_or(0, |view| {
            let lists = (view.listed.capacity() + view.ends.capacity()) * size_of::<u16>();
            let everyone = view
                .everyone
                .as_ref()
                .map_or(0, |everyone| everyone.slots.heap_bytes());
            lists + everyone + view.spare.heap_bytes()
        });
        let sets = self.slots.heap_bytes() + self.removed.heap_bytes();
        view + sets + self.ranges.capacity() * size_of::<Range>()
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
    range: Range,
}

impl ContentsBuilder {
    /// A builder that reuses the memory of contents nobody needs.
    #[must_use]
    pub fn reusing(mut contents: Contents) -> ContentsBuilder {
        contents.slots.clear();
        contents.removed.clear();
        contents.ranges.clear();
        ContentsBuilder {
            contents,
            range: None,
        }
    }

    /// An entry of the current part; slots of a part rise.
    pub fn push(&mut self, slot: Slot, removed: bool) {
        debug_assert!(self.range.is_none_or(|(_, last)| last < slot));
        self.range = Some((self.range.map_or(slot, |(first, _)| first), slot));
        self.contents.slots.insert(slot);
        if removed {
            self.contents.removed.insert(slot);
        }
    }

    /// The current part ends.
    pub fn end_part(&mut self) {
        self.contents.ranges.push(self.range.take());
    }

    /// The contents; `exhaustive` when all parts together make the whole frame.
    #[must_use]
    pub fn finish(mut self, exhaustive: bool) -> Contents {
        self.contents.exhaustive = exhaustive;
        self.contents.view = None;
        self.contents
    }
}

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
        let Some(view) = &mut contents.view else {
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
        if let Some(view) = &mut contents.view {
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
            if let Some(view) = &mut contents.view {
                let fits = self.pack_portion(portion.entries(), plan, segments, BODY_MAX * 8, true, view);
                debug_assert!(fits, "a portion is counted with the longest gaps");
            }
        }
        if let Some(view) = &mut contents.view
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
        let mut contents = ContentsBuilder::reusing(recycled).contents;
        contents.exhaustive = false;
        let view = contents.view.get_or_insert_with(|| ViewContents {
            listed: Vec::new(),
            ends: Vec::new(),
            closes,
            everyone: None,
            spare: SlotSet::default(),
        });
        view.closes = closes;
        if let Some(everyone) = view.everyone.take() {
            view.spare = everyone.slots;
        }
        view.listed.clear();
        view.ends.clear();
        contents
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
                view.listed
                    .push(entry.slot | if entry.is_removal() { REMOVED } else { 0 });
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
        view.ends
            .push(u16::try_from(view.listed.len()).unwrap_or(u16::MAX));
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
