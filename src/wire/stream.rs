//! The reliable ordered stream: messages that must arrive, inside the same datagrams (SPEC CTL1).
//!
//! One sender, one receiver. A message has a number; a block of a datagram carries some messages with
//! consecutive numbers; the receiver's report says which number it expects next. What is not acknowledged
//! after a resend time goes again. Bounded at both ends in messages and bytes: a sender that runs full says so
//! and the caller decides (FAULTS 39, THREATS 71).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use super::bytes::{ByteReader, ByteWriter, ReadError, varint_bytes};
use crate::limits::{MESSAGE_BYTES_MAX, STREAM_BYTES_MAX, STREAM_MESSAGES_MAX};

/// The stream has no room: too much is waiting to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reliable stream is full: {messages} messages of {bytes} bytes wait to be acknowledged")]
pub struct StreamFull {
    /// Messages waiting.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

struct Waiting {
    bytes: Vec<u8>,
    sent_us: Option<u64>,
    urgent: bool,
    sends: u8,
}

/// How often an urgent message goes before its acknowledgement could have come: at 20% loss all are lost once in 625.
const URGENT_SENDS: u8 = 4;
/// Least time between two sends of an urgent message, microseconds: less than a tick.
const URGENT_SPACING_US: u64 = 8_000;

/// The sending end.
#[derive(Default)]
pub struct StreamSender {
    first: u32,
    waiting: VecDeque<Waiting>,
    bytes: usize,
    refused: u64,
}

impl StreamSender {
    /// Queues a message of at most [`MESSAGE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`StreamFull`] when the bound on waiting messages or bytes is reached; nothing is queued then.
    pub fn push(&mut self, message: &[u8]) -> Result<(), StreamFull> {
        self.queue(message, false)
    }

    /// Queues a message that must not wait for a loss to be noticed: it goes in several datagrams, and what is before it
    /// with it.
    ///
    /// # Errors
    /// As [`push`](StreamSender::push).
    pub fn push_urgent(&mut self, message: &[u8]) -> Result<(), StreamFull> {
        self.queue(message, true)
    }

    fn queue(&mut self, message: &[u8], urgent: bool) -> Result<(), StreamFull> {
        debug_assert!(message.len() <= MESSAGE_BYTES_MAX);
        if self.waiting.len() >= STREAM_MESSAGES_MAX || self.bytes + message.len() > STREAM_BYTES_MAX {
            self.refused += 1;
            return Err(StreamFull {
                messages: self.waiting.len(),
                bytes: self.bytes,
            });
        }
        self.bytes += message.len();
        self.waiting.push_back(Waiting {
            bytes: message.to_vec(),
            sent_us: None,
            urgent,
            sends: 0,
        });
        Ok(())
    }

    /// Takes the receiver's word that it expects `next`: all before it is done. Numbers out of range are
    /// ignored (THREATS 46).
    pub fn acknowledge(&mut self, next: u32) {
        let done = usize::try_from(next.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        if done <= self.waiting.len() {
            for message in self.waiting.drain(..done) {
                self.bytes -= message.bytes.len();
            }
            self.first = next;
        }
    }

    /// Messages waiting to be acknowledged.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.waiting.len()
    }

    /// Messages that found no room.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// True when a block would carry something at `now_us`.
    #[must_use]
    pub fn is_due(&self, now_us: u64, resend_us: u64) -> bool {
        self.start(now_us, resend_us, usize::MAX).is_some()
    }

