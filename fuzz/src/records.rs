//! Schemas, records and motions made from a tape; all of them legal.

use ackline::delta::decode::{self, Change, DecodeError, Entry};
use ackline::delta::encode;
use ackline::delta::layout::Layout;
use ackline::limits::{EXTRA_FIELDS_MAX, TIER_MAX};
use ackline::state::coding::{Coding, Lengths};
use ackline::state::entity::{Departure, Entity};
use ackline::state::record::{Motion, Record};
use ackline::state::rotation::{Rotation, highest_part};
use ackline::state::schema::{Axis, Class, ExtraField, RATE_HIGHEST, Rate, Schema};
use ackline::state::slots::Slot;
use ackline::wire::bits::BitWriter;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::tape::Tape;

/// Records by slot.
pub type Table = BTreeMap<Slot, Record>;

fn axis(tape: &mut Tape<'_>) -> Axis {
    let step = [0.01, 1.0, 1.0 / 512.0, 250.0][tape.below(4) as usize];
    let highest = match tape.below(5) {
        0 => 20_000,
        1 => u32::MAX,
        2 => 1 + tape.below(4),
        3 => 1 + u32::from(tape.u16()),
        _ => 1 + (tape.u32() >> tape.below(31)) / 2,
    };
    let min = if highest == u32::MAX {
        0.0
    } else {
        -f64::from(highest / 2) * step
    };
    Axis::new(min, min + f64::from(highest) * step, step).unwrap_or(Axis {
        min: 0.0,
        max: 200.0,
        step: 0.01,
    })
}

fn rate(tape: &mut Tape<'_>, step: f64) -> Rate {
    let highest = match tape.below(4) {
        0 => 2500,
        1 => RATE_HIGHEST,
        _ => 1 + ((tape.u32() % RATE_HIGHEST) >> tape.below(17)),
    };
    Rate::new(f64::from(highest) * step, step).unwrap()
}

/// A schema that passes its check.
pub fn schema(tape: &mut Tape<'_>) -> Schema {
    let position = [axis(tape), axis(tape), axis(tape)];
    let finest = position
        .iter()
        .map(|axis| axis.step)
        .fold(f64::INFINITY, f64::min);
    let ratio = [2.0, 243.9, 0.0625][tape.below(3) as usize];
    let class = |query_critical| Class {
        name: "thing".into(),
        query_critical,
    };
    let schema = Schema {
        name: "fuzz".into(),
        version: u16::from(tape.u8()),
        tick_period_us: [50_000, 16_667, 1_000, 10_000_000, 50_001][tape.below(5) as usize],
        on_change: tape.one_in(2),
        position,
        rotation_bits: 2 + (tape.below(14) as u8 + 7) % 14,
        velocity: (!tape.one_in(4)).then(|| rate(tape, finest * ratio)),
        angular: tape.one_in(3).then(|| rate(tape, 0.01)),
        extras: (0..tape.below(EXTRA_FIELDS_MAX as u32 + 1))
            .map(|i| ExtraField {
                name: format!("f{i}"),
                bits: 1 + tape.below(32) as u8,
                signed: tape.one_in(2),
            })
            .collect(),
        classes: vec![class(true); 1 + tape.below(3) as usize],
        coding: match tape.below(3) {
            0 => Coding::Plain,
            1 => Coding::Standard,
            _ => Coding::Own(Arc::new(Lengths::flat())),
        },
    };
    schema.check().expect("records::schema makes legal schemas");
    schema
}

/// A motion of the schema not before `near`, often much like it.
pub fn motion(tape: &mut Tape<'_>, schema: &Schema, near: Option<&Motion>, server_us: u64) -> Motion {
    let mut motion = near.copied().unwrap_or(Motion {
        observed_us: 0,
        position: schema.position.map(|axis| axis.highest() / 2),
        rotation: Rotation::identity(schema.rotation_bits),
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: false,
    });
    let earliest = motion.observed_us;
    motion.observed_us = tape.time(server_us, schema.tick_period_us).max(earliest);
    let parts = tape.u8();
    if parts & 1 == 0 {
        for (q, axis) in motion.position.iter_mut().zip(&schema.position) {
            *q = tape.value(*q, axis.highest());
        }
    }
    if parts & 2 != 0 {
        if parts & 4 != 0 {
            motion.rotation.largest = tape.below(4) as u8;
        }
        for part in &mut motion.rotation.parts {
            *part = tape.value(u32::from(*part), u32::from(highest_part(schema.rotation_bits))) as u16;
        }
    }
    let rates = [
        (&schema.velocity, &mut motion.velocity, 8),
        (&schema.angular, &mut motion.angular, 16),
    ];
    for (rate, values, bit) in rates {
        if let (Some(rate), true) = (rate, parts & bit != 0) {
            values
                .iter_mut()
                .for_each(|v| *v = tape.signed(*v, rate.highest()));
        }
    }
    motion.at_rest ^= parts & 32 != 0;
    motion
}

fn extras(tape: &mut Tape<'_>, schema: &Schema, values: &mut [u32; EXTRA_FIELDS_MAX]) {
    let mask = tape.u8();
    for (i, (value, field)) in values.iter_mut().zip(&schema.extras).enumerate() {
        if mask >> i & 1 == 1 {
            *value = tape.value(*value, field.mask() as u32);
        }
    }
}

