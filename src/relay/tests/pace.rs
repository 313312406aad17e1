//! How often and how much a shard sends: what piles up, what was held back, who was not heard yet.

use std::collections::BTreeSet;

use super::peer::{Peer, Rig};
use crate::limits::{
    DATAGRAM_MAX, JOIN_SPACING_US, PACE_SPACING_FIRST_US, UNCONFIRMED_BYTES, UNCONFIRMED_US,
    WELCOME_SPACING_US, WELCOMES_MAX,
};
use crate::relay::budget::Budget;
use crate::relay::counters::Withheld;
use crate::relay::outbox::MemoryOutbox;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::wire::handshake::DatagramKind;
use crate::wire::payload::clock_stamp;
use crate::wire::report::{RefuseReason, Report};
use crate::wire::snapshot::SnapshotHeader;

/// THREATS 87: a minute without an origin ends no session: whoever speaks is answered with a sign of life, and the stream goes on
/// when it is back.
#[test]
fn threats_87_a_minute_without_an_origin_ends_no_session() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 10, 5);
    let (numbers, snapshots) = (peer.numbers.len(), peer.headers.len());
    for _ in 0..60 * 20 {
        rig.now_us += 50_000;
        peer.speak(&mut rig);
        let sent = rig.due();
        peer.take_all(&sent);
    }
    assert!(rig.has(peer.connection) && peer.closed.is_none());
    assert_eq!(peer.headers.len(), snapshots);
    let signs = peer.numbers.len() - numbers;
    assert!((250..=310).contains(&signs), "{signs} signs of life in a minute");
    peer.follow(&mut rig, 10, 5);
    assert_eq!(peer.headers.len(), snapshots + 10);
}

/// Says an honest report whose round trip is this long.
fn speak_after(peer: &mut Peer, rig: &mut Rig, round_trip_us: u64) {
    let mut report = peer.report();
    report.received_count = 1;
    report.echo = clock_stamp(rig.now_us - round_trip_us);
    let datagram = peer.say(&report);
    rig.hear(peer.path, &datagram);
}

/// SPEC OPS1: a client behind a queue is sent fewer snapshots; the last one held back goes without another tick; with the
/// queue gone it is sent every tick again. Another client misses nothing.
#[test]
fn ops1_who_is_behind_gets_fewer_snapshots_and_the_last_one() {
    let mut rig = Rig::new(20, Tick(1));
    let (mut slow, mut other) = (Peer::join(&mut rig, 4_000), Peer::join(&mut rig, 4_001));
    let mut turns = |rig: &mut Rig, count: usize, round_trip_us: fn(u64) -> u64| {
        let before = (slow.headers.len(), other.headers.len());
        for turn in 0..count {
            speak_after(&mut slow, rig, round_trip_us(turn as u64));
            speak_after(&mut other, rig, 20_000);
            let sent = rig.turn_moving(20);
            slow.take_all(&sent);
            other.take_all(&sent);
        }
        (slow.headers.len() - before.0, other.headers.len() - before.1)
    };
    assert_eq!(turns(&mut rig, 20, |_| 20_000), (20, 20));
    let (few, all) = turns(&mut rig, 40, |turn| 240_000 + turn * 10_000);
    assert!(few < 20 && all == 40, "{few} of {all}");
    let behind = Withheld::Behind as usize;
    assert_eq!(rig.shard.counters().withheld[behind], 40 - few as u64);
    // The origin pauses: what was held back comes all the same.
    for _ in 0..10 {
        rig.now_us += 50_000;
        slow.take_all(&rig.due());
    }
    assert_eq!(slow.headers.last().unwrap().id, rig.tick);
    let mut turns = |rig: &mut Rig, count: usize| {
        let before = slow.headers.len();
        for _ in 0..count {
            speak_after(&mut slow, rig, 20_000);
            slow.take_all(&rig.turn_moving(20));
        }
        slow.headers.len() - before
    };
    turns(&mut rig, 80);
    assert_eq!(turns(&mut rig, 20), 20);
}

