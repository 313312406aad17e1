//! Entries of a tuned schema: the same contents as plain ones, in prefix codes.
//!
//! An entry begins with its *head*: for a motion the mask of what changed and whether the observation has an age, else the kind.
//! Triples are numbers whose codes depend on how wide the numbers before them were: who moves far also turns, and in no
//! direction much farther than in another.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::codebook::{Codes, HEAD_BITS_MAX, POSITION, RATE, ROTATION, Width, number_bits_max};
use super::codes::{self, AGE_BITS_MAX};
use super::encode::{
    before, changes, complete_motion, complete_rest, continued, extra_differences, rate_difference,
    remove_rest,
};
use super::layout::Layout;
use super::prediction::{predicted, seen_from};
use crate::state::entity::Departure;
use crate::state::record::{Motion, Record};
use crate::wire::bits::BitWriter;

/// Heads. Below [`GENERAL`]: a motion; the bits of its mask, and [`AGED`].
pub(super) const POSITION_CHANGED: u32 = 1;
pub(super) const ROTATION_CHANGED: u32 = 2;
pub(super) const VELOCITY_CHANGED: u32 = 4;
pub(super) const ANGULAR_CHANGED: u32 = 8;
pub(super) const AGED: u32 = 16;
pub(super) const GENERAL: u32 = 32;
pub(super) const COMPLETE: u32 = 33;
pub(super) const REMOVE: u32 = 34;
pub(super) const AWAKE: u32 = 35;

/// Most bits of a motion against a motion: general and its flags, mask, age, position residuals of 32 bits, rotation differences
/// of 17, two rates' of 19.
pub(super) const MOTION_BITS_MAX: u32 = 2 * HEAD_BITS_MAX
    + 3
    + AGE_BITS_MAX
    + 3 * number_bits_max(32)
    + 3
    + 3 * number_bits_max(17)
    + 6 * number_bits_max(19);

/// As [`encode::entry`](super::encode::entry).
pub(super) fn entry(
    codes: &impl Codes,
    layout: &Layout,
    base: Option<&Record>,
    now: &Record,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    let Some(base) = continued(base, now) else {
        return complete(codes, layout, now, server_us, writer);
    };
    let (observed, toggled, extras) = changes(base, now);
    match (observed, toggled, extras) {
        (true, false, false) => {}
        (false, false, false) => return complete(codes, layout, now, server_us, writer),
        _ => {
            codes.put_head(GENERAL, writer);
            let flags = u32::from(observed) | u32::from(toggled) << 1 | u32::from(extras) << 2;
            writer.put(flags, 3);
        }
    }
    if let (true, Some(now)) = (observed, &now.motion) {
        match &base.motion {
            Some(base) => motion(codes, layout, base, now, server_us, writer),
            None => {
                codes.put_head(0, writer);
                complete_motion(layout, now, server_us, writer);
            }
        }
    }
    if extras {
        extra_differences(layout, &base.extras, &now.extras, writer);
    }
}

/// As [`encode::complete`](super::encode::complete).
pub(super) fn complete(
    codes: &impl Codes,
    layout: &Layout,
    now: &Record,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    codes.put_head(COMPLETE, writer);
    complete_rest(layout, now, server_us, writer);
}

/// As [`encode::remove`](super::encode::remove).
pub(super) fn remove(
    codes: &impl Codes,
    departure: Departure,
    at_us: u64,
    reason: u8,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    codes.put_head(REMOVE, writer);
    remove_rest(departure, at_us, reason, server_us, writer);
}

/// Writes a motion against a motion, its head included.
fn motion(
    codes: &impl Codes,
    layout: &Layout,
    base: &Motion,
    now: &Motion,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    let age_us = before(server_us, now.observed_us);
    let position = now.position != base.position;
    let rotation = now.rotation != base.rotation;
    let velocity = now.velocity != base.velocity;
    let angular = now.angular != base.angular;
    debug_assert!(
        layout.velocity.is_some() || !velocity,
        "a rate the schema does not have"
    );
    debug_assert!(
        layout.angular.is_some() || !angular,
        "a rate the schema does not have"
    );
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    let head = flag(position, POSITION_CHANGED)
        | flag(rotation, ROTATION_CHANGED)
        | flag(velocity, VELOCITY_CHANGED)
        | flag(angular, ANGULAR_CHANGED)
        | flag(age_us > 0, AGED);
    codes.put_head(head, writer);
    if age_us > 0 {
        codes::put_positive_age(age_us, layout.tick_period_us, writer);
    }
    let mut width = Width::default();
    if position {
        let predicted = predicted(layout, base, now.observed_us);
        let residual = |q: u32, p: u32| codes::zigzag(q.wrapping_sub(p).cast_signed());
        let ([a, b, c], [d, e, f]) = (now.position, predicted);
        let residuals = [residual(a, d), residual(b, e), residual(c, f)];
        width = codes.put_triple(POSITION, usize::from(base.at_rest), residuals, writer);
    }
    if rotation {
        let largest = now.rotation.largest;
        match largest == base.rotation.largest {
            true => writer.put(1, 1),
            false => writer.put(u32::from(largest) << 1, 3),
        }
        let seen = seen_from(base.rotation, largest, layout.highest_part);
        let difference = |now: u16, base: u16| codes::zigzag(i32::from(now) - i32::from(base));
        let ([a, b, c], [d, e, f]) = (now.rotation.parts, seen);
        let differences = [difference(a, d), difference(b, e), difference(c, f)];
        width = codes.put_triple(ROTATION, width.group(), differences, writer);
    }
    if velocity {
        let differences = rate_difference(base.velocity, now.velocity);
        width = codes.put_triple(RATE, width.group(), differences, writer);
    }
    if angular {
        let differences = rate_difference(base.angular, now.angular);
        codes.put_triple(RATE, width.group(), differences, writer);
    }
}
