//! `ackline relay`: runs the edge relay until it is told to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Outcome, UsageError};
use crate::node::logging;
use crate::node::relay::RelayHandle;
use crate::node::settings::{PartialSettings, RelaySettings};
use crate::node::signals::{Signal, Signals};

const EXAMPLES: &str = "\
Each setting is a flag, an ACKLINE_* variable and a key of the TOML file; a flag beats the variable, the variable
the file, the file the default.

SIGTERM or SIGINT drains and ends, a second one ends at once. SIGHUP says what it cannot reload.

Examples:
  ackline relay --upstream game.internal:7700
  ackline relay --config relay.toml --shards 4
  ackline relay --config relay.toml --print-config
  ACKLINE_UPSTREAM=a:7700,b:7700 ackline relay --log-format json";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Settings as a TOML file
    #[arg(long, env = "ACKLINE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the settings in force as TOML, secrets masked, and ends
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    settings: PartialSettings,
}

/// How long one wait for a signal lasts at the most.
const LONG: Duration = Duration::from_secs(3600);
/// How often a drain is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs it.
///
/// # Errors
/// A refused setting ([`UsageError`]), or an address or thread that cannot be had.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let settings = RelaySettings::load(&args.settings, args.config.as_deref())
        .map_err(|error| UsageError(error.to_string()))?;
    if args.print_config {
        say!("{}", toml::to_string(&settings.shown())?.trim_end());
        return Ok(Outcome::Success);
    }
    logging::begin(&settings.log, settings.log_format);
    let deadline = Duration::from_secs(settings.drain_deadline_s);
    let mut signals = Signals::listen()?;
    let relay = RelayHandle::start(settings)?;
    tracing::info!(clients = %relay.data_addr(), admin = %relay.admin_addr(), "relay started");
    warn_of_exposure(relay.data_addr(), relay.admin_addr());
    while signals.next(LONG) != Some(Signal::End) {
        tracing::warn!("SIGHUP: no setting can be reloaded yet; restart the relay to change its settings");
    }
    drain(&relay, &mut signals, deadline)
}

/// One line for each thing strangers can do.
fn warn_of_exposure(data: SocketAddr, admin: SocketAddr) {
    if !data.ip().is_loopback() {
        tracing::warn!(
            "insecure mode: there are no connect tokens yet, so whoever reaches {data} may watch, and whoever sees the packets may read them; keep it inside a network you trust"
        );
    }
    if !admin.ip().is_loopback() {
        tracing::warn!(
            "whoever reaches the admin address {admin} may drain this relay: it has no authentication"
        );
    }
}

/// Lets the clients go, within the deadline (SPEC OPS4).
fn drain(relay: &RelayHandle, signals: &mut Signals, deadline: Duration) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let sessions = relay.usage().sessions;
    tracing::info!(
        sessions,
        "draining: no new sessions, clients are told; a second signal ends at once"
    );
    relay.drain();
    while !relay.is_empty() {
        if signals.next(GLANCE) == Some(Signal::End) {
            tracing::warn!(
                sessions = relay.usage().sessions,
                "ended at once by a second signal"
            );
            return Ok(Outcome::Failed);
        }
        if begun.elapsed() >= deadline {
            tracing::warn!(sessions = relay.usage().sessions, "the drain's deadline is over");
            break;
        }
    }
    tracing::info!("relay ended");
    Ok(Outcome::Success)
}
