//! The vector of the playback clock, and what it leaves open (SPEC PLY3..PLY8).

use super::*;
use crate::client::playback::tests::vectors::{micros, vector};

const T: u64 = 50_000;
const D: u64 = 100_000;

/// A clock, its timeline, and what it told.
struct Rig {
    settings: PlaybackSettings,
    clock: PlaybackClock,
    timeline: Timeline,
    told: Vec<Transition>,
}

impl Rig {
    fn new(mode: ClockMode, r_us: Option<u64>, samples: &[u64]) -> Rig {
        let mut rig = Rig {
            settings: PlaybackSettings::default(),
            clock: PlaybackClock {
                mode,
                r_us,
                ..PlaybackClock::default()
            },
            timeline: Timeline::new(64),
            told: Vec::new(),
        };
        rig.packets(samples);
        rig
    }

    fn packets(&mut self, times: &[u64]) {
        for time in times {
            self.timeline.insert(*time, true, self.clock.r_us);
        }
    }

    fn frame(&mut self, passed_us: u64, estimate_us: u64) -> bool {
        let inputs = FrameInputs {
            passed_us,
            estimate_us: Some(estimate_us),
            delay_us: D,
            period_us: T,
            timeline: &self.timeline,
        };
        let told = &mut self.told;
        self.clock
            .advance(&self.settings, &inputs, &mut |turn| told.push(turn))
    }
}

fn mode(name: &serde_json::Value) -> ClockMode {
    match name.as_str().unwrap() {
        "Waiting" => ClockMode::Waiting,
        "Playing" => ClockMode::Playing,
        "Frozen" => ClockMode::Frozen,
        other => panic!("{other}"),
    }
}

fn times(values: &serde_json::Value) -> Vec<u64> {
    values.as_array().unwrap().iter().map(micros).collect()
}

/// SPEC PLY3, PLY4, PLY5, PLY6: every sequence of the vector.
#[test]
fn ply3_ply4_ply5_ply6_playback_vector() {
    let vector = vector(include_str!("../../../../tests/vectors/playback.json"));
    let settings = PlaybackSettings::default();
    assert_eq!(settings.extrapolation_us, micros(&vector["E"]));
    assert_eq!(settings.reanchor_us, micros(&vector["R"]));
    assert_eq!(settings.resume_margin_us(T), micros(&vector["Dresume"]));
    assert_eq!((T, D), (micros(&vector["T"]), micros(&vector["D"])));
    let sequences = vector["sequences"].as_object().unwrap();
    assert_eq!(sequences.len(), 7);
    for (name, sequence) in sequences {
        let given = &sequence["given"];
        let mut rig = Rig::new(
            mode(&given["mode"]),
            Some(micros(&given["r"])),
            &times(&given["samples"]),
        );
        if !given["frozen_for"].is_null() {
            rig.clock.frozen_us = micros(&given["frozen_for"]);
        }
        for step in sequence["steps"].as_array().unwrap() {
            if let Some(packets) = step.get("packets") {
                rig.packets(&times(packets));
            } else if let Some(packet) = step.get("packet") {
                rig.packets(&[micros(packet)]);
            } else {
                let generation = rig.clock.generation();
                rig.frame(micros(&step["render_dt"]), micros(&step["server_estimate"]));
                assert_eq!(rig.clock.mode(), mode(&step["mode"]), "{name} {step}");
                let r_us = rig.clock.r_us().unwrap();
                assert!(r_us.abs_diff(micros(&step["r"])) <= 1, "{name} {step} {r_us}");
                if let Some(more) = step.get("playback_generation_increment") {
                    let more = u32::try_from(more.as_u64().unwrap()).unwrap();
                    assert_eq!(rig.clock.generation(), generation + more, "{name}");
                }
            }
        }
    }
}

/// SPEC PLY4: both a margin and a snapshot on either side of r are needed, and the left one lost is Waiting.
#[test]
fn ply4_ply5_a_lost_left_one_is_waiting() {
    let mut rig = Rig::new(ClockMode::Frozen, Some(1_000_000), &[1_050_000, 1_200_000]);
    rig.frame(16_000, 1_150_000);
    assert_eq!(rig.told[0], Transition::Waits(WaitReason::LeftLost));
    assert_eq!(
        (rig.clock.mode(), rig.clock.r_us()),
        (ClockMode::Playing, Some(1_050_000))
    );
    assert_eq!(rig.clock.generation(), 1);
}

/// SPEC PLY5: the start of a stream anchors within the snapshots there are.
#[test]
fn ply5_the_start_needs_two_snapshots() {
    let mut rig = Rig::new(ClockMode::Waiting, None, &[5_000_000]);
    assert!(!rig.frame(16_000, 5_010_000));
    assert_eq!((rig.clock.mode(), rig.clock.r_us()), (ClockMode::Waiting, None));
    rig.packets(&[5_050_000]);
    assert!(rig.frame(16_000, 5_060_000));
    assert_eq!(
        (rig.clock.mode(), rig.clock.r_us()),
        (ClockMode::Playing, Some(5_000_000))
    );
}

