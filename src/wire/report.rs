//! What a client says in every datagram it sends: state, not events, so that each one stands for all before it
//! (SPEC TAB8, WIN1..WIN11; WINDOW-MODEL A7, A19).
//!
//! Two signals are kept apart: *received* (for loss and round-trip time) and *held as a baseline*, the only
//! one that lets the relay name a snapshot (SPEC WIN1).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::bytes::{ByteReader, ByteWriter, ReadError};
use super::snapshot::Held;
use crate::limits::{RECORD_REQUESTS_MAX, WINDOW_SLOTS};
use crate::sequence::Tick;

/// Why a client refuses to go on from what it holds; the relay answers with a new session epoch (SPEC WIN11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefuseReason {
    /// A committed baseline is not held, or with other parts.
    CommitNotHeld = 1,
    /// A committed baseline's digest differs.
    CommitDigest = 2,
    /// A delta named a baseline that is not held (SPEC WIN2).
    BaseMissing = 3,
    /// A base's digest differs: the tables have parted (SPEC DEC9, CTL6).
    BaseDigest = 4,
    /// The game asked for a full state.
    Requested = 5,
}

impl RefuseReason {
    /// Every reason, in order of its number.
    pub const ALL: [RefuseReason; 5] = [
        RefuseReason::CommitNotHeld,
        RefuseReason::CommitDigest,
        RefuseReason::BaseMissing,
        RefuseReason::BaseDigest,
        RefuseReason::Requested,
    ];

    /// The reason with this wire number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<RefuseReason> {
        RefuseReason::ALL.into_iter().find(|reason| *reason as u8 == code)
    }

    /// The word used in metrics and reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            RefuseReason::CommitNotHeld => "commit_not_held",
            RefuseReason::CommitDigest => "commit_digest",
            RefuseReason::BaseMissing => "base_missing",
            RefuseReason::BaseDigest => "base_digest",
            RefuseReason::Requested => "requested",
        }
    }
}

/// Snapshots a client holds, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HeldList {
    held: [Held; WINDOW_SLOTS],
    length: usize,
}

impl HeldList {
    /// Adds one; false when the list is full.
    pub fn push(&mut self, held: Held) -> bool {
        let Some(place) = self.held.get_mut(self.length) else {
            return false;
        };
        *place = held;
        self.length += 1;
        true
    }

    /// What is held, newest first.
    #[must_use]
    pub fn as_slice(&self) -> &[Held] {
        self.held.get(..self.length).unwrap_or_default()
    }
}

/// A client's report.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// Session epoch this report is about; 0 before any.
    pub session_epoch: u32,
    /// Window generation the client is in: one above the relay's own confirms the open commit.
    pub generation: u32,
    /// Stream epoch whose schema the client has; 0 before any.
    pub stream_epoch: u32,
    /// Low 32 bits of the highest datagram number received.
    pub received_newest: u32,
    /// How many datagrams were received in this session, modulo 2^32.
    pub received_count: u32,
    /// The clock stamp of that newest datagram, echoed.
    pub echo: u16,
    /// How long it lay at the client before this report, in units of 64 us, saturating.
    pub echo_delay: u16,
    /// Next message of the reliable stream that the client expects.
    pub next_message: u32,
    /// The window should advance (SPEC WIN5, WIN8).
    pub ask: bool,
    /// The client refuses to go on.
    pub refuse: Option<RefuseReason>,
    /// Everything held as a baseline, newest first.
    pub held: HeldList,
    /// Entities whose complete record is asked for, as (id, generation) (SPEC CTL2).
    pub requests: Vec<(u32, u32)>,
    /// Packets the client refused since the session began, per reason code, where it changed.
    pub rejected: Vec<(u8, u32)>,
}

const ASK: u8 = 1;
const REFUSE: u8 = 2;
const REQUESTS: u8 = 4;
const REJECTED: u8 = 8;

/// Reason codes a report may carry in one datagram.
pub const REJECTED_MAX: usize = 32;

