//! One shard and several clients, honest or not, on one virtual clock. Buffers are kept, so that what is allocated
//! is allocated by the code under test.

use std::sync::Arc;

use ackline::client::playback::stage::Playback;
use ackline::client::session::Client;
use ackline::client::settings::ClientSettings;
use ackline::delta;
use ackline::relay::outbox::{Outbox, Path};
use ackline::relay::shard::{Receipt, Shard};
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::entity::Entity;
use ackline::state::update::{Spawn, TickUpdate};
use ackline::state::world::World;

use super::liar::Liar;
use super::{PERIOD_US, moved, schema, shard_settings};

/// Exchanges in one tick.
const EXCHANGES: u64 = 5;

/// An outbox of 64 kept buffers, as a socket's batch is.
pub struct Tray {
    slots: Vec<(Path, Vec<u8>)>,
    used: usize,
}

impl Tray {
    fn new() -> Tray {
        let slot = (super::path(0), vec![0; 1280]);
        Tray {
            slots: vec![slot; 64],
            used: 0,
        }
    }
}

impl Outbox for Tray {
    fn room(&self) -> usize {
        self.slots.len() - self.used
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        let (_, bytes) = self.slots.get_mut(self.used)?;
        bytes.resize(1280, 0);
        Some(bytes)
    }

    fn commit(&mut self, length: usize, path: Path) {
        let (to, bytes) = &mut self.slots[self.used];
        bytes.truncate(length);
        *to = path;
        self.used += 1;
    }
}

/// An honest client and what reached it.
pub struct Guest {
    pub client: Client,
    pub path: Path,
    /// What is drawn of it; a frame at each exchange.
    pub playback: Option<Playback>,
    /// When each datagram came, and its bytes; `None` keeps nothing.
    pub log: Option<Vec<(u64, Vec<u8>)>>,
    /// Datagrams on the way down to lose, by their number.
    pub lose: fn(u64) -> bool,
    delivered: u64,
    up: Vec<u8>,
}

impl Guest {
    pub fn new(settings: ClientSettings, port: u16, now_us: u64) -> Guest {
        let nonce = [u8::try_from(port % 251).unwrap(); 16];
        Guest {
            client: Client::new(settings, nonce, now_us),
            path: super::path(port),
            playback: None,
            log: None,
            lose: |_| false,
            delivered: 0,
            up: Vec::with_capacity(1280),
        }
    }
}

/// How often memory was asked for, and by how many datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Datagrams the relay took, and requests for memory meanwhile.
    pub heard: (u64, u64),
    /// Datagrams the relay sent.
    pub served: (u64, u64),
    /// Datagrams the clients took.
    pub taken: (u64, u64),
    /// Datagrams the clients said.
    pub spoken: (u64, u64),
    /// Entities that were drawn.
    pub drawn: (u64, u64),
}

pub struct Stage {
    pub shard: Shard,
    pub now_us: u64,
    pub guests: Vec<Guest>,
    pub liar: Option<Liar>,
    pub cost: Cost,
    /// Requests for memory so far.
    pub probe: fn() -> u64,
    /// The newest frame of the world.
    pub frame: Option<Arc<Frame>>,
    world: World,
    tick: Tick,
    origin_tick: u64,
    schema_bytes: Vec<u8>,
    tray: Tray,
}

impl Stage {
    /// A shard with a world of `entities`.
    pub fn new(entities: u32) -> Stage {
        let schema = schema();
        let schema_bytes = delta::schema::encode(&schema).unwrap();
        let mut stage = Stage {
            shard: Shard::new(shard_settings()),
            now_us: 1_000_000,
            guests: Vec::new(),
            liar: None,
            cost: Cost::default(),
            probe: || 0,
            frame: None,
            world: World::new(Arc::new(schema), 1, 520),
            tick: Tick(0),
            origin_tick: 0,
            schema_bytes,
            tray: Tray::new(),
        };
        let mut update = moved(0, 0..entities, 0);
        for id in 0..entities {
            update.spawned.push(Spawn {
                entity: Entity { id, generation: 0 },
                class: 0,
                at_us: 0,
            });
        }
        stage.publish(&update);
        stage
    }

    pub fn publish(&mut self, update: &TickUpdate) {
        self.tick = self.tick.next();
        let frame = self.world.advance(self.tick, update).unwrap();
        assert!(self.world.refused().is_empty(), "{:?}", self.world.refused());
        self.frame = Some(Arc::clone(&frame));
        self.shard.publish(frame, &self.schema_bytes);
    }

