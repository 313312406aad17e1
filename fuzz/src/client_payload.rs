//! A hostile relay: payloads under the session's real key, snapshots that lie (THREATS 33..58, 66..78). Nothing
//! panics; the window keeps its bounds; every table is its base plus the parts taken, every value one the schema
//! can produce; what is refused leaves the client equal.

use std::collections::BTreeMap;

use ackline::client::inbox::ClientEvent;
use ackline::client::refusal::Refusal;
use ackline::client::session::{Client, Received, SessionState};
use ackline::client::settings::ClientSettings;
use ackline::delta::schema;
use ackline::limits::{DATAGRAM_MAX, WINDOW_SLOTS};
use ackline::sequence::Tick;
use ackline::state::schema::Schema;
use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::handshake::{
    COOKIE_BYTES, DatagramKind, UP_HEADER_BYTES, WelcomeHeader, put_challenge, put_welcome_header,
};
use ackline::wire::input::InputsBlock;
use ackline::wire::owner::OwnerBlock;
use ackline::wire::payload::{self, Welcome};
use ackline::wire::report::Report;
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use ackline::wire::snapshot::SnapshotHeader;
use ackline::wire::version::{Agreed, PROTOCOL_VERSION};

use super::client_datagram::{fingerprint, replica_fingerprint};
use super::records::{self, Table};
use super::stage::stage_schema;
use super::tape::Tape;

mod lies;

const NONCE: [u8; 16] = [7; 16];
const RELAY_NONCE: [u8; 16] = [8; 16];
const STEPS: usize = 64;
/// Events a client keeps for its game at the most.
const TOLD_MAX: usize = 128;

struct Play {
    client: Client,
    sealer: Sealer,
    opener: Opener,
    now_us: u64,
    schemas: [Schema; 2],
    /// The tables the client must hold, by snapshot: base id, mask, records.
    shadow: BTreeMap<u32, (u32, Table)>,
    /// Parts that a report has named, by snapshot.
    fixed: BTreeMap<u32, u32>,
    epoch: (u32, u32),
    /// The stream that the session epoch is of.
    epoch_stream: u32,
    next_id: Tick,
    server_us: u64,
    next_message: u32,
    /// Inputs that the client's game has pushed.
    pushed: u32,
}

pub fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    let mut play = Play::begin(&mut tape);
    for _ in 0..STEPS {
        if tape.is_over() || play.client.state() != SessionState::Connected {
            break;
        }
        play.step(&mut tape);
        play.check();
    }
}

