//! Rotations as "smallest three": the largest quaternion component is left out, the other three are integers.
//!
//! Source of the scheme: Glenn Fiedler, "Snapshot Compression" (2015). With `b` bits a component value c in
//! [-1/sqrt(2), 1/sqrt(2)] is q = round(c * sqrt(2) * h) + h with h = 2^(b-1) - 1, so 0 <= q <= 2h and zero is
//! exactly h. The sign of the quaternion is chosen so that the left-out component is positive: q and -q are
//! one rotation.

use core::f64::consts::SQRT_2;

/// A quantised rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Index (0..=3 for x, y, z, w) of the component left out, the one of the largest magnitude.
    pub largest: u8,
    /// The other three in order of index, each 0 to 2h.
    pub parts: [u16; 3],
}

/// The highest value of a sent component with `bits` bits: 2h.
#[must_use]
pub fn highest_part(bits: u8) -> u16 {
    (1 << bits) - 2
}

impl Rotation {
    /// The identity at `bits` bits.
    #[must_use]
    pub fn identity(bits: u8) -> Rotation {
        Rotation {
            largest: 3,
            parts: [highest_part(bits) / 2; 3],
        }
    }

    /// Quantises a quaternion x, y, z, w of any sign and any non-zero finite length; `None` for others.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn from_quaternion(quaternion: [f64; 4], bits: u8) -> Option<Rotation> {
        let length = quaternion.iter().map(|c| c * c).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 1e-9) {
            return None;
        }
        let mut largest = 0;
        let mut magnitude = -1.0;
        for (index, component) in (0u8..).zip(quaternion) {
            if component.abs() > magnitude {
                (largest, magnitude) = (index, component.abs());
            }
        }
        let sign = if quaternion.get(usize::from(largest)).is_some_and(|c| *c < 0.0) {
            -1.0
        } else {
            1.0
        };
        let h = f64::from(highest_part(bits) / 2);
        let mut parts = [0u16; 3];
        let kept = (0u8..).zip(quaternion).filter(|(index, _)| *index != largest);
        for (part, (_, component)) in parts.iter_mut().zip(kept) {
            let scaled = (component * sign / length * SQRT_2 * h).round() + h;
            *part = scaled.clamp(0.0, 2.0 * h) as u16;
        }
        Some(Rotation { largest, parts })
    }

    /// The unit quaternion x, y, z, w of this rotation.
    #[must_use]
    pub fn quaternion(self, bits: u8) -> [f64; 4] {
        let h = f64::from(highest_part(bits) / 2);
        let [a, b, c] = self.parts.map(|part| (f64::from(part) - h) / (h * SQRT_2));
        let rest = (1.0 - a * a - b * b - c * c).max(0.0).sqrt();
        match self.largest {
            0 => [rest, a, b, c],
            1 => [a, rest, b, c],
            2 => [a, b, rest, c],
            _ => [a, b, c, rest],
        }
    }

    /// True when every part is one this quantiser can produce.
    #[must_use]
    pub fn is_within(self, bits: u8) -> bool {
        self.largest < 4 && self.parts.iter().all(|part| *part <= highest_part(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_survives_within_a_step_and_both_signs_are_one() {
        let bits = 9;
        let step = 1.0 / (f64::from(highest_part(bits) / 2) * SQRT_2);
        for i in 0..200 {
            let angle = f64::from(i) * 0.37;
            let q = [
                angle.sin() * 0.6,
                angle.cos() * 0.3,
                (angle * 1.7).sin() * 0.5,
                (angle * 0.9).cos(),
            ];
            let length = q.iter().map(|c| c * c).sum::<f64>().sqrt();
            let rotation = Rotation::from_quaternion(q, bits).unwrap();
            assert!(rotation.is_within(bits));
            assert_eq!(rotation, Rotation::from_quaternion(q.map(|c| -c), bits).unwrap());
            let back = rotation.quaternion(bits);
            let dot: f64 = q.iter().zip(back).map(|(a, b)| a / length * b).sum();
            assert!(dot.abs() > 1.0 - 4.0 * step * step, "{q:?} {back:?}");
        }
    }

    /// FAULTS 66: a zero or non-finite quaternion is no rotation.
    #[test]
    fn faults_66_degenerate_quaternions_are_refused() {
        for q in [
            [0.0; 4],
            [f64::NAN, 0.0, 0.0, 1.0],
            [f64::INFINITY, 0.0, 0.0, 0.0],
            [1e-300; 4],
        ] {
            assert_eq!(Rotation::from_quaternion(q, 9), None);
        }
    }

    #[test]
    fn identity_is_exact() {
        let identity = Rotation::from_quaternion([0.0, 0.0, 0.0, 1.0], 9).unwrap();
        assert_eq!(identity, Rotation::identity(9));
        assert_eq!(identity.quaternion(9), [0.0, 0.0, 0.0, 1.0]);
        assert!(
            !Rotation {
                largest: 4,
                parts: [0; 3]
            }
            .is_within(9)
        );
        assert!(
            !Rotation {
                largest: 0,
                parts: [511, 0, 0]
            }
            .is_within(9)
        );
    }
}
