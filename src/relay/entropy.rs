//! Randomness as an argument: a stream of bytes from one secret seed.
//!
//! HMAC-SHA256 in counter mode over a 32-byte seed. The node seeds it from the system's generator, a simulation
//! from its own seed; the core never asks the system.

use ring::hmac;

/// A deterministic stream of unpredictable bytes.
pub struct Entropy {
    key: hmac::Key,
    counter: u64,
}

impl Entropy {
    /// A stream from a seed; for real use the seed comes from the system's generator.
    #[must_use]
    pub fn new(seed: &[u8; 32]) -> Entropy {
        Entropy {
            key: hmac::Key::new(hmac::HMAC_SHA256, seed),
            counter: 0,
        }
    }

    /// The next `N` bytes, at most 32.
    #[must_use]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= 32) }
        self.counter += 1;
        let block = hmac::sign(&self.key, &self.counter.to_le_bytes());
        let mut bytes = [0u8; N];
        bytes
            .iter_mut()
            .zip(block.as_ref())
            .for_each(|(to, from)| *to = *from);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_and_never_repeat() {
        let mut a = Entropy::new(&[1; 32]);
        let mut b = Entropy::new(&[2; 32]);
        let first: [u8; 16] = a.bytes();
        assert_ne!(first, b.bytes());
        assert_ne!(first, a.bytes());
        assert_eq!(first, Entropy::new(&[1; 32]).bytes());
    }
}
