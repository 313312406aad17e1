//! The driver without a relay that answers, in virtual time: real sockets on loopback, and nobody behind them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use crate::client::tests::relay::{Relay, complete, record};
use crate::wire::handshake::{DatagramKind, read_request};
use crate::wire::payload::{self, CloseReason};
use std::net::UdpSocket;

mod picture;
mod tokens;

/// Ports that take everything and say nothing.
fn silent(count: usize) -> (Vec<UdpSocket>, Vec<SocketAddr>) {
    let sockets: Vec<UdpSocket> = (0..count)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses = sockets
        .iter()
        .map(|socket| socket.local_addr().unwrap())
        .collect();
    (sockets, addresses)
}

/// Polls at 60 frames a second from `from_us`; what was told, with its time in milliseconds.
fn run(driver: &mut Driver, from_us: u64, seconds: u64) -> Vec<(u64, DriverEvent)> {
    let mut told = Vec::new();
    for frame in 0..seconds * 60 {
        let now_us = from_us + frame * 16_667;
        driver.poll(now_us);
        while let Some(event) = driver.poll_event() {
            told.push((now_us / 1_000, event));
        }
    }
    told
}

#[test]
fn a_driver_needs_a_relay_and_takes_so_many() {
    let refused = |count| {
        let relays = vec!["127.0.0.1:9".parse().unwrap(); count];
        let driver = Driver::new(DriverSettings::new(relays), 0);
        driver.err().map(|error| error.kind())
    };
    assert_eq!(refused(0), Some(io::ErrorKind::InvalidInput));
    assert_eq!(refused(RELAYS_MAX + 1), Some(io::ErrorKind::InvalidInput));
    assert_eq!((refused(1), refused(RELAYS_MAX)), (None, None));
}

/// FAULTS 44, 46: relays that do not answer are asked in turn, for ever, with pauses that grow to a bound.
#[test]
fn faults_44_46_silent_relays_are_asked_in_turn() {
    let (_sockets, relays) = silent(3);
    let settings = DriverSettings::new(relays.clone());
    let (attempt_ms, most_ms) = (settings.attempt_us / 1_000, settings.backoff_us.1 / 1_000);
    let mut driver = Driver::new(settings, 0).unwrap();
    let told = run(&mut driver, 0, 600);
    let asked: Vec<(u64, SocketAddr)> = told
        .iter()
        .filter_map(|(at, event)| match event {
            DriverEvent::Asking(relay) => Some((*at, *relay)),
            _ => None,
        })
        .collect();
    for (turn, (_, relay)) in asked.iter().enumerate() {
        assert_eq!(*relay, relays[turn % 3], "in turn");
    }
    let pauses: Vec<u64> = asked
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0 - attempt_ms)
        .collect();
    assert!(
        pauses[0] <= 150 && pauses.iter().all(|pause| *pause <= most_ms + 60),
        "{pauses:?}"
    );
    // A bounded pause is drawn from its upper half.
    assert!(
        pauses[10..].iter().all(|pause| *pause >= most_ms / 2),
        "{pauses:?}"
    );
    let failed = told
        .iter()
        .filter(|(_, event)| *event == DriverEvent::Failed(Ending::Unanswered));
    assert_eq!(failed.count() as u64, driver.counts().failed);
    assert!(asked.len() > 50, "it never gives up: {}", asked.len());
    assert!(
        !told
            .iter()
            .any(|(_, event)| matches!(event, DriverEvent::Session(_)))
    );
}

/// FAULTS 82: what a name is found to be later is asked with the next attempt.
#[test]
fn faults_82_other_relays_are_taken_with_the_next_attempt() {
    let (_sockets, relays) = silent(3);
    let mut driver = Driver::new(DriverSettings::new(relays[..2].to_vec()), 0).unwrap();
    run(&mut driver, 0, 1);
    driver.set_relays(&[]);
    driver.set_relays(&relays[2..]);
    let told = run(&mut driver, 1_000_000, 10);
    let next = told.iter().find_map(|(_, event)| match event {
        DriverEvent::Asking(relay) => Some(*relay),
        _ => None,
    });
    assert_eq!(next, Some(relays[2]));
}

