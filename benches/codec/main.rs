//! What records cost plainly and in prefix codes: nanoseconds of an entry written and read, and bytes.
//!
//! `cargo bench --bench codec` measures a made world of 901 bodies, of which an eighth move, with a fixed seed. With `-- --challenge
//! FILE` it does so, too, for the scene of the public compression challenge in its quantised form: tables made of the first half, the second
//! judged. Ways are measured in turn, round by round, in the thread's processor time; ratios are medians of each round's ratio.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod challenge;
mod cubes;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use ackline::delta::decode::Body;
use ackline::delta::encode::Gaps;
use ackline::delta::layout::Layout;
use ackline::net::clock::thread_cpu_ns;
use ackline::state::coding::{Coding, Lengths};
use ackline::state::record::{Head, Motion, Record, RecordRef};
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Rate, Schema};
use challenge::Challenge;
use cubes::Step;

const ROUNDS: usize = 41;
/// Frames in a round: enough that no branch predictor learns them.
const FRAMES: usize = 300;
const BODIES: u16 = 901;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// A way to code, ready.
struct Way {
    layout: Layout,
    gaps: Gaps,
    bodies: Vec<Vec<u8>>,
}

impl Way {
    fn new(schema: &Schema, coding: Coding, steps: &[Step]) -> Way {
        let layout = Layout::new(&Schema {
            coding,
            ..schema.clone()
        });
        let gaps = Gaps::new(&layout);
        let mut room = vec![0; 100_000];
        let bodies = steps.iter().map(|step| {
            let length = challenge::encode(&layout, &gaps, step, &mut room);
            room[..length].to_vec()
        });
        let bodies = bodies.collect();
        Way { layout, gaps, bodies }
    }

    fn bytes(&self) -> f64 {
        self.bodies.iter().map(Vec::len).sum::<usize>() as f64 / self.bodies.len() as f64
    }

    /// Nanoseconds of writing and of reading all steps.
    fn round(&self, steps: &[Step], bases: &[Bases], room: &mut [u8]) -> [f64; 2] {
        let begun = thread_cpu_ns();
        for step in steps {
            black_box(challenge::encode(&self.layout, &self.gaps, step, room));
        }
        let written = thread_cpu_ns();
        for ((step, body), bases) in steps.iter().zip(&self.bodies).zip(bases) {
            let mut body = Body::new(&self.layout, body, step.changed.len(), step.server_us).unwrap();
            let mut base = bases.iter();
            while body.next_slot().unwrap().is_some() {
                let (head, motion) = base.next().unwrap();
                let motion = motion.as_ref();
                black_box(body.delta(Some(RecordRef { head, motion })).unwrap());
            }
        }
        [(written - begun) as f64, (thread_cpu_ns() - written) as f64]
    }
}

/// The baselines of a step's entries, as a client keeps them.
type Bases = Vec<(Head, Option<Motion>)>;

fn bases(step: &Step) -> Bases {
    step.changed
        .iter()
        .map(|(_, base, _)| (base.head(), base.motion))
        .collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly near zero, at most `most` away.
    fn around(&mut self, most: i64) -> i64 {
        let wide = self.roll() % 4;
        let most = most >> (2 * wide);
        self.roll().cast_signed().rem_euclid(2 * most + 1) - most
    }
}

