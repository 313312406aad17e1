//! The entries of one part, decoded into the pool and built aside: nothing has them until the part is taken.
//!
//! Invariant: each entry with a record holds its place until the draft is cleared, so what was decoded last can be
//! read until the next receive, whether or not a table or the display took it.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::store::Place;
use super::table::{ClientTable, RecordPool};
use crate::delta::decode::{Body, Change, DecodeError, Delta, Entry};
use crate::delta::layout::Layout;
use crate::state::entity::Departure;
use crate::state::slots::Slot;
use crate::wire::snapshot::SnapshotHeader;

/// What an entry does to its slot, its record in the pool.
#[derive(Clone, Copy, Debug)]
pub(super) enum DraftChange {
    Update(Place),
    Complete(Place),
    Removed {
        departure: Departure,
        at_us: u64,
        reason: u8,
    },
    Awake,
}

/// One entry, its record in the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct DraftEntry {
    pub(super) slot: Slot,
    pub(super) change: DraftChange,
}

/// The entries of one part.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entries: Vec<DraftEntry>,
}

impl Draft {
    pub(super) fn entries(&self) -> &[DraftEntry] {
        &self.entries
    }

    /// Lets go of the entries.
    pub(super) fn clear(&mut self, pool: &mut RecordPool) {
        for entry in self.entries.drain(..) {
            if let DraftChange::Update(place) | DraftChange::Complete(place) = entry.change {
                pool.drop_holder(place);
            }
        }
    }

    /// Decodes a body against its base table; the draft is empty after an error.
    ///
    /// # Errors
    /// [`DecodeError`]: the whole body is refused (SPEC TAB2).
    pub(super) fn read(
        &mut self,
        layout: &Layout,
        header: &SnapshotHeader,
        body: &[u8],
        base: Option<&ClientTable>,
        pool: &mut RecordPool,
    ) -> Result<(), DecodeError> {
        self.clear(pool);
        let result = self.read_entries(layout, header, body, base, pool);
        if result.is_err() {
            self.clear(pool);
        }
        result
    }

    fn read_entries(
        &mut self,
        layout: &Layout,
        header: &SnapshotHeader,
        body: &[u8],
        base: Option<&ClientTable>,
        pool: &mut RecordPool,
    ) -> Result<(), DecodeError> {
        let count = usize::try_from(header.count).unwrap_or(usize::MAX);
        let mut body = Body::new(layout, body, count, header.server_us)?;
        while let Some(slot) = body.next_slot()? {
            let place = base.and_then(|table| table.place(slot));
            let delta = body.delta(place.and_then(|place| pool.at(place)))?;
            let change = match delta {
                Delta::Update { motion, extras } => {
                    let changed = place.and_then(|place| pool.put_changed(place, motion, extras));
                    DraftChange::Update(changed.ok_or(DecodeError::NoSuchMember)?)
                }
                Delta::Complete(record) => DraftChange::Complete(pool.put(&record)),
                Delta::Removed {
                    departure,
                    at_us,
                    reason,
                } => DraftChange::Removed {
                    departure,
                    at_us,
                    reason,
                },
                Delta::Awake => DraftChange::Awake,
            };
            self.entries.push(DraftEntry { slot, change });
        }
        Ok(())
    }

    /// The entries with their records.
    pub(super) fn resolved<'a>(&'a self, pool: &'a RecordPool) -> impl Iterator<Item = Entry> + Clone + 'a {
        self.entries.iter().filter_map(|entry| {
            let change = match entry.change {
                DraftChange::Update(place) => Change::Update(pool.at(place)?.record()),
                DraftChange::Complete(place) => Change::Complete(pool.at(place)?.record()),
                DraftChange::Removed {
                    departure,
                    at_us,
                    reason,
                } => Change::Removed {
                    departure,
                    at_us,
                    reason,
                },
                DraftChange::Awake => Change::Awake,
            };
            Some(Entry {
                slot: entry.slot,
                change,
            })
        })
    }
}
