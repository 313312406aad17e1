//! The client: one session with one relay, from the first Request to the end.
//!
//! > Give [`Client::receive`] every datagram as it arrives; call [`Client::poll_transmit`] after a burst of them
//! > and at [`Client::next_timer`], and send what it writes; fetch [`Client::poll_event`] until it is empty.
//! > Time and randomness are arguments, the clock of `now_us` is the caller's and never runs backwards. A
//! > datagram either does all it says or is refused, counted by reason, and changes nothing (SPEC TAB2).
//!
//! What is held and refused, and the inputs not acknowledged, is repeated in every packet, so nothing is ever sent again because it was lost. A
//! client serves one session: to come back, make a new one with new randomness.
//!
//! One exception to *nothing changes*: a snapshot that the window refuses (late, of an old generation, on a
//! base that is not held) does not take the other blocks of its datagram with it, since it is well-formed.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::attempt::Attempt;
use super::camera::Camera;
use super::down::Down;
use super::inbox::{ClientEvent, Ending, Inbox};
use super::inputs::Inputs;
use super::link::Link;
use super::owner::OwnerState;
use super::refusal::{Refusal, RefusalCounts};
use super::replica::{Replica, Stream};
use super::settings::ClientSettings;
use super::statistics::Statistics;
use crate::limits::RECORD_REQUESTS_MAX;
use crate::state::entity::Entity;
use crate::window::receive::Admission;
use crate::wire::bytes::ByteReader;
use crate::wire::handshake::{
    ClientNonce, DOWN_HEADER_BYTES, DatagramKind, Denial, WELCOME_HEADER_BYTES, read_challenge, read_denied,
    read_welcome_header,
};
use crate::wire::payload::CloseReason;
use crate::wire::report::{RefuseReason, Report};
use crate::wire::snapshot::SnapshotHeader;

mod reading;
mod speaking;

/// What a datagram was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The relay asks for proof of address; the Response is due.
    Challenged,
    /// The session began. Whatever else the datagram held was taken too.
    Welcomed,
    /// A snapshot part was taken.
    Snapshot {
        /// It is of the newest snapshot, or changed what is shown.
        shown: bool,
        /// It went into a table.
        stored: bool,
    },
    /// Nothing but signs of life and messages.
    Keepalive,
    /// The relay closed the session.
    Closed(CloseReason),
    /// The relay denied the session.
    Denied(Denial),
    /// Refused, or its snapshot was.
    Refused(Refusal),
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Sending Requests.
    Requesting,
    /// Sending Responses.
    Responding,
    /// In a session.
    Connected,
    /// Saying goodbye.
    Leaving,
    /// Over.
    Closed(Ending),
}

enum Phase {
    Handshake(Attempt),
    Connected(Box<Link>),
    Leaving {
        link: Box<Link>,
        sends: u8,
        next_us: u64,
    },
    Closed(Ending),
}

/// The idle time before a Welcome names one, and the shortest one taken from it (SPEC DEC8).
const IDLE_US: u64 = 30_000_000;
const IDLE_LEAST_US: u64 = 1_000_000;

/// A payload that was read: whatever of it is malformed refused it.
struct Opened<'a> {
    down: Down<'a>,
    /// The stream that it brings.
    stream: Option<Box<Stream>>,
    /// The owner's state, where it is of the stream that is known then.
    owner: Option<OwnerState>,
}

/// A client of a relay.
pub struct Client {
    settings: ClientSettings,
    nonce: ClientNonce,
    phase: Phase,
    idle_us: u64,
    lease_us: u64,
    replica: Replica,
    inbox: Inbox,
    inputs: Inputs,
    camera: Camera,
    /// Whose complete records the game wants.
    wanted: Vec<(u32, u32)>,
    report: Report,
    refusals: RefusalCounts,
    statistics: Statistics,
}

