//! The oracle: what every entity's record was at every frame, kept in the plainest way.
//!
//! It shares no code with the relay's world: a map from entity to the list of its records. It takes in what was
//! delivered to the relay, so a tick that was lost on the way is no truth. Old versions are forgotten after
//! [`HORIZON_US`] of relay time, far longer than anything can be under way.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::hasher::EntityHasher;
use super::world::event_number;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Entity;
use crate::state::frame::Place;
use crate::state::record::Record;
use crate::state::schema::Schema;
use crate::state::slots::Slot;
use crate::state::update::{Despawn, Observation, Spawn, TagUpdate, TickUpdate};
use crate::state::view::Tags;

/// How long versions are remembered.
pub const HORIZON_US: u64 = 25_000_000;

/// One published frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFact {
    /// Its tick at the relay.
    pub tick: Tick,
    /// Its stream.
    pub stream_epoch: u32,
    /// Its time, server microseconds.
    pub server_us: u64,
    /// How many entities live in it.
    pub living: usize,
    /// How many updates of the stream it holds.
    version: u64,
    /// When it was published, virtual time.
    at_us: u64,
}

/// One event that reached the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFact {
    /// Its number in its stream.
    pub number: u64,
    /// When it reached the relay, virtual time.
    pub at_us: u64,
    /// Whom it is about.
    pub entity: Option<Entity>,
}

/// What was true of an entity at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// It lived, with this record.
    Alive(&'a Record),
    /// It had ended: when and why.
    Ended {
        /// When, server microseconds.
        at_us: u64,
        /// The game's reason.
        reason: u8,
    },
    /// It had not begun.
    Unborn,
    /// There was never such an entity, or it was forgotten.
    Unknown,
}

#[derive(Debug, Default)]
struct Life {
    /// Records by the version from which they hold.
    versions: VecDeque<(u64, Record)>,
    /// Tag bits by the version from which they hold; none before the first.
    tags: VecDeque<(u64, Tags)>,
    ended: Option<(u64, u64, u8)>,
}

#[derive(Debug)]
struct Stream {
    epoch: u32,
    schema: Arc<Schema>,
    version: u64,
    lives: HashMap<Entity, Life, EntityHasher>,
    /// Who lives under an id.
    current: HashMap<u32, Entity, EntityHasher>,
    alive: Vec<Entity>,
    /// The events that reached the relay, by rising number.
    events: Vec<EventFact>,
    /// Who lives or lived last in a slot of the relay's, by the version from which it did.
    tenants: HashMap<Slot, VecDeque<(u64, Entity)>>,
}

/// Every frame there was, and every record in it.
#[derive(Debug, Default)]
pub struct Truth {
    frames: VecDeque<FrameFact>,
    streams: VecDeque<Stream>,
}

impl Truth {
    /// A new stream begins; the last one's frames stay known for a while.
    pub fn begin_stream(&mut self, epoch: u32, schema: &Arc<Schema>) {
        self.streams.push_back(Stream {
            epoch,
            schema: Arc::clone(schema),
            version: 0,
            lives: HashMap::default(),
            current: HashMap::default(),
            alive: Vec::new(),
            events: Vec::new(),
            tenants: HashMap::new(),
        });
    }

    /// Which slots the relay has given to whom: the newest frame's.
    pub fn note_tenants(&mut self, frame: &Frame) {
        let Some(stream) = self.streams.back_mut() else {
            return;
        };
        for slot in frame.dirty().iter() {
            let entity = match frame.place(slot) {
                Place::Live(record) => record.entity,
                Place::Grave(grave) => grave.entity,
                Place::Empty => continue,
            };
            let tenants = stream.tenants.entry(slot).or_default();
            if tenants.back().is_none_or(|(_, last)| *last != entity) {
                tenants.push_back((stream.version, entity));
            }
        }
    }

