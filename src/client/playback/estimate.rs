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
//! slept, or was set back). An offset far below all known is a queue, unless nothing else comes any more: the clock was set
//! forward, or the way is longer now. That is believed after eight arrivals over a quarter second, or after three over half a
//! second: a stream of a few snapshots a second need not wait for eight. Small differences are closed exponentially, so that the
//! picture's speed does not show them.
//!
//! A server's clock that is slow, as one that is being put right is: the greatest offset of the window is its oldest then, and what
//! the clock lost in three seconds would be missing of the delay. Where each of the last four parts of the window is below the one
//! before by a percent of the time between them or more, none twice as fast as another, that is how the clock goes, and older parts
//! are lowered along that line. A queue that grows looks the same and is followed too: the picture keeps its distance from what
//! arrives. A fast clock needs nothing of it, as a greater offset is true at once.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::settings::PlaybackSettings;

/// Parts of the window.
const BUCKETS: usize = 6;
/// Arrivals, and the time they span, after which a lower offset is believed: many in a short time, or few in a longer one.
const LOW_MANY: (u32, u64) = (8, 250_000);
const LOW_FEW: (u32, u64) = (3, 500_000);
/// Parts that must fall one after the other for the clock to be called slow, by how much at the least, and how much is believed
/// at the most, as a share of the time between them.
const SLOW_PARTS: usize = 4;
const SLOW_LEAST: f64 = 0.01;
const SLOW_MOST: f64 = 0.1;

/// Arrivals far below what was known.
#[derive(Clone, Copy, Debug)]
struct Low {
    since_us: u64,
    arrivals: u32,
    best: i64,
}

impl Low {
    fn is_believed(&self, now_us: u64) -> bool {
        let span_us = now_us.saturating_sub(self.since_us);
        [LOW_MANY, LOW_FEW]
            .iter()
            .any(|(arrivals, least_us)| self.arrivals >= *arrivals && span_us >= *least_us)
    }
}

/// A part of the window.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The greatest offset that arrived, and when.
    seen: i64,
    seen_us: u64,
    /// The greatest offset as it counts now: lowered where the clock is slow.
    best: i64,
}

/// The estimate of the server's time.
#[derive(Clone, Debug, Default)]
pub struct ServerEstimate {
    /// The part of `current` is `current % BUCKETS`.
    parts: [Option<Part>; BUCKETS],
    current: u64,
    /// How the offset goes where the server's clock is slow, in parts of the time; 0 or less.
    slope: f64,
    /// The greatest offset of the window; the last one known where nothing arrived in it.
    greatest: Option<i64>,
    low: Option<Low>,
    /// The offset in use, microseconds, and when it was moved last.
    offset: Option<f64>,
    moved_us: u64,
}

