//! What a snapshot must say: the entries that turn a base table into the world now.
//!
//! Pure: base, arena and frame in, a list of entries out. Structure (a slot that appears or ends) and motion
//! are found by the same walk, so membership is never a flag beside the table.

use std::sync::Arc;

use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Departure;
use crate::state::frame::Place;
use crate::state::record::Record;
use crate::state::slots::{Slot, SlotSet};

use super::arena::Arena;
use super::table::{Known, Table};

mod view;

pub use view::{Kind, Reason, ViewPlan};

/// How one slot is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// As a difference from the record of this tick's frame.
    DeltaFrom(Tick),
    /// Whole.
    Complete,
    /// It is gone: destroyed, as its tombstone says.
    Removed,
    /// It is out of the session's view.
    LeftView,
    /// The session may not see it.
    Hidden,
    /// It rests no longer; how it moves is left out (SPEC ENT9).
    Awake,
}

/// One entry to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedEntry {
    /// Which slot.
    pub slot: Slot,
    /// How it is said.
    pub how: How,
}

impl PlannedEntry {
    /// True for an entry that ends a membership.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        matches!(self.how, How::Removed | How::LeftView | How::Hidden)
    }
}

/// Entries of one snapshot, in the order in which they are packed.
#[derive(Debug, Default)]
pub struct Planned {
    entries: Vec<PlannedEntry>,
    changed: SlotSet,
    exhaustive: bool,
    fallback_records: u32,
    frame: Option<Arc<Frame>>,
    bases: Vec<(Tick, Arc<Frame>)>,
}

impl Planned {
    fn begin(&mut self) {
        self.entries.clear();
        self.bases.clear();
        self.fallback_records = 0;
    }

    /// Plans the snapshot of the arena's newest frame on `base` (`None`: the empty table). `forced`: slots
    /// that go complete although known (SPEC CTL2). False when there is no frame or the base has left the arena.
    pub fn plan(&mut self, arena: &Arena, base: Option<&Table>, forced: &[Slot]) -> bool {
        self.begin();
        self.exhaustive = true;
        let Some(frame) = arena.newest() else { return false };
        self.frame = Some(Arc::clone(frame));
        match base {
            None => {
                let complete = |slot| PlannedEntry {
                    slot,
                    how: How::Complete,
                };
                self.entries.extend(frame.alive().iter().map(complete));
            }
            Some(base) => {
                let Some(base_frame) = arena.frame(base.tick()) else {
                    return false;
                };
                match base {
                    Table::Lost(_) => return false,
                    Table::Whole(tick) => {
                        let mut changed = core::mem::take(&mut self.changed);
                        let unbroken = arena.changed_since(*tick, &mut changed);
                        for slot in changed.iter() {
                            self.consider(slot, base, base_frame, arena);
                        }
                        self.changed = changed;
                        if !unbroken {
                            return false;
                        }
                    }
                    Table::Explicit { .. } | Table::Sparse { .. } | Table::View { .. } => {
                        let slots = frame.slot_count().max(base.slot_count(base_frame));
                        for slot in (0..slots).map_while(|slot| Slot::try_from(slot).ok()) {
                            self.consider(slot, base, base_frame, arena);
                        }
                    }
                }
            }
        }
        self.force(forced, frame);
        true
    }

    /// A record that changed and changed back goes whole: a client may show what it was in between, and only an
    /// entry takes that away (FAULTS 04).
    fn consider(&mut self, slot: Slot, base: &Table, base_frame: &Frame, arena: &Arena) {
        let Some(frame) = &self.frame else { return };
        let lives = matches!(frame.place(slot), Place::Live(_));
        let how = match base.known(slot, base_frame) {
            Known::Absent if lives => How::Complete,
            // It may be shown, by a snapshot that never became a baseline; only an entry takes that away (CTL1).
            Known::Absent if frame.changed_at(slot).is_after(base.tick()) => How::Removed,
            Known::Absent => return,
            _ if !lives => How::Removed,
            Known::Old => {
                self.fallback_records += 1;
                How::Complete
            }
            Known::At(tick) if !frame.changed_at(slot).is_after(tick) => return,
            Known::At(tick) => match arena.frame(tick) {
                None => {
                    self.fallback_records += 1;
                    How::Complete
                }
                Some(held) if held.record(slot) == frame.record(slot) => How::Complete,
                Some(held) => {
                    let held = Arc::clone(held);
                    self.remember(tick, &held);
                    How::DeltaFrom(tick)
                }
            },
        };
        self.entries.push(PlannedEntry { slot, how });
    }

    /// True for the tick of a base whose frame is at hand.
    fn is_remembered(&self, tick: Tick) -> bool {
        self.bases.iter().any(|(known, _)| *known == tick)
    }

    fn remember(&mut self, tick: Tick, held: &Arc<Frame>) {
        if !self.is_remembered(tick) {
            self.bases.push((tick, Arc::clone(held)));
        }
    }

