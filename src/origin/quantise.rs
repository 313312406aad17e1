//! A sample in metres becomes an update in integers, item by item.
//!
//! Invariant: an item is either exact within half a step or left out with an error; nothing is clamped (SPEC ID6,
//! DEC5). What only the world can judge (who is alive, which time is newer) is judged there.

use std::collections::{HashMap, HashSet};

use super::error::OriginError;
use crate::limits::{EVENT_BYTES_MAX, EVENTS_TICK_BYTES_MAX, EXTRA_FIELDS_MAX};
use crate::state::entity::Entity;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::sample::{ExtraSample, Sample, WorldSample};
use crate::state::schema::{Rate, Schema, SchemaError};
use crate::state::update::{Event, ExtraUpdate, Observation, TagUpdate, TickUpdate};
use crate::state::world::World;

/// The update that `sample` makes of `world`, and why items were left out.
pub(super) fn update(world: &World, sample: &WorldSample) -> (TickUpdate, Vec<OriginError>) {
    let mut errors = Vec::new();
    let mut update = TickUpdate {
        server_us: sample.server_us,
        ..TickUpdate::default()
    };
    lives(sample, &mut update, &mut errors);
    observations(world, sample, &mut update, &mut errors);
    extras(world.schema(), sample, &mut update, &mut errors);
    tags(sample, &mut update);
    events(sample, &mut update, &mut errors);
    (update, errors)
}

/// Despawns and spawns.
fn lives(sample: &WorldSample, update: &mut TickUpdate, errors: &mut Vec<OriginError>) {
    let server_us = sample.server_us;
    let mut seen = HashSet::new();
    let mut check = |what: &'static str, entity: Entity, at_us: u64| {
        if at_us > server_us {
            return Err(OriginError::Future {
                what,
                entity,
                at_us,
                server_us,
            });
        }
        if seen.insert((what, entity)) {
            Ok(())
        } else {
            Err(OriginError::Twice { what, entity })
        }
    };
    for despawn in &sample.despawned {
        match check("despawn", despawn.entity, despawn.at_us) {
            Ok(()) => update.despawned.push(*despawn),
            Err(error) => errors.push(error),
        }
    }
    for spawn in &sample.spawned {
        match check("spawn", spawn.entity, spawn.at_us) {
            Ok(()) => update.spawned.push(*spawn),
            Err(error) => errors.push(error),
        }
    }
}

