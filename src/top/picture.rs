//! The picture: a sheet of two readings of one relay. What an alert would be about, did it last, is marked.

use super::canvas::{Sheet, Table, marked};
use super::reading::{Reading, SessionLine};
use crate::bench::scrape::Samples;

/// Slots in use from which a window is nearly full, as AcklineWindowPressure has it.
const SLOTS_HIGH: f64 = 28.0;
/// Lateness of a shard, seconds, as AcklineShardLate has it.
const LATE_S: f64 = 0.025;
/// Time in the relay, seconds, as AcklineRelayDelay has it.
const DELAY_S: f64 = 0.05;
/// Loss to clients, as AcklineClientLoss has it.
const LOSS: f64 = 0.05;
/// Median round trip, seconds, as AcklineRoundTrip has it.
const ROUND_TRIP_S: f64 = 0.25;
/// Time to the whole view, seconds, as AcklineViewSlow has it.
const VIEW_S: f64 = 5.0;
/// Time of a window advance, seconds, as AcklineAdvanceSlow has it.
const ADVANCE_S: f64 = 1.0;
/// Share of ticks withheld, as AcklineTicksWithheld has it.
const WITHHELD: f64 = 0.2;
/// Fallbacks a second of each client, as AcklineFallbacks has it.
const FALLBACKS: f64 = 0.01;
/// Share of the places taken, as AcklineNearlyFull has it.
const FULL: f64 = 0.85;
/// Ticks without one, seconds, as AcklineUpstreamSilent has it.
const SILENT_S: f64 = 2.0;
/// Seconds in which AcklineClientsLost counts.
const LOST_IN_S: f64 = 300.0;
/// Reasons of withheld ticks of sessions that are due none.
const NOT_DUE: [&str; 2] = ["silent", "unwelcomed"];
/// Errors of receiving that clients cause, as AcklineReceiveErrors has them.
const OF_CLIENTS: [&str; 5] = [
    "refused",
    "interrupted",
    "would_block",
    "host_unreachable",
    "network_unreachable",
];
/// Refusals of clients that a network causes, as AcklineClientRejections has them.
const OF_NETWORKS: [&str; 8] = [
    "duplicate_datagram",
    "duplicate_part",
    "stale",
    "too_old",
    "old_epoch",
    "old_generation",
    "no_session",
    "session_over",
];
/// Troubles named at the most.
const TROUBLES: usize = 4;

/// What a relay did between two readings, and how it stands at the second; at most `sessions` of the worst are listed.
#[must_use]
pub fn picture(before: &Reading, now: &Reading, sessions: usize) -> Sheet {
    let mut sketch = Sketch {
        before,
        now,
        seconds: now.at_us.saturating_sub(before.at_us).max(1) as f64 / 1e6,
        sheet: Sheet::default(),
    };
    sketch.relay();
    sketch.process();
    sketch.clients();
    sketch.traffic();
    sketch.windows();
    sketch.faults();
    sketch.shards();
    sketch.sessions(sessions);
    sketch.sheet
}

struct Sketch<'a> {
    before: &'a Reading,
    now: &'a Reading,
    seconds: f64,
    sheet: Sheet,
}

impl<'a> Sketch<'a> {
    fn samples(&self) -> &Samples {
        &self.now.samples
    }

    fn value(&self, name: &str) -> f64 {
        self.samples().sum(name).unwrap_or(0.0)
    }

    /// Rise a second of a counter, all its labels together.
    fn rate(&self, name: &str) -> f64 {
        self.samples().since(&self.before.samples, name).unwrap_or(0.0) / self.seconds
    }

