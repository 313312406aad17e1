//! The world as it is being built: takes in tick updates, checks them, gives out frames.
//!
//! Invariants: one bad item is refused by itself and the last good value stays (THREATS 83, SPEC DEC5); only a
//! spawn creates and only a despawn or keyframe removes (SPEC CTL1, CTL4); a slot keeps its tombstone for the
//! quarantine before another entity gets it (SPEC ID2).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::digest::Digest;
use super::entity::Entity;
use super::frame::{Chunk, Frame, Grave, Index, Place};
use super::player::Directive;
use super::record::Record;
use super::schema::Schema;
use super::slots::{Slot, SlotSet};
use super::tiers::{TierSettings, Tiers};
use super::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use super::view::Tags;
use crate::limits::{
    CHUNK_SLOTS, DIRECTIVES_TICK_BYTES_MAX, EVENTS_TICK_BYTES_MAX, QUIET_TICKS, SERVER_TIME_MAX_US, SLOTS_MAX,
};
use crate::sequence::Tick;

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

    fn not_after_frame(&self, what: &'static str, entity: Entity, at_us: u64) -> Result<(), Refusal> {
        let server_us = self.server_us;
        if at_us > server_us {
            Err(Refusal::Future {
                what,
                entity,
                at_us,
                server_us,
            })
        } else {
            Ok(())
        }
    }

    fn alive_slot(&self, what: &'static str, entity: Entity) -> Result<(Slot, Record), Refusal> {
        match self.record(entity) {
            Some((slot, record)) => Ok((slot, self.waiting(slot).copied().unwrap_or(*record))),
            None => match self.by_id.get(&entity.id) {
                Some((current, _)) if *current > entity.generation => Err(Refusal::DeadGeneration {
                    what,
                    entity,
                    current: *current,
                }),
                _ => Err(Refusal::NotAlive { what, entity }),
            },
        }
    }

    fn despawn(&mut self, despawn: &Despawn) -> Result<(), Refusal> {
        let (slot, _) = self.alive_slot("despawn", despawn.entity)?;
        let Despawn {
            entity,
            at_us,
            reason,
        } = *despawn;
        self.not_after_frame("despawn", entity, at_us)?;
        self.set_place(
            slot,
            Place::Grave(Grave {
                entity,
                at_us,
                reason,
            }),
        );
        self.put_tags(slot, 0);
        if let Some(tiers) = &mut self.tiers {
            tiers.forget(slot);
        }
        self.graves.push_back((slot, entity, self.tick));
        Arc::make_mut(&mut self.alive).remove(slot);
        self.awake.remove(slot);
        self.live -= 1;
        Ok(())
    }

    fn despawn_missing(&mut self, update: &TickUpdate) {
        let named: std::collections::HashSet<Entity> = update.spawned.iter().map(|s| s.entity).collect();
        let gone: Vec<Entity> = self
            .alive
            .iter()
            .filter_map(|slot| match self.place(slot) {
                Place::Live(record) if !named.contains(&record.entity) => Some(record.entity),
                _ => None,
            })
            .collect();
        for entity in gone {
            let outcome = self.despawn(&Despawn {
                entity,
                at_us: update.server_us,
                reason: 0,
            });
            debug_assert!(outcome.is_ok(), "a living entity can be despawned");
        }
    }

    fn spawn(&mut self, spawn: &Spawn, keyframe: bool) -> Result<(), Refusal> {
        let Spawn { entity, class, at_us } = *spawn;
        if usize::from(class) >= self.schema.classes.len() {
            return Err(Refusal::UnknownClass {
                entity,
                class,
                classes: self.schema.classes.len(),
            });
        }
        self.not_after_frame("spawn", entity, at_us)?;
        let mut displaced = None;
        if let Some((generation, slot)) = self.by_id.get(&entity.id).copied() {
            let lives = matches!(self.place(slot), Place::Live(r) if r.entity.id == entity.id);
            if generation > entity.generation || (generation == entity.generation && !lives) {
                return Err(Refusal::DeadGeneration {
                    what: "spawn",
                    entity,
                    current: generation,
                });
            }
            if generation == entity.generation {
                return if keyframe {
                    Ok(())
                } else {
                    Err(Refusal::AlreadyAlive(entity))
                };
            }
            if lives {
                displaced = Some(Entity {
                    id: entity.id,
                    generation,
                });
            }
        }
        let slot = self.free_slot().ok_or(Refusal::WorldFull {
            entity,
            max: SLOTS_MAX,
        })?;
        if let Some(entity) = displaced {
            let outcome = self.despawn(&Despawn {
                entity,
                at_us,
                reason: 0,
            });
            debug_assert!(outcome.is_ok(), "a living entity can be despawned");
        }
        self.by_id.insert(entity.id, (entity.generation, slot));
        self.set_place(slot, Place::Live(Record::born(entity, class, at_us)));
        Arc::make_mut(&mut self.alive).insert(slot);
        self.live += 1;
        Ok(())
    }

    /// A slot whose tombstone has outlived its quarantine, or a fresh one.
    fn free_slot(&mut self) -> Option<Slot> {
        if let Some((slot, entity, since)) = self.graves.front().copied()
            && self.tick.since(since).cast_unsigned() > self.quarantine_ticks
        {
            self.graves.pop_front();
            if self.by_id.get(&entity.id) == Some(&(entity.generation, slot)) {
                self.by_id.remove(&entity.id);
            }
            return Some(slot);
        }
        if self.slots_used >= SLOTS_MAX {
            return None;
        }
        let slot = Slot::try_from(self.slots_used).ok()?;
        self.slots_used += 1;
        if self.slots_used > self.chunks.len() * CHUNK_SLOTS {
            self.chunks
                .push(Arc::new(Chunk::new(self.tick.minus(QUIET_TICKS))));
        }
        Some(slot)
    }

    fn observe(&mut self, observation: &Observation) -> Result<(), Refusal> {
        let entity = observation.entity;
        let (slot, mut record) = self.alive_slot("observation", entity)?;
        if observation.segment < record.segment {
            return Err(Refusal::Stale(entity));
        }
        self.not_after_frame("segment", entity, observation.segment_us)?;
        if observation.segment > record.segment {
            record.segment = observation.segment;
            record.segment_us = observation.segment_us;
            record.motion = None;
        }
        if let Some(motion) = observation.motion {
            motion
                .check(&self.schema)
                .map_err(|field| Refusal::OutOfRange { entity, field })?;
            self.not_after_frame("observation", entity, motion.observed_us)?;
            if record
                .motion
                .is_some_and(|held| held.observed_us > motion.observed_us)
            {
                return Err(Refusal::Stale(entity));
            }
            record.motion = Some(motion);
            self.observed.insert(slot);
            if motion.at_rest {
                self.awake.remove(slot);
            } else {
                self.awake.insert(slot);
            }
        }
        self.set_record(slot, record);
        Ok(())
    }

    /// A living entity's record as the origin says it is: it is known at once, or waits for the entity's tick.
    fn set_record(&mut self, slot: Slot, record: Record) {
        let waits = match self.place(slot) {
            Place::Live(published) => {
                !Tiers::is_turn(self.tick, slot, record.tier) && Tiers::may_wait(published, &record)
            }
            _ => false,
        };
        if let Some(tiers) = &mut self.tiers {
            if waits {
                tiers.wait(slot, record);
                return;
            }
            tiers.forget(slot);
        }
        self.set_place(slot, Place::Live(record));
    }

    /// What waited for this tick is known now, and once a second tiers follow the densities.
    fn take_turns(&mut self) {
        let Some(mut tiers) = self.tiers.take() else {
            return;
        };
        for (slot, record) in tiers.take_due(self.tick) {
            self.set_place(slot, Place::Live(record));
        }
        if tiers.is_due(self.server_us) {
            let moving = self.alive.iter().filter_map(|slot| match self.place(slot) {
                Place::Live(record) => Some((slot, record.tier, record.motion.as_ref()?)),
                _ => None,
            });
            for (slot, tier) in tiers.changed(&self.schema, moving) {
                let Place::Live(published) = *self.place(slot) else {
                    continue;
                };
                let newest = tiers.waiting(slot).copied().unwrap_or(published);
                tiers.forget(slot);
                self.set_place(slot, Place::Live(Record { tier, ..newest }));
            }
        }
        self.tiers = Some(tiers);
    }

    fn tags(&self, slot: Slot) -> Tags {
        let slot = usize::from(slot);
        let chunk = self.chunks.get(slot / CHUNK_SLOTS);
        chunk
            .and_then(|chunk| chunk.tags.get(slot % CHUNK_SLOTS))
            .copied()
            .unwrap_or_default()
    }

    /// Tags are no part of a record: who may see it changes, what it is does not.
    fn set_tags(&mut self, update: &TagUpdate) -> Result<(), Refusal> {
        let (slot, _) = self.alive_slot("tags", update.entity)?;
        self.put_tags(slot, update.tags);
        Ok(())
    }

    /// A keyframe names the tags of all who have any: whoever it does not name has none.
    fn clear_tags(&mut self) {
        let alive = Arc::clone(&self.alive);
        alive.iter().for_each(|slot| self.put_tags(slot, 0));
    }

    fn put_tags(&mut self, slot: Slot, tags: Tags) {
        if self.tags(slot) == tags {
            return;
        }
        let index = usize::from(slot);
        let chunk = self.chunks.get_mut(index / CHUNK_SLOTS).map(Arc::make_mut);
        if let Some(place) = chunk.and_then(|chunk| chunk.tags.get_mut(index % CHUNK_SLOTS)) {
            *place = tags;
        }
    }

    fn set_extras(&mut self, update: &ExtraUpdate) -> Result<(), Refusal> {
        let entity = update.entity;
        let (slot, mut record) = self.alive_slot("extra fields", entity)?;
        let values = record.extras.iter_mut().zip(update.values).enumerate();
        for (field, (held, value)) in values.filter(|(field, _)| update.mask >> field & 1 == 1) {
            let fits = self
                .schema
                .extras
                .get(field)
                .is_some_and(|f| u64::from(value) <= f.mask());
            if !fits {
                return Err(Refusal::UnknownField { entity, field });
            }
            *held = value;
        }
        self.set_record(slot, record);
        Ok(())
    }

    /// On-change streams: whoever moves and was not observed in this tick is at rest from it (SPEC ENT9).
    fn rest_unobserved(&mut self) {
        let resting: Vec<Slot> = self
            .awake
            .iter()
            .filter(|slot| !self.observed.contains(*slot))
            .collect();
        for slot in resting {
            self.awake.remove(slot);
            if let Place::Live(record) = *self.place(slot) {
                let mut record = self.waiting(slot).copied().unwrap_or(record);
                if let Some(motion) = record.motion.as_mut() {
                    motion.at_rest = true;
                }
                self.set_record(slot, record);
            }
        }
    }
}

#[cfg(test)]
mod tests;
