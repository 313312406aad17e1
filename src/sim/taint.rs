//! A bit was flipped in a table that a client holds: what came of it, and when it is over.
//!
//! The bit is at work as long as a table is wrong or a record is shown wrongly. It is over once neither was seen
//! for a while and no table of that time is held any more. Until then what is wrong is counted apart.

use super::outcome::Figures;
use super::truth::Truth;
use crate::client::session::Client;
use crate::sequence::Tick;
use crate::state::record::Record;

/// The longest that records may be shown wrongly because of a flipped bit: a digest a second, some of them lost,
/// the way there and back, the time between two session epochs, and a full state.
pub const HEAL_WITHIN_US: u64 = 4_000_000;
/// The longest that records may be shown wrongly without anybody noticing, while snapshots come (see
/// [`received`](Taint::received)).
pub const FIND_WITHIN_US: u64 = 1_000_000;
/// Time between two parts beyond which a client does not listen but waits.
const PAUSE_US: u64 = 250_000;
/// Time without a newer snapshot after which a client hears nothing of the world.
const SILENCE_US: u64 = 1_000_000;
/// How long nothing wrong must be seen before a flipped bit counts as gone.
const RIGHT_FOR_US: u64 = 1_000_000;

/// A flipped bit whose healing is awaited.
#[derive(Clone, Debug)]
pub struct Taint {
    at_us: u64,
    session_epoch: u32,
    /// The tables held then: as long as one of them is, the bit may be at work again.
    held: Vec<Tick>,
    /// Since when nothing wrong was seen.
    right_us: Option<u64>,
    /// When a snapshot's part came last, how many had come, and how long the client has listened since the flip.
    received_us: u64,
    parts: u64,
    listened_us: u64,
    /// The client has told the relay.
    detected: bool,
    /// When records were first seen to be shown wrongly.
    shown_us: Option<u64>,
    /// How long the client had listened then.
    shown_listened_us: Option<u64>,
    /// How long it had listened since then when records were last seen to be shown wrongly.
    unheard_us: u64,
    /// How long they were since, while the client heard of the world: who hears nothing can find nothing.
    wrong_us: u64,
    /// The last look, the newest snapshot then, and since when it is the newest.
    looked_us: u64,
    newest: Option<Tick>,
    heard_us: u64,
    failed: bool,
}

/// What a look has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The bit is, or may be, at work.
    Working,
    /// Records have been shown wrongly for too long; said once.
    TooLong(String),
    /// Nothing of it is left.
    Gone,
}

impl Taint {
    /// A bit was flipped just now.
    #[must_use]
    pub fn new(now_us: u64, client: &Client) -> Taint {
        Taint {
            at_us: now_us,
            session_epoch: client.session_epoch(),
            held: client.tables().map(|(held, _)| held.id).collect(),
            right_us: None,
            received_us: now_us,
            parts: client.statistics().parts_received,
            listened_us: 0,
            detected: false,
            shown_us: None,
            shown_listened_us: None,
            unheard_us: 0,
            wrong_us: 0,
            looked_us: now_us,
            newest: None,
            heard_us: now_us,
            failed: false,
        }
    }

    /// The client took a datagram: has it found out? Time counts in which snapshots came: of each pause between two of them
    /// a quarter of a second at most.
    pub fn received(&mut self, now_us: u64, client: &Client, figures: &mut Figures) {
        let parts = client.statistics().parts_received;
        let found = !self.detected && client.refusing().is_some();
        if parts != self.parts || found {
            let since_us = now_us - core::mem::replace(&mut self.received_us, now_us);
            self.listened_us += since_us.min(PAUSE_US);
            self.parts = parts;
        }
        if found {
            self.detected = true;
            figures.flips_detected += 1;
            figures.detect_us.add(self.listened_us);
        }
    }

    /// Looks at a client. `tables_right`: the relay's tables are the client's; `wrong`: a record that is shown
    /// wrongly, in words.
    pub fn look(
        &mut self,
        now_us: u64,
        client: &Client,
        tables_right: bool,
        wrong: Option<String>,
        truth: &Truth,
    ) -> Look {
        let was = |record: &Record| truth.was(record);
        let tables_right = tables_right
            && client
                .tables()
                .all(|(_, table)| table.records().all(|(_, record)| was(&record)));
        let newest = client.newest().map(|newest| newest.id);
        if newest != self.newest {
            self.newest = newest;
            self.heard_us = now_us;
        }
        let since_look_us = now_us - core::mem::replace(&mut self.looked_us, now_us);
        if let Some(wrong) = wrong {
            self.right_us = None;
            self.shown_us.get_or_insert(now_us);
            self.unheard_us = self.listened_us - *self.shown_listened_us.get_or_insert(self.listened_us);
            let hears = now_us - self.heard_us <= SILENCE_US;
            self.wrong_us += since_look_us * u64::from(hears);
            let unnoticed = !self.detected && self.unheard_us > FIND_WITHIN_US;
            if (unnoticed || self.wrong_us > HEAL_WITHIN_US) && !self.failed {
                self.failed = true;
                let (flip_us, us) = (self.at_us, self.wrong_us);
                return Look::TooLong(format!(
                    "a bit was flipped at {flip_us} us and records are shown wrongly for {us} us now{}: {wrong}",
                    if unnoticed { ", unnoticed" } else { "" }
                ));
            }
            return Look::Working;
        }
        if !tables_right || client.refusing().is_some() {
            self.right_us = None;
            return Look::Working;
        }
        let right_us = *self.right_us.get_or_insert(now_us);
        let voided = client.session_epoch() > self.session_epoch
            || !client.tables().any(|(held, _)| self.held.contains(&held.id));
        if voided && now_us >= right_us + RIGHT_FOR_US {
            Look::Gone
        } else {
            Look::Working
        }
    }

    /// Counts one that was at work, or might have been, when its session ended.
    pub fn count_open(&self, figures: &mut Figures) {
        figures.flips_open += u64::from(!self.detected);
    }

    /// Counts what came of it.
    pub fn count(&self, figures: &mut Figures) {
        let right_us = self.right_us.unwrap_or(self.at_us);
        figures.flips_healed += u64::from(self.detected);
        figures.flips_harmless += u64::from(!self.detected && self.shown_us.is_none());
        if !self.detected && self.shown_us.is_some() {
            figures.flips_superseded += 1;
            figures.superseded_us.add(self.unheard_us);
        }
        figures.heal_us.add(right_us - self.at_us);
        if self.shown_us.is_some() {
            figures.wrong_us.add(self.wrong_us);
        }
    }
}
