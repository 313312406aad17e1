//! What comes to a relay's port: broken, forged, of the wrong session, of another version (THREATS II; FAULTS 23, 24,
//! 78). Dropped means: counted by reason, no answer, nothing moved.

use super::peer::{Peer, Rig, cookie, path};
use crate::relay::counters::DatagramRefusal;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::wire::handshake::*;
use crate::wire::payload::{self, CloseReason};
use crate::wire::report::{HeldList, Report};
use crate::wire::snapshot::Held;
use crate::wire::version::PROTOCOL_VERSION;

/// What a datagram may move at a relay, as text.
fn fingerprint(rig: &Rig) -> String {
    let sessions: Vec<_> = rig
        .shard
        .sessions()
        .map(|session| {
            (
                (
                    session.path,
                    session.heard_us,
                    session.opener.newest(),
                    session.confirmed,
                ),
                (
                    session.window.clone(),
                    session.stream.backlog(),
                    session.stream_epoch_known,
                ),
                (
                    session.sealer.next_number(),
                    session.requests.clone(),
                    session.closing,
                ),
            )
        })
        .collect();
    format!(
        "{sessions:?} {} {}",
        rig.shard.open(),
        rig.shard.counters().reports
    )
}

fn following(rig: &mut Rig, port: u16) -> Peer {
    let mut peer = Peer::join(rig, port);
    peer.follow(rig, 20, 5);
    assert!(peer.headers.iter().any(|header| header.base.is_some()));
    peer
}

/// THREATS 1, 4, 5: strangers gain nothing. A Request is answered in fewer bytes than it has, to where it came from, and
/// nothing of it is kept; a Response with a made-up cookie, and what only a relay says, is not answered at all.
#[test]
fn threats_1_4_5_strangers_get_less_than_they_send() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let before = fingerprint(&rig);
    let nonce = [7; 16];
    let mut bytes = Vec::new();
    for port in 5_000..6_000 {
        let from = path(port);
        put_request(&mut bytes, PROTOCOL_VERSION, &nonce);
        let (receipt, answers) = rig.hear(from, &bytes);
        assert_eq!((receipt, answers.len()), (Receipt::Taken, 1));
        let (to, answer) = &answers[0];
        assert!(*to == from && answer.len() < bytes.len());
        rig.refuses(from, answer);
        put_response(&mut bytes, PROTOCOL_VERSION, &nonce, &[3; COOKIE_BYTES], b"");
        rig.refuses(from, &bytes);
        bytes.clear();
        put_denied(&mut bytes, PROTOCOL_VERSION, &nonce, Denial::Full);
        rig.refuses(from, &bytes);
    }
    assert_eq!(fingerprint(&rig), before);
    peer.follow(&mut rig, 5, 5);
}

/// THREATS 22, 31: datagrams of no byte, of one, and of the most that UDP carries, with every first byte, are dropped in
/// silence, and the session goes on.
#[test]
fn threats_22_datagrams_of_absurd_sizes_are_dropped() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let before = fingerprint(&rig);
    let refused: u64 = rig.shard.counters().datagrams_refused.iter().sum();
    let mut count = 0;
    for from in [peer.path, path(9)] {
        rig.refuses(from, &[]);
        count += 1;
        for kind in 0..=255u8 {
            for length in [1, 2, 1_201, 2_048, 65_507] {
                rig.refuses(from, &vec![kind; length]);
                count += 1;
            }
        }
    }
    assert_eq!(fingerprint(&rig), before);
    let counted: u64 = rig.shard.counters().datagrams_refused.iter().sum();
    assert_eq!(counted - refused, count, "each has a reason");
    peer.follow(&mut rig, 5, 5);
}

/// THREATS 23, 31: every first byte at every length up to 64, as zeros, as ones and as a piece of a good datagram.
#[test]
fn threats_23_every_kind_at_every_short_length_is_dropped() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let report = peer.report();
    let good = peer.say(&report);
    let before = fingerprint(&rig);
    for kind in 0..=255u8 {
        for length in 1..=64usize {
            for fill in [0, 0xFF] {
                let mut bytes = vec![fill; length];
                bytes[0] = kind;
                rig.refuses(peer.path, &bytes);
            }
            if length < good.len() {
                let mut piece = good[..length].to_vec();
                piece[0] = kind;
                rig.refuses(peer.path, &piece);
            }
        }
    }
    assert_eq!(fingerprint(&rig), before);
    assert_eq!(rig.hear(peer.path, &good).0, Receipt::Taken);
}

