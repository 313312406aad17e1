//! Rules of the specification, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::support::{Table, decode, encode, record};
use crate::delta::decode::{Change, Entry};
use crate::delta::encode::{self, ENTRY_BITS_MAX};
use crate::delta::layout::Layout;
use crate::delta::schema;
use crate::limits::SCHEMA_BYTES_MAX;
use crate::state::coding::{Coding, Lengths};
use crate::state::entity::{Departure, Entity};
use crate::state::record::{Motion, Record};
use crate::state::rotation::Rotation;
use crate::state::schema::tests::full_schema;
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::slots::Slot;
use crate::wire::bits::BitWriter;

fn microseconds(seconds: &Value) -> u64 {
    (seconds.as_f64().unwrap() * 1e6).round() as u64
}

/// A table of the vector: slot 0 is A, slot 1 is B; one axis stands for all.
fn vector_table(schema: &Schema, value: &Value) -> Table {
    let record = |name: &str, id: u32| {
        let mut record = Record::born(Entity { id, generation: 0 }, 0, 0);
        record.motion = Some(Motion {
            observed_us: microseconds(&value[name]["obs_s"]),
            position: [value[name]["x"].as_u64().unwrap() as u32, 0, 0],
            rotation: Rotation::identity(schema.rotation_bits),
            velocity: [0; 3],
            angular: [0; 3],
            at_rest: false,
        });
        record
    };
    Table::from([(0, record("A", 1)), (1, record("B", 2))])
}

fn apply(table: &Table, entries: &[Entry]) -> Table {
    let mut table = table.clone();
    for entry in entries {
        if let Change::Update(now) | Change::Complete(now) = entry.change {
            table.insert(entry.slot, now);
        }
    }
    table
}

/// SPEC TAB1, TAB2, ID4 (vector delta_42_43_44): a delta decodes from the baseline it names alone; an entity
/// not in it keeps its observation time; an empty mask is a new observation.
#[test]
fn tab1_tab2_id4_delta_42_43_44() {
    let vector: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/delta_42_43_44.json")).unwrap();
    let mut schema = full_schema();
    (schema.velocity, schema.angular) = (None, None);
    let layout = Layout::new(&schema);
    let mut tables = BTreeMap::new();
    tables.insert(42, vector_table(&schema, &vector["baseline"]["table"]));
    let packets = vector["packets"].as_array().unwrap().iter();
    let mut bodies = BTreeMap::new();
    for packet in packets.chain([&vector["empty_mask"]["packet"]]) {
        let id = packet["id"].as_u64().unwrap();
        let base = &tables[&packet["baseline"].as_u64().unwrap()];
        let server_us = microseconds(&packet["sent_s"]);
        let mut entries = Vec::new();
        for (name, slot) in [("A", 0 as Slot), ("B", 1)] {
            let Some(delta) = packet["delta"].get(name) else {
                continue;
            };
            let mut now = base[&slot];
            let motion = now.motion.as_mut().unwrap();
            motion.observed_us = microseconds(&delta["obs_s"]);
            motion.position[0] += delta["dx"].as_u64().unwrap_or(0) as u32;
            entries.push(Entry {
                slot,
                change: Change::Update(now),
            });
        }
        let body = encode(&layout, base, &entries, server_us);
        let decoded = decode(&layout, base, &body, entries.len(), server_us).unwrap();
        let table = apply(base, &decoded);
        let expected = packet.get("table").unwrap_or(&vector["empty_mask"]["table"]);
        assert_eq!(table, vector_table(&schema, expected), "packet {id}");
        bodies.insert(id, (body, server_us));
        tables.insert(id, table);
    }
    assert_eq!(
        bodies[&45].0.len(),
        2,
        "an empty mask: gap 5, kind 1, age 1, mask 2"
    );
    let (body, server_us) = &bodies[&44];
    let wrong = decode(&layout, &tables[&43], body, 1, *server_us).unwrap();
    let wrong = apply(&tables[&43], &wrong)[&0].motion.unwrap().position[0];
    let packet = &vector["packets"][1];
    assert_eq!(
        u64::from(wrong),
        packet["wrong_if_applied_to_43"]["A"]["x"].as_u64().unwrap()
    );
}

