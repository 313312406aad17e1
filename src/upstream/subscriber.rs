//! The subscribing side of an upstream connection: a relay's, and that of whoever wants an origin's truth.
//!
//! > Sans-I/O. [`Subscriber::start`] at every new connection and send what it returns; [`receive`] what comes and
//! > take the events; send [`take_outgoing`] when it is not empty; [`disconnected`] when the connection ends. One
//! > subscriber lives across connections: it remembers the newest run, so that no older one gets through.
//!
//! [`receive`]: Subscriber::receive
//! [`take_outgoing`]: Subscriber::take_outgoing
//! [`disconnected`]: Subscriber::disconnected
//!
//! Invariants: the first tick of a connection that is given out is a keyframe; tick numbers given out rise,
//! except that a keyframe may repeat the last; a malformed message changes nothing but a count, is followed by
//! one request for a keyframe, and the stream goes on; directives come out in the first tick after them, of the same
//! connection, or not at all.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::sync::Arc;

use super::error::UpstreamError;
use super::fence::{Admission, EpochFence, Run};
use super::message::{FromOrigin, Hello, PLAYERS, Subscribe, ToOrigin, encode_players};
use super::splitter::Splitter;
use crate::delta::schema;
use crate::limits::{DIRECTIVES_TICK_BYTES_MAX, EPOCH_MAX, UPSTREAM_FRAME_MAX, UPSTREAM_TOKEN_MAX};
use crate::state::player::{Directive, PlayerEvent};
use crate::state::schema::Schema;
use crate::state::update::TickUpdate;

/// What a subscriber learns from the bytes it receives.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriberEvent {
    /// The origin has said which stream this is; a keyframe follows.
    Stream(Stream),
    /// A tick, in order, with the directives that came before it. The first of a connection is a keyframe.
    Tick(TickUpdate),
    /// This connection is of no use, for the reason given in one sentence. Close it.
    Refused(String),
    /// The origin ended its stream as intended. Close the connection.
    Ended,
    /// One message was refused, for the reason given in one sentence; the stream goes on.
    Malformed(String),
}

/// Which stream a connection carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The origin's epoch.
    pub epoch: u64,
    /// The origin's boot nonce.
    pub boot: u64,
    /// Which clock `published_us` is read from; 0 where it must not be compared with any other.
    pub clock_id: u64,
    /// What the origin takes beyond this protocol version's messages.
    pub accepts: u16,
    /// True when this is the run of the connection before: the same stream goes on. False: a new stream begins
    /// (SPEC ID1, OPS2).
    pub continued: bool,
    /// What its records hold.
    pub schema: Arc<Schema>,
    /// The schema in canonical form.
    pub schema_bytes: Arc<[u8]>,
}

/// What a subscriber has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberCounts {
    /// Bytes received.
    pub bytes: u64,
    /// Ticks given out, keyframes included.
    pub ticks: u64,
    /// Keyframes given out.
    pub keyframes: u64,
    /// Messages refused by themselves.
    pub malformed: u64,
    /// Ticks not given out because no keyframe had come yet.
    pub unanchored: u64,
    /// Ticks not given out because their number had come already.
    pub repeated: u64,
    /// Times that tick numbers were missing.
    pub gaps: u64,
    /// Messages of kinds that are skipped.
    pub skipped: u64,
    /// Keyframes asked for.
    pub resyncs: u64,
    /// Directives not given out: too many before one tick, or the connection ended before theirs.
    pub directives_dropped: u64,
    /// Connections refused, for any reason.
    pub refused: u64,
    /// Connections refused because a newer run is known (THREATS 81).
    pub fenced: u64,
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No connection, or one that is of no use any more.
    Closed,
    /// Waiting for the hello.
    Opening,
    /// Waiting for a keyframe.
    Unanchored,
    /// Taking ticks.
    Live,
}

