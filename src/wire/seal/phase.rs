//! The keys of one direction: a new one for every 2^[`REKEY_LOG2`] numbers, each made of the one before.
//!
//! The phase of a number is the number divided by that, so nothing is said on the wire and nobody can ask for a renewal.
//! AES-GCM loses strength with each datagram under a key; RFC 9001, section 6.6, allows 2^23 and this stays at half of it.
//! Who learns a key learns what comes after it in the session, and nothing of what was before.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use super::Length32;
use crate::limits::REKEY_LOG2;

/// Which key a number is sealed with, counted from 0.
pub(super) fn phase_of(number: u64) -> u64 {
    number >> REKEY_LOG2
}

/// The key of one phase, and what the next is made of.
pub(super) struct PhaseKey {
    pub(super) phase: u64,
    pub(super) key: LessSafeKey,
    bytes: [u8; 32],
}

impl PhaseKey {
    /// The key of phase 0.
    pub(super) fn first(bytes: [u8; 32]) -> Option<PhaseKey> {
        PhaseKey::of(0, bytes)
    }

    fn of(phase: u64, bytes: [u8; 32]) -> Option<PhaseKey> {
        let key = UnboundKey::new(&AES_256_GCM, &bytes).ok().map(LessSafeKey::new)?;
        Some(PhaseKey { phase, key, bytes })
    }

    /// The key of the phase after this one: HKDF-SHA256 (RFC 5869) of it, without salt, info = `ackline 1 next`.
    pub(super) fn next(&self) -> Option<PhaseKey> {
        let mut bytes = [0u8; 32];
        Salt::new(HKDF_SHA256, &[])
            .extract(&self.bytes)
            .expand(&[b"ackline 1 next"], Length32)
            .ok()?
            .fill(&mut bytes)
            .ok()?;
        PhaseKey::of(self.phase + 1, bytes)
    }
}

/// The keys that a receiver has ready: that of its highest number, the one before for what is late, and the one after once
/// it was asked for.
pub(super) struct PhaseKeys {
    now: PhaseKey,
    before: Option<Box<PhaseKey>>,
    after: Option<Box<PhaseKey>>,
}

impl PhaseKeys {
    pub(super) fn new(first: PhaseKey) -> PhaseKeys {
        PhaseKeys {
            now: first,
            before: None,
            after: None,
        }
    }

    /// The key of a number; `None` where the phase is neither this one nor a neighbour of it.
    pub(super) fn of(&mut self, number: u64) -> Option<&LessSafeKey> {
        let phase = phase_of(number);
        if phase == self.now.phase {
            return Some(&self.now.key);
        }
        if phase == self.now.phase + 1 {
            if self.after.is_none() {
                // Once a phase, whatever comes: what it costs is not a stranger's to choose.
                self.after = self.now.next().map(Box::new);
            }
            return self.after.as_ref().map(|after| &after.key);
        }
        let before = self.before.as_ref().filter(|before| before.phase == phase);
        before.map(|before| &before.key)
    }

    /// A number was opened: its phase is the present one from now on, if it is after it.
    pub(super) fn advance(&mut self, number: u64) {
        if phase_of(number) > self.now.phase
            && let Some(after) = self.after.take()
        {
            let before = core::mem::replace(&mut self.now, *after);
            self.before = Some(Box::new(before));
        }
    }

    #[cfg(test)]
    pub(super) fn bytes_of(&self, number: u64) -> Option<[u8; 32]> {
        let keys = [Some(&self.now), self.before.as_deref(), self.after.as_deref()];
        let of = keys
            .into_iter()
            .flatten()
            .find(|key| key.phase == phase_of(number));
        of.map(|key| key.bytes)
    }

    /// Goes to the phase of a number with the key of now, as the sealer's does.
    #[cfg(test)]
    pub(super) fn skip_to(&mut self, number: u64) {
        self.now.phase = phase_of(number);
        (self.before, self.after) = (None, None);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The bytes of a chain of keys, as docs/PROTOCOL.md has them.
    #[test]
    fn threats_28_each_key_is_made_of_the_one_before() {
        let first = PhaseKey::first([7; 32]).unwrap();
        let second = first.next().unwrap();
        let third = second.next().unwrap();
        let hex = |key: &PhaseKey| -> String { key.bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        assert_eq!((first.phase, second.phase, third.phase), (0, 1, 2));
        let document = include_str!("../../../docs/PROTOCOL.md");
        for key in [&first, &second, &third] {
            assert!(document.contains(&hex(key)), "{}", hex(key));
        }
    }

    #[test]
    fn a_receiver_has_the_keys_next_to_its_own_and_no_other() {
        let mut keys = PhaseKeys::new(PhaseKey::first([7; 32]).unwrap());
        let number = |phase: u64| phase << REKEY_LOG2;
        let ready = |keys: &mut PhaseKeys| -> Vec<u64> {
            (0..6).filter(|phase| keys.of(number(*phase)).is_some()).collect()
        };
        assert_eq!(ready(&mut keys), [0, 1]);
        keys.advance(number(1));
        assert_eq!(ready(&mut keys), [0, 1, 2]);
        keys.advance(number(1) - 1);
        assert_eq!(ready(&mut keys), [0, 1, 2], "a late one takes nothing back");
        keys.advance(number(2) + 5);
        assert_eq!(ready(&mut keys), [1, 2, 3]);
    }
}
