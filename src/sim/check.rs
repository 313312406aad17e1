//! What every client is watched for, datagram by datagram, against the oracle.
//!
//! Shown records equal the truth of their snapshot's frame; a slot never goes back in time; a destroyed life is
//! never shown again; nothing of an old stream is shown in a new one; the window stays within its slots; nothing
//! is refused that an honest relay over a bad link cannot cause; nobody out of view is named. After a flipped bit, wrong records are counted
//! apart until the healing, which must come.

use std::collections::HashSet;

use super::hasher::EntityHasher;
use super::leaks;
use super::oracle::Oracle;
use super::outcome::Figures;
use super::sight::Verdict;
use super::taint::{Look, Taint};
use super::told::Told;
use super::truth::{Fact, Truth};
use super::whole::{Whole, is_right};
use crate::client::display::{Absence, DisplayPlace, Gone, Known, ShownKind};
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::limits::WINDOW_SLOTS;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::slots::Slot;
use crate::window::receive::Rejection;

/// The longest that a window may stay full while snapshots come.
const FULL_US: u64 = 6_000_000;

/// What one session of a client has shown so far.
#[derive(Debug, Default)]
pub struct Check {
    stream_epoch: u32,
    as_of: Vec<Option<Tick>>,
    destroyed: HashSet<Entity, EntityHasher>,
    newest: Option<(Tick, u64)>,
    newest_at_us: u64,
    told: Told,
    taint: Option<Taint>,
    whole: Whole,
    /// Since when the window has been full.
    full_us: Option<u64>,
    found: Vec<String>,
    /// Set once somebody asks for notes about an entity.
    watch: Option<u32>,
    notes: Vec<String>,
}

