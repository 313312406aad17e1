//! Reads bodies: every entry checked against the layout and the baseline, nothing trusted (SPEC TAB2).
//!
//! Invariant: a body that decodes re-encodes to the same bytes; every other body is refused with a reason and
//! leaves nothing behind. Work and memory are bounded by the bytes given.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use super::codebook;
use super::codes::{self, GAP, ID, LIFE};
use super::encode::{ROTATION_CODE, TIER_BITS, WIDE_CODE};
use super::layout::{Layout, RateLayout};
use super::prediction::predicted;
use crate::limits::{EXTRA_FIELDS_MAX, SLOTS_MAX, TIER_MAX};
use crate::state::entity::{Departure, Entity};
use crate::state::record::{Motion, Record, RecordRef};
use crate::state::rotation::Rotation;
use crate::state::slots::Slot;
use crate::wire::bits::BitReader;

mod tuned;

pub use super::refusal::DecodeError;

/// Fewest bits of an entry with its gap: a gap of one bit, kind, age and an empty mask of two bits.
const ENTRY_BITS_MIN: usize = 5;
/// The same of a tuned schema: a gap of one bit, a head of one.
const TUNED_BITS_MIN: usize = 2;

/// What an entry does to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The baseline's record, changed.
    Update(Record),
    /// A record that owes nothing to the baseline.
    Complete(Record),
    /// The slot is no longer a member.
    Removed {
        /// Why.
        departure: Departure,
        /// When, server microseconds; the frame's time unless destroyed.
        at_us: u64,
        /// The game's reason code; 0 unless destroyed.
        reason: u8,
    },
    /// The member is no longer at rest where the baseline has it; the record stays (SPEC ENT9).
    Awake,
}

/// One entry of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub slot: Slot,
    /// What happens to it.
    pub change: Change,
}

/// What an entry says, before it is applied to the baseline's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The baseline's record with this motion and these extra fields, where given.
    Update {
        /// The new observation, or the old one at rest or no longer at rest.
        motion: Option<Motion>,
        /// All extra fields.
        extras: Option<[u32; EXTRA_FIELDS_MAX]>,
    },
    /// As [`Change::Complete`].
    Complete(Record),
    /// As [`Change::Removed`].
    Removed {
        /// Why.
        departure: Departure,
        /// When, server microseconds.
        at_us: u64,
        /// The game's reason code.
        reason: u8,
    },
    /// As [`Change::Awake`].
    Awake,
}

/// Decodes a body of `count` entries of the frame at `server_us` against the baseline `base` gives, in rising
/// order of slot, into `out`, which is cleared first and empty after an error.
///
/// # Errors
/// [`DecodeError`]: the whole body is refused (SPEC TAB2).
pub fn body<'b>(
    layout: &Layout,
    bytes: &[u8],
    count: usize,
    server_us: u64,
    base: impl Fn(Slot) -> Option<&'b Record>,
    out: &mut Vec<Entry>,
) -> Result<(), DecodeError> {
    out.clear();
    let result = entries(layout, bytes, count, server_us, base, out);
    if result.is_err() {
        out.clear();
    }
    result
}

fn entries<'b>(
    layout: &Layout,
    bytes: &[u8],
    count: usize,
    server_us: u64,
    base: impl Fn(Slot) -> Option<&'b Record>,
    out: &mut Vec<Entry>,
) -> Result<(), DecodeError> {
    let mut body = Body::new(layout, bytes, count, server_us)?;
    while let Some(slot) = body.next_slot()? {
        let base = base(slot);
        let head = base.map(Record::head);
        let parts = head.as_ref().zip(base).map(|(head, base)| RecordRef {
            head,
            motion: base.motion.as_ref(),
        });
        let change = match body.delta(parts)? {
            Delta::Update { motion, extras } => {
                let mut record = *base.ok_or(DecodeError::NoSuchMember)?;
                record.motion = motion.or(record.motion);
                record.extras = extras.unwrap_or(record.extras);
                Change::Update(record)
            }
            Delta::Complete(record) => Change::Complete(record),
            Delta::Removed {
                departure,
                at_us,
                reason,
            } => Change::Removed {
                departure,
                at_us,
                reason,
            },
            Delta::Awake => Change::Awake,
        };
        out.push(Entry { slot, change });
    }
    Ok(())
}

/// A body under reading, an entry at a time: [`next_slot`](Body::next_slot), then [`delta`](Body::delta) with that
/// slot's record, until there is no next slot. The body is good only then; after an error nothing of it counts.
pub struct Body<'a> {
    reader: Reader<'a>,
    left: usize,
    lowest: u32,
}