/// A game that leaves hears so once, asking or between two attempts, and nothing is asked again.
#[test]
fn who_leaves_is_out() {
    let (_sockets, relays) = silent(2);
    for seconds in [1, 4] {
        let mut driver = Driver::new(DriverSettings::new(relays.clone()), 0).unwrap();
        run(&mut driver, 0, seconds);
        driver.leave(seconds * 1_000_000);
        let told = run(&mut driver, seconds * 1_000_000, 60);
        let over = told
            .iter()
            .filter(|(_, event)| *event == DriverEvent::Over(Ending::Left));
        assert_eq!(over.count(), 1, "{told:?}");
        assert!(
            !told
                .iter()
                .any(|(_, event)| matches!(event, DriverEvent::Asking(_))),
            "{told:?}"
        );
        assert_eq!(driver.push_input(b"late"), Err(InputError::SessionOver));
        assert_eq!(driver.next_timer(), u64::MAX);
    }
}

/// FAULTS 44, 46: a caller that sleeps until `next_timer` goes on asking for ever, and does not spin meanwhile.
#[test]
fn faults_44_46_who_sleeps_until_the_timer_neither_stops_nor_spins() {
    let (_sockets, relays) = silent(1);
    let mut settings = DriverSettings::new(relays);
    settings.client.connect_within_us = 5_000_000;
    let mut driver = Driver::new(settings, 0).unwrap();
    let (mut now_us, mut polls, mut asked) = (0, 0, 0);
    while now_us < 600_000_000 {
        driver.poll(now_us);
        polls += 1;
        while let Some(event) = driver.poll_event() {
            asked += u32::from(matches!(event, DriverEvent::Asking(_)));
        }
        let timer_us = driver.next_timer();
        assert_ne!(timer_us, u64::MAX, "it is not over at {now_us}");
        now_us = timer_us.max(now_us + 20);
        assert!(polls < 20_000, "{polls} polls by {now_us}");
    }
    assert!(asked > 50, "{asked}");
}

/// A relay at a socket: lets in whoever asks, and shows one entity without ever calling a view complete.
struct Server {
    socket: UdpSocket,
    session: Option<(Relay, SocketAddr)>,
    begun: u64,
    snapshots: u32,
    is_up: bool,
}

impl Server {
    /// A relay, and the settings of a driver that knows it alone.
    fn begin() -> (Server, DriverSettings) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let settings = DriverSettings::new(vec![socket.local_addr().unwrap()]);
        let server = Server {
            socket,
            session: None,
            begun: 0,
            snapshots: 0,
            is_up: true,
        };
        (server, settings)
    }

    fn turn(&mut self, now_us: u64) {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            let datagram = &buffer[..length];
            match DatagramKind::from_byte(datagram[0]) {
                Some(DatagramKind::Request) if self.is_up => {
                    let (_, nonce) = read_request(&datagram[1..]).unwrap();
                    self.begun += 1;
                    let mut relay = Relay::new(nonce, [self.begun as u8; 16], self.begun);
                    self.socket.send_to(&relay.welcome(), from).unwrap();
                    self.session = Some((relay, from));
                }
                Some(DatagramKind::Up) if self.is_up => {
                    let connection = u64::from_le_bytes(datagram[1..9].try_into().unwrap());
                    if let Some((relay, _)) =
                        self.session.as_mut().filter(|(r, _)| r.connection == connection)
                    {
                        relay.hear(datagram);
                    }
                }
                _ => {}
            }
        }
        if let Some((relay, to)) = self.session.as_mut().filter(|_| self.is_up) {
            self.snapshots += 1;
            let entity = complete(0, record(1, 100, now_us));
            let _ = self
                .socket
                .send_to(&relay.send(self.snapshots, None, now_us, vec![entity]), *to);
        }
    }
}

/// FAULTS 44: a relay that comes back, lets the client in and dies again before its view is complete costs the time of a
/// silence, and not the idle time of a session.
#[test]
fn faults_44_a_relay_that_dies_during_a_join_is_given_up_like_a_silent_one() {
    let (mut server, settings) = Server::begin();
    let patience_us = settings.silence_us + settings.backoff_us.1 + settings.keep_display_us;
    let mut driver = Driver::new(settings, 0).unwrap();
    let (mut sessions, mut silent_us) = (Vec::new(), None);
    for frame in 0..1_000u64 {
        let now_us = frame * 20_000;
        match now_us {
            2_000_000 => (server.is_up, server.session) = (false, None),
            4_000_000 => server.is_up = true,
            6_000_000 => (server.is_up, server.session) = (true, None),
            _ => {}
        }
        let begun = server.begun;
        server.turn(now_us);
        if server.begun > begun && (4_000_000..6_000_000).contains(&now_us) {
            server.is_up = false;
        }
        driver.poll(now_us);
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Session(_) => sessions.push(now_us),
                DriverEvent::Failed(Ending::Silent) => silent_us = silent_us.or(Some(now_us)),
                _ => {}
            }
        }
    }
    assert!(silent_us.is_some_and(|at| at < 6_500_000), "{silent_us:?}");
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    assert!(sessions[1] < 6_000_000 + patience_us, "{sessions:?}");
}

