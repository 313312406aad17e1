//! The number codes of a body: class codes, sized numbers, triples, times and ages.
//!
//! Invariant: every code gives each value exactly one form. A form that is not the one is
//! [`ReadError::NotCanonical`]; a value its type cannot hold is [`ReadError::OutOfRange`].

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

use crate::wire::bits::{BitReader, BitWriter};
use crate::wire::bytes::ReadError;

/// Four classes of growing width under the prefixes `0`, `10`, `110`, `111`; each class begins where the
/// smaller ones end.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassCode {
    classes: [Class; 4],
}

/// Prefix (first bit lowest), its length, width of the raw bits, first value.
#[derive(Clone, Copy, Debug)]
struct Class {
    prefix: u32,
    length: u32,
    width: u32,
    first: u32,
}

/// Distance to the previous slot.
pub(super) const GAP: ClassCode = ClassCode::new([0, 3, 6, 15]);
/// Entity ids.
pub(super) const ID: ClassCode = ClassCode::new([7, 12, 20, 32]);
/// Generations and segments.
pub(super) const LIFE: ClassCode = ClassCode::new([2, 6, 16, 32]);
/// Whole ticks of an age; the last class is the single value [`FAR_TICKS`].
const TICKS: ClassCode = ClassCode::new([2, 5, 10, 0]);
/// From this many ticks on an age is sent as a plain time.
const FAR_TICKS: u32 = 4 + 32 + 1024;
/// Bits of the widest time.
const TIME_BITS: u32 = 48;

/// Most bits of [`ID`] and [`LIFE`].
pub(super) const CLASS_BITS_MAX: u32 = 3 + 32;
/// Most bits of a time: 6 of width, 47 below the top bit.
pub(super) const TIME_BITS_MAX: u32 = 6 + TIME_BITS - 1;
/// Most bits of an age: one bit, the prefix, a time (which is wider than a remainder).
pub(super) const AGE_BITS_MAX: u32 = 1 + 3 + TIME_BITS_MAX;

impl ClassCode {
    #[allow(clippy::arithmetic_side_effects)]
    const fn new(widths: [u32; 4]) -> ClassCode {
        let [a, b, c, d] = widths;
        let (second, third) = (1 << a, (1 << a) + (1 << b));
        ClassCode {
            classes: [
                Class {
                    prefix: 0b0,
                    length: 1,
                    width: a,
                    first: 0,
                },
                Class {
                    prefix: 0b01,
                    length: 2,
                    width: b,
                    first: second,
                },
                Class {
                    prefix: 0b011,
                    length: 3,
                    width: c,
                    first: third,
                },
                Class {
                    prefix: 0b111,
                    length: 3,
                    width: d,
                    first: third + (1 << c),
                },
            ],
        }
    }

    #[inline]
    fn class(&self, value: u32) -> &Class {
        let [a, b, c, d] = &self.classes;
        match value {
            _ if value < b.first => a,
            _ if value < c.first => b,
            _ if value < d.first => c,
            _ => d,
        }
    }

    /// Bits of a value's form.
    #[inline]
    #[allow(clippy::arithmetic_side_effects)]
    pub(super) fn bits(&self, value: u32) -> u32 {
        let class = self.class(value);
        class.length + class.width
    }

    /// Writes a value.
    #[inline]
    #[allow(clippy::arithmetic_side_effects)]
    pub(super) fn put(&self, value: u32, writer: &mut BitWriter<'_>) {
        let class = self.class(value);
        let raw = value - class.first;
        if class.length + class.width <= 32 {
            writer.put(class.prefix | raw << class.length, class.length + class.width);
        } else {
            writer.put(class.prefix, class.length);
            writer.put(raw, class.width);
        }
    }

    /// Reads a value.
    #[inline]
    pub(super) fn take(&self, reader: &mut BitReader<'_>) -> Result<u32, ReadError> {
        let [a, b, c, d] = &self.classes;
        let class = if !reader.take_bit()? {
            a
        } else if !reader.take_bit()? {
            b
        } else if !reader.take_bit()? {
            c
        } else {
            d
        };
        reader
            .take(class.width)?
            .checked_add(class.first)
            .ok_or(ReadError::OutOfRange)
    }
}

/// Signed to unsigned, small magnitudes first: 0, -1, 1, -2 become 0, 1, 2, 3.
#[inline]
pub(super) fn zigzag(value: i32) -> u32 {
    (value << 1 ^ value >> 31).cast_unsigned()
}

/// The inverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

