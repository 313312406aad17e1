//! Who is in one session's view: looked up anew at each tick it is served.
//!
//! > [`Interest::update`] finds the members of the newest frame; [`members`](Interest::members) and
//! > [`left`](Interest::left) are then merged with what the client's baseline has (`plan`). What is in neither is not
//! > named, whatever the client holds or asks for: hidden is hidden.
//!
//! Invariants: members rise by slot; nobody is both a member and left; the session's own entity is a member wherever it is.
//! An entity without a position (SPEC DEC3) is in no range. Times are ticks, places centimetres.
//!
//! Who is in view is a set of bits, compared with the last one by 64 slots at a time: a tick at which nobody comes or goes
//! costs no walk over the members. What is known of each member is kept beside the set.
//!
//! Memory: 6 bytes a member and a bit a slot, 6 bytes for each who left since the baseline, 4 for each who came lately.

use crate::limits::ARENA_FRAMES;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::{Departure, Entity};
use crate::state::grid::{Point, distance_squared, point};
use crate::state::slots::{Slot, SlotSet};
use crate::state::view::{Range, Scope, View};

use super::arena::Arena;
use super::stamp::{LONG_AGO, Stamp};
use super::table::Table;

mod change;
mod past;
mod tagged;

pub use change::Scratch;

use change::End;
use tagged::Tagged;

/// One entity in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it lives.
    pub slot: Slot,
    /// When a record of it was sent last by a snapshot that left something out, or it is the session's own: a snapshot
    /// that left nothing out is noted [once for all](Interest::note_all_sent).
    sent: Stamp,
    /// When it came into view, or was left out last since.
    entered: Stamp,
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

const _: () = assert!(size_of::<Member>() == 6 && size_of::<Left>() == 6);

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
    /// The slots of the members.
    set: SlotSet,
    left: Vec<Left>,
    /// Who came, or was put off, in the order of time, for as long as there are baselines from before.
    recent: Vec<(Slot, Stamp)>,
    /// A snapshot of that tick left nothing out.
    all_sent: Option<Stamp>,
    /// Stream and tick of the last update.
    updated: Option<(u32, Tick)>,
    /// When the stamps were kept young last.
    kept: Option<Tick>,
    /// What the members were found by last, in a view that reaches everywhere; `None` when they must be found anew.
    found: Option<Finding>,
    /// A snapshot left something out since the last one that did not.
    partly: bool,
}

/// What the members of a view that reaches everywhere follow from: the same finding finds the same members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finding {
    stream_epoch: u32,
    /// [`Frame::regrouped`].
    regrouped: Tick,
    owner_slot: Option<Slot>,
}

