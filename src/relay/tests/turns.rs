//! Whose turn it is, and what a turn may cost: nobody takes another's (SPEC OPS1, FAULTS 08).

use std::collections::{BTreeMap, VecDeque};

use super::peer::{Batch, Peer, Rig};
use crate::limits::WINDOW_SLOTS;
use crate::relay::counters::Withheld;
use crate::sequence::Tick;
use crate::wire::payload::{self, clock_stamp};
use crate::wire::report::Report;
use crate::wire::snapshot::SnapshotHeader;

/// SPEC OPS1: a client that leaves and comes back between two batches of every tick takes nobody's turn.
#[test]
fn ops1_who_leaves_and_joins_takes_nobodys_turn() {
    const TICKS: u32 = 100;
    let mut rig = Rig::new(20, Tick(1));
    let mut victims: Vec<Peer> = (0..50).map(|port| Peer::join(&mut rig, 5_000 + port)).collect();
    let mut hopper = Peer::join(&mut rig, 9_000);
    victims.extend((50..60).map(|port| Peer::join(&mut rig, 5_000 + port)));
    let mut served: BTreeMap<u16, u32> = BTreeMap::new();
    for step in 0..2 * TICKS {
        victims.iter_mut().for_each(|victim| victim.speak(&mut rig));
        let bye = hopper.up(vec![payload::CLOSE, 1]);
        rig.hear(hopper.path, &bye);
        rig.now_us += rig.period_us;
        rig.publish_moving(20);
        let mut back = false;
        loop {
            let mut batch = Batch::default();
            let left = rig.shard.transmit(rig.now_us, &mut batch);
            for victim in &mut victims {
                let before = victim.headers.len();
                victim.take_all(&batch.sent);
                let got = u32::from(victim.headers.len() > before && step >= TICKS);
                *served.entry(victim.path.remote.port()).or_default() += got;
            }
            if !left {
                break;
            }
            // Between two batches what has arrived is taken.
            if !core::mem::replace(&mut back, true) {
                let mut nonce = [7; 16];
                nonce[..4].copy_from_slice(&step.to_le_bytes());
                hopper = Peer::join_with(&mut rig, 9_000, nonce);
            }
        }
        assert!(back, "all of it fits one batch, and this shows nothing");
    }
    assert!(served.values().all(|count| *count == TICKS), "{served:?}");
}

/// FAULTS 08, SPEC WIN11: a round trip longer than 32 candidates at full rate is no reason for full state, whether the
/// client measures it or not: what is under way keeps its place until it can be reported. (An advance takes two round trips
/// of its base's lease: beyond half a lease there is no way but full state, see docs/DECISIONS.md.)
#[test]
fn faults_08_a_round_trip_of_seconds_has_baselines() {
    for round_trip_us in [1_300_000u64, 1_700_000, 1_850_000] {
        let mut rig = Rig::new(300, Tick(1));
        let mut peer = Peer::join(&mut rig, 4_000);
        let (mut down, mut up) = (VecDeque::new(), VecDeque::new());
        let (mut full, mut all) = (0, 0);
        for step in 0..600u32 {
            let report = peer.report();
            let said = peer.say(&report);
            up.push_back((rig.now_us + round_trip_us / 2, said));
            while let Some((_, datagram)) = up.pop_front_if(|(at_us, _)| *at_us <= rig.now_us) {
                rig.hear(peer.path, &datagram);
            }
            for (_, bytes) in rig.turn_moving(30) {
                down.push_back((rig.now_us + round_trip_us / 2, bytes));
            }
            while let Some((_, mut datagram)) = down.pop_front_if(|(at_us, _)| *at_us <= rig.now_us) {
                let before = peer.headers.len();
                peer.take(&mut datagram);
                if step > 300 && peer.headers.len() > before {
                    all += 1;
                    full += u32::from(peer.headers.last().unwrap().base.is_none());
                }
            }
        }
        assert!(
            all > 200 && full == 0,
            "{round_trip_us} us: {full} of {all} are full states"
        );
        let counters = rig.shard.counters();
        assert_eq!(
            counters.fallbacks.iter().sum::<u64>(),
            0,
            "{round_trip_us} us: {:?}",
            counters.fallbacks
        );
    }
}

/// SPEC OPS1: whatever withholds a snapshot does so before it is planned: a client that takes one part of each costs its
/// shard no bodies that are not sent.
#[test]
fn ops1_what_is_withheld_is_not_planned() {
    let mut rig = Rig::new(3_000, Tick(1));
    rig.period_us = 16_667;
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.takes = |header| header.part == 0;
    for _ in 0..120 {
        let report = Report {
            ask: false,
            ..peer.report()
        };
        let datagram = peer.say(&report);
        rig.hear(peer.path, &datagram);
        let sent = rig.turn_moving(50);
        peer.take_all(&sent);
    }
    let counters = rig.shard.counters();
    let withheld =
        counters.withheld[Withheld::JoinPacing as usize] + counters.withheld[Withheld::Budget as usize];
    assert!(withheld > 30, "{:?}", counters.withheld);
    assert!(counters.body_builds <= counters.snapshots_sent, "{counters:?}");
    assert!(rig.session(peer.connection).window.in_use() <= WINDOW_SLOTS);
}

/// SPEC TAB7: while a client joins, the next snapshot stands on what it has most of, not on what came last.
#[test]
fn tab7_a_join_goes_on_from_the_most_complete_table() {
    let mut rig = Rig::new(500, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    let turn = |rig: &mut Rig, peer: &mut Peer, takes: fn(&SnapshotHeader) -> bool| {
        peer.takes = takes;
        let sent = rig.turn_moving(0);
        peer.take_all(&sent);
        *peer.headers.last().expect("a snapshot")
    };
    peer.speak(&mut rig);
    turn(&mut rig, &mut peer, |_| false);
    let most = turn(&mut rig, &mut peer, |header| header.part > 0);
    let last = turn(&mut rig, &mut peer, |header| header.part == 0);
    assert!(
        most.base.is_none() && last.base.is_none() && most.part > 3,
        "{most:?} {last:?}"
    );
    peer.speak(&mut rig);
    let next = turn(&mut rig, &mut peer, |_| true);
    assert_eq!(next.base, Some(most.id), "the newest is {}", last.id);
}

/// SPEC WIN8: on a long way candidates are spaced so that half the places are enough for those under way.
#[test]
fn win8_candidates_under_way_take_half_the_places() {
    let candidates = |round_trip_us: u64| {
        let mut rig = Rig::new(50, Tick(1));
        rig.period_us = 16_667;
        let mut peer = Peer::join(&mut rig, 4_000);
        for turn in 0..600 {
            if turn == 300 {
                peer.headers.clear();
            }
            let mut report = peer.report();
            report.received_count = 1;
            report.echo = clock_stamp(rig.now_us - round_trip_us);
            let datagram = peer.say(&report);
            rig.hear(peer.path, &datagram);
            let sent = rig.turn_moving(50);
            peer.take_all(&sent);
        }
        // Of the last five seconds.
        peer.headers.iter().filter(|header| header.candidate).count()
    };
    let near = candidates(100_000);
    assert!((95..=105).contains(&near), "{near} in 5 s: about twenty a second");
    let round_trip_us = 960_000;
    let far = candidates(round_trip_us);
    let under_way = far as u64 * round_trip_us / 5_000_000;
    assert!(
        (10..=WINDOW_SLOTS as u64 / 2).contains(&under_way),
        "{far} in 5 s, {under_way} under way"
    );
}
