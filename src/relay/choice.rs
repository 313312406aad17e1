//! Which entries of a view's plan go into which datagram, when the budget does not hold all.
//!
//! Invariant: a part never overflows, since an entry is counted with the longest gap it may need; what does not fit is
//! passed over for what does, so a large record never starves the small ones behind it.

use crate::limits::{BODY_MAX, PARTS_PER_TICK};
use crate::state::schema::Schema;

use super::plan::{How, Kind, Planned, PlannedEntry, ViewPlan};
use super::priority::{Urgency, rank_of_arrival, rank_of_change, weight};
use super::segments::SegmentCache;

/// Bytes a datagram takes beside its body, at most: what a part's budget is charged before anything is in it.
pub const PART_OVERHEAD: usize = crate::limits::DATAGRAM_MAX - BODY_MAX;
/// The least room worth a datagram, bytes.
const ROOM_MIN: usize = 24;

/// One datagram's share.
#[derive(Debug, Default)]
pub struct Portion {
    entries: Vec<PlannedEntry>,
    bits: usize,
    room: usize,
}

impl Portion {
    /// Its entries, by rising slot.
    #[must_use]
    pub fn entries(&self) -> &[PlannedEntry] {
        &self.entries
    }
}

/// Portions of one snapshot, and memory for the next.
#[derive(Debug, Default)]
pub struct Choice {
    portions: Vec<Portion>,
    used: usize,
    arrivals: Vec<(u32, usize)>,
    changes: Vec<(u32, usize)>,
    /// Bytes that may still be opened.
    bytes: usize,
    left_out: usize,
    arrivals_left_out: usize,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    In,
    Out,
}

impl Choice {
    /// The portions, at least one.
    #[must_use]
    pub fn portions(&self) -> &[Portion] {
        &self.portions[..self.used]
    }

    /// Entries left out.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Those left out of whom the base lacks.
    #[must_use]
    pub fn arrivals_left_out(&self) -> usize {
        self.arrivals_left_out
    }

    /// Bits of the body that the first datagram has room for, where there are `bytes` for all.
    #[must_use]
    pub fn first_room(bytes: usize) -> usize {
        bytes.saturating_sub(PART_OVERHEAD).clamp(ROOM_MIN, BODY_MAX) * 8
    }

    /// Chooses among the entries of `plan`, which do not fit one datagram, for at most `bytes` of them.
    pub fn choose(
        &mut self,
        plan: &Planned,
        view: &ViewPlan,
        segments: &mut SegmentCache,
        schema: &Schema,
        urgency: Urgency,
        bytes: usize,
    ) {
        self.used = 0;
        self.bytes = bytes;
        (self.left_out, self.arrivals_left_out) = (0, 0);
        self.open(ROOM_MIN);
        self.rank(plan, view, schema, urgency);
        for (entry, _) in with_reasons(plan, view).filter(|(_, kind)| *kind == Kind::Leave) {
            self.place(entry, plan, segments);
        }
        self.share(plan, segments);
        for portion in &mut self.portions[..self.used] {
            portion.entries.sort_unstable_by_key(|entry| entry.slot);
        }
    }

    fn rank(&mut self, plan: &Planned, view: &ViewPlan, schema: &Schema, urgency: Urgency) {
        self.arrivals.clear();
        self.changes.clear();
        for (index, reason) in view.reasons.iter().enumerate().take(plan.entries().len()) {
            match reason.kind {
                Kind::Leave => {}
                Kind::Enter => self.arrivals.push((rank_of_arrival(*reason, urgency), index)),
                Kind::Update => {
                    let entry = &plan.entries()[index];
                    let weight = weight(schema, plan.class(entry));
                    let rank = rank_of_change(*reason, urgency, weight, plan.wakes(entry));
                    self.changes.push((rank, index));
                }
            }
        }
        let first = |ranked: &(u32, usize)| (core::cmp::Reverse(ranked.0), ranked.1);
        self.arrivals.sort_unstable_by_key(first);
        self.changes.sort_unstable_by_key(first);
    }

    /// Half and half, by bits taken.
    fn share(&mut self, plan: &Planned, segments: &mut SegmentCache) {
        let arrivals = core::mem::take(&mut self.arrivals);
        let changes = core::mem::take(&mut self.changes);
        let (mut a, mut c) = (arrivals.iter().peekable(), changes.iter().peekable());
        let mut taken = [0usize; 2];
        loop {
            let of_arrivals = match (a.peek(), c.peek()) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(_), Some(_)) => taken[0] <= taken[1],
            };
            let next = if of_arrivals { a.next() } else { c.next() };
            let Some((_, index)) = next else { break };
            let Some(entry) = plan.entries().get(*index) else {
                continue;
            };
            let bits = segments.segment(entry, plan).bits;
            if self.place(*entry, plan, segments) == Fit::In {
                taken[usize::from(!of_arrivals)] += bits;
            } else if plan.wakes(entry) {
                // How it moves has no room; that it moves must have (SPEC ENT9).
                let awake = PlannedEntry {
                    how: How::Awake,
                    ..*entry
                };
                self.place(awake, plan, segments);
            } else if of_arrivals {
                self.arrivals_left_out += 1;
            }
        }
        (self.arrivals, self.changes) = (arrivals, changes);
    }

    /// Puts an entry where there is room, opening another portion if the budget holds one.
    fn place(&mut self, entry: PlannedEntry, plan: &Planned, segments: &mut SegmentCache) -> Fit {
        let bits = segments.gaps().bits_most(entry.slot) as usize + segments.segment(&entry, plan).bits;
        let fits = |portion: &Portion| portion.bits + bits <= portion.room;
        let mut place = self.portions[..self.used].iter().position(fits);
        if place.is_none() && self.open(bits.div_ceil(8).max(ROOM_MIN)) {
            place = Some(self.used - 1);
        }
        let Some(portion) = place.and_then(|place| self.portions.get_mut(place)) else {
            self.left_out += 1;
            return Fit::Out;
        };
        portion.bits += bits;
        portion.entries.push(entry);
        Fit::In
    }

    /// Opens another portion with room for at least `least` bytes; the first is always opened.
    fn open(&mut self, least: usize) -> bool {
        let room = self.bytes.saturating_sub(PART_OVERHEAD).min(BODY_MAX);
        if self.used > 0 && (room < least || self.used >= PARTS_PER_TICK) {
            return false;
        }
        if self.used == self.portions.len() {
            self.portions.push(Portion::default());
        }
        let portion = &mut self.portions[self.used];
        portion.entries.clear();
        (portion.bits, portion.room) = (0, room.max(ROOM_MIN) * 8);
        self.bytes = self.bytes.saturating_sub(PART_OVERHEAD + room);
        self.used += 1;
        true
    }
}

fn with_reasons<'a>(
    plan: &'a Planned,
    view: &'a ViewPlan,
) -> impl Iterator<Item = (PlannedEntry, Kind)> + 'a {
    let kinds = view.reasons.iter().map(|reason| reason.kind);
    plan.entries().iter().copied().zip(kinds)
}
