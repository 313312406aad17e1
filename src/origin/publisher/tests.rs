use super::*;
use crate::limits::EVENTS_TICK_BYTES_MAX;
use crate::state::record::Record;
use crate::state::sample::{ExtraSample, Sample};
use crate::state::schema::tests::full_schema;
use crate::state::update::{Despawn, Event, Spawn, TagUpdate};
use crate::upstream::subscriber::{Subscriber, SubscriberEvent};

fn entity(id: u32, generation: u32) -> Entity {
    Entity { id, generation }
}

fn spawn(id: u32, generation: u32, at_us: u64) -> Spawn {
    Spawn {
        entity: entity(id, generation),
        class: 0,
        at_us,
    }
}

fn observed(id: u32, segment: u32, observed_us: u64, x: f64) -> Sample {
    Sample {
        entity: entity(id, 0),
        segment,
        observed_us,
        position: [x, -1.0, 100.0],
        rotation: [0.0, 0.0, 0.0, -2.0],
        velocity: [1.0, 0.0, -50.0],
        angular: [0.0, 0.5, 0.0],
        at_rest: false,
    }
}

fn sample(server_us: u64) -> WorldSample {
    WorldSample {
        server_us,
        ..WorldSample::default()
    }
}

fn publisher(on_change: bool) -> Publisher {
    let schema = Schema {
        on_change,
        ..full_schema()
    };
    let mut publisher = Publisher::new(schema, 1, 2, 3).unwrap();
    let first = WorldSample {
        spawned: vec![spawn(1, 0, 0), spawn(2, 0, 0)],
        observed: vec![observed(1, 0, 0, 1.0), observed(2, 0, 0, 2.0)],
        ..sample(0)
    };
    assert_eq!(publisher.publish(&first, 7).errors, []);
    publisher
}

fn record(publisher: &Publisher, id: u32) -> Record {
    *publisher.world().record(entity(id, 0)).unwrap().1
}

/// A relay's view of a publisher: a subscriber and a world.
struct Relay {
    subscriber: Subscriber,
    world: Option<World>,
    tick: Tick,
}

impl Relay {
    fn join(publisher: &Publisher) -> Relay {
        let mut relay = Relay {
            subscriber: Subscriber::new(Vec::new()),
            world: None,
            tick: Tick(0),
        };
        let _ = relay.subscriber.start();
        relay.receive(&publisher.hello());
        relay.receive(&publisher.keyframe());
        relay
    }

