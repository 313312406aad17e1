//! The playback clock: which server time r the picture shows (SPEC PLY3..PLY8).
//!
//! A state machine over server time; nothing in it knows packets or entities.
//!
//! ```text
//!                  two snapshots, the newest but one >= r: anchor, generation + 1
//!            ┌──────────────────────────────────────────────────────────────┐
//!            │                                                              ▼
//!       ┌─────────┐   left one lost, or |estimate - D - r| > R        ┌───────────┐
//!  ────►│ Waiting │◄──────────────────────────────────────────────────│  Playing  │◄─┐
//!  new  └─────────┘                                                   └───────────┘  │ latest - r >= Dresume
//!  stream    ▲                                                              │        │ and a snapshot on either
//!            │   longer than R, or as above                     r reaches   │        │ side of r; that frame
//!            │                                                  latest + E  ▼        │ shows r itself
//!            │                                                        ┌──────────┐   │
//!            └────────────────────────────────────────────────────────│  Frozen  │───┘
//!                                                                     └──────────┘
//! ```
//!
//! - **Playing**: r moves at `clamp(1 + 2 (target - r), 0.95, 1.05)` of real time, target = min(estimate - D, latest - T).
//! - **Frozen**: r and what is shown stand still; what is shown was true at r, so requests may still quote it.
//! - **Waiting**: nothing is known of the present. Requests that depend on the time seen are paused, not queued (SPEC PLY5).
//!
//! Invariants: r never falls within a stream; it jumps only with a new playback generation; from Waiting the way back is an
//! anchor in [max(earliest, r), newest but one], so that there is always a snapshot on its right.
//!
//! Decisions. A frame longer than R is no frame of a playback: whoever drew it stood still (a suspended machine, a hidden
//! tab), and it takes the explicit path. A shorter one is walked in steps, as the rules are made for frames of milliseconds.
//! An anchor further than R from the target would have to be left at once (SPEC PLY6): it is waited for a better one, so that
//! what was old when it came makes no chain of small jumps.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::estimate::difference_us;
use super::settings::PlaybackSettings;
use super::timeline::Timeline;

/// Steps of one frame; one that needs more has longer ones.
const STEPS_MOST: u64 = 1_000;

/// What playback does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClockMode {
    /// Nothing is known of the present: the start, a long silence, a jump.
    #[default]
    Waiting,
    /// r moves.
    Playing,
    /// r stands at the end of what is known.
    Frozen,
}

impl ClockMode {
    /// The word used in reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            ClockMode::Waiting => "waiting",
            ClockMode::Playing => "playing",
            ClockMode::Frozen => "frozen",
        }
    }
}

/// Why playback waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// A stream began (SPEC PLY7).
    NewStream,
    /// It was frozen for longer than R (SPEC PLY5).
    FrozenTooLong,
    /// The snapshot on the left of r is not there any more (SPEC PLY5).
    LeftLost,
    /// r is further from its target than R (SPEC PLY6).
    TooFar,
    /// No frame was drawn for longer than R.
    FrameTooLong,
}

/// A turn of the playback clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Waiting from now on.
    Waits(WaitReason),
    /// Playing from an anchor on; r jumped there (SPEC PLY5).
    Anchored {
        /// Where r was; `None` at the start of a stream.
        from_us: Option<u64>,
        /// Where it is.
        to_us: u64,
        /// The playback generation that begins.
        generation: u32,
    },
    /// r stands still at the end of what is known (SPEC PLY4).
    Froze {
        /// Where.
        r_us: u64,
    },
    /// r moves on from where it stood.
    Resumed {
        /// Where.
        r_us: u64,
    },
}

/// What a frame is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct FrameInputs<'a> {
    /// Time since the frame before.
    pub passed_us: u64,
    /// The server's time at this frame; `None` before any arrival.
    pub estimate_us: Option<u64>,
    /// D.
    pub delay_us: u64,
    /// T.
    pub period_us: u64,
    /// Snapshots that are here.
    pub timeline: &'a Timeline,
}

/// The playback clock.
#[derive(Clone, Debug, Default)]
pub struct PlaybackClock {
    mode: ClockMode,
    r_us: Option<u64>,
    /// What r is beyond its microsecond, below 1.
    fraction: f64,
    generation: u32,
    frozen_us: u64,
    rate: f64,
}

impl PlaybackClock {
    /// What it does.
    #[must_use]
    pub fn mode(&self) -> ClockMode {
        self.mode
    }

    /// r: the server time that is shown, microseconds, and the one that requests quote (SPEC PLY8). `None` before the
    /// first anchor of a stream.
    #[must_use]
    pub fn r_us(&self) -> Option<u64> {
        self.r_us
    }

