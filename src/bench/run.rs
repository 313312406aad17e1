//! One bench from its plan to its report: origin and relay where they are its own, truth, swarm, figures.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};

use super::preflight;
use super::report::{LinkFigures, Report};
use super::scrape::{self, Samples};
use super::series::SeriesSet;
use super::settings::{FlagError, LoadFlags};
use super::source::{self, TruthSource};
use super::summary::count;
use super::swarm::{CLEAN_US, Swarm, SwarmSettings, ThreadResult};
use super::tally::{Tally, fill_links};
use super::truth::{Timeless, TruthLog};
use crate::client::settings::ClientSettings;
use crate::impairment::settings::ImpairmentSettings;
use crate::net::clock::{monotonic_us, rss_bytes};
use crate::node::origin::{OriginHandle, OriginSettings, OriginSource};
use crate::node::relay::RelayHandle;
use crate::node::settings::RelaySettings;

/// Whose relay is loaded.
#[derive(Clone, Debug)]
pub enum Target {
    /// An origin and a relay of this process.
    Local(OriginSource),
    /// One that runs already.
    Remote {
        /// Where clients connect.
        relay: SocketAddr,
        /// Its admin.
        admin: Option<SocketAddr>,
        /// What its records are compared with: the origin's address or its recording.
        truth: Option<String>,
        /// What the origin knows its subscribers by.
        truth_token: Vec<u8>,
    },
}

/// What a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command line, for the report.
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
    /// Thresholds.
    pub thresholds: Vec<String>,
}

