//! In which order the places of a shard are served one frame.
//!
//! > [`Tour::begin`] with each frame; then [`next_place`](Tour::next_place) and [`pass`](Tour::pass) until there is none.
//!
//! Invariant: every place there was when the frame came is passed once, whoever comes or goes meanwhile: a session that
//! takes a free place takes that place's turn and nobody else's (SPEC OPS1). Who was missed by a frame is first at the
//! next; else the first place moves on by one, so that nobody is always last.

/// The round through the places for one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tour {
    first: usize,
    passed: usize,
    places: usize,
}

impl Tour {
    /// A frame has come, and there are so many places.
    pub fn begin(&mut self, places: usize) {
        let step = if self.passed < self.places { self.passed } else { 1 };
        self.first = (self.first + step) % places.max(1);
        (self.passed, self.places) = (0, places);
    }

    /// The place whose turn it is.
    pub fn next_place(&self) -> Option<usize> {
        (self.passed < self.places).then(|| (self.first + self.passed) % self.places)
    }

    /// It had its turn.
    pub fn pass(&mut self) {
        self.passed += 1;
    }

    /// The places whose turn is still to come.
    pub fn rest(&self) -> impl Iterator<Item = usize> + use<> {
        let Tour {
            first,
            passed,
            places,
        } = *self;
        (passed..places).map(move |step| (first + step) % places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPEC OPS1: who was missed is first the next time; nobody is always last.
    #[test]
    fn ops1_who_was_missed_is_first_the_next_time() {
        let mut tour = Tour::default();
        let mut walk = |places: usize, turns: usize| {
            tour.begin(places);
            let mut seen = Vec::new();
            while let Some(place) = tour.next_place().filter(|_| seen.len() < turns) {
                seen.push(place);
                tour.pass();
            }
            (seen, tour.rest().collect::<Vec<_>>())
        };
        assert_eq!(walk(4, 4), (vec![1, 2, 3, 0], vec![]));
        assert_eq!(walk(4, 2), (vec![2, 3], vec![0, 1]));
        assert_eq!(walk(4, 4), (vec![0, 1, 2, 3], vec![]));
        assert_eq!(walk(2, 9), (vec![1, 0], vec![]));
        assert_eq!(walk(0, 9), (vec![], vec![]));
        assert_eq!(walk(3, 9), (vec![1, 2, 0], vec![]));
    }
}
