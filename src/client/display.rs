//! What is known now: of each slot the newest record, and since when it is gone (SPEC TAB6, CTL1).
//!
//! The display is no baseline. It takes every part that decoded, stored or not, and orders them slot by slot:
//! an entry applies only when its snapshot is after the slot's `as_of`, so a late part never overwrites newer
//! state and revives nothing. It outlives session epochs; a new stream epoch clears it (SPEC ID1).
//!
//! Memory: one place a slot, S x size of a place, S the highest slot seen + 1, at most
//! [`SLOTS_MAX`](crate::limits::SLOTS_MAX); the list of changes holds at most one receive's.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::delta::decode::{Change, Entry};
use crate::sequence::Tick;
use crate::state::entity::{Departure, Entity};
use crate::state::record::Record;
use crate::state::slots::{Slot, SlotSet};

/// A slot that has a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The newest record.
    pub record: Record,
    /// The snapshot it is from.
    pub as_of: Tick,
    /// That snapshot's frame time, server microseconds.
    pub as_of_us: u64,
    /// The newest snapshot that said it is no longer at rest where it was (SPEC ENT9). Only one after `as_of`
    /// tells more than the record does.
    pub awake: Option<Tick>,
}

impl Known {
    /// True when the entity is known to have left the rest its record speaks of.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.awake.is_some_and(|awake| awake.is_after(self.as_of))
    }

    /// The newest snapshot that said the slot has this member.
    fn member_at(&self) -> Tick {
        self.awake
            .filter(|awake| awake.is_after(self.as_of))
            .unwrap_or(self.as_of)
    }
}

/// Why a slot has no member any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Destroyed at the origin: this life is over (SPEC ID2).
    Destroyed {
        /// When, server microseconds.
        at_us: u64,
        /// The game's reason code.
        reason: u8,
    },
    /// Left this client's view.
    LeftView,
    /// Hidden from this client by permission.
    Hidden,
    /// Found gone: a complete view does not have it, or another entity has its slot. It ended while nobody
    /// could say so.
    Unheard,
}

/// A slot whose member is gone: a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Who was there.
    pub entity: Entity,
    /// Why it is gone.
    pub absence: Absence,
    /// The snapshot that said so.
    pub as_of: Tick,
    /// That snapshot's frame time, server microseconds.
    pub as_of_us: u64,
}

/// What is known of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DisplayPlace {
    /// Nothing was ever heard of it in this stream.
    #[default]
    Never,
    /// It has a member.
    Known(Known),
    /// Its member is gone.
    Gone(Gone),
}

/// What a receive did to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownKind {
    /// A member was not there before.
    Entered,
    /// A member's record is newer.
    Updated,
    /// A member is no longer at rest; its record is the old one.
    Awake,
    /// A member is gone.
    Removed(Absence),
}

/// A change of the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where.
    pub slot: Slot,
    /// What happened.
    pub kind: ShownKind,
    /// Who is meant: the member now, or the one that went.
    pub entity: Entity,
}

/// What the display knows of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has never been here; it may come.
    Unknown,
    /// It is a member.
    Present,
    /// It is gone, or a later life has its id.
    Past,
}

/// The newest known state of every slot.
#[derive(Debug, Default)]
pub struct Display {
    places: Vec<DisplayPlace>,
    live: usize,
    /// Slots whose member is gone but not destroyed: a table may still have it.
    departed: SlotSet,
    /// Slots whose member no complete view has confirmed: it may have entered by a snapshot that was never held
    /// and left before the next that was, and then no delta says so.
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
    /// What is known of a slot.
    #[must_use]
    pub fn place(&self, slot: Slot) -> &DisplayPlace {
        const NEVER: DisplayPlace = DisplayPlace::Never;
        self.places.get(usize::from(slot)).unwrap_or(&NEVER)
    }

    /// The member of a slot.
    #[must_use]
    pub fn known(&self, slot: Slot) -> Option<&Known> {
        match self.place(slot) {
            DisplayPlace::Known(known) => Some(known),
            _ => None,
        }
    }

