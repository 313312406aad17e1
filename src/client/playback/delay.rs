//! How far playback stays behind what arrives: the adaptive delay D (SPEC PLY1, PLY2), and the period T it is made of.
//!
//! `Dtarget = clamp(G + T, 2T, max(2T, 0.25 s))`, G the 95th percentile (nearest rank) of the last 64 gaps between arrivals
//! that moved the newest server time on; looked at once a second. D moves by at most 0.01 s a second.
//!
//! Bursts: where many snapshots come at once, as a radio link delivers them or a game that polls seldom takes them, one gap in
//! twenty or fewer is the wait for the next burst, and the percentile does not see it, though the picture stands through it
//! each time. So the delay covers the same percentile of the last 64 waits alone too, the gaps longer than a quarter of T, where
//! that is more.
//!
//! T is the schema's period while the stream keeps to it. A stream that is sent at another rate, because its origin changed
//! it or because the relay thins what a slow way cannot take, has the median of the last steps of its snapshots' own times
//! (SPEC DEC1, FAULTS 71). Times of arrival have no part in that.
//!
//! A stream that became slow: while playback waits, an anchor within R of estimate - D is between two snapshots only where D
//! is about 2T, and the median of 64 steps takes half of them to see the new T, and D then minutes to get there. Nothing moves in the
//! picture meanwhile, so D jumps to the 2T of the shortest of the last three steps. What looks like a slow stream may have been loss:
//! once at least six of the last eight steps are the stream's own again, D is back where it was at once, and playback finds another anchor.
//!
//! Slow tiers: where the schema has velocities, an entity of a slow tier is extrapolated within its own allowance
//! ([`PlaybackSettings::allowance_us`]). Where it has none nothing may be extrapolated (SPEC DEC2), so G counts as at least
//! the period of the slowest tier in view, within the same bounds.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::settings::PlaybackSettings;

/// Gaps, and steps, that are kept (SPEC PLY1).
pub const GAPS: usize = 64;
/// A gap of at most T by this is one within a burst.
const BURST_SHARE: u64 = 4;
/// Steps from which on the stream's own period is believed.
const STEPS_LEAST: usize = 8;
/// Steps whose shortest is the period while playback waits: an outage is one among them, and lost snapshots seldom make all long.
const STEPS_WAITING: usize = 3;

/// The last 64 of a measure.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    values: [u64; GAPS],
    count: usize,
    next: usize,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent {
            values: [0; GAPS],
            count: 0,
            next: 0,
        }
    }
}

impl Recent {
    fn push(&mut self, value: u64) {
        if let Some(place) = self.values.get_mut(self.next) {
            *place = value;
        }
        self.next = (self.next + 1) % GAPS;
        self.count = (self.count + 1).min(GAPS);
    }

    /// The last `most` in rising order, if there are so many; up to 8 of them.
    fn last(&self, most: usize) -> Option<[u64; STEPS_LEAST]> {
        let mut last = [u64::MAX; STEPS_LEAST];
        let known = last.get_mut(..most).filter(|_| self.count >= most)?;
        for (back, value) in (1..).zip(known.iter_mut()) {
            *value = *self.values.get((self.next + GAPS - back) % GAPS)?;
        }
        last.sort_unstable();
        Some(last)
    }

    /// The percentile by nearest rank: the value at index ceil(p n / 100), from 1, in rising order.
    fn percentile(&self, percentile: u8) -> Option<u64> {
        let mut sorted = self.values;
        let known = sorted.get_mut(..self.count)?;
        known.sort_unstable();
        let rank = (self.count * usize::from(percentile)).div_ceil(100).max(1);
        known.get(rank - 1).copied()
    }
}

/// The delay D.
#[derive(Clone, Debug)]
pub struct AdaptiveDelay {
    gaps: Recent,
    /// The gaps between bursts.
    waits: Recent,
    steps: Recent,
    arrived_us: Option<u64>,
    newest_us: Option<u64>,
    nominal_us: u64,
    period_us: u64,
    target_us: u64,
    /// D in microseconds, with what is less than one.
    delay_us: f64,
    /// D before it jumped while playback waited.
    jumped_from_us: Option<f64>,
    looked_us: Option<u64>,
    moved_us: Option<u64>,
}

