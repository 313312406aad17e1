//! The vectors of entities (SPEC ENT1..ENT4), and rest (ENT9).

use super::*;
use crate::client::playback::history::Segment;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::tests::rig::{motion, schema};
use crate::client::playback::tests::vectors::{micros, vector};
use crate::client::playback::timeline::Timeline;

const E_E: u64 = 100_000;

fn observe(history: &mut History, segment: u32, at_us: u64, x: f64, v: f64) {
    let observed = Observed {
        segment,
        motion: motion(at_us, x, v),
    };
    history.insert(observed, 32, None, &Timeline::new(4));
}

fn begun(segment: u32, start_us: u64) -> History {
    let mut history = History::default();
    history.begin_segment(
        Segment {
            id: segment,
            start_us,
        },
        &Timeline::new(4),
    );
    history
}

fn at(history: &History, measure: &Measure, r_us: u64, whole_us: u64) -> Evaluated {
    let scene = Scene {
        r_us,
        whole_us,
        measure,
        blend: PositionBlend::Linear,
    };
    scene.evaluate(history, E_E).unwrap()
}

fn x(at: &Evaluated) -> f64 {
    at.pose.unwrap().position[0]
}

fn mode(name: &serde_json::Value) -> PoseMode {
    use PoseMode::{Extrapolated, Interpolated, Missing, Resting, Stale};
    let modes = [Interpolated, Extrapolated, Resting, Stale, Missing];
    let named = modes
        .into_iter()
        .find(|mode| format!("{mode:?}") == name.as_str().unwrap());
    named.unwrap()
}

/// SPEC ENT1, ENT2, ENT3: every case of the vector. The packets of A arrive all the time and make nothing of B younger.
#[test]
fn ent1_ent2_ent3_sparse_entity_vector() {
    let vector = vector(include_str!("../../../../tests/vectors/sparse_entity.json"));
    let measure = Measure::new(&schema());
    let settings = PlaybackSettings::default();
    assert_eq!(settings.allowance_us(50_000, 0), micros(&vector["E_e"]));
    for case in vector["cases"].as_array().unwrap() {
        let known: Vec<u64> = case["B_known"].as_array().unwrap().iter().map(micros).collect();
        let mut history = begun(0, 0);
        for seen in vector["B"].as_array().unwrap() {
            if known.contains(&micros(&seen["t"])) {
                let [x, v] = ["x", "v"].map(|name| seen[name].as_f64().unwrap());
                observe(&mut history, 0, micros(&seen["t"]), x, v);
            }
        }
        let r_us = micros(&case["r"]);
        let shown = at(&history, &measure, r_us, r_us + 50_000);
        assert_eq!(shown.mode, mode(&case["mode"]), "{case}");
        assert_eq!(shown.valid_at_r, case["valid"].as_bool().unwrap(), "{case}");
        assert_eq!(shown.sample_us, micros(&case["sample_time"]), "{case}");
        assert!(
            (x(&shown) - case["x"].as_f64().unwrap()).abs() < 1e-6,
            "{case} {shown:?}"
        );
    }
}

