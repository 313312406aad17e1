//! Seeded draws, equal on every platform: what one seed decides.
//!
//! Invariant: each subject of a scenario draws from its own generator, so that forcing one setting leaves all
//! other decisions of a seed as they were. No function of the platform's mathematics library takes part.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A generator of draws about one subject.
#[derive(Clone, Debug)]
pub struct Dice {
    random: Pcg64Mcg,
}

impl Dice {
    /// The dice of a subject under a seed. Subjects are told apart by name and number.
    #[must_use]
    pub fn new(seed: u64, subject: &str, number: u64) -> Dice {
        // FNV-1a over the name, then two rounds of SplitMix64's mixing, so that near seeds share nothing.
        let name = subject.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        let mixed = mix(mix(seed ^ name).wrapping_add(number));
        Dice {
            random: Pcg64Mcg::seed_from_u64(mixed),
        }
    }

    /// Sixty-four random bits.
    pub fn bits(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Bytes of a key or nonce.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    /// Evenly from 0 up to 1, without 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Evenly from 0 to `most`, both included.
    #[allow(clippy::cast_possible_truncation)]
    pub fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.bits()) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// Evenly from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.up_to(most.saturating_sub(least))
    }

    /// Evenly from `least` up to `most`.
    pub fn real(&mut self, least: f64, most: f64) -> f64 {
        least + self.unit() * (most - least)
    }

    /// From `least` to `most`, small values as likely as large ones: the square of a unit draw.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    pub fn mostly_small(&mut self, least: u64, most: u64) -> u64 {
        let unit = self.unit();
        least + (unit * unit * (most - least + 1) as f64) as u64
    }

    /// An index below `length`, which is not 0.
    #[allow(clippy::cast_possible_truncation)]
    pub fn index(&mut self, length: usize) -> usize {
        self.up_to((length as u64).saturating_sub(1)) as usize
    }

    /// Evenly from `-most` to `most`.
    pub fn swing(&mut self, most: i64) -> i64 {
        let span = self.up_to(most.unsigned_abs() * 2);
        i64::try_from(span).unwrap_or(0) - most
    }
}

fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_repeat_by_seed_and_differ_by_subject() {
        let draw = |seed, subject, number| Dice::new(seed, subject, number).bits();
        assert_eq!(draw(1, "links", 0), draw(1, "links", 0));
        assert_ne!(draw(1, "links", 0), draw(2, "links", 0));
        assert_ne!(draw(1, "links", 0), draw(1, "links", 1));
        assert_ne!(draw(1, "links", 0), draw(1, "world", 0));
    }

    #[test]
    fn draws_stay_in_their_range_and_fill_it() {
        let mut dice = Dice::new(3, "test", 0);
        let (mut least, mut most) = (u64::MAX, 0);
        for _ in 0..2_000 {
            let drawn = dice.between(3, 9);
            (least, most) = (least.min(drawn), most.max(drawn));
            assert!((1..=5).contains(&dice.mostly_small(1, 5)));
            assert!(dice.swing(4).abs() <= 4 && dice.index(3) < 3);
            assert!((0.5..0.75).contains(&dice.real(0.5, 0.75)));
        }
        assert_eq!((least, most), (3, 9));
        assert!(!dice.chance(0.0) && dice.chance(1.0));
    }
}
