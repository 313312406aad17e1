//! How long to wait before the next attempt: twice as long each time up to a bound, with jitter, so that many who
//! lost the same peer do not return in the same instant (FAULTS 46).

/// Growing pauses. Units are microseconds.
#[derive(Clone, Debug)]
pub struct Backoff {
    least_us: u64,
    most_us: u64,
    next_us: u64,
    state: u64,
}

impl Backoff {
    /// Pauses from `bounds.0` to `bounds.1`; `seed` of the jitter.
    #[must_use]
    pub fn new(bounds: (u64, u64), seed: u64) -> Backoff {
        let (least_us, most_us) = bounds;
        Backoff {
            least_us,
            most_us,
            next_us: least_us,
            state: seed | 1,
        }
    }

    /// It worked: the next pause is the shortest again.
    pub fn reset(&mut self) {
        self.next_us = self.least_us;
    }

    /// The pause before the next attempt: anywhere from half of the present length to all of it.
    pub fn next_us(&mut self) -> u64 {
        // xorshift64 (Marsaglia 2003): quality enough to spread pauses.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let length_us = self.next_us;
        self.next_us = length_us.saturating_mul(2).min(self.most_us);
        length_us - self.state % (length_us / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 44, 46: pauses grow to the bound and no further, differ between relays, and begin anew.
    #[test]
    fn faults_44_46_pauses_grow_to_a_bound_and_are_spread() {
        let mut one = Backoff::new((50_000, 2_000_000), 1);
        let mut other = Backoff::new((50_000, 2_000_000), 7_777_777);
        let pauses: Vec<u64> = (0..20).map(|_| one.next_us()).collect();
        let others: Vec<u64> = (0..20).map(|_| other.next_us()).collect();
        assert_ne!(pauses, others);
        for (turn, pause) in pauses.iter().enumerate() {
            let length = (50_000u64 << turn.min(10)).min(2_000_000);
            assert!((length / 2..=length).contains(pause), "{pauses:?}");
        }
        one.reset();
        assert!(one.next_us() <= 50_000);
    }
}
