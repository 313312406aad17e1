//! The product's codec on the scene, for sizes and times a frame, with tables tuned on the first half: as
//! `cargo bench --bench codec` has it, which reads every frame back.

use std::sync::Arc;

use ackline::delta::encode::{self, Gaps};
use ackline::delta::layout::Layout;
use ackline::state::coding::Coding;
use ackline::state::record::Record;
use ackline::wire::bits::BitWriter;

use super::cubes::{self, Step};
use super::encoders::{Mask, slots, union};
use super::scene::{Cubes, Scene};
use super::weights::BACK;
use super::world::PERIOD_US;

/// The codec and its tables.
pub struct Ours {
    layout: Layout,
    gaps: Gaps,
}

/// A frame as the relay keeps it: records, observed at the frame's own time, since the challenge sends no times.
pub type Records = Vec<Record>;

impl Ours {
    /// Tuned on frames of the scene before `half`.
    pub fn tuned(scene: &Scene, half: usize) -> Ours {
        let steps: Vec<Step> = (BACK..half).map(|at| step(scene, at)).collect();
        let tables = cubes::tables_of(&cubes::schema(Coding::Plain), &steps);
        let layout = Layout::new(&cubes::schema(Coding::Own(Arc::new(tables))));
        Ours {
            gaps: Gaps::new(&layout),
            layout,
        }
    }

    pub fn records(&self, cubes: &Cubes, frame: usize) -> Records {
        records(cubes, frame)
    }

    /// Writes what differs between two frames, of those that changed in any tick since; bytes written.
    pub fn encode(&self, [from, to]: &[Records; 2], dirty: &[Mask], out: &mut [u8]) -> usize {
        let server_us = to[0].motion.map_or(0, |motion| motion.observed_us);
        let mut writer = BitWriter::new(out);
        let mut previous = None;
        for at in slots(&union(dirty)) {
            let (from, to) = (&from[usize::from(at)], &to[usize::from(at)]);
            if !differs(from, to) {
                continue;
            }
            self.gaps.put(previous, at, &mut writer);
            encode::entry(&self.layout, Some(from), to, server_us, &mut writer);
            previous = Some(at);
        }
        writer.finish()
    }
}

fn records(cubes: &Cubes, frame: usize) -> Records {
    let observed_us = frame as u64 * PERIOD_US;
    let cubes = cubes.iter().enumerate();
    cubes
        .map(|(at, cube)| cubes::record(at, cube, observed_us))
        .collect()
}

/// The changes of a frame, which tables are made of.
fn step(scene: &Scene, at: usize) -> Step {
    let (base, now) = (
        records(&scene.frames[at - BACK], at - BACK),
        records(&scene.frames[at], at),
    );
    let pairs = (0..).zip(base.into_iter().zip(now));
    Step {
        changed: pairs
            .filter(|(_, (base, now))| differs(base, now))
            .map(|(slot, (base, now))| (slot, base, now))
            .collect(),
        server_us: at as u64 * PERIOD_US,
    }
}

/// True unless a cube changed and changed back: no entry then, in this comparison, whose frames come without losses.
fn differs(from: &Record, to: &Record) -> bool {
    let shown = |record: &Record| {
        record
            .motion
            .map(|motion| (motion.position, motion.rotation, motion.at_rest))
    };
    shown(from) != shown(to) || from.extras != to.extras
}
