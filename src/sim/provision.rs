//! What a run's relay has for its clients: bytes, and a view to begin with.

use super::dice::Dice;
use super::role::Role;
use super::scenario::QUIET_US;
use super::settings::SimSettings;

/// Bytes of budget that an entity takes while the world is at rest: its record several times, headers among them.
const QUIET_BYTES: u64 = 400;

/// What the relay is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Provision {
    /// Bytes a second that each client may be sent; `None` for the relay's default.
    pub budget_bytes_per_s: Option<u64>,
    /// Bytes a second that all may be sent together.
    pub egress_bytes_per_s: Option<u64>,
    /// What a client sees until it is told otherwise; the whole world for `None`.
    pub view: Option<Role>,
}

impl Provision {
    /// Draws it.
    #[must_use]
    pub fn draw(dice: &mut Dice, settings: &SimSettings, clients: usize) -> Provision {
        let budget = match dice.up_to(3) {
            0 | 1 => None,
            2 => Some(dice.mostly_small(3_000, 64_000)),
            _ => Some(dice.mostly_small(10_000, 512_000)),
        };
        let each = dice.mostly_small(6_000, 100_000);
        let egress = dice.chance(0.15).then(|| each * clients as u64);
        let view = dice.chance(0.25).then(|| Role::ALL[1 + dice.index(3)]);
        // What a flipped bit did is healed by a complete view at the latest, and a small budget delays that.
        let drawn = settings.role.is_none() && settings.budget.is_none() && settings.flips_per_minute <= 0.0;
        Provision {
            budget_bytes_per_s: settings.budget.or(budget.filter(|_| drawn)),
            egress_bytes_per_s: egress.filter(|_| drawn),
            view: view.filter(|_| settings.role.is_none()),
        }
    }

    /// How long the world rests at the end, so that all can be said, microseconds.
    #[must_use]
    pub fn quiet_us(&self, entities: usize) -> u64 {
        let rate = self
            .budget_bytes_per_s
            .unwrap_or(u64::MAX)
            .min(self.egress_bytes_per_s.map_or(u64::MAX, |cap| cap / 8));
        QUIET_US + entities as u64 * QUIET_BYTES * 1_000_000 / rate.max(1)
    }
}
