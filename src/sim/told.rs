//! The events that a client's game was told of: once, in order, none left out, and of the stream that is shown
//! (SPEC CTL3, PLY7).

use super::outcome::Figures;
use super::truth::Truth;
use super::world::event_number;
use crate::client::display::Fate;
use crate::client::session::Client;
use crate::state::update::Event;

/// How far the game was told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    stream: u32,
    last: u64,
}

impl Told {
    /// Nothing of a new stream was told yet.
    #[must_use]
    pub fn new(stream: u32) -> Told {
        Told { stream, last: 0 }
    }

    /// The game is told of an event; what is wrong about that.
    pub fn event(
        &mut self,
        now_us: u64,
        event: &Event,
        client: &Client,
        truth: &Truth,
        figures: &mut Figures,
    ) -> Option<String> {
        let Told { stream: shown, last } = *self;
        let Some((stream, number)) = event_number(&event.payload) else {
            return Some(format!("an event came with other bytes: {:?}", event.payload));
        };
        if stream != u64::from(shown) {
            return Some(format!(
                "event {number} of stream {stream} was delivered in stream {shown}"
            ));
        }
        if number <= last {
            return Some(format!("event {number} was delivered after event {last}"));
        }
        self.last = number;
        if let Some(event) = truth.event_after(shown, number - 1) {
            figures.event_late_us.add(now_us - event.at_us);
        }
        let after = truth
            .event_after(shown, last)
            .filter(|event| event.number != number)?;
        let wrong = last > 0 && !gave_up(client, figures);
        wrong.then(|| format!("event {number} was delivered after event {last}, and {after:?} was not"))
    }

    /// The run is over and the links were clean: which event has not come. One about somebody who was never heard of
    /// waits (SPEC CTL2).
    #[must_use]
    pub fn end(&self, client: &Client, truth: &Truth, figures: &Figures) -> Option<String> {
        let next = truth.event_after(self.stream, self.last)?;
        let waits = next
            .entity
            .is_some_and(|entity| client.display().fate(entity) == Fate::Unknown);
        let wrong = self.last > 0 && !waits && !gave_up(client, figures);
        wrong.then(|| {
            format!(
                "event {} was the last to be delivered, and {next:?} was not",
                self.last
            )
        })
    }
}

/// Full queues are counted; nothing else may lose an event.
fn gave_up(client: &Client, figures: &Figures) -> bool {
    client.statistics().events_dropped + figures.messages_dropped > 0
}
