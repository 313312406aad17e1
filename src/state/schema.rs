//! The schema an origin declares: what a record holds and how metres become integers (SPEC ID6).
//!
//! Invariant: a `Schema` that passed [`Schema::check`] quantises every value within its bounds without loss
//! beyond half a step, and every integer it can produce fits the bits it declares.

use super::coding::Coding;
use crate::limits::{CLASSES_MAX, EXTRA_FIELDS_MAX, NAME_BYTES_MAX};

/// Highest magnitude of a quantised velocity component: 17 bits, so that the prediction's products stay
/// below 2^53 and are exact in a browser's numbers too.
pub const RATE_HIGHEST: u32 = (1 << 17) - 1;
/// Velocity steps may be at most this many position steps a second (the same bound, on the other factor).
pub const RATE_RATIO_MAX: f64 = 244.0;

/// What a world's records hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The game's own name for it.
    pub name: String,
    /// The game's own version of it.
    pub version: u16,
    /// Median interval of the stream as sent, in microseconds (SPEC DEC1, T).
    pub tick_period_us: u32,
    /// True for streams that publish on change only: an entity not in a tick is at rest from that tick
    /// (SPEC ENT9). False: it was merely not heard.
    pub on_change: bool,
    /// Position axes x, y, z.
    pub position: [Axis; 3],
    /// Bits of each of the three sent quaternion components, 2 to 15.
    pub rotation_bits: u8,
    /// Velocity, or `None` where the stream carries none (SPEC DEC2).
    pub velocity: Option<Rate>,
    /// Angular velocity, or `None`.
    pub angular: Option<Rate>,
    /// Fields besides motion, at most [`EXTRA_FIELDS_MAX`].
    pub extras: Vec<ExtraField>,
    /// Classes of entity, 1 to [`CLASSES_MAX`].
    pub classes: Vec<Class>,
    /// How records become bits.
    pub coding: Coding,
}

/// One position axis in metres: values from `min` to `max` in steps of `step`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Lowest value, metres.
    pub min: f64,
    /// Highest value, metres.
    pub max: f64,
    /// Distance of two values, metres.
    pub step: f64,
}

/// A signed rate of change: values from `-bound` to `bound` in steps of `step`, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Greatest magnitude of a component.
    pub bound: f64,
    /// Distance of two values.
    pub step: f64,
}

/// An integer field besides motion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraField {
    /// Name, for errors and displays.
    pub name: String,
    /// Width, 1 to 32 bits.
    pub bits: u8,
    /// Two's complement when true.
    pub signed: bool,
}

/// A class of entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name, for displays.
    pub name: String,
    /// Interaction targets and occluders: a stale one makes a view not ready (SPEC ENT7).
    pub query_critical: bool,
}

/// Why a schema or a value was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// A value outside the bounds of its field. Nothing is clamped silently (SPEC ID6).
    #[error(
        "{field} is {value}, outside its bounds {min} to {max}: widen the schema's bounds or fix the value"
    )]
    OutOfRange {
        /// Which field.
        field: String,
        /// The value.
        value: f64,
        /// Lowest allowed value.
        min: f64,
        /// Highest allowed value.
        max: f64,
    },
    /// The schema itself breaks a bound.
    #[error("schema: {0}")]
    Malformed(String),
}

fn malformed(text: impl Into<String>) -> SchemaError {
    SchemaError::Malformed(text.into())
}

impl Axis {
    /// An axis from `min` to `max` metres in steps of `step` metres.
    ///
    /// # Errors
    /// When a bound is not finite, `min >= max`, the step is not positive, or there are more than 2^32 values.
    pub fn new(min: f64, max: f64, step: f64) -> Result<Axis, SchemaError> {
        let axis = Axis { min, max, step };
        axis.check()?;
        Ok(axis)
    }

    fn check(&self) -> Result<(), SchemaError> {
        let Axis { min, max, step } = *self;
        if !(min.is_finite() && max.is_finite() && step.is_finite() && min < max && step > 0.0) {
            return Err(malformed(format!(
                "an axis from {min} to {max} in steps of {step} is not a range"
            )));
        }
        let highest = ((max - min) / step).round();
        if !(1.0..=f64::from(u32::MAX)).contains(&highest) {
            return Err(malformed(format!(
                "an axis from {min} to {max} in steps of {step} has {highest} steps, outside 1 to 4294967295: choose a larger step"
            )));
        }
        Ok(())
    }

