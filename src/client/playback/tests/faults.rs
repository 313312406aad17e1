//! Faults of others' clocks and interpolation: FAULTS 28 to 34, 62 to 74, 79, 89, 90 and 97.

use super::rig::{Dice, Rig, SPEED, motion, record, schema, truth};
use crate::client::display::Absence;
use crate::client::playback::clock::ClockMode;
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

/// SPEC ENT7: the own entity, which is predicted, and a view that is not complete.
#[test]
fn ent7_no_view_is_ready_before_it_is_complete() {
    let mut playback = Playback::new(PlaybackSettings::default());
    playback.begin_stream(1, &schema());
    for tick in 0..20 {
        playback.take_snapshot(tick * T, tick * T + WAY);
        playback.frame(tick * T + WAY);
    }
    assert_eq!(
        (playback.mode(), playback.is_view_ready()),
        (ClockMode::Playing, false)
    );
    playback.take_complete_view();
    assert!(playback.is_view_ready());
}

/// FAULTS 31, 32, 79: an app that slept, or a hidden tab that was given everything meanwhile, is playing on the present within
/// a frame of its return, at its own speed and delay a second later. SPEC PLY6.
#[test]
fn faults_31_32_79_after_a_sleep_playback_is_in_the_present() {
    for sleep_s in [1, 5, 20, 60, 600] {
        for kept in [true, false] {
            let (from, to) = (10 * SECOND, (10 + sleep_s) * SECOND);
            let mut rig = Rig::new(Box::new(move |sent| {
                // What the system keeps for an app that does not read arrives as it returns.
                let asleep = (from..to).contains(&(sent + WAY));
                if asleep && kept {
                    Some(to - sent)
                } else {
                    (!asleep).then_some(WAY)
                }
            }));
            rig.run(10 * SECOND);
            let slept_us = rig.now_us;
            rig.sleep(to - slept_us);
            rig.frame(to - slept_us);
            rig.run(10 * SECOND);
            let names = rig.turns_since(slept_us + 1);
            assert_eq!(names, ["waits", "anchored"], "{sleep_s} {kept}");
            let anchored_us = rig.turns.last().unwrap().0;
            assert!(
                anchored_us - to < 200_000,
                "{sleep_s} {kept} {}",
                anchored_us - to
            );
            let (least, most) = rig.speeds(anchored_us + SECOND);
            assert!(least > 0.985 && most < 1.015, "{sleep_s} {kept}: {least} {most}");
            let behind_us = rig.behind_us(WAY);
            assert!(
                (90_000..=120_000).contains(&behind_us),
                "{sleep_s} {kept}: {behind_us}"
            );
        }
    }
}

/// FAULTS 32: a server that has been up for sixty days is joined as fast as a new one.
#[test]
fn faults_32_uptime_does_not_lengthen_a_start() {
    for uptime_s in [60, 60 * 86_400] {
        let mut rig = Rig::new(Box::new(|_| Some(WAY)));
        rig.lead_us = uptime_s * 1_000_000;
        rig.next_us = uptime_s as u64 * SECOND;
        rig.run(300_000);
        assert_eq!(rig.frames.last().unwrap().mode, ClockMode::Playing, "{uptime_s}");
    }
}