impl<'a> Body<'a> {
    /// A body of `count` entries of the frame at `server_us`.
    ///
    /// # Errors
    /// [`DecodeError::CountRange`] when so many entries cannot be in so few bytes.
    pub fn new(
        layout: &'a Layout,
        bytes: &'a [u8],
        count: usize,
        server_us: u64,
    ) -> Result<Body<'a>, DecodeError> {
        let least = match layout.book {
            Some(_) => TUNED_BITS_MIN,
            None => ENTRY_BITS_MIN,
        };
        if count > bytes.len().saturating_mul(8).checked_div(least).unwrap_or(0) {
            return Err(DecodeError::CountRange);
        }
        let bits = BitReader::new(bytes);
        Ok(Body {
            reader: Reader {
                bits,
                layout,
                server_us,
            },
            left: count,
            lowest: 0,
        })
    }

    /// The slot of the next entry, or `None` at the end of the body.
    ///
    /// # Errors
    /// [`DecodeError`]: a slot out of range, or bits that are left over at the end.
    pub fn next_slot(&mut self) -> Result<Option<Slot>, DecodeError> {
        if self.left == 0 {
            self.reader.bits.clone().end()?;
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        let gap = match &self.reader.layout.book {
            Some(book) => book.take_number(codebook::GAP, &mut self.reader.bits)?,
            None => GAP.take(&mut self.reader.bits)?,
        };
        let place = self.lowest.saturating_add(gap);
        let slot = Slot::try_from(place).map_err(|_| DecodeError::SlotRange)?;
        if usize::from(slot) >= SLOTS_MAX {
            return Err(DecodeError::SlotRange);
        }
        self.lowest = place.saturating_add(1);
        Ok(Some(slot))
    }

    /// The entry of the slot read last, whose baseline record is `base`.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn delta(&mut self, base: Option<RecordRef<'_>>) -> Result<Delta, DecodeError> {
        self.reader.delta(base)
    }
}

/// The bits under reading, and what is fixed for a body.
struct Reader<'a> {
    bits: BitReader<'a>,
    layout: &'a Layout,
    server_us: u64,
}

