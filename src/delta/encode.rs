//! Writes entries: one record against its baseline's, or whole.
//!
//! The encoder is given what the relay's world checked; it asserts and never fails. A caller leaves room for
//! [`ENTRY_BITS_MAX`] bits and the gap before an entry.

use std::sync::Arc;

use super::codebook::{self, Codebook, Codes};
use super::codes::{self, AGE_BITS_MAX, CLASS_BITS_MAX, GAP, ID, LIFE, TIME_BITS_MAX};
use super::layout::{Layout, RateLayout};
use super::prediction::predicted;
use super::tuned;
use crate::limits::{EXTRA_FIELDS_MAX, SLOTS_MAX, TIER_MAX};
use crate::state::entity::Departure;
use crate::state::record::{Motion, Record};
use crate::state::slots::Slot;
use crate::wire::bits::BitWriter;

/// Kinds of entry: prefix with its first bit lowest, and its length.
pub(super) const MOTION: (u32, u32) = (0b0, 1);
pub(super) const GENERAL: (u32, u32) = (0b01, 2);
pub(super) const COMPLETE: (u32, u32) = (0b011, 3);
pub(super) const REMOVE: (u32, u32) = (0b0111, 4);
pub(super) const AWAKE: (u32, u32) = (0b1111, 4);

/// Bits of a rate tier.
pub(super) const TIER_BITS: u32 = 2;
const _: () = assert!(TIER_MAX < 1 << TIER_BITS);

/// Bits of the width code of positions and rates, and of rotations.
pub(super) const WIDE_CODE: u32 = 5;
pub(super) const ROTATION_CODE: u32 = 4;

/// Age, three axes of 32 bits, rotation of 2 + 3 x 15, two rates of 3 x 18, the rest flag.
const COMPLETE_MOTION_BITS_MAX: u32 = AGE_BITS_MAX + 96 + 47 + 2 * 54 + 1;
/// Age, mask, position triple, rotation triple, two rate triples (19 bits a difference).
const MASKED_MOTION_BITS_MAX: u32 = AGE_BITS_MAX + 4 + 101 + 1 + 52 + 2 * 62;
/// A bit a field and 32 bits a value.
#[allow(clippy::cast_possible_truncation)]
const EXTRAS_BITS_MAX: u32 = EXTRA_FIELDS_MAX as u32 * 33;
/// Kind, id, generation, class, tier, birth, segment, its beginning, motion, extras.
const COMPLETE_BITS_MAX: u32 = codebook::HEAD_BITS_MAX
    + 3 * CLASS_BITS_MAX
    + 8
    + TIER_BITS
    + 2 * TIME_BITS_MAX
    + 1
    + 1
    + COMPLETE_MOTION_BITS_MAX
    + EXTRAS_BITS_MAX;

/// Most bits of one entry under any schema, without the gap before it.
pub const ENTRY_BITS_MAX: u32 = COMPLETE_BITS_MAX;
/// Most bits of a gap.
pub const GAP_BITS_MAX: u32 = codebook::GAP_BITS_MAX;

const _: () = assert!(GAP_BITS_MAX >= 18, "a plain gap");
const _: () = assert!(tuned::MOTION_BITS_MAX + EXTRAS_BITS_MAX <= ENTRY_BITS_MAX);
const _: () = assert!(2 + 3 + MASKED_MOTION_BITS_MAX + EXTRAS_BITS_MAX <= ENTRY_BITS_MAX);
const _: () = assert!(2 + 3 + COMPLETE_MOTION_BITS_MAX + EXTRAS_BITS_MAX <= ENTRY_BITS_MAX);

