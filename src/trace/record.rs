//! One record of a trace: what ended, began, was observed and happened at one instant, as recorded.
//!
//! A row is checked by itself here (columns, numbers, bounds); what depends on earlier records is the
//! reader's. Units: metres, seconds, radians.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::TraceFault;
use super::header::TraceHeader;
use crate::limits::{NAME_BYTES_MAX, TRACE_RATE_MAX};
use crate::state::entity::Entity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Highest magnitude of a value in an integer column: 31 bits.
pub const INTEGER_MAX: i64 = i32::MAX as i64;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRecord {
    /// The line it stands in, from 1.
    pub line: u64,
    /// The recorder's count; rises.
    pub t: u64,
    /// Seconds since the first record; never falls.
    pub time: f64,
    /// Entities that end; applied first.
    pub despawned: Vec<Entity>,
    /// Entities that begin; applied second.
    pub spawned: Vec<TraceSpawn>,
    /// What was observed; applied third.
    pub observed: Vec<TraceRow>,
    /// What happened, in order.
    pub events: Vec<TraceEvent>,
}

/// An entity begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpawn {
    /// Which entity.
    pub entity: Entity,
    /// What it is.
    pub kind: String,
}

/// One observation.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRow {
    /// Whose.
    pub entity: Entity,
    /// Continuity segment.
    pub segment: u32,
    /// Metres, within the header's bounds.
    pub position: [f64; 3],
    /// x, y, z, w; of length 1 within rounding, of either sign.
    pub rotation: [f64; 4],
    /// Metres a second; `None` where the source carries none.
    pub velocity: Option<[f64; 3]>,
    /// Radians a second; `None` where the source carries none.
    pub angular: Option<[f64; 3]>,
    /// The body is asleep; false where the source does not say.
    pub sleep: bool,
    /// Integer columns, in the order of [`Columns::extras`](super::header::Columns::extras); `None` is unknown.
    pub extras: Vec<Option<i64>>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// What kind.
    pub kind: String,
    /// The id of the entity it is about; it need not be alive.
    pub id: Option<u32>,
    /// The other keys, sorted.
    pub rest: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct RawRecord {
    t: u64,
    time: f64,
    spawn: Vec<RawSpawn>,
    despawn: Vec<RawDespawn>,
    obs: Vec<Vec<Option<f64>>>,
    event: Vec<RawEvent>,
}

#[derive(Deserialize)]
struct RawSpawn {
    id: u32,
    #[serde(rename = "gen")]
    generation: u32,
    kind: String,
}

#[derive(Deserialize)]
struct RawDespawn {
    id: u32,
    #[serde(rename = "gen")]
    generation: u32,
}

