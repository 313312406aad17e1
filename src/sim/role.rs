//! What the clients of a run may see, and how that changes while they play: drawn by seed.
//!
//! Reaches are drawn as shares of the world's width, since worlds are of any size: from next to nothing to more than all
//! of it.

use super::dice::Dice;
use crate::limits::VIEW_RANGE_MAX_CM;
use crate::state::schema::Schema;
use crate::state::view::{Range, Scope, Tags, View};

/// Tag bits of the synthetic world: so few that many entities share one.
pub const TAGS: Tags = 0b1111;

/// What kind of view a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The whole world.
    Whole,
    /// What its tags permit, everywhere.
    Tagged,
    /// Around its own entity.
    Owner,
    /// Around a camera that it moves freely.
    Camera,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Whole, Role::Tagged, Role::Owner, Role::Camera];

    /// The word in summaries and flags.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Role::Whole => "whole",
            Role::Tagged => "tagged",
            Role::Owner => "owner",
            Role::Camera => "camera",
        }
    }

    /// A view of this kind over a world of `schema`.
    #[must_use]
    pub fn draw(self, dice: &mut Dice, schema: &Schema) -> View {
        let reach = range(dice, schema);
        let some = Tags::try_from(dice.up_to(u64::from(TAGS))).unwrap_or(TAGS);
        let tags = if dice.chance(0.5) { Tags::MAX } else { some };
        match self {
            Role::Whole => View::WHOLE,
            Role::Tagged => View {
                scope: Scope::Whole,
                tags: some,
            },
            Role::Owner => View {
                scope: Scope::Owner(reach),
                tags,
            },
            Role::Camera => View {
                scope: Scope::Camera(reach),
                tags,
            },
        }
    }
}

/// A range from a thousandth of the world's width to nearly twice that.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn range(dice: &mut Dice, schema: &Schema) -> Range {
    let width = schema
        .position
        .iter()
        .map(|axis| axis.max - axis.min)
        .fold(0.0, f64::max);
    let share = if dice.chance(0.1) {
        0.001
    } else {
        let unit = dice.unit();
        0.03 + 1.8 * unit * unit
    };
    let most = f64::from(VIEW_RANGE_MAX_CM);
    let enter = (width * share * 100.0).clamp(1.0, most) as u32;
    let leave = (f64::from(enter) * dice.real(1.0, 1.3)).clamp(f64::from(enter), most) as u32;
    Range::new(enter, leave).expect("the bounds are kept")
}

/// What one client is over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RolePlan {
    /// What it begins as.
    pub role: Role,
    /// It owns an entity, where its role does not ask for one.
    pub owns: bool,
    /// Changes of entity or view a second.
    pub changes: f64,
    /// Messages to it alone a second.
    pub messages: f64,
    /// Inputs it pushes a second.
    pub inputs_hz: f64,
    /// It says where its camera is, although its view may be another.
    pub films: bool,
}

impl RolePlan {
    /// Draws the part of one client; `forced` is its role then, and it stays.
    #[must_use]
    pub fn draw(seed: u64, client: usize, forced: Option<Role>, calm: bool) -> RolePlan {
        let mut dice = Dice::new(seed, "role", client as u64);
        let drawn = Role::ALL[dice.index(Role::ALL.len())];
        let changes = if dice.chance(0.5) {
            dice.real(0.0, 0.5)
        } else {
            0.0
        };
        let role = forced.unwrap_or(drawn);
        let plan = RolePlan {
            role,
            owns: dice.chance(0.3),
            changes: if calm || forced.is_some() { 0.0 } else { changes },
            messages: if dice.chance(0.5) {
                dice.real(0.0, 3.0)
            } else {
                0.0
            },
            inputs_hz: if dice.chance(0.6) {
                dice.real(0.0, 60.0)
            } else {
                0.0
            },
            films: role == Role::Camera || dice.chance(0.3),
        };
        match forced {
            Some(Role::Whole) => RolePlan { owns: false, ..plan },
            _ => plan,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::schema::tests::full_schema;

    /// From none to all of the world: ranges small and large, with tags and without.
    #[test]
    fn views_are_of_every_kind_and_reach() {
        let (schema, mut dice) = (full_schema(), Dice::new(1, "views", 0));
        let (mut least, mut most, mut narrow) = (u32::MAX, 0, 0);
        for _ in 0..300 {
            let view = Role::Camera.draw(&mut dice, &schema);
            let range = view.scope.range().expect("a camera has a range");
            (least, most) = (least.min(range.enter_cm()), most.max(range.enter_cm()));
            narrow += usize::from(view.tags != Tags::MAX);
            assert!(matches!(
                Role::Owner.draw(&mut dice, &schema).scope,
                Scope::Owner(_)
            ));
            assert_eq!(Role::Tagged.draw(&mut dice, &schema).scope, Scope::Whole);
            assert!(Role::Whole.draw(&mut dice, &schema).is_whole());
        }
        let width = schema
            .position
            .iter()
            .map(|axis| axis.max - axis.min)
            .fold(0.0, f64::max)
            * 100.0;
        assert!(
            f64::from(least) < width / 500.0 && f64::from(most) > width,
            "{least} to {most}"
        );
        assert!((50..250).contains(&narrow), "{narrow}");
    }
}
