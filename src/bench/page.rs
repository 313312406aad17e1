//! A report as one HTML file with its charts in it, to be sent to somebody: no script, no font, nothing fetched.
//!
//! The report's own JSON stands in the page, so that what is seen can be checked and merged again.

use std::fmt::Write as _;

use super::report::{Reasons, Report};
use super::series::Buckets;
use super::summary::{count, summary};

/// Histograms that are drawn: key, title, divisor, unit. Those without values are left out.
const CHARTS: [(&str, &str, f64, &str); 10] = [
    (
        "latency_us",
        "Latency: origin publishes to client has decoded",
        1e3,
        "ms",
    ),
    ("gap_us", "Gap between two snapshots at a client", 1e3, "ms"),
    ("joined_us", "Joined: first request to first snapshot", 1e3, "ms"),
    (
        "complete_us",
        "Whole view: first request to every entity known",
        1e3,
        "ms",
    ),
    (
        "starvation_us",
        "Starvation: a change to that entity's next record",
        1e3,
        "ms",
    ),
    ("event_late_us", "Events: published to delivered", 1e3, "ms"),
    (
        "input_answered_us",
        "Inputs answered: pushed to in its entity's state",
        1e3,
        "ms",
    ),
    ("advance_us", "Window advances: asked for to committed", 1e3, "ms"),
    ("packet_bytes", "Bytes of a datagram", 1.0, "B"),
    ("slots", "Slots in use at a snapshot, of 32", 1.0, ""),
];

const STYLE: &str = "body{font:14px/1.5 sans-serif;color:#24292f;max-width:1100px;margin:24px auto;padding:0 16px}\
h1{font-size:22px;margin:0}h2{font-size:16px;margin:28px 0 8px}.verdict{color:#fff;padding:8px 14px;border-radius:6px;margin:12px 0}\
.ok{background:#2e8b57}.failed{background:#c0392b}.open{background:#b7791f}\
.tiles{display:flex;flex-wrap:wrap;gap:10px}.tile{border:1px solid #d8dee4;border-radius:6px;padding:8px 14px;min-width:130px}\
.tile b{display:block;font-size:20px}.tile span,.small{color:#6a737d;font-size:12px}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(340px,1fr));gap:12px}figure{margin:0;border:1px solid #d8dee4;border-radius:6px;padding:8px}\
figcaption{font-size:12px;font-weight:bold}svg{width:100%;height:auto}svg text{font:10px sans-serif;fill:#6a737d}\
table{border-collapse:collapse;font-size:13px}td,th{border-bottom:1px solid #eaeef2;padding:3px 12px 3px 0;text-align:left;vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums}pre{background:#f6f8fa;padding:12px;overflow:auto;font-size:12px}";

/// The page of a report.
///
/// # Errors
/// None in practice: see [`Report::to_json`].
pub fn page(report: &Report) -> serde_json::Result<String> {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Ackline bench</title>\n<style>{STYLE}</style>\n<h1>Ackline bench</h1>\n"
    );
    head(&mut out, report);
    tiles(&mut out, report);
    charts(&mut out, report);
    attacks(&mut out, report);
    reasons(&mut out, report);
    let _ = writeln!(out, "<h2>Summary</h2>\n<pre>{}</pre>", escaped(&summary(report)));
    // Inside of a script no tag may close it; the JSON stays the same.
    let json = report.to_json()?.replace("</", "<\\/");
    let _ = writeln!(
        out,
        "<p class=\"small\">The whole report is in this file, as JSON in the element <code>report</code>.</p>\n<script type=\"application/json\" id=\"report\">\n{json}</script>\n</html>"
    );
    Ok(out)
}

fn head(out: &mut String, report: &Report) {
    let verdict = &report.verdict;
    let (class, words) = match (verdict.ok, verdict.inconclusive) {
        (true, _) if report.truth.given => ("ok", "Every check held.".to_owned()),
        (true, _) => (
            "ok",
            "Ok as far as it goes: what clients saw was not compared with the origin.".to_owned(),
        ),
        (false, true) => (
            "open",
            format!(
                "Inconclusive, the host could not keep up: {}",
                verdict.failed.join("; ")
            ),
        ),
        (false, false) => ("failed", format!("Failed: {}", verdict.failed.join("; "))),
    };
    let scene = report.scene.as_deref().unwrap_or("another's origin");
    let links = match report.impairment.down.text == report.impairment.up.text {
        true => report.impairment.down.text.clone(),
        false => format!(
            "down {}, up {}",
            report.impairment.down.text, report.impairment.up.text
        ),
    };
    let _ = write!(
        out,
        "<p class=\"small\"><code>{}</code><br>ackline {}, {} cores, {}; relay {}, {}, view {}; {:.1} s; links: {}; seed {}</p>\n<div class=\"verdict {class}\">{}</div>\n",
        escaped(&report.command),
        escaped(&report.version),
        report.machine.cores,
        escaped(&report.machine.kernel),
        escaped(&report.target),
        escaped(scene),
        escaped(report.view.as_deref().unwrap_or("any")),
        report.seconds,
        escaped(&links),
        report.seed,
        escaped(&words),
    );
}