/// The subscribing side of an upstream connection.
pub struct Subscriber {
    subscribe: Subscribe,
    phase: Phase,
    splitter: Splitter,
    fence: EpochFence,
    schema: Option<(Arc<Schema>, Arc<[u8]>)>,
    last_tick: Option<u64>,
    resync_asked: bool,
    accepts: u16,
    /// Directives for the next tick, and what they count as.
    directives: Vec<Directive>,
    directive_bytes: usize,
    outgoing: Vec<u8>,
    /// A request for a keyframe is in `outgoing`.
    resync_queued: bool,
    counts: SubscriberCounts,
}

/// Without the token, which what is to be sent may hold too.
impl core::fmt::Debug for Subscriber {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = to.debug_struct("Subscriber");
        shown.field("subscribe", &self.subscribe);
        shown.field("phase", &self.phase);
        shown.field("fence", &self.fence);
        shown.field("last_tick", &self.last_tick);
        shown.field("counts", &self.counts);
        shown.finish_non_exhaustive()
    }
}

impl Subscriber {
    /// A subscriber that shows `token` to its origin: at most [`UPSTREAM_TOKEN_MAX`] bytes, which settings check;
    /// a longer one is cut.
    #[must_use]
    pub fn new(token: Vec<u8>) -> Subscriber {
        Subscriber::with_flags(token, 0)
    }

    /// As [`new`](Subscriber::new), with flags such as [`OBSERVER`](super::message::OBSERVER).
    #[must_use]
    pub fn with_flags(mut token: Vec<u8>, flags: u16) -> Subscriber {
        token.truncate(UPSTREAM_TOKEN_MAX);
        Subscriber {
            subscribe: Subscribe { flags, token },
            phase: Phase::Closed,
            splitter: Splitter::new(UPSTREAM_FRAME_MAX),
            fence: EpochFence::new(),
            schema: None,
            last_tick: None,
            resync_asked: false,
            accepts: 0,
            directives: Vec::new(),
            directive_bytes: 0,
            outgoing: Vec::new(),
            resync_queued: false,
            counts: SubscriberCounts::default(),
        }
    }

    /// Begins a connection; the bytes to send first. What is known of the newest run is kept.
    pub fn start(&mut self) -> Vec<u8> {
        self.phase = Phase::Opening;
        self.forget();
        self.resync_asked = false;
        let mut bytes = Vec::new();
        ToOrigin::Subscribe(self.subscribe.clone()).encode(&mut bytes);
        bytes
    }

    /// Takes in bytes as they came and appends what they mean. Bytes after a [`SubscriberEvent::Refused`] or
    /// [`SubscriberEvent::Ended`] are ignored until the next [`start`](Subscriber::start).
    pub fn receive(&mut self, bytes: &[u8], events: &mut Vec<SubscriberEvent>) {
        if self.phase == Phase::Closed {
            return;
        }
        self.counts.bytes += bytes.len() as u64;
        self.splitter.push(bytes);
        while self.phase != Phase::Closed {
            let message = match self.splitter.next() {
                Ok(Some(payload)) => FromOrigin::decode(payload),
                Ok(None) => return,
                Err(broken) => return self.refuse(broken.to_string(), events),
            };
            match message {
                Ok(Some(message)) => self.take(message, events),
                Ok(None) => self.counts.skipped += 1,
                Err(error) => self.refuse_message(&error, events),
            }
        }
    }

    /// The connection ended. A message that was cut short by it is reported.
    pub fn disconnected(&mut self, events: &mut Vec<SubscriberEvent>) {
        let pending = self.splitter.pending();
        if self.phase != Phase::Closed && pending > 0 {
            self.counts.malformed += 1;
            events.push(SubscriberEvent::Malformed(format!(
                "upstream message refused: the connection ended after {pending} bytes of it"
            )));
        }
        self.close();
    }

