//! The scene of the public compression challenge, as that quantised it, through this codec: what a frame takes against the
//! frame six before it.
//!
//! A file is frames of 901 cubes, one after the other.

use std::collections::BTreeMap;
use std::path::Path;

use ackline::delta::decode::{self, Change, Entry};
use ackline::delta::encode::{self, Gaps};
use ackline::delta::layout::Layout;
use ackline::state::coding::{Coding, Lengths};
use ackline::state::record::Record;
use ackline::state::slots::Slot;
use ackline::wire::bits::BitWriter;

use super::cubes::{FIELDS, Step, TICK_US, record, schema, tables_of};

/// Bytes a frame of the public context coder, on the second half.
pub const ARITHMETIC: f64 = 500.9;
const CUBES: usize = 901;
/// How far a baseline lies back.
const BACK: usize = 6;

/// All frames, the initial state first.
pub struct Challenge {
    frames: Vec<Vec<[i32; FIELDS]>>,
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