impl Client {
    /// A client that begins to ask for a session at `now_us`. `client_nonce` is fresh randomness.
    #[must_use]
    pub fn new(settings: ClientSettings, client_nonce: ClientNonce, now_us: u64) -> Client {
        debug_assert!(settings.token.len() <= crate::wire::handshake::TOKEN_BYTES_MAX);
        Client {
            phase: Phase::Handshake(Attempt::new(&settings, now_us)),
            replica: Replica::new(settings.limits),
            settings,
            nonce: client_nonce,
            idle_us: IDLE_US,
            lease_us: crate::limits::LEASE_US,
            inbox: Inbox::default(),
            inputs: Inputs::new(),
            camera: Camera::default(),
            wanted: Vec::with_capacity(RECORD_REQUESTS_MAX),
            report: Report::default(),
            refusals: RefusalCounts::default(),
            statistics: Statistics::default(),
        }
    }

    /// Takes a datagram; it is opened in place and must not be used afterwards.
    pub fn receive(&mut self, now_us: u64, datagram: &mut [u8]) -> Received {
        self.statistics.datagrams_received += 1;
        self.statistics.bytes_received += datagram.len() as u64;
        self.replica.begin_receive();
        let received = self.dispatch(now_us, datagram).unwrap_or_else(Received::Refused);
        if let Received::Refused(refusal) = received {
            self.refusals.count(refusal);
        }
        received
    }

    fn dispatch(&mut self, now_us: u64, datagram: &mut [u8]) -> Result<Received, Refusal> {
        let (first, rest) = datagram.split_first().ok_or(Refusal::UnknownKind)?;
        let kind = DatagramKind::from_byte(*first).ok_or(Refusal::UnknownKind)?;
        if matches!(self.phase, Phase::Leaving { .. } | Phase::Closed(_)) {
            return Err(Refusal::SessionOver);
        }
        match kind {
            DatagramKind::Challenge => self.challenge(now_us, rest),
            DatagramKind::Denied => self.denied(now_us, rest),
            DatagramKind::Welcome => self.welcome(now_us, datagram),
            DatagramKind::Down => self.down(now_us, datagram),
            DatagramKind::Request | DatagramKind::Response | DatagramKind::Up => Err(Refusal::UnknownKind),
        }
    }

    fn challenge(&mut self, now_us: u64, rest: &[u8]) -> Result<Received, Refusal> {
        let (offered, echo, cookie) = read_challenge(rest).map_err(|_| Refusal::MalformedHeader)?;
        if echo != self.nonce {
            return Err(Refusal::OtherAttempt);
        }
        let Phase::Handshake(attempt) = &mut self.phase else {
            return Err(Refusal::Unexpected);
        };
        attempt.challenged(&self.settings, cookie, offered, now_us);
        Ok(Received::Challenged)
    }

    /// A denial is in clear, and may be anybody's: it ends the attempt when no Welcome comes in spite of it.
    fn denied(&mut self, now_us: u64, rest: &[u8]) -> Result<Received, Refusal> {
        let (_, echo, denial) = read_denied(rest).map_err(|_| Refusal::MalformedHeader)?;
        if echo != self.nonce {
            return Err(Refusal::OtherAttempt);
        }
        let Phase::Handshake(attempt) = &mut self.phase else {
            return Err(Refusal::Unexpected);
        };
        attempt.denied(denial, now_us);
        Ok(Received::Denied(denial))
    }

