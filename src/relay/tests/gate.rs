//! Tokens at the handshake: who is let in, as what, and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::peer::{Peer, Rig, path};
use crate::relay::budget::Budget;
use crate::relay::gate::{Gate, Whereabouts};
use crate::relay::outbox::Path;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::state::player::PlayerEvent;
use crate::state::view::{Range, Scope, View};
use crate::token::{ConnectToken, Grant, Secret, TokenKey, TokenKeys, TokenRefusal};
use crate::wire::handshake::Denial;
use crate::wire::payload::CloseReason;

static NOW_S: AtomicU64 = AtomicU64::new(1_000);

fn keys(id: u32) -> TokenKeys {
    TokenKeys::new(vec![TokenKey::new(id, [7; 32])]).unwrap()
}

fn gate() -> Arc<Gate> {
    let whereabouts = Whereabouts {
        audience: "arena".to_owned(),
        addresses: vec!["127.0.0.1:7777".parse().unwrap()],
    };
    Arc::new(Gate::new(keys(1), whereabouts, 900, || {
        NOW_S.load(Ordering::Relaxed)
    }))
}

fn rig(gate: &Arc<Gate>) -> Rig {
    Rig::with(20, Tick(1), |settings| settings.gate = Some(Arc::clone(gate)))
}

fn grant() -> Grant {
    Grant {
        issued_s: 1_000,
        expires_s: 1_060,
        client: 42,
        audience: "arena".to_owned(),
        relays: vec!["127.0.0.1:7777".parse().unwrap()],
        secret: Secret([3; 32]),
        view: None,
        budget_bytes_per_s: None,
    }
}

fn mint(grant: &Grant, id: u8) -> ConnectToken {
    grant.mint(keys(1).minting().unwrap(), [id; 16]).unwrap()
}

fn join(rig: &mut Rig, port: u16, nonce: u8, token: &ConnectToken) -> Result<Peer, Denial> {
    Peer::try_join(rig, path(port), [nonce; 16], Some(token))
}

fn refused(rig: &Rig, refusal: TokenRefusal) -> u64 {
    rig.shard.counters().tokens_refused[refusal as usize]
}

/// What a token grants holds: the player's number, the view, the budget, never more than the relay's own.
#[test]
fn a_session_is_what_its_token_grants() {
    let mut rig = rig(&gate());
    let view = View {
        scope: Scope::Camera(Range::new(500, 600).unwrap()),
        tags: 2,
    };
    let narrow = Grant {
        view: Some(view),
        budget_bytes_per_s: Some(8_000),
        ..grant()
    };
    let peer = join(&mut rig, 4_000, 1, &mint(&narrow, 1)).unwrap();
    let session = rig.session(peer.connection);
    let interest = session.interest.as_ref().unwrap();
    assert_eq!((session.client, interest.view()), (42, view));
    assert_eq!(session.budget(Budget::default()), Budget::of_rate(8_000));
    assert_eq!(session.budget(Budget::of_rate(4_000)), Budget::of_rate(4_000));
    let mut plain = join(&mut rig, 4_001, 2, &mint(&grant(), 2)).unwrap();
    plain.speak(&mut rig);
    let mut told = Vec::new();
    rig.shard.take_player_events(&mut told);
    assert_eq!(
        told,
        [PlayerEvent::Joined(plain.connection, 42)],
        "the origin hears who it is"
    );
    let session = rig.session(plain.connection);
    assert!(session.interest.is_none() && session.budget(Budget::default()) == Budget::default());
}

/// THREATS 9: a token is good for one session, the first that is heard. Until then there may be several, of copies of its Response
/// from anywhere: none of them ends the owner's, though it may have come first, and when the owner was heard they go.
#[test]
fn threats_9_a_token_admits_once() {
    let mut rig = rig(&gate());
    let token = mint(&grant(), 1);
    let elsewhere = Path {
        remote: "10.9.9.9:4000".parse().unwrap(),
        local: None,
    };
    // A copy that was faster, the owner's own, two copies that were slower, one of them from his own address.
    let mut copy = Peer::try_join(&mut rig, elsewhere, [2; 16], Some(&token)).unwrap();
    let mut owner = join(&mut rig, 4_000, 1, &token).unwrap();
    let others = [4_001, 4_002].map(|port| join(&mut rig, port, 3, &token).unwrap());
    assert_eq!(rig.shard.open(), 4);
    owner.speak(&mut rig);
    rig.due();
    assert_eq!(rig.shard.open(), 1);
    assert!(rig.has(owner.connection) && !rig.has(copy.connection) && !rig.has(others[0].connection));
    let late = copy.up(vec![0]);
    rig.refuses(copy.path, &late);
    for port in [4_001, 4_003] {
        assert!(matches!(join(&mut rig, port, 4, &token), Err(Denial::Token)));
    }
    assert_eq!(refused(&rig, TokenRefusal::Used), 2);
    owner.follow(&mut rig, 5, 3);
    assert!(owner.closed.is_none() && rig.shard.open() == 1);
}

