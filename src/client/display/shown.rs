//! What the display says: of a slot, of an entity, and of what a receive changed.

use crate::client::replica::NewestSnapshot;
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::record::Record;
use crate::state::slots::Slot;

/// A slot that has a member. Whether it was in the newest packet or not, it is there: only an entry takes away, and that is
/// a [`Gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The newest record.
    pub record: Record,
    /// The snapshot it is from.
    pub as_of: Tick,
    /// That snapshot's frame time, server microseconds.
    pub as_of_us: u64,
    /// The newest snapshot that said it is no longer at rest where it was (SPEC ENT9). Only one after `as_of`
    /// tells more than the record does.
    pub awake: Option<Tick>,
}

impl Known {
    /// True when the entity is known to have left the rest its record speaks of.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.awake.is_some_and(|awake| awake.is_after(self.as_of))
    }

    /// True when the newest snapshot does not name the entity and leaves something out, for bandwidth or since a part of
    /// it is not here: the entity is there, and may have changed since. False for one that is as it was.
    #[must_use]
    pub fn is_omitted(&self, newest: &NewestSnapshot) -> bool {
        newest.omits() && newest.id.is_after(self.as_of)
    }

    /// How old the record is where the newest snapshot is of `server_us`, microseconds.
    #[must_use]
    pub fn age_us(&self, server_us: u64) -> u64 {
        server_us.saturating_sub(self.as_of_us)
    }
}

/// Why a slot has no member any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Destroyed at the origin: this life is over (SPEC ID2).
    Destroyed {
        /// When, server microseconds.
        at_us: u64,
        /// The game's reason code.
        reason: u8,
    },
    /// Left this client's view by distance; it may come back as the same life.
    LeftView,
    /// Hidden from this client by permission; it may come back as the same life.
    Hidden,
    /// Found gone: a complete view does not have it, another entity has its slot, or an entry about a later one there
    /// says so. It ended while nobody could say how.
    Unheard,
}

/// A slot whose member is gone: a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Who was there.
    pub entity: Entity,
    /// Why it is gone.
    pub absence: Absence,
    /// The snapshot that said so.
    pub as_of: Tick,
    /// That snapshot's frame time, server microseconds.
    pub as_of_us: u64,
}

/// What is known of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DisplayPlace {
    /// Nobody was ever known to be there in this stream.
    #[default]
    Never,
    /// It has a member.
    Known(Known),
    /// Its member is gone.
    Gone(Gone),
}

/// What a receive did to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownKind {
    /// A member was not there before.
    Entered,
    /// A member's record is newer.
    Updated,
    /// A member is no longer at rest; its record is the old one.
    Awake,
    /// A member is gone.
    Removed(Absence),
}

/// A change of the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where.
    pub slot: Slot,
    /// What happened.
    pub kind: ShownKind,
    /// Who is meant: the member now, or the one that went.
    pub entity: Entity,
}

/// What the display knows of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has never been here; it may come.
    Unknown,
    /// It is a member.
    Present,
    /// It is gone, or a later life has its id.
    Past,
}
