//! What a snapshot of one view must say: its members merged with what the base has.
//!
//! Whoever is in neither list is not looked at, so the walk costs by the view and not by the world. Each entry carries
//! what its priority is made of.

use std::sync::Arc;

use super::{How, Planned, PlannedEntry};
use crate::relay::arena::Arena;
use crate::relay::interest::{Interest, Left, Member};
use crate::relay::stamp::LONG_AGO;
use crate::relay::table::{Known, Table};
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Departure;
use crate::state::record::Record;
use crate::state::slots::Slot;

/// Why an entry is there, and what makes it urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What it is about.
    pub kind: Kind,
    /// Ticks since a record of the entity was sent last.
    pub age: u16,
    /// Its distance as a share of the range.
    pub distance: u16,
}

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A membership ends.
    Leave,
    /// A member that the base lacks.
    Enter,
    /// A member that changed.
    Update,
}

/// What the plan of one view says beside its entries.
#[derive(Debug, Default)]
pub struct ViewPlan {
    /// By entry of the plan.
    pub reasons: Vec<Reason>,
    /// What the base has, by rising slot.
    known: Vec<(Slot, Known)>,
}

/// How old the sent record of a session's own entity may grow while its motion goes beside the snapshots, ticks: far
/// less than the frames of an arena, so that its record never goes whole for its age.
fn owner_refresh_ticks(frame: &Frame) -> u16 {
    let ticks = 2_000_000 / frame.schema.tick_period_us.max(1);
    u16::try_from(ticks).unwrap_or(LONG_AGO).clamp(1, 128)
}

impl Planned {
    /// Plans the snapshot of the arena's newest frame on `base` for one session's view, in slot order. `forced`: slots
    /// of members that go complete although known (SPEC CTL2). False when there is no frame or the base has left the
    /// arena.
    pub fn plan_view(
        &mut self,
        view: &mut ViewPlan,
        arena: &Arena,
        base: Option<&Table>,
        interest: &Interest,
        forced: &[Slot],
    ) -> bool {
        self.begin();
        view.reasons.clear();
        view.known.clear();
        let Some(frame) = arena.newest().cloned() else {
            return false;
        };
        self.frame = Some(Arc::clone(&frame));
        self.exhaustive = false;
        if let Some(base) = base {
            if arena.frame(base.tick()).is_none() || !base.is_readable(arena) {
                return false;
            }
            base.for_each(arena, |slot, known| view.known.push((slot, known)));
        }
        let known = core::mem::take(&mut view.known);
        let mut merge = Merge {
            plan: self,
            view,
            arena,
            frame: &frame,
            base: base.map(Table::tick),
            interest,
        };
        merge.run(&known, forced);
        view.known = known;
        true
    }
}

struct Merge<'a> {
    plan: &'a mut Planned,
    view: &'a mut ViewPlan,
    arena: &'a Arena,
    frame: &'a Arc<Frame>,
    base: Option<Tick>,
    interest: &'a Interest,
}