    /// Takes bytes in; nothing in them may be refused.
    fn receive(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        self.subscriber.receive(bytes, &mut events);
        for event in events {
            match event {
                SubscriberEvent::Stream(stream) => self.world = Some(World::new(stream.schema, 1, 4)),
                SubscriberEvent::Tick(update) => {
                    let world = self.world.as_mut().unwrap();
                    self.tick = self.tick.next();
                    world.advance(self.tick, &update).unwrap();
                    assert_eq!(world.refused(), []);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(self.subscriber.take_outgoing().is_empty());
    }

    fn agrees_with(&self, publisher: &Publisher) {
        let world = self.world.as_ref().unwrap();
        let mut ours: Vec<Record> = Vec::new();
        let frame = publisher.frame().unwrap();
        ours.extend(frame.records().map(|(_, record)| *record));
        assert_eq!(ours.len(), world.live());
        for record in ours {
            assert_eq!(
                world.record(record.entity).map(|(_, record)| *record),
                Some(record)
            );
        }
    }
}

/// SPEC ID6, OPS2: whoever joins at any tick, by hello and keyframe, holds what the publisher holds from then on.
#[test]
fn ops2_whoever_joins_at_any_tick_holds_the_publishers_world() {
    for on_change in [false, true] {
        let mut publisher = publisher(on_change);
        let mut relays = vec![Relay::join(&publisher)];
        for tick in 1..60u32 {
            let server_us = u64::from(tick) * 50_000;
            let mut next = sample(server_us);
            if tick.is_multiple_of(5) {
                next.spawned = vec![spawn(100 + tick, 0, server_us)];
                next.despawned = vec![Despawn {
                    entity: entity(95 + tick, 0),
                    at_us: server_us,
                    reason: 1,
                }];
                next.despawned.truncate(usize::from(tick > 5));
            }
            if tick == 30 {
                next.despawned.push(Despawn {
                    entity: entity(2, 0),
                    at_us: server_us,
                    reason: 2,
                });
                next.spawned.push(spawn(2, 1, server_us));
            }
            if !tick.is_multiple_of(3) {
                next.observed = vec![observed(1, tick / 20, server_us - 1, f64::from(tick))];
            }
            next.extras = vec![ExtraSample {
                entity: entity(1, 0),
                field: 0,
                value: -i64::from(tick),
            }];
            next.events = vec![Event {
                kind: 1,
                critical: true,
                entity: None,
                at_us: server_us,
                payload: vec![1],
            }];
            let published = publisher.publish(&next, 0);
            assert_eq!(published.errors, [], "tick {tick}");
            relays
                .iter_mut()
                .for_each(|relay| relay.receive(published.message.as_ref().unwrap()));
            relays.push(Relay::join(&publisher));
            relays.iter().for_each(|relay| relay.agrees_with(&publisher));
        }
        assert_eq!(relays[0].subscriber.last_tick(), Some(60));
    }
}

/// SPEC ID6, DEC5: each bad item is named with field, value and bounds, left out, and the rest is published.
#[test]
fn id6_dec5_bad_items_are_named_and_left_out() {
    let mut publisher = publisher(false);
    let before = record(&publisher, 2);
    let good = observed(1, 0, 50_000, 1.5);
    let bad = |change: &dyn Fn(&mut Sample)| {
        let mut sample = observed(2, 0, 50_000, 2.5);
        change(&mut sample);
        sample
    };
    let cases: [(Sample, &str); 9] = [
        (
            bad(&|s| s.position[0] = 100.01),
            "observation of entity 2#0 refused: x is 100.01, outside its bounds -100 to 100: widen the schema's bounds or fix the value",
        ),
        (
            bad(&|s| s.position[2] = f64::NAN),
            "observation of entity 2#0 refused: z is NaN, outside its bounds -100 to 100: widen the schema's bounds or fix the value",
        ),
        (
            bad(&|s| s.velocity[1] = f64::NEG_INFINITY),
            "observation of entity 2#0 refused: velocity y is -inf, outside its bounds -50 to 50: widen the schema's bounds or fix the value",
        ),
        (
            bad(&|s| s.angular[0] = 10.5),
            "observation of entity 2#0 refused: angular velocity x is 10.5, outside its bounds -10 to 10: widen the schema's bounds or fix the value",
        ),
        (
            bad(&|s| s.rotation = [0.0; 4]),
            "observation of entity 2#0 refused: rotation is [0.0, 0.0, 0.0, 0.0], which has no direction: give a finite quaternion of non-zero length",
        ),
        (
            bad(&|s| s.entity = entity(1, 0)),
            "observation of entity 1#0 refused: the sample has one already, give one in each tick",
        ),
        (
            bad(&|s| s.entity = entity(9, 0)),
            "observation of entity 9#0 refused: it was never spawned or is destroyed",
        ),
        (
            bad(&|s| s.observed_us = 50_001),
            "observation of entity 2#0 refused: its time 50001 us is after the frame's 50000 us",
        ),
        (bad(&|s| s.segment = u32::MAX), ""),
    ];
    for (sample_of_2, sentence) in &cases[..8] {
        let next = WorldSample {
            observed: vec![good, *sample_of_2],
            ..sample(50_000)
        };
        let published = publisher.publish(&next, 0);
        let errors: Vec<String> = published.errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, [*sentence]);
        let names: Vec<Entity> = published.update.observed.iter().map(|o| o.entity).collect();
        assert_eq!(names, [entity(1, 0)], "{sentence}");
        assert_eq!(record(&publisher, 2), before, "the last good one stays");
        assert_eq!(record(&publisher, 1).motion.unwrap().position[0], 10_150);
    }
    let next = WorldSample {
        observed: vec![cases[8].0],
        ..sample(50_000)
    };
    assert_eq!(
        publisher.publish(&next, 0).errors,
        [],
        "any rise of the segment will do"
    );
}

/// The other sections: each bad item is left out by itself.
#[test]
fn bad_lives_extras_and_events_are_left_out_one_by_one() {
    let mut publisher = publisher(false);
    let mut relay = Relay::join(&publisher);
    let event = |bytes: usize, at_us| Event {
        kind: 3,
        critical: false,
        entity: None,
        at_us,
        payload: vec![0; bytes],
    };
    let next = WorldSample {
        despawned: vec![
            Despawn {
                entity: entity(8, 0),
                at_us: 0,
                reason: 0,
            },
            Despawn {
                entity: entity(2, 0),
                at_us: 60_000,
                reason: 0,
            },
        ],
        spawned: vec![
            spawn(1, 0, 0),
            spawn(5, 0, 50_000),
            spawn(5, 0, 50_000),
            Spawn {
                class: 9,
                ..spawn(6, 0, 0)
            },
        ],
        extras: vec![
            ExtraSample {
                entity: entity(1, 0),
                field: 0,
                value: 511,
            },
            ExtraSample {
                entity: entity(1, 0),
                field: 0,
                value: 512,
            },
            ExtraSample {
                entity: entity(1, 0),
                field: 1,
                value: 3,
            },
            ExtraSample {
                entity: entity(1, 0),
                field: 2,
                value: 0,
            },
            ExtraSample {
                entity: entity(8, 0),
                field: 1,
                value: 0,
            },
        ],
        events: vec![event(256, 0), event(257, 0), event(0, 50_001)],
        ..sample(50_000)
    };
    let published = publisher.publish(&next, 0);
    let errors: Vec<String> = published.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "despawn of entity 2#0 refused: its time 60000 us is after the frame's 50000 us",
            "spawn of entity 5#0 refused: the sample has one already, give one in each tick",
            "extra field of entity 1#0 refused: health is 512, outside its bounds -512 to 511: widen the schema's bounds or fix the value",
            "extra field of entity 1#0 refused: field 2 is not among the schema's 2",
            "event of kind 3 refused: its payload of 257 bytes is above the bound of 256: shorten it",
            "event of kind 3 refused: its time 50001 us is after the frame's 50000 us",
            "despawn of entity 8#0 refused: it was never spawned or is destroyed",
            "spawn of entity 1#0 refused: it is alive already",
            "spawn of entity 6#0 refused: class 9 is not among the schema's 1",
            "extra fields of entity 8#0 refused: it was never spawned or is destroyed",
        ]
    );
    let TickUpdate {
        despawned,
        spawned,
        extras,
        events,
        ..
    } = &published.update;
    assert_eq!(
        (despawned.len(), spawned.len(), extras.len(), events.len()),
        (0, 1, 1, 1)
    );
    assert_eq!(
        (extras[0].mask, extras[0].values[..2].to_vec()),
        (0b11, vec![511, 3])
    );
    relay.receive(published.message.as_ref().unwrap());
    relay.agrees_with(&publisher);
}