#[derive(Deserialize)]
struct RawEvent {
    kind: String,
    id: Option<u32>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl TraceRecord {
    /// Reads the record of line number `line`.
    ///
    /// # Errors
    /// It is not JSON, a key or column is missing, or a value is null, not whole or out of bounds.
    pub fn parse(text: &[u8], line: u64, header: &TraceHeader) -> Result<TraceRecord, TraceFault> {
        let raw: RawRecord =
            serde_json::from_slice(text).map_err(|error| TraceFault::of_json(&error, text))?;
        let mut spawned = Vec::with_capacity(raw.spawn.len());
        for spawn in raw.spawn {
            check_kind(&spawn.kind)?;
            let entity = Entity {
                id: spawn.id,
                generation: spawn.generation,
            };
            spawned.push(TraceSpawn {
                entity,
                kind: spawn.kind,
            });
        }
        let mut observed = Vec::with_capacity(raw.obs.len());
        for row in &raw.obs {
            observed.push(TraceRow::parse(row, header)?);
        }
        let mut events = Vec::with_capacity(raw.event.len());
        for RawEvent { kind, id, rest } in raw.event {
            check_kind(&kind)?;
            events.push(TraceEvent { kind, id, rest });
        }
        let despawned = raw
            .despawn
            .iter()
            .map(|despawn| Entity {
                id: despawn.id,
                generation: despawn.generation,
            })
            .collect();
        Ok(TraceRecord {
            line,
            t: raw.t,
            time: raw.time,
            despawned,
            spawned,
            observed,
            events,
        })
    }

    /// Rows of the record, itself included: what [`TRACE_ROWS_MAX`](crate::limits::TRACE_ROWS_MAX) counts.
    #[must_use]
    pub fn rows(&self) -> u64 {
        1 + (self.despawned.len() + self.spawned.len() + self.observed.len() + self.events.len()) as u64
    }
}

fn check_kind(kind: &str) -> Result<(), TraceFault> {
    if (1..=NAME_BYTES_MAX).contains(&kind.len()) {
        Ok(())
    } else {
        Err(TraceFault::KindName { bytes: kind.len() })
    }
}

impl TraceRow {
    fn parse(row: &[Option<f64>], header: &TraceHeader) -> Result<TraceRow, TraceFault> {
        let columns = &header.columns;
        if row.len() != columns.count {
            return Err(TraceFault::ColumnCount {
                got: row.len(),
                expected: columns.count,
            });
        }
        let entity = Entity {
            id: identity(row, 0, "id")?,
            generation: identity(row, 1, "gen")?,
        };
        let cells = Cells {
            row,
            entity,
            fields: &header.fields,
        };
        let mut position = [0.0; 3];
        let bounds = header.min.iter().zip(&header.max);
        for ((place, index), (min, max)) in position.iter_mut().zip(columns.position).zip(bounds) {
            *place = cells.within(index, *min, *max)?;
        }
        let mut rotation = [0.0; 4];
        for (place, index) in rotation.iter_mut().zip(columns.rotation) {
            *place = cells.within(index, -2.0, 2.0)?;
        }
        let length = rotation.iter().map(|part| part * part).sum::<f64>().sqrt();
        if (length - 1.0).abs() > 0.1 {
            return Err(TraceFault::NotARotation { entity, length });
        }
        let sleep = match columns.sleep {
            Some(index) => cells.whole(index, 0, 1)? == Some(1),
            None => false,
        };
        let mut extras = Vec::with_capacity(columns.extras.len());
        for (_, index) in &columns.extras {
            extras.push(cells.whole(*index, -INTEGER_MAX, INTEGER_MAX)?);
        }
        Ok(TraceRow {
            entity,
            segment: identity(row, 2, "seg")?,
            position,
            rotation,
            velocity: cells.rate(columns.velocity, "velocity")?,
            angular: cells.rate(columns.angular, "angular velocity")?,
            sleep,
            extras,
        })
    }
}

/// A whole number of 32 bits.
fn identity(row: &[Option<f64>], index: usize, column: &'static str) -> Result<u32, TraceFault> {
    let value = row.get(index).copied().flatten();
    match value {
        Some(number) if (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0 => {
            Ok(number as u32)
        }
        _ => Err(TraceFault::NotAnIdentity { column, value }),
    }
}

/// The values of one row, with what an error needs to name them.
struct Cells<'a> {
    row: &'a [Option<f64>],
    entity: Entity,
    fields: &'a [String],
}

impl Cells<'_> {
    fn get(&self, index: usize) -> Option<f64> {
        self.row.get(index).copied().flatten()
    }

    fn name(&self, index: usize) -> String {
        index
            .checked_sub(3)
            .and_then(|field| self.fields.get(field))
            .cloned()
            .unwrap_or_default()
    }

    /// A number from `min` to `max`.
    fn within(&self, index: usize, min: f64, max: f64) -> Result<f64, TraceFault> {
        match self.get(index) {
            Some(value) if (min..=max).contains(&value) => Ok(value),
            Some(value) => Err(TraceFault::OutOfRange {
                column: self.name(index),
                entity: self.entity,
                value,
                min,
                max,
            }),
            None => Err(TraceFault::Null {
                column: self.name(index),
                entity: self.entity,
            }),
        }
    }

    /// A whole number from `min` to `max`, or null.
    fn whole(&self, index: usize, min: i64, max: i64) -> Result<Option<i64>, TraceFault> {
        if self.get(index).is_none() {
            return Ok(None);
        }
        let value = self.within(index, min as f64, max as f64)?;
        if value.fract() == 0.0 {
            Ok(Some(value as i64))
        } else {
            Err(TraceFault::NotWhole {
                column: self.name(index),
                entity: self.entity,
                value,
            })
        }
    }