    /// Where a block of at most `room` bytes begins, if any message is due. What must count as lost goes first: nothing behind
    /// it is told before it came. Then what is urgent is repeated with all before it; where that has no room together, what
    /// was never sent goes first, so that a backlog of more than a datagram does not hold it up.
    fn start(&self, now_us: u64, resend_us: u64, room: usize) -> Option<usize> {
        let since = |message: &Waiting| message.sent_us.map(|sent| now_us.saturating_sub(sent));
        let is_lost = |message: &Waiting| since(message).is_some_and(|since| since >= resend_us);
        if let Some(lost) = self.waiting.iter().position(is_lost) {
            return Some(lost);
        }
        let hurries = |message: &Waiting| message.urgent && message.sends < URGENT_SENDS;
        let hurried = self.waiting.iter().rposition(hurries).map_or(0, |last| last + 1);
        let is_due = |(index, message): (usize, &Waiting)| {
            let again = index < hurried && message.sends < URGENT_SENDS;
            since(message).is_none_or(|since| again && since >= URGENT_SPACING_US)
        };
        let due = self.waiting.iter().enumerate().position(is_due)?;
        let mut ahead = self.waiting.iter().take(hurried);
        let Some(unsent) = ahead.position(|message| message.sent_us.is_none()) else {
            return Some(due);
        };
        let with_it = self.waiting.range(due..unsent + 1);
        let bytes: usize = with_it.map(|message| message.bytes.len() + 2).sum();
        Some(if bytes > room { unsent } else { due })
    }

    /// Bytes of the messages that are due, with what is sent along.
    #[must_use]
    pub fn due_bytes(&self, now_us: u64, resend_us: u64) -> usize {
        let Some(skip) = self.start(now_us, resend_us, usize::MAX) else {
            return 0;
        };
        self.waiting
            .iter()
            .skip(skip)
            .map(|message| message.bytes.len() + 2)
            .sum()
    }

    /// Writes a block of messages that are due, in at most `room` bytes; false, and nothing written, when none
    /// is due or the first does not fit. The block: first number, count, then length and bytes of each.
    pub fn put_block(&mut self, now_us: u64, resend_us: u64, room: usize, out: &mut impl ByteWriter) -> bool {
        let Some(skip) = self.start(now_us, resend_us, room) else {
            return false;
        };
        let first = self.first.wrapping_add(u32::try_from(skip).unwrap_or(0));
        let mut used = varint_bytes(first) + 1;
        let mut count = 0u8;
        for message in self.waiting.iter().skip(skip) {
            used += varint_bytes(u32::try_from(message.bytes.len()).unwrap_or(0)) + message.bytes.len();
            if used > room || usize::from(count) >= STREAM_MESSAGES_MAX {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return false;
        }
        out.put_varint(first);
        out.put_u8(count);
        for message in self.waiting.iter_mut().skip(skip).take(usize::from(count)) {
            out.put_varint(u32::try_from(message.bytes.len()).unwrap_or(0));
            out.put(&message.bytes);
            message.sent_us = Some(now_us);
            message.sends = message.sends.saturating_add(1);
        }
        true
    }
}

/// The receiving end. Messages that overtake wait in a bounded window.
#[derive(Default)]
pub struct StreamReceiver {
    next: u32,
    early: VecDeque<Option<Vec<u8>>>,
    ready: VecDeque<Vec<u8>>,
}

impl StreamReceiver {
    /// The number expected next: goes into every report.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Reads a block. Duplicates and messages too far ahead are dropped.
    ///
    /// # Errors
    /// [`ReadError`] when the block is malformed; then nothing of it is taken.
    pub fn receive(&mut self, reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
        let mut messages = *reader;
        skip_block(reader)?;
        let (first, count) = (messages.varint()?, messages.u8()?);
        for index in 0..u32::from(count) {
            let bytes = message(&mut messages)?;
            self.take(first.wrapping_add(index), bytes);
        }
        Ok(())
    }

    fn take(&mut self, number: u32, bytes: &[u8]) {
        let ahead = usize::try_from(number.wrapping_sub(self.next)).unwrap_or(usize::MAX);
        if ahead >= STREAM_MESSAGES_MAX {
            return;
        }
        if self.early.len() <= ahead {
            self.early.resize(ahead + 1, None);
        }
        if let Some(place) = self.early.get_mut(ahead)
            && place.is_none()
        {
            *place = Some(bytes.to_vec());
        }
        while let Some(Some(_)) = self.early.front() {
            if self.ready.len() >= STREAM_MESSAGES_MAX {
                return;
            }
            if let Some(Some(message)) = self.early.pop_front() {
                self.ready.push_back(message);
                self.next = self.next.wrapping_add(1);
            }
        }
    }

