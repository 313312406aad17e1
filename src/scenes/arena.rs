//! The scene `arena`: players and bots of two teams in a walled square, with buildings, doors, pads, pickups, shots,
//! deaths and revivals.
//!
//! A player gets an entity when it joins and loses it when it leaves; inputs are those of [`input`](super::input). Each is played
//! for as long as it says, out of the time that has passed, so nobody is faster for sending more, and one counts as processed when
//! it was played: a client that plays them at once is right. What time is left waits for the next input, a quarter of a second at
//! most, and so do inputs; who is silent for half a second is moved as if it wanted nothing. Views that are assigned carry the bits of the player's team and [`NEUTRAL`].
//!
//! Invariant: a sample never leaves the schema's bounds, and an event names an entity that lives or died in its tick.

pub mod brain;
pub mod buckets;
pub mod event;
pub mod fixtures;
pub mod missile;
pub mod plan;
pub mod walker;

mod fight;

use self::brain::Brain;
use self::buckets::Buckets;
use self::fixtures::Fixtures;
use self::missile::Missile;
use self::plan::Plan;
use self::walker::Walker;
use super::SceneError;
use super::census::Census;
use super::draws::Draws;
use super::roster::{InputCounts, PlayerKey, Roster};
use crate::state::coding::Coding;
use crate::state::entity::Entity;
use crate::state::player::{Directive, PlayerEvent};
use crate::state::sample::{ExtraSample, WorldSample};
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::update::{Despawn, Spawn, TagUpdate};
use crate::state::view::{Tags, View};

/// Fewest and most bots.
pub const BOTS: [usize; 2] = [16, 4_000];
/// Bots unless told otherwise.
pub const BOTS_DEFAULT: usize = 64;
/// Tag bits of the two teams.
pub const TEAMS: [Tags; 2] = [1, 2];
/// Tag bit of what both teams see: pads and pickups.
pub const NEUTRAL: Tags = 4;

/// Class of players and bots.
pub const WALKER: u8 = 0;
/// Class of buildings.
pub const BUILDING: u8 = 1;
/// Class of doors.
pub const DOOR: u8 = 2;
/// Class of pickups.
pub const PICKUP_CLASS: u8 = 3;
/// Class of pads.
pub const PAD: u8 = 4;
/// Class of beacons.
pub const BEACON: u8 = 5;
/// Class of missiles.
pub const MISSILE: u8 = 6;
/// Index of the field that says dead of a walker, open of a door.
pub const STATE: usize = 3;

/// The longest step of the world.
const STEP_US: u32 = 50_000;
/// A player that is silent for so long is moved without an input.
const SILENT_S: f64 = 0.5;
/// Time that waits for inputs at the most, and inputs that wait for time.
const WAITING_S: f64 = 0.25;
/// A player's clock may be so much faster than the scene's.
const CLOCKS_DIFFER: f64 = 1.01;
/// Shots of all together: what the stream of one session carries besides everything else.
const SHOTS_PER_S: f64 = 80.0;
/// Shots of one tick.
const SHOTS_TICK_MAX: f64 = 16.0;
/// A round.
const ROUND_S: f64 = 15.0;

/// Position step of the schema: 1/512 m.
const POSITION_STEP: f64 = 1.0 / 512.0;
/// Nothing rises above this.
const CEILING_M: f64 = 8.0;
/// Bits of a sent quaternion component.
const ROTATION_BITS: u8 = 9;
/// Velocity.
const VELOCITY: Rate = Rate {
    bound: 64.0,
    step: 1.0 / 32.0,
};

/// Who decides for a walker.
enum Mind {
    Bot(Brain),
    Player {
        key: PlayerKey,
        /// Time that no input was played for yet.
        left_s: f64,
        /// Since its last input.
        silent_s: f64,
    },
}

struct Seat {
    walker: Walker,
    mind: Mind,
}

/// The running scene.
pub struct Arena {
    schema: Schema,
    plan: Plan,
    fixtures: Fixtures,
    draws: Draws,
    census: Census,
    roster: Roster,
    /// By seat; bots first. A seat is empty while nobody has it, or while it is being moved.
    seats: Vec<Option<Box<Seat>>>,
    free_seats: Vec<usize>,
    missiles: Vec<Missile>,
    buckets: Buckets,
    players: [usize; 2],
    scores: [u32; 2],
    shots_left: f64,
    round_left: f64,
    steps: u32,
    tick: u64,
    /// What was made before the first tick.
    first: Option<WorldSample>,
}

