//! Adds reports of several bench hosts into one.
//!
//! Counts add up, histograms add up and give the percentiles anew, the longest run gives the seconds. Relay-side
//! figures of one and the same relay are seen by every host: there the largest stands; those of different
//! relays add up.

use std::collections::BTreeSet;

use super::report::{Inputs, LinkFigures, Reasons, Relay, Report, Spread};
use super::series::SeriesSet;
use super::viewer::counts::Render;

/// Adds reports into one, in order.
///
/// # Errors
/// When there is none.
pub fn merge(reports: &[Report]) -> Result<Report, &'static str> {
    let (first, rest) = reports.split_first().ok_or("merge needs at least one report")?;
    let mut sum = first.clone();
    let mut set = SeriesSet::from_buckets(&first.histograms);
    let mut relays = vec![RelaySide::of(first)];
    for report in rest {
        set.add(&SeriesSet::from_buckets(&report.histograms));
        add(&mut sum, report);
        let side = RelaySide::of(report);
        match relays
            .iter_mut()
            .find(|known| known.target == side.target && side.target != "local")
        {
            Some(known) => known.take_larger(&side),
            None => relays.push(side),
        }
    }
    let targets: BTreeSet<&str> = reports.iter().map(|report| report.target.as_str()).collect();
    let target = targets.into_iter().collect::<Vec<_>>().join(", ");
    if let Some(all) = relays.into_iter().reduce(RelaySide::plus) {
        sum.relay = all.relay;
        sum.window.withheld_ticks = all.withheld_ticks;
        sum.fallbacks = all.fallbacks;
        sum.complete_records = all.complete_records;
        sum.withheld = all.withheld;
    }
    sum.target = target;
    "ackline bench merge".clone_into(&mut sum.command);
    sum.derive(&set);
    Ok(sum)
}

/// What tells that the reports are hardly of one run, in one sentence: other versions, or other rates (measured, so a tenth
/// apart). `None` where nothing does.
#[must_use]
pub fn differences(reports: &[Report]) -> Option<String> {
    let versions: BTreeSet<&str> = reports.iter().map(|report| report.version.as_str()).collect();
    let rates = || reports.iter().filter_map(|report| report.origin.hz);
    let (slowest, fastest) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
    let mut said = Vec::new();
    if versions.len() > 1 {
        said.push(format!(
            "of versions {}",
            versions.into_iter().collect::<Vec<_>>().join(" and ")
        ));
    }
    if fastest > slowest * 1.1 {
        said.push(format!("of streams of {slowest:.1} to {fastest:.1} Hz"));
    }
    (!said.is_empty()).then(|| format!("the reports are {}: were they one run?", said.join(", and ")))
}

/// What a report says of the relay's side.
struct RelaySide {
    target: String,
    relay: Relay,
    withheld_ticks: Option<u64>,
    fallbacks: Option<Reasons>,
    complete_records: Option<Reasons>,
    withheld: Option<Reasons>,
}

impl RelaySide {
    fn of(report: &Report) -> RelaySide {
        RelaySide {
            target: report.target.clone(),
            relay: report.relay,
            withheld_ticks: report.window.withheld_ticks,
            fallbacks: report.fallbacks.clone(),
            complete_records: report.complete_records.clone(),
            withheld: report.withheld.clone(),
        }
    }

    /// Two observations of one relay: each figure's larger one.
    fn take_larger(&mut self, other: &RelaySide) {
        if other.relay.packets > self.relay.packets {
            self.relay = other.relay;
        }
        self.withheld_ticks = self.withheld_ticks.max(other.withheld_ticks);
        let larger = |known: &mut u64, more: u64| *known = (*known).max(more);
        by_reason(&mut self.fallbacks, other.fallbacks.as_ref(), larger);
        by_reason(
            &mut self.complete_records,
            other.complete_records.as_ref(),
            larger,
        );
        by_reason(&mut self.withheld, other.withheld.as_ref(), larger);
    }

    /// Two relays together.
    fn plus(mut self, other: RelaySide) -> RelaySide {
        self.relay = plus(&self.relay, &other.relay);
        self.withheld_ticks = sum_known(self.withheld_ticks, other.withheld_ticks);
        let sum = |known: &mut u64, more: u64| *known += more;
        by_reason(&mut self.fallbacks, other.fallbacks.as_ref(), sum);
        by_reason(&mut self.complete_records, other.complete_records.as_ref(), sum);
        by_reason(&mut self.withheld, other.withheld.as_ref(), sum);
        self
    }
}

fn by_reason(known: &mut Option<Reasons>, more: Option<&Reasons>, join: impl Fn(&mut u64, u64)) {
    for (reason, count) in more.into_iter().flatten() {
        join(
            known.get_or_insert_default().entry(reason.clone()).or_default(),
            *count,
        );
    }
}