fn lost_inputs(event: &DriverEvent) -> Option<(u32, u32)> {
    match event {
        DriverEvent::Client(ClientEvent::InputsLost { first, count }) => Some((*first, *count)),
        _ => None,
    }
}

/// SPEC PRE4: inputs given before the first session that never came are said to be lost, once.
#[test]
fn pre4_inputs_of_an_attempt_that_fails_are_told() {
    let (_sockets, relays) = silent(1);
    let mut settings = DriverSettings::new(relays);
    settings.client.connect_within_us = 2_000_000;
    let mut driver = Driver::new(settings, 0).unwrap();
    assert_eq!((driver.push_input(b"a"), driver.push_input(b"b")), (Ok(1), Ok(2)));
    let told = run(&mut driver, 0, 20);
    let lost: Vec<_> = told.iter().filter_map(|(_, event)| lost_inputs(event)).collect();
    assert_eq!(lost, [(1, 2)]);
    assert_eq!(driver.push_input(b"c"), Err(InputError::SessionOver));
}

/// SPEC PRE4: inputs that the old session's relay never acknowledged are told before the new session is; the new one counts anew.
#[test]
fn pre4_inputs_of_a_session_that_is_replaced_are_told() {
    let (mut server, mut settings) = Server::begin();
    settings.keep_display_us = 0;
    let mut driver = Driver::new(settings, 0).unwrap();
    let mut told = Vec::new();
    for frame in 0..400u64 {
        let now_us = frame * 20_000;
        if frame == 100 {
            assert_eq!((driver.push_input(b"a"), driver.push_input(b"b")), (Ok(1), Ok(2)));
            server.session = None;
        }
        server.turn(now_us);
        driver.poll(now_us);
        while let Some(event) = driver.poll_event() {
            if lost_inputs(&event).is_some() || matches!(event, DriverEvent::Session(_)) {
                told.push(event);
            }
        }
    }
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(lost_inputs(&told[1]), Some((1, 2)));
    assert_eq!(driver.push_input(b"c"), Ok(1));
}

/// What becomes of a driver whose session stalls for two seconds at a relay that lets it in anew and, as relays do where players have
/// numbers, replaces the old session as soon as the new one was heard: the sessions it had, and whether it is over.
fn stalled(replaced_by_another: bool) -> (usize, bool, bool) {
    let (mut server, settings) = Server::begin();
    let mut driver = Driver::new(settings, 0).unwrap();
    let (mut sessions, mut over, mut old) = (0, false, None);
    for frame in 0..600u64 {
        let now_us = frame * 20_000;
        let begun = server.begun;
        // The stall: what is sent to the first session gets lost, while a second one begins.
        let stalls = (2_000_000..4_000_000).contains(&now_us);
        if now_us == 2_000_000 {
            old = server.session.take();
        }
        server.turn(now_us);
        let told = match replaced_by_another {
            true => stalls && old.is_some(),
            false => server.begun > begun && begun > 0,
        };
        if let (true, Some((mut relay, to))) = (told, old.take_if(|_| told)) {
            let payload = Relay::payload(now_us, payload::CLOSE, &[CloseReason::Replaced as u8]);
            server.socket.send_to(&relay.seal(payload), to).unwrap();
        }
        driver.poll(now_us);
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Session(_) => sessions += 1,
                DriverEvent::Over(_) => over = true,
                _ => {}
            }
        }
    }
    (sessions, over, driver.shown.is_connected())
}

/// FAULTS 44: a driver whose own second session replaces its first goes on with the second; one that somebody else's session
/// replaces is over.
#[test]
fn faults_44_the_replacement_by_its_own_next_session_is_no_end() {
    assert_eq!(stalled(false), (2, false, true));
    assert_eq!(stalled(true), (1, true, false));
}

