//! The header of one part of a snapshot, relay to client, inside the seal (SPEC ID1, TAB8, WIN3, WIN4).
//!
//! Everything a client needs to decide what a part is and whether it may decode it comes before the body of
//! entries. The header is byte-aligned so that bodies can be shared between clients and copied.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::bytes::{ByteReader, ByteWriter, ReadError};
use crate::limits::{COMMIT_SET_MAX, PARTS_MAX};
use crate::sequence::Tick;

/// A snapshot held as a baseline: its id and which of its parts are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Held {
    /// The snapshot.
    pub id: Tick,
    /// Bit i set: part i is held. Never zero.
    pub mask: u32,
}

/// A window commit: the only baselines that generation `w + 1` starts with (SPEC WIN3). Immutable once sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    set: [Held; COMMIT_SET_MAX],
    length: u8,
    /// Digest words over the tables of the whole set, summed (SPEC DEC9).
    pub digest: [u32; 2],
}

impl Commit {
    /// A commit of `set`, newest first; `None` unless it holds 1 to [`COMMIT_SET_MAX`] entries in strictly
    /// falling order of id, each with a mask.
    #[must_use]
    pub fn new(set: &[Held], digest: [u32; 2]) -> Option<Commit> {
        let ordered = set
            .iter()
            .zip(set.iter().skip(1))
            .all(|(newer, older)| newer.id.is_after(older.id));
        if set.is_empty() || set.len() > COMMIT_SET_MAX || !ordered || set.iter().any(|held| held.mask == 0) {
            return None;
        }
        let mut commit = Commit {
            set: [Held::default(); COMMIT_SET_MAX],
            length: u8::try_from(set.len()).ok()?,
            digest,
        };
        for (to, from) in commit.set.iter_mut().zip(set) {
            *to = *from;
        }
        Some(commit)
    }

    /// The set, newest first.
    #[must_use]
    pub fn set(&self) -> &[Held] {
        self.set.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// The entry of a snapshot id, if it is in the set.
    #[must_use]
    pub fn find(&self, id: Tick) -> Option<Held> {
        self.set().iter().copied().find(|held| held.id == id)
    }
}

/// Header of one part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// Ordinal of the stream: a new one starts a new timeline and clears the display (SPEC PLY7).
    pub stream_epoch: u32,
    /// Session epoch: a new one voids baselines and windows (SPEC WIN10).
    pub session_epoch: u32,
    /// Window generation. One above the client's own only together with `commit`.
    pub generation: u32,
    /// The snapshot.
    pub id: Tick,
    /// Which part of the snapshot this datagram is, below [`PARTS_MAX`].
    pub part: u8,
    /// This is the snapshot's last part: nothing is missing once all before it are here.
    pub last: bool,
    /// The baseline, or `None` for the empty table (SPEC TAB7).
    pub base: Option<Tick>,
    /// Send time on the origin's clock: the frame's time in microseconds (SPEC DEC1).
    pub server_us: u64,
    /// This snapshot may be kept as a baseline.
    pub candidate: bool,
    /// The base already holds the whole view (SPEC DEC12).
    pub view_complete: bool,
    /// The upstream is lost; this repeats the last known world (SPEC OPS2).
    pub stale: bool,
    /// Nothing that differs from the base, or was said since it, is left out: with all its parts here, what the snapshot
    /// does not name is as the base has it (SPEC CTL6).
    pub exhaustive: bool,
    /// An open commit, in every part until confirmed (SPEC WIN3, DESIGN 5).
    pub commit: Option<Commit>,
    /// Digest words of the base's table (SPEC DEC9).
    pub base_digest: Option<[u32; 2]>,
    /// Entries in the body.
    pub count: u32,
}

const CANDIDATE: u8 = 1;
const VIEW_COMPLETE: u8 = 2;
const STALE: u8 = 4;
const BASE: u8 = 8;
const COMMIT: u8 = 16;
const DIGEST: u8 = 32;
/// High bit of the part byte.
const EXHAUSTIVE: u8 = 64;
const LAST_PART: u8 = 0x80;

