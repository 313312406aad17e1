//! A relay's metrics: handles made once, each series there from the start, fed with totals once in a while.
//!
//! Shards count plain integers; here their rise since the last time becomes the metric's (SPEC OPS3). A gauge that
//! several shards share is a sum: each adds the change of its own part, so nothing of a shard that ended stays
//! (FAULTS 92).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics::{Counter, Gauge, counter, gauge, histogram, with_local_recorder};

use super::catalogue::{self, MICROS, NANOS, THOUSANDTHS};
use super::intake::{Connect, IngestCounts, REFUSAL_WORDS};
use super::players::INPUT_RESULTS;
use super::recorder::RelayRecorder;
use super::series::{Family, Filling, Part, Rising, plain, rejection_words, rejections, rising, words};
use super::status::RelayStatus;
use super::tally::LoopCounters;
use crate::net::clock::process_cpu_ns;
use crate::net::errno::ErrnoKind;
use crate::relay::admission::Limited;
use crate::relay::counters::{self as core, DatagramRefusal, PathChallenge, Withheld};
use crate::token::TokenRefusal;
use crate::window::send::RestartReason;
use crate::wire::handshake::Denial;
use crate::wire::payload::CloseReason;
use crate::wire::version::Versions;

/// Rate tiers of `staleness_seconds{tier}`: the divisor of the base tick (SPEC CTL5).
pub const TIERS: [&str; 3] = ["1", "2", "4"];

/// What one shard feeds.
pub struct ShardMetrics {
    clients: Part,
    /// By version, from the lowest that is spoken.
    versions: Vec<Part>,
    control_backlog: Part,
    arena: Option<(Gauge, Gauge)>,
    opened: Rising,
    migrations: Rising,
    path_challenges: Family,
    challenges: Rising,
    received: Rising,
    snapshots: Rising,
    parts: Rising,
    records: Rising,
    window_full: Rising,
    mismatches: Rising,
    messages_dropped: Rising,
    closed: Family,
    denied: Family,
    limited: Family,
    tokens_refused: Family,
    refused: Family,
    advances: Family,
    withheld: Family,
    fallbacks: Family,
    complete: Family,
    omitted: Family,
    segments: Family,
    bodies: Family,
    reports: Family,
    rejected: Family,
    sent: Rising,
    egress: Rising,
    send_errors: Family,
    receive_errors: Family,
    forwarded: Family,
    kernel_drops: Rising,
    overrun: Rising,
    lapped: Rising,
    lateness: Gauge,
    window_slots: Filling,
    window_advance: Filling,
    baseline_age: Filling,
    snapshot_bytes: Filling,
    round_trip: Filling,
    view_complete: Filling,
    view_members: Filling,
    staleness: [Filling; TIERS.len()],
    events: Rising,
    directives: Rising,
    owner_states: Rising,
    overload: Gauge,
    egress_share: Gauge,
    loss: Filling,
    encode: Filling,
    seal: Filling,
    send: Filling,
    delay: Filling,
}

