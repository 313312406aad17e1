//! The product's codec on the scene, for sizes and times a frame: the seam where another set of tables is put in.

use ackline::delta::encode;
use ackline::delta::layout::Layout;
use ackline::state::record::Record;
use ackline::wire::bits::BitWriter;

use super::encoders::{Mask, slots, union};
use super::scene::{Cubes, Scene};
use super::world::{record_of, schema};

/// The codec, with tables tuned on the first half of the scene where it has tables.
pub struct Ours {
    layout: Layout,
}

/// A frame as the relay keeps it: records, observed at the frame's own time, since the challenge sends no times.
pub type Records = Vec<Record>;

impl Ours {
    /// Tuned on frames of the scene before `half`.
    pub fn tuned(_scene: &Scene, _half: usize) -> Ours {
        Ours {
            layout: Layout::new(&schema()),
        }
    }

    pub fn records(&self, cubes: &Cubes, frame: usize) -> Records {
        (0..)
            .zip(cubes)
            .map(|(at, cube)| record_of(at, cube, frame as u64))
            .collect()
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
            encode::gap(previous, at, &mut writer);
            encode::entry(&self.layout, Some(from), to, server_us, &mut writer);
            previous = Some(at);
        }
        writer.finish()
    }
}

/// True unless a cube changed and changed back: no entry then, in this comparison, whose frames come without losses.
fn differs(from: &Record, to: &Record) -> bool {
    let pose = |record: &Record| record.motion.map(|motion| (motion.position, motion.rotation));
    pose(from) != pose(to) || from.extras != to.extras
}
