//! Damage to a payload's blocks and to the form of a snapshot's header.

use ackline::delta::encode;
use ackline::delta::layout::Layout;
use ackline::wire::bits::BitWriter;
use ackline::wire::bytes::ByteWriter;
use ackline::wire::owner::OwnerBlock;
use ackline::wire::payload::{CLOSE, MESSAGES};
use ackline::wire::snapshot::{Commit, Held, SnapshotHeader};

use crate::damage::{Maker, Scene, Shot};
use crate::dice::Dice;
use crate::payload::Payload;

pub const MAKERS: &[Maker] = &[
    cut,
    reserved_flag,
    left_over,
    bad_close,
    bad_messages,
    bad_welcome,
    known_welcome,
    header_flags,
    header_exhaustive,
    inputs_ack,
    inputs_ack,
    owner,
    owner,
    path_challenge,
    header_part,
    header_base,
    header_varint,
    header_commit,
    early_messages,
    noise,
    flips,
    flips,
    flips,
    tampered,
    body_cut,
    body_longer,
    body_padding,
    one_fewer,
    one_more,
    many_more,
];

fn shot(name: &'static str, payload: Vec<u8>, expected: &'static str) -> Option<Shot> {
    Some(Shot {
        name,
        payload,
        expected: Some(expected),
        hazard: false,
    })
}

fn malformed(name: &'static str, payload: Vec<u8>) -> Option<Shot> {
    shot(name, payload, "malformed_payload")
}

/// Cut within the blocks or the snapshot's header.
fn cut(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let mut bytes = payload.write();
    let body = payload.snapshot.as_ref().map_or(0, |(_, body)| body.len());
    bytes.truncate(dice.index(bytes.len() - body));
    malformed("cut", bytes)
}

fn reserved_flag(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    let mut bytes = payload.write();
    bytes[0] |= 128;
    malformed("reserved flag", bytes)
}

fn left_over(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let mut bytes = Payload {
        snapshot: None,
        ..payload.clone()
    }
    .write();
    bytes.extend((0..=dice.below(3)).map(|_| dice.byte()));
    malformed("left over", bytes)
}

fn bad_close(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let code = [0, 7, 8, 255][dice.index(4)];
    let bytes = Payload {
        close: Some(code),
        ..payload.clone()
    }
    .write();
    assert!(bytes[0] & CLOSE != 0);
    malformed("bad close", bytes)
}

fn bad_messages(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let mut block = Vec::new();
    let (name, count, length, present) = match dice.below(5) {
        0 => ("no messages", 0, 0, 0),
        1 => ("65 messages", 65, 1, 65),
        2 => ("message of 321", 1, 321, 1),
        3 => ("messages cut", 3, 5, 2),
        _ => ("overlong message length", 1, 0, 1),
    };
    block.put_varint(dice.under(100));
    block.put_u8(count);
    for _ in 0..present {
        if name.starts_with("overlong") {
            block.extend([0x80, 0x00]);
        } else {
            block.put_varint(length);
        }
        block.extend((0..length).map(|_| dice.byte()));
    }
    // A snapshot behind it would be read as the rest of the block.
    let bytes = Payload {
        messages: Some(block),
        snapshot: None,
        ..payload.clone()
    }
    .write();
    malformed(name, bytes)
}

/// Messages that are too early are dropped beyond 64 and kept within; those that were had change nothing.
fn early_messages(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    scene.client.schema()?;
    let mut block = Vec::new();
    block.put_varint(if dice.chance(500) {
        1 << 30
    } else {
        u32::MAX - dice.under(3)
    });
    block.put_u8(2);
    block.extend([1, 9, 2, 9, 9]);
    let bytes = Payload {
        messages: Some(block),
        snapshot: None,
        welcome: None,
        close: None,
        inputs_ack: None,
        owner: None,
        ..payload.clone()
    }
    .write();
    assert!(bytes[0] == MESSAGES);
    shot("messages far ahead", bytes, "ok")
}

