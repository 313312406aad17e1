//! Who subscribes to an origin and what each is still to be sent.
//!
//! > Sans-I/O. [`open`](Subscribers::open) at a new connection, [`receive`](Subscribers::receive) what it says,
//! > [`publish`](Subscribers::publish) each tick to all, [`take`](Subscribers::take) what to write next, and
//! > [`close`](Subscribers::close) when the socket is gone. What their players did is taken with
//! > [`next_player_event`](Subscribers::next_player_event), what players are to be told given to
//! > [`direct`](Subscribers::direct) before the tick it belongs to. Where [`closing`](Subscribers::closing) gives a reason,
//! > write what is left and close the socket.
//!
//! Who has not subscribed yet waits in an [`Anteroom`], apart from who has: silent connections keep nobody out who has the token.
//!
//! Invariants: a subscriber gets a hello, a keyframe, then every tick; a queue is bounded in bytes and in the age
//! of its oldest message, and a subscriber that exceeds either is dropped, never waited for (SPEC OPS1).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use super::players::{PlayerCounts, Players};
use super::publisher::{Published, Publisher};
use subtle::ConstantTimeEq;

use crate::anteroom::Anteroom;
use crate::limits::{
    DIRECTIVES_TICK_BYTES_MAX, EVENT_BYTES_MAX, RESYNC_GAP_US, SUBSCRIBE_WITHIN_US, SUBSCRIBER_LAG_MAX_US,
    SUBSCRIBER_QUEUE_MAX, SUBSCRIBERS_MAX, SUBSCRIBERS_WAITING_HOST_MAX, SUBSCRIBERS_WAITING_MAX,
    UPSTREAM_REQUEST_MAX,
};
use crate::state::player::{Directive, Order, PlayerEvent};
use crate::upstream::VERSION;
use crate::upstream::error::UpstreamError;
use crate::upstream::message::{FromOrigin, OBSERVER, Refuse, RefuseCode, Subscribe, ToOrigin};
use crate::upstream::splitter::Splitter;

/// One connection to an origin; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(u64);

impl SubscriberId {
    /// Its number, for who only passes it on.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The connection with this number; whether it is there shows when it is used.
    #[must_use]
    pub fn of_number(number: u64) -> SubscriberId {
        SubscriberId(number)
    }
}

/// Why a subscriber is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// It did not take what was sent to it.
    Slow,
    /// It did not subscribe in time.
    Silent,
    /// It had not subscribed when newer connections needed its place.
    Crowded,
    /// As many are served as can be.
    Full,
    /// It speaks another protocol version.
    Version,
    /// Its token is not the right one.
    Token,
    /// Its messages cannot be read.
    Malformed,
    /// The stream has ended.
    Ended,
}

impl Dropped {
    /// The reason in one word, as in metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Dropped::Slow => "slow",
            Dropped::Silent => "silent",
            Dropped::Crowded => "crowded",
            Dropped::Full => "full",
            Dropped::Version => "version",
            Dropped::Token => "token",
            Dropped::Malformed => "malformed",
            Dropped::Ended => "ended",
        }
    }
}

/// One connection.
struct Member {
    splitter: Splitter,
    from: IpAddr,
    opened_us: u64,
    flags: Option<u16>,
    queue: VecDeque<(u64, Arc<[u8]>)>,
    queued_bytes: usize,
    /// For the next tick, and what they count as.
    directives: Vec<Directive>,
    directive_bytes: usize,
    keyframe_us: u64,
    resync: bool,
    dropped: Option<Dropped>,
}

/// All connections of an origin.
pub struct Subscribers {
    token: Vec<u8>,
    next: u64,
    members: BTreeMap<SubscriberId, Member>,
    /// Those of them who have not subscribed.
    waiting: Anteroom,
    players: Players,
}

/// Without the token, and what subscribers have said of theirs.
impl core::fmt::Debug for Subscribers {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = to.debug_struct("Subscribers");
        shown.field("served", &self.served());
        shown.field("waiting", &self.waiting.len());
        shown.finish_non_exhaustive()
    }
}

impl Subscribers {
    /// No subscribers yet. They must show `token`; an empty one admits everybody.
    #[must_use]
    pub fn new(token: Vec<u8>) -> Subscribers {
        Subscribers {
            token,
            next: 0,
            members: BTreeMap::new(),
            waiting: Anteroom::new(SUBSCRIBERS_WAITING_MAX, SUBSCRIBERS_WAITING_HOST_MAX),
            players: Players::default(),
        }
    }

    /// A connection was accepted from `from`, before anything was said on it. The second is a connection that is to be closed
    /// at once, to make room for it.
    pub fn open(&mut self, from: IpAddr, now_us: u64) -> (SubscriberId, Option<SubscriberId>) {
        let id = SubscriberId(self.next);
        self.next += 1;
        let member = Member {
            splitter: Splitter::new(UPSTREAM_REQUEST_MAX),
            from,
            opened_us: now_us,
            flags: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            directives: Vec::new(),
            directive_bytes: 0,
            keyframe_us: 0,
            resync: false,
            dropped: None,
        };
        self.members.insert(id, member);
        let gone = self.waiting.enter(id.0, from);
        (id, self.crowd_out(gone))
    }

