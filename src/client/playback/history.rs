//! What was observed of one life of an entity, segment by segment (SPEC ENT1, ENT4, ENT6).
//!
//! Observations stand in the order of their own times; that of arrival has no part. A late one fills a gap; one that is known
//! is known (ENT6), except that it may have come to rest since (SPEC ENT9). Segments are marked by when they begin, so a
//! teleport is known before there is a pose behind it.
//!
//! A rest has an end of its own (SPEC ENT9): what follows it, a waking, another segment or the entity's end, says that it was over
//! by then, and the snapshot before is the last that vouches for it. That is kept with the observation for good, so that what
//! comes after the waking never makes the rest longer again. A snapshot vouches for what it does not name where it is whole; of
//! one that is torn only those records vouch that are here, each for itself.
//!
//! Bounded: when full, the oldest goes, but never the one on the left of what is shown (ENT6).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use super::timeline::Timeline;
use crate::state::record::Motion;

/// Segments of one life that are known at a time: the one shown and those that come.
const SEGMENTS: usize = 8;

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its segment.
    pub segment: u32,
    /// The motion.
    pub motion: Motion,
}

/// A continuity segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its id.
    pub id: u32,
    /// When it began, server microseconds.
    pub start_us: u64,
}

/// An observation, and how long its rest is vouched for.
#[derive(Clone, Copy, Debug)]
struct Kept {
    observed: Observed,
    /// Server microseconds; [`UNENDED`] while nothing says that the rest is over. Of meaning where it was at rest.
    rested_until_us: u64,
    /// The time of the newest snapshot whose own record said that it rests; 0 for none.
    vouched_us: u64,
}

/// Nothing says that a rest is over.
const UNENDED: u64 = u64::MAX;

impl Kept {
    fn time_us(&self) -> u64 {
        self.observed.motion.observed_us
    }

    /// Its rest was over by `by_us`: it counts until the last snapshot before that vouches for it, or as long as it was seen.
    fn end_rest(&mut self, by_us: u64, timeline: &Timeline) {
        let own_us = Some(self.vouched_us).filter(|vouched_us| *vouched_us < by_us);
        let until_us = timeline.vouched_before(by_us).max(own_us).unwrap_or(0);
        self.rested_until_us = self.rested_until_us.min(until_us.max(self.time_us()));
    }
}

/// The observations of one life.
#[derive(Clone, Debug, Default)]
pub struct History {
    kept: VecDeque<Kept>,
    segments: VecDeque<Segment>,
}

/// The observations around a time, of the segment that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// The segment.
    pub segment: Segment,
    /// The last observation at that time or before.
    pub left: Option<Observed>,
    /// Until when the rest of the left one is vouched for; `None` where nothing says that it is over.
    pub rested_until_us: Option<u64>,
    /// Until when a record of its own vouches for it.
    pub vouched_us: u64,
    /// The first one after it.
    pub right: Option<Observed>,
}

