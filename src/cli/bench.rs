//! `ackline bench`: the load generator and oracle, and the merging of its reports.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::origin::SourceArgs;
use super::{Outcome, UsageError};
use crate::bench::admin::Admin;
use crate::bench::attack;
use crate::bench::merge::{differences, merge};
use crate::bench::page::page;
use crate::bench::report::Report;
use crate::bench::run::{self, Glance, Plan, Target};
use crate::bench::settings::{Attacks, FlagError, LinkFlags, LoadFlags};
use crate::bench::stage::BEGIN_WITHIN;
use crate::bench::summary::{count, summary};
use crate::bench::target::TargetFlags;
use crate::bench::threshold;
use crate::impairment::settings::ImpairmentSettings;
use crate::node::minter::Minter;
use crate::node::tls::UpstreamTrust;

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = short_help(), after_long_help = long_help(), args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    merge: Option<Subcommand>,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten, next_help_heading = "Origin of this process")]
    source: SourceArgs,
    #[command(flatten)]
    links: LinkFlags,
}

#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    /// Adds reports of several hosts into one.
    Merge(Merge),
}

/// Flags of `merge`.
#[derive(clap::Args, Debug)]
struct Merge {
    /// Reports written with --report
    #[arg(required = true, value_name = "REPORT.json")]
    reports: Vec<PathBuf>,
    /// Writes the sum here; - for standard output, where it goes without this flag too unless that is a terminal
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Writes the sum as a page with its charts, one file that can be sent to somebody
    #[arg(long, value_name = "FILE.html")]
    page: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  ackline bench --clients 2000 --seconds 30
  ackline bench --relay 10.0.0.5:7777 --admin 10.0.0.5:8000 --truth 10.0.0.4:7700
  ackline bench --clients 500 --seconds 20 --loss 5% --delay-ms 40 --churn 10 --report report.json
  ackline bench --scene crowd --view radius:20,25 --clients 1000
  ackline bench --clients 200 --threshold 'latency_p99<20ms' --threshold 'fallbacks==0'
  ackline bench --attack flood,copies
  ackline bench --attack all --report attacks.json
  ackline bench --clients 500 --page report.html
  ackline bench merge host-a.json host-b.json --report sum.json --page sum.html

Without --relay it starts an origin and a relay of its own; a recording goes round for ever. \
Exit code 0 when every check held, 1 when one failed or the host could not keep up, 2 for wrong flags.";

fn short_help() -> String {
    format!("{EXAMPLES}\n\nFigures for --threshold: ackline bench --help lists them.")
}

fn long_help() -> String {
    format!(
        "{EXAMPLES}\n\nFigures for --threshold:\n  {}",
        threshold::names().join(", ")
    )
}

/// Runs it.
///
/// # Errors
/// Wrong flags, or a part that cannot begin.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let Args {
        merge,
        load,
        mut target,
        source,
        links,
    } = args;
    if let Some(Subcommand::Merge(merge)) = merge {
        return run_merge(&merge);
    }
    load.check().map_err(usage)?;
    target.settle(std::env::args()).map_err(usage)?;
    let (down, up) = link_settings(&links)?;
    let target = match &target.relay {
        None => local(source, load.seed)?,
        Some(_) if is_given(&source) => {
            let text = "--relay names a relay with an origin of its own: leave out the flags of the origin, or --relay";
            return Err(usage(FlagError(text.to_owned())).into());
        }
        Some(_) if load.budget_bytes_per_s.is_some() => {
            let text = "--budget-bytes-per-s is of a relay of this process, and --relay names another with its own: leave out either";
            return Err(usage(FlagError(text.to_owned())).into());
        }
        Some(relay) => Target::Remote {
            minter: minter(&target)?,
            relay: resolve(relay)?,
            admin: admin(&target)?,
            truth_trust: truth_trust(&target)?,
            truth: target.truth,
            truth_token: target.truth_token.unwrap_or_default(),
        },
    };
    check_files(load.report.as_deref(), load.page.as_deref(), load.plot.as_deref())?;
    match &target {
        Target::Remote { truth: None, .. } => complain!(
            "no --truth: packets, latencies and sessions are measured, but what clients see is not compared with the origin"
        ),
        Target::Remote {
            truth: Some(truth), ..
        } if !run::is_recording(truth) => complain!(
            "waiting for the truth at {truth}, at most {} s",
            BEGIN_WITHIN.as_secs()
        ),
        _ => {}
    }
    let report = follow(&load, &Plan::of(&load, target, down, up))?;
    conclude(&report, load.report.as_deref(), load.page.as_deref())
}

/// Whom the truth's subscription believes to be the origin.
fn truth_trust(target: &TargetFlags) -> anyhow::Result<Option<UpstreamTrust>> {
    let load = |file: &PathBuf| {
        UpstreamTrust::load(file)
            .map_err(|fault| usage(FlagError(format!("--truth-ca-file {}: {fault}", file.display()))))
    };
    // A recording has nobody to be believed.
    let is_asked = !target.truth.as_deref().is_some_and(run::is_recording);
    let file = target.truth_ca_file.as_ref().filter(|_| is_asked);
    Ok(file.map(load).transpose()?)
}

