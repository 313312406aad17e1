//! What the core counts: plain integers, exported by the node once a tick (SPEC OPS3).

use crate::limits::TIER_MAX;
use crate::relay::admission::Limited;
use crate::window::send::RestartReason;
use crate::wire::payload::CloseReason;
use crate::wire::report::REJECTED_MAX;

/// Why a datagram was refused: the labels of `datagrams_refused_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatagramRefusal {
    /// Empty, too short, or cut by the receive buffer.
    Size,
    /// A first byte that names nothing a client sends.
    Kind,
    /// A malformed request or response.
    Handshake,
    /// A cookie that was not made for this source, or is too old.
    Cookie,
    /// A connection id nobody has.
    UnknownConnection,
    /// A datagram number seen before.
    Duplicate,
    /// A datagram number too old to know.
    TooOld,
    /// A tag that does not match.
    Forged,
    /// Authentic, but its payload is malformed.
    Malformed,
    /// No room for a reply in the batch: the client asks again.
    NoRoom,
    /// A handshake beyond a limit: `handshakes_limited_total` says which.
    HandshakeLimit,
    /// Authentic, and more than its session may send.
    UpLimit,
}

impl DatagramRefusal {
    /// Every reason.
    pub const ALL: [DatagramRefusal; 12] = [
        DatagramRefusal::Size,
        DatagramRefusal::Kind,
        DatagramRefusal::Handshake,
        DatagramRefusal::Cookie,
        DatagramRefusal::UnknownConnection,
        DatagramRefusal::Duplicate,
        DatagramRefusal::TooOld,
        DatagramRefusal::Forged,
        DatagramRefusal::Malformed,
        DatagramRefusal::NoRoom,
        DatagramRefusal::HandshakeLimit,
        DatagramRefusal::UpLimit,
    ];

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            DatagramRefusal::Size => "size",
            DatagramRefusal::Kind => "kind",
            DatagramRefusal::Handshake => "handshake",
            DatagramRefusal::Cookie => "cookie",
            DatagramRefusal::UnknownConnection => "unknown_connection",
            DatagramRefusal::Duplicate => "duplicate",
            DatagramRefusal::TooOld => "too_old",
            DatagramRefusal::Forged => "forged",
            DatagramRefusal::Malformed => "malformed",
            DatagramRefusal::NoRoom => "no_room",
            DatagramRefusal::HandshakeLimit => "handshake_limit",
            DatagramRefusal::UpLimit => "up_limit",
        }
    }
}

/// What became of a datagram from an address that its client has not proven: the labels of
/// `path_challenges_total{result}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathChallenge {
    /// A challenge went there.
    Sent,
    /// None went: the last is young, or more than three times the bytes that came from there would go there.
    Withheld,
    /// The right answer came from there, and the client is there now.
    Passed,
    /// An answer that fits no challenge to where it came from: late, or of another address.
    Unmatched,
}

impl PathChallenge {
    /// Every result.
    pub const ALL: [PathChallenge; 4] = [
        PathChallenge::Sent,
        PathChallenge::Withheld,
        PathChallenge::Passed,
        PathChallenge::Unmatched,
    ];

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            PathChallenge::Sent => "sent",
            PathChallenge::Withheld => "withheld",
            PathChallenge::Passed => "passed",
            PathChallenge::Unmatched => "unmatched",
        }
    }
}

/// Why a session got no snapshot at a tick: the labels of `withheld_ticks_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Withheld {
    /// No slot: never, by the protocol; counted so that it can be seen to be never (SPEC WIN8).
    Slot,
    /// A joining client's heavy snapshots are spaced.
    JoinPacing,
    /// The byte budget is spent.
    Budget,
    /// The client is silent and only probed (SPEC DEC8).
    Silent,
    /// The client does not know the stream yet.
    Unwelcomed,
    /// The shard fell behind: a newer frame superseded this one.
    Overrun,
    /// The client refuses what it holds and was given a new session epoch only just now.
    RestartPacing,
    /// What was sent piles up on the way: the client takes fewer snapshots for now (see `pace`).
    Behind,
    /// The shard is overloaded and it is not this session's turn (see `overload`).
    Overload,
    /// The relay's cap on what it sends is reached (see `egress`).
    Egress,
    /// The client seems to be moving: it waits a round trip until that is known (see `session::roaming`).
    Moving,
}

impl Withheld {
    /// Every reason.
    pub const ALL: [Withheld; 11] = [
        Withheld::Slot,
        Withheld::JoinPacing,
        Withheld::Budget,
        Withheld::Silent,
        Withheld::Unwelcomed,
        Withheld::Overrun,
        Withheld::RestartPacing,
        Withheld::Behind,
        Withheld::Overload,
        Withheld::Egress,
        Withheld::Moving,
    ];

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Withheld::Slot => "slot",
            Withheld::JoinPacing => "join_pacing",
            Withheld::Budget => "budget",
            Withheld::Silent => "silent",
            Withheld::Unwelcomed => "unwelcomed",
            Withheld::Overrun => "overrun",
            Withheld::RestartPacing => "restart_pacing",
            Withheld::Behind => "behind",
            Withheld::Overload => "overload",
            Withheld::Egress => "egress",
            Withheld::Moving => "moving",
        }
    }
}

