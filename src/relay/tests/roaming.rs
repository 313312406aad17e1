//! A client's address changes, or somebody makes it look so (FAULTS 50; THREATS 89, 90).

use super::peer::{Datagrams, PERIOD_US, Peer, Rig, path};
use crate::relay::counters::PathChallenge;
use crate::relay::outbox::Path;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::wire::payload;

fn following(rig: &mut Rig, port: u16) -> Peer {
    let mut peer = Peer::join(rig, port);
    peer.follow(rig, 20, 5);
    peer
}

/// The peer speaks from `from`; what the relay says at once.
fn speak_from(rig: &mut Rig, peer: &mut Peer, from: Path) -> Datagrams {
    let report = peer.report();
    let datagram = peer.say(&report);
    let (receipt, answers) = rig.hear(from, &datagram);
    assert_eq!(receipt, Receipt::Taken);
    answers
}

/// The challenge that went to `to`, and nothing else did.
fn challenge_of(peer: &mut Peer, answers: &Datagrams, to: Path) -> payload::PathToken {
    let [(path, bytes)] = &answers[..] else {
        panic!("one challenge: {answers:?}");
    };
    assert_eq!(*path, to);
    peer.challenge = None;
    assert!(peer.take(&mut bytes.clone()));
    peer.challenge.expect("a challenge")
}

fn counted(rig: &Rig, result: PathChallenge) -> u64 {
    rig.shard.counters().path_challenges[result as usize]
}

/// THREATS 89, FAULTS 50: a client whose address changed is challenged with its first datagram from there. What falls due
/// meanwhile comes with the answer, so that it waits a round trip and no tick; where the answer is late, the stream goes where
/// it was, and each datagram from there brings the challenge again.
#[test]
fn threats_89_a_client_that_moved_is_followed_within_a_round_trip() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let (old, new) = (peer.path, path(4_001));
    let answers = speak_from(&mut rig, &mut peer, new);
    assert!(rig.turn_moving(5).is_empty(), "a tick waits for the answer");
    let token = challenge_of(&mut peer, &answers, new);
    let answer = peer.answer(token);
    let (receipt, sent) = rig.hear(new, &answer);
    assert!(receipt == Receipt::Taken && !sent.is_empty() && sent.iter().all(|(to, _)| *to == new));
    peer.path = new;
    peer.take_all(&sent);
    assert_eq!(rig.shard.counters().migrations, 1);

    // The NAT gives the old one back, and three answers are lost: within a second nothing waits again.
    let mut answers = Datagrams::new();
    for _ in 0..4 {
        rig.now_us += PERIOD_US;
        answers = speak_from(&mut rig, &mut peer, old);
        let sent = rig.turn_moving(5);
        assert!(!sent.is_empty() && sent.iter().all(|(to, _)| *to == new));
    }
    let token = challenge_of(&mut peer, &answers, old);
    let answer = peer.answer(token);
    assert_eq!(rig.hear(old, &answer).0, Receipt::Taken);
    let sent = rig.turn_moving(5);
    assert!(!sent.is_empty() && sent.iter().all(|(to, _)| *to == old));
    assert_eq!((rig.shard.counters().migrations, rig.shard.open()), (2, 1));
}

/// THREATS 89: where a padded datagram came from, the snapshot that is due goes at once, beside the challenge, and so do the next
/// while the answer is under way: a client whose address changed waits one round trip, not two. No more than three times what
/// came goes there.
#[test]
fn threats_89_who_misses_snapshots_and_pads_gets_them_before_the_proof() {
    let mut rig = Rig::new(10, Tick(1));
    rig.period_us = 5_000;
    let mut peer = following(&mut rig, 4_000);
    let (old, new) = (peer.path, path(4_001));
    let answers = speak_from(&mut rig, &mut peer, new);
    challenge_of(&mut peer, &answers, new);
    assert!(
        rig.turn_moving(5).is_empty(),
        "so little came from there that it waits"
    );
    let (mut up, mut down) = (0, 0);
    for round in 0..2 {
        let padded = peer.padded(1_000);
        let (receipt, sent) = rig.hear(new, &padded);
        assert_eq!(receipt, Receipt::Taken);
        let sent = match round {
            0 => sent,
            _ => rig.turn_moving(5),
        };
        let snapshots = peer.headers.len();
        peer.path = new;
        peer.take_all(&sent);
        assert!(sent.iter().all(|(to, _)| *to == new));
        assert_eq!(peer.headers.len() - snapshots, 1, "round {round}");
        (up, down) = (
            up + padded.len(),
            down + sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(),
        );
    }
    assert!(down <= 3 * up);
    assert_eq!(rig.shard.counters().migrations, 0, "nothing is proven yet");
    // It was a copy: the client is where it was, and within a round trip the stream goes there again.
    peer.path = old;
    peer.speak(&mut rig);
    rig.now_us += 100_000;
    let sent = rig.turn_moving(5);
    assert!(!sent.is_empty() && sent.iter().all(|(to, _)| *to == old));
    assert_eq!(rig.session(peer.connection).path, old);
}