/// Ticks after which stamps are kept young again.
const KEEP_TICKS: u32 = 1 << 12;
const _: () = assert!(KEEP_TICKS < LONG_AGO as u32 / 2 && ARENA_FRAMES < LONG_AGO as usize / 2);
/// How many who came lately are kept before the old ones are looked for.
const RECENT_MIN: usize = 64;

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
        self.found = None;
        if !matches!(self.view.scope, Scope::Camera(_)) {
            // Where a camera was long ago is no place to look at when there is one again.
            self.camera = None;
        }
    }

    /// A new stream: its entities are others, and so are its places (SPEC PLY7). The view stays. What is assigned with the
    /// first tick of the stream comes after this.
    pub fn begin_stream(&mut self) {
        self.assign(None, None);
        self.forget_everybody();
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

    /// The slots of who is in view.
    #[must_use]
    pub fn slots(&self) -> &SlotSet {
        &self.set
    }

    /// True when a member came in since `base`, or was not sent since it came: an entry may have ended it before, and what the
    /// base has of it may be from then (SPEC TAB4).
    #[must_use]
    pub fn is_new(&self, member: &Member, base: Option<Tick>, now: Tick) -> bool {
        let unsent = self.sent_age(member, now) > member.entered.age(now);
        unsent || base.is_none_or(|base| member.entered.is_after(base, now))
    }

    /// Slots of those who came in, or were put off, since `base`; some more than once, some no members any more.
    pub fn came_since(&self, base: Tick, now: Tick) -> impl Iterator<Item = Slot> + '_ {
        let newest = self.recent.iter().rev();
        let came = newest.take_while(move |(_, at)| at.is_after(base, now));
        came.map(|(slot, _)| *slot)
    }

    /// Ticks since a member was sent last, or a snapshot left nothing out.
    #[must_use]
    pub fn sent_age(&self, member: &Member, now: Tick) -> u16 {
        let all = self.all_sent.map_or(LONG_AGO, |sent| sent.age(now));
        member.sent.age(now).min(all)
    }

    /// The same of whoever is at a slot, without a look at the member where nobody was left out.
    #[must_use]
    pub fn sent_age_at(&self, slot: Slot, now: Tick) -> u16 {
        match (self.all_sent, self.partly) {
            (Some(sent), false) => sent.age(now),
            _ => self
                .member(slot)
                .map_or(LONG_AGO, |member| self.sent_age(member, now)),
        }
    }

    /// Ticks since a record of the session's own entity was sent, at most, and whether one was after `known`.
    #[must_use]
    pub fn own_sent(&self, member: &Member, known: Tick, now: Tick) -> (u16, bool) {
        (member.sent.age(now), member.sent.is_after(known, now))
    }

    /// The distance of a slot's entity as a share of the range, 65,535 at its border; 0 without a range, and of its own.
    #[must_use]
    pub fn distance(&self, slot: Slot, frame: &Frame) -> u16 {
        if self.owner_slot == Some(slot) {
            return 0;
        }
        let places = self.centre().zip(place_of(frame, slot));
        let range = self.view.scope.range();
        range.zip(places).map_or(0, |(range, (centre, place))| {
            share(distance_squared(centre, place), range)
        })
    }

    /// Who left and may still be shown, by rising slot.
    #[must_use]
    pub fn left(&self) -> &[Left] {
        &self.left
    }

    /// The member at a slot.
    #[must_use]
    pub fn member(&self, slot: Slot) -> Option<&Member> {
        if !self.set.contains(slot) {
            return None;
        }
        let place = self
            .members
            .binary_search_by_key(&slot, |member| member.slot)
            .ok()?;
        self.members.get(place)
    }

    fn member_mut(&mut self, slot: Slot) -> Option<&mut Member> {
        let place = self
            .members
            .binary_search_by_key(&slot, |member| member.slot)
            .ok()?;
        self.members.get_mut(place)
    }

    /// Finds who is in view in `frame`, the newest of `arena`.
    pub fn update(&mut self, frame: &Frame, arena: &Arena, scratch: &mut Scratch) {
        if self.updated == Some((frame.stream_epoch, frame.tick)) {
            return;
        }
        if self.updated.is_some_and(|(epoch, _)| epoch != frame.stream_epoch) {
            // Who was adopted before its first frame is of the old stream.
            self.forget_everybody();
        }
        let last = self.updated.replace((frame.stream_epoch, frame.tick));
        self.keep_young(frame.tick);
        self.find_owner(frame, arena, last.map(|(_, tick)| tick));
        let finding = self.view.scope.range().is_none().then_some(Finding {
            stream_epoch: frame.stream_epoch,
            regrouped: frame.regrouped(),
            owner_slot: self.owner_slot,
        });
        if finding.is_some() && self.found == finding {
            return;
        }
        self.found = finding;
        self.find(frame, scratch);
        let end = End {
            frame,
            arena,
            last: last.map(|(_, tick)| tick),
        };
        self.change(&end, scratch);
        if self.owner_slot != self.owner_before {
            self.note_own(frame.tick);
        }
    }

    fn forget_everybody(&mut self) {
        self.members.clear();
        self.set.clear();
        self.left.clear();
        self.recent.clear();
        (self.all_sent, self.kept, self.found, self.partly) = (None, None, None, false);
    }

    /// Keeps the stamps within their reach, and forgets who came before all baselines.
    fn keep_young(&mut self, now: Tick) {
        let is_due = |kept: Tick| kept.age_at(now).is_none_or(|age| age >= KEEP_TICKS);
        let due = *self.kept.get_or_insert(now);
        if is_due(due) {
            self.kept = Some(now);
            for member in &mut self.members {
                (member.sent, member.entered) = (member.sent.kept(now), member.entered.kept(now));
            }
            self.left
                .iter_mut()
                .for_each(|left| left.since = left.since.kept(now));
            self.all_sent = self.all_sent.map(|sent| sent.kept(now));
        }
        let is_young = |(_, came): &(Slot, Stamp)| usize::from(came.age(now)) <= ARENA_FRAMES;
        let many = self.recent.len() >= RECENT_MIN.max(self.recent.capacity() / 2);
        if is_due(due) || many {
            let old = self.recent.iter().take_while(|came| !is_young(came)).count();
            self.recent.drain(..old);
        }
    }

    /// Another entity is its own from now on. What was sent of it before was not noted for itself, so it counts as sent by
    /// the last snapshot that may have had it.
    fn note_own(&mut self, now: Tick) {
        let Some(all) = self.all_sent else { return };
        let own = self.owner_slot.and_then(|slot| self.member_mut(slot));
        if let Some(own) = own.filter(|own| own.sent.age(now) > all.age(now)) {
            own.sent = all;
        }
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

    /// Records of these slots, which rise but for where a part begins, were sent at `now` by a snapshot that left something
    /// out.
    pub fn note_sent(&mut self, slots: impl Iterator<Item = Slot>, now: Tick) {
        self.partly = true;
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
                member.sent = Stamp::of(now);
            }
        }
    }

    /// A snapshot of `now` was sent that left nothing out; `own` when a record of its own entity was in it.
    pub fn note_all_sent(&mut self, now: Tick, own: bool) {
        (self.all_sent, self.partly) = (Some(Stamp::of(now)), false);
        if own && let Some(member) = self.owner_slot.and_then(|slot| self.member_mut(slot)) {
            member.sent = Stamp::of(now);
        }
    }

    /// A snapshot of `now` on `base` has left something out. Who was new to it and is not in it stays new to the base that
    /// is made of it, and who left since the base and is not among those it `removed` stays one who left.
    pub fn put_off(&mut self, base: Option<Tick>, now: Tick, removed: impl Fn(Slot) -> bool) {
        let later = Stamp::of(now.next());
        let mut members = core::mem::take(&mut self.members);
        for member in &mut members {
            if self.sent_age(member, now) > 0 && self.is_new(member, base, now) {
                member.entered = later;
                self.recent.push((member.slot, later));
            }
        }
        self.members = members;
        for left in &mut self.left {
            if base.is_none_or(|base| left.since.is_after(base, now)) && !removed(left.slot) {
                left.since = later;
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
        let lists = self.members.capacity() * size_of::<Member>() + self.left.capacity() * size_of::<Left>();
        lists + self.recent.capacity() * size_of::<(Slot, Stamp)>() + self.set.heap_bytes()
    }
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
