//! Clocks of games, whatever they say: times of any size are lived with, and nothing overflows (FAULTS 90).

use super::rig::{Dice, motion, record, schema};
use crate::client::display::Absence;
use crate::client::playback::settings::{PlaybackSettings, PositionBlend};
use crate::client::playback::stage::Playback;
use crate::state::update::Event;

/// A time near `like`, or one that no clock should say.
fn any(dice: &mut Dice, like: u64) -> u64 {
    match dice.below(12) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - dice.below(5),
        3 => (1 << 63) - 1,
        4 => 1 << 63,
        5 => dice.next(),
        6 => like.saturating_add(dice.below(1 << 52)),
        _ => like.saturating_add(dice.below(200_000)).saturating_sub(100_000),
    }
}

fn sequence(seed: u64) {
    let mut dice = Dice(seed);
    let mut schema = schema();
    schema.tick_period_us = [1, 2_000, 50_000, 1_000_000, u32::MAX][dice.below(5) as usize];
    schema.on_change = dice.percent(50);
    if dice.percent(50) {
        (schema.velocity, schema.angular) = (None, None);
    }
    let settings = PlaybackSettings {
        blend: [PositionBlend::Linear, PositionBlend::Hermite][dice.below(2) as usize],
        reanchor_us: [500_000, u64::MAX][usize::from(dice.percent(10))],
        delay_max_us: [250_000, u64::MAX][usize::from(dice.percent(10))],
        ..PlaybackSettings::default()
    };
    let mut playback = Playback::new(settings);
    playback.begin_stream(1, &schema);
    let (mut now_us, mut server_us) = (any(&mut dice, 0), any(&mut dice, 5_000_000));
    let mut before = None;
    for _ in 0..200 {
        now_us = match dice.percent(5) {
            true => any(&mut dice, now_us),
            false => now_us.saturating_add(dice.below(30_000)),
        };
        server_us = server_us.saturating_add(dice.below(60_000));
        let at_us = match dice.percent(10) {
            true => any(&mut dice, server_us),
            false => server_us,
        };
        let slot = dice.below(4) as u16;
        let mut record = record(u32::from(slot), motion(at_us, dice.below(100) as f64, 1.0));
        record.born_us = any(&mut dice, at_us);
        (record.segment, record.segment_us) = (dice.below(12) as u32, any(&mut dice, at_us));
        record.tier = dice.below(256) as u8;
        record.motion.as_mut().unwrap().at_rest = dice.percent(40);
        match dice.below(9) {
            0..=3 => playback.take_part(at_us, dice.percent(70), now_us),
            4 => playback.take_entered(slot, &record, at_us),
            5 => playback.take_record(slot, &record),
            6 => playback.take_awake(slot, record.entity, at_us),
            7 => {
                let absence = Absence::Destroyed {
                    at_us: any(&mut dice, at_us),
                    reason: 0,
                };
                playback.take_removed(slot, record.entity, absence, at_us);
            }
            _ => {
                let event = Event {
                    kind: 0,
                    critical: true,
                    entity: None,
                    at_us: any(&mut dice, at_us),
                    payload: Vec::new(),
                };
                let _ = playback.hold(event);
            }
        }
        playback.frame(now_us);
        let r_us = playback.r_us();
        assert!(r_us >= before, "{seed}: r fell from {before:?} to {r_us:?}");
        before = r_us;
        while let Some(due) = playback.poll_due() {
            assert!(Some(due.event.at_us) <= r_us, "{seed}");
        }
        for drawn in playback.drawn() {
            let pose = drawn.at.pose.map(|pose| pose.position);
            assert!(
                pose.is_none_or(|at| at.iter().all(|metres| metres.is_finite())),
                "{seed}"
            );
        }
        let r_us = any(&mut dice, server_us);
        let _ = (
            playback.sample(slot, record.entity, r_us),
            playback.seen(),
            playback.delay_us(),
        );
    }
}

/// FAULTS 90: clocks that leap by centuries, either way, again and again, and servers whose times are of any size.
#[test]
fn faults_90_times_of_any_size_overflow_nothing() {
    for seed in 0..4_000 {
        let outcome = std::panic::catch_unwind(|| sequence(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
