//! One shard: its sessions and the frames they are served from. Sans-I/O.
//!
//! > Time, randomness and buffers are arguments. `receive` takes a datagram and may answer a handshake;
//! > `publish` takes the next frame; `transmit` serves sessions until all have the newest frame or the outbox
//! > is full; `timers` does what is due without a frame. Nothing else happens, and one client's datagram never
//! > touches another's session.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::delta::layout::Layout;
use crate::limits::{ARENA_FRAMES, PARTS_PER_TICK};
use crate::state::Frame;
use crate::state::player::{ClientId, PlayerEvent};
use crate::state::view::View;
use crate::window::send::RestartReason;
use crate::wire::cookie::CookieKey;
use crate::wire::payload::CloseReason;
use crate::wire::report::Report;
use crate::wire::version::Versions;

mod due;
mod farewell;
mod handshake;
mod players;
mod receive;
mod roaming;
mod tour;

use self::due::{Due, due};
use self::farewell::FAREWELLS;
use self::tour::Tour;
use super::admission::{Admission, Census, Limits};
use super::arena::Arena;
use super::budget::Budget;
use super::compose::{Blocks, Composed, Outer, compose};
use super::counters::{Counters, DatagramRefusal, Withheld};
use super::egress::Egress;
use super::entropy::Entropy;
use super::gate::Gate;
use super::kitchen::Kitchen;
use super::outbox::Outbox;
use super::overload::Overload;
use super::serve::{Turn, serve};
use super::session::Session;

/// Settings of a shard.
#[derive(Clone)]
pub struct ShardSettings {
    /// This shard's index; it is part of every connection id.
    pub index: u8,
    /// Sessions at the most, of all shards that share a census.
    pub sessions_max: usize,
    /// Bytes each session may be sent.
    pub budget: Budget,
    /// Bytes a second this shard may send to all its sessions together; `None` without a cap.
    pub egress_bytes_per_s: Option<u64>,
    /// The view of a session until the origin assigns another.
    pub view: View,
    /// Who is let in; `None`: whoever asks, in insecure mode.
    pub gate: Option<Arc<Gate>>,
    /// Versions of the protocol that it speaks.
    pub versions: Versions,
    /// What strangers and clients may make it do.
    pub limits: ShardLimits,
    /// Secret of the cookies: the same in every shard, since any of them may get the response.
    pub cookie_secret: [u8; 32],
    /// Seed of connection ids and nonces: different in every shard.
    pub seed: [u8; 32],
    /// Nanoseconds for the cost figures; may stand still.
    pub stopwatch: fn() -> u64,
}

/// Without its secrets.
impl fmt::Debug for ShardSettings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("ShardSettings");
        shown.field("index", &self.index);
        shown.field("sessions_max", &self.sessions_max);
        shown.field("budget", &self.budget);
        shown.field("egress_bytes_per_s", &self.egress_bytes_per_s);
        shown.field("view", &self.view);
        shown.field("gate", &self.gate);
        shown.field("versions", &self.versions);
        shown.field("limits", &self.limits);
        shown.finish_non_exhaustive()
    }
}

/// What holds at all shards of a relay together. By default nothing is limited.
#[derive(Clone, Debug, Default)]
pub struct ShardLimits {
    /// Of the relay.
    pub limits: Limits,
    /// How many shards it has; 0: not said, and any index may be one.
    pub shards: usize,
    /// Sessions, together and of each host.
    pub census: Arc<Census>,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It was taken.
    Taken,
    /// It was refused and counted.
    Refused(DatagramRefusal),
    /// It belongs to another shard: hand it over.
    Elsewhere(u8),
}

/// A session came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// Opened, with its connection id and whose it is, as its token says.
    Opened(u64, ClientId),
    /// Closed.
    Closed(u64, CloseReason),
}