/// Writes the entry of a living record: a motion or general update where `base` is the same entity in the
/// same segment, else complete (SPEC TAB4). A record equal to its base needs no entry; it is written complete.
///
/// `now` is of the frame at `server_us`, `base` of a frame not after it.
pub fn entry(
    layout: &Layout,
    base: Option<&Record>,
    now: &Record,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    debug_assert!(
        layout.holds(now, server_us),
        "a record outside its schema: {now:?}"
    );
    if let Some(book) = &layout.book {
        return tuned::entry(&**book, layout, base, now, server_us, writer);
    }
    let Some(base) = continued(base, now) else {
        return complete(layout, now, server_us, writer);
    };
    let (observed, toggled, extras) = changes(base, now);
    match (observed, toggled, extras) {
        (true, false, false) => writer.put(MOTION.0, MOTION.1),
        (false, false, false) => return complete(layout, now, server_us, writer),
        _ => {
            let flags = u32::from(observed) | u32::from(toggled) << 1 | u32::from(extras) << 2;
            writer.put(GENERAL.0 | flags << GENERAL.1, GENERAL.1 + 3);
        }
    }
    if let (true, Some(now)) = (observed, &now.motion) {
        match &base.motion {
            Some(base) => masked_motion(layout, base, now, server_us, writer),
            None => complete_motion(layout, now, server_us, writer),
        }
    }
    if extras {
        extra_differences(layout, &base.extras, &now.extras, writer);
    }
}

/// What an update tells: a new observation, the rest flag toggled, extra fields changed.
#[inline]
pub(super) fn changes(base: &Record, now: &Record) -> (bool, bool, bool) {
    let (observed, toggled) = match (&base.motion, &now.motion) {
        (Some(base), Some(now)) => (
            Motion {
                at_rest: base.at_rest,
                ..*now
            } != *base,
            base.at_rest != now.at_rest,
        ),
        (_, now) => (now.is_some(), false),
    };
    (observed, toggled, base.extras != now.extras)
}

/// The baseline's record, where an update may build on it.
#[inline]
pub(super) fn continued<'a>(base: Option<&'a Record>, now: &Record) -> Option<&'a Record> {
    base.filter(|base| continues(base, now))
}

/// True where an update may build on `base`: the same life, the same segment, no step back in time.
fn continues(base: &Record, now: &Record) -> bool {
    base.entity == now.entity
        && base.segment == now.segment
        && base.segment_us == now.segment_us
        && (base.class, base.tier) == (now.class, now.tier)
        && base.born_us == now.born_us
        && match (&base.motion, &now.motion) {
            (Some(base), Some(now)) => base.observed_us <= now.observed_us,
            (base, _) => base.is_none(),
        }
}

/// Writes a record whole.
pub fn complete(layout: &Layout, now: &Record, server_us: u64, writer: &mut BitWriter<'_>) {
    debug_assert!(
        layout.holds(now, server_us),
        "a record outside its schema: {now:?}"
    );
    if let Some(book) = &layout.book {
        return tuned::complete(&**book, layout, now, server_us, writer);
    }
    writer.put(COMPLETE.0, COMPLETE.1);
    complete_rest(layout, now, server_us, writer);
}

/// Writes a whole record behind its kind.
pub(super) fn complete_rest(layout: &Layout, now: &Record, server_us: u64, writer: &mut BitWriter<'_>) {
    ID.put(now.entity.id, writer);
    LIFE.put(now.entity.generation, writer);
    writer.put(u32::from(now.class) | u32::from(now.tier) << 8, 8 + TIER_BITS);
    codes::put_time(before(server_us, now.born_us), writer);
    LIFE.put(now.segment, writer);
    let at_birth = now.segment_us == now.born_us;
    writer.put_bit(at_birth);
    if !at_birth {
        codes::put_time(before(server_us, now.segment_us), writer);
    }
    writer.put_bit(now.motion.is_some());
    if let Some(motion) = &now.motion {
        complete_motion(layout, motion, server_us, writer);
    }
    extra_differences(layout, &[0; EXTRA_FIELDS_MAX], &now.extras, writer);
}

