//! What a run stands on: origin and relay where they are its own, the relay's figures, the truth.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};

use super::admin::Admin;
use super::inputs::LedgerKeeper;
use super::preflight;
use super::report::Report;
use super::run::{Plan, Target, is_recording};
use super::scrape::{self, Samples};
use super::settings::FlagError;
use super::source::{self, TruthSource};
use super::truth::TruthLog;
#[cfg(feature = "scenes")]
use super::viewer::own::ArenaMap;
use crate::net::clock::{monotonic_us, rss_bytes};
use crate::node::minter::Minter;
use crate::node::origin::{OriginHandle, OriginSettings, OriginSource};
use crate::node::relay::RelayHandle;
use crate::node::secret::SecretText;
use crate::node::settings::RelaySettings;
use crate::node::tls::UpstreamTrust;
use crate::relay::admission::Limits;
#[cfg(feature = "scenes")]
use crate::scenes::{SceneKind, arena::BOTS_DEFAULT};
use crate::state::coding::Coding;
use crate::state::view::View;
use crate::token::TokenKeys;

/// How long the truth is kept beyond what the links delay, microseconds.
const TRUTH_US: u64 = 8_000_000;
/// How long origin, relay and truth may take to begin.
pub const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// A truth that just began is this much older than the first client, so that no snapshot is older than it.
const HEAD_START: Duration = Duration::from_millis(250);
/// Time without a tick after which a run says that its world stood still, microseconds.
const STILL_US: u64 = 2_000_000;

/// What a run stands on.
pub(super) struct Stage {
    pub(super) relay: SocketAddr,
    /// What mints the tokens that the relay asks for.
    pub(super) minter: Option<Minter>,
    pub(super) local: Option<(OriginHandle, RelayHandle)>,
    pub(super) admin: Option<Admin>,
    pub(super) log: Option<Arc<TruthLog>>,
    pub(super) truth: Option<JoinHandle<()>>,
    /// What the origin of this process hears of inputs.
    pub(super) ledger: Option<LedgerKeeper>,
}

impl Stage {
    /// Starts what the plan says is to be started, and waits for it.
    pub(super) fn set(plan: &Plan) -> anyhow::Result<Stage> {
        let worst_us = [&plan.down, &plan.up].map(|link| link.delay_us + link.jitter_us + link.hold_us);
        let log = TruthLog::new(TRUTH_US + 2 * worst_us.into_iter().sum::<u64>());
        match &plan.target {
            Target::Local(origin, coding) => Stage::set_local((origin, coding), plan, log),
            Target::Remote {
                relay,
                minter,
                admin,
                truth,
                truth_token,
                truth_trust,
            } => {
                let mut stage = Stage {
                    relay: *relay,
                    minter: minter.clone(),
                    local: None,
                    admin: admin.clone(),
                    log: None,
                    truth: None,
                    ledger: None,
                };
                if let Some(truth) = truth {
                    stage.truth = Some(source::start(
                        truth_source(truth, truth_token, truth_trust.clone()),
                        Arc::clone(&log),
                    )?);
                    stage.log = Some(log);
                    stage.wait_for_truth(truth)?;
                }
                Ok(stage)
            }
        }
    }

