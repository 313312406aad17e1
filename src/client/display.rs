//! What is known now: of each slot the newest record, and since when it is gone (SPEC TAB6, CTL1).
//!
//! The display is no baseline. It takes every part that decoded, stored or not, and orders them slot by slot:
//! an entry applies only when its snapshot is after the slot's `as_of`, so a late part never overwrites newer
//! state and revives nothing. It outlives session epochs; a new stream epoch clears it (SPEC ID1).
//!
//! Its records are those of the pool that the tables share: a spot holds its record's place.
//!
//! Memory: 40 x S bytes, S the highest slot seen + 1, at most [`SLOTS_MAX`](crate::limits::SLOTS_MAX); 40 x G, G the
//! highest slot that lost a member + 1; the list of changes holds at most one receive's.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod shown;
mod view;

pub use shown::{Absence, DisplayPlace, Fate, Gone, Known, Shown, ShownKind};
pub use view::DisplayView;

use super::draft::{DraftChange, DraftEntry};
use super::store::Place;
use super::table::{ClientTable, RecordPool};
use crate::sequence::Tick;
use crate::state::entity::{Departure, Entity};
use crate::state::slots::{Slot, SlotSet};

/// What is known of a slot, its record in the pool.
#[derive(Clone, Copy, Debug, Default)]
enum Spot {
    #[default]
    Never,
    Member(Member),
    /// Its tombstone is in `gone`.
    Gone,
}

/// A member, its record in the pool.
#[derive(Clone, Copy, Debug)]
struct Member {
    at: Place,
    /// The record's head and entity, so that one of the same life is known without a look at either.
    head: Place,
    entity: Entity,
    as_of: Tick,
    as_of_us: u64,
    awake: Option<Tick>,
}

const _: () = assert!(size_of::<Spot>() == 40);

/// That a slot's member is gone. `None`: somebody went who was never shown and is in no table.
#[derive(Clone, Copy, Debug)]
struct Tombstone {
    entity: Option<Entity>,
    absence: Absence,
    as_of: Tick,
    as_of_us: u64,
}

const _: () = assert!(size_of::<Option<Tombstone>>() == 40);

impl Tombstone {
    /// As a game sees it: nothing where nobody was.
    fn gone(self) -> Option<Gone> {
        let Tombstone {
            entity,
            absence,
            as_of,
            as_of_us,
        } = self;
        entity.map(|entity| Gone {
            entity,
            absence,
            as_of,
            as_of_us,
        })
    }
}

impl Member {
    /// The newest snapshot that said the slot has this member.
    fn member_at(&self) -> Tick {
        self.awake
            .filter(|awake| awake.is_after(self.as_of))
            .unwrap_or(self.as_of)
    }
}

/// How a removal is told.
#[derive(Clone, Copy, Debug)]
struct Told {
    absence: Absence,
    /// Whom the base has there.
    entity: Option<Entity>,
    /// The base.
    since: Option<Tick>,
}

impl Told {
    const UNHEARD: Told = Told {
        absence: Absence::Unheard,
        entity: None,
        since: None,
    };

    /// True when this member's end is told, and not that of a tenant that came after it: the base has the member, or it
    /// has nobody and the member was there after it, since no slot changes hands within the age of a base.
    fn is_about(&self, member: &Member) -> bool {
        match self.entity {
            Some(entity) => entity == member.entity,
            None => self.since.is_some_and(|base| member.member_at().is_after(base)),
        }
    }
}

/// The newest known state of every slot.
#[derive(Debug, Default)]
pub(super) struct Display {
    spots: Vec<Spot>,
    /// By slot the last tombstone; of meaning where the spot says so.
    gone: Vec<Option<Tombstone>>,
    live: usize,
    /// Slots that have a member.
    present: SlotSet,
    /// Slots whose member is gone but not destroyed: a base that is said again may still have it.
    departed: SlotSet,
    /// Slots whose member entered since the last complete view: by a snapshot that was never held, it may be, and it
    /// left before the next that was, and then no delta says so.
    entered: SlotSet,
    changes: Vec<Shown>,
    scratch: Vec<Slot>,
}

/// When a part's entries were true: its snapshot and that one's frame time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) id: Tick,
    pub(super) server_us: u64,
}

impl Display {
    fn spot(&self, slot: Slot) -> Spot {
        self.spots.get(usize::from(slot)).copied().unwrap_or_default()
    }

    fn member(&self, slot: Slot) -> Option<Member> {
        match self.spot(slot) {
            Spot::Member(member) => Some(member),
            _ => None,
        }
    }

    fn tombstone(&self, slot: Slot) -> Option<Tombstone> {
        self.gone.get(usize::from(slot)).copied().flatten()
    }

