//! Threats to entities and their numbers where the world is built (THREATS IV, FAULTS 21, 22, 66).

use super::{entity, motion, observation, spawn, update, world, x};
use crate::limits::{QUIET_TICKS, SERVER_TIME_MAX_US};
use crate::sequence::Tick;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::schema::tests::full_schema;
use crate::state::update::{Despawn, Observation, Spawn, TickUpdate};
use crate::state::world::{Refusal, World};
use std::sync::Arc;

fn end(id: u32, generation: u32, at_us: u64) -> Despawn {
    Despawn {
        entity: entity(id, generation),
        at_us,
        reason: 0,
    }
}

/// FAULTS 22: whoever is quiet, and every place nobody used, lies before every later frame, however many ticks pass, so
/// that a client's record of it never looks old. Ticks begin anywhere in their range.
#[test]
fn faults_22_what_is_quiet_never_looks_new() {
    for first in [0, 1, (1 << 31) - 3, 1 << 31, u32::MAX - 2] {
        let mut world = World::new(Arc::new(full_schema()), 1, 4);
        let begin = TickUpdate {
            spawned: vec![spawn(entity(1, 0))],
            ..update(0)
        };
        world.advance(Tick(first), &begin).unwrap();
        let mut tick = Tick(first);
        // Two laps of the range, in steps of an eighth; the last step of each is one tick.
        for step in 1..=16u32 {
            for by in [(1 << 29) - 1, 1] {
                tick = tick.plus(by);
                let frame = world.hold(tick, false);
                let base = tick.minus(u32::from(step > 1) * 500);
                for slot in [0, 1, 63, 64, 5_000] {
                    let changed = frame.changed_at(slot);
                    assert!(
                        !changed.is_after(base),
                        "first {first} step {step} slot {slot}: {changed}"
                    );
                    assert!(
                        tick.since(changed) >= 0
                            && tick.since(changed).cast_unsigned() <= QUIET_TICKS + (1 << 29)
                    );
                }
            }
        }
        let woken = world
            .advance(
                tick.next(),
                &TickUpdate {
                    observed: vec![observation(1, 5, 77)],
                    ..update(5)
                },
            )
            .unwrap();
        assert_eq!((x(&woken, 0), woken.changed_at(0)), (77, tick.next()));
    }
}

/// THREATS 68, FAULTS 21: a reused id with late motion, end and extras of the life before: all dropped, each with its
/// reason, and the new life untouched.
#[test]
fn threats_68_nothing_of_an_older_life_reaches_the_newer() {
    let mut world = world(false);
    for life in 0..50 {
        let us = u64::from(life) + 10;
        let reuse = TickUpdate {
            despawned: vec![end(1, life, us)],
            spawned: vec![spawn(entity(1, life + 1))],
            observed: vec![Observation {
                entity: entity(1, life + 1),
                ..observation(1, us, 1_000 + life)
            }],
            ..update(us)
        };
        world.advance(Tick(2 * life + 2), &reuse).unwrap();
        assert!(world.refused().is_empty());
        let late = TickUpdate {
            despawned: vec![end(1, life, us)],
            spawned: vec![spawn(entity(1, life))],
            observed: vec![Observation {
                entity: entity(1, life),
                ..observation(1, us, 5)
            }],
            ..update(us)
        };
        world.advance(Tick(2 * life + 3), &late).unwrap();
        assert_eq!(world.refused().len(), 3);
        let current = life + 1;
        assert!(
            world.refused().iter().all(
                |refusal| matches!(refusal, Refusal::DeadGeneration { current: c, .. } if *c == current)
            )
        );
        let (_, record) = world.record(entity(1, life + 1)).unwrap();
        assert_eq!(record.motion.unwrap().position[0], 1_000 + life);
    }
}

/// THREATS 66: motion, extras and an end before their spawn create nothing (SPEC CTL4).
#[test]
fn threats_66_motion_before_spawn_creates_nothing() {
    let mut world = world(false);
    let early = TickUpdate {
        despawned: vec![end(7, 0, 5)],
        observed: vec![observation(7, 5, 1)],
        ..update(5)
    };
    let frame = world.advance(Tick(2), &early).unwrap();
    assert_eq!(
        (frame.live(), world.refused().len(), frame.dirty().len()),
        (2, 2, 0)
    );
    let born = TickUpdate {
        spawned: vec![spawn(entity(7, 0))],
        ..update(6)
    };
    let frame = world.advance(Tick(3), &born).unwrap();
    assert!(
        frame.record(2).unwrap().motion.is_none(),
        "and nothing waited for it"
    );
}

