//! One session as the oracle knows it, and what of it is to be judged.

use super::trail::EventTrail;
use crate::delta::decode::Entry;

/// What the oracle knows of one session.
#[derive(Debug, Default)]
pub struct View {
    /// Which client, for words.
    pub client: u32,
    /// What it has been told of events.
    pub trail: EventTrail,
    pub(super) relay_stream: u32,
    pub(super) least_stream: u32,
    pub(super) truth_stream: Option<u32>,
    /// By slot the frame of the last record; kept for some clients only.
    pub(super) watched: Option<Vec<u64>>,
}

impl View {
    /// A new session of `client`. `watched`: how long each of its entities waits for its next record is measured.
    #[must_use]
    pub fn new(client: u32, watched: bool) -> View {
        View {
            client,
            watched: watched.then(Vec::new),
            ..View::default()
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
