//! One client of the swarm: a receiving core, its socket, its links, and when it does what.
//!
//! A member outlives its sessions: when one ends unasked it comes back with a new one after a pause, as a game would.

use std::io;

use mio::net::UdpSocket;
use ring::rand::SecureRandom;

use super::ending::EndCheck;
use super::marks::{Marks, PartTaken};
use super::oracle::Oracle;
use super::player::Player;
use super::series::Series;
use super::surroundings::{Surroundings, mix, open_socket, send};
use super::trail::{EventTrail, Hearing};
use super::view::View;
use super::viewer::Viewer;
use crate::client::inbox::ClientEvent;
use crate::client::session::{Client, SessionState};
use crate::impairment::link::Link;
use crate::impairment::settings::ImpairmentSettings;

/// Datagrams taken from one socket before others have their turn: a tick's, or a good part of a joining one's.
const BURST: usize = 16;
/// Silence after which the relay counts as gone, microseconds.
const VANISHED_US: u64 = 2_000_000;
/// The same where the relay's host said that nobody listens.
const REFUSED_US: u64 = 300_000;
/// A pause before coming back is drawn from this range, microseconds.
const BACK_OFF_US: (u64, u64) = (100_000, 1_000_000);
/// Events published so shortly before the end may still be under way, microseconds.
const UNDER_WAY_US: u64 = 500_000;
/// Time between two checks of a whole table of one client, microseconds.
const TABLE_CHECK_US: u64 = 4_000_000;

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It begins at this time.
    Waiting(u64),
    /// It has a session, or asks for one.
    Running,
    /// It leaves by plan.
    Leaving,
}

/// One client of the swarm.
pub struct Member {
    index: u32,
    seed: u64,
    socket: UdpSocket,
    socket_is_new: bool,
    client: Client,
    view: View,
    watched: bool,
    player: Player,
    viewer: Option<Viewer>,
    links: Option<(Link, Link)>,
    phase: Phase,
    heard_us: u64,
    refused: bool,
    /// When a snapshot was shown last; a broken session's pause is a gap too.
    shown_at_us: Option<u64>,
    shown_us: Option<(u32, u64)>,
    table_us: u64,
    end: Option<EndCheck>,
    marks: Marks,
}

