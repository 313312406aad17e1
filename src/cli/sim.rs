//! `ackline sim`: the simulation over many seeds, on as many cores as there are.
//!
//! Each seed is one run in virtual time on one thread; threads only share out the seeds, so what a seed does
//! depends on nothing else.

use std::io::IsTerminal;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Outcome, UsageError};
use crate::bench::settings::LinkFlags;
use crate::node::number::{real, whole};
use crate::sim::outcome::Outcome as Result;
use crate::sim::role::Role;
use crate::sim::run;
use crate::sim::settings::{LinkDemand, SimSettings};

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The first seed
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "hours", value_parser = whole(1..=1_000_000_000u64))]
    seeds: u64,
    /// Goes on with further seeds until clients were in session for this long together, in virtual hours
    #[arg(long, value_name = "H", value_parser = real(1e-3..=1e6))]
    hours: Option<f64>,
    /// Virtual seconds of each run; 2 s of clean network follow and 2 s of a world at rest, or more where the budget is small,
    /// after which nothing may be missing
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = whole(1..=86_400u64))]
    seconds: u64,
    /// Runs at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024usize))]
    jobs: Option<usize>,
    /// Clients, instead of the seed's own 1 to 6
    #[arg(long, value_name = "N", visible_alias = "client-count", value_parser = whole(1..=250usize))]
    clients: Option<usize>,
    /// Entities, instead of the seed's own 5 to 200
    #[arg(long, value_name = "N", value_parser = whole(1..=10_000usize))]
    entities: Option<usize>,
    /// Ticks a second, instead of the seed's own 10 to 60
    #[arg(long, value_name = "HZ", value_parser = real(1.0..=240.0))]
    hz: Option<f64>,
    /// Seconds between restarts of the origin, each a new epoch, instead of the seed's own; fewer than --seconds, and not
    /// with --calm
    #[arg(long, value_name = "S", value_parser = real(1.0..=86_400.0))]
    epoch_every: Option<f64>,
    /// Bits flipped in tables that a client holds, for each client and minute, beginning after 5 s; each must be healed
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = real(0.0..=20.0))]
    flips: f64,
    /// Nothing happens but what the links do: even ticks, no stalls, silences, partings or mass changes
    #[arg(long)]
    calm: bool,
    /// What every client may see, for all of the run, instead of a role by seed that may change: the whole world, what its
    /// tags permit, a range around an entity of its own, or around a camera. With it each has the relay's default budget,
    /// and there is no cap on all, unless --budget names another
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,
    /// Bytes a second that each client may be sent, instead of the seed's own from 3,000 to the default
    #[arg(long, value_name = "BYTES", value_parser = whole(3_000..=1_000_000_000u64))]
    budget: Option<u64>,
    /// Prints all that happens to the entity with this id
    #[arg(long, value_name = "ID")]
    watch: Option<u32>,
    #[command(flatten)]
    links: LinkFlags,
}

const EXAMPLES: &str = "\
Examples:
  ackline sim --seed 1 --seeds 1000
  ackline sim --hours 10 --loss 30% --delay-ms 100 --jitter-ms 50
  ackline sim --seed 7 --seeds 1 --watch 42

A seed decides everything: the world, its rate, the upstream's stalls and restarts, the clients, their links, what they \
may see and what they say, the relay's budgets. \
Flags force single settings and leave all else as the seed has it: --loss forces single losses and leaves the seed's \
bursts of loss, its delays and its flipped bits; --loss 0 takes the bursts away too, unless --burst-loss names some; \
--burst-loss 0,1 takes away bursts alone. Bits that links flip have no flag. Exit code 0 when nothing was found, 1 \
with the line that replays the first seed that fails, 2 for wrong flags.";

/// A restart comes at least this long before the links are clean, seconds.
const RESTART_BEFORE_END_S: f64 = 0.5;
/// Bits are flipped from here on and until so long before the links are clean, seconds: the rest heals what they did.
const FLIPS_AFTER_S: f64 = 5.0;
const FLIPS_BEFORE_END_S: f64 = 4.0;

