//! Falsehoods built into the truth on purpose, to show that a run can fail.

use super::Truth;
use crate::state::entity::Entity;
use crate::state::update::Spawn;

impl Truth {
    /// Falsifies the newest version of some living entity's record; false when nobody lives. To show that a
    /// wrong record is reported.
    pub fn falsify(&mut self, pick: usize) -> bool {
        let Some(stream) = self.streams.back_mut() else {
            return false;
        };
        let Some(entity) = stream.alive.get(pick % stream.alive.len().max(1)) else {
            return false;
        };
        let newest = stream
            .lives
            .get_mut(entity)
            .and_then(|life| life.versions.back_mut());
        newest.is_some_and(|(_, record)| {
            record.extras[0] ^= 1;
            true
        })
    }

    /// Adds an entity that never was; false before the first stream. To show that a missing one is reported.
    pub fn invent(&mut self) -> bool {
        let Some(stream) = self.streams.back_mut() else {
            return false;
        };
        let entity = Entity {
            id: u32::MAX,
            generation: u32::MAX,
        };
        stream.begin(&Spawn {
            entity,
            class: 0,
            at_us: 0,
        });
        true
    }
}