impl ShardMetrics {
    /// Registers everything a shard feeds. The recorder must be in force.
    fn new(shard: usize) -> ShardMetrics {
        let errors = || words(ErrnoKind::ALL, ErrnoKind::label);
        let index = shard.to_string();
        ShardMetrics {
            clients: Part::new(gauge!("ackline_clients")),
            versions: (Versions::SPOKEN.lowest()..=Versions::SPOKEN.highest())
                .map(|version| Part::new(gauge!("ackline_sessions", "version" => version.to_string())))
                .collect(),
            control_backlog: Part::new(gauge!("ackline_control_backlog_messages")),
            // Every shard keeps the same frames; the first tells of them.
            arena: (shard == 0).then(|| (gauge!("ackline_arena_frames"), gauge!("ackline_arena_bytes"))),
            opened: rising("ackline_sessions_opened_total"),
            migrations: rising("ackline_session_migrations_total"),
            path_challenges: Family::new(
                "ackline_path_challenges_total",
                "result",
                words(PathChallenge::ALL, PathChallenge::label),
            ),
            challenges: rising("ackline_handshake_challenges_total"),
            received: rising("ackline_datagrams_received_total"),
            snapshots: rising("ackline_snapshots_sent_total"),
            parts: rising("ackline_snapshot_parts_sent_total"),
            records: rising("ackline_records_sent_total"),
            window_full: rising("ackline_window_full_total"),
            mismatches: rising("ackline_digest_mismatches_total"),
            messages_dropped: rising("ackline_control_messages_dropped_total"),
            closed: Family::new(
                "ackline_sessions_closed_total",
                "reason",
                words(CloseReason::ALL, CloseReason::label),
            ),
            denied: Family::new(
                "ackline_handshakes_refused_total",
                "reason",
                words(Denial::ALL, Denial::label),
            ),
            limited: Family::new(
                "ackline_handshakes_limited_total",
                "reason",
                words(Limited::ALL, Limited::label),
            ),
            tokens_refused: Family::new(
                "ackline_tokens_refused_total",
                "reason",
                words(TokenRefusal::ALL, TokenRefusal::label),
            ),
            refused: Family::new(
                "ackline_datagrams_refused_total",
                "reason",
                words(DatagramRefusal::ALL, DatagramRefusal::label),
            ),
            advances: Family::new(
                "ackline_window_advances_total",
                "stage",
                plain(&["requested", "committed", "confirmed"]),
            ),
            withheld: Family::new(
                "ackline_withheld_ticks_total",
                "reason",
                words(Withheld::ALL, Withheld::label),
            ),
            fallbacks: Family::new(
                "ackline_full_state_fallbacks_total",
                "reason",
                words(RestartReason::ALL, RestartReason::label),
            ),
            complete: Family::new(
                "ackline_complete_records_total",
                "reason",
                plain(&["base_left", "requested"]),
            ),
            omitted: Family::new("ackline_records_omitted_total", "reason", plain(&["budget"])),
            segments: Family::new(
                "ackline_segment_cache_lookups_total",
                "result",
                plain(&["hit", "miss"]),
            ),
            bodies: Family::new(
                "ackline_body_lookups_total",
                "result",
                plain(&["shared", "built"]),
            ),
            reports: Family::new(
                "ackline_client_reports_total",
                "result",
                plain(&["taken", "stale", "contradicting", "unknown"]),
            ),
            rejected: Family::new(
                "ackline_client_packets_rejected_total",
                "reason",
                rejection_words(),
            ),
            sent: rising("ackline_datagrams_sent_total"),
            egress: rising("ackline_egress_bytes_total"),
            send_errors: Family::new("ackline_send_errors_total", "errno", errors()),
            receive_errors: Family::new("ackline_receive_errors_total", "errno", errors()),
            forwarded: Family::new(
                "ackline_datagrams_forwarded_total",
                "result",
                plain(&["taken", "dropped"]),
            ),
            kernel_drops: Rising::new(counter!("ackline_kernel_drops_total", "socket" => index.clone())),
            overrun: Rising::new(counter!("ackline_shard_overrun_total", "shard" => index.clone())),
            lapped: rising("ackline_shard_lapped_total"),
            lateness: gauge!("ackline_shard_tick_lateness_seconds", "shard" => index.clone()),
            window_slots: Filling::new("ackline_window_slots_in_use", 1.0),
            window_advance: Filling::new("ackline_window_advance_seconds", MICROS),
            baseline_age: Filling::new("ackline_baseline_age_ticks", 1.0),
            snapshot_bytes: Filling::new("ackline_snapshot_bytes", 1.0),
            round_trip: Filling::new("ackline_round_trip_seconds", MICROS),
            view_complete: Filling::new("ackline_view_complete_seconds", MICROS),
            view_members: Filling::new("ackline_view_members", 1.0),
            staleness: TIERS
                .map(|tier| Filling::of(histogram!("ackline_staleness_seconds", "tier" => tier), MICROS)),
            events: rising("ackline_events_queued_total"),
            directives: rising("ackline_directives_taken_total"),
            owner_states: rising("ackline_owner_states_sent_total"),
            overload: gauge!("ackline_shard_overload_level", "shard" => index.clone()),
            egress_share: gauge!("ackline_egress_share_ratio", "shard" => index),
            loss: Filling::new("ackline_client_loss_ratio", THOUSANDTHS),
            encode: Filling::new("ackline_encode_seconds", NANOS),
            seal: Filling::new("ackline_seal_seconds", NANOS),
            send: Filling::new("ackline_send_seconds", NANOS),
            delay: Filling::new("ackline_relay_delay_seconds", MICROS),
        }
    }

