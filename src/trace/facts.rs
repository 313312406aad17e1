//! What was seen of a recording, and the schema derived from it.
//!
//! Extra fields are the trace's integer columns that ever hold a value, health first. A column that is ever
//! null becomes a signed field whose lowest value, `-2^(bits-1)`, means "unknown". Other columns begin at 0.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::TraceFault;
use super::header::TraceHeader;
use super::record::TraceRow;
use crate::limits::CLASSES_MAX;
use crate::state::coding::Coding;
use crate::state::schema::{Axis, Class, ExtraField, RATE_HIGHEST, Rate, Schema, SchemaError};
use std::collections::HashMap;

/// Position step of every trace, metres. A power of two: bounds and steps are exact.
pub(crate) const POSITION_STEP: f64 = 1.0 / 512.0;
/// Velocity and angular velocity step, per second, where the bound allows it.
pub(crate) const RATE_STEP: f64 = 0.01;

/// Streams whose entities have not changed when they are missing from a record. Elsewhere they were not heard.
fn is_on_change(family: &str) -> bool {
    matches!(family, "quakeworld-mvd" | "hl2dm-sourcetv" | "simulation")
}

/// Interaction targets: players, cars, balls and cubes. The rest is decoration (SPEC ENT7).
fn is_query_critical(kind: &str) -> bool {
    kind == "player" || kind == "car" || kind.starts_with("ball") || kind == "cube" || kind == "player_cube"
}

/// Seconds to microseconds, rounded. The reader bounds seconds to 115 days.
pub(crate) fn microseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

/// What was seen of one integer column.
#[derive(Clone, Copy, Debug)]
struct Range {
    min: i64,
    max: i64,
    any_null: bool,
}

impl Range {
    const NOTHING: Range = Range {
        min: i64::MAX,
        max: i64::MIN,
        any_null: false,
    };

    /// The field's bits, its sign, and the value for null; `None` when the column never held a value.
    fn coding(self) -> Option<(u8, bool, i64)> {
        let signed = self.any_null || self.min < 0;
        let fits = |bits: &u8| {
            let half = 1i64 << (bits - 1);
            match (signed, self.any_null) {
                (true, true) => self.min > -half && self.max < half,
                (true, false) => self.min >= -half && self.max < half,
                (false, _) => self.max < half * 2,
            }
        };
        let bits = (1u8..=32).find(fits).unwrap_or(32);
        let null = if self.any_null { -(1i64 << (bits - 1)) } else { 0 };
        (self.min <= self.max).then_some((bits, signed, null))
    }
}

/// What was seen so far.
#[derive(Debug)]
pub(crate) struct Facts {
    intervals_us: Vec<u64>,
    classes: HashMap<String, u8>,
    class_names: Vec<String>,
    ranges: Vec<Range>,
    speed_max: Option<f64>,
    spin_max: Option<f64>,
}

/// Where an integer column went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    /// Index into the schema's extra fields.
    pub(crate) field: usize,
    /// The value that stands for null.
    pub(crate) null: i64,
}

impl Facts {
    /// Nothing seen of a recording with so many integer columns.
    pub(crate) fn new(extras: usize) -> Facts {
        Facts {
            intervals_us: Vec::new(),
            classes: HashMap::new(),
            class_names: Vec::new(),
            ranges: vec![Range::NOTHING; extras],
            speed_max: None,
            spin_max: None,
        }
    }

    /// Takes in an interval between two records.
    pub(crate) fn interval(&mut self, interval_us: u64) {
        self.intervals_us.push(interval_us);
    }

    /// The class of a kind: its number in order of first appearance.
    pub(crate) fn class(&mut self, kind: &str) -> Result<u8, TraceFault> {
        if let Some(class) = self.classes.get(kind) {
            return Ok(*class);
        }
        let full = || TraceFault::TooMany {
            what: "kinds of entity",
            bound: CLASSES_MAX as u64,
        };
        let class = u8::try_from(self.class_names.len()).map_err(|_| full())?;
        if self.class_names.len() >= CLASSES_MAX {
            return Err(full());
        }
        self.classes.insert(kind.to_owned(), class);
        self.class_names.push(kind.to_owned());
        Ok(class)
    }

    /// Takes in an observation.
    pub(crate) fn row(&mut self, row: &TraceRow) {
        let greatest = |rate: [f64; 3]| rate.iter().fold(0.0_f64, |most, part| most.max(part.abs()));
        if let Some(velocity) = row.velocity {
            self.speed_max = Some(self.speed_max.unwrap_or_default().max(greatest(velocity)));
        }
        if let Some(angular) = row.angular {
            self.spin_max = Some(self.spin_max.unwrap_or_default().max(greatest(angular)));
        }
        for (range, value) in self.ranges.iter_mut().zip(&row.extras) {
            match value {
                Some(value) => {
                    range.min = range.min.min(*value);
                    range.max = range.max.max(*value);
                }
                None => range.any_null = true,
            }
        }
    }

