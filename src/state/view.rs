//! What one session may know of the world (SPEC CTL1, CTL3).
//!
//! A view is set by the server side, never by the client: a scope says how far it reaches, tag bits say which teams and
//! layers it sees. Hidden is hidden: what a view does not allow is not named, not counted, not hinted at on the wire.
//!
//! Invariant: a range is left no nearer than it is entered, so that who stands on the border does not come and go with
//! every tick.

use core::fmt;
use core::str::FromStr;

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

/// Ranges of a view whose text gives none, metres.
const RANGE_M: &str = "20,25";

/// A text that is no view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give whole, radius[:ENTER,LEAVE] or spectator[:ENTER,LEAVE], in metres, 0.01 to {max}, LEAVE not below ENTER",
    max = VIEW_RANGE_MAX_CM / 100
)]
pub struct ViewError;

/// The scope as people give it: `whole`, `radius[:ENTER,LEAVE]` around the own entity, `spectator[:ENTER,LEAVE]` around
/// the camera; metres, 20 and 25 where not given. Its view sees every tag.
impl FromStr for View {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<View, ViewError> {
        let (name, range) = match text.split_once(':') {
            Some((name, range)) => (name, Some(range)),
            None => (text, None),
        };
        let scope = match (name, range) {
            ("whole", None) => Scope::Whole,
            ("radius", range) => Scope::Owner(range_of(range.unwrap_or(RANGE_M))?),
            ("spectator", range) => Scope::Camera(range_of(range.unwrap_or(RANGE_M))?),
            _ => return Err(ViewError),
        };
        Ok(View {
            scope,
            tags: Tags::MAX,
        })
    }
}

fn range_of(text: &str) -> Result<Range, ViewError> {
    let (enter, leave) = text.split_once(',').ok_or(ViewError)?;
    Range::new(centimetres(enter)?, centimetres(leave)?).ok_or(ViewError)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Within the bounds checked.
fn centimetres(text: &str) -> Result<u32, ViewError> {
    let cm = text.trim().parse::<f64>().map_err(|_| ViewError)? * 100.0;
    if (1.0..=f64::from(VIEW_RANGE_MAX_CM)).contains(&cm) {
        Ok(cm.round() as u32)
    } else {
        Err(ViewError)
    }
}

/// The scope, as it is parsed; tags have no text.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.scope {
            Scope::Whole => "whole",
            Scope::Owner(_) => "radius",
            Scope::Camera(_) => "spectator",
        };
        match self.scope.range() {
            None => f.write_str(name),
            Some(range) => write!(f, "{name}:{},{}", range.enter_m(), range.leave_m()),
        }
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
    fn views_are_given_as_text() {
        let metres = |text: &str| {
            let range = text.parse::<View>().unwrap().scope.range().unwrap();
            (range.enter_cm(), range.leave_cm())
        };
        assert_eq!("whole".parse(), Ok(View::WHOLE));
        assert_eq!(
            (metres("radius"), metres("spectator:0.5, 1e6")),
            ((2000, 2500), (50, 100_000_000))
        );
        for text in ["whole", "radius:0.01,0.29", "spectator:20.5,1000000"] {
            let view: View = text.parse().unwrap();
            assert_eq!((view.to_string().as_str(), view.tags), (text, Tags::MAX));
        }
        for text in [
            "",
            "Whole",
            "whole:1,2",
            "radius:",
            "radius:1",
            "radius:2,1",
            "radius:0,1",
            "radius:1,NaN",
            "radius:1,inf",
            "radius:1,1000001",
            "spectator:1,2,3",
            "camera",
        ] {
            assert_eq!(text.parse::<View>(), Err(ViewError), "{text}");
        }
        assert!(ViewError.to_string().contains("0.01 to 1000000"));
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
