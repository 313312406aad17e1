//! The server times of the snapshots that decoded: what the playback clock runs on (SPEC PLY1..PLY7).
//!
//! Times are kept in rising order, each once; late ones fill gaps (SPEC PLY2). The list is bounded: when it is full the
//! oldest goes, but never the one that playback needs on its left (SPEC ENT6).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// What a time was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Newer than all: an arrival (SPEC PLY1).
    Newest,
    /// Older than the newest: history alone (SPEC PLY2).
    Filled,
    /// Known, or too old to matter.
    Known,
}

/// A snapshot that is here, or a part of it.
#[derive(Clone, Copy, Debug)]
struct Heard {
    time_us: u64,
    /// All of its parts are here: what it does not name is as before (SPEC ENT9).
    whole: bool,
}

/// Snapshot times, microseconds.
#[derive(Clone, Debug)]
pub struct Timeline {
    times: Vec<Heard>,
    most: usize,
    /// The newest whole one of those that are forgotten.
    whole_before: Option<u64>,
}

impl Timeline {
    /// An empty timeline that keeps `most` times, at least four.
    #[must_use]
    pub fn new(most: usize) -> Timeline {
        let most = most.max(4);
        Timeline {
            times: Vec::with_capacity(most),
            most,
            whole_before: None,
        }
    }

    /// Notes the time of a snapshot, and whether all of it is here by now; playback is at `r_us`.
    pub fn insert(&mut self, time_us: u64, whole: bool, r_us: Option<u64>) -> Placed {
        let place = self.times.partition_point(|known| known.time_us < time_us);
        if let Some(known) = self.times.get_mut(place).filter(|known| known.time_us == time_us) {
            known.whole |= whole;
            return Placed::Known;
        }
        let heard = Heard { time_us, whole };
        let newest = place == self.times.len();
        if self.times.len() >= self.most {
            if place == 0 {
                return Placed::Known;
            }
            // The first is the left one of playback unless the second is it, or there is no playback.
            let second = self.times.get(1).map_or(u64::MAX, |known| known.time_us);
            let needed = r_us.is_some_and(|r| self.earliest().is_some_and(|first| first <= r) && r < second);
            let out = usize::from(needed);
            if out == 1 && place == 1 {
                return Placed::Known;
            }
            let gone = self.times.remove(out);
            self.note_gone(gone);
            self.times.insert(place - 1, heard);
        } else {
            self.times.insert(place, heard);
        }
        if newest { Placed::Newest } else { Placed::Filled }
    }

    /// Forgets what lies before the left one of `r_us`; two times stay, for an anchor.
    pub fn forget_before(&mut self, r_us: u64) {
        let left = self
            .times
            .partition_point(|known| known.time_us <= r_us)
            .saturating_sub(1);
        let out = left.min(self.times.len().saturating_sub(2));
        for place in 0..out {
            if let Some(gone) = self.times.get(place).copied() {
                self.note_gone(gone);
            }
        }
        self.times.drain(..out);
    }

    fn note_gone(&mut self, gone: Heard) {
        if gone.whole {
            self.whole_before = self.whole_before.max(Some(gone.time_us));
        }
    }

    /// The newest time of which every part is here: what no record of it names is as before (SPEC ENT9).
    #[must_use]
    pub fn latest_whole(&self) -> Option<u64> {
        let whole = self.times.iter().rev().find(|known| known.whole);
        whole.map(|known| known.time_us).max(self.whole_before)
    }

    /// The newest time.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        self.times.last().map(|known| known.time_us)
    }

    /// The newest but one.
    #[must_use]
    pub fn second_latest(&self) -> Option<u64> {
        self.times.iter().rev().nth(1).map(|known| known.time_us)
    }

    /// The oldest.
    #[must_use]
    pub fn earliest(&self) -> Option<u64> {
        self.times.first().map(|known| known.time_us)
    }

    /// True when a time is at `r_us` or before: the left one of playback.
    #[must_use]
    pub fn has_left(&self, r_us: u64) -> bool {
        self.earliest().is_some_and(|earliest| earliest <= r_us)
    }

    /// Up to when a rest is vouched for that had ended by `time_us`: the time of the last whole snapshot before, as a waking
    /// is in every snapshot from then on (SPEC ENT9), though perhaps in a part that is lost. `None` where none before is whole.
    #[must_use]
    pub fn vouched_before(&self, time_us: u64) -> Option<u64> {
        let place = self.times.partition_point(|known| known.time_us < time_us);
        let before = self.times.get(..place)?;
        let whole = before.iter().rev().find(|known| known.whole);
        let gone_us = self.whole_before.filter(|gone_us| *gone_us < time_us);
        whole.map(|known| known.time_us).max(gone_us)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;

    /// SPEC PLY2, ENT6: late times fill, equal ones are one.
    #[test]
    fn ply2_late_times_fill_and_equal_ones_are_one() {
        let mut timeline = Timeline::new(8);
        assert_eq!(timeline.insert(100, true, None), Placed::Newest);
        assert_eq!(timeline.insert(300, true, None), Placed::Newest);
        assert_eq!(timeline.insert(200, true, None), Placed::Filled);
        assert_eq!(timeline.insert(200, true, None), Placed::Known);
        let known = (timeline.earliest(), timeline.second_latest(), timeline.latest());
        assert_eq!(known, (Some(100), Some(200), Some(300)));
    }

    /// SPEC ENT9: a snapshot of which a part is missing vouches for no rest.
    #[test]
    fn ent9_a_part_of_a_snapshot_vouches_for_no_rest() {
        let mut timeline = Timeline::new(8);
        for (time_us, whole) in [(100, true), (200, false), (300, false), (300, true), (400, false)] {
            timeline.insert(time_us, whole, None);
        }
        let vouched = [100, 101, 300, 301, 500].map(|time_us| timeline.vouched_before(time_us));
        assert_eq!(vouched, [None, Some(100), Some(100), Some(300), Some(300)]);
        let mut torn = Timeline::new(8);
        torn.insert(100, false, None);
        torn.insert(200, false, None);
        assert_eq!((torn.vouched_before(300), torn.latest_whole()), (None, None));
        // What is forgotten has vouched all the same.
        timeline.forget_before(450);
        let vouched = [300, 301, 500].map(|time_us| timeline.vouched_before(time_us));
        assert_eq!(vouched, [Some(100), Some(300), Some(300)]);
        assert_eq!(
            (timeline.latest(), timeline.latest_whole()),
            (Some(400), Some(300))
        );
        timeline.insert(500, false, None);
        timeline.forget_before(510);
        let known = (timeline.earliest(), timeline.vouched_before(600));
        assert_eq!(known, (Some(400), Some(300)));
    }

    /// SPEC ENT6: a flood keeps the left one of playback and the newest.
    #[test]
    fn ent6_a_flood_keeps_the_left_one_and_the_newest() {
        let mut timeline = Timeline::new(8);
        for time in 1..1_000 {
            timeline.insert(time * 10, true, Some(35));
        }
        assert!(timeline.has_left(35));
        assert_eq!((timeline.earliest(), timeline.latest()), (Some(30), Some(9_990)));
        timeline.forget_before(9_985);
        assert_eq!(
            (timeline.earliest(), timeline.latest()),
            (Some(9_980), Some(9_990))
        );
        timeline.forget_before(20_000);
        assert_eq!(timeline.second_latest(), Some(9_980));
    }
}
