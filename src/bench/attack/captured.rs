//! Attacks with datagrams that somebody captured: altered, replayed, or sent again from elsewhere (THREATS 24, 26, 90).

use std::net::Ipv4Addr;
use std::time::Duration;

use super::gun::{Gun, address};
use super::insider::Insider;
use super::{Field, Found};
use crate::bench::surroundings::mix;
use crate::limits::PROBE_BYTES_FACTOR;
use crate::wire::input::put_inputs;
use crate::wire::payload;

/// Datagrams a second.
const PER_S: u64 = 5_000;
/// How long a session is followed before anything is done with its datagrams.
const SETTLE: Duration = Duration::from_millis(300);
/// Longest time between two snapshots of a session beside which nothing happens; tests share their host.
const GAP: Duration = Duration::from_millis(600);

/// A datagram with a report and one input, which is acknowledged if it is taken.
fn with_input(insider: &mut Insider, number: u32) -> Vec<u8> {
    let mut payload = Insider::payload(&insider.report());
    if let Some(flags) = payload.first_mut() {
        *flags |= payload::INPUTS;
    }
    put_inputs(number, [&b"x"[..]].into_iter(), &mut payload);
    insider.seal(&payload)
}

/// Every bit of a datagram that was never delivered, flipped; afterwards the datagram itself is still good.
pub(super) fn flips(field: &Field) -> anyhow::Result<Found> {
    let mut insider = Insider::join(field, Ipv4Addr::new(127, 4, 0, 3))?;
    insider.settle(SETTLE);
    let mut gun = Gun::new(field.relay)?;
    let (mut number, mut bit, mut whole) = (1, 0, with_input(&mut insider, 1));
    let mut delivered = 0u32;
    gun.barrage(
        PER_S,
        field.until_us,
        |gun, shot| {
            let mut flipped = whole.clone();
            if let Some(byte) = flipped.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            gun.fire(address(field.seed ^ shot), &flipped);
            insider.send(&flipped);
            bit += 1;
            if bit == whole.len() * 8 {
                insider.send(&whole);
                insider.hear();
                delivered += 1;
                number += 1;
                (bit, whole) = (0, with_input(&mut insider, number));
            }
        },
        |_, _| None,
    );
    std::thread::sleep(Duration::from_millis(100));
    insider.hear();
    let taken = insider.inputs_next.saturating_sub(1);
    Ok(Found { attempts: 2 * gun.sent.datagrams, ..gun.found(format!(
            "{} answers; {taken} of {delivered} datagrams that were flipped at every bit before were taken whole after it",
            gun.heard.datagrams
        ), gun.heard.datagrams == 0 && delivered > 0 && taken == delivered && insider.closed.is_none()) })
}

/// Datagrams that were delivered before, in any order, from where they came from and from elsewhere.
pub(super) fn replay(field: &Field) -> anyhow::Result<Found> {
    let mut insider = Insider::join(field, Ipv4Addr::new(127, 4, 0, 4))?;
    insider.settle(SETTLE);
    let mut old = Vec::new();
    for number in 1..=50 {
        let datagram = with_input(&mut insider, number);
        insider.send(&datagram);
        old.push(datagram);
        std::thread::sleep(Duration::from_millis(5));
    }
    insider.hear();
    let mut gun = Gun::new(field.relay)?;
    gun.barrage(
        PER_S,
        field.until_us,
        |gun, shot| {
            let random = mix(field.seed ^ shot);
            let Some(datagram) = old.get(random as usize % old.len()) else {
                return;
            };
            gun.fire(address(random), datagram);
            insider.send(datagram);
            if shot % 250 == 0 {
                let report = Insider::payload(&insider.report());
                let datagram = insider.seal(&report);
                insider.send(&datagram);
                insider.hear();
            }
        },
        |_, _| None,
    );
    insider.hear();
    let taken = insider.inputs_next.saturating_sub(1);
    Ok(Found {
        attempts: 2 * gun.sent.datagrams,
        ..gun.found(
            format!(
                "{} answers elsewhere; {taken} inputs taken of 50; longest gap of the session {} ms",
                gun.heard.datagrams,
                insider.gap.as_millis()
            ),
            gun.heard.datagrams == 0 && taken == 50 && insider.gap < GAP && insider.closed.is_none(),
        )
    })
}

/// Each datagram of a session is sent from elsewhere before it arrives itself.
pub(super) fn copies(field: &Field) -> anyhow::Result<Found> {
    let mut insider = Insider::join(field, Ipv4Addr::new(127, 4, 0, 5))?;
    insider.settle(SETTLE);
    let (mut gun, snapshots) = (Gun::new(field.relay)?, insider.snapshots);
    gun.barrage(
        200,
        field.until_us,
        |gun, shot| {
            let report = Insider::payload(&insider.report());
            let datagram = insider.seal(&report);
            gun.fire(address(field.seed ^ shot), &datagram);
            gun.hear(|_, _| {});
            insider.send(&datagram);
            insider.hear();
        },
        |_, _| None,
    );
    let got = insider.snapshots - snapshots;
    let ratio = gun.bytes_out_per_byte_in();
    Ok(gun.found(format!(
            "{ratio:.2} bytes, all of them challenges, to the copies' addresses for a byte from there; the session got {got} snapshots, longest gap {} ms",
            insider.gap.as_millis()
        ), ratio <= PROBE_BYTES_FACTOR as f64 && got > 0 && insider.gap < GAP && insider.closed.is_none()))
}
