//! Playback of one stream: from what a client receives to what a game draws.
//!
//! > Call [`Playback::receive`] after every
//! > [`Client::receive`](crate::client::session::Client::receive), hand the world's events to [`Playback::hold`], call
//! > [`Playback::frame`] once for each frame drawn, and draw [`Playback::drawn`]. Time is an argument, the clock of `now_us` is
//! > the one the client is given. Nothing here allocates once as many entities were seen as there are, as far behind as it gets.
//!
//! A request that depends on what the player saw quotes [`Playback::seen`], and only while that says it may; a shot puts
//! [`Playback::quote`] into its input (SPEC PLY8, ENT7).
//!
//! Invariant: what is drawn of a frame is all of one r. While playback is Frozen or Waiting it is that of the frame before
//! (SPEC ENT5); after [`Playback::adopt`] that of the session before, as stale, until there is a picture of the new one.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use super::clock::{ClockMode, FrameInputs, PlaybackClock, Transition};
use super::delay::AdaptiveDelay;
use super::estimate::ServerEstimate;
use super::evaluate::{Evaluated, PoseMode, Scene};
use super::history::{Observed, Segment};
use super::measure::Measure;
use super::moments::{Due, Moments};
use super::settings::{PlaybackSettings, tier_period_us};
use super::timeline::{Placed, Timeline};
use super::track::{End, LIVES, TrackIndex, Tracks};
use crate::client::display::Absence;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::record::Record;
use crate::state::schema::Schema;
use crate::state::slots::Slot;
use crate::state::update::Event;

/// Turns of the clock that are kept for a game that fetches none; the oldest goes above.
const TURNS_MAX: usize = 64;

/// An entity of the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// Its slot.
    pub slot: Slot,
    /// Who it is.
    pub entity: Entity,
    /// Index into the schema's classes.
    pub class: u8,
    /// Its rate tier: it changes every 2^tier ticks (SPEC CTL5).
    pub tier: u8,
    /// What it looks like.
    pub at: Evaluated,
}

/// What the player sees: what a request about the past quotes (SPEC PLY8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The stream.
    pub stream_epoch: u32,
    /// r, server microseconds.
    pub r_us: u64,
    /// The playback generation.
    pub playback_generation: u32,
    /// Nothing that a request could hit or be hidden by is Stale or Missing (SPEC ENT7).
    pub view_ready: bool,
}

/// What a frame changed of who is drawn, in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Where.
    pub slot: Slot,
    /// Who.
    pub entity: Entity,
    /// What happened.
    pub kind: TurnedKind,
}

/// A change of who is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedKind {
    /// Drawn for the first time, at or after its birth.
    Appeared,
    /// Another segment: what was drawn before is elsewhere (SPEC ENT4).
    Switched {
        /// The segment.
        segment: u32,
        /// It was heard of when it had begun in the picture already: a visible correction.
        late: bool,
    },
    /// Drawn no more.
    Departed(Absence),
}

/// What playback counted since it began. Times are microseconds of the caller's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaybackStatistics {
    /// Frames drawn.
    pub frames: u64,
    /// Time of frames by mode.
    pub playing_us: u64,
    /// Frozen.
    pub frozen_us: u64,
    /// Waiting.
    pub waiting_us: u64,
    /// Jumps of r, the first of a stream included.
    pub anchors: u64,
    /// Segments heard of after they had begun in the picture (SPEC ENT4).
    pub corrections: u64,
    /// Snapshots newer than all before.
    pub snapshots_newer: u64,
    /// Snapshots that came late.
    pub snapshots_late: u64,
    /// Events void with their stream.
    pub events_void: u64,
    /// Stays that were ended early, as too many were kept of one slot.
    pub stays_cut: u64,
}

/// Playback of one stream.
#[derive(Clone, Debug)]
pub struct Playback {
    settings: PlaybackSettings,
    measure: Option<Measure>,
    stream_epoch: u32,
    clock: PlaybackClock,
    timeline: Timeline,
    estimate: ServerEstimate,
    delay: AdaptiveDelay,
    tracks: Tracks,
    /// What was drawn of the session before, until the first picture of this one.
    kept: Vec<Drawn>,
    /// Observations kept of one entity.
    observations: usize,
    moments: Moments,
    turns: VecDeque<Transition>,
    turned: Vec<Turned>,
    frame_us: Option<u64>,
    own: Option<Entity>,
    owner_tick: Option<Tick>,
    view_complete: bool,
    critical_ready: bool,
    statistics: PlaybackStatistics,
}

