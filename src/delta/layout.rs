//! A schema worked out for coding: widths, highest values and prediction scales as integers.
//!
//! Invariant: made from a schema that passed [`Schema::check`]. Floats are used once, here; encoding and
//! decoding use integers only (SPEC ID7).

use std::sync::Arc;

use super::codebook::Codebook;
use super::prediction::scale;
use crate::limits::EXTRA_FIELDS_MAX;
use crate::state::record::Record;
use crate::state::rotation::highest_part;
use crate::state::schema::{Axis, Rate, Schema};

/// What coding needs to know of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The schema's tick period T, microseconds: the unit of observation ages.
    pub(super) tick_period_us: u32,
    /// Position axes x, y, z.
    pub(super) position: [AxisLayout; 3],
    /// Bits of one sent quaternion component.
    pub(super) rotation_bits: u32,
    /// Highest value of one sent quaternion component.
    pub(super) highest_part: u16,
    /// Velocity, where the schema has it.
    pub(super) velocity: Option<RateLayout>,
    /// Angular velocity, where the schema has it.
    pub(super) angular: Option<RateLayout>,
    /// Bits of each extra field; 0 where the schema has none.
    pub(super) extra_bits: [u32; EXTRA_FIELDS_MAX],
    /// Number of extra fields.
    pub(super) extra_fields: u32,
    /// Number of classes.
    pub(super) classes: usize,
    /// The prefix codes of a tuned schema.
    pub(super) book: Option<Arc<Codebook>>,
}

/// One position axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AxisLayout {
    /// Highest value; the lowest is 0.
    pub(super) highest: u32,
    /// Bits that hold every value, 1 to 32.
    pub(super) bits: u32,
    /// Position steps in 2^-28 that one velocity step covers in 64 us; 0 without velocity.
    pub(super) scale: u32,
}

/// A signed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateLayout {
    /// Highest magnitude.
    pub(super) highest: u32,
    /// Bits of a value in two's complement, 2 to 18.
    pub(super) bits: u32,
}

impl RateLayout {
    fn new(rate: &Rate) -> RateLayout {
        let highest = rate.highest();
        RateLayout {
            highest,
            bits: 33 - highest.leading_zeros(),
        }
    }
}

impl Layout {
    /// The layout of a schema that passed [`Schema::check`].
    #[must_use]
    pub fn new(schema: &Schema) -> Layout {
        debug_assert_eq!(schema.check(), Ok(()), "a layout needs a checked schema");
        let step = schema.velocity.as_ref().map(|rate| rate.step);
        let axis = |axis: Axis| AxisLayout {
            highest: axis.highest(),
            bits: axis.bits(),
            scale: step.map_or(0, |step| scale(step, axis.step)),
        };
        let mut extra_bits = [0; EXTRA_FIELDS_MAX];
        for (bits, field) in extra_bits.iter_mut().zip(&schema.extras) {
            *bits = u32::from(field.bits);
        }
        Layout {
            tick_period_us: schema.tick_period_us,
            position: schema.position.map(axis),
            rotation_bits: u32::from(schema.rotation_bits),
            highest_part: highest_part(schema.rotation_bits),
            velocity: schema.velocity.as_ref().map(RateLayout::new),
            angular: schema.angular.as_ref().map(RateLayout::new),
            extra_bits,
            extra_fields: u32::try_from(schema.extras.len()).unwrap_or(0),
            classes: schema.classes.len(),
            book: Codebook::of(&schema.coding),
        }
    }

    /// True when every value of the record is one the schema can produce and no time is after the frame's.
    pub(super) fn holds(&self, record: &Record, server_us: u64) -> bool {
        let rates = |layout: &Option<RateLayout>, values: [i32; 3]| {
            let highest = layout.map_or(0, |rate| rate.highest);
            values.iter().all(|v| v.unsigned_abs() <= highest)
        };
        usize::from(record.class) < self.classes
            && record.born_us <= server_us
            && record.segment_us <= server_us
            && self
                .extra_bits
                .iter()
                .zip(record.extras)
                .all(|(bits, value)| u64::from(value) >> bits == 0)
            && record.motion.is_none_or(|motion| {
                motion.observed_us <= server_us
                    && self
                        .position
                        .iter()
                        .zip(motion.position)
                        .all(|(axis, q)| q <= axis.highest)
                    && motion.rotation.largest < 4
                    && motion
                        .rotation
                        .parts
                        .iter()
                        .all(|part| *part <= self.highest_part)
                    && rates(&self.velocity, motion.velocity)
                    && rates(&self.angular, motion.angular)
            })
    }
}
