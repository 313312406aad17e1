//! A relay's shard with many sessions, played tick by tick in virtual time: the product, through its public interface.
//!
//! Guests join through the handshake, are assigned their views by the origin, and report a round trip later; round trips and
//! the ticks of joining are spread, so that about as many baselines are alive as on real ways. What is measured is the CPU
//! time of the calling thread for what a shard's thread does in a tick: publish, serve, timers, and the batch sends where asked.

use std::net::{SocketAddr, UdpSocket};

use ackline::limits::BATCH_DATAGRAMS;
use ackline::net::batch::ReceiveBatch;
use ackline::net::clock::{monotonic_ns, thread_cpu_ns};
use ackline::net::socket::ShardSocket;
use ackline::node::outbox::BatchOutbox;
use ackline::relay::budget::Budget;
use ackline::relay::outbox::{MemoryOutbox, Outbox, Path};
use ackline::relay::shard::{Receipt, Shard, ShardSettings};
use ackline::sequence::Tick;
use ackline::state::player::{Directive, Order};
use ackline::state::view::View;
use ackline::wire::version::Versions;

use super::guest::Guest;
use super::receiving::{DRAINED, receive_bare};
use super::scene::Scene;
use super::sinks::Sinks;
use super::world::{Origin, PERIOD_US, schema};

/// Round trips of guests, ticks.
const ROUND_TRIPS: core::ops::Range<u32> = 3..9;
/// Ticks over which they join.
const JOIN_TICKS: usize = 6;
/// Ticks until all views are complete and reports flow.
const WARM_UP: usize = 60;

/// One datagram of a tick: the port it went to and its size.
pub type Letter = (u16, u16);

/// What a tick cost, and what it sent.
#[derive(Default, Clone)]
pub struct Ticked {
    /// CPU time of publish, serve, timers and, where asked, sends, ns.
    pub cpu_ns: u64,
    /// Datagrams, in order.
    pub letters: Vec<Letter>,
    /// Ticks between now and each session's base; 0 without one.
    pub ages: Vec<u8>,
}

/// Buffers that are sent, or not.
enum Tray {
    Sent(BatchOutbox, ShardSocket),
    Kept(Box<[[u8; 1280]; BATCH_DATAGRAMS]>, usize),
}

/// A tray that notes what is put into it.
struct Noted<'a> {
    tray: &'a mut Tray,
    letters: &'a mut Vec<Letter>,
}

impl Noted<'_> {
    fn flush(&mut self) {
        match self.tray {
            Tray::Sent(batch, socket) => {
                let report = batch.flush(socket);
                assert_eq!(report.errors.total(), 0);
            }
            Tray::Kept(_, used) => *used = 0,
        }
    }
}

impl Outbox for Noted<'_> {
    fn room(&self) -> usize {
        match &self.tray {
            Tray::Sent(batch, _) => batch.room(),
            Tray::Kept(slots, used) => slots.len() - *used,
        }
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        match self.tray {
            Tray::Sent(batch, _) => batch.reserve(),
            Tray::Kept(slots, used) => slots.get_mut(*used).map(|slot| slot.as_mut_slice()),
        }
    }

    fn commit(&mut self, length: usize, path: Path) {
        self.letters
            .push((path.remote.port(), u16::try_from(length).unwrap_or(0)));
        match self.tray {
            Tray::Sent(batch, _) => batch.commit(length, path),
            Tray::Kept(_, used) => *used += 1,
        }
    }
}

/// The shard, its sessions and their clients.
pub struct Rig<'a> {
    pub shard: Shard,
    origin: Origin<'a>,
    schema: Vec<u8>,
    guests: Vec<Guest>,
    views: Vec<View>,
    sent: Tray,
    kept: Tray,
    tick: Tick,
    now_us: u64,
    sent_us: [u64; 16],
    /// Reports of a tick and the places of their clients, sealed.
    reports: Vec<(usize, Vec<u8>)>,
    /// Reports wait for [`Rig::hear_through`].
    listens: bool,
    arrived: ReceiveBatch,
}

/// What taking a tick's reports cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// Received from the socket, opened and taken by the shard, ns of CPU time.
    pub taken_ns: u64,
    /// The same datagrams taken off another socket by `recvfrom`, ns of CPU time.
    pub bare_ns: u64,
    /// How many.
    pub reports: usize,
}