/// SPEC TAB4: a new segment or generation comes complete, however small its distance.
#[test]
fn tab4_no_difference_crosses_a_segment_or_generation() {
    let mut schema = full_schema();
    schema.classes.push(schema.classes[0].clone());
    let layout = Layout::new(&schema);
    let base = record(&schema);
    let table = Table::from([(3, base)]);
    let changes: [fn(&mut Record); 10] = [
        |r| r.segment = 1,
        |r| r.segment_us = 700_000,
        |r| r.entity.generation = 1,
        |r| r.entity.id = 43,
        |r| r.class = 1,
        |r| r.tier = 1,
        |r| r.born_us = 600_000,
        |r| r.motion = None,
        |r| (r.motion, r.extras[0]) = (None, 1),
        |r| r.motion.as_mut().unwrap().observed_us = 999_999,
    ];
    for change in changes {
        let mut now = base;
        now.motion.as_mut().unwrap().position[0] += 1;
        change(&mut now);
        let body = encode(
            &layout,
            &table,
            &[Entry {
                slot: 3,
                change: Change::Update(now),
            }],
            1_050_000,
        );
        let entries = decode(&layout, &table, &body, 1, 1_050_000).unwrap();
        assert_eq!(
            entries,
            [Entry {
                slot: 3,
                change: Change::Complete(now)
            }]
        );
        // Complete means complete: it decodes against nothing.
        assert_eq!(
            decode(&layout, &Table::new(), &body, 1, 1_050_000).unwrap(),
            entries
        );
    }
}

/// SPEC ID5: extra fields that change alone leave the observation time alone; SPEC ENT9: and so does rest.
#[test]
fn id5_extras_and_rest_never_refresh_the_observation() {
    let schema = full_schema();
    let layout = Layout::new(&schema);
    let base = record(&schema);
    let table = Table::from([(0, base)]);
    let mut now = base;
    now.extras[0] = 1023;
    now.motion.as_mut().unwrap().at_rest = true;
    let body = encode(
        &layout,
        &table,
        &[Entry {
            slot: 0,
            change: Change::Update(now),
        }],
        9_000_000,
    );
    assert_eq!(body.len(), 3, "gap 1, kind 2, flags 3, mask 2, health 10");
    let entries = decode(&layout, &table, &body, 1, 9_000_000).unwrap();
    assert_eq!(
        entries,
        [Entry {
            slot: 0,
            change: Change::Update(now)
        }]
    );
}

/// SPEC ENT9, CTL1: a waking is a mark; only a destroyed entity has a time and a reason.
#[test]
fn ctl1_departures_and_wakings() {
    let schema = full_schema();
    let layout = Layout::new(&schema);
    let table: Table = (0..4).map(|slot| (slot, record(&schema))).collect();
    let gone = |departure, at_us, reason| Change::Removed {
        departure,
        at_us,
        reason,
    };
    let changes = [
        gone(Departure::Destroyed, 900_000, 7),
        gone(Departure::LeftView, 1_000_000, 0),
        gone(Departure::Hidden, 1_000_000, 0),
        Change::Awake,
    ];
    let entries: Vec<Entry> = (0..)
        .zip(changes)
        .map(|(slot, change)| Entry { slot, change })
        .collect();
    let body = encode(&layout, &table, &entries, 1_000_000);
    assert_eq!(decode(&layout, &table, &body, 4, 1_000_000).unwrap(), entries);
}

