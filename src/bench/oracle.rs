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

use super::ending::differences;
use super::likeness::origin_of;
use super::places::SlotHints;
use super::series::SeriesSet;
use super::truth::{Absence, TruthLog, TruthReader};
use super::view::{Part, View, Waiting};
use crate::client::session::Client;
use crate::delta::decode::{Change, Entry};
use crate::state::record::Record;

/// Entries that may wait for the truth, in all.
pub const WAITING_ENTRIES_MAX: usize = 500_000;
/// How long a session's first snapshot waits for the newest stream before older ones are tried, microseconds.
const OLDER_AFTER_US: u64 = 2_000_000;
/// How much older than the newest snapshot a late part of a stream that was just joined may be, server microseconds.
const LATE_BY_US: u64 = 1_000_000;
/// Differences told in words.
pub(in crate::bench) const EXAMPLES_MAX: usize = 8;

/// What an oracle counted.
#[derive(Clone, Debug, Default)]
pub struct OracleCounts {
    /// Records compared.
    pub records_checked: u64,
    /// Tables compared.
    pub tables_checked: u64,
    /// Records, removals or members that differ.
    pub mismatches: u64,
    /// Records and members that the client's view does not allow.
    pub leaks: u64,
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
            view.least_stream = view
                .truth_stream
                .take()
                .map_or(view.least_stream, |stream| stream + 1);
            view.begin_stream(client.stream_epoch());
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
                self.check_leaks(view, &part, number);
                if !late {
                    self.check_removals(view, client, number, now_us);
                }
            }
            Checked::NotYet => {
                self.wait(view, &part);
                view.suspects.put_off(&view.sight, &part);
            }
            Checked::Never => {}
        }
        self.watch(view, client, newest_us, series);
        self.settle_suspects(view, newest_us);
        self.settle_removals(view, newest_us);
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
                        .any(|truth| origin_of(reader, hints, truth, entry.slot, record).is_some())
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
}

/// The record an entry brought.
fn decoded(entry: &Entry) -> Option<&Record> {
    match &entry.change {
        Change::Update(record) | Change::Complete(record) => Some(record),
        Change::Removed { .. } | Change::Awake => None,
    }
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

pub(super) mod hunger;
pub(super) mod leaks;
mod parts;
pub(super) mod removals;
mod tables;
mod waiting;

#[cfg(test)]
mod tests;
