//! The JSON report of a bench or demo, and what is derived from its counts and histograms.
//!
//! Every field is always present; a figure that is not known is null. Times are milliseconds, shares lie in 0..=1.
//! All percentiles come from [`Report::histograms`], so reports of several hosts merge without loss.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attack::AttackReport;
use super::series::{Buckets, STARVATION_BY_TIER, Series, SeriesSet};
use super::viewer::counts::{InputToPicture, Render};

/// A count by reason.
pub type Reasons = BTreeMap<String, u64>;

/// Percentiles; null when nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub p50: Option<f64>,
    /// 99 of 100 are not above it.
    pub p99: Option<f64>,
    /// 999 of 1000 are not above it.
    pub p999: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

impl Spread {
    /// The spread of a series, its values divided by `unit`.
    #[allow(clippy::cast_precision_loss)]
    fn of(set: &SeriesSet, series: Series, unit: f64) -> Spread {
        let at = |quantile| set.quantile(series, quantile).map(|value| value as f64 / unit);
        Spread {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        }
    }
}

/// How long entities wait for their next record; that of some clients of each thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Starvation {
    /// Of all.
    #[serde(flatten)]
    pub all: Spread,
    /// By rate tier: every tick, every second, every fourth.
    pub by_tier: [Spread; STARVATION_BY_TIER.len()],
}

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the program.
    pub version: String,
    /// The command line.
    pub command: String,
    /// Seconds from the first client to the last check.
    pub seconds: f64,
    /// Seed of everything random.
    pub seed: u64,
    /// The relay's address; `local` for one in this process.
    pub target: String,
    /// The scene, or the recording's file, that an origin of this process published; null with another's.
    pub scene: Option<String>,
    /// What clients were to be given to see, as `--view` says it; null where another's origin may have given any.
    pub view: Option<String>,
    /// What the links did.
    pub impairment: Impairment,
    /// Where it ran.
    pub machine: Machine,
    /// Clients.
    pub clients: Clients,
    /// The origin.
    pub origin: Origin,
    /// Datagrams down.
    pub packets: Packets,
    /// The oracle.
    pub truth: TruthChecks,
    /// Baseline windows.
    pub window: Window,
    /// Between shown snapshots at a client.
    pub gap_ms: Spread,
    /// First change at the origin that a client has not got to the snapshot with that entity's next record, in server
    /// time.
    pub starvation_ms: Starvation,
    /// Events of the world.
    pub events: Events,
    /// Inputs of players.
    pub inputs: Inputs,
    /// Table digests.
    pub digest: DigestChecks,
    /// Whole-packet full states after joining, by reason.
    pub fallbacks: Option<Reasons>,
    /// Records sent without a baseline, by reason.
    pub complete_records: Option<Reasons>,
    /// Ticks at which a session got no snapshot, by reason.
    pub withheld: Option<Reasons>,
    /// The way down: origin publish to client decode, on one clock.
    pub latency_ms: Spread,
    /// What the relay used.
    pub relay: Relay,
    /// Playback, when rendering was asked for.
    pub render: Option<Render>,
    /// Attacks, when they were asked for.
    pub attacks: Vec<AttackReport>,
    /// The bench itself.
    pub bench: BenchLoad,
    /// The thresholds asked for.
    pub thresholds: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the percentiles come from: value and count, microseconds, bytes or slots.
    pub histograms: BTreeMap<String, Buckets>,
}

/// What the links did, each direction in words too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Relay to client.
    pub down: LinkFigures,
    /// Client to relay.
    pub up: LinkFigures,
}

/// One direction of the links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkFigures {
    /// In words.
    pub text: String,
    /// Share lost, each datagram by itself.
    pub loss: f64,
    /// Shares at which a burst of loss begins and ends.
    pub burst_loss: Option<(f64, f64)>,
    /// Delay of every datagram.
    pub delay_ms: f64,
    /// Extra delay, drawn evenly up to this.
    pub jitter_ms: f64,
    /// Share held back so that later ones overtake.
    pub reorder: f64,
    /// Share delivered twice.
    pub duplicate: f64,
    /// Datagrams given to the links.
    pub sent: u64,
    /// Lost on them.
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Delivered after a later one.
    pub reordered: u64,
    /// Dropped because a link was full.
    pub overflowed: u64,
}

/// Where it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor cores this process may use.
    pub cores: u64,
    /// The kernel.
    pub kernel: String,
}

/// Clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clients {
    /// Asked for.
    pub requested: u64,
    /// In a session at the end.
    pub connected: u64,
    /// Not in a session at the end: never let in, or lost and not back.
    pub lost: u64,
    /// Sessions that had begun, ended unasked and were followed by a new one.
    pub reconnects: u64,
    /// Clients that left by plan and were replaced (`--churn`).
    pub churned: u64,
    /// Why sessions, and attempts to get one, ended unasked.
    pub endings: Reasons,
    /// Seconds in a session, all clients together.
    pub session_seconds: f64,
    /// First Request to first snapshot held.
    pub joined_ms: Spread,
    /// First Request to first complete view.
    pub complete_ms: Spread,
}

