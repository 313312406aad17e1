use super::*;
use crate::bench::places::SlotHints;
use crate::sequence::Tick;
use crate::state::coding::Coding;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::schema::{Axis, Class, Schema};
use crate::state::update::{Despawn, Observation, Spawn, TickUpdate};
use crate::state::world::World;

pub fn schema() -> Arc<Schema> {
    let axis = Axis {
        min: -100.0,
        max: 100.0,
        step: 0.01,
    };
    Arc::new(Schema {
        coding: Coding::Plain,
        name: "test".to_owned(),
        version: 1,
        tick_period_us: 50_000,
        on_change: true,
        position: [axis; 3],
        rotation_bits: 9,
        velocity: None,
        angular: None,
        extras: Vec::new(),
        classes: vec![Class {
            name: "thing".to_owned(),
            query_critical: false,
        }],
    })
}

pub fn entity(id: u32) -> Entity {
    Entity { id, generation: 0 }
}

/// A world of `ids` at time 0, in the order given.
pub fn world(ids: &[u32]) -> (World, Arc<Frame>) {
    let mut world = World::new(schema(), 1, 100);
    let update = TickUpdate {
        spawned: ids
            .iter()
            .map(|id| Spawn {
                entity: entity(*id),
                class: 0,
                at_us: 0,
            })
            .collect(),
        ..TickUpdate::default()
    };
    let frame = world.advance(Tick(1), &update).expect("is taken");
    (world, frame)
}

/// Moves entities to x and gives the frame of `server_us`.
pub fn step(
    world: &mut World,
    server_us: u64,
    moved: &[(u32, u32)],
    gone: &[u32],
    events: &[Event],
) -> Arc<Frame> {
    let tick = Tick(u32::try_from(server_us / 1000).expect("fits") + 2);
    step_as(world, tick, server_us, moved, gone, events)
}

/// The same as the frame of `tick`.
pub fn step_as(
    world: &mut World,
    tick: Tick,
    server_us: u64,
    moved: &[(u32, u32)],
    gone: &[u32],
    events: &[Event],
) -> Arc<Frame> {
    let observe = |(id, x): &(u32, u32)| Observation {
        entity: entity(*id),
        segment: 0,
        segment_us: 0,
        motion: Some(Motion {
            observed_us: server_us,
            position: [*x, 0, 0],
            rotation: Rotation {
                largest: 3,
                parts: [256; 3],
            },
            velocity: [0; 3],
            angular: [0; 3],
            at_rest: false,
        }),
    };
    let update = TickUpdate {
        server_us,
        observed: moved.iter().map(observe).collect(),
        despawned: gone
            .iter()
            .map(|id| Despawn {
                entity: entity(*id),
                at_us: server_us,
                reason: 0,
            })
            .collect(),
        events: events.to_vec(),
        ..TickUpdate::default()
    };
    let frame = world.advance(tick, &update).expect("is taken");
    assert_eq!(world.refused(), []);
    frame
}

#[test]
fn frames_are_found_by_stream_and_time() {
    let log = TruthLog::new(1_000_000);
    let mut reader = TruthReader::new(Arc::clone(&log));
    assert!(!reader.refresh() && reader.absence(1, 5) == Absence::NotYet);
    let (mut one, first) = world(&[1, 2]);
    log.begin_stream();
    log.push(0, first, Some(7));
    for (at, x) in [(10, 1), (20, 2), (20, 3), (40, 4)] {
        log.push(at, step(&mut one, at, &[(1, x)], &[], &[]), None);
    }
    assert!(reader.refresh() && !reader.refresh());
    assert_eq!(reader.at(1, 20).count(), 2, "two frames share a time");
    assert_eq!(
        (reader.at(1, 30).count(), reader.absence(1, 30)),
        (0, Absence::Never)
    );
    assert_eq!(reader.absence(1, 50), Absence::NotYet);
    assert_eq!(reader.numbered(1).map(|frame| frame.published_us), Some(Some(7)));
    assert!(reader.numbered(0).is_none() && reader.numbered(6).is_none());
    let (mut two, again) = world(&[9]);
    log.begin_stream();
    log.push(50, again, None);
    log.note_gap();
    log.push(60, step(&mut two, 20, &[(9, 1)], &[], &[]), None);
    reader.refresh();
    assert_eq!(reader.streams().collect::<Vec<_>>(), [2, 1]);
    assert_eq!((reader.at(2, 20).count(), reader.at(1, 20).count()), (1, 2));
    assert_eq!(
        reader.absence(2, 10),
        Absence::Unknown,
        "frames may be missing before it"
    );
    assert_eq!(reader.absence(1, 50), Absence::Unknown, "its stream ended");
    assert_eq!(reader.backwards(1).next().map(TruthFrame::server_us), Some(40));
}

