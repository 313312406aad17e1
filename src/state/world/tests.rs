mod orders;
mod threats;
mod tiers;

use super::*;
use crate::limits::SLOTS_MAX;
use crate::state::frame::Grave;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::schema::tests::full_schema;
use crate::state::update::Despawn;

fn entity(id: u32, generation: u32) -> Entity {
    Entity { id, generation }
}

fn motion(observed_us: u64, x: u32) -> Motion {
    Motion {
        observed_us,
        position: [x, 0, 0],
        rotation: Rotation::identity(9),
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: false,
    }
}

fn observation(id: u32, observed_us: u64, x: u32) -> Observation {
    Observation {
        entity: entity(id, 0),
        segment: 0,
        segment_us: 0,
        motion: Some(motion(observed_us, x)),
    }
}

fn spawn(entity: Entity) -> Spawn {
    Spawn {
        entity,
        class: 0,
        at_us: 0,
    }
}

fn update(server_us: u64) -> TickUpdate {
    TickUpdate {
        server_us,
        ..TickUpdate::default()
    }
}

fn world(on_change: bool) -> World {
    let mut schema = full_schema();
    schema.on_change = on_change;
    let mut world = World::new(Arc::new(schema), 1, 4);
    let first = TickUpdate {
        spawned: vec![spawn(entity(1, 0)), spawn(entity(2, 0))],
        observed: vec![observation(1, 0, 10), observation(2, 0, 20)],
        ..update(0)
    };
    world.advance(Tick(1), &first).unwrap();
    assert!(world.refused().is_empty(), "{:?}", world.refused());
    world
}

fn x(frame: &Frame, slot: Slot) -> u32 {
    frame.record(slot).unwrap().motion.unwrap().position[0]
}

#[test]
fn frames_are_immutable_and_share_unchanged_chunks() {
    let mut world = world(false);
    let before = world.hold(Tick(2), false);
    let after = world.advance(
        Tick(3),
        &TickUpdate {
            observed: vec![observation(1, 50, 11)],
            ..update(50)
        },
    );
    let after = after.unwrap();
    assert_eq!((x(&before, 0), x(&after, 0), x(&after, 1)), (10, 11, 20));
    assert_eq!(after.dirty().iter().collect::<Vec<_>>(), [0]);
    assert_eq!((after.changed_at(0), after.changed_at(1)), (Tick(3), Tick(1)));
    assert!(before.dirty().is_empty());
    let sum = after
        .records()
        .fold(Digest::EMPTY, |sum, (_, record)| sum.plus(Digest::of(record)));
    assert_eq!(after.digest(), sum);
}