/// A program whose session ends at 2 s and that stands still while the next one is joined, `pauses` times for longer than a silence, each
/// time after `turns` turns in which it heard of it: the relay, the driver and the time after 16 s, and the sessions and failures told.
fn paused(pauses: u32, turns: u32, keep_display_us: u64) -> (Server, Driver, u64, (u32, u32)) {
    let (mut server, mut settings) = Server::begin();
    settings.keep_display_us = keep_display_us;
    let silence_us = settings.silence_us;
    let mut driver = Driver::new(settings, 0).unwrap();
    let (mut sessions, mut failed, mut paused, mut heard) = (0, 0, 0, 0);
    let mut now_us = 0;
    while now_us < 16_000_000 {
        now_us += 20_000;
        if now_us == 2_000_000 {
            server.session = None;
        }
        let is_joining = driver.next.as_ref().is_some_and(super::line::Line::is_connected);
        heard = if is_joining { heard + 1 } else { 0 };
        if heard >= turns && paused < pauses {
            (paused, heard, now_us) = (paused + 1, 0, now_us + silence_us * 6 / 5);
        } else {
            server.turn(now_us);
        }
        driver.poll(now_us);
        while let Some(event) = driver.poll_event() {
            sessions += u32::from(matches!(event, DriverEvent::Session(_)));
            failed += u32::from(matches!(event, DriverEvent::Failed(_)));
        }
    }
    assert_eq!(paused, pauses, "there was a next session");
    (server, driver, now_us, (sessions, failed))
}

/// FAULTS 44: a program that stands still for more than a silence while its next session completes its view does not give that up: it
/// is the program that did not listen.
#[test]
fn faults_44_a_pause_costs_no_session_that_is_being_joined() {
    let (server, _, _, told) = paused(1, 1, 2_000_000);
    assert_eq!((told, server.begun), ((2, 0), 2));
}

/// FAULTS 44, 79: so does one that stands still again and again, each time after it heard of it; one that hears nothing is excused once.
#[test]
fn faults_44_79_every_pause_of_a_join_is_excused_once_it_was_heard() {
    let (mut server, mut driver, mut now_us, told) = paused(4, 11, 8_000_000);
    assert_eq!((told, server.begun), ((2, 0), 2));
    // The relay is gone, and the program looks each 0.6 s: that is silence all the same.
    (server.session, server.is_up) = (None, false);
    for _ in 0..5 {
        now_us += driver.settings.silence_us * 3 / 5;
        driver.poll(now_us);
    }
    assert!(!driver.is_live());
}

/// SPEC CTL3: what a session told before it ended is told before its end, and nothing after that.
#[test]
fn ctl3_the_last_words_of_a_session_come_before_its_end() {
    let (mut server, settings) = Server::begin();
    let mut driver = Driver::new(settings, 0).unwrap();
    let mut told = Vec::new();
    for frame in 0..200u64 {
        let now_us = frame * 20_000;
        server.turn(now_us);
        if frame == 100 {
            let (mut relay, to) = server.session.take().unwrap();
            relay.push_event_at(7, None, now_us);
            let last = relay.messages(now_us);
            server.socket.send_to(&last, to).unwrap();
            server
                .socket
                .send_to(&relay.close(CloseReason::Replaced), to)
                .unwrap();
        }
        driver.poll(now_us);
        told.extend(core::iter::from_fn(|| driver.poll_event()).filter(|_| frame >= 100));
    }
    let is_world = |event: &DriverEvent| matches!(event, DriverEvent::Client(ClientEvent::World(event)) if event.kind == 7);
    let world = told.iter().position(is_world);
    let over = told
        .iter()
        .position(|event| matches!(event, DriverEvent::Over(_)));
    assert!(world.is_some() && world < over, "{told:?}");
    assert_eq!(over, Some(told.len() - 1), "{told:?}");
}

/// FAULTS 44: where the shown session is over, the next one is what there is: two seconds without a word do not end it.
#[test]
fn faults_44_the_only_session_left_is_waited_for_longer() {
    let (mut server, mut settings) = Server::begin();
    settings.keep_display_us = 6_000_000;
    let silence_us = settings.silence_us;
    let mut driver = Driver::new(settings, 0).unwrap();
    let (mut failed, mut mute) = (0, None);
    for frame in 0..500u64 {
        let now_us = frame * 20_000;
        if frame == 100 {
            let (mut relay, to) = server.session.take().unwrap();
            server
                .socket
                .send_to(&relay.close(CloseReason::Idle), to)
                .unwrap();
        }
        let is_joining = driver.next.as_ref().is_some_and(super::line::Line::is_connected);
        if is_joining {
            mute.get_or_insert(now_us..now_us + silence_us * 2);
        }
        if !mute.as_ref().is_some_and(|mute| mute.contains(&now_us)) {
            server.turn(now_us);
        }
        driver.poll(now_us);
        while let Some(event) = driver.poll_event() {
            failed += u32::from(matches!(event, DriverEvent::Failed(_)));
        }
    }
    assert!(mute.is_some(), "there was a next session");
    assert_eq!((failed, server.begun), (0, 2));
    assert!(driver.is_live());
}
