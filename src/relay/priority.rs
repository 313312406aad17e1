//! What goes first where not everything fits.
//!
//! Two queues share a datagram half and half, and either takes what the other leaves: who enters, nearest first, and who
//! changed, by weight. So a burst of arrivals never silences those who are there, nor the other way round. Departures go
//! before both, a few bits each.
//!
//! **Weight** of a changed member = class weight x (1 + ticks since it was sent) x nearness; a class that queries look at
//! (SPEC ENT7) weighs twice, nearness is 1 at the border of the range and 2 at its centre. It grows until the member is
//! sent. **Bound**: past [`OVERDUE_US`] a member goes before all that is not, the longest waiting first. With n changed
//! members of at most b bytes each, and Y bytes a second for bodies, every one is sent within
//! `OVERDUE_US + n x b / (Y / 2)` and a tick.

use crate::limits::OVERDUE_US;
use crate::state::schema::Schema;

use super::plan::Reason;

/// What the ticks of a stream and the way of a client make of ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgency {
    /// From this age on a member is overdue, ticks.
    pub overdue: u16,
    /// Younger than this, what was sent may still be on its way, ticks.
    pub under_way: u16,
}

impl Urgency {
    /// For a stream of this schema and a client of this round trip.
    #[must_use]
    pub fn new(schema: &Schema, round_trip_us: Option<u32>) -> Urgency {
        let ticks = |us: u32| u16::try_from(us.div_ceil(schema.tick_period_us.max(1))).unwrap_or(u16::MAX);
        Urgency {
            overdue: ticks(OVERDUE_US).max(1),
            under_way: ticks(round_trip_us.unwrap_or(0)).saturating_add(1).min(64),
        }
    }
}

/// The rank of somebody who enters; greater goes first. Who was sent and may be under way waits for its report.
#[must_use]
pub fn rank_of_arrival(reason: Reason, urgency: Urgency) -> u32 {
    let near = u32::from(u16::MAX - reason.distance);
    let waits = reason.age >= urgency.under_way;
    near | u32::from(waits) << 16
}

/// The weight of a class.
#[must_use]
pub fn weight(schema: &Schema, class: u8) -> u32 {
    let class = schema.classes.get(usize::from(class));
    if class.is_some_and(|class| class.query_critical) {
        2
    } else {
        1
    }
}

/// The rank of somebody who is there, of a class of this weight; greater goes first. Who wakes goes before all others.
#[must_use]
pub fn rank_of_change(reason: Reason, urgency: Urgency, weight: u32, wakes: bool) -> u32 {
    let age = u32::from(reason.age);
    if wakes {
        return 1 << 31 | age;
    }
    if reason.age >= urgency.overdue {
        return 1 << 30 | age;
    }
    let near = 256 + u32::from((u16::MAX - reason.distance) >> 8);
    weight * (1 + age) * near
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::plan::Kind;

    fn reason(age: u16, distance: u16) -> Reason {
        Reason {
            kind: Kind::Update,
            age,
            distance,
        }
    }

    #[test]
    fn waiting_outweighs_nearness_in_time_and_overdue_outweighs_all() {
        let urgency = Urgency {
            overdue: 20,
            under_way: 3,
        };
        let rank = |age, distance| rank_of_change(reason(age, distance), urgency, 1, false);
        assert!(rank(1, 0) > rank(1, u16::MAX), "the nearer of equals");
        assert!(rank(4, u16::MAX) > rank(1, 0), "who waited twice as long");
        assert!(rank(20, u16::MAX) > rank(19, 0));
        assert!(
            rank(500, u16::MAX) > rank(499, 0),
            "of the overdue the longest waiting"
        );
        assert!(rank_of_change(reason(0, u16::MAX), urgency, 1, true) > rank(9_999, 0));
        let of_weight = |weight| rank_of_change(reason(1, 0), urgency, weight, false);
        assert_eq!(of_weight(2), 2 * of_weight(1));
    }

    #[test]
    fn arrivals_go_nearest_first_and_not_again_while_under_way() {
        let urgency = Urgency {
            overdue: 20,
            under_way: 3,
        };
        let rank = |age, distance| rank_of_arrival(reason(age, distance), urgency);
        assert!(rank(9_000, 10) > rank(9_000, 11));
        assert!(rank(9_000, 65_535) > rank(2, 0));
        assert!(rank(3, 0) > rank(9_000, 1), "its report has not come: again");
    }
}
