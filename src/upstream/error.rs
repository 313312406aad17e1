//! Why upstream bytes were refused, each in one plain sentence.

use super::VERSION;
use crate::wire::bytes::ReadError;

/// Why a message, or the whole stream, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// A length prefix above the bound: where the next message begins cannot be known any more.
    #[error(
        "upstream stream refused: a message of {length} bytes is announced, at most {max} are allowed, so the length prefix is broken"
    )]
    TooLong {
        /// The length announced.
        length: u32,
        /// The bound.
        max: usize,
    },
    /// A message without a kind.
    #[error("upstream message refused: it is empty, but its first byte must be its kind")]
    Empty,
    /// A kind that this side does not take. Kinds 0x80 to 0xFF are skipped instead.
    #[error(
        "upstream message refused: its kind {kind} is not one that this side takes in protocol version {VERSION}"
    )]
    UnknownKind {
        /// The kind.
        kind: u8,
    },
    /// The first message does not say that it is this protocol.
    #[error(
        "upstream {message} refused: its magic bytes are not \"ACKU\", so the peer speaks another protocol"
    )]
    Magic {
        /// Which message.
        message: &'static str,
    },
    /// Another protocol version. Nothing after the version is read.
    #[error(
        "upstream {message} refused: it is of protocol version {theirs}, but version {VERSION} is spoken here: run versions that match"
    )]
    Version {
        /// Which message.
        message: &'static str,
        /// The peer's version.
        theirs: u16,
    },
    /// A field that cannot be read.
    #[error("upstream {message} refused: in its {part} {fault}")]
    Malformed {
        /// Which message.
        message: &'static str,
        /// Which part of it.
        part: &'static str,
        /// What is wrong there.
        fault: ReadError,
    },
}

/// Names the message and part in which a read failed.
pub(super) fn within(message: &'static str, part: &'static str) -> impl Fn(ReadError) -> UpstreamError {
    move |fault| UpstreamError::Malformed { message, part, fault }
}
