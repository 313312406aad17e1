//! The last frames by tick: what baselines are made of.
//!
//! > A ring of `K` places. Publishing overwrites the oldest; that *is* retiring. Nobody pins a frame. A place
//! > stores its tick and is compared on lookup, so a miss can only mean "too old".
//!
//! Memory: K x (bytes of chunks changed in a tick) + one world, whatever clients there are or do.

use std::sync::Arc;

use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::slots::SlotSet;

/// A ring of frames.
pub struct Arena {
    ring: Vec<Option<Arc<Frame>>>,
    newest: Option<Arc<Frame>>,
    bytes: usize,
}

impl Arena {
    /// An arena of `frames` places.
    #[must_use]
    pub fn new(frames: usize) -> Arena {
        Arena {
            ring: vec![None; frames.max(2)],
            newest: None,
            bytes: 0,
        }
    }

    fn place(&self, tick: Tick) -> usize {
        tick.0 as usize % self.ring.len()
    }

    /// Takes the next frame. A gap in the ticks, or a new stream, empties the arena first: dirty masks must be
    /// unbroken and baselines never cross a stream epoch (FAULTS 05).
    pub fn publish(&mut self, frame: Arc<Frame>) {
        let follows = self.newest.as_ref().is_none_or(|newest| {
            newest.tick.next() == frame.tick && newest.stream_epoch == frame.stream_epoch
        });
        if !follows {
            self.ring.fill(None);
            self.bytes = 0;
        }
        self.bytes += frame.own_bytes();
        let place = self.place(frame.tick);
        if let Some(old) = self.ring[place].replace(Arc::clone(&frame)) {
            self.bytes -= old.own_bytes();
        }
        self.newest = Some(frame);
    }

    /// The newest frame.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<Frame>> {
        self.newest.as_ref()
    }

    /// The frame of a tick; `None` when it has left.
    #[must_use]
    pub fn frame(&self, tick: Tick) -> Option<&Arc<Frame>> {
        self.ring[self.place(tick)]
            .as_ref()
            .filter(|frame| frame.tick == tick)
    }

    /// Slots whose place changed after `base` up to the newest frame, into `changed`. False when a frame in
    /// between has left.
    pub fn changed_since(&self, base: Tick, changed: &mut SlotSet) -> bool {
        changed.clear();
        let Some(newest) = &self.newest else { return false };
        let Some(age) = base.age_at(newest.tick) else {
            return false;
        };
        if age as usize >= self.ring.len() {
            return false;
        }
        for back in 0..age {
            match self.frame(newest.tick.minus(back)) {
                Some(frame) => changed.union(frame.dirty()),
                None => return false,
            }
        }
        true
    }

    /// Frames held.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.ring.iter().flatten().count()
    }

    /// Bytes held by frames beyond what they share with the frame before.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::state::entity::Entity;
    use crate::state::record::Motion;
    use crate::state::rotation::Rotation;
    use crate::state::schema::tests::full_schema;
    use crate::state::update::{Observation, Spawn, TickUpdate};
    use crate::state::world::World;

    /// A world of `count` entities, all observed at tick `first`.
    pub(in crate::relay) fn world(count: u32, first: Tick) -> (World, Arc<Frame>) {
        let mut world = World::new(Arc::new(full_schema()), 1, 8);
        let mut update = moved(0, 0..count, 0);
        for id in 0..count {
            update.spawned.push(Spawn {
                entity: Entity { id, generation: 0 },
                class: 0,
                at_us: 0,
            });
        }
        let frame = world.advance(first, &update).unwrap();
        (world, frame)
    }

    /// An update that observes some entities at `server_us` and position `x`.
    pub(in crate::relay) fn moved(server_us: u64, ids: impl IntoIterator<Item = u32>, x: u32) -> TickUpdate {
        let observed = ids.into_iter().map(|id| Observation {
            entity: Entity { id, generation: 0 },
            segment: 0,
            segment_us: 0,
            motion: Some(Motion {
                observed_us: server_us,
                position: [x, id, 5],
                rotation: Rotation::identity(9),
                velocity: [1, 0, 0],
                angular: [0; 3],
                at_rest: false,
            }),
        });
        TickUpdate {
            server_us,
            observed: observed.collect(),
            ..TickUpdate::default()
        }
    }

    #[test]
    fn frames_leave_by_overwriting_and_masks_add_up_across_the_wrap() {
        let first = Tick(u32::MAX - 2);
        let (mut world, frame) = world(3, first);
        let mut arena = Arena::new(4);
        arena.publish(frame);
        for step in 1..=5u32 {
            arena.publish(
                world
                    .advance(first.plus(step), &moved(u64::from(step), [step % 3], step))
                    .unwrap(),
            );
        }
        let mut changed = SlotSet::default();
        assert!(arena.frame(first).is_none() && arena.frame(first.plus(1)).is_none());
        assert!(!arena.changed_since(first, &mut changed), "the base has left");
        assert!(arena.changed_since(first.plus(4), &mut changed));
        assert_eq!(changed.iter().collect::<Vec<_>>(), [2]);
        assert!(arena.changed_since(first.plus(3), &mut changed));
        assert_eq!(changed.iter().collect::<Vec<_>>(), [1, 2]);
        assert!(
            !arena.changed_since(first.plus(9), &mut changed),
            "a base from the future"
        );
        assert_eq!(arena.frames(), 4);
        let before = arena.bytes();
        arena.publish(world.hold(first.plus(6), false));
        assert!(arena.bytes() < before + 20_000);
        arena.publish(world.hold(first.plus(9), false));
        assert_eq!(arena.frames(), 1, "a gap empties the arena");
    }
}