impl Merge<'_> {
    fn run(&mut self, mut known: &[(Slot, Known)], forced: &[Slot]) {
        let mut left = self.interest.left();
        for member in self.interest.members() {
            let slot = member.slot;
            let strangers = known.iter().take_while(|(at, _)| *at < slot).count();
            let (before, rest) = known.split_at(strangers);
            let gone = left.iter().take_while(|left| left.slot < slot).count();
            let (gone, later) = left.split_at(gone);
            self.strangers(before, gone);
            (known, left) = (rest, later);
            let here = match known {
                [(at, here), rest @ ..] if *at == slot => {
                    known = rest;
                    *here
                }
                _ => Known::Absent,
            };
            self.member(member, here, !forced.is_empty() && forced.contains(&slot));
        }
        self.strangers(known, left);
    }

    /// Who is in the base or left, and is no member; both by rising slot.
    fn strangers(&mut self, mut known: &[(Slot, Known)], mut left: &[Left]) {
        loop {
            match (known, left) {
                ([], []) => return,
                ([(slot, here), rest @ ..], [gone, later @ ..]) if *slot == gone.slot => {
                    self.stranger(*slot, *here, Some(gone));
                    (known, left) = (rest, later);
                }
                ([(slot, here), rest @ ..], [gone, ..]) if *slot < gone.slot => {
                    self.stranger(*slot, *here, None);
                    known = rest;
                }
                ([(slot, here), rest @ ..], []) => {
                    self.stranger(*slot, *here, None);
                    known = rest;
                }
                (_, [gone, later @ ..]) => {
                    self.stranger(gone.slot, Known::Absent, Some(gone));
                    left = later;
                }
            }
        }
    }

    fn push(&mut self, slot: Slot, how: How, reason: Reason) {
        self.plan.entries.push(PlannedEntry { slot, how });
        self.view.reasons.push(reason);
    }

    /// Somebody out of view: gone from the base, or shown by a snapshot that never became one (SPEC CTL1).
    fn stranger(&mut self, slot: Slot, known: Known, left: Option<&Left>) {
        let now = self.frame.tick;
        let shown = match (known, left, self.base) {
            (Known::Absent, Some(left), Some(base)) => left.since.is_after(base, now),
            (Known::Absent, ..) => false,
            _ => true,
        };
        if !shown {
            return;
        }
        let hidden = !self.interest.view().permits(self.frame.tags(slot));
        let why = match left {
            Some(left) => left.why,
            None if hidden => Departure::Hidden,
            None => Departure::LeftView,
        };
        let how = match why {
            Departure::Destroyed => How::Removed,
            Departure::LeftView => How::LeftView,
            Departure::Hidden => How::Hidden,
        };
        let reason = Reason {
            kind: Kind::Leave,
            age: LONG_AGO,
            distance: 0,
        };
        self.push(slot, how, reason);
    }

    /// Somebody in view. Who is new since the base goes whole. What
    /// its records are is looked at only for the own entity: the encoder compares the two, once a tick for all sessions.
    fn member(&mut self, member: &Member, known: Known, forced: bool) {
        let (slot, now) = (member.slot, self.frame.tick);
        let again = member.is_new(self.base, now);
        let (how, kind) = match known {
            Known::Absent => (How::Complete, Kind::Enter),
            _ if again || forced => (How::Complete, Kind::Update),
            Known::At(tick) if !self.frame.changed_at(slot).is_after(tick) => return,
            Known::At(tick) if self.plan.is_remembered(tick) && self.interest.owner_slot() != Some(slot) => {
                (How::DeltaFrom(tick), Kind::Update)
            }
            Known::At(tick) => match self.arena.frame(tick) {
                Some(held) if self.is_own_motion(member, tick, held) => return,
                Some(held) => {
                    self.plan.remember(tick, held);
                    (How::DeltaFrom(tick), Kind::Update)
                }
                None => {
                    self.plan.fallback_records += 1;
                    (How::Complete, Kind::Update)
                }
            },
            Known::Old => {
                self.plan.fallback_records += 1;
                (How::Complete, Kind::Update)
            }
        };
        let reason = Reason {
            kind,
            age: member.sent.age(now),
            distance: member.distance,
        };
        self.push(slot, how, reason);
    }

    /// STATE skips its owner: where only the motion differs it goes beside the snapshots (SPEC CTL3, DEC10). What was
    /// sent of it last is in the base, so that the base says what is shown.
    fn is_own_motion(&self, member: &Member, known: Tick, held: &Frame) -> bool {
        let now = self.frame.tick;
        if self.interest.owner_slot() != Some(member.slot)
            || member.sent.age(now) >= owner_refresh_ticks(self.frame)
            || member.sent.is_after(known, now)
        {
            return false;
        }
        let (Some(base), Some(record)) = (held.record(member.slot), self.frame.record(member.slot)) else {
            return false;
        };
        let still = Record {
            motion: base.motion,
            ..*record
        };
        still == *base && record.motion.is_some() == base.motion.is_some() && record != base
    }
}

impl Planned {
    /// The class of an entry's entity; 0 for who is gone.
    #[must_use]
    pub fn class(&self, entry: &PlannedEntry) -> u8 {
        let now = self.frame.as_ref().and_then(|frame| frame.record(entry.slot));
        now.map_or(0, |record| record.class)
    }

    /// True for the entry of a member that rests in its base and moves now (SPEC ENT9).
    #[must_use]
    pub fn wakes(&self, entry: &PlannedEntry) -> bool {
        let rests = |record: &Record| record.motion.is_some_and(|motion| motion.at_rest);
        let now = self.frame.as_ref().and_then(|frame| frame.record(entry.slot));
        match (self.base_record(entry), now) {
            (Some(base), Some(now)) => base.entity == now.entity && rests(base) && !rests(now),
            _ => false,
        }
    }
}
