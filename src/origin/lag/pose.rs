//! A pose between two observations, or ahead of one (SPEC ENT1, ENT9).
//!
//! Position is linear between the observations and follows the last velocity ahead of them; rotation takes the shorter way
//! (slerp: Shoemake, "Animating rotation with quaternion curves", 1985) and is held ahead. An entity at rest stays until
//! one period before its next observation. Metres and unit quaternions x, y, z, w.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::state::entity::Entity;
use crate::state::record::{Motion, Record};
use crate::state::schema::Schema;

/// Cosine above which two rotations are so near that the straight way serves: the sine of their angle would divide badly.
const NEAR: f64 = 0.9995;

/// An entity at a time of the past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rewound {
    /// Who.
    pub entity: Entity,
    /// The segment of that time.
    pub segment: u32,
    /// Index into the schema's classes.
    pub class: u8,
    /// Shots are decided against it (SPEC ENT7).
    pub query_critical: bool,
    /// Its place, metres.
    pub position: [f64; 3],
    /// Its rotation, a unit quaternion x, y, z, w.
    pub rotation: [f64; 4],
    /// The observation at or before that time, server microseconds.
    pub observed_us: u64,
    /// The one after it, where it is published.
    pub next_us: Option<u64>,
    /// It was at rest.
    pub at_rest: bool,
}

/// What a pose is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) record: Record,
    pub(super) left: Motion,
    pub(super) right: Option<Motion>,
}

impl Shown {
    /// The pose at a time at or after the left observation.
    pub(super) fn pose(&self, schema: &Schema, r_us: u64) -> Rewound {
        let Shown { record, left, right } = self;
        let at = position(schema, left);
        let turned = left.rotation.quaternion(schema.rotation_bits);
        let (position, rotation) = match right {
            Some(right) => {
                let part = self.part(right, schema, r_us);
                let to = right.rotation.quaternion(schema.rotation_bits);
                (lerp(at, position(schema, right), part), slerp(turned, to, part))
            }
            None if left.at_rest => (at, turned),
            None => (ahead(schema, left, at, r_us), turned),
        };
        let class = schema.classes.get(usize::from(record.class));
        Rewound {
            entity: record.entity,
            segment: record.segment,
            class: record.class,
            query_critical: class.is_some_and(|class| class.query_critical),
            position,
            rotation,
            observed_us: left.observed_us,
            next_us: right.map(|right| right.observed_us),
            at_rest: left.at_rest,
        }
    }

    /// How much of the way to the right observation is done, 0 to 1.
    fn part(&self, right: &Motion, schema: &Schema, r_us: u64) -> f64 {
        let period_us = u64::from(schema.tick_period_us);
        let mut from_us = self.left.observed_us;
        if self.left.at_rest {
            from_us = from_us.max(right.observed_us.saturating_sub(period_us));
        }
        let span = right.observed_us.saturating_sub(from_us).max(1);
        (seconds(r_us.saturating_sub(from_us)) / seconds(span)).clamp(0.0, 1.0)
    }
}

#[allow(clippy::cast_precision_loss)]
fn seconds(us: u64) -> f64 {
    us as f64 * 1e-6
}

fn position(schema: &Schema, motion: &Motion) -> [f64; 3] {
    let [x, y, z] = &schema.position;
    let [a, b, c] = motion.position;
    [x.metres(a), y.metres(b), z.metres(c)]
}

fn ahead(schema: &Schema, left: &Motion, mut at: [f64; 3], r_us: u64) -> [f64; 3] {
    if let Some(rate) = &schema.velocity {
        let dt = seconds(r_us.saturating_sub(left.observed_us));
        for (at, steps) in at.iter_mut().zip(left.velocity) {
            *at += rate.value(steps) * dt;
        }
    }
    at
}

fn lerp(mut from: [f64; 3], to: [f64; 3], part: f64) -> [f64; 3] {
    for (from, to) in from.iter_mut().zip(to) {
        *from += (to - *from) * part;
    }
    from
}

fn slerp(from: [f64; 4], to: [f64; 4], part: f64) -> [f64; 4] {
    let dot: f64 = from.iter().zip(to).map(|(a, b)| a * b).sum();
    let (dot, sign) = if dot < 0.0 { (-dot, -1.0) } else { (dot, 1.0) };
    let (a, b) = if dot > NEAR {
        (1.0 - part, part)
    } else {
        let angle = dot.acos();
        let sine = angle.sin();
        (((1.0 - part) * angle).sin() / sine, (part * angle).sin() / sine)
    };
    let mut turned = from;
    for (turned, to) in turned.iter_mut().zip(to) {
        *turned = *turned * a + to * (b * sign);
    }
    let length = turned.iter().map(|c| c * c).sum::<f64>().sqrt();
    turned.map(|c| c / length)
}
