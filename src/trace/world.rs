//! A whole recording in memory, ready to be published once or for ever.
//!
//! > [`TraceWorld::load`] reads a file; [`TraceWorld::play`] gives its samples in order, going round when
//! > asked to; [`TraceWorld::sample_into`] gives any one of them without allocating in steady state.
//!
//! Times are microseconds since the first record. An observation's time is its record's, since that is all
//! these recordings have. Gaps the recorder left are shortened for all times alike.
//!
//! Going round: pass `p` plays the same samples `p` times the span later, where the span ends one tick period
//! after the last record. At the start of each later pass every entity that was alive at the end is despawned.
//! In pass `p` all generations are raised by `p` times (the trace's highest generation + 1), so they rise for
//! each id from pass to pass, as identities must (SPEC ID2).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::conversion::Conversion;
use super::error::TraceError;
use super::events::Events;
use super::header::TraceHeader;
use super::reader::TraceReader;
use crate::state::entity::Entity;
use crate::state::sample::WorldSample;
use crate::state::schema::Schema;
use crate::state::update::Despawn;
use std::path::Path;

/// How a recording is played.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceOptions {
    /// Seconds that longer intervals between records are shortened to; `f64::INFINITY` keeps all. `None`
    /// takes the family's: 0.25 s for Rocket League, whose recorder cuts out goal replays, no limit elsewhere.
    pub gap_limit: Option<f64>,
}

/// A recording and the schema it fits.
#[derive(Clone, Debug)]
pub struct TraceWorld {
    header: TraceHeader,
    schema: Schema,
    samples: Vec<WorldSample>,
    events: Events,
    survivors: Vec<Entity>,
    generation_stride: u32,
}

impl TraceWorld {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The file is refused (see [`TraceFault`](super::error::TraceFault)), or no schema can hold it.
    pub fn load(path: impl AsRef<Path>, options: &TraceOptions) -> Result<TraceWorld, TraceError> {
        TraceWorld::read(TraceReader::open(path)?, options)
    }

    /// Reads all that a reader has left.
    ///
    /// # Errors
    /// As for [`TraceWorld::load`].
    pub fn read(mut reader: TraceReader, options: &TraceOptions) -> Result<TraceWorld, TraceError> {
        let header = reader.header().clone();
        let mut conversion = Conversion::new(header.clone(), options.gap_limit);
        while let Some(record) = reader.next() {
            let record = record?;
            conversion
                .take(&record)
                .map_err(|fault| fault.at(reader.file(), record.line))?;
        }
        let converted = conversion.finish().map_err(|fault| fault.at(reader.file(), 0))?;
        Ok(TraceWorld {
            header,
            schema: converted.schema,
            samples: converted.samples,
            events: converted.events,
            survivors: converted.survivors,
            generation_stride: converted.generation_max.saturating_add(1),
        })
    }

    /// The file's header.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The schema all samples fit: bounds from the header and from what was seen.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The samples of the first pass, one a record; never empty.
    #[must_use]
    pub fn samples(&self) -> &[WorldSample] {
        &self.samples
    }

    /// Names of the events' kinds, by their number.
    #[must_use]
    pub fn event_kinds(&self) -> &[String] {
        &self.events.kinds
    }

    /// Entities alive after the last record, by id.
    #[must_use]
    pub fn survivors(&self) -> &[Entity] {
        &self.survivors
    }

    /// Events whose payload was above the bound and left out; the events themselves are there.
    #[must_use]
    pub fn oversized_payloads(&self) -> u64 {
        self.events.oversized_payloads
    }

    /// Microseconds from the start of one pass to the start of the next: to the last record and one tick more.
    #[must_use]
    pub fn span_us(&self) -> u64 {
        let last_us = self.samples.last().map_or(0, |sample| sample.server_us);
        last_us + u64::from(self.schema.tick_period_us)
    }

