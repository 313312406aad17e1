//! Flags of `demo` and `bench`, and the plan they make.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::attack::Kind;
use crate::impairment::settings::{ImpairmentSettings, parse_burst, parse_share};
use crate::limits::INPUTS_PER_S;
use crate::node::number::{real, whole, wish};
use crate::node::settings::BUDGET_BYTES_PER_S;
use crate::state::view::View;

/// Clients of one run; several hosts' reports merge.
const CLIENTS: RangeInclusive<usize> = 1..=60_000;
/// Clients where none are asked for, and beside an attack.
const WATCHERS: usize = 100;
const BYSTANDERS: usize = 200;
/// Seconds of one run.
const SECONDS: RangeInclusive<f64> = 0.5..=86_400.0;
/// Clients that begin in a second.
const RAMP: RangeInclusive<f64> = 0.1..=1e6;
/// Clients that are replaced in a second.
const CHURN: RangeInclusive<f64> = 0.0..=10_000.0;
/// Inputs a client pushes in a second: what a relay takes of one.
const INPUT_HZ: RangeInclusive<f64> = 0.0..=INPUTS_PER_S as f64;
/// Frames a second that a client may draw.
const RENDER_FPS: RangeInclusive<f64> = 1.0..=480.0;
/// Threads that run clients.
const THREADS: RangeInclusive<usize> = 1..=64;
/// Delays of a link, milliseconds.
const DELAYS_MS: RangeInclusive<f64> = 0.0..=60_000.0;

/// A flag that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FlagError(pub String);

/// Refuses a value outside its bounds.
fn within<T: PartialOrd + core::fmt::Display>(
    name: &str,
    kind: &str,
    value: T,
    bounds: &RangeInclusive<T>,
) -> Result<(), FlagError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    refuse(format!("{name} {value}: {}", wish(kind, bounds)))
}

fn refuse<T>(text: impl Into<String>) -> Result<T, FlagError> {
    Err(FlagError(text.into()))
}

/// What the links between relay and clients do. Both directions alike unless one is named.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Impaired links (in user space, seeded)")]
pub struct LinkFlags {
    /// Share lost, such as 5%
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub loss: Option<f64>,
    /// Bursts of loss: the shares at which one begins and ends, such as 1%,25%
    #[arg(long, value_name = "P,R", value_parser = parse_burst)]
    pub burst_loss: Option<(f64, f64)>,
    /// Delay of every datagram
    #[arg(long, value_name = "MS", value_parser = real(DELAYS_MS))]
    pub delay_ms: Option<f64>,
    /// Extra delay, drawn evenly up to this
    #[arg(long, value_name = "MS", value_parser = real(DELAYS_MS))]
    pub jitter_ms: Option<f64>,
    /// Share held back so that later ones overtake
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub reorder: Option<f64>,
    /// Share delivered twice
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub duplicate: Option<f64>,
    /// As --loss, client to relay only
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub up_loss: Option<f64>,
    /// As --burst-loss, client to relay only
    #[arg(long, value_name = "P,R", value_parser = parse_burst)]
    pub up_burst_loss: Option<(f64, f64)>,
    /// As --delay-ms, client to relay only
    #[arg(long, value_name = "MS", value_parser = real(DELAYS_MS))]
    pub up_delay_ms: Option<f64>,
    /// As --jitter-ms, client to relay only
    #[arg(long, value_name = "MS", value_parser = real(DELAYS_MS))]
    pub up_jitter_ms: Option<f64>,
    /// As --reorder, client to relay only
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub up_reorder: Option<f64>,
    /// As --duplicate, client to relay only
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub up_duplicate: Option<f64>,
    /// As --loss, relay to client only
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub down_loss: Option<f64>,
    /// As --burst-loss, relay to client only
    #[arg(long, value_name = "P,R", value_parser = parse_burst)]
    pub down_burst_loss: Option<(f64, f64)>,
    /// As --delay-ms, relay to client only
    #[arg(long, value_name = "MS", value_parser = real(DELAYS_MS))]
    pub down_delay_ms: Option<f64>,
    /// As --jitter-ms, relay to client only
    #[arg(long, value_name = "MS", value_parser = real(DELAYS_MS))]
    pub down_jitter_ms: Option<f64>,
    /// As --reorder, relay to client only
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub down_reorder: Option<f64>,
    /// As --duplicate, relay to client only
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub down_duplicate: Option<f64>,
}

