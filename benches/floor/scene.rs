//! The scene that is played: 901 cubes pushed about by one large one, quantised as the public compression challenge did.
//!
//! From the recorded trace where it is at hand, else a seeded look-alike with as many changes. Units: positions 1/512 m,
//! quaternion components 0 to 511.

use std::io::Read;

/// Entities of the scene.
pub const CUBES: usize = 901;
/// One cube: largest quaternion component, the three others, three axes of its position, interacting.
pub type Cube = [i32; 8];
/// All cubes at one tick.
pub type Cubes = Vec<Cube>;

/// Where the trace is looked for, after what `ACKLINE_CUBES` names.
const PLACES: [&str; 2] = [
    "../shared/traces/cubes901-quantised.i32le.zst",
    "tests/data/cubes901-quantised.i32le.zst",
];
/// Frames of the trace in which about as many cubes change as on its average.
const PLAYED: core::ops::Range<usize> = 2150..2600;
/// Frames of the look-alike.
const MADE: usize = 900;

/// The frames, in order.
pub struct Scene {
    pub frames: Vec<Cubes>,
    /// Frames to be played for the figures of time.
    pub played: core::ops::Range<usize>,
    /// Where it is from, for the report.
    pub source: String,
}

impl Scene {
    pub fn load() -> Scene {
        let named = std::env::var("ACKLINE_CUBES").ok();
        for path in named.iter().map(String::as_str).chain(PLACES) {
            if let Ok(file) = std::fs::File::open(path) {
                let mut bytes = Vec::new();
                zstd::stream::read::Decoder::new(file)
                    .and_then(|mut decoder| decoder.read_to_end(&mut bytes))
                    .unwrap_or_else(|error| panic!("{path}: {error}"));
                return Scene {
                    frames: frames(&bytes),
                    played: PLAYED,
                    source: "trace cubes901-quantised".into(),
                };
            }
        }
        Scene {
            frames: made(),
            played: 1..MADE,
            source: "a seeded look-alike of cubes901 (the trace is not at hand)".into(),
        }
    }

    /// The cubes at a step of the play, which goes to the end and back for ever: no step is longer than the scene's own.
    pub fn at(&self, step: usize) -> &Cubes {
        let length = self.played.len() - 1;
        let turn = step % (2 * length);
        &self.frames[self.played.start + turn.min(2 * length - turn)]
    }
}

fn frames(bytes: &[u8]) -> Vec<Cubes> {
    let number = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
    let cube = |bytes: &[u8]| core::array::from_fn(|at| number(&bytes[at * 4..at * 4 + 4]));
    let frame = |bytes: &[u8]| bytes.chunks_exact(32).map(cube).collect();
    bytes.chunks_exact(CUBES * 32).map(frame).collect()
}

/// Cubes of which some 105 are in motion at any time, each for some twenty ticks.
fn made() -> Vec<Cubes> {
    let mut dice = Dice::new(7);
    let mut cubes: Cubes = (0..CUBES)
        .map(|_| {
            [
                3,
                256,
                256,
                256,
                dice.within(8192) - 4096,
                dice.within(8192) - 4096,
                100,
                0,
            ]
        })
        .collect();
    let mut moves = vec![(0u32, [0i32; 6]); CUBES];
    let mut frames = vec![cubes.clone()];
    for _ in 0..MADE {
        for (cube, (left, step)) in cubes.iter_mut().zip(&mut moves) {
            if *left == 0 && dice.within(1000) < 5 {
                *left = 15 + dice.within(20) as u32;
                *step = core::array::from_fn(|axis| dice.within(if axis < 3 { 9 } else { 31 }) - 4);
            }
            cube[7] = i32::from(*left > 0);
            if *left > 0 {
                *left -= 1;
                for axis in 0..3 {
                    cube[1 + axis] = (cube[1 + axis] + step[axis] + dice.within(3) - 1).clamp(1, 511);
                    cube[4 + axis] += step[3 + axis] + dice.within(5) - 2;
                }
            }
        }
        frames.push(cubes.clone());
    }
    frames
}

/// A small generator with a fixed seed (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn within(&mut self, bound: i32) -> i32 {
        (self.next() % bound as u64) as i32
    }
}
