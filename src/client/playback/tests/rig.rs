//! A stream in virtual time, a way, and a playback that is looked at in each frame.

use std::collections::BTreeMap;

use crate::client::playback::clock::{ClockMode, Transition};
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::{Drawn, Playback};
use crate::state::coding::Coding;
use crate::state::entity::Entity;
use crate::state::record::{Motion, Record};
use crate::state::rotation::Rotation;
use crate::state::schema::{Axis, Class, Rate, Schema};

/// A schema with room for minutes of motion, steps of a millimetre, a critical and a decorative class.
pub(in crate::client::playback) fn schema() -> Schema {
    let class = |name: &str, query_critical| Class {
        name: name.into(),
        query_critical,
    };
    Schema {
        coding: Coding::Plain,
        name: "playback".into(),
        version: 1,
        tick_period_us: 50_000,
        on_change: false,
        position: [Axis::new(-100_000.0, 100_000.0, 0.001).unwrap(); 3],
        rotation_bits: 15,
        velocity: Some(Rate::new(100.0, 0.01).unwrap()),
        angular: Some(Rate::new(10.0, 0.01).unwrap()),
        extras: Vec::new(),
        classes: vec![
            class("target", true),
            class("occluder", true),
            class("decoration", false),
        ],
    }
}

/// A motion along x under [`schema`].
pub(in crate::client::playback) fn motion(at_us: u64, x: f64, v: f64) -> Motion {
    let axis = Axis::new(-100_000.0, 100_000.0, 0.001).unwrap();
    let middle = axis.quantise("y", 0.0).unwrap();
    Motion {
        observed_us: at_us,
        position: [axis.quantise("x", x).unwrap(), middle, middle],
        rotation: Rotation::identity(15),
        velocity: [(v / 0.01).round() as i32, 0, 0],
        angular: [0; 3],
        at_rest: false,
    }
}

/// A record of entity `id`, born at 0, with a motion.
pub(in crate::client::playback) fn record(id: u32, motion: Motion) -> Record {
    let mut record = Record::born(Entity { id, generation: 0 }, 0, 0);
    record.motion = Some(motion);
    record
}

/// Metres a second of what moves.
pub(super) const SPEED: f64 = 4.0;

/// Where it is; it begins anew every 10,000 seconds.
pub(super) fn truth(server_us: u64) -> f64 {
    (server_us % 10_000_000_000) as f64 / 1e6 * SPEED - 50_000.0
}

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) now_us: u64,
    pub(super) r_us: Option<u64>,
    pub(super) mode: ClockMode,
    pub(super) generation: u32,
    pub(super) drawn: Option<Drawn>,
}

/// The fate of the packet of a tick: when it arrives after it was sent, or never.
pub(super) type Way = Box<dyn FnMut(u64) -> Option<u64>>;

pub(super) struct Rig {
    pub(super) playback: Playback,
    pub(super) schema: Schema,
    pub(super) now_us: u64,
    pub(super) frame_us: u64,
    /// Server time minus local time, at local time 0.
    pub(super) lead_us: i64,
    /// Drift of the server's clock against the local one, parts in a million.
    pub(super) ppm: i64,
    pub(super) period_us: u64,
    /// Of how many ticks entity 1 is observed in one.
    pub(super) divisor: u64,
    pub(super) next_us: u64,
    tick: u64,
    pub(super) way: Way,
    under_way: BTreeMap<(u64, u64), (u64, bool)>,
    entered: bool,
    pub(super) epoch: u32,
    /// The fastest that r may move.
    pub(super) rate_max: f64,
    pub(super) frames: Vec<Frame>,
    pub(super) turns: Vec<(u64, Transition)>,
}

impl Rig {
    pub(super) fn new(way: Way) -> Rig {
        Rig::with(PlaybackSettings::default(), schema(), way)
    }

    pub(super) fn with(settings: PlaybackSettings, schema: Schema, way: Way) -> Rig {
        let mut playback = Playback::new(settings);
        playback.begin_stream(1, &schema);
        playback.take_complete_view();
        Rig {
            playback,
            period_us: u64::from(schema.tick_period_us),
            schema,
            now_us: 0,
            frame_us: 16_667,
            lead_us: 5_000_000,
            ppm: 0,
            divisor: 1,
            next_us: 5_000_000,
            tick: 0,
            way,
            under_way: BTreeMap::new(),
            entered: false,
            epoch: 1,
            rate_max: 1.05,
            frames: Vec::new(),
            turns: Vec::new(),
        }
    }

    pub(super) fn server_us(&self, local_us: u64) -> u64 {
        let drift = local_us as i64 / 1_000_000 * self.ppm;
        local_us.saturating_add_signed(self.lead_us + drift)
    }

    /// A server that begins anew, at its time 0.
    pub(super) fn restart(&mut self) {
        self.epoch += 1;
        self.under_way.clear();
        self.entered = false;
        self.lead_us = -(self.now_us as i64);
        (self.next_us, self.tick) = (0, 0);
        self.playback.begin_stream(self.epoch, &self.schema);
        self.playback.take_complete_view();
    }