    /// Tells everything that rose since the last time. `open` sessions; `arena` its frames and bytes.
    pub fn tell(
        &mut self,
        open: usize,
        arena: (usize, usize),
        counters: &mut core::Counters,
        looped: &mut LoopCounters,
    ) {
        self.clients.tell(open as u64);
        self.control_backlog.tell(counters.control_backlog);
        #[allow(clippy::cast_precision_loss)] // Counts of things in memory.
        if let Some((frames, bytes)) = &self.arena {
            frames.set(arena.0 as f64);
            bytes.set(arena.1 as f64);
        }
        self.tell_core(counters);
        self.tell_histograms(counters);
        self.tell_loop(looped);
    }

    /// Tells the open sessions by version of the protocol, from the lowest that is spoken.
    pub fn tell_versions(&mut self, open: &[usize]) {
        for (part, count) in self.versions.iter_mut().zip(open) {
            part.tell(*count as u64);
        }
    }

    /// Tells how far the shard is behind, and what the egress cap leaves of every rate, in thousandths.
    pub fn tell_pressure(&mut self, overload_level: u8, share_thousandths: u16) {
        self.overload.set(f64::from(overload_level));
        self.egress_share.set(f64::from(share_thousandths) / THOUSANDTHS);
    }

    fn tell_core(&mut self, counters: &core::Counters) {
        let c = counters;
        self.opened.tell(c.sessions_opened);
        self.migrations.tell(c.migrations);
        self.path_challenges.tell(c.path_challenges);
        self.challenges.tell(c.challenges);
        self.received.tell(c.datagrams_received);
        self.snapshots.tell(c.snapshots_sent);
        self.parts.tell(c.parts_sent);
        self.records.tell(c.records_sent);
        self.window_full.tell(c.window_full);
        self.mismatches.tell(c.digest_mismatches);
        self.messages_dropped.tell(c.messages_dropped);
        self.events.tell(c.events_queued);
        self.directives.tell(c.directives_taken);
        self.owner_states.tell(c.owner_states);
        self.closed.tell(c.sessions_closed);
        self.denied.tell(c.handshakes_refused);
        self.limited.tell(c.handshakes_limited);
        self.tokens_refused.tell(c.tokens_refused);
        self.refused.tell(c.datagrams_refused);
        self.advances
            .tell([c.advances_requested, c.advances_committed, c.advances_confirmed]);
        self.withheld.tell(c.withheld);
        self.fallbacks.tell(c.fallbacks);
        self.complete.tell([c.complete_records, c.requested_records]);
        self.omitted.tell([c.records_omitted]);
        self.segments.tell([c.segment_hits, c.segment_misses]);
        self.bodies.tell([c.body_shares, c.body_builds]);
        self.reports.tell([
            c.reports
                .saturating_sub(c.reports_stale + c.reports_contradicting + c.reports_unknown),
            c.reports_stale,
            c.reports_contradicting,
            c.reports_unknown,
        ]);
        self.rejected.tell(rejections(&c.rejected_by_clients));
    }

