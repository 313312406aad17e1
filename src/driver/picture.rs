//! A driver that keeps a playback in step: what a game with the ordinary picture would have to do for itself.

use super::{Driver, DriverEvent};
use crate::client::inbox::ClientEvent;
use crate::client::playback::stage::Playback;

impl Driver {
    /// One turn as [`poll`](Driver::poll), and all that `playback` is to be told of it: each snapshot as it comes, each new session
    /// at its turn, and the events of the world, which it gives when the picture has come to them
    /// ([`Playback::poll_due`]). [`poll_event`](Driver::poll_event) still tells the rest, sessions among it, and those events that
    /// the playback has no room for. One playback for one driver.
    pub fn poll_playback(&mut self, now_us: u64, playback: &mut Playback) {
        self.poll_with(now_us, |client, _| playback.receive(client, now_us));
        // In turn, once each: what is for the game goes to the end.
        for _ in 0..self.told_events.len() {
            let Some(event) = self.told_events.pop() else {
                break;
            };
            if matches!(event, DriverEvent::Session(_)) {
                self.adopt(now_us, playback);
            }
            self.tell_rest(event, playback);
        }
        self.adopt(now_us, playback);
        while self.told_events.has_room()
            && let Some(event) = self.shown.client.poll_event()
        {
            self.tell_rest(DriverEvent::Client(event), playback);
        }
    }

    /// Has the playback adopt the session shown, once.
    fn adopt(&mut self, now_us: u64, playback: &mut Playback) {
        if core::mem::replace(&mut self.adopted, self.counts.sessions) != self.counts.sessions {
            playback.adopt(self.client(), now_us);
        }
    }

    /// Tells an event that is not for the playback.
    fn tell_rest(&mut self, event: DriverEvent, playback: &mut Playback) {
        match event {
            DriverEvent::Client(ClientEvent::World(event)) => {
                if let Err(event) = playback.hold(event) {
                    self.tell(DriverEvent::Client(ClientEvent::World(event)));
                }
            }
            event => self.tell(event),
        }
    }
}