/// The relay's admin, whose name must be one that is known.
fn admin(target: &TargetFlags) -> anyhow::Result<Option<Admin>> {
    let Some(addr) = target.admin.clone() else {
        return Ok(None);
    };
    let token = target.admin_token.clone().unwrap_or_default();
    let admin = Admin { addr, token };
    match admin.resolve() {
        Ok(_) => Ok(Some(admin)),
        Err(error) => Err(usage(FlagError(format!("--admin {error:#}"))).into()),
    }
}

/// What mints the tokens that a relay asks for.
fn minter(target: &TargetFlags) -> anyhow::Result<Option<Minter>> {
    let (Some(file), Some(relay)) = (&target.token_keys_file, &target.relay) else {
        return Ok(None);
    };
    let key = Minter::key_of(file).map_err(|error| FlagError(format!("--token-keys-file: {error:#}")))?;
    Ok(Some(Minter::new(key, target.audience.clone(), resolve(relay)?)))
}

/// True for `-`, which means standard output as everywhere; the summary is then told on standard error.
fn is_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// Refuses a report or page that could not be written, before the run rather than after it.
pub(super) fn check_files(
    report: Option<&Path>,
    page: Option<&Path>,
    plot: Option<&Path>,
) -> Result<(), UsageError> {
    plot.map_or(Ok(()), |file| writable("--plot", file))?;
    if let Some(file) = report.filter(|file| !is_output(file)) {
        writable("--report", file)?;
    }
    page.map_or(Ok(()), |file| writable("--page", file))
}

fn writable(flag: &str, file: &Path) -> Result<(), UsageError> {
    let is_new = !file.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    match opened {
        Ok(_) if is_new => {
            // A run that fails leaves no empty report; where this one cannot be removed, it is written over.
            let _ = std::fs::remove_file(file);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(UsageError(format!(
            "{flag} {}: it cannot be written ({error}): give a file in a directory that is there and may be written to",
            file.display()
        ))),
    }
}

/// An origin of this process, which never ends by itself, and a relay.
pub(super) fn local(mut source: SourceArgs, seed: u64) -> Result<Target, UsageError> {
    if let Some(path) = source.trace.as_ref().filter(|path| !path.exists()) {
        return Err(UsageError(format!(
            "--trace {}: there is no such file",
            path.display()
        )));
    }
    source.check()?;
    source.repeat = source.trace.is_some();
    Ok(Target::Local(source.source(seed)?, source.coding()?))
}

fn is_given(source: &SourceArgs) -> bool {
    let scene = source.scene.is_some() || source.entities.is_some() || source.hz.is_some();
    scene || source.trace.is_some() || source.repeat || source.speed.is_some() || source.tables.is_some()
}

fn resolve(relay: &str) -> Result<SocketAddr, UsageError> {
    let found = relay.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| UsageError(format!("--relay {relay}: no such address, give host:port")))
}

/// A wrong flag.
pub(super) fn usage(error: FlagError) -> UsageError {
    UsageError(error.0)
}

/// Links down and up.
pub(super) fn link_settings(
    links: &LinkFlags,
) -> Result<(ImpairmentSettings, ImpairmentSettings), UsageError> {
    Ok((links.down().map_err(usage)?, links.up().map_err(usage)?))
}

/// Runs a plan, or its attacks one after the other, and shows how it goes.
pub(super) fn follow(load: &LoadFlags, plan: &Plan) -> anyhow::Result<Report> {
    let Some(Attacks(kinds)) = &load.attack else {
        return follow_one(plan);
    };
    if let Target::Remote { relay, .. } = &plan.target
        && !(relay.ip().is_loopback() && relay.is_ipv4())
    {
        let text =
            format!("--attack: {relay} is not on this host: give a relay on 127.0.0.1, or leave out --relay");
        return Err(usage(FlagError(text)).into());
    }
    let (mut attacks, mut last) = (Vec::new(), None);
    for kind in kinds {
        let mut progress = Progress::new(format!("attack {}: {}", kind.word(), headline(plan)));
        let report = attack::pair(plan, *kind, |glance| progress.show(glance));
        progress.finish();
        let mut report = report?;
        attacks.append(&mut report.attacks);
        if let Some(done) = attacks.last() {
            complain!("  {}: {}", done.outcome(), done.observed);
        }
        // A run that failed for another reason is the one to be seen.
        let keep = last.as_ref().is_none_or(|last: &Report| last.verdict.ok);
        last = if keep { Some(report) } else { last };
    }
    let mut report = last.context("no attack was done")?;
    report.attacks = attacks;
    report.judge();
    Ok(report)
}

fn follow_one(plan: &Plan) -> anyhow::Result<Report> {
    let mut progress = Progress::new(headline(plan));
    let report = run::run(plan, |glance| progress.show(glance));
    progress.finish();
    report
}

