//! What a client costs: nanoseconds of a received datagram and of a sampled entity, 500 entities that all move at 20 Hz,
//! through the real client and playback, beside the floor of either in the same run.
//!
//! `cargo bench --bench client` prints a table. Each figure is the median of many short runs; floors are what no client can do
//! without: the copy of as many records, and a loop that reads two motions and mixes them. `docs/PERFORMANCE.md` has figures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../tests/pair_harness/mod.rs"]
mod pair_harness;

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use ackline::client::playback::measure::Measure;
use ackline::client::playback::pose::{Pose, line};
use ackline::client::playback::settings::{PlaybackSettings, PositionBlend};
use ackline::client::playback::stage::Playback;
use ackline::client::settings::ClientSettings;
use ackline::state::record::{Motion, Record};
use pair_harness::stage::{Cost, Guest, Stage};
use pair_harness::{moved, schema};

const ENTITIES: u32 = 500;
/// Ticks before anything is measured.
const WARM_UP: u32 = 400;
/// Runs of which the median is taken, and ticks of each: so short that most are not interrupted on a busy machine.
const RUNS: usize = 1001;
const RUN_TICKS: u32 = 1;
/// Rounds of a floor in a run.
const ROUNDS: u32 = 10;

/// Nanoseconds since the first call.
fn nanoseconds() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of a client: of a datagram, of each entity in it, of a sampled entity.
struct Medians {
    packet: f64,
    entry: f64,
    sample: f64,
}

fn client(blend: PositionBlend, plays: bool) -> Medians {
    let update = |tick: u64| moved(tick, 0..ENTITIES, u32::try_from(tick).unwrap());
    let mut stage = Stage::new(ENTITIES);
    let mut guest = Guest::new(ClientSettings::default(), 4_000, stage.now_us);
    guest.playback = plays.then(|| {
        Playback::new(PlaybackSettings {
            blend,
            ..PlaybackSettings::default()
        })
    });
    stage.guests.push(guest);
    stage.run(WARM_UP, update);
    stage.probe = nanoseconds;
    assert!(
        !plays
            || stage.guests[0]
                .playback
                .as_ref()
                .is_some_and(|playback| playback.delay_us().0 > 0)
    );
    let (mut packets, mut entries, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        stage.cost = Cost::default();
        stage.run(RUN_TICKS, update);
        let Cost { taken, drawn, .. } = stage.cost;
        packets.push(taken.1 as f64 / taken.0 as f64);
        entries.push(taken.1 as f64 / f64::from(RUN_TICKS * ENTITIES));
        samples.push(drawn.1 as f64 / drawn.0.max(1) as f64);
    }
    assert_eq!(stage.guests[0].client.refusals().total(), 0);
    Medians {
        packet: median(packets),
        entry: median(entries),
        sample: median(samples),
    }
}

fn records() -> Vec<Record> {
    let update = moved(3, 0..ENTITIES, 3);
    let record = |at: usize| {
        let mut record = Record::born(update.observed[at].entity, 0, 0);
        record.motion = update.observed[at].motion;
        record
    };
    (0..update.observed.len()).map(record).collect()
}

/// The copy of a record, one after the other.
fn copies() -> f64 {
    let from = records();
    let mut to = from.clone();
    let runs = (0..RUNS).map(|_| {
        let began = nanoseconds();
        for _ in 0..ROUNDS {
            black_box(&mut to).copy_from_slice(black_box(&from));
        }
        (nanoseconds() - began) as f64 / f64::from(ROUNDS * ENTITIES)
    });
    median(runs.collect())
}

/// Two motions are read, made metres and mixed: the line between the places, the straight mix of the turns.
fn mixes() -> f64 {
    let measure = Measure::new(&schema());
    let motions = |n: u32| moved(3, 0..ENTITIES, n).observed.into_iter();
    let pairs: Vec<(Motion, Motion)> = motions(3)
        .zip(motions(4))
        .map(|(a, b)| (a.motion.unwrap(), b.motion.unwrap()))
        .collect();
    let mut poses = vec![measure.pose(&pairs[0].0); pairs.len()];
    let runs = (0..RUNS).map(|run| {
        let t = black_box(run as f64 / RUNS as f64);
        let began = nanoseconds();
        for _ in 0..ROUNDS {
            for ((a, b), pose) in black_box(&pairs).iter().zip(&mut poses) {
                let (a, b) = (measure.pose(a), measure.pose(b));
                *pose = Pose {
                    position: line(a.position, b.position, t),
                    rotation: [0, 1, 2, 3]
                        .map(|part| a.rotation[part] + (b.rotation[part] - a.rotation[part]) * t),
                };
            }
            black_box(&poses);
        }
        (nanoseconds() - began) as f64 / f64::from(ROUNDS * ENTITIES)
    });
    median(runs.collect())
}

fn main() {
    // `cargo test --benches` runs this file too, with a debug build: its figures would be of no use.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let (copy, mix) = (copies(), mixes());
    let bare = client(PositionBlend::Linear, false);
    let linear = client(PositionBlend::Linear, true);
    let hermite = client(PositionBlend::Hermite, true);
    let row = |what: &str, ns: f64, floor: f64| {
        println!("{what:<52} {ns:>10.1} ns   {:>8.1} x floor", ns / floor);
    };
    println!("client, {ENTITIES} entities that all move; medians of {RUNS} runs");
    row("floor: a record copied", copy, copy);
    row("an entity in a datagram, client alone", bare.entry, copy);
    row("an entity in a datagram, client and playback", linear.entry, copy);
    let floor = copy * bare.packet / bare.entry;
    row("floor: the records of a datagram copied", floor, floor);
    row("a datagram, client alone", bare.packet, floor);
    row("a datagram, client and playback", linear.packet, floor);
    row("floor: two motions read and mixed", mix, mix);
    row("an entity sampled, linear", linear.sample, mix);
    row("an entity sampled, cubic Hermite", hermite.sample, mix);
}
