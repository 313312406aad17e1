//! One simulated client: its sessions one after another, its links, its address, its silences.

use std::net::SocketAddr;

use super::check::Check;
use super::dice::Dice;
use super::director::Charge;
use super::oracle::Oracle;
use super::outcome::Figures;
use super::own::Own;
use super::scenario::ClientPlan;
use super::sight::Metres;
use super::truth::Truth;
use crate::client::inbox::ClientEvent;
use crate::client::session::{Client, SessionState};
use crate::client::settings::ClientSettings;
use crate::impairment::link::Link;
use crate::impairment::settings::ImpairmentSettings;
use crate::relay::outbox::Path;

/// Datagrams that wait for a silent client; more are lost, as in a socket's buffer.
const BUFFERED_MAX: usize = 256;
/// Bytes behind each datagram on a link: the client's port, so that an address that has changed is noticed.
const TRAILER: usize = 2;

/// A client with its links.
pub struct Player {
    index: usize,
    seed: u64,
    plan: ClientPlan,
    /// Nothing new is said from here on.
    until_us: u64,
    dice: Dice,
    down: Link,
    up: Link,
    port: u16,
    ports: Vec<u16>,
    session: Option<Session>,
    silence: Option<Silence>,
    scratch: Vec<u8>,
}

struct Session {
    client: Client,
    check: Check,
    own: Own,
    nonce: [u8; 16],
    began_us: u64,
    wake_us: u64,
    leaving: bool,
}

struct Silence {
    until_us: u64,
    buffered: Option<Vec<Vec<u8>>>,
}

impl Player {
    /// A client that has not begun a session.
    #[must_use]
    pub fn new(seed: u64, index: usize, plan: &ClientPlan, until_us: u64) -> Player {
        let mut dice = Dice::new(seed, "player", index as u64);
        let [down, up] = plan.links[0];
        Player {
            index,
            seed,
            until_us,
            down: Link::new(down, dice.bits()),
            up: Link::new(up, dice.bits()),
            dice,
            plan: plan.clone(),
            port: 0,
            ports: Vec::new(),
            session: None,
            silence: None,
            scratch: Vec::new(),
        }
    }

    /// Which client sends from an address.
    #[must_use]
    pub fn of_address(address: SocketAddr) -> usize {
        match address {
            SocketAddr::V4(address) => usize::from(address.ip().octets()[3]),
            SocketAddr::V6(_) => usize::MAX,
        }
    }

    fn path(&self, port: u16) -> Path {
        let host = u8::try_from(self.index).unwrap_or(u8::MAX);
        Path {
            remote: SocketAddr::from(([10, 0, 0, host], port)),
            local: None,
        }
    }

    /// The client, while it has a session.
    #[must_use]
    pub fn client(&self) -> Option<&Client> {
        self.session.as_ref().map(|session| &session.client)
    }

    /// The randomness its session began with.
    #[must_use]
    pub fn nonce(&self) -> Option<&[u8; 16]> {
        self.session.as_ref().map(|session| &session.nonce)
    }

    /// What its session is watched by.
    pub fn check(&mut self) -> Option<&mut Check> {
        self.session.as_mut().map(|session| &mut session.check)
    }

