//! What one client was told of events, compared with the log of all events: each once and in order (SPEC CTL3).
//!
//! The first event a client gets sets the place in the log; from there on the next one must be the next. One that is
//! found further on leaves a gap, one that is found behind was told before or comes out of order.

use std::collections::VecDeque;

use super::series::{Series, SeriesSet};
use super::truth::{TruthReader, events_equal};
use crate::state::update::Event;

/// How long an event waits for the truth before it counts as never published, microseconds.
const UNKNOWN_AFTER_US: u64 = 1_000_000;
/// Passed-over events remembered, to tell late ones from repeated ones.
const PASSED_MAX: usize = 1024;
/// Events of one client that wait for the truth.
const WAITING_MAX: usize = 1024;

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// That should have come.
    pub sent: u64,
    /// That came.
    pub delivered: u64,
    /// That came again.
    pub duplicated: u64,
    /// That came after a later one.
    pub out_of_order: u64,
    /// That were never published.
    pub unknown: u64,
}

impl EventCounts {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &EventCounts) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.duplicated += other.duplicated;
        self.out_of_order += other.out_of_order;
        self.unknown += other.unknown;
    }
}

/// The events of one session.
#[derive(Debug, Default)]
pub struct EventTrail {
    /// The place of the first event, and the next one expected.
    place: Option<(u64, u64)>,
    passed: VecDeque<u64>,
    waiting: VecDeque<(u64, Event)>,
    counts: EventCounts,
}

