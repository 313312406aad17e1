//! Why an item of an update was left out, each in one plain sentence.

use crate::limits::{DIRECTIVES_TICK_BYTES_MAX, EVENTS_TICK_BYTES_MAX, SERVER_TIME_MAX_US};
use crate::state::entity::Entity;

/// Why one item of an update was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The frame time fell.
    #[error(
        "tick refused: its time {got} us is before the last frame's {last} us; a restarted server must begin a new epoch"
    )]
    TimeFell {
        /// Time of the update.
        got: u64,
        /// Time of the last frame.
        last: u64,
    },
    /// The frame time does not fit the wire.
    #[error(
        "tick refused: its time {got} us is above {SERVER_TIME_MAX_US} us; begin a new epoch with a new time"
    )]
    TimeTooLarge {
        /// Time of the update.
        got: u64,
    },
    /// Nobody lives under this identity.
    #[error("{what} of entity {entity} refused: it was never spawned or is destroyed")]
    NotAlive {
        /// The kind of item.
        what: &'static str,
        /// Which entity.
        entity: Entity,
    },
    /// The id lives in a newer generation.
    #[error("{what} of entity {entity} refused: generation {current} of this id is newer")]
    DeadGeneration {
        /// The kind of item.
        what: &'static str,
        /// Which entity.
        entity: Entity,
        /// The newest generation known.
        current: u32,
    },
    /// The entity lives already.
    #[error("spawn of entity {0} refused: it is alive already")]
    AlreadyAlive(Entity),
    /// A class the schema does not name.
    #[error("spawn of entity {entity} refused: class {class} is not among the schema's {classes}")]
    UnknownClass {
        /// Which entity.
        entity: Entity,
        /// The class.
        class: u8,
        /// How many classes there are.
        classes: usize,
    },
    /// No slot is free.
    #[error(
        "spawn of entity {entity} refused: the world holds its maximum of {max} entities, tombstones included"
    )]
    WorldFull {
        /// Which entity.
        entity: Entity,
        /// The bound.
        max: usize,
    },
    /// A value the schema cannot produce.
    #[error("observation of entity {entity} refused: {field} is outside the schema's bounds")]
    OutOfRange {
        /// Which entity.
        entity: Entity,
        /// Which field.
        field: &'static str,
    },
    /// An observation of an older segment or time than the one held.
    #[error("observation of entity {0} refused: a newer one is held")]
    Stale(Entity),
    /// Something dated after the frame it came in.
    #[error("{what} of entity {entity} refused: its time {at_us} us is after the frame's {server_us} us")]
    Future {
        /// The kind of item.
        what: &'static str,
        /// Which entity.
        entity: Entity,
        /// Its time.
        at_us: u64,
        /// Time of the frame.
        server_us: u64,
    },
    /// More events in one tick than a frame keeps.
    #[error(
        "the last {} of {events} events of a tick refused: those before take {EVENTS_TICK_BYTES_MAX} bytes, which is the bound; spread them over ticks",
        events - taken
    )]
    TooManyEvents {
        /// How many were taken.
        taken: usize,
        /// How many there were.
        events: usize,
    },
    /// More directives in one tick than a frame keeps.
    #[error(
        "the last {} of {directives} directives of a tick refused: those before take {DIRECTIVES_TICK_BYTES_MAX} bytes, which is the bound; spread them over ticks",
        directives - taken
    )]
    TooManyDirectives {
        /// How many were taken.
        taken: usize,
        /// How many there were.
        directives: usize,
    },
    /// Extra fields the schema does not have.
    #[error(
        "extra fields of entity {entity} refused: field {field} is not in the schema or its value does not fit"
    )]
    UnknownField {
        /// Which entity.
        entity: Entity,
        /// Which field index.
        field: usize,
    },
}
