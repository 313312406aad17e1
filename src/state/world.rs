//! The world as it is being built: takes in tick updates, checks them, gives out frames.
//!
//! Invariants: one bad item is refused by itself and the last good value stays (THREATS 83, SPEC DEC5); only a
//! spawn creates and only a despawn or keyframe removes (SPEC CTL1, CTL4); a slot keeps its tombstone for the
//! quarantine before another entity gets it (SPEC ID2).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::digest::Digest;
use super::entity::Entity;
use super::frame::{Chunk, Frame, Index, Place};
use super::player::Directive;
use super::record::Record;
use super::schema::Schema;
use super::slots::{Slot, SlotSet};
use super::tiers::{TierSettings, Tiers};
use super::update::{Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use crate::limits::{
    CHUNK_SLOTS, DIRECTIVES_TICK_BYTES_MAX, EVENTS_TICK_BYTES_MAX, QUIET_TICKS, SERVER_TIME_MAX_US,
};
use crate::sequence::Tick;

mod items;
mod refusal;

pub use refusal::Refusal;

/// The world under construction.
pub struct World {
    schema: Arc<Schema>,
    stream_epoch: u32,
    quarantine_ticks: u32,
    by_id: HashMap<u32, (u32, Slot)>,
    graves: VecDeque<(Slot, Entity, Tick)>,
    /// Directives of ticks that were refused whole: the next one carries them.
    owed: Vec<Directive>,
    chunks: Vec<Arc<Chunk>>,
    slots_used: usize,
    alive: Arc<SlotSet>,
    /// When somebody last came, went or got other tags.
    regrouped: Tick,
    live: usize,
    awake: SlotSet,
    observed: SlotSet,
    dirty: SlotSet,
    digest: Digest,
    server_us: u64,
    tick: Tick,
    /// When places were last looked through for those that have been quiet for long.
    swept: Option<Tick>,
    refused: Vec<Refusal>,
    tiers: Option<Tiers>,
}

impl World {
    /// An empty world of one stream epoch. `quarantine_ticks`: how many ticks a slot keeps its tombstone; at
    /// least the frames of the arena that will hold the frames.
    #[must_use]
    pub fn new(schema: Arc<Schema>, stream_epoch: u32, quarantine_ticks: u32) -> World {
        World {
            schema,
            stream_epoch,
            quarantine_ticks,
            by_id: HashMap::new(),
            graves: VecDeque::new(),
            owed: Vec::new(),
            chunks: Vec::new(),
            slots_used: 0,
            alive: Arc::default(),
            regrouped: Tick::default(),
            live: 0,
            awake: SlotSet::default(),
            observed: SlotSet::default(),
            dirty: SlotSet::default(),
            digest: Digest::EMPTY,
            server_us: 0,
            tick: Tick::default(),
            swept: None,
            refused: Vec::new(),
            tiers: None,
        }
    }

    /// Sets rate tiers by density (SPEC CTL5); without, every entity changes at every tick.
    #[must_use]
    pub fn with_tiers(mut self, settings: Option<TierSettings>) -> World {
        self.tiers = settings.map(|settings| Tiers::new(settings, &self.schema));
        self
    }

    /// The schema of this world.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Time of the last frame, server microseconds.
    #[must_use]
    pub fn server_us(&self) -> u64 {
        self.server_us
    }

    /// Number of living entities.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// What the last [`advance`](World::advance) refused.
    #[must_use]
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Every living entity, in order of slots.
    pub fn entities(&self) -> impl Iterator<Item = Entity> + '_ {
        self.alive.iter().filter_map(|slot| match self.place(slot) {
            Place::Live(record) => Some(record.entity),
            _ => None,
        })
    }

    /// The slot and record of a living entity.
    #[must_use]
    pub fn record(&self, entity: Entity) -> Option<(Slot, &Record)> {
        let (generation, slot) = *self.by_id.get(&entity.id)?;
        match self.place(slot) {
            Place::Live(record) if generation == entity.generation => Some((slot, record)),
            _ => None,
        }
    }

    /// Takes in one update and gives the frame of `tick`, or `None` when the whole update was refused.
    /// Items refused by themselves are in [`refused`](World::refused).
    pub fn advance(&mut self, tick: Tick, update: &TickUpdate) -> Option<Arc<Frame>> {
        self.refused.clear();
        let (got, last) = (update.server_us, self.server_us);
        let whole = match got {
            _ if got < last => Some(Refusal::TimeFell { got, last }),
            _ if got > SERVER_TIME_MAX_US => Some(Refusal::TimeTooLarge { got }),
            _ => None,
        };
        if let Some(refusal) = whole {
            self.refused.push(refusal);
            // Who sees what does not hang on a tick's time: the next one carries it.
            self.owed = self.take_directives(update).to_vec();
            return None;
        }
        self.begin_tick(tick);
        self.server_us = update.server_us;
        self.dirty.clear();
        self.observed.clear();
        for despawn in &update.despawned {
            let outcome = self.despawn(despawn);
            self.refused.extend(outcome.err());
        }
        if update.keyframe {
            self.despawn_missing(update);
        }
        for spawn in &update.spawned {
            let outcome = self.spawn(spawn, update.keyframe);
            self.refused.extend(outcome.err());
        }
        for observation in &update.observed {
            let outcome = self.observe(observation);
            self.refused.extend(outcome.err());
        }
        for extras in &update.extras {
            let outcome = self.set_extras(extras);
            self.refused.extend(outcome.err());
        }
        if update.keyframe {
            self.clear_tags();
        }
        for tags in &update.tags {
            let outcome = self.set_tags(tags);
            self.refused.extend(outcome.err());
        }
        if self.schema.on_change {
            self.rest_unobserved();
        }
        self.take_turns();
        let events = self.take_events(update);
        let directives = self.take_directives(update);
        Some(self.frame(update.published_us, false, events, directives))
    }

    /// The leading events of an update that are within the bound of a tick.
    fn take_events(&mut self, update: &TickUpdate) -> Arc<[Event]> {
        let mut bytes = 0;
        let within = |event: &&Event| {
            bytes += event.bytes();
            bytes <= EVENTS_TICK_BYTES_MAX
        };
        let events: Arc<[Event]> = update.events.iter().take_while(within).cloned().collect();
        if events.len() < update.events.len() {
            self.refused.push(Refusal::TooManyEvents {
                taken: events.len(),
                events: update.events.len(),
            });
        }
        events
    }

    /// The leading directives of an update that are within the bound of a tick.
    fn take_directives(&mut self, update: &TickUpdate) -> Arc<[Directive]> {
        let mut bytes = 0;
        let within = |directive: &Directive| {
            bytes += directive.bytes();
            bytes <= DIRECTIVES_TICK_BYTES_MAX
        };
        let owed = core::mem::take(&mut self.owed);
        let directives = owed.len() + update.directives.len();
        let all = owed.into_iter().chain(update.directives.iter().cloned());
        let taken: Arc<[Directive]> = all.take_while(within).collect();
        if taken.len() < directives {
            self.refused.push(Refusal::TooManyDirectives {
                taken: taken.len(),
                directives,
            });
        }
        taken
    }

    /// The frame of `tick` with the last content again: for ticks in which nothing came (SPEC DEC8, OPS2).
    pub fn hold(&mut self, tick: Tick, stale: bool) -> Arc<Frame> {
        self.begin_tick(tick);
        self.dirty.clear();
        self.frame(0, stale, Arc::default(), Arc::default())
    }

    /// The whole world as an update that rebuilds it elsewhere.
    #[must_use]
    pub fn keyframe(&self, origin_tick: u64) -> TickUpdate {
        let mut update = TickUpdate {
            origin_tick,
            server_us: self.server_us,
            keyframe: true,
            ..TickUpdate::default()
        };
        let fields = self.schema.extras.len();
        for slot in self.alive.iter() {
            let Place::Live(published) = self.place(slot) else {
                continue;
            };
            let record = self.waiting(slot).unwrap_or(published);
            let entity = record.entity;
            update.spawned.push(Spawn {
                entity,
                class: record.class,
                at_us: record.born_us,
            });
            if record.motion.is_some() || record.segment != 0 {
                update.observed.push(Observation {
                    entity,
                    segment: record.segment,
                    segment_us: record.segment_us,
                    motion: record.motion,
                });
            }
            let tags = self.tags(slot);
            if tags != 0 {
                update.tags.push(TagUpdate { entity, tags });
            }
            if fields > 0 {
                let mask = u8::try_from((1u32 << fields) - 1).unwrap_or(u8::MAX);
                update.extras.push(ExtraUpdate {
                    entity,
                    mask,
                    values: record.extras,
                });
            }
        }
        update
    }

    fn frame(
        &self,
        published_us: u64,
        stale: bool,
        events: Arc<[Event]>,
        directives: Arc<[Directive]>,
    ) -> Arc<Frame> {
        let slot_of = |event: &Event| {
            let entity = event.entity?;
            let (generation, slot) = *self.by_id.get(&entity.id)?;
            (generation == entity.generation).then_some(slot)
        };
        Arc::new(Frame {
            event_slots: events.iter().map(slot_of).collect(),
            tick: self.tick,
            stream_epoch: self.stream_epoch,
            server_us: self.server_us,
            published_us,
            stale,
            schema: Arc::clone(&self.schema),
            events,
            directives,
            chunks: self.chunks.clone(),
            alive: Arc::clone(&self.alive),
            regrouped: self.regrouped,
            live: self.live,
            dirty: self.dirty.clone(),
            digest: self.digest,
            index: Index::default(),
        })
    }

    /// Begins a tick. A place keeps the tick of its last change, and ticks half their range apart have no order: so
    /// now and then what has been quiet for longer than [`QUIET_TICKS`] counts as changed that long ago, and never
    /// looks new again (FAULTS 22).
    fn begin_tick(&mut self, tick: Tick) {
        self.tick = tick;
        let swept = *self.swept.get_or_insert(tick);
        if tick.minus(swept.0).0 < QUIET_TICKS / 2 {
            return;
        }
        self.swept = Some(tick);
        let is_long_ago = |changed: &Tick| tick.minus(changed.0).0 > QUIET_TICKS;
        for chunk in &mut self.chunks {
            if chunk.changed_at.iter().any(is_long_ago) {
                let chunk = Arc::make_mut(chunk);
                let quiet = chunk.changed_at.iter_mut().filter(|changed| is_long_ago(changed));
                quiet.for_each(|changed| *changed = tick.minus(QUIET_TICKS));
            }
        }
    }

    /// What the origin said of a slot and nobody knows yet.
    fn waiting(&self, slot: Slot) -> Option<&Record> {
        self.tiers.as_ref().and_then(|tiers| tiers.waiting(slot))
    }

    fn place(&self, slot: Slot) -> &Place {
        let slot = usize::from(slot);
        let chunk = self.chunks.get(slot / CHUNK_SLOTS);
        chunk
            .and_then(|chunk| chunk.places.get(slot % CHUNK_SLOTS))
            .unwrap_or(&Place::Empty)
    }

    fn set_place(&mut self, slot: Slot, place: Place) {
        let index = usize::from(slot);
        let Some(chunk) = self.chunks.get_mut(index / CHUNK_SLOTS).map(Arc::make_mut) else {
            return;
        };
        let at = index % CHUNK_SLOTS;
        if chunk.places[at] == place {
            return;
        }
        let digest = match &place {
            Place::Live(record) => Digest::of(record),
            _ => Digest::EMPTY,
        };
        self.digest = self.digest.minus(chunk.digests[at]).plus(digest);
        chunk.digests[at] = digest;
        chunk.places[at] = place;
        chunk.changed_at[at] = self.tick;
        self.dirty.insert(slot);
    }
}

#[cfg(test)]
mod tests;