impl Member {
    /// A member that begins at `start_us`. `links`: settings down and up; none where both are clean.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn new(
        index: u32,
        seed: u64,
        start_us: u64,
        watched: bool,
        links: Option<(ImpairmentSettings, ImpairmentSettings)>,
        around: &Surroundings,
    ) -> io::Result<Member> {
        let links = links.map(|(down, up)| (Link::new(down, mix(seed ^ 1)), Link::new(up, mix(seed ^ 2))));
        Ok(Member {
            index,
            seed,
            socket: open_socket(around.relay, around.own_address(index))?,
            socket_is_new: true,
            client: Client::new(around.settings.clone(), [0; 16], start_us),
            view: View::new(index, watched),
            watched,
            player: Player::new(seed, around.input_hz),
            viewer: viewer(index, around),
            links,
            phase: Phase::Waiting(start_us),
            heard_us: start_us,
            refused: false,
            shown_at_us: None,
            shown_us: None,
            table_us: start_us + mix(seed) % TABLE_CHECK_US,
            end: None,
            marks: Marks::default(),
        })
    }

    /// Its socket, when it is one that was not asked for before.
    pub fn new_socket(&mut self) -> Option<&mut UdpSocket> {
        core::mem::take(&mut self.socket_is_new).then_some(&mut self.socket)
    }

    /// True once it holds a snapshot.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.phase == Phase::Running && self.marks.joined
    }

    /// The time of its newest snapshot, server microseconds.
    #[must_use]
    pub fn newest_us(&self) -> Option<u64> {
        self.client.newest().map(|newest| newest.server_us)
    }

    /// True once its view was complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Running && self.marks.complete
    }

    /// When it needs a turn without a datagram. No input is pushed from `clean_us` on.
    #[must_use]
    pub fn due_us(&self, clean_us: u64) -> u64 {
        let links = self
            .links
            .as_ref()
            .map(|(down, up)| (down.next_at(), up.next_at()));
        let links = links.map_or(u64::MAX, |(down, up)| {
            down.unwrap_or(u64::MAX).min(up.unwrap_or(u64::MAX))
        });
        match self.phase {
            Phase::Waiting(at_us) => at_us.min(links),
            Phase::Running => {
                let patience = if self.is_in_session() {
                    self.heard_us + self.patience_us()
                } else {
                    u64::MAX
                };
                let play = if self.is_in_session() && self.marks.joined {
                    self.player.due_us(clean_us)
                } else {
                    u64::MAX
                };
                let draw = self.viewer.as_ref().map_or(u64::MAX, Viewer::due_us);
                let due_us = self.client.next_timer().min(patience).min(play).min(links);
                due_us.min(draw)
            }
            Phase::Leaving => self.client.next_timer().min(links),
        }
    }

    fn patience_us(&self) -> u64 {
        if self.refused { REFUSED_US } else { VANISHED_US }
    }

    fn has_lost_patience(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.heard_us) >= self.patience_us()
    }

    fn is_in_session(&self) -> bool {
        self.client.state() == SessionState::Connected
    }

    /// Takes what waits at the socket, at most a burst, and does what is due then. True when more may wait.
    pub fn readable(&mut self, now_us: u64, around: &mut Surroundings) -> bool {
        let more = self.read(now_us, around);
        self.turn(now_us, around);
        more
    }

    fn read(&mut self, now_us: u64, around: &mut Surroundings) -> bool {
        let mut more = true;
        let mut buffer = core::mem::take(&mut around.buffer);
        for _ in 0..BURST {
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    around.tally.arrived += 1;
                    self.heard_us = now_us;
                    self.refused = false;
                    let datagram = buffer.get_mut(..length).unwrap_or_default();
                    match &mut self.links {
                        Some((down, _)) => {
                            down.send(now_us, datagram);
                        }
                        None => self.deliver(datagram, around),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    more = error.kind() == io::ErrorKind::ConnectionRefused;
                    self.refused |= more;
                    if !more {
                        break;
                    }
                }
            }
        }
        around.buffer = buffer;
        more
    }

    /// Does what is due: links, timers, what is to be said, a session's end and the next one's beginning.
    pub fn turn(&mut self, now_us: u64, around: &mut Surroundings) {
        if let Phase::Waiting(at_us) = self.phase
            && at_us <= now_us
        {
            self.begin(now_us, around);
        }
        self.take_links(now_us, around);
        self.play(now_us, around);
        self.draw(now_us, around);
        self.speak(now_us, around);
        self.hear_events(now_us, around);
        self.look_at_session(now_us, around);
    }

    /// Pushes inputs and moves the camera, in a session that has begun.
    fn play(&mut self, now_us: u64, around: &mut Surroundings) {
        if self.phase == Phase::Running && self.is_in_session() && self.marks.joined {
            let (reader, sight) = (around.oracle.reader(), &mut self.view.sight);
            let pushed = self
                .player
                .turn(now_us, around.clean_us, &mut self.client, sight, reader);
            if let (Some(viewer), Some((number, payload))) = (&mut self.viewer, pushed) {
                viewer.pushed(number, &payload, now_us);
            }
        }
    }

    /// Draws a frame, if one is due.
    fn draw(&mut self, now_us: u64, around: &mut Surroundings) {
        let Some(viewer) = &mut self.viewer else { return };
        let Surroundings {
            oracle,
            tally,
            clean_us,
            ..
        } = around;
        let truth = self.view.truth_stream.map(|stream| (oracle.reader(), stream));
        let measures = now_us < *clean_us;
        viewer.turn(now_us, truth, measures, &mut tally.series);
    }

    fn begin(&mut self, now_us: u64, around: &mut Surroundings) {
        let mut nonce = [0; 16];
        // Without randomness the nonce is still unlike those of the other members.
        if around.random.fill(&mut nonce).is_err() {
            nonce = (u128::from(mix(self.seed ^ now_us)) << 64 | u128::from(now_us)).to_le_bytes();
        }
        let settings = around.client_settings(u64::from(self.index));
        self.client = Client::new(settings, nonce, now_us);
        self.view = View::new(self.index, self.watched);
        self.player = Player::new(self.seed, around.input_hz);
        self.viewer = viewer(self.index, around);
        self.phase = Phase::Running;
        (self.heard_us, self.refused) = (now_us, false);
        self.shown_us = None;
        self.marks = Marks::new(now_us);
    }

    fn take_links(&mut self, now_us: u64, around: &mut Surroundings) {
        let mut datagram = core::mem::take(&mut around.datagram);
        while let Some((down, _)) = &mut self.links {
            if down.poll(now_us, &mut datagram).is_none() {
                break;
            }
            self.deliver(&mut datagram, around);
        }
        while let Some((_, up)) = &mut self.links {
            if up.poll(now_us, &mut datagram).is_none() {
                break;
            }
            send(&self.socket, &datagram, &mut self.refused, &mut around.tally);
        }
        around.datagram = datagram;
    }

    fn speak(&mut self, now_us: u64, around: &mut Surroundings) {
        if matches!(self.phase, Phase::Waiting(_)) {
            return;
        }
        while self.client.poll_transmit(now_us, &mut around.datagram) {
            match &mut self.links {
                Some((_, up)) => {
                    up.send(now_us, &around.datagram);
                }
                None => send(
                    &self.socket,
                    &around.datagram,
                    &mut self.refused,
                    &mut around.tally,
                ),
            }
        }
        while let Some((_, up)) = &mut self.links {
            if up.poll(now_us, &mut around.datagram).is_none() {
                break;
            }
            send(
                &self.socket,
                &around.datagram,
                &mut self.refused,
                &mut around.tally,
            );
        }
    }

    /// Gives the client a datagram and has the oracle judge what it made of it.
    fn deliver(&mut self, datagram: &mut [u8], around: &mut Surroundings) {
        if matches!(self.phase, Phase::Waiting(_)) {
            return;
        }
        let now_us = crate::net::clock::monotonic_us();
        let tally = &mut around.tally;
        tally.received += 1;
        tally.bytes += datagram.len() as u64;
        tally.series.record(Series::PacketBytes, datagram.len() as u64);
        self.client.receive(now_us, datagram);
        if let Some(viewer) = &mut self.viewer {
            viewer.receive(&self.client, now_us, now_us < around.clean_us);
        }
        if let Some(part) = self.marks.note(self.client.statistics(), tally) {
            self.shown(part, around);
        }
    }

    /// A part was taken: measures and has it judged.
    fn shown(&mut self, part: PartTaken, around: &mut Surroundings) {
        let now_us = crate::net::clock::monotonic_us();
        let measures = now_us < around.clean_us;
        let Surroundings { oracle, tally, .. } = around;
        self.marks.measure(part, self.client.statistics(), now_us, tally);
        if part.newer
            && let Some(before_us) = self.shown_at_us.replace(now_us)
            && measures
        {
            let period_us = self.client.schema().map_or(0, |schema| schema.tick_period_us);
            tally
                .series
                .record_schedule(Series::Gap, now_us - before_us, u64::from(period_us));
        }
        let late = part.late;
        let time = self
            .client
            .newest()
            .map(|newest| (self.client.stream_epoch(), newest.server_us));
        // A session's first snapshot may be of a frame published long before it began.
        let fresh = !late && self.shown_us.is_some() && time > self.shown_us;
        self.shown_us = if late { self.shown_us } else { time };
        oracle.check(
            &mut self.view,
            &self.client,
            late,
            fresh && measures,
            now_us,
            &mut tally.series,
        );
        self.player
            .look(now_us, &self.client, &self.view, oracle, &mut tally.series);
        if now_us >= self.table_us && !late {
            self.check_table(now_us, oracle);
        }
    }

    /// Compares the table of the newest snapshot, if that is held whole.
    fn check_table(&mut self, now_us: u64, oracle: &mut Oracle) {
        let Some(newest) = self.client.newest().filter(|newest| newest.is_whole()) else {
            return;
        };
        if let Some((_, table)) = self.client.tables().find(|(held, _)| held.id == newest.id) {
            oracle.check_table(&self.view, table, newest.server_us);
            oracle.check_shown(&mut self.view, &self.client, now_us);
            self.table_us = now_us + TABLE_CHECK_US;
        }
    }

    fn hear_events(&mut self, now_us: u64, around: &mut Surroundings) {
        let newest_us = self.client.newest().map_or(0, |newest| newest.server_us);
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::World(event) if !around.oracle.is_blind() => {
                    self.view.trail.take(now_us, event);
                }
                ClientEvent::ViewComplete => self.view.complete(newest_us),
                ClientEvent::Assigned(assigned) => {
                    let stream = self.client.stream_epoch();
                    self.view.sight.tell(stream, newest_us, assigned);
                }
                ClientEvent::Tier(tier) => self.view.sight.tell_tier(tier),
                ClientEvent::InputsLost { count, .. } => self.player.lose(count),
                ClientEvent::World(_)
                | ClientEvent::Connected
                | ClientEvent::StreamChanged(_)
                | ClientEvent::UpstreamStale(_)
                | ClientEvent::Directed(_)
                | ClientEvent::Closed(_) => {}
            }
        }
        let (trail, mut hearing) = self.hearing(now_us, newest_us, around);
        trail.settle(&mut hearing);
    }

    fn hearing<'a>(
        &'a mut self,
        now_us: u64,
        newest_us: u64,
        around: &'a mut Surroundings,
    ) -> (&'a mut EventTrail, Hearing<'a>) {
        let stream = self.view.stream();
        let View { trail, sight, .. } = &mut self.view;
        let hearing = Hearing {
            now_us,
            newest_us,
            stream,
            sight,
            reader: around.oracle.reader(),
            series: &mut around.tally.series,
            client: self.index,
            examples: &mut around.tally.event_examples,
        };
        (trail, hearing)
    }

    /// Ends what is over: a session that was closed, a relay that is gone, a client that left.
    fn look_at_session(&mut self, now_us: u64, around: &mut Surroundings) {
        match (self.phase, self.client.state()) {
            (Phase::Running, SessionState::Closed(ending)) => self.lose(ending.label(), now_us, around),
            (Phase::Running, SessionState::Connected) => {
                if self.has_lost_patience(now_us) {
                    // A bench that is late finds the relay's datagrams waiting at the socket.
                    self.read(now_us, around);
                }
                if self.has_lost_patience(now_us) {
                    self.lose("relay_vanished", now_us, around);
                }
            }
            (Phase::Leaving, SessionState::Closed(_)) => {
                self.retire(now_us, None, false, around);
                // A newcomer comes from another port.
                if let Ok(socket) = open_socket(around.relay, around.own_address(self.index)) {
                    (self.socket, self.socket_is_new) = (socket, true);
                }
                (self.phase, self.shown_at_us) = (Phase::Waiting(now_us), None);
            }
            _ => {}
        }
    }

    /// A session, or an attempt to get one, ended unasked: the member comes back after a pause.
    fn lose(&mut self, reason: &'static str, now_us: u64, around: &mut Surroundings) {
        *around.tally.endings.entry(reason).or_default() += 1;
        // An attempt that was denied was no session.
        around.tally.reconnects += u64::from(self.client.statistics().connected_us.is_some());
        self.retire(now_us, None, false, around);
        let (least, most) = BACK_OFF_US;
        self.phase = Phase::Waiting(now_us + least + mix(self.seed ^ now_us) % (most - least));
    }

    /// Leaves by plan; a newcomer takes its place. False when it has no session to leave.
    pub fn leave(&mut self, now_us: u64, around: &mut Surroundings) -> bool {
        if self.phase != Phase::Running || !self.is_in_session() {
            return false;
        }
        around.tally.churned += 1;
        self.client.leave(now_us);
        self.phase = Phase::Leaving;
        self.turn(now_us, around);
        true
    }
}

mod ending;

/// What draws for the client of this number, where clients draw; the first one's picture is plotted.
fn viewer(index: u32, around: &Surroundings) -> Option<Viewer> {
    let render = around.render.as_ref()?;
    Some(Viewer::new(render, around.input_hz, index == 0))
}
