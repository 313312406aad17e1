//! A running origin: a trace or a scene, published by the clock. Skeleton: signatures stand, bodies follow.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::Receiver;

use crate::state::frame::Frame;
use crate::state::schema::Schema;
use crate::state::update::TickUpdate;

/// What an origin publishes.
#[derive(Clone, Debug, PartialEq)]
pub enum OriginSource {
    /// A recording.
    Trace {
        /// The file.
        path: PathBuf,
        /// Goes round for ever.
        repeat: bool,
        /// Times real time; above 0.
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
    /// What subscribers must show; empty admits everybody.
    pub token: Vec<u8>,
    /// The first tick waits for the first subscriber.
    pub wait_for_subscriber: bool,
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
            token: Vec::new(),
            wait_for_subscriber: false,
            tap: true,
        }
    }
}

/// One published tick: what was said and the world after it.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The tick as published; `published_us` is the reading of [`monotonic_us`](crate::net::clock::monotonic_us).
    pub update: Arc<TickUpdate>,
    /// The world after it.
    pub frame: Arc<Frame>,
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
}

/// A running origin. Dropping it stops it.
pub struct OriginHandle {
    addr: SocketAddr,
}

impl OriginHandle {
    /// Loads the source, binds the address and starts publishing.
    ///
    /// # Errors
    /// When the source or the address is refused, in one sentence.
    pub fn start(_settings: OriginSettings) -> anyhow::Result<OriginHandle> {
        anyhow::bail!("not written yet")
    }

    /// Where subscribers connect.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The schema of everything it publishes.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        unimplemented!()
    }

    /// Every published tick, in order, from the first; `None` without [`OriginSettings::tap`]. Bounded: a tick is
    /// put in before it is sent to any subscriber, and is lost and counted when 1024 wait.
    #[must_use]
    pub fn truth(&self) -> Option<&Receiver<Truth>> {
        None
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> OriginCounts {
        OriginCounts::default()
    }

    /// True when the source has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        false
    }

    /// Waits for the first subscriber; false when the time was up first.
    #[must_use]
    pub fn wait_subscribed(&self, _timeout: Duration) -> bool {
        false
    }

    /// Stops at once and waits for the threads. `end`: subscribers are told that the stream ends as intended;
    /// otherwise the connections break, as when an origin dies.
    pub fn stop(self, _end: bool) -> OriginCounts {
        OriginCounts::default()
    }
}
