//! A fast hash for the simulation's maps, whose keys are its own entities: nobody can choose them to collide.

use core::hash::{BuildHasherDefault, Hasher};

/// State of a map keyed by entity or id.
pub type EntityHasher = BuildHasherDefault<Mixed>;

/// Multiplies and folds what is written (Fibonacci hashing).
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
