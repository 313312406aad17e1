//! The picture: text of two readings of one relay, for a terminal of 100 columns.

use std::fmt::Write as _;

use super::reading::{Reading, SessionLine};
use crate::bench::scrape::Samples;

/// What is emphasised on a terminal: what an alert would be about.
const RED: &str = "\x1b[1;31m";
const PLAIN: &str = "\x1b[0m";
/// Slots in use from which a window is nearly full, as AcklineWindowPressure has it.
const SLOTS_HIGH: f64 = 28.0;
/// Lateness of a shard, seconds, as AcklineShardLate has it.
const LATE_S: f64 = 0.025;
/// Time in the relay, seconds, as AcklineRelayDelay has it.
const DELAY_S: f64 = 0.05;
/// Loss to clients, as AcklineClientLoss has it.
const LOSS: f64 = 0.05;
/// Share of ticks withheld, as AcklineTicksWithheld has it.
const WITHHELD: f64 = 0.2;

/// What a relay did between two readings, and how it stands at the second. `paint` emphasises with ANSI codes; at most
/// `sessions` of the worst are listed.
#[must_use]
pub fn picture(before: &Reading, now: &Reading, sessions: usize, paint: bool) -> String {
    let mut sketch = Sketch {
        before,
        now,
        seconds: now.at_us.saturating_sub(before.at_us).max(1) as f64 / 1e6,
        paint,
        text: String::new(),
    };
    sketch.relay();
    sketch.traffic();
    sketch.windows();
    sketch.shards();
    sketch.sessions(sessions);
    sketch.text
}