/// A histogram of whole numbers: a count and a sum for each bucket, so that what is exported keeps the exact
/// sum and the exact bucket.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    buckets: Vec<(u64, u64)>,
}

impl Histogram {
    /// A histogram with these upper bounds, rising; one more bucket takes the rest.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Histogram {
        Histogram {
            bounds,
            buckets: vec![(0, 0); bounds.len() + 1],
        }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: u64) {
        self.observe_many(value, 1);
    }

    /// Counts a value that stands for `times` samples.
    pub fn observe_many(&mut self, value: u64, times: u64) {
        let bucket = self
            .bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(self.bounds.len());
        if let Some((count, sum)) = self.buckets.get_mut(bucket) {
            *count += times;
            *sum += value * times;
        }
    }

    /// Upper bounds of the buckets.
    #[must_use]
    pub fn bounds(&self) -> &'static [u64] {
        self.bounds
    }

    /// Takes what was counted since the last call: the mean and the count of each bucket that has any.
    #[allow(clippy::cast_precision_loss)]
    pub fn take(&mut self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.buckets
            .iter_mut()
            .filter(|(count, _)| *count > 0)
            .map(|bucket| {
                let (count, sum) = core::mem::take(bucket);
                (sum as f64 / count as f64, count)
            })
    }
}

/// Bounds in microseconds for times from 50 us to 10 s.
pub const TIME_BOUNDS_US: &[u64] = &[
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];
/// Bounds in nanoseconds for work on one packet.
pub const WORK_BOUNDS_NS: &[u64] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000,
];
/// Bounds in ticks for ages of baselines.
pub const AGE_BOUNDS: &[u64] = &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256];
/// Bounds in slots.
pub const SLOT_BOUNDS: &[u64] = &[1, 2, 4, 8, 12, 16, 20, 24, 28, 31, 32];
/// Bounds in bytes of a snapshot.
pub const BYTE_BOUNDS: &[u64] = &[
    64, 128, 256, 512, 768, 1_024, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400,
];
/// Bounds in entities.
pub const COUNT_BOUNDS: &[u64] = &[0, 1, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000];
/// Bounds in thousandths of a ratio.
pub const SHARE_BOUNDS: &[u64] = &[1, 5, 10, 20, 50, 100, 200, 300, 500, 1_000];

