use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::limits::{
    EVENT_BYTES_MAX, EXTRA_FIELDS_MAX, INPUT_BYTES_MAX, SERVER_TIME_MAX_US, VIEW_RANGE_MAX_CM,
};
use crate::state::entity::Entity;
use crate::state::player::Order;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate};
use crate::state::view::{Range, Scope, View};
use crate::upstream::tick::TICK_BYTES;

fn time() -> impl Strategy<Value = u64> {
    0..=SERVER_TIME_MAX_US
}

fn entity() -> impl Strategy<Value = Entity> {
    any::<(u32, u32)>().prop_map(|(id, generation)| Entity { id, generation })
}

fn motion() -> impl Strategy<Value = Motion> {
    let rotation = any::<(u8, [u16; 3])>().prop_map(|(largest, parts)| Rotation { largest, parts });
    let rates = any::<([i32; 3], [i32; 3], bool)>();
    (time(), any::<[u32; 3]>(), rotation, rates).prop_map(|(observed_us, position, rotation, rates)| {
        let (velocity, angular, at_rest) = rates;
        Motion {
            observed_us,
            position,
            rotation,
            velocity,
            angular,
            at_rest,
        }
    })
}

fn observation() -> impl Strategy<Value = Observation> {
    (entity(), any::<u32>(), time(), proptest::option::of(motion())).prop_map(
        |(entity, segment, segment_us, motion)| Observation {
            entity,
            segment,
            segment_us,
            motion,
        },
    )
}

fn extras() -> impl Strategy<Value = ExtraUpdate> {
    (entity(), any::<u8>(), any::<[u32; EXTRA_FIELDS_MAX]>()).prop_map(|(entity, mask, mut values)| {
        values
            .iter_mut()
            .enumerate()
            .filter(|(i, _)| mask >> i & 1 == 0)
            .for_each(|(_, value)| *value = 0);
        ExtraUpdate { entity, mask, values }
    })
}

fn event() -> impl Strategy<Value = Event> {
    let about = proptest::option::of(entity());
    (
        any::<u16>(),
        any::<bool>(),
        about,
        time(),
        vec(any::<u8>(), 0..=EVENT_BYTES_MAX),
    )
        .prop_map(|(kind, critical, entity, at_us, payload)| Event {
            kind,
            critical,
            entity,
            at_us,
            payload,
        })
}

fn update() -> impl Strategy<Value = TickUpdate> {
    let head = (any::<u64>(), time(), any::<u64>(), any::<bool>());
    let despawn = (entity(), time(), any::<u8>()).prop_map(|(entity, at_us, reason)| Despawn {
        entity,
        at_us,
        reason,
    });
    let spawn =
        (entity(), any::<u8>(), time()).prop_map(|(entity, class, at_us)| Spawn { entity, class, at_us });
    let lives = (vec(despawn, 0..4), vec(spawn, 0..4));
    let tags = (entity(), any::<u32>()).prop_map(|(entity, tags)| TagUpdate { entity, tags });
    let rest = (
        vec(observation(), 0..6),
        vec(extras(), 0..4),
        vec(tags, 0..4),
        vec(event(), 0..3),
    );
    (head, lives, rest).prop_map(|(head, (despawned, spawned), (observed, extras, tags, events))| {
        TickUpdate {
            origin_tick: head.0,
            server_us: head.1,
            published_us: head.2,
            keyframe: head.3,
            despawned,
            spawned,
            observed,
            extras,
            tags,
            events,
            directives: Vec::new(),
        }
    })
}

fn view() -> impl Strategy<Value = View> {
    let range = (1..=VIEW_RANGE_MAX_CM, 0..=VIEW_RANGE_MAX_CM).prop_map(|(enter_cm, more_cm)| {
        Range::new(enter_cm, (enter_cm + more_cm).min(VIEW_RANGE_MAX_CM)).unwrap()
    });
    (0..3usize, range, any::<u32>()).prop_map(|(scope, range, tags)| {
        let scope = [Scope::Whole, Scope::Owner(range), Scope::Camera(range)][scope];
        View { scope, tags }
    })
}

