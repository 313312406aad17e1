//! What stands in an arena: buildings, doors that move, pads, pickups that come back, beacons that one team sees.
//!
//! Invariant: whether a door is shut on the map and where its entity is are one thing.

use super::event::{PICKUP, TAKEN, event};
use super::plan::Plan;
use super::{BEACON, BUILDING, DOOR, NEUTRAL, PAD, PICKUP_CLASS, TEAMS, births};
use crate::scenes::census::Census;
use crate::scenes::draws::Draws;
use crate::scenes::heading::Heading;
use crate::scenes::sighting::{Pose, Sighting};
use crate::state::entity::Entity;
use crate::state::sample::{ExtraSample, WorldSample};
use crate::state::update::{Despawn, TagUpdate};

use super::brain::distance;
use super::walker::{HEALTH, Walker};

/// One cell in so many has a pickup.
const PICKUP_CELLS: usize = 3;
/// Health a pickup gives.
const PICKUP_HEALTH: u8 = 50;
/// Within this distance a pickup or pad works.
const TOUCH_M: f64 = 1.0;
/// How long a pickup stays away.
const AWAY_S: f64 = 8.0;
/// Half a door's round, shut or open, of which the first second is the way there.
const DOOR_HALF_S: f64 = 4.0;
/// How high a door rises, in a second.
const DOOR_RISE_M: f64 = 3.0;
/// Cells for each beacon of a team, and the fewest.
const BEACON_CELLS: usize = 8;
const BEACONS_MIN: usize = 2;
/// How long a beacon stays where it is.
const BEACON_S: [f64; 2] = [4.0, 8.0];

struct Door {
    entity: Entity,
    /// Time into its round.
    round_s: f64,
    pose: Pose,
    sighting: Sighting,
    open: bool,
    told_open: bool,
}

impl Door {
    /// Goes on in its round by `seconds`.
    fn turn(&mut self, seconds: f64) {
        self.round_s = (self.round_s + seconds) % (2.0 * DOOR_HALF_S);
        let opens = self.round_s < DOOR_HALF_S;
        let on_way = (self.round_s % DOOR_HALF_S).min(1.0);
        let share = if opens { on_way } else { 1.0 - on_way };
        self.pose.position[2] = share * DOOR_RISE_M;
        let rise = if opens { DOOR_RISE_M } else { -DOOR_RISE_M };
        self.pose.velocity[2] = if on_way < 1.0 { rise } else { 0.0 };
        self.open = share > 0.5;
    }
}

struct Shelf {
    place: [f64; 2],
    entity: Option<Entity>,
    back_in: f64,
}

struct Beacon {
    entity: Entity,
    pose: Pose,
    stays_s: f64,
    sighting: Sighting,
}

/// All of it.
pub struct Fixtures {
    draws: Draws,
    doors: Vec<Door>,
    shelves: Vec<Shelf>,
    beacons: Vec<Beacon>,
    pads: Vec<[f64; 2]>,
    shelf_of: Vec<Option<usize>>,
    pad_of: Vec<Option<usize>>,
}

fn standing([x, y]: [f64; 2]) -> Pose {
    Pose {
        segment: 0,
        position: [x, y, 0.0],
        heading: Heading::default(),
        velocity: [0.0; 3],
    }
}

impl Fixtures {
    /// Furnishes the map; everything begins in `sample`.
    #[must_use]
    pub fn new(plan: &mut Plan, seed: u64, census: &mut Census, sample: &mut WorldSample) -> Fixtures {
        let mut fixtures = Fixtures {
            draws: Draws::new(seed, u64::MAX),
            doors: Vec::new(),
            shelves: Vec::new(),
            beacons: Vec::new(),
            pads: plan.pads(),
            shelf_of: vec![None; plan.cells()],
            pad_of: vec![None; plan.cells()],
        };
        for block in plan.buildings() {
            fixtures.place(BUILDING, block.centre, 0, census, sample);
        }
        for index in 0..fixtures.pads.len() {
            let place = fixtures.pads[index];
            fixtures.pad_of[plan.cell(place)] = Some(index);
            fixtures.place(PAD, place, NEUTRAL, census, sample);
        }
        for index in 0..plan.doors().len() {
            let Some(entity) = births(census, sample, DOOR) else {
                break;
            };
            let mut door = Door {
                entity,
                round_s: index as f64,
                pose: standing(plan.doors()[index].centre),
                sighting: Sighting::default(),
                open: false,
                told_open: false,
            };
            door.turn(0.0);
            plan.set_shut(index, !door.open);
            fixtures.doors.push(door);
        }
        for cell in (0..plan.cells()).step_by(PICKUP_CELLS) {
            let place = plan.shelf(cell);
            fixtures.shelf_of[cell] = Some(fixtures.shelves.len());
            fixtures.shelves.push(Shelf {
                place,
                entity: None,
                back_in: 0.0,
            });
        }
        for index in 0..2 * (plan.cells() / BEACON_CELLS).max(BEACONS_MIN) {
            let Some(entity) = births(census, sample, BEACON) else {
                break;
            };
            let tags = TEAMS[index % 2];
            sample.tags.push(TagUpdate { entity, tags });
            let pose = standing(fixtures.somewhere(plan));
            let stays_s = fixtures.draws.between(BEACON_S);
            fixtures.beacons.push(Beacon {
                entity,
                pose,
                stays_s,
                sighting: Sighting::default(),
            });
        }
        fixtures
    }

