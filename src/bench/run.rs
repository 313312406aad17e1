//! One bench from its plan to its report: origin and relay where they are its own, truth, swarm, figures.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};

use super::admin::Admin;
use super::attack::{Attack, AttackReport, Field};
use super::inputs::InputCounts;
use super::player::PlayerCounts;
use super::preflight;
use super::report::{Inputs, LinkFigures, Report};
use super::series::SeriesSet;
use super::settings::{FlagError, LoadFlags};
use super::stage::{self, Stage};
use super::summary::count;
use super::swarm::{CLEAN_US, Swarm, SwarmSettings, ThreadResult};
use super::tally::{Tally, fill_links};
use super::truth::{Timeless, TruthLog};
use super::viewer::RenderSettings;
use super::viewer::counts::Render;
use super::viewer::strip::Strip;
use crate::client::settings::ClientSettings;
use crate::impairment::settings::ImpairmentSettings;
use crate::net::clock::monotonic_us;
use crate::node::minter::Minter;
use crate::node::origin::OriginSource;
use crate::node::random::random;
use crate::node::secret::{SecretText, shown_line};
use crate::node::tls::UpstreamTrust;
use crate::state::coding::Coding;
use crate::state::view::{Scope, View};

/// Whose relay is loaded.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // There is one in a run.
pub enum Target {
    /// An origin and a relay of this process: what it publishes, and how its records become bits.
    Local(OriginSource, Coding),
    /// One that runs already.
    Remote {
        /// Where clients connect.
        relay: SocketAddr,
        /// What mints the tokens it asks for; `None` where it asks for none.
        minter: Option<Minter>,
        /// Its admin.
        admin: Option<Admin>,
        /// What its records are compared with: the origin's address or its recording.
        truth: Option<String>,
        /// What the origin knows its subscribers by.
        truth_token: SecretText,
        /// Whom it believes to be the origin; `None` for a plain connection.
        truth_trust: Option<UpstreamTrust>,
    },
}

/// What a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command line, for the report, secrets masked.
    pub command: String,
    /// Whose relay.
    pub target: Target,
    /// How many clients.
    pub clients: usize,
    /// The run, clean time not included, seconds.
    pub seconds: f64,
    /// Clients that begin in a second; `None` for all within four seconds or a third of the run.
    pub ramp_per_s: Option<f64>,
    /// Clients that leave, and are replaced, in a second.
    pub churn_per_s: f64,
    /// Threads that run clients; `None` for one for each 500 clients, at most one for each core.
    pub threads: Option<usize>,
    /// Relay to client.
    pub down: ImpairmentSettings,
    /// Client to relay.
    pub up: ImpairmentSettings,
    /// Seed of everything random.
    pub seed: u64,
    /// The view that an origin of this process gives every client, and that clients must have been given; `None` where
    /// another's origin may give any.
    pub view: Option<View>,
    /// Bytes a second that a relay of this process may send one client; `None` for its default.
    pub budget_bytes_per_s: Option<u64>,
    /// Inputs each client pushes in a second.
    pub input_hz: f64,
    /// Frames each client draws in a second; `None` for none.
    pub render_fps: Option<f64>,
    /// The attack that this is one run of a pair for.
    pub attack: Option<Attack>,
    /// Where to put a picture of what the first client drew of one entity.
    pub plot: Option<PathBuf>,
    /// Thresholds.
    pub thresholds: Vec<String>,
}

impl Plan {
    /// The plan of these flags.
    #[must_use]
    pub fn of(load: &LoadFlags, target: Target, down: ImpairmentSettings, up: ImpairmentSettings) -> Plan {
        Plan {
            command: shown_line(std::env::args()),
            target,
            clients: load.clients(),
            seconds: load.seconds,
            ramp_per_s: load.ramp,
            churn_per_s: load.churn,
            threads: load.threads,
            down,
            up,
            seed: load.seed,
            view: load.view,
            budget_bytes_per_s: load.budget_bytes_per_s,
            input_hz: load.input_hz,
            render_fps: load.render.or(load.plot.as_ref().map(|_| RENDER_FPS)),
            attack: None,
            plot: load.plot.clone(),
            thresholds: load.threshold.clone(),
        }
    }
}

