//! Who lives in a scene that has births and deaths: gives out entities, and stops before the world is full.
//!
//! Invariant: an id given out again has a higher generation (SPEC ID2); the living and the tombstones a relay still
//! keeps never need more places than a world has.

use std::collections::VecDeque;

use crate::limits::{ARENA_FRAMES, SLOTS_MAX};
use crate::state::entity::Entity;

/// Ticks a tombstone takes a place: a relay's quarantine and one for the way a place is freed.
const QUARANTINE_TICKS: u64 = ARENA_FRAMES as u64 + 1;

/// The count.
#[derive(Debug, Default)]
pub struct Census {
    /// Ids never given out begin here.
    fresh: u32,
    /// Entities that died: their ids come again, the longest dead first.
    spare: VecDeque<Entity>,
    /// When places were left, while they are not free yet.
    graves: VecDeque<u64>,
    living: usize,
    tick: u64,
}

impl Census {
    /// A tick begins.
    pub fn begin(&mut self, tick: u64) {
        self.tick = tick;
        while self
            .graves
            .front()
            .is_some_and(|died| tick - died > QUARANTINE_TICKS)
        {
            self.graves.pop_front();
        }
    }

    /// A new entity; `None` while the world has no place.
    pub fn admit(&mut self) -> Option<Entity> {
        if self.living + self.graves.len() >= SLOTS_MAX {
            return None;
        }
        self.living += 1;
        if let Some(dead) = self.spare.pop_front() {
            let generation = dead.generation + 1;
            return Some(Entity { generation, ..dead });
        }
        self.fresh += 1;
        Some(Entity {
            id: self.fresh - 1,
            generation: 0,
        })
    }

    /// An entity that was admitted is no more.
    pub fn bury(&mut self, entity: Entity) {
        self.living -= 1;
        self.graves.push_back(self.tick);
        // A generation that cannot rise ends its id; the origin's epoch ends long before.
        if entity.generation < u32::MAX {
            self.spare.push_back(entity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPEC ID2.
    #[test]
    fn id2_an_id_comes_again_in_a_higher_generation() {
        let mut census = Census::default();
        let first = census.admit().unwrap();
        census.bury(first);
        let again = census.admit().unwrap();
        assert_eq!((again.id, again.generation), (first.id, 1));
        assert_eq!(census.admit().unwrap().id, 1);
    }

    #[test]
    fn a_full_world_admits_nobody_until_tombstones_are_over() {
        let mut census = Census::default();
        census.begin(10);
        let all: Vec<Entity> = core::iter::from_fn(|| census.admit()).collect();
        assert_eq!(all.len(), SLOTS_MAX);
        census.bury(all[5]);
        census.begin(10 + QUARANTINE_TICKS);
        assert_eq!(census.admit(), None);
        census.begin(11 + QUARANTINE_TICKS);
        assert_eq!(census.admit().map(|entity| entity.id), Some(5));
        assert_eq!(census.admit(), None);
    }
}
