//! What all sessions of a shard share while a tick is served: bodies by base, segments, scratch.
//!
//! Sessions that see the whole world from the same whole baseline share bodies outright; a session with a view of its own,
//! or a baseline of its own, gets bodies of its own from the same segments.

use crate::delta::layout::Layout;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

use super::arena::Arena;
use super::bodies::Bodies;
use super::budget::Budget;
use super::changes::Changes;
use super::choice::Choice;
use super::contents::{Closes, InView};
use super::counters::Counters;
use super::interest::{Interest, Scratch};
use super::plan::{How, Planned, ViewPlan};
use super::priority::Urgency;
use super::segments::SegmentCache;
use super::spare::Spare;
use super::table::Table;

/// What all sessions of a shard share while a tick is served: bodies by base, segments, scratch.
pub struct Kitchen {
    plan: Planned,
    segments: SegmentCache,
    shared: Vec<(Option<Tick>, Bodies)>,
    shared_used: usize,
    private: Bodies,
    forced: Vec<Slot>,
    view: ViewPlan,
    choice: Choice,
    changes: Changes,
    /// Memory of what windows have let go.
    pub spare: Spare,
    /// For the interests of all sessions.
    pub scratch: Scratch,
    layout: Option<Layout>,
    /// What a session may be sent.
    pub budget: Budget,
    /// Nanoseconds for the cost figures.
    pub stopwatch: fn() -> u64,
}

/// Which bodies a session's snapshot uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dish {
    /// Those of this number, shared.
    Shared(usize),
    /// Its own.
    Private,
}

impl Kitchen {
    /// An empty kitchen. `stopwatch` gives nanoseconds for the cost figures; it may stand still.
    #[must_use]
    pub fn new(budget: Budget, stopwatch: fn() -> u64) -> Kitchen {
        Kitchen {
            plan: Planned::default(),
            segments: SegmentCache::new(),
            shared: Vec::new(),
            shared_used: 0,
            private: Bodies::default(),
            forced: Vec::new(),
            view: ViewPlan::default(),
            choice: Choice::default(),
            changes: Changes::default(),
            spare: Spare::default(),
            scratch: Scratch::default(),
            layout: None,
            budget,
            stopwatch,
        }
    }

