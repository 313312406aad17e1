//! Prediction of the client's own entity, and its correction (SPEC PRE1..PRE3).
//!
//! > Push an input to the [`Client`](super::session::Client) and give it with the number it got to
//! > [`predict`](Prediction::predict): it takes effect at once. Give every state of
//! > [`Client::owner`](super::session::Client::owner) to [`correct`](Prediction::correct); draw what
//! > [`frame`](Prediction::frame) says. In a new session begin with a new prediction.
//!
//! Invariant: the predicted state is the newest authoritative one with every pending input played on it in order, and
//! nothing else; so an error of the past cannot stay, however long a session lasts. A correction plays at most
//! [`PREDICTION_PENDING_MAX`](crate::limits::PREDICTION_PENDING_MAX) inputs again. Past that many nothing is predicted
//! ([`Predicted::Stalled`]): the server's state is shown as it comes until it has caught up (FAULTS 99).
//!
//! An input that is pushed and not predicted is named to [`pass`](Prediction::pass): a state that has more in it than was ever
//! pushed is none of this player's, and is refused ([`Corrected::Unpushed`]).
//!
//! The game's [`Rules`] must be what the server plays, with the same numbers; where they differ, each state that comes
//! shows it as a correction. What a correction does to the picture is [`visible`]'s: the drawn place never jumps, but for a
//! teleport and for errors beyond the snap threshold. Nothing here allocates after construction, if the game's `clone_from` does
//! not. Times are server microseconds, places metres.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::owner::OwnerState;
use crate::sequence::InputNumber;
use crate::state::entity::Entity;
use pending::Pending;
use visible::{Absorbed, SmoothingSettings, VisibleError};

mod pending;
pub mod visible;

#[cfg(test)]
mod tests;

/// What the game gives: how its own entity moves.
pub trait Rules {
    /// All that playing an input reads and changes.
    type State: Clone;
    /// One input.
    type Input;

    /// Plays one input. What it does may depend on its arguments and the rules alone: it is played again at each
    /// correction.
    fn apply(&self, state: &mut Self::State, input: &Self::Input);

    /// Where a state is drawn, metres.
    fn place(&self, state: &Self::State) -> [f64; 3];
}

/// What an authoritative state continues: nothing is smoothed from one of these to another (SPEC ENT4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuity {
    /// Ordinal of the stream: times of two have no order (SPEC PLY7).
    pub stream_epoch: u32,
    /// The client's own entity.
    pub entity: Entity,
    /// Its segment.
    pub segment: u32,
}

/// The owner's state as the server has it (SPEC PRE2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Authority<S> {
    /// When, server microseconds.
    pub server_us: u64,
    /// The last input that is in it; 0 before any.
    pub processed: u32,
    /// What it continues.
    pub continuity: Continuity,
    /// The state.
    pub state: S,
}

impl<S> Authority<S> {
    /// The owner's state of a stream, with what the game has read from its record.
    #[must_use]
    pub fn of_owner(stream_epoch: u32, owner: &OwnerState, state: S) -> Authority<S> {
        Authority {
            server_us: owner.server_us,
            processed: owner.processed,
            continuity: Continuity {
                stream_epoch,
                entity: owner.record.entity,
                segment: owner.record.segment,
            },
            state,
        }
    }
}

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicted {
    /// It took effect.
    Applied,
    /// It or a later one was given before: nothing changed.
    Repeated,
    /// It is kept, but the server is too far behind to predict: see the module.
    Stalled,
}

/// What became of an authoritative state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corrected {
    /// It is older than one that was taken, or that one again: nothing changed.
    Stale,
    /// It says to have an input in it that was never pushed: nothing changed, and prediction goes on from the state before.
    Unpushed,
    /// It was taken, and what is drawn stays or follows.
    Taken(Absorbed),
    /// It was taken; it is of another segment, entity or stream, so what is drawn jumps there.
    Jumped,
}

