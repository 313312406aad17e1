//! A relay's metrics: handles made once, each series there from the start, fed with totals once in a while.
//!
//! Shards count plain integers; here their rise since the last time becomes the metric's (SPEC OPS3). A gauge that
//! several shards share is a sum: each adds the change of its own part, so nothing of a shard that ended stays
//! (FAULTS 92).

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram, with_local_recorder};

use super::catalogue::{self, MICROS, NANOS, THOUSANDTHS};
use super::recorder::RelayRecorder;
use super::status::RelayStatus;
use crate::client::refusal::Refusal;
use crate::net::errno::{ErrnoCounts, ErrnoKind};
use crate::relay::counters::{self as core, DatagramRefusal, Withheld};
use crate::window::send::RestartReason;
use crate::wire::handshake::Denial;
use crate::wire::payload::CloseReason;

/// Rate tiers of `staleness_seconds{tier}`: the divisor of the base tick (SPEC CTL5).
pub const TIERS: [&str; 3] = ["1", "2", "4"];
/// What becomes of an input: the labels of `input_messages_total{result}`.
pub const INPUT_RESULTS: [&str; 3] = ["delivered", "duplicated", "lost"];

/// A counter fed with totals.
pub struct Rising {
    counter: Counter,
    told: u64,
}

impl Rising {
    fn new(counter: Counter) -> Rising {
        Rising { counter, told: 0 }
    }

    /// The total now; never below the last one.
    pub fn tell(&mut self, total: u64) {
        let more = total.saturating_sub(self.told);
        if more > 0 {
            self.counter.increment(more);
            self.told = total;
        }
    }
}

/// One member's part of a gauge that is a sum.
pub struct Part {
    gauge: Gauge,
    told: f64,
}

impl Part {
    fn new(gauge: Gauge) -> Part {
        Part { gauge, told: 0.0 }
    }

    /// This member's part now.
    #[allow(clippy::cast_precision_loss)] // Counts of things that exist.
    pub fn tell(&mut self, value: u64) {
        let value = value as f64;
        if value != self.told {
            self.gauge.increment(value - self.told);
            self.told = value;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.tell(0);
    }
}

/// One counter for each word of a closed set.
pub struct Family(Vec<Rising>);

impl Family {
    fn new(name: &'static str, label: &'static str, words: impl IntoIterator<Item = String>) -> Family {
        let make = |word| Rising::new(counter!(name, label => word));
        Family(words.into_iter().map(make).collect())
    }

