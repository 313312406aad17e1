//! The vector of interpolation windows (SPEC ENT8).

use super::*;
use crate::client::playback::tests::vectors::{micros, vector};

fn at(x: f64) -> Pose {
    Pose {
        position: [x, 0.0, 0.0],
        rotation: [0.0, 0.0, 0.0, 1.0],
    }
}

/// SPEC ENT8: the windows, and the start from where the picture is.
#[test]
fn ent8_interpolation_windows_vector() {
    let vector = vector(include_str!(
        "../../../../tests/vectors/interpolation_windows.json"
    ));
    let settings = SmoothingSettings::default();
    assert_eq!(settings.event_window_us, micros(&vector["event_window_s"]));
    assert!((settings.gamma - vector["gamma"].as_f64().unwrap()).abs() < 1e-12);
    let mut ticks = Smoother::new(Driven::ByTicks, at(0.0), 0);
    let mut events = Smoother::new(Driven::ByEvents, at(0.0), 0);
    let mut now_us = 0;
    let [gaps, averages, windows] =
        ["gaps_s", "ema_s", "window_s"].map(|name| vector[name].as_array().unwrap());
    for ((gap, average), window) in gaps.iter().zip(averages).zip(windows) {
        now_us += micros(gap);
        ticks.move_to(&settings, at(1.0), now_us);
        events.move_to(&settings, at(1.0), now_us);
        assert!(
            (ticks.average_us.unwrap() - average.as_f64().unwrap() * 1e6).abs() < 0.01,
            "{gap}"
        );
        assert!(ticks.window_us(&settings).abs_diff(micros(window)) <= 1, "{gap}");
        assert_eq!(events.window_us(&settings), 100_000);
    }
    let from = &vector["start_from_smoothed"];
    assert_eq!(micros(&from["window_s"]), settings.event_window_us);
    let moves = from["moves"].as_array().unwrap();
    let mut entity = Smoother::new(Driven::ByEvents, at(moves[0]["x"].as_f64().unwrap()), 0);
    for step in &moves[1..] {
        entity.move_to(&settings, at(step["x"].as_f64().unwrap()), micros(&step["at"]));
    }
    for sample in from["sample"].as_array().unwrap() {
        let shown = entity.sample(&settings, micros(&sample["at"])).position[0];
        assert!(
            (shown - sample["x"].as_f64().unwrap()).abs() < 1e-9,
            "{sample} {shown}"
        );
    }
    assert_eq!(entity.position(), at(2.0), "logic reads the server's word");
}

/// SPEC CTL5: an owner that was told its divisor has a window of at least its period.
#[test]
fn ctl5_a_tier_widens_the_window() {
    let settings = SmoothingSettings::default();
    let mut entity = Smoother::new(Driven::ByEvents, at(0.0), 0);
    for (tier, window_us) in [(0, 100_000), (1, 100_000), (2, 200_000), (0, 100_000)] {
        entity.set_tier(50_000, tier);
        assert_eq!(entity.window_us(&settings), window_us);
    }
}

/// SPEC ENT4, ENT8: a jump has nothing in between, and nothing goes on past its target.
#[test]
fn ent8_jumps_jump_and_nothing_is_extrapolated() {
    let settings = SmoothingSettings::default();
    let mut entity = Smoother::new(Driven::ByEvents, at(0.0), 0);
    entity.move_to(&settings, at(1.0), 50_000);
    entity.jump_to(at(90.0), 60_000);
    assert_eq!(entity.sample(&settings, 60_000), at(90.0));
    entity.move_to(&settings, at(91.0), 100_000);
    assert_eq!(entity.sample(&settings, 9_000_000), at(91.0));
}
