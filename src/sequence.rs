//! Wrapping counters, as newtypes.
//!
//! A counter that travels in few bits, or that may wrap in a long life, is compared by serial-number
//! arithmetic (RFC 1982): the order of two values is the sign of their wrapping difference. Values
//! further apart than half the range have no order, so no two live values may ever be that far apart.
//! [`Tick`] is 32 bits wide and a window spans some hundred ticks (SPEC ID8, DEC6).

use core::fmt;

/// A relay tick: the number of a published [`Frame`](crate::state::Frame), and so the id of every snapshot
/// made from it. It rises by one per published frame for the life of the relay process, across upstream
/// restarts: a snapshot id never restarts within a session (SPEC DEC6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tick(pub u32);

impl Tick {
    /// The tick after this one.
    #[must_use]
    pub fn next(self) -> Tick {
        Tick(self.0.wrapping_add(1))
    }

    /// This tick plus `n`.
    #[must_use]
    pub fn plus(self, n: u32) -> Tick {
        Tick(self.0.wrapping_add(n))
    }

    /// This tick minus `n`.
    #[must_use]
    pub fn minus(self, n: u32) -> Tick {
        Tick(self.0.wrapping_sub(n))
    }

    /// True when `self` is later than `other` in serial order.
    #[must_use]
    pub fn is_after(self, other: Tick) -> bool {
        self.since(other) > 0
    }

    /// How many ticks `self` is after `other`; negative when it is before.
    #[must_use]
    pub fn since(self, other: Tick) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// The age of `self` seen from `now` in ticks, or `None` when `self` lies in the future of `now`.
    #[must_use]
    pub fn age_at(self, now: Tick) -> Option<u32> {
        u32::try_from(now.since(self)).ok()
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a player's input: rises by one from 1 in a session (SPEC PRE1). A session ends before they do; whoever
/// numbers its own inputs and never ends may wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct InputNumber(pub u32);

impl InputNumber {
    /// True when `self` is later than `other` in serial order.
    #[must_use]
    pub fn is_after(self, other: InputNumber) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }
}

/// Widens a number that travelled as its low 32 bits, given the highest number known so far: of all numbers
/// with these low bits, the one nearest to `highest + 1`, never below zero (SPEC ID8, DEC6).
#[must_use]
pub fn widen(low: u32, highest: u64) -> u64 {
    const SPAN: u64 = 1 << 32;
    let expected = highest.wrapping_add(1);
    let candidate = (expected & !(SPAN - 1)) | u64::from(low);
    if candidate.saturating_add(SPAN / 2) <= expected {
        candidate.saturating_add(SPAN)
    } else if candidate > expected.saturating_add(SPAN / 2) && candidate >= SPAN {
        candidate - SPAN
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPEC ID8: order survives the wrap.
    #[test]
    fn id8_ticks_are_ordered_across_the_wrap() {
        let before = Tick(u32::MAX - 1);
        let after = before.plus(5);
        assert_eq!(after, Tick(3));
        assert!(after.is_after(before));
        assert!(!before.is_after(after));
        assert_eq!(after.since(before), 5);
        assert_eq!(before.since(after), -5);
        assert_eq!(before.age_at(after), Some(5));
        assert_eq!(after.age_at(before), None);
        assert!(!before.is_after(before));
    }

    /// SPEC ID8, PRE1: inputs are ordered across the wrap.
    #[test]
    fn id8_input_numbers_are_ordered_across_the_wrap() {
        let (last, next) = (InputNumber(u32::MAX), InputNumber(0));
        assert!(next.is_after(last) && !last.is_after(next) && !last.is_after(last));
    }

    /// SPEC ID8: what travels in few bits is widened to the nearest number.
    #[test]
    fn id8_numbers_are_widened_to_the_nearest() {
        assert_eq!(widen(0, 0), 0);
        assert_eq!(widen(1, 0), 1);
        assert_eq!(widen(u32::MAX, 0), u64::from(u32::MAX));
        let top = u64::from(u32::MAX);
        assert_eq!(widen(0, top), top + 1);
        assert_eq!(widen(5, top), top + 6);
        assert_eq!(widen(u32::MAX, top + 1), top);
        assert_eq!(widen(7, 3 << 32), (3 << 32) + 7);
        assert_eq!(widen(u32::MAX, 3 << 32), (3 << 32) - 1);
    }
}