/// SPEC ENT4: the cases of the vector that need no playback: capped at Te, switched at Te, never in between.
#[test]
fn ent4_segment_switch_vector() {
    let vector = vector(include_str!("../../../../tests/vectors/segment_switch.json"));
    let measure = Measure::new(&schema());
    let te_us = micros(&vector["teleport"]["at"]);
    for case in vector["cases"].as_array().unwrap() {
        let mut history = begun(1, 0);
        observe(&mut history, 1, 1_000_000, 0.0, 10.0);
        history.begin_segment(
            Segment {
                id: 2,
                start_us: te_us,
            },
            &Timeline::new(4),
        );
        if case["new_segment_state"] != "not arrived" {
            observe(&mut history, 2, te_us, 90.0, 0.0);
        }
        let shown = at(&history, &measure, micros(&case["r"]), 1_100_000);
        assert_eq!(shown.mode, mode(&case["mode"]), "{case}");
        assert_eq!(
            u64::from(shown.segment),
            case["segment"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(shown.valid_at_r, case["valid"].as_bool().unwrap(), "{case}");
        if let Some(expected) = case.get("x") {
            assert!((x(&shown) - expected.as_f64().unwrap()).abs() < 1e-6, "{case}");
        } else {
            assert_eq!(shown.pose, None);
            assert!(history.lacks_state());
        }
    }
    // Whatever of the two segments is here, no pose is between 0.4 and 90.
    for arrived in 0..4_u32 {
        let mut history = begun(1, 0);
        observe(&mut history, 1, 1_000_000, 0.0, 10.0);
        history.begin_segment(
            Segment {
                id: 2,
                start_us: te_us,
            },
            &Timeline::new(4),
        );
        for bit in 0..2_u32 {
            if arrived >> bit & 1 == 1 {
                observe(&mut history, 2, te_us + u64::from(bit) * 50_000, 90.0, 0.0);
            }
        }
        for r_us in (1_000_000..1_300_000).step_by(1_000) {
            let shown = at(&history, &measure, r_us, 1_300_000);
            let x = shown.pose.map_or(90.0, |pose| pose.position[0]);
            assert!(x <= 0.4 || x >= 90.0, "{r_us} {x}");
            assert_eq!(shown.segment == 1, r_us < te_us);
        }
    }
}

/// SPEC ENT9: a rest is valid up to the newest snapshot and E_e, and the way to what follows begins one period before that.
#[test]
fn ent9_rest_holds_until_a_period_before_what_follows() {
    let measure = Measure::new(&schema());
    let mut history = begun(0, 0);
    let rest = |at_us, x| {
        let mut motion = motion(at_us, x, 5.0);
        motion.at_rest = true;
        Observed { segment: 0, motion }
    };
    history.insert(rest(1_000_000, 3.0), 32, None, &Timeline::new(4));
    for (r_us, latest_us, mode) in [
        (1_000_000, 1_000_000, PoseMode::Resting),
        (9_000_000, 9_000_000, PoseMode::Resting),
        (9_100_000, 9_000_000, PoseMode::Resting),
        (9_100_001, 9_000_000, PoseMode::Stale),
    ] {
        let shown = at(&history, &measure, r_us, latest_us);
        assert_eq!((shown.mode, x(&shown)), (mode, 3.0), "{r_us} {latest_us}");
        assert_eq!(shown.valid_at_r, mode == PoseMode::Resting);
    }
    let moved = Observed {
        segment: 0,
        motion: motion(60_000_000, 4.0, 0.0),
    };
    let mut timeline = Timeline::new(4);
    timeline.insert(59_950_000, true, None);
    history.insert(moved, 32, None, &timeline);
    for (r_us, mode, expected) in [
        (59_950_000, PoseMode::Resting, 3.0),
        (59_975_000, PoseMode::Interpolated, 3.5),
        (60_000_000, PoseMode::Extrapolated, 4.0),
    ] {
        let shown = at(&history, &measure, r_us, 60_000_000);
        assert_eq!((shown.mode, shown.valid_at_r), (mode, true), "{r_us}");
        assert!((x(&shown) - expected).abs() < 1e-9);
    }
}

/// What rests at 3 m since 1 s, and the snapshots of these times.
fn resting(snapshots: &[u64]) -> (History, Timeline) {
    let mut history = begun(0, 0);
    let mut resting = motion(1_000_000, 3.0, 0.0);
    resting.at_rest = true;
    let observed = Observed {
        segment: 0,
        motion: resting,
    };
    history.insert(observed, 32, None, &Timeline::new(4));
    let mut timeline = Timeline::new(8);
    for time_us in snapshots {
        timeline.insert(*time_us, true, None);
    }
    (history, timeline)
}

/// SPEC ENT9: a waking without its motion ends the rest at the snapshot before it; E_e later the pose is stale. The motion that
/// comes then is the end of a way that began there: the time known to be awake is never said to be a rest again.
#[test]
fn ent9_a_waking_ends_the_rest() {
    let measure = Measure::new(&schema());
    let (mut history, timeline) = resting(&[4_950_000, 5_000_000, 5_050_000]);
    history.wake(5_050_000, &timeline);
    for (r_us, mode) in [
        (5_000_000, PoseMode::Resting),
        (5_100_000, PoseMode::Extrapolated),
        (5_100_001, PoseMode::Stale),
    ] {
        assert_eq!(at(&history, &measure, r_us, 9_000_000).mode, mode, "{r_us}");
    }
    let moved = Observed {
        segment: 0,
        motion: motion(6_000_000, 4.0, 0.0),
    };
    history.insert(moved, 32, None, &timeline);
    for (r_us, mode, expected) in [
        (5_000_000, PoseMode::Resting, 3.0),
        (5_000_001, PoseMode::Interpolated, 3.0),
        (5_500_000, PoseMode::Interpolated, 3.5),
        (6_000_000, PoseMode::Extrapolated, 4.0),
    ] {
        let shown = at(&history, &measure, r_us, 6_000_000);
        assert_eq!((shown.mode, shown.valid_at_r), (mode, true), "{r_us}");
        assert!((x(&shown) - expected).abs() < 0.001, "{r_us} {shown:?}");
    }
    // A rest that follows is one of its own.
    let mut again = motion(7_000_000, 5.0, 0.0);
    again.at_rest = true;
    let again = Observed {
        segment: 0,
        motion: again,
    };
    history.insert(again, 32, None, &timeline);
    assert_eq!(
        at(&history, &measure, 9_000_000, 9_000_000).mode,
        PoseMode::Resting
    );
}

/// SPEC ENT9: where snapshots were lost, the last one that came vouches for the rest, and not the period before what is known.
#[test]
fn ent9_lost_snapshots_vouch_for_no_rest() {
    let measure = Measure::new(&schema());
    let (mut history, timeline) = resting(&[5_000_000, 5_050_000, 5_250_000]);
    let moving = Observed {
        segment: 0,
        motion: motion(5_250_000, 4.0, 5.0),
    };
    history.insert(moving, 32, None, &timeline);
    for (r_us, mode, expected) in [
        (5_050_000, PoseMode::Resting, 3.0),
        (5_150_000, PoseMode::Interpolated, 3.5),
        (5_200_000, PoseMode::Interpolated, 3.75),
    ] {
        let shown = at(&history, &measure, r_us, 5_250_000);
        assert_eq!((shown.mode, shown.valid_at_r), (mode, true), "{r_us}");
        assert!((x(&shown) - expected).abs() < 1e-9, "{r_us} {shown:?}");
    }
}

/// SPEC ENT9, ENT4: a rest that is known to be over is stale E_e later, also once another segment is known to have begun.
#[test]
fn ent9_ent4_a_rest_that_is_over_is_not_valid_up_to_the_next_segment() {
    let measure = Measure::new(&schema());
    let te_us = 6_000_000;
    let snapshots = [4_950_000, 5_000_000, 5_050_000, 5_100_000, 5_950_000, te_us];
    for (woke, expected) in [(true, PoseMode::Stale), (false, PoseMode::Resting)] {
        let (mut history, timeline) = resting(&snapshots);
        if woke {
            history.wake(5_050_000, &timeline);
        }
        let segment = Segment {
            id: 1,
            start_us: te_us,
        };
        history.begin_segment(segment, &timeline);
        let moved = Observed {
            segment: 1,
            motion: motion(te_us, 90.0, 0.0),
        };
        history.insert(moved, 32, None, &timeline);
        let shown = at(&history, &measure, 5_500_000, te_us);
        assert_eq!((shown.mode, x(&shown)), (expected, 3.0));
        assert_eq!(shown.valid_at_r, !woke);
        // No snapshot is missing before it, so the rest lasted up to the teleport where nothing said that it woke.
        let shown = at(&history, &measure, te_us - 1, te_us);
        assert_eq!(shown.valid_at_r, !woke, "{shown:?}");
        assert_eq!(x(&at(&history, &measure, te_us, te_us)), 90.0);
    }
}

/// SPEC DEC2: without velocity nothing is extrapolated.
#[test]
fn dec2_without_velocity_nothing_is_extrapolated() {
    let mut bare = schema();
    bare.velocity = None;
    let measure = Measure::new(&bare);
    let mut history = begun(0, 0);
    observe(&mut history, 0, 1_000_000, 3.0, 5.0);
    for (r_us, mode) in [(1_000_000, PoseMode::Extrapolated), (1_000_001, PoseMode::Stale)] {
        let shown = at(&history, &measure, r_us, 2_000_000);
        assert_eq!((shown.mode, shown.sample_us), (mode, 1_000_000));
        assert!((x(&shown) - 3.0).abs() < 1e-9);
    }
}

/// SPEC ENT1: angular velocity turns an extrapolated rotation on; without it the rotation is held.
#[test]
fn ent1_an_extrapolated_rotation_turns_where_its_rate_is_sent() {
    let measure = Measure::new(&schema());
    let mut history = begun(0, 0);
    let mut turning = motion(1_000_000, 0.0, 0.0);
    turning.angular = [0, 0, 500];
    history.insert(
        Observed {
            segment: 0,
            motion: turning,
        },
        32,
        None,
        &Timeline::new(4),
    );
    let shown = at(&history, &measure, 1_080_000, 1_080_000);
    let expected = pose::turned(measure.pose(&turning).rotation, [0.0, 0.0, 5.0 * 0.08]);
    assert_eq!(shown.pose.unwrap().rotation, expected);
    let mut bare = schema();
    bare.angular = None;
    let shown = at(&history, &Measure::new(&bare), 1_080_000, 1_080_000);
    assert_eq!(shown.pose.unwrap().rotation, measure.pose(&turning).rotation);
}

/// SPEC CTL5, FAULTS 62: an entity of a slow tier has its own period as its allowance.
#[test]
fn ctl5_rate_tiers_vector() {
    let vector = vector(include_str!("../../../../tests/vectors/rate_tiers.json"));
    let base_us = micros(&vector["base_tick_s"]);
    for (tier, case) in (0..).zip(vector["cases"].as_array().unwrap()) {
        let period_us = crate::client::playback::settings::tier_period_us(base_us, tier);
        assert_eq!(1_u64 << tier, case["divisor"].as_u64().unwrap());
        assert_eq!(period_us, micros(&case["period_s"]));
        assert!((1e6 / period_us as f64 - case["hz"].as_f64().unwrap()).abs() < 1e-9);
        let allowance_us = PlaybackSettings::default().allowance_us(base_us, tier);
        assert_eq!(allowance_us, period_us.max(100_000));
    }
}
