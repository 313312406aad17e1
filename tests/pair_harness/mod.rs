//! One shard, one client, a perfect link, a virtual clock.

#![allow(
    dead_code,
    clippy::missing_panics_doc,
    reason = "each test that includes this module uses a part of it, and panics to fail"
)]

pub mod calls;
pub mod counting;
pub mod liar;
pub mod lies;
pub mod stage;

use std::net::SocketAddr;
use std::sync::Arc;

use ackline::client::session::Client;
use ackline::client::settings::ClientSettings;
use ackline::delta;
use ackline::relay::budget::Budget;
use ackline::relay::outbox::{MemoryOutbox, Outbox, Path};
use ackline::relay::shard::{Shard, ShardSettings};
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::coding::Coding;
use ackline::state::entity::Entity;
use ackline::state::record::Motion;
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use ackline::state::update::{Observation, Spawn, TickUpdate};
use ackline::state::world::World;
use ackline::wire::version::Versions;

pub const PERIOD_US: u64 = 50_000;

pub fn schema() -> Schema {
    Schema {
        coding: Coding::Plain,
        name: "pair".into(),
        version: 1,
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

pub fn path(port: u16) -> Path {
    Path {
        remote: SocketAddr::from(([127, 0, 0, 1], port)),
        local: None,
    }
}

/// An update of tick `tick` that observes some entities.
pub fn moved(tick: u64, ids: impl IntoIterator<Item = u32>, n: u32) -> TickUpdate {
    let server_us = tick * PERIOD_US;
    let observed = ids.into_iter().map(|id| Observation {
        entity: Entity { id, generation: 0 },
        segment: 0,
        segment_us: 0,
        motion: Some(Motion {
            observed_us: server_us,
            position: [(id * 31 + n * 3) % 20_000, id % 20_000, n % 20_000],
            rotation: Rotation {
                largest: 3,
                parts: [u16::try_from((id + n) % 511).unwrap(), 255, 255],
            },
            velocity: [3, i32::try_from(id % 50).unwrap(), 0],
            angular: [0; 3],
            at_rest: false,
        }),
    });
    TickUpdate {
        origin_tick: tick,
        server_us,
        observed: observed.collect(),
        ..TickUpdate::default()
    }
}

#[derive(Default)]
pub struct Captured {
    pub up: Vec<Vec<u8>>,
    pub down: Vec<Vec<u8>>,
}

pub struct Pair {
    pub shard: Shard,
    pub client: Client,
    pub path: Path,
    pub now_us: u64,
    world: World,
    tick: Tick,
    origin_tick: u64,
    step: u32,
    schema_bytes: Vec<u8>,
    stream: u32,
    frame: Option<Arc<Frame>>,
    captured: Captured,
    /// Down datagrams to lose, by their number.
    pub lose: fn(usize) -> bool,
    delivered: usize,
    /// The client says nothing.
    pub mute: bool,
}

/// A shard of ten places, seeded; its stopwatch stands still.
fn shard_settings() -> ShardSettings {
    ShardSettings {
        egress_bytes_per_s: None,
        view: ackline::state::view::View::WHOLE,
        index: 0,
        sessions_max: 10,
        budget: Budget::default(),
        gate: None,
        versions: Versions::SPOKEN,
        limits: Default::default(),
        cookie_secret: [1; 32],
        seed: [2; 32],
        stopwatch: || 0,
    }
}

impl Pair {
    pub fn new(entities: u32, first: Tick) -> Pair {
        Pair::with_client(entities, first, ClientSettings::default())
    }

    pub fn with_client(entities: u32, first: Tick, client: ClientSettings) -> Pair {
        let settings = shard_settings();
        let schema = schema();
        let schema_bytes = delta::schema::encode(&schema).unwrap();
        let mut pair = Pair {
            shard: Shard::new(settings),
            client: Client::new(client, [7; 16], 1_000_000),
            path: path(40_000),
            now_us: 1_000_000,
            world: World::new(Arc::new(schema), 1, 520),
            tick: first.minus(1),
            origin_tick: 0,
            step: 0,
            schema_bytes,
            stream: 1,
            frame: None,
            captured: Captured::default(),
            lose: |_| false,
            delivered: 0,
            mute: false,
        };
        pair.populate(entities);
        pair
    }

    fn populate(&mut self, entities: u32) {
        let mut update = moved(0, 0..entities, 0);
        for id in 0..entities {
            update.spawned.push(Spawn {
                entity: Entity { id, generation: 0 },
                class: 0,
                at_us: 0,
            });
        }
        self.publish(&update);
    }

    /// The origin comes back with a new epoch and another world.
    pub fn restart_origin(&mut self, entities: u32) {
        self.stream += 1;
        self.world = World::new(Arc::new(schema()), self.stream, 520);
        self.origin_tick = 0;
        self.step = 0;
        self.populate(entities);
        self.exchange();
    }

    fn publish(&mut self, update: &TickUpdate) {
        self.tick = self.tick.next();
        let frame = self.world.advance(self.tick, update).unwrap();
        assert!(self.world.refused().is_empty(), "{:?}", self.world.refused());
        self.frame = Some(Arc::clone(&frame));
        self.shard.publish(frame, &self.schema_bytes);
    }

    /// Runs ticks; `next` gives the update of an origin tick and a step number.
    pub fn run(&mut self, ticks: u32, mut next: impl FnMut(u64, u32) -> TickUpdate) {
        for _ in 0..ticks {
            self.origin_tick += 1;
            let update = next(self.origin_tick, self.step);
            self.step += 1;
            self.publish(&update);
            for _ in 0..5 {
                self.exchange();
                self.now_us += PERIOD_US / 5;
            }
        }
        for _ in 0..5 {
            self.tick = self.tick.next();
            let frame = self.world.hold(self.tick, false);
            self.frame = Some(Arc::clone(&frame));
            self.shard.publish(frame, &self.schema_bytes);
            self.exchange();
            self.now_us += PERIOD_US;
            self.exchange();
        }
    }

    fn exchange(&mut self) {
        let mut outbox = MemoryOutbox::default();
        assert!(!self.shard.transmit(self.now_us, &mut outbox));
        self.shard.timers(self.now_us, &mut outbox);
        self.deliver(outbox);
        let mut up = Vec::new();
        while self.client.poll_transmit(self.now_us, &mut up) {
            if self.mute {
                continue;
            }
            self.captured.up.push(up.clone());
            let mut outbox = MemoryOutbox::default();
            self.shard.receive(self.now_us, self.path, &mut up, &mut outbox);
            self.deliver(outbox);
        }
    }

    fn deliver(&mut self, outbox: MemoryOutbox) {
        for (to, mut bytes) in outbox.sent {
            assert_eq!(to, self.path);
            assert!(bytes.len() <= ackline::limits::DATAGRAM_MAX);
            self.captured.down.push(bytes.clone());
            self.delivered += 1;
            if !(self.lose)(self.delivered) {
                self.client.receive(self.now_us, &mut bytes);
            }
        }
    }

    pub fn captured(&mut self) -> Captured {
        std::mem::take(&mut self.captured)
    }

    /// Everything the client shows is the newest frame, and nothing else.
    pub fn assert_equal(&self) {
        let frame = self.frame.as_ref().unwrap();
        let shown: Vec<_> = self
            .client
            .display()
            .records()
            .map(|(slot, record, _)| (slot, record))
            .collect();
        let truth: Vec<_> = frame.records().map(|(slot, record)| (slot, *record)).collect();
        assert_eq!(shown.len(), truth.len());
        for (shown, truth) in shown.iter().zip(&truth) {
            assert_eq!(shown, truth);
        }
    }
}

/// An outbox that counts and forgets.
#[derive(Default)]
pub struct Discard {
    buffer: Vec<u8>,
    pub datagrams: u64,
    pub bytes_out: u64,
}

impl Outbox for Discard {
    fn room(&self) -> usize {
        64
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        self.buffer.resize(1280, 0);
        Some(&mut self.buffer)
    }

    fn commit(&mut self, length: usize, _: Path) {
        self.datagrams += 1;
        self.bytes_out += length as u64;
    }
}
