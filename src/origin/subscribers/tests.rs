use super::*;
use crate::limits::SLOTS_MAX;
use crate::state::entity::Entity;
use crate::state::sample::WorldSample;
use crate::state::schema::tests::full_schema;
use crate::state::update::Spawn;
use crate::upstream::subscriber::{Subscriber, SubscriberEvent};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn publisher() -> Publisher {
    Publisher::new(full_schema(), 1, 2, 3).unwrap()
}

fn tick(publisher: &mut Publisher, server_us: u64) -> Published {
    publisher.publish(
        &WorldSample {
            server_us,
            ..WorldSample::default()
        },
        0,
    )
}

/// Everything queued for a subscriber, in one piece.
fn drain(subscribers: &mut Subscribers, id: SubscriberId) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(message) = subscribers.take(id) {
        bytes.extend_from_slice(&message);
    }
    bytes
}

fn events(subscriber: &mut Subscriber, bytes: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    subscriber.receive(bytes, &mut events);
    let name = |event: &SubscriberEvent| match event {
        SubscriberEvent::Stream(_) => "stream".to_owned(),
        SubscriberEvent::Tick(update) => {
            format!(
                "{} {}",
                if update.keyframe { "keyframe" } else { "tick" },
                update.origin_tick
            )
        }
        SubscriberEvent::Refused(text) | SubscriberEvent::Malformed(text) => text.clone(),
        SubscriberEvent::Ended => "ended".to_owned(),
    };
    events.iter().map(name).collect()
}

#[test]
fn several_subscribers_share_ticks_and_join_at_any_time() {
    let mut publisher = publisher();
    let mut subscribers = Subscribers::new(Vec::new());
    let mut first = Subscriber::new(Vec::new());
    let mut second = Subscriber::new(b"ignored where none is expected".to_vec());
    let one = subscribers.open(HERE, 0).0;
    for piece in first.start().chunks(3) {
        subscribers.receive(one, piece, 0, &publisher);
    }
    let published = tick(&mut publisher, 50_000);
    subscribers.publish(&published, 0, &publisher);
    let two = subscribers.open(HERE, 0).0;
    subscribers.receive(two, &second.start(), 0, &publisher);
    let published = tick(&mut publisher, 100_000);
    subscribers.publish(&published, 0, &publisher);
    assert_eq!((subscribers.served(), subscribers.ids().count()), (2, 2));
    subscribers.end(0);
    assert_eq!(
        events(&mut first, &drain(&mut subscribers, one)),
        ["stream", "keyframe 0", "tick 1", "tick 2", "ended"]
    );
    assert_eq!(
        events(&mut second, &drain(&mut subscribers, two)),
        ["stream", "keyframe 1", "tick 2", "ended"]
    );
    assert_eq!(
        (subscribers.closing(one), subscribers.served()),
        (Some(Dropped::Ended), 0)
    );
    subscribers.close(one);
    assert_eq!((subscribers.closing(one), subscribers.ids().count()), (None, 1));
}