fn tiles(out: &mut String, report: &Report) {
    let number = |value: Option<f64>, unit: &str| {
        value.map_or("unknown".to_owned(), |value| format!("{value:.1} {unit}"))
    };
    let checked = |value: u64| match report.truth.given {
        true => count(value),
        false => "not checked".to_owned(),
    };
    let clients = &report.clients;
    let kilobytes = report.packets.bytes_per_client_per_s.map(|bytes| bytes / 1e3);
    let tiles = [
        (
            "clients at the end",
            format!("{} of {}", count(clients.connected), count(clients.requested)),
        ),
        ("latency, p50", number(report.latency_ms.p50, "ms")),
        ("latency, p99", number(report.latency_ms.p99, "ms")),
        ("gap between snapshots, p99", number(report.gap_ms.p99, "ms")),
        ("whole view, p99", number(clients.complete_ms.p99, "ms")),
        ("sent to a client", number(kilobytes, "kB/s")),
        ("records checked", checked(report.truth.records_checked)),
        ("mismatches", checked(report.truth.mismatches)),
        ("missing at the end", checked(report.truth.missing_at_end)),
        (
            "datagrams a core-second of the relay",
            report
                .relay
                .packets_per_cpu_s
                .map_or("unknown".to_owned(), |packets| count(packets as u64)),
        ),
    ];
    out.push_str("<div class=\"tiles\">\n");
    for (name, value) in tiles {
        let _ = writeln!(
            out,
            "<div class=\"tile\"><b>{}</b><span>{name}</span></div>",
            escaped(&value)
        );
    }
    out.push_str("</div>\n");
}

fn charts(out: &mut String, report: &Report) {
    out.push_str("<h2>Distributions</h2>\n<p class=\"small\">Share of all that is not above a value; dashed: p50 and p99.</p>\n<div class=\"charts\">\n");
    for (key, title, unit, name) in CHARTS {
        if let Some(buckets) = report.histograms.get(key).filter(|buckets| !buckets.is_empty()) {
            let _ = writeln!(
                out,
                "<figure><figcaption>{title}</figcaption>{}</figure>",
                distribution(buckets, unit, name)
            );
        }
    }
    out.push_str("</div>\n");
}

/// Points of a curve: enough for its picture, few enough for a small file.
const POINTS: usize = 120;
const WIDE: f64 = 340.0;
const HIGH: f64 = 150.0;
const LEFT: f64 = 34.0;
const BELOW: f64 = 18.0;

/// The cumulative distribution of a histogram over a logarithmic axis of values, as SVG.
#[allow(clippy::cast_precision_loss)] // Values of charts.
fn distribution(buckets: &Buckets, unit: f64, name: &str) -> String {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let value = |raw: u64| (raw.max(1)) as f64 / unit;
    let (low, high) = (
        value(buckets.first().map_or(1, |(raw, _)| *raw)),
        value(buckets.last().map_or(1, |(raw, _)| *raw)),
    );
    let span = (high / low).ln().max(1e-6);
    let across = |at: f64| LEFT + (at / low).ln() / span * (WIDE - LEFT - 8.0);
    let up = |share: f64| 6.0 + (1.0 - share) * (HIGH - BELOW - 6.0);
    let (mut path, mut seen, mut drawn) = (format!("M{:.1} {:.1}", across(low), up(0.0)), 0, 0.0_f64);
    let mut marks = Vec::new();
    for (index, (raw, count)) in buckets.iter().enumerate() {
        let before = seen;
        seen += count;
        let share = seen as f64 / total.max(1) as f64;
        for (mark, word) in [(0.5, "p50"), (0.99, "p99")] {
            if (before as f64) < mark * total as f64 && seen as f64 >= mark * total as f64 {
                marks.push((value(*raw), mark, word));
            }
        }
        let is_last = index + 1 == buckets.len();
        let x = across(value(*raw));
        if is_last || x - drawn > WIDE / POINTS as f64 {
            drawn = x;
            let _ = write!(path, "L{x:.1} {:.1}", up(share));
        }
    }
    let mut svg = format!("<svg viewBox=\"0 0 {WIDE} {HIGH}\" role=\"img\">");
    for share in [0.0, 0.5, 1.0] {
        let y = up(share);
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{WIDE}\" stroke=\"#eaeef2\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}%</text>",
            LEFT - 4.0,
            y + 3.0,
            share * 100.0
        );
    }
    for (at, share, word) in marks {
        let (x, y, bottom) = (across(at), up(share), HIGH - BELOW);
        let anchor = if x > WIDE * 0.6 { "end" } else { "start" };
        let _ = write!(
            svg,
            "<path d=\"M{x:.1} {y:.1}V{bottom}\" stroke=\"#8c959f\" stroke-dasharray=\"3 3\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{word} {}</text>",
            if share > 0.9 { y + 16.0 } else { y - 4.0 },
            figure(at, name)
        );
    }
    let _ = write!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"1.6\"/><text x=\"{LEFT}\" y=\"{:.0}\">{}</text><text x=\"{WIDE}\" y=\"{:.0}\" text-anchor=\"end\">{}</text></svg>",
        HIGH - 4.0,
        figure(low, name),
        HIGH - 4.0,
        figure(high, name)
    );
    svg
}