fn directive() -> impl Strategy<Value = Directive> {
    let assign = (proptest::option::of(entity()), proptest::option::of(view()))
        .prop_map(|(entity, view)| Order::Assign { entity, view });
    let message = (any::<u16>(), vec(any::<u8>(), 0..=EVENT_BYTES_MAX))
        .prop_map(|(kind, payload)| Order::Message { kind, payload });
    let order = prop_oneof![assign, message, any::<u32>().prop_map(Order::Processed)];
    (any::<u64>(), order).prop_map(|(player, order)| Directive { player, order })
}

fn player_event() -> impl Strategy<Value = PlayerEvent> {
    let input = (any::<u64>(), 1..=u32::MAX, vec(any::<u8>(), 0..=INPUT_BYTES_MAX)).prop_map(
        |(player, sequence, payload)| PlayerEvent::Input {
            player,
            sequence,
            payload,
        },
    );
    let lost = (any::<u64>(), 1..=u32::MAX, 1..=u32::MAX).prop_map(|(player, first, count)| {
        let count = count.min(u32::MAX - first + 1);
        PlayerEvent::InputsLost { player, first, count }
    });
    let camera =
        any::<(u64, [u32; 3])>().prop_map(|(player, position)| PlayerEvent::Camera { player, position });
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(player, client)| PlayerEvent::Joined(player, client)),
        any::<u64>().prop_map(PlayerEvent::Left),
        input,
        lost,
        camera,
    ]
}

fn from_origin() -> impl Strategy<Value = FromOrigin> {
    let hello = (
        any::<(u64, u64, u64, u16)>(),
        vec(any::<u8>(), 0..=SCHEMA_BYTES_MAX),
    )
        .prop_map(|((epoch, boot, clock_id, accepts), schema)| Hello {
            epoch,
            boot,
            clock_id,
            accepts,
            schema,
        });
    let refuse = (any::<u16>(), "[ -~]{0,512}").prop_map(|(code, text)| Refuse {
        code: RefuseCode::from_number(code),
        text,
    });
    prop_oneof![
        hello.prop_map(FromOrigin::Hello),
        refuse.prop_map(FromOrigin::Refuse),
        update().prop_map(FromOrigin::Tick),
        Just(FromOrigin::End),
        vec(directive(), 1..5).prop_map(FromOrigin::Directives),
    ]
}

fn to_origin() -> impl Strategy<Value = ToOrigin> {
    let subscribe = (any::<u16>(), vec(any::<u8>(), 0..=UPSTREAM_TOKEN_MAX))
        .prop_map(|(flags, token)| ToOrigin::Subscribe(Subscribe { flags, token }));
    let players = vec(player_event(), 1..20).prop_map(ToOrigin::Players);
    prop_oneof![subscribe, Just(ToOrigin::Resync), players]
}

fn bytes_of(message: &FromOrigin) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// A payload with its prefix, as `encode` makes it.
fn framed_payload(payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// One legal encoding: whatever decodes, encodes to the same bytes.
fn canonical(payload: &[u8]) {
    if let Ok(Some(message)) = FromOrigin::decode(payload) {
        assert_eq!(bytes_of(&message), framed_payload(payload));
    }
    if let Ok(Some(message)) = ToOrigin::decode(payload) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(bytes, framed_payload(payload));
    }
}

