//! What the ingest publishes and every shard takes: the last frames by tick, and who is to be woken.
//!
//! Publishing overwrites the oldest place; a reader compares the tick it finds with the one it looks for, so a miss
//! can only mean "too old". Nobody waits for anybody: the ingest never for a slow shard, a shard never for a lock.
//! Invariant: ticks are published by one thread, each one above the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

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
    /// When the relay had it, on [`monotonic_us`](crate::net::clock::monotonic_us).
    pub taken_us: u64,
}

/// The frames shards are served from.
pub struct Shelf {
    ring: Box<[ArcSwapOption<Shelved>]>,
    /// The newest tick in the low half, bit 32 set once there is one.
    newest: AtomicU64,
    wakers: Vec<Waker>,
}

const ANY: u64 = 1 << 32;

impl Shelf {
    /// An empty shelf; `wakers` belong to the shards.
    #[must_use]
    pub fn new(wakers: Vec<Waker>) -> Shelf {
        Shelf {
            ring: (0..ARENA_FRAMES).map(|_| ArcSwapOption::empty()).collect(),
            newest: AtomicU64::new(0),
            wakers,
        }
    }

    fn place(&self, tick: Tick) -> Option<&ArcSwapOption<Shelved>> {
        self.ring.get(tick.0 as usize % self.ring.len())
    }

    /// Puts the next frame up. Shards see it at their next turn; [`wake`](Shelf::wake) makes that now.
    pub fn publish(&self, shelved: Shelved) {
        let tick = shelved.frame.tick;
        if let Some(place) = self.place(tick) {
            place.store(Some(Arc::new(shelved)));
        }
        self.newest.store(ANY | u64::from(tick.0), Ordering::Release);
    }

    /// Wakes every shard; once for all that was published before.
    pub fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    /// The newest tick, once there is one.
    #[must_use]
    pub fn newest(&self) -> Option<Tick> {
        let newest = self.newest.load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation)] // The low half is the tick.
        (newest & ANY != 0).then_some(Tick(newest as u32))
    }

    /// Appends every frame after `last`, oldest first. True when some had left already: the reader was lapped, and
    /// its arena will see a gap and empty itself (FAULTS 40).
    pub fn collect_after(&self, last: Option<Tick>, out: &mut Vec<Arc<Shelved>>) -> bool {
        let Some(newest) = self.newest() else { return false };
        let kept = u32::try_from(self.ring.len()).unwrap_or(u32::MAX);
        let missed = match last {
            Some(last) => last.age_at(newest).unwrap_or(0),
            None => 1,
        };
        let mut lapped = missed > kept;
        let begun = out.len();
        for back in (0..missed.min(kept)).rev() {
            let tick = newest.minus(back);
            let found = self.place(tick).and_then(ArcSwapOption::load_full);
            match found.filter(|shelved| shelved.frame.tick == tick) {
                Some(shelved) => out.push(shelved),
                None => {
                    // Overwritten since `newest` was read: what came before it is of no use either.
                    lapped = true;
                    out.truncate(begun);
                }
            }
        }
        lapped
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
