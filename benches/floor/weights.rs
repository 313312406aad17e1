//! What a frame of the scene weighs, and how long its encoding takes, in the product's codec and its peers: the second half of
//! the scene against the frame six before, learnt or tuned on the first half.

use ackline::net::clock::thread_cpu_ns;

use super::arithmetic::Arithmetic;
use super::encoders::{Mask, dirty};
use super::fiedler;
use super::ours::{Ours, Records};
use super::packed::{TrainedZstd, planes, zlib};
use super::scene::{Cubes, Scene};
use super::table::median;

/// Frames between a frame and its baseline.
pub const BACK: usize = 6;
/// Bytes a frame of the public challenge's best context coder on the second half of the trace, as the trace's notes give it.
pub const PUBLIC_CODER_BYTES: f64 = 500.9;

/// The ways.
pub const WAYS: [&str; 5] = [
    "ours",
    "arithmetic",
    "zstd-3 with dictionary",
    "zlib-6",
    "Fiedler",
];
pub const OURS: usize = 0;
pub const ARITHMETIC: usize = 1;
pub const ZSTD: usize = 2;
pub const FIEDLER: usize = 4;

/// All ways over the second half.
pub struct Weights<'a> {
    scene: &'a Scene,
    half: usize,
    ours: Ours,
    learnt: Arithmetic,
    zstd: TrainedZstd,
    out: Vec<u8>,
    place: Vec<u8>,
    planes: Vec<u8>,
}

impl<'a> Weights<'a> {
    pub fn new(scene: &'a Scene) -> Weights<'a> {
        let half = scene.frames.len() / 2;
        let ours = Ours::tuned(scene, half);
        let (mut learnt, mut out) = (Arithmetic::default(), Vec::new());
        let mut samples = Vec::new();
        for at in BACK..half {
            let [older, base, now] = frames(scene, at);
            learnt.encode(older, base, now, &mut out);
            let mut sample = Vec::new();
            planes(base, now, &mut sample);
            samples.push(sample);
        }
        let mut weights = Weights {
            scene,
            half,
            ours,
            learnt,
            zstd: TrainedZstd::new(&samples),
            out,
            place: vec![0; 1 << 16],
            planes: Vec::new(),
        };
        weights.check();
        weights
    }

    /// What the arithmetic coder wrote is read again.
    fn check(&mut self) {
        let (mut writes, mut reads) = (self.learnt.clone(), self.learnt.clone());
        for at in self.half..self.half + 40 {
            let [older, base, now] = frames(self.scene, at);
            writes.encode(older, base, now, &mut self.out);
            assert!(reads.decode(older, base, &self.out) == *now, "frame {at}");
        }
    }

    /// One pass over every `step`-th frame by each way: bytes a frame, and ns of CPU time a frame. Frames are made ready, as if
    /// they had just come, before the clock runs.
    pub fn pass(&mut self, step: usize) -> ([f64; WAYS.len()], [f64; WAYS.len()]) {
        let (mut bytes, mut ns) = ([0.0; WAYS.len()], [0.0; WAYS.len()]);
        let mut coder = self.learnt.clone();
        let (clock_ns, mut frames) = (clock_ns(), 0.0);
        for at in (self.half..self.scene.frames.len()).step_by(step) {
            frames += 1.0;
            let ready = Ready::new(self.scene, &self.ours, at);
            for way in 0..WAYS.len() {
                let begun = thread_cpu_ns();
                let length = self.encode(way, &mut coder, &ready);
                ns[way] += (thread_cpu_ns() - begun) as f64 - clock_ns;
                bytes[way] += length as f64;
            }
        }
        (bytes.map(|bytes| bytes / frames), ns.map(|ns| ns / frames))
    }

    fn encode(&mut self, way: usize, coder: &mut Arithmetic, ready: &Ready) -> usize {
        let [older, base, now] = &ready.cubes;
        match way {
            OURS => self.ours.encode(&ready.records, &ready.dirty, &mut self.place),
            ARITHMETIC => coder.encode(older, base, now, &mut self.out),
            FIEDLER => fiedler::encode(base, now, &mut self.place),
            _ => {
                planes(base, now, &mut self.planes);
                match way {
                    ZSTD => self.zstd.encode(&self.planes, &mut self.place),
                    _ => zlib(&self.planes, &mut self.out),
                }
            }
        }
    }
}

/// What reading the clock twice takes, ns: it counts for none of the ways.
fn clock_ns() -> f64 {
    let reading = |_| {
        let begun = thread_cpu_ns();
        (thread_cpu_ns() - begun) as f64
    };
    median(&(0..1001).map(reading).collect::<Vec<_>>())
}

/// What the ways are given of one frame.
struct Ready {
    cubes: [Cubes; 3],
    records: [Records; 2],
    /// What changed in each of the ticks since the baseline, as the relay has it from its frames.
    dirty: [Mask; BACK],
}

impl Ready {
    fn new(scene: &Scene, ours: &Ours, at: usize) -> Ready {
        let changed = |back: usize| dirty(&scene.frames[at - back - 1], &scene.frames[at - back]);
        Ready {
            cubes: frames(scene, at).map(Cubes::clone),
            records: [at - BACK, at].map(|at| ours.records(&scene.frames[at], at)),
            dirty: core::array::from_fn(changed),
        }
    }
}

/// The baseline's own baseline, the baseline, the frame.
fn frames(scene: &Scene, at: usize) -> [&Cubes; 3] {
    [at.saturating_sub(2 * BACK), at - BACK, at].map(|at| &scene.frames[at])
}
