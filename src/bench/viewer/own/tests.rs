#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

//! Ten virtual minutes of one player of an arena behind a relay, over a way of 100 ms there and back that loses one datagram
//! in twenty.

use super::*;
use crate::bench::player::{Payload, scene_input};
use crate::bench::viewer::{RenderSettings, Viewer};
use crate::client::session::SessionState;
use crate::client::settings::ClientSettings;
use crate::delta::schema;
use crate::impairment::link::Link;
use crate::impairment::settings::ImpairmentSettings;
use crate::origin::publisher::Publisher;
use crate::relay::budget::Budget;
use crate::relay::outbox::{MemoryOutbox, Path};
use crate::relay::shard::{Shard, ShardSettings};
use crate::scenes::{Scene, SceneKind, SceneSettings};
use crate::state::view::View;
use crate::state::world::World;
use crate::wire::version::Versions;
use std::sync::Arc;

const MAP: ArenaMap = ArenaMap { bots: 16, seed: 3 };
const HZ: f64 = 60.0;
const EVERY_US: u64 = 16_666;
/// Draws come so long after inputs.
const DRAWS_AFTER_US: u64 = 7_000;
const TURN_US: u64 = 1_000;
const ONE_WAY_US: u64 = 50_000;
const MINUTE_US: u64 = 60_000_000;

/// Scene, relay, links, client and viewer on one clock.
struct Ride {
    now_us: u64,
    scene: Scene,
    publisher: Publisher,
    world: World,
    schema_bytes: Vec<u8>,
    shard: Shard,
    tray: MemoryOutbox,
    down: Link,
    up: Link,
    client: Client,
    viewer: Viewer,
    /// Time between two inputs.
    every_us: u64,
    series: SeriesSet,
    ticks: u64,
    pushed: u32,
    push_us: u64,
    draw_us: u64,
    /// Where each input was predicted to lead, and in which segment.
    foreseen: VecDeque<(u32, u32, [f64; 3])>,
    owner_tick: Option<Tick>,
    /// When, and how far what was foreseen was off.
    off: Vec<(u64, f64)>,
}

impl Ride {
    /// A scene of so many ticks a second, and so many inputs a second.
    fn new(loss: f64, hz: f64, input_hz: f64) -> Ride {
        let settings = SceneSettings {
            entities: Some(MAP.bots),
            hz,
            seed: MAP.seed,
        };
        let mut scene = Scene::new(SceneKind::Arena, &settings).unwrap();
        scene.set_view(View::WHOLE);
        let publisher = Publisher::new(scene.schema(), 1, 2, 3).unwrap();
        let link = ImpairmentSettings {
            loss,
            delay_us: ONE_WAY_US,
            ..ImpairmentSettings::default()
        };
        let render = RenderSettings {
            fps: HZ,
            arena: Some(MAP),
        };
        Ride {
            now_us: 0,
            world: World::new(Arc::new(scene.schema()), 1, 520),
            schema_bytes: schema::encode(&scene.schema()).unwrap(),
            scene,
            publisher,
            shard: Shard::new(ShardSettings {
                egress_bytes_per_s: None,
                view: View::WHOLE,
                index: 0,
                sessions_max: 2,
                versions: Versions::SPOKEN,
                limits: Default::default(),
                budget: Budget::default(),
                gate: None,
                cookie_secret: [1; 32],
                seed: [2; 32],
                stopwatch: || 0,
            }),
            tray: MemoryOutbox::default(),
            down: Link::new(link, 11),
            up: Link::new(link, 12),
            client: Client::new(ClientSettings::default(), [7; 16], 0),
            viewer: Viewer::new(&render, input_hz, false),
            every_us: (1e6 / input_hz) as u64,
            series: SeriesSet::default(),
            ticks: 0,
            pushed: 0,
            push_us: 0,
            draw_us: 0,
            foreseen: VecDeque::new(),
            owner_tick: None,
            off: Vec::new(),
        }
    }

    fn run(&mut self, until_us: u64, plays: bool) {
        while self.now_us < until_us {
            self.turn(plays);
            self.now_us += TURN_US;
        }
    }

