//! What one client may know of a tick, as far as can be told from what it was told and has sent.
//!
//! A relay gives a session its view from some tick on; its client hears of that sooner or later than of the tick. A
//! camera is known to the relay later than it was sent. So near a change both sides of it count, and an answer has three
//! values: what [`Sees::Never`] is a leak whoever looks, what is [`Sees::Surely`] and does not come is missing
//! whoever looks, what lies between is free.

use std::collections::VecDeque;

use super::truth::{TruthFrame, TruthReader};
use crate::delta::message::Assigned;
use crate::state::entity::Entity;
use crate::state::record::Record;
use crate::state::schema::Schema;
use crate::state::view::{Scope, Tags, View};

/// A client hears of its view at most this long after the first tick of it, server microseconds.
pub(super) const HEARD_WITHIN_US: u64 = 3_000_000;
/// Snapshots under the view before may come for this long after the next was heard of, server microseconds.
const GOES_ON_US: u64 = 500_000;
/// A relay knows a camera at most this long after it was sent, microseconds.
const CAMERA_LATE_US: u64 = 2_000_000;
/// Cameras remembered: those of eight seconds, at 20 a second.
const CAMERAS_MAX: usize = 160;
/// Views remembered.
const TOLD_MAX: usize = 8;
/// What distances may differ by beside a step of the position, metres: a relay reckons in whole centimetres.
const SLACK_M: f64 = 0.02;

/// Whether a client sees an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// It must.
    Surely,
    /// It may.
    Perhaps,
    /// It must not.
    Never,
}

/// A point in metres.
pub type Point = [f64; 3];

/// Where a record's entity is.
#[must_use]
pub fn place_of(schema: &Schema, record: &Record) -> Option<Point> {
    let steps = record.motion?.position;
    Some([0, 1, 2].map(|axis: usize| schema.position[axis].metres(steps[axis])))
}

/// What a client was told of its view and has said of its camera.
#[derive(Debug, Default)]
pub struct Sight {
    /// With the server time at which each was heard.
    told: VecDeque<(u64, Assigned)>,
    /// The client's stream when the last was heard.
    told_stream: u32,
    /// With the time at which each was sent.
    cameras: VecDeque<(u64, Point)>,
    /// Where the own entity was found last, and in which frame.
    own: Option<(Entity, u64, Point)>,
    /// The tier of the own entity.
    tier: u8,
    /// Some view is not the whole world.
    bounded: bool,
    /// How often it was told a view.
    times: u64,
    /// It was never without a view of its own.
    never_whole: bool,
}

impl Sight {
    /// The client was told its entity and view in this stream of the relay's, when its newest snapshot was of `server_us`.
    pub fn tell(&mut self, stream: u32, server_us: u64, assigned: Assigned) {
        self.told_stream = stream;
        if self.told.len() >= TOLD_MAX {
            self.told.pop_front();
        }
        self.times += 1;
        self.bounded |= !assigned.view.is_whole();
        self.told.push_back((server_us, assigned));
    }

    /// The client was told the tier of its entity.
    pub fn tell_tier(&mut self, tier: u8) {
        self.tier = tier;
    }

    /// The client sends a camera.
    pub fn point(&mut self, now_us: u64, camera: Point) {
        if self.cameras.len() >= CAMERAS_MAX {
            self.cameras.pop_front();
        }
        self.cameras.push_back((now_us, camera));
    }

    /// The first snapshot of a stream came: server times begin anew. The view stays; so does the entity, where that was
    /// told in this stream.
    pub fn new_stream(&mut self, stream: u32, is_first: bool) {
        if let Some((_, last)) = self.told.pop_back() {
            let entity = last.entity.filter(|_| self.told_stream == stream);
            self.told.clear();
            self.told.push_back((0, Assigned { entity, ..last }));
            self.never_whole |= !is_first;
        }
        (self.own, self.tier) = (None, 0);
    }