    fn members(&self) -> impl Iterator<Item = (Slot, &Member)> + '_ {
        self.present
            .iter()
            .filter_map(|slot| match self.spots.get(usize::from(slot)) {
                Some(Spot::Member(member)) => Some((slot, member)),
                _ => None,
            })
    }

    /// What the last receive changed, in order; a slot may be named twice.
    pub(super) fn changes(&self) -> &[Shown] {
        &self.changes
    }

    pub(super) fn begin_receive(&mut self) {
        self.changes.clear();
    }

    /// A new stream: nothing of the old one is shown or compared with (SPEC PLY7, FAULTS 74).
    pub(super) fn clear(&mut self, pool: &mut RecordPool) {
        for (_, member) in self.members() {
            pool.drop_holder(member.at);
        }
        self.spots.clear();
        self.gone.clear();
        self.present.clear();
        self.departed.clear();
        self.entered.clear();
        self.changes.clear();
        self.live = 0;
    }

    /// Applies a part's entries; `base` is the part's base, its snapshot and table.
    pub(super) fn apply(
        &mut self,
        moment: Moment,
        entries: &[DraftEntry],
        base: Option<(Tick, &ClientTable)>,
        pool: &mut RecordPool,
    ) {
        for DraftEntry { slot, change } in entries {
            let in_base = base.and_then(|(_, table)| table.place(*slot));
            match change {
                DraftChange::Update(place) | DraftChange::Complete(place) => {
                    self.put(moment, *slot, *place, None, pool);
                }
                DraftChange::Awake => {
                    if let Some(place) = in_base {
                        self.wake(moment, *slot, place, pool);
                    }
                }
                DraftChange::Removed {
                    departure,
                    at_us,
                    reason,
                } => {
                    let absence = match departure {
                        Departure::Destroyed => Absence::Destroyed {
                            at_us: *at_us,
                            reason: *reason,
                        },
                        Departure::LeftView => Absence::LeftView,
                        Departure::Hidden => Absence::Hidden,
                    };
                    let told = Told {
                        absence,
                        entity: in_base
                            .and_then(|place| pool.at(place))
                            .map(|record| record.head.entity),
                        since: base.map(|(as_of, _)| as_of),
                    };
                    self.remove(moment, *slot, told, pool);
                }
            }
        }
    }

    fn put(&mut self, moment: Moment, slot: Slot, at: Place, awake: Option<Tick>, pool: &mut RecordPool) {
        let head = pool.head_place(at);
        let known = self.member(slot).filter(|member| member.head == head);
        let entity = match known {
            Some(member) => Some(member.entity),
            None => pool.at(at).map(|record| record.head.entity),
        };
        let Some(entity) = entity else { return };
        let index = usize::from(slot);
        if self.spots.len() <= index {
            self.spots.resize(index + 1, Spot::Never);
        }
        let mut kept_awake = awake;
        let kind = match self.spot(slot) {
            Spot::Member(old) => {
                let before = old.entity;
                let newest = if before == entity {
                    old.as_of
                } else {
                    old.member_at()
                };
                if !moment.id.is_after(newest) || is_older_life(entity, before) {
                    return;
                }
                pool.drop_holder(old.at);
                if before == entity {
                    kept_awake = old.awake.filter(|awake| awake.is_after(moment.id)).or(awake);
                    ShownKind::Updated
                } else {
                    self.changes.push(Shown {
                        slot,
                        kind: ShownKind::Removed(Absence::Unheard),
                        entity: before,
                    });
                    ShownKind::Entered
                }
            }
            Spot::Gone => {
                let revives = self.tombstone(slot).is_none_or(|gone| {
                    let over =
                        matches!(gone.absence, Absence::Destroyed { .. }) && gone.entity == Some(entity);
                    let older = gone.entity.is_some_and(|before| is_older_life(entity, before));
                    moment.id.is_after(gone.as_of) && !over && !older
                });
                if !revives {
                    return;
                }
                self.live += 1;
                self.departed.remove(slot);
                ShownKind::Entered
            }
            Spot::Never => {
                self.live += 1;
                ShownKind::Entered
            }
        };
        pool.hold(at);
        if let Some(spot) = self.spots.get_mut(index) {
            *spot = Spot::Member(Member {
                at,
                head,
                entity,
                as_of: moment.id,
                as_of_us: moment.server_us,
                awake: kept_awake,
            });
        }
        if kind == ShownKind::Entered {
            self.present.insert(slot);
            self.entered.insert(slot);
        }
        self.changes.push(Shown { slot, kind, entity });
    }

    fn wake(&mut self, moment: Moment, slot: Slot, base: Place, pool: &mut RecordPool) {
        let Some(mut member) = self.member(slot) else {
            self.put(moment, slot, base, Some(moment.id), pool);
            return;
        };
        if moment.id.is_after(member.member_at())
            && let Some(spot) = self.spots.get_mut(usize::from(slot))
        {
            member.awake = Some(moment.id);
            *spot = Spot::Member(member);
            self.changes.push(Shown {
                slot,
                kind: ShownKind::Awake,
                entity: member.entity,
            });
        }
    }

    /// A removal. What the base lacks came by a snapshot that never became a baseline, if at all. Whoever is meant and
    /// whatever is known of the slot: what is older stays out from now on.
    fn remove(&mut self, moment: Moment, slot: Slot, told: Told, pool: &mut RecordPool) {
        let Told {
            mut absence, entity, ..
        } = told;
        let mut gone = Tombstone {
            entity,
            absence,
            as_of: moment.id,
            as_of_us: moment.server_us,
        };
        match self.spot(slot) {
            Spot::Member(member) => {
                if !moment.id.is_after(member.member_at()) {
                    return;
                }
                gone.entity = Some(member.entity);
                if !told.is_about(&member) {
                    absence = Absence::Unheard;
                    gone.absence = absence;
                }
                self.live -= 1;
                pool.drop_holder(member.at);
                self.changes.push(Shown {
                    slot,
                    kind: ShownKind::Removed(absence),
                    entity: member.entity,
                });
            }
            Spot::Gone => {
                if let Some(old) = self.tombstone(slot) {
                    if !moment.id.is_after(old.as_of) {
                        return;
                    }
                    gone.entity = old.entity.or(entity);
                    let over = matches!(old.absence, Absence::Destroyed { .. });
                    if over || gone.entity != entity {
                        gone.absence = old.absence;
                    }
                }
            }
            Spot::Never => {}
        }
        if gone.entity.is_none() {
            gone.absence = Absence::Unheard;
        }
        self.bury(slot, gone);
        match absence {
            Absence::Destroyed { .. } => self.departed.remove(slot),
            _ => self.departed.insert(slot),
        }
    }

    fn bury(&mut self, slot: Slot, gone: Tombstone) {
        let index = usize::from(slot);
        if self.spots.len() <= index {
            self.spots.resize(index + 1, Spot::Never);
        }
        if self.gone.len() <= index {
            self.gone.resize(index + 1, None);
        }
        if let (Some(spot), Some(tombstone)) = (self.spots.get_mut(index), self.gone.get_mut(index)) {
            *spot = Spot::Gone;
            *tombstone = Some(gone);
        }
        self.present.remove(slot);
    }

    /// A view is complete in `base`, the table of snapshot `as_of`: members that it lacks and that nothing since
    /// has named are gone. Looks at `all` members, else at those that entered since the last call, which is enough on the
    /// same base: a member that it has, or that was named after it, stays so. Gives the number of those gone.
    pub(super) fn reconcile(
        &mut self,
        moment: Moment,
        as_of: Tick,
        base: Option<&ClientTable>,
        all: bool,
        pool: &mut RecordPool,
    ) -> u64 {
        let mut look = core::mem::take(&mut self.scratch);
        look.clear();
        let (nobody, slots) = (SlotSet::default(), base.map(ClientTable::slots));
        let looked_at = if all { &self.present } else { &self.entered };
        look.extend(looked_at.without(slots.unwrap_or(&nobody)));
        let before = self.live;
        for slot in &look {
            let named = self
                .member(*slot)
                .is_none_or(|member| member.member_at().is_after(as_of));
            if !named {
                self.remove(moment, *slot, Told::UNHEARD, pool);
            }
        }
        self.scratch = look;
        self.entered.clear();
        (before - self.live) as u64
    }

    /// A snapshot that re-asserts its whole base, `as_of`, is here with all its parts: what the base has and the snapshot
    /// does not name is as the base has it (CTL6; an explicit entry alone removes, TAB8). Departed members are there
    /// again; a member not heard of since the base shows the base's very record. Gives how many were put right.
    pub(super) fn reassert(
        &mut self,
        moment: Moment,
        as_of: Tick,
        base: Option<&ClientTable>,
        pool: &mut RecordPool,
    ) -> u64 {
        let Some(base) = base else { return 0 };
        let mut wrong = core::mem::take(&mut self.scratch);
        wrong.clear();
        wrong.extend(base.members().filter_map(|(slot, place)| {
            let differs = match self.spot(slot) {
                Spot::Member(member) => {
                    let other = member.at != place && !member.member_at().is_after(as_of);
                    other && pool.at(member.at) != pool.at(place)
                }
                Spot::Gone => self.departed.contains(slot),
                Spot::Never => true,
            };
            differs.then_some(slot)
        }));
        let mut righted = 0;
        for slot in &wrong {
            let before = self.changes.len();
            if let Some(place) = base.place(*slot) {
                self.put(moment, *slot, place, None, pool);
            }
            righted += u64::from(self.changes.len() > before);
        }
        self.scratch = wrong;
        righted
    }
}

/// True when `entity` is an earlier life of the same id (SPEC ID2).
fn is_older_life(entity: Entity, than: Entity) -> bool {
    entity.id == than.id && entity.generation < than.generation
}

#[cfg(test)]
mod tests;
