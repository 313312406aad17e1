//! The bytes of what passes between an origin and the players of a subscriber: events up, directives down.
//!
//! Invariants: a list says how many it holds, at least one, and is checked against the bytes that are left before
//! anything is reserved for it; one legal encoding.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::delta::message::{put_view, take_view};
use crate::limits::{
    DIRECTIVES_TICK_BYTES_MAX, EVENT_BYTES_MAX, EVENT_OVERHEAD_BYTES, INPUT_BYTES_MAX, UPSTREAM_FRAME_MAX,
    UPSTREAM_REQUEST_MAX,
};
use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent};
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

const JOINED: u8 = 1;
const LEFT: u8 = 2;
const INPUT: u8 = 3;
const INPUTS_LOST: u8 = 4;
const CAMERA: u8 = 5;

const ASSIGN: u8 = 1;
const MESSAGE: u8 = 2;
const PROCESSED: u8 = 3;

const HAS_ENTITY: u8 = 1;
const HAS_VIEW: u8 = 2;

/// Bytes of a list without items: the message's kind and a count.
const LIST_BYTES: usize = 1 + 4;
/// Directives in one message: those of a tick.
const DIRECTIVES_MAX: usize = DIRECTIVES_TICK_BYTES_MAX / EVENT_OVERHEAD_BYTES;
/// Bytes that each event and each directive begins with: its kind and the player.
const HEAD_BYTES: usize = 1 + 8;
/// Bytes of a directive beside its payload, at the most: one that assigns an entity and a view with a range.
const DIRECTIVE_BYTES: usize = HEAD_BYTES + 1 + 8 + 13;

// One event always fits a message, and so do all directives of a tick.
const _: () = assert!(LIST_BYTES + HEAD_BYTES + 4 + 2 + INPUT_BYTES_MAX <= UPSTREAM_REQUEST_MAX);
const _: () = assert!(DIRECTIVE_BYTES <= EVENT_OVERHEAD_BYTES);
const _: () = assert!(LIST_BYTES + DIRECTIVES_TICK_BYTES_MAX <= UPSTREAM_FRAME_MAX);

/// How many of `events`, from the first, fit one message; at least one where there is any.
pub(super) fn fitting(events: &[PlayerEvent]) -> usize {
    let mut bytes = LIST_BYTES;
    let fits = |event: &&PlayerEvent| {
        bytes += bytes_of(event);
        bytes <= UPSTREAM_REQUEST_MAX
    };
    events.iter().take_while(fits).count().max(1).min(events.len())
}

fn bytes_of(event: &PlayerEvent) -> usize {
    HEAD_BYTES
        + match event {
            PlayerEvent::Joined(..) => 8,
            PlayerEvent::Left(_) => 0,
            PlayerEvent::Input { payload, .. } => 4 + 2 + payload.len(),
            PlayerEvent::InputsLost { .. } => 8,
            PlayerEvent::Camera { .. } => 12,
        }
}

/// Appends events of players after the kind of their message.
pub(super) fn put_events(events: &[PlayerEvent], out: &mut Vec<u8>) {
    put_count(events.len(), out);
    for event in events {
        let kind = match event {
            PlayerEvent::Joined(..) => JOINED,
            PlayerEvent::Left(_) => LEFT,
            PlayerEvent::Input { .. } => INPUT,
            PlayerEvent::InputsLost { .. } => INPUTS_LOST,
            PlayerEvent::Camera { .. } => CAMERA,
        };
        out.put_u8(kind);
        out.put_u64(event.player());
        match event {
            PlayerEvent::Joined(_, client) => out.put_u64(*client),
            PlayerEvent::Left(_) => {}
            PlayerEvent::Input {
                sequence, payload, ..
            } => {
                out.put_u32(*sequence);
                put_payload(payload, INPUT_BYTES_MAX, out);
            }
            PlayerEvent::InputsLost { first, count, .. } => {
                out.put_u32(*first);
                out.put_u32(*count);
            }
            PlayerEvent::Camera { position, .. } => position.iter().for_each(|q| out.put_u32(*q)),
        }
    }
}

/// Reads what [`put_events`] writes.
pub(super) fn take_events(reader: &mut ByteReader<'_>) -> Result<Vec<PlayerEvent>, ReadError> {
    list(reader, usize::MAX, |reader| {
        let (kind, player) = (reader.u8()?, reader.u64()?);
        match kind {
            JOINED => Ok(PlayerEvent::Joined(player, reader.u64()?)),
            LEFT => Ok(PlayerEvent::Left(player)),
            INPUT => {
                let sequence = reader.u32()?;
                if sequence == 0 {
                    return Err(ReadError::OutOfRange);
                }
                let payload = take_payload(reader, INPUT_BYTES_MAX)?;
                Ok(PlayerEvent::Input {
                    player,
                    sequence,
                    payload,
                })
            }
            INPUTS_LOST => {
                let (first, count) = (reader.u32()?, reader.u32()?);
                if first == 0 || count == 0 || first.checked_add(count - 1).is_none() {
                    return Err(ReadError::OutOfRange);
                }
                Ok(PlayerEvent::InputsLost { player, first, count })
            }
            CAMERA => Ok(PlayerEvent::Camera {
                player,
                position: [reader.u32()?, reader.u32()?, reader.u32()?],
            }),
            _ => Err(ReadError::OutOfRange),
        }
    })
}

