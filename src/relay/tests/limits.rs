//! What strangers and clients may make a shard do (THREATS 2, 15 to 17, 47, 71).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::peer::{Peer, Rig, cookie, path};
use crate::relay::admission::{Census, Limited, Limits};
use crate::relay::counters::DatagramRefusal;
use crate::relay::outbox::Path;
use crate::relay::shard::{Receipt, ShardLimits};
use crate::sequence::Tick;
use crate::wire::handshake::{Denial, put_request, put_response};
use crate::wire::payload::{self, CloseReason};
use crate::wire::version::PROTOCOL_VERSION;

fn rig(limits: Limits) -> Rig {
    Rig::with(10, Tick(1), |settings| {
        settings.limits = ShardLimits {
            limits: Limits {
                loopback: true,
                ..limits
            },
            shards: 1,
            ..ShardLimits::default()
        };
    })
}

fn limited(rig: &Rig, reason: Limited) -> u64 {
    rig.shard.counters().handshakes_limited[reason as usize]
}

/// THREATS 2: Requests in one host's name are answered at the host's rate and else dropped in silence, whatever port and nonce
/// they have; and so that host's own.
#[test]
fn threats_2_requests_in_one_name_are_answered_at_a_rate() {
    let mut rig = rig(Limits {
        challenges_per_host_per_s: 10,
        ..Limits::default()
    });
    let (mut answered, mut request) = (0, Vec::new());
    for number in 0..10_000u32 {
        rig.now_us += 1_000;
        put_request(
            &mut request,
            PROTOCOL_VERSION,
            &[u8::try_from(number % 256).unwrap(); 16],
        );
        let (receipt, answers) = rig.hear(path(u16::try_from(1 + number % 60_000).unwrap()), &request);
        match receipt {
            Receipt::Taken => answered += answers.len(),
            refused => {
                assert_eq!(refused, Receipt::Refused(DatagramRefusal::HandshakeLimit));
                assert!(answers.is_empty());
            }
        }
    }
    assert!((220..=228).contains(&answered), "{answered} in ten seconds");
    assert_eq!(limited(&rig, Limited::ChallengesOfHost), 10_000 - answered as u64);
}

/// THREATS 14: honest clients by the hundred come and leave in each tick, all with good cookies. Who is in session misses no
/// snapshot, and a newcomer is in at once; what is over the rate of a prefix is refused before it costs a key.
#[test]
fn threats_14_a_flood_of_good_handshakes_leaves_sessions_served() {
    const EACH_TICK: u32 = 100;
    let mut rig = rig(Limits {
        handshakes_per_prefix_per_s: 500,
        ..Limits::default()
    });
    let mut resident = Peer::join(&mut rig, 4_000);
    resident.follow(&mut rig, 10, 5);
    let (before, mut came) = (resident.headers.len(), 0);
    let host = |number: u32| Path {
        remote: (Ipv4Addr::from(0x0A00_0000 + number * 7), 4_000).into(),
        local: None,
    };
    let nonce = |number: u32| core::array::from_fn(|at| number.to_le_bytes()[at % 4]);
    for tick in 0..40 {
        for number in tick * EACH_TICK..(tick + 1) * EACH_TICK {
            let from = host(number);
            let Ok(mut guest) = Peer::try_join(&mut rig, from, nonce(number), None) else {
                continue;
            };
            let leave = guest.up(vec![payload::CLOSE, CloseReason::Left as u8]);
            assert_eq!(rig.hear(from, &leave).0, Receipt::Taken);
            came += 1;
        }
        resident.follow(&mut rig, 1, 5);
        if tick == 20 {
            Peer::try_join(&mut rig, path(4_001), [7; 16], None).unwrap();
        }
    }
    assert_eq!(came, 40 * EACH_TICK);
    assert_eq!(resident.headers.len() - before, 40, "each tick");
    assert_eq!(rig.shard.open(), 2);
}

/// THREATS 15: sessions of one host begin at its rate. Who is over it is not answered, and is in when he tries again later; a
/// Welcome that was lost is said again whatever the rate.
#[test]
fn threats_15_sessions_of_a_host_begin_at_a_rate() {
    let mut rig = rig(Limits {
        handshakes_per_host_per_s: 4,
        ..Limits::default()
    });
    let peers: Vec<Peer> = (0..128).map(|port| Peer::join(&mut rig, 4_000 + port)).collect();
    let (nonce, from) = ([99; 16], path(5_000));
    let mut response = Vec::new();
    put_response(
        &mut response,
        PROTOCOL_VERSION,
        &nonce,
        &cookie(&mut rig, from, nonce),
        b"",
    );
    rig.refuses(from, &response);
    assert_eq!(limited(&rig, Limited::Host), 1);
    rig.now_us += 100_000;
    let first = &peers[0];
    put_response(
        &mut response,
        PROTOCOL_VERSION,
        &first.nonce,
        &cookie(&mut rig, first.path, first.nonce),
        b"",
    );
    assert_eq!(rig.hear(first.path, &response).1.len(), 1, "its Welcome again");
    rig.now_us += 500_000;
    assert!(Peer::try_join(&mut rig, from, nonce, None).is_ok());
}

