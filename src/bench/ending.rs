//! What a client shows at the end of a run, compared with what it should see of the world.
//!
//! By then the links were clean for a second, so every living entity in its view must be shown with the origin's record. One that
//! changed within that second may still wait for its turn: then its record must be one that was true in that second.

use super::likeness::origin_of;
use super::places::SlotHints;
use super::sight::{Sees, Sight, place_of};
use super::truth::{TruthFrame, TruthReader};
use crate::client::session::Client;
use crate::state::frame::Frame;
use crate::state::record::{Motion, Record};
use crate::state::slots::{Slot, SlotSet};

/// How old a record may be at the end where its entity has changed since, server microseconds.
const CLEAN_US: u64 = 1_000_000;
/// The same of the client's own entity, whose motion comes in its table every two seconds only (SPEC DEC10).
const OWN_US: u64 = 2_500_000;

/// The longest description of a difference, in characters: a line of a summary stays readable.
const WORDS_MAX: usize = 140;

/// What an end check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndCheck {
    /// Entities that should be shown, with a record that is the truth's, and are not.
    pub missing: u64,
    /// Entities shown that are not there.
    pub extra: u64,
    /// Entities shown that the view does not allow.
    pub leaks: u64,
    /// One of the missing ones in words.
    pub missing_example: String,
    /// One of those that are not there in words.
    pub extra_example: String,
    /// One of those that leaked in words.
    pub leak_example: String,
}

impl EndCheck {
    /// All together.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.missing + self.extra + self.leaks
    }
}

/// Compares what `client` shows with the frame of its newest snapshot's time. Who is in view for sure must be shown, who
/// is out of it must not.
#[must_use]
pub fn end_check(
    reader: &TruthReader,
    hints: &mut SlotHints,
    truth: &TruthFrame,
    sight: &mut Sight,
    client: &Client,
) -> EndCheck {
    let mut check = EndCheck::default();
    let (display, frame) = (client.display(), &truth.frame);
    let own = sight.assigned().and_then(|assigned| assigned.entity);
    let outlook = sight
        .is_bounded()
        .then(|| sight.outlook(reader, truth, crate::net::clock::monotonic_us()));
    // What takes somebody away may be in a part that is not here, and without a base of all of the view nothing may say that
    // somebody is gone who came by a snapshot that is no base.
    let newest = client.newest();
    let is_told = newest.is_some_and(|newest| newest.is_whole() && newest.view_complete);
    let omits = newest.is_none_or(|newest| newest.omits());
    let sees = |slot: Slot, record: &Record| {
        outlook.as_ref().map_or(Sees::Surely, |outlook| {
            let place = place_of(&frame.schema, record);
            outlook.sees(record.entity, frame.tags(slot), place)
        })
    };
    let mut shown = SlotSet::default();
    let mut untold = Vec::new();
    for (slot, record, _) in display.records() {
        let found = hints.place(frame, slot, record.entity);
        let lives = found.is_some();
        shown.extend(found.map(|(at, _)| at));
        let Some((_, found)) = found.filter(|(at, found)| sees(*at, found) != Sees::Never) else {
            if !is_told {
                untold.push(record);
            } else if lives {
                check.leaks += 1;
                check.leak_example = shown_wrongly(&record, frame, "which its view does not allow");
            } else {
                check.extra += 1;
                check.extra_example = shown_wrongly(&record, frame, "and does not live");
            }
            continue;
        };
        let as_of_us = display.known(slot).map_or(0, |known| known.as_of_us);
        // The owner's motion comes beside the snapshots.
        let is_own = own == Some(record.entity);
        if !is_right(reader, hints, truth, slot, &record, is_own) {
            check.missing += 1;
            check.missing_example = stale(&record, found, as_of_us);
        }
    }
    let absent = frame
        .records()
        .filter(|(slot, record)| !shown.contains(*slot) && sees(*slot, record) == Sees::Surely);
    let mut unshown = Vec::new();
    for (_, record) in absent {
        if omits {
            unshown.push(*record);
            continue;
        }
        check.missing += 1;
        check.missing_example = unshown_wrongly(record, frame);
    }
    look_back(&mut check, reader, truth, sight, (&untold, &unshown));
    check
}

/// Of those who are shown and should not be, and of those who are not and should, where nothing may have said so yet: who
/// was so before the clean time too counts as missing, since word of it is.
fn look_back(
    check: &mut EndCheck,
    reader: &TruthReader,
    truth: &TruthFrame,
    sight: &mut Sight,
    (untold, unshown): (&[Record], &[Record]),
) {
    let then_us = truth.server_us().saturating_sub(CLEAN_US);
    let mut earlier = reader.backwards(truth.stream);
    let Some(then) = earlier.find(|then| then.server_us() <= then_us) else {
        return;
    };
    let bounded = sight.is_bounded();
    let outlook = sight.outlook(reader, then, crate::net::clock::monotonic_us());
    let saw = |record: &Record| {
        let (slot, found) = reader.find(then, record.entity)?;
        let place = place_of(&then.frame.schema, found);
        let sees = || outlook.sees(record.entity, then.frame.tags(slot), place);
        Some(if bounded { sees() } else { Sees::Surely })
    };
    for record in untold {
        let is_gone = match saw(record) {
            Some(sees) => sees == Sees::Never,
            None => record.born_us <= then_us,
        };
        if is_gone {
            check.missing += 1;
            check.missing_example = shown_wrongly(record, &truth.frame, "and was gone before the clean time");
        }
    }
    for record in unshown {
        if saw(record) == Some(Sees::Surely) {
            check.missing += 1;
            check.missing_example = unshown_wrongly(record, &truth.frame);
        }
    }
}

