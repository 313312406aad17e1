//! The upstream stream in both directions: a hostile origin at a relay's subscriber and world, a hostile subscriber
//! at an origin (THREATS 79..86). What is taken is in its one form, the world stays within its schema, and whatever
//! world a stream makes, the encoder can say and a decoder reads.

use std::sync::Arc;

use ackline::delta::decode::{Change, Entry};
use ackline::delta::layout::Layout;
use ackline::limits::{ARENA_FRAMES, SUBSCRIBER_QUEUE_MAX, UPSTREAM_FRAME_MAX, UPSTREAM_REQUEST_MAX};
use ackline::origin::publisher::Publisher;
use ackline::origin::subscribers::Subscribers;
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::digest::Digest;
use ackline::state::entity::Entity;
use ackline::state::player::{Directive, Order, PlayerEvent};
use ackline::state::record::{Motion, Record};
use ackline::state::rotation::Rotation;
use ackline::state::schema::Schema;
use ackline::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use ackline::state::world::World;
use ackline::upstream::message::{FromOrigin, Hello, Refuse, RefuseCode, Subscribe, ToOrigin};
use ackline::upstream::splitter::Splitter;
use ackline::upstream::subscriber::{Subscriber, SubscriberEvent};

use super::records::{self, Table};
use super::stage::stage_schema;
use super::tape::Tape;

const STEPS: usize = 64;

pub fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    if tape.one_in(4) {
        at_the_origin(&mut tape);
    } else {
        at_the_relay(&mut tape);
    }
}

struct Relay {
    subscriber: Subscriber,
    world: Option<World>,
    frame: Option<Arc<Frame>>,
    tick: Tick,
    streams: u32,
    given: Option<u64>,
}

fn at_the_relay(tape: &mut Tape<'_>) {
    let mut relay = Relay {
        subscriber: Subscriber::new(vec![1, 2, 3]),
        world: None,
        frame: None,
        tick: Tick(0),
        streams: 0,
        given: None,
    };
    let schemas = [
        stage_schema(1),
        if tape.one_in(2) {
            records::schema(tape)
        } else {
            stage_schema(2)
        },
    ];
    let (mut run, mut number, mut server_us) = ((1u64, 1), 0u64, 0);
    let mut greeting = relay.subscriber.start();
    assert!(ToOrigin::decode(&greeting.split_off(4)).is_ok());
    relay.say(&hello(run, &schemas[0]), tape);
    for _ in 0..STEPS {
        if tape.is_over() {
            break;
        }
        let bytes = match tape.below(8) {
            0..=3 => {
                number = number.saturating_add(1);
                server_us += 50_000 * u64::from(tape.below(4));
                let schema = relay
                    .world
                    .as_ref()
                    .map_or(&schemas[0], |world| world.schema())
                    .clone();
                let update = update(tape, &schema, &mut number, server_us, relay.world.as_ref());
                let mut bytes = encoded(&FromOrigin::Tick(update));
                if tape.one_in(4) {
                    damage(tape, &mut bytes);
                }
                bytes
            }
            4 => framed(tape.block(600)),
            5 => tape.block(300).to_vec(),
            6 => match tape.below(5) {
                4 => encoded(&FromOrigin::Directives(directives(tape))),
                0 => vec![3, 0, 0, 0, 0x80 | tape.u8(), 1, 2],
                1 => encoded(&FromOrigin::End),
                2 => {
                    let text = String::from_utf8_lossy(tape.block(100)).into_owned();
                    encoded(&FromOrigin::Refuse(Refuse {
                        code: RefuseCode::from_number(tape.u16()),
                        text,
                    }))
                }
                _ => hello(run, &schemas[0]),
            },
            _ => {
                relay.reconnect();
                run.0 = run.0.saturating_add(u64::from(tape.below(3)));
                run.0 = run.0.saturating_sub(u64::from(tape.one_in(5)));
                run.1 = u64::from(tape.below(3));
                let schema = &schemas[tape.below(2) as usize];
                let mut bytes = hello(run, schema);
                if tape.one_in(3) {
                    damage(tape, &mut bytes);
                }
                bytes
            }
        };
        relay.say(&bytes, tape);
    }
    relay.reconnect();
}

fn hello((epoch, boot): (u64, u64), schema: &Schema) -> Vec<u8> {
    let schema = ackline::delta::schema::encode(schema).unwrap();
    encoded(&FromOrigin::Hello(Hello {
        epoch,
        boot,
        clock_id: 5,
        accepts: 0,
        schema,
    }))
}

