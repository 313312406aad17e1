//! Removals: what was taken away from a client must be dead, or out of its view.
//!
//! A removal from the view looks wrong where the client has not been told yet of the view that it is by. So it waits, as
//! leaks do ([`leaks`](super::leaks)): it is wrong when no view that the client was told of within [`HEARD_WITHIN_US`]
//! explains it.

use super::{EXAMPLES_MAX, Oracle, OracleCounts};
use crate::bench::places::SlotHints;
use crate::bench::sight::{HEARD_WITHIN_US, Outlook, Sees, place_of};
use crate::bench::truth::TruthFrame;
use crate::bench::view::View;
use crate::client::display::{Absence, ShownKind};
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// Removals of one client that wait; more are judged at once.
const WAITING_MAX: usize = 1024;
/// What would explain a removal may still be under way for this long when a session ends, server microseconds.
const UNDER_WAY_US: u64 = 1_000_000;

/// A removal that no view explains yet.
#[derive(Clone, Copy, Debug)]
struct Unexplained {
    slot: Slot,
    entity: Entity,
    absence: Absence,
    /// The truth's frame of the snapshot that told of it.
    number: u64,
    server_us: u64,
    came_us: u64,
}

/// The removals of one client that no view explains yet, oldest first.
#[derive(Debug, Default)]
pub struct Removals {
    list: Vec<Unexplained>,
    /// Views told when they were looked at last.
    told: u64,
}

impl Removals {
    /// Another stream begins.
    pub(in crate::bench) fn clear(&mut self) {
        self.list.clear();
    }
}

/// True when the client sees for sure, by all that it was told, whom it was told to be gone.
fn is_wrong(outlook: &Outlook<'_>, hints: &mut SlotHints, truth: &TruthFrame, removal: &Unexplained) -> bool {
    let Some((place, record)) = hints.place(&truth.frame, removal.slot, removal.entity) else {
        return false;
    };
    let tags = truth.frame.tags(place);
    let sees = match removal.absence {
        Absence::Destroyed { .. } => return true,
        Absence::Hidden => outlook.permits(removal.entity, tags),
        Absence::LeftView | Absence::Unheard => {
            outlook.sees(removal.entity, tags, place_of(&truth.frame.schema, record))
        }
    };
    sees == Sees::Surely
}

impl Oracle {
    /// Nothing that was removed may be alive, but what left the view or was hidden, and that must have.
    pub(super) fn check_removals(&mut self, view: &mut View, client: &Client, number: u64, now_us: u64) {
        let Some(truth) = self.reader.numbered(number) else {
            return;
        };
        let (client_number, before) = (view.client, view.removals.list.len());
        let removed = |kind: ShownKind| matches!(kind, ShownKind::Removed(_));
        if !client.changes().iter().any(|shown| removed(shown.kind)) {
            return;
        }
        let outlook = view.sight.outlook(&self.reader, truth, now_us);
        let mut wrong = Vec::new();
        for shown in client.changes() {
            let ShownKind::Removed(absence) = shown.kind else {
                continue;
            };
            let removal = Unexplained {
                slot: shown.slot,
                entity: shown.entity,
                absence,
                number,
                server_us: truth.server_us(),
                came_us: now_us,
            };
            if !is_wrong(&outlook, &mut self.hints, truth, &removal) {
                continue;
            }
            match absence {
                Absence::Destroyed { .. } => wrong.push(removal),
                Absence::Hidden | Absence::LeftView | Absence::Unheard => view.removals.list.push(removal),
            }
        }
        let full = view.removals.list.len().saturating_sub(WAITING_MAX.max(before));
        wrong.extend(view.removals.list.drain(view.removals.list.len() - full..));
        for removal in &wrong {
            count(&mut self.counts, client_number, removal);
        }
    }

    /// Judges the removals whose time has come, and all when another view was told.
    pub(super) fn settle_removals(&mut self, view: &mut View, newest_us: u64) {
        self.judge_removals(view, newest_us, HEARD_WITHIN_US);
    }

    /// The session ends: judges all but the last ones.
    pub fn settle_removals_last(&mut self, view: &mut View, newest_us: u64) {
        self.judge_removals(view, newest_us, UNDER_WAY_US);
        view.removals.clear();
    }

    fn judge_removals(&mut self, view: &mut View, newest_us: u64, within_us: u64) {
        let client = view.client;
        let View { removals, sight, .. } = view;
        let told = sight.told_times();
        let is_over = |removal: &Unexplained| newest_us.saturating_sub(removal.server_us) >= within_us;
        let has_news = core::mem::replace(&mut removals.told, told) != told;
        if !has_news && !removals.list.first().is_some_and(is_over) {
            return;
        }
        removals.list.retain(|removal| {
            // What the truth does not keep any more cannot be judged.
            let Some(truth) = self.reader.numbered(removal.number) else {
                return false;
            };
            let outlook = sight.outlook(&self.reader, truth, removal.came_us);
            let wrong = is_wrong(&outlook, &mut self.hints, truth, removal);
            if wrong && is_over(removal) {
                count(&mut self.counts, client, removal);
            }
            wrong && !is_over(removal)
        });
    }
}

#[cold]
fn count(counts: &mut OracleCounts, client: u32, removal: &Unexplained) {
    counts.mismatches += 1;
    let Unexplained {
        entity,
        absence,
        server_us,
        ..
    } = removal;
    if counts.examples.len() < EXAMPLES_MAX {
        counts.examples.push(format!(
            "client {client}: entity {entity} removed ({absence:?}) at {server_us} us, where the origin has it alive"
        ));
    }
}
