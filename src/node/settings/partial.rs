//! Some of the settings: what a file, the environment or the command line gives.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{KEYS, LogFormat, OutOfBounds, RelaySettings, SettingsError, admission, bounds, view};
use crate::node::number::whole;
use crate::node::secret::SecretText;
use crate::node::spelling;
use crate::state::view::View;

/// Some of the settings: those a file, or the command line, gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default)]
pub struct PartialSettings {
    /// UDP address for clients; port 0 for any free port [default: 0.0.0.0:7777]
    #[arg(long, env = "ACKLINE_LISTEN", value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// File of the keys that connect tokens are sealed with, as `ackline token key` prints them; read again on SIGHUP
    /// [default: none, and then only loopback or insecure mode]
    #[arg(long, env = "ACKLINE_TOKEN_KEYS_FILE", value_name = "FILE")]
    pub token_keys_file: Option<String>,
    /// Name of the fleet that tokens must be for [default: the empty name]
    #[arg(long, env = "ACKLINE_AUDIENCE", value_name = "NAME")]
    pub audience: Option<String>,
    /// Addresses under which clients know this relay, separated by commas: tokens must name one [default: any]
    #[arg(long, env = "ACKLINE_PUBLIC_ADDRESSES", value_name = "ADDR[,ADDR...]")]
    pub public_addresses: Option<String>,
    /// Let in whoever asks, without a token: for a laptop or a network you trust [default: false; true on loopback where
    /// no keys are given; false said aloud, without keys, is refused]
    #[arg(long, env = "ACKLINE_INSECURE", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure: Option<bool>,
    /// The lowest protocol version that clients may speak: with 3 those that speak only version 2 are denied [default: 2]
    #[arg(long, env = "ACKLINE_PROTOCOL_MIN", value_name = "N", value_parser = whole(bounds::PROTOCOL_MIN))]
    pub protocol_min: Option<u16>,
    /// Cookies sent to strangers in a second, in all; 0 for no limit [default: 20000]
    #[arg(long, env = "ACKLINE_CHALLENGES_PER_S", value_name = "N", value_parser = whole(admission::CHALLENGES_PER_S))]
    pub challenges_per_s: Option<u64>,
    /// Cookies sent to one host (an IPv4 address, an IPv6 /64) in a second; 0 for no limit [default: 10]
    #[arg(long, env = "ACKLINE_CHALLENGES_PER_HOST_PER_S", value_name = "N", value_parser = whole(admission::CHALLENGES_PER_HOST_PER_S))]
    pub challenges_per_host_per_s: Option<u64>,
    /// Sessions that one host may begin in a second; 0 for no limit [default: 20]
    #[arg(long, env = "ACKLINE_HANDSHAKES_PER_HOST_PER_S", value_name = "N", value_parser = whole(admission::HANDSHAKES_PER_HOST_PER_S))]
    pub handshakes_per_host_per_s: Option<u64>,
    /// Sessions that one prefix (an IPv4 /24, an IPv6 /48) may begin in a second; 0 for no limit [default: 200]
    #[arg(long, env = "ACKLINE_HANDSHAKES_PER_PREFIX_PER_S", value_name = "N", value_parser = whole(admission::HANDSHAKES_PER_PREFIX_PER_S))]
    pub handshakes_per_prefix_per_s: Option<u64>,
    /// Sessions of one host; 0 for no limit [default: 1024]
    #[arg(long, env = "ACKLINE_SESSIONS_PER_HOST", value_name = "N", value_parser = whole(admission::SESSIONS_PER_HOST))]
    pub sessions_per_host: Option<usize>,
    /// Sessions whose client was not heard yet: one more, and the oldest goes; 0 for no limit [default: 5000]
    #[arg(long, env = "ACKLINE_SESSIONS_UNHEARD_MAX", value_name = "N", value_parser = whole(admission::SESSIONS_UNHEARD_MAX))]
    pub sessions_unheard_max: Option<usize>,
    /// Datagrams that one session may send in a second; 0 for no limit [default: 400]
    #[arg(long, env = "ACKLINE_UP_DATAGRAMS_PER_S", value_name = "N", value_parser = whole(admission::UP_DATAGRAMS_PER_S))]
    pub up_datagrams_per_s: Option<u64>,
    /// Bytes that one session may send in a second; 0 for no limit [default: 262144]
    #[arg(long, env = "ACKLINE_UP_BYTES_PER_S", value_name = "N", value_parser = whole(admission::UP_BYTES_PER_S))]
    pub up_bytes_per_s: Option<u64>,
    /// Datagrams of one session that cannot be read, beyond one a second, until it is closed; 0 for never [default: 32]
    #[arg(long, env = "ACKLINE_MALFORMED_MAX", value_name = "N", value_parser = whole(admission::MALFORMED_MAX))]
    pub malformed_max: Option<u64>,
    /// Limits of hosts and prefixes hold for what comes from loopback too [default: false]
    #[arg(long, env = "ACKLINE_LIMIT_LOOPBACK", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub limit_loopback: Option<bool>,
    /// HTTP address for operators: whoever reaches it and has the token, if any, may drain the relay [default:
    /// 127.0.0.1:8000]
    #[arg(long, env = "ACKLINE_ADMIN", value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
    /// Bearer token that operators must show there, but for /live and /ready. As a flag it stands in the list of processes:
    /// rather give the variable or --admin-token-file [default: none]
    #[arg(
        long,
        env = "ACKLINE_ADMIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub admin_token: Option<SecretText>,
    /// File of that token alone [default: none]
    #[arg(long, env = "ACKLINE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<String>,
    /// Origins as host:port, tried in order, separated by commas [default: 127.0.0.1:7700]
    #[arg(long, env = "ACKLINE_UPSTREAM", value_name = "ADDR[,ADDR...]")]
    pub upstream: Option<String>,
    /// File of the certificates (PEM) of the authorities that sign origins' certificates: the upstream is then TLS 1.3. An
    /// origin's own may stand there where it is no authority's (basicConstraints CA:FALSE) [default: none, plain TCP, for a
    /// private network]
    #[arg(long, env = "ACKLINE_UPSTREAM_CA_FILE", value_name = "FILE")]
    pub upstream_ca_file: Option<String>,
    /// What the origin knows this relay by. As a flag it stands in the list of processes: rather give the variable or
    /// --upstream-token-file [default: none]
    #[arg(
        long,
        env = "ACKLINE_UPSTREAM_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub upstream_token: Option<SecretText>,
    /// File of that token alone [default: none]
    #[arg(long, env = "ACKLINE_UPSTREAM_TOKEN_FILE", value_name = "FILE")]
    pub upstream_token_file: Option<String>,
    /// Shard threads, 1 to 64 [default: the cores given to the process]
    #[arg(long, env = "ACKLINE_SHARDS", value_name = "N", value_parser = whole(bounds::SHARDS))]
    pub shards: Option<usize>,
    /// Sessions of all shards together [default: 10000]
    #[arg(long, env = "ACKLINE_SESSIONS_MAX", value_name = "N", value_parser = whole(bounds::SESSIONS_MAX))]
    pub sessions_max: Option<usize>,
    /// Bytes a second that one session may be sent [default: 524288]
    #[arg(long, env = "ACKLINE_BUDGET_BYTES_PER_S", value_name = "BYTES", value_parser = whole(bounds::BUDGET_BYTES_PER_S))]
    pub budget_bytes_per_s: Option<u64>,
    /// Bytes at once that one session may be sent, from 1200; 0 for an eighth of a second's rate, up to 65536 [default: 0]
    #[arg(long, env = "ACKLINE_BUDGET_BURST_BYTES", value_name = "BYTES", value_parser = whole(bounds::BUDGET_BURST_BYTES))]
    pub budget_burst_bytes: Option<u64>,
    /// Bytes a second that all sessions together may be sent, shared fairly; 0 for no cap [default: 0]
    #[arg(long, env = "ACKLINE_EGRESS_BYTES_PER_S", value_name = "BYTES", value_parser = whole(bounds::EGRESS_BYTES_PER_S))]
    pub egress_bytes_per_s: Option<u64>,
    /// What a session sees until the origin says what it may see: whole, radius or radius:ENTER,LEAVE around its own entity,
    /// spectator or spectator:ENTER,LEAVE around its camera, in metres, 20,25 where not given [default: whole]
    #[arg(long, env = "ACKLINE_VIEW", value_name = "VIEW", value_parser = str::parse::<View>)]
    #[serde(with = "view")]
    pub view: Option<View>,
    /// Side of the square cells whose density sets rate tiers, metres [default: 32]
    #[arg(long, env = "ACKLINE_TIER_CELL_M", value_name = "METRES", value_parser = whole(bounds::TIER_CELL_M))]
    pub tier_cell_m: Option<u32>,
    /// Entities in a cell from which on each changes every 2nd tick; 0 for never [default: 0]
    #[arg(long, env = "ACKLINE_TIER_DENSE", value_name = "ENTITIES", value_parser = whole(bounds::TIER_ENTITIES))]
    pub tier_dense: Option<u32>,
    /// Entities in a cell from which on each changes every 4th tick; 0 for never [default: 0]
    #[arg(long, env = "ACKLINE_TIER_CROWDED", value_name = "ENTITIES", value_parser = whole(bounds::TIER_ENTITIES))]
    pub tier_crowded: Option<u32>,
    /// Receive buffer asked for each shard's socket [default: 4194304]
    #[arg(long, env = "ACKLINE_RECEIVE_BUFFER_BYTES", value_name = "BYTES", value_parser = whole(bounds::RECEIVE_BUFFER_BYTES))]
    pub receive_buffer_bytes: Option<usize>,
    /// Send buffer asked for each shard's socket [default: 4194304]
    #[arg(long, env = "ACKLINE_SEND_BUFFER_BYTES", value_name = "BYTES", value_parser = whole(bounds::SEND_BUFFER_BYTES))]
    pub send_buffer_bytes: Option<usize>,
    /// The longest a drain lasts: who is still there then is cut off without a word [default: 10]
    #[arg(long, env = "ACKLINE_DRAIN_DEADLINE_S", value_name = "SECONDS", value_parser = whole(bounds::DRAIN_DEADLINE_S))]
    pub drain_deadline_s: Option<u64>,
    /// A drain tells its sessions to go over this time, a share at a time, so that they do not all come to the next relay at
    /// once; below the deadline; 0 for all at once [default: 0]
    #[arg(long, env = "ACKLINE_DRAIN_SPREAD_S", value_name = "SECONDS", value_parser = whole(bounds::DRAIN_SPREAD_S))]
    pub drain_spread_s: Option<u64>,
    /// What is logged: off, error, warn, info, debug, trace, or directives TARGET=LEVEL as of RUST_LOG [default: info]
    #[arg(long, env = "ACKLINE_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// The form of log lines [default: human]
    #[arg(long, env = "ACKLINE_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Which of these keys the command line gave, where that is known; the rest came from variables.
    #[arg(skip)]
    #[serde(skip)]
    pub flags: Option<Vec<&'static str>>,
}