/// Everything a shard counts. Totals only rise.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Counters {
    pub sessions_opened: u64,
    pub sessions_closed: [u64; CloseReason::ALL.len()],
    pub handshakes_refused: [u64; crate::wire::handshake::Denial::ALL.len()],
    /// Tokens refused, by reason.
    pub tokens_refused: [u64; crate::token::TokenRefusal::ALL.len()],
    pub challenges: u64,
    /// Handshakes that a limit stopped, by which.
    pub handshakes_limited: [u64; Limited::ALL.len()],
    pub datagrams_received: u64,
    pub datagrams_refused: [u64; DatagramRefusal::ALL.len()],
    pub reports: u64,
    pub reports_stale: u64,
    pub reports_contradicting: u64,
    pub reports_unknown: u64,
    pub snapshots_sent: u64,
    pub parts_sent: u64,
    pub datagrams_sent: u64,
    pub bytes_sent: u64,
    pub records_sent: u64,
    pub records_omitted: u64,
    pub complete_records: u64,
    pub requested_records: u64,
    pub full_snapshots: u64,
    pub window_full: u64,
    pub advances_requested: u64,
    pub advances_committed: u64,
    pub advances_confirmed: u64,
    pub withheld: [u64; Withheld::ALL.len()],
    pub fallbacks: [u64; RestartReason::ALL.len()],
    pub messages_dropped: u64,
    /// Events queued to sessions.
    pub events_queued: u64,
    /// Directives of the origin that found their session.
    pub directives_taken: u64,
    /// Inputs taken, there before, lost past the window, and held back as too many.
    pub inputs_taken: u64,
    pub inputs_repeated: u64,
    pub inputs_lost: u64,
    pub inputs_held_back: u64,
    /// Owner states sent.
    pub owner_states: u64,
    pub control_backlog: u64,
    pub digest_mismatches: u64,
    pub segment_hits: u64,
    pub segment_misses: u64,
    pub body_shares: u64,
    pub body_builds: u64,
    /// Moves to an address that was proven.
    pub migrations: u64,
    /// Challenges of paths, by [`PathChallenge`].
    pub path_challenges: [u64; PathChallenge::ALL.len()],
    /// What clients report they refused, by the client's reason code.
    pub rejected_by_clients: [u64; 64],
    pub window_slots: Histogram,
    pub window_advance_us: Histogram,
    pub baseline_age: Histogram,
    pub snapshot_bytes: Histogram,
    pub round_trip_us: Histogram,
    pub view_complete_us: Histogram,
    pub loss_thousandths: Histogram,
    /// Members of a view, at one snapshot in sixteen.
    pub view_members: Histogram,
    /// Time since a member's record went the time before, by its rate tier, at the same snapshots.
    pub staleness_us: [Histogram; TIER_MAX as usize + 1],
    pub encode_ns: Histogram,
    pub seal_ns: Histogram,
    /// Sums behind the work histograms: nanoseconds measured and packets they stand for.
    pub encode_total_ns: u64,
    pub seal_total_ns: u64,
    pub packets_measured: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            sessions_opened: 0,
            sessions_closed: [0; CloseReason::ALL.len()],
            handshakes_refused: [0; 4],
            tokens_refused: [0; crate::token::TokenRefusal::ALL.len()],
            challenges: 0,
            handshakes_limited: [0; Limited::ALL.len()],
            datagrams_received: 0,
            datagrams_refused: [0; DatagramRefusal::ALL.len()],
            reports: 0,
            reports_stale: 0,
            reports_contradicting: 0,
            reports_unknown: 0,
            snapshots_sent: 0,
            parts_sent: 0,
            datagrams_sent: 0,
            bytes_sent: 0,
            records_sent: 0,
            records_omitted: 0,
            complete_records: 0,
            requested_records: 0,
            full_snapshots: 0,
            window_full: 0,
            advances_requested: 0,
            advances_committed: 0,
            advances_confirmed: 0,
            withheld: [0; Withheld::ALL.len()],
            fallbacks: [0; RestartReason::ALL.len()],
            messages_dropped: 0,
            events_queued: 0,
            directives_taken: 0,
            inputs_taken: 0,
            inputs_repeated: 0,
            inputs_lost: 0,
            inputs_held_back: 0,
            owner_states: 0,
            control_backlog: 0,
            digest_mismatches: 0,
            segment_hits: 0,
            segment_misses: 0,
            body_shares: 0,
            body_builds: 0,
            migrations: 0,
            path_challenges: [0; PathChallenge::ALL.len()],
            rejected_by_clients: [0; 64],
            window_slots: Histogram::new(SLOT_BOUNDS),
            window_advance_us: Histogram::new(TIME_BOUNDS_US),
            baseline_age: Histogram::new(AGE_BOUNDS),
            snapshot_bytes: Histogram::new(BYTE_BOUNDS),
            round_trip_us: Histogram::new(TIME_BOUNDS_US),
            view_complete_us: Histogram::new(TIME_BOUNDS_US),
            loss_thousandths: Histogram::new(SHARE_BOUNDS),
            view_members: Histogram::new(COUNT_BOUNDS),
            staleness_us: core::array::from_fn(|_| Histogram::new(TIME_BOUNDS_US)),
            encode_ns: Histogram::new(WORK_BOUNDS_NS),
            seal_ns: Histogram::new(WORK_BOUNDS_NS),
            encode_total_ns: 0,
            seal_total_ns: 0,
            packets_measured: 0,
        }
    }
}

impl Counters {
    /// Counts a refused datagram.
    pub fn refuse(&mut self, reason: DatagramRefusal) {
        self.datagrams_refused[reason as usize] += 1;
    }

    /// Counts a handshake that a limit stopped.
    pub fn limit(&mut self, limited: Limited) {
        self.handshakes_limited[limited as usize] += 1;
    }

    /// Counts a tick without a snapshot.
    pub fn withhold(&mut self, reason: Withheld) {
        self.withheld[reason as usize] += 1;
    }

    /// Counts a challenge of a path, or its answer.
    pub fn challenge_path(&mut self, result: PathChallenge) {
        self.path_challenges[result as usize] += 1;
    }

    /// Counts a closed session.
    pub fn close(&mut self, reason: CloseReason) {
        if let Some(index) = CloseReason::ALL.iter().position(|known| *known == reason) {
            self.sessions_closed[index] += 1;
        }
    }

    /// Counts a new session epoch after joining.
    pub fn fall_back(&mut self, reason: RestartReason) {
        if let Some(index) = RestartReason::ALL.iter().position(|known| *known == reason) {
            self.fallbacks[index] += 1;
        }
    }
}

const _: () = assert!(REJECTED_MAX <= 64);
const _: () = {
    // `as usize` on these enums indexes their counters: the lists are in order of declaration.
    assert!(DatagramRefusal::ALL.len() == DatagramRefusal::UpLimit as usize + 1);
    assert!(Limited::ALL.len() == Limited::Tokens as usize + 1);
    assert!(PathChallenge::ALL.len() == PathChallenge::Unmatched as usize + 1);
    assert!(Withheld::ALL.len() == Withheld::Moving as usize + 1);
};
