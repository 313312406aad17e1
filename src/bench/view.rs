//! One session as the oracle knows it, and what of it is to be judged.

use super::oracle::hunger::Hunger;
use super::oracle::leaks::Suspects;
use super::oracle::removals::Removals;
use super::sight::Sight;
use super::trail::EventTrail;
use crate::delta::decode::Entry;

/// What the oracle knows of one session.
#[derive(Debug, Default)]
pub struct View {
    /// Which client, for words.
    pub client: u32,
    /// What it has been told of events.
    pub trail: EventTrail,
    /// What it may know.
    pub sight: Sight,
    pub(super) suspects: Suspects,
    pub(super) removals: Removals,
    pub(super) relay_stream: u32,
    pub(super) least_stream: u32,
    pub(super) truth_stream: Option<u32>,
    /// Kept for some clients only.
    pub(super) hunger: Option<Hunger>,
}

impl View {
    /// A new session of `client`. `watched`: how long each of its entities waits for its next record is measured.
    #[must_use]
    pub fn new(client: u32, watched: bool) -> View {
        View {
            client,
            hunger: watched.then(Hunger::default),
            ..View::default()
        }
    }

    /// The first snapshot of another stream of the relay's came.
    pub(super) fn begin_stream(&mut self, stream: u32) {
        let is_first = core::mem::replace(&mut self.relay_stream, stream) == 0;
        self.trail.new_stream();
        self.sight.new_stream(stream, is_first);
        self.suspects.clear();
        self.removals.clear();
        if let Some(hunger) = &mut self.hunger {
            hunger.clear();
        }
    }

    /// The view is complete in the snapshot of `server_us`.
    pub(super) fn complete(&mut self, server_us: u64) {
        self.trail.complete(server_us);
        if let Some(hunger) = &mut self.hunger {
            hunger.complete(server_us);
        }
    }

    /// The truth's stream, once known.
    #[must_use]
    pub fn stream(&self) -> Option<u32> {
        self.truth_stream
    }
}

/// A check that waits for the truth.
pub(super) struct Waiting {
    pub(super) client: u32,
    pub(super) stream: Option<u32>,
    pub(super) least_stream: u32,
    /// `None` for a part of an older snapshot, whose time is not known, only that it is before `newest_us`.
    pub(super) server_us: Option<u64>,
    pub(super) newest_us: u64,
    pub(super) came_us: u64,
    pub(super) fresh: bool,
    pub(super) entries: Vec<Entry>,
}

/// What a client received, as far as the oracle needs it.
pub(super) struct Part<'a> {
    pub(super) client: u32,
    pub(super) server_us: Option<u64>,
    pub(super) newest_us: u64,
    pub(super) now_us: u64,
    pub(super) fresh: bool,
    pub(super) entries: &'a [Entry],
}