    /// A Welcome: the first one that opens decides the session; more of them are its datagrams like others.
    fn welcome(&mut self, now_us: u64, datagram: &mut [u8]) -> Result<Received, Refusal> {
        let (clear, sealed) = datagram
            .split_at_mut_checked(WELCOME_HEADER_BYTES)
            .ok_or(Refusal::MalformedHeader)?;
        let header =
            read_welcome_header(&mut ByteReader::new(clear)).map_err(|_| Refusal::MalformedHeader)?;
        if header.client_nonce != self.nonce {
            return Err(Refusal::OtherAttempt);
        }
        let settings = &self.settings;
        let agreed = match &mut self.phase {
            Phase::Connected(link) => {
                if !link.is_of(&header) {
                    return Err(Refusal::Unexpected);
                }
                let (number, payload) = link.open(header.number, clear, sealed)?;
                return self.opened(now_us, number, payload);
            }
            Phase::Handshake(attempt) => attempt.agreed(settings),
            Phase::Leaving { .. } | Phase::Closed(_) => return Err(Refusal::SessionOver),
        };
        let mut opened = Err(Refusal::Forged);
        for agreed in agreed {
            let link = Link::new(&settings.token_key, &self.nonce, &header, agreed, now_us);
            let mut link = Box::new(link.ok_or(Refusal::Forged)?);
            // What fails to open is not readable afterwards.
            let mut copy = sealed.to_vec();
            if let Ok((number, payload)) = link.open(header.number, clear, &mut copy) {
                opened = Ok((link, number, payload.to_vec()));
                break;
            }
        }
        let (link, number, payload) = opened?;
        let payload = &payload[..];
        let opened = self.read(payload)?;
        let attempt = core::mem::replace(&mut self.phase, Phase::Connected(link));
        match self.apply(now_us, number, opened) {
            Err(refusal) => {
                self.phase = attempt;
                Err(refusal)
            }
            Ok(Received::Refused(refusal)) => {
                self.refusals.count(refusal);
                Ok(Received::Welcomed)
            }
            Ok(closed @ Received::Closed(_)) => Ok(closed),
            Ok(_) => Ok(Received::Welcomed),
        }
    }

    fn down(&mut self, now_us: u64, datagram: &mut [u8]) -> Result<Received, Refusal> {
        let Phase::Connected(link) = &mut self.phase else {
            return Err(Refusal::NoSession);
        };
        let (clear, sealed) = datagram
            .split_at_mut_checked(DOWN_HEADER_BYTES)
            .ok_or(Refusal::MalformedHeader)?;
        let mut reader = ByteReader::new(clear);
        let low = reader
            .u8()
            .and_then(|_| reader.u32())
            .map_err(|_| Refusal::MalformedHeader)?;
        let (number, payload) = link.open(low, clear, sealed)?;
        self.opened(now_us, number, payload)
    }

    fn opened(&mut self, now_us: u64, number: u64, payload: &[u8]) -> Result<Received, Refusal> {
        let opened = self.read(payload)?;
        self.apply(now_us, number, opened)
    }