impl Report {
    /// Appends the report.
    pub fn encode(&self, out: &mut impl ByteWriter) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.put_u8(
            flag(self.ask, ASK)
                | flag(self.refuse.is_some(), REFUSE)
                | flag(!self.requests.is_empty(), REQUESTS)
                | flag(!self.rejected.is_empty(), REJECTED),
        );
        out.put_varint(self.session_epoch);
        out.put_varint(self.generation);
        out.put_varint(self.stream_epoch);
        out.put_u32(self.received_newest);
        out.put_varint(self.received_count);
        out.put_u16(self.echo);
        out.put_u16(self.echo_delay);
        out.put_varint(self.next_message);
        if let Some(reason) = self.refuse {
            out.put_u8(reason as u8);
        }
        let held = self.held.as_slice();
        out.put_u8(u8::try_from(held.len()).unwrap_or(0));
        let mut previous = Tick(0);
        for (index, entry) in held.iter().enumerate() {
            let distance = if index == 0 {
                entry.id.0
            } else {
                previous.0.wrapping_sub(entry.id.0)
            };
            out.put_varint(distance);
            out.put_varint(entry.mask);
            previous = entry.id;
        }
        if !self.requests.is_empty() {
            debug_assert!(self.requests.len() <= RECORD_REQUESTS_MAX);
            out.put_u8(u8::try_from(self.requests.len()).unwrap_or(0));
            for (id, generation) in &self.requests {
                out.put_varint(*id);
                out.put_varint(*generation);
            }
        }
        if !self.rejected.is_empty() {
            debug_assert!(self.rejected.len() <= REJECTED_MAX);
            out.put_u8(u8::try_from(self.rejected.len()).unwrap_or(0));
            for (code, count) in &self.rejected {
                out.put_u8(*code);
                out.put_varint(*count);
            }
        }
    }

    /// Reads a report into `self`, whose buffers are reused; the reader is left behind it. On an error `self`
    /// is half-read and must not be used.
    ///
    /// # Errors
    /// [`ReadError`]: bytes missing, a reserved flag, more than 32 held, masks of zero, ids not falling,
    /// counts out of range.
    pub fn decode_into(&mut self, reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
        let flags = reader.u8()?;
        if flags & !(ASK | REFUSE | REQUESTS | REJECTED) != 0 {
            return Err(ReadError::OutOfRange);
        }
        self.ask = flags & ASK != 0;
        self.session_epoch = reader.varint()?;
        self.generation = reader.varint()?;
        self.stream_epoch = reader.varint()?;
        self.received_newest = reader.u32()?;
        self.received_count = reader.varint()?;
        self.echo = reader.u16()?;
        self.echo_delay = reader.u16()?;
        self.next_message = reader.varint()?;
        self.refuse = if flags & REFUSE != 0 {
            Some(RefuseReason::from_code(reader.u8()?).ok_or(ReadError::OutOfRange)?)
        } else {
            None
        };
        self.decode_held(reader)?;
        self.requests.clear();
        if flags & REQUESTS != 0 {
            for _ in 0..counted(reader, RECORD_REQUESTS_MAX)? {
                self.requests.push((reader.varint()?, reader.varint()?));
            }
        }
        self.rejected.clear();
        if flags & REJECTED != 0 {
            for _ in 0..counted(reader, REJECTED_MAX)? {
                self.rejected.push((reader.u8()?, reader.varint()?));
            }
        }
        Ok(())
    }

    fn decode_held(&mut self, reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
        self.held.length = 0;
        let length = usize::from(reader.u8()?);
        if length > WINDOW_SLOTS {
            return Err(ReadError::OutOfRange);
        }
        let mut previous = Tick(0);
        for index in 0..length {
            let number = reader.varint()?;
            let id = if index == 0 {
                Tick(number)
            } else {
                previous.minus(number)
            };
            let mask = reader.varint()?;
            let falling = index == 0 || (1..=i32::MAX.cast_unsigned()).contains(&number);
            if mask == 0 || !falling || !self.held.push(Held { id, mask }) {
                return Err(ReadError::OutOfRange);
            }
            previous = id;
        }
        Ok(())
    }
}

/// A one-byte count from 1 to `max`.
fn counted(reader: &mut ByteReader<'_>, max: usize) -> Result<u8, ReadError> {
    let count = reader.u8()?;
    if count == 0 || usize::from(count) > max {
        Err(ReadError::OutOfRange)
    } else {
        Ok(count)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report() -> impl Strategy<Value = Report> {
        let held = prop::collection::vec((1u32..60_000_000, 1u32..), 0..=WINDOW_SLOTS);
        let numbers = any::<([u32; 6], u16, u16, bool, u8)>();
        let requests = prop::collection::vec(any::<(u32, u32)>(), 0..=RECORD_REQUESTS_MAX);
        (
            numbers,
            held,
            requests,
            prop::collection::vec(any::<(u8, u32)>(), 0..=REJECTED_MAX),
        )
            .prop_map(|((n, echo, echo_delay, ask, refuse), gaps, requests, rejected)| {
                let mut held = HeldList::default();
                let mut id = Tick(n[0]);
                for (gap, mask) in gaps {
                    assert!(held.push(Held { id, mask }));
                    id = id.minus(gap);
                }
                Report {
                    session_epoch: n[0],
                    generation: n[1],
                    stream_epoch: n[2],
                    received_newest: n[3],
                    received_count: n[4],
                    echo,
                    echo_delay,
                    next_message: n[5],
                    ask,
                    refuse: RefuseReason::from_code(refuse % 8),
                    held,
                    requests,
                    rejected,
                }
            })
    }

    proptest! {
        #[test]
        fn reports_round_trip(report in report()) {
            let mut bytes = Vec::new();
            report.encode(&mut bytes);
            let mut reader = ByteReader::new(&bytes);
            let mut read = Report { requests: vec![(1, 1)], ..Report::default() };
            prop_assert_eq!(read.decode_into(&mut reader), Ok(()));
            prop_assert!(reader.end().is_ok());
            prop_assert_eq!(read.held.as_slice(), report.held.as_slice());
            read.held = report.held.clone();
            prop_assert_eq!(read, report);
        }

        /// THREATS 33, 47: random bytes never panic, never hold more than 32, and re-encode to themselves.
        #[test]
        fn threats_47_only_canonical_reports_decode(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = ByteReader::new(&bytes);
            let mut report = Report::default();
            if report.decode_into(&mut reader).is_ok() {
                let mut again = Vec::new();
                report.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
    }

    /// THREATS 47: a 33rd held snapshot is refused.
    #[test]
    fn threats_47_a_33rd_held_snapshot_is_refused() {
        let mut report = Report::default();
        for i in 0..32u32 {
            assert!(report.held.push(Held {
                id: Tick(100 - i),
                mask: 1
            }));
        }
        assert!(!report.held.push(Held { id: Tick(1), mask: 1 }));
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        let count = bytes.iter().position(|byte| *byte == 32).unwrap();
        bytes[count] = 33;
        bytes.extend([1, 1]);
        assert_eq!(
            Report::default().decode_into(&mut ByteReader::new(&bytes)),
            Err(ReadError::OutOfRange)
        );
    }
}
