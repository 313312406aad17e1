//! What a player of a scene sends as one input: five bytes.
//!
//! | byte | meaning |
//! | --- | --- |
//! | 0, 1 | wanted motion along x and y, i8, -127 to 127 of full speed |
//! | 2, 3 | heading, u16 little endian, parts of 65,536 of a turn from +x towards +y |
//! | 4 | buttons: 1 fire, 2 jump, 4 stealth |
//!
//! Invariant: one legal encoding; what decodes re-encodes to the same bytes.

use super::heading::Heading;

/// Bytes of an input.
pub const INPUT_BYTES: usize = 5;
/// Fire.
pub const FIRE: u8 = 1;
/// Jump, where there is ground to jump from.
pub const JUMP: u8 = 2;
/// Be seen by the own team only, and hold fire.
pub const STEALTH: u8 = 4;

/// One input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Input {
    /// Wanted motion along x and y, of 127; -128 is not used.
    pub motion: [i8; 2],
    /// Where the player looks.
    pub heading: Heading,
    /// [`FIRE`], [`JUMP`], [`STEALTH`].
    pub buttons: u8,
}

impl Input {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; INPUT_BYTES] {
        let [x, y] = self.motion.map(|part| part.max(-127).cast_unsigned());
        let [low, high] = self.heading.0.to_le_bytes();
        [x, y, low, high, self.buttons & (FIRE | JUMP | STEALTH)]
    }

    /// The input of these bytes; `None` where they are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Input> {
        let [x, y, low, high, buttons] = *<&[u8; INPUT_BYTES]>::try_from(bytes).ok()?;
        let motion = [x.cast_signed(), y.cast_signed()];
        let known = buttons & !(FIRE | JUMP | STEALTH) == 0 && !motion.contains(&i8::MIN);
        known.then_some(Input {
            motion,
            heading: Heading(u16::from_le_bytes([low, high])),
            buttons,
        })
    }

    /// True when every one of these buttons is down.
    #[must_use]
    pub fn presses(&self, buttons: u8) -> bool {
        self.buttons & buttons == buttons
    }

    /// The wanted velocity of who goes at most `speed`, whatever the direction.
    #[must_use]
    pub fn wanted(&self, speed: f64) -> [f64; 2] {
        let [x, y] = self.motion.map(|part| f64::from(part) / 127.0);
        let length = (x * x + y * y).sqrt().max(1.0);
        [x / length * speed, y / length * speed]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decodes_encodes_to_the_same_bytes_and_the_rest_is_refused() {
        let input = Input {
            motion: [-127, 5],
            heading: Heading(0xBEEF),
            buttons: FIRE | STEALTH,
        };
        assert_eq!(input.encode(), [0x81, 5, 0xEF, 0xBE, 5]);
        assert_eq!(Input::decode(&input.encode()), Some(input));
        let malformed: [&[u8]; 5] = [&[], &[0; 4], &[0; 6], &[0x80, 0, 0, 0, 0], &[0, 0, 0, 0, 8]];
        assert!(malformed.iter().all(|bytes| Input::decode(bytes).is_none()));
    }

    #[test]
    fn nobody_is_faster_across() {
        for motion in [[127, 127], [127, 0], [-127, 40]] {
            let [x, y] = Input {
                motion,
                ..Input::default()
            }
            .wanted(6.0);
            assert!((x * x + y * y).sqrt() <= 6.0 + 1e-9);
        }
    }
}
