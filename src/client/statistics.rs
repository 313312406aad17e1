//! What a client counted since it began. Refusals by reason are in
//! [`RefusalCounts`](super::refusal::RefusalCounts).

/// Plain counters; times are microseconds of the caller's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Datagrams given to the client, refused ones included.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Datagram numbers passed over by a newer one: lost, or late.
    pub gaps: u64,
    /// Snapshots of which at least one part was taken and that were newer than all before.
    pub snapshots_received: u64,
    /// Parts taken.
    pub parts_received: u64,
    /// Parts taken of a snapshot older than the newest: they fill tables, not the display (SPEC TAB6).
    pub parts_late: u64,
    /// Parts that went into a table.
    pub parts_stored: u64,
    /// Candidate parts that were shown but found no free slot (SPEC WIN5).
    pub parts_window_full: u64,
    /// Tables made.
    pub snapshots_stored: u64,
    /// Entries decoded.
    pub entries_decoded: u64,
    /// Slots of the window in use.
    pub slots_in_use: u64,
    /// The most there were.
    pub slots_in_use_max: u64,
    /// Commits verified and applied (SPEC WIN3).
    pub advances_applied: u64,
    /// Session epochs begun, the first included.
    pub epochs_begun: u64,
    /// Stream epochs adopted, the first included.
    pub streams_adopted: u64,
    /// Digests compared (SPEC DEC9).
    pub digest_checked: u64,
    /// Digests that differed.
    pub digest_mismatches: u64,
    /// Displayed entities taken away because a complete view did not have them.
    pub reconciled: u64,
    /// Departed members that a whole snapshot says are there again.
    pub reinstated: u64,
    /// Events delivered.
    pub events_delivered: u64,
    /// Events that had to wait for their entity (SPEC CTL2).
    pub events_waited: u64,
    /// Events given up: their entity stayed unknown, or too many waited.
    pub events_dropped: u64,
    /// Messages to this client alone that were given up, as events are.
    pub messages_dropped: u64,
    /// Messages of the reliable stream that could not be read.
    pub messages_malformed: u64,
    /// Inputs pushed (SPEC PRE4).
    pub inputs_pushed: u64,
    /// Inputs that the relay has.
    pub inputs_acknowledged: u64,
    /// Inputs that left the window before the relay said it has them.
    pub inputs_lost: u64,
    /// States of the client's own entity taken (SPEC PRE2).
    pub owner_states: u64,
    /// States of the client's own entity that were not newer than the one known, or of another stream.
    pub owner_states_late: u64,
    /// When the session began.
    pub connected_us: Option<u64>,
    /// When the first part was taken.
    pub first_snapshot_us: Option<u64>,
    /// When a view was complete for the first time (SPEC DEC12).
    pub view_complete_us: Option<u64>,
}

/// What the memory of a client's tables and display is made of: the numbers in the formula of docs/VERIFICATION.md.
/// Each only rises within a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Footprint {
    /// The highest slot seen + 1.
    pub slots: usize,
    /// The highest slot that lost its member + 1.
    pub graves: usize,
    /// Tables, those that wait to be used again included.
    pub tables: usize,
    /// Poses held at once, at the most.
    pub poses: usize,
    /// Heads held at once, at the most.
    pub heads: usize,
}
