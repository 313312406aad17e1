//! The examples of the document, field by field.

use super::support::{Table, decode, encode};
use crate::delta::decode::{Change, Entry};
use crate::delta::layout::Layout;
use crate::delta::schema;
use crate::limits::EXTRA_FIELDS_MAX;
use crate::state::coding::Coding;
use crate::state::entity::{Departure, Entity};
use crate::state::record::{Motion, Record};
use crate::state::rotation::Rotation;
use crate::state::schema::Schema;
use crate::state::slots::Slot;
use crate::wire::bits::BitReader;

const DOCUMENT: &str = include_str!("../../../docs/PROTOCOL-delta.md");

/// The lines of every fenced block of a kind.
fn blocks(kind: &str) -> Vec<Vec<&'static str>> {
    let fence = format!("```{kind}\n");
    let inside = DOCUMENT
        .split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next());
    inside.map(|block| block.lines().collect()).collect()
}

fn hex<'a>(bytes: impl Iterator<Item = &'a str>) -> Vec<u8> {
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// An example schema's bytes: each row is bytes, two or more spaces, meaning.
fn schema_bytes(which: usize) -> (Vec<u8>, u64) {
    let block = &blocks("schema")[which];
    let (hash, rows) = block.split_last().unwrap();
    let cells = rows
        .iter()
        .flat_map(|row| row.split("  ").next().unwrap().split(' '));
    (
        hex(cells),
        u64::from_str_radix(hash.strip_prefix("hash ").unwrap(), 16).unwrap(),
    )
}

/// Fields `name=value` of a line.
struct Line(&'static str);

impl Line {
    fn text(&self, name: &str) -> Option<&'static str> {
        self.0
            .split(' ')
            .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        self.text(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{name} in {}", self.0))
    }

    fn slot(&self) -> Slot {
        self.number("slot")
    }

    fn record(&self) -> Record {
        let (segment, segment_us) = self.text("segment").unwrap().split_once('@').unwrap();
        let mut extras = [0; EXTRA_FIELDS_MAX];
        let values = self.text("extras").unwrap().split(',');
        values
            .zip(&mut extras)
            .for_each(|(text, value)| *value = text.parse().unwrap());
        Record {
            entity: Entity {
                id: self.number("id"),
                generation: self.number("generation"),
            },
            class: self.number("class"),
            tier: self.text("tier").map_or(0, |tier| tier.parse().unwrap()),
            born_us: self.number("born"),
            segment: segment.parse().unwrap(),
            segment_us: segment_us.parse().unwrap(),
            motion: self.text("observed").map(|_| self.motion()),
            extras,
        }
    }

    fn motion(&self) -> Motion {
        let (largest, parts) = self.text("rotation").unwrap().split_once(':').unwrap();
        Motion {
            observed_us: self.number("observed"),
            position: triple(self.text("position").unwrap()),
            rotation: Rotation {
                largest: largest.parse().unwrap(),
                parts: triple(parts),
            },
            velocity: triple(self.text("velocity").unwrap()),
            angular: [0; 3],
            at_rest: self.number::<u8>("rest") == 1,
        }
    }

    fn entry(&self) -> Option<Entry> {
        let change = match self.0.split(' ').next()? {
            "update" => Change::Update(self.record()),
            "complete" => Change::Complete(self.record()),
            "awake" => Change::Awake,
            "removed" => Change::Removed {
                departure: Departure::from_code(self.number("departure")).unwrap(),
                at_us: self.number("at"),
                reason: self.number("reason"),
            },
            _ => return None,
        };
        Some(Entry {
            slot: self.slot(),
            change,
        })
    }
}

fn triple<T: std::str::FromStr>(text: &str) -> [T; 3] {
    let values: Vec<T> = text.split(',').filter_map(|part| part.parse().ok()).collect();
    values
        .try_into()
        .unwrap_or_else(|_| panic!("{text} is three numbers"))
}

fn document_schema(which: usize) -> Schema {
    schema::decode(&schema_bytes(which).0).unwrap()
}

/// The schema's rows are its bytes, and the whole of them.
#[test]
fn the_schema_example_is_exact() {
    let (bytes, hash) = schema_bytes(0);
    let declared = document_schema(0);
    assert_eq!(schema::encode(&declared).unwrap(), bytes);
    assert_eq!(schema::hash(&bytes), hash);
    assert_eq!(
        (declared.name.as_str(), declared.version, declared.tick_period_us),
        ("duel", 1, 50_000)
    );
    assert_eq!((declared.extras.len(), declared.classes.len()), (2, 2));
    assert_eq!(
        declared.position.map(|axis| axis.highest()),
        [20_000, 20_000, 5_000]
    );
    assert!(declared.velocity.is_some() && declared.angular.is_none() && !declared.on_change);
    let (bytes, hash) = schema_bytes(1);
    let tuned = document_schema(1);
    assert_eq!(schema::encode(&tuned).unwrap(), bytes);
    assert_eq!(schema::hash(&bytes), hash);
    let coding = Coding::Standard;
    assert_eq!(tuned, Schema { coding, ..declared });
}

/// Every example decodes to what it says, encodes to its bytes, and its fields are those bits and no others.
#[test]
fn the_body_examples_are_exact() {
    let plain = Layout::new(&document_schema(0));
    let tuned = Layout::new(&document_schema(1));
    let examples = blocks("delta").into_iter().map(|example| (&plain, example));
    let of_tables = blocks("delta tuned").into_iter().map(|example| (&tuned, example));
    let examples: Vec<_> = examples.chain(of_tables).collect();
    assert_eq!(examples.len(), 5);
    for (layout, example) in examples {
        let lines = || example.iter().map(|line| Line(line));
        let line = |name: &str| example.iter().find_map(|line| line.strip_prefix(name)).unwrap();
        let server_us: u64 = line("frame ").parse().unwrap();
        let bytes = hex(line("body ").split(' '));
        let table: Table = lines()
            .filter(|l| l.0.starts_with("base "))
            .map(|l| (l.slot(), l.record()))
            .collect();
        let entries: Vec<Entry> = lines().filter_map(|l| l.entry()).collect();
        assert_eq!(
            decode(layout, &table, &bytes, entries.len(), server_us).unwrap(),
            entries
        );
        assert_eq!(encode(layout, &table, &entries, server_us), bytes);
        let mut reader = BitReader::new(&bytes);
        for row in example.iter().filter(|line| line.starts_with(' ')) {
            let mut cells = row.split_whitespace();
            let mut number = || cells.next().unwrap().parse::<u32>().unwrap();
            let (width, value) = (number(), number());
            assert_eq!(reader.take(width).unwrap(), value, "{row}");
        }
        reader.end().unwrap();
    }
}

/// The document names every reason of refusal, and its bounds are the code's.
#[test]
fn the_document_names_every_reason_and_bound() {
    for error in crate::delta::decode::DecodeError::ALL {
        assert!(
            DOCUMENT.contains(&format!("`{}`", error.reason())),
            "{}",
            error.reason()
        );
    }
    let bound = format!(
        "at most {} bits and the gap before it {}",
        crate::delta::encode::ENTRY_BITS_MAX,
        crate::delta::encode::GAP_BITS_MAX
    );
    assert!(DOCUMENT.contains(&bound), "{bound}");
    assert!(DOCUMENT.contains(&format!("below {}", "32,768")) && crate::limits::SLOTS_MAX == 32_768);
    assert!(DOCUMENT.contains("at most 1000 bytes") && crate::limits::SCHEMA_BYTES_MAX == 1000);
}