/// Sessions and frames of one shard.
pub struct Shard {
    settings: ShardSettings,
    cookies: CookieKey,
    entropy: Entropy,
    /// This shard's share of the limits.
    limits: Limits,
    admission: Admission,
    /// Sessions that were not heard when they were put in, oldest first, and how many are not heard yet.
    unheard: VecDeque<u64>,
    unheard_open: usize,
    arena: Arena,
    kitchen: Kitchen,
    schema: Vec<u8>,
    /// The lowest version that can read the stream.
    version_least: u16,
    stream_epoch: u32,
    sessions: Vec<Option<Box<Session>>>,
    free: Vec<usize>,
    open: usize,
    /// The same by version of the protocol, from the lowest that is spoken.
    by_version: [usize; Versions::SPOKEN.count()],
    by_source: HashMap<(SocketAddr, [u8; 16]), usize>,
    tour: Tour,
    /// Since when nobody is let in, once that is so.
    draining_since_us: Option<u64>,
    /// Time over which a drain tells its sessions to go, microseconds; 0 for at once.
    drain_spread_us: u64,
    report: Report,
    counters: Counters,
    changes: Vec<SessionChange>,
    player_events: Vec<PlayerEvent>,
    /// Places of sessions that were never heard and are to go; empty but while they go.
    unsettled: Vec<usize>,
    overload: Overload,
    /// Sessions that frames came too early for, since the last look.
    missed: usize,
    /// A frame has come since the last look.
    fresh: bool,
    egress: Egress,
}

/// Bits of a connection id that hold the place in the shard; the shard's index lies above them, 32 random bits
/// above that.
const PLACE_BITS: u32 = 24;

impl Shard {
    /// A shard without frames and sessions.
    #[must_use]
    pub fn new(settings: ShardSettings) -> Shard {
        let mut entropy = Entropy::new(&settings.seed);
        let ShardLimits { limits, shards, .. } = &settings.limits;
        let secrets = [(); 4].map(|()| entropy.bytes());
        Shard {
            cookies: CookieKey::new(&settings.cookie_secret),
            limits: limits.of_shard(*shards),
            admission: Admission::new(*limits, *shards, secrets),
            unheard: VecDeque::new(),
            unheard_open: 0,
            entropy,
            arena: Arena::new(ARENA_FRAMES),
            kitchen: Kitchen::new(settings.budget, settings.stopwatch),
            egress: Egress::new(settings.egress_bytes_per_s),
            settings,
            schema: Vec::new(),
            version_least: 0,
            stream_epoch: 0,
            sessions: Vec::new(),
            free: Vec::new(),
            open: 0,
            by_version: [0; Versions::SPOKEN.count()],
            by_source: HashMap::new(),
            tour: Tour::default(),
            draining_since_us: None,
            drain_spread_us: 0,
            report: Report::default(),
            counters: Counters::default(),
            changes: Vec::new(),
            player_events: Vec::new(),
            unsettled: Vec::new(),
            overload: Overload::default(),
            missed: 0,
            fresh: false,
        }
    }

    /// The same shard, whose drain tells its sessions to go over so many microseconds rather than all at once.
    #[must_use]
    pub fn with_drain_spread(self, drain_spread_us: u64) -> Shard {
        Shard {
            drain_spread_us,
            ..self
        }
    }

    /// Sessions that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// The same by version of the protocol, from the lowest of [`Versions::SPOKEN`].
    #[must_use]
    pub fn open_by_version(&self) -> &[usize] {
        &self.by_version
    }

    /// Counts a session of a version that came, or went.
    fn count_version(&mut self, version: u16, has_come: bool) {
        let index = usize::from(version.saturating_sub(Versions::SPOKEN.lowest()));
        if let Some(count) = self.by_version.get_mut(index) {
            *count = if has_come {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        }
    }

    /// What one session may be sent where nothing of its own says less.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.settings.budget
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What was counted, to take the histograms.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// The frames.
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Sessions in order of their place.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().flatten().map(|session| &**session)
    }

