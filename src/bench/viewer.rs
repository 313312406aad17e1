//! What a player at one client would see: playback sampled as a game draws it, compared with where things were.
//!
//! A pose that says it is true at r is compared with the straight path between the origin's own observations around r. So
//! what playback adds counts, and what the origin did not observe does not. Of large worlds some 64 entities of a
//! frame are compared, always the same ones, so that a step from one frame to the next is one of an entity.
//!
//! Nothing is measured before the first Playing frame, nor in the clean time.

use std::collections::VecDeque;

use super::player::Payload;
use super::series::{Series, SeriesSet};
use super::truth::TruthReader;
use crate::client::playback::clock::{ClockMode, Transition};
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::measure::Measure;
use crate::client::playback::pose::line;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::{Drawn, Playback};
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::record::Motion;

pub mod continuity;
pub mod counts;
#[cfg(feature = "scenes")]
pub mod own;
pub mod strip;

use continuity::Continuity;
use counts::{PredictionFigures, ViewerCounts};
#[cfg(feature = "scenes")]
use own::{ArenaMap, OwnWalker};
use strip::Strip;

/// Entities of a frame that are compared with the truth, about.
const COMPARED: usize = 64;
/// Ticks around r that are looked through for an observation.
const TICKS_AROUND: usize = 24;
/// Inputs that wait to be seen.
const INPUTS_MAX: usize = 1024;

/// What the clients of a run draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenderSettings {
    /// Frames a second.
    pub fps: f64,
    /// The arena that is published, where one of this process is: own entities are predicted there.
    #[cfg(feature = "scenes")]
    pub arena: Option<ArenaMap>,
}

/// One client's player.
#[derive(Debug)]
pub struct Viewer {
    playback: Playback,
    measure: Option<Measure>,
    stream: u32,
    every_us: u64,
    next_us: u64,
    drawn_us: Option<u64>,
    r_us: Option<u64>,
    continuity: Continuity,
    began: bool,
    /// Inputs that are not in the picture yet: number and when each was pushed.
    inputs: VecDeque<(u32, u64)>,
    /// States of the own entity that r has not come to: their time, and the last input in each.
    owned: VecDeque<(u64, u32)>,
    /// The own entity, predicted.
    #[cfg(feature = "scenes")]
    own: Option<OwnWalker>,
    /// What is drawn of one entity, for the plot.
    strip: Option<Strip>,
    counts: ViewerCounts,
}

