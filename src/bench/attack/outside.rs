//! Attacks of strangers: they have no token, and speak from any address.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::Context;

use super::gun::{Gun, address, noise, nonce};
use super::insider::{Insider, Joined};
use super::{Field, Found};
use crate::bench::surroundings::mix;
use crate::limits::{DATAGRAM_MAX, LIMIT_BURST, TAG_BYTES};
use crate::net::clock::monotonic_us;
use crate::wire::bytes::ByteWriter;
use crate::wire::handshake::{COOKIE_BYTES, DatagramKind, put_request, put_response, read_challenge};
use crate::wire::version::PROTOCOL_VERSION;

/// First packets a second of a flood (THREATS D11).
const FLOOD_PER_S: u64 = 50_000;
/// First packets a second in one victim's name.
const VICTIM_PER_S: u64 = 10_000;
/// What else strangers send in a second.
const PER_S: u64 = 5_000;
/// Cookies that one destination may be sent in a second, beside what is allowed at once.
const VICTIM_COOKIES_PER_S: f64 = 10.0;
/// A newcomer has to be in within this time beside a flood.
const NEWCOMER_MS: u64 = 2_000;

/// Nothing may come back.
fn silence(gun: &Gun, what: &str) -> Found {
    gun.found(
        format!("{} answers to {what}", gun.heard.datagrams),
        gun.heard.datagrams == 0,
    )
}

/// First packets from made-up sources, beside which newcomers are let in (THREATS 1, 16).
pub(super) fn flood(field: &Field) -> anyhow::Result<Found> {
    let mut gun = Gun::new(field.relay)?;
    let newcomers = {
        let field = field.clone();
        std::thread::spawn(move || newcomers(&field))
    };
    let mut request = Vec::new();
    gun.barrage(
        FLOOD_PER_S,
        field.until_us,
        |gun, shot| {
            put_request(&mut request, PROTOCOL_VERSION, &nonce(field.seed ^ shot));
            gun.fire(address(field.seed.wrapping_add(shot)), &request);
        },
        |_, _| None,
    );
    let (joined, slowest_ms) = newcomers.join().unwrap_or((0, u64::MAX));
    let ratio = gun.bytes_out_per_byte_in();
    Ok(gun.found(format!(
            "{} cookies, {ratio:.3} bytes out for a byte in; {joined} newcomers were in within {slowest_ms} ms",
            gun.heard.datagrams
        ), ratio <= 1.0 && joined > 0 && slowest_ms <= NEWCOMER_MS))
}

/// Honest newcomers, one after the other: how many got in, and how long the slowest took.
fn newcomers(field: &Field) -> (u64, u64) {
    let (mut joined, mut slowest_us) = (0, 0);
    let last_us = field.until_us.saturating_sub(NEWCOMER_MS * 1_000 / 2);
    while monotonic_us() < last_us {
        let begun_us = monotonic_us();
        let [low, high, ..] = mix(begun_us).to_le_bytes();
        let from = Ipv4Addr::new(127, 3, low, high);
        let token = field.token(begun_us).ok().flatten();
        let is_in = matches!(Insider::try_join(field, from, token.as_ref()), Ok(Joined::In(_)));
        if !is_in {
            return (joined, u64::MAX);
        }
        joined += 1;
        slowest_us = slowest_us.max(monotonic_us() - begun_us);
        std::thread::sleep(Duration::from_millis(200));
    }
    (joined, slowest_us / 1_000)
}

/// The same, all in one victim's name (THREATS 2).
pub(super) fn victim(field: &Field) -> anyhow::Result<Found> {
    let mut gun = Gun::new(field.relay)?;
    let (victim, begun_us) = (Ipv4Addr::new(127, 9, 9, 9), monotonic_us());
    let mut request = Vec::new();
    gun.barrage(
        VICTIM_PER_S,
        field.until_us,
        |gun, shot| {
            put_request(&mut request, PROTOCOL_VERSION, &nonce(field.seed ^ shot));
            gun.fire(victim, &request);
        },
        |_, _| None,
    );
    let seconds = (monotonic_us() - begun_us) as f64 / 1e6;
    let most = LIMIT_BURST as f64 + VICTIM_COOKIES_PER_S * seconds;
    Ok(gun.found(
        format!(
            "{} cookies reached the victim in {seconds:.1} s, {:.4} bytes out for a byte in",
            gun.heard.datagrams,
            gun.bytes_out_per_byte_in()
        ),
        gun.heard.datagrams as f64 <= most,
    ))
}

