//! A running relay: shards, ingest, admin. Skeleton: signatures stand, bodies follow.

use std::net::SocketAddr;
use std::time::Duration;

use super::settings::RelaySettings;

/// A running relay. Dropping it stops it.
pub struct RelayHandle {
    data: SocketAddr,
    admin: SocketAddr,
}

/// What a relay has used and sent since it began, summed over its shards. Totals only rise.
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
    /// Ticks taken in, holds included.
    pub ticks: u64,
}

impl RelayHandle {
    /// Binds the sockets and starts the threads.
    ///
    /// # Errors
    /// When an address cannot be bound or a thread cannot be started, in one sentence.
    pub fn start(_settings: RelaySettings) -> anyhow::Result<RelayHandle> {
        anyhow::bail!("not written yet")
    }

    /// Where clients connect.
    #[must_use]
    pub fn data_addr(&self) -> SocketAddr {
        self.data
    }

    /// Where the admin HTTP listens.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// True once the first keyframe is in.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        false
    }

    /// Waits until [`RelayHandle::is_ready`]; false when the time was up first.
    #[must_use]
    pub fn wait_ready(&self, _timeout: Duration) -> bool {
        false
    }

    /// What it has used so far.
    #[must_use]
    pub fn usage(&self) -> RelayUsage {
        RelayUsage::default()
    }

    /// The metrics as Prometheus text, as `/metrics` gives them.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        String::new()
    }

    /// Admits nobody from now on, tells the clients and lets them go. Returns at once.
    pub fn drain(&self) {}

    /// Waits until no session is open; false when the time was up first.
    #[must_use]
    pub fn wait_drained(&self, _timeout: Duration) -> bool {
        false
    }

    /// Stops the threads at once and waits for them. What was used in all.
    pub fn shutdown(self) -> RelayUsage {
        RelayUsage::default()
    }
}
