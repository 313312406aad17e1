//! Judges what clients decode against what the origin published.
//!
//! A decoded record is right when it equals, field by field, the origin's record of that entity in the frame of the
//! snapshot's time. A record that is not in its snapshot's frame is a mismatch even if it was true before. Where the
//! truth has not come yet the check waits, bounded; what can never be checked is counted as unchecked.
//!
//! An origin that is killed and started again meets its relay and the bench's own subscription at different ticks. What
//! a client was shown of a tick that only the relay was sent is compared with the nearest frame of the same stream, as
//! far as nothing was observed in between; the rest is counted apart. Every later record builds on it and is compared.
//!
//! A relay numbers its streams in its own way, and a restarted relay begins anew. So each session is bound to the
//! stream of the truth in which its first snapshot is true; a stream that follows in the same session is a later one.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ending::{EndCheck, differences, end_check};
use super::series::{Series, SeriesSet};
use super::truth::{Absence, SlotHints, TruthFrame, TruthLog, TruthReader};
use super::view::{Part, View, Waiting};
use crate::client::display::ShownKind;
use crate::client::session::Client;
use crate::client::table::TableView;
use crate::delta::decode::{Change, Entry};
use crate::state::frame::Frame;
use crate::state::record::Record;

/// Entries that may wait for the truth, in all.
pub const WAITING_ENTRIES_MAX: usize = 500_000;
/// How long a session's first snapshot waits for the newest stream before older ones are tried, microseconds.
const OLDER_AFTER_US: u64 = 2_000_000;
/// How much older than the newest snapshot a late part of a stream that was just joined may be, server microseconds.
const LATE_BY_US: u64 = 1_000_000;
/// Differences told in words.
const EXAMPLES_MAX: usize = 8;

/// What an oracle counted.
#[derive(Clone, Debug, Default)]
pub struct OracleCounts {
    /// Records compared.
    pub records_checked: u64,
    /// Tables compared.
    pub tables_checked: u64,
    /// Records, removals or members that differ.
    pub mismatches: u64,
    /// Records that could not be compared.
    pub unchecked: u64,
    /// Of ticks at the seam of two streams that only the relay was sent: records that changed before the truth came.
    pub at_seams: u64,
    /// The first few differences.
    pub examples: Vec<String>,
    /// The first few that are missing at the end.
    pub missing_examples: Vec<String>,
}

/// What became of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// Compared with this frame.
    With(u64),
    /// The truth has not come.
    NotYet,
    /// It never can be.
    Never,
}

/// The judge of one thread's clients.
pub struct Oracle {
    blind: bool,
    reader: TruthReader,
    hints: SlotHints,
    waiting: VecDeque<Waiting>,
    waiting_entries: usize,
    /// Truth has come that what waits was not compared with.
    unsettled: bool,
    spare: Vec<Vec<Entry>>,
    /// The entries under judgement.
    decoded: Vec<Entry>,
    counts: OracleCounts,
}

impl Oracle {
    /// A judge that reads `log`; without one it judges nothing.
    #[must_use]
    pub fn new(log: Option<Arc<TruthLog>>) -> Oracle {
        Oracle {
            blind: log.is_none(),
            reader: TruthReader::new(log.unwrap_or_else(|| TruthLog::new(0))),
            hints: SlotHints::default(),
            waiting: VecDeque::new(),
            waiting_entries: 0,
            unsettled: false,
            spare: Vec::new(),
            decoded: Vec::new(),
            counts: OracleCounts::default(),
        }
    }

