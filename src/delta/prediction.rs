//! Where a baseline's velocity puts a position at a later observation: both ends compute it, only the residual
//! travels.
//!
//! Invariant: integers only, and every product stays below 2^53, so a number of a browser holds it exactly.

use super::layout::Layout;
use crate::state::record::Motion;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::rotation::Rotation;
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
