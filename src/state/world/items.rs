//! The items of a tick, each taken in or refused by itself (THREATS 83): who comes and goes, where it is, who may see it.

use std::sync::Arc;

use super::{Refusal, World};
use crate::limits::{CHUNK_SLOTS, QUIET_TICKS, SLOTS_MAX};
use crate::state::entity::Entity;
use crate::state::frame::{Chunk, Grave, Place};
use crate::state::record::Record;
use crate::state::slots::Slot;
use crate::state::tiers::Tiers;
use crate::state::update::{Despawn, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use crate::state::view::Tags;

impl World {
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

    pub(super) fn despawn(&mut self, despawn: &Despawn) -> Result<(), Refusal> {
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
        self.regrouped = self.tick;
        self.awake.remove(slot);
        self.live -= 1;
        Ok(())
    }

    pub(super) fn despawn_missing(&mut self, update: &TickUpdate) {
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

    pub(super) fn spawn(&mut self, spawn: &Spawn, keyframe: bool) -> Result<(), Refusal> {
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
        self.regrouped = self.tick;
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

    pub(super) fn observe(&mut self, observation: &Observation) -> Result<(), Refusal> {
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
    pub(super) fn take_turns(&mut self) {
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

    pub(super) fn tags(&self, slot: Slot) -> Tags {
        let slot = usize::from(slot);
        let chunk = self.chunks.get(slot / CHUNK_SLOTS);
        chunk
            .and_then(|chunk| chunk.tags.get(slot % CHUNK_SLOTS))
            .copied()
            .unwrap_or_default()
    }

    /// Tags are no part of a record: who may see it changes, what it is does not.
    pub(super) fn set_tags(&mut self, update: &TagUpdate) -> Result<(), Refusal> {
        let (slot, _) = self.alive_slot("tags", update.entity)?;
        self.put_tags(slot, update.tags);
        Ok(())
    }

    /// A keyframe names the tags of all who have any: whoever it does not name has none.
    pub(super) fn clear_tags(&mut self) {
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
            self.regrouped = self.tick;
        }
    }

    pub(super) fn set_extras(&mut self, update: &ExtraUpdate) -> Result<(), Refusal> {
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
    pub(super) fn rest_unobserved(&mut self) {
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
