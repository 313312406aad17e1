//! The identity of an entity: what every record, event and table entry hangs on.

use core::fmt;

/// An entity is the pair of an id and a generation (SPEC ID2). An id may be used again; its generation then
/// rises, and nothing of an older generation ever touches the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Entity {
    /// The origin's id.
    pub id: u32,
    /// The life of that id: rises each time the id is used again.
    pub generation: u32,
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.id, self.generation)
    }
}

/// Why an entity stopped being known (SPEC CTL1). The numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Departure {
    /// Destroyed at the origin: a tombstone stays.
    Destroyed = 0,
    /// Left this client's view; it lives on at the origin.
    LeftView = 1,
    /// Hidden from this client by permission.
    Hidden = 2,
}

impl Departure {
    /// The departure with this wire number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Departure> {
        match code {
            0 => Some(Departure::Destroyed),
            1 => Some(Departure::LeftView),
            2 => Some(Departure::Hidden),
            _ => None,
        }
    }
}
