//! Worlds simulated by the built-in origin, so that the system can be tried and measured without a game.
//!
//! A scene is a source of [`WorldSample`]s under a [`Schema`], as a game is. Invariant: a scene is a function of
//! its settings and of what it heard of players before each tick; the same give the same samples, bit for bit.

pub mod arena;
pub mod census;
pub mod course;
pub mod crowd;
pub mod cubes;
pub mod draws;
pub mod gait;
pub mod heading;
pub mod input;
pub mod roster;
pub mod sighting;
pub mod yard;

use core::fmt;
use core::str::FromStr;

use crate::state::player::{Directive, PlayerEvent};
use crate::state::sample::WorldSample;
use crate::state::schema::Schema;
use crate::state::view::View;
use arena::Arena;
use crowd::Crowd;
use cubes::{Cubes, CubesSettings};

/// Which scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SceneKind {
    /// Small cubes on a plane and one large cube rolling through them: [`cubes`].
    Cubes,
    /// Players and bots of two teams in a walled square: [`arena`].
    Arena,
    /// Thousands on foot over a wide square: [`crowd`].
    Crowd,
}

impl SceneKind {
    /// Every scene there is.
    pub const ALL: [SceneKind; 3] = [SceneKind::Cubes, SceneKind::Arena, SceneKind::Crowd];

    /// The scene's name, as parsed and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SceneKind::Cubes => "cubes",
            SceneKind::Arena => "arena",
            SceneKind::Crowd => "crowd",
        }
    }

    /// True where players get an entity of their own; the others listen to nobody.
    #[must_use]
    pub fn has_players(self) -> bool {
        self != SceneKind::Cubes
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
    /// How many entities, in an arena bots; `None` for the scene's own number.
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

/// Lowest and highest publication rate of any scene, ticks a second. Above it a lease would outlive an arena's frames.
pub const HZ: [f64; 2] = [1.0, 128.0];

/// Refuses a number of entities outside a scene's range.
fn check_entities(scene: &'static str, entities: usize, [min, max]: [usize; 2]) -> Result<(), SceneError> {
    if (min..=max).contains(&entities) {
        return Ok(());
    }
    Err(SceneError::Entities {
        scene,
        entities,
        min,
        max,
    })
}

/// The tick period of a rate within [`HZ`].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn tick_period_us(scene: &'static str, hz: f64) -> Result<u32, SceneError> {
    let [min, max] = HZ;
    if !(min..=max).contains(&hz) {
        return Err(SceneError::Rate { scene, hz, min, max });
    }
    Ok((1e6 / hz).round() as u32)
}

/// A running scene.
///
/// > Give it what relays tell of players ([`hear`](Scene::hear)), take the [`next`](Scene::next) sample, then the
/// > directives that belong to it ([`take_directives`](Scene::take_directives)); again and again.
pub enum Scene {
    /// See [`cubes`].
    Cubes(Box<Cubes>),
    /// See [`arena`].
    Arena(Box<Arena>),
    /// See [`crowd`].
    Crowd(Box<Crowd>),
}

impl Scene {
    /// Sets the scene up at time zero.
    ///
    /// # Errors
    /// [`SceneError`] when a setting is outside what the scene can do.
    pub fn new(kind: SceneKind, settings: &SceneSettings) -> Result<Scene, SceneError> {
        let SceneSettings { entities, hz, seed } = *settings;
        Ok(match kind {
            SceneKind::Cubes => {
                let entities = entities.unwrap_or(CubesSettings::default().entities);
                Scene::Cubes(Box::new(Cubes::new(CubesSettings { entities, hz, seed })?))
            }
            SceneKind::Arena => {
                let bots = entities.unwrap_or(arena::BOTS_DEFAULT);
                Scene::Arena(Box::new(Arena::new(bots, hz, seed)?))
            }
            SceneKind::Crowd => {
                let entities = entities.unwrap_or(crowd::ENTITIES_DEFAULT);
                Scene::Crowd(Box::new(Crowd::new(entities, hz, seed)?))
            }
        })
    }

    /// What the scene's records hold.
    #[must_use]
    pub fn schema(&self) -> Schema {
        match self {
            Scene::Cubes(cubes) => cubes.schema(),
            Scene::Arena(arena) => arena.schema(),
            Scene::Crowd(crowd) => crowd.schema(),
        }
    }

    /// True where players get an entity of their own; the others listen to nobody.
    #[must_use]
    pub fn has_players(&self) -> bool {
        !matches!(self, Scene::Cubes(_))
    }

    /// The view that players are assigned from now on, when they join. The scene takes tags out of it that a player must
    /// not see. Until it is set, players are assigned an entity alone, and see what their relay lets them.
    pub fn set_view(&mut self, view: View) {
        match self {
            Scene::Cubes(_) => {}
            Scene::Arena(arena) => arena.set_view(view),
            Scene::Crowd(crowd) => crowd.set_view(view),
        }
    }

    /// Takes in what a relay tells of a player. It takes effect with the next tick.
    ///
    /// A player is known by subscription and number: who says again that it joined is assigned again what it has. When a
    /// subscription ends, tell of each of its players that it left.
    pub fn hear(&mut self, subscriber: u64, event: PlayerEvent) {
        match self {
            Scene::Cubes(_) => {}
            Scene::Arena(arena) => arena.hear(subscriber, event),
            Scene::Crowd(crowd) => crowd.hear(subscriber, event),
        }
    }

    /// The next tick. The first is at time zero.
    #[allow(clippy::should_implement_trait)] // A scene never ends: an iterator's `Option` would say it may.
    pub fn next(&mut self) -> WorldSample {
        match self {
            Scene::Cubes(cubes) => cubes.next(),
            Scene::Arena(arena) => arena.next(),
            Scene::Crowd(crowd) => crowd.next(),
        }
    }

    /// Adds what concerns players in the tick just given, each with the subscription it is for.
    pub fn take_directives(&mut self, out: &mut Vec<(u64, Directive)>) {
        match self {
            Scene::Cubes(_) => {}
            Scene::Arena(arena) => arena.take_directives(out),
            Scene::Crowd(crowd) => crowd.take_directives(out),
        }
    }
}

#[cfg(test)]
mod rehearsal;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_an_unknown_name_is_told_the_valid_ones() {
        for kind in SceneKind::ALL {
            assert_eq!(kind.to_string().parse::<SceneKind>(), Ok(kind));
        }
        let error = "moon".parse::<SceneKind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no scene \"moon\": choose one of cubes, arena, crowd"
        );
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
