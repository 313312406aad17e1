//! A random origin: a schema and a world of entities that glide, jump, rest, change, end and come again.

use std::collections::HashSet;
use std::sync::Arc;

use ackline::delta;
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::coding::{Coding, Lengths};
use ackline::state::entity::Entity;
use ackline::state::player::{Directive, Order, PlayerId};
use ackline::state::record::Motion;
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use ackline::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TickUpdate};
use ackline::state::world::World;

use crate::dice::Dice;

/// Slots keep their tombstones this long: as the relay does it.
const QUARANTINE_TICKS: u32 = 520;

/// How a world behaves; chances are thousandths.
#[derive(Clone, Copy)]
pub struct Style {
    pub entities: usize,
    /// Of an entity to be observed in a tick.
    pub activity: u64,
    /// Of a tick to end an entity and begin another.
    pub churn: u64,
    /// Of an observation to begin a new segment.
    pub teleport: u64,
    /// Of an entity to get new extra fields in a tick.
    pub extras: u64,
    /// Of a tick to have events.
    pub events: u64,
    /// Frames and observations come at uneven times.
    pub uneven: bool,
    /// Time of the first frame, microseconds.
    pub first_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    Mover,
    /// Moves, and sleeps between.
    Sleeper,
    /// Observed once, long ago, at rest.
    Statue,
    /// Never observed.
    Idea,
}

struct Actor {
    entity: Entity,
    habit: Habit,
    segment: u32,
    segment_us: u64,
    motion: Option<Motion>,
}

pub struct Origin {
    pub schema: Arc<Schema>,
    pub schema_bytes: Vec<u8>,
    pub period_us: u64,
    world: World,
    dice: Dice,
    style: Style,
    actors: Vec<Actor>,
    ids: HashSet<u32>,
    graveyard: Vec<Entity>,
    server_us: u64,
    origin_tick: u64,
}

/// A random schema with `hz` ticks a second. Fits its 1000 bytes.
pub fn random_schema(dice: &mut Dice, hz: u32, on_change: bool) -> Schema {
    let wide = dice.chance(150);
    let step = if wide {
        0.0005
    } else {
        [0.01, 0.002, 0.05, 0.125][dice.index(4)]
    };
    let half = if wide {
        1_073_741.5
    } else {
        [100.0, 33.3, 1000.0][dice.index(3)]
    };
    let axis = |low: f64, high: f64, step: f64| Axis::new(low, high, step).unwrap();
    let ratio = [0.5, 2.0, 30.0, 240.0][dice.index(4)];
    let velocity = dice
        .chance(650)
        .then(|| Rate::new(step * ratio * 2500.0, step * ratio).unwrap());
    let angular = dice
        .chance(400)
        .then(|| Rate::new(10.0, [0.01, 0.0001, 9.0][dice.index(3)]).unwrap());
    let extras = (0..dice.index(9)).map(|index| {
        let bits = [1, 2, 7, 10, 16, 31, 32][dice.index(7)];
        ExtraField {
            name: format!("feld-{index}-\u{fc}"),
            bits,
            signed: dice.chance(500),
        }
    });
    let extras: Vec<ExtraField> = extras.collect();
    let classes: Vec<Class> = (0..1 + dice.index(12))
        .map(|index| Class {
            name: format!("class {index}"),
            query_critical: dice.chance(500),
        })
        .collect();
    Schema {
        coding: coding(dice),
        name: "conformance".into(),
        version: u16::try_from(dice.below(65_536)).unwrap(),
        tick_period_us: 1_000_000 / hz,
        on_change,
        position: [
            axis(-half, half, step),
            axis(-half, half, step),
            axis(0.0, half / 2.0, step * 2.0),
        ],
        rotation_bits: [2, 7, 9, 9, 11, 15][dice.index(6)],
        velocity,
        angular,
        extras,
        classes,
    }
}

/// One of the three ways to code records.
fn coding(dice: &mut Dice) -> Coding {
    match dice.index(3) {
        0 => Coding::Plain,
        1 => Coding::Standard,
        _ => Coding::Own(Arc::new(Lengths::flat())),
    }
}

impl Origin {
    pub fn new(schema: Schema, stream_epoch: u32, style: Style, mut dice: Dice) -> Origin {
        let schema_bytes = delta::schema::encode(&schema).unwrap();
        let period_us = u64::from(schema.tick_period_us);
        let schema = Arc::new(schema);
        let seed = dice.roll();
        Origin {
            world: World::new(Arc::clone(&schema), stream_epoch, QUARANTINE_TICKS),
            schema,
            schema_bytes,
            period_us,
            dice: Dice::new(seed),
            style,
            actors: Vec::new(),
            ids: HashSet::new(),
            graveyard: Vec::new(),
            server_us: style.first_us,
            origin_tick: 0,
        }
    }

    /// The frame of the next tick of the world, with what is for the player in it.
    pub fn advance(&mut self, tick: Tick, player: Option<PlayerId>) -> Arc<Frame> {
        let mut update = self.update();
        if let Some(player) = player {
            self.direct(player, &mut update);
        }
        let frame = self.world.advance(tick, &update).unwrap();
        assert!(self.world.refused().is_empty(), "{:?}", self.world.refused());
        frame
    }