impl AdaptiveDelay {
    /// The delay of a stream of this period, 2T to begin with.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn new(period_us: u64) -> AdaptiveDelay {
        let least = period_us.saturating_mul(2);
        AdaptiveDelay {
            gaps: Recent::default(),
            waits: Recent::default(),
            steps: Recent::default(),
            arrived_us: None,
            newest_us: None,
            nominal_us: period_us,
            period_us,
            target_us: least,
            delay_us: least as f64,
            jumped_from_us: None,
            looked_us: None,
            moved_us: None,
        }
    }

    /// A snapshot that moved the newest server time on to `server_us` is here. Older ones are no arrivals (SPEC PLY2).
    pub fn arrive(&mut self, server_us: u64, now_us: u64) {
        if let Some(before) = self.arrived_us {
            let gap_us = now_us.saturating_sub(before);
            self.gaps.push(gap_us);
            if gap_us > self.period_us / BURST_SHARE {
                self.waits.push(gap_us);
            }
        }
        if let Some(before) = self.newest_us {
            self.steps.push(server_us.saturating_sub(before));
        }
        self.arrived_us = Some(now_us);
        self.newest_us = Some(server_us);
    }

    /// Time passes. `slowest_us` is the period that must be covered whatever arrives, 0 for none.
    #[allow(clippy::cast_precision_loss)]
    pub fn advance(&mut self, settings: &PlaybackSettings, now_us: u64, slowest_us: u64) {
        let due = self
            .looked_us
            .is_none_or(|looked| now_us.abs_diff(looked) >= settings.delay_look_us);
        if due {
            self.looked_us = Some(now_us);
            self.period_us = self.measured_period_us();
            let wait_us = self.waits.percentile(settings.gap_percentile);
            let gap_us = self.gap_us(settings).max(wait_us).unwrap_or(0).max(slowest_us);
            self.target_us = target_us(settings, self.period_us, gap_us);
        }
        self.undo_jump();
        let passed_us = now_us.saturating_sub(self.moved_us.unwrap_or(now_us)) as f64;
        let most_us = passed_us * settings.delay_slew_us_per_s as f64 / 1e6;
        self.delay_us += (self.target_us as f64 - self.delay_us).clamp(-most_us, most_us);
        self.moved_us = Some(now_us);
    }

    /// Playback waits: D is at least 2T, T by the last few steps.
    #[allow(clippy::cast_precision_loss)]
    pub fn wait(&mut self) {
        let [step_us, ..] = self.steps.last(STEPS_WAITING).unwrap_or_default();
        let wanted_us = step_us.saturating_mul(2) as f64;
        if self.is_slow(step_us) && wanted_us > self.delay_us {
            self.jumped_from_us.get_or_insert(self.delay_us);
            self.delay_us = wanted_us;
        }
    }

    /// The stream keeps to its period again: D is what it was before it jumped, or where it goes if that is more.
    #[allow(clippy::cast_precision_loss)]
    fn undo_jump(&mut self) {
        // A jump takes three slow steps, so that one is undone only when fewer are left.
        let [.., third_longest_us, _, _] = self.steps.last(STEPS_LEAST).unwrap_or([u64::MAX; STEPS_LEAST]);
        if let Some(before_us) = self.jumped_from_us.filter(|_| !self.is_slow(third_longest_us)) {
            self.delay_us = self.delay_us.min(before_us.max(self.target_us as f64));
            self.jumped_from_us = None;
        }
    }

    fn is_slow(&self, step_us: u64) -> bool {
        step_us > self.nominal_us.saturating_add(self.nominal_us / 4)
    }

    /// T: the nominal period, or the median step where the stream does not keep to it within a quarter.
    fn measured_period_us(&self) -> u64 {
        let measured = self
            .steps
            .percentile(50)
            .filter(|_| self.steps.count >= STEPS_LEAST);
        match measured {
            Some(step_us) if step_us.abs_diff(self.nominal_us) > self.nominal_us / 4 => step_us.max(1),
            _ => self.nominal_us,
        }
    }

    /// G, microseconds; `None` before the second arrival.
    #[must_use]
    pub fn gap_us(&self, settings: &PlaybackSettings) -> Option<u64> {
        self.gaps.percentile(settings.gap_percentile)
    }

    /// D, microseconds.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn delay_us(&self) -> u64 {
        self.delay_us.round() as u64
    }

    /// Where D goes, microseconds.
    #[must_use]
    pub fn target_us(&self) -> u64 {
        self.target_us
    }

    /// T, microseconds.
    #[must_use]
    pub fn period_us(&self) -> u64 {
        self.period_us
    }
}

