//! Rests that end, on ways that lose what ends them (SPEC ENT9): what is called a rest was one.

use super::rig::{Dice, motion, record, schema};
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::Playback;
use crate::state::record::Record;

const T: u64 = 50_000;
const WAY: u64 = 40_000;
const TICKS: u64 = 400;

/// The records of a world of one: it rests and moves, some ticks each.
fn world(dice: &mut Dice) -> Vec<Record> {
    let (mut left, mut rests, mut x) = (0, false, 0.0);
    let mut records: Vec<Record> = Vec::new();
    for tick in 0..TICKS {
        if left == 0 {
            (left, rests) = (1 + dice.below(12), !rests);
        }
        left -= 1;
        let before = records.last().filter(|_| rests);
        let still = before.filter(|before| before.motion.unwrap().at_rest).copied();
        records.push(still.unwrap_or_else(|| {
            x += 0.5;
            let mut motion = motion(tick * T, x, if rests { 0.0 } else { 10.0 });
            motion.at_rest = rests;
            record(0, motion)
        }));
    }
    records
}

/// What the world was like at a time, if that was a rest.
fn rest_at(records: &[Record], us: u64) -> Option<Record> {
    let tick = usize::try_from(us / T).unwrap();
    let record = records
        .get(tick)
        .filter(|record| record.motion.unwrap().at_rest)?;
    let goes_on = us.is_multiple_of(T) || records.get(tick + 1) == Some(record);
    goes_on.then_some(*record)
}

/// SPEC ENT9: a third of the snapshots is lost, of some the part with this entity alone, and in half of the others the waking comes without its motion. Once what came
/// after a time is known, nothing is called a rest at that time which the origin did not have there, at any r.
#[test]
fn ent9_nothing_is_called_a_rest_that_was_none() {
    let mut rests = 0_u64;
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let records = world(&mut dice);
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.begin_stream(1, &schema());
        let mut held: Option<Record> = None;
        for (tick, record) in (0..).zip(&records) {
            let (at_us, entity) = (tick * T, record.entity);
            if tick > 2 && dice.percent(33) {
                continue;
            }
            let torn = tick > 2 && dice.percent(20);
            playback.take_part(at_us, !torn, at_us + WAY);
            if torn {
                playback.frame(at_us + WAY);
                continue;
            }
            let is_rest = |record: &Record| record.motion.unwrap().at_rest;
            match &held {
                None => playback.take_entered(0, record, at_us),
                Some(held) if held == record => {}
                Some(held) if is_rest(held) && !is_rest(record) && dice.percent(50) => {
                    playback.take_awake(0, entity, at_us);
                    playback.frame(at_us + WAY);
                    continue;
                }
                Some(_) => playback.take_record(0, record),
            }
            held = Some(*record);
            playback.frame(at_us + WAY);
            // What lies before this observation is known for good.
            let known_us = record.motion.unwrap().observed_us;
            let from_us = playback.r_us().unwrap_or(0);
            for r_us in (from_us..known_us).step_by(10_000) {
                let Some(shown) = playback.sample(0, entity, r_us) else {
                    continue;
                };
                if shown.mode == PoseMode::Resting {
                    assert!(shown.valid_at_r);
                    let truth = rest_at(&records, r_us);
                    let truth = truth.unwrap_or_else(|| panic!("{seed} {tick} {r_us}: {shown:?}"));
                    let measure = crate::client::playback::measure::Measure::new(&schema());
                    assert_eq!(shown.pose, truth.motion.map(|motion| measure.pose(&motion)));
                    rests += 1;
                }
            }
        }
    }
    assert!(rests > 1_000, "{rests}");
}

/// SPEC DEC2, ENT9: without velocities a rest that is known to be over is good until it was, and not the least while longer.
#[test]
fn dec2_a_rest_that_ended_is_not_drawn_on_without_velocities() {
    let mut plain = schema();
    (plain.velocity, plain.angular) = (None, None);
    for (plain, allowed) in [(plain, false), (schema(), true)] {
        let mut rest = record(0, motion(0, 1.0, 0.0));
        rest.motion.as_mut().unwrap().at_rest = true;
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.begin_stream(1, &plain);
        for tick in 0..20 {
            playback.take_snapshot(tick * T, tick * T + WAY);
            if tick == 0 {
                playback.take_entered(0, &rest, 0);
            }
        }
        playback.take_awake(0, rest.entity, 20 * T);
        playback.take_snapshot(20 * T, 20 * T + WAY);
        playback.frame(20 * T + WAY);
        let mode = |r_us| {
            playback
                .sample(0, rest.entity, r_us)
                .map(|shown| (shown.mode, shown.valid_at_r))
        };
        assert_eq!(mode(19 * T), Some((PoseMode::Resting, true)));
        let after = mode(19 * T + 20_000).unwrap();
        assert_eq!(after.1, allowed, "{after:?}");
    }
}

/// What is drawn of a rest at each r, the last one at which it is valid: whole snapshots until `whole`, torn ones after, of which
/// those at `named` have its record.
fn valid_until(named: &[u64], whole: u64, woke: Option<u64>) -> u64 {
    let mut rest = record(0, motion(0, 1.0, 0.0));
    rest.motion.as_mut().unwrap().at_rest = true;
    let mut playback = Playback::new(PlaybackSettings::default());
    playback.begin_stream(1, &schema());
    let mut until_us = 0;
    for tick in 0..80 {
        playback.take_part(tick * T, tick <= whole, tick * T + WAY);
        if tick == 0 {
            playback.take_entered(0, &rest, 0);
        } else if named.contains(&tick) {
            playback.take_vouched(0, &rest, tick * T);
        } else if woke == Some(tick) {
            playback.take_awake(0, rest.entity, tick * T);
        }
        for frame in 0..3 {
            playback.frame(tick * T + WAY + frame * 16_667);
            let drawn = playback.drawn().next().filter(|drawn| drawn.at.valid_at_r);
            until_us = drawn.map_or(until_us, |_| playback.r_us().unwrap());
        }
    }
    until_us
}

/// SPEC ENT9: what a torn snapshot does not name may have woken in the part that is missing: a rest lasts to the last whole one and
/// E_e more, or to the last whose own record says so.
#[test]
fn ent9_a_torn_snapshot_vouches_for_what_it_names_alone() {
    for (named, whole, woke, expected) in [
        (&[][..], 80, None, 79 * T),
        (&[], 40, None, 40 * T + 100_000),
        (&[50], 40, None, 50 * T + 100_000),
        (&[50, 79], 40, None, 79 * T),
        (&[30], 40, None, 40 * T + 100_000),
        (&[], 40, Some(50), 40 * T + 100_000),
        (&[45], 40, Some(50), 45 * T + 100_000),
    ] {
        let until_us = valid_until(named, whole, woke);
        // It is drawn in steps of a frame, D behind the newest.
        let least_us = expected.min(79 * T - 110_000) - 20_000;
        assert!(
            (least_us..=expected).contains(&until_us),
            "{named:?} {whole} {woke:?}: {until_us} {expected}"
        );
    }
}
