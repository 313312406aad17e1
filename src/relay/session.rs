//! One client of the relay: keys, window, reliable stream, timers.
//!
//! > `receive` takes one opened payload and records: it sends nothing and encodes nothing. What is sent, and
//! > when, is decided when a tick serves the session.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use crate::delta::message::Message;
use crate::limits::{STREAM_MESSAGES_MAX, WELCOMES_LEAST, WELCOMES_MAX, WINDOW_SLOTS};
use crate::sequence::Tick;
use crate::state::digest::Digest;
use crate::state::player::PlayerEvent;
use crate::token::TokenId;
use crate::window::WindowLimits;
use crate::window::send::{RestartReason, SendWindow, WindowReport};
use crate::wire::bytes::{ByteReader, ReadError};
use crate::wire::input::InputsBlock;
use crate::wire::payload::{self, CloseReason, PathToken};
use crate::wire::report::{RefuseReason, Report};
use crate::wire::seal::{Opener, Sealer};
use crate::wire::snapshot::Held;
use crate::wire::stream::{StreamFull, StreamSender};
use crate::wire::version::Agreed;

use super::arena::Arena;
use super::budget::{Budget, Purse};
use super::claims::Claims;
use super::contents::Contents;
use super::counters::Counters;
use super::gate::Admitted;
use super::inputs::Inputs;
use super::interest::Interest;
use super::outbox::Path;
use super::pace::Pace;
use super::spare::Spare;
use super::table::Table;

mod baseline;
mod player;
mod roaming;
mod upload;

pub use player::{OwnerRecord, Player};
pub use roaming::{Arrival, Roaming, Step, Way};
pub use upload::Upload;

/// Bytes of an `Arc`'s two counters.
const ARC_BYTES: usize = 2 * size_of::<usize>();

/// The relay's side of one client.
pub struct Session {
    /// Connection id: the shard and place are in it.
    pub connection: u64,
    /// Where the client is: it has proven that it receives there.
    pub path: Path,
    /// What it has sent lately.
    pub upload: Upload,
    /// Where it may be going.
    pub roaming: Roaming,
    /// The token it came with; `None` in insecure mode.
    pub token: Option<TokenId>,
    /// Its place in the order in which sessions were opened.
    pub order: u64,
    /// How often its token was claimed before it.
    claims_before: u32,
    /// The player's number at the backend, as its token says; 0 in insecure mode.
    pub client: u64,
    /// Bytes a second that its token allows; no bound of its own without.
    rate_max: Option<u64>,
    /// Where it was when it joined.
    pub source: std::net::SocketAddr,
    /// The client's randomness of the handshake: tells a repeated response from a new session.
    pub client_nonce: [u8; 16],
    /// The relay's randomness.
    pub relay_nonce: [u8; 16],
    /// What it speaks with its relay.
    pub agreed: Agreed,
    /// Seals what goes down.
    pub sealer: Sealer,
    /// Opens what comes up.
    pub opener: Opener,
    /// Which snapshots may be named.
    pub window: SendWindow<Arc<Contents>, Table>,
    /// Messages that must arrive.
    pub stream: StreamSender,
    /// The stream that the messages queued last are of; 0 before any.
    pub told_stream: u32,
    /// When messages were sent last.
    pub messages_us: u64,
    /// When the session was made.
    pub created_us: u64,
    /// When it was heard last; the creation until then.
    pub heard_us: u64,
    /// True once an authentic datagram came.
    pub confirmed: bool,
    /// When anything was sent last.
    pub sent_us: u64,
    /// Welcomes sent, and when the last.
    pub welcomes: u32,
    /// When the last welcome was sent.
    pub welcome_us: u64,
    /// Stream epoch whose schema the client says it has.
    pub stream_epoch_known: u32,
    /// Smoothed round trip in microseconds (RFC 6298's first filter), once measured.
    pub round_trip_us: Option<u32>,
    /// How often the client can take a snapshot.
    pub pace: Pace,
    /// When the last snapshot was sent, and of which tick.
    pub snapshot_us: u64,
    /// See [`snapshot_us`](Session::snapshot_us).
    pub snapshot_of: Option<Tick>,
    /// The newest frame was held back by the pace; it goes as soon as that allows.
    pub deferred: bool,
    /// When the view was first complete.
    pub complete_us: Option<u64>,
    /// The view has been complete in this session epoch.
    pub whole: bool,
    /// When the last candidate was sent.
    pub candidate_us: u64,
    /// When the last heavy snapshot was sent while joining.
    pub heavy_us: u64,
    /// When a base digest was sent last.
    pub digest_us: u64,
    /// Entities asked for by the client, as (id, generation).
    pub requests: Vec<(u32, u32)>,
    /// When requested records were sent last.
    pub requests_us: u64,
    /// What may be sent now.
    pub purse: Purse,
    /// Who is in its view, where that is not the whole world or an entity is its own.
    pub interest: Option<Box<Interest>>,
    /// The player behind it.
    pub player: Player,
    /// Its inputs.
    pub inputs: Inputs,
    /// First and last tick this session was served.
    pub first: Option<Tick>,
    /// See [`first`](Session::first).
    pub served: Option<Tick>,
    /// Snapshots sent to it.
    pub served_snapshots: u64,
    /// Bytes of datagrams made for it.
    pub bytes_sent: u64,
    /// Share of datagrams lost on the way to it at the last reading, in thousandths; `None` before the first.
    pub loss_thousandths: Option<u16>,
    /// The session ends: why, how often that is still to be said, and when next.
    pub closing: Option<(CloseReason, u32, u64)>,
    /// Datagrams the client said it received, and the highest number, at the last loss reading.
    received_mark: (u32, u32),
    restart_us: Option<u64>,
    commit_us: Option<u64>,
    restart_wanted: Option<RestartReason>,
    asked: bool,
    claims: Claims,
}

