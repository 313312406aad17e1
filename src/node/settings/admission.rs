//! Who is let in, and what strangers and clients may make a relay do: bounds, defaults, checks, the keys of tokens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;

use super::{OutOfBounds, RelaySettings, SettingsError, within};
use crate::limits;
use crate::node::minter::Minter;
use crate::node::number::wish;
use crate::node::small_file::Pipes;
use crate::relay::admission::Limits;
use crate::token::{AUDIENCE_BYTES_MAX, TokenKeys};

/// Addresses in `public_addresses`.
const PUBLIC_ADDRESSES_MAX: usize = 16;

pub(super) const CHALLENGES_PER_S: RangeInclusive<u64> = 0..=10_000_000;
pub(super) const CHALLENGES_PER_HOST_PER_S: RangeInclusive<u64> = 0..=10_000_000;
pub(super) const HANDSHAKES_PER_HOST_PER_S: RangeInclusive<u64> = 0..=10_000_000;
pub(super) const HANDSHAKES_PER_PREFIX_PER_S: RangeInclusive<u64> = 0..=10_000_000;
pub(super) const SESSIONS_PER_HOST: RangeInclusive<usize> = 0..=limits::SESSIONS_MAX;
pub(super) const SESSIONS_UNHEARD_MAX: RangeInclusive<usize> = 0..=limits::SESSIONS_MAX;
pub(super) const UP_DATAGRAMS_PER_S: RangeInclusive<u64> = 0..=1_000_000;
pub(super) const UP_BYTES_PER_S: RangeInclusive<u64> = 0..=1_000_000_000;
pub(super) const MALFORMED_MAX: RangeInclusive<u64> = 0..=1_000_000;

/// Limits that no player meets, nor a few dozen behind one address, and that keep what one host can cost small.
pub(super) const DEFAULT: Limits = Limits {
    challenges_per_s: 20_000,
    challenges_per_host_per_s: 10,
    handshakes_per_host_per_s: 20,
    handshakes_per_prefix_per_s: 200,
    sessions_per_host: 1_024,
    sessions_unheard: 5_000,
    up_datagrams_per_s: 400,
    up_bytes_per_s: 256 << 10,
    malformed: 32,
    loopback: false,
};

/// The numbers of keys for people; the first is the one to mint with.
#[must_use]
pub fn in_words(keys: &TokenKeys) -> String {
    let numbers: Vec<String> = keys.numbers().iter().map(ToString::to_string).collect();
    let noun = if numbers.len() == 1 { "key" } else { "keys" };
    format!("{noun} {}", numbers.join(", "))
}

/// Checks every bound.
pub(super) fn check(given: &Limits) -> Result<(), OutOfBounds> {
    within("challenges_per_s", given.challenges_per_s, CHALLENGES_PER_S)?;
    within(
        "challenges_per_host_per_s",
        given.challenges_per_host_per_s,
        CHALLENGES_PER_HOST_PER_S,
    )?;
    within(
        "handshakes_per_host_per_s",
        given.handshakes_per_host_per_s,
        HANDSHAKES_PER_HOST_PER_S,
    )?;
    within(
        "handshakes_per_prefix_per_s",
        given.handshakes_per_prefix_per_s,
        HANDSHAKES_PER_PREFIX_PER_S,
    )?;
    within("sessions_per_host", given.sessions_per_host, SESSIONS_PER_HOST)?;
    within(
        "sessions_unheard_max",
        given.sessions_unheard,
        SESSIONS_UNHEARD_MAX,
    )?;
    within("up_datagrams_per_s", given.up_datagrams_per_s, UP_DATAGRAMS_PER_S)?;
    within("up_bytes_per_s", given.up_bytes_per_s, UP_BYTES_PER_S)?;
    within("malformed_max", given.malformed, MALFORMED_MAX)?;
    Ok(())
}