impl<'a> Rig<'a> {
    /// With a session for each address, whose view `view` gives; warmed up.
    pub fn new(scene: &'a Scene, addresses: &[SocketAddr], view: impl Fn(u64) -> View) -> Rig<'a> {
        let settings = ShardSettings {
            index: 0,
            sessions_max: addresses.len(),
            budget: Budget::of_rate(4 << 20),
            egress_bytes_per_s: None,
            view: View::WHOLE,
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: [1; 32],
            seed: [2; 32],
            stopwatch: monotonic_ns,
        };
        let mut rig = Rig {
            shard: Shard::new(settings),
            origin: Origin::new(scene),
            schema: ackline::delta::schema::encode(&schema()).unwrap(),
            guests: Vec::new(),
            views: (0..addresses.len() as u64).map(view).collect(),
            sent: Tray::Sent(BatchOutbox::default(), super::sinks::sender()),
            kept: Tray::Kept(Box::new([[0; 1280]; BATCH_DATAGRAMS]), 0),
            tick: Tick(0),
            now_us: 1_000_000,
            sent_us: [0; 16],
            reports: Vec::new(),
            listens: false,
            arrived: ReceiveBatch::new(),
        };
        rig.tick(false);
        for group in addresses.chunks(addresses.len().div_ceil(JOIN_TICKS)) {
            group.iter().for_each(|address| rig.join(*address));
            rig.tick(false);
        }
        for _ in 0..WARM_UP {
            rig.tick(false);
        }
        let whole = rig.shard.sessions().filter(|session| session.whole).count();
        assert_eq!(whole, addresses.len(), "every view is complete");
        rig
    }

    fn join(&mut self, remote: SocketAddr) {
        let number = self.guests.len() as u64;
        let path = Path { remote, local: None };
        let round_trip = ROUND_TRIPS.start + (number * 7919 % ROUND_TRIPS.len() as u64) as u32;
        let (shard, now_us) = (&mut self.shard, self.now_us);
        let guest = Guest::join(path, number, round_trip, 1, |datagram| {
            let mut outbox = MemoryOutbox::default();
            assert_eq!(shard.receive(now_us, path, datagram, &mut outbox), Receipt::Taken);
            outbox.sent.remove(0).1
        });
        self.guests.push(guest);
    }

    /// One tick: publishes, serves all, hears reports. `sends`: datagrams go out.
    pub fn tick(&mut self, sends: bool) -> Ticked {
        self.tick = self.tick.next();
        let directives = self.unassigned();
        let frame = self.origin.advance(|update| update.directives = directives);
        self.sent_us[self.tick.0 as usize % 16] = self.now_us;
        let mut ticked = Ticked {
            letters: Vec::with_capacity(self.guests.len() * 2),
            ..Ticked::default()
        };
        let mut noted = Noted {
            tray: if sends { &mut self.sent } else { &mut self.kept },
            letters: &mut ticked.letters,
        };
        let begun = thread_cpu_ns();
        self.shard.publish(frame, &self.schema);
        while self.shard.transmit(self.now_us, &mut noted) {
            noted.flush();
        }
        noted.flush();
        self.shard.timers(self.now_us, &mut noted);
        noted.flush();
        ticked.cpu_ns = thread_cpu_ns() - begun;
        self.shard.take_changes();
        self.shard.take_player_events(&mut Vec::new());
        for (guest, session) in self.guests.iter_mut().zip(self.shard.sessions()) {
            guest.take(session, self.tick);
        }
        self.now_us += PERIOD_US;
        self.hear();
        let arena = self.shard.arena();
        ticked.ages.extend(self.shard.sessions().map(|session| {
            let base = session.choose_base(arena).ok().flatten();
            base.and_then(|base| base.id.age_at(self.tick))
                .map_or(0, |age| age as u8)
        }));
        ticked
    }

    /// What the origin says of sessions that have no view of their own yet.
    fn unassigned(&mut self) -> Vec<Directive> {
        let sessions = self.shard.sessions().zip(&self.views);
        let differs = sessions.filter(|(session, view)| {
            let own = session
                .interest
                .as_ref()
                .map_or(View::WHOLE, |interest| interest.view());
            own != **view
        });
        let assign = differs.map(|(session, view)| Directive {
            player: session.connection,
            order: Order::Assign {
                entity: None,
                view: Some(*view),
            },
        });
        assign.collect()
    }

    fn hear(&mut self) {
        self.reports.clear();
        for (place, guest) in self.guests.iter_mut().enumerate() {
            let of = self.tick.0.saturating_sub(guest.round_trip());
            let mut bytes = Vec::new();
            if guest.report(self.tick, self.sent_us[of as usize % 16], &mut bytes) {
                self.reports.push((place, bytes));
            }
        }
        if self.listens {
            return;
        }
        let mut outbox = MemoryOutbox::default();
        for (place, bytes) in &mut self.reports {
            let path = self.guests[*place].path;
            let receipt = self.shard.receive(self.now_us, path, bytes, &mut outbox);
            assert_eq!(receipt, Receipt::Taken);
        }
    }

    /// Whether reports wait for [`Rig::hear_through`] from now on.
    pub fn listen(&mut self, listens: bool) {
        self.listens = listens;
    }

    /// Takes the last tick's reports through the socket, in batches that are drained at once, and through `bare` the same.
    pub fn hear_through(&mut self, sinks: &Sinks, bare: &UdpSocket) -> Heard {
        let Tray::Sent(_, socket) = &self.sent else {
            return Heard::default();
        };
        let mut heard = Heard {
            reports: self.reports.len(),
            ..Heard::default()
        };
        let mut outbox = MemoryOutbox::default();
        for batch in self.reports.chunks(DRAINED) {
            let bare_address = bare.local_addr().unwrap();
            batch
                .iter()
                .for_each(|(place, bytes)| sinks.say(*place, bytes, bare_address));
            heard.bare_ns += receive_bare(bare, batch.len());
            batch
                .iter()
                .for_each(|(place, bytes)| sinks.say(*place, bytes, socket.local_addr()));
            let begun = thread_cpu_ns();
            let report = self.arrived.receive(socket);
            for datagram in self.arrived.datagrams() {
                let path = Path {
                    remote: datagram.from,
                    local: datagram.local,
                };
                self.shard.receive(self.now_us, path, datagram.bytes, &mut outbox);
            }
            heard.taken_ns += thread_cpu_ns() - begun;
            assert_eq!(report.datagrams, batch.len());
        }
        heard
    }

    pub fn views(&self) -> &[View] {
        &self.views
    }

    pub fn origin(&self) -> &Origin<'a> {
        &self.origin
    }
}
