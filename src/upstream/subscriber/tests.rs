use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::state::entity::Entity;
use crate::state::player::Order;
use crate::state::schema::tests::full_schema;
use crate::state::update::Spawn;
use crate::upstream::message::{Refuse, RefuseCode};

fn hello(epoch: u64, boot: u64) -> FromOrigin {
    let schema = schema::encode(&full_schema()).unwrap();
    FromOrigin::Hello(Hello {
        epoch,
        boot,
        clock_id: 3,
        accepts: 0,
        schema,
    })
}

fn tick(origin_tick: u64, keyframe: bool) -> FromOrigin {
    let spawned = vec![Spawn {
        entity: Entity { id: 1, generation: 0 },
        class: 0,
        at_us: 0,
    }];
    let server_us = origin_tick * 50_000;
    FromOrigin::Tick(TickUpdate {
        origin_tick,
        server_us,
        keyframe,
        spawned,
        ..TickUpdate::default()
    })
}

fn bytes(messages: &[FromOrigin]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    bytes
}

fn receive(subscriber: &mut Subscriber, bytes: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    subscriber.receive(bytes, &mut events);
    events.iter().map(short).collect()
}

/// An event in a few characters; refusals in full.
fn short(event: &SubscriberEvent) -> String {
    match event {
        SubscriberEvent::Stream(stream) if stream.continued => format!("continued {}", stream.epoch),
        SubscriberEvent::Stream(stream) => format!("stream {}", stream.epoch),
        SubscriberEvent::Tick(update) if update.keyframe => format!("keyframe {}", update.origin_tick),
        SubscriberEvent::Tick(update) => format!("tick {}", update.origin_tick),
        SubscriberEvent::Refused(text) => format!("refused: {text}"),
        SubscriberEvent::Ended => "ended".into(),
        SubscriberEvent::Malformed(text) => format!("malformed: {text}"),
    }
}

fn resync() -> Vec<u8> {
    let mut bytes = Vec::new();
    ToOrigin::Resync.encode(&mut bytes);
    bytes
}

/// A subscriber that has had a hello and keyframe 5 of epoch 1.
fn live() -> Subscriber {
    let mut subscriber = Subscriber::new(b"token".to_vec());
    let start = subscriber.start();
    let expected = Subscribe {
        flags: 0,
        token: b"token".to_vec(),
    };
    assert_eq!(
        ToOrigin::decode(&start[4..]),
        Ok(Some(ToOrigin::Subscribe(expected)))
    );
    assert_eq!(
        receive(&mut subscriber, &bytes(&[hello(1, 1), tick(5, true)])),
        ["stream 1", "keyframe 5"]
    );
    subscriber
}

#[test]
fn a_stream_comes_out_the_same_however_it_is_cut() {
    let stream = bytes(&[
        hello(1, 2),
        tick(0, true),
        tick(1, false),
        tick(2, false),
        FromOrigin::End,
    ]);
    for step in [1, 7, 64, stream.len()] {
        let mut subscriber = Subscriber::new(Vec::new());
        let _ = subscriber.start();
        let events: Vec<String> = stream
            .chunks(step)
            .flat_map(|piece| receive(&mut subscriber, piece))
            .collect();
        assert_eq!(events, ["stream 1", "keyframe 0", "tick 1", "tick 2", "ended"]);
        assert!(subscriber.is_closed() && subscriber.take_outgoing().is_empty());
        assert_eq!(subscriber.counts().bytes, stream.len() as u64);
    }
}

/// THREATS 83: one malformed message is refused with a sentence and a keyframe asked for; the stream goes on.
#[test]
fn threats_83_one_malformed_message_never_ends_the_stream() {
    let mut subscriber = live();
    let mut broken = bytes(&[tick(6, false)]);
    broken.pop();
    let length = u32::try_from(broken.len() - 4).unwrap();
    broken[..4].copy_from_slice(&length.to_le_bytes());
    broken.extend(bytes(&[tick(7, false)]));
    let events = receive(&mut subscriber, &broken);
    assert_eq!(
        events,
        [
            "malformed: upstream tick refused: in its events the bytes end too early",
            "tick 7"
        ]
    );
    assert_eq!(subscriber.take_outgoing(), resync());
    assert!(subscriber.take_outgoing().is_empty(), "asked for once");
    let events = receive(
        &mut subscriber,
        &bytes(&[tick(8, false), tick(8, true), tick(9, false)]),
    );
    assert_eq!(events, ["tick 8", "keyframe 8", "tick 9"]);
    let counts = subscriber.counts();
    assert_eq!(
        (counts.malformed, counts.gaps, counts.resyncs, counts.keyframes),
        (1, 1, 1, 2)
    );
}

