//! How long each entity in a client's view waits for its next record, from the first change that the client has not got.
//!
//! Times are server times: of the tick that changed the entity, and of the client's newest snapshot when the record came.
//! So what the way takes does not count, what the relay leaves out does. The own entity is not counted: it comes beside
//! the snapshots. What changed before the view was complete for the first time is joining, not waiting.

use super::Oracle;
use crate::bench::likeness::{origin_of, same};
use crate::bench::places::SlotHints;
use crate::bench::series::{STARVATION_BY_TIER, Series, SeriesSet};
use crate::bench::truth::{TruthFrame, TruthReader};
use crate::bench::view::View;
use crate::client::display::{Known, ShownKind};
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// An entity that still waits at the end counts when it does so longer than this, server microseconds.
const OPEN_US: u64 = 1_000_000;

/// What the client has of a slot's entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Got {
    entity: Entity,
    /// Number of the truth's frame whose record it has.
    number: u64,
    tier: u8,
}

/// What a client has of each entity, by slot.
#[derive(Debug, Default)]
pub struct Hunger {
    got: Vec<Option<Got>>,
    /// When the view was complete for the first time, server microseconds.
    complete_us: Option<u64>,
}

impl Hunger {
    /// The view was complete in the snapshot of `server_us`.
    pub(in crate::bench) fn complete(&mut self, server_us: u64) {
        self.complete_us.get_or_insert(server_us);
    }

    /// Another stream begins.
    pub(in crate::bench) fn clear(&mut self) {
        self.got.clear();
        self.complete_us = None;
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Got> {
        let slot = usize::from(slot);
        if self.got.len() <= slot {
            self.got.resize(slot + 1, None);
        }
        &mut self.got[slot]
    }
}

/// The time of the first change after `got` and after `complete_us`, up to the frame `until`.
fn first_change(
    reader: &TruthReader,
    hints: &mut SlotHints,
    slot: Slot,
    got: &Got,
    complete_us: u64,
    until: u64,
) -> Option<u64> {
    // What it has is of the first frame, or, where that is not kept any more, as in the oldest.
    let from = got.number.max(reader.oldest()?);
    let mut had = None;
    for truth in (from..=until).filter_map(|number| reader.numbered(number)) {
        let record = hints.record(&truth.frame, slot, got.entity)?;
        let had = had.get_or_insert(record);
        if truth.server_us() <= complete_us {
            *had = record;
        } else if !same(had, record) {
            return Some(truth.server_us());
        }
    }
    None
}

impl Oracle {
    /// Measures what the last receive brought to one who waited.
    pub(super) fn watch(&mut self, view: &mut View, client: &Client, newest_us: u64, series: &mut SeriesSet) {
        let (Some(stream), Some(hunger)) = (view.truth_stream, view.hunger.as_mut()) else {
            return;
        };
        let mut last = (0, None);
        for shown in client.changes() {
            let slot = shown.slot;
            let known = match shown.kind {
                ShownKind::Removed(_) => {
                    *hunger.place(slot) = None;
                    continue;
                }
                ShownKind::Awake => continue,
                ShownKind::Entered | ShownKind::Updated => client.display().known(slot),
            };
            let Some(known) = known else { continue };
            if last.0 != known.as_of_us {
                last = (known.as_of_us, self.reader.at(stream, known.as_of_us).next());
            }
            let (entity, tier) = (known.record.entity, known.record.tier);
            let number = last
                .1
                .map(|truth| number_of(&self.reader, &mut self.hints, truth, slot, &known));
            let got = number.map(|number| Got { entity, number, tier });
            let before = core::mem::replace(hunger.place(slot), got);
            let (Some(before), Some(number), Some(complete_us)) = (before, number, hunger.complete_us) else {
                continue;
            };
            if before.entity != entity || view.sight.owns(entity) {
                continue;
            }
            let changed = first_change(&self.reader, &mut self.hints, slot, &before, complete_us, number);
            if let Some(changed_us) = changed {
                let waited_us = newest_us.saturating_sub(changed_us);
                record(series, before.tier.max(tier), waited_us);
            }
        }
    }

    /// The session ends: counts those that still wait for long.
    pub fn watch_last(&mut self, view: &mut View, newest_us: u64, series: &mut SeriesSet) {
        let (Some(stream), Some(hunger)) = (view.truth_stream, view.hunger.as_mut()) else {
            return;
        };
        let until = self.reader.at(stream, newest_us).last();
        let (Some(complete_us), Some(until)) = (hunger.complete_us, until.map(|truth| truth.number)) else {
            return;
        };
        for (slot, got) in (0..).zip(&hunger.got) {
            let Some(got) = got.filter(|got| !view.sight.owns(got.entity)) else {
                continue;
            };
            let changed = first_change(&self.reader, &mut self.hints, slot, &got, complete_us, until);
            let waited_us = changed.map_or(0, |changed_us| newest_us.saturating_sub(changed_us));
            if waited_us > OPEN_US {
                record(series, got.tier, waited_us);
            }
        }
    }
}

/// The frame whose record a client has: earlier than its snapshot's where a tier made the relay take it in before.
fn number_of(
    reader: &TruthReader,
    hints: &mut SlotHints,
    truth: &TruthFrame,
    slot: Slot,
    known: &Known,
) -> u64 {
    if known.record.tier == 0 {
        return truth.number;
    }
    origin_of(reader, hints, truth, slot, &known.record).unwrap_or(truth.number)
}

fn record(series: &mut SeriesSet, tier: u8, waited_us: u64) {
    series.record(Series::Starvation, waited_us);
    if let Some(by_tier) = STARVATION_BY_TIER.get(usize::from(tier)) {
        series.record(*by_tier, waited_us);
    }
}