fn welcome(epoch: u32, schema: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    block.put_varint(epoch);
    block.put_u32(4_000_000);
    block.put_u32(30_000_000);
    block.put_u16(u16::try_from(schema.len()).unwrap());
    block.put(schema);
    block
}

fn bad_welcome(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let epoch = scene.client.stream_epoch() + dice.under(2);
    let mut block = welcome(epoch, &[0; 1001]);
    let name = if dice.chance(500) {
        block.truncate(11 + dice.index(900));
        "welcome cut"
    } else {
        "schema of 1001 bytes"
    };
    let bytes = Payload {
        welcome: Some(block),
        messages: None,
        snapshot: None,
        ..payload.clone()
    }
    .write();
    malformed(name, bytes)
}

/// A welcome that names the stream that is known: its schema is not looked at.
fn known_welcome(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let known = scene.client.stream_epoch();
    if known == 0 {
        return None;
    }
    let length = dice.index(40);
    let schema: Vec<u8> = (0..length).map(|_| dice.byte()).collect();
    let block = welcome(known - dice.under(2), &schema);
    let bytes = Payload {
        welcome: Some(block),
        messages: None,
        snapshot: None,
        close: None,
        ..payload.clone()
    }
    .write();
    shot("welcome of a known stream", bytes, "ok")
}

/// The payload with one field of its header replaced.
fn with_field(payload: &Payload, name: &str, edit: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let (header, body) = payload.snapshot.as_ref()?;
    let mut bytes = payload.prefix();
    let mut found = false;
    for (field, value) in Payload::fields(header) {
        if field == name && !found {
            found = true;
            bytes.extend(edit(&value));
        } else {
            bytes.extend(value);
        }
    }
    bytes.extend_from_slice(body);
    found.then_some(bytes)
}

fn header_flags(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    malformed(
        "reserved header flag",
        with_field(payload, "flags", |flags| vec![flags[0] | 128])?,
    )
}

/// A part that says of itself alone that something is left out, or that nothing is.
fn header_exhaustive(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    Some(Shot {
        name: "exhaustive or not",
        payload: with_field(payload, "flags", |flags| vec![flags[0] ^ 64])?,
        expected: None,
        hazard: false,
    })
}

/// What the relay waits for: an input that was pushed, or the next one; another cannot be.
fn inputs_ack(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let with = |ack: &[u8]| {
        let payload = Payload {
            inputs_ack: Some(ack.to_vec()),
            snapshot: None,
            welcome: None,
            close: None,
            ..payload.clone()
        };
        payload.write()
    };
    let next = u32::try_from(scene.client.statistics().inputs_pushed).unwrap() + 1;
    let mut beyond = Vec::new();
    beyond.put_varint([next + 1, next + 1 + dice.under(300), u32::MAX][dice.index(3)]);
    match dice.below(4) {
        0 => malformed("inputs acknowledged from 0", with(&[0])),
        1 => malformed("inputs acknowledged that were not pushed", with(&beyond)),
        2 => malformed("overlong inputs acknowledged", with(&[0x81, 0])),
        _ => shot("no input acknowledged", with(&[1]), "ok"),
    }
}

/// An owner's state from a record that the client shows: right, late, of another stream, or with a record that is none.
fn path_challenge(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let challenged = Payload {
        stamp: payload.stamp,
        close: None,
        challenge: Some((0..8).map(|_| dice.byte()).collect()),
        welcome: None,
        inputs_ack: None,
        owner: None,
        messages: None,
        snapshot: None,
    };
    let mut payload = challenged.write();
    if dice.below(2) == 0 {
        payload.pop();
        return malformed("path challenge cut", payload);
    }
    Some(Shot {
        name: "path challenge",
        payload,
        expected: Some("ok"),
        hazard: false,
    })
}