/// THREATS 9: the same at two shards, before either has looked at what it is told to end: of sessions of one token that are heard
/// at different shards the first stays, and the other's first word ends it.
#[test]
fn threats_9_a_token_admits_once_at_all_shards() {
    let gate = gate();
    let mut rigs = [0u8, 1].map(|index| {
        Rig::with(20, Tick(1), |settings| {
            settings.gate = Some(Arc::clone(&gate));
            (settings.index, settings.seed) = (index, [index + 1; 32]);
        })
    });
    let token = mint(&grant(), 1);
    let mut peers: Vec<Peer> = (0..2)
        .flat_map(|_| [0, 1])
        .zip(4_000..)
        .map(|(shard, port)| join(&mut rigs[shard], port, 1, &token).unwrap())
        .collect();
    peers[2].speak(&mut rigs[0]);
    for (index, peer) in peers.iter_mut().enumerate().filter(|(index, _)| *index != 2) {
        let word = peer.up(vec![0]);
        let (receipt, answers) = rigs[index % 2].hear(peer.path, &word);
        assert!(matches!(receipt, Receipt::Refused(_)) && answers.is_empty());
    }
    rigs.iter_mut().for_each(|rig| drop(rig.due()));
    assert_eq!(
        rigs.iter().map(|rig| rig.shard.open()).collect::<Vec<_>>(),
        [1, 0]
    );
    let mut events = Vec::new();
    rigs.iter_mut()
        .for_each(|rig| rig.shard.take_player_events(&mut events));
    let joined = events
        .iter()
        .filter(|event| matches!(event, PlayerEvent::Joined(..)));
    assert_eq!(joined.count(), 1, "the origin hears of one: {events:?}");
}

/// THREATS 9: a hundred copies of a Response bring little before anybody is heard, and a bounded number of sessions.
#[test]
fn threats_9_copies_of_a_response_bring_little() {
    let mut rig = rig(&gate());
    let token = mint(&grant(), 1);
    let (mut sessions, mut sent) = (0, 0usize);
    for copy in 0..100u16 {
        let from = path(5_000 + copy);
        if Peer::try_join(&mut rig, from, [7; 16], Some(&token)).is_ok() {
            sessions += 1;
        }
        for _ in 0..4 {
            sent += rig
                .turn_moving(20)
                .iter()
                .map(|(_, bytes)| bytes.len())
                .sum::<usize>();
        }
    }
    for _ in 0..100 {
        sent += rig
            .turn_moving(20)
            .iter()
            .map(|(_, bytes)| bytes.len())
            .sum::<usize>();
    }
    assert_eq!(sessions, crate::limits::TOKEN_CLAIMS_MAX);
    let most = 2 * crate::limits::UNCONFIRMED_BYTES as usize + 64 * (512 + 12 * 400);
    assert!(sent < most, "{sent} bytes, bound {most}");
}

