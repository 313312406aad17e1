//! What the game has not fetched yet, in order.
//!
//! Bounded: where a game fetches nothing, what matters least goes first, and it is counted. A turn of the attempts says what
//! [`Driver::is_live`](super::Driver::is_live) and the counts say too; an event of the world is news, and one that is critical more
//! so (SPEC CTL3); which session is shown is what all the others are about, so it stays to the last.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use super::DriverEvent;
use crate::client::inbox::ClientEvent;
use crate::limits::DRIVER_EVENTS_MAX;

/// Events that wait for the game.
pub(super) struct Told {
    events: VecDeque<DriverEvent>,
    dropped: u64,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            events: VecDeque::with_capacity(DRIVER_EVENTS_MAX),
            dropped: 0,
        }
    }
}

impl Told {
    /// Tells of an event. Where there is no room the oldest of those that matter least goes, which may be the new one.
    pub(super) fn push(&mut self, event: DriverEvent) {
        if self.events.len() >= DRIVER_EVENTS_MAX {
            self.dropped += 1;
            let ranks = (0..).zip(self.events.iter().map(rank));
            let least = ranks.min_by_key(|(_, rank)| *rank);
            match least.filter(|(_, least)| *least <= rank(&event)) {
                Some((place, _)) => self.events.remove(place),
                None => return,
            };
        }
        self.events.push_back(event);
    }

    /// The next event.
    pub(super) fn pop(&mut self) -> Option<DriverEvent> {
        self.events.pop_front()
    }

    /// True while another event finds room.
    pub(super) fn has_room(&self) -> bool {
        self.events.len() < DRIVER_EVENTS_MAX
    }

    /// Events that wait.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Events that had to go.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// How much an event matters.
fn rank(event: &DriverEvent) -> u8 {
    match event {
        DriverEvent::Asking(_) | DriverEvent::Silent | DriverEvent::Heard | DriverEvent::Rebound => 0,
        DriverEvent::Failed(_) => 1,
        DriverEvent::Client(ClientEvent::World(event)) if !event.critical => 2,
        DriverEvent::Client(_) | DriverEvent::WantsToken => 3,
        DriverEvent::Session(_) | DriverEvent::Over(_) => 4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::client::inbox::Ending;
    use crate::state::update::Event;

    fn world(critical: bool, at_us: u64) -> DriverEvent {
        DriverEvent::Client(ClientEvent::World(Event {
            kind: 1,
            critical,
            entity: None,
            at_us,
            payload: Vec::new(),
        }))
    }

    /// SPEC CTL3: a game that fetches nothing for long hears of every session, and of what is critical, and what went is counted.
    #[test]
    fn ctl3_sessions_and_critical_events_outlast_a_flood_of_turns() {
        let mut told = Told::default();
        let relay = |port: u64| std::net::SocketAddr::from(([127, 0, 0, 1], port as u16));
        let (mut kept, mut pushed) = (Vec::new(), 0);
        for turn in 0..1_000_u64 {
            let of_turn = match turn % 100 {
                10 => DriverEvent::Session(relay(turn)),
                11 => world(true, turn),
                _ if turn % 3 == 0 => world(false, turn),
                _ if turn % 3 == 1 => DriverEvent::Failed(Ending::Unanswered),
                _ => DriverEvent::Asking(relay(turn)),
            };
            if turn % 100 == 10 || turn % 100 == 11 {
                kept.push(of_turn.clone());
            }
            pushed += 1;
            told.push(of_turn);
        }
        told.push(DriverEvent::Over(Ending::Left));
        kept.push(DriverEvent::Over(Ending::Left));
        let fetched: Vec<DriverEvent> = core::iter::from_fn(|| told.pop()).collect();
        assert_eq!(fetched.len(), DRIVER_EVENTS_MAX);
        assert_eq!(told.dropped(), pushed + 1 - DRIVER_EVENTS_MAX as u64);
        let lasting: Vec<DriverEvent> = fetched.into_iter().filter(|event| rank(event) > 2).collect();
        assert_eq!(lasting, kept, "in order");
    }

    /// A turn that matters less than all that waits is the one to go.
    #[test]
    fn news_does_not_go_for_a_turn() {
        let mut told = Told::default();
        for at_us in 0..DRIVER_EVENTS_MAX as u64 {
            told.push(world(true, at_us));
        }
        told.push(DriverEvent::Silent);
        assert_eq!((told.pop(), told.dropped()), (Some(world(true, 0)), 1));
    }
}
