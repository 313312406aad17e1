//! A world, a shard and real clients over links with delay, loss and doubling, on one virtual clock.
//!
//! What is checked without being asked, at every datagram: a record that a client shows is the one the world had at the
//! tick the client says it is of; a table the relay may name is held by the client with the same digest.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ackline::client::display::{Shown, ShownKind};
use ackline::client::session::{Client, Received};
use ackline::client::settings::ClientSettings;
use ackline::delta;
use ackline::limits::DATAGRAM_MAX;
use ackline::relay::budget::Budget;
use ackline::relay::outbox::{MemoryOutbox, Path};
use ackline::relay::session::Session;
use ackline::relay::shard::{Shard, ShardSettings};
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::coding::Coding;
use ackline::state::entity::Entity;
use ackline::state::player::{Directive, Order, PlayerId};
use ackline::state::record::Motion;
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Schema};
use ackline::state::slots::Slot;
use ackline::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TagUpdate, TickUpdate};
use ackline::state::view::{Tags, View};
use ackline::state::world::World;
use ackline::wire::bytes::ByteReader;
use ackline::wire::handshake::{DOWN_HEADER_BYTES, DatagramKind, WELCOME_HEADER_BYTES, read_welcome_header};
use ackline::wire::owner::OwnerBlock;
use ackline::wire::payload;
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Secrets};
use ackline::wire::snapshot::SnapshotHeader;
use ackline::wire::stream;
use ackline::wire::version::{Agreed, Versions};

const STEP_US: u64 = 5_000;

/// A seeded generator.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// What a link does to a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub delay_us: u64,
    pub jitter_us: u64,
    pub loss_percent: u64,
    pub double_percent: u64,
}

#[derive(Default)]
struct Link {
    weather: Weather,
    under_way: Vec<(u64, Vec<u8>)>,
}

impl Link {
    fn send(&mut self, now_us: u64, bytes: &[u8], dice: &mut Dice) {
        let weather = self.weather;
        let copies = match () {
            () if dice.below(100) < weather.loss_percent => 0,
            () if dice.below(100) < weather.double_percent => 2,
            () => 1,
        };
        for _ in 0..copies {
            let jitter = dice.below(weather.jitter_us + 1);
            self.under_way
                .push((now_us + weather.delay_us + jitter, bytes.to_vec()));
        }
    }

    fn arrived(&mut self, now_us: u64) -> Vec<Vec<u8>> {
        let all = std::mem::take(&mut self.under_way);
        let (mut now, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|(at, _)| *at <= now_us);
        self.under_way = later;
        now.sort_by_key(|(at, _)| *at);
        now.into_iter().map(|(_, bytes)| bytes).collect()
    }
}

/// Reads what goes down to one client, with the session's key.
#[derive(Default)]
pub struct Tap {
    opener: Option<Opener>,
    /// The header of every snapshot part, in the order sent.
    pub headers: Vec<SnapshotHeader>,
    pub bytes: u64,
}

impl Tap {
    fn read(&mut self, datagram: &[u8]) -> Option<SnapshotHeader> {
        self.bytes += datagram.len() as u64;
        let mut datagram = datagram.to_vec();
        let clear = match DatagramKind::from_byte(datagram[0])? {
            DatagramKind::Welcome => {
                let header = read_welcome_header(&mut ByteReader::new(&datagram)).unwrap();
                let secrets = Secrets {
                    token_key: INSECURE_TOKEN_KEY,
                    client_nonce: header.client_nonce,
                    relay_nonce: header.relay_nonce,
                    connection: header.connection,
                    agreed: Agreed::NEWEST,
                };
                if self.opener.is_none() {
                    self.opener = secrets.opener(Direction::Down);
                }
                WELCOME_HEADER_BYTES
            }
            DatagramKind::Down => DOWN_HEADER_BYTES,
            _ => return None,
        };
        let (clear, sealed) = datagram.split_at_mut(clear);
        let low = u32::from_le_bytes(clear[clear.len() - 4..].try_into().unwrap());
        let (_, opened) = self.opener.as_mut()?.open(low, clear, sealed).ok()?;
        let mut reader = ByteReader::new(opened);
        let flags = reader.u8().unwrap();
        reader.u16().unwrap();
        if flags & payload::CLOSE != 0 {
            reader.u8().unwrap();
        }
        if flags & payload::PATH_CHALLENGE != 0 {
            reader.bytes(8).unwrap();
        }
        if flags & payload::WELCOME != 0 {
            payload::Welcome::decode(&mut reader).unwrap();
        }
        if flags & payload::INPUTS_ACK != 0 {
            reader.varint().unwrap();
        }
        if flags & payload::OWNER != 0 {
            OwnerBlock::decode(&mut reader).unwrap();
        }
        if flags & payload::MESSAGES != 0 {
            stream::skip_block(&mut reader).unwrap();
        }
        if flags & payload::SNAPSHOT == 0 {
            return None;
        }
        let header = SnapshotHeader::decode(&mut reader).unwrap();
        self.headers.push(header);
        Some(header)
    }
}