/// How a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Glance {
    /// Seconds since the first client began.
    pub seconds: f64,
    /// Seconds there are in all.
    pub of_seconds: f64,
    /// Clients that hold a snapshot.
    pub joined: u64,
    /// Clients whose view was complete.
    pub complete: u64,
    /// Datagrams received so far.
    pub packets: u64,
    /// Records compared so far.
    pub records: u64,
    /// Mismatches so far.
    pub mismatches: u64,
}

/// What `bench.clock` begins with where latencies were not measured.
pub const NO_CLOCK: &str = "no latencies: ";
/// Time after the ramp before an attack begins, microseconds.
const SETTLE_US: u64 = 200_000;
/// Time between two glances.
const GLANCE: Duration = Duration::from_millis(200);
/// A bench whose timers are late beyond this in one of a hundred cases cannot keep its schedule, milliseconds.
const LATE_MS: f64 = 10.0;
/// A bench thread busier than this is a bottleneck.
const BUSY_SHARE: f64 = 0.95;
/// A bench thread less busy than this that is late all the same waits for others' work.
const IDLE_SHARE: f64 = 0.6;
/// Frames a second that a client draws where only a plot was asked for.
const RENDER_FPS: f64 = 60.0;
/// A relay that has not answered any client within so many seconds is not there.
const NOBODY_S: f64 = 5.0;
/// Seconds in which all clients of a long run begin.
const RAMP_S: f64 = 4.0;
/// Clients that one thread serves well: at 20 snapshots a second some 25 us of work each.
const CLIENTS_PER_THREAD: usize = 500;

/// Clients of each thread whose entities are watched for how long they wait: those that see the whole world, and those
/// that see some of it.
const WATCHED: usize = 32;
const WATCHED_BOUNDED: usize = 64;

/// Runs a plan; `show` is told now and then how it stands.
///
/// # Errors
/// When the host cannot carry it, or a part cannot begin: in one sentence.
pub fn run(plan: &Plan, mut show: impl FnMut(&Glance)) -> anyhow::Result<Report> {
    let threads = plan
        .threads
        .unwrap_or_else(|| threads_for(plan.clients))
        .min(plan.clients);
    let is_local = matches!(plan.target, Target::Local(..));
    let host = preflight::check(plan.clients as u64, threads as u64, is_local);
    if let Some(fault) = host.faults.first() {
        bail!("{fault}");
    }
    let mut stage = Stage::set(plan)?;
    let drops = preflight::kernel_drops();
    let before = stage.samples()?;
    let cpu_before = stage.relay_cpu_ns();
    let settings = SwarmSettings {
        relay: stage.relay,
        client: ClientSettings::default(),
        minter: stage.minter.clone(),
        players_from: u64::from(u32::from_le_bytes(random()?)) << 32 | 1,
        clients: plan.clients,
        threads,
        ramp_per_s: plan.ramp_per_s.unwrap_or_else(|| ramp_for(plan)),
        churn_per_s: plan.churn_per_s,
        run_us: (plan.seconds * 1e6) as u64,
        down: plan.down,
        up: plan.up,
        seed: plan.seed,
        input_hz: plan.input_hz,
        render: render_of(plan),
        view: plan.view,
        apart: plan.attack.is_some(),
        watched: if plan.view.is_some_and(|view| view.scope != Scope::Whole) {
            WATCHED_BOUNDED
        } else {
            WATCHED
        },
    };
    let ticks_before = stage.log.as_ref().map(|log| log.pushed());
    let swarm = Swarm::start(&settings, stage.log.as_ref()).context("the bench cannot start its clients")?;
    let (start_us, end_us) = (swarm.start_us, swarm.end_us);
    let ramp_us = (plan.clients as f64 / settings.ramp_per_s * 1e6) as u64;
    let attack = begin_attack(plan, &stage, start_us + ramp_us + SETTLE_US, swarm.clean_us)?;
    let mut is_cut = false;
    while !swarm.is_over() {
        std::thread::sleep(GLANCE);
        let glance = glance(&swarm);
        show(&glance);
        if settings.minter.is_none() && glance.joined == 0 && is_denied(&swarm) {
            let text = format!(
                "--relay {}: it asks for connect tokens: give --token-keys-file with the file of keys that it has, and --audience where it has one",
                stage.relay
            );
            stage.strike();
            return Err(FlagError(text).into());
        }
        if is_nobody(plan, &swarm, &glance) {
            swarm.stop();
            is_cut = true;
        }
    }
    let results = swarm.join().context("the bench lost its sockets")?;
    let attacked = attack.map(JoinHandle::join).transpose();
    let attacked = attacked.map_err(|_| anyhow::anyhow!("the attack panicked"))?;
    let seconds = (monotonic_us().min(end_us) - start_us) as f64 / 1e6;
    let mut notes = host.warnings;
    if is_cut {
        notes.push(format!(
            "ended before its time: {} answered nobody for {NOBODY_S} s",
            stage.relay
        ));
    }

    let mut report = Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: plan.command.clone(),
        seconds,
        seed: plan.seed,
        target: if is_local {
            "local".to_owned()
        } else {
            stage.relay.to_string()
        },
        scene: stage::scene_of(&plan.target),
        view: stage::view_of(plan).map(|view| view.to_string()),
        thresholds: plan.thresholds.clone(),
        ..Report::default()
    };
    report.machine.cores = preflight::cores();
    report.machine.kernel = preflight::kernel();
    report.clients.requested = plan.clients as u64;
    report.impairment.down = link_figures(&plan.down);
    report.impairment.up = link_figures(&plan.up);
    report.bench.threads = threads as u64;
    report.bench.notes = notes;
    let after_drops = preflight::kernel_drops();
    report.bench.kernel_drops = after_drops
        .zip(drops)
        .map(|(after, before)| after.saturating_sub(before));
    stage.fill(&mut report, before.as_ref(), cpu_before, ticks_before);
    let mut series = fill(&mut report, &results, stage.log.as_deref(), plan.render_fps);
    if let Some(file) = &plan.plot {
        plot(&results, file)?;
    }
    if let Some(ledger) = &stage.ledger {
        let (inputs, ways) = ledger.sum();
        series.add(&ways);
        fill_delivered(&mut report.inputs, &inputs);
    }
    report.attacks.extend(attacked);
    stage.strike();
    report.derive(&series);
    judge_bench(&mut report);
    Ok(report)
}