    /// The highest quantised value; the lowest is 0.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn highest(&self) -> u32 {
        ((self.max - self.min) / self.step).round() as u32
    }

    /// Bits that hold every value of this axis, 1 to 32.
    #[must_use]
    pub fn bits(&self) -> u32 {
        32 - self.highest().leading_zeros()
    }

    /// Metres to steps: q = round((m - min) / step), ties away from zero (SPEC ID6, DEC5). The bounds are
    /// checked in metres, before rounding. `field` names the value in an error.
    ///
    /// # Errors
    /// [`SchemaError::OutOfRange`] when `metres` is not within the bounds, or not a number.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn quantise(&self, field: &str, metres: f64) -> Result<u32, SchemaError> {
        if !(metres >= self.min && metres <= self.max) {
            return Err(SchemaError::OutOfRange {
                field: field.to_owned(),
                value: metres,
                min: self.min,
                max: self.max,
            });
        }
        Ok((((metres - self.min) / self.step).round() as u32).min(self.highest()))
    }

    /// Steps to metres.
    #[must_use]
    pub fn metres(&self, q: u32) -> f64 {
        self.min + f64::from(q) * self.step
    }
}

impl Rate {
    /// A signed rate up to `bound` a second in steps of `step`.
    ///
    /// # Errors
    /// When a value is not finite or not positive, or there are more than 131,071 steps on one side.
    pub fn new(bound: f64, step: f64) -> Result<Rate, SchemaError> {
        let rate = Rate { bound, step };
        rate.check()?;
        Ok(rate)
    }

    fn check(&self) -> Result<(), SchemaError> {
        let Rate { bound, step } = *self;
        if !(bound.is_finite() && step.is_finite() && bound > 0.0 && step > 0.0) {
            return Err(malformed(format!(
                "a rate up to {bound} in steps of {step} is not a range"
            )));
        }
        let highest = (bound / step).round();
        if !(1.0..=f64::from(RATE_HIGHEST)).contains(&highest) {
            return Err(malformed(format!(
                "a rate up to {bound} in steps of {step} has {highest} steps, outside 1 to {RATE_HIGHEST}: choose a larger step"
            )));
        }
        Ok(())
    }

    /// The highest magnitude of a quantised component.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn highest(&self) -> u32 {
        (self.bound / self.step).round() as u32
    }

    /// Units a second to steps, ties away from zero.
    ///
    /// # Errors
    /// [`SchemaError::OutOfRange`] when the value is not within the bound, or not a number.
    #[allow(clippy::cast_possible_truncation)]
    pub fn quantise(&self, field: &str, value: f64) -> Result<i32, SchemaError> {
        if !(value >= -self.bound && value <= self.bound) {
            return Err(SchemaError::OutOfRange {
                field: field.to_owned(),
                value,
                min: -self.bound,
                max: self.bound,
            });
        }
        let highest = self.highest().cast_signed();
        Ok(((value / self.step).round() as i32).clamp(-highest, highest))
    }

    /// Steps to units a second.
    #[must_use]
    pub fn value(&self, q: i32) -> f64 {
        f64::from(q) * self.step
    }
}

impl ExtraField {
    /// The field's value as the wire's unsigned bit pattern.
    ///
    /// # Errors
    /// [`SchemaError::OutOfRange`] when the value does not fit the field's bits.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn pattern(&self, value: i64) -> Result<u32, SchemaError> {
        let (min, max) = if self.signed {
            (-(1i64 << (self.bits - 1)), (1i64 << (self.bits - 1)) - 1)
        } else {
            (0, (1i64 << self.bits) - 1)
        };
        if !(min..=max).contains(&value) {
            return Err(SchemaError::OutOfRange {
                field: self.name.clone(),
                value: value as f64,
                min: min as f64,
                max: max as f64,
            });
        }
        Ok((value as u64 & self.mask()) as u32)
    }

    /// The value of a bit pattern.
    #[must_use]
    pub fn value(&self, pattern: u32) -> i64 {
        let value = i64::from(pattern);
        if self.signed && value >> (self.bits - 1) & 1 == 1 {
            value - (1i64 << self.bits)
        } else {
            value
        }
    }

    /// All bits of the field set.
    #[must_use]
    pub fn mask(&self) -> u64 {
        (1u64 << self.bits) - 1
    }
}

