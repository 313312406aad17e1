//! Faults of others' interpolation, on a stream that is said by hand: FAULTS 28 to 30, 34, 63, 64 and 97; teleports and
//! readiness (SPEC ENT4, ENT7).

use super::rig::{Dice, SPEED, motion, record, schema, truth};
use crate::client::display::Absence;
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::{Playback, TurnedKind};
use crate::state::entity::Entity;
use crate::state::record::Record;

const WAY: u64 = 40_000;
const SECOND: u64 = 1_000_000;
const T: u64 = 50_000;

/// A playback fed by hand with a snapshot each 50 ms, drawn at 60 a second; `say` is what each snapshot brings.
struct Stage {
    playback: Playback,
    now_us: u64,
    next_us: u64,
}

impl Stage {
    fn new(start_us: u64) -> Stage {
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.begin_stream(1, &schema());
        playback.take_complete_view();
        Stage {
            playback,
            now_us: start_us,
            next_us: start_us,
        }
    }

    /// Draws until `end_us`. `say` gets each snapshot that is not lost; `look` each frame.
    fn run(
        &mut self,
        end_us: u64,
        mut say: impl FnMut(&mut Playback, u64) -> bool,
        mut look: impl FnMut(&Playback),
    ) {
        while self.now_us < end_us {
            self.now_us += 16_667;
            while self.next_us + WAY <= self.now_us {
                let at_us = self.next_us;
                self.next_us += T;
                if say(&mut self.playback, at_us) {
                    self.playback.take_snapshot(at_us, at_us + WAY);
                }
            }
            self.playback.frame(self.now_us);
            look(&self.playback);
        }
    }
}

fn resting(id: u32, at_us: u64, x: f64) -> Record {
    let mut motion = motion(at_us, x, 0.0);
    motion.at_rest = true;
    record(id, motion)
}

fn x_of(playback: &Playback, slot: u16) -> Option<f64> {
    let drawn = playback.drawn().find(|drawn| drawn.slot == slot)?;
    drawn.at.pose.map(|pose| pose.position[0])
}

/// FAULTS 28: what stopped is shown at its very last value, with loss and without.
#[test]
fn faults_28_what_stopped_is_exactly_where_it_stopped() {
    for loss in [0, 20] {
        let mut dice = Dice(28 + loss);
        let stops: Vec<u64> = (0..200).map(|_| 2 * SECOND + dice.below(2 * SECOND)).collect();
        // Where each is at a tick: it goes on to its stop, and rests from the tick after.
        let at = |id: usize, us: u64| {
            let stop = stops[id] / T * T;
            let x = truth(us.min(stop)) + id as f64;
            if us > stop {
                resting(id as u32, stop + T, x)
            } else {
                record(id as u32, motion(us, x, SPEED))
            }
        };
        let mut stage = Stage::new(0);
        let mut entered = false;
        stage.run(
            7 * SECOND,
            |playback, us| {
                if entered && dice.percent(loss) {
                    return false;
                }
                for id in 0..stops.len() {
                    let record = at(id, us);
                    match entered {
                        true => playback.take_record(id as u16, &record),
                        false => playback.take_entered(id as u16, &record, us),
                    }
                }
                entered = true;
                true
            },
            |_| {},
        );
        for id in 0..stops.len() {
            let last = at(id, 10 * SECOND);
            let measure = crate::client::playback::measure::Measure::new(&schema());
            let shown = stage
                .playback
                .drawn()
                .find(|drawn| drawn.slot == id as u16)
                .unwrap();
            assert_eq!(
                shown.at.pose,
                Some(measure.pose(&last.motion.unwrap())),
                "{loss} {id}"
            );
            assert_eq!(shown.at.mode, PoseMode::Resting);
        }
    }
}

