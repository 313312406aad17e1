//! Leaks: what a client was sent or shows that its view does not allow.
//!
//! What looks hidden is a suspect first: a client may be sent what its new view allows before it is told of that view.
//! It is a leak when no view that the client was told of within [`HEARD_WITHIN_US`] allows it.

use super::{EXAMPLES_MAX, Oracle, Part, decoded};
use crate::bench::places::SlotHints;
use crate::bench::sight::{HEARD_WITHIN_US, Sees, Sight, place_of};
use crate::bench::truth::{TruthFrame, TruthReader};
use crate::bench::view::View;
use crate::client::session::Client;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// Suspects of one client; more are judged at once.
const SUSPECTS_MAX: usize = 1024;
/// What a client shows may be this old, and a late part may be of a tick this long ago, server microseconds.
const SPAN_US: u64 = 1_000_000;

/// When a suspect was seen.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// In a snapshot of this frame.
    Frame(u64),
    /// At this frame or within [`SPAN_US`] before it.
    Span(u64),
    /// In a snapshot of this time, whose truth has not come.
    Time(u64),
}

/// An entity that a client should perhaps not have been sent.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    slot: Slot,
    entity: Entity,
    tier: u8,
    seen: Seen,
    /// The newest snapshot then, server microseconds.
    newest_us: u64,
    /// When it came, on this host's clock.
    came_us: u64,
}

/// The suspects of one client, oldest first.
#[derive(Debug, Default)]
pub struct Suspects {
    list: Vec<Suspect>,
    /// Views told when they were looked at last, and the truth's newest frame then.
    told: u64,
    number: u64,
    has_put_off: bool,
}

impl Suspects {
    /// Another stream begins.
    pub(in crate::bench) fn clear(&mut self) {
        self.list.clear();
    }

    /// A part whose truth has not come is judged later.
    pub(super) fn put_off(&mut self, sight: &Sight, part: &Part<'_>) {
        let Some(server_us) = part.server_us.filter(|_| sight.is_bounded()) else {
            return;
        };
        for entry in part.entries {
            let Some(record) = decoded(entry).filter(|_| self.list.len() < SUSPECTS_MAX) else {
                continue;
            };
            self.has_put_off = true;
            self.list.push(Suspect {
                slot: entry.slot,
                entity: record.entity,
                tier: record.tier,
                seen: Seen::Time(server_us),
                newest_us: part.newest_us,
                came_us: part.now_us,
            });
        }
    }
}

impl Oracle {
    /// Looks for entities in a part of the frame `number`, or of one shortly before it where the part is late, that the
    /// client may not know of.
    pub(super) fn check_leaks(&mut self, view: &mut View, part: &Part<'_>, number: u64) {
        if !view.sight.is_bounded() {
            return;
        }
        let Some(truth) = self.reader.numbered(number) else {
            return;
        };
        let seen = if part.server_us.is_some() {
            Seen::Frame(number)
        } else {
            Seen::Span(number)
        };
        let before = view.suspects.list.len();
        let outlook = view.sight.outlook(&self.reader, truth, part.now_us);
        for entry in part.entries {
            let Some(record) = decoded(entry) else { continue };
            let entity = record.entity;
            let Some((slot, found)) = self.hints.place(&truth.frame, entry.slot, entity) else {
                continue;
            };
            let place = place_of(&truth.frame.schema, found);
            if outlook.sees(entity, truth.frame.tags(slot), place) == Sees::Never {
                view.suspects.list.push(Suspect {
                    slot: entry.slot,
                    entity,
                    tier: record.tier,
                    seen,
                    newest_us: part.newest_us,
                    came_us: part.now_us,
                });
            }
        }
        self.keep_suspects(view, before);
    }

    /// Looks for entities that the client shows and may not know of, while its newest snapshot is whole and made on a base
    /// of all of its view: else one may be shown still that came by a snapshot which is no base.
    pub fn check_shown(&mut self, view: &mut View, client: &Client, now_us: u64) {
        let newest = client
            .newest()
            .filter(|newest| newest.is_whole() && newest.view_complete);
        let (Some(newest), Some(stream)) = (newest, view.truth_stream) else {
            return;
        };
        let Some(truth) = self.reader.at(stream, newest.server_us).next() else {
            return;
        };
        if !view.sight.is_bounded() {
            return;
        }
        let before = view.suspects.list.len();
        let outlook = view.sight.outlook(&self.reader, truth, now_us);
        for (slot, record, _) in client.display().records() {
            let Some((at, found)) = self.hints.place(&truth.frame, slot, record.entity) else {
                continue;
            };
            let place = place_of(&truth.frame.schema, found);
            if outlook.sees(record.entity, truth.frame.tags(at), place) == Sees::Never {
                view.suspects.list.push(Suspect {
                    slot,
                    entity: record.entity,
                    tier: record.tier,
                    seen: Seen::Span(truth.number),
                    newest_us: newest.server_us,
                    came_us: now_us,
                });
            }
        }
        self.keep_suspects(view, before);
    }

