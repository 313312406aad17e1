//! What a sealed datagram holds: a flags byte, then the blocks it names, in one fixed order.
//!
//! Down (relay to client): clock stamp, then close, path challenge, welcome, inputs acknowledged, owner, messages, snapshot;
//! a snapshot takes the rest. Up (client to relay): close, report, inputs, camera, path answer, padding. A datagram with no
//! block is a keepalive.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::bytes::{ByteReader, ByteWriter, ReadError};
use crate::limits::SCHEMA_BYTES_MAX;

/// A snapshot part ends the payload.
pub const SNAPSHOT: u8 = 1;
/// A block of the reliable stream.
pub const MESSAGES: u8 = 2;
/// The stream and session the client is in.
pub const WELCOME: u8 = 4;
/// The session ends.
pub const CLOSE: u8 = 8;
/// The state of the client's own entity.
pub const OWNER: u8 = 16;
/// The next input the relay waits for.
pub const INPUTS_ACK: u8 = 32;
/// Prove that you receive at the address this is sent to: a [`PathToken`].
pub const PATH_CHALLENGE: u8 = 64;
/// Up only: a report.
pub const REPORT: u8 = 1;
/// Up only: inputs.
pub const INPUTS: u8 = 2;
/// Up only: where the free camera is, three quantised axes of 32 bits.
pub const CAMERA: u8 = 4;
/// Up only: the [`PathToken`] of a challenge.
pub const PATH_ANSWER: u8 = 16;

/// Up only, from protocol version 3 on: zeros, at least one, to the payload's end. They make the datagram worth more where what
/// may be answered goes by what came.
pub const PADDING: u8 = 32;

/// Random bytes that only who receives at an address can say again (THREATS 89, 90).
pub type PathToken = [u8; 8];

/// Why a session ends: the labels of `sessions_closed_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseReason {
    /// The client left.
    Left = 1,
    /// Nothing was heard for the idle time (SPEC DEC8).
    Idle = 2,
    /// The relay drains (SPEC OPS4).
    Draining = 3,
    /// The client broke the protocol.
    Protocol = 4,
    /// The keys are spent.
    Exhausted = 5,
    /// A newer session of the same client replaced this one.
    Replaced = 6,
}

impl CloseReason {
    /// Every reason.
    pub const ALL: [CloseReason; 6] = [
        CloseReason::Left,
        CloseReason::Idle,
        CloseReason::Draining,
        CloseReason::Protocol,
        CloseReason::Exhausted,
        CloseReason::Replaced,
    ];

    /// The reason with this wire number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<CloseReason> {
        CloseReason::ALL.into_iter().find(|reason| *reason as u8 == code)
    }

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            CloseReason::Left => "left",
            CloseReason::Idle => "idle",
            CloseReason::Draining => "draining",
            CloseReason::Protocol => "protocol",
            CloseReason::Exhausted => "exhausted",
            CloseReason::Replaced => "replaced",
        }
    }
}

/// What a client must know of its session before it can decode anything: sent until a report names the
/// stream epoch. An empty schema means that the relay has no stream yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// Ordinal of the stream; 0 while there is none.
    pub stream_epoch: u32,
    /// Lease of a baseline, server microseconds (SPEC WIN9): both ends know it.
    pub lease_us: u32,
    /// Silence after which the relay closes the session, microseconds (SPEC DEC8).
    pub idle_us: u32,
    /// The schema's canonical bytes.
    pub schema: &'a [u8],
}

impl<'a> Welcome<'a> {
    /// Appends the block.
    pub fn encode(&self, out: &mut impl ByteWriter) {
        debug_assert!(self.schema.len() <= SCHEMA_BYTES_MAX);
        out.put_varint(self.stream_epoch);
        out.put_u32(self.lease_us);
        out.put_u32(self.idle_us);
        out.put_u16(u16::try_from(self.schema.len()).unwrap_or(0));
        out.put(self.schema);
    }

