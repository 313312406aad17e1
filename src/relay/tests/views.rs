//! What a client may not do to its view, and what a shard does when it has too little: of time, of bytes.

use super::peer::{Batch, Peer, Rig};
use crate::relay::arena::tests::moved;
use crate::relay::budget::Budget;
use crate::relay::counters::Withheld;
use crate::relay::overload::LEVEL_MAX;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent};
use crate::state::update::{Event, TickUpdate};
use crate::state::view::{Range, Scope, View};
use crate::wire::bytes::ByteWriter;
use crate::wire::input::put_inputs;
use crate::wire::payload;

fn assign(peer: &Peer, id: Option<u32>, scope: Option<Scope>) -> Directive {
    Directive {
        player: peer.connection,
        order: Order::Assign {
            entity: id.map(|id| Entity { id, generation: 0 }),
            view: scope.map(|scope| View {
                scope,
                tags: u32::MAX,
            }),
        },
    }
}

fn near() -> Range {
    Range::new(100, 150).unwrap()
}

/// The first entity is at one end of the world, all others at the other.
fn apart(us: u64, count: u32) -> TickUpdate {
    let mut update = moved(us, 0..count, 19_000);
    let first = update.observed.first_mut().unwrap().motion.as_mut().unwrap();
    first.position = [0; 3];
    update
}

fn members(rig: &Rig, peer: &Peer) -> Vec<u16> {
    let interest = rig.session(peer.connection).interest.as_ref().unwrap();
    interest.members().iter().map(|member| member.slot).collect()
}

/// SPEC CTL2, THREATS 39: a record that is asked for by name is not sent to whom it is hidden from.
#[test]
fn ctl2_what_is_out_of_view_is_not_had_by_asking() {
    let mut rig = Rig::new(40, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    let told = assign(&peer, Some(0), Some(Scope::Owner(near())));
    let sent = rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..apart(us, 40)
    });
    peer.take_all(&sent);
    for _ in 0..60 {
        peer.speak(&mut rig);
        let sent = rig.turn(|us| apart(us, 40));
        peer.take_all(&sent);
    }
    assert_eq!(members(&rig, &peer), [0]);
    peer.headers.clear();
    for _ in 0..60 {
        let mut report = peer.report();
        report.requests = vec![(1, 0), (2, 0), (39, 0)];
        let datagram = peer.say(&report);
        assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
        let sent = rig.turn(|us| apart(us, 40));
        peer.take_all(&sent);
    }
    // Its own record, every two seconds.
    let entries: u32 = peer.headers.iter().map(|header| header.count).sum();
    assert!(peer.headers.len() >= 60 && entries <= 6, "{entries} entries");
}

/// SPEC TAB8: a view that takes several datagrams, and fits the budget, comes whole at each tick, nobody left out or twice.
#[test]
fn tab8_a_view_of_several_datagrams_comes_whole() {
    let mut rig = Rig::new(300, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    let told = assign(&peer, Some(0), Some(Scope::Whole));
    let moving = |us: u64| moved(us, 0..300, u32::try_from(us / 1_000 % 10_000).unwrap());
    let sent = rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..moving(us)
    });
    peer.take_all(&sent);
    for step in 0..60 {
        if step == 40 {
            peer.headers.clear();
        }
        peer.speak(&mut rig);
        let sent = rig.turn(moving);
        peer.take_all(&sent);
    }
    let mut ticks = std::collections::BTreeMap::<u32, (u32, u32)>::new();
    for header in &peer.headers {
        let (parts, entries) = ticks.entry(header.id.0).or_default();
        (*parts, *entries) = (*parts + 1, *entries + header.count);
        assert!(header.exhaustive, "{header:?}");
    }
    assert!(ticks.len() >= 10, "{ticks:?}");
    // All but its own, whose motion goes beside the snapshots.
    let whole = |(parts, entries): &(u32, u32)| *parts > 1 && (299..=300).contains(entries);
    assert!(ticks.values().all(whole), "{ticks:?}");
}

