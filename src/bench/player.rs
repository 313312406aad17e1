//! What one client of the bench does beside watching: it pushes inputs, moves its camera, and looks at what comes back of
//! its own entity.

use std::collections::VecDeque;

use super::inputs::{STAMP_BYTES, stamped};
use super::oracle::Oracle;
use super::series::{Series, SeriesSet};
use super::sight::{Point, Sight, place_of};
use super::surroundings::mix;
use super::truth::TruthReader;
use super::view::View;
use crate::client::session::Client;
#[cfg(feature = "scenes")]
use crate::scenes::heading::Heading;
#[cfg(feature = "scenes")]
use crate::scenes::input::{FIRE, Input, JUMP, STEALTH, length_of};
use crate::sequence::Tick;
use crate::state::view::Scope;

/// Time between two cameras, microseconds.
const CAMERA_EVERY_US: u64 = 100_000;
/// A camera crosses the range it enters in this time, seconds.
const CROSSES_IN_S: f64 = 4.0;
/// Inputs remembered until they are answered.
const UNANSWERED_MAX: usize = 1024;
/// An owner's state older than this at the end tells nothing of the last inputs, server microseconds.
const OWNER_FRESH_US: u64 = 500_000;

/// What a player counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerCounts {
    /// Inputs pushed.
    pub sent: u64,
    /// Inputs the client was told are lost.
    pub reported_lost: u64,
    /// Inputs of sessions that ended before the run: some may have been on their way.
    pub cut_off: u64,
    /// Times the owner's state named an input that is not there yet, or fewer than before, or at the end not the last.
    pub wrong_processed: u64,
    /// States of owners compared.
    pub owners_checked: u64,
}

impl PlayerCounts {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &PlayerCounts) {
        self.sent += other.sent;
        self.reported_lost += other.reported_lost;
        self.cut_off += other.cut_off;
        self.wrong_processed += other.wrong_processed;
        self.owners_checked += other.owners_checked;
    }
}

/// The active side of one session.
#[derive(Debug)]
pub struct Player {
    seed: u64,
    /// What its play is drawn from.
    style: u64,
    /// Time between two inputs, microseconds; `None` for none.
    every_us: Option<u64>,
    next_us: u64,
    pushed: u32,
    processed: u32,
    /// When each input was pushed that no state has yet, oldest first.
    unanswered: VecDeque<(u32, u64)>,
    stream: u32,
    owner_tick: Option<Tick>,
    camera: Option<Course>,
    camera_us: u64,
    counts: PlayerCounts,
}

/// A camera on its way to a seeded place.
#[derive(Clone, Copy, Debug)]
struct Course {
    at: Point,
    to: Point,
    speed: f64,
}

impl Player {
    /// A player that pushes `input_hz` inputs a second, none for 0.
    #[must_use]
    pub fn new(seed: u64, input_hz: f64) -> Player {
        Player {
            seed: mix(seed),
            style: mix(seed ^ 3),
            every_us: (input_hz > 0.0).then_some((1e6 / input_hz) as u64),
            next_us: 0,
            pushed: 0,
            processed: 0,
            unanswered: VecDeque::new(),
            stream: 0,
            owner_tick: None,
            camera: None,
            camera_us: 0,
            counts: PlayerCounts::default(),
        }
    }

    /// When it has something to do; `until_us` is when it pushes its last input.
    #[must_use]
    pub fn due_us(&self, until_us: u64) -> u64 {
        let input_us = self.every_us.map_or(u64::MAX, |_| self.next_us);
        let input_us = if input_us < until_us { input_us } else { u64::MAX };
        let camera_us = self.camera.map_or(u64::MAX, |_| self.camera_us);
        input_us.min(camera_us)
    }