/// What a new session begins with.
pub struct Opening {
    /// Connection id.
    pub connection: u64,
    /// Where the client is.
    pub path: Path,
    /// The client's randomness.
    pub client_nonce: [u8; 16],
    /// The relay's randomness.
    pub relay_nonce: [u8; 16],
    /// What was agreed on.
    pub agreed: Agreed,
    /// Seals what goes down.
    pub sealer: Sealer,
    /// Opens what comes up.
    pub opener: Opener,
}

/// What a payload is received with.
pub struct Hearing<'a> {
    /// The relay's clock.
    pub now_us: u64,
    /// No later datagram came before this one.
    pub newest: bool,
    /// Place for a report.
    pub report: &'a mut Report,
    /// The frames.
    pub arena: &'a Arena,
    /// The shard's counters.
    pub counters: &'a mut Counters,
    /// Where the memory of what is needed no more goes.
    pub spare: &'a mut Spare,
    /// What the origin is to hear.
    pub events: &'a mut Vec<PlayerEvent>,
    /// Filled in: what it said of a challenge.
    pub answer: Option<PathToken>,
}

/// What a payload asked for beyond the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A report was taken.
    Report,
    /// Only a sign of life.
    Keepalive,
    /// The client ends the session.
    Close(CloseReason),
}

impl Session {
    /// A session that has just been granted.
    #[must_use]
    pub fn new(opening: Opening, now_us: u64) -> Session {
        Session {
            connection: opening.connection,
            path: opening.path,
            upload: Upload::default(),
            roaming: Roaming::default(),
            token: None,
            order: 0,
            claims_before: 0,
            client: 0,
            rate_max: None,
            source: opening.path.remote,
            client_nonce: opening.client_nonce,
            relay_nonce: opening.relay_nonce,
            agreed: opening.agreed,
            sealer: opening.sealer,
            opener: opening.opener,
            window: SendWindow::new(WindowLimits::default()),
            stream: StreamSender::default(),
            told_stream: 0,
            messages_us: 0,
            created_us: now_us,
            heard_us: now_us,
            confirmed: false,
            sent_us: 0,
            welcomes: 0,
            welcome_us: 0,
            stream_epoch_known: 0,
            round_trip_us: None,
            pace: Pace::default(),
            snapshot_us: 0,
            snapshot_of: None,
            deferred: false,
            complete_us: None,
            whole: false,
            candidate_us: 0,
            heavy_us: 0,
            digest_us: now_us,
            requests: Vec::new(),
            requests_us: 0,
            purse: Purse::default(),
            interest: None,
            player: Player::default(),
            inputs: Inputs::default(),
            first: None,
            served: None,
            served_snapshots: 0,
            bytes_sent: 0,
            loss_thousandths: None,
            closing: None,
            received_mark: (0, 0),
            restart_us: None,
            commit_us: None,
            restart_wanted: None,
            asked: false,
            claims: Claims::default(),
        }
    }

