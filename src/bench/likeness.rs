//! When a client's record is the origin's.
//!
//! The rate tier is the relay's own, so no truth has one. A relay takes an entity of a slower tier in only now and then
//! (SPEC CTL5): its record is then the origin's of a few ticks before, whole, which is what that observation was.

use super::places::SlotHints;
use super::truth::{TruthFrame, TruthReader};
use crate::limits::TIER_MAX;
use crate::state::record::Record;
use crate::state::slots::Slot;

/// Ticks a record of a slower tier may be behind: it may have just come from the slowest.
const BEHIND_MAX: u64 = 1 << TIER_MAX;

/// True when two records are the same but for the tier.
#[must_use]
pub fn same(record: &Record, truth: &Record) -> bool {
    if record.tier == truth.tier {
        return record == truth;
    }
    let Record { tier, .. } = *truth;
    Record { tier, ..*record } == *truth
}

/// The number of the frame, this one or one of the last, whose record of the entity this is, as its tier allows.
pub fn origin_of(
    reader: &TruthReader,
    hints: &mut SlotHints,
    truth: &TruthFrame,
    slot: Slot,
    record: &Record,
) -> Option<u64> {
    let mut is_in = |truth: &TruthFrame| {
        let found = hints.record(&truth.frame, slot, record.entity);
        found.is_some_and(|found| same(record, found))
    };
    if is_in(truth) {
        return Some(truth.number);
    }
    if record.tier == 0 {
        return None;
    }
    let before = (truth.number.saturating_sub(BEHIND_MAX)..truth.number)
        .rev()
        .filter_map(|number| reader.numbered(number));
    before
        .filter(|before| before.stream == truth.stream)
        .find(|before| is_in(before))
        .map(|before| before.number)
}

/// Whether two records of one entity agree; `None` where something was observed between them, so that neither says
/// anything of the other. Rest and extra fields may change without an observation.
#[must_use]
pub fn agree(record: &Record, truth: &Record) -> Option<bool> {
    if same(record, truth) {
        return Some(true);
    }
    let times = |record: &Record| {
        let observed_us = record.motion.map(|motion| motion.observed_us);
        (record.segment, record.segment_us, observed_us)
    };
    if times(record) != times(truth) {
        return None;
    }
    let pose = |record: &Record| record.motion.map(|motion| (motion.position, motion.rotation));
    let fixed = |record: &Record| (record.class, record.born_us);
    if pose(record) != pose(truth) || fixed(record) != fixed(truth) {
        return Some(false);
    }
    None
}
