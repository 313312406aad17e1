//! The scene as an origin publishes it: the product's own world, frames and views.

use std::sync::Arc;

use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::coding::Coding;
use ackline::state::entity::Entity;
use ackline::state::record::{Motion, Record};
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Schema};
use ackline::state::update::{ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use ackline::state::view::{Scope, Tags, View};
use ackline::state::world::World;

use super::scene::{CUBES, Cube, Cubes, Dice, Scene};

/// Ticks are a sixtieth of a second.
pub const PERIOD_US: u64 = 16_667;
/// What is added to a position of the scene to make it one of the schema.
const OFFSET: i32 = 1 << 14;

/// The schema of the scene: no velocities and no rest, which the challenge does not have either.
pub fn schema() -> Schema {
    let axis = Axis::new(-32.0, 32.0, 1.0 / 512.0).unwrap();
    Schema {
        name: "cubes901".into(),
        version: 1,
        tick_period_us: u32::try_from(PERIOD_US).unwrap(),
        on_change: false,
        position: [axis; 3],
        rotation_bits: 10,
        velocity: None,
        angular: None,
        extras: vec![ExtraField {
            name: "interacting".into(),
            bits: 1,
            signed: false,
        }],
        classes: vec![Class {
            name: "cube".into(),
            query_critical: false,
        }],
        coding: Coding::Plain,
    }
}

fn entity(at: usize) -> Entity {
    Entity {
        id: u32::try_from(at).unwrap(),
        generation: 0,
    }
}

fn motion(cube: &Cube, observed_us: u64) -> Motion {
    Motion {
        observed_us,
        position: [4, 5, 6].map(|axis| u32::try_from(cube[axis] + OFFSET).unwrap()),
        rotation: Rotation {
            largest: u8::try_from(cube[0]).unwrap(),
            parts: [1, 2, 3].map(|part| u16::try_from(cube[part]).unwrap()),
        },
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: false,
    }
}

/// One of 32 groups for each cube, at random: a view that sees half of the groups sees a random half of the cubes.
fn groups() -> Vec<Tags> {
    let mut dice = Dice::new(11);
    (0..CUBES).map(|_| 1 << dice.within(32)).collect()
}

/// A view of 16 of the 32 groups, another one for each number.
pub fn half_view(number: u64) -> View {
    let mut dice = Dice::new(0xA11CE + number);
    let mut tags: Tags = 0;
    while tags.count_ones() < 16 {
        tags |= 1 << dice.within(32);
    }
    View {
        scope: Scope::Whole,
        tags,
    }
}

/// The cubes a view sees, as a mask.
pub fn mask_of(view: View) -> [u64; CUBES.div_ceil(64)] {
    let mut mask = [0; CUBES.div_ceil(64)];
    for (at, tags) in groups().into_iter().enumerate() {
        mask[at / 64] |= u64::from(view.permits(tags)) << (at % 64);
    }
    mask
}

/// The origin's side: plays the scene tick by tick.
pub struct Origin<'a> {
    scene: &'a Scene,
    world: World,
    step: usize,
    tick: Tick,
}

impl<'a> Origin<'a> {
    pub fn new(scene: &'a Scene) -> Origin<'a> {
        Origin {
            scene,
            world: World::new(Arc::new(schema()), 1, 520),
            step: 0,
            tick: Tick(0),
        }
    }

    /// The cubes of the frame made last.
    pub fn cubes(&self) -> &'a Cubes {
        self.scene.at(self.step)
    }

    /// The next frame; `edit` may add to what is published.
    pub fn advance(&mut self, edit: impl FnOnce(&mut TickUpdate)) -> Arc<Frame> {
        let first = self.tick == Tick(0);
        let before = self.scene.at(self.step);
        self.step += usize::from(!first);
        self.tick = self.tick.next();
        let now = self.scene.at(self.step);
        let server_us = u64::from(self.tick.0) * PERIOD_US;
        let mut update = TickUpdate {
            origin_tick: u64::from(self.tick.0),
            server_us,
            ..TickUpdate::default()
        };
        for (at, (cube, old)) in now.iter().zip(before).enumerate() {
            if first || cube[..7] != old[..7] {
                update.observed.push(Observation {
                    entity: entity(at),
                    segment: 0,
                    segment_us: server_us.min(PERIOD_US),
                    motion: Some(motion(cube, server_us)),
                });
            }
            if first || cube[7] != old[7] {
                let mut values = [0; 8];
                values[0] = u32::try_from(cube[7]).unwrap();
                update.extras.push(ExtraUpdate {
                    entity: entity(at),
                    mask: 1,
                    values,
                });
            }
        }
        if first {
            for (at, tags) in groups().into_iter().enumerate() {
                update.spawned.push(Spawn {
                    entity: entity(at),
                    class: 0,
                    at_us: server_us,
                });
                update.tags.push(TagUpdate {
                    entity: entity(at),
                    tags,
                });
            }
        }
        edit(&mut update);
        let frame = self.world.advance(self.tick, &update).unwrap();
        assert!(self.world.refused().is_empty(), "{:?}", self.world.refused());
        frame
    }
}
