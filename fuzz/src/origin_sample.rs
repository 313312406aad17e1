//! Any world a game may hand over, numbers that are none included: what the publisher lets through, a relay takes
//! without a refusal, and both have the same world (ID6, DEC5, THREATS 35, 83).

use std::sync::Arc;

use ackline::limits::{ARENA_FRAMES, EVENT_BYTES_MAX};
use ackline::origin::publisher::Publisher;
use ackline::sequence::Tick;
use ackline::state::entity::Entity;
use ackline::state::sample::{ExtraSample, Sample, WorldSample};
use ackline::state::update::{Despawn, Event, Spawn};
use ackline::state::world::World;
use ackline::upstream::message::FromOrigin;

use super::records;
use super::stage::stage_schema;
use super::tape::Tape;

pub fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    let schema = if tape.one_in(3) {
        records::schema(&mut tape)
    } else {
        stage_schema(1)
    };
    let mut publisher = Publisher::new(schema.clone(), 1, 1, 0).expect("a legal schema");
    let mut relay = World::new(Arc::new(schema), 1, ARENA_FRAMES as u32);
    let mut server_us = 0u64;
    for tick in 1..48 {
        if tape.is_over() {
            break;
        }
        server_us += u64::from(tape.u8()) * 1_000;
        let sample = sample(&mut tape, server_us);
        let published = publisher.publish(&sample, 0);
        for error in &published.errors {
            let text = error.to_string();
            assert!(
                !text.is_empty() && !text.contains('\n'),
                "one plain sentence: {text:?}"
            );
        }
        let Some(message) = published.message else {
            continue;
        };
        server_us = sample.server_us;
        let update = match FromOrigin::decode(&message[4..]) {
            Ok(Some(FromOrigin::Tick(update))) => update,
            other => panic!("a published tick is read as {other:?}"),
        };
        assert_eq!(update, published.update);
        let frame = relay
            .advance(Tick(tick), &update)
            .expect("a published tick is taken");
        assert_eq!(relay.refused(), [], "a relay refuses nothing of it");
        let ours = published.frame.expect("with its message");
        assert_eq!(
            (frame.live(), frame.digest()),
            (ours.live(), ours.digest()),
            "both have the same world"
        );
    }
    let keyframe = publisher.keyframe();
    let Ok(Some(FromOrigin::Tick(update))) = FromOrigin::decode(&keyframe[4..]) else {
        panic!("a keyframe is read");
    };
    let mut late = World::new(Arc::clone(relay.schema()), 1, ARENA_FRAMES as u32);
    let frame = late.advance(Tick(1), &update).expect("a keyframe is taken");
    assert_eq!(late.refused(), []);
    assert_eq!(
        frame.digest(),
        relay.hold(Tick(99), false).digest(),
        "who comes late has the same world"
    );
}

fn number(tape: &mut Tape<'_>) -> f64 {
    match tape.below(12) {
        0..=3 => f64::from(i16::from_le_bytes(tape.u16().to_le_bytes())) / 256.0,
        4 => 100.0,
        5 => -100.0,
        6 => 100.004_999,
        7 => f64::NAN,
        8 => f64::INFINITY,
        9 => -0.005,
        10 => f64::MIN_POSITIVE / 2.0,
        _ => f64::from_bits(tape.u64()),
    }
}

fn sample(tape: &mut Tape<'_>, server_us: u64) -> WorldSample {
    let server_us = if tape.one_in(16) { tape.u64() } else { server_us };
    let mut sample = WorldSample {
        server_us,
        ..WorldSample::default()
    };
    let entity = |tape: &mut Tape<'_>| Entity {
        id: tape.below(6),
        generation: tape.below(3),
    };
    let time = |tape: &mut Tape<'_>| {
        if tape.one_in(8) {
            tape.u64()
        } else {
            server_us.saturating_sub(u64::from(tape.u8()))
        }
    };
    for _ in 0..tape.below(3) {
        sample.despawned.push(Despawn {
            entity: entity(tape),
            at_us: time(tape),
            reason: tape.u8(),
        });
    }
    for _ in 0..tape.below(4) {
        let class = tape.below(3) as u8;
        sample.spawned.push(Spawn {
            entity: entity(tape),
            class,
            at_us: time(tape),
        });
    }
    for _ in 0..tape.below(5) {
        let mut numbers = || number(tape);
        let position = [numbers(), numbers(), numbers()];
        let velocity = [numbers(), 0.0, 0.0];
        let angular = [0.0, numbers(), 0.0];
        let rotation = match tape.below(4) {
            0 => [0.0, 0.0, 0.0, 1.0],
            1 => [0.0; 4],
            _ => [number(tape), number(tape), number(tape), number(tape)],
        };
        sample.observed.push(Sample {
            entity: entity(tape),
            segment: tape.value(0, u32::MAX),
            observed_us: time(tape),
            position,
            rotation,
            velocity,
            angular,
            at_rest: tape.one_in(3),
        });
    }
    for _ in 0..tape.below(3) {
        let value = i64::from(tape.u16()) - 600;
        sample.extras.push(ExtraSample {
            entity: entity(tape),
            field: tape.below(9) as usize,
            value,
        });
    }
    for _ in 0..tape.below(3) {
        let long = EVENT_BYTES_MAX * usize::from(tape.one_in(6));
        let about = tape.one_in(2).then(|| entity(tape));
        let at_us = time(tape);
        let payload = vec![7; long + usize::from(tape.u8() % 9)];
        sample.events.push(Event {
            kind: tape.u16(),
            critical: false,
            entity: about,
            at_us,
            payload,
        });
    }
    sample
}
