//! What one client was told of events, compared with the log of all events: each once and in order (SPEC CTL3).
//!
//! The log is walked with the client. Each event is first classed by what the client's [`Sight`] says of it: due, free or
//! hidden. Due is what the client sees for sure, from its first complete view on. One that is delivered must be the next
//! but for those passed over; of these the due ones are missing unless they come late. One that is found behind
//! was told before or comes out of order; one that is hidden leaks.

use std::collections::VecDeque;

use super::oracle::EXAMPLES_MAX;
use super::series::{Series, SeriesSet};
use super::sight::{Point, Sees, Sight, place_of};
use super::truth::{TruthFrame, TruthReader, events_equal};
use crate::state::entity::Entity;
use crate::state::update::Event;
use crate::state::view::Tags;

/// When a session is told of a tick, server microseconds after it: at once, with the next snapshot, or later where
/// snapshots to it are spaced.
const TOLD_WITHIN_US: [u64; 4] = [0, 1, 200_000, 400_000];
/// How long an event waits for the truth before it counts as never published, microseconds.
const UNKNOWN_AFTER_US: u64 = 1_000_000;
/// Passed-over events remembered, to tell late ones from repeated ones.
const PASSED_MAX: usize = 1024;
/// Events of one client that wait for the truth.
const WAITING_MAX: usize = 1024;
/// A relay knows that a view is complete at most this long before the client, server microseconds.
const COMPLETE_BEFORE_US: u64 = 1_000_000;
/// An event is classed this long after its tick, server microseconds: a view that changed is heard of by then.
const CLASSED_AFTER_US: u64 = 1_000_000;

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// That should have come, and those that came though they need not have.
    pub sent: u64,
    /// That came.
    pub delivered: u64,
    /// That came again.
    pub duplicated: u64,
    /// That came after a later one.
    pub out_of_order: u64,
    /// That were never published.
    pub unknown: u64,
    /// About entities outside the view.
    pub leaks: u64,
}

impl EventCounts {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &EventCounts) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.duplicated += other.duplicated;
        self.out_of_order += other.out_of_order;
        self.unknown += other.unknown;
        self.leaks += other.leaks;
    }
}

/// What of the client is needed to place its events.
pub struct Hearing<'a> {
    /// Now.
    pub now_us: u64,
    /// The time of its newest snapshot, server microseconds.
    pub newest_us: u64,
    /// The truth's stream of its session.
    pub stream: Option<u32>,
    /// What it may know.
    pub sight: &'a mut Sight,
    /// The truth.
    pub reader: &'a TruthReader,
    /// Where lateness is counted.
    pub series: &'a mut SeriesSet,
    /// Which client, for words.
    pub client: u32,
    /// Where the first leaks are told in words.
    pub examples: &'a mut Vec<String>,
}

/// How far the log is classed.
#[derive(Clone, Copy)]
enum Until {
    /// Frames of this server time, inclusive.
    Time(u64),
    /// The event with this number, inclusive.
    Event(u64),
}

/// The events of one session.
#[derive(Debug, Default)]
pub struct EventTrail {
    /// The next event expected.
    next: Option<u64>,
    /// What the client sees of the events from there on, as far as they are classed.
    classed: VecDeque<Sees>,
    /// Events from this one on must come.
    due: Option<u64>,
    /// The time of the first complete view until `due` is known, server microseconds.
    completed_us: Option<u64>,
    /// Passed over, and whether it was counted as sent.
    passed: VecDeque<(u64, bool)>,
    waiting: VecDeque<(u64, Event)>,
    /// The log's newest frame when the foremost that waits was not found.
    sought: u64,
    counts: EventCounts,
}

impl EventTrail {
    /// The view is complete in the snapshot of `server_us`: events of later ticks must come.
    pub fn complete(&mut self, server_us: u64) {
        if self.due.is_none() {
            self.completed_us.get_or_insert(server_us);
        }
    }

