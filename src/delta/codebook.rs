//! The prefix codes of a tuned schema: which bits a symbol has, and which symbol bits are.
//!
//! Codes are canonical (RFC 1951, section 3.2.2): of a code's symbols the shorter come first, and of equal lengths the lower
//! symbol; a code's bits are read from its highest, so they are stored reversed for strings whose lowest bit comes first.
//!
//! A *number* is written as the symbol of its width in bits (0 to 14, or 15 for more, and then 5 bits of the width less 15), and
//! the bits below its top bit. Which code a number's symbol is of is its *context*: what the entry has said before, and what
//! the baseline's record says. So an entry owes nothing to its neighbours and can be stitched.
//!
//! Invariant: made of complete codes, so that every bit string reads as one sequence of symbols.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, OnceLock};

use super::standard::STANDARD;
use crate::state::coding::{Coding, LENGTH_MAX, LENGTHS, Lengths};
use crate::wire::bits::{BitReader, BitWriter};
use crate::wire::bytes::ReadError;

/// Codes in a set.
const CONTEXTS: usize = 68;
/// Strings of the longest code.
const STRINGS: usize = 1 << LENGTH_MAX;
/// The symbol of wide numbers, and the bits that say how wide.
const WIDE: u32 = 15;
const WIDE_BITS: u32 = 5;
/// Most bits of a number of `width` bits, 15 or more.
pub(super) const fn number_bits_max(width: u32) -> u32 {
    LENGTH_MAX as u32 + WIDE_BITS + width - 1
}
/// Most bits of a head.
pub(super) const HEAD_BITS_MAX: u32 = LENGTH_MAX as u32;
/// Most bits of a gap, which is below 2^15.
pub(super) const GAP_BITS_MAX: u32 = number_bits_max(15);

/// Widest numbers of which three go into one store, with their codes.
const NARROW: u32 = 11;
const _: () = assert!(3 * (LENGTH_MAX as u32 + NARROW - 1) <= BitWriter::LONG && NARROW < WIDE);

/// A context: the index of a code in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context(pub(super) usize);

/// Gaps.
pub(super) const GAP: Context = Context(0);
/// Heads of entries. They have one code: who writes a record whole need not know the baseline's.
const HEAD: Context = Context(1);

/// The three numbers of one field: the codes of the first, and of those after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    first: usize,
    second: usize,
    third: usize,
}

/// Position residuals, by whether the baseline's record rests.
pub(super) const POSITION: Field = Field {
    first: 2,
    second: 4,
    third: 12,
};
/// Rotation differences, by how wide the position's residuals were.
pub(super) const ROTATION: Field = Field {
    first: 20,
    second: 28,
    third: 36,
};
/// Differences of velocity and angular velocity, by how wide the field before them was.
pub(super) const RATE: Field = Field {
    first: 44,
    second: 52,
    third: 60,
};

/// How wide the widest number of a field was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Width(u32);

impl Width {
    /// Of eight groups, the one of this width.
    #[inline]
    pub(super) fn group(self) -> usize {
        const GROUPS: [u8; 16] = [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 7, 7, 7];
        let at = usize::try_from(self.0.min(15)).unwrap_or(15);
        usize::from(GROUPS.get(at).copied().unwrap_or(7))
    }

    /// The width of a number.
    #[inline]
    pub(super) fn of(value: u32) -> Width {
        Width(32 - value.leading_zeros())
    }
}

/// A set of codes, ready for writing and reading.
#[derive(Clone)]
pub(super) struct Codebook {
    lengths: Arc<Lengths>,
    /// For each context and symbol: the code's bits, and their count above bit 8.
    codes: Box<[[u16; 36]; CONTEXTS]>,
    /// For each context and next bits: the symbol, and the bits it takes above bit 8.
    symbols: Box<[[u16; STRINGS]; CONTEXTS]>,
    /// Most bits of a gap of at most this width.
    gaps_most: [u32; 16],
}

impl Codebook {
    /// The codes of a schema's coding; `None` where it is plain.
    pub(super) fn of(coding: &Coding) -> Option<Arc<Codebook>> {
        static SET: OnceLock<Arc<Codebook>> = OnceLock::new();
        match coding {
            Coding::Plain => None,
            Coding::Standard => {
                let make = || {
                    let lengths = Lengths::new(STANDARD);
                    debug_assert!(lengths.is_ok(), "{lengths:?}");
                    Arc::new(Codebook::new(Arc::new(
                        lengths.unwrap_or_else(|_| Lengths::flat()),
                    )))
                };
                Some(Arc::clone(SET.get_or_init(make)))
            }
            Coding::Own(lengths) => Some(Arc::new(Codebook::new(Arc::clone(lengths)))),
        }
    }

