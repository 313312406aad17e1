//! One tick of the world in quantised integers: what the origin publishes and a relay takes in.

use super::entity::Entity;
use super::player::Directive;
use super::record::Motion;
use super::view::Tags;
use crate::limits::EVENT_OVERHEAD_BYTES;

/// A tick as published: only what was observed, in absolute values. Despawns apply first, then spawns, then
/// observations, extra fields and tags; events and directives last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickUpdate {
    /// The origin's own tick number; rises strictly within a stream epoch.
    pub origin_tick: u64,
    /// The origin's frame time in microseconds since the stream began; never falls within a stream epoch.
    pub server_us: u64,
    /// Reading of the origin's monotonic clock at publication, in microseconds; 0 where unknown. Only a
    /// receiver on the same host may use it (latency figures).
    pub published_us: u64,
    /// True when this holds every live entity: those not spawned here are gone.
    pub keyframe: bool,
    /// Entities that end.
    pub despawned: Vec<Despawn>,
    /// Entities that begin. In a keyframe: every live entity.
    pub spawned: Vec<Spawn>,
    /// Motion observations.
    pub observed: Vec<Observation>,
    /// Extra fields that changed. In a keyframe: all fields of all entities.
    pub extras: Vec<ExtraUpdate>,
    /// Tag bits that changed. In a keyframe: those of every entity that has any.
    pub tags: Vec<TagUpdate>,
    /// Events, in order.
    pub events: Vec<Event>,
    /// What concerns single players, in order. It travels beside the tick, to their relay alone.
    pub directives: Vec<Directive>,
}

/// The tag bits of an entity, which say who may see it. Clients never learn them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagUpdate {
    /// Which entity.
    pub entity: Entity,
    /// All its tags from now on; 0 lets every view see it.
    pub tags: Tags,
}

/// An entity begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spawn {
    /// Which entity.
    pub entity: Entity,
    /// Index into the schema's classes.
    pub class: u8,
    /// When, in server microseconds.
    pub at_us: u64,
}

/// An entity ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Despawn {
    /// Which entity.
    pub entity: Entity,
    /// When, in server microseconds.
    pub at_us: u64,
    /// The game's own reason code, passed on to clients.
    pub reason: u8,
}

/// One observation of an entity's motion, or the beginning of a segment whose motion is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whose motion.
    pub entity: Entity,
    /// Continuity segment.
    pub segment: u32,
    /// When this segment began, in server microseconds.
    pub segment_us: u64,
    /// The motion; `None` while a new segment has no state (SPEC ENT2, Missing).
    pub motion: Option<Motion>,
}

/// New values of some extra fields of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraUpdate {
    /// Whose fields.
    pub entity: Entity,
    /// Bit i set: field i has a new value.
    pub mask: u8,
    /// Values by field index, each in the low bits the schema gives it; fields outside the mask are zero.
    pub values: [u32; crate::limits::EXTRA_FIELDS_MAX],
}

/// Something that happens once (SPEC CTL3, class EVENT).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The game's own kind.
    pub kind: u16,
    /// Critical events are never delayed or dropped by rate tiers.
    pub critical: bool,
    /// Whom it is about; a client that does not see this entity does not get the event.
    pub entity: Option<Entity>,
    /// When, in server microseconds.
    pub at_us: u64,
    /// The game's own bytes, at most [`EVENT_BYTES_MAX`](crate::limits::EVENT_BYTES_MAX).
    pub payload: Vec<u8>,
}

impl Event {
    /// What it counts as, bytes: its payload and [`EVENT_OVERHEAD_BYTES`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        EVENT_OVERHEAD_BYTES + self.payload.len()
    }
}

const _: () = assert!(size_of::<Event>() <= EVENT_OVERHEAD_BYTES);