fn figure(value: f64, unit: &str) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value.fract() == 0.0 && unit.is_empty() => 0,
        _ => 2,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

fn attacks(out: &mut String, report: &Report) {
    if report.attacks.is_empty() {
        return;
    }
    out.push_str("<h2>Attacks</h2>\n<table>\n<tr><th>attack</th><th></th><th>promised</th><th>observed</th><th>bystanders lost</th><th>their latency, by that without</th></tr>\n");
    for attack in &report.attacks {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{} of {}</td><td class=\"n\">{}</td></tr>",
            escaped(&attack.kind),
            if attack.ok { "ok" } else { "FAILED" },
            escaped(&attack.promise),
            escaped(&attack.observed),
            attack.bystanders.lost,
            attack.bystanders.clients,
            attack
                .bystanders
                .latency_ratio
                .map_or("unknown".to_owned(), |ratio| format!("{ratio:.2}"))
        );
    }
    out.push_str("</table>\n");
}

/// The counts by reason that are not zero.
fn reasons(out: &mut String, report: &Report) {
    let none = Reasons::new();
    let tables = [
        ("Ticks withheld", report.withheld.as_ref().unwrap_or(&none)),
        (
            "Full states after joining",
            report.fallbacks.as_ref().unwrap_or(&none),
        ),
        (
            "Records without a baseline",
            report.complete_records.as_ref().unwrap_or(&none),
        ),
        ("Datagrams refused by clients", &report.packets.rejected),
        ("Sessions that ended unasked", &report.clients.endings),
    ];
    let mut rows = String::new();
    for (title, counts) in tables {
        for (reason, number) in counts.iter().filter(|(_, number)| **number > 0) {
            let _ = writeln!(
                rows,
                "<tr><td>{title}</td><td>{}</td><td class=\"n\">{}</td></tr>",
                escaped(reason),
                count(*number)
            );
        }
    }
    if !rows.is_empty() {
        let _ = write!(out, "<h2>By reason</h2>\n<table>\n{rows}</table>\n");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::series::{Series, SeriesSet};

    fn report() -> Report {
        let mut set = SeriesSet::default();
        (1..=1000).for_each(|value| set.record(Series::Latency, value * 40));
        let mut report = Report {
            command: "ackline bench --view '<radius>' </script>".to_owned(),
            ..Report::default()
        };
        report.truth.given = true;
        report.withheld = Some(Reasons::from([
            ("budget".to_owned(), 1234),
            ("slot".to_owned(), 0),
        ]));
        report.derive(&set);
        report
    }

    /// The page holds the verdict, a chart of what was measured alone, and the report as it was.
    #[test]
    fn a_page_shows_the_report_and_carries_it() {
        let report = report();
        let page = page(&report).expect("is made");
        assert!(page.contains("<div class=\"verdict failed\">Failed: "), "{page}");
        assert_eq!(page.matches("<figure>").count(), 1);
        assert!(
            page.contains("p50 20.0 ms") && page.contains("p99 39.6 ms"),
            "{page}"
        );
        assert!(
            page.contains("<td>budget</td><td class=\"n\">1 234</td>") && !page.contains("<td>slot</td>")
        );
        assert!(page.contains("&lt;radius&gt;") && page.matches("</script>").count() == 1);
        assert!(
            !page.contains("http:") && !page.contains("https:"),
            "nothing is fetched"
        );
        let json = page
            .split("id=\"report\">")
            .nth(1)
            .and_then(|rest| rest.split("</script>").next());
        let again: Report = serde_json::from_str(json.expect("is there")).expect("is a report");
        assert_eq!(
            (again.command, again.histograms),
            (report.command, report.histograms)
        );
    }

    #[test]
    fn one_value_makes_a_chart_too() {
        let svg = distribution(&vec![(5, 3)], 1.0, "");
        assert!(
            svg.contains("p50 5") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }
}
