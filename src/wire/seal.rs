//! The seal of every datagram in a session: AES-256-GCM, one key for each direction, the clear header
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

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::limits::{REPLAY_WINDOW, TAG_BYTES};
use crate::sequence::widen;

/// Numbers after which a key is spent: far below the limit of AES-GCM and of the counter.
pub const NUMBERS_MAX: u64 = 1 << 48;
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
}

struct Length32;

impl KeyType for Length32 {
    fn len(&self) -> usize {
        32
    }
}

impl Secrets {
    /// The key of one direction: HKDF-SHA256 (RFC 5869) with salt = client nonce, relay nonce; input = token
    /// key; info = `ackline 1 up` or `ackline 1 down`, connection id little-endian.
    fn key(&self, direction: Direction) -> Option<LessSafeKey> {
        let mut salt = [0u8; 32];
        let nonces = self.client_nonce.iter().chain(&self.relay_nonce);
        salt.iter_mut().zip(nonces).for_each(|(to, from)| *to = *from);
        let label: &[u8] = match direction {
            Direction::Up => b"ackline 1 up",
            Direction::Down => b"ackline 1 down",
        };
        let connection = self.connection.to_le_bytes();
        let mut bytes = [0u8; 32];
        let extracted = Salt::new(HKDF_SHA256, &salt).extract(&self.token_key);
        extracted
            .expand(&[label, &connection], Length32)
            .ok()?
            .fill(&mut bytes)
            .ok()?;
        UnboundKey::new(&AES_256_GCM, &bytes).ok().map(LessSafeKey::new)
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
            key: self.key(direction)?,
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
    key: LessSafeKey,
    next: u64,
}

impl Sealer {
    /// The number the next datagram will carry.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// A number of this key for the clear header, then its seal over a payload: see [`Sealer::seal`].
    /// Numbers run out at [`NUMBERS_MAX`]: then `None`, and the session must end.
    #[must_use]
    pub fn reserve(&mut self) -> Option<u64> {
        if self.next >= NUMBERS_MAX {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Seals `payload` in place under a reserved number and gives the tag, which goes behind it.
    #[must_use]
    pub fn seal(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
        let tag = self
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
    }
}

#[cfg(test)]
impl Opener {
    /// Counts a number as opened, so that a test need not open all before it.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.window.record(number);
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
    key: LessSafeKey,
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
            .key
            .open_in_place(nonce(number), Aad::from(header), sealed)
            .map_err(|_| OpenError::Forged)?;
        self.window.record(number);
        Ok((number, payload))
    }

    /// The highest number opened.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.window.newest
    }
}

const WORDS: usize = (REPLAY_WINDOW / 64) as usize;

/// Which datagram numbers were seen: the highest and a ring of bits behind it (RFC 6479's scheme).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    newest: u64,
    any: bool,
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// Whether a number may be taken.
    ///
    /// # Errors
    /// [`OpenError::Duplicate`], [`OpenError::TooOld`].
    pub fn check(&self, number: u64) -> Result<(), OpenError> {
        if !self.any || number > self.newest {
            return Ok(());
        }
        // The ring's word of the newest number is only partly older numbers; stay one word short of a lap.
        if self.newest - number >= REPLAY_WINDOW - 64 {
            return Err(OpenError::TooOld);
        }
        let word = self.seen.get(Self::word(number)).copied().unwrap_or(u64::MAX);
        if word >> (number % 64) & 1 == 1 {
            Err(OpenError::Duplicate)
        } else {
            Ok(())
        }
    }

    fn word(number: u64) -> usize {
        usize::try_from(number / 64 % WORDS as u64).unwrap_or(0)
    }