impl Viewer {
    /// A viewer of a client that pushes `input_hz` inputs a second; one with a strip notes a part of it for the plot.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn new(settings: &RenderSettings, input_hz: f64, plots: bool) -> Viewer {
        let every_us = (1e6 / settings.fps) as u64;
        #[cfg(feature = "scenes")]
        let own = settings.arena.filter(|_| input_hz > 0.0);
        #[cfg(not(feature = "scenes"))]
        let _ = input_hz;
        Viewer {
            playback: Playback::new(PlaybackSettings::default()),
            measure: None,
            stream: 0,
            every_us,
            next_us: 0,
            drawn_us: None,
            r_us: None,
            continuity: Continuity::default(),
            began: false,
            inputs: VecDeque::new(),
            owned: VecDeque::new(),
            #[cfg(feature = "scenes")]
            own: own.map(|map| OwnWalker::new(map, (1e6 / input_hz) as u64, every_us)),
            strip: plots.then(Strip::default),
            counts: ViewerCounts::default(),
        }
    }

    /// When the next frame is drawn.
    #[must_use]
    pub fn due_us(&self) -> u64 {
        self.next_us
    }

    /// An input was pushed.
    pub fn pushed(&mut self, number: u32, payload: &Payload, now_us: u64) {
        if self.inputs.len() < INPUTS_MAX {
            self.inputs.push_back((number, now_us));
        }
        #[cfg(feature = "scenes")]
        if let (Some(own), Payload::Scene(input)) = (&mut self.own, payload) {
            own.push(number, *input, now_us);
        }
        #[cfg(not(feature = "scenes"))]
        let _ = payload;
    }

    /// The client has taken a datagram. `measures`: what it does counts.
    pub fn receive(&mut self, client: &Client, now_us: u64, measures: bool) {
        if client.stream_epoch() != self.stream {
            self.stream = client.stream_epoch();
            self.measure = client.schema().map(Measure::new);
            (self.r_us, self.drawn_us) = (None, None);
            self.continuity.clear();
            self.inputs.clear();
            self.owned.clear();
        }
        self.playback.receive(client, now_us);
        if let Some(owner) = client.owner()
            && self
                .owned
                .back()
                .is_none_or(|(at_us, _)| *at_us < owner.server_us)
        {
            if self.owned.len() >= INPUTS_MAX {
                self.owned.pop_front();
            }
            self.owned.push_back((owner.server_us, owner.processed));
        }
        #[cfg(feature = "scenes")]
        if let (Some(own), Some(measure)) = (&mut self.own, &self.measure) {
            own.receive(client, measure, measures && self.began);
        }
        #[cfg(not(feature = "scenes"))]
        let _ = measures;
        if let (Some(strip), Some(measure)) = (&mut self.strip, &self.measure) {
            strip.receive(client, measure);
        }
    }

    /// Draws a frame, if one is due. `measures`: it counts. `stream`: the truth's number of the client's stream.
    pub fn turn(
        &mut self,
        now_us: u64,
        truth: Option<(&TruthReader, u32)>,
        measures: bool,
        series: &mut SeriesSet,
    ) {
        if now_us < self.next_us {
            return;
        }
        // A bench that is late draws the next frame when a game would: frames are not caught up with.
        self.next_us = (self.next_us + self.every_us).max(now_us + self.every_us / 2);
        let passed_us = now_us - self.drawn_us.replace(now_us).unwrap_or(now_us);
        self.playback.frame(now_us);
        while let Some(turn) = self.playback.poll_turn() {
            let jumps = matches!(turn, Transition::Anchored { from_us: Some(_), .. });
            self.counts.reanchors += u64::from(jumps && measures);
        }
        let mode = self.playback.mode();
        self.began |= mode == ClockMode::Playing;
        #[cfg(feature = "scenes")]
        if let Some(own) = &mut self.own {
            own.draw(now_us, passed_us, self.began && measures, series);
        }
        if !self.began || !measures {
            self.r_us = self.playback.r_us();
            return;
        }
        self.counts.frames += 1;
        self.counts.clock_us[mode as usize] += passed_us;
        series.record(Series::RenderDelay, self.playback.delay_us().0);
        let r_us = self.playback.r_us();
        self.counts.backward_steps +=
            u64::from(self.r_us.zip(r_us).is_some_and(|(before, now)| now < before));
        self.see_inputs(now_us, series);
        if r_us != self.r_us
            && let Some(r_us) = r_us
        {
            self.look(r_us, truth, series);
        }
        self.r_us = r_us;
    }

    /// Inputs that are in the picture now: in a state of the own entity that r has come to.
    fn see_inputs(&mut self, now_us: u64, series: &mut SeriesSet) {
        let Some(r_us) = self.playback.r_us() else {
            return;
        };
        while let Some((_, processed)) = self.owned.front().copied().filter(|(at_us, _)| *at_us <= r_us) {
            while let Some((number, pushed_us)) = self.inputs.front().copied()
                && number <= processed
            {
                series.record(Series::InputPicture, now_us.saturating_sub(pushed_us));
                self.inputs.pop_front();
            }
            // The newest stays: it is not taken again.
            if self.owned.len() == 1 {
                return;
            }
            self.owned.pop_front();
        }
    }

    fn look(&mut self, r_us: u64, truth: Option<(&TruthReader, u32)>, series: &mut SeriesSet) {
        let Some(measure) = &self.measure else { return };
        self.continuity.begin();
        let among = self.continuity.known() / COMPARED;
        let stride = u16::try_from(among).unwrap_or(u16::MAX).max(1);
        for drawn in self.playback.drawn() {
            let Drawn { slot, entity, at, .. } = drawn;
            self.counts.samples += 1;
            self.counts.poses[at.mode as usize] += 1;
            let followed = self
                .strip
                .as_ref()
                .is_some_and(|strip| strip.follows(slot, entity));
            let compared = at.mode != PoseMode::Missing && (slot % stride == 0 || followed);
            let real = truth
                .filter(|_| compared)
                .and_then(|(reader, stream)| position_at(reader, measure, stream, r_us, entity, at.segment));
            let error = at
                .pose
                .zip(real)
                .map(|(pose, real)| [0, 1, 2].map(|axis| pose.position[axis] - real[axis]));
            if let Some(error) = error.filter(|_| at.valid_at_r) {
                series.record(Series::PoseError, micrometres(length(error)));
            }
            let step = self.continuity.step(&drawn, error);
            self.counts.backward_steps += u64::from(step.fell);
            self.counts.discontinuities += u64::from(step.popped);
            if let (Some(strip), Some(pose)) = (&mut self.strip, at.pose) {
                strip.draw(slot, entity, r_us, at.mode, pose.position, real);
            }
        }
    }

    #[cfg(feature = "scenes")]
    fn prediction_figures(&self) -> PredictionFigures {
        self.own.as_ref().map(OwnWalker::figures).unwrap_or_default()
    }

    #[cfg(not(feature = "scenes"))]
    fn prediction_figures(&self) -> PredictionFigures {
        PredictionFigures::default()
    }

    /// What was counted, and the strip.
    #[must_use]
    pub fn into_parts(self) -> (ViewerCounts, Option<Strip>) {
        let prediction = self.prediction_figures();
        let counts = ViewerCounts {
            prediction,
            ..self.counts
        };
        (counts, self.strip)
    }
}