/// THREATS 18: a player that comes back with another token replaces its old session, once it was heard, and the old one is told;
/// other players are not touched, nor is anybody by a session that was never heard.
#[test]
fn threats_18_a_player_that_comes_back_replaces_its_old_session() {
    let mut rig = rig(&gate());
    let other = Grant {
        client: 43,
        ..grant()
    };
    let mut old = join(&mut rig, 4_000, 1, &mint(&grant(), 1)).unwrap();
    let mut bystander = join(&mut rig, 4_001, 2, &mint(&other, 2)).unwrap();
    old.speak(&mut rig);
    bystander.speak(&mut rig);
    let mut new = join(&mut rig, 4_002, 3, &mint(&grant(), 3)).unwrap();
    let sent = rig.turn_moving(3);
    old.take_all(&sent);
    assert!(old.closed.is_none(), "the new one was not heard");
    new.speak(&mut rig);
    for _ in 0..6 {
        let sent = rig.turn_moving(3);
        [&mut old, &mut new, &mut bystander]
            .into_iter()
            .for_each(|peer| peer.take_all(&sent));
    }
    assert_eq!(old.closed, Some(CloseReason::Replaced));
    assert!(!rig.has(old.connection) && rig.has(new.connection) && rig.has(bystander.connection));
    assert!(new.closed.is_none() && bystander.closed.is_none() && new.headers.len() > 4);
    // Its last words, under way since before, do not bring it back.
    let late = old.up(vec![0]);
    rig.refuses(old.path, &late);
    // Of two that are opened the one opened later stays, though the other is heard after it.
    let mut older = join(&mut rig, 4_003, 4, &mint(&grant(), 4)).unwrap();
    let mut newest = join(&mut rig, 4_004, 5, &mint(&grant(), 5)).unwrap();
    newest.speak(&mut rig);
    older.speak(&mut rig);
    (0..6).for_each(|_| drop(rig.turn_moving(3)));
    assert!(!rig.has(new.connection) && !rig.has(older.connection) && rig.has(newest.connection));
}

/// THREATS 13: a backend whose clock is a minute off mints good tokens where they live longer than that; a wall clock that jumps
/// ends no session, since sessions know none.
#[test]
fn threats_13_a_minute_off_is_allowed_for_and_jumps_end_no_session() {
    static CLOCK_S: AtomicU64 = AtomicU64::new(10_000);
    let gate = Arc::new(Gate::new(
        keys(1),
        Whereabouts {
            audience: "arena".to_owned(),
            ..Whereabouts::default()
        },
        10_000,
        || CLOCK_S.load(Ordering::Relaxed),
    ));
    let mut rig = rig(&gate);
    CLOCK_S.store(10_100, Ordering::Relaxed);
    let minted = |at_s: u64, life_s: u64, id: u8| {
        let grant = Grant {
            issued_s: at_s,
            expires_s: at_s + life_s,
            client: u64::from(id),
            ..grant()
        };
        mint(&grant, id)
    };
    let mut slow = join(&mut rig, 4_000, 1, &minted(10_040, 120, 1)).unwrap();
    let mut fast = join(&mut rig, 4_001, 2, &minted(10_160, 120, 2)).unwrap();
    assert!(
        join(&mut rig, 4_002, 3, &minted(10_040, 30, 3)).is_err(),
        "its life is over here"
    );
    assert!(
        join(&mut rig, 4_003, 4, &minted(10_161, 300, 4)).is_err(),
        "more than a minute ahead"
    );
    assert_eq!(refused(&rig, TokenRefusal::Expired), 2);
    assert!(join(&mut rig, 4_003, 4, &minted(10_161, 60, 4)).is_err());
    assert_eq!(refused(&rig, TokenRefusal::FromTheFuture), 1);
    assert!(join(&mut rig, 4_004, 5, &minted(10_160, 300, 5)).is_ok());
    for jump_s in [3_600, 20_000, 0] {
        CLOCK_S.store(jump_s, Ordering::Relaxed);
        for peer in [&mut slow, &mut fast] {
            peer.follow(&mut rig, 5, 3);
            assert!(peer.closed.is_none() && rig.has(peer.connection));
        }
    }
}

/// THREATS 11: a token that was used is not good again at a relay that was restarted, with a backend whose clock is a minute ahead:
/// not at once, and not once the relay's clock has come to where it was minted. What is minted after that is.
#[test]
fn threats_11_a_used_token_is_not_good_again_after_a_restart() {
    static CLOCK_S: AtomicU64 = AtomicU64::new(10_000);
    let at = |now_s: u64| CLOCK_S.store(now_s, Ordering::Relaxed);
    let begun = |began_s: u64| {
        let gate = Gate::new(keys(1), Whereabouts::default(), began_s, || {
            CLOCK_S.load(Ordering::Relaxed)
        });
        rig(&Arc::new(gate))
    };
    let minted = |at_s: u64, id: u8| {
        let grant = Grant {
            issued_s: at_s,
            expires_s: at_s + 120,
            audience: String::new(),
            ..grant()
        };
        mint(&grant, id)
    };
    let (token, fresh) = (minted(10_060, 1), minted(10_063, 2));
    let mut first = begun(5_000);
    assert!(join(&mut first, 4_000, 1, &token).is_ok());
    let mut second = begun(10_001);
    for now_s in [10_001, 10_003, 10_056, 10_060, 10_179] {
        at(now_s);
        assert!(
            matches!(join(&mut second, 4_001, 2, &token), Err(Denial::Token)),
            "{now_s}"
        );
    }
    assert_eq!(refused(&second, TokenRefusal::BeforeStart), 5);
    at(10_003);
    assert!(
        join(&mut second, 4_002, 3, &fresh).is_ok(),
        "no backend is further ahead"
    );
}