    /// Reads an opened payload, the schema and the owner's state included; nothing changes.
    fn read<'a>(&self, payload: &'a [u8]) -> Result<Opened<'a>, Refusal> {
        let down = Down::read(payload).map_err(|_| Refusal::MalformedPayload)?;
        // An input that was never pushed is with nobody.
        if down
            .inputs_ack
            .is_some_and(|number| !self.inputs.may_await(number))
        {
            return Err(Refusal::MalformedPayload);
        }
        let stream = match &down.welcome {
            Some(welcome) => Stream::of(welcome, self.replica.stream_epoch())?,
            None => None,
        };
        let owner = match &down.owner {
            Some(block) => self.replica.read_owner(stream.as_deref(), block)?,
            None => None,
        };
        Ok(Opened { down, stream, owner })
    }

    /// Judges the snapshot, then does all that the payload says.
    fn apply(&mut self, now_us: u64, number: u64, opened: Opened<'_>) -> Result<Received, Refusal> {
        let Opened { down, stream, owner } = opened;
        let judged = match &down.snapshot {
            Some((header, body)) => {
                let admission = self
                    .replica
                    .judge(stream.as_deref(), header, body, &mut self.statistics);
                if let Err(refusal @ Refusal::Body(_)) = admission {
                    return Err(refusal);
                }
                Some((header, admission))
            }
            None => None,
        };
        self.note_datagram(now_us, number, &down, stream);
        if down.owner.is_some() {
            self.replica.take_owner(owner, &mut self.statistics);
        }
        let mut received = Received::Keepalive;
        match judged {
            Some((header, Ok(admission))) => received = self.take(now_us, header, &admission),
            Some((_, Err(refusal))) => {
                if self.replica.window().refusing().is_some() {
                    self.note_news(now_us);
                }
                received = Received::Refused(refusal);
            }
            None => {}
        }
        self.inbox.pump(
            self.replica.display(),
            self.replica.settled_us(),
            now_us,
            &mut self.statistics,
        );
        if let Some(reason) = down.close {
            self.end(Ending::Relay(reason));
            return Ok(Received::Closed(reason));
        }
        Ok(received)
    }

    /// All of a datagram but its snapshot.
    fn note_datagram(&mut self, now_us: u64, number: u64, down: &Down<'_>, stream: Option<Box<Stream>>) {
        if let Phase::Connected(link) = &mut self.phase {
            self.statistics.gaps += link.note_received(number, down.stamp, now_us);
            if let Some(challenge) = down.challenge {
                link.note_challenge(challenge);
            }
        }
        if self.statistics.connected_us.is_none() {
            self.statistics.connected_us = Some(now_us);
            self.inbox.tell(ClientEvent::Connected);
        }
        if let Some(welcome) = &down.welcome
            && welcome.stream_epoch >= self.replica.stream_epoch()
        {
            self.idle_us = u64::from(welcome.idle_us).max(IDLE_LEAST_US);
            self.lease_us = u64::from(welcome.lease_us);
        }
        if let Some(stream) = stream {
            let epoch = stream.epoch;
            self.camera.adopt(&stream.schema);
            self.replica.adopt(stream);
            self.inbox.begin_stream(epoch, &mut self.statistics);
            self.inbox.tell(ClientEvent::StreamChanged(epoch));
            self.statistics.streams_adopted += 1;
            self.note_news(now_us);
        }
        if let Some(number) = down.inputs_ack {
            self.statistics.inputs_acknowledged += u64::from(self.inputs.acknowledge(number));
        }
        if let Some(mut messages) = down.messages {
            // Its form was checked when the payload was read.
            if self.inbox.receive(&mut messages).is_ok() {
                self.note_news(now_us);
            }
        }
    }

    fn take(&mut self, now_us: u64, header: &SnapshotHeader, admission: &Admission) -> Received {
        let hold_back_us = self.settings.hold_back_us;
        let taken = self.replica.take(header, admission, now_us, &mut self.statistics);
        if let (true, Phase::Connected(link)) = (taken.newer, &mut self.phase) {
            link.note_snapshot(now_us);
        }
        if taken.completed_view {
            self.inbox.tell(ClientEvent::ViewComplete);
        }
        if let Some(stale) = taken.stale {
            self.inbox.tell(ClientEvent::UpstreamStale(stale));
        }
        let waits = self.replica.waits_until(header.id, hold_back_us);
        // A part of a snapshot that waits for its others is news once they are here or it waited enough.
        self.note_news(match waits {
            Some(until) if !admission.begins_epoch() && !admission.commits() => until.max(now_us),
            _ => now_us,
        });
        Received::Snapshot {
            shown: taken.shown,
            stored: taken.stored,
        }
    }

    fn note_news(&mut self, at_us: u64) {
        if let Phase::Connected(link) = &mut self.phase {
            link.note_news(at_us);
        }
    }

    fn end(&mut self, ending: Ending) {
        self.phase = Phase::Closed(ending);
        self.inbox.tell(ClientEvent::Closed(ending));
    }

    /// Asks the relay for a full state in a new session epoch (SPEC WIN11). It is asked until that comes.
    pub fn request_full_state(&mut self, now_us: u64) {
        self.replica.refuse(RefuseReason::Requested);
        self.note_news(now_us);
    }

    /// Asks for the complete records of entities whose state is missing, in every report until this is called again; the
    /// first few alone, and after those that events wait for (SPEC CTL2, ENT2).
    pub fn want_records(&mut self, entities: impl IntoIterator<Item = Entity>) {
        self.wanted.clear();
        let wanted = entities.into_iter().take(RECORD_REQUESTS_MAX);
        self.wanted
            .extend(wanted.map(|entity| (entity.id, entity.generation)));
    }

    /// The next event for the game.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.inbox.poll()
    }
}