/// THREATS 83: a broken length prefix ends the connection, in one sentence, and a new one is not harmed by it.
#[test]
fn threats_83_a_broken_length_prefix_ends_the_connection_only() {
    let mut subscriber = live();
    let events = receive(&mut subscriber, &[0, 0, 0, 0xFF, 1, 2, 3]);
    assert_eq!(events.len(), 1);
    assert!(
        events[0].starts_with("refused: upstream stream refused: a message of 4278190080 bytes"),
        "{events:?}"
    );
    assert!(
        receive(&mut subscriber, &bytes(&[tick(6, false)])).is_empty(),
        "closed"
    );
    let _ = subscriber.start();
    assert_eq!(
        receive(&mut subscriber, &bytes(&[hello(1, 1), tick(6, true)])),
        ["continued 1", "keyframe 6"]
    );
}

/// THREATS 85: missing numbers are asked for, repeated ones are not given out twice.
#[test]
fn threats_85_gaps_are_asked_for_and_repeats_refused() {
    let mut subscriber = live();
    assert_eq!(
        receive(&mut subscriber, &bytes(&[tick(6, false), tick(9, false)])),
        ["tick 6", "tick 9"]
    );
    assert_eq!(subscriber.take_outgoing(), resync());
    assert_eq!(receive(&mut subscriber, &bytes(&[tick(12, false)])), ["tick 12"]);
    assert!(subscriber.take_outgoing().is_empty(), "asked for already");
    assert_eq!(
        receive(
            &mut subscriber,
            &bytes(&[tick(12, false), tick(12, true), tick(11, true)])
        ),
        [
            "malformed: upstream tick 12 refused: tick 12 has come already",
            "keyframe 12",
            "malformed: upstream tick 11 refused: tick 12 has come already"
        ]
    );
    let counts = subscriber.counts();
    assert_eq!((counts.gaps, counts.repeated, counts.resyncs), (2, 2, 1));
}

/// THREATS 85: one tick with a number far ahead does not shut out all that follow: the keyframe that it makes the
/// subscriber ask for heals.
#[test]
fn threats_85_a_number_far_ahead_is_healed_by_the_keyframe_asked_for() {
    let mut subscriber = live();
    let far = 10_000_100;
    assert_eq!(
        receive(&mut subscriber, &bytes(&[tick(6, false), tick(far, false)])),
        ["tick 6".to_owned(), format!("tick {far}")]
    );
    assert_eq!(subscriber.take_outgoing(), resync());
    assert_eq!(
        receive(
            &mut subscriber,
            &bytes(&[tick(8, false), tick(9, true), tick(10, false)])
        ),
        [
            format!("malformed: upstream tick 8 refused: tick {far} has come already"),
            "keyframe 9".to_owned(),
            "tick 10".to_owned()
        ]
    );
}

/// THREATS 85: the last number there is counts once, too.
#[test]
fn threats_85_the_highest_number_is_not_given_out_twice() {
    let mut subscriber = live();
    let highest = FromOrigin::Tick(TickUpdate {
        origin_tick: u64::MAX,
        server_us: 500_000,
        ..TickUpdate::default()
    });
    assert_eq!(
        receive(&mut subscriber, &bytes(&[highest.clone(), highest])),
        [
            format!("tick {}", u64::MAX),
            format!(
                "malformed: upstream tick {0} refused: tick {0} has come already",
                u64::MAX
            )
        ]
    );
}

#[test]
fn no_tick_is_given_out_before_a_keyframe() {
    let mut subscriber = Subscriber::new(Vec::new());
    let _ = subscriber.start();
    assert_eq!(
        receive(
            &mut subscriber,
            &bytes(&[hello(1, 1), tick(3, false), tick(4, false), tick(4, true)])
        ),
        [
            "stream 1",
            "malformed: upstream tick 3 refused: no keyframe came before it, so one is asked for",
            "keyframe 4"
        ]
    );
    assert_eq!(subscriber.take_outgoing(), resync());
    assert_eq!(subscriber.counts().unanchored, 2);
}

/// What cannot be understood at the beginning of a connection ends it, in one sentence.
#[test]
fn a_connection_that_begins_wrong_is_refused() {
    let begin = |bytes: &[u8]| {
        let mut subscriber = Subscriber::new(Vec::new());
        let _ = subscriber.start();
        let events = receive(&mut subscriber, bytes);
        assert!(subscriber.is_closed());
        assert_eq!((events.len(), subscriber.counts().refused), (1, 1), "{events:?}");
        events[0].clone()
    };
    let mut other = bytes(&[hello(1, 1), tick(0, true), tick(1, false)]);
    other[9] = 3;
    assert_eq!(
        begin(&other),
        "refused: upstream hello refused: it is of protocol version 3, but version 2 is spoken here: run versions that match"
    );
    assert_eq!(
        begin(&bytes(&[tick(0, true)])),
        "refused: upstream tick refused: no hello came before it, so its schema is not known"
    );
    let text = "no\nsuch token".to_owned();
    assert_eq!(
        begin(&bytes(&[FromOrigin::Refuse(Refuse {
            code: RefuseCode::Token,
            text
        })])),
        "refused: the origin refused this subscriber (code 2): no such token"
    );
    let no_schema = FromOrigin::Hello(Hello {
        schema: vec![1, b'x'],
        ..Hello::default()
    });
    assert_eq!(
        begin(&bytes(&[no_schema])),
        "refused: upstream hello refused: the bytes of a schema cannot be read: the bytes end too early"
    );
}

