//! The relay's half of the window, one for each client.
//!
//! > The relay names, or commits, only what a report said is held, with the parts of that report (SPEC TAB8,
//! > WIN1). While a commit is open it names only the committed set. It alone owns generations and session
//! > epochs, and both only rise.
//!
//! Candidates not yet reported and held tables share the same `slots` places; the oldest unreported candidate
//! goes first, so what one client can pin is bounded whatever it says or does not say (SPEC WIN9, THREATS 62, 63).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use super::WindowLimits;
use crate::sequence::Tick;
use crate::wire::report::RefuseReason;
use crate::wire::snapshot::{Commit, Held};

/// A snapshot sent as a candidate and not reported yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate<C> {
    /// The snapshot.
    pub id: Tick,
    /// The base it was encoded on.
    pub base: Option<Tick>,
    /// Bit i set: part i was sent.
    pub parts: u32,
    /// Frame time, server microseconds.
    pub server_us: u64,
    /// What its parts hold.
    pub contents: C,
}

/// A snapshot both ends hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldTable<T> {
    /// The snapshot and its parts.
    pub held: Held,
    /// Frame time, server microseconds.
    pub server_us: u64,
    /// The table: its base plus its held parts.
    pub table: T,
}

/// Why the relay starts a new session epoch: the labels of `full_state_fallbacks_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestartReason {
    /// The client refused (SPEC WIN2, WIN11, DEC9).
    Refused(RefuseReason),
    /// The lease of everything held is over (SPEC WIN9).
    LeaseOver,
    /// The client is full of snapshots the relay can use none of (SPEC WIN11).
    NothingUsable,
    /// A new stream epoch (SPEC WIN10).
    StreamChanged,
}

impl RestartReason {
    /// Every reason.
    pub const ALL: [RestartReason; 8] = [
        RestartReason::Refused(RefuseReason::CommitNotHeld),
        RestartReason::Refused(RefuseReason::CommitDigest),
        RestartReason::Refused(RefuseReason::BaseMissing),
        RestartReason::Refused(RefuseReason::BaseDigest),
        RestartReason::Refused(RefuseReason::Requested),
        RestartReason::LeaseOver,
        RestartReason::NothingUsable,
        RestartReason::StreamChanged,
    ];

    /// The word used in metrics and reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            RestartReason::Refused(reason) => reason.label(),
            RestartReason::LeaseOver => "lease_over",
            RestartReason::NothingUsable => "nothing_usable",
            RestartReason::StreamChanged => "stream_changed",
        }
    }
}

/// Drops what a window frees, and takes no memory for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropped;

impl<F> Extend<F> for Dropped {
    fn extend<I: IntoIterator<Item = F>>(&mut self, freed: I) {
        freed.into_iter().for_each(drop);
    }
}

/// What a report says about the window, as the sender reads it.
#[derive(Clone, Copy, Debug)]
pub struct WindowReport<'a> {
    /// Session epoch the report is tagged with.
    pub session_epoch: u32,
    /// Generation the report is tagged with.
    pub generation: u32,
    /// Everything held, newest first.
    pub held: &'a [Held],
    /// The client asks for an advance.
    pub ask: bool,
    /// The client refuses.
    pub refuse: Option<RefuseReason>,
}

/// What a report did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WindowOutcome {
    /// The report is of another epoch or generation and was left alone.
    pub stale: bool,
    /// The open commit was confirmed; when it was opened, relay microseconds.
    pub confirmed: Option<u64>,
    /// Snapshots that became usable.
    pub newly_held: u32,
    /// Held entries the relay does not know: evicted, freed or never sent.
    pub unknown: u32,
    /// Entries whose parts contradict what was sent or reported before: a broken client.
    pub contradicted: u32,
    /// A new session epoch is called for.
    pub restart: Option<RestartReason>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OpenCommit {
    commit: Commit,
    opened_us: u64,
}

/// The relay's window for one client: candidates of contents `C`, tables of type `T`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendWindow<C, T> {
    limits: WindowLimits,
    session_epoch: u32,
    generation: u32,
    open: Option<OpenCommit>,
    candidates: VecDeque<Candidate<C>>,
    held: Vec<HeldTable<T>>,
}

impl<C, T> SendWindow<C, T> {
    /// A window in session epoch 1, generation 1, with nothing sent.
    #[must_use]
    pub fn new(limits: WindowLimits) -> SendWindow<C, T> {
        SendWindow {
            limits,
            session_epoch: 1,
            generation: 1,
            open: None,
            candidates: VecDeque::with_capacity(limits.slots),
            held: Vec::with_capacity(limits.slots),
        }
    }

    /// The session epoch of every packet sent now.
    #[must_use]
    pub fn session_epoch(&self) -> u32 {
        self.session_epoch
    }

