//! The newest few snapshots: which of their parts came, when, and how far apart parts come.
//!
//! The first report that lists a snapshot fixes its parts (SPEC TAB8), so one of which a part is missing waits a
//! moment. How long is learned: jitter spreads the parts of one snapshot, and what is reported before they are here is
//! sent again. The longest spread of late counts, and fades.
//!
//! Times are microseconds of the caller's clock, unless named server.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::replica::NewestSnapshot;
use crate::limits::HOLD_BACK_MAX_US;
use crate::sequence::Tick;
use crate::wire::snapshot::SnapshotHeader;

/// Snapshots that may wait for parts at a time: the longest wait at 60 a second, and some.
const RECENT: usize = 8;
/// A spread shorter than the longest takes this part of the difference off it.
const FADE: u64 = 64;

/// What a part is among the snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    /// It is of a snapshot newer than any before.
    pub(super) newer: bool,
    /// It is of the newest snapshot.
    pub(super) current: bool,
    /// It made the newest snapshot whole.
    pub(super) whole: bool,
}

/// The newest few snapshots, newest first.
#[derive(Debug)]
pub(super) struct Arrivals {
    recent: Vec<NewestSnapshot>,
    spread_us: u64,
}

impl Arrivals {
    pub(super) fn new() -> Arrivals {
        Arrivals {
            recent: Vec::with_capacity(RECENT + 1),
            spread_us: 0,
        }
    }

    /// The newest snapshot of which a part was taken.
    pub(super) fn newest(&self) -> Option<&NewestSnapshot> {
        self.recent.first()
    }

    /// Notes a part that was taken.
    pub(super) fn note(&mut self, header: &SnapshotHeader, now_us: u64) -> Noted {
        let after = |snapshot: &NewestSnapshot| !header.id.is_after(snapshot.id);
        let place = self.recent.iter().take_while(|snapshot| after(snapshot)).count();
        // It stands right before `place` when it is known.
        let known = place
            .checked_sub(1)
            .filter(|before| self.recent.get(*before).is_some_and(|at| at.id == header.id));
        let index = known.unwrap_or(place);
        if known.is_none() {
            self.recent.insert(
                place,
                NewestSnapshot {
                    id: header.id,
                    server_us: header.server_us,
                    arrived_us: now_us,
                    parts: 0,
                    of: None,
                    exhaustive: true,
                    view_complete: header.view_complete,
                    asserted: false,
                },
            );
        }
        let mut noted = Noted {
            newer: index == 0 && known.is_none(),
            current: index == 0,
            whole: false,
        };
        if let Some(snapshot) = self.recent.get_mut(index) {
            let before = snapshot.is_whole();
            // The digest rides in one part; every part says whether something was left out.
            snapshot.exhaustive &= header.exhaustive;
            snapshot.asserted |= header.base_digest.is_some();
            snapshot.asserted &= snapshot.exhaustive;
            snapshot.parts |= 1u32.checked_shl(u32::from(header.part)).unwrap_or(0);
            if header.last {
                snapshot.of = Some(header.part.saturating_add(1));
            }
            noted.whole = noted.current && snapshot.is_whole() && !before;
            if known.is_some() {
                let spread_us = now_us.saturating_sub(snapshot.arrived_us).min(HOLD_BACK_MAX_US);
                let fade_us = self.spread_us.saturating_sub(spread_us) / FADE;
                self.spread_us = spread_us.max(self.spread_us - fade_us);
            }
        }
        self.recent.truncate(RECENT);
        noted
    }

    /// How long a snapshot waits for its parts, at least `least_us`.
    fn hold_back_us(&self, least_us: u64) -> u64 {
        (self.spread_us + self.spread_us / 8).clamp(least_us, HOLD_BACK_MAX_US.max(least_us))
    }

