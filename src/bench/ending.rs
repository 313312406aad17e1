//! What a client shows at the end of a run, compared with the whole world.
//!
//! By then the links were clean for a second, so every living entity must be shown with the origin's record. One that
//! changed within that second may still wait for its turn: then its record must have been true when it came.

use std::collections::HashSet;

use super::truth::{SlotHints, TruthReader};
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::frame::Frame;
use crate::state::record::{Motion, Record};

/// How old a record may be at the end where its entity has changed since, server microseconds.
const CLEAN_US: u64 = 1_000_000;

/// The longest description of a difference, in characters: a line of a summary stays readable.
const WORDS_MAX: usize = 140;

/// What an end check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndCheck {
    /// Entities that should be shown, with a record that is the truth's, and are not.
    pub missing: u64,
    /// Entities shown that are not there.
    pub extra: u64,
    /// One of the missing ones in words.
    pub missing_example: String,
    /// One of those that are not there in words.
    pub extra_example: String,
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
            check.extra_example = format!(
                "entity {} is shown at {} and does not live",
                record.entity,
                seconds(server_us)
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
            check.missing_example = clipped(format!(
                "entity {} is shown as of {}, the origin's newest is of {} and differs in {}",
                record.entity,
                seconds(as_of_us),
                seconds(newest_us(truth)),
                fields(&record, truth)
                    .map(|(name, ..)| name)
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
    }
    check.missing = (frame.live() as u64).saturating_sub(right);
    if check.missing > 0 && check.missing_example.is_empty() {
        let shown: HashSet<Entity> = display.records().map(|(_, record, _)| record.entity).collect();
        let absent = frame
            .records()
            .find(|(_, record)| !shown.contains(&record.entity));
        check.missing_example = absent.map_or(String::new(), |(_, record)| {
            format!(
                "entity {} is not shown at {}, the origin has it since {}",
                record.entity,
                seconds(server_us),
                seconds(record.born_us)
            )
        });
    }
    check
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
