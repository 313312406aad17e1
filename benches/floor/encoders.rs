//! Two encoders of the product's own format that share nothing between clients: one scans all entities for what differs
//! from the client's baseline, one takes that from dirty masks. Each writes a whole body for each client.
//!
//! Both keep what a careful hand would: the scan compares 32 bytes a cube in rows of their own, a view is a bit mask.

use std::collections::VecDeque;

use ackline::delta::encode::{self, Gaps};
use ackline::delta::layout::Layout;
use ackline::state::record::Record;
use ackline::wire::bits::BitWriter;

use super::scene::{CUBES, Cube, Cubes};

/// Words of a mask of cubes.
pub const WORDS: usize = CUBES.div_ceil(64);
pub type Mask = [u64; WORDS];

/// Ticks that are kept.
const KEPT: usize = 64;

/// One tick as the encoders keep it.
pub struct Kept {
    cubes: Vec<Cube>,
    records: Vec<Record>,
    dirty: Mask,
    server_us: u64,
}

/// The last ticks, newest first.
#[derive(Default)]
pub struct History {
    ticks: VecDeque<Kept>,
}

impl History {
    /// The next tick: the cubes and their records.
    pub fn push(&mut self, cubes: &Cubes, records: Vec<Record>, server_us: u64) {
        let dirty = self
            .ticks
            .front()
            .map_or([0; WORDS], |before| dirty(&before.cubes, cubes));
        self.ticks.truncate(KEPT - 1);
        self.ticks.push_front(Kept {
            cubes: cubes.clone(),
            records,
            dirty,
            server_us,
        });
    }

    /// Finds what differs from `age` ticks ago by comparing every cube in view; writes it. Bytes written.
    pub fn scan(&self, layout: &Layout, age: usize, view: &Mask, out: &mut [u8]) -> usize {
        let (now, base) = (&self.ticks[0], &self.ticks[age]);
        let (gaps, mut writer) = (Gaps::new(layout), BitWriter::new(out));
        let mut previous = None;
        for (at, (cube, old)) in now.cubes.iter().zip(&base.cubes).enumerate() {
            if view[at / 64] >> (at % 64) & 1 == 1 && cube != old {
                write((layout, &gaps), now, base, at, &mut previous, &mut writer);
            }
        }
        writer.finish()
    }

    /// The same from the dirty masks of the ticks in between.
    pub fn mask(&self, layout: &Layout, age: usize, view: &Mask, out: &mut [u8]) -> usize {
        let (now, base) = (&self.ticks[0], &self.ticks[age]);
        let mut changed = union(self.ticks.iter().take(age).map(|tick| &tick.dirty));
        changed
            .iter_mut()
            .zip(view)
            .for_each(|(changed, view)| *changed &= view);
        let (gaps, mut writer) = (Gaps::new(layout), BitWriter::new(out));
        let mut previous = None;
        for at in slots(&changed) {
            write(
                (layout, &gaps),
                now,
                base,
                usize::from(at),
                &mut previous,
                &mut writer,
            );
        }
        writer.finish()
    }
}

/// What differs between two ticks.
pub fn dirty(before: &Cubes, now: &Cubes) -> Mask {
    let mut dirty = [0; WORDS];
    for (at, (now, old)) in now.iter().zip(before).enumerate() {
        dirty[at / 64] |= u64::from(now != old) << (at % 64);
    }
    dirty
}

/// What is in any of these masks.
pub fn union<'a>(masks: impl IntoIterator<Item = &'a Mask>) -> Mask {
    let mut all = [0; WORDS];
    for mask in masks {
        all.iter_mut().zip(mask).for_each(|(all, word)| *all |= word);
    }
    all
}

/// The slots of a mask, in rising order.
pub fn slots(mask: &Mask) -> impl Iterator<Item = u16> + '_ {
    mask.iter().enumerate().flat_map(|(word, bits)| {
        let mut rest = *bits;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some((word * 64) as u16 + bit as u16)
        })
    })
}

#[inline]
fn write(
    (layout, gaps): (&Layout, &Gaps),
    now: &Kept,
    base: &Kept,
    at: usize,
    previous: &mut Option<u16>,
    writer: &mut BitWriter<'_>,
) {
    // What does not fit a datagram's body any more is left out, as a careful hand would go on in the next one.
    if writer.bits() + (encode::ENTRY_BITS_MAX + encode::GAP_BITS_MAX) as usize > writer.capacity_bits() {
        return;
    }
    let slot = at as u16;
    gaps.put(*previous, slot, writer);
    encode::entry(
        layout,
        Some(&base.records[at]),
        &now.records[at],
        now.server_us,
        writer,
    );
    *previous = Some(slot);
}