    #[allow(clippy::indexing_slicing, clippy::cast_possible_truncation)] // Tables of checked lengths, once a schema.
    fn new(lengths: Arc<Lengths>) -> Codebook {
        let mut codes = Box::new([[0; 36]; CONTEXTS]);
        let mut symbols = Box::new([[0; STRINGS]; CONTEXTS]);
        for (context, lengths) in lengths.codes().enumerate() {
            let mut next = 0u32;
            for length in 1..=LENGTH_MAX {
                next <<= 1;
                for (symbol, _) in lengths.iter().enumerate().filter(|(_, of)| **of == length) {
                    let bits = u32::from(length);
                    let code = next.reverse_bits() >> (32 - bits);
                    codes[context][symbol] = code as u16 | u16::from(length) << 8;
                    for above in 0..STRINGS >> bits {
                        symbols[context][code as usize | above << bits] =
                            symbol as u16 | u16::from(length) << 8;
                    }
                    next += 1;
                }
            }
        }
        let mut book = Codebook {
            lengths,
            codes,
            symbols,
            gaps_most: [0; 16],
        };
        let mut most = 0;
        for width in 0..16 {
            most = most.max(book.number_bits(GAP, ((1u64 << width) - 1) as u32));
            book.gaps_most[width] = most;
        }
        book
    }

    /// Most bits of a gap of at most `distance`, which is below 2^15.
    #[inline]
    pub(super) fn gap_bits_most(&self, distance: u32) -> u32 {
        let Width(width) = Width::of(distance);
        self.gaps_most
            .get(width as usize)
            .copied()
            .unwrap_or(GAP_BITS_MAX)
    }

    /// Bits of a symbol.
    #[inline]
    #[allow(clippy::indexing_slicing)]
    fn length(&self, context: Context, symbol: u32) -> u32 {
        u32::from(self.codes[context.0][symbol as usize] >> 8)
    }

    /// The symbol that `ahead` begins with, and its bits.
    #[inline]
    #[allow(clippy::indexing_slicing)]
    fn find(&self, context: usize, ahead: u64) -> (u32, u32) {
        let found = self.symbols[context][(ahead & 0xFF) as usize];
        (u32::from(found & 0xFF), u32::from(found >> 8))
    }

    /// The number that `ahead` begins with, its bits and its width, unless its symbol is [`WIDE`].
    #[inline]
    fn find_number(&self, context: usize, ahead: u64) -> (u32, u32, u32) {
        let (width, length) = self.find(context, ahead);
        let below = width.saturating_sub(1);
        let raw = (ahead >> length & ((1 << below) - 1)) as u32;
        (raw | u32::from(width > 0) << below, length + below, width)
    }

    /// Reads the head of an entry.
    #[inline]
    pub(super) fn take_head(&self, reader: &mut BitReader<'_>) -> Result<u32, ReadError> {
        let (head, length) = self.find(HEAD.0, reader.peek());
        reader.skip(length)?;
        Ok(head)
    }

    /// Bits that [`put_number`](Codes::put_number) writes.
    #[inline]
    pub(super) fn number_bits(&self, context: Context, value: u32) -> u32 {
        let Width(width) = Width::of(value);
        let wide = if width < WIDE { 0 } else { WIDE_BITS };
        self.length(context, width.min(WIDE)) + wide + width.saturating_sub(1)
    }

    /// Reads a number.
    ///
    /// # Errors
    /// [`ReadError::Short`]; [`ReadError::OutOfRange`] where it has more than 32 bits.
    #[inline]
    pub(super) fn take_number(&self, context: Context, reader: &mut BitReader<'_>) -> Result<u32, ReadError> {
        let (value, count, width) = self.find_number(context.0, reader.peek());
        if width < WIDE {
            reader.skip(count)?;
            return Ok(value);
        }
        reader.skip(count - (WIDE - 1))?;
        let width = WIDE + reader.take(WIDE_BITS)?;
        match width {
            0..=32 => Ok(reader.take(width - 1)? | 1 << (width - 1)),
            _ => Err(ReadError::OutOfRange),
        }
    }