/// What was counted. Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictionCounts {
    /// Inputs that took effect at once.
    pub applied: u64,
    /// Inputs played again.
    pub replayed: u64,
    /// Inputs that were not predicted for want of an answer from the server.
    pub stalled: u64,
    /// Authoritative states taken.
    pub corrections: u64,
    /// Those older than one taken before.
    pub stale: u64,
    /// Those that named an input which was never pushed.
    pub unpushed: u64,
    /// Those after which an error fades.
    pub smoothed: u64,
    /// Those too far off to be smoothed.
    pub snapped: u64,
    /// Those of another segment, entity or stream.
    pub jumped: u64,
}

/// The newest authoritative state.
#[derive(Debug)]
struct Base<S> {
    state: S,
    /// Of what the server said last; `None` before it did.
    said: Option<Said>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    server_us: u64,
    processed: InputNumber,
    continuity: Continuity,
}

/// The client's own entity, ahead of the server.
#[derive(Debug)]
pub struct Prediction<R: Rules> {
    rules: R,
    smoothing: SmoothingSettings,
    base: Base<R::State>,
    pending: Pending<R::Input>,
    /// The newest input that was predicted or passed.
    pushed: Option<InputNumber>,
    predicted: R::State,
    /// Where the predicted state was before its last input.
    before: [f64; 3],
    error: VisibleError,
    /// Which part of the way from `before` was drawn last.
    part: f64,
    counts: PredictionCounts,
}

impl<R: Rules> Prediction<R> {
    /// A prediction that begins from a state, without anything said of it by the server.
    #[must_use]
    pub fn new(rules: R, smoothing: SmoothingSettings, state: R::State) -> Prediction<R> {
        let before = rules.place(&state);
        Prediction {
            rules,
            smoothing,
            predicted: state.clone(),
            base: Base { state, said: None },
            pending: Pending::new(),
            pushed: None,
            before,
            error: VisibleError::default(),
            part: 1.0,
            counts: PredictionCounts::default(),
        }
    }

    /// Plays an input at once and keeps it until the server has processed it (SPEC PRE1). `number` is what
    /// [`push_input`](super::session::Client::push_input) gave; numbers rise, and may leave some out.
    pub fn predict(&mut self, number: u32, input: R::Input) -> Predicted {
        let number = InputNumber(number);
        if !self.note_pushed(number) {
            return Predicted::Repeated;
        }
        self.pending.push(number, input);
        if self.pending.has_gap() {
            self.counts.stalled += 1;
            return Predicted::Stalled;
        }
        self.before = self.rules.place(&self.predicted);
        self.part = 0.0;
        if let Some((_, input)) = self.pending.iter().last() {
            self.rules.apply(&mut self.predicted, input);
        }
        self.counts.applied += 1;
        Predicted::Applied
    }

    /// An input was pushed that is not predicted: one that moves nothing.
    pub fn pass(&mut self, number: u32) {
        self.note_pushed(InputNumber(number));
    }

    /// Notes the number of an input that was pushed; false when it or a later one was before.
    fn note_pushed(&mut self, number: InputNumber) -> bool {
        if self.pushed.is_some_and(|pushed| !number.is_after(pushed)) {
            return false;
        }
        // What a state said before anything was pushed could not be judged then.
        if let Some(said) = self
            .base
            .said
            .as_mut()
            .filter(|said| !number.is_after(said.processed))
        {
            said.processed = InputNumber(number.0.wrapping_sub(1));
            self.counts.unpushed += 1;
        }
        self.pushed = Some(number);
        true
    }

