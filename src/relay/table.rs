//! What one client holds: for each slot, the tick whose frame held the record it has.
//!
//! The record itself is `arena.frame(tick)[slot]`. An omitted entity keeps its entry, so omission costs no
//! acknowledgement. A slot unchanged since its tick counts as known at the table's own tick, so ages only
//! grow for what really differs. A table equal to the whole frame is just its tick.
//!
//! Memory: 2 bytes a slot for [`Table::Explicit`], 4 bytes a member for [`Table::Sparse`], a bit a slot for
//! [`Table::View`], a few bytes for [`Table::Whole`]; at most 32 tables a client.

use std::sync::Arc;

use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::digest::Digest;
use crate::state::slots::{Slot, SlotSet};

use super::arena::Arena;
use super::contents::{Contents, Everyone, full_mask};
use super::interest::Interest;

/// What a client has of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: not a member.
    Absent,
    /// The record of this tick's frame.
    At(Tick),
    /// A record whose frame has left the arena long ago.
    Old,
}

/// The record table of one snapshot at one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Table {
    /// Everything of this tick's frame.
    Whole(Tick),
    /// Per slot: 0 not a member, 1 too old, else 2 + age in ticks before `tick`.
    Explicit {
        /// The snapshot's tick.
        tick: Tick,
        /// By slot.
        ages: Box<[u16]>,
        /// Every living entity of the tick's frame is a member.
        complete: bool,
    },
    /// Members alone, by rising slot, with ages as in [`Table::Explicit`]: a view is small in a world that may be large.
    Sparse {
        /// The snapshot's tick.
        tick: Tick,
        /// Slot and age.
        members: Box<[(Slot, u16)]>,
        /// Every entity that was in the view at the tick is a member.
        complete: bool,
    },
    /// Everybody who was in the view at the tick, each with the record of the tick: what the snapshot says by itself.
    View {
        /// The snapshot's tick.
        tick: Tick,
        /// The snapshot, which left nothing out.
        contents: Arc<Contents>,
    },
    /// Of this tick's snapshot, but what it holds cannot be known any more: its frame, or the frame of its base,
    /// had left the arena when it was reported. It counts as held and is never named.
    Lost(Tick),
}

const ABSENT: u16 = 0;
const OLD: u16 = 1;
const FRESH: u16 = 2;

impl Table {
    /// The table of a snapshot of `frame`: its base, plus the held parts of what was sent.
    #[must_use]
    pub fn build(
        frame: &Frame,
        base: Option<&Table>,
        contents: &Arc<Contents>,
        mask: u32,
        arena: &Arena,
    ) -> Table {
        if contents.is_exhaustive(mask) {
            return Table::Whole(frame.tick);
        }
        if contents.everyone(mask).is_some() {
            return Table::View {
                tick: frame.tick,
                contents: Arc::clone(contents),
            };
        }
        if base.is_some_and(|base| !base.is_readable(arena)) {
            return Table::Lost(frame.tick);
        }
        if let Some(complete) = contents.closes_view(mask) {
            return Table::of_view(frame, base, contents, mask, arena, complete);
        }
        let mut ages = vec![ABSENT; frame.slot_count()].into_boxed_slice();
        if let Some(base) = base {
            base.carry_into(frame, arena, &mut ages);
        }
        for (slot, removed) in contents.held(mask) {
            if let Some(age) = ages.get_mut(usize::from(slot)) {
                *age = if removed { ABSENT } else { FRESH };
            }
        }
        let mut fresh = 0;
        let mut members = 0;
        for age in &ages {
            members += usize::from(*age != ABSENT);
            fresh += usize::from(*age == FRESH);
        }
        let complete = frame
            .alive()
            .iter()
            .all(|slot| ages.get(usize::from(slot)) != Some(&ABSENT));
        if complete && fresh == frame.live() && members == fresh {
            return Table::Whole(frame.tick);
        }
        Table::Explicit {
            tick: frame.tick,
            ages,
            complete,
        }
    }