/// Writes three values at one width: `code_bits` bits of width, the highest code meaning one bit more, then
/// the values. The width is the smallest that holds all three.
#[inline]
#[allow(clippy::arithmetic_side_effects)]
pub(super) fn put_triple(code_bits: u32, values: [u32; 3], writer: &mut BitWriter<'_>) {
    let [a, b, c] = values;
    let top = (1 << code_bits) - 1;
    let code = (32 - (a | b | c).leading_zeros()).min(top);
    if code_bits + 3 * code <= 32 {
        let packed = u64::from(code)
            | u64::from(a) << code_bits
            | u64::from(b) << (code_bits + code)
            | u64::from(c) << (code_bits + 2 * code);
        writer.put(packed as u32, code_bits + 3 * code);
    } else {
        let width = if code == top { top + 1 } else { code };
        writer.put(code, code_bits);
        writer.put(a, width);
        writer.put(b, width);
        writer.put(c, width);
    }
}

/// Reads what [`put_triple`] writes.
#[inline]
#[allow(clippy::arithmetic_side_effects)]
pub(super) fn take_triple(code_bits: u32, reader: &mut BitReader<'_>) -> Result<[u32; 3], ReadError> {
    let top = (1u32 << code_bits) - 1;
    let code = reader.take(code_bits)?;
    let width = if code == top { top + 1 } else { code };
    let values = [reader.take(width)?, reader.take(width)?, reader.take(width)?];
    let [a, b, c] = values;
    if (32 - (a | b | c).leading_zeros()).min(top) == code {
        Ok(values)
    } else {
        Err(ReadError::NotCanonical)
    }
}

/// Writes a number as `code_bits` bits of width and the bits below its top bit, which is always set.
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
fn put_sized(code_bits: u32, value: u64, writer: &mut BitWriter<'_>) {
    let width = 64 - value.leading_zeros();
    writer.put(width, code_bits);
    if width > 1 {
        let below = value & !(1 << (width - 1));
        let low = (width - 1).min(32);
        writer.put(below as u32, low);
        if width > 33 {
            writer.put((below >> 32) as u32, width - 33);
        }
    }
}

/// Reads what [`put_sized`] writes, at most `widest` bits.
#[allow(clippy::arithmetic_side_effects)]
fn take_sized(code_bits: u32, widest: u32, reader: &mut BitReader<'_>) -> Result<u64, ReadError> {
    let width = reader.take(code_bits)?;
    if width > widest {
        return Err(ReadError::OutOfRange);
    }
    if width == 0 {
        return Ok(0);
    }
    let low = (width - 1).min(32);
    let below = u64::from(reader.take(low)?) | u64::from(reader.take(width - 1 - low)?) << 32;
    Ok(below | 1 << (width - 1))
}

/// Writes how long a time lies before the frame's, in microseconds, below 2^48.
pub(super) fn put_time(delta_us: u64, writer: &mut BitWriter<'_>) {
    debug_assert!(delta_us >> TIME_BITS == 0, "{delta_us} us do not fit 48 bits");
    put_sized(6, delta_us, writer);
}

/// Reads what [`put_time`] writes.
pub(super) fn take_time(reader: &mut BitReader<'_>) -> Result<u64, ReadError> {
    take_sized(6, TIME_BITS, reader)
}

/// An age in whole ticks, rounded half up.
#[inline]
#[allow(clippy::arithmetic_side_effects)]
fn ticks(delta_us: u64, tick_us: u32) -> u64 {
    let tick_us = u64::from(tick_us.max(1));
    delta_us.saturating_add(tick_us / 2) / tick_us
}

/// Writes how long an observation lies before the frame's time, in microseconds, below 2^48.
#[inline]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
pub(super) fn put_age(delta_us: u64, tick_us: u32, writer: &mut BitWriter<'_>) {
    if delta_us == 0 {
        return writer.put(0, 1);
    }
    writer.put(1, 1);
    put_positive_age(delta_us, tick_us, writer);
}

/// Writes an age that is not 0.
#[inline]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
pub(super) fn put_positive_age(delta_us: u64, tick_us: u32, writer: &mut BitWriter<'_>) {
    let ticks = ticks(delta_us, tick_us).min(u64::from(FAR_TICKS)) as u32;
    TICKS.put(ticks, writer);
    if ticks == FAR_TICKS {
        return put_time(delta_us, writer);
    }
    let remainder = delta_us
        .wrapping_sub(u64::from(ticks) * u64::from(tick_us))
        .cast_signed() as i32;
    put_sized(5, u64::from(zigzag(remainder)), writer);
}

