//! Why a shot is not looked at in the past: one word in code and counters.

use core::fmt;

/// Why a quote, or an entity at the time it quotes, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LagRefusal {
    /// It is of another stream of this origin (SPEC PLY7).
    OtherStream,
    /// The playback had found a new anchor since (SPEC PLY5).
    OldGeneration,
    /// An accepted quote of this player named a later time: playback never runs backwards (SPEC PLY3).
    RanBackwards,
    /// Later than the newest tick and the most a playback runs ahead of it: nobody has seen it (SPEC PLY3).
    Future,
    /// Older than the game allows a picture to be, or than the history.
    TooOld,
    /// The client says that its view was not ready (SPEC ENT7).
    ViewNotReady,
    /// The client says that the target's pose was not of that time (SPEC ENT2).
    NotValid,
    /// There is no such entity, or its end is past the history.
    UnknownEntity,
    /// It was not born then.
    NotBorn,
    /// It had ended by then.
    Gone,
    /// Another segment of it was the one to show then (SPEC ENT4).
    OtherSegment,
    /// Its segment had no observation by then: there was no pose (SPEC ENT2, Missing).
    NoObservation,
    /// Shown between two observations, of which the later is not published.
    NotObservedYet,
    /// Further past its last observation than any client extrapolates: whoever showed it, showed it stale (SPEC ENT1).
    ExtrapolatedTooFar,
    /// Its class is none that shots are decided against (SPEC ENT7).
    NotCritical,
}

impl LagRefusal {
    /// Every refusal.
    pub const ALL: [LagRefusal; 15] = [
        LagRefusal::OtherStream,
        LagRefusal::OldGeneration,
        LagRefusal::RanBackwards,
        LagRefusal::Future,
        LagRefusal::TooOld,
        LagRefusal::ViewNotReady,
        LagRefusal::NotValid,
        LagRefusal::UnknownEntity,
        LagRefusal::NotBorn,
        LagRefusal::Gone,
        LagRefusal::OtherSegment,
        LagRefusal::NoObservation,
        LagRefusal::NotObservedYet,
        LagRefusal::ExtrapolatedTooFar,
        LagRefusal::NotCritical,
    ];

    /// The word used in counters.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            LagRefusal::OtherStream => "other_stream",
            LagRefusal::OldGeneration => "old_generation",
            LagRefusal::RanBackwards => "ran_backwards",
            LagRefusal::Future => "future",
            LagRefusal::TooOld => "too_old",
            LagRefusal::ViewNotReady => "view_not_ready",
            LagRefusal::NotValid => "not_valid",
            LagRefusal::UnknownEntity => "unknown_entity",
            LagRefusal::NotBorn => "not_born",
            LagRefusal::Gone => "gone",
            LagRefusal::OtherSegment => "other_segment",
            LagRefusal::NoObservation => "no_observation",
            LagRefusal::NotObservedYet => "not_observed_yet",
            LagRefusal::ExtrapolatedTooFar => "extrapolated_too_far",
            LagRefusal::NotCritical => "not_critical",
        }
    }
}

impl fmt::Display for LagRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl core::error::Error for LagRefusal {}

/// What was counted. Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagCounts {
    /// Quotes accepted.
    pub accepted: u64,
    refused: [u64; LagRefusal::ALL.len()],
}

impl LagCounts {
    /// Quotes refused for a reason.
    #[must_use]
    pub fn refused(&self, why: LagRefusal) -> u64 {
        self.refused.get(why as usize).copied().unwrap_or(0)
    }

    pub(super) fn count<T>(&mut self, outcome: &Result<T, LagRefusal>) {
        match outcome {
            Ok(_) => self.accepted += 1,
            Err(why) => {
                if let Some(count) = self.refused.get_mut(*why as usize) {
                    *count += 1;
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_word_and_a_count_of_its_own() {
        let mut counts = LagCounts::default();
        for (index, refusal) in LagRefusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, index);
            for other in &LagRefusal::ALL[..index] {
                assert_ne!(refusal.label(), other.label());
            }
            counts.count::<()>(&Err(refusal));
            assert_eq!(counts.refused(refusal), 1);
        }
    }
}