/// Runs it.
///
/// # Errors
/// Wrong flags.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let settings = settings(&args)?;
    let jobs = args
        .jobs
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    let mut all = play(&args, &settings, jobs);
    all.failures.sort_by_key(|failure| (failure.seed, failure.at_us));
    say!("{}", all.to_string().trim_end());
    match all.seeds().first() {
        None => {
            say!("ok: every client of every seed saw what the origin published");
            Ok(Outcome::Success)
        }
        Some(seed) => {
            say!(
                "FAILED: see above; replay with: {}",
                replay(std::env::args(), *seed)
            );
            Ok(Outcome::Failed)
        }
    }
}

/// Plays seed after seed until there were enough.
fn play(args: &Args, settings: &SimSettings, jobs: usize) -> Result {
    let wanted = args.hours.map(|hours| hours * 3.6e9);
    let (next, client_us, enough) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(Result::default());
    let progress = Progress::new(args);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if wanted.is_none() && index >= args.seeds {
                        return;
                    }
                    let outcome = run::run(args.seed.wrapping_add(index), settings);
                    let more_us = outcome.figures.client_us;
                    let sum_us = client_us.fetch_add(more_us, Ordering::Relaxed) + more_us;
                    #[allow(clippy::cast_precision_loss)]
                    if wanted.is_some_and(|wanted| sum_us as f64 >= wanted) {
                        enough.store(true, Ordering::Relaxed);
                    }
                    if let Ok(mut all) = all.lock() {
                        all.merge(outcome);
                        progress.show(&all, sum_us);
                    }
                }
            });
        }
    });
    progress.finish();
    all.into_inner().unwrap_or_default()
}

fn settings(args: &Args) -> anyhow::Result<SimSettings> {
    for link in [args.links.down(), args.links.up()] {
        link.map_err(|error| UsageError(error.0))?;
    }
    let [down, up] = demands(&args.links);
    refuse_without_effect(args)?;
    Ok(SimSettings {
        seconds: args.seconds,
        clients: args.clients,
        entities: args.entities,
        hz: args.hz,
        down,
        up,
        epoch_every_us: args.epoch_every.map(|seconds| micros(seconds * 1000.0)),
        flips_per_minute: args.flips,
        calm: args.calm,
        role: args.role,
        budget: args.budget,
        sabotage: None,
        watch: args.watch,
    })
}

/// Refuses what another flag leaves without effect.
#[allow(clippy::cast_precision_loss)]
fn refuse_without_effect(args: &Args) -> std::result::Result<(), UsageError> {
    let (seconds, refuse) = (args.seconds as f64, |text| Err(UsageError(text)));
    if let Some(every) = args.epoch_every {
        if args.calm {
            return refuse(format!(
                "--epoch-every {every}: --calm leaves a run to its links and restarts no origin, give one of the two"
            ));
        }
        if every + RESTART_BEFORE_END_S >= seconds {
            let least = (every + RESTART_BEFORE_END_S).floor() + 1.0;
            return refuse(format!(
                "--epoch-every {every}: no origin would restart in runs of {seconds} s, give --seconds {least} or more"
            ));
        }
    }
    let first = FLIPS_AFTER_S + 30.0 / args.flips;
    if args.flips > 0.0 && first + FLIPS_BEFORE_END_S >= seconds {
        let (flips, least) = (args.flips, (first + FLIPS_BEFORE_END_S).floor() + 1.0);
        return refuse(format!(
            "--flips {flips}: no bit would be flipped in runs of {seconds} s, give --seconds {least} or more"
        ));
    }
    Ok(())
}

/// A role by its word.
fn role(word: &str) -> std::result::Result<Role, String> {
    let known = Role::ALL.into_iter().find(|role| role.label() == word);
    known.ok_or_else(|| format!("a role is one of {}", Role::ALL.map(Role::label).join(", ")))
}

/// Milliseconds, already checked to be a time, in microseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn micros(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}

/// What the flags force, down and up.
fn demands(flags: &LinkFlags) -> [LinkDemand; 2] {
    let down = LinkDemand {
        loss: flags.down_loss.or(flags.loss),
        burst_loss: flags.down_burst_loss.or(flags.burst_loss),
        delay_us: flags.down_delay_ms.or(flags.delay_ms).map(micros),
        jitter_us: flags.down_jitter_ms.or(flags.jitter_ms).map(micros),
        reorder: flags.down_reorder.or(flags.reorder),
        duplicate: flags.down_duplicate.or(flags.duplicate),
        corrupt: None,
    };
    let up = LinkDemand {
        loss: flags.up_loss.or(flags.loss),
        burst_loss: flags.up_burst_loss.or(flags.burst_loss),
        delay_us: flags.up_delay_ms.or(flags.delay_ms).map(micros),
        jitter_us: flags.up_jitter_ms.or(flags.jitter_ms).map(micros),
        reorder: flags.up_reorder.or(flags.reorder),
        duplicate: flags.up_duplicate.or(flags.duplicate),
        corrupt: None,
    };
    [down, up]
}