    /// Three numbers of a rate of change, or `None` when all are null or there are no such columns.
    fn rate(&self, columns: Option<[usize; 3]>, what: &'static str) -> Result<Option<[f64; 3]>, TraceFault> {
        let Some(columns) = columns else { return Ok(None) };
        match columns.iter().filter(|index| self.get(**index).is_none()).count() {
            0 => {}
            3 => return Ok(None),
            _ => {
                return Err(TraceFault::PartlyNull {
                    what,
                    entity: self.entity,
                });
            }
        }
        let mut rate = [0.0; 3];
        for (place, index) in rate.iter_mut().zip(columns) {
            *place = self.within(index, -TRACE_RATE_MAX, TRACE_RATE_MAX)?;
        }
        Ok(Some(rate))
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
mod tests {
    use super::*;
    use crate::trace::header::tests::{FULL, header_line};

    const EMPTY: &str = r#"{"t":3,"time":3,"spawn":[],"despawn":[],"obs":[],"event":[]}"#;

    fn parse(text: &str) -> Result<TraceRecord, String> {
        let header = TraceHeader::parse(header_line(FULL).as_bytes()).unwrap();
        TraceRecord::parse(text.as_bytes(), 2, &header).map_err(|fault| fault.to_string())
    }

    fn refused(text: &str, part: &str) {
        let error = parse(text).expect_err(part);
        assert!(error.contains(part), "{error} should say {part}");
    }

    #[test]
    fn malformed_rows_are_refused() {
        let obs = |row: &str| EMPTY.replace("\"obs\":[]", &format!("\"obs\":[{row}]"));
        assert!(parse(&obs("[1,0,0, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]")).is_ok());
        for (row, part) in [
            ("[1,0,0]", "has 3 columns, but the header names 18"),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0, 0]",
                "has 19 columns",
            ),
            ("[1.5,0,0, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]", "id is 1.5"),
            ("[1,-1,0, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]", "gen is -1"),
            (
                "[1,0,4294967296, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "seg is 4294967296",
            ),
            ("[1,0,null, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]", "seg is null"),
            (
                "[1,0,0, 0,0,0, 0,0,0,0, 0,0,0, null, 0,0,0, 0]",
                "1#0 has length 0,",
            ),
            (
                "[1,0,0, 0,0,0, 1,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "1#0 has length 1.41",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,null, 0,0,0, null, 0,0,0, 0]",
                "qw of entity 1#0 is null",
            ),
            (
                "[1,0,0, 100.5,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "px of entity 1#0 is 100.5, outside -100 to",
            ),
            (
                "[1,0,0, 0,null,0, 0,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "py of entity 1#0 is null",
            ),
            (
                "[1,0,0, 0,0,1e999, 0,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "number out of range",
            ),
            (
                "[1,0,0, 0,0,NaN, 0,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "NaN near byte 60 is no number of JSON",
            ),
            (
                "[1,0,0, 0,0,\"0\", 0,0,0,1, 0,0,0, null, 0,0,0, 0]",
                "invalid type",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,null,0, null, 0,0,0, 0]",
                "the velocity of entity 1#0 is null in some",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,null, 0]",
                "the angular velocity of entity 1#0",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,1e200,0, null, 0,0,0, 0]",
                "vy of entity 1#0",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,0,0, 1.5, 0,0,0, 0]",
                "health of entity 1#0 is 1.5, but must be a whole",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,0,0, 1e10, 0,0,0, 0]",
                "health of entity 1#0 is 10000000000, outside",
            ),
            (
                "[1,0,0, 0,0,0, 0,0,0,1, 0,0,0, null, 0,0,0, 2]",
                "sleep of entity 1#0 is 2, outside 0 to 1",
            ),
        ] {
            refused(&obs(row), part);
        }
    }

    #[test]
    fn malformed_records_are_refused() {
        assert_eq!(parse(EMPTY).unwrap().rows(), 1);
        for (from, to, part) in [
            (EMPTY, "", "EOF"),
            (EMPTY, "{", "near byte 1"),
            (EMPTY, "7", "not a line of this format"),
            ("\"despawn\":[],", "", "missing field `despawn`"),
            ("\"t\":3", "\"t\":-3", "invalid value"),
            ("\"t\":3", "\"t\":3,\"t\":4", "duplicate field"),
            ("\"time\":3", "\"time\":null", "invalid type"),
            (
                "\"spawn\":[]",
                r#""spawn":[{"id":1,"gen":0}]"#,
                "missing field `kind`",
            ),
            (
                "\"spawn\":[]",
                r#""spawn":[{"id":1,"gen":0,"kind":""}]"#,
                "name has 0 bytes",
            ),
            (
                "\"despawn\":[]",
                r#""despawn":[{"id":4294967296,"gen":0}]"#,
                "invalid value",
            ),
            ("\"event\":[]", "\"event\":[{}]", "missing field `kind`"),
            (
                "\"event\":[]",
                &format!(r#""event":[{{"kind":"{}"}}]"#, "x".repeat(33)),
                "name has 33 bytes",
            ),
            (
                "\"event\":[]",
                &format!("\"event\":{}", "[".repeat(1000)),
                "invalid type",
            ),
            (
                "\"event\":[]",
                &format!(r#""event":[{{"kind":"a","b":{}"#, "[".repeat(1000)),
                "recursion",
            ),
        ] {
            refused(&EMPTY.replacen(from, to, 1), part);
        }
    }
}
