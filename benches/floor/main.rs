//! What a packet costs and weighs, beside the floor and its peers, in one process: issue 7's acceptance table.
//!
//! `cargo bench --bench floor -- [--report FILE] [--rounds N] [--quick]` prints it and writes it as JSON. Every way is measured in
//! turn, round by round, by the CPU time of its thread; a figure is the median of the rounds' ratios. The product is the product:
//! a shard with sessions that report through real datagrams, sends through `net`. What is not here: the delay a relay adds and the
//! cost of metrics (`ackline bench`, `tests/acceptance/observability.py`), and any network card.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a bench stops where something is wrong"
)]

mod arithmetic;
#[path = "../codec/cubes.rs"]
mod cubes;
mod encoders;
mod fiedler;
mod guest;
mod lane;
mod naive;
mod ours;
mod packed;
mod pair;
mod raw;
mod receiving;
mod rig;
mod scene;
mod sinks;
mod table;
mod weights;
mod world;

use ackline::state::view::View;

use lane::{Lane, Round};
use pair::Pair;
use scene::Scene;
use sinks::Sinks;
use table::{Bound, Row, Surroundings};
use weights::Weights;
use world::half_view;

/// What is asked for.
struct Options {
    report: Option<String>,
    rounds: usize,
    quick: bool,
    /// Populations: small, middle and large.
    clients: [usize; 3],
}

impl Options {
    /// # Panics
    /// With what is right, where an argument is not.
    fn read() -> Options {
        let mut options = Options {
            report: None,
            rounds: 11,
            quick: false,
            clients: [1, 1_000, 10_000],
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--report" => options.report = arguments.next(),
                "--rounds" => {
                    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                    options.rounds = rounds
                        .filter(|rounds| *rounds > 0)
                        .expect("--rounds takes a number");
                }
                "--quick" => {
                    (options.quick, options.rounds) = (true, 3);
                    options.clients = [1, 200, 600];
                }
                "--bench" => {}
                other => panic!("{other}: give [--report FILE] [--rounds N] [--quick]"),
            }
        }
        options
    }
}

/// A figure of each round of one lane.
type Rounds = Vec<Round>;
/// One of a round's.
type Figure = fn(&Round) -> f64;

fn row(name: impl Into<String>, bound: Bound, rounds: &Rounds, figure: impl Fn(&Round) -> f64) -> Row {
    Row {
        name: name.into(),
        bound,
        rounds: rounds.iter().map(figure).collect(),
    }
}

fn between(name: impl Into<String>, bound: Bound, above: &Rounds, below: &Rounds) -> Row {
    let ratio = |(above, below): (&Round, &Round)| above.plain / below.plain;
    Row {
        name: name.into(),
        bound,
        rounds: above.iter().zip(below).map(ratio).collect(),
    }
}

fn packet_rows(options: &Options, [one, some, many, same, same_many]: &[Rounds; 5]) -> Vec<Row> {
    use Bound::{AtLeast, AtMost, Free};
    let [few, middle, large] = options.clients;
    let of_floor = |round: &Round| round.floor / round.sealed;
    let mut rows = Vec::new();
    for (what, clients, bound, rounds) in [
        ("distinct 50% views", middle, AtLeast(0.65, 0.80), some),
        ("distinct 50% views", large, AtLeast(0.65, 0.80), many),
        ("identical 50% views", middle, AtLeast(0.80, 0.90), same),
        ("identical 50% views", large, AtLeast(0.80, 0.90), same_many),
    ] {
        let name = format!("sealed packets per core / raw sendmmsg-64, {what}, {clients}");
        rows.push(row(name, bound, rounds, of_floor));
    }
    let naive = |round: &Round| round.naive / round.sealed;
    rows.push(row(
        format!("speed-up over the naive relay, {middle}"),
        AtLeast(5.0, 8.0),
        some,
        naive,
    ));
    let scanning = |round: &Round| round.plain / round.scanning;
    let masked = |round: &Round| round.plain / round.masked;
    rows.push(row(
        format!("plaintext ns / scanning encoder, {middle}"),
        AtMost(0.12, 0.05),
        some,
        scanning,
    ));
    rows.push(row(
        format!("plaintext ns / dirty-mask encoder, {middle}"),
        AtMost(0.60, 0.25),
        some,
        masked,
    ));
    rows.push(between(
        format!("plaintext ns, {large} / {middle} clients"),
        AtMost(1.1, 1.0),
        many,
        some,
    ));
    rows.push(between(
        format!("plaintext ns, {few} / {middle} clients"),
        AtMost(3.0, 2.0),
        one,
        some,
    ));
    let report = |round: &Round| round.report / round.recvfrom;
    rows.push(row(
        format!("report received, opened, taken / bare recvfrom, {middle}"),
        AtMost(1.7, 1.5),
        some,
        report,
    ));
    let parts: [(&str, Figure); 11] = [
        ("sealed and sent, ns", |round| round.sealed),
        ("floor: raw sendmmsg-64, ns", |round| round.floor),
        ("plaintext: all but seal and send, ns", |round| round.plain),
        ("seal, ns", |round| round.seal),
        ("scanning encoder, ns", |round| round.scanning),
        ("dirty-mask encoder, ns", |round| round.masked),
        ("naive relay, ns", |round| round.naive),
        ("report taken, ns", |round| round.report),
        ("bare recvfrom, ns", |round| round.recvfrom),
        ("datagram, bytes", |round| round.bytes),
        ("naive relay's datagram, bytes", |round| round.naive_bytes),
    ];
    for (clients, views, rounds) in [
        (middle, "distinct", some),
        (large, "distinct", many),
        (middle, "identical", same),
        (few, "", one),
    ] {
        for (name, figure) in parts {
            if rounds.iter().any(|round| figure(round) > 0.0) {
                rows.push(row(format!("{clients} {views}: {name}"), Free, rounds, figure));
            }
        }
    }
    rows
}

