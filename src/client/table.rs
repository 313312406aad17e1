//! Record tables as a client holds them: copy on write over one pool of records (SPEC TAB2).
//!
//! A table is a set of slots and, for each of them, a place in the pool; a record that a new table shares with its base
//! is stored once and counted. So a table costs by what is seen and not by how large the world is. The display and the
//! entries decoded last hold places of the same pool. A record is a pose, which each observation renews, and a head, which
//! poses share: both are one cache line, because tables are read at random and lines are what they cost. Nothing is
//! allocated once the pool and its spare lists have grown to what the stream needs.
//!
//! Memory: 4 x M + S / 6 bytes a table, M its members, S the highest slot in use + 1 (at most
//! [`SLOTS_MAX`](crate::limits::SLOTS_MAX)), 64 and a few bytes for each distinct pose and head held; lists grow by
//! doubling. docs/VERIFICATION.md has the whole formula, which a test that counts bytes holds.
//!
//! Digests are computed from the records each time: a remembered digest would not see a flipped bit (SPEC DEC9).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::draft::{DraftChange, DraftEntry};
use super::store::{NONE, Place, Store};
use crate::limits::EXTRA_FIELDS_MAX;
use crate::state::digest::Digest;
use crate::state::record::{Head, Motion, Record, RecordRef};
use crate::state::slots::{Slot, SlotSet};

/// One table. It counts as a holder of its records, so it goes back to the pool when it is no longer held.
#[derive(Debug, Default)]
pub struct ClientTable {
    slots: SlotSet,
    /// Members below each 64 slots.
    ranks: Vec<u16>,
    /// By member, in rising order of slot.
    places: Vec<Place>,
}

impl ClientTable {
    /// Which member a slot's is; that of the next one for a slot without.
    fn rank(&self, slot: Slot) -> usize {
        let before = self.ranks.get(usize::from(slot) / 64).copied().unwrap_or(0);
        usize::from(before) + self.slots.before_in_word(slot)
    }

    /// The place of a slot's record.
    pub(super) fn place(&self, slot: Slot) -> Option<Place> {
        match self.slots.contains(slot) {
            true => self.places.get(self.rank(slot)).copied(),
            false => None,
        }
    }

    /// The slots that have a record.
    pub(super) fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// The slots that have a record, and its place, in rising order.
    pub(super) fn members(&self) -> impl Iterator<Item = (Slot, Place)> + '_ {
        self.slots.iter().zip(self.places.iter().copied())
    }

    fn count_ranks(&mut self) {
        self.ranks.clear();
        let mut below = 0u16;
        for count in self.slots.counts() {
            self.ranks.push(below);
            below = below.saturating_add(u16::try_from(count).unwrap_or(0));
        }
    }
}

/// A motion and the head it belongs to, on a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Pose {
    motion: Option<Motion>,
    head: Place,
}

/// A head, on a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct AlignedHead(Head);

const _: () = assert!(size_of::<Pose>() == 64 && size_of::<AlignedHead>() == 64);

/// The records of all tables of one client.
#[derive(Default)]
pub struct RecordPool {
    poses: Store<Pose>,
    /// By place the head of its pose, again: a pose that goes is not looked at.
    head_of: Vec<Place>,
    heads: Store<AlignedHead>,
    spare: Vec<ClientTable>,
    /// Memory for the places of a table that is changed.
    merged: Vec<Place>,
}

impl core::fmt::Debug for RecordPool {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let RecordPool { poses, heads, .. } = self;
        to.debug_struct("RecordPool")
            .field("poses", poses)
            .field("heads", heads)
            .finish_non_exhaustive()
    }
}