    /// The table of a snapshot of one view: `complete` when all of the view is in it.
    fn of_view(
        frame: &Frame,
        base: Option<&Table>,
        contents: &Contents,
        mask: u32,
        arena: &Arena,
        complete: bool,
    ) -> Table {
        let mut sent: Vec<(Slot, bool)> = Vec::with_capacity(contents.entries());
        sent.extend(contents.held(mask));
        if !sent.is_sorted() {
            sent.sort_unstable();
        }
        let mut sent = sent.as_slice();
        let before = base.map_or(0, |base| base.entries(arena));
        let mut members: Vec<(Slot, u16)> = Vec::with_capacity(before + sent.len());
        let mut put_sent = |to: Slot, members: &mut Vec<(Slot, u16)>| {
            let mut is_sent = false;
            while let [(slot, removed), rest @ ..] = sent
                && *slot <= to
            {
                is_sent = *slot == to;
                if !removed {
                    members.push((*slot, FRESH));
                }
                sent = rest;
            }
            is_sent
        };
        if let Some(base) = base {
            base.for_each(arena, |slot, known| {
                if !put_sent(slot, &mut members) {
                    match known {
                        Known::Absent => {}
                        Known::Old => members.push((slot, OLD)),
                        Known::At(tick) => members.push((slot, carry(frame, slot, tick))),
                    }
                }
            });
        }
        put_sent(Slot::MAX, &mut members);
        let tick = frame.tick;
        if members.len() * size_of::<(Slot, u16)>() <= frame.slot_count() * size_of::<u16>() {
            return Table::Sparse {
                tick,
                members: members.into_boxed_slice(),
                complete,
            };
        }
        let mut ages = vec![ABSENT; frame.slot_count()].into_boxed_slice();
        for (slot, age) in members {
            if let Some(place) = ages.get_mut(usize::from(slot)) {
                *place = age;
            }
        }
        Table::Explicit { tick, ages, complete }
    }

