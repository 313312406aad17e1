//! Which baseline a session's next snapshot stands on, which snapshots may become one, and when all of them are void.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Session;
use crate::limits::{
    CANDIDATE_SPACING_US, COMMIT_KEEPS, COMMIT_SPACING_US, LEASE_US, RESTART_SPACING_US, WINDOW_SLOTS,
};
use crate::relay::arena::Arena;
use crate::relay::counters::Counters;
use crate::relay::spare::Spare;
use crate::relay::table::Table;
use crate::state::Frame;
use crate::window::send::RestartReason;
use crate::wire::snapshot::Held;

/// Tables whose progress is compared while a client joins.
const PROGRESS_TABLES: usize = 8;
/// Time beyond two round trips in which a report of what arrived has come, microseconds: a client speaks ten times a
/// second, and holds a report back for parts at most that long.
const REPORT_WITHIN_US: u64 = 300_000;
impl Session {
    /// The base of the next snapshot: the newest held whose frame is in the arena and within its lease; while
    /// joining, the newest complete one, else the one with most members that are to be seen. `Err` when something is held but
    /// nothing of it may be named.
    ///
    /// # Errors
    /// The lease of everything held is over (SPEC WIN9).
    pub fn choose_base(&self, arena: &Arena) -> Result<Option<Held>, RestartReason> {
        let Some(frame) = arena.newest() else {
            return Ok(None);
        };
        let usable = self.window.held().iter().filter(|held| {
            let leased = frame.server_us.saturating_sub(held.server_us) <= LEASE_US;
            leased && arena.frame(held.held.id).is_some() && held.table.is_readable(arena)
        });
        let age = |held: Held| core::cmp::Reverse(held.id.age_at(frame.tick));
        let best = if self.whole {
            usable.max_by_key(|held| age(held.held))
        } else {
            let progress = |table: &Table| match &self.interest {
                _ if table.is_complete() => usize::MAX,
                Some(interest) => table.members_in(interest, arena),
                None => table.members(arena),
            };
            // To count members costs a walk over the world: of the newest few, more than an honest client lets wait.
            let mut ages = [u32::MAX; WINDOW_SLOTS];
            for (place, held) in ages.iter_mut().zip(usable.clone()) {
                *place = held.held.id.age_at(frame.tick).unwrap_or(u32::MAX);
            }
            ages.sort_unstable();
            let oldest = ages[PROGRESS_TABLES - 1];
            let newest =
                usable.filter(|held| held.held.id.age_at(frame.tick).is_some_and(|age| age <= oldest));
            newest.max_by_key(|held| (progress(&held.table), age(held.held)))
        };
        match best {
            Some(best) => Ok(Some(best.held)),
            None if self.window.held().is_empty() => Ok(None),
            None => Err(RestartReason::LeaseOver),
        }
    }

    /// Least time between two candidates, microseconds: so that half the places are enough for those that are under way.
    #[must_use]
    pub fn candidate_spacing_us(&self) -> u64 {
        let round_trip_us = u64::from(self.round_trip_us.unwrap_or(0));
        CANDIDATE_SPACING_US.max(round_trip_us / (WINDOW_SLOTS as u64 / 2))
    }

    /// True when a candidate of `frame` may take a place of the window: one is free, or the oldest one unreported will
    /// not be reported any more. To drop it sooner would leave a client with a long way without any baseline (SPEC WIN11).
    #[must_use]
    pub fn has_place(&self, frame: &Frame) -> bool {
        if self.window.held().len() >= WINDOW_SLOTS {
            return false;
        }
        let patience_us = self.round_trip_us.map_or(LEASE_US, |round_trip_us| {
            2 * u64::from(round_trip_us) + REPORT_WITHIN_US
        });
        let oldest = self.window.candidates().next();
        self.window.in_use() < WINDOW_SLOTS
            || oldest.is_none_or(|oldest| {
                frame.server_us.saturating_sub(oldest.server_us) > patience_us.min(LEASE_US)
            })
    }

    /// Starts the next session epoch when the client refused or nothing it holds may be named, at most once
    /// per [`RESTART_SPACING_US`]. True when it did.
    pub fn restart_if_wanted(
        &mut self,
        now_us: u64,
        lease: Option<RestartReason>,
        spare: &mut Spare,
        counters: &mut Counters,
    ) -> bool {
        let Some(reason) = lease.or(self.restart_wanted) else {
            return false;
        };
        let changed = reason == RestartReason::StreamChanged;
        let spaced = self
            .restart_us
            .is_none_or(|last| now_us.saturating_sub(last) >= RESTART_SPACING_US);
        if !spaced && !changed {
            return false;
        }
        self.window.restart(&mut spare.candidates, &mut spare.tables);
        if !changed {
            self.restart_us = Some(now_us);
        }
        if self.complete_us.is_some() {
            counters.fall_back(reason);
        }
        self.restart_wanted = None;
        self.asked = false;
        self.whole = false;
        self.heavy_us = 0;
        true
    }

    /// True while a client refuses what it holds and its next session epoch has to wait for the spacing:
    /// anything sent on a base would be refused, and full state at its word would be a lever (FAULTS 38).
    #[must_use]
    pub fn waits_for_restart(&self, now_us: u64) -> bool {
        let spaced = self
            .restart_us
            .is_none_or(|last| now_us.saturating_sub(last) >= RESTART_SPACING_US);
        self.restart_wanted.is_some() && !spaced
    }

    /// Opens a commit of the newest held snapshot when the client asks and none is open (SPEC WIN3), at most
    /// once a round trip (WINDOW-MODEL A22).
    pub fn advance_if_asked(
        &mut self,
        now_us: u64,
        base: Option<Held>,
        arena: &Arena,
        spare: &mut Spare,
        counters: &mut Counters,
    ) -> Option<Held> {
        let (true, Some(held)) = (self.asked && self.window.open_commit().is_none(), base) else {
            return base;
        };
        let spacing = COMMIT_SPACING_US.max(u64::from(self.round_trip_us.unwrap_or(0)));
        let spaced = |last: u64| now_us.saturating_sub(last) >= spacing;
        if !self.commit_us.is_none_or(spaced) {
            return base;
        }
        let Some((anchor, digest)) = self.anchor(held, arena) else {
            // Of nothing that is held the records are all there any more, and without an anchor a full window stays full:
            // the way out is full state (SPEC WIN11).
            if self.window.held().len() >= WINDOW_SLOTS {
                self.restart_wanted.get_or_insert(RestartReason::LeaseOver);
            }
            return base;
        };
        const { assert!(COMMIT_KEEPS == 1) }
        if !self.window.open(
            &[anchor],
            digest,
            now_us,
            &mut spare.candidates,
            &mut spare.tables,
        ) {
            return base;
        }
        self.commit_us = Some(now_us);
        self.asked = false;
        counters.advances_committed += 1;
        Some(anchor)
    }

    /// What a commit can keep: the base, else the newest held of whose records none has left the arena, with its digest.
    fn anchor(&self, base: Held, arena: &Arena) -> Option<(Held, [u32; 2])> {
        let newest = arena.newest()?.tick;
        let digest = |held: Held| Some((held, self.window.find(held.id)?.table.digest(arena)?.0));
        digest(base).or_else(|| {
            let mut held: Vec<Held> = self.window.held().iter().map(|held| held.held).collect();
            held.sort_by_key(|held| held.id.age_at(newest));
            held.into_iter().find_map(digest)
        })
    }
}