    /// Takes an event that was delivered at `now_us`.
    pub fn take(&mut self, now_us: u64, event: Event) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.counts.unknown += 1;
        }
        self.sought = 0;
        self.waiting.push_back((now_us, event));
    }

    /// Places in the log what was delivered, and classes what may be classed by now.
    pub fn settle(&mut self, hearing: &mut Hearing<'_>) {
        self.begin(hearing);
        self.deliver(hearing);
        let until_us = hearing.newest_us.saturating_sub(CLASSED_AFTER_US);
        self.class(Until::Time(until_us), hearing);
        self.forget(hearing.reader);
    }

    /// The same at the end of a session, where nothing is waited for.
    pub fn settle_last(&mut self, hearing: &mut Hearing<'_>) {
        self.begin(hearing);
        self.deliver(hearing);
        for (_, event) in &self.waiting {
            note_unknown(event, hearing);
        }
        self.class(Until::Time(hearing.newest_us), hearing);
    }

    /// Finds the first event that is due, once its truth is there.
    fn begin(&mut self, hearing: &Hearing<'_>) {
        let (Some(completed_us), Some(stream)) = (self.completed_us, hearing.stream) else {
            return;
        };
        if let Some(frame) = hearing.reader.at(stream, completed_us).last() {
            self.due = Some(frame.events_after());
            self.completed_us = None;
            // The relay may have known it earlier.
            let from_us = completed_us.saturating_sub(COMPLETE_BEFORE_US);
            let mut earlier = hearing.reader.since(stream, from_us);
            let first = earlier.next().map(|frame| frame.events_before);
            self.next = self.next.or(first);
        }
    }

    fn deliver(&mut self, hearing: &mut Hearing<'_>) {
        let newest = hearing.reader.newest().map_or(0, |frame| frame.number);
        while let Some((came_us, event)) = self.waiting.front() {
            let found = match hearing.stream {
                Some(stream) if self.sought != newest => self.find(stream, event, hearing.reader),
                _ => None,
            };
            let came_us = *came_us;
            let Some(index) = found else {
                self.sought = newest;
                if hearing.now_us.saturating_sub(came_us) < UNKNOWN_AFTER_US {
                    return;
                }
                // One of a time before the stream was joined was published unseen.
                let joined = hearing.stream.and_then(|stream| hearing.reader.joined(stream));
                let unseen = joined.is_some_and(|first| event.at_us <= first.server_us());
                if !unseen {
                    note_unknown(event, hearing);
                }
                self.waiting.pop_front();
                self.sought = 0;
                self.counts.unknown += u64::from(!unseen);
                continue;
            };
            let is_critical = event.critical;
            self.waiting.pop_front();
            if self.count(index, hearing) {
                let frame = hearing.reader.from_event(index).next();
                if let Some(published_us) = frame.and_then(|frame| frame.published_us) {
                    let late_us = came_us.saturating_sub(published_us);
                    hearing.series.record(Series::EventLate, late_us);
                    if is_critical {
                        hearing.series.record(Series::CriticalLate, late_us);
                    }
                }
            }
        }
    }

    /// The event's number in the log: the next expected if that equals it, else the next after it, else one before.
    fn find(&self, stream: u32, event: &Event, reader: &TruthReader) -> Option<u64> {
        let backwards = || {
            reader
                .backwards(stream)
                .find_map(|frame| events_equal(frame, event).next())
        };
        let Some(next) = self.next else {
            return backwards();
        };
        let later = reader
            .from_event(next)
            .flat_map(|frame| events_equal(frame, event))
            .find(|index| *index >= next);
        later.or_else(backwards)
    }

    /// Counts an event found at `index`; true when it came for the first time.
    fn count(&mut self, index: u64, hearing: &mut Hearing<'_>) -> bool {
        let next = *self.next.get_or_insert(index);
        if index >= next {
            self.class(Until::Event(index), hearing);
            while self.next < Some(index) {
                self.pass();
            }
            let seen = self.classed.pop_front().unwrap_or(Sees::Perhaps);
            self.next = Some(index + 1);
            self.counts.sent += 1;
            self.counts.delivered += 1;
            if seen == Sees::Never {
                self.counts.leaks += 1;
                note_leak(index, hearing);
            }
            return true;
        }
        if let Some(at) = self.passed.iter().position(|(passed, _)| *passed == index) {
            let counted = self.passed.remove(at).is_some_and(|(_, counted)| counted);
            self.counts.out_of_order += 1;
            self.counts.sent += u64::from(!counted);
            self.counts.delivered += 1;
            return true;
        }
        self.counts.duplicated += 1;
        false
    }

    /// Passes over the next event; it counts as sent when it should have come.
    fn pass(&mut self) {
        let Some(next) = &mut self.next else { return };
        let index = *next;
        *next += 1;
        let seen = self.classed.pop_front().unwrap_or(Sees::Perhaps);
        let is_due = seen == Sees::Surely && self.due.is_some_and(|due| index >= due);
        if self.passed.len() >= PASSED_MAX {
            self.passed.pop_front();
        }
        self.passed.push_back((index, is_due));
        self.counts.sent += u64::from(is_due);
    }

    /// Classes events by what the client sees at their ticks.
    fn class(&mut self, until: Until, hearing: &mut Hearing<'_>) {
        let (Some(next), Some(stream)) = (self.next, hearing.stream) else {
            return;
        };
        let (now_us, reader) = (hearing.now_us, hearing.reader);
        let mut index = next + self.classed.len() as u64;
        if reader.events() <= index {
            return;
        }
        for truth in reader.from_event(index) {
            let is_past = match until {
                Until::Time(time_us) => truth.server_us() > time_us,
                Until::Event(last) => truth.events_before > last,
            };
            if is_past || truth.stream != stream {
                return;
            }
            // Those of frames that are not kept any more are nobody's.
            while index < truth.events_before {
                self.classed.push_back(Sees::Perhaps);
                index += 1;
            }
            let skipped = usize::try_from(index - truth.events_before).unwrap_or(usize::MAX);
            let events = truth.frame.events.get(skipped..).unwrap_or_default();
            class_events(events, truth, hearing.sight, reader, now_us, &mut self.classed);
            index += events.len() as u64;
        }
    }

    /// Passes over what the log does not keep any more: it will not be found.
    fn forget(&mut self, reader: &TruthReader) {
        let oldest = reader.oldest_event();
        while self.next.is_some_and(|next| next < oldest) && !self.classed.is_empty() {
            self.pass();
        }
    }

    /// Another stream begins: its events are counted anew. Those of the old one that never came count as sent only
    /// up to the last that did.
    pub fn new_stream(&mut self) {
        (self.next, self.due, self.completed_us) = (None, None, None);
        self.classed.clear();
        self.passed.clear();
    }

    /// The session ends; `log_end` is the number of events published early enough to have come by now, where that is
    /// to be looked at.
    pub fn finish(&mut self, log_end: Option<u64>) -> EventCounts {
        while !self.classed.is_empty() && self.next < log_end {
            self.pass();
        }
        self.new_stream();
        let mut counts = core::mem::take(&mut self.counts);
        counts.unknown += self.waiting.len() as u64;
        self.waiting.clear();
        counts
    }
}