/// WINDOW-MODEL A16, SPEC WIN1: what is sent under an id never differs, so a tick goes to a session once, also where its
/// time to be sent what was held back comes before its turn at a new tick.
#[test]
fn win1_a_tick_is_sent_once_to_a_session() {
    let mut rig = Rig::new(20, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 10, 20);
    for round_trip_us in [20_000, 320_000, 320_000] {
        speak_after(&mut peer, &mut rig, round_trip_us);
        peer.take_all(&rig.turn_moving(20));
    }
    assert!(
        rig.session(peer.connection).deferred,
        "its last tick was held back"
    );
    rig.publish_moving(20);
    rig.now_us += u64::from(PACE_SPACING_FIRST_US);
    let mut outbox = MemoryOutbox::default();
    rig.shard.timers(rig.now_us, &mut outbox);
    assert!(!rig.shard.transmit(rig.now_us, &mut outbox));
    rig.shard.timers(rig.now_us + 400_000, &mut outbox);
    peer.take_all(&outbox.sent);
    let newest = peer.headers.iter().filter(|header| header.id == rig.tick);
    let parts: Vec<(u8, Option<Tick>)> = newest.map(|header| (header.part, header.base)).collect();
    assert_eq!(parts.len(), 1, "{parts:?}");
}

/// SPEC CTL3, PLY7: a report that comes late, and is of the old stream, does not take back that the new one is known.
#[test]
fn faults_23_a_late_report_does_not_take_the_stream_back() {
    let mut rig = Rig::new(5, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 5, 5);
    let old = peer.report();
    let late = peer.say(&old);
    peer.take_all(&rig.restart_origin(5));
    peer.follow(&mut rig, 5, 5);
    let known = rig.session(peer.connection).stream_epoch_known;
    assert!(known > old.stream_epoch);
    rig.hear(peer.path, &late);
    assert_eq!(rig.session(peer.connection).stream_epoch_known, known);
}

/// THREATS 17: a client that was never heard gets a bounded share, of snapshots and of Welcomes, and is let go; its first
/// word brings the rest.
#[test]
fn threats_17_who_was_never_heard_gets_little() {
    let mut rig = Rig::with(500, Tick(1), |settings| settings.budget.bytes_per_s = 1_000);
    let mut mute = Peer::join(&mut rig, 4_000);
    let ticks = (UNCONFIRMED_US / rig.period_us) as u32 - 2;
    let (mut welcomes, mut told) = (1, 0);
    for _ in 0..ticks {
        let sent = rig.turn_moving(500);
        for (_, bytes) in &sent {
            let before = mute.headers.len();
            mute.take(&mut bytes.clone());
            welcomes += usize::from(bytes[0] == DatagramKind::Welcome as u8);
            told += (mute.headers.len() - before) as u64 * bytes.len() as u64;
        }
    }
    assert!(
        rig.has(mute.connection) && welcomes <= WELCOMES_MAX as usize,
        "{welcomes}"
    );
    assert!(
        (1..=UNCONFIRMED_BYTES + DATAGRAM_MAX as u64).contains(&told),
        "{told} bytes"
    );
    let before = mute.headers.len();
    mute.speak(&mut rig);
    (0..3).for_each(|_| mute.take_all(&rig.turn_moving(500)));
    assert!(mute.headers.len() - before > 20, "the burst comes with its word");
    let gone = Peer::join(&mut rig, 4_001);
    (0..ticks + 4).for_each(|_| drop(rig.turn_moving(1)));
    assert!(!rig.has(gone.connection));
}

/// SPEC CTL6: a base digest says the base again only where nothing is left out; the next whole snapshot does.
#[test]
fn ctl6_a_snapshot_that_leaves_something_out_says_no_base_again() {
    let mut rig = Rig::with(500, Tick(1), |settings| settings.budget.bytes_per_s = 4_000);
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 200, 500);
    peer.headers.clear();
    peer.follow(&mut rig, 100, 500);
    assert!(peer.headers.len() > 20 && peer.headers.iter().all(|header| header.base.is_some()));
    let digests = |peer: &Peer| {
        let again = |header: &&SnapshotHeader| header.base_digest.is_some() && header.exhaustive;
        peer.headers.iter().filter(again).count()
    };
    assert_eq!(digests(&peer), 0);
    peer.follow(&mut rig, 100, 0);
    assert!(digests(&peer) > 3);
}

