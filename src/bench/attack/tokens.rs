//! Attacks with tokens that are no good: used, expired, altered, of another fleet (THREATS 9, 12).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::Context;

use super::gun::{Gun, address, nonce};
use super::insider::Insider;
use super::{Field, Found};
use crate::net::clock::unix_s;
use crate::node::minter::Minter;
use crate::node::random::random;
use crate::token::{Grant, Secret};
use crate::wire::handshake::{DatagramKind, Denial, put_request, put_response, read_challenge, read_denied};
use crate::wire::version::PROTOCOL_VERSION;

/// Handshakes begun in a second.
const PER_S: u64 = 400;

/// A token that has a session already, from other addresses.
pub(super) fn replay(field: &Field) -> anyhow::Result<Found> {
    let minter = minter(field)?;
    let token = minter.mint(77)?;
    let from = Ipv4Addr::new(127, 4, 0, 2);
    let first = Insider::try_join(field, from, Some(&token))?;
    let super::insider::Joined::In(mut insider) = first else {
        anyhow::bail!("a good token was refused");
    };
    insider.settle(std::time::Duration::from_millis(200));
    let mut found = knock(field, |_| token.sealed.clone())?;
    insider.hear();
    found.observed.push_str(&format!(
        "; the session that it made got {} snapshots",
        insider.snapshots
    ));
    found.kept &= insider.closed.is_none() && insider.snapshots > 0;
    Ok(found)
}

/// Tokens that have run out.
pub(super) fn expired(field: &Field) -> anyhow::Result<Found> {
    let (minter, now_s) = (minter(field)?, unix_s());
    let sealed = mint(
        minter,
        now_s.saturating_sub(100),
        now_s.saturating_sub(40),
        &minter.audience,
    )?;
    knock(field, |_| sealed.clone())
}

/// Tokens with a bit changed, somewhere.
pub(super) fn forged(field: &Field) -> anyhow::Result<Found> {
    let (minter, now_s) = (minter(field)?, unix_s());
    let sealed = mint(minter, now_s, now_s + 60, &minter.audience)?;
    knock(field, |shot| {
        let mut sealed = sealed.clone();
        let bits = sealed.len() as u64 * 8;
        let bit = shot % bits.max(1);
        if let Some(byte) = sealed.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        sealed
    })
}

/// Tokens of the same key for another fleet's relays.
pub(super) fn elsewhere(field: &Field) -> anyhow::Result<Found> {
    let (minter, now_s) = (minter(field)?, unix_s());
    let sealed = mint(minter, now_s, now_s + 60, "another fleet")?;
    knock(field, |_| sealed.clone())
}

fn minter(field: &Field) -> anyhow::Result<&Minter> {
    field
        .minter
        .as_ref()
        .context("the relay asks for no tokens: give --token-keys-file, or leave out --relay")
}

fn mint(minter: &Minter, issued_s: u64, expires_s: u64, audience: &str) -> anyhow::Result<Vec<u8>> {
    let grant = Grant {
        issued_s,
        expires_s,
        client: 77,
        audience: audience.to_owned(),
        relays: minter.relays.clone(),
        secret: Secret(random()?),
        view: None,
        budget_bytes_per_s: None,
    };
    Ok(grant.mint(&minter.key, random()?)?.sealed)
}

/// Goes through the whole handshake from one address after the other with what `sealed` gives; nobody may be let in.
fn knock(field: &Field, mut sealed: impl FnMut(u64) -> Vec<u8>) -> anyhow::Result<Found> {
    let mut gun = Gun::new(field.relay)?;
    let (mut denied, mut let_in, mut other, mut tries) = (0u64, 0u64, 0u64, 0u64);
    let mut nonces = BTreeMap::new();
    let mut request = Vec::new();
    let names = std::cell::RefCell::new(&mut nonces);
    gun.barrage(
        PER_S,
        field.until_us,
        |gun, shot| {
            let (from, nonce) = (address(field.seed.wrapping_add(shot)), nonce(field.seed ^ shot));
            names.borrow_mut().insert(from, nonce);
            put_request(&mut request, PROTOCOL_VERSION, &nonce);
            gun.fire(from, &request);
        },
        |local, bytes| {
            let (kind, rest) = bytes.split_first()?;
            match DatagramKind::from_byte(*kind) {
                Some(DatagramKind::Challenge) => {
                    let (_, echo, cookie) = read_challenge(rest).ok()?;
                    names.borrow().get(&local).filter(|nonce| **nonce == echo)?;
                    tries += 1;
                    let mut response = Vec::new();
                    put_response(&mut response, PROTOCOL_VERSION, &echo, &cookie, &sealed(tries));
                    return Some(response);
                }
                Some(DatagramKind::Denied) => match read_denied(rest) {
                    Ok((_, _, Denial::Token)) => denied += 1,
                    _ => other += 1,
                },
                Some(DatagramKind::Welcome) => let_in += 1,
                _ => other += 1,
            }
            None
        },
    );
    let ratio = gun.bytes_out_per_byte_in();
    Ok(Found {
        attempts: tries,
        ..gun.found(
            format!(
                "{denied} denied, {let_in} let in, {other} other answers, {ratio:.3} bytes out for a byte in"
            ),
            let_in == 0 && other == 0 && denied > 0 && ratio <= 1.0,
        )
    })
}
