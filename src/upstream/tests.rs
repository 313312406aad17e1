//! `docs/UPSTREAM.md` and `examples/publisher.py` against this implementation.
//!
//! The document's examples are parsed out of it and compared byte for byte; the publisher, which is written from
//! the document alone and in another language, is decoded into a world that refuses nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::message::{FromOrigin, Hello, Refuse, RefuseCode, Subscribe, ToOrigin};
use super::subscriber::{Stream, Subscriber, SubscriberEvent};
use crate::delta::schema;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TickUpdate};
use crate::state::world::World;

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

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
        events: vec![Event {
            kind: 3,
            critical: true,
            entity: Some(entity),
            at_us: 50_000,
            payload: b"hi".to_vec(),
        }],
    }
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
        (crate::limits::SLOTS_MAX, "SLOTS_MAX"),
        (crate::limits::EXTRA_FIELDS_MAX, "EXTRA_FIELDS_MAX"),
        (crate::limits::CLASSES_MAX, "CLASSES_MAX"),
        (crate::limits::NAME_BYTES_MAX, "NAME_BYTES_MAX"),
        (super::tick::OBSERVATION_BYTES, "OBSERVATION_BYTES"),
        (super::tick::SPAWN_BYTES, "SPAWN_BYTES"),
    ] {
        assert!(
            document.contains(&format!("{bound} bytes")) || document.contains(&format!("| {bound} |")),
            "{name}: {bound}"
        );
    }
}

/// What a relay makes of a stream.
#[derive(Default)]
struct Taken {
    stream: Option<Stream>,
    world: Option<World>,
    ticks: u32,
    keyframes: u32,
    sentences: Vec<String>,
    ended: bool,
    events: usize,
    deaths: usize,
    segments: u32,
}

impl Taken {
    fn take(&mut self, event: SubscriberEvent) {
        match event {
            SubscriberEvent::Stream(stream) => {
                self.world = Some(World::new(Arc::clone(&stream.schema), 1, 512));
                self.stream = Some(stream);
            }
            SubscriberEvent::Tick(update) => {
                self.ticks += 1;
                self.keyframes += u32::from(update.keyframe);
                self.events += update.events.len();
                self.deaths += update.despawned.len();
                self.segments += update
                    .observed
                    .iter()
                    .map(|o| o.segment)
                    .max()
                    .unwrap_or(0)
                    .min(1);
                let world = self.world.as_mut().unwrap();
                assert!(world.advance(Tick(self.ticks), &update).is_some());
                self.sentences
                    .extend(world.refused().iter().map(ToString::to_string));
            }
            SubscriberEvent::Refused(text) | SubscriberEvent::Malformed(text) => self.sentences.push(text),
            SubscriberEvent::Ended => self.ended = true,
        }
    }
}

fn python() -> bool {
    let found = Command::new("python3")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!("skipped: there is no python3 to run examples/publisher.py with");
    }
    found
}

fn publisher() -> Command {
    let mut command = Command::new("python3");
    command.arg(root("examples/publisher.py"));
    command
}

/// The stream that the publisher dumps, taken in pieces; and what the subscriber would have sent.
fn dumped(args: &[&str]) -> (Taken, Vec<u8>) {
    let output = publisher()
        .args(["--dump", "-", "--seconds", "5"])
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut subscriber = Subscriber::new(Vec::new());
    let _ = subscriber.start();
    let (mut taken, mut events, mut sent) = (Taken::default(), Vec::new(), Vec::new());
    for piece in output.stdout.chunks(1000) {
        subscriber.receive(piece, &mut events);
        events.drain(..).for_each(|event| taken.take(event));
        sent.extend(subscriber.take_outgoing());
    }
    subscriber.disconnected(&mut events);
    assert_eq!(events, []);
    (taken, sent)
}

/// SPEC ID6, OPS2: a publisher written from the document in another language is taken in without a refusal.
#[test]
fn the_example_publisher_is_decoded_without_a_refusal() {
    if !python() {
        return;
    }
    for entities in ["2", "20", "300"] {
        let (taken, sent) = dumped(&["--entities", entities, "--hz", "30"]);
        assert_eq!(taken.sentences, [] as [String; 0]);
        assert_eq!((taken.ticks, taken.keyframes, taken.ended), (151, 1, true));
        assert!(
            taken.events > 3 && taken.deaths > 3 && taken.segments > 3,
            "it shows every kind of item"
        );
        assert!(sent.is_empty());
        let world = taken.world.unwrap();
        assert_eq!(world.live(), entities.parse::<usize>().unwrap());
        let stream = taken.stream.unwrap();
        assert_eq!(
            (stream.schema.name.as_str(), stream.schema.tick_period_us),
            ("circles", 33_333)
        );
        let reborn = (1..100).find_map(|generation| world.record(Entity { id: 1, generation }));
        assert!(
            reborn.is_some_and(|(_, record)| record.motion.is_some()),
            "an id lives again"
        );
    }
}

