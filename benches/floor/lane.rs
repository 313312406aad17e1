//! One population of clients, measured round by round: the product, the floor and the peers on the same ticks.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::UdpSocket;
use std::sync::Arc;

use ackline::delta::layout::Layout;
use ackline::net::clock::thread_cpu_ns;
use ackline::state::record::Record;
use ackline::state::view::View;
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Sealer, Secrets};
use ackline::wire::version::Agreed;

use super::encoders::{History, Mask};
use super::naive::NaiveRelay;
use super::raw::RawSender;
use super::rig::{Rig, Ticked};
use super::scene::Scene;
use super::sinks::{Sinks, sender};
use super::world::{mask_of, schema};

/// Packets of each way in a round, about.
const PACKETS: usize = 8_000;
/// Bytes of a datagram that are not sealed text: clear header and tag.
const OUTER_BYTES: u16 = 5 + 16;

/// CPU time of each way in one round, ns a packet.
#[derive(Clone, Copy, Default)]
pub struct Round {
    /// The product, sealed and sent.
    pub sealed: f64,
    /// `sendmmsg` of ready buffers of the same sizes.
    pub floor: f64,
    /// The product without the seal and the send: publish, windows, budgets, views, bodies, headers, timers.
    pub plain: f64,
    /// The seal alone, of the same sizes.
    pub seal: f64,
    /// An encoder that scans.
    pub scanning: f64,
    /// An encoder from dirty masks.
    pub masked: f64,
    /// The naive relay, whole.
    pub naive: f64,
    /// A report received, opened and taken.
    pub report: f64,
    /// A bare `recvfrom` of the same.
    pub recvfrom: f64,
    /// Bytes of a datagram, and of the naive relay's.
    pub bytes: f64,
    pub naive_bytes: f64,
}

pub struct Lane<'a> {
    pub clients: usize,
    rig: Rig<'a>,
    sinks: &'a Sinks,
    places: HashMap<u16, u32>,
    raw: RawSender,
    bare: UdpSocket,
    sealers: Vec<Sealer>,
    masks: Vec<Mask>,
    history: History,
    naive: Option<NaiveRelay>,
    layout: Layout,
}