    fn force(&mut self, forced: &[Slot], frame: &Frame) {
        for slot in forced
            .iter()
            .copied()
            .filter(|slot| frame.record(*slot).is_some())
        {
            let entry = PlannedEntry {
                slot,
                how: How::Complete,
            };
            match self.entries.binary_search_by_key(&slot, |entry| entry.slot) {
                Ok(index) => self.entries[index] = entry,
                Err(index) => self.entries.insert(index, entry),
            }
        }
    }

    /// Turns the order of a plan made in slot order, so that it begins at slot `rotation` modulo `slots`.
    pub fn rotate(&mut self, rotation: usize, slots: usize) {
        if slots > 0 && self.entries.len() > 1 {
            let first = rotation % slots;
            let at = self
                .entries
                .partition_point(|entry| usize::from(entry.slot) < first);
            self.entries.rotate_left(at);
        }
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[PlannedEntry] {
        &self.entries
    }

    /// True when base and entries together make the whole frame.
    #[must_use]
    pub fn is_exhaustive(&self) -> bool {
        self.exhaustive
    }

    /// Known records that go complete because their frame has left the arena.
    #[must_use]
    pub fn fallback_records(&self) -> u32 {
        self.fallback_records
    }

    /// The frame planned for.
    #[must_use]
    pub fn frame(&self) -> Option<&Arc<Frame>> {
        self.frame.as_ref()
    }

    /// A number that is another one at each tick.
    #[must_use]
    pub fn turn(&self) -> usize {
        self.frame.as_ref().map_or(0, |frame| frame.tick.0 as usize)
    }

    /// The record an entry is differenced from.
    #[must_use]
    pub fn base_record(&self, entry: &PlannedEntry) -> Option<&Record> {
        let How::DeltaFrom(tick) = entry.how else {
            return None;
        };
        let (_, frame) = self.bases.iter().find(|(known, _)| *known == tick)?;
        frame.record(entry.slot)
    }

    /// How the removal of an entry is explained: why, and of a destroyed entity when and with what reason.
    #[must_use]
    pub fn departure(&self, entry: &PlannedEntry) -> (Departure, u64, u8) {
        let server_us = self.frame.as_ref().map_or(0, |frame| frame.server_us);
        let place = self.frame.as_ref().map(|frame| frame.place(entry.slot));
        match (entry.how, place) {
            (How::LeftView, _) => (Departure::LeftView, 0, 0),
            (How::Hidden, _) => (Departure::Hidden, 0, 0),
            (_, Some(Place::Grave(grave))) => {
                (Departure::Destroyed, grave.at_us.min(server_us), grave.reason)
            }
            _ => (Departure::Destroyed, server_us, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::tests::{moved, world};
    use super::*;
    use crate::state::entity::Entity;
    use crate::state::update::{ExtraUpdate, TickUpdate};

    /// FAULTS 04: what changed and changed back within a round trip is said, since it may be shown.
    #[test]
    fn faults_04_what_changed_back_is_said_whole() {
        let (mut world, first) = world(2, Tick(1));
        let mut arena = Arena::new(8);
        arena.publish(first);
        let extras = |value| ExtraUpdate {
            entity: Entity { id: 1, generation: 0 },
            mask: 1,
            values: [value; 8],
        };
        for (step, value) in [(1u32, 5), (2, 0)] {
            let update = TickUpdate {
                extras: vec![extras(value)],
                ..moved(u64::from(step), [], 0)
            };
            arena.publish(world.advance(Tick(1 + step), &update).unwrap());
        }
        let mut plan = Planned::default();
        assert!(plan.plan(&arena, Some(&Table::Whole(Tick(1))), &[]));
        assert_eq!(
            plan.entries(),
            [PlannedEntry {
                slot: 1,
                how: How::Complete
            }]
        );
        assert!(plan.plan(&arena, Some(&Table::Whole(Tick(3))), &[]));
        assert_eq!(plan.entries(), []);
    }

    /// SPEC CTL1: who came and went since the base is removed by an entry: a client may show it.
    #[test]
    fn ctl1_who_came_and_went_since_the_base_is_removed() {
        use crate::state::update::{Despawn, Spawn};
        let (mut world, first) = world(2, Tick(1));
        let mut arena = Arena::new(8);
        arena.publish(first);
        let entity = Entity { id: 9, generation: 0 };
        let spawn = Spawn {
            entity,
            class: 0,
            at_us: 1,
        };
        arena.publish(
            world
                .advance(
                    Tick(2),
                    &TickUpdate {
                        spawned: vec![spawn],
                        ..moved(1, [], 0)
                    },
                )
                .unwrap(),
        );
        let despawn = Despawn {
            entity,
            at_us: 2,
            reason: 0,
        };
        arena.publish(
            world
                .advance(
                    Tick(3),
                    &TickUpdate {
                        despawned: vec![despawn],
                        ..moved(2, [], 0)
                    },
                )
                .unwrap(),
        );
        let mut plan = Planned::default();
        assert!(plan.plan(&arena, Some(&Table::Whole(Tick(1))), &[]));
        assert_eq!(
            plan.entries(),
            [PlannedEntry {
                slot: 2,
                how: How::Removed
            }]
        );
        assert!(plan.plan(&arena, Some(&Table::Whole(Tick(3))), &[]));
        assert_eq!(plan.entries(), []);
    }
}