/// The origin, as its stream shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Ticks seen.
    pub ticks: Option<u64>,
    /// The most entities alive.
    pub entities_max: Option<u64>,
    /// Ticks a second while the bench ran.
    pub hz: Option<f64>,
}

/// Datagrams from the relay to the clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packets {
    /// That reached a client's socket, before the impaired link.
    pub sent: u64,
    /// That came out of the link, copies included.
    pub received: u64,
    /// Of these, those before the clean time at the end.
    pub received_in_run: u64,
    /// That a client refused, or whose snapshot it refused, by reason.
    pub rejected: Reasons,
    /// Bytes of UDP payload received.
    pub bytes: u64,
    /// The same for each client and second in a session.
    pub bytes_per_client_per_s: Option<f64>,
    /// Bytes of one datagram.
    pub bytes_per_packet: Spread,
    /// Datagrams from the clients to the relay, after the impaired link.
    pub up: u64,
    /// Their bytes.
    pub up_bytes: u64,
}

/// The oracle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthChecks {
    /// There was a truth to compare with; without one nothing below was checked.
    pub given: bool,
    /// Whole tables compared: held baselines now and then, every client's view at the end.
    pub tables_checked: u64,
    /// Decoded records compared with what the origin published.
    pub records_checked: u64,
    /// Records, removals or members that differ.
    pub mismatches: u64,
    /// Entities that should be in view at the end and are not.
    pub missing_at_end: u64,
    /// Records of, events about and members shown that are outside of their client's view.
    pub leaks: u64,
    /// Clients whose view at the end is not the one that `--view` names.
    pub views_unlike: u64,
    /// Records whose tick of the origin's never came to be compared with.
    pub unchecked: u64,
    /// Records of ticks that a restarted origin sent to the relay before the bench's own subscription was back, and
    /// that changed before it was. What builds on them is compared; they fail nothing.
    pub at_seams: u64,
    /// The first few differences in words.
    pub examples: Vec<String>,
    /// The first few of what is missing at the end in words.
    pub missing_examples: Vec<String>,
}

/// Baseline windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Commits applied at clients.
    pub advances: u64,
    /// Slots in use at each snapshot.
    pub slots_in_use: Spread,
    /// Ticks at which a session got no snapshot, for any reason, as the relay counts.
    pub withheld_ticks: Option<u64>,
    /// Share of snapshots that found the window full.
    pub full_share: Option<f64>,
    /// A client's wish for an advance to its commit.
    pub advance_ms: Spread,
}

/// Events of the world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// That clients should have got: of what they see for sure, from their first complete view to shortly before the end;
    /// and those they got beside that.
    pub sent: u64,
    /// Delivered.
    pub delivered: u64,
    /// Delivered again.
    pub duplicated: u64,
    /// Delivered after a later one.
    pub out_of_order: u64,
    /// Delivered, but never published.
    pub unknown: u64,
    /// Origin publish to delivery.
    pub late_ms: Spread,
    /// The same of critical ones.
    pub critical_late_ms: Spread,
}

/// Inputs of players; null while no client sends any, and what only an origin of this process can tell is null with
/// another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Pushed by clients.
    pub sent: Option<u64>,
    /// Delivered to the origin, each once.
    pub delivered: Option<u64>,
    /// Delivered again.
    pub duplicated: Option<u64>,
    /// Passed over at the origin without a word, or delivered after a later one.
    pub out_of_order: Option<u64>,
    /// Delivered under another number than their client gave them.
    pub wrong: Option<u64>,
    /// That the relay said are lost; with another's origin, that clients were told of.
    pub reported_lost: Option<u64>,
    /// Pushed in sessions that ended before the run: some may have been under way.
    pub cut_off: Option<u64>,
    /// Neither delivered nor reported lost nor cut off.
    pub missing: Option<u64>,
    /// Times an owner's state named an input that was not pushed yet, fewer than before, or at the end not the last.
    pub wrong_processed: Option<u64>,
    /// States of clients' own entities compared with the origin's.
    pub owners_checked: Option<u64>,
    /// The way up: a client's push to the origin has it, where the scene has no inputs of its own. One clock.
    pub late_ms: Spread,
    /// Up, one tick, and down: a client's push to the first state of its own entity that has it. One clock.
    pub answered_ms: Spread,
}

/// Table digests, as clients count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DigestChecks {
    /// Compared.
    pub checked: u64,
    /// That differed.
    pub mismatches: u64,
    /// Mismatches followed by a full state.
    pub healed: u64,
}