struct Sketch<'a> {
    before: &'a Reading,
    now: &'a Reading,
    seconds: f64,
    paint: bool,
    text: String,
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

    fn quantile(&self, name: &str, share: f64) -> Option<f64> {
        self.samples().quantile_since(&self.before.samples, name, share)
    }

    fn painted(&self, text: String, is_red: bool) -> String {
        match self.paint && is_red {
            true => format!("{RED}{text}{PLAIN}"),
            false => text,
        }
    }

    fn line(&mut self, name: &str, text: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{name:<11}{text}");
    }

    fn relay(&mut self) {
        let is_draining = self.value("ackline_draining") > 0.0;
        let state = match self.now.unready.as_slice() {
            [] => "serving".to_owned(),
            reasons => reasons.join("; "),
        };
        let state = self.painted(state, !self.now.unready.is_empty() && !is_draining);
        self.line("relay", &state);
        let lag = self.value("ackline_upstream_lag_seconds");
        let is_connected = self.value("ackline_upstream_connected") > 0.0;
        let upstream = if is_connected { "connected" } else { "away" };
        let upstream = self.painted(upstream.to_owned(), !is_connected);
        let lag = self.painted(format!("last tick {} ago", time(Some(lag))), lag > 2.0);
        let ticks = self.rate("ackline_upstream_frames_total");
        self.line("upstream", &format!("{upstream}, {lag}, {ticks:.1} ticks/s"));
        let cores = self.rate("process_cpu_seconds_total");
        let memory = bytes(self.value("process_resident_memory_bytes"));
        let (open, most) = (self.value("process_open_fds"), self.value("process_max_fds"));
        let files = self.painted(format!("{open:.0} of {most:.0} files"), open > 0.8 * most);
        self.line("process", &format!("{cores:.2} cores, {memory}, {files}"));
    }

    fn traffic(&mut self) {
        let clients = self.value("ackline_clients");
        let (opened, closed) = (
            self.rate("ackline_sessions_opened_total"),
            self.rate("ackline_sessions_closed_total"),
        );
        let denied = self.rate("ackline_handshakes_refused_total");
        self.line(
            "clients",
            &format!("{clients:.0}, {opened:.1} opened/s, {closed:.1} closed/s, {denied:.1} denied/s"),
        );
        let (sent, out) = (
            self.rate("ackline_datagrams_sent_total"),
            bytes(self.rate("ackline_egress_bytes_total")),
        );
        let (came, refused) = (
            self.rate("ackline_datagrams_received_total"),
            self.rate("ackline_datagrams_refused_total"),
        );
        let refused = self.painted(format!("{refused:.0}/s refused"), refused > 100.0);
        self.line(
            "datagrams",
            &format!("{sent:.0}/s sent ({out}/s), {came:.0}/s received, {refused}"),
        );
        let trip = |share| time(self.quantile("ackline_round_trip_seconds", share));
        let loss = |share| self.quantile("ackline_client_loss_ratio", share);
        let half = self.painted(format!("p50 {}", percent(loss(0.5))), loss(0.5) > Some(LOSS));
        let text = format!(
            "round trip p50 {}, p99 {}; loss {half}, p90 {}",
            trip(0.5),
            trip(0.99),
            percent(loss(0.9))
        );
        self.line("lines", &text);
        let delay = self.quantile("ackline_relay_delay_seconds", 0.99);
        let p99 = self.painted(format!("p99 {}", time(delay)), delay > Some(DELAY_S));
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
        let high = self.painted(format!("{} above 28", percent(high)), high > Some(0.05));
        let text = format!(
            "slots in use p50 {}, p99 {} of 32, {high}; baseline age p99 {} ticks; advance p99 {}",
            whole(slots(0.5)),
            whole(slots(0.99)),
            whole(self.quantile("ackline_baseline_age_ticks", 0.99)),
            time(self.quantile("ackline_window_advance_seconds", 0.99))
        );
        self.line("windows", &text);
        let fallbacks = list(&self.rates("ackline_full_state_fallbacks_total", "reason"));
        self.line("fallbacks", &fallbacks);
        let withheld: Vec<(&str, f64)> = self
            .rates("ackline_withheld_ticks_total", "reason")
            .into_iter()
            .filter(|(reason, _)| !["silent", "unwelcomed"].contains(reason))
            .collect();
        let ticks = withheld.iter().fold(0.0, |sum, (_, rate)| sum + rate);
        let due = ticks + self.rate("ackline_snapshots_sent_total");
        let share = (due > 0.0).then(|| ticks / due);
        let text = format!("{} of ticks due: {}", percent(share), list(&withheld));
        let text = self.painted(text, share > Some(WITHHELD));
        self.line("withheld", &text);
    }

    fn shards(&mut self) {
        self.text
            .push_str("\nshard   lateness  overruns/s  overload  kernel drops/s\n");
        let lateness = self
            .now
            .samples
            .by_label("ackline_shard_tick_lateness_seconds", "shard");
        let overruns = self.rates("ackline_shard_overrun_total", "shard");
        let drops = self.rates("ackline_kernel_drops_total", "socket");
        let levels = self.now.samples.by_label("ackline_shard_overload_level", "shard");
        let at = |list: &[(&str, f64)], shard: &str| {
            let found = list.iter().find(|(word, _)| *word == shard);
            found.map_or(0.0, |(_, value)| *value)
        };
        let mut text = String::new();
        for (shard, late_s) in &lateness {
            let late = self.painted(format!("{:>8}", time(Some(*late_s))), *late_s > LATE_S);
            let (overrun, level, dropped) = (at(&overruns, shard), at(&levels, shard), at(&drops, shard));
            let _ = writeln!(
                text,
                "{shard:<8}{late}  {overrun:>10.1}  {level:>8.0}  {dropped:>14.1}"
            );
        }
        self.text.push_str(&text);
    }

    fn sessions(&mut self, most: usize) {
        let (total, seen) = (self.now.sessions_total, self.now.sessions.len());
        let looked_at = match total > seen {
            true => format!(", of the first {seen} of {total}"),
            false => format!(" of {total}"),
        };
        let _ = writeln!(self.text, "\nworst sessions{looked_at}");
        if self.now.sessions.is_empty() || most == 0 {
            return;
        }
        self.text.push_str(
            "connection        shard       age  slots  baseline  round trip   loss      sent  backlog  silent\n",
        );
        let lines: Vec<String> = self
            .now
            .worst(most)
            .into_iter()
            .map(|session| self.session(session))
            .collect();
        self.text.extend(lines);
    }

    fn session(&self, session: &SessionLine) -> String {
        let slots = format!("{:>5}", session.slots_in_use);
        let slots = self.painted(slots, session.slots_in_use as f64 > SLOTS_HIGH);
        let baseline = session.baseline_age_ticks.map(|ticks| ticks as f64);
        format!(
            "{:<16}  {:>5}  {:>8}  {slots}  {:>8}  {:>10}  {:>5}  {:>8}  {:>7}  {:>6}\n",
            session.connection,
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
mod tests {
    use super::*;

    const BEFORE: &str = "ackline_datagrams_sent_total 100\nackline_full_state_fallbacks_total{reason=\"requested\"} 5\nackline_snapshots_sent_total 10\nackline_withheld_ticks_total{reason=\"budget\"} 0\nackline_withheld_ticks_total{reason=\"silent\"} 0\nackline_window_slots_in_use_bucket{le=\"28\"} 10\nackline_window_slots_in_use_bucket{le=\"32\"} 10\nackline_window_slots_in_use_bucket{le=\"+Inf\"} 10\nackline_shard_overrun_total{shard=\"0\"} 1\n";
    const NOW: &str = "ackline_clients 3\nackline_datagrams_sent_total 300\nackline_full_state_fallbacks_total{reason=\"requested\"} 9\nackline_full_state_fallbacks_total{reason=\"lease_over\"} 0\nackline_snapshots_sent_total 16\nackline_withheld_ticks_total{reason=\"budget\"} 4\nackline_withheld_ticks_total{reason=\"silent\"} 400\nackline_window_slots_in_use_bucket{le=\"28\"} 14\nackline_window_slots_in_use_bucket{le=\"32\"} 18\nackline_window_slots_in_use_bucket{le=\"+Inf\"} 18\nackline_shard_overrun_total{shard=\"0\"} 5\nackline_shard_tick_lateness_seconds{shard=\"0\"} 0.5\nackline_upstream_connected 1\nackline_upstream_lag_seconds 0.01\n";

    fn reading(at_us: u64, text: &str) -> Reading {
        Reading {
            at_us,
            samples: Samples::parse(text),
            sessions_total: 1,
            sessions: vec![SessionLine {
                connection: "00000000deadbeef".to_owned(),
                slots_in_use: 31,
                round_trip_ms: Some(12.0),
                ..SessionLine::default()
            }],
            ..Reading::default()
        }
    }

    /// Rates are by the time between the readings; what an alert would be about is painted, and only on a terminal.
    #[test]
    fn figures_are_those_of_the_time_between() {
        let (before, now) = (reading(1_000_000, BEFORE), reading(3_000_000, NOW));
        let plain = picture(&before, &now, 5, false);
        for words in [
            "clients    3, ",
            "datagrams  100/s sent",
            "fallbacks  requested 2.0/s\n",
            "withheld   40.0% of ticks due: budget 2.0/s\n",
            "slots in use p50 28, p99 32 of 32, 50.0% above 28",
            "0       500.0 ms         2.0",
            "worst sessions of 1\n",
            "00000000deadbeef      0         0     31         -     12.0 ms      -",
            "upstream   connected, last tick 10.0 ms ago",
        ] {
            assert!(plain.contains(words), "{words:?} is not in\n{plain}");
        }
        assert!(!plain.contains('\x1b'), "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= 110), "{plain}");
        let painted = picture(&before, &now, 5, true);
        assert!(painted.contains("\x1b[1;31m500.0 ms\x1b[0m"), "{painted}");
        assert!(!picture(&before, &now, 0, false).contains("deadbeef"));
    }

    /// A relay that was started again counts from zero: nothing is negative.
    #[test]
    fn a_relay_that_began_anew_has_no_negative_rate() {
        let (before, now) = (reading(1_000_000, NOW), reading(2_000_000, BEFORE));
        let plain = picture(&before, &now, 5, false);
        assert!(
            plain.contains("datagrams  100/s sent") && plain.contains("requested 5.0/s"),
            "{plain}"
        );
        assert!(!plain.contains("-1") && !plain.contains("NaN"), "{plain}");
    }
}