    /// The schema that holds all that was seen, checked, and where each integer column is in it.
    pub(crate) fn schema(
        mut self,
        header: &TraceHeader,
    ) -> Result<(Schema, Vec<Option<FieldPlace>>), SchemaError> {
        let names = &header.columns.extras;
        let mut columns: Vec<_> = self
            .ranges
            .iter()
            .map(|range| range.coding())
            .zip(names)
            .enumerate()
            .collect();
        columns.sort_by_key(|(_, (_, (name, _)))| name != "health");
        let mut places = vec![None; names.len()];
        let mut extras = Vec::new();
        for (column, (coding, (name, _))) in columns {
            if let (Some((bits, signed, null)), Some(place)) = (coding, places.get_mut(column)) {
                *place = Some(FieldPlace {
                    field: extras.len(),
                    null,
                });
                extras.push(ExtraField {
                    name: name.clone(),
                    bits,
                    signed,
                });
            }
        }
        let [x0, y0, z0] = header.min;
        let [x1, y1, z1] = header.max;
        self.intervals_us.sort_unstable();
        let nominal = microseconds(1.0 / header.tick_hz);
        let median = self
            .intervals_us
            .get(self.intervals_us.len() / 2)
            .copied()
            .unwrap_or(nominal);
        let class = |name: &String| Class {
            name: name.clone(),
            query_critical: is_query_critical(name),
        };
        let schema = Schema {
            coding: Coding::Standard,
            name: header.name.clone(),
            version: 1,
            tick_period_us: u32::try_from(median).unwrap_or(u32::MAX),
            on_change: is_on_change(&header.family),
            position: [axis(x0, x1)?, axis(y0, y1)?, axis(z0, z1)?],
            // The simulated scene is compared with a public coder that has 9 bits.
            rotation_bits: if header.family == "simulation" { 9 } else { 11 },
            velocity: self.speed_max.map(rate).transpose()?,
            angular: self.spin_max.map(rate).transpose()?,
            extras,
            classes: self.class_names.iter().map(class).collect(),
        };
        schema.check()?;
        Ok((schema, places))
    }
}

/// An axis from `min` to `max`, both moved outward to a step and one more.
fn axis(min: f64, max: f64) -> Result<Axis, SchemaError> {
    let lowest = ((min / POSITION_STEP).floor() - 1.0) * POSITION_STEP;
    Axis::new(
        lowest,
        ((max / POSITION_STEP).ceil() + 1.0) * POSITION_STEP,
        POSITION_STEP,
    )
}

/// A rate that holds components up to `most` with a tenth to spare, in whole units.
fn rate(most: f64) -> Result<Rate, SchemaError> {
    let bound = (most * 1.1).ceil().max(1.0);
    let mut step = RATE_STEP;
    while bound / step > f64::from(RATE_HIGHEST) {
        step *= 2.0;
    }
    Rate::new(bound, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_room_for_their_range_and_for_null() {
        let coding = |min, max, any_null| Range { min, max, any_null }.coding();
        assert_eq!(coding(0, 0, false), Some((1, false, 0)));
        assert_eq!(coding(0, 1, false), Some((1, false, 0)));
        assert_eq!(coding(0, 255, false), Some((8, false, 0)));
        assert_eq!(coding(-1, 0, false), Some((1, true, 0)));
        assert_eq!(coding(-128, 127, false), Some((8, true, 0)));
        assert_eq!(coding(0, 100, true), Some((8, true, -128)));
        assert_eq!(coding(-99, 1110, true), Some((12, true, -2048)));
        assert_eq!(coding(-127, 127, true), Some((8, true, -128)));
        assert_eq!(coding(-128, 127, true), Some((9, true, -256)));
        let most = i64::from(i32::MAX);
        assert_eq!(coding(-most, most, true), Some((32, true, -most - 1)));
        assert_eq!(
            Range {
                any_null: true,
                ..Range::NOTHING
            }
            .coding(),
            None
        );
    }

    #[test]
    fn rates_have_a_margin_and_a_step_that_fits() {
        assert_eq!(rate(35.211).ok(), Rate::new(39.0, 0.01).ok());
        assert_eq!(rate(0.0).ok(), Rate::new(1.0, 0.01).ok());
        assert!(rate(1e5).is_ok_and(|rate| rate.bound > 1e5 && rate.highest() <= RATE_HIGHEST));
    }

    #[test]
    fn axes_have_a_margin_of_a_step() {
        let whole = axis(-100.0, 100.0).ok().map(|axis| (axis.min, axis.max));
        assert_eq!(whole, Some((-100.0 - 1.0 / 512.0, 100.0 + 1.0 / 512.0)));
        assert!(
            axis(0.0, 0.0).is_ok_and(|axis| axis.highest() == 2),
            "flat worlds have an axis too"
        );
    }
}