impl Plan {
    /// The plan of these flags.
    #[must_use]
    pub fn of(load: &LoadFlags, target: Target, down: ImpairmentSettings, up: ImpairmentSettings) -> Plan {
        Plan {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            target,
            clients: load.clients,
            seconds: load.seconds,
            ramp_per_s: load.ramp,
            churn_per_s: load.churn,
            threads: load.threads,
            down,
            up,
            seed: load.seed,
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
/// How long origin, relay and truth may take to begin.
pub const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// Time between two glances.
const GLANCE: Duration = Duration::from_millis(200);
/// A bench whose timers are late beyond this in one of a hundred cases cannot keep its schedule, milliseconds.
const LATE_MS: f64 = 10.0;
/// A bench thread busier than this is a bottleneck.
const BUSY_SHARE: f64 = 0.95;
/// A bench thread less busy than this that is late all the same waits for others' work.
const IDLE_SHARE: f64 = 0.6;
/// Seconds in which all clients of a long run begin.
const RAMP_S: f64 = 4.0;
/// How long the truth is kept beyond what the links delay, microseconds.
const TRUTH_US: u64 = 8_000_000;
/// Clients that one thread serves well: at 20 snapshots a second some 25 us of work each.
const CLIENTS_PER_THREAD: usize = 500;
/// A truth that just began is this much older than the first client, so that no snapshot is older than it.
const HEAD_START: Duration = Duration::from_millis(250);

/// What a run stands on.
struct Stage {
    relay: SocketAddr,
    local: Option<(OriginHandle, RelayHandle)>,
    admin: Option<SocketAddr>,
    log: Option<Arc<TruthLog>>,
    truth: Option<JoinHandle<()>>,
}

/// Runs a plan; `show` is told now and then how it stands.
///
/// # Errors
/// When the host cannot carry it, or a part cannot begin: in one sentence.
pub fn run(plan: &Plan, mut show: impl FnMut(&Glance)) -> anyhow::Result<Report> {
    let threads = plan
        .threads
        .unwrap_or_else(|| threads_for(plan.clients))
        .min(plan.clients);
    let is_local = matches!(plan.target, Target::Local(_));
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
        clients: plan.clients,
        threads,
        ramp_per_s: plan.ramp_per_s.unwrap_or_else(|| ramp_for(plan)),
        churn_per_s: plan.churn_per_s,
        run_us: (plan.seconds * 1e6) as u64,
        down: plan.down,
        up: plan.up,
        seed: plan.seed,
    };
    let ticks_before = stage.log.as_ref().map(|log| log.pushed());
    let swarm = Swarm::start(&settings, stage.log.as_ref()).context("the bench cannot start its clients")?;
    let (start_us, end_us) = (swarm.start_us, swarm.end_us);
    while !swarm.is_over() {
        std::thread::sleep(GLANCE);
        show(&glance(&swarm));
    }
    let results = swarm.join().context("the bench lost its sockets")?;
    let seconds = (monotonic_us().min(end_us) - start_us) as f64 / 1e6;

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
        thresholds: plan.thresholds.clone(),
        ..Report::default()
    };
    report.machine.cores = preflight::cores();
    report.machine.kernel = preflight::kernel();
    report.clients.requested = plan.clients as u64;
    report.impairment.down = link_figures(&plan.down);
    report.impairment.up = link_figures(&plan.up);
    report.bench.threads = threads as u64;
    report.bench.notes = host.warnings;
    let after_drops = preflight::kernel_drops();
    report.bench.kernel_drops = after_drops
        .zip(drops)
        .map(|(after, before)| after.saturating_sub(before));
    stage.fill(&mut report, before.as_ref(), cpu_before, ticks_before);
    let series = fill(&mut report, &results, stage.log.as_deref());
    stage.strike();
    report.derive(&series);
    judge_bench(&mut report);
    Ok(report)
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

impl Stage {
    /// Starts what the plan says is to be started, and waits for it.
    fn set(plan: &Plan) -> anyhow::Result<Stage> {
        let worst_us = [&plan.down, &plan.up].map(|link| link.delay_us + link.jitter_us + link.hold_us);
        let log = TruthLog::new(TRUTH_US + 2 * worst_us.into_iter().sum::<u64>());
        match &plan.target {
            Target::Local(origin) => Stage::set_local(origin, plan.clients, log),
            Target::Remote {
                relay,
                admin,
                truth,
                truth_token,
            } => {
                let mut stage = Stage {
                    relay: *relay,
                    local: None,
                    admin: *admin,
                    log: None,
                    truth: None,
                };
                if let Some(truth) = truth {
                    stage.truth = Some(source::start(truth_source(truth, truth_token), Arc::clone(&log))?);
                    stage.log = Some(log);
                    stage.wait_for_truth(truth)?;
                }
                Ok(stage)
            }
        }
    }

    fn set_local(origin: &OriginSource, clients: usize, log: Arc<TruthLog>) -> anyhow::Result<Stage> {
        // The relay must not miss the first tick, and the clients must not miss the relay.
        let origin = OriginHandle::start(OriginSettings {
            wait_for_subscriber: true,
            ..OriginSettings::loopback(origin.clone())
        })?;
        let tap = origin.truth().cloned().context("the origin keeps no truth")?;
        let truth = source::start(TruthSource::Tap(tap), Arc::clone(&log))?;
        let shards = usize::try_from(preflight::cores() / 2).unwrap_or(1).clamp(1, 64);
        // Room for those who come back while their old session still waits to end.
        let sessions_max = 2 * clients + 100;
        let relay = RelayHandle::start(RelaySettings {
            shards,
            sessions_max,
            ..RelaySettings::loopback(origin.addr())
        })?;
        anyhow::ensure!(
            relay.wait_ready(BEGIN_WITHIN),
            "the relay of this process got no first tick of its origin within {} s",
            BEGIN_WITHIN.as_secs()
        );
        let address = relay.data_addr();
        Ok(Stage {
            relay: address,
            local: Some((origin, relay)),
            admin: None,
            log: Some(log),
            truth: Some(truth),
        })
    }

    /// A subscription must have begun before the first client, or its first snapshots could not be judged.
    fn wait_for_truth(&self, name: &str) -> anyhow::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let begun = std::time::Instant::now();
        while log.pushed() == 0 {
            let trouble = log.trouble();
            if let Some(trouble) = trouble.as_ref().filter(|trouble| trouble.is_final) {
                log.stop();
                return Err(FlagError(format!("--truth {name}: {}", trouble.text)).into());
            }
            if begun.elapsed() > BEGIN_WITHIN {
                log.stop();
                let why = trouble.map_or(String::new(), |trouble| format!(" ({})", trouble.text));
                bail!(
                    "--truth {name} published nothing within {} s{why}: give the address at which the origin takes subscribers, or the recording it plays",
                    BEGIN_WITHIN.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(HEAD_START);
        Ok(())
    }

    fn samples(&self) -> anyhow::Result<Option<Samples>> {
        match (&self.local, self.admin) {
            (Some((_, relay)), _) => Ok(Some(Samples::parse(&relay.metrics_text()))),
            (None, Some(admin)) => Samples::fetch(admin).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn relay_cpu_ns(&self) -> u64 {
        self.local
            .as_ref()
            .map_or(0, |(_, relay)| relay.usage().shard_cpu_ns)
    }

    /// Fills in what the relay and the origin say.
    fn fill(
        &mut self,
        report: &mut Report,
        before: Option<&Samples>,
        cpu_before: u64,
        ticks_before: Option<u64>,
    ) {
        match (before, self.samples()) {
            (Some(before), Ok(Some(after))) => scrape::fill(report, before, &after),
            (_, Err(error)) => report
                .bench
                .notes
                .push(format!("relay-side figures are missing: {error:#}")),
            _ => {}
        }
        if let Some((origin, relay)) = &self.local {
            let usage = relay.usage();
            report.relay.cpu_s = Some(usage.shard_cpu_ns.saturating_sub(cpu_before) as f64 / 1e9);
            report.relay.rss_bytes = Some(rss_bytes());
            let counts = origin.counts();
            if counts.stalls > 0 {
                report.bench.notes.push(format!(
                    "the origin fell behind its own schedule {} times: its ticks came late",
                    counts.stalls
                ));
            }
            if counts.truth_lost > 0 {
                report
                    .bench
                    .notes
                    .push(format!("{} ticks of the truth were lost", counts.truth_lost));
            }
        }
        if let (Some(log), Some(ticks_before)) = (&self.log, ticks_before) {
            report.origin.ticks = Some(log.pushed());
            report.origin.entities_max = Some(log.entities_max());
            let still_us = log
                .newest_came_us()
                .map_or(0, |came_us| monotonic_us().saturating_sub(came_us));
            if still_us > STILL_US {
                let seconds = still_us as f64 / 1e6;
                report.bench.notes.push(format!(
                    "the origin published nothing in the last {seconds:.1} s: at the end clients were compared with a world that stood still"
                ));
            }
            report.origin.hz = Some((log.pushed() - ticks_before) as f64 / report.seconds.max(0.001));
        }
    }

    /// Ends what was started.
    fn strike(&mut self) {
        if let Some((origin, relay)) = self.local.take() {
            relay.drain();
            let _ = relay.wait_drained(Duration::from_millis(300));
            relay.shutdown();
            origin.stop(true);
        }
        if let Some(log) = &self.log {
            log.stop();
        }
        if let Some(truth) = self.truth.take() {
            // It counts nothing; had it panicked, the records would be unchecked.
            let _ = truth.join();
        }
    }
}

/// True when `--truth` names a recording, not an address.
#[must_use]
pub fn is_recording(truth: &str) -> bool {
    Path::new(truth).is_file()
}

fn truth_source(truth: &str, token: &[u8]) -> TruthSource {
    if is_recording(truth) {
        TruthSource::Recording(truth.into())
    } else {
        TruthSource::Subscription {
            addr: truth.to_owned(),
            token: token.to_vec(),
        }
    }
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

/// Fills in what the threads counted; gives the distributions.
fn fill(report: &mut Report, results: &[ThreadResult], log: Option<&TruthLog>) -> SeriesSet {
    let mut tally = Tally::default();
    for result in results {
        tally.add(&result.tally);
        let (truth, oracle) = (&mut report.truth, &result.oracle);
        truth.records_checked += oracle.records_checked;
        truth.tables_checked += oracle.tables_checked;
        truth.mismatches += oracle.mismatches;
        truth.unchecked += oracle.unchecked;
        truth.at_seams += oracle.at_seams;
        truth.examples.extend(oracle.examples.iter().cloned());
        truth
            .missing_examples
            .extend(oracle.missing_examples.iter().cloned());
        report.bench.cpu_share = report.bench.cpu_share.max(result.cpu_share);
    }
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

/// Time without a tick after which a run says that its world stood still, microseconds.
const STILL_US: u64 = 2_000_000;

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
