//! A schema's steps as metres: what playback needs of a schema, and nothing that allocates.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::pose::Pose;
use crate::limits::CLASSES_MAX;
use crate::state::record::Motion;
use crate::state::schema::{Axis, Rate, Schema};

/// What playback needs of a schema.
#[derive(Clone, Debug)]
pub struct Measure {
    axes: [Axis; 3],
    rotation_bits: u8,
    velocity: Option<Rate>,
    angular: Option<Rate>,
    period_us: u64,
    /// A bit for each class: its entities are query-critical (SPEC ENT7).
    critical: [u64; CLASSES_MAX.div_ceil(64)],
}

impl Measure {
    /// The measure of a schema.
    #[must_use]
    pub fn new(schema: &Schema) -> Measure {
        let mut critical = [0u64; CLASSES_MAX.div_ceil(64)];
        for (index, class) in schema.classes.iter().enumerate() {
            if let Some(word) = critical.get_mut(index / 64).filter(|_| class.query_critical) {
                *word |= 1 << (index % 64);
            }
        }
        Measure {
            axes: schema.position,
            rotation_bits: schema.rotation_bits,
            velocity: schema.velocity,
            angular: schema.angular,
            period_us: u64::from(schema.tick_period_us),
            critical,
        }
    }

    /// T as the schema has it, microseconds.
    #[must_use]
    pub fn period_us(&self) -> u64 {
        self.period_us
    }

    /// True when records have a velocity: what is not observed may be extrapolated (SPEC DEC2).
    #[must_use]
    pub fn has_velocity(&self) -> bool {
        self.velocity.is_some()
    }

    /// True for a class whose entities decide whether a view is ready. The server decides that; a class nobody knows
    /// counts as critical.
    #[must_use]
    pub fn is_critical(&self, class: u8) -> bool {
        let class = usize::from(class);
        self.critical
            .get(class / 64)
            .is_none_or(|word| word >> (class % 64) & 1 == 1)
    }

    /// The pose of a motion.
    #[must_use]
    pub fn pose(&self, motion: &Motion) -> Pose {
        let [x, y, z] = &self.axes;
        let [qx, qy, qz] = motion.position;
        Pose {
            position: [x.metres(qx), y.metres(qy), z.metres(qz)],
            rotation: motion.rotation.quaternion(self.rotation_bits),
        }
    }

    /// Metres a second; zero where the schema has no velocity or the body rests.
    #[must_use]
    pub fn velocity(&self, motion: &Motion) -> [f64; 3] {
        rate(self.velocity.as_ref(), motion.velocity, motion.at_rest)
    }

    /// Radians a second; zero where the schema has none or the body rests.
    #[must_use]
    pub fn angular(&self, motion: &Motion) -> [f64; 3] {
        rate(self.angular.as_ref(), motion.angular, motion.at_rest)
    }
}

fn rate(rate: Option<&Rate>, values: [i32; 3], at_rest: bool) -> [f64; 3] {
    match rate {
        Some(rate) if !at_rest => values.map(|value| rate.value(value)),
        _ => [0.0; 3],
    }
}
