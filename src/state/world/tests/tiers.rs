//! Rate tiers by density (SPEC CTL5).

use super::*;
use crate::state::tiers::TierSettings;
use crate::state::update::ExtraUpdate;

const CROWD: u32 = 12;

/// A world of one crowd in one cell and one entity far away.
fn crowd() -> World {
    let mut schema = full_schema();
    schema.on_change = false;
    let settings = TierSettings {
        cell_cm: 1_000,
        dense: 5,
        crowded: 10,
    };
    let mut world = World::new(Arc::new(schema), 1, 4).with_tiers(Some(settings));
    let first = TickUpdate {
        spawned: (0..=CROWD).map(|id| spawn(entity(id, 0))).collect(),
        observed: (0..=CROWD).map(|id| observation(id, 0, place(id, 0))).collect(),
        ..update(0)
    };
    world.advance(Tick(0), &first).unwrap();
    world
}

/// The crowd is at one end, the last entity at the other.
fn place(id: u32, step: u32) -> u32 {
    if id == CROWD {
        15_000 + step
    } else {
        100 + id + step
    }
}

fn step(world: &mut World, tick: u32, who: impl Iterator<Item = u32>) -> Arc<Frame> {
    let at_us = u64::from(tick) * 50_000;
    let moves = TickUpdate {
        observed: who.map(|id| observation(id, at_us, place(id, tick))).collect(),
        ..update(at_us)
    };
    let frame = world.advance(Tick(tick), &moves).unwrap();
    assert!(world.refused().is_empty(), "{:?}", world.refused());
    frame
}

#[test]
fn ctl5_the_crowded_change_every_fourth_tick_and_the_lonely_every_tick() {
    let mut world = crowd();
    let mut changes = [0; CROWD as usize + 1];
    for tick in 1..=40 {
        let frame = step(&mut world, tick, 0..=CROWD);
        frame
            .dirty()
            .iter()
            .for_each(|slot| changes[usize::from(slot)] += 1);
        let tiers: Vec<u8> = frame.records().map(|(_, record)| record.tier).collect();
        assert_eq!(tiers, [[2; CROWD as usize].as_slice(), &[0]].concat());
        for (slot, record) in frame.records() {
            let age = tick - u32::try_from(record.motion.unwrap().observed_us / 50_000).unwrap();
            assert!(
                age < if u32::from(slot) == CROWD { 1 } else { 4 },
                "slot {slot} is {age} ticks old"
            );
        }
    }
    assert_eq!(changes[CROWD as usize], 40);
    assert!(
        changes[..CROWD as usize].iter().all(|changes| *changes == 10),
        "{changes:?}"
    );
}

#[test]
fn ctl5_what_stops_teleports_or_dies_does_not_wait() {
    let mut world = crowd();
    step(&mut world, 1, 0..=CROWD);
    for (tick, slot) in (4..8u32).zip(0u16..) {
        let at_us = u64::from(tick) * 50_000;
        let mut rest = observation(u32::from(slot), at_us, 200);
        rest.motion.as_mut().unwrap().at_rest = true;
        let mut jump = observation(u32::from(slot) + 4, at_us, 300);
        (jump.segment, jump.segment_us) = (1, at_us);
        let told = TickUpdate {
            observed: vec![rest, jump],
            ..update(at_us)
        };
        let frame = world.advance(Tick(tick), &told).unwrap();
        assert_eq!((x(&frame, slot), x(&frame, slot + 4)), (200, 300));
    }
}

/// What is published was true at one tick: extra fields wait with the motion.
#[test]
fn ctl5_a_record_waits_whole_and_leaves_its_tier_with_its_crowd() {
    let mut world = crowd();
    step(&mut world, 1, 0..=CROWD);
    for tick in 2..=20u32 {
        let at_us = u64::from(tick) * 50_000;
        let told = TickUpdate {
            observed: (0..CROWD)
                .map(|id| observation(id, at_us, place(id, tick)))
                .collect(),
            extras: (0..CROWD)
                .map(|id| ExtraUpdate {
                    entity: entity(id, 0),
                    mask: 1,
                    values: [tick; 8],
                })
                .collect(),
            ..update(at_us)
        };
        let frame = world.advance(Tick(tick), &told).unwrap();
        for (_, record) in frame.records().take(CROWD as usize) {
            let observed = u32::try_from(record.motion.unwrap().observed_us / 50_000).unwrap();
            assert!(
                record.extras[0] == observed || observed < 2,
                "{record:?} at {tick}"
            );
        }
    }
    // All but three go; within a second the rest is of tier 0, and nothing that waited is lost.
    let leave = TickUpdate {
        despawned: (3..CROWD)
            .map(|id| Despawn {
                entity: entity(id, 0),
                at_us: 1_050_000,
                reason: 0,
            })
            .collect(),
        ..update(1_050_000)
    };
    world.advance(Tick(21), &leave).unwrap();
    let frame = (22..45).map(|tick| step(&mut world, tick, 0..3)).last().unwrap();
    assert!(frame.records().all(|(_, record)| record.tier == 0));
    assert_eq!(x(&frame, 2), place(2, 44));
}