    /// Does what is due in a session that has begun; number and payload of an input that was pushed.
    pub fn turn(
        &mut self,
        now_us: u64,
        until_us: u64,
        client: &mut Client,
        sight: &mut Sight,
        reader: &TruthReader,
    ) -> Option<(u32, Payload)> {
        let pushed = self.push_inputs(now_us, until_us, client);
        if now_us >= self.camera_us {
            self.camera_us = now_us + CAMERA_EVERY_US;
            self.move_camera(now_us, client, sight, reader);
        }
        pushed
    }

    fn push_inputs(&mut self, now_us: u64, until_us: u64, client: &mut Client) -> Option<(u32, Payload)> {
        let every_us = self.every_us?;
        if now_us < self.next_us || now_us >= until_us {
            return None;
        }
        // Who is late pushes one, as a game that missed a frame does.
        let late_us = now_us - self.next_us;
        self.next_us = if late_us > every_us { now_us } else { self.next_us } + every_us;
        let number = self.pushed + 1;
        let payload = match client.schema().map(|schema| schema.name.as_str()) {
            Some("arena" | "crowd") => scene_input(self.style, number, every_us),
            _ => Payload::Stamp(stamped(number, now_us)),
        };
        if client.push_input(&payload.bytes()) == Ok(number) {
            self.pushed = number;
            self.counts.sent += 1;
            if self.unanswered.len() >= UNANSWERED_MAX {
                self.unanswered.pop_front();
            }
            self.unanswered.push_back((number, now_us));
            return Some((number, payload));
        }
        None
    }

    /// Moves the camera of a client that may.
    fn move_camera(&mut self, now_us: u64, client: &mut Client, sight: &mut Sight, reader: &TruthReader) {
        let Some(Scope::Camera(range)) = sight.assigned().map(|assigned| assigned.view.scope) else {
            self.camera = None;
            return;
        };
        let Some(to) = self.wish(client, reader) else {
            return;
        };
        let speed = range.enter_m() / CROSSES_IN_S;
        let course = self.camera.get_or_insert(Course { at: to, to, speed });
        course.speed = speed;
        if !course.advance(CAMERA_EVERY_US as f64 / 1e6) {
            course.to = to;
        }
        if client.set_camera(course.at).is_ok() {
            sight.point(now_us, course.at);
        }
    }

    /// Somewhere between two entities of the world.
    fn wish(&mut self, client: &Client, reader: &TruthReader) -> Option<Point> {
        let schema = client.schema()?;
        let mut draw = |count: usize| {
            self.seed = mix(self.seed);
            usize::try_from(self.seed % count.max(1) as u64).unwrap_or(0)
        };
        let mut one = || match reader.newest() {
            Some(truth) => {
                let (_, record) = truth.frame.records().nth(draw(truth.frame.live()))?;
                place_of(schema, record)
            }
            None => {
                let display = client.display();
                let (_, record, _) = display.records().nth(draw(display.live()))?;
                place_of(schema, &record)
            }
        };
        let (one, other) = (one()?, one()?);
        Some([0, 1, 2].map(|axis: usize| f64::midpoint(one[axis], other[axis])))
    }

    /// The client was told that inputs are lost.
    pub fn lose(&mut self, count: u32) {
        self.counts.reported_lost += u64::from(count);
    }

    /// Looks at the newest state of the client's own entity, which came at `now_us`.
    pub fn look(
        &mut self,
        now_us: u64,
        client: &Client,
        view: &View,
        oracle: &mut Oracle,
        series: &mut SeriesSet,
    ) {
        let Some(owner) = client.owner() else { return };
        if self.owner_tick == Some(owner.tick) {
            return;
        }
        self.owner_tick = Some(owner.tick);
        // Another stream's origin may have to be told anew.
        if core::mem::replace(&mut self.stream, client.stream_epoch()) != client.stream_epoch() {
            self.processed = 0;
        }
        let is_wrong = owner.processed > self.pushed || owner.processed < self.processed;
        self.processed = owner.processed;
        let answered = self
            .unanswered
            .partition_point(|(number, _)| *number <= owner.processed);
        for (_, pushed_us) in self.unanswered.drain(..answered) {
            series.record(Series::InputAnswered, now_us.saturating_sub(pushed_us));
        }
        self.counts.wrong_processed += u64::from(is_wrong);
        let checked = oracle.check_owner(view, owner.server_us, owner.slot, &owner.record);
        self.counts.owners_checked += u64::from(checked);
    }

