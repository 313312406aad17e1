//! The worked examples of docs/PROTOCOL.md, parsed out of it: each is built by the wire's own code and compared
//! byte by byte, exact length included.
//!
//! A fenced block ```` ```example NAME ```` holds lines of hex bytes (`00*9`: nine
//! times), then two or more spaces and a comment.

#![cfg(feature = "relay")]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use ackline::delta::message::{Assigned, Directed, Message};
use ackline::delta::quote::{Quote, Sight, Target};
use ackline::sequence::Tick;
use ackline::state::entity::Entity;
use ackline::state::view::{Range, Scope, View};
use ackline::token::{Grant, Secret, TokenKey, TokenKeys, open};
use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::cookie::CookieKey;
use ackline::wire::handshake::{self, Denial, WelcomeHeader};
use ackline::wire::input::{InputsBlock, put_inputs};
use ackline::wire::owner::OwnerBlock;
use ackline::wire::payload::{self, CloseReason, Welcome};
use ackline::wire::report::{HeldList, RefuseReason, Report};
use ackline::wire::seal::{Direction, Secrets};
use ackline::wire::snapshot::{Commit, Held, SnapshotHeader};
use ackline::wire::stream::StreamSender;
use ackline::wire::version::{Agreed, PROTOCOL_VERSION};

fn documented() -> BTreeMap<String, Vec<u8>> {
    let text = include_str!("../docs/PROTOCOL.md");
    let mut examples = BTreeMap::new();
    let mut open: Option<(String, Vec<u8>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("```example ") {
            assert!(open.is_none(), "example {name} begins inside another");
            open = Some((name.trim().to_owned(), Vec::new()));
        } else if line.starts_with("```") {
            if let Some((name, bytes)) = open.take() {
                assert!(
                    examples.insert(name.clone(), bytes).is_none(),
                    "example {name} stands twice"
                );
            }
        } else if let Some((name, bytes)) = &mut open {
            let hex = line.split("  ").next().unwrap();
            for byte in hex.split_whitespace() {
                let (byte, times) = byte.split_once('*').unwrap_or((byte, "1"));
                let value =
                    u8::from_str_radix(byte, 16).unwrap_or_else(|_| panic!("{name}: {byte} is not a byte"));
                bytes.extend(std::iter::repeat_n(value, times.parse().unwrap()));
            }
        }
    }
    assert!(open.is_none(), "an example does not end");
    examples
}

const CLIENT_NONCE: [u8; 16] = [
    0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF,
];
const RELAY_NONCE: [u8; 16] = [
    0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF,
];
const CONNECTION: u64 = 0x5EED_F00D_0000_0002;

fn header() -> SnapshotHeader {
    SnapshotHeader {
        exhaustive: true,
        stream_epoch: 1,
        session_epoch: 1,
        generation: 3,
        id: Tick(300),
        part: 0,
        last: true,
        base: Some(Tick(294)),
        server_us: 5_000_000,
        candidate: true,
        view_complete: true,
        stale: false,
        commit: None,
        base_digest: None,
        count: 0,
    }
}

/// The body of the example of a complete record in docs/PROTOCOL-delta.md.
fn complete_record() -> Vec<u8> {
    let text = include_str!("../docs/PROTOCOL-delta.md");
    let (_, example) = text.split_once("frame 1100000\ncomplete ").unwrap();
    let body = example
        .lines()
        .find_map(|line| line.strip_prefix("body "))
        .unwrap();
    let bytes = body.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap());
    bytes.collect()
}

/// A connect token, as a backend hands it to its client.
fn token() -> Vec<u8> {
    let grant = Grant {
        issued_s: 1_800_000_000,
        expires_s: 1_800_000_060,
        client: 42,
        audience: "eu".to_owned(),
        relays: vec!["203.0.113.7:7777".parse().unwrap()],
        secret: Secret([0x33; 32]),
        view: None,
        budget_bytes_per_s: None,
    };
    let key = TokenKey::new(1, [0x11; 32]);
    let token = grant.mint(&key, [0x22; 16]).unwrap();
    let keys = TokenKeys::new(vec![key]).unwrap();
    let opened = open(&keys, 1_800_000_001, &token.sealed);
    assert_eq!(opened, Ok(([0x22; 16], grant)));
    token.encode()
}

