//! Outages, bursts, steps and restarts, each to the state the rules say (SPEC PLY3..PLY7).

use super::rig::{Dice, Rig, motion, record, schema};
use crate::client::playback::clock::{ClockMode, Transition, WaitReason};
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::Playback;

const WAY: u64 = 40_000;
const SECOND: u64 = 1_000_000;

/// A rig in calm play, with an outage of `outage_us` from second 10 on; what was sent meanwhile is lost, or comes in one burst.
fn outage(outage_us: u64, burst: bool) -> Rig {
    let (from, to) = (10 * SECOND, 10 * SECOND + outage_us);
    let mut rig = Rig::new(Box::new(move |sent| {
        let out = sent + WAY > from && sent + WAY < to;
        match (out, burst) {
            (false, _) => Some(WAY),
            (true, true) => Some(to - sent),
            (true, false) => None,
        }
    }));
    rig.run(150 * SECOND);
    rig
}

fn is_calm(rig: &Rig, from_us: u64) {
    assert!(
        rig.turns_since(from_us).is_empty(),
        "{:?}",
        rig.turns_since(from_us)
    );
    let behind_us = rig.behind_us(WAY);
    assert!((90_000..=110_000).contains(&behind_us), "{behind_us}");
    assert_eq!(rig.playback.delay_us(), (100_000, 100_000));
    let (least, most) = rig.speeds(from_us);
    assert!(least > 0.99 && most < 1.01, "{least} {most}");
    assert!(rig.playback.is_view_ready());
}

/// SPEC PLY4: 0.3 s and 0.6 s freeze at latest + E and resume from there; a second later nothing is invalid, two minutes later
/// nothing of it is left.
#[test]
fn ply4_short_outages_freeze_and_resume() {
    for (outage_us, burst) in [
        (300_000, false),
        (300_000, true),
        (600_000, false),
        (600_000, true),
    ] {
        let rig = outage(outage_us, burst);
        let turns = rig.turns_since(9 * SECOND);
        assert_eq!(turns, ["froze", "resumed"], "{outage_us} {burst}");
        let frozen = rig.frames.iter().filter(|frame| frame.mode == ClockMode::Frozen);
        let shown: Vec<_> = frozen.map(|frame| (frame.r_us, frame.drawn)).collect();
        assert!(
            shown.windows(2).all(|pair| pair[0] == pair[1]),
            "ENT5: frozen is frozen"
        );
        assert!(shown[0].1.unwrap().at.valid_at_r, "it froze within E_e");
        is_calm(&rig, 130 * SECOND);
    }
}

/// SPEC PLY3, PLY4: after a short freeze the picture is late by as much, and gains what the greatest rate allows until it is near
/// its target: 50 ms a second by default.
#[test]
fn ply3_a_freeze_is_caught_up_with_as_fast_as_the_rate_allows() {
    for (rate_max, gain_per_s) in [(1.05, 50_000), (1.25, 250_000)] {
        for outage_us in [300_000, 450_000, 600_000] {
            let to = 10 * SECOND + outage_us;
            let way = move |sent: u64| {
                Some(WAY + to.saturating_sub(sent + WAY) * u64::from(sent + WAY > 10 * SECOND))
            };
            let settings = PlaybackSettings {
                rate_max,
                ..PlaybackSettings::default()
            };
            let mut rig = Rig::with(settings, schema(), Box::new(way));
            rig.rate_max = rate_max;
            rig.run(to + 50_000);
            let late_us = u64::try_from(rig.behind_us(WAY) - 100_000).unwrap();
            assert!(late_us + 250_000 > outage_us, "{outage_us}: {late_us}");
            // To within 25 ms: beyond that the rate is at its bound, or as near as the gain of 2 a second brings it.
            let bound_us = late_us * SECOND / gain_per_s + SECOND;
            rig.run(bound_us);
            let behind_us = rig.behind_us(WAY);
            assert!(
                behind_us <= 125_000,
                "{rate_max} {outage_us}: {behind_us} after {bound_us}"
            );
            assert_eq!(rig.playback.statistics().anchors, 1);
        }
    }
}