    /// True when there is nothing to judge by.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &OracleCounts {
        &self.counts
    }

    /// The truth as this thread knows it.
    #[must_use]
    pub fn reader(&self) -> &TruthReader {
        &self.reader
    }

    /// Checks what the last receive of `client` decoded. `late`: it was a part of an older snapshot than the newest.
    /// `fresh`: the first part of a snapshot with a newer time than any before, so its latency counts.
    pub fn check(
        &mut self,
        view: &mut View,
        client: &Client,
        late: bool,
        fresh: bool,
        now_us: u64,
        series: &mut SeriesSet,
    ) {
        let Some(newest) = client.newest().filter(|_| !self.blind) else {
            return;
        };
        let newest_us = newest.server_us;
        if view.relay_stream != client.stream_epoch() {
            view.relay_stream = client.stream_epoch();
            view.least_stream = view
                .truth_stream
                .take()
                .map_or(view.least_stream, |stream| stream + 1);
            view.trail.new_stream();
            view.watched.iter_mut().for_each(Vec::clear);
        }
        let server_us = (!late).then_some(newest_us);
        let mut decoded = core::mem::take(&mut self.decoded);
        decoded.clear();
        decoded.extend(client.decoded());
        let part = Part {
            client: view.client,
            server_us,
            newest_us,
            now_us,
            fresh,
            entries: &decoded,
        };
        let mut checked = self.judge(view, &part, series);
        if checked == Checked::NotYet && self.reader.refresh() {
            self.unsettled = true;
            checked = self.judge(view, &part, series);
        }
        match checked {
            Checked::With(number) => {
                self.watch(view, &part, number, series);
                if !late {
                    self.check_removals(view, client, number);
                }
            }
            Checked::NotYet => self.wait(view, &part),
            Checked::Never => {}
        }
        self.decoded = decoded;
    }

    fn judge(&mut self, view: &mut View, part: &Part<'_>, series: &mut SeriesSet) -> Checked {
        if view.truth_stream.is_none() {
            view.truth_stream = self.find_stream(part, view.least_stream, false);
        }
        match view.truth_stream {
            Some(stream) => self.compare(part, stream, series),
            None => Checked::NotYet,
        }
    }

    /// The stream of the truth in which a session's part is true, newest first. Where the newest may still come to
    /// it, only that one counts, unless `older`.
    fn find_stream(&mut self, part: &Part<'_>, least: u32, older: bool) -> Option<u32> {
        let server_us = part.server_us?;
        let newest = self.reader.newest()?.stream;
        if newest < least {
            return None;
        }
        let absent = self.reader.at(newest, server_us).next().is_none();
        if absent && self.reader.absence(newest, server_us) == Absence::NotYet && !older {
            return None;
        }
        let (reader, hints) = (&self.reader, &mut self.hints);
        let fits = |stream: &u32| {
            let frame = reader.at(*stream, server_us).next();
            let is_true = |entry: &Entry| {
                decoded(entry).is_none_or(|record| {
                    reader
                        .at(*stream, server_us)
                        .any(|truth| hints.record(&truth.frame, entry.slot, record.entity) == Some(record))
                })
            };
            frame.is_some() && part.entries.iter().all(is_true)
        };
        // In none it is true: it is judged by the newest, where it may be.
        reader
            .streams()
            .filter(|stream| *stream >= least)
            .find(fits)
            .or(Some(newest))
    }

    /// Compares every decoded record of a part.
    fn compare(&mut self, part: &Part<'_>, stream: u32, series: &mut SeriesSet) -> Checked {
        let Some(server_us) = part.server_us else {
            return self.compare_late(part, stream);
        };
        let (reader, hints) = (&self.reader, &mut self.hints);
        let Some(first) = reader.at(stream, server_us).next() else {
            return self.absent(part, stream, server_us);
        };
        let twins = reader.at(stream, server_us).nth(1).is_some();
        for entry in part.entries {
            let Some(record) = decoded(entry) else { continue };
            self.counts.records_checked += 1;
            let truth = hints.record(&first.frame, entry.slot, record.entity);
            if truth == Some(record) {
                continue;
            }
            let in_twin = twins
                && reader
                    .at(stream, server_us)
                    .any(|twin| hints.record(&twin.frame, entry.slot, record.entity) == Some(record));
            if !in_twin {
                self.counts.mismatches += 1;
                note(&mut self.counts, part.client, server_us, record, truth);
            }
        }
        if let Some(published_us) = first.published_us.filter(|_| part.fresh && !twins) {
            series.record(Series::Latency, part.now_us.saturating_sub(published_us));
        }
        Checked::With(first.number)
    }

    /// A part of an older snapshot: there must be one frame in which all of its records are true.
    fn compare_late(&mut self, part: &Part<'_>, stream: u32) -> Checked {
        let (reader, hints) = (&self.reader, &mut self.hints);
        let mut is_true = |frame: &Frame, entry: &Entry| {
            decoded(entry).is_none_or(|record| hints.record(frame, entry.slot, record.entity) == Some(record))
        };
        let records = records_in(part.entries);
        let past = reader
            .backwards(stream)
            .filter(|truth| truth.server_us() <= part.newest_us);
        for truth in past {
            if part.entries.iter().all(|entry| is_true(&truth.frame, entry)) {
                self.counts.records_checked += records;
                return Checked::Never;
            }
        }
        if reader
            .backwards(stream)
            .next()
            .is_none_or(|newest| newest.server_us() < part.newest_us)
        {
            reader.want(stream, part.newest_us);
            return Checked::NotYet;
        }
        // It may be of a time before the stream was joined.
        let joined_us = reader.joined(stream).map(TruthFrame::server_us);
        if joined_us.is_some_and(|joined_us| part.newest_us < joined_us + LATE_BY_US) {
            self.counts.at_seams += records;
            return Checked::Never;
        }
        self.counts.records_checked += records;
        self.counts.mismatches += records;
        if self.counts.examples.len() < EXAMPLES_MAX {
            self.counts.examples.push(format!(
                "client {}: a late part of {records} records before {} us is true in no frame of the origin's",
                part.client, part.newest_us
            ));
        }
        Checked::Never
    }

    /// A part of a time at which the truth has no frame.
    fn absent(&mut self, part: &Part<'_>, stream: u32, server_us: u64) -> Checked {
        match self.reader.absence(stream, server_us) {
            Absence::NotYet => {
                self.reader.want(stream, server_us);
                return Checked::NotYet;
            }
            Absence::Unknown => {
                self.counts.unchecked += records_in(part.entries);
                return Checked::Never;
            }
            Absence::AtSeam => {
                self.compare_seam(part, stream, server_us);
                return Checked::Never;
            }
            Absence::Never => {}
        }
        let records = records_in(part.entries);
        self.counts.records_checked += records;
        self.counts.mismatches += records.max(1);
        if self.counts.examples.len() < EXAMPLES_MAX {
            self.counts.examples.push(format!(
                "client {}: a snapshot of {server_us} us, a time at which the origin published nothing",
                part.client
            ));
        }
        Checked::Never
    }

    /// A part of a time at the seam of two streams: what the nearest frame has by the same observation is compared.
    fn compare_seam(&mut self, part: &Part<'_>, stream: u32, server_us: u64) {
        let (reader, hints) = (&self.reader, &mut self.hints);
        let Some(nearest) = reader.seam(stream, server_us) else {
            return;
        };
        for entry in part.entries {
            let Some(record) = decoded(entry) else { continue };
            let truth = hints.record(&nearest.frame, entry.slot, record.entity);
            match truth.and_then(|truth| agree(record, truth)) {
                None => self.counts.at_seams += 1,
                Some(agrees) => {
                    self.counts.records_checked += 1;
                    if !agrees {
                        self.counts.mismatches += 1;
                        note(&mut self.counts, part.client, server_us, record, truth);
                    }
                }
            }
        }
    }

    /// Nothing that was removed may be alive.
    fn check_removals(&mut self, view: &View, client: &Client, number: u64) {
        for shown in client.changes() {
            let ShownKind::Removed(absence) = shown.kind else {
                continue;
            };
            let Some(truth) = self.reader.numbered(number) else {
                return;
            };
            let entity = shown.entity;
            if self.hints.record(&truth.frame, shown.slot, entity).is_some() {
                self.counts.mismatches += 1;
                if self.counts.examples.len() < EXAMPLES_MAX {
                    let (client, at_us) = (view.client, truth.server_us());
                    self.counts.examples.push(format!(
                        "client {client}: entity {entity} removed ({absence:?}) at {at_us} us, where the origin has it alive"
                    ));
                }
            }
        }
    }

    /// Measures how long each changed entity waited for its next record.
    fn watch(&mut self, view: &mut View, part: &Part<'_>, number: u64, series: &mut SeriesSet) {
        let Some(watched) = view.watched.as_mut().filter(|_| part.server_us.is_some()) else {
            return;
        };
        for entry in part.entries {
            let Some(record) = decoded(entry) else { continue };
            let slot = usize::from(entry.slot);
            if watched.len() <= slot {
                watched.resize(slot + 1, 0);
            }
            let last = core::mem::replace(&mut watched[slot], number);
            let Some(before) = self.reader.numbered(last) else {
                continue;
            };
            let Some(before) = self.hints.record(&before.frame, entry.slot, record.entity) else {
                continue;
            };
            let changed = (last + 1..=number)
                .filter_map(|number| self.reader.numbered(number))
                .find(|truth| self.hints.record(&truth.frame, entry.slot, record.entity) != Some(before));
            if let Some(published_us) = changed.and_then(|truth| truth.published_us) {
                series.record(Series::Starvation, part.now_us.saturating_sub(published_us));
            }
        }
    }

    /// Compares a whole held table of the snapshot at `server_us`: each record must be the origin's of that time,
    /// or, where the entity was left out since, of a time before it.
    pub fn check_table(&mut self, view: &View, table: TableView<'_>, server_us: u64) {
        let Some(stream) = view.truth_stream else { return };
        if self.reader.at(stream, server_us).next().is_none() {
            return;
        }
        self.counts.tables_checked += 1;
        let (reader, hints) = (&self.reader, &mut self.hints);
        let oldest_us = reader.backwards(stream).last().map_or(0, TruthFrame::server_us);
        for (slot, record) in table.records() {
            let mut past = reader
                .backwards(stream)
                .filter(|truth| truth.server_us() <= server_us);
            if past.any(|truth| hints.record(&truth.frame, slot, record.entity) == Some(&record)) {
                continue;
            }
            let seen_us = record
                .motion
                .map_or(record.segment_us, |motion| motion.observed_us);
            if seen_us > oldest_us {
                self.counts.mismatches += 1;
                note(&mut self.counts, view.client, server_us, &record, None);
            }
        }
    }

    /// Compares what a client shows at the end with the whole world at its newest snapshot's time. `None` when that
    /// time's truth is not here.
    pub fn check_end(&mut self, view: &View, client: &Client) -> Option<EndCheck> {
        let server_us = client.newest()?.server_us;
        let stream = view.truth_stream?;
        let mut best: Option<EndCheck> = None;
        for truth in self.reader.at(stream, server_us) {
            let check = end_check(&self.reader, &mut self.hints, stream, &truth.frame, client);
            if best.as_ref().is_none_or(|best| check.faults() < best.faults()) {
                best = Some(check);
            }
        }
        best
    }

    /// Counts a client's last end check.
    pub fn settle_end(&mut self, view: &View, check: &EndCheck) {
        self.counts.tables_checked += 1;
        self.counts.mismatches += check.extra;
        let OracleCounts {
            examples,
            missing_examples,
            ..
        } = &mut self.counts;
        for (list, count, example) in [
            (examples, check.extra, &check.extra_example),
            (missing_examples, check.missing, &check.missing_example),
        ] {
            if count > 0 && list.len() < EXAMPLES_MAX {
                list.push(format!("client {}, at the end: {example}", view.client));
            }
        }
    }
}