/// SPEC ID4, DEC5, CTL4; THREATS 83: each bad item is refused by itself with a sentence, the rest applies.
#[test]
fn threats_83_one_bad_item_is_refused_and_the_rest_applies() {
    let mut world = world(false);
    let bad = TickUpdate {
        despawned: vec![Despawn {
            entity: entity(9, 0),
            at_us: 50,
            reason: 0,
        }],
        spawned: vec![
            spawn(entity(1, 0)),
            Spawn {
                entity: entity(5, 0),
                class: 7,
                at_us: 50,
            },
        ],
        observed: vec![
            observation(1, 50, 11),
            observation(7, 50, 1),
            observation(2, 50, 20_001),
            observation(2, 51, 21),
        ],
        extras: vec![
            ExtraUpdate {
                entity: entity(1, 0),
                mask: 4,
                values: [0; 8],
            },
            ExtraUpdate {
                entity: entity(2, 0),
                mask: 2,
                values: [0, 4, 0, 0, 0, 0, 0, 0],
            },
        ],
        ..update(50)
    };
    let frame = world.advance(Tick(2), &bad).unwrap();
    assert_eq!((x(&frame, 0), x(&frame, 1)), (11, 20));
    let sentences: Vec<String> = world.refused().iter().map(ToString::to_string).collect();
    assert_eq!(sentences.len(), 8, "{sentences:#?}");
    assert!(matches!(
        world.refused()[0],
        Refusal::NotAlive { what: "despawn", .. }
    ));
    assert!(matches!(world.refused()[1], Refusal::AlreadyAlive(_)));
    assert!(matches!(
        world.refused()[2],
        Refusal::UnknownClass { class: 7, .. }
    ));
    assert!(matches!(world.refused()[3], Refusal::NotAlive { .. }));
    assert!(matches!(
        world.refused()[4],
        Refusal::OutOfRange { field: "x", .. }
    ));
    assert!(matches!(
        world.refused()[5],
        Refusal::Future {
            what: "observation",
            ..
        }
    ));
    assert!(matches!(
        world.refused()[7],
        Refusal::UnknownField { field: 1, .. }
    ));
    let future = TickUpdate {
        despawned: vec![Despawn {
            entity: entity(2, 0),
            at_us: 51,
            reason: 0,
        }],
        spawned: vec![Spawn {
            entity: entity(6, 0),
            class: 0,
            at_us: 51,
        }],
        observed: vec![Observation {
            segment: 1,
            segment_us: 51,
            ..observation(2, 50, 1)
        }],
        ..update(50)
    };
    world.advance(Tick(3), &future).unwrap();
    let what: Vec<&str> = world
        .refused()
        .iter()
        .map(|refusal| match refusal {
            Refusal::Future { what, at_us: 51, .. } => *what,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(what, ["despawn", "spawn", "segment"]);
    assert!(world.advance(Tick(4), &update(1 << 48)).is_none());
    assert!(world.advance(Tick(4), &update(49)).is_none());
    assert!(matches!(
        world.refused(),
        [Refusal::TimeFell { got: 49, last: 50 }]
    ));
}

/// SPEC ID2, FAULTS 21: nothing of an older generation touches the newer one; the tombstone holds.
#[test]
fn id2_a_dead_generation_stays_dead() {
    let mut world = world(false);
    let reuse = TickUpdate {
        despawned: vec![Despawn {
            entity: entity(1, 0),
            at_us: 50,
            reason: 3,
        }],
        spawned: vec![spawn(entity(1, 1))],
        observed: vec![
            Observation {
                entity: entity(1, 1),
                ..observation(1, 50, 99)
            },
            observation(1, 50, 11),
        ],
        ..update(50)
    };
    let frame = world.advance(Tick(2), &reuse).unwrap();
    assert_eq!(
        world.refused(),
        [Refusal::DeadGeneration {
            what: "observation",
            entity: entity(1, 0),
            current: 1
        }]
    );
    assert_eq!(
        *frame.place(0),
        Place::Grave(Grave {
            entity: entity(1, 0),
            at_us: 50,
            reason: 3
        })
    );
    assert_eq!(x(&frame, 2), 99);
    let again = TickUpdate {
        spawned: vec![spawn(entity(1, 0))],
        ..update(50)
    };
    world.advance(Tick(3), &again).unwrap();
    assert!(matches!(
        world.refused(),
        [Refusal::DeadGeneration { current: 1, .. }]
    ));
}

/// FAULTS 56: a newer generation under a living id ends the old one.
#[test]
fn faults_56_a_new_generation_ends_the_old_one() {
    let mut world = world(false);
    let frame = world
        .advance(
            Tick(2),
            &TickUpdate {
                spawned: vec![spawn(entity(1, 5))],
                ..update(5)
            },
        )
        .unwrap();
    assert!(world.refused().is_empty());
    assert!(matches!(frame.place(0), Place::Grave(g) if g.entity == entity(1, 0)));
    assert_eq!((frame.live(), frame.record(2).unwrap().entity), (2, entity(1, 5)));
}

/// SPEC ID2: a slot is reused only after its quarantine.
#[test]
fn id2_a_slot_is_quarantined() {
    let mut world = world(false);
    let end = Despawn {
        entity: entity(1, 0),
        at_us: 1,
        reason: 0,
    };
    world.advance(
        Tick(2),
        &TickUpdate {
            despawned: vec![end],
            ..update(1)
        },
    );
    let early = world
        .advance(
            Tick(6),
            &TickUpdate {
                spawned: vec![spawn(entity(8, 0))],
                ..update(2)
            },
        )
        .unwrap();
    assert_eq!(early.record(2).unwrap().entity, entity(8, 0));
    let late = world
        .advance(
            Tick(7),
            &TickUpdate {
                spawned: vec![spawn(entity(9, 0))],
                ..update(2)
            },
        )
        .unwrap();
    assert_eq!(late.record(0).unwrap().entity, entity(9, 0));
}

/// SPEC ENT9: on an on-change stream an entity not in a tick is at rest from it; otherwise merely not heard.
#[test]
fn ent9_on_change_streams_rest_what_is_not_observed() {
    let at_rest = |frame: &Frame, slot| frame.record(slot).unwrap().motion.unwrap().at_rest;
    let next = TickUpdate {
        observed: vec![observation(1, 50, 11)],
        ..update(50)
    };
    let frame = world(false).advance(Tick(2), &next).unwrap();
    assert!(!at_rest(&frame, 1));
    let mut world = world(true);
    let frame = world.advance(Tick(2), &next).unwrap();
    assert!(!at_rest(&frame, 0) && at_rest(&frame, 1));
    assert_eq!(frame.dirty().len(), 2);
    let woken = TickUpdate {
        observed: vec![observation(2, 100, 21)],
        ..update(100)
    };
    let frame = world.advance(Tick(3), &woken).unwrap();
    assert!(at_rest(&frame, 0) && !at_rest(&frame, 1));
}

/// THREATS 85: a keyframe after a gap ends what is gone, keeps what is equal, takes the rest.
#[test]
fn threats_85_a_keyframe_reconciles() {
    let mut here = world(false);
    let mut there = world(false);
    let ahead = TickUpdate {
        despawned: vec![Despawn {
            entity: entity(2, 0),
            at_us: 50,
            reason: 0,
        }],
        spawned: vec![spawn(entity(3, 0))],
        observed: vec![observation(1, 50, 11)],
        ..update(50)
    };
    let frame = there.advance(Tick(2), &ahead).unwrap();
    let rebuilt = here.advance(Tick(9), &there.keyframe(7)).unwrap();
    assert!(here.refused().is_empty(), "{:?}", here.refused());
    assert_eq!(rebuilt.digest(), frame.digest());
    assert_eq!(rebuilt.dirty().len(), 3);
    let again = here.advance(Tick(10), &there.keyframe(8)).unwrap();
    assert!(again.dirty().is_empty(), "an equal keyframe changes nothing");
}

/// SPEC ID3: segment 0 begins with its entity, whatever a keyframe says, so that a keyframe rebuilds any world.
#[test]
fn id3_segment_0_begins_with_its_entity() {
    let mut world = world(false);
    let silent = Observation {
        segment_us: 7,
        motion: None,
        ..observation(3, 0, 0)
    };
    let next = TickUpdate {
        keyframe: true,
        spawned: vec![spawn(entity(3, 0))],
        observed: vec![silent],
        ..update(10)
    };
    let frame = world.advance(Tick(2), &next).unwrap();
    let mut other = World::new(Arc::clone(world.schema()), 1, 4);
    let rebuilt = other.advance(Tick(1), &world.keyframe(1)).unwrap();
    assert_eq!(rebuilt.digest(), frame.digest());
    assert_eq!(world.record(entity(3, 0)).unwrap().1.segment_us, 0);
}

/// FAULTS 61: a full world refuses the next spawn and goes on.
#[test]
fn faults_61_a_full_world_refuses_and_goes_on() {
    let mut world = World::new(Arc::new(full_schema()), 1, 4);
    let fill = (0..u32::try_from(SLOTS_MAX).unwrap() + 10)
        .map(|id| spawn(entity(id, 0)))
        .collect();
    let frame = world
        .advance(
            Tick(1),
            &TickUpdate {
                spawned: fill,
                ..update(0)
            },
        )
        .unwrap();
    assert_eq!((frame.live(), world.refused().len()), (SLOTS_MAX, 10));
    let end = Despawn {
        entity: entity(5, 0),
        at_us: 1,
        reason: 0,
    };
    world.advance(
        Tick(2),
        &TickUpdate {
            despawned: vec![end],
            ..update(1)
        },
    );
    let next = TickUpdate {
        spawned: vec![spawn(entity(u32::MAX, u32::MAX))],
        ..update(2)
    };
    let frame = world.advance(Tick(10), &next).unwrap();
    assert_eq!(
        (frame.live(), frame.record(5).unwrap().entity.id),
        (SLOTS_MAX, u32::MAX)
    );
    let reborn = TickUpdate {
        spawned: vec![spawn(entity(7, 1))],
        ..update(3)
    };
    let frame = world.advance(Tick(11), &reborn).unwrap();
    assert_eq!(world.refused().len(), 1);
    assert_eq!(
        frame.record(7).unwrap().entity,
        entity(7, 0),
        "its old life goes on"
    );
}

/// THREATS 83, SPEC OPS5: the events of a tick have a bound, since they stay as long as their frame; those within it are
/// kept, a frame counts what they take, and the rest of the tick applies.
#[test]
fn ops5_the_events_of_a_tick_are_bounded_and_counted() {
    let mut world = world(false);
    let event = |size: usize| Event {
        kind: 1,
        critical: false,
        entity: None,
        at_us: 0,
        payload: vec![7; size],
    };
    let mut flood = update(50);
    flood.spawned.push(spawn(entity(9, 0)));
    flood.events = vec![event(256); 2_000];
    let frame = world.advance(Tick(2), &flood).unwrap();
    let taken = EVENTS_TICK_BYTES_MAX / event(256).bytes();
    assert_eq!((frame.events.len(), frame.live()), (taken, 3));
    let told = Refusal::TooManyEvents { taken, events: 2_000 };
    assert_eq!(world.refused(), [told]);
    assert!(
        told.to_string()
            .starts_with(&format!("the last {} of 2000 events", 2_000 - taken)),
        "{told}"
    );
    let quiet = world.advance(Tick(3), &update(100)).unwrap();
    assert!(frame.own_bytes() - quiet.own_bytes() >= taken * 256);
    let mut few = update(150);
    few.events = vec![event(256); 10];
    assert_eq!(world.advance(Tick(4), &few).unwrap().events.len(), 10);
    assert!(world.refused().is_empty());
}

/// A keyframe names the tags of everybody who has any: who lost them while nobody listened has none (SPEC CTL1).
#[test]
fn ctl1_a_keyframe_clears_the_tags_it_does_not_name() {
    let mut world = world(false);
    let tag = |id, tags| TagUpdate {
        entity: entity(id, 0),
        tags,
    };
    let tagged = TickUpdate {
        tags: vec![tag(1, 2), tag(2, 4)],
        ..update(10)
    };
    world.advance(Tick(2), &tagged).unwrap();
    let keyframe = TickUpdate {
        keyframe: true,
        spawned: vec![spawn(entity(1, 0)), spawn(entity(2, 0))],
        tags: vec![tag(2, 4)],
        ..update(20)
    };
    let frame = world.advance(Tick(3), &keyframe).unwrap();
    assert_eq!(world.refused(), []);
    assert_eq!((frame.tags(0), frame.tags(1)), (0, 4));
}

/// Who may see what does not hang on the time of a tick: directives of one that is refused whole come with the next.
#[test]
fn directives_of_a_refused_tick_come_with_the_next() {
    use crate::state::player::Order;
    let mut world = world(false);
    let order = |player| Directive {
        player,
        order: Order::Processed(1),
    };
    let with = |server_us, players: &[u64]| TickUpdate {
        directives: players.iter().copied().map(order).collect(),
        ..update(server_us)
    };
    assert!(world.advance(Tick(2), &with(100, &[1])).is_some());
    assert!(world.advance(Tick(3), &with(50, &[2])).is_none(), "time fell");
    assert!(world.advance(Tick(3), &with(60, &[3])).is_none(), "again");
    let frame = world.advance(Tick(3), &with(150, &[4])).unwrap();
    let players: Vec<u64> = frame
        .directives
        .iter()
        .map(|directive| directive.player)
        .collect();
    assert_eq!(players, [2, 3, 4]);
    assert!(
        world
            .advance(Tick(4), &with(200, &[]))
            .unwrap()
            .directives
            .is_empty()
    );
}