/// Where an entity was at `r_us`: on the straight line between the origin's observations around it; where it rested if it
/// rested. `None` where nothing kept says so.
fn position_at(
    reader: &TruthReader,
    measure: &Measure,
    stream: u32,
    r_us: u64,
    entity: Entity,
    segment: u32,
) -> Option<[f64; 3]> {
    let motion_in = |truth| {
        let (_, record) = reader.find(truth, entity)?;
        record.motion.filter(|_| record.segment == segment)
    };
    let mut from = None;
    let mut right: Option<Motion> = None;
    let mut rests = None;
    for truth in reader.since(stream, r_us).take(TICKS_AROUND) {
        from.get_or_insert(truth.number);
        let Some(motion) = motion_in(truth) else { break };
        if motion.observed_us >= r_us {
            right = Some(motion);
            break;
        }
        rests = motion.at_rest.then_some(motion);
    }
    let Some(right) = right else {
        return rests.map(|motion| measure.pose(&motion).position);
    };
    let before = (1..=TICKS_AROUND as u64).map_while(|back| reader.numbered(from?.checked_sub(back)?));
    let left = before
        .take_while(|truth| truth.stream == stream)
        .map_while(motion_in)
        .find(|motion| motion.observed_us <= r_us)?;
    let (a, b) = (measure.pose(&left).position, measure.pose(&right).position);
    if left.at_rest || right.observed_us == left.observed_us {
        return Some(if left.at_rest && right.observed_us > r_us {
            a
        } else {
            b
        });
    }
    #[allow(clippy::cast_precision_loss)]
    let t = (r_us - left.observed_us) as f64 / (right.observed_us - left.observed_us) as f64;
    Some(line(a, b, t))
}

fn length(v: [f64; 3]) -> f64 {
    v.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn micrometres(metres: f64) -> u64 {
    (metres * 1e6).round() as u64
}
