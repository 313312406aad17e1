//! An immutable picture of the whole world at one tick.
//!
//! Invariant: a frame never changes after it is made. Its chunks of 64 places are shared with the frame before
//! where nothing changed, so a ring of K frames costs K x (bytes of chunks changed in a tick) + one world.

use std::sync::{Arc, Mutex, PoisonError};

use super::digest::Digest;
use super::entity::Entity;
use super::grid::{Grid, Placed, point};
use super::player::Directive;
use super::record::Record;
use super::schema::Schema;
use super::slots::{Slot, SlotSet};
use super::update::Event;
use super::view::Tags;
use crate::limits::{CHUNK_SLOTS, QUIET_TICKS};
use crate::sequence::Tick;

/// What a slot holds in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// Never used, or used so long ago that nobody can mean it.
    #[default]
    Empty,
    /// A living entity.
    Live(Record),
    /// A tombstone (SPEC CTL1): the entity that lived here last.
    Grave(Grave),
}

/// A destroyed entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grave {
    /// Who lived here.
    pub entity: Entity,
    /// When it was destroyed, server microseconds.
    pub at_us: u64,
    /// The game's reason code.
    pub reason: u8,
}

/// Sixty-four places with what is derived from them.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) places: [Place; CHUNK_SLOTS],
    pub(super) digests: [Digest; CHUNK_SLOTS],
    pub(super) changed_at: [Tick; CHUNK_SLOTS],
    pub(super) tags: [Tags; CHUNK_SLOTS],
}

impl Chunk {
    /// Places that nobody used, unchanged since `changed_at`.
    pub(super) fn new(changed_at: Tick) -> Chunk {
        Chunk {
            places: [Place::Empty; CHUNK_SLOTS],
            digests: [Digest::EMPTY; CHUNK_SLOTS],
            changed_at: [changed_at; CHUNK_SLOTS],
            tags: [0; CHUNK_SLOTS],
        }
    }
}

/// The world at one tick.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The relay's number for it, and the id of every snapshot made from it.
    pub tick: Tick,
    /// The stream's ordinal at this relay: rises with every new stream epoch (SPEC ID1, WINDOW-MODEL A20).
    pub stream_epoch: u32,
    /// Frame time, server microseconds (SPEC DEC1).
    pub server_us: u64,
    /// When the origin published it, on its monotonic clock; 0 where unknown.
    pub published_us: u64,
    /// True while the upstream is lost and this repeats the last frame (SPEC OPS2).
    pub stale: bool,
    /// The schema of every record in it.
    pub schema: Arc<Schema>,
    /// Events that came with this tick, in order.
    pub events: Arc<[Event]>,
    /// Where the entity of each event lives or lived; `None` for events about nobody and about who is forgotten.
    pub event_slots: Arc<[Option<Slot>]>,
    /// What came with this tick for single players, in order.
    pub directives: Arc<[Directive]>,
    pub(super) chunks: Vec<Arc<Chunk>>,
    pub(super) alive: Arc<SlotSet>,
    pub(super) regrouped: Tick,
    pub(super) live: usize,
    pub(super) dirty: SlotSet,
    pub(super) digest: Digest,
    pub(super) index: Index,
}

/// The grid of a frame, once somebody has asked for it.
#[derive(Debug, Default)]
pub(super) struct Index(Mutex<Option<Arc<Grid>>>);

impl Clone for Index {
    /// A copy makes its own, when it is asked.
    fn clone(&self) -> Index {
        Index::default()
    }
}

impl Frame {
    fn chunk(&self, slot: Slot) -> Option<(&Chunk, usize)> {
        let slot = usize::from(slot);
        self.chunks
            .get(slot / CHUNK_SLOTS)
            .map(|chunk| (&**chunk, slot % CHUNK_SLOTS))
    }

    /// What a slot holds.
    #[must_use]
    pub fn place(&self, slot: Slot) -> &Place {
        self.chunk(slot)
            .and_then(|(chunk, i)| chunk.places.get(i))
            .unwrap_or(&Place::Empty)
    }

    /// The record of a slot's living entity.
    #[must_use]
    pub fn record(&self, slot: Slot) -> Option<&Record> {
        match self.place(slot) {
            Place::Live(record) => Some(record),
            _ => None,
        }
    }

    /// The hash of a slot's record; [`Digest::EMPTY`] where nobody lives.
    #[must_use]
    pub fn digest_of(&self, slot: Slot) -> Digest {
        self.chunk(slot)
            .and_then(|(chunk, i)| chunk.digests.get(i))
            .copied()
            .unwrap_or_default()
    }

    /// The last tick at which a slot's place changed; [`QUIET_TICKS`] ago where that is longer or it never did, so
    /// that it always lies before this frame in serial order.
    #[must_use]
    pub fn changed_at(&self, slot: Slot) -> Tick {
        self.chunk(slot)
            .and_then(|(chunk, i)| chunk.changed_at.get(i))
            .copied()
            .unwrap_or(self.tick.minus(QUIET_TICKS))
    }

    /// The tag bits of a slot's entity; 0 where nobody lives.
    #[must_use]
    pub fn tags(&self, slot: Slot) -> Tags {
        self.chunk(slot)
            .and_then(|(chunk, i)| chunk.tags.get(i))
            .copied()
            .unwrap_or_default()
    }

    /// The digest over every living record.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Slots whose place changed at this tick.
    #[must_use]
    pub fn dirty(&self) -> &SlotSet {
        &self.dirty
    }

    /// Slots with a living entity.
    #[must_use]
    pub fn alive(&self) -> &SlotSet {
        &self.alive
    }

    /// When somebody last came, went or got other tags. Of two frames of a stream that say the same, the same live with the same
    /// tags; only whether they say the same means anything.
    #[must_use]
    pub fn regrouped(&self) -> Tick {
        self.regrouped
    }

    /// Number of living entities.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// One past the highest slot ever used.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS
    }

    /// Living records with their slots, in slot order.
    pub fn records(&self) -> impl Iterator<Item = (Slot, &Record)> + '_ {
        self.alive
            .iter()
            .filter_map(|slot| self.record(slot).map(|record| (slot, record)))
    }

    /// Where everybody is: made by the first to ask, shared by all others until it is forgotten.
    #[must_use]
    pub fn grid(&self) -> Arc<Grid> {
        let mut index = self.index.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(index.get_or_insert_with(|| {
            let placed = |(slot, record): (Slot, &Record)| {
                let at = point(&self.schema, record.motion.as_ref()?)?;
                Some(Placed {
                    slot,
                    tags: self.tags(slot),
                    at,
                })
            };
            let places: Vec<Placed> = self.records().filter_map(placed).collect();
            Arc::new(Grid::new(&places))
        }))
    }

    /// Lets go of the grid: it is asked for while the frame is the newest. Who asks later gets a new one.
    pub fn forget_grid(&self) {
        *self.index.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Bytes this frame holds that the frame before does not share.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let mut chunks = 0;
        let mut last = usize::MAX;
        for slot in self.dirty.iter() {
            let chunk = usize::from(slot) / CHUNK_SLOTS;
            if chunk != last {
                (chunks, last) = (chunks + 1, chunk);
            }
        }
        let events: usize = self.events.iter().map(Event::bytes).sum();
        let directives: usize = self.directives.iter().map(Directive::bytes).sum();
        events
            + directives
            + chunks * size_of::<Chunk>()
            + self.chunks.len() * size_of::<usize>()
            + size_of::<Frame>()
    }
}
