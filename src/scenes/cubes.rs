//! The scene `cubes`: small cubes at rest on a plane, one large cube rolling through them.
//!
//! After Glenn Fiedler's networked-physics demo: the large cube (id 0) wanders, jumps and at times attracts what
//! is near; the others (ids from 1) start on a square grid and sleep until something touches them. z is up;
//! metres, seconds. Walls keep everything on the plane.
//!
//! Invariant: a sample never leaves the schema's bounds. Walls and a speed limit do this physically; what the
//! solver lets through a wall is set back within the same step.

use rapier3d::prelude::{ColliderBuilder, PhysicsWorld, RigidBodyBuilder, RigidBodyHandle, Vector};

use super::SceneError;
use super::course::Course;
use crate::state::entity::Entity;
use crate::state::rotation::Rotation;
use crate::state::sample::{ExtraSample, Sample, WorldSample};
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::update::Spawn;

/// Fewest and most entities, the large cube included.
pub const ENTITIES: [usize; 2] = [2, 20_000];
/// Lowest and highest publication rate, ticks a second. Above it a lease outlives an arena's frames.
pub const HZ: [f64; 2] = [1.0, 128.0];
/// The longest physics step, microseconds: a 60th of a second.
const STEP_US: u32 = 16_667;

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
/// Nothing rises above this.
const CEILING_M: f32 = 30.0;
/// Thickness of plane and walls: many times the longest way in one step.
const WALL_M: f32 = 4.0;
/// Speed limit of every body, metres a second.
const SPEED_M_S: f32 = 24.0;

/// How hard the large cube steers: acceleration per m/s of difference, and at the most.
const STEER: [f32; 2] = [4.0, 16.0];
/// How hard it rolls: torque by mass per rad/s of difference, and at the most.
const ROLL: [f32; 2] = [4.0, 10.0];
/// Density of the large cube, those of the small ones being 1: it climbs on them without pressing them into the ground.
const PLAYER_DENSITY: f32 = 0.4;
/// Friction of a small cube.
const CUBE_FRICTION: f32 = 0.5;
/// Friction of the large cube: it rolls rather than slides.
const PLAYER_FRICTION: f32 = 0.9;
/// Speed of a jump.
const JUMP_M_S: f32 = 6.0;
/// A jump needs the large cube's centre below this.
const JUMP_BELOW_M: f32 = 2.2;
/// Reach of attraction.
const ATTRACT_M: f32 = 4.5;
/// Acceleration of attraction.
const ATTRACT_M_S2: f32 = 20.0;

/// Position step of the schema: 1/512 m.
const POSITION_STEP: f64 = 1.0 / 512.0;
/// Lowest height of the schema.
const LOWEST_M: f64 = -1.0;
/// Bits of a sent quaternion component.
const ROTATION_BITS: u8 = 9;
/// Bound of a velocity component.
const VELOCITY_BOUND: f64 = 64.0;
/// Velocity step: over the 100 ms between a baseline and the present its error is below a position step.
const VELOCITY_STEP: f64 = 1.0 / 32.0;

/// How a cubes scene is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubesSettings {
    /// Entities, the large cube included: within [`ENTITIES`].
    pub entities: usize,
    /// Ticks published a second: within [`HZ`]. Physics steps at 60 Hz or more whatever this is.
    pub hz: f64,
    /// Seed of the large cube's course.
    pub seed: u64,
}

impl Default for CubesSettings {
    fn default() -> CubesSettings {
        CubesSettings {
            entities: 901,
            hz: 60.0,
            seed: 0,
        }
    }
}

/// A row as published: what the schema makes of a body. A body is observed when its row changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    position: [u32; 3],
    rotation: Rotation,
    velocity: [i32; 3],
}

/// The running scene.
pub struct Cubes {
    physics: PhysicsWorld,
    course: Course,
    schema: Schema,
    velocity: Rate,
    /// Handles by entity id.
    bodies: Vec<RigidBodyHandle>,
    /// Centres by entity id, as of the last step.
    places: Vec<[f32; 3]>,
    /// Rows by entity id, as published.
    rows: Vec<Option<Row>>,
    /// The extra field by entity id, as published.
    interacting: Vec<bool>,
    /// Ids awake at any time since the last sample; may hold an id more than once.
    stirred: Vec<u32>,
    /// Half the distance between opposite walls.
    wall: f32,
    steps_per_tick: u32,
    tick: u64,
}

