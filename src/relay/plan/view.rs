//! What a snapshot of one view must say: its members merged with what the base has.
//!
//! Whoever is in neither list is not looked at, so the walk costs by the view and not by the world. Each entry carries
//! what its priority is made of.

use std::sync::Arc;

use super::{How, Planned, PlannedEntry};
use crate::relay::arena::Arena;
use crate::relay::changes::Changes;
use crate::relay::interest::{Interest, Left, Member};
use crate::relay::stamp::LONG_AGO;
use crate::relay::table::{Known, Table};
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Departure;
use crate::state::record::Record;
use crate::state::slots::{Slot, SlotSet, slots_of};

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
    /// By entry of the plan, what it is about.
    kinds: Vec<Kind>,
    /// By entry of the plan, once [reasoned](ViewPlan::reason).
    pub reasons: Vec<Reason>,
    /// What the base has, by rising slot.
    known: Vec<(Slot, Known)>,
    /// The session's own entity, where what is sent leaves its record that of an older tick, and that tick.
    own: Option<(Slot, Tick)>,
    /// Who came since the base.
    came: SlotSet,
    /// Who left since the base.
    left: SlotSet,
}

impl ViewPlan {
    /// Somebody enters whom the base lacks.
    #[must_use]
    pub fn enters(&self) -> bool {
        self.kinds.contains(&Kind::Enter)
    }

    /// The session's own entity, where its record stays that of an older tick: its motion goes beside the snapshots.
    #[must_use]
    pub fn own(&self) -> Option<(Slot, Tick)> {
        self.own
    }

    /// Finds what the priority of each entry of `plan` is made of.
    pub fn reason(&mut self, plan: &Planned, interest: &Interest) {
        self.reasons.clear();
        let Some(frame) = plan.frame() else { return };
        for (entry, kind) in plan.entries().iter().zip(&self.kinds) {
            let member = interest.member(entry.slot).filter(|_| *kind != Kind::Leave);
            let age = member.map_or(LONG_AGO, |member| interest.sent_age(member, frame.tick));
            let distance = member.map_or(0, |_| interest.distance(entry.slot, frame));
            self.reasons.push(Reason {
                kind: *kind,
                age,
                distance,
            });
        }
    }
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
        changes: &mut Changes,
    ) -> bool {
        self.begin();
        view.kinds.clear();
        view.known.clear();
        view.own = None;
        let Some(frame) = arena.newest().cloned() else {
            return false;
        };
        self.frame = Some(Arc::clone(&frame));
        self.exhaustive = false;
        let base_frame = match base {
            None => None,
            Some(base) => match arena.frame(base.tick()) {
                Some(frame) if base.is_readable(arena) => Some(frame),
                _ => return false,
            },
        };
        let by_sets = base.zip(base_frame).filter(|_| forced.is_empty());
        let sets = by_sets.and_then(|(base, held)| Some((base.everyone(arena)?, held)));
        if let Some(((everyone, own), held)) = sets {
            let Some(changed) = changes.since(held.tick, arena) else {
                return false;
            };
            let sets = Sets {
                base: held.tick,
                everyone,
                own,
                changed,
            };
            self.remember(held.tick, held);
            Merge::new(self, view, arena, &frame, Some(held.tick), interest).by_sets(&sets);
            #[cfg(debug_assertions)]
            self.is_what_a_walk_finds(view, arena, base, interest);
            return true;
        }
        if let Some(base) = base {
            base.for_each(arena, |slot, known| view.known.push((slot, known)));
        }
        let known = core::mem::take(&mut view.known);
        let mut merge = Merge::new(self, view, arena, &frame, base.map(Table::tick), interest);
        merge.run(&known, forced);
        view.known = known;
        true
    }

    /// The plan by sets is the one that a walk over base and members makes.
    #[cfg(debug_assertions)]
    fn is_what_a_walk_finds(
        &self,
        view: &ViewPlan,
        arena: &Arena,
        base: Option<&Table>,
        interest: &Interest,
    ) {
        let (mut walked, mut beside) = (Planned::default(), ViewPlan::default());
        walked.frame.clone_from(&self.frame);
        let mut known = Vec::new();
        base.into_iter()
            .for_each(|base| base.for_each(arena, |slot, here| known.push((slot, here))));
        let Some(frame) = &self.frame else { return };
        Merge::new(
            &mut walked,
            &mut beside,
            arena,
            frame,
            base.map(Table::tick),
            interest,
        )
        .run(&known, &[]);
        debug_assert_eq!(
            walked.entries, self.entries,
            "the plan of a view at {:?}",
            frame.tick
        );
        debug_assert_eq!((&beside.kinds, beside.own), (&view.kinds, view.own));
        debug_assert_eq!(walked.fallback_records, self.fallback_records);
    }
}

