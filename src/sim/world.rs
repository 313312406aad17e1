//! A synthetic world: what an origin of some game would publish, in integers, with every habit a seed can draw.
//!
//! It plays no game. It makes valid ticks that are awkward to replicate: ids used again, teleports without a
//! state, entities that rest, wake or never move, bursts in which everything changes, observations that lie
//! before their frame, frames at equal times.

use std::sync::Arc;

use super::bodies::{Body, Habit};
use super::dice::Dice;
use super::role::TAGS;
use super::scenario::WorldPlan;
use super::schemas::schema;
use crate::limits::EXTRA_FIELDS_MAX;
use crate::state::entity::Entity;
use crate::state::record::Motion;
use crate::state::schema::Schema;
use crate::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use crate::state::view::Tags;

/// The world of one stream.
pub struct SimWorld {
    dice: Dice,
    plan: WorldPlan,
    schema: Arc<Schema>,
    /// Whether every observation must hold a motion.
    stateful: bool,
    bodies: Vec<Body>,
    /// Ids whose last life has ended, with the generation of the next.
    vacant: Vec<(u32, u32)>,
    next_id: u32,
    origin_tick: u64,
    server_us: u64,
    mass_us: u64,
    events: u64,
    quaternions: Vec<[f64; 4]>,
    stream: u64,
}

/// The stream and the number that an event of the synthetic world carries.
#[must_use]
pub fn event_number(payload: &[u8]) -> Option<(u64, u64)> {
    let (stream, number) = payload.split_first_chunk::<8>()?;
    let number: [u8; 8] = number.try_into().ok()?;
    Some((u64::from_le_bytes(*stream), u64::from_le_bytes(number)))
}

impl SimWorld {
    /// An empty world of stream number `stream` of a seed, at `server_us`.
    #[must_use]
    pub fn new(seed: u64, stream: u64, plan: WorldPlan, stateful: bool, server_us: u64) -> SimWorld {
        let mut dice = Dice::new(seed, "stream", stream);
        let schema = Arc::new(schema(&mut dice, &plan));
        debug_assert_eq!(schema.check(), Ok(()));
        SimWorld {
            dice,
            plan,
            schema,
            stateful,
            bodies: Vec::new(),
            vacant: Vec::new(),
            next_id: 0,
            origin_tick: 0,
            server_us,
            mass_us: server_us + plan.mass_every_us,
            events: 0,
            quaternions: Vec::new(),
            stream,
        }
    }

    /// What its records hold.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The quaternions of the last step's observations, in their order.
    #[must_use]
    pub fn quaternions(&self) -> &[[f64; 4]] {
        &self.quaternions
    }

    /// The living.
    #[must_use]
    pub fn bodies(&self) -> &[Body] {
        &self.bodies
    }

    /// Virtual time until the next tick.
    pub fn interval_us(&mut self) -> u64 {
        let WorldPlan {
            period_us, uneven, ..
        } = self.plan;
        if uneven == 0.0 {
            return period_us;
        }
        if self.dice.chance(0.01) {
            return 0;
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let interval_us = (period_us as f64 * (1.0 + uneven * (2.0 * self.dice.unit() - 1.0))) as u64;
        interval_us
    }

    /// The next tick, `elapsed_us` after the last.
    pub fn step(&mut self, elapsed_us: u64) -> TickUpdate {
        self.origin_tick += 1;
        self.server_us += elapsed_us;
        let mut update = TickUpdate {
            origin_tick: self.origin_tick,
            server_us: self.server_us,
            published_us: self.server_us,
            ..TickUpdate::default()
        };
        self.quaternions.clear();
        let mass = self.plan.mass_every_us > 0 && self.server_us >= self.mass_us;
        if mass {
            self.mass_us = self.server_us + self.plan.mass_every_us;
        }
        #[allow(clippy::cast_precision_loss)]
        let elapsed_s = elapsed_us as f64 / 1e6;
        self.end_lives(elapsed_s, mass, &mut update);
        self.begin_lives(elapsed_s, mass, &mut update);
        self.teleport(elapsed_s, mass);
        self.move_bodies(elapsed_s, mass, &mut update);
        self.change_extras(mass, &mut update);
        self.change_tags(elapsed_s, mass, &mut update);
        self.tell_events(elapsed_s, &mut update);
        update
    }

    /// How often something with this expectation happens.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn count(&mut self, expected: f64) -> usize {
        expected as usize + usize::from(self.dice.chance(expected.fract()))
    }