proptest! {
    #[test]
    fn messages_from_the_origin_round_trip(message in from_origin()) {
        let bytes = bytes_of(&message);
        prop_assert_eq!(bytes.len() - 4, u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize);
        prop_assert_eq!(FromOrigin::decode(&bytes[4..]).unwrap(), Some(message));
    }

    #[test]
    fn messages_to_the_origin_round_trip(message in to_origin()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert!(bytes.len() - 4 <= crate::limits::UPSTREAM_REQUEST_MAX);
        prop_assert_eq!(ToOrigin::decode(&bytes[4..]).unwrap(), Some(message));
    }

    /// THREATS 33, 34, 83: no bytes panic, and what is accepted has one form.
    #[test]
    fn threats_83_random_bytes_are_refused_or_canonical(
        kind in prop_oneof![0x01u8..=0x03, 0x11u8..=0x15, any::<u8>()],
        rest in vec(any::<u8>(), 0..200),
    ) {
        canonical(&[&[kind], &rest[..]].concat());
    }

    /// SPEC PRE4: however many events there are, they arrive in order, in messages within their bound.
    #[test]
    fn pre4_events_of_players_are_divided_and_come_out_as_they_were(events in vec(player_event(), 0..600)) {
        let mut bytes = Vec::new();
        encode_players(&events, &mut bytes);
        let mut splitter = crate::upstream::splitter::Splitter::new(crate::limits::UPSTREAM_REQUEST_MAX);
        splitter.push(&bytes);
        let mut taken = Vec::new();
        while let Some(payload) = splitter.next().unwrap() {
            match ToOrigin::decode(payload).unwrap() {
                Some(ToOrigin::Players(events)) => taken.extend(events),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(taken, events);
    }

    /// THREATS 25, 83: a message of a subscriber with some bytes changed, cut off or added.
    #[test]
    fn threats_83_mutated_requests_are_refused_or_canonical(
        message in to_origin(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut payload = bytes.split_off(4);
        let whole = payload.len();
        for (index, value) in changes {
            *index.get_mut(&mut payload) = value;
        }
        canonical(&payload);
        canonical(&payload[..cut.index(whole)]);
    }

    /// THREATS 25, 83: a message with some bytes changed, cut off or added.
    #[test]
    fn threats_83_mutated_messages_are_refused_or_canonical(
        message in from_origin(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        extra in vec(any::<u8>(), 0..3),
    ) {
        let mut payload = bytes_of(&message)[4..].to_vec();
        let whole = payload.len();
        for (index, value) in changes {
            *index.get_mut(&mut payload) = value;
        }
        canonical(&payload);
        canonical(&payload[..cut.index(whole)]);
        payload.extend(extra);
        canonical(&payload);
    }
}

fn full_tick() -> TickUpdate {
    let entity = Entity { id: 7, generation: 1 };
    let motion = Motion {
        observed_us: 50_000,
        position: [1, 2, 3],
        rotation: Rotation {
            largest: 3,
            parts: [255; 3],
        },
        velocity: [-1, 0, 1],
        angular: [0; 3],
        at_rest: false,
    };
    TickUpdate {
        origin_tick: 2,
        server_us: 50_000,
        published_us: 9,
        keyframe: false,
        despawned: vec![Despawn {
            entity: Entity { id: 7, generation: 0 },
            at_us: 50_000,
            reason: 4,
        }],
        spawned: vec![Spawn {
            entity,
            class: 0,
            at_us: 50_000,
        }],
        observed: vec![Observation {
            entity,
            segment: 0,
            segment_us: 50_000,
            motion: Some(motion),
        }],
        extras: vec![ExtraUpdate {
            entity,
            mask: 0b10,
            values: [0, 3, 0, 0, 0, 0, 0, 0],
        }],
        tags: vec![TagUpdate { entity, tags: 6 }],
        directives: Vec::new(),
        events: vec![Event {
            kind: 1,
            critical: true,
            entity: Some(entity),
            at_us: 50_000,
            payload: vec![1, 2],
        }],
    }
}

/// THREATS 25: cut anywhere, or with a byte more, a message is refused.
#[test]
fn threats_25_a_cut_or_longer_message_is_refused() {
    let messages = [
        FromOrigin::Tick(full_tick()),
        FromOrigin::Hello(Hello {
            schema: vec![1, 2, 3],
            ..Hello::default()
        }),
        FromOrigin::Refuse(Refuse {
            code: RefuseCode::Full,
            text: "full".into(),
        }),
        FromOrigin::End,
        FromOrigin::Directives(vec![Directive {
            player: 5,
            order: Order::Assign {
                entity: Some(Entity { id: 7, generation: 1 }),
                view: Some(View {
                    scope: Scope::Owner(Range::new(100, 200).unwrap()),
                    tags: 1,
                }),
            },
        }]),
    ];
    for message in &messages {
        let payload = bytes_of(message)[4..].to_vec();
        for cut in 0..payload.len() {
            let error = FromOrigin::decode(&payload[..cut]).unwrap_err();
            let expected = if cut == 0 {
                "it is empty"
            } else {
                "the bytes end too early"
            };
            assert!(error.to_string().contains(expected), "{error}");
        }
        let longer = [&payload[..], &[0]].concat();
        assert!(
            FromOrigin::decode(&longer)
                .unwrap_err()
                .to_string()
                .contains("bytes are left over")
        );
    }
}

/// Each kind of break gives its sentence.
#[test]
fn threats_83_each_break_gives_one_plain_sentence() {
    let tick = bytes_of(&FromOrigin::Tick(full_tick()))[4..].to_vec();
    // Where the sections of that tick begin: after kind, flags and three numbers, each behind its count.
    let despawns = 26;
    let spawns = despawns + 4 + 17;
    let observations = spawns + 4 + 17;
    let extras = observations + 4 + 72;
    let tags = extras + 4 + 13;
    let events = tags + 4 + 12;
    assert_eq!((TICK_BYTES, tick.len()), (50, events + 4 + 23));
    let changed = |at: usize, bytes: &[u8]| {
        let mut tick = tick.clone();
        tick[at..at + bytes.len()].copy_from_slice(bytes);
        FromOrigin::decode(&tick).unwrap_err().to_string()
    };
    let in_part = |part: &str, fault: &str| format!("upstream tick refused: in its {part} {fault}");
    let (short, range) = ("the bytes end too early", "a number is out of range");
    let form = "a number is not in its shortest form or too wide";
    assert_eq!(changed(1, &[2]), in_part("header", range));
    assert_eq!(changed(10, &(1u64 << 48).to_le_bytes()), in_part("header", range));
    assert_eq!(changed(despawns, &[0xFF; 4]), in_part("despawns", short));
    assert_eq!(changed(despawns + 12, &[0xFF; 8]), in_part("despawns", range));
    assert_eq!(changed(spawns, &[0xFF; 4]), in_part("spawns", short));
    assert_eq!(changed(observations, &[2]), in_part("observations", short));
    assert_eq!(changed(observations + 24, &[4]), in_part("observations", range));
    assert_eq!(changed(observations + 24, &[0]), in_part("observations", form));
    assert_eq!(changed(extras, &[0xFF; 4]), in_part("extra fields", short));
    assert_eq!(changed(tags, &[0xFF; 4]), in_part("tags", short));
    assert_eq!(changed(events + 6, &[4]), in_part("events", range));
    assert_eq!(changed(events + 6, &[0]), in_part("events", form));
    assert_eq!(changed(events + 23, &[1, 1]), in_part("events", range));

    let refused = |payload: &[u8]| FromOrigin::decode(payload).unwrap_err().to_string();
    assert_eq!(
        refused(&[]),
        "upstream message refused: it is empty, but its first byte must be its kind"
    );
    assert_eq!(
        refused(&[1]),
        "upstream message refused: its kind 1 is not one that this side takes in protocol version 2"
    );
    assert_eq!(
        refused(b"\x11HTTP\x01\x00"),
        "upstream hello refused: its magic bytes are not \"ACKU\", so the peer speaks another protocol"
    );
    assert_eq!(
        refused(b"\x11ACKU\x09\x00and whatever version 9 has"),
        "upstream hello refused: it is of protocol version 9, but version 2 is spoken here: run versions that match"
    );
    assert_eq!(
        refused(&[0x12, 1, 0, 1, 0, 0xFF]),
        "upstream refusal refused: in its text text is not UTF-8"
    );
    let too_long = [&b"\x01ACKU\x02\x00\x00\x00\x01\x02"[..], &[0; 513]].concat();
    assert_eq!(
        ToOrigin::decode(&too_long).unwrap_err().to_string(),
        "upstream subscribe refused: in its token a number is out of range"
    );
}

/// SPEC PRE4: what no relay and no origin would say is refused: lists of nothing, inputs without a number, ranges of lost
/// inputs that have no end, unknown kinds and flags, payloads that are too long.
#[test]
fn pre4_what_nobody_would_say_of_players_is_refused() {
    let list = |kind: u8, count: u32, items: &[&[u8]]| {
        let mut payload = vec![kind];
        payload.extend(count.to_le_bytes());
        items.iter().for_each(|item| payload.extend_from_slice(item));
        payload
    };
    let item = |kind: u8, rest: &[u32]| {
        let mut item = vec![kind, 9, 0, 0, 0, 0, 0, 0, 0];
        rest.iter().for_each(|field| item.extend(field.to_le_bytes()));
        item
    };
    let (range, short) = ("a number is out of range", "the bytes end too early");
    for (payload, fault) in [
        (list(PLAYER_EVENTS, 0, &[]), range),
        (list(PLAYER_EVENTS, 2, &[&item(1, &[])]), short),
        (list(PLAYER_EVENTS, 1, &[&item(0, &[])]), range),
        (list(PLAYER_EVENTS, 1, &[&item(6, &[])]), range),
        (list(PLAYER_EVENTS, 1, &[&item(3, &[0, 0])]), range),
        (list(PLAYER_EVENTS, 1, &[&item(3, &[1, 65])]), range),
        (list(PLAYER_EVENTS, 1, &[&item(4, &[0, 1])]), range),
        (list(PLAYER_EVENTS, 1, &[&item(4, &[1, 0])]), range),
        (list(PLAYER_EVENTS, 1, &[&item(4, &[2, u32::MAX])]), range),
    ] {
        let said = ToOrigin::decode(&payload).unwrap_err().to_string();
        assert_eq!(
            said,
            format!("upstream players refused: in its events {fault}"),
            "{payload:?}"
        );
    }
    for (payload, fault) in [
        (list(DIRECTIVES, 0, &[]), range),
        (list(DIRECTIVES, 20_000, &[&[0; 200_000]]), range),
        (list(DIRECTIVES, 1, &[&item(4, &[1])]), range),
        (list(DIRECTIVES, 1, &[&item(1, &[4])]), range),
        (list(DIRECTIVES, 1, &[&item(2, &[257 << 16])]), range),
    ] {
        let said = FromOrigin::decode(&payload).unwrap_err().to_string();
        assert_eq!(
            said,
            format!("upstream directives refused: in its orders {fault}"),
            "{payload:?}"
        );
    }
}

/// A later version may add messages of kinds 0x80 to 0xFF without breaking this one.
#[test]
fn kinds_from_0x80_on_are_skipped_and_all_others_refused() {
    for kind in 0..=u8::MAX {
        let unknown = UpstreamError::UnknownKind { kind };
        match kind {
            0x80.. => {
                assert_eq!(FromOrigin::decode(&[kind, 1, 2]), Ok(None));
                assert_eq!(ToOrigin::decode(&[kind]), Ok(None));
            }
            SUBSCRIBE | RESYNC | PLAYER_EVENTS => assert_eq!(FromOrigin::decode(&[kind]), Err(unknown)),
            HELLO | REFUSE | TICK | END | DIRECTIVES => assert_eq!(ToOrigin::decode(&[kind]), Err(unknown)),
            _ => {
                assert_eq!(FromOrigin::decode(&[kind]), Err(unknown.clone()));
                assert_eq!(ToOrigin::decode(&[kind]), Err(unknown));
            }
        }
    }
}
