//! From records to what an origin publishes: world samples and their schema.
//!
//! A `Conversion` takes the records in order and is finished once. What the schema needs is known only at the
//! end, so values of extra fields are coded last.
//!
//! An entity's extra fields are given with its spawn, and then when they change. Where the record of the spawn
//! does not tell them they are unknown, or 0 where the field never is.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::TraceFault;
use super::events::Events;
use super::facts::{Facts, microseconds};
use super::header::TraceHeader;
use super::record::{TraceRecord, TraceRow};
use crate::state::entity::Entity;
use crate::state::sample::{ExtraSample, Sample, WorldSample};
use crate::state::schema::Schema;
use crate::state::update::{Despawn, Spawn};
use std::collections::BTreeMap;

/// Recorder gaps of Rocket League traces are played back as this many seconds unless told otherwise.
pub(crate) const GAP_SECONDS: f64 = 0.25;
/// Stands for null until the field's coding is known. Values from a file are within 31 bits.
const UNKNOWN: i64 = i64::MIN;

/// An entity that is alive.
#[derive(Debug)]
struct Life {
    generation: u32,
    /// Last values of the integer columns; `None` before any was sent.
    extras: Vec<Option<i64>>,
}

/// What a finished conversion gives.
#[derive(Debug)]
pub(crate) struct Converted {
    pub(crate) schema: Schema,
    pub(crate) samples: Vec<WorldSample>,
    pub(crate) events: Events,
    pub(crate) survivors: Vec<Entity>,
    pub(crate) generation_max: u32,
}

/// Records in, samples out.
#[derive(Debug)]
pub(crate) struct Conversion {
    header: TraceHeader,
    gap_limit_us: u64,
    samples: Vec<WorldSample>,
    /// Recorded time of the last record, and the time it is played at.
    last_us: Option<(u64, u64)>,
    facts: Facts,
    events: Events,
    lives: BTreeMap<u32, Life>,
    generation_max: u32,
}

impl Conversion {
    /// `gap_limit` in seconds: what longer intervals are shortened to. `None` is the family's own.
    pub(crate) fn new(header: TraceHeader, gap_limit: Option<f64>) -> Conversion {
        let family_limit = if header.family == "rocket-league" {
            GAP_SECONDS
        } else {
            f64::INFINITY
        };
        let limit = gap_limit.filter(|limit| *limit >= 0.0).unwrap_or(family_limit);
        Conversion {
            gap_limit_us: microseconds(limit),
            samples: Vec::new(),
            last_us: None,
            facts: Facts::new(header.columns.extras.len()),
            events: Events::default(),
            lives: BTreeMap::new(),
            generation_max: 0,
            header,
        }
    }

    /// Takes one record in.
    pub(crate) fn take(&mut self, record: &TraceRecord) -> Result<(), TraceFault> {
        let mut sample = WorldSample {
            server_us: self.play_time(record.time),
            ..WorldSample::default()
        };
        let at_us = sample.server_us;
        for entity in &record.despawned {
            self.lives.remove(&entity.id);
            sample.despawned.push(Despawn {
                entity: *entity,
                at_us,
                reason: 0,
            });
        }
        for spawn in &record.spawned {
            let Entity { id, generation } = spawn.entity;
            let extras = vec![None; self.header.columns.extras.len()];
            self.lives.insert(id, Life { generation, extras });
            self.generation_max = self.generation_max.max(generation);
            let class = self.facts.class(&spawn.kind)?;
            sample.spawned.push(Spawn {
                entity: spawn.entity,
                class,
                at_us,
            });
        }
        for row in &record.observed {
            self.observe(row, &mut sample);
        }
        for spawn in &record.spawned {
            self.complete(spawn.entity, &mut sample.extras);
        }
        for event in &record.events {
            let entity = event.id.and_then(|id| self.subject(id, record));
            sample.events.push(self.events.take(event, entity, at_us)?);
        }
        self.samples.push(sample);
        Ok(())
    }

