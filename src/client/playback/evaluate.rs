//! What an entity looks like at r, and how much that is worth (SPEC ENT1..ENT4, ENT9).
//!
//! ```text
//!  observed    o-----------o                      o at rest                         o
//!  r here      |     A     |     B     |    C     |            D              |  E  |
//!              t0          t1      t1 + E_e       t2                          w     t3
//! ```
//! A: interpolated. B: extrapolated by the last velocity, at most E_e. C: stale, the pose of t1 + E_e, not valid, unless t2 is
//! known by then, which makes B and C interpolated. D: resting, valid. E: interpolated, from the rest's pose. w is one period
//! before t3, or the last snapshot that vouches for the rest where that is earlier: it had ended before t3 then, in what was
//! lost or left out. Where what follows is of another segment there is no way to it: past w + E_e it is stale.
//!
//! Invariant: `valid` means r lies between two observations of one life and one segment, or at most E_e after the last one,
//! or in a rest that nothing here contradicts, up to the newest snapshot that is whole, or has the entity's own record (+ E_e).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::history::{Around, History, Observed};
use super::measure::Measure;
use super::pose::{self, Pose};
use super::settings::PositionBlend;

/// How a pose was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoseMode {
    /// Between two observations.
    Interpolated,
    /// By the last velocity, within the entity's allowance.
    Extrapolated,
    /// At rest, and known to be.
    Resting,
    /// The end of the allowance: shown, but not true at r.
    Stale,
    /// The segment's state is not known: hide it, or mark it as a placeholder.
    Missing,
}

impl PoseMode {
    /// The word used in reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            PoseMode::Interpolated => "interpolated",
            PoseMode::Extrapolated => "extrapolated",
            PoseMode::Resting => "resting",
            PoseMode::Stale => "stale",
            PoseMode::Missing => "missing",
        }
    }
}

/// An entity at r (SPEC ENT2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluated {
    /// The pose; `None` where nothing is known. Of a Missing one it is a placeholder: the segment's first pose, or none.
    pub pose: Option<Pose>,
    /// The server time the pose is true at, microseconds: r where it is valid.
    pub sample_us: u64,
    /// How it was come by.
    pub mode: PoseMode,
    /// The segment of r.
    pub segment: u32,
    /// The pose is true at r.
    pub valid_at_r: bool,
    /// E_e of this entity, microseconds: how long it may be extrapolated (SPEC ENT1, CTL5).
    pub allowance_us: u64,
}

/// What all entities of a frame are evaluated with.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// r.
    pub r_us: u64,
    /// The time of the newest snapshot that is whole, up to which a rest is known to last; 0 for none.
    pub whole_us: u64,
    /// The schema's measure.
    pub measure: &'a Measure,
    /// How positions are blended.
    pub blend: PositionBlend,
}