    /// As if the whole world had never been its view.
    #[cfg(test)]
    pub(super) fn forget_whole(&mut self) {
        self.never_whole = true;
    }

    /// What was told last.
    #[must_use]
    pub fn assigned(&self) -> Option<Assigned> {
        self.told.back().map(|(_, assigned)| *assigned)
    }

    /// How often something was told.
    #[must_use]
    pub fn told_times(&self) -> u64 {
        self.times
    }

    /// True when anything may be outside of the view.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// True when this is its own entity, by what was told last.
    #[must_use]
    pub fn owns(&self, entity: Entity) -> bool {
        self.assigned()
            .is_some_and(|assigned| assigned.entity == Some(entity))
    }

    /// How many ticks the relay may be behind with the own entity.
    #[must_use]
    pub fn lag(&self) -> u64 {
        (1 << self.tier) - 1
    }

    /// What the client may know of a frame by a snapshot that came at `now_us`: a relay that is late with the frame looks from
    /// where the camera is by then.
    pub fn outlook(&mut self, reader: &TruthReader, truth: &TruthFrame, now_us: u64) -> Outlook<'_> {
        let server_us = truth.server_us();
        let mut arounds = [None; TOLD_MAX + 1];
        let first_us = self.told.front().map_or(u64::MAX, |(heard_us, _)| *heard_us);
        // Before it was told anything a client has the whole world.
        if !self.never_whole && server_us <= first_us.saturating_add(GOES_ON_US) {
            arounds[TOLD_MAX] = Some(Around::new(Assigned::default(), None, truth));
        }
        for (index, around) in arounds.iter_mut().enumerate().take(self.told.len()) {
            let (heard_us, assigned) = self.told[index];
            let next_us = self
                .told
                .get(index + 1)
                .map_or(u64::MAX, |(heard_us, _)| *heard_us);
            let from_us = heard_us.saturating_sub(HEARD_WITHIN_US);
            if (from_us..=next_us.saturating_add(GOES_ON_US)).contains(&server_us) {
                let own = match assigned.view.scope {
                    Scope::Whole => None,
                    Scope::Owner(_) | Scope::Camera(_) => self.own_at(reader, truth, assigned.entity),
                };
                *around = Some(Around::new(assigned, own, truth));
            }
        }
        let at_us = truth.published_us.unwrap_or(now_us);
        let known = self
            .cameras
            .partition_point(|(sent_us, _)| sent_us + CAMERA_LATE_US < at_us);
        let sent = self
            .cameras
            .partition_point(|(sent_us, _)| *sent_us <= now_us.max(at_us));
        // The last that is surely known counts until a later one is.
        let from = known.saturating_sub(1);
        Outlook {
            arounds,
            cameras: &self.cameras,
            from,
            until: sent.max(from),
            is_first: known == 0,
        }
    }

    /// Where the own entity is, or was last; and whether it is there.
    fn own_at(
        &mut self,
        reader: &TruthReader,
        truth: &TruthFrame,
        entity: Option<Entity>,
    ) -> Option<(Point, bool)> {
        let schema = &truth.frame.schema;
        let in_frame = |truth: &TruthFrame| {
            let (_, record) = reader.find(truth, entity?)?;
            place_of(schema, record)
        };
        if let Some(place) = in_frame(truth) {
            self.own = entity.map(|entity| (entity, truth.number, place));
            return Some((place, true));
        }
        // It is gone: where it was last counts on.
        let (known, number, _) = self.own?;
        if Some(known) == entity {
            let later = (number + 1..truth.number)
                .rev()
                .filter_map(|number| reader.numbered(number))
                .find_map(|truth| Some((truth.number, in_frame(truth)?)));
            if let Some((number, place)) = later {
                self.own = Some((known, number, place));
            }
        }
        self.own.map(|(_, _, place)| (place, false))
    }
}

/// One view at a frame.
#[derive(Clone, Copy, Debug)]
struct Around {
    entity: Option<Entity>,
    view: View,
    /// Where the own entity is or was, and whether it is there.
    own: Option<(Point, bool)>,
    /// Within this distance an entity is surely in range, beyond that surely out of it; squares of metres.
    inside: f64,
    outside: f64,
}

