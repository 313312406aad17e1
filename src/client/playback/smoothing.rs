//! Smoothing by time of arrival: for what has no observation times of its own (SPEC ENT8).
//!
//! A target is moved to over a window that begins when it arrives, from where the picture is then, never from the target
//! before: so a new target that comes early turns the motion instead of throwing it back. After the window it is the target,
//! and nothing is extrapolated.
//!
//! Two policies. What moves on events (a player's input) has a fixed window of 100 ms. What moves on the ticks of a server
//! that may slow down has a window of 1.5 x the average of its gaps, `0.7 old + 0.3 new`, gaps over 5 s discarded; the first
//! gap is the first average. An owner that was told its divisor has at least divisor x base tick (SPEC CTL5).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::pose::{self, Pose};
use super::settings::tier_period_us;

/// How an entity moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// On events: a fixed window.
    ByEvents,
    /// On ticks: a window that follows the gaps.
    ByTicks,
}

/// The constants of smoothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothingSettings {
    /// The window of what moves on events, microseconds.
    pub event_window_us: u64,
    /// The window of what moves on ticks, in average gaps.
    pub gamma: f64,
    /// What a new gap counts in the average.
    pub newest_share: f64,
    /// Longer gaps are discarded, microseconds.
    pub gap_most_us: u64,
}

impl Default for SmoothingSettings {
    fn default() -> SmoothingSettings {
        SmoothingSettings {
            event_window_us: 100_000,
            gamma: 1.5,
            newest_share: 0.3,
            gap_most_us: 5_000_000,
        }
    }
}

/// One entity, smoothed. Times are microseconds of the caller's clock.
#[derive(Clone, Copy, Debug)]
pub struct Smoother {
    driven: Driven,
    from: Pose,
    target: Pose,
    moved_us: u64,
    average_us: Option<f64>,
    least_us: u64,
}

impl Smoother {
    /// An entity that is first seen at `now_us`.
    #[must_use]
    pub fn new(driven: Driven, pose: Pose, now_us: u64) -> Smoother {
        Smoother {
            driven,
            from: pose,
            target: pose,
            moved_us: now_us,
            average_us: None,
            least_us: 0,
        }
    }

    /// A new target. Also for what is asserted again: a correction starts from where the picture is (SPEC CTL6).
    #[allow(clippy::cast_precision_loss)]
    pub fn move_to(&mut self, settings: &SmoothingSettings, target: Pose, now_us: u64) {
        self.from = self.sample(settings, now_us);
        let gap_us = now_us.saturating_sub(self.moved_us);
        if gap_us <= settings.gap_most_us {
            let gap_us = gap_us as f64;
            let share = settings.newest_share;
            self.average_us = Some(
                self.average_us
                    .map_or(gap_us, |average| average * (1.0 - share) + gap_us * share),
            );
        }
        self.target = target;
        self.moved_us = now_us;
    }

    /// A jump: nothing lies between (SPEC ENT4).
    pub fn jump_to(&mut self, target: Pose, now_us: u64) {
        (self.from, self.target, self.moved_us) = (target, target, now_us);
    }

    /// The entity's rate tier: its window is at least the tier's period (SPEC CTL5).
    pub fn set_tier(&mut self, base_tick_us: u64, tier: u8) {
        self.least_us = if tier == 0 {
            0
        } else {
            tier_period_us(base_tick_us, tier)
        };
    }

    /// The window in use, microseconds.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn window_us(&self, settings: &SmoothingSettings) -> u64 {
        let window_us = match (self.driven, self.average_us) {
            (Driven::ByTicks, Some(average_us)) => (average_us * settings.gamma).round() as u64,
            _ => settings.event_window_us,
        };
        window_us.max(self.least_us)
    }

    /// Where to draw it.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn sample(&self, settings: &SmoothingSettings, now_us: u64) -> Pose {
        let passed_us = now_us.saturating_sub(self.moved_us);
        let window_us = self.window_us(settings);
        if passed_us >= window_us {
            return self.target;
        }
        let t = passed_us as f64 / window_us as f64;
        Pose {
            position: pose::line(self.from.position, self.target.position, t),
            rotation: pose::arc(self.from.rotation, self.target.rotation, [0.0; 3], t),
        }
    }

    /// Where it is by the server's word: for logic, not for drawing.
    #[must_use]
    pub fn position(&self) -> Pose {
        self.target
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