/// Most bytes a header takes: flags, five varints, part, time, commit, digest, count.
pub const HEADER_BYTES_MAX: usize = 1 + 4 * 5 + 1 + 5 + 6 + (1 + COMMIT_SET_MAX * 10 + 8) + 8 + 5;

impl SnapshotHeader {
    /// Appends the header.
    pub fn encode(&self, out: &mut impl ByteWriter) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        debug_assert!(usize::from(self.part) < PARTS_MAX);
        out.put_u8(
            flag(self.candidate, CANDIDATE)
                | flag(self.view_complete, VIEW_COMPLETE)
                | flag(self.stale, STALE)
                | flag(self.base.is_some(), BASE)
                | flag(self.commit.is_some(), COMMIT)
                | flag(self.base_digest.is_some(), DIGEST)
                | flag(self.exhaustive, EXHAUSTIVE),
        );
        out.put_varint(self.stream_epoch);
        out.put_varint(self.session_epoch);
        out.put_varint(self.generation);
        out.put_varint(self.id.0);
        out.put_u8(self.part | if self.last { LAST_PART } else { 0 });
        if let Some(base) = self.base {
            debug_assert!(self.id.is_after(base));
            out.put_varint(self.id.0.wrapping_sub(base.0));
        }
        out.put_time48(self.server_us);
        if let Some(commit) = &self.commit {
            out.put_u8(commit.length);
            let mut previous = self.id;
            for held in commit.set() {
                out.put_varint(previous.0.wrapping_sub(held.id.0));
                out.put_varint(held.mask);
                previous = held.id;
            }
            commit.digest.iter().for_each(|word| out.put_u32(*word));
        }
        if let Some(digest) = self.base_digest {
            digest.iter().for_each(|word| out.put_u32(*word));
        }
        out.put_varint(self.count);
    }

    /// Reads a header; the reader is left at the body.
    ///
    /// # Errors
    /// [`ReadError`] when bytes are missing, a reserved flag is set, a base's digest comes without a base, a part or
    /// set is out of range, or a base or committed id is not before the snapshot.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<SnapshotHeader, ReadError> {
        let flags = reader.u8()?;
        let reserved =
            flags & !(CANDIDATE | VIEW_COMPLETE | STALE | BASE | COMMIT | DIGEST | EXHAUSTIVE) != 0;
        if reserved || flags & (BASE | DIGEST) == DIGEST {
            return Err(ReadError::OutOfRange);
        }
        let stream_epoch = reader.varint()?;
        let session_epoch = reader.varint()?;
        let generation = reader.varint()?;
        let id = Tick(reader.varint()?);
        let part_byte = reader.u8()?;
        let (part, last) = (part_byte & !LAST_PART, part_byte & LAST_PART != 0);
        if usize::from(part) >= PARTS_MAX {
            return Err(ReadError::OutOfRange);
        }
        let base = if flags & BASE != 0 {
            Some(earlier(id, reader.varint()?)?)
        } else {
            None
        };
        let server_us = reader.time48()?;
        let commit = if flags & COMMIT != 0 {
            Some(decode_commit(id, reader)?)
        } else {
            None
        };
        let base_digest = if flags & DIGEST != 0 {
            Some([reader.u32()?, reader.u32()?])
        } else {
            None
        };
        Ok(SnapshotHeader {
            stream_epoch,
            session_epoch,
            generation,
            id,
            part,
            last,
            base,
            server_us,
            candidate: flags & CANDIDATE != 0,
            view_complete: flags & VIEW_COMPLETE != 0,
            stale: flags & STALE != 0,
            exhaustive: flags & EXHAUSTIVE != 0,
            commit,
            base_digest,
            count: reader.varint()?,
        })
    }
}

/// The id `distance` before `id`: at least one, at most half the range, so that order has a meaning.
fn earlier(id: Tick, distance: u32) -> Result<Tick, ReadError> {
    if (1..=i32::MAX.cast_unsigned()).contains(&distance) {
        Ok(id.minus(distance))
    } else {
        Err(ReadError::OutOfRange)
    }
}