/// SPEC OPS1: a subscriber that takes nothing is dropped by age or by bytes, and the others never notice.
#[test]
fn ops1_a_slow_subscriber_is_dropped_and_not_waited_for() {
    let mut publisher = publisher();
    let mut subscribers = Subscribers::new(Vec::new());
    let ids = [subscribers.open(HERE, 0).0, subscribers.open(HERE, 0).0];
    for id in ids {
        subscribers.receive(id, &Subscriber::new(Vec::new()).start(), 0, &publisher);
    }
    let mut now_us = 0;
    while subscribers.closing(ids[0]).is_none() {
        now_us += 50_000;
        let published = tick(&mut publisher, now_us);
        subscribers.publish(&published, now_us, &publisher);
        assert!(!drain(&mut subscribers, ids[1]).is_empty());
    }
    assert_eq!(now_us, SUBSCRIBER_LAG_MAX_US + 50_000);
    assert_eq!(
        (subscribers.closing(ids[0]), subscribers.closing(ids[1])),
        (Some(Dropped::Slow), None)
    );
    assert!(subscribers.take(ids[0]).is_none(), "its queue is given back");

    let spawned = (0..SLOTS_MAX as u32).map(|id| Spawn {
        entity: Entity { id, generation: 0 },
        class: 0,
        at_us: 0,
    });
    let full = WorldSample {
        server_us: now_us,
        spawned: spawned.collect(),
        ..WorldSample::default()
    };
    assert_eq!(publisher.publish(&full, 0).errors, []);
    let id = subscribers.open(HERE, now_us).0;
    subscribers.receive(id, &Subscriber::new(Vec::new()).start(), now_us, &publisher);
    let mut resync = Vec::new();
    ToOrigin::Resync.encode(&mut resync);
    for _ in 0..200 {
        now_us += RESYNC_GAP_US / 8;
        subscribers.receive(id, &resync, now_us, &publisher);
        let published = tick(&mut publisher, now_us);
        subscribers.publish(&published, now_us, &publisher);
        let member = &subscribers.members[&id];
        assert!(member.queued_bytes <= SUBSCRIBER_QUEUE_MAX);
        assert_eq!(
            member.queued_bytes,
            member
                .queue
                .iter()
                .map(|(_, message)| message.len())
                .sum::<usize>()
        );
    }
    assert_eq!(subscribers.closing(id), Some(Dropped::Slow));
}

/// Keyframes on request come at once, then at most every 100 ms; a request in between is kept, not lost.
#[test]
fn resyncs_are_honoured_but_not_more_often_than_the_gap() {
    let mut publisher = publisher();
    let mut subscribers = Subscribers::new(Vec::new());
    let mut subscriber = Subscriber::new(Vec::new());
    let id = subscribers.open(HERE, 0).0;
    subscribers.receive(id, &subscriber.start(), 0, &publisher);
    let mut resync = Vec::new();
    ToOrigin::Resync.encode(&mut resync);
    subscribers.receive(id, &resync.repeat(50), 40_000, &publisher);
    for now_us in [50_000, 100_000, 150_000] {
        let published = tick(&mut publisher, now_us);
        subscribers.publish(&published, now_us, &publisher);
    }
    subscribers.receive(id, &resync, 200_000, &publisher);
    assert_eq!(
        events(&mut subscriber, &drain(&mut subscribers, id)),
        [
            "stream",
            "keyframe 0",
            "tick 1",
            "tick 2",
            "keyframe 2",
            "tick 3",
            "keyframe 3"
        ]
    );
}

