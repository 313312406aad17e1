//! From the synthetic world to the relay's frames: ticks, stalls, lost connections, restarts.
//!
//! It does what a relay's ingest does: an update becomes the next frame, a stall is bridged by frames that repeat
//! the last, a new run of the origin becomes a new stream epoch. In some seeds every tick goes in metres through
//! the publisher, its bytes and the subscriber, and must come out as it was.

use std::sync::Arc;

use super::dice::Dice;
use super::director::Director;
use super::scenario::{Scenario, StallKind};
use super::truth::Truth;
use super::world::SimWorld;
use crate::delta::schema;
use crate::limits::ARENA_FRAMES;
use crate::origin::publisher::Publisher;
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::sample::{ExtraSample, Sample, WorldSample};
use crate::state::schema::Schema;
use crate::state::update::TickUpdate;
use crate::state::world::World;
use crate::upstream::subscriber::{Subscriber, SubscriberEvent};

/// Least time without a tick before the first frame that repeats the last, microseconds.
const HOLD_AFTER_US: u64 = 100_000;
/// Time between two such frames in the first second, and later.
const HOLD_FIRST_US: u64 = 100_000;
const HOLD_LATER_US: u64 = 1_000_000;

/// The way from origin to relay.
pub struct Upstream {
    seed: u64,
    scenario: Arc<Scenario>,
    origin: SimWorld,
    bytes: Option<Bytes>,
    world: World,
    /// What the oracle knows.
    pub truth: Truth,
    /// The origin's side of the players.
    pub director: Director,
    /// The world is at rest for good: its last frame is repeated often.
    pub quiet: bool,
    schema_bytes: Vec<u8>,
    stream_epoch: u32,
    next_tick: Tick,
    flow: Flow,
    step_us: u64,
    next_step_us: u64,
    heard_us: u64,
    hold_us: u64,
    backlog: Vec<TickUpdate>,
    complaints: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    Stalled { kind: StallKind, until_us: u64 },
}

impl Upstream {
    /// The upstream of a scenario before its first tick, at virtual time 0.
    #[must_use]
    pub fn new(scenario: &Arc<Scenario>) -> Upstream {
        let seed = scenario.seed;
        let origin = origin(scenario, 1);
        let bytes = scenario.through_bytes.then(|| Bytes::new(seed, origin.schema()));
        let mut upstream = Upstream {
            seed,
            world: World::new(Arc::clone(origin.schema()), 1, quarantine()),
            bytes,
            origin,
            scenario: Arc::clone(scenario),
            truth: Truth::default(),
            director: Director::new(scenario),
            quiet: false,
            schema_bytes: Vec::new(),
            stream_epoch: 0,
            next_tick: scenario.first_tick,
            flow: Flow::Open,
            step_us: 0,
            next_step_us: 0,
            heard_us: 0,
            hold_us: 0,
            backlog: Vec::new(),
            complaints: Vec::new(),
        };
        upstream.begin_stream();
        upstream
    }

    /// The canonical schema of the newest frame's stream.
    #[must_use]
    pub fn schema_bytes(&self) -> &[u8] {
        &self.schema_bytes
    }

