//! A shot on its way: straight on until it meets something or its time is over.

use super::plan::Plan;
use crate::scenes::heading::Heading;
use crate::scenes::sighting::{Pose, Sighting};
use crate::state::entity::Entity;
use crate::state::sample::Sample;

/// Speed.
pub const SPEED_M_S: f64 = 30.0;
/// Height of its flight.
pub const HEIGHT_M: f64 = 1.4;
/// How long it flies.
const LIFE_S: f64 = 1.5;
/// It begins this far in front of who fires.
const MUZZLE_M: f64 = 0.6;
/// The longest way between two looks at what is there.
const LOOK_M: f64 = 0.4;

/// What came of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// It flies on.
    On,
    /// Its time is over.
    Expired,
    /// It met a wall, a building or a door.
    Blocked,
    /// It met who has this seat.
    Struck(usize),
}

/// A missile.
pub struct Missile {
    /// Which entity.
    pub entity: Entity,
    /// Seat and entity of who fired.
    pub owner: (usize, Entity),
    /// Its team.
    pub team: u8,
    /// The tick in which it was fired: it flies from the next one on, so that it is seen before it is gone.
    pub born: u64,
    pose: Pose,
    left_s: f64,
    sighting: Sighting,
}

impl Missile {
    /// A missile fired from `place`.
    #[must_use]
    pub fn new(
        entity: Entity,
        owner: (usize, Entity),
        team: u8,
        born: u64,
        [x, y]: [f64; 2],
        heading: Heading,
    ) -> Missile {
        let [ahead, aside] = heading.direction();
        Missile {
            entity,
            owner,
            team,
            born,
            pose: Pose {
                segment: 0,
                position: [x + ahead * MUZZLE_M, y + aside * MUZZLE_M, HEIGHT_M],
                heading,
                velocity: [ahead * SPEED_M_S, aside * SPEED_M_S, 0.0],
            },
            left_s: LIFE_S,
            sighting: Sighting::default(),
        }
    }

    /// True where nothing solid is: a muzzle in a wall is stopped before it fires.
    #[must_use]
    pub fn is_clear(&self, plan: &Plan) -> bool {
        !plan.is_solid(self.pose.position)
    }

    /// Flies on by `seconds`; `struck` says who stands at a place.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn fly(&mut self, seconds: f64, plan: &Plan, struck: impl Fn([f64; 2]) -> Option<usize>) -> Flight {
        let looks = (SPEED_M_S * seconds / LOOK_M) as u32 + 1;
        let [vx, vy, _] = self.pose.velocity;
        for _ in 0..looks {
            let part = seconds / f64::from(looks);
            let [x, y, z] = self.pose.position;
            let to = [x + vx * part, y + vy * part];
            if plan.is_solid([to[0], to[1], z]) {
                return Flight::Blocked;
            }
            self.pose.position = [to[0], to[1], z];
            if let Some(seat) = struck(to) {
                return Flight::Struck(seat);
            }
        }
        self.left_s -= seconds;
        if self.left_s > 0.0 {
            Flight::On
        } else {
            Flight::Expired
        }
    }

    /// The observation of this tick.
    pub fn observe(&mut self, server_us: u64) -> Option<Sample> {
        self.sighting.observe(self.entity, server_us, self.pose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missile_ends_at_a_wall_at_somebody_or_with_its_time() {
        let plan = Plan::new(2000, 1);
        let missile =
            |place| Missile::new(Entity::default(), (0, Entity::default()), 0, 0, place, Heading(0));
        let wall = plan.wall();
        let mut flown = 0;
        let mut at_wall = missile([wall - 5.0, wall - 1.0]);
        while at_wall.fly(0.05, &plan, |_| None) == Flight::On {
            flown += 1;
        }
        assert!(
            (2..4).contains(&flown),
            "4.4 m at 30 m/s in steps of 1.5 m, not {flown}"
        );
        assert!(at_wall.is_clear(&plan) && !missile([wall - 0.1, 0.0]).is_clear(&plan));
        let mut at_somebody = missile([wall - 5.0, wall - 1.0]);
        assert_eq!(
            at_somebody.fly(0.05, &plan, |[x, _]| (x > wall - 4.0).then_some(9)),
            Flight::Struck(9)
        );
        // Along the edge of the map nothing stands.
        let mut far = missile([-wall + 1.0, wall - 0.5]);
        let flights: Vec<Flight> = (0..31).map(|_| far.fly(0.05, &plan, |_| None)).collect();
        assert_eq!(
            flights.iter().position(|flight| *flight == Flight::Expired),
            Some(29)
        );
    }
}
