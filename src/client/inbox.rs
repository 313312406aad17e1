//! What the game is told, in order: events of the world, messages to this client, and turns of the session (SPEC
//! CTL1..CTL3).
//!
//! Events are delivered once and in the order of the reliable stream. One whose entity has never been heard of
//! waits, and those behind it wait with it; usually the next snapshot brings the entity. After a second its
//! complete record is asked for, after five it is given up, and when [`WAITING_MAX`] wait, the foremost is
//! given up at once, so the queue is bounded and a stream of events never stalls for long. An event about an
//! entity that is gone is delivered: that is how a death is told. So is one about an earlier life of a known id,
//! since that life cannot come any more.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use super::display::{DisplayView, Fate};
use super::statistics::Statistics;
use crate::delta::message::{Assigned, Directed, Message};
use crate::limits::{RECORD_REQUESTS_MAX, STREAM_MESSAGES_MAX};
use crate::state::entity::Entity;
use crate::state::update::Event;
use crate::wire::bytes::{ByteReader, ReadError};
use crate::wire::handshake::Denial;
use crate::wire::payload::CloseReason;
use crate::wire::stream::StreamReceiver;

/// Events that may wait for their entity (SPEC CTL2).
pub const WAITING_MAX: usize = 64;
/// An event waits this long before its entity's record is asked for, microseconds.
pub const ASK_AFTER_US: u64 = 1_000_000;
/// An event is given up after this long, microseconds.
pub const GIVE_UP_AFTER_US: u64 = 5_000_000;
/// Events of the world not fetched by the game yet; above, the reliable stream is held up.
const READY_MAX: usize = STREAM_MESSAGES_MAX;
/// All events not fetched yet, turns of the session included; above, a turn takes the place of an older one of its kind. The end of
/// the session is told whatever waits.
const TOLD_MAX: usize = 2 * READY_MAX;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The relay closed it.
    Relay(CloseReason),
    /// The relay let it not begin.
    Denied(Denial),
    /// The client left.
    Left,
    /// No answer to the handshake.
    Unanswered,
    /// Nothing was heard from the relay for the idle time.
    Silent,
    /// The client's keys are spent (THREATS 27).
    Exhausted,
}

impl Ending {
    /// The word used in counters and reports.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Ending::Relay(reason) => reason.label(),
            Ending::Denied(denial) => denial.label(),
            Ending::Left => "client_left",
            Ending::Unanswered => "unanswered",
            Ending::Silent => "relay_silent",
            Ending::Exhausted => "client_exhausted",
        }
    }
}

/// What the game is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The session began.
    Connected,
    /// A new stream with this ordinal: the display was cleared, nothing of the old one counts (SPEC PLY7).
    StreamChanged(u32),
    /// The upstream was lost (true) or is back (SPEC OPS2).
    UpstreamStale(bool),
    /// The view is complete, for the first time in this session epoch (SPEC DEC12).
    ViewComplete,
    /// Something happened in the world.
    World(Event),
    /// The client's own entity and view, as the server side set them.
    Assigned(Assigned),
    /// The origin says something to this client alone.
    Directed(Directed),
    /// The rate tier of the client's own entity (SPEC CTL5): it comes every 2^tier ticks.
    Tier(u8),
    /// Inputs that left the client's window before the relay acknowledged them (SPEC PRE4).
    InputsLost {
        /// Number of the first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// The session ended.
    Closed(Ending),
}

/// What waits to be told: an event of the world, or a message to this client that came after one.
#[derive(Clone, Debug)]
struct Waiting {
    event: ClientEvent,
    since_us: u64,
    /// It was found waiting for its entity.
    blocked: bool,
}

impl Waiting {
    /// What of it has to do with the world.
    fn of_world(&self) -> Option<&Event> {
        match &self.event {
            ClientEvent::World(event) => Some(event),
            _ => None,
        }
    }

    /// Whom it is about.
    fn entity(&self) -> Option<Entity> {
        self.of_world().and_then(|event| event.entity)
    }

    /// Counts it as told or as given up.
    fn count(&self, told: bool, statistics: &mut Statistics) {
        match (self.of_world().is_some(), told) {
            (true, true) => statistics.events_delivered += 1,
            (true, false) => statistics.events_dropped += 1,
            (false, true) => {}
            (false, false) => statistics.messages_dropped += 1,
        }
    }
}

/// The events of one client.
#[derive(Default)]
pub(super) struct Inbox {
    stream: StreamReceiver,
    waiting: VecDeque<Waiting>,
    told: VecDeque<ClientEvent>,
    /// The stream that is shown.
    shown_stream: u32,
    /// The stream that messages are of; `None` until one says so.
    told_stream: Option<u32>,
    assigned: Assigned,
    tier: u8,
}

impl Inbox {
    /// The next message of the reliable stream that is expected.
    pub(super) fn next_message(&self) -> u32 {
        self.stream.next()
    }

    /// The next event for the game.
    pub(super) fn poll(&mut self) -> Option<ClientEvent> {
        self.told.pop_front()
    }

    /// The client's own entity and view, as told last.
    pub(super) fn assigned(&self) -> Assigned {
        self.assigned
    }

    /// The rate tier of the client's own entity, as told last.
    pub(super) fn tier(&self) -> u8 {
        self.tier
    }

