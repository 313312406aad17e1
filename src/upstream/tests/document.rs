//! The examples of `docs/UPSTREAM.md` are parsed out of it and compared byte for byte.

use super::root;
use crate::delta::schema;
use crate::state::coding::Coding;
use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent};
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use crate::state::view::{Range, Scope, View};
use crate::state::world::Refusal;
use crate::upstream::error::UpstreamError;
use crate::upstream::message::{FromOrigin, Hello, PLAYERS, Refuse, RefuseCode, Subscribe, ToOrigin};
use crate::wire::bytes::ReadError;

/// The fenced blocks of the document that begin with `tag` and a name, comments left out.
fn blocks(tag: &str) -> Vec<(String, Vec<String>)> {
    let document = std::fs::read_to_string(root("docs/UPSTREAM.md")).unwrap();
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    let mut open = false;
    for line in document.lines() {
        if let Some(info) = line.strip_prefix("```") {
            let name = info.strip_prefix(tag).map(str::trim);
            open = !open && name.is_some();
            if open {
                blocks.push((name.unwrap_or_default().to_owned(), Vec::new()));
            }
        } else if open {
            let line = line.split('#').next().unwrap_or_default().trim();
            blocks.last_mut().unwrap().1.push(line.to_owned());
        }
    }
    blocks
        .iter_mut()
        .for_each(|(_, lines)| lines.retain(|line| !line.is_empty()));
    blocks
}

/// The schema of the document's examples.
fn example_schema() -> Schema {
    Schema {
        coding: Coding::Plain,
        name: "demo".into(),
        version: 1,
        tick_period_us: 50_000,
        on_change: false,
        position: [
            Axis::new(-100.0, 100.0, 0.01).unwrap(),
            Axis::new(-100.0, 100.0, 0.01).unwrap(),
            Axis::new(0.0, 50.0, 0.01).unwrap(),
        ],
        rotation_bits: 10,
        velocity: Some(Rate::new(64.0, 0.02).unwrap()),
        angular: None,
        extras: vec![ExtraField {
            name: "health".into(),
            bits: 10,
            signed: true,
        }],
        classes: vec![Class {
            name: "runner".into(),
            query_critical: true,
        }],
    }
}

fn example_motion() -> Motion {
    let schema = example_schema();
    let half = core::f64::consts::FRAC_1_SQRT_2;
    let velocity = schema.velocity.as_ref().unwrap();
    Motion {
        observed_us: 50_000,
        position: [
            schema.position[0].quantise("x", 12.34).unwrap(),
            schema.position[1].quantise("y", -0.005).unwrap(),
            schema.position[2].quantise("z", 1.0).unwrap(),
        ],
        rotation: Rotation::from_quaternion([0.0, 0.0, half, half], schema.rotation_bits).unwrap(),
        velocity: [1.5, -0.03, 0.0].map(|v| velocity.quantise("v", v).unwrap()),
        angular: [0; 3],
        at_rest: false,
    }
}

fn example_tick() -> TickUpdate {
    let entity = Entity { id: 7, generation: 1 };
    TickUpdate {
        origin_tick: 2,
        server_us: 50_000,
        published_us: 0,
        keyframe: false,
        despawned: vec![Despawn {
            entity: Entity { id: 7, generation: 0 },
            at_us: 49_000,
            reason: 4,
        }],
        spawned: vec![Spawn {
            entity,
            class: 0,
            at_us: 50_000,
        }],
        observed: vec![Observation {
            entity,
            segment: 0,
            segment_us: 50_000,
            motion: Some(example_motion()),
        }],
        extras: vec![ExtraUpdate {
            entity,
            mask: 1,
            values: [0x3FF, 0, 0, 0, 0, 0, 0, 0],
        }],
        tags: vec![TagUpdate { entity, tags: 2 }],
        directives: Vec::new(),
        events: vec![Event {
            kind: 3,
            critical: true,
            entity: Some(entity),
            at_us: 50_000,
            payload: b"hi".to_vec(),
        }],
    }
}

