//! The scene `crowd`: thousands on foot in flocks over a square that grows with them, so that a view of 20 m holds about
//! a hundred whatever their number.
//!
//! A flock walks for ten seconds and rests for ten, so half of all are at rest at any time. A player owns one of those
//! on foot: it goes with its flock until inputs of the player come, those of [`input`](super::input), and again when
//! none have come for two seconds. Buttons mean nothing here. One in fifty is hidden from players while it rests.
//!
//! Invariants: everybody's place is spread evenly over the square at all times (a straight way mirrored at its borders
//! keeps that), which is what the density rests on; a sample never leaves the schema's bounds.

mod walker;

use self::walker::{Walker, walkers};
use super::SceneError;
use super::input::Input;
use super::roster::{InputCounts, PlayerKey, Roster};
use crate::state::coding::Coding;
use crate::state::entity::Entity;
use crate::state::player::{Directive, PlayerEvent};
use crate::state::sample::WorldSample;
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::update::{Event, Spawn};
use crate::state::view::{Tags, View};

/// Class of those on foot.
pub const WALKER: u8 = 0;
/// Class of those among them that give signs.
pub const GUIDE: u8 = 1;
/// Fewest and most entities.
pub const ENTITIES: [usize; 2] = [16, 20_000];
/// Entities unless told otherwise.
pub const ENTITIES_DEFAULT: usize = 5_000;
/// The view that holds [`MEMBERS`].
pub const VIEW_M: f64 = 20.0;
/// Entities within [`VIEW_M`] of one, on average, itself included.
pub const MEMBERS: f64 = 100.0;
/// Tag bit of those hidden from players.
pub const HIDDEN: Tags = 1;
/// Kind of the event of a guide that sets out or stops. Payload: 1 or 0.
pub const SIGN: u16 = 1;
/// Message to a player that joined: no payload.
pub const WELCOME: u16 = 1;

/// Entities of a flock.
const FLOCK: usize = 8;
/// Without an input for this long the flock has it back; the last input holds until then.
const DRIVEN_S: f64 = 2.0;
/// One in so many is a guide, which gives signs and matters to queries.
const GUIDES: usize = 16;
/// Position step of the schema: 1/256 m.
const POSITION_STEP: f64 = 1.0 / 256.0;
/// Height of the schema: all walk on the ground.
const CEILING_M: f64 = 4.0;
/// Bits of a sent quaternion component.
const ROTATION_BITS: u8 = 9;
/// Velocity.
const VELOCITY: Rate = Rate {
    bound: 8.0,
    step: 1.0 / 64.0,
};

/// A player at the controls.
struct Driver {
    key: PlayerKey,
    held: Input,
    left_s: f64,
}

/// The running scene.
pub struct Crowd {
    schema: Schema,
    seed: u64,
    half: f64,
    walkers: Vec<Walker>,
    roster: Roster,
    /// Who owns which, in the order in which they joined.
    drivers: Vec<(usize, Driver)>,
    /// How many of the walkers are owned.
    owned: usize,
    /// Where the round robin stands.
    turn: usize,
    inputs: Vec<Input>,
    tick: u64,
}

impl Crowd {
    /// Sets the scene up at time zero.
    ///
    /// # Errors
    /// [`SceneError`] when a setting is out of its range.
    pub fn new(entities: usize, hz: f64, seed: u64) -> Result<Crowd, SceneError> {
        super::check_entities("crowd", entities, ENTITIES)?;
        let tick_period_us = super::tick_period_us("crowd", hz)?;
        let half = side(entities) / 2.0;
        Ok(Crowd {
            schema: schema(half, tick_period_us),
            seed,
            half,
            walkers: walkers(entities, half, seed),
            roster: Roster::default(),
            drivers: Vec::new(),
            owned: 0,
            turn: 0,
            inputs: Vec::new(),
            tick: 0,
        })
    }

