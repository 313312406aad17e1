//! A relay made by hand, for one client: says exactly what a test tells it to.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::client::session::{Client, Received};
use crate::client::settings::ClientSettings;
use crate::delta::decode::{Change, Entry};
use crate::delta::encode;
use crate::delta::layout::Layout;
use crate::delta::message::Message;
use crate::delta::schema;
use crate::sequence::Tick;
use crate::state::digest::Digest;
use crate::state::entity::{Departure, Entity};
use crate::state::record::{Motion, Record};
use crate::state::rotation::Rotation;
use crate::state::schema::Schema;
use crate::state::schema::tests::full_schema;
use crate::state::slots::Slot;
use crate::state::update::Event;
use crate::window::WindowLimits;
use crate::window::send::{Candidate, SendWindow, WindowReport};
use crate::wire::bits::BitWriter;
use crate::wire::bytes::{ByteReader, ByteWriter};
use crate::wire::handshake::*;
use crate::wire::input::InputsBlock;
use crate::wire::owner::OwnerBlock;
use crate::wire::payload::{self, CloseReason, Welcome, clock_stamp};
use crate::wire::report::Report;
use crate::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use crate::wire::snapshot::{Held, SnapshotHeader};
use crate::wire::stream::StreamSender;
use crate::wire::version::Agreed;

pub(crate) type Table = BTreeMap<Slot, Record>;
pub(crate) type Parts = Vec<Vec<Entry>>;

pub(crate) struct Relay {
    pub(crate) schema: Schema,
    pub(crate) layout: Layout,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    pub(crate) connection: u64,
    pub(crate) agreed: Agreed,
    pub(crate) client_nonce: ClientNonce,
    pub(crate) relay_nonce: [u8; 16],
    pub(crate) window: SendWindow<Parts, Table>,
    pub(crate) stream: StreamSender,
    pub(crate) stream_epoch: u32,
    pub(crate) report: Report,
    pub(crate) closed: Option<CloseReason>,
    /// The inputs of the last Up datagram, with their numbers.
    pub(crate) inputs: Vec<(u32, Vec<u8>)>,
    /// The camera of the last Up datagram.
    pub(crate) camera: Option<[u32; 3]>,
    /// What it said of a challenge.
    pub(crate) answer: Option<payload::PathToken>,
    /// Up datagrams that were padded.
    pub(crate) padded: usize,
    /// Bytes of padding of the last one.
    pub(crate) padding: usize,
}

pub(crate) fn source() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 4000))
}

pub(crate) fn digest(table: &Table) -> [u32; 2] {
    table
        .values()
        .fold(Digest::EMPTY, |sum, record| sum.plus(Digest::of(record)))
        .0
}

pub(crate) fn applied(base: Option<&Table>, entries: &[Entry]) -> Table {
    let mut table = base.cloned().unwrap_or_default();
    for entry in entries {
        match entry.change {
            Change::Update(record) | Change::Complete(record) => drop(table.insert(entry.slot, record)),
            Change::Removed { .. } => drop(table.remove(&entry.slot)),
            Change::Awake => {}
        }
    }
    table
}

/// A record of entity `id`, x steps along the first axis, observed at `us`.
pub(crate) fn record(id: u32, x: u32, us: u64) -> Record {
    let mut record = Record::born(Entity { id, generation: 0 }, 0, 0);
    record.motion = Some(Motion {
        observed_us: us,
        position: [x, 10_000, 10_000],
        rotation: Rotation::identity(9),
        velocity: [0; 3],
        angular: [0; 3],
        at_rest: false,
    });
    record
}

pub(crate) fn complete(slot: Slot, record: Record) -> Entry {
    Entry {
        slot,
        change: Change::Complete(record),
    }
}

pub(crate) fn update(slot: Slot, record: Record) -> Entry {
    Entry {
        slot,
        change: Change::Update(record),
    }
}

pub(crate) fn remove(slot: Slot, departure: Departure, reason: u8) -> Entry {
    let at_us = if departure == Departure::Destroyed {
        500
    } else {
        2_000
    };
    Entry {
        slot,
        change: Change::Removed {
            departure,
            at_us,
            reason,
        },
    }
}

impl Relay {
    pub(crate) fn new(client_nonce: ClientNonce, relay_nonce: [u8; 16], connection: u64) -> Relay {
        Relay::speaking(Agreed::NEWEST, client_nonce, relay_nonce, connection)
    }

