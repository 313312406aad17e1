use super::*;
use crate::sim::scenario::Scenario;
use crate::sim::settings::SimSettings;
use crate::sim::world::SimWorld;
use crate::state::world::World;
use std::sync::Arc;

/// Two independent readings of the same updates agree at every frame: the oracle's and the relay's world's.
/// So does what the origin meant.
#[test]
fn the_oracle_the_world_and_the_origin_agree() {
    for seed in 0..30 {
        let plan = Scenario::draw(seed, &SimSettings::default()).world;
        let mut origin = SimWorld::new(seed, 0, plan, false, seed * 1_000_000);
        let mut world = World::new(Arc::clone(origin.schema()), 1, 520);
        let mut truth = Truth::default();
        truth.begin_stream(1, origin.schema());
        let mut tick = Tick(u32::MAX - 100);
        let mut missed = false;
        for step in 0..400u64 {
            let interval_us = origin.interval_us();
            let mut update = origin.step(interval_us);
            // Some ticks are lost; a keyframe mends that.
            if step > 0 && step % 50 > 40 {
                missed = true;
                continue;
            }
            if step == 0 || core::mem::take(&mut missed) {
                update = origin.keyframe();
            }
            let frame = world.advance(tick, &update).expect("time never falls");
            assert_eq!(world.refused(), [], "seed {seed}");
            truth.publish(tick, &update, step * 50_000);
            if step % 60 == 0 {
                truth.forget(step * 50_000);
            }
            let fact = *truth.frame(tick).expect("published");
            assert_eq!(truth.living().len(), frame.live());
            for (_, record) in frame.records() {
                assert_eq!(
                    truth.at(&fact, record.entity),
                    Fact::Alive(record),
                    "seed {seed}, step {step}"
                );
            }
            for body in origin.bodies() {
                assert_eq!(
                    truth.at(&fact, body.entity),
                    Fact::Alive(&body.record()),
                    "seed {seed}, step {step}"
                );
            }
            tick = tick.next();
        }
    }
}

#[test]
fn history_answers_for_every_frame_until_the_horizon() {
    let entity = Entity { id: 1, generation: 0 };
    let mut truth = Truth::default();
    truth.begin_stream(3, &Arc::new(crate::state::schema::tests::full_schema()));
    let extras = |value| crate::state::update::ExtraUpdate {
        entity,
        mask: 1,
        values: [value; 8],
    };
    truth.publish(Tick(9), &TickUpdate::default(), 0);
    let spawned = vec![Spawn {
        entity,
        class: 0,
        at_us: 5,
    }];
    truth.publish(
        Tick(10),
        &TickUpdate {
            spawned,
            extras: vec![extras(1)],
            ..TickUpdate::default()
        },
        1,
    );
    truth.hold(Tick(11), 2);
    truth.publish(
        Tick(12),
        &TickUpdate {
            extras: vec![extras(2)],
            ..TickUpdate::default()
        },
        3,
    );
    let despawned = vec![Despawn {
        entity,
        at_us: 7,
        reason: 4,
    }];
    truth.publish(
        Tick(13),
        &TickUpdate {
            despawned,
            ..TickUpdate::default()
        },
        4,
    );
    let value = |truth: &Truth, tick| match truth.at(truth.frame(Tick(tick)).expect("known"), entity) {
        Fact::Alive(record) => Ok(record.extras[0]),
        other => Err(format!("{other:?}")),
    };
    assert_eq!(value(&truth, 9), Err("Unborn".to_owned()));
    assert_eq!(
        (value(&truth, 10), value(&truth, 11), value(&truth, 12)),
        (Ok(1), Ok(1), Ok(2))
    );
    assert_eq!(value(&truth, 13), Err("Ended { at_us: 7, reason: 4 }".to_owned()));
    assert_eq!((truth.frame(Tick(14)), truth.frame(Tick(8))), (None, None));
    truth.forget(HORIZON_US + 3);
    assert_eq!((truth.frame(Tick(11)), value(&truth, 12)), (None, Ok(2)));
}
