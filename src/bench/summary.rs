//! A report as a table for people: each figure with a sentence that says what it means.

use std::fmt::Write;

use super::attack::Bystanders;
use super::farewell;
use super::report::{Report, Spread};
use super::run::NO_CLOCK;
use super::verdict::overload;
use super::viewer::counts::InputToPicture;

/// The summary, several lines.
#[must_use]
pub fn summary(report: &Report) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: String, sense: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<18} {value:<30} {sense}");
    };
    let (clients, truth, packets) = (&report.clients, &report.truth, &report.packets);
    let (down, up) = (&report.impairment.down.text, &report.impairment.up.text);
    let links = if down == up {
        down.clone()
    } else {
        format!("{down} (up: {up})")
    };
    row("links", links, "what was done to every datagram, both ways");
    row(
        "clients",
        format!("{} of {} connected", clients.connected, clients.requested),
        "at the end of the run",
    );
    if clients.reconnects > 0 {
        row(
            "reconnects",
            count(clients.reconnects),
            "sessions that ended unasked and were followed by a new one",
        );
    }
    let ended = farewell::reasons(report);
    if clients.churned > 0 {
        row(
            "churn",
            count(clients.churned),
            "clients that left as planned, each replaced by a new one",
        );
    }
    row(
        "joined after",
        millis(clients.joined_ms),
        "first request to first snapshot",
    );
    row(
        "whole view after",
        millis(clients.complete_ms),
        "first request to every entity known",
    );
    row(
        "packets",
        count(packets.received),
        "snapshots and signs of life that reached the clients",
    );
    row(
        "bandwidth",
        packets
            .bytes_per_client_per_s
            .map_or("unknown".to_owned(), |bytes| {
                format!("{:.1} kB/s a client", bytes / 1000.0)
            }),
        "what one client is sent, sealed",
    );
    match report.bench.clock.strip_prefix(NO_CLOCK) {
        Some(why) => row("latency", format!("unknown: {why}"), ""),
        None => row(
            "latency",
            millis(report.latency_ms),
            "origin publishes to client has decoded",
        ),
    }
    row(
        "gap",
        millis(report.gap_ms),
        "between two snapshots at a client, stalls weighed by their length",
    );
    if report.events.sent > 0 {
        let events = &report.events;
        row(
            "events",
            format!("{} of {}", count(events.delivered), count(events.sent)),
            "delivered once and in order",
        );
        row(
            "events late",
            millis(events.late_ms),
            "origin publishes to client is told",
        );
        if events.critical_late_ms.p50.is_some() {
            row(
                "critical late",
                millis(events.critical_late_ms),
                "the same of critical events",
            );
        }
    }
    if let Some(sent) = report.inputs.sent {
        let inputs = &report.inputs;
        let delivered = inputs.delivered.map_or("unknown".to_owned(), count);
        row(
            "inputs",
            format!("{delivered} of {}", count(sent)),
            "reached the origin once and in order",
        );
        let lost = inputs.reported_lost.unwrap_or(0);
        if lost > 0 {
            row("inputs lost", count(lost), "past their window, and said to be");
        }
        if inputs.late_ms.p50.is_some() {
            row(
                "inputs late",
                millis(inputs.late_ms),
                "a client pushes to the origin has it",
            );
        }
        if inputs.answered_ms.p50.is_some() {
            row(
                "inputs answered",
                millis(inputs.answered_ms),
                "a client pushes to its entity's state has it: up, a tick, and down",
            );
        }
    }
    if let Some(render) = &report.render {
        let percent =
            |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{:.2}%", share * 100.0));
        row(
            "playing",
            percent(render.clock_share.playing),
            "of the time from the first frame that moved",
        );
        row(
            "picture",
            format!(
                "{} backward, {} jumps, {} new anchors",
                count(render.backward_steps),
                count(render.discontinuities),
                count(render.reanchors)
            ),
            "steps back in time, steps of more than 10 cm, jumps of the clock",
        );
        let metres = |error: Option<f64>| error.map_or("unknown".to_owned(), |error| format!("{error:.3} m"));
        row(
            "pose error",
            format!(
                "{}, p99 {}",
                metres(render.pose_error_m.p50),
                metres(render.pose_error_m.p99)
            ),
            "valid poses beside the straight path between the origin's observations",
        );
        row(
            "picture delay",
            millis(render.delay_ms),
            "D: how old the picture is, beside the way",
        );
        let InputToPicture {
            confirmed, predicted, ..
        } = render.input_to_picture_ms;
        if confirmed.p50.is_some() {
            row(
                "input to picture",
                millis(confirmed),
                "a client pushes to the first frame that shows it, without prediction",
            );
        }
        if predicted.p50.is_some() {
            row(
                "  predicted",
                millis(predicted),
                "the same with prediction: its own entity moves at once",
            );
        }
        let prediction = &render.prediction;
        if let Some(corrections) = prediction.corrections {
            row(
                "corrections",
                format!(
                    "{} of {}, {} snapped, at most {}, jumps to {}",
                    count(corrections),
                    count(prediction.states.unwrap_or(0)),
                    count(prediction.snapped.unwrap_or(0)),
                    metres(prediction.error_max_m),
                    metres(prediction.jump_max_m)
                ),
                "states that moved the own entity, the largest error drawn, the furthest step no input explains",
            );
        }
    }
    if report.starvation_ms.all.p50.is_some() {
        row(
            "starvation",
            starvation(report.starvation_ms.all),
            "an entity changes to the snapshot with its next record",
        );
    }
    row(
        "window advances",
        count(report.window.advances),
        "times a client freed old baselines without a pause",
    );
    let fallbacks = report
        .fallbacks
        .as_ref()
        .map(|reasons| reasons.values().sum::<u64>());
    row(
        "fallbacks",
        fallbacks.map_or("unknown".to_owned(), count),
        "times a client that was complete needed a full state again",
    );
    let checked = |figure: u64| {
        if truth.given {
            count(figure)
        } else {
            "not checked".to_owned()
        }
    };
    row(
        "records checked",
        checked(truth.records_checked),
        "decoded records compared with what the origin published",
    );
    row(
        "mismatches",
        checked(truth.mismatches),
        "of these that differ in any field",
    );
    row(
        "leaks",
        checked(truth.leaks),
        "records, members and events outside of their client's view",
    );
    row(
        "missing at end",
        checked(truth.missing_at_end),
        "entities some client lacks or shows older than the clean time",
    );
    if truth.unchecked > 0 {
        row(
            "unchecked",
            count(truth.unchecked),
            "records whose tick of the origin never reached the bench",
        );
    }
    if truth.at_seams > 0 {
        row(
            "at seams",
            count(truth.at_seams),
            "records of a restarted origin's first ticks, sent before the bench's own subscription was back",
        );
    }
    if report.relay.delay_ms.p50.is_some() {
        row(
            "relay delay",
            millis(report.relay.delay_ms),
            "a tick arrives at the relay to a client's snapshot is with its kernel, to a bucket",
        );
    }
    if let Some(per_cpu) = report.relay.packets_per_cpu_s {
        row(
            "relay",
            format!("{} packets/cpu-s", count(per_cpu as u64)),
            "what one core of the relay sends",
        );
    }
    for attack in &report.attacks {
        let _ = writeln!(
            out,
            "  attack {}, {}: promised is that {}",
            attack.kind,
            attack.outcome(),
            attack.promise
        );
        let _ = writeln!(
            out,
            "    {} attempts: {}",
            count(attack.attempts),
            attack.observed
        );
        let by = &attack.bystanders;
        let _ = writeln!(
            out,
            "    {} bystanders, {} lost; {}",
            count(by.clients),
            count(by.lost),
            latencies(by)
        );
    }
    for note in &report.bench.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    for (times, words) in &ended {
        let _ = writeln!(
            out,
            "  ended: {} sessions or attempts, because {words}",
            count(*times)
        );
    }
    for example in truth.examples.iter().take(3) {
        let _ = writeln!(out, "  mismatch: {example}");
    }
    for example in truth.missing_examples.iter().take(3) {
        let _ = writeln!(out, "  missing: {example}");
    }
    let failure = if report.verdict.inconclusive {
        "not met"
    } else {
        "failed"
    };
    for text in &report.verdict.failed {
        let _ = writeln!(out, "  {failure}: {text}");
    }
    let _ = writeln!(out, "  {}", verdict(report));
    // A row without a sense ends with its value.
    out.lines().fold(String::with_capacity(out.len()), |text, line| {
        text + line.trim_end() + "\n"
    })
}

