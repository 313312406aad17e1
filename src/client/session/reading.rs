//! What can be read of a client.

use super::{Client, Phase, SessionState};
use crate::client::display::{DisplayView, Shown};
use crate::client::owner::OwnerState;
use crate::client::refusal::RefusalCounts;
use crate::client::replica::NewestSnapshot;
use crate::client::statistics::{Footprint, Statistics};
use crate::client::table::TableView;
use crate::delta::decode::Entry;
use crate::delta::message::Assigned;
use crate::sequence::Tick;
use crate::state::schema::Schema;
use crate::wire::report::RefuseReason;
use crate::wire::snapshot::Held;

impl Client {
    /// Where the client is.
    #[must_use]
    pub fn state(&self) -> SessionState {
        match &self.phase {
            Phase::Handshake(attempt) if attempt.is_challenged() => SessionState::Responding,
            Phase::Handshake(_) => SessionState::Requesting,
            Phase::Connected(_) => SessionState::Connected,
            Phase::Leaving { .. } => SessionState::Leaving,
            Phase::Closed(ending) => SessionState::Closed(*ending),
        }
    }

    /// What is known now.
    #[must_use]
    pub fn display(&self) -> DisplayView<'_> {
        self.replica.display()
    }

    /// What the last receive changed on the display.
    #[must_use]
    pub fn changes(&self) -> &[Shown] {
        self.replica.changes()
    }

    /// The entries the last receive decoded, those that were too late to be shown included.
    pub fn decoded(&self) -> impl Iterator<Item = Entry> + Clone + '_ {
        self.replica.entries()
    }

    /// The snapshot of which the last receive took a part, if it did.
    #[must_use]
    pub fn decoded_of(&self) -> Option<Tick> {
        self.replica.taken().map(|(id, _)| id)
    }

    /// The frame time of that snapshot, server microseconds.
    #[must_use]
    pub fn decoded_at_us(&self) -> Option<u64> {
        self.replica.taken().map(|(_, server_us)| server_us)
    }

    /// The tables held as baselines, in no order.
    pub fn tables(&self) -> impl Iterator<Item = (Held, TableView<'_>)> + '_ {
        self.replica.tables()
    }

    /// The newest snapshot of which a part was taken.
    #[must_use]
    pub fn newest(&self) -> Option<&NewestSnapshot> {
        self.replica.newest()
    }

    /// The schema of the stream, once known.
    #[must_use]
    pub fn schema(&self) -> Option<&Schema> {
        self.replica.stream().map(|stream| &stream.schema)
    }

    /// The newest state of the client's own entity in this stream, if any came (SPEC PRE2).
    #[must_use]
    pub fn owner(&self) -> Option<OwnerState> {
        self.replica.owner().copied()
    }

    /// The client's own entity and its view, as the game was told last. With a new stream the entity is none until that is
    /// told again.
    #[must_use]
    pub fn assigned(&self) -> Assigned {
        self.inbox.assigned()
    }

    /// The rate tier of the client's own entity, as the game was told last (SPEC CTL5): it comes every 2^tier ticks.
    #[must_use]
    pub fn tier(&self) -> u8 {
        self.inbox.tier()
    }

    /// Ordinal of the stream; 0 before any.
    #[must_use]
    pub fn stream_epoch(&self) -> u32 {
        self.replica.stream_epoch()
    }

    /// The session epoch; 0 before any.
    #[must_use]
    pub fn session_epoch(&self) -> u32 {
        self.replica.window().session_epoch()
    }

    /// The window generation.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.replica.window().generation()
    }

    /// What the client refuses to go on from, if anything.
    #[must_use]
    pub fn refusing(&self) -> Option<RefuseReason> {
        self.replica.window().refusing()
    }

    /// True while the newest snapshot says that the upstream is lost.
    #[must_use]
    pub fn is_upstream_stale(&self) -> bool {
        self.replica.is_stale()
    }

    /// The lease of a baseline, server microseconds (SPEC WIN9).
    #[must_use]
    pub fn lease_us(&self) -> u64 {
        self.lease_us
    }

    /// What the memory of tables and display is made of (SPEC OPS5).
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.replica.footprint()
    }

    /// Counters.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Refusals by reason.
    #[must_use]
    pub fn refusals(&self) -> &RefusalCounts {
        &self.refusals
    }

    /// Flips one bit of one record of a held table, for fault injection; false when nothing is held.
    #[cfg(any(test, feature = "sim"))]
    pub fn flip_bit(&mut self, seed: u64) -> bool {
        self.replica.flip_bit(seed)
    }
}

#[cfg(test)]
impl Client {
    /// Everything that receiving may change, counters aside, as text.
    pub(in crate::client) fn fingerprint(&self) -> String {
        let link = match &self.phase {
            Phase::Connected(link) => link.fingerprint(),
            _ => format!("{:?}", self.state()),
        };
        let told = (
            self.inbox.next_message(),
            self.inbox.is_waiting(),
            self.idle_us,
            self.lease_us,
        );
        let own = (
            &self.inputs,
            self.camera,
            self.inbox.assigned(),
            self.inbox.tier(),
        );
        format!("{link} {told:?} {own:?} {:?}", self.replica)
    }
}