fn example_players() -> Vec<PlayerEvent> {
    let player = 0x2A;
    vec![
        PlayerEvent::Joined(player, 7_001),
        PlayerEvent::Camera {
            player,
            position: [11_234, 10_000, 100],
        },
        PlayerEvent::InputsLost {
            player,
            first: 1,
            count: 2,
        },
        PlayerEvent::Input {
            player,
            sequence: 3,
            payload: b"jump".to_vec(),
        },
        PlayerEvent::Left(0x29),
    ]
}

fn example_directives() -> Vec<Directive> {
    let player = 0x2A;
    let view = View {
        scope: Scope::Owner(Range::new(2000, 2500).unwrap()),
        tags: 3,
    };
    let orders = [
        Order::Assign {
            entity: Some(Entity { id: 7, generation: 1 }),
            view: Some(view),
        },
        Order::Message {
            kind: 3,
            payload: b"hi".to_vec(),
        },
        Order::Processed(3),
    ];
    orders
        .into_iter()
        .map(|order| Directive { player, order })
        .collect()
}

/// Every example of the document by name, as this implementation encodes it.
fn examples() -> Vec<(&'static str, Vec<u8>)> {
    let up = |message: ToOrigin| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    };
    let down = |message: FromOrigin| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    };
    let schema = schema::encode(&example_schema()).unwrap();
    let hello = Hello {
        epoch: 1_700_000_000_000_000,
        boot: 0x0123_4567_89AB_CDEF,
        accepts: PLAYERS,
        schema: schema.clone(),
        ..Hello::default()
    };
    let refuse = Refuse {
        code: RefuseCode::Token,
        text: "no such token".into(),
    };
    let empty = TickUpdate {
        origin_tick: 0,
        keyframe: true,
        ..TickUpdate::default()
    };
    vec![
        (
            "subscribe",
            up(ToOrigin::Subscribe(Subscribe {
                flags: 0,
                token: b"key".to_vec(),
            })),
        ),
        ("resync", up(ToOrigin::Resync)),
        ("hello", down(FromOrigin::Hello(hello))),
        ("refuse", down(FromOrigin::Refuse(refuse))),
        ("end", down(FromOrigin::End)),
        ("empty keyframe", down(FromOrigin::Tick(empty))),
        ("tick", down(FromOrigin::Tick(example_tick()))),
        ("players", up(ToOrigin::Players(example_players()))),
        ("directives", down(FromOrigin::Directives(example_directives()))),
        ("schema", schema),
    ]
}

/// Every `hex` block of docs/UPSTREAM.md is exactly what is encoded here, and none is missing.
#[test]
fn the_documents_hex_examples_are_exact() {
    let written = blocks("hex");
    let names: Vec<&str> = written.iter().map(|(name, _)| name.as_str()).collect();
    let expected = examples();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for ((name, lines), (_, bytes)) in written.iter().zip(&expected) {
        let hex = lines.iter().flat_map(|line| line.split_whitespace());
        let written: Vec<u8> = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        assert_eq!(&written, bytes, "{name}");
    }
}

/// Every `quantise` line of docs/UPSTREAM.md: `position min max step: value -> integer`, `rate bound step: ...`,
/// `rotation bits: x y z w -> largest a b c`, `extra bits sign: ...`; `refused` where there is no integer.
#[test]
fn the_documents_quantisation_examples_are_exact() {
    let lines: Vec<String> = blocks("quantise")
        .into_iter()
        .flat_map(|(_, lines)| lines)
        .collect();
    assert!(lines.len() >= 16, "{lines:?}");
    for line in &lines {
        let (input, result) = line.split_once("->").unwrap();
        let (head, values) = input.split_once(':').unwrap();
        let mut head = head.split_whitespace();
        let kind = head.next().unwrap();
        let head: Vec<&str> = head.collect();
        let number = |text: &str| text.parse::<f64>().unwrap();
        let values: Vec<f64> = values.split_whitespace().map(number).collect();
        let got = match kind {
            "position" => Axis::new(number(head[0]), number(head[1]), number(head[2]))
                .and_then(|axis| axis.quantise("x", values[0]))
                .map(|q| q.to_string())
                .ok(),
            "rate" => Rate::new(number(head[0]), number(head[1]))
                .and_then(|rate| rate.quantise("v", values[0]))
                .map(|q| q.to_string())
                .ok(),
            "rotation" => {
                let quaternion = [values[0], values[1], values[2], values[3]];
                let rotation = Rotation::from_quaternion(quaternion, head[0].parse().unwrap());
                rotation.map(
                    |Rotation {
                         largest,
                         parts: [a, b, c],
                     }| format!("{largest} {a} {b} {c}"),
                )
            }
            "extra" => {
                let field = ExtraField {
                    name: "f".into(),
                    bits: head[0].parse().unwrap(),
                    signed: head[1] == "signed",
                };
                field
                    .pattern(values[0] as i64)
                    .map(|pattern| format!("0x{pattern:X}"))
                    .ok()
            }
            other => panic!("{other}"),
        };
        assert_eq!(got.as_deref().unwrap_or("refused"), result.trim(), "{line}");
    }
}