impl Cubes {
    /// Sets the scene up at time zero.
    ///
    /// # Errors
    /// [`SceneError`] when a setting is out of its range.
    pub fn new(settings: CubesSettings) -> Result<Cubes, SceneError> {
        let CubesSettings { entities, hz, seed } = settings;
        if !(ENTITIES[0]..=ENTITIES[1]).contains(&entities) {
            let [min, max] = ENTITIES;
            return Err(SceneError::Entities {
                scene: "cubes",
                entities,
                min,
                max,
            });
        }
        if !(HZ[0]..=HZ[1]).contains(&hz) {
            return Err(SceneError::Rate {
                scene: "cubes",
                hz,
                min: HZ[0],
                max: HZ[1],
            });
        }
        let side = grid_side(entities);
        let wall = side as f32 * PITCH_M / 2.0 + MARGIN_M;
        let velocity = Rate {
            bound: VELOCITY_BOUND,
            step: VELOCITY_STEP,
        };
        let schema = schema(wall, hz, velocity);
        let steps_per_tick = schema.tick_period_us.div_ceil(STEP_US);
        let mut physics = PhysicsWorld {
            gravity: Vector::new(0.0, 0.0, -9.81),
            ..Default::default()
        };
        let step_s = f64::from(schema.tick_period_us) / 1e6 / f64::from(steps_per_tick);
        physics.integration_parameters.dt = step_s as f32;
        physics.integration_parameters.normalized_max_linear_velocity = SPEED_M_S;
        build_walls(&mut physics, wall);
        let mut cubes = Cubes {
            physics,
            course: Course::new(seed),
            schema,
            velocity,
            bodies: Vec::with_capacity(entities),
            places: Vec::with_capacity(entities),
            rows: vec![None; entities],
            interacting: vec![false; entities],
            stirred: Vec::new(),
            wall,
            steps_per_tick,
            tick: 0,
        };
        cubes.build_bodies(entities, side);
        Ok(cubes)
    }