fn sum_known(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

fn add(sum: &mut Report, report: &Report) {
    if let (Some(mine), Some(theirs)) = (&sum.render, &report.render) {
        let mut counts = mine.counts;
        counts.add(&theirs.counts);
        sum.render = Some(Render::of(mine.fps.max(theirs.fps), counts));
    } else if sum.render.is_none() {
        sum.render.clone_from(&report.render);
    }
    sum.seconds = sum.seconds.max(report.seconds);
    for (known, other) in [(&mut sum.scene, &report.scene), (&mut sum.view, &report.view)] {
        if known != other {
            // There is no one word for both.
            *known = None;
        }
    }
    add_link(&mut sum.impairment.down, &report.impairment.down);
    add_link(&mut sum.impairment.up, &report.impairment.up);
    sum.machine.cores += report.machine.cores;
    if sum.machine.kernel != report.machine.kernel {
        sum.machine.kernel = format!("{}, {}", sum.machine.kernel, report.machine.kernel);
    }
    let (clients, more) = (&mut sum.clients, &report.clients);
    clients.requested += more.requested;
    clients.connected += more.connected;
    clients.lost += more.lost;
    clients.reconnects += more.reconnects;
    clients.churned += more.churned;
    clients.session_seconds += more.session_seconds;
    add_reasons(&mut clients.endings, &more.endings);
    // Several hosts watch one origin: the one that saw most stands.
    sum.origin.ticks = sum.origin.ticks.max(report.origin.ticks);
    sum.origin.entities_max = sum.origin.entities_max.max(report.origin.entities_max);
    sum.origin.hz = greater(sum.origin.hz, report.origin.hz);
    let (packets, more) = (&mut sum.packets, &report.packets);
    packets.sent += more.sent;
    packets.received += more.received;
    packets.received_in_run += more.received_in_run;
    packets.bytes += more.bytes;
    packets.up += more.up;
    packets.up_bytes += more.up_bytes;
    add_reasons(&mut packets.rejected, &more.rejected);
    let (truth, more) = (&mut sum.truth, &report.truth);
    truth.given &= more.given;
    truth.tables_checked += more.tables_checked;
    truth.records_checked += more.records_checked;
    truth.mismatches += more.mismatches;
    truth.missing_at_end += more.missing_at_end;
    truth.leaks += more.leaks;
    truth.views_unlike += more.views_unlike;
    truth.unchecked += more.unchecked;
    truth.at_seams += more.at_seams;
    truth.examples.extend(more.examples.iter().cloned());
    truth
        .missing_examples
        .extend(more.missing_examples.iter().cloned());
    sum.window.advances += report.window.advances;
    let (events, more) = (&mut sum.events, &report.events);
    events.sent += more.sent;
    events.delivered += more.delivered;
    events.duplicated += more.duplicated;
    events.out_of_order += more.out_of_order;
    events.unknown += more.unknown;
    add_inputs(&mut sum.inputs, &report.inputs);
    sum.digest.checked += report.digest.checked;
    sum.digest.mismatches += report.digest.mismatches;
    sum.digest.healed += report.digest.healed;
    sum.attacks.extend(report.attacks.iter().cloned());
    let (bench, more) = (&mut sum.bench, &report.bench);
    bench.threads += more.threads;
    bench.cpu_share = bench.cpu_share.max(more.cpu_share);
    bench.overruns += more.overruns;
    bench.kernel_drops = bench
        .kernel_drops
        .zip(more.kernel_drops)
        .map(|(one, other)| one + other);
    bench.saturated |= more.saturated;
    bench.host_busy |= more.host_busy;
    bench.notes.extend(more.notes.iter().cloned());
    for threshold in &report.thresholds {
        if !sum.thresholds.contains(threshold) {
            sum.thresholds.push(threshold.clone());
        }
    }
}

fn add_inputs(sum: &mut Inputs, more: &Inputs) {
    let pairs = [
        (&mut sum.sent, more.sent),
        (&mut sum.delivered, more.delivered),
        (&mut sum.duplicated, more.duplicated),
        (&mut sum.out_of_order, more.out_of_order),
        (&mut sum.wrong, more.wrong),
        (&mut sum.reported_lost, more.reported_lost),
        (&mut sum.cut_off, more.cut_off),
        (&mut sum.missing, more.missing),
        (&mut sum.wrong_processed, more.wrong_processed),
        (&mut sum.owners_checked, more.owners_checked),
    ];
    for (known, more) in pairs {
        *known = sum_known(*known, more);
    }
}

fn add_link(sum: &mut LinkFigures, more: &LinkFigures) {
    if sum.text != more.text {
        sum.text = format!("{}; {}", sum.text, more.text);
    }
    sum.sent += more.sent;
    sum.lost += more.lost;
    sum.duplicated += more.duplicated;
    sum.reordered += more.reordered;
    sum.overflowed += more.overflowed;
}

fn add_reasons(sum: &mut Reasons, more: &Reasons) {
    for (reason, count) in more {
        *sum.entry(reason.clone()).or_default() += count;
    }
}

fn greater(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

/// Two relays together; costs for each packet are weighted by packets.
#[allow(clippy::cast_precision_loss)]
fn plus(one: &Relay, other: &Relay) -> Relay {
    let weights = (one.packets.unwrap_or(0) as f64, other.packets.unwrap_or(0) as f64);
    let mean = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) if weights.0 + weights.1 > 0.0 => {
            Some((a * weights.0 + b * weights.1) / (weights.0 + weights.1))
        }
        (a, b) => a.or(b),
    };
    Relay {
        cpu_s: match (one.cpu_s, other.cpu_s) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        },
        rss_bytes: sum_known(one.rss_bytes, other.rss_bytes),
        packets: sum_known(one.packets, other.packets),
        packets_per_cpu_s: None,
        encode_ns_per_packet: mean(one.encode_ns_per_packet, other.encode_ns_per_packet),
        seal_ns_per_packet: mean(one.seal_ns_per_packet, other.seal_ns_per_packet),
        send_ns_per_packet: mean(one.send_ns_per_packet, other.send_ns_per_packet),
        delay_ms: greater_spread(&one.delay_ms, &other.delay_ms),
    }
}

