//! Tables that fit recordings: what symbols entries have is counted, and lengths are made of the counts.
//!
//! > [`Census::count`] each record with its baseline's, as they would be sent; then [`Census::lengths`].
//!
//! Lengths come from package-merge (Larmore and Hirschberg, 1990): of all complete codes of at most
//! [`LENGTH_MAX`] bits those that make the counted symbols shortest.

use std::cell::RefCell;

use super::codebook::{self, Codes, Context};
use super::layout::Layout;
use super::tuned;
use crate::state::coding::{CODES, LENGTH_MAX, LENGTHS, Lengths};
use crate::state::record::Record;
use crate::state::slots::Slot;
use crate::wire::bits::BitWriter;

/// How often each symbol of each code was seen.
#[derive(Clone, Debug)]
pub struct Census {
    counts: RefCell<Vec<[u64; 36]>>,
    room: RefCell<Vec<u8>>,
}

impl Default for Census {
    fn default() -> Census {
        let codes = CODES.iter().map(|(_, codes)| codes).sum();
        Census {
            counts: RefCell::new(vec![[0; 36]; codes]),
            room: RefCell::new(vec![0; super::encode::ENTRY_BITS_MAX as usize / 8 + 64]),
        }
    }
}

/// Counts symbols and writes nothing.
struct Counter<'a>(&'a Census);

impl Codes for Counter<'_> {
    fn put(&self, context: Context, symbol: u32, _: u32, _: u32, _: &mut BitWriter<'_>) {
        let mut counts = self.0.counts.borrow_mut();
        let place = counts
            .get_mut(context.0)
            .and_then(|code| code.get_mut(symbol as usize));
        if let Some(count) = place {
            *count += 1;
        }
    }
}

impl Census {
    /// Counts the entry of `slot`, behind that of `previous` in the same body, of a record against its baseline's.
    pub fn count(
        &self,
        layout: &Layout,
        (previous, slot): (Option<Slot>, Slot),
        base: Option<&Record>,
        now: &Record,
        server_us: u64,
    ) {
        let mut room = self.room.borrow_mut();
        let mut writer = BitWriter::new(&mut room);
        let distance =
            u32::from(previous.map_or(slot, |previous| slot.wrapping_sub(previous).wrapping_sub(1)));
        let counter = Counter(self);
        counter.put_number(codebook::GAP, distance, &mut writer);
        tuned::entry(&counter, layout, base, now, server_us, &mut writer);
    }

    /// A census that saw each symbol of each code so often.
    #[cfg(test)]
    pub(super) fn of(mut counts: impl FnMut() -> u64) -> Census {
        let census = Census::default();
        for code in census.counts.borrow_mut().iter_mut() {
            code.iter_mut().for_each(|count| *count = counts());
        }
        census
    }

    /// The lengths that fit best. A symbol that was not seen counts as a sixteenth of one that was seen once.
    #[must_use]
    pub fn lengths(&self) -> Lengths {
        let counts = self.counts.borrow();
        let mut lengths = [0; LENGTHS];
        let mut rest = &mut lengths[..];
        let sizes = CODES
            .iter()
            .flat_map(|(symbols, codes)| std::iter::repeat_n(*symbols, *codes));
        for (symbols, counts) in sizes.zip(counts.iter()) {
            let weights: Vec<u64> = counts.iter().take(symbols).map(|count| count * 16 + 1).collect();
            let (code, after) = rest.split_at_mut(symbols);
            code.copy_from_slice(&package_merge(&weights));
            rest = after;
        }
        match Lengths::new(lengths) {
            Ok(lengths) => lengths,
            Err(error) => unreachable!("package-merge makes complete codes: {error}"),
        }
    }
}

/// Lengths of the best complete code of at most [`LENGTH_MAX`] bits.
fn package_merge(weights: &[u64]) -> Vec<u8> {
    /// A weight, and how often each symbol is in it.
    type Package = (u64, Vec<u8>);
    let mut coins: Vec<Package> = weights
        .iter()
        .enumerate()
        .map(|(symbol, weight)| {
            let mut of = vec![0; weights.len()];
            of[symbol] = 1;
            (*weight, of)
        })
        .collect();
    coins.sort_by_key(|coin| coin.0);
    let mut packages: Vec<Package> = Vec::new();
    for _ in 0..LENGTH_MAX {
        let mut all = coins.clone();
        all.append(&mut packages);
        all.sort_by_key(|package| package.0);
        packages = all
            .chunks_exact(2)
            .map(|pair| {
                let of = pair[0].1.iter().zip(&pair[1].1).map(|(a, b)| a + b).collect();
                (pair[0].0 + pair[1].0, of)
            })
            .collect();
    }
    // The first n - 1 packages of the last round hold each symbol as often as its code is long.
    let mut lengths = vec![0; weights.len()];
    for (_, of) in packages.iter().take(weights.len() - 1) {
        lengths
            .iter_mut()
            .zip(of)
            .for_each(|(length, more)| *length += more);
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(weights: &[u64], lengths: &[u8]) -> u64 {
        weights
            .iter()
            .zip(lengths)
            .map(|(weight, length)| weight * u64::from(*length))
            .sum()
    }

    /// Where no bound is met the code costs what Huffman's does; where it is, every code is complete and in bounds.
    #[test]
    fn package_merge_makes_the_best_codes_there_are() {
        let lengths = package_merge(&[1, 1, 2, 4]);
        assert_eq!(cost(&[1, 1, 2, 4], &lengths), 14);
        assert_eq!(package_merge(&[5; 16]), [4; 16]);
        let powers: Vec<u64> = (0..16).map(|power| 1 << power).collect();
        let lengths = package_merge(&powers);
        let used: u32 = lengths.iter().map(|length| 1 << (LENGTH_MAX - length)).sum();
        assert_eq!(used, 1 << LENGTH_MAX);
        assert!(lengths.iter().all(|length| (1..=LENGTH_MAX).contains(length)));
        assert_eq!(lengths[15], 1, "the most frequent");
        let flat = Census::default().lengths();
        assert_eq!(flat.codes().count(), 68);
    }
}
