//! Where the large cube of a scene wants to go: a wandering course from place to place, with jumps, spells of
//! attraction and short rests.
//!
//! Invariant: the course is a function of its seed and of the positions it is given; only additions,
//! multiplications, divisions and square roots touch a number, so it is the same on every machine. Metres and
//! seconds.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// A place counts as reached within this distance.
const REACHED_M: f32 = 2.0;
/// A leg that has not reached its place after this time is given up.
const LEG_S: [f32; 2] = [2.0, 6.0];
/// Speeds of a leg.
const CRUISE_M_S: [f32; 2] = [5.0, 10.0];
/// How long a rest lasts.
const REST_S: [f32; 2] = [1.0, 3.0];
/// How long a spell of attraction lasts.
const ATTRACT_S: [f32; 2] = [2.0, 8.0];
/// How long it is quiet between two spells.
const QUIET_S: [f32; 2] = [2.0, 5.0];
/// Time between two jumps.
const JUMP_EVERY_S: [f32; 2] = [1.5, 6.0];
/// One leg in so many is a rest.
const REST_ODDS: u32 = 10;

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// Wanted velocity over the ground, metres a second.
    pub velocity: [f32; 2],
    /// Jump now, if there is ground to jump from.
    pub jump: bool,
    /// Pull what is near.
    pub attract: bool,
}

/// The course and its randomness.
pub struct Course {
    random: Pcg64,
    place: [f32; 2],
    cruise: f32,
    leg_left: f32,
    attract: bool,
    spell_left: f32,
    jump_in: f32,
}

impl Course {
    /// A course that begins with a new leg.
    #[must_use]
    pub fn new(seed: u64) -> Course {
        Course {
            random: Pcg64::seed_from_u64(seed),
            place: [0.0; 2],
            cruise: 0.0,
            leg_left: 0.0,
            attract: false,
            spell_left: QUIET_S[0],
            jump_in: JUMP_EVERY_S[1],
        }
    }

    /// Moves on by `seconds`, standing at `from`. `place` turns a random number into somewhere to go; it is
    /// called when a new leg begins.
    pub fn advance(&mut self, from: [f32; 2], seconds: f32, place: impl FnOnce(u32) -> [f32; 2]) -> Drive {
        self.leg_left -= seconds;
        self.spell_left -= seconds;
        self.jump_in -= seconds;
        let reached = self.cruise > 0.0 && distance(from, self.place) < REACHED_M;
        if reached || self.leg_left <= 0.0 {
            self.begin_leg(place);
        }
        if self.spell_left <= 0.0 {
            self.attract = !self.attract;
            self.spell_left = self.between(if self.attract { ATTRACT_S } else { QUIET_S });
        }
        let jump = self.jump_in <= 0.0;
        if jump {
            self.jump_in = self.between(JUMP_EVERY_S);
        }
        let away = distance(from, self.place).max(0.1);
        let velocity = [0, 1].map(|axis| (self.place[axis] - from[axis]) / away * self.cruise);
        Drive {
            velocity,
            jump,
            attract: self.attract,
        }
    }

    fn begin_leg(&mut self, place: impl FnOnce(u32) -> [f32; 2]) {
        if self.one_in(REST_ODDS) {
            self.cruise = 0.0;
            self.leg_left = self.between(REST_S);
            return;
        }
        self.place = place(self.random.next_u32());
        self.cruise = self.between(CRUISE_M_S);
        self.leg_left = self.between(LEG_S);
    }

    fn one_in(&mut self, odds: u32) -> bool {
        self.random.next_u32().is_multiple_of(odds)
    }

    /// Uniform in the range, from 24 random bits: exact in an f32.
    #[allow(clippy::cast_precision_loss)]
    fn between(&mut self, [low, high]: [f32; 2]) -> f32 {
        let unit = (self.random.next_u32() >> 8) as f32 / 16_777_216.0;
        low + unit * (high - low)
    }
}

/// Distance over the ground.
fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    let (x, y) = (a[0] - b[0], a[1] - b[1]);
    (x * x + y * y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point that moves exactly as told for ten minutes.
    fn follow(seed: u64) -> Vec<Drive> {
        let mut course = Course::new(seed);
        let mut at = [0.0f32; 2];
        (0..36_000)
            .map(|_| {
                let drive = course.advance(at, 1.0 / 60.0, |r| {
                    [(r % 21) as f32 - 10.0, (r / 21 % 21) as f32 - 10.0]
                });
                at = [0, 1].map(|axis| at[axis] + drive.velocity[axis] / 60.0);
                assert!(at.iter().all(|c| c.abs() < 11.0), "the course strays to {at:?}");
                drive
            })
            .collect()
    }

    #[test]
    fn the_course_stays_among_its_places_and_does_everything_sometimes() {
        let drives = follow(7);
        let share =
            |test: &dyn Fn(&Drive) -> bool| drives.iter().filter(|d| test(d)).count() as f32 / 36_000.0;
        assert!((0.02..0.5).contains(&share(&|d| d.velocity == [0.0; 2])));
        assert!((0.05..0.6).contains(&share(&|d| d.attract)));
        assert!((0.002..0.02).contains(&share(&|d| d.jump)));
        assert!(
            drives
                .iter()
                .all(|d| distance(d.velocity, [0.0; 2]) < CRUISE_M_S[1] + 0.01)
        );
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(follow(1), follow(1));
        assert_ne!(follow(1), follow(2));
    }
}
