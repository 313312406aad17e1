//! Lag compensation: the world as a player saw it when it shot, and whether it can have seen it (SPEC PLY5, PLY8, ENT1, ENT4,
//! ENT7).
//!
//! > Give [`publish`](LagCheck::publish) every frame of the [`Publisher`](super::publisher::Publisher); keep a [`Shooter`] for
//! > each player, made anew when it joins; give [`check`](LagCheck::check) the [`Quote`] of each shot, in order, and decide the
//! > hit with the poses that it and [`rewind`](LagCheck::rewind) give.
//!
//! A quote names a time of the playback, its generation, and who was aimed at in which segment. None of it is believed: the
//! time must be one that a playback can have reached from what was published, not older than the game allows, and later than
//! what this player quoted before; the target must have lived then, in that segment, observed by then, and of a class that
//! shots are decided against, by the origin's own schema. What is refused has a word ([`LagRefusal`]) and changes nothing.
//!
//! **What cannot be checked.** Which observations reached a player: so a player that truly showed its target extrapolated is
//! answered with the truth between the observations, and a player that lies about its generation gains no time beyond the age
//! allowed. The poses are those of the straight way between the origin's observations; what a client draws differs by its
//! own interpolation, and how much of that a hit forgives is the game's policy. That a view was ready is the client's word;
//! [`check_view`](LagCheck::check_view) refuses those that cannot have been.
//!
//! Memory: the frames named in [`LagSettings::frames`], which share what did not change. Times are server microseconds.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::delta::quote::{Quote, Sight, Target};
use crate::limits::{
    LAG_AGE_LEAST_US, LAG_FRAMES_MAX, LAG_WAYS_US, PLAYBACK_AHEAD_US, PLAYBACK_DELAY_MAX_US,
    PLAYBACK_REANCHOR_US, TIER_MAX,
};
use crate::state::entity::Entity;
use crate::state::frame::Frame;
use crate::state::schema::Schema;
use history::History;
pub use pose::Rewound;
pub use refusal::{LagCounts, LagRefusal};
use std::sync::Arc;

mod history;
mod pose;
mod refusal;

#[cfg(test)]
mod tests;

/// What a game allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagSettings {
    /// What this origin's stream is called in quotes; it tells its players in a message. 0 where it tells nothing.
    pub stream: u32,
    /// Ticks kept, at least 2: those of [`age_most_us`](LagSettings::age_most_us) and two more, or what is older is refused.
    pub frames: usize,
    /// The oldest picture that is believed, microseconds.
    pub age_most_us: u64,
    /// How far a playback may run ahead of the newest tick, microseconds (SPEC PLY3, E).
    pub ahead_most_us: u64,
    /// How far an entity may be shown past its last observation, microseconds (SPEC ENT1, E_e).
    pub extrapolation_most_us: u64,
}

impl LagSettings {
    /// Those for a schema of period T, so that no picture of an honest playback is refused, at 1 tick in 10 seconds or 1,000 a
    /// second.
    ///
    /// - Age: the delay at its most, max(2T, 0.25 s), as far behind its target as a playback plays or stays frozen, 0.5 s, the
    ///   ways, 0.2 s, and T until the tick that takes the input (SPEC PLY1, PLY5); 1 s at the least.
    /// - Ticks: as many as that age has, and the one on either side of it, at most [`LAG_FRAMES_MAX`].
    /// - An entity is extrapolated by [`PLAYBACK_AHEAD_US`], or as long as the slowest rate tier waits (SPEC CTL5).
    #[must_use]
    pub fn of_schema(schema: &Schema) -> LagSettings {
        let period_us = u64::from(schema.tick_period_us).max(1);
        let delay_us = PLAYBACK_DELAY_MAX_US.max(period_us * 2);
        let age_us = (delay_us + PLAYBACK_REANCHOR_US + LAG_WAYS_US + period_us).max(LAG_AGE_LEAST_US);
        let frames = usize::try_from(age_us.div_ceil(period_us) + 2).unwrap_or(LAG_FRAMES_MAX);
        LagSettings {
            stream: 0,
            frames: frames.min(LAG_FRAMES_MAX),
            age_most_us: age_us,
            ahead_most_us: PLAYBACK_AHEAD_US,
            extrapolation_most_us: PLAYBACK_AHEAD_US.max(period_us << TIER_MAX),
        }
    }
}

/// What is remembered of one player's shots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shooter {
    generation: u32,
    r_us: u64,
}

/// A shot whose time is believed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Believed {
    /// The time to look at.
    pub r_us: u64,
    /// Who was aimed at, then.
    pub target: Option<Rewound>,
}

/// The history of the world, and what shots are checked against.
#[derive(Debug)]
pub struct LagCheck {
    settings: LagSettings,
    history: History,
    counts: LagCounts,
}