/// THREATS 69: generations have 32 bits and no wrap: after the last one the id has no next life until its tombstone has
/// gone, and then begins anew.
#[test]
fn threats_69_after_the_last_generation_an_id_waits_for_its_tombstone() {
    let mut world = World::new(Arc::new(full_schema()), 1, 4);
    let born = |life, tick: u32| TickUpdate {
        spawned: vec![spawn(entity(1, life))],
        ..update(u64::from(tick))
    };
    world.advance(Tick(1), &born(u32::MAX, 1)).unwrap();
    assert!(world.refused().is_empty());
    for life in [0, 1, u32::MAX - 1] {
        world.advance(Tick(2), &born(life, 2)).unwrap();
        assert!(matches!(
            world.refused(),
            [Refusal::DeadGeneration {
                current: u32::MAX,
                ..
            }]
        ));
    }
    let over = TickUpdate {
        despawned: vec![end(1, u32::MAX, 3)],
        ..update(3)
    };
    world.advance(Tick(3), &over).unwrap();
    world.advance(Tick(4), &born(u32::MAX, 4)).unwrap();
    assert_eq!(world.refused().len(), 1, "the tombstone holds");
    // The quarantine is over; its slot goes to the next to come, and the id is free.
    let other = TickUpdate {
        spawned: vec![spawn(entity(2, 0))],
        ..update(9)
    };
    world.advance(Tick(9), &other).unwrap();
    let frame = world.advance(Tick(10), &born(0, 10)).unwrap();
    assert!(world.refused().is_empty(), "{:?}", world.refused());
    assert_eq!(frame.live(), 2);
}

/// THREATS 70: a thousand lives a second: the world stays as large as what its quarantine holds, across the wrap of
/// ticks.
#[test]
fn threats_70_tombstones_are_bounded_by_the_quarantine() {
    let mut world = World::new(Arc::new(full_schema()), 1, 20);
    let first = Tick(u32::MAX - 1_000);
    let mut largest = 0;
    for step in 0..4_000u32 {
        let us = u64::from(step);
        let ids = |step: u32| (0..50).map(move |n| step * 50 + n);
        let next = TickUpdate {
            despawned: ids(step.saturating_sub(1))
                .take(if step > 0 { 50 } else { 0 })
                .map(|id| end(id, 0, us))
                .collect(),
            spawned: ids(step).map(|id| spawn(entity(id, 0))).collect(),
            ..update(us)
        };
        let frame = world.advance(first.plus(step), &next).unwrap();
        assert!(world.refused().is_empty());
        largest = largest.max(frame.slot_count());
    }
    assert_eq!(world.by_id.len(), world.graves.len() + 50);
    assert!(largest <= (20 + 2) * 50 + 64, "{largest} slots");
}

