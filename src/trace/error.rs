//! Why a trace file was refused, and where.

use crate::limits::{NAME_BYTES_MAX, TRACE_LINE_MAX};
use crate::state::entity::Entity;
use crate::state::schema::SchemaError;
use std::io;

/// A refused trace file.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}: {fault}", line_text(*line))]
pub struct TraceError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1; 0 where the fault lies in no line.
    pub line: u64,
    /// What is wrong.
    pub fault: TraceFault,
}

fn line_text(line: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(", line {line}")
    }
}

/// What is wrong with a trace file.
#[derive(Debug, thiserror::Error)]
pub enum TraceFault {
    /// The file cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// A directory in place of a file.
    #[error("is a directory: give a recording, a file such as match.jsonl.zst")]
    Directory,
    /// The first bytes are not those of a zstd stream.
    #[error("is no zstd file{}", if *is_text { ": it begins as plain JSON, so compress it with zstd first" } else { ": give a recording, a file such as match.jsonl.zst" })]
    NotZstd {
        /// It begins with a brace, as the text inside would.
        is_text: bool,
    },
    /// The zstd stream cannot be read on, or ends too early.
    #[error("the zstd stream is damaged or cut off ({0}): fetch the file again")]
    Stream(io::Error),
    /// There is no first line.
    #[error("the file is empty: its first line must be a header; fetch or record it again")]
    NoHeader,
    /// There is no second line.
    #[error("there is a header but no record: nothing can be played; fetch or record it again")]
    NoRecords,
    /// A line above the bound.
    #[error("the line is longer than {TRACE_LINE_MAX} bytes")]
    LineTooLong,
    /// Not JSON, a key missing, or a value of the wrong type.
    #[error("{0}")]
    Json(String),
    /// The header contradicts itself or the format.
    #[error("header: {0}")]
    Header(String),
    /// An observation with too few or too many columns.
    #[error("an observation has {got} columns, but the header names {expected} (with id, gen and seg)")]
    ColumnCount {
        /// Columns in the row.
        got: usize,
        /// Columns by the header.
        expected: usize,
    },
    /// An id, generation or segment that is no whole number of 32 bits.
    #[error("an observation's {column} is {}, but must be a whole number from 0 to 4294967295", or_null(*value))]
    NotAnIdentity {
        /// `id`, `gen` or `seg`.
        column: &'static str,
        /// The value; `None` is null.
        value: Option<f64>,
    },
    /// A value that may not be null is.
    #[error("column {column} of entity {entity} is null, which it may not be")]
    Null {
        /// The column.
        column: String,
        /// Whose.
        entity: Entity,
    },
    /// Three components of which only some are null.
    #[error("the {what} of entity {entity} is null in some components only: give all three, or null for all")]
    PartlyNull {
        /// `velocity` or `angular velocity`.
        what: &'static str,
        /// Whose.
        entity: Entity,
    },
    /// A value out of its bounds.
    #[error("column {column} of entity {entity} is {value}, outside {min} to {max}")]
    OutOfRange {
        /// The column.
        column: String,
        /// Whose.
        entity: Entity,
        /// The value.
        value: f64,
        /// Lowest allowed value.
        min: f64,
        /// Highest allowed value.
        max: f64,
    },
    /// A value that must be whole is not.
    #[error("column {column} of entity {entity} is {value}, but must be a whole number")]
    NotWhole {
        /// The column.
        column: String,
        /// Whose.
        entity: Entity,
        /// The value.
        value: f64,
    },
    /// A quaternion that is no rotation.
    #[error("the quaternion of entity {entity} has length {length}, but must have length 1 within 0.1")]
    NotARotation {
        /// Whose.
        entity: Entity,
        /// Its length.
        length: f64,
    },
    /// `t` did not rise.
    #[error("t is {t} after {last}, but must rise from record to record")]
    CountDidNotRise {
        /// The record's.
        t: u64,
        /// The last record's.
        last: u64,
    },
    /// `time` fell, or lies outside its bounds.
    #[error("time is {time} s, but must lie from {least} (the record before) to {most} s")]
    Time {
        /// The record's.
        time: f64,
        /// The last record's.
        least: f64,
        /// The bound.
        most: f64,
    },
    /// A spawn under an id that is in use.
    #[error("entity {entity} spawns while {alive} is alive under the same id: despawn that first")]
    StillAlive {
        /// What spawns.
        entity: Entity,
        /// What is alive.
        alive: Entity,
    },
    /// A spawn whose generation was used before.
    #[error("entity {entity} spawns, but id {} had generation {last} before: generations must rise", entity.id)]
    GenerationDidNotRise {
        /// What spawns.
        entity: Entity,
        /// The id's last generation.
        last: u32,
    },
    /// An observation or despawn of what is not alive.
    #[error("{what} of entity {entity}, which is not alive{}", alive_text(*entity, *alive))]
    NotAlive {
        /// `observation` or `despawn`.
        what: &'static str,
        /// The entity named.
        entity: Entity,
        /// The generation alive under its id.
        alive: Option<u32>,
    },
    /// A segment that fell.
    #[error("the segment of entity {entity} is {segment} after {last}: segments never fall")]
    SegmentFell {
        /// Whose.
        entity: Entity,
        /// The row's.
        segment: u32,
        /// The last row's.
        last: u32,
    },
    /// Two observations of one entity in one record.
    #[error("entity {0} is observed twice in this record: one row an entity and record is allowed")]
    ObservedTwice(Entity),
    /// More of something than a bound allows.
    #[error("more than {bound} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        bound: u64,
    },
    /// A kind without a name, or with too long a one.
    #[error("a kind's name has {bytes} bytes, but must have 1 to {NAME_BYTES_MAX}")]
    KindName {
        /// Its length.
        bytes: usize,
    },
    /// No schema can hold this world.
    #[error("no schema can be made of it: {0}")]
    Schema(SchemaError),
}

