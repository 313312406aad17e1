//! What the parts of one snapshot hold: kept with the candidate until its report comes, and by the table made of it.
//!
//! Invariant: with the base's table and the mask of the parts that arrived it says what the client has.

use crate::limits::PARTS_MAX;
use crate::sequence::Tick;
use crate::state::slots::{Slot, SlotSet};

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
pub struct ViewContents {
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
    /// An entry of the current part, in the order in which it is sent.
    pub fn push(&mut self, slot: Slot, removed: bool) {
        self.listed.push(slot | if removed { REMOVED } else { 0 });
    }

    /// The current part ends.
    pub fn end_part(&mut self) {
        self.ends
            .push(u16::try_from(self.listed.len()).unwrap_or(u16::MAX));
    }

    /// Nothing was left out: with all its parts the client has everybody in view.
    pub fn has_everyone(&mut self, in_view: InView<'_>) {
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
    #[must_use]
    pub fn is_worth_a_set(&self) -> bool {
        let listed = self.members * size_of::<(Slot, u16)>();
        size_of_val(self.slots.words()) <= 2 * listed + 128
    }
}

impl Contents {
    /// Those of one view, without a part yet, in the memory of contents nobody needs.
    #[must_use]
    pub fn of_view(recycled: Contents, closes: Closes) -> Contents {
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

    /// Where what is sent of one view is noted; `None` for contents of the whole world.
    pub fn view_mut(&mut self) -> Option<&mut ViewContents> {
        self.view.as_mut()
    }

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
