//! Whether a run passed: what must be zero, what must be there, and the thresholds asked for.

use super::farewell;
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
        let why = farewell::reasons(report)
            .first()
            .map_or(String::new(), |(_, words)| format!(": {words}"));
        failed.push(format!("clients.lost is {}, must be 0{why}", report.clients.lost));
    }
    if report.clients.reconnects > 0 && report.target == "local" {
        failed.push(format!(
            "clients.reconnects is {}, must be 0 with a relay that nobody restarted",
            report.clients.reconnects
        ));
    }
    if report.packets.received_in_run == 0 {
        failed.push(
            "packets.received_in_run is 0: nothing reached a client before the clean time at the end"
                .to_owned(),
        );
    }
    // Without a truth a run can measure, but not verify; its reader is told.
    if truth.given && truth.records_checked == 0 {
        failed.push(
            "truth.records_checked is 0: nothing was compared with the origin's truth (is --truth that of this relay's origin?)".to_owned(),
        );
    } else if truth.given && truth.tables_checked == 0 {
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
        report.packets.received_in_run = 1;
        report.truth.given = true;
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
        let faults: [(&str, Spoil); 11] = [
            ("truth.mismatches is 1", |r| r.truth.mismatches = 1),
            ("truth.missing_at_end is 2", |r| r.truth.missing_at_end = 2),
            ("truth.leaks", |r| r.truth.leaks = 1),
            ("truth.unchecked", |r| r.truth.unchecked = 1),
            ("digest.mismatches", |r| r.digest.mismatches = 1),
            ("clients.lost is 3", |r| r.clients.lost = 3),
            ("truth.records_checked is 0", |r| r.truth.records_checked = 0),
            ("truth.tables_checked is 0", |r| r.truth.tables_checked = 0),
            ("packets.received_in_run is 0", |r| r.packets.received_in_run = 0),
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

    /// Without a truth a run may pass, but what needs one does not hold; that nothing came is a fault all the same.
    #[test]
    fn a_run_without_truth_measures_and_does_not_verify() {
        let mut report = good();
        report.truth = Default::default();
        assert!(judge(&report).ok);
        report.thresholds = vec!["mismatches==0".to_owned()];
        assert_eq!(judge(&report).failed, ["mismatches==0: it was not measured"]);
        report.thresholds.clear();
        report.packets.received_in_run = 0;
        (report.clients.lost, report.target) = (9, "127.0.0.1:9".to_owned());
        let failed = judge(&report).failed.join("; ");
        assert!(
            failed.contains("clients.lost is 9, must be 0: nothing answers at 127.0.0.1:9"),
            "{failed}"
        );
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
