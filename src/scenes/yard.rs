//! The physical world of the scene `cubes`: a walled plane, small cubes on a grid, and a large one that rolls.
//!
//! After Glenn Fiedler's networked-physics demo: the large cube (id 0) follows a wandering course, jumps and at
//! times attracts what is near; the small ones (ids from 1) sleep until something touches them. z is up; metres,
//! seconds.
//!
//! Invariant: every centre is within the walls, at or above the plane and below the ceiling after every step.
//! Walls and a speed limit do this physically; what the solver lets through is set back within the same step.

use rapier3d::prelude::{ColliderBuilder, PhysicsWorld, RigidBodyBuilder, RigidBodyHandle, Vector};

use super::course::Course;

/// Steps within which everything has come to rest before time zero.
const SETTLE_STEPS: usize = 90;

/// Edge of a small cube.
const CUBE_M: f32 = 0.4;
/// Edge of the large cube.
const PLAYER_M: f32 = 1.5;
/// Distance of neighbours on the grid.
const PITCH_M: f32 = 0.8;
/// From the edge of the grid to the walls.
const MARGIN_M: f32 = 8.0;
/// The large cube starts this far outside the grid.
const START_M: f32 = 3.0;
/// Thickness of plane and walls: many times the longest way in one step.
const WALL_M: f32 = 4.0;
/// No centre rises above this.
pub const CEILING_M: f32 = 30.0;
/// Speed limit of every body, metres a second.
pub const SPEED_M_S: f32 = 24.0;

/// Density of the large cube, those of the small ones being 1: it climbs on them without pressing them into
/// the ground.
const PLAYER_DENSITY: f32 = 0.4;
/// Friction of the large cube: it rolls rather than slides.
const PLAYER_FRICTION: f32 = 0.9;
/// Friction of a small cube.
const CUBE_FRICTION: f32 = 0.5;
/// How hard the large cube steers: acceleration per m/s of difference, and at the most.
const STEER: [f32; 2] = [4.0, 16.0];
/// How hard it rolls: torque by mass per rad/s of difference, and at the most.
const ROLL: [f32; 2] = [4.0, 10.0];
/// Speed of a jump.
const JUMP_M_S: f32 = 6.0;
/// A jump needs the large cube's centre below this.
const JUMP_BELOW_M: f32 = 2.2;
/// Reach of attraction.
const ATTRACT_M: f32 = 4.5;
/// Acceleration of attraction.
const ATTRACT_M_S2: f32 = 20.0;

/// One body as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Centre, metres.
    pub position: [f32; 3],
    /// Rotation as a quaternion x, y, z, w.
    pub rotation: [f32; 4],
    /// Velocity, metres a second; zero while asleep.
    pub velocity: [f32; 3],
    /// Whether the body is simulated; asleep it stays as it is.
    pub awake: bool,
}

/// The yard and everything in it.
pub struct Yard {
    physics: PhysicsWorld,
    course: Course,
    /// Handles by id.
    bodies: Vec<RigidBodyHandle>,
    /// Centres by id, as of the last step.
    places: Vec<[f32; 3]>,
    /// Half the distance between opposite walls.
    wall: f32,
}

impl Yard {
    /// A yard with `cubes` cubes, the large one included and at least 2, everything at rest; one step of it
    /// lasts `step_s` seconds.
    #[must_use]
    pub fn new(cubes: usize, seed: u64, step_s: f32) -> Yard {
        assert!(
            cubes >= 2,
            "a yard has the large cube and at least one small one, not {cubes}"
        );
        let side = grid_side(cubes - 1);
        let wall = side as f32 * PITCH_M / 2.0 + MARGIN_M;
        let mut physics = PhysicsWorld {
            gravity: Vector::new(0.0, 0.0, -9.81),
            ..Default::default()
        };
        physics.integration_parameters.dt = step_s;
        physics.integration_parameters.normalized_max_linear_velocity = SPEED_M_S;
        build_walls(&mut physics, wall);
        let (bodies, places) = (Vec::with_capacity(cubes), Vec::with_capacity(cubes));
        let mut yard = Yard {
            physics,
            course: Course::new(seed),
            bodies,
            places,
            wall,
        };
        let edge = (side - 1) as f32 * PITCH_M / 2.0;
        let corner = -edge - START_M;
        yard.build_cube(PLAYER_M, PLAYER_DENSITY, PLAYER_FRICTION, [corner, corner]);
        for index in 0..cubes - 1 {
            let place = [index % side, index / side].map(|line| line as f32 * PITCH_M - edge);
            yard.build_cube(CUBE_M, 1.0, CUBE_FRICTION, place);
        }
        yard.settle();
        yard
    }