/// An entity begins in `sample`; `None` while the world is full.
fn births(census: &mut Census, sample: &mut WorldSample, class: u8) -> Option<Entity> {
    let entity = census.admit()?;
    let at_us = sample.server_us;
    sample.spawned.push(Spawn { entity, class, at_us });
    Some(entity)
}

impl Arena {
    /// Sets the scene up at time zero, with so many bots.
    ///
    /// # Errors
    /// [`SceneError`] when a setting is out of its range.
    pub fn new(bots: usize, hz: f64, seed: u64) -> Result<Arena, SceneError> {
        super::check_entities("arena", bots, BOTS)?;
        let tick_period_us = super::tick_period_us("arena", hz)?;
        let mut plan = Plan::new(bots, seed);
        let (mut census, mut first) = (Census::default(), WorldSample::default());
        let fixtures = Fixtures::new(&mut plan, seed, &mut census, &mut first);
        let mut arena = Arena {
            schema: schema(plan.wall(), tick_period_us),
            plan,
            fixtures,
            draws: Draws::new(seed, u64::MAX - 1),
            census,
            roster: Roster::default(),
            seats: Vec::with_capacity(bots),
            free_seats: Vec::new(),
            missiles: Vec::new(),
            buckets: Buckets::default(),
            players: [0; 2],
            scores: [0; 2],
            shots_left: 0.0,
            round_left: ROUND_S,
            steps: tick_period_us.div_ceil(STEP_US),
            tick: 0,
            first: None,
        };
        for bot in 0..bots {
            let mind = Mind::Bot(Brain::new(seed, bot));
            let place = arena.somewhere();
            arena.begin(mind, u8::from(bot % 2 == 1), place, &mut first);
        }
        arena.first = Some(first);
        Ok(arena)
    }