/// Dtarget (SPEC PLY1), microseconds.
#[must_use]
pub fn target_us(settings: &PlaybackSettings, period_us: u64, gap_us: u64) -> u64 {
    let least = period_us.saturating_mul(2);
    gap_us
        .saturating_add(period_us)
        .clamp(least, settings.delay_max_us.max(least))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;
    use crate::client::playback::tests::vectors::{micros, vector};

    /// SPEC PLY1: every case of the vector.
    #[test]
    fn ply1_adaptive_delay_vector() {
        let settings = PlaybackSettings::default();
        let vector = vector(include_str!("../../../tests/vectors/adaptive_delay.json"));
        for case in vector["cases"].as_array().unwrap() {
            let (period, gap) = (micros(&case["T"]), micros(&case["G"]));
            let target = target_us(&settings, period, gap);
            assert!(target.abs_diff(micros(&case["Dtarget"])) <= 1, "{case} {target}");
        }
        for case in vector["G_from_gaps"].as_array().unwrap() {
            let mut delay = AdaptiveDelay::new(50_000);
            let mut now_us = 0;
            delay.arrive(0, now_us);
            for (index, gap) in case["gaps"].as_array().unwrap().iter().enumerate() {
                now_us += micros(gap);
                delay.arrive(50_000 * (index as u64 + 1), now_us);
            }
            assert_eq!(delay.gap_us(&settings), Some(micros(&case["G"])));
        }
        let example = &vector["example"];
        let mut delay = AdaptiveDelay::new(50_000);
        assert_eq!(delay.delay_us(), micros(&example["D0"]));
        for index in 0..=64 {
            delay.arrive(index * 50_000, index * 150_000);
        }
        delay.advance(&settings, 0, 0);
        assert_eq!(delay.target_us(), micros(&example["Dtarget"]));
        let after_us = micros(&example["after_s"]);
        for frame in 0..=180 {
            delay.advance(&settings, frame * after_us / 180, 0);
        }
        assert_eq!(delay.delay_us(), micros(&example["D"]));
    }

    /// SPEC PLY1: only the last 64 gaps count, and they are looked at once a second.
    #[test]
    fn ply1_the_last_64_gaps_once_a_second() {
        let settings = PlaybackSettings::default();
        let mut delay = AdaptiveDelay::new(50_000);
        let mut now_us = 0;
        let mut arrive = |delay: &mut AdaptiveDelay, gap: u64, server: u64| {
            now_us += gap;
            delay.arrive(server, now_us);
        };
        for index in 0..64 {
            arrive(&mut delay, 200_000, index * 50_000);
        }
        delay.advance(&settings, 20_000_000, 0);
        assert_eq!(delay.target_us(), 250_000);
        for index in 64..128 {
            arrive(&mut delay, 50_000, index * 50_000);
        }
        delay.advance(&settings, 20_999_999, 0);
        assert_eq!(delay.target_us(), 250_000);
        delay.advance(&settings, 21_000_000, 0);
        assert_eq!(
            (delay.gap_us(&settings), delay.target_us()),
            (Some(50_000), 100_000)
        );
    }

    /// SPEC PLY1: what comes in bursts of more than twenty needs the wait between two of them, not the gaps within one.
    #[test]
    fn ply1_bursts_of_many_are_covered() {
        let settings = PlaybackSettings::default();
        for (period_us, burst) in [(7_812, 19), (7_812, 31), (4_167, 36), (50_000, 1)] {
            let mut delay = AdaptiveDelay::new(period_us);
            let between_us = period_us * burst;
            for index in 0..1_000 {
                delay.arrive(
                    index * period_us,
                    index / burst * between_us + index % burst * 100,
                );
            }
            delay.advance(&settings, 0, 0);
            let within_us = (burst - 1) * 100;
            assert_eq!(
                delay.target_us(),
                target_us(&settings, period_us, between_us - within_us)
            );
        }
    }

    /// FAULTS 71, SPEC DEC1: another rate in mid-stream is another T; loss alone is none.
    #[test]
    fn faults_71_the_period_follows_the_stream() {
        let settings = PlaybackSettings::default();
        let mut delay = AdaptiveDelay::new(16_667);
        let (mut server_us, mut now_us) = (0, 0);
        for (step, lost, expected) in [
            (16_667, 0, 16_667),
            (50_000, 0, 50_000),
            (33_333, 0, 33_333),
            (16_667, 5, 16_667),
        ] {
            for index in 0..200 {
                server_us += step;
                if lost > 0 && index % lost == 0 {
                    continue;
                }
                delay.arrive(server_us, server_us);
                now_us = server_us;
            }
            delay.advance(&settings, now_us, 0);
            assert_eq!(delay.period_us(), expected);
        }
    }
}