    fn send(&mut self, until_us: u64) {
        while self.next_us <= self.server_us(until_us) {
            let sent_us = until_us.saturating_sub(self.server_us(until_us) - self.next_us);
            let observed = self.tick.is_multiple_of(self.divisor);
            if let Some(way_us) = (self.way)(sent_us) {
                self.under_way
                    .insert((sent_us + way_us, self.tick), (self.next_us, observed));
            }
            self.next_us += self.period_us;
            self.tick += 1;
        }
    }

    fn deliver(&mut self, until_us: u64) {
        while let Some(entry) = self.under_way.first_entry() {
            let (arrives_us, _) = *entry.key();
            if arrives_us > until_us {
                return;
            }
            let (server_us, observed) = entry.remove();
            self.playback.take_snapshot(server_us, arrives_us);
            if observed {
                let mut record = record(1, motion(server_us, truth(server_us), SPEED));
                record.tier = self.divisor.trailing_zeros() as u8;
                if !self.entered {
                    self.playback.take_entered(0, &record, server_us);
                    self.entered = true;
                }
                self.playback.take_record(0, &record);
            }
        }
    }

    /// Time passes without frames; packets are taken.
    pub(super) fn sleep(&mut self, sleep_us: u64) {
        self.now_us += sleep_us;
        self.send(self.now_us);
        self.deliver(self.now_us);
    }

    /// Draws frames for a time, checking what holds for every one.
    pub(super) fn run(&mut self, run_us: u64) {
        let end_us = self.now_us + run_us;
        while self.now_us < end_us {
            let passed_us = self.frame_us;
            self.sleep(passed_us);
            self.frame(passed_us);
        }
    }

    pub(super) fn frame(&mut self, passed_us: u64) {
        self.playback.frame(self.now_us);
        while let Some(turn) = self.playback.poll_turn() {
            self.turns.push((self.now_us, turn));
        }
        let frame = Frame {
            now_us: self.now_us,
            r_us: self.playback.r_us(),
            mode: self.playback.mode(),
            generation: self.playback.generation(),
            drawn: self.playback.drawn().next(),
        };
        self.check(&frame, passed_us);
        self.frames.push(frame);
    }

    /// SPEC PLY3: r does not fall, and moves at its greatest rate at most but for jumps, which are told; what is valid is true.
    fn check(&self, frame: &Frame, passed_us: u64) {
        if let (Some(before), Some(r_us)) = (self.frames.last(), frame.r_us)
            && let Some(before_us) = before.r_us
            && (before.generation == frame.generation)
        {
            assert!(r_us >= before_us, "{before:?} {frame:?}");
            let most_us = (passed_us as f64 * self.rate_max).ceil() as u64 + 1;
            assert!(r_us - before_us <= most_us, "{before:?} {frame:?}");
        }
        if let Some(drawn) = frame.drawn.filter(|drawn| drawn.at.valid_at_r) {
            let error = drawn.at.pose.unwrap().position[0] - truth(frame.r_us.unwrap());
            assert!(error.abs() < 0.002, "{error} {frame:?}");
        }
    }

    /// How far r is behind the server, beside the way, microseconds, where the newest frame began: there the rules compare
    /// it with its target (SPEC PLY3).
    pub(super) fn behind_us(&self, way_us: u64) -> i64 {
        let frame = self.frames.last().unwrap();
        let behind_us = self.server_us(frame.now_us) as i64 - way_us as i64 - frame.r_us.unwrap() as i64;
        behind_us + self.frame_us as i64
    }

    /// The turns since `from_us`, by name.
    pub(super) fn turns_since(&self, from_us: u64) -> Vec<&'static str> {
        let since = self.turns.iter().filter(|(at_us, _)| *at_us >= from_us);
        since
            .map(|(_, turn)| match turn {
                Transition::Waits(_) => "waits",
                Transition::Anchored { .. } => "anchored",
                Transition::Froze { .. } => "froze",
                Transition::Resumed { .. } => "resumed",
            })
            .collect()
    }

    /// Time of frames since `from_us` in which playback was in a mode.
    pub(super) fn time_in(&self, mode: ClockMode, from_us: u64) -> u64 {
        let frames = self
            .frames
            .iter()
            .filter(|frame| frame.now_us >= from_us && frame.mode == mode);
        frames.count() as u64 * self.frame_us
    }

    /// The least and the greatest speed of what is drawn, as multiples of its own, from frame to frame since `from_us`.
    pub(super) fn speeds(&self, from_us: u64) -> (f64, f64) {
        let x = |frame: &Frame| Some(frame.drawn?.at.pose?.position[0]);
        let pairs = self.frames.iter().zip(self.frames.iter().skip(1));
        let speeds = pairs
            .filter(|(before, _)| before.now_us >= from_us)
            .filter_map(|(before, frame)| {
                let passed_s = (frame.now_us - before.now_us) as f64 / 1e6;
                Some((x(frame)? - x(before)?) / passed_s / SPEED)
            });
        speeds.fold((f64::MAX, f64::MIN), |(least, most), speed| {
            (least.min(speed), most.max(speed))
        })
    }
}

/// A small generator of numbers that repeat by their seed (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True so often in a hundred.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
