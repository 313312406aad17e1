//! One entity of the synthetic world: where it is, what it does next, what was last said of it.

use super::dice::Dice;
use crate::limits::EXTRA_FIELDS_MAX;
use crate::state::entity::Entity;
use crate::state::record::{Motion, Record};
use crate::state::rotation::Rotation;
use crate::state::schema::Schema;
use crate::state::view::Tags;

/// What an entity mostly does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Moves all the time.
    Mover,
    /// Rests, wakes, rests again.
    Rester,
    /// Has no motion (SPEC DEC3); may get one late.
    Bare,
}

/// An entity.
#[derive(Clone, Debug)]
pub struct Body {
    /// Who.
    pub entity: Entity,
    /// Its class.
    pub class: u8,
    /// When this life began, server microseconds.
    pub born_us: u64,
    /// What it does.
    pub habit: Habit,
    /// Its continuity segment.
    pub segment: u32,
    /// When that began.
    pub segment_us: u64,
    /// The last observation said, rest included.
    pub motion: Option<Motion>,
    /// Extra fields said.
    pub extras: [u32; EXTRA_FIELDS_MAX],
    /// Its tag bits.
    pub tags: Tags,
    /// Time of the last observation of this life.
    pub observed_us: u64,
    /// Position now, in steps.
    pub position: [u32; 3],
    /// Velocity now, in steps.
    pub velocity: [i32; 3],
    /// Angular velocity now, in steps.
    pub angular: [i32; 3],
    /// Rotation now.
    pub quaternion: [f64; 4],
    /// It rests.
    pub resting: bool,
    /// Its segment is announced without a state for now.
    pub stateless: bool,
    /// It was observed at least once.
    pub announced: bool,
    /// A segment began and was not observed yet.
    pub segment_opens: bool,
    /// Its segment was said, with a state or without.
    pub segment_told: bool,
    /// Something must be said of it in the next tick.
    urgent: bool,
}

impl Body {
    /// A body at birth, without motion.
    #[must_use]
    pub fn new(entity: Entity, class: u8, born_us: u64, habit: Habit) -> Body {
        Body {
            entity,
            class,
            born_us,
            habit,
            segment: 0,
            segment_us: born_us,
            motion: None,
            extras: [0; EXTRA_FIELDS_MAX],
            tags: 0,
            observed_us: born_us,
            position: [0; 3],
            velocity: [0; 3],
            angular: [0; 3],
            quaternion: [0.0, 0.0, 0.0, 1.0],
            resting: false,
            stateless: false,
            announced: false,
            segment_opens: false,
            segment_told: true,
            urgent: habit != Habit::Bare,
        }
    }

    /// Its record as the origin means it.
    #[must_use]
    pub fn record(&self) -> Record {
        Record {
            motion: self.motion,
            extras: self.extras,
            segment: if self.announced { self.segment } else { 0 },
            segment_us: if self.announced {
                self.segment_us
            } else {
                self.born_us
            },
            ..Record::born(self.entity, self.class, self.born_us)
        }
    }

    /// Somewhere in the bounds, going somewhere.
    pub fn place(&mut self, dice: &mut Dice, schema: &Schema) {
        for (at, axis) in self.position.iter_mut().zip(&schema.position) {
            *at = u32::try_from(dice.up_to(u64::from(axis.highest()))).unwrap_or(0);
        }
        let highest = i64::from(speed_highest(schema));
        for velocity in &mut self.velocity {
            *velocity = i32::try_from(dice.swing(highest)).unwrap_or(0);
        }
        for component in &mut self.quaternion {
            *component = dice.real(-1.0, 1.0);
        }
        self.normalise();
        self.urgent = true;
    }

    /// A segment begins; its first observation sets its time.
    pub fn begin_segment(&mut self, segment: u32, at_us: u64) {
        if segment != self.segment {
            (self.segment, self.segment_us) = (segment, at_us);
            self.motion = None;
            (self.segment_opens, self.segment_told) = (true, false);
        }
    }

