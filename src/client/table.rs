//! Record tables as a client holds them: copy on write over one pool of records (SPEC TAB2).
//!
//! A table is a list of places in the pool, one for each slot; a record that a new table shares with its base
//! is stored once and counted. So a table costs four bytes a slot plus the records its snapshot brought.
//! Nothing is allocated once the pool and its spare lists have grown to what the stream needs.
//!
//! Memory: at most 4 x S x (W + 1) + R x (size of a record + 6) bytes and a block of 128 records, where S is the highest slot
//! in use + 1 (at most [`SLOTS_MAX`](crate::limits::SLOTS_MAX)), W the window's slots, and R, the distinct
//! records held, at most W x the members of a view.
//!
//! Digests are computed from the records each time: a remembered digest would not see a flipped bit (SPEC DEC9).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::delta::decode::{Change, Entry};
use crate::state::digest::Digest;
use crate::state::record::Record;
use crate::state::slots::Slot;

/// The place of a slot that has no record.
const NONE: u32 = u32::MAX;

/// One table. It counts as a holder of its records, so it goes back to the pool when it is no longer held.
#[derive(Debug)]
pub struct ClientTable {
    places: Vec<u32>,
}

/// Records in one block of the pool. The pool grows by blocks: nothing is copied, and a client in a swarm of
/// thousands holds no more than it needs.
const BLOCK: usize = 128;

/// A record on cache lines of its own: two, wherever it lies. Tables are read at random, so lines are what they
/// cost.
#[derive(Debug)]
#[repr(align(64))]
struct Aligned(Record);

const _: () = assert!(size_of::<Aligned>() == 128);

/// The records of all tables of one client.
#[derive(Debug, Default)]
pub struct RecordPool {
    blocks: Vec<Vec<Aligned>>,
    /// Tables that share each record; 0 for a free place.
    holders: Vec<u16>,
    free: Vec<u32>,
    spare: Vec<ClientTable>,
}

impl RecordPool {
    /// The record of a slot in a table.
    #[must_use]
    pub fn record(&self, table: &ClientTable, slot: Slot) -> Option<&Record> {
        self.at(*table.places.get(usize::from(slot))?)
    }

    fn at(&self, place: u32) -> Option<&Record> {
        // NONE lies past every pool.
        let place = usize::try_from(place).ok()?;
        self.blocks
            .get(place / BLOCK)?
            .get(place % BLOCK)
            .map(|aligned| &aligned.0)
    }

    fn at_mut(&mut self, place: u32) -> Option<&mut Record> {
        let place = usize::try_from(place).ok()?;
        let block = self.blocks.get_mut(place / BLOCK)?;
        block.get_mut(place % BLOCK).map(|aligned| &mut aligned.0)
    }