    /// The connections that are to be closed at once where the system has no more to give.
    pub fn make_room(&mut self) -> Vec<SubscriberId> {
        let gone = self.waiting.shrink();
        gone.into_iter()
            .filter_map(|id| self.crowd_out(Some(id)))
            .collect()
    }

    fn crowd_out(&mut self, gone: Option<u64>) -> Option<SubscriberId> {
        let gone = SubscriberId(gone?);
        if let Some(member) = self.members.get_mut(&gone) {
            member.drop_now(Dropped::Crowded);
        }
        Some(gone)
    }

    /// Takes in bytes of a subscriber as they came.
    pub fn receive(&mut self, id: SubscriberId, bytes: &[u8], now_us: u64, publisher: &Publisher) {
        let serves = self.members.values().filter(|member| member.flags.is_some());
        let full = serves.count() >= SUBSCRIBERS_MAX;
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        member.splitter.push(bytes);
        while member.dropped.is_none() {
            let message = match member.splitter.next() {
                Ok(Some(payload)) => ToOrigin::decode(payload),
                Ok(None) => return,
                Err(broken) => Err(broken),
            };
            match message {
                Ok(Some(ToOrigin::Subscribe(subscribe))) => {
                    let token = &self.token;
                    member.subscribe(&subscribe, (token, full), now_us, publisher);
                    if member.flags.is_some() {
                        self.waiting.leave(id.0, member.from);
                    }
                }
                Ok(Some(ToOrigin::Resync)) if member.flags.is_some() => member.resync(now_us, publisher),
                Ok(Some(ToOrigin::Players(events))) if member.serves_players() => {
                    events
                        .into_iter()
                        .for_each(|event| self.players.receive(id, event));
                }
                Ok(Some(message)) => {
                    let text = member.untimely(&message);
                    member.refuse(Dropped::Malformed, RefuseCode::Malformed, text, now_us);
                }
                Ok(None) => {}
                Err(error @ UpstreamError::Version { .. }) => {
                    let text = format!("{error}; this origin speaks version {VERSION}");
                    member.refuse(Dropped::Version, RefuseCode::Version, text, now_us);
                }
                Err(error) => {
                    member.refuse(
                        Dropped::Malformed,
                        RefuseCode::Malformed,
                        error.to_string(),
                        now_us,
                    );
                }
            }
        }
    }

    /// Queues a tick for every subscriber, answers requests for keyframes, and drops who is slow or silent.
    pub fn publish(&mut self, published: &Published, now_us: u64, publisher: &Publisher) {
        let mut keyframe = None;
        for member in self
            .members
            .values_mut()
            .filter(|member| member.dropped.is_none())
        {
            if member.flags.is_none() {
                if now_us.saturating_sub(member.opened_us) > SUBSCRIBE_WITHIN_US {
                    member.dropped = Some(Dropped::Silent);
                }
                continue;
            }
            if let Some(message) = &published.message {
                member.queue_directives(now_us);
                member.queue(Arc::clone(message), now_us);
            }
            if member.resync && now_us.saturating_sub(member.keyframe_us) >= RESYNC_GAP_US {
                let keyframe = keyframe.get_or_insert_with(|| publisher.keyframe());
                member.keyframe(Arc::clone(keyframe), now_us);
            }
        }
    }

    /// What players did, in order. Joins and leaves all come; where inputs came faster than they were taken some are told
    /// as lost.
    pub fn next_player_event(&mut self) -> Option<(SubscriberId, PlayerEvent)> {
        self.players.next()
    }

    /// What was counted of players.
    #[must_use]
    pub fn player_counts(&self) -> PlayerCounts {
        self.players.counts()
    }

    /// Keeps a directive for one player of a subscriber: it is sent right before the next tick. False where it is not:
    /// the player is not there, its payload is too long, or the tick's directives are at their bound.
    pub fn direct(&mut self, id: SubscriberId, directive: Directive) -> bool {
        let is_there = self.players.is_there(id, directive.player);
        let Some(member) = self
            .members
            .get_mut(&id)
            .filter(|member| is_there && member.dropped.is_none())
        else {
            return false;
        };
        let bytes = member.directive_bytes + directive.bytes();
        let too_long =
            matches!(&directive.order, Order::Message { payload, .. } if payload.len() > EVENT_BYTES_MAX);
        if too_long || bytes > DIRECTIVES_TICK_BYTES_MAX {
            return false;
        }
        member.directive_bytes = bytes;
        member.directives.push(directive);
        true
    }

    /// Ends the stream for every subscriber: what is queued is still sent, then an end.
    pub fn end(&mut self, now_us: u64) {
        let mut bytes = Vec::new();
        FromOrigin::End.encode(&mut bytes);
        let end: Arc<[u8]> = bytes.into();
        for member in self
            .members
            .values_mut()
            .filter(|member| member.dropped.is_none())
        {
            member.queue(Arc::clone(&end), now_us);
            member.dropped.get_or_insert(Dropped::Ended);
        }
    }