/// Starts the attack of a plan, in a thread of its own.
fn begin_attack(
    plan: &Plan,
    stage: &Stage,
    from_us: u64,
    until_us: u64,
) -> anyhow::Result<Option<JoinHandle<AttackReport>>> {
    let Some(Attack { kind, fires: true }) = plan.attack else {
        return Ok(None);
    };
    let field = Field {
        relay: stage.relay,
        minter: stage.minter.clone(),
        until_us,
        seed: plan.seed,
    };
    let attack = move || {
        let wait_us = from_us.saturating_sub(monotonic_us());
        std::thread::sleep(Duration::from_micros(wait_us));
        field.report(kind)
    };
    let thread = std::thread::Builder::new().name("bench-attack".to_owned());
    thread.spawn(attack).map(Some).context("the attack cannot begin")
}

/// Writes what the first client drew of one entity.
fn plot(results: &[ThreadResult], file: &Path) -> anyhow::Result<()> {
    let strip = results.iter().find_map(|result| result.tally.strip.as_ref());
    let svg = strip.and_then(Strip::to_svg);
    let svg = svg.context("there is nothing to plot: the first client drew nothing that moved")?;
    std::fs::write(file, svg).with_context(|| format!("--plot {} cannot be written", file.display()))
}

/// One thread for each [`CLIENTS_PER_THREAD`] clients, at most one for each core.
fn threads_for(clients: usize) -> usize {
    let cores = usize::try_from(preflight::cores()).unwrap_or(1);
    clients.div_ceil(CLIENTS_PER_THREAD).clamp(1, cores.max(1))
}

/// Clients that begin in a second: all within [`RAMP_S`] or a third of the run, and at least a hundred.
fn ramp_for(plan: &Plan) -> f64 {
    let within_s = RAMP_S.min(plan.seconds / 3.0);
    (plan.clients as f64 / within_s).max(100.0)
}

