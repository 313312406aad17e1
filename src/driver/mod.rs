//! A driver for a game that does not want to own a socket: it gets a session, keeps it, and gets another.
//!
//! > Call [`Driver::poll`] once a frame with the time of a clock that never runs backwards, in microseconds; it never blocks.
//! > Draw what [`Driver::client`] shows, give it inputs with [`Driver::push_input`], fetch [`Driver::poll_event`] until it is
//! > empty. No threads, no crate beside those of the client.
//!
//! ```text
//!            begins                     silent, closed, draining            lets in, view whole
//! asking ─────────────► showing a session ─────────────────► showing it, asking again ─────────► showing the new one
//!                          ▲         heard again                    │      denied, unanswered: back-off, next relay
//!                          └────────────────────────────────────────┘
//! ```
//!
//! One session is shown. When its relay is silent for a second, or ends it, another is asked for beside it on a socket of its
//! own, and the old display stays until the new view is whole: so a relay that was started again costs no blank picture. A
//! session whose relay is merely silent gets a new socket too, since the network may be another (a session is known by its id,
//! not by its address), and where it is heard again the other is left. A relay that drains, is full or does not answer
//! sends to the next of the list. Pauses grow and are spread (FAULTS 46).
//!
//! **A new session** is told by [`DriverEvent::Session`]: inputs are numbered from 1 and streams from anew, so predictions
//! and playback begin again. Inputs that were not acknowledged when a session, or the first attempt to get one, came to its end
//! are told by [`ClientEvent::InputsLost`] before what comes next; some of them may have been heard.
//!
//! **Time.** A clock that stood still while the host slept, or a game that did not poll, is no silence: what waits in the
//! socket is read first, and a relay is given half a second from then (FAULTS 79, 89). A session that the relay gave up meanwhile
//! is silent or says so, and is replaced within that time.
//!
//! **Names.** Resolving a name may block, so it is the game's: give what it found to [`Driver::set_relays`], again after each
//! [`DriverEvent::Failed`] (FAULTS 82). A token serves once: give a fresh one to [`Driver::set_token`] when a session began.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::io;
use std::net::SocketAddr;

use crate::backoff::Backoff;
use crate::client::camera::CameraError;
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::inputs::InputError;
use crate::client::session::{Client, Received, SessionState};
use crate::limits::RELAYS_MAX;
use crate::net::plain::{PlainCounts, random};
use crate::wire::payload::CloseReason;
use line::{Buffers, Line};
use settings::DriverSettings;
use told::Told;

mod line;
pub mod settings;
mod told;

#[cfg(test)]
mod tests;

/// What the game is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// A relay is asked for a session.
    Asking(SocketAddr),
    /// An attempt came to nothing; the next relay is asked after a pause.
    Failed(Ending),
    /// From here on this session is shown, at this relay.
    Session(SocketAddr),
    /// Nothing is heard of the session shown; another is asked for.
    Silent,
    /// The session shown is heard again.
    Heard,
    /// The session shown goes on from a new socket.
    Rebound,
    /// Something of the session shown.
    Client(ClientEvent),
    /// The end: the game left, or the session was taken over elsewhere.
    Over(Ending),
}

/// What was counted. Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounts {
    /// Sessions shown.
    pub sessions: u64,
    /// Relays asked for a session.
    pub attempts: u64,
    /// Attempts that came to nothing.
    pub failed: u64,
    /// Times another relay was turned to.
    pub redirects: u64,
    /// Sockets made anew for a session that goes on.
    pub rebinds: u64,
    /// Times nothing was heard for too long.
    pub silences: u64,
    /// New sessions that were left because the old one was heard again.
    pub spared: u64,
    /// Events that the game did not fetch in time: those that matter least go first, and sessions never.
    pub events_dropped: u64,
}

/// Keeps a client in a session.
pub struct Driver {
    settings: DriverSettings,
    /// Index of the relay that is asked next.
    relay: usize,
    shown: Line,
    /// The shown session has been told of as such.
    told: bool,
    is_silent: bool,
    /// A pause of the game's was taken off the silence, which is done once.
    is_excused: bool,
    next: Option<Line>,
    /// When another session may be asked for.
    ask_us: u64,
    backoff: Backoff,
    told_events: Told,
    buffers: Buffers,
    now_us: u64,
    over: bool,
    /// The relay replaced the shown session by the next one, which is this driver's too.
    is_own_doing: bool,
    counts: DriverCounts,
    past: PlainCounts,
}

/// Silences after which a next session is given up where there is no other.
const SILENCES_OF_THE_LAST: u64 = 4;

