//! One session's counters as they were after its last datagram: what the next one changed is measured.

use core::mem::replace;

use super::series::Series;
use super::tally::Tally;
use crate::client::statistics::Statistics;
use crate::limits::WINDOW_ASK_AT;

/// What a datagram brought, when it brought a part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartTaken {
    /// Of an older snapshot than the newest.
    pub(super) late: bool,
    /// The first of a newer snapshot than all before.
    pub(super) newer: bool,
}

/// Counters after the last datagram, and since when something is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    begun_us: u64,
    parts: u64,
    late: u64,
    snapshots: u64,
    advances: u64,
    epochs: u64,
    mismatches: u64,
    unhealed: u64,
    asked_us: Option<u64>,
    /// A snapshot was shown.
    pub(super) joined: bool,
    /// A view was complete.
    pub(super) complete: bool,
}

impl Marks {
    /// A session that asks for the first time at `begun_us`.
    pub(super) fn new(begun_us: u64) -> Marks {
        Marks {
            begun_us,
            ..Marks::default()
        }
    }

    /// Compares with the counters now; `None` when no part was taken.
    pub(super) fn note(&mut self, now: &Statistics, tally: &mut Tally) -> Option<PartTaken> {
        self.unhealed += now.digest_mismatches - replace(&mut self.mismatches, now.digest_mismatches);
        if replace(&mut self.parts, now.parts_received) == now.parts_received {
            return None;
        }
        if now.epochs_begun > replace(&mut self.epochs, now.epochs_begun) {
            tally.digest_healed += core::mem::take(&mut self.unhealed);
        }
        let late = now.parts_late > replace(&mut self.late, now.parts_late);
        let newer = now.snapshots_received > replace(&mut self.snapshots, now.snapshots_received);
        Some(PartTaken { late, newer })
    }

    /// Measures what a part that was taken at `now_us` tells of joining and of the window.
    pub(super) fn measure(&mut self, part: PartTaken, now: &Statistics, now_us: u64, tally: &mut Tally) {
        let series = &mut tally.series;
        if part.newer {
            series.record(Series::Slots, now.slots_in_use);
        }
        if now.advances_applied > replace(&mut self.advances, now.advances_applied) {
            if let Some(asked_us) = self.asked_us.take() {
                series.record(Series::Advance, now_us - asked_us);
            }
        } else if self.asked_us.is_none() && now.slots_in_use >= WINDOW_ASK_AT as u64 {
            self.asked_us = Some(now_us);
        }
        if !replace(&mut self.joined, true) {
            series.record(Series::Joined, now_us - self.begun_us);
        }
        if now.view_complete_us.is_some() && !replace(&mut self.complete, true) {
            series.record(Series::Complete, now_us - self.begun_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;

    #[test]
    fn what_a_datagram_changed_is_measured_once() {
        let (mut marks, mut tally, mut now) = (Marks::new(100), Tally::default(), Statistics::default());
        assert_eq!(marks.note(&now, &mut tally), None);
        (
            now.parts_received,
            now.snapshots_received,
            now.epochs_begun,
            now.slots_in_use,
        ) = (1, 1, 1, 16);
        let part = marks.note(&now, &mut tally).expect("a part");
        assert_eq!(
            part,
            PartTaken {
                late: false,
                newer: true
            }
        );
        marks.measure(part, &now, 150, &mut tally);
        (now.parts_received, now.parts_late, now.digest_mismatches) = (2, 1, 2);
        let part = marks.note(&now, &mut tally).expect("a part");
        assert_eq!(
            part,
            PartTaken {
                late: true,
                newer: false
            }
        );
        (now.parts_received, now.advances_applied, now.epochs_begun) = (3, 1, 2);
        now.view_complete_us = Some(300);
        let part = marks.note(&now, &mut tally).expect("a part");
        marks.measure(part, &now, 300, &mut tally);
        assert_eq!(tally.digest_healed, 2, "a new epoch heals what differed");
        let count = |series| tally.series.of(series).map(Histogram::len);
        let each = [Series::Joined, Series::Complete, Series::Advance, Series::Slots].map(count);
        assert_eq!(each, [Some(1); 4]);
        assert_eq!(tally.series.quantile(Series::Advance, 1.0), Some(150));
    }
}