/// Of two relays' spreads, which do not add, the worse figures.
fn greater_spread(one: &Spread, other: &Spread) -> Spread {
    Spread {
        p50: greater(one.p50, other.p50),
        p99: greater(one.p99, other.p99),
        p999: greater(one.p999, other.p999),
        max: greater(one.max, other.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::series::Series;

    fn report(target: &str, latency_us: u64, packets: u64) -> Report {
        let mut set = SeriesSet::default();
        set.record(Series::Latency, latency_us);
        let mut report = Report {
            target: target.to_owned(),
            seconds: 10.0,
            ..Report::default()
        };
        report.clients.requested = 5;
        report.clients.session_seconds = 50.0;
        report.packets.bytes = 1000;
        report.packets.received_in_run = 1;
        report.truth.given = true;
        report.truth.records_checked = 10;
        report.truth.tables_checked = 1;
        report.relay = Relay {
            cpu_s: Some(1.0),
            packets: Some(packets),
            encode_ns_per_packet: Some(packets as f64),
            ..Relay::default()
        };
        report.fallbacks = Some(Reasons::from([("requested".to_owned(), packets)]));
        report.derive(&set);
        report
    }

    /// Reports of other builds, or of another stream, are told of.
    #[test]
    fn reports_that_are_hardly_of_one_run_are_told_of() {
        let mut reports = [report("a", 1, 1), report("a", 2, 1)];
        (reports[0].origin.hz, reports[1].origin.hz) = (Some(59.9), Some(60.2));
        assert_eq!(differences(&reports), None);
        reports[1].origin.hz = Some(20.0);
        (reports[0].version, reports[1].version) = ("0.1.0".to_owned(), "9.9".to_owned());
        assert_eq!(
            differences(&reports).unwrap_or_default(),
            "the reports are of versions 0.1.0 and 9.9, and of streams of 20.0 to 59.9 Hz: were they one run?"
        );
    }

    #[test]
    fn counts_and_histograms_add_up() {
        let sum = merge(&[report("a:1", 1000, 10), report("b:1", 3000, 30)]).expect("merges");
        assert_eq!(
            (
                sum.clients.requested,
                sum.truth.records_checked,
                sum.packets.bytes
            ),
            (10, 20, 2000)
        );
        assert_eq!(sum.packets.bytes_per_client_per_s, Some(20.0));
        assert_eq!((sum.latency_ms.p50, sum.seconds), (Some(1.0), 10.0));
        assert!(sum.latency_ms.max.is_some_and(|max| (max - 3.0).abs() < 0.01));
        assert_eq!(
            (sum.relay.cpu_s, sum.relay.packets_per_cpu_s),
            (Some(2.0), Some(20.0))
        );
        assert_eq!(sum.relay.encode_ns_per_packet, Some(25.0), "weighted by packets");
        assert!(sum.verdict.ok, "{:?}", sum.verdict);
        assert!(merge(&[]).is_err());
    }

    /// Two hosts that load one relay both read that relay's figures: they are not added.
    #[test]
    fn one_relay_is_counted_once() {
        let sum = merge(&[report("a:1", 1000, 10), report("a:1", 3000, 30)]).expect("merges");
        assert_eq!((sum.relay.cpu_s, sum.relay.packets), (Some(1.0), Some(30)));
        assert_eq!(sum.fallbacks, Some(Reasons::from([("requested".to_owned(), 30)])));
        let local = merge(&[report("local", 1000, 10), report("local", 3000, 30)]).expect("merges");
        assert_eq!(
            local.relay.packets,
            Some(40),
            "each local report has a relay of its own"
        );
    }

    /// The thresholds of all reports are judged on the sum.
    #[test]
    fn thresholds_hold_for_the_sum() {
        let (mut one, other) = (report("a:1", 1000, 1), report("a:1", 9000, 1));
        one.thresholds = vec!["latency_max<5ms".to_owned()];
        let sum = merge(&[one, other]).expect("merges");
        assert!(
            !sum.verdict.ok && sum.verdict.failed[0].starts_with("latency_max<5ms"),
            "{:?}",
            sum.verdict
        );
    }
}
