//! What a game hands over: one tick of the world in metres, before quantisation.

use super::entity::Entity;
use super::update::{Despawn, Event, Spawn, TagUpdate};

/// One tick of the world as a game, a trace or a scene gives it. Despawns apply first, then spawns, then
/// observations, then extra fields and tags, then events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorldSample {
    /// The origin's frame time in microseconds since the stream began.
    pub server_us: u64,
    /// Entities that end in this tick.
    pub despawned: Vec<Despawn>,
    /// Entities that begin in this tick.
    pub spawned: Vec<Spawn>,
    /// Motion observed in this tick. An entity not named keeps its old observation (SPEC ID4).
    pub observed: Vec<Sample>,
    /// Extra fields that changed. They never refresh an observation time (SPEC ID5).
    pub extras: Vec<ExtraSample>,
    /// Tag bits that changed: who may see an entity.
    pub tags: Vec<TagUpdate>,
    /// Events of this tick, in order.
    pub events: Vec<Event>,
}

/// One motion observation: position, rotation and velocity frozen at one instant (SPEC ID3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Whose motion.
    pub entity: Entity,
    /// Continuity segment: rises at a teleport or respawn in place. Nothing is interpolated across it.
    pub segment: u32,
    /// The simulation instant, in microseconds since the stream began; never after the frame's time.
    pub observed_us: u64,
    /// Position in metres.
    pub position: [f64; 3],
    /// Rotation as a quaternion x, y, z, w; of any non-zero length, of either sign.
    pub rotation: [f64; 4],
    /// Velocity in metres a second. Not read where the schema has none (SPEC DEC2).
    pub velocity: [f64; 3],
    /// Angular velocity in radians a second. Not read where the schema has none.
    pub angular: [f64; 3],
    /// The entity stays in this pose until its next observation (SPEC ENT9).
    pub at_rest: bool,
}

impl Sample {
    /// An entity that stands upright at the origin, in its first segment: what a game fills in from here is what it knows.
    #[must_use]
    pub fn at(entity: Entity, observed_us: u64) -> Sample {
        Sample {
            entity,
            segment: 0,
            observed_us,
            position: [0.0; 3],
            rotation: [0.0, 0.0, 0.0, 1.0],
            velocity: [0.0; 3],
            angular: [0.0; 3],
            at_rest: false,
        }
    }
}

/// A new value of one extra field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraSample {
    /// Whose field.
    pub entity: Entity,
    /// Index into the schema's extra fields.
    pub field: usize,
    /// The value, within the field's bits.
    pub value: i64,
}
