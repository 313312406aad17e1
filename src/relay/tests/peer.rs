//! The relay's side of a test, and a peer that can lie.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::delta::schema;
use crate::limits::DATAGRAM_MAX;
use crate::relay::arena::tests::{moved, world};
use crate::relay::budget::Budget;
use crate::relay::outbox::{MemoryOutbox, Outbox, Path};
use crate::relay::session::Session;
use crate::relay::shard::{Receipt, Shard, ShardSettings};
use crate::sequence::Tick;
use crate::state::coding::Coding;
use crate::state::schema::Schema;
use crate::state::schema::tests::full_schema;
use crate::state::update::TickUpdate;
use crate::state::world::World;
use crate::token::ConnectToken;
use crate::wire::bytes::{ByteReader, ByteWriter};
use crate::wire::handshake::*;
use crate::wire::owner::OwnerBlock;
use crate::wire::payload::{self, CloseReason, PathToken, Welcome};
use crate::wire::report::{HeldList, Report};
use crate::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use crate::wire::snapshot::{Held, SnapshotHeader};
use crate::wire::stream;
use crate::wire::version::{Agreed, PROTOCOL_VERSION, Versions};

pub(super) const PERIOD_US: u64 = 50_000;

pub(super) type Datagrams = Vec<(Path, Vec<u8>)>;

pub(super) fn path(port: u16) -> Path {
    Path {
        remote: SocketAddr::from(([127, 0, 0, 1], port)),
        local: None,
    }
}

/// A shard, its world, and a clock.
pub(super) struct Rig {
    pub(super) shard: Shard,
    pub(super) world: World,
    pub(super) tick: Tick,
    pub(super) now_us: u64,
    pub(super) server_us: u64,
    pub(super) period_us: u64,
    /// How the next stream codes records.
    pub(super) coding: Coding,
    schema: Vec<u8>,
}

impl Rig {
    /// A shard that was just given its first frame: `entities`, numbered `first`.
    pub(super) fn new(entities: u32, first: Tick) -> Rig {
        Rig::with(entities, first, |_| {})
    }

    pub(super) fn with(entities: u32, first: Tick, change: impl FnOnce(&mut ShardSettings)) -> Rig {
        let mut settings = ShardSettings {
            egress_bytes_per_s: None,
            view: crate::state::view::View::WHOLE,
            index: 0,
            sessions_max: 1_000,
            budget: Budget::default(),
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: [1; 32],
            seed: [2; 32],
            stopwatch: || 0,
        };
        change(&mut settings);
        let (world, frame) = world(entities, first);
        let schema = schema::encode(&full_schema()).unwrap();
        let mut shard = Shard::new(settings);
        shard.publish(frame, &schema);
        Rig {
            shard,
            world,
            tick: first,
            now_us: 1_000_000,
            server_us: 0,
            period_us: PERIOD_US,
            coding: Coding::Plain,
            schema,
        }
    }

    /// The next tick: an update, then everything that is due.
    pub(super) fn turn(&mut self, change: impl FnOnce(u64) -> TickUpdate) -> Datagrams {
        self.now_us += self.period_us;
        self.publish(change);
        self.due()
    }

    /// The next tick, after which nobody is served yet.
    pub(super) fn publish(&mut self, change: impl FnOnce(u64) -> TickUpdate) {
        self.server_us += self.period_us;
        self.tick = self.tick.next();
        let frame = self
            .world
            .advance(self.tick, &change(self.server_us))
            .expect("a good tick");
        self.shard.publish(frame, &self.schema);
    }

    /// The next tick, in which the first `count` entities move and nobody is served yet.
    pub(super) fn publish_moving(&mut self, count: u32) {
        let x = self.tick.0 % 20_000;
        self.publish(|us| moved(us, 0..count, x));
    }

    /// The next tick in which the first `count` entities move.
    pub(super) fn turn_moving(&mut self, count: u32) -> Datagrams {
        let x = self.tick.0 % 20_000;
        self.turn(|us| moved(us, 0..count, x))
    }

    pub(super) fn due(&mut self) -> Datagrams {
        let mut outbox = MemoryOutbox::default();
        assert!(!self.shard.transmit(self.now_us, &mut outbox));
        self.shard.timers(self.now_us, &mut outbox);
        outbox.sent
    }

    /// The origin comes back with another epoch and `entities` of a new world.
    pub(super) fn restart_origin(&mut self, entities: u32) -> Datagrams {
        let stream = self.shard.arena().newest().unwrap().stream_epoch + 1;
        let (source, _) = world(entities, Tick(0));
        let schema = Schema {
            coding: self.coding.clone(),
            ..full_schema()
        };
        self.schema = schema::encode(&schema).unwrap();
        self.world = World::new(Arc::new(schema), stream, 520);
        self.server_us = 0;
        let keyframe = source.keyframe(1);
        self.turn(|us| TickUpdate {
            server_us: us,
            ..keyframe
        })
    }