    /// Half the distance between opposite walls: no centre's x or y is beyond it.
    #[must_use]
    pub fn wall(&self) -> f32 {
        self.wall
    }

    /// The body of this id as it stands.
    #[must_use]
    pub fn pose(&self, id: u32) -> Pose {
        let body = &self.physics.bodies[self.bodies[id as usize]];
        let awake = !body.is_sleeping();
        let rotation = body.rotation();
        Pose {
            position: self.places[id as usize],
            rotation: [rotation.x, rotation.y, rotation.z, rotation.w],
            velocity: if awake { body.linvel().into() } else { [0.0; 3] },
            awake,
        }
    }

    /// One physics step: steer, attract, step, contain. Adds the ids of the awake to `stirred`.
    pub fn step(&mut self, stirred: &mut Vec<u32>) {
        let seconds = self.physics.integration_parameters.dt;
        let [x, y, z] = self.places[0];
        let (places, small) = (&self.places, self.places.len() as u32 - 1);
        let drive = self.course.advance([x, y], seconds, |random| {
            let [x, y, _] = places[1 + (random % small) as usize];
            [x, y]
        });
        let player = &mut self.physics.bodies[self.bodies[0]];
        let mass = player.mass();
        let [wanted_x, wanted_y] = drive.velocity;
        // A cube that is to rest is left alone, so that it may fall asleep.
        if wanted_x != 0.0 || wanted_y != 0.0 {
            let (now, spin) = (player.linvel(), player.angvel());
            let push = Vector::new(wanted_x - now.x, wanted_y - now.y, 0.0);
            let rolling = Vector::new(-wanted_y, wanted_x, 0.0) / (PLAYER_M / 2.0);
            let roll = rolling - Vector::new(spin.x, spin.y, 0.0);
            player.apply_impulse(limited(push * STEER[0], STEER[1]) * mass * seconds, true);
            player.apply_torque_impulse(limited(roll * ROLL[0], ROLL[1]) * mass * seconds, true);
        }
        if drive.jump && z < JUMP_BELOW_M {
            player.apply_impulse(Vector::new(0.0, 0.0, mass * JUMP_M_S), true);
        }
        if drive.attract {
            self.attract(seconds);
        }
        self.physics.step();
        self.contain(stirred);
    }

    fn build_cube(&mut self, edge: f32, density: f32, friction: f32, [x, y]: [f32; 2]) {
        let half = edge / 2.0;
        let place = [x, y, half];
        let id = self.bodies.len() as u128;
        let body = RigidBodyBuilder::dynamic()
            .translation(Vector::from(place))
            .user_data(id);
        let collider = ColliderBuilder::cuboid(half, half, half)
            .density(density)
            .friction(friction);
        let (handle, _) = self.physics.insert(body, collider);
        self.bodies.push(handle);
        self.places.push(place);
    }

    /// Lets everything come to rest on the plane: the first contact wakes a body, however it was made.
    fn settle(&mut self) {
        let mut stirred = Vec::new();
        for step in 0..SETTLE_STEPS {
            self.physics.step();
            self.contain(&mut stirred);
            if self.physics.islands.num_active_bodies() == 0 {
                break;
            }
            if step == 0 {
                for handle in &self.bodies {
                    let rest = self.physics.bodies[*handle].activation_mut();
                    rest.time_since_can_sleep = rest.time_until_sleep;
                }
            }
        }
    }

    /// Pulls every small cube within reach towards the large one.
    fn attract(&mut self, seconds: f32) {
        let centre = Vector::from(self.places[0]);
        for (handle, place) in self.bodies.iter().zip(&self.places).skip(1) {
            let pull = centre - Vector::from(*place);
            let distance = pull.length();
            if distance < ATTRACT_M {
                let body = &mut self.physics.bodies[*handle];
                let strength = body.mass() * ATTRACT_M_S2 * seconds / distance.max(0.5);
                body.apply_impulse(pull * strength, true);
            }
        }
    }