/// A change that a client showed, and when.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub now_us: u64,
    pub shown: Shown,
}

pub struct Seat {
    pub client: Client,
    pub path: Path,
    pub tap: Tap,
    down: Link,
    up: Link,
    /// True for a snapshot part that is lost on its way down, weather aside.
    pub lose: Box<dyn FnMut(&SnapshotHeader) -> bool>,
    /// The client's datagrams are lost, all of them.
    pub mute: bool,
    /// Everything it showed.
    pub seen: Vec<Seen>,
    pub joined_us: u64,
}

/// The update of one tick, being made.
pub struct Next {
    pub update: TickUpdate,
}

impl Next {
    fn us(&self) -> u64 {
        self.update.server_us
    }

    pub fn spawn(&mut self, id: u32, generation: u32) -> &mut Next {
        let at_us = self.us();
        self.update.spawned.push(Spawn {
            entity: Entity { id, generation },
            class: 0,
            at_us,
        });
        self
    }

    pub fn end(&mut self, id: u32, generation: u32) -> &mut Next {
        let at_us = self.us();
        self.update.despawned.push(Despawn {
            entity: Entity { id, generation },
            at_us,
            reason: 0,
        });
        self
    }

    pub fn moved(&mut self, id: u32, generation: u32, x: u32) -> &mut Next {
        self.moved_in(id, generation, 0, 0, x)
    }

    pub fn moved_in(&mut self, id: u32, generation: u32, segment: u32, segment_us: u64, x: u32) -> &mut Next {
        let observed_us = self.us();
        self.update.observed.push(Observation {
            entity: Entity { id, generation },
            segment,
            segment_us,
            motion: Some(Motion {
                observed_us,
                position: [x % 20_000, id % 20_000, 5],
                rotation: Rotation::identity(9),
                velocity: [0; 3],
                angular: [0; 3],
                at_rest: false,
            }),
        });
        self
    }

    pub fn colour(&mut self, id: u32, generation: u32, value: u32) -> &mut Next {
        let mut values = [0; 8];
        values[0] = value;
        self.update.extras.push(ExtraUpdate {
            entity: Entity { id, generation },
            mask: 1,
            values,
        });
        self
    }

    /// Moves an entity on the ground, centimetres from the middle of the world.
    pub fn walk(&mut self, id: u32, x: i32, z: i32) -> &mut Next {
        self.moved(id, 0, 0);
        let place = self.update.observed.last_mut().unwrap().motion.as_mut().unwrap();
        place.position = [x, 0, z].map(|cm| u32::try_from(cm + 10_000).unwrap());
        self
    }

    pub fn tag(&mut self, id: u32, tags: Tags) -> &mut Next {
        let entity = Entity { id, generation: 0 };
        self.update.tags.push(TagUpdate { entity, tags });
        self
    }

    pub fn assign(&mut self, player: PlayerId, id: Option<u32>, view: Option<View>) -> &mut Next {
        let entity = id.map(|id| Entity { id, generation: 0 });
        self.update.directives.push(Directive {
            player,
            order: Order::Assign { entity, view },
        });
        self
    }

    pub fn event(&mut self, kind: u16, entity: Option<Entity>) -> &mut Next {
        let at_us = self.us();
        self.update.events.push(Event {
            kind,
            critical: false,
            entity,
            at_us,
            payload: Vec::new(),
        });
        self
    }
}

pub fn schema() -> Schema {
    Schema {
        coding: Coding::Plain,
        name: "faults".into(),
        version: 1,
        tick_period_us: 50_000,
        on_change: true,
        position: [Axis::new(-100.0, 100.0, 0.01).unwrap(); 3],
        rotation_bits: 9,
        velocity: None,
        angular: None,
        extras: vec![ExtraField {
            name: "colour".into(),
            bits: 20,
            signed: false,
        }],
        classes: vec![Class {
            name: "thing".into(),
            query_critical: true,
        }],
    }
}

