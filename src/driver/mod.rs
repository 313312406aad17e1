//! A driver for a game that does not want to own a socket: it gets a session, keeps it, and gets another.
//!
//! > Call one of three polls once a frame with the time of a clock that never runs backwards, in microseconds; none blocks. Draw
//! > what [`Driver::client`] shows, give it inputs with [`Driver::push_input`], fetch [`Driver::poll_event`] until it is empty. No
//! > threads, no crate beside those of the client.
//!
//! [`Driver::poll`] moves datagrams, for who draws the newest state. [`Driver::poll_playback`] does that and all that a
//! [`Playback`](crate::client::playback::stage::Playback) is to be told. [`Driver::poll_with`] lets the game look at the client
//! after each datagram, for a history of its own.
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
//! [`DriverEvent::Failed`] (FAULTS 82). A token serves once: [`DriverEvent::WantsToken`] says when another is due.

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
use crate::client::session::{Client, Received};
use crate::limits::RELAYS_MAX;
use crate::net::plain::{PlainCounts, random};
use crate::token::ConnectToken;
use line::{Buffers, Line};
use settings::DriverSettings;
use tokens::Tokens;
use told::Told;

mod judging;
mod line;
mod picture;
pub mod settings;
mod tokens;
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
    /// The token was spent by a session, or refused, or another session is to be asked for and there is none that is good: give one with
    /// [`Driver::set_token`]. With a spent token no session is asked for.
    WantsToken,
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
    next: Option<Line>,
    tokens: Tokens,
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
    /// Sessions that the playback of [`Driver::poll_playback`] was told of.
    adopted: u64,
    past: PlainCounts,
}

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
        let tokens = Tokens::new(!client.token.is_empty(), now_us);
        let mut driver = Driver {
            shown: Line::open(relay, client, random()?, tokens.number(), now_us),
            tokens,
            backoff: Backoff::new(settings.backoff_us, u64::from_le_bytes(random()?)),
            settings,
            relay: 0,
            told: false,
            is_silent: false,
            next: None,
            ask_us: now_us,
            told_events: Told::default(),
            buffers: Buffers::default(),
            now_us,
            over: false,
            is_own_doing: false,
            counts: DriverCounts::default(),
            adopted: 0,
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
        if paused {
            let floor_us = now_us.saturating_sub(self.settings.silence_us / 2);
            for line in [Some(&mut self.shown), self.next.as_mut()].into_iter().flatten() {
                line.excuse(floor_us);
            }
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

    /// The token and its key for sessions asked for from now on: see [`DriverEvent::WantsToken`]. The relays stay
    /// ([`set_relays`](Driver::set_relays)).
    pub fn set_token(&mut self, token: &ConnectToken) {
        self.settings.client.token.clone_from(&token.sealed);
        self.settings.client.token_key = token.secret.0;
        if self.tokens.set(self.now_us) {
            // Nothing was asked for want of it, or in vain.
            self.ask_us = self.now_us;
            self.backoff.reset();
        }
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
        let ask = if self.is_silent && self.tokens.is_spent() {
            u64::MAX
        } else if self.is_silent {
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
