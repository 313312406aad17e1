//! What can be read of a playback.

use super::{Drawn, Playback, PlaybackStatistics, Seen, Turned};
use crate::client::playback::clock::ClockMode;
use crate::client::playback::evaluate::{Evaluated, PoseMode, Scene};
use crate::client::playback::track::Track;
use crate::delta::quote::{Quote, Sight, Target};
use crate::state::entity::Entity;
use crate::state::slots::Slot;

impl Track {
    fn drawn(&self) -> Option<Drawn> {
        self.shown.map(|at| Drawn {
            slot: self.slot,
            entity: self.entity,
            class: self.class,
            tier: self.tier,
            at,
        })
    }
}

impl Playback {
    /// Everybody in the frame, in no order. A slot may be named by two lives, never a life twice.
    pub fn drawn(&self) -> impl Iterator<Item = Drawn> + '_ {
        let kept = self.kept.iter().copied();
        kept.chain(self.tracks.iter().filter_map(Track::drawn))
    }

    /// An entity of the frame.
    #[must_use]
    pub fn drawn_at(&self, slot: Slot, entity: Entity) -> Option<Drawn> {
        self.tracks
            .of_slot(slot)
            .filter(|(_, track)| track.entity == entity)
            .find_map(|(_, track)| track.drawn())
            .or_else(|| {
                let mut kept = self.kept.iter();
                let of = |drawn: &&Drawn| (drawn.slot, drawn.entity) == (slot, entity);
                kept.find(of).copied()
            })
    }

    /// An entity at another time than the frame's, as far as its history goes; `None` where it is not there then.
    #[must_use]
    pub fn sample(&self, slot: Slot, entity: Entity, r_us: u64) -> Option<Evaluated> {
        let measure = self.measure.as_ref()?;
        let scene = Scene {
            r_us,
            whole_us: self.timeline.latest_whole().unwrap_or(0),
            measure,
            blend: self.settings.blend,
        };
        let there = |track: &&Track| {
            track.entity == entity && r_us >= track.starts_us && track.end.is_none_or(|end| r_us < end.at_us)
        };
        let (_, track) = self.tracks.of_slot(slot).find(|(_, track)| there(track))?;
        let allowance_us = self.settings.allowance_us(measure.period_us(), track.tier);
        scene.evaluate(&track.history, allowance_us)
    }

    /// What the last frame changed of who is drawn.
    #[must_use]
    pub fn turned(&self) -> &[Turned] {
        &self.turned
    }

    /// What the player sees, to be quoted by a request that depends on it. `None` while such requests are paused: playback
    /// waits (SPEC PLY5). One that needs all it could hit is to look at `view_ready` too (SPEC ENT7).
    #[must_use]
    pub fn seen(&self) -> Option<Seen> {
        let r_us = self.clock.r_us()?;
        (self.clock.mode() != ClockMode::Waiting).then_some(Seen {
            stream_epoch: self.stream_epoch,
            r_us,
            playback_generation: self.clock.generation(),
            view_ready: self.is_view_ready(),
        })
    }

    /// The quote of a shot at what the player sees, for the origin's check. `stream`: what the origin has told its players its
    /// stream is called; 0 where it tells nothing. `target`: who is aimed at, by slot and name; `None` where the origin is to
    /// find out who is hit. `None` while such requests are paused, and where the target is not in the picture (SPEC PLY5, PLY8).
    ///
    /// A target whose pose is not one of the time quoted is quoted as it is shown; the origin refuses it (SPEC ENT2).
    #[must_use]
    pub fn quote(&self, stream: u32, target: Option<(Slot, Entity)>) -> Option<Quote> {
        let seen = self.seen()?;
        let target = match target {
            Some((slot, entity)) => {
                let at = self.drawn_at(slot, entity)?.at;
                Some(Target {
                    entity,
                    segment: at.segment,
                    sight: match at.mode {
                        PoseMode::Interpolated | PoseMode::Resting => Sight::Interpolated,
                        PoseMode::Extrapolated => Sight::Extrapolated,
                        PoseMode::Stale => Sight::Stale,
                        PoseMode::Missing => Sight::Missing,
                    },
                })
            }
            None => None,
        };
        Some(Quote {
            stream,
            generation: seen.playback_generation,
            r_us: seen.r_us,
            view_ready: seen.view_ready,
            target,
        })
    }

    /// True when everybody in view is known and nobody query-critical is Stale or Missing (SPEC ENT7).
    #[must_use]
    pub fn is_view_ready(&self) -> bool {
        self.view_complete && self.critical_ready && self.clock.mode() != ClockMode::Waiting
    }

    /// Members whose present segment has no state: their complete records are to be asked for (SPEC ENT2).
    pub fn wanted(&self) -> impl Iterator<Item = Entity> + '_ {
        let missing = |track: &&Track| {
            track.end.is_none()
                && track.shown.is_some_and(|shown| shown.mode == PoseMode::Missing)
                && track.history.lacks_state()
        };
        self.tracks.iter().filter(missing).map(|track| track.entity)
    }

    /// What playback does.
    #[must_use]
    pub fn mode(&self) -> ClockMode {
        self.clock.mode()
    }

    /// r, server microseconds; `None` before the first anchor of a stream.
    #[must_use]
    pub fn r_us(&self) -> Option<u64> {
        self.clock.r_us()
    }

    /// The playback generation.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.clock.generation()
    }

    /// The rate of playback, in real time; 0 while it stands.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.clock.rate()
    }

    /// The time of the newest snapshot that can be here by now, server microseconds.
    #[must_use]
    pub fn server_us(&self, now_us: u64) -> Option<u64> {
        self.estimate.at(now_us)
    }

    /// D, and where it goes, microseconds.
    #[must_use]
    pub fn delay_us(&self) -> (u64, u64) {
        (self.delay.delay_us(), self.delay.target_us())
    }

    /// T, microseconds.
    #[must_use]
    pub fn period_us(&self) -> u64 {
        self.delay.period_us()
    }

    /// The time of the newest snapshot, server microseconds.
    #[must_use]
    pub fn latest_us(&self) -> Option<u64> {
        self.timeline.latest()
    }

    /// Events that wait for their time.
    #[must_use]
    pub fn events_waiting(&self) -> usize {
        self.moments.len()
    }

    /// Counters.
    #[must_use]
    pub fn statistics(&self) -> &PlaybackStatistics {
        &self.statistics
    }
}
