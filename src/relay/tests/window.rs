//! Clients that lie, storm or fall silent, and long round trips, at the relay's half of the window (THREATS III; FAULTS
//! 05, 08, 38, 39, 45).

use std::collections::VecDeque;

use super::peer::{Batch, Peer, Rig, path};
use crate::limits::{
    COMMIT_SPACING_US, DATAGRAM_MAX, IDLE_US, LEASE_US, RESTART_SPACING_US, SILENT_US, UNCONFIRMED_US,
    WINDOW_SLOTS,
};
use crate::relay::budget::Budget;
use crate::relay::counters::{DatagramRefusal, Withheld};
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::wire::payload;
use crate::wire::report::{RefuseReason, Report};

/// FAULTS 05, THREATS 58: after an origin's restart no part names a base of the old stream, though the client goes on
/// reporting old ones for a second; deltas begin with the first report of the new stream.
#[test]
fn faults_05_no_base_of_the_old_stream_is_named() {
    for first in [1, u32::MAX - 30] {
        let mut rig = Rig::new(40, Tick(first));
        let mut peer = Peer::join(&mut rig, 4_000);
        peer.follow(&mut rig, 30, 40);
        let old = peer.report();
        assert!(!old.held.as_slice().is_empty());
        let stale = rig.shard.counters().reports_stale;
        let turned = rig.tick;
        let sent = rig.restart_origin(40);
        peer.take_all(&sent);
        peer.takes = |_| false;
        for _ in 0..20 {
            // It knows the stream, and says the old window.
            let datagram = peer.say(&Report {
                stream_epoch: 2,
                ..old.clone()
            });
            rig.hear(peer.path, &datagram);
            let sent = rig.turn_moving(40);
            peer.take_all(&sent);
        }
        let new = peer.headers.iter().filter(|header| header.stream_epoch == 2);
        assert!(new.clone().count() > 3);
        assert!(
            new.clone()
                .all(|header| header.base.is_none() && header.commit.is_none())
        );
        assert!(rig.shard.counters().reports_stale >= stale + 20);
        peer.takes = |header| header.stream_epoch == 2;
        peer.follow(&mut rig, 10, 40);
        let last = peer.headers.last().unwrap();
        assert!(
            last.base.is_some_and(|base| base.is_after(turned)),
            "from {first}"
        );
    }
}

/// FAULTS 08: round trips up to 900 ms at the top rate, with and without loss: after joining no full state is sent
/// again, bytes stay within the budget, the window advances, and it recovers when the round trip falls.
#[test]
fn faults_08_a_long_round_trip_is_no_reason_for_full_state() {
    for (round_trip_us, loss) in [
        (50_000, 0),
        (200_000, 0),
        (450_000, 5),
        (900_000, 0),
        (900_000, 5),
    ] {
        let mut rig = Rig::new(300, Tick(1));
        rig.period_us = 16_667;
        let mut peer = Peer::join(&mut rig, 4_000);
        let (mut down, mut up) = (VecDeque::new(), VecDeque::new());
        let mut dice = 12_345u64;
        let mut chance = |percent: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            dice >> 33 & 0x7F < percent * 128 / 100
        };
        let mut full_after_join = 0;
        let mut half = round_trip_us / 2;
        for step in 0..1_800u32 {
            if step == 1_500 {
                half = 10_000;
            }
            let report = peer.report();
            let datagram = peer.say(&report);
            if !chance(loss) {
                up.push_back((rig.now_us + half, datagram));
            }
            while up.front().is_some_and(|(at, _)| *at <= rig.now_us) {
                let (_, datagram) = up.pop_front().unwrap();
                rig.hear(peer.path, &datagram);
            }
            for (to, bytes) in rig.turn_moving(300) {
                assert_eq!(to, path(4_000));
                if !chance(loss) {
                    down.push_back((rig.now_us + half, bytes));
                }
            }
            while down.front().is_some_and(|(at, _)| *at <= rig.now_us) {
                let (_, mut bytes) = down.pop_front().unwrap();
                peer.take(&mut bytes);
                let joined = peer
                    .headers
                    .iter()
                    .rev()
                    .take(50)
                    .any(|header| header.view_complete);
                if step > 400 && joined && peer.headers.last().is_some_and(|header| header.base.is_none()) {
                    full_after_join += 1;
                }
            }
        }
        let what = format!("{round_trip_us} us, {loss}%");
        let counters = rig.shard.counters();
        assert_eq!(full_after_join, 0, "{what}");
        assert_eq!(counters.fallbacks.iter().sum::<u64>(), 0, "{what}");
        let seconds = 1_800 * rig.period_us / 1_000_000;
        let budget = Budget::default();
        assert!(
            counters.bytes_sent <= budget.bytes_per_s * (seconds + 1) + budget.burst_bytes,
            "{what}"
        );
        assert!(
            counters.advances_confirmed > 5,
            "{what}: {}",
            counters.advances_confirmed
        );
        let age = peer
            .headers
            .last()
            .and_then(|header| header.base?.age_at(header.id));
        assert!(age.is_some_and(|age| age <= 8), "{what}: it recovers: {age:?}");
    }
}

