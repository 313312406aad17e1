//! The events that a client's game was told of: once, in order, none left out, none about a stranger, and of the stream
//! that is shown (SPEC CTL1, CTL3, PLY7).

use super::oracle::Oracle;
use super::outcome::Figures;
use super::sight::Verdict;
use super::world::event_number;
use crate::client::display::Fate;
use crate::client::session::Client;
use crate::state::update::Event;

/// How far the game was told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    stream: u32,
    last: u64,
    /// Since when events are due: the first complete view of the stream.
    due_us: Option<u64>,
}

impl Told {
    /// Nothing of a new stream was told yet.
    #[must_use]
    pub fn new(stream: u32) -> Told {
        Told {
            stream,
            ..Told::default()
        }
    }

    /// The view is complete: events are due from now on.
    pub fn view_complete(&mut self, now_us: u64) {
        self.due_us.get_or_insert(now_us);
    }

    fn since_us(&self) -> u64 {
        self.due_us.unwrap_or(u64::MAX)
    }

    /// The game is told of an event; what is wrong about that.
    pub fn event(
        &mut self,
        now_us: u64,
        event: &Event,
        client: &Client,
        oracle: &mut Oracle<'_>,
        figures: &mut Figures,
    ) -> Option<String> {
        let Told {
            stream: shown, last, ..
        } = *self;
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
        if let Some(event) = oracle.truth.event_after(shown, number - 1) {
            figures.event_late_us.add(now_us - event.at_us);
        }
        let gave_up = gave_up(client, oracle);
        let sight = oracle.sight.as_deref_mut()?;
        let (missed, verdict) = sight.take_events(shown, number, self.since_us());
        if verdict == Some(Verdict::Never) {
            figures.leaks += 1;
            return Some(format!("LEAK: event {number} is about a stranger: {event:?}"));
        }
        figures.events_missed += missed.len() as u64;
        let wrong = !missed.is_empty() && !gave_up;
        wrong.then(|| format!("event {number} was delivered, and {missed:?} before it were not"))
    }

    /// The run is over and the links were clean: which events have not come. One about somebody who was never heard of
    /// waits (SPEC CTL2).
    #[must_use]
    pub fn end(&self, client: &Client, oracle: &Oracle<'_>) -> Option<String> {
        let due = oracle.sight.as_deref()?.due(self.stream, self.since_us());
        let next = oracle.truth.event_after(self.stream, *due.first()? - 1)?;
        let waits = next
            .entity
            .is_some_and(|entity| client.display().fate(entity) == Fate::Unknown);
        let last = self.last;
        let wrong = !waits && !gave_up(client, oracle);
        wrong.then(|| format!("event {last} was the last to be delivered, and {next:?} was not: {due:?}"))
    }
}

/// Full queues are counted; nothing else may lose an event.
fn gave_up(client: &Client, oracle: &Oracle<'_>) -> bool {
    client.statistics().events_dropped + oracle.refused > 0
}