    /// Rises a second by a label, those that rose, greatest first.
    fn rates(&self, name: &'static str, label: &str) -> Vec<(&'a str, f64)> {
        let old = self.before.samples.by_label(name, label);
        let was = |word: &str| {
            old.iter()
                .find(|(other, _)| *other == word)
                .map_or(0.0, |(_, was)| *was)
        };
        let mut rates: Vec<(&'a str, f64)> = self.now.samples.by_label(name, label);
        for (word, value) in &mut rates {
            let was = was(word);
            // A relay that began anew counts from zero.
            *value = if *value < was { *value } else { *value - was } / self.seconds;
        }
        rates.retain(|(_, rate)| *rate > 0.0);
        rates.sort_by(|one, other| other.1.total_cmp(&one.1));
        rates
    }

    /// Rise a second of all labels but some.
    fn rate_but(&self, name: &'static str, label: &str, not: &[&str]) -> f64 {
        let rates = self.rates(name, label).into_iter();
        rates
            .filter(|(word, _)| !not.contains(word))
            .fold(0.0, |sum, (_, rate)| sum + rate)
    }

    fn quantile(&self, name: &str, share: f64) -> Option<f64> {
        self.samples().quantile_since(&self.before.samples, name, share)
    }

    fn line(&mut self, name: &str, text: &str) {
        self.sheet.status.push(format!("{name:<11}{text}"));
    }

    fn relay(&mut self) {
        let state = match self.now.unready.as_slice() {
            [] => marked("serving", self.value("ackline_draining") > 0.0),
            reasons => marked(&reasons.join("; "), true),
        };
        self.line("relay", &state);
        let lag = self.value("ackline_upstream_lag_seconds");
        let is_connected = self.value("ackline_upstream_connected") > 0.0;
        let upstream = if is_connected { "connected" } else { "away" };
        let upstream = marked(upstream, !is_connected);
        let lag = match self.value("ackline_upstream_frames_total") > 0.0 {
            true => marked(&format!("last tick {} ago", time(Some(lag))), lag > SILENT_S),
            false => "no tick yet".to_owned(),
        };
        let ticks = self.rate("ackline_upstream_frames_total");
        self.line("upstream", &format!("{upstream}, {lag}, {ticks:.1} ticks/s"));
        for trouble in self.now.warnings.iter().take(TROUBLES) {
            self.line("trouble", &marked(trouble, true));
        }
    }

    fn process(&mut self) {
        let versions = self.samples().by_label("ackline_build_info", "version");
        let version = versions.first().map_or("-", |(version, _)| *version).to_owned();
        let began_s = self.value("process_start_time_seconds");
        let up = (began_s > 0.0).then(|| (self.now.wall_s as f64 - began_s).max(0.0));
        let cores = self.rate("process_cpu_seconds_total");
        let memory = bytes(self.value("process_resident_memory_bytes"));
        let (open, most) = (self.value("process_open_fds"), self.value("process_max_fds"));
        let files = marked(&format!("{open:.0} of {most:.0} files"), open > 0.8 * most);
        let reload = match self.value("ackline_reload_refused") > 0.0 {
            true => format!(", {}", marked("last reload refused", true)),
            false => String::new(),
        };
        let up = time(up);
        self.line(
            "process",
            &format!("version {version}, up {up}, {cores:.2} cores, {memory}, {files}{reload}"),
        );
    }

    fn clients(&mut self) {
        let (clients, most) = (self.value("ackline_clients"), self.value("ackline_sessions_max"));
        let places = match most > 0.0 {
            true => marked(&format!("{clients:.0} of {most:.0}"), clients > FULL * most),
            false => format!("{clients:.0}"),
        };
        let opened = self.rate("ackline_sessions_opened_total");
        let closed = self.rates("ackline_sessions_closed_total", "reason");
        let lost = LOST_IN_S * of(&closed, "idle");
        let is_lost = lost > 20.0 && lost > 0.2 * (clients + lost);
        let closed = by_reason("closed", &closed, |reason, _| reason == "idle" && is_lost);
        let denied = self.rates("ackline_handshakes_refused_total", "reason");
        let denied = by_reason("denied", &denied, |reason, rate| {
            reason == "full" || ["token", "version"].contains(&reason) && rate > 0.1
        });
        self.line(
            "clients",
            &format!("{places}, {opened:.1} opened/s, {closed}, {denied}"),
        );
    }

    fn traffic(&mut self) {
        let (sent, out) = (
            self.rate("ackline_datagrams_sent_total"),
            bytes(self.rate("ackline_egress_bytes_total")),
        );
        let (came, refused) = (
            self.rate("ackline_datagrams_received_total"),
            self.rate("ackline_datagrams_refused_total"),
        );
        let refused = marked(
            &format!("{refused:.0}/s refused"),
            refused > 100.0 && refused > 0.2 * came,
        );
        self.line(
            "datagrams",
            &format!("{sent:.0}/s sent ({out}/s), {came:.0}/s received, {refused}"),
        );
        let trip = |share| self.quantile("ackline_round_trip_seconds", share);
        let loss = |share| self.quantile("ackline_client_loss_ratio", share);
        let middle = marked(
            &format!("p50 {}", time(trip(0.5))),
            trip(0.5) > Some(ROUND_TRIP_S),
        );
        let half = marked(&format!("p50 {}", percent(loss(0.5))), loss(0.5) > Some(LOSS));
        let view = self.quantile("ackline_view_complete_seconds", 0.95);
        let view = marked(&format!("p95 {}", time(view)), view > Some(VIEW_S));
        let text = format!(
            "round trip {middle}, p99 {}; loss {half}, p90 {}; view {view}",
            time(trip(0.99)),
            percent(loss(0.9))
        );
        self.line("lines", &text);
        let delay = self.quantile("ackline_relay_delay_seconds", 0.99);
        let p99 = marked(&format!("p99 {}", time(delay)), delay > Some(DELAY_S));
        let text = format!(
            "p50 {}, {p99} from a tick's arrival to the kernel",
            time(self.quantile("ackline_relay_delay_seconds", 0.5))
        );
        self.line("delay", &text);
    }

    fn windows(&mut self) {
        let slots = |share| self.quantile("ackline_window_slots_in_use", share);
        let buckets = self
            .samples()
            .buckets_since(&self.before.samples, "ackline_window_slots_in_use");
        let all = buckets.last().map_or(0.0, |(_, count)| *count);
        let low = buckets
            .iter()
            .find(|(bound, _)| *bound >= SLOTS_HIGH)
            .map_or(all, |(_, count)| *count);
        let high = (all > 0.0).then(|| (all - low) / all);
        let high = marked(&format!("{} above 28", percent(high)), high > Some(0.05));
        let advance = self.quantile("ackline_window_advance_seconds", 0.99);
        let text = format!(
            "slots in use p50 {}, p99 {} of 32, {high}; baseline age p99 {} ticks; {}",
            whole(slots(0.5)),
            whole(slots(0.99)),
            whole(self.quantile("ackline_baseline_age_ticks", 0.99)),
            marked(
                &format!("advance p99 {}", time(advance)),
                advance > Some(ADVANCE_S)
            )
        );
        self.line("windows", &text);
        let fallbacks = self.rates("ackline_full_state_fallbacks_total", "reason");
        let known = self.rate_but(
            "ackline_full_state_fallbacks_total",
            "reason",
            &["stream_changed"],
        );
        let clients = self.value("ackline_clients");
        let fallbacks = marked(&list(&fallbacks), clients > 0.0 && known > FALLBACKS * clients);
        self.line("fallbacks", &fallbacks);
        let withheld: Vec<(&str, f64)> = self
            .rates("ackline_withheld_ticks_total", "reason")
            .into_iter()
            .filter(|(reason, _)| !NOT_DUE.contains(reason))
            .collect();
        let ticks = withheld.iter().fold(0.0, |sum, (_, rate)| sum + rate);
        let due = ticks + self.rate("ackline_snapshots_sent_total");
        let share = (due > 0.0).then(|| ticks / due);
        let text = format!("{} of ticks due: {}", percent(share), list(&withheld));
        let text = marked(&text, share > Some(WITHHELD) || of(&withheld, "slot") > 0.0);
        self.line("withheld", &text);
    }

    /// What should never happen, where it does.
    fn faults(&mut self) {
        let rate = |name| self.rate(name);
        let sent = rate("ackline_datagrams_sent_total");
        let dropped = of(
            &self.rates("ackline_datagrams_forwarded_total", "result"),
            "dropped",
        );
        let unsent = rate("ackline_send_errors_total");
        let unread = self.rate_but("ackline_receive_errors_total", "errno", &OF_CLIENTS);
        let rejected = self.rate_but("ackline_client_packets_rejected_total", "reason", &OF_NETWORKS);
        // What it is, how often a second, and from where on it is marked.
        let faults = [
            (
                "malformed upstream",
                rate("ackline_upstream_malformed_total"),
                0.0,
            ),
            ("gaps upstream", rate("ackline_upstream_gaps_total"), 0.0),
            ("refused upstream", rate("ackline_upstream_refusals_total"), 0.0),
            ("new streams", rate("ackline_upstream_epoch_changes_total"), 0.0),
            ("digests differ", rate("ackline_digest_mismatches_total"), 0.0),
            (
                "messages dropped",
                rate("ackline_control_messages_dropped_total"),
                0.0,
            ),
            ("lapped", rate("ackline_shard_lapped_total"), 0.0),
            ("not handed over", dropped, 1.0),
            ("not sent", unsent, f64::max(1.0, 0.001 * sent)),
            ("receive errors", unread, 1.0),
            ("refused by clients", rejected, 0.01 * sent),
        ];
        let each: Vec<String> = faults
            .iter()
            .filter(|(_, rate, _)| *rate > 0.0)
            .map(|(what, rate, bound)| marked(&format!("{what} {rate:.1}/s"), rate > bound))
            .collect();
        let text = if each.is_empty() {
            "none".to_owned()
        } else {
            each.join(", ")
        };
        self.line("faults", &text);
    }

    fn shards(&mut self) {
        let head = "shard   lateness  overruns/s  overload  kernel drops/s".to_owned();
        let lateness = self
            .now
            .samples
            .by_label("ackline_shard_tick_lateness_seconds", "shard");
        let overruns = self.rates("ackline_shard_overrun_total", "shard");
        let drops = self.rates("ackline_kernel_drops_total", "socket");
        let levels = self.now.samples.by_label("ackline_shard_overload_level", "shard");
        let ticks = self.rate("ackline_upstream_frames_total");
        let row = |(shard, late_s): &(&str, f64)| {
            let (overrun, level, dropped) = (of(&overruns, shard), of(&levels, shard), of(&drops, shard));
            let late = marked(&format!("{:>8}", time(Some(*late_s))), *late_s > LATE_S);
            let overrun = marked(&format!("{overrun:>10.1}"), overrun > 0.01 * ticks);
            let dropped = marked(&format!("{dropped:>14.1}"), dropped > 1.0);
            format!("{shard:<8}{late}  {overrun}  {level:>8.0}  {dropped}")
        };
        self.sheet.shards = Table {
            head: vec![String::new(), head],
            lines: lateness.iter().map(row).collect(),
        };
    }

    fn sessions(&mut self, most: usize) {
        let (total, seen) = (self.now.sessions_total, self.now.sessions.len());
        let looked_at = match total > seen {
            true => format!(", of the first {seen} of {total}"),
            false => format!(" of {total}"),
        };
        let mut head = vec![String::new(), format!("worst sessions{looked_at}")];
        let lines: Vec<String> = self.now.worst(most).into_iter().map(session).collect();
        if !lines.is_empty() {
            head.push(
                "connection        shard       age  slots  baseline  round trip   loss      sent  backlog  silent"
                    .to_owned(),
            );
        }
        self.sheet.sessions = Table { head, lines };
    }
}

fn session(session: &SessionLine) -> String {
    let slots = format!("{:>5}", session.slots_in_use);
    let slots = marked(&slots, session.slots_in_use as f64 > SLOTS_HIGH);
    let baseline = session.baseline_age_ticks.map(|ticks| ticks as f64);
    format!(
        "{:<16}  {:>5}  {:>8}  {slots}  {:>8}  {:>10}  {:>5}  {:>8}  {:>7}  {:>6}",
        marked(&session.connection, false),
        session.shard,
        time(Some(session.age_s)),
        whole(baseline),
        time(session.round_trip_ms.map(|ms| ms / 1e3)),
        percent(session.loss),
        bytes(session.bytes as f64),
        session.backlog,
        time(Some(session.silent_ms as f64 / 1e3)),
    )
}

/// The value of a word; 0 where there is none.
fn of(values: &[(&str, f64)], word: &str) -> f64 {
    let found = values.iter().find(|(other, _)| *other == word);
    found.map_or(0.0, |(_, value)| *value)
}

/// A rate in all and by reason, those marked that are to be.
fn by_reason(what: &str, rates: &[(&str, f64)], is_marked: impl Fn(&str, f64) -> bool) -> String {
    // The sum of nothing would be a negative zero.
    let all = rates.iter().fold(0.0, |sum, (_, rate)| sum + rate);
    let any = rates.iter().any(|(reason, rate)| is_marked(reason, *rate));
    let reasons: Vec<&str> = rates.iter().map(|(reason, _)| *reason).collect();
    let text = match reasons.is_empty() {
        true => format!("{all:.1} {what}/s"),
        false => format!("{all:.1} {what}/s ({})", reasons.join(", ")),
    };
    marked(&text, any)
}

fn list(rates: &[(&str, f64)]) -> String {
    if rates.is_empty() {
        return "none".to_owned();
    }
    let each: Vec<String> = rates
        .iter()
        .take(4)
        .map(|(word, rate)| format!("{word} {rate:.1}/s"))
        .collect();
    each.join(", ")
}

/// A time in the unit that suits it; a dash where there is none.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(s) if !s.is_finite() => "over 10 s".to_owned(),
        Some(s) if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        Some(s) if s >= 120.0 => format!("{:.0} min", s / 60.0),
        Some(s) if s >= 1.0 => format!("{s:.1} s"),
        Some(s) if s > 0.0 => format!("{:.1} ms", s * 1e3),
        Some(_) => "0".to_owned(),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

fn whole(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.is_finite() => format!("{value:.0}"),
        Some(_) => "more".to_owned(),
    }
}

fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1} GB", v / 1e9),
        v if v >= 1e6 => format!("{:.1} MB", v / 1e6),
        v if v >= 1e3 => format!("{:.1} kB", v / 1e3),
        v => format!("{v:.0} B"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
