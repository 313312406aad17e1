//! Whole tables and views: what a client holds, what it shows at the end.

use super::{EXAMPLES_MAX, Oracle, OracleCounts, note};
use crate::bench::ending::{EndCheck, end_check};
use crate::bench::likeness::{origin_of, same};
use crate::bench::truth::TruthFrame;
use crate::bench::view::View;
use crate::client::session::Client;
use crate::client::table::TableView;
use crate::state::record::Record;
use crate::state::slots::Slot;

impl Oracle {
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
            if past.any(|truth| {
                hints
                    .record(&truth.frame, slot, record.entity)
                    .is_some_and(|truth| same(&record, truth))
            }) {
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
    pub fn check_end(&mut self, view: &mut View, client: &Client) -> Option<EndCheck> {
        let server_us = client.newest()?.server_us;
        let stream = view.truth_stream?;
        let mut best: Option<EndCheck> = None;
        for truth in self.reader.at(stream, server_us) {
            let check = end_check(&self.reader, &mut self.hints, truth, &mut view.sight, client);
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
        self.counts.leaks += check.leaks;
        let OracleCounts {
            examples,
            missing_examples,
            ..
        } = &mut self.counts;
        let told = [
            (check.extra, &check.extra_example, &mut *examples),
            (check.missing, &check.missing_example, missing_examples),
        ];
        for (count, example, list) in told {
            tell(list, view.client, count, example);
        }
        tell(examples, view.client, check.leaks, &check.leak_example);
    }

    /// Compares the state of a client's own entity with the origin's of its tick; false where that is not here.
    pub fn check_owner(&mut self, view: &View, server_us: u64, slot: Slot, record: &Record) -> bool {
        let Some(stream) = view.truth_stream else {
            return false;
        };
        let (reader, hints) = (&self.reader, &mut self.hints);
        let Some(first) = reader.at(stream, server_us).next() else {
            return false;
        };
        self.counts.records_checked += 1;
        let is_true = reader
            .at(stream, server_us)
            .any(|truth| origin_of(reader, hints, truth, slot, record).is_some());
        if !is_true {
            let truth = hints.record(&first.frame, slot, record.entity);
            self.counts.mismatches += 1;
            note(&mut self.counts, view.client, server_us, record, truth);
        }
        true
    }
}

fn tell(list: &mut Vec<String>, client: u32, count: u64, example: &str) {
    if count > 0 && list.len() < EXAMPLES_MAX {
        list.push(format!("client {client}, at the end: {example}"));
    }
}
