//! A relay shard, an honest client and a virtual clock: what hostile datagrams are let loose on.

use std::net::SocketAddr;
use std::sync::Arc;

use ackline::client::session::{Client, Received, SessionState};
use ackline::client::settings::ClientSettings;
use ackline::delta::schema;
use ackline::relay::budget::Budget;
use ackline::relay::outbox::{MemoryOutbox, Outbox, Path};
use ackline::relay::session::Session;
use ackline::relay::shard::{Receipt, Shard, ShardSettings};
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::entity::Entity;
use ackline::state::record::Motion;
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use ackline::state::update::{Despawn, Event, ExtraUpdate, Observation, Spawn, TickUpdate};
use ackline::state::world::World;

use super::tape::Tape;
use ackline::state::coding::Coding;
use ackline::wire::version::Versions;

/// The tick period of the stage's world.
pub const PERIOD_US: u64 = 50_000;
/// Entities of the stage's world at the most.
pub const ENTITIES_MAX: usize = 160;

/// A path to the relay from a port of this host.
pub fn path(port: u16) -> Path {
    Path {
        remote: SocketAddr::from(([127, 0, 0, 1], port)),
        local: None,
    }
}

/// The stage's schema: velocity, extra fields, resting.
pub fn stage_schema(version: u16) -> Schema {
    Schema {
        coding: Coding::Plain,
        name: "stage".into(),
        version,
        tick_period_us: 50_000,
        on_change: true,
        position: [Axis::new(-100.0, 100.0, 0.01).unwrap(); 3],
        rotation_bits: 9,
        velocity: Some(Rate::new(50.0, 0.02).unwrap()),
        angular: None,
        extras: vec![ExtraField {
            name: "health".into(),
            bits: 10,
            signed: true,
        }],
        classes: vec![Class {
            name: "thing".into(),
            query_critical: true,
        }],
    }
}

/// The way to an honest client.
const HONEST: u16 = 40_000;

/// See the module.
pub struct Stage {
    pub shard: Shard,
    pub honest: Client,
    pub now_us: u64,
    /// What went to anybody but the honest client.
    pub mail: Vec<(Path, Vec<u8>)>,
    /// Datagrams of both directions of the honest client.
    pub captured: (Vec<Vec<u8>>, Vec<Vec<u8>>),
    pub capture: bool,
    world: World,
    tick: Tick,
    stream: u32,
    origin_tick: u64,
    server_us: u64,
    schema_bytes: Vec<u8>,
    alive: Vec<Entity>,
    next_id: u32,
    frame: Option<Arc<Frame>>,
}

impl Stage {
    /// A world of some entities and an honest client that has not joined yet.
    pub fn new(entities: u32, first: u32) -> Stage {
        let settings = ShardSettings {
            egress_bytes_per_s: None,
            view: ackline::state::view::View::WHOLE,
            index: 0,
            sessions_max: 3,
            budget: Budget::default(),
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: [1; 32],
            seed: [2; 32],
            stopwatch: || 0,
        };
        let mut stage = Stage {
            shard: Shard::new(settings),
            honest: Client::new(ClientSettings::default(), [7; 16], 1_000_000),
            now_us: 1_000_000,
            mail: Vec::new(),
            captured: (Vec::new(), Vec::new()),
            capture: false,
            world: World::new(Arc::new(stage_schema(1)), 1, 520),
            tick: Tick(first),
            stream: 1,
            origin_tick: 0,
            server_us: 0,
            schema_bytes: schema::encode(&stage_schema(1)).unwrap(),
            alive: Vec::new(),
            next_id: 0,
            frame: None,
        };
        stage.populate(entities);
        stage
    }

    fn populate(&mut self, entities: u32) {
        let mut update = TickUpdate {
            server_us: self.server_us,
            ..TickUpdate::default()
        };
        for _ in 0..entities {
            self.spawn(&mut update);
        }
        self.publish(&update);
    }

