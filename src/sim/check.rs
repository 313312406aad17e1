//! What every client is watched for, datagram by datagram, against the oracle.
//!
//! Shown records equal the truth of their snapshot's frame; a slot never goes back in time; a destroyed life is
//! never shown again; nothing of an old stream is shown in a new one; the window stays within its slots; nothing
//! is refused that an honest relay over a bad link cannot cause. After a flipped bit, wrong records are counted
//! apart until the healing, which must come.

use std::collections::{HashMap, HashSet};

use super::hasher::EntityHasher;
use super::outcome::Figures;
use super::taint::{Look, Taint};
use super::told::Told;
use super::truth::{Fact, FrameFact, Truth};
use crate::client::display::{Absence, DisplayPlace, Gone, Known, ShownKind};
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::limits::WINDOW_SLOTS;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::slots::Slot;
use crate::window::receive::Rejection;

/// Time between two looks at everything shown.
const LOOK_US: u64 = 200_000;
/// The longest that an entity may be shown after its end while whole snapshots arrive: a view resync, and a
/// digest that is lost some times.
pub const UNDEAD_WITHIN_US: u64 = 4_000_000;

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
    /// What was shown after its end at the last look at everything, since when on the clock of looks.
    undead: HashMap<Entity, u64, EntityHasher>,
    /// Entries left out in the run at the last look.
    omitted: u64,
    looked_at_us: u64,
    looks_us: u64,
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
    }

    /// Looks at a client after it took a datagram.
    pub fn received(
        &mut self,
        now_us: u64,
        client: &Client,
        received: Received,
        truth: &Truth,
        figures: &mut Figures,
    ) {
        match received {
            Received::Refused(refusal) => self.refused(refusal, client),
            Received::Snapshot { .. } | Received::Welcomed => {
                self.follow_stream(client, truth);
                self.follow_time(now_us, client, truth, figures);
                self.look_at_changes(client, truth, figures);
                self.look_at_whole(now_us, client, truth, figures);
                let slots = client.statistics().slots_in_use;
                if slots > WINDOW_SLOTS as u64 {
                    self.found
                        .push(format!("{slots} slots are in use, more than {WINDOW_SLOTS}"));
                }
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
            self.undead.clear();
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
            if self.newest_at_us > 0 {
                figures.gap_us.add(now_us - self.newest_at_us);
            }
        }
        self.newest = Some((newest.id, newest.server_us));
        self.newest_at_us = now_us;
        figures.slots.add(client.statistics().slots_in_use);
    }

    /// Once the newest snapshot is whole: what lives is shown as in its frame. What is shown beyond that is followed,
    /// since a short life may be heard of and its end not.
    fn look_at_whole(&mut self, now_us: u64, client: &Client, truth: &Truth, figures: &mut Figures) {
        let since_us = now_us - self.looked_at_us;
        let newest = client
            .newest()
            .filter(|newest| newest.is_whole() && since_us >= LOOK_US);
        let Some(frame) = newest.and_then(|newest| truth.frame(newest.id)) else {
            return;
        };
        self.looked_at_us = now_us;
        self.looks_us += since_us.min(2 * LOOK_US);
        if self.is_tainted() || frame.stream_epoch != self.stream_epoch {
            self.undead.clear();
            return;
        }
        let mut wrong = core::mem::take(&mut self.undead);
        let mut still: HashMap<Entity, u64, EntityHasher> = HashMap::default();
        let mut alive = 0;
        let mut behind = Vec::new();
        for (_, record, _) in client.display().records() {
            match truth.at(frame, record.entity) {
                Fact::Alive(expected) => {
                    alive += 1;
                    if *expected != record {
                        behind.push(record.entity);
                    }
                }
                _ => {
                    let since = wrong.remove(&record.entity).unwrap_or(self.looks_us);
                    still.insert(record.entity, since);
                }
            }
        }
        if alive < frame.living {
            let shown: HashSet<Entity, EntityHasher> = client
                .display()
                .records()
                .map(|(_, record, _)| record.entity)
                .collect();
            behind.extend(truth.living_at(frame).filter(|entity| !shown.contains(entity)));
        }
        figures.looks += 1;
        figures.looks_behind += u64::from(!behind.is_empty());
        figures.looks_undead += u64::from(!still.is_empty());
        // Base and entries make the whole frame, unless the budget has cut it.
        if figures.records_omitted == 0 {
            for entity in behind {
                let shown = client
                    .display()
                    .find(entity)
                    .and_then(|slot| client.display().known(slot));
                let (tick, fact) = (frame.tick, truth.at(frame, entity));
                self.found.push(format!(
                    "snapshot {tick} is whole, and entity {entity} is shown as {shown:?}; true is {fact:?}"
                ));
            }
        }
        wrong
            .values()
            .for_each(|since| figures.undead_us.add(self.looks_us.saturating_sub(*since)));
        self.undead = still;
        if core::mem::replace(&mut self.omitted, figures.records_omitted) != figures.records_omitted {
            // An end may be among what the budget left out: the wait for it begins anew.
            self.undead
                .values_mut()
                .for_each(|since| *since = self.looks_us.max(*since));
        }
        self.say_undead(frame, truth);
    }

    /// Says of which entities the end has not been heard for too long, once each.
    fn say_undead(&mut self, frame: &FrameFact, truth: &Truth) {
        for (entity, since) in &mut self.undead {
            if self.looks_us > since.saturating_add(UNDEAD_WITHIN_US) {
                let (tick, fact) = (frame.tick, truth.at(frame, *entity));
                let us = self.looks_us - *since;
                self.found.push(format!(
                    "entity {entity} has been shown for {us} us too long, at snapshot {tick} too: {fact:?}"
                ));
                *since = u64::MAX / 2;
            }
        }
    }

    fn look_at_changes(&mut self, client: &Client, truth: &Truth, figures: &mut Figures) {
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
                    self.look_at_record(shown.slot, shown.kind, &known, truth, figures)
                }
                DisplayPlace::Gone(gone) => self.look_at_departure(shown.slot, &gone, truth, figures),
                DisplayPlace::Never => self.found.push(format!("slot {} changed to nothing", shown.slot)),
            }
        }
    }

    fn look_at_record(
        &mut self,
        slot: Slot,
        kind: ShownKind,
        known: &Known,
        truth: &Truth,
        figures: &mut Figures,
    ) {
        figures.records_checked += 1;
        self.moved_on(slot, known.as_of);
        let entity = known.record.entity;
        if self.destroyed.contains(&entity) && kind == ShownKind::Entered {
            self.found.push(format!(
                "entity {entity} was destroyed and is shown again in slot {slot}"
            ));
        }
        if let Err(what) = self.judge(known, truth) {
            self.mismatch(figures, || {
                format!("slot {slot}, snapshot {}: {what}", known.as_of)
            });
        }
    }

    /// Compares a shown record with the truth of its snapshot.
    fn judge(&self, known: &Known, truth: &Truth) -> Result<(), String> {
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
            Fact::Alive(expected) if expected == record => Ok(()),
            Fact::Alive(expected) => Err(format!("shown {record:?}, true is {expected:?}")),
            fact => Err(format!("entity {} is shown, true is {fact:?}", record.entity)),
        }
    }

    fn look_at_departure(&mut self, slot: Slot, gone: &Gone, truth: &Truth, figures: &mut Figures) {
        figures.departures_checked += 1;
        self.moved_on(slot, gone.as_of);
        let fact = truth.frame(gone.as_of).map(|frame| truth.at(frame, gone.entity));
        let right = match (gone.absence, fact) {
            (
                Absence::Destroyed { at_us, reason },
                Some(Fact::Ended {
                    at_us: at,
                    reason: why,
                }),
            ) => {
                self.destroyed.insert(gone.entity);
                (at_us, reason) == (at, why)
            }
            (Absence::Unheard, Some(fact)) => !matches!(fact, Fact::Alive(_)),
            _ => false,
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
        truth: &Truth,
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
                let wrong = self.told.event(now_us, event, client, truth, figures);
                self.found.extend(wrong);
            }
            ClientEvent::StreamChanged(epoch) => self.told = Told::new(*epoch),
            ClientEvent::ViewComplete => {
                figures.complete_views += 1;
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
        let shown = client.display().records();
        let known = shown.filter_map(|(slot, ..)| client.display().known(slot));
        let of_memory = known.filter(|known| truth.frame(known.as_of).is_some());
        let wrong = of_memory
            .filter_map(|known| self.judge(&known, truth).err())
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
    pub fn end(&mut self, client: &Client, truth: &Truth, figures: &mut Figures) {
        let Some(frame) = truth.newest() else { return };
        let mut shown: HashMap<Entity, _, EntityHasher> = client
            .display()
            .records()
            .map(|(_, record, as_of)| (record.entity, (record, as_of)))
            .collect();
        for entity in truth.living() {
            figures.records_checked += 1;
            let (record, as_of) = match shown.remove(entity) {
                Some(shown) => shown,
                None => {
                    figures.missing += 1;
                    self.found.push(format!("entity {entity} is missing at the end"));
                    continue;
                }
            };
            let expected = truth.at(frame, *entity);
            if expected != Fact::Alive(&record) {
                figures.missing += 1;
                self.found.push(format!(
                    "at the end entity {entity} is shown as of {as_of} as {record:?}, true is {expected:?}"
                ));
            }
        }
        for entity in shown.into_keys() {
            figures.ghosts += 1;
            self.found
                .push(format!("entity {entity} is shown at the end and does not live"));
        }
        self.found.extend(self.told.end(client, truth, figures));
        if self.newest.is_none_or(|(tick, _)| tick != frame.tick) {
            self.found.push(format!(
                "the newest snapshot is {:?}, not {}",
                self.newest, frame.tick
            ));
        }
    }
}
