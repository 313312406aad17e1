//! A flood of first packets, and beside it honest clients by the thousand that come, are let in and leave (THREATS 1, 16).
//!
//! All of them speak through one socket, each from an address of its own, so that what the relay does is measured and not what
//! sockets cost.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::gun::{Gun, address, nonce};
use super::{Field, Found};
use crate::net::clock::monotonic_us;
use crate::token::ConnectToken;
use crate::wire::bytes::{ByteReader, ByteWriter};
use crate::wire::handshake::{
    ClientNonce, DatagramKind, WELCOME_HEADER_BYTES, put_request, put_response, read_challenge,
    read_welcome_header,
};
use crate::wire::payload::{self, CloseReason};
use crate::wire::seal::{Direction, INSECURE_TOKEN_KEY, Secrets};
use crate::wire::version::{Agreed, PROTOCOL_VERSION};

/// First packets from made-up sources for each honest one.
const SPOOFED: u64 = 50;
/// Handshakes begun in a second.
const HANDSHAKES_PER_S: u64 = 1_000;
/// Time after which a first packet is sent again, as clients do it, and how often.
const AGAIN_US: u64 = 100_000;
const TRIES_MAX: u32 = 20;
/// Handshakes that began so shortly before the end are not counted, microseconds.
const GRACE_US: u64 = 1_000_000;
/// The share of the others that has to get in.
const IN_SHARE: f64 = 0.99;

/// A client on its way in.
struct Knock {
    nonce: ClientNonce,
    token: Option<ConnectToken>,
    began_us: u64,
    next_us: u64,
    tries: u32,
}

/// The clients on their way in, by address, and what became of the others.
struct Crowd {
    knocking: BTreeMap<Ipv4Addr, Knock>,
    /// How long each took that got in, microseconds.
    took_us: Vec<u64>,
    counted_until_us: u64,
    given_up: u64,
}

impl Crowd {
    /// Another client knocks.
    fn begin(&mut self, field: &Field, number: u64, now_us: u64, gun: &mut Gun) {
        let from = address(field.seed.wrapping_add(number));
        let knock = Knock {
            nonce: nonce(field.seed ^ number),
            token: field.token(number).ok().flatten(),
            began_us: now_us,
            next_us: now_us + AGAIN_US,
            tries: 1,
        };
        let mut request = Vec::new();
        put_request(&mut request, PROTOCOL_VERSION, &knock.nonce);
        gun.fire(from, &request);
        self.knocking.insert(from, knock);
    }

    /// Whoever was not answered knocks again.
    fn again(&mut self, now_us: u64, gun: &mut Gun) {
        let mut request = Vec::new();
        for (from, knock) in &mut self.knocking {
            if now_us >= knock.next_us && knock.tries < TRIES_MAX {
                put_request(&mut request, PROTOCOL_VERSION, &knock.nonce);
                gun.fire(*from, &request);
                (knock.next_us, knock.tries) = (now_us + AGAIN_US, knock.tries + 1);
            }
        }
        let counted_until_us = self.counted_until_us;
        let before = self.knocking.len();
        let is_over = |knock: &Knock| knock.tries >= TRIES_MAX && now_us >= knock.next_us;
        self.knocking
            .retain(|_, knock| !is_over(knock) || knock.began_us >= counted_until_us);
        self.given_up += (before - self.knocking.len()) as u64;
    }

    /// What a client answers: a Response to a Challenge, and a goodbye to its Welcome.
    fn answer(&mut self, local: Ipv4Addr, datagram: &mut [u8], now_us: u64) -> Option<Vec<u8>> {
        let knock = self.knocking.get(&local)?;
        let sealed = knock.token.as_ref().map_or(&[][..], |token| &token.sealed);
        match DatagramKind::from_byte(*datagram.first()?)? {
            DatagramKind::Challenge => {
                let (_, echo, cookie) = read_challenge(datagram.get(1..)?).ok()?;
                let mut response = Vec::new();
                put_response(&mut response, PROTOCOL_VERSION, &knock.nonce, &cookie, sealed);
                (echo == knock.nonce).then_some(response)
            }
            DatagramKind::Welcome => {
                let goodbye = goodbye(knock, datagram)?;
                if knock.began_us < self.counted_until_us {
                    self.took_us.push(now_us - knock.began_us);
                }
                self.knocking.remove(&local);
                Some(goodbye)
            }
            _ => None,
        }
    }
}