/// Rows of sizes and encoding times.
fn weight_rows(passes: &[([f64; weights::WAYS.len()], [f64; weights::WAYS.len()])]) -> Vec<Row> {
    use Bound::{AtLeast, AtMost, Free};
    use weights::{ARITHMETIC, FIEDLER, OURS, PUBLIC_CODER_BYTES, WAYS, ZSTD};
    let rounds = |figure: &dyn Fn(&[f64; WAYS.len()], &[f64; WAYS.len()]) -> f64| -> Vec<f64> {
        passes.iter().map(|(bytes, ns)| figure(bytes, ns)).collect()
    };
    let mut rows = vec![
        Row {
            name: "bytes a frame / the public context coder's 500.9".into(),
            bound: AtMost(1.30, 1.15),
            rounds: rounds(&|bytes, _| bytes[OURS] / PUBLIC_CODER_BYTES),
        },
        Row {
            name: "bytes a frame / zstd-3 with a trained dictionary".into(),
            bound: AtMost(0.80, 0.72),
            rounds: rounds(&|bytes, _| bytes[OURS] / bytes[ZSTD]),
        },
        Row {
            name: "bytes a frame / Fiedler's bit-pack".into(),
            bound: AtMost(0.80, 0.72),
            rounds: rounds(&|bytes, _| bytes[OURS] / bytes[FIEDLER]),
        },
        Row {
            name: "encode time: arithmetic coder / ours, cold".into(),
            bound: AtLeast(8.0, 15.0),
            rounds: rounds(&|_, ns| ns[ARITHMETIC] / ns[OURS]),
        },
    ];
    for (way, name) in WAYS.iter().enumerate() {
        rows.push(Row {
            name: format!("{name}: bytes a frame"),
            bound: Free,
            rounds: rounds(&|bytes, _| bytes[way]),
        });
        rows.push(Row {
            name: format!("{name}: encode, ns a frame"),
            bound: Free,
            rounds: rounds(&|_, ns| ns[way]),
        });
    }
    rows
}

fn main() {
    // `cargo test --benches` runs this file too, with a debug build: its figures would be of no use.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let options = Options::read();
    let scene = Scene::load();
    let surroundings = Surroundings::new(scene.source.clone(), options.rounds, options.quick);
    let [few, middle, large] = options.clients;
    let same = |_| half_view(0);
    let sinks = Sinks::new(large.max(2 * middle));
    let lane = |clients, view: &dyn Fn(u64) -> View, naive| Lane::new(&scene, &sinks, clients, view, naive);
    let mut lanes = [
        lane(few, &half_view, false),
        lane(middle, &half_view, true),
        lane(large, &half_view, false),
        lane(middle, &same, false),
        lane(large, &same, false),
    ];
    let mut pair = Pair::new(&scene, &sinks.addresses[..2 * middle]);
    let mut weights = Weights::new(&scene);
    let step = if options.quick { 10 } else { 1 };
    let (mut of_lanes, mut of_pair, mut passes) = ([const { Vec::new() }; 5], Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        for (lane, rounds) in lanes.iter_mut().zip(&mut of_lanes) {
            rounds.push(lane.round());
        }
        of_pair.push(pair.round());
        passes.push(weights.pass(step));
    }
    let mut rows = packet_rows(&options, &of_lanes);
    rows.extend(weight_rows(&passes));
    rows.push(Row {
        name: "two shards / one in packets per CPU second, / the same of the floor".into(),
        bound: Bound::AtLeast(0.9, 0.95),
        rounds: of_pair,
    });
    let (text, json) = surroundings.report(&rows);
    println!("{text}");
    if let Some(path) = &options.report {
        std::fs::write(path, format!("{json:#}\n")).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