/// What is older than the log keeps is forgotten by the readers too.
#[test]
fn old_frames_are_forgotten() {
    let log = TruthLog::new(100);
    let mut reader = TruthReader::new(Arc::clone(&log));
    let (mut world, first) = world(&[1]);
    log.push(0, first, None);
    reader.refresh();
    for at in 1..=50 {
        log.push(at * 10, step(&mut world, at * 10, &[(1, 1)], &[], &[]), None);
        if at % 7 == 0 {
            reader.refresh();
        }
    }
    reader.refresh();
    assert_eq!(reader.frames.len(), 11);
    assert_eq!(
        (reader.absence(1, 300), reader.at(1, 400).count()),
        (Absence::Unknown, 1)
    );
}

/// The relay's slots need not be the truth's: the entity decides.
#[test]
fn records_are_found_by_entity_where_slots_differ() {
    let (_, frame) = world(&[5, 6, 7]);
    let mut hints = SlotHints::default();
    for _ in 0..2 {
        assert_eq!(
            hints.record(&frame, 0, entity(5)).map(|record| record.entity.id),
            Some(5)
        );
        assert_eq!(
            hints.record(&frame, 2, entity(6)).map(|record| record.entity.id),
            Some(6)
        );
        assert_eq!(hints.record(&frame, 1, entity(8)), None);
    }
    assert_eq!(hints.hints, [0, 1, 1]);
    assert_eq!(
        hints.record(&frame, 2, entity(7)).map(|record| record.entity.id),
        Some(7)
    );
    assert_eq!(hints.hints, [0, 1, 2], "a slot used again is looked up again");
}

/// Times at the seam of two streams, of which this subscription saw nothing, are told from those that never were.
#[test]
fn seams_of_streams_are_told_apart() {
    let log = TruthLog::new(u64::MAX / 2);
    let mut reader = TruthReader::new(Arc::clone(&log));
    let (mut one, first) = world(&[1]);
    log.begin_stream();
    log.push(0, first, None);
    log.push(1, step(&mut one, 100_000, &[(1, 1)], &[], &[]), None);
    reader.refresh();
    assert_eq!(reader.absence(1, 150_000), Absence::NotYet, "it may go on");
    let (mut two, _) = world(&[1]);
    log.join_stream();
    log.push(2, step(&mut two, 9_000_000, &[(1, 1)], &[], &[]), None);
    log.push(3, step(&mut two, 9_100_000, &[(1, 2)], &[], &[]), None);
    reader.refresh();
    for (stream, at, absence, nearest) in [
        (1, 50_000, Absence::Never, None),
        (1, 150_000, Absence::AtSeam, Some(100_000)),
        (1, 1_100_001, Absence::Unknown, None),
        (2, 3_900_000, Absence::Unknown, None),
        (2, 4_000_000, Absence::AtSeam, Some(9_000_000)),
        (2, 9_050_000, Absence::Never, None),
        (2, 9_200_000, Absence::NotYet, None),
    ] {
        assert_eq!(reader.absence(stream, at), absence, "{stream} {at}");
        if absence == Absence::AtSeam {
            let frame = reader.seam(stream, at).map(TruthFrame::server_us);
            assert_eq!(frame, nearest, "{stream} {at}");
        }
    }
    assert_eq!(reader.joined(2).map(TruthFrame::server_us), Some(9_000_000));
    assert!(reader.joined(1).is_none());
}
