//! Lines, cubics and arcs (SPEC ENT1, FAULTS 65, 98).

use super::*;
use crate::client::playback::tests::vectors::vector;
use core::f64::consts::{FRAC_PI_2, PI};

fn about_z(angle: f64) -> [f64; 4] {
    [0.0, 0.0, (angle / 2.0).sin(), (angle / 2.0).cos()]
}

/// The angle from `a` to `b` about z, in -PI..=PI.
fn between(a: [f64; 4], b: [f64; 4]) -> f64 {
    let [_, _, z, w] = product(b, conjugate(a));
    let angle = 2.0 * z.atan2(w);
    (angle + PI).rem_euclid(2.0 * PI) - PI
}

fn close(a: [f64; 4], b: [f64; 4]) -> bool {
    let dot: f64 = zip(a, b, |a, b| a * b).iter().sum();
    dot.abs() > 1.0 - 1e-12
}

/// SPEC ENT1: every case of the vector; q and -q are one rotation.
#[test]
fn ent1_rotation_vector() {
    let vector = vector(include_str!("../../../../tests/vectors/rotation.json"));
    let quaternion =
        |value: &serde_json::Value| -> [f64; 4] { core::array::from_fn(|at| value[at].as_f64().unwrap()) };
    let cases = vector["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let [a, b, q] = ["a", "b", "q"].map(|name| quaternion(&case[name]));
        let shown = arc(a, b, [0.0; 3], case["t"].as_f64().unwrap());
        assert!(
            zip(shown, q, |x, y| (x - y).abs()).iter().all(|d| *d < 1e-12),
            "{shown:?}"
        );
    }
}

/// FAULTS 65: a steady spin with random signs of q is shown at its own speed, about every axis and over the seam.
#[test]
fn faults_65_a_spin_is_steady_whatever_the_sign() {
    for degrees in [5.0_f64, 45.0, 90.0, 170.0, -90.0] {
        let step = degrees.to_radians();
        let mut shown = about_z(0.0);
        for update in 0..200_u32 {
            let sign = |update: u32| {
                if update.wrapping_mul(2_654_435_761) >> 31 == 0 {
                    1.0
                } else {
                    -1.0
                }
            };
            let at = |update: u32| about_z(f64::from(update) * step).map(|c| c * sign(update));
            for part in 1..=10 {
                let now = arc(at(update), at(update + 1), [0.0; 3], f64::from(part) / 10.0);
                assert!(
                    (between(shown, now) - step / 10.0).abs() < 1e-9,
                    "{degrees} {update} {part}"
                );
                shown = now;
            }
        }
    }
}

/// FAULTS 98: near half a turn the angular velocity says which way, and the direction does not flicker. Without it the
/// shortest arc is the documented limit.
#[test]
fn faults_98_half_turns_keep_their_direction_where_it_is_sent() {
    for degrees in (150..=210).step_by(5) {
        let step = f64::from(degrees).to_radians();
        for update in 0..20 {
            let (a, b) = (
                about_z(f64::from(update) * step),
                about_z(f64::from(update + 1) * step),
            );
            let mut shown = a;
            for part in 1..=10 {
                let now = arc(a, b, [0.0, 0.0, step], f64::from(part) / 10.0);
                assert!(
                    (between(shown, now) - step / 10.0).abs() < 1e-9,
                    "{degrees} {update}"
                );
                shown = now;
            }
            if degrees != 180 {
                let first = arc(a, b, [0.0; 3], 0.1);
                assert_eq!(between(a, first) > 0.0, degrees < 180, "{degrees}");
            }
        }
    }
    // A hint that is itself small does not turn a wide arc round.
    let (a, b) = (about_z(0.0), about_z(-2.7));
    assert!(between(a, arc(a, b, [0.0, 0.0, 0.3], 0.5)) < 0.0);
}

/// FAULTS 28: an end is met exactly, not to a rounding.
#[test]
fn faults_28_ends_are_met_exactly() {
    let (a, b) = ([0.1, 0.2, 0.3], [0.7, -0.2, 1e9]);
    assert_eq!((line(a, b, 0.0), line(a, b, 1.0)), (a, b));
    assert_eq!(line(b, b, 0.123), b);
    let q = unit([0.3, 0.1, -0.2, 0.9]);
    assert_eq!(arc(q, q, [0.0; 3], 0.77), q);
    assert_eq!(arc(about_z(1.0), q, [0.0; 3], 1.0), q);
    assert_eq!(hermite(a, [1.0; 3], b, [1.0; 3], 0.05, 1.0), b);
}

#[test]
fn turning_on_follows_the_angular_velocity() {
    assert!(close(
        turned(about_z(0.3), [0.0, 0.0, FRAC_PI_2]),
        about_z(0.3 + FRAC_PI_2)
    ));
    assert_eq!(turned(about_z(0.3), [0.0; 3]), about_z(0.3));
}

/// The cubic passes through its ends with the slopes given where they are gentle, is the line where they are the line's, and
/// never leaves the box between its ends, whatever the velocities are.
#[test]
fn ent1_a_cubic_never_overshoots_its_segment() {
    let straight = hermite([0.0; 3], [2.0; 3], [1.0; 3], [2.0; 3], 0.5, 0.3);
    assert!((straight[0] - 0.3).abs() < 1e-12);
    let slow = hermite([0.0; 3], [0.0; 3], [1.0; 3], [0.0; 3], 0.5, 0.01);
    assert!(slow[0] < 0.001, "it leaves at rest: {slow:?}");
    let mut seed = 1_u64;
    let mut draw = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 10f64.powi((seed % 7) as i32 - 2)
    };
    for _ in 0..20_000 {
        let [a, b, from, to] = core::array::from_fn(|_| [draw(), draw(), draw()]);
        let mut before = a;
        for part in 1..=16 {
            let now = hermite(a, from, b, to, 0.05, f64::from(part) / 16.0);
            for axis in 0..3 {
                let (low, high) = (a[axis].min(b[axis]), a[axis].max(b[axis]));
                assert!((low..=high).contains(&now[axis]), "{a:?} {b:?} {now:?}");
                let way = (now[axis] - before[axis]) * (b[axis] - a[axis]).signum();
                assert!(way >= -1e-9 * high.abs().max(low.abs()).max(1.0), "it goes back");
            }
            before = now;
        }
    }
}
