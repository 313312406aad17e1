//! What a player of a scene sends as one input: seven bytes.
//!
//! | byte | meaning |
//! | --- | --- |
//! | 0, 1 | wanted motion along x and y, i8, -127 to 127 of full speed |
//! | 2, 3 | heading, u16 little endian, parts of 65,536 of a turn from +x towards +y |
//! | 4 | buttons: 1 fire, 2 jump, 4 stealth |
//! | 5, 6 | how long it lasts, u16 little endian, parts of 4 microseconds, 1 to 25,000 (0.1 s) |
//!
//! An arena plays each input for just that long, so that a client which plays it at once comes to the same place; a crowd
//! divides its ticks among the inputs that came, whatever they say.
//!
//! Invariant: one legal encoding; what decodes re-encodes to the same bytes.

use super::heading::Heading;

/// Bytes of an input.
pub const INPUT_BYTES: usize = 7;
/// What the length counts, microseconds.
pub const LENGTH_UNIT_US: u64 = 4;
/// The longest input.
pub const LENGTH_MAX: u16 = 25_000;
/// Fire.
pub const FIRE: u8 = 1;
/// Jump, where there is ground to jump from.
pub const JUMP: u8 = 2;
/// Be seen by the own team only, and hold fire.
pub const STEALTH: u8 = 4;

/// One input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Wanted motion along x and y, of 127; -128 is not used.
    pub motion: [i8; 2],
    /// Where the player looks.
    pub heading: Heading,
    /// [`FIRE`], [`JUMP`], [`STEALTH`].
    pub buttons: u8,
    /// How long it lasts, in units of [`LENGTH_UNIT_US`], 1 to [`LENGTH_MAX`].
    pub length: u16,
}

impl Default for Input {
    /// Stands still, for 0.05 s.
    fn default() -> Input {
        Input {
            motion: [0; 2],
            heading: Heading::default(),
            buttons: 0,
            length: length_of(50_000),
        }
    }
}

/// The length of an input that is sent every so many microseconds, as near as it goes.
#[must_use]
pub fn length_of(every_us: u64) -> u16 {
    let units = every_us.saturating_add(LENGTH_UNIT_US / 2) / LENGTH_UNIT_US;
    u16::try_from(units).unwrap_or(LENGTH_MAX).clamp(1, LENGTH_MAX)
}

impl Input {
    /// How long it lasts.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn seconds(&self) -> f64 {
        (u64::from(self.length) * LENGTH_UNIT_US) as f64 / 1e6
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; INPUT_BYTES] {
        let [x, y] = self.motion.map(|part| part.max(-127).cast_unsigned());
        let [low, high] = self.heading.0.to_le_bytes();
        let [short, long] = self.length.clamp(1, LENGTH_MAX).to_le_bytes();
        [
            x,
            y,
            low,
            high,
            self.buttons & (FIRE | JUMP | STEALTH),
            short,
            long,
        ]
    }

    /// The input of these bytes; `None` where they are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Input> {
        let [x, y, low, high, buttons, short, long] = *<&[u8; INPUT_BYTES]>::try_from(bytes).ok()?;
        let motion = [x.cast_signed(), y.cast_signed()];
        let length = u16::from_le_bytes([short, long]);
        let known = buttons & !(FIRE | JUMP | STEALTH) == 0 && !motion.contains(&i8::MIN);
        let lasts = (1..=LENGTH_MAX).contains(&length);
        (known && lasts).then_some(Input {
            motion,
            heading: Heading(u16::from_le_bytes([low, high])),
            buttons,
            length,
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
            length: length_of(33_333),
        };
        assert_eq!(input.encode(), [0x81, 5, 0xEF, 0xBE, 5, 0x8D, 0x20]);
        assert_eq!(Input::decode(&input.encode()), Some(input));
        assert!((input.seconds() - 0.033_332).abs() < 1e-9);
        assert_eq!(
            [0, 4, 100_000, u64::MAX].map(length_of),
            [1, 1, LENGTH_MAX, LENGTH_MAX]
        );
        let malformed: [&[u8]; 7] = [
            &[],
            &[1; 6],
            &[1; 8],
            &[0x80, 0, 0, 0, 0, 1, 0],
            &[0, 0, 0, 0, 8, 1, 0],
            &[0; 7],
            &[0, 0, 0, 0, 0, 0xA9, 0x61],
        ];
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
