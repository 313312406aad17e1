//! In which slot of the truth each entity lives: by the relay's slot for it, or by its name alone for owners and subjects
//! of events.
//!
//! A life keeps its slot, so what was found stays true for as long as its frames are kept.

use std::collections::HashMap;

use super::truth::TruthFrame;
use crate::state::entity::Entity;
use crate::state::frame::{Frame, Place};
use crate::state::record::Record;
use crate::state::slots::Slot;

/// Places kept beside those of the living before the dead are forgotten.
const DEAD_MAX: usize = 4096;

/// Slots by stream and entity.
#[derive(Debug, Default)]
pub struct Places {
    slots: HashMap<(u32, Entity), Slot>,
}

/// Who lives in a slot, or did last.
fn named(frame: &Frame, slot: Slot) -> Option<Entity> {
    match frame.place(slot) {
        Place::Live(record) => Some(record.entity),
        Place::Grave(grave) => Some(grave.entity),
        Place::Empty => None,
    }
}

impl Places {
    /// Takes over what a frame changed; `all` where frames before it were missed.
    pub fn take(&mut self, truth: &TruthFrame, all: bool) {
        let (frame, stream) = (&truth.frame, truth.stream);
        let slots = &mut self.slots;
        let mut note = |slot: Slot| {
            if let Some(record) = frame.record(slot) {
                slots.insert((stream, record.entity), slot);
            }
        };
        if all {
            frame.alive().iter().for_each(&mut note);
        } else {
            frame.dirty().iter().for_each(&mut note);
        }
        if self.slots.len() > DEAD_MAX + 2 * frame.live() {
            self.slots
                .retain(|(of, entity), slot| *of == stream && named(frame, *slot) == Some(*entity));
        }
    }

    /// The slot and record of an entity that lives in a frame.
    #[must_use]
    pub fn find<'f>(&self, truth: &'f TruthFrame, entity: Entity) -> Option<(Slot, &'f Record)> {
        let slot = *self.slots.get(&(truth.stream, entity))?;
        let record = truth.frame.record(slot)?;
        (record.entity == entity).then_some((slot, record))
    }
}

/// Where entities live in the truth's frames, found by the relay's slot of the same entity: as a rule the same
/// one, since both took in the same updates; where not, the place found last is tried first.
#[derive(Debug, Default)]
pub struct SlotHints {
    pub(super) hints: Vec<Slot>,
}

impl SlotHints {
    /// The record of `entity` in `frame`, for which the relay uses `slot`.
    pub fn record<'f>(&mut self, frame: &'f Frame, slot: Slot, entity: Entity) -> Option<&'f Record> {
        self.place(frame, slot, entity).map(|(_, record)| record)
    }

    /// The same with its slot in `frame`.
    pub fn place<'f>(&mut self, frame: &'f Frame, slot: Slot, entity: Entity) -> Option<(Slot, &'f Record)> {
        let hint = self.hints.get(usize::from(slot)).copied().unwrap_or(slot);
        match frame.record(hint) {
            Some(record) if record.entity == entity => Some((hint, record)),
            _ => self.search(frame, slot, entity),
        }
    }

    #[cold]
    fn search<'f>(&mut self, frame: &'f Frame, slot: Slot, entity: Entity) -> Option<(Slot, &'f Record)> {
        if let Some(record) = frame.record(slot).filter(|record| record.entity == entity) {
            self.set(slot, slot);
            return Some((slot, record));
        }
        let (found, record) = frame.records().find(|(_, record)| record.entity == entity)?;
        self.set(slot, found);
        Some((found, record))
    }

    fn set(&mut self, slot: Slot, place: Slot) {
        let index = usize::from(slot);
        while self.hints.len() <= index {
            self.hints
                .push(Slot::try_from(self.hints.len()).unwrap_or(Slot::MAX));
        }
        self.hints[index] = place;
    }
}
