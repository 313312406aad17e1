//! What chance decides for each datagram: draws that are equal on every platform.
//!
//! Each draw takes the same count of random numbers whatever the settings are.

use super::settings::ImpairmentSettings;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The generator, and whether the link is in a burst of loss (Gilbert-Elliott).
#[derive(Debug)]
pub(crate) struct Chance {
    random: Pcg64Mcg,
    in_burst: bool,
}

/// What is decided for one datagram.
pub(crate) struct Draw {
    pub(crate) lost: bool,
    pub(crate) first: Fate,
    /// The fate of a copy, when there is one.
    pub(crate) second: Option<Fate>,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance {
            random: Pcg64Mcg::seed_from_u64(seed),
            in_burst: false,
        }
    }

    /// Decides for the next datagram.
    pub(crate) fn draw(&mut self, settings: &ImpairmentSettings) -> Draw {
        let burst = unit(self.random.next_u64());
        let lost = unit(self.random.next_u64());
        let duplicate = unit(self.random.next_u64());
        let first = Fate::draw(&mut self.random);
        let second = Fate::draw(&mut self.random);
        match settings.burst_loss {
            Some((begin, end)) => self.in_burst ^= burst < if self.in_burst { end } else { begin },
            None => self.in_burst = false,
        }
        let copied = duplicate < settings.duplicate;
        Draw {
            lost: self.in_burst || lost < settings.loss,
            first,
            second: copied.then_some(second),
        }
    }
}

/// What chance holds for one delivery: two shares in 0..1, the rest 64 random bits.
#[derive(Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) jitter: u64,
    pub(crate) held: f64,
    pub(crate) hold: u64,
    pub(crate) corrupted: f64,
    pub(crate) bit: u64,
}

impl Fate {
    fn draw(random: &mut Pcg64Mcg) -> Fate {
        Fate {
            jitter: random.next_u64(),
            held: unit(random.next_u64()),
            hold: random.next_u64(),
            corrupted: unit(random.next_u64()),
            bit: random.next_u64(),
        }
    }
}

/// 64 random bits as a number in 0..1, in steps of 2^-53: exact, so equal on every platform.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// 64 random bits as an integer in 0..=most, by multiplication (the bias is below most / 2^64).
pub(crate) fn up_to(bits: u64, most: u64) -> u64 {
    ((u128::from(bits) * (u128::from(most) + 1)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_fill_their_range_and_stay_in_it() {
        assert!((unit(0), up_to(0, 9), up_to(u64::MAX, 9)) == (0.0, 0, 9));
        assert!(unit(u64::MAX) < 1.0);
        assert_eq!(up_to(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(up_to(u64::MAX, 0), 0);
    }
}