/// THREATS 12: a relay tells nobody why a token is refused; its own counters say it.
#[test]
fn every_refusal_of_a_token_is_counted_by_its_reason() {
    let gate = gate();
    let mut rig = rig(&gate);
    let elsewhere = Grant {
        relays: vec!["127.0.0.1:7778".parse().unwrap()],
        ..grant()
    };
    let fleet = Grant {
        audience: "lobby".to_owned(),
        ..grant()
    };
    let early = Grant {
        issued_s: 900,
        expires_s: 1_010,
        ..grant()
    };
    let ahead = Grant {
        issued_s: 1_061,
        expires_s: 1_070,
        ..grant()
    };
    let mut forged = mint(&grant(), 5);
    *forged.sealed.last_mut().unwrap() ^= 1;
    let expired = Grant {
        issued_s: 990,
        expires_s: 1_000,
        ..grant()
    };
    let other_key = grant().mint(keys(9).minting().unwrap(), [6; 16]).unwrap();
    let missing = ConnectToken {
        sealed: Vec::new(),
        ..mint(&grant(), 7)
    };
    for (token, refusal) in [
        (mint(&elsewhere, 1), TokenRefusal::Elsewhere),
        (mint(&fleet, 2), TokenRefusal::Elsewhere),
        (mint(&early, 3), TokenRefusal::BeforeStart),
        (mint(&ahead, 8), TokenRefusal::FromTheFuture),
        (mint(&expired, 4), TokenRefusal::Expired),
        (other_key, TokenRefusal::UnknownKey),
        (missing, TokenRefusal::Missing),
        (forged, TokenRefusal::Forged),
    ] {
        let before = refused(&rig, refusal);
        assert!(matches!(join(&mut rig, 4_000, 1, &token), Err(Denial::Token)));
        assert_eq!(refused(&rig, refusal), before + 1, "{refusal}");
    }
    assert_eq!(
        (rig.shard.open(), gate.remembered()),
        (0, 0),
        "nothing was claimed"
    );
}

/// Keys rotate without dropping anyone: sessions go on, tokens of the old key are refused from then on.
#[test]
fn keys_rotate_without_dropping_anyone() {
    let gate = gate();
    let mut rig = rig(&gate);
    let mut peer = join(&mut rig, 4_000, 1, &mint(&grant(), 1)).unwrap();
    peer.speak(&mut rig);
    let next = TokenKey::new(2, [8; 32]);
    let token = grant().mint(&next, [2; 16]).unwrap();
    assert!(matches!(join(&mut rig, 4_001, 2, &token), Err(Denial::Token)));
    let both = vec![next.clone(), TokenKey::new(1, [7; 32])];
    gate.set_keys(TokenKeys::new(both).unwrap());
    assert!(join(&mut rig, 4_001, 2, &token).is_ok());
    assert!(
        join(&mut rig, 4_002, 3, &mint(&grant(), 3)).is_ok(),
        "the old one still holds"
    );
    gate.set_keys(TokenKeys::new(vec![next]).unwrap());
    assert!(matches!(
        join(&mut rig, 4_003, 4, &mint(&grant(), 4)),
        Err(Denial::Token)
    ));
    peer.headers.clear();
    peer.speak(&mut rig);
    let sent = rig.turn_moving(20);
    peer.take_all(&sent);
    assert_eq!(peer.headers.len(), 1, "the session goes on");
}

/// In insecure mode nobody brings a token: one that does is meant for another relay.
#[test]
fn an_insecure_relay_takes_no_token() {
    let mut rig = Rig::new(4, Tick(1));
    assert!(matches!(
        join(&mut rig, 4_000, 1, &mint(&grant(), 1)),
        Err(Denial::Token)
    ));
}
