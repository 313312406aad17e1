//! A schema as canonical bytes: what a Hello of the origin and a Welcome of the relay carry.
//!
//! Invariant: one legal encoding. What decodes passes [`Schema::check`] and re-encodes to the same bytes, so
//! the hash of the bytes names the schema.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::sync::Arc;

use crate::limits::{EXTRA_FIELDS_MAX, SCHEMA_BYTES_MAX};
use crate::state::coding::{Coding, LENGTHS, Lengths};
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema, SchemaError};
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};

const ON_CHANGE: u8 = 1;
const VELOCITY: u8 = 2;
const ANGULAR: u8 = 4;
const TUNED: u8 = 8;
/// Which table set a tuned schema has.
const STANDARD: u8 = 1;
const OWN: u8 = 255;

/// Why bytes are no schema.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SchemaDecodeError {
    /// More bytes than a schema may have.
    #[error("a schema of {0} bytes, at most {SCHEMA_BYTES_MAX}: shorten names or declare fewer classes")]
    TooLong(usize),
    /// The bytes are not of the format.
    #[error("the bytes of a schema cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    /// A schema, but one that breaks a bound.
    #[error(transparent)]
    Refused(#[from] SchemaError),
}

/// The schema's canonical bytes, at most [`SCHEMA_BYTES_MAX`].
///
/// # Errors
/// [`SchemaError::Malformed`] when the schema breaks a bound of [`Schema::check`] or takes too many bytes.
#[allow(clippy::cast_possible_truncation)]
pub fn encode(schema: &Schema) -> Result<Vec<u8>, SchemaError> {
    schema.check()?;
    let mut bytes = Vec::new();
    bytes.put_text(&schema.name);
    bytes.put_u16(schema.version);
    bytes.put_u32(schema.tick_period_us);
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    bytes.put_u8(
        flag(schema.on_change, ON_CHANGE)
            | flag(schema.velocity.is_some(), VELOCITY)
            | flag(schema.angular.is_some(), ANGULAR)
            | flag(schema.coding != Coding::Plain, TUNED),
    );
    for axis in &schema.position {
        put_number(axis.min, &mut bytes)?;
        put_number(axis.max, &mut bytes)?;
        put_number(axis.step, &mut bytes)?;
    }
    bytes.put_u8(schema.rotation_bits);
    for rate in schema.velocity.iter().chain(&schema.angular) {
        put_number(rate.bound, &mut bytes)?;
        put_number(rate.step, &mut bytes)?;
    }
    bytes.put_u8(schema.extras.len() as u8);
    for field in &schema.extras {
        bytes.put_text(&field.name);
        bytes.put_u8(field.bits);
        bytes.put_u8(u8::from(field.signed));
    }
    bytes.put_u8(schema.classes.len() as u8);
    for class in &schema.classes {
        bytes.put_text(&class.name);
        bytes.put_u8(u8::from(class.query_critical));
    }
    match &schema.coding {
        Coding::Plain => {}
        Coding::Standard => bytes.put_u8(STANDARD),
        Coding::Own(lengths) => {
            bytes.put_u8(OWN);
            for pair in lengths.as_array().chunks(2) {
                bytes.put_u8(pair.iter().rev().fold(0, |byte, length| byte << 4 | length));
            }
        }
    }
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(SchemaError::Malformed(format!(
            "it takes {} bytes, at most {SCHEMA_BYTES_MAX}: shorten names or declare fewer classes",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// Writes a number; minus zero as zero.
fn put_number(value: f64, bytes: &mut Vec<u8>) -> Result<(), SchemaError> {
    if value.is_subnormal() {
        return Err(SchemaError::Malformed(format!(
            "{value:e} is too small a number: choose zero or a larger one"
        )));
    }
    bytes.put_f64(if value == 0.0 { 0.0 } else { value });
    Ok(())
}

/// The schema of canonical bytes, checked.
///
/// # Errors
/// [`SchemaDecodeError`].
pub fn decode(bytes: &[u8]) -> Result<Schema, SchemaDecodeError> {
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(SchemaDecodeError::TooLong(bytes.len()));
    }
    let mut reader = ByteReader::new(bytes);
    let name = reader.text()?.to_owned();
    let version = reader.u16()?;
    let tick_period_us = reader.u32()?;
    let flags = reader.u8()?;
    if flags & !(ON_CHANGE | VELOCITY | ANGULAR | TUNED) != 0 {
        return Err(ReadError::OutOfRange.into());
    }
    let position = [
        take_axis(&mut reader)?,
        take_axis(&mut reader)?,
        take_axis(&mut reader)?,
    ];
    let rotation_bits = reader.u8()?;
    let velocity = take_rate(flags & VELOCITY != 0, &mut reader)?;
    let angular = take_rate(flags & ANGULAR != 0, &mut reader)?;
    let fields = usize::from(reader.u8()?);
    if fields > EXTRA_FIELDS_MAX {
        return Err(ReadError::OutOfRange.into());
    }
    let mut extras = Vec::with_capacity(fields);
    for _ in 0..fields {
        let name = reader.text()?.to_owned();
        extras.push(ExtraField {
            name,
            bits: reader.u8()?,
            signed: take_flag(&mut reader)?,
        });
    }
    let mut classes = Vec::new();
    for _ in 0..reader.u8()? {
        let name = reader.text()?.to_owned();
        classes.push(Class {
            name,
            query_critical: take_flag(&mut reader)?,
        });
    }
    let coding = match flags & TUNED {
        0 => Coding::Plain,
        _ => take_coding(&mut reader)?,
    };
    reader.end()?;
    let schema = Schema {
        coding,
        name,
        version,
        tick_period_us,
        on_change: flags & ON_CHANGE != 0,
        position,
        rotation_bits,
        velocity,
        angular,
        extras,
        classes,
    };
    schema.check()?;
    Ok(schema)
}

fn take_coding(reader: &mut ByteReader<'_>) -> Result<Coding, SchemaDecodeError> {
    match reader.u8()? {
        STANDARD => Ok(Coding::Standard),
        OWN => {
            let mut lengths = [0; LENGTHS];
            let packed = reader.bytes(LENGTHS / 2)?;
            let nibbles = packed.iter().flat_map(|byte| [byte & 15, byte >> 4]);
            lengths.iter_mut().zip(nibbles).for_each(|(to, from)| *to = from);
            let lengths = Lengths::new(lengths);
            let lengths = lengths.map_err(|error| SchemaError::Malformed(error.to_string()))?;
            Ok(Coding::Own(Arc::new(lengths)))
        }
        _ => Err(ReadError::OutOfRange.into()),
    }
}

fn take_axis(reader: &mut ByteReader<'_>) -> Result<Axis, ReadError> {
    Ok(Axis {
        min: take_number(reader)?,
        max: take_number(reader)?,
        step: take_number(reader)?,
    })
}

fn take_rate(present: bool, reader: &mut ByteReader<'_>) -> Result<Option<Rate>, ReadError> {
    if !present {
        return Ok(None);
    }
    Ok(Some(Rate {
        bound: take_number(reader)?,
        step: take_number(reader)?,
    }))
}

/// A finite number; minus zero and subnormal numbers are refused (THREATS 35).
fn take_number(reader: &mut ByteReader<'_>) -> Result<f64, ReadError> {
    let value = reader.f64()?;
    match value {
        _ if value.to_bits() == 0 || value.is_normal() => Ok(value),
        _ if value == 0.0 => Err(ReadError::NotCanonical),
        _ => Err(ReadError::OutOfRange),
    }
}

fn take_flag(reader: &mut ByteReader<'_>) -> Result<bool, ReadError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ReadError::OutOfRange),
    }
}

/// FNV-1a in 64 bits (Fowler, Noll, Vo): the short name of canonical bytes.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    })
}

const _: () = assert!(LENGTHS.is_multiple_of(2), "lengths come in pairs");