/// SPEC PLY7: a new stream forgets r, and what quoted an old generation stays void.
#[test]
fn ply7_a_new_stream_is_a_new_timeline() {
    let mut rig = Rig::new(ClockMode::Playing, Some(9_000_000), &[8_950_000, 9_050_000]);
    let before = rig.clock.generation();
    let told = &mut rig.told;
    rig.clock.begin_stream(&mut |turn| told.push(turn));
    rig.timeline = Timeline::new(64);
    assert_eq!(rig.told, [Transition::Waits(WaitReason::NewStream)]);
    assert_eq!((rig.clock.mode(), rig.clock.r_us()), (ClockMode::Waiting, None));
    rig.packets(&[50_000, 100_000]);
    rig.frame(16_000, 110_000);
    assert_eq!(rig.clock.r_us(), Some(50_000));
    assert!(rig.clock.generation() > before + 1);
}

/// SPEC ENT5: what is shown is evaluated when r came to a stop, and not again before it moves.
#[test]
fn ent5_frozen_frames_evaluate_nothing() {
    let mut rig = Rig::new(ClockMode::Playing, Some(1_090_000), &[950_000, 1_000_000]);
    assert!(rig.frame(25_000, 1_225_000), "it freezes at latest + E");
    assert_eq!(rig.clock.mode(), ClockMode::Frozen);
    rig.packets(&[1_150_000]);
    assert!(!rig.frame(16_000, 1_241_000));
    rig.packets(&[1_250_000]);
    assert!(rig.frame(16_000, 1_257_000), "resuming evaluates at the same r");
    assert_eq!(
        (rig.clock.mode(), rig.clock.r_us()),
        (ClockMode::Playing, Some(1_100_000))
    );
}

/// A frame as long as five seconds of silence is no frame of a playback; at five frames a second playing goes on.
#[test]
fn ply6_long_frames_take_the_explicit_path_and_slow_ones_do_not() {
    for (frame_us, jumps) in [(200_000, false), (500_000, false), (600_000, true)] {
        let mut rig = Rig::new(ClockMode::Waiting, None, &[]);
        let mut newest = 0;
        for frame in 1..100_u64 {
            let now = frame * frame_us;
            while newest + T <= now {
                newest += T;
                rig.packets(&[newest]);
            }
            rig.frame(frame_us, now);
        }
        let anchors = rig
            .told
            .iter()
            .filter(|turn| matches!(turn, Transition::Anchored { .. }));
        assert_eq!(anchors.count() > 1, jumps, "{frame_us}");
        assert_eq!(rig.clock.mode(), ClockMode::Playing);
        let behind = 99 * frame_us - rig.clock.r_us().unwrap();
        assert!((50_000..=110_000).contains(&behind), "{frame_us} {behind}");
    }
}

/// SPEC PLY6: one turn is told once, however many steps a long frame is walked in, and the anchor is that of the frame's end.
#[test]
fn ply6_a_long_frame_tells_of_each_turn_once() {
    for (newest, anchored) in [(10_050_000, false), (10_900_000, true)] {
        let mut rig = Rig::new(
            ClockMode::Playing,
            Some(10_000_000),
            &[9_950_000, 10_000_000, newest - T, newest],
        );
        rig.frame(400_000, 11_000_000);
        let mut told = vec![Transition::Waits(WaitReason::TooFar)];
        if anchored {
            told.push(Transition::Anchored {
                from_us: Some(10_000_000),
                to_us: 10_850_000,
                generation: 1,
            });
        }
        assert_eq!(rig.told, told);
    }
}

/// FAULTS 67: from 300 ms late or 150 ms early, which is as early as r can be, the rate comes back to 1 and crosses it at
/// most once.
#[test]
fn faults_67_a_step_settles_without_oscillation() {
    for off in [-300_000_i64, -100_000, 100_000, 150_000] {
        for frame_us in [16_667, 100_000, 333_000] {
            let r_us = 10_000_000_u64.saturating_add_signed(off);
            let mut rig = Rig::new(
                ClockMode::Playing,
                Some(r_us),
                &[9_500_000, 10_000_000, 10_150_000],
            );
            let (mut signs, mut sign, mut frozen) = (0, 0.0, 0);
            let mut newest = rig.timeline.latest().unwrap();
            for frame in 1..(20_000_000 / frame_us) {
                let now = 10_100_000 + frame * frame_us;
                while newest + T <= now {
                    newest += T;
                    rig.packets(&[newest]);
                }
                rig.frame(frame_us, now);
                let ahead = rig.clock.rate() - 1.0;
                frozen += u32::from(rig.clock.mode() != ClockMode::Playing);
                if ahead.abs() > 0.002 && ahead.signum() != sign {
                    signs += u32::from(sign != 0.0);
                    sign = ahead.signum();
                }
            }
            assert!(signs <= 1, "{off} {frame_us}: {signs}");
            assert_eq!(frozen, 0, "{off} {frame_us}");
            assert!(
                (rig.clock.rate() - 1.0).abs() < 0.01,
                "{off} {frame_us} {}",
                rig.clock.rate()
            );
        }
    }
}