    fn spawn(&mut self, update: &mut TickUpdate) {
        if self.alive.len() >= ENTITIES_MAX {
            return;
        }
        let entity = Entity {
            id: self.next_id,
            generation: 0,
        };
        self.next_id += 1;
        self.alive.push(entity);
        update.spawned.push(Spawn {
            entity,
            class: 0,
            at_us: update.server_us,
        });
        update
            .observed
            .push(observation(entity, 0, 0, update.server_us, self.next_id));
    }

    /// The newest frame.
    pub fn frame(&self) -> &Arc<Frame> {
        self.frame.as_ref().unwrap()
    }

    /// The session at a path of the stage.
    pub fn session(&self, connection: u64) -> Option<&Session> {
        self.shard
            .sessions()
            .find(|session| session.connection == connection)
    }

    /// The origin comes back with a new epoch, and every second time with another schema.
    pub fn restart_origin(&mut self) {
        self.stream += 1;
        let schema = stage_schema(1 + (self.stream % 2) as u16);
        self.schema_bytes = schema::encode(&schema).unwrap();
        self.world = World::new(Arc::new(schema), self.stream, 520);
        self.alive.clear();
        (self.server_us, self.next_id) = (0, 0);
        self.populate(5);
        self.exchange();
    }

    fn publish(&mut self, update: &TickUpdate) {
        self.tick = self.tick.next();
        let frame = self
            .world
            .advance(self.tick, update)
            .expect("the stage's ticks are legal");
        assert!(self.world.refused().is_empty(), "{:?}", self.world.refused());
        self.frame = Some(Arc::clone(&frame));
        self.shard.publish(frame, &self.schema_bytes);
    }

    /// Frames that nobody is served: the shard is too late.
    pub fn skip(&mut self, frames: u32) {
        for _ in 0..frames {
            self.tick = self.tick.next();
            let frame = self.world.hold(self.tick, false);
            self.frame = Some(Arc::clone(&frame));
            self.shard.publish(frame, &self.schema_bytes);
        }
    }

    /// The next tick of the world, as the tape has it, served to all.
    pub fn tick(&mut self, tape: &mut Tape<'_>) {
        let step_us = match tape.below(4) {
            0 | 1 => PERIOD_US,
            2 => 1_000,
            _ => u64::from(tape.below(20)) * 100_000,
        };
        self.origin_tick += 1;
        self.server_us += step_us;
        self.now_us += step_us;
        let mut update = TickUpdate {
            origin_tick: self.origin_tick,
            server_us: self.server_us,
            ..TickUpdate::default()
        };
        let what = tape.u8();
        if what & 1 != 0 && !self.alive.is_empty() {
            let at = tape.below(self.alive.len() as u32) as usize;
            let entity = self.alive.swap_remove(at);
            update.despawned.push(Despawn {
                entity,
                at_us: self.server_us,
                reason: what,
            });
            if what & 2 != 0 {
                let entity = Entity {
                    generation: entity.generation + 1,
                    ..entity
                };
                self.alive.push(entity);
                update.spawned.push(Spawn {
                    entity,
                    class: 0,
                    at_us: self.server_us,
                });
            }
        }
        if what & 4 != 0 {
            self.spawn(&mut update);
        }
        let stride = usize::from(what >> 4).max(1);
        for entity in self.alive.iter().skip(usize::from(what) % stride).step_by(stride) {
            let segment = self.world.record(*entity).map_or(0, |(_, record)| record.segment);
            if update.observed.iter().all(|other| other.entity != *entity) {
                let n = u32::from(what) + self.origin_tick as u32;
                update
                    .observed
                    .push(observation(*entity, segment, 0, self.server_us, n));
            }
        }
        if what & 8 != 0 {
            self.extra_items(what, &mut update);
        }
        self.publish(&update);
        self.exchange();
    }