/// FAULTS 29, SPEC ENT9: a door that stood for a minute opens in its 0.2 s, and not a tick earlier.
#[test]
fn faults_29_a_long_pause_is_no_slow_motion() {
    for (pause_us, lost) in [(100_000, false), (60 * SECOND, false), (60 * SECOND, true)] {
        let opens_us = SECOND + pause_us;
        let mut stage = Stage::new(0);
        let mut entered = false;
        let (mut moved, mut done) = (None, None);
        stage.run(
            opens_us + 2 * SECOND,
            |playback, us| {
                if !entered {
                    playback.take_entered(0, &resting(0, us, 0.0), us);
                    entered = true;
                }
                // It is at rest up to the tick of opens_us, and open 0.2 s later.
                if us > opens_us && us < opens_us + 200_000 {
                    if lost && us == opens_us + T {
                        return false;
                    }
                    let share = (us - opens_us) as f64 / 200_000.0;
                    playback.take_record(0, &record(0, motion(us, share, 5.0)));
                } else if us == opens_us + 200_000 {
                    playback.take_record(0, &resting(0, us, 1.0));
                }
                true
            },
            |playback| {
                let r_us = playback.r_us();
                match x_of(playback, 0) {
                    Some(x) if x > 0.0 && moved.is_none() => moved = r_us,
                    Some(1.0) if done.is_none() => done = r_us,
                    _ => {}
                }
            },
        );
        let (moved, done) = (moved.unwrap(), done.unwrap());
        assert!(moved >= opens_us, "{pause_us} {lost}: {moved}");
        let took_us = done - opens_us;
        assert!(
            (200_000..=220_000).contains(&took_us),
            "{pause_us} {lost}: {took_us}"
        );
    }
}

/// FAULTS 30: a teleport, at rest or in motion, once or twice in two ticks, whatever packet of it is lost: nothing is drawn
/// between, and rotation snaps with it.
#[test]
fn faults_30_a_teleport_is_never_a_flight() {
    for case in 0..16_u64 {
        let (rests, twice, lost) = (case & 1 == 1, case & 2 == 2, case >> 2);
        let jump_us = 5 * SECOND;
        let mut stage = Stage::new(0);
        let mut entered = false;
        let at = |us: u64| {
            let jumps = u32::from(us >= jump_us) + u32::from(twice && us >= jump_us + T);
            let mut said = record(0, motion(us, f64::from(jumps) * 90.0, 0.0));
            let motion = said.motion.as_mut().unwrap();
            motion.at_rest = rests;
            if jumps > 0 {
                let half = [0.0, 0.0, 1.0, 0.0];
                motion.rotation = crate::state::rotation::Rotation::from_quaternion(half, 15).unwrap();
            }
            said.segment = jumps;
            said.segment_us = [0, jump_us, jump_us + T][jumps as usize];
            said
        };
        let mut corrections = 0;
        stage.run(
            6 * SECOND,
            |playback, us| {
                // The marked packet, the one after it, or both are lost.
                let marked = (us == jump_us && lost & 1 == 1) || (us == jump_us + T && lost & 2 == 2);
                if marked {
                    return false;
                }
                match entered {
                    true => playback.take_record(0, &at(us)),
                    false => playback.take_entered(0, &at(us), us),
                }
                entered = true;
                true
            },
            |playback| {
                for drawn in playback.drawn() {
                    let Some(pose) = drawn.at.pose else { continue };
                    let near = |x: f64| (pose.position[0] - x).abs() < 0.001;
                    assert!(near(0.0) || near(90.0) || near(180.0), "case {case}: {drawn:?}");
                    let turned = pose.rotation[2].abs() > 0.5;
                    assert_eq!(
                        turned,
                        !near(0.0),
                        "case {case}: rotation and position snap as one"
                    );
                }
                corrections = playback.statistics().corrections;
            },
        );
        assert!(x_of(&stage.playback, 0).unwrap() >= 90.0);
        // It is known before r comes to it, unless two packets in a row are lost.
        assert!(corrections <= u64::from(lost == 3), "case {case}: {corrections}");
    }
}

/// SPEC ENT4, the vector's late event: r stays, the switch is at once, and it is one correction. FAULTS 30.
#[test]
fn ent4_a_late_teleport_switches_at_once_and_r_stays() {
    let mut stage = Stage::new(0);
    let jump_us = 5 * SECOND + 40_000;
    let mut entered = false;
    stage.run(
        5 * SECOND + 180_000,
        |playback, us| {
            match entered {
                false => playback.take_entered(0, &record(0, motion(us, 0.0, 0.0)), us),
                true if us <= 5 * SECOND => playback.take_record(0, &record(0, motion(us, 0.0, 0.0))),
                true => {}
            }
            entered = true;
            true
        },
        |_| {},
    );
    let r_us = stage.playback.r_us().unwrap();
    assert!(r_us > jump_us && r_us < jump_us + 60_000, "{r_us}");
    let mut late = record(0, motion(jump_us, 90.0, 0.0));
    (late.segment, late.segment_us) = (2, jump_us);
    stage.playback.take_record(0, &late);
    stage.playback.frame(stage.now_us);
    assert_eq!(stage.playback.r_us(), Some(r_us), "a frame of no length");
    assert_eq!(x_of(&stage.playback, 0), Some(90.0));
    let turned: Vec<_> = stage.playback.turned().iter().map(|turned| turned.kind).collect();
    assert_eq!(
        turned,
        [TurnedKind::Switched {
            segment: 2,
            late: true
        }]
    );
    assert_eq!(stage.playback.statistics().corrections, 1);
}