    /// Sessions that came or went since the last call.
    pub fn take_changes(&mut self) -> Vec<SessionChange> {
        core::mem::take(&mut self.changes)
    }

    /// Which shard a connection id belongs to.
    #[must_use]
    pub fn of_connection(connection: u64) -> u8 {
        u8::try_from(connection >> PLACE_BITS & 0xFF).unwrap_or(0)
    }

    /// Takes the next frame. `schema` is its stream's canonical schema; it is looked at when the stream changes.
    pub fn publish(&mut self, frame: Arc<Frame>, schema: &[u8]) {
        let unserved = self.unserved();
        self.counters.withheld[Withheld::Overrun as usize] += unserved as u64;
        // Frames that come together are a burst of the upstream's: the shard is behind where it began to serve one.
        if !self.fresh {
            self.missed += unserved;
        }
        if frame.stream_epoch != self.stream_epoch {
            self.stream_epoch = frame.stream_epoch;
            self.schema = schema.to_vec();
            self.version_least = frame.schema.coding.version();
            self.part_from_older();
            self.kitchen.set_layout(Layout::new(&frame.schema));
            for session in self.sessions.iter_mut().flatten() {
                if session.served_snapshots > 0 {
                    session.restart_if_wanted(
                        0,
                        Some(RestartReason::StreamChanged),
                        &mut self.kitchen.spare,
                        &mut self.counters,
                    );
                }
                session.welcome_us = 0;
                session.begin_stream();
            }
        }
        self.kitchen.begin_tick(&frame, &mut self.counters);
        self.direct(&frame);
        if let Some(old) = self.arena.newest() {
            // It is asked for while its frame is the newest, by shards that are late at the most.
            old.forget_grid();
        }
        self.arena.publish(frame);
        self.tour.begin(self.sessions.len());
        self.fresh = true;
    }

    /// Whoever speaks a version that cannot read the stream is told so and let go: nothing of it can be shown to him.
    fn part_from_older(&mut self) {
        let least = self.version_least;
        let older = |session: &&mut Box<Session>| session.agreed.version < least;
        for session in self.sessions.iter_mut().flatten().filter(older) {
            let farewell = (CloseReason::Protocol, FAREWELLS, 0);
            session.closing.get_or_insert(farewell);
        }
    }

    /// Once a frame: how far behind the shard is, and how much it sends.
    fn look(&mut self, now_us: u64) {
        if core::mem::take(&mut self.fresh) {
            self.overload.observe(now_us, core::mem::take(&mut self.missed));
        }
        self.egress.observe(now_us, self.counters.bytes_sent);
    }

    /// How far behind the shard is, 0 to [`LEVEL_MAX`](super::overload::LEVEL_MAX).
    #[must_use]
    pub fn overload_level(&self) -> u8 {
        self.overload.level()
    }

    /// What the egress cap leaves of every session's rate, in thousandths.
    #[must_use]
    pub fn egress_share_thousandths(&self) -> u16 {
        self.egress.share_thousandths()
    }

    /// Serves sessions the newest frame until all have it or the outbox has no room for a whole snapshot. True
    /// when some are left: flush and call again.
    pub fn transmit(&mut self, now_us: u64, outbox: &mut impl Outbox) -> bool {
        self.look(now_us);
        while let Some(place) = self.tour.next_place() {
            let Some(Some(session)) = self.sessions.get(place) else {
                self.tour.pass();
                continue;
            };
            if outbox.room() < PARTS_PER_TICK {
                return true;
            }
            self.tour.pass();
            if session.closing.is_none() {
                self.serve_place(place, now_us, outbox);
            }
        }
        false
    }

    /// Sessions not served the newest frame yet.
    #[must_use]
    pub fn unserved(&self) -> usize {
        let open = |place: &usize| matches!(self.sessions.get(*place), Some(Some(_)));
        self.tour.rest().filter(open).count()
    }

