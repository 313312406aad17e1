//! The scene of the public compression challenge, as that quantised it, through this codec: what a frame takes against the
//! frame six before it.
//!
//! A file is frames of 901 cubes of eight little-endian integers: the largest component of the rotation, the three others (256
//! is zero), the position, and whether the cube interacts. As in the challenge only what changed counts: no times, no headers,
//! no velocities. A cube that does not interact is at rest here. A component of 0 is one step more than a rotation has; three
//! bits beside it say so, and cost what they cost.

use std::collections::BTreeMap;
use std::path::Path;

use ackline::delta::decode::{self, Change, Entry};
use ackline::delta::encode::{self, Gaps};
use ackline::delta::layout::Layout;
use ackline::delta::tune::Census;
use ackline::state::coding::{Coding, Lengths};
use ackline::state::entity::Entity;
use ackline::state::record::{Motion, Record};
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Schema};
use ackline::state::slots::Slot;
use ackline::wire::bits::BitWriter;

/// Bytes a frame of the public context coder, on the second half.
pub const ARITHMETIC: f64 = 500.9;
const CUBES: usize = 901;
const FIELDS: usize = 8;
/// How far a baseline lies back.
const BACK: usize = 6;
const TICK_US: u32 = 16_667;
/// Steps that are added to a position, so that none is below zero.
const MIDDLE: i32 = 1 << 14;

/// All frames, the initial state first.
pub struct Challenge {
    frames: Vec<Vec<[i32; FIELDS]>>,
}

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

impl Challenge {
    /// Reads the packed file.
    ///
    /// # Errors
    /// It cannot be read, or is not of whole frames.
    pub fn load(path: &Path) -> Result<Challenge, String> {
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(said)?;
        let bytes = zstd::decode_all(file).map_err(said)?;
        if bytes.is_empty() || bytes.len() % (CUBES * FIELDS * 4) != 0 {
            return Err(format!("{}: not of whole frames", path.display()));
        }
        let number = |at: &[u8]| i32::from_le_bytes([at[0], at[1], at[2], at[3]]);
        let cube = |at: &[u8]| core::array::from_fn(|field| number(&at[4 * field..]));
        let frames = bytes
            .chunks_exact(CUBES * FIELDS * 4)
            .map(|frame| frame.chunks_exact(FIELDS * 4).map(cube).collect());
        Ok(Challenge {
            frames: frames.collect(),
        })
    }

    /// The changes of frame `at`, which has a baseline.
    fn step(&self, at: usize) -> Step {
        let server_us = at as u64 * u64::from(TICK_US);
        let (base, now) = (&self.frames[at - BACK], &self.frames[at]);
        let base_us = server_us - BACK as u64 * u64::from(TICK_US);
        let pairs = base.iter().zip(now).enumerate();
        let changed = pairs
            .filter(|(_, (base, now))| base != now)
            .map(|(cube, (base, now))| {
                let slot = Slot::try_from(cube).unwrap();
                (slot, record(cube, base, base_us), record(cube, now, server_us))
            });
        Step {
            changed: changed.collect(),
            server_us,
        }
    }

    /// The frames that tables are made of.
    pub fn first_half(&self) -> Vec<Step> {
        (BACK..self.frames.len() / 2).map(|at| self.step(at)).collect()
    }

    /// The frames that are judged.
    pub fn second_half(&self) -> Vec<Step> {
        (self.frames.len() / 2..self.frames.len())
            .map(|at| self.step(at))
            .collect()
    }
}

/// Tables made of the challenge's frames.
pub fn tables(steps: &[Step]) -> Lengths {
    tables_of(&schema(Coding::Plain), steps)
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

/// Writes a frame's body into `room`; its bytes.
pub fn encode(layout: &Layout, gaps: &Gaps, step: &Step, room: &mut [u8]) -> usize {
    let mut writer = BitWriter::new(room);
    let mut previous = None;
    for (slot, base, now) in &step.changed {
        gaps.put(previous, *slot, &mut writer);
        encode::entry(layout, Some(base), now, step.server_us, &mut writer);
        previous = Some(*slot);
    }
    writer.finish()
}

/// Bytes a frame in whole bytes, each read back and compared.
///
/// # Panics
/// What is read back is not what was written.
pub fn bytes_a_frame(steps: &[Step], coding: Coding) -> f64 {
    let layout = Layout::new(&schema(coding));
    let gaps = Gaps::new(&layout);
    let mut room = vec![0; CUBES * 110];
    let (mut bytes, mut entries) = (0, Vec::<Entry>::new());
    for step in steps {
        let length = encode(&layout, &gaps, step, &mut room);
        bytes += length;
        let known: BTreeMap<Slot, &Record> =
            step.changed.iter().map(|(slot, base, _)| (*slot, base)).collect();
        let count = step.changed.len();
        let body = &room[..length];
        decode::body(
            &layout,
            body,
            count,
            step.server_us,
            |slot| known.get(&slot).copied(),
            &mut entries,
        )
        .expect("what was written");
        let read = entries.iter().map(|entry| (entry.slot, entry.change));
        let written = step
            .changed
            .iter()
            .map(|(slot, _, now)| (*slot, Change::Update(*now)));
        assert!(read.eq(written), "what was read is not what was written");
    }
    bytes as f64 / steps.len() as f64
}