    /// What the scene's records hold.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.schema.clone()
    }

    /// The view of who joins from now on, without those that hide; until it is set, players are assigned none.
    pub fn set_view(&mut self, view: View) {
        self.roster.view = Some(View {
            tags: view.tags & !HIDDEN,
            ..view
        });
    }

    /// Takes in what a relay tells of a player, for the next tick.
    pub fn hear(&mut self, subscriber: u64, event: PlayerEvent) {
        self.roster.hear(subscriber, event);
    }

    /// Adds what concerns players in the tick just given.
    pub fn take_directives(&mut self, out: &mut Vec<(u64, Directive)>) {
        self.roster.take_directives(out);
    }

    /// What was heard of inputs.
    #[must_use]
    pub fn inputs(&self) -> InputCounts {
        self.roster.counts()
    }

    /// The next tick. The first is at time zero and spawns everybody.
    #[allow(clippy::should_implement_trait)] // A scene never ends: an iterator's `Option` would say it may.
    pub fn next(&mut self) -> WorldSample {
        let server_us = self.tick * u64::from(self.schema.tick_period_us);
        let mut sample = WorldSample {
            server_us,
            observed: Vec::with_capacity(self.walkers.len() * 5 / 8),
            ..WorldSample::default()
        };
        if self.tick == 0 {
            let class = |index| if is_guide(index) { GUIDE } else { WALKER };
            sample.spawned = (0..self.walkers.len())
                .map(|index| Spawn {
                    entity: entity(index),
                    class: class(index),
                    at_us: 0,
                })
                .collect();
        }
        self.part();
        self.greet(server_us);
        let seconds = f64::from(self.schema.tick_period_us) / 1e6;
        self.drive(seconds);
        for (index, walker) in self.walkers.iter_mut().enumerate() {
            let (walked, driven) = (walker.walks, core::mem::take(&mut walker.driven));
            if !driven {
                walker.stroll(index, self.seed, server_us, seconds, self.half);
                if walker.walks != walked && is_guide(index) && self.tick > 0 {
                    sample.events.push(sign(index, server_us, walker.walks));
                }
            }
            walker.observe(index, driven, &mut sample);
        }
        self.tick += 1;
        sample
    }

    /// Who left owns nothing any more.
    fn part(&mut self) {
        for (key, seat) in self.roster.take_departures() {
            self.drivers.retain(|(_, driver)| driver.key != key);
            let owners = &mut self.walkers[seat].owners;
            *owners -= 1;
            self.owned -= usize::from(*owners == 0);
        }
    }

    /// Who joined gets one of those on foot; who says again that it is here is told again.
    fn greet(&mut self, server_us: u64) {
        let view = self.roster.view;
        for (key, seat) in self.roster.take_returns() {
            self.roster.assign(key, entity(seat), view);
        }
        while let Some(key) = self.roster.arrival() {
            let seat = self.choose(server_us);
            let owners = &mut self.walkers[seat].owners;
            self.owned += usize::from(*owners == 0);
            *owners += 1;
            let driver = Driver {
                key,
                held: Input::default(),
                left_s: 0.0,
            };
            self.drivers.push((seat, driver));
            self.roster.seat(seat);
            self.roster.assign(key, entity(seat), view);
            self.roster.message(key, WELCOME, Vec::new());
        }
    }

    /// The next in turn that nobody owns and that is walking; the next that nobody owns; the next.
    fn choose(&mut self, server_us: u64) -> usize {
        let count = self.walkers.len();
        let turns = (self.turn..self.turn + count).map(|turn| turn % count);
        let mut free = turns.filter(|turn| self.walkers[in_turn(*turn, count)].owners == 0);
        let mut chosen = None;
        if self.owned < count {
            let walks = |turn: &usize| self.walkers[in_turn(*turn, count)].round(server_us).is_walk();
            chosen = free.clone().find(walks).or_else(|| free.next());
        }
        let turn = chosen.unwrap_or(self.turn);
        self.turn = (turn + 1) % count;
        in_turn(turn, count)
    }

    /// Moves those whose players drive them. Of several owners the first that drives has it.
    fn drive(&mut self, seconds: f64) {
        for (seat, driver) in &mut self.drivers {
            self.roster.take_inputs(driver.key, &mut self.inputs);
            driver.left_s -= seconds;
            if let Some(last) = self.inputs.last() {
                (driver.held, driver.left_s) = (*last, DRIVEN_S);
            }
            let walker = &mut self.walkers[*seat];
            if driver.left_s <= 0.0 || walker.driven {
                continue;
            }
            if self.inputs.is_empty() {
                self.inputs.push(driver.held);
            }
            let part_s = seconds / self.inputs.len() as f64;
            for input in &self.inputs {
                walker.obey(input, part_s, self.half);
            }
        }
    }
}

fn entity(index: usize) -> Entity {
    Entity {
        id: u32::try_from(index).unwrap_or(u32::MAX),
        generation: 0,
    }
}

fn is_guide(index: usize) -> bool {
    index.is_multiple_of(GUIDES)
}

/// The walker whose turn it is: one of each flock, then the next of each.
fn in_turn(turn: usize, count: usize) -> usize {
    let flocks = count / FLOCK;
    match turn.checked_sub(flocks * FLOCK) {
        Some(rest) => flocks * FLOCK + rest,
        None => turn % flocks * FLOCK + turn / flocks,
    }
}

fn sign(index: usize, at_us: u64, walks: bool) -> Event {
    Event {
        kind: SIGN,
        critical: false,
        entity: Some(entity(index)),
        at_us,
        payload: vec![u8::from(walks)],
    }
}

/// The side of the square in which [`MEMBERS`] of so many are within [`VIEW_M`] of one, on average, those at the borders
/// included: its own flock, and of the others as many as two even points of a square are near, which is
/// r^2 (pi - 8r/3 + r^2/2) for a radius of r sides.
fn side(entities: usize) -> f64 {
    let (others, flock) = (entities.saturating_sub(FLOCK) as f64, FLOCK as f64);
    let members = |r: f64| flock + others * r * r * (core::f64::consts::PI - 8.0 * r / 3.0 + r * r / 2.0);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let r = (low + high) / 2.0;
        if members(r) < MEMBERS {
            low = r;
        } else {
            high = r;
        }
    }
    VIEW_M / high
}

/// The schema of a square to `half` on every side. Every axis spans a power of two of steps.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn schema(half: f64, tick_period_us: u32) -> Schema {
    let reach = f64::from((half.ceil() as u32 + 1).next_power_of_two());
    let axis = |min: f64, max: f64| Axis {
        min,
        max: max - POSITION_STEP,
        step: POSITION_STEP,
    };
    let class = |name: &str, query_critical: bool| Class {
        name: name.to_owned(),
        query_critical,
    };
    let schema = Schema {
        coding: Coding::Standard,
        name: "crowd".to_owned(),
        version: 1,
        tick_period_us,
        on_change: false,
        position: [axis(-reach, reach), axis(-reach, reach), axis(0.0, CEILING_M)],
        rotation_bits: ROTATION_BITS,
        velocity: Some(VELOCITY),
        angular: None,
        extras: vec![ExtraField {
            name: "owned".to_owned(),
            bits: 1,
            signed: false,
        }],
        // One asks a guide; the others are for the eye.
        classes: vec![class("walker", false), class("guide", true)],
    };
    debug_assert_eq!(schema.check(), Ok(()));
    schema
}

#[cfg(test)]
mod tests;