impl Schema {
    /// Checks every bound of the schema. Whoever takes a schema from outside calls this first.
    ///
    /// # Errors
    /// [`SchemaError::Malformed`] with what, where and the bound.
    pub fn check(&self) -> Result<(), SchemaError> {
        check_name("the schema's name", &self.name)?;
        if !(1_000..=10_000_000).contains(&self.tick_period_us) {
            return Err(malformed(format!(
                "the tick period is {} us, outside 1000 to 10000000",
                self.tick_period_us
            )));
        }
        self.position.iter().try_for_each(Axis::check)?;
        if !(2..=15).contains(&self.rotation_bits) {
            return Err(malformed(format!(
                "rotation has {} bits, outside 2 to 15",
                self.rotation_bits
            )));
        }
        if let Some(rate) = &self.velocity {
            rate.check()?;
            let finest = self.position.iter().map(|a| a.step).fold(f64::INFINITY, f64::min);
            if rate.step / finest > RATE_RATIO_MAX {
                return Err(malformed(format!(
                    "the velocity step {} is more than {RATE_RATIO_MAX} times the position step {finest}: choose a finer velocity step",
                    rate.step
                )));
            }
        }
        self.angular.iter().try_for_each(Rate::check)?;
        if self.extras.len() > EXTRA_FIELDS_MAX {
            return Err(malformed(format!(
                "{} extra fields, at most {EXTRA_FIELDS_MAX}: pack small fields into one",
                self.extras.len()
            )));
        }
        for field in &self.extras {
            check_name("an extra field's name", &field.name)?;
            if !(1..=32).contains(&field.bits) {
                return Err(malformed(format!(
                    "field {} has {} bits, outside 1 to 32",
                    field.name, field.bits
                )));
            }
        }
        if self.classes.is_empty() || self.classes.len() > CLASSES_MAX {
            return Err(malformed(format!(
                "{} classes, outside 1 to {CLASSES_MAX}",
                self.classes.len()
            )));
        }
        self.classes
            .iter()
            .try_for_each(|class| check_name("a class name", &class.name))
    }
}

