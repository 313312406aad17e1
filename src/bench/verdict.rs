//! Whether a run passed: what must be zero, what must be there, and the thresholds asked for.
//!
//! A host that cannot keep up drops datagrams and wakes threads late; what comes of that says nothing of the relay. Where
//! nothing else failed the run is inconclusive: not passed, and nobody's fault but the host's.

use super::farewell;
use super::oracle::WAITING_ENTRIES_MAX;
use super::report::{Report, Verdict};
use super::summary::count;
use super::threshold::{Outcome, Threshold, figures};

/// A bench whose timers are later than this in one of a hundred cases shares a host that cannot keep up, milliseconds.
const TOO_LATE_MS: f64 = 100.0;
/// Why sessions end where datagrams are lost or threads sleep.
pub(super) const SILENCE: [&str; 4] = ["relay_vanished", "relay_silent", "unanswered", "idle"];

/// Judges a report; each failure is one line that names the field and its value.
#[must_use]
pub fn judge(report: &Report) -> Verdict {
    let by_load = by_load(report);
    let mut failed = hard(report);
    let inconclusive = failed.is_empty() && !by_load.is_empty() && overload(report).is_some();
    failed.extend(by_load);
    Verdict {
        ok: failed.is_empty(),
        inconclusive,
        failed,
    }
}

/// What shows that the host could not keep up, in words.
#[must_use]
pub fn overload(report: &Report) -> Option<String> {
    let bench = &report.bench;
    let late_ms = bench.late_ms.p99.filter(|late_ms| *late_ms > TOO_LATE_MS);
    // A flood fills buffers by itself: that excuses nothing.
    let drops = bench
        .kernel_drops
        .filter(|drops| *drops > 0 && report.attacks.is_empty());
    let late = late_ms.map(|late_ms| format!("its timers were {late_ms:.0} ms late (p99)"));
    let drops = drops.map(|drops| format!("its kernel dropped {} datagrams", count(drops)));
    match (drops, late) {
        (Some(drops), Some(late)) => Some(format!("{drops}, {late}")),
        (drops, late) => drops.or(late),
    }
}

/// What an overloaded host does to a run.
fn by_load(report: &Report) -> Vec<String> {
    let mut failed: Vec<String> = noticed(report).collect();
    let truth = &report.truth;
    if truth.missing_at_end > 0 {
        failed.push(format!(
            "truth.missing_at_end is {}, must be 0",
            truth.missing_at_end
        ));
    }
    if truth.unchecked > 0 {
        failed.push(format!(
            "truth.unchecked is {}, must be 0: the origin's ticks of these records never reached the bench (its --truth connection was away, or more than {} entries waited for it)",
            truth.unchecked,
            count(WAITING_ENTRIES_MAX as u64)
        ));
    }
    if let Some(render) = report.render.as_ref().filter(|render| render.backward_steps > 0) {
        failed.push(format!(
            "render.backward_steps is {}, must be 0: a picture went back in time",
            render.backward_steps
        ));
    }
    let events = &report.events;
    if events.delivered < events.sent {
        failed.push(format!(
            "events.delivered is {} of {} sent: {} never came to clients that see what they are about",
            events.delivered,
            events.sent,
            events.sent - events.delivered
        ));
    }
    if let Some(missing) = report.inputs.missing.filter(|missing| *missing > 0) {
        failed.push(format!(
            "inputs.missing is {missing}, must be 0: neither did the origin get them nor did anybody say that they are lost"
        ));
    }
    if is_by_silence(report) {
        failed.extend(sessions(report));
    }
    failed
}

/// True when sessions ended for want of datagrams alone.
fn is_by_silence(report: &Report) -> bool {
    let mut endings = report.clients.endings.keys();
    endings.all(|reason| SILENCE.contains(&reason.as_str()))
}

/// Sessions that should be there, or should have lasted.
fn sessions(report: &Report) -> Vec<String> {
    let (clients, mut failed) = (&report.clients, Vec::new());
    // Who leaves by plan and is not back is excused; whom the relay lost is not.
    let between = clients.churned > 0 && clients.endings.is_empty() && clients.connected > 0;
    let planned_losses = between || !report.attacks.is_empty();
    if clients.lost > 0 && !planned_losses {
        let why = farewell::reasons(report)
            .first()
            .map_or(String::new(), |(_, words)| format!(": {words}"));
        failed.push(format!("clients.lost is {}, must be 0{why}", clients.lost));
    }
    if clients.reconnects > 0 && report.target == "local" {
        failed.push(format!(
            "clients.reconnects is {}, must be 0 with a relay that nobody restarted",
            clients.reconnects
        ));
    }
    failed
}

/// Attacks of which a promise was not kept.
fn broken(report: &Report) -> impl Iterator<Item = String> + '_ {
    let broken = report.attacks.iter().filter(|attack| !attack.kept);
    broken.map(|attack| {
        let (kind, observed, promise) = (&attack.kind, &attack.observed, &attack.promise);
        format!("attack {kind}: {observed}; promised is that {promise}")
    })
}

/// Attacks whose bystanders noticed.
fn noticed(report: &Report) -> impl Iterator<Item = String> + '_ {
    let noticed = report.attacks.iter().filter(|attack| attack.kept && !attack.ok);
    noticed.map(|attack| {
        let bystanders = &attack.bystanders;
        let latency = match bystanders.latency_ratio {
            Some(ratio) => format!("their median latency was {ratio:.2} times that without it"),
            None => "their latency was not measured".to_owned(),
        };
        format!(
            "attack {}: {}: of {} bystanders {} were lost, and {latency}",
            attack.kind,
            attack.outcome(),
            bystanders.clients,
            bystanders.lost,
        )
    })
}