    /// Who was in view, of a table of a whole view: everybody with the record of [`Table::tick`], but for the own entity.
    #[must_use]
    pub fn everyone<'a>(&'a self, arena: &'a Arena) -> Option<(&'a SlotSet, Option<(Slot, Tick)>)> {
        match self {
            Table::Whole(tick) => arena.frame(*tick).map(|frame| (frame.alive(), None)),
            Table::View { contents, .. } => {
                everyone_of(contents).map(|everyone| (&everyone.slots, everyone.own))
            }
            Table::Explicit { .. } | Table::Sparse { .. } | Table::Lost(_) => None,
        }
    }

    /// At most how many members it has.
    fn entries(&self, arena: &Arena) -> usize {
        match self {
            Table::Whole(tick) => arena.frame(*tick).map_or(0, |frame| frame.live()),
            Table::Explicit { ages, .. } => ages.len(),
            Table::Sparse { members, .. } => members.len(),
            Table::View { contents, .. } => everyone_of(contents).map_or(0, |everyone| everyone.slots.len()),
            Table::Lost(_) => 0,
        }
    }

    /// False for a slot that is surely not in it.
    #[must_use]
    pub fn may_have(&self, slot: Slot) -> bool {
        match self {
            Table::Whole(_) | Table::Lost(_) => true,
            Table::Explicit { ages, .. } => ages.get(usize::from(slot)).is_some_and(|age| *age != ABSENT),
            Table::Sparse { members, .. } => members.binary_search_by_key(&slot, |(slot, _)| *slot).is_ok(),
            Table::View { contents, .. } => {
                everyone_of(contents).is_some_and(|everyone| everyone.slots.contains(slot))
            }
        }
    }

    /// Calls `each` with every member in rising order; with none where the table [is not
    /// readable](Table::is_readable).
    pub fn for_each(&self, arena: &Arena, mut each: impl FnMut(Slot, Known)) {
        match self {
            Table::Lost(_) => {}
            Table::Whole(tick) => {
                let alive = arena.frame(*tick).map(|own| own.alive());
                let slots = alive.into_iter().flat_map(SlotSet::iter);
                slots.for_each(|slot| each(slot, Known::At(*tick)));
            }
            Table::Explicit { tick, ages, .. } => {
                for (slot, age) in (0..).zip(ages).filter(|(_, age)| **age != ABSENT) {
                    each(slot, known_at(*tick, *age));
                }
            }
            Table::Sparse { tick, members, .. } => {
                members
                    .iter()
                    .for_each(|(slot, age)| each(*slot, known_at(*tick, *age)));
            }
            Table::View { tick, contents } => {
                let known = everyone_of(contents).into_iter();
                known
                    .flat_map(|everyone| everyone.known_of_all(*tick))
                    .for_each(|(slot, known)| each(slot, Known::At(known)));
            }
        }
    }

    /// Writes this table's entries as ages seen from `frame`: unchanged slots become fresh.
    fn carry_into(&self, frame: &Frame, arena: &Arena, ages: &mut [u16]) {
        let carry =
            |slot: usize, known: Tick| Slot::try_from(slot).map_or(OLD, |slot| carry(frame, slot, known));
        match self {
            Table::Sparse { tick, members, .. } => {
                for (slot, held) in members {
                    if let Some(age) = ages.get_mut(usize::from(*slot)) {
                        *age = match *held {
                            ABSENT | OLD => *held,
                            held => carry(usize::from(*slot), tick.minus(u32::from(held - FRESH))),
                        };
                    }
                }
            }
            Table::Lost(_) => {}
            Table::View { tick, contents } => {
                let known = everyone_of(contents).into_iter();
                for (slot, known) in known.flat_map(|everyone| everyone.known_of_all(*tick)) {
                    if let Some(age) = ages.get_mut(usize::from(slot)) {
                        *age = carry(usize::from(slot), known);
                    }
                }
            }
            Table::Whole(tick) => {
                let Some(held) = arena.frame(*tick) else { return };
                for slot in held.alive().iter().map(usize::from) {
                    if let Some(age) = ages.get_mut(slot) {
                        *age = carry(slot, *tick);
                    }
                }
            }
            Table::Explicit { tick, ages: held, .. } => {
                for (slot, (age, held)) in ages.iter_mut().zip(held).enumerate() {
                    *age = match *held {
                        ABSENT => ABSENT,
                        OLD => OLD,
                        held => carry(slot, tick.minus(u32::from(held - FRESH))),
                    };
                }
            }
        }
    }

    /// The snapshot's tick.
    #[must_use]
    pub fn tick(&self) -> Tick {
        match self {
            Table::Whole(tick)
            | Table::Explicit { tick, .. }
            | Table::Sparse { tick, .. }
            | Table::View { tick, .. }
            | Table::Lost(tick) => *tick,
        }
    }

    /// True while its members can be told: a whole table's are those of its frame.
    #[must_use]
    pub fn is_readable(&self, arena: &Arena) -> bool {
        match self {
            Table::Whole(tick) => arena.frame(*tick).is_some(),
            Table::Explicit { .. } | Table::Sparse { .. } | Table::View { .. } => true,
            Table::Lost(_) => false,
        }
    }

    /// What the client has of a slot. `frame` is the frame of [`Table::tick`].
    #[must_use]
    pub fn known(&self, slot: Slot, frame: &Frame) -> Known {
        match self {
            Table::Whole(tick) if frame.alive().contains(slot) => Known::At(*tick),
            Table::Whole(_) | Table::Lost(_) => Known::Absent,
            Table::Explicit { tick, ages, .. } => match ages.get(usize::from(slot)) {
                None => Known::Absent,
                Some(age) => known_at(*tick, *age),
            },
            Table::Sparse { tick, members, .. } => {
                match members.binary_search_by_key(&slot, |(slot, _)| *slot) {
                    Ok(place) => known_at(*tick, members[place].1),
                    Err(_) => Known::Absent,
                }
            }
            Table::View { tick, contents } => everyone_of(contents)
                .and_then(|everyone| everyone.known(slot, *tick))
                .map_or(Known::Absent, Known::At),
        }
    }

    /// One past the highest slot with an entry.
    #[must_use]
    pub fn slot_count(&self, frame: &Frame) -> usize {
        match self {
            Table::Whole(_) => frame.slot_count(),
            Table::Explicit { ages, .. } => ages.len(),
            Table::Sparse { members, .. } => members.last().map_or(0, |(slot, _)| usize::from(*slot) + 1),
            Table::View { contents, .. } => {
                everyone_of(contents).map_or(0, |everyone| everyone.slots.words().len() * 64)
            }
            Table::Lost(_) => 0,
        }
    }

    /// True when every living entity of its frame is a member (SPEC DEC12).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match self {
            Table::Whole(_) | Table::View { .. } => true,
            Table::Explicit { complete, .. } | Table::Sparse { complete, .. } => *complete,
            Table::Lost(_) => false,
        }
    }

    /// Members that still live in the newest frame, to compare tables of a client that is joining: those that
    /// are gone by now are no progress.
    #[must_use]
    pub fn members(&self, arena: &Arena) -> usize {
        let Some(newest) = arena.newest() else {
            return 0;
        };
        let mut members = 0;
        self.for_each(arena, |slot, _| {
            members += usize::from(newest.alive().contains(slot))
        });
        members
    }

    /// The same of one view: those that are out of it by now are no progress either.
    #[must_use]
    pub fn members_in(&self, interest: &Interest, arena: &Arena) -> usize {
        let mut members = 0;
        self.for_each(arena, |slot, _| {
            members += usize::from(interest.member(slot).is_some())
        });
        members
    }

    /// The digest of the table's records (SPEC DEC9); `None` when a record's frame has left the arena.
    #[must_use]
    pub fn digest(&self, arena: &Arena) -> Option<Digest> {
        match self {
            Table::Lost(_) => None,
            Table::Whole(tick) => arena.frame(*tick).map(|frame| frame.digest()),
            Table::Explicit { tick, ages, .. } => {
                let entries = (0..).zip(ages.iter().copied());
                digest_of_ages(*tick, entries.filter(|(_, age)| *age != ABSENT), arena)
            }
            Table::Sparse { tick, members, .. } => digest_of_ages(*tick, members.iter().copied(), arena),
            Table::View { tick, contents } => {
                let everyone = everyone_of(contents)?;
                digest_of(
                    *tick,
                    everyone
                        .known_of_all(*tick)
                        .map(|(slot, known)| (slot, Some(known))),
                    arena,
                )
            }
        }
    }

    /// Heap bytes of this table.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Table::Whole(_) | Table::Lost(_) => 0,
            Table::Explicit { ages, .. } => ages.len() * size_of::<u16>(),
            Table::Sparse { members, .. } => members.len() * size_of::<(Slot, u16)>(),
            Table::View { contents, .. } => size_of::<Contents>() + contents.heap_bytes(),
        }
    }
}