    /// The next message in order.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }
}

/// Reads past a block and checks its form.
///
/// # Errors
/// [`ReadError`] when the block is malformed; the reader then stands anywhere within it.
pub fn skip_block(reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
    reader.varint()?;
    let count = reader.u8()?;
    if count == 0 || usize::from(count) > STREAM_MESSAGES_MAX {
        return Err(ReadError::OutOfRange);
    }
    (0..count).try_for_each(|_| message(reader).map(drop))
}

fn message<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], ReadError> {
    let length = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        Err(ReadError::OutOfRange)
    } else {
        reader.bytes(length)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// SPEC CTL1, ID8: whatever is lost, doubled or reordered, each message comes once and in order, across the wrap
        /// of their numbers too.
        #[test]
        fn ctl1_messages_come_once_and_in_order(fates in prop::collection::vec(0u8..8, 50..300), start in prop_oneof![any::<u32>(), u32::MAX - 200..=u32::MAX]) {
            let mut sender = StreamSender { first: start, ..StreamSender::default() };
            let mut receiver = StreamReceiver { next: start, ..StreamReceiver::default() };
            let (mut pushed, mut popped) = (0u32, Vec::new());
            let mut held: Vec<Vec<u8>> = Vec::new();
            for (step, fate) in (0u64..).zip(fates.iter().chain(core::iter::repeat_n(&7, 200))) {
                if step < fates.len() as u64 && sender.push(&pushed.to_le_bytes()).is_ok() {
                    pushed += 1;
                }
                let mut block = Vec::new();
                if sender.put_block(step * 10, 25, 40, &mut block) {
                    held.push(block);
                }
                match fate {
                    0 | 1 => drop(held.pop()),
                    2 => {}
                    3 if !held.is_empty() => {
                        let block = held.remove(0);
                        receiver.receive(&mut ByteReader::new(&block)).unwrap();
                        held.push(block);
                    }
                    _ => for block in held.drain(..).rev() {
                        receiver.receive(&mut ByteReader::new(&block)).unwrap();
                    },
                }
                while let Some(message) = receiver.pop() {
                    popped.push(u32::from_le_bytes(message.try_into().unwrap()));
                }
                if fate % 2 == 1 {
                    sender.acknowledge(receiver.next());
                }
            }
            prop_assert_eq!(popped, (0..pushed).collect::<Vec<_>>());
            prop_assert_eq!(sender.backlog(), 0);
        }
    }

    /// FAULTS 39: a receiver that acknowledges nothing pins a bounded queue.
    #[test]
    fn faults_39_a_silent_receiver_pins_a_bounded_queue() {
        let mut sender = StreamSender::default();
        let refused = (0..1000).filter(|_| sender.push(&[0; 100]).is_err()).count();
        assert_eq!(
            (sender.backlog(), refused),
            (STREAM_MESSAGES_MAX, 1000 - STREAM_MESSAGES_MAX)
        );
        sender.acknowledge(u32::MAX);
        sender.acknowledge(65);
        assert_eq!(sender.backlog(), 64, "threats 46: numbers never sent are ignored");
        sender.acknowledge(64);
        assert_eq!(sender.backlog(), 0);
        let large = [0; MESSAGE_BYTES_MAX];
        while sender.push(&large).is_ok() {}
        assert!(sender.bytes <= STREAM_BYTES_MAX);
    }

