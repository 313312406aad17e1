//! What a shard's loop counts beside its core: plain integers, exported with the core's.

use crate::net::errno::ErrnoCounts;
use crate::relay::counters::{Histogram, TIME_BOUNDS_US, WORK_BOUNDS_NS};

/// Counts of one shard's loop. Totals only rise.
#[derive(Clone, Debug)]
pub struct LoopCounters {
    /// Datagrams the kernel took.
    pub sent: u64,
    /// Bytes handed to it.
    pub bytes: u64,
    /// Datagrams not sent.
    pub send_errors: ErrnoCounts,
    /// Errors met while receiving, and late news of datagrams sent earlier.
    pub receive_errors: ErrnoCounts,
    /// Datagrams of other shards' sessions: handed over, and dropped for want of room.
    pub forwarded: [u64; 2],
    /// Datagrams the kernel dropped before they were read.
    pub kernel_drops: u64,
    /// Ticks not served to all because a newer one had come.
    pub overruns: u64,
    /// Times the shard was behind by more than the shelf keeps.
    pub lapped: u64,
    /// Lateness of ticks, microseconds.
    pub lateness: Peak,
    /// Nanoseconds in send calls.
    pub send_ns_total: u64,
    /// The same by datagram.
    pub send_ns: Histogram,
    /// From a tick's arrival to the kernel, by datagram, microseconds.
    pub delay_us: Histogram,
}

impl Default for LoopCounters {
    fn default() -> LoopCounters {
        LoopCounters {
            sent: 0,
            bytes: 0,
            send_errors: ErrnoCounts::default(),
            receive_errors: ErrnoCounts::default(),
            forwarded: [0; 2],
            kernel_drops: 0,
            overruns: 0,
            lapped: 0,
            lateness: Peak::default(),
            send_ns_total: 0,
            send_ns: Histogram::new(WORK_BOUNDS_NS),
            delay_us: Histogram::new(TIME_BOUNDS_US),
        }
    }
}

/// The greatest value of the last second: of the present whole second and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    second: u64,
    now: u64,
    before: u64,
}

impl Peak {
    /// Takes a value.
    pub fn observe(&mut self, now_us: u64, value: u64) {
        self.age(now_us);
        self.now = self.now.max(value);
    }

    /// Forgets what is older than that.
    pub fn age(&mut self, now_us: u64) {
        let second = now_us / 1_000_000;
        if second != self.second {
            self.before = if second == self.second + 1 { self.now } else { 0 };
            (self.second, self.now) = (second, 0);
        }
    }

    /// The greatest value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.now.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_seen_for_a_second_and_then_forgotten() {
        let mut peak = Peak::default();
        peak.observe(5_000_000, 70);
        peak.observe(5_900_000, 3);
        assert_eq!(peak.value(), 70);
        peak.observe(6_100_000, 4);
        assert_eq!(peak.value(), 70);
        peak.age(7_000_000);
        assert_eq!(peak.value(), 4);
        peak.age(99_000_000);
        assert_eq!(peak.value(), 0);
    }
}
