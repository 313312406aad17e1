//! `ackline relay`: runs the edge relay until it is told to end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Outcome, UsageError};
use crate::net::clock::monotonic_us;
use crate::node::logging::{self, LogFilter};
use crate::node::relay::RelayHandle;
use crate::node::settings::{PartialSettings, RelaySettings, in_words};
use crate::node::signals::{Signal, Signals};
use crate::node::small_file;
use crate::node::supervisor::Supervisor;
use crate::token::START_SLACK_S;

const EXAMPLES: &str = "\
Each setting is a flag, an ACKLINE_* variable and a key of the TOML file; a flag beats the variable, the variable \
the file, the file the default.

SIGTERM or SIGINT drains and ends, a second one ends at once. A drain ends every session: clients are told to go, within half a \
second or over drain_spread_s, and have to join another relay; no session moves by itself. SIGHUP reads --config and the token keys again: they, log and \
drain_deadline_s take effect, what else changed is named and needs a restart, and so is what a flag or variable beats; a file \
with a fault changes nothing. Under \
systemd it says when it is ready, reloads and stops, and gives signs of life while every shard turns (sd_notify).

Examples:
  ackline relay --upstream game.internal:7700 --token-keys-file token.keys
  ackline relay --config relay.toml --shards 4
  ackline relay --config relay.toml --print-config
  ACKLINE_UPSTREAM=a:7700,b:7700 ackline relay --token-keys-file token.keys --log-format json";

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
pub fn run(mut args: Args) -> anyhow::Result<Outcome> {
    args.settings.note_words(std::env::args());
    let settings = RelaySettings::load(&args.settings, args.config.as_deref());
    if let Some(format) = args.settings.log_format.filter(|_| !args.print_config) {
        // Whoever reads the log gets a refusal in its form.
        logging::set_form(format);
    }
    let settings = settings.map_err(|error| UsageError(error.to_string()))?;
    if args.print_config {
        super::variables::strange()
            .iter()
            .for_each(|text| complain!("ackline: {text}"));
        say!("{}", settings.to_toml()?.trim_end());
        return Ok(Outcome::Success);
    }
    let filter = logging::begin(&settings.log, settings.log_format);
    settings
        .check_admission()
        .map_err(|error| UsageError(error.to_string()))?;
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
    say_keys(&reload.in_force);
    if reload.in_force.token_keys.is_some() {
        tracing::info!(
            "tokens minted until {START_SLACK_S} s from now are refused (before_start): they may have been used before this start"
        );
    }
    for sentence in exposure(&reload.in_force) {
        tracing::warn!("{sentence}");
    }
    let mut supervisor = Supervisor::of_environment();
    // Not once it has a world: a manager that waits for that would end a relay whose origin is away (FAULTS 81).
    supervisor.ready();
    loop {
        supervisor.turn(monotonic_us(), relay.turns(), &relay.sentence());
        match signals.next(supervisor.patience().unwrap_or(LONG)) {
            Some(Signal::End) => break,
            Some(Signal::Reload) => {
                supervisor.reloading(monotonic_us());
                let refused = obey_reload(&args, &relay, &mut reload).err();
                supervisor.reloaded(refused.as_deref());
            }
            None => {}
        }
    }
    let deadline = Duration::from_secs(reload.in_force.drain_deadline_s);
    supervisor.stopping(deadline);
    tracing::info!(
        sessions = relay.usage().sessions,
        spread_s = reload.in_force.drain_spread_s,
        "draining: no new sessions, every client is told to go; a second signal ends at once"
    );
    drain(&relay, &mut signals, &mut supervisor, deadline)
}

