//! What was last said about where something is, so that the next observation is said only when there is one.
//!
//! Invariant (SPEC ENT9): what stands still is observed once, at rest, and not again before it moves; what moves is
//! observed every tick.

use super::heading::Heading;
use crate::state::entity::Entity;
use crate::state::sample::Sample;

/// Where something is and how it moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Continuity segment.
    pub segment: u32,
    /// Metres.
    pub position: [f64; 3],
    /// Which way it faces.
    pub heading: Heading,
    /// Metres a second.
    pub velocity: [f64; 3],
}

/// What was last said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sighting {
    last: Option<Pose>,
    rested: bool,
}

impl Sighting {
    /// The observation of this tick, where there is one to make. Who stands where it stood, or begins a segment
    /// standing, is at rest.
    pub fn observe(&mut self, entity: Entity, server_us: u64, pose: Pose) -> Option<Sample> {
        let stayed = self.last.is_none_or(|last| {
            last.segment != pose.segment || (last.position, last.heading) == (pose.position, pose.heading)
        });
        let at_rest = stayed && pose.velocity == [0.0; 3];
        if at_rest && self.rested && self.last == Some(pose) {
            return None;
        }
        (self.last, self.rested) = (Some(pose), at_rest);
        Some(Sample {
            entity,
            segment: pose.segment,
            observed_us: server_us,
            position: pose.position,
            rotation: pose.heading.quaternion(),
            velocity: pose.velocity,
            angular: [0.0; 3],
            at_rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPEC ENT9.
    #[test]
    fn ent9_rest_is_said_once_and_ends_with_a_move() {
        let mut sighting = Sighting::default();
        let mut pose = Pose {
            segment: 0,
            position: [1.0, 2.0, 0.0],
            heading: Heading(0),
            velocity: [0.0; 3],
        };
        let mut see = |pose| {
            let sample = sighting.observe(Entity::default(), 7, pose);
            sample.map(|sample| sample.at_rest)
        };
        assert_eq!((see(pose), see(pose)), (Some(true), None));
        pose.velocity = [1.0, 0.0, 0.0];
        assert_eq!((see(pose), see(pose)), (Some(false), Some(false)));
        pose.velocity = [0.0; 3];
        pose.position[0] = 1.5;
        assert_eq!((see(pose), see(pose), see(pose)), (Some(false), Some(true), None));
        pose.heading = Heading(9);
        assert_eq!((see(pose), see(pose)), (Some(false), Some(true)));
        pose.segment = 1;
        pose.position = [9.0; 3];
        assert_eq!((see(pose), see(pose)), (Some(true), None));
    }
}