    /// Reads what [`put_triple`](Codes::put_triple) writes.
    #[inline]
    pub(super) fn take_triple(
        &self,
        field: Field,
        group: usize,
        reader: &mut BitReader<'_>,
    ) -> Result<([u32; 3], Width), ReadError> {
        let ahead = reader.peek();
        let (a, first, wide) = self.find_number(field.first + group, ahead);
        let (b, second, wider) = self.find_number(field.second + Width::of(a).group(), ahead >> first);
        let context = field.third + Width::of(a | b).group();
        let (c, third, widest) = self.find_number(context, ahead >> (first + second));
        let count = first + second + third;
        // Where bits are missing these are not the numbers, and `skip` says so.
        if wide.max(wider).max(widest) < WIDE && count <= BitReader::AHEAD {
            reader.skip(count)?;
            return Ok(([a, b, c], Width::of(a | b | c)));
        }
        let a = self.take_number(Context(field.first + group), reader)?;
        let b = self.take_number(Context(field.second + Width::of(a).group()), reader)?;
        let c = self.take_number(Context(field.third + Width::of(a | b).group()), reader)?;
        Ok(([a, b, c], Width::of(a | b | c)))
    }
}

/// What takes the symbols of entries: a codebook, which writes them, or who counts them.
pub(super) trait Codes {
    /// Takes a symbol, and `count` raw bits behind it, 0 to 24.
    fn put(&self, context: Context, symbol: u32, raw: u32, count: u32, writer: &mut BitWriter<'_>);

    /// Writes the head of an entry.
    #[inline]
    fn put_head(&self, head: u32, writer: &mut BitWriter<'_>) {
        self.put(HEAD, head, 0, 0, writer);
    }

    /// Writes a number.
    #[inline]
    fn put_number(&self, context: Context, value: u32, writer: &mut BitWriter<'_>) {
        let Width(width) = Width::of(value);
        let below = width.saturating_sub(1);
        // The top bit is known by the width.
        let raw = if width == 0 { 0 } else { value ^ 1 << below };
        if width < WIDE {
            self.put(context, width, raw, below, writer);
        } else {
            self.put(context, WIDE, width - WIDE, WIDE_BITS, writer);
            writer.put(raw, below);
        }
    }

    /// Writes the three numbers of a field, the first by `group`; how wide the widest is.
    #[inline]
    fn put_triple(&self, field: Field, group: usize, values: [u32; 3], writer: &mut BitWriter<'_>) -> Width {
        let [a, b, c] = values;
        self.put_number(Context(field.first + group), a, writer);
        self.put_number(Context(field.second + Width::of(a).group()), b, writer);
        self.put_number(Context(field.third + Width::of(a | b).group()), c, writer);
        Width::of(a | b | c)
    }
}

impl Codebook {
    /// A number of less than [`WIDE`] bits: its bits, and their count.
    #[inline]
    #[allow(clippy::indexing_slicing)]
    fn narrow(&self, context: usize, value: u32) -> (u64, u32) {
        let Width(width) = Width::of(value);
        let code = self.codes[context][width as usize];
        let (bits, length) = (u64::from(code & 0xFF), u32::from(code >> 8));
        // The top bit is known by the width; a number of no bits has none.
        let below = width.saturating_sub(1);
        let raw = value & !(u32::from(width > 0) << below);
        (bits | u64::from(raw) << length, length + below)
    }
}

impl Codes for Codebook {
    /// As the trait's own, with one store where the three are narrow, as they mostly are.
    #[inline]
    fn put_triple(&self, field: Field, group: usize, values: [u32; 3], writer: &mut BitWriter<'_>) -> Width {
        let [a, b, c] = values;
        let (second, third, all) = (Width::of(a), Width::of(a | b), Width::of(a | b | c));
        let contexts = [
            field.first + group,
            field.second + second.group(),
            field.third + third.group(),
        ];
        if all.0 <= NARROW {
            let [first, second, third] = contexts;
            let (mut bits, mut count) = self.narrow(first, a);
            for (context, value) in [(second, b), (third, c)] {
                let (more, length) = self.narrow(context, value);
                bits |= more << count;
                count += length;
            }
            writer.put_long(bits, count);
        } else {
            for (context, value) in contexts.into_iter().zip(values) {
                self.put_number(Context(context), value, writer);
            }
        }
        all
    }

    #[inline]
    #[allow(clippy::indexing_slicing)] // Contexts and symbols are of this module.
    fn put(&self, context: Context, symbol: u32, raw: u32, count: u32, writer: &mut BitWriter<'_>) {
        let code = self.codes[context.0][symbol as usize];
        let (bits, length) = (u32::from(code & 0xFF), u32::from(code >> 8));
        writer.put(bits | raw << length, length + count);
    }
}

/// Equal when their lengths are.
impl PartialEq for Codebook {
    fn eq(&self, other: &Codebook) -> bool {
        self.lengths == other.lengths
    }
}

impl Eq for Codebook {}

impl std::fmt::Debug for Codebook {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Codebook({LENGTHS} lengths)")
    }
}