/// THREATS 24, 25, 31: each bit flipped, each cut, a byte more: dropped in silence, from either address, and the
/// datagram itself is then still taken.
#[test]
fn threats_24_every_bit_of_a_report_counts() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let report = peer.report();
    let good = peer.say(&report);
    let before = fingerprint(&rig);
    for from in [peer.path, path(9)] {
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            rig.refuses(from, &bad);
        }
        for length in 0..good.len() {
            rig.refuses(from, &good[..length]);
        }
        rig.refuses(from, &[&good[..], &[0]].concat());
    }
    assert_eq!(fingerprint(&rig), before);
    assert_eq!(rig.hear(peer.path, &good).0, Receipt::Taken);
    assert_eq!(
        rig.hear(peer.path, &good).0,
        Receipt::Refused(DatagramRefusal::Duplicate)
    );
}

/// THREATS 29, 31: a datagram of one session under another's connection id, and what goes down sent up again.
#[test]
fn threats_29_a_datagram_is_of_one_session_and_one_direction() {
    let mut rig = Rig::new(10, Tick(1));
    let mut one = following(&mut rig, 4_000);
    let two = following(&mut rig, 4_001);
    let report = one.report();
    let good = one.say(&report);
    let before = fingerprint(&rig);
    let mut moved = good.clone();
    moved[1..9].copy_from_slice(&two.connection.to_le_bytes());
    for from in [one.path, two.path] {
        let (receipt, answers) = rig.hear(from, &moved);
        assert_eq!(receipt, Receipt::Refused(DatagramRefusal::Forged));
        assert!(answers.is_empty());
    }
    assert_eq!(fingerprint(&rig), before);
    let down = rig.turn_moving(5);
    let before = fingerprint(&rig);
    for (to, bytes) in &down {
        rig.refuses(*to, bytes);
        // The same sealed bytes in the clear header of the other direction.
        let mut turned = vec![DatagramKind::Up as u8];
        turned.extend(one.connection.to_le_bytes());
        turned.extend(&bytes[1..]);
        rig.refuses(*to, &turned);
    }
    assert_eq!(fingerprint(&rig), before);
    assert_eq!(rig.hear(one.path, &good).0, Receipt::Taken);
}

/// THREATS 36: blocks, flags and kinds of a newer version are refused whole with a reason; the version is settled in the
/// handshake.
#[test]
fn threats_36_what_a_newer_peer_says_is_refused_with_a_reason() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let report = peer.report();
    let mut block = Vec::new();
    report.encode(&mut block);
    for flag in [2u8, 4, 16, 32, 64, 128] {
        let heard = rig.session(peer.connection).heard_us;
        let reports = rig.shard.counters().reports;
        // Padding is zeros to the end.
        let rest = if flag == payload::PADDING {
            [0, 0, 1, 0]
        } else {
            [0; 4]
        };
        let datagram = peer.up([&[flag | 1][..], &block, &rest].concat());
        rig.now_us += 1_000;
        let (receipt, answers) = rig.hear(peer.path, &datagram);
        assert_eq!(
            receipt,
            Receipt::Refused(DatagramRefusal::Malformed),
            "flag {flag}"
        );
        assert!(answers.is_empty());
        let session = rig.session(peer.connection);
        assert_eq!((session.heard_us, rig.shard.counters().reports), (heard, reports));
    }
    for close in [0u8, 7, 255] {
        let datagram = peer.up(vec![8, close]);
        let receipt = rig.hear(peer.path, &datagram).0;
        assert_eq!(
            receipt,
            Receipt::Refused(DatagramRefusal::Malformed),
            "close reason {close}"
        );
    }
    let mut newer = Vec::new();
    let nonce = [9; 16];
    let proof = cookie(&mut rig, path(5), nonce);
    put_response(&mut newer, PROTOCOL_VERSION, &nonce, &proof, b"");
    newer[5] = u8::try_from(PROTOCOL_VERSION + 1).unwrap();
    let (receipt, answers) = rig.hear(path(5), &newer);
    assert_eq!((receipt, answers.len()), (Receipt::Taken, 1));
    assert_eq!(
        read_denied(&answers[0].1[1..]),
        Ok((PROTOCOL_VERSION, nonce, Denial::Version))
    );
    assert_eq!(rig.shard.open(), 1);
    peer.follow(&mut rig, 5, 5);
}