    /// What the scene's records hold.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.schema.clone()
    }

    /// The next tick. The first is at time zero, spawns every entity and observes it; a later one observes
    /// those whose quantised row changed.
    #[allow(clippy::should_implement_trait)] // A scene never ends: an iterator's `Option` would say it may.
    pub fn next(&mut self) -> WorldSample {
        let server_us = self.tick * u64::from(self.schema.tick_period_us);
        let mut sample = WorldSample {
            server_us,
            ..WorldSample::default()
        };
        if self.tick == 0 {
            self.stirred.extend(0..self.bodies.len() as u32);
            sample.spawned = self.stirred.iter().map(|id| spawn(*id)).collect();
        } else {
            for _ in 0..self.steps_per_tick {
                self.step();
            }
        }
        self.tick += 1;
        self.observe(&mut sample);
        sample
    }

    /// The large cube in the middle of one side, the small ones on the grid, all asleep.
    fn build_bodies(&mut self, entities: usize, side: usize) {
        let edge = (side - 1) as f32 * PITCH_M / 2.0;
        self.build_cube(
            [PLAYER_M, PLAYER_DENSITY, PLAYER_FRICTION],
            [-edge - START_M, -edge - START_M],
        );
        for index in 0..entities - 1 {
            let [x, y] = [index % side, index / side].map(|line| line as f32 * PITCH_M - edge);
            self.build_cube([CUBE_M, 1.0, CUBE_FRICTION], [x, y]);
        }
    }

    fn build_cube(&mut self, [edge, density, friction]: [f32; 3], [x, y]: [f32; 2]) {
        let place = [x, y, edge / 2.0];
        let body = RigidBodyBuilder::dynamic()
            .translation(Vector::from(place))
            .sleeping(true)
            .user_data(self.bodies.len() as u128);
        let half = edge / 2.0;
        let collider = ColliderBuilder::cuboid(half, half, half)
            .density(density)
            .friction(friction);
        let (handle, _) = self.physics.insert(body, collider);
        self.bodies.push(handle);
        self.places.push(place);
    }

    /// One physics step: steer, attract, step, contain.
    fn step(&mut self) {
        let seconds = self.physics.integration_parameters.dt;
        let [x, y, z] = self.places[0];
        let (places, small) = (&self.places, self.places.len() as u32 - 1);
        let drive = self.course.advance([x, y], seconds, |random| {
            let [x, y, _] = places[1 + (random % small) as usize];
            [x, y]
        });
        let player = &mut self.physics.bodies[self.bodies[0]];
        let [wanted_x, wanted_y] = drive.velocity;
        let mass = player.mass();
        if wanted_x != 0.0 || wanted_y != 0.0 {
            let (now, spin) = (player.linvel(), player.angvel());
            let push = Vector::new(wanted_x - now.x, wanted_y - now.y, 0.0);
            let roll =
                Vector::new(-wanted_y, wanted_x, 0.0) / (PLAYER_M / 2.0) - Vector::new(spin.x, spin.y, 0.0);
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
        self.contain();
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
    fn contain(&mut self) {
        let first = self.stirred.len();
        for handle in self.physics.islands.active_bodies() {
            self.stirred.push(self.physics.bodies[handle].user_data as u32);
        }
        for id in &self.stirred[first..] {
            let handle = self.bodies[*id as usize];
            let at = self.physics.bodies[handle].translation();
            let kept = Vector::new(
                at.x.clamp(-self.wall, self.wall),
                at.y.clamp(-self.wall, self.wall),
                at.z.clamp(0.0, CEILING_M),
            );
            if kept != at {
                self.physics.bodies[handle].set_translation(kept, true);
            }
            self.places[*id as usize] = kept.into();
        }
    }

    /// Adds what changed since the last sample: of all that was awake in between.
    fn observe(&mut self, sample: &mut WorldSample) {
        self.stirred.sort_unstable();
        self.stirred.dedup();
        let mut still_awake = Vec::with_capacity(self.stirred.len());
        for id in core::mem::take(&mut self.stirred) {
            let (at, handle) = (id as usize, self.bodies[id as usize]);
            let observed = self.sample(id, handle, sample.server_us);
            let row = self.row(&observed);
            if row.is_some() && row != self.rows[at] {
                self.rows[at] = row;
                sample.observed.push(observed);
            }
            let awake = !self.physics.bodies[handle].is_sleeping();
            if awake != self.interacting[at] {
                self.interacting[at] = awake;
                let entity = observed.entity;
                sample.extras.push(ExtraSample {
                    entity,
                    field: 0,
                    value: i64::from(awake),
                });
            }
            if awake {
                still_awake.push(id);
            }
        }
        self.stirred = still_awake;
    }

    fn sample(&self, id: u32, handle: RigidBodyHandle, observed_us: u64) -> Sample {
        let body = &self.physics.bodies[handle];
        let rotation = body.rotation();
        let velocity = if body.is_sleeping() {
            Vector::ZERO
        } else {
            body.linvel()
        };
        let bound = VELOCITY_BOUND;
        Sample {
            entity: Entity { id, generation: 0 },
            segment: 0,
            observed_us,
            position: self.places[id as usize].map(f64::from),
            rotation: [rotation.x, rotation.y, rotation.z, rotation.w].map(f64::from),
            velocity: [velocity.x, velocity.y, velocity.z].map(|v| f64::from(v).clamp(-bound, bound)),
            angular: [0.0; 3],
            at_rest: false,
        }
    }

    /// The sample quantised; `None` where a value is not a number, which is not published.
    fn row(&self, sample: &Sample) -> Option<Row> {
        let mut row = Row {
            position: [0; 3],
            rotation: Rotation::from_quaternion(sample.rotation, ROTATION_BITS)?,
            velocity: [0; 3],
        };
        for axis in 0..3 {
            row.position[axis] = self.schema.position[axis]
                .quantise("position", sample.position[axis])
                .ok()?;
            row.velocity[axis] = self.velocity.quantise("velocity", sample.velocity[axis]).ok()?;
        }
        Some(row)
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

/// The side of the smallest square that holds the small cubes.
fn grid_side(entities: usize) -> usize {
    let small = entities - 1;
    let root = small.isqrt();
    if root * root < small { root + 1 } else { root }
}

fn spawn(id: u32) -> Spawn {
    Spawn {
        entity: Entity { id, generation: 0 },
        class: u8::from(id != 0),
        at_us: 0,
    }
}

/// A plane, four walls and a ceiling, thick and overlapping.
fn build_walls(physics: &mut PhysicsWorld, wall: f32) {
    let reach = wall + WALL_M;
    let height = CEILING_M / 2.0;
    let mut block = |half: [f32; 3], at: [f32; 3]| {
        let collider = ColliderBuilder::cuboid(half[0], half[1], half[2]).translation(Vector::from(at));
        physics.insert_collider(collider, None);
    };
    block([reach, reach, WALL_M / 2.0], [0.0, 0.0, -WALL_M / 2.0]);
    block([reach, reach, WALL_M / 2.0], [0.0, 0.0, CEILING_M + WALL_M / 2.0]);
    for side in [-1.0, 1.0] {
        block(
            [WALL_M / 2.0, reach, height],
            [side * (wall + WALL_M / 2.0), 0.0, height],
        );
        block(
            [reach, WALL_M / 2.0, height],
            [0.0, side * (wall + WALL_M / 2.0), height],
        );
    }
}

/// The schema of a scene with walls at `wall`. Every axis spans a power of two of steps.
fn schema(wall: f32, hz: f64, velocity: Rate) -> Schema {
    let reach = f64::from((wall.ceil() as u32).next_power_of_two());
    let side = Axis {
        min: -reach,
        max: reach - POSITION_STEP,
        step: POSITION_STEP,
    };
    let height = Axis {
        min: LOWEST_M,
        max: LOWEST_M + 32.0 - POSITION_STEP,
        step: POSITION_STEP,
    };
    let class = |name: &str| Class {
        name: name.to_owned(),
        query_critical: true,
    };
    let schema = Schema {
        name: "cubes".to_owned(),
        version: 1,
        tick_period_us: (1e6 / hz).round() as u32,
        on_change: true,
        position: [side, side, height],
        rotation_bits: ROTATION_BITS,
        velocity: Some(velocity),
        angular: None,
        extras: vec![ExtraField {
            name: "interacting".to_owned(),
            bits: 1,
            signed: false,
        }],
        classes: vec![class("player_cube"), class("cube")],
    };
    debug_assert_eq!(schema.check(), Ok(()));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cubes(entities: usize, hz: f64, seed: u64) -> Cubes {
        Cubes::new(CubesSettings { entities, hz, seed }).unwrap()
    }

    /// FNV-1a over every bit of a run.
    fn digest(cubes: &mut Cubes, ticks: usize) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut take = |word: u64| hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        for _ in 0..ticks {
            let sample = cubes.next();
            take(sample.server_us);
            for seen in &sample.observed {
                take(u64::from(seen.entity.id));
                let values = seen.position.iter().chain(&seen.rotation).chain(&seen.velocity);
                values.for_each(|value| take(value.to_bits()));
            }
            for extra in &sample.extras {
                take(u64::from(extra.entity.id) << 1 | extra.value as u64);
            }
        }
        hash
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let first = digest(&mut cubes(901, 60.0, 5), 300);
        assert_eq!(first, digest(&mut cubes(901, 60.0, 5), 300));
        assert_ne!(first, digest(&mut cubes(901, 60.0, 6), 300));
    }

    /// SPEC ID6: metres are checked against the bounds. Three minutes, every value; ids once a tick and rising.
    #[test]
    fn id6_no_value_ever_leaves_the_schema() {
        let mut scene = cubes(301, 20.0, 3);
        let schema = scene.schema();
        let velocity = schema.velocity.unwrap();
        for _ in 0..3 * 60 * 20 {
            let sample = scene.next();
            assert!(sample.observed.is_sorted_by(|a, b| a.entity.id < b.entity.id));
            for seen in &sample.observed {
                for axis in 0..3 {
                    schema.position[axis]
                        .quantise("position", seen.position[axis])
                        .unwrap();
                    velocity.quantise("velocity", seen.velocity[axis]).unwrap();
                }
                assert!(Rotation::from_quaternion(seen.rotation, schema.rotation_bits).is_some());
                assert_eq!(
                    (seen.observed_us, seen.at_rest, seen.segment),
                    (sample.server_us, false, 0)
                );
            }
        }
    }

    /// What got through a wall, the plane or the ceiling is set back, so the bounds hold whatever the solver does.
    #[test]
    fn a_body_outside_the_walls_is_set_back() {
        let mut scene = cubes(5, 60.0, 0);
        scene.next();
        for (id, outside) in [
            (1, [99.0, 0.0, 1.0]),
            (2, [0.0, -99.0, 1.0]),
            (3, [3.0, 3.0, -9.0]),
            (4, [0.0, 0.0, 99.0]),
        ] {
            scene.physics.bodies[scene.bodies[id]].set_translation(Vector::from(outside), true);
        }
        let sample = scene.next();
        assert_eq!(sample.observed.iter().filter(|s| s.entity.id > 0).count(), 4);
        for seen in &sample.observed {
            for (axis, metres) in scene.schema.position.iter().zip(seen.position) {
                axis.quantise("position", metres).unwrap();
            }
        }
    }

    /// SPEC ENT9, on change: an entity is observed exactly when its quantised row changed; what fell asleep was
    /// last seen without velocity; the extra field follows.
    #[test]
    fn ent9_only_changed_rows_are_observed_and_sleepers_stand_still() {
        let mut scene = cubes(901, 60.0, 1);
        let mut seen = vec![None; 901];
        let mut awake = vec![0i64; 901];
        let (mut observed, mut most) = (0, 0);
        for tick in 0..1200 {
            let sample = scene.next();
            for row in &sample.observed {
                let quantised = scene.row(row).unwrap();
                assert_ne!(seen[row.entity.id as usize].replace(quantised), Some(quantised));
            }
            for extra in &sample.extras {
                let before = core::mem::replace(&mut awake[extra.entity.id as usize], extra.value);
                assert_ne!(before, extra.value, "an unchanged extra field was sent");
            }
            if tick > 0 {
                observed += sample.observed.len();
                most = most.max(sample.observed.len());
            }
            for (id, handle) in scene.bodies.iter().enumerate() {
                let now = scene.row(&scene.sample(id as u32, *handle, 0));
                assert_eq!(now, seen[id], "a changed row was not observed");
                let sleeps = scene.physics.bodies[*handle].is_sleeping();
                assert_eq!(awake[id], i64::from(!sleeps));
                assert!(!sleeps || seen[id].is_some_and(|row| row.velocity == [0; 3]));
            }
        }
        let mean = observed / 1199;
        assert!((40..300).contains(&mean), "{mean} observed a tick");
        assert!(most < 901);
    }

    #[test]
    fn the_first_tick_spawns_and_observes_everything() {
        let mut scene = cubes(901, 60.0, 0);
        let sample = scene.next();
        assert_eq!(
            (sample.server_us, sample.spawned.len(), sample.observed.len()),
            (0, 901, 901)
        );
        let schema = scene.schema();
        let class = |spawn: &Spawn| schema.classes[usize::from(spawn.class)].name.clone();
        assert_eq!(class(&sample.spawned[0]), "player_cube");
        assert!(sample.spawned[1..].iter().all(|spawn| class(spawn) == "cube"));
        assert!(schema.classes.iter().all(|class| class.query_critical));
        assert!(scene.next().spawned.is_empty());
    }

    /// The time of a tick is its number times the period, whatever the rate; physics never steps below 60 Hz.
    #[test]
    fn every_rate_keeps_its_period_and_a_fine_step() {
        for (hz, period, steps) in [
            (1.0, 1_000_000, 60),
            (20.0, 50_000, 3),
            (30.0, 33_333, 2),
            (60.0, 16_667, 1),
            (128.0, 7_813, 1),
        ] {
            let mut scene = cubes(20, hz, 0);
            assert_eq!(
                (scene.schema().tick_period_us, scene.steps_per_tick),
                (period, steps)
            );
            let times: Vec<u64> = (0..4).map(|_| scene.next().server_us).collect();
            assert_eq!(times, [0, 1, 2, 3].map(|n| n * u64::from(period)));
        }
    }

    #[test]
    fn every_size_fits_its_schema_and_settings_out_of_range_are_refused() {
        for entities in [2, 3, 5, 901, 20_000] {
            let mut scene = cubes(entities, 60.0, 0);
            assert_eq!(scene.schema().check(), Ok(()));
            assert_eq!(scene.next().observed.len(), entities);
            assert!(scene.next().observed.len() <= 1, "only the large cube sets out");
        }
        for (entities, hz) in [
            (1, 60.0),
            (20_001, 60.0),
            (901, 0.5),
            (901, 129.0),
            (901, f64::NAN),
        ] {
            assert!(
                Cubes::new(CubesSettings {
                    entities,
                    hz,
                    seed: 0
                })
                .is_err(),
                "{entities} at {hz}"
            );
        }
    }
}