impl RecordPool {
    /// The record at a place.
    pub(super) fn at(&self, place: Place) -> Option<RecordRef<'_>> {
        let pose = self.poses.at(place)?;
        Some(RecordRef {
            head: &self.heads.at(pose.head)?.0,
            motion: pose.motion.as_ref(),
        })
    }

    /// Where the head of the record at a place is: the same place, the same life.
    pub(super) fn head_place(&self, place: Place) -> Place {
        self.head_of.get(place as usize).copied().unwrap_or(NONE)
    }

    fn put_pose(&mut self, pose: Pose) -> Place {
        let place = self.poses.put(pose);
        let at = place as usize;
        if self.head_of.len() <= at {
            self.head_of.resize(at + 1, NONE);
        }
        if let Some(head) = self.head_of.get_mut(at) {
            *head = pose.head;
        }
        place
    }

    /// The record of a slot in a table.
    #[must_use]
    pub fn record(&self, table: &ClientTable, slot: Slot) -> Option<RecordRef<'_>> {
        self.at(table.place(slot)?)
    }

    /// The members of a table in rising order of slot.
    pub fn records<'a>(&'a self, table: &'a ClientTable) -> impl Iterator<Item = (Slot, RecordRef<'a>)> + 'a {
        table
            .members()
            .filter_map(|(slot, place)| Some((slot, self.at(place)?)))
    }

    /// The digest of a table, from its records.
    #[must_use]
    pub fn digest(&self, table: &ClientTable) -> Digest {
        self.records(table).fold(Digest::EMPTY, |sum, (_, record)| {
            sum.plus(Digest::of_parts(record))
        })
    }

    /// Records held by a table, the display or the entries decoded last.
    #[must_use]
    pub fn held(&self) -> usize {
        self.poses.held()
    }

    /// Places for poses and for heads: the most held at once of each.
    pub(super) fn places(&self) -> (usize, usize) {
        (self.poses.places(), self.heads.places())
    }

    /// Tables that wait to be used again.
    pub(super) fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Puts a record in; its place has one holder.
    pub(super) fn put(&mut self, record: &Record) -> Place {
        let head = self.heads.put(AlignedHead(record.head()));
        self.put_pose(Pose {
            motion: record.motion,
            head,
        })
    }

    /// Puts in the record at a place with another motion or other extra fields; the new place has one holder.
    pub(super) fn put_changed(
        &mut self,
        base: Place,
        motion: Option<Motion>,
        extras: Option<[u32; EXTRA_FIELDS_MAX]>,
    ) -> Option<Place> {
        let mut pose = *self.poses.at(base)?;
        pose.motion = motion.or(pose.motion);
        match extras {
            None => self.heads.hold(pose.head),
            Some(extras) => {
                let head = self.heads.at(pose.head)?.0;
                pose.head = self.heads.put(AlignedHead(Head { extras, ..head }));
            }
        }
        Some(self.put_pose(pose))
    }

    /// One holder of a place more.
    pub(super) fn hold(&mut self, place: Place) {
        self.poses.hold(place);
    }

    /// One holder of a place less.
    pub(super) fn drop_holder(&mut self, place: Place) {
        if self.poses.drop_holder(place) {
            let head = self.head_place(place);
            self.heads.drop_holder(head);
        }
    }

    /// A new table: the base, or the empty table, with entries applied.
    pub(super) fn build(&mut self, base: Option<&ClientTable>, entries: &[DraftEntry]) -> ClientTable {
        let mut table = self.spare.pop().unwrap_or_default();
        match base {
            Some(base) => {
                table.slots.copy_from(&base.slots);
                table.ranks.clone_from(&base.ranks);
                table.places.clone_from(&base.places);
                for place in &table.places {
                    self.poses.hold(*place);
                }
            }
            None => {
                table.slots.clear();
                table.ranks.clear();
                table.places.clear();
            }
        }
        self.apply(&mut table, entries);
        table
    }

    /// Applies entries, whose slots rise, to a table.
    pub(super) fn apply(&mut self, table: &mut ClientTable, entries: &[DraftEntry]) {
        let mut moves = false;
        for DraftEntry { slot, change } in entries {
            match change {
                DraftChange::Update(place) | DraftChange::Complete(place) => {
                    self.hold(*place);
                    match table.slots.contains(*slot) {
                        true => self.swap(table, *slot, *place),
                        false => moves = true,
                    }
                }
                DraftChange::Removed { .. } => moves |= table.slots.contains(*slot),
                DraftChange::Awake => {}
            }
        }
        if moves {
            self.merge(table, entries);
        }
    }

    fn swap(&mut self, table: &mut ClientTable, slot: Slot, place: Place) {
        let rank = table.rank(slot);
        if let Some(old) = table.places.get_mut(rank) {
            let old = core::mem::replace(old, place);
            self.drop_holder(old);
        }
    }

    /// Puts in who is new, whose places are held already, and takes out who is removed.
    fn merge(&mut self, table: &mut ClientTable, entries: &[DraftEntry]) {
        let mut merged = core::mem::take(&mut self.merged);
        merged.clear();
        let mut old = table.slots.iter().zip(table.places.iter().copied()).peekable();
        for DraftEntry { slot, change } in entries {
            while let Some((_, place)) = old.next_if(|(before, _)| before < slot) {
                merged.push(place);
            }
            let here = old.next_if(|(at, _)| at == slot).map(|(_, place)| place);
            match (change, here) {
                (DraftChange::Removed { .. }, Some(place)) => self.drop_holder(place),
                (DraftChange::Removed { .. } | DraftChange::Awake, None) => {}
                (_, Some(place)) => merged.push(place),
                (DraftChange::Update(place) | DraftChange::Complete(place), None) => merged.push(*place),
            }
        }
        merged.extend(old.map(|(_, place)| place));
        for DraftEntry { slot, change } in entries {
            match change {
                DraftChange::Update(_) | DraftChange::Complete(_) => table.slots.insert(*slot),
                DraftChange::Removed { .. } => table.slots.remove(*slot),
                DraftChange::Awake => {}
            }
        }
        table.count_ranks();
        self.merged = core::mem::replace(&mut table.places, merged);
    }

    /// Takes a table that is no longer held.
    pub(super) fn release(&mut self, table: ClientTable) {
        for place in &table.places {
            self.drop_holder(*place);
        }
        self.spare.push(table);
    }

    /// Flips one bit of one record of a table, and of every table that shares it; false when it has none.
    #[cfg(any(test, feature = "sim"))]
    #[allow(clippy::indexing_slicing)]
    pub fn flip_bit(&mut self, table: &ClientTable, seed: u64) -> bool {
        let count = table.places.len();
        if count == 0 {
            return false;
        }
        let pick = usize::try_from(seed % count as u64).unwrap_or(0);
        let Some(pose) = self.poses.at_mut(table.places[pick]) else {
            return false;
        };
        let (field, bit) = (seed / 7919, seed / 104_729 % 31);
        let (axis, extra) = ((seed / 47_514 % 3) as usize, (seed / 142_542 % 8) as usize);
        match (&mut pose.motion, field % 6) {
            (Some(motion), 0) => motion.position[axis] ^= 1 << bit,
            (Some(motion), 1) => motion.observed_us ^= 1 << (bit % 20),
            (Some(motion), 2) => motion.rotation.parts[axis] ^= 1 << (bit % 16),
            (Some(motion), 3) => motion.velocity[axis] ^= 1 << bit,
            (Some(motion), 4) => motion.at_rest = !motion.at_rest,
            _ => {
                let Some(head) = self.heads.at_mut(pose.head) else {
                    return false;
                };
                head.0.extras[extra] ^= 1 << bit;
            }
        }
        true
    }
}