    /// What the newest stream's records hold.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.origin.schema()
    }

    /// Ordinal of the newest stream.
    #[must_use]
    pub fn stream_epoch(&self) -> u32 {
        self.stream_epoch
    }

    /// What went wrong upstream since the last call, in a sentence each.
    pub fn take_complaints(&mut self) -> Vec<String> {
        core::mem::take(&mut self.complaints)
    }

    /// A stall begins; none while another lasts.
    pub fn stall(&mut self, now_us: u64, kind: StallKind, length_us: u64) {
        if self.flow == Flow::Open {
            self.flow = Flow::Stalled {
                kind,
                until_us: now_us + length_us,
            };
        }
    }

    /// When [`run`](Upstream::run) has something to do.
    #[must_use]
    pub fn next_us(&self) -> u64 {
        let steps = match self.flow {
            Flow::Stalled {
                kind: StallKind::Pause | StallKind::Restart,
                until_us,
            } => until_us,
            Flow::Stalled { until_us, .. } => self.next_step_us.min(until_us),
            Flow::Open => self.next_step_us,
        };
        steps.min(self.hold_us)
    }

    /// Does what is due; frames to publish go to `out`.
    pub fn run(&mut self, now_us: u64, out: &mut Vec<Arc<Frame>>) {
        if let Flow::Stalled { kind, until_us } = self.flow
            && now_us >= until_us
        {
            self.flow = Flow::Open;
            self.resume(now_us, kind, out);
        }
        match self.flow {
            Flow::Open if now_us >= self.next_step_us => {
                let update = self.step(now_us);
                self.deliver(now_us, update, out);
            }
            Flow::Stalled {
                kind: StallKind::Backlog,
                ..
            } if now_us >= self.next_step_us => {
                let update = self.step(now_us);
                self.backlog.push(update);
            }
            Flow::Stalled {
                kind: StallKind::Reconnect,
                ..
            } if now_us >= self.next_step_us => {
                // Nobody hears it.
                self.step(now_us);
            }
            _ => {}
        }
        if now_us >= self.hold_us {
            self.hold(now_us, out);
        }
    }

    /// The stall is over.
    fn resume(&mut self, now_us: u64, kind: StallKind, out: &mut Vec<Arc<Frame>>) {
        match kind {
            StallKind::Pause => {}
            StallKind::Backlog => {
                for update in core::mem::take(&mut self.backlog) {
                    self.deliver(now_us, update, out);
                }
            }
            StallKind::Reconnect => {
                let update = match &mut self.bytes {
                    Some(bytes) => bytes.connect(&mut self.complaints),
                    None => Some(self.origin.keyframe()),
                };
                if let Some(update) = update {
                    self.deliver(now_us, update, out);
                }
            }
            StallKind::Restart => {
                self.origin = origin(&self.scenario, u64::from(self.stream_epoch) + 1);
                self.world = World::new(
                    Arc::clone(self.origin.schema()),
                    self.stream_epoch + 1,
                    quarantine(),
                );
                if let Some(bytes) = &mut self.bytes {
                    bytes.restart(self.origin.schema());
                }
                (self.step_us, self.next_step_us) = (now_us, now_us);
                self.begin_stream();
            }
        }
    }

    fn begin_stream(&mut self) {
        self.stream_epoch += 1;
        self.truth.begin_stream(self.stream_epoch, self.origin.schema());
        self.director.begin_stream();
        match schema::encode(self.origin.schema()) {
            Ok(bytes) => self.schema_bytes = bytes,
            Err(error) => self.complaints.push(format!("the schema was refused: {error}")),
        }
    }

    /// The origin makes a tick; what arrives of it at the relay.
    fn step(&mut self, now_us: u64) -> TickUpdate {
        let update = self.origin.step(now_us - self.step_us);
        self.step_us = now_us;
        self.next_step_us = now_us + self.origin.interval_us();
        let listens = !matches!(
            self.flow,
            Flow::Stalled {
                kind: StallKind::Reconnect,
                ..
            }
        );
        match &mut self.bytes {
            Some(bytes) => {
                let sample = sample(&update, self.origin.quaternions(), self.origin.schema());
                let arrived = bytes.publish(&sample, &update, listens, &mut self.complaints);
                arrived.unwrap_or(update)
            }
            None => update,
        }
    }

    /// An update reaches the relay.
    fn deliver(&mut self, now_us: u64, mut update: TickUpdate, out: &mut Vec<Arc<Frame>>) {
        let tick = self.next_tick;
        self.director
            .direct(now_us, &self.truth, self.origin.schema(), &mut update.directives);
        let Some(frame) = self.world.advance(tick, &update) else {
            return self
                .complaints
                .push(format!("the relay's world refused tick {tick}"));
        };
        self.next_tick = tick.next();
        self.complaints.extend(
            self.world
                .refused()
                .iter()
                .map(|refusal| format!("the relay's world: {refusal}")),
        );
        self.truth.publish(tick, &update, now_us);
        self.truth.note_tenants(&frame);
        if frame.live() != self.truth.living().len() {
            let (live, living) = (frame.live(), self.truth.living().len());
            self.complaints
                .push(format!("frame {tick} has {live} entities where {living} live"));
        }
        out.push(frame);
        self.heard_us = now_us;
        let period_us = u64::from(self.origin.schema().tick_period_us);
        self.hold_us = now_us + HOLD_AFTER_US.max(3 * period_us);
    }

    /// Nothing came: the last frame again, so that losses heal and joiners complete.
    fn hold(&mut self, now_us: u64, out: &mut Vec<Arc<Frame>>) {
        let waited_us = now_us - self.heard_us;
        self.hold_us = now_us
            + if self.quiet || waited_us < 1_000_000 {
                HOLD_FIRST_US
            } else {
                HOLD_LATER_US
            };
        if self.truth.newest().is_none() {
            return;
        }
        let lost = matches!(
            self.flow,
            Flow::Stalled {
                kind: StallKind::Reconnect | StallKind::Restart,
                ..
            }
        );
        let tick = self.next_tick;
        self.next_tick = tick.next();
        out.push(self.world.hold(tick, lost || waited_us >= 1_000_000));
        self.truth.hold(tick, now_us);
    }

    /// Compares the oracle with what the origin means now; to be asked while nothing is under way.
    pub fn compare_origin(&mut self) {
        let Some(frame) = self.truth.newest().copied() else {
            return;
        };
        for body in self.origin.bodies() {
            let fact = self.truth.at(&frame, body.entity);
            let meant = body.record();
            if fact != super::truth::Fact::Alive(&meant) {
                let (seed, entity) = (self.seed, body.entity);
                self.complaints.push(format!(
                    "seed {seed}: the origin means {meant:?} of {entity}, the oracle knows {fact:?}"
                ));
            }
        }
    }
}