/// The examples of what is the player's own: messages, inputs, owner.
fn player(all: &mut BTreeMap<&'static str, Vec<u8>>) {
    let assigned = Assigned {
        entity: Some(Entity {
            id: 12,
            generation: 1,
        }),
        view: View {
            scope: Scope::Owner(Range::new(5_000, 6_000).unwrap()),
            tags: 6,
        },
    };
    let directed = Directed {
        kind: 44,
        payload: b"hi".to_vec(),
    };
    for (name, message) in [
        ("message-assigned", Message::Assigned(assigned)),
        ("message-directed", Message::Directed(directed)),
        ("message-tier", Message::Tier(1)),
    ] {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(Message::decode(&bytes), Ok(message));
        all.insert(name, bytes);
    }
    let inputs: [&[u8]; 2] = [b"left", b""];
    let mut bytes = Vec::new();
    put_inputs(7, inputs.iter().copied(), &mut bytes);
    assert_eq!(
        InputsBlock::read(&mut ByteReader::new(&bytes))
            .unwrap()
            .iter()
            .count(),
        2
    );
    all.insert("inputs", bytes);
    let quote = Quote {
        stream: 77,
        generation: 2,
        r_us: 1_464_928,
        view_ready: true,
        target: Some(Target {
            entity: Entity {
                id: 12,
                generation: 1,
            },
            segment: 3,
            sight: Sight::Interpolated,
        }),
    };
    let mut bytes = Vec::new();
    quote.encode(&mut bytes);
    assert_eq!(Quote::decode(&mut ByteReader::new(&bytes)), Ok(quote));
    all.insert("quote", bytes);
    let record = complete_record();
    let owner = OwnerBlock {
        stream_epoch: 1,
        tick: Tick(300),
        server_us: 1_100_000,
        processed: 57,
        record: &record,
    };
    let mut bytes = Vec::new();
    owner.encode(&mut bytes);
    assert_eq!(OwnerBlock::decode(&mut ByteReader::new(&bytes)), Ok(owner));
    all.insert("owner", bytes);
}

/// The examples of a path's challenge and its answer.
fn paths(all: &mut BTreeMap<&'static str, Vec<u8>>) {
    let token: payload::PathToken = [0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7];
    let secrets = Secrets {
        token_key: [9; 32],
        client_nonce: CLIENT_NONCE,
        relay_nonce: RELAY_NONCE,
        connection: CONNECTION,
        agreed: Agreed::NEWEST,
    };
    let mut sealer = secrets.sealer(Direction::Down).unwrap();
    assert_eq!(sealer.reserve(), Some(0), "the Welcome's");
    let number = sealer.reserve().unwrap();
    let mut down = vec![handshake::DatagramKind::Down as u8];
    down.put_u32(1);
    let mut sealed = vec![payload::PATH_CHALLENGE];
    sealed.put_u16(payload::clock_stamp(65_000_000));
    sealed.put(&token);
    all.insert("path-challenge-payload", sealed.clone());
    let tag = sealer.seal(number, &down, &mut sealed).unwrap();
    down.extend(sealed);
    down.extend(tag);
    all.insert("path-challenge", down);
    let mut answer = vec![payload::PATH_ANSWER];
    answer.put(&token);
    all.insert("path-answer-payload", answer);
}

/// A whole datagram of a client that leaves.
fn leave(secrets: &Secrets) -> Vec<u8> {
    let mut sealer = secrets.sealer(Direction::Up).unwrap();
    let number = sealer.reserve().unwrap();
    let mut up = vec![handshake::DatagramKind::Up as u8];
    up.put_u64(CONNECTION);
    up.put_u32(0);
    let mut sealed = vec![payload::CLOSE, CloseReason::Left as u8];
    let tag = sealer.seal(number, &up, &mut sealed).unwrap();
    up.extend(sealed);
    up.extend(tag);
    up
}