/// Who is in the view of a snapshot all of whose parts are held.
fn everyone_of(contents: &Contents) -> Option<&Everyone> {
    contents.everyone(full_mask(contents.parts()))
}

/// What an age of the table of `tick` says.
fn known_at(tick: Tick, age: u16) -> Known {
    match age {
        ABSENT => Known::Absent,
        OLD => Known::Old,
        age => Known::At(tick.minus(u32::from(age - FRESH))),
    }
}

/// The age, seen from `frame`, of a record known from the frame of `known`.
fn carry(frame: &Frame, slot: Slot, known: Tick) -> u16 {
    if !frame.changed_at(slot).is_after(known) {
        return FRESH;
    }
    let age = known.age_at(frame.tick).and_then(|age| u16::try_from(age).ok());
    age.and_then(|age| age.checked_add(FRESH)).unwrap_or(OLD)
}

fn digest_of_ages(tick: Tick, entries: impl Iterator<Item = (Slot, u16)>, arena: &Arena) -> Option<Digest> {
    let known = |age| match known_at(tick, age) {
        Known::At(known) => Some(known),
        Known::Absent | Known::Old => None,
    };
    digest_of(tick, entries.map(|(slot, age)| (slot, known(age))), arena)
}

/// The digest of records of these ticks in the table of `tick`; `None` with one that cannot be told.
fn digest_of(
    tick: Tick,
    entries: impl Iterator<Item = (Slot, Option<Tick>)>,
    arena: &Arena,
) -> Option<Digest> {
    let own = arena.frame(tick)?;
    let mut sum = Digest::EMPTY;
    for (slot, known) in entries {
        let known = known?;
        let frame = if known == tick { own } else { arena.frame(known)? };
        sum = sum.plus(frame.digest_of(slot));
    }
    Some(sum)
}

#[cfg(test)]
mod tests;