/// What is wrong in a line: toml's own words, the key, and what to give.
fn fault_of(key: Option<&str>, message: &str) -> String {
    if let Some(unknown) = message.strip_prefix("unknown field `") {
        let unknown = unknown.split('`').next().unwrap_or_default();
        let hint = spelling::hint(unknown, KEYS);
        let end = if hint.is_empty() { ":" } else { "" };
        return format!("there is no key {unknown}{hint}{end} ackline relay --print-config shows every key");
    }
    let Some((key, wish)) = key.and_then(|key| Some((key, bounds::wish_of(key)?))) else {
        // What was given is not told: it may be a secret under a key spelled in another way.
        return match message.split_once(": ") {
            Some((what @ ("invalid type" | "invalid value"), _)) => what.to_owned(),
            _ => message.to_owned(),
        };
    };
    if message.contains("duplicate key") {
        return format!("{key}: it stands in this file twice: leave out one of the lines");
    }
    if key == "upstream_token" || key == "admin_token" {
        // The message would tell the secret.
        return format!("{key}: it is no text: {wish}");
    }
    // What the parser expected is a type of ours; the bound says more.
    let message = message.split(", expected").next().unwrap_or(message);
    format!("{key}: {message}: {wish}")
}

impl PartialSettings {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first line that cannot be read, or a key that is not known.
    pub(super) fn parse(name: &str, text: &str) -> Result<PartialSettings, SettingsError> {
        toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.get(..start).unwrap_or(text).lines().count().max(1);
            let at_line_start = text
                .get(..start)
                .is_some_and(|before| before.is_empty() || before.ends_with('\n'));
            let line = if at_line_start && start > 0 {
                line + 1
            } else {
                line
            };
            // Under a header all keys are those of a table, whatever is wrong with them.
            let header = text.lines().take(line).position(|line| line.trim_start().starts_with('['));
            if let Some(header) = header {
                let said = text.lines().nth(header).unwrap_or_default().trim();
                return SettingsError {
                    place: format!("{name}, line {}", header + 1),
                    fault: format!(
                        "{said} begins a table, and settings are in none: give each on a line of its own, such as log = \"info\""
                    ),
                };
            }
            let key = text
                .lines()
                .nth(line - 1)
                .and_then(|line| line.split_once('='))
                .and_then(|(key, _)| key.split('.').next())
                .map(|key| key.trim().trim_matches(['"', '\'']));
            let message = error.message().lines().collect::<Vec<_>>().join(" ");
            SettingsError {
                place: format!("{name}, line {line}"),
                fault: fault_of(key, &message),
            }
        })
    }

    /// Puts what is given here over `settings`.
    pub(super) fn apply(&self, settings: &mut RelaySettings) -> Result<(), OutOfBounds> {
        fn over<T: Clone>(from: &Option<T>, to: &mut T) {
            if let Some(from) = from {
                to.clone_from(from);
            }
        }
        over(&self.listen, &mut settings.listen);
        over(&self.token_keys_file, &mut settings.token_keys_file);
        over(&self.audience, &mut settings.audience);
        over(&self.public_addresses()?, &mut settings.public_addresses);
        settings.insecure = self.insecure.or(settings.insecure);
        over(&self.protocol_min, &mut settings.protocol_min);
        let limits = &mut settings.limits;
        over(&self.challenges_per_s, &mut limits.challenges_per_s);
        over(
            &self.challenges_per_host_per_s,
            &mut limits.challenges_per_host_per_s,
        );
        over(
            &self.handshakes_per_host_per_s,
            &mut limits.handshakes_per_host_per_s,
        );
        over(
            &self.handshakes_per_prefix_per_s,
            &mut limits.handshakes_per_prefix_per_s,
        );
        over(&self.sessions_per_host, &mut limits.sessions_per_host);
        over(&self.sessions_unheard_max, &mut limits.sessions_unheard);
        over(&self.up_datagrams_per_s, &mut limits.up_datagrams_per_s);
        over(&self.up_bytes_per_s, &mut limits.up_bytes_per_s);
        over(&self.malformed_max, &mut limits.malformed);
        over(&self.limit_loopback, &mut limits.loopback);
        over(&self.admin, &mut settings.admin);
        let split = |list: &String| list.split(',').map(|name| name.trim().to_owned()).collect();
        over(&self.upstream.as_ref().map(split), &mut settings.upstream);
        over(&self.admin_token, &mut settings.admin_token);
        over(&self.admin_token_file, &mut settings.admin_token_file);
        over(&self.upstream_ca_file, &mut settings.upstream_ca_file);
        over(&self.upstream_token, &mut settings.upstream_token);
        over(&self.upstream_token_file, &mut settings.upstream_token_file);
        over(&self.shards, &mut settings.shards);
        over(&self.sessions_max, &mut settings.sessions_max);
        over(&self.budget_bytes_per_s, &mut settings.budget_bytes_per_s);
        over(&self.budget_burst_bytes, &mut settings.budget_burst_bytes);
        over(&self.egress_bytes_per_s, &mut settings.egress_bytes_per_s);
        over(&self.view, &mut settings.view);
        over(&self.tier_cell_m, &mut settings.tier_cell_m);
        over(&self.tier_dense, &mut settings.tier_dense);
        over(&self.tier_crowded, &mut settings.tier_crowded);
        over(&self.receive_buffer_bytes, &mut settings.receive_buffer_bytes);
        over(&self.send_buffer_bytes, &mut settings.send_buffer_bytes);
        over(&self.drain_deadline_s, &mut settings.drain_deadline_s);
        over(&self.drain_spread_s, &mut settings.drain_spread_s);
        over(&self.log, &mut settings.log);
        over(&self.log_format, &mut settings.log_format);
        Ok(())
    }

    fn public_addresses(&self) -> Result<Option<Vec<SocketAddr>>, OutOfBounds> {
        let Some(list) = &self.public_addresses else {
            return Ok(None);
        };
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let parse = |name: &str| {
            name.parse::<SocketAddr>().map_err(|_| OutOfBounds {
                key: "public_addresses",
                fault: format!(
                    "public_addresses: {name:?} is no address: give numbers such as 203.0.113.7:7777, as clients reach the relay"
                ),
            })
        };
        names.map(parse).collect::<Result<_, _>>().map(Some)
    }
}
