//! Messages of the reliable stream (SPEC CTL1, CTL3): what happens once and must arrive, in order.
//!
//! Structure (enter, leave, destroy, hide) is never a message: it travels as entries of the delta. A message
//! is a tag byte and its fields; the last field takes the rest. Invariant: one legal encoding (THREATS 32).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::limits::{EVENT_BYTES_MAX, MESSAGE_BYTES_MAX, SERVER_TIME_MAX_US, TIER_MAX};
use crate::state::entity::Entity;
use crate::state::update::Event;
use crate::state::view::{Range, Scope, View};
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

/// One message of the reliable stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Something happened in the world (SPEC CTL3, class EVENT).
    Event(Event),
    /// Events from here on are of the stream with this ordinal (SPEC PLY7).
    Stream(u32),
    /// Which entity is the client's own, and what it may see.
    Assigned(Assigned),
    /// The origin says something to this client alone.
    Directed(Directed),
    /// The rate tier of the client's own entity: it is sent every 2^tier ticks (SPEC CTL5).
    Tier(u8),
}

/// A client's own entity and view, as the server side set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Assigned {
    /// Its own entity, where it has one.
    pub entity: Option<Entity>,
    /// What it may see.
    pub view: View,
}

/// A message of the origin to one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directed {
    /// The game's kind.
    pub kind: u16,
    /// The game's bytes, at most [`EVENT_BYTES_MAX`].
    pub payload: Vec<u8>,
}

const TAG_EVENT: u8 = 1;
const TAG_STREAM: u8 = 2;
const TAG_ASSIGNED: u8 = 3;
const TAG_DIRECTED: u8 = 4;
const TAG_TIER: u8 = 5;
const SCOPE_WHOLE: u8 = 0;
const SCOPE_OWNER: u8 = 1;
const SCOPE_CAMERA: u8 = 2;
const CRITICAL: u8 = 1;
const HAS_ENTITY: u8 = 2;

/// Most bytes a message takes: tag, kind, flags, entity, time, payload.
const BYTES_MAX: usize = 1 + 3 + 1 + 10 + 6 + EVENT_BYTES_MAX;
const _: () = assert!(BYTES_MAX <= MESSAGE_BYTES_MAX);

impl Message {
    /// Appends the message, at most [`MESSAGE_BYTES_MAX`] bytes. An event's payload of more than
    /// [`EVENT_BYTES_MAX`] bytes or time past [`SERVER_TIME_MAX_US`] is a mistake of the caller; both are
    /// refused where events come in.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Event(event) => encode_event(event, out),
            Message::Stream(epoch) => {
                out.put_u8(TAG_STREAM);
                out.put_varint(*epoch);
            }
            Message::Assigned(assigned) => {
                out.put_u8(TAG_ASSIGNED);
                put_assigned(assigned, out);
            }
            Message::Directed(Directed { kind, payload }) => {
                debug_assert!(payload.len() <= EVENT_BYTES_MAX);
                out.put_u8(TAG_DIRECTED);
                out.put_varint(u32::from(*kind));
                out.put(payload);
            }
            Message::Tier(tier) => {
                out.put_u8(TAG_TIER);
                out.put_u8(*tier);
            }
        }
    }

    /// Reads a message that fills `bytes`.
    ///
    /// # Errors
    /// [`ReadError`]: unknown tag or flag, bytes missing, a payload that is too long.
    pub fn decode(bytes: &[u8]) -> Result<Message, ReadError> {
        let mut reader = ByteReader::new(bytes);
        match reader.u8()? {
            TAG_EVENT => Ok(Message::Event(decode_event(&mut reader)?)),
            TAG_STREAM => {
                let epoch = reader.varint()?;
                reader.end()?;
                Ok(Message::Stream(epoch))
            }
            TAG_ASSIGNED => {
                let assigned = take_assigned(&mut reader)?;
                reader.end()?;
                Ok(Message::Assigned(assigned))
            }
            TAG_DIRECTED => {
                let kind = u16::try_from(reader.varint()?).map_err(|_| ReadError::OutOfRange)?;
                let payload = reader.rest();
                if payload.len() > EVENT_BYTES_MAX {
                    return Err(ReadError::OutOfRange);
                }
                Ok(Message::Directed(Directed {
                    kind,
                    payload: payload.to_vec(),
                }))
            }
            TAG_TIER => {
                let tier = reader.u8()?;
                reader.end()?;
                if tier > TIER_MAX {
                    return Err(ReadError::OutOfRange);
                }
                Ok(Message::Tier(tier))
            }
            _ => Err(ReadError::OutOfRange),
        }
    }
}

/// An entity and a view in bytes: a flag and the identity, the scope and its range, the tags.
fn put_assigned(assigned: &Assigned, out: &mut impl ByteWriter) {
    out.put_u8(u8::from(assigned.entity.is_some()));
    if let Some(entity) = assigned.entity {
        out.put_varint(entity.id);
        out.put_varint(entity.generation);
    }
    put_view(&assigned.view, out);
}

fn take_assigned(reader: &mut ByteReader<'_>) -> Result<Assigned, ReadError> {
    let entity = match reader.u8()? {
        0 => None,
        1 => Some(Entity {
            id: reader.varint()?,
            generation: reader.varint()?,
        }),
        _ => return Err(ReadError::OutOfRange),
    };
    Ok(Assigned {
        entity,
        view: take_view(reader)?,
    })
}

/// Writes a view: scope, its range in centimetres where it has one, tags.
pub fn put_view(view: &View, out: &mut impl ByteWriter) {
    out.put_u8(match view.scope {
        Scope::Whole => SCOPE_WHOLE,
        Scope::Owner(_) => SCOPE_OWNER,
        Scope::Camera(_) => SCOPE_CAMERA,
    });
    if let Some(range) = view.scope.range() {
        out.put_u32(range.enter_cm());
        out.put_u32(range.leave_cm());
    }
    out.put_u32(view.tags);
}

