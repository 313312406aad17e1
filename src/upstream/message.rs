//! The messages of both directions and their bytes.
//!
//! A message is a `u32` length and a payload; a payload is a kind and fixed little-endian fields. Invariant: what
//! [`decode`](FromOrigin::decode)s encodes to the same bytes. The layout of [`Subscribe`] and [`Hello`] up to
//! their version, and all of [`Refuse`], is the same in every protocol version.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::{UpstreamError, within};
use super::{MAGIC, VERSION, player, tick};
use crate::limits::{SCHEMA_BYTES_MAX, UPSTREAM_FRAME_MAX, UPSTREAM_TEXT_MAX, UPSTREAM_TOKEN_MAX};
use crate::state::player::{Directive, PlayerEvent};
use crate::state::update::TickUpdate;
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

const SUBSCRIBE: u8 = 0x01;
const RESYNC: u8 = 0x02;
const PLAYER_EVENTS: u8 = 0x03;
const HELLO: u8 = 0x11;
const REFUSE: u8 = 0x12;
const TICK: u8 = 0x13;
const END: u8 = 0x14;
const DIRECTIVES: u8 = 0x15;
/// Kinds from here on are skipped by whoever does not know them.
const SKIPPABLE: u8 = 0x80;

/// Flag of a [`Subscribe`]: this subscriber only watches (a test's source of truth) and serves nobody.
pub const OBSERVER: u16 = 1;
/// Bit of [`Hello::accepts`]: the origin takes [`ToOrigin::Players`].
pub const PLAYERS: u16 = 1;

/// What a subscriber says to its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToOrigin {
    /// The first message.
    Subscribe(Subscribe),
    /// Something was missed or refused: a keyframe is wanted.
    Resync,
    /// What players did, in order, at least one thing; only for an origin that accepts [`PLAYERS`]. What does not fit
    /// [`UPSTREAM_REQUEST_MAX`](crate::limits::UPSTREAM_REQUEST_MAX) is for another message:
    /// [`encode_players`] divides.
    Players(Vec<PlayerEvent>),
}

/// The first message of a subscriber.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Subscribe {
    /// Bits such as [`OBSERVER`]; bits not known are ignored.
    pub flags: u16,
    /// What the origin knows the subscriber by, at most [`UPSTREAM_TOKEN_MAX`] bytes; may be empty.
    pub token: Vec<u8>,
}

/// Without the token.
impl core::fmt::Debug for Subscribe {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = to.debug_struct("Subscribe");
        shown.field("flags", &self.flags);
        shown.field("token_bytes", &self.token.len());
        shown.finish_non_exhaustive()
    }
}

/// What an origin says to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromOrigin {
    /// The first message: which stream this is.
    Hello(Hello),
    /// The subscriber is not served; the connection ends.
    Refuse(Refuse),
    /// One tick of the world.
    Tick(TickUpdate),
    /// The stream ends here as intended.
    End,
    /// What concerns single players of this subscriber, at least one; it takes effect with the next tick.
    Directives(Vec<Directive>),
}

/// Which run of which world this stream is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Rises with every start of the origin; its start in microseconds of wall time will do.
    pub epoch: u64,
    /// Drawn at random at every start.
    pub boot: u64,
    /// Which monotonic clock `published_us` is read from; 0 where it must not be compared with any other.
    pub clock_id: u64,
    /// What the origin takes from a subscriber beyond this version's messages; bits not known are ignored.
    pub accepts: u16,
    /// The schema in canonical form, at most [`SCHEMA_BYTES_MAX`] bytes.
    pub schema: Vec<u8>,
}

/// Why a subscriber is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// The reason for programs.
    pub code: RefuseCode,
    /// The reason for people: one sentence of at most [`UPSTREAM_TEXT_MAX`] bytes.
    pub text: String,
}

/// The reason of a [`Refuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefuseCode {
    /// Another protocol version is spoken.
    Version,
    /// The token is not known.
    Token,
    /// The origin serves its maximum of subscribers.
    Full,
    /// The subscriber's messages cannot be read.
    Malformed,
    /// A reason of the origin's own, or of a later version.
    Other(u16),
}