    /// Reads the block.
    ///
    /// # Errors
    /// [`ReadError`] when bytes are missing or the schema is too long.
    pub fn decode(reader: &mut ByteReader<'a>) -> Result<Welcome<'a>, ReadError> {
        let stream_epoch = reader.varint()?;
        let (lease_us, idle_us) = (reader.u32()?, reader.u32()?);
        let length = usize::from(reader.u16()?);
        if length > SCHEMA_BYTES_MAX {
            return Err(ReadError::OutOfRange);
        }
        Ok(Welcome {
            stream_epoch,
            lease_us,
            idle_us,
            schema: reader.bytes(length)?,
        })
    }
}

/// Reads a flags byte and refuses flags that are not in `known`.
///
/// # Errors
/// [`ReadError::Short`], [`ReadError::OutOfRange`].
pub fn flags(reader: &mut ByteReader<'_>, known: u8) -> Result<u8, ReadError> {
    let flags = reader.u8()?;
    if flags & !known == 0 {
        Ok(flags)
    } else {
        Err(ReadError::OutOfRange)
    }
}

/// The flags that a client may set.
#[cfg(any(feature = "client", feature = "relay"))]
#[must_use]
pub fn up_flags(agreed: super::version::Agreed) -> u8 {
    let padding = if agreed.is_bound() { PADDING } else { 0 };
    CLOSE | REPORT | INPUTS | CAMERA | PATH_ANSWER | padding
}

/// Reads padding: all that is left.
///
/// # Errors
/// [`ReadError::Short`] where nothing is left, [`ReadError::OutOfRange`] where it is not zeros.
pub fn read_padding(reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
    let rest = reader.bytes(reader.rest().len())?;
    if rest.is_empty() {
        return Err(ReadError::Short);
    }
    match rest.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(ReadError::OutOfRange),
    }
}

/// The relay's clock as stamped into a Down datagram: units of 64 us, modulo 4.19 s.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn clock_stamp(now_us: u64) -> u16 {
    (now_us >> 6) as u16
}

/// The round trip in microseconds from an echoed stamp and the delay the client reports, both in units of
/// 64 us. `None` when the delay exceeds the whole time (the echo is older than a lap, or made up).
#[must_use]
pub fn round_trip_us(now_us: u64, echo: u16, echo_delay: u16) -> Option<u32> {
    let elapsed = clock_stamp(now_us).wrapping_sub(echo);
    elapsed.checked_sub(echo_delay).map(|units| u32::from(units) << 6)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn welcomes_round_trip_and_are_bounded() {
        let schema = [7u8; SCHEMA_BYTES_MAX];
        let welcome = Welcome {
            stream_epoch: 3,
            lease_us: 4_000_000,
            idle_us: 30_000_000,
            schema: &schema,
        };
        let mut bytes = Vec::new();
        welcome.encode(&mut bytes);
        assert_eq!(Welcome::decode(&mut ByteReader::new(&bytes)), Ok(welcome));
        for length in 0..bytes.len() {
            assert!(Welcome::decode(&mut ByteReader::new(bytes.get(..length).unwrap())).is_err());
        }
        let long = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
        assert_eq!(
            Welcome::decode(&mut ByteReader::new(&long)),
            Err(ReadError::OutOfRange)
        );
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert_eq!(flags(&mut ByteReader::new(&[3]), 3), Ok(3));
        assert_eq!(flags(&mut ByteReader::new(&[4]), 3), Err(ReadError::OutOfRange));
    }

    /// Padding is zeros, at least one, and only where the version has it.
    #[cfg(any(feature = "client", feature = "relay"))]
    #[test]
    fn padding_is_zeros_and_of_version_three() {
        use crate::wire::version::Agreed;
        let read = |bytes: &[u8]| read_padding(&mut ByteReader::new(bytes));
        assert_eq!((read(&[0]), read(&[0; 900])), (Ok(()), Ok(())));
        assert_eq!(
            (read(&[]), read(&[0, 0, 1])),
            (Err(ReadError::Short), Err(ReadError::OutOfRange))
        );
        let old = Agreed {
            version: 2,
            ..Agreed::NEWEST
        };
        assert_eq!((up_flags(Agreed::NEWEST), up_flags(old)), (63, 31));
    }

    /// SPEC DEC1: round trips use the relay's clock alone, across the stamp's wrap.
    #[test]
    fn dec1_round_trips_survive_the_stamps_wrap() {
        let sent = (65_530u64 << 6) + 13;
        let echo = clock_stamp(sent);
        assert_eq!(round_trip_us(sent + 128_000, echo, 500), Some(96_000));
        assert_eq!(round_trip_us(sent + 640, echo, 11), None);
    }
}