impl Check {
    /// What was found since the last call, a sentence each.
    pub fn take_found(&mut self) -> std::vec::Drain<'_, String> {
        self.found.drain(..)
    }

    /// What happened to an entity since the last call, and to the session it was shown in.
    pub fn take_notes(&mut self, id: u32) -> std::vec::Drain<'_, String> {
        self.watch = Some(id);
        self.notes.drain(..)
    }

    /// True while a flipped bit may still be at work.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        self.taint.is_some()
    }

    /// The session is over: a bit that was still at work is counted.
    pub fn count_taint(&self, figures: &mut Figures) {
        if let Some(taint) = &self.taint {
            taint.count_open(figures);
        }
    }

    /// A bit of a held table was flipped.
    pub fn flipped(&mut self, now_us: u64, client: &Client, figures: &mut Figures) {
        figures.flips += 1;
        self.taint = Some(Taint::new(now_us, client));
    }

    /// Silence has passed: the gap is nobody's.
    pub fn woke(&mut self) {
        self.newest_at_us = 0;
        self.full_us = None;
        self.whole.forget();
    }

    /// The longest wait for a record that changed.
    #[must_use]
    pub fn starved_us(&self) -> u64 {
        self.whole.starved_us()
    }

    /// Looks at a client after it took a datagram.
    pub fn received(
        &mut self,
        now_us: u64,
        client: &Client,
        received: Received,
        oracle: &Oracle<'_>,
        figures: &mut Figures,
    ) {
        let truth = oracle.truth;
        match received {
            Received::Refused(refusal) => self.refused(refusal, client),
            Received::Snapshot { .. } | Received::Welcomed => {
                self.follow_stream(client, truth);
                self.follow_time(now_us, client, truth, figures);
                self.look_at_changes(client, oracle, figures);
                self.look_for_leaks(client, oracle, figures);
                if self.is_tainted() {
                    self.whole.forget();
                } else {
                    let found = self.whole.look(now_us, client, oracle, figures);
                    self.found.extend(found);
                }
                self.look_at_window(now_us, client);
            }
            _ => self.follow_stream(client, truth),
        }
        if let Some(taint) = self.taint.as_mut() {
            taint.received(now_us, client, figures);
        }
    }

    /// A refusal that a bad link alone cannot cause is a fault of relay or client.
    fn refused(&mut self, refusal: Refusal, client: &Client) {
        let harmless = match refusal {
            Refusal::Window(rejection) => match rejection {
                Rejection::OldEpoch | Rejection::OldGeneration => true,
                Rejection::CommitDigest | Rejection::BaseDigest => self.is_tainted(),
                _ => false,
            },
            Refusal::Body(_) | Refusal::DistrustedBase => self.is_tainted(),
            Refusal::MalformedPayload | Refusal::MalformedSchema => false,
            _ => true,
        };
        if !harmless {
            let (epoch, generation) = (client.session_epoch(), client.generation());
            self.found.push(format!(
                "a datagram was refused as {} in session epoch {epoch}, generation {generation}",
                refusal.label()
            ));
        }
    }

    fn follow_stream(&mut self, client: &Client, truth: &Truth) {
        let epoch = client.stream_epoch();
        if epoch < self.stream_epoch {
            self.found.push(format!(
                "the stream epoch fell from {} to {epoch}",
                self.stream_epoch
            ));
        }
        if epoch > self.stream_epoch {
            for (slot, record, as_of) in client.display().records() {
                let of = truth.frame(as_of).map(|frame| frame.stream_epoch);
                if of != Some(epoch) {
                    let entity = record.entity;
                    self.found.push(format!("entity {entity} of stream {of:?} in slot {slot} outlived the change to stream {epoch}"));
                }
            }
            self.stream_epoch = epoch;
            self.as_of.clear();
            self.destroyed.clear();
            self.newest = self.newest.map(|(tick, _)| (tick, 0));
            self.whole.forget();
        }
    }

    /// The newest snapshot's time never falls within a stream.
    fn follow_time(&mut self, now_us: u64, client: &Client, truth: &Truth, figures: &mut Figures) {
        let Some(newest) = client.newest() else { return };
        if let Some((tick, server_us)) = self.newest {
            if newest.id == tick {
                return;
            }
            let of_this = truth
                .frame(newest.id)
                .is_some_and(|frame| frame.stream_epoch == self.stream_epoch);
            if !newest.id.is_after(tick) || (of_this && newest.server_us < server_us) {
                self.found.push(format!(
                    "the newest snapshot went from {tick} ({server_us} us) back to {} ({} us)",
                    newest.id, newest.server_us
                ));
            }
            // A repeat of the last world has its time: how far apart those are is the upstream's doing.
            if self.newest_at_us > 0 && newest.server_us != server_us {
                figures.gap_us.add(now_us - self.newest_at_us);
            }
        }
        self.newest = Some((newest.id, newest.server_us));
        self.newest_at_us = now_us;
        figures.slots.add(client.statistics().slots_in_use);
    }

    fn look_at_window(&mut self, now_us: u64, client: &Client) {
        let slots = client.statistics().slots_in_use;
        if slots > WINDOW_SLOTS as u64 {
            self.found
                .push(format!("{slots} slots are in use, more than {WINDOW_SLOTS}"));
        }
        if slots < WINDOW_SLOTS as u64 {
            self.full_us = None;
            return;
        }
        let since_us = *self.full_us.get_or_insert(now_us);
        if now_us - since_us > FULL_US {
            self.found
                .push(format!("the window has been full since {since_us} us"));
            self.full_us = Some(now_us);
        }
    }

    /// Every entry is about somebody in view.
    fn look_for_leaks(&mut self, client: &Client, oracle: &Oracle<'_>, figures: &mut Figures) {
        let frame = client.decoded_of().and_then(|tick| oracle.truth.frame(tick));
        let (Some(frame), Some(sight)) = (frame, oracle.sight.as_deref()) else {
            return;
        };
        if frame.stream_epoch != self.stream_epoch || self.is_tainted() {
            return;
        }
        let (found, looked) = leaks::look(client, frame, sight, oracle.truth);
        figures.entries_checked += looked;
        figures.leaks += found.len() as u64;
        self.found.extend(found);
    }

    fn look_at_changes(&mut self, client: &Client, oracle: &Oracle<'_>, figures: &mut Figures) {
        for shown in client.changes() {
            if self.watch == Some(shown.entity.id) {
                let (place, newest) = (
                    client.display().place(shown.slot),
                    client.newest().map(|newest| newest.id),
                );
                self.notes.push(format!(
                    "{:?} in slot {}, now {place:?}; newest {newest:?}",
                    shown.kind, shown.slot
                ));
            }
            match client.display().place(shown.slot) {
                DisplayPlace::Known(known) => {
                    self.look_at_record(shown.slot, shown.kind, &known, oracle, figures)
                }
                DisplayPlace::Gone(gone) => self.look_at_departure(shown.slot, &gone, oracle, figures),
                DisplayPlace::Never => self.found.push(format!("slot {} changed to nothing", shown.slot)),
            }
        }
    }

    fn look_at_record(
        &mut self,
        slot: Slot,
        kind: ShownKind,
        known: &Known,
        oracle: &Oracle<'_>,
        figures: &mut Figures,
    ) {
        let truth = oracle.truth;
        figures.records_checked += 1;
        self.moved_on(slot, known.as_of);
        let entity = known.record.entity;
        if self.destroyed.contains(&entity) && kind == ShownKind::Entered {
            self.found.push(format!(
                "entity {entity} was destroyed and is shown again in slot {slot}"
            ));
        }
        let tick = known.as_of;
        let owner = oracle.sight.as_deref().and_then(|sight| sight.owner_at(tick));
        if let Err(what) = self.judge(known, owner, truth) {
            self.mismatch(figures, || {
                format!("slot {slot}, snapshot {}: {what}", known.as_of)
            });
        }
    }

    /// Compares a shown record with the truth of its snapshot; that of the own entity but for how it moves.
    fn judge(&self, known: &Known, owner: Option<Entity>, truth: &Truth) -> Result<(), String> {
        let Known {
            record,
            as_of,
            as_of_us,
            ..
        } = known;
        let Some(frame) = truth.frame(*as_of) else {
            return Err(format!("there is no frame {as_of}"));
        };
        if frame.stream_epoch != self.stream_epoch {
            return Err(format!(
                "a record of stream {} is shown in stream {}",
                frame.stream_epoch, self.stream_epoch
            ));
        }
        if frame.server_us != *as_of_us {
            return Err(format!(
                "its time is {as_of_us} us, the frame's {} us",
                frame.server_us
            ));
        }
        match truth.at(frame, record.entity) {
            Fact::Alive(expected) if is_right(record, expected, owner) => Ok(()),
            Fact::Alive(expected) => Err(format!("shown {record:?}, true is {expected:?}")),
            fact => Err(format!("entity {} is shown, true is {fact:?}", record.entity)),
        }
    }

    /// Who is gone was not to be seen any more. Why it is gone is looked at where the entry came (`leaks`).
    fn look_at_departure(&mut self, slot: Slot, gone: &Gone, oracle: &Oracle<'_>, figures: &mut Figures) {
        figures.departures_checked += 1;
        self.moved_on(slot, gone.as_of);
        let truth = oracle.truth;
        let must = oracle
            .sight
            .as_deref()
            .map_or(Verdict::Must, |sight| sight.judge(truth, gone.as_of, gone.entity));
        let fact = truth.frame(gone.as_of).map(|frame| truth.at(frame, gone.entity));
        let right = match (gone.absence, fact) {
            (Absence::Destroyed { at_us, reason }, Some(fact)) => {
                self.destroyed.insert(gone.entity);
                fact == Fact::Ended { at_us, reason }
            }
            // A view that grows with the very snapshot that says what the smaller one had: who is in the larger one
            // again goes and comes.
            (Absence::Unheard, Some(Fact::Alive(_))) => oracle
                .sight
                .as_deref()
                .is_some_and(|sight| !sight.always(truth, gone.as_of, gone.entity)),
            (_, Some(fact)) => !matches!(fact, Fact::Alive(_)) || must != Verdict::Must,
            (_, None) => false,
        };
        if !right {
            self.mismatch(figures, || {
                format!("slot {slot}: shown {gone:?}, true is {fact:?}")
            });
        }
    }

    fn moved_on(&mut self, slot: Slot, as_of: Tick) {
        let slot = usize::from(slot);
        if self.as_of.len() <= slot {
            self.as_of.resize(slot + 1, None);
        }
        if let Some(before) = self.as_of[slot].replace(as_of)
            && before.is_after(as_of)
        {
            self.found
                .push(format!("slot {slot} went from snapshot {before} back to {as_of}"));
        }
    }

    fn mismatch(&mut self, figures: &mut Figures, what: impl FnOnce() -> String) {
        if self.is_tainted() {
            figures.tainted_records += 1;
        } else {
            figures.mismatches += 1;
            self.found.push(what());
        }
    }

    /// Looks at what the game is told. True when the session ended.
    pub fn told(
        &mut self,
        now_us: u64,
        client: &Client,
        event: &ClientEvent,
        oracle: &mut Oracle<'_>,
        figures: &mut Figures,
    ) -> bool {
        if self.watch.is_some() && !matches!(event, ClientEvent::World(_)) {
            let (epoch, generation) = (client.session_epoch(), client.generation());
            self.notes.push(format!(
                "{event:?}; session epoch {epoch}, generation {generation}"
            ));
        }
        match event {
            ClientEvent::World(event) => {
                let wrong = self.told.event(now_us, event, client, oracle, figures);
                self.found.extend(wrong);
            }
            ClientEvent::StreamChanged(epoch) => self.told = Told::new(*epoch),
            ClientEvent::ViewComplete => {
                figures.complete_views += 1;
                self.told.view_complete(now_us);
            }
            ClientEvent::Closed(Ending::Left) => return true,
            ClientEvent::Closed(ending) => {
                self.found.push(format!("the session ended: {}", ending.label()));
                return true;
            }
            _ => {}
        }
        false
    }

    /// Looks whether a flipped bit is still at work: in the tables, of which the caller compared those that both
    /// ends name, or in what is shown.
    pub fn look_at_taint(
        &mut self,
        now_us: u64,
        client: &Client,
        tables_right: bool,
        truth: &Truth,
        figures: &mut Figures,
    ) {
        let owner = client.assigned().entity;
        let shown = client.display().records();
        let known = shown.filter_map(|(slot, ..)| client.display().known(slot));
        let of_memory = known.filter(|known| truth.frame(known.as_of).is_some());
        let wrong = of_memory
            .filter_map(|known| self.judge(&known, owner, truth).err())
            .next();
        let Some(taint) = self.taint.as_mut() else {
            return;
        };
        match taint.look(now_us, client, tables_right, wrong, truth) {
            Look::Working => {}
            Look::TooLong(what) => self.found.push(what),
            Look::Gone => {
                taint.count(figures);
                self.taint = None;
            }
        }
    }

    /// The end came without a session although there should be one.
    pub fn stranded(&mut self, state: SessionState) {
        self.found
            .push(format!("the links were clean and the client is still {state:?}"));
    }

    /// The end: links were clean long enough, so everything must be there and nothing else.
    pub fn end(&mut self, client: &Client, oracle: &Oracle<'_>, figures: &mut Figures) {
        let sight = oracle.sight.as_deref();
        self.found
            .extend(self.whole.end(client, sight, oracle.truth, figures));
        self.found.extend(self.told.end(client, oracle));
    }

    /// Something else was found about the session.
    pub fn find(&mut self, what: impl IntoIterator<Item = String>) {
        self.found.extend(what);
    }
}