    fn set_local(
        (origin, coding): (&OriginSource, &Coding),
        plan: &Plan,
        log: Arc<TruthLog>,
    ) -> anyhow::Result<Stage> {
        // The relay must not miss the first tick, and the clients must not miss the relay.
        let origin = OriginHandle::start(OriginSettings {
            wait_for_subscriber: true,
            view: plan.view.or(own_view(origin)),
            coding: coding.clone(),
            ..OriginSettings::loopback(origin.clone())
        })?;
        let tap = origin.truth().cloned().context("the origin keeps no truth")?;
        let truth = source::start(TruthSource::Tap(tap), Arc::clone(&log))?;
        let heard = origin.heard().cloned().context("the origin keeps no inputs")?;
        let ledger = LedgerKeeper::start(heard).context("the bench cannot count inputs")?;
        let shards = usize::try_from(preflight::cores() / 2).unwrap_or(1).clamp(1, 64);
        // Room for those who come back while their old session still waits to end.
        let sessions_max = 2 * plan.clients + 100;
        let loopback = RelaySettings::loopback(origin.addr());
        let key = Minter::fresh_key()?;
        let relay = RelayHandle::start(RelaySettings {
            shards,
            sessions_max,
            view: plan.view.unwrap_or(View::WHOLE),
            budget_bytes_per_s: plan.budget_bytes_per_s.unwrap_or(loopback.budget_bytes_per_s),
            token_keys: Some(TokenKeys::new(vec![key.clone()])?),
            limits: Limits {
                // Beside an attack this host's own addresses are strangers.
                loopback: plan.attack.is_some(),
                sessions_unheard: loopback.limits.sessions_unheard.max(plan.clients),
                ..loopback.limits
            },
            ..loopback
        })?;
        anyhow::ensure!(
            relay.wait_ready(BEGIN_WITHIN),
            "the relay of this process got no first tick of its origin within {} s",
            BEGIN_WITHIN.as_secs()
        );
        let address = relay.data_addr();
        Ok(Stage {
            relay: address,
            minter: Some(Minter::new(key, String::new(), address)),
            local: Some((origin, relay)),
            admin: None,
            log: Some(log),
            truth: Some(truth),
            ledger: Some(ledger),
        })
    }

    /// A subscription must have begun before the first client, or its first snapshots could not be judged.
    pub(super) fn wait_for_truth(&self, name: &str) -> anyhow::Result<()> {
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

    pub(super) fn samples(&self) -> anyhow::Result<Option<Samples>> {
        match (&self.local, &self.admin) {
            (Some((_, relay)), _) => Ok(Some(Samples::parse(&relay.metrics_text()))),
            (None, Some(admin)) => Samples::fetch(admin).map(Some),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn relay_cpu_ns(&self) -> u64 {
        self.local
            .as_ref()
            .map_or(0, |(_, relay)| relay.usage().shard_cpu_ns)
    }

    /// Fills in what the relay and the origin say.
    pub(super) fn fill(
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
            if counts.heard_lost > 0 {
                report.bench.notes.push(format!(
                    "{} inputs that reached the origin were not counted: the bench had no room for them",
                    counts.heard_lost
                ));
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
    pub(super) fn strike(&mut self) {
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

/// What clients are to be given to see, where that is known.
pub(super) fn view_of(plan: &Plan) -> Option<View> {
    match plan.target {
        Target::Local(..) => Some(plan.view.unwrap_or(View::WHOLE)),
        Target::Remote { .. } => plan.view,
    }
}

/// What an origin of this process publishes, in a word.
pub(super) fn scene_of(target: &Target) -> Option<String> {
    match target {
        Target::Local(OriginSource::Trace { path, .. }, _) => Some(path.display().to_string()),
        #[cfg(feature = "scenes")]
        Target::Local(OriginSource::Scene { kind, .. }, _) => Some(kind.to_string()),
        Target::Remote { .. } => None,
    }
}

/// The map of the arena that an origin of this process publishes.
#[cfg(feature = "scenes")]
pub(super) fn arena_of(target: &Target) -> Option<ArenaMap> {
    match target {
        Target::Local(OriginSource::Scene { kind, settings }, _) => {
            (*kind == SceneKind::Arena).then_some(ArenaMap {
                bots: settings.entities.unwrap_or(BOTS_DEFAULT),
                seed: settings.seed,
            })
        }
        Target::Local(OriginSource::Trace { .. }, _) | Target::Remote { .. } => None,
    }
}

/// What an origin of this process assigns its players where no flag names a view: a scene narrows one to what each of its
/// players may see, and that is to be tried.
fn own_view(origin: &OriginSource) -> Option<View> {
    match origin {
        OriginSource::Trace { .. } => None,
        #[cfg(feature = "scenes")]
        OriginSource::Scene { kind, .. } => kind.has_players().then_some(View::WHOLE),
    }
}

fn truth_source(truth: &str, token: &SecretText, trust: Option<UpstreamTrust>) -> TruthSource {
    if is_recording(truth) {
        TruthSource::Recording(truth.into())
    } else {
        TruthSource::Subscription {
            addr: truth.to_owned(),
            token: token.clone(),
            trust,
        }
    }
}