impl Playback {
    /// A playback without a stream.
    #[must_use]
    pub fn new(settings: PlaybackSettings) -> Playback {
        Playback {
            measure: None,
            stream_epoch: 0,
            clock: PlaybackClock::default(),
            timeline: Timeline::new(settings.timeline),
            estimate: ServerEstimate::default(),
            delay: AdaptiveDelay::new(1),
            tracks: Tracks::default(),
            kept: Vec::new(),
            observations: settings.history,
            moments: Moments::default(),
            turns: VecDeque::with_capacity(TURNS_MAX),
            turned: Vec::new(),
            frame_us: None,
            own: None,
            owner_tick: None,
            view_complete: false,
            critical_ready: false,
            statistics: PlaybackStatistics::default(),
            settings,
        }
    }

    /// A new stream: a new timeline. What is drawn of the old one goes at once, and what waits of it is void (SPEC PLY7).
    pub fn begin_stream(&mut self, stream_epoch: u32, schema: &Schema) {
        let measure = Measure::new(schema);
        self.delay = AdaptiveDelay::new(measure.period_us());
        self.estimate = ServerEstimate::default();
        self.timeline = Timeline::new(self.settings.kept_at(measure.period_us(), self.settings.timeline));
        self.observations = self.settings.kept_at(measure.period_us(), self.settings.history);
        self.tracks.clear();
        self.kept.clear();
        self.turned.clear();
        self.statistics.events_void += self.moments.clear() as u64;
        self.measure = Some(measure);
        self.stream_epoch = stream_epoch;
        (self.own, self.owner_tick) = (None, None);
        (self.view_complete, self.critical_ready) = (false, false);
        let turns = &mut self.turns;
        self.clock.begin_stream(&mut |turn| tell(turns, turn));
    }

    /// The snapshot of `server_us` decoded at `now_us`. Its entities follow.
    pub fn take_snapshot(&mut self, server_us: u64, now_us: u64) {
        self.take_part(server_us, true, now_us);
    }

    /// A part of the snapshot of `server_us` decoded at `now_us`; `whole` where it was the last one missing. Its entities follow. A
    /// rest is vouched for by whole snapshots, and by [`take_vouched`](Playback::take_vouched).
    pub fn take_part(&mut self, server_us: u64, whole: bool, now_us: u64) {
        match self.timeline.insert(server_us, whole, self.clock.r_us()) {
            Placed::Newest => {
                self.statistics.snapshots_newer += 1;
                self.delay.arrive(server_us, now_us);
                self.estimate.arrive(&self.settings, server_us, now_us);
            }
            Placed::Filled => self.statistics.snapshots_late += 1,
            Placed::Known => {}
        }
    }

    /// Everything that is to be seen is known from here on (SPEC DEC12); before, no view is ready.
    pub fn take_complete_view(&mut self) {
        self.view_complete = true;
    }

    /// A member entered, by the snapshot of `as_of_us`.
    pub fn take_entered(&mut self, slot: Slot, record: &Record, as_of_us: u64) {
        let entity = record.entity;
        let mut not_before_us = record.born_us;
        let newest = self.tracks.of_slot(slot).next();
        match newest.map(|(index, before)| (index, before.entity == entity, before.end)) {
            Some((_, true, None)) => return self.take_record(slot, record),
            Some((_, true, Some(end))) => not_before_us = not_before_us.max(end.at_us),
            Some((index, false, None)) => self.end(index, as_of_us, Absence::Unheard),
            Some((_, false, Some(_))) | None => {}
        }
        let stays = self.tracks.of_slot(slot).count();
        let oldest = self.tracks.of_slot(slot).last().map(|(index, _)| index);
        if let Some(oldest) = oldest.filter(|_| stays >= LIVES) {
            self.depart(oldest);
            self.statistics.stays_cut += 1;
        }
        let index = self.tracks.begin(slot, entity);
        if let Some(track) = self.tracks.get_mut(index) {
            track.not_before_us = not_before_us;
            // Where nothing was observed yet it is there from the snapshot on.
            track.starts_us = match &record.motion {
                Some(motion) => motion.observed_us.max(not_before_us),
                None => as_of_us.max(not_before_us),
            };
        }
        self.put(index, record);
        if let Some(track) = self.tracks.get_mut(index) {
            track.switched_late = false;
        }
    }