/// FAULTS 33: the server's clock slews by half a second in ten, either way, and steps two seconds on: the delay shown is
/// within a tenth of its target afterwards.
#[test]
fn faults_33_a_servers_clock_that_slews_or_steps_is_followed() {
    for (ppm, step_us) in [(50_000, 0), (-50_000, 0), (0, 2_000_000)] {
        let mut rig = Rig::new(Box::new(|_| Some(WAY)));
        rig.run(10 * SECOND);
        rig.ppm = ppm;
        rig.lead_us += step_us - 10 * ppm;
        rig.next_us += step_us as u64;
        rig.run(10 * SECOND);
        rig.ppm = 0;
        rig.lead_us += 20 * ppm;
        rig.run(10 * SECOND);
        let behind_us = rig.behind_us(WAY);
        assert!(
            (90_000..=110_000).contains(&behind_us),
            "{ppm} {step_us}: {behind_us}"
        );
        let anchors = rig.playback.statistics().anchors;
        assert_eq!(anchors, 1 + u64::from(step_us > 0), "{ppm} {step_us}");
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

/// FAULTS 62, SPEC CTL5: entities of every divisor move evenly and are never stale for it, also when the divisor changes.
#[test]
fn faults_62_slow_tiers_move_evenly_and_are_not_stale() {
    for divisor in [1, 2, 4] {
        let mut rig = Rig::new(Box::new(|_| Some(WAY)));
        rig.run(SECOND);
        rig.divisor = divisor;
        rig.run(20 * SECOND);
        let (least, most) = rig.speeds(5 * SECOND);
        assert!(least > 0.95 && most < 1.05, "{divisor}: {least} {most}");
        let stale = rig
            .frames
            .iter()
            .filter_map(|frame| frame.drawn)
            .filter(|drawn| !drawn.at.valid_at_r);
        assert_eq!(stale.count(), 0, "{divisor}");
        let allowance_us = rig.frames.last().unwrap().drawn.unwrap().at.allowance_us;
        assert_eq!(allowance_us, (divisor * T).max(100_000), "the game can see why");
    }
}

/// SPEC CTL5, DEC2: without velocities the delay grows until it covers the slowest tier, so that nothing need be guessed.
#[test]
fn ctl5_without_velocity_the_delay_covers_the_slowest_tier() {
    let mut bare = schema();
    bare.velocity = None;
    let mut rig = Rig::with(PlaybackSettings::default(), bare, Box::new(|_| Some(WAY)));
    rig.divisor = 4;
    rig.run(30 * SECOND);
    assert_eq!(rig.playback.delay_us(), (250_000, 250_000));
    let late = rig.frames.iter().filter(|frame| frame.now_us > 25 * SECOND);
    assert!(late.clone().count() > 0);
    assert!(
        late.filter_map(|frame| frame.drawn)
            .all(|drawn| drawn.at.mode == PoseMode::Interpolated)
    );
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

/// FAULTS 68: a minute of wild jitter, then calm: the delay is back within the time its slew needs; a spike every 20 s for five
/// minutes costs a freeze of less than itself each, and no jump.
#[test]
fn faults_68_a_storm_ends_and_spikes_are_held() {
    let mut dice = Dice(68);
    let mut rig = Rig::new(Box::new(move |sent| {
        let spike = sent > 300 * SECOND && sent % (20 * SECOND) < T;
        Some(match sent {
            0..60_000_000 => WAY + dice.below(300_000),
            _ if spike => WAY + 300_000,
            _ => WAY,
        })
    }));
    rig.run(60 * SECOND);
    assert!(
        rig.playback.delay_us().0 > 150_000,
        "{:?}",
        rig.playback.delay_us()
    );
    rig.run(25 * SECOND);
    let (delay_us, _) = rig.playback.delay_us();
    assert!(delay_us <= 120_000, "{delay_us}");
    rig.run(215 * SECOND);
    assert_eq!(rig.time_in(ClockMode::Frozen, 65 * SECOND), 0);
    let spikes_us = rig.now_us;
    rig.run(300 * SECOND);
    assert!(!rig.turns_since(spikes_us).contains(&"waits"));
    let frozen_us = rig.time_in(ClockMode::Frozen, spikes_us);
    assert!(frozen_us < 15 * 200_000, "{frozen_us}");
}

/// FAULTS 69: snapshots that come four at a time are judged by their own times: no freeze once the delay fits. Twenty at a time
/// are more than the default bound of D holds, and a game that wants them sets it.
#[test]
fn faults_69_clumps_are_judged_by_source_time() {
    for (clump_us, settings) in [
        (200_000, PlaybackSettings::default()),
        (
            1_000_000,
            PlaybackSettings {
                delay_max_us: 1_100_000,
                gap_percentile: 97,
                ..PlaybackSettings::default()
            },
        ),
    ] {
        let way = move |sent: u64| Some(WAY + clump_us - (sent + WAY) % clump_us);
        let mut rig = Rig::with(settings, schema(), Box::new(way));
        let adapts_us = 40 * SECOND + clump_us * 80;
        rig.run(adapts_us + 60 * SECOND);
        assert!(
            rig.turns_since(adapts_us).is_empty(),
            "{clump_us} {:?}",
            rig.turns_since(adapts_us)
        );
        let (least, most) = rig.speeds(adapts_us);
        assert!(least > 0.9 && most < 1.1, "{clump_us} {least} {most}");
    }
}

/// FAULTS 70, SPEC PLY2: reordering, and a packet of five seconds ago each second, move nothing and are counted.
#[test]
fn faults_70_older_snapshots_move_nothing_back() {
    let mut dice = Dice(70);
    let mut rig = Rig::new(Box::new(move |sent| {
        let replayed = sent % SECOND < T;
        Some(if replayed {
            WAY + 5 * SECOND
        } else {
            WAY + dice.below(120_000)
        })
    }));
    rig.run(60 * SECOND);
    assert!(rig.playback.statistics().snapshots_late > 100);
    assert!(!rig.turns_since(SECOND).contains(&"waits"));
    let (delay_us, _) = rig.playback.delay_us();
    assert!(delay_us <= 250_000);
}

/// FAULTS 71: 60, 20, 30 snapshots a second, one in a hundred missing upstream: not a frozen frame.
#[test]
fn faults_71_another_send_rate_is_no_freeze() {
    let mut fast = schema();
    fast.tick_period_us = 16_667;
    let mut dice = Dice(71);
    let way = move |_| (!dice.percent(1)).then_some(WAY);
    let mut rig = Rig::with(PlaybackSettings::default(), fast, Box::new(way));
    for period_us in [16_667, 50_000, 33_333, 16_667, 50_000] {
        rig.period_us = period_us;
        rig.run(20 * SECOND);
        assert_eq!(rig.playback.period_us(), period_us);
        assert_eq!(
            rig.time_in(ClockMode::Frozen, rig.now_us - 19 * SECOND),
            0,
            "{period_us}"
        );
    }
    assert_eq!(rig.playback.statistics().anchors, 1);
}

/// FAULTS 72: the stream stops while things move at 20 m/s: nothing is drawn further than the cap, and what comes back is
/// taken.
#[test]
fn faults_72_extrapolation_has_a_cap() {
    for outage_us in [100_000, 500_000, 2_000_000, 20_000_000] {
        let (from, to) = (10 * SECOND, 10 * SECOND + outage_us);
        let mut rig = Rig::new(Box::new(move |sent| (!(from..to).contains(&sent)).then_some(WAY)));
        rig.run(9 * SECOND);
        while rig.now_us < to + 5 * SECOND {
            rig.run(rig.frame_us);
            let latest_us = rig.playback.latest_us().unwrap();
            let x = rig
                .frames
                .last()
                .unwrap()
                .drawn
                .unwrap()
                .at
                .pose
                .unwrap()
                .position[0];
            assert!(x <= truth(latest_us + 100_000) + 0.002, "{outage_us}");
        }
        assert_eq!(
            rig.playback.statistics().snapshots_late,
            0,
            "{outage_us}: nothing was discarded as late"
        );
        assert_eq!(rig.playback.mode(), ClockMode::Playing);
        assert!(rig.frames.last().unwrap().drawn.unwrap().at.valid_at_r);
    }
}

/// FAULTS 73: a new playback begins from the defaults: a hundred rejoins, on good and bad ways, all start alike.
#[test]
fn faults_73_a_second_session_inherits_nothing() {
    let start = || {
        let mut rig = Rig::new(Box::new(|_| Some(WAY)));
        rig.run(10 * SECOND);
        rig.frames
            .iter()
            .map(|frame| (frame.r_us, frame.mode))
            .collect::<Vec<_>>()
    };
    let first = start();
    for round in 0..20 {
        let mut dice = Dice(round);
        let mut bad = Rig::new(Box::new(move |_| {
            (!dice.percent(30)).then_some(WAY + dice.below(200_000))
        }));
        bad.run(5 * SECOND);
        drop(bad);
        assert_eq!(start(), first, "{round}");
    }
}

/// FAULTS 74: a stream that begins anew at tick 1 moves at once, whatever the old one's times were.
#[test]
fn faults_74_a_restarted_stream_is_not_compared_with_the_old_one() {
    let mut rig = Rig::new(Box::new(|_| Some(WAY)));
    rig.run(600 * SECOND);
    rig.restart();
    let restarted_us = rig.now_us;
    rig.run(2 * SECOND);
    assert!(rig.frames.last().unwrap().drawn.unwrap().at.valid_at_r);
    let (least, _) = rig.speeds(restarted_us + SECOND);
    assert!(least > 0.9);
    assert_eq!(rig.playback.statistics().snapshots_late, 0);
}

/// FAULTS 79, SPEC PLY1: a throttled tab that draws once a second, and one that draws five times: the present, and no
/// speed but the server's.
#[test]
fn faults_79_a_throttled_tab_stays_in_the_present() {
    for frame_us in [200_000, SECOND] {
        let mut rig = Rig::new(Box::new(|_| Some(WAY)));
        rig.frame_us = frame_us;
        rig.run(60 * SECOND);
        for frame in rig.frames.iter().skip(3) {
            let behind_us = rig.server_us(frame.now_us) - WAY - frame.r_us.unwrap();
            assert!((49_000..=150_000).contains(&behind_us), "{frame_us} {behind_us}");
            assert_eq!(frame.mode, ClockMode::Playing);
        }
    }
}

/// FAULTS 89: a machine that slept three minutes while its clock stood still. The first snapshot after it says so.
#[test]
fn faults_89_a_clock_that_slept_is_noticed_by_what_arrives() {
    let mut rig = Rig::new(Box::new(|_| Some(WAY)));
    rig.run(10 * SECOND);
    // The local clock stands still, the server goes on, and what it sent meanwhile is lost.
    rig.lead_us += 180_000_000;
    rig.next_us += 180_000_000;
    let woke_us = rig.now_us;
    rig.run(10 * SECOND);
    let (anchored_us, _) = rig.turns.last().unwrap();
    assert_eq!(rig.playback.statistics().anchors, 2);
    assert!(anchored_us - woke_us < 250_000, "{}", anchored_us - woke_us);
    let behind_us = rig.behind_us(WAY);
    assert!((90_000..=110_000).contains(&behind_us), "{behind_us}");
}

/// FAULTS 90: a local clock that leaps an hour on or forty years back stops nothing for longer than it takes to see that.
#[test]
fn faults_90_a_local_clock_that_leaps_is_lived_with() {
    const YEARS: i64 = 40 * 365 * 86_400 * 1_000_000;
    for leap_us in [3_600_000_000, -3_600_000_000, YEARS, -YEARS] {
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.begin_stream(1, &schema());
        let start_us = 50 * 365 * 86_400 * SECOND;
        let mut waited = 0;
        let mut before = None;
        for frame in 0..1_200_u64 {
            let real_us = start_us + frame * 16_667;
            let local_us = if frame < 600 {
                real_us
            } else {
                real_us.saturating_add_signed(leap_us)
            };
            if frame % 3 == 0 {
                playback.take_snapshot(real_us, local_us);
            }
            playback.frame(local_us);
            waited += u32::from(playback.mode() != ClockMode::Playing);
            assert!(playback.r_us() >= before, "r never falls");
            before = playback.r_us();
        }
        // Half a second.
        assert!(waited < 30, "leap {leap_us}: {waited}");
        let behind_us = start_us + 1_199 * 16_667 - playback.r_us().unwrap();
        assert!((50_000..=160_000).contains(&behind_us), "{leap_us}: {behind_us}");
    }
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
