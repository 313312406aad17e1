use super::*;

/// The value of a series as rendered.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// Every metric of the catalogue is there before anything happened, at zero, with help and type; names of the
/// interface are in the catalogue.
#[test]
fn every_series_exists_from_the_start_at_zero() {
    let (metrics, _shards, _ingest) = RelayMetrics::new(2);
    let text = metrics.render(&RelayStatus::new(2, 0), 1);
    for entry in catalogue::CATALOGUE {
        let name = entry.name;
        assert!(text.contains(&format!("# HELP {name} ")), "no help of {name}");
        assert!(text.contains(&format!("# TYPE {name} ")), "no type of {name}");
        let mut samples = text
            .lines()
            .filter(|line| !line.starts_with('#') && line.starts_with(name));
        assert!(samples.clone().count() > 0, "no series of {name}");
        if name != "ackline_build_info" {
            assert!(
                samples.all(|line| line.ends_with(" 0")),
                "{name} does not begin at zero"
            );
        }
    }
    for reason in ["forged", "base_missing", "unknown"] {
        let series = format!("ackline_client_packets_rejected_total{{reason=\"{reason}\"}}");
        assert_eq!(value(&text, &series), Some(0.0), "{series}");
    }
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
    assert!(!text.contains("quantile="), "FAULTS 52: no summaries");
}

/// Processor time is a counter with fractions: a short run of a light relay is not nothing.
#[test]
fn processor_time_has_fractions_of_a_second() {
    let text = "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 3\nprocess_threads 4\n";
    assert_eq!(
        with_cpu_seconds(text, 3_012_345_678),
        "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 3.012345\nprocess_threads 4\n"
    );
    let (metrics, _shards, _ingest) = RelayMetrics::new(1);
    let text = metrics.render(&RelayStatus::new(1, 0), 1);
    let seconds = value(&text, CPU_SECONDS).expect("is there");
    let now = process_cpu_ns() as f64 / 1e9;
    assert!(
        seconds > 0.0 && seconds <= now && now - seconds < 10.0,
        "{seconds} of {now}"
    );
    assert!(
        text.contains("# TYPE process_cpu_seconds_total counter"),
        "{text}"
    );
}

/// FAULTS 91, 92: what a shard tells adds nothing to the series there are, and its part of a gauge goes with it.
#[test]
fn faults_91_92_series_do_not_grow_and_gauges_go_with_their_shard() {
    let (metrics, mut shards, _ingest) = RelayMetrics::new(2);
    let status = RelayStatus::new(2, 0);
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    let before = series(&metrics.render(&status, 1));
    let mut counters = core::Counters::default();
    let mut looped = LoopCounters::default();
    counters.sessions_opened = 7;
    counters.rejected_by_clients = [1; 64];
    counters.round_trip_us.observe(30_000);
    looped.sent = 5;
    for shard in &mut shards {
        shard.tell(4, (9, 1000), &mut counters, &mut looped);
        shard.tell(3, (9, 1000), &mut counters, &mut looped);
    }
    let text = metrics.render(&status, 1);
    assert_eq!(series(&text), before);
    assert_eq!(value(&text, "ackline_clients"), Some(6.0));
    assert_eq!(
        value(&text, "ackline_sessions_opened_total"),
        Some(14.0),
        "totals are told once"
    );
    assert_eq!(value(&text, "ackline_round_trip_seconds_sum"), Some(0.03));
    assert_eq!(value(&text, "ackline_arena_frames"), Some(9.0));
    shards.iter_mut().for_each(|shard| shard.tell_versions(&[1, 3]));
    let by_version = metrics.render(&status, 1);
    assert_eq!(value(&by_version, "ackline_sessions{version=\"2\"}"), Some(2.0));
    assert_eq!(value(&by_version, "ackline_sessions{version=\"3\"}"), Some(6.0));
    assert_eq!(series(&by_version), before);
    status.insecure.store(true, Ordering::Relaxed);
    metrics.refuse_admin();
    let text = metrics.render(&status, 1);
    assert_eq!(value(&text, "ackline_insecure"), Some(1.0));
    assert_eq!(value(&text, "ackline_admin_refused_total"), Some(1.0));
    shards.pop();
    assert_eq!(value(&metrics.render(&status, 1), "ackline_clients"), Some(3.0));
    shards.clear();
    assert_eq!(value(&metrics.render(&status, 1), "ackline_clients"), Some(0.0));
}

/// Codes that no client of this version sends are one label, not many.
#[test]
fn rejections_by_code_keep_their_sum() {
    let mut by_code = [0; 64];
    (by_code[0], by_code[23]) = (2, 5);
    let totals = rejections(&by_code);
    assert_eq!(
        (totals[0], totals.last().copied(), totals.iter().sum::<u64>()),
        (2, Some(5), 7)
    );
    assert_eq!(totals.len(), rejection_words().count());
}