    /// Until when a snapshot waits for more of its parts; `None` when it is whole or old.
    pub(super) fn waits_until(&self, id: Tick, least_us: u64) -> Option<u64> {
        let snapshot = self.recent.iter().find(|snapshot| snapshot.id == id)?;
        let until_us = snapshot.arrived_us.saturating_add(self.hold_back_us(least_us));
        (!snapshot.is_whole()).then_some(until_us)
    }

    /// When the next wait after `now_us` ends.
    pub(super) fn next_end(&self, now_us: u64, least_us: u64) -> Option<u64> {
        let ends = self
            .recent
            .iter()
            .filter_map(|snapshot| self.waits_until(snapshot.id, least_us));
        ends.filter(|until| *until > now_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: u32, part: u8, last: bool) -> SnapshotHeader {
        SnapshotHeader {
            stream_epoch: 1,
            session_epoch: 1,
            generation: 1,
            id: Tick(id),
            part,
            last,
            base: None,
            server_us: u64::from(id) * 1000,
            candidate: true,
            view_complete: false,
            stale: false,
            exhaustive: true,
            commit: None,
            base_digest: None,
            count: 0,
        }
    }

    /// SPEC TAB8: the wait grows with the spread of parts that jitter makes, up to its bound, and shrinks again.
    #[test]
    fn tab8_the_wait_follows_the_spread() {
        let mut arrivals = Arrivals::new();
        arrivals.note(&part(1, 0, false), 1_000);
        assert_eq!(arrivals.waits_until(Tick(1), 8_000), Some(9_000));
        assert!(arrivals.note(&part(1, 1, true), 41_000).whole);
        assert_eq!(arrivals.waits_until(Tick(1), 8_000), None);
        arrivals.note(&part(2, 0, false), 100_000);
        assert_eq!(arrivals.waits_until(Tick(2), 8_000), Some(145_000));
        arrivals.note(&part(2, 1, true), 900_000);
        arrivals.note(&part(3, 0, false), 1_000_000);
        assert_eq!(
            arrivals.waits_until(Tick(3), 8_000),
            Some(1_000_000 + HOLD_BACK_MAX_US)
        );
        for id in 4..1_000 {
            arrivals.note(&part(id, 0, false), 2_000_000);
            arrivals.note(&part(id, 1, true), 2_001_000);
        }
        arrivals.note(&part(1_000, 0, false), 3_000_000);
        assert_eq!(arrivals.waits_until(Tick(1_000), 8_000), Some(3_008_000));
    }

    /// SPEC TAB6, TAB8: several snapshots wait at a time, each for itself; older ones do not become the newest, across
    /// the wrap too.
    #[test]
    fn tab8_snapshots_wait_each_for_itself() {
        let mut arrivals = Arrivals::new();
        let base = u32::MAX - 1;
        for (step, from) in [0u32, 2, 1, 3].into_iter().enumerate() {
            let noted = arrivals.note(&part(base.wrapping_add(from), 0, false), 1_000 + step as u64);
            assert_eq!((noted.newer, noted.whole), (from != 1, false));
        }
        let newest = Tick(base.wrapping_add(3));
        assert_eq!(arrivals.newest().map(|snapshot| snapshot.id), Some(newest));
        assert_eq!(arrivals.next_end(0, 8_000), Some(9_000));
        assert_eq!(arrivals.next_end(9_000, 8_000), Some(9_001));
        let late = arrivals.note(&part(base, 1, true), 1_010);
        assert_eq!((late.current, late.whole), (false, false));
        assert_eq!(arrivals.waits_until(Tick(base), 8_000), None);
        for id in 10..30 {
            arrivals.note(&part(id, 0, false), 2_000);
        }
        assert_eq!(arrivals.recent.len(), RECENT);
        arrivals.note(&part(base, 0, false), 2_001);
        assert_eq!(arrivals.newest().map(|snapshot| snapshot.id), Some(Tick(29)));
        assert_eq!(arrivals.recent.len(), RECENT);
    }
}
