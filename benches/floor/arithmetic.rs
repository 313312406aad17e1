//! A context-modelled adaptive binary arithmetic coder for the scene, as the best entries of the public compression challenge
//! were: every bit has a model that learns, chosen by what the baseline and its own baseline say of the cube.
//!
//! Models go on from frame to frame, so a client's packets depend on all before them: the smallest there is, and no packet can
//! be shared. A decoder stands beside it so that the sizes are those of a code that can be read.

use super::scene::{CUBES, Cube, Cubes};

/// Probability that a bit is set, as two estimates of different speed, 16 bits each.
#[derive(Clone, Copy)]
struct Bit([u16; 2]);

const HALF: Bit = Bit([1 << 15; 2]);
const SHIFTS: [u32; 2] = [4, 7];

impl Bit {
    /// 1 to 65,535, of 65,536.
    fn chance(self) -> u32 {
        ((u32::from(self.0[0]) + u32::from(self.0[1])) / 2).clamp(32, 65_536 - 32)
    }

    fn learn(&mut self, bit: bool) {
        for (estimate, shift) in self.0.iter_mut().zip(SHIFTS) {
            match bit {
                true => *estimate += (u16::MAX - *estimate) >> shift,
                false => *estimate -= *estimate >> shift,
            }
        }
    }
}

/// Where bits go to, or come from.
pub trait Coder {
    fn code(&mut self, bit: bool, chance: u32) -> bool;
}

/// Writes (a carry-less range coder with 32-bit bounds).
pub struct Writer<'a> {
    low: u32,
    high: u32,
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        out.clear();
        Writer {
            low: 0,
            high: u32::MAX,
            out,
        }
    }

    /// Ends the code: as few bytes as tell it from every other.
    pub fn finish(self) {
        self.out.push((self.high >> 24) as u8);
    }
}

/// Reads what a [`Writer`] wrote.
pub struct Reader<'a> {
    low: u32,
    high: u32,
    value: u32,
    bytes: core::slice::Iter<'a, u8>,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        let mut reader = Reader {
            low: 0,
            high: u32::MAX,
            value: 0,
            bytes: bytes.iter(),
        };
        (0..4).for_each(|_| reader.next());
        reader
    }

    fn next(&mut self) {
        self.value = self.value << 8 | u32::from(self.bytes.next().copied().unwrap_or(0));
    }
}

/// The last value of the lower part, which stands for a set bit.
fn middle(low: u32, high: u32, chance: u32) -> u32 {
    low + ((u64::from(high - low) * u64::from(chance)) >> 16) as u32
}

impl Coder for Writer<'_> {
    fn code(&mut self, bit: bool, chance: u32) -> bool {
        let middle = middle(self.low, self.high, chance);
        (self.low, self.high) = if bit {
            (self.low, middle)
        } else {
            (middle + 1, self.high)
        };
        while (self.low ^ self.high) >> 24 == 0 {
            self.out.push((self.high >> 24) as u8);
            (self.low, self.high) = (self.low << 8, self.high << 8 | 255);
        }
        bit
    }
}

impl Coder for Reader<'_> {
    fn code(&mut self, _: bool, chance: u32) -> bool {
        let middle = middle(self.low, self.high, chance);
        let bit = self.value <= middle;
        (self.low, self.high) = if bit {
            (self.low, middle)
        } else {
            (middle + 1, self.high)
        };
        while (self.low ^ self.high) >> 24 == 0 {
            (self.low, self.high) = (self.low << 8, self.high << 8 | 255);
            self.next();
        }
        bit
    }
}

/// A signed number: length of its magnitude in unary, sign, the bits below the highest.
#[derive(Clone)]
struct Number {
    length: [Bit; 20],
    sign: Bit,
    below: [[Bit; 8]; 20],
}

const NUMBER: Number = Number {
    length: [HALF; 20],
    sign: HALF,
    below: [[HALF; 8]; 20],
};

fn bit(coder: &mut impl Coder, model: &mut Bit, bit: bool) -> bool {
    let bit = coder.code(bit, model.chance());
    model.learn(bit);
    bit
}

impl Number {
    fn code(&mut self, coder: &mut impl Coder, value: i32) -> i32 {
        let magnitude = value.unsigned_abs();
        let wanted = 32 - magnitude.leading_zeros();
        let mut length = 0;
        while length < 19 && bit(coder, &mut self.length[length as usize], length < wanted) {
            length += 1;
        }
        if length == 0 {
            return 0;
        }
        let negative = bit(coder, &mut self.sign, value < 0);
        let mut read = 1u32;
        for place in (0..length - 1).rev() {
            let wanted = magnitude >> place & 1 == 1;
            // The two highest are modelled, those below are as good as random.
            let set = match length - 2 - place {
                depth @ 0..2 => {
                    let model = (depth << 2 | read & 3) as usize;
                    bit(coder, &mut self.below[length as usize][model], wanted)
                }
                _ => coder.code(wanted, 1 << 15),
            };
            read = read << 1 | u32::from(set);
        }
        let read = read as i32;
        if negative { -read } else { read }
    }
}