impl Driver {
    /// A driver that begins to ask for a session. An unreachable relay is no error: it is asked again.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] without a relay, or with too many; what the system says where it has no random bytes.
    pub fn new(settings: DriverSettings, now_us: u64) -> io::Result<Driver> {
        let known = settings.relays.len();
        let first = settings.relays.first().copied().filter(|_| known <= RELAYS_MAX);
        let Some(relay) = first else {
            let text = format!("{known} relays: name 1 to {RELAYS_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let client = settings.of_attempt();
        let mut driver = Driver {
            shown: Line::open(relay, client, random()?, now_us),
            backoff: Backoff::new(settings.backoff_us, u64::from_le_bytes(random()?)),
            settings,
            relay: 0,
            told: false,
            is_silent: false,
            is_excused: false,
            next: None,
            ask_us: now_us,
            told_events: Told::default(),
            buffers: Buffers::default(),
            now_us,
            over: false,
            is_own_doing: false,
            counts: DriverCounts::default(),
            past: PlainCounts::default(),
        };
        driver.counts.attempts = 1;
        driver.tell(DriverEvent::Asking(relay));
        Ok(driver)
    }

    /// One turn: takes what has arrived, does what time brings, sends what is due.
    pub fn poll(&mut self, now_us: u64) {
        self.poll_with(now_us, |_, _| {});
    }

    /// As [`poll`](Driver::poll); `watch` sees the shown session's client after each of its datagrams, so that what one
    /// of them changed ([`Client::changes`]) can be put into a history.
    pub fn poll_with(&mut self, now_us: u64, mut watch: impl FnMut(&Client, Received)) {
        let now_us = now_us.max(self.now_us);
        let paused = now_us - self.now_us >= self.settings.silence_us / 2;
        self.now_us = now_us;
        if paused && !self.is_excused {
            let most_us = self.settings.silence_us / 2;
            let floor_us = now_us.saturating_sub(most_us);
            for line in [Some(&mut self.shown), self.next.as_mut()].into_iter().flatten() {
                line.quiet_us = line.quiet_us.max(floor_us);
            }
            self.is_excused = true;
        }
        let heard = self.shown.receive(now_us, &mut self.buffers, &mut watch);
        if let Some(next) = &mut self.next {
            next.receive(now_us, &mut self.buffers, &mut |_, _| {});
        }
        if self.over {
            self.shown.transmit(now_us, &mut self.buffers);
            return;
        }
        self.judge_shown(now_us, heard);
        self.judge_next(now_us);
        self.shown.transmit(now_us, &mut self.buffers);
        if let Some(next) = &mut self.next {
            next.transmit(now_us, &mut self.buffers);
        }
    }

    fn judge_shown(&mut self, now_us: u64, heard: bool) {
        self.is_excused &= !heard;
        if heard && self.is_silent {
            self.is_silent = false;
            self.tell(DriverEvent::Heard);
            // One that is connected already goes on and is shown: where players have numbers the relay has replaced this one by it.
            if self.shown.is_connected()
                && let Some(next) = self.next.take_if(|next| !next.is_connected())
            {
                self.counts.spared += 1;
                self.past.add(&next.leave(now_us, &mut self.buffers));
            }
        }
        match self.shown.client.state() {
            SessionState::Closed(ending) => self.shown_ended(now_us, ending),
            SessionState::Connected => {
                if !self.told {
                    self.told = true;
                    self.backoff.reset();
                    self.counts.sessions += 1;
                    self.tell(DriverEvent::Session(self.shown.relay));
                }
                self.judge_silence(now_us);
            }
            _ => {}
        }
    }

    fn judge_silence(&mut self, now_us: u64) {
        let silence_us = self.settings.silence_us;
        if !self.is_quiet(&self.shown, now_us) {
            return;
        }
        if !self.is_silent {
            self.is_silent = true;
            self.counts.silences += 1;
            self.ask_after_pause(now_us);
            self.tell(DriverEvent::Silent);
        }
        if now_us.saturating_sub(self.shown.socket_us()) >= silence_us {
            self.rebind_shown(now_us);
        }
        self.ask(now_us);
    }

    /// The shown session is over: unless that is the end, another is asked for, of the next relay where this one wants no
    /// more of it.
    fn shown_ended(&mut self, now_us: u64, ending: Ending) {
        self.tell_lost_inputs();
        while let Some(event) = self.shown.client.poll_event() {
            self.tell(DriverEvent::Client(event));
        }
        let is_replaced = ending == Ending::Relay(CloseReason::Replaced);
        self.is_own_doing |= is_replaced && self.next.as_ref().is_some_and(Line::is_connected);
        if ending == Ending::Left || (is_replaced && !self.is_own_doing) {
            self.over = true;
            self.tell(DriverEvent::Over(ending));
            return;
        }
        if !self.is_silent {
            self.is_silent = true;
            if !self.told {
                self.failed(ending);
            }
            if is_elsewhere(ending) {
                self.turn_from(self.shown.relay);
            }
            self.ask_after_pause(now_us);
        }
        self.ask(now_us);
    }

    fn judge_next(&mut self, now_us: u64) {
        let Some(next) = &self.next else { return };
        if let SessionState::Closed(ending) = next.client.state() {
            let relay = next.relay;
            if let Some(next) = self.next.take() {
                self.past.add(&next.counts());
            }
            self.failed(ending);
            if is_elsewhere(ending) {
                self.turn_from(relay);
            }
            self.ask_after_pause(now_us);
        } else if next.is_connected() && self.may_show(next, now_us) {
            self.show_next(now_us);
        } else if next.is_connected() && self.is_given_up(next, now_us) {
            // Its relay died while the view was being completed: waiting for the end of its idle time would cost most of a minute.
            if let Some(next) = self.next.take() {
                self.past.add(&next.leave(now_us, &mut self.buffers));
            }
            self.failed(Ending::Silent);
            self.ask_after_pause(now_us);
        }
    }

    /// True when the next session is not worth waiting for: it is silent, for longer where the shown one is over, and with it the
    /// token that the next one spent.
    fn is_given_up(&self, next: &Line, now_us: u64) -> bool {
        let patience = if self.shown.is_connected() {
            1
        } else {
            SILENCES_OF_THE_LAST
        };
        now_us.saturating_sub(next.quiet_us) >= self.settings.silence_us.saturating_mul(patience)
    }

    /// True when nothing came of a session for the time that counts as silence.
    fn is_quiet(&self, line: &Line, now_us: u64) -> bool {
        now_us.saturating_sub(line.quiet_us) >= self.settings.silence_us
    }

    /// True when the other session has as much to show as the old one, or was waited for long enough.
    fn may_show(&self, next: &Line, now_us: u64) -> bool {
        if self.shown.client.display().live() == 0 {
            return true;
        }
        let statistics = next.client.statistics();
        let waited_us = now_us.saturating_sub(statistics.connected_us.unwrap_or(now_us));
        statistics.view_complete_us.is_some()
            || (next.client.display().live() > 0 && waited_us >= self.settings.keep_display_us)
    }

    fn show_next(&mut self, now_us: u64) {
        let Some(next) = self.next.take() else { return };
        while let Some(event) = self.shown.client.poll_event() {
            self.tell(DriverEvent::Client(event));
        }
        self.tell_lost_inputs();
        let old = core::mem::replace(&mut self.shown, next);
        self.past.add(&old.leave(now_us, &mut self.buffers));
        (self.is_silent, self.is_own_doing) = (false, false);
        self.told = true;
        self.backoff.reset();
        self.counts.sessions += 1;
        self.tell(DriverEvent::Session(self.shown.relay));
    }

    /// The inputs of the session shown that are not acknowledged go with it.
    fn tell_lost_inputs(&mut self) {
        if let Some((first, count)) = self.shown.client.forget_inputs() {
            self.tell(DriverEvent::Client(ClientEvent::InputsLost { first, count }));
        }
    }

    /// Asks for another session, where none is asked for and the pause is over.
    fn ask(&mut self, now_us: u64) {
        if self.next.is_some() || now_us < self.ask_us {
            return;
        }
        let relay = self.settings.relays.get(self.relay).copied();
        let (Some(relay), Ok(nonce)) = (relay, random()) else {
            self.ask_after_pause(now_us);
            return;
        };
        let client = self.settings.of_attempt();
        self.next = Some(Line::open(relay, client, nonce, now_us));
        self.counts.attempts += 1;
        self.tell(DriverEvent::Asking(relay));
    }

    fn ask_after_pause(&mut self, now_us: u64) {
        self.ask_us = now_us.saturating_add(self.backoff.next_us());
    }

    /// Another relay than this one is asked next, where there is one.
    fn turn_from(&mut self, relay: SocketAddr) {
        let known = self.settings.relays.len();
        if known > 1 && self.settings.relays.get(self.relay) == Some(&relay) {
            self.relay = (self.relay + 1) % known;
            self.counts.redirects += 1;
        }
    }

    fn failed(&mut self, ending: Ending) {
        self.counts.failed += 1;
        self.tell(DriverEvent::Failed(ending));
    }

    fn rebind_shown(&mut self, now_us: u64) {
        self.shown.rebind(now_us);
        self.counts.rebinds += 1;
        self.tell(DriverEvent::Rebound);
    }

    /// The network changed, as the system told the game: sockets are made anew at once, without waiting for silence.
    pub fn rebind(&mut self, now_us: u64) {
        self.rebind_shown(now_us);
        if let Some(next) = &mut self.next {
            next.rebind(now_us);
        }
    }

    /// Other relays, for sessions asked for from now on; the present one goes on. An empty list, and what is beyond
    /// [`RELAYS_MAX`], is not taken.
    pub fn set_relays(&mut self, relays: &[SocketAddr]) {
        if relays.is_empty() {
            return;
        }
        self.settings.relays.clear();
        self.settings.relays.extend(relays.iter().take(RELAYS_MAX));
        self.relay = 0;
    }

    /// The token and its key for sessions asked for from now on.
    pub fn set_token(&mut self, token: Vec<u8>, token_key: [u8; 32]) {
        self.settings.client.token = token;
        self.settings.client.token_key = token_key;
    }

    /// The session shown. Before the first one it asks, and shows nothing.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.shown.client
    }

    /// The relay of the session shown.
    #[must_use]
    pub fn relay(&self) -> SocketAddr {
        self.shown.relay
    }

    /// The address that the session shown sends from, where there is a socket.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.shown.local()
    }

