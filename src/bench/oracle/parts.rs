//! Parts of snapshots, compared record by record with the frame they are of.

use super::{Checked, EXAMPLES_MAX, LATE_BY_US, Oracle, Part, decoded, note, records_in};
use crate::bench::likeness::{agree, origin_of};
use crate::bench::series::{Series, SeriesSet};
use crate::bench::truth::{Absence, TruthFrame};
use crate::delta::decode::Entry;

impl Oracle {
    /// Compares every decoded record of a part.
    pub(super) fn compare(&mut self, part: &Part<'_>, stream: u32, series: &mut SeriesSet) -> Checked {
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
            if origin_of(reader, hints, first, entry.slot, record).is_some() {
                continue;
            }
            let in_twin = twins
                && reader
                    .at(stream, server_us)
                    .any(|twin| origin_of(reader, hints, twin, entry.slot, record).is_some());
            if !in_twin {
                let truth = hints.record(&first.frame, entry.slot, record.entity);
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
        let mut is_true = |truth: &TruthFrame, entry: &Entry| {
            decoded(entry).is_none_or(|record| origin_of(reader, hints, truth, entry.slot, record).is_some())
        };
        let records = records_in(part.entries);
        let past = reader
            .backwards(stream)
            .filter(|truth| truth.server_us() <= part.newest_us);
        for truth in past {
            if part.entries.iter().all(|entry| is_true(truth, entry)) {
                self.counts.records_checked += records;
                return Checked::With(truth.number);
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
}
