//! Every metric of a relay: name, kind, what it says. The names and labels are the interface for dashboards.
//!
//! Base units; label sets are closed, each label from an enum's words (FAULTS 91).

use crate::relay::counters::{
    AGE_BOUNDS, BYTE_BOUNDS, COUNT_BOUNDS, SHARE_BOUNDS, SLOT_BOUNDS, TIME_BOUNDS_US, WORK_BOUNDS_NS,
};

/// What kind of metric, and for a histogram its bounds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets with these upper bounds, in units of which this many make a base unit.
    Histogram(&'static [u64], f64),
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Full name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// One sentence, with the unit.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Entry {
    Entry {
        name,
        kind: Kind::Counter,
        help,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Entry {
    Entry {
        name,
        kind: Kind::Gauge,
        help,
    }
}

const fn histogram(name: &'static str, bounds: &'static [u64], per_unit: f64, help: &'static str) -> Entry {
    Entry {
        name,
        kind: Kind::Histogram(bounds, per_unit),
        help,
    }
}

/// Microseconds in a second.
pub const MICROS: f64 = 1e6;
/// Nanoseconds in a second.
pub const NANOS: f64 = 1e9;
/// Thousandths in a whole.
pub const THOUSANDTHS: f64 = 1e3;

/// Every metric there is, but the `process_*` family.
pub const CATALOGUE: &[Entry] = &[
    gauge("ackline_build_info", "Always 1; the labels say which build runs."),
    gauge("ackline_clients", "Sessions open now."),
    gauge(
        "ackline_sessions_max",
        "Sessions the relay takes at the most; each shard takes its share.",
    ),
    gauge(
        "ackline_sessions",
        "Sessions open now, by version of the protocol.",
    ),
    gauge(
        "ackline_insecure",
        "1 where whoever asks is let in without a token, else 0.",
    ),
    counter(
        "ackline_admin_refused_total",
        "Requests to the admin address that were refused: without its token or, where it has none, by a name with a dot or from a web page.",
    ),
    counter("ackline_reloads_total", "Reloads of the settings, by result."),
    gauge(
        "ackline_reload_refused",
        "1 while the last reload was refused and the settings before it are in force, else 0.",
    ),
    gauge("ackline_draining", "1 while the relay drains, else 0."),
    counter("ackline_sessions_opened_total", "Sessions opened."),
    counter("ackline_sessions_closed_total", "Sessions closed, by reason."),
    counter(
        "ackline_session_migrations_total",
        "Sessions that moved to another address, which their client had proven.",
    ),
    counter(
        "ackline_path_challenges_total",
        "Datagrams of sessions from addresses that are not proven, by what they led to.",
    ),
    counter(
        "ackline_handshake_challenges_total",
        "Challenges sent to sources that are not proven yet.",
    ),
    counter(
        "ackline_handshakes_refused_total",
        "Handshakes denied after a valid cookie, by reason; those of a host with sessions enough count as limited.",
    ),
    counter(
        "ackline_handshakes_limited_total",
        "Handshakes that a limit stopped or denied, and sessions never heard that made room for others, by reason.",
    ),
    counter(
        "ackline_tokens_refused_total",
        "Connect tokens refused, by reason.",
    ),
    counter(
        "ackline_datagrams_received_total",
        "Datagrams received from clients and strangers.",
    ),
    counter(
        "ackline_datagrams_refused_total",
        "Datagrams the relay refused, by reason.",
    ),
    counter("ackline_datagrams_sent_total", "Datagrams the kernel took."),
    counter(
        "ackline_datagrams_forwarded_total",
        "Datagrams handed to the shard that owns their session, by result.",
    ),
    counter(
        "ackline_egress_bytes_total",
        "Bytes of UDP payload handed to the kernel.",
    ),
    counter(
        "ackline_send_errors_total",
        "Datagrams not sent, by kernel error.",
    ),
    counter(
        "ackline_receive_errors_total",
        "Errors met while receiving, by kernel error.",
    ),
    counter(
        "ackline_kernel_drops_total",
        "Datagrams the kernel dropped before a shard read them, by socket.",
    ),
    gauge(
        "ackline_upstream_connected",
        "1 while the upstream connection is up, else 0.",
    ),
    gauge(
        "ackline_upstream_lag_seconds",
        "Seconds since the last tick came from the upstream; 0 before the first.",
    ),
    counter("ackline_upstream_frames_total", "Ticks taken from the upstream."),
    counter(
        "ackline_upstream_bytes_total",
        "Bytes received from the upstream.",
    ),
    counter(
        "ackline_upstream_holds_total",
        "Frames repeated because no tick came.",
    ),
    counter(
        "ackline_upstream_epoch_changes_total",
        "Times a new stream began after the first.",
    ),
    counter(
        "ackline_upstream_connects_total",
        "Attempts to connect to the upstream, by result.",
    ),
    counter(
        "ackline_upstream_malformed_total",
        "Upstream messages refused by themselves.",
    ),
    counter(
        "ackline_upstream_gaps_total",
        "Times that upstream tick numbers were missing.",
    ),
    counter(
        "ackline_upstream_refusals_total",
        "Items from the upstream that were refused or dropped, by reason.",
    ),
    histogram(
        "ackline_window_slots_in_use",
        SLOT_BOUNDS,
        1.0,
        "Baseline slots in use at a client when a snapshot is sent, of 32.",
    ),
    counter(
        "ackline_window_full_total",
        "Reports of a client whose slots are all in use.",
    ),
    counter(
        "ackline_window_advances_total",
        "Window advances, by stage reached.",
    ),
    histogram(
        "ackline_window_advance_seconds",
        TIME_BOUNDS_US,
        MICROS,
        "Seconds from a commit to its confirmation.",
    ),
    counter(
        "ackline_withheld_ticks_total",
        "Ticks for which a session got no snapshot, by reason.",
    ),
    counter(
        "ackline_full_state_fallbacks_total",
        "Snapshots on the empty base after a view was complete, by reason.",
    ),
    counter(
        "ackline_complete_records_total",
        "Records sent without a base, by reason.",
    ),
    histogram(
        "ackline_baseline_age_ticks",
        AGE_BOUNDS,
        1.0,
        "Age in ticks of the baseline a snapshot builds on.",
    ),
    counter("ackline_snapshots_sent_total", "Snapshots sent."),
    counter(
        "ackline_snapshot_parts_sent_total",
        "Parts of snapshots sent, one datagram each.",
    ),
    histogram(
        "ackline_snapshot_bytes",
        BYTE_BOUNDS,
        1.0,
        "Bytes of a snapshot, all its parts, sealed.",
    ),
    counter("ackline_records_sent_total", "Records sent."),
    counter(
        "ackline_records_omitted_total",
        "Records left out of a snapshot, by reason.",
    ),
    counter(
        "ackline_segment_cache_lookups_total",
        "Look-ups of a record's encoded bits, by result.",
    ),
    counter(
        "ackline_body_lookups_total",
        "Look-ups of whole snapshot bodies, by result.",
    ),
    counter("ackline_client_reports_total", "Reports of clients, by result."),
    counter(
        "ackline_client_packets_rejected_total",
        "Datagrams that clients say they refused, by reason.",
    ),
    histogram(
        "ackline_encode_seconds",
        WORK_BOUNDS_NS,
        NANOS,
        "Seconds of work to encode one datagram, its share of the tick's common work included; of one snapshot in four.",
    ),
    histogram(
        "ackline_seal_seconds",
        WORK_BOUNDS_NS,
        NANOS,
        "Seconds to seal one datagram; of one snapshot in four.",
    ),
    histogram(
        "ackline_send_seconds",
        WORK_BOUNDS_NS,
        NANOS,
        "Seconds in the kernel to send one datagram: a batch's time by its datagrams.",
    ),
    histogram(
        "ackline_relay_delay_seconds",
        TIME_BOUNDS_US,
        MICROS,
        "Seconds from a tick's arrival at the relay until a client's snapshot of it is with the kernel.",
    ),
    gauge(
        "ackline_shard_tick_lateness_seconds",
        "Greatest time in seconds from a tick's arrival to a shard's start on it, of the last second.",
    ),
    counter(
        "ackline_shard_overrun_total",
        "Ticks a shard did not serve to all, because a newer one had come.",
    ),
    counter(
        "ackline_shard_lapped_total",
        "Times a shard was behind by more than the frames kept.",
    ),
    gauge("ackline_arena_frames", "Frames kept to serve deltas from."),
    gauge(
        "ackline_arena_bytes",
        "Bytes of these frames beyond what they share.",
    ),
    counter(
        "ackline_input_messages_total",
        "Inputs of clients on their way to the origin, by result.",
    ),
    histogram(
        "ackline_round_trip_seconds",
        TIME_BOUNDS_US,
        MICROS,
        "Seconds of round trip to clients.",
    ),
    histogram(
        "ackline_client_loss_ratio",
        SHARE_BOUNDS,
        THOUSANDTHS,
        "Share of datagrams lost on the way to a client, over 64 or more.",
    ),
    histogram(
        "ackline_staleness_seconds",
        TIME_BOUNDS_US,
        MICROS,
        "Seconds since a client last had all it was to have of an entity, when a record of it is sent, by rate tier; of one snapshot in sixteen.",
    ),
    histogram(
        "ackline_view_complete_seconds",
        TIME_BOUNDS_US,
        MICROS,
        "Seconds from a session's opening to its first complete view.",
    ),
    histogram(
        "ackline_view_members",
        COUNT_BOUNDS,
        1.0,
        "Entities in a session's view, at one snapshot in sixteen.",
    ),
    counter(
        "ackline_events_queued_total",
        "Events queued to sessions that see whom they are about.",
    ),
    counter(
        "ackline_directives_taken_total",
        "Directives of the origin that found their session.",
    ),
    counter(
        "ackline_owner_states_sent_total",
        "States of their own entity sent to clients beside snapshots.",
    ),
    gauge(
        "ackline_shard_overload_level",
        "How far a shard is behind, 0 to 4: from 1 on spectators are served less often, from 3 on players too.",
    ),
    gauge(
        "ackline_egress_share_ratio",
        "What the egress cap leaves of every session's rate, 1 where it does not bind.",
    ),
    counter(
        "ackline_digest_mismatches_total",
        "Tables that a client found to differ.",
    ),
    gauge(
        "ackline_control_backlog_messages",
        "Reliable messages not acknowledged yet.",
    ),
    counter(
        "ackline_control_messages_dropped_total",
        "Reliable messages dropped: their session's queue was full.",
    ),
];

/// Bounds of a histogram in base units.
#[must_use]
pub fn bounds_of(name: &str) -> Option<Vec<f64>> {
    let entry = CATALOGUE.iter().find(|entry| entry.name == name)?;
    match entry.kind {
        #[allow(clippy::cast_precision_loss)] // Bounds are small.
        Kind::Histogram(bounds, per_unit) => {
            Some(bounds.iter().map(|bound| *bound as f64 / per_unit).collect())
        }
        Kind::Counter | Kind::Gauge => None,
    }
}

/// Tells the recorder in force what each metric means.
pub fn describe() {
    for Entry { name, kind, help } in CATALOGUE {
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, *help),
            Kind::Gauge => metrics::describe_gauge!(*name, *help),
            Kind::Histogram(..) => metrics::describe_histogram!(*name, *help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The grammar of names: prefix, `_total` on counters and on them alone, a base unit where there is one.
    #[test]
    fn names_follow_the_grammar() {
        for (index, Entry { name, kind, help }) in CATALOGUE.iter().enumerate() {
            assert!(name.starts_with("ackline_"), "{name}");
            assert_eq!(name.ends_with("_total"), matches!(kind, Kind::Counter), "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
            if name.contains("_seconds") {
                assert!(help.to_lowercase().contains("second"), "{name}: {help}");
            }
            assert!(
                CATALOGUE[..index].iter().all(|other| other.name != *name),
                "{name} is there twice"
            );
        }
    }

    #[test]
    fn bounds_are_in_base_units() {
        let bounds = bounds_of("ackline_round_trip_seconds").unwrap();
        assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0.000_05, 10.0));
        assert!(bounds_of("ackline_clients").is_none() && bounds_of("nothing").is_none());
    }
}
