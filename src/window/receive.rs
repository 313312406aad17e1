//! The client's half of the window.
//!
//! > `admit` looks at a header and changes nothing; `accept` is called only after the whole body decoded and
//! > changes everything at once; `reject` remembers what must be said. A failed receive leaves the window equal.
//!
//! Invariants: at most `slots` tables; a table's parts never change once reported; the generation never falls
//! within an epoch and the epoch never falls (SPEC WIN7, THREATS 59); a held snapshot leaves only by commit or
//! epoch.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::WindowLimits;
use crate::sequence::Tick;
use crate::wire::report::{HeldList, RefuseReason};
use crate::wire::snapshot::{Commit, Held, SnapshotHeader};

/// Why a snapshot part was refused by its header. The words are the labels of
/// `client_packets_rejected_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Of a session epoch before the client's, or of none (SPEC WIN10).
    OldEpoch,
    /// Of a generation before the client's (SPEC WIN3).
    OldGeneration,
    /// Of a generation the client knows no commit for (SPEC WIN6).
    UncommittedGeneration,
    /// A committed snapshot is not held, or with other parts (SPEC WIN11).
    CommitNotHeld,
    /// The committed tables' digest differs (SPEC WIN11).
    CommitDigest,
    /// The base is not held (SPEC WIN2).
    BaseMissing,
    /// The base's digest differs (SPEC DEC9).
    BaseDigest,
    /// A part of a snapshot on another base than its siblings (SPEC TAB8).
    SiblingBase,
    /// This part was taken before.
    DuplicatePart,
}

impl Rejection {
    /// Every rejection, in order of its report code.
    pub const ALL: [Rejection; 9] = [
        Rejection::OldEpoch,
        Rejection::OldGeneration,
        Rejection::UncommittedGeneration,
        Rejection::CommitNotHeld,
        Rejection::CommitDigest,
        Rejection::BaseMissing,
        Rejection::BaseDigest,
        Rejection::SiblingBase,
        Rejection::DuplicatePart,
    ];

    /// The word used in metrics and reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Rejection::OldEpoch => "old_epoch",
            Rejection::OldGeneration => "old_generation",
            Rejection::UncommittedGeneration => "uncommitted_generation",
            Rejection::CommitNotHeld => "commit_not_held",
            Rejection::CommitDigest => "commit_digest",
            Rejection::BaseMissing => "base_missing",
            Rejection::BaseDigest => "base_digest",
            Rejection::SiblingBase => "sibling_base",
            Rejection::DuplicatePart => "duplicate_part",
        }
    }

    /// What the client must say because of it, if anything.
    fn refusal(self) -> Option<RefuseReason> {
        match self {
            Rejection::CommitNotHeld => Some(RefuseReason::CommitNotHeld),
            Rejection::CommitDigest => Some(RefuseReason::CommitDigest),
            Rejection::BaseMissing => Some(RefuseReason::BaseMissing),
            Rejection::BaseDigest => Some(RefuseReason::BaseDigest),
            _ => None,
        }
    }
}

/// What becomes of an admitted part's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Shown only: not a candidate, no slot free, or its snapshot's parts are fixed already.
    None,
    /// A new table from the base.
    New,
    /// Joins the table at this index.
    Join(usize),
}

/// A part that may be decoded. Valid for the window it came from until that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    new_epoch: bool,
    commit: Option<Commit>,
    base: Option<usize>,
    place: Place,
}

impl Admission {
    /// True when the part begins a new session epoch.
    #[must_use]
    pub fn begins_epoch(&self) -> bool {
        self.new_epoch
    }

    /// True when the part brings a commit that is new to the client.
    #[must_use]
    pub fn commits(&self) -> bool {
        self.commit.is_some()
    }

    /// True when a table will be kept for this part.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.place != Place::None
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kept<T> {
    id: Tick,
    mask: u32,
    base: Option<Tick>,
    reported: bool,
    table: T,
}

/// The client's window over tables of type `T`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReceiveWindow<T> {
    limits: WindowLimits,
    session_epoch: u32,
    generation: u32,
    kept: Vec<Kept<T>>,
    refuse: Option<RefuseReason>,
}

impl<T> ReceiveWindow<T> {
    /// An empty window before any session epoch.
    #[must_use]
    pub fn new(limits: WindowLimits) -> ReceiveWindow<T> {
        ReceiveWindow {
            limits,
            session_epoch: 0,
            generation: 0,
            kept: Vec::with_capacity(limits.slots),
            refuse: None,
        }
    }