    /// Takes what the server says: resets to it, forgets the inputs that are in it and plays the rest again (SPEC PRE2).
    pub fn correct(&mut self, authority: Authority<R::State>) -> Corrected {
        let said = Said {
            server_us: authority.server_us,
            processed: InputNumber(authority.processed),
            continuity: authority.continuity,
        };
        if self.pushed.is_some_and(|pushed| said.processed.is_after(pushed)) {
            self.counts.unpushed += 1;
            return Corrected::Unpushed;
        }
        let before = self.base.said;
        if before.is_some_and(|before| before.is_not_before(&said)) {
            self.counts.stale += 1;
            return Corrected::Stale;
        }
        let epoch = |said: &Said| said.continuity.stream_epoch;
        if before.is_some_and(|before| epoch(&before) != epoch(&said)) {
            // Inputs of the old stream are void, and so are its numbers.
            self.pending.clear();
        }
        let (drawn, glide) = (self.simulated(), (self.before, self.rules.place(&self.predicted)));
        self.base = Base {
            state: authority.state,
            said: Some(said),
        };
        self.pending.forget_through(said.processed);
        self.replay();
        self.counts.corrections += 1;
        if before.is_some_and(|before| before.continuity != said.continuity) {
            self.error.clear();
            self.counts.jumped += 1;
            return Corrected::Jumped;
        }
        if self.pending.is_empty() {
            // The state has the last input, whose way is still being drawn: that goes on from where the server began it.
            let ([x, y, z], [to_x, to_y, to_z]) = glide;
            let [now_x, now_y, now_z] = self.rules.place(&self.predicted);
            self.before = [x + now_x - to_x, y + now_y - to_y, z + now_z - to_z];
        }
        let absorbed = self.error.absorb(&self.smoothing, drawn, self.simulated());
        self.counts.smoothed += u64::from(absorbed == Absorbed::Smoothed);
        self.counts.snapped += u64::from(absorbed == Absorbed::Snapped);
        Corrected::Taken(absorbed)
    }

    fn replay(&mut self) {
        self.predicted.clone_from(&self.base.state);
        self.before = self.rules.place(&self.predicted);
        if self.pending.has_gap() {
            return;
        }
        let count = self.pending.len();
        for (at, (_, input)) in self.pending.iter().enumerate() {
            if at + 1 == count {
                self.before = self.rules.place(&self.predicted);
            }
            self.rules.apply(&mut self.predicted, input);
        }
        self.counts.replayed += count as u64;
    }

    /// One frame of the picture: `dt_us` since the last one passes, and the place to draw comes back, metres. `part` is how
    /// much of the time to the next input has passed, 0 to 1: the way from the last input but one to the last is drawn at it,
    /// so inputs may be rarer than frames. 1 draws the newest.
    pub fn frame(&mut self, dt_us: u64, part: f64) -> [f64; 3] {
        self.error.decay(&self.smoothing, dt_us);
        self.part = if part.is_finite() {
            part.clamp(0.0, 1.0)
        } else {
            1.0
        };
        let mut drawn = self.simulated();
        for (drawn, offset) in drawn.iter_mut().zip(self.error.offset()) {
            *drawn += offset;
        }
        drawn
    }

    /// The simulated place at the part drawn last.
    fn simulated(&self) -> [f64; 3] {
        let mut at = self.before;
        for (at, to) in at.iter_mut().zip(self.rules.place(&self.predicted)) {
            *at += (to - *at) * self.part;
        }
        at
    }

    /// The predicted state, for the game's logic.
    #[must_use]
    pub fn state(&self) -> &R::State {
        &self.predicted
    }

    /// The game's rules, to be told what else has changed in the world they play on. It holds for what is played from here on:
    /// the next input, and at the next correction all that wait.
    pub fn rules_mut(&mut self) -> &mut R {
        &mut self.rules
    }

    /// The newest authoritative state.
    #[must_use]
    pub fn confirmed(&self) -> &R::State {
        &self.base.state
    }

    /// The last input the server has processed; `None` before it said so.
    #[must_use]
    pub fn processed(&self) -> Option<u32> {
        self.base.said.map(|said| said.processed.0)
    }

    /// Numbers of the inputs that wait for the server, in order.
    pub fn pending(&self) -> impl Iterator<Item = u32> + '_ {
        self.pending.iter().map(|(number, _)| number.0)
    }

    /// True while the server is too far behind to predict.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.pending.has_gap()
    }

    /// By how much the drawn place is off the predicted one.
    #[must_use]
    pub fn error(&self) -> &VisibleError {
        &self.error
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> PredictionCounts {
        self.counts
    }
}

impl Said {
    /// True when `other` is not newer than this.
    fn is_not_before(&self, other: &Said) -> bool {
        let (mine, theirs) = (self.continuity.stream_epoch, other.continuity.stream_epoch);
        if mine != theirs {
            return mine > theirs;
        }
        self.server_us >= other.server_us || self.processed.is_after(other.processed)
    }
}