/// What bystanders saw of an attack.
fn latencies(by: &Bystanders) -> String {
    if by.latency_ratio.is_none() {
        return "their latency was not measured: that needs the truth (--truth)".to_owned();
    }
    format!(
        "latency p50 {} (without {}), p99 {} (without {})",
        one_millis(by.p50_ms),
        one_millis(by.p50_without_ms),
        one_millis(by.p99_ms),
        one_millis(by.p99_without_ms)
    )
}

/// One time in milliseconds.
fn one_millis(value: Option<f64>) -> String {
    value.map_or("unknown".to_owned(), |value| format!("{value:.2} ms"))
}

/// The last line.
fn verdict(report: &Report) -> String {
    let verdict = &report.verdict;
    match (verdict.ok, report.truth.given) {
        (true, true) => "ok: every client saw exactly what the origin published".to_owned(),
        (true, false) => {
            "ok as far as it goes: what clients saw was not compared with the origin (--truth says where it is)"
                .to_owned()
        }
        (false, _) if verdict.inconclusive => format!(
            "INCONCLUSIVE: this host could not keep up, so what is not met says nothing of the relay ({}): take fewer clients, or an idle host",
            overload(report).unwrap_or_default()
        ),
        (false, _) if is_bystanders_alone(report) => {
            "NOT MET: every promise was kept; what bystanders may see of it was not met".to_owned()
        }
        (false, _) => "FAILED: see above".to_owned(),
    }
}