    /// A record of a member, of whatever age.
    pub fn take_record(&mut self, slot: Slot, record: &Record) {
        if let Some(index) = self.tracks.find(slot, record.entity) {
            self.put(index, record);
        }
    }

    fn put(&mut self, index: TrackIndex, record: &Record) {
        let r_us = self.clock.r_us();
        let most = self.observations;
        let Some(track) = self.tracks.get_mut(index) else {
            return;
        };
        let segment = Segment {
            id: record.segment,
            start_us: record.segment_us,
        };
        let before = r_us.and_then(|r| track.history.segment_at(r));
        track.history.begin_segment(segment, &self.timeline);
        let after = r_us.and_then(|r| track.history.segment_at(r));
        track.switched_late |= before.is_some() && before != after && track.shown.is_some();
        track.class = record.class;
        if let Some(motion) = record.motion {
            let starts_us = motion.observed_us.max(track.not_before_us);
            track.starts_us = track.starts_us.min(starts_us);
            let observed = Observed {
                segment: record.segment,
                motion,
            };
            track.history.insert(observed, most, r_us, &self.timeline);
        }
        self.tracks.set_tier(index, record.tier);
    }

    /// The snapshot of `as_of_us` has a record of a member: one that says *at rest* vouches for it until then, whatever else of
    /// that snapshot is missing (SPEC ENT9).
    pub fn take_vouched(&mut self, slot: Slot, record: &Record, as_of_us: u64) {
        if let Some(motion) = record.motion.filter(|motion| motion.at_rest)
            && let Some(index) = self.tracks.find(slot, record.entity)
            && let Some(track) = self.tracks.get_mut(index)
        {
            track.history.vouch(motion.observed_us, as_of_us);
        }
    }

    /// A member is at rest no longer, by the snapshot of `as_of_us`; how it moves is not known yet (SPEC ENT9).
    pub fn take_awake(&mut self, slot: Slot, entity: Entity, as_of_us: u64) {
        if let Some(index) = self.tracks.find(slot, entity)
            && let Some(track) = self.tracks.get_mut(index)
        {
            track.history.wake(as_of_us, &self.timeline);
        }
    }

    /// A member is gone, by the snapshot of `as_of_us`. It is drawn until r has come to its end.
    pub fn take_removed(&mut self, slot: Slot, entity: Entity, absence: Absence, as_of_us: u64) {
        let at_us = match absence {
            Absence::Destroyed { at_us, .. } => at_us,
            _ => as_of_us,
        };
        if let Some(index) = self.tracks.find(slot, entity) {
            self.end(index, at_us, absence);
        }
    }

    fn end(&mut self, index: TrackIndex, at_us: u64, absence: Absence) {
        if let Some(track) = self.tracks.get_mut(index) {
            track.end.get_or_insert(End { at_us, absence });
            track.history.wake(at_us, &self.timeline);
        }
    }

    fn depart(&mut self, index: TrackIndex) {
        if let Some(track) = self.tracks.get(index)
            && track.shown.is_some()
        {
            self.turned.push(Turned {
                slot: track.slot,
                entity: track.entity,
                kind: TurnedKind::Departed(track.end.map_or(Absence::Unheard, |end| end.absence)),
            });
        }
        self.tracks.drop_track(index);
    }

    /// Keeps an event of the world until the picture has come to its time.
    ///
    /// # Errors
    /// Where no room is, the event that is furthest ahead, this one or another: it is the game's to deal with now.
    pub fn hold(&mut self, event: Event) -> Result<(), Event> {
        self.moments.hold(event, self.settings.events)
    }

    /// The next event whose time has come.
    pub fn poll_due(&mut self) -> Option<Due> {
        self.moments.poll(self.clock.r_us())
    }

