//! What is shown of two readings, and what of it is marked.

use super::super::canvas::Canvas;
use super::*;

const BEFORE: &str = "\
ackline_datagrams_sent_total 100
ackline_full_state_fallbacks_total{reason=\"requested\"} 5
ackline_snapshots_sent_total 10
ackline_withheld_ticks_total{reason=\"budget\"} 0
ackline_withheld_ticks_total{reason=\"silent\"} 0
ackline_window_slots_in_use_bucket{le=\"28\"} 10
ackline_window_slots_in_use_bucket{le=\"32\"} 10
ackline_window_slots_in_use_bucket{le=\"+Inf\"} 10
ackline_shard_overrun_total{shard=\"0\"} 1
";
const NOW: &str = "\
ackline_build_info{version=\"0.1.0\"} 1
process_start_time_seconds 1000
ackline_clients 3
ackline_sessions_max 30
ackline_datagrams_sent_total 300
ackline_full_state_fallbacks_total{reason=\"requested\"} 9
ackline_full_state_fallbacks_total{reason=\"lease_over\"} 0
ackline_snapshots_sent_total 16
ackline_withheld_ticks_total{reason=\"budget\"} 4
ackline_withheld_ticks_total{reason=\"silent\"} 400
ackline_window_slots_in_use_bucket{le=\"28\"} 14
ackline_window_slots_in_use_bucket{le=\"32\"} 18
ackline_window_slots_in_use_bucket{le=\"+Inf\"} 18
ackline_shard_overrun_total{shard=\"0\"} 5
ackline_shard_tick_lateness_seconds{shard=\"0\"} 0.5
ackline_upstream_connected 1
ackline_upstream_frames_total 40
ackline_upstream_lag_seconds 0.01
";

fn reading(at_us: u64, text: &str) -> Reading {
    Reading {
        at_us,
        wall_s: 8200,
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

/// The picture as text, without bounds.
fn text(before: &Reading, now: &Reading, sessions: usize, colours: bool) -> String {
    let canvas = Canvas {
        colours,
        ..Canvas::default()
    };
    canvas.lines(&picture(before, now, sessions)).join("\n")
}

/// Rates are by the time between the readings; what an alert would be about is marked, by colour or by a sign.
#[test]
fn figures_are_those_of_the_time_between() {
    let (before, now) = (reading(1_000_000, BEFORE), reading(3_000_000, NOW));
    let plain = text(&before, &now, 5, false);
    for words in [
        "process    version 0.1.0, up 2.0 h, ",
        "clients    3 of 30, 0.0 opened/s, 0.0 closed/s, 0.0 denied/s\n",
        "datagrams  100/s sent",
        "fallbacks !requested 2.0/s\n",
        "withheld  !40.0% of ticks due: budget 2.0/s\n",
        "slots in use p50 28, p99 32 of 32, !50.0% above 28",
        "faults     none\n",
        "0      !500.0 ms        !2.0",
        "worst sessions of 1\n",
        "00000000deadbeef      0         0    !31         -     12.0 ms      -",
        "upstream   connected, last tick 10.0 ms ago",
    ] {
        assert!(plain.contains(words), "{words:?} is not in\n{plain}");
    }
    assert!(!plain.contains('\x1b'), "{plain}");
    assert!(plain.lines().all(|line| line.chars().count() <= 110), "{plain}");
    let painted = text(&before, &now, 5, true);
    assert!(painted.contains("\x1b[1;31m500.0 ms\x1b[0m"), "{painted}");
    assert!(!text(&before, &now, 0, false).contains("deadbeef"));
}

/// On a terminal of 80 columns and 24 rows every status line is there, and the shards; sessions give way.
#[test]
fn a_small_terminal_shows_what_can_be_red() {
    let (before, mut now) = (reading(1_000_000, BEFORE), reading(3_000_000, NOW));
    now.sessions = vec![now.sessions[0].clone(); 40];
    let canvas = Canvas {
        rows: Some(24),
        columns: Some(80),
        colours: false,
    };
    let lines = canvas.lines(&picture(&before, &now, 10));
    assert!(
        lines.len() <= 24 && lines.iter().all(|line| line.trim_end().chars().count() <= 80),
        "{lines:#?}"
    );
    for name in [
        "relay ",
        "upstream ",
        "process ",
        "clients ",
        "withheld ",
        "faults ",
        "shard ",
        "0 ",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(name)),
            "{name} in {lines:#?}"
        );
    }
    let sessions = lines.iter().filter(|line| line.contains("deadbeef")).count();
    assert!((1..10).contains(&sessions), "{lines:#?}");
}

/// A relay that was started again counts from zero: nothing is negative.
#[test]
fn a_relay_that_began_anew_has_no_negative_rate() {
    let (before, now) = (reading(1_000_000, NOW), reading(2_000_000, BEFORE));
    let plain = text(&before, &now, 5, false);
    assert!(
        plain.contains("datagrams  100/s sent") && plain.contains("requested 5.0/s"),
        "{plain}"
    );
    assert!(!plain.contains("-1") && !plain.contains("NaN"), "{plain}");
}

/// Before the first tick it is not said that one came, and what keeps the upstream away is there though the relay is ready.
#[test]
fn what_is_wrong_is_said_in_its_own_words() {
    let mut now = reading(
        2_000_000,
        "ackline_upstream_connected 0\nackline_upstream_lag_seconds 0\n",
    );
    now.warnings = vec!["the upstream a:1 refuses connections".to_owned()];
    let plain = text(&reading(1_000_000, ""), &now, 5, false);
    assert!(
        plain.contains("upstream  !away, no tick yet, 0.0 ticks/s\n"),
        "{plain}"
    );
    assert!(
        plain.contains("trouble   !the upstream a:1 refuses connections\n"),
        "{plain}"
    );
}

/// What is not of one relay, or takes longer to see than two looks.
const NOT_SHOWN: [&str; 3] = ["AcklineRelayDown", "AcklineNoRelays", "AcklineRestarting"];

/// For each alert what a relay tells, and what of it is marked. Each of these lines but one is calm.
const MARKED: &[(&str, &str, &str)] = &[
    ("AcklineDrainStuck", "ackline_draining 1", "!serving"),
    (
        "AcklineFull",
        "ackline_handshakes_refused_total{reason=\"full\"} 2",
        "!2.0 denied/s (full)",
    ),
    ("AcklineNearlyFull", "ackline_clients 26", "!26 of 30"),
    (
        "AcklineReloadRefused",
        "ackline_reload_refused 1",
        "!last reload refused",
    ),
    (
        "AcklineHandshakesDenied",
        "ackline_handshakes_refused_total{reason=\"token\"} 2",
        "!2.0 denied/s (token)",
    ),
    (
        "AcklineClientsLost",
        "ackline_sessions_closed_total{reason=\"idle\"} 4",
        "!4.0 closed/s (idle)",
    ),
    (
        "AcklineFlood",
        "ackline_datagrams_refused_total{reason=\"size\"} 900",
        "!900/s refused",
    ),
    (
        "AcklineFileDescriptors",
        "process_open_fds 90",
        "!90 of 100 files",
    ),
    ("AcklineUpstreamDown", "ackline_upstream_connected 0", "!away"),
    (
        "AcklineUpstreamSilent",
        "ackline_upstream_lag_seconds 3",
        "!last tick 3.0 s ago",
    ),
    (
        "AcklineUpstreamFaults",
        "ackline_upstream_malformed_total 1",
        "!malformed upstream 1.0/s",
    ),
    (
        "AcklineUpstreamFaults",
        "ackline_upstream_gaps_total 1",
        "!gaps upstream 1.0/s",
    ),
    (
        "AcklineUpstreamFaults",
        "ackline_upstream_refusals_total{reason=\"stale\"} 1",
        "!refused upstream 1.0/s",
    ),
    (
        "AcklineUpstreamRestarts",
        "ackline_upstream_epoch_changes_total 1",
        "!new streams 1.0/s",
    ),
    (
        "AcklineWindowPressure",
        "ackline_window_slots_in_use_bucket{le=\"+Inf\"} 90",
        "% above 28",
    ),
    (
        "AcklineSlotWithheld",
        "ackline_withheld_ticks_total{reason=\"slot\"} 1",
        "of ticks due: slot 1.0/s",
    ),
    (
        "AcklineAdvanceSlow",
        "ackline_window_advance_seconds_bucket{le=\"2\"} 9\nackline_window_advance_seconds_bucket{le=\"+Inf\"} 9",
        "!advance p99",
    ),
    (
        "AcklineFallbacks",
        "ackline_full_state_fallbacks_total{reason=\"requested\"} 1",
        "!requested 1.0/s",
    ),
    (
        "AcklineTicksWithheld",
        "ackline_withheld_ticks_total{reason=\"budget\"} 50",
        "of ticks due: budget 50.0/s",
    ),
    (
        "AcklineDigestMismatch",
        "ackline_digest_mismatches_total 1",
        "!digests differ 1.0/s",
    ),
    (
        "AcklineShardLate",
        "ackline_shard_tick_lateness_seconds{shard=\"0\"} 0.03",
        "!30.0 ms",
    ),
    (
        "AcklineShardOverrun",
        "ackline_shard_overrun_total{shard=\"0\"} 3",
        "!3.0",
    ),
    (
        "AcklineShardLapped",
        "ackline_shard_lapped_total 1",
        "!lapped 1.0/s",
    ),
    (
        "AcklineRelayDelay",
        "ackline_relay_delay_seconds_bucket{le=\"0.1\"} 9\nackline_relay_delay_seconds_bucket{le=\"+Inf\"} 9",
        "from a tick's arrival",
    ),
    (
        "AcklineKernelDrops",
        "ackline_kernel_drops_total{socket=\"0\"} 5",
        "!5.0",
    ),
    (
        "AcklineForwardDropped",
        "ackline_datagrams_forwarded_total{result=\"dropped\"} 5",
        "!not handed over 5.0/s",
    ),
    (
        "AcklineSendErrors",
        "ackline_send_errors_total{errno=\"no_buffers\"} 5",
        "!not sent 5.0/s",
    ),
    (
        "AcklineReceiveErrors",
        "ackline_receive_errors_total{errno=\"no_buffers\"} 5",
        "!receive errors 5.0/s",
    ),
    (
        "AcklineClientLoss",
        "ackline_client_loss_ratio_bucket{le=\"0.2\"} 9\nackline_client_loss_ratio_bucket{le=\"+Inf\"} 9",
        "loss !p50",
    ),
    (
        "AcklineRoundTrip",
        "ackline_round_trip_seconds_bucket{le=\"1\"} 9\nackline_round_trip_seconds_bucket{le=\"+Inf\"} 9",
        "round trip !p50",
    ),
    (
        "AcklineViewSlow",
        "ackline_view_complete_seconds_bucket{le=\"20\"} 9\nackline_view_complete_seconds_bucket{le=\"+Inf\"} 9",
        "view !p95",
    ),
    (
        "AcklineClientRejections",
        "ackline_client_packets_rejected_total{reason=\"forged\"} 5",
        "!refused by clients 5.0/s",
    ),
    (
        "AcklineMessagesDropped",
        "ackline_control_messages_dropped_total 1",
        "!messages dropped 1.0/s",
    ),
];

/// A relay at rest: what it counts beside what is given.
fn calm(given: &str) -> Reading {
    let mut text = String::new();
    for (series, value) in [
        ("ackline_clients", 20),
        ("ackline_sessions_max", 30),
        ("ackline_upstream_connected", 1),
        ("ackline_upstream_frames_total", 20),
        ("ackline_snapshots_sent_total", 100),
        ("ackline_datagrams_sent_total", 100),
        ("ackline_datagrams_received_total", 1000),
        ("ackline_window_slots_in_use_bucket{le=\"28\"}", 50),
        ("ackline_window_slots_in_use_bucket{le=\"+Inf\"}", 50),
        ("ackline_shard_tick_lateness_seconds{shard=\"0\"}", 0),
        ("process_open_fds", 9),
        ("process_max_fds", 100),
    ] {
        if !given.contains(series) {
            text.push_str(&format!("{series} {value}\n"));
        }
    }
    Reading {
        sessions: Vec::new(),
        ..reading(2_000_000, &format!("{text}{given}\n"))
    }
}

/// Help and runbook say that what is red is what an alert would be about: each alert of the shipped rules is.
#[test]
fn what_every_alert_is_about_is_marked() {
    let zero: String = MARKED
        .iter()
        .flat_map(|(_, given, _)| given.lines())
        .filter_map(|line| Some(format!("{} 0\n", line.rsplit_once(' ')?.0)))
        .collect();
    let before = reading(1_000_000, &zero);
    let at_rest = text(&before, &calm(""), 0, false);
    assert!(!at_rest.contains('!'), "{at_rest}");
    for (alert, given, words) in MARKED {
        let plain = text(&before, &calm(given), 0, false);
        let line = plain.lines().find(|line| line.contains(words));
        assert!(
            line.is_some_and(|line| line.contains('!')),
            "{alert}: {words:?} is not marked in\n{plain}"
        );
        assert_eq!(
            plain.lines().filter(|line| line.contains('!')).count(),
            1,
            "{alert} alone:\n{plain}"
        );
    }
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/grafana/prometheus/alerts.rules.yml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 30);
    for alert in alerts {
        let marked = MARKED.iter().any(|(of, ..)| *of == alert);
        assert!(
            marked != NOT_SHOWN.contains(&alert),
            "{alert}: mark it, or say why not"
        );
    }
}