    /// Runs ticks; `next` gives the update of an origin tick.
    pub fn run(&mut self, ticks: u32, mut next: impl FnMut(u64) -> TickUpdate) {
        for _ in 0..ticks {
            self.origin_tick += 1;
            let update = next(self.origin_tick);
            self.publish(&update);
            for _ in 0..EXCHANGES {
                self.exchange();
                self.now_us += PERIOD_US / EXCHANGES;
            }
        }
    }

    fn exchange(&mut self) {
        loop {
            let calls = (self.probe)();
            let more = self.shard.transmit(self.now_us, &mut self.tray);
            if !more {
                self.shard.timers(self.now_us, &mut self.tray);
            }
            self.cost.served.1 += (self.probe)() - calls;
            self.cost.served.0 += self.tray.used as u64;
            self.deliver();
            if !more {
                break;
            }
        }
        for index in 0..self.guests.len() {
            self.hear_guest(index);
        }
        self.draw();
        if let Some(mut liar) = self.liar.take() {
            for mut datagram in liar.speak() {
                self.hear(liar.path, &mut datagram);
            }
            self.liar = Some(liar);
            self.deliver();
        }
    }

    /// A frame of every guest that draws, as a game takes it: all poses, turns and events.
    fn draw(&mut self) {
        for playback in self.guests.iter_mut().filter_map(|guest| guest.playback.as_mut()) {
            let calls = (self.probe)();
            playback.frame(self.now_us);
            let poses = playback.drawn().filter_map(|drawn| drawn.at.pose);
            let (count, sum) = poses.fold((0, 0.0), |(count, sum), pose| (count + 1, sum + pose.position[0]));
            while playback.poll_turn().is_some() {}
            while playback.poll_due().is_some() {}
            assert!(f64::is_finite(sum));
            self.cost.drawn.1 += (self.probe)() - calls;
            self.cost.drawn.0 += count;
        }
    }

    fn hear_guest(&mut self, index: usize) {
        loop {
            let guest = &mut self.guests[index];
            let calls = (self.probe)();
            let said = guest.client.poll_transmit(self.now_us, &mut guest.up);
            self.cost.spoken.1 += (self.probe)() - calls;
            if !said {
                return;
            }
            self.cost.spoken.0 += 1;
            let (path, mut up) = (guest.path, core::mem::take(&mut guest.up));
            let receipt = self.hear(path, &mut up);
            assert_eq!(receipt, Receipt::Taken);
            self.guests[index].up = up;
            self.deliver();
        }
    }

    /// Gives the shard a datagram; what it answers waits in the tray.
    pub fn hear(&mut self, path: Path, datagram: &mut [u8]) -> Receipt {
        let calls = (self.probe)();
        let receipt = self.shard.receive(self.now_us, path, datagram, &mut self.tray);
        self.cost.heard.1 += (self.probe)() - calls;
        self.cost.heard.0 += 1;
        receipt
    }

    /// What the shard answered last, taken from the tray.
    pub fn answer(&mut self) -> Vec<u8> {
        assert_eq!(self.tray.used, 1, "one answer");
        self.tray.used = 0;
        self.tray.slots[0].1.clone()
    }

    fn deliver(&mut self) {
        let used = core::mem::take(&mut self.tray.used);
        for (to, bytes) in &mut self.tray.slots[..used] {
            if let Some(liar) = self.liar.as_mut().filter(|liar| liar.path == *to) {
                liar.take(bytes);
                continue;
            }
            let Some(guest) = self.guests.iter_mut().find(|guest| guest.path == *to) else {
                continue;
            };
            guest.delivered += 1;
            if let Some(log) = &mut guest.log {
                log.push((self.now_us, bytes.clone()));
            }
            if (guest.lose)(guest.delivered) {
                continue;
            }
            let calls = (self.probe)();
            guest.client.receive(self.now_us, bytes);
            if let Some(playback) = &mut guest.playback {
                playback.receive(&guest.client, self.now_us);
            }
            self.cost.taken.1 += (self.probe)() - calls;
            self.cost.taken.0 += 1;
        }
    }

    /// The guest leaves the stage: its goodbye, to be given to the shard.
    pub fn dismiss(&mut self, index: usize) -> (Path, Vec<u8>) {
        let mut guest = self.guests.remove(index);
        guest.client.leave(self.now_us);
        assert!(guest.client.poll_transmit(self.now_us, &mut guest.up));
        (guest.path, guest.up)
    }
}
