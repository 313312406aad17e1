//! How often: one leaky bucket by itself, and many in a table of fixed size.
//!
//! > [`Bucket::take`] charges units and says whether there was room. [`Throttle::take`] does that for a key, such as an address.
//!
//! A bucket is one time: when it will have leaked empty (the virtual scheduling of ITU-T I.371's rate algorithm). A table keeps
//! a bucket for each key that has one which is not empty, in a set of a few places that a keyed hash chooses.
//!
//! Invariants: nothing is allocated after [`Throttle::new`]; a bucket that is not empty is never given up for another key, so
//! nobody loses his count by filling the table; a key that finds no place shares one budget with all that find none, so a full
//! table slows newcomers down and never shuts all of them out (THREATS 16).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Places that a key may be kept in.
const WAYS: usize = 8;
const NANOS: u64 = 1_000_000_000;

/// So many units a second, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units a second; 0 for no limit.
    pub per_s: u64,
    /// Units at once.
    pub burst: u64,
}

impl Rate {
    /// No limit.
    pub const NONE: Rate = Rate { per_s: 0, burst: 0 };

    /// A rate with as many at once as come in `burst_s` seconds, and `least` at least. 0 a second is no limit.
    #[must_use]
    pub const fn new(per_s: u64, burst_s: u64, least: u64) -> Rate {
        let burst = per_s.saturating_mul(burst_s);
        Rate {
            per_s,
            burst: if burst < least { least } else { burst },
        }
    }

    /// The share of one of so many that divide it evenly.
    #[must_use]
    pub const fn shared_by(self, shares: u64, least: u64) -> Rate {
        let burst = self.burst / shares;
        Rate {
            per_s: self.per_s.div_ceil(shares),
            burst: if burst < least { least } else { burst },
        }
    }

    fn step_ns(self) -> Option<u64> {
        NANOS.checked_div(self.per_s)
    }
}

/// What leaks evenly. Times are microseconds of the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When it will be empty, nanoseconds.
    empty_ns: u64,
}

impl Bucket {
    /// True when it holds nothing.
    #[must_use]
    pub fn is_empty(&self, now_us: u64) -> bool {
        self.empty_ns <= now_us.saturating_mul(1_000)
    }

    /// True when so many units have room.
    #[must_use]
    pub fn has_room(&self, rate: Rate, now_us: u64, units: u64) -> bool {
        let Some(step_ns) = rate.step_ns() else {
            return true;
        };
        let level_ns = self.empty_ns.saturating_sub(now_us.saturating_mul(1_000));
        let cost_ns = units.saturating_mul(step_ns);
        level_ns.saturating_add(cost_ns) <= rate.burst.saturating_mul(step_ns)
    }

    /// Takes so many units in; false, and then nothing changed, when they have no room.
    pub fn take(&mut self, rate: Rate, now_us: u64, units: u64) -> bool {
        if !self.has_room(rate, now_us, units) {
            return false;
        }
        if let Some(step_ns) = rate.step_ns() {
            let from_ns = self.empty_ns.max(now_us.saturating_mul(1_000));
            self.empty_ns = from_ns.saturating_add(units.saturating_mul(step_ns));
        }
        true
    }
}

/// What became of a key's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Granted, within its own rate.
    Own,
    /// Granted from the budget of all that found no place.
    Shared,
    /// Its own rate is spent.
    Spent,
    /// It found no place, and the shared budget is spent.
    Crowded,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The key's hash; 0 for none.
    tag: u64,
    bucket: Bucket,
}

/// Buckets of many keys.
pub struct Throttle {
    rate: Rate,
    crowd_rate: Rate,
    crowd: Bucket,
    entries: Box<[Entry]>,
    /// Keyed, and nothing written.
    hasher: SipHasher13,
}

impl Throttle {
    /// A table of `places`, a power of two, in which each key has `rate`, and all that find no place have `crowd_rate`
    /// together. `secret` keeps others from choosing keys that meet. Without a rate nothing is kept.
    #[must_use]
    pub fn new(rate: Rate, crowd_rate: Rate, places: usize, secret: [u8; 16]) -> Throttle {
        debug_assert!(places.is_power_of_two() && places >= WAYS);
        let places = if rate.per_s == 0 { 0 } else { places };
        Throttle {
            rate,
            crowd_rate,
            crowd: Bucket::default(),
            entries: vec![Entry::default(); places].into_boxed_slice(),
            hasher: SipHasher13::new_with_key(&secret),
        }
    }