/// A made world: velocities, an eighth of the bodies in motion.
fn made(dice: &mut Dice) -> (Schema, Vec<Step>) {
    let schema = Schema {
        velocity: Some(Rate::new(64.0, 1.0 / 64.0).unwrap()),
        extras: Vec::new(),
        ..cubes::schema(Coding::Plain)
    };
    let moved = |dice: &mut Dice, q: u32, most| {
        u32::try_from((i64::from(q) + dice.around(most)).clamp(0, 32_768)).unwrap()
    };
    let mut step = |at: usize| {
        let server_us = 1_000_000 + 16_667 * at as u64;
        let mut changed = Vec::new();
        for slot in 0..BODIES {
            if !dice.roll().is_multiple_of(8) {
                continue;
            }
            let entity = ackline::state::entity::Entity {
                id: u32::from(slot),
                generation: 0,
            };
            let mut base = Record::born(entity, 0, 0);
            let velocity: [i32; 3] = core::array::from_fn(|_| dice.around(600) as i32);
            let motion = Motion {
                observed_us: server_us - 100_000,
                position: core::array::from_fn(|_| 10_000 + (dice.roll() % 10_000) as u32),
                rotation: Rotation {
                    largest: (dice.roll() % 4) as u8,
                    parts: core::array::from_fn(|_| 155 + (dice.roll() % 200) as u16),
                },
                velocity,
                angular: [0; 3],
                at_rest: false,
            };
            base.motion = Some(motion);
            let mut now = base;
            // 32 steps a second are one of velocity.
            let glide = |axis: usize| motion.position[axis].saturating_add_signed(velocity[axis] * 8 / 10);
            let position: [u32; 3] = core::array::from_fn(glide);
            now.motion = Some(Motion {
                observed_us: server_us,
                position: position.map(|q| moved(dice, q, 40)),
                rotation: Rotation {
                    largest: motion.rotation.largest,
                    parts: motion
                        .rotation
                        .parts
                        .map(|part| (i64::from(part) + dice.around(40)) as u16),
                },
                velocity: velocity.map(|v| v + dice.around(60) as i32),
                ..motion
            });
            changed.push((slot, base, now));
        }
        Step { changed, server_us }
    };
    let steps = (0..2 * FRAMES).map(&mut step).collect();
    (schema, steps)
}

/// Measures the ways on steps and prints a table.
fn table(what: &str, schema: &Schema, own: Lengths, steps: &[Step]) {
    let codings = [
        ("plain", Coding::Plain),
        ("standard tables", Coding::Standard),
        ("own tables", Coding::Own(Arc::new(own))),
    ];
    let ways: Vec<(&str, Way)> = codings
        .into_iter()
        .map(|(name, coding)| (name, Way::new(schema, coding, steps)))
        .collect();
    let bases: Vec<Bases> = steps.iter().map(bases).collect();
    let mut room = vec![0; 100_000];
    let mut round = || -> Vec<[f64; 2]> {
        ways.iter()
            .map(|(_, way)| way.round(steps, &bases, &mut room))
            .collect()
    };
    round();
    let rounds: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    let entries: usize = steps.iter().map(|step| step.changed.len()).sum();
    println!("{what}: {} frames, {entries} entries", steps.len());
    println!(
        "{:<18}{:>14}{:>12}{:>9}{:>12}{:>9}",
        "", "bytes a frame", "encode ns", "/ plain", "decode ns", "/ plain"
    );
    for (at, (name, way)) in ways.iter().enumerate() {
        let ns = |side: usize| {
            median(
                rounds
                    .iter()
                    .map(|round| round[at][side] / entries as f64)
                    .collect(),
            )
        };
        let ratio = |side: usize| {
            median(
                rounds
                    .iter()
                    .map(|round| round[at][side] / round[0][side])
                    .collect(),
            )
        };
        let (bytes, encode, decode) = (way.bytes(), ns(0), ns(1));
        println!(
            "{name:<18}{bytes:>14.1}{encode:>12.1}{:>9.2}{decode:>12.1}{:>9.2}",
            ratio(0),
            ratio(1)
        );
    }
}

fn main() {
    // `cargo test --benches` runs this file too, with a debug build: its figures would be of no use.
    let arguments: Vec<String> = std::env::args().collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let (schema, steps) = made(&mut Dice(SEED));
    let (first, second) = steps.split_at(FRAMES);
    table(
        "made world, ns an entry",
        &schema,
        cubes::tables_of(&schema, first),
        second,
    );
    let place = arguments.iter().position(|argument| argument == "--challenge");
    let Some(path) = place.and_then(|at| arguments.get(at + 1)) else {
        return;
    };
    let challenge = Challenge::load(Path::new(path)).unwrap_or_else(|error| panic!("--challenge {error}"));
    let (first, second) = (challenge.first_half(), challenge.second_half());
    let own = challenge::tables(&first);
    let bytes = challenge::bytes_a_frame(&second, Coding::Own(Arc::new(own.clone())));
    println!(
        "\nchallenge, second half: {bytes:.1} bytes a frame, {:.3} of the arithmetic coder's",
        bytes / challenge::ARITHMETIC
    );
    table(
        "challenge, ns an entry",
        &cubes::schema(Coding::Plain),
        own,
        &second[..FRAMES.min(second.len())],
    );
}