/// What to give for a key.
pub(super) fn wish_of(key: &str) -> Option<String> {
    let number = |bounds: &RangeInclusive<u64>| Some(wish("a whole number", bounds));
    let count = |bounds: &RangeInclusive<usize>| Some(wish("a whole number", bounds));
    match key {
        "challenges_per_s" => number(&CHALLENGES_PER_S),
        "challenges_per_host_per_s" => number(&CHALLENGES_PER_HOST_PER_S),
        "handshakes_per_host_per_s" => number(&HANDSHAKES_PER_HOST_PER_S),
        "handshakes_per_prefix_per_s" => number(&HANDSHAKES_PER_PREFIX_PER_S),
        "sessions_per_host" => count(&SESSIONS_PER_HOST),
        "sessions_unheard_max" => count(&SESSIONS_UNHEARD_MAX),
        "up_datagrams_per_s" => number(&UP_DATAGRAMS_PER_S),
        "up_bytes_per_s" => number(&UP_BYTES_PER_S),
        "malformed_max" => number(&MALFORMED_MAX),
        "limit_loopback" => Some("give true or false".to_owned()),
        _ => None,
    }
}

impl RelaySettings {
    /// True when nobody needs a token: where that was said, and, where nothing was, on loopback without keys.
    #[must_use]
    pub fn is_insecure(&self) -> bool {
        let by_itself = self.token_keys.is_none() && self.listen.ip().is_loopback();
        self.insecure.unwrap_or(by_itself)
    }

    /// Checks that whoever reaches the relay needs a token, or that it was said that nobody does.
    ///
    /// # Errors
    /// The way out.
    pub fn check_admission(&self) -> Result<(), SettingsError> {
        let keys = "token_keys_file (`ackline token key` makes one)";
        let refused = |key, fault: String| Err(OutOfBounds { key, fault }.at(&self.places));
        match (self.insecure, &self.token_keys) {
            (Some(true), Some(_)) => refused(
                "insecure",
                format!(
                    "insecure is set beside token_keys_file, which {} gives: leave out one of them",
                    self.places.of("token_keys_file")
                ),
            ),
            (Some(false), None) => refused(
                "insecure",
                format!(
                    "insecure is false and there are no token keys, so nobody could come in: give {keys}, or leave insecure out"
                ),
            ),
            (None, None) if !self.listen.ip().is_loopback() => refused(
                "listen",
                format!(
                    "others can reach {} and there are no token keys: give {keys}, or set insecure on a network you trust",
                    self.listen
                ),
            ),
            _ => Ok(()),
        }
    }

    /// Who comes in, for people.
    #[must_use]
    pub fn admission_in_words(&self) -> String {
        match &self.token_keys {
            Some(keys) if !self.is_insecure() => format!("tokens of {}", in_words(keys)),
            _ => "insecure: whoever asks comes in".to_owned(),
        }
    }

    /// Reads the file of the token keys, where one is named.
    pub(super) fn read_keys(&mut self, pipes: Pipes) -> Result<(), OutOfBounds> {
        self.token_keys = None;
        if !self.token_keys_file.is_empty() {
            let keys = Minter::keys_of(Path::new(&self.token_keys_file), pipes);
            self.token_keys = Some(keys.map_err(|error| OutOfBounds {
                key: "token_keys_file",
                fault: format!("token_keys_file: {error}"),
            })?);
        }
        Ok(())
    }

    /// Checks by what tokens know the relay.
    pub(super) fn check_identity(&self) -> Result<(), OutOfBounds> {
        within("bytes of audience", self.audience.len(), 0..=AUDIENCE_BYTES_MAX)?;
        within(
            "addresses in public_addresses",
            self.public_addresses.len(),
            0..=PUBLIC_ADDRESSES_MAX,
        )?;
        for address in &self.public_addresses {
            if !is_reachable(*address) {
                return Err(OutOfBounds {
                    key: "public_addresses",
                    fault: format!(
                        "public_addresses: nobody can send to {address}: give an address of one host, and its port"
                    ),
                });
            }
        }
        for (key, address) in [("listen", self.listen), ("admin", self.admin)] {
            if is_of_many(address.ip()) {
                return Err(OutOfBounds {
                    key,
                    fault: format!(
                        "{key} is {address}, which is no address of this host: give one, or 0.0.0.0 for all"
                    ),
                });
            }
        }
        Ok(())
    }
}

/// One host's address and a port.
fn is_reachable(address: SocketAddr) -> bool {
    !address.ip().is_unspecified() && !is_of_many(address.ip()) && address.port() > 0
}

/// Multicast or broadcast.
fn is_of_many(ip: IpAddr) -> bool {
    ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
}
