//! What the codec's tests share: a re-encoder, and random cases drawn from a tape of numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::delta::decode::{self, Change, DecodeError, Entry};
use crate::delta::encode;
use crate::delta::layout::Layout;
use crate::delta::tune::Census;
use crate::limits::{EXTRA_FIELDS_MAX, TIER_MAX};
use crate::state::coding::Coding;
use crate::state::entity::{Departure, Entity};
use crate::state::record::{Motion, Record};
use crate::state::rotation::{Rotation, highest_part};
use crate::state::schema::{Axis, Class, ExtraField, RATE_HIGHEST, Rate, Schema};
use crate::state::slots::Slot;
use crate::wire::bits::BitWriter;

pub(super) type Table = BTreeMap<Slot, Record>;

/// Encodes entries against a table: the inverse of [`decode`].
pub(super) fn encode(layout: &Layout, table: &Table, entries: &[Entry], server_us: u64) -> Vec<u8> {
    let mut buffer = vec![0xA5; entries.len() * 128 + 16];
    let mut writer = BitWriter::new(&mut buffer);
    let mut previous = None;
    for Entry { slot, change } in entries {
        let start = writer.bits();
        encode::Gaps::new(layout).put(previous, *slot, &mut writer);
        assert_eq!(
            writer.bits() - start,
            encode::Gaps::new(layout).bits(previous, *slot) as usize
        );
        assert!(writer.bits() - start <= encode::GAP_BITS_MAX as usize);
        let start = writer.bits();
        match change {
            Change::Update(now) => encode::entry(layout, table.get(slot), now, server_us, &mut writer),
            Change::Complete(now) => encode::complete(layout, now, server_us, &mut writer),
            Change::Removed {
                departure,
                at_us,
                reason,
            } => {
                encode::remove(layout, *departure, *at_us, *reason, server_us, &mut writer);
            }
            Change::Awake => encode::awake(layout, &mut writer),
        }
        assert!(writer.bits() - start <= encode::ENTRY_BITS_MAX as usize);
        previous = Some(*slot);
    }
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

/// Decodes a body against a table.
pub(super) fn decode(
    layout: &Layout,
    table: &Table,
    bytes: &[u8],
    count: usize,
    server_us: u64,
) -> Result<Vec<Entry>, DecodeError> {
    let mut out = vec![Entry {
        slot: 9,
        change: Change::Awake,
    }];
    let result = decode::body(layout, bytes, count, server_us, |slot| table.get(&slot), &mut out);
    assert!(result.is_ok() || out.is_empty(), "an error leaves nothing behind");
    result.map(|()| out)
}

/// The bytes of a list of fields (value, width).
pub(super) fn bits(fields: &[(u32, u32)]) -> Vec<u8> {
    let mut buffer = vec![0; 512];
    let mut writer = BitWriter::new(&mut buffer);
    fields
        .iter()
        .for_each(|(value, width)| writer.put(*value, *width));
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

/// A moving record of life 42#0, observed at one second.
pub(super) fn record(schema: &Schema) -> Record {
    let mut record = Record::born(
        Entity {
            id: 42,
            generation: 0,
        },
        0,
        500_000,
    );
    record.motion = Some(Motion {
        observed_us: 1_000_000,
        position: [10_000, 11_000, 100],
        rotation: Rotation::identity(schema.rotation_bits),
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: false,
    });
    record
}

/// Choices read off a tape; zero, the simplest, once it has run out.
pub(super) struct Dice<'a>(std::slice::Iter<'a, u32>);

impl Dice<'_> {
    pub(super) fn new(tape: &[u32]) -> Dice<'_> {
        Dice(tape.iter())
    }

    fn next(&mut self) -> u32 {
        self.0.next().copied().unwrap_or(0)
    }

    fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }

    /// Up to `highest`, often on an edge, often near `near`.
    fn value(&mut self, near: u32, highest: u32) -> u32 {
        let near = near.min(highest);
        match self.below(8) {
            0..=2 => near,
            3 => near.saturating_add(self.below(40)).min(highest),
            4 => near.saturating_sub(self.below(2000)),
            5 => highest - self.below(2).min(highest),
            6 => self.below(2).min(highest),
            _ => (u64::from(self.next()) % (u64::from(highest) + 1)) as u32,
        }
    }

    fn signed(&mut self, near: i32, highest: u32) -> i32 {
        let shifted = self.value((near + highest as i32) as u32, 2 * highest);
        shifted as i32 - highest as i32
    }

    /// A time at most `latest`, often a whole number of ticks before it.
    fn time(&mut self, latest: u64, tick_us: u32) -> u64 {
        let tick_us = u64::from(tick_us);
        let back = match self.below(8) {
            0 | 1 => 0,
            2 => u64::from(self.below(50)) * tick_us,
            3 => u64::from(self.below(50)) * tick_us + u64::from(self.below(3)),
            4 => u64::from(self.below(3000)) * tick_us + tick_us / 2 + u64::from(self.below(3)),
            5 => u64::from(self.next()),
            6 => u64::from(self.next()) << self.below(17),
            _ => latest,
        };
        latest.saturating_sub(back)
    }

    fn axis(&mut self) -> Axis {
        let step = [0.01, 1.0, 1.0 / 512.0, 250.0][self.below(4) as usize];
        let highest = match self.below(5) {
            0 => 20_000,
            1 => u32::MAX,
            2 => 1 + self.below(4),
            _ => 1 + (self.next() >> self.below(31)) / 2,
        };
        let min = if highest == u32::MAX {
            0.0
        } else {
            -f64::from(highest / 2) * step
        };
        let max = min + f64::from(highest) * step;
        Axis::new(min, max, step).unwrap_or(Axis {
            min: 0.0,
            max: 200.0,
            step: 0.01,
        })
    }

    fn rate(&mut self, step: f64) -> Rate {
        let highest = match self.below(4) {
            0 => 2500,
            1 => RATE_HIGHEST,
            _ => 1 + (self.below(RATE_HIGHEST) >> self.below(17)),
        };
        Rate::new(f64::from(highest) * step, step).unwrap()
    }

    fn coding(&mut self) -> Coding {
        match self.below(3) {
            0 => Coding::Plain,
            1 => Coding::Standard,
            _ => {
                let seed = u64::from(self.next()) | 1;
                let mut state = seed;
                let census = Census::of(|| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    1 << (state % 20)
                });
                Coding::Own(Arc::new(census.lengths()))
            }
        }
    }

    pub(super) fn schema(&mut self) -> Schema {
        let position = [self.axis(), self.axis(), self.axis()];
        let finest = position
            .iter()
            .map(|axis| axis.step)
            .fold(f64::INFINITY, f64::min);
        let ratio = [2.0, 243.9, 0.0625][self.below(3) as usize];
        let schema = Schema {
            coding: self.coding(),
            name: "random".into(),
            version: 1,
            tick_period_us: [16_667, 1_000, 10_000_000, 50_001][self.below(4) as usize],
            on_change: false,
            position,
            rotation_bits: 2 + self.below(14) as u8,
            velocity: (self.below(4) > 0).then(|| self.rate(finest * ratio)),
            angular: (self.below(4) > 1).then(|| self.rate(0.01)),
            extras: (0..self.below(EXTRA_FIELDS_MAX as u32 + 1))
                .map(|i| ExtraField {
                    name: format!("field {i}"),
                    bits: 1 + self.below(32) as u8,
                    signed: self.below(2) == 1,
                })
                .collect(),
            classes: vec![
                Class {
                    name: "thing".into(),
                    query_critical: false
                };
                1 + self.below(255) as usize
            ],
        };
        schema.check().unwrap();
        schema
    }

    /// A motion of the schema, not before `near`, often much like it.
    fn motion(&mut self, schema: &Schema, near: Option<&Motion>, server_us: u64) -> Motion {
        let mut motion = near.copied().unwrap_or(Motion {
            observed_us: 0,
            position: schema.position.map(|axis| axis.highest() / 2),
            rotation: Rotation::identity(schema.rotation_bits),
            velocity: [0; 3],
            angular: [0; 3],
            at_rest: false,
        });
        let earliest = motion.observed_us;
        motion.observed_us = self.time(server_us, schema.tick_period_us).max(earliest);
        if self.below(4) > 0 {
            for (q, axis) in motion.position.iter_mut().zip(&schema.position) {
                *q = self.value(*q, axis.highest());
            }
        }
        if self.below(2) > 0 {
            if self.below(4) == 0 {
                motion.rotation.largest = self.below(4) as u8;
            }
            for part in &mut motion.rotation.parts {
                *part = self.value(u32::from(*part), u32::from(highest_part(schema.rotation_bits))) as u16;
            }
        }
        for (rate, values) in [
            (&schema.velocity, &mut motion.velocity),
            (&schema.angular, &mut motion.angular),
        ] {
            if let Some(rate) = rate
                && self.below(2) > 0
            {
                values
                    .iter_mut()
                    .for_each(|v| *v = self.signed(*v, rate.highest()));
            }
        }
        if self.below(4) == 1 {
            motion.at_rest = !motion.at_rest;
        }
        motion
    }

    fn extras(&mut self, schema: &Schema, values: &mut [u32; EXTRA_FIELDS_MAX]) {
        for (value, field) in values.iter_mut().zip(&schema.extras) {
            if self.below(2) == 1 {
                *value = self.value(*value, field.mask() as u32);
            }
        }
    }

    pub(super) fn record(&mut self, schema: &Schema, server_us: u64) -> Record {
        let tick_us = schema.tick_period_us;
        let entity = Entity {
            id: self.value(0, u32::MAX),
            generation: self.value(0, u32::MAX),
        };
        let class = self.below(schema.classes.len() as u32) as u8;
        let mut record = Record::born(entity, class, self.time(server_us, tick_us));
        record.tier = self.below(u32::from(TIER_MAX) + 1) as u8;
        record.segment = self.value(0, u32::MAX);
        if self.below(2) == 1 {
            record.segment_us = self.time(server_us, tick_us);
        }
        record.motion = (self.below(4) != 1).then(|| self.motion(schema, None, server_us));
        self.extras(schema, &mut record.extras);
        record
    }

    /// What `base` may have become by the frame at `server_us`.
    pub(super) fn successor(&mut self, schema: &Schema, base: &Record, server_us: u64) -> Record {
        let mut now = *base;
        let (generation, segment) = (base.entity.generation.checked_add(1), base.segment.checked_add(1));
        match (self.below(8), generation, segment) {
            (1, Some(generation), _) => {
                now = self.record(schema, server_us);
                now.entity = Entity {
                    generation,
                    ..base.entity
                };
            }
            (2, _, Some(segment)) => {
                now.segment = segment;
                now.segment_us = self.time(server_us, schema.tick_period_us);
                now.motion = (self.below(3) > 0).then(|| self.motion(schema, None, server_us));
            }
            (3, ..) => {}
            (4, ..) => now.tier = self.below(u32::from(TIER_MAX) + 1) as u8,
            _ => now.motion = Some(self.motion(schema, base.motion.as_ref(), server_us)),
        }
        if self.below(3) == 0 {
            self.extras(schema, &mut now.extras);
        }
        now
    }

    /// A random schema, frame time, baseline and entries that are legal against it. An `Update` here says only
    /// that the encoder is asked for an entry.
    pub(super) fn case(&mut self) -> Case {
        let schema = self.schema();
        let server_us = match self.below(4) {
            0 => 10_000_000,
            1 => u64::from(self.next()),
            2 => (1 << 48) - 1,
            _ => u64::from(self.next()) << 16,
        };
        let (mut table, mut entries) = (Table::new(), Vec::new());
        let mut slot = 0u32;
        for _ in 0..1 + self.below(4) {
            slot += [0, self.below(9), self.below(80), self.below(9000)][self.below(4) as usize];
            let Ok(place) = Slot::try_from(slot) else { break };
            if usize::from(place) >= crate::limits::SLOTS_MAX {
                break;
            }
            let earlier = self.time(server_us, schema.tick_period_us);
            let base = self.record(&schema, earlier);
            let member = self.below(4) != 1;
            let change = match self.below(8) {
                1 if member => self.removed(&schema, server_us),
                2 if member => Change::Awake,
                3 => Change::Complete(self.successor(&schema, &base, server_us)),
                _ if member => Change::Update(self.successor(&schema, &base, server_us)),
                _ => Change::Complete(self.record(&schema, server_us)),
            };
            if member {
                table.insert(place, base);
            }
            entries.push(Entry { slot: place, change });
            slot += 1;
        }
        let layout = Layout::new(&schema);
        Case {
            schema,
            layout,
            server_us,
            table,
            entries,
        }
    }

    fn removed(&mut self, schema: &Schema, server_us: u64) -> Change {
        match self.below(3) {
            0 => Change::Removed {
                departure: Departure::LeftView,
                at_us: server_us,
                reason: 0,
            },
            1 => Change::Removed {
                departure: Departure::Hidden,
                at_us: server_us,
                reason: 0,
            },
            _ => Change::Removed {
                departure: Departure::Destroyed,
                at_us: self.time(server_us, schema.tick_period_us),
                reason: self.below(256) as u8,
            },
        }
    }
}