    /// Every member in rising order of slot, with its newest record and the snapshot that is from.
    pub fn records(&self) -> impl Iterator<Item = (Slot, &Record, Tick)> + '_ {
        (0..).zip(&self.places).filter_map(|(slot, place)| match place {
            DisplayPlace::Known(known) => Some((slot, &known.record, known.as_of)),
            _ => None,
        })
    }

    /// Members.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// The slot in which an entity is a member.
    #[must_use]
    pub fn find(&self, entity: Entity) -> Option<Slot> {
        self.records()
            .find(|(_, record, _)| record.entity == entity)
            .map(|(slot, ..)| slot)
    }

    /// What is known of an entity.
    #[must_use]
    pub fn fate(&self, entity: Entity) -> Fate {
        let mut fate = Fate::Unknown;
        for place in &self.places {
            let (other, present) = match place {
                DisplayPlace::Never => continue,
                DisplayPlace::Known(known) => (known.record.entity, true),
                DisplayPlace::Gone(gone) => (gone.entity, false),
            };
            if other == entity && present {
                return Fate::Present;
            }
            if other.id == entity.id && other.generation >= entity.generation {
                fate = Fate::Past;
            }
        }
        fate
    }

    /// What the last receive changed, in order; a slot may be named twice.
    #[must_use]
    pub fn changes(&self) -> &[Shown] {
        &self.changes
    }

    pub(super) fn begin_receive(&mut self) {
        self.changes.clear();
    }

    /// A new stream: nothing of the old one is shown or compared with (SPEC PLY7, FAULTS 74).
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.departed.clear();
        self.entered.clear();
        self.changes.clear();
        self.live = 0;
    }

    /// Applies a part's entries; `base` is the part's base table.
    pub(super) fn apply<'b>(
        &mut self,
        moment: Moment,
        entries: &[Entry],
        base: impl Fn(Slot) -> Option<&'b Record>,
    ) {
        for Entry { slot, change } in entries {
            match change {
                Change::Update(record) | Change::Complete(record) => self.put(moment, *slot, record, None),
                Change::Awake => {
                    if let Some(record) = base(*slot) {
                        self.wake(moment, *slot, record);
                    }
                }
                Change::Removed {
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
                    match base(*slot) {
                        Some(record) => self.remove(moment, *slot, absence, record),
                        None => self.remove_shown(moment, *slot, absence),
                    }
                }
            }
        }
    }

    fn put(&mut self, moment: Moment, slot: Slot, record: &Record, awake: Option<Tick>) {
        let index = usize::from(slot);
        if self.places.len() <= index {
            self.places.resize(index + 1, DisplayPlace::Never);
        }
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let entity = record.entity;
        let mut kept_awake = awake;
        let kind = match place {
            DisplayPlace::Known(old) if old.record.entity == entity => {
                if !moment.id.is_after(old.as_of) {
                    return;
                }
                kept_awake = old.awake.filter(|awake| awake.is_after(moment.id)).or(awake);
                ShownKind::Updated
            }
            DisplayPlace::Known(old) => {
                if !moment.id.is_after(old.member_at()) || is_older_life(entity, old.record.entity) {
                    return;
                }
                self.changes.push(Shown {
                    slot,
                    kind: ShownKind::Removed(Absence::Unheard),
                    entity: old.record.entity,
                });
                ShownKind::Entered
            }
            DisplayPlace::Gone(gone) => {
                let over = matches!(gone.absence, Absence::Destroyed { .. }) && gone.entity == entity;
                if !moment.id.is_after(gone.as_of) || over || is_older_life(entity, gone.entity) {
                    return;
                }
                self.live += 1;
                self.departed.remove(slot);
                ShownKind::Entered
            }
            DisplayPlace::Never => {
                self.live += 1;
                ShownKind::Entered
            }
        };
        *place = DisplayPlace::Known(Known {
            record: *record,
            as_of: moment.id,
            as_of_us: moment.server_us,
            awake: kept_awake,
        });
        if kind == ShownKind::Entered {
            self.entered.insert(slot);
        }
        self.changes.push(Shown { slot, kind, entity });
    }

    fn wake(&mut self, moment: Moment, slot: Slot, base: &Record) {
        match *self.place(slot) {
            DisplayPlace::Known(mut known) => {
                if moment.id.is_after(known.member_at()) {
                    known.awake = Some(moment.id);
                    self.set(
                        slot,
                        DisplayPlace::Known(known),
                        ShownKind::Awake,
                        known.record.entity,
                    );
                }
            }
            _ => self.put(moment, slot, base, Some(moment.id)),
        }
    }

    fn remove(&mut self, moment: Moment, slot: Slot, absence: Absence, base: &Record) {
        let mut gone = Gone {
            entity: base.entity,
            absence,
            as_of: moment.id,
            as_of_us: moment.server_us,
        };
        match *self.place(slot) {
            DisplayPlace::Known(known) => {
                if !moment.id.is_after(known.member_at()) {
                    return;
                }
                gone.entity = known.record.entity;
                self.live -= 1;
                self.set(
                    slot,
                    DisplayPlace::Gone(gone),
                    ShownKind::Removed(absence),
                    known.record.entity,
                );
            }
            DisplayPlace::Gone(old) => {
                let over = matches!(old.absence, Absence::Destroyed { .. });
                if moment.id.is_after(old.as_of) && !over {
                    gone.entity = old.entity;
                    self.write(slot, DisplayPlace::Gone(gone));
                }
            }
            DisplayPlace::Never => self.write(slot, DisplayPlace::Gone(gone)),
        }
        match absence {
            Absence::Destroyed { .. } => self.departed.remove(slot),
            _ => self.departed.insert(slot),
        }
    }

    /// A removal of what no table has: it came by a snapshot that never became a baseline, if at all. Where it
    /// never came, what names it later but is older stays out too.
    fn remove_shown(&mut self, moment: Moment, slot: Slot, absence: Absence) {
        match *self.place(slot) {
            DisplayPlace::Known(known) => self.remove(moment, slot, absence, &known.record),
            DisplayPlace::Gone(_) => {}
            DisplayPlace::Never => {
                let gone = Gone {
                    entity: Entity::default(),
                    absence: Absence::Unheard,
                    as_of: moment.id,
                    as_of_us: moment.server_us,
                };
                self.write(slot, DisplayPlace::Gone(gone));
            }
        }
    }

    fn set(&mut self, slot: Slot, place: DisplayPlace, kind: ShownKind, entity: Entity) {
        self.write(slot, place);
        self.changes.push(Shown { slot, kind, entity });
    }

    fn write(&mut self, slot: Slot, place: DisplayPlace) {
        let index = usize::from(slot);
        if self.places.len() <= index {
            self.places.resize(index + 1, DisplayPlace::Never);
        }
        if let Some(to) = self.places.get_mut(index) {
            *to = place;
        }
    }

    /// A view is complete in `base`, the table of snapshot `as_of`: members that it lacks and that nothing since
    /// has named are gone. Looks at members not confirmed yet, or at `all`. Gives the number of those gone.
    pub(super) fn reconcile<'b>(
        &mut self,
        moment: Moment,
        as_of: Tick,
        base: impl Fn(Slot) -> Option<&'b Record>,
        all: bool,
    ) -> u64 {
        let mut look = core::mem::take(&mut self.scratch);
        look.clear();
        match all {
            true => look.extend(self.records().map(|(slot, ..)| slot)),
            false => look.extend(self.entered.iter()),
        }
        let before = self.live;
        for slot in &look {
            match self.known(*slot).copied() {
                Some(known) if known.member_at().is_after(as_of) => continue,
                Some(known) if base(*slot).is_none() => {
                    self.remove(moment, *slot, Absence::Unheard, &known.record);
                }
                _ => {}
            }
            self.entered.remove(*slot);
        }
        self.scratch = look;
        (before - self.live) as u64
    }

    /// A snapshot that re-asserts its whole base is here with all its parts: departed members that the base has
    /// and that it did not remove are there again (CTL6; an explicit entry alone removes, TAB8). Gives their
    /// number.
    pub(super) fn reinstate<'b>(&mut self, moment: Moment, base: impl Fn(Slot) -> Option<&'b Record>) -> u64 {
        let mut back = core::mem::take(&mut self.scratch);
        back.clear();
        back.extend(self.departed.iter().filter(|slot| base(*slot).is_some()));
        let before = self.live;
        for slot in &back {
            if let Some(record) = base(*slot) {
                self.put(moment, *slot, record, None);
            }
        }
        self.scratch = back;
        (self.live - before) as u64
    }

    /// Forgets departures that no table can undo any more: those for which `has` is false.
    pub(super) fn forget_departures(&mut self, has: impl Fn(Slot) -> bool) {
        let mut done = core::mem::take(&mut self.scratch);
        done.clear();
        done.extend(self.departed.iter().filter(|slot| !has(*slot)));
        done.iter().for_each(|slot| self.departed.remove(*slot));
        self.scratch = done;
    }
}

/// True when `entity` is an earlier life of the same id (SPEC ID2).
fn is_older_life(entity: Entity, than: Entity) -> bool {
    entity.id == than.id && entity.generation < than.generation
}