/// THREATS 82: who is not admitted is told why in one sentence and gets nothing else.
#[test]
fn threats_82_who_is_not_admitted_is_told_why() {
    let publisher = publisher();
    let mut subscribers = Subscribers::new(b"secret".to_vec());
    let mut refuse = |bytes: &[u8]| {
        let id = subscribers.open(HERE, 0).0;
        subscribers.receive(id, bytes, 0, &publisher);
        let mut subscriber = Subscriber::new(Vec::new());
        let _ = subscriber.start();
        let texts = events(&mut subscriber, &drain(&mut subscribers, id));
        assert_eq!(texts.len(), 1, "{texts:?}");
        (subscribers.closing(id).map(Dropped::reason), texts[0].clone())
    };
    let mut other_version = Subscriber::new(b"secret".to_vec()).start();
    other_version[9] = 9;
    let good = Subscriber::new(b"secret".to_vec()).start();
    let mut resync = Vec::new();
    ToOrigin::Resync.encode(&mut resync);
    let refused = |code: u16, text: &str| format!("the origin refused this subscriber (code {code}): {text}");
    assert_eq!(
        refuse(&other_version),
        (
            Some("version"),
            refused(
                1,
                "upstream subscribe refused: it is of protocol version 9, but version 2 is spoken here: run versions that match; this origin speaks version 2"
            )
        )
    );
    for token in [&b""[..], b"secre", b"secret!", b"Secret"] {
        let text = "the token is not the one this origin expects: give the subscriber the origin's token";
        assert_eq!(
            refuse(&Subscriber::new(token.to_vec()).start()),
            (Some("token"), refused(2, text))
        );
    }
    let text = "upstream resync refused: no subscribe came before it";
    assert_eq!(refuse(&resync), (Some("malformed"), refused(4, text)));
    let text = "upstream subscribe refused: this connection has subscribed already";
    assert_eq!(
        refuse(&[&good[..], &good].concat()),
        (Some("malformed"), refused(4, text))
    );
    let (reason, text) = refuse(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(reason, Some("malformed"));
    assert!(text.contains("the length prefix is broken"), "{text}");
}

fn processed(player: u64, sequence: u32) -> Directive {
    Directive {
        player,
        order: Order::Processed(sequence),
    }
}

/// SPEC PRE2, PRE4: directives reach the subscriber whose player they are for, with the next tick, whatever keyframe is
/// sent in between; for nobody else, and not without bound.
#[test]
fn pre4_directives_go_with_the_next_tick_to_the_players_subscriber_alone() {
    let mut publisher = publisher();
    let mut subscribers = Subscribers::new(Vec::new());
    let mut sides: Vec<(SubscriberId, Subscriber)> = Vec::new();
    for player in [7, 8] {
        let (id, mut subscriber) = (subscribers.open(HERE, 0).0, Subscriber::new(Vec::new()));
        subscribers.receive(id, &subscriber.start(), 0, &publisher);
        subscriber.receive(&drain(&mut subscribers, id), &mut Vec::new());
        subscriber.tell(&[PlayerEvent::Joined(player, 0)]);
        subscribers.receive(id, &subscriber.take_outgoing(), 0, &publisher);
        assert_eq!(
            subscribers.next_player_event(),
            Some((id, PlayerEvent::Joined(player, 0)))
        );
        sides.push((id, subscriber));
    }
    let [one, two] = [sides[0].0, sides[1].0];
    assert!(subscribers.direct(one, processed(7, 3)));
    assert!(!subscribers.direct(one, processed(8, 3)) && !subscribers.direct(two, processed(7, 3)));
    let long = Order::Message {
        kind: 1,
        payload: vec![0; EVENT_BYTES_MAX + 1],
    };
    assert!(!subscribers.direct(
        one,
        Directive {
            player: 7,
            order: long
        }
    ));
    let mut resync = Vec::new();
    ToOrigin::Resync.encode(&mut resync);
    subscribers.receive(one, &resync, RESYNC_GAP_US, &publisher);
    let published = tick(&mut publisher, 50_000);
    subscribers.publish(&published, RESYNC_GAP_US, &publisher);
    let mut ticks = |id, subscriber: &mut Subscriber| -> Vec<(bool, Vec<Directive>)> {
        let mut events = Vec::new();
        subscriber.receive(&drain(&mut subscribers, id), &mut events);
        let tick = |event| match event {
            SubscriberEvent::Tick(update) => Some((update.keyframe, update.directives)),
            _ => None,
        };
        events.into_iter().filter_map(tick).collect()
    };
    assert_eq!(
        ticks(one, &mut sides[0].1),
        [(true, vec![]), (false, vec![processed(7, 3)])]
    );
    assert_eq!(ticks(two, &mut sides[1].1), [(false, vec![])]);

    let room = DIRECTIVES_TICK_BYTES_MAX / processed(7, 0).bytes();
    let taken = (0..room as u32 + 9)
        .filter(|n| subscribers.direct(one, processed(7, *n)))
        .count();
    assert_eq!(taken, room);
    subscribers.close(one);
    assert_eq!(subscribers.next_player_event(), Some((one, PlayerEvent::Left(7))));
    assert!(!subscribers.direct(one, processed(7, 3)) && subscribers.next_player_event().is_none());
}

/// Who has not subscribed, or only watches, has no players.
#[test]
fn players_are_taken_of_relays_alone() {
    let publisher = publisher();
    let mut subscribers = Subscribers::new(Vec::new());
    let mut players = Vec::new();
    ToOrigin::Players(vec![PlayerEvent::Joined(1, 0)]).encode(&mut players);
    let stranger = subscribers.open(HERE, 0).0;
    subscribers.receive(stranger, &players, 0, &publisher);
    let watcher = subscribers.open(HERE, 0).0;
    subscribers.receive(
        watcher,
        &Subscriber::with_flags(Vec::new(), OBSERVER).start(),
        0,
        &publisher,
    );
    assert_eq!(subscribers.closing(watcher), None);
    subscribers.receive(watcher, &players, 0, &publisher);
    for id in [stranger, watcher] {
        assert_eq!(subscribers.closing(id), Some(Dropped::Malformed));
    }
    assert_eq!(subscribers.next_player_event(), None);
}

#[test]
fn connections_are_bounded_in_number_and_in_silence() {
    let mut publisher = publisher();
    let mut subscribers = Subscribers::new(Vec::new());
    let ids: Vec<SubscriberId> = (0..3).map(|_| subscribers.open(HERE, 0).0).collect();
    let mut subscriber = Subscriber::new(Vec::new());
    subscribers.receive(ids[0], &subscriber.start(), 0, &publisher);
    assert_eq!(
        events(&mut subscriber, &drain(&mut subscribers, ids[0])),
        ["stream", "keyframe 0"]
    );
    let now_us = SUBSCRIBE_WITHIN_US + 1;
    let published = tick(&mut publisher, now_us);
    subscribers.publish(&published, now_us - 1, &publisher);
    assert_eq!(subscribers.closing(ids[1]), None);
    subscribers.publish(&published, now_us, &publisher);
    assert_eq!(subscribers.closing(ids[1]), Some(Dropped::Silent));
    assert_eq!(subscribers.closing(ids[0]), None);
    for id in ids {
        subscribers.close(id);
    }
    assert!(subscribers.waiting.is_empty());

    let serve = |subscribers: &mut Subscribers| {
        let id = subscribers.open(HERE, now_us).0;
        let mut subscriber = Subscriber::new(Vec::new());
        subscribers.receive(id, &subscriber.start(), now_us, &publisher);
        let events = events(&mut subscriber, &drain(subscribers, id));
        (id, events)
    };
    for _ in 0..SUBSCRIBERS_MAX {
        assert_eq!(serve(&mut subscribers).1, ["stream", "keyframe 1"]);
    }
    let (full, said) = serve(&mut subscribers);
    assert_eq!(
        said,
        [
            "the origin refused this subscriber (code 3): this origin serves its maximum of 64 subscribers: try again later"
        ]
    );
    assert_eq!(subscribers.closing(full), Some(Dropped::Full));
}

/// THREATS 82: connections that do not subscribe, or show a wrong token, have places of their own, and the longest waiting
/// makes room: who shows the token is served beside any number of them, also where many hosts send them.
#[test]
fn threats_82_who_does_not_subscribe_keeps_nobody_out() {
    let publisher = publisher();
    let mut subscribers = Subscribers::new(b"sesame".to_vec());
    let wrong = Subscriber::new(b"simsim".to_vec()).start();
    let honest = IpAddr::from([198, 51, 100, 1]);
    let waits = subscribers.open(honest, 0).0;
    let mut gone = 0;
    for number in 0..3_000_u32 {
        let from = IpAddr::from([203, 0, 113, (number % 100) as u8]);
        let (id, crowded) = subscribers.open(from, 0);
        if number % 2 == 0 {
            subscribers.receive(id, &wrong, 0, &publisher);
        }
        if let Some(crowded) = crowded {
            assert_eq!(subscribers.closing(crowded), Some(Dropped::Crowded));
            assert!(subscribers.take(crowded).is_none(), "and its memory is free");
            gone += 1;
        }
    }
    assert_eq!(subscribers.waiting.len(), SUBSCRIBERS_WAITING_MAX);
    assert_eq!(gone, 3_001 - SUBSCRIBERS_WAITING_MAX);
    let mut subscriber = Subscriber::new(b"sesame".to_vec());
    subscribers.receive(waits, &subscriber.start(), 0, &publisher);
    assert_eq!(
        events(&mut subscriber, &drain(&mut subscribers, waits)),
        ["stream", "keyframe 0"]
    );
    assert_eq!(
        (subscribers.served(), subscribers.waiting.len()),
        (1, SUBSCRIBERS_WAITING_MAX - 1),
        "who is served waits no more"
    );
    assert_eq!(subscribers.make_room().len(), SUBSCRIBERS_WAITING_MAX / 8);
}