#[cold]
fn note_unknown(event: &Event, hearing: &mut Hearing<'_>) {
    if hearing.examples.len() < EXAMPLES_MAX {
        let (client, newest_us) = (hearing.client, hearing.newest_us);
        let truth_us = hearing.reader.newest().map_or(0, TruthFrame::server_us);
        let about = event
            .entity
            .map_or("nobody".to_owned(), |entity| entity.to_string());
        hearing.examples.push(format!(
            "client {client}: an event of {} us about {about} was told by {newest_us} us and is in no tick of the origin's until {truth_us} us",
            event.at_us
        ));
    }
}

#[cold]
fn note_leak(index: u64, hearing: &mut Hearing<'_>) {
    let Some(truth) = hearing.reader.from_event(index).next() else {
        return;
    };
    let nth = usize::try_from(index.saturating_sub(truth.events_before)).unwrap_or(usize::MAX);
    let Some(entity) = truth.frame.events.get(nth).and_then(|event| event.entity) else {
        return;
    };
    if hearing.examples.len() < EXAMPLES_MAX {
        let (client, at_us, newest_us) = (hearing.client, truth.server_us(), hearing.newest_us);
        hearing.examples.push(format!(
            "client {client}: an event of {at_us} us was told about entity {entity}, which its view did not allow, by {newest_us} us"
        ));
    }
}

/// Whether the client sees what each event of a frame is about: alive in it, or until it. A relay tells a session of a tick
/// with the next snapshot, by whom it sees then; so the view counts at both.
fn class_events(
    events: &[Event],
    truth: &TruthFrame,
    sight: &mut Sight,
    reader: &TruthReader,
    now_us: u64,
    classed: &mut VecDeque<Sees>,
) {
    let first = classed.len();
    for event in events {
        let is_known = event
            .entity
            .is_none_or(|entity| lives(reader, truth, entity).is_some());
        classed.push_back(if is_known { Sees::Surely } else { Sees::Perhaps });
    }
    if !sight.is_bounded() {
        return;
    }
    for (nth, after_us) in TOLD_WITHIN_US.into_iter().enumerate() {
        let Some(then) = reader.since(truth.stream, truth.server_us() + after_us).next() else {
            return;
        };
        let outlook = sight.outlook(reader, then, now_us);
        for (event, class) in events.iter().zip(classed.range_mut(first..)) {
            let Some(entity) = event.entity.filter(|_| *class != Sees::Perhaps) else {
                continue;
            };
            // Who is dead by then was told of by where it was.
            let Some((tags, place)) = lives(reader, then, entity).or_else(|| lives(reader, truth, entity))
            else {
                continue;
            };
            let sees = outlook.sees(entity, tags, place);
            *class = if nth == 0 { sees } else { class.or(sees) };
        }
    }
}

/// Tags and place of an entity that lives in a frame, or did in the one before.
fn lives(reader: &TruthReader, truth: &TruthFrame, entity: Entity) -> Option<(Tags, Option<Point>)> {
    let alive = |truth: &TruthFrame| {
        let (slot, record) = reader.find(truth, entity)?;
        Some((truth.frame.tags(slot), place_of(&truth.frame.schema, record)))
    };
    alive(truth).or_else(|| {
        let before = reader.numbered(truth.number.checked_sub(1)?)?;
        alive(before).filter(|_| before.stream == truth.stream)
    })
}

#[cfg(test)]
mod tests;