/// Writes that a member of the baseline is no longer one. Only a destroyed entity has a time and a reason.
pub fn remove(
    layout: &Layout,
    departure: Departure,
    at_us: u64,
    reason: u8,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    if let Some(book) = &layout.book {
        return tuned::remove(&**book, departure, at_us, reason, server_us, writer);
    }
    writer.put(REMOVE.0, REMOVE.1);
    remove_rest(departure, at_us, reason, server_us, writer);
}

/// Writes a departure behind its kind.
pub(super) fn remove_rest(
    departure: Departure,
    at_us: u64,
    reason: u8,
    server_us: u64,
    writer: &mut BitWriter<'_>,
) {
    writer.put(u32::from(departure as u8), 2);
    if departure == Departure::Destroyed {
        codes::put_time(before(server_us, at_us), writer);
        writer.put(u32::from(reason), 8);
    }
}

/// Writes that a resting member has moved, without saying how (SPEC ENT9).
pub fn awake(layout: &Layout, writer: &mut BitWriter<'_>) {
    match &layout.book {
        Some(book) => book.put_head(tuned::AWAKE, writer),
        None => writer.put(AWAKE.0, AWAKE.1),
    }
}

/// The codes of the gaps between the slots of a body, which rise.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Option<Arc<Codebook>>);

impl Gaps {
    /// The gaps of a schema.
    #[must_use]
    pub fn new(layout: &Layout) -> Gaps {
        Gaps(layout.book.clone())
    }

    /// Writes the distance from the previous slot.
    #[inline]
    pub fn put(&self, previous: Option<Slot>, slot: Slot, writer: &mut BitWriter<'_>) {
        let distance = distance(previous, slot);
        match &self.0 {
            Some(book) => book.put_number(codebook::GAP, distance, writer),
            None => GAP.put(distance, writer),
        }
    }

    /// Bits that [`put`](Gaps::put) writes, 1 to [`GAP_BITS_MAX`].
    #[inline]
    #[must_use]
    pub fn bits(&self, previous: Option<Slot>, slot: Slot) -> u32 {
        let distance = distance(previous, slot);
        match &self.0 {
            Some(book) => book.number_bits(codebook::GAP, distance),
            None => GAP.bits(distance),
        }
    }

    /// Most bits that [`put`](Gaps::put) writes before `slot`, whatever slot is before it.
    #[inline]
    #[must_use]
    pub fn bits_most(&self, slot: Slot) -> u32 {
        let distance = distance(None, slot);
        match &self.0 {
            Some(book) => book.gap_bits_most(distance),
            None => GAP.bits(distance),
        }
    }
}

#[inline]
fn distance(previous: Option<Slot>, slot: Slot) -> u32 {
    debug_assert!(
        previous.is_none_or(|p| p < slot),
        "slot {slot} after {previous:?}: slots rise in a body"
    );
    debug_assert!(usize::from(slot) < SLOTS_MAX, "slot {slot} is outside the world");
    u32::from(previous.map_or(slot, |previous| slot.wrapping_sub(previous).wrapping_sub(1)))
}

/// How long `at_us` lies before the frame.
#[inline]
pub(super) fn before(server_us: u64, at_us: u64) -> u64 {
    debug_assert!(
        at_us <= server_us,
        "a time {at_us} us after its frame {server_us} us"
    );
    server_us.saturating_sub(at_us)
}

pub(super) fn complete_motion(layout: &Layout, now: &Motion, server_us: u64, writer: &mut BitWriter<'_>) {
    codes::put_age(before(server_us, now.observed_us), layout.tick_period_us, writer);
    for (axis, q) in layout.position.iter().zip(now.position) {
        writer.put(q, axis.bits);
    }
    writer.put(u32::from(now.rotation.largest), 2);
    raw_parts(layout, now, writer);
    raw_rate(layout.velocity, now.velocity, writer);
    raw_rate(layout.angular, now.angular, writer);
    writer.put_bit(now.at_rest);
}