impl RefuseCode {
    /// The wire's number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            RefuseCode::Version => 1,
            RefuseCode::Token => 2,
            RefuseCode::Full => 3,
            RefuseCode::Malformed => 4,
            RefuseCode::Other(number) => number,
        }
    }

    /// The code with this wire number.
    #[must_use]
    pub fn from_number(number: u16) -> RefuseCode {
        match number {
            1 => RefuseCode::Version,
            2 => RefuseCode::Token,
            3 => RefuseCode::Full,
            4 => RefuseCode::Malformed,
            other => RefuseCode::Other(other),
        }
    }
}

impl ToOrigin {
    /// Appends this message with its length prefix.
    pub fn encode(&self, out: &mut Vec<u8>) {
        framed(out, |out| match self {
            ToOrigin::Subscribe(subscribe) => {
                opening(SUBSCRIBE, VERSION, out);
                out.put_u16(subscribe.flags);
                counted(&subscribe.token, UPSTREAM_TOKEN_MAX, out);
            }
            ToOrigin::Resync => out.put_u8(RESYNC),
            ToOrigin::Players(events) => {
                out.put_u8(PLAYER_EVENTS);
                player::put_events(events, out);
            }
        });
    }

    /// Reads a payload; `None` for a kind that is to be skipped.
    ///
    /// # Errors
    /// Each kind of [`UpstreamError`] but [`TooLong`](UpstreamError::TooLong).
    pub fn decode(payload: &[u8]) -> Result<Option<ToOrigin>, UpstreamError> {
        let mut reader = ByteReader::new(payload);
        let (name, message) = match reader.u8().map_err(|_| UpstreamError::Empty)? {
            SUBSCRIBE => {
                let name = "subscribe";
                check_opening(name, &mut reader)?;
                let flags = reader.u16().map_err(within(name, "flags"))?;
                let token = take_counted(&mut reader, UPSTREAM_TOKEN_MAX).map_err(within(name, "token"))?;
                (
                    name,
                    ToOrigin::Subscribe(Subscribe {
                        flags,
                        token: token.to_vec(),
                    }),
                )
            }
            RESYNC => ("resync", ToOrigin::Resync),
            PLAYER_EVENTS => {
                let events = player::take_events(&mut reader).map_err(within("players", "events"))?;
                ("players", ToOrigin::Players(events))
            }
            SKIPPABLE.. => return Ok(None),
            kind => return Err(UpstreamError::UnknownKind { kind }),
        };
        reader.end().map_err(within(name, "end"))?;
        Ok(Some(message))
    }
}

impl FromOrigin {
    /// Appends this message with its length prefix.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FromOrigin::Hello(hello) => framed(out, |out| {
                opening(HELLO, VERSION, out);
                out.put_u64(hello.epoch);
                out.put_u64(hello.boot);
                out.put_u64(hello.clock_id);
                out.put_u16(hello.accepts);
                counted(&hello.schema, SCHEMA_BYTES_MAX, out);
            }),
            FromOrigin::Refuse(refuse) => framed(out, |out| {
                out.put_u8(REFUSE);
                out.put_u16(refuse.code.number());
                counted(refuse.text.as_bytes(), UPSTREAM_TEXT_MAX, out);
            }),
            FromOrigin::Tick(update) => encode_tick(update, out),
            FromOrigin::End => framed(out, |out| out.put_u8(END)),
            FromOrigin::Directives(directives) => framed(out, |out| {
                out.put_u8(DIRECTIVES);
                player::put_directives(directives, out);
            }),
        }
    }

    /// Reads a payload; `None` for a kind that is to be skipped.
    ///
    /// # Errors
    /// Each kind of [`UpstreamError`] but [`TooLong`](UpstreamError::TooLong).
    pub fn decode(payload: &[u8]) -> Result<Option<FromOrigin>, UpstreamError> {
        let mut reader = ByteReader::new(payload);
        let (name, message) = match reader.u8().map_err(|_| UpstreamError::Empty)? {
            HELLO => ("hello", FromOrigin::Hello(read_hello(&mut reader)?)),
            REFUSE => ("refusal", FromOrigin::Refuse(read_refuse(&mut reader)?)),
            TICK => ("tick", FromOrigin::Tick(tick::read(&mut reader)?)),
            END => ("end", FromOrigin::End),
            DIRECTIVES => {
                let directives =
                    player::take_directives(&mut reader).map_err(within("directives", "orders"))?;
                ("directives", FromOrigin::Directives(directives))
            }
            SKIPPABLE.. => return Ok(None),
            kind => return Err(UpstreamError::UnknownKind { kind }),
        };
        reader.end().map_err(within(name, "end"))?;
        Ok(Some(message))
    }
}