/// The bound on an entry is reached by the widest record of the widest schema, and by nothing wider.
#[test]
fn the_widest_record_takes_entry_bits_max() {
    let field = |i| ExtraField {
        name: format!("field {i}"),
        bits: 32,
        signed: false,
    };
    let schema = Schema {
        position: [Axis::new(0.0, f64::from(u32::MAX), 1.0).unwrap(); 3],
        rotation_bits: 15,
        velocity: Some(Rate::new(131_071.0, 1.0).unwrap()),
        angular: Some(Rate::new(131_071.0, 1.0).unwrap()),
        extras: (0..8).map(field).collect(),
        ..full_schema()
    };
    let layout = Layout::new(&schema);
    // A code of eight bits for whole records.
    let mut lengths = *Lengths::flat().as_array();
    lengths[16..16 + 30].fill(5);
    lengths[16 + 30..16 + 36].copy_from_slice(&[6, 6, 6, 8, 7, 8]);
    let tuned = Layout::new(&Schema {
        coding: Coding::Own(Arc::new(Lengths::new(lengths).unwrap())),
        ..schema.clone()
    });
    let server_us = (1 << 48) - 1;
    let mut now = Record {
        entity: Entity {
            id: u32::MAX,
            generation: u32::MAX,
        },
        class: 0,
        tier: crate::limits::TIER_MAX,
        born_us: 0,
        segment: u32::MAX,
        segment_us: 1,
        motion: Some(Motion {
            observed_us: 2,
            position: [u32::MAX; 3],
            rotation: Rotation {
                largest: 3,
                parts: [32_766; 3],
            },
            velocity: [-131_071; 3],
            angular: [131_071; 3],
            at_rest: true,
        }),
        extras: [u32::MAX; 8],
    };
    let bits_of = |layout: &Layout, base: Option<&Record>, now: &Record| {
        let mut buffer = [0; 256];
        let mut writer = BitWriter::new(&mut buffer);
        encode::entry(layout, base, now, server_us, &mut writer);
        writer.bits()
    };
    let bits = |base: Option<&Record>, now: &Record| bits_of(&layout, base, now);
    assert_eq!(bits_of(&tuned, None, &now), ENTRY_BITS_MAX as usize);
    assert_eq!(bits(None, &now), ENTRY_BITS_MAX as usize - 5, "a kind of 3 bits");
    let base = now;
    let motion = now.motion.as_mut().unwrap();
    motion.position = [1 << 30; 3];
    motion.rotation.parts = [0; 3];
    motion.velocity = [131_071; 3];
    motion.angular = [-131_071; 3];
    motion.at_rest = false;
    now.extras = [0; 8];
    // Kind, flags, age, mask, position, rotation, two rates, extras: all but the age at their widest.
    let update = bits(Some(&base), &now);
    assert_eq!(update, 2 + 3 + (1 + 3 + 53) + 4 + 101 + 53 + 2 * 62 + 8 * 33);
    assert!(update <= ENTRY_BITS_MAX as usize);
}

/// A record equal to its base needs no entry, and costs correctness nothing when asked for.
#[test]
fn an_unchanged_record_is_written_complete() {
    let schema = full_schema();
    let layout = Layout::new(&schema);
    let table = Table::from([(0, record(&schema))]);
    let body = encode(
        &layout,
        &table,
        &[Entry {
            slot: 0,
            change: Change::Update(table[&0]),
        }],
        2_000_000,
    );
    let entries = decode(&layout, &table, &body, 1, 2_000_000).unwrap();
    assert_eq!(
        entries,
        [Entry {
            slot: 0,
            change: Change::Complete(table[&0])
        }]
    );
}

/// A resting entity may have been observed days ago; its age still has a form.
#[test]
fn ent9_ages_reach_back_to_the_beginning_of_the_stream() {
    let schema = full_schema();
    let layout = Layout::new(&schema);
    for server_us in [
        1_000_000u64,
        1_000_001,
        54_000_000,
        54_025_000,
        u64::from(u32::MAX) * 2,
        (1 << 48) - 1,
    ] {
        let entries = [Entry {
            slot: 32_767,
            change: Change::Complete(record(&schema)),
        }];
        let body = encode(&layout, &Table::new(), &entries, server_us);
        assert_eq!(
            decode(&layout, &Table::new(), &body, 1, server_us).unwrap(),
            entries
        );
    }
}

/// SPEC ID6: a schema too large for its datagram, or with numbers nobody means, is refused when encoded.
#[test]
fn id6_schemas_out_of_bounds_are_not_encoded() {
    let mut schema = full_schema();
    schema.classes = (0..255)
        .map(|i| Class {
            name: format!("c{i}"),
            query_critical: false,
        })
        .collect();
    assert!(schema::encode(&schema).unwrap_err().to_string().contains("1000"));
    let mut schema = full_schema();
    schema.position[0].min = -0.0;
    let bytes = schema::encode(&schema).unwrap();
    assert_eq!(schema::decode(&bytes).unwrap(), schema, "minus zero is zero");
    schema.position[0].min = 1e-310;
    assert!(schema::encode(&schema).is_err());
    schema.tick_period_us = 0;
    assert!(schema::encode(&schema).is_err());
    assert!(
        schema::decode(&[0; SCHEMA_BYTES_MAX + 1])
            .unwrap_err()
            .to_string()
            .contains("1001")
    );
}

/// The published test values of FNV-1a.
#[test]
fn the_hash_is_fnv_1a() {
    assert_eq!(schema::hash(b""), 0xCBF2_9CE4_8422_2325);
    assert_eq!(schema::hash(b"a"), 0xAF63_DC4C_8601_EC8C);
    assert_eq!(schema::hash(b"foobar"), 0x8594_4171_F739_67E8);
}