    pub(super) fn hear(&mut self, from: Path, datagram: &[u8]) -> (Receipt, Datagrams) {
        let mut outbox = MemoryOutbox::default();
        let receipt = self
            .shard
            .receive(self.now_us, from, &mut datagram.to_vec(), &mut outbox);
        (receipt, outbox.sent)
    }

    /// Takes a datagram that must be refused without a word.
    pub(super) fn refuses(&mut self, from: Path, datagram: &[u8]) {
        let (receipt, answers) = self.hear(from, datagram);
        assert!(!matches!(receipt, Receipt::Taken), "{receipt:?}: {datagram:02x?}");
        assert!(answers.is_empty(), "silence outside");
    }

    pub(super) fn session(&self, connection: u64) -> &Session {
        self.shard
            .sessions()
            .find(|session| session.connection == connection)
            .expect("the session is open")
    }

    pub(super) fn has(&self, connection: u64) -> bool {
        self.shard
            .sessions()
            .any(|session| session.connection == connection)
    }
}

/// A client that reads headers.
pub(super) struct Peer {
    pub(super) nonce: ClientNonce,
    pub(super) path: Path,
    pub(super) connection: u64,
    pub(super) relay_nonce: [u8; 16],
    pub(super) sealer: Sealer,
    opener: Opener,
    /// Every datagram number opened, in order of arrival.
    pub(super) numbers: Vec<u64>,
    /// Key and number of each.
    pub(super) nonces: Vec<([u8; 32], u64)>,
    /// The header of every part, in order of arrival.
    pub(super) headers: Vec<SnapshotHeader>,
    pub(super) bytes: usize,
    /// Datagrams with messages, and with the state of its own entity.
    pub(super) messages: usize,
    pub(super) owner_states: usize,
    pub(super) inputs_acknowledged: Option<u32>,
    pub(super) closed: Option<CloseReason>,
    /// The newest challenge of where it is.
    pub(super) challenge: Option<PathToken>,
    pub(super) stream_epoch: u32,
    pub(super) session_epoch: u32,
    pub(super) generation: u32,
    held: BTreeMap<u32, u32>,
    /// Which parts it takes: all by default.
    pub(super) takes: fn(&SnapshotHeader) -> bool,
}

impl Peer {
    /// Goes through the handshake.
    pub(super) fn join(rig: &mut Rig, port: u16) -> Peer {
        let nonce = [u8::try_from(port % 251).unwrap(); 16];
        Peer::join_with(rig, port, nonce)
    }

    pub(super) fn join_with(rig: &mut Rig, port: u16, nonce: ClientNonce) -> Peer {
        Peer::try_join(rig, path(port), nonce, None).unwrap()
    }

    /// Goes through the handshake with a token, or says why it was denied.
    pub(super) fn try_join(
        rig: &mut Rig,
        from: Path,
        nonce: ClientNonce,
        token: Option<&ConnectToken>,
    ) -> Result<Peer, Denial> {
        Peer::join_speaking(rig, from, nonce, token, Agreed::NEWEST)
    }

    /// The same in a version, by a client that thinks it was offered so much.
    pub(super) fn join_speaking(
        rig: &mut Rig,
        from: Path,
        nonce: ClientNonce,
        token: Option<&ConnectToken>,
        agreed: Agreed,
    ) -> Result<Peer, Denial> {
        let (mut peer, mut welcome) = Peer::knock(rig, from, nonce, token, agreed)?;
        assert!(peer.take(&mut welcome), "sealed with the key of the token");
        Ok(peer)
    }

    /// A client that cannot open its Welcome, since it thinks that something else was agreed on.
    pub(super) fn join_unread(rig: &mut Rig, from: Path, nonce: ClientNonce, agreed: Agreed) -> Peer {
        let (mut peer, mut welcome) = Peer::knock(rig, from, nonce, None, agreed).unwrap();
        assert!(!peer.take(&mut welcome));
        peer
    }