/// FAULTS 38, THREATS 57: a client that asks for full state two hundred times a second, or says it refuses for any other
/// reason, gets one session epoch in two seconds and no more bytes than its budget; who sits beside it misses nothing.
#[test]
fn faults_38_full_state_on_demand_is_paced() {
    for reason in RefuseReason::ALL {
        let mut rig = Rig::new(500, Tick(1));
        let mut neighbour = Peer::join(&mut rig, 4_001);
        neighbour.follow(&mut rig, 20, 50);
        let mut storm = Peer::join(&mut rig, 4_000);
        storm.follow(&mut rig, 20, 50);
        let (begun, before) = (rig.now_us, storm.bytes);
        let epoch = storm.headers.last().unwrap().session_epoch;
        for _ in 0..200 {
            for _ in 0..10 {
                let report = Report {
                    refuse: Some(reason),
                    ..storm.report()
                };
                let datagram = storm.say(&report);
                rig.hear(storm.path, &datagram);
                rig.now_us += 5_000;
            }
            rig.now_us -= rig.period_us;
            neighbour.speak(&mut rig);
            let sent = rig.turn_moving(50);
            let count = neighbour.headers.len();
            neighbour.take_all(&sent);
            assert_eq!(neighbour.headers.len(), count + 1, "{reason:?}");
            assert!(neighbour.headers.last().unwrap().base.is_some());
            storm.take_all(&sent);
        }
        let elapsed = rig.now_us - begun;
        let epochs = u64::from(storm.headers.last().unwrap().session_epoch - epoch);
        assert!(
            epochs >= 3 && epochs <= elapsed / RESTART_SPACING_US + 1,
            "{reason:?}: {epochs}"
        );
        let allowed = Budget::default().bytes_per_s * elapsed / 1_000_000 + Budget::default().burst_bytes;
        assert!((storm.bytes - before) as u64 <= allowed, "{reason:?}");
        let full = rig.shard.counters().full_snapshots;
        assert!(full < 40, "{reason:?}: {full} full snapshots");
    }
}

/// FAULTS 38: a client that always reports something too old costs its budget of full state and not a byte more.
#[test]
fn faults_38_reports_that_are_always_too_old_cost_a_budget() {
    let budget = Budget {
        bytes_per_s: 50_000,
        burst_bytes: 20_000,
    };
    let mut rig = Rig::with(1_000, Tick(1), |settings| settings.budget = budget);
    let mut peer = Peer::join(&mut rig, 4_000);
    let old = Report {
        stream_epoch: 1,
        ..Report::default()
    };
    let begun = rig.now_us;
    for _ in 0..400 {
        let datagram = peer.say(&old);
        assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
        let sent = rig.turn_moving(1_000);
        peer.take_all(&sent);
    }
    let elapsed = rig.now_us - begun;
    let allowed = budget.bytes_per_s * elapsed / 1_000_000 + budget.burst_bytes;
    // A snapshot's last datagram may pass the budget by its length; the next waits for it.
    assert!(
        peer.bytes as u64 <= allowed + DATAGRAM_MAX as u64,
        "{} of {allowed}",
        peer.bytes
    );
    assert!(rig.session(peer.connection).window.in_use() <= WINDOW_SLOTS);
}

