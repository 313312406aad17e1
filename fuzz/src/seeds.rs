//! What the corpora began with: real datagrams and messages, scripts of an honest peer, and some noise.

use ackline::delta::schema as codec;

use super::records;
use super::stage::stage_schema;
use super::tape::{Ink, Tape};
use super::trace::stored;

/// Zeros, the simplest choices, and noise in several lengths.
fn plain() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0; 40], vec![0; 300]];
    for (seed, length) in [(1, 30), (2, 90), (3, 200), (4, 400), (5, 800), (6, 1500)] {
        seeds.push(Ink::default().noise(seed, length).0.clone());
    }
    seeds
}

pub fn relay_datagram() -> Vec<Vec<u8>> {
    let mut seeds = plain();
    // Every captured datagram of the client, from its own address and another, whole.
    let mut ink = Ink::default();
    ink.u8(0);
    for index in 0..14 {
        ink.u8(index % 2).u8(2).u8(index).u8(0);
    }
    seeds.push(ink.0);
    // Of each kind: nothing, a little, much.
    let mut ink = Ink::default();
    ink.u8(0);
    for kind in 0..7 {
        for length in [0, 12, 60] {
            ink.u8(0)
                .u8(1)
                .u8(kind)
                .u16(length)
                .noise(u64::from(kind), usize::from(length));
        }
    }
    seeds.push(ink.0);
    seeds
}

pub fn client_datagram() -> Vec<Vec<u8>> {
    let mut seeds = plain();
    for phase in [0, 2] {
        let mut ink = Ink::default();
        ink.u8(phase);
        for index in 0..14 {
            ink.u8(2).u8(index).u8(0);
        }
        seeds.push(ink.0);
    }
    seeds
}

pub fn relay_payload() -> Vec<Vec<u8>> {
    let mut seeds = plain();
    // A tick with motion, then an honest report: joins, follows, asks, advances.
    let mut ink = Ink::default();
    ink.u8(0).u8(0).u8(12);
    for step in 0..40u8 {
        ink.u8(0).u8(0).u8(0x30 | (step % 2 * 4)).u8(3).u8(0).u8(0).u8(0);
    }
    seeds.push(ink.0);
    // Reports only some parts, and asks all the time; frames are skipped in between.
    let mut ink = Ink::default();
    ink.u8(1).u8(5).u8(147);
    for step in 0..24u8 {
        ink.u8(0)
            .u8(0)
            .u8(0x1C)
            .u8(step)
            .u8(3)
            .u8(0xE1 | (step * 2))
            .u8(0)
            .u8(0);
        if step % 5 == 4 {
            ink.u8(8).u8(1).u8(40);
        }
    }
    seeds.push(ink.0);
    // A part of a snapshot is reported when the frame of its base has left the arena.
    let mut ink = Ink::default();
    ink.u8(0).u8(5).u8(150);
    for _ in 0..6 {
        ink.u8(0).u8(0).u8(0x10).u8(3).u8(0).u8(0).u8(0);
    }
    ink.u8(8).u8(2).u16(300).u8(0).u8(0).u8(0x10);
    ink.u8(8).u8(2).u16(300).u8(3).u8(0x05).u8(0).u8(0);
    for _ in 0..6 {
        ink.u8(0).u8(0).u8(0x11).u8(3).u8(3).u8(0).u8(0).u8(0);
    }
    seeds.push(ink.0);
    // Refuses and restarts.
    let mut ink = Ink::default();
    ink.u8(0).u8(0).u8(8);
    for step in 0..30u8 {
        ink.u8(0)
            .u8(0)
            .u8(0x10)
            .u8(5)
            .u8(8)
            .u8(step % 5)
            .u8(1)
            .u8(0)
            .u8(0)
            .u8(0)
            .u8(0);
    }
    seeds.push(ink.0);
    seeds
}

pub fn client_payload() -> Vec<Vec<u8>> {
    let mut seeds = plain();
    // Snapshots of a few entries on the first of the held, each followed by a report.
    let mut ink = Ink::default();
    ink.u8(0).u8(0);
    for step in 0..24u64 {
        ink.u8(0)
            .u8(0)
            .u8(2)
            .u8(0)
            .u8(0)
            .u8(0)
            .noise(step, 30)
            .u8(5)
            .u8(9);
    }
    seeds.push(ink.0);
    seeds
}

pub fn delta_body() -> Vec<Vec<u8>> {
    let mut seeds = plain();
    for seed in 20..28 {
        seeds.push(Ink::default().noise(seed, 160).0.clone());
    }
    seeds
}

pub fn schema() -> Vec<Vec<u8>> {
    let mut seeds = vec![codec::encode(&stage_schema(1)).unwrap()];
    for seed in 0..6 {
        let noise = Ink::default().noise(seed, 80).0.clone();
        seeds.extend(codec::encode(&records::schema(&mut Tape::new(&noise))));
    }
    seeds
}

pub fn upstream_stream() -> Vec<Vec<u8>> {
    let mut seeds = plain();
    for role in [0, 3] {
        for seed in 40..44 {
            seeds.push(Ink::default().u8(role).u8(0).noise(seed, 500).0.clone());
        }
    }
    seeds
}

pub fn origin_sample() -> Vec<Vec<u8>> {
    plain()
}

const HEADER: &str = r#"{"name":"t","format":"gst-trace 1","family":"simulation","licence":"none","tick_hz":20.0,"bounds":{"min":[-100,-100,-100],"max":[100,100,100]},"unit":"m","fields":["px","py","pz","qx","qy","qz","qw","vx","vy","vz","health","wx","wy","wz","sleep"]}"#;
const RECORDS: [&str; 4] = [
    r#"{"t":0,"time":0,"spawn":[{"id":1,"gen":0,"kind":"car"},{"id":2,"gen":3,"kind":"ball"}],"despawn":[],"obs":[[1,0,0,1,2,3,0,0,0,1,0,0,0,100,0,0,0,0],[2,3,0,-1,2.5,3,0,1,0,0,1.5,0,0,null,0,0,0,1]],"event":[{"kind":"hit","id":1,"by":2,"at":[1,2,{"x":null}]}]}"#,
    r#"{"t":1,"time":0.05,"spawn":[],"despawn":[],"obs":[[1,0,1,1,2,3,0,0,0,1,0,0,0,99,0,0,0,0]],"event":[]}"#,
    r#"{"t":3,"time":5.1,"spawn":[],"despawn":[{"id":1,"gen":0}],"obs":[],"event":[{"kind":"end"}]}"#,
    r#"{"t":4,"time":5.15,"spawn":[{"id":1,"gen":1,"kind":"car"}],"despawn":[],"obs":[[1,1,0,1,2,3,0,0,0,-1,null,null,null,null,null,null,null,null]],"event":[]}"#,
];

pub fn trace() -> Vec<Vec<u8>> {
    let text = format!("{HEADER}\n{}\n", RECORDS.join("\n"));
    let with = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    vec![
        with(0, text.as_bytes()),
        with(2, text.as_bytes()),
        with(1, &stored(text.as_bytes())),
        with(0, HEADER.as_bytes()),
        with(0, format!("{HEADER}\n{}", RECORDS[0]).as_bytes()),
        with(1, &stored(b"")),
    ]
}
