//! The faults: misreadings of the protocol and simpler designs, each of which the checker must find.
//!
//! A fault alters what is passed into a shipped window or what comes out of it (`seed.rs`). Where the shipped
//! code would shrug that off because two rules guard one thing, the fault breaks both.

use ackline::window::send::SendWindow;

use crate::key::Key;
use crate::state::{Content, Entry, Part, State, relay_tables};

/// A seeded fault. The letters are those of the protocol's own analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// F1b: reports carry ids alone, and candidates outlive the opening of a commit.
    UntaggedReports,
    /// F2: whatever was received is reported as held.
    ReceivedIsHeld,
    /// F3: an open commit is sent again with another set.
    OtherSetSameGeneration,
    /// F4, L6: any report confirms.
    ConfirmUntagged,
    /// F5: a commit that comes again is applied again.
    CommitAppliedAgain,
    /// F6: what a commit retires is kept until confirmed and not counted.
    RetiredUncounted,
    /// F8: generations restart with each epoch and reports do not name the epoch.
    EpochMissing,
    /// F8b: as F8, and snapshot ids restart too.
    IdsRestart,
    /// F9: epochs are told apart, not ordered.
    UnorderedEpochs,
    /// F10: one bit of the generation travels.
    GenerationModulo2,
    /// F10b: the generation modulo 3 travels.
    GenerationModulo3,
    /// F11: two bits of a snapshot's id travel.
    IdModulo4,
    /// F12: the relay gives an open commit up and goes on in the old generation.
    CommitAborted,
    /// F13: asks are heard whatever their tag.
    UntaggedAsks,
    /// A9: refusals are heard whatever their tag.
    UntaggedRefusals,
    /// A10: the client switches without a look at the digest.
    CommitUnverified,
    /// L5, A10: of the set only the newest table is checked.
    AnchorVerifiedOnly,
    /// TAB8: a part that comes after the first report is stored.
    LatePartStored,
    /// TAB8: parts are fixed when the snapshot is first named, not when it is reported.
    PartsFixedWhenNamed,
    /// TAB8: a snapshot is reported again with more parts.
    MaskGrows,
    /// TAB8: the relay takes a held snapshot for a whole one.
    AllPartsAssumed,
    /// TAB8: a snapshot that nobody reported is committed.
    UnreportedCommitted,
    /// TAB8: the digest of a commit covers all parts that were sent.
    DigestOverAllParts,
    /// TAB8: a commit names all parts that were sent.
    MaskOfAllParts,
    /// TAB1, TAB8: a delta is decoded from the newest table.
    DecodedOnNewest,
    /// TAB8: the parts of a snapshot are encoded on different bases.
    PartsOnDifferentBases,
    /// TAB8: a part of an old generation is taken.
    OldGenerationTaken,
    /// TAB8: parts unsent when a commit opens are sent under the new tag.
    SecondPartUnderNewerTag,
    /// TAB8: an unreported snapshot takes no slot.
    UnreportedTakesNoSlot,
    /// TAB8: a full client drops its oldest reported snapshot.
    ReportedDropped,
    /// FAULTS 23: a new session takes the datagrams of the old one.
    OldSessionTaken,
    /// L1: a commit may keep everything.
    CommitKeepsAll,
    /// L2, A7: a full client says nothing of what it holds.
    NothingSaidAtFull,
    /// L4, A9: the client does not say what it refuses.
    RefusalUnsaid,
    /// A9: a refusal is an event, said once.
    RefusalSaidOnce,
    /// A22: an ask is an event, said once.
    AskSaidOnce,
    /// A12: a commit is an event, said once.
    CommitSaidOnce,
    /// TAB8: a held snapshot is an event, said once.
    ReportedOnce,
    /// TAB8: only snapshots with all parts are ever reported.
    CompleteOnly,
    /// TAB8: what a report does not list counts as freed.
    AbsenceIsFreed,
    /// WIN9: a lease that is over drops the tables, and the epoch goes on.
    LeaseDropsOnly,
    /// WIN11, second sentence: full of what the relay can use nothing of, and nothing follows.
    NothingUsableIgnored,
}

impl Fault {
    /// True when a step that only the fault takes is possible.
    pub fn may_act(self, state: &State) -> bool {
        let open = state.relay.open_commit().is_some();
        let scratch = &state.scratch;
        match self {
            Fault::OtherSetSameGeneration => open && !scratch.flag && scratch.entries.len() > 1,
            Fault::CommitAborted => open && scratch.saved.is_some(),
            Fault::UnreportedCommitted => !open && state.relay.candidates().next().is_some(),
            Fault::SecondPartUnderNewerTag => scratch.late.is_some(),
            _ => false,
        }
    }

    /// What the generation is reduced by on the wire.
    pub fn modulus(self) -> Option<u32> {
        match self {
            Fault::GenerationModulo2 => Some(2),
            Fault::GenerationModulo3 => Some(3),
            _ => None,
        }
    }
}

/// What faults remember. Empty without one.
#[derive(Clone, Default)]
pub struct Scratch {
    /// Copies the relay keeps and does not count.
    pub retired: u32,
    /// Generations the client's window is ahead of the wire.
    pub shift: u32,
    /// The client's epoch on the wire, where its window counts on its own.
    pub wire_epoch: Option<u32>,
    /// An event was said.
    pub flag: bool,
    /// Snapshots with parts: received, grown, named or sent.
    pub list: Vec<(u32, u32)>,
    /// What was held before a commit opened.
    pub entries: Vec<Entry>,
    /// The generation each epoch began with, from the second on.
    pub starts: Vec<u32>,
    /// The relay before a commit opened.
    pub saved: Option<Box<SendWindow<u8, Content>>>,
    /// A part that waits to be sent.
    pub late: Option<Part>,
}

impl Scratch {
    /// Adds parts of a snapshot to the list.
    pub fn note(&mut self, id: u32, mask: u32) {
        match self.list.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known |= mask,
            None => self.list.push((id, mask)),
        }
        self.list.sort_unstable();
    }

    /// The listed parts of a snapshot.
    pub fn noted(&self, id: u32) -> u32 {
        let known = self.list.iter().find(|(known, _)| *known == id);
        known.map_or(0, |(_, mask)| *mask)
    }

    /// Writes what is remembered into a state's key.
    pub fn write(&self, key: &mut Key) {
        key.plain(u32::from(self.flag) | self.retired << 1 | self.shift << 8);
        key.plain(self.wire_epoch.unwrap_or(0));
        key.plain(self.list.len() as u32);
        for (id, mask) in &self.list {
            key.id(*id);
            key.plain(*mask);
        }
        self.entries.iter().for_each(|entry| key.entry(entry));
        self.starts.iter().for_each(|start| key.plain(*start));
        if let Some(saved) = &self.saved {
            key.tag(saved.session_epoch(), saved.generation());
            relay_tables(saved).iter().for_each(|entry| key.entry(entry));
        }
        if let Some(late) = &self.late {
            late.write(key);
        }
    }
}