    /// Who lives in a slot at a frame, or lived there last, and all before, newest first.
    pub fn tenants(&self, frame: &FrameFact, slot: Slot) -> impl Iterator<Item = Entity> + '_ {
        let tenants = self
            .stream(frame.stream_epoch)
            .and_then(|stream| stream.tenants.get(&slot));
        let (all, version) = (tenants.into_iter().flatten().rev(), frame.version);
        all.filter(move |(since, _)| *since <= version)
            .map(|(_, entity)| *entity)
    }

    /// The first remembered tick at which an entity that had ended at `frame` was no more.
    #[must_use]
    pub fn ended_tick(&self, frame: &FrameFact, entity: Entity) -> Option<Tick> {
        let life = self.stream(frame.stream_epoch)?.lives.get(&entity)?;
        let (since, ..) = life.ended?;
        let first = self
            .frames
            .partition_point(|other| (other.stream_epoch, other.version) < (frame.stream_epoch, since));
        self.frames.get(first).map(|frame| frame.tick)
    }

    fn stream(&self, epoch: u32) -> Option<&Stream> {
        self.streams.iter().rev().find(|stream| stream.epoch == epoch)
    }

    /// The tag bits of an entity at a frame.
    #[must_use]
    pub fn tags_at(&self, frame: &FrameFact, entity: Entity) -> Tags {
        let life = self
            .stream(frame.stream_epoch)
            .and_then(|stream| stream.lives.get(&entity));
        life.and_then(|life| life.tags.iter().rev().find(|(since, _)| *since <= frame.version))
            .map_or(0, |(_, tags)| *tags)
    }

    /// Where an entity is at a frame, metres; `None` where it has no place, or one so far away that a relay gives it none.
    #[must_use]
    pub fn place_at(&self, frame: &FrameFact, entity: Entity) -> Option<[f64; 3]> {
        let schema = &self.stream(frame.stream_epoch)?.schema;
        let Fact::Alive(record) = self.at(frame, entity) else {
            return None;
        };
        let motion = record.motion.as_ref()?;
        let mut place = [0.0; 3];
        for ((to, axis), q) in place.iter_mut().zip(&schema.position).zip(motion.position) {
            *to = axis.min + axis.step * f64::from(q);
        }
        let within = place
            .iter()
            .all(|metres| metres.abs() * 100.0 <= f64::from(i32::MAX));
        within.then_some(place)
    }

    /// True when the id of an entity is another life's now.
    #[must_use]
    pub fn is_replaced(&self, entity: Entity) -> bool {
        let current = self
            .streams
            .back()
            .and_then(|stream| stream.current.get(&entity.id));
        current.is_some_and(|other| *other != entity)
    }

    /// An update was published as `tick`.
    pub fn publish(&mut self, tick: Tick, update: &TickUpdate, at_us: u64) {
        let Some(stream) = self.streams.back_mut() else {
            return;
        };
        stream.apply(update, at_us);
        self.frames.push_back(FrameFact {
            tick,
            stream_epoch: stream.epoch,
            server_us: update.server_us,
            living: stream.alive.len(),
            version: stream.version,
            at_us,
        });
    }

    /// The last frame was published again as `tick`.
    pub fn hold(&mut self, tick: Tick, at_us: u64) {
        if let Some(last) = self.frames.back().copied() {
            self.frames.push_back(FrameFact { tick, at_us, ..last });
        }
    }

    /// The frame of a tick.
    #[must_use]
    pub fn frame(&self, tick: Tick) -> Option<&FrameFact> {
        let first = self.frames.front()?;
        let index = usize::try_from(tick.since(first.tick)).ok()?;
        self.frames.get(index).filter(|frame| frame.tick == tick)
    }

    /// The newest frame.
    #[must_use]
    pub fn newest(&self) -> Option<&FrameFact> {
        self.frames.back()
    }

    /// What was true of an entity at a frame.
    #[must_use]
    pub fn at(&self, frame: &FrameFact, entity: Entity) -> Fact<'_> {
        let stream = self.stream(frame.stream_epoch);
        let Some(life) = stream.and_then(|stream| stream.lives.get(&entity)) else {
            return Fact::Unknown;
        };
        if let Some((since, at_us, reason)) = life.ended
            && since <= frame.version
        {
            return Fact::Ended { at_us, reason };
        }
        // Versions asked for are near the end: look from there.
        match life
            .versions
            .iter()
            .rev()
            .find(|(since, _)| *since <= frame.version)
        {
            Some((_, record)) => Fact::Alive(record),
            None => Fact::Unborn,
        }
    }

    /// Whether a record was true of its entity at some time, as far as is remembered.
    #[must_use]
    pub fn was(&self, record: &Record) -> bool {
        let lives = self
            .streams
            .iter()
            .filter_map(|stream| stream.lives.get(&record.entity));
        let mut lives = lives.peekable();
        lives.peek().is_none() || lives.any(|life| life.versions.iter().any(|(_, version)| version == record))
    }

    /// The event that came after one in a stream.
    #[must_use]
    pub fn event_after(&self, stream_epoch: u32, number: u64) -> Option<&EventFact> {
        let stream = self.streams.iter().find(|stream| stream.epoch == stream_epoch)?;
        let index = stream.events.partition_point(|event| event.number <= number);
        stream.events.get(index)
    }

    /// Everybody remembered who lived in a frame.
    pub fn living_at(&self, frame: &FrameFact) -> impl Iterator<Item = Entity> + '_ {
        let frame = *frame;
        let stream = self
            .streams
            .iter()
            .find(|stream| stream.epoch == frame.stream_epoch);
        let lives = stream.into_iter().flat_map(|stream| stream.lives.keys().copied());
        lives.filter(move |entity| matches!(self.at(&frame, *entity), Fact::Alive(_)))
    }

    /// Who lives in the newest frame.
    #[must_use]
    pub fn living(&self) -> &[Entity] {
        self.streams.back().map_or(&[], |stream| &stream.alive)
    }

    /// Forgets what is older than the horizon.
    pub fn forget(&mut self, now_us: u64) {
        let mut oldest = None;
        while let Some(frame) = self.frames.front()
            && frame.at_us + HORIZON_US < now_us
            && self.frames.len() > 1
        {
            self.frames.pop_front();
        }
        if let Some(frame) = self.frames.front() {
            oldest = Some((frame.stream_epoch, frame.version));
        }
        let Some((epoch, version)) = oldest else { return };
        self.streams.retain(|stream| stream.epoch >= epoch);
        for stream in self.streams.iter_mut().filter(|stream| stream.epoch == epoch) {
            stream
                .lives
                .retain(|_, life| life.ended.is_none_or(|(since, ..)| since >= version));
            for life in stream.lives.values_mut() {
                while life.versions.get(1).is_some_and(|(since, _)| *since <= version) {
                    life.versions.pop_front();
                }
                while life.tags.get(1).is_some_and(|(since, _)| *since <= version) {
                    life.tags.pop_front();
                }
            }
        }
    }
}

