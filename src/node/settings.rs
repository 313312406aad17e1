//! Settings of a relay: one list that is flags, `ACKLINE_*` variables and a TOML file alike.
//!
//! Precedence: flag, then environment, then file, then default.

use std::net::SocketAddr;

/// What a relay runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySettings {
    /// UDP address for clients; port 0 for any free port.
    pub listen: SocketAddr,
    /// HTTP address for operators; port 0 for any free port.
    pub admin: SocketAddr,
    /// Origins as `host:port`, tried in order.
    pub upstream: Vec<String>,
    /// What the origin knows this relay by; may be empty.
    pub upstream_token: String,
    /// Shard threads, 1 to 64.
    pub shards: usize,
    /// Sessions of all shards together.
    pub sessions_max: usize,
    /// Bytes a second that one session may be sent.
    pub budget_bytes_per_s: u64,
    /// Bytes at once that one session may be sent.
    pub budget_burst_bytes: u64,
    /// Receive buffer asked for each shard's socket, bytes.
    pub receive_buffer_bytes: usize,
    /// Send buffer asked for each shard's socket, bytes.
    pub send_buffer_bytes: usize,
    /// The longest a drain lasts, seconds.
    pub drain_deadline_s: u64,
}

impl Default for RelaySettings {
    fn default() -> RelaySettings {
        RelaySettings {
            listen: SocketAddr::from(([0, 0, 0, 0], 7777)),
            admin: SocketAddr::from(([127, 0, 0, 1], 8000)),
            upstream: vec!["127.0.0.1:7700".to_owned()],
            upstream_token: String::new(),
            shards: std::thread::available_parallelism().map_or(1, |cores| cores.get().min(64)),
            sessions_max: 10_000,
            budget_bytes_per_s: 512 << 10,
            budget_burst_bytes: 64 << 10,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 4 << 20,
            drain_deadline_s: 10,
        }
    }
}

impl RelaySettings {
    /// Settings for a relay inside a test, demo or bench: loopback, free ports.
    #[must_use]
    pub fn loopback(upstream: SocketAddr) -> RelaySettings {
        RelaySettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin: SocketAddr::from(([127, 0, 0, 1], 0)),
            upstream: vec![upstream.to_string()],
            ..RelaySettings::default()
        }
    }
}
