//! What viewers counted, and what a report makes of it.

use serde::{Deserialize, Serialize};

use crate::bench::report::Spread;
use crate::client::playback::clock::ClockMode;
use crate::client::playback::evaluate::PoseMode;
use crate::client::prediction::PredictionCounts;

/// Counts of one viewer; those of several add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerCounts {
    /// Frames drawn.
    pub frames: u64,
    /// Entities drawn in them.
    pub samples: u64,
    /// Frames at which r fell, and entities drawn at an earlier time than in the frame before.
    pub backward_steps: u64,
    /// Entities that are true and whose error changed by more than 10 cm from one picture to the next; a frozen picture is one.
    pub discontinuities: u64,
    /// Jumps of r, but for the first of a stream.
    pub reanchors: u64,
    /// Time by [`ClockMode`]: waiting, playing, frozen, microseconds.
    pub clock_us: [u64; 3],
    /// Entities drawn by [`PoseMode`]: interpolated, extrapolated, resting, stale, missing.
    pub poses: [u64; 5],
    /// The own entities, where they were predicted.
    pub prediction: PredictionFigures,
}

/// What prediction did to the pictures of own entities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionFigures {
    /// Frames with a predicted pose.
    pub frames: u64,
    /// The server's states taken.
    pub states: u64,
    /// Those after which an error faded: beyond the tiny threshold.
    pub smoothed: u64,
    /// Those too far off to be smoothed.
    pub snapped: u64,
    /// Those of another segment or entity: teleports, revivals.
    pub jumped: u64,
    /// Inputs that were not predicted: the server was too far behind.
    pub stalled: u64,
    /// The largest visible error that was drawn, micrometres.
    pub error_max_um: u64,
    /// The furthest that a drawn place moved from one frame to the next beyond the way of the inputs played between,
    /// teleports and revivals left out, micrometres.
    pub jump_max_um: u64,
}

impl PredictionFigures {
    /// What a correction changed of the prediction's own counts.
    pub fn count(&mut self, before: &PredictionCounts, after: &PredictionCounts) {
        self.states += after.corrections - before.corrections;
        self.smoothed += after.smoothed - before.smoothed;
        self.snapped += after.snapped - before.snapped;
        self.jumped += after.jumped - before.jumped;
    }

    fn add(&mut self, other: &PredictionFigures) {
        self.frames += other.frames;
        self.states += other.states;
        self.smoothed += other.smoothed;
        self.snapped += other.snapped;
        self.jumped += other.jumped;
        self.stalled += other.stalled;
        self.error_max_um = self.error_max_um.max(other.error_max_um);
        self.jump_max_um = self.jump_max_um.max(other.jump_max_um);
    }
}

const _: () = assert!(ClockMode::Frozen as usize == 2 && PoseMode::Missing as usize == 4);

impl ViewerCounts {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &ViewerCounts) {
        self.frames += other.frames;
        self.samples += other.samples;
        self.backward_steps += other.backward_steps;
        self.discontinuities += other.discontinuities;
        self.reanchors += other.reanchors;
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.clock_us, &other.clock_us);
        add(&mut self.poses, &other.poses);
        self.prediction.add(&other.prediction);
    }
}

/// Playback as a report has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Render {
    /// Frames a second of each client.
    pub fps: f64,
    /// Entities drawn.
    pub samples: u64,
    /// See [`ViewerCounts::backward_steps`].
    pub backward_steps: u64,
    /// See [`ViewerCounts::discontinuities`].
    pub discontinuities: u64,
    /// Share of time by mode of the clock, from the first Playing on.
    pub clock_share: ClockShare,
    /// Share of entities drawn by how their pose was come by.
    pub entity_share: EntityShare,
    /// An input is pushed to the first frame that shows it.
    pub input_to_picture_ms: InputToPicture,
    /// What prediction did to the pictures of own entities.
    pub prediction: Predicted,
    /// Valid poses against the straight path between the origin's observations, metres.
    pub pose_error_m: Spread,
    /// D at each frame.
    pub delay_ms: Spread,
    /// Jumps of r, but for the first of a stream.
    pub reanchors: u64,
    /// What the shares come from.
    pub counts: ViewerCounts,
}

/// An input is pushed to the first frame that shows it, without prediction and with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputToPicture {
    /// Without: the frame's r has come to a state that has it. Also beside `predicted` as `confirmed`.
    #[serde(flatten)]
    pub shown: Spread,
    /// The same figures once more.
    pub confirmed: Spread,
    /// With: its own entity's predicted pose has it. Null where nothing was predicted: the scene is not an arena of this
    /// process, or no input was pushed.
    pub predicted: Spread,
}

/// What prediction did to the pictures of own entities; null where nothing was predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The server's states taken.
    pub states: Option<u64>,
    /// Those after which an error faded.
    pub corrections: Option<u64>,
    /// Those too far off to be smoothed.
    pub snapped: Option<u64>,
    /// Those of another segment: teleports, revivals.
    pub relocated: Option<u64>,
    /// Inputs that were not predicted.
    pub stalled: Option<u64>,
    /// The largest visible error that was drawn, metres.
    pub error_max_m: Option<f64>,
    /// See [`PredictionFigures::jump_max_um`], metres.
    pub jump_max_m: Option<f64>,
}

impl Predicted {
    #[allow(clippy::cast_precision_loss)]
    fn of(figures: &PredictionFigures) -> Predicted {
        let known = |figure: u64| (figures.frames > 0).then_some(figure);
        let metres = |um: u64| known(um).map(|um| um as f64 / 1e6);
        Predicted {
            states: known(figures.states),
            corrections: known(figures.smoothed),
            snapped: known(figures.snapped),
            relocated: known(figures.jumped),
            stalled: known(figures.stalled),
            error_max_m: metres(figures.error_max_um),
            jump_max_m: metres(figures.jump_max_um),
        }
    }
}

/// Shares of time; null before the first Playing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockShare {
    /// r moves.
    pub playing: Option<f64>,
    /// r stands at the end of what is known.
    pub frozen: Option<f64>,
    /// Nothing is known of the present.
    pub waiting: Option<f64>,
}

/// Shares of entities drawn; null when none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EntityShare {
    /// Between two observations.
    pub interpolated: Option<f64>,
    /// By the last velocity.
    pub extrapolated: Option<f64>,
    /// At rest.
    pub resting: Option<f64>,
    /// Past the allowance.
    pub stale: Option<f64>,
    /// Without a state.
    pub missing: Option<f64>,
}

impl Render {
    /// What counts come to, but for the spreads, which come from the histograms.
    #[must_use]
    pub fn of(fps: f64, counts: ViewerCounts) -> Render {
        let share = |part: u64, of: &[u64]| {
            let all: u64 = of.iter().sum();
            #[allow(clippy::cast_precision_loss)]
            (all > 0).then(|| part as f64 / all as f64)
        };
        let [waiting, playing, frozen] = counts.clock_us.map(|us| share(us, &counts.clock_us));
        let [interpolated, extrapolated, resting, stale, missing] =
            counts.poses.map(|poses| share(poses, &counts.poses));
        Render {
            fps,
            samples: counts.samples,
            backward_steps: counts.backward_steps,
            discontinuities: counts.discontinuities,
            clock_share: ClockShare {
                playing,
                frozen,
                waiting,
            },
            entity_share: EntityShare {
                interpolated,
                extrapolated,
                resting,
                stale,
                missing,
            },
            reanchors: counts.reanchors,
            prediction: Predicted::of(&counts.prediction),
            counts,
            ..Render::default()
        }
    }
}