    /// Marks a number as seen. A jump of any size costs at most the ring (THREATS 26).
    pub fn record(&mut self, number: u64) {
        if !self.any || number > self.newest {
            let from = if self.any { self.newest / 64 + 1 } else { 0 };
            let to = number / 64;
            let clear = to.saturating_sub(from).saturating_add(1).min(WORDS as u64);
            if to >= from {
                for word in (to + 1 - clear)..=to {
                    if let Some(bits) = self.seen.get_mut(Self::word(word * 64)) {
                        *bits = 0;
                    }
                }
            }
            (self.newest, self.any) = (number, true);
        }
        if let Some(bits) = self.seen.get_mut(Self::word(number)) {
            *bits |= 1 << (number % 64);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn secrets() -> Secrets {
        Secrets {
            token_key: [7; 32],
            client_nonce: [1; 16],
            relay_nonce: [2; 16],
            connection: 99,
        }
    }

    fn sealed(sealer: &mut Sealer, header: &[u8], payload: &[u8]) -> (u32, Vec<u8>) {
        let number = sealer.reserve().unwrap();
        let mut bytes = payload.to_vec();
        let tag = sealer.seal(number, header, &mut bytes).unwrap();
        bytes.extend(tag);
        (u32::try_from(number & 0xFFFF_FFFF).unwrap(), bytes)
    }

    /// THREATS 24, 25: a flip of any bit, a cut or an added byte is refused and moves nothing.
    #[test]
    fn threats_24_every_bit_flip_is_refused() {
        let mut sealer = secrets().sealer(Direction::Up).unwrap();
        let mut opener = secrets().opener(Direction::Up).unwrap();
        let (low, bytes) = sealed(&mut sealer, b"head", b"payload");
        let before = opener.window.clone();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opener.open(low, b"head", &mut flipped), Err(OpenError::Forged));
        }
        for (low, header, bytes) in [
            (low, &b"Head"[..], bytes.clone()),
            (low + 1, b"head", bytes.clone()),
            (low, b"head", bytes[1..].to_vec()),
            (low, b"head", [&bytes[..], &[0]].concat()),
            (low, b"head", vec![]),
        ] {
            let mut bytes = bytes;
            assert_eq!(opener.open(low, header, &mut bytes), Err(OpenError::Forged));
        }
        assert_eq!(opener.window, before);
        let mut whole = bytes.clone();
        assert_eq!(opener.open(low, b"head", &mut whole).unwrap().1, b"payload");
        let mut again = bytes;
        assert_eq!(opener.open(low, b"head", &mut again), Err(OpenError::Duplicate));
    }

    /// THREATS 29: another direction, session or nonce does not open.
    #[test]
    fn threats_29_keys_differ_by_direction_and_session() {
        let (low, bytes) = sealed(&mut secrets().sealer(Direction::Up).unwrap(), b"h", b"payload");
        let others = [
            Secrets {
                connection: 98,
                ..secrets()
            },
            Secrets {
                relay_nonce: [3; 16],
                ..secrets()
            },
            Secrets {
                client_nonce: [3; 16],
                ..secrets()
            },
            Secrets {
                token_key: [8; 32],
                ..secrets()
            },
        ];
        for other in others {
            let mut opener = other.opener(Direction::Up).unwrap();
            assert_eq!(opener.open(low, b"h", &mut bytes.clone()), Err(OpenError::Forged));
        }
        let mut down = secrets().opener(Direction::Down).unwrap();
        assert_eq!(down.open(low, b"h", &mut bytes.clone()), Err(OpenError::Forged));
    }

    /// THREATS 27: numbers run out before they repeat.
    #[test]
    fn threats_27_numbers_run_out() {
        let mut sealer = secrets().sealer(Direction::Up).unwrap();
        sealer.next = NUMBERS_MAX - 1;
        assert_eq!(
            (sealer.reserve(), sealer.reserve()),
            (Some(NUMBERS_MAX - 1), None)
        );
    }

    /// THREATS 28: a number is used once under a key, by type: a sealer owns its counter, and there is no second one of
    /// it. This does not compile where a sealer can be cloned.
    #[test]
    fn threats_28_a_sealer_cannot_be_cloned() {
        trait Unclear<Why> {
            fn is_one_of_a_kind() -> bool {
                true
            }
        }
        struct Cloned;
        impl<T> Unclear<()> for T {}
        impl<T: Clone> Unclear<Cloned> for T {}
        assert!(<Sealer as Unclear<_>>::is_one_of_a_kind());
    }