fn glance(swarm: &Swarm) -> Glance {
    let now_us = monotonic_us();
    let mut glance = Glance {
        // The threads end a little after the last check.
        seconds: now_us.min(swarm.end_us).saturating_sub(swarm.start_us) as f64 / 1e6,
        of_seconds: (swarm.end_us - swarm.start_us) as f64 / 1e6,
        ..Glance::default()
    };
    for live in swarm.live() {
        glance.joined += live.joined.load(Ordering::Relaxed);
        glance.complete += live.complete.load(Ordering::Relaxed);
        glance.packets += live.packets.load(Ordering::Relaxed);
        glance.records += live.records.load(Ordering::Relaxed);
        glance.mismatches += live.mismatches.load(Ordering::Relaxed);
    }
    glance
}

/// True where somebody else's relay has not said a word in so long that it is not there: the rest of the run would show nothing.
/// One that answers with a denial is there, and may let clients in later.
fn is_nobody(plan: &Plan, swarm: &Swarm, glance: &Glance) -> bool {
    let answered = || {
        swarm
            .live()
            .map(|live| live.answered.load(Ordering::Relaxed))
            .sum::<u64>()
    };
    let is_remote = matches!(plan.target, Target::Remote { .. }) && plan.attack.is_none();
    is_remote && glance.packets == 0 && glance.seconds >= NOBODY_S && answered() == 0
}

/// True when the relay has denied somebody for the token.
fn is_denied(swarm: &Swarm) -> bool {
    swarm.live().any(|live| live.denied.load(Ordering::Relaxed) > 0)
}

/// True when `--truth` names a recording, not an address.
#[must_use]
pub fn is_recording(truth: &str) -> bool {
    Path::new(truth).is_file()
}

fn link_figures(settings: &ImpairmentSettings) -> LinkFigures {
    LinkFigures {
        text: settings.to_string(),
        loss: settings.loss,
        burst_loss: settings.burst_loss,
        delay_ms: settings.delay_us as f64 / 1000.0,
        jitter_ms: settings.jitter_us as f64 / 1000.0,
        reorder: settings.reorder,
        duplicate: settings.duplicate,
        ..LinkFigures::default()
    }
}

/// What each client draws; the map of an arena of this process is known.
fn render_of(plan: &Plan) -> Option<RenderSettings> {
    Some(RenderSettings {
        fps: plan.render_fps?,
        #[cfg(feature = "scenes")]
        arena: stage::arena_of(&plan.target),
    })
}

/// Fills in what the threads counted; gives the distributions.
fn fill(
    report: &mut Report,
    results: &[ThreadResult],
    log: Option<&TruthLog>,
    render_fps: Option<f64>,
) -> SeriesSet {
    let mut tally = Tally::default();
    for result in results {
        tally.add(&result.tally);
        let (truth, oracle) = (&mut report.truth, &result.oracle);
        truth.records_checked += oracle.records_checked;
        truth.tables_checked += oracle.tables_checked;
        truth.mismatches += oracle.mismatches;
        truth.leaks += oracle.leaks;
        truth.unchecked += oracle.unchecked;
        truth.at_seams += oracle.at_seams;
        truth.examples.extend(oracle.examples.iter().cloned());
        truth
            .missing_examples
            .extend(oracle.missing_examples.iter().cloned());
        report.bench.cpu_share = report.bench.cpu_share.max(result.cpu_share);
    }
    report.render = render_fps.map(|fps| Render::of(fps, tally.viewers));
    report.truth.given = log.is_some();
    report.truth.missing_at_end = tally.missing_at_end;
    report.truth.unchecked += tally.unchecked;
    let clients = &mut report.clients;
    clients.connected = tally.connected;
    clients.lost = clients.requested.saturating_sub(tally.connected);
    clients.reconnects = tally.reconnects;
    clients.churned = tally.churned;
    clients.endings = tally
        .endings
        .iter()
        .map(|(reason, count)| ((*reason).to_owned(), *count))
        .collect();
    clients.session_seconds = tally.session_us as f64 / 1e6;
    let packets = &mut report.packets;
    packets.sent = tally.arrived;
    packets.received = tally.received;
    packets.received_in_run = tally.received_in_run;
    packets.bytes = tally.bytes;
    packets.up = tally.up;
    packets.up_bytes = tally.up_bytes;
    packets.rejected = tally.rejected.clone();
    report.window.advances = tally.advances;
    report.digest.checked = tally.digest_checked;
    report.digest.mismatches = tally.digest_mismatches;
    report.digest.healed = tally.digest_healed;
    let events = &mut report.events;
    events.sent = tally.events.sent;
    events.delivered = tally.events.delivered;
    events.duplicated = tally.events.duplicated;
    events.out_of_order = tally.events.out_of_order;
    events.unknown = tally.events.unknown;
    report.truth.leaks += tally.events.leaks;
    report.truth.examples.append(&mut tally.event_examples);
    report.truth.views_unlike = tally.views_unlike;
    fill_pushed(&mut report.inputs, &tally.players);
    fill_links(&mut report.impairment.down, &tally.down_links);
    fill_links(&mut report.impairment.up, &tally.up_links);
    report.bench.overruns = tally.overruns;
    let measured = tally
        .series
        .of(super::series::Series::Latency)
        .is_some_and(|latency| !latency.is_empty());
    let why = log.map_or("without --truth no publish time is known", |log| {
        log.timeless().map_or("nothing was measured", Timeless::words)
    });
    report.bench.clock = if measured {
        "one clock: the origin's times are of this host".to_owned()
    } else {
        format!("{NO_CLOCK}{why}")
    };
    tally.series
}

