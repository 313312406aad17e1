//! How a bench judges itself.

use super::*;

/// FAULTS 96: who was short of a core is said of the right one: the bench where its thread used all of one, the
/// host where a thread with little to do was woken late.
#[test]
fn faults_96_a_busy_host_is_not_called_a_busy_bench() {
    let judged = |cpu_share: f64, late_ms: f64| {
        let mut report = Report::default();
        report.bench.cpu_share = cpu_share;
        report.bench.late_ms.p99 = Some(late_ms);
        judge_bench(&mut report);
        report.bench
    };
    let calm = judged(0.5, 2.0);
    assert!(
        !calm.saturated && !calm.host_busy && calm.notes.is_empty(),
        "{calm:?}"
    );
    let bench = judged(0.97, 30.0);
    assert!(bench.saturated && !bench.host_busy, "{bench:?}");
    assert!(
        bench.notes[0].starts_with("the bench itself was the bottleneck"),
        "{bench:?}"
    );
    assert!(judged(0.7, 30.0).saturated, "late, and with much to do");
    let host = judged(0.3, 30.0);
    assert!(
        !host.saturated && host.host_busy && host.notes.len() == 1,
        "{host:?}"
    );
    assert!(
        host.notes[0].starts_with("the host was too busy") && host.notes[0].contains("only 30% of a core"),
        "{host:?}"
    );
}