/// SPEC PLY5: after R of Frozen it waits, and anchors on the newest but one at the latest; the generation says so.
#[test]
fn ply5_a_long_outage_waits_and_anchors() {
    for burst in [false, true] {
        let rig = outage(3_000_000, burst);
        assert_eq!(
            rig.turns_since(9 * SECOND),
            ["froze", "waits", "anchored"],
            "{burst}"
        );
        let at = |name| {
            rig.turns
                .iter()
                .find(|(at, turn)| *at > 9 * SECOND && name == &turn_name(turn))
        };
        let (froze, waits, anchored) = (
            at(&"froze").unwrap().0,
            at(&"waits").unwrap(),
            at(&"anchored").unwrap(),
        );
        assert_eq!(waits.1, Transition::Waits(WaitReason::FrozenTooLong));
        assert!(
            (500_000..=534_000).contains(&(waits.0 - froze)),
            "R after it froze"
        );
        assert!(anchored.0 - 13 * SECOND < 150_000, "{}", anchored.0);
        assert!(
            matches!(anchored.1, Transition::Anchored { generation: 3, .. }),
            "{anchored:?}"
        );
        is_calm(&rig, 130 * SECOND);
    }
}

fn turn_name(turn: &Transition) -> &'static str {
    match turn {
        Transition::Waits(_) => "waits",
        Transition::Anchored { .. } => "anchored",
        Transition::Froze { .. } => "froze",
        Transition::Resumed { .. } => "resumed",
    }
}

/// Requests are paused while it waits, and only then (SPEC PLY5, PLY8).
#[test]
fn ply8_requests_quote_r_and_pause_while_waiting() {
    let mut rig = Rig::new(Box::new(|sent| {
        (!(10 * SECOND..13 * SECOND).contains(&sent)).then_some(WAY)
    }));
    assert_eq!(
        rig.playback.seen(),
        None,
        "before the first anchor there is nothing to quote"
    );
    for _ in 0..900 {
        rig.run(rig.frame_us);
        let seen = rig.playback.seen();
        assert_eq!(seen.is_none(), rig.playback.mode() == ClockMode::Waiting);
        if let Some(seen) = seen {
            assert_eq!(Some(seen.r_us), rig.frames.last().unwrap().r_us);
            assert_eq!(seen.playback_generation, rig.playback.generation());
        }
    }
    assert_eq!(rig.playback.mode(), ClockMode::Playing);
}

/// A way that is 150 ms longer from one packet to the next, and back: no jump, and two minutes later D alone is between r and
/// what arrives.
#[test]
fn ply6_a_constant_step_of_the_way_leaves_no_delay_behind() {
    let mut rig = Rig::new(Box::new(|sent| {
        Some(if (10 * SECOND..150 * SECOND).contains(&sent) {
            WAY + 150_000
        } else {
            WAY
        })
    }));
    rig.run(140 * SECOND);
    assert_eq!(
        rig.turns_since(SECOND)
            .iter()
            .filter(|turn| **turn == "anchored")
            .count(),
        0
    );
    // The gap is 0.2 s; it freezes after 0.19 s and resumes with a margin of 0.1 s, four packets later.
    let frozen_us = rig.time_in(ClockMode::Frozen, 0);
    assert!(frozen_us <= 200_000, "{frozen_us}");
    let behind_us = rig.behind_us(WAY + 150_000);
    assert!((90_000..=110_000).contains(&behind_us), "{behind_us}");
    rig.run(140 * SECOND);
    assert!(!rig.turns_since(SECOND).contains(&"waits"));
    is_calm(&rig, 270 * SECOND);
}

/// A server's clock that is 200 ppm fast or slow, for half an hour of jitter: always playing, within a tenth of D.
#[test]
fn ply3_a_drift_of_200_ppm_is_followed() {
    for ppm in [200, -200] {
        let mut dice = Dice(7);
        let mut rig = Rig::new(Box::new(move |_| Some(WAY + dice.below(10_000))));
        rig.ppm = ppm;
        rig.run(1_800 * SECOND);
        assert_eq!(rig.turns_since(SECOND), Vec::<&str>::new());
        let delay_us = rig.playback.delay_us().0 as i64;
        let behind_us = rig.behind_us(WAY);
        assert!(
            (behind_us - delay_us).abs() < 11_000,
            "{ppm}: {behind_us} {delay_us}"
        );
    }
}

