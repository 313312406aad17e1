//! A writer of body bits that lets anything be written: the codes of docs/PROTOCOL-delta.md, and wrong ones.

use ackline::state::schema::Schema;

#[derive(Default)]
pub struct Bits {
    bits: Vec<bool>,
}

impl Bits {
    pub fn put(&mut self, value: u64, count: u32) {
        self.bits.extend((0..count).map(|bit| value >> bit & 1 == 1));
    }

    pub fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| (0..8).zip(bits).map(|(at, bit)| u8::from(*bit) << at).sum();
        self.bits.chunks(8).map(byte).collect()
    }

    /// A class code in a class of choice.
    pub fn class(&mut self, class: usize, raw: u64, widths: [u32; 4]) {
        let (prefix, length) = [(0, 1), (1, 2), (3, 3), (7, 3)][class];
        self.put(prefix, length);
        self.put(raw, widths[class]);
    }

    /// A class code in the one right form.
    pub fn number(&mut self, value: u64, widths: [u32; 4]) {
        let mut first = 0;
        for (class, width) in widths.into_iter().enumerate() {
            if class == 3 || value < first + (1 << width) {
                return self.class(class, value - first, widths);
            }
            first += 1 << width;
        }
    }

    pub fn gap(&mut self, gap: u64) {
        self.number(gap, [0, 3, 6, 15]);
    }

    pub fn sized(&mut self, code_bits: u32, value: u64) {
        let width = 64 - value.leading_zeros();
        self.put(u64::from(width), code_bits);
        if width > 1 {
            self.put(value & !(1 << (width - 1)), width - 1);
        }
    }

    pub fn time(&mut self, delta_us: u64) {
        self.sized(6, delta_us);
    }

    /// The long form of an age: whole ticks and a remainder, right or wrong.
    pub fn long_age(&mut self, ticks: u64, remainder: i64) {
        self.put(1, 1);
        self.number(ticks, [2, 5, 10, 0]);
        self.sized(5, zigzag(remainder));
    }

    /// The age of an observation in its right form.
    pub fn age(&mut self, delta_us: u64, schema: &Schema) {
        let period = u64::from(schema.tick_period_us);
        let ticks = (delta_us + period / 2) / period;
        match delta_us {
            0 => self.put(0, 1),
            _ if ticks >= 1060 => self.far_age(delta_us),
            _ => self.long_age(ticks, delta_us as i64 - (ticks * period) as i64),
        }
    }

    /// An age as a plain time.
    pub fn far_age(&mut self, delta_us: u64) {
        self.put(1, 1);
        self.class(3, 0, [2, 5, 10, 0]);
        self.time(delta_us);
    }

    /// A triple at `width`, or at the least that holds the values.
    pub fn triple(&mut self, code_bits: u32, values: [u64; 3], width: Option<u32>) {
        let top = (1 << code_bits) - 1;
        let least = (64 - (values[0] | values[1] | values[2]).leading_zeros()).min(top);
        let code = width.unwrap_or(least).min(top);
        self.put(u64::from(code), code_bits);
        let width = if code == top { top + 1 } else { code };
        values.iter().for_each(|value| self.put(*value, width));
    }
}

/// Small magnitudes first, on 32 bits.
pub fn zigzag(value: i64) -> u64 {
    let value = value as i32;
    u64::from((value << 1 ^ value >> 31).cast_unsigned())
}
