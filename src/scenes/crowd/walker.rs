//! One on foot: it goes with its flock, or as a player wants.
//!
//! Invariant: a way is straight or bends evenly and is mirrored at the borders, so places stay spread evenly over the
//! square; only a player's own wishes do not.

use super::{FLOCK, HIDDEN, entity};
use crate::scenes::draws::{Draws, mixed};
use crate::scenes::gait::Gait;
use crate::scenes::heading::Heading;
use crate::scenes::input::Input;
use crate::scenes::sighting::{Pose, Sighting};
use crate::state::sample::{ExtraSample, WorldSample};
use crate::state::update::TagUpdate;

/// They begin this far from its middle, along both axes.
const FLOCK_M: f64 = 4.0;
/// A flock walks for half of this, then rests.
const ROUND_US: u64 = 20_000_000;
/// Members set out at most this much after each other.
const STAGGER_US: u64 = 1_000_000;
/// Speeds of flocks.
const SPEED_M_S: [f64; 2] = [0.8, 2.0];
/// How far a way bends, parts of a turn a second at the most: some ten degrees.
const BEND: f64 = 2_000.0;
/// How an owned one goes when its player drives it.
const GAIT: Gait = Gait {
    speed_m_s: 4.0,
    nimble_m_s2: 20.0,
};
/// One in so many hides while it rests.
const HIDERS: usize = 50;

/// One on foot.
pub(super) struct Walker {
    pub(super) position: [f64; 2],
    pub(super) velocity: [f64; 2],
    pub(super) heading: Heading,
    /// The round of its flock is this much ahead of the scene's time.
    ahead_us: u64,
    /// Its flock's way, and how it has been mirrored at borders since it set out.
    way: Way,
    mirror: [bool; 2],
    pub(super) walks: bool,
    /// A player moved it in this tick.
    pub(super) driven: bool,
    pub(super) owners: u32,
    told_owned: bool,
    told_hidden: bool,
    sighting: Sighting,
}

/// A flock's way from one rest to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Way {
    heading: Heading,
    /// Parts of a turn a second.
    bend: f64,
    speed_m_s: f64,
}

/// Where a walker is in the round of its flock.
#[derive(Clone, Copy)]
pub(super) struct Round {
    number: u64,
    within_us: u64,
}

impl Round {
    pub(super) fn is_walk(self) -> bool {
        self.within_us < ROUND_US / 2
    }
}

impl Walker {
    pub(super) fn round(&self, server_us: u64) -> Round {
        let time_us = server_us + self.ahead_us;
        Round {
            number: time_us / ROUND_US,
            within_us: time_us % ROUND_US,
        }
    }

    /// Goes with its flock.
    pub(super) fn stroll(&mut self, index: usize, seed: u64, server_us: u64, seconds: f64, half: f64) {
        let round = self.round(server_us);
        let walked = core::mem::replace(&mut self.walks, round.is_walk());
        if !self.walks {
            self.velocity = [0.0; 2];
            return;
        }
        if !walked {
            self.way = Way::new(seed, index / FLOCK, round.number);
            self.mirror = [false; 2];
        }
        let Way {
            heading,
            bend,
            speed_m_s,
        } = self.way;
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        let ahead = heading.turned((bend * (round.within_us as f64 / 1e6)) as i16);
        for (axis, part) in ahead.direction().into_iter().enumerate() {
            let velocity = if self.mirror[axis] { -part } else { part } * speed_m_s;
            let (place, mirrored) = folded(self.position[axis] + velocity * seconds, half);
            self.position[axis] = place;
            self.velocity[axis] = if mirrored { -velocity } else { velocity };
            self.mirror[axis] ^= mirrored;
        }
        self.heading = ahead.mirrored(self.mirror);
    }

    /// Goes as a player wants. It sets out anew with its flock afterwards.
    pub(super) fn obey(&mut self, input: &Input, seconds: f64, half: f64) {
        self.velocity = GAIT.velocity(self.velocity, input, seconds);
        for axis in 0..2 {
            let to = self.position[axis] + self.velocity[axis] * seconds;
            self.position[axis] = to.clamp(-half, half);
            if self.position[axis] != to {
                self.velocity[axis] = 0.0;
            }
        }
        self.heading = input.heading;
        (self.driven, self.walks) = (true, false);
    }

    /// Says what is new.
    pub(super) fn observe(&mut self, index: usize, driven: bool, sample: &mut WorldSample) {
        let entity = entity(index);
        let ([x, y], [vx, vy]) = (self.position, self.velocity);
        let pose = Pose {
            segment: 0,
            position: [x, y, 0.0],
            heading: self.heading,
            velocity: [vx, vy, 0.0],
        };
        let seen = self.sighting.observe(entity, sample.server_us, pose);
        sample.observed.extend(seen);
        let owned = self.owners > 0;
        if owned != self.told_owned {
            self.told_owned = owned;
            sample.extras.push(ExtraSample {
                entity,
                field: 0,
                value: i64::from(owned),
            });
        }
        let hidden = is_hider(index) && !self.walks && !driven;
        if hidden != self.told_hidden {
            self.told_hidden = hidden;
            let tags = if hidden { HIDDEN } else { 0 };
            sample.tags.push(TagUpdate { entity, tags });
        }
    }
}

impl Way {
    /// The way of a flock in a round.
    fn new(seed: u64, flock: usize, round: u64) -> Way {
        let mut draws = Draws::new(seed ^ mixed(round), 1 + flock as u64);
        Way {
            heading: Heading(draws.bits()),
            bend: draws.between([-BEND, BEND]),
            speed_m_s: draws.between(SPEED_M_S),
        }
    }
}

/// Some of them are guides.
fn is_hider(index: usize) -> bool {
    index % HIDERS == 6
}

/// Everybody, flock by flock.
pub(super) fn walkers(entities: usize, half: f64, seed: u64) -> Vec<Walker> {
    let mut draws = Draws::new(seed, 0);
    let flocks = entities.div_ceil(FLOCK) as u64;
    let mut middle = [0.0; 2];
    let mut walkers = Vec::with_capacity(entities);
    for index in 0..entities {
        if index % FLOCK == 0 {
            middle = [draws.between([-half, half]), draws.between([-half, half])];
        }
        let position = middle.map(|part| folded(part + draws.between([-FLOCK_M, FLOCK_M]), half).0);
        // Flocks are spread over the round, their members over a second of it.
        let flock_us = (index / FLOCK) as u64 * ROUND_US / flocks;
        walkers.push(Walker {
            position,
            velocity: [0.0; 2],
            heading: Heading(draws.bits()),
            ahead_us: ROUND_US + flock_us - mixed(index as u64) % STAGGER_US,
            way: Way::default(),
            mirror: [false; 2],
            walks: false,
            driven: false,
            owners: 0,
            told_owned: false,
            told_hidden: false,
            sighting: Sighting::default(),
        });
    }
    walkers
}

/// A coordinate mirrored at the borders, and whether it was.
fn folded(at: f64, half: f64) -> (f64, bool) {
    let inside = if at > half {
        2.0 * half - at
    } else if at < -half {
        -2.0 * half - at
    } else {
        at
    };
    (inside, inside != at)
}