    /// Takes what its token grants.
    pub fn admit(&mut self, admitted: &Admitted) {
        let Admitted {
            id,
            grant,
            claims_before,
            order,
        } = admitted;
        self.token = Some(*id);
        (self.order, self.claims_before) = (*order, *claims_before);
        self.purse = Purse::of_claim(*claims_before);
        self.client = grant.client;
        self.rate_max = grant.budget_bytes_per_s.map(u64::from);
        if let Some(view) = grant.view {
            self.interest = None;
            self.begin_view(view);
        }
    }

    /// Welcomes that it may be sent before its client is heard: fewer for each session that was made of its token before, so that
    /// copies of one Response bring little (THREATS 9).
    #[must_use]
    pub fn welcomes_max(&self) -> u32 {
        (WELCOMES_MAX >> self.claims_before.min(31)).max(WELCOMES_LEAST)
    }

    /// What it may be sent, where the relay's own bound is `budget`.
    #[must_use]
    pub fn budget(&self, budget: Budget) -> Budget {
        match self.rate_max {
            Some(most) if most < budget.bytes_per_s => {
                let own = Budget::of_rate(most);
                Budget {
                    burst_bytes: own.burst_bytes.min(budget.burst_bytes),
                    ..own
                }
            }
            _ => budget,
        }
    }

    /// Takes one opened payload.
    ///
    /// # Errors
    /// [`ReadError`] when the payload is malformed; nothing of it is taken then.
    pub fn receive(&mut self, bytes: &[u8], hearing: &mut Hearing<'_>) -> Result<Received, ReadError> {
        let mut reader = ByteReader::new(bytes);
        let flags = payload::flags(&mut reader, payload::up_flags(self.agreed))?;
        let mut received = Received::Keepalive;
        if flags & payload::CLOSE != 0 {
            let reason = CloseReason::from_code(reader.u8()?).ok_or(ReadError::OutOfRange)?;
            received = Received::Close(reason);
        }
        if flags & payload::REPORT != 0 {
            hearing.report.decode_into(&mut reader)?;
        }
        let inputs = match flags & payload::INPUTS {
            0 => None,
            _ => Some(InputsBlock::read(&mut reader)?),
        };
        let camera = match flags & payload::CAMERA {
            0 => None,
            _ => Some([reader.u32()?, reader.u32()?, reader.u32()?]),
        };
        let answer = match flags & payload::PATH_ANSWER {
            0 => None,
            _ => Some(reader.array()?),
        };
        if flags & payload::PADDING != 0 {
            payload::read_padding(&mut reader)?;
        }
        reader.end()?;
        hearing.answer = answer;
        if flags & payload::REPORT != 0 {
            self.take_report(hearing);
            if received == Received::Keepalive {
                received = Received::Report;
            }
        }
        if let Some(block) = inputs {
            self.take_inputs(&block, hearing);
        }
        if let Some(camera) = camera.filter(|_| hearing.newest) {
            self.take_camera(camera, hearing);
        }
        self.heard_us = hearing.now_us;
        self.confirmed = true;
        Ok(received)
    }

    fn take_report(&mut self, hearing: &mut Hearing<'_>) {
        let (now_us, report, counters) = (hearing.now_us, &*hearing.report, &mut *hearing.counters);
        counters.reports += 1;
        // A report that comes late is older: what the client knew then it knows still.
        self.stream_epoch_known = self.stream_epoch_known.max(report.stream_epoch);
        if report.received_count > 0
            && let Some(sample) = payload::round_trip_us(now_us, report.echo, report.echo_delay)
        {
            counters.round_trip_us.observe(u64::from(sample));
            self.pace.observe(now_us, sample);
            self.round_trip_us = Some(
                self.round_trip_us
                    .map_or(sample, |old| old - old / 8 + sample / 8),
            );
        }
        self.take_loss(report, counters);
        self.stream.acknowledge(report.next_message);
        self.requests.clone_from(&report.requests);
        let sent = self.sealer.next_number();
        self.claims
            .take(&report.rejected, sent, &mut counters.rejected_by_clients);
        self.take_window(hearing);
    }

