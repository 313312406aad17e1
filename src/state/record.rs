//! The replicated state of one entity.
//!
//! Invariant: a record's motion is one observation, frozen at one simulation instant (SPEC ID3). All values
//! are integers under the schema; metres come last (SPEC ID7).

use super::entity::Entity;
use super::rotation::Rotation;
use super::schema::Schema;
use crate::limits::EXTRA_FIELDS_MAX;

/// One entity's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose record.
    pub entity: Entity,
    /// Index into the schema's classes; fixed for a generation.
    pub class: u8,
    /// Its rate tier: its changes are taken in every 2^tier ticks (SPEC CTL5); at most
    /// [`TIER_MAX`](crate::limits::TIER_MAX).
    pub tier: u8,
    /// When this generation began, server microseconds; fixed for a generation.
    pub born_us: u64,
    /// Continuity segment; nothing is differenced or interpolated across a change (SPEC TAB4).
    pub segment: u32,
    /// When this segment began, server microseconds.
    pub segment_us: u64,
    /// The last observation of this segment; `None` before the first (SPEC DEC3).
    pub motion: Option<Motion>,
    /// Extra fields by index as bit patterns; fields the schema lacks are zero.
    pub extras: [u32; EXTRA_FIELDS_MAX],
}

/// What of a record lasts from one observation to the next: all but the motion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose record.
    pub entity: Entity,
    /// As [`Record::class`].
    pub class: u8,
    /// As [`Record::tier`].
    pub tier: u8,
    /// As [`Record::born_us`].
    pub born_us: u64,
    /// As [`Record::segment`].
    pub segment: u32,
    /// As [`Record::segment_us`].
    pub segment_us: u64,
    /// As [`Record::extras`].
    pub extras: [u32; EXTRA_FIELDS_MAX],
}

/// A record whose head and motion lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// What lasts.
    pub head: &'a Head,
    /// The last observation of the segment, if any.
    pub motion: Option<&'a Motion>,
}

impl RecordRef<'_> {
    /// The record in one piece.
    #[must_use]
    pub fn record(&self) -> Record {
        let Head {
            entity,
            class,
            tier,
            born_us,
            segment,
            segment_us,
            extras,
        } = *self.head;
        Record {
            entity,
            class,
            tier,
            born_us,
            segment,
            segment_us,
            motion: self.motion.copied(),
            extras,
        }
    }
}

/// One motion observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Motion {
    /// When it was observed, server microseconds.
    pub observed_us: u64,
    /// Position in steps of each axis.
    pub position: [u32; 3],
    /// Rotation, smallest three.
    pub rotation: Rotation,
    /// Velocity in steps; zero where the schema has none.
    pub velocity: [i32; 3],
    /// Angular velocity in steps; zero where the schema has none.
    pub angular: [i32; 3],
    /// The pose stays valid until the next observation (SPEC ENT9).
    pub at_rest: bool,
}

impl Motion {
    /// Checks that every value is one the schema can produce.
    ///
    /// # Errors
    /// The name of the first field that is not.
    pub fn check(&self, schema: &Schema) -> Result<(), &'static str> {
        for ((axis, q), name) in schema.position.iter().zip(self.position).zip(["x", "y", "z"]) {
            if q > axis.highest() {
                return Err(name);
            }
        }
        if !self.rotation.is_within(schema.rotation_bits) {
            return Err("rotation");
        }
        let within = |rate: &Option<super::schema::Rate>, values: [i32; 3]| {
            let highest = rate.as_ref().map_or(0, super::schema::Rate::highest);
            values.iter().all(|v| v.unsigned_abs() <= highest)
        };
        if !within(&schema.velocity, self.velocity) {
            return Err("velocity");
        }
        if !within(&schema.angular, self.angular) {
            return Err("angular velocity");
        }
        Ok(())
    }
}

impl Record {
    /// What lasts from one observation to the next.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            entity: self.entity,
            class: self.class,
            tier: self.tier,
            born_us: self.born_us,
            segment: self.segment,
            segment_us: self.segment_us,
            extras: self.extras,
        }
    }

    /// A record at birth: no motion, extra fields zero, segment 0.
    #[must_use]
    pub fn born(entity: Entity, class: u8, at_us: u64) -> Record {
        Record {
            entity,
            class,
            tier: 0,
            born_us: at_us,
            segment: 0,
            segment_us: at_us,
            motion: None,
            extras: [0; EXTRA_FIELDS_MAX],
        }
    }
}
