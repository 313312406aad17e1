//! Seeded draws of a scene.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// A generator of draws about one subject.
pub struct Draws {
    random: Pcg64,
}

impl Draws {
    /// The draws of a subject, by number, under a seed.
    #[must_use]
    pub fn new(seed: u64, subject: u64) -> Draws {
        Draws {
            random: Pcg64::seed_from_u64(mixed(seed ^ mixed(subject))),
        }
    }

    /// Uniform in the range, from 32 random bits: exact in an f64.
    pub fn between(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + f64::from(self.random.next_u32()) / 4_294_967_296.0 * (high - low)
    }

    /// A number below `count`; 0 where there is none.
    #[allow(clippy::cast_possible_truncation)]
    pub fn below(&mut self, count: usize) -> usize {
        ((u64::from(self.random.next_u32()) * count as u64) >> 32) as usize
    }

    /// True once in `odds` times.
    pub fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    /// Sixteen random bits.
    #[allow(clippy::cast_possible_truncation)]
    pub fn bits(&mut self) -> u16 {
        (self.random.next_u32() >> 16) as u16
    }
}

/// SplitMix64's finaliser: near numbers share nothing afterwards.
#[must_use]
pub fn mixed(number: u64) -> u64 {
    let a = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    c ^ (c >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_their_range_and_differ_by_seed_and_subject() {
        let mut draws = Draws::new(1, 2);
        for _ in 0..10_000 {
            assert!((-3.0..5.0).contains(&draws.between([-3.0, 5.0])));
            assert!(draws.below(7) < 7);
        }
        assert_eq!(draws.below(0), 0);
        let first = |seed, subject| Draws::new(seed, subject).bits();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 1));
    }
}