fn owner(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let schema = scene.client.schema()?;
    let (slot, record, tick) = scene.client.display().records().next()?;
    let as_of_us = scene.client.display().known(slot)?.as_of_us;
    let layout = Layout::new(schema);
    let mut buffer = [0; 160];
    let mut writer = BitWriter::new(&mut buffer);
    encode::Gaps::new(&layout).put(None, slot, &mut writer);
    encode::complete(&layout, &record, as_of_us, &mut writer);
    let length = writer.finish();
    let mut body = buffer[..length].to_vec();
    let known = scene.client.stream_epoch();
    let (name, stream_epoch, tick) = match dice.below(6) {
        0 => ("owner of another stream", known + 1, tick),
        1 => ("owner's record cut", known, tick),
        2 => ("owner's record and a zero byte", known, tick),
        3 => ("owner's record in noise", known, tick),
        4 => ("owner of a moment ago", known, tick.minus(dice.under(3))),
        _ => ("owner", known, tick.plus(dice.under(3))),
    };
    let expected = match damage_record(name, &mut body, dice) {
        Some(word) => Some(word),
        None if name == "owner's record in noise" => None,
        None => Some("ok"),
    };
    let mut block = Vec::new();
    OwnerBlock {
        stream_epoch,
        tick,
        server_us: as_of_us,
        processed: dice.under(3),
        record: &body,
    }
    .encode(&mut block);
    let payload = Payload {
        owner: Some(block),
        snapshot: None,
        welcome: None,
        close: None,
        ..payload.clone()
    };
    Some(Shot {
        name,
        payload: payload.write(),
        expected,
        hazard: false,
    })
}

/// Damages a record as its name says; the word for it, where one is certain.
fn damage_record(name: &str, body: &mut Vec<u8>, dice: &mut Dice) -> Option<&'static str> {
    match name {
        "owner's record cut" => body.truncate(body.len() - 1),
        "owner's record and a zero byte" => body.push(0),
        "owner's record in noise" => {
            let at = dice.index(body.len());
            body[at] ^= 1 << dice.below(8);
            return None;
        }
        _ => return None,
    }
    Some("malformed_payload")
}

fn header_part(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let part = 32 + u8::try_from(dice.below(96)).unwrap();
    malformed(
        "part above 31",
        with_field(payload, "part", |old| vec![old[0] & 0x80 | part])?,
    )
}

fn header_base(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let distance = if dice.chance(500) {
        0
    } else {
        1 << 31 | dice.under(1 << 31)
    };
    let mut value = Vec::new();
    value.put_varint(distance);
    let name = if distance == 0 {
        "base is itself"
    } else {
        "base too far"
    };
    malformed(name, with_field(payload, "base", |_| value.clone())?)
}

fn header_varint(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let name = *dice.pick(&[
        "stream epoch",
        "session epoch",
        "generation",
        "id",
        "base",
        "count",
    ])?;
    let wide = dice.chance(300);
    let damaged = with_field(payload, name, |old| {
        let mut value = old.to_vec();
        if wide {
            value = vec![0xFF, 0xFF, 0xFF, 0xFF, 0x1F];
        } else {
            *value.last_mut().unwrap() |= 0x80;
            value.push(0);
        }
        value
    });
    malformed(
        if wide {
            "varint of 33 bits"
        } else {
            "overlong varint"
        },
        damaged?,
    )
}

fn header_commit(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (header, _) = payload.snapshot.as_ref()?;
    let id = header.id;
    let set: Vec<Held> = (1..=8)
        .map(|back| Held {
            id: id.minus(back * 3),
            mask: back,
        })
        .collect();
    let commit = Commit::new(&set[..1 + dice.index(8)], [1, 2]);
    let (_, body) = payload.snapshot.as_ref()?;
    let payload = payload.with(SnapshotHeader { commit, ..*header }, body.clone());
    let (name, field, value): (_, _, &[u8]) = match dice.below(5) {
        0 => ("commit of none", "commit count", &[0]),
        1 => ("commit of nine", "commit count", &[9]),
        2 => ("commit mask of none", "commit mask", &[0]),
        3 => ("commit of itself", "commit distance", &[0]),
        _ => (
            "commit too far",
            "commit distance",
            &[0x80, 0x80, 0x80, 0x80, 0x08],
        ),
    };
    malformed(name, with_field(&payload, field, |_| value.to_vec())?)
}