/// Reads the settings again, and takes over what can be. What would not start a relay changes nothing either, and is said.
fn obey_reload(args: &Args, relay: &RelayHandle, reload: &mut Reload) -> Result<(), String> {
    let loaded = RelaySettings::reload(&args.settings, args.config.as_deref())
        .and_then(|settings| settings.check_admission().map(|()| settings));
    let filter_before = reload.in_force.log.clone();
    let taken = loaded
        .map_err(|error| error.to_string())
        .and_then(|settings| reload.take(&settings).map(|said| (said, settings)));
    relay.count_reload(taken.is_ok());
    let (said, settings) =
        taken.inspect_err(|fault| tracing::warn!("SIGHUP: nothing was changed: {fault}"))?;
    relay.reloaded(&reload.in_force);
    let file = args
        .config
        .as_ref()
        .map_or(NO_FILE.to_owned(), |file| file.display().to_string());
    // A filter that was just made narrow must not hide that it was.
    reload.say_under(&filter_before, || tracing::info!("SIGHUP: {said} ({file})"));
    for sentence in settings.places.beaten() {
        tracing::warn!("{sentence}");
    }
    for sentence in readers(&settings) {
        tracing::warn!("{sentence}");
    }
    say_keys(&reload.in_force);
    Ok(())
}