fn built() -> BTreeMap<&'static str, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut bytes = Vec::new();
    handshake::put_request(&mut bytes, PROTOCOL_VERSION, &CLIENT_NONCE);
    all.insert("request", bytes.clone());

    let source = "192.0.2.7:40000".parse().unwrap();
    let cookie = CookieKey::new(&[7; 32]).cookie(65_000_000, source, &CLIENT_NONCE);
    bytes = Vec::new();
    handshake::put_challenge(&mut bytes, PROTOCOL_VERSION, &CLIENT_NONCE, &cookie);
    all.insert("challenge", bytes.clone());

    handshake::put_response(&mut bytes, PROTOCOL_VERSION, &CLIENT_NONCE, &cookie, b"");
    all.insert("response", bytes.clone());

    bytes = Vec::new();
    handshake::put_denied(&mut bytes, PROTOCOL_VERSION, &CLIENT_NONCE, Denial::Full);
    all.insert("denied", bytes);

    // A whole sealed datagram each way.
    let secrets = Secrets {
        token_key: [9; 32],
        client_nonce: CLIENT_NONCE,
        relay_nonce: RELAY_NONCE,
        connection: CONNECTION,
        agreed: Agreed::NEWEST,
    };
    let mut sealer = secrets.sealer(Direction::Down).unwrap();
    let number = sealer.reserve().unwrap();
    let mut welcome = Vec::new();
    let clear = WelcomeHeader {
        connection: CONNECTION,
        client_nonce: CLIENT_NONCE,
        relay_nonce: RELAY_NONCE,
        number: 0,
    };
    handshake::put_welcome_header(&mut welcome, &clear);
    let mut sealed = vec![payload::WELCOME];
    sealed.put_u16(payload::clock_stamp(65_000_000));
    Welcome {
        stream_epoch: 0,
        lease_us: 4_000_000,
        idle_us: 30_000_000,
        schema: b"",
    }
    .encode(&mut sealed);
    all.insert("welcome-payload", sealed.clone());
    let tag = sealer.seal(number, &welcome, &mut sealed).unwrap();
    welcome.extend(sealed);
    welcome.extend(tag);
    all.insert("welcome", welcome);

    all.insert("leave", leave(&secrets));
    let old = Agreed {
        version: PROTOCOL_VERSION - 1,
        offered: PROTOCOL_VERSION,
    };
    all.insert(
        "leave-of-version-2",
        leave(&Secrets {
            agreed: old,
            ..secrets
        }),
    );

    let mut bytes = Vec::new();
    header().encode(&mut bytes);
    all.insert("snapshot-header", bytes);
    paths(&mut all);
    let commit = Commit::new(
        &[Held {
            id: Tick(294),
            mask: 1,
        }],
        [0x1122_3344, 0x5566_7788],
    )
    .unwrap();
    let mut bytes = Vec::new();
    SnapshotHeader {
        generation: 4,
        part: 1,
        last: false,
        commit: Some(commit),
        base_digest: Some([1, 2]),
        count: 200,
        ..header()
    }
    .encode(&mut bytes);
    all.insert("snapshot-header-commit", bytes);

    let mut held = HeldList::default();
    held.push(Held {
        id: Tick(294),
        mask: 1,
    });
    held.push(Held {
        id: Tick(291),
        mask: 0b101,
    });
    let report = Report {
        session_epoch: 1,
        generation: 3,
        stream_epoch: 1,
        received_newest: 700,
        received_count: 690,
        echo: 0x1234,
        echo_delay: 15,
        next_message: 4,
        ask: true,
        refuse: Some(RefuseReason::BaseDigest),
        held,
        requests: vec![(12, 1)],
        rejected: vec![(2, 5)],
    };
    let mut bytes = Vec::new();
    report.encode(&mut bytes);
    let mut read = Report::default();
    read.decode_into(&mut ByteReader::new(&bytes)).unwrap();
    assert_eq!(read, report);
    all.insert("report", bytes);

    let mut stream = StreamSender::default();
    stream.push(b"one").unwrap();
    stream.push(b"two").unwrap();
    let mut bytes = Vec::new();
    assert!(stream.put_block(0, 200_000, 100, &mut bytes));
    all.insert("messages", bytes);
    player(&mut all);
    all.insert("token", token());
    all
}

#[test]
fn the_examples_of_the_protocol_document_are_what_the_code_writes() {
    let documented = documented();
    let built = built();
    for (name, bytes) in &built {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let Some(text) = documented.get(*name) else {
            panic!(
                "docs/PROTOCOL.md has no example {name}; it should be:\n{}",
                hex.join(" ")
            );
        };
        assert_eq!(text, bytes, "example {name} should be:\n{}", hex.join(" "));
    }
    let unknown: Vec<&String> = documented
        .keys()
        .filter(|name| !built.contains_key(name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "no test builds the examples {unknown:?}");
}
