//! The scene `cubes`: small cubes at rest on a plane and one large cube rolling through them, published on
//! change.
//!
//! Ids: 0 is the large cube, from 1 on the small ones on their grid. Invariant: a sample never leaves the
//! schema's bounds, and names exactly the entities whose quantised row differs from the row last published.

use super::SceneError;
use super::yard::{CEILING_M, Pose, SPEED_M_S, Yard};
use crate::state::coding::Coding;
use crate::state::entity::Entity;
use crate::state::rotation::Rotation;
use crate::state::sample::{ExtraSample, Sample, WorldSample};
use crate::state::schema::{Axis, Class, ExtraField, Rate, Schema};
use crate::state::update::Spawn;

/// Fewest and most entities, the large cube included.
pub const ENTITIES: [usize; 2] = [2, 20_000];
/// The longest physics step, microseconds: a 60th of a second.
const STEP_US: u32 = 16_667;

/// Position step of the schema: 1/512 m.
const POSITION_STEP: f64 = 1.0 / 512.0;
/// Lowest height of the schema.
const LOWEST_M: f64 = -1.0;
/// Bits of a sent quaternion component.
const ROTATION_BITS: u8 = 9;
/// Velocity. In the 100 ms between a baseline and the present its error is less than a position step.
const VELOCITY: Rate = Rate {
    bound: 64.0,
    step: 1.0 / 32.0,
};

const _: () = assert!((SPEED_M_S as f64) < VELOCITY.bound);

/// How a cubes scene is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubesSettings {
    /// Entities, the large cube included: within [`ENTITIES`].
    pub entities: usize,
    /// Ticks published a second: within [`HZ`](super::HZ). Physics steps at 60 Hz or more whatever this is.
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
    yard: Yard,
    schema: Schema,
    /// Rows by entity id, as published.
    rows: Vec<Option<Row>>,
    /// The extra field by entity id, as published.
    interacting: Vec<bool>,
    /// Ids awake at any time since the last sample; may hold an id more than once.
    stirred: Vec<u32>,
    steps_per_tick: u32,
    tick: u64,
}

impl Cubes {
    /// Sets the scene up at time zero, everything at rest.
    ///
    /// # Errors
    /// [`SceneError`] when a setting is out of its range.
    pub fn new(settings: CubesSettings) -> Result<Cubes, SceneError> {
        let CubesSettings { entities, hz, seed } = settings;
        super::check_entities("cubes", entities, ENTITIES)?;
        let tick_period_us = super::tick_period_us("cubes", hz)?;
        let steps_per_tick = tick_period_us.div_ceil(STEP_US);
        let step_s = f64::from(tick_period_us) / 1e6 / f64::from(steps_per_tick);
        let yard = Yard::new(entities, seed, step_s as f32);
        Ok(Cubes {
            schema: schema(yard.wall(), tick_period_us),
            yard,
            rows: vec![None; entities],
            interacting: vec![false; entities],
            stirred: (0..entities as u32).collect(),
            steps_per_tick,
            tick: 0,
        })
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
            sample.spawned = self.stirred.iter().map(|id| spawn(*id)).collect();
        } else {
            for _ in 0..self.steps_per_tick {
                self.yard.step(&mut self.stirred);
            }
        }
        self.tick += 1;
        self.observe(&mut sample);
        sample
    }

    /// Adds what changed since the last sample: of all that was awake in between.
    fn observe(&mut self, sample: &mut WorldSample) {
        let mut stirred = core::mem::take(&mut self.stirred);
        stirred.sort_unstable();
        stirred.dedup();
        stirred.retain(|&id| {
            let pose = self.yard.pose(id);
            let observed = observation(id, sample.server_us, &pose);
            let row = self.row(&observed);
            if row.is_some() && row != self.rows[id as usize] {
                self.rows[id as usize] = row;
                sample.observed.push(observed);
            }
            if pose.awake != self.interacting[id as usize] {
                self.interacting[id as usize] = pose.awake;
                let (entity, value) = (observed.entity, i64::from(pose.awake));
                sample.extras.push(ExtraSample {
                    entity,
                    field: 0,
                    value,
                });
            }
            pose.awake
        });
        self.stirred = stirred;
    }

    /// The sample quantised; `None` where a value is not a number, which is not published.
    fn row(&self, sample: &Sample) -> Option<Row> {
        let rotation = Rotation::from_quaternion(sample.rotation, ROTATION_BITS)?;
        let mut row = Row {
            position: [0; 3],
            rotation,
            velocity: [0; 3],
        };
        for axis in 0..3 {
            let position = &self.schema.position[axis];
            row.position[axis] = position.quantise("position", sample.position[axis]).ok()?;
            row.velocity[axis] = VELOCITY.quantise("velocity", sample.velocity[axis]).ok()?;
        }
        Some(row)
    }
}

fn spawn(id: u32) -> Spawn {
    Spawn {
        entity: Entity { id, generation: 0 },
        class: u8::from(id != 0),
        at_us: 0,
    }
}

fn observation(id: u32, observed_us: u64, pose: &Pose) -> Sample {
    Sample {
        entity: Entity { id, generation: 0 },
        segment: 0,
        observed_us,
        position: pose.position.map(f64::from),
        rotation: pose.rotation.map(f64::from),
        velocity: pose
            .velocity
            .map(|v| f64::from(v).clamp(-VELOCITY.bound, VELOCITY.bound)),
        angular: [0.0; 3],
        at_rest: false,
    }
}

/// The schema of a scene with walls at `wall`. Every axis spans a power of two of steps.
fn schema(wall: f32, tick_period_us: u32) -> Schema {
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
        coding: Coding::Standard,
        name: "cubes".to_owned(),
        version: 1,
        tick_period_us,
        on_change: true,
        position: [side, side, height],
        rotation_bits: ROTATION_BITS,
        velocity: Some(VELOCITY),
        angular: None,
        extras: vec![ExtraField {
            name: "interacting".to_owned(),
            bits: 1,
            signed: false,
        }],
        classes: vec![class("player_cube"), class("cube")],
    };
    debug_assert_eq!(schema.check(), Ok(()));
    debug_assert!(f64::from(CEILING_M) <= height.max && f64::from(wall) <= side.max);
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

    /// SPEC ID6: metres are checked against the bounds. Two minutes, every value; ids once a tick and rising.
    #[test]
    fn id6_no_value_ever_leaves_the_schema() {
        let mut scene = cubes(151, 20.0, 3);
        let schema = scene.schema();
        let velocity = schema.velocity.unwrap();
        for _ in 0..2 * 60 * 20 {
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

    /// SPEC ENT9, on change: an entity is observed exactly when its quantised row changed; what fell asleep was
    /// last seen without velocity; the extra field follows.
    #[test]
    fn ent9_only_changed_rows_are_observed_and_sleepers_stand_still() {
        let mut scene = cubes(901, 60.0, 1);
        let mut seen = vec![None; 901];
        let mut awake = vec![0i64; 901];
        let (mut observed, mut most) = (0, 0);
        for tick in 0..900 {
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
            for id in 0..901 {
                let pose = scene.yard.pose(id);
                let now = scene.row(&observation(id, 0, &pose));
                assert_eq!(now, seen[id as usize], "a changed row was not observed");
                assert_eq!(awake[id as usize], i64::from(pose.awake));
                assert!(pose.awake || now.is_some_and(|row| row.velocity == [0; 3]));
            }
        }
        let mean = observed / 899;
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
