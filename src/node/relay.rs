//! A running relay: shards on their threads, the upstream, the admin.
//!
//! > [`start`](RelayHandle::start) binds and runs; [`drain`](RelayHandle::drain) lets clients go;
//! > [`shutdown`](RelayHandle::shutdown) ends the threads. Several relays run in one process: nothing is global.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use crossbeam::channel::bounded;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::admin;
use super::control::Control;
use super::directory::Directory;
use super::ingest::Ingest;
use super::intake::Intake;
use super::metrics::{IngestMetrics, RelayMetrics, ShardMetrics};
use super::players::{Caller, PlayerLine};
use super::post::Post;
use super::random::random;
use super::settings::RelaySettings;
use super::shard::{ShardLinks, ShardLoop};
use super::shelf::Shelf;
use super::status::RelayStatus;
use super::visitors::Visitors;
use crate::net::clock::{monotonic_ns, monotonic_us, unix_s};
use crate::net::socket::{ShardSocket, SocketOptions};
use crate::net::waker::Waker;
use crate::relay::admission::Census;
use crate::relay::gate::{Gate, Whereabouts};
use crate::relay::shard::{Shard, ShardLimits, ShardSettings};
use crate::wire::version::Versions;

/// A running relay. Dropping it stops it.
pub struct RelayHandle {
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
    runtime: Option<Runtime>,
    /// Who is let in; `None` in insecure mode.
    gate: Option<Arc<Gate>>,
    /// Dropped, it ends the upstream.
    stop: Option<watch::Sender<bool>>,
}

/// What a relay has used and sent since it began, summed over its shards; a tenth of a second old at the most.
/// Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayUsage {
    /// Processor time of the shard threads, nanoseconds.
    pub shard_cpu_ns: u64,
    /// Nanoseconds measured in encoding, and in sealing, of `packets_measured` datagrams.
    pub encode_ns: u64,
    /// See [`RelayUsage::encode_ns`].
    pub seal_ns: u64,
    /// Datagrams behind `encode_ns` and `seal_ns`.
    pub packets_measured: u64,
    /// Nanoseconds in send calls for `datagrams_sent`.
    pub send_ns: u64,
    /// Datagrams the kernel took.
    pub datagrams_sent: u64,
    /// Bytes of UDP payload handed to the kernel.
    pub bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Sessions open now.
    pub sessions: u64,
    /// Frames published, holds included.
    pub ticks: u64,
}

/// Questions that wait for one shard.
const QUERIES_MAX: usize = 16;
/// Time between two upkeeps of the metrics (FAULTS 51).
const UPKEEP: Duration = Duration::from_secs(5);
/// How often a waiting caller looks again.
const GLANCE: Duration = Duration::from_millis(2);

impl RelayHandle {
    /// Binds the sockets and starts the threads.
    ///
    /// # Errors
    /// A setting outside its bounds, an address that cannot be bound, or a thread that cannot be started, in one
    /// sentence.
    pub fn start(settings: RelaySettings) -> anyhow::Result<RelayHandle> {
        settings.validate()?;
        settings.check_admission()?;
        let sockets = bind(&settings)?;
        let listener = TcpListener::bind(settings.admin).with_context(|| {
            format!(
                "the admin address {} cannot be bound; choose a free one of this host",
                settings.admin
            )
        })?;
        listener.set_nonblocking(true)?;
        let listen = sockets.first().map_or(settings.listen, ShardSocket::local_addr);
        let settings = RelaySettings {
            listen,
            admin: listener.local_addr()?,
            ..settings
        };

        let status = Arc::new(RelayStatus::new(settings.shards, monotonic_us()));
        status.insecure.store(settings.is_insecure(), Ordering::Relaxed);
        status
            .sessions_max
            .store(settings.sessions_max as u64, Ordering::Relaxed);
        let (metrics, shard_metrics, ingest_metrics) = RelayMetrics::new(settings.shards);
        let wakers: Vec<Waker> = sockets.iter().map(|_| Waker::new()).collect::<Result<_, _>>()?;
        let shelf = Arc::new(Shelf::new(wakers.clone()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("ackline-control")
            .enable_all()
            .build()
            .context("the control threads cannot be started")?;
        let (stop, stopped) = watch::channel(false);
        let gate = settings.token_keys.clone().filter(|_| !settings.is_insecure());
        let whereabouts = Whereabouts {
            audience: settings.audience.clone(),
            addresses: settings.public_addresses.clone(),
        };
        // Keys of no file were made by this process: no relay had them before.
        let began_s = if settings.token_keys_file.is_empty() {
            0
        } else {
            unix_s()
        };
        let gate = gate.map(|keys| Arc::new(Gate::new(keys, whereabouts, began_s, unix_s)));
        let mut builder = Builder {
            settings,
            status,
            shelf,
            wakers,
            players: Arc::default(),
            gate,
            census: Arc::default(),
            threads: Vec::new(),
        };
        let status = Arc::clone(&builder.status);
        let started = builder
            .start_shards(sockets, metrics, shard_metrics)
            .and_then(|control| {
                builder.start_tasks(&runtime, &control, listener, ingest_metrics, stopped)?;
                Ok(control)
            });
        // Shards that run already end by themselves when the rest cannot be started.
        let control = started.inspect_err(|_| status.stopping.store(true, Ordering::Relaxed))?;
        Ok(RelayHandle {
            control,
            threads: builder.threads,
            runtime: Some(runtime),
            gate: builder.gate,
            stop: Some(stop),
        })
    }

    /// Where clients connect.
    #[must_use]
    pub fn data_addr(&self) -> SocketAddr {
        self.control.settings.listen
    }

    /// Where the admin HTTP listens.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.control.settings.admin
    }

    /// True once the first keyframe is in, and until a drain.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.control.status.is_ready()
    }