    fn knock(
        rig: &mut Rig,
        from: Path,
        nonce: ClientNonce,
        token: Option<&ConnectToken>,
        agreed: Agreed,
    ) -> Result<(Peer, Vec<u8>), Denial> {
        let mut bytes = Vec::new();
        let sealed = token.map_or(&[][..], |token| &token.sealed);
        put_response(
            &mut bytes,
            agreed.version,
            &nonce,
            &cookie(rig, from, nonce),
            sealed,
        );
        let (receipt, answers) = rig.hear(from, &bytes);
        assert_eq!(receipt, Receipt::Taken);
        let (to, welcome) = answers.into_iter().next().expect("a Welcome");
        assert_eq!(to, from);
        if let Ok((_, echo, denial)) = read_denied(&welcome[1..])
            && welcome[0] == DatagramKind::Denied as u8
        {
            assert_eq!(echo, nonce);
            return Err(denial);
        }
        let header = read_welcome_header(&mut ByteReader::new(&welcome)).unwrap();
        assert_eq!(header.client_nonce, nonce);
        let secrets = Secrets {
            token_key: token.map_or(INSECURE_TOKEN_KEY, |token| token.secret.0),
            client_nonce: nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed,
        };
        let peer = Peer {
            nonce,
            path: from,
            connection: header.connection,
            relay_nonce: header.relay_nonce,
            sealer: secrets.sealer(Direction::Up).unwrap(),
            opener: secrets.opener(Direction::Down).unwrap(),
            numbers: Vec::new(),
            nonces: Vec::new(),
            headers: Vec::new(),
            bytes: 0,
            messages: 0,
            owner_states: 0,
            inputs_acknowledged: None,
            closed: None,
            challenge: None,
            stream_epoch: 0,
            session_epoch: 0,
            generation: 0,
            held: BTreeMap::new(),
            takes: |_| true,
        };
        Ok((peer, welcome))
    }

    /// Passes over datagram numbers of the relay's direction.
    pub(super) fn skip_numbers(&mut self, to: u64) {
        self.opener.skip_to(to);
    }

    /// Takes whatever of this is for it.
    pub(super) fn take_all(&mut self, datagrams: &Datagrams) {
        for (to, bytes) in datagrams {
            if *to == self.path {
                self.take(&mut bytes.clone());
            }
        }
    }

    /// Opens and reads one datagram; false when it is not of this session.
    pub(super) fn take(&mut self, datagram: &mut [u8]) -> bool {
        let clear = match DatagramKind::from_byte(datagram[0]) {
            Some(DatagramKind::Welcome) => WELCOME_HEADER_BYTES,
            Some(DatagramKind::Down) => DOWN_HEADER_BYTES,
            other => panic!("{other:?} in a session"),
        };
        let length = datagram.len();
        assert!(length <= crate::limits::DATAGRAM_MAX);
        let (clear, sealed) = datagram.split_at_mut(clear);
        let low = u32::from_le_bytes(clear[clear.len() - 4..].try_into().unwrap());
        let Ok((number, payload)) = self.opener.open(low, clear, sealed) else {
            return false;
        };
        self.numbers.push(number);
        self.nonces
            .extend(self.opener.key_of(number).map(|key| (key, number)));
        self.bytes += length;
        let mut reader = ByteReader::new(payload);
        let known = payload::CLOSE
            | payload::WELCOME
            | payload::MESSAGES
            | payload::SNAPSHOT
            | payload::OWNER
            | payload::INPUTS_ACK
            | payload::PATH_CHALLENGE;
        let flags = payload::flags(&mut reader, known).unwrap();
        reader.u16().unwrap();
        if flags & payload::CLOSE != 0 {
            self.closed = CloseReason::from_code(reader.u8().unwrap());
        }
        if flags & payload::PATH_CHALLENGE != 0 {
            assert_eq!(flags, payload::PATH_CHALLENGE, "it goes alone");
            self.challenge = Some(reader.array().unwrap());
        }
        if flags & payload::WELCOME != 0 {
            self.stream_epoch = Welcome::decode(&mut reader).unwrap().stream_epoch;
        }
        if flags & payload::INPUTS_ACK != 0 {
            self.inputs_acknowledged = Some(reader.varint().unwrap());
        }
        if flags & payload::OWNER != 0 {
            OwnerBlock::decode(&mut reader).unwrap();
            self.owner_states += 1;
        }
        if flags & payload::MESSAGES != 0 {
            self.messages += 1;
            stream::skip_block(&mut reader).unwrap();
        }
        if flags & payload::SNAPSHOT != 0 {
            let header = SnapshotHeader::decode(&mut reader).unwrap();
            self.headers.push(header);
            if (self.takes)(&header) {
                self.hold(&header);
            }
        }
        true
    }

