//! The last ticks of the world as published, and where everybody was between them.
//!
//! Invariant: at most `frames` frames are held, the oldest goes first; frames share what did not change. The index holds the
//! entities that live or ended within these frames, so both are bounded by the world and the history. Looking an entity up walks over the
//! frames from the newest to the time asked for, and over no entities. At many ticks a second a slot may have had two tenants
//! within the history, each with its own ticks.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::pose::{Rewound, Shown};
use super::refusal::LagRefusal;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::frame::{Frame, Place};
use crate::state::record::{Motion, Record};
use crate::state::slots::Slot;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The last ticks.
#[derive(Debug)]
pub(super) struct History {
    frames: VecDeque<Arc<Frame>>,
    most: usize,
    /// Where each entity lives or lived.
    slots: HashMap<Entity, Slot>,
    /// Who ended, and in which tick, oldest first.
    ended: VecDeque<(Tick, Entity)>,
}

impl History {
    pub(super) fn new(most: usize) -> History {
        let most = most.max(2);
        History {
            frames: VecDeque::with_capacity(most),
            most,
            slots: HashMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Takes the world after one more tick. A time that falls is another stream's: all before it is forgotten.
    pub(super) fn push(&mut self, frame: &Arc<Frame>) {
        if self.newest_us().is_some_and(|newest| frame.server_us < newest) {
            self.frames.clear();
            self.slots.clear();
            self.ended.clear();
        }
        if self.frames.is_empty() {
            let lives = frame.records().map(|(slot, record)| (record.entity, slot));
            self.slots.extend(lives);
        }
        for slot in frame.dirty().iter() {
            match frame.place(slot) {
                Place::Live(record) => {
                    self.slots.insert(record.entity, slot);
                }
                Place::Grave(grave) if self.slots.contains_key(&grave.entity) => {
                    self.ended.push_back((frame.tick, grave.entity));
                }
                Place::Grave(_) | Place::Empty => {}
            }
        }
        if self.frames.len() >= self.most {
            self.frames.pop_front();
        }
        self.frames.push_back(Arc::clone(frame));
        let oldest = self.frames.front().map_or(frame.tick, |oldest| oldest.tick);
        while let Some((tick, entity)) = self.ended.front()
            && oldest.is_after(*tick)
        {
            self.slots.remove(entity);
            self.ended.pop_front();
        }
    }

    /// Time of the newest tick.
    pub(super) fn newest_us(&self) -> Option<u64> {
        self.frames.back().map(|frame| frame.server_us)
    }

    /// Time of the oldest tick.
    pub(super) fn oldest_us(&self) -> Option<u64> {
        self.frames.front().map(|frame| frame.server_us)
    }

    /// Whether shots are decided against an entity, by its class; so for one that is unknown.
    pub(super) fn is_critical(&self, entity: Entity) -> bool {
        let slot = self.slots.get(&entity).copied();
        let class = slot.and_then(|slot| {
            let mut frames = self.frames.iter().rev();
            frames.find_map(|frame| {
                let record = frame.record(slot).filter(|record| record.entity == entity)?;
                frame.schema.classes.get(usize::from(record.class))
            })
        });
        class.is_none_or(|class| class.query_critical)
    }

    /// Whether the segment of a pose was at rest in a tick at or after `since_us`, or in the last one before.
    pub(super) fn rested(&self, pose: &Rewound, since_us: u64) -> bool {
        let Some(slot) = self.slots.get(&pose.entity).copied() else {
            return false;
        };
        for frame in self.frames.iter().rev() {
            let record = frame.record(slot);
            let motion = record
                .filter(|record| record.entity == pose.entity && record.segment == pose.segment)
                .and_then(|record| record.motion);
            if motion.is_some_and(|motion| motion.at_rest && motion.observed_us <= pose.observed_us) {
                return true;
            }
            if frame.server_us < since_us {
                return false;
            }
        }
        false
    }

    /// Whether any segment of a life was observed by `r_us`, as far as the history goes.
    pub(super) fn observed_by(&self, entity: Entity, r_us: u64) -> bool {
        let slot = self.slots.get(&entity).copied();
        let first_us = slot.and_then(|slot| {
            let mut frames = self.frames.iter();
            frames.find_map(|frame| {
                let record = frame.record(slot).filter(|record| record.entity == entity)?;
                record.motion.map(|motion| motion.observed_us)
            })
        });
        first_us.is_some_and(|first| first <= r_us)
    }

    /// Frames held, and entities known.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.frames.len(), self.slots.len())
    }

    /// Where an entity was at `r_us`, by its own observations.
    pub(super) fn rewind(
        &self,
        entity: Entity,
        r_us: u64,
        extrapolation_most_us: u64,
    ) -> Result<Rewound, LagRefusal> {
        let slot = *self.slots.get(&entity).ok_or(LagRefusal::UnknownEntity)?;
        let mut around = Around::default();
        let mut met = false;
        for frame in self.frames.iter().rev() {
            match frame.place(slot) {
                Place::Live(record) if record.entity == entity => {
                    if record.born_us > r_us {
                        return Err(LagRefusal::NotBorn);
                    }
                    met = true;
                    if around.look_at(record, r_us)? {
                        let shown = around.shown(r_us, frame, extrapolation_most_us)?;
                        return Ok(shown.pose(&frame.schema, r_us));
                    }
                }
                Place::Grave(grave) if grave.entity == entity => {
                    if r_us >= grave.at_us {
                        return Err(LagRefusal::Gone);
                    }
                    met = true;
                }
                // Before it was heard of.
                _ if met => return Err(around.nothing_before()),
                // The slot's next tenant.
                _ => {}
            }
        }
        // It was there before the history, and without a pose if that goes back to the time.
        let reaches = self.oldest_us().is_some_and(|oldest| oldest <= r_us);
        Err(if reaches {
            around.nothing_before()
        } else {
            LagRefusal::TooOld
        })
    }
}

/// The observations around a time, as far as they were found walking back.
#[derive(Debug, Default)]
struct Around {
    /// The segment of that time.
    segment: Option<u32>,
    /// The first observation of that segment after it.
    right: Option<Motion>,
    left: Option<(Record, Motion)>,
}

impl Around {
    /// Looks at an older record; true when the observation at or before the time is found.
    fn look_at(&mut self, record: &Record, r_us: u64) -> Result<bool, LagRefusal> {
        if record.segment_us > r_us {
            return Ok(false);
        }
        if *self.segment.get_or_insert(record.segment) != record.segment {
            return Err(LagRefusal::NoObservation);
        }
        match record.motion {
            Some(motion) if motion.observed_us <= r_us => {
                self.left = Some((*record, motion));
                Ok(true)
            }
            later => {
                self.right = later.or(self.right);
                Ok(false)
            }
        }
    }

    /// The walk came to where the entity was not yet.
    fn nothing_before(&self) -> LagRefusal {
        match self.segment {
            Some(_) => LagRefusal::NoObservation,
            None => LagRefusal::NotBorn,
        }
    }

    /// How it could be shown then.
    fn shown(&self, r_us: u64, frame: &Frame, extrapolation_most_us: u64) -> Result<Shown, LagRefusal> {
        let (record, left) = self.left.ok_or(LagRefusal::NoObservation)?;
        let ahead_us = r_us.saturating_sub(left.observed_us);
        let most_us = frame.schema.velocity.map_or(0, |_| extrapolation_most_us);
        if self.right.is_none() && !left.at_rest && ahead_us > most_us {
            return Err(LagRefusal::ExtrapolatedTooFar);
        }
        Ok(Shown {
            record,
            left,
            right: self.right,
        })
    }
}