    /// The session is over; `last`: at the end of the run, when all that was pushed must be in the owner's state.
    pub fn finish(&mut self, client: &Client, last: bool) -> PlayerCounts {
        let mut counts = core::mem::take(&mut self.counts);
        if !last {
            counts.cut_off = counts.sent;
            return counts;
        }
        let newest_us = client.newest().map_or(0, |newest| newest.server_us);
        if let Some(owner) = client.owner()
            && owner.server_us + OWNER_FRESH_US >= newest_us
        {
            let lost = u32::try_from(counts.reported_lost).unwrap_or(u32::MAX);
            // The last may be among the lost.
            let is_right = (self.pushed.saturating_sub(lost)..=self.pushed).contains(&owner.processed);
            counts.wrong_processed += u64::from(!is_right);
        }
        counts
    }
}

impl Course {
    /// Goes on for `seconds`; false once it is there.
    fn advance(&mut self, seconds: f64) -> bool {
        let way = [0, 1, 2].map(|axis: usize| self.to[axis] - self.at[axis]);
        let length = way.iter().map(|part| part * part).sum::<f64>().sqrt();
        let step = self.speed * seconds;
        if length <= step {
            self.at = self.to;
            return false;
        }
        for (at, part) in self.at.iter_mut().zip(way) {
            *at += part / length * step;
        }
        true
    }
}

/// One input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Its number and time.
    Stamp([u8; STAMP_BYTES]),
    /// One that the scene understands.
    #[cfg(feature = "scenes")]
    Scene(Input),
}

impl Payload {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Payload::Stamp(bytes) => bytes.to_vec(),
            #[cfg(feature = "scenes")]
            Payload::Scene(input) => input.encode().to_vec(),
        }
    }
}

/// Inputs for which a player keeps its direction.
#[cfg(feature = "scenes")]
const STRETCH: u32 = 24;

/// How a player of a scene plays: it runs one way for a while, turns as it goes, shoots in bursts, jumps now and then,
/// hides in one stretch of sixteen.
#[cfg(feature = "scenes")]
pub(super) fn scene_input(style: u64, number: u32, every_us: u64) -> Payload {
    let stretch = mix(style ^ u64::from(number / STRETCH));
    let [x, y, low, high, turn, fire, hide, _] = stretch.to_le_bytes();
    let (ahead, within) = (mix(stretch ^ u64::from(number)), number % STRETCH);
    let turned = u32::from(turn).wrapping_mul(within) as u16;
    let mut buttons = 0;
    if fire < 96 && within < STRETCH / 2 {
        buttons |= FIRE;
    }
    if ahead.is_multiple_of(40) {
        buttons |= JUMP;
    }
    if hide < 16 {
        buttons |= STEALTH;
    }
    let input = Input {
        motion: [x, y].map(|part| part.cast_signed().max(-127)),
        heading: Heading(u16::from_le_bytes([low, high]).wrapping_add(turned)),
        buttons,
        length: length_of(every_us),
    };
    Payload::Scene(input)
}

/// Without scenes there is nobody to understand their inputs: a stamp will do.
#[cfg(not(feature = "scenes"))]
fn scene_input(_style: u64, number: u32, _every_us: u64) -> Payload {
    Payload::Stamp(stamped(number, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_goes_straight_and_stops_where_it_should() {
        let mut course = Course {
            at: [0.0; 3],
            to: [3.0, 4.0, 0.0],
            speed: 2.0,
        };
        assert!(course.advance(1.0) && course.advance(1.0));
        assert!((course.at[0] - 2.4).abs() < 1e-9 && (course.at[1] - 3.2).abs() < 1e-9);
        assert!(!course.advance(1.0));
        assert_eq!(course.at, course.to);
    }
}