fn encoded(message: &FromOrigin) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend(payload);
    bytes
}

/// Damages a payload; its length prefix stays right three times of four.
fn damage(tape: &mut Tape<'_>, bytes: &mut Vec<u8>) {
    let mut payload = bytes.split_off(4);
    tape.damage(&mut payload);
    if !tape.one_in(4) {
        *bytes = (payload.len() as u32).to_le_bytes().to_vec();
    }
    bytes.extend(payload);
}

impl Relay {
    /// The origin says these bytes, in pieces.
    fn say(&mut self, bytes: &[u8], tape: &mut Tape<'_>) {
        let mut events = Vec::new();
        let piece = [usize::MAX, 7, 100, 1][tape.below(4) as usize];
        for piece in bytes.chunks(piece.min(bytes.len().max(1))) {
            self.subscriber.receive(piece, &mut events);
        }
        // What can be read has one form.
        let mut splitter = Splitter::new(UPSTREAM_FRAME_MAX);
        splitter.push(bytes);
        while let Ok(Some(payload)) = splitter.next() {
            if let Ok(Some(message)) = FromOrigin::decode(payload) {
                assert_eq!(encoded(&message)[4..], *payload, "one legal form: {message:?}");
            }
        }
        for event in events {
            self.take(event);
        }
        let outgoing = self.subscriber.take_outgoing();
        assert!(outgoing.len() <= 16, "one request at a time");
    }

    fn reconnect(&mut self) {
        let mut events = Vec::new();
        self.subscriber.disconnected(&mut events);
        assert!(events.len() <= 1 && self.subscriber.is_closed());
        let _ = self.subscriber.start();
        self.given = None;
    }

    fn take(&mut self, event: SubscriberEvent) {
        match event {
            SubscriberEvent::Stream(stream) => {
                assert_eq!(stream.schema.check(), Ok(()));
                if !stream.continued || self.world.is_none() {
                    self.streams += 1;
                    let quarantine = ARENA_FRAMES as u32;
                    self.world = Some(World::new(Arc::clone(&stream.schema), self.streams, quarantine));
                    self.frame = None;
                }
            }
            SubscriberEvent::Tick(update) => {
                assert!(
                    self.given.is_some() || update.keyframe,
                    "the first tick is a keyframe"
                );
                // A keyframe heals whatever number a bad tick had brought before it, when it was asked for.
                let rises = self.given.is_none_or(|last| update.origin_tick > last);
                assert!(rises || update.keyframe, "tick numbers rise");
                self.given = Some(update.origin_tick);
                self.advance(&update);
            }
            SubscriberEvent::Refused(text) | SubscriberEvent::Malformed(text) => {
                assert!(
                    text.len() < 1024 && !text.chars().any(char::is_control),
                    "one plain sentence: {text:?}"
                );
            }
            SubscriberEvent::Ended => assert!(self.subscriber.is_closed()),
        }
    }

    fn advance(&mut self, update: &TickUpdate) {
        let world = self.world.as_mut().expect("a tick comes after its stream");
        self.tick = self.tick.next();
        let before = world.live();
        let Some(frame) = world.advance(self.tick, update) else {
            assert_eq!(
                (world.refused().len(), world.live()),
                (1, before),
                "a tick refused whole changes nothing"
            );
            return;
        };
        assert_eq!(frame.live(), frame.alive().len());
        assert_eq!(frame.live(), frame.records().count());
        let sum = frame
            .records()
            .fold(Digest::EMPTY, |sum, (_, record)| sum.plus(Digest::of(record)));
        assert_eq!(frame.digest(), sum, "the digest is kept up");
        for (_, record) in frame.records() {
            records::assert_within(record, &frame.schema);
        }
        rebuilds(world, &frame);
        says(self.frame.as_deref(), &frame);
        self.frame = Some(frame);
    }
}

/// A keyframe rebuilds the world elsewhere.
fn rebuilds(world: &World, frame: &Frame) {
    let keyframe = world.keyframe(7);
    let mut bytes = encoded(&FromOrigin::Tick(keyframe.clone()));
    let read = FromOrigin::decode(&bytes.split_off(4));
    assert_eq!(
        read,
        Ok(Some(FromOrigin::Tick(keyframe.clone()))),
        "a keyframe travels"
    );
    let mut other = World::new(Arc::clone(world.schema()), 1, 8);
    let rebuilt = other.advance(Tick(1), &keyframe).expect("a keyframe is taken");
    assert_eq!(other.refused(), [], "a keyframe of a world is taken whole");
    let resting = |frame: &Frame| {
        let mut records: Vec<Record> = frame.records().map(|(_, record)| *record).collect();
        records.sort_by_key(|record| record.entity);
        records
    };
    assert_eq!(resting(&rebuilt), resting(frame), "and makes the same world");
}