/// A table held by a client, read through its pool.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    pub(super) pool: &'a RecordPool,
    pub(super) table: &'a ClientTable,
}

impl<'a> TableView<'a> {
    /// The record of a slot.
    #[must_use]
    pub fn record(&self, slot: Slot) -> Option<Record> {
        Some(self.pool.record(self.table, slot)?.record())
    }

    /// The members in rising order of slot.
    pub fn records(&self) -> impl Iterator<Item = (Slot, Record)> + 'a {
        self.pool
            .records(self.table)
            .map(|(slot, record)| (slot, record.record()))
    }

    /// The digest, from the records.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.pool.digest(self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::entity::{Departure, Entity};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// What a test's entry does: a new record of an entity, a motion of what is there, or a removal.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Complete(u32),
        Move(u32),
        Extras(u32),
        Remove,
    }

    fn motion(x: u32) -> Motion {
        Motion {
            observed_us: 1,
            position: [x, 0, 0],
            rotation: crate::state::rotation::Rotation::identity(9),
            velocity: [0; 3],
            angular: [0; 3],
            at_rest: false,
        }
    }

    fn changed(record: Record, step: Step) -> Option<Record> {
        let mut extras = [0; EXTRA_FIELDS_MAX];
        match step {
            Step::Complete(id) => Some(Record::born(Entity { id, generation: 0 }, 0, 0)),
            Step::Move(x) => Some(Record {
                motion: Some(motion(x)),
                ..record
            }),
            Step::Extras(value) => {
                extras[1] = value;
                Some(Record { extras, ..record })
            }
            Step::Remove => None,
        }
    }

    fn draft(pool: &mut RecordPool, base: Option<&ClientTable>, steps: &[(Slot, Step)]) -> Vec<DraftEntry> {
        let entries = steps.iter().filter_map(|(slot, step)| {
            let place = base.and_then(|table| table.place(*slot));
            let change = match *step {
                Step::Complete(_) => DraftChange::Complete(pool.put(&changed(born(), *step)?)),
                Step::Move(x) => DraftChange::Update(pool.put_changed(place?, Some(motion(x)), None)?),
                Step::Extras(_) => {
                    let extras = changed(born(), *step)?.extras;
                    DraftChange::Update(pool.put_changed(place?, None, Some(extras))?)
                }
                Step::Remove => DraftChange::Removed {
                    departure: Departure::LeftView,
                    at_us: 0,
                    reason: 0,
                },
            };
            Some(DraftEntry { slot: *slot, change })
        });
        entries.collect()
    }

    fn born() -> Record {
        Record::born(Entity::default(), 0, 0)
    }

    /// Builds a table as the replica does: the draft holds its records meanwhile.
    fn build(pool: &mut RecordPool, base: Option<&ClientTable>, steps: &[(Slot, Step)]) -> ClientTable {
        let entries = draft(pool, base, steps);
        let table = pool.build(base, &entries);
        for entry in entries {
            if let DraftChange::Update(place) | DraftChange::Complete(place) = entry.change {
                pool.drop_holder(place);
            }
        }
        table
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            any::<u32>().prop_map(Step::Complete),
            any::<u32>().prop_map(Step::Move),
            any::<u32>().prop_map(Step::Extras),
            Just(Step::Remove)
        ]
    }

    proptest! {
        /// SPEC TAB1, TAB2: a table is its base with entries applied, whatever shares it and whatever was
        /// freed in between; the pool holds exactly the records that some table has.
        #[test]
        fn tab2_tables_agree_with_plain_maps(
            steps in prop::collection::vec((0usize..8, 0usize..8, prop::collection::btree_map(0u16..40, step(), 0..12)), 1..40)
        ) {
            let mut pool = RecordPool::default();
            let mut tables: Vec<(ClientTable, BTreeMap<Slot, Record>)> = Vec::new();
            for (base, victim, changes) in steps {
                let base = tables.get(base);
                let mut oracle = base.map(|(_, map)| map.clone()).unwrap_or_default();
                for (slot, step) in &changes {
                    let old = oracle.get(slot).copied();
                    match (old, step) {
                        (None, Step::Move(_) | Step::Extras(_)) => {}
                        (old, step) => match changed(old.unwrap_or_else(born), *step) {
                            Some(record) => { oracle.insert(*slot, record); }
                            None => { oracle.remove(slot); }
                        }
                    }
                }
                let changes: Vec<(Slot, Step)> = changes.into_iter().collect();
                let table = build(&mut pool, base.map(|(table, _)| table), &changes);
                tables.push((table, oracle));
                if tables.len() > 6 {
                    let (table, _) = tables.swap_remove(victim % tables.len());
                    pool.release(table);
                }
                for (table, oracle) in &tables {
                    let held: BTreeMap<Slot, Record> = pool.records(table).map(|(slot, record)| (slot, record.record())).collect();
                    prop_assert_eq!(&held, oracle);
                    let sum = oracle.values().fold(Digest::EMPTY, |sum, record| sum.plus(Digest::of(record)));
                    prop_assert_eq!(pool.digest(table), sum);
                }
            }
            for (table, _) in tables {
                pool.release(table);
            }
            prop_assert_eq!((pool.held(), pool.heads.held()), (0, 0));
        }
    }

    /// SPEC DEC9: a flipped bit changes the digest, since digests are computed from the records.
    #[test]
    fn dec9_a_flipped_bit_changes_the_digest() {
        let mut pool = RecordPool::default();
        let born = build(&mut pool, None, &[(3, Step::Complete(1)), (9, Step::Complete(2))]);
        let table = build(&mut pool, Some(&born), &[(9, Step::Move(5))]);
        for seed in 0..500 {
            let before = pool.digest(&table);
            assert!(pool.flip_bit(&table, seed * 2_654_435_761));
            assert_ne!(pool.digest(&table), before);
        }
        let empty = build(&mut pool, None, &[]);
        assert!(!pool.flip_bit(&empty, 1));
    }

    /// SPEC OPS5: what tables no longer hold is used again; the pool does not grow.
    #[test]
    fn ops5_the_pool_stays_as_large_as_what_is_held() {
        let mut pool = RecordPool::default();
        let all: Vec<(Slot, Step)> = (0..100).map(|slot| (slot, Step::Complete(1))).collect();
        let mut table = build(&mut pool, None, &all);
        for round in 0..1000u16 {
            let moved = [
                (round % 100, Step::Complete(2)),
                (round % 97, Step::Move(3)),
                (round % 89, Step::Extras(3)),
            ];
            let next = build(&mut pool, Some(&table), &moved);
            pool.release(core::mem::replace(&mut table, next));
        }
        let (poses, heads) = (pool.poses.places(), pool.heads.places());
        assert!(
            poses <= 110 && heads <= 110 && pool.spare.len() <= 1,
            "{poses} poses, {heads} heads"
        );
    }
}