    /// What the scene's records hold.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.schema.clone()
    }

    /// The view of who joins from now on, its tags narrowed to the player's; until it is set, players are assigned none.
    pub fn set_view(&mut self, view: View) {
        self.roster.view = Some(view);
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

    /// The next tick. The first is at time zero.
    #[allow(clippy::should_implement_trait)] // A scene never ends: an iterator's `Option` would say it may.
    pub fn next(&mut self) -> WorldSample {
        let period_us = self.schema.tick_period_us;
        let begins = self.first.take();
        let goes_on = begins.is_none();
        let mut sample = begins.unwrap_or_default();
        sample.server_us = self.tick * u64::from(period_us);
        self.census.begin(self.tick);
        self.part(&mut sample);
        self.greet(&mut sample);
        if goes_on {
            let seconds = f64::from(period_us) / 1e6;
            self.shots_left = (self.shots_left + SHOTS_PER_S * seconds).min(SHOTS_TICK_MAX);
            for _ in 0..self.steps {
                self.step(seconds / f64::from(self.steps), &mut sample);
            }
        }
        self.pass_inputs();
        self.observe(&mut sample);
        self.tick += 1;
        sample
    }

    fn somewhere(&mut self) -> [f64; 2] {
        let cell = self.draws.below(self.plan.cells());
        // Not where the pads are.
        self.plan.free(cell, self.draws.below(3))
    }

    /// Somebody begins; `None` while the world is full.
    fn begin(&mut self, mind: Mind, team: u8, place: [f64; 2], sample: &mut WorldSample) -> Option<usize> {
        let entity = births(&mut self.census, sample, WALKER)?;
        let walker = Walker::new(entity, team, place);
        let seat = self.free_seats.pop().unwrap_or(self.seats.len());
        if seat == self.seats.len() {
            self.seats.push(None);
        }
        self.seats[seat] = Some(Box::new(Seat { walker, mind }));
        Some(seat)
    }

    /// Who left loses its entity.
    fn part(&mut self, sample: &mut WorldSample) {
        for (_, seat) in self.roster.take_departures() {
            let Some(left) = self.seats[seat].take() else {
                continue;
            };
            self.free_seats.push(seat);
            self.players[usize::from(left.walker.team)] -= 1;
            self.census.bury(left.walker.entity);
            sample.despawned.push(Despawn {
                entity: left.walker.entity,
                at_us: sample.server_us,
                reason: event::LEFT,
            });
        }
    }

    /// Who joined gets an entity, in the smaller team; who says again that it is here is told again.
    fn greet(&mut self, sample: &mut WorldSample) {
        for (key, seat) in self.roster.take_returns() {
            self.assign(key, seat);
        }
        while let Some(key) = self.roster.arrival() {
            let team = u8::from(self.players[1] < self.players[0]);
            let mind = Mind::Player {
                key,
                // What it sent before it had a place is played at once, and does not stay behind for ever.
                left_s: WAITING_S,
                silent_s: 0.0,
            };
            let place = self.somewhere();
            let Some(seat) = self.begin(mind, team, place, sample) else {
                break;
            };
            self.players[usize::from(team)] += 1;
            self.roster.seat(seat);
            self.assign(key, seat);
            self.roster.message(key, event::WELCOME, vec![team]);
        }
    }

    /// Tells a player which entity it is and what it sees.
    fn assign(&mut self, key: PlayerKey, seat: usize) {
        if let Some(seat) = &self.seats[seat] {
            let view = self.roster.view.map(|view| view_of(view, seat.walker.team));
            self.roster.assign(key, seat.walker.entity, view);
        }
    }

    /// Inputs that there will be no time for are passed over.
    fn pass_inputs(&mut self) {
        for seat in self.seats.iter().flatten() {
            if let Mind::Player { key, .. } = &seat.mind {
                self.roster.pass_inputs(*key, WAITING_S);
            }
        }
    }

    /// Says what is new.
    fn observe(&mut self, sample: &mut WorldSample) {
        let at_us = sample.server_us;
        self.fixtures.observe(&mut self.census, sample);
        for Seat { walker, .. } in self.seats.iter_mut().flatten().map(Box::as_mut) {
            let entity = walker.entity;
            sample.observed.extend(walker.observe(at_us));
            let news = walker.news();
            let extras = news.map(|(field, value)| ExtraSample { entity, field, value });
            sample.extras.extend(extras);
            let tags = walker.tag_news(TEAMS[usize::from(walker.team)]);
            sample.tags.extend(tags.map(|tags| TagUpdate { entity, tags }));
        }
        for missile in &mut self.missiles {
            sample.observed.extend(missile.observe(at_us));
        }
    }
}

/// The view of a player of a team.
#[must_use]
pub fn view_of(view: View, team: u8) -> View {
    let seen = TEAMS[usize::from(team) % 2] | NEUTRAL;
    View {
        tags: view.tags & seen,
        ..view
    }
}

/// The schema of an arena with walls at `wall`. Every axis spans a power of two of steps.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn schema(wall: f64, tick_period_us: u32) -> Schema {
    let reach = f64::from((wall.ceil() as u32).next_power_of_two());
    let side = Axis {
        min: -reach,
        max: reach - POSITION_STEP,
        step: POSITION_STEP,
    };
    let height = Axis {
        min: 0.0,
        max: CEILING_M - POSITION_STEP,
        step: POSITION_STEP,
    };
    let field = |name: &str, bits: u8| ExtraField {
        name: name.to_owned(),
        bits,
        signed: false,
    };
    let class = |name: &str, query_critical: bool| Class {
        name: name.to_owned(),
        query_critical,
    };
    let schema = Schema {
        coding: Coding::Standard,
        name: "arena".to_owned(),
        version: 1,
        tick_period_us,
        on_change: false,
        position: [side, side, height],
        rotation_bits: ROTATION_BITS,
        velocity: Some(VELOCITY),
        angular: None,
        extras: vec![
            field("health", 7),
            field("team", 1),
            field("ammo", 5),
            field("state", 1),
        ],
        // Targets, occluders and what one may take or step on; beacons and missiles are for the eye.
        classes: vec![
            class("walker", true),
            class("building", true),
            class("door", true),
            class("pickup", true),
            class("pad", true),
            class("beacon", false),
            class("missile", false),
        ],
    };
    debug_assert_eq!(schema.check(), Ok(()));
    debug_assert!(wall <= side.max);
    schema
}

#[cfg(test)]
mod tests;