/// What no load excuses.
fn hard(report: &Report) -> Vec<String> {
    let mut failed: Vec<String> = broken(report).collect();
    let truth = &report.truth;
    let zeros = [
        ("truth.mismatches", truth.mismatches),
        ("truth.leaks", truth.leaks),
        ("digest.mismatches", report.digest.mismatches),
        ("events.duplicated", report.events.duplicated),
        ("events.out_of_order", report.events.out_of_order),
        ("events.unknown", report.events.unknown),
        ("inputs.duplicated", report.inputs.duplicated.unwrap_or(0)),
        ("inputs.out_of_order", report.inputs.out_of_order.unwrap_or(0)),
        ("inputs.wrong", report.inputs.wrong.unwrap_or(0)),
        (
            "inputs.wrong_processed",
            report.inputs.wrong_processed.unwrap_or(0),
        ),
    ];
    for (name, value) in zeros.into_iter().filter(|(_, value)| *value > 0) {
        failed.push(format!("{name} is {value}, must be 0"));
    }
    if truth.views_unlike > 0 {
        failed.push(format!(
            "truth.views_unlike is {}, must be 0: these clients were not given the view that --view names (does the relay's origin give it?)",
            truth.views_unlike
        ));
    }
    if !is_by_silence(report) {
        failed.extend(sessions(report));
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
        let threshold = match text.parse::<Threshold>() {
            Ok(threshold) => threshold,
            Err(error) => {
                failed.push(error.to_string());
                continue;
            }
        };
        match threshold.hold(&known) {
            Outcome::Held => {}
            Outcome::Missed(value) => failed.push(format!("{text}: it is {}", threshold.say(value))),
            Outcome::Unknown => failed.push(format!("{text}: it was not measured")),
        }
    }
    failed
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
                inconclusive: false,
                failed: Vec::new()
            }
        );
        type Spoil = fn(&mut Report);
        let faults: [(&str, Spoil); 18] = [
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
            ("window_full_share<1%: it is 1.500%", |r| {
                r.window.full_share = Some(0.015);
                r.thresholds = vec!["window_full_share<1%".to_owned()]
            }),
            ("events.out_of_order", |r| r.events.out_of_order = 1),
            ("events.delivered is 4 of 5 sent: 1 never came", |r| {
                (r.events.sent, r.events.delivered) = (5, 4)
            }),
            ("truth.views_unlike is 2", |r| r.truth.views_unlike = 2),
            ("inputs.duplicated is 1", |r| r.inputs.duplicated = Some(1)),
            ("inputs.out_of_order is 1", |r| r.inputs.out_of_order = Some(1)),
            ("inputs.wrong_processed is 1", |r| {
                r.inputs.wrong_processed = Some(1)
            }),
            ("inputs.missing is 1", |r| r.inputs.missing = Some(1)),
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

    /// FAULTS 96: what a host that drops datagrams or sleeps does to a run is not the relay's fault, and does not pass;
    /// what no load can do fails as ever.
    #[test]
    fn faults_96_a_host_that_cannot_keep_up_makes_a_run_inconclusive() {
        type Spoil = fn(&mut Report);
        let excused: [Spoil; 4] = [
            |r| r.truth.missing_at_end = 2,
            |r| r.truth.unchecked = 3,
            |r| r.clients.lost = 1,
            |r| {
                (r.clients.reconnects, r.target) = (1, "local".to_owned());
                r.clients.endings = [("relay_vanished".to_owned(), 1)].into();
            },
        ];
        let busy: [Spoil; 2] = [
            |r| r.bench.kernel_drops = Some(1),
            |r| r.bench.late_ms.p99 = Some(100.5),
        ];
        let hard: [Spoil; 4] = [
            |r| r.truth.mismatches = 1,
            |r| r.clients.endings = [("protocol".to_owned(), 1)].into(),
            |r| r.thresholds = vec!["latency_p99<20ms".to_owned()],
            |r| r.digest.mismatches = 1,
        ];
        let verdict = |spoils: &[Spoil]| {
            let mut report = good();
            spoils.iter().for_each(|spoil| spoil(&mut report));
            let Verdict { ok, inconclusive, .. } = judge(&report);
            (ok, inconclusive)
        };
        for spoil in excused {
            assert_eq!(verdict(&[spoil]), (false, false), "an idle host excuses nothing");
            for load in busy {
                assert_eq!(verdict(&[spoil, load]), (false, true));
                for fault in hard {
                    let lost: Spoil = |r| r.clients.lost = 1;
                    assert_eq!(verdict(&[spoil, load, lost, fault]), (false, false));
                }
            }
        }
        assert_eq!(verdict(&busy), (true, false), "a busy host alone fails nothing");
    }

    /// Losses are expected where clients come and go, or are attacked; reconnects where the relay is another's.
    #[test]
    fn planned_losses_do_not_fail() {
        let mut report = good();
        (report.clients.lost, report.clients.churned) = (3, 5);
        report.clients.connected = 7;
        assert!(judge(&report).ok);
        report.clients.endings = [("relay_vanished".to_owned(), 3)].into();
        assert!(!judge(&report).ok, "a relay that is gone is no plan");
        report.clients.endings.clear();
        let connected = core::mem::take(&mut report.clients.connected);
        assert!(!judge(&report).ok, "nobody saw anything");
        report.clients.connected = connected;
        report.clients.reconnects = 1;
        assert!(judge(&report).ok);
        report.target = "local".to_owned();
        assert!(!judge(&report).ok);
    }
}
