//! What every client is watched for, datagram by datagram, against the oracle.
//!
//! Shown records equal the truth of their snapshot's frame; a slot never goes back in time; a destroyed life is
//! never shown again; nothing of an old stream is shown in a new one; the window stays within its slots; nothing
//! is refused that an honest relay over a bad link cannot cause. After a flipped bit, wrong records are counted
//! apart until the healing, which must come.

use std::collections::{HashMap, HashSet};

use super::hasher::EntityHasher;
use super::outcome::Figures;
use super::truth::{Fact, Truth};
use super::world::event_number;
use crate::client::display::{Absence, DisplayPlace, Gone, Known, ShownKind};
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::limits::WINDOW_SLOTS;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::slots::Slot;
use crate::state::update::Event;
use crate::window::receive::Rejection;

/// The time a flipped bit may take to be found: a digest a second, one period of slack, and its way there.
pub const DETECT_WITHIN_US: u64 = 1_500_000;

/// What one session of a client has shown so far.
#[derive(Debug, Default)]
pub struct Check {
    stream_epoch: u32,
    as_of: Vec<Option<Tick>>,
    destroyed: HashSet<Entity, EntityHasher>,
    newest: Option<(Tick, u64)>,
    newest_at_us: u64,
    event: u64,
    taint: Option<Taint>,
    found: Vec<String>,
    /// Set once somebody asks for notes about an entity.
    watch: Option<u32>,
    notes: Vec<String>,
}

/// A bit was flipped and its healing is awaited.
#[derive(Clone, Copy, Debug)]
struct Taint {
    at_us: u64,
    session_epoch: u32,
    detected_us: Option<u64>,
    /// Records were shown wrong.
    shown: bool,
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

    /// A bit of a held table was flipped.
    pub fn flipped(&mut self, now_us: u64, client: &Client, figures: &mut Figures) {
        figures.flips += 1;
        self.taint.get_or_insert(Taint {
            at_us: now_us,
            session_epoch: client.session_epoch(),
            detected_us: None,
            shown: false,
        });
    }

    /// Silence has passed: the gap is nobody's.
    pub fn woke(&mut self) {
        self.newest_at_us = 0;
    }

    /// Looks at a client after it took a datagram.
    pub fn received(&mut self, now_us: u64, client: &Client, received: Received, truth: &Truth, figures: &mut Figures) {
        match received {
            Received::Refused(refusal) => self.refused(refusal, client),
            Received::Snapshot { .. } | Received::Welcomed => {
                self.follow_stream(client, truth);
                self.follow_time(now_us, client, truth, figures);
                self.look_at_changes(client, truth, figures);
                let slots = client.statistics().slots_in_use;
                if slots > WINDOW_SLOTS as u64 {
                    self.found.push(format!("{slots} slots are in use, more than {WINDOW_SLOTS}"));
                }
            }
            _ => self.follow_stream(client, truth),
        }
        if let Some(taint) = self.taint.as_mut()
            && taint.detected_us.is_none()
            && client.refusing().is_some()
        {
            taint.detected_us = Some(now_us);
            figures.flips_detected += 1;
            figures.detect_us.add(now_us - taint.at_us);
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
            self.found.push(format!("the stream epoch fell from {} to {epoch}", self.stream_epoch));
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
            self.event = 0;
        }
    }