/// Which token keys are in force, by their numbers, the one to mint with first.
fn say_keys(settings: &RelaySettings) {
    if let Some(keys) = &settings.token_keys {
        tracing::info!("token keys in force: {}", in_words(keys));
    }
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
    /// Says something by the filter in force, or by the one before where that lets more through.
    fn say_under(&self, filter_before: &str, say: impl Fn()) {
        if tracing::enabled!(tracing::Level::INFO) {
            return say();
        }
        // Both were in force once; where the log is not ours nothing changes.
        let _ = self.filter.set(filter_before);
        say();
        let _ = self.filter.set(&self.in_force.log);
    }

    /// Takes over what can be; says what was, and what was not.
    ///
    /// # Errors
    /// Why nothing was.
    fn take(&mut self, settings: &RelaySettings) -> Result<String, String> {
        let before = RelaySettings {
            listen: self.begun_with.listen,
            admin: self.begun_with.admin,
            ..self.in_force.clone()
        };
        let changed = before.changed(settings);
        let (now, later): (Vec<&str>, Vec<&str>) =
            changed.into_iter().partition(|key| RELOADED.contains(key));
        if now.contains(&"token_keys_file")
            && settings.token_keys.is_none() != self.in_force.token_keys.is_none()
        {
            return Err("whether tokens are asked for is set when the relay begins".to_owned());
        }
        let spread_s = self.begun_with.drain_spread_s;
        if settings.drain_deadline_s <= spread_s {
            return Err(format!(
                "drain_deadline_s is {}, not above the {spread_s} s of drain_spread_s that are in force until a restart",
                settings.drain_deadline_s
            ));
        }
        if now.contains(&"log") && !self.filter.set(&settings.log) {
            return Err("the log is not this relay's to filter".to_owned());
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
        Ok(said)
    }
}

/// One line for each file of secrets that others on this host can read.
pub(super) fn readers(settings: &RelaySettings) -> Vec<String> {
    let files = [
        ("token_keys_file", &settings.token_keys_file),
        ("admin_token_file", &settings.admin_token_file),
        ("upstream_token_file", &settings.upstream_token_file),
    ];
    let exposed = files.map(|(key, file)| small_file::exposed(key, Path::new(file)));
    exposed.into_iter().flatten().collect()
}

/// One line for each thing strangers can do, and for each protection that only seems to be there.
fn exposure(settings: &RelaySettings) -> Vec<String> {
    let mut sentences = readers(settings);
    if settings.is_insecure() {
        sentences.push(format!(
            "insecure mode: no connect tokens are asked for, so whoever reaches {} may watch, and whoever sees the packets may read them; keep it inside a network you trust",
            settings.listen
        ));
    } else if settings.public_addresses.is_empty() {
        sentences.push(
            "public_addresses is empty: a token is good here whichever relays it names, so it admits once at every relay that has its key and audience; give the addresses under which clients know this relay".to_owned(),
        );
    }
    for (key, token) in [
        ("admin_token", &settings.admin_token),
        ("upstream_token", &settings.upstream_token),
    ] {
        if settings.places.is_given(key) && token.is_empty() {
            sentences.push(format!(
                "{key} is given and empty ({}), which is as good as none: leave it out, or give one",
                settings.places.of(key)
            ));
        }
    }
    if !settings.admin.ip().is_loopback() && settings.admin_token.is_empty() {
        sentences.push(format!(
            "whoever reaches the admin address {} may drain this relay: give an admin_token, or an address of loopback",
            settings.admin
        ));
    }
    let is_here = |name: &String| {
        ["127.", "localhost:", "[::1]:"]
            .iter()
            .any(|here| name.starts_with(here))
    };
    let away = settings.upstream.iter().find(|name| !is_here(name));
    if let (Some(away), None) = (away, &settings.upstream_trust) {
        sentences.push(format!(
            "the upstream {away} is plain TCP: whoever is on the way may read and change the world; give an upstream_ca_file, or keep it inside a network you trust"
        ));
    }
    sentences
}

/// Lets the clients go, within the deadline (SPEC OPS4).
fn drain(
    relay: &RelayHandle,
    signals: &mut Signals,
    supervisor: &mut Supervisor,
    deadline: Duration,
) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    relay.drain();
    while !relay.is_empty() {
        supervisor.turn(monotonic_us(), relay.turns(), &relay.sentence());
        match signals.next(GLANCE) {
            Some(Signal::End) => {
                tracing::warn!(
                    sessions = relay.usage().sessions,
                    "ended at once by a second signal"
                );
                return Ok(Outcome::Failed);
            }
            Some(Signal::Reload) => tracing::warn!("SIGHUP: nothing is read again while the relay ends"),
            None => {}
        }
        if begun.elapsed() >= deadline {
            tracing::warn!(sessions = relay.usage().sessions, "the drain's deadline is over");
            break;
        }
    }
    tracing::info!("relay ended");
    Ok(Outcome::Success)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{TokenKey, TokenKeys};

    /// What is open is said at the start, and so is what only seems to be closed.
    #[test]
    fn what_strangers_can_do_is_said_at_the_start() {
        let keys = || TokenKeys::new(vec![TokenKey::new(1, [7; 32])]).ok();
        let closed = RelaySettings {
            token_keys: keys(),
            public_addresses: vec![([203, 0, 113, 7], 7777).into()],
            ..RelaySettings::default()
        };
        assert_eq!(exposure(&closed), Vec::<String>::new());
        let said = |settings: RelaySettings| exposure(&settings).join("\n");
        let anywhere = said(RelaySettings {
            public_addresses: Vec::new(),
            ..closed.clone()
        });
        assert!(
            anywhere.starts_with("public_addresses is empty: ") && !anywhere.contains('\n'),
            "{anywhere}"
        );
        let open = said(RelaySettings {
            token_keys: None,
            insecure: Some(true),
            admin: ([0, 0, 0, 0], 8000).into(),
            upstream: vec!["origin.example:7700".to_owned()],
            ..RelaySettings::default()
        });
        for words in [
            "insecure mode: ",
            "0.0.0.0:8000 may drain",
            "origin.example:7700 is plain TCP",
        ] {
            assert!(
                open.contains(words) && !open.contains("public_addresses"),
                "{open}"
            );
        }
        let mut flags = PartialSettings {
            admin_token: Some("".into()),
            upstream_token: Some("".into()),
            insecure: Some(true),
            ..PartialSettings::default()
        };
        flags.note_words(["--upstream-token=".to_owned()].into_iter());
        let empty = RelaySettings::load(&flags, None).map(said).unwrap_or_default();
        assert!(
            empty.contains("admin_token is given and empty (ACKLINE_ADMIN_TOKEN)"),
            "{empty}"
        );
        assert!(
            empty.contains("upstream_token is given and empty (--upstream-token)"),
            "{empty}"
        );
    }
}
