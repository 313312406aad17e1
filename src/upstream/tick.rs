//! The bytes of a tick: a [`TickUpdate`] in fixed little-endian fields, section by section. Its directives are no part
//! of them: they are for one subscriber alone and travel before it.
//!
//! Invariant: a count is checked against the bytes that are left before anything is reserved for it. Ranges of
//! quantised values are not judged here but by the world that takes the update in, item by item.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::{UpstreamError, within};
use crate::limits::{
    EVENT_BYTES_MAX, EVENT_OVERHEAD_BYTES, EVENTS_TICK_BYTES_MAX, EXTRA_FIELDS_MAX, SERVER_TIME_MAX_US,
    SLOTS_MAX, UPSTREAM_FRAME_MAX,
};
use crate::state::entity::Entity;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

/// Bytes of a tick without items: kind, flags, three times eight, six counts.
pub const TICK_BYTES: usize = 2 + 3 * 8 + 6 * 4;
/// Bytes of a despawn.
pub const DESPAWN_BYTES: usize = 17;
/// Bytes of a spawn.
pub const SPAWN_BYTES: usize = 17;
/// Bytes of an observation.
pub const OBSERVATION_BYTES: usize = 72;
/// Bytes of an extra-fields item without values.
pub const EXTRA_BYTES: usize = 9;
/// Bytes of an entity's tags.
pub const TAGS_BYTES: usize = 12;
/// Bytes of an event without payload.
pub const EVENT_BYTES: usize = 21;

/// The most that one entity puts into a tick: it ends, begins, is observed, gets all its extra fields and
/// its tags.
const ENTITY_BYTES: usize =
    DESPAWN_BYTES + SPAWN_BYTES + OBSERVATION_BYTES + EXTRA_BYTES + 4 * EXTRA_FIELDS_MAX + TAGS_BYTES;
// The events of a tick have room, whatever else is in it: on the wire they take less than in memory.
const _: () = assert!(TICK_BYTES + SLOTS_MAX * ENTITY_BYTES + EVENTS_TICK_BYTES_MAX <= UPSTREAM_FRAME_MAX);
const _: () = assert!(EVENT_BYTES <= EVENT_OVERHEAD_BYTES);

const KEYFRAME: u8 = 1;
const HAS_MOTION: u8 = 1;
const AT_REST: u8 = 2;
const CRITICAL: u8 = 1;
const HAS_ENTITY: u8 = 2;

/// Appends the payload of a tick after its kind.
pub(super) fn write(update: &TickUpdate, out: &mut Vec<u8>) {
    out.put_u8(if update.keyframe { KEYFRAME } else { 0 });
    out.put_u64(update.origin_tick);
    out.put_u64(update.server_us);
    out.put_u64(update.published_us);
    section(&update.despawned, out, |despawn, out| {
        put_entity(despawn.entity, out);
        out.put_u64(despawn.at_us);
        out.put_u8(despawn.reason);
    });
    section(&update.spawned, out, |spawn, out| {
        put_entity(spawn.entity, out);
        out.put_u64(spawn.at_us);
        out.put_u8(spawn.class);
    });
    section(&update.observed, out, put_observation);
    section(&update.extras, out, |extras, out| {
        put_entity(extras.entity, out);
        out.put_u8(extras.mask);
        for (field, value) in extras.values.iter().enumerate() {
            if extras.mask >> field & 1 == 1 {
                out.put_u32(*value);
            }
        }
    });
    section(&update.tags, out, |tagged, out| {
        put_entity(tagged.entity, out);
        out.put_u32(tagged.tags);
    });
    section(&update.events, out, put_event);
}

/// Appends a count and the items. What we write is asserted: a world cannot hold more.
fn section<T>(items: &[T], out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    let count = u32::try_from(items.len());
    debug_assert!(count.is_ok(), "{} items do not fit a section", items.len());
    out.put_u32(count.unwrap_or(0));
    for item in items.iter().take(count.unwrap_or(0) as usize) {
        put(item, out);
    }
}

fn put_entity(entity: Entity, out: &mut Vec<u8>) {
    out.put_u32(entity.id);
    out.put_u32(entity.generation);
}

fn put_observation(observation: &Observation, out: &mut Vec<u8>) {
    put_entity(observation.entity, out);
    out.put_u32(observation.segment);
    out.put_u64(observation.segment_us);
    let Some(motion) = &observation.motion else {
        out.put(&[0; OBSERVATION_BYTES - 20]);
        return;
    };
    out.put_u8(HAS_MOTION | if motion.at_rest { AT_REST } else { 0 });
    out.put_u64(motion.observed_us);
    motion.position.iter().for_each(|q| out.put_u32(*q));
    out.put_u8(motion.rotation.largest);
    motion.rotation.parts.iter().for_each(|part| out.put_u16(*part));
    motion
        .velocity
        .iter()
        .chain(&motion.angular)
        .for_each(|v| out.put_i32(*v));
}

fn put_event(event: &Event, out: &mut Vec<u8>) {
    debug_assert!(
        event.payload.len() <= EVENT_BYTES_MAX,
        "an event of {} bytes",
        event.payload.len()
    );
    let critical = if event.critical { CRITICAL } else { 0 };
    let about = if event.entity.is_some() { HAS_ENTITY } else { 0 };
    out.put_u16(event.kind);
    out.put_u8(critical | about);
    put_entity(event.entity.unwrap_or_default(), out);
    out.put_u64(event.at_us);
    let length = u16::try_from(event.payload.len()).unwrap_or(0);
    out.put_u16(length);
    out.put(event.payload.get(..usize::from(length)).unwrap_or_default());
}