/// THREATS 73: a time in the past counts as it is, one after its frame refuses the item, a frame before the last or past
/// the clock's range refuses the tick; nothing of it is kept.
#[test]
fn threats_73_times_past_future_and_falling() {
    let mut world = world(false);
    let hour = 3_600_000_000;
    let next = |at_us: u64, us: u64| TickUpdate {
        despawned: vec![end(2, 0, at_us)],
        spawned: vec![Spawn {
            at_us,
            ..spawn(entity(3, 0))
        }],
        observed: vec![Observation {
            motion: Some(motion(at_us, 12)),
            ..observation(1, us, 12)
        }],
        ..update(us)
    };
    let before = world.advance(Tick(2), &update(1_000)).unwrap();
    for (tick, at_us) in [
        (3, 1_001),
        (4, 1_000 + hour),
        (5, SERVER_TIME_MAX_US),
        (6, u64::MAX),
    ] {
        let frame = world.advance(Tick(tick), &next(at_us, 1_000)).unwrap();
        let all = world.refused();
        assert!(
            all.len() == 3
                && all
                    .iter()
                    .all(|refusal| matches!(refusal, Refusal::Future { .. }))
        );
        assert_eq!(frame.digest(), before.digest());
    }
    assert!(world.advance(Tick(7), &next(0, 999)).is_none());
    assert!(matches!(
        world.refused(),
        [Refusal::TimeFell {
            got: 999,
            last: 1_000
        }]
    ));
    for us in [SERVER_TIME_MAX_US + 1, u64::MAX] {
        assert!(world.advance(Tick(7), &update(us)).is_none());
    }
    assert_eq!(world.server_us(), 1_000, "a refused tick moves no clock");
    let frame = world.advance(Tick(7), &next(1, 1_000)).unwrap();
    assert!(
        world.refused().is_empty(),
        "the same time again, and items of the past"
    );
    assert_eq!(
        (frame.live(), frame.record(2).map(|record| record.born_us)),
        (2, Some(1))
    );
    let late = TickUpdate {
        observed: vec![observation(1, 0, 99)],
        ..update(1_000)
    };
    world.advance(Tick(8), &late).unwrap();
    assert!(
        matches!(world.refused(), [Refusal::Stale(_)]),
        "older than what is held"
    );
}

/// SPEC ID3, TAB4: a segment only rises. The last one there is counts, an older one is late, and a new life has all of
/// them again.
#[test]
fn threats_69_segments_have_no_wrap() {
    let mut world = world(false);
    let of = |generation, segment, us: u64, x| TickUpdate {
        observed: vec![Observation {
            entity: entity(1, generation),
            segment,
            segment_us: us,
            motion: Some(motion(us, x)),
        }],
        ..update(us)
    };
    for (tick, segment) in [
        (2, 1),
        (3, (1 << 31) - 1),
        (4, 1 << 31),
        (5, u32::MAX - 1),
        (6, u32::MAX),
    ] {
        let frame = world
            .advance(Tick(tick), &of(0, segment, u64::from(tick), tick))
            .unwrap();
        assert_eq!(frame.record(0).unwrap().segment, segment);
    }
    for segment in [0, 1, 1 << 31, u32::MAX - 1] {
        let frame = world.advance(Tick(7), &of(0, segment, 7, 99)).unwrap();
        assert!(matches!(world.refused(), [Refusal::Stale(_)]));
        assert_eq!(x(&frame, 0), 6);
    }
    let reborn = TickUpdate {
        spawned: vec![spawn(entity(1, 1))],
        ..of(1, 0, 8, 50)
    };
    let frame = world.advance(Tick(8), &reborn).unwrap();
    assert!(world.refused().is_empty());
    assert_eq!(frame.record(2).unwrap().segment, 0);
}

/// FAULTS 66: values outside the schema, as broken physics give them once they are integers, are stopped where they come
/// in, tick after tick; the last good value stays and no delta comes of it.
#[test]
fn faults_66_bad_values_never_become_a_delta() {
    let mut world = world(false);
    let bad = |spoil: fn(&mut Motion)| {
        let mut motion = motion(50, 11);
        spoil(&mut motion);
        TickUpdate {
            observed: vec![Observation {
                motion: Some(motion),
                ..observation(1, 50, 11)
            }],
            ..update(50)
        }
    };
    let spoils: [fn(&mut Motion); 5] = [
        |motion| motion.position[1] = u32::MAX,
        |motion| motion.velocity[0] = i32::MIN,
        |motion| motion.angular[2] = i32::MAX,
        |motion| motion.rotation.largest = 4,
        |motion| motion.rotation.parts[0] = u16::MAX,
    ];
    for (tick, spoil) in (2..).zip(spoils.iter().cycle().take(50)) {
        let frame = world.advance(Tick(tick), &bad(*spoil)).unwrap();
        assert!(
            matches!(world.refused(), [Refusal::OutOfRange { .. }]),
            "tick {tick}"
        );
        assert_eq!((x(&frame, 0), frame.dirty().len()), (10, 0), "tick {tick}");
    }
    let good = bad(|motion| motion.rotation = Rotation::identity(9));
    let frame = world.advance(Tick(60), &good).unwrap();
    assert_eq!((x(&frame, 0), world.refused().len()), (11, 0));
}