/// THREATS 17: sessions that nobody was heard of make room for others, the oldest first; whoever was heard stays.
#[test]
fn threats_17_the_oldest_that_was_never_heard_makes_room() {
    let mut rig = rig(Limits {
        sessions_unheard: 3,
        ..Limits::default()
    });
    let mut heard = Peer::join(&mut rig, 4_000);
    heard.speak(&mut rig);
    let silent: Vec<Peer> = (0..10).map(|port| Peer::join(&mut rig, 4_100 + port)).collect();
    let open: Vec<bool> = silent.iter().map(|peer| rig.has(peer.connection)).collect();
    assert_eq!(
        open,
        [false, false, false, false, false, false, false, true, true, true]
    );
    assert!(rig.has(heard.connection));
    assert_eq!((rig.shard.open(), limited(&rig, Limited::Unheard)), (4, 7));
    rig.turn_moving(5);
    heard.speak(&mut rig);
    assert!(rig.has(heard.connection));
}

/// The relay has so many sessions, at whichever of its shards they are.
#[test]
fn a_relay_has_so_many_sessions_at_all_its_shards() {
    let census = Arc::<Census>::default();
    let mut rig = Rig::with(10, Tick(1), |settings| {
        settings.sessions_max = 3;
        settings.limits.census = Arc::clone(&census);
    });
    for _ in 0..2 {
        let at_another_shard = census.enter(&Limits::default(), 3, IpAddr::from([192, 0, 2, 1]));
        assert!(at_another_shard.is_ok());
    }
    let mut last = Peer::join(&mut rig, 4_000);
    let another = |rig: &mut Rig| Peer::try_join(rig, path(4_001), [9; 16], None);
    assert!(matches!(another(&mut rig), Err(Denial::Full)));
    assert_eq!(
        rig.shard.counters().handshakes_refused[Denial::Full as usize - 1],
        1
    );
    let goodbye = last.up(vec![payload::CLOSE, CloseReason::Left as u8]);
    rig.hear(last.path, &goodbye);
    assert!(another(&mut rig).is_ok());
}

/// A host has so many sessions, and another when one of them ends. Who is too many is denied as by a full relay.
#[test]
fn a_host_has_so_many_sessions() {
    let mut rig = rig(Limits {
        sessions_per_host: 2,
        ..Limits::default()
    });
    let mut first = Peer::join(&mut rig, 4_000);
    Peer::join(&mut rig, 4_001);
    let third = |rig: &mut Rig| Peer::try_join(rig, path(4_002), [9; 16], None);
    assert!(matches!(third(&mut rig), Err(Denial::Full)));
    assert_eq!(limited(&rig, Limited::Sessions), 1);
    assert_eq!(
        rig.shard.counters().handshakes_refused[Denial::Full as usize - 1],
        0,
        "the relay is not full: nobody is to be woken"
    );
    let goodbye = first.up(vec![payload::CLOSE, CloseReason::Left as u8]);
    rig.hear(first.path, &goodbye);
    assert!(third(&mut rig).is_ok());
}

/// THREATS 71, 72: of what one session sends, datagrams and bytes have a rate; what is beyond is as if it were lost, and the
/// session goes on. What was not sealed by its client is not counted.
#[test]
fn threats_71_72_what_a_session_sends_has_a_rate() {
    for (limits, least, most) in [
        (
            Limits {
                up_datagrams_per_s: 100,
                ..Limits::default()
            },
            200,
            201,
        ),
        (
            Limits {
                up_bytes_per_s: 10_000,
                ..Limits::default()
            },
            380,
            560,
        ),
    ] {
        let mut rig = rig(limits);
        let mut peer = Peer::join(&mut rig, 4_000);
        peer.speak(&mut rig);
        let (mut taken, mut refused) = (0, 0);
        for number in 0..1_000u32 {
            rig.now_us += 1_000;
            let report = peer.report();
            let datagram = peer.say(&report);
            let mut forged = datagram.clone();
            *forged.last_mut().unwrap() ^= 1;
            rig.refuses(peer.path, &forged);
            match rig.hear(peer.path, &datagram).0 {
                Receipt::Taken => taken += 1,
                Receipt::Refused(DatagramRefusal::UpLimit) => refused += 1,
                other => panic!("{number}: {other:?}"),
            }
        }
        assert!(
            refused > 0 && (least - 1..=most).contains(&taken),
            "{taken} taken of {limits:?}"
        );
        rig.now_us += 1_000_000;
        peer.follow(&mut rig, 5, 5);
        assert!(peer.closed.is_none());
    }
}

/// THREATS 47: who sends what is authentic and cannot be read, more than now and then, is told and closed; a few are refused.
#[test]
fn threats_47_a_client_that_cannot_be_read_is_closed() {
    let mut rig = rig(Limits {
        malformed: 4,
        ..Limits::default()
    });
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    for _ in 0..20 {
        rig.now_us += 1_100_000;
        let datagram = peer.up(vec![0x80]);
        rig.refuses(peer.path, &datagram);
        peer.speak(&mut rig);
    }
    assert!(
        rig.session(peer.connection).closing.is_none(),
        "one a second is borne"
    );
    for _ in 0..5 {
        let datagram = peer.up(vec![0x80]);
        rig.refuses(peer.path, &datagram);
    }
    for _ in 0..20 {
        rig.now_us += 100_000;
        let sent = rig.due();
        peer.take_all(&sent);
    }
    assert_eq!(peer.closed, Some(CloseReason::Protocol));
    assert!(!rig.has(peer.connection));
}