/// True when nothing failed but what attacks may do to bystanders.
fn is_bystanders_alone(report: &Report) -> bool {
    let noticed = report.attacks.iter().filter(|attack| !attack.ok);
    report.attacks.iter().all(|attack| attack.kept) && noticed.count() == report.verdict.failed.len()
}

/// A number with its thousands apart.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

fn millis(spread: Spread) -> String {
    match (spread.p50, spread.p99) {
        (Some(p50), Some(p99)) => format!("{p50:.1} ms, p99 {p99:.1} ms"),
        _ => "unknown".to_owned(),
    }
}

fn starvation(spread: Spread) -> String {
    match (spread.p99, spread.max) {
        (Some(p99), Some(max)) => format!("p99 {p99:.1} ms, max {max:.1} ms"),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1 000", "1 234 567"]
        );
    }

    #[test]
    fn failures_are_told_in_the_last_lines() {
        let mut report = Report::default();
        report.verdict = super::super::verdict::judge(&report);
        let text = summary(&report);
        assert!(
            text.contains("failed: packets.received_in_run is 0") && text.ends_with("FAILED: see above\n"),
            "{text}"
        );
        report.verdict.failed.clear();
        report.verdict.ok = true;
        let blind = summary(&report);
        assert!(
            blind.contains("ok as far as it goes") && blind.contains("not checked"),
            "{blind}"
        );
        assert!(!blind.contains("exactly what"), "{blind}");
        report.truth.given = true;
        assert!(summary(&report).contains("ok: every client"));
    }

    /// An attack whose promise held is told as that, with what the bystanders saw, and with nothing of what nobody measured.
    #[test]
    fn a_promise_that_was_kept_is_not_called_a_failure() {
        use crate::bench::attack::AttackReport;
        let mut report = Report::default();
        report.packets.received_in_run = 1;
        report.attacks = vec![AttackReport {
            kind: "flood".to_owned(),
            kept: true,
            bystanders: Bystanders {
                clients: 200,
                latency_ratio: Some(1.5),
                ..Bystanders::default()
            },
            ..AttackReport::default()
        }];
        let told = |report: &mut Report| {
            report.verdict = super::super::verdict::judge(report);
            summary(report)
        };
        let text = told(&mut report);
        assert!(
            text.contains("attack flood, promise kept; bystanders' latency not met: promised is that")
                && text.contains("NOT MET: every promise was kept")
                && !text.contains("FAILED"),
            "{text}"
        );
        report.attacks[0].ok = true;
        report.attacks[0].bystanders.latency_ratio = None;
        let text = told(&mut report);
        assert!(
            text.contains("bystanders' latency not measured")
                && text.contains("that needs the truth (--truth)"),
            "{text}"
        );
        assert!(!text.contains("latency p50"), "{text}");
        report.attacks[0].kept = false;
        assert!(told(&mut report).ends_with("FAILED: see above\n"));
    }

    /// What spoiled a run comes first, what it spoiled is no mismatch, and no line is too long to read.
    #[test]
    fn an_inconclusive_run_says_why() {
        let mut report = Report::default();
        report.truth.given = true;
        (report.truth.missing_at_end, report.truth.unchecked) = (3, 1234);
        report.truth.missing_examples =
            vec!["client 7, at the end: entity 2#0 is shown as of 1.000 s".to_owned()];
        report.bench.kernel_drops = Some(4321);
        report.bench.notes = vec!["the kernel dropped 4 321 datagrams".to_owned()];
        report.verdict.inconclusive = true;
        report.verdict.failed = vec!["truth.missing_at_end is 3, must be 0".to_owned()];
        let text = summary(&report);
        let order = [
            "\n  note: the kernel",
            "\n  missing: client 7",
            "\n  not met: truth.miss",
            "\n  INCONCLUSIVE: this host could not keep up, so ",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|words| text.find(words)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{places:?} {text}"
        );
        assert!(!text.contains("mismatch:") && !text.contains("FAILED"), "{text}");
        assert!(
            text.contains("unchecked          1 234") && text.contains("dropped 4 321 datagrams):"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() < 200), "{text}");
    }

    /// A latency that is not known says why.
    #[test]
    fn an_unknown_latency_says_why() {
        use crate::bench::truth::Timeless;
        let mut report = Report::default();
        report.bench.clock = format!("{NO_CLOCK}{}", Timeless::NotSent.words());
        let text = summary(&report);
        assert!(
            text.contains("latency            unknown: the origin sends no publish time\n"),
            "{text}"
        );
    }

    /// Why clients went is said, not only how often they came back.
    #[test]
    fn endings_are_told_in_words() {
        let mut report = Report {
            target: "10.0.0.5:7777".to_owned(),
            ..Report::default()
        };
        report.clients.endings = [("draining".to_owned(), 1200)].into();
        let text = summary(&report);
        assert!(
            text.contains(
                "ended: 1 200 sessions or attempts, because the relay at 10.0.0.5:7777 is draining"
            ),
            "{text}"
        );
    }
}