fn or_null(value: Option<f64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn alive_text(entity: Entity, alive: Option<u32>) -> String {
    alive.map_or_else(String::new, |generation| {
        format!(" (generation {generation} of id {} is)", entity.id)
    })
}

impl TraceFault {
    /// The fault with its place.
    #[must_use]
    pub fn at(self, file: &str, line: u64) -> TraceError {
        TraceError {
            file: file.to_owned(),
            line,
            fault: self,
        }
    }
}

impl TraceFault {
    /// What serde_json found wrong with the line `bytes`.
    pub(crate) fn of_json(error: &serde_json::Error, bytes: &[u8]) -> TraceFault {
        if let Some(word) = no_number(bytes, error.column()) {
            return TraceFault::Json(format!(
                "{word} near byte {} is no number of JSON: write null where a value is not known",
                error.column()
            ));
        }
        // serde_json counts lines within the text it was given, which is one line here.
        let text = error.to_string();
        let what = text
            .rsplit_once(" at line ")
            .map_or(text.as_str(), |(what, _)| what);
        TraceFault::Json(format!(
            "not a line of this format: {} (near byte {})",
            excerpt(what, EXCERPT_CHARS),
            error.column()
        ))
    }
}

/// Characters of a file's own text that an error shows.
const EXCERPT_CHARS: usize = 200;

/// The beginning of what a file says, for an error: without control characters, and no longer than a sentence bears
/// (THREATS 39).
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cut: String = shown.take(most).collect();
    if text.chars().nth(most).is_some() {
        cut.push_str("...");
    }
    cut
}

/// What some writers put where they have no finite number, when serde_json stopped in one at `column`, from 1.
fn no_number(bytes: &[u8], column: usize) -> Option<&'static str> {
    let rest = bytes.get(column.checked_sub(1)?..)?;
    // It stops at the first letter, or at the one that could have been another word: null, a minus.
    let before = bytes.get(column.saturating_sub(2)..).unwrap_or_default();
    ["NaN", "nan", "Infinity", "inf"]
        .into_iter()
        .find(|word| rest.starts_with(word.as_bytes()) || before.starts_with(word.as_bytes()))
}

impl From<SchemaError> for TraceFault {
    fn from(error: SchemaError) -> TraceFault {
        TraceFault::Schema(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THREATS 39: what a file says is shown as far as a sentence bears, and as text.
    #[test]
    fn threats_39_an_error_shows_no_more_of_a_file_than_a_sentence_bears() {
        let line = format!("\"{}\"", "x\\n".repeat(5_000));
        let error = serde_json::from_str::<Vec<u8>>(&line).unwrap_err();
        let text = TraceFault::of_json(&error, line.as_bytes()).to_string();
        assert!(text.len() < 300 && text.contains("..."), "{} bytes", text.len());
        assert_eq!(excerpt("a\u{1b}[2J\nb", 6), "a [2J ...");
        assert_eq!(excerpt("short", 5), "short");
    }
}
