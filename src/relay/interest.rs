//! Who is in one session's view: looked up anew at each tick it is served.
//!
//! > [`Interest::update`] finds the members of the newest frame; [`members`](Interest::members) and
//! > [`left`](Interest::left) are then merged with what the client's baseline has (`plan`). What is in neither is not
//! > named, whatever the client holds or asks for: hidden is hidden.
//!
//! Invariants: members rise by slot; nobody is both a member and left; the session's own entity is a member wherever it is.
//! An entity without a position (SPEC DEC3) is in no range. Times are ticks, places centimetres.
//!
//! Memory: 8 bytes a member, 6 bytes for each who left since the baseline.

use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::{Departure, Entity};
use crate::state::frame::Place;
use crate::state::grid::{Point, point};
use crate::state::slots::{Slot, SlotSet};
use crate::state::view::{Range, Scope, View};

use super::arena::Arena;
use super::stamp::{LONG_AGO, Stamp};
use super::table::Table;

mod past;

/// One entity in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it lives.
    pub slot: Slot,
    /// When a record of it was sent last.
    pub sent: Stamp,
    /// When it came into view, or was left out last since.
    pub entered: Stamp,
    /// Its distance as a share of the range, 65,535 at its border; 0 without a range.
    pub distance: u16,
}

impl Member {
    /// True when it came in since `base`, or was not sent since it came: an entry may have ended it before, and what the base
    /// has of it may be from then (SPEC TAB4).
    #[must_use]
    pub fn is_new(&self, base: Option<Tick>, now: Tick) -> bool {
        let unsent = self.sent.age(now) > self.entered.age(now);
        unsent || base.is_none_or(|base| self.entered.is_after(base, now))
    }
}

/// One entity that was in view: it may be shown, and only an entry takes it away (SPEC CTL1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Where it lives or lived.
    pub slot: Slot,
    /// When it left.
    pub since: Stamp,
    /// Why. What befell it later is none of the client's business.
    pub why: Departure,
}

const _: () = assert!(size_of::<Member>() == 8 && size_of::<Left>() == 6);

/// What one session may see, and who that is.
#[derive(Debug, Default)]
pub struct Interest {
    view: View,
    owner: Option<Entity>,
    owner_slot: Option<Slot>,
    /// Where it lived at the update before that.
    owner_before: Option<Slot>,
    /// The own entity was nowhere in the frame looked at last.
    sought: bool,
    /// Where the client has moved its camera, while the view is one of a camera; nowhere beyond the reach of points.
    camera: Option<Option<Point>>,
    /// Where the own entity is, or was last.
    own: Option<Point>,
    members: Vec<Member>,
    left: Vec<Left>,
    /// Stream and tick of the last update.
    updated: Option<(u32, Tick)>,
}

/// Memory that the updates of all sessions of a shard share.
#[derive(Debug, Default)]
pub struct Scratch {
    found: Vec<Found>,
    /// Who is within reach, as a set: it puts them in order.
    within: SlotSet,
    /// By slot, of who is within reach.
    near: Vec<Found>,
    members: Vec<Member>,
    left: Vec<Left>,
}

/// Somebody within reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    slot: Slot,
    distance: u16,
    /// Near enough to come in; farther away one only stays.
    enters: bool,
}

