//! Reads a trace file record by record and checks everything the format promises.
//!
//! > [`TraceReader::open`] reads the header; iterating gives one record after the other. The first fault ends
//! > the iteration: after an error there are no more records. A reader holds one line and one entry an id.
//!
//! Invariants of what it gives out: `t` rises and `time` never falls; despawns and observations name entities
//! that are alive at that point (despawns apply first, then spawns, then observations); an id's generation rises with
//! each spawn and its segment never falls within a generation; all numbers are finite and in their bounds.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::{TraceError, TraceFault};
use super::header::TraceHeader;
use super::lines::Lines;
use super::record::{TraceRecord, TraceRow};
use crate::limits::{SLOTS_MAX, TRACE_ROWS_MAX, TRACE_SECONDS_MAX};
use crate::state::entity::Entity;
use core::fmt;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What is known of one id.
#[derive(Clone, Copy, Debug)]
struct Life {
    generation: u32,
    alive: bool,
    segment: Option<u32>,
    observed_line: u64,
}

/// Reads one trace file.
pub struct TraceReader {
    file: String,
    lines: Lines,
    header: TraceHeader,
    lives: HashMap<u32, Life>,
    live: usize,
    rows: u64,
    last: Option<(u64, f64)>,
    ended: bool,
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReader")
            .field("file", &self.file)
            .field("line", &self.lines.number())
            .finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens a `.jsonl.zst` file and reads its header.
    ///
    /// # Errors
    /// The file cannot be opened, is no zstd stream, or its header is refused.
    pub fn open(path: impl AsRef<Path>) -> Result<TraceReader, TraceError> {
        let name = path.as_ref().display().to_string();
        let open = || {
            let file = File::open(path.as_ref()).map_err(TraceFault::Open)?;
            match file.metadata() {
                Ok(metadata) if metadata.is_dir() => Err(TraceFault::Directory),
                _ => Ok(file),
            }
        };
        let file = open().map_err(|fault| fault.at(&name, 0))?;
        TraceReader::from_stream(&name, file)
    }

    /// Reads the header from a zstd stream; `name` is what errors call it.
    ///
    /// # Errors
    /// The bytes are no zstd stream, or the header is refused.
    pub fn from_stream(name: &str, stream: impl Read + Send + 'static) -> Result<TraceReader, TraceError> {
        let mut lines = Lines::unpack(stream).map_err(|fault| fault.at(name, 0))?;
        let header = match lines.next() {
            Ok(Some(line)) => TraceHeader::parse(line),
            Ok(None) => Err(TraceFault::NoHeader),
            Err(fault) => Err(fault),
        };
        Ok(TraceReader {
            file: name.to_owned(),
            lines,
            header: header.map_err(|fault| fault.at(name, 1))?,
            lives: HashMap::new(),
            live: 0,
            rows: 0,
            last: None,
            ended: false,
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The file, as errors name it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line read last, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Entities alive after the last record.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// The next record, or `None` at the end of the file.
    fn read(&mut self) -> Result<Option<TraceRecord>, TraceFault> {
        let line = self.lines.number() + 1;
        let Some(text) = self.lines.next()? else {
            return Ok(None);
        };
        let record = TraceRecord::parse(text, line, &self.header)?;
        self.rows = self.rows.saturating_add(record.rows());
        if self.rows > TRACE_ROWS_MAX {
            return Err(TraceFault::TooMany {
                what: "rows in one file",
                bound: TRACE_ROWS_MAX,
            });
        }
        self.check_time(&record)?;
        for entity in &record.despawned {
            self.despawn(*entity)?;
        }
        for spawn in &record.spawned {
            self.spawn(spawn.entity)?;
        }
        for row in &record.observed {
            self.observe(row)?;
        }
        Ok(Some(record))
    }

    fn check_time(&mut self, record: &TraceRecord) -> Result<(), TraceFault> {
        let (t, time) = (record.t, record.time);
        let least = self.last.map_or(0.0, |(_, last)| last);
        if !(least..=TRACE_SECONDS_MAX).contains(&time) {
            return Err(TraceFault::Time {
                time,
                least,
                most: TRACE_SECONDS_MAX,
            });
        }
        if let Some((last, _)) = self.last.filter(|(last, _)| *last >= t) {
            return Err(TraceFault::CountDidNotRise { t, last });
        }
        self.last = Some((t, time));
        Ok(())
    }

    fn spawn(&mut self, entity: Entity) -> Result<(), TraceFault> {
        let Entity { id, generation } = entity;
        if let Some(life) = self.lives.get(&id) {
            if life.alive {
                let alive = Entity {
                    id,
                    generation: life.generation,
                };
                return Err(TraceFault::StillAlive { entity, alive });
            }
            if life.generation >= generation {
                return Err(TraceFault::GenerationDidNotRise {
                    entity,
                    last: life.generation,
                });
            }
        }
        if self.live >= SLOTS_MAX {
            return Err(TraceFault::TooMany {
                what: "entities alive at once",
                bound: SLOTS_MAX as u64,
            });
        }
        self.live += 1;
        self.lives.insert(
            id,
            Life {
                generation,
                alive: true,
                segment: None,
                observed_line: 0,
            },
        );
        Ok(())
    }

    fn despawn(&mut self, entity: Entity) -> Result<(), TraceFault> {
        self.living(entity, "despawn")?.alive = false;
        self.live -= 1;
        Ok(())
    }

    fn observe(&mut self, row: &TraceRow) -> Result<(), TraceFault> {
        let line = self.lines.number();
        let life = self.living(row.entity, "observation")?;
        if life.observed_line == line {
            return Err(TraceFault::ObservedTwice(row.entity));
        }
        life.observed_line = line;
        if let Some(last) = life.segment.filter(|last| *last > row.segment) {
            return Err(TraceFault::SegmentFell {
                entity: row.entity,
                segment: row.segment,
                last,
            });
        }
        life.segment = Some(row.segment);
        Ok(())
    }

    /// The life of an entity that must be alive.
    fn living(&mut self, entity: Entity, what: &'static str) -> Result<&mut Life, TraceFault> {
        match self.lives.get_mut(&entity.id) {
            Some(life) if life.alive && life.generation == entity.generation => Ok(life),
            other => {
                let alive = other.filter(|life| life.alive).map(|life| life.generation);
                Err(TraceFault::NotAlive { what, entity, alive })
            }
        }
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.read();
        self.ended = !matches!(item, Ok(Some(_)));
        item.map_err(|fault| fault.at(&self.file, self.lines.number()))
            .transpose()
    }
}

impl core::iter::FusedIterator for TraceReader {}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
mod tests;