    /// THREATS 30: what does not open leaves no plaintext behind, wherever it was altered.
    #[test]
    fn threats_30_a_failed_open_leaves_no_plaintext() {
        let mut sealer = secrets().sealer(Direction::Up).unwrap();
        let mut opener = secrets().opener(Direction::Up).unwrap();
        let secret: Vec<u8> = (0..=255).collect();
        let (low, bytes) = sealed(&mut sealer, b"head", &secret);
        for at in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(opener.open(low, b"head", &mut bad), Err(OpenError::Forged));
            let seen = bad
                .windows(8)
                .any(|window| secret.windows(8).any(|of| of == window));
            assert!(!seen, "byte {at}");
        }
    }

    /// THREATS 26, SPEC ID8: datagram numbers across 2^32, to the last one there is, with loss, repeats and what is late;
    /// what travels is always the low 32 bits.
    #[test]
    fn threats_26_datagram_numbers_cross_every_power() {
        for start in [
            0u64,
            1 << 16,
            (1 << 31) - 20,
            1 << 32,
            3 << 32,
            1 << 47,
            NUMBERS_MAX,
        ] {
            let mut sealer = secrets().sealer(Direction::Down).unwrap();
            let mut opener = secrets().opener(Direction::Down).unwrap();
            // The receiver is brought there in steps it can tell apart.
            let first = start.saturating_sub(40);
            let mut at = 0;
            while at < first {
                at = (at + (1 << 31) - 1).min(first);
                opener.window.record(at);
            }
            sealer.skip_to(first + u64::from(first > 0));
            let mut late = Vec::new();
            let mut opened = 0u64;
            while let Some(number) = sealer
                .reserve()
                .filter(|number| *number < start.saturating_add(40))
            {
                let mut bytes = b"payload".to_vec();
                let tag = sealer.seal(number, b"h", &mut bytes).unwrap();
                bytes.extend(tag);
                let low = u32::try_from(number & 0xFFFF_FFFF).unwrap();
                match number % 3 {
                    0 => late.push((number, low, bytes)),
                    1 => {
                        let mut whole = bytes.clone();
                        assert_eq!(opener.open(low, b"h", &mut whole).unwrap().0, number);
                        assert_eq!(
                            opener.open(low, b"h", &mut bytes.clone()),
                            Err(OpenError::Duplicate)
                        );
                        opened += 1;
                    }
                    _ => {}
                }
            }
            for (number, low, bytes) in late.iter().rev() {
                assert_eq!(opener.open(*low, b"h", &mut bytes.clone()).unwrap().0, *number);
                opened += 1;
            }
            assert!(opened >= 20, "from {start}: {opened}");
            for (_, low, bytes) in &late {
                assert_eq!(
                    opener.open(*low, b"h", &mut bytes.clone()),
                    Err(OpenError::Duplicate)
                );
            }
        }
    }

    /// THREATS 26: the edges of the window, and jumps to the end of the range.
    #[test]
    fn threats_26_the_edges_of_the_window() {
        let width = REPLAY_WINDOW - 64;
        for newest in [
            width,
            REPLAY_WINDOW,
            1 << 32,
            (1 << 32) + 1,
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut window = ReplayWindow::default();
            window.record(0);
            window.record(newest);
            assert_eq!(window.check(newest), Err(OpenError::Duplicate));
            assert_eq!(window.check(newest - 1), Ok(()));
            assert_eq!(window.check(newest - (width - 1)), Ok(()));
            assert_eq!(window.check(newest - width), Err(OpenError::TooOld));
            assert_eq!(window.check(0), Err(OpenError::TooOld));
            if newest < u64::MAX {
                assert_eq!(window.check(newest + 1), Ok(()));
            }
        }
    }

    proptest! {
        /// THREATS 26: the window agrees with a plain set, jumps of any size included.
        #[test]
        fn threats_26_the_replay_window_agrees_with_a_set(
            jumps in prop::collection::vec((prop_oneof![0u64..5, 0u64..3000, any::<u64>()], any::<bool>()), 1..200)
        ) {
            let mut window = ReplayWindow::default();
            let mut seen = BTreeSet::new();
            let mut at = 0u64;
            for (jump, forward) in jumps {
                at = if forward { at.saturating_add(jump) } else { at.saturating_sub(jump) };
                let newest = seen.last().copied();
                let expected = match newest {
                    Some(newest) if newest >= at && newest - at >= REPLAY_WINDOW - 64 => Err(OpenError::TooOld),
                    _ if seen.contains(&at) => Err(OpenError::Duplicate),
                    _ => Ok(()),
                };
                prop_assert_eq!(window.check(at), expected);
                if expected.is_ok() {
                    window.record(at);
                    seen.insert(at);
                }
            }
        }
    }
}
