//! The cubes of the public compression challenge as records, and the tables that are made of their frames.
//!
//! A cube is eight little-endian integers: the largest component of the rotation, the three others (256 is zero), the position,
//! and whether the cube interacts. As in the challenge only what changed counts: no times, no headers, no velocities. A cube that
//! does not interact is at rest here. A component of 0 is one step more than a rotation has; three bits beside it say so, and cost
//! what they cost.

use ackline::delta::layout::Layout;
use ackline::delta::tune::Census;
use ackline::state::coding::{Coding, Lengths};
use ackline::state::entity::Entity;
use ackline::state::record::{Motion, Record};
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Schema};
use ackline::state::slots::Slot;

/// Integers of a cube.
pub const FIELDS: usize = 8;
/// Time between two frames, microseconds.
pub const TICK_US: u32 = 16_667;
/// Steps that are added to a position, so that none is below zero.
const MIDDLE: i32 = 1 << 14;

/// A frame's records that changed, with what they were, and its time.
pub struct Step {
    /// Of each slot: the baseline's record, the record now.
    pub changed: Vec<(Slot, Record, Record)>,
    /// The frame's time.
    pub server_us: u64,
}

/// A cube as a record.
pub fn record(cube: usize, fields: &[i32; FIELDS], observed_us: u64) -> Record {
    let mut record = Record::born(
        Entity {
            id: u32::try_from(cube).unwrap(),
            generation: 0,
        },
        0,
        0,
    );
    let [largest, a, b, c, x, y, z, interacts] = *fields;
    let parts = [a, b, c];
    record.extras[0] = (0..3).map(|part| u32::from(parts[part] == 0) << part).sum();
    record.motion = Some(Motion {
        observed_us,
        position: [x, y, z].map(|q| u32::try_from(q + MIDDLE).unwrap()),
        rotation: Rotation {
            largest: u8::try_from(largest).unwrap(),
            parts: parts.map(|part| u16::try_from((part - 1).max(0)).unwrap()),
        },
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: interacts == 0,
    });
    record
}

/// The scene's schema.
pub fn schema(coding: Coding) -> Schema {
    let axis = Axis::new(-32.0, 32.0, 1.0 / 512.0).unwrap();
    Schema {
        name: "challenge".into(),
        version: 1,
        tick_period_us: TICK_US,
        on_change: true,
        position: [axis; 3],
        rotation_bits: 9,
        velocity: None,
        angular: None,
        extras: vec![ExtraField {
            name: "low".into(),
            bits: 3,
            signed: false,
        }],
        classes: vec![Class {
            name: "cube".into(),
            query_critical: false,
        }],
        coding,
    }
}

/// Tables made of frames of a schema.
pub fn tables_of(schema: &Schema, steps: &[Step]) -> Lengths {
    let (census, layout) = (Census::default(), Layout::new(schema));
    for step in steps {
        let mut previous = None;
        for (slot, base, now) in &step.changed {
            census.count(&layout, (previous, *slot), Some(base), now, step.server_us);
            previous = Some(*slot);
        }
    }
    census.lengths()
}
