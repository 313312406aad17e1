//! Settings of a relay: one list that is flags, `ACKLINE_*` variables and a TOML file alike.
//!
//! Precedence: flag, then environment, then file, then default. A key `budget_bytes_per_s` of the file is the flag
//! `--budget-bytes-per-s` and the variable `ACKLINE_BUDGET_BYTES_PER_S`.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::host_port;
use super::logging;
use super::secret::SecretText;
use super::small_file::{self, Pipes};
use super::tls::{self, UpstreamTrust};
use crate::limits::SHARDS_MAX;
use crate::relay::admission::Limits;
use crate::relay::budget::Budget;
use crate::state::tiers::TierSettings;
use crate::state::view::View;
use crate::token::TokenKeys;
use crate::wire::version::Versions;

mod admission;
mod bounds;
mod partial;
mod place;
mod shown;
mod tokens;
mod view;

pub use admission::in_words;
pub(crate) use bounds::BUDGET_BYTES_PER_S;
pub use partial::PartialSettings;
use place::OutOfBounds;
pub use place::{Places, SettingsError};

/// Addresses in `upstream`.
const UPSTREAMS_MAX: usize = 16;

/// Every key of a file.
pub const KEYS: [&str; 38] = [
    "listen",
    "token_keys_file",
    "audience",
    "public_addresses",
    "insecure",
    "protocol_min",
    "challenges_per_s",
    "challenges_per_host_per_s",
    "handshakes_per_host_per_s",
    "handshakes_per_prefix_per_s",
    "sessions_per_host",
    "sessions_unheard_max",
    "up_datagrams_per_s",
    "up_bytes_per_s",
    "malformed_max",
    "limit_loopback",
    "admin",
    "admin_token",
    "admin_token_file",
    "upstream",
    "upstream_ca_file",
    "upstream_token",
    "upstream_token_file",
    "shards",
    "sessions_max",
    "budget_bytes_per_s",
    "budget_burst_bytes",
    "egress_bytes_per_s",
    "view",
    "tier_cell_m",
    "tier_dense",
    "tier_crowded",
    "receive_buffer_bytes",
    "send_buffer_bytes",
    "drain_deadline_s",
    "drain_spread_s",
    "log",
    "log_format",
];

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// What a relay runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySettings {
    /// UDP address for clients; port 0 for any free port.
    pub listen: SocketAddr,
    /// The file of the keys that connect tokens are sealed with; empty for none.
    pub token_keys_file: String,
    /// What that file holds.
    pub token_keys: Option<TokenKeys>,
    /// The fleet's name, which tokens must have.
    pub audience: String,
    /// Addresses under which clients know the relay: a token must name one of them. Empty: any will do.
    pub public_addresses: Vec<SocketAddr>,
    /// Whoever asks is let in, without a token; where nothing is said, on loopback without keys.
    pub insecure: Option<bool>,
    /// The lowest version of the protocol that clients may speak.
    pub protocol_min: u16,
    /// What strangers and clients may make the relay do.
    pub limits: Limits,
    /// HTTP address for operators; port 0 for any free port.
    pub admin: SocketAddr,
    /// What operators must show at that address; empty admits whoever reaches it.
    pub admin_token: SecretText,
    /// The file that it came from; empty where it was given itself.
    pub admin_token_file: String,
    /// Origins as `host:port`, tried in order.
    pub upstream: Vec<String>,
    /// The file of the certificates that vouch for origins; empty for plain connections.
    pub upstream_ca_file: String,
    /// What that file holds.
    pub upstream_trust: Option<UpstreamTrust>,
    /// What the origin knows this relay by; may be empty.
    pub upstream_token: SecretText,
    /// The file that it came from; empty where it was given itself.
    pub upstream_token_file: String,
    /// Shard threads, 1 to [`SHARDS_MAX`].
    pub shards: usize,
    /// Sessions of all shards together.
    pub sessions_max: usize,
    /// Bytes a second that one session may be sent.
    pub budget_bytes_per_s: u64,
    /// Bytes at once that one session may be sent; 0 for an eighth of a second's rate.
    pub budget_burst_bytes: u64,
    /// Bytes a second that all sessions together may be sent; 0 for no cap.
    pub egress_bytes_per_s: u64,
    /// What a session sees until the origin says what it may see.
    pub view: View,
    /// Side of the cells whose density sets rate tiers, metres.
    pub tier_cell_m: u32,
    /// Entities in a cell from which on each changes every 2nd tick; 0 for never.
    pub tier_dense: u32,
    /// Entities in a cell from which on each changes every 4th tick; 0 for never.
    pub tier_crowded: u32,
    /// Receive buffer asked for each shard's socket, bytes.
    pub receive_buffer_bytes: usize,
    /// Send buffer asked for each shard's socket, bytes.
    pub send_buffer_bytes: usize,
    /// The longest a drain lasts, seconds.
    pub drain_deadline_s: u64,
    /// Time over which a drain tells its sessions to go, seconds; 0 for at once.
    pub drain_spread_s: u64,
    /// What is logged: a level, or directives as of `RUST_LOG`.
    pub log: String,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// Where each of these was given.
    pub places: Places,
}