/// THREATS 83: each break of the publisher gives its one sentence, and the ticks after it still apply.
#[test]
fn threats_83_each_break_of_the_publisher_gives_one_sentence_and_the_rest_applies() {
    if !python() {
        return;
    }
    let resync = {
        let mut bytes = Vec::new();
        ToOrigin::Resync.encode(&mut bytes);
        bytes
    };
    for (kind, sentence, ticks, asked) in [
        (
            "out-of-range",
            "observation of entity 19#0 refused: x is outside the schema's bounds",
            101,
            &[][..],
        ),
        (
            "dead-generation",
            "observation of entity 1#0 refused: generation 1 of this id is newer",
            101,
            &[],
        ),
        (
            "truncated",
            "upstream tick refused: in its events the bytes end too early",
            100,
            &resync,
        ),
    ] {
        let (taken, sent) = dumped(&["--break", kind]);
        assert_eq!(taken.sentences, [sentence], "{kind}");
        assert_eq!(
            (taken.ticks, taken.ended, sent.as_slice()),
            (ticks, true, asked),
            "{kind}"
        );
        let world = taken.world.unwrap();
        assert_eq!((world.live(), world.server_us()), (19, 99 * 50_000), "{kind}");
    }
    let (taken, _) = dumped(&["--break", "wrong-version"]);
    let sentence = "upstream hello refused: it is of protocol version 2, but version 1 is spoken here: run versions that match";
    assert_eq!(taken.sentences, [sentence]);
    assert!(
        taken.stream.is_none() && taken.ticks == 0,
        "nothing of another version is read"
    );
}

/// A child that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One subscription over a real socket until the stream ends or is refused.
fn subscribe(address: &str, subscriber: &mut Subscriber, resync: bool) -> Taken {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&subscriber.start()).unwrap();
    let (mut taken, mut events, mut buffer) = (Taken::default(), Vec::new(), [0; 4096]);
    while !subscriber.is_closed() {
        let count = socket.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ends with an end, not with the connection");
        subscriber.receive(&buffer[..count], &mut events);
        let first = taken.ticks == 0;
        events.drain(..).for_each(|event| taken.take(event));
        if resync && first && taken.ticks > 0 {
            let mut bytes = Vec::new();
            ToOrigin::Resync.encode(&mut bytes);
            socket.write_all(&bytes).unwrap();
        }
    }
    taken
}

/// Two subscribers at once, a version that is refused first, a wrong token, a request for a keyframe.
#[test]
fn the_example_publisher_serves_subscribers_over_tcp() {
    if !python() {
        return;
    }
    let mut command = publisher();
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--seconds",
        "1.5",
        "--hz",
        "50",
        "--token",
        "key",
    ]);
    command.args(["--break", "wrong-version"]).stdout(Stdio::piped());
    let mut child = Served(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();

    let mut first = Subscriber::new(b"key".to_vec());
    let taken = subscribe(&address, &mut first, false);
    assert!(
        taken.sentences[0].contains("it is of protocol version 2"),
        "{:?}",
        taken.sentences
    );
    let taken = subscribe(&address, &mut Subscriber::new(b"kex".to_vec()), false);
    let sentence =
        "the origin refused this subscriber (code 2): the token is not the one this origin expects";
    assert_eq!(taken.sentences, [sentence]);

    let other = std::thread::spawn({
        let address = address.clone();
        move || subscribe(&address, &mut Subscriber::new(b"key".to_vec()), false)
    });
    let taken = [subscribe(&address, &mut first, true), other.join().unwrap()];
    for taken in &taken {
        assert_eq!(taken.sentences, [] as [String; 0]);
        assert!(taken.ended && taken.ticks > 2);
    }
    assert_eq!((taken[0].keyframes, taken[1].keyframes), (2, 1), "one on request");
    assert!(child.0.wait().unwrap().success());
}
