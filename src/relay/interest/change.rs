//! Who comes into a view and who leaves it at a tick.
//!
//! Who is within reach is found as a set of bits and compared with the members, 64 slots at a time; only who comes or leaves is
//! looked at one by one.

use super::{Interest, Left, Member, Tagged};
use crate::relay::arena::Arena;
use crate::relay::stamp::Stamp;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Departure;
use crate::state::frame::Place;
use crate::state::slots::{Slot, SlotSet, slots_of};
use crate::state::view::Tags;

/// Memory that the updates of all sessions of a shard share.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Who is within reach: who is a member stays one.
    within: SlotSet,
    /// Who is near enough to come in, of those.
    enters: SlotSet,
    /// Who has which tag, in the newest frame.
    tagged: Tagged,
    /// Who comes, with a member, and who goes, by rising slot.
    changes: Vec<(Slot, Option<Member>)>,
    members: Vec<Member>,
    goes: Vec<(Slot, Option<Left>)>,
    left: Vec<Left>,
}

/// What tells why a membership ended.
pub(super) struct End<'a> {
    pub(super) frame: &'a Frame,
    pub(super) arena: &'a Arena,
    /// The tick looked at before; a member was in view then.
    pub(super) last: Option<Tick>,
}

impl End<'_> {
    /// The last frame in which a slot's dead entity lived, where that was not looked at: it may have gone out of view
    /// before it died, and how it ended is none of the client's business then. `None` where it surely died in view.
    fn before_death(&self, slot: Slot) -> Option<&Frame> {
        let before = self.frame.changed_at(slot).minus(1);
        if self.last.is_none_or(|last| !before.is_after(last)) {
            return None;
        }
        Some(self.arena.frame(before).map_or(self.frame, AsRef::as_ref))
    }
}

impl Interest {
    /// Finds who is within reach and may be seen, and who of them is near enough to come in.
    pub(super) fn find(&self, frame: &Frame, scratch: &mut Scratch) {
        let Scratch {
            within,
            enters,
            tagged,
            ..
        } = scratch;
        within.clear();
        enters.clear();
        match self.view.scope.range() {
            None if self.view.tags == Tags::MAX => within.copy_from(frame.alive()),
            None => tagged.permitted(self.view.tags, frame, within),
            Some(range) => {
                let centre = self.centre();
                let enter = u64::from(range.enter_cm()).pow(2);
                let grid = centre.map(|_| frame.grid());
                let near = grid.iter().zip(centre);
                for (placed, squared) in near.flat_map(|(grid, centre)| grid.near(centre, range.leave_cm())) {
                    if self.view.permits(placed.tags) {
                        within.insert(placed.slot);
                        if squared <= enter {
                            enters.insert(placed.slot);
                        }
                    }
                }
            }
        }
        if let Some(slot) = self.owner_slot {
            within.insert(slot);
            enters.insert(slot);
        }
        if self.view.scope.range().is_none() {
            enters.copy_from(within);
        }
    }

    /// Makes members of who was found, and of nobody else.
    pub(super) fn change(&mut self, end: &End<'_>, scratch: &mut Scratch) {
        let now = end.frame.tick;
        let Scratch {
            within,
            enters,
            changes,
            members,
            goes,
            left,
            ..
        } = scratch;
        changes.clear();
        goes.clear();
        let words = within.words().len().max(self.set.words().len());
        for index in 0..words {
            let had = self.set.word(index);
            let has = within.word(index) & (had | enters.word(index));
            if has == had {
                continue;
            }
            self.set.set_word(index, has);
            for slot in slots_of(index, has ^ had) {
                if had >> (slot % 64) & 1 == 1 {
                    changes.push((slot, None));
                    goes.push((slot, Some(self.leave(slot, end))));
                } else {
                    let member = Member {
                        slot,
                        sent: Stamp::long_ago(now),
                        entered: Stamp::of(now),
                    };
                    changes.push((slot, Some(member)));
                    goes.push((slot, None));
                    self.recent.push((slot, member.entered));
                }
            }
        }
        if !changes.is_empty() {
            splice(&self.members, changes, |member| member.slot, members);
            core::mem::swap(&mut self.members, members);
            splice(&self.left, goes, |left| left.slot, left);
            core::mem::swap(&mut self.left, left);
        }
    }

    /// Why a member is one no more: it died in view, its tags hide it, or it went out of reach.
    fn leave(&self, slot: Slot, end: &End<'_>) -> Left {
        let frame = end.frame;
        let seen = match frame.place(slot) {
            Place::Live(_) => Some(frame),
            Place::Grave(_) | Place::Empty => end.before_death(slot),
        };
        let why = match (frame.place(slot), seen) {
            (Place::Live(_), _) if !self.view.permits(frame.tags(slot)) => Departure::Hidden,
            (Place::Live(_), _) => Departure::LeftView,
            (_, None) => Departure::Destroyed,
            (_, Some(seen)) if self.saw(slot, seen) => Departure::Destroyed,
            (_, Some(seen)) if !self.view.permits(seen.tags(slot)) => Departure::Hidden,
            _ => Departure::LeftView,
        };
        Left {
            slot,
            since: Stamp::of(frame.tick),
            why,
        }
    }
}

/// Copies a list by rising slot, with `changes` by rising slot: what is put at a slot, or nothing, in place of what was there.
fn splice<T: Copy>(old: &[T], changes: &[(Slot, Option<T>)], slot_of: impl Fn(&T) -> Slot, new: &mut Vec<T>) {
    new.clear();
    let mut rest = old;
    for (slot, put) in changes {
        let before = rest.partition_point(|item| slot_of(item) < *slot);
        let (kept, from) = rest.split_at(before);
        new.extend_from_slice(kept);
        new.extend(*put);
        let same = from.first().is_some_and(|item| slot_of(item) == *slot);
        rest = from.get(usize::from(same)..).unwrap_or_default();
    }
    new.extend_from_slice(rest);
}