impl Play {
    /// A client that this relay has welcomed.
    fn begin(tape: &mut Tape<'_>) -> Play {
        let mut client = Client::new(ClientSettings::default(), NONCE, 1_000_000);
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce: NONCE,
            relay_nonce: RELAY_NONCE,
            connection: 77,
            agreed: Agreed::NEWEST,
        };
        let (mut out, mut answer) = (Vec::new(), Vec::new());
        assert!(client.poll_transmit(1_000_000, &mut out));
        put_challenge(&mut answer, PROTOCOL_VERSION, &NONCE, &[3; COOKIE_BYTES]);
        assert_eq!(client.receive(1_000_000, &mut answer), Received::Challenged);
        assert!(client.poll_transmit(1_000_000, &mut out));
        let second = if tape.one_in(2) {
            records::schema(tape)
        } else {
            stage_schema(2)
        };
        let mut play = Play {
            client,
            sealer: secrets.sealer(Direction::Down).unwrap(),
            opener: secrets.opener(Direction::Up).unwrap(),
            now_us: 1_000_000,
            schemas: [stage_schema(1), second],
            shadow: BTreeMap::new(),
            fixed: BTreeMap::new(),
            epoch: (0, 0),
            epoch_stream: 0,
            next_id: [Tick(100), Tick(u32::MAX - 5)][tape.below(2) as usize],
            server_us: 1_000_000,
            next_message: 0,
            pushed: 0,
        };
        let mut bytes = vec![payload::WELCOME, 0, 0];
        play.put_welcome(1, &mut bytes);
        let mut welcome = play.seal(&bytes, true, 0);
        assert_eq!(play.client.receive(1_000_000, &mut welcome), Received::Welcomed);
        play
    }

    fn seal(&mut self, payload: &[u8], as_welcome: bool, skip: u32) -> Vec<u8> {
        for _ in 0..skip {
            let _ = self.sealer.reserve();
        }
        let number = self.sealer.reserve().unwrap();
        let mut out = Vec::new();
        if as_welcome {
            let header = WelcomeHeader {
                connection: 77,
                client_nonce: NONCE,
                relay_nonce: RELAY_NONCE,
                number: number as u32,
            };
            put_welcome_header(&mut out, &header);
        } else {
            out.put_u8(DatagramKind::Down as u8);
            out.put_u32(number as u32);
        }
        let header = out.clone();
        out.put(payload);
        let tag = self
            .sealer
            .seal(number, &header, &mut out[header.len()..])
            .unwrap();
        out.put(&tag);
        out
    }

    /// The schema of a stream: they alternate.
    fn schema(&self, stream_epoch: u32) -> &Schema {
        &self.schemas[((stream_epoch + 1) % 2) as usize]
    }

    fn put_welcome(&self, stream_epoch: u32, out: &mut Vec<u8>) {
        let bytes = schema::encode(self.schema(stream_epoch)).unwrap();
        Welcome {
            stream_epoch,
            lease_us: 4_000_000,
            idle_us: 30_000_000,
            schema: &bytes,
        }
        .encode(out);
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(8) {
            0..=4 => self.send(tape),
            5 => self.listen(tape),
            6 => {
                let bytes = tape.block(400).to_vec();
                self.deliver(&bytes, tape);
            }
            _ => match tape.below(6) {
                4 => {
                    if let Ok(number) = self.client.push_input(tape.block(70)) {
                        assert_eq!(number, self.pushed + 1, "inputs are numbered in order");
                        self.pushed = number;
                    }
                }
                5 => drop(self.client.set_camera([f64::from(tape.u8()), 1.0, -1.0])),
                0 => self.client.request_full_state(self.now_us),
                1 => while self.client.poll_event().is_some() {},
                2 => self.now_us += 100_000 * u64::from(tape.u8()),
                _ => self.server_us += 1_000 * u64::from(tape.u16()),
            },
        }
    }

    /// One payload of any blocks.
    fn send(&mut self, tape: &mut Tape<'_>) {
        let blocks = tape.u8();
        let (mut flags, mut bytes) = (0, vec![0, 0, 0]);
        let mut stream_epoch = self.client.stream_epoch();
        if blocks >> 4 == 15 {
            flags |= payload::CLOSE;
            bytes.push(1 + blocks % 6);
        }
        if blocks & 8 != 0 {
            flags |= payload::WELCOME;
            stream_epoch = stream_epoch
                .saturating_add(tape.below(3))
                .saturating_sub(tape.below(2));
            self.put_welcome(stream_epoch, &mut bytes);
        }
        if blocks & 16 != 0 {
            flags |= payload::INPUTS_ACK;
            bytes.put_varint(self.pushed.wrapping_add(2).wrapping_sub(tape.below(4)));
        }
        if blocks & 32 != 0 {
            flags |= payload::OWNER;
            self.put_owner(tape, stream_epoch, &mut bytes);
        }
        if blocks & 4 != 0 {
            flags |= payload::MESSAGES;
            self.put_messages(tape, &mut bytes);
        }
        if blocks & 3 != 3 {
            flags |= payload::SNAPSHOT;
            let header = self.header(tape, stream_epoch);
            let (body, count) = self.body(tape, &header);
            let header = SnapshotHeader { count, ..header };
            header.encode(&mut bytes);
            bytes.extend(body);
        }
        bytes[0] = flags;
        if tape.one_in(8) {
            tape.damage(&mut bytes);
        }
        self.deliver(&bytes, tape);
    }

    /// Gives the client a sealed payload and checks what it made of it.
    fn deliver(&mut self, bytes: &[u8], tape: &mut Tape<'_>) {
        let skip = [0, 0, 0, 2, 40, 1030][tape.below(6) as usize];
        let (before, replica) = (fingerprint(&self.client), replica_fingerprint(&self.client));
        let refusing = self.client.refusing();
        let mut datagram = self.seal(bytes, tape.one_in(16), skip);
        let mut again = datagram.clone();
        let received = self.client.receive(self.now_us, &mut datagram);
        match received {
            Received::Snapshot { stored, .. } => {
                let header = read_header(bytes).expect("a snapshot was taken");
                self.follow(&header, stored);
            }
            Received::Refused(Refusal::Window(_) | Refusal::UnknownStream | Refusal::DistrustedBase) => {
                assert!(self.client.decoded().next().is_none());
                if bytes[0] == payload::SNAPSHOT {
                    assert_eq!(
                        replica_fingerprint(&self.client),
                        replica,
                        "a refused snapshot changes nothing"
                    );
                }
            }
            Received::Refused(refusal) => {
                assert_eq!(
                    fingerprint(&self.client),
                    before,
                    "{refusal:?} changed something (TAB2)"
                );
                assert_eq!(self.client.refusing(), refusing, "{refusal:?}");
            }
            _ => {}
        }
        if tape.one_in(16) {
            let before = fingerprint(&self.client);
            let repeated = self.client.receive(self.now_us, &mut again);
            assert!(
                matches!(repeated, Received::Refused(_)),
                "a datagram counts once (THREATS 26)"
            );
            assert_eq!(fingerprint(&self.client), before);
        }
    }

    /// Does to the shadow what a taken part does to the client's tables.
    fn follow(&mut self, header: &SnapshotHeader, stored: bool) {
        let now = (self.client.session_epoch(), self.client.generation());
        assert!(now >= self.epoch, "epoch and generation never fall (WIN7)");
        assert_eq!(
            now,
            (header.session_epoch, header.generation),
            "a part is of the client's own window"
        );
        let entries = self.client.decoded().collect::<Vec<_>>();
        let base = header
            .base
            .map(|base| self.shadow.get(&base.0).expect("a base that is held (TAB1)"));
        let mut table = base.map(|(_, table)| table.clone()).unwrap_or_default();
        if now.0 > self.epoch.0 {
            assert!(header.base.is_none());
            self.shadow.clear();
            self.fixed.clear();
            self.epoch_stream = header.stream_epoch;
        } else if now.1 > self.epoch.1 {
            let commit = header.commit.expect("a generation begins with its commit (WIN6)");
            self.shadow.retain(|id, _| commit.find(Tick(*id)).is_some());
            self.fixed.retain(|id, _| commit.find(Tick(*id)).is_some());
            assert_eq!(
                self.shadow.len(),
                commit.set().len(),
                "the whole set is held (WIN3)"
            );
        }
        self.epoch = now;
        assert_eq!(
            header.stream_epoch, self.epoch_stream,
            "a session epoch is of one stream (ID1)"
        );
        if !stored {
            return;
        }
        match self.shadow.get_mut(&header.id.0) {
            Some((mask, held)) => {
                assert!(
                    !self.fixed.contains_key(&header.id.0),
                    "a reported table never changes (TAB8)"
                );
                *mask |= 1 << header.part;
                records::apply(held, &entries);
            }
            None => {
                records::apply(&mut table, &entries);
                self.shadow.insert(header.id.0, (1 << header.part, table));
            }
        }
    }

    /// Time goes on; what the client says must be in its one form and true.
    fn listen(&mut self, tape: &mut Tape<'_>) {
        self.now_us += 1_000 * u64::from(tape.u8());
        let mut out = Vec::new();
        for _ in 0..4 {
            if !self.client.poll_transmit(self.now_us, &mut out) {
                return;
            }
            assert!(out.len() <= DATAGRAM_MAX);
            let (clear, sealed) = out.split_at_mut(UP_HEADER_BYTES);
            let low = u32::from_le_bytes(*clear.last_chunk().unwrap());
            let (_, payload) = self
                .opener
                .open(low, clear, sealed)
                .expect("the client's own key");
            assert_eq!(
                payload[0] & !(payload::INPUTS | payload::CAMERA | payload::PATH_ANSWER),
                payload::REPORT
            );
            let flags = payload[0];
            let mut report = Report::default();
            let mut reader = ByteReader::new(&payload[1..]);
            let read = report.decode_into(&mut reader);
            let ids: Vec<u32> = self.shadow.keys().copied().collect();
            // Ids a lie has put further apart than half the range have no order, so there is no report of them.
            let apart = |a: &u32| ids.iter().any(|b| a.wrapping_sub(*b).cast_signed() == i32::MIN);
            let spread = ids.iter().any(|a| {
                apart(a)
                    || ids.iter().any(|b| {
                        ids.iter().any(|c| {
                            Tick(*a).is_after(Tick(*b))
                                && Tick(*b).is_after(Tick(*c))
                                && !Tick(*a).is_after(Tick(*c))
                        })
                    })
            });
            if spread {
                continue;
            }
            assert_eq!(read, Ok(()), "a report can be read");
            if flags & payload::INPUTS != 0 {
                let block = InputsBlock::read(&mut reader).expect("inputs");
                let last = block.iter().last().map_or(0, |(number, _)| number);
                assert!(last <= self.pushed, "an input that nobody pushed");
            }
            if flags & payload::CAMERA != 0 {
                reader.bytes(12).expect("a camera");
            }
            if flags & payload::PATH_ANSWER != 0 {
                reader.bytes(8).expect("an answer");
            }
            reader.end().expect("nothing behind it");
            assert!(report.held.as_slice().len() <= WINDOW_SLOTS);
            assert_eq!((report.session_epoch, report.generation), {
                (self.client.session_epoch(), self.client.generation())
            });
            for held in report.held.as_slice() {
                let known = self.shadow.get(&held.id.0).map(|(mask, _)| *mask);
                assert_eq!(known, Some(held.mask), "held is what is held (WIN1)");
                let fixed = *self.fixed.entry(held.id.0).or_insert(held.mask);
                assert_eq!(fixed, held.mask, "the first report fixes the parts (TAB8)");
            }
            assert_eq!(report.refuse, self.client.refusing());
        }
    }

    fn check(&mut self) {
        if self.client.state() != SessionState::Connected {
            // What a farewell carried was taken, but is not followed here.
            return;
        }
        let mut held = 0;
        for (which, table) in self.client.tables() {
            held += 1;
            let (mask, expected) = self
                .shadow
                .get(&which.id.0)
                .expect("a table of a part that was taken");
            assert_eq!(*mask, which.mask);
            let same = table
                .records()
                .eq(expected.iter().map(|(slot, record)| (*slot, *record)));
            assert!(same, "table {} is its base plus its parts (TAB2)", which.id);
        }
        assert!(held <= WINDOW_SLOTS, "THREATS 47");
        assert_eq!(held, self.shadow.len());
        if let Some(schema) = self.client.schema() {
            for (_, record, _) in self.client.display().records() {
                records::assert_within(&record, schema);
            }
            if let Some(owner) = self.client.owner() {
                records::assert_within(&owner.record, schema);
            }
        }
        let mut told = Vec::new();
        while let Some(event) = self.client.poll_event() {
            told.push(event);
        }
        assert!(told.len() <= TOLD_MAX);
        let closed = told
            .iter()
            .filter(|event| matches!(event, ClientEvent::Closed(_)))
            .count();
        assert!(closed <= 1);
    }
}

/// The snapshot header of a payload, if it has one that can be read.
fn read_header(bytes: &[u8]) -> Option<SnapshotHeader> {
    let mut reader = ByteReader::new(bytes);
    let flags = reader.u8().ok()?;
    reader.u16().ok()?;
    if flags & payload::CLOSE != 0 {
        reader.u8().ok()?;
    }
    if flags & payload::PATH_CHALLENGE != 0 {
        reader.bytes(8).ok()?;
    }
    if flags & payload::WELCOME != 0 {
        Welcome::decode(&mut reader).ok()?;
    }
    if flags & payload::INPUTS_ACK != 0 {
        reader.varint().ok()?;
    }
    if flags & payload::OWNER != 0 {
        OwnerBlock::decode(&mut reader).ok()?;
    }
    if flags & payload::MESSAGES != 0 {
        ackline::wire::stream::skip_block(&mut reader).ok()?;
    }
    if flags & payload::SNAPSHOT == 0 {
        return None;
    }
    SnapshotHeader::decode(&mut reader).ok()
}
