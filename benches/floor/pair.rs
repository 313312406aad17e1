//! Two shards at once against one: what a second thread takes from the first, in the product and in the floor.
//!
//! Each shard has a thread, a socket, sessions and sinks of its own, as in a relay.

use std::net::SocketAddr;
use std::sync::Barrier;

use super::raw::RawSender;
use super::rig::Rig;
use super::scene::Scene;
use super::sinks::sender;
use super::world::half_view;

/// Ticks of each way in a round.
const TICKS: usize = 4;

struct Side<'a> {
    rig: Rig<'a>,
    raw: RawSender,
    letters: Vec<(u32, u16)>,
}

impl<'a> Side<'a> {
    fn new(scene: &'a Scene, addresses: &[SocketAddr]) -> Side<'a> {
        let mut rig = Rig::new(scene, addresses, half_view);
        let sizes = rig.tick(true).letters;
        let letters = (0..addresses.len() as u32)
            .zip(sizes)
            .map(|(at, (_, bytes))| (at, bytes));
        Side {
            rig,
            raw: RawSender::new(sender(), addresses),
            letters: letters.collect(),
        }
    }

    /// CPU time, ns a packet.
    fn product(&mut self) -> f64 {
        let (ns, packets) = (0..TICKS).fold((0, 0), |(ns, packets), _| {
            let ticked = self.rig.tick(true);
            (ns + ticked.cpu_ns, packets + ticked.letters.len())
        });
        ns as f64 / packets as f64
    }

    fn floor(&mut self) -> f64 {
        let begun = ackline::net::clock::thread_cpu_ns();
        (0..2 * TICKS).for_each(|_| self.raw.send(&self.letters));
        let ns = ackline::net::clock::thread_cpu_ns() - begun;
        ns as f64 / (2 * TICKS * self.letters.len()) as f64
    }
}

pub struct Pair<'a>([Side<'a>; 2]);

impl<'a> Pair<'a> {
    /// Each with half of these clients.
    pub fn new(scene: &'a Scene, addresses: &[SocketAddr]) -> Pair<'a> {
        let (first, second) = addresses.split_at(addresses.len() / 2);
        Pair([Side::new(scene, first), Side::new(scene, second)])
    }

    /// Packets per CPU second of two shards over those of one, divided by the same ratio of the floor.
    pub fn round(&mut self) -> f64 {
        let ratio = |sides: &mut [Side<'a>; 2], work: fn(&mut Side<'a>) -> f64| {
            let alone = work(&mut sides[0]);
            alone / at_once(sides, work)
        };
        ratio(&mut self.0, Side::product) / ratio(&mut self.0, Side::floor)
    }
}

/// Both sides at once: the mean of their costs.
fn at_once<'a>(sides: &mut [Side<'a>; 2], work: fn(&mut Side<'a>) -> f64) -> f64 {
    let barrier = Barrier::new(2);
    let run = |side| {
        barrier.wait();
        work(side)
    };
    let [first, second] = sides;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(second));
        (run(first) + other.join().unwrap()) / 2.0
    })
}