/// A record of the schema with no time after `server_us`.
pub fn record(tape: &mut Tape<'_>, schema: &Schema, server_us: u64) -> Record {
    let entity = Entity {
        id: tape.value(0, u32::MAX),
        generation: tape.value(0, u32::MAX),
    };
    let class = tape.below(schema.classes.len() as u32) as u8;
    let mut record = Record::born(entity, class, tape.time(server_us, schema.tick_period_us));
    record.tier = tape.below(u32::from(TIER_MAX) + 1) as u8;
    record.segment = tape.value(0, u32::MAX);
    if tape.one_in(2) {
        record.segment_us = tape.time(server_us, schema.tick_period_us);
    }
    record.motion = (!tape.one_in(4)).then(|| motion(tape, schema, None, server_us));
    extras(tape, schema, &mut record.extras);
    record
}

/// What `base` may have become by the frame at `server_us`, which is not before the base's.
pub fn successor(tape: &mut Tape<'_>, schema: &Schema, base: &Record, server_us: u64) -> Record {
    let mut now = *base;
    let (generation, segment) = (base.entity.generation.checked_add(1), base.segment.checked_add(1));
    match (tape.below(8), generation, segment) {
        (1, Some(generation), _) => {
            now = record(tape, schema, server_us);
            now.entity = Entity {
                generation,
                ..base.entity
            };
        }
        (2, _, Some(segment)) => {
            (now.segment, now.segment_us) = (segment, tape.time(server_us, schema.tick_period_us));
            now.motion = (!tape.one_in(3)).then(|| motion(tape, schema, None, server_us));
        }
        (3, ..) => {}
        (4, ..) => now.tier = tape.below(u32::from(TIER_MAX) + 1) as u8,
        _ => now.motion = Some(motion(tape, schema, base.motion.as_ref(), server_us)),
    }
    if tape.one_in(3) {
        extras(tape, schema, &mut now.extras);
    }
    now
}

/// Entries that are legal against a table, in rising order of slot.
pub fn entries(tape: &mut Tape<'_>, schema: &Schema, table: &Table, server_us: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut slot = 0u32;
    for _ in 0..tape.below(6) {
        slot += match tape.below(6) {
            0..=2 => 0,
            3 => tape.below(4),
            4 => tape.below(80),
            _ => tape.below(3000),
        };
        let Ok(place) = Slot::try_from(slot) else { break };
        if usize::from(place) >= ackline::limits::SLOTS_MAX {
            break;
        }
        let change = match (tape.below(8), table.get(&place)) {
            (6, Some(_)) => removal(tape, schema, server_us),
            (7, Some(_)) => Change::Awake,
            (5, Some(base)) => Change::Complete(successor(tape, schema, base, server_us)),
            (_, Some(base)) => Change::Update(successor(tape, schema, base, server_us)),
            (_, None) => Change::Complete(record(tape, schema, server_us)),
        };
        entries.push(Entry { slot: place, change });
        slot += 1;
    }
    entries
}

fn removal(tape: &mut Tape<'_>, schema: &Schema, server_us: u64) -> Change {
    match tape.below(3) {
        0 => Change::Removed {
            departure: Departure::Destroyed,
            at_us: tape.time(server_us, schema.tick_period_us),
            reason: tape.u8(),
        },
        1 => Change::Removed {
            departure: Departure::LeftView,
            at_us: server_us,
            reason: 0,
        },
        _ => Change::Removed {
            departure: Departure::Hidden,
            at_us: server_us,
            reason: 0,
        },
    }
}

/// Encodes entries against a table: the inverse of [`decode`].
pub fn encode(layout: &Layout, table: &Table, entries: &[Entry], server_us: u64) -> Vec<u8> {
    let mut buffer = vec![0xA5; entries.len() * 128 + 16];
    let mut writer = BitWriter::new(&mut buffer);
    let mut previous = None;
    for Entry { slot, change } in entries {
        encode::Gaps::new(layout).put(previous, *slot, &mut writer);
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
pub fn decode(
    layout: &Layout,
    table: &Table,
    bytes: &[u8],
    count: usize,
    server_us: u64,
) -> Result<Vec<Entry>, DecodeError> {
    let mut out = Vec::new();
    let result = decode::body(layout, bytes, count, server_us, |slot| table.get(&slot), &mut out);
    assert!(
        result.is_ok() || out.is_empty(),
        "an error leaves nothing behind (TAB2)"
    );
    result.map(|()| out)
}

/// A table with entries applied.
pub fn apply(table: &mut Table, entries: &[Entry]) {
    for Entry { slot, change } in entries {
        match change {
            Change::Update(record) | Change::Complete(record) => {
                table.insert(*slot, *record);
            }
            Change::Removed { .. } => {
                table.remove(slot);
            }
            Change::Awake => {}
        }
    }
}

/// True when every value of a record is one its schema can produce (TAB2, THREATS 35).
pub fn is_within(record: &Record, schema: &Schema) -> bool {
    let extras = record.extras.iter().enumerate();
    usize::from(record.class) < schema.classes.len()
        && record.motion.is_none_or(|motion| motion.check(schema).is_ok())
        && extras
            .map(|(i, value)| {
                (
                    u64::from(*value),
                    schema.extras.get(i).map_or(0, ExtraField::mask),
                )
            })
            .all(|(value, mask)| value <= mask)
}

/// Panics unless [`is_within`].
pub fn assert_within(record: &Record, schema: &Schema) {
    assert!(is_within(record, schema), "outside its schema: {record:?}");
}