/// SPEC OPS1, FAULTS 38: what a session leaves of its budget is not saved up beyond the burst.
#[test]
fn ops1_a_quiet_session_saves_up_a_burst_and_no_more() {
    let budget = Budget {
        bytes_per_s: 100_000,
        burst_bytes: 6_000,
    };
    let mut rig = Rig::with(1_000, Tick(1), |settings| settings.budget = budget);
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 300, 0);
    assert!(peer.headers.last().unwrap().view_complete);
    let (before, omitted) = (peer.bytes as u64, rig.shard.counters().records_omitted);
    peer.follow(&mut rig, 1, 1_000);
    let sent = peer.bytes as u64 - before;
    let most = budget.burst_bytes + DATAGRAM_MAX as u64;
    assert!(sent > budget.burst_bytes / 2 && sent <= most, "{sent} bytes");
    assert!(
        rig.shard.counters().records_omitted > omitted,
        "there was more to say"
    );
}

/// SPEC PLY7: a new stream is said at once, however short the last Welcome was ago.
#[test]
fn ply7_a_new_stream_is_said_at_once() {
    let mut rig = Rig::new(5, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    let known = peer.stream_epoch;
    assert!(rig.period_us < WELCOME_SPACING_US);
    peer.take_all(&rig.restart_origin(5));
    assert_eq!(peer.stream_epoch, known + 1);
}

/// SPEC PLY7, ID1: who has not said that it knows the new stream is sent nothing of it that it could not decode; with its
/// first word of it, full state comes.
#[test]
fn ply7_no_snapshot_goes_to_who_does_not_know_the_stream() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 20, 5);
    let old = peer.stream_epoch;
    let (before, withheld) = (peer.headers.len(), rig.shard.counters().withheld);
    peer.take_all(&rig.restart_origin(10));
    for _ in 0..20 {
        let report = Report {
            stream_epoch: old,
            ..peer.report()
        };
        let datagram = peer.say(&report);
        assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
        peer.take_all(&rig.turn_moving(10));
    }
    assert_eq!((peer.headers.len(), peer.stream_epoch), (before, old + 1));
    let unwelcomed = Withheld::Unwelcomed as usize;
    assert_eq!(
        rig.shard.counters().withheld[unwelcomed],
        withheld[unwelcomed] + 21
    );
    peer.follow(&mut rig, 1, 10);
    let header = peer.headers.last().unwrap();
    assert_eq!((header.stream_epoch, header.base), (old + 1, None));
}

/// SPEC TAB7, DEC12: a new session epoch is a join again: its heavy snapshots are spaced, and an ask of the one before
/// counts for nothing in it.
#[test]
fn tab7_a_new_session_epoch_is_a_join_again() {
    let mut rig = Rig::with(1_000, Tick(1), |settings| {
        settings.budget = Budget {
            bytes_per_s: 1 << 30,
            burst_bytes: 1 << 30,
        };
    });
    rig.period_us = JOIN_SPACING_US / 4;
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 100, 1_000);
    assert!(peer.headers.last().unwrap().view_complete);
    let report = Report {
        refuse: Some(RefuseReason::Requested),
        ask: true,
        ..peer.report()
    };
    let datagram = peer.say(&report);
    rig.hear(peer.path, &datagram);
    peer.headers.clear();
    let takes = peer.takes;
    peer.takes = |_| false;
    let paced = rig.shard.counters().withheld[Withheld::JoinPacing as usize];
    for _ in 0..20 {
        peer.take_all(&rig.turn_moving(1_000));
    }
    let ids: BTreeSet<u32> = peer.headers.iter().map(|header| header.id.0).collect();
    assert_eq!(ids.len(), 5, "one in four ticks");
    assert!(peer.headers.iter().all(|header| header.base.is_none()));
    assert_eq!(
        rig.shard.counters().withheld[Withheld::JoinPacing as usize] - paced,
        15
    );
    peer.takes = takes;
    (0..4).for_each(|_| peer.take_all(&rig.turn_moving(1_000)));
    let asked = rig.shard.counters().advances_requested;
    let report = Report {
        ask: true,
        ..peer.report()
    };
    let datagram = peer.say(&report);
    rig.hear(peer.path, &datagram);
    assert_eq!(rig.shard.counters().advances_requested, asked + 1);
}