/// The command line that plays one seed again: this one's flags, without those that choose seeds.
fn replay(line: impl Iterator<Item = String>, seed: u64) -> String {
    let mut kept = Vec::new();
    let mut skip = false;
    for word in line.skip(1).skip_while(|word| word != "sim").skip(1) {
        if core::mem::take(&mut skip) {
            continue;
        }
        let name = word.split('=').next().unwrap_or_default();
        if ["--seed", "--seeds", "--hours", "--jobs"].contains(&name) {
            skip = !word.contains('=');
        } else {
            kept.push(word);
        }
    }
    let rest: String = kept.iter().map(|word| format!(" {word}")).collect();
    format!("ackline sim --seed {seed} --seeds 1{rest}")
}

/// A line on a terminal that says how far the seeds are.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(args: &Args) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar = match args.hours {
            None => ProgressBar::new(args.seeds),
            Some(_) => ProgressBar::no_length(),
        };
        let style = ProgressStyle::with_template("{elapsed} {pos} seeds {wide_msg}");
        Progress(Some(
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
        ))
    }

    fn show(&self, all: &Result, client_us: u64) {
        let Some(bar) = &self.0 else { return };
        #[allow(clippy::cast_precision_loss)]
        let hours = client_us as f64 / 3.6e9;
        bar.set_position(all.figures.runs);
        let (records, failed) = (all.figures.records_checked, all.failed);
        bar.set_message(format!(
            "{hours:.2} client-hours, {records} records checked, {failed} failures"
        ));
    }

    fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser, Debug)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> anyhow::Result<SimSettings> {
        let line: Line = clap::Parser::try_parse_from(["sim"].into_iter().chain(line.split_whitespace()))?;
        settings(&line.args)
    }

    #[test]
    fn flags_force_what_they_name_and_nothing_else() {
        assert_eq!(parse("").expect("no flags"), SimSettings::default());
        let forced =
            parse("--client-count 3 --loss 10% --up-loss 0 --delay-ms 1.5 --epoch-every 30").expect("flags");
        let expected = SimSettings {
            clients: Some(3),
            down: LinkDemand {
                loss: Some(0.1),
                delay_us: Some(1_500),
                ..LinkDemand::default()
            },
            up: LinkDemand {
                loss: Some(0.0),
                delay_us: Some(1_500),
                ..LinkDemand::default()
            },
            epoch_every_us: Some(30_000_000),
            ..SimSettings::default()
        };
        assert_eq!(forced, expected);
        let role = parse("--role camera --budget 9000").expect("a role");
        assert_eq!((role.role, role.budget), (Some(Role::Camera), Some(9_000)));
        for wrong in [
            "--seeds 0",
            "--clients 251",
            "--hz 0",
            "--delay-ms -1",
            "--hours 1 --seeds 2",
            "--loss 2",
            "--role nobody",
            "--budget 2999",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// What one flag would leave without effect is refused, with the way out.
    #[test]
    fn a_flag_without_effect_is_refused() {
        for (line, words) in [
            ("--calm --epoch-every 20", "give one of the two"),
            ("--epoch-every 60", "give --seconds 61 or more"),
            ("--hours 1 --epoch-every 300", "give --seconds 301 or more"),
            ("--seconds 9 --flips 20", "give --seconds 11 or more"),
            ("--flips 0.5", "give --seconds 70 or more"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.is::<UsageError>(), "{line}: {error}");
            assert!(error.to_string().contains(words), "{line}: {error}");
        }
        for line in [
            "--calm --flips 8",
            "--seconds 61 --epoch-every 60",
            "--seconds 11 --flips 20",
            "--calm",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn the_replay_keeps_what_was_forced() {
        let line = "target/ackline sim --seed 1 --seeds=1000 --loss 30% --jobs 2 --up-delay-ms=5";
        assert_eq!(
            replay(line.split_whitespace().map(str::to_owned), 77),
            "ackline sim --seed 77 --seeds 1 --loss 30% --up-delay-ms=5"
        );
    }
}