    /// The last frame again.
    pub fn hold(&mut self, tick: Tick, stale: bool) -> Arc<Frame> {
        self.world.hold(tick, stale)
    }

    /// Now and then the player is given another entity, and told something.
    fn direct(&mut self, player: PlayerId, update: &mut TickUpdate) {
        let mut orders = Vec::new();
        if self.dice.chance(30) {
            let entity = self.dice.pick(&self.actors).map(|actor| actor.entity);
            orders.push(Order::Assign { entity, view: None });
        }
        if self.dice.chance(30) {
            orders.push(Order::Message {
                kind: 7,
                payload: vec![self.dice.byte(); 5],
            });
        }
        if self.dice.chance(200) {
            orders.push(Order::Processed(u32::try_from(self.origin_tick).unwrap()));
        }
        let directives = orders.into_iter().map(|order| Directive { player, order });
        update.directives.extend(directives);
    }

    fn update(&mut self) -> TickUpdate {
        if self.origin_tick > 0 {
            let uneven = if self.style.uneven {
                self.dice.below(self.period_us)
            } else {
                self.period_us / 2
            };
            self.server_us += self.period_us / 2 + uneven;
        }
        self.origin_tick += 1;
        let mut update = TickUpdate {
            origin_tick: self.origin_tick,
            server_us: self.server_us,
            ..TickUpdate::default()
        };
        while self.dice.chance(self.style.churn) && !self.actors.is_empty() {
            self.end_one(&mut update);
        }
        while self.actors.len() < self.style.entities {
            self.begin_one(&mut update);
        }
        for index in 0..self.actors.len() {
            if let Some(observation) = self.observe(index) {
                update.observed.push(observation);
            }
            if self.dice.chance(self.style.extras) {
                let entity = self.actors[index].entity;
                update.extras.extend(self.extras(entity));
            }
        }
        while self.dice.chance(self.style.events) && update.events.len() < 8 {
            let event = self.event();
            update.events.push(event);
        }
        update
    }

    /// A time a little before the frame's.
    fn lately(&mut self) -> u64 {
        let back = if self.style.uneven {
            self.dice.below(self.period_us)
        } else {
            0
        };
        self.server_us - back.min(self.server_us)
    }

    fn end_one(&mut self, update: &mut TickUpdate) {
        let index = self.dice.index(self.actors.len());
        let actor = self.actors.swap_remove(index);
        let at_us = self.lately();
        update.despawned.push(Despawn {
            entity: actor.entity,
            at_us,
            reason: self.dice.byte(),
        });
        self.graveyard.push(actor.entity);
    }

    fn new_entity(&mut self) -> Entity {
        if !self.graveyard.is_empty() && self.dice.chance(500) {
            let index = self.dice.index(self.graveyard.len());
            let old = self.graveyard.swap_remove(index);
            let further = [1, 1, 1, 60, 70_000][self.dice.index(5)];
            return Entity {
                id: old.id,
                generation: old.generation.wrapping_add(further),
            };
        }
        loop {
            let id = match self.dice.under(8) {
                0 => self.dice.under(128),
                1..=4 => self.dice.under(5000),
                5 | 6 => self.dice.under(2_000_000),
                _ => u32::MAX - self.dice.under(1_000_000),
            };
            if self.ids.insert(id) {
                return Entity {
                    id,
                    generation: [0, 0, 0, 3, 1000][self.dice.index(5)],
                };
            }
        }
    }

    fn begin_one(&mut self, update: &mut TickUpdate) {
        let entity = self.new_entity();
        let habit = match self.dice.under(10) {
            0 => Habit::Idea,
            1 | 2 => Habit::Statue,
            3..=5 => Habit::Sleeper,
            _ => Habit::Mover,
        };
        let at_us = if habit == Habit::Statue {
            self.dice.below(self.server_us + 1)
        } else {
            self.lately()
        };
        let class = u8::try_from(self.dice.index(self.schema.classes.len())).unwrap();
        update.spawned.push(Spawn { entity, class, at_us });
        self.actors.push(Actor {
            entity,
            habit,
            segment: 0,
            segment_us: at_us,
            motion: None,
        });
    }

    fn extras(&mut self, entity: Entity) -> Option<ExtraUpdate> {
        let fields = &self.schema.extras;
        if fields.is_empty() {
            return None;
        }
        let mut update = ExtraUpdate {
            entity,
            mask: 0,
            values: [0; 8],
        };
        for (index, field) in fields.iter().enumerate() {
            if self.dice.chance(400) {
                update.mask |= 1 << index;
                let narrow = if self.dice.chance(500) { 3 } else { field.mask() };
                update.values[index] = u32::try_from(self.dice.roll() & narrow & field.mask()).unwrap();
            }
        }
        Some(update)
    }

