//! What time it is at the server, as far as snapshots could tell by now.
//!
//! Each arrival says: the server's time was at least this when the local clock showed that. The greatest such offset
//! (server time - arrival) of the last seconds is the way at its fastest, and the estimate is the local clock plus that
//! offset. So a spike, a queue or a lost packet, which only make arrivals later, do not move it; a clock that drifts does, as
//! the window forgets. This is the minimum filter of NTP (RFC 5905, section 10) and of TCP BBR, on the one way there is.
//!
//! The estimate leaves out the way itself on purpose: it is the time of the newest snapshot that can be here. No round trip
//! is halved, which would be wrong on every uneven way, and the delay D then has one meaning on every way: how far playback
//! stays behind what arrives. A way of a second is no reason to re-anchor for ever (SPEC PLY6).
//!
//! Jumps: an offset above all known is true at once, whatever caused it (a local clock that stood still while the machine
//! slept, or was set back). An offset far below all known is a queue, unless nothing else comes any more: after eight arrivals
//! over a quarter second the clock was set forward, or the way is longer now. Small differences are closed exponentially, so
//! that the picture's speed does not show them.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::settings::PlaybackSettings;

/// Parts of the window.
const BUCKETS: usize = 6;
/// Arrivals, and time, after which a lower offset is believed.
const LOW_ARRIVALS: u32 = 8;
const LOW_US: u64 = 250_000;

/// Arrivals far below what was known.
#[derive(Clone, Copy, Debug)]
struct Low {
    since_us: u64,
    arrivals: u32,
    best: i64,
}

/// The estimate of the server's time.
#[derive(Clone, Debug, Default)]
pub struct ServerEstimate {
    /// The greatest offset of each part of the window; the part of `current` is `current % BUCKETS`.
    buckets: [Option<i64>; BUCKETS],
    current: u64,
    /// The greatest offset of the window; the last one known where nothing arrived in it.
    greatest: Option<i64>,
    low: Option<Low>,
    /// The offset in use, microseconds, and when it was moved last.
    offset: Option<f64>,
    moved_us: u64,
}