    /// Waits until [`RelayHandle::is_ready`]; false when the time was up first.
    #[must_use]
    pub fn wait_ready(&self, timeout: Duration) -> bool {
        wait_until(timeout, || self.is_ready())
    }

    /// True while every shard's loop turns.
    #[must_use]
    pub fn turns(&self) -> bool {
        self.control.status.stalled_shard(monotonic_us()).is_none()
    }

    /// How it is doing, in one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        self.control.status.sentence(monotonic_us())
    }

    /// What it has used so far.
    #[must_use]
    pub fn usage(&self) -> RelayUsage {
        self.control.status.usage()
    }

    /// The metrics as Prometheus text, as `/metrics` gives them.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.control.metrics_text()
    }

    /// Settings that changed while it runs: what is shown as in force follows those that take effect.
    pub fn reloaded(&self, in_force: &RelaySettings) {
        if let (Some(gate), Some(keys)) = (&self.gate, &in_force.token_keys) {
            gate.set_keys(keys.clone());
        }
        self.control.shown.store(Arc::new(in_force.shown()));
    }

    /// Counts a reload of the settings, and whether it was taken.
    pub fn count_reload(&self, taken: bool) {
        self.control.metrics.count_reload(taken);
    }

    /// Admits nobody from now on, tells the clients and lets them go. Returns at once.
    pub fn drain(&self) {
        self.control.drain();
    }

    /// Waits until no session is open; false when the time was up first.
    #[must_use]
    pub fn wait_drained(&self, timeout: Duration) -> bool {
        wait_until(timeout, || self.is_empty())
    }

    /// True when no session is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.control.status.sessions() == 0 && self.control.directory.is_empty()
    }

    /// Stops the threads at once and waits for them. What was used in all.
    pub fn shutdown(mut self) -> RelayUsage {
        self.stop();
        self.usage()
    }

    fn stop(&mut self) {
        self.stop = None;
        self.control.stop();
        for thread in self.threads.drain(..) {
            // A shard that panicked has ended the process already.
            let _ = thread.join();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

impl Drop for RelayHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

fn wait_until(timeout: Duration, reached: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !reached() {
        if begun.elapsed() >= timeout {
            return false;
        }
        std::thread::sleep(GLANCE);
    }
    true
}

/// Binds the shards' sockets and says what the system gave (FAULTS 103).
fn bind(settings: &RelaySettings) -> anyhow::Result<Vec<ShardSocket>> {
    let options = SocketOptions {
        reuse_port: true,
        receive_buffer_bytes: settings.receive_buffer_bytes,
        send_buffer_bytes: settings.send_buffer_bytes,
    };
    let sockets = ShardSocket::bind_group(settings.listen, settings.shards, options)?;
    if let Some(socket) = sockets.first() {
        let (receive, send) = (socket.granted_receive_bytes(), socket.granted_send_bytes());
        tracing::info!(receive, send, "socket buffers granted, bytes for each shard");
        if receive < settings.receive_buffer_bytes || send < settings.send_buffer_bytes {
            tracing::warn!(
                "the system gave smaller socket buffers than asked for: raise net.core.rmem_max and net.core.wmem_max"
            );
        }
    }
    Ok(sockets)
}

/// A relay that is being started.
struct Builder {
    settings: RelaySettings,
    status: Arc<RelayStatus>,
    shelf: Arc<Shelf>,
    wakers: Vec<Waker>,
    players: Arc<PlayerLine>,
    gate: Option<Arc<Gate>>,
    census: Arc<Census>,
    threads: Vec<JoinHandle<()>>,
}

impl Builder {
    fn start_shards(
        &mut self,
        sockets: Vec<ShardSocket>,
        metrics: Arc<RelayMetrics>,
        shard_metrics: Vec<ShardMetrics>,
    ) -> anyhow::Result<Arc<Control>> {
        let directory = Arc::new(Directory::default());
        let (post, inboxes) = Post::new(&self.wakers);
        let cookie_secret = random()?;
        let mut queries = Vec::new();
        let parts = sockets
            .into_iter()
            .zip(shard_metrics)
            .zip(inboxes)
            .zip(self.wakers.clone());
        for (index, (((socket, metrics), inbox), waker)) in parts.enumerate() {
            let (sender, receiver) = bounded(QUERIES_MAX);
            queries.push((sender, waker.clone()));
            let links = ShardLinks {
                waker,
                shelf: Arc::clone(&self.shelf),
                post: Arc::clone(&post),
                inbox,
                queries: receiver,
                directory: Arc::clone(&directory),
                players: Arc::clone(&self.players),
                status: Arc::clone(&self.status),
                metrics,
            };
            let spread_us = self.settings.drain_spread_s.saturating_mul(1_000_000);
            let shard = Shard::new(self.shard_settings(index, cookie_secret)?).with_drain_spread(spread_us);
            let thread = std::thread::Builder::new()
                .name(format!("ackline-shard-{index}"))
                .spawn(move || ShardLoop::new(index, shard, socket, links).run());
            self.threads
                .push(thread.context("a shard thread cannot be started")?);
        }
        let Builder { settings, status, .. } = self;
        let (settings, status) = (settings.clone(), Arc::clone(status));
        Ok(Arc::new(Control {
            shown: ArcSwap::from_pointee(settings.shown()),
            settings,
            status,
            metrics,
            directory,
            shards: queries,
            strangers: Mutex::default(),
        }))
    }

    fn shard_settings(&self, index: usize, cookie_secret: [u8; 32]) -> anyhow::Result<ShardSettings> {
        Ok(ShardSettings {
            egress_bytes_per_s: (self.settings.egress_bytes_per_s > 0).then(|| {
                self.settings
                    .egress_bytes_per_s
                    .div_ceil(self.settings.shards as u64)
            }),
            view: self.settings.view,
            index: u8::try_from(index)?,
            sessions_max: self.settings.sessions_max,
            budget: self.settings.budget(),
            gate: self.gate.clone(),
            versions: Versions::between(self.settings.protocol_min, u16::MAX)
                .context("protocol_min is no version that is spoken")?,
            limits: ShardLimits {
                limits: self.settings.limits,
                shards: self.settings.shards,
                census: Arc::clone(&self.census),
            },
            cookie_secret,
            seed: random()?,
            stopwatch: monotonic_ns,
        })
    }

    fn start_tasks(
        &self,
        runtime: &Runtime,
        control: &Arc<Control>,
        listener: TcpListener,
        metrics: IngestMetrics,
        stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let status = Arc::clone(&self.status);
        let intake =
            Intake::new(Arc::clone(&self.shelf), Arc::clone(&status)).with_tiers(self.settings.tiers());
        let upstream = (
            self.settings.upstream.clone(),
            self.settings.upstream_trust.clone(),
        );
        let token = self.settings.upstream_token.expose().to_vec();
        let shelf = Arc::clone(&self.shelf);
        let ingest = Ingest::new(
            upstream,
            token,
            intake,
            Caller::new(Arc::clone(&self.players), Arc::clone(&control.directory)),
            (shelf, status),
            metrics,
            stopped,
        );
        let seed = u64::from_le_bytes(random()?);
        let _context = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        runtime.spawn(ingest.run(seed));
        let router = admin::router(Arc::clone(control));
        runtime.spawn(async move { axum::serve(Visitors::new(listener), router).await });
        let metrics = Arc::clone(&control.metrics);
        runtime.spawn(async move {
            let mut due = tokio::time::interval(UPKEEP);
            due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                due.tick().await;
                metrics.run_upkeep();
            }
        });
        Ok(())
    }
}