    fn turn(&mut self, plays: bool) {
        let period_us = u64::from(self.publisher.schema().tick_period_us);
        if self.now_us >= self.ticks * period_us {
            self.tick();
        }
        self.relay();
        self.hear();
        let joined = self.client.state() == SessionState::Connected && self.client.newest().is_some();
        if joined && plays && self.now_us >= self.push_us {
            self.push_us = self.push_us.max(self.now_us - self.now_us % TURN_US) + self.every_us;
            self.draw_us = self.now_us + DRAWS_AFTER_US;
            self.push();
        }
        if self.now_us >= self.draw_us {
            self.draw_us = u64::MAX;
            self.viewer.turn(self.now_us, None, true, &mut self.series);
        }
        if !plays {
            self.draw_us = self.draw_us.min(self.now_us + EVERY_US);
        }
        let mut datagram = Vec::new();
        while self.client.poll_transmit(self.now_us, &mut datagram) {
            self.up.send(self.now_us, &datagram);
        }
    }

    /// The origin's next tick, and what it means to the relay.
    fn tick(&mut self) {
        let mut said = Vec::new();
        self.shard.take_player_events(&mut said);
        said.into_iter().for_each(|event| self.scene.hear(0, event));
        let sample = self.scene.next();
        let mut directives = Vec::new();
        self.scene.take_directives(&mut directives);
        let mut update = self.publisher.publish(&sample, 0).update;
        update.directives = directives.into_iter().map(|(_, directive)| directive).collect();
        self.ticks += 1;
        let frame = self.world.advance(Tick(self.ticks as u32), &update).unwrap();
        self.shard.publish(frame, &self.schema_bytes);
    }

    fn relay(&mut self) {
        let path = Path {
            remote: ([127, 0, 0, 1], 4_000).into(),
            local: None,
        };
        let mut datagram = Vec::new();
        while self.up.poll(self.now_us, &mut datagram).is_some() {
            self.shard
                .receive(self.now_us, path, &mut datagram, &mut self.tray);
        }
        while self.shard.transmit(self.now_us, &mut self.tray) {}
        self.shard.timers(self.now_us, &mut self.tray);
        for (_, datagram) in self.tray.sent.drain(..) {
            self.down.send(self.now_us, &datagram);
        }
    }

    fn hear(&mut self) {
        let mut datagram = Vec::new();
        while self.down.poll(self.now_us, &mut datagram).is_some() {
            self.client.receive(self.now_us, &mut datagram);
            self.viewer.receive(&self.client, self.now_us, true);
            while self.client.poll_event().is_some() {}
            self.compare();
        }
    }

    fn push(&mut self) {
        self.pushed += 1;
        let payload = scene_input(5, self.pushed, self.every_us);
        let Payload::Scene(input) = payload else {
            unreachable!("an arena has inputs of its own")
        };
        assert_eq!(self.client.push_input(&input.encode()), Ok(self.pushed));
        self.viewer.pushed(self.pushed, &payload, self.now_us);
        if let Some(prediction) = self.prediction() {
            let pose = prediction.state().pose;
            self.foreseen
                .push_back((self.pushed, pose.segment, pose.position));
        }
    }

    /// What was foreseen of the input that the newest owner's state ends with, beside that state.
    fn compare(&mut self) {
        let Some(owner) = self.client.owner() else { return };
        if self.owner_tick.replace(owner.tick) == Some(owner.tick) {
            return;
        }
        while self
            .foreseen
            .front()
            .is_some_and(|(number, ..)| *number < owner.processed)
        {
            self.foreseen.pop_front();
        }
        let foreseen = self.foreseen.front().copied();
        if let Some((_, segment, place)) = foreseen.filter(|(number, ..)| *number == owner.processed)
            && segment == owner.record.segment
            && let Some(motion) = &owner.record.motion
        {
            let real = Measure::new(self.publisher.schema()).pose(motion).position;
            self.off.push((self.now_us, distance(place, real)));
        }
    }