/// THREATS 35, FAULTS 66: a value that is NaN tick after tick is an error each tick and never a delta.
#[test]
fn threats_35_nan_never_becomes_a_delta() {
    for on_change in [false, true] {
        let mut publisher = publisher(on_change);
        let mut bad = observed(1, 0, 0, f64::NAN);
        publisher.publish(&sample(50_000), 0);
        for tick in 2..10u64 {
            bad.observed_us = tick * 50_000;
            let next = WorldSample {
                observed: vec![bad],
                ..sample(tick * 50_000)
            };
            let published = publisher.publish(&next, 0);
            assert_eq!(published.errors.len(), 1);
            assert!(published.update.observed.is_empty());
            assert!(published.frame.unwrap().dirty().is_empty());
        }
    }
}

/// SPEC TAB4, ENT4: a segment begins at its first observation and keeps that time; a life begins with segment 0.
#[test]
fn tab4_a_segment_keeps_the_time_of_its_first_observation() {
    let mut publisher = publisher(false);
    let mut observe = |sample_us: u64, sample_of: Sample| {
        let next = WorldSample {
            observed: vec![sample_of],
            ..sample(sample_us)
        };
        let published = publisher.publish(&next, 0);
        assert_eq!(published.errors, []);
        published.update.observed[0].segment_us
    };
    assert_eq!(observe(50_000, observed(1, 0, 49_000, 1.0)), 0, "since birth");
    assert_eq!(
        observe(100_000, observed(1, 1, 98_000, 9.0)),
        98_000,
        "a teleport"
    );
    assert_eq!(
        observe(150_000, observed(1, 1, 140_000, 9.5)),
        98_000,
        "the same segment"
    );
    let mut bad = observed(1, 2, 200_000, 1.0);
    bad.position[0] = 500.0;
    publisher.publish(
        &WorldSample {
            observed: vec![bad],
            ..sample(200_000)
        },
        0,
    );
    assert_eq!(
        record(&publisher, 1).segment,
        1,
        "a refused observation begins no segment"
    );
}

