//! What a playback takes from the client that it follows.

use super::Playback;
use crate::client::display::ShownKind;
use crate::client::session::Client;
use crate::delta::decode::Change;

impl Playback {
    /// Begins anew with a client that has a view already: a driver's next session is shown when its view is whole, and what
    /// changed of it before was not watched.
    pub fn adopt(&mut self, client: &Client, now_us: u64) {
        let (Some(schema), Some(newest)) = (client.schema(), client.newest()) else {
            return;
        };
        self.begin_stream(client.stream_epoch(), schema);
        self.take_part(newest.server_us, newest.is_whole(), now_us);
        for (slot, record, _) in client.display().records() {
            self.take_entered(slot, &record, newest.server_us);
        }
        if newest.view_complete {
            self.take_complete_view();
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

    /// The entries of a late part fill gaps of histories (SPEC TAB6).
    fn take_late(&mut self, client: &Client) {
        for entry in client.decoded() {
            if let Change::Update(record) | Change::Complete(record) = entry.change {
                self.take_record(entry.slot, &record);
            }
        }
    }
}