    /// Notes where the awake bodies are, and sets back what got through a wall.
    fn contain(&mut self, stirred: &mut Vec<u32>) {
        let first = stirred.len();
        let bodies = &self.physics.bodies;
        stirred.extend(
            self.physics
                .islands
                .active_bodies()
                .map(|handle| bodies[handle].user_data as u32),
        );
        let wall = self.wall;
        for id in &stirred[first..] {
            let handle = self.bodies[*id as usize];
            let at = self.physics.bodies[handle].translation();
            let (x, y) = (at.x.clamp(-wall, wall), at.y.clamp(-wall, wall));
            let kept = Vector::new(x, y, at.z.clamp(0.0, CEILING_M));
            if kept != at {
                self.physics.bodies[handle].set_translation(kept, true);
            }
            self.places[*id as usize] = kept.into();
        }
    }
}

/// The vector, shortened to `most` if it is longer.
fn limited(vector: Vector, most: f32) -> Vector {
    let length = vector.length();
    if length > most {
        vector * (most / length)
    } else {
        vector
    }
}

/// The side of the smallest square that holds `small` cubes.
fn grid_side(small: usize) -> usize {
    let root = small.isqrt();
    if root * root < small { root + 1 } else { root }
}

/// A plane, four walls and a ceiling, thick and overlapping.
fn build_walls(physics: &mut PhysicsWorld, wall: f32) {
    let reach = wall + WALL_M;
    let (half, height) = (WALL_M / 2.0, CEILING_M / 2.0);
    let mut block = |size: [f32; 3], place: [f32; 3]| {
        let collider = ColliderBuilder::cuboid(size[0], size[1], size[2]).translation(Vector::from(place));
        physics.insert_collider(collider, None);
    };
    block([reach, reach, half], [0.0, 0.0, -half]);
    block([reach, reach, half], [0.0, 0.0, CEILING_M + half]);
    for side in [-1.0, 1.0] {
        block([half, reach, height], [side * (wall + half), 0.0, height]);
        block([reach, half, height], [0.0, side * (wall + half), height]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_S: f32 = 1.0 / 60.0;

    /// What got through a wall, the plane or the ceiling is set back within the step, whatever the solver does.
    #[test]
    fn a_body_outside_the_walls_is_set_back() {
        let mut yard = Yard::new(5, 0, STEP_S);
        let outside = [
            [99.0, 0.0, 1.0],
            [0.0, -99.0, 1.0],
            [3.0, 3.0, -9.0],
            [0.0, 0.0, 99.0],
        ];
        for (handle, place) in yard.bodies[1..].iter().zip(outside) {
            yard.physics.bodies[*handle].set_translation(Vector::from(place), true);
        }
        yard.step(&mut Vec::new());
        for id in 1..5 {
            let [x, y, z] = yard.pose(id).position;
            assert!(
                x.abs() <= yard.wall() && y.abs() <= yard.wall(),
                "{id} at {x}, {y}"
            );
            assert!((0.0..=CEILING_M).contains(&z), "{id} at height {z}");
            let body = yard.physics.bodies[yard.bodies[id as usize]].translation();
            assert_eq!(<[f32; 3]>::from(body), [x, y, z], "physics agrees");
        }
    }

    #[test]
    fn everything_rests_at_first_then_the_large_cube_rolls_through() {
        let mut yard = Yard::new(901, 2, STEP_S);
        assert!((0..901).all(|id| !yard.pose(id).awake));
        assert!((yard.pose(1).position[2] - CUBE_M / 2.0).abs() < 0.001);
        let mut stirred = Vec::new();
        let (mut turned, mut height) = (false, 0f32);
        for _ in 0..900 {
            yard.step(&mut stirred);
            let Pose {
                position, rotation, ..
            } = yard.pose(0);
            turned |= rotation[3].abs() < 0.3;
            height = height.max(position[2]);
        }
        assert!(turned, "it rolls rather than slides");
        assert!(height > PLAYER_M, "it climbs and jumps");
        stirred.sort_unstable();
        stirred.dedup();
        assert!(stirred.len() > 50, "{} cubes were stirred", stirred.len());
    }

    #[test]
    fn the_grid_is_the_smallest_square() {
        assert_eq!(
            [1, 2, 4, 5, 900, 901, 19_999].map(grid_side),
            [1, 2, 2, 3, 30, 31, 142]
        );
    }
}
