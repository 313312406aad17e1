//! Who may be known to one session at every tick: the oracle of views (SPEC CTL1, CTL3).
//!
//! It is made of what the origin ordered and the client told, and of the truth; it asks nothing of the relay but which
//! tick was sent last, and shares no code with it. Where the relay may rightly decide either way (between the two radii
//! of a range, or while a camera is under way) it says so.

use std::collections::{HashMap, VecDeque};

use super::hasher::EntityHasher;
use super::truth::{Fact, FrameFact, HORIZON_US, Truth};
use crate::limits::ARENA_FRAMES;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Entity;
use crate::state::player::Order;
use crate::state::view::{Scope, View};

/// Time in which a camera that was told has surely reached the relay, or the relay sends nothing: it sends nothing to
/// who was silent for two seconds, and no datagram is under way for longer than half of one.
const CAMERA_WITHIN_US: u64 = 3_000_000;
/// Both ends of a distance are rounded to centimetres, metres.
const SLACK_M: f64 = 0.02;
/// Places that may be the last of an entity that is gone; beyond, any place may be.
const LAST_MAX: usize = 256;

/// Whether somebody is in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It must not be known.
    Never,
    /// It may be known or not.
    May,
    /// It is in view.
    Must,
}

/// A place, metres.
pub type Metres = [f64; 3];

/// What held at one tick.
#[derive(Clone, Debug)]
struct Moment {
    tick: Tick,
    at_us: u64,
    view: View,
    owner: Option<Entity>,
    /// Where the own entity was.
    own: Option<Metres>,
    /// Where it may have been when it was looked at last, if it is gone; `None` for anywhere.
    last: Option<Vec<Metres>>,
    /// It was looked at, so one of these is known.
    seen: bool,
    /// Since when the view was one of a camera.
    films_since_us: u64,
    /// The relay looked at this tick: it sent a snapshot of it.
    looked: bool,
}

/// What one session may know.
#[derive(Debug)]
pub struct Sight {
    /// Its connection id.
    pub connection: u64,
    moments: VecDeque<Moment>,
    begun: View,
    /// When cameras were told, and where; `None` where they were outside of the stream.
    cameras: VecDeque<(u64, Option<Metres>)>,
    /// Since when there has been a camera without a break.
    camera_since_us: Option<u64>,
    stream_epoch: u32,
    /// Events by number, with what is to become of them and when they came.
    heard: VecDeque<(u64, Verdict, u64)>,
}

impl Sight {
    /// The sight of a session that begins with a view.
    #[must_use]
    pub fn new(connection: u64, view: View) -> Sight {
        Sight {
            connection,
            moments: VecDeque::new(),
            begun: view,
            cameras: VecDeque::new(),
            camera_since_us: None,
            stream_epoch: 0,
            heard: VecDeque::new(),
        }
    }

    /// The view and the own entity now.
    #[must_use]
    pub fn assigned(&self) -> (Option<Entity>, View) {
        self.moments
            .back()
            .map_or((None, self.begun), |moment| (moment.owner, moment.view))
    }

    /// The client has moved its camera, or a new stream has taken it out of its bounds.
    pub fn tell_camera(&mut self, now_us: u64, at: Option<Metres>) {
        self.cameras.push_back((now_us, at));
        match at {
            Some(_) => {
                self.camera_since_us.get_or_insert(now_us);
            }
            None => self.camera_since_us = None,
        }
    }

    /// The relay takes a frame; `truth` has it already.
    pub fn publish(&mut self, now_us: u64, frame: &Frame, truth: &Truth) {
        let before = self.moments.back();
        let (mut owner, mut view) = self.assigned();
        let mut films_since_us = before.map_or(now_us, |before| before.films_since_us);
        let mut last = before.map_or(Some(Vec::new()), |before| before.last.clone());
        let mut seen = before.is_some_and(|before| before.seen);
        if frame.stream_epoch != self.stream_epoch {
            // Entities and places of another stream are others (SPEC PLY7).
            (owner, last, seen, films_since_us) = (None, Some(Vec::new()), false, now_us);
            self.stream_epoch = frame.stream_epoch;
            self.heard.clear();
        }
        for directive in frame.directives.iter().filter(|d| d.player == self.connection) {
            if let Order::Assign { entity, view: wanted } = &directive.order {
                owner = *entity;
                let filmed = matches!(view.scope, Scope::Camera(_));
                view = wanted.unwrap_or(view);
                if !filmed && matches!(view.scope, Scope::Camera(_)) {
                    films_since_us = now_us;
                }
            }
        }
        let fact = truth.frame(frame.tick);
        let own = fact.and_then(|fact| truth.place_at(fact, owner?));
        if let (Some(own), Some(places)) = (own, last.as_mut()) {
            places.push(own);
        }
        if owner.is_none() && view.is_whole() {
            // Nothing is remembered of a session that sees all there is.
            (last, seen) = (None, false);
        }
        let last = last.filter(|places| places.len() <= LAST_MAX);
        self.moments.push_back(Moment {
            tick: frame.tick,
            at_us: now_us,
            view,
            owner,
            own,
            last,
            seen,
            films_since_us,
            looked: false,
        });
        self.forget(now_us);
    }

