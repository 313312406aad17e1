//! Worlds simulated by the built-in origin, so that the system can be tried and measured without a game.
//!
//! A scene is a source of [`WorldSample`]s under a [`Schema`], as a game is. Invariant: a scene is a function of
//! its settings alone; the same settings give the same samples, bit for bit.

pub mod course;
pub mod cubes;
pub mod yard;

use core::fmt;
use core::str::FromStr;

use crate::state::sample::WorldSample;
use crate::state::schema::Schema;
use cubes::{Cubes, CubesSettings};

/// Which scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SceneKind {
    /// Small cubes on a plane and one large cube rolling through them: [`cubes`].
    Cubes,
}

impl SceneKind {
    /// Every scene there is.
    pub const ALL: [SceneKind; 1] = [SceneKind::Cubes];

    /// The scene's name, as parsed and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SceneKind::Cubes => "cubes",
        }
    }
}

impl fmt::Display for SceneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SceneKind {
    type Err = SceneError;

    fn from_str(name: &str) -> Result<SceneKind, SceneError> {
        let found = SceneKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| SceneError::Unknown {
            name: name.to_owned(),
        })
    }
}

/// Why a scene could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SceneError {
    /// No scene has this name.
    #[error("there is no scene \"{name}\": choose one of {}", SceneKind::ALL.map(SceneKind::name).join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// A number of entities the scene cannot hold.
    #[error("scene {scene} with {entities} entities: choose {min} to {max}")]
    Entities {
        /// The scene's name.
        scene: &'static str,
        /// The number asked for.
        entities: usize,
        /// The fewest.
        min: usize,
        /// The most.
        max: usize,
    },
    /// A publication rate the scene cannot keep.
    #[error("scene {scene} at {hz} Hz: choose {min} to {max} Hz")]
    Rate {
        /// The scene's name.
        scene: &'static str,
        /// The rate asked for, ticks a second.
        hz: f64,
        /// The lowest rate.
        min: f64,
        /// The highest rate.
        max: f64,
    },
}

/// What every scene can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SceneSettings {
    /// How many entities; `None` for the scene's own number.
    pub entities: Option<usize>,
    /// Ticks published a second.
    pub hz: f64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for SceneSettings {
    fn default() -> SceneSettings {
        SceneSettings {
            entities: None,
            hz: 60.0,
            seed: 0,
        }
    }
}

/// A running scene.
pub enum Scene {
    /// See [`cubes`].
    Cubes(Box<Cubes>),
}

impl Scene {
    /// Sets the scene up at time zero.
    ///
    /// # Errors
    /// [`SceneError`] when a setting is outside what the scene can do.
    pub fn new(kind: SceneKind, settings: &SceneSettings) -> Result<Scene, SceneError> {
        let SceneSettings { entities, hz, seed } = *settings;
        match kind {
            SceneKind::Cubes => {
                let entities = entities.unwrap_or(CubesSettings::default().entities);
                Ok(Scene::Cubes(Box::new(Cubes::new(CubesSettings {
                    entities,
                    hz,
                    seed,
                })?)))
            }
        }
    }

    /// What the scene's records hold.
    #[must_use]
    pub fn schema(&self) -> Schema {
        match self {
            Scene::Cubes(cubes) => cubes.schema(),
        }
    }

    /// The next tick. The first is at time zero and spawns everything.
    #[allow(clippy::should_implement_trait)] // A scene never ends: an iterator's `Option` would say it may.
    pub fn next(&mut self) -> WorldSample {
        match self {
            Scene::Cubes(cubes) => cubes.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_an_unknown_name_is_told_the_valid_ones() {
        for kind in SceneKind::ALL {
            assert_eq!(kind.to_string().parse::<SceneKind>(), Ok(kind));
        }
        let error = "arena".parse::<SceneKind>().unwrap_err().to_string();
        assert_eq!(error, "there is no scene \"arena\": choose one of cubes");
    }

    #[test]
    fn a_scene_is_made_by_kind_and_counts_time_from_zero() {
        let mut scene = Scene::new(
            SceneKind::Cubes,
            &SceneSettings {
                entities: Some(10),
                ..Default::default()
            },
        )
        .unwrap();
        assert_eq!(scene.next().spawned.len(), 10);
        assert_eq!(scene.next().server_us, u64::from(scene.schema().tick_period_us));
        let error = Scene::new(
            SceneKind::Cubes,
            &SceneSettings {
                entities: Some(1),
                ..Default::default()
            },
        );
        assert_eq!(
            error.err().map(|e| e.to_string()).as_deref(),
            Some("scene cubes with 1 entities: choose 2 to 20000")
        );
    }
}
