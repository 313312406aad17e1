//! Attacks of players: they have a token, a session, and a client that lies (THREATS 46, 57, 62, 71).

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::gun::Count;
use super::insider::Insider;
use super::{Field, Found};
use crate::bench::surroundings::mix;
use crate::limits::{INPUTS_PER_S, INPUTS_WINDOW, RESTART_SPACING_US, UNCONFIRMED_BYTES, WELCOMES_MAX};
use crate::net::clock::monotonic_us;
use crate::sequence::Tick;
use crate::wire::input::put_inputs;
use crate::wire::payload::{self, CloseReason};
use crate::wire::report::{RefuseReason, Report};
use crate::wire::snapshot::Held;

/// How long a session is honest first.
const SETTLE: Duration = Duration::from_millis(300);
/// Bytes a second that a relay of this process may send a session, and at once.
const BUDGET_BYTES_PER_S: u64 = 512 << 10;

/// Sends what `say` makes, so often a second, until the end; what was sent, and in how many seconds.
fn speak(
    field: &Field,
    insider: &mut Insider,
    per_s: u64,
    mut say: impl FnMut(&mut Insider, u64) -> Vec<u8>,
) -> (Count, f64) {
    let (mut sent, begun) = (Count::default(), Instant::now());
    while monotonic_us() < field.until_us {
        let due = (begun.elapsed().as_secs_f64() * per_s as f64) as u64;
        let late = due.saturating_sub(sent.datagrams);
        for _ in 0..late.min(64) {
            let payload = say(insider, sent.datagrams);
            let datagram = insider.seal(&payload);
            insider.send(&datagram);
            sent.add(datagram.len());
        }
        insider.hear();
        std::thread::sleep(Duration::from_micros(300));
    }
    std::thread::sleep(Duration::from_millis(50));
    insider.hear();
    (sent, begun.elapsed().as_secs_f64())
}

/// What a liar made of its session: its stream is within its budget.
fn bounded(sent: Count, heard: Count, seconds: f64, what: String) -> Found {
    let per_s = heard.bytes as f64 / seconds;
    let most = BUDGET_BYTES_PER_S as f64 * (seconds + 1.0);
    Found {
        attempts: sent.datagrams,
        to_relay: sent,
        from_relay: heard,
        observed: format!("{what}; {:.0} kB/s down to the liar", per_s / 1e3),
        kept: heard.bytes as f64 <= most,
    }
}

fn join(field: &Field, last: u8) -> anyhow::Result<(Insider, u64)> {
    let mut insider = Insider::join(field, Ipv4Addr::new(127, 5, 0, last))?;
    insider.settle(SETTLE);
    let before = insider.heard.bytes;
    Ok((insider, before))
}

fn since(insider: &Insider, before: u64) -> Count {
    Count {
        bytes: insider.heard.bytes - before,
        ..insider.heard
    }
}

/// Reports of what was never sent, is yet to come, or is of another generation (THREATS 46).
pub(super) fn forged_acks(field: &Field) -> anyhow::Result<Found> {
    let (mut insider, before) = join(field, 1)?;
    let (sent, seconds) = speak(field, &mut insider, 350, |insider, shot| {
        let random = mix(field.seed ^ shot);
        let mut report = insider.report();
        let newest = Tick(insider.newest);
        let first = match shot % 4 {
            0 => newest.plus(1 + (random % 1_000) as u32),
            1 => newest.minus((random % 400) as u32),
            _ => newest,
        };
        for back in 0..32 {
            report.held.push(Held {
                id: first.minus(back),
                mask: 1 + (random >> 40) as u32 % 255,
            });
        }
        report.generation = match shot % 5 {
            0 => report.generation.wrapping_add(1 + (random >> 20) as u32 % 9),
            1 => report.generation.saturating_sub(1),
            _ => report.generation,
        };
        report.next_message = (random >> 8) as u32;
        report.received_newest = random as u32;
        Insider::payload(&report)
    });
    let heard = since(&insider, before);
    let what = format!(
        "{} session epochs, {} snapshots after lies",
        insider.epochs, insider.snapshots
    );
    Ok(bounded(sent, heard, seconds, what))
}

/// Requests for records, asks and cameras at a rate no client has (THREATS 54, 72).
pub(super) fn control_flood(field: &Field) -> anyhow::Result<Found> {
    let (mut insider, before) = join(field, 2)?;
    let (sent, seconds) = speak(field, &mut insider, 5_000, |insider, shot| {
        let random = mix(field.seed ^ shot);
        let requests = (0..4)
            .map(|index| ((random >> (index * 12)) as u32 % 1_000, 1))
            .collect();
        let report = Report {
            ask: true,
            requests,
            rejected: vec![((shot % 52) as u8, shot as u32)],
            ..insider.report()
        };
        let mut payload = Insider::payload(&report);
        if let Some(flags) = payload.first_mut() {
            *flags |= payload::CAMERA;
        }
        payload.extend((0..3).flat_map(|axis| ((random >> axis) as u32).to_le_bytes()));
        payload
    });
    let heard = since(&insider, before);
    let what = format!("{:.0} datagrams/s up", sent.datagrams as f64 / seconds);
    Ok(bounded(sent, heard, seconds, what))
}