    fn forget(&mut self, now_us: u64) {
        while self.moments.len() > 1
            && self
                .moments
                .front()
                .is_some_and(|moment| moment.at_us + HORIZON_US < now_us)
        {
            self.moments.pop_front();
        }
        // The newest of those that are over held until the next was told.
        while self
            .cameras
            .get(1)
            .is_some_and(|(at_us, _)| at_us + HORIZON_US + CAMERA_WITHIN_US < now_us)
        {
            self.cameras.pop_front();
        }
    }

    /// The relay has sent a snapshot of `tick`.
    pub fn looked(&mut self, tick: Tick) {
        if let Some(index) = self.index(tick)
            && let Some(moment) = self.moments.get_mut(index)
            && !core::mem::replace(&mut moment.looked, true)
            && let Some(own) = moment.own
        {
            (moment.last, moment.seen) = (Some(vec![own]), true);
        }
    }

    fn index(&self, tick: Tick) -> Option<usize> {
        let first = self.moments.front()?;
        let index = usize::try_from(tick.since(first.tick)).ok()?;
        (self.moments.get(index)?.tick == tick).then_some(index)
    }

    /// Who was its own entity at a tick.
    #[must_use]
    pub fn owner_at(&self, tick: Tick) -> Option<Entity> {
        self.moments.get(self.index(tick)?)?.owner
    }

    /// Where the view may have been centred, and whether that is all: else it may have been nowhere.
    fn centres(&self, index: usize) -> Option<(Vec<Metres>, bool)> {
        let moment = self.moments.get(index)?;
        let own = match (moment.own, &moment.last) {
            (Some(own), _) => vec![own],
            (None, Some(last)) => last.clone(),
            (None, None) => return None,
        };
        match moment.view.scope {
            Scope::Whole => None,
            Scope::Owner(_) => Some((own, moment.own.is_some() || moment.seen)),
            Scope::Camera(_) => {
                // A frame is served until the next one comes.
                let until_us = self.moments.get(index + 1).map_or(u64::MAX, |next| next.at_us);
                let from_us = moment.at_us.saturating_sub(CAMERA_WITHIN_US);
                let told = self.cameras.iter().enumerate();
                let current = told.filter(|(at, (told_us, _))| {
                    let over_us = self.cameras.get(at + 1).map_or(u64::MAX, |(next_us, _)| *next_us);
                    *told_us <= until_us && over_us >= from_us
                });
                let mut centres: Vec<Metres> = current.filter_map(|(_, (_, place))| *place).collect();
                let since_us = self.camera_since_us.map(|since| since.max(moment.films_since_us));
                let sure = since_us.is_some_and(|since| since < from_us);
                if !sure {
                    centres.extend(own);
                }
                Some((centres, sure))
            }
        }
    }