/// SPEC PLY7: a restarted server is a new timeline, whose times may be far below the old ones.
#[test]
fn ply7_a_restarted_server_is_playing_within_a_delay() {
    let mut rig = Rig::new(Box::new(|_| Some(WAY)));
    rig.run(20 * SECOND);
    let before = rig.playback.generation();
    rig.restart();
    assert_eq!(
        rig.playback.drawn().count(),
        0,
        "nothing of the old stream is drawn"
    );
    assert_eq!(rig.playback.seen(), None);
    let restarted_us = rig.now_us;
    rig.run(SECOND);
    let playing = rig
        .frames
        .iter()
        .find(|frame| frame.now_us > restarted_us && frame.mode == ClockMode::Playing);
    assert!(playing.unwrap().now_us - restarted_us < 150_000);
    assert!(rig.playback.generation() > before);
    rig.run(130 * SECOND);
    is_calm(&rig, rig.now_us - 20 * SECOND);
}

/// Twenty per cent of loss with jitter, for ten minutes: D is what PLY1 says, and nothing waits.
#[test]
fn ply1_loss_and_jitter_are_covered_by_the_delay() {
    let mut dice = Dice(11);
    let mut rig = Rig::new(Box::new(move |_| {
        let lost = dice.percent(5);
        let jitter_us = dice.below(40_000);
        (!lost).then_some(WAY + jitter_us)
    }));
    rig.run(600 * SECOND);
    assert!(!rig.turns_since(SECOND).contains(&"waits"));
    let playing = rig.time_in(ClockMode::Playing, SECOND);
    let share = playing as f64 / (599 * SECOND) as f64;
    assert!(share > 0.995, "{share}");
    let (delay_us, _) = rig.playback.delay_us();
    assert!((120_000..=220_000).contains(&delay_us), "{delay_us}");
}

/// THREATS 74: server times that rise, stand, fall and leap at random: r never falls within a stream, and with a new stream it
/// begins anew.
#[test]
fn threats_74_r_never_falls_whatever_server_times_do() {
    let mut dice = Dice(74);
    let mut rig = Rig::new(Box::new(|_| None));
    for _ in 0..200 {
        let mut before = None;
        for _ in 0..100 {
            rig.sleep(1 + dice.below(40_000));
            let server_us = match dice.below(10) {
                0 => dice.below(1 << 47),
                1 => 0,
                _ => 1_000_000 + dice.below(3_000_000),
            };
            rig.playback.take_snapshot(server_us, rig.now_us);
            rig.playback.frame(rig.now_us);
            assert!(rig.playback.r_us() >= before);
            before = rig.playback.r_us();
        }
        rig.restart();
        assert_eq!(rig.playback.r_us(), None);
    }
}

/// THREATS 75: no data for 0.1 s, 1 s and 10 s, then all of it at once: on return nothing runs fast and nothing goes back.
#[test]
fn threats_75_a_burst_after_silence_is_no_fast_forward() {
    for (silence_us, expected) in [
        (100_000, &[][..]),
        (1_000_000, &["froze", "waits", "anchored"][..]),
        (10_000_000, &["froze", "waits", "anchored"][..]),
    ] {
        // The rig's own checks hold 1.05 in every frame.
        let rig = outage(silence_us, true);
        assert_eq!(rig.turns_since(9 * SECOND), expected, "{silence_us}");
        is_calm(&rig, 130 * SECOND);
    }
}

/// THREATS 76: jitter of 0.2 s with 30% of loss: it does not flap between modes more than once a second.
#[test]
fn threats_76_jitter_and_loss_do_not_make_modes_flap() {
    let mut dice = Dice(76);
    let mut rig = Rig::new(Box::new(move |_| {
        let lost = dice.percent(30);
        let jitter_us = dice.below(200_000);
        (!lost).then_some(WAY + jitter_us)
    }));
    rig.run(300 * SECOND);
    let turns = rig.turns_since(60 * SECOND).len();
    assert!(turns < 240, "{turns} turns in 240 s");
}

