use super::*;

/// The names scripts rely on are all there, known or not.
#[test]
fn every_promised_field_is_present() {
    let report = Report::default();
    let json: serde_json::Value = serde_json::from_str(&report.to_json().expect("writes")).expect("is JSON");
    let promised = [
        "version command seconds seed impairment machine.cores machine.kernel",
        "clients.requested clients.connected clients.lost clients.joined_ms.p50 clients.joined_ms.p99 clients.joined_ms.max",
        "clients.complete_ms.p50 clients.complete_ms.p99 clients.complete_ms.max",
        "origin.ticks origin.entities_max origin.hz",
        "packets.sent packets.received packets.rejected packets.bytes packets.bytes_per_client_per_s",
        "packets.bytes_per_packet.p50 packets.bytes_per_packet.p99 packets.bytes_per_packet.max",
        "truth.tables_checked truth.records_checked truth.mismatches truth.missing_at_end truth.leaks",
        "window.advances window.slots_in_use.p50 window.slots_in_use.p99 window.slots_in_use.max",
        "window.withheld_ticks window.full_share window.advance_ms.p50 window.advance_ms.p99",
        "gap_ms.p50 gap_ms.p99 gap_ms.max starvation_ms.p99 starvation_ms.max starvation_ms.by_tier",
        "events.sent events.delivered events.duplicated events.out_of_order events.late_ms.p50 events.late_ms.p99 events.critical_late_ms.p99",
        "inputs.sent inputs.delivered inputs.duplicated inputs.reported_lost",
        "digest.checked digest.mismatches digest.healed fallbacks complete_records",
        "latency_ms.p50 latency_ms.p99 latency_ms.max",
        "relay.cpu_s relay.rss_bytes relay.packets_per_cpu_s relay.encode_ns_per_packet",
        "relay.seal_ns_per_packet relay.send_ns_per_packet render attacks verdict.ok verdict.failed",
    ];
    for path in promised.iter().flat_map(|line| line.split(' ')) {
        let pointer = format!("/{}", path.replace('.', "/"));
        assert!(json.pointer(&pointer).is_some(), "{path} is missing");
    }
}

#[test]
fn reports_survive_their_json() {
    let mut set = SeriesSet::default();
    (1..500).for_each(|value| set.record(Series::Latency, value * 40));
    let mut report = Report {
        seed: 7,
        ..Report::default()
    };
    report.truth.given = true;
    report.fallbacks = Some(Reasons::from([("lease_over".to_owned(), 2)]));
    report.derive(&set);
    let again: Report = serde_json::from_str(&report.to_json().expect("writes")).expect("reads");
    assert_eq!((again.seed, &again.fallbacks), (7, &report.fallbacks));
    assert_eq!(again.histograms, report.histograms);
    assert_eq!(again.latency_ms.max, report.latency_ms.max);
    assert!(
        again
            .verdict
            .failed
            .iter()
            .any(|line| line.contains("records_checked")),
        "{:?}",
        again.verdict
    );
}