/// THREATS 79 to 81, 86: which run may follow which, across connections.
#[test]
fn threats_79_80_81_86_runs_are_fenced_across_connections() {
    let mut subscriber = live();
    let mut connect = |messages: &[FromOrigin]| {
        let _ = subscriber.start();
        receive(&mut subscriber, &bytes(messages))
    };
    assert_eq!(
        connect(&[hello(1, 1), tick(9, true)]),
        ["continued 1", "keyframe 9"]
    );
    assert_eq!(
        connect(&[hello(1, 2), tick(0, true)]),
        ["stream 1", "keyframe 0"],
        "same epoch, new boot"
    );
    assert_eq!(
        connect(&[hello(1, 1), tick(10, true)]),
        [
            "refused: upstream refused: this run of the origin in epoch 1 was replaced by another one: stop the one that should be gone"
        ]
    );
    assert_eq!(
        connect(&[hello(4, 3), tick(0, true)]),
        ["stream 4", "keyframe 0"],
        "restarted"
    );
    assert_eq!(
        connect(&[hello(3, 9), tick(7, true)]),
        [
            "refused: upstream refused: its epoch 3 is older than epoch 4, which is known: stop the origin that should be gone, or begin a higher epoch; where epoch 4 was a mistake, such as a clock that ran ahead, restart the relay, which then knows none"
        ]
    );
    let mut changed = full_schema();
    changed.version = 2;
    let schema = schema::encode(&changed).unwrap();
    let hello_4 = |boot| {
        FromOrigin::Hello(Hello {
            epoch: 4,
            boot,
            schema: schema.clone(),
            ..Hello::default()
        })
    };
    assert_eq!(
        connect(&[hello_4(3)]),
        [
            "refused: upstream hello refused: the schema changed within one run of the origin; a changed schema must begin a new epoch"
        ]
    );
    assert_eq!(connect(&[hello_4(5)]), ["stream 4"], "a clean change of epoch");
    assert_eq!(
        connect(&[hello_4(5), hello_4(6), tick(0, true)]),
        [
            "continued 4",
            "malformed: upstream hello refused: this connection has had one",
            "keyframe 0"
        ]
    );
    assert_eq!((subscriber.counts().fenced, subscriber.counts().refused), (2, 3));
    assert_eq!(subscriber.run(), Some(Run { epoch: 4, boot: 5 }));
}

/// THREATS 80: an epoch after which none could come is refused, and shuts nobody out.
#[test]
fn threats_80_an_absurd_epoch_shuts_nobody_out() {
    let mut subscriber = live();
    let mut connect = |messages: &[FromOrigin]| {
        let _ = subscriber.start();
        receive(&mut subscriber, &bytes(messages))
    };
    for epoch in [EPOCH_MAX + 1, u64::MAX] {
        let text = format!(
            "refused: upstream hello refused: its epoch {epoch} is above 4611686018427387904, and no later one could follow it: begin with the wall clock in microseconds"
        );
        assert_eq!(connect(&[hello(epoch, 9), tick(0, true)]), [text]);
    }
    assert_eq!(connect(&[hello(2, 3), tick(0, true)]), ["stream 2", "keyframe 0"]);
    let highest = format!("stream {EPOCH_MAX}");
    assert_eq!(connect(&[hello(EPOCH_MAX, 1)]), [highest]);
    assert_eq!((subscriber.counts().fenced, subscriber.counts().refused), (0, 2));
}

#[test]
fn a_message_cut_by_the_end_of_the_connection_is_reported() {
    let mut subscriber = live();
    let stream = bytes(&[tick(6, false)]);
    assert!(receive(&mut subscriber, &stream[..20]).is_empty());
    let mut events = Vec::new();
    subscriber.disconnected(&mut events);
    let text = "upstream message refused: the connection ended after 20 bytes of it".to_owned();
    assert_eq!(events, [SubscriberEvent::Malformed(text)]);
    assert!(subscriber.is_closed());
    assert_eq!(subscriber.last_tick(), Some(5));
}

