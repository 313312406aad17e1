//! How often a client can take a snapshot: fewer once what is sent piles up on its way (SPEC OPS1).
//!
//! A queue shows as a round trip that grows over the shortest one of late. Loss does not make it grow, and of jitter
//! the shorter of two samples shows less than the bound, so neither slows anybody. Growth past the bound doubles the time
//! between snapshots, at most once a round trip; each sample without it takes a sixteenth back. Delay is the signal as
//! in TCP Vegas (Brakmo and Peterson 1995); quick to slow down and slow to speed up, as many who share one way must be
//! (Chiu and Jain 1989). A way that just became longer looks like a queue at first; but a queue shrinks once as little
//! as may be is sent, and what does not within [`PACE_STUCK_US`] is the way.
//!
//! A snapshot left out costs nothing later: the next one is made against what the client holds.
//!
//! Times are microseconds of the relay's clock.

use crate::limits::{
    PACE_FLOOR_WINDOW_US, PACE_QUEUE_US, PACE_SPACING_FIRST_US, PACE_SPACING_MAX_US, PACE_SPACING_STEP_US,
    PACE_STUCK_US,
};

/// Samples of which the shortest counts.
const RECENT: usize = 2;

/// The pace of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Shortest round trip of the window before, and of this one.
    floors_us: [u32; 2],
    window_since_us: u64,
    recent_us: [u32; RECENT],
    samples: usize,
    spacing_us: u32,
    slowed_us: u64,
    /// Since when as little as may be is sent, and how long the queue was then, in round trip time.
    queue: Option<(u64, u32)>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            floors_us: [u32::MAX; 2],
            window_since_us: 0,
            recent_us: [u32::MAX; RECENT],
            samples: 0,
            spacing_us: 0,
            slowed_us: 0,
            queue: None,
        }
    }
}

impl Pace {
    /// Takes a round trip in.
    pub fn observe(&mut self, now_us: u64, round_trip_us: u32) {
        if now_us.saturating_sub(self.window_since_us) >= PACE_FLOOR_WINDOW_US {
            self.floors_us = [self.floors_us[1], u32::MAX];
            self.window_since_us = now_us;
        }
        self.floors_us[1] = self.floors_us[1].min(round_trip_us);
        self.recent_us[self.samples % RECENT] = round_trip_us;
        self.samples = self.samples.wrapping_add(1);
        let recent_us = self.recent_us.iter().copied().fold(u32::MAX, u32::min);
        let queue_us = recent_us.saturating_sub(self.floors_us[0].min(self.floors_us[1]));
        if queue_us <= PACE_QUEUE_US {
            let back = (self.spacing_us / 16).max(PACE_SPACING_STEP_US);
            self.spacing_us = self.spacing_us.saturating_sub(back);
            self.queue = None;
            return;
        }
        if self.spacing_us >= PACE_SPACING_MAX_US {
            let (since_us, then_us) = *self.queue.get_or_insert((now_us, queue_us));
            if now_us.saturating_sub(since_us) >= PACE_STUCK_US {
                if queue_us > then_us / 5 * 4 {
                    self.floors_us = [recent_us; 2];
                }
                self.queue = None;
            }
        } else if now_us.saturating_sub(self.slowed_us) >= u64::from(round_trip_us) {
            self.spacing_us = (self.spacing_us * 2).clamp(PACE_SPACING_FIRST_US, PACE_SPACING_MAX_US);
            self.slowed_us = now_us;
        }
    }

    /// True when so long after the last snapshot the next may go.
    #[must_use]
    pub fn allows(&self, since_last_us: u64) -> bool {
        since_last_us >= u64::from(self.spacing_us)
    }

    /// Least time between two snapshots now; 0 when nothing holds them back.
    #[must_use]
    pub fn spacing_us(&self) -> u32 {
        self.spacing_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_US: u64 = 50_000;

    /// Plays samples at 20 Hz from `from_us`; gives the time after.
    fn play(pace: &mut Pace, from_us: u64, samples: impl IntoIterator<Item = u32>) -> u64 {
        samples.into_iter().fold(from_us, |now_us, sample| {
            pace.observe(now_us, sample);
            now_us + TICK_US
        })
    }

    /// SPEC OPS1: a queue that grows slows the client down; when it is gone the full rate comes back within seconds.
    #[test]
    fn ops1_a_growing_queue_lowers_the_rate_and_an_empty_one_restores_it() {
        let mut pace = Pace::default();
        let now_us = play(&mut pace, 1_000_000, [40_000; 20]);
        assert!(pace.allows(0));
        let now_us = play(
            &mut pace,
            now_us,
            (0..40).map(|step| 40_000 + PACE_QUEUE_US + 1 + step * 5_000),
        );
        assert_eq!(pace.spacing_us(), PACE_SPACING_MAX_US);
        let most_us = u64::from(PACE_SPACING_MAX_US);
        assert!(!pace.allows(most_us - 1) && pace.allows(most_us));
        play(&mut pace, now_us, [60_000; 60]);
        assert_eq!(pace.spacing_us(), 0);
    }

    /// One burst of late samples within a round trip slows once, not once a sample.
    #[test]
    fn a_burst_slows_once() {
        let mut pace = Pace::default();
        pace.observe(1_000_000, 20_000);
        for sample in 0..20 {
            pace.observe(2_000_000 + sample * 1_000, 600_000);
        }
        assert_eq!(pace.spacing_us(), PACE_SPACING_FIRST_US);
    }

    /// A queue that shrinks, if slowly, stays a queue: the floor is not forgotten for it.
    #[test]
    fn a_shrinking_queue_is_no_longer_way() {
        let mut pace = Pace::default();
        let now_us = play(&mut pace, 1_000_000, [20_000; 20]);
        play(&mut pace, now_us, (0..120).map(|step| 1_500_000 - step * 10_000));
        assert_eq!(pace.spacing_us(), PACE_SPACING_MAX_US);
    }

    /// A way that became longer for good slows the client for a few seconds, not for ever.
    #[test]
    fn a_longer_way_is_no_queue() {
        let mut pace = Pace::default();
        let now_us = play(&mut pace, 1_000_000, [20_000; 20]);
        play(&mut pace, now_us, [500_000; 180]);
        assert_eq!(pace.spacing_us(), 0);
    }

    /// THREATS 76: jitter of 200 ms slows nobody; nor does a client's word that time stood still.
    #[test]
    fn threats_76_jitter_slows_nobody() {
        let mut pace = Pace::default();
        for step in 0..10_000u64 {
            let jitter = u32::try_from(step * 7919 % 200_000).unwrap_or(0);
            pace.observe(1_000_000 + step * TICK_US, 200_000 + jitter);
            assert_eq!(pace.spacing_us(), 0, "{step}");
        }
        pace.observe(2_000_000_000, 0);
        pace.observe(2_000_000_000, u32::MAX);
        assert_eq!(pace.spacing_us(), 0);
    }
}
