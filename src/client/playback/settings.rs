//! The constants of playback (SPEC PLY, ENT, CTL5), with the specification's values as defaults.
//!
//! Times are microseconds. The period T is no setting: it is the stream's own (SPEC DEC1).

use crate::limits::{PLAYBACK_AHEAD_US, PLAYBACK_DELAY_MAX_US, PLAYBACK_KEPT_MAX, PLAYBACK_REANCHOR_US};

/// How positions between two observations are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PositionBlend {
    /// A straight line (SPEC ENT1).
    #[default]
    Linear,
    /// A cubic through both positions that leaves with the first velocity and arrives with the second, as far as it stays
    /// between the two on every axis ([`pose::hermite`](super::pose::hermite)). Without velocities in the schema: a line.
    Hermite,
}

/// Settings of one [`Playback`](super::stage::Playback).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaybackSettings {
    /// E: how far the playback time may go past the newest snapshot (SPEC PLY3).
    pub extrapolation_us: u64,
    /// Least margin at which a frozen playback resumes; 2T where that is more (SPEC PLY4).
    pub resume_us: u64,
    /// R: the longest freeze, and the greatest distance from the target, that playing on can mend (SPEC PLY5, PLY6).
    pub reanchor_us: u64,
    /// What a second of distance from the target adds to the rate, per second (SPEC PLY3).
    pub gain_per_s: f64,
    /// The slowest playback.
    pub rate_min: f64,
    /// The fastest playback.
    pub rate_max: f64,
    /// A frame longer than this is walked in steps of at most this: a rule made for frames of 16 ms holds at 5 a second.
    pub step_us: u64,
    /// Which percentile of the arrival gaps the delay covers, 1 to 100 (SPEC PLY1).
    pub gap_percentile: u8,
    /// Upper bound of the delay; 2T where that is more.
    pub delay_max_us: u64,
    /// How far the delay moves in a second, microseconds.
    pub delay_slew_us_per_s: u64,
    /// Time between two looks at the gaps.
    pub delay_look_us: u64,
    /// How long the earliest arrival is remembered ([`ServerEstimate`](super::estimate::ServerEstimate)).
    pub estimate_window_us: u64,
    /// Time in which the estimate comes nearer to what arrivals say by a factor e.
    pub estimate_settle_us: u64,
    /// A difference beyond this is taken at once: a clock was set, stopped or slept.
    pub estimate_step_us: u64,
    /// E_e at the least; an entity's own period where that is longer (SPEC ENT1, CTL5).
    pub entity_extrapolation_us: u64,
    /// Observations kept of one entity at the least; more where the stream is fast ([`kept_at`](PlaybackSettings::kept_at)).
    pub history: usize,
    /// Snapshot times kept at the least.
    pub timeline: usize,
    /// Events of the world that may wait for their time.
    pub events: usize,
    /// How positions are blended.
    pub blend: PositionBlend,
}

impl Default for PlaybackSettings {
    fn default() -> PlaybackSettings {
        PlaybackSettings {
            extrapolation_us: PLAYBACK_AHEAD_US,
            resume_us: 100_000,
            reanchor_us: PLAYBACK_REANCHOR_US,
            gain_per_s: 2.0,
            rate_min: 0.95,
            rate_max: 1.05,
            step_us: 50_000,
            gap_percentile: 95,
            delay_max_us: PLAYBACK_DELAY_MAX_US,
            delay_slew_us_per_s: 10_000,
            delay_look_us: 1_000_000,
            estimate_window_us: 3_000_000,
            estimate_settle_us: 1_000_000,
            estimate_step_us: 250_000,
            entity_extrapolation_us: PLAYBACK_AHEAD_US,
            history: 32,
            timeline: 64,
            events: 256,
            blend: PositionBlend::Linear,
        }
    }
}

impl PlaybackSettings {
    /// Dresume at a period (SPEC PLY4).
    #[must_use]
    pub fn resume_margin_us(&self, period_us: u64) -> u64 {
        self.resume_us.max(period_us.saturating_mul(2))
    }

    /// Ticks between what is shown and the newest that may be here, at the most: r is never further behind than the delay's
    /// ceiling and R (SPEC PLY1, PLY6). `least` at the least,
    /// [`PLAYBACK_KEPT_MAX`] at the most: of a faster stream some of that time is shown from every second tick or fewer.
    #[must_use]
    pub fn kept_at(&self, period_us: u64, least: usize) -> usize {
        let period_us = period_us.max(1);
        let behind_us = self
            .delay_max_us
            .max(period_us.saturating_mul(2))
            .saturating_add(self.reanchor_us);
        let ticks = usize::try_from(behind_us.div_ceil(period_us)).unwrap_or(PLAYBACK_KEPT_MAX);
        ticks.saturating_add(4).min(PLAYBACK_KEPT_MAX).max(least)
    }

    /// E_e of an entity: at least 0.1 s, and the period of its tier where that is longer, so that a slow tier alone makes
    /// nobody stale (SPEC ENT1, CTL5).
    #[must_use]
    pub fn allowance_us(&self, period_us: u64, tier: u8) -> u64 {
        self.entity_extrapolation_us.max(tier_period_us(period_us, tier))
    }
}

/// The period of a tier: divisor x T, the divisor 2^tier (SPEC CTL5).
#[must_use]
pub fn tier_period_us(period_us: u64, tier: u8) -> u64 {
    period_us.saturating_mul(1 << tier.min(crate::limits::TIER_MAX))
}