/// Reads what [`put_age`] writes.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(super) fn take_age(tick_us: u32, reader: &mut BitReader<'_>) -> Result<u64, ReadError> {
    if !reader.take_bit()? {
        return Ok(0);
    }
    take_positive_age(tick_us, reader)
}

/// Reads what [`put_positive_age`] writes.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(super) fn take_positive_age(tick_us: u32, reader: &mut BitReader<'_>) -> Result<u64, ReadError> {
    let whole = TICKS.take(reader)?;
    if whole == FAR_TICKS {
        let delta_us = take_time(reader)?;
        let far = ticks(delta_us, tick_us) >= u64::from(FAR_TICKS);
        return if far {
            Ok(delta_us)
        } else {
            Err(ReadError::NotCanonical)
        };
    }
    let remainder = i64::from(unzigzag(take_sized(5, 31, reader)? as u32));
    let sum = i64::from(whole)
        .wrapping_mul(i64::from(tick_us))
        .wrapping_add(remainder);
    match u64::try_from(sum) {
        Ok(delta_us) if delta_us > 0 && ticks(delta_us, tick_us) == u64::from(whole) => Ok(delta_us),
        _ => Err(ReadError::NotCanonical),
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
mod tests {
    use super::*;

    fn round_trip(
        put: impl Fn(&mut BitWriter<'_>),
        take: impl Fn(&mut BitReader<'_>) -> Result<u64, ReadError>,
    ) -> (u64, usize) {
        let mut buffer = [0; 32];
        let mut writer = BitWriter::new(&mut buffer);
        put(&mut writer);
        let bits = writer.bits();
        let length = writer.finish();
        let mut reader = BitReader::new(&buffer[..length]);
        let value = take(&mut reader).unwrap();
        assert_eq!(reader.position(), bits);
        (value, bits)
    }

    #[test]
    fn class_codes_begin_where_the_smaller_ones_end() {
        for (code, edges) in [
            (GAP, [0, 1, 9, 73]),
            (ID, [0, 128, 4224, 1_052_800]),
            (LIFE, [0, 4, 68, 65_604]),
        ] {
            for (class, edge) in code.classes.iter().zip(edges) {
                assert_eq!(class.first, edge);
                for value in [edge, edge + 1, edge.saturating_sub(1)] {
                    let (read, bits) = round_trip(|w| code.put(value, w), |r| code.take(r).map(u64::from));
                    assert_eq!((read, bits), (u64::from(value), code.bits(value) as usize));
                }
                assert_eq!(code.bits(edge), class.length + class.width);
            }
        }
        let (read, bits) = round_trip(|w| ID.put(u32::MAX, w), |r| ID.take(r).map(u64::from));
        assert_eq!((read, bits), (u64::from(u32::MAX), CLASS_BITS_MAX as usize));
    }

    /// Ages round half up to ticks, whether the tick period is odd or even; each step of the code is where the
    /// document says.
    #[test]
    fn ages_round_half_up_to_ticks() {
        assert_eq!(
            [8_333, 8_334, 25_000, 25_001].map(|us| ticks(us, 16_667)),
            [0, 1, 1, 2]
        );
        assert_eq!(
            [24_999, 25_000, 74_999, 75_000].map(|us| ticks(us, 50_000)),
            [0, 1, 1, 2]
        );
        let age = |us: u64| round_trip(|w| put_age(us, 16_667, w), |r| take_age(16_667, r));
        assert_eq!(age(0), (0, 1));
        assert_eq!(age(16_667), (16_667, 1 + 3 + 5), "a whole tick");
        assert_eq!(
            age(16_666),
            (16_666, 1 + 3 + 5),
            "-1 has width 1: no bits below its top bit"
        );
        assert_eq!(age(16_668), (16_668, 1 + 3 + 5 + 1));
        assert_eq!(age(1059 * 16_667), (1059 * 16_667, 1 + 13 + 5));
        assert_eq!(age(1060 * 16_667), (1060 * 16_667, 1 + 3 + 6 + 24), "far");
        assert_eq!(age((1 << 48) - 1), ((1 << 48) - 1, AGE_BITS_MAX as usize));
        for us in (0..40_000).chain(17_600_000..17_700_000) {
            assert_eq!(age(us).0, us);
        }
    }

    #[test]
    fn zigzag_is_a_bijection_at_its_edges() {
        assert_eq!(
            [0, -1, 1, -2, i32::MAX, i32::MIN].map(zigzag),
            [0, 1, 2, 3, u32::MAX - 1, u32::MAX]
        );
        for value in [0, -1, 1, i32::MIN, i32::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