/// SPEC DEC5, THREATS 83: an observation from the future that would begin a segment is left out like any other.
#[test]
fn dec5_a_segment_from_the_future_is_left_out() {
    let mut publisher = publisher(false);
    let mut relay = Relay::join(&publisher);
    for (server_us, observed_us) in [(50_000, 50_001), (100_000, 1 << 60)] {
        let next = WorldSample {
            observed: vec![observed(1, 1, observed_us, 1.0), observed(2, 0, server_us, 3.0)],
            ..sample(server_us)
        };
        let published = publisher.publish(&next, 0);
        assert_eq!((published.errors.len(), published.update.observed.len()), (1, 1));
        relay.receive(&published.message.unwrap());
        relay.agrees_with(&publisher);
    }
}

/// SPEC ENT9: in a stream that publishes on change only, who is not observed is at rest, in keyframes too.
#[test]
fn ent9_unobserved_entities_rest_in_an_on_change_stream() {
    let mut publisher = publisher(true);
    let next = WorldSample {
        observed: vec![observed(1, 0, 50_000, 2.0)],
        ..sample(50_000)
    };
    publisher.publish(&next, 0);
    assert!(!record(&publisher, 1).motion.unwrap().at_rest);
    assert!(record(&publisher, 2).motion.unwrap().at_rest);
    Relay::join(&publisher).agrees_with(&publisher);
}

/// FAULTS 43 in small: a sample whose time falls is refused whole, and numbers stay without a gap.
#[test]
fn a_sample_out_of_time_is_refused_whole() {
    let mut publisher = publisher(false);
    let mut relay = Relay::join(&publisher);
    publisher
        .publish(&sample(50_000), 0)
        .message
        .map(|message| relay.receive(&message))
        .unwrap();
    for (server_us, sentence) in [
        (
            49_999,
            "tick refused: its time 49999 us is before the last frame's 50000 us; a restarted server must begin a new epoch",
        ),
        (
            1 << 48,
            "sample refused: its time 281474976710656 us is above 281474976710655 us: begin a new epoch at time 0",
        ),
    ] {
        let published = publisher.publish(&sample(server_us), 0);
        assert!(published.message.is_none() && published.frame.is_none());
        assert_eq!(
            published
                .errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            [sentence]
        );
    }
    publisher
        .publish(&sample(50_000), 0)
        .message
        .map(|message| relay.receive(&message))
        .unwrap();
    assert_eq!((publisher.origin_tick(), relay.subscriber.counts().gaps), (3, 0));
}

/// A tick with more events than fit sends those that do, in order.
#[test]
fn events_beyond_a_ticks_room_are_refused() {
    let mut publisher = publisher(false);
    let mut relay = Relay::join(&publisher);
    let event = Event {
        kind: 3,
        critical: false,
        entity: None,
        at_us: 0,
        payload: vec![0; 256],
    };
    let fitting = EVENTS_TICK_BYTES_MAX / event.bytes();
    let next = WorldSample {
        events: vec![event; fitting + 2],
        ..sample(50_000)
    };
    let published = publisher.publish(&next, 0);
    assert_eq!(
        (published.update.events.len(), published.errors.len()),
        (fitting, 2)
    );
    relay.receive(published.message.as_ref().unwrap());
}

#[test]
fn a_schema_out_of_bounds_is_refused() {
    let schema = Schema {
        tick_period_us: 0,
        ..full_schema()
    };
    assert!(Publisher::new(schema, 1, 2, 3).is_err());
}

/// SPEC CTL1: tags are published, of two for an entity the later, and a keyframe has them; a dead one's are left out.
#[test]
fn ctl1_tags_reach_a_relay_by_tick_and_by_keyframe() {
    let mut publisher = publisher(false);
    let tagged = |id, tags| TagUpdate {
        entity: entity(id, 0),
        tags,
    };
    let mut relay = Relay::join(&publisher);
    let next = WorldSample {
        tags: vec![tagged(1, 4), tagged(2, 6), tagged(1, 5), tagged(9, 1)],
        ..sample(50_000)
    };
    let published = publisher.publish(&next, 0);
    assert_eq!(published.update.tags, [tagged(1, 5), tagged(2, 6)]);
    let text = published
        .errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert!(
        matches!(&text[..], [one] if one.starts_with("tags of entity 9#0")),
        "{text:?}"
    );
    relay.receive(&published.message.unwrap());
    let late = Relay::join(&publisher);
    for relay in [&relay, &late] {
        let world = relay.world.as_ref().unwrap();
        assert_eq!(world.keyframe(0).tags, [tagged(1, 5), tagged(2, 6)]);
    }
}
