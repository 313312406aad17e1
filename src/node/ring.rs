//! The last values by tick, written by one thread and read by many, none of which waits.
//!
//! Written over any kind of place and counter, so that loom plays every interleaving of the very code that ships.
//!
//! > The writer fills a tick's place and then says that it is the newest. A reader compares the tick it finds with the
//! > one it looks for, so that a place that was overwritten meanwhile can only mean "too old".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use crate::sequence::Tick;

/// What has a tick.
pub trait Ticked {
    /// Its tick.
    fn tick(&self) -> Tick;
}

/// A place for one shared value.
pub trait Place<V> {
    /// An empty place.
    fn empty() -> Self;
    /// Puts a value in.
    fn put(&self, value: Arc<V>);
    /// The value, if any.
    fn get(&self) -> Option<Arc<V>>;
}

impl<V> Place<V> for ArcSwapOption<V> {
    fn empty() -> Self {
        ArcSwapOption::empty()
    }

    fn put(&self, value: Arc<V>) {
        self.store(Some(value));
    }

    fn get(&self) -> Option<Arc<V>> {
        self.load_full()
    }
}

/// A number whose write is seen after all that was written before it.
pub trait Mark {
    /// Zero.
    fn zero() -> Self;
    /// Says a number.
    fn release(&self, number: u64);
    /// Reads it.
    fn acquire(&self) -> u64;
}

impl Mark for AtomicU64 {
    fn zero() -> Self {
        AtomicU64::new(0)
    }

    fn release(&self, number: u64) {
        self.store(number, Ordering::Release);
    }

    fn acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }
}

/// The last values by tick.
pub struct Ring<P, M> {
    places: Box<[P]>,
    /// The newest tick in the low half, bit 32 set once there is one.
    newest: M,
}

const ANY: u64 = 1 << 32;

impl<P, M: Mark> Ring<P, M> {
    /// An empty ring. Its length divides the number of ticks, so that ticks keep their distance across the wrap.
    ///
    /// # Panics
    /// When the length is no power of two.
    #[must_use]
    pub fn new<V>(length: usize) -> Ring<P, M>
    where
        P: Place<V>,
    {
        assert!(length.is_power_of_two());
        Ring {
            places: (0..length).map(|_| P::empty()).collect(),
            newest: M::zero(),
        }
    }

    fn place(&self, tick: Tick) -> Option<&P> {
        self.places.get(tick.0 as usize % self.places.len().max(1))
    }

    /// Puts up the next value, of a tick after the last.
    pub fn publish<V: Ticked>(&self, value: V)
    where
        P: Place<V>,
    {
        let tick = value.tick();
        if let Some(place) = self.place(tick) {
            place.put(Arc::new(value));
        }
        self.newest.release(ANY | u64::from(tick.0));
    }

    /// The newest tick, once there is one.
    #[must_use]
    pub fn newest(&self) -> Option<Tick> {
        let newest = self.newest.acquire();
        #[allow(clippy::cast_possible_truncation)] // The low half is the tick.
        (newest & ANY != 0).then_some(Tick(newest as u32))
    }

    /// Appends every value after `last`, oldest first. True when some had left already: the reader was lapped, and
    /// its arena will see a gap and empty itself (FAULTS 40).
    pub fn collect_after<V: Ticked>(&self, last: Option<Tick>, out: &mut Vec<Arc<V>>) -> bool
    where
        P: Place<V>,
    {
        let Some(newest) = self.newest() else { return false };
        let kept = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let missed = match last {
            Some(last) => last.age_at(newest).unwrap_or(0),
            None => 1,
        };
        let mut lapped = missed > kept;
        let begun = out.len();
        for back in (0..missed.min(kept)).rev() {
            let tick = newest.minus(back);
            let found = self.place(tick).and_then(Place::get);
            match found.filter(|value| value.tick() == tick) {
                Some(value) => out.push(value),
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
    use loom::sync::atomic::AtomicU64 as LoomU64;

    struct Value(Tick);

    impl Ticked for Value {
        fn tick(&self) -> Tick {
            self.0
        }
    }

    /// What an `ArcSwapOption` is to its users: one value at a time, whole.
    struct Swap(loom::sync::Mutex<Option<Arc<Value>>>);

    impl Place<Value> for Swap {
        fn empty() -> Self {
            Swap(loom::sync::Mutex::new(None))
        }

        fn put(&self, value: Arc<Value>) {
            *self.0.lock().unwrap() = Some(value);
        }

        fn get(&self) -> Option<Arc<Value>> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Mark for LoomU64 {
        fn zero() -> Self {
            LoomU64::new(0)
        }

        fn release(&self, number: u64) {
            self.store(number, Ordering::Release);
        }

        fn acquire(&self) -> u64 {
            self.load(Ordering::Acquire)
        }
    }

    /// Plays a writer of `ticks` ticks beside a reader that looks `looks` times, in every interleaving.
    fn play(length: usize, ticks: u32, looks: usize) {
        loom::model(move || {
            let ring = loom::sync::Arc::new(Ring::<Swap, LoomU64>::new(length));
            let writer = {
                let ring = loom::sync::Arc::clone(&ring);
                loom::thread::spawn(move || {
                    (0..ticks).for_each(|step| ring.publish(Value(Tick(u32::MAX).plus(step))));
                })
            };
            let (mut last, mut out) = (None::<Tick>, Vec::new());
            for _ in 0..looks {
                out.clear();
                let lapped = ring.collect_after(last, &mut out);
                assert!(!lapped || ticks as usize > length, "nothing was overwritten");
                for value in &out {
                    let follows = last.is_none_or(|last| last.next() == value.0);
                    assert!(follows || lapped, "{:?} after {last:?}", value.0);
                    assert!(last.is_none_or(|last| value.0.is_after(last)));
                    last = Some(value.0);
                }
            }
            writer.join().unwrap();
            out.clear();
            let lapped = ring.collect_after(last, &mut out);
            let newest = Tick(u32::MAX).plus(ticks - 1);
            let seen = out.last().map(|value| value.0).or(last);
            assert_eq!(seen, Some(newest), "all is seen in the end");
            assert!(last.is_none() || lapped || out.len() as u32 == newest.0.wrapping_sub(last.unwrap().0));
        });
    }

    /// FAULTS 40: in every interleaving of a writer and a reader a tick follows the last or the reader is told that it
    /// was lapped; across the wrap.
    #[test]
    fn faults_40_no_interleaving_hides_a_gap() {
        play(2, 4, 2);
        play(4, 3, 2);
    }
}