    #[allow(clippy::cast_precision_loss)]
    fn end_lives(&mut self, elapsed_s: f64, mass: bool, update: &mut TickUpdate) {
        let share = if mass { 0.3 } else { self.plan.turnover * elapsed_s };
        for _ in 0..self.count(self.bodies.len() as f64 * share) {
            if self.bodies.is_empty() {
                return;
            }
            let index = self.dice.index(self.bodies.len());
            let body = self.bodies.swap_remove(index);
            let entity = body.entity;
            self.vacant.push((entity.id, entity.generation + 1));
            let at_us = self.server_us
                - self
                    .dice
                    .up_to(self.plan.period_us.min(self.server_us - body.born_us));
            update.despawned.push(Despawn {
                entity,
                at_us,
                reason: u8::try_from(self.dice.up_to(9)).unwrap_or(0),
            });
        }
        // A spawn that ends the life before it, without a despawn.
        if !self.bodies.is_empty() && self.dice.chance(self.plan.turnover * elapsed_s) {
            let index = self.dice.index(self.bodies.len());
            let Entity { id, generation } = self.bodies[index].entity;
            let entity = Entity {
                id,
                generation: generation + 1,
            };
            self.bodies[index] = self.spawn(entity, update);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn begin_lives(&mut self, elapsed_s: f64, mass: bool, update: &mut TickUpdate) {
        let missing = self.plan.entities.saturating_sub(self.bodies.len());
        let share = if mass || self.origin_tick == 1 {
            1.0
        } else {
            (2.0 * elapsed_s).min(1.0)
        };
        for _ in 0..self.count(missing as f64 * share) {
            let entity = self.entity();
            let body = self.spawn(entity, update);
            self.bodies.push(body);
        }
    }

    /// The identity of the next life.
    fn entity(&mut self) -> Entity {
        if !self.vacant.is_empty() && self.dice.chance(self.plan.reuse) {
            let index = self.dice.index(self.vacant.len());
            let (id, generation) = self.vacant.swap_remove(index);
            return Entity { id, generation };
        }
        // Ids and generations are any numbers: small ones mostly, large ones too. Ids never repeat.
        self.next_id += 1;
        let id = if self.dice.chance(0.05) {
            u32::MAX - self.next_id
        } else {
            self.next_id
        };
        let generation = match self.dice.up_to(9) {
            0 => 1 << 20,
            1 | 2 => u32::try_from(self.dice.up_to(300)).unwrap_or(0),
            _ => 0,
        };
        Entity { id, generation }
    }

    fn spawn(&mut self, entity: Entity, update: &mut TickUpdate) -> Body {
        let class = u8::try_from(self.dice.index(self.schema.classes.len())).unwrap_or(0);
        let habit = if self.dice.chance(self.plan.motionless) {
            Habit::Bare
        } else if self.dice.chance(self.plan.resters) {
            Habit::Rester
        } else {
            Habit::Mover
        };
        update.spawned.push(Spawn {
            entity,
            class,
            at_us: self.server_us,
        });
        let mut body = Body::new(entity, class, self.server_us, habit);
        if self.dice.chance(self.plan.tagged) {
            body.tags = self.tags();
            let tags = body.tags;
            update.tags.push(TagUpdate { entity, tags });
        }
        if habit != Habit::Bare {
            body.place(&mut self.dice, &self.schema);
            // Segments count from anywhere.
            if self.dice.chance(0.2) {
                body.begin_segment(u32::try_from(self.dice.up_to(40)).unwrap_or(0), self.server_us);
            }
        }
        body
    }

    #[allow(clippy::cast_precision_loss)]
    fn teleport(&mut self, elapsed_s: f64, mass: bool) {
        let share = if mass {
            0.2
        } else {
            self.plan.teleports * elapsed_s
        };
        for _ in 0..self.count(self.bodies.len() as f64 * share) {
            let index = self.dice.index(self.bodies.len());
            let stateless = !self.stateful && self.dice.chance(0.2);
            let Some(body) = self.bodies.get_mut(index) else {
                return;
            };
            if body.habit == Habit::Bare {
                continue;
            }
            body.begin_segment(body.segment + 1, self.server_us);
            body.place(&mut self.dice, &self.schema);
            body.stateless = stateless;
        }
    }

    fn move_bodies(&mut self, elapsed_s: f64, mass: bool, update: &mut TickUpdate) {
        let WorldPlan {
            observed,
            lag,
            period_us,
            on_change,
            ..
        } = self.plan;
        let dice = &mut self.dice;
        for body in &mut self.bodies {
            let said = body.moves(dice, elapsed_s, observed, mass);
            if !said {
                // On-change streams: whoever is not named is at rest (SPEC ENT9).
                if let Some(motion) = body.motion.as_mut() {
                    motion.at_rest |= on_change;
                }
                continue;
            }
            body.announced = true;
            if body.stateless {
                body.motion = None;
                update.observed.push(body.observation());
                self.quaternions.push([0.0; 4]);
                continue;
            }
            body.advance(dice, &self.schema, elapsed_s);
            let observed_us = if dice.chance(lag) {
                self.server_us
                    .saturating_sub(dice.up_to(period_us))
                    .max(body.observed_us)
            } else {
                self.server_us
            };
            body.observe(&self.schema, observed_us);
            update.observed.push(body.observation());
            self.quaternions.push(body.quaternion);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn change_extras(&mut self, mass: bool, update: &mut TickUpdate) {
        let fields = self.schema.extras.len();
        if fields == 0 || self.bodies.is_empty() {
            return;
        }
        let share = if mass { 0.5 } else { self.plan.extras };
        let count = self.count(self.bodies.len() as f64 * share);
        let first = self.dice.index(self.bodies.len());
        for step in 0..count {
            let index = (first + step) % self.bodies.len();
            let body = &mut self.bodies[index];
            let mut changed = ExtraUpdate {
                entity: body.entity,
                mask: 0,
                values: [0; EXTRA_FIELDS_MAX],
            };
            for (field, declared) in self.schema.extras.iter().enumerate() {
                if self.dice.chance(0.5) {
                    let pattern = u32::try_from(self.dice.up_to(declared.mask())).unwrap_or(0);
                    changed.mask |= 1 << field;
                    changed.values[field] = pattern;
                    body.extras[field] = pattern;
                }
            }
            if changed.mask != 0 {
                update.extras.push(changed);
            }
        }
    }

    fn tags(&mut self) -> Tags {
        // One team mostly, some none or several.
        let one = 1 << self.dice.up_to(3);
        let any = Tags::try_from(self.dice.up_to(u64::from(TAGS))).unwrap_or(0);
        if self.dice.chance(0.7) { one } else { any }
    }

    /// Some are hidden, and some shown.
    #[allow(clippy::cast_precision_loss)]
    fn change_tags(&mut self, elapsed_s: f64, mass: bool, update: &mut TickUpdate) {
        if self.plan.tagged == 0.0 {
            return;
        }
        let share = if mass { 0.3 } else { self.plan.retags * elapsed_s };
        for _ in 0..self.count(self.bodies.len() as f64 * share) {
            if self.bodies.is_empty() {
                return;
            }
            let (index, tags) = (self.dice.index(self.bodies.len()), self.tags());
            let body = &mut self.bodies[index];
            body.tags = tags;
            let entity = body.entity;
            update.tags.retain(|tagged| tagged.entity != entity);
            update.tags.push(TagUpdate { entity, tags });
        }
    }

    fn tell_events(&mut self, elapsed_s: f64, update: &mut TickUpdate) {
        for _ in 0..self.count(self.plan.events * elapsed_s) {
            self.events += 1;
            let about = !self.bodies.is_empty() && self.dice.chance(0.6);
            let mut entity = about.then(|| self.bodies[self.dice.index(self.bodies.len())].entity);
            if let Some(death) = update.despawned.first()
                && self.dice.chance(0.5)
            {
                entity = Some(death.entity);
            }
            update.events.push(Event {
                kind: u16::try_from(self.dice.up_to(500)).unwrap_or(0),
                critical: self.dice.chance(0.3),
                entity,
                at_us: self.server_us,
                payload: [self.stream.to_le_bytes(), self.events.to_le_bytes()].concat(),
            });
        }
    }

    /// The whole world as a keyframe of the last tick.
    #[must_use]
    pub fn keyframe(&self) -> TickUpdate {
        let mut update = TickUpdate {
            origin_tick: self.origin_tick,
            server_us: self.server_us,
            published_us: self.server_us,
            keyframe: true,
            ..TickUpdate::default()
        };
        let mask = u8::try_from((1u32 << self.schema.extras.len()) - 1).unwrap_or(u8::MAX);
        for body in &self.bodies {
            let Body {
                entity,
                class,
                born_us,
                ..
            } = *body;
            update.spawned.push(Spawn {
                entity,
                class,
                at_us: born_us,
            });
            if body.announced {
                update.observed.push(body.observation());
            }
            if body.tags != 0 {
                let tags = body.tags;
                update.tags.push(TagUpdate { entity, tags });
            }
            if mask != 0 {
                update.extras.push(ExtraUpdate {
                    entity,
                    mask,
                    values: body.extras,
                });
            }
        }
        update
    }
}

impl Body {
    /// The observation that says where it is.
    #[must_use]
    pub fn observation(&self) -> Observation {
        let Body {
            entity,
            segment,
            segment_us,
            motion,
            ..
        } = *self;
        Observation {
            entity,
            segment,
            segment_us,
            motion,
        }
    }

    /// Freezes its pose as the observation of `observed_us`.
    fn observe(&mut self, schema: &Schema, observed_us: u64) {
        if self.segment_opens {
            self.segment_opens = false;
            // A segment begins with its first state, unless it was announced without one.
            if self.motion.is_none() && self.segment != 0 && !self.segment_told {
                self.segment_us = observed_us;
            }
        }
        self.segment_told = true;
        self.observed_us = observed_us;
        self.motion = Some(Motion {
            observed_us,
            position: self.position,
            rotation: self.rotation(schema),
            velocity: if schema.velocity.is_some() {
                self.velocity
            } else {
                [0; 3]
            },
            angular: if schema.angular.is_some() {
                self.angular
            } else {
                [0; 3]
            },
            at_rest: self.resting,
        });
    }
}
