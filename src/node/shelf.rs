//! What the ingest publishes and every shard takes: the last frames by tick, and who is to be woken.
//!
//! Nobody waits for anybody: the ingest never for a slow shard, a shard never for a lock (see [`ring`](super::ring)).
//! Invariant: ticks are published by one thread, each one above the last.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwapOption;

use super::ring::{Ring, Ticked};
use crate::limits::ARENA_FRAMES;
use crate::net::waker::Waker;
use crate::sequence::Tick;
use crate::state::frame::Frame;

/// A frame and what goes with it.
#[derive(Clone, Debug)]
pub struct Shelved {
    /// The frame.
    pub frame: Arc<Frame>,
    /// Its stream's schema in canonical form.
    pub schema: Arc<[u8]>,
    /// Directives in all frames before it: what tells a shard that was lapped whether it missed any.
    pub directives_before: u64,
    /// When the relay had it, on [`monotonic_us`](crate::net::clock::monotonic_us).
    pub taken_us: u64,
}

impl Shelved {
    /// Directives up to this frame.
    #[must_use]
    pub fn directives(&self) -> u64 {
        self.directives_before + self.frame.directives.len() as u64
    }
}

impl Ticked for Shelved {
    fn tick(&self) -> Tick {
        self.frame.tick
    }
}

/// The frames shards are served from.
pub struct Shelf {
    ring: Ring<ArcSwapOption<Shelved>, AtomicU64>,
    wakers: Vec<Waker>,
}

impl Shelf {
    /// An empty shelf; `wakers` belong to the shards.
    #[must_use]
    pub fn new(wakers: Vec<Waker>) -> Shelf {
        Shelf {
            ring: Ring::new(ARENA_FRAMES),
            wakers,
        }
    }

    /// Puts the next frame up. Shards see it at their next turn; [`wake`](Shelf::wake) makes that now.
    pub fn publish(&self, shelved: Shelved) {
        self.ring.publish(shelved);
    }

    /// Wakes every shard; once for all that was published before.
    pub fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// The newest tick, once there is one.
    #[must_use]
    pub fn newest(&self) -> Option<Tick> {
        self.ring.newest()
    }

    /// Appends every frame after `last`, oldest first. True when some had left already: the reader was lapped, and
    /// its arena will see a gap and empty itself (FAULTS 40).
    pub fn collect_after(&self, last: Option<Tick>, out: &mut Vec<Arc<Shelved>>) -> bool {
        self.ring.collect_after(last, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::schema::tests::full_schema;
    use crate::state::world::World;

    fn world() -> World {
        World::new(Arc::new(full_schema()), 1, 8)
    }

    fn put(shelf: &Shelf, world: &mut World, tick: Tick) {
        let frame = world.hold(tick, false);
        shelf.publish(Shelved {
            frame,
            schema: Arc::from([]),
            directives_before: 0,
            taken_us: 0,
        });
    }

    fn ticks(out: &[Arc<Shelved>]) -> Vec<u32> {
        out.iter().map(|shelved| shelved.frame.tick.0).collect()
    }

    /// FAULTS 40: a shard that fell behind gets every frame it missed, in order.
    #[test]
    fn faults_40_a_shard_that_fell_behind_catches_up_without_a_gap() {
        let (shelf, mut world) = (Shelf::new(Vec::new()), world());
        let mut out = Vec::new();
        assert!(!shelf.collect_after(None, &mut out) && out.is_empty() && shelf.newest().is_none());
        for tick in 1..=5 {
            put(&shelf, &mut world, Tick(tick));
        }
        assert!(!shelf.collect_after(None, &mut out));
        assert_eq!(ticks(&out), [5], "a new shard begins with the newest");
        out.clear();
        assert!(!shelf.collect_after(Some(Tick(2)), &mut out));
        assert_eq!(ticks(&out), [3, 4, 5]);
        out.clear();
        assert!(!shelf.collect_after(Some(Tick(5)), &mut out) && out.is_empty());
    }

    /// FAULTS 40: one that was lapped is told so and gets what there is, across the wrap of ticks too.
    #[test]
    fn faults_40_a_lapped_shard_is_told_and_gets_what_is_left() {
        let (shelf, mut world) = (Shelf::new(Vec::new()), world());
        let first = Tick(u32::MAX - 20);
        for step in 0..ARENA_FRAMES as u32 + 50 {
            put(&shelf, &mut world, first.plus(step));
        }
        let mut out = Vec::new();
        assert!(shelf.collect_after(Some(first), &mut out));
        assert_eq!(out.len(), ARENA_FRAMES);
        assert_eq!(out.last().unwrap().frame.tick, shelf.newest().unwrap());
        for pair in out.windows(2) {
            assert_eq!(pair[0].frame.tick.next(), pair[1].frame.tick);
        }
        out.clear();
        assert!(!shelf.collect_after(Some(first.plus(ARENA_FRAMES as u32 + 40)), &mut out));
        assert_eq!(out.len(), 9);
    }

    /// A reader beside a writer never sees a gap that it is not told of.
    #[test]
    fn a_reader_beside_the_writer_sees_every_tick_or_is_told() {
        let (shelf, mut world) = (Shelf::new(Vec::new()), world());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut last, mut out) = (None::<Tick>, Vec::new());
                while last.is_none_or(|last| last.0 < 20_000) {
                    out.clear();
                    let lapped = shelf.collect_after(last, &mut out);
                    for shelved in &out {
                        let tick = shelved.frame.tick;
                        let follows = last.is_none_or(|last| last.next() == tick);
                        assert!(follows || lapped, "tick {tick:?} after {last:?}");
                        last = Some(tick);
                    }
                }
            });
            for tick in 1..=20_000 {
                put(&shelf, &mut world, Tick(tick));
            }
            reader.join().unwrap();
        });
    }
}