/// Appends a tick with its length prefix, as [`FromOrigin::Tick`] would, without owning it.
pub fn encode_tick(update: &TickUpdate, out: &mut Vec<u8>) {
    framed(out, |out| {
        out.put_u8(TICK);
        tick::write(update, out);
    });
}

/// Appends what players did with length prefixes, in as many messages as it takes.
pub fn encode_players(mut events: &[PlayerEvent], out: &mut Vec<u8>) {
    while !events.is_empty() {
        let (now, later) = events.split_at(player::fitting(events));
        framed(out, |out| {
            out.put_u8(PLAYER_EVENTS);
            player::put_events(now, out);
        });
        events = later;
    }
}

fn read_hello(reader: &mut ByteReader<'_>) -> Result<Hello, UpstreamError> {
    check_opening("hello", reader)?;
    let mut run = || -> Result<Hello, ReadError> {
        Ok(Hello {
            epoch: reader.u64()?,
            boot: reader.u64()?,
            clock_id: reader.u64()?,
            accepts: reader.u16()?,
            schema: Vec::new(),
        })
    };
    let hello = run().map_err(within("hello", "run"))?;
    let schema = take_counted(reader, SCHEMA_BYTES_MAX).map_err(within("hello", "schema"))?;
    Ok(Hello {
        schema: schema.to_vec(),
        ..hello
    })
}

fn read_refuse(reader: &mut ByteReader<'_>) -> Result<Refuse, UpstreamError> {
    let code = RefuseCode::from_number(reader.u16().map_err(within("refusal", "code"))?);
    let text = take_counted(reader, UPSTREAM_TEXT_MAX)
        .and_then(|bytes| core::str::from_utf8(bytes).map_err(|_| ReadError::NotText));
    let text = text.map_err(within("refusal", "text"))?.to_owned();
    Ok(Refuse { code, text })
}

/// Writes a length prefix around what `payload` writes.
fn framed(out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u32(0);
    payload(out);
    let length = out.len() - start - 4;
    debug_assert!(length <= UPSTREAM_FRAME_MAX, "a message of {length} bytes");
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(prefix) = out.get_mut(start..start + 4) {
        prefix.copy_from_slice(&length.to_le_bytes());
    }
}

fn opening(kind: u8, version: u16, out: &mut Vec<u8>) {
    out.put_u8(kind);
    out.put(&MAGIC);
    out.put_u16(version);
}

fn check_opening(message: &'static str, reader: &mut ByteReader<'_>) -> Result<(), UpstreamError> {
    if reader.array::<4>().map_err(within(message, "magic"))? != MAGIC {
        return Err(UpstreamError::Magic { message });
    }
    let theirs = reader.u16().map_err(within(message, "version"))?;
    if theirs == VERSION {
        Ok(())
    } else {
        Err(UpstreamError::Version { message, theirs })
    }
}

/// Bytes after a `u16` count. What we write is asserted to be within the bound, and cut where it is not.
fn counted(bytes: &[u8], max: usize, out: &mut Vec<u8>) {
    debug_assert!(
        bytes.len() <= max,
        "{} bytes where {max} are allowed",
        bytes.len()
    );
    let bytes = bytes.get(..max).unwrap_or(bytes);
    out.put_u16(u16::try_from(bytes.len()).unwrap_or(0));
    out.put(bytes);
}

fn take_counted<'a>(reader: &mut ByteReader<'a>, max: usize) -> Result<&'a [u8], ReadError> {
    let length = usize::from(reader.u16()?);
    if length > max {
        Err(ReadError::OutOfRange)
    } else {
        reader.bytes(length)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