    /// Writes the sample of record `index` in pass `pass` into `out`, replacing what was there. False, and
    /// `out` untouched, when there is no such record.
    pub fn sample_into(&self, index: usize, pass: u32, out: &mut WorldSample) -> bool {
        let Some(sample) = self.samples.get(index) else {
            return false;
        };
        let shift_us = self.span_us().saturating_mul(u64::from(pass));
        let raise = self.generation_stride.saturating_mul(pass);
        let raised = |entity: Entity| Entity {
            generation: entity.generation.saturating_add(raise),
            ..entity
        };
        out.server_us = sample.server_us.saturating_add(shift_us);
        out.despawned.clear();
        if index == 0 && pass > 0 {
            let lowered = raise - self.generation_stride.min(raise);
            let old = |entity: &Entity| Entity {
                generation: entity.generation.saturating_add(lowered),
                ..*entity
            };
            let at_us = out.server_us;
            out.despawned.extend(self.survivors.iter().map(|entity| Despawn {
                entity: old(entity),
                at_us,
                reason: 0,
            }));
        }
        out.despawned.extend_from_slice(&sample.despawned);
        out.spawned.clone_from(&sample.spawned);
        out.observed.clone_from(&sample.observed);
        out.extras.clone_from(&sample.extras);
        out.tags.clone_from(&sample.tags);
        out.events.clone_from(&sample.events);
        if pass == 0 {
            return true;
        }
        let inherited = out.despawned.len() - sample.despawned.len();
        for despawn in out.despawned.iter_mut().skip(inherited) {
            despawn.entity = raised(despawn.entity);
            despawn.at_us = despawn.at_us.saturating_add(shift_us);
        }
        for spawn in &mut out.spawned {
            spawn.entity = raised(spawn.entity);
            spawn.at_us = spawn.at_us.saturating_add(shift_us);
        }
        for observed in &mut out.observed {
            observed.entity = raised(observed.entity);
            observed.observed_us = observed.observed_us.saturating_add(shift_us);
        }
        for extra in &mut out.extras {
            extra.entity = raised(extra.entity);
        }
        for tagged in &mut out.tags {
            tagged.entity = raised(tagged.entity);
        }
        for event in &mut out.events {
            event.entity = event.entity.map(raised);
            event.at_us = event.at_us.saturating_add(shift_us);
        }
        true
    }

    /// The sample of record `index` in pass `pass`.
    #[must_use]
    pub fn sample(&self, index: usize, pass: u32) -> Option<WorldSample> {
        let mut out = WorldSample::default();
        self.sample_into(index, pass, &mut out).then_some(out)
    }

    /// The samples in order: one pass, or endlessly many.
    #[must_use]
    pub fn play(&self, endless: bool) -> Play<'_> {
        Play {
            world: self,
            index: 0,
            pass: 0,
            endless,
        }
    }
}

/// Gives the samples of a [`TraceWorld`] in order.
#[derive(Clone, Debug)]
pub struct Play<'a> {
    world: &'a TraceWorld,
    index: usize,
    pass: u32,
    endless: bool,
}