impl Default for RelaySettings {
    fn default() -> RelaySettings {
        RelaySettings {
            listen: SocketAddr::from(([0, 0, 0, 0], 7777)),
            token_keys_file: String::new(),
            token_keys: None,
            audience: String::new(),
            public_addresses: Vec::new(),
            insecure: None,
            protocol_min: Versions::SPOKEN.lowest(),
            limits: admission::DEFAULT,
            admin: SocketAddr::from(([127, 0, 0, 1], 8000)),
            admin_token: SecretText::default(),
            admin_token_file: String::new(),
            upstream: vec!["127.0.0.1:7700".to_owned()],
            upstream_ca_file: String::new(),
            upstream_trust: None,
            upstream_token: SecretText::default(),
            upstream_token_file: String::new(),
            shards: std::thread::available_parallelism().map_or(1, |cores| cores.get().min(SHARDS_MAX)),
            sessions_max: 10_000,
            budget_bytes_per_s: 512 << 10,
            budget_burst_bytes: 0,
            egress_bytes_per_s: 0,
            view: View::WHOLE,
            tier_cell_m: 32,
            tier_dense: 0,
            tier_crowded: 0,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 4 << 20,
            drain_deadline_s: 10,
            drain_spread_s: 0,
            log: "info".to_owned(),
            log_format: LogFormat::Human,
            places: Places::default(),
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

    /// What one session may be sent.
    #[must_use]
    pub fn budget(&self) -> Budget {
        let derived = Budget::of_rate(self.budget_bytes_per_s);
        Budget {
            burst_bytes: match self.budget_burst_bytes {
                0 => derived.burst_bytes,
                given => given,
            },
            ..derived
        }
    }

    /// Rate tiers by density, where there are any.
    #[must_use]
    pub fn tiers(&self) -> Option<TierSettings> {
        let from = |entities: u32| if entities == 0 { u32::MAX } else { entities };
        (self.tier_dense > 0 || self.tier_crowded > 0).then(|| TierSettings {
            cell_cm: self.tier_cell_m.saturating_mul(100),
            dense: from(self.tier_dense),
            crowded: from(self.tier_crowded),
        })
    }

    /// Reads the file of those who vouch for origins, where one is named.
    fn read_trust(&mut self, pipes: Pipes) -> Result<(), OutOfBounds> {
        self.upstream_trust = None;
        if !self.upstream_ca_file.is_empty() {
            let trust = small_file::read(Path::new(&self.upstream_ca_file), tls::KIND, pipes)
                .and_then(|pem| UpstreamTrust::parse(&pem));
            self.upstream_trust = Some(trust.map_err(|fault| OutOfBounds {
                key: "upstream_ca_file",
                fault: format!("upstream_ca_file {:?}: {fault}", self.upstream_ca_file),
            })?);
        }
        Ok(())
    }

    /// The settings in force: `flags` over those of `file` over the defaults. For a program that starts: what is named may be
    /// pipes, which are waited for.
    ///
    /// # Errors
    /// The first setting that cannot be read or is outside its bounds, with its place.
    pub fn load(flags: &PartialSettings, file: Option<&Path>) -> Result<RelaySettings, SettingsError> {
        RelaySettings::gather(flags, file, Pipes::Awaited)
    }

    /// The same while a relay runs: it waits for nothing.
    ///
    /// # Errors
    /// Those of [`load`](RelaySettings::load); a file that is a pipe.
    pub fn reload(flags: &PartialSettings, file: Option<&Path>) -> Result<RelaySettings, SettingsError> {
        RelaySettings::gather(flags, file, Pipes::Refused)
    }

    fn gather(
        flags: &PartialSettings,
        file: Option<&Path>,
        pipes: Pipes,
    ) -> Result<RelaySettings, SettingsError> {
        let Some(file) = file else {
            return RelaySettings::of(flags, None, pipes);
        };
        let name = file.display().to_string();
        let text = small_file::read_text(file, "a TOML file", pipes).map_err(|fault| SettingsError {
            place: name.clone(),
            fault: format!("this is no configuration: {fault}"),
        })?;
        RelaySettings::of(flags, Some((&name, &text)), pipes)
    }

    /// The same of a file's name and text.
    fn of(
        flags: &PartialSettings,
        file: Option<(&str, &str)>,
        pipes: Pipes,
    ) -> Result<RelaySettings, SettingsError> {
        let mut settings = RelaySettings::default();
        let mut places = Places::default();
        if let Some((name, text)) = file {
            let given = PartialSettings::parse(name, text)?;
            places.note_file(&given, name, text);
            given
                .apply(&mut settings)
                .and_then(|()| settings.check())
                .map_err(|error| error.at(&places))?;
            let lines = places.clone();
            places.note_flags(flags);
            places.note_beaten(&given, flags, &lines);
        }
        places.note_flags(flags);
        flags
            .apply(&mut settings)
            .and_then(|()| settings.check())
            .and_then(|()| settings.read_keys(pipes))
            .and_then(|()| settings.read_trust(pipes))
            .and_then(|()| settings.read_tokens(pipes))
            .and_then(|()| settings.check())
            .map_err(|error| error.at(&places))?;
        Ok(RelaySettings { places, ..settings })
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The first setting outside its bounds.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.check().map_err(|error| error.at(&self.places))
    }

    fn check(&self) -> Result<(), OutOfBounds> {
        within("shards", self.shards, bounds::SHARDS)?;
        within("sessions_max", self.sessions_max, bounds::SESSIONS_MAX)?;
        within(
            "budget_bytes_per_s",
            self.budget_bytes_per_s,
            bounds::BUDGET_BYTES_PER_S,
        )?;
        within(
            "budget_burst_bytes",
            self.budget().burst_bytes,
            bounds::BUDGET_BURST_LEAST..=*bounds::BUDGET_BURST_BYTES.end(),
        )?;
        within(
            "egress_bytes_per_s",
            self.egress_bytes_per_s,
            bounds::EGRESS_BYTES_PER_S,
        )?;
        within("tier_cell_m", self.tier_cell_m, bounds::TIER_CELL_M)?;
        within("tier_dense", self.tier_dense, bounds::TIER_ENTITIES)?;
        within("tier_crowded", self.tier_crowded, bounds::TIER_ENTITIES)?;
        if (1..self.tier_dense).contains(&self.tier_crowded) {
            let (dense, crowded) = (self.tier_dense, self.tier_crowded);
            return Err(OutOfBounds {
                key: "tier_crowded",
                fault: format!(
                    "tier_crowded is {crowded}, below tier_dense {dense}: give {dense} to {}, or 0 for never",
                    bounds::TIER_ENTITIES.end()
                ),
            });
        }
        within(
            "receive_buffer_bytes",
            self.receive_buffer_bytes,
            bounds::RECEIVE_BUFFER_BYTES,
        )?;
        within(
            "send_buffer_bytes",
            self.send_buffer_bytes,
            bounds::SEND_BUFFER_BYTES,
        )?;
        within(
            "drain_deadline_s",
            self.drain_deadline_s,
            bounds::DRAIN_DEADLINE_S,
        )?;
        if self.drain_spread_s >= self.drain_deadline_s {
            let (spread, deadline) = (self.drain_spread_s, self.drain_deadline_s);
            return Err(OutOfBounds {
                key: "drain_spread_s",
                fault: format!(
                    "drain_spread_s is {spread}, not below drain_deadline_s {deadline}, at which who is still there is cut off: give 0 to {}",
                    deadline.saturating_sub(1)
                ),
            });
        }
        self.check_tokens()?;
        within("protocol_min", self.protocol_min, bounds::PROTOCOL_MIN)?;
        self.check_identity()?;
        admission::check(&self.limits)?;
        within("addresses in upstream", self.upstream.len(), 1..=UPSTREAMS_MAX)?;
        for name in &self.upstream {
            host_port::check(name).map_err(|fault| OutOfBounds {
                key: "upstream",
                fault: format!("upstream {name:?} {fault}: give for example origin.example:7700"),
            })?;
        }
        let again =
            |(at, name): &(usize, &String)| self.upstream.iter().take(*at).any(|before| before == *name);
        if let Some((_, name)) = self.upstream.iter().enumerate().find(again) {
            return Err(OutOfBounds {
                key: "upstream",
                fault: format!(
                    "upstream {name:?} stands there twice: each is tried in its turn, so once is enough"
                ),
            });
        }
        logging::parse(&self.log).map_err(|fault| OutOfBounds {
            key: "log",
            fault: format!("log {:?}: {fault}", self.log),
        })?;
        Ok(())
    }
}

fn within<T: PartialOrd + fmt::Display>(
    key: &'static str,
    value: T,
    bounds: RangeInclusive<T>,
) -> Result<(), OutOfBounds> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let fault = format!("{key} is {value}: give {} to {}", bounds.start(), bounds.end());
    // The key is the last word: "bytes of upstream_token".
    Err(OutOfBounds {
        key: key.rsplit(' ').next().unwrap_or(key),
        fault,
    })
}

#[cfg(test)]
mod tests;
