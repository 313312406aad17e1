//! How many bytes one session may be sent: a token bucket for each.
//!
//! **Bound**: over any second a session is sent at most its rate and its burst; the burst is an eighth of a second's rate,
//! at least one datagram. A snapshot is planned within what the purse holds; what must go all the same (a Welcome, a sign
//! of life) is charged and paid back first.
//!
//! What gets lost is not answered with more: by half of the measured loss, up to a quarter, the rate is lowered.

use crate::limits::{DATAGRAM_MAX, UNCONFIRMED_BYTES, UNCONFIRMED_HALVINGS_MAX};

/// Bytes a second and bytes at once that one session may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Bytes at once.
    pub burst_bytes: u64,
}

/// The largest burst, bytes: a join of a thousand records at once.
const BURST_MAX: u64 = 64 << 10;

impl Budget {
    /// A rate with the burst that belongs to it.
    #[must_use]
    pub fn of_rate(bytes_per_s: u64) -> Budget {
        Budget {
            bytes_per_s,
            burst_bytes: (bytes_per_s / 8).clamp(DATAGRAM_MAX as u64, BURST_MAX),
        }
    }
}

impl Default for Budget {
    /// 4 Mbit/s, 64 KiB at once.
    fn default() -> Budget {
        Budget::of_rate(512 << 10)
    }
}

/// What one session may be sent now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purse {
    /// Millionths of a byte, so that a slow rate is not rounded away.
    micros: i64,
    filled_us: u64,
    opened: bool,
    burst_given: bool,
    /// Halvings of what comes before the first word.
    halvings: u32,
}

const MICROS: i64 = 1_000_000;

impl Purse {
    /// The purse of a session whose token was claimed so often before: what it has before its client is heard is halved each time.
    #[must_use]
    pub fn of_claim(claims_before: u32) -> Purse {
        Purse {
            halvings: claims_before.min(UNCONFIRMED_HALVINGS_MAX),
            ..Purse::default()
        }
    }

    /// Fills the purse for the time since it was filled last. A client that was not heard yet has
    /// [`UNCONFIRMED_BYTES`], once; the rest of the burst comes with its first word. `share_thousandths`: what the relay's
    /// egress cap leaves of the rate.
    pub fn fill(
        &mut self,
        budget: Budget,
        now_us: u64,
        confirmed: bool,
        loss_thousandths: u16,
        share_thousandths: u16,
    ) {
        let micros = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(MICROS);
        let first = micros((UNCONFIRMED_BYTES >> self.halvings).min(budget.burst_bytes));
        let burst = micros(budget.burst_bytes);
        if !self.opened {
            (self.opened, self.micros) = (true, first);
        }
        if confirmed {
            if !self.burst_given {
                self.burst_given = true;
                self.micros = self.micros.saturating_add(burst - first);
            }
            let elapsed_us = now_us.saturating_sub(self.filled_us).min(10_000_000);
            let lost = u64::from(loss_thousandths.min(500)) / 2;
            let rate = budget.bytes_per_s.saturating_mul(1000 - lost) / 1000;
            let rate = rate.saturating_mul(u64::from(share_thousandths.min(1000))) / 1000;
            let gained = i64::try_from(elapsed_us.saturating_mul(rate)).unwrap_or(i64::MAX);
            self.micros = self.micros.saturating_add(gained).min(burst);
        }
        self.filled_us = now_us;
    }

    /// Bytes that may be sent now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.micros / MICROS).unwrap_or(0)
    }

    /// So many bytes were sent.
    pub fn spend(&mut self, bytes: usize) {
        let spent = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(MICROS);
        self.micros = self.micros.saturating_sub(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever sends all there is, whenever: never more than rate and burst in any second.
    #[test]
    fn no_second_holds_more_than_rate_and_burst() {
        let budget = Budget::of_rate(8_000);
        assert_eq!(budget.burst_bytes, 1_200);
        let mut purse = Purse::default();
        let mut sent: Vec<(u64, usize)> = Vec::new();
        for step in 0..4_000u64 {
            let now_us = step * 3_700;
            purse.fill(budget, now_us, true, 0, 1000);
            if step % 7 != 0 && purse.bytes() >= 300 {
                let bytes = purse.bytes().min(1_200);
                purse.spend(bytes);
                sent.push((now_us, bytes));
            }
        }
        for (index, (from, _)) in sent.iter().enumerate() {
            let within = sent[index..].iter().take_while(|(at, _)| *at < from + 1_000_000);
            let total: usize = within.map(|(_, bytes)| bytes).sum();
            assert!(total <= 8_000 + 1_200, "{total} bytes in the second from {from}");
        }
        let total: usize = sent.iter().map(|(_, bytes)| bytes).sum();
        assert!(total > 110_000, "{total} bytes in 14.8 s at 8,000 a second");
    }

    #[test]
    fn a_stranger_has_little_and_loss_and_the_cap_lower_the_rate() {
        let budget = Budget::default();
        let mut purse = Purse::default();
        purse.fill(budget, 0, false, 0, 1000);
        purse.fill(budget, 5_000_000, false, 0, 1000);
        assert_eq!(purse.bytes() as u64, UNCONFIRMED_BYTES);
        purse.fill(budget, 5_000_000, true, 0, 1000);
        assert_eq!(purse.bytes() as u64, budget.burst_bytes);
        let after = |loss, share| {
            let mut purse = purse;
            purse.spend(60_000);
            let before = purse.bytes();
            purse.fill(budget, 5_010_000, true, loss, share);
            purse.bytes() - before
        };
        assert_eq!(after(0, 1000), 5_242);
        assert_eq!(after(200, 1000), 4_718);
        assert_eq!(after(0, 500), 2_621);
    }
}
