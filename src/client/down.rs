//! The blocks of an opened Down payload, read without changing anything (THREATS 33, 34).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::wire::bytes::{ByteReader, ReadError};
use crate::wire::owner::OwnerBlock;
use crate::wire::payload::{self, CloseReason, PathToken, Welcome};
use crate::wire::snapshot::SnapshotHeader;
use crate::wire::stream::skip_block;

/// A payload in its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down<'a> {
    pub(super) stamp: u16,
    pub(super) close: Option<CloseReason>,
    /// To be said again at once, to prove where the client is.
    pub(super) challenge: Option<PathToken>,
    pub(super) welcome: Option<Welcome<'a>>,
    /// The next input that the relay waits for.
    pub(super) inputs_ack: Option<u32>,
    /// The state of the client's own entity, its record still bits.
    pub(super) owner: Option<OwnerBlock<'a>>,
    /// At a block of the reliable stream whose form is checked.
    pub(super) messages: Option<ByteReader<'a>>,
    /// A header and its body.
    pub(super) snapshot: Option<(SnapshotHeader, &'a [u8])>,
}

impl<'a> Down<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// [`ReadError`] when any block is malformed or bytes are left over.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Down<'a>, ReadError> {
        let mut reader = ByteReader::new(bytes);
        let known = payload::SNAPSHOT
            | payload::MESSAGES
            | payload::WELCOME
            | payload::CLOSE
            | payload::OWNER
            | payload::INPUTS_ACK
            | payload::PATH_CHALLENGE;
        let flags = payload::flags(&mut reader, known)?;
        let mut down = Down {
            stamp: reader.u16()?,
            close: None,
            challenge: None,
            welcome: None,
            inputs_ack: None,
            owner: None,
            messages: None,
            snapshot: None,
        };
        if flags & payload::CLOSE != 0 {
            down.close = Some(CloseReason::from_code(reader.u8()?).ok_or(ReadError::OutOfRange)?);
        }
        if flags & payload::PATH_CHALLENGE != 0 {
            down.challenge = Some(reader.array()?);
        }
        if flags & payload::WELCOME != 0 {
            down.welcome = Some(Welcome::decode(&mut reader)?);
        }
        if flags & payload::INPUTS_ACK != 0 {
            down.inputs_ack = Some(reader.varint()?);
        }
        if flags & payload::OWNER != 0 {
            down.owner = Some(OwnerBlock::decode(&mut reader)?);
        }
        if flags & payload::MESSAGES != 0 {
            down.messages = Some(reader);
            skip_block(&mut reader)?;
        }
        if flags & payload::SNAPSHOT != 0 {
            let header = SnapshotHeader::decode(&mut reader)?;
            down.snapshot = Some((header, reader.rest()));
        } else {
            reader.end()?;
        }
        Ok(down)
    }
}