fn quarantine() -> u32 {
    u32::try_from(ARENA_FRAMES).unwrap_or(u32::MAX) + 8
}

fn origin(scenario: &Scenario, stream: u64) -> SimWorld {
    let Scenario {
        seed,
        world,
        through_bytes,
        server_start_us,
        ..
    } = *scenario;
    SimWorld::new(seed, stream, world, through_bytes, server_start_us)
}

/// An update in metres again, as a game would have given it.
fn sample(update: &TickUpdate, quaternions: &[[f64; 4]], schema: &Schema) -> WorldSample {
    let mut sample = WorldSample {
        tags: update.tags.clone(),
        server_us: update.server_us,
        despawned: update.despawned.clone(),
        spawned: update.spawned.clone(),
        events: update.events.clone(),
        ..WorldSample::default()
    };
    let rate = |rate: Option<&crate::state::schema::Rate>, steps: [i32; 3]| {
        rate.map_or([0.0; 3], |rate| steps.map(|step| rate.value(step)))
    };
    for (observation, rotation) in update.observed.iter().zip(quaternions) {
        let Some(motion) = observation.motion else {
            continue;
        };
        let mut position = [0.0; 3];
        for ((metres, axis), q) in position.iter_mut().zip(&schema.position).zip(motion.position) {
            *metres = axis.metres(q).min(axis.max);
        }
        sample.observed.push(Sample {
            entity: observation.entity,
            segment: observation.segment,
            observed_us: motion.observed_us,
            position,
            rotation: *rotation,
            velocity: rate(schema.velocity.as_ref(), motion.velocity),
            angular: rate(schema.angular.as_ref(), motion.angular),
            at_rest: motion.at_rest,
        });
    }
    for extras in &update.extras {
        for (field, declared) in schema.extras.iter().enumerate() {
            if extras.mask >> field & 1 == 1 {
                let value = declared.value(extras.values[field]);
                sample.extras.push(ExtraSample {
                    entity: extras.entity,
                    field,
                    value,
                });
            }
        }
    }
    sample
}

/// Publisher and subscriber with bytes in between.
struct Bytes {
    dice: Dice,
    epoch: u64,
    publisher: Publisher,
    subscriber: Subscriber,
    connected: bool,
    events: Vec<SubscriberEvent>,
}

impl Bytes {
    fn new(seed: u64, schema: &Schema) -> Bytes {
        Bytes {
            dice: Dice::new(seed, "bytes", 0),
            epoch: 1,
            publisher: publisher(schema, 1),
            subscriber: Subscriber::new(Vec::new()),
            connected: false,
            events: Vec::new(),
        }
    }

    fn restart(&mut self, schema: &Schema) {
        self.epoch += 1;
        self.publisher = publisher(schema, self.epoch);
        self.connected = false;
    }

    /// Publishes a tick and gives it as it arrives; nothing arrives while there is no connection.
    fn publish(
        &mut self,
        sample: &WorldSample,
        meant: &TickUpdate,
        listens: bool,
        complaints: &mut Vec<String>,
    ) -> Option<TickUpdate> {
        let published = self.publisher.publish(sample, meant.published_us);
        complaints.extend(
            published
                .errors
                .iter()
                .map(|error| format!("the publisher: {error}")),
        );
        if published.update != *meant {
            complaints.push(format!("the publisher made {:?} of {meant:?}", published.update));
        }
        if !listens {
            self.connected = false;
            return None;
        }
        if !self.connected {
            return self.connect(complaints);
        }
        self.pass(&published.message?, complaints)
    }

    /// Begins a connection: hello, keyframe.
    fn connect(&mut self, complaints: &mut Vec<String>) -> Option<TickUpdate> {
        self.connected = true;
        self.subscriber.disconnected(&mut self.events);
        let _subscribe = self.subscriber.start();
        let hello = self.publisher.hello();
        self.pass(&hello, complaints);
        let keyframe = self.publisher.keyframe();
        self.pass(&keyframe, complaints)
    }

    /// Passes bytes in pieces, as TCP would, and gives the tick that they held.
    fn pass(&mut self, bytes: &[u8], complaints: &mut Vec<String>) -> Option<TickUpdate> {
        let (first, second) = bytes.split_at(self.dice.index(bytes.len()));
        self.subscriber.receive(first, &mut self.events);
        self.subscriber.receive(second, &mut self.events);
        let mut update = None;
        for event in self.events.drain(..) {
            match event {
                SubscriberEvent::Tick(tick) => update = Some(tick),
                SubscriberEvent::Stream(_) => {}
                other => complaints.push(format!("the subscriber: {other:?}")),
            }
        }
        update
    }
}

fn publisher(schema: &Schema, epoch: u64) -> Publisher {
    Publisher::new(schema.clone(), epoch, epoch, 0).expect("a drawn schema is within its bounds")
}