#[test]
fn skippable_messages_are_skipped() {
    let mut subscriber = live();
    let stream = [&[3, 0, 0, 0, 0x80, 1, 2][..], &bytes(&[tick(6, false)])].concat();
    assert_eq!(receive(&mut subscriber, &stream), ["tick 6"]);
    assert_eq!(
        (subscriber.counts().skipped, subscriber.counts().malformed),
        (1, 0)
    );
}

fn processed(player: u64, sequence: u32) -> Directive {
    Directive {
        player,
        order: Order::Processed(sequence),
    }
}

/// The directives of every tick that comes out.
fn directives(subscriber: &mut Subscriber, messages: &[FromOrigin]) -> Vec<Vec<Directive>> {
    let mut events = Vec::new();
    subscriber.receive(&bytes(messages), &mut events);
    let of_tick = |event| match event {
        SubscriberEvent::Tick(update) => Some(update.directives),
        _ => None,
    };
    events.into_iter().filter_map(of_tick).collect()
}

/// SPEC PRE4: directives come out in the next tick of their connection, in order, whatever other message fails between;
/// those that have no tick are dropped and counted.
#[test]
fn pre4_directives_come_with_the_next_tick() {
    let mut subscriber = live();
    let directed = |list: &[Directive]| FromOrigin::Directives(list.to_vec());
    let (one, two, three) = (processed(1, 5), processed(2, 6), processed(1, 7));
    let taken = directives(
        &mut subscriber,
        &[
            directed(std::slice::from_ref(&one)),
            directed(&[two.clone(), three.clone()]),
            tick(5, false),
            tick(6, false),
            tick(7, false),
        ],
    );
    assert_eq!(
        taken,
        [vec![one, two.clone(), three], vec![]],
        "tick 5 had come already"
    );

    directives(&mut subscriber, &[directed(std::slice::from_ref(&two))]);
    let _ = subscriber.start();
    let taken = directives(&mut subscriber, &[hello(1, 1), tick(8, true)]);
    assert_eq!((taken, subscriber.counts().directives_dropped), (vec![vec![]], 1));

    let _ = subscriber.start();
    let refused = receive(&mut subscriber, &bytes(&[directed(&[two])]));
    assert_eq!(
        refused,
        ["refused: upstream directives refused: no hello came before them"]
    );
}

/// Directives that wait for a tick are bounded; those that are given out are the first.
#[test]
fn directives_before_a_tick_are_bounded() {
    let mut subscriber = live();
    let many: Vec<Directive> = (0..10_000).map(|n| processed(1, n)).collect();
    let room = DIRECTIVES_TICK_BYTES_MAX / many[0].bytes();
    let message = FromOrigin::Directives(many);
    let taken = directives(
        &mut subscriber,
        &[message.clone(), message, tick(6, false), tick(7, false)],
    );
    assert_eq!((taken[0].len(), taken[1].len()), (room, 0));
    assert_eq!(subscriber.counts().directives_dropped, 20_000 - room as u64);
}

/// SPEC PRE4: what players do goes to an origin that takes it, beside a request for a keyframe, and to no other.
#[test]
fn pre4_players_are_told_of_where_they_are_accepted() {
    let mut subscriber = live();
    let joined = [PlayerEvent::Joined(7, 0)];
    subscriber.tell(&joined);
    assert!(!subscriber.accepts_players() && subscriber.take_outgoing().is_empty());
    let _ = subscriber.start();
    let FromOrigin::Hello(plain) = hello(1, 1) else {
        unreachable!()
    };
    let accepting = FromOrigin::Hello(Hello {
        accepts: PLAYERS | 0x8000,
        ..plain
    });
    receive(&mut subscriber, &bytes(&[accepting, tick(6, true)]));
    assert!(subscriber.accepts_players());
    subscriber.tell(&joined);
    receive(&mut subscriber, &bytes(&[tick(9, false), tick(12, false)]));
    let mut told = Vec::new();
    encode_players(&joined, &mut told);
    assert_eq!(subscriber.take_outgoing(), [told, resync()].concat());
    let mut events = Vec::new();
    subscriber.disconnected(&mut events);
    subscriber.tell(&joined);
    assert!(!subscriber.accepts_players() && subscriber.take_outgoing().is_empty());
}

proptest! {
    /// THREATS 83: no bytes panic, at the beginning or in a running stream.
    #[test]
    fn threats_83_random_bytes_never_panic(noise in vec(any::<u8>(), 0..300), opened in any::<bool>()) {
        let mut subscriber = Subscriber::new(Vec::new());
        let _ = subscriber.start();
        if opened {
            let _ = receive(&mut subscriber, &bytes(&[hello(1, 1), tick(0, true)]));
        }
        let _ = receive(&mut subscriber, &noise);
        let mut framed = u32::try_from(noise.len()).unwrap().to_le_bytes().to_vec();
        framed.extend(noise);
        let _ = receive(&mut subscriber, &framed);
    }
}