/// `offset`, seen at `seen_us`, as it is at `now_us` if it goes by `slope`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn along(offset: i64, slope: f64, seen_us: u64, now_us: u64) -> i64 {
    offset.saturating_add((slope * now_us.saturating_sub(seen_us) as f64) as i64)
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
            if low.is_believed(now_us) {
                let best = low.best;
                self.low = None;
                self.parts = [None; BUCKETS];
                self.note(best, now_us);
            }
            return;
        }
        self.low = None;
        self.note(offset, now_us);
    }

    /// Where the part is that many before the present one.
    fn place(&self, back: usize) -> usize {
        let present = usize::try_from(self.current % BUCKETS as u64).unwrap_or(0);
        (present + BUCKETS - back % BUCKETS) % BUCKETS
    }

    /// Notes an offset in the present part of the window.
    fn note(&mut self, offset: i64, now_us: u64) {
        let place = self.place(0);
        if let Some(part) = self.parts.get_mut(place) {
            let known = part.get_or_insert(Part {
                seen: offset,
                seen_us: now_us,
                best: offset,
            });
            if offset >= known.seen {
                (known.seen, known.seen_us) = (offset, now_us);
            }
        }
        self.slope = self.slope_of_parts();
        for part in self.parts.iter_mut().flatten() {
            part.best = part.best.min(along(part.seen, self.slope, part.seen_us, now_us));
        }
        if let Some(Some(part)) = self.parts.get_mut(place) {
            part.best = part.best.max(offset);
        }
        self.greatest = self.parts.iter().flatten().map(|part| part.best).max();
    }

    /// How the offset goes by the newest parts, where each falls below the one before and none does so twice as fast as another,
    /// as jitter alone makes them fall; 0 otherwise.
    #[allow(clippy::cast_precision_loss)]
    fn slope_of_parts(&self) -> f64 {
        let newest = |back: usize| *self.parts.get(self.place(back))?;
        let rate = |from: Part, to: Part| {
            let passed_us = to.seen_us.saturating_sub(from.seen_us).max(1);
            to.seen.saturating_sub(from.seen) as f64 / passed_us as f64
        };
        let (mut least, mut most) = (f64::MAX, 0.0_f64);
        for back in 1..SLOW_PARTS {
            let (Some(before), Some(part)) = (newest(back), newest(back - 1)) else {
                return 0.0;
            };
            let fall = -rate(before, part);
            (least, most) = (least.min(fall), most.max(fall));
        }
        if least < SLOW_LEAST || most > least * 2.0 {
            return 0.0;
        }
        -least.min(SLOW_MOST)
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
            let place = self.place(back);
            if let Some(part) = self.parts.get_mut(place) {
                *part = None;
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
                // Along with a slow clock; what is left of the difference settles.
                let offset = offset + (self.slope * passed_us).max(greatest - offset).min(0.0);
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

    /// A way that is longer by a second is believed after three snapshots where they come twice or five times a second, and
    /// after eight where they come often; two that are late are a spike. FAULTS 71.
    #[test]
    fn faults_71_a_slow_stream_need_not_wait_for_eight_arrivals() {
        let settings = PlaybackSettings::default();
        for (period_us, expected) in [
            (1_000_000, 3),
            (500_000, 3),
            (200_000, 4),
            (100_000, 6),
            (50_000, 8),
        ] {
            let mut estimate = ServerEstimate::default();
            let mut needed = 0;
            for index in 0..60_u64 {
                let way_us = if index < 40 { 40_000 } else { 1_040_000 };
                let now_us = index * period_us + way_us;
                estimate.arrive(&settings, index * period_us, now_us);
                let known = estimate.advance(&settings, now_us).unwrap();
                needed += u64::from(known != index * period_us && index >= 40);
            }
            assert_eq!(needed + 1, expected, "each {period_us}");
            for index in 60..100_u64 {
                let way_us = if index % 8 < 2 { 2_040_000 } else { 1_040_000 };
                let now_us = index * period_us + way_us;
                estimate.arrive(&settings, index * period_us, now_us);
                let known = estimate.advance(&settings, now_us).unwrap();
                assert_eq!(known, now_us - 1_040_000, "each {period_us}");
            }
        }
    }

    /// FAULTS 33: a server's clock that is slow by up to a tenth, as one that is being put right is: four seconds later, and when
    /// it goes as it should again, the estimate is nowhere more than 15 ms ahead of what can be here.
    #[test]
    fn faults_33_a_slow_clock_takes_nothing_off_the_delay() {
        for (percent, jitter_us) in [(1, 0), (2, 0), (5, 0), (8, 0), (10, 0), (5, 10_000), (10, 20_000)] {
            let server = |sent: u64| {
                9_000_000 + sent - sent.min(20_000_000).saturating_sub(10_000_000) * percent / 100
            };
            let mut estimate = ServerEstimate::default();
            let settings = PlaybackSettings::default();
            for index in 0..600_u64 {
                let sent = index * T;
                let now_us = sent + 30_000 + index * 7_919 % (jitter_us + 1);
                estimate.arrive(&settings, server(sent), now_us);
                let known = estimate.advance(&settings, now_us).unwrap();
                let ahead = difference_us(known, server(now_us - 30_000));
                let begins = (10_000_000..14_000_000).contains(&sent);
                assert!(
                    begins || ahead <= 15_000,
                    "{percent} {jitter_us} at {sent}: {ahead}"
                );
                assert!(ahead >= -40_000, "{percent} {jitter_us} at {sent}: {ahead}");
            }
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
