//! The digest of a record table: a wrapping sum of per-record hashes in two 32-bit words (SPEC DEC9).
//!
//! A sum, so that it can be kept up incrementally (subtract the old record's hash, add the new one's) and so
//! that the order of records does not matter. The hash covers every field of a record. All arithmetic is on
//! 32-bit words, so that a browser computes it without big integers. It guards against faults, not attackers:
//! packets are authenticated by their seal.

use super::record::Record;

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

    /// The digest of one record: its words, in the order below, through two lanes of a multiply-rotate mix
    /// with different constants (the mixing steps of MurmurHash3, Austin Appleby, public domain).
    ///
    /// Words: id, generation, class, born (low, high), segment, segment time (low, high), motion flag
    /// (0 none, 1 moving, 2 at rest), and with motion: observation time (low, high), position x y z, rotation
    /// (largest | part0 << 16, part1 | part2 << 16), velocity x y z, angular x y z; then the eight extras.
    #[must_use]
    pub fn of(record: &Record) -> Digest {
        let mut mix = Mix([0x9E37_79B9, 0x85EB_CA6B]);
        mix.word(record.entity.id);
        mix.word(record.entity.generation);
        mix.word(u32::from(record.class));
        mix.long(record.born_us);
        mix.word(record.segment);
        mix.long(record.segment_us);
        match &record.motion {
            None => mix.word(0),
            Some(motion) => {
                mix.word(if motion.at_rest { 2 } else { 1 });
                mix.long(motion.observed_us);
                motion.position.into_iter().for_each(|q| mix.word(q));
                let [a, b, c] = motion.rotation.parts.map(u32::from);
                mix.word(u32::from(motion.rotation.largest) | a << 16);
                mix.word(b | c << 16);
                motion
                    .velocity
                    .into_iter()
                    .for_each(|q| mix.word(q.cast_unsigned()));
                motion
                    .angular
                    .into_iter()
                    .for_each(|q| mix.word(q.cast_unsigned()));
            }
        }
        record.extras.into_iter().for_each(|pattern| mix.word(pattern));
        mix.finish()
    }
}

struct Mix([u32; 2]);

impl Mix {
    fn word(&mut self, word: u32) {
        let [a, b] = self.0;
        let k = word
            .wrapping_mul(0xCC9E_2D51)
            .rotate_left(15)
            .wrapping_mul(0x1B87_3593);
        let l = word
            .wrapping_mul(0x239B_961B)
            .rotate_left(17)
            .wrapping_mul(0xAB0E_9789);
        self.0 = [
            (a ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64),
            (b ^ l).rotate_left(19).wrapping_mul(5).wrapping_add(0x561C_CD1B),
        ];
    }

    #[allow(clippy::cast_possible_truncation)]
    fn long(&mut self, long: u64) {
        self.word(long as u32);
        self.word((long >> 32) as u32);
    }

    fn finish(self) -> Digest {
        Digest(self.0.map(|mut h| {
            h ^= h >> 16;
            h = h.wrapping_mul(0x85EB_CA6B);
            h ^= h >> 13;
            h = h.wrapping_mul(0xC2B2_AE35);
            h ^ (h >> 16)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::entity::Entity;
    use crate::state::record::Motion;
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
        let changes: [Change; 17] = [
            |r, _| r.entity.id ^= 1,
            |r, _| r.entity.generation ^= 1,
            |r, _| r.class ^= 1,
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
