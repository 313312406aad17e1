//! When a driver wants a token, and what it does without one (FAULTS 44).

use super::Server;
use crate::client::inbox::Ending;
use crate::driver::settings::DriverSettings;
use crate::driver::{Driver, DriverEvent};
use crate::limits::RELAY_SILENCE_US;
use crate::token::{ConnectToken, LIFE_MAX_S, Secret};
use crate::wire::handshake::{Denial, put_denied, read_request};
use crate::wire::seal::INSECURE_TOKEN_KEY;
use std::net::{SocketAddr, UdpSocket};

/// A token that the relays of these tests take as they take any: none looks at it.
fn token(number: u8, relays: &[SocketAddr]) -> ConnectToken {
    ConnectToken {
        expires_s: 1,
        relays: relays.to_vec(),
        secret: Secret(INSECURE_TOKEN_KEY),
        sealed: vec![number; 8],
    }
}

/// What is told of sessions and tokens, by its first letter: asking, session, wants, silent, failed.
fn letter(event: &DriverEvent) -> Option<char> {
    match event {
        DriverEvent::Asking(_) => Some('a'),
        DriverEvent::Session(_) => Some('s'),
        DriverEvent::WantsToken => Some('w'),
        DriverEvent::Silent => Some('q'),
        DriverEvent::Failed(_) => Some('f'),
        _ => None,
    }
}

/// FAULTS 44: a session spends its token, and another is wanted at once and again when it is needed. Without one nothing is asked,
/// and with one the next session begins without a pause.
#[test]
fn faults_44_a_token_is_wanted_when_it_is_spent_and_when_it_is_needed() {
    let (mut server, settings) = Server::begin();
    let mut driver = Driver::new(DriverSettings::of_token(&token(1, &settings.relays)), 0).unwrap();
    let mut told = String::new();
    let mut turn = |driver: &mut Driver, server: &mut Server, from_us: u64, to_us: u64| {
        for now_us in (from_us..to_us).step_by(20_000) {
            server.turn(now_us);
            driver.poll(now_us);
            let events = core::iter::from_fn(|| driver.poll_event());
            told.extend(events.filter_map(|event| letter(&event)));
        }
        core::mem::take(&mut told)
    };
    assert_eq!(turn(&mut driver, &mut server, 0, 2_000_000), "asw");
    server.session = None;
    assert_eq!(turn(&mut driver, &mut server, 2_000_000, 10_000_000), "qw");
    assert_eq!(server.begun, 1, "nothing is asked in vain");
    assert!(
        driver.next_timer() > 10_000_000,
        "who sleeps until the timer does not spin"
    );
    driver.set_token(&token(2, &[]));
    assert_eq!(turn(&mut driver, &mut server, 10_000_000, 10_200_000), "aw");
    assert_eq!(turn(&mut driver, &mut server, 10_200_000, 16_000_000), "s");
    // One that was given in time is there when it is needed.
    driver.set_token(&token(3, &[]));
    server.session = None;
    assert_eq!(turn(&mut driver, &mut server, 16_000_000, 22_000_000), "qaws");
    // And one that has become too old is not: it is asked with all the same, as clocks differ.
    driver.set_token(&token(4, &[]));
    let old_us = 22_000_000 + LIFE_MAX_S * 1_000_000;
    assert_eq!(turn(&mut driver, &mut server, 22_000_000, old_us), "");
    server.session = None;
    let told = turn(&mut driver, &mut server, old_us, old_us + 6_000_000);
    assert_eq!(told, "qwaws");
}

/// FAULTS 44: a token that a relay refuses, or the want of one, is told as such once, and another one is asked with at once.
#[test]
fn faults_44_a_refused_token_is_wanted_once() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let relays = [socket.local_addr().unwrap()];
    for has_token in [true, false] {
        let settings = match has_token {
            true => DriverSettings::of_token(&token(1, &relays)),
            false => DriverSettings::new(relays.to_vec()),
        };
        let mut driver = Driver::new(settings, 0).unwrap();
        let (mut told, mut asked) = (Vec::new(), Vec::new());
        for now_us in (0..10_000_000).step_by(20_000) {
            let mut buffer = [0; 2_048];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                if let Ok((version, nonce)) = read_request(&buffer[1..length]) {
                    let mut answer = Vec::new();
                    put_denied(&mut answer, version, &nonce, Denial::Token);
                    socket.send_to(&answer, from).unwrap();
                }
            }
            if now_us == 8_000_000 {
                driver.set_token(&token(2, &relays));
            }
            driver.poll(now_us);
            for event in core::iter::from_fn(|| driver.poll_event()) {
                match event {
                    DriverEvent::WantsToken => told.push(now_us),
                    DriverEvent::Asking(_) => asked.push(now_us),
                    DriverEvent::Failed(why) => assert_eq!(why, Ending::Denied(Denial::Token)),
                    _ => {}
                }
            }
        }
        assert!(
            matches!(told[..], [first, second] if first < 1_000_000 && second > 8_000_000),
            "{has_token} {told:?}"
        );
        let next = asked.iter().find(|at_us| **at_us >= 8_000_000).unwrap();
        assert!(*next <= 8_000_000 + RELAY_SILENCE_US, "{asked:?}");
        assert!(asked.len() > 3, "{asked:?}");
    }
}