/// SPEC ENT2, ENT7: a segment without state is Missing, asked for, and makes the view not ready until it is here.
#[test]
fn ent7_readiness_follows_the_query_critical_classes() {
    for (class, critical) in [(0, true), (1, true), (2, false)] {
        let mut stage = Stage::new(0);
        let mut entered = false;
        let mut states = Vec::new();
        stage.run(
            6 * SECOND,
            |playback, us| {
                let mut said = record(0, motion(us, 1.0, 0.0));
                said.class = class;
                if us >= 3 * SECOND {
                    (said.segment, said.segment_us) = (1, 3 * SECOND);
                }
                match us {
                    _ if !entered => playback.take_entered(0, &said, us),
                    // A second of silence, then a segment whose state comes half a second later.
                    _ if (SECOND..2 * SECOND).contains(&us) => {}
                    _ if us == 3 * SECOND => {
                        said.motion = None;
                        playback.take_record(0, &said);
                    }
                    _ if (3 * SECOND..3_500_000).contains(&us) => {}
                    _ => playback.take_record(0, &said),
                }
                entered = true;
                true
            },
            |playback| {
                if let Some(drawn) = playback.drawn().next() {
                    let wanted = playback.wanted().count();
                    states.push((drawn.at.mode, playback.is_view_ready(), wanted));
                    assert_eq!(playback.seen().unwrap().view_ready, playback.is_view_ready());
                }
            },
        );
        for lacking in [PoseMode::Stale, PoseMode::Missing] {
            let of_mode: Vec<_> = states.iter().filter(|(mode, ..)| *mode == lacking).collect();
            assert!(!of_mode.is_empty(), "{lacking:?}");
            assert!(
                of_mode.iter().all(|(_, ready, _)| *ready != critical),
                "{class} {lacking:?}"
            );
        }
        assert!(
            states
                .iter()
                .any(|(mode, _, wanted)| *mode == PoseMode::Missing && *wanted == 1)
        );
        assert!(
            states
                .iter()
                .all(|(mode, ready, _)| *mode != PoseMode::Interpolated || *ready)
        );
        assert!(states.last().unwrap().1);
    }
}

/// FAULTS 34: at ninety days the motion is as even as at the start.
#[test]
fn faults_34_motion_is_as_even_after_ninety_days() {
    let ripple = |base_us: u64| {
        let mut stage = Stage::new(base_us);
        let mut entered = false;
        let (mut before, mut steps) = (None, Vec::new());
        stage.run(
            base_us + 5 * SECOND,
            |playback, us| {
                let said = record(0, motion(us, (us - base_us) as f64 / 1e6 * SPEED, SPEED));
                match entered {
                    true => playback.take_record(0, &said),
                    false => playback.take_entered(0, &said, us),
                }
                entered = true;
                true
            },
            |playback| {
                if let Some(x) = x_of(playback, 0) {
                    steps.extend(before.map(|before| x - before));
                    before = Some(x);
                }
            },
        );
        steps
    };
    let (fresh, old) = (ripple(SECOND), ripple(90 * 86_400 * SECOND));
    assert_eq!(fresh.len(), old.len());
    assert!(fresh.iter().zip(&old).all(|(a, b)| (a - b).abs() < 1e-6));
}