fn observations(world: &World, sample: &WorldSample, update: &mut TickUpdate, errors: &mut Vec<OriginError>) {
    let born: HashMap<Entity, u64> = update
        .spawned
        .iter()
        .map(|spawn| (spawn.entity, spawn.at_us))
        .collect();
    let mut seen = HashSet::with_capacity(sample.observed.len());
    update.observed.reserve(sample.observed.len());
    for observed in &sample.observed {
        let entity = observed.entity;
        if !seen.insert(entity) {
            errors.push(OriginError::Twice {
                what: "observation",
                entity,
            });
            continue;
        }
        let motion = match motion(world.schema(), observed) {
            Ok(motion) => motion,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let held = world
            .record(entity)
            .map(|(_, record)| (record.segment, record.segment_us));
        let held = held.or_else(|| born.get(&entity).map(|at_us| (0, *at_us)));
        let segment_us = match held {
            Some((segment, segment_us)) if segment == observed.segment => segment_us,
            _ => observed.observed_us,
        };
        let segment = observed.segment;
        update.observed.push(Observation {
            entity,
            segment,
            segment_us,
            motion: Some(motion),
        });
    }
}

/// One observation in integers.
fn motion(schema: &Schema, sample: &Sample) -> Result<Motion, OriginError> {
    let entity = sample.entity;
    let value = |source: SchemaError| OriginError::Value {
        what: "observation",
        entity,
        source,
    };
    let [x, y, z] = &schema.position;
    let [at_x, at_y, at_z] = sample.position;
    let position = [
        x.quantise("x", at_x).map_err(value)?,
        y.quantise("y", at_y).map_err(value)?,
        z.quantise("z", at_z).map_err(value)?,
    ];
    let quaternion = sample.rotation;
    let rotation = Rotation::from_quaternion(quaternion, schema.rotation_bits)
        .ok_or(OriginError::Rotation { entity, quaternion })?;
    let velocity = rate(
        schema.velocity.as_ref(),
        ["velocity x", "velocity y", "velocity z"],
        sample.velocity,
    );
    let names = ["angular velocity x", "angular velocity y", "angular velocity z"];
    let angular = rate(schema.angular.as_ref(), names, sample.angular);
    Ok(Motion {
        observed_us: sample.observed_us,
        position,
        rotation,
        velocity: velocity.map_err(value)?,
        angular: angular.map_err(value)?,
        at_rest: sample.at_rest,
    })
}

/// Three components of a rate; zero, and not read, where the schema has none (SPEC DEC2).
fn rate(rate: Option<&Rate>, names: [&str; 3], values: [f64; 3]) -> Result<[i32; 3], SchemaError> {
    let Some(rate) = rate else { return Ok([0; 3]) };
    let mut steps = [0; 3];
    for ((step, name), value) in steps.iter_mut().zip(names).zip(values) {
        *step = rate.quantise(name, value)?;
    }
    Ok(steps)
}

/// Extra fields, gathered by entity; of two values for one field the later holds.
fn extras(schema: &Schema, sample: &WorldSample, update: &mut TickUpdate, errors: &mut Vec<OriginError>) {
    let mut places: HashMap<Entity, usize> = HashMap::with_capacity(sample.extras.len());
    for extra in &sample.extras {
        let ExtraSample { entity, field, value } = *extra;
        let Some(declared) = schema.extras.get(field) else {
            errors.push(OriginError::UnknownField {
                entity,
                field,
                fields: schema.extras.len(),
            });
            continue;
        };
        let pattern = match declared.pattern(value) {
            Ok(pattern) => pattern,
            Err(source) => {
                errors.push(OriginError::Value {
                    what: "extra field",
                    entity,
                    source,
                });
                continue;
            }
        };
        let place = *places.entry(entity).or_insert_with(|| {
            update.extras.push(ExtraUpdate {
                entity,
                mask: 0,
                values: [0; EXTRA_FIELDS_MAX],
            });
            update.extras.len() - 1
        });
        let item = &mut update.extras[place];
        item.mask |= 1 << field;
        item.values[field] = pattern;
    }
}

/// Tags, one item an entity; of two the later holds.
fn tags(sample: &WorldSample, update: &mut TickUpdate) {
    let mut places: HashMap<Entity, usize> = HashMap::with_capacity(sample.tags.len());
    for TagUpdate { entity, tags } in &sample.tags {
        let place = *places.entry(*entity).or_insert_with(|| {
            let entity = *entity;
            update.tags.push(TagUpdate { entity, tags: 0 });
            update.tags.len() - 1
        });
        update.tags[place].tags = *tags;
    }
}

fn events(sample: &WorldSample, update: &mut TickUpdate, errors: &mut Vec<OriginError>) {
    let server_us = sample.server_us;
    let mut room = EVENTS_TICK_BYTES_MAX;
    for event in &sample.events {
        let Event { kind, at_us, .. } = *event;
        let bytes = event.payload.len();
        if at_us > server_us {
            errors.push(OriginError::EventFuture {
                kind,
                at_us,
                server_us,
            });
        } else if bytes > EVENT_BYTES_MAX {
            errors.push(OriginError::EventTooLong { kind, bytes });
        } else if event.bytes() > room {
            errors.push(OriginError::EventRoom {
                kind,
                bytes: EVENTS_TICK_BYTES_MAX,
            });
        } else {
            room -= event.bytes();
            update.events.push(event.clone());
        }
    }
}
