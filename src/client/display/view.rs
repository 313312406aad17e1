//! What can be read of the display.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::{Display, DisplayPlace, Fate, Known, Member, Spot, Tombstone};
use crate::client::table::RecordPool;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::record::Record;
use crate::state::slots::Slot;

/// The display, read through the pool that has its records.
#[derive(Clone, Copy, Debug)]
pub struct DisplayView<'a> {
    pub(in crate::client) display: &'a Display,
    pub(in crate::client) pool: &'a RecordPool,
}

impl<'a> DisplayView<'a> {
    /// What is known of a slot.
    #[must_use]
    pub fn place(&self, slot: Slot) -> DisplayPlace {
        match self.display.spot(slot) {
            Spot::Never => DisplayPlace::Never,
            Spot::Member(member) => self
                .known_of(&member)
                .map_or(DisplayPlace::Never, DisplayPlace::Known),
            Spot::Gone => self
                .display
                .tombstone(slot)
                .and_then(Tombstone::gone)
                .map_or(DisplayPlace::Never, DisplayPlace::Gone),
        }
    }

    fn known_of(&self, member: &Member) -> Option<Known> {
        Some(Known {
            record: self.pool.at(member.at)?.record(),
            as_of: member.as_of,
            as_of_us: member.as_of_us,
            awake: member.awake,
        })
    }

    /// The member of a slot.
    #[must_use]
    pub fn known(&self, slot: Slot) -> Option<Known> {
        match self.display.spot(slot) {
            Spot::Member(member) => self.known_of(&member),
            _ => None,
        }
    }

    /// Every member in rising order of slot, with its newest record and the snapshot that is from.
    pub fn records(&self) -> impl Iterator<Item = (Slot, Record, Tick)> + use<'a> {
        let DisplayView { display, pool } = *self;
        display
            .members()
            .filter_map(|(slot, member)| Some((slot, pool.at(member.at)?.record(), member.as_of)))
    }

    /// Members.
    #[must_use]
    pub fn live(&self) -> usize {
        self.display.live
    }

    /// The slot in which an entity is a member.
    #[must_use]
    pub fn find(&self, entity: Entity) -> Option<Slot> {
        self.display
            .members()
            .find(|(_, member)| member.entity == entity)
            .map(|(slot, _)| slot)
    }

    /// Slots that have a spot, and slots that have room for a tombstone.
    pub(in crate::client) fn slots(&self) -> (usize, usize) {
        (self.display.spots.len(), self.display.gone.len())
    }

    /// What is known of an entity.
    #[must_use]
    pub fn fate(&self, entity: Entity) -> Fate {
        let mut fate = Fate::Unknown;
        for (slot, spot) in (0..).zip(&self.display.spots) {
            let (other, present) = match spot {
                Spot::Never => continue,
                Spot::Member(member) => (Some(member.entity), true),
                Spot::Gone => (self.display.tombstone(slot).and_then(|gone| gone.entity), false),
            };
            let Some(other) = other else { continue };
            if other == entity && present {
                return Fate::Present;
            }
            if other.id == entity.id && other.generation >= entity.generation {
                fate = Fate::Past;
            }
        }
        fate
    }
}