    fn tell_histograms(&mut self, counters: &mut core::Counters) {
        self.window_slots.tell(&mut counters.window_slots);
        self.window_advance.tell(&mut counters.window_advance_us);
        self.baseline_age.tell(&mut counters.baseline_age);
        self.snapshot_bytes.tell(&mut counters.snapshot_bytes);
        self.round_trip.tell(&mut counters.round_trip_us);
        self.view_complete.tell(&mut counters.view_complete_us);
        self.view_members.tell(&mut counters.view_members);
        for (metric, counted) in self.staleness.iter_mut().zip(&mut counters.staleness_us) {
            metric.tell(counted);
        }
        self.loss.tell(&mut counters.loss_thousandths);
        self.encode.tell(&mut counters.encode_ns);
        self.seal.tell(&mut counters.seal_ns);
    }

    fn tell_loop(&mut self, looped: &mut LoopCounters) {
        self.sent.tell(looped.sent);
        self.egress.tell(looped.bytes);
        self.send_errors
            .tell(ErrnoKind::ALL.map(|kind| looped.send_errors.get(kind)));
        self.receive_errors
            .tell(ErrnoKind::ALL.map(|kind| looped.receive_errors.get(kind)));
        self.forwarded.tell(looped.forwarded);
        self.kernel_drops.tell(looped.kernel_drops);
        self.overrun.tell(looped.overruns);
        self.lapped.tell(looped.lapped);
        #[allow(clippy::cast_precision_loss)] // Microseconds of lateness.
        self.lateness.set(looped.lateness.value() as f64 / MICROS);
        self.send.tell(&mut looped.send_ns);
        self.delay.tell(&mut looped.delay_us);
    }
}

/// What the ingest feeds.
pub struct IngestMetrics {
    frames: Rising,
    bytes: Rising,
    holds: Rising,
    epoch_changes: Rising,
    malformed: Rising,
    gaps: Rising,
    connects: Family,
    refusals: Family,
    inputs: Family,
}

impl IngestMetrics {
    fn new() -> IngestMetrics {
        IngestMetrics {
            frames: rising("ackline_upstream_frames_total"),
            bytes: rising("ackline_upstream_bytes_total"),
            holds: rising("ackline_upstream_holds_total"),
            epoch_changes: rising("ackline_upstream_epoch_changes_total"),
            malformed: rising("ackline_upstream_malformed_total"),
            gaps: rising("ackline_upstream_gaps_total"),
            connects: Family::new(
                "ackline_upstream_connects_total",
                "result",
                words(Connect::ALL, Connect::label),
            ),
            refusals: Family::new("ackline_upstream_refusals_total", "reason", plain(&REFUSAL_WORDS)),
            inputs: Family::new("ackline_input_messages_total", "result", plain(&INPUT_RESULTS)),
        }
    }

    /// Tells everything that rose since the last time.
    pub fn tell(&mut self, counts: &IngestCounts) {
        self.frames.tell(counts.frames);
        self.bytes.tell(counts.bytes);
        self.holds.tell(counts.holds);
        self.epoch_changes.tell(counts.epoch_changes);
        self.malformed.tell(counts.malformed);
        self.gaps.tell(counts.gaps);
        self.connects.tell(counts.connects);
        self.refusals.tell(counts.refusals);
        self.inputs.tell(counts.inputs);
    }
}

/// The processor time of the process, which the recorder counts in whole seconds.
const CPU_SECONDS: &str = "process_cpu_seconds_total";

/// The text with the process's processor time to the microsecond instead of the whole second.
fn with_cpu_seconds(text: &str, cpu_ns: u64) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.split_inclusive('\n') {
        let is_cpu = line
            .strip_prefix(CPU_SECONDS)
            .is_some_and(|rest| rest.starts_with(' '));
        if is_cpu {
            let micros = cpu_ns / 1000;
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "{CPU_SECONDS} {}.{:06}",
                micros / 1_000_000,
                micros % 1_000_000
            );
        } else {
            out.push_str(line);
        }
    }
    out
}