/// THREATS 90: who copies a client's datagrams and is there first, from ten thousand addresses, moves nothing: the stream
/// goes on to the client, and no more than three times what came from there goes to any of them.
#[test]
fn threats_90_ten_thousand_copies_move_nothing() {
    const COPIES: u32 = 10_000;
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let (mut up, mut down, mut waited) = (0, 0, 0);
    for copy in 0..COPIES {
        let from = path(u16::try_from(10_000 + copy).unwrap());
        let report = peer.report();
        let datagram = peer.say(&report);
        let (receipt, answers) = rig.hear(from, &datagram);
        assert_eq!(receipt, Receipt::Taken, "the copy was first");
        assert!(answers.iter().all(|(to, _)| *to == from));
        let back: usize = answers.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(back <= 3 * datagram.len(), "{back} for {}", datagram.len());
        (up, down) = (up + datagram.len(), down + back);
        // The client's own comes second. Again from elsewhere it is as little worth.
        rig.refuses(peer.path, &datagram);
        rig.refuses(path(9), &datagram);
        rig.now_us += 1_000;
        if copy % 100 == 0 {
            let mut sent = rig.turn_moving(5);
            if sent.is_empty() {
                // It waits a moment, once a second, and goes to the client.
                waited += 1;
                rig.now_us += 100_000;
                sent = rig.due();
            }
            assert!(!sent.is_empty() && sent.iter().all(|(to, _)| *to == peer.path));
            peer.take_all(&sent);
        }
    }
    assert!(waited <= 20, "{waited} of 100 waited");
    assert_eq!((rig.shard.counters().migrations, rig.shard.open()), (0, 1));
    assert!(down > 0 && down <= up, "{down} of {up}");
    assert_eq!(counted(&rig, PathChallenge::Sent), u64::from(COPIES));
}

/// THREATS 90: a challenge that is passed on to the client is answered from where the client is, and moves nothing. Nor does a
/// guess from where it was sent.
#[test]
fn threats_90_a_challenge_passed_on_proves_nothing() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let (home, elsewhere) = (peer.path, path(9));
    let answers = speak_from(&mut rig, &mut peer, elsewhere);
    let token = challenge_of(&mut peer, &answers, elsewhere);
    let answer = peer.answer(token);
    assert_eq!(rig.hear(home, &answer).0, Receipt::Taken);
    rig.refuses(elsewhere, &answer);
    for guess in 0..100 {
        let wrong = peer.answer([guess; 8]);
        assert_eq!(rig.hear(elsewhere, &wrong).0, Receipt::Taken);
    }
    assert_eq!(counted(&rig, PathChallenge::Unmatched), 101);
    assert_eq!(rig.session(peer.connection).path, home);
    assert_eq!(rig.shard.counters().migrations, 0);
    // So much came from there that the snapshots of one round trip go there; then they go to the client again.
    rig.turn_moving(5);
    rig.now_us += 100_000;
    let sent = rig.turn_moving(5);
    assert!(!sent.is_empty() && sent.iter().all(|(to, _)| *to == home));
}

/// FAULTS 50: what a client sent before it moved and comes after it, from where it was, does not move it back; nor does
/// anything that was sent before, from anywhere.
#[test]
fn faults_50_an_older_datagram_does_not_move_a_client() {
    let mut rig = Rig::new(10, Tick(1));
    let mut peer = following(&mut rig, 4_000);
    let report = peer.report();
    let [early, also_early] = [(); 2].map(|()| peer.say(&report));
    let answers = speak_from(&mut rig, &mut peer, path(9));
    let token = challenge_of(&mut peer, &answers, path(9));
    let answer = peer.answer(token);
    assert_eq!(rig.hear(path(9), &answer).0, Receipt::Taken);
    for (from, late) in [(peer.path, early), (path(10), also_early)] {
        let (receipt, answers) = rig.hear(from, &late);
        assert_eq!((receipt, answers.len()), (Receipt::Taken, 0));
        assert_eq!(rig.session(peer.connection).path, path(9));
    }
    assert!(rig.turn_moving(5).iter().all(|(to, _)| *to == path(9)));
    assert_eq!(rig.shard.counters().migrations, 1);
}
