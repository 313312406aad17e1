//! Faults of others' clocks and delays: FAULTS 31 to 33, 62, 68 to 74, 79, 89 and 90.

use super::rig::{Dice, Rig, schema, truth};
use crate::client::playback::clock::ClockMode;
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::Playback;

const WAY: u64 = 40_000;
const SECOND: u64 = 1_000_000;
const T: u64 = 50_000;

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

/// FAULTS 71, SPEC PLY5: a stream that slows to one snapshot a second, or fewer, has an anchor after three of them, and plays on
/// from there without another.
#[test]
fn faults_71_a_stream_that_slows_is_shown_after_three_snapshots() {
    for period_us in [1_000_000, 700_000, 2_500_000] {
        let mut rig = Rig::new(Box::new(|_| Some(WAY)));
        rig.run(10 * SECOND);
        rig.period_us = period_us;
        rig.run(4 * period_us);
        assert_eq!(rig.frames.last().unwrap().mode, ClockMode::Playing, "{period_us}");
        let settled_us = rig.now_us;
        rig.run(120 * SECOND);
        assert!(!rig.turns_since(settled_us).contains(&"waits"), "{period_us}");
        assert_eq!(rig.time_in(ClockMode::Frozen, settled_us), 0, "{period_us}");
        assert_eq!(rig.playback.period_us(), period_us);
    }
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

/// SPEC ENT7: who is not known yet may stand in the way.
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