/// Somebody who should be shown, in words.
fn unshown_wrongly(record: &Record, frame: &Frame) -> String {
    format!(
        "entity {} is not shown at {}, the origin has it since {}",
        record.entity,
        seconds(frame.server_us),
        seconds(record.born_us)
    )
}

/// Somebody who should not be shown, in words.
fn shown_wrongly(record: &Record, frame: &Frame, why: &str) -> String {
    let at = seconds(frame.server_us);
    format!("entity {} is shown at {at}, {why}", record.entity)
}

/// Whether what is shown is the newest, or was until within the clean time.
fn is_right(
    reader: &TruthReader,
    hints: &mut SlotHints,
    truth: &TruthFrame,
    slot: Slot,
    record: &Record,
    is_own: bool,
) -> bool {
    let recent_us = if is_own { OWN_US } else { CLEAN_US };
    let oldest_us = truth.server_us().saturating_sub(recent_us);
    let mut recent = (0..=truth.number)
        .rev()
        .map_while(|number| reader.numbered(number))
        .take_while(|before| before.stream == truth.stream && before.server_us() >= oldest_us);
    recent.any(|then| origin_of(reader, hints, then, slot, record).is_some())
}

/// A record that is older than it may be, in words.
fn stale(record: &Record, truth: &Record, as_of_us: u64) -> String {
    let names: Vec<&str> = fields(record, truth).map(|(name, ..)| name).collect();
    clipped(format!(
        "entity {} is shown as of {}, the origin's newest is of {} and differs in {}",
        record.entity,
        seconds(as_of_us),
        seconds(newest_us(truth)),
        names.join(", ")
    ))
}

/// When a record changed last, as far as it tells.
fn newest_us(record: &Record) -> u64 {
    record
        .motion
        .map_or(record.segment_us, |motion| motion.observed_us)
        .max(record.segment_us)
}

fn seconds(server_us: u64) -> String {
    format!("{}.{:03} s", server_us / 1_000_000, server_us / 1000 % 1000)
}

/// The fields in which two records differ: name, ours, the truth's.
fn fields(ours: &Record, truth: &Record) -> impl Iterator<Item = (&'static str, String, String)> {
    fn each(record: &Record) -> [(&'static str, String); 9] {
        let Record {
            class,
            born_us,
            segment,
            segment_us,
            motion,
            extras,
            ..
        } = record;
        let of = |field: fn(&Motion) -> String| motion.as_ref().map_or("none".to_owned(), field);
        [
            ("class", class.to_string()),
            ("birth", born_us.to_string()),
            ("segment", format!("{segment} of {segment_us} us")),
            ("observed", of(|motion| format!("at {} us", motion.observed_us))),
            ("position", of(|motion| format!("{:?}", motion.position))),
            (
                "rotation",
                of(|motion| format!("{}:{:?}", motion.rotation.largest, motion.rotation.parts)),
            ),
            (
                "velocity",
                of(|motion| format!("{:?} {:?}", motion.velocity, motion.angular)),
            ),
            ("rest", of(|motion| motion.at_rest.to_string())),
            ("extras", format!("{extras:?}")),
        ]
    }
    each(ours)
        .into_iter()
        .zip(each(truth))
        .filter(|((_, ours), (_, truth))| ours != truth)
        .map(|((name, ours), (_, truth))| (name, ours, truth))
}

/// In which fields a record differs from the truth, those alone.
#[must_use]
pub fn differences(record: &Record, truth: Option<&Record>) -> String {
    let Some(truth) = truth else {
        return "the origin has no such record".to_owned();
    };
    let told: Vec<String> = fields(record, truth)
        .map(|(name, ours, truth)| format!("{name} is {ours}, the origin's {truth}"))
        .collect();
    clipped(told.join("; "))
}

/// At most [`WORDS_MAX`] characters of it.
fn clipped(text: String) -> String {
    match text.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EXTRA_FIELDS_MAX;
    use crate::state::entity::Entity;
    use crate::state::rotation::Rotation;

    fn record() -> Record {
        Record {
            entity: Entity { id: 9, generation: 1 },
            class: 0,
            tier: 0,
            born_us: 5,
            segment: 0,
            segment_us: 5,
            motion: Some(Motion {
                observed_us: 2_345_678,
                position: [1, 2, 3],
                rotation: Rotation {
                    largest: 3,
                    parts: [256; 3],
                },
                velocity: [0; 3],
                angular: [0; 3],
                at_rest: false,
            }),
            extras: [0; EXTRA_FIELDS_MAX],
        }
    }

    /// Only what differs is named; a line stays short however much does.
    #[test]
    fn differences_name_fields_and_stay_short() {
        let (ours, mut truth) = (record(), record());
        assert_eq!(differences(&ours, Some(&truth)), "");
        if let Some(motion) = &mut truth.motion {
            motion.position[1] = 7;
        }
        assert_eq!(
            differences(&ours, Some(&truth)),
            "position is [1, 2, 3], the origin's [1, 7, 3]"
        );
        truth = Record {
            class: 3,
            born_us: u64::MAX,
            segment: u32::MAX,
            segment_us: u64::MAX,
            motion: None,
            extras: [u32::MAX; EXTRA_FIELDS_MAX],
            ..truth
        };
        let long = differences(&ours, Some(&truth));
        assert!(
            long.starts_with("class is 0, the origin's 3; birth") && long.ends_with(" ..."),
            "{long}"
        );
        assert!(long.chars().count() <= WORDS_MAX + 4, "{long}");
        assert_eq!(
            (newest_us(&ours), seconds(newest_us(&ours))),
            (2_345_678, "2.345 s".to_owned())
        );
    }
}