/// Appends directives after the kind of their message.
pub(super) fn put_directives(directives: &[Directive], out: &mut Vec<u8>) {
    put_count(directives.len(), out);
    for Directive { player, order } in directives {
        let kind = match order {
            Order::Assign { .. } => ASSIGN,
            Order::Message { .. } => MESSAGE,
            Order::Processed(_) => PROCESSED,
        };
        out.put_u8(kind);
        out.put_u64(*player);
        match order {
            Order::Assign { entity, view } => {
                let entity_flag = if entity.is_some() { HAS_ENTITY } else { 0 };
                out.put_u8(entity_flag | if view.is_some() { HAS_VIEW } else { 0 });
                if let Some(entity) = entity {
                    out.put_u32(entity.id);
                    out.put_u32(entity.generation);
                }
                if let Some(view) = view {
                    put_view(view, out);
                }
            }
            Order::Message { kind, payload } => {
                out.put_u16(*kind);
                put_payload(payload, EVENT_BYTES_MAX, out);
            }
            Order::Processed(sequence) => out.put_u32(*sequence),
        }
    }
}

/// Reads what [`put_directives`] writes.
pub(super) fn take_directives(reader: &mut ByteReader<'_>) -> Result<Vec<Directive>, ReadError> {
    list(reader, DIRECTIVES_MAX, |reader| {
        let (kind, player) = (reader.u8()?, reader.u64()?);
        let order = match kind {
            ASSIGN => take_assign(reader)?,
            MESSAGE => Order::Message {
                kind: reader.u16()?,
                payload: take_payload(reader, EVENT_BYTES_MAX)?,
            },
            PROCESSED => Order::Processed(reader.u32()?),
            _ => return Err(ReadError::OutOfRange),
        };
        Ok(Directive { player, order })
    })
}

fn take_assign(reader: &mut ByteReader<'_>) -> Result<Order, ReadError> {
    let flags = reader.u8()?;
    if flags & !(HAS_ENTITY | HAS_VIEW) != 0 {
        return Err(ReadError::OutOfRange);
    }
    let entity = if flags & HAS_ENTITY != 0 {
        Some(Entity {
            id: reader.u32()?,
            generation: reader.u32()?,
        })
    } else {
        None
    };
    let view = if flags & HAS_VIEW != 0 {
        Some(take_view(reader)?)
    } else {
        None
    };
    Ok(Order::Assign { entity, view })
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    debug_assert!(count > 0, "a list of nothing is not sent");
    out.put_u32(u32::try_from(count).unwrap_or(0));
}

/// Reads a count from one to `max` and that many items.
fn list<T>(
    reader: &mut ByteReader<'_>,
    max: usize,
    take: impl Fn(&mut ByteReader<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let count = usize::try_from(reader.u32()?).map_err(|_| ReadError::Short)?;
    if count == 0 || count > max {
        return Err(ReadError::OutOfRange);
    }
    if count > reader.rest().len() / HEAD_BYTES {
        return Err(ReadError::Short);
    }
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(take(reader)?);
    }
    Ok(items)
}

fn put_payload(payload: &[u8], max: usize, out: &mut Vec<u8>) {
    debug_assert!(payload.len() <= max, "a payload of {} bytes", payload.len());
    let payload = payload.get(..max).unwrap_or(payload);
    out.put_u16(u16::try_from(payload.len()).unwrap_or(0));
    out.put(payload);
}

fn take_payload(reader: &mut ByteReader<'_>, max: usize) -> Result<Vec<u8>, ReadError> {
    let length = usize::from(reader.u16()?);
    if length > max {
        return Err(ReadError::OutOfRange);
    }
    Ok(reader.bytes(length)?.to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// What fits is what is encoded: a message is full, never over its bound.
    #[test]
    fn as_many_events_as_fit_are_told_at_once() {
        let input = |length| PlayerEvent::Input {
            player: 1,
            sequence: 1,
            payload: vec![0; length],
        };
        let events: Vec<PlayerEvent> = (0..2000)
            .map(|n| match n % 4 {
                0 => PlayerEvent::Joined(n, n),
                1 => input(INPUT_BYTES_MAX),
                2 => PlayerEvent::InputsLost {
                    player: n,
                    first: 1,
                    count: 2,
                },
                _ => PlayerEvent::Camera {
                    player: n,
                    position: [1; 3],
                },
            })
            .collect();
        let mut rest = &events[..];
        let mut messages = 0;
        while !rest.is_empty() {
            let count = fitting(rest);
            let mut bytes = Vec::new();
            put_events(&rest[..count], &mut bytes);
            assert!(bytes.len() < UPSTREAM_REQUEST_MAX);
            assert!(
                count == rest.len()
                    || 1 + bytes.len() + HEAD_BYTES + 6 + INPUT_BYTES_MAX > UPSTREAM_REQUEST_MAX
            );
            rest = &rest[count..];
            messages += 1;
        }
        assert!(messages > 1);
        assert_eq!((fitting(&[]), fitting(&events[..1])), (0, 1));
    }
}