/// THREATS 35: enumerations and counts outside their range refuse the whole report, though all before was good.
#[test]
fn threats_35_a_report_out_of_range_is_refused_whole() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let good = Report {
        refuse: Some(crate::wire::report::RefuseReason::Requested),
        ..peer.report()
    };
    let mut bytes = vec![1u8];
    good.encode(&mut bytes);
    let held = bytes.len() - good.held.as_slice().len() * 2;
    let before = rig.session(peer.connection).window.clone();
    for reason in [0u8, 6, 200] {
        let mut bad = bytes.clone();
        let at = bad
            .windows(2)
            .position(|pair| pair == [5, u8::try_from(good.held.as_slice().len()).unwrap()]);
        bad[at.expect("the refusal's code")] = reason;
        let datagram = peer.up(bad);
        let receipt = rig.hear(peer.path, &datagram).0;
        assert_eq!(
            receipt,
            Receipt::Refused(DatagramRefusal::Malformed),
            "reason {reason}"
        );
    }
    for (flags, tail) in [(4u8, vec![0u8]), (4, vec![5]), (8, vec![0]), (8, vec![33])] {
        let mut bad = bytes.clone();
        bad[1] |= flags;
        bad.extend(tail);
        let datagram = peer.up(bad);
        let receipt = rig.hear(peer.path, &datagram).0;
        assert_eq!(receipt, Receipt::Refused(DatagramRefusal::Malformed));
    }
    assert!(held > 10);
    let session = rig.session(peer.connection);
    assert_eq!(format!("{:?}", session.window), format!("{before:?}"));
    assert_eq!(session.window.session_epoch(), 1, "nothing was refused");
}

/// FAULTS 23: a client dies and is back from the same port at once, with thirty datagrams of the old session still under
/// way in both directions: neither touches the other.
#[test]
fn faults_23_a_fast_reconnect_from_the_same_port() {
    let mut rig = Rig::new(200, Tick(1));
    let mut old = following(&mut rig, 4_000);
    let old_up: Vec<Vec<u8>> = (0..30)
        .map(|_| {
            let report = old.report();
            old.say(&report)
        })
        .collect();
    let old_down = rig.turn_moving(200);
    let mut new = Peer::join_with(&mut rig, 4_000, [77; 16]);
    assert_ne!(new.connection, old.connection);
    for datagram in &old_up {
        assert_eq!(
            rig.hear(new.path, datagram).0,
            Receipt::Taken,
            "for the old session"
        );
    }
    for (_, bytes) in &old_down {
        assert!(!new.take(&mut bytes.clone()), "of another key");
    }
    assert_eq!(rig.session(new.connection).opener.newest(), 0);
    assert!(!rig.session(new.connection).confirmed);
    for _ in 0..10 {
        new.speak(&mut rig);
        rig.now_us += 50_000;
        for (_, bytes) in rig.turn_moving(200) {
            // Both sessions send to this port: each datagram opens under one key.
            new.take(&mut bytes.clone());
        }
    }
    assert!(new.headers.last().unwrap().view_complete);
    assert_eq!(new.headers[0].session_epoch, 1);
    assert!(new.headers[0].base.is_none());
    // The old one holds no seat for long: silent, it is only probed, and then it ends.
    for _ in 0..700 {
        new.speak(&mut rig);
        rig.turn_moving(1);
    }
    assert!(!rig.has(old.connection) && rig.has(new.connection));
}

/// FAULTS 24, THREATS 26: forged datagrams with numbers from all over the range, from the client's address and another,
/// move nothing.
#[test]
fn faults_24_an_absurd_number_closes_no_window() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let before = fingerprint(&rig);
    for from in [peer.path, path(9)] {
        for low in [0u32, 1, 33, 1 << 10, 1 << 20, 1 << 31, u32::MAX] {
            let mut forged = vec![DatagramKind::Up as u8];
            forged.extend(peer.connection.to_le_bytes());
            forged.extend(low.to_le_bytes());
            forged.extend([0x5A; 40]);
            rig.refuses(from, &forged);
        }
    }
    assert_eq!(fingerprint(&rig), before);
    peer.follow(&mut rig, 5, 5);
}

