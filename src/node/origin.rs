//! A running origin: a recording or a scene, published by the clock to whoever subscribes.
//!
//! The clockwork is an OS thread on an absolute schedule; subscribers are tasks. Under one short lock a tick is
//! published to every queue, so no subscriber ever delays a tick or another (SPEC OPS1).

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use crossbeam::channel::{Receiver, Sender, bounded};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::clockwork::Clockwork;
use super::loggate::LogBurst;
use super::random::random;
use super::secret::SecretText;
use super::source::Source;
use super::subscription;
use super::tls::OriginIdentity;
use crate::limits::{EPOCH_MAX, HEARD_MAX, PLAYER_EVENTS_MAX, TRUTH_TICKS_MAX};
use crate::net::clock::{host_clock_id, monotonic_us};
use crate::origin::publisher::Publisher;
use crate::origin::subscribers::{SubscriberId, Subscribers};
use crate::state::coding::Coding;
use crate::state::frame::Frame;
use crate::state::player::PlayerEvent;
use crate::state::schema::Schema;
use crate::state::update::TickUpdate;
use crate::state::view::View;

/// What an origin publishes.
#[derive(Clone, Debug, PartialEq)]
pub enum OriginSource {
    /// A recording.
    Trace {
        /// The file.
        path: PathBuf,
        /// Goes round for ever.
        repeat: bool,
        /// Times real time, 0.1 to 10.
        speed: f64,
    },
    /// A simulated scene.
    #[cfg(feature = "scenes")]
    Scene {
        /// Which.
        kind: crate::scenes::SceneKind,
        /// Its size, rate and seed.
        settings: crate::scenes::SceneSettings,
    },
}

/// How an origin runs.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginSettings {
    /// TCP address for subscribers; port 0 for any free port.
    pub listen: SocketAddr,
    /// What it publishes.
    pub source: OriginSource,
    /// How its records become bits.
    pub coding: Coding,
    /// What subscribers must show; empty admits everybody.
    pub token: SecretText,
    /// How it proves itself to subscribers; `None`: the connections are plain.
    pub identity: Option<OriginIdentity>,
    /// The first tick waits for the first subscriber.
    pub wait_for_subscriber: bool,
    /// The view that players are assigned with their entity; `None`: the one that their relay is set to.
    pub view: Option<View>,
    /// Keeps every published tick for [`OriginHandle::truth`].
    pub tap: bool,
}

impl OriginSettings {
    /// An origin inside a test, demo or bench: loopback, a free port, with tap.
    #[must_use]
    pub fn loopback(source: OriginSource) -> OriginSettings {
        OriginSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            source,
            coding: Coding::Plain,
            token: SecretText::default(),
            identity: None,
            wait_for_subscriber: false,
            view: None,
            tap: true,
        }
    }
}

/// One published tick: what was said and the world after it.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The tick as published; `published_us` is the reading of [`monotonic_us`].
    pub update: Arc<TickUpdate>,
    /// The world after it.
    pub frame: Arc<Frame>,
}

/// What an origin heard of a player, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Reading of [`monotonic_us`].
    pub at_us: u64,
    /// What.
    pub event: PlayerEvent,
}

/// What an origin has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginCounts {
    /// Ticks published.
    pub ticks: u64,
    /// The most entities alive after a tick.
    pub entities_max: u64,
    /// Items left out with an error.
    pub refused: u64,
    /// Times the clockwork was late beyond catching up and the schedule was moved on.
    pub stalls: u64,
    /// Subscribers served now.
    pub subscribers: u64,
    /// Subscribers dropped because they were slow.
    pub dropped_slow: u64,
    /// Ticks that the tap had no room for.
    pub truth_lost: u64,
    /// Players there now.
    pub players: u64,
    /// Inputs heard of players.
    pub inputs: u64,
    /// Inputs that were told as lost.
    pub inputs_lost: u64,
    /// Directives for players, and those that had no room.
    pub directives: u64,
    /// See [`OriginCounts::directives`].
    pub directives_refused: u64,
    /// Things heard of players that the tap had no room for.
    pub heard_lost: u64,
}

/// A running origin. Dropping it stops it.
pub struct OriginHandle {
    addr: SocketAddr,
    schema: Arc<Schema>,
    stage: Arc<Stage>,
    truth: Option<Receiver<Truth>>,
    heard: Option<Receiver<Heard>>,
    clockwork: Option<JoinHandle<()>>,
    runtime: Option<Runtime>,
}

/// What the clockwork and the subscribers' tasks share.
pub(super) struct Stage {
    hub: Mutex<Hub>,
    /// Changes whenever queues have something new.
    pub(super) news: watch::Sender<u64>,
    pub(super) stopping: AtomicBool,
    finished: AtomicBool,
    /// Bounds what subscribers make the log say.
    pub(super) gate: Mutex<LogBurst>,
}

/// What is under the lock; never held while waiting.
pub(super) struct Hub {
    pub(super) publisher: Publisher,
    pub(super) subscribers: Subscribers,
    pub(super) counts: OriginCounts,
    pub(super) tap: Option<Sender<Truth>>,
    pub(super) heard: Option<Sender<Heard>>,
    /// What players did since the source heard last, with their subscriber.
    pub(super) waiting: VecDeque<(SubscriberId, PlayerEvent)>,
}