    /// The totals in the order of the words.
    pub fn tell(&mut self, totals: impl IntoIterator<Item = u64>) {
        self.0.iter_mut().zip(totals).for_each(|(rising, total)| rising.tell(total));
    }
}

fn words<T>(all: impl IntoIterator<Item = T>, label: fn(T) -> &'static str) -> impl Iterator<Item = String> {
    all.into_iter().map(move |value| label(value).to_owned())
}

fn plain(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn rising(name: &'static str) -> Rising {
    Rising::new(counter!(name))
}

/// A histogram fed with buckets of a shard's.
pub struct Filling {
    histogram: Histogram,
    per_unit: f64,
}

impl Filling {
    fn new(name: &'static str, per_unit: f64) -> Filling {
        Filling { histogram: histogram!(name), per_unit }
    }

    /// Moves what was counted since the last time.
    pub fn tell(&self, counted: &mut core::Histogram) {
        for (mean, count) in counted.take() {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            self.histogram.record_many(mean / self.per_unit, count);
        }
    }
}

/// What one shard feeds.
pub struct ShardMetrics {
    clients: Part,
    control_backlog: Part,
    arena: Option<(Gauge, Gauge)>,
    opened: Rising,
    migrations: Rising,
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
    loss: Filling,
    encode: Filling,
    seal: Filling,
    send: Filling,
    delay: Filling,
}

/// What a shard's loop counts beside its core.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct LoopCounters {
    pub sent: u64,
    pub bytes: u64,
    pub send_errors: ErrnoCounts,
    pub receive_errors: ErrnoCounts,
    /// Datagrams handed to other shards: taken, or dropped for want of room.
    pub forwarded: [u64; 2],
    pub kernel_drops: u64,
    pub overruns: u64,
    pub lapped: u64,
    /// Greatest lateness of a tick in the last second, microseconds.
    pub lateness_us: u64,
    pub send_ns_total: u64,
    pub send_ns: core::Histogram,
    pub delay_us: core::Histogram,
}

impl Default for LoopCounters {
    fn default() -> LoopCounters {
        LoopCounters {
            sent: 0,
            bytes: 0,
            send_errors: ErrnoCounts::default(),
            receive_errors: ErrnoCounts::default(),
            forwarded: [0; 2],
            kernel_drops: 0,
            overruns: 0,
            lapped: 0,
            lateness_us: 0,
            send_ns_total: 0,
            send_ns: core::Histogram::new(core::WORK_BOUNDS_NS),
            delay_us: core::Histogram::new(core::TIME_BOUNDS_US),
        }
    }
}

impl ShardMetrics {
    /// Registers everything a shard feeds. The recorder must be in force.
    fn new(shard: usize) -> ShardMetrics {
        let errors = || words(ErrnoKind::ALL, ErrnoKind::label);
        let index = shard.to_string();
        ShardMetrics {
            clients: Part::new(gauge!("ackline_clients")),
            control_backlog: Part::new(gauge!("ackline_control_backlog_messages")),
            // Every shard keeps the same frames; the first tells of them.
            arena: (shard == 0).then(|| (gauge!("ackline_arena_frames"), gauge!("ackline_arena_bytes"))),
            opened: rising("ackline_sessions_opened_total"),
            migrations: rising("ackline_session_migrations_total"),
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
            omitted: Family::new("ackline_records_omitted_total", "reason", plain(&["budget", "rate_tier"])),
            segments: Family::new("ackline_segment_cache_lookups_total", "result", plain(&["hit", "miss"])),
            bodies: Family::new("ackline_body_lookups_total", "result", plain(&["shared", "built"])),
            reports: Family::new(
                "ackline_client_reports_total",
                "result",
                plain(&["taken", "stale", "contradicting"]),
            ),
            rejected: Family::new("ackline_client_packets_rejected_total", "reason", rejection_words()),
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
            lateness: gauge!("ackline_shard_tick_lateness_seconds", "shard" => index),
            window_slots: Filling::new("ackline_window_slots_in_use", 1.0),
            window_advance: Filling::new("ackline_window_advance_seconds", MICROS),
            baseline_age: Filling::new("ackline_baseline_age_ticks", 1.0),
            snapshot_bytes: Filling::new("ackline_snapshot_bytes", 1.0),
            round_trip: Filling::new("ackline_round_trip_seconds", MICROS),
            view_complete: Filling::new("ackline_view_complete_seconds", MICROS),
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

    fn tell_core(&mut self, counters: &core::Counters) {
        let c = counters;
        self.opened.tell(c.sessions_opened);
        self.migrations.tell(c.migrations);
        self.challenges.tell(c.challenges);
        self.received.tell(c.datagrams_received);
        self.snapshots.tell(c.snapshots_sent);
        self.parts.tell(c.parts_sent);
        self.records.tell(c.records_sent);
        self.window_full.tell(c.window_full);
        self.mismatches.tell(c.digest_mismatches);
        self.messages_dropped.tell(c.messages_dropped);
        self.closed.tell(c.sessions_closed);
        self.denied.tell(c.handshakes_refused);
        self.refused.tell(c.datagrams_refused);
        self.advances.tell([c.advances_requested, c.advances_committed, c.advances_confirmed]);
        self.withheld.tell(c.withheld);
        self.fallbacks.tell(c.fallbacks);
        self.complete.tell([c.complete_records, c.requested_records]);
        self.omitted.tell([c.records_omitted]);
        self.segments.tell([c.segment_hits, c.segment_misses]);
        self.bodies.tell([c.body_shares, c.body_builds]);
        self.reports.tell([
            c.reports.saturating_sub(c.reports_stale + c.reports_contradicting),
            c.reports_stale,
            c.reports_contradicting,
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
        self.loss.tell(&mut counters.loss_thousandths);
        self.encode.tell(&mut counters.encode_ns);
        self.seal.tell(&mut counters.seal_ns);
    }

    fn tell_loop(&mut self, looped: &mut LoopCounters) {
        self.sent.tell(looped.sent);
        self.egress.tell(looped.bytes);
        self.send_errors.tell(ErrnoKind::ALL.map(|kind| looped.send_errors.get(kind)));
        self.receive_errors.tell(ErrnoKind::ALL.map(|kind| looped.receive_errors.get(kind)));
        self.forwarded.tell(looped.forwarded);
        self.kernel_drops.tell(looped.kernel_drops);
        self.overrun.tell(looped.overruns);
        self.lapped.tell(looped.lapped);
        #[allow(clippy::cast_precision_loss)] // Microseconds of lateness.
        self.lateness.set(looped.lateness_us as f64 / MICROS);
        self.send.tell(&mut looped.send_ns);
        self.delay.tell(&mut looped.delay_us);
    }
}

/// The words of what clients refuse, and one for codes nobody knows.
fn rejection_words() -> impl Iterator<Item = String> {
    words(Refusal::all(), Refusal::label).chain(["unknown".to_owned()])
}

/// Totals by code in the order of the words.
fn rejections(by_code: &[u64]) -> Vec<u64> {
    let of = |refusal: Refusal| by_code.get(usize::from(refusal.code())).copied().unwrap_or(0);
    let known: Vec<u64> = Refusal::all().map(of).collect();
    let all: u64 = by_code.iter().sum();
    let unknown = all.saturating_sub(known.iter().sum());
    known.into_iter().chain([unknown]).collect()
}