    /// True when a flipped bit may be at work in it.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.check.is_tainted())
    }

    /// Begins a session, from a new port or, as after a crash, from the old one.
    pub fn join(&mut self, now_us: u64) {
        if self.session.is_some() {
            return;
        }
        if self.ports.is_empty() || self.dice.chance(0.5) {
            self.rebind();
        }
        let nonce = self.dice.bytes();
        let subject = self.index as u64 | (self.ports.len() as u64) << 8 | (now_us << 16);
        let dice = Dice::new(self.seed, "own", subject);
        let own = Own::new(self.plan.role, &nonce, dice, now_us, self.until_us);
        self.session = Some(Session {
            client: Client::new(ClientSettings::default(), nonce, now_us + self.plan.clock_us),
            check: Check::default(),
            own,
            nonce,
            began_us: now_us,
            wake_us: now_us,
            leaving: false,
        });
    }

    /// The address changes.
    pub fn rebind(&mut self) {
        self.port = 1_024 + u16::try_from(self.ports.len()).unwrap_or(0);
        self.ports.push(self.port);
    }

    /// Says goodbye.
    pub fn leave(&mut self, now_us: u64) {
        if let Some(session) = self.session.as_mut() {
            session.client.leave(now_us + self.plan.clock_us);
            (session.leaving, session.wake_us) = (true, now_us);
        }
    }

    /// Is gone without a word.
    pub fn vanish(&mut self, now_us: u64, figures: &mut Figures) {
        self.silence = None;
        if let Some(session) = self.session.take() {
            session.count(now_us, figures);
        }
    }

    /// Does nothing for a while.
    pub fn fall_silent(&mut self, until_us: u64, buffered: bool) {
        if self.session.is_some() {
            self.silence = Some(Silence {
                until_us,
                buffered: buffered.then(Vec::new),
            });
        }
    }

    /// Flips a bit in a held table.
    pub fn flip(&mut self, now_us: u64, figures: &mut Figures) {
        let seed = self.dice.bits();
        if let Some(session) = self.session.as_mut()
            && !session.check.is_tainted()
            && session.client.refusing().is_none()
            && session.client.flip_bit(seed)
        {
            session.check.flipped(now_us, &session.client, figures);
        }
    }

    /// The links change.
    pub fn relink(&mut self, down: ImpairmentSettings, up: ImpairmentSettings) {
        self.down.set_settings(down);
        self.up.set_settings(up);
    }

    /// The worst that its links lose on the way down, and the longest round trip.
    #[must_use]
    pub fn worst(&self) -> (f64, u64) {
        let mut worst = (0.0f64, 0);
        for [down, up] in &self.plan.links {
            let trip_us = [down, up].map(|link| link.delay_us + link.jitter_us + link.hold_us);
            worst = (
                worst.0.max(down.expected_loss()),
                worst.1.max(trip_us[0] + trip_us[1]),
            );
        }
        worst
    }

    /// The links of its plan with this index.
    #[must_use]
    pub fn planned_links(&self, index: usize) -> [ImpairmentSettings; 2] {
        self.plan.links[index]
    }

    /// Takes a datagram for this client into the link down. `slot` has room behind the datagram.
    pub fn send_down(&mut self, now_us: u64, path: Path, slot: &mut [u8], length: usize) {
        slot[length..length + TRAILER].copy_from_slice(&path.remote.port().to_le_bytes());
        self.down.send(now_us, &slot[..length + TRAILER]);
    }

    /// When something is due.
    #[must_use]
    pub fn next_us(&self) -> u64 {
        let wake = match (&self.silence, &self.session) {
            (Some(silence), _) => silence.until_us,
            (None, Some(session)) => session.wake_us.min(session.own.next_us()),
            (None, None) => u64::MAX,
        };
        let links = [self.down.next_at(), self.up.next_at()];
        links.into_iter().flatten().fold(wake, u64::min)
    }

    /// The next datagram that arrives at the relay, in `out`, with its source.
    pub fn poll_up(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Path> {
        self.up.poll(now_us, out)?;
        // A port that a flipped bit has made is none of ours.
        let port = split_port(out)
            .filter(|port| self.ports.contains(port))
            .unwrap_or(self.port);
        Some(self.path(port))
    }

    /// Takes in what arrives from the relay and does what time brings.
    pub fn run(&mut self, now_us: u64, oracle: &mut Oracle<'_>, figures: &mut Figures) {
        let mut datagram = core::mem::take(&mut self.scratch);
        if self
            .silence
            .as_ref()
            .is_some_and(|silence| now_us >= silence.until_us)
        {
            self.wake(now_us, oracle, figures);
        }
        while self.down.poll(now_us, &mut datagram).is_some() {
            if split_port(&mut datagram).is_some_and(|port| port != self.port && self.ports.contains(&port)) {
                continue;
            }
            match &mut self.silence {
                Some(Silence {
                    buffered: Some(waiting),
                    ..
                }) if waiting.len() < BUFFERED_MAX => {
                    waiting.push(datagram.clone());
                }
                Some(_) => {}
                None => self.receive(now_us, &mut datagram, oracle, figures),
            }
        }
        self.scratch = datagram;
        if self.silence.is_none()
            && let Some(session) = self.session.as_mut()
            && session.own.next_us() <= now_us
        {
            session.own.speak(now_us, &mut session.client, figures);
            session.wake_us = now_us;
        }
        if self.silence.is_none()
            && self
                .session
                .as_ref()
                .is_some_and(|session| now_us >= session.wake_us)
        {
            self.transmit(now_us, oracle, figures);
        }
    }

    fn wake(&mut self, now_us: u64, oracle: &mut Oracle<'_>, figures: &mut Figures) {
        let waiting = self
            .silence
            .take()
            .and_then(|silence| silence.buffered)
            .unwrap_or_default();
        if let Some(session) = self.session.as_mut() {
            session.check.woke();
            session.wake_us = now_us;
        }
        for mut datagram in waiting {
            self.receive(now_us, &mut datagram, oracle, figures);
        }
    }

    fn receive(&mut self, now_us: u64, datagram: &mut [u8], oracle: &mut Oracle<'_>, figures: &mut Figures) {
        let Some(session) = self.session.as_mut() else {
            return;
        };
        figures.datagrams_down += 1;
        figures.bytes_down += datagram.len() as u64;
        let received = session.client.receive(now_us + self.plan.clock_us, datagram);
        session
            .check
            .received(now_us, &session.client, received, oracle, figures);
        let sight = oracle.sight.as_deref();
        if !session.check.is_tainted() {
            let wrong = session.own.look(&session.client, sight, oracle.truth, figures);
            session.check.find(wrong);
        }
        session.wake_us = now_us;
    }

    /// Sends what is due; fetches what the game is told.
    fn transmit(&mut self, now_us: u64, oracle: &mut Oracle<'_>, figures: &mut Figures) {
        let Some(session) = self.session.as_mut() else {
            return;
        };
        let clock_us = now_us + self.plan.clock_us;
        let mut out = core::mem::take(&mut self.scratch);
        while session.client.poll_transmit(clock_us, &mut out) {
            figures.datagrams_up += 1;
            figures.bytes_up += out.len() as u64;
            out.extend_from_slice(&self.port.to_le_bytes());
            self.up.send(now_us, &out);
        }
        self.scratch = out;
        let mut ended = false;
        while let Some(event) = session.client.poll_event() {
            ended |= session
                .check
                .told(now_us, &session.client, &event, oracle, figures);
            match &event {
                ClientEvent::StreamChanged(_) => session.own.stream_changed(now_us, &session.client),
                ClientEvent::Directed(directed) => {
                    let sight = oracle.sight.as_deref();
                    let wrong =
                        session
                            .own
                            .directed(directed, &session.client, sight, oracle.refused, figures);
                    session.check.find(wrong);
                }
                _ => {}
            }
        }
        let timer_us = session.client.next_timer().saturating_sub(self.plan.clock_us);
        session.wake_us = timer_us.max(now_us + 1);
        if ended && let Some(session) = self.session.take() {
            session.count(now_us, figures);
        }
    }

    /// Cameras told since the last call.
    pub fn take_cameras(&mut self) -> Option<std::vec::Drain<'_, (u64, Option<Metres>)>> {
        self.session.as_mut().map(|session| session.own.take_cameras())
    }

    /// Notes what changed of a watched entity, and what the session came to.
    pub fn note(&mut self, id: u32, mut note: impl FnMut(String)) {
        if let Some(session) = self.session.as_mut() {
            session.check.take_notes(id).for_each(&mut note);
        }
    }

    /// Lets its check look whether a flipped bit is still at work.
    pub fn look_at_taint(&mut self, now_us: u64, tables_right: bool, truth: &Truth, figures: &mut Figures) {
        if let Some(session) = self.session.as_mut() {
            session
                .check
                .look_at_taint(now_us, &session.client, tables_right, truth, figures);
        }
    }

    /// The run is over: what is missing is found.
    pub fn end(&mut self, now_us: u64, oracle: &Oracle<'_>, charge: Option<&Charge>, figures: &mut Figures) {
        figures.datagrams_lost += self.down.counts().lost + self.up.counts().lost;
        let Some(mut session) = self.session.take() else {
            return;
        };
        if !session.leaving {
            let state = session.client.state();
            if state == SessionState::Connected {
                session.check.end(&session.client, oracle, figures);
                if let (Some(charge), Some(sight)) = (charge, oracle.sight.as_deref()) {
                    let found = session
                        .own
                        .end(&session.client, charge, sight, oracle.truth, oracle.refused);
                    session.check.find(found);
                }
            } else {
                session.check.stranded(state);
            }
        }
        session.count(now_us, figures);
        self.session = Some(session);
    }
}