impl Hub {
    /// Takes in what players did, as it comes; more than [`PLAYER_EVENTS_MAX`] waits where it is.
    pub(super) fn hear(&mut self) {
        while self.waiting.len() < PLAYER_EVENTS_MAX
            && let Some((id, event)) = self.subscribers.next_player_event()
        {
            match &event {
                PlayerEvent::Joined(..) => self.counts.players += 1,
                PlayerEvent::Left(_) => self.counts.players -= 1,
                PlayerEvent::Input { .. } => self.counts.inputs += 1,
                PlayerEvent::InputsLost { count, .. } => self.counts.inputs_lost += u64::from(*count),
                PlayerEvent::Camera { .. } => {}
            }
            self.show_heard(core::slice::from_ref(&event));
            self.waiting.push_back((id, event));
        }
    }

    /// Shows the tap what was heard of players, as it comes in.
    pub(super) fn show_heard(&mut self, events: &[PlayerEvent]) {
        let Some(heard) = &self.heard else { return };
        let at_us = monotonic_us();
        for event in events {
            let event = event.clone();
            self.counts.heard_lost += u64::from(heard.try_send(Heard { at_us, event }).is_err());
        }
    }
}

impl Stage {
    /// The hub, also after a panic elsewhere: that ends the process by itself.
    pub(super) fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the tasks to look at their queues.
    pub(super) fn notify(&self) {
        self.news.send_modify(|turn| *turn = turn.wrapping_add(1));
    }

    /// The source has ended: everybody is told after what is queued.
    pub(super) fn finish(&self) {
        self.hub().subscribers.end(monotonic_us());
        self.finished.store(true, Ordering::Release);
        self.notify();
    }
}

impl OriginHandle {
    /// Loads the source, binds the address and starts publishing.
    ///
    /// # Errors
    /// When the source or the address is refused, in one sentence.
    pub fn start(settings: OriginSettings) -> anyhow::Result<OriginHandle> {
        let source = Source::open(&settings.source, settings.view)?;
        let listener = TcpListener::bind(settings.listen).with_context(|| {
            format!(
                "the origin's address {} cannot be bound; choose a free one of this host",
                settings.listen
            )
        })?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let boot = u64::from_le_bytes(random()?);
        let schema = Schema {
            coding: settings.coding.clone(),
            ..source.schema().clone()
        };
        let publisher = Publisher::new(schema, epoch_now(), boot, host_clock_id())?;
        let schema = Arc::clone(publisher.schema());
        let (tap, truth) = settings.tap.then(|| bounded(TRUTH_TICKS_MAX)).unzip();
        let (hears, heard) = settings.tap.then(|| bounded(HEARD_MAX)).unzip();
        let subscribers = Subscribers::new(settings.token.expose().to_vec());
        let stage = Arc::new(Stage {
            hub: Mutex::new(Hub {
                publisher,
                subscribers,
                counts: OriginCounts::default(),
                tap,
                heard: hears,
                waiting: VecDeque::new(),
            }),
            news: watch::Sender::new(0),
            stopping: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            gate: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("ackline-origin-subscribers")
            .enable_all()
            .build()
            .context("the threads of the origin cannot be started")?;
        let context = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(context);
        runtime.spawn(subscription::accept(
            Arc::clone(&stage),
            listener,
            settings.identity,
        ));
        let clockwork = Clockwork::new(Arc::clone(&stage), source, settings.wait_for_subscriber);
        let clockwork = std::thread::Builder::new()
            .name("ackline-origin-clock".to_owned())
            .spawn(move || clockwork.run())
            .context("the threads of the origin cannot be started")?;
        Ok(OriginHandle {
            addr,
            schema,
            stage,
            truth,
            heard,
            clockwork: Some(clockwork),
            runtime: Some(runtime),
        })
    }

    /// Where subscribers connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The schema of everything it publishes.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Every published tick, in order, from the first; `None` without [`OriginSettings::tap`]. Bounded: a tick is
    /// put in before it is sent to any subscriber, and is lost and counted when [`TRUTH_TICKS_MAX`] wait.
    #[must_use]
    pub fn truth(&self) -> Option<&Receiver<Truth>> {
        self.truth.as_ref()
    }

    /// What it hears of players, in order, from the first; `None` without [`OriginSettings::tap`]. Bounded: what comes when
    /// [`HEARD_MAX`] wait is lost here and counted.
    #[must_use]
    pub fn heard(&self) -> Option<&Receiver<Heard>> {
        self.heard.as_ref()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> OriginCounts {
        let hub = self.stage.hub();
        OriginCounts {
            subscribers: hub.subscribers.served() as u64,
            ..hub.counts
        }
    }

    /// True when the source has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stage.finished.load(Ordering::Acquire)
    }

    /// Waits for the first subscriber; false when the time was up first.
    #[must_use]
    pub fn wait_subscribed(&self, timeout: Duration) -> bool {
        wait_until(timeout, || self.stage.hub().subscribers.served() > 0)
    }

    /// Stops at once and waits for the threads. `end`: subscribers are told that the stream ends as intended;
    /// otherwise the connections break, as when an origin dies.
    pub fn stop(mut self, end: bool) -> OriginCounts {
        self.halt(end);
        self.counts()
    }

    fn halt(&mut self, end: bool) {
        self.stage.stopping.store(true, Ordering::Release);
        if let Some(clockwork) = self.clockwork.take() {
            clockwork.thread().unpark();
            // A clockwork that panicked has ended the process already.
            let _ = clockwork.join();
        }
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        if end {
            self.stage.finish();
            let _ = wait_until(Duration::from_secs(1), || {
                self.stage.hub().subscribers.ids().next().is_none()
            });
        }
        runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

impl Drop for OriginHandle {
    fn drop(&mut self) {
        self.halt(false);
    }
}

fn wait_until(timeout: Duration, reached: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !reached() {
        if begun.elapsed() >= timeout {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// An epoch that rises with every start: wall time in microseconds.
fn epoch_now() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).map_or(EPOCH_MAX, |epoch| epoch.min(EPOCH_MAX))
}
