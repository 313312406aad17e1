//! Reads entries of a tuned schema: see [`tuned`](crate::delta::tuned).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use super::{DecodeError, Delta, Reader, rate_of};
use crate::delta::codebook::{Codebook, POSITION, RATE, ROTATION, Width};
use crate::delta::codes;
use crate::delta::prediction::seen_from;
use crate::delta::tuned::{
    AGED, ANGULAR_CHANGED, COMPLETE, GENERAL, POSITION_CHANGED, REMOVE, ROTATION_CHANGED, VELOCITY_CHANGED,
};
use crate::state::record::{Motion, RecordRef};
use crate::state::rotation::Rotation;

impl Reader<'_> {
    /// The entry of a slot whose baseline record is `base`.
    pub(super) fn tuned(
        &mut self,
        book: &Codebook,
        base: Option<RecordRef<'_>>,
    ) -> Result<Delta, DecodeError> {
        match book.take_head(&mut self.bits)? {
            COMPLETE => self.complete(base),
            REMOVE => self.removed(),
            GENERAL => {
                let base = base.ok_or(DecodeError::NoSuchMember)?;
                let flags = self.flags()?;
                if base.motion.is_none() && flags & 0b011 == 0b011 {
                    return Err(DecodeError::NotCanonical);
                }
                let motion = match flags & 0b001 {
                    0 => None,
                    _ => {
                        let head = book.take_head(&mut self.bits)?;
                        Some(self.tuned_motion(book, base.motion, head)?)
                    }
                };
                self.rest_of_update(base, flags, motion)
            }
            head if head < GENERAL => {
                let base = base.ok_or(DecodeError::NoSuchMember)?;
                let motion = self.tuned_motion(book, base.motion, head)?;
                self.rest_of_update(base, 0b001, Some(motion))
            }
            _ => base.map(|_| Delta::Awake).ok_or(DecodeError::NoSuchMember),
        }
    }

    /// A motion behind its head.
    fn tuned_motion(
        &mut self,
        book: &Codebook,
        base: Option<&Motion>,
        head: u32,
    ) -> Result<Motion, DecodeError> {
        let Some(base) = base else {
            return match head {
                0 => self.complete_motion(),
                _ => Err(DecodeError::NotCanonical),
            };
        };
        let layout = self.layout;
        let velocity = layout.velocity.filter(|_| head & VELOCITY_CHANGED != 0);
        let angular = layout.angular.filter(|_| head & ANGULAR_CHANGED != 0);
        let missing = (head & VELOCITY_CHANGED != 0 && velocity.is_none())
            || (head & ANGULAR_CHANGED != 0 && angular.is_none());
        if head >= GENERAL || missing {
            return Err(DecodeError::NotCanonical);
        }
        let observed_us = match head & AGED {
            0 => self.server_us,
            _ => {
                let age_us = codes::take_positive_age(layout.tick_period_us, &mut self.bits)?;
                self.before(age_us)?
            }
        };
        if observed_us < base.observed_us {
            return Err(DecodeError::TimeRange);
        }
        let mut now = Motion { observed_us, ..*base };
        let mut width = Width::default();
        if head & POSITION_CHANGED != 0 {
            let group = usize::from(base.at_rest);
            let (residuals, widest) = book.take_triple(POSITION, group, &mut self.bits)?;
            (now.position, width) = (self.position_of(base, observed_us, residuals)?, widest);
        }
        if head & ROTATION_CHANGED != 0 {
            (now.rotation, width) = self.tuned_rotation(book, base.rotation, width)?;
        }
        if let Some(rate) = velocity {
            let (differences, widest) = book.take_triple(RATE, width.group(), &mut self.bits)?;
            (now.velocity, width) = (rate_of(base.velocity, rate, differences)?, widest);
        }
        if let Some(rate) = angular {
            let (differences, _) = book.take_triple(RATE, width.group(), &mut self.bits)?;
            now.angular = rate_of(base.angular, rate, differences)?;
        }
        // An observation of the same instant that changes nothing is no observation.
        if now == *base {
            Err(DecodeError::NotCanonical)
        } else {
            Ok(now)
        }
    }

    /// A rotation, and how wide its differences are.
    fn tuned_rotation(
        &mut self,
        book: &Codebook,
        base: Rotation,
        width: Width,
    ) -> Result<(Rotation, Width), DecodeError> {
        let mut largest = base.largest;
        if !self.bits.take_bit()? {
            largest = u8::try_from(self.bits.take(2)?).map_err(|_| DecodeError::OutOfRange)?;
            if largest == base.largest {
                return Err(DecodeError::NotCanonical);
            }
        }
        let parts = seen_from(base, largest, self.layout.highest_part);
        let (differences, widest) = book.take_triple(ROTATION, width.group(), &mut self.bits)?;
        let rotation = self.rotation_of(base, Rotation { largest, parts }, differences)?;
        Ok((rotation, widest))
    }
}