/// A full state asked for in every report (THREATS 57).
pub(super) fn full_state(field: &Field) -> anyhow::Result<Found> {
    let (mut insider, before) = join(field, 3)?;
    let epochs = insider.epochs;
    let (sent, seconds) = speak(field, &mut insider, 300, |insider, shot| {
        let reasons = RefuseReason::ALL;
        let report = Report {
            refuse: reasons.get(shot as usize % reasons.len()).copied(),
            ..insider.report()
        };
        Insider::payload(&report)
    });
    let (heard, begun) = (since(&insider, before), insider.epochs - epochs);
    let most = 1.0 + seconds * 1e6 / RESTART_SPACING_US as f64;
    let mut found = bounded(
        sent,
        heard,
        seconds,
        format!("{begun} full states in {seconds:.1} s"),
    );
    found.kept &= begun as f64 <= most;
    Ok(found)
}

/// Inputs in blocks of 64, a thousand blocks a second (THREATS 71).
pub(super) fn input_flood(field: &Field) -> anyhow::Result<Found> {
    let (mut insider, before) = join(field, 4)?;
    let (sent, seconds) = speak(field, &mut insider, 1_000, |insider, _| {
        let mut payload = Insider::payload(&insider.report());
        if let Some(flags) = payload.first_mut() {
            *flags |= payload::INPUTS;
        }
        let inputs = [&b"1234567"[..]; INPUTS_WINDOW];
        put_inputs(insider.inputs_next, inputs.into_iter(), &mut payload);
        payload
    });
    let taken = f64::from(insider.inputs_next.saturating_sub(1));
    let most = INPUTS_PER_S as f64 * (seconds + 1.1);
    let what = format!(
        "{taken} of {} inputs taken",
        sent.datagrams * INPUTS_WINDOW as u64
    );
    let mut found = bounded(sent, since(&insider, before), seconds, what);
    found.kept &= taken <= most && taken > 0.0;
    Ok(found)
}

/// Datagrams under the right key that cannot be read.
pub(super) fn malformed(field: &Field) -> anyhow::Result<Found> {
    let (mut insider, before) = join(field, 5)?;
    let (sent, seconds) = speak(field, &mut insider, 100, |insider, shot| {
        let mut payload = insider.noise(shot, 40);
        if let Some(flags) = payload.first_mut() {
            *flags = payload::REPORT | 0x80;
        }
        payload
    });
    let closed = insider.closed;
    let ended = closed.map_or("not closed", CloseReason::label);
    let mut found = bounded(
        sent,
        since(&insider, before),
        seconds,
        format!("the session ended: {ended}"),
    );
    found.kept &= closed == Some(CloseReason::Protocol);
    Ok(found)
}

/// Sessions that begin and say nothing, or a byte now and then (THREATS 17, 62).
pub(super) fn drip(field: &Field) -> anyhow::Result<Found> {
    let mut silent: Vec<Insider> = Vec::new();
    let mut sent = Count::default();
    while monotonic_us() < field.until_us {
        let [low, high, ..] = (silent.len() as u32).to_le_bytes();
        let token = field.token(1_000_000 + silent.len() as u64)?;
        let from = Ipv4Addr::new(127, 6, high, low);
        if let super::insider::Joined::In(insider) = Insider::try_join(field, from, token.as_ref())? {
            silent.push(*insider);
        }
        for insider in &mut silent {
            insider.hear();
        }
        if let Some(insider) = silent.last() {
            insider.send(&[0x20]);
            sent.add(1);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let most = silent
        .iter()
        .map(|insider| insider.heard.bytes)
        .max()
        .unwrap_or(0);
    let heard = silent.iter().fold(Count::default(), |sum, insider| Count {
        datagrams: sum.datagrams + insider.heard.datagrams,
        bytes: sum.bytes + insider.heard.bytes,
    });
    // Snapshots are bounded by a round trip's worth, and so are Welcomes, which hold a schema.
    let bound = UNCONFIRMED_BYTES + u64::from(WELCOMES_MAX) * 1_200;
    Ok(Found {
        attempts: silent.len() as u64,
        to_relay: sent,
        from_relay: heard,
        observed: format!(
            "{} sessions that were never heard; the dearest got {most} bytes of at most {bound}",
            silent.len()
        ),
        kept: !silent.is_empty() && most <= bound,
    })
}