/// A good cookie, from other addresses and for other nonces (THREATS 6).
pub(super) fn cookie_replay(field: &Field) -> anyhow::Result<Found> {
    let (owner, own_nonce) = (address(field.seed ^ 0xC00C), nonce(field.seed));
    let cookie = cookie(field, owner, own_nonce)?;
    let token = field.token(1)?;
    let sealed = token.as_ref().map_or(&[][..], |token| &token.sealed);
    let mut gun = Gun::new(field.relay)?;
    let mut response = Vec::new();
    gun.barrage(
        PER_S,
        field.until_us,
        |gun, shot| {
            let (from, nonce) = if shot % 2 == 0 {
                (address(field.seed.wrapping_add(shot)), own_nonce)
            } else {
                (owner, nonce(field.seed ^ shot))
            };
            put_response(&mut response, PROTOCOL_VERSION, &nonce, &cookie, sealed);
            gun.fire(from, &response);
        },
        |_, _| None,
    );
    Ok(silence(&gun, "a cookie of another address or nonce"))
}

/// A cookie for an address of ours.
fn cookie(field: &Field, from: Ipv4Addr, nonce: [u8; 16]) -> anyhow::Result<[u8; COOKIE_BYTES]> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect(field.relay)?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut request, mut buffer) = (Vec::new(), [0; DATAGRAM_MAX]);
    put_request(&mut request, PROTOCOL_VERSION, &nonce);
    for _ in 0..20 {
        socket.send(&request)?;
        if let Ok(length) = socket.recv(&mut buffer)
            && let Some(rest) = buffer.get(1..length)
            && let Ok((_, _, cookie)) = read_challenge(rest)
        {
            return Ok(cookie);
        }
    }
    None.context("the relay gives no cookie")
}

/// Connection ids that are guessed, some next to a real one (THREATS 29).
pub(super) fn guess(field: &Field) -> anyhow::Result<Found> {
    let insider = Insider::join(field, Ipv4Addr::new(127, 4, 0, 1))?;
    let mut gun = Gun::new(field.relay)?;
    let mut datagram = Vec::new();
    gun.barrage(
        2 * PER_S,
        field.until_us,
        |gun, shot| {
            let random = mix(field.seed ^ shot);
            let connection = match shot % 3 {
                0 => random,
                // The place in the shard is right, and the 32 random bits are not.
                1 => (insider.connection & 0xFFFF_FFFF) | random << 32,
                _ => insider.connection,
            };
            datagram.clear();
            datagram.put_u8(DatagramKind::Up as u8);
            datagram.put_u64(connection);
            datagram.put(&noise(random, 4 + 1 + TAG_BYTES + (random % 100) as usize));
            gun.fire(address(random), &datagram);
        },
        |_, _| None,
    );
    Ok(silence(&gun, "guessed connection ids and forged seals"))
}

/// Datagrams of every length, beginning as each kind does, whole and cut (THREATS 3, 22, 23).
pub(super) fn sizes(field: &Field) -> anyhow::Result<Found> {
    const KINDS: [u8; 9] = [0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x10, 0x20, 0xFF];
    let mut gun = Gun::new(field.relay)?;
    let large = UdpSocket::bind("127.0.0.2:0")?;
    large.set_nonblocking(true)?;
    let mut lengths = BTreeSet::new();
    let mut request = Vec::new();
    put_request(&mut request, PROTOCOL_VERSION, &nonce(field.seed));
    gun.barrage(
        PER_S,
        field.until_us,
        |gun, shot| {
            let random = mix(field.seed ^ shot);
            let length = (random % 1_281) as usize;
            let mut datagram = match shot % 4 {
                // A Request a little too short or too long.
                0 => [&request[..], &[0; 1_100]].concat(),
                _ => noise(random, 1_280),
            };
            let kind = KINDS
                .get((random >> 32) as usize % KINDS.len())
                .copied()
                .unwrap_or(0);
            // The one length at which the first of these is a Request is not wrong.
            let length = if length == request.len() {
                length - 1
            } else {
                length
            };
            datagram.truncate(length);
            if let Some(first) = datagram.first_mut().filter(|_| shot % 4 != 0) {
                *first = kind;
            }
            lengths.insert(length);
            gun.fire(address(random), &datagram);
            if shot % 100 == 0 {
                let huge = vec![kind; 1_201 + (random >> 16) as usize % 64_307];
                let _ = large.send_to(&huge, field.relay);
            }
        },
        |_, _| None,
    );
    let mut buffer = [0; 64];
    let answered = large.recv(&mut buffer).is_ok();
    let mut found = silence(&gun, &format!("{} lengths and all kinds", lengths.len()));
    found.kept &= !answered;
    Ok(found)
}