    /// SPEC ID8: message numbers from every place just before their wrap; what is late, doubled or absurdly far ahead is
    /// dropped on both sides of it, and numbers never sent acknowledge nothing (THREATS 46).
    #[test]
    fn threats_46_message_numbers_wrap() {
        for start in (u32::MAX - 5)..=u32::MAX {
            let mut sender = StreamSender {
                first: start,
                ..StreamSender::default()
            };
            let mut receiver = StreamReceiver {
                next: start,
                ..StreamReceiver::default()
            };
            for n in 0..10u8 {
                sender.push(&[n]).unwrap();
            }
            let mut blocks = Vec::new();
            loop {
                let mut block = Vec::new();
                if !sender.put_block(0, 1, 12, &mut block) {
                    break;
                }
                blocks.push(block);
            }
            assert!(blocks.len() >= 3, "some messages each");
            for block in blocks.iter().rev().chain(&blocks) {
                receiver.receive(&mut ByteReader::new(block)).unwrap();
            }
            let told: Vec<u8> = core::iter::from_fn(|| receiver.pop()).flatten().collect();
            assert_eq!(told, (0..10).collect::<Vec<u8>>(), "from {start}");
            for ahead in [64, 1 << 31, u32::MAX - 10] {
                let mut far = Vec::new();
                far.put_varint(receiver.next().wrapping_add(ahead));
                far.put_u8(1);
                far.put_varint(1);
                far.put_u8(99);
                receiver.receive(&mut ByteReader::new(&far)).unwrap();
            }
            assert_eq!((receiver.pop(), receiver.early.len()), (None, 0));
            assert_eq!(receiver.next(), start.wrapping_add(10));
            for wrong in [
                start.wrapping_sub(1),
                start.wrapping_add(11),
                start.wrapping_add(1 << 31),
            ] {
                sender.acknowledge(wrong);
                assert_eq!(sender.backlog(), 10, "{wrong}");
            }
            sender.acknowledge(receiver.next());
            assert_eq!(sender.backlog(), 0);
        }
    }

    /// SPEC CTL3: an urgent message behind a backlog of several datagrams goes with the datagrams that bring the backlog,
    /// not after its repeats, and the repeats are bounded.
    #[test]
    fn ctl3_a_backlog_does_not_hold_up_what_is_urgent() {
        let mut sender = StreamSender::default();
        for n in 0..12u8 {
            sender.push(&[n; 20]).unwrap();
        }
        sender.push_urgent(&[99; 20]).unwrap();
        let mut receiver = StreamReceiver::default();
        let mut blocks = 0;
        for tick in 0..40u64 {
            let mut block = Vec::new();
            if sender.put_block(tick * 50_000, 10_000_000, 70, &mut block) {
                blocks += 1;
                receiver.receive(&mut ByteReader::new(&block)).unwrap();
            }
            if tick == 4 {
                let told: Vec<u8> = core::iter::from_fn(|| receiver.pop()).map(|m| m[0]).collect();
                let wanted: Vec<u8> = (0..12).chain([99]).collect();
                assert_eq!(told, wanted, "three a datagram, in order");
            }
        }
        assert!(blocks <= 5 * usize::from(URGENT_SENDS), "{blocks} blocks");
    }

    /// SPEC CTL3: a message that was lost goes again after the resend time, whatever urgent ones come after it at every tick.
    #[test]
    fn ctl3_what_was_lost_is_not_held_up_by_what_is_urgent() {
        let mut sender = StreamSender::default();
        let mut receiver = StreamReceiver::default();
        for tick in 0..30u8 {
            for n in 0..8 {
                sender.push_urgent(&[tick, n, 0, 0, 0, 0, 0, 0]).unwrap();
            }
            let mut block = Vec::new();
            assert!(sender.put_block(u64::from(tick) * 50_000, 60_000, 100, &mut block));
            if tick % 5 > 0 {
                receiver.receive(&mut ByteReader::new(&block)).unwrap();
            }
            sender.acknowledge(receiver.next());
            assert!(sender.backlog() <= 40, "{} at tick {tick}", sender.backlog());
            while receiver.pop().is_some() {}
        }
    }

    #[test]
    fn malformed_blocks_take_nothing() {
        let mut receiver = StreamReceiver::default();
        for bytes in [
            &[0u8][..],
            &[0, 0],
            &[0, 65],
            &[0, 2, 1, 5],
            &[0, 1, 0xFF, 0xFF, 3],
        ] {
            assert!(receiver.receive(&mut ByteReader::new(bytes)).is_err());
        }
        assert_eq!((receiver.next(), receiver.pop()), (0, None));
    }
}
