//! Seeded dice: the same seed gives the same corpus.

/// SplitMix64 (Sebastiano Vigna, public domain).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1; 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.roll() % n }
    }

    /// As [`below`](Dice::below) in 32 bits.
    pub fn under(&mut self, n: u32) -> u32 {
        u32::try_from(self.below(u64::from(n))).unwrap()
    }

    /// An index of a list of `n`.
    pub fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap()
    }

    /// -`n` to `n`.
    pub fn around(&mut self, n: i64) -> i64 {
        i64::try_from(self.below(2 * n.unsigned_abs() + 1)).unwrap() - n
    }

    pub fn byte(&mut self) -> u8 {
        self.roll().to_le_bytes()[0]
    }

    /// True in `thousandths` of a thousand cases.
    pub fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1000) < thousandths
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.index(list.len()))
    }
}