    /// The generation of every packet sent now: w+1 while a commit is open (WINDOW-MODEL A12).
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation + u32::from(self.open.is_some())
    }

    /// The commit every packet carries now.
    #[must_use]
    pub fn open_commit(&self) -> Option<&Commit> {
        self.open.as_ref().map(|open| &open.commit)
    }

    /// When the open commit was opened, relay microseconds.
    #[must_use]
    pub fn opened_us(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.opened_us)
    }

    /// Places in use: held tables and unreported candidates.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.held.len() + self.candidates.len()
    }

    /// The snapshots a packet sent now may name: reported as held in this generation, and from the moment a
    /// commit opens only its set. In order of their reports.
    #[must_use]
    pub fn held(&self) -> &[HeldTable<T>] {
        &self.held
    }

    /// Unreported candidates, oldest first.
    pub fn candidates(&self) -> impl Iterator<Item = &Candidate<C>> {
        self.candidates.iter()
    }

    /// The table of a snapshot a packet may name.
    #[must_use]
    pub fn find(&self, id: Tick) -> Option<&HeldTable<T>> {
        self.held.iter().find(|held| held.held.id == id)
    }

    /// Remembers a candidate that was sent. With no place left the oldest unreported candidate is evicted;
    /// with every place held, the new one is not kept at all. What goes is given to `freed`.
    pub fn offer(&mut self, candidate: Candidate<C>, freed: &mut impl Extend<C>) {
        if self.held.len() >= self.limits.slots {
            freed.extend(Some(candidate.contents));
            return;
        }
        while self.in_use() >= self.limits.slots {
            match self.candidates.pop_front() {
                Some(oldest) => freed.extend(Some(oldest.contents)),
                None => break,
            }
        }
        self.candidates.push_back(candidate);
    }

    /// Takes a report in. `build` makes the table of a candidate from its held parts and its base's table;
    /// contents no longer needed go to `freed`.
    pub fn receive(
        &mut self,
        report: WindowReport<'_>,
        mut build: impl FnMut(&Candidate<C>, u32, Option<&T>) -> T,
        freed: &mut impl Extend<C>,
    ) -> WindowOutcome {
        let mut outcome = WindowOutcome::default();
        if report.session_epoch != self.session_epoch {
            outcome.stale = true;
            return outcome;
        }
        match &self.open {
            Some(open) if report.generation == self.generation + 1 => {
                outcome.confirmed = Some(open.opened_us);
                self.generation += 1;
                self.open = None;
            }
            _ if report.generation != self.generation => {
                outcome.stale = true;
                return outcome;
            }
            _ => {}
        }
        outcome.restart = report.refuse.map(RestartReason::Refused);
        if self.open.is_none() {
            for held in report.held {
                self.take_held(*held, &mut build, freed, &mut outcome);
            }
        }
        if report.held.len() >= self.limits.slots && self.held.is_empty() {
            outcome.restart.get_or_insert(RestartReason::NothingUsable);
        }
        outcome
    }

    fn take_held(
        &mut self,
        held: Held,
        build: &mut impl FnMut(&Candidate<C>, u32, Option<&T>) -> T,
        freed: &mut impl Extend<C>,
        outcome: &mut WindowOutcome,
    ) {
        if let Some(known) = self.held.iter().find(|known| known.held.id == held.id) {
            outcome.contradicted += u32::from(known.held.mask != held.mask);
            return;
        }
        let Some(index) = self
            .candidates
            .iter()
            .position(|candidate| candidate.id == held.id)
        else {
            outcome.unknown += 1;
            return;
        };
        let Some(candidate) = self.candidates.get(index) else {
            return;
        };
        let base = match candidate.base {
            None => Some(None),
            Some(id) => self
                .held
                .iter()
                .find(|base| base.held.id == id)
                .map(|base| Some(&base.table)),
        };
        let (Some(base), true) = (base, held.mask != 0 && held.mask & !candidate.parts == 0) else {
            outcome.contradicted += 1;
            return;
        };
        let table = build(candidate, held.mask, base);
        self.held.push(HeldTable {
            held,
            server_us: candidate.server_us,
            table,
        });
        outcome.newly_held += 1;
        if let Some(candidate) = self.candidates.remove(index) {
            freed.extend(Some(candidate.contents));
        }
    }

    /// Opens a commit of `set` (newest first, 1 to `commit_max` usable snapshots) with the sum of their tables'
    /// digests. All else is dropped at once: there is no way back to `w` (WINDOW-MODEL A15). Nothing happens
    /// while a commit is open or when the set is not usable; true when opened.
    pub fn open(
        &mut self,
        set: &[Held],
        digest: [u32; 2],
        now_us: u64,
        freed: &mut impl Extend<C>,
        freed_tables: &mut impl Extend<T>,
    ) -> bool {
        let usable = set
            .iter()
            .all(|held| self.held.iter().any(|known| known.held == *held));
        if self.open.is_some() || !usable || set.len() > self.limits.commit_max {
            return false;
        }
        let Some(commit) = Commit::new(set, digest) else {
            return false;
        };
        self.open = Some(OpenCommit {
            commit,
            opened_us: now_us,
        });
        freed.extend(self.candidates.drain(..).map(|candidate| candidate.contents));
        let gone = self
            .held
            .extract_if(.., |held| commit.find(held.held.id).is_none());
        freed_tables.extend(gone.map(|held| held.table));
        true
    }

    /// Starts the next session epoch: everything named before is void (SPEC WIN10). The generation rises too,
    /// so that no pair of epoch and generation ever means two things.
    pub fn restart(&mut self, freed: &mut impl Extend<C>, freed_tables: &mut impl Extend<T>) {
        self.session_epoch += 1;
        self.generation = self.generation() + 1;
        self.open = None;
        freed.extend(self.candidates.drain(..).map(|candidate| candidate.contents));
        freed_tables.extend(self.held.drain(..).map(|held| held.table));
    }
}