/// The numbers that the document's tables state.
#[test]
fn the_document_states_the_bounds_that_hold() {
    let document = std::fs::read_to_string(root("docs/UPSTREAM.md")).unwrap();
    for (bound, name) in [
        (crate::limits::UPSTREAM_FRAME_MAX, "UPSTREAM_FRAME_MAX"),
        (crate::limits::UPSTREAM_REQUEST_MAX, "UPSTREAM_REQUEST_MAX"),
        (crate::limits::UPSTREAM_TOKEN_MAX, "UPSTREAM_TOKEN_MAX"),
        (crate::limits::UPSTREAM_TEXT_MAX, "UPSTREAM_TEXT_MAX"),
        (crate::limits::SCHEMA_BYTES_MAX, "SCHEMA_BYTES_MAX"),
        (crate::limits::EVENT_BYTES_MAX, "EVENT_BYTES_MAX"),
        (crate::limits::EVENTS_TICK_BYTES_MAX, "EVENTS_TICK_BYTES_MAX"),
        (crate::limits::SLOTS_MAX, "SLOTS_MAX"),
        (crate::limits::EXTRA_FIELDS_MAX, "EXTRA_FIELDS_MAX"),
        (crate::limits::CLASSES_MAX, "CLASSES_MAX"),
        (crate::limits::NAME_BYTES_MAX, "NAME_BYTES_MAX"),
        (crate::upstream::tick::OBSERVATION_BYTES, "OBSERVATION_BYTES"),
        (crate::upstream::tick::SPAWN_BYTES, "SPAWN_BYTES"),
        (crate::upstream::tick::TAGS_BYTES, "TAGS_BYTES"),
        (crate::limits::INPUT_BYTES_MAX, "INPUT_BYTES_MAX"),
        (
            crate::limits::DIRECTIVES_TICK_BYTES_MAX,
            "DIRECTIVES_TICK_BYTES_MAX",
        ),
    ] {
        assert!(
            document.contains(&format!("{bound} bytes")) || document.contains(&format!("| {bound} |")),
            "{name}: {bound}"
        );
    }
}

/// The sentences that the document shows are those that are said.
#[test]
fn the_document_shows_the_sentences_that_are_said() {
    let document = std::fs::read_to_string(root("docs/UPSTREAM.md")).unwrap();
    let max = crate::limits::UPSTREAM_FRAME_MAX;
    let (part, fault) = ("events", ReadError::Short);
    let said = [
        UpstreamError::Version {
            message: "hello",
            theirs: 3,
        }
        .to_string(),
        UpstreamError::TooLong {
            length: 0xFF00_0000,
            max,
        }
        .to_string(),
        UpstreamError::Malformed {
            message: "tick",
            part,
            fault,
        }
        .to_string(),
        UpstreamError::UnknownKind { kind: 48 }.to_string(),
        Refusal::OutOfRange {
            entity: Entity {
                id: 19,
                generation: 0,
            },
            field: "x",
        }
        .to_string(),
        Refusal::DeadGeneration {
            what: "observation",
            entity: Entity { id: 1, generation: 0 },
            current: 1,
        }
        .to_string(),
    ];
    for sentence in said {
        assert!(document.contains(&format!("| `{sentence}` |")), "{sentence}");
    }
}
