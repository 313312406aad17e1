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

use crate::limits::{EVENT_BYTES_MAX, MESSAGE_BYTES_MAX, SERVER_TIME_MAX_US};
use crate::state::entity::Entity;
use crate::state::update::Event;
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

/// One message of the reliable stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Something happened in the world (SPEC CTL3, class EVENT).
    Event(Event),
    /// Events from here on are of the stream with this ordinal (SPEC PLY7).
    Stream(u32),
}

const TAG_EVENT: u8 = 1;
const TAG_STREAM: u8 = 2;
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
            _ => Err(ReadError::OutOfRange),
        }
    }
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
        fn threats_32_only_canonical_messages_decode(bytes in prop::collection::vec(any::<u8>(), 0..300), tag in 0u8..3) {
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
