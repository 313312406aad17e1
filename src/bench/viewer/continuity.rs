//! Steps of what is drawn from one picture to the next: time that goes back, errors that jump.
//!
//! A picture that stands is one picture, however many frames it is drawn in: what follows a freeze is compared with what stood.

use std::collections::HashMap;

use super::length;
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::stage::Drawn;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// A change of the error from one picture to the next that an eye sees, metres.
const DISCONTINUITY_M: f64 = 0.1;
/// Pictures after which who is not drawn any more is forgotten.
const FORGET_AFTER: u64 = 256;

/// How an entity was drawn in the picture before.
#[derive(Clone, Copy, Debug)]
struct Before {
    picture: u64,
    segment: u32,
    sample_us: u64,
    error: Option<[f64; 3]>,
}

/// What an eye sees of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// It is drawn at an earlier time than before.
    pub fell: bool,
    /// It is true now, and how far it was off has changed by more than 10 cm.
    pub popped: bool,
}

/// The pictures of one viewer.
#[derive(Debug, Default)]
pub struct Continuity {
    picture: u64,
    before: HashMap<(Slot, Entity), Before>,
}

impl Continuity {
    /// Another picture is drawn; its entities follow.
    pub fn begin(&mut self) {
        self.picture += 1;
        if self.picture.is_multiple_of(FORGET_AFTER) {
            let from = self.picture.saturating_sub(FORGET_AFTER);
            self.before.retain(|_, before| before.picture >= from);
        }
    }

    /// Nothing that was drawn counts any more.
    pub fn clear(&mut self) {
        self.before.clear();
    }

    /// Entities drawn of late.
    #[must_use]
    pub fn known(&self) -> usize {
        self.before.len()
    }

    /// An entity of the picture, and how far it is off, metres, where that is known.
    pub fn step(&mut self, drawn: &Drawn, error: Option<[f64; 3]>) -> Step {
        let Drawn { slot, entity, at, .. } = drawn;
        let now = Before {
            picture: self.picture,
            segment: at.segment,
            sample_us: at.sample_us,
            error,
        };
        let before = self.before.insert((*slot, *entity), now);
        let follows = |before: &Before| before.picture + 1 == now.picture && before.segment == now.segment;
        let Some(before) = before.filter(follows) else {
            return Step::default();
        };
        let moved = before.error.zip(error);
        let moved = moved.map(|(old, new)| length([0, 1, 2].map(|axis| new[axis] - old[axis])));
        Step {
            fell: at.sample_us < before.sample_us && at.mode != PoseMode::Missing,
            popped: at.valid_at_r && moved.is_some_and(|moved| moved > DISCONTINUITY_M),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::playback::evaluate::Evaluated;

    fn drawn(sample_us: u64, valid: bool) -> Drawn {
        Drawn {
            slot: 3,
            entity: Entity { id: 7, generation: 0 },
            class: 0,
            tier: 0,
            at: Evaluated {
                pose: None,
                sample_us,
                mode: if valid {
                    PoseMode::Interpolated
                } else {
                    PoseMode::Stale
                },
                segment: 1,
                valid_at_r: valid,
                allowance_us: 100_000,
            },
        }
    }

    /// SPEC ENT5, PLY4: what stood in a freeze, stale or not, and jumps to the truth when it ends, has popped; what was off and
    /// stays so, or only drifts while it is stale, has not.
    #[test]
    fn ent5_a_pop_at_the_end_of_a_freeze_counts() {
        for was_valid in [true, false] {
            let mut continuity = Continuity::default();
            continuity.begin();
            let first = continuity.step(&drawn(1_000, was_valid), Some([0.5, 0.0, 0.0]));
            assert_eq!(first, Step::default());
            // Frames that show the same picture begin none.
            continuity.begin();
            let popped = continuity.step(&drawn(1_100, true), Some([0.0; 3]));
            assert_eq!((popped.popped, popped.fell), (true, false));
            continuity.begin();
            let goes_on = continuity.step(&drawn(1_200, true), Some([0.09, 0.0, 0.0]));
            assert!(!goes_on.popped);
            continuity.begin();
            let stale = continuity.step(&drawn(1_200, false), Some([0.9, 0.0, 0.0]));
            assert!(!stale.popped);
            // It was not in the picture between.
            continuity.begin();
            continuity.begin();
            let back = continuity.step(&drawn(1_100, true), Some([0.0; 3]));
            assert_eq!(back, Step::default());
        }
    }
}
