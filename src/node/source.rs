//! What an origin publishes: a recording or a simulated scene, one sample after the other.
//!
//! A scene that has players of its own hears what they did before it gives the sample that shows it; in any other world
//! they are seated among what lives there.
//!
//! Played at another speed, times and rates are scaled together, so that a client still sees the stream's clock
//! run as fast as its own.

use crate::state::player::{Directive, PlayerEvent};
use crate::state::sample::WorldSample;
use crate::state::schema::{Rate, Schema};
use crate::state::view::View;
use crate::state::world::World;
use crate::trace::world::{TraceOptions, TraceWorld};

use super::origin::OriginSource;
use super::seats::Seats;

/// Bounds of a speed: beyond, rates leave what a schema can hold.
pub const SPEEDS: (f64, f64) = (0.1, 10.0);

/// Why a source cannot be played, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The recording.
    #[error(transparent)]
    Trace(#[from] crate::trace::error::TraceError),
    /// The scene.
    #[cfg(feature = "scenes")]
    #[error(transparent)]
    Scene(#[from] crate::scenes::SceneError),
    /// Its schema.
    #[error("{0}")]
    Schema(String),
    /// The speed.
    #[error("speed {0} is outside its bounds: give {least} to {most}", least = SPEEDS.0, most = SPEEDS.1)]
    Speed(f64),
}

/// A source that is being played.
pub struct Source {
    schema: Schema,
    player: Player,
    seats: Seats,
    /// Time of the next sample, where it is known.
    due_us: Option<u64>,
}

enum Player {
    Trace {
        world: Box<TraceWorld>,
        index: usize,
        pass: u32,
        repeat: bool,
        speed: f64,
    },
    #[cfg(feature = "scenes")]
    Scene(crate::scenes::Scene),
}

impl Source {
    /// Loads a recording or sets a scene up. `view`: what players are assigned.
    ///
    /// # Errors
    /// The file, a setting of the scene or the speed is refused.
    pub fn open(source: &OriginSource, view: Option<View>) -> Result<Source, SourceError> {
        let (seats, due_us) = (Seats::new(view), None);
        match source {
            OriginSource::Trace { path, repeat, speed } => {
                if !(SPEEDS.0..=SPEEDS.1).contains(speed) {
                    return Err(SourceError::Speed(*speed));
                }
                let world = Box::new(TraceWorld::load(path, &TraceOptions::default())?);
                let schema = faster(world.schema(), *speed);
                let (repeat, speed) = (*repeat, *speed);
                Ok(Source {
                    schema,
                    player: Player::Trace {
                        world,
                        index: 0,
                        pass: 0,
                        repeat,
                        speed,
                    },
                    seats,
                    due_us,
                })
            }
            #[cfg(feature = "scenes")]
            OriginSource::Scene { kind, settings } => {
                let mut scene = crate::scenes::Scene::new(*kind, settings)?;
                if let Some(view) = view {
                    scene.set_view(view);
                }
                Ok(Source {
                    schema: scene.schema(),
                    player: Player::Scene(scene),
                    seats,
                    due_us,
                })
            }
        }
    }

    /// What its records hold.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// True where what players do changes the next sample.
    #[must_use]
    pub fn has_players(&self) -> bool {
        match &self.player {
            Player::Trace { .. } => false,
            #[cfg(feature = "scenes")]
            Player::Scene(scene) => scene.has_players(),
        }
    }

    /// The next sample's time, where it is known before it is there.
    #[must_use]
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Takes what a player of a subscriber did.
    pub fn hear(&mut self, subscriber: u64, event: PlayerEvent) {
        match &mut self.player {
            #[cfg(feature = "scenes")]
            Player::Scene(scene) if scene.has_players() => scene.hear(subscriber, event),
            _ => self.seats.hear(subscriber, &event),
        }
    }

    /// Adds what players are to be told with the last sample, after which the world is `world`.
    pub fn direct(&mut self, world: &World, out: &mut Vec<(u64, Directive)>) {
        match &mut self.player {
            #[cfg(feature = "scenes")]
            Player::Scene(scene) if scene.has_players() => scene.take_directives(out),
            _ => self.seats.direct(world, out),
        }
    }

    /// Puts the next sample into `sample`. Its time says when it is to be published, from the first one's on. False
    /// at the end.
    pub fn next(&mut self, sample: &mut WorldSample) -> bool {
        match &mut self.player {
            Player::Trace {
                world,
                index,
                pass,
                repeat,
                speed,
            } => {
                if *index == world.samples().len() && *repeat {
                    (*index, *pass) = (0, pass.saturating_add(1));
                }
                let more = world.sample_into(*index, *pass, sample);
                *index += usize::from(more);
                if more && *speed != 1.0 {
                    hurry(sample, *speed);
                }
                more
            }
            #[cfg(feature = "scenes")]
            Player::Scene(scene) => {
                *sample = scene.next();
                self.due_us = Some(sample.server_us + u64::from(self.schema.tick_period_us));
                true
            }
        }
    }
}

/// The schema of a recording played `speed` times as fast.
fn faster(schema: &Schema, speed: f64) -> Schema {
    let rate = |rate: Rate| Rate {
        bound: rate.bound * speed,
        step: rate.step * speed,
    };
    let period_us = sooner(u64::from(schema.tick_period_us), speed).max(1);
    Schema {
        tick_period_us: u32::try_from(period_us).unwrap_or(u32::MAX),
        velocity: schema.velocity.map(rate),
        angular: schema.angular.map(rate),
        ..schema.clone()
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn sooner(at_us: u64, speed: f64) -> u64 {
    (at_us as f64 / speed).round() as u64
}

fn hurry(sample: &mut WorldSample, speed: f64) {
    sample.server_us = sooner(sample.server_us, speed);
    for despawn in &mut sample.despawned {
        despawn.at_us = sooner(despawn.at_us, speed);
    }
    for spawn in &mut sample.spawned {
        spawn.at_us = sooner(spawn.at_us, speed);
    }
    for observed in &mut sample.observed {
        observed.observed_us = sooner(observed.observed_us, speed);
        observed.velocity = observed.velocity.map(|component| component * speed);
        observed.angular = observed.angular.map(|component| component * speed);
    }
    for event in &mut sample.events {
        event.at_us = sooner(event.at_us, speed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(repeat: bool, speed: f64) -> OriginSource {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/rl_2016_3v3_800.jsonl.zst"
        )
        .into();
        OriginSource::Trace { path, repeat, speed }
    }

    /// At twice the speed every time halves, every rate doubles, and the schema still holds both.
    #[test]
    fn speed_scales_times_and_rates_together() {
        let (mut plain, mut fast) = (
            Source::open(&trace(false, 1.0), None).unwrap(),
            Source::open(&trace(false, 2.0), None).unwrap(),
        );
        assert_eq!(
            fast.schema().tick_period_us,
            plain.schema().tick_period_us.div_ceil(2)
        );
        let (mut a, mut b) = (WorldSample::default(), WorldSample::default());
        let mut seen = 0;
        while plain.next(&mut a) {
            assert!(fast.next(&mut b));
            assert!(b.server_us.abs_diff(a.server_us / 2) <= 1);
            for (x, y) in a.observed.iter().zip(&b.observed) {
                assert_eq!(x.velocity.map(|v| v * 2.0), y.velocity);
                assert!(y.observed_us <= b.server_us);
                seen += 1;
            }
        }
        assert!(!fast.next(&mut b) && seen > 0);
        assert!(fast.schema().check().is_ok());
        let error = Source::open(&trace(false, 0.0), None).err().unwrap().to_string();
        assert_eq!(error, "speed 0 is outside its bounds: give 0.1 to 10");
    }

    #[test]
    fn a_repeated_recording_goes_on_in_time() {
        let mut source = Source::open(&trace(true, 1.0), None).unwrap();
        let (mut sample, mut last_us, mut count) = (WorldSample::default(), 0, 0);
        while source.next(&mut sample) && count < 2000 {
            assert!(sample.server_us >= last_us);
            (last_us, count) = (sample.server_us, count + 1);
        }
        assert_eq!(count, 2000);
    }
}
