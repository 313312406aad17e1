//! A client that reads headers and says whatever a test wants it to say, authentically.

use std::collections::BTreeMap;

use ackline::limits::{WINDOW_ASK_AT, WINDOW_SLOTS};
use ackline::relay::outbox::Path;
use ackline::relay::shard::Receipt;
use ackline::sequence::Tick;
use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::handshake::{
    DOWN_HEADER_BYTES, DatagramKind, WELCOME_HEADER_BYTES, put_request, put_response, read_challenge,
    read_welcome_header,
};
use ackline::wire::payload::{self, CloseReason, Welcome};
use ackline::wire::report::{HeldList, Report};
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use ackline::wire::snapshot::{Held, SnapshotHeader};
use ackline::wire::stream;
use ackline::wire::version::{Agreed, PROTOCOL_VERSION};

use super::stage::Stage;

pub struct Liar {
    pub path: Path,
    connection: u64,
    sealer: Sealer,
    opener: Opener,
    /// What it says in one exchange.
    pub lie: fn(&mut Liar) -> Vec<Report>,
    /// Exchanges so far.
    pub round: u32,
    /// Bytes sent to it.
    pub bytes: usize,
    /// The lease its Welcome named.
    pub lease_us: u32,
    /// Every snapshot's id, base and frame time, part by part.
    pub headers: Vec<SnapshotHeader>,
    pub closed: Option<CloseReason>,
    /// A lie's own mark: it says nothing true any more.
    pub stopped: bool,
    stream_epoch: u32,
    session_epoch: u32,
    generation: u32,
    /// What an honest window would hold: the parts of each snapshot.
    pub held: BTreeMap<u32, u32>,
}

impl Liar {
    /// Goes through the handshake.
    pub fn join(stage: &mut Stage, port: u16, lie: fn(&mut Liar) -> Vec<Report>) -> Liar {
        let (path, nonce) = (super::path(port), [0xEE; 16]);
        let mut bytes = Vec::new();
        put_request(&mut bytes, PROTOCOL_VERSION, &nonce);
        assert_eq!(stage.hear(path, &mut bytes), Receipt::Taken);
        let challenge = stage.answer();
        let (_, _, cookie) = read_challenge(&challenge[1..]).unwrap();
        put_response(&mut bytes, PROTOCOL_VERSION, &nonce, &cookie, b"");
        assert_eq!(stage.hear(path, &mut bytes), Receipt::Taken);
        let mut welcome = stage.answer();
        let header = read_welcome_header(&mut ByteReader::new(&welcome)).unwrap();
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce: nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed: Agreed::NEWEST,
        };
        let mut liar = Liar {
            path,
            connection: header.connection,
            sealer: secrets.sealer(Direction::Up).unwrap(),
            opener: secrets.opener(Direction::Down).unwrap(),
            lie,
            round: 0,
            bytes: 0,
            lease_us: 0,
            headers: Vec::new(),
            closed: None,
            stopped: false,
            stream_epoch: 0,
            session_epoch: 0,
            generation: 0,
            held: BTreeMap::new(),
        };
        liar.take(&mut welcome);
        liar
    }

    /// Takes a datagram of its session.
    pub fn take(&mut self, datagram: &mut [u8]) {
        let clear = match DatagramKind::from_byte(datagram[0]) {
            Some(DatagramKind::Welcome) => WELCOME_HEADER_BYTES,
            Some(DatagramKind::Down) => DOWN_HEADER_BYTES,
            other => panic!("{other:?} in a session"),
        };
        self.bytes += datagram.len();
        let (clear, sealed) = datagram.split_at_mut(clear);
        let low = u32::from_le_bytes(*clear.last_chunk().unwrap());
        let (_, payload) = self.opener.open(low, clear, sealed).unwrap();
        let mut reader = ByteReader::new(payload);
        let known = payload::CLOSE | payload::WELCOME | payload::MESSAGES | payload::SNAPSHOT;
        let flags = payload::flags(&mut reader, known).unwrap();
        reader.u16().unwrap();
        if flags & payload::CLOSE != 0 {
            self.closed = CloseReason::from_code(reader.u8().unwrap());
        }
        if flags & payload::WELCOME != 0 {
            let welcome = Welcome::decode(&mut reader).unwrap();
            (self.stream_epoch, self.lease_us) = (welcome.stream_epoch, welcome.lease_us);
        }
        if flags & payload::MESSAGES != 0 {
            stream::skip_block(&mut reader).unwrap();
        }
        if flags & payload::SNAPSHOT != 0 {
            let header = SnapshotHeader::decode(&mut reader).unwrap();
            self.headers.push(header);
            self.hold(&header);
        }
    }

    /// The window of an honest client in short, digests believed.
    fn hold(&mut self, header: &SnapshotHeader) {
        if header.session_epoch > self.session_epoch {
            self.held.clear();
            (self.session_epoch, self.generation) = (header.session_epoch, header.generation);
        }
        if header.generation > self.generation
            && let Some(commit) = &header.commit
        {
            self.held.retain(|id, _| commit.find(Tick(*id)).is_some());
            self.generation = header.generation;
        }
        if header.candidate && (self.held.len() < WINDOW_SLOTS || self.held.contains_key(&header.id.0)) {
            *self.held.entry(header.id.0).or_default() |= 1 << header.part;
        }
    }

    /// A report that acknowledges nothing.
    pub fn empty_report(&self) -> Report {
        Report {
            session_epoch: self.session_epoch,
            generation: self.generation,
            stream_epoch: self.stream_epoch,
            ..Report::default()
        }
    }

    /// A report of these snapshots and parts, newest first.
    pub fn report_of(&self, held: impl IntoIterator<Item = (u32, u32)>) -> Report {
        let mut list = HeldList::default();
        for (id, mask) in held {
            assert!(list.push(Held { id: Tick(id), mask }));
        }
        Report {
            held: list,
            ..self.empty_report()
        }
    }

    /// What an honest client would report now.
    pub fn honest_report(&self) -> Report {
        Report {
            ask: self.held.len() >= WINDOW_ASK_AT,
            ..self.report_of(self.held.iter().rev().map(|(id, mask)| (*id, *mask)))
        }
    }

    /// The newest snapshot it was sent.
    pub fn newest(&self) -> u32 {
        self.headers.last().map_or(0, |header| header.id.0)
    }

    /// The datagrams of one exchange.
    pub fn speak(&mut self) -> Vec<Vec<u8>> {
        self.round += 1;
        let reports = (self.lie)(self);
        reports.iter().map(|report| self.say(report)).collect()
    }

    fn say(&mut self, report: &Report) -> Vec<u8> {
        let mut payload = vec![payload::REPORT];
        report.encode(&mut payload);
        self.seal(payload)
    }

    /// A goodbye.
    pub fn close(&mut self) -> Vec<u8> {
        self.seal(vec![payload::CLOSE, CloseReason::Left as u8])
    }

    fn seal(&mut self, mut payload: Vec<u8>) -> Vec<u8> {
        let number = self.sealer.reserve().unwrap();
        let mut datagram = vec![DatagramKind::Up as u8];
        datagram.put_u64(self.connection);
        datagram.put_u32(u32::try_from(number & 0xFFFF_FFFF).unwrap());
        let tag = self.sealer.seal(number, &datagram, &mut payload).unwrap();
        datagram.put(&payload);
        datagram.put(&tag);
        datagram
    }
}