    /// A relay that has agreed on this with its client.
    pub(crate) fn speaking(
        agreed: Agreed,
        client_nonce: ClientNonce,
        relay_nonce: [u8; 16],
        connection: u64,
    ) -> Relay {
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce,
            relay_nonce,
            connection,
            agreed,
        };
        let schema = full_schema();
        Relay {
            layout: Layout::new(&schema),
            schema,
            sealer: secrets.sealer(Direction::Down).unwrap(),
            opener: secrets.opener(Direction::Up).unwrap(),
            connection,
            agreed,
            client_nonce,
            relay_nonce,
            window: SendWindow::new(WindowLimits::default()),
            stream: StreamSender::default(),
            stream_epoch: 1,
            report: Report::default(),
            closed: None,
            inputs: Vec::new(),
            camera: None,
            answer: None,
            padded: 0,
            padding: 0,
        }
    }

    /// A relay and a client in a session, with the stream known and the first report heard.
    pub(crate) fn connected(settings: ClientSettings) -> (Relay, Client) {
        let mut relay = Relay::new([1; 16], [2; 16], 77);
        let mut client = Client::new(settings, [1; 16], 0);
        let mut welcome = relay.welcome();
        assert_eq!(client.receive(0, &mut welcome), Received::Welcomed);
        relay.hear_all(0, &mut client);
        assert_eq!((relay.report.stream_epoch, relay.report.session_epoch), (1, 0));
        (relay, client)
    }

    fn welcome_block(&self, out: &mut Vec<u8>) {
        let schema = schema::encode(&self.schema).unwrap();
        Welcome {
            stream_epoch: self.stream_epoch,
            lease_us: 4_000_000,
            idle_us: 30_000_000,
            schema: &schema,
        }
        .encode(out);
    }

    /// A payload of the given blocks, each already encoded, in their order.
    pub(crate) fn payload(now_us: u64, flags: u8, blocks: &[u8]) -> Vec<u8> {
        let mut payload = vec![flags];
        payload.put_u16(clock_stamp(now_us));
        payload.put(blocks);
        payload
    }

    pub(crate) fn welcome_payload(&self) -> Vec<u8> {
        let mut block = Vec::new();
        self.welcome_block(&mut block);
        Relay::payload(0, payload::WELCOME, &block)
    }

    /// A sealed Welcome datagram with the welcome block.
    pub(crate) fn welcome(&mut self) -> Vec<u8> {
        let payload = self.welcome_payload();
        self.seal_welcome(payload)
    }

    pub(crate) fn seal_welcome(&mut self, mut payload: Vec<u8>) -> Vec<u8> {
        let number = self.sealer.reserve().unwrap();
        let mut datagram = Vec::new();
        let header = WelcomeHeader {
            connection: self.connection,
            client_nonce: self.client_nonce,
            relay_nonce: self.relay_nonce,
            number: number as u32,
        };
        put_welcome_header(&mut datagram, &header);
        let tag = self.sealer.seal(number, &datagram, &mut payload).unwrap();
        datagram.put(&payload);
        datagram.put(&tag);
        datagram
    }

    /// A sealed Down datagram.
    pub(crate) fn seal(&mut self, mut payload: Vec<u8>) -> Vec<u8> {
        let number = self.sealer.reserve().unwrap();
        let mut datagram = vec![DatagramKind::Down as u8];
        datagram.put_u32(number as u32);
        let tag = self.sealer.seal(number, &datagram, &mut payload).unwrap();
        datagram.put(&payload);
        datagram.put(&tag);
        datagram
    }

    /// A Down datagram with the welcome block of a new stream.
    pub(crate) fn new_stream(&mut self) -> Vec<u8> {
        self.stream_epoch += 1;
        self.window.restart(&mut Vec::new(), &mut Vec::new());
        let payload = self.welcome_payload();
        self.seal(payload)
    }

    pub(crate) fn close(&mut self, reason: CloseReason) -> Vec<u8> {
        let payload = Relay::payload(0, payload::CLOSE, &[reason as u8]);
        self.seal(payload)
    }

    /// The header of a snapshot on `base` as things stand; one part.
    pub(crate) fn header(&self, id: u32, base: Option<u32>, server_us: u64) -> SnapshotHeader {
        SnapshotHeader {
            stream_epoch: self.stream_epoch,
            session_epoch: self.window.session_epoch(),
            generation: self.window.generation(),
            id: Tick(id),
            part: 0,
            last: true,
            base: base.map(Tick),
            server_us,
            candidate: true,
            view_complete: false,
            stale: false,
            exhaustive: true,
            commit: self.window.open_commit().copied(),
            base_digest: None,
            count: 0,
        }
    }

    /// The body of entries against a table.
    pub(crate) fn body(&self, base: Option<&Table>, entries: &[Entry], server_us: u64) -> Vec<u8> {
        let mut buffer = vec![0; entries.len() * 128 + 16];
        let mut writer = BitWriter::new(&mut buffer);
        let mut previous = None;
        for Entry { slot, change } in entries {
            encode::Gaps::new(&self.layout).put(previous, *slot, &mut writer);
            match change {
                Change::Update(now) => {
                    let base = base.and_then(|base| base.get(slot));
                    encode::entry(&self.layout, base, now, server_us, &mut writer);
                }
                Change::Complete(now) => encode::complete(&self.layout, now, server_us, &mut writer),
                Change::Removed {
                    departure,
                    at_us,
                    reason,
                } => {
                    encode::remove(&self.layout, *departure, *at_us, *reason, server_us, &mut writer);
                }
                Change::Awake => encode::awake(&self.layout, &mut writer),
            }
            previous = Some(*slot);
        }
        let length = writer.finish();
        buffer.truncate(length);
        buffer
    }

    /// The payload of one part; the count of the header is filled in.
    pub(crate) fn part(&self, header: &SnapshotHeader, base: Option<&Table>, entries: &[Entry]) -> Vec<u8> {
        let mut block = Vec::new();
        SnapshotHeader {
            count: entries.len() as u32,
            ..*header
        }
        .encode(&mut block);
        block.put(&self.body(base, entries, header.server_us));
        Relay::payload(header.server_us, payload::SNAPSHOT, &block)
    }

    /// The table of a snapshot that may be named.
    pub(crate) fn table(&self, id: Tick) -> Table {
        self.window
            .find(id)
            .expect("a base the client reported")
            .table
            .clone()
    }

    /// The payloads of a snapshot's parts, remembered as a candidate.
    pub(crate) fn snapshot(&mut self, header: SnapshotHeader, parts: Parts) -> Vec<Vec<u8>> {
        let base = header.base.map(|id| self.table(id));
        let count = parts.len();
        let payloads = parts.iter().zip(0u8..).map(|(entries, part)| {
            let header = SnapshotHeader {
                part,
                last: usize::from(part) + 1 == count,
                ..header
            };
            self.part(&header, base.as_ref(), entries)
        });
        let payloads: Vec<_> = payloads.collect();
        if header.candidate {
            let candidate = Candidate {
                id: header.id,
                base: header.base,
                parts: ((1u64 << count) - 1) as u32,
                server_us: header.server_us,
                contents: parts,
            };
            self.window.offer(candidate, &mut Vec::new());
        }
        payloads
    }

    /// One sealed snapshot of one part.
    pub(crate) fn send(
        &mut self,
        id: u32,
        base: Option<u32>,
        server_us: u64,
        entries: Vec<Entry>,
    ) -> Vec<u8> {
        let header = self.header(id, base, server_us);
        let payload = self.snapshot(header, vec![entries]).remove(0);
        self.seal(payload)
    }

    /// Opens a commit of these snapshots.
    pub(crate) fn commit(&mut self, ids: &[u32]) {
        let held: Vec<Held> = ids
            .iter()
            .map(|id| self.window.find(Tick(*id)).unwrap().held)
            .collect();
        let sum = ids.iter().fold([0u32; 2], |[a, b], id| {
            let [c, d] = digest(&self.table(Tick(*id)));
            [a.wrapping_add(c), b.wrapping_add(d)]
        });
        assert!(self.window.open(&held, sum, 0, &mut Vec::new(), &mut Vec::new()));
    }

    /// Takes an Up datagram: opens it, reads its report, moves the window. True when the report was current.
    pub(crate) fn hear(&mut self, datagram: &[u8]) -> bool {
        let mut datagram = datagram.to_vec();
        let (header, sealed) = datagram.split_at_mut(UP_HEADER_BYTES);
        let mut reader = ByteReader::new(header);
        assert_eq!(reader.u8().unwrap(), DatagramKind::Up as u8);
        assert_eq!(reader.u64().unwrap(), self.connection);
        let low = reader.u32().unwrap();
        let Ok((_, payload)) = self.opener.open(low, header, sealed) else {
            return false;
        };
        let mut reader = ByteReader::new(payload);
        let flags = payload::flags(&mut reader, payload::up_flags(self.agreed)).unwrap();
        if flags & payload::CLOSE != 0 {
            self.closed = CloseReason::from_code(reader.u8().unwrap());
        }
        if flags & payload::REPORT == 0 {
            return false;
        }
        self.report.decode_into(&mut reader).unwrap();
        self.inputs.clear();
        if flags & payload::INPUTS != 0 {
            let block = InputsBlock::read(&mut reader).unwrap();
            let inputs = block.iter().map(|(number, payload)| (number, payload.to_vec()));
            self.inputs.extend(inputs);
        }
        self.camera = (flags & payload::CAMERA != 0).then(|| core::array::from_fn(|_| reader.u32().unwrap()));
        self.answer = (flags & payload::PATH_ANSWER != 0).then(|| reader.array().unwrap());
        self.padding = if flags & payload::PADDING == 0 {
            0
        } else {
            reader.rest().len()
        };
        self.padded += usize::from(self.padding > 0);
        if flags & payload::PADDING != 0 {
            payload::read_padding(&mut reader).unwrap();
        }
        reader.end().unwrap();
        let report = WindowReport {
            session_epoch: self.report.session_epoch,
            generation: self.report.generation,
            held: self.report.held.as_slice(),
            ask: self.report.ask,
            refuse: self.report.refuse,
        };
        let build = |candidate: &Candidate<Parts>, mask: u32, base: Option<&Table>| {
            let parts = candidate
                .contents
                .iter()
                .zip(0..)
                .filter(|(_, part)| mask >> part & 1 == 1);
            parts.fold(base.cloned().unwrap_or_default(), |table, (entries, _)| {
                applied(Some(&table), entries)
            })
        };
        let outcome = self.window.receive(report, build, &mut Vec::new());
        assert_eq!(outcome.contradicted, 0, "an honest client never contradicts");
        if outcome.restart.is_some() {
            self.window.restart(&mut Vec::new(), &mut Vec::new());
        }
        self.stream.acknowledge(self.report.next_message);
        !outcome.stale
    }

    /// Takes everything the client has to say at `now_us`.
    pub(crate) fn hear_all(&mut self, now_us: u64, client: &mut Client) -> usize {
        let (mut out, mut count) = (Vec::new(), 0);
        while client.poll_transmit(now_us, &mut out) {
            self.hear(&out);
            count += 1;
        }
        count
    }

    pub(crate) fn push_event(&mut self, kind: u16, entity: Option<Entity>) {
        self.push_event_at(kind, entity, 5);
    }

    pub(crate) fn push_event_at(&mut self, kind: u16, entity: Option<Entity>, at_us: u64) {
        let event = Event {
            kind,
            critical: false,
            entity,
            at_us,
            payload: vec![1, 2],
        };
        let mut bytes = Vec::new();
        Message::Event(event).encode(&mut bytes);
        self.stream.push(&bytes).unwrap();
    }

    /// Queues a message to this client.
    pub(crate) fn push_message(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.stream.push(&bytes).unwrap();
    }

    /// A sealed Down datagram that challenges the client's address.
    pub(crate) fn challenge(&mut self, token: payload::PathToken) -> Vec<u8> {
        self.seal(Relay::payload(0, payload::PATH_CHALLENGE, &token))
    }

    /// A sealed Down datagram that acknowledges the inputs before this one.
    pub(crate) fn inputs_ack(&mut self, next: u32) -> Vec<u8> {
        let mut block = Vec::new();
        block.put_varint(next);
        self.seal(Relay::payload(0, payload::INPUTS_ACK, &block))
    }

    /// The payload of an owner block with this record bits.
    pub(crate) fn owner_payload(
        &self,
        stream_epoch: u32,
        tick: u32,
        processed: u32,
        record: &[u8],
    ) -> Vec<u8> {
        let mut block = Vec::new();
        OwnerBlock {
            stream_epoch,
            tick: Tick(tick),
            server_us: u64::from(tick) * 1_000,
            processed,
            record,
        }
        .encode(&mut block);
        Relay::payload(0, payload::OWNER, &block)
    }

    /// A sealed Down datagram with the owner's state at a tick.
    pub(crate) fn owner(&mut self, tick: u32, processed: u32, slot: Slot, record: Record) -> Vec<u8> {
        let body = self.body(None, &[complete(slot, record)], u64::from(tick) * 1_000);
        let payload = self.owner_payload(self.stream_epoch, tick, processed, &body);
        self.seal(payload)
    }

    /// Queues the message that says of which stream the events behind it are.
    pub(crate) fn push_stream(&mut self, epoch: u32) {
        let mut bytes = Vec::new();
        Message::Stream(epoch).encode(&mut bytes);
        self.stream.push(&bytes).unwrap();
    }

    /// A Down datagram with the messages that are due.
    pub(crate) fn messages(&mut self, now_us: u64) -> Vec<u8> {
        let mut block = Vec::new();
        assert!(self.stream.put_block(now_us, 100_000, 1000, &mut block));
        self.seal(Relay::payload(now_us, payload::MESSAGES, &block))
    }
}

/// The ids held by the client, rising.
pub(crate) fn held(client: &Client) -> Vec<u32> {
    let mut ids: Vec<u32> = client.tables().map(|(held, _)| held.id.0).collect();
    ids.sort_unstable();
    ids
}

/// A held table of the client as a map.
pub(crate) fn table_of(client: &Client, id: u32) -> Option<Table> {
    let view = client.tables().find(|(held, _)| held.id == Tick(id))?.1;
    Some(view.records().collect())
}

/// The x of an entity on the display.
pub(crate) fn shown_x(client: &Client, slot: Slot) -> Option<u32> {
    Some(client.display().known(slot)?.record.motion?.position[0])
}