    /// Whether somebody who lives at a tick is in view.
    #[must_use]
    pub fn judge(&self, truth: &Truth, tick: Tick, entity: Entity) -> Verdict {
        let (Some(index), Some(frame)) = (self.index(tick), truth.frame(tick)) else {
            return Verdict::May;
        };
        let Some(moment) = self.moments.get(index) else {
            return Verdict::May;
        };
        if !matches!(truth.at(frame, entity), Fact::Alive(_)) {
            return Verdict::Never;
        }
        if moment.owner == Some(entity) {
            return Verdict::Must;
        }
        let tags = truth.tags_at(frame, entity);
        if tags != 0 && tags & moment.view.tags == 0 {
            return Verdict::Never;
        }
        let Some(range) = moment.view.scope.range() else {
            return Verdict::Must;
        };
        let Some(place) = truth.place_at(frame, entity) else {
            return Verdict::Never;
        };
        let Some((centres, sure)) = self.centres(index) else {
            return Verdict::May;
        };
        let (mut nearest, mut farthest) = (f64::INFINITY, 0.0f64);
        for centre in &centres {
            let far = distance(*centre, place);
            (nearest, farthest) = (nearest.min(far), farthest.max(far));
        }
        if nearest > range.leave_m() + SLACK_M {
            Verdict::Never
        } else if sure && farthest < range.enter_m() - SLACK_M {
            Verdict::Must
        } else {
            Verdict::May
        }
    }

    /// What a verdict is made of, for whoever reads a failure.
    #[must_use]
    pub fn explain(&self, truth: &Truth, tick: Tick, entity: Entity) -> String {
        let moment = self.index(tick).and_then(|index| self.moments.get(index));
        let (Some(moment), Some(frame)) = (moment, truth.frame(tick)) else {
            return "nothing is known of that tick".to_owned();
        };
        let (tags, place) = (truth.tags_at(frame, entity), truth.place_at(frame, entity));
        let centres = self.index(tick).and_then(|index| self.centres(index));
        let (view, owner) = (moment.view, moment.owner);
        format!(
            "its tags are {tags:b}, it is at {place:?}; {view:?} of owner {owner:?} is centred at {centres:?}"
        )
    }

    /// The most that may be said of somebody over the ticks in which the relay may have looked at it last before `tick`,
    /// that one included.
    #[must_use]
    pub fn judge_until(&self, truth: &Truth, tick: Tick, entity: Entity) -> Verdict {
        let Some(index) = self.index(tick) else {
            return Verdict::May;
        };
        let mut most = Verdict::Never;
        for moment in self.moments.iter().take(index + 1).rev() {
            most = most.max(self.judge(truth, moment.tick, entity));
            if most == Verdict::Must || (moment.looked && moment.tick != tick) {
                break;
            }
        }
        most
    }

    /// True when somebody may have been in view at some remembered tick until `tick`.
    #[must_use]
    pub fn ever(&self, truth: &Truth, tick: Tick, entity: Entity) -> bool {
        let Some(index) = self.index(tick) else {
            return true;
        };
        let mut past = self.moments.iter().take(index + 1).rev();
        past.any(|moment| self.judge(truth, moment.tick, entity) != Verdict::Never)
    }

    /// True when somebody was surely in view at all remembered ticks that a base may be of, until `tick`.
    #[must_use]
    pub fn always(&self, truth: &Truth, tick: Tick, entity: Entity) -> bool {
        let Some(index) = self.index(tick) else {
            return false;
        };
        let mut past = self.moments.iter().take(index + 1).rev().take(ARENA_FRAMES);
        past.all(|moment| self.judge(truth, moment.tick, entity) == Verdict::Must)
    }

    /// True when somebody's tags may have hidden it at some remembered tick until `tick`.
    #[must_use]
    pub fn ever_hidden(&self, truth: &Truth, tick: Tick, entity: Entity) -> bool {
        let Some(index) = self.index(tick) else {
            return true;
        };
        let mut past = self.moments.iter().take(index + 1).rev();
        past.any(|moment| {
            let Some(frame) = truth.frame(moment.tick) else {
                return true;
            };
            let tags = truth.tags_at(frame, entity);
            tags != 0 && tags & moment.view.tags == 0
        })
    }

    /// Notes which of the events that came with the last frames, of which `tick` is served, concern the session: number, tick
    /// and whom each is about.
    pub fn note_events(
        &mut self,
        now_us: u64,
        tick: Tick,
        truth: &Truth,
        events: &[(u64, Tick, Option<Entity>)],
    ) {
        for (number, of, entity) in events {
            let verdict = match entity {
                None => Verdict::Must,
                Some(entity) if *of == tick => self.judge_event(truth, tick, *entity),
                Some(entity) => self.judge_past(truth, *of, tick, *entity),
            };
            self.heard.push_back((*number, verdict, now_us));
        }
    }