impl Scene<'_> {
    /// Evaluates a history; `None` where no segment is known.
    #[must_use]
    pub fn evaluate(&self, history: &History, allowance_us: u64) -> Option<Evaluated> {
        let Around {
            segment,
            left,
            rested_until_us,
            vouched_us,
            right,
        } = history.around(self.r_us)?;
        let answer = |pose, sample_us, mode, valid_at_r| Evaluated {
            pose,
            sample_us,
            mode,
            segment: segment.id,
            valid_at_r,
            allowance_us,
        };
        let Some(left) = left else {
            let placeholder = right.map(|right| self.measure.pose(&right.motion));
            return Some(answer(placeholder, self.r_us, PoseMode::Missing, false));
        };
        if let Some(right) = right {
            let (pose, mode) = self.between(&left, rested_until_us, &right);
            return Some(answer(Some(pose), self.r_us, mode, true));
        }
        if left.motion.at_rest {
            let known_us = self.whole_us.max(vouched_us).max(left.motion.observed_us);
            let (mode, until_us) = self.rest(known_us, rested_until_us, allowance_us);
            let sample_us = self.r_us.min(until_us);
            let pose = Some(self.measure.pose(&left.motion));
            return Some(answer(pose, sample_us, mode, mode != PoseMode::Stale));
        }
        let observed_us = left.motion.observed_us;
        let most_us = if self.measure.has_velocity() {
            allowance_us
        } else {
            0
        };
        let ahead_us = self.r_us.saturating_sub(observed_us);
        let valid = ahead_us <= most_us;
        let ahead_us = ahead_us.min(most_us);
        let mode = if valid {
            PoseMode::Extrapolated
        } else {
            PoseMode::Stale
        };
        let pose = self.ahead(&left, ahead_us);
        Some(answer(
            Some(pose),
            observed_us.saturating_add(ahead_us),
            mode,
            valid,
        ))
    }

    /// Between two observations of one segment.
    #[allow(clippy::cast_precision_loss)]
    fn between(&self, left: &Observed, rested_until_us: Option<u64>, right: &Observed) -> (Pose, PoseMode) {
        let (mut from_us, to_us) = (left.motion.observed_us, right.motion.observed_us);
        if left.motion.at_rest {
            // It stood until one period before it was seen elsewhere, or woke before that (SPEC ENT9).
            let period_before_us = to_us.saturating_sub(self.measure.period_us());
            from_us =
                from_us.max(rested_until_us.map_or(period_before_us, |woke| woke.min(period_before_us)));
            if self.r_us <= from_us {
                return (self.measure.pose(&left.motion), PoseMode::Resting);
            }
        }
        let whole_us = to_us.saturating_sub(from_us) as f64;
        let t = self.r_us.saturating_sub(from_us) as f64 / whole_us;
        let seconds = whole_us / 1e6;
        let (a, b) = (self.measure.pose(&left.motion), self.measure.pose(&right.motion));
        let position = if self.blend == PositionBlend::Hermite && self.measure.has_velocity() {
            let (from, to) = (
                self.measure.velocity(&left.motion),
                self.measure.velocity(&right.motion),
            );
            pose::hermite(a.position, from, b.position, to, seconds, t)
        } else {
            pose::line(a.position, b.position, t)
        };
        let [from, to] = [left, right].map(|observed| self.measure.angular(&observed.motion));
        let [x, y, z] = from;
        let [u, v, w] = to;
        let turn = [x + u, y + v, z + w].map(|sum| sum / 2.0 * seconds);
        let rotation = pose::arc(a.rotation, b.rotation, turn, t);
        (Pose { position, rotation }, PoseMode::Interpolated)
    }

    /// `ahead_us` after the last observation: by its velocity, and turned on where angular velocity is sent.
    #[allow(clippy::cast_precision_loss)]
    fn ahead(&self, left: &Observed, ahead_us: u64) -> Pose {
        let pose = self.measure.pose(&left.motion);
        let seconds = ahead_us as f64 / 1e6;
        let [x, y, z] = pose.position;
        let [vx, vy, vz] = self.measure.velocity(&left.motion);
        let turn = self.measure.angular(&left.motion).map(|rate| rate * seconds);
        Pose {
            position: [x + vx * seconds, y + vy * seconds, z + vz * seconds],
            rotation: pose::turned(pose.rotation, turn),
        }
    }

    /// A rest with nothing after it: its mode at r, and until when its pose counts. A rest whose end is known without what
    /// came after it is good for E_e more, as any last observation is. `known_us`: until when nothing contradicts it.
    fn rest(&self, known_us: u64, rested_until_us: Option<u64>, allowance_us: u64) -> (PoseMode, u64) {
        // Where nothing may be extrapolated a rest that is known to be over is good no longer (SPEC DEC2).
        let allowance_us = match rested_until_us {
            Some(_) if !self.measure.has_velocity() => 0,
            _ => allowance_us,
        };
        let until_us = rested_until_us.unwrap_or(known_us).saturating_add(allowance_us);
        let mode = match rested_until_us {
            _ if self.r_us > until_us => PoseMode::Stale,
            Some(woke_us) if self.r_us > woke_us => PoseMode::Extrapolated,
            _ => PoseMode::Resting,
        };
        (mode, until_us)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