    /// The next turn of the clock.
    pub fn poll_turn(&mut self) -> Option<Transition> {
        self.turns.pop_front()
    }

    /// Moves on to the frame that is drawn at `now_us`.
    pub fn frame(&mut self, now_us: u64) {
        self.turned.clear();
        let Some(measure) = &self.measure else { return };
        let passed_us = now_us.saturating_sub(self.frame_us.unwrap_or(now_us));
        self.frame_us = Some(now_us);
        // What may not be extrapolated must be covered by the delay (SPEC DEC2, CTL5).
        let slowest_us = match self.tracks.slowest_tier() {
            tier if tier > 0 && !measure.has_velocity() => tier_period_us(measure.period_us(), tier),
            _ => 0,
        };
        self.delay.advance(&self.settings, now_us, slowest_us);
        if self.clock.mode() == ClockMode::Waiting {
            self.delay.wait();
        }
        let inputs = FrameInputs {
            passed_us,
            estimate_us: self.estimate.advance(&self.settings, now_us),
            delay_us: self.delay.delay_us(),
            period_us: self.delay.period_us(),
            timeline: &self.timeline,
        };
        let turns = &mut self.turns;
        let mut anchors = 0;
        let evaluate = self.clock.advance(&self.settings, &inputs, &mut |turn| {
            anchors += u64::from(matches!(turn, Transition::Anchored { .. }));
            tell(turns, turn);
        });
        self.statistics.anchors += anchors;
        self.statistics.frames += 1;
        let in_mode_us = match self.clock.mode() {
            ClockMode::Playing => &mut self.statistics.playing_us,
            ClockMode::Frozen => &mut self.statistics.frozen_us,
            ClockMode::Waiting => &mut self.statistics.waiting_us,
        };
        *in_mode_us = in_mode_us.saturating_add(passed_us);
        if let (true, Some(r_us)) = (evaluate, self.clock.r_us()) {
            self.timeline.forget_before(r_us);
            self.evaluate(r_us);
            if !self.kept.is_empty() {
                self.hand_over();
            }
        }
    }

    /// Evaluates every track at r.
    fn evaluate(&mut self, r_us: u64) {
        let Some(measure) = &self.measure else { return };
        let scene = Scene {
            r_us,
            whole_us: self.timeline.latest_whole().unwrap_or(0),
            measure,
            blend: self.settings.blend,
        };
        let mut ready = true;
        let mut over = false;
        for index in 0..self.tracks.places() {
            let Some(track) = self.tracks.get_mut(index) else {
                continue;
            };
            if track.end.is_some_and(|end| end.at_us <= r_us) {
                over = true;
                continue;
            }
            if r_us < track.starts_us {
                continue;
            }
            let allowance_us = self.settings.allowance_us(measure.period_us(), track.tier);
            let before = track.shown;
            track.shown = scene.evaluate(&track.history, allowance_us);
            track.history.forget_before(r_us);
            let Some(shown) = track.shown else { continue };
            let kind = match before {
                None => Some(TurnedKind::Appeared),
                Some(before) if before.segment != shown.segment => Some(TurnedKind::Switched {
                    segment: shown.segment,
                    late: track.switched_late,
                }),
                Some(_) => None,
            };
            if let Some(kind) = kind {
                self.statistics.corrections += u64::from(track.switched_late);
                track.switched_late = false;
                self.turned.push(Turned {
                    slot: track.slot,
                    entity: track.entity,
                    kind,
                });
            }
            let lacks = matches!(shown.mode, PoseMode::Stale | PoseMode::Missing);
            if lacks && measure.is_critical(track.class) && self.own != Some(track.entity) {
                ready = false;
            }
        }
        self.critical_ready = ready;
        if over {
            for index in 0..self.tracks.places() {
                let ended = |end: End| end.at_us <= r_us;
                if self
                    .tracks
                    .get(index)
                    .and_then(|track| track.end)
                    .is_some_and(ended)
                {
                    self.depart(index);
                }
            }
        }
    }
}

fn tell(turns: &mut VecDeque<Transition>, turn: Transition) {
    if turns.len() >= TURNS_MAX {
        turns.pop_front();
    }
    turns.push_back(turn);
}

mod following;
mod reading;
