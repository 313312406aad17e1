//! What a client shows at the end of a run, compared with the whole world.
//!
//! By then the links were clean for a second, so every living entity must be shown with the origin's record. One that
//! changed within that second may still wait for its turn: then its record must have been true when it came.

use super::truth::{SlotHints, TruthReader};
use crate::client::session::Client;
use crate::state::frame::Frame;
use crate::state::record::Record;

/// How old a record may be at the end where its entity has changed since, server microseconds.
const CLEAN_US: u64 = 1_000_000;

/// What an end check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndCheck {
    /// Entities that should be shown, with a record that is the truth's, and are not.
    pub missing: u64,
    /// Entities shown that are not there.
    pub extra: u64,
    /// One of them in words.
    pub example: String,
}

impl EndCheck {
    /// Both together.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.missing + self.extra
    }
}

/// Compares what `client` shows with `frame`, the world of `stream` at its newest snapshot's time.
#[must_use]
pub fn end_check(
    reader: &TruthReader,
    hints: &mut SlotHints,
    stream: u32,
    frame: &Frame,
    client: &Client,
) -> EndCheck {
    let mut check = EndCheck::default();
    let (display, server_us) = (client.display(), frame.server_us);
    let mut right = 0;
    for (slot, record, _) in display.records() {
        let Some(truth) = hints.record(frame, slot, record.entity) else {
            check.extra += 1;
            check.example = format!(
                "entity {} is shown at {server_us} us and does not live",
                record.entity
            );
            continue;
        };
        // It may have changed within the clean time and wait for its turn; then it must have been true itself.
        let as_of_us = display.known(slot).map_or(0, |known| known.as_of_us);
        let recent = as_of_us + CLEAN_US >= server_us;
        let mut then = || {
            let mut frames = reader.at(stream, as_of_us);
            frames.any(|truth| hints.record(&truth.frame, slot, record.entity) == Some(&record))
        };
        if *truth == record || (recent && then()) {
            right += 1;
        } else {
            check.example = format!(
                "entity {} at {server_us} us: {}",
                record.entity,
                differences(&record, Some(truth))
            );
        }
    }
    check.missing = (frame.live() as u64).saturating_sub(right);
    if check.missing > 0 && check.example.is_empty() {
        check.example = format!("{} entities are not shown at {server_us} us", check.missing);
    }
    check
}

/// In which fields a record differs from the truth.
#[must_use]
pub fn differences(record: &Record, truth: Option<&Record>) -> String {
    let Some(truth) = truth else {
        return "the origin has no such record".to_owned();
    };
    let mut fields = Vec::new();
    let mut differ = |name: &str, ours: &dyn core::fmt::Debug, theirs: &dyn core::fmt::Debug| {
        let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
        if ours != theirs {
            fields.push(format!("{name} is {ours}, the origin's {theirs}"));
        }
    };
    differ("class", &record.class, &truth.class);
    differ("birth", &record.born_us, &truth.born_us);
    differ(
        "segment",
        &(record.segment, record.segment_us),
        &(truth.segment, truth.segment_us),
    );
    differ("motion", &record.motion, &truth.motion);
    differ("extras", &record.extras, &truth.extras);
    fields.join("; ")
}