pub struct Rig {
    pub shard: Shard,
    pub seats: Vec<Seat>,
    pub now_us: u64,
    pub period_us: u64,
    pub tick: Tick,
    pub dice: Dice,
    world: World,
    stream: u32,
    server_us: u64,
    schema: Vec<u8>,
    frames: BTreeMap<u32, Arc<Frame>>,
    newest: Option<Arc<Frame>>,
}

impl Rig {
    /// A shard whose first frame will be numbered `first`.
    pub fn new(first: Tick, seed: u64) -> Rig {
        Rig::with(first, seed, Budget::default())
    }

    pub fn with(first: Tick, seed: u64, budget: Budget) -> Rig {
        Rig::seeing(first, seed, budget, View::WHOLE)
    }

    /// A shard whose sessions begin with a view.
    pub fn seeing(first: Tick, seed: u64, budget: Budget, view: View) -> Rig {
        let settings = ShardSettings {
            egress_bytes_per_s: None,
            view,
            index: 0,
            sessions_max: 1_000,
            budget,
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: [1; 32],
            seed: [2; 32],
            stopwatch: || 0,
        };
        Rig {
            shard: Shard::new(settings),
            seats: Vec::new(),
            now_us: 1_000_000,
            period_us: 50_000,
            tick: first.minus(1),
            dice: Dice(seed * 2 + 1),
            world: World::new(Arc::new(schema()), 1, 520),
            stream: 1,
            server_us: 0,
            schema: delta::schema::encode(&schema()).unwrap(),
            frames: BTreeMap::new(),
            newest: None,
        }
    }

    /// A client begins to ask for a session.
    pub fn join(&mut self, weather: Weather) -> usize {
        let index = self.seats.len();
        let port = 4_000 + u16::try_from(index).unwrap();
        let mut nonce = [9; 16];
        nonce[..2].copy_from_slice(&port.to_le_bytes());
        let link = || Link {
            weather,
            under_way: Vec::new(),
        };
        self.seats.push(Seat {
            client: Client::new(ClientSettings::default(), nonce, self.now_us),
            path: Path {
                remote: SocketAddr::from(([127, 0, 0, 1], port)),
                local: None,
            },
            tap: Tap::default(),
            down: link(),
            up: link(),
            lose: Box::new(|_| false),
            mute: false,
            seen: Vec::new(),
            joined_us: self.now_us,
        });
        index
    }

    pub fn weather(&mut self, seat: usize, weather: Weather) {
        self.seats[seat].down.weather = weather;
        self.seats[seat].up.weather = weather;
    }

    /// One tick: what `change` makes of it, and all that is sent and arrives until the next.
    pub fn tick(&mut self, change: impl FnOnce(&mut Next)) {
        self.server_us += self.period_us;
        let mut next = Next {
            update: TickUpdate {
                server_us: self.server_us,
                ..TickUpdate::default()
            },
        };
        change(&mut next);
        self.tick = self.tick.next();
        let frame = self.world.advance(self.tick, &next.update).expect("a good tick");
        assert!(self.world.refused().is_empty(), "{:?}", self.world.refused());
        self.publish(frame);
    }