    /// The members of a table in rising order of slot.
    pub fn records<'a>(&'a self, table: &'a ClientTable) -> impl Iterator<Item = (Slot, &'a Record)> + 'a {
        (0..)
            .zip(&table.places)
            .filter_map(|(slot, place)| Some((slot, self.at(*place)?)))
    }

    /// The digest of a table, from its records.
    #[must_use]
    pub fn digest(&self, table: &ClientTable) -> Digest {
        self.records(table)
            .fold(Digest::EMPTY, |sum, (_, record)| sum.plus(Digest::of(record)))
    }

    /// Records held by at least one table.
    #[must_use]
    pub fn held(&self) -> usize {
        self.holders.len() - self.free.len()
    }

    /// A new table: the base, or the empty table, with entries applied.
    pub(super) fn build(&mut self, base: Option<&ClientTable>, entries: &[Entry]) -> ClientTable {
        let mut table = self.spare.pop().unwrap_or(ClientTable { places: Vec::new() });
        table.places.clear();
        if let Some(base) = base {
            table.places.extend_from_slice(&base.places);
            for place in &table.places {
                if let Some(holders) = self.holders.get_mut(*place as usize) {
                    *holders += 1;
                }
            }
        }
        self.apply(&mut table, entries);
        table
    }

    /// Applies entries to a table.
    pub(super) fn apply(&mut self, table: &mut ClientTable, entries: &[Entry]) {
        for Entry { slot, change } in entries {
            match change {
                Change::Update(record) | Change::Complete(record) => {
                    let place = self.take(*record);
                    let slot = usize::from(*slot);
                    if table.places.len() <= slot {
                        table.places.resize(slot + 1, NONE);
                    }
                    self.put(table, slot, place);
                }
                Change::Removed { .. } => self.put(table, usize::from(*slot), NONE),
                Change::Awake => {}
            }
        }
    }

    fn put(&mut self, table: &mut ClientTable, slot: usize, place: u32) {
        if let Some(old) = table.places.get_mut(slot) {
            let old = core::mem::replace(old, place);
            self.drop_holder(old);
        }
    }

    fn take(&mut self, record: Record) -> u32 {
        if let Some(place) = self.free.pop() {
            if let Some(to) = self.at_mut(place) {
                *to = record;
            }
            if let Some(holders) = self.holders.get_mut(place as usize) {
                *holders = 1;
            }
            return place;
        }
        // Tables are at most 33 of 32,768 slots each: places stay far below NONE.
        let place = u32::try_from(self.holders.len()).unwrap_or(NONE);
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK => block.push(Aligned(record)),
            _ => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(Aligned(record));
                self.blocks.push(block);
            }
        }
        self.holders.push(1);
        place
    }

    fn drop_holder(&mut self, place: u32) {
        if let Some(holders) = self.holders.get_mut(place as usize) {
            *holders = holders.saturating_sub(1);
            if *holders == 0 {
                self.free.push(place);
            }
        }
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
        let members = table.places.iter().filter(|place| **place != NONE).count();
        if members == 0 {
            return false;
        }
        let pick = usize::try_from(seed % members as u64).unwrap_or(0);
        let place = table
            .places
            .iter()
            .filter(|place| **place != NONE)
            .nth(pick)
            .copied();
        let Some(record) = place.and_then(|place| self.at_mut(place)) else {
            return false;
        };
        let (field, bit) = (seed / 7919, seed / 104_729 % 31);
        match (&mut record.motion, field % 6) {
            (Some(motion), 0) => motion.position[(field % 3) as usize] ^= 1 << bit,
            (Some(motion), 1) => motion.observed_us ^= 1 << (bit % 20),
            (Some(motion), 2) => motion.rotation.parts[(field % 3) as usize] ^= 1 << (bit % 16),
            (Some(motion), 3) => motion.velocity[(field % 3) as usize] ^= 1 << bit,
            (Some(motion), 4) => motion.at_rest = !motion.at_rest,
            _ => record.extras[(field % 8) as usize] ^= 1 << bit,
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
    pub fn record(&self, slot: Slot) -> Option<&'a Record> {
        self.pool.record(self.table, slot)
    }

    /// The members in rising order of slot.
    pub fn records(&self) -> impl Iterator<Item = (Slot, &'a Record)> + 'a {
        self.pool.records(self.table)
    }

    /// The digest, from the records.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.pool.digest(self.table)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::state::entity::{Departure, Entity};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(slot: Slot, id: u32, removes: bool) -> Entry {
        let change = if removes {
            Change::Removed {
                departure: Departure::LeftView,
                at_us: 0,
                reason: 0,
            }
        } else {
            Change::Complete(Record::born(Entity { id, generation: 0 }, 0, 0))
        };
        Entry { slot, change }
    }

    proptest! {
        /// SPEC TAB1, TAB2: a table is its base with entries applied, whatever shares it and whatever was
        /// freed in between; the pool holds exactly the records that some table has.
        #[test]
        fn tab2_tables_agree_with_plain_maps(
            steps in prop::collection::vec((0usize..8, 0usize..8, prop::collection::vec((0u16..40, any::<u32>(), any::<bool>()), 0..12)), 1..40)
        ) {
            let mut pool = RecordPool::default();
            let mut tables: Vec<(ClientTable, BTreeMap<Slot, Record>)> = Vec::new();
            for (base, victim, changes) in steps {
                let entries: Vec<Entry> = changes.into_iter().map(|(slot, id, removes)| entry(slot, id, removes)).collect();
                let base = tables.get(base);
                let mut oracle = base.map(|(_, map)| map.clone()).unwrap_or_default();
                for entry in &entries {
                    match entry.change {
                        Change::Complete(record) => { oracle.insert(entry.slot, record); }
                        _ => { oracle.remove(&entry.slot); }
                    }
                }
                let table = pool.build(base.map(|(table, _)| table), &entries);
                tables.push((table, oracle));
                if tables.len() > 6 {
                    let (table, _) = tables.swap_remove(victim % tables.len());
                    pool.release(table);
                }
                for (table, oracle) in &tables {
                    let held: BTreeMap<Slot, Record> = pool.records(table).map(|(slot, record)| (slot, *record)).collect();
                    prop_assert_eq!(&held, oracle);
                    let sum = oracle.values().fold(Digest::EMPTY, |sum, record| sum.plus(Digest::of(record)));
                    prop_assert_eq!(pool.digest(table), sum);
                }
            }
            for (table, _) in tables {
                pool.release(table);
            }
            prop_assert_eq!(pool.held(), 0);
        }
    }

    /// SPEC DEC9: a flipped bit changes the digest, since digests are computed from the records.
    #[test]
    fn dec9_a_flipped_bit_changes_the_digest() {
        let mut pool = RecordPool::default();
        let table = pool.build(None, &[entry(3, 1, false), entry(9, 2, false)]);
        for seed in 0..500 {
            let before = pool.digest(&table);
            assert!(pool.flip_bit(&table, seed * 2_654_435_761));
            assert_ne!(pool.digest(&table), before);
        }
        let empty = pool.build(None, &[]);
        assert!(!pool.flip_bit(&empty, 1));
    }

    /// SPEC OPS5: what tables no longer hold is used again; the pool does not grow.
    #[test]
    fn ops5_the_pool_stays_as_large_as_what_is_held() {
        let mut pool = RecordPool::default();
        let mut table = pool.build(
            None,
            &(0..100).map(|slot| entry(slot, 1, false)).collect::<Vec<_>>(),
        );
        for round in 0..1000u16 {
            let next = pool.build(
                Some(&table),
                &[entry(round % 100, 2, false), entry(round % 97, 0, round % 3 == 0)],
            );
            pool.release(core::mem::replace(&mut table, next));
        }
        assert!(
            pool.holders.len() <= 110 && pool.spare.len() <= 1,
            "{} records",
            pool.holders.len()
        );
    }
}
