//! What was observed of one life of an entity, segment by segment (SPEC ENT1, ENT4, ENT6).
//!
//! Observations stand in the order of their own times; that of arrival has no part. A late one fills a gap; one that is known
//! is known (ENT6), except that it may have come to rest since (SPEC ENT9). Segments are marked by when they begin, so a
//! teleport is known before there is a pose behind it.
//!
//! Bounded: when full, the oldest goes, but never the one on the left of what is shown (ENT6).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

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

/// The observations of one life.
#[derive(Clone, Debug, Default)]
pub struct History {
    observed: VecDeque<Observed>,
    segments: VecDeque<Segment>,
    /// Until when the newest observation's rest is known to have lasted, once its end is.
    rested_until_us: Option<u64>,
}

/// The observations around a time, of the segment that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// The segment.
    pub segment: Segment,
    /// The last observation at that time or before.
    pub left: Option<Observed>,
    /// The first one after it.
    pub right: Option<Observed>,
}

impl History {
    /// Forgets everything; what was allocated stays.
    pub fn clear(&mut self) {
        self.observed.clear();
        self.segments.clear();
        self.rested_until_us = None;
    }

    /// Notes a segment. True when it was not known.
    pub fn begin_segment(&mut self, segment: Segment) -> bool {
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
        true
    }

    /// Notes an observation; at most `most` are kept, and the one on the left of `r_us` is among them.
    pub fn insert(&mut self, observed: Observed, most: usize, r_us: Option<u64>) {
        let time_us = observed.motion.observed_us;
        let after = self
            .observed
            .iter()
            .rev()
            .take_while(|known| known.motion.observed_us > time_us)
            .count();
        let place = self.observed.len() - after;
        if let Some(known) = place.checked_sub(1).and_then(|at| self.observed.get_mut(at))
            && known.motion.observed_us == time_us
        {
            if known.segment == observed.segment {
                // An observation does not change, but what it saw may rest since.
                known.motion.at_rest |= observed.motion.at_rest;
            } else if self
                .segments
                .back()
                .is_some_and(|newest| newest.id == observed.segment)
            {
                *known = observed;
            }
            return;
        }
        if after == 0 {
            self.rested_until_us = None;
        }
        // What lies before the left one is never shown again.
        let past = |known: &Observed| r_us.is_some_and(|r| known.motion.observed_us <= r);
        if place == 0 && self.observed.front().is_some_and(past) {
            return;
        }
        if self.observed.len() < most.max(2) {
            self.observed.insert(place, observed);
            return;
        }
        let keeps_first = self.observed.front().is_some_and(past) && !self.observed.get(1).is_some_and(past);
        let out = usize::from(keeps_first);
        if place <= out {
            return;
        }
        self.observed.remove(out);
        self.observed.insert(place - 1, observed);
    }

    /// The newest observation is at rest no longer; it was still so at `until_us`.
    pub fn wake(&mut self, until_us: u64) {
        self.rested_until_us.get_or_insert(until_us);
    }

    /// Until when the newest observation's rest lasted, where its end is known.
    #[must_use]
    pub fn rested_until_us(&self) -> Option<u64> {
        self.rested_until_us
    }

    /// Forgets what is not needed at `r_us` or later.
    pub fn forget_before(&mut self, r_us: u64) {
        while self
            .observed
            .get(1)
            .is_some_and(|second| second.motion.observed_us <= r_us)
        {
            self.observed.pop_front();
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
            right: None,
        };
        for observed in self
            .observed
            .iter()
            .filter(|observed| observed.segment == segment.id)
        {
            if observed.motion.observed_us <= r_us {
                around.left = Some(*observed);
            } else {
                around.right = Some(*observed);
                break;
            }
        }
        Some(around)
    }

    /// True when no observation is known of the newest segment: its state is to be asked for (SPEC ENT2).
    #[must_use]
    pub fn lacks_state(&self) -> bool {
        let newest = self.segments.back();
        newest.is_some_and(|segment| {
            !self
                .observed
                .iter()
                .any(|observed| observed.segment == segment.id)
        })
    }

    /// When the first observation was made.
    #[must_use]
    pub fn first_us(&self) -> Option<u64> {
        self.observed.front().map(|first| first.motion.observed_us)
    }

    /// Observations kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.observed.len()
    }

    /// True when nothing was observed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observed.is_empty()
    }
}