impl EventTrail {
    /// Takes an event that was delivered at `now_us`.
    pub fn take(&mut self, now_us: u64, event: Event) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.counts.unknown += 1;
        }
        self.waiting.push_back((now_us, event));
    }

    /// Places in the log of `stream` what was delivered.
    pub fn settle(&mut self, now_us: u64, stream: Option<u32>, reader: &TruthReader, series: &mut SeriesSet) {
        while let Some((came_us, event)) = self.waiting.front() {
            let found = stream.and_then(|stream| self.find(stream, event, reader));
            let Some(index) = found else {
                if now_us.saturating_sub(*came_us) < UNKNOWN_AFTER_US {
                    return;
                }
                // One of a time before the stream was joined was published unseen.
                let joined = stream.and_then(|stream| reader.joined(stream));
                let unseen = joined.is_some_and(|first| event.at_us <= first.server_us());
                self.waiting.pop_front();
                self.counts.unknown += u64::from(!unseen);
                continue;
            };
            let came_us = *came_us;
            self.waiting.pop_front();
            if self.count(index) {
                let published_us = reader
                    .from_event(index)
                    .next()
                    .and_then(|frame| frame.published_us);
                if let Some(published_us) = published_us {
                    series.record(Series::EventLate, came_us.saturating_sub(published_us));
                }
            }
        }
    }

    /// The event's number in the log: the next expected if that equals it, else the next after it, else one before.
    fn find(&self, stream: u32, event: &Event, reader: &TruthReader) -> Option<u64> {
        let Some((_, next)) = self.place else {
            return reader
                .backwards(stream)
                .find_map(|frame| events_equal(frame, event).next());
        };
        let later = reader
            .from_event(next)
            .flat_map(|frame| events_equal(frame, event))
            .find(|index| *index >= next);
        later.or_else(|| {
            reader
                .backwards(stream)
                .find_map(|frame| events_equal(frame, event).next())
        })
    }

    /// Counts an event found at `index`; true when it came for the first time.
    fn count(&mut self, index: u64) -> bool {
        let (first, next) = *self.place.get_or_insert((index, index));
        if index >= next {
            for passed in next..index.min(next + PASSED_MAX as u64) {
                if self.passed.len() >= PASSED_MAX {
                    self.passed.pop_front();
                }
                self.passed.push_back(passed);
            }
            self.place = Some((first, index + 1));
            self.counts.delivered += 1;
            return true;
        }
        if let Some(at) = self.passed.iter().position(|passed| *passed == index) {
            self.passed.remove(at);
            self.counts.out_of_order += 1;
            self.counts.delivered += 1;
            return true;
        }
        self.counts.duplicated += 1;
        false
    }

    /// Another stream begins: its events are counted anew. Those of the old one that never came count as sent only
    /// up to the last that did.
    pub fn new_stream(&mut self) {
        if let Some((first, next)) = self.place.take() {
            self.counts.sent += next - first;
        }
        self.passed.clear();
    }

    /// The session ends; `log_end` is the number of events published early enough to have come by now, where that is
    /// to be looked at.
    pub fn finish(&mut self, log_end: Option<u64>) -> EventCounts {
        if let (Some((_, next)), Some(end)) = (&mut self.place, log_end) {
            *next = (*next).max(end);
        }
        self.new_stream();
        let mut counts = core::mem::take(&mut self.counts);
        counts.unknown += self.waiting.len() as u64;
        self.waiting.clear();
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::truth::TruthLog;
    use crate::bench::truth::tests::{step, world};

    fn event(at_us: u64, kind: u16) -> Event {
        Event {
            kind,
            critical: false,
            entity: None,
            at_us,
            payload: Vec::new(),
        }
    }

    /// Five frames of two events each, the second frame's alike.
    fn log() -> TruthReader {
        let log = TruthLog::new(1_000_000);
        let (mut world, first) = world(&[1]);
        log.push(0, first, Some(0));
        for at in 1..=5u16 {
            let events = [
                event(u64::from(at), at),
                event(u64::from(at), if at == 2 { 2 } else { at + 10 }),
            ];
            log.push(
                u64::from(at),
                step(&mut world, u64::from(at), &[], &[], &events),
                Some(u64::from(at)),
            );
        }
        let mut reader = TruthReader::new(log);
        reader.refresh();
        reader
    }

    fn told(events: &[Event], now_us: u64, log_end: Option<u64>) -> EventCounts {
        let (reader, mut series) = (log(), SeriesSet::default());
        let mut trail = EventTrail::default();
        events.iter().for_each(|event| trail.take(9, event.clone()));
        trail.settle(now_us, Some(1), &reader, &mut series);
        trail.finish(log_end)
    }

    /// SPEC CTL3: delivered once, in order; every other way is told apart.
    #[test]
    fn ctl3_gaps_repeats_and_disorder_are_told_apart() {
        let all: Vec<Event> = [
            (1, 1),
            (1, 11),
            (2, 2),
            (2, 2),
            (3, 3),
            (3, 13),
            (4, 4),
            (4, 14),
            (5, 5),
            (5, 15),
        ]
        .map(|(at, kind)| event(at, kind))
        .to_vec();
        let good = EventCounts {
            sent: 10,
            delivered: 10,
            ..EventCounts::default()
        };
        assert_eq!(told(&all, 10, Some(10)), good);
        let joined = EventCounts {
            sent: 6,
            delivered: 6,
            ..EventCounts::default()
        };
        assert_eq!(
            told(&all[4..], 10, Some(10)),
            joined,
            "a client is told from its join on"
        );
        assert_eq!(told(&all[..4], 10, Some(10)).sent, 10, "the end never came");
        let gap = told(&[&all[..2], &all[4..]].concat(), 10, Some(10));
        assert_eq!((gap.sent, gap.delivered), (10, 8));
        let swapped = told(
            &[&all[..4], &all[5..6], &all[4..5], &all[6..]].concat(),
            10,
            Some(10),
        );
        assert_eq!(
            swapped,
            EventCounts {
                sent: 10,
                delivered: 10,
                out_of_order: 1,
                ..EventCounts::default()
            }
        );
        let again = told(&[&all[..5], &all[4..]].concat(), 10, Some(10));
        assert_eq!(
            again,
            EventCounts {
                duplicated: 1,
                ..good
            }
        );
        let strange = [all[0].clone(), event(3, 99), all[1].clone()];
        let unknown = told(&strange, 10, Some(2));
        assert_eq!(
            (unknown.delivered, unknown.unknown),
            (1, 2),
            "it and what is behind it wait for the truth"
        );
        let unknown = told(&strange, 2_000_000, Some(2));
        assert_eq!((unknown.delivered, unknown.unknown), (2, 1), "but not for ever");
    }
}