    /// A new stream: its layout.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = Some(layout.clone());
        self.segments.set_layout(layout);
    }

    /// A new frame: nothing made for the last one holds.
    pub fn begin_tick(&mut self, frame: &Frame, counters: &mut Counters) {
        self.segments.begin_tick(frame.slot_count());
        self.changes.begin_tick();
        self.shared_used = 0;
        let (hits, misses) = self.segments.take_counts();
        counters.segment_hits += hits;
        counters.segment_misses += misses;
    }

    /// The bodies of a dish.
    #[must_use]
    pub fn bodies(&self, dish: Dish) -> &Bodies {
        match dish {
            Dish::Shared(index) => self.shared.get(index).map_or(&self.private, |(_, bodies)| bodies),
            Dish::Private => &self.private,
        }
    }

    /// The bodies that turn `base` into the newest frame: shared where base is whole or empty and nothing is
    /// forced, else made for this session. `None` when the base has left the arena.
    pub fn cook(
        &mut self,
        arena: &Arena,
        base: Option<&Table>,
        requests: &[(u32, u32)],
        counters: &mut Counters,
    ) -> Option<Dish> {
        let frame = arena.newest()?;
        self.find_requested(frame, frame.alive().iter(), requests, counters);
        let key = match base {
            None => Some(None),
            Some(Table::Whole(tick)) => Some(Some(*tick)),
            Some(Table::Explicit { .. } | Table::Sparse { .. } | Table::View { .. } | Table::Lost(_)) => None,
        };
        let key = key.filter(|_| self.forced.is_empty());
        if let Some(key) = key {
            if let Some(index) = self
                .shared
                .iter()
                .take(self.shared_used)
                .position(|(known, _)| *known == key)
            {
                counters.body_shares += 1;
                return Some(Dish::Shared(index));
            }
            if self.shared_used == self.shared.len() {
                self.shared.push((None, Bodies::default()));
            }
        }
        counters.body_builds += 1;
        if !self.plan.plan(arena, base, &self.forced) {
            return None;
        }
        counters.complete_records += u64::from(self.plan.fallback_records());
        let (dish, bodies) = match key {
            Some(key) => {
                let index = self.shared_used;
                self.shared_used += 1;
                let (place, bodies) = self.shared.get_mut(index)?;
                *place = key;
                (Dish::Shared(index), bodies)
            }
            None => (Dish::Private, &mut self.private),
        };
        if !Bodies::fits_one_part(&self.plan, &mut self.segments) {
            // Turn the order, so that what is always lost or never fits is not always the same (SPEC TAB8).
            self.plan.rotate(frame.tick.0 as usize * 389, frame.slot_count());
        }
        bodies.pack(&self.plan, &mut self.segments, &mut self.spare);
        Some(dish)
    }

    /// Slots of the entities, among those at `slots`, whose complete record the client asked for (SPEC CTL2).
    fn find_requested(
        &mut self,
        frame: &Frame,
        slots: impl Iterator<Item = Slot>,
        requests: &[(u32, u32)],
        counters: &mut Counters,
    ) {
        self.forced.clear();
        if !requests.is_empty() {
            let asked = |entity: Entity| requests.contains(&(entity.id, entity.generation));
            let is_asked = |slot: &Slot| frame.record(*slot).is_some_and(|record| asked(record.entity));
            self.forced.extend(slots.filter(is_asked));
        }
        counters.requested_records += self.forced.len() as u64;
    }

    /// The bodies that turn `base` into what `interest` sees of the newest frame, in at most `bytes` of datagrams. What
    /// was asked for and is out of view is not found. `None` when the base has left the arena.
    #[allow(clippy::too_many_arguments)]
    pub fn cook_view(
        &mut self,
        arena: &Arena,
        base: Option<&Table>,
        interest: &Interest,
        requests: &[(u32, u32)],
        urgency: Urgency,
        bytes: usize,
        counters: &mut Counters,
    ) -> Option<ViewDish> {
        let frame = arena.newest()?;
        let members = interest.members().iter().map(|member| member.slot);
        self.find_requested(frame, members, requests, counters);
        counters.body_builds += 1;
        let Kitchen {
            plan,
            segments,
            view,
            choice,
            private,
            changes,
            spare,
            ..
        } = self;
        if !plan.plan_view(view, arena, base, interest, &self.forced, changes) {
            return None;
        }
        counters.complete_records += u64::from(plan.fallback_records());
        let closes = if view.enters() {
            Closes::WithAllParts
        } else {
            Closes::Always
        };
        let mut in_view = InView {
            slots: interest.slots(),
            members: interest.members().len(),
            own: view.own(),
            closes,
        };
        if private.pack_all(plan, segments, in_view, Choice::first_room(bytes), spare) {
            return Some(ViewDish { exhaustive: true });
        }
        if private.pack_in_parts(plan, segments, in_view, bytes, spare) {
            return Some(ViewDish { exhaustive: true });
        }
        view.reason(plan, interest);
        choice.choose(plan, view, segments, &frame.schema, urgency, bytes);
        if choice.arrivals_left_out() > 0 {
            in_view.closes = Closes::No;
        }
        let exhaustive = choice.left_out() == 0;
        private.pack_portions(choice.portions(), plan, segments, in_view, exhaustive, spare);
        counters.records_omitted += choice.left_out() as u64;
        Some(ViewDish { exhaustive })
    }

    /// Slots of whom the plan made last sends a record.
    pub fn said(&self) -> impl Iterator<Item = Slot> + '_ {
        let said = self.plan.entries().iter();
        said.filter(|entry| !entry.is_removal() && entry.how != How::Awake)
            .map(|entry| entry.slot)
    }

    /// The layout of the stream.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }
}

/// What is to be said of the private bodies of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewDish {
    /// Nothing that is shown otherwise was left out.
    pub exhaustive: bool,
}
