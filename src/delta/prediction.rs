//! Where a baseline's velocity puts a position at a later observation: both ends compute it, only the residual
//! travels.
//!
//! Invariant: integers only, and every product stays below 2^53, so a number of a browser holds it exactly.

use super::layout::Layout;
use crate::state::record::Motion;
use crate::state::rotation::Rotation;

/// The most units of 64 us a prediction reaches: 1.05 s. Beyond it the guess is worth nothing.
const UNITS_MAX: u64 = (1 << 14) - 1;

/// Position steps, in 2^-28, that one velocity step covers in 64 us:
/// round(velocity step / position step * 0.000064 * 2^28). At most 2^22, as the schema bounds the ratio to 244.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn scale(velocity_step: f64, position_step: f64) -> u32 {
    (velocity_step / position_step * 0.000_064 * 268_435_456.0).round() as u32
}

/// The time between two observations in units of 64 us, rounded, at most [`UNITS_MAX`].
fn units(base_us: u64, observed_us: u64) -> i64 {
    let units = (observed_us.saturating_sub(base_us).saturating_add(32) >> 6).min(UNITS_MAX);
    units.cast_signed()
}

/// Steps moved: `velocity * units * scale / 2^28`, rounded half up.
fn moved(velocity: i32, units: i64, scale: u32) -> i64 {
    let product = i64::from(velocity)
        .wrapping_mul(units)
        .wrapping_mul(i64::from(scale));
    product.wrapping_add(1 << 27) >> 28
}

/// The position predicted for `observed_us` from the baseline's motion; the baseline's own where it rests or
/// the schema has no velocity.
#[inline]
pub(super) fn predicted(layout: &Layout, base: &Motion, observed_us: u64) -> [u32; 3] {
    if base.at_rest || layout.velocity.is_none() {
        return base.position;
    }
    let units = units(base.observed_us, observed_us);
    let mut position = base.position;
    for ((q, axis), velocity) in position.iter_mut().zip(&layout.position).zip(base.velocity) {
        let at = i64::from(*q).wrapping_add(moved(velocity, units, axis.scale));
        *q = u32::try_from(at.clamp(0, i64::from(axis.highest))).unwrap_or(0);
    }
    position
}

/// The parts of a baseline's rotation as those of a rotation whose component `largest` is left out: what the difference is taken
/// from. The component that was left out is the rest to length 1, in the same steps; all change their sign where the one that
/// is left out now was negative.
#[inline]
pub(super) fn seen_from(base: Rotation, largest: u8, highest_part: u16) -> [u16; 3] {
    if base.largest == largest {
        return base.parts;
    }
    let half = i64::from(highest_part / 2);
    let steps = base.parts.map(|part| i64::from(part) - half);
    let squares: i64 = steps.iter().map(|step| step * step).sum();
    // One over the root of two is `half` steps, so 1 is the root of twice its square.
    let rest = (2 * half * half - squares).max(0).isqrt();
    let mut kept = steps.into_iter();
    let all: [i64; 4] = core::array::from_fn(|index| match index == usize::from(base.largest) {
        true => rest,
        false => kept.next().unwrap_or(0),
    });
    let left_out = all.get(usize::from(largest)).copied().unwrap_or(0);
    let sign = if left_out < 0 { -1 } else { 1 };
    let mut parts = [0; 3];
    let seen = (0..4)
        .zip(all)
        .filter(|(index, _)| *index != usize::from(largest));
    for (part, (_, step)) in parts.iter_mut().zip(seen) {
        *part = u16::try_from((sign * step).clamp(-half, half) + half).unwrap_or(0);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::schema::tests::full_schema;
    use crate::state::schema::{RATE_HIGHEST, RATE_RATIO_MAX, Schema};

    /// The largest product of all schemas is exact in 53 bits, and so is the sum with the rounding term.
    #[test]
    fn id7_products_stay_below_2_to_53() {
        let scale = scale(RATE_RATIO_MAX, 1.0);
        assert!(scale < 1 << 22, "{scale}");
        let product = i128::from(RATE_HIGHEST) * i128::from(UNITS_MAX) * i128::from(scale) + (1 << 27);
        assert!(product < 1 << 53, "{product}");
        let highest = RATE_HIGHEST.cast_signed();
        let units = units(0, u64::MAX);
        assert_eq!(i128::from(moved(highest, units, scale)), product >> 28);
        assert_eq!(
            i128::from(moved(-highest, units, scale)),
            ((1i128 << 28) - product) >> 28
        );
    }

    /// A rotation seen from another component is the same rotation, to a step or two.
    #[test]
    fn a_rotation_seen_from_another_component_is_the_same() {
        let turned = [
            [0.1, 0.2, 0.3, 0.93],
            [0.6, -0.55, 0.4, 0.42],
            [-0.5, 0.5, 0.5, -0.5],
            [0.0, 0.0, 1.0, 0.0],
        ];
        for bits in [5u8, 9, 15] {
            let highest = crate::state::rotation::highest_part(bits);
            for quaternion in turned {
                let base = Rotation::from_quaternion(quaternion, bits).expect("a rotation");
                for largest in 0..4 {
                    let parts = seen_from(base, largest, highest);
                    assert!(parts.iter().all(|part| *part <= highest));
                    if largest == base.largest {
                        assert_eq!(parts, base.parts);
                        continue;
                    }
                    // What is left out now was the larger in truth only where the two are near; there it is the same.
                    let near = quaternion[usize::from(largest)].abs() > 0.49;
                    let seen = Rotation { largest, parts }.quaternion(bits);
                    let was = base.quaternion(bits);
                    let dot: f64 = seen.iter().zip(was).map(|(a, b)| a * b).sum();
                    assert!(
                        !near || dot.abs() > 1.0 - 3.0 / f64::from(highest),
                        "{quaternion:?} {largest} {dot}"
                    );
                }
            }
        }
    }

    #[test]
    fn times_round_to_units_of_64_us() {
        assert_eq!([0, 31, 32, 95, 96].map(|us| units(7, 7 + us)), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn a_prediction_is_velocity_times_time_and_stays_on_the_axis() {
        let schema = full_schema(); // position step 0.01 m, velocity step 0.02 m/s
        let layout = Layout::new(&schema);
        let base = Motion {
            observed_us: 1_000_000,
            position: [10_000, 5, 19_999],
            rotation: Rotation::identity(9),
            velocity: [500, -500, 500], // 10 m/s
            angular: [0; 3],
            at_rest: false,
        };
        assert_eq!(predicted(&layout, &base, 1_050_000), [10_050, 0, 20_000]);
        assert_eq!(predicted(&layout, &base, 1_000_000), base.position);
        assert_eq!(predicted(&layout, &base, 0), base.position);
        assert_eq!(
            predicted(&layout, &base, u64::MAX)[0],
            10_000 + 1_049,
            "never farther than 1.05 s"
        );
        assert_eq!(
            predicted(
                &layout,
                &Motion {
                    at_rest: true,
                    ..base
                },
                1_050_000
            ),
            base.position
        );
        let still = Layout::new(&Schema {
            velocity: None,
            ..schema.clone()
        });
        assert_eq!(predicted(&still, &base, 1_050_000), base.position);
    }
}