    /// True while what is shown is of a relay that is heard.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.is_silent && self.shown.is_connected()
    }

    /// One input of the player, to the session shown, or to the one asked for first: see [`Client::push_input`]. What does not
    /// get there is told by [`ClientEvent::InputsLost`].
    ///
    /// # Errors
    /// [`InputError`]; [`InputError::SessionOver`] until another session is shown.
    pub fn push_input(&mut self, payload: &[u8]) -> Result<u32, InputError> {
        self.shown.client.push_input(payload)
    }

    /// Moves the free camera of the session shown: see [`Client::set_camera`].
    ///
    /// # Errors
    /// [`CameraError`].
    pub fn set_camera(&mut self, metres: [f64; 3]) -> Result<(), CameraError> {
        self.shown.client.set_camera(metres)
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<DriverEvent> {
        let own = self.told_events.pop();
        own.or_else(|| self.shown.client.poll_event().map(DriverEvent::Client))
    }

    /// Leaves: goodbyes are sent by the next polls, until [`DriverEvent::Over`].
    pub fn leave(&mut self, now_us: u64) {
        if let Some(next) = self.next.take() {
            self.past.add(&next.leave(now_us, &mut self.buffers));
        }
        if self.shown.is_closed() && !self.over {
            self.over = true;
            self.tell(DriverEvent::Over(Ending::Left));
        }
        self.shown.client.leave(now_us);
    }

    /// When [`poll`](Driver::poll) is to be called at the latest, but for what arrives; `u64::MAX` once it is over.
    #[must_use]
    pub fn next_timer(&self) -> u64 {
        if self.over {
            return u64::MAX;
        }
        let next = self.next.as_ref();
        let has_ended = |line: &Line| line.is_closed();
        if next.is_some_and(has_ended) || (has_ended(&self.shown) && !self.is_silent) {
            // What ended in the last turn is judged in the next.
            return self.now_us;
        }
        let silence_us = self.settings.silence_us;
        let quiet = |line: &Line| match line.is_connected() {
            true => line.quiet_us.saturating_add(silence_us),
            false => u64::MAX,
        };
        let ask = if self.is_silent {
            self.ask_us
        } else {
            quiet(&self.shown)
        };
        let next = next.map_or(ask, |next| next.client.next_timer().min(quiet(next)));
        self.shown.client.next_timer().min(next)
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> DriverCounts {
        DriverCounts {
            events_dropped: self.told_events.dropped(),
            ..self.counts
        }
    }

    /// What its sockets counted.
    #[must_use]
    pub fn socket_counts(&self) -> PlainCounts {
        let mut counts = self.past;
        counts.add(&self.shown.counts());
        if let Some(next) = &self.next {
            counts.add(&next.counts());
        }
        counts
    }

    fn tell(&mut self, event: DriverEvent) {
        self.told_events.push(event);
    }
}

/// True when another relay is the better one to ask.
fn is_elsewhere(ending: Ending) -> bool {
    matches!(
        ending,
        Ending::Relay(CloseReason::Draining) | Ending::Denied(_) | Ending::Unanswered
    )
}