    /// The client's window in short, digests believed.
    fn hold(&mut self, header: &SnapshotHeader) {
        if header.session_epoch > self.session_epoch {
            assert!(header.base.is_none() && header.commit.is_none());
            self.held.clear();
            (self.session_epoch, self.generation) = (header.session_epoch, header.generation);
        }
        if header.session_epoch < self.session_epoch || header.generation < self.generation {
            return;
        }
        if header.generation > self.generation {
            let commit = header.commit.expect("the next generation comes with its commit");
            self.held.retain(|id, _| commit.find(Tick(*id)).is_some());
            self.generation = header.generation;
        }
        if let Some(base) = header.base {
            assert!(self.held.contains_key(&base.0), "only what was reported is named");
        }
        if header.candidate && self.held.len() < crate::limits::WINDOW_SLOTS {
            *self.held.entry(header.id.0).or_default() |= 1 << header.part;
        }
    }

    /// What an honest client would report now; it measures neither loss nor round trips.
    pub(super) fn report(&self) -> Report {
        let mut ids: Vec<(u32, u32)> = self.held.iter().map(|(id, mask)| (*id, *mask)).collect();
        let any = ids.first().map_or(0, |(id, _)| *id);
        ids.sort_by_key(|(id, _)| core::cmp::Reverse(Tick(*id).since(Tick(any))));
        let mut held = HeldList::default();
        for (id, mask) in &ids {
            assert!(held.push(Held {
                id: Tick(*id),
                mask: *mask
            }));
        }
        Report {
            session_epoch: self.session_epoch,
            generation: self.generation,
            stream_epoch: self.stream_epoch,
            ask: ids.len() >= crate::limits::WINDOW_ASK_AT,
            held,
            ..Report::default()
        }
    }

    /// A datagram with a report.
    pub(super) fn say(&mut self, report: &Report) -> Vec<u8> {
        let mut payload = vec![payload::REPORT];
        report.encode(&mut payload);
        self.up(payload)
    }

    /// An honest report, padded by so many bytes.
    pub(super) fn padded(&mut self, bytes: usize) -> Vec<u8> {
        let mut payload = vec![payload::REPORT | payload::PADDING];
        self.report().encode(&mut payload);
        payload.resize(payload.len() + bytes, 0);
        self.up(payload)
    }

    /// A datagram with this payload.
    pub(super) fn up(&mut self, mut payload: Vec<u8>) -> Vec<u8> {
        let number = self.sealer.reserve().unwrap();
        let mut datagram = vec![DatagramKind::Up as u8];
        datagram.put_u64(self.connection);
        datagram.put_u32(u32::try_from(number & 0xFFFF_FFFF).unwrap());
        let tag = self.sealer.seal(number, &datagram, &mut payload).unwrap();
        datagram.put(&payload);
        datagram.put(&tag);
        datagram
    }

    /// A datagram with a report and the answer to a challenge.
    pub(super) fn answer(&mut self, challenge: PathToken) -> Vec<u8> {
        let mut payload = vec![payload::REPORT | payload::PATH_ANSWER];
        self.report().encode(&mut payload);
        payload.extend(challenge);
        self.up(payload)
    }

    /// Says an honest report.
    pub(super) fn speak(&mut self, rig: &mut Rig) {
        let report = self.report();
        let datagram = self.say(&report);
        let (receipt, _) = rig.hear(self.path, &datagram);
        assert_eq!(receipt, Receipt::Taken);
    }

    /// Follows for some ticks in which the first `moving` entities move, honestly.
    pub(super) fn follow(&mut self, rig: &mut Rig, ticks: u32, moving: u32) {
        for _ in 0..ticks {
            self.speak(rig);
            let sent = rig.turn_moving(moving);
            self.take_all(&sent);
        }
    }
}

/// A batch as a socket's: 64 datagrams.
#[derive(Default)]
pub(super) struct Batch {
    buffer: Vec<u8>,
    pub(super) sent: Datagrams,
}

impl Outbox for Batch {
    fn room(&self) -> usize {
        64 - self.sent.len()
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        if self.sent.len() >= 64 {
            return None;
        }
        self.buffer.resize(DATAGRAM_MAX, 0);
        Some(&mut self.buffer)
    }

    fn commit(&mut self, length: usize, path: Path) {
        self.sent.push((path, self.buffer[..length].to_vec()));
    }
}

/// A cookie for this address and nonce.
pub(super) fn cookie(rig: &mut Rig, from: Path, nonce: ClientNonce) -> Cookie {
    let mut request = Vec::new();
    put_request(&mut request, PROTOCOL_VERSION, &nonce);
    let (receipt, answers) = rig.hear(from, &request);
    assert_eq!(receipt, Receipt::Taken);
    let (_, challenge) = answers.into_iter().next().expect("a Challenge");
    let (_, echo, cookie) = read_challenge(&challenge[1..]).unwrap();
    assert_eq!(echo, nonce);
    cookie
}