impl History {
    /// Forgets everything; what was allocated stays.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.segments.clear();
    }

    /// Notes a segment; `timeline` vouches for the rest that it ends. True when it was not known.
    pub fn begin_segment(&mut self, segment: Segment, timeline: &Timeline) -> bool {
        if self.segments.iter().any(|known| known.id == segment.id) {
            return false;
        }
        let place = self
            .segments
            .iter()
            .take_while(|known| known.start_us <= segment.start_us)
            .count();
        if self.segments.len() >= SEGMENTS {
            if place == 0 {
                return false;
            }
            self.segments.pop_front();
            self.segments.insert(place - 1, segment);
        } else {
            self.segments.insert(place, segment);
        }
        self.wake(segment.start_us, timeline);
        true
    }

    /// Notes an observation; at most `most` are kept, and the one on the left of `r_us` is among them. `timeline` vouches for
    /// the rest that it ends.
    pub fn insert(&mut self, observed: Observed, most: usize, r_us: Option<u64>, timeline: &Timeline) {
        let time_us = observed.motion.observed_us;
        let after = self
            .kept
            .iter()
            .rev()
            .take_while(|known| known.time_us() > time_us)
            .count();
        let place = self.kept.len() - after;
        let before = place.checked_sub(1);
        if let Some(known) = before.and_then(|at| self.kept.get_mut(at))
            && known.time_us() == time_us
        {
            if known.observed.segment == observed.segment {
                // An observation does not change, but what it saw may rest since.
                known.observed.motion.at_rest |= observed.motion.at_rest;
            } else if self
                .segments
                .back()
                .is_some_and(|newest| newest.id == observed.segment)
            {
                known.observed = observed;
            }
            self.end_rest(before, timeline);
            return;
        }
        // What lies before the left one is never shown again.
        let past = |known: &Kept| r_us.is_some_and(|r| known.time_us() <= r);
        if place == 0 && self.kept.front().is_some_and(past) {
            return;
        }
        let kept = Kept {
            observed,
            rested_until_us: UNENDED,
            vouched_us: 0,
        };
        let mut place = place;
        if self.kept.len() >= most.max(2) {
            let keeps_first = self.kept.front().is_some_and(past) && !self.kept.get(1).is_some_and(past);
            let out = usize::from(keeps_first);
            if place <= out {
                return;
            }
            self.kept.remove(out);
            place -= 1;
        }
        self.kept.insert(place, kept);
        self.end_rest(place.checked_sub(1), timeline);
        self.end_rest(Some(place), timeline);
    }

    /// The rest of the observation at `place` is over where another one follows.
    fn end_rest(&mut self, place: Option<usize>, timeline: &Timeline) {
        let Some(place) = place else { return };
        let Some(next_us) = self.kept.get(place + 1).map(Kept::time_us) else {
            return;
        };
        if let Some(kept) = self
            .kept
            .get_mut(place)
            .filter(|kept| kept.observed.motion.at_rest)
        {
            kept.end_rest(next_us, timeline);
        }
    }

    /// What was observed last before `by_us` is at rest no longer then: it woke, another segment began, or it was gone.
    pub fn wake(&mut self, by_us: u64, timeline: &Timeline) {
        let before = |kept: &&mut Kept| kept.time_us() < by_us;
        if let Some(kept) = self.kept.iter_mut().rev().find(before) {
            kept.end_rest(by_us, timeline);
        }
    }

    /// The snapshot of `as_of_us` has a record that says: what was observed at `observed_us` rests.
    pub fn vouch(&mut self, observed_us: u64, as_of_us: u64) {
        let seen = |kept: &&mut Kept| kept.time_us() == observed_us;
        if let Some(kept) = self.kept.iter_mut().rev().find(seen) {
            kept.vouched_us = kept.vouched_us.max(as_of_us);
        }
    }

    /// Forgets what is not needed at `r_us` or later.
    pub fn forget_before(&mut self, r_us: u64) {
        while self.kept.get(1).is_some_and(|second| second.time_us() <= r_us) {
            self.kept.pop_front();
        }
        while self.segments.get(1).is_some_and(|second| second.start_us <= r_us) {
            self.segments.pop_front();
        }
    }

    /// The segment of `r_us`: the last that began by then, or the first there is.
    #[must_use]
    pub fn segment_at(&self, r_us: u64) -> Option<Segment> {
        let begun = self
            .segments
            .iter()
            .take_while(|segment| segment.start_us <= r_us);
        begun.last().or_else(|| self.segments.front()).copied()
    }

    /// The observations on either side of `r_us` in its segment; `None` where no segment is known.
    #[must_use]
    pub fn around(&self, r_us: u64) -> Option<Around> {
        let segment = self.segment_at(r_us)?;
        let mut around = Around {
            segment,
            left: None,
            rested_until_us: None,
            vouched_us: 0,
            right: None,
        };
        let of_segment = |kept: &&Kept| kept.observed.segment == segment.id;
        for kept in self.kept.iter().filter(of_segment) {
            if kept.time_us() <= r_us {
                around.left = Some(kept.observed);
                around.rested_until_us = Some(kept.rested_until_us).filter(|until| *until != UNENDED);
                around.vouched_us = kept.vouched_us;
            } else {
                around.right = Some(kept.observed);
                break;
            }
        }
        Some(around)
    }

    /// True when no observation is known of the newest segment: its state is to be asked for (SPEC ENT2).
    #[must_use]
    pub fn lacks_state(&self) -> bool {
        let newest = self.segments.back();
        newest.is_some_and(|segment| !self.kept.iter().any(|kept| kept.observed.segment == segment.id))
    }

    /// When the first observation was made.
    #[must_use]
    pub fn first_us(&self) -> Option<u64> {
        self.kept.front().map(Kept::time_us)
    }

    /// Observations kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// True when nothing was observed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}