fn headline(plan: &Plan) -> String {
    let whose = match &plan.target {
        Target::Local(..) => "an origin and a relay of this process".to_owned(),
        Target::Remote { relay, .. } => format!("the relay at {relay}"),
    };
    let links = if plan.down == plan.up {
        format!("links: {}", plan.down)
    } else {
        format!("links down: {}, up: {}", plan.down, plan.up)
    };
    let Plan {
        clients,
        seconds,
        seed,
        ..
    } = plan;
    let noun = if *clients == 1 { "client" } else { "clients" };
    let view = plan.view.map_or(String::new(), |view| format!("view {view}; "));
    format!("{clients} {noun} on {whose}, {seconds} s and 1.5 s of clean network; {view}{links}; seed {seed}")
}

/// Prints the summary, writes the report and the page.
pub(super) fn conclude(report: &Report, file: Option<&Path>, html: Option<&Path>) -> anyhow::Result<Outcome> {
    let summary = summary(report);
    match file {
        Some(file) if is_output(file) => {
            complain!("{}", summary.trim_end_matches('\n'));
            say!("{}", report.to_json()?.trim_end());
        }
        Some(file) => {
            say!("{}", summary.trim_end());
            write(report, file)?;
        }
        None => say!("{}", summary.trim_end()),
    }
    if let Some(html) = html {
        std::fs::write(html, page(report)?)
            .with_context(|| format!("the page {} cannot be written", html.display()))?;
    }
    Ok(outcome(report))
}

fn outcome(report: &Report) -> Outcome {
    if report.verdict.ok {
        Outcome::Success
    } else {
        Outcome::Failed
    }
}

fn write(report: &Report, file: &Path) -> anyhow::Result<()> {
    std::fs::write(file, report.to_json()?)
        .with_context(|| format!("the report {} cannot be written", file.display()))
}

/// The reports of these files. One that stands twice among them would be counted twice, and is refused: nothing in a run comes out
/// the same to the last figure in another.
fn read_reports(files: &[PathBuf]) -> Result<Vec<Report>, UsageError> {
    let mut read: Vec<(&PathBuf, Report)> = Vec::new();
    for path in files {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| UsageError(format!("{name} cannot be read: {error}")))?;
        let report: Report = serde_json::from_str(&text)
            .map_err(|error| UsageError(format!("{name} is no report of this version: {error}")))?;
        match read.iter().find(|(_, other)| *other == report) {
            Some((other, _)) if *other == path => {
                return Err(UsageError(format!(
                    "{name} is named twice: each report counts once"
                )));
            }
            Some((other, _)) => {
                return Err(UsageError(format!(
                    "{name} is the same report as {}: each counts once",
                    other.display()
                )));
            }
            None => read.push((path, report)),
        }
    }
    Ok(read.into_iter().map(|(_, report)| report).collect())
}

fn run_merge(args: &Merge) -> anyhow::Result<Outcome> {
    let reports = read_reports(&args.reports)?;
    check_files(args.report.as_deref(), args.page.as_deref(), None)?;
    if let Some(sentence) = differences(&reports) {
        complain!("{sentence}");
    }
    let sum = merge(&reports).map_err(|error| UsageError(error.to_owned()))?;
    // The sum goes to standard output where no file is named for it, nobody asked for a page instead, and no person would have to
    // look for the summary after a hundred screens of it.
    let to_output = args.page.is_none() && !std::io::stdout().is_terminal();
    let file = args.report.as_deref().or(to_output.then_some(Path::new("-")));
    conclude(&sum, file, args.page.as_deref())
}

/// Live progress: a bar on a terminal, a line each second elsewhere.
struct Progress {
    /// What is said when the run has begun; empty once it was. A run that cannot begin says only why.
    headline: String,
    bar: Option<ProgressBar>,
    last: Glance,
}

impl Progress {
    fn new(headline: String) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(100);
            // The template is a constant of this file.
            bar.set_style(
                ProgressStyle::with_template("  {bar:24} {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Progress {
            headline,
            bar,
            last: Glance::default(),
        }
    }

    fn show(&mut self, glance: &Glance) {
        if glance.seconds < self.last.seconds {
            // Another run has begun.
            self.last = Glance::default();
        }
        if !self.headline.is_empty() {
            let headline = core::mem::take(&mut self.headline);
            match &self.bar {
                Some(bar) => bar.suspend(|| complain!("{headline}")),
                None => complain!("{headline}"),
            }
        }
        let passed = glance.seconds - self.last.seconds;
        let is_last = glance.seconds >= glance.of_seconds && passed > 0.0;
        if passed < 1.0 && !is_last {
            return;
        }
        let packets_per_s = (glance.packets - self.last.packets) as f64 / passed;
        let silence = if glance.packets == 0 && glance.seconds > 1.5 {
            "  nothing has reached a client yet"
        } else {
            ""
        };
        let text = format!(
            "{:.0}/{:.0} s  {} joined  {} packets/s  {} records checked  {} mismatches{silence}",
            glance.seconds,
            glance.of_seconds,
            count(glance.joined),
            count(packets_per_s as u64),
            count(glance.records),
            count(glance.mismatches)
        );
        match &self.bar {
            Some(bar) => {
                bar.set_position((100.0 * glance.seconds / glance.of_seconds) as u64);
                bar.set_message(text);
            }
            None => complain!("  {text}"),
        }
        self.last = *glance;
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
