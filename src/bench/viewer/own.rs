//! The drawn client's own walker of an arena, predicted: what a player sees of its own inputs, and what corrections do to it.
//!
//! > Tell it of every input that was pushed ([`push`](OwnWalker::push)) and of every datagram taken
//! > ([`receive`](OwnWalker::receive)); draw it at each frame ([`draw`](OwnWalker::draw)).
//!
//! The step is the arena's own ([`Walker::step`]) on the map that the scene was made with; of doors the client knows what it
//! has been sent, and an input lasts as long as it says, here and there. What is not the origin's: nothing foresees shots, pads and
//! revivals, nor inputs that are lost. That shows as corrections.
//!
//! What a frame shows of a correction is told from what it shows of inputs: the drawn place moves by at most the way that the
//! inputs played since the frame before go; what is beyond is a jump. Places are metres.

use std::collections::VecDeque;

use crate::bench::series::{Series, SeriesSet};
use crate::client::display::ShownKind;
use crate::client::playback::measure::Measure;
use crate::client::prediction::visible::SmoothingSettings;
use crate::client::prediction::{Authority, Corrected, Predicted, Prediction, Rules};
use crate::client::session::Client;
use crate::scenes::arena::plan::Plan;
use crate::scenes::arena::walker::Walker;
use crate::scenes::arena::{DOOR, STATE};
use crate::scenes::input::Input;
use crate::sequence::Tick;
use crate::state::record::Record;

use super::counts::PredictionFigures;
use super::{INPUTS_MAX, length, micrometres};

/// A door's record is of the door of the map at most so far off, metres.
const DOOR_NEAR_M: f64 = 0.5;

/// Which arena: what its map follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaMap {
    /// Bots of the scene.
    pub bots: usize,
    /// The scene's seed.
    pub seed: u64,
}

/// How a walker goes on its map.
#[derive(Debug)]
pub struct Footing {
    plan: Plan,
}

impl Rules for Footing {
    type State = Walker;
    type Input = Input;

    fn apply(&self, state: &mut Walker, input: &Input) {
        // Whether it fires is the origin's to say.
        let _ = state.step(input, input.seconds(), &self.plan);
    }

    fn place(&self, state: &Walker) -> [f64; 3] {
        state.pose.position
    }
}

/// What the frame before showed.
#[derive(Clone, Copy, Debug)]
struct Shown {
    place: [f64; 3],
    /// Of the way of all inputs, what was played by then.
    way_m: f64,
}

/// The own walker of one session.
#[derive(Debug)]
pub struct OwnWalker {
    map: ArenaMap,
    input_us: u64,
    /// Inputs are rarer than frames: the way of the last is drawn bit by bit.
    glides: bool,
    stream: u32,
    owner_tick: Option<Tick>,
    /// From the first state of the own entity on.
    prediction: Option<Prediction<Footing>>,
    pushed_us: u64,
    /// Inputs that are played and in no frame yet: when each was pushed.
    undrawn: VecDeque<u64>,
    /// The way of all inputs, each as it was played first, and that of the last alone.
    way_m: f64,
    last_way_m: f64,
    shown: Option<Shown>,
    figures: PredictionFigures,
}

impl OwnWalker {
    /// The walker of a client that pushes an input every `input_us` and draws a frame every `frame_us`.
    #[must_use]
    pub fn new(map: ArenaMap, input_us: u64, frame_us: u64) -> OwnWalker {
        OwnWalker {
            map,
            input_us,
            // Timers that are meant to be equal differ by a rounding.
            glides: input_us > frame_us + frame_us / 4,
            stream: 0,
            owner_tick: None,
            prediction: None,
            pushed_us: 0,
            undrawn: VecDeque::new(),
            way_m: 0.0,
            last_way_m: 0.0,
            shown: None,
            figures: PredictionFigures::default(),
        }
    }

    /// An input was pushed: it is played at once.
    pub fn push(&mut self, number: u32, input: Input, now_us: u64) {
        let Some(prediction) = &mut self.prediction else {
            return;
        };
        let before = prediction.state().pose.position;
        if prediction.predict(number, input) != Predicted::Applied {
            self.figures.stalled += 1;
            return;
        }
        self.last_way_m = distance(before, prediction.state().pose.position);
        self.way_m += self.last_way_m;
        self.pushed_us = now_us;
        if self.undrawn.len() < INPUTS_MAX {
            self.undrawn.push_back(now_us);
        }
    }

