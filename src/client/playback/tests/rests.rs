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

/// SPEC ENT9: a third of the snapshots is lost, and in half of the others the waking comes without its motion. Once what came
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
            playback.take_snapshot(at_us, at_us + WAY);
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