/// A body's worth of random data.
pub(super) struct Case {
    pub(super) schema: Schema,
    pub(super) layout: Layout,
    pub(super) server_us: u64,
    pub(super) table: Table,
    pub(super) entries: Vec<Entry>,
}

impl Case {
    /// The body of the case's entries.
    pub(super) fn encode(&self) -> Vec<u8> {
        encode(&self.layout, &self.table, &self.entries, self.server_us)
    }

    /// What decoding has to give: an update against nothing, or against another life, segment or tier, is complete;
    /// and so is an unchanged record.
    pub(super) fn expected(&self) -> Vec<Entry> {
        let expect = |entry: &Entry| match entry.change {
            Change::Update(now) => {
                let base = self.table.get(&entry.slot).filter(|base| {
                    (base.entity, base.segment, base.segment_us) == (now.entity, now.segment, now.segment_us)
                        && base.tier == now.tier
                        && **base != now
                });
                Entry {
                    change: base.map_or(Change::Complete(now), |_| Change::Update(now)),
                    ..*entry
                }
            }
            _ => *entry,
        };
        self.entries.iter().map(expect).collect()
    }

    /// Decodes `bytes`; what decodes re-encodes to the same bytes. Says whether it decoded.
    pub(super) fn refused_or_canonical(&self, bytes: &[u8], count: usize) -> bool {
        match decode(&self.layout, &self.table, bytes, count, self.server_us) {
            Ok(entries) => {
                let again = encode(&self.layout, &self.table, &entries, self.server_us);
                assert_eq!(again, bytes, "{entries:?}");
                true
            }
            Err(_) => false,
        }
    }
}