    /// The newest snapshot's time never falls within a stream.
    fn follow_time(&mut self, now_us: u64, client: &Client, truth: &Truth, figures: &mut Figures) {
        let Some(newest) = client.newest() else { return };
        if let Some((tick, server_us)) = self.newest {
            if newest.id == tick {
                return;
            }
            let of_this = truth.frame(newest.id).is_some_and(|frame| frame.stream_epoch == self.stream_epoch);
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

    fn look_at_changes(&mut self, client: &Client, truth: &Truth, figures: &mut Figures) {
        for shown in client.changes() {
            if self.watch == Some(shown.entity.id) {
                let (place, newest) = (client.display().place(shown.slot), client.newest().map(|newest| newest.id));
                self.notes.push(format!("{:?} in slot {}, now {place:?}; newest {newest:?}", shown.kind, shown.slot));
            }
            match client.display().place(shown.slot) {
                DisplayPlace::Known(known) => self.look_at_record(shown.slot, shown.kind, known, truth, figures),
                DisplayPlace::Gone(gone) => self.look_at_departure(shown.slot, gone, truth, figures),
                DisplayPlace::Never => self.found.push(format!("slot {} changed to nothing", shown.slot)),
            }
        }
    }

    fn look_at_record(&mut self, slot: Slot, kind: ShownKind, known: &Known, truth: &Truth, figures: &mut Figures) {
        figures.records_checked += 1;
        self.moved_on(slot, known.as_of);
        let entity = known.record.entity;
        if self.destroyed.contains(&entity) && kind == ShownKind::Entered {
            self.found.push(format!("entity {entity} was destroyed and is shown again in slot {slot}"));
        }
        if let Err(what) = self.judge(known, truth) {
            self.mismatch(figures, || format!("slot {slot}, snapshot {}: {what}", known.as_of));
        }
    }

    /// Compares a shown record with the truth of its snapshot.
    fn judge(&self, known: &Known, truth: &Truth) -> Result<(), String> {
        let Known { record, as_of, as_of_us, .. } = known;
        let Some(frame) = truth.frame(*as_of) else {
            return Err(format!("there is no frame {as_of}"));
        };
        if frame.stream_epoch != self.stream_epoch {
            return Err(format!("a record of stream {} is shown in stream {}", frame.stream_epoch, self.stream_epoch));
        }
        if frame.server_us != *as_of_us {
            return Err(format!("its time is {as_of_us} us, the frame's {} us", frame.server_us));
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
            (Absence::Destroyed { at_us, reason }, Some(Fact::Ended { at_us: at, reason: why })) => {
                self.destroyed.insert(gone.entity);
                (at_us, reason) == (at, why)
            }
            (Absence::Unheard, Some(fact)) => !matches!(fact, Fact::Alive(_)),
            _ => false,
        };
        if !right {
            self.mismatch(figures, || format!("slot {slot}: shown {gone:?}, true is {fact:?}"));
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
            self.found.push(format!("slot {slot} went from snapshot {before} back to {as_of}"));
        }
    }

    fn mismatch(&mut self, figures: &mut Figures, what: impl FnOnce() -> String) {
        if let Some(taint) = self.taint.as_mut() {
            taint.shown = true;
            figures.tainted_records += 1;
        } else {
            figures.mismatches += 1;
            self.found.push(what());
        }
    }

    /// Looks at what the game is told. True when the session ended.
    pub fn told(&mut self, now_us: u64, client: &Client, event: &ClientEvent, truth: &Truth, figures: &mut Figures) -> bool {
        if self.watch.is_some() && !matches!(event, ClientEvent::World(_)) {
            let (epoch, generation) = (client.session_epoch(), client.generation());
            self.notes.push(format!("{event:?}; session epoch {epoch}, generation {generation}"));
        }
        match event {
            ClientEvent::World(event) => self.event(event),
            ClientEvent::ViewComplete => {
                figures.complete_views += 1;
                let healed = self.taint.filter(|taint| client.session_epoch() > taint.session_epoch);
                if let Some(taint) = healed {
                    self.taint = None;
                    figures.flips_healed += u64::from(taint.detected_us.is_some());
                    figures.heal_us.add(now_us - taint.at_us);
                    self.look_at_all(client, truth, figures);
                }
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

    /// Events come once, in order, and of the stream that is shown (SPEC CTL3).
    fn event(&mut self, event: &Event) {
        let Some((stream, number)) = event_number(&event.payload) else {
            return self.found.push(format!("an event came with other bytes: {:?}", event.payload));
        };
        if stream != u64::from(self.stream_epoch) {
            let shown = self.stream_epoch;
            self.found.push(format!("event {number} of stream {stream} was delivered in stream {shown}"));
        } else if number <= self.event {
            self.found.push(format!("event {number} was delivered after event {}", self.event));
        } else {
            self.event = number;
        }
    }

    /// Time passes: a flipped bit that is not found by now must have been without effect.
    pub fn tick(&mut self, now_us: u64, client: &Client, truth: &Truth, figures: &mut Figures) {
        let Some(taint) = self.taint else { return };
        if taint.detected_us.is_some() || now_us < taint.at_us + DETECT_WITHIN_US {
            return;
        }
        self.taint = None;
        if taint.shown {
            self.found.push(format!(
                "a bit flipped {} us ago, records were shown wrong, and no digest has told",
                now_us - taint.at_us
            ));
        }
        figures.flips_harmless += 1;
        self.look_at_all(client, truth, figures);
    }

    /// Compares everything shown with the truth of its snapshot.
    pub fn look_at_all(&mut self, client: &Client, truth: &Truth, figures: &mut Figures) {
        for (slot, record, as_of) in client.display().records() {
            figures.records_checked += 1;
            let known = client.display().known(slot).filter(|known| truth.frame(known.as_of).is_some());
            if let Some(Err(what)) = known.map(|known| self.judge(known, truth)) {
                let entity = record.entity;
                self.mismatch(figures, || format!("slot {slot}, entity {entity} as of {as_of}: {what}"));
            }
        }
    }

    /// The end came without a session although there should be one.
    pub fn stranded(&mut self, state: SessionState) {
        self.found.push(format!("the links were clean and the client is still {state:?}"));
    }

    /// The end: links were clean long enough, so everything must be there and nothing else.
    pub fn end(&mut self, client: &Client, truth: &Truth, figures: &mut Figures) {
        let Some(frame) = truth.newest() else { return };
        let mut shown: HashMap<Entity, _, EntityHasher> =
            client.display().records().map(|(_, record, as_of)| (record.entity, (record, as_of))).collect();
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
            if expected != Fact::Alive(record) {
                figures.missing += 1;
                self.found.push(format!("at the end entity {entity} is shown as of {as_of} as {record:?}, true is {expected:?}"));
            }
        }
        for entity in shown.into_keys() {
            figures.ghosts += 1;
            self.found.push(format!("entity {entity} is shown at the end and does not live"));
        }
        if self.newest.is_none_or(|(tick, _)| tick != frame.tick) {
            self.found.push(format!("the newest snapshot is {:?}, not {}", self.newest, frame.tick));
        }
    }
}