/// What tells why a membership ended.
struct End<'a> {
    frame: &'a Frame,
    arena: &'a Arena,
    /// The tick looked at before; a member was in view then.
    last: Option<Tick>,
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
    /// An interest of this view.
    #[must_use]
    pub fn new(view: View) -> Interest {
        Interest {
            view,
            ..Interest::default()
        }
    }

    /// The view.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }

    /// The session's own entity.
    #[must_use]
    pub fn owner(&self) -> Option<Entity> {
        self.owner
    }

    /// Where the own entity lives, as of the last update.
    #[must_use]
    pub fn owner_slot(&self) -> Option<Slot> {
        self.owner_slot
    }

    /// Sets the own entity and, where given, the view. Who is a member shows at the next update.
    pub fn assign(&mut self, owner: Option<Entity>, view: Option<View>) {
        if self.owner != owner {
            self.owner = owner;
            (self.owner_slot, self.owner_before, self.sought) = (None, None, false);
        }
        self.view = view.unwrap_or(self.view);
        if !matches!(self.view.scope, Scope::Camera(_)) {
            // Where a camera was long ago is no place to look at when there is one again.
            self.camera = None;
        }
    }

    /// A new stream: its entities are others, and so are its places (SPEC PLY7). The view stays. What is assigned with the
    /// first tick of the stream comes after this.
    pub fn begin_stream(&mut self) {
        self.assign(None, None);
        self.members.clear();
        self.left.clear();
        (self.camera, self.own, self.sought) = (None, None, false);
    }

    /// The client's camera was moved; `None` beyond the reach of points, where it sees nobody.
    pub fn set_camera(&mut self, at: Option<Point>) {
        self.camera = Some(at);
    }

    /// Who is in view, by rising slot.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Who left and may still be shown, by rising slot.
    #[must_use]
    pub fn left(&self) -> &[Left] {
        &self.left
    }

    /// The member at a slot.
    #[must_use]
    pub fn member(&self, slot: Slot) -> Option<&Member> {
        let place = self
            .members
            .binary_search_by_key(&slot, |member| member.slot)
            .ok()?;
        self.members.get(place)
    }

    /// Finds who is in view in `frame`, the newest of `arena`.
    pub fn update(&mut self, frame: &Frame, arena: &Arena, scratch: &mut Scratch) {
        if self.updated == Some((frame.stream_epoch, frame.tick)) {
            return;
        }
        if self.updated.is_some_and(|(epoch, _)| epoch != frame.stream_epoch) {
            // Who was adopted before its first frame is of the old stream.
            self.members.clear();
            self.left.clear();
        }
        let last = self.updated.replace((frame.stream_epoch, frame.tick));
        self.find_owner(frame, arena, last.map(|(_, tick)| tick));
        self.find(frame, scratch);
        let end = End {
            frame,
            arena,
            last: last.map(|(_, tick)| tick),
        };
        self.merge(&end, scratch);
    }

    /// Looks where the own entity is: in all the world once, then among those who came since `last`, the frame looked at
    /// before.
    fn find_owner(&mut self, frame: &Frame, arena: &Arena, last: Option<Tick>) {
        let is_own = |slot: Slot| {
            frame
                .record(slot)
                .is_some_and(|record| Some(record.entity) == self.owner)
        };
        self.owner_before = self.owner_slot;
        self.owner_slot = match (self.owner, self.owner_slot) {
            (None, _) => None,
            (Some(_), Some(slot)) if is_own(slot) => Some(slot),
            (Some(_), _) => {
                let before = last.filter(|_| self.sought).and_then(|tick| arena.frame(tick));
                let new = |slot: &Slot| before.is_none_or(|before| !before.alive().contains(*slot));
                let mut alive = frame.alive().iter().filter(new);
                alive.find(|slot| is_own(*slot))
            }
        };
        self.sought = self.owner_slot.is_none();
        let own = self.owner_slot.and_then(|slot| place_of(frame, slot));
        self.own = own.or(self.own);
    }

    /// Where the view is centred.
    fn centre(&self) -> Option<Point> {
        match self.view.scope {
            Scope::Whole => None,
            Scope::Owner(_) => self.own,
            Scope::Camera(_) => self.camera.unwrap_or(self.own),
        }
    }

    /// Finds who is within reach and may be seen, by rising slot.
    fn find(&self, frame: &Frame, scratch: &mut Scratch) {
        let Scratch {
            found, within, near, ..
        } = scratch;
        found.clear();
        let whole = |slot| Found {
            slot,
            distance: 0,
            enters: true,
        };
        let Some(range) = self.view.scope.range() else {
            let may = |slot: &Slot| self.view.permits(frame.tags(*slot)) || self.owner_slot == Some(*slot);
            found.extend(frame.alive().iter().filter(may).map(whole));
            return;
        };
        within.clear();
        near.resize(near.len().max(frame.slot_count()), whole(0));
        let mut put = |found: Found| {
            within.insert(found.slot);
            if let Some(place) = near.get_mut(usize::from(found.slot)) {
                *place = found;
            }
        };
        if let Some(centre) = self.centre() {
            let enter = u64::from(range.enter_cm()).pow(2);
            for (placed, squared) in frame.grid().near(centre, range.leave_cm()) {
                if self.view.permits(placed.tags) {
                    put(Found {
                        slot: placed.slot,
                        distance: share(squared, range),
                        enters: squared <= enter,
                    });
                }
            }
        }
        if let Some(slot) = self.owner_slot {
            put(whole(slot));
        }
        found.extend(
            within
                .iter()
                .filter_map(|slot| near.get(usize::from(slot)).copied()),
        );
    }

    /// Merges who was found with who was a member, and who leaves now with who left before.
    fn merge(&mut self, end: &End<'_>, scratch: &mut Scratch) {
        let now = end.frame.tick;
        let Scratch {
            found, members, left, ..
        } = scratch;
        members.clear();
        left.clear();
        let mut old = self.members.as_slice();
        let mut before = self.left.as_slice();
        for found in found.iter() {
            while let [gone, rest @ ..] = old
                && gone.slot < found.slot
            {
                before = keep_left(before, gone.slot, now, left);
                left.push(self.leave(*gone, end));
                old = rest;
            }
            let mut member = Member {
                slot: found.slot,
                sent: Stamp::long_ago(now),
                entered: Stamp::of(now),
                distance: found.distance,
            };
            if let [known, rest @ ..] = old
                && known.slot == found.slot
            {
                (member.sent, member.entered) = (known.sent.kept(now), known.entered.kept(now));
                old = rest;
            } else if !found.enters {
                continue;
            }
            before = keep_left(before, found.slot, now, left);
            members.push(member);
        }
        for gone in old {
            before = keep_left(before, gone.slot, now, left);
            left.push(self.leave(*gone, end));
        }
        keep_left(before, Slot::MAX, now, left);
        core::mem::swap(&mut self.members, members);
        core::mem::swap(&mut self.left, left);
    }

    /// Why a member is one no more: it died in view, its tags hide it, or it went out of reach.
    fn leave(&self, member: Member, end: &End<'_>) -> Left {
        let (slot, frame) = (member.slot, end.frame);
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

    /// Records of these slots, which rise but for where a part begins, were sent at `now`: tells of each member the ticks
    /// since the one before, where there was one.
    pub fn note_sent(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        now: Tick,
        mut tell: impl FnMut(Slot, u16),
    ) {
        let mut from = 0;
        let mut previous = None;
        for slot in slots {
            if previous.is_some_and(|previous| slot <= previous) {
                from = 0;
            }
            previous = Some(slot);
            let rest = self.members.get_mut(from..).unwrap_or_default();
            let Some(ahead) = rest.iter().position(|member| member.slot >= slot) else {
                continue;
            };
            from += ahead;
            if let Some(member) = rest.get_mut(ahead).filter(|member| member.slot == slot) {
                let age = member.sent.age(now);
                member.sent = Stamp::of(now);
                if age < LONG_AGO {
                    tell(slot, age);
                }
            }
        }
    }

    /// A snapshot of `now` on `base` has left something out. Who was new to it and is not in it stays new to the base that
    /// is made of it, and who left since the base and is not among those it `removed` stays one who left.
    pub fn put_off(&mut self, base: Option<Tick>, now: Tick, removed: impl Fn(Slot) -> bool) {
        for member in &mut self.members {
            if member.sent.age(now) > 0 && member.is_new(base, now) {
                member.entered = Stamp::of(now.next());
            }
        }
        for left in &mut self.left {
            if base.is_none_or(|base| left.since.is_after(base, now)) && !removed(left.slot) {
                left.since = Stamp::of(now.next());
            }
        }
    }

    /// Forgets who left before `base` and is not in it: nothing can show them any more. Without a base nobody is forgotten:
    /// the next one may be of a snapshot from before they came.
    pub fn forget_left_by(&mut self, base: Option<&Table>, frame: &Frame) {
        let Some(base) = base else {
            return;
        };
        let (tick, now) = (base.tick(), frame.tick);
        self.left
            .retain(|left| left.since.is_after(tick, now) || base.may_have(left.slot));
    }

    /// Heap bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Member>() + self.left.capacity() * size_of::<Left>()
    }
}

/// Keeps those of `before` who left at a slot below `slot`; who left at that very slot is a member again, or leaves once
/// more. Gives the rest.
fn keep_left<'a>(mut before: &'a [Left], slot: Slot, now: Tick, kept: &mut Vec<Left>) -> &'a [Left] {
    while let [left, rest @ ..] = before
        && left.slot <= slot
    {
        if left.slot < slot {
            kept.push(Left {
                since: left.since.kept(now),
                ..*left
            });
        }
        before = rest;
    }
    before
}

/// Where a slot's entity is.
fn place_of(frame: &Frame, slot: Slot) -> Option<Point> {
    let motion = frame.record(slot)?.motion.as_ref()?;
    point(&frame.schema, motion)
}

/// A distance as a share of the range it may have.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
fn share(squared: u64, range: Range) -> u16 {
    ((squared as f32).sqrt() / range.leave_cm() as f32 * 65_535.0) as u16
}

#[cfg(test)]
mod tests;