    /// When a record of this recorded time is played.
    fn play_time(&mut self, seconds: f64) -> u64 {
        let recorded = microseconds(seconds);
        let played = match self.last_us {
            None => 0,
            Some((last, played)) => {
                let interval = recorded.saturating_sub(last).min(self.gap_limit_us);
                self.facts.interval(interval);
                played + interval
            }
        };
        self.last_us = Some((recorded, played));
        played
    }

    fn observe(&mut self, row: &TraceRow, sample: &mut WorldSample) {
        self.facts.row(row);
        sample.observed.push(Sample {
            entity: row.entity,
            segment: row.segment,
            observed_us: sample.server_us,
            position: row.position,
            rotation: row.rotation,
            velocity: row.velocity.unwrap_or_default(),
            angular: row.angular.unwrap_or_default(),
            at_rest: row.sleep,
        });
        let Some(life) = self.lives.get_mut(&row.entity.id) else {
            return;
        };
        for (field, (value, last)) in row.extras.iter().zip(&mut life.extras).enumerate() {
            let value = value.unwrap_or(UNKNOWN);
            if *last != Some(value) {
                *last = Some(value);
                sample.extras.push(ExtraSample {
                    entity: row.entity,
                    field,
                    value,
                });
            }
        }
    }

    /// Gives the fields of a new entity that its first record did not tell their beginning.
    fn complete(&mut self, entity: Entity, out: &mut Vec<ExtraSample>) {
        let Some(life) = self.lives.get_mut(&entity.id) else {
            return;
        };
        for (field, last) in life.extras.iter_mut().enumerate() {
            if last.is_none() {
                *last = Some(UNKNOWN);
                out.push(ExtraSample {
                    entity,
                    field,
                    value: UNKNOWN,
                });
            }
        }
    }

    /// The generation an event about this id means: the one alive, or else the one that ended in this record.
    fn subject(&self, id: u32, record: &TraceRecord) -> Option<Entity> {
        match self.lives.get(&id) {
            Some(life) => Some(Entity {
                id,
                generation: life.generation,
            }),
            None => record
                .despawned
                .iter()
                .rev()
                .find(|entity| entity.id == id)
                .copied(),
        }
    }

