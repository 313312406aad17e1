//! A writer of body bits that lets anything be written: the codes of docs/PROTOCOL-delta.md, plain and tuned, and wrong ones.

use ackline::state::coding::Coding;
use ackline::state::schema::Schema;

/// Symbols of the codes of a table set, after section "Tuned codes" of the document.
const SYMBOLS: [usize; 68] = {
    let mut symbols = [16; 68];
    symbols[1] = 36;
    symbols
};
/// The standard table set.
const STANDARD: &str = include_str!("../../docs/PROTOCOL-tables.txt");

/// Which three numbers come.
#[derive(Clone, Copy)]
pub enum Field {
    /// Of a record that was at rest, or not.
    Position(bool),
    Rotation,
    Rate,
}

#[derive(Default)]
pub struct Bits {
    bits: Vec<bool>,
    /// The lengths of a tuned schema's codes.
    codes: Option<Vec<Vec<u8>>>,
    /// The mask of a motion whose head is to be written with its age.
    motion: Option<u64>,
}

impl Bits {
    /// Nothing yet, of a schema's coding.
    pub fn new(schema: &Schema) -> Bits {
        let lengths: Option<Vec<u8>> = match &schema.coding {
            Coding::Plain => None,
            Coding::Standard => Some(
                STANDARD
                    .bytes()
                    .filter(u8::is_ascii_digit)
                    .map(|digit| digit - b'0')
                    .collect(),
            ),
            Coding::Own(lengths) => Some(lengths.as_array().to_vec()),
        };
        let codes = lengths.map(|lengths| {
            let mut rest = &lengths[..];
            let code = |symbols: usize| {
                let (code, after) = rest.split_at(symbols);
                rest = after;
                code.to_vec()
            };
            SYMBOLS.map(code).to_vec()
        });
        Bits {
            codes,
            ..Bits::default()
        }
    }

    pub fn is_tuned(&self) -> bool {
        self.codes.is_some()
    }

    /// A symbol of a code.
    pub fn symbol(&mut self, code: usize, symbol: u64) {
        let lengths = &self.codes.as_ref().unwrap()[code];
        let of = lengths[usize::try_from(symbol).unwrap()];
        let mut order: Vec<(u8, u64)> = lengths.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let before = order.iter().take_while(|known| **known < (of, symbol));
        // Of strings of 8 bits, those of the symbols before.
        let first: u32 = before.map(|(length, _)| 1 << (8 - length)).sum();
        self.bits.extend((0..of).map(|bit| first >> (7 - bit) & 1 == 1));
    }

    /// A number of a code.
    pub fn tuned(&mut self, code: usize, value: u64) {
        let width = 64 - value.leading_zeros();
        self.symbol(code, u64::from(width.min(15)));
        if width >= 15 {
            self.put(u64::from(width - 15), 5);
        }
        if width > 1 {
            self.put(value & !(1 << (width - 1)), width - 1);
        }
    }

    /// The kind of an entry: its prefix and that's length, or its head where it is tuned.
    pub fn kind(&mut self, (prefix, length, head): (u64, u32, u64)) {
        match self.codes {
            Some(_) if head == 0 => self.motion = Some(0),
            Some(_) => self.symbol(1, head),
            None => self.put(prefix, length),
        }
    }

    /// The mask of the motion that follows, which a tuned head says.
    pub fn changes(&mut self, mask: u64) {
        self.motion = self.motion.and(Some(mask));
    }

    /// Whether an age follows.
    fn aged(&mut self, aged: bool) {
        match self.motion.take() {
            Some(mask) => self.symbol(1, mask | u64::from(aged) << 4),
            None => self.put(u64::from(aged), 1),
        }
    }

    /// A head that is not written, as nothing of its motion was.
    pub fn finish(&mut self) {
        if self.motion.is_some() {
            self.aged(false);
        }
    }

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
        match self.codes {
            Some(_) => self.tuned(0, gap),
            None => self.number(gap, [0, 3, 6, 15]),
        }
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
        self.aged(true);
        self.number(ticks, [2, 5, 10, 0]);
        self.sized(5, zigzag(remainder));
    }

    /// The age of an observation in its right form.
    pub fn age(&mut self, delta_us: u64, schema: &Schema) {
        let period = u64::from(schema.tick_period_us);
        let ticks = (delta_us + period / 2) / period;
        match delta_us {
            0 => self.aged(false),
            _ if ticks >= 1060 => self.far_age(delta_us),
            _ => self.long_age(ticks, delta_us as i64 - (ticks * period) as i64),
        }
    }

    /// An age as a plain time.
    pub fn far_age(&mut self, delta_us: u64) {
        self.aged(true);
        self.class(3, 0, [2, 5, 10, 0]);
        self.time(delta_us);
    }

    /// Three numbers of the first field that a motion changes.
    pub fn three(&mut self, field: Field, values: [u64; 3]) {
        if !self.is_tuned() {
            return self.triple(field, values, None);
        }
        let (first, rest) = match field {
            Field::Position(at_rest) => (2 + usize::from(at_rest), 4),
            Field::Rotation => (20, 28),
            Field::Rate => (44, 52),
        };
        let group = |value: u64| match 64 - value.leading_zeros() {
            width @ 0..=3 => width as usize,
            4 | 5 => 4,
            6 | 7 => 5,
            8 | 9 => 6,
            _ => 7,
        };
        let [a, b, c] = values;
        self.tuned(first, a);
        self.tuned(rest + group(a), b);
        self.tuned(rest + 8 + group(a | b), c);
    }

    /// A plain triple at `width`, or at the least that holds the values.
    pub fn triple(&mut self, field: Field, values: [u64; 3], width: Option<u32>) {
        let code_bits = if matches!(field, Field::Rotation) { 4 } else { 5 };
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