/// Whatever world a stream makes, each record can be said whole and as a difference, and is read back.
fn says(before: Option<&Frame>, frame: &Frame) {
    let layout = Layout::new(&frame.schema);
    let mut base = Table::new();
    if let Some(before) = before {
        base.extend(before.records().map(|(slot, record)| (slot, *record)));
    }
    let mut entries = Vec::new();
    for (slot, record) in frame.records() {
        if base.get(&slot) != Some(record) {
            entries.push(Entry {
                slot,
                change: Change::Update(*record),
            });
        }
    }
    let bytes = records::encode(&layout, &base, &entries, frame.server_us);
    let read = records::decode(&layout, &base, &bytes, entries.len(), frame.server_us);
    let mut said = base.clone();
    records::apply(&mut said, &read.expect("what a relay writes, a client reads"));
    for (slot, record) in frame.records() {
        assert_eq!(said.get(&slot), Some(record), "lossless (ID7)");
    }
}

/// A tick: mostly legal items of a schema, with any number of lies.
fn update(
    tape: &mut Tape<'_>,
    schema: &Schema,
    number: &mut u64,
    server_us: u64,
    world: Option<&World>,
) -> TickUpdate {
    match tape.below(8) {
        6 => *number = number.saturating_add(u64::from(tape.below(4))),
        7 => *number = tape.u64(),
        _ => {}
    }
    let mut update = TickUpdate {
        origin_tick: *number,
        server_us: if tape.one_in(12) {
            tape.u64() % (1 << 48)
        } else {
            server_us
        },
        published_us: u64::from(tape.u8()),
        keyframe: world.is_none_or(|world| world.live() == 0) || tape.one_in(8),
        ..TickUpdate::default()
    };
    let server_us = update.server_us;
    let entity = |tape: &mut Tape<'_>| Entity {
        id: tape.below(8),
        generation: tape.below(3),
    };
    let time = |tape: &mut Tape<'_>| {
        if tape.one_in(8) {
            tape.u64() % (1 << 48)
        } else {
            tape.time(server_us, schema.tick_period_us)
        }
    };
    for _ in 0..tape.below(3) {
        update.despawned.push(Despawn {
            entity: entity(tape),
            at_us: time(tape),
            reason: tape.u8(),
        });
    }
    for _ in 0..tape.below(5) {
        let class = tape.below(schema.classes.len() as u32 + 1) as u8;
        update.spawned.push(Spawn {
            entity: entity(tape),
            class,
            at_us: time(tape),
        });
    }
    for _ in 0..tape.below(6) {
        let motion = (!tape.one_in(4)).then(|| observed(tape, schema, server_us));
        let segment = tape.value(0, u32::MAX);
        update.observed.push(Observation {
            entity: entity(tape),
            segment,
            segment_us: time(tape),
            motion,
        });
    }
    for _ in 0..tape.below(3) {
        let (mask, mut values) = (tape.u8(), [0; ackline::limits::EXTRA_FIELDS_MAX]);
        for (i, value) in values.iter_mut().enumerate() {
            if mask >> i & 1 == 1 {
                *value = tape.value(0, schema.extras.get(i).map_or(9, |field| field.mask() as u32));
            }
        }
        update.extras.push(ExtraUpdate {
            entity: entity(tape),
            mask,
            values,
        });
    }
    for _ in 0..tape.below(3) {
        let about = tape.one_in(2).then(|| entity(tape));
        let payload = tape.block(30).to_vec();
        let kind = tape.u16();
        let tags = tape.u32();
        update.tags.push(TagUpdate {
            entity: entity(tape),
            tags,
        });
        update.events.push(Event {
            kind,
            critical: tape.one_in(2),
            entity: about,
            at_us: server_us,
            payload,
        });
    }
    update
}

fn directives(tape: &mut Tape<'_>) -> Vec<Directive> {
    let count = 1 + tape.below(4);
    let one = |tape: &mut Tape<'_>| Directive {
        player: u64::from(tape.below(4)),
        order: match tape.below(3) {
            0 => Order::Assign {
                entity: tape.one_in(2).then(|| Entity {
                    id: tape.below(8),
                    generation: tape.below(3),
                }),
                view: tape.one_in(2).then(|| "radius".parse().unwrap()),
            },
            1 => Order::Message {
                kind: tape.u16(),
                payload: tape.block(60).to_vec(),
            },
            _ => Order::Processed(tape.u32()),
        },
    };
    (0..count).map(|_| one(tape)).collect()
}

