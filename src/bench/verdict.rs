//! Whether a run passed: what must be zero, what must be there, and the thresholds asked for.

use super::report::{Report, Verdict};
use super::threshold::{Outcome, Threshold, figures};

/// Judges a report; each failure is one line that names the field and its value.
#[must_use]
pub fn judge(report: &Report) -> Verdict {
    let mut failed = Vec::new();
    let truth = &report.truth;
    let zeros = [
        ("truth.mismatches", truth.mismatches),
        ("truth.missing_at_end", truth.missing_at_end),
        ("truth.leaks", truth.leaks),
        ("truth.unchecked", truth.unchecked),
        ("digest.mismatches", report.digest.mismatches),
        ("events.duplicated", report.events.duplicated),
        ("events.out_of_order", report.events.out_of_order),
        ("events.unknown", report.events.unknown),
    ];
    for (name, value) in zeros.into_iter().filter(|(_, value)| *value > 0) {
        failed.push(format!("{name} is {value}, must be 0"));
    }
    let planned_losses = report.clients.churned > 0 || !report.attacks.is_empty();
    if report.clients.lost > 0 && !planned_losses {
        failed.push(format!("clients.lost is {}, must be 0", report.clients.lost));
    }
    if report.clients.reconnects > 0 && report.target == "local" {
        failed.push(format!(
            "clients.reconnects is {}, must be 0 with a relay that nobody restarted",
            report.clients.reconnects
        ));
    }
    if truth.records_checked == 0 {
        failed.push(
            "truth.records_checked is 0: nothing was compared with the origin's truth (--truth says where it is)".to_owned(),
        );
    } else if truth.tables_checked == 0 {
        failed.push(
            "truth.tables_checked is 0: no whole table was compared with the origin's truth".to_owned(),
        );
    }
    let known = figures(report);
    for text in &report.thresholds {
        match text.parse::<Threshold>().map(|threshold| threshold.hold(&known)) {
            Ok(Outcome::Held) => {}
            Ok(Outcome::Missed(value)) => failed.push(format!("{text}: it is {value:.3}")),
            Ok(Outcome::Unknown) => failed.push(format!("{text}: it was not measured")),
            Err(error) => failed.push(error.to_string()),
        }
    }
    Verdict {
        ok: failed.is_empty(),
        failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Report {
        let mut report = Report::default();
        report.truth.records_checked = 1;
        report.truth.tables_checked = 1;
        report
    }

    #[test]
    fn a_good_report_passes_and_each_fault_fails_by_name() {
        assert_eq!(
            judge(&good()),
            Verdict {
                ok: true,
                failed: Vec::new()
            }
        );
        type Spoil = fn(&mut Report);
        let faults: [(&str, Spoil); 10] = [
            ("truth.mismatches is 1", |r| r.truth.mismatches = 1),
            ("truth.missing_at_end is 2", |r| r.truth.missing_at_end = 2),
            ("truth.leaks", |r| r.truth.leaks = 1),
            ("truth.unchecked", |r| r.truth.unchecked = 1),
            ("digest.mismatches", |r| r.digest.mismatches = 1),
            ("clients.lost is 3", |r| r.clients.lost = 3),
            ("truth.records_checked is 0", |r| r.truth.records_checked = 0),
            ("truth.tables_checked is 0", |r| r.truth.tables_checked = 0),
            ("latency_p99<20ms: it was not measured", |r| {
                r.thresholds = vec!["latency_p99<20ms".to_owned()]
            }),
            ("events.out_of_order", |r| r.events.out_of_order = 1),
        ];
        for (words, spoil) in faults {
            let mut report = good();
            spoil(&mut report);
            let verdict = judge(&report);
            assert!(!verdict.ok && verdict.failed.len() == 1, "{words}: {verdict:?}");
            assert!(verdict.failed[0].contains(words), "{words}: {verdict:?}");
        }
    }

    /// Losses are expected where clients come and go, or are attacked; reconnects where the relay is another's.
    #[test]
    fn planned_losses_do_not_fail() {
        let mut report = good();
        (report.clients.lost, report.clients.churned) = (3, 5);
        assert!(judge(&report).ok);
        report.clients.reconnects = 1;
        assert!(judge(&report).ok);
        report.target = "local".to_owned();
        assert!(!judge(&report).ok);
    }
}