impl Iterator for Play<'_> {
    type Item = WorldSample;

    fn next(&mut self) -> Option<WorldSample> {
        if self.index == self.world.samples.len() && self.endless {
            self.index = 0;
            self.pass = self.pass.checked_add(1)?;
        }
        let sample = self.world.sample(self.index, self.pass)?;
        self.index += 1;
        Some(sample)
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
    use crate::trace::conversion::tests::{entity, small, world};
    use crate::trace::header::tests::{own_trace, shared_trace};
    use std::collections::HashMap;

    /// Applies samples as a strict origin would: every identity must be right, every value within the schema.
    fn apply(world: &TraceWorld, samples: impl Iterator<Item = WorldSample>) -> usize {
        let schema = world.schema();
        let mut alive: HashMap<u32, u32> = HashMap::new();
        let mut newest: HashMap<u32, u32> = HashMap::new();
        let mut last_us = None;
        let mut count = 0;
        for sample in samples {
            assert!(last_us <= Some(sample.server_us));
            last_us = Some(sample.server_us);
            for despawn in &sample.despawned {
                assert_eq!(alive.remove(&despawn.entity.id), Some(despawn.entity.generation));
                assert_eq!(despawn.at_us, sample.server_us);
            }
            for spawn in &sample.spawned {
                let Entity { id, generation } = spawn.entity;
                assert_eq!(alive.insert(id, generation), None);
                assert!(
                    newest.insert(id, generation) < Some(generation),
                    "generations rise"
                );
                assert!(usize::from(spawn.class) < schema.classes.len());
                assert_eq!(spawn.at_us, sample.server_us);
            }
            for row in &sample.observed {
                assert_eq!(alive.get(&row.entity.id), Some(&row.entity.generation));
                assert_eq!(row.observed_us, sample.server_us);
                for (axis, metres) in schema.position.iter().zip(row.position) {
                    axis.quantise("position", metres).unwrap();
                }
                for (rate, values) in [(schema.velocity, row.velocity), (schema.angular, row.angular)] {
                    let Some(rate) = rate else {
                        assert_eq!(values, [0.0; 3]);
                        continue;
                    };
                    assert!(values.iter().all(|value| rate.quantise("rate", *value).is_ok()));
                }
            }
            for extra in &sample.extras {
                assert_eq!(alive.get(&extra.entity.id), Some(&extra.entity.generation));
                schema.extras[extra.field].pattern(extra.value).unwrap();
            }
            for event in &sample.events {
                let despawned = |entity: Entity| sample.despawned.iter().any(|gone| gone.entity == entity);
                let known = |entity: Entity| alive.get(&entity.id) == Some(&entity.generation);
                assert!(
                    event
                        .entity
                        .is_none_or(|entity| known(entity) || despawned(entity))
                );
                assert!(event.payload.len() <= crate::limits::EVENT_BYTES_MAX);
                assert_eq!(event.at_us, sample.server_us);
            }
            count += 1;
        }
        count
    }

    /// SPEC ID2: however often a recording goes round, generations rise and nothing old is touched.
    #[test]
    fn id2_a_recording_goes_round_with_higher_generations() {
        let world = world(&small("other"), None);
        assert_eq!(world.survivors(), [entity(1, 1)]);
        assert_eq!(world.span_us(), 9_150_000);
        let second = world.sample(0, 1).unwrap();
        assert_eq!(second.server_us, 9_150_000);
        assert_eq!(
            second
                .despawned
                .iter()
                .map(|gone| gone.entity)
                .collect::<Vec<_>>(),
            [entity(1, 1)]
        );
        assert_eq!(
            (second.spawned[0].entity, second.spawned[1].entity),
            (entity(1, 5), entity(2, 9))
        );
        let third = world.sample(0, 2).unwrap();
        assert_eq!(third.despawned[0].entity, entity(1, 6));
        assert_eq!(world.sample(3, 2).unwrap().despawned[1].entity, entity(2, 14));
        assert_eq!(world.sample(4, 0), None);
        assert_eq!(world.play(false).collect::<Vec<_>>(), world.samples());
        assert_eq!(apply(&world, world.play(true).take(41)), 41);
    }

    #[test]
    fn own_recordings_are_sound_for_three_passes() {
        for (name, velocity, health) in [("qw_4on4_dm2_600", false, true), ("rl_2016_3v3_800", true, false)] {
            let Some(path) = own_trace(name) else { continue };
            let world = TraceWorld::load(path, &TraceOptions::default()).unwrap();
            let schema = world.schema();
            assert_eq!(
                (schema.velocity.is_some(), !schema.extras.is_empty()),
                (velocity, health),
                "{name}"
            );
            let records = world.samples().len();
            assert_eq!(apply(&world, world.play(true).take(records * 3)), records * 3);
        }
    }

    #[test]
    fn full_recordings_are_sound_for_two_passes() {
        for (name, period_us, on_change) in [
            ("rl_2016_3v3", 48_400, false),
            ("rl_2018_2v2_rec60", 21_300, false),
            ("rl_2025_3v3_demolitions", 45_900, false),
            ("qw_4on4_dm2", 34_000, true),
            ("hl2dm_1v1_airfusion", 60_000, true),
            ("cubes901", 16_667, true),
        ] {
            let Some(path) = shared_trace(name) else { continue };
            let world = TraceWorld::load(path, &TraceOptions::default()).unwrap();
            let schema = world.schema();
            println!("{name}: {schema:?}");
            assert_eq!(schema.on_change, on_change, "{name}");
            assert!(
                schema.tick_period_us.abs_diff(period_us) <= 50,
                "{name}: {}",
                schema.tick_period_us
            );
            assert_eq!(schema.rotation_bits, if name == "cubes901" { 9 } else { 11 });
            assert_eq!(world.oversized_payloads(), 0);
            let pairs = world.samples().iter().zip(&world.samples()[1..]);
            let longest_us = pairs
                .map(|(from, to)| to.server_us - from.server_us)
                .max()
                .unwrap();
            assert!(longest_us <= 250_000, "{name}: {longest_us}");
            let records = world.samples().len();
            assert_eq!(apply(&world, world.play(true).take(records * 2)), records * 2);
        }
    }
}