/// A client moves a free camera, within the world; it never moves or widens any other view.
#[test]
fn a_camera_moves_the_view_that_the_server_made_free_and_no_other() {
    let mut rig = Rig::new(40, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    let far = moved(0, [1], 19_000).observed[0].motion.unwrap().position;
    let try_camera = |rig: &mut Rig, peer: &mut Peer, position: [u32; 3]| {
        for _ in 0..5 {
            let report = peer.report();
            let mut bytes = vec![payload::REPORT | payload::CAMERA];
            report.encode(&mut bytes);
            position.iter().for_each(|q| bytes.put_u32(*q));
            let datagram = peer.up(bytes);
            assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
            let sent = rig.turn(|us| apart(us, 40));
            peer.take_all(&sent);
        }
    };
    peer.speak(&mut rig);
    let told = assign(&peer, Some(0), Some(Scope::Owner(near())));
    let sent = rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..apart(us, 40)
    });
    peer.take_all(&sent);
    try_camera(&mut rig, &mut peer, far);
    assert_eq!(members(&rig, &peer), [0], "the view is around its own entity");
    let told = assign(&peer, Some(0), Some(Scope::Camera(near())));
    rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..apart(us, 40)
    });
    try_camera(&mut rig, &mut peer, [u32::MAX; 3]);
    assert_eq!(members(&rig, &peer), [0], "a place out of the world is no place");
    try_camera(&mut rig, &mut peer, far);
    assert!(members(&rig, &peer).len() > 1, "the camera is free");
    let mut events = Vec::new();
    rig.shard.take_player_events(&mut events);
    let joined = events
        .iter()
        .filter(|event| matches!(event, PlayerEvent::Joined(..)))
        .count();
    let cameras = events
        .iter()
        .filter(|event| matches!(event, PlayerEvent::Camera { .. }))
        .count();
    assert_eq!(
        (joined, cameras),
        (1, 1),
        "the origin is told what was taken: {events:?}"
    );
}

/// SPEC CTL4, TAB7: a view that goes elsewhere while it is not complete yet becomes complete there: a base full of those who
/// were left behind is no progress.
#[test]
fn tab7_a_view_that_moves_while_joining_becomes_complete() {
    let mut rig = Rig::with(800, Tick(1), |settings| settings.budget = Budget::of_rate(8_000));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    let reach = Scope::Owner(Range::new(1_000, 1_000).unwrap());
    let told = assign(&peer, Some(0), Some(reach));
    let sent = rig.turn(|us| {
        let mut update = moved(us, 0..800, 0);
        for observed in update.observed.iter_mut().skip(400) {
            observed.motion.as_mut().unwrap().position[0] = 19_000;
        }
        update.directives = vec![told];
        update
    });
    peer.take_all(&sent);
    let play = |rig: &mut Rig, peer: &mut Peer, turns: u32, told: Option<Directive>| {
        let mut told = told;
        for _ in 0..turns {
            peer.speak(rig);
            let sent = rig.turn(|us| TickUpdate {
                server_us: us,
                directives: told.take().into_iter().collect(),
                ..TickUpdate::default()
            });
            peer.take_all(&sent);
        }
    };
    play(&mut rig, &mut peer, 5, None);
    assert!(!rig.session(peer.connection).whole, "not all of it came yet");
    let told = assign(&peer, Some(600), None);
    play(&mut rig, &mut peer, 200, Some(told));
    assert!(rig.session(peer.connection).whole);
    assert_eq!(members(&rig, &peer).len(), 400);
}