impl Reader<'_> {
    fn delta(&mut self, base: Option<RecordRef<'_>>) -> Result<Delta, DecodeError> {
        if let Some(book) = &self.layout.book {
            return self.tuned(book, base);
        }
        if !self.bits.take_bit()? {
            return self.update(base.ok_or(DecodeError::NoSuchMember)?, 0b001);
        }
        if !self.bits.take_bit()? {
            let base = base.ok_or(DecodeError::NoSuchMember)?;
            let flags = self.flags()?;
            return self.update(base, flags);
        }
        if !self.bits.take_bit()? {
            return self.complete(base);
        }
        if !self.bits.take_bit()? {
            return self.removed();
        }
        base.map(|_| Delta::Awake).ok_or(DecodeError::NoSuchMember)
    }

    /// The flags of a general entry. Nothing changed needs no entry; motion alone is the shorter kind.
    fn flags(&mut self) -> Result<u32, DecodeError> {
        match self.bits.take(3)? {
            0 | 1 => Err(DecodeError::NotCanonical),
            flags => Ok(flags),
        }
    }

    fn removed(&mut self) -> Result<Delta, DecodeError> {
        let code = self.bits.take(2)?;
        let departure = u8::try_from(code).ok().and_then(Departure::from_code);
        let departure = departure.ok_or(DecodeError::UnknownDeparture)?;
        let (mut at_us, mut reason) = (self.server_us, 0);
        if departure == Departure::Destroyed {
            at_us = self.time()?;
            reason = self.byte()?;
        }
        Ok(Delta::Removed {
            departure,
            at_us,
            reason,
        })
    }

    /// An update; flags: bit 0 motion observed, bit 1 rest toggled, bit 2 extras changed.
    fn update(&mut self, base: RecordRef<'_>, flags: u32) -> Result<Delta, DecodeError> {
        let motion = match base.motion {
            _ if flags & 0b001 == 0 => None,
            Some(base) => Some(self.masked_motion(base)?),
            None if flags & 0b010 != 0 => return Err(DecodeError::NotCanonical),
            None => Some(self.complete_motion()?),
        };
        self.rest_of_update(base, flags, motion)
    }

    /// What an update says behind its observation, if it has one.
    fn rest_of_update(
        &mut self,
        base: RecordRef<'_>,
        flags: u32,
        mut motion: Option<Motion>,
    ) -> Result<Delta, DecodeError> {
        if flags & 0b010 != 0 {
            let last = motion.or(base.motion.copied()).ok_or(DecodeError::NoMotion)?;
            motion = Some(Motion {
                at_rest: !last.at_rest,
                ..last
            });
        }
        let mut extras = None;
        if flags & 0b100 != 0 {
            let mut now = base.head.extras;
            self.extras(&mut now)?;
            if now == base.head.extras {
                return Err(DecodeError::NotCanonical);
            }
            extras = Some(now);
        }
        Ok(Delta::Update { motion, extras })
    }

    fn complete(&mut self, base: Option<RecordRef<'_>>) -> Result<Delta, DecodeError> {
        let entity = Entity {
            id: ID.take(&mut self.bits)?,
            generation: LIFE.take(&mut self.bits)?,
        };
        let class = self.byte()?;
        if usize::from(class) >= self.layout.classes {
            return Err(DecodeError::BadClass);
        }
        let tier = u8::try_from(self.bits.take(TIER_BITS)?).map_err(|_| DecodeError::OutOfRange)?;
        if tier > TIER_MAX {
            return Err(DecodeError::OutOfRange);
        }
        let born_us = self.time()?;
        let segment = LIFE.take(&mut self.bits)?;
        let stale = base.is_some_and(|base| {
            let older = (entity.generation, segment) < (base.head.entity.generation, base.head.segment);
            base.head.entity.id == entity.id && older
        });
        if stale {
            return Err(DecodeError::Stale);
        }
        let at_birth = self.bits.take_bit()?;
        let segment_us = if at_birth { born_us } else { self.time()? };
        if !at_birth && segment_us == born_us {
            return Err(DecodeError::NotCanonical);
        }
        let motion = if self.bits.take_bit()? {
            Some(self.complete_motion()?)
        } else {
            None
        };
        let mut extras = [0; EXTRA_FIELDS_MAX];
        self.extras(&mut extras)?;
        Ok(Delta::Complete(Record {
            entity,
            class,
            tier,
            born_us,
            segment,
            segment_us,
            motion,
            extras,
        }))
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        u8::try_from(self.bits.take(8)?).map_err(|_| DecodeError::OutOfRange)
    }

    fn time(&mut self) -> Result<u64, DecodeError> {
        let delta_us = codes::take_time(&mut self.bits)?;
        self.before(delta_us)
    }

    fn age(&mut self) -> Result<u64, DecodeError> {
        let delta_us = codes::take_age(self.layout.tick_period_us, &mut self.bits)?;
        self.before(delta_us)
    }

    fn before(&self, delta_us: u64) -> Result<u64, DecodeError> {
        self.server_us.checked_sub(delta_us).ok_or(DecodeError::TimeRange)
    }

    fn complete_motion(&mut self) -> Result<Motion, DecodeError> {
        let layout = self.layout;
        let observed_us = self.age()?;
        let mut position = [0; 3];
        for (q, axis) in position.iter_mut().zip(&layout.position) {
            *q = at_most(self.bits.take(axis.bits)?, axis.highest)?;
        }
        let rotation = self.raw_rotation()?;
        let velocity = self.raw_rate(layout.velocity)?;
        let angular = self.raw_rate(layout.angular)?;
        let at_rest = self.bits.take_bit()?;
        Ok(Motion {
            observed_us,
            position,
            rotation,
            velocity,
            angular,
            at_rest,
        })
    }

    fn raw_rotation(&mut self) -> Result<Rotation, DecodeError> {
        let largest = u8::try_from(self.bits.take(2)?).map_err(|_| DecodeError::OutOfRange)?;
        let mut parts = [0; 3];
        for part in &mut parts {
            let bits = self.bits.take(self.layout.rotation_bits)?;
            *part = self.part(bits.cast_signed())?;
        }
        Ok(Rotation { largest, parts })
    }

    fn part(&self, value: i32) -> Result<u16, DecodeError> {
        match u16::try_from(value) {
            Ok(part) if part <= self.layout.highest_part => Ok(part),
            _ => Err(DecodeError::OutOfRange),
        }
    }

    #[allow(clippy::arithmetic_side_effects)] // A rate has 2 to 18 bits.
    fn raw_rate(&mut self, rate: Option<RateLayout>) -> Result<[i32; 3], DecodeError> {
        let mut values = [0; 3];
        if let Some(rate) = rate {
            for value in &mut values {
                let unused = 32 - rate.bits;
                let pattern = self.bits.take(rate.bits)? << unused;
                *value = within(pattern.cast_signed() >> unused, rate)?;
            }
        }
        Ok(values)
    }

    fn masked_motion(&mut self, base: &Motion) -> Result<Motion, DecodeError> {
        let layout = self.layout;
        let observed_us = self.age()?;
        if observed_us < base.observed_us {
            return Err(DecodeError::TimeRange);
        }
        let position = self.bits.take_bit()?;
        let rotation = self.bits.take_bit()?;
        let velocity = self.changed(layout.velocity)?;
        let angular = self.changed(layout.angular)?;
        let mut now = Motion { observed_us, ..*base };
        if position {
            now.position = self.position(base, observed_us)?;
        }
        if rotation {
            now.rotation = self.rotation(base.rotation)?;
        }
        if let Some(rate) = velocity {
            now.velocity = self.rate(base.velocity, rate)?;
        }
        if let Some(rate) = angular {
            now.angular = self.rate(base.angular, rate)?;
        }
        // An observation of the same instant that changes nothing is no observation.
        if now == *base {
            Err(DecodeError::NotCanonical)
        } else {
            Ok(now)
        }
    }

    /// The rate when the schema has it and its mask bit is set.
    fn changed(&mut self, rate: Option<RateLayout>) -> Result<Option<RateLayout>, DecodeError> {
        match rate {
            Some(rate) => Ok(self.bits.take_bit()?.then_some(rate)),
            None => Ok(None),
        }
    }

    fn position(&mut self, base: &Motion, observed_us: u64) -> Result<[u32; 3], DecodeError> {
        let residuals = codes::take_triple(WIDE_CODE, &mut self.bits)?;
        self.position_of(base, observed_us, residuals)
    }

    /// The position whose residuals these are.
    fn position_of(
        &self,
        base: &Motion,
        observed_us: u64,
        residuals: [u32; 3],
    ) -> Result<[u32; 3], DecodeError> {
        let mut position = predicted(self.layout, base, observed_us);
        for ((q, residual), axis) in position.iter_mut().zip(residuals).zip(&self.layout.position) {
            *q = at_most(
                q.wrapping_add(codes::unzigzag(residual).cast_unsigned()),
                axis.highest,
            )?;
        }
        if position == base.position {
            Err(DecodeError::NotCanonical)
        } else {
            Ok(position)
        }
    }

    fn rotation(&mut self, base: Rotation) -> Result<Rotation, DecodeError> {
        if !self.bits.take_bit()? {
            let rotation = self.raw_rotation()?;
            let same = rotation.largest == base.largest;
            return if same {
                Err(DecodeError::NotCanonical)
            } else {
                Ok(rotation)
            };
        }
        let differences = codes::take_triple(ROTATION_CODE, &mut self.bits)?;
        self.rotation_of(base, base, differences)
    }

    /// The rotation whose parts differ so from those of `seen`, and which is not the baseline's.
    fn rotation_of(
        &self,
        base: Rotation,
        seen: Rotation,
        differences: [u32; 3],
    ) -> Result<Rotation, DecodeError> {
        let mut rotation = seen;
        for (part, difference) in rotation.parts.iter_mut().zip(differences) {
            *part = self.part(i32::from(*part).wrapping_add(codes::unzigzag(difference)))?;
        }
        if rotation == base {
            Err(DecodeError::NotCanonical)
        } else {
            Ok(rotation)
        }
    }

    fn rate(&mut self, base: [i32; 3], rate: RateLayout) -> Result<[i32; 3], DecodeError> {
        rate_of(base, rate, codes::take_triple(WIDE_CODE, &mut self.bits)?)
    }

    /// Adds the differences of the set fields, modulo 2^bits; a difference of zero is refused.
    fn extras(&mut self, values: &mut [u32; EXTRA_FIELDS_MAX]) -> Result<(), DecodeError> {
        let mask = self.bits.take(self.layout.extra_fields)?;
        for (field, (value, bits)) in (0u32..).zip(values.iter_mut().zip(self.layout.extra_bits)) {
            if mask.checked_shr(field).is_none_or(|mask| mask & 1 == 0) {
                continue;
            }
            let difference = self.bits.take(bits)?;
            if difference == 0 {
                return Err(DecodeError::NotCanonical);
            }
            let unused = 32u32.saturating_sub(bits);
            *value = value.wrapping_add(difference) & u32::MAX.checked_shr(unused).unwrap_or(0);
        }
        Ok(())
    }
}

/// The rate that differs so from the baseline's.
fn rate_of(base: [i32; 3], rate: RateLayout, differences: [u32; 3]) -> Result<[i32; 3], DecodeError> {
    let mut values = base;
    for (value, difference) in values.iter_mut().zip(differences) {
        *value = within(value.wrapping_add(codes::unzigzag(difference)), rate)?;
    }
    if values == base {
        Err(DecodeError::NotCanonical)
    } else {
        Ok(values)
    }
}

fn at_most(value: u32, highest: u32) -> Result<u32, DecodeError> {
    if value <= highest {
        Ok(value)
    } else {
        Err(DecodeError::OutOfRange)
    }
}

fn within(value: i32, rate: RateLayout) -> Result<i32, DecodeError> {
    if value.unsigned_abs() <= rate.highest {
        Ok(value)
    } else {
        Err(DecodeError::OutOfRange)
    }
}