    fn event(&mut self) -> Event {
        let entity = match self.dice.under(20) {
            0 => Some(Entity {
                id: 777_777_777,
                generation: 1,
            }),
            1..=9 => self.dice.pick(&self.actors).map(|actor| actor.entity),
            _ => None,
        };
        let length = if self.dice.chance(30) {
            256
        } else {
            self.dice.index(12)
        };
        Event {
            kind: u16::try_from(self.dice.below(65_536)).unwrap(),
            critical: self.dice.chance(300),
            entity,
            at_us: self.lately(),
            payload: (0..length).map(|_| self.dice.byte()).collect(),
        }
    }

    fn observe(&mut self, index: usize) -> Option<Observation> {
        let first = self.actors[index].motion.is_none();
        let chance = match self.actors[index].habit {
            Habit::Idea => 0,
            Habit::Statue => 1000 * u64::from(first),
            Habit::Sleeper if !(self.origin_tick / 40).is_multiple_of(3) && !first => 0,
            _ if first => 700,
            _ => self.style.activity,
        };
        if !self.dice.chance(chance) {
            return None;
        }
        if !first && self.dice.chance(self.style.teleport) {
            let begun = self.lately();
            let actor = &mut self.actors[index];
            actor.segment += if self.dice.chance(900) { 1 } else { 100 };
            (actor.segment_us, actor.motion) = (begun.max(actor.segment_us), None);
            if self.dice.chance(300) {
                let Actor {
                    entity,
                    segment,
                    segment_us,
                    ..
                } = *actor;
                return Some(Observation {
                    entity,
                    segment,
                    segment_us,
                    motion: None,
                });
            }
        }
        let motion = self.motion(index);
        let actor = &mut self.actors[index];
        actor.motion = Some(motion);
        let Actor {
            entity,
            segment,
            segment_us,
            ..
        } = *actor;
        Some(Observation {
            entity,
            segment,
            segment_us,
            motion: Some(motion),
        })
    }

    fn motion(&mut self, index: usize) -> Motion {
        let (habit, last) = (self.actors[index].habit, self.actors[index].motion);
        let now = self.lately();
        let at_rest = habit == Habit::Statue || self.dice.chance(60);
        let Some(last) = last else {
            let observed_us = if habit == Habit::Statue {
                self.dice.below(now + 1)
            } else {
                now
            };
            return self.appear(observed_us, at_rest);
        };
        let observed_us = now.max(last.observed_us);
        let seconds = (observed_us - last.observed_us) as f64 / 1e6;
        let mut motion = Motion {
            observed_us,
            at_rest,
            ..last
        };
        let velocity_step = self.schema.velocity.map_or(0.0, |rate| rate.step);
        for axis in 0..3 {
            let steps = self.schema.position[axis];
            let exact = f64::from(last.velocity[axis]) * velocity_step * seconds / steps.step;
            let noise = if self.dice.chance(400) {
                self.dice.around(4)
            } else {
                0
            };
            let jump = if self.dice.chance(10) {
                self.dice.around(1 << 31)
            } else {
                0
            };
            let moved = i64::from(last.position[axis]) + exact.round() as i64 + noise + jump;
            motion.position[axis] = u32::try_from(moved.clamp(0, i64::from(steps.highest()))).unwrap();
        }
        motion.velocity = self.rate(self.schema.velocity, last.velocity);
        motion.angular = self.rate(self.schema.angular, last.angular);
        if self.dice.chance(600) {
            motion.rotation = self.turn(last.rotation);
        }
        motion
    }

    fn appear(&mut self, observed_us: u64, at_rest: bool) -> Motion {
        let position = self.schema.position.map(|axis| axis.highest());
        let position = position.map(|highest| match self.dice.under(10) {
            0 => 0,
            1 => highest,
            _ => u32::try_from(self.dice.below(u64::from(highest) + 1)).unwrap(),
        });
        let velocity = self.rate(self.schema.velocity, [0; 3]);
        Motion {
            observed_us,
            position,
            rotation: self.turn(Rotation {
                largest: 9,
                parts: [0; 3],
            }),
            velocity,
            angular: self.rate(self.schema.angular, [0; 3]),
            at_rest,
        }
    }

    fn rate(&mut self, rate: Option<Rate>, last: [i32; 3]) -> [i32; 3] {
        let Some(rate) = rate else { return [0; 3] };
        if self.dice.chance(500) {
            return last;
        }
        let highest = i64::from(rate.highest());
        last.map(|value| {
            let change = if self.dice.chance(20) { highest * 2 } else { 20 };
            let value = i64::from(value) + self.dice.around(change);
            i32::try_from(value.clamp(-highest, highest)).unwrap()
        })
    }

    fn turn(&mut self, last: Rotation) -> Rotation {
        let highest = (1i64 << self.schema.rotation_bits) - 2;
        let fresh = last.largest > 3 || self.dice.chance(60);
        let change = if fresh {
            highest
        } else {
            [1, 3, 40][self.dice.index(3)]
        };
        Rotation {
            largest: if fresh {
                u8::try_from(self.dice.below(4)).unwrap()
            } else {
                last.largest
            },
            parts: last.parts.map(|part| {
                let part = i64::from(part) + self.dice.around(change);
                u16::try_from(part.clamp(0, highest)).unwrap()
            }),
        }
    }
}