    /// Ticks in which nothing happens.
    pub fn quiet(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.tick(|_| {});
        }
    }

    /// The origin comes back with another epoch and an empty world.
    pub fn restart_origin(&mut self) {
        self.stream += 1;
        self.server_us = 0;
        self.world = World::new(Arc::new(schema()), self.stream, 520);
    }

    fn publish(&mut self, frame: Arc<Frame>) {
        self.frames.insert(frame.tick.0, Arc::clone(&frame));
        if self.frames.len() > 1_200 {
            let old = frame.tick.minus(1_000);
            self.frames.retain(|tick, _| Tick(*tick).is_after(old));
        }
        self.newest = Some(Arc::clone(&frame));
        self.shard.publish(frame, &self.schema);
        let until = self.now_us + self.period_us;
        let mut outbox = MemoryOutbox::default();
        assert!(!self.shard.transmit(self.now_us, &mut outbox));
        self.dispatch(outbox);
        while self.now_us < until {
            let mut outbox = MemoryOutbox::default();
            self.shard.timers(self.now_us, &mut outbox);
            self.dispatch(outbox);
            self.exchange();
            self.now_us += STEP_US.min(until - self.now_us);
        }
    }

    fn dispatch(&mut self, outbox: MemoryOutbox) {
        for (to, bytes) in outbox.sent {
            assert!(bytes.len() <= DATAGRAM_MAX);
            let index = usize::from(to.remote.port() - 4_000);
            let seat = &mut self.seats[index];
            let header = seat.tap.read(&bytes);
            let lost = header.is_some_and(|header| (seat.lose)(&header));
            if !lost {
                seat.down.send(self.now_us, &bytes, &mut self.dice);
            }
        }
    }

    fn exchange(&mut self) {
        for index in 0..self.seats.len() {
            for mut bytes in self.seats[index].down.arrived(self.now_us) {
                let seat = &mut self.seats[index];
                let received = seat.client.receive(self.now_us, &mut bytes);
                if matches!(received, Received::Snapshot { .. }) {
                    self.check_display(index);
                    self.check_tables(index);
                }
            }
            let mut out = Vec::new();
            let now_us = self.now_us;
            while self.seats[index].client.poll_transmit(now_us, &mut out) {
                let seat = &mut self.seats[index];
                if !seat.mute {
                    seat.up.send(now_us, &out, &mut self.dice);
                }
            }
            let path = self.seats[index].path;
            for mut bytes in self.seats[index].up.arrived(self.now_us) {
                let mut outbox = MemoryOutbox::default();
                self.shard.receive(self.now_us, path, &mut bytes, &mut outbox);
                self.dispatch(outbox);
            }
        }
    }

    fn check_display(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        let changes: Vec<Shown> = seat.client.changes().to_vec();
        for shown in changes {
            let now_us = self.now_us;
            seat.seen.push(Seen { now_us, shown });
            if matches!(shown.kind, ShownKind::Removed(_) | ShownKind::Awake) {
                continue;
            }
            let Some(known) = seat.client.display().known(shown.slot) else {
                continue;
            };
            let Some(frame) = self.frames.get(&known.as_of.0) else {
                panic!("a record of tick {} which was not", known.as_of);
            };
            assert_eq!(
                frame.record(shown.slot),
                Some(&known.record),
                "slot {} as of {}",
                shown.slot,
                known.as_of
            );
        }
    }

    /// SPEC TAB8, WIN1: what the relay may name is held, with the same parts and the same records.
    fn check_tables(&self, index: usize) {
        let seat = &self.seats[index];
        let Some(session) = self.session(index) else {
            return;
        };
        if session.window.session_epoch() != seat.client.session_epoch() {
            return;
        }
        for held in session.window.held() {
            let Some(digest) = held.table.digest(self.shard.arena()) else {
                continue;
            };
            let mine = seat
                .client
                .tables()
                .find(|(mine, _)| *mine == held.held)
                .map(|(_, table)| table.digest());
            assert_eq!(mine, Some(digest), "table of {}", held.held.id);
        }
    }

    /// The frame of a tick.
    pub fn frame(&self, tick: Tick) -> Option<&Arc<Frame>> {
        self.frames.get(&tick.0)
    }

    /// The number of a seat's player.
    pub fn player(&self, index: usize) -> PlayerId {
        self.session(index).expect("a session").connection
    }

    pub fn session(&self, index: usize) -> Option<&Session> {
        let remote = self.seats[index].path.remote;
        self.shard
            .sessions()
            .find(|session| session.path.remote == remote)
    }

    /// What is shown is not the world of now: the first difference.
    pub fn difference(&self, index: usize) -> Option<String> {
        let frame = self.newest.as_ref()?;
        let display = self.seats[index].client.display();
        let shown: BTreeMap<Slot, _> = display
            .records()
            .map(|(slot, record, _)| (slot, record))
            .collect();
        for (slot, record) in frame.records() {
            if shown.get(&slot) != Some(record) {
                return Some(format!("slot {slot}: {:?} is {record:?}", shown.get(&slot)));
            }
        }
        (shown.len() != frame.live()).then(|| format!("{} shown of {}", shown.len(), frame.live()))
    }

    /// Everything shown is the world of now, nothing else, and it was healed by no new session epoch.
    pub fn assert_whole(&self, index: usize) {
        assert_eq!(self.difference(index), None);
        let client = &self.seats[index].client;
        assert_eq!(client.display().live(), self.newest.as_ref().unwrap().live());
        assert_eq!(client.statistics().digest_mismatches, 0);
    }

    /// No client was given full state again.
    pub fn assert_no_fallback(&self) {
        let fallbacks = self.shard.counters().fallbacks;
        assert_eq!(fallbacks.iter().sum::<u64>(), 0, "{fallbacks:?}");
    }

    /// Ticks until the client's view is complete; panics after `most`.
    pub fn ticks_to_complete(&mut self, index: usize, most: u32) -> u32 {
        for ticks in 0..most {
            if self.seats[index].client.statistics().view_complete_us.is_some() {
                return ticks;
            }
            self.quiet(1);
        }
        panic!("no complete view within {most} ticks");
    }
}
