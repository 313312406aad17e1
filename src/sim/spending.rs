//! How many bytes a session is sent: in no second more than its rate and its burst (SPEC OPS5).

use std::collections::VecDeque;

use crate::limits::DATAGRAM_MAX;
use crate::relay::budget::Budget;

/// What must go although nothing is left, and is paid back: a welcome, a sign of life, bytes.
const BESIDE_BYTES: u64 = DATAGRAM_MAX as u64;

/// What one session was sent in the last second.
#[derive(Debug, Default)]
pub struct Spending {
    sent: VecDeque<(u64, u64)>,
    total: u64,
    within: u64,
    /// The most in one second.
    pub most: u64,
    said: bool,
}

impl Spending {
    /// Takes in how many bytes the session was sent since it began; what is too much about it, once.
    pub fn observe(&mut self, now_us: u64, total: u64, budget: Budget) -> Option<String> {
        let bytes = total.saturating_sub(self.total);
        if bytes == 0 {
            return None;
        }
        self.total = total;
        self.within += bytes;
        self.sent.push_back((now_us, bytes));
        while let Some((at_us, bytes)) = self.sent.front().copied()
            && at_us + 1_000_000 <= now_us
        {
            self.sent.pop_front();
            self.within -= bytes;
        }
        self.most = self.most.max(self.within);
        let bound = budget.bytes_per_s + budget.burst_bytes + BESIDE_BYTES;
        if self.within <= bound || core::mem::replace(&mut self.said, true) {
            return None;
        }
        let within = self.within;
        Some(format!(
            "{within} bytes were sent within a second, more than {bound}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_in_a_second_is_said_once() {
        let (mut spending, budget) = (Spending::default(), Budget::of_rate(10_000));
        let bound = budget.bytes_per_s + budget.burst_bytes + BESIDE_BYTES;
        assert_eq!(spending.observe(0, bound - 1, budget), None);
        assert_eq!(spending.observe(999_999, bound, budget), None);
        assert_eq!(
            spending.observe(1_000_000, bound + 400, budget),
            None,
            "the first is a second ago"
        );
        assert!(spending.observe(1_500_000, 3 * bound, budget).is_some());
        assert_eq!(spending.observe(1_600_000, 3 * bound + 9, budget), None);
        assert!(spending.most > bound);
    }
}
