//! Turns samples into upstream messages.
//!
//! > Give [`publish`](Publisher::publish) one sample a tick and send its message to every subscriber; give a new
//! > subscriber [`hello`](Publisher::hello) and [`keyframe`](Publisher::keyframe) first.
//! > [`Subscribers`](super::subscribers::Subscribers) does both.
//!
//! Invariants: a message holds only what the publisher's own world took in, so a relay that applies it refuses
//! nothing; a bad item is left out with an error and the last good value stays (SPEC DEC5), so a value that is
//! bad tick after tick never becomes a delta (THREATS 35); tick numbers rise by one.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::OriginError;
use super::quantise;
use crate::delta::schema;
use crate::limits::{ARENA_FRAMES, SERVER_TIME_MAX_US};
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::frame::Frame;
use crate::state::sample::WorldSample;
use crate::state::schema::{Schema, SchemaError};
use crate::state::update::TickUpdate;
use crate::state::world::{Refusal, World};
use crate::upstream::message::{FromOrigin, Hello, PLAYERS, encode_tick};

/// What became of one sample.
#[derive(Clone, Debug)]
pub struct Published {
    /// The tick as published: without the items that were left out.
    pub update: TickUpdate,
    /// Its message, length prefix included; `None` when the whole sample was refused and nothing was published.
    pub message: Option<Arc<[u8]>>,
    /// The world after it; `None` with the message.
    pub frame: Option<Arc<Frame>>,
    /// Why items, or the whole sample, were left out.
    pub errors: Vec<OriginError>,
}

/// The publishing side of one run of an origin.
pub struct Publisher {
    hello: Arc<[u8]>,
    world: World,
    origin_tick: u64,
    frame: Option<Arc<Frame>>,
}

impl Publisher {
    /// A publisher of an empty world. `epoch` must rise with every start, up to [`EPOCH_MAX`](crate::limits::EPOCH_MAX), and `boot` be random at every start
    /// (THREATS 80); `clock_id` names the clock that `published_us` is read from, 0 where unknown.
    ///
    /// # Errors
    /// When the schema breaks a bound.
    pub fn new(schema: Schema, epoch: u64, boot: u64, clock_id: u64) -> Result<Publisher, SchemaError> {
        let hello = Hello {
            epoch,
            boot,
            clock_id,
            accepts: PLAYERS,
            schema: schema::encode(&schema)?,
        };
        let mut bytes = Vec::new();
        FromOrigin::Hello(hello).encode(&mut bytes);
        // A tombstone lasts here as long as at a relay: what a relay would refuse is refused where it can be mended.
        let quarantine_ticks = u32::try_from(ARENA_FRAMES).unwrap_or(u32::MAX);
        let world = World::new(Arc::new(schema), 1, quarantine_ticks);
        Ok(Publisher {
            hello: bytes.into(),
            world,
            origin_tick: 0,
            frame: None,
        })
    }

    /// Publishes one sample. `published_us` is the reading of the origin's monotonic clock, 0 where unknown.
    pub fn publish(&mut self, sample: &WorldSample, published_us: u64) -> Published {
        if sample.server_us > SERVER_TIME_MAX_US {
            return Published::refused(vec![OriginError::TimeRange {
                server_us: sample.server_us,
            }]);
        }
        let (mut update, mut errors) = quantise::update(&self.world, sample);
        update.origin_tick = self.origin_tick + 1;
        update.published_us = published_us;
        let frame = self.world.advance(tick_of(update.origin_tick), &update);
        errors.extend(self.world.refused().iter().copied().map(OriginError::World));
        let Some(frame) = frame else {
            return Published::refused(errors);
        };
        if !self.world.refused().is_empty() {
            leave_out(self.world.refused(), &mut update);
        }
        self.origin_tick = update.origin_tick;
        self.frame = Some(Arc::clone(&frame));
        let mut bytes = Vec::new();
        encode_tick(&update, &mut bytes);
        Published {
            update,
            message: Some(bytes.into()),
            frame: Some(frame),
            errors,
        }
    }

    /// The first message for a subscriber, length prefix included.
    #[must_use]
    pub fn hello(&self) -> Arc<[u8]> {
        Arc::clone(&self.hello)
    }

    /// The world after the last published tick as a keyframe message of the same number, length prefix included;
    /// number 0 and empty before the first tick.
    #[must_use]
    pub fn keyframe(&self) -> Arc<[u8]> {
        let mut bytes = Vec::new();
        encode_tick(&self.world.keyframe(self.origin_tick), &mut bytes);
        bytes.into()
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.world.schema()
    }

    /// The truth: the world as published so far.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The truth at the last published tick.
    #[must_use]
    pub fn frame(&self) -> Option<&Arc<Frame>> {
        self.frame.as_ref()
    }

    /// Number of the last published tick; 0 before the first.
    #[must_use]
    pub fn origin_tick(&self) -> u64 {
        self.origin_tick
    }
}

impl Published {
    fn refused(errors: Vec<OriginError>) -> Published {
        Published {
            update: TickUpdate::default(),
            message: None,
            frame: None,
            errors,
        }
    }
}

/// The low 32 bits of a tick number, which is what a [`Frame`] is known by.
#[allow(clippy::cast_possible_truncation)]
fn tick_of(origin_tick: u64) -> Tick {
    Tick(origin_tick as u32)
}

/// Takes out of `update` the items that the world refused. Each entity is in a section once, so section and
/// entity name an item.
fn leave_out(refused: &[Refusal], update: &mut TickUpdate) {
    let named: HashSet<(&'static str, Entity)> = refused.iter().filter_map(item).collect();
    update
        .despawned
        .retain(|item| !named.contains(&("despawn", item.entity)));
    update
        .spawned
        .retain(|item| !named.contains(&("spawn", item.entity)));
    update
        .observed
        .retain(|item| !named.contains(&("observation", item.entity)));
    update
        .extras
        .retain(|item| !named.contains(&("extra fields", item.entity)));
    update.tags.retain(|item| !named.contains(&("tags", item.entity)));
    for refusal in refused {
        if let Refusal::TooManyEvents { taken, .. } = refusal {
            update.events.truncate(*taken);
        }
    }
}

/// Section and entity of a refused item; `None` where the whole update was refused, or events.
fn item(refusal: &Refusal) -> Option<(&'static str, Entity)> {
    match *refusal {
        Refusal::TimeFell { .. }
        | Refusal::TimeTooLarge { .. }
        | Refusal::TooManyEvents { .. }
        | Refusal::TooManyDirectives { .. } => None,
        // A segment begins with an observation.
        Refusal::Future {
            what: "segment",
            entity,
            ..
        } => Some(("observation", entity)),
        Refusal::NotAlive { what, entity }
        | Refusal::DeadGeneration { what, entity, .. }
        | Refusal::Future { what, entity, .. } => Some((what, entity)),
        Refusal::AlreadyAlive(entity)
        | Refusal::UnknownClass { entity, .. }
        | Refusal::WorldFull { entity, .. } => Some(("spawn", entity)),
        Refusal::OutOfRange { entity, .. } | Refusal::Stale(entity) => Some(("observation", entity)),
        Refusal::UnknownField { entity, .. } => Some(("extra fields", entity)),
    }
}

#[cfg(test)]
mod tests;