fn noise(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (header, body) = payload.snapshot.as_ref()?;
    let body = (0..body.len().max(4)).map(|_| dice.byte()).collect();
    let header = SnapshotHeader {
        candidate: false,
        ..*header
    };
    Some(Shot {
        name: "noise",
        payload: payload.with(header, body).write(),
        expected: None,
        hazard: false,
    })
}

/// One to three bits of the body flipped.
fn flips(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (header, body) = payload.snapshot.as_ref().filter(|(_, body)| !body.is_empty())?;
    let mut body = body.clone();
    for _ in 0..=dice.below(3) {
        let at = dice.index(body.len());
        body[at] ^= 1 << dice.below(8);
    }
    let header = SnapshotHeader {
        candidate: false,
        ..*header
    };
    Some(Shot {
        name: "flipped bits",
        payload: payload.with(header, body).write(),
        expected: None,
        hazard: false,
    })
}

/// Bits flipped in a part that will be kept: what is held then differs from what the relay believes, and the
/// next digest says so.
fn tampered(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (header, body) = payload
        .snapshot
        .as_ref()
        .filter(|(header, body)| header.candidate && !body.is_empty())?;
    if !scene.hazards || dice.chance(500) {
        return None;
    }
    let mut body = body.clone();
    let at = dice.index(body.len());
    body[at] ^= 1 << dice.below(8);
    let payload = payload.with(*header, body).write();
    Some(Shot {
        name: "tampered candidate",
        payload,
        expected: None,
        hazard: true,
    })
}

/// The snapshot on its own with another body or count, shown only.
fn resized(
    name: &'static str,
    payload: &Payload,
    edit: impl FnOnce(&mut SnapshotHeader, &mut Vec<u8>),
) -> Shot {
    let (header, body) = payload.snapshot.as_ref().unwrap();
    let (mut header, mut body) = (
        SnapshotHeader {
            candidate: false,
            ..*header
        },
        body.clone(),
    );
    edit(&mut header, &mut body);
    Shot {
        name,
        payload: payload.with(header, body).write(),
        expected: None,
        hazard: false,
    }
}

fn body_cut(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    payload.snapshot.as_ref().filter(|(_, body)| !body.is_empty())?;
    Some(resized("body cut", payload, |_, body| {
        body.truncate(dice.index(body.len()))
    }))
}

fn body_longer(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    payload.snapshot.as_ref()?;
    Some(resized("body and a zero byte", payload, |_, body| body.push(0)))
}

fn body_padding(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    payload
        .snapshot
        .as_ref()
        .filter(|(_, body)| body.last().is_some_and(|last| last & 0x80 == 0))?;
    Some(resized("padding bit set", payload, |_, body| {
        *body.last_mut().unwrap() |= 0x80
    }))
}

fn one_fewer(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    payload.snapshot.as_ref().filter(|(header, _)| header.count > 0)?;
    Some(resized("one entry fewer announced", payload, |header, _| {
        header.count -= 1
    }))
}

fn one_more(_: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    payload.snapshot.as_ref()?;
    Some(resized("one entry more announced", payload, |header, _| {
        header.count += 1
    }))
}

fn many_more(_: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    payload.snapshot.as_ref()?;
    Some(resized("count beyond the bytes", payload, |header, body| {
        let least = u32::try_from(body.len() * 8 / 5).unwrap() + 1;
        header.count = [u32::MAX, least.max(1 << 20), least][dice.index(3)];
    }))
}