/// How large a number is, in few classes.
fn class(value: i32) -> usize {
    match value.unsigned_abs() {
        0 => 0,
        1..=2 => 1,
        3..=6 => 2,
        7..=16 => 3,
        17..=48 => 4,
        _ => 5,
    }
}
const CLASSES: usize = 6;

/// The models of a stream of frames.
#[derive(Clone)]
pub struct Arithmetic {
    changed: Vec<Bit>,
    interacting: Vec<Bit>,
    position: Vec<Number>,
    largest: Vec<Bit>,
    rotation: Vec<Number>,
}

impl Default for Arithmetic {
    fn default() -> Arithmetic {
        Arithmetic {
            changed: vec![HALF; 256],
            interacting: vec![HALF; 16],
            position: vec![NUMBER; 3 * 2 * CLASSES * CLASSES],
            largest: vec![HALF; CLASSES],
            rotation: vec![NUMBER; 3 * CLASSES * CLASSES * 3],
        }
    }
}

impl Arithmetic {
    /// Codes a frame against `base`; `older` is the baseline's own baseline.
    pub fn encode(&mut self, older: &Cubes, base: &Cubes, now: &Cubes, out: &mut Vec<u8>) -> usize {
        let mut writer = Writer::new(out);
        let mut history = [0u8; 3];
        for at in 0..CUBES {
            self.cube(&mut writer, &older[at], &base[at], &now[at], &mut history);
        }
        writer.finish();
        out.len()
    }

    /// Reads what [`encode`](Arithmetic::encode) wrote, with models in the same state.
    pub fn decode(&mut self, older: &Cubes, base: &Cubes, bytes: &[u8]) -> Cubes {
        let mut reader = Reader::new(bytes);
        let mut history = [0u8; 3];
        (0..CUBES)
            .map(|at| self.cube(&mut reader, &older[at], &base[at], &base[at], &mut history))
            .collect()
    }

    fn cube(
        &mut self,
        coder: &mut impl Coder,
        older: &Cube,
        base: &Cube,
        now: &Cube,
        history: &mut [u8; 3],
    ) -> Cube {
        let speed = [4, 5, 6].map(|at| base[at] - older[at]);
        let turns = base[..4] != older[..4];
        let moves = usize::from(speed != [0; 3]) + usize::from(turns) * 2;
        let fast = class(speed.iter().map(|axis| axis.abs()).max().unwrap_or(0)).min(3);
        let recent = usize::from(history[0]) + usize::from(history[1]) * 2;
        let context = moves + fast * 4 + recent * 16 + base[7] as usize * 64;
        let is_changed = bit(coder, &mut self.changed[context], now != base);
        *history = [u8::from(is_changed), history[0], history[1]];
        if !is_changed {
            return *base;
        }
        let mut cube = *base;
        let context = base[7] as usize + moves * 2;
        cube[7] = i32::from(bit(coder, &mut self.interacting[context], now[7] == 1));
        self.position(coder, base, now, speed, cube[7], &mut cube);
        self.rotation(coder, older, base, now, speed, &mut cube);
        cube
    }

    fn position(
        &mut self,
        coder: &mut impl Coder,
        base: &Cube,
        now: &Cube,
        speed: [i32; 3],
        interacting: i32,
        cube: &mut Cube,
    ) {
        let mut before = 0;
        for axis in 0..3 {
            let goes = speed[axis] - speed[axis] / 16;
            let falls = if axis == 2 && base[6] > 130 { 3 } else { 0 };
            let estimate = base[4 + axis] + goes - falls;
            let widest = class(speed[axis]).max(class(speed[(axis + 1) % 3]) / 2);
            let context = ((axis * 2 + interacting as usize) * CLASSES + widest) * CLASSES + before;
            let residual = self.position[context].code(coder, now[4 + axis] - estimate);
            before = class(residual);
            cube[4 + axis] = estimate + residual;
        }
    }

    fn rotation(
        &mut self,
        coder: &mut impl Coder,
        older: &Cube,
        base: &Cube,
        now: &Cube,
        speed: [i32; 3],
        cube: &mut Cube,
    ) {
        let turned = match older[0] == base[0] {
            true => [1, 2, 3].map(|part| base[part] - older[part]),
            false => [0; 3],
        };
        let turn = class(turned.iter().map(|part| part.abs()).max().unwrap_or(0));
        if !bit(coder, &mut self.largest[turn], now[0] == base[0]) {
            let mut raw = |value: i32, bits: i32| {
                (0..bits).rev().fold(0, |read, place| {
                    read << 1 | i32::from(coder.code(value >> place & 1 == 1, 1 << 15))
                })
            };
            cube[0] = raw(now[0], 2);
            (1..4).for_each(|part| cube[part] = raw(now[part], 9));
            return;
        }
        let moved = [4, 5, 6].map(|at| (cube[at] - base[at]).abs());
        let moved = class(moved.into_iter().max().unwrap_or(0)).max(class(speed[0]) / 2);
        let mut before = 0usize;
        for part in 0..3 {
            let context = ((part * CLASSES + turn) * CLASSES + moved) * 3 + before.min(4) / 2;
            let estimate = base[1 + part] + turned[part];
            let residual = self.rotation[context].code(coder, now[1 + part] - estimate);
            before = class(residual);
            cube[1 + part] = estimate + residual;
        }
    }
}