    /// Something that never moves.
    fn place(
        &mut self,
        class: u8,
        place: [f64; 2],
        tags: u32,
        census: &mut Census,
        sample: &mut WorldSample,
    ) {
        let Some(entity) = births(census, sample, class) else {
            return;
        };
        if tags != 0 {
            sample.tags.push(TagUpdate { entity, tags });
        }
        let seen = Sighting::default().observe(entity, sample.server_us, standing(place));
        sample.observed.extend(seen);
    }

    fn somewhere(&mut self, plan: &Plan) -> [f64; 2] {
        let cell = self.draws.below(plan.cells());
        plan.free(cell, self.draws.below(4))
    }

    /// The pads.
    #[must_use]
    pub fn pads(&self) -> &[[f64; 2]] {
        &self.pads
    }

    /// Where the pad under somebody throws it, if there is one.
    #[must_use]
    pub fn thrown(&self, plan: &Plan, place: [f64; 2]) -> Option<[f64; 2]> {
        let pad = self.pad_of[plan.cell(place)]?;
        let [x, y] = self.pads[pad];
        (distance(place, [x, y]) < TOUCH_M).then_some([-x, -y])
    }

    /// Gives a walker the pickup it stands on, if it has use for it.
    pub fn serve(&mut self, plan: &Plan, walker: &mut Walker, census: &mut Census, sample: &mut WorldSample) {
        if walker.health == HEALTH || !walker.is_alive() {
            return;
        }
        let Some(shelf) = self.shelf_of[plan.cell(walker.place())].map(|index| &mut self.shelves[index])
        else {
            return;
        };
        let Some(entity) = shelf.entity else { return };
        if distance(walker.place(), shelf.place) >= TOUCH_M {
            return;
        }
        (shelf.entity, shelf.back_in) = (None, AWAY_S);
        walker.health = walker.health.saturating_add(PICKUP_HEALTH).min(HEALTH);
        census.bury(entity);
        let at_us = sample.server_us;
        sample.despawned.push(Despawn {
            entity,
            at_us,
            reason: TAKEN,
        });
        let taken = event(PICKUP, Some(walker.entity), at_us, &[walker.health]);
        sample.events.push(taken);
    }

    /// Doors and beacons move on by `seconds`.
    pub fn advance(&mut self, seconds: f64, plan: &mut Plan) {
        for (index, door) in self.doors.iter_mut().enumerate() {
            door.turn(seconds);
            plan.set_shut(index, !door.open);
        }
        for index in 0..self.beacons.len() {
            self.beacons[index].stays_s -= seconds;
            if self.beacons[index].stays_s <= 0.0 {
                let [x, y] = self.somewhere(plan);
                let stays_s = self.draws.between(BEACON_S);
                let beacon = &mut self.beacons[index];
                beacon.stays_s = stays_s;
                beacon.pose.segment += 1;
                beacon.pose.position = [x, y, 0.0];
            }
        }
        for shelf in &mut self.shelves {
            shelf.back_in -= seconds;
        }
    }

    /// Says what is new of it, and brings pickups back.
    pub fn observe(&mut self, census: &mut Census, sample: &mut WorldSample) {
        let at_us = sample.server_us;
        for door in &mut self.doors {
            sample
                .observed
                .extend(door.sighting.observe(door.entity, at_us, door.pose));
            if door.open != door.told_open {
                door.told_open = door.open;
                let (entity, value) = (door.entity, i64::from(door.open));
                sample.extras.push(ExtraSample {
                    entity,
                    field: super::STATE,
                    value,
                });
            }
        }
        for beacon in &mut self.beacons {
            let seen = beacon.sighting.observe(beacon.entity, at_us, beacon.pose);
            sample.observed.extend(seen);
        }
        for shelf in &mut self.shelves {
            if shelf.entity.is_none() && shelf.back_in <= 0.0 {
                shelf.entity = births(census, sample, PICKUP_CLASS);
                if let Some(entity) = shelf.entity {
                    sample.tags.push(TagUpdate {
                        entity,
                        tags: NEUTRAL,
                    });
                    let seen = Sighting::default().observe(entity, at_us, standing(shelf.place));
                    sample.observed.extend(seen);
                }
            }
        }
    }
}