/// FAULTS 39, THREATS 62, 71: an app that sleeps keeps alive for ten minutes and reports nothing, with lives and events
/// going on: bounded memory, a bounded queue, and when it wakes it is whole within one session epoch.
#[test]
fn faults_39_an_app_that_only_keeps_alive_pins_a_bound() {
    let mut rig = Rig::new(200, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 20, 200);
    let takes = peer.takes;
    peer.takes = |_| false;
    let mut most = 0;
    for step in 0..12_000u32 {
        let datagram = peer.up(vec![0]);
        assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
        let mut update = crate::relay::arena::tests::moved(rig.server_us + rig.period_us, 0..20, step);
        update.events = vec![crate::state::update::Event {
            kind: 1,
            critical: false,
            entity: None,
            at_us: 0,
            payload: vec![0; 100],
        }];
        peer.take_all(&rig.turn(|_| update));
        let session = rig.session(peer.connection);
        assert!(session.window.in_use() <= WINDOW_SLOTS && session.stream.backlog() <= 64);
        let (tables, rest) = session.heap_bytes();
        most = most.max(tables + rest);
        peer.headers.clear();
    }
    assert!(most < 32 << 10, "{most} bytes");
    assert!(rig.shard.counters().messages_dropped > 10_000);
    peer.takes = takes;
    let epoch = rig.session(peer.connection).window.session_epoch();
    peer.follow(&mut rig, 60, 20);
    assert!(peer.headers.last().unwrap().view_complete);
    assert!(rig.session(peer.connection).window.session_epoch() <= epoch + 1);
}

/// FAULTS 45: hundreds join in one tick beside ten who play: those miss no tick, though all share batches of 64, and
/// every newcomer's view is complete in time.
#[test]
fn faults_45_a_crowd_that_joins_disturbs_nobody() {
    let mut rig = Rig::new(1_000, Tick(1));
    let mut peers: Vec<Peer> = (0..10).map(|port| Peer::join(&mut rig, 5_000 + port)).collect();
    let tick = |rig: &mut Rig, peers: &mut Vec<Peer>| {
        for peer in peers.iter_mut() {
            peer.speak(rig);
        }
        rig.now_us += rig.period_us;
        rig.server_us += rig.period_us;
        rig.tick = rig.tick.next();
        let update = crate::relay::arena::tests::moved(rig.server_us, 0..50, rig.tick.0 % 1_000);
        let frame = rig.world.advance(rig.tick, &update).unwrap();
        rig.shard.publish(frame, &[]);
        loop {
            let mut batch = Batch::default();
            let more = rig.shard.transmit(rig.now_us, &mut batch);
            for (to, mut bytes) in batch.sent {
                peers[usize::from(to.remote.port() - 5_000)].take(&mut bytes);
            }
            if !more {
                break;
            }
        }
    };
    for _ in 0..20 {
        tick(&mut rig, &mut peers);
    }
    peers.extend(
        (10..310)
            .map(|port| Peer::join(&mut rig, 5_000 + port))
            .collect::<Vec<_>>(),
    );
    for step in 0..30 {
        let before: Vec<usize> = peers[..10].iter().map(|peer| peer.headers.len()).collect();
        tick(&mut rig, &mut peers);
        for (peer, before) in peers.iter().zip(before) {
            assert_eq!(peer.headers.len(), before + 1, "step {step}");
            assert!(peer.headers.last().unwrap().base.is_some());
        }
    }
    let complete = |peer: &Peer| peer.headers.last().is_some_and(|header| header.view_complete);
    assert_eq!(peers.iter().filter(|peer| complete(peer)).count(), 310);
    assert_eq!(rig.shard.counters().withheld[5], 0, "no frame was passed over");
}

/// THREATS 47: reports of 33 held, and of counts that run past their bytes: refused whole, nothing moved, the thousandth
/// like the first.
#[test]
fn threats_47_an_overfull_report_is_refused_whole() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 20, 10);
    let window = format!("{:?}", rig.session(peer.connection).window);
    let heard = rig.session(peer.connection).heard_us;
    for count in [33u8, 64, 255] {
        for _ in 0..400 {
            let mut payload = vec![payload::REPORT];
            let empty = Report {
                held: Default::default(),
                ask: false,
                ..peer.report()
            };
            empty.encode(&mut payload);
            *payload.last_mut().unwrap() = count;
            for _ in 0..count {
                payload.extend([1, 1]);
            }
            let datagram = peer.up(payload);
            rig.now_us += 100;
            assert_eq!(
                rig.hear(peer.path, &datagram).0,
                Receipt::Refused(DatagramRefusal::Malformed)
            );
        }
    }
    let session = rig.session(peer.connection);
    assert_eq!(
        (format!("{:?}", session.window), session.heard_us),
        (window, heard)
    );
    assert!(rig.shard.counters().datagrams_refused[DatagramRefusal::Malformed as usize] >= 1_200);
    peer.follow(&mut rig, 5, 10);
}