/// FAULTS 24, THREATS 46: an authentic client that reports what was never sent: counted, nothing named, and whoever sits
/// beside it sees no change.
#[test]
fn faults_24_reports_of_what_was_never_sent_are_counted_and_ignored() {
    let mut rig = Rig::new(10, Tick(u32::MAX - 40));
    let mut liar = following(&mut rig, 4_000);
    let mut honest = following(&mut rig, 4_001);
    let (unknown, contradicting) = (
        rig.shard.counters().reports_unknown,
        rig.shard.counters().reports_contradicting,
    );
    let newest = rig.tick;
    let ids: Vec<Tick> = rig
        .session(liar.connection)
        .window
        .held()
        .iter()
        .map(|held| held.held.id)
        .collect();
    for id in [1, 33, 1 << 20, 1 << 31, (1 << 31) + 9].map(|ahead| newest.plus(ahead)) {
        let mut held = HeldList::default();
        held.push(Held { id, mask: 1 });
        let lie = Report {
            held,
            next_message: id.0,
            received_newest: id.0,
            ..liar.report()
        };
        let datagram = liar.say(&lie);
        assert_eq!(rig.hear(liar.path, &datagram).0, Receipt::Taken);
    }
    let mut held = HeldList::default();
    held.push(Held {
        id: ids[0],
        mask: u32::MAX,
    });
    let lie = Report {
        held,
        ..liar.report()
    };
    let datagram = liar.say(&lie);
    rig.hear(liar.path, &datagram);
    assert_eq!(
        (
            rig.shard.counters().reports_unknown - unknown,
            rig.shard.counters().reports_contradicting - contradicting
        ),
        (5, 1)
    );
    let after: Vec<Tick> = rig
        .session(liar.connection)
        .window
        .held()
        .iter()
        .map(|held| held.held.id)
        .collect();
    assert_eq!(after, ids);
    for _ in 0..20 {
        honest.speak(&mut rig);
        let sent = rig.turn_moving(5);
        let before = honest.headers.len();
        honest.take_all(&sent);
        assert_eq!(honest.headers.len(), before + 1, "a snapshot each tick");
    }
    liar.follow(&mut rig, 5, 5);
}

/// FAULTS 78: somebody without its key, who knows a silent client's port, nonce and connection id, neither keeps its
/// seat alive nor takes it away: the client may come back to it until it ends on time, and then nothing is left.
#[test]
fn faults_78_a_bad_attempt_leaves_a_seat_as_it_was() {
    for returns in [true, false] {
        let mut rig = Rig::new(10, Tick(1));
        let mut peer = following(&mut rig, 4_000);
        let heard = rig.session(peer.connection).heard_us;
        let (nonce, connection) = (peer.nonce, peer.connection);
        for second in 0..40u64 {
            rig.now_us = heard + second * 1_000_000;
            let mut response = Vec::new();
            put_response(&mut response, PROTOCOL_VERSION, &nonce, &[3; COOKIE_BYTES], b"");
            rig.refuses(peer.path, &response);
            let mut forged = vec![DatagramKind::Up as u8];
            forged.extend(connection.to_le_bytes());
            forged.extend([1; 40]);
            rig.refuses(path(666), &forged);
            rig.refuses(peer.path, &forged);
            if second < 29 {
                let session = rig.session(connection);
                assert_eq!((session.heard_us, session.path), (heard, peer.path));
            }
            if returns && second == 25 {
                peer.follow(&mut rig, 5, 5);
                assert!(rig.session(connection).heard_us > heard);
                break;
            }
            let sent = rig.due();
            peer.take_all(&sent);
        }
        let expected = (!returns).then_some(CloseReason::Idle);
        assert_eq!((rig.has(connection), peer.closed), (returns, expected));
        assert_eq!(rig.shard.open(), usize::from(returns));
    }
}

/// THREATS 37: no datagram is longer than the bound that every path carries: joining, events, commits and digests
/// included.
#[test]
fn threats_37_no_datagram_is_longer_than_a_path_carries() {
    let mut rig = Rig::new(3_000, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    let mut longest = 0;
    for step in 0..200 {
        peer.speak(&mut rig);
        let mut update = crate::relay::arena::tests::moved(rig.server_us + rig.period_us, 0..step * 10, step);
        update.events = vec![
            crate::state::update::Event {
                kind: 1,
                critical: true,
                entity: None,
                at_us: 0,
                payload: vec![1; crate::limits::EVENT_BYTES_MAX],
            };
            2
        ];
        let sent = rig.turn(|_| update);
        longest = sent
            .iter()
            .map(|(_, bytes)| bytes.len())
            .fold(longest, usize::max);
        peer.take_all(&sent);
    }
    assert!(peer.headers.iter().any(|header| header.commit.is_some()));
    assert!(
        (1_100..=crate::limits::DATAGRAM_MAX).contains(&longest),
        "{longest}"
    );
}
