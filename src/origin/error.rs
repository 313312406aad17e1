//! Why an item of a sample was left out, each in one plain sentence that names entity, field, value and bounds.

use crate::limits::{EVENT_BYTES_MAX, SERVER_TIME_MAX_US};
use crate::state::entity::Entity;
use crate::state::schema::SchemaError;
use crate::state::world::Refusal;

/// Why one item, or a whole sample, was left out. The last good value stays (SPEC DEC5).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OriginError {
    /// A value that the schema cannot hold (SPEC ID6).
    #[error("{what} of entity {entity} refused: {source}")]
    Value {
        /// The kind of item.
        what: &'static str,
        /// Which entity.
        entity: Entity,
        /// Field, value and bounds.
        source: SchemaError,
    },
    /// A quaternion that is no rotation (FAULTS 66).
    #[error(
        "observation of entity {entity} refused: rotation is {quaternion:?}, which has no direction: give a finite quaternion of non-zero length"
    )]
    Rotation {
        /// Which entity.
        entity: Entity,
        /// The quaternion, x, y, z, w.
        quaternion: [f64; 4],
    },
    /// A field index outside the schema.
    #[error("extra field of entity {entity} refused: field {field} is not among the schema's {fields}")]
    UnknownField {
        /// Which entity.
        entity: Entity,
        /// The index.
        field: usize,
        /// How many fields there are.
        fields: usize,
    },
    /// The same thing twice in one sample: which of the two holds cannot be known.
    #[error("{what} of entity {entity} refused: the sample has one already, give one in each tick")]
    Twice {
        /// The kind of item.
        what: &'static str,
        /// Which entity.
        entity: Entity,
    },
    /// An effective time after the frame's.
    #[error("{what} of entity {entity} refused: its time {at_us} us is after the frame's {server_us} us")]
    Future {
        /// The kind of item.
        what: &'static str,
        /// Which entity.
        entity: Entity,
        /// Time of the item.
        at_us: u64,
        /// Time of the frame.
        server_us: u64,
    },
    /// An event after its frame.
    #[error("event of kind {kind} refused: its time {at_us} us is after the frame's {server_us} us")]
    EventFuture {
        /// The event's kind.
        kind: u16,
        /// Time of the event.
        at_us: u64,
        /// Time of the frame.
        server_us: u64,
    },
    /// An event's payload above the bound.
    #[error(
        "event of kind {kind} refused: its payload of {bytes} bytes is above the bound of {EVENT_BYTES_MAX}: shorten it"
    )]
    EventTooLong {
        /// The event's kind.
        kind: u16,
        /// Bytes of the payload.
        bytes: usize,
    },
    /// More events than one tick has room for.
    #[error(
        "event of kind {kind} refused: the tick's {bytes} bytes of events are full: spread events over ticks"
    )]
    EventRoom {
        /// The event's kind.
        kind: u16,
        /// The bound in bytes.
        bytes: usize,
    },
    /// A frame time that does not fit.
    #[error(
        "sample refused: its time {server_us} us is above {SERVER_TIME_MAX_US} us: begin a new epoch at time 0"
    )]
    TimeRange {
        /// Time of the sample.
        server_us: u64,
    },
    /// What the world refused.
    #[error("{0}")]
    World(Refusal),
}