    /// Decides whether it is observed in this tick, and whether it rests.
    pub fn moves(&mut self, dice: &mut Dice, elapsed_s: f64, observed: f64, mass: bool) -> bool {
        match self.habit {
            Habit::Bare => {
                if !dice.chance(elapsed_s * 0.03) {
                    return false;
                }
                self.habit = Habit::Mover;
                self.urgent = true;
            }
            Habit::Rester => {
                let turns = dice.chance(elapsed_s * if self.resting { 0.3 } else { 1.0 });
                let idle = self.resting && !turns;
                self.resting ^= turns;
                // A resting entity is heard of now and then all the same.
                if idle && !self.urgent && !mass && !dice.chance(elapsed_s * 0.2) {
                    return false;
                }
                self.urgent |= turns;
            }
            Habit::Mover => {}
        }
        if self.stateless && self.announced && self.segment_told {
            // The state of an open segment comes soon.
            if !dice.chance(elapsed_s * 4.0) {
                return false;
            }
            self.stateless = false;
        }
        let said = core::mem::take(&mut self.urgent) || mass || dice.chance(observed);
        if said && self.stateless {
            self.segment_told = true;
        }
        said
    }

    /// Moves on for a time: by its velocity, with some noise, off the walls.
    #[allow(clippy::cast_possible_truncation)]
    pub fn advance(&mut self, dice: &mut Dice, schema: &Schema, elapsed_s: f64) {
        if self.resting {
            return;
        }
        let highest = speed_highest(schema);
        let step = schema.velocity.map_or(1.0, |rate| rate.step);
        let noise = dice.bits();
        if noise & 3 == 0 {
            for velocity in &mut self.velocity {
                let change = i32::try_from(dice.swing(i64::from(highest / 16) + 1)).unwrap_or(0);
                *velocity = (*velocity + change).clamp(-highest, highest);
            }
        }
        for index in 0..3 {
            let axis = &schema.position[index];
            let scale = if schema.velocity.is_some() {
                step / axis.step
            } else {
                1.0
            };
            let moved = (f64::from(self.velocity[index]) * scale * elapsed_s).round() as i64;
            let stray = i64::from(noise >> (8 + index * 2) & 3 == 3);
            let there = i64::from(self.position[index]) + moved + stray;
            let most = i64::from(axis.highest());
            if !(0..=most).contains(&there) {
                self.velocity[index] = -self.velocity[index];
            }
            self.position[index] = u32::try_from(there.clamp(0, most)).unwrap_or(0);
        }
        if noise >> 16 & 3 != 0 {
            for (index, component) in self.quaternion.iter_mut().enumerate() {
                *component += (f64::from(noise as u16 >> (index * 4) & 15) - 7.5) * 0.01;
            }
            self.normalise();
        }
        if let Some(rate) = &schema.angular {
            let most = i64::from(rate.highest());
            self.angular = [0; 3].map(|_: i32| i32::try_from(dice.swing(most)).unwrap_or(0));
        }
    }

    fn normalise(&mut self) {
        let length = self.quaternion.iter().map(|c| c * c).sum::<f64>().sqrt();
        if length < 1e-3 {
            self.quaternion = [0.0, 0.0, 0.0, 1.0];
        } else {
            self.quaternion = self.quaternion.map(|c| c / length);
        }
    }

    /// Its rotation in integers.
    #[must_use]
    pub fn rotation(&self, schema: &Schema) -> Rotation {
        Rotation::from_quaternion(self.quaternion, schema.rotation_bits)
            .unwrap_or(Rotation::identity(schema.rotation_bits))
    }
}

/// The highest speed in steps of the schema's velocity, or a brisk one where it has none.
fn speed_highest(schema: &Schema) -> i32 {
    schema.velocity.map_or(200, |rate| rate.highest().cast_signed())
}