/// Reads the payload of a tick after its kind.
pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<TickUpdate, UpstreamError> {
    let part = |part| within("tick", part);
    let flags = reader.u8().map_err(part("header"))?;
    let mut update = TickUpdate {
        keyframe: flag(flags, KEYFRAME, KEYFRAME).map_err(part("header"))?,
        ..TickUpdate::default()
    };
    update.origin_tick = reader.u64().map_err(part("header"))?;
    update.server_us = time(reader).map_err(part("header"))?;
    update.published_us = reader.u64().map_err(part("header"))?;
    update.despawned = items(reader, DESPAWN_BYTES, get_despawn).map_err(part("despawns"))?;
    update.spawned = items(reader, SPAWN_BYTES, get_spawn).map_err(part("spawns"))?;
    update.observed = items(reader, OBSERVATION_BYTES, get_observation).map_err(part("observations"))?;
    update.extras = items(reader, EXTRA_BYTES, get_extras).map_err(part("extra fields"))?;
    update.tags = items(reader, TAGS_BYTES, get_tags).map_err(part("tags"))?;
    update.events = items(reader, EVENT_BYTES, get_event).map_err(part("events"))?;
    Ok(update)
}

/// Reads a count and that many items of at least `least` bytes each.
fn items<T>(
    reader: &mut ByteReader<'_>,
    least: usize,
    get: impl Fn(&mut ByteReader<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let count = usize::try_from(reader.u32()?).map_err(|_| ReadError::Short)?;
    if count > reader.rest().len() / least {
        return Err(ReadError::Short);
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(get(reader)?);
    }
    Ok(items)
}

/// One bit of `flags`; bits outside `known` must be clear.
fn flag(flags: u8, bit: u8, known: u8) -> Result<bool, ReadError> {
    if flags & !known != 0 {
        Err(ReadError::OutOfRange)
    } else {
        Ok(flags & bit != 0)
    }
}

fn time(reader: &mut ByteReader<'_>) -> Result<u64, ReadError> {
    let time = reader.u64()?;
    if time > SERVER_TIME_MAX_US {
        Err(ReadError::OutOfRange)
    } else {
        Ok(time)
    }
}

fn get_entity(reader: &mut ByteReader<'_>) -> Result<Entity, ReadError> {
    Ok(Entity {
        id: reader.u32()?,
        generation: reader.u32()?,
    })
}

fn get_despawn(reader: &mut ByteReader<'_>) -> Result<Despawn, ReadError> {
    Ok(Despawn {
        entity: get_entity(reader)?,
        at_us: time(reader)?,
        reason: reader.u8()?,
    })
}

fn get_spawn(reader: &mut ByteReader<'_>) -> Result<Spawn, ReadError> {
    Ok(Spawn {
        entity: get_entity(reader)?,
        at_us: time(reader)?,
        class: reader.u8()?,
    })
}

fn get_observation(reader: &mut ByteReader<'_>) -> Result<Observation, ReadError> {
    let entity = get_entity(reader)?;
    let segment = reader.u32()?;
    let segment_us = time(reader)?;
    let flags = reader.u8()?;
    let at_rest = flag(flags, AT_REST, HAS_MOTION | AT_REST)?;
    let motion = Motion {
        observed_us: time(reader)?,
        position: [reader.u32()?, reader.u32()?, reader.u32()?],
        rotation: Rotation {
            largest: reader.u8()?,
            parts: [reader.u16()?, reader.u16()?, reader.u16()?],
        },
        velocity: [reader.i32()?, reader.i32()?, reader.i32()?],
        angular: [reader.i32()?, reader.i32()?, reader.i32()?],
        at_rest,
    };
    let absent = Motion {
        observed_us: 0,
        position: [0; 3],
        rotation: Rotation {
            largest: 0,
            parts: [0; 3],
        },
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: false,
    };
    let motion = match flags & HAS_MOTION {
        HAS_MOTION => Some(motion),
        _ if motion == absent => None,
        _ => return Err(ReadError::NotCanonical),
    };
    Ok(Observation {
        entity,
        segment,
        segment_us,
        motion,
    })
}

fn get_extras(reader: &mut ByteReader<'_>) -> Result<ExtraUpdate, ReadError> {
    let entity = get_entity(reader)?;
    let mask = reader.u8()?;
    let mut values = [0; EXTRA_FIELDS_MAX];
    for (field, value) in values.iter_mut().enumerate() {
        if mask >> field & 1 == 1 {
            *value = reader.u32()?;
        }
    }
    Ok(ExtraUpdate { entity, mask, values })
}

fn get_tags(reader: &mut ByteReader<'_>) -> Result<TagUpdate, ReadError> {
    Ok(TagUpdate {
        entity: get_entity(reader)?,
        tags: reader.u32()?,
    })
}

fn get_event(reader: &mut ByteReader<'_>) -> Result<Event, ReadError> {
    let kind = reader.u16()?;
    let flags = reader.u8()?;
    let critical = flag(flags, CRITICAL, CRITICAL | HAS_ENTITY)?;
    let entity = match (flags & HAS_ENTITY, get_entity(reader)?) {
        (HAS_ENTITY, entity) => Some(entity),
        (_, entity) if entity == Entity::default() => None,
        _ => return Err(ReadError::NotCanonical),
    };
    let at_us = time(reader)?;
    let length = usize::from(reader.u16()?);
    if length > EVENT_BYTES_MAX {
        return Err(ReadError::OutOfRange);
    }
    Ok(Event {
        kind,
        critical,
        entity,
        at_us,
        payload: reader.bytes(length)?.to_vec(),
    })
}
