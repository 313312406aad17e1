//! A tick in 16 bits: when something last happened, for lists of thousands of entries.
//!
//! Invariant: a stamp is looked at, and [`kept`](Stamp::kept) young, at least every 2^14 ticks, so that none seems newer
//! than it is (SPEC ID8).

use crate::sequence::Tick;

/// The age at which a stamp stops ageing, ticks.
pub const LONG_AGO: u16 = 1 << 14;

/// The low bits of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u16);

impl Stamp {
    /// The stamp of a tick.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn of(tick: Tick) -> Stamp {
        Stamp(tick.0 as u16)
    }

    /// A stamp of long before `now`.
    #[must_use]
    pub fn long_ago(now: Tick) -> Stamp {
        Stamp(Stamp::of(now).0.wrapping_sub(LONG_AGO))
    }

    /// Ticks since, at most [`LONG_AGO`].
    #[must_use]
    pub fn age(self, now: Tick) -> u16 {
        Stamp::of(now).0.wrapping_sub(self.0).min(LONG_AGO)
    }

    /// The same stamp, or one of [`LONG_AGO`] ticks ago where it is older.
    #[must_use]
    pub fn kept(self, now: Tick) -> Stamp {
        Stamp(Stamp::of(now).0.wrapping_sub(self.age(now)))
    }

    /// True when it is of a tick before `tick`, which lies not after `now`.
    #[must_use]
    pub fn is_before(self, tick: Tick, now: Tick) -> bool {
        tick.age_at(now).is_some_and(|age| u32::from(self.age(now)) > age)
    }

    /// True when it is of a tick after `tick`, which lies not after `now`.
    #[must_use]
    pub fn is_after(self, tick: Tick, now: Tick) -> bool {
        tick.age_at(now).is_none_or(|age| u32::from(self.age(now)) < age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_age_and_stop_ageing() {
        let mut now = Tick(u32::MAX - 10);
        let mut stamp = Stamp::of(now);
        for step in 0..200_000u32 {
            assert_eq!(u32::from(stamp.age(now)), step.min(u32::from(LONG_AGO)));
            now = now.next();
            stamp = stamp.kept(now);
        }
        assert_eq!(Stamp::long_ago(now).age(now), LONG_AGO);
    }

    #[test]
    fn after_means_after() {
        let now = Tick(5);
        let stamp = Stamp::of(now.minus(3));
        assert!(stamp.is_after(now.minus(4), now));
        assert!(!stamp.is_after(now.minus(3), now) && !stamp.is_after(now, now));
        assert!(stamp.is_before(now, now) && !stamp.is_before(now.minus(3), now));
    }
}