impl<'a> Lane<'a> {
    /// `naive`: the naive relay is run too.
    pub fn new(
        scene: &'a Scene,
        sinks: &'a Sinks,
        clients: usize,
        view: impl Fn(u64) -> View,
        naive: bool,
    ) -> Lane<'a> {
        let addresses = &sinks.addresses[..clients];
        let places = addresses
            .iter()
            .zip(0..)
            .map(|(address, at)| (address.port(), at));
        let rig = Rig::new(scene, addresses, view);
        let masks: Vec<Mask> = rig.views().iter().map(|view| mask_of(*view)).collect();
        let bare = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut lane = Lane {
            clients,
            places: places.collect(),
            raw: RawSender::new(sender(), addresses),
            bare,
            sealers: (0..clients as u64).map(sealer).collect(),
            naive: naive.then(|| NaiveRelay::new(addresses, &masks)),
            masks,
            history: History::default(),
            layout: Layout::new(&schema()),
            rig,
            sinks,
        };
        for _ in 0..40 {
            lane.tick(false);
        }
        lane
    }

    fn tick(&mut self, sends: bool) -> Ticked {
        let ticked = self.rig.tick(sends);
        let frame = Arc::clone(self.rig.shard.arena().newest().unwrap());
        let records: Vec<Record> = frame.records().map(|(_, record)| *record).collect();
        self.history
            .push(self.rig.origin().cubes(), records, frame.server_us);
        if let Some(naive) = &mut self.naive {
            naive.push(self.rig.origin().cubes());
        }
        ticked
    }

    /// Destinations and sizes of a tick's datagrams.
    fn letters(&self, ticked: &Ticked) -> Vec<(u32, u16)> {
        let place = |(port, bytes): &(u16, u16)| (self.places[port], *bytes);
        ticked.letters.iter().map(place).collect()
    }

    pub fn round(&mut self) -> Round {
        let ticks = (PACKETS / self.clients).clamp(2, 400);
        let mut round = Round::default();
        let sent: Vec<Ticked> = (0..ticks).map(|_| self.tick(true)).collect();
        let letters: Vec<Vec<(u32, u16)>> = sent.iter().map(|ticked| self.letters(ticked)).collect();
        let packets = letters.iter().map(Vec::len).sum::<usize>() as f64;
        round.sealed = sent.iter().map(|ticked| ticked.cpu_ns).sum::<u64>() as f64 / packets;
        round.floor = timed(|| letters.iter().for_each(|letters| self.raw.send(letters))) / packets;
        round.bytes = letters
            .iter()
            .flatten()
            .map(|(_, bytes)| f64::from(*bytes))
            .sum::<f64>()
            / packets;
        self.plain_and_peers(ticks, &mut round);
        self.reports(ticks, &mut round);
        round
    }

    fn plain_and_peers(&mut self, ticks: usize, round: &mut Round) {
        let (mut packets, mut clients_served) = (0.0, 0.0);
        let mut out = vec![0u8; 2048];
        for _ in 0..ticks {
            let ticked = self.tick(false);
            let letters = self.letters(&ticked);
            packets += letters.len() as f64;
            clients_served += ticked.ages.len() as f64;
            round.plain += ticked.cpu_ns as f64;
            round.seal += timed(|| seal_all(&mut self.sealers, &letters));
            let clients = || ticked.ages.iter().map(|age| usize::from(*age)).zip(&self.masks);
            round.scanning += timed(|| {
                for (age, view) in clients() {
                    black_box(self.history.scan(&self.layout, age, view, &mut out));
                }
            });
            round.masked += timed(|| {
                for (age, view) in clients() {
                    black_box(self.history.mask(&self.layout, age, view, &mut out));
                }
            });
            if let Some(naive) = &mut self.naive {
                round.naive += naive.tick(&ticked.ages) as f64;
            }
        }
        round.plain = (round.plain - round.seal) / packets;
        round.seal /= packets;
        round.scanning /= clients_served;
        round.masked /= clients_served;
        round.naive /= clients_served;
        round.naive_bytes = self.naive.as_ref().map_or(0.0, NaiveRelay::bytes_per_packet);
    }

    fn reports(&mut self, ticks: usize, round: &mut Round) {
        self.rig.listen(true);
        let mut reports = 0.0;
        for _ in 0..ticks {
            self.tick(false);
            let heard = self.rig.hear_through(self.sinks, &self.bare);
            round.report += heard.taken_ns as f64;
            round.recvfrom += heard.bare_ns as f64;
            reports += heard.reports as f64;
        }
        self.rig.listen(false);
        round.report /= reports;
        round.recvfrom /= reports;
    }
}

/// Seals texts of the same sizes, each with the key of its client.
fn seal_all(sealers: &mut [Sealer], letters: &[(u32, u16)]) {
    let mut buffers = [[0x5Au8; 1280]; 64];
    for ((place, bytes), buffer) in letters.iter().zip((0..64).cycle()) {
        let sealer = &mut sealers[*place as usize];
        let (header, text) = buffers[buffer].split_at_mut(5);
        let text = &mut text[..usize::from(bytes.saturating_sub(OUTER_BYTES))];
        let number = sealer.reserve().unwrap();
        black_box(sealer.seal(number, header, text).unwrap());
    }
}

fn sealer(number: u64) -> Sealer {
    let secrets = Secrets {
        token_key: INSECURE_TOKEN_KEY,
        client_nonce: [1; 16],
        relay_nonce: [2; 16],
        connection: number,
        agreed: Agreed::NEWEST,
    };
    secrets.sealer(Direction::Down).unwrap()
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = thread_cpu_ns();
    work();
    (thread_cpu_ns() - begun) as f64
}