/// What clients tell of inputs and of their own entities.
fn fill_pushed(inputs: &mut Inputs, players: &PlayerCounts) {
    inputs.wrong_processed = Some(players.wrong_processed);
    inputs.owners_checked = Some(players.owners_checked);
    if players.sent > 0 {
        inputs.sent = Some(players.sent);
        inputs.cut_off = Some(players.cut_off);
        inputs.reported_lost = Some(players.reported_lost);
    }
}

/// What the origin tells of inputs.
fn fill_delivered(inputs: &mut Inputs, counts: &InputCounts) {
    let Some(sent) = inputs.sent else { return };
    inputs.delivered = Some(counts.delivered);
    inputs.duplicated = Some(counts.duplicated);
    inputs.out_of_order = Some(counts.out_of_order);
    inputs.wrong = Some(counts.wrong);
    inputs.reported_lost = Some(counts.reported_lost);
    let told = counts.delivered + counts.reported_lost + inputs.cut_off.unwrap_or(0);
    inputs.missing = Some(sent.saturating_sub(told));
}

/// Says when the bench itself, or the host it shares, was the bottleneck (FAULTS 96), before all other notes.
fn judge_bench(report: &mut Report) {
    let bench = &mut report.bench;
    let late_ms = bench.late_ms.p99.unwrap_or(0.0);
    let share = bench.cpu_share * 100.0;
    let is_late = late_ms > LATE_MS;
    bench.saturated = bench.cpu_share >= BUSY_SHARE || (is_late && bench.cpu_share >= IDLE_SHARE);
    bench.host_busy = is_late && !bench.saturated;
    let mut notes = Vec::new();
    if bench.saturated {
        notes.push(format!(
            "the bench itself was the bottleneck: its busiest thread used {share:.0}% of a core and its timers were {late_ms:.1} ms late (p99), so times here are partly its own; take fewer clients, more --threads, or a host with idle cores"
        ));
    }
    if bench.host_busy {
        notes.push(format!(
            "the host was too busy: timers of the bench were {late_ms:.1} ms late (p99) though its busiest thread used only {share:.0}% of a core, so times here are partly those of waiting for a core; end what else runs, or take a host with more cores"
        ));
    }
    if let Some(drops) = bench.kernel_drops.filter(|drops| *drops > 0) {
        notes.push(format!(
            "the kernel dropped {} datagrams at full receive buffers of this host",
            count(drops)
        ));
    }
    notes.append(&mut bench.notes);
    bench.notes = notes;
}

const _: () = assert!(CLEAN_US >= super::swarm::WHOLE_AFTER_US);

#[cfg(test)]
mod tests;
