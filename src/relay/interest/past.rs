//! What a view saw in frames that were not looked at themselves.
//!
//! Of frames that come at once only the newest is looked at; what befell in the others is judged by where everybody was in
//! them, the own entity too. So nothing is told of who was out of view then, and nothing is missed of who was in it.

use std::sync::Arc;

use super::{Departure, Interest, Member, place_of};
use crate::relay::arena::Arena;
use crate::relay::stamp::Stamp;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::grid::{Point, distance_squared};
use crate::state::slots::{Slot, SlotSet};
use crate::state::view::Scope;

/// Frames in which somebody may have been seen whom the newest baseline lacks: more than a baseline is old.
const ADOPT_FRAMES: u32 = 128;

impl Interest {
    /// True for what befell, in the frame `past`, one who was in view then: who is in view `now`, or was a member until that
    /// frame or later. Of frames that come at once only the newest is looked at; the others are asked where it was in them.
    #[must_use]
    pub fn hears_of(&self, slot: Slot, past: &Frame, now: Tick) -> bool {
        let tick = past.tick;
        if self.member(slot).is_some() {
            return tick == now || self.saw(slot, past);
        }
        let place = self.left.binary_search_by_key(&slot, |left| left.slot);
        let left = place.ok().and_then(|place| self.left.get(place));
        let Some(left) = left.filter(|left| !left.since.is_before(tick, now)) else {
            return false;
        };
        match past.record(slot) {
            None => left.why == Departure::Destroyed,
            Some(_) => tick != now && self.saw(slot, past),
        }
    }

    /// The view was whole until now, `since` a tick where it was not before: whoever lived in one of the last frames from
    /// then on counts as seen long ago. The newest is still to be looked at.
    pub fn adopt(&mut self, arena: &Arena, since: Option<Tick>) {
        let Some(newest) = arena.newest() else { return };
        let mut seen = SlotSet::default();
        let past = (0..ADOPT_FRAMES).map_while(|back| arena.frame(newest.tick.minus(back)));
        let whole = |frame: &&Arc<Frame>| {
            let older = since.is_some_and(|since| since.is_after(frame.tick));
            !older && frame.stream_epoch == newest.stream_epoch
        };
        past.take_while(whole).for_each(|frame| seen.union(frame.alive()));
        let long_ago = Stamp::long_ago(newest.tick);
        let member = |slot| Member {
            slot,
            sent: long_ago,
            entered: long_ago,
        };
        self.forget_everybody();
        self.members = seen.iter().map(member).collect();
        self.set = seen;
        self.updated = Some((newest.stream_epoch, newest.tick.minus(1)));
    }

    /// Where the own entity was in a frame that was not looked at. It lived in the slot it was seen in first or last; one that
    /// came and went between two looks is looked for.
    pub(super) fn own_in(&self, frame: &Frame) -> Option<Point> {
        let is_own = |slot: &Slot| {
            let record = frame.record(*slot);
            record.is_some_and(|record| Some(record.entity) == self.owner)
        };
        let mut known = [self.owner_slot, self.owner_before].into_iter().flatten();
        let slot = known.find(is_own);
        let slot = slot.or_else(|| self.owner.and_then(|_| frame.alive().iter().find(is_own)));
        place_of(frame, slot?)
    }

    /// True when a slot's entity was within reach in a frame that was not looked at.
    pub(super) fn saw(&self, slot: Slot, frame: &Frame) -> bool {
        let Some(record) = frame.record(slot) else {
            return false;
        };
        if Some(record.entity) == self.owner {
            return true;
        }
        let own = self.own_in(frame).or(self.own);
        let centre = match self.view.scope {
            Scope::Whole => return self.view.permits(frame.tags(slot)),
            Scope::Owner(_) => own,
            Scope::Camera(_) => self.camera.unwrap_or(own),
        };
        let reach = self
            .view
            .scope
            .range()
            .map_or(0, |range| u64::from(range.leave_cm()));
        let near = centre
            .zip(place_of(frame, slot))
            .is_some_and(|(centre, place)| distance_squared(centre, place) <= reach.pow(2));
        near && self.view.permits(frame.tags(slot))
    }
}
