//! The bit-pack format of Glenn Fiedler's "Snapshot Compression" (2015), in its last form: relative indices, three flags, a
//! relative position within 5 or 9 bits an axis, relative smallest-three parts within 5 or 8 bits, else the whole value.
//!
//! Written anew from the article's description; encoder only, since only sizes and times are compared. The writer is a good
//! one, the same as the product's.

use ackline::wire::bits::BitWriter;

use super::scene::{CUBES, Cube, Cubes};

/// Deltas that a small field holds, and how many values a large one adds on either side.
const SMALL: i32 = 16;
const LARGE_POSITION: i32 = 256;
const LARGE_ROTATION: i32 = 128;
/// Most changed cubes that are listed by index; beyond, each cube has a bit.
const LISTED_MAX: usize = 256;
const INDEX_BITS: u32 = 10;

/// Writes `now` against `base`; bytes written.
pub fn encode(base: &Cubes, now: &Cubes, out: &mut [u8]) -> usize {
    let mut changed = [0u16; CUBES];
    let mut count = 0;
    for (at, (now, base)) in now.iter().zip(base).enumerate() {
        if now != base {
            changed[count] = at as u16;
            count += 1;
        }
    }
    let changed = &changed[..count];
    let mut writer = BitWriter::new(out);
    let listed = (1..=LISTED_MAX).contains(&count) && index_bits(changed) <= CUBES as u32;
    writer.put_bit(listed);
    if listed {
        writer.put(count as u32 - 1, 8);
        let mut previous = None;
        for at in changed {
            put_index(previous, u32::from(*at), &mut writer);
            previous = Some(u32::from(*at));
            put_cube(&base[usize::from(*at)], &now[usize::from(*at)], &mut writer);
        }
    } else {
        for (base, now) in base.iter().zip(now) {
            writer.put_bit(base != now);
            if base != now {
                put_cube(base, now, &mut writer);
            }
        }
    }
    writer.finish()
}

/// Classes of a distance: ones before it, bits of it, its first value.
const DISTANCES: [(u32, u32, u32); 5] = [(2, 2, 2), (3, 3, 6), (4, 4, 14), (5, 5, 30), (6, 6, 62)];

fn class(distance: u32) -> (u32, u32, u32) {
    let fits = |(_, bits, first): &&(u32, u32, u32)| distance < first + (1 << bits);
    DISTANCES.iter().find(fits).copied().unwrap_or((6, INDEX_BITS, 0))
}

fn index_bits(changed: &[u16]) -> u32 {
    let of = |pair: &[u16]| match u32::from(pair[1] - pair[0]) {
        1 => 1,
        distance => class(distance).0 + class(distance).1,
    };
    8 + INDEX_BITS + changed.windows(2).map(of).sum::<u32>()
}

/// The first index whole; then 1 for a neighbour, else a class of distances in zeros and a one, and the distance in it.
fn put_index(previous: Option<u32>, at: u32, writer: &mut BitWriter<'_>) {
    let Some(previous) = previous else {
        return writer.put(at, INDEX_BITS);
    };
    let distance = at - previous;
    if distance == 1 {
        return writer.put(1, 1);
    }
    let (length, bits, first) = class(distance);
    let is_last = bits == INDEX_BITS;
    writer.put(if is_last { 0 } else { 1 << (length - 1) }, length);
    writer.put(distance - first, bits);
}

fn put_cube(base: &Cube, now: &Cube, writer: &mut BitWriter<'_>) {
    let position = base[4..7] != now[4..7];
    let rotation = base[..4] != now[..4];
    let flags = now[7] as u32 | u32::from(position) << 1 | u32::from(rotation) << 2;
    writer.put(flags, 3);
    let difference = |at: usize| now[at] - base[at];
    if position {
        let deltas = [4, 5, 6].map(difference);
        if !put_relative(deltas, LARGE_POSITION, writer) {
            writer.put((now[4] + (1 << 17)) as u32, 18);
            writer.put((now[5] + (1 << 17)) as u32, 18);
            writer.put(now[6].max(0) as u32, 14);
        }
    }
    if rotation {
        let deltas = [1, 2, 3].map(difference);
        let same = now[0] == base[0];
        if !(same && put_relative(deltas, LARGE_ROTATION, writer)) {
            if !same {
                writer.put_bit(false);
            }
            writer.put(now[0] as u32, 2);
            (1..4).for_each(|part| writer.put(now[part] as u32, 9));
        }
    }
}

/// A bit that says whether the three are near, then for each whether it is small, then each. False, with the bit, when not near.
fn put_relative(deltas: [i32; 3], large: i32, writer: &mut BitWriter<'_>) -> bool {
    let near = (1 - large - SMALL)..(large + SMALL - 1);
    if !deltas.iter().all(|delta| near.contains(delta)) {
        writer.put_bit(false);
        return false;
    }
    let small = deltas.map(|delta| (-SMALL..SMALL).contains(&delta));
    let flags = small
        .iter()
        .enumerate()
        .map(|(at, small)| u32::from(*small) << (at + 1))
        .sum::<u32>();
    writer.put(1 | flags, 4);
    for (delta, small) in deltas.into_iter().zip(small) {
        match (small, delta > 0) {
            (true, _) => writer.put((delta + SMALL) as u32, 5),
            (_, true) => writer.put((delta - (SMALL - 1) + large) as u32, 1 + large.ilog2()),
            (_, false) => writer.put((delta + (SMALL - 1) + large) as u32, 1 + large.ilog2()),
        }
    }
    true
}