    /// The client has taken a datagram. `measures`: what it corrects counts.
    pub fn receive(&mut self, client: &Client, measure: &Measure, measures: bool) {
        if client.stream_epoch() != self.stream {
            self.stream = client.stream_epoch();
            (self.owner_tick, self.prediction, self.shown) = (None, None, None);
            self.undrawn.clear();
        }
        self.learn_doors(client, measure);
        let Some(owner) = client.owner() else { return };
        if self.owner_tick == Some(owner.tick) {
            return;
        }
        self.owner_tick = Some(owner.tick);
        let Some(walker) = walker_of(&owner.record, measure) else {
            return;
        };
        let prediction = self.prediction.get_or_insert_with(|| {
            let footing = Footing {
                plan: Plan::new(self.map.bots, self.map.seed),
            };
            Prediction::new(footing, SmoothingSettings::default(), walker.clone())
        });
        let before = prediction.counts();
        let corrected = prediction.correct(Authority::of_owner(self.stream, &owner, walker));
        if corrected == Corrected::Jumped {
            self.shown = None;
        }
        if measures {
            self.figures.count(&before, &prediction.counts());
        }
    }

    /// Doors that opened and shut, as far as the client knows.
    fn learn_doors(&mut self, client: &Client, measure: &Measure) {
        let Some(prediction) = &mut self.prediction else {
            return;
        };
        let plan = &mut prediction.rules_mut().plan;
        let told = client.changes().iter();
        let told = told.filter(|shown| matches!(shown.kind, ShownKind::Entered | ShownKind::Updated));
        for known in told.filter_map(|shown| client.display().known(shown.slot)) {
            if known.record.class != DOOR {
                continue;
            }
            let Some(motion) = &known.record.motion else {
                continue;
            };
            let [x, y, _] = measure.pose(motion).position;
            let is_here = |centre: [f64; 2]| distance([centre[0], centre[1], 0.0], [x, y, 0.0]) < DOOR_NEAR_M;
            if let Some(door) = plan.doors().iter().position(|door| is_here(door.centre)) {
                plan.set_shut(door, known.record.extras[STATE] == 0);
            }
        }
    }

    /// A frame is drawn, `passed_us` after the one before. `measures`: it counts.
    pub fn draw(&mut self, now_us: u64, passed_us: u64, measures: bool, series: &mut SeriesSet) {
        let Some(prediction) = &mut self.prediction else {
            return;
        };
        let part = if self.glides {
            now_us.saturating_sub(self.pushed_us) as f64 / self.input_us as f64
        } else {
            1.0
        };
        let place = prediction.frame(passed_us, part);
        let before = self.shown.replace(Shown {
            place,
            way_m: self.way_m,
        });
        let pushed = self.undrawn.drain(..);
        if !measures {
            return;
        }
        for pushed_us in pushed {
            series.record(Series::InputPredicted, now_us.saturating_sub(pushed_us));
        }
        self.figures.frames += 1;
        let error = micrometres(prediction.error().length_m());
        self.figures.error_max_um = self.figures.error_max_um.max(error);
        if let Some(before) = before {
            // What glides is behind by a part of the last input.
            let behind_m = if self.glides { self.last_way_m } else { 0.0 };
            let explained_m = self.way_m - before.way_m + behind_m;
            let beyond_m = distance(before.place, place) - explained_m;
            self.figures.jump_max_um = self.figures.jump_max_um.max(micrometres(beyond_m.max(0.0)));
        }
    }

    /// The prediction, once there is one.
    #[must_use]
    pub fn prediction(&self) -> Option<&Prediction<Footing>> {
        self.prediction.as_ref()
    }

    /// What was counted.
    #[must_use]
    pub fn figures(&self) -> PredictionFigures {
        self.figures
    }
}

/// The walker of a record, as far as its steps depend on it; `None` before it was observed.
fn walker_of(record: &Record, measure: &Measure) -> Option<Walker> {
    let motion = record.motion.as_ref()?;
    let [x, y, z] = measure.pose(motion).position;
    let mut walker = Walker::new(record.entity, 0, [x, y]);
    walker.pose.segment = record.segment;
    walker.pose.position[2] = z;
    walker.pose.velocity = measure.velocity(motion);
    walker.health = u8::try_from(record.extras[0]).unwrap_or(u8::MAX);
    Some(walker)
}

fn distance(from: [f64; 3], to: [f64; 3]) -> f64 {
    length([0, 1, 2].map(|axis| to[axis] - from[axis]))
}

#[cfg(test)]
mod tests;
