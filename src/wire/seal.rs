//! The seal of every datagram in a session: AES-256-GCM, a chain of keys for each direction, the clear header
//! authenticated, and a replay window over the datagram number.
//!
//! Invariants: a number is used once under a key (the sealer owns its counter and cannot be cloned; THREATS 28);
//! nothing moves until the tag has been checked (FAULTS 24, THREATS 24, 26); a failed open leaves no plaintext.
//! The number counts datagrams, not snapshots (SPEC DEC13); its low 32 bits travel and are widened (SPEC ID8).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use ring::aead::{Aad, NONCE_LEN, Nonce};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::limits::{REKEY_LOG2, TAG_BYTES};
use crate::sequence::widen;

use super::version::Agreed;

mod phase;
mod replay;

use phase::{PhaseKey, PhaseKeys, phase_of};
pub use replay::ReplayWindow;

/// Numbers after which a session is spent; keys are renewed long before (see `phase`).
pub const NUMBERS_MAX: u64 = 1 << 48;
const _: () = assert!(
    1 << REKEY_LOG2 > crate::limits::REPLAY_WINDOW,
    "what is late is of the key before at most"
);
/// The token key of insecure mode: public, so it proves nothing. Seals then guard against faults only.
pub const INSECURE_TOKEN_KEY: [u8; 32] = *b"ackline insecure token key v1...";

/// Which way a datagram goes; each has its own key (THREATS 29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Relay to client.
    Down,
    /// Client to relay.
    Up,
}

/// What the two keys of a session are derived from. Fresh randomness of both ends goes in, so that no replay
/// and no restart repeats a nonce under a key.
#[derive(Clone, Copy)]
pub struct Secrets {
    /// The key of the connect token; a public constant in insecure mode.
    pub token_key: [u8; 32],
    /// The client's randomness.
    pub client_nonce: [u8; 16],
    /// The relay's randomness.
    pub relay_nonce: [u8; 16],
    /// The connection id.
    pub connection: u64,
    /// The version of the session, and the highest its relay offered.
    pub agreed: Agreed,
}

struct Length32;

impl KeyType for Length32 {
    fn len(&self) -> usize {
        32
    }
}

impl Secrets {
    /// The first key of one direction: HKDF-SHA256 (RFC 5869) with salt = client nonce, relay nonce; input = token
    /// key; info = `ackline 1 up` or `ackline 1 down`, connection id little-endian, and from protocol version 3 on the
    /// version and the highest offered, 16 bits each.
    fn key(&self, direction: Direction) -> Option<PhaseKey> {
        let mut salt = [0u8; 32];
        let nonces = self.client_nonce.iter().chain(&self.relay_nonce);
        salt.iter_mut().zip(nonces).for_each(|(to, from)| *to = *from);
        let label: &[u8] = match direction {
            Direction::Up => b"ackline 1 up",
            Direction::Down => b"ackline 1 down",
        };
        let connection = self.connection.to_le_bytes();
        let (version, offered) = (
            self.agreed.version.to_le_bytes(),
            self.agreed.offered.to_le_bytes(),
        );
        let (version, offered): (&[u8], &[u8]) = match self.agreed.is_bound() {
            true => (&version, &offered),
            false => (&[], &[]),
        };
        let mut bytes = [0u8; 32];
        let extracted = Salt::new(HKDF_SHA256, &salt).extract(&self.token_key);
        extracted
            .expand(&[label, &connection, version, offered], Length32)
            .ok()?
            .fill(&mut bytes)
            .ok()?;
        PhaseKey::first(bytes)
    }

    /// The sealer of one direction. Made once a session: a second one would repeat numbers.
    #[must_use]
    pub fn sealer(&self, direction: Direction) -> Option<Sealer> {
        Some(Sealer {
            key: self.key(direction)?,
            next: 0,
        })
    }

    /// The opener of one direction.
    #[must_use]
    pub fn opener(&self, direction: Direction) -> Option<Opener> {
        Some(Opener {
            keys: PhaseKeys::new(self.key(direction)?),
            window: ReplayWindow::default(),
        })
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0u8; NONCE_LEN];
    bytes
        .iter_mut()
        .skip(4)
        .zip(number.to_le_bytes())
        .for_each(|(to, from)| *to = from);
    Nonce::assume_unique_for_key(bytes)
}

/// Seals datagrams of one direction.
pub struct Sealer {
    key: PhaseKey,
    next: u64,
}

impl Sealer {
    /// The number the next datagram will carry.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// A number for the clear header, then its seal over a payload: see [`Sealer::seal`]. The key is renewed when its
    /// numbers are used up. Numbers run out at [`NUMBERS_MAX`]: then `None`, and the session must end.
    #[must_use]
    pub fn reserve(&mut self) -> Option<u64> {
        if self.next >= NUMBERS_MAX {
            return None;
        }
        if phase_of(self.next) > self.key.phase {
            self.key = self.key.next()?;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Seals `payload` in place under the number reserved last and gives the tag, which goes behind it. `None` for a number
    /// of another key.
    #[must_use]
    pub fn seal(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        if phase_of(number) != self.key.phase {
            return None;
        }
        let tag = self
            .key
            .key
            .seal_in_place_separate_tag(nonce(number), Aad::from(header), payload)
            .ok()?;
        tag.as_ref().try_into().ok()
    }
}

#[cfg(test)]
impl Sealer {
    /// Passes over numbers, so that a test need not seal them.
    pub(crate) fn skip_to(&mut self, number: u64) {
        assert!(number >= self.next, "numbers only rise");
        self.next = number;
        // The key of now stays, as at the opener: to renew it for each phase passed over would take long.
        self.key.phase = phase_of(number);
    }
}

#[cfg(test)]
impl Opener {
    /// The bytes of the key of a number that was just opened, so that a test can tell keys apart.
    pub(crate) fn key_of(&self, number: u64) -> Option<[u8; 32]> {
        self.keys.bytes_of(number)
    }

    /// Counts a number as opened, so that a test need not open all before it.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.window.record(number);
        self.keys.skip_to(number);
    }
}

/// Why a sealed datagram was refused. Nothing has changed when one is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Its number was seen before.
    #[error("datagram number seen before")]
    Duplicate,
    /// Its number is too old to know.
    #[error("datagram number too old")]
    TooOld,
    /// The tag does not match: altered, or not from the peer.
    #[error("tag does not match")]
    Forged,
}

/// Opens datagrams of one direction.
pub struct Opener {
    keys: PhaseKeys,
    window: ReplayWindow,
}

impl Opener {
    /// Opens `sealed` (payload and tag) in place and gives the payload and the widened number. The replay
    /// window moves only when the tag matches.
    ///
    /// # Errors
    /// [`OpenError`]; `sealed` must then not be used.
    pub fn open<'a>(
        &mut self,
        low: u32,
        header: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<(u64, &'a mut [u8]), OpenError> {
        let number = widen(low, self.window.newest);
        self.window.check(number)?;
        let payload = self
            .keys
            .of(number)
            .ok_or(OpenError::Forged)?
            .open_in_place(nonce(number), Aad::from(header), sealed)
            .map_err(|_| OpenError::Forged)?;
        self.window.record(number);
        self.keys.advance(number);
        Ok((number, payload))
    }

    /// The highest number opened.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.window.newest
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