fn decode_commit(id: Tick, reader: &mut ByteReader<'_>) -> Result<Commit, ReadError> {
    let length = usize::from(reader.u8()?);
    let mut set = [Held::default(); COMMIT_SET_MAX];
    if length == 0 || length > COMMIT_SET_MAX {
        return Err(ReadError::OutOfRange);
    }
    let mut previous = id;
    for held in set.iter_mut().take(length) {
        *held = Held {
            id: earlier(previous, reader.varint()?)?,
            mask: reader.varint()?,
        };
        previous = held.id;
    }
    let digest = [reader.u32()?, reader.u32()?];
    Commit::new(set.get(..length).unwrap_or_default(), digest).ok_or(ReadError::OutOfRange)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(id: u32, base: u32, flags: u8, numbers: [u32; 4], time: u64) -> SnapshotHeader {
        let id = Tick(id);
        let set = [
            Held {
                id: id.minus(3),
                mask: 5,
            },
            Held {
                id: id.minus(900),
                mask: u32::MAX,
            },
        ];
        SnapshotHeader {
            stream_epoch: numbers[0],
            session_epoch: numbers[1],
            generation: numbers[2],
            id,
            part: flags % 32,
            last: flags & 32 != 0,
            base: (base > 0).then(|| id.minus(base)),
            server_us: time,
            candidate: flags & 1 != 0,
            view_complete: flags & 2 != 0,
            stale: flags & 4 != 0,
            exhaustive: flags & 64 != 0,
            commit: (flags & 8 != 0).then(|| Commit::new(&set, [numbers[0], 7]).unwrap()),
            base_digest: (flags & 16 != 0 && base > 0).then_some([1, numbers[3]]),
            count: numbers[3],
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(id: u32, base in 0u32..=i32::MAX.cast_unsigned(), flags: u8,
                              numbers: [u32; 4], time in 0u64..1 << 48) {
            let header = header(id, base, flags, numbers, time);
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            prop_assert!(bytes.len() <= HEADER_BYTES_MAX);
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(SnapshotHeader::decode(&mut reader), Ok(header));
            prop_assert!(reader.end().is_ok());
        }

        /// THREATS 24, 33: what decodes re-encodes to the same bytes; nothing panics.
        #[test]
        fn threats_33_only_canonical_headers_decode(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut reader = ByteReader::new(&bytes);
            if let Ok(header) = SnapshotHeader::decode(&mut reader) {
                let mut again = Vec::new();
                header.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
    }

    /// THREATS 33: a digest of no base means nothing, so it is no header.
    #[test]
    fn a_base_digest_without_a_base_is_refused() {
        let mut bytes = Vec::new();
        header(9, 1, 16, [1, 1, 1, 0], 5).encode(&mut bytes);
        assert!(SnapshotHeader::decode(&mut ByteReader::new(&bytes)).is_ok());
        let mut bare = Vec::new();
        header(9, 0, 0, [1, 1, 1, 0], 5).encode(&mut bare);
        bare[0] |= DIGEST;
        let count = bare.pop().unwrap();
        bare.extend([0; 8]);
        bare.push(count);
        let read = SnapshotHeader::decode(&mut ByteReader::new(&bare));
        assert_eq!(read, Err(ReadError::OutOfRange));
    }

    #[test]
    fn commits_keep_one_to_eight_in_falling_order() {
        let held = |id| Held {
            id: Tick(id),
            mask: 1,
        };
        assert!(Commit::new(&[], [0; 2]).is_none());
        assert!(Commit::new(&[held(1), held(2)], [0; 2]).is_none());
        assert!(Commit::new(&[held(2), held(2)], [0; 2]).is_none());
        assert!(Commit::new(&[Held { id: Tick(1), mask: 0 }], [0; 2]).is_none());
        let nine: Vec<Held> = (0..9).rev().map(held).collect();
        assert!(Commit::new(&nine, [0; 2]).is_none());
        let commit = Commit::new(&nine[1..], [0; 2]).unwrap();
        assert_eq!((commit.set().len(), commit.find(Tick(3))), (8, Some(held(3))));
    }
}