    /// Ends a session at once.
    fn close(&mut self, place: usize, reason: CloseReason) {
        let Some(session) = self.sessions.get_mut(place).and_then(Option::take) else {
            return;
        };
        self.by_source.remove(&(session.source, session.client_nonce));
        if let (Some(gate), Some(id)) = (&self.settings.gate, &session.token) {
            gate.leave(id, session.client, session.connection, session.confirmed);
        }
        self.unheard_open -= usize::from(!session.confirmed);
        let ShardLimits { limits, census, .. } = &self.settings.limits;
        census.leave(limits, session.source.ip());
        self.free.push(place);
        self.open -= 1;
        self.count_version(session.agreed.version, false);
        self.counters.close(reason);
        self.changes
            .push(SessionChange::Closed(session.connection, reason));
        // Also of one never heard: the directory has it, and so it may have been told of at a reconnection.
        self.player_events.push(PlayerEvent::Left(session.connection));
    }

    /// What is due without a frame: snapshots that the pace held back, welcomes, probes, messages, farewells, ends. Call
    /// at least every 50 ms.
    pub fn timers(&mut self, now_us: u64, outbox: &mut impl Outbox) {
        self.counters.control_backlog = 0;
        self.forget_heard();
        self.dismiss_replaced(now_us);
        self.let_go(now_us);
        let (budget, share_thousandths) = (self.kitchen.budget, self.egress.share_thousandths());
        for place in 0..self.sessions.len() {
            if outbox.room() == 0 {
                return;
            }
            let Some(Some(session)) = self.sessions.get_mut(place) else {
                continue;
            };
            self.counters.control_backlog += session.stream.backlog() as u64;
            let allowed = session.deferred && session.pace.allows(now_us.saturating_sub(session.snapshot_us));
            if allowed && session.closing.is_none() && outbox.room() >= PARTS_PER_TICK {
                self.serve_place(place, now_us, outbox);
                continue;
            }
            session.fill_purse(budget, share_thousandths, now_us);
            let room = match self.egress.allows() {
                true => session.purse.bytes(),
                false => 0,
            };
            match due(session, self.stream_epoch, room, now_us) {
                Due::Nothing => {}
                Due::Welcome => self.welcome(place, now_us, outbox),
                Due::Blocks(blocks) => self.send_blocks(place, blocks, now_us, outbox),
                Due::Farewell(reason) => self.say_farewell(place, reason, now_us, outbox),
                Due::End(reason) => self.close(place, reason),
            }
        }
    }

    fn serve_place(&mut self, place: usize, now_us: u64, outbox: &mut impl Outbox) {
        let tick = self.arena.newest().map_or(0, |frame| frame.tick.0);
        if let Some(Some(session)) = self.sessions.get_mut(place) {
            let turn = Turn {
                serves: self.overload.serves(session.plays(), place, tick),
                egress: self.egress.allows(),
                share_thousandths: self.egress.share_thousandths(),
            };
            serve(
                session,
                &self.arena,
                &mut self.kitchen,
                turn,
                now_us,
                outbox,
                &mut self.counters,
            );
        }
    }

    fn send_blocks(&mut self, place: usize, blocks: Blocks<'_>, now_us: u64, outbox: &mut impl Outbox) {
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return;
        };
        let sent = compose(
            session,
            Outer::Down,
            blocks,
            now_us,
            self.settings.stopwatch,
            outbox,
        );
        if let Some(Composed { bytes, .. }) = sent {
            self.counters.datagrams_sent += 1;
            self.counters.bytes_sent += bytes as u64;
        }
    }
}

#[cfg(test)]
impl Shard {
    /// Passes over datagram numbers of every session.
    pub(super) fn skip_numbers(&mut self, to: u64) {
        for session in self.sessions.iter_mut().flatten() {
            session.sealer.skip_to(to);
        }
    }

    /// Counts a number of every session as heard.
    pub(super) fn skip_heard(&mut self, number: u64) {
        for session in self.sessions.iter_mut().flatten() {
            session.opener.skip_to(number);
        }
    }
}