    /// Derives the schema and codes the extra fields.
    pub(crate) fn finish(mut self) -> Result<Converted, TraceFault> {
        if self.samples.is_empty() {
            return Err(TraceFault::NoRecords);
        }
        let (schema, places) = self.facts.schema(&self.header)?;
        for sample in &mut self.samples {
            sample.extras.retain_mut(|extra| {
                let Some(place) = places.get(extra.field).copied().flatten() else {
                    return false;
                };
                extra.field = place.field;
                if extra.value == UNKNOWN {
                    extra.value = place.null;
                }
                true
            });
        }
        let survivors = self
            .lives
            .iter()
            .map(|(id, life)| Entity {
                id: *id,
                generation: life.generation,
            })
            .collect();
        Ok(Converted {
            schema,
            samples: self.samples,
            events: self.events,
            survivors,
            generation_max: self.generation_max,
        })
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
pub(crate) mod tests {
    use super::*;
    use crate::trace::header::tests::{FULL, header_line, packed};
    use crate::trace::reader::TraceReader;
    use crate::trace::world::{TraceOptions, TraceWorld};

    /// These lines as a world.
    pub(crate) fn world(lines: &[String], gap_limit: Option<f64>) -> TraceWorld {
        let reader = TraceReader::from_stream("memory", packed(lines)).unwrap();
        TraceWorld::read(reader, &TraceOptions { gap_limit }).unwrap()
    }

    fn record(t: u32, time: f64, spawn: &str, despawn: &str, obs: &str, event: &str) -> String {
        format!(
            r#"{{"t":{t},"time":{time},"spawn":[{spawn}],"despawn":[{despawn}],"obs":[{obs}],"event":[{event}]}}"#
        )
    }

    pub(crate) fn entity(id: u32, generation: u32) -> Entity {
        Entity { id, generation }
    }

    /// One of everything: two kinds, one id used again, health that comes and goes, events of all sorts.
    pub(crate) fn small(family: &str) -> Vec<String> {
        let car = r#"{"id":1,"gen":0,"kind":"car"}"#;
        let crate_ = r#"{"id":2,"gen":4,"kind":"crate"}"#;
        let long = format!(r#"{{"kind":"long","text":"{}"}}"#, "x".repeat(300));
        vec![
            header_line(FULL).replace("simulation", family),
            record(
                0,
                0.0,
                &format!("{car},{crate_}"),
                "",
                "[1,0,0,1,2,3,0,0,0,1,10.5,-20,0,100,1,2,3,1]",
                r#"{"kind":"kill","id":1,"by":2},{"kind":"sound","id":9,"n":1},{"kind":"clock"}"#,
            ),
            record(1, 0.05, "", "", "[1,0,0,1,2,3,0,0,0,1,0,0,0,100,1,2,3,0]", &long),
            record(2, 9.0500004, "", "", "[1,0,1,1,2,3,0,0,0,1,0,0,0,-1,1,2,3,0]", ""),
            record(
                3,
                9.1,
                r#"{"id":1,"gen":1,"kind":"car"}"#,
                r#"{"id":1,"gen":0},{"id":2,"gen":4}"#,
                "[1,1,0,1,2,3,0,0,0,1,0,0,0,null,1,2,3,0]",
                r#"{"kind":"death","id":1},{"kind":"hit","id":2}"#,
            ),
        ]
    }

    #[test]
    fn records_become_samples_and_a_schema() {
        let world = world(&small("other"), None);
        let [first, second, third, fourth] = world.samples() else {
            panic!("four samples")
        };
        assert_eq!(
            [second.server_us, third.server_us, fourth.server_us],
            [50_000, 9_050_000, 9_100_000]
        );
        assert_eq!(
            (first.spawned[1].entity, first.spawned[1].class),
            (entity(2, 4), 1)
        );
        assert_eq!((fourth.spawned[0].class, fourth.spawned[0].at_us), (0, 9_100_000));
        let seen = &first.observed[0];
        assert_eq!(
            (seen.velocity, seen.angular, seen.at_rest),
            ([10.5, -20.0, 0.0], [1.0, 2.0, 3.0], true)
        );
        assert_eq!(
            (third.observed[0].segment, third.observed[0].observed_us),
            (1, 9_050_000)
        );
        let extra = |entity, value| ExtraSample {
            entity,
            field: 0,
            value,
        };
        // Health is -1 to 100 or null: 8 bits, and -128 is null.
        assert_eq!(
            first.extras,
            [extra(entity(1, 0), 100), extra(entity(2, 4), -128)]
        );
        assert_eq!(second.extras, []);
        assert_eq!(third.extras, [extra(entity(1, 0), -1)]);
        assert_eq!(fourth.extras, [extra(entity(1, 1), -128)]);

        let schema = world.schema();
        schema.check().unwrap();
        assert_eq!(
            (schema.tick_period_us, schema.on_change, schema.rotation_bits),
            (50_000, false, 11)
        );
        assert_eq!(
            (
                schema.extras[0].name.as_str(),
                schema.extras[0].bits,
                schema.extras[0].signed
            ),
            ("health", 8, true)
        );
        assert_eq!(schema.extras.len(), 1);
        assert_eq!(
            (schema.velocity.unwrap().bound, schema.angular.unwrap().bound),
            (22.0, 4.0)
        );
        assert_eq!(
            (schema.position[0].min, schema.position[0].max),
            (-100.0 - 1.0 / 512.0, 100.0 + 1.0 / 512.0)
        );
        let classes: Vec<_> = schema
            .classes
            .iter()
            .map(|class| (&class.name[..], class.query_critical))
            .collect();
        assert_eq!(classes, [("car", true), ("crate", false)]);
    }

    /// SPEC CTL3: kinds that may never be late are critical. CTL2: an event names an entity only if there is one.
    #[test]
    fn ctl3_events_keep_their_kind_entity_and_payload() {
        let world = world(&small("other"), None);
        assert_eq!(
            world.event_kinds(),
            ["kill", "sound", "clock", "long", "death", "hit"]
        );
        let [kill, sound, clock] = &world.samples()[0].events[..] else {
            panic!("three events")
        };
        assert_eq!(
            (kill.kind, kill.critical, kill.entity),
            (0, true, Some(entity(1, 0)))
        );
        assert_eq!(kill.payload, br#"{"by":2}"#);
        assert_eq!((sound.critical, sound.entity), (false, None), "id 9 never lived");
        assert_eq!(sound.payload, br#"{"id":9,"n":1}"#);
        assert_eq!((clock.entity, &clock.payload[..]), (None, &[][..]));
        let long = &world.samples()[1].events[0];
        assert_eq!((long.payload.len(), world.oversized_payloads()), (0, 1));
        let [death, hit] = &world.samples()[3].events[..] else {
            panic!("two events")
        };
        assert_eq!(
            death.entity,
            Some(entity(1, 1)),
            "the generation alive after the record"
        );
        assert_eq!(hit.entity, Some(entity(2, 4)), "despawned in this record");
    }

    #[test]
    fn recorder_gaps_are_shortened_by_family_or_by_option() {
        let times = |family, gap_limit| {
            let world = world(&small(family), gap_limit);
            let observed: Vec<u64> = world
                .samples()
                .iter()
                .flat_map(|sample| &sample.observed)
                .map(|row| row.observed_us)
                .collect();
            assert_eq!(
                observed,
                world
                    .samples()
                    .iter()
                    .map(|sample| sample.server_us)
                    .collect::<Vec<_>>()
            );
            observed
        };
        assert_eq!(times("rocket-league", None), [0, 50_000, 300_000, 350_000]);
        assert_eq!(
            times("rocket-league", Some(f64::INFINITY)),
            [0, 50_000, 9_050_000, 9_100_000]
        );
        assert_eq!(times("quakeworld-mvd", None), [0, 50_000, 9_050_000, 9_100_000]);
        assert_eq!(times("quakeworld-mvd", Some(0.04)), [0, 40_000, 80_000, 120_000]);
        assert!(world(&small("quakeworld-mvd"), None).schema().on_change);
        assert!(world(&small("hl2dm-sourcetv"), None).schema().on_change);
        assert!(!world(&small("rocket-league"), None).schema().on_change);
    }

    #[test]
    fn a_stream_without_velocity_has_none_in_its_schema() {
        let fields = "px py pz qx qy qz qw vx vy vz health";
        let spawn = r#"{"id":1,"gen":0,"kind":"player"}"#;
        let lines = [
            header_line(fields),
            record(0, 0.0, spawn, "", "[1,0,0,1,2,3,0,0,0,1,null,null,null,null]", ""),
        ];
        let world = world(&lines, None);
        assert_eq!((world.schema().velocity, world.schema().angular), (None, None));
        assert_eq!(world.samples()[0].observed[0].velocity, [0.0; 3]);
        assert_eq!(world.schema().extras, []);
        assert_eq!(world.samples()[0].extras, []);
        assert_eq!(
            world.schema().tick_period_us,
            50_000,
            "one record: the header's rate"
        );
    }

    #[test]
    fn worlds_no_schema_holds_are_refused() {
        let header = header_line(FULL);
        let refuse = |lines: &[String], part: &str| {
            let reader = TraceReader::from_stream("memory", packed(lines)).unwrap();
            let error = TraceWorld::read(reader, &TraceOptions::default())
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{error}");
        };
        refuse(
            std::slice::from_ref(&header),
            "memory: there is a header but no record",
        );
        let empty = record(0, 0.0, "", "", "", "");
        refuse(&[header.clone(), empty.clone()], "0 classes");
        refuse(
            &[
                header.replace("\"test\"", &format!("\"{}\"", "x".repeat(40))),
                empty,
            ],
            "name has 40 bytes",
        );
        let kind = |n: u32| format!(r#"{{"id":{n},"gen":0,"kind":"k{n}"}}"#);
        let kinds = (0..256).map(kind).collect::<Vec<_>>().join(",");
        refuse(
            &[header, record(0, 0.0, &kinds, "", "", "")],
            "memory, line 2: more than 255 kinds of entity",
        );
    }
}