impl Session {
    /// Adds what the client counted.
    fn count(&self, now_us: u64, figures: &mut Figures) {
        let statistics = self.client.statistics();
        self.check.count_taint(figures);
        figures.sessions += 1;
        *figures.roles.entry(self.own.label()).or_default() += 1;
        figures.inputs_lost += statistics.inputs_lost;
        figures.starved_us.add(self.check.starved_us());
        figures.client_us += now_us - self.began_us;
        figures.slots_most = figures.slots_most.max(statistics.slots_in_use_max);
        figures.parts_window_full += statistics.parts_window_full;
        figures.parts_received += statistics.parts_received;
        figures.events_delivered += statistics.events_delivered;
        figures.events_dropped += statistics.events_dropped;
        figures.digests_checked += statistics.digest_checked;
        figures.digest_mismatches += statistics.digest_mismatches;
        if let (Some(complete_us), Some(connected_us)) =
            (statistics.view_complete_us, statistics.connected_us)
        {
            figures.complete_us.add(complete_us.saturating_sub(connected_us));
        }
        for (refusal, count) in self.client.refusals().iter().filter(|(_, count)| *count > 0) {
            *figures.refused_by_clients.entry(refusal.label()).or_default() += count;
        }
    }
}

/// Takes the port off a datagram.
fn split_port(datagram: &mut Vec<u8>) -> Option<u16> {
    let (rest, port) = datagram.split_last_chunk::<TRAILER>()?;
    let (length, port) = (rest.len(), u16::from_le_bytes(*port));
    datagram.truncate(length);
    Some(port)
}