impl LinkFlags {
    /// True when any of them was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        let shares = [
            self.loss,
            self.reorder,
            self.duplicate,
            self.up_loss,
            self.up_reorder,
            self.up_duplicate,
            self.down_loss,
            self.down_reorder,
            self.down_duplicate,
        ];
        let times = [
            self.delay_ms,
            self.jitter_ms,
            self.up_delay_ms,
            self.up_jitter_ms,
            self.down_delay_ms,
            self.down_jitter_ms,
        ];
        let bursts = [self.burst_loss, self.up_burst_loss, self.down_burst_loss];
        shares.iter().chain(&times).any(Option::is_some) || bursts.iter().any(Option::is_some)
    }

    /// Relay to client.
    ///
    /// # Errors
    /// A setting outside its bounds.
    pub fn down(&self) -> Result<ImpairmentSettings, FlagError> {
        link(
            self.down_loss.or(self.loss),
            self.down_burst_loss.or(self.burst_loss),
            [
                self.down_delay_ms.or(self.delay_ms),
                self.down_jitter_ms.or(self.jitter_ms),
            ],
            self.down_reorder.or(self.reorder),
            self.down_duplicate.or(self.duplicate),
        )
    }

    /// Client to relay.
    ///
    /// # Errors
    /// A setting outside its bounds.
    pub fn up(&self) -> Result<ImpairmentSettings, FlagError> {
        link(
            self.up_loss.or(self.loss),
            self.up_burst_loss.or(self.burst_loss),
            [
                self.up_delay_ms.or(self.delay_ms),
                self.up_jitter_ms.or(self.jitter_ms),
            ],
            self.up_reorder.or(self.reorder),
            self.up_duplicate.or(self.duplicate),
        )
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Checked to be a time.
fn link(
    loss: Option<f64>,
    burst_loss: Option<(f64, f64)>,
    [delay_ms, jitter_ms]: [Option<f64>; 2],
    reorder: Option<f64>,
    duplicate: Option<f64>,
) -> Result<ImpairmentSettings, FlagError> {
    let micros = |name: &str, ms: Option<f64>| {
        let ms = ms.unwrap_or(0.0);
        within(name, "milliseconds", ms, &DELAYS_MS)?;
        Ok((ms * 1000.0).round() as u64)
    };
    let settings = ImpairmentSettings {
        loss: loss.unwrap_or(0.0),
        burst_loss,
        delay_us: micros("the delay", delay_ms)?,
        jitter_us: micros("the jitter", jitter_ms)?,
        reorder: reorder.unwrap_or(0.0),
        duplicate: duplicate.unwrap_or(0.0),
        ..ImpairmentSettings::default()
    };
    settings.check().map_err(|error| FlagError(error.to_string()))?;
    Ok(settings)
}

/// What the swarm does and what is made of it.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
pub struct LoadFlags {
    /// Clients [default: 100, or 200 beside an attack]
    #[arg(long, value_name = "N", value_parser = whole(CLIENTS))]
    pub clients: Option<usize>,
    /// Seconds to run; 1.5 s of clean network follow, after which every table must be whole
    #[arg(long, value_name = "S", default_value_t = 8.0, value_parser = real(SECONDS))]
    pub seconds: f64,
    /// Clients that begin in a second [default: all within 4 s or a third of the run, at least 100]
    #[arg(long, value_name = "N", value_parser = real(RAMP))]
    pub ramp: Option<f64>,
    /// Clients that leave, and are replaced by new ones, in a second
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = real(CHURN))]
    pub churn: f64,
    /// Threads that run clients [default: one for each 500 clients, at most one for each core]
    #[arg(long, value_name = "N", value_parser = whole(THREADS))]
    pub threads: Option<usize>,
    /// What clients see, set by the origin: whole, radius or radius:ENTER,LEAVE around their own entity,
    /// spectator or spectator:ENTER,LEAVE around a camera that each moves, in metres [default: whole]
    #[arg(long, value_name = "KIND")]
    pub view: Option<View>,
    /// Bytes a second that the relay of this process may send one client [default: 524288]
    #[arg(long, value_name = "BYTES", value_parser = whole(BUDGET_BYTES_PER_S))]
    pub budget_bytes_per_s: Option<u64>,
    /// Inputs each client pushes in a second
    #[arg(long, value_name = "H", default_value_t = 0.0, value_parser = real(INPUT_HZ))]
    pub input_hz: f64,
    /// Frames a second that each client draws, as a game would: smoothness, pose errors and delays are reported
    #[arg(long, value_name = "FPS", value_parser = real(RENDER_FPS))]
    pub render: Option<f64>,
    /// A picture of what the first client drew of one entity, beside where it was; draws 60 frames a second without --render
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Attacks, one after the other, each in a run beside one without it, half of --seconds each; on loopback only. Kinds, or
    /// all: flood, rush, victim, cookie-replay, token-replay, token-expired, token-forged, token-elsewhere, bit-flips, replay,
    /// copies, guess, sizes, forged-acks, control-flood, full-state, input-flood, malformed, drip
    #[arg(long, value_name = "KIND[,KIND...]|all")]
    pub attack: Option<Attacks>,
    /// Seed of everything random: the scene, the links, the clients
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    pub seed: u64,
    /// A figure of the report and its bound, such as 'latency_p99<20ms' or 'mismatches==0'; may be repeated.
    /// Missed: exit code 1
    #[arg(long, value_name = "BOUND")]
    pub threshold: Vec<String>,
    /// Writes the report as JSON; - for standard output, the summary then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Writes the report as a page with its charts, one file that can be sent to somebody
    #[arg(long, value_name = "FILE.html")]
    pub page: Option<PathBuf>,
}