    /// Of the suspects from place `from` on, keeps those that a second look does not clear; all beyond the bound are
    /// counted.
    fn keep_suspects(&mut self, view: &mut View, from: usize) {
        let client = view.client;
        let View { suspects, sight, .. } = view;
        let mut kept = from;
        for index in from..suspects.list.len() {
            let suspect = suspects.list[index];
            if is_hidden(&self.reader, &mut self.hints, sight, &suspect, None) == Some(true) {
                suspects.list[kept] = suspect;
                kept += 1;
            }
        }
        suspects.list.truncate(kept);
        while suspects.list.len() > SUSPECTS_MAX {
            if let Some(suspect) = suspects.list.pop() {
                self.count_leak(client, &suspect);
            }
        }
    }

    /// Judges the suspects whose time has come, and all when another view was told.
    pub fn settle_suspects(&mut self, view: &mut View, newest_us: u64) {
        if view.suspects.list.is_empty() {
            return;
        }
        let (stream, told) = (view.truth_stream, view.sight.told_times());
        let number = self.reader.newest().map_or(0, |frame| frame.number);
        let client = view.client;
        let View { suspects, sight, .. } = view;
        let is_over = |suspect: &Suspect| newest_us.saturating_sub(suspect.newest_us) >= HEARD_WITHIN_US;
        let has_news = told != suspects.told || (suspects.has_put_off && number != suspects.number);
        if !has_news && !suspects.list.first().is_some_and(is_over) {
            return;
        }
        (suspects.told, suspects.number, suspects.has_put_off) = (told, number, false);
        let mut kept = 0;
        for index in 0..suspects.list.len() {
            let mut suspect = suspects.list[index];
            let hidden = is_hidden(&self.reader, &mut self.hints, sight, &suspect, stream);
            match (hidden, is_over(&suspect)) {
                (Some(true), true) => {
                    self.count_leak(client, &suspect);
                    continue;
                }
                (Some(false), _) | (None, true) => continue,
                (Some(true) | None, false) => {}
            }
            if let (Seen::Time(server_us), Some(stream)) = (suspect.seen, stream) {
                match self.reader.at(stream, server_us).next() {
                    Some(truth) => suspect.seen = Seen::Frame(truth.number),
                    None => suspects.has_put_off = true,
                }
            }
            suspects.list[kept] = suspect;
            kept += 1;
        }
        suspects.list.truncate(kept);
    }

    #[cold]
    fn count_leak(&mut self, client: u32, suspect: &Suspect) {
        self.counts.leaks += 1;
        if self.counts.examples.len() < EXAMPLES_MAX {
            let entity = suspect.entity;
            let text = match suspect.seen {
                Seen::Span(_) => {
                    format!("client {client}: entity {entity} is shown, which its view does not allow")
                }
                Seen::Frame(_) | Seen::Time(_) => {
                    format!("client {client}: entity {entity} was sent, which its view does not allow")
                }
            };
            let at_us = suspect.newest_us;
            self.counts.examples.push(format!("{text}, by {at_us} us"));
        }
    }
}

/// Whether a suspect's entity was outside of the view; `None` while its frame is not here. Where the relay takes the
/// entity, or the client's own, in late by their tiers, both may be where they were some ticks ago.
fn is_hidden(
    reader: &TruthReader,
    hints: &mut SlotHints,
    sight: &mut Sight,
    suspect: &Suspect,
    stream: Option<u32>,
) -> Option<bool> {
    let (truth, span_us) = match suspect.seen {
        Seen::Frame(number) => (reader.numbered(number)?, 0),
        Seen::Span(number) => (reader.numbered(number)?, SPAN_US),
        Seen::Time(server_us) => (reader.at(stream?, server_us).next()?, 0),
    };
    let oldest_us = truth.server_us().saturating_sub(span_us);
    let span = (0..=truth.number)
        .rev()
        .map_while(|number| reader.numbered(number))
        .take_while(|before| before.stream == truth.stream && before.server_us() >= oldest_us);
    for truth in span {
        if !is_hidden_at(reader, hints, sight, suspect, truth) {
            return Some(false);
        }
    }
    Some(true)
}

fn is_hidden_at(
    reader: &TruthReader,
    hints: &mut SlotHints,
    sight: &mut Sight,
    suspect: &Suspect,
    truth: &TruthFrame,
) -> bool {
    let Some((at, _)) = hints.place(&truth.frame, suspect.slot, suspect.entity) else {
        // It was not alive then: it is judged by the frames in which it was.
        return true;
    };
    let tags = truth.frame.tags(at);
    let entity_lag = (1 << suspect.tier) - 1;
    for own_lag in 0..=sight.lag() {
        let Some(centre) = reader.numbered(truth.number.saturating_sub(own_lag)) else {
            break;
        };
        let outlook = sight.outlook(reader, centre, suspect.came_us);
        for lag in 0..=entity_lag {
            let before = reader.numbered(truth.number.saturating_sub(lag));
            let record = before.and_then(|before| hints.record(&before.frame, suspect.slot, suspect.entity));
            let Some(record) = record else { break };
            let place = place_of(&truth.frame.schema, record);
            if outlook.sees(suspect.entity, tags, place) != Sees::Never {
                return false;
            }
        }
    }
    true
}