    /// The session epoch the client is in; 0 before any.
    #[must_use]
    pub fn session_epoch(&self) -> u32 {
        self.session_epoch
    }

    /// The window generation the client is in.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Slots in use.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.kept.len()
    }

    /// True when no slot is free: nothing new is held until an advance (SPEC WIN5).
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.limits.slots
    }

    /// The tables held, in no order.
    pub fn tables(&self) -> impl Iterator<Item = (Held, &T)> {
        self.kept.iter().map(|kept| {
            (
                Held {
                    id: kept.id,
                    mask: kept.mask,
                },
                &kept.table,
            )
        })
    }

    /// The tables held, to be changed by fault injection in tests and simulations only.
    pub fn tables_mut(&mut self) -> impl Iterator<Item = (Held, &mut T)> {
        self.kept.iter_mut().map(|kept| {
            (
                Held {
                    id: kept.id,
                    mask: kept.mask,
                },
                &mut kept.table,
            )
        })
    }

    /// Decides about a part by its header: tag first, then commit, then base, before any table is touched.
    /// `digest` computes a table's digest from its records.
    ///
    /// # Errors
    /// [`Rejection`]; give it to [`reject`](ReceiveWindow::reject).
    pub fn admit(
        &self,
        header: &SnapshotHeader,
        digest: impl Fn(&T) -> [u32; 2],
    ) -> Result<Admission, Rejection> {
        // Epoch 0 is that before any: no relay sends it.
        if header.session_epoch < self.session_epoch || header.session_epoch == 0 {
            return Err(Rejection::OldEpoch);
        }
        if header.session_epoch > self.session_epoch {
            // Nothing of the old epoch counts: only a part on the empty table can begin a new one (WIN10).
            if header.commit.is_some() {
                return Err(Rejection::UncommittedGeneration);
            }
            return match header.base {
                Some(_) => Err(Rejection::UncommittedGeneration),
                None => Ok(self.admission(header, true, None, None)),
            };
        }
        if header.generation < self.generation {
            return Err(Rejection::OldGeneration);
        }
        let commit = match header.generation - self.generation {
            0 => None,
            1 => Some(header.commit.ok_or(Rejection::UncommittedGeneration)?),
            _ => return Err(Rejection::UncommittedGeneration),
        };
        if let Some(commit) = &commit {
            self.verify(commit, &digest)?;
        }
        let base = match header.base {
            None => None,
            Some(id) => Some(self.find_base(id, commit.as_ref(), header, &digest)?),
        };
        if let Some(sibling) = self
            .kept
            .iter()
            .find(|kept| kept.id == header.id && commit.is_none())
        {
            if sibling.base != header.base {
                return Err(Rejection::SiblingBase);
            }
            if sibling.mask >> header.part & 1 == 1 {
                return Err(Rejection::DuplicatePart);
            }
        }
        Ok(self.admission(header, false, commit, base))
    }

    fn verify(&self, commit: &Commit, digest: impl Fn(&T) -> [u32; 2]) -> Result<(), Rejection> {
        let mut sum = [0u32; 2];
        for held in commit.set() {
            let kept = self
                .kept
                .iter()
                .find(|kept| kept.id == held.id && kept.mask == held.mask && kept.reported)
                .ok_or(Rejection::CommitNotHeld)?;
            let words = digest(&kept.table);
            sum.iter_mut()
                .zip(words)
                .for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        }
        if sum == commit.digest {
            Ok(())
        } else {
            Err(Rejection::CommitDigest)
        }
    }

    fn find_base(
        &self,
        id: Tick,
        commit: Option<&Commit>,
        header: &SnapshotHeader,
        digest: impl Fn(&T) -> [u32; 2],
    ) -> Result<usize, Rejection> {
        let named = |kept: &Kept<T>| {
            kept.id == id && kept.reported && commit.is_none_or(|commit| commit.find(id).is_some())
        };
        let index = self.kept.iter().position(named).ok_or(Rejection::BaseMissing)?;
        // A commit of this base alone, just verified, has said its digest already.
        let verified = commit
            .filter(|commit| commit.set().len() == 1)
            .map(|commit| commit.digest);
        if let (Some(expected), Some(kept)) = (header.base_digest, self.kept.get(index))
            && verified.unwrap_or_else(|| digest(&kept.table)) != expected
        {
            return Err(Rejection::BaseDigest);
        }
        Ok(index)
    }

    fn admission(
        &self,
        header: &SnapshotHeader,
        new_epoch: bool,
        commit: Option<Commit>,
        base: Option<usize>,
    ) -> Admission {
        let surviving = |kept: &Kept<T>| {
            !new_epoch
                && commit
                    .as_ref()
                    .is_none_or(|commit| commit.find(kept.id).is_some())
        };
        let place = match self
            .kept
            .iter()
            .position(|kept| kept.id == header.id && surviving(kept))
        {
            _ if !header.candidate => Place::None,
            Some(index) if self.kept.get(index).is_some_and(|kept| !kept.reported) => Place::Join(index),
            Some(_) => Place::None,
            None if self.kept.iter().filter(|kept| surviving(kept)).count() < self.limits.slots => Place::New,
            None => Place::None,
        };
        Admission {
            new_epoch,
            commit,
            base,
            place,
        }
    }

    /// The base table of an admitted part; `None` stands for the empty table.
    #[must_use]
    pub fn base(&self, admission: &Admission) -> Option<&T> {
        admission
            .base
            .and_then(|index| self.kept.get(index))
            .map(|kept| &kept.table)
    }

    /// Takes an admitted part whose body decoded. `make` builds its table from the base, `join` adds it to a
    /// sibling's table; at most one is called. Tables that are no longer held go to `freed`.
    pub fn accept(
        &mut self,
        header: &SnapshotHeader,
        admission: &Admission,
        make: impl FnOnce(Option<&T>) -> T,
        join: impl FnOnce(&mut T),
        freed: &mut Vec<T>,
    ) {
        let made = (admission.place == Place::New).then(|| make(self.base(admission)));
        if let Place::Join(index) = admission.place
            && let Some(kept) = self.kept.get_mut(index)
        {
            join(&mut kept.table);
            kept.mask |= 1 << header.part;
        }
        if admission.new_epoch {
            freed.extend(self.kept.drain(..).map(|kept| kept.table));
            self.session_epoch = header.session_epoch;
            self.generation = header.generation;
            self.refuse = None;
        }
        if let Some(commit) = &admission.commit {
            self.generation = header.generation;
            let gone = self.kept.extract_if(.., |kept| commit.find(kept.id).is_none());
            freed.extend(gone.map(|kept| kept.table));
        }
        if let Some(table) = made {
            self.kept.push(Kept {
                id: header.id,
                mask: 1 << header.part,
                base: header.base,
                reported: false,
                table,
            });
        }
    }

    /// Remembers a rejection that the relay must hear of. It is said in every report until a new epoch.
    pub fn reject(&mut self, rejection: Rejection) {
        if let Some(reason) = rejection.refusal() {
            self.refuse(reason);
        }
    }

    /// Refuses to go on from what is held: the relay answers with a new session epoch.
    pub fn refuse(&mut self, reason: RefuseReason) {
        if self.session_epoch > 0 {
            self.refuse.get_or_insert(reason);
        }
    }

    /// What is being refused, if anything.
    #[must_use]
    pub fn refusing(&self) -> Option<RefuseReason> {
        self.refuse
    }

    /// True when the client wants the window advanced (SPEC WIN5, WIN8).
    #[must_use]
    pub fn asks(&self) -> bool {
        self.kept.iter().filter(|kept| kept.reported).count() >= self.limits.ask_at
    }

    /// Everything held, newest first, for a report; from now on their parts are fixed (SPEC TAB8). Snapshots
    /// for which `hold_back` is true and that were not reported before wait for more of their parts.
    pub fn report(&mut self, hold_back: impl Fn(Held) -> bool) -> HeldList {
        let newest = self.kept.first().map(|kept| kept.id).unwrap_or_default();
        self.kept
            .sort_unstable_by_key(|kept| core::cmp::Reverse(kept.id.since(newest)));
        let mut list = HeldList::default();
        for kept in &mut self.kept {
            let held = Held {
                id: kept.id,
                mask: kept.mask,
            };
            kept.reported |= !hold_back(held);
            if kept.reported {
                let fits = list.push(held);
                debug_assert!(fits, "a window never holds more than a report takes");
            }
        }
        list
    }
}
