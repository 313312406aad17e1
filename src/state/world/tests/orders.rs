//! Spawn, motion and destroy in every order, lost and doubled (THREATS 67, 68, D21): the world against an oracle that
//! knows three rules and nothing of slots.

use std::collections::BTreeMap;

use super::{entity, motion, spawn, update};
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Entity;
use crate::state::frame::Place;
use crate::state::schema::tests::full_schema;
use crate::state::update::{Despawn, Observation, TickUpdate};
use crate::state::world::World;
use std::sync::Arc;

/// A message about one of two lives of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Spawn(u32),
    Motion(u32),
    Destroy(u32),
}

use Message::{Destroy, Motion, Spawn};

const ID: u32 = 9;

/// What the rules say of one id: the newest life that was spawned, whether it ended, and where it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Oracle {
    life: Option<u32>,
    ended: bool,
    x: Option<u32>,
}

impl Oracle {
    /// Only a newer life than any before begins; motion and end count for the living one alone.
    fn hear(&mut self, message: Message, x: u32) -> bool {
        match message {
            Spawn(life) if self.life.is_none_or(|known| life > known) => {
                *self = Oracle {
                    life: Some(life),
                    ended: false,
                    x: None,
                };
            }
            Motion(life) if self.life == Some(life) && !self.ended => self.x = Some(x),
            Destroy(life) if self.life == Some(life) && !self.ended => self.ended = true,
            _ => return false,
        }
        true
    }

    fn shown(&self) -> Option<(u32, Option<u32>)> {
        self.life.filter(|_| !self.ended).map(|life| (life, self.x))
    }
}

fn tick_of(message: Message, server_us: u64, x: u32) -> TickUpdate {
    let mut next = update(server_us);
    match message {
        Spawn(life) => next.spawned.push(spawn(entity(ID, life))),
        Motion(life) => next.observed.push(Observation {
            entity: entity(ID, life),
            segment: 0,
            segment_us: 0,
            motion: Some(motion(server_us, x)),
        }),
        Destroy(life) => next.despawned.push(Despawn {
            entity: entity(ID, life),
            at_us: server_us,
            reason: 0,
        }),
    }
    next
}

fn shown(frame: &Frame) -> Option<(u32, Option<u32>)> {
    let mut all = frame.records().map(|(_, record)| record);
    let first = all.next().map(|record| {
        (
            record.entity.generation,
            record.motion.map(|motion| motion.position[0]),
        )
    });
    assert!(all.next().is_none(), "an id lives once");
    first
}

/// Plays messages, one a tick, and compares after each.
fn play(messages: &[Message]) {
    let mut schema = full_schema();
    schema.on_change = false;
    let mut world = World::new(Arc::new(schema), 1, 40);
    let mut oracle = Oracle::default();
    for (x, message) in (1u32..).zip(messages) {
        let tick = Tick((u32::MAX - 2).wrapping_add(x));
        let frame = world
            .advance(tick, &tick_of(*message, u64::from(x), x))
            .expect("the tick itself is good");
        let counts = oracle.hear(*message, x);
        assert_eq!(world.refused().is_empty(), counts, "{messages:?} at {message:?}");
        assert_eq!(shown(&frame), oracle.shown(), "{messages:?} at {message:?}");
    }
    // Every life that ended has one tombstone, and nobody lives under one.
    let frame = world.hold(Tick(100), false);
    let mut graves: BTreeMap<Entity, usize> = BTreeMap::new();
    for slot in 0..u16::try_from(frame.slot_count()).unwrap() {
        if let Place::Grave(grave) = frame.place(slot) {
            *graves.entry(grave.entity).or_default() += 1;
        }
    }
    for (grave, count) in graves {
        assert_eq!(count, 1, "{messages:?}");
        assert_ne!(Some(grave.generation), shown(&frame).map(|(life, _)| life));
    }
}

/// Every sequence over `alphabet` of at most `left` more messages.
fn every(alphabet: &[Message], left: usize, so_far: &mut Vec<Message>, count: &mut usize) {
    play(so_far);
    *count += 1;
    if left > 0 {
        for message in alphabet {
            so_far.push(*message);
            every(alphabet, left - 1, so_far, count);
            so_far.pop();
        }
    }
}

/// THREATS 67, 68, SPEC ID2, CTL4: every sequence of up to six spawn, motion and destroy messages of two lives, so every
/// order, every loss and every doubling: the world is what three rules say, message by message.
#[test]
fn threats_67_every_order_of_six_messages() {
    let alphabet = [Spawn(0), Motion(0), Destroy(0), Spawn(1), Motion(1), Destroy(1)];
    let mut count = 0;
    every(&alphabet, 6, &mut Vec::new(), &mut count);
    assert_eq!(count, (0..=6).map(|length| 6usize.pow(length)).sum::<usize>());
}

/// THREATS 67, 69: the same at the top of the generations, where there is no next life.
#[test]
fn threats_67_every_order_at_the_last_generation() {
    let (one, two) = (u32::MAX - 1, u32::MAX);
    let alphabet = [
        Spawn(one),
        Destroy(one),
        Spawn(two),
        Motion(two),
        Destroy(two),
        Spawn(0),
    ];
    every(&alphabet, 5, &mut Vec::new(), &mut 0);
}

/// THREATS 67: one tick holds its messages in any order, since a tick is one instant: ends first, then begins, then
/// motion. Destroy and respawn in one tick end one life and begin the next; spawn and destroy of one life in one tick
/// are a life that begins (FAULTS 56).
#[test]
fn faults_56_one_tick_is_one_instant() {
    let mut world = World::new(Arc::new(full_schema()), 1, 40);
    let both = |end: u32, begin: u32, us: u64| TickUpdate {
        despawned: tick_of(Destroy(end), us, 0).despawned,
        spawned: tick_of(Spawn(begin), us, 0).spawned,
        observed: tick_of(Motion(begin), us, 7).observed,
        ..update(us)
    };
    world.advance(Tick(1), &tick_of(Spawn(0), 1, 0));
    for life in 0..1_000 {
        let us = u64::from(life) + 2;
        let frame = world.advance(Tick(life + 2), &both(life, life + 1, us)).unwrap();
        assert!(world.refused().is_empty());
        assert_eq!(shown(&frame), Some((life + 1, Some(7))));
        let ended = frame.dirty().iter().filter(|slot| {
            matches!(frame.place(*slot), Place::Grave(grave) if grave.entity == entity(ID, life) && grave.at_us == us)
        });
        assert_eq!((ended.count(), frame.dirty().len()), (1, 2), "both are said");
    }
    let born_dead = both(5_000, 5_000, 2_000);
    let frame = world.advance(Tick(2_000), &born_dead).unwrap();
    assert_eq!(world.refused().len(), 1, "nobody to end yet");
    assert_eq!(shown(&frame), Some((5_000, Some(7))));
}
