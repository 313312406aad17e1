//! Entries as bit strings, made once a tick by whoever needs them first.
//!
//! An entry's bits depend on (slot, base tick, now) alone. The cache lives for one tick and is emptied when the
//! next frame comes; its memory is kept.

use crate::delta::encode;
use crate::delta::encode::Gaps;
use crate::delta::layout::Layout;
use crate::limits::{ARENA_FRAMES, SLOTS_MAX};
use crate::wire::bits::BitWriter;

use super::plan::{How, Planned, PlannedEntry};

/// A cached bit string.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The bytes it lies in, from their first bit, and eight more, so that they can be copied by words.
    pub bytes: &'a [u8],
    /// Its length.
    pub bits: usize,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    offset: u32,
    bits: u32,
}

/// Bit strings of the current tick.
pub struct SegmentCache {
    layout: Option<Layout>,
    gaps: Gaps,
    bytes: Vec<u8>,
    /// Bytes of the strings made.
    end: usize,
    bases: Vec<(How, Vec<Entry>)>,
    /// What was asked for last, and its place in `bases`.
    last: Option<(How, usize)>,
    /// Place in `bases` of the base of a tick, one more than it, by the tick's low bits.
    by_tick: [u16; ARENA_FRAMES],
    used: usize,
    slots: usize,
    hits: u64,
    misses: u64,
}

/// Bytes an entry may take, with the writer's head-room.
const ROOM: usize = encode::ENTRY_BITS_MAX as usize / 8 + 16;
/// Bytes beyond a string that may be read with it.
const BEYOND: usize = 8;

impl SegmentCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> SegmentCache {
        SegmentCache {
            layout: None,
            gaps: Gaps::default(),
            bytes: Vec::new(),
            end: 0,
            bases: Vec::new(),
            last: None,
            by_tick: [0; ARENA_FRAMES],
            used: 0,
            slots: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// A new stream: its layout.
    pub fn set_layout(&mut self, layout: Layout) {
        self.gaps = Gaps::new(&layout);
        self.layout = Some(layout);
        self.begin_tick(0);
    }

    /// Empties the cache for a frame of `slots` slots.
    pub fn begin_tick(&mut self, slots: usize) {
        (self.end, self.used, self.last) = (0, 0, None);
        self.by_tick = [0; ARENA_FRAMES];
        self.slots = slots.min(SLOTS_MAX);
    }

    /// Look-ups that found and that made a string, since the last call.
    pub fn take_counts(&mut self) -> (u64, u64) {
        (core::mem::take(&mut self.hits), core::mem::take(&mut self.misses))
    }

    fn base(&mut self, how: How) -> usize {
        let place = match how {
            How::DeltaFrom(tick) => Some(tick.0 as usize % ARENA_FRAMES),
            _ => None,
        };
        let noted = place.map(|place| usize::from(self.by_tick[place]));
        let is_it = |index: &usize| self.bases.get(*index).is_some_and(|(known, _)| *known == how);
        if let Some(index) = noted.and_then(|noted| noted.checked_sub(1)).filter(is_it) {
            return index;
        }
        let known = self.bases.iter().take(self.used);
        if let Some(index) = known.map(|(known, _)| known).position(|known| *known == how) {
            return index;
        }
        if let Some(place) = place {
            self.by_tick[place] = u16::try_from(self.used + 1).unwrap_or(0);
        }
        if self.used == self.bases.len() {
            self.bases.push((how, Vec::new()));
        }
        let (known, entries) = &mut self.bases[self.used];
        *known = how;
        entries.clear();
        entries.resize(self.slots, Entry::default());
        self.used += 1;
        self.used - 1
    }

    /// The bits of an entry of `plan`.
    pub fn segment(&mut self, entry: &PlannedEntry, plan: &Planned) -> Segment<'_> {
        let base = match self.last {
            Some((how, base)) if how == entry.how => base,
            _ => {
                let base = self.base(entry.how);
                self.last = Some((entry.how, base));
                base
            }
        };
        let place = usize::from(entry.slot);
        if place >= self.bases[base].1.len() {
            self.bases[base].1.resize(place + 1, Entry::default());
        }
        let known = self.bases[base].1[place];
        let found = if known.bits > 0 {
            self.hits += 1;
            known
        } else {
            self.misses += 1;
            let made = self.make(entry, plan);
            self.bases[base].1[place] = made;
            made
        };
        let start = found.offset as usize;
        let bytes = found.bits.div_ceil(8) as usize;
        Segment {
            bytes: &self.bytes[start..start + bytes + BEYOND],
            bits: found.bits as usize,
        }
    }

    /// The codes of the gaps between entries.
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    fn make(&mut self, entry: &PlannedEntry, plan: &Planned) -> Entry {
        let offset = self.end;
        if self.bytes.len() < offset + ROOM + BEYOND {
            self.bytes.resize(2 * offset + ROOM + BEYOND, 0);
        }
        let mut writer = BitWriter::new(&mut self.bytes[offset..]);
        if let (Some(layout), Some(frame)) = (&self.layout, plan.frame()) {
            let now = frame.record(entry.slot);
            match (entry.how, now) {
                (How::DeltaFrom(_), Some(now)) => {
                    encode::entry(layout, plan.base_record(entry), now, frame.server_us, &mut writer);
                }
                (How::Complete, Some(now)) => encode::complete(layout, now, frame.server_us, &mut writer),
                (How::Awake, _) => encode::awake(layout, &mut writer),
                _ => {
                    let (departure, at_us, reason) = plan.departure(entry);
                    encode::remove(layout, departure, at_us, reason, frame.server_us, &mut writer);
                }
            }
        }
        let bits = writer.bits();
        self.end = offset + writer.finish();
        Entry {
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            bits: u32::try_from(bits).unwrap_or(u32::MAX),
        }
    }
}

impl Default for SegmentCache {
    fn default() -> SegmentCache {
        SegmentCache::new()
    }
}
