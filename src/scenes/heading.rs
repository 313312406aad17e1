//! Which way something faces over the ground.
//!
//! Invariant: only additions, multiplications, divisions and square roots touch a number, so a heading gives the same
//! directions and quaternions on every machine.

use core::f64::consts::FRAC_PI_2;

/// A direction over the ground: a turn in 65,536 parts, from +x towards +y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Heading(pub u16);

impl Heading {
    /// The unit vector it points along.
    #[must_use]
    pub fn direction(self) -> [f64; 2] {
        rotor(u32::from(self.0) << 1)
    }

    /// The rotation about z that turns +x into it, as x, y, z, w.
    #[must_use]
    pub fn quaternion(self) -> [f64; 4] {
        let [w, z] = rotor(u32::from(self.0));
        [0.0, 0.0, z, w]
    }

    /// The heading along a vector, within a quarter of a degree; `None` where the vector is too short to have one.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn towards([x, y]: [f64; 2]) -> Option<Heading> {
        let (along, aside) = (x.abs(), y.abs());
        let (least, most) = (along.min(aside), along.max(aside));
        if !(1e-9..=1e9).contains(&most) {
            return None;
        }
        // The arc tangent from 0 to 1, in turns: a parabola over its chord.
        let ratio = least / most;
        let eighth = ratio * (0.125 + 0.043_45 * (1.0 - ratio));
        let quarter = if aside > along { 0.25 - eighth } else { eighth };
        let half = if x < 0.0 { 0.5 - quarter } else { quarter };
        let turn = if y < 0.0 { 1.0 - half } else { half };
        Some(Heading((turn * 65_536.0).round() as u32 as u16))
    }

    /// As seen in a mirror that turns x round, y round, or both.
    #[must_use]
    pub fn mirrored(self, [x, y]: [bool; 2]) -> Heading {
        let seen = if x { 0x8000u16.wrapping_sub(self.0) } else { self.0 };
        Heading(if y { seen.wrapping_neg() } else { seen })
    }

    /// Turned by so many parts.
    #[must_use]
    pub fn turned(self, parts: i16) -> Heading {
        Heading(self.0.wrapping_add_signed(parts))
    }
}

/// Cosine and sine of an angle in parts of 131,072 to the turn: the series up to the eighth of a turn, mirrored beyond.
fn rotor(parts: u32) -> [f64; 2] {
    let within = parts & 0x7fff;
    let swapped = within > 0x4000;
    let short = if swapped { 0x8000 - within } else { within };
    let angle = f64::from(short) * (FRAC_PI_2 / 32_768.0);
    let s = angle * angle;
    let cosine = 1.0 - s / 2.0 * (1.0 - s / 12.0 * (1.0 - s / 30.0 * (1.0 - s / 56.0 * (1.0 - s / 90.0))));
    let sine = angle * (1.0 - s / 6.0 * (1.0 - s / 20.0 * (1.0 - s / 42.0 * (1.0 - s / 72.0))));
    let [x, y] = if swapped { [sine, cosine] } else { [cosine, sine] };
    match parts >> 15 & 3 {
        0 => [x, y],
        1 => [-y, x],
        2 => [-x, -y],
        _ => [y, -x],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_and_quaternions_are_those_of_the_angle() {
        for part in (0..=u16::MAX).step_by(7) {
            let heading = Heading(part);
            let angle = f64::from(part) / 65_536.0 * core::f64::consts::TAU;
            let [x, y] = heading.direction();
            assert!(
                (x - angle.cos()).abs() < 1e-8 && (y - angle.sin()).abs() < 1e-8,
                "{part}"
            );
            let [_, _, z, w] = heading.quaternion();
            assert!((w - (angle / 2.0).cos()).abs() < 1e-8 && (z - (angle / 2.0).sin()).abs() < 1e-8);
            let back = Heading::towards(heading.direction()).unwrap();
            let off = back.0.wrapping_sub(part).cast_signed().unsigned_abs();
            assert!(off < 46, "{part} came back {off} parts off");
        }
        assert_eq!(Heading::towards([0.0, 0.0]), None);
    }

    #[test]
    fn a_mirror_turns_components_round() {
        for part in [0, 1, 9_000, 20_000, 40_000, 65_535] {
            for mirror in [[false, false], [true, false], [false, true], [true, true]] {
                let (plain, seen) = (
                    Heading(part).direction(),
                    Heading(part).mirrored(mirror).direction(),
                );
                for axis in 0..2 {
                    let wanted = if mirror[axis] { -plain[axis] } else { plain[axis] };
                    assert!((seen[axis] - wanted).abs() < 1e-9, "{part} {mirror:?}");
                }
            }
        }
    }
}
