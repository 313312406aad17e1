//! How often snapshots come, and when one is missed so much that the next datagram is padded (THREATS 89).
//!
//! Where a NAT has given a client another address, its snapshots go to the old one, and the relay hears of the new one with the
//! client's next datagram. Until the client has proven it, no more goes there than three times what came from there: a padded
//! datagram makes room for whole snapshots, so that the picture goes on after one round trip instead of two.
//!
//! Invariants: a silence is padded once, and each [`AGAIN_US`] while nothing at all is heard, for [`WITHIN_US`]; silences that no
//! challenge of the relay followed were something else, loss as a rule, and each makes the next wait twice as long.
//!
//! Times are microseconds of the caller's clock.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// Snapshots before the rhythm is known.
const SAMPLES_LEAST: u32 = 8;
/// A longer time between two snapshots is no rhythm to miss.
const GAP_MAX_US: u64 = 250_000;
/// Between two padded datagrams of one silence, and how long one is spoken into.
const AGAIN_US: u64 = 100_000;
const WITHIN_US: u64 = 1_000_000;
/// Between the padded datagrams of two silences, at first and at most.
const SPACING_LEAST_US: u64 = 1_000_000;
const SPACING_MOST_US: u64 = 64_000_000;
/// The least that a snapshot is late before it is missed.
const LATE_LEAST_US: u64 = 1_000;

/// When snapshots came, and when a datagram was padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rhythm {
    newest_us: u64,
    samples: u32,
    /// The smoothed time between two, and its mean deviation (RFC 6298, section 2).
    gap_us: u64,
    deviation_us: u64,
    padded_us: Option<u64>,
    spacing_us: u64,
}

impl Rhythm {
    pub(super) fn new(now_us: u64) -> Rhythm {
        Rhythm {
            newest_us: now_us,
            samples: 0,
            gap_us: 0,
            deviation_us: 0,
            padded_us: None,
            spacing_us: SPACING_LEAST_US,
        }
    }

    /// A newer snapshot came.
    pub(super) fn note_snapshot(&mut self, now_us: u64) {
        let gap_us = now_us.saturating_sub(self.newest_us).min(4 * GAP_MAX_US);
        self.newest_us = now_us;
        match self.samples {
            0 => {}
            1 => (self.gap_us, self.deviation_us) = (gap_us, gap_us / 2),
            _ => {
                let deviation_us = self.gap_us.abs_diff(gap_us);
                self.deviation_us = (3 * self.deviation_us + deviation_us) / 4;
                self.gap_us = (7 * self.gap_us + gap_us) / 8;
            }
        }
        self.samples = self.samples.saturating_add(1);
    }

    /// The relay asked for proof of an address: that is what padding is for.
    pub(super) fn note_challenge(&mut self) {
        self.spacing_us = SPACING_LEAST_US;
    }

    /// A padded datagram goes.
    pub(super) fn note_padded(&mut self, now_us: u64) {
        if self.padded_us.is_none_or(|padded_us| padded_us < self.newest_us) {
            self.spacing_us = (2 * self.spacing_us).min(SPACING_MOST_US);
        }
        self.padded_us = Some(now_us);
    }

    /// From when on the next datagram is padded; `None` where nothing is missed. Anything at all was heard at `heard_us`.
    pub(super) fn pads_at(&self, heard_us: u64) -> Option<u64> {
        if self.samples < SAMPLES_LEAST || self.gap_us > GAP_MAX_US {
            return None;
        }
        let late_us = (4 * self.deviation_us).max(self.gap_us / 16).max(LATE_LEAST_US);
        let missed_us = self.newest_us.saturating_add(self.gap_us + late_us);
        match self.padded_us {
            None => Some(missed_us),
            Some(padded_us) if padded_us < self.newest_us => {
                Some(missed_us.max(padded_us.saturating_add(self.spacing_us)))
            }
            Some(padded_us) => {
                let again_us = padded_us.saturating_add(AGAIN_US);
                let within = again_us <= self.newest_us.saturating_add(WITHIN_US);
                (heard_us <= padded_us && within).then_some(again_us)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn steady(rhythm: &mut Rhythm, from_us: u64, gaps: u64) -> u64 {
        for gap in 0..gaps {
            rhythm.note_snapshot(from_us + gap * 50_000);
        }
        from_us + (gaps - 1) * 50_000
    }

    /// THREATS 89: a snapshot that is late is missed before the next one is due; each silence is spoken into for a second.
    #[test]
    fn threats_89_a_silence_is_padded_at_once_and_for_a_second() {
        let mut rhythm = Rhythm::new(0);
        steady(&mut rhythm, 0, 7);
        assert_eq!(rhythm.pads_at(0), None, "no rhythm yet");
        let newest = steady(&mut rhythm, 350_000, 60);
        let at = rhythm.pads_at(newest).unwrap();
        assert!(
            (newest + 51_000..newest + 56_000).contains(&at),
            "{}",
            at - newest
        );
        let mut padded = vec![at];
        rhythm.note_padded(at);
        while let Some(next) = rhythm.pads_at(newest) {
            rhythm.note_padded(next);
            padded.push(next);
        }
        assert_eq!(padded.len(), 10);
        assert!(padded.windows(2).all(|pair| pair[1] - pair[0] == AGAIN_US));
    }

    /// What is heard although a snapshot is missing ends the silence; silences without a challenge are padded ever more seldom.
    #[test]
    fn silences_that_are_loss_are_padded_ever_more_seldom() {
        let mut rhythm = Rhythm::new(0);
        let (mut now, mut padded) = (steady(&mut rhythm, 0, 40), Vec::new());
        // Every tenth snapshot is lost for ten minutes.
        for tick in 0..12_000u64 {
            let at = now + 50_000;
            if tick % 10 != 9 {
                rhythm.note_snapshot(at);
            } else if let Some(due) = rhythm.pads_at(now).filter(|due| *due < at + 50_000) {
                rhythm.note_padded(due);
                padded.push(due);
                assert_eq!(rhythm.pads_at(due + 1), None, "something was heard");
            }
            now = at;
        }
        assert!((8..=16).contains(&padded.len()), "{}", padded.len());
        let last = padded.last().copied().unwrap();
        assert!(rhythm.pads_at(now).unwrap() >= last + SPACING_MOST_US - 50_000 * 20);
        rhythm.note_challenge();
        assert!(rhythm.pads_at(now).unwrap() < now + 200_000 || last + SPACING_LEAST_US > now);
    }

    /// A stream that comes seldom, or not at all, has no rhythm to miss; jitter is allowed for.
    #[test]
    fn seldom_streams_and_jitter_are_not_silence() {
        let mut rhythm = Rhythm::new(0);
        for tick in 0..40 {
            rhythm.note_snapshot(tick * 500_000);
        }
        assert_eq!(rhythm.pads_at(0), None);
        let mut rhythm = Rhythm::new(0);
        let mut late = 0u64;
        for tick in 1..2_000u64 {
            let at = tick * 50_000 + (tick * 7_919 % 41) * 1_000;
            late += u64::from(rhythm.pads_at(at).is_some_and(|due| due < at));
            rhythm.note_snapshot(at);
        }
        assert!(late < 40, "{late} of 2,000");
    }
}