/// What the base of a view has and what changed since, as sets.
struct Sets<'a> {
    base: Tick,
    /// Everybody the base has, with records of its tick.
    everyone: &'a SlotSet,
    /// But for the own entity: the tick of its record.
    own: Option<(Slot, Tick)>,
    /// Who changed since the base.
    changed: &'a SlotSet,
}

struct Merge<'a> {
    plan: &'a mut Planned,
    view: &'a mut ViewPlan,
    arena: &'a Arena,
    frame: &'a Arc<Frame>,
    base: Option<Tick>,
    interest: &'a Interest,
}

impl<'a> Merge<'a> {
    fn new(
        plan: &'a mut Planned,
        view: &'a mut ViewPlan,
        arena: &'a Arena,
        frame: &'a Arc<Frame>,
        base: Option<Tick>,
        interest: &'a Interest,
    ) -> Merge<'a> {
        Merge {
            plan,
            view,
            arena,
            frame,
            base,
            interest,
        }
    }
}

impl Merge<'_> {
    /// By 64 slots at a time: whoever did not change since the base, and neither came nor left, is not looked at.
    fn by_sets(&mut self, sets: &Sets<'_>) {
        let now = self.frame.tick;
        let members = self.interest.slots();
        let (mut came, mut left) = (
            core::mem::take(&mut self.view.came),
            core::mem::take(&mut self.view.left),
        );
        came.clear();
        left.clear();
        came.extend(self.interest.came_since(sets.base, now));
        let gone = self.interest.left().iter();
        left.extend(
            gone.filter(|gone| gone.since.is_after(sets.base, now))
                .map(|gone| gone.slot),
        );
        let own = self.interest.owner_slot();
        let sizes = [members, sets.everyone, &came, &left].map(|set| set.words().len());
        for index in 0..sizes.into_iter().max().unwrap_or(0) {
            let (here, held) = (members.word(index), sets.everyone.word(index));
            let mut changed = sets.changed.word(index);
            if let Some((slot, _)) = sets.own.filter(|(slot, _)| usize::from(*slot) / 64 == index) {
                changed |= 1 << (slot % 64);
            }
            let enter = here & (!held | came.word(index));
            let out = !here & (held | left.word(index));
            let plain = here & held & changed & !enter;
            for slot in slots_of(index, plain | enter | out) {
                let bit = 1u64 << (slot % 64);
                if plain & bit != 0 && own != Some(slot) && sets.own.is_none_or(|(own, _)| own != slot) {
                    self.push(slot, How::DeltaFrom(sets.base), Kind::Update);
                    continue;
                }
                let known = match sets.own {
                    _ if held & bit == 0 => Known::Absent,
                    Some((own, known)) if own == slot => Known::At(known),
                    _ => Known::At(sets.base),
                };
                if let Some(member) = self.interest.member(slot) {
                    self.member(member, known, false);
                } else {
                    let left = self.interest.left();
                    let place = left.binary_search_by_key(&slot, |left| left.slot);
                    self.stranger(slot, known, place.ok().and_then(|place| left.get(place)));
                }
            }
        }
        (self.view.came, self.view.left) = (came, left);
    }

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

    fn push(&mut self, slot: Slot, how: How, kind: Kind) {
        self.plan.entries.push(PlannedEntry { slot, how });
        self.view.kinds.push(kind);
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
        self.push(slot, how, Kind::Leave);
    }

    /// Somebody in view. Who is new since the base goes whole. What
    /// its records are is looked at only for the own entity: the encoder compares the two, once a tick for all sessions.
    fn member(&mut self, member: &Member, known: Known, forced: bool) {
        let (slot, now) = (member.slot, self.frame.tick);
        let again = self.interest.is_new(member, self.base, now);
        let (how, kind) = match known {
            Known::Absent => (How::Complete, Kind::Enter),
            _ if again || forced => (How::Complete, Kind::Update),
            Known::At(tick) if !self.frame.changed_at(slot).is_after(tick) => return,
            Known::At(tick) if self.plan.is_remembered(tick) && self.interest.owner_slot() != Some(slot) => {
                (How::DeltaFrom(tick), Kind::Update)
            }
            Known::At(tick) => match self.arena.frame(tick) {
                Some(held) if self.is_own_motion(member, tick, held) => {
                    self.view.own = Some((slot, tick));
                    return;
                }
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
        self.push(slot, how, kind);
    }

    /// STATE skips its owner: where only the motion differs it goes beside the snapshots (SPEC CTL3, DEC10). What was
    /// sent of it last is in the base, so that the base says what is shown.
    fn is_own_motion(&self, member: &Member, known: Tick, held: &Frame) -> bool {
        let (sent_age, sent_since) = self.interest.own_sent(member, known, self.frame.tick);
        if self.interest.owner_slot() != Some(member.slot)
            || sent_age >= owner_refresh_ticks(self.frame)
            || sent_since
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
