//! What a game calls every frame or tick asks for no memory once it runs: prediction at the client, the check of shots at
//! the origin.

#![cfg(all(feature = "client", feature = "origin"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "pair_harness/calls.rs"]
mod calls;

use ackline::client::prediction::visible::SmoothingSettings;
use ackline::client::prediction::{Authority, Continuity, Prediction, Rules};
use ackline::delta::quote::{Quote, Sight, Target};
use ackline::origin::lag::{LagCheck, LagSettings, Shooter};
use ackline::origin::publisher::Publisher;
use ackline::state::coding::Coding;
use ackline::state::entity::Entity;
use ackline::state::sample::{Sample, WorldSample};
use ackline::state::schema::{Axis, Class, Rate, Schema};
use ackline::state::update::Spawn;
use ackline::wire::bytes::ByteReader;
use calls::{Calls, calls};

#[global_allocator]
static ALLOCATOR: Calls = Calls;

struct Step;

impl Rules for Step {
    type State = [f64; 3];
    type Input = f64;

    fn apply(&self, state: &mut [f64; 3], input: &f64) {
        state[0] += input;
    }

    fn place(&self, state: &[f64; 3]) -> [f64; 3] {
        *state
    }
}

/// FAULTS 99: a minute of inputs, corrections and frames, the pending list full and empty again, without one request.
#[test]
fn faults_99_a_prediction_asks_for_no_memory() {
    let mut prediction = Prediction::new(Step, SmoothingSettings::default(), [0.0; 3]);
    let continuity = Continuity {
        stream_epoch: 1,
        entity: Entity { id: 1, generation: 0 },
        segment: 0,
    };
    let before = calls();
    for number in 1..=3_600u32 {
        prediction.predict(number, 0.1);
        prediction.frame(16_667, 0.5);
        // Now and then the server is silent for longer than the list is.
        if number.is_multiple_of(3) && number % 600 > 200 {
            prediction.correct(Authority {
                server_us: u64::from(number) * 16_667,
                processed: number - 6,
                continuity,
                state: [f64::from(number - 6) * 0.1 + 0.05, 0.0, 0.0],
            });
        }
    }
    assert!(prediction.counts().stalled > 0 && prediction.counts().replayed > 3_000);
    assert_eq!(calls() - before, 0);
}

const ENTITIES: u32 = 500;
const TICK_US: u64 = 50_000;

fn entity(id: u32) -> Entity {
    Entity { id, generation: 0 }
}

fn tick(now_us: u64) -> WorldSample {
    let spawn = |id| Spawn {
        entity: entity(id),
        class: 0,
        at_us: 0,
    };
    let observed = |id| Sample {
        entity: entity(id),
        segment: 0,
        observed_us: now_us,
        position: [now_us as f64 * 1e-6, f64::from(id), 0.0],
        rotation: [0.0, 0.0, 0.0, 1.0],
        velocity: [1.0, 0.0, 0.0],
        angular: [0.0; 3],
        at_rest: false,
    };
    WorldSample {
        server_us: now_us,
        spawned: if now_us == 0 {
            (0..ENTITIES).map(spawn).collect()
        } else {
            Vec::new()
        },
        observed: (0..ENTITIES).map(observed).collect(),
        ..WorldSample::default()
    }
}

/// SPEC PLY8: publishing to the history and checking a shot, read from its bytes, ask for nothing, once the history is
/// full; and a shot costs microseconds.
#[test]
fn ply8_the_check_of_a_shot_asks_for_no_memory() {
    let schema = Schema {
        coding: Coding::Plain,
        name: "steady".into(),
        version: 1,
        tick_period_us: TICK_US as u32,
        on_change: false,
        position: [Axis::new(-1000.0, 1000.0, 0.01).unwrap(); 3],
        rotation_bits: 9,
        velocity: Some(Rate::new(50.0, 0.02).unwrap()),
        angular: None,
        extras: Vec::new(),
        classes: vec![Class {
            name: "player".into(),
            query_critical: true,
        }],
    };
    let settings = LagSettings::of_schema(&schema);
    let mut check = LagCheck::new(settings);
    let mut publisher = Publisher::new(schema, 1, 2, 3).unwrap();
    let (mut asked, mut shots, mut spent) = (0, 0u32, std::time::Duration::ZERO);
    let mut shooter = Shooter::default();
    for number in 0..400u64 {
        let now_us = number * TICK_US;
        let frame = publisher.publish(&tick(now_us), 0).frame.unwrap();
        // A frame that leaves the history is let go of here, not in what is measured.
        let before = calls();
        check.publish(&frame);
        if number >= 200 {
            asked += calls() - before;
        }
        if number < 200 {
            continue;
        }
        let target = Target {
            entity: entity(number as u32),
            segment: 0,
            sight: Sight::Interpolated,
        };
        let quote = Quote {
            stream: 0,
            generation: 1,
            r_us: now_us - 150_000,
            view_ready: true,
            target: Some(target),
        };
        let mut bytes = Vec::new();
        quote.encode(&mut bytes);
        let (before, begun) = (calls(), std::time::Instant::now());
        for _ in 0..100 {
            let quote = Quote::decode(&mut ByteReader::new(&bytes)).unwrap();
            let believed = check.check(&mut shooter, &quote, now_us).unwrap();
            assert!(believed.target.is_some());
            shots += 1;
        }
        spent += begun.elapsed();
        asked += calls() - before;
    }
    println!("{shots} shots, {:?} each", spent / shots);
    assert_eq!((shots, asked, check.counts().accepted), (20_000, 0, 20_000));
    assert_eq!(check.sizes(), (settings.frames, ENTITIES as usize));
}