impl LagCheck {
    /// Without history: until a tick is published nothing is believed.
    #[must_use]
    pub fn new(settings: LagSettings) -> LagCheck {
        LagCheck {
            settings,
            history: History::new(settings.frames),
            counts: LagCounts::default(),
        }
    }

    /// The world after a tick. Time that falls begins a new history.
    pub fn publish(&mut self, frame: &Arc<Frame>) {
        self.history.push(frame);
    }

    /// Whether a player can have seen what it quotes, at the server's time `now_us`.
    ///
    /// # Errors
    /// [`LagRefusal`], which is counted; then nothing changed.
    pub fn check(
        &mut self,
        shooter: &mut Shooter,
        quote: &Quote,
        now_us: u64,
    ) -> Result<Believed, LagRefusal> {
        let outcome = self.judge(shooter, quote, now_us);
        self.counts.count(&outcome);
        if outcome.is_ok() {
            (shooter.generation, shooter.r_us) = (quote.generation, quote.r_us);
        }
        outcome
    }

    fn judge(&self, shooter: &Shooter, quote: &Quote, now_us: u64) -> Result<Believed, LagRefusal> {
        let r_us = quote.r_us;
        if quote.stream != self.settings.stream {
            return Err(LagRefusal::OtherStream);
        }
        if quote.generation < shooter.generation {
            return Err(LagRefusal::OldGeneration);
        }
        if r_us < shooter.r_us {
            return Err(LagRefusal::RanBackwards);
        }
        self.in_time(r_us, now_us)?;
        if !quote.view_ready {
            return Err(LagRefusal::ViewNotReady);
        }
        let target = match &quote.target {
            Some(target) => Some(self.target(target, r_us)?),
            None => None,
        };
        Ok(Believed { r_us, target })
    }

    /// A time that a picture can have had.
    fn in_time(&self, r_us: u64, now_us: u64) -> Result<(), LagRefusal> {
        let (Some(oldest), Some(newest)) = (self.history.oldest_us(), self.history.newest_us()) else {
            return Err(LagRefusal::Future);
        };
        if r_us > newest.saturating_add(self.settings.ahead_most_us) {
            return Err(LagRefusal::Future);
        }
        if r_us < oldest || now_us.saturating_sub(r_us) > self.settings.age_most_us {
            return Err(LagRefusal::TooOld);
        }
        Ok(())
    }

    fn target(&self, target: &Target, r_us: u64) -> Result<Rewound, LagRefusal> {
        if !target.sight.is_valid() {
            return Err(LagRefusal::NotValid);
        }
        let rewound = self.rewind(target.entity, r_us)?;
        if rewound.segment != target.segment {
            return Err(LagRefusal::OtherSegment);
        }
        if !rewound.query_critical {
            return Err(LagRefusal::NotCritical);
        }
        let is_between = rewound.next_us.is_some() || rewound.at_rest || rewound.observed_us == r_us;
        if target.sight == Sight::Interpolated && !is_between {
            // A playback that ran ahead of its newest tick may show a rest that has just ended.
            let since_us = r_us.saturating_sub(self.settings.ahead_most_us);
            if !self.history.rested(&rewound, since_us) {
                return Err(LagRefusal::NotObservedYet);
            }
        }
        Ok(rewound)
    }

    /// Where an entity was at a time of the history: for who stood in the way, and for shots at nobody.
    ///
    /// # Errors
    /// [`LagRefusal`]: it was not there, or nobody can have had a valid pose of it then.
    pub fn rewind(&self, entity: Entity, r_us: u64) -> Result<Rewound, LagRefusal> {
        let newest = self.history.newest_us().unwrap_or(0);
        if r_us > newest.saturating_add(self.settings.ahead_most_us) {
            return Err(LagRefusal::Future);
        }
        self.history
            .rewind(entity, r_us, self.settings.extrapolation_most_us)
    }

    /// Whether a view can have been ready: every query-critical entity of `view`, which is the game's own choice of what the
    /// player sees, must have had a valid pose at `r_us`, or not have been there (SPEC ENT7). Before its first observation a life
    /// is not there: a playback draws it from then on.
    ///
    /// # Errors
    /// The first that had none, and why.
    pub fn check_view(
        &self,
        r_us: u64,
        view: impl IntoIterator<Item = Entity>,
    ) -> Result<(), (Entity, LagRefusal)> {
        for entity in view {
            match self.rewind(entity, r_us) {
                Ok(_) | Err(LagRefusal::NotBorn | LagRefusal::Gone) => {}
                Err(LagRefusal::NoObservation) if !self.history.observed_by(entity, r_us) => {}
                Err(why) if self.history.is_critical(entity) => return Err((entity, why)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> LagCounts {
        self.counts
    }

    /// Ticks held and entities known.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        self.history.sizes()
    }
}
