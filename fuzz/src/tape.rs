//! An input read as a list of choices: numbers from its front, zeros once it is over.
//!
//! A zero is always the simplest choice, so that cutting an input makes it simpler. Reading goes from front to
//! back only, so that seeds can be written by hand with [`Ink`].

/// Reads choices.
#[derive(Clone, Debug)]
pub struct Tape<'a>(&'a [u8]);

impl<'a> Tape<'a> {
    pub fn new(bytes: &'a [u8]) -> Tape<'a> {
        Tape(bytes)
    }

    /// True when only zeros are left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `count` bytes as they are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    fn word<const N: usize>(&mut self) -> [u8; N] {
        let mut word = [0; N];
        let taken = self.take(N);
        word[..taken.len()].copy_from_slice(taken);
        word
    }

    pub fn u8(&mut self) -> u8 {
        self.word::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.word())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.word())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.word())
    }

    /// A number below `end`, from one byte where that is enough.
    pub fn below(&mut self, end: u32) -> u32 {
        if end <= 256 {
            u32::from(self.u8()) % end.max(1)
        } else {
            self.u32() % end
        }
    }

    /// True for one of `count` choices, never on a tape that is over.
    pub fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == count - 1
    }

    /// At most `max` bytes behind their count.
    pub fn block(&mut self, max: usize) -> &'a [u8] {
        let count = if max > 255 {
            usize::from(self.u16())
        } else {
            usize::from(self.u8())
        };
        self.take(count % (max + 1))
    }

    /// One of a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let end = u32::try_from(list.len()).unwrap_or(u32::MAX);
        if end == 0 {
            None
        } else {
            list.get(self.below(end) as usize).copied()
        }
    }

    /// A number up to `highest`, often `near` or on an edge.
    pub fn value(&mut self, near: u32, highest: u32) -> u32 {
        let near = near.min(highest);
        match self.below(8) {
            0..=2 => near,
            3 => near.saturating_add(self.below(40)).min(highest),
            4 => near.saturating_sub(u32::from(self.u16())),
            5 => highest - self.below(2).min(highest),
            6 => self.below(2).min(highest),
            _ => u32::try_from(u64::from(self.u32()) % (u64::from(highest) + 1)).unwrap_or(0),
        }
    }

    /// A number from `-highest` to `highest`, often `near` or on an edge.
    pub fn signed(&mut self, near: i32, highest: u32) -> i32 {
        let shifted = u32::try_from(i64::from(near) + i64::from(highest)).unwrap_or(0);
        let value = self.value(shifted, 2 * highest);
        i32::try_from(i64::from(value) - i64::from(highest)).unwrap_or(0)
    }

    /// A time at most `latest`, often a whole number of ticks before it.
    pub fn time(&mut self, latest: u64, tick_us: u32) -> u64 {
        let tick_us = u64::from(tick_us);
        let back = match self.below(8) {
            0 | 1 => 0,
            2 => u64::from(self.u8()) * tick_us,
            3 => u64::from(self.u8()) * tick_us + u64::from(self.u8()),
            4 => u64::from(self.u16()) * tick_us + tick_us / 2,
            5 => u64::from(self.u32()),
            6 => u64::from(self.u32()) << self.below(17),
            _ => latest,
        };
        latest.saturating_sub(back)
    }

    /// Damages bytes: flips, cuts, insertions. Nothing on a tape that is over.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = if bytes.is_empty() {
                0
            } else {
                usize::from(self.u16()) % bytes.len()
            };
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = self.u8(),
                2 => bytes.truncate(at),
                3 => bytes.push(self.u8()),
                _ => {
                    let block = self.block(16).to_vec();
                    bytes.splice(at..at, block);
                }
            }
        }
    }
}

/// Writes what a [`Tape`] reads.
#[derive(Clone, Debug, Default)]
pub struct Ink(pub Vec<u8>);

impl Ink {
    pub fn u8(&mut self, value: u8) -> &mut Ink {
        self.0.push(value);
        self
    }

    pub fn u16(&mut self, value: u16) -> &mut Ink {
        self.raw(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Ink {
        self.raw(&value.to_le_bytes())
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Ink {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A block of a [`Tape::block`] with a maximum above 255.
    pub fn block(&mut self, bytes: &[u8]) -> &mut Ink {
        self.u16(u16::try_from(bytes.len()).unwrap_or(0)).raw(bytes)
    }

    /// A splitmix64 sequence of bytes: choices without an intention.
    pub fn noise(&mut self, mut seed: u64, count: usize) -> &mut Ink {
        for _ in 0..count {
            seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut word = seed;
            word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            self.0.push((word >> 56) as u8);
        }
        self
    }
}