    fn hash(&self, key: u128) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(&key.to_le_bytes());
        hasher.finish()
    }

    /// True when one more of a key would find its own rate spent. Nothing is charged.
    #[must_use]
    pub fn is_spent(&self, now_us: u64, key: u128) -> bool {
        let hash = self.hash(key);
        let sets = (self.entries.len() / WAYS) as u64;
        let Some(set) = hash.checked_rem(sets).and_then(|set| usize::try_from(set).ok()) else {
            return false;
        };
        let ways = self.entries.get(set * WAYS..(set + 1) * WAYS).unwrap_or_default();
        let known = ways.iter().find(|entry| entry.tag == hash | 1);
        known.is_some_and(|entry| !entry.bucket.has_room(self.rate, now_us, 1))
    }

    /// One more of a key.
    pub fn take(&mut self, now_us: u64, key: u128) -> Pass {
        let (rate, hash) = (self.rate, self.hash(key));
        let sets = (self.entries.len() / WAYS) as u64;
        let Some(set) = hash.checked_rem(sets).and_then(|set| usize::try_from(set).ok()) else {
            return Pass::Own;
        };
        let tag = hash | 1;
        let Some(ways) = self.entries.get_mut(set * WAYS..(set + 1) * WAYS) else {
            return Pass::Own;
        };
        let known = ways.iter().position(|entry| entry.tag == tag);
        let place = known.or_else(|| ways.iter().position(|entry| entry.bucket.is_empty(now_us)));
        if let Some(entry) = place.and_then(|place| ways.get_mut(place)) {
            if known.is_none() {
                *entry = Entry {
                    tag,
                    bucket: Bucket::default(),
                };
            }
            return match entry.bucket.take(rate, now_us, 1) {
                true => Pass::Own,
                false => Pass::Spent,
            };
        }
        match self.crowd.take(self.crowd_rate, now_us, 1) {
            true => Pass::Shared,
            false => Pass::Crowded,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const TEN: Rate = Rate { per_s: 10, burst: 5 };

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::default();
        let taken = (0..10_000_000u64)
            .step_by(1_000)
            .filter(|now_us| bucket.take(TEN, *now_us, 1))
            .count();
        assert_eq!(taken, 5 + 99, "ten seconds");
        assert!(!bucket.take(TEN, 10_000_000, 5) && bucket.take(TEN, 10_500_000, 5));
        assert!((0..100).all(|_| bucket.take(Rate::NONE, 0, u64::MAX)), "no limit");
    }

    /// THREATS 2: one address has its own rate, whoever else comes.
    #[test]
    fn threats_2_each_key_has_its_own_rate() {
        let mut throttle = Throttle::new(TEN, TEN, 1 << 10, [1; 16]);
        let mut passed = 0;
        for now_us in (0..10_000_000u64).step_by(500) {
            passed += u64::from(throttle.take(now_us, 7) == Pass::Own);
            throttle.take(now_us, u128::from(now_us) << 32);
        }
        assert!((100..=105).contains(&passed), "{passed}");
    }

    /// THREATS 16: a table full of made-up keys forgets none of those that are over their rate, and lets some newcomers in all
    /// the time: as many as the shared budget has.
    #[test]
    fn threats_16_a_full_table_shares_one_budget() {
        let slow = Rate { per_s: 1, burst: 2 };
        let shared = Rate {
            per_s: 100,
            burst: 100,
        };
        let mut throttle = Throttle::new(slow, shared, 1 << 8, [1; 16]);
        assert_eq!(
            [(); 3].map(|()| throttle.take(0, 7)),
            [Pass::Own, Pass::Own, Pass::Spent]
        );
        let mut passes = std::collections::BTreeMap::new();
        for key in 0..100_000u64 {
            let now_us = key * 10;
            let pass = throttle.take(now_us, u128::from(key) + 1_000);
            *passes.entry(format!("{pass:?}")).or_insert(0u64) += 1;
        }
        assert_eq!(throttle.take(900_000, 7), Pass::Spent, "not forgotten");
        assert!((190..=200).contains(&passes["Shared"]), "{passes:?}");
        assert!(
            passes["Own"] >= 256 - 8 && passes["Crowded"] > 90_000,
            "{passes:?}"
        );
    }
}
