//! Random draws that are equal on every platform.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

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
    pub(crate) fn draw(random: &mut Pcg64Mcg) -> Fate {
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
pub(crate) fn unit(bits: u64) -> f64 {
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
