//! What one session may know of the world (SPEC CTL1, CTL3).
//!
//! A view is set by the server side, never by the client: a scope says how far it reaches, tag bits say which teams and
//! layers it sees. Hidden is hidden: what a view does not allow is not named, not counted, not hinted at on the wire.
//!
//! Invariant: a range is left no nearer than it is entered, so that who stands on the border does not come and go with
//! every tick.

use crate::limits::VIEW_RANGE_MAX_CM;

/// Tag bits of an entity: teams, layers, rooms, as the game likes. An entity without tags is seen by every view.
pub type Tags = u32;

/// How far a view reaches, centimetres.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    enter_cm: u32,
    leave_cm: u32,
}

impl Range {
    /// A range that is entered within `enter_cm` of its centre and left beyond `leave_cm`. `None` unless
    /// 1 <= `enter_cm` <= `leave_cm` <= [`VIEW_RANGE_MAX_CM`].
    #[must_use]
    pub fn new(enter_cm: u32, leave_cm: u32) -> Option<Range> {
        let fits = (1..=leave_cm).contains(&enter_cm) && leave_cm <= VIEW_RANGE_MAX_CM;
        fits.then_some(Range { enter_cm, leave_cm })
    }

    /// Within this distance of the centre an entity enters, centimetres.
    #[must_use]
    pub fn enter_cm(self) -> u32 {
        self.enter_cm
    }

    /// Beyond this distance a member leaves, centimetres.
    #[must_use]
    pub fn leave_cm(self) -> u32 {
        self.leave_cm
    }

    /// [`enter_cm`](Range::enter_cm) in metres.
    #[must_use]
    pub fn enter_m(self) -> f64 {
        f64::from(self.enter_cm) / 100.0
    }

    /// [`leave_cm`](Range::leave_cm) in metres.
    #[must_use]
    pub fn leave_m(self) -> f64 {
        f64::from(self.leave_cm) / 100.0
    }
}

/// Where a view reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// Everywhere.
    #[default]
    Whole,
    /// Around the session's own entity; where that was last once it is gone; nowhere before there is one.
    Owner(Range),
    /// Around the camera that the client moves freely; around its own entity before it has said where; nowhere without
    /// either.
    Camera(Range),
}

impl Scope {
    /// The range, where there is one.
    #[must_use]
    pub fn range(self) -> Option<Range> {
        match self {
            Scope::Whole => None,
            Scope::Owner(range) | Scope::Camera(range) => Some(range),
        }
    }
}

/// What a session sees: entities within the scope that have no tags or share one with the view. Its own entity is
/// always in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Where.
    pub scope: Scope,
    /// Which tags.
    pub tags: Tags,
}

impl View {
    /// Everything there is.
    pub const WHOLE: View = View {
        scope: Scope::Whole,
        tags: Tags::MAX,
    };

    /// True when nothing can be outside of it: then clients share their bodies.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.scope == Scope::Whole && self.tags == Tags::MAX
    }

    /// True when an entity with these tags may be seen, wherever it is.
    #[must_use]
    pub fn permits(self, tags: Tags) -> bool {
        tags == 0 || tags & self.tags != 0
    }
}

impl Default for View {
    fn default() -> View {
        View::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_left_no_nearer_than_entered() {
        assert!(Range::new(100, 100).is_some());
        assert_eq!(Range::new(101, 100), None);
        assert_eq!(Range::new(0, 100), None);
        assert_eq!(Range::new(1, VIEW_RANGE_MAX_CM + 1), None);
    }

    #[test]
    fn tags_permit_who_shares_one_and_who_has_none() {
        let view = View {
            scope: Scope::Whole,
            tags: 0b0110,
        };
        assert!(view.permits(0) && view.permits(0b0010) && view.permits(0b1100));
        assert!(!view.permits(0b1001));
        assert!(!view.is_whole() && View::WHOLE.is_whole());
    }
}