    fn extra_items(&mut self, what: u8, update: &mut TickUpdate) {
        let Some(entity) = self
            .alive
            .get(usize::from(what) % self.alive.len().max(1))
            .copied()
        else {
            return;
        };
        let mut values = [0; ackline::limits::EXTRA_FIELDS_MAX];
        values[0] = u32::from(what) * 4;
        update.extras.push(ExtraUpdate {
            entity,
            mask: 1,
            values,
        });
        update.events.push(Event {
            kind: 1,
            critical: true,
            entity: Some(entity),
            at_us: self.server_us,
            payload: vec![what; usize::from(what)],
        });
    }

    /// Serves, lets timers run, carries datagrams both ways until nobody has anything to say.
    pub fn exchange(&mut self) {
        let mut outbox = MemoryOutbox::default();
        while self.shard.transmit(self.now_us, &mut outbox) {}
        self.shard.timers(self.now_us, &mut outbox);
        self.deliver(outbox);
        let mut up = Vec::new();
        while self.honest.poll_transmit(self.now_us, &mut up) {
            if self.capture {
                self.captured.0.push(up.clone());
            }
            self.receive(path(HONEST), &mut up);
        }
        while self.honest.poll_event().is_some() {}
    }

    /// Gives the relay a datagram; what it answers is delivered.
    pub fn receive(&mut self, from: Path, datagram: &mut [u8]) -> Receipt {
        let mut outbox = MemoryOutbox::default();
        let receipt = self.shard.receive(self.now_us, from, datagram, &mut outbox);
        self.deliver(outbox);
        receipt
    }

    fn deliver(&mut self, outbox: MemoryOutbox) {
        for (to, mut bytes) in outbox.sent {
            assert!(bytes.len() <= ackline::limits::DATAGRAM_MAX);
            if to != path(HONEST) {
                self.mail.push((to, bytes));
                continue;
            }
            if self.capture {
                self.captured.1.push(bytes.clone());
            }
            let received = self.honest.receive(self.now_us, &mut bytes);
            assert!(
                !matches!(received, Received::Refused(_)),
                "the honest client refused: {received:?}"
            );
        }
    }

    /// Lets the honest client join and complete its view.
    pub fn join(&mut self) {
        for _ in 0..8 {
            self.tick(&mut Tape::new(&[]));
        }
        self.assert_followed();
    }

    /// The honest client, given a few undisturbed ticks, shows the newest frame and nothing else.
    pub fn assert_followed(&mut self) {
        for _ in 0..4 {
            self.tick(&mut Tape::new(&[]));
        }
        assert_eq!(self.honest.state(), SessionState::Connected);
        let frame = self.frame.as_ref().unwrap();
        assert_eq!(self.honest.stream_epoch(), frame.stream_epoch);
        assert!(
            self.honest
                .display()
                .records()
                .map(|(slot, record, _)| (slot, record))
                .eq(frame.records().map(|(slot, record)| (slot, *record)))
        );
    }
}

fn observation(entity: Entity, segment: u32, segment_us: u64, server_us: u64, n: u32) -> Observation {
    Observation {
        entity,
        segment,
        segment_us,
        motion: Some(Motion {
            observed_us: server_us,
            position: [(entity.id * 31 + n * 3) % 20_000, entity.id % 20_000, n % 20_000],
            rotation: Rotation {
                largest: 3,
                parts: [(n % 511) as u16, 255, 255],
            },
            velocity: [3, (entity.id % 50) as i32, 0],
            angular: [0; 3],
            at_rest: false,
        }),
    }
}

/// An outbox that counts and forgets.
#[derive(Default)]
pub struct Counted {
    buffer: Vec<u8>,
    pub datagrams: usize,
    pub bytes: usize,
    pub to: Option<Path>,
}

impl Outbox for Counted {
    fn room(&self) -> usize {
        64
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        self.buffer.resize(1280, 0);
        Some(&mut self.buffer)
    }

    fn commit(&mut self, length: usize, to: Path) {
        self.datagrams += 1;
        self.bytes += length;
        self.to = Some(to);
    }
}
