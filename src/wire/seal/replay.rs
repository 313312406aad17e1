//! Which datagram numbers were seen, so that none is taken twice (THREATS 26).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::OpenError;
use crate::limits::REPLAY_WINDOW;

const WORDS: usize = (REPLAY_WINDOW / 64) as usize;

/// The highest number and a ring of bits behind it (RFC 6479's scheme).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    pub(super) newest: u64,
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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
