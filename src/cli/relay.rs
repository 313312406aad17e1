//! `ackline relay`: runs the edge relay until it is told to end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Outcome, UsageError};
use crate::node::logging::{self, LogFilter};
use crate::node::relay::RelayHandle;
use crate::node::settings::{PartialSettings, RelaySettings};
use crate::node::signals::{Signal, Signals};
use crate::node::small_file;

const EXAMPLES: &str = "\
Each setting is a flag, an ACKLINE_* variable and a key of the TOML file; a flag beats the variable, the variable \
the file, the file the default.

SIGTERM or SIGINT drains and ends, a second one ends at once. SIGHUP reads --config again: log and drain_deadline_s \
take effect, what else changed is named and needs a restart; a file with a fault changes nothing.

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
        super::variables::strange()
            .iter()
            .for_each(|text| eprintln!("ackline: {text}"));
        say!("{}", settings.to_toml()?.trim_end());
        return Ok(Outcome::Success);
    }
    settings
        .check_admission()
        .map_err(|error| UsageError(error.to_string()))?;
    let filter = logging::begin(&settings.log, settings.log_format);
    super::variables::strange()
        .iter()
        .for_each(|text| tracing::warn!("{text}"));
    let mut signals = Signals::listen()?;
    let relay = RelayHandle::start(settings.clone())?;
    let mut reload = Reload {
        begun_with: settings.clone(),
        in_force: RelaySettings {
            listen: relay.data_addr(),
            admin: relay.admin_addr(),
            ..settings
        },
        filter,
    };
    tracing::info!(clients = %relay.data_addr(), admin = %relay.admin_addr(), "relay started");
    warn_of_exposure(&reload.in_force);
    warn_of_readers(&reload.in_force);
    loop {
        match signals.next(LONG) {
            Some(Signal::End) => break,
            Some(Signal::Reload) => match RelaySettings::reload(&args.settings, args.config.as_deref()) {
                Ok(settings) => {
                    let said = reload.take(&settings);
                    relay.reloaded(&reload.in_force);
                    let file = args
                        .config
                        .as_ref()
                        .map_or(NO_FILE.to_owned(), |file| file.display().to_string());
                    // A warning: a filter that was just made narrow must not hide that it was.
                    tracing::warn!("SIGHUP: {said} ({file})");
                }
                Err(error) => tracing::warn!("SIGHUP: nothing was changed: {error}"),
            },
            None => {}
        }
    }
    let deadline = Duration::from_secs(reload.in_force.drain_deadline_s);
    drain(&relay, &mut signals, deadline)
}

/// What is read again where there is no file.
const NO_FILE: &str = "there is no --config to read again";
/// Settings that take effect while the relay runs.
const RELOADED: [&str; 3] = ["token_keys_file", "drain_deadline_s", "log"];

/// What a reload changes: the log's filter and the drain's deadline. All else shapes sockets, threads and sessions
/// that are in use, and is named.
struct Reload {
    /// What the relay was started with.
    begun_with: RelaySettings,
    /// The same with what reloads changed, and the ports that were chosen.
    in_force: RelaySettings,
    filter: LogFilter,
}

impl Reload {
    /// Takes over what can be; says what was, and what was not.
    fn take(&mut self, settings: &RelaySettings) -> String {
        let before = RelaySettings {
            listen: self.begun_with.listen,
            admin: self.begun_with.admin,
            ..self.in_force.clone()
        };
        let changed = before.changed(settings);
        let (now, later): (Vec<&str>, Vec<&str>) =
            changed.into_iter().partition(|key| RELOADED.contains(key));
        if now.contains(&"log") && !self.filter.set(&settings.log) {
            return "nothing was changed: the log is not this relay's to filter".to_owned();
        }
        if now.contains(&"token_keys_file")
            && settings.token_keys.is_none() != self.in_force.token_keys.is_none()
        {
            return "nothing was changed: whether tokens are asked for is set when the relay begins"
                .to_owned();
        }
        self.in_force.token_keys.clone_from(&settings.token_keys);
        self.in_force
            .token_keys_file
            .clone_from(&settings.token_keys_file);
        self.in_force.log.clone_from(&settings.log);
        self.in_force.drain_deadline_s = settings.drain_deadline_s;
        let list = |keys: &[&str], none: &str| match keys {
            [] => none.to_owned(),
            keys => keys.join(", "),
        };
        let mut said = format!(
            "reloaded {}",
            list(
                &now,
                "nothing: neither the token keys nor log nor drain_deadline_s changed"
            )
        );
        if !later.is_empty() {
            let later = list(&later, "");
            said.push_str(&format!("; changed, but in force only after a restart: {later}"));
        }
        said
    }
}

/// One line for each file of secrets that others on this host can read.
fn warn_of_readers(settings: &RelaySettings) {
    for (key, file) in [
        ("token_keys_file", &settings.token_keys_file),
        ("admin_token_file", &settings.admin_token_file),
        ("upstream_token_file", &settings.upstream_token_file),
    ] {
        if let Some(sentence) = small_file::exposed(key, Path::new(file)) {
            tracing::warn!("{sentence}");
        }
    }
}

/// One line for each thing strangers can do.
fn warn_of_exposure(settings: &RelaySettings) {
    if settings.is_insecure() {
        let data = settings.listen;
        tracing::warn!(
            "insecure mode: no connect tokens are asked for, so whoever reaches {data} may watch, and whoever sees the packets may read them; keep it inside a network you trust"
        );
    }
    if !settings.admin.ip().is_loopback() && settings.admin_token.is_empty() {
        let admin = settings.admin;
        tracing::warn!(
            "whoever reaches the admin address {admin} may drain this relay: give an admin_token, or an address of loopback"
        );
    }
    let is_here = |name: &String| {
        ["127.", "localhost:", "[::1]:"]
            .iter()
            .any(|here| name.starts_with(here))
    };
    let away = settings.upstream.iter().find(|name| !is_here(name));
    if let (Some(away), None) = (away, &settings.upstream_trust) {
        tracing::warn!(
            "the upstream {away} is plain TCP: whoever is on the way may read and change the world; give an upstream_ca_file, or keep it inside a network you trust"
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