/// `a - b` in microseconds.
pub(super) fn difference_us(a: u64, b: u64) -> i64 {
    let difference = i128::from(a) - i128::from(b);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

impl ServerEstimate {
    /// A snapshot of server time `server_us` is here.
    pub fn arrive(&mut self, settings: &PlaybackSettings, server_us: u64, now_us: u64) {
        let offset = difference_us(server_us, now_us);
        self.turn(settings, now_us);
        let step = i64::try_from(settings.estimate_step_us).unwrap_or(i64::MAX);
        let known = self.greatest.unwrap_or(offset);
        if known.saturating_sub(offset) > step {
            let low = self.low.get_or_insert(Low {
                since_us: now_us,
                arrivals: 0,
                best: offset,
            });
            low.arrivals = low.arrivals.saturating_add(1);
            low.best = low.best.max(offset);
            if low.arrivals >= LOW_ARRIVALS && now_us.saturating_sub(low.since_us) >= LOW_US {
                let best = low.best;
                self.low = None;
                self.buckets = [None; BUCKETS];
                self.note(best);
            }
            return;
        }
        self.low = None;
        self.note(offset);
    }

    /// Notes an offset in the present part of the window.
    fn note(&mut self, offset: i64) {
        let place = usize::try_from(self.current % BUCKETS as u64).unwrap_or(0);
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket = Some(bucket.map_or(offset, |known| known.max(offset)));
        }
        self.greatest = self.buckets.iter().flatten().max().copied();
    }

    /// Forgets the parts of the window that are over.
    fn turn(&mut self, settings: &PlaybackSettings, now_us: u64) {
        let part_us = (settings.estimate_window_us / BUCKETS as u64).max(1);
        let current = now_us / part_us;
        let passed = match current.checked_sub(self.current) {
            Some(passed) => usize::try_from(passed).unwrap_or(BUCKETS).min(BUCKETS),
            // The local clock was set back: what it said before is void.
            None => BUCKETS,
        };
        self.current = current;
        for back in 0..passed {
            let place = (current % BUCKETS as u64 + BUCKETS as u64 - back as u64) % BUCKETS as u64;
            if let Some(bucket) = usize::try_from(place)
                .ok()
                .and_then(|at| self.buckets.get_mut(at))
            {
                *bucket = None;
            }
        }
    }

    /// The server's time at `now_us`, microseconds; `None` before any arrival. Moves the estimate on.
    #[allow(clippy::cast_precision_loss)]
    pub fn advance(&mut self, settings: &PlaybackSettings, now_us: u64) -> Option<u64> {
        let greatest = self.greatest? as f64;
        let step = settings.estimate_step_us as f64;
        let passed_us = now_us.saturating_sub(self.moved_us) as f64;
        let offset = match self.offset {
            Some(offset) if (greatest - offset).abs() <= step => {
                let settle_us = settings.estimate_settle_us.max(1) as f64;
                offset + (greatest - offset) * (passed_us / settle_us).min(1.0)
            }
            _ => greatest,
        };
        self.offset = Some(offset);
        self.moved_us = now_us;
        self.at(now_us)
    }

    /// The server's time at `now_us` by what is known, microseconds; nothing moves.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn at(&self, now_us: u64) -> Option<u64> {
        let offset = self.offset?.round() as i64;
        Some(now_us.saturating_add_signed(offset))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;

    const T: u64 = 50_000;

    /// Snapshots every 50 ms of server time, each `way` late, from local time `from_us` on; the estimate's error against
    /// the fastest way at the end.
    fn run(
        estimate: &mut ServerEstimate,
        from_us: u64,
        count: u64,
        server: impl Fn(u64) -> u64,
        way: impl Fn(u64) -> u64,
    ) -> u64 {
        let settings = PlaybackSettings::default();
        let sent = |index| from_us + index * T;
        let mut arrivals: Vec<_> = (0..count)
            .map(|index| (sent(index) + way(index), sent(index)))
            .collect();
        arrivals.sort_unstable();
        for (now_us, sent_us) in &arrivals {
            estimate.arrive(&settings, server(*sent_us), *now_us);
            estimate.advance(&settings, *now_us);
        }
        arrivals.last().unwrap().0
    }

    /// A spike of a second moves nothing; neither does one lost in eight.
    #[test]
    fn spikes_do_not_move_the_estimate() {
        let mut estimate = ServerEstimate::default();
        let way = |index: u64| {
            if index % 9 == 4 {
                1_000_000
            } else {
                40_000 + index % 7 * 3_000
            }
        };
        run(&mut estimate, 1_000_000, 400, |sent| sent + 5_000_000, way);
        let now = 40_000_000;
        let error = difference_us(estimate.at(now).unwrap(), now + 5_000_000 - 40_000);
        assert!(error.abs() <= 1_000, "{error}");
    }

    /// A clock of 200 ppm, either way, is followed to a millisecond for an hour.
    #[test]
    fn drift_is_followed() {
        for fast in [true, false] {
            let mut estimate = ServerEstimate::default();
            let server = |sent: u64| {
                let drift = sent / 5_000;
                9_000_000 + if fast { sent + drift } else { sent - drift }
            };
            let end = run(&mut estimate, 0, 72_000, server, |index| {
                30_000 + index % 5 * 2_000
            });
            let error = difference_us(estimate.at(end).unwrap(), server(end - 30_000));
            assert!(error.abs() <= 1_200, "{error}");
        }
    }

    /// The local clock leaps: back or standing still is seen at the next arrival, forward after eight.
    #[test]
    fn leaps_of_the_local_clock_are_taken() {
        let settings = PlaybackSettings::default();
        for (leap, arrivals) in [
            (-3_600_000_000_i64, 1),
            (-5_000_000, 1),
            (3_600_000_000, 8),
            (2_000_000, 8),
        ] {
            let mut estimate = ServerEstimate::default();
            let start = 10_000_000_000;
            run(&mut estimate, start, 100, |sent| sent, |_| 40_000);
            let mut needed = 0;
            for index in 0..40_u64 {
                let server_us = start + (100 + index) * T;
                let now_us = (server_us + 40_000).saturating_add_signed(leap);
                estimate.arrive(&settings, server_us, now_us);
                let known = estimate.advance(&settings, now_us).unwrap();
                needed += u64::from(difference_us(known, server_us).abs() > 1_000);
            }
            assert!(needed < arrivals, "leap {leap}: {needed}");
        }
    }

    /// FAULTS 34: ninety days of uptime make nothing coarse.
    #[test]
    fn faults_34_ninety_days_are_as_fine_as_a_start() {
        let mut estimate = ServerEstimate::default();
        let base = 90 * 86_400_000_000;
        let end = run(&mut estimate, base, 200, |sent| sent + base, |_| 40_000);
        assert_eq!(estimate.at(end + 7), Some(end + base - 40_000 + 7));
    }

    /// Offsets of hostile size do not panic.
    #[test]
    fn absurd_times_do_not_panic() {
        let settings = PlaybackSettings::default();
        let mut estimate = ServerEstimate::default();
        for (server_us, now_us) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (1, 1)] {
            estimate.arrive(&settings, server_us, now_us);
            estimate.advance(&settings, now_us);
        }
    }
}