/// The record an entry brought.
fn decoded(entry: &Entry) -> Option<&Record> {
    match &entry.change {
        Change::Update(record) | Change::Complete(record) => Some(record),
        Change::Removed { .. } | Change::Awake => None,
    }
}

/// Whether two records of one entity agree; `None` where something was observed between them, so that neither says
/// anything of the other. Rest and extra fields may change without an observation.
fn agree(record: &Record, truth: &Record) -> Option<bool> {
    if record == truth {
        return Some(true);
    }
    let times = |record: &Record| {
        let observed_us = record.motion.map(|motion| motion.observed_us);
        (record.segment, record.segment_us, observed_us)
    };
    if times(record) != times(truth) {
        return None;
    }
    let pose = |record: &Record| record.motion.map(|motion| (motion.position, motion.rotation));
    let fixed = |record: &Record| (record.class, record.born_us);
    if pose(record) != pose(truth) || fixed(record) != fixed(truth) {
        return Some(false);
    }
    None
}

fn records_in(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| decoded(entry).is_some()).count() as u64
}

#[cold]
fn note(counts: &mut OracleCounts, client: u32, server_us: u64, record: &Record, truth: Option<&Record>) {
    if counts.examples.len() < EXAMPLES_MAX {
        let text = differences(record, truth);
        counts.examples.push(format!(
            "client {client}: entity {} at {server_us} us: {text}",
            record.entity
        ));
    }
}

mod waiting;

#[cfg(test)]
mod tests;
