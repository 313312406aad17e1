//! Why a body was refused: the reason's name is the same in code, document and metrics.

use crate::wire::bytes::ReadError;

/// Why a body was refused. The whole body is: nothing of it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the last entry does.
    #[error("the body ends within an entry")]
    Short,
    /// Bits are left after the last entry.
    #[error("the body has bits after its last entry")]
    Trailing,
    /// A value in a form other than its one legal form.
    #[error("a value of the body is not in its one legal form")]
    NotCanonical,
    /// A number its field cannot hold.
    #[error("a value of the body is outside its field's range")]
    OutOfRange,
    /// More entries announced than the bytes can hold.
    #[error("the body announces more entries than its bytes can hold")]
    CountRange,
    /// A slot outside the world.
    #[error("an entry's slot is outside the world")]
    SlotRange,
    /// An update, removal or waking of a slot the baseline does not have.
    #[error("an entry changes a slot its baseline does not have")]
    NoSuchMember,
    /// A time before zero, or an observation before the baseline's.
    #[error("a time of the body is before zero or before its baseline's")]
    TimeRange,
    /// A class the schema does not name.
    #[error("an entry's class is not among the schema's")]
    BadClass,
    /// A way of departing that does not exist.
    #[error("an entry's departure is unknown")]
    UnknownDeparture,
    /// A rest flag for a record without motion.
    #[error("an entry changes the rest flag of a record without motion")]
    NoMotion,
    /// A complete record of an older generation or segment than the baseline's.
    #[error("an entry is of an older generation or segment than its baseline's")]
    Stale,
}

impl DecodeError {
    /// Every reason, for counters.
    pub const ALL: [DecodeError; 12] = [
        DecodeError::Short,
        DecodeError::Trailing,
        DecodeError::NotCanonical,
        DecodeError::OutOfRange,
        DecodeError::CountRange,
        DecodeError::SlotRange,
        DecodeError::NoSuchMember,
        DecodeError::TimeRange,
        DecodeError::BadClass,
        DecodeError::UnknownDeparture,
        DecodeError::NoMotion,
        DecodeError::Stale,
    ];

    /// The reason as a stable metric label.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            DecodeError::Short => "short",
            DecodeError::Trailing => "trailing",
            DecodeError::NotCanonical => "not_canonical",
            DecodeError::OutOfRange => "out_of_range",
            DecodeError::CountRange => "count_range",
            DecodeError::SlotRange => "slot_range",
            DecodeError::NoSuchMember => "no_such_member",
            DecodeError::TimeRange => "time_range",
            DecodeError::BadClass => "bad_class",
            DecodeError::UnknownDeparture => "unknown_departure",
            DecodeError::NoMotion => "no_motion",
            DecodeError::Stale => "stale",
        }
    }
}

impl From<ReadError> for DecodeError {
    fn from(error: ReadError) -> DecodeError {
        match error {
            ReadError::Short => DecodeError::Short,
            ReadError::Trailing => DecodeError::Trailing,
            ReadError::NotCanonical => DecodeError::NotCanonical,
            ReadError::OutOfRange | ReadError::NotText => DecodeError::OutOfRange,
        }
    }
}