    /// The playback generation: rises with each jump of r. What is of an older one is void.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The rate of the last step of playing, in real time; 0 while r stands still.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.mode == ClockMode::Playing {
            self.rate
        } else {
            0.0
        }
    }

    /// A new stream, a new timeline (SPEC PLY7). The generation goes on rising, so that nothing old looks new.
    pub fn begin_stream(&mut self, tell: &mut impl FnMut(Transition)) {
        *self = PlaybackClock {
            generation: self.generation.wrapping_add(1),
            ..PlaybackClock::default()
        };
        tell(Transition::Waits(WaitReason::NewStream));
    }

    /// Moves on to a frame. True when what is shown is to be evaluated anew: false while Frozen or Waiting (SPEC ENT5).
    pub fn advance(
        &mut self,
        settings: &PlaybackSettings,
        inputs: &FrameInputs<'_>,
        tell: &mut impl FnMut(Transition),
    ) -> bool {
        let Some(end_us) = inputs.estimate_us else {
            return false;
        };
        let mut changed = false;
        if inputs.passed_us > settings.reanchor_us && self.mode != ClockMode::Waiting {
            self.wait(WaitReason::FrameTooLong, tell);
        }
        if self.mode == ClockMode::Waiting {
            return self.try_anchor(settings, end_us, inputs, tell);
        }
        let steps = inputs.passed_us.div_ceil(settings.step_us.max(1));
        let steps = steps.clamp(1, STEPS_MOST);
        let mut left_us = inputs.passed_us;
        for step in 0..steps {
            let step_us = left_us / (steps - step);
            left_us -= step_us;
            let estimate_us = end_us.saturating_sub(left_us);
            let before = self.mode;
            self.step(settings, inputs, step_us, estimate_us, tell);
            changed |= before == ClockMode::Playing || self.mode == ClockMode::Playing;
            // A frame that resumes shows r itself; one that has to wait does so once.
            let resumed = before == ClockMode::Frozen && self.mode == ClockMode::Playing;
            if resumed || self.mode == ClockMode::Waiting {
                break;
            }
        }
        if self.mode == ClockMode::Waiting {
            // A frame that jumps shows r itself.
            changed |= self.try_anchor(settings, end_us, inputs, tell);
        }
        changed && self.mode != ClockMode::Waiting
    }

    fn step(
        &mut self,
        settings: &PlaybackSettings,
        inputs: &FrameInputs<'_>,
        step_us: u64,
        estimate_us: u64,
        tell: &mut impl FnMut(Transition),
    ) {
        let (Some(r_us), Some(latest_us)) = (self.r_us, inputs.timeline.latest()) else {
            return;
        };
        if self.mode == ClockMode::Frozen {
            self.frozen_us = self.frozen_us.saturating_add(step_us);
        }
        let target_us = estimate_us.saturating_sub(inputs.delay_us);
        let too_far = target_us.abs_diff(r_us) > settings.reanchor_us;
        let reason = if self.mode == ClockMode::Frozen && self.frozen_us > settings.reanchor_us {
            Some(WaitReason::FrozenTooLong)
        } else if !inputs.timeline.has_left(r_us) {
            Some(WaitReason::LeftLost)
        } else {
            too_far.then_some(WaitReason::TooFar)
        };
        if let Some(reason) = reason {
            self.wait(reason, tell);
            return;
        }
        match self.mode {
            ClockMode::Frozen => {
                // A snapshot on the left was seen to be there; the newest is the one on the right.
                let margin_us = settings.resume_margin_us(inputs.period_us);
                if latest_us.saturating_sub(r_us) >= margin_us {
                    self.mode = ClockMode::Playing;
                    self.rate = 0.0;
                    tell(Transition::Resumed { r_us });
                }
            }
            ClockMode::Playing => {
                let target_us = target_us.min(latest_us.saturating_sub(inputs.period_us));
                let end_us = latest_us.saturating_add(settings.extrapolation_us);
                if self.play(settings, r_us, step_us, target_us, end_us) {
                    self.mode = ClockMode::Frozen;
                    self.frozen_us = 0;
                    tell(Transition::Froze {
                        r_us: self.r_us.unwrap_or(r_us),
                    });
                }
            }
            ClockMode::Waiting => {}
        }
    }

    /// Moves r towards the target (SPEC PLY3); true when it reached the end of what is known.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn play(
        &mut self,
        settings: &PlaybackSettings,
        r_us: u64,
        step_us: u64,
        target_us: u64,
        end_us: u64,
    ) -> bool {
        let behind_s = (difference_us(target_us, r_us) as f64 - self.fraction) / 1e6;
        let rate = (1.0 + settings.gain_per_s * behind_s).clamp(settings.rate_min, settings.rate_max);
        let moved_us = self.fraction + rate * step_us as f64;
        let whole_us = moved_us.floor();
        self.rate = rate;
        let candidate_us = r_us.saturating_add(whole_us as u64);
        self.fraction = moved_us - whole_us;
        if candidate_us >= end_us {
            self.fraction = 0.0;
        }
        self.r_us = Some(candidate_us.min(end_us).max(r_us));
        candidate_us >= end_us
    }

    fn wait(&mut self, reason: WaitReason, tell: &mut impl FnMut(Transition)) {
        self.mode = ClockMode::Waiting;
        self.fraction = 0.0;
        self.rate = 0.0;
        tell(Transition::Waits(reason));
    }

    /// Leaves Waiting where two snapshots allow it (SPEC PLY5).
    fn try_anchor(
        &mut self,
        settings: &PlaybackSettings,
        estimate_us: u64,
        inputs: &FrameInputs<'_>,
        tell: &mut impl FnMut(Transition),
    ) -> bool {
        let target_us = estimate_us.saturating_sub(inputs.delay_us);
        let near = |to_us: &u64| target_us.abs_diff(*to_us) <= settings.reanchor_us;
        let Some(to_us) = anchor(self.r_us, target_us, inputs.timeline).filter(near) else {
            return false;
        };
        self.generation = self.generation.wrapping_add(1);
        tell(Transition::Anchored {
            from_us: self.r_us,
            to_us,
            generation: self.generation,
        });
        self.mode = ClockMode::Playing;
        self.r_us = Some(to_us);
        self.fraction = 0.0;
        true
    }
}

/// `clamp(target, max(earliest, r), newest but one)`, where there are two and the second is not before r (SPEC PLY5).
fn anchor(r_us: Option<u64>, target_us: u64, timeline: &Timeline) -> Option<u64> {
    let last_us = timeline.second_latest()?;
    let first_us = timeline.earliest()?.max(r_us.unwrap_or(0));
    (first_us <= last_us).then(|| target_us.clamp(first_us, last_us))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