    /// Bytes to send now; empty when there are none.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        self.resync_queued = false;
        core::mem::take(&mut self.outgoing)
    }

    /// True when the origin at the other end takes what players do.
    #[must_use]
    pub fn accepts_players(&self) -> bool {
        matches!(self.phase, Phase::Unanchored | Phase::Live) && self.accepts & PLAYERS != 0
    }

    /// Puts what players did into what is to be sent; nothing where the origin does not take it.
    pub fn tell(&mut self, events: &[PlayerEvent]) {
        if self.accepts_players() {
            encode_players(events, &mut self.outgoing);
        }
    }

    /// True when there is no connection, or none of use.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// The newest run admitted.
    #[must_use]
    pub fn run(&self) -> Option<Run> {
        self.fence.newest()
    }

    /// Number of the last tick given out in the newest run.
    #[must_use]
    pub fn last_tick(&self) -> Option<u64> {
        self.last_tick
    }

    /// What was counted since this subscriber was made.
    #[must_use]
    pub fn counts(&self) -> SubscriberCounts {
        self.counts
    }

    fn take(&mut self, message: FromOrigin, events: &mut Vec<SubscriberEvent>) {
        match (message, self.phase) {
            (FromOrigin::Refuse(refuse), _) => {
                let text: String = refuse
                    .text
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect();
                let text = format!(
                    "the origin refused this subscriber (code {}): {text}",
                    refuse.code.number()
                );
                self.refuse(text, events);
            }
            (FromOrigin::End, _) => {
                events.push(SubscriberEvent::Ended);
                self.close();
            }
            (FromOrigin::Hello(hello), Phase::Opening) => self.open(&hello, events),
            (FromOrigin::Hello(_), _) => {
                self.malformed(
                    "upstream hello refused: this connection has had one".to_owned(),
                    events,
                );
            }
            (FromOrigin::Tick(_), Phase::Opening | Phase::Closed) => {
                let text = "upstream tick refused: no hello came before it, so its schema is not known";
                self.refuse(text.to_owned(), events);
            }
            (FromOrigin::Tick(update), _) => self.tick(update, events),
            (FromOrigin::Directives(_), Phase::Opening | Phase::Closed) => {
                let text = "upstream directives refused: no hello came before them";
                self.refuse(text.to_owned(), events);
            }
            (FromOrigin::Directives(directives), _) => self.hold(directives),
        }
    }

    fn open(&mut self, hello: &Hello, events: &mut Vec<SubscriberEvent>) {
        let decoded = match schema::decode(&hello.schema) {
            Ok(decoded) => decoded,
            Err(error) => return self.refuse(format!("upstream hello refused: {error}"), events),
        };
        let Hello {
            epoch,
            boot,
            clock_id,
            accepts,
            ..
        } = *hello;
        if epoch > EPOCH_MAX {
            let text = format!(
                "upstream hello refused: its epoch {epoch} is above {EPOCH_MAX}, and no later one could follow it: begin with the wall clock in microseconds"
            );
            return self.refuse(text, events);
        }
        let continued = match self.fence.admit(Run { epoch, boot }) {
            Admission::New => false,
            Admission::Continued => true,
            refused @ (Admission::Older | Admission::Superseded) => {
                self.counts.fenced += 1;
                return self.refuse(self.fenced(refused, epoch), events);
            }
        };
        let (schema, schema_bytes) = match &self.schema {
            Some((held, bytes)) if continued => {
                if **bytes != *hello.schema {
                    let text = "upstream hello refused: the schema changed within one run of the origin; a changed schema must begin a new epoch";
                    return self.refuse(text.to_owned(), events);
                }
                (Arc::clone(held), Arc::clone(bytes))
            }
            _ => (Arc::new(decoded), Arc::from(hello.schema.as_slice())),
        };
        self.schema = Some((Arc::clone(&schema), Arc::clone(&schema_bytes)));
        self.phase = Phase::Unanchored;
        self.accepts = accepts;
        if !continued {
            self.last_tick = None;
        }
        events.push(SubscriberEvent::Stream(Stream {
            epoch,
            boot,
            clock_id,
            accepts,
            continued,
            schema,
            schema_bytes,
        }));
    }

    /// Keeps directives for the next tick, within the bound of one.
    fn hold(&mut self, directives: Vec<Directive>) {
        for directive in directives {
            // Once one has no room none has: those that are given out are the first, in order.
            self.directive_bytes = self.directive_bytes.saturating_add(directive.bytes());
            if self.directive_bytes > DIRECTIVES_TICK_BYTES_MAX {
                self.counts.directives_dropped += 1;
            } else {
                self.directives.push(directive);
            }
        }
    }

    fn fenced(&self, admission: Admission, epoch: u64) -> String {
        let newest = self.fence.newest().map_or(0, |run| run.epoch);
        match admission {
            Admission::Superseded => format!(
                "upstream refused: this run of the origin in epoch {epoch} was replaced by another one: stop the one that should be gone"
            ),
            _ => format!(
                "upstream refused: its epoch {epoch} is older than epoch {newest}, which is known: stop the origin that should be gone, or begin a higher epoch; where epoch {newest} was a mistake, such as a clock that ran ahead, restart the relay, which then knows none"
            ),
        }
    }

    fn tick(&mut self, mut update: TickUpdate, events: &mut Vec<SubscriberEvent>) {
        let number = update.origin_tick;
        // A keyframe that was asked for heals, whatever number a bad tick had brought before it.
        let heals = update.keyframe && self.resync_asked;
        let came = |last: &u64| !heals && (number < *last || (number == *last && !update.keyframe));
        if let Some(last) = self.last_tick.filter(came) {
            self.counts.repeated += 1;
            let text = format!("upstream tick {number} refused: tick {last} has come already");
            return events.push(SubscriberEvent::Malformed(text));
        }
        if update.keyframe {
            self.counts.keyframes += 1;
            self.resync_asked = false;
            self.phase = Phase::Live;
        } else if self.phase == Phase::Unanchored {
            self.counts.unanchored += 1;
            if !self.resync_asked {
                self.resync();
                let text = format!(
                    "upstream tick {number} refused: no keyframe came before it, so one is asked for"
                );
                events.push(SubscriberEvent::Malformed(text));
            }
            return;
        } else if self.last_tick.is_some_and(|last| number > last.saturating_add(1)) {
            self.counts.gaps += 1;
            if !self.resync_asked {
                self.resync();
            }
        }
        self.last_tick = Some(number);
        self.counts.ticks += 1;
        self.directive_bytes = 0;
        update.directives = core::mem::take(&mut self.directives);
        events.push(SubscriberEvent::Tick(update));
    }

    /// A message that could not be read. A hello or a refusal that cannot be read ends the connection: without
    /// it nothing else can be understood.
    fn refuse_message(&mut self, error: &UpstreamError, events: &mut Vec<SubscriberEvent>) {
        if self.phase == Phase::Opening {
            return self.refuse(error.to_string(), events);
        }
        self.malformed(error.to_string(), events);
        self.resync();
    }

    fn malformed(&mut self, text: String, events: &mut Vec<SubscriberEvent>) {
        self.counts.malformed += 1;
        events.push(SubscriberEvent::Malformed(text));
    }

    fn refuse(&mut self, text: String, events: &mut Vec<SubscriberEvent>) {
        self.counts.refused += 1;
        events.push(SubscriberEvent::Refused(text));
        self.close();
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.forget();
    }

    /// What belongs to a connection goes with it.
    fn forget(&mut self) {
        self.splitter.reset();
        self.outgoing.clear();
        self.resync_queued = false;
        self.accepts = 0;
        self.counts.directives_dropped += self.directives.len() as u64;
        self.directives.clear();
        self.directive_bytes = 0;
    }

    /// Asks for a keyframe; once for all that is reported before the bytes are taken.
    fn resync(&mut self) {
        self.resync_asked = true;
        if !core::mem::replace(&mut self.resync_queued, true) {
            self.counts.resyncs += 1;
            ToOrigin::Resync.encode(&mut self.outgoing);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