impl Stream {
    fn apply(&mut self, update: &TickUpdate, at_us: u64) {
        self.version += 1;
        for event in &update.events {
            if let Some((_, number)) = event_number(&event.payload) {
                let entity = event.entity;
                self.events.push(EventFact {
                    number,
                    at_us,
                    entity,
                });
            }
        }
        for Despawn {
            entity,
            at_us,
            reason,
        } in &update.despawned
        {
            self.end(*entity, *at_us, *reason);
        }
        if update.keyframe {
            let named: std::collections::HashSet<Entity> =
                update.spawned.iter().map(|spawn| spawn.entity).collect();
            for entity in self.alive.clone() {
                if !named.contains(&entity) {
                    self.end(entity, update.server_us, 0);
                }
            }
        }
        for spawn in &update.spawned {
            self.begin(spawn);
        }
        for Observation {
            entity,
            segment,
            segment_us,
            motion,
        } in &update.observed
        {
            self.change(*entity, |record| {
                if *segment != record.segment {
                    (record.segment, record.segment_us) = (*segment, *segment_us);
                }
                record.motion = *motion;
            });
        }
        for extras in &update.extras {
            self.change(extras.entity, |record| {
                for field in (0..record.extras.len()).filter(|field| extras.mask >> field & 1 == 1) {
                    record.extras[field] = extras.values[field];
                }
            });
        }
        if self.schema.on_change {
            self.rest_the_others(update);
        }
        if update.keyframe {
            for entity in self.alive.clone() {
                self.tag(entity, 0);
            }
        }
        for TagUpdate { entity, tags } in &update.tags {
            self.tag(*entity, *tags);
        }
    }

    fn tag(&mut self, entity: Entity, tags: Tags) {
        let Some(life) = self.lives.get_mut(&entity) else {
            return;
        };
        if let Some((since, last)) = life.tags.back_mut()
            && *since == self.version
        {
            *last = tags;
        } else if life.tags.back().map_or(0, |(_, last)| *last) != tags {
            life.tags.push_back((self.version, tags));
        }
    }

    fn begin(&mut self, spawn: &Spawn) {
        let Spawn { entity, class, at_us } = *spawn;
        match self.current.get(&entity.id).copied() {
            Some(same) if same == entity => return,
            Some(other) => self.end(other, at_us, 0),
            None => {}
        }
        self.current.insert(entity.id, entity);
        self.alive.push(entity);
        let life = self.lives.entry(entity).or_default();
        life.versions
            .push_back((self.version, Record::born(entity, class, at_us)));
    }

    fn end(&mut self, entity: Entity, at_us: u64, reason: u8) {
        if self.current.get(&entity.id) == Some(&entity) {
            self.current.remove(&entity.id);
            self.alive.retain(|other| *other != entity);
            if let Some(life) = self.lives.get_mut(&entity) {
                life.ended = Some((self.version, at_us, reason));
            }
        }
    }

    fn change(&mut self, entity: Entity, change: impl FnOnce(&mut Record)) {
        let Some(life) = self.lives.get_mut(&entity) else {
            return;
        };
        let Some((since, record)) = life.versions.back_mut() else {
            return;
        };
        if *since == self.version {
            return change(record);
        }
        let mut changed = *record;
        change(&mut changed);
        if changed != *record {
            life.versions.push_back((self.version, changed));
        }
    }

    /// On-change streams: who is not named is at rest from this tick (SPEC ENT9).
    fn rest_the_others(&mut self, update: &TickUpdate) {
        let named: std::collections::HashSet<Entity, EntityHasher> = update
            .observed
            .iter()
            .map(|observation| observation.entity)
            .collect();
        for index in 0..self.alive.len() {
            let entity = self.alive[index];
            if !named.contains(&entity) {
                self.change(entity, |record| {
                    if let Some(motion) = record.motion.as_mut() {
                        motion.at_rest = true;
                    }
                });
            }
        }
    }
}

mod sabotage;
#[cfg(test)]
mod tests;