    /// What is to become of an event of a frame that was not served itself: nothing where it was about a stranger then; who
    /// was in view from then on hears of it.
    fn judge_past(&self, truth: &Truth, of: Tick, served: Tick, entity: Entity) -> Verdict {
        let alive = truth
            .frame(of)
            .is_some_and(|frame| matches!(truth.at(frame, entity), Fact::Alive(_)));
        if !alive {
            return self.judge_event(truth, of, entity).min(Verdict::May);
        }
        let ticks = (0..=served.since(of).max(0).cast_unsigned()).map(|step| of.plus(step));
        let from_then_on = ticks.map(|tick| self.judge(truth, tick, entity)).min();
        match self.judge(truth, of, entity) {
            Verdict::Never if self.is_filmed(of) && !self.is_hidden(truth, of, entity) => Verdict::May,
            Verdict::Never => Verdict::Never,
            Verdict::May | Verdict::Must if from_then_on == Some(Verdict::Must) => Verdict::Must,
            Verdict::May | Verdict::Must => Verdict::May,
        }
    }

    /// True when the view at a tick was one of a camera: where that was then, the relay may have forgotten.
    fn is_filmed(&self, tick: Tick) -> bool {
        let moment = self.index(tick).and_then(|index| self.moments.get(index));
        moment.is_some_and(|moment| matches!(moment.view.scope, Scope::Camera(_)))
    }

    /// True when somebody's tags hide it at a tick.
    fn is_hidden(&self, truth: &Truth, tick: Tick, entity: Entity) -> bool {
        let moment = self.index(tick).and_then(|index| self.moments.get(index));
        let tags = truth.frame(tick).map(|frame| truth.tags_at(frame, entity));
        moment
            .zip(tags)
            .is_some_and(|(moment, tags)| tags != 0 && tags & moment.view.tags == 0)
    }

    fn judge_event(&self, truth: &Truth, tick: Tick, entity: Entity) -> Verdict {
        let alive = truth
            .frame(tick)
            .is_some_and(|frame| matches!(truth.at(frame, entity), Fact::Alive(_)));
        if alive {
            return self.judge(truth, tick, entity);
        }
        // It died: who saw it when it was looked at last hears of it, unless its id is another's by now.
        let before = tick.minus(1);
        let seen = self
            .index(before)
            .and_then(|index| self.moments.get(index))
            .is_some_and(|moment| moment.looked);
        if seen && !truth.is_replaced(entity) && self.judge(truth, before, entity) == Verdict::Must {
            return Verdict::Must;
        }
        let ended = truth
            .frame(tick)
            .and_then(|frame| truth.ended_tick(frame, entity));
        let stranger = ended.is_some_and(|ended| self.judge(truth, ended.minus(1), entity) == Verdict::Never);
        if stranger {
            return Verdict::Never;
        }
        self.judge_until(truth, tick, entity).min(Verdict::May)
    }

    /// Takes the events up to `number` off; those before it that were due since `since_us`, and what was to become of it.
    pub fn take_events(&mut self, stream: u32, number: u64, since_us: u64) -> (Vec<u64>, Option<Verdict>) {
        let mut missed = Vec::new();
        if stream != self.stream_epoch {
            return (missed, None);
        }
        while let Some((at, verdict, came_us)) = self.heard.front().copied()
            && at <= number
        {
            self.heard.pop_front();
            if at == number {
                return (missed, Some(verdict));
            }
            if verdict == Verdict::Must && came_us > since_us {
                missed.push(at);
            }
        }
        (missed, None)
    }

    /// Events that were due and have not come.
    #[must_use]
    pub fn due(&self, stream: u32, since_us: u64) -> Vec<u64> {
        if stream != self.stream_epoch {
            return Vec::new();
        }
        let due = self
            .heard
            .iter()
            .filter(|(_, verdict, came_us)| *verdict == Verdict::Must && *came_us > since_us);
        due.map(|(number, ..)| *number).collect()
    }

    /// Who must be shown at a tick.
    #[must_use]
    pub fn verdicts(&self, truth: &Truth, frame: &FrameFact) -> HashMap<Entity, Verdict, EntityHasher> {
        truth
            .living_at(frame)
            .map(|entity| (entity, self.judge(truth, frame.tick, entity)))
            .collect()
    }
}

fn distance(a: Metres, b: Metres) -> f64 {
    a.into_iter()
        .zip(b)
        .map(|(a, b)| (a - b) * (a - b))
        .sum::<f64>()
        .sqrt()
}
