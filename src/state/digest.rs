//! The digest of a record table: a wrapping sum of per-record hashes in two 32-bit words (SPEC DEC9).
//!
//! A sum, so that it can be kept up incrementally (subtract the old record's hash, add the new one's) and so
//! that the order of records does not matter. The hash covers every field of a record. All arithmetic is on
//! 32-bit words, so that a browser computes it without big integers. It guards against faults, not attackers:
//! packets are authenticated by their seal.

use super::record::{Head, Motion, Record, RecordRef};
use crate::limits::EXTRA_FIELDS_MAX;

/// Two words of digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Digest(pub [u32; 2]);

impl Digest {
    /// The digest of an empty table.
    pub const EMPTY: Digest = Digest([0, 0]);

    /// This table with one more record.
    #[must_use]
    pub fn plus(self, other: Digest) -> Digest {
        Digest([
            self.0[0].wrapping_add(other.0[0]),
            self.0[1].wrapping_add(other.0[1]),
        ])
    }

    /// This table with one record less.
    #[must_use]
    pub fn minus(self, other: Digest) -> Digest {
        Digest([
            self.0[0].wrapping_sub(other.0[0]),
            self.0[1].wrapping_sub(other.0[1]),
        ])
    }

    /// The digest of one record: a multilinear hash of its words in two lanes, then a bijective mix.
    ///
    /// Word i is folded, `t = w ^ (w >> 15)`, and adds `t * M[i]` to each lane, where `M[i]` is the (i + 1)th
    /// power of the lane's odd constant; all modulo 2^32. The lane then goes through MurmurHash3's finaliser
    /// (Austin Appleby, public domain). A change within one word always shows: the fold is a bijection and the
    /// factors are odd. The sum has no order of evaluation, so it runs as wide as the machine is.
    ///
    /// Words: id, generation, class | tier << 8, born (low, high), segment, segment time (low, high), motion flag
    /// (0 none, 1 moving, 2 at rest), observation time (low, high), position x y z, rotation
    /// (largest | part0 << 16, part1 | part2 << 16), velocity x y z, angular x y z, the eight extras. Without
    /// motion the words from the observation time to angular z are zero.
    #[must_use]
    pub fn of(record: &Record) -> Digest {
        Digest::of_words(&words(&record.head(), record.motion.as_ref()))
    }

    /// The digest of one record whose head and motion lie apart.
    #[must_use]
    pub fn of_parts(record: RecordRef<'_>) -> Digest {
        Digest::of_words(&words(record.head, record.motion))
    }

    fn of_words(words: &[u32; WORDS]) -> Digest {
        Digest([mix(sum(words, &FACTORS[0])), mix(sum(words, &FACTORS[1]))])
    }
}

const WORDS: usize = 22 + EXTRA_FIELDS_MAX;
const FACTORS: [[u32; WORDS]; 2] = [powers(0x9E37_79B1), powers(0x85EB_CA77)];

/// The first powers of an odd number modulo 2^32.
const fn powers(factor: u32) -> [u32; WORDS] {
    let mut powers = [factor; WORDS];
    let mut i = 1;
    while i < WORDS {
        powers[i] = powers[i - 1].wrapping_mul(factor);
        i += 1;
    }
    powers
}

#[allow(clippy::cast_possible_truncation)]
fn words(record: &Head, motion: Option<&Motion>) -> [u32; WORDS] {
    let mut words = [0u32; WORDS];
    let low = |long: u64| long as u32;
    let high = |long: u64| (long >> 32) as u32;
    let head = [
        record.entity.id,
        record.entity.generation,
        u32::from(record.class) | u32::from(record.tier) << 8,
        low(record.born_us),
        high(record.born_us),
        record.segment,
        low(record.segment_us),
        high(record.segment_us),
    ];
    words[..8].copy_from_slice(&head);
    if let Some(motion) = motion {
        let [a, b, c] = motion.rotation.parts.map(u32::from);
        words[8] = if motion.at_rest { 2 } else { 1 };
        words[9] = low(motion.observed_us);
        words[10] = high(motion.observed_us);
        words[11..14].copy_from_slice(&motion.position);
        words[14] = u32::from(motion.rotation.largest) | a << 16;
        words[15] = b | c << 16;
        words[16..19].copy_from_slice(&motion.velocity.map(i32::cast_unsigned));
        words[19..22].copy_from_slice(&motion.angular.map(i32::cast_unsigned));
    }
    words[22..].copy_from_slice(&record.extras);
    words
}

fn sum(words: &[u32; WORDS], factors: &[u32; WORDS]) -> u32 {
    let fold = |word: u32| word ^ (word >> 15);
    words.iter().zip(factors).fold(0u32, |sum, (word, factor)| {
        sum.wrapping_add(fold(*word).wrapping_mul(*factor))
    })
}

fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::entity::Entity;
    use crate::state::rotation::Rotation;

    fn record() -> Record {
        let mut record = Record::born(Entity { id: 7, generation: 2 }, 1, 5);
        record.motion = Some(Motion {
            observed_us: 1 << 40,
            position: [1, 2, 3],
            rotation: Rotation::identity(9),
            velocity: [-1, 0, 1],
            angular: [0; 3],
            at_rest: false,
        });
        record
    }

    /// SPEC DEC9: one changed bit in any field changes the digest.
    #[test]
    fn dec9_every_field_is_covered() {
        let base = Digest::of(&record());
        type Change = fn(&mut Record, &mut Motion);
        let changes: [Change; 18] = [
            |r, _| r.entity.id ^= 1,
            |r, _| r.entity.generation ^= 1,
            |r, _| r.class ^= 1,
            |r, _| r.tier ^= 1,
            |r, _| r.born_us ^= 1 << 35,
            |r, _| r.segment ^= 1,
            |r, _| r.segment_us ^= 1,
            |r, _| r.extras[7] ^= 1 << 31,
            |_, m| m.observed_us ^= 1,
            |_, m| m.observed_us ^= 1 << 40,
            |_, m| m.position[0] ^= 1,
            |_, m| m.position[2] ^= 1 << 31,
            |_, m| m.rotation.largest ^= 1,
            |_, m| m.rotation.parts[0] ^= 1,
            |_, m| m.rotation.parts[2] ^= 1,
            |_, m| m.velocity[1] ^= 1,
            |_, m| m.angular[2] ^= 1,
            |_, m| m.at_rest = true,
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = record();
            let mut motion = changed.motion.unwrap();
            change(&mut changed, &mut motion);
            changed.motion = Some(motion);
            assert_ne!(Digest::of(&changed), base, "change {index}");
        }
        let mut without = record();
        without.motion = None;
        assert_ne!(Digest::of(&without), base);
    }

    #[test]
    fn sums_come_and_go_in_any_order() {
        let a = Digest::of(&record());
        let b = Digest::of(&Record::born(Entity { id: 1, generation: 0 }, 0, 0));
        assert_eq!(a.plus(b), b.plus(a));
        assert_eq!(a.plus(b).minus(a).minus(b), Digest::EMPTY);
    }
}