/// THREATS 54, WINDOW-MODEL A22: a client that asks in every packet gets one advance in a round trip and 100 ms.
#[test]
fn threats_54_asking_always_advances_at_a_pace() {
    let mut rig = Rig::new(10, Tick(1));
    rig.period_us = 16_667;
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 10, 10);
    let (begun, before) = (rig.now_us, rig.shard.counters().advances_committed);
    for _ in 0..600 {
        for _ in 0..4 {
            let report = Report {
                ask: true,
                ..peer.report()
            };
            let datagram = peer.say(&report);
            rig.hear(peer.path, &datagram);
        }
        let sent = rig.turn_moving(10);
        peer.take_all(&sent);
    }
    let advances = rig.shard.counters().advances_committed - before;
    let most = (rig.now_us - begun) / COMMIT_SPACING_US + 1;
    assert!(advances > 20 && advances <= most, "{advances} of {most}");
}

/// THREATS 62, SPEC DEC8: a client that never answers its Welcome is let go in six seconds, one that answered and fell
/// silent is only probed, and closed in thirty; both cost a bounded number of bytes.
#[test]
fn threats_62_the_silent_are_probed_and_let_go() {
    let mut rig = Rig::new(1_000, Tick(1));
    let mut mute = Peer::join(&mut rig, 4_000);
    let mut silent = Peer::join(&mut rig, 4_001);
    silent.follow(&mut rig, 20, 100);
    let heard = rig.session(silent.connection).heard_us;
    assert!(
        mute.bytes < 80 << 10,
        "{} bytes to who proved only its address",
        mute.bytes
    );
    let mut ended = None;
    while rig.has(silent.connection) {
        let before = (rig.now_us, silent.bytes);
        let sent = rig.turn_moving(100);
        mute.take_all(&sent);
        silent.take_all(&sent);
        if rig.now_us > heard + SILENT_US + 1_000_000 {
            assert!(silent.bytes - before.1 < 100, "probes alone");
        }
        if ended.is_none() && !rig.has(mute.connection) {
            ended = Some(rig.now_us);
        }
        assert!(rig.now_us < heard + IDLE_US + 1_000_000);
    }
    assert!(
        ended.is_some_and(|at| at < 1_000_000 + UNCONFIRMED_US + 500_000),
        "{ended:?}"
    );
    assert!(rig.now_us > heard + IDLE_US && rig.shard.open() == 0);
    const { assert!(LEASE_US > SILENT_US) }
}

/// SPEC WIN5, WIN8: to a client that holds 32 and does not ask no candidate is sent: it is sent snapshots all the same.
#[test]
fn win5_nothing_sent_to_a_full_window_is_a_candidate() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    let mut turns = |count: usize| {
        peer.headers.clear();
        for _ in 0..count {
            let report = Report {
                ask: false,
                ..peer.report()
            };
            let datagram = peer.say(&report);
            rig.hear(peer.path, &datagram);
            peer.take_all(&rig.turn_moving(10));
        }
        let held = rig.session(peer.connection).window.held().len();
        (held, peer.headers.clone())
    };
    let (held, headers) = turns(WINDOW_SLOTS);
    assert_eq!(held, WINDOW_SLOTS - 1);
    assert!(headers.iter().all(|header| header.candidate));
    let (held, headers) = turns(10);
    assert_eq!((held, headers.len()), (WINDOW_SLOTS, 10));
    assert!(headers.iter().all(|header| !header.candidate));
}

/// SPEC WIN11, FAULTS 38: a refusal that had to wait for its session epoch and is not said any more brings none.
#[test]
fn win11_a_refusal_that_is_taken_back_brings_no_session_epoch() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 20, 10);
    let refuse = |rig: &mut Rig, peer: &mut Peer| {
        let report = Report {
            refuse: Some(RefuseReason::Requested),
            ..peer.report()
        };
        let datagram = peer.say(&report);
        rig.hear(peer.path, &datagram);
        peer.take_all(&rig.turn_moving(10));
    };
    refuse(&mut rig, &mut peer);
    let epoch = peer.session_epoch;
    assert_eq!(epoch, peer.headers[0].session_epoch + 1);
    refuse(&mut rig, &mut peer);
    assert_eq!(rig.shard.counters().withheld[Withheld::RestartPacing as usize], 1);
    peer.headers.clear();
    let ticks = 2 * RESTART_SPACING_US / rig.period_us;
    peer.follow(&mut rig, u32::try_from(ticks).unwrap(), 10);
    assert_eq!(peer.headers.len() as u64, ticks);
    assert!(peer.headers.iter().all(|header| header.session_epoch == epoch));
}