fn raw_parts(layout: &Layout, now: &Motion, writer: &mut BitWriter<'_>) {
    now.rotation
        .parts
        .iter()
        .for_each(|part| writer.put(u32::from(*part), layout.rotation_bits));
}

fn raw_rate(rate: Option<RateLayout>, values: [i32; 3], writer: &mut BitWriter<'_>) {
    if let Some(rate) = rate {
        values
            .iter()
            .for_each(|v| writer.put(v.cast_unsigned() & ((1 << rate.bits) - 1), rate.bits));
    }
}

fn masked_motion(layout: &Layout, base: &Motion, now: &Motion, server_us: u64, writer: &mut BitWriter<'_>) {
    codes::put_age(before(server_us, now.observed_us), layout.tick_period_us, writer);
    let position = now.position != base.position;
    let rotation = now.rotation != base.rotation;
    let velocity = now.velocity != base.velocity;
    let angular = now.angular != base.angular;
    let mut mask = u32::from(position) | u32::from(rotation) << 1;
    let mut count = 2;
    for (field, changed) in [(layout.velocity, velocity), (layout.angular, angular)] {
        debug_assert!(field.is_some() || !changed, "a rate the schema does not have");
        if field.is_some() {
            mask |= u32::from(changed) << count;
            count += 1;
        }
    }
    writer.put(mask, count);
    if position {
        let predicted = predicted(layout, base, now.observed_us);
        let residual = |q: u32, p: u32| codes::zigzag(q.wrapping_sub(p).cast_signed());
        let ([a, b, c], [d, e, f]) = (now.position, predicted);
        codes::put_triple(
            WIDE_CODE,
            [residual(a, d), residual(b, e), residual(c, f)],
            writer,
        );
    }
    if rotation {
        rotation_difference(layout, base, now, writer);
    }
    if velocity {
        codes::put_triple(WIDE_CODE, rate_difference(base.velocity, now.velocity), writer);
    }
    if angular {
        codes::put_triple(WIDE_CODE, rate_difference(base.angular, now.angular), writer);
    }
}

fn rotation_difference(layout: &Layout, base: &Motion, now: &Motion, writer: &mut BitWriter<'_>) {
    if now.rotation.largest == base.rotation.largest {
        writer.put(1, 1);
        let difference = |now: u16, base: u16| codes::zigzag(i32::from(now) - i32::from(base));
        let ([a, b, c], [d, e, f]) = (now.rotation.parts, base.rotation.parts);
        codes::put_triple(
            ROTATION_CODE,
            [difference(a, d), difference(b, e), difference(c, f)],
            writer,
        );
    } else {
        writer.put(u32::from(now.rotation.largest) << 1, 3);
        raw_parts(layout, now, writer);
    }
}

pub(super) fn rate_difference(base: [i32; 3], now: [i32; 3]) -> [u32; 3] {
    let ([a, b, c], [d, e, f]) = (now, base);
    [a.wrapping_sub(d), b.wrapping_sub(e), c.wrapping_sub(f)].map(codes::zigzag)
}

/// One bit a field, set where the value differs, then the differences modulo 2^bits.
pub(super) fn extra_differences(
    layout: &Layout,
    base: &[u32; EXTRA_FIELDS_MAX],
    now: &[u32; EXTRA_FIELDS_MAX],
    writer: &mut BitWriter<'_>,
) {
    let mut mask = 0;
    for (field, (base, now)) in base.iter().zip(now).enumerate() {
        mask |= u32::from(base != now) << field;
    }
    writer.put(mask, layout.extra_fields);
    for ((base, now), bits) in base.iter().zip(now).zip(layout.extra_bits) {
        if base != now {
            let wide = u64::from(now.wrapping_sub(*base)) & ((1u64 << bits) - 1);
            writer.put(u32::try_from(wide).unwrap_or(0), bits);
        }
    }
}
