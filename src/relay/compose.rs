//! One datagram to one client: clear header, blocks, seal.
//!
//! Whatever goes down is written here, in place in the outbox's buffer, so that there is one order of blocks
//! and one way to seal.

use crate::limits::{DATAGRAM_MAX, TAG_BYTES};
use crate::wire::bytes::{ByteWriter, SliceWriter, varint_bytes};
use crate::wire::handshake::{
    DOWN_HEADER_BYTES, DatagramKind, WELCOME_HEADER_BYTES, WelcomeHeader, put_welcome_header,
};
use crate::wire::owner::{OWNER_BYTES_MAX, OWNER_RECORD_BYTES_MAX, OwnerBlock};
use crate::wire::payload::{self, CloseReason, PathToken, Welcome, clock_stamp};
use crate::wire::snapshot::{HEADER_BYTES_MAX, SnapshotHeader};

use super::outbox::{Outbox, Path};
use super::session::Session;

/// The blocks of one datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks<'a> {
    /// The session ends.
    pub close: Option<CloseReason>,
    /// Where the client may be: the datagram goes there, instead of where it is.
    pub to: Option<Path>,
    /// A challenge, and nothing else.
    pub challenge: Option<PathToken>,
    /// What the client must know of its stream.
    pub welcome: Option<Welcome<'a>>,
    /// The state of its own entity, where there is room.
    pub owner: Option<OwnerBlock<'a>>,
    /// Whether due messages may ride along.
    pub messages: bool,
    /// Bytes of the datagram that owner block and messages may not pass, where the budget says so.
    pub limit: Option<usize>,
    /// One part of a snapshot: its header and body.
    pub snapshot: Option<(&'a SnapshotHeader, &'a [u8])>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composed {
    /// Bytes of the datagram.
    pub bytes: usize,
    /// Nanoseconds the seal took, by the stopwatch.
    pub seal_ns: u64,
    /// The owner block had room.
    pub owner: bool,
}

/// How a session is told its keys: before it is confirmed in a Welcome, afterwards in ordinary datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// The clear header of a Welcome, with what the keys need.
    Welcome,
    /// The short header.
    Down,
}

/// Writes and seals one datagram for `session` into the outbox. `None` when the outbox is full, the session's
/// numbers are spent, or the blocks do not fit; nothing is sent then.
pub fn compose(
    session: &mut Session,
    outer: Outer,
    blocks: Blocks<'_>,
    now_us: u64,
    stopwatch: fn() -> u64,
    outbox: &mut impl Outbox,
) -> Option<Composed> {
    let path = blocks.to.unwrap_or(session.path);
    let buffer = outbox.reserve()?.get_mut(..DATAGRAM_MAX)?;
    let number = session.sealer.reserve()?;
    #[allow(clippy::cast_possible_truncation)]
    let low = number as u32;
    let header_bytes = match outer {
        Outer::Welcome => WELCOME_HEADER_BYTES,
        Outer::Down => DOWN_HEADER_BYTES,
    };
    let (header, rest) = buffer.split_at_mut_checked(header_bytes)?;
    let mut writer = SliceWriter::new(header);
    match outer {
        Outer::Welcome => put_welcome_header(
            &mut writer,
            &WelcomeHeader {
                connection: session.connection,
                client_nonce: session.client_nonce,
                relay_nonce: session.relay_nonce,
                number: low,
            },
        ),
        Outer::Down => {
            writer.put_u8(DatagramKind::Down as u8);
            writer.put_u32(low);
        }
    }
    let room = rest.len().checked_sub(TAG_BYTES)?;
    let written = write_blocks(
        session,
        &blocks,
        now_us,
        header_bytes + TAG_BYTES,
        rest.get_mut(..room)?,
    )?;
    let length = written.length;
    let begun = stopwatch();
    let tag = session.sealer.seal(number, header, rest.get_mut(..length)?)?;
    let seal_ns = stopwatch().saturating_sub(begun);
    rest.get_mut(length..length + TAG_BYTES)?.copy_from_slice(&tag);
    let bytes = header_bytes + length + TAG_BYTES;
    outbox.commit(bytes, path);
    if blocks.to.is_none() {
        session.sent_us = now_us;
    }
    session.bytes_sent += bytes as u64;
    session.purse.spend(bytes);
    Some(Composed {
        bytes,
        seal_ns,
        owner: written.owner,
    })
}

/// What was written.
struct Written {
    length: usize,
    owner: bool,
}

/// Writes flags, clock stamp and blocks. `outer`: bytes of the datagram around them.
fn write_blocks(
    session: &mut Session,
    blocks: &Blocks<'_>,
    now_us: u64,
    outer: usize,
    place: &mut [u8],
) -> Option<Written> {
    let room = place.len();
    let mut writer = SliceWriter::new(place);
    writer.put_u8(0);
    writer.put_u16(clock_stamp(now_us));
    let mut flags = 0;
    if let Some(reason) = blocks.close {
        flags |= payload::CLOSE;
        writer.put_u8(reason as u8);
    }
    if let Some(challenge) = &blocks.challenge {
        flags |= payload::PATH_CHALLENGE;
        writer.put(challenge);
    }
    if let Some(welcome) = &blocks.welcome {
        flags |= payload::WELCOME;
        welcome.encode(&mut writer);
    }
    let snapshot = blocks
        .snapshot
        .map_or(0, |(header, body)| header_bytes(header) + body.len());
    if let Some(next) = session.inputs.acknowledged()
        && blocks.challenge.is_none()
        && room.saturating_sub(writer.used() + snapshot) >= varint_bytes(next)
    {
        flags |= payload::INPUTS_ACK;
        writer.put_varint(next);
    }
    let limit = blocks
        .limit
        .map_or(room, |limit| limit.saturating_sub(outer).min(room));
    let owner = blocks.owner.filter(|owner| {
        limit.saturating_sub(writer.used() + snapshot)
            >= OWNER_BYTES_MAX - OWNER_RECORD_BYTES_MAX + owner.record.len()
    });
    if let Some(owner) = &owner {
        flags |= payload::OWNER;
        owner.encode(&mut writer);
    }
    if blocks.messages {
        let left = limit.saturating_sub(writer.used() + snapshot);
        let resend_us = session.resend_us();
        if left > 8 && session.stream.put_block(now_us, resend_us, left, &mut writer) {
            flags |= payload::MESSAGES;
            session.messages_us = now_us;
        }
    }
    if let Some((header, body)) = blocks.snapshot {
        flags |= payload::SNAPSHOT;
        header.encode(&mut writer);
        writer.put(body);
    }
    let length = writer.finish()?;
    *place.first_mut()? = flags;
    Some(Written {
        length,
        owner: owner.is_some(),
    })
}

/// Bytes that a snapshot's header takes.
fn header_bytes(header: &SnapshotHeader) -> usize {
    let mut place = [0; HEADER_BYTES_MAX];
    let mut writer = SliceWriter::new(&mut place);
    header.encode(&mut writer);
    writer.used()
}