/// SPEC ID1, PLY7: what is assigned with the first ticks of a new stream holds, though the client has not heard of it yet.
#[test]
fn ply7_an_entity_assigned_with_a_new_stream_stays_assigned() {
    let mut rig = Rig::new(40, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    let told = assign(&peer, Some(3), Some(Scope::Owner(near())));
    let sent = rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..apart(us, 40)
    });
    peer.take_all(&sent);
    let owner = |rig: &Rig, peer: &Peer| rig.session(peer.connection).interest.as_ref().unwrap().owner();
    rig.restart_origin(40);
    assert_eq!(owner(&rig, &peer), None, "an entity of the old stream");
    let told = assign(&peer, Some(0), None);
    let sent = rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..apart(us, 40)
    });
    peer.take_all(&sent);
    for _ in 0..5 {
        peer.speak(&mut rig);
        let sent = rig.turn(|us| apart(us, 40));
        peer.take_all(&sent);
    }
    assert_eq!(owner(&rig, &peer).map(|entity| entity.id), Some(0));
    assert_eq!(members(&rig, &peer), [0]);
}

/// SPEC CTL1: a view around an own entity never stands where a camera was, nor does a camera begin where one was long ago:
/// both look at where the own entity was last.
#[test]
fn ctl1_a_camera_of_long_ago_is_no_centre() {
    let mut rig = Rig::new(40, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    let far = moved(0, [1], 19_000).observed[0].motion.unwrap().position;
    let order = |rig: &mut Rig, peer: &mut Peer, id: Option<u32>, scope: Scope| {
        let told = assign(peer, id, Some(scope));
        let sent = rig.turn(|us| TickUpdate {
            directives: vec![told],
            ..apart(us, 40)
        });
        peer.take_all(&sent);
        peer.speak(rig);
        members(rig, peer)
    };
    peer.speak(&mut rig);
    assert_eq!(order(&mut rig, &mut peer, Some(0), Scope::Camera(near())), [0]);
    let mut bytes = vec![payload::REPORT | payload::CAMERA];
    peer.report().encode(&mut bytes);
    far.iter().for_each(|q| bytes.put_u32(*q));
    let datagram = peer.up(bytes);
    assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
    let sent = rig.turn(|us| apart(us, 40));
    peer.take_all(&sent);
    assert!(members(&rig, &peer).len() > 1, "the camera is far");
    assert_eq!(order(&mut rig, &mut peer, None, Scope::Owner(near())), [0]);
    assert_eq!(order(&mut rig, &mut peer, None, Scope::Camera(near())), [0]);
}

/// SPEC CTL3: of frames that come at once, what befell before the view was changed is heard by the view that held then, and what
/// befalls afterwards by the new one.
#[test]
fn ctl3_what_befell_before_the_view_changed_is_heard() {
    let mut rig = Rig::new(40, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    for _ in 0..20 {
        peer.speak(&mut rig);
        let sent = rig.turn(|us| apart(us, 40));
        peer.take_all(&sent);
    }
    let event = |us| Event {
        kind: 1,
        critical: false,
        entity: Some(Entity { id: 5, generation: 0 }),
        at_us: us,
        payload: vec![7],
    };
    let befalls = |us| TickUpdate {
        events: vec![event(us)],
        ..apart(us, 40)
    };
    let told = assign(&peer, Some(0), Some(Scope::Owner(near())));
    let before = rig.shard.counters().events_queued;
    rig.publish(befalls);
    rig.publish(|us| TickUpdate {
        directives: vec![told],
        ..apart(us, 40)
    });
    rig.turn(|us| apart(us, 40));
    assert_eq!(members(&rig, &peer), [0]);
    assert_eq!(rig.shard.counters().events_queued, before + 1);
    rig.publish(befalls);
    rig.turn(|us| apart(us, 40));
    assert_eq!(rig.shard.counters().events_queued, before + 1, "out of view");
}

/// SPEC PRE4: inputs are part of the datagram that is opened; a malformed block takes nothing with it but itself.
#[test]
fn pre4_inputs_ride_in_a_datagram_and_are_acknowledged() {
    let mut rig = Rig::new(4, Tick(1));
    let mut peer = Peer::join(&mut rig, 4_000);
    let say = |rig: &mut Rig, peer: &mut Peer, spoil: bool| {
        let mut bytes = vec![payload::REPORT | payload::INPUTS];
        peer.report().encode(&mut bytes);
        put_inputs(1, [&b"a"[..], b"b"].into_iter(), &mut bytes);
        if spoil {
            bytes.pop();
        }
        let datagram = peer.up(bytes);
        rig.hear(peer.path, &datagram).0
    };
    assert!(matches!(say(&mut rig, &mut peer, true), Receipt::Refused(_)));
    let mut events = Vec::new();
    rig.shard.take_player_events(&mut events);
    assert_eq!(events, [], "a refused datagram joins nobody and says nothing");
    assert_eq!(say(&mut rig, &mut peer, false), Receipt::Taken);
    assert_eq!(say(&mut rig, &mut peer, false), Receipt::Taken);
    rig.shard.take_player_events(&mut events);
    assert!(matches!(
        events[..],
        [
            PlayerEvent::Joined(..),
            PlayerEvent::Input { .. },
            PlayerEvent::Input { .. }
        ]
    ));
    let counters = rig.shard.counters();
    assert_eq!((counters.inputs_taken, counters.inputs_repeated), (2, 2));
    peer.headers.clear();
    let sent = rig.turn_moving(1);
    peer.take_all(&sent);
    assert_eq!(peer.inputs_acknowledged, Some(3));
}

/// SPEC OPS1, THREATS 93: a shard that does not keep up serves spectators less, then players; critical events come all the same, and
/// it recovers by itself.
#[test]
fn ops1_an_overloaded_shard_slows_spectators_first_and_recovers() {
    let mut rig = Rig::new(60, Tick(1));
    let mut player = Peer::join(&mut rig, 4_000);
    let mut spectator = Peer::join(&mut rig, 4_001);
    player.speak(&mut rig);
    spectator.speak(&mut rig);
    let told = assign(&player, Some(0), None);
    rig.turn(|us| TickUpdate {
        directives: vec![told],
        ..moved(us, 0..60, 5)
    });
    let settle = |rig: &mut Rig, player: &mut Peer, spectator: &mut Peer, ticks: u32| {
        for _ in 0..ticks {
            player.speak(rig);
            spectator.speak(rig);
            let sent = rig.turn_moving(60);
            player.take_all(&sent);
            spectator.take_all(&sent);
        }
    };
    settle(&mut rig, &mut player, &mut spectator, 30);
    // A burst of the upstream's is no overload: what comes together was never begun.
    for _ in 0..5 {
        (0..4).for_each(|_| rig.publish_moving(60));
        rig.turn_moving(60);
    }
    assert_eq!(rig.shard.overload_level(), 0);
    let player_path = player.path;
    let level = |rig: &mut Rig, wanted: u8| {
        for _ in 0..50 {
            if rig.shard.overload_level() == wanted {
                return;
            }
            // One frame comes while another is being served: there was no room for one of the two.
            rig.publish_moving(60);
            let mut full = Batch::default();
            full.sent.extend((0..40).map(|_| (player_path, Vec::new())));
            assert!(rig.shard.transmit(rig.now_us, &mut full));
            assert_eq!(rig.shard.unserved(), 1);
            rig.turn_moving(60);
            rig.turn_moving(60);
        }
        panic!("level {} and not {wanted}", rig.shard.overload_level());
    };
    level(&mut rig, 2);
    player.headers.clear();
    spectator.headers.clear();
    settle(&mut rig, &mut player, &mut spectator, 32);
    let (played, watched) = (player.headers.len(), spectator.headers.len());
    assert!(
        played >= 31 && watched <= 10,
        "{played} to the player, {watched} to the spectator"
    );
    assert!(rig.shard.counters().withheld[Withheld::Overload as usize] >= 20);
    // A critical event goes in a datagram of its own where no snapshot does.
    let before = spectator.messages;
    let event = Event {
        kind: 1,
        critical: true,
        entity: None,
        at_us: 0,
        payload: vec![7],
    };
    let sent = rig.turn(|us| TickUpdate {
        events: vec![event],
        ..moved(us, 0..60, 6)
    });
    spectator.take_all(&sent);
    settle(&mut rig, &mut player, &mut spectator, 1);
    assert!(spectator.messages > before);
    settle(&mut rig, &mut player, &mut spectator, 45 * u32::from(LEVEL_MAX));
    assert_eq!(rig.shard.overload_level(), 0);
    spectator.headers.clear();
    settle(&mut rig, &mut player, &mut spectator, 20);
    assert!(spectator.headers.len() >= 20);
}

/// A cap on all that a shard sends is shared: nobody gets more than half above another, and it holds.
#[test]
fn ops5_an_egress_cap_is_shared_fairly() {
    const CAP: u64 = 40_000;
    let mut rig = Rig::with(400, Tick(1), |settings| settings.egress_bytes_per_s = Some(CAP));
    let mut peers: Vec<Peer> = (0..10).map(|index| Peer::join(&mut rig, 4_000 + index)).collect();
    let run = |rig: &mut Rig, peers: &mut Vec<Peer>, ticks: u32| {
        for _ in 0..ticks {
            peers.iter_mut().for_each(|peer| peer.speak(rig));
            let sent = rig.turn_moving(400);
            peers.iter_mut().for_each(|peer| peer.take_all(&sent));
        }
    };
    run(&mut rig, &mut peers, 400);
    peers.iter_mut().for_each(|peer| peer.bytes = 0);
    let before = rig.shard.counters().bytes_sent;
    run(&mut rig, &mut peers, 400);
    let rate = (rig.shard.counters().bytes_sent - before) / 20;
    assert!(
        (CAP * 8 / 10..=CAP * 21 / 20).contains(&rate),
        "{rate} bytes a second under a cap of {CAP}"
    );
    let bytes: Vec<usize> = peers.iter().map(|peer| peer.bytes).collect();
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most * 2 <= least * 3, "{bytes:?}");
}

/// SPEC OPS5: what goes without a snapshot is within the budget too. A client that is sent a stream of messages and
/// acknowledges none of them costs its rate, in any second, and no more.
#[test]
fn ops5_messages_without_a_snapshot_are_within_the_budget() {
    let budget = Budget::of_rate(8_000);
    let mut rig = Rig::with(4, Tick(1), |settings| settings.budget = budget);
    let mut peer = Peer::join(&mut rig, 4_000);
    peer.speak(&mut rig);
    let mut sent: Vec<(u64, usize)> = Vec::new();
    let player = peer.connection;
    let message = |number: u8| Directive {
        player,
        order: Order::Message {
            kind: 1,
            payload: vec![number; 250],
        },
    };
    let mut next = 0;
    for step in 0..1_200u64 {
        // A tick now and then, so that most is sent by the timers; reports come, and acknowledge no message.
        let datagrams = if step % 40 == 0 {
            let told = (0..4).map(|n| message(next + n)).collect();
            next = (next + 4) % 200;
            rig.turn(|us| TickUpdate {
                directives: told,
                ..moved(us, 0..4, 5)
            })
        } else {
            rig.now_us += 10_000;
            rig.due()
        };
        sent.extend(datagrams.iter().map(|(_, bytes)| (rig.now_us, bytes.len())));
        if step % 20 == 0 {
            let mut report = peer.report();
            report.next_message = 0;
            let datagram = peer.say(&report);
            assert_eq!(rig.hear(peer.path, &datagram).0, Receipt::Taken);
        }
    }
    let total: usize = sent.iter().map(|(_, bytes)| bytes).sum();
    assert!(total > 40_000, "{total} bytes: the messages do go");
    for (index, (from, _)) in sent.iter().enumerate() {
        let within = sent[index..].iter().take_while(|(at, _)| *at < from + 1_000_000);
        let bytes: usize = within.map(|(_, bytes)| bytes).sum();
        assert!(bytes <= 8_000 + 1_200, "{bytes} bytes in the second from {from}");
    }
}