    /// The next bytes to write to a subscriber, if any.
    pub fn take(&mut self, id: SubscriberId) -> Option<Arc<[u8]>> {
        let member = self.members.get_mut(&id)?;
        let (_, message) = member.queue.pop_front()?;
        member.queued_bytes -= message.len();
        Some(message)
    }

    /// Why a subscriber is to be closed once nothing is left to [`take`](Subscribers::take).
    #[must_use]
    pub fn closing(&self, id: SubscriberId) -> Option<Dropped> {
        self.members.get(&id)?.dropped
    }

    /// The socket is gone, and with it the subscriber's players.
    pub fn close(&mut self, id: SubscriberId) {
        if let Some(member) = self.members.remove(&id) {
            self.waiting.leave(id.0, member.from);
        }
        self.players.close(id);
    }

    /// Every connection there is.
    pub fn ids(&self) -> impl Iterator<Item = SubscriberId> + '_ {
        self.members.keys().copied()
    }

    /// How many are being served.
    #[must_use]
    pub fn served(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.flags.is_some() && member.dropped.is_none())
            .count()
    }
}

impl Member {
    fn subscribe(
        &mut self,
        subscribe: &Subscribe,
        (token, full): (&[u8], bool),
        now_us: u64,
        publisher: &Publisher,
    ) {
        if self.flags.is_some() {
            let text = "upstream subscribe refused: this connection has subscribed already".to_owned();
            return self.refuse(Dropped::Malformed, RefuseCode::Malformed, text, now_us);
        }
        if !token.is_empty() && !same(token, &subscribe.token) {
            let text = "the token is not the one this origin expects: give the subscriber the origin's token"
                .to_owned();
            return self.refuse(Dropped::Token, RefuseCode::Token, text, now_us);
        }
        if full {
            let text =
                format!("this origin serves its maximum of {SUBSCRIBERS_MAX} subscribers: try again later");
            return self.refuse(Dropped::Full, RefuseCode::Full, text, now_us);
        }
        self.flags = Some(subscribe.flags);
        self.queue(publisher.hello(), now_us);
        self.keyframe(publisher.keyframe(), now_us);
    }

    /// True for one that has subscribed as a relay.
    fn serves_players(&self) -> bool {
        self.flags.is_some_and(|flags| flags & OBSERVER == 0)
    }

    /// Why a message that can be read cannot be taken.
    fn untimely(&self, message: &ToOrigin) -> String {
        match (message, self.flags) {
            (ToOrigin::Players(_), Some(_)) => "upstream players refused: an observer has none".to_owned(),
            (ToOrigin::Players(_), None) => {
                "upstream players refused: no subscribe came before it".to_owned()
            }
            _ => "upstream resync refused: no subscribe came before it".to_owned(),
        }
    }

    fn queue_directives(&mut self, now_us: u64) {
        if self.directives.is_empty() {
            return;
        }
        self.directive_bytes = 0;
        let mut bytes = Vec::new();
        FromOrigin::Directives(core::mem::take(&mut self.directives)).encode(&mut bytes);
        self.queue(bytes.into(), now_us);
    }

    fn resync(&mut self, now_us: u64, publisher: &Publisher) {
        if now_us.saturating_sub(self.keyframe_us) >= RESYNC_GAP_US {
            self.keyframe(publisher.keyframe(), now_us);
        } else {
            self.resync = true;
        }
    }

    fn keyframe(&mut self, message: Arc<[u8]>, now_us: u64) {
        self.resync = false;
        self.keyframe_us = now_us;
        self.queue(message, now_us);
    }

    fn queue(&mut self, message: Arc<[u8]>, now_us: u64) {
        if self.dropped.is_some() {
            return;
        }
        let waited_us = self
            .queue
            .front()
            .map_or(0, |(since_us, _)| now_us.saturating_sub(*since_us));
        if self.queued_bytes + message.len() > SUBSCRIBER_QUEUE_MAX || waited_us > SUBSCRIBER_LAG_MAX_US {
            return self.drop_now(Dropped::Slow);
        }
        self.queued_bytes += message.len();
        self.queue.push_back((now_us, message));
    }

    fn refuse(&mut self, dropped: Dropped, code: RefuseCode, text: String, now_us: u64) {
        self.drop_now(dropped);
        let message = refusal(code, text);
        self.queued_bytes = message.len();
        self.queue.push_back((now_us, message));
    }

    fn drop_now(&mut self, dropped: Dropped) {
        self.dropped = Some(dropped);
        self.queue.clear();
        self.queued_bytes = 0;
        self.directives = Vec::new();
        self.directive_bytes = 0;
    }
}

fn refusal(code: RefuseCode, text: String) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    FromOrigin::Refuse(Refuse { code, text }).encode(&mut bytes);
    bytes.into()
}

/// Compares tokens in a time that does not tell how much of a wrong one is right.
fn same(ours: &[u8], theirs: &[u8]) -> bool {
    ours.ct_eq(theirs).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