/// A relay's metrics as a whole.
pub struct RelayMetrics {
    recorder: RelayRecorder,
    process: metrics_process::Collector,
    admin_refused: Counter,
    /// Taken, refused.
    reloads: [Counter; 2],
    gauges: Gauges,
}

/// What is looked up in the status when somebody asks.
struct Gauges {
    connected: Gauge,
    insecure: Gauge,
    draining: Gauge,
    lag: Gauge,
    sessions_max: Gauge,
    reload_refused: Gauge,
}

impl RelayMetrics {
    /// Registers every series, at zero, for a relay of so many shards; gives each part what it feeds.
    #[must_use]
    pub fn new(shards: usize) -> (Arc<RelayMetrics>, Vec<ShardMetrics>, IngestMetrics) {
        let recorder = RelayRecorder::new(catalogue::bounds_of);
        let process = metrics_process::Collector::default();
        let registered = with_local_recorder(&recorder, || {
            catalogue::describe();
            process.describe();
            gauge!("ackline_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            let by_shard = (0..shards).map(ShardMetrics::new).collect();
            let gauges = Gauges {
                connected: gauge!("ackline_upstream_connected"),
                insecure: gauge!("ackline_insecure"),
                draining: gauge!("ackline_draining"),
                lag: gauge!("ackline_upstream_lag_seconds"),
                sessions_max: gauge!("ackline_sessions_max"),
                reload_refused: gauge!("ackline_reload_refused"),
            };
            let admin_refused = counter!("ackline_admin_refused_total");
            let reloads =
                ["taken", "refused"].map(|result| counter!("ackline_reloads_total", "result" => result));
            (by_shard, IngestMetrics::new(), gauges, admin_refused, reloads)
        });
        let (by_shard, ingest, gauges, admin_refused, reloads) = registered;
        let metrics = RelayMetrics {
            recorder,
            process,
            admin_refused,
            reloads,
            gauges,
        };
        (Arc::new(metrics), by_shard, ingest)
    }

    /// Counts a reload of the settings. One that was refused is told until another is taken.
    pub fn count_reload(&self, taken: bool) {
        let [of_taken, of_refused] = &self.reloads;
        if taken { of_taken } else { of_refused }.increment(1);
        self.gauges.reload_refused.set(if taken { 0.0 } else { 1.0 });
    }

    /// Counts a request to the admin that was refused.
    pub fn refuse_admin(&self) {
        self.admin_refused.increment(1);
    }

    /// Everything as Prometheus text.
    #[must_use]
    pub fn render(&self, status: &RelayStatus, now_us: u64) -> String {
        let flag = |flag: &AtomicBool| if flag.load(Ordering::Relaxed) { 1.0 } else { 0.0 };
        self.gauges.connected.set(flag(&status.connected));
        self.gauges.insecure.set(flag(&status.insecure));
        self.gauges.draining.set(flag(&status.draining));
        #[allow(clippy::cast_precision_loss)] // Sessions.
        let sessions_max = status.sessions_max.load(Ordering::Relaxed) as f64;
        self.gauges.sessions_max.set(sessions_max);
        let lag_us = match status.last_tick_us.load(Ordering::Relaxed) {
            0 => 0,
            last_us => now_us.saturating_sub(last_us),
        };
        #[allow(clippy::cast_precision_loss)] // Microseconds of lag.
        self.gauges.lag.set(lag_us as f64 / MICROS);
        with_local_recorder(&self.recorder, || self.process.collect());
        with_cpu_seconds(&self.recorder.render(), process_cpu_ns())
    }

    /// To be called every few seconds.
    pub fn run_upkeep(&self) {
        self.recorder.run_upkeep();
    }
}

#[cfg(test)]
mod tests;