    /// Tells of an input that left the window; of several in a row at once.
    pub(super) fn tell_lost(&mut self, number: u32) {
        if let Some(ClientEvent::InputsLost { first, count }) = self.told.back_mut()
            && first.checked_add(*count) == Some(number)
        {
            *count += 1;
            return;
        }
        self.tell(ClientEvent::InputsLost {
            first: number,
            count: 1,
        });
    }

    /// Tells of a turn of the session.
    pub(super) fn tell(&mut self, event: ClientEvent) {
        if self.told.len() >= TOLD_MAX {
            let kind = core::mem::discriminant(&event);
            let older = self
                .told
                .iter()
                .position(|told| core::mem::discriminant(told) == kind);
            match older {
                Some(older) => _ = self.told.remove(older),
                None if matches!(event, ClientEvent::Closed(_)) => {}
                None => return,
            }
        }
        self.told.push_back(event);
    }

    /// Takes a block of the reliable stream.
    ///
    /// # Errors
    /// [`ReadError`] when it is malformed; then nothing of it is taken.
    pub(super) fn receive(&mut self, reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
        self.stream.receive(reader)
    }

    /// A new stream: what still waits is of the old one and void, and so are what is under way and events of the world that
    /// nobody fetched yet: their times are of the old timeline, and playback has begun the new one before the game asks. Of
    /// what was assigned the view stays until another is told; the entity was one of the old stream.
    pub(super) fn begin_stream(&mut self, epoch: u32, statistics: &mut Statistics) {
        self.shown_stream = epoch;
        for waiting in self.waiting.drain(..) {
            waiting.count(false, statistics);
        }
        let before = self.told.len();
        self.told.retain(|event| !matches!(event, ClientEvent::World(_)));
        let void = (before - self.told.len()) as u64;
        statistics.events_delivered -= void;
        statistics.events_dropped += void;
        self.assigned.entity = None;
        self.tier = 0;
    }

    /// True when an event waits, so that time alone may bring something.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Delivers what can be delivered and gives up what waited too long. What is about somebody unknown waits, unless
    /// all that lived until `settled_us` has been shown: then that life came and went unheard, and waiting is over.
    pub(super) fn pump(
        &mut self,
        display: DisplayView<'_>,
        settled_us: Option<u64>,
        now_us: u64,
        statistics: &mut Statistics,
    ) {
        loop {
            self.refill(now_us, statistics);
            let full = self.waiting.len() >= WAITING_MAX;
            let Some(first) = self.waiting.front_mut() else {
                return;
            };
            if self.told.len() >= READY_MAX {
                return;
            }
            let settled = |event: &Event| settled_us.is_some_and(|until| event.at_us <= until);
            let known = first.of_world().is_some_and(settled)
                || first
                    .entity()
                    .is_none_or(|entity| display.fate(entity) != Fate::Unknown);
            let over = full || now_us.saturating_sub(first.since_us) >= GIVE_UP_AFTER_US;
            if !known && !first.blocked {
                first.blocked = true;
                statistics.events_waited += 1;
            }
            if !known && !over {
                return;
            }
            if let Some(waiting) = self.waiting.pop_front() {
                waiting.count(known, statistics);
                if known {
                    self.deliver(waiting.event);
                }
            }
        }
    }

    fn deliver(&mut self, event: ClientEvent) {
        match &event {
            ClientEvent::Assigned(assigned) => self.assigned = *assigned,
            ClientEvent::Tier(tier) => self.tier = *tier,
            _ => {}
        }
        self.told.push_back(event);
    }

    fn refill(&mut self, now_us: u64, statistics: &mut Statistics) {
        while self.waiting.len() < WAITING_MAX
            && let Some(bytes) = self.stream.pop()
        {
            let event = match Message::decode(&bytes) {
                Ok(Message::Stream(epoch)) => {
                    self.told_stream = Some(epoch);
                    continue;
                }
                Ok(Message::Event(event)) => ClientEvent::World(event),
                // They are about no entity, but keep their place behind the events before them.
                Ok(Message::Assigned(assigned)) => ClientEvent::Assigned(assigned),
                Ok(Message::Directed(directed)) => ClientEvent::Directed(directed),
                Ok(Message::Tier(tier)) => ClientEvent::Tier(tier),
                Err(_) => {
                    statistics.messages_malformed += 1;
                    continue;
                }
            };
            let waiting = Waiting {
                event,
                since_us: now_us,
                blocked: false,
            };
            if self.told_stream.is_some_and(|told| told != self.shown_stream) {
                waiting.count(false, statistics);
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    /// The entities to ask for: of events that waited a second, the foremost few that are unknown.
    pub(super) fn requests(&self, display: DisplayView<'_>, now_us: u64, out: &mut Vec<(u32, u32)>) {
        out.clear();
        for waiting in &self.waiting {
            if out.len() >= RECORD_REQUESTS_MAX || now_us.saturating_sub(waiting.since_us) < ASK_AFTER_US {
                return;
            }
            let Some(Entity { id, generation }) = waiting.entity() else {
                continue;
            };
            if !out.contains(&(id, generation)) && display.fate(Entity { id, generation }) == Fate::Unknown {
                out.push((id, generation));
            }
        }
    }
}
