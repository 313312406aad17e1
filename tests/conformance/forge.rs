//! Writes one entry by hand, right or wrong, against the records of a base.

use std::collections::BTreeMap;

use ackline::state::record::{Motion, Record};
use ackline::state::schema::Schema;
use ackline::state::slots::Slot;

use crate::bits::Bits;
use crate::dice::Dice;

pub const ID: [u32; 4] = [7, 12, 20, 32];
pub const LIFE: [u32; 4] = [2, 6, 16, 32];

/// Prefixes of the kinds, their lengths, and the heads of tuned entries.
pub const MOTION: (u64, u32, u64) = (0, 1, 0);
pub const GENERAL: (u64, u32, u64) = (0b01, 2, 32);
pub const COMPLETE: (u64, u32, u64) = (0b011, 3, 33);
pub const REMOVE: (u64, u32, u64) = (0b0111, 4, 34);
pub const AWAKE: (u64, u32, u64) = (0b1111, 4, 35);

/// What an entry is written with.
pub struct Forge<'a> {
    pub schema: &'a Schema,
    /// The base's records.
    pub base: BTreeMap<Slot, Record>,
    /// The frame's time.
    pub server_us: u64,
    pub bits: Bits,
    pub dice: &'a mut Dice,
}

impl Forge<'_> {
    /// A member for which `fits` holds, with the gap to it written.
    pub fn member(&mut self, fits: impl Fn(&Record) -> bool) -> Option<Record> {
        let fitting: Vec<Slot> = self
            .base
            .iter()
            .filter(|(_, record)| fits(record))
            .map(|(slot, _)| *slot)
            .collect();
        let slot = *self.dice.pick(&fitting)?;
        self.bits.gap(u64::from(slot));
        self.base.get(&slot).copied()
    }

    pub fn mover(&mut self) -> Option<(Record, Motion)> {
        let server_us = self.server_us;
        let record = self.member(|record| {
            record
                .motion
                .is_some_and(|motion| motion.observed_us <= server_us)
        })?;
        Some((record, record.motion?))
    }

    /// The gap to a slot that the base does not have.
    pub fn vacant(&mut self) -> Option<Slot> {
        let highest = self.base.keys().next_back().copied().unwrap_or(0);
        let free: Vec<Slot> = (0..highest + 100)
            .filter(|slot| !self.base.contains_key(slot))
            .collect();
        let slot = *self.dice.pick(&free)?;
        self.bits.gap(u64::from(slot));
        Some(slot)
    }

    pub fn kind(&mut self, kind: (u64, u32, u64)) {
        self.bits.kind(kind);
    }

    /// Goes on where entries are tuned, or where they are not.
    pub fn tuned(&self, tuned: bool) -> Option<()> {
        (self.bits.is_tuned() == tuned).then_some(())
    }

    /// A motion that goes on from `last` at `observed_us` and changes the fields of `mask`.
    pub fn motion(&mut self, observed_us: u64, mask: u64) {
        self.kind(MOTION);
        self.bits.changes(mask);
        self.bits.age(self.server_us - observed_us, self.schema);
        if self.bits.is_tuned() {
            return;
        }
        self.bits.put(mask & 0b11, 2);
        if self.schema.velocity.is_some() {
            self.bits.put(mask >> 2 & 1, 1);
        }
        if self.schema.angular.is_some() {
            self.bits.put(mask >> 3 & 1, 1);
        }
    }

    /// A complete entry up to its class and tier, which is 0.
    pub fn identity(&mut self, id: u64, generation: u64, class: u64) {
        self.kind(COMPLETE);
        self.bits.number(id, ID);
        self.bits.number(generation, LIFE);
        self.bits.put(class, 8);
        self.bits.put(0, 2);
    }

    /// A complete entry of a new entity up to the bit that says whether it has motion.
    pub fn stranger(&mut self) {
        let id = 3_000_000 + self.dice.below(1_000_000);
        self.identity(id, 0, 0);
        self.bits.time(self.server_us);
        self.bits.number(0, LIFE);
        self.bits.put(1, 1);
    }

    /// A complete motion with one field out of its range: 0 position, 1 rotation, 2 velocity, 3 angular, or none.
    pub fn complete_motion(&mut self, wrong: usize) -> Option<()> {
        self.bits.put(0, 1);
        for axis in &self.schema.position {
            let highest = u64::from(axis.highest());
            let over = wrong == 0 && highest + 1 < 1 << axis.bits();
            self.bits
                .put(if over { highest + 1 } else { highest }, axis.bits());
        }
        self.bits.put(self.dice.below(4), 2);
        let bits = u32::from(self.schema.rotation_bits);
        for part in 0..3 {
            let highest = (1 << bits) - 2;
            self.bits.put(
                if wrong == 1 && part == 2 {
                    highest + 1
                } else {
                    highest
                },
                bits,
            );
        }
        for (at, rate) in [(2, self.schema.velocity), (3, self.schema.angular)] {
            if let Some(rate) = rate {
                let width = 33 - rate.highest().leading_zeros();
                for axis in 0..3 {
                    self.bits.put(
                        if wrong == at && axis == 1 {
                            1 << (width - 1)
                        } else {
                            0
                        },
                        width,
                    );
                }
            }
        }
        self.bits.put(self.dice.below(2), 1);
        Some(())
    }

    pub fn no_extras(&mut self) -> Option<()> {
        self.bits.put(0, u32::try_from(self.schema.extras.len()).unwrap());
        Some(())
    }

    /// Where a motion is predicted, after section "Motion" of the document.
    pub fn predicted(&self, base: &Motion, observed_us: u64) -> [i64; 3] {
        let e = i64::try_from(((observed_us - base.observed_us + 32) / 64).min(16_383)).unwrap();
        let mut predicted = [0; 3];
        for (axis, p) in predicted.iter_mut().enumerate() {
            let steps = self.schema.position[axis];
            let scale = match self.schema.velocity {
                Some(rate) if !base.at_rest => {
                    ((rate.step / steps.step) * 0.000_064 * 268_435_456.0).round() as i64
                }
                _ => 0,
            };
            let moved = (i64::from(base.velocity[axis]) * e * scale + (1 << 27)) >> 28;
            *p = (i64::from(base.position[axis]) + moved).clamp(0, i64::from(steps.highest()));
        }
        predicted
    }
}
