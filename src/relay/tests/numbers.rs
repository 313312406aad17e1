//! Numbers at their edges: datagrams, ticks, connection ids (THREATS 27, 28, 60, 61; FAULTS 22; SPEC DEC6, ID8).

use std::collections::BTreeSet;

use super::peer::{Peer, Rig, path};
use crate::limits::{LEASE_US, SESSION_TICKS_MAX};
use crate::relay::counters::DatagramRefusal;
use crate::relay::shard::{Receipt, Shard};
use crate::sequence::Tick;
use crate::wire::payload::CloseReason;
use crate::wire::seal::NUMBERS_MAX;

/// THREATS 27: a session whose datagram numbers run out says so with the last one and is over; no number comes twice.
#[test]
fn threats_27_a_session_ends_before_its_numbers_do() {
    let mut rig = Rig::new(5, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.follow(&mut rig, 10, 5);
    rig.shard.skip_numbers(NUMBERS_MAX - 4);
    peer.skip_numbers(NUMBERS_MAX - 5);
    peer.speak(&mut rig);
    for _ in 0..10 {
        let sent = rig.turn_moving(1);
        peer.take_all(&sent);
    }
    assert_eq!(peer.closed, Some(CloseReason::Exhausted));
    assert_eq!(
        (rig.shard.open(), peer.numbers.last()),
        (0, Some(&(NUMBERS_MAX - 1)))
    );
    assert_eq!(
        peer.numbers.iter().collect::<BTreeSet<_>>().len(),
        peer.numbers.len(),
        "no number twice"
    );
}

/// SPEC DEC6, FAULTS 22: a session ends long before ticks come so far that a client could not tell old from new.
#[test]
fn faults_22_a_session_ends_before_its_ticks_do() {
    for first in [1, (1 << 31) - 5, u32::MAX - 5] {
        let mut rig = Rig::new(5, Tick(first));
        let mut peer = Peer::join(&mut rig, 4_000);
        peer.follow(&mut rig, 10, 5);
        rig.tick = Tick(first).plus(SESSION_TICKS_MAX - 1);
        peer.follow(&mut rig, 1, 0);
        assert_eq!(peer.closed, None);
        peer.follow(&mut rig, 1, 0);
        assert_eq!((peer.closed, rig.shard.open()), (Some(CloseReason::Exhausted), 0));
    }
}

/// THREATS 28: every datagram of a session has its own number, signs of life and welcomes included, and no two sessions
/// have a key in common, even with the same nonce from the same port.
#[test]
fn threats_28_no_number_twice_and_no_key_twice() {
    let mut rig = Rig::new(300, Tick(1));
    let mut keys = BTreeSet::new();
    for round in 0..20u16 {
        let mut peer = Peer::join_with(&mut rig, 4_000, [u8::try_from(round / 2).unwrap(); 16]);
        peer.follow(&mut rig, 30, 100);
        for _ in 0..60 {
            let sent = rig.turn_moving(1);
            peer.take_all(&sent);
        }
        let distinct: BTreeSet<&u64> = peer.numbers.iter().collect();
        assert_eq!(distinct.len(), peer.numbers.len());
        assert!(peer.numbers.len() > 30);
        assert!(keys.insert((peer.relay_nonce, peer.connection)), "round {round}");
        let leave = peer.up(vec![8, CloseReason::Left as u8]);
        rig.hear(peer.path, &leave);
        assert_eq!(rig.shard.open(), 0);
    }
    assert_eq!(
        keys.iter().map(|(nonce, _)| nonce).collect::<BTreeSet<_>>().len(),
        20
    );
    // A relay that starts again draws other randomness: its seed is its host's.
    let mut other = Rig::with(300, Tick(1), |settings| settings.seed = [3; 32]);
    let again = Peer::join_with(&mut other, 4_000, [0; 16]);
    assert!(keys.insert((again.relay_nonce, again.connection)));
}

/// SPEC ID8: a connection id holds shard and place to their edges; one whose session is over finds nobody, though its
/// place is taken again.
#[test]
fn threats_29_connection_ids_name_one_session() {
    for index in [0u8, 1, 63, 255] {
        let mut rig = Rig::with(3, Tick(1), |settings| settings.index = index);
        let resident = Peer::join(&mut rig, 4_000);
        let mut ids = BTreeSet::from([resident.connection]);
        for port in 1..20 {
            let mut peer = Peer::join(&mut rig, 4_000 + port);
            assert_eq!(Shard::of_connection(peer.connection), index);
            assert_eq!(peer.connection & 0xFF_FFFF, 1, "the same place each time");
            assert!(ids.insert(peer.connection), "and never the same id");
            let leave = peer.up(vec![8, CloseReason::Left as u8]);
            assert_eq!(rig.hear(peer.path, &leave).0, Receipt::Taken);
            let late = peer.up(vec![0]);
            let refused = Receipt::Refused(DatagramRefusal::UnknownConnection);
            assert_eq!(rig.hear(peer.path, &late).0, refused);
        }
        assert!(rig.has(resident.connection));
    }
    let mut rig = Rig::with(3, Tick(1), |settings| settings.limits.shards = 8);
    let mut peer = Peer::join(&mut rig, 4_000);
    let mut elsewhere = peer.up(vec![0]);
    elsewhere[4] = 7;
    assert_eq!(rig.hear(path(1), &elsewhere).0, Receipt::Elsewhere(7));
    // Of a shard that there is not: nobody's, and no failure between shards.
    elsewhere[4] = 8;
    let refused = Receipt::Refused(DatagramRefusal::UnknownConnection);
    assert_eq!(rig.hear(path(1), &elsewhere).0, refused);
    let counted = rig.shard.counters().datagrams_refused[DatagramRefusal::UnknownConnection as usize];
    assert_eq!(counted, 1);
}

/// THREATS 60, 61: ids go on across new streams and new session epochs, and wrap in the middle; epochs and generations
/// only rise.
#[test]
fn threats_60_ids_never_restart_in_a_session() {
    let mut rig = Rig::new(20, Tick(u32::MAX - 60));
    let mut peer = Peer::join(&mut rig, 4_000);
    for round in 0..6 {
        peer.follow(&mut rig, 20, 20);
        match round % 2 {
            0 => {
                let sent = rig.restart_origin(15);
                peer.take_all(&sent);
            }
            _ => {
                let report = crate::wire::report::Report {
                    refuse: Some(crate::wire::report::RefuseReason::Requested),
                    ..peer.report()
                };
                let datagram = peer.say(&report);
                rig.hear(peer.path, &datagram);
                let sent = rig.turn_moving(15);
                peer.take_all(&sent);
            }
        }
    }
    let headers = &peer.headers;
    for pair in headers.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(after.id == before.id || after.id.is_after(before.id));
        assert!(after.session_epoch >= before.session_epoch && after.generation >= before.generation);
        assert!(after.stream_epoch >= before.stream_epoch);
        if after.stream_epoch > before.stream_epoch {
            assert!(after.session_epoch > before.session_epoch);
        }
    }
    let last = headers.last().unwrap();
    assert!(last.id.0 < 1_000, "they wrapped");
    assert!(last.stream_epoch == 4 && last.session_epoch == 7, "{last:?}");
}