    fn take_window(&mut self, hearing: &mut Hearing<'_>) {
        let Hearing {
            now_us,
            report,
            arena,
            counters,
            spare,
            ..
        } = hearing;
        let (now_us, arena) = (*now_us, *arena);
        let read = WindowReport {
            session_epoch: report.session_epoch,
            generation: report.generation,
            held: report.held.as_slice(),
            ask: report.ask,
            refuse: report.refuse,
        };
        let outcome = self.window.receive(
            read,
            |candidate, mask, base| match arena.frame(candidate.id) {
                Some(frame) => Table::build(frame, base, &candidate.contents, mask, arena),
                None => Table::Lost(candidate.id),
            },
            &mut spare.candidates,
        );
        counters.reports_stale += u64::from(outcome.stale);
        counters.reports_contradicting += u64::from(outcome.contradicted);
        counters.reports_unknown += u64::from(outcome.unknown > 0 && outcome.contradicted == 0);
        if let Some(opened_us) = outcome.confirmed {
            counters.advances_confirmed += 1;
            counters
                .window_advance_us
                .observe(now_us.saturating_sub(opened_us));
        }
        if outcome.stale {
            return;
        }
        if outcome.restart == Some(RestartReason::Refused(RefuseReason::BaseDigest))
            && self.restart_wanted.is_none()
        {
            counters.digest_mismatches += 1;
        }
        self.restart_wanted = outcome.restart;
        counters.advances_requested += u64::from(report.ask && !self.asked);
        counters.window_full += u64::from(report.held.as_slice().len() >= WINDOW_SLOTS);
        self.asked = report.ask;
    }

    /// Loss between two readings at least 64 datagrams apart.
    fn take_loss(&mut self, report: &Report, counters: &mut Counters) {
        let (newest, count) = self.received_mark;
        let sent = report.received_newest.wrapping_sub(newest);
        if (64..1 << 20).contains(&sent) {
            let got = report.received_count.wrapping_sub(count).min(sent);
            let lost = u64::from(sent - got) * 1000 / u64::from(sent);
            counters.loss_thousandths.observe(lost);
            self.loss_thousandths = u16::try_from(lost).ok();
            self.received_mark = (report.received_newest, report.received_count);
        }
    }

    /// Fills the purse for the time since it was filled last. `share_thousandths`: what the egress cap leaves of the rate.
    pub fn fill_purse(&mut self, budget: Budget, share_thousandths: u16, now_us: u64) {
        let (budget, loss) = (self.budget(budget), self.loss_thousandths.unwrap_or(0));
        self.purse
            .fill(budget, now_us, self.confirmed, loss, share_thousandths);
    }

    /// Queues a message of a stream, behind one that says which stream it is.
    ///
    /// # Errors
    /// [`StreamFull`]; the message is not queued then.
    pub fn push(&mut self, stream_epoch: u32, message: &[u8], urgent: bool) -> Result<(), StreamFull> {
        if self.told_stream != stream_epoch {
            let mut bytes = Vec::new();
            Message::Stream(stream_epoch).encode(&mut bytes);
            self.stream.push(&bytes)?;
            self.told_stream = stream_epoch;
        }
        match urgent {
            true => self.stream.push_urgent(message),
            false => self.stream.push(message),
        }
    }

    /// The digest of a base, if one is due (SPEC DEC9).
    #[must_use]
    pub fn digest_of(&self, base: Option<Held>, arena: &Arena) -> Option<Digest> {
        self.window.find(base?.id)?.table.digest(arena)
    }

    /// Time after which an unacknowledged message goes again: a round trip and a quarter, and 20 ms.
    #[must_use]
    pub fn resend_us(&self) -> u64 {
        self.round_trip_us
            .map_or(200_000, |rtt| u64::from(rtt) * 5 / 4 + 20_000)
    }

    /// Bytes this session holds on the heap for its tables, and for the rest, in the worst case of its
    /// present contents.
    #[must_use]
    pub fn heap_bytes(&self) -> (usize, usize) {
        let tables: usize = self
            .window
            .held()
            .iter()
            .map(|held| held.table.heap_bytes())
            .sum();
        let contents: usize = self
            .window
            .candidates()
            .map(|candidate| size_of::<Contents>() + ARC_BYTES + candidate.contents.heap_bytes())
            .sum();
        let interest = self
            .interest
            .as_ref()
            .map_or(0, |interest| size_of::<Interest>() + interest.heap_bytes());
        (
            tables + contents + interest,
            size_of::<Session>() + STREAM_MESSAGES_MAX.min(self.stream.backlog()) * 64,
        )
    }
}