fn check_name(what: &str, name: &str) -> Result<(), SchemaError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(malformed(format!(
            "{what} has {} bytes, outside 1 to {NAME_BYTES_MAX}: shorten it",
            name.len()
        )));
    }
    // Names are shown in errors, logs and lists, as they are (THREATS 39).
    if name.chars().any(char::is_control) {
        return Err(malformed(format!(
            "{what} \"{}\" has a control character: take it out",
            name.escape_debug()
        )));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A schema with every kind of field, for tests.
    pub(crate) fn full_schema() -> Schema {
        Schema {
            coding: Coding::Plain,
            name: "test".into(),
            version: 1,
            tick_period_us: 50_000,
            on_change: false,
            position: [Axis::new(-100.0, 100.0, 0.01).unwrap(); 3],
            rotation_bits: 9,
            velocity: Some(Rate::new(50.0, 0.02).unwrap()),
            angular: Some(Rate::new(10.0, 0.01).unwrap()),
            extras: vec![
                ExtraField {
                    name: "health".into(),
                    bits: 10,
                    signed: true,
                },
                ExtraField {
                    name: "team".into(),
                    bits: 2,
                    signed: false,
                },
            ],
            classes: vec![Class {
                name: "player".into(),
                query_critical: true,
            }],
        }
    }

    /// SPEC ID6, DEC5: every case of the quantise vector.
    #[test]
    fn id6_quantise_vector() {
        let vector: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/vectors/quantise.json")).unwrap();
        let number = |value: &serde_json::Value| match value.as_str() {
            Some("NaN") => f64::NAN,
            Some("Infinity") => f64::INFINITY,
            _ => value.as_f64().unwrap(),
        };
        let axis = Axis::new(
            number(&vector["min_m"]),
            number(&vector["max_m"]),
            number(&vector["step_m"]),
        )
        .unwrap();
        assert_eq!(u64::from(axis.highest()) + 1, vector["values"].as_u64().unwrap());
        assert_eq!(u64::from(axis.bits()), vector["bits"].as_u64().unwrap());
        let cases = vector["cases"].as_array().unwrap().iter();
        for case in cases.chain(vector["ties_away_from_zero"].as_array().unwrap()) {
            let metres = number(&case["m"]);
            let q = axis.quantise("x", metres).unwrap();
            assert_eq!(u64::from(q), case["q"].as_u64().unwrap(), "{metres} m");
            assert!((axis.metres(q) - metres).abs() <= number(&vector["max_error_m"]) + 1e-12);
        }
        for case in vector["refused"].as_array().unwrap() {
            let metres = number(&case["m"]);
            let error = axis.quantise("x", metres).unwrap_err();
            assert!(
                matches!(&error, SchemaError::OutOfRange { field, .. } if field == "x"),
                "{error}"
            );
            assert!(error.to_string().contains("-100"), "names the bounds: {error}");
        }
    }

    /// SPEC DEC5: an axis may take 32 bits.
    #[test]
    fn dec5_an_axis_takes_up_to_32_bits() {
        let axis = Axis::new(0.0, f64::from(u32::MAX), 1.0).unwrap();
        assert_eq!((axis.bits(), axis.highest()), (32, u32::MAX));
        assert_eq!(axis.quantise("x", f64::from(u32::MAX)).unwrap(), u32::MAX);
        assert!(Axis::new(0.0, f64::from(u32::MAX) + 1.0, 1.0).is_err());
        assert!(Axis::new(0.0, f64::NAN, 1.0).is_err());
        assert!(Axis::new(0.0, 1.0, 0.0).is_err());
    }

    #[test]
    fn extra_fields_keep_sign_and_bounds() {
        let field = ExtraField {
            name: "health".into(),
            bits: 10,
            signed: true,
        };
        for value in [-512, -1, 0, 1, 511] {
            assert_eq!(field.value(field.pattern(value).unwrap()), value);
        }
        assert!(field.pattern(512).unwrap_err().to_string().contains("health"));
        assert!(field.pattern(-513).is_err());
        let wide = ExtraField {
            name: "tags".into(),
            bits: 32,
            signed: false,
        };
        assert_eq!(
            wide.value(wide.pattern(i64::from(u32::MAX)).unwrap()),
            i64::from(u32::MAX)
        );
    }

    /// FAULTS 62: a zero interval is refused; so is everything else out of bounds.
    #[test]
    fn faults_62_schemas_out_of_bounds_are_refused() {
        full_schema().check().unwrap();
        let refuse = |change: &dyn Fn(&mut Schema)| {
            let mut schema = full_schema();
            change(&mut schema);
            assert!(schema.check().is_err(), "{schema:?}");
        };
        refuse(&|s| s.tick_period_us = 0);
        refuse(&|s| s.rotation_bits = 16);
        refuse(&|s| s.rotation_bits = 1);
        refuse(&|s| s.classes.clear());
        refuse(&|s| s.name = String::new());
        refuse(&|s| s.name = "x".repeat(33));
        refuse(&|s| s.extras = vec![s.extras[0].clone(); 9]);
        refuse(&|s| s.extras[0].bits = 33);
        refuse(&|s| {
            s.velocity = Some(Rate {
                bound: 1.0,
                step: f64::NAN,
            })
        });
        refuse(&|s| {
            s.velocity = Some(Rate {
                bound: 50.0,
                step: 5.0,
            })
        });
        refuse(&|s| s.position[1].step = -1.0);
    }

    /// THREATS 39: a name is shown as it is, so it has no control characters; the error that says so has none either.
    #[test]
    fn threats_39_names_have_no_control_characters() {
        type Put = fn(&mut Schema, String);
        let puts: [Put; 3] = [
            |schema, name| schema.name = name,
            |schema, name| schema.extras[0].name = name,
            |schema, name| schema.classes[0].name = name,
        ];
        for put in puts {
            for bad in ["a\nb", "\u{1b}[2J", "\u{12}3", "x\u{7f}", "\u{85}"] {
                let mut schema = full_schema();
                put(&mut schema, bad.to_owned());
                let error = schema.check().unwrap_err().to_string();
                assert!(
                    error.contains("control character") && !error.chars().any(char::is_control),
                    "{error:?}"
                );
            }
            let mut schema = full_schema();
            put(&mut schema, "Gesundheit, fr\u{fc}h".to_owned());
            assert_eq!(schema.check(), Ok(()));
        }
    }
}