/// What the relay used while the bench ran; null without `--admin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// Processor seconds.
    pub cpu_s: Option<f64>,
    /// Resident memory; of the whole process where the relay shares one with the bench.
    pub rss_bytes: Option<u64>,
    /// Datagrams sent.
    pub packets: Option<u64>,
    /// Datagrams sent for each processor second.
    pub packets_per_cpu_s: Option<f64>,
    /// Planning and encoding.
    pub encode_ns_per_packet: Option<f64>,
    /// Sealing.
    pub seal_ns_per_packet: Option<f64>,
    /// Send calls.
    pub send_ns_per_packet: Option<f64>,
    /// What the relay adds to the way down: a tick's arrival until a client's snapshot of it is with the kernel; to the
    /// bounds of its histogram. No maximum.
    pub delay_ms: Spread,
}

/// The bench itself: whether its own figures can be trusted (FAULTS 96).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchLoad {
    /// Threads that ran clients.
    pub threads: u64,
    /// The busiest thread's processor time as a share of the time that passed.
    pub cpu_share: f64,
    /// How late the bench was for its own timers.
    pub late_ms: Spread,
    /// Timers that were more than 20 ms late.
    pub overruns: u64,
    /// Datagrams the kernel dropped at full socket buffers, on the whole host while the bench ran.
    pub kernel_drops: Option<u64>,
    /// How latencies were measured: `one clock`, or why they were not.
    pub clock: String,
    /// True when the bench was the bottleneck: a thread of it had no more time to take.
    pub saturated: bool,
    /// True when the bench was late though its threads did not need a whole core each: the host was busy.
    pub host_busy: bool,
    /// What a reader should know, in words.
    pub notes: Vec<String>,
}

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// True when nothing failed.
    pub ok: bool,
    /// True when only what a host that cannot keep up spoils failed, and this host could not.
    pub inconclusive: bool,
    /// What failed, each with its figure.
    pub failed: Vec<String>,
}

impl Report {
    /// Fills in everything that is derived from counts and histograms, the verdict last.
    #[allow(clippy::cast_precision_loss)]
    pub fn derive(&mut self, set: &SeriesSet) {
        let ms = |series| Spread::of(set, series, 1000.0);
        self.clients.joined_ms = ms(Series::Joined);
        self.clients.complete_ms = ms(Series::Complete);
        self.gap_ms = ms(Series::Gap);
        self.latency_ms = ms(Series::Latency);
        self.starvation_ms.all = ms(Series::Starvation);
        self.starvation_ms.by_tier = STARVATION_BY_TIER.map(ms);
        self.events.late_ms = ms(Series::EventLate);
        self.events.critical_late_ms = ms(Series::CriticalLate);
        self.inputs.late_ms = ms(Series::InputLate);
        self.inputs.answered_ms = ms(Series::InputAnswered);
        if let Some(render) = &mut self.render {
            let shown = ms(Series::InputPicture);
            render.input_to_picture_ms = InputToPicture {
                shown,
                confirmed: shown,
                predicted: ms(Series::InputPredicted),
            };
            render.pose_error_m = Spread::of(set, Series::PoseError, 1e6);
            render.delay_ms = ms(Series::RenderDelay);
        }
        self.window.advance_ms = ms(Series::Advance);
        self.bench.late_ms = ms(Series::BenchLate);
        self.window.slots_in_use = Spread::of(set, Series::Slots, 1.0);
        self.packets.bytes_per_packet = Spread::of(set, Series::PacketBytes, 1.0);
        self.window.full_share = set
            .of(Series::Slots)
            .filter(|slots| !slots.is_empty())
            .map(|slots| {
                let full = slots.count_between(crate::limits::WINDOW_SLOTS as u64, u64::MAX);
                full as f64 / slots.len() as f64
            });
        let seconds = self.clients.session_seconds;
        self.packets.bytes_per_client_per_s = (seconds > 0.0).then(|| self.packets.bytes as f64 / seconds);
        let cpu_s = self.relay.cpu_s.filter(|cpu_s| *cpu_s > 0.0);
        self.relay.packets_per_cpu_s = self
            .relay
            .packets
            .zip(cpu_s)
            .map(|(packets, cpu_s)| packets as f64 / cpu_s);
        self.histograms = set.to_buckets();
        self.judge();
    }

    /// Fills in the verdict, from everything else.
    pub fn judge(&mut self) {
        self.verdict = super::verdict::judge(self);
    }

    /// As JSON with a final line break.
    ///
    /// # Errors
    /// None in practice: every key is a string and every number finite.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Compact(self)).map(|mut text| {
            text.push('\n');
            text
        })
    }
}

/// A report whose figures are rounded to a thousandth.
struct Compact<'a>(&'a Report);

impl Serialize for Compact<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?;
        rounded(value).serialize(serializer)
    }
}

fn rounded(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) if number.is_f64() => number.as_f64().map_or(Value::Null, |float| {
            Value::from((float * 1000.0).round() / 1000.0)
        }),
        Value::Array(items) => Value::Array(items.into_iter().map(rounded).collect()),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, item)| (key, rounded(item)))
                .collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests;