impl Around {
    fn new(assigned: Assigned, own: Option<(Point, bool)>, truth: &TruthFrame) -> Around {
        let steps = truth.frame.schema.position.iter().map(|axis| axis.step);
        let slack = SLACK_M + steps.fold(0.0, f64::max);
        let (enter, leave) = assigned
            .view
            .scope
            .range()
            .map_or((0.0, 0.0), |range| (range.enter_m(), range.leave_m()));
        Around {
            entity: assigned.entity,
            view: assigned.view,
            own,
            inside: (enter - slack).max(0.0).powi(2),
            outside: (leave + slack).powi(2),
        }
    }

    /// By the distance of `place` from one centre.
    fn from(&self, centre: Point, place: Point) -> Sees {
        let [x, y, z] = [0, 1, 2].map(|axis: usize| centre[axis] - place[axis]);
        let square = x * x + y * y + z * z;
        if square > self.outside {
            Sees::Never
        } else if square < self.inside {
            Sees::Surely
        } else {
            Sees::Perhaps
        }
    }

    fn around_own(&self, place: Point) -> Sees {
        match self.own {
            None => Sees::Never,
            Some((centre, true)) => self.from(centre, place),
            Some((centre, false)) => match self.from(centre, place) {
                Sees::Never => Sees::Never,
                Sees::Perhaps | Sees::Surely => Sees::Perhaps,
            },
        }
    }
}

impl Sees {
    /// One of two answers holds, and it is not known which.
    #[must_use]
    pub fn or(self, other: Sees) -> Sees {
        if self == other { self } else { Sees::Perhaps }
    }
}

/// What a client may know of one frame.
#[derive(Debug)]
pub struct Outlook<'a> {
    arounds: [Option<Around>; TOLD_MAX + 1],
    cameras: &'a VecDeque<(u64, Point)>,
    from: usize,
    until: usize,
    /// No camera is surely known to the relay.
    is_first: bool,
}

impl Outlook<'_> {
    /// Whether the client sees an entity with these tags at this place.
    #[must_use]
    pub fn sees(&self, entity: Entity, tags: Tags, place: Option<Point>) -> Sees {
        let mut answers = self
            .arounds
            .iter()
            .flatten()
            .map(|around| self.sees_by(around, entity, tags, place));
        let first = answers.next().unwrap_or(Sees::Perhaps);
        answers.fold(first, Sees::or)
    }

    /// Whether the client may see an entity with these tags, wherever it is.
    #[must_use]
    pub fn permits(&self, entity: Entity, tags: Tags) -> Sees {
        let mut answers = self.arounds.iter().flatten().map(|around| {
            if around.entity == Some(entity) || around.view.permits(tags) {
                Sees::Surely
            } else {
                Sees::Never
            }
        });
        let first = answers.next().unwrap_or(Sees::Perhaps);
        answers.fold(first, Sees::or)
    }

    fn sees_by(&self, around: &Around, entity: Entity, tags: Tags, place: Option<Point>) -> Sees {
        if around.entity == Some(entity) {
            return Sees::Surely;
        }
        if !around.view.permits(tags) {
            return Sees::Never;
        }
        let place = match (around.view.scope, place) {
            (Scope::Whole, _) => return Sees::Surely,
            // Where it is nobody has said.
            (_, None) => return Sees::Perhaps,
            (_, Some(place)) => place,
        };
        if matches!(around.view.scope, Scope::Owner(_)) {
            return around.around_own(place);
        }
        let mut answers = self
            .cameras
            .range(self.from..self.until)
            .map(|(_, camera)| around.from(*camera, place));
        let Some(first) = answers.next() else {
            return around.around_own(place);
        };
        let seen = answers.fold(first, Sees::or);
        if self.is_first {
            seen.or(around.around_own(place))
        } else {
            seen
        }
    }
}
