#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use crate::limits::PREDICTION_PENDING_MAX;
use serde_json::Value;
use std::collections::VecDeque;

mod drift;

/// Steps on a plane.
#[derive(Debug)]
struct Steps;

impl Rules for Steps {
    type State = [f64; 2];
    type Input = [f64; 2];

    fn apply(&self, state: &mut [f64; 2], input: &[f64; 2]) {
        state[0] += input[0];
        state[1] += input[1];
    }

    fn place(&self, state: &[f64; 2]) -> [f64; 3] {
        [state[0], state[1], 0.0]
    }
}

const HERE: Continuity = Continuity {
    stream_epoch: 1,
    entity: Entity { id: 7, generation: 1 },
    segment: 0,
};

fn said(server_us: u64, processed: u32, state: [f64; 2]) -> Authority<[f64; 2]> {
    Authority {
        server_us,
        processed,
        continuity: HERE,
        state,
    }
}

fn steps() -> Prediction<Steps> {
    Prediction::new(Steps, SmoothingSettings::default(), [0.0; 2])
}

fn pair(value: &Value) -> [f64; 2] {
    [value[0].as_f64().unwrap(), value[1].as_f64().unwrap()]
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

/// SPEC PRE1, PRE2: the vector's inputs, its correction, and the one that is too old.
#[test]
fn pre1_pre2_the_vector_is_reconciled() {
    let vector: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/reconciliation.json")).unwrap();
    let mut prediction = Prediction::new(Steps, SmoothingSettings::default(), pair(&vector["start"]));
    for input in vector["inputs"].as_array().unwrap() {
        let step = [input["dx"].as_f64().unwrap(), input["dy"].as_f64().unwrap()];
        assert_eq!(
            prediction.predict(number(&input["seq"]), step),
            Predicted::Applied
        );
    }
    assert_eq!(*prediction.state(), pair(&vector["predicted"]));
    let correction = &vector["correction"];
    let acked = number(&correction["acked_seq"]);
    let taken = prediction.correct(said(300, acked, pair(&correction["state"])));
    assert_eq!(taken, Corrected::Taken(Absorbed::Smoothed));
    let pending: Vec<u32> = vector["pending_after"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect();
    assert_eq!(prediction.pending().collect::<Vec<_>>(), pending);
    assert_eq!(*prediction.state(), pair(&vector["predicted_after"]));
    // The drawn place is where it was.
    let drawn = prediction.frame(0, 1.0)[0];
    assert!((drawn - 5.0).abs() < 1e-12, "{drawn}");
    let stale = &vector["stale_correction"];
    let (acked, state) = (number(&stale["acked_seq"]), pair(&stale["state"]));
    for server_us in [100, 400] {
        // Whatever its time: its inputs are older.
        assert_eq!(
            prediction.correct(said(server_us, acked, state)),
            Corrected::Stale
        );
    }
    assert_eq!(*prediction.state(), pair(&vector["predicted_after"]));
}

/// SPEC PRE3: the vector's error fades by its factor, at any frame rate alike.
#[test]
fn pre3_the_vectors_error_fades_at_any_frame_rate() {
    let vector: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/reconciliation.json")).unwrap();
    let smoothing = &vector["smoothing"];
    let settings = SmoothingSettings {
        factor: smoothing["factor_per_frame"].as_f64().unwrap(),
        frame_us: smoothing["frame_s"].as_f64().unwrap() * 1e6,
        ..SmoothingSettings::default()
    };
    let start = smoothing["error"].as_f64().unwrap();
    let expected: Vec<f64> = smoothing["error_after_frames"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect();
    // Frames of one 60th, of a 240th and of a 30th, as whole microseconds.
    for (pieces, skip) in [(1u64, 1usize), (4, 1), (1, 2)] {
        let mut error = VisibleError::default();
        let absorbed = error.absorb(&settings, [start, 0.0, 0.0], [0.0; 3]);
        assert_eq!(absorbed, Absorbed::Smoothed);
        for expected in expected.iter().skip(skip - 1).step_by(skip) {
            for _ in 0..pieces {
                error.decay(&settings, 16_667 * skip as u64 / pieces);
            }
            let left = error.offset()[0];
            assert!((left - expected).abs() < 1e-4, "{left} {expected}");
        }
    }
}

/// SPEC PRE3: tiny errors are adopted at once, large ones snap; both thresholds are settings.
#[test]
fn pre3_thresholds_are_settings() {
    let settings = SmoothingSettings {
        tiny_m: 0.1,
        snap_m: 1.0,
        ..SmoothingSettings::default()
    };
    let of = |jump: f64| {
        let mut error = VisibleError::default();
        (
            error.absorb(&settings, [jump, 0.0, 0.0], [0.0; 3]),
            error.length_m(),
        )
    };
    assert_eq!(of(0.09), (Absorbed::Adopted, 0.0));
    assert_eq!(of(0.11), (Absorbed::Smoothed, 0.11));
    assert_eq!(of(1.0), (Absorbed::Smoothed, 1.0));
    assert_eq!(of(1.01), (Absorbed::Snapped, 0.0));
    assert_eq!(of(f64::NAN), (Absorbed::Snapped, 0.0), "no number is drawn");
}

/// FAULTS 76: no frame at the raw corrected pose, a bounded jump a frame, exact settling; drawn at 144 Hz on 30 Hz inputs.
#[test]
fn faults_76_a_correction_never_pops() {
    for error in [0.05, 0.5, 2.9, 5.0] {
        let mut prediction = steps();
        let (frame_us, input_us, speed) = (6_944u64, 33_333u64, 3.0);
        let step = speed * 0.033_333;
        let (mut last, mut largest, mut number) = (0.0, 0f64, 0);
        let mut simulated = 0.0;
        for frame in 1..600u64 {
            let now = frame * frame_us;
            while u64::from(number) * input_us <= now {
                number += 1;
                prediction.predict(number, [step, 0.0]);
                simulated += step;
            }
            if frame == 300 {
                simulated += error;
                prediction.correct(said(now, number - 2, [simulated - 2.0 * step, 0.0]));
            }
            let part = (now - u64::from(number - 1) * input_us) as f64 / input_us as f64;
            let drawn = prediction.frame(frame_us, part)[0];
            if frame > 1 {
                largest = largest.max((drawn - last).abs());
            }
            last = drawn;
        }
        // Of the error a 144 Hz frame takes 1 - 0.7^(60/144).
        let walk = speed * frame_us as f64 * 1e-6;
        if error < 3.0 {
            assert!(largest <= walk + error * 0.139, "{error}: {largest}");
            assert_eq!(prediction.counts().smoothed, 1);
        } else {
            assert!(largest >= error, "{error}: {largest}");
            assert_eq!(prediction.counts().snapped, 1);
        }
        assert_eq!(prediction.error().length_m(), 0.0, "it settles exactly");
        let raw = prediction.frame(0, 1.0)[0];
        assert_eq!(
            raw,
            prediction.state()[0],
            "and the drawn history holds nothing old"
        );
    }
}

/// SPEC PRE1, PRE4: an input counts once, whatever is repeated, left out or lost on the way.
#[test]
fn pre1_repeated_and_left_out_numbers() {
    let mut prediction = steps();
    assert_eq!(prediction.predict(1, [1.0, 0.0]), Predicted::Applied);
    assert_eq!(prediction.predict(1, [1.0, 0.0]), Predicted::Repeated);
    assert_eq!(
        prediction.predict(4, [1.0, 0.0]),
        Predicted::Applied,
        "2 and 3 were never predicted"
    );
    assert_eq!(prediction.predict(3, [1.0, 0.0]), Predicted::Repeated);
    assert_eq!(*prediction.state(), [2.0, 0.0]);
    // Input 1 was lost on the way: the server passed it over.
    prediction.correct(said(10, 3, [0.0, 0.0]));
    assert_eq!(*prediction.state(), [1.0, 0.0]);
    assert_eq!(
        prediction.correct(said(10, 3, [9.0, 0.0])),
        Corrected::Stale,
        "the same again"
    );
    // The server moves it without any input.
    prediction.correct(said(20, 3, [0.5, 0.0]));
    assert_eq!(*prediction.state(), [1.5, 0.0]);
    // Inputs that were not predicted are in the state.
    prediction.pass(9);
    prediction.correct(said(30, 9, [7.0, 0.0]));
    assert_eq!(prediction.predict(9, [1.0, 0.0]), Predicted::Repeated);
    assert_eq!(
        (*prediction.state(), prediction.pending().count()),
        ([7.0, 0.0], 0)
    );
}

/// SPEC PRE2: a state that claims inputs which were never pushed is refused by name and counted, and prediction goes on; whether it
/// comes in the middle, or before the first input.
#[test]
fn pre2_a_state_with_inputs_never_pushed_stops_nothing() {
    for wild in [6, 7, 1_000, i32::MAX as u32] {
        let mut prediction = steps();
        for number in 1..=5 {
            prediction.predict(number, [1.0, 0.0]);
        }
        prediction.correct(said(10, 2, [2.0, 0.0]));
        assert_eq!(
            prediction.correct(said(20, wild, [99.0, 0.0])),
            Corrected::Unpushed
        );
        assert_eq!(
            (*prediction.state(), prediction.counts().unpushed),
            ([5.0, 0.0], 1)
        );
        assert_eq!(prediction.pending().collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(prediction.predict(6, [1.0, 0.0]), Predicted::Applied);
        let taken = prediction.correct(said(30, 5, [5.5, 0.0]));
        assert_eq!(taken, Corrected::Taken(Absorbed::Smoothed));
        assert_eq!(*prediction.state(), [6.5, 0.0]);

        let mut early = steps();
        early.correct(said(10, wild, [3.0, 0.0]));
        assert_eq!(early.predict(1, [1.0, 0.0]), Predicted::Applied);
        assert_eq!(early.counts().unpushed, 1);
        early.correct(said(20, 1, [4.5, 0.0]));
        assert_eq!(
            (*early.state(), early.predict(2, [1.0, 0.0])),
            ([4.5, 0.0], Predicted::Applied)
        );
    }
}

/// SPEC PRE1, ID8: numbers may wrap.
#[test]
fn pre1_numbers_wrap() {
    let mut prediction = steps();
    prediction.correct(said(1, u32::MAX - 2, [0.0, 0.0]));
    for number in [u32::MAX - 1, u32::MAX, 0, 1] {
        assert_eq!(
            prediction.predict(number, [1.0, 0.0]),
            Predicted::Applied,
            "{number}"
        );
    }
    prediction.correct(said(2, u32::MAX, [2.0, 0.0]));
    assert_eq!(
        (*prediction.state(), prediction.pending().collect()),
        ([4.0, 0.0], vec![0, 1])
    );
    assert_eq!(
        prediction.correct(said(3, u32::MAX - 1, [0.0, 0.0])),
        Corrected::Stale
    );
    prediction.correct(said(4, 0, [3.5, 0.0]));
    assert_eq!(
        (*prediction.state(), prediction.pending().collect()),
        ([4.5, 0.0], vec![1])
    );
}

/// FAULTS 99: what a correction plays again is capped; past the cap the server's state is shown until it has caught up.
#[test]
fn faults_99_replay_is_capped_and_reanchors() {
    let mut prediction = steps();
    let cap = PREDICTION_PENDING_MAX as u32;
    for number in 1..=cap {
        assert_eq!(prediction.predict(number, [1.0, 0.0]), Predicted::Applied);
    }
    for number in cap + 1..=cap + 20 {
        assert_eq!(prediction.predict(number, [1.0, 0.0]), Predicted::Stalled);
    }
    assert_eq!(prediction.state()[0], f64::from(cap), "it stands still");
    let before = prediction.counts().replayed;
    prediction.correct(said(1, 19, [19.0, 0.0]));
    assert!(prediction.is_stalled());
    assert_eq!(
        (prediction.state()[0], prediction.counts().replayed),
        (19.0, before)
    );
    prediction.correct(said(2, 20, [20.0, 0.0]));
    assert!(!prediction.is_stalled());
    assert_eq!(
        prediction.state()[0],
        f64::from(cap + 20),
        "all that is pending is played"
    );
    assert_eq!(prediction.counts().replayed - before, u64::from(cap));
}

/// SPEC ENT4, PLY7: a teleport, another entity and a new stream jump; nothing of an old stream comes back.
#[test]
fn pre3_ent4_another_segment_is_never_blended() {
    let mut prediction = steps();
    prediction.correct(said(100, 0, [0.0, 0.0]));
    prediction.predict(1, [1.0, 0.0]);
    let mut teleported = said(200, 1, [2.0, 0.0]);
    teleported.continuity.segment = 1;
    assert_eq!(prediction.correct(teleported), Corrected::Jumped);
    assert_eq!(prediction.frame(16_667, 1.0)[0], 2.0);
    prediction.predict(2, [1.0, 0.0]);
    // A new stream: its time begins anew, and its server has processed nothing.
    let mut renewed = said(5, 0, [0.5, 0.0]);
    renewed.continuity.stream_epoch = 2;
    assert_eq!(prediction.correct(renewed), Corrected::Jumped);
    assert_eq!(
        (prediction.pending().count(), prediction.frame(0, 1.0)[0]),
        (0, 0.5)
    );
    let mut old = said(300, 2, [9.0, 0.0]);
    old.continuity.segment = 1;
    assert_eq!(prediction.correct(old), Corrected::Stale);
    assert_eq!(prediction.predict(3, [1.0, 0.0]), Predicted::Applied);
}

/// The pending list keeps its places: nothing is made once it has been full.
#[test]
fn pending_keeps_its_places() {
    let mut pending = Pending::new();
    let mut reference = VecDeque::new();
    for number in 1..1_000u32 {
        pending.push(InputNumber(number), number);
        reference.push_back(number);
        if reference.len() > PREDICTION_PENDING_MAX {
            reference.pop_front();
        }
        let kept: Vec<u32> = pending.iter().map(|(_, input)| *input).collect();
        assert_eq!(kept, Vec::from(reference.clone()));
    }
    assert!(pending.has_gap());
    pending.forget_through(InputNumber(999 - PREDICTION_PENDING_MAX as u32));
    assert!(!pending.has_gap() && pending.len() == PREDICTION_PENDING_MAX);
}

/// SPEC PRE3: where rules and server agree nothing is corrected, though the answer comes before the next input: the last input's
/// way goes on being drawn at its pace.
#[test]
fn pre3_an_answer_before_the_next_input_does_not_pull_the_picture() {
    let mut prediction = Prediction::new(Steps, SmoothingSettings::default(), [0.0, 0.0]);
    prediction.correct(said(1, 0, [0.0, 0.0]));
    let mut drawn = Vec::new();
    for number in 1..200u32 {
        // 20 inputs a second of 5 m each, 120 frames a second, answers after two frames.
        prediction.predict(number, [5.0, 0.0]);
        for frame in 0..6u32 {
            if frame == 2 {
                let state = [5.0 * f64::from(number), 0.0];
                prediction.correct(said(u64::from(number) * 1_000, number, state));
            }
            drawn.push(prediction.frame(8_333, f64::from(frame) / 6.0)[0]);
        }
    }
    let steps = drawn.windows(2).skip(6).map(|pair| pair[1] - pair[0]);
    let worst = steps.map(|step| (step - 5.0 / 6.0).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-9, "{worst}");
    assert_eq!(
        (prediction.counts().smoothed, prediction.counts().snapped),
        (0, 0)
    );
}