/// THREATS 61, SPEC DEC7: a client that reports one baseline and nothing after it is given deltas on that until its
/// lease is over, and then full state: no base is ever older.
#[test]
fn threats_61_no_base_is_older_than_its_lease() {
    for first in [1, u32::MAX - 100] {
        let mut rig = Rig::new(20, Tick(first));
        let mut peer = Peer::join(&mut rig, 4_000);
        peer.follow(&mut rig, 6, 20);
        let once = peer.report();
        let mut oldest = 0;
        for _ in 0..400 {
            let datagram = peer.say(&once);
            rig.hear(peer.path, &datagram);
            let newest = rig.tick;
            let sent = rig.turn_moving(20);
            let before = peer.headers.len();
            peer.takes = |_| false;
            peer.take_all(&sent);
            for header in &peer.headers[before..] {
                if let Some(base) = header.base {
                    oldest = oldest.max(base.age_at(header.id).expect("bases lie behind"));
                }
                assert!(header.id.is_after(newest));
            }
        }
        assert_eq!(u64::from(oldest) * rig.period_us, LEASE_US, "from {first}");
        assert!(peer.headers.last().unwrap().base.is_none());
    }
}

/// FAULTS 22: with ticks past the middle of their range, a client that lost parts is told what it lacks and nothing of
/// places that nobody ever used.
#[test]
fn faults_22_empty_places_are_not_said_to_be_gone() {
    for first in [1, (1 << 31) - 4, (1 << 31) + 5, u32::MAX - 4] {
        let mut rig = Rig::new(130, Tick(first));
        let mut peer = Peer::join(&mut rig, 4_000);
        peer.takes = |header| header.part == 0;
        peer.speak(&mut rig);
        let sent = rig.turn_moving(0);
        peer.take_all(&sent);
        let got = peer.headers[0].count;
        assert!(got < 130 && peer.headers.len() > 1, "several parts");
        peer.takes = |_| false;
        for _ in 0..3 {
            peer.speak(&mut rig);
            rig.now_us += 100_000;
            let before = peer.headers.len();
            let sent = rig.turn_moving(0);
            peer.take_all(&sent);
            let said: u32 = peer.headers[before..].iter().map(|header| header.count).sum();
            assert_eq!(said, 130 - got, "from {first}");
        }
    }
}
