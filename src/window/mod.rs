//! The baseline window protocol: which snapshots a delta may name (SPEC WIN1..WIN11, TAB8).
//!
//! Two halves, [`SendWindow`](send::SendWindow) at the relay and [`ReceiveWindow`](receive::ReceiveWindow) at
//! the client, in one module because they are one protocol: tests and the model drive the very code that
//! ships. They know headers and reports, not records: what a table is, is a type parameter.
//!
//! The protocol in short. Everything either side says is state, repeated in every datagram, so that loss,
//! duplication and reordering need no special case:
//!
//! * Every snapshot part carries (session epoch, generation, id, part, base). Every client packet carries
//!   (session epoch, generation, everything held with its parts, ask, refuse).
//! * A snapshot may be named as a base only after a report said that it is held, and only with the parts of
//!   that first report. The client fixes those parts when it reports.
//! * An advance: the client asks; the relay fixes a set of held snapshots and from then on tags every part
//!   w+1, names only the set, and repeats the commit in every part. A client that finds the set intact frees
//!   all else and is in w+1; its next packet, tagged w+1, confirms. Nothing waits for a round trip.
//! * Whatever does not fit is refused and said so; the way out is a new session epoch.

pub mod receive;
pub mod send;

#[cfg(test)]
mod tests;

/// Sizes of a window. The product's are [`WindowLimits::default`]; a model checker explores smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowLimits {
    /// Places for baselines at each end.
    pub slots: usize,
    /// Held snapshots at which a client asks for an advance.
    pub ask_at: usize,
    /// Snapshots a commit may keep.
    pub commit_max: usize,
}

impl Default for WindowLimits {
    fn default() -> WindowLimits {
        WindowLimits {
            slots: crate::limits::WINDOW_SLOTS,
            ask_at: crate::limits::WINDOW_ASK_AT,
            commit_max: crate::limits::COMMIT_SET_MAX,
        }
    }
}