fn player_events(tape: &mut Tape<'_>) -> Vec<PlayerEvent> {
    let count = 1 + tape.below(6);
    let one = |tape: &mut Tape<'_>| {
        let player = u64::from(tape.below(4));
        match tape.below(5) {
            0 => PlayerEvent::Joined(player, 0),
            1 => PlayerEvent::Left(player),
            2 => PlayerEvent::InputsLost {
                player,
                first: 1 + tape.below(50),
                count: 1 + tape.below(5),
            },
            3 => PlayerEvent::Camera {
                player,
                position: [tape.u32(); 3],
            },
            _ => PlayerEvent::Input {
                player,
                sequence: 1 + tape.below(60),
                payload: tape.block(60).to_vec(),
            },
        }
    };
    (0..count).map(|_| one(tape)).collect()
}

fn observed(tape: &mut Tape<'_>, schema: &Schema, server_us: u64) -> Motion {
    let mut motion = records::motion(tape, schema, None, server_us);
    match tape.below(10) {
        6 => motion.position[0] = tape.u32(),
        7 => {
            motion.rotation = Rotation {
                largest: tape.u8(),
                parts: [tape.u16(), 0, 0],
            }
        }
        8 => motion.velocity[1] = tape.u32().cast_signed(),
        9 => motion.observed_us = tape.u64() % (1 << 48),
        _ => {}
    }
    motion
}

/// Hostile subscribers at an origin.
fn at_the_origin(tape: &mut Tape<'_>) {
    let mut publisher = Publisher::new(stage_schema(1), 1, 1, 0).unwrap();
    let token = if tape.one_in(2) {
        b"key".to_vec()
    } else {
        Vec::new()
    };
    let mut subscribers = Subscribers::new(token.clone());
    let from = std::net::IpAddr::from([203, 0, 113, 7]);
    let mut ids = vec![subscribers.open(from, 0).0];
    let (mut now_us, mut server_us) = (0, 0);
    for _ in 0..STEPS {
        if tape.is_over() {
            break;
        }
        now_us += 10_000 * u64::from(tape.u8());
        let id = tape.pick(&ids).unwrap();
        let mut said = Vec::new();
        match tape.below(10) {
            8 => ToOrigin::Players(player_events(tape)).encode(&mut said),
            9 => {
                for directive in directives(tape) {
                    subscribers.direct(id, directive);
                }
                while tape.one_in(3) && subscribers.next_player_event().is_some() {}
            }
            0 => {
                let right = !tape.one_in(4);
                let token = if right {
                    token.clone()
                } else {
                    tape.block(30).to_vec()
                };
                ToOrigin::Subscribe(Subscribe {
                    flags: tape.u16(),
                    token,
                })
                .encode(&mut said);
            }
            1 => ToOrigin::Resync.encode(&mut said),
            2 => said = framed(tape.block(1200)),
            3 => said = tape.block(100).to_vec(),
            4 => {
                server_us += 50_000;
                let sample = ackline::state::sample::WorldSample {
                    server_us,
                    ..Default::default()
                };
                let published = publisher.publish(&sample, now_us);
                assert!(published.errors.is_empty());
                subscribers.publish(&published, now_us, &publisher);
            }
            5 => {
                let (id, gone) = subscribers.open(from, now_us);
                assert!(gone.is_none_or(|gone| subscribers.closing(gone).is_some()));
                ids.push(id);
            }
            6 => {
                let mut bytes = 0;
                while let Some(message) = subscribers.take(id) {
                    bytes += message.len();
                    assert!(matches!(FromOrigin::decode(&message[4..]), Ok(Some(_))));
                }
                assert!(bytes <= SUBSCRIBER_QUEUE_MAX + UPSTREAM_REQUEST_MAX);
            }
            _ => subscribers.close(id),
        }
        if tape.one_in(4) {
            tape.damage(&mut said);
        }
        for piece in said.chunks(1 + usize::from(tape.u8())) {
            subscribers.receive(id, piece, now_us, &publisher);
        }
        let mut splitter = Splitter::new(UPSTREAM_REQUEST_MAX);
        splitter.push(&said);
        while let Ok(Some(payload)) = splitter.next() {
            if let Ok(Some(message)) = ToOrigin::decode(payload) {
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(again[4..], *payload, "one legal form: {message:?}");
            }
        }
        assert!(subscribers.served() <= subscribers.ids().count());
    }
    subscribers.end(now_us);
}