/// FAULTS 63: nobody is drawn before birth, nor anywhere but where it is; the same on coming back into view.
#[test]
fn faults_63_the_first_pose_is_true_and_not_early() {
    let mut stage = Stage::new(0);
    let born_us = 3 * SECOND + 20_000;
    let at = |us: u64| {
        let mut said = record(9, motion(us, 500.0 + (us as f64 / 1e6), 1.0));
        said.born_us = born_us;
        said
    };
    let mut first = Vec::new();
    let mut shown = false;
    stage.run(
        8 * SECOND,
        |playback, us| {
            let life = at(us).entity;
            match us / T {
                61 => playback.take_entered(0, &at(us), us),
                62..=99 => playback.take_record(0, &at(us)),
                100 => playback.take_removed(0, life, Absence::LeftView, us),
                120 => playback.take_entered(0, &at(us), us),
                121.. => playback.take_record(0, &at(us)),
                _ => {}
            }
            true
        },
        |playback| {
            let drawn = playback.drawn().next();
            if let Some(drawn) = drawn {
                let r_us = playback.r_us().unwrap();
                let error = drawn.at.pose.unwrap().position[0] - 500.0 - r_us as f64 / 1e6;
                assert!(error.abs() < 0.002, "{error}");
                if !shown {
                    first.push(r_us);
                }
            }
            shown = drawn.is_some();
        },
    );
    assert_eq!(first.len(), 2, "{first:?}");
    assert!((born_us..born_us + 60_000).contains(&first[0]), "{first:?}");
    assert!((6 * SECOND..6 * SECOND + 20_000).contains(&first[1]), "{first:?}");
}

/// FAULTS 64: lives of two ticks in one slot: each has its own ends and nobody else's motion. A fast mover is no teleport.
#[test]
fn faults_64_short_lives_in_one_slot_do_not_mix() {
    let mut stage = Stage::new(0);
    let mut seen = std::collections::BTreeSet::new();
    stage.run(
        10 * SECOND,
        |playback, us| {
            let tick = us / T;
            let life = |number: u64| Entity {
                id: 5,
                generation: number as u32,
            };
            let number = tick / 2;
            let mut said = record(
                5,
                motion(us, number as f64 * 300.0 + (tick % 2) as f64 * 60.0, 0.0),
            );
            said.entity = life(number);
            said.born_us = number * 2 * T;
            if tick.is_multiple_of(2) {
                if number > 0 {
                    let absence = Absence::Destroyed { at_us: us, reason: 0 };
                    playback.take_removed(0, life(number - 1), absence, us);
                }
                playback.take_entered(0, &said, us);
            } else {
                playback.take_record(0, &said);
            }
            true
        },
        |playback| {
            let Some(r_us) = playback.r_us() else { return };
            assert!(playback.drawn().count() <= 1);
            for drawn in playback.drawn() {
                let number = u64::from(drawn.entity.generation);
                assert_eq!(number, r_us / (2 * T), "who lives at r is who is drawn");
                let along = drawn.at.pose.unwrap().position[0] - number as f64 * 300.0;
                // It moves 60 m in a tick, evenly.
                let way = (r_us % (2 * T)).min(T) as f64 / T as f64 * 60.0;
                assert!((along - way).abs() < 0.01, "{along} {way}");
                seen.insert(number);
            }
        },
    );
    assert!(seen.len() > 95, "{}", seen.len());
}

/// FAULTS 97: a thousand hops out of the view and back, of one to ten ticks: who is there is drawn and moves, nobody stays.
#[test]
fn faults_97_hops_out_of_the_view_leave_no_orphan() {
    let mut dice = Dice(97);
    let mut stage = Stage::new(0);
    let mut inside = false;
    let mut next = 0;
    let mut hops = 0;
    let life = Entity { id: 3, generation: 0 };
    let mut say = |playback: &mut Playback, us: u64, dice: &mut Dice| {
        let said = record(3, motion(us, truth(us), SPEED));
        if us >= next {
            next = us + T * (1 + dice.below(10));
            match inside {
                true => playback.take_removed(7, life, Absence::LeftView, us),
                false => playback.take_entered(7, &said, us),
            }
            inside = !inside;
            hops += 1;
        } else if inside {
            playback.take_record(7, &said);
        }
        (inside, hops)
    };
    let mut state = (false, 0);
    stage.run(
        280 * SECOND,
        |playback, us| {
            state = say(playback, us, &mut dice);
            true
        },
        |playback| {
            assert!(playback.drawn().count() <= 1);
            if let (Some(drawn), Some(r_us)) = (playback.drawn().next(), playback.r_us()) {
                let error = drawn.at.pose.unwrap().position[0] - truth(r_us);
                assert!(error.abs() < 0.002, "it moves: {error}");
            }
        },
    );
    assert!(state.1 > 1_000, "{}", state.1);
    // What is inside at the end is drawn a delay later; what is not is gone.
    stage.run(stage.now_us + SECOND, |_, _| true, |_| {});
    assert_eq!(stage.playback.drawn().count(), usize::from(state.0));
}
