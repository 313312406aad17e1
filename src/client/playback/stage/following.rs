//! What a playback takes from the client that it follows.

use std::collections::HashSet;

use super::{Drawn, Playback, Turned, TurnedKind};
use crate::client::display::{Absence, ShownKind};
use crate::client::playback::evaluate::PoseMode;
use crate::client::session::Client;
use crate::delta::decode::Change;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

impl Playback {
    /// Begins anew with a client that has a view already: a driver's next session is shown when its view is whole, and what
    /// changed of it before was not watched. What is drawn stays, and is called stale, until there is a picture of the new
    /// session; what [`Playback::turned`] says of that frame leads from one to the other.
    pub fn adopt(&mut self, client: &Client, now_us: u64) {
        let mut kept: Vec<Drawn> = self.drawn().collect();
        for drawn in &mut kept {
            (drawn.at.mode, drawn.at.valid_at_r) = (PoseMode::Stale, false);
        }
        // What waits of events was told by the old session and has happened: it is due now, for r begins anew.
        let mut moments = core::mem::take(&mut self.moments);
        moments.release();
        let Some(schema) = client.schema() else {
            // Streams are numbered by each relay: without one nothing of the old number counts any more.
            self.stream_epoch = 0;
            self.moments = moments;
            return;
        };
        self.begin_stream(client.stream_epoch(), schema);
        (self.kept, self.moments) = (kept, moments);
        let Some(newest) = client.newest() else { return };
        self.take_part(newest.server_us, newest.is_whole(), now_us);
        for (slot, record, _) in client.display().records() {
            self.take_entered(slot, &record, newest.server_us);
        }
        if newest.view_complete {
            self.take_complete_view();
        }
    }

    /// The first picture after [`adopt`](Playback::adopt): who was drawn until now and is no more departs, and who is drawn still
    /// has moved to another timeline.
    pub(super) fn hand_over(&mut self) {
        let kept: HashSet<(Slot, Entity)> = self
            .kept
            .drain(..)
            .map(|drawn| (drawn.slot, drawn.entity))
            .collect();
        for turned in &mut self.turned {
            if turned.kind == TurnedKind::Appeared
                && kept.contains(&(turned.slot, turned.entity))
                && let Some(segment) = self.tracks.shown_segment(turned.slot, turned.entity)
            {
                turned.kind = TurnedKind::Switched { segment, late: true };
            }
        }
        for (slot, entity) in kept {
            if self.tracks.shown_segment(slot, entity).is_none() {
                let kind = TurnedKind::Departed(Absence::Unheard);
                self.turned.push(Turned { slot, entity, kind });
            }
        }
    }

    /// Takes what the client's last [`receive`](Client::receive) brought.
    pub fn receive(&mut self, client: &Client, now_us: u64) {
        if client.stream_epoch() != self.stream_epoch
            && let Some(schema) = client.schema()
        {
            self.begin_stream(client.stream_epoch(), schema);
        }
        if let (Some(id), Some(at_us)) = (client.decoded_of(), client.decoded_at_us()) {
            let newest = client.newest();
            let whole = newest.is_some_and(|newest| newest.id == id && newest.is_whole());
            self.take_part(at_us, whole, now_us);
            if newest.is_some_and(|newest| newest.view_complete) {
                self.take_complete_view();
            }
            for shown in client.changes() {
                let known = || client.display().known(shown.slot);
                let known = || known().filter(|known| known.record.entity == shown.entity);
                match shown.kind {
                    ShownKind::Entered => {
                        if let Some(known) = known() {
                            self.take_entered(shown.slot, &known.record, at_us);
                        }
                    }
                    ShownKind::Updated => {
                        if let Some(known) = known() {
                            self.take_record(shown.slot, &known.record);
                        }
                    }
                    ShownKind::Awake => self.take_awake(shown.slot, shown.entity, at_us),
                    ShownKind::Removed(absence) => {
                        self.take_removed(shown.slot, shown.entity, absence, at_us);
                    }
                }
            }
            if newest.is_some_and(|newest| newest.id != id) {
                self.take_late(client);
            }
            if !whole {
                self.take_vouching(client, at_us);
            }
        }
        self.own = client.assigned().entity;
        if let Some(owner) = client.owner()
            && self.owner_tick != Some(owner.tick)
        {
            self.owner_tick = Some(owner.tick);
            self.own = self.own.or(Some(owner.record.entity));
            self.take_record(owner.slot, &owner.record);
        }
    }

    /// The records of a part vouch for the rests they speak of, whatever becomes of the other parts (SPEC ENT9).
    fn take_vouching(&mut self, client: &Client, at_us: u64) {
        for entry in client.decoded() {
            if let Change::Update(record) | Change::Complete(record) = entry.change {
                self.take_vouched(entry.slot, &record, at_us);
            }
        }
    }

    /// The entries of a late part fill gaps of histories (SPEC TAB6).
    fn take_late(&mut self, client: &Client) {
        for entry in client.decoded() {
            if let Change::Update(record) | Change::Complete(record) = entry.change {
                self.take_record(entry.slot, &record);
            }
        }
    }
}