/// Reads what [`put_view`] writes.
///
/// # Errors
/// [`ReadError`]: an unknown scope, a range that is none, bytes missing.
pub fn take_view(reader: &mut ByteReader<'_>) -> Result<View, ReadError> {
    let scope = reader.u8()?;
    let mut range = || -> Result<Range, ReadError> {
        let (enter_cm, leave_cm) = (reader.u32()?, reader.u32()?);
        Range::new(enter_cm, leave_cm).ok_or(ReadError::OutOfRange)
    };
    let scope = match scope {
        SCOPE_WHOLE => Scope::Whole,
        SCOPE_OWNER => Scope::Owner(range()?),
        SCOPE_CAMERA => Scope::Camera(range()?),
        _ => return Err(ReadError::OutOfRange),
    };
    Ok(View {
        scope,
        tags: reader.u32()?,
    })
}

fn encode_event(event: &Event, out: &mut Vec<u8>) {
    debug_assert!(event.payload.len() <= EVENT_BYTES_MAX && event.at_us <= SERVER_TIME_MAX_US);
    out.put_u8(TAG_EVENT);
    out.put_varint(u32::from(event.kind));
    let critical = if event.critical { CRITICAL } else { 0 };
    out.put_u8(critical | if event.entity.is_some() { HAS_ENTITY } else { 0 });
    if let Some(entity) = event.entity {
        out.put_varint(entity.id);
        out.put_varint(entity.generation);
    }
    out.put_time48(event.at_us);
    out.put(&event.payload);
}

fn decode_event(reader: &mut ByteReader<'_>) -> Result<Event, ReadError> {
    let kind = u16::try_from(reader.varint()?).map_err(|_| ReadError::OutOfRange)?;
    let flags = reader.u8()?;
    if flags & !(CRITICAL | HAS_ENTITY) != 0 {
        return Err(ReadError::OutOfRange);
    }
    let entity = if flags & HAS_ENTITY != 0 {
        Some(Entity {
            id: reader.varint()?,
            generation: reader.varint()?,
        })
    } else {
        None
    };
    let at_us = reader.time48()?;
    let payload = reader.rest();
    if payload.len() > EVENT_BYTES_MAX {
        return Err(ReadError::OutOfRange);
    }
    Ok(Event {
        kind,
        critical: flags & CRITICAL != 0,
        entity,
        at_us,
        payload: payload.to_vec(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_round_trip_within_their_bound(
            kind: u16, critical: bool, entity in prop::option::of(any::<(u32, u32)>()),
            at_us in 0..=SERVER_TIME_MAX_US, payload in prop::collection::vec(any::<u8>(), 0..=EVENT_BYTES_MAX),
        ) {
            let entity = entity.map(|(id, generation)| Entity { id, generation });
            let message = Message::Event(Event { kind, critical, entity, at_us, payload });
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
        }

        /// THREATS 32: what decodes re-encodes to the same bytes; nothing panics.
        #[test]
        fn threats_32_only_canonical_messages_decode(bytes in prop::collection::vec(any::<u8>(), 0..300), tag in 0u8..6) {
            let mut bytes = bytes;
            bytes.insert(0, tag);
            if let Ok(message) = Message::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn what_is_said_to_one_client_round_trips_within_its_bound() {
        let range = Range::new(5_000, 6_000).unwrap();
        let scopes = [Scope::Whole, Scope::Owner(range), Scope::Camera(range)];
        let entities = [
            None,
            Some(Entity {
                id: 1 << 30,
                generation: 7,
            }),
        ];
        let views = scopes.map(|scope| View { scope, tags: 0b1010 });
        let assigned = views
            .into_iter()
            .flat_map(|view| entities.map(|entity| Message::Assigned(Assigned { entity, view })));
        let directed = [0, EVENT_BYTES_MAX].map(|length| {
            Message::Directed(Directed {
                kind: u16::MAX,
                payload: vec![3; length],
            })
        });
        let tiers = (0..=TIER_MAX).map(Message::Tier);
        for message in assigned.chain(directed).chain(tiers) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(Message::decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let long = [&[TAG_DIRECTED, 1][..], &[0; EVENT_BYTES_MAX + 1]].concat();
        for bytes in [
            &[TAG_TIER, TIER_MAX + 1][..],
            &[TAG_ASSIGNED, 2, SCOPE_WHOLE, 0, 0, 0, 0],
            &[TAG_ASSIGNED, 0, 3, 0, 0, 0, 0],
            // Left nearer than entered.
            &[TAG_ASSIGNED, 0, SCOPE_OWNER, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            &[TAG_DIRECTED, 0xFF, 0xFF, 0x7F],
            &long,
        ] {
            assert_eq!(Message::decode(bytes), Err(ReadError::OutOfRange), "{bytes:?}");
        }
    }

    #[test]
    fn streams_round_trip() {
        for epoch in [0, 1, 300, u32::MAX] {
            let mut bytes = Vec::new();
            Message::Stream(epoch).encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Ok(Message::Stream(epoch)));
            bytes.push(0);
            assert_eq!(Message::decode(&bytes), Err(ReadError::Trailing));
        }
    }

    #[test]
    fn a_payload_that_is_too_long_is_refused() {
        let event = Event {
            kind: 1,
            critical: true,
            entity: None,
            at_us: 5,
            payload: vec![0; EVENT_BYTES_MAX],
        };
        let mut bytes = Vec::new();
        Message::Event(event).encode(&mut bytes);
        bytes.push(0);
        assert_eq!(Message::decode(&bytes), Err(ReadError::OutOfRange));
    }
}