/// The whole datagram of a client that leaves as soon as it has opened its Welcome.
fn goodbye(knock: &Knock, welcome: &mut [u8]) -> Option<Vec<u8>> {
    let (clear, sealed) = welcome.split_at_mut_checked(WELCOME_HEADER_BYTES)?;
    let header = read_welcome_header(&mut ByteReader::new(clear)).ok()?;
    let secrets = Secrets {
        token_key: knock
            .token
            .as_ref()
            .map_or(INSECURE_TOKEN_KEY, |token| token.secret.0),
        client_nonce: knock.nonce,
        relay_nonce: header.relay_nonce,
        connection: header.connection,
        agreed: Agreed::NEWEST,
    };
    let mut opener = secrets.opener(Direction::Down)?;
    opener.open(header.number, clear, sealed).ok()?;
    let mut sealer = secrets.sealer(Direction::Up)?;
    let number = sealer.reserve()?;
    let mut datagram = vec![DatagramKind::Up as u8];
    datagram.put_u64(header.connection);
    datagram.put_u32(u32::try_from(number).ok()?);
    let mut payload = vec![payload::CLOSE, CloseReason::Left as u8];
    let tag = sealer.seal(number, &datagram, &mut payload)?;
    datagram.put(&payload);
    datagram.put(&tag);
    Some(datagram)
}

/// How many were let in, and how soon: `ms` the half of them and 99 in 100.
fn let_in_words(let_in: u64, out: u64, ms: Option<(f64, f64)>) -> String {
    let knocked = let_in + out;
    match ms {
        Some((half, most)) => format!(
            "{let_in} of {knocked} that knocked were let in, within {half:.0} ms the half of them and {most:.0} ms 99 in 100"
        ),
        None => format!("none of {knocked} that knocked were let in"),
    }
}

/// See the module.
pub(super) fn rush(field: &Field) -> anyhow::Result<Found> {
    let mut gun = Gun::new(field.relay)?;
    let crowd = std::cell::RefCell::new(Crowd {
        knocking: BTreeMap::new(),
        took_us: Vec::new(),
        counted_until_us: field.until_us.saturating_sub(GRACE_US),
        given_up: 0,
    });
    let mut request = Vec::new();
    gun.barrage(
        HANDSHAKES_PER_S * (SPOOFED + 1),
        field.until_us,
        |gun, shot| {
            if shot % (SPOOFED + 1) == 0 {
                let (now_us, mut crowd) = (monotonic_us(), crowd.borrow_mut());
                crowd.again(now_us, gun);
                crowd.begin(field, shot, now_us, gun);
            } else {
                put_request(&mut request, PROTOCOL_VERSION, &nonce(field.seed ^ shot));
                gun.fire(address(field.seed.wrapping_add(shot)), &request);
            }
        },
        |local, bytes| crowd.borrow_mut().answer(local, bytes, monotonic_us()),
    );
    let mut crowd = crowd.into_inner();
    let waiting = crowd.knocking.values();
    let waiting = waiting.filter(|knock| knock.began_us < crowd.counted_until_us);
    let out = crowd.given_up + waiting.count() as u64;
    crowd.took_us.sort_unstable();
    let let_in = crowd.took_us.len();
    let nth = |share: f64| crowd.took_us.get((let_in as f64 * share) as usize).copied();
    let ms = |share| nth(share).map(|us| us as f64 / 1e3);
    let ratio = gun.bytes_out_per_byte_in();
    let share = let_in as f64 / (let_in as u64 + out).max(1) as f64;
    Ok(gun.found(
        format!(
            "{}; {ratio:.3} bytes out for a byte in",
            let_in_words(let_in as u64, out, ms(0.5).zip(ms(0.99)))
        ),
        let_in > 0 && share >= IN_SHARE,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nobody got in there is no time to tell.
    #[test]
    fn who_was_not_let_in_took_no_time() {
        assert_eq!(let_in_words(0, 7, None), "none of 7 that knocked were let in");
        assert!(
            let_in_words(3, 1, Some((2.0, 9.0))).contains("3 of 4 that knocked were let in, within 2 ms")
        );
    }
}