    fn prediction(&self) -> Option<&Prediction<Footing>> {
        self.viewer.own.as_ref()?.prediction()
    }

    /// What of those off in a time is at a share of all of them, metres.
    fn off_at(&self, share: f64, from_us: u64, to_us: u64) -> f64 {
        let those = self
            .off
            .iter()
            .filter(|(at_us, _)| (from_us..to_us).contains(at_us));
        let mut off: Vec<f64> = those.map(|(_, off)| *off).collect();
        off.sort_by(f64::total_cmp);
        off[((off.len() - 1) as f64 * share) as usize]
    }
}

/// SPEC PRE1, PRE2, PRE3: with prediction an input is in the next frame, without it a way there and back later at the
/// earliest; what is corrected is drawn smoothly; and after ten minutes the prediction is no further off than after one, and
/// the origin's own state in the end.
#[test]
fn pre1_pre3_ten_minutes_of_an_arena_are_predicted_without_drift() {
    let mut ride = Ride::new(0.05, HZ, HZ);
    ride.run(10 * MINUTE_US, true);
    let at = |series, share| ride.series.quantile(series, share).unwrap();
    let predicted_us = [0.5, 1.0].map(|share| at(Series::InputPredicted, share));
    let confirmed_us = [0.0, 0.5].map(|share| at(Series::InputPicture, share));
    println!("microseconds predicted {predicted_us:?}, confirmed {confirmed_us:?}");
    assert!(predicted_us[1] <= EVERY_US, "at most one frame");
    assert!(
        confirmed_us[0] >= 2 * ONE_WAY_US,
        "at least the way there and back"
    );

    let minutes = [0, 9].map(|minute| (minute * MINUTE_US, (minute + 1) * MINUTE_US));
    let [first, last] = minutes.map(|(from, to)| [0.5, 0.99].map(|share| ride.off_at(share, from, to)));
    println!("metres off, half and 99 of 100: at first {first:?}, at last {last:?}");
    // The steps of the schema are 2 mm and 3 cm/s.
    assert!(first[0] < 0.005 && last[0] < 0.005);
    assert!(last[1] < first[1] * 1.5, "no worse after ten minutes");

    ride.run(10 * MINUTE_US + 2_000_000, false);
    let figures = ride.viewer.own.as_ref().unwrap().figures();
    println!("{figures:?}");
    assert_eq!((figures.snapped, figures.stalled), (0, 0));
    assert!(
        figures.states > 30_000 && figures.jumped > 0,
        "it lived, died and was thrown"
    );
    assert!(figures.jump_max_um < 200_000, "{figures:?}");

    let prediction = ride.prediction().unwrap();
    assert_eq!(prediction.pending().count(), 0);
    let walker = prediction.state();
    let world = ride.publisher.world();
    let (_, record) = world.record(walker.entity).unwrap();
    let real = Measure::new(world.schema()).pose(record.motion.as_ref().unwrap());
    assert_eq!(walker.pose.position, real.position, "equal in the end");
    assert_eq!(prediction.error().length_m(), 0.0);
}

/// SPEC PRE2, PRE3: at any rate of inputs on any rate of ticks an input lasts as long at the origin as it did in the prediction: what
/// is corrected are throws, deaths and doors, and not the beat of two rates.
#[test]
fn pre2_inputs_and_ticks_of_two_rates_are_not_corrected() {
    for (hz, input_hz) in [(20.0, 30.0), (20.0, 60.0), (30.0, 20.0), (60.0, 30.0)] {
        let mut ride = Ride::new(0.0, hz, input_hz);
        ride.run(2 * MINUTE_US, true);
        let figures = ride.viewer.own.as_ref().unwrap().figures();
        println!("{input_hz} inputs on {hz} ticks: {figures:?}");
        let (states, off) = (figures.states, figures.smoothed + figures.snapped);
        assert!(states as f64 > 0.9 * hz * 115.0, "{states}");
        assert!(off * 20 < states, "{off} of {states} moved the picture");
        assert!(ride.off_at(0.9, 0, 2 * MINUTE_US) < 0.01);
    }
}
