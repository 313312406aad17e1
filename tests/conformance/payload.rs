//! A Down payload taken apart so that it can be put together differently.

use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::owner::OwnerBlock;
use ackline::wire::payload::{
    CLOSE, INPUTS_ACK, MESSAGES, OWNER, PATH_CHALLENGE, SNAPSHOT, WELCOME, Welcome,
};
use ackline::wire::snapshot::SnapshotHeader;
use ackline::wire::stream::skip_block;

#[derive(Clone, Debug)]
pub struct Payload {
    pub stamp: u16,
    pub close: Option<u8>,
    /// The block's bytes.
    pub challenge: Option<Vec<u8>>,
    /// The block's bytes.
    pub welcome: Option<Vec<u8>>,
    /// The block's bytes.
    pub inputs_ack: Option<Vec<u8>>,
    /// The block's bytes.
    pub owner: Option<Vec<u8>>,
    /// The block's bytes.
    pub messages: Option<Vec<u8>>,
    pub snapshot: Option<(SnapshotHeader, Vec<u8>)>,
}

impl Payload {
    /// Takes apart a payload that is in order.
    pub fn read(bytes: &[u8]) -> Payload {
        let mut reader = ByteReader::new(bytes);
        let flags = reader.u8().unwrap();
        let stamp = reader.u16().unwrap();
        let close = (flags & CLOSE != 0).then(|| reader.u8().unwrap());
        let mut block = |flag: u8, skip: &dyn Fn(&mut ByteReader<'_>)| {
            let before = reader.rest();
            (flags & flag != 0).then(|| {
                skip(&mut reader);
                before[..before.len() - reader.rest().len()].to_vec()
            })
        };
        let challenge = block(PATH_CHALLENGE, &|reader| {
            reader.bytes(8).unwrap();
        });
        let welcome = block(WELCOME, &|reader| {
            Welcome::decode(reader).unwrap();
        });
        let inputs_ack = block(INPUTS_ACK, &|reader| {
            reader.varint().unwrap();
        });
        let owner = block(OWNER, &|reader| {
            OwnerBlock::decode(reader).unwrap();
        });
        let messages = block(MESSAGES, &|reader| skip_block(reader).unwrap());
        let snapshot = (flags & SNAPSHOT != 0).then(|| {
            let header = SnapshotHeader::decode(&mut reader).unwrap();
            (header, reader.rest().to_vec())
        });
        Payload {
            stamp,
            close,
            challenge,
            welcome,
            inputs_ack,
            owner,
            messages,
            snapshot,
        }
    }

    /// The blocks before the snapshot, with the flags of all.
    pub fn prefix(&self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut out = vec![
            flag(self.close.is_some(), CLOSE)
                | flag(self.challenge.is_some(), PATH_CHALLENGE)
                | flag(self.welcome.is_some(), WELCOME)
                | flag(self.inputs_ack.is_some(), INPUTS_ACK)
                | flag(self.owner.is_some(), OWNER)
                | flag(self.messages.is_some(), MESSAGES)
                | flag(self.snapshot.is_some(), SNAPSHOT),
        ];
        out.put_u16(self.stamp);
        out.extend(self.close);
        let blocks = [
            &self.challenge,
            &self.welcome,
            &self.inputs_ack,
            &self.owner,
            &self.messages,
        ];
        out.extend(blocks.into_iter().flatten().flatten());
        out
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = self.prefix();
        if let Some((header, body)) = &self.snapshot {
            header.encode(&mut out);
            out.extend_from_slice(body);
        }
        out
    }

    /// The same with another snapshot.
    pub fn with(&self, header: SnapshotHeader, body: Vec<u8>) -> Payload {
        Payload {
            snapshot: Some((header, body)),
            ..self.clone()
        }
    }

    /// The snapshot alone with another header.
    pub fn alone(&self, header: SnapshotHeader) -> Payload {
        let body = self
            .snapshot
            .as_ref()
            .map(|(_, body)| body.clone())
            .unwrap_or_default();
        Payload {
            close: None,
            challenge: None,
            welcome: None,
            inputs_ack: None,
            owner: None,
            messages: None,
            ..self.with(header, body)
        }
    }

    /// The fields of the snapshot's header with their bytes, in order.
    pub fn fields(header: &SnapshotHeader) -> Vec<(&'static str, Vec<u8>)> {
        let mut whole = Vec::new();
        header.encode(&mut whole);
        let varint = |value: u32| {
            let mut out = Vec::new();
            out.put_varint(value);
            out
        };
        let mut fields = vec![
            ("flags", whole[..1].to_vec()),
            ("stream epoch", varint(header.stream_epoch)),
            ("session epoch", varint(header.session_epoch)),
            ("generation", varint(header.generation)),
            ("id", varint(header.id.0)),
            ("part", vec![header.part | if header.last { 0x80 } else { 0 }]),
        ];
        if let Some(base) = header.base {
            fields.push(("base", varint(header.id.0.wrapping_sub(base.0))));
        }
        fields.push(("time", header.server_us.to_le_bytes()[..6].to_vec()));
        if let Some(commit) = &header.commit {
            fields.push(("commit count", vec![u8::try_from(commit.set().len()).unwrap()]));
            let mut previous = header.id;
            for held in commit.set() {
                fields.push(("commit distance", varint(previous.0.wrapping_sub(held.id.0))));
                fields.push(("commit mask", varint(held.mask)));
                previous = held.id;
            }
            fields.push((
                "commit digest",
                commit.digest.iter().flat_map(|word| word.to_le_bytes()).collect(),
            ));
        }
        if let Some(digest) = header.base_digest {
            fields.push((
                "base digest",
                digest.iter().flat_map(|word| word.to_le_bytes()).collect(),
            ));
        }
        fields.push(("count", varint(header.count)));
        let joined: Vec<u8> = fields.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        assert_eq!(joined, whole);
        fields
    }
}