/// Kinds of attack, in the order in which they are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attacks(pub Vec<Kind>);

impl core::str::FromStr for Attacks {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Attacks, FlagError> {
        if text == "all" {
            return Ok(Attacks(Kind::all().to_vec()));
        }
        let kind = |word: &str| {
            let found = Kind::all().iter().find(|kind| kind.word() == word);
            found.copied().ok_or_else(|| {
                let words: Vec<String> = Kind::all().iter().map(|kind| kind.word()).collect();
                FlagError(format!(
                    "{word:?} is no kind of attack: give all, or of {}",
                    words.join(", ")
                ))
            })
        };
        text.split(',').map(kind).collect::<Result<_, _>>().map(Attacks)
    }
}

impl LoadFlags {
    /// How many clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        let default = if self.attack.is_some() {
            BYSTANDERS
        } else {
            WATCHERS
        };
        self.clients.unwrap_or(default)
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The first flag that cannot be followed.
    #[allow(clippy::cast_precision_loss)] // Clients are few.
    pub fn check(&self) -> Result<(), FlagError> {
        let clients = self.clients();
        within("--clients", "a whole number", clients, &CLIENTS)?;
        within("--seconds", "a number", self.seconds, &SECONDS)?;
        within("--ramp", "a number", self.ramp.unwrap_or(1.0), &RAMP)?;
        within("--churn", "a number", self.churn, &CHURN)?;
        within("--threads", "a whole number", self.threads.unwrap_or(1), &THREADS)?;
        let ramp_s = self.ramp.map_or(0.0, |ramp| clients as f64 / ramp);
        if ramp_s > self.seconds {
            return refuse(format!(
                "--ramp: {clients} clients take {ramp_s:.1} s to begin, longer than --seconds {}: raise either",
                self.seconds
            ));
        }
        within("--input-hz", "a number", self.input_hz, &INPUT_HZ)?;
        for text in &self.threshold {
            text.parse::<super::threshold::Threshold>()
                .map_err(|error| FlagError(error.to_string()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::target::TargetFlags;

    #[derive(clap::Parser, Debug)]
    struct Line {
        #[command(flatten)]
        links: LinkFlags,
        #[command(flatten)]
        load: LoadFlags,
        #[command(flatten)]
        target: TargetFlags,
    }

    fn parse(line: &str) -> Line {
        clap::Parser::try_parse_from(["x"].into_iter().chain(line.split_whitespace())).expect(line)
    }

    #[test]
    fn links_are_alike_unless_one_direction_is_named() {
        let links = parse("--loss 10% --delay-ms 60 --jitter-ms 20 --reorder 2% --duplicate 1% --up-loss 0.5 --down-delay-ms 0.5").links;
        let (down, up) = (links.down().expect("down"), links.up().expect("up"));
        assert_eq!(
            (down.loss, up.loss, down.delay_us, up.delay_us),
            (0.1, 0.5, 500, 60_000)
        );
        assert_eq!((down.jitter_us, up.reorder, up.duplicate), (20_000, 0.02, 0.01));
        let one = parse("--up-burst-loss 1%,25%").links;
        assert!(one.down().expect("down").is_clean());
        assert_eq!(one.up().expect("up").burst_loss, Some((0.01, 0.25)));
        let mut links = LinkFlags::default();
        assert!(!links.is_given());
        links.up_delay_ms = Some(60_001.0);
        assert!(links.is_given());
        let error = links.up().expect_err("too long");
        assert_eq!(
            error.to_string(),
            "the delay 60001: give milliseconds from 0 to 60000"
        );
    }

    /// The help names every kind of attack there is.
    #[test]
    fn the_help_names_every_attack() {
        let command = <Line as clap::CommandFactory>::command();
        let attack = command
            .get_arguments()
            .find(|argument| argument.get_long() == Some("attack"));
        let help = attack
            .and_then(clap::Arg::get_help)
            .map(ToString::to_string)
            .unwrap_or_default();
        let (_, list) = help.split_once(": ").expect("a list");
        let named: Vec<String> = list.split(", ").map(|word| word.trim().to_owned()).collect();
        let kinds: Vec<String> = Kind::all().iter().map(|kind| kind.word()).collect();
        assert_eq!(named, kinds, "{help}");
    }

    /// Whichever flag of the links is given, it is known to be.
    #[test]
    fn every_flag_of_the_links_counts_as_given() {
        let command = <Line as clap::CommandFactory>::command();
        let mut seen = 0;
        for argument in command.get_arguments() {
            let name = argument.get_long().unwrap_or_default();
            let is_link = argument
                .get_help_heading()
                .is_some_and(|heading| heading.starts_with("Impaired"));
            if is_link {
                let value = if name.ends_with("burst-loss") {
                    "1%,25%"
                } else {
                    "0.5"
                };
                assert!(parse(&format!("--{name} {value}")).links.is_given(), "--{name}");
                seen += 1;
            }
        }
        assert_eq!(seen, 18);
        assert!(!parse("--clients 3 --seed 2").links.is_given());
    }

    #[test]
    fn flags_that_cannot_be_followed_are_refused_in_words() {
        for (line, words) in [
            ("--clients=0", "from 1 to 60000"),
            ("--seconds=0.1", "from 0.5 to 86400"),
            ("--ramp=0", "from 0.1 to 1000000"),
            ("--churn=-1", "from 0 to 10000"),
            ("--churn=nan", "from 0 to 10000"),
            ("--threads=0", "from 1 to 64"),
            ("--seed=-1", "give a whole number from 0 to"),
            ("--view=radius:9,8", "LEAVE not below ENTER"),
            (
                "--view=everything",
                "give whole, radius[:ENTER,LEAVE] or spectator",
            ),
            ("--input-hz=241", "from 0 to 240"),
            ("--budget-bytes-per-s=3999", "from 4000 to 1000000000"),
            ("--delay-ms=60001", "give a number from 0 to 60000"),
        ] {
            let error = <Line as clap::Parser>::try_parse_from(["x", line])
                .expect_err(line)
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        for (line, words) in [
            ("--clients 300 --ramp 10", "take 30.0 s to begin"),
            ("--threshold latency<1", "no figure 'latency'"),
        ] {
            let error = parse(line).load.check().expect_err(line).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(
            parse("--threshold latency_p99<20ms --threshold mismatches==0")
                .load
                .check(),
            Ok(())
        );
        assert!(
            <Line as clap::Parser>::try_parse_from(["x", "--rendering", "60"]).is_err(),
            "not offered"
        );
        assert!(
            <Line as clap::Parser>::try_parse_from(["x", "--admin", "127.0.0.1:1"]).is_err(),
            "needs --relay"
        );
    }
}
