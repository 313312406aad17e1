//! What a bot wants: a wandering course with rests, shots at whom it sees, spells of stealth.
//!
//! Invariant: a bot acts through an [`Input`], as a player does.

use super::plan::Plan;
use super::walker::Walker;
use crate::scenes::draws::Draws;
use crate::scenes::heading::Heading;
use crate::scenes::input::{FIRE, Input, JUMP, STEALTH};

/// A place counts as reached within this distance.
const REACHED_M: f64 = 1.0;
/// A leg that has not reached its place after this time is given up.
const LEG_S: [f64; 2] = [2.0, 7.0];
/// How long a rest lasts.
const REST_S: [f64; 2] = [1.0, 4.0];
/// One leg in so many is a rest; one leads to a pad.
const REST_ODDS: usize = 6;
const PAD_ODDS: usize = 5;
/// Time between two looks around.
pub const LOOK_S: f64 = 0.5;
/// Time between two shots.
const FIRE_S: [f64; 2] = [0.5, 1.5];
/// Time between two jumps.
const JUMP_S: [f64; 2] = [2.0, 8.0];
/// One bot in so many has spells of stealth.
const STEALTH_ODDS: usize = 5;
/// How long it is seen and how long it is not.
const SEEN_S: [f64; 2] = [3.0, 8.0];
/// How long a spell of stealth lasts.
const UNSEEN_S: [f64; 2] = [2.0, 5.0];
/// How far off it aims, parts of 65,536 of a turn: three degrees.
const SPREAD: f64 = 550.0;

/// The mind of a bot.
pub struct Brain {
    draws: Draws,
    goal: Option<[f64; 2]>,
    leg_left: f64,
    look_in: f64,
    aim: Option<[f64; 2]>,
    fire_in: f64,
    jump_in: f64,
    is_sly: bool,
    stealth: bool,
    spell_left: f64,
    heading: Heading,
}

impl Brain {
    /// The mind of a bot by number.
    #[must_use]
    pub fn new(seed: u64, bot: usize) -> Brain {
        let mut draws = Draws::new(seed, 1 + bot as u64);
        Brain {
            goal: None,
            leg_left: 0.0,
            look_in: draws.between([0.0, LOOK_S]),
            aim: None,
            fire_in: draws.between(FIRE_S),
            jump_in: draws.between(JUMP_S),
            is_sly: bot % STEALTH_ODDS == STEALTH_ODDS - 1,
            stealth: false,
            spell_left: draws.between(SEEN_S),
            heading: Heading(draws.bits()),
            draws,
        }
    }

    /// True when it is time to look around and call [`look`](Brain::look).
    pub fn wants_look(&mut self, seconds: f64) -> bool {
        self.look_in -= seconds;
        let due = self.look_in <= 0.0;
        if due {
            self.look_in = LOOK_S;
        }
        due
    }

    /// Whom it sees, until it looks again.
    pub fn look(&mut self, enemy: Option<[f64; 2]>) {
        self.aim = enemy;
    }

    /// What it wants during the next `seconds`.
    pub fn decide(&mut self, me: &Walker, seconds: f64, plan: &Plan, pads: &[[f64; 2]]) -> Input {
        let from = me.place();
        self.leg_left -= seconds;
        let reached = self.goal.is_some_and(|goal| distance(from, goal) < REACHED_M);
        if reached || self.leg_left <= 0.0 {
            self.begin_leg(plan, pads);
        }
        let mut input = Input::default();
        if let Some(goal) = self.goal {
            let way = [goal[0] - from[0], goal[1] - from[1]];
            if let Some(ahead) = Heading::towards(way) {
                input.motion = ahead.direction().map(stick);
                self.heading = ahead;
            }
        }
        self.conceal(seconds);
        if self.stealth {
            input.buttons |= STEALTH;
        } else {
            self.shoot(from, seconds, &mut input);
        }
        self.jump_in -= seconds;
        if self.jump_in <= 0.0 && self.goal.is_some() {
            self.jump_in = self.draws.between(JUMP_S);
            input.buttons |= JUMP;
        }
        input.heading = self.heading;
        input
    }

    fn begin_leg(&mut self, plan: &Plan, pads: &[[f64; 2]]) {
        if self.draws.one_in(REST_ODDS) {
            self.goal = None;
            self.leg_left = self.draws.between(REST_S);
            return;
        }
        let pad = pads.get(self.draws.below(pads.len())).copied();
        let to_pad = self.draws.one_in(PAD_ODDS);
        let cell = self.draws.below(plan.cells());
        let place = match self.draws.below(5) {
            4 => plan.shelf(cell),
            corner => plan.free(cell, corner),
        };
        self.goal = pad.filter(|_| to_pad).or(Some(place));
        self.leg_left = self.draws.between(LEG_S);
    }

    fn conceal(&mut self, seconds: f64) {
        self.spell_left -= seconds;
        if self.is_sly && self.spell_left <= 0.0 {
            self.stealth = !self.stealth;
            self.spell_left = self.draws.between(if self.stealth { UNSEEN_S } else { SEEN_S });
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn shoot(&mut self, from: [f64; 2], seconds: f64, input: &mut Input) {
        self.fire_in -= seconds;
        let Some(aim) = self.aim else { return };
        let Some(at) = Heading::towards([aim[0] - from[0], aim[1] - from[1]]) else {
            return;
        };
        self.heading = at;
        if self.fire_in <= 0.0 {
            self.fire_in = self.draws.between(FIRE_S);
            self.heading = at.turned(self.draws.between([-SPREAD, SPREAD]) as i16);
            input.buttons |= FIRE;
        }
    }
}

/// A component of a unit vector as motion of an input.
#[allow(clippy::cast_possible_truncation)]
fn stick(part: f64) -> i8 {
    (part * 127.0) as i8
}

/// Distance over the ground.
#[must_use]
pub fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    let (x, y) = (a[0] - b[0], a[1] - b[1]);
    (x * x + y * y).sqrt()
}