/// THREATS 77: a client's clock that is 500 ppm off, and then an hour of sleep: one jump.
#[test]
fn threats_77_a_sleep_of_an_hour_is_one_jump() {
    for ppm in [500, -500] {
        let mut rig = Rig::new(Box::new(|sent| {
            (!(60 * SECOND..3_660 * SECOND).contains(&sent)).then_some(WAY)
        }));
        rig.ppm = ppm;
        rig.run(60 * SECOND);
        assert_eq!(rig.playback.statistics().anchors, 1);
        rig.sleep(3_600 * SECOND);
        rig.frame(3_600 * SECOND);
        rig.run(60 * SECOND);
        assert_eq!(rig.playback.statistics().anchors, 2, "{ppm}");
        assert_eq!(rig.playback.mode(), ClockMode::Playing);
    }
}

/// SPEC PLY1: 128 snapshots a second that come each 150 ms, or each 200 ms, nineteen and more at a time: D grows to what that
/// needs, and from then on the picture neither freezes nor has anything in it that is not true.
#[test]
fn ply1_bursts_of_many_do_not_freeze_the_picture() {
    for between_us in [150_000, 200_000] {
        let mut fast = schema();
        fast.tick_period_us = 7_812;
        let way = move |sent: u64| Some(WAY + between_us - sent % between_us);
        let mut rig = Rig::with(PlaybackSettings::default(), fast, Box::new(way));
        rig.run(90 * SECOND);
        let settled = 30 * SECOND;
        assert_eq!(rig.turns_since(settled), Vec::<&str>::new(), "{between_us}");
        let true_all = rig.frames.iter().filter(|frame| frame.now_us >= settled);
        assert!(true_all.clone().all(|frame| frame.drawn.unwrap().at.valid_at_r));
        let (least, most) = rig.speeds(settled);
        assert!(least > 0.94 && most < 1.06, "{between_us}: {least} {most}");
        let delay_us = rig.playback.delay_us().0;
        assert!(
            delay_us >= between_us && delay_us <= between_us + 25_000,
            "{delay_us}"
        );
    }
}

/// SPEC ENT1, PLY1: at 240 ticks a second and a delay at its ceiling every observation between r and the newest is there: what
/// goes to and fro from tick to tick is drawn so, also at the end of a freeze.
#[test]
fn ent1_a_fast_stream_keeps_all_that_its_delay_needs() {
    for period_us in [16_667, 4_167, 2_000] {
        let mut fast = schema();
        fast.tick_period_us = period_us as u32;
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.begin_stream(1, &fast);
        let x = |tick: u64| (tick % 2) as f64;
        let burst = 240_000 / period_us;
        let (mut tick, mut looked) = (0, 0);
        for frame in 0..4_000 {
            let now_us = frame * 10_000;
            // Bursts of 0.24 s, and at last nothing for 0.4 s.
            let pause = (39_000_000..39_400_000).contains(&now_us);
            while !pause && (tick / burst + 1) * burst * period_us + WAY <= now_us {
                let at_us = tick * period_us;
                playback.take_snapshot(at_us, now_us);
                let record = record(0, motion(at_us, x(tick), 0.0));
                match tick {
                    0 => playback.take_entered(0, &record, at_us),
                    _ => playback.take_record(0, &record),
                }
                tick += 1;
            }
            playback.frame(now_us);
            let (Some(r_us), Some(drawn)) = (playback.r_us(), playback.drawn().next()) else {
                continue;
            };
            if now_us > 30_000_000 && playback.mode() == ClockMode::Playing && r_us / period_us + 1 < tick {
                let (left, share) = (r_us / period_us, (r_us % period_us) as f64 / period_us as f64);
                let truth = x(left) + (x(left + 1) - x(left)) * share;
                let shown = drawn.at.pose.unwrap().position[0];
                assert!(
                    (shown - truth).abs() < 1e-6,
                    "{period_us} at {now_us}: {shown} {truth}"
                );
                looked += 1;
            }
        }
        let (delay_us, _) = playback.delay_us();
        assert!(delay_us > 230_000 && looked > 800, "{delay_us} {looked}");
    }
}
