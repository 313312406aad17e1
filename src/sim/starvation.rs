//! How long a member of a view that changed waits for its next record (SPEC CTL4).
//!
//! **Bound**, as `relay::priority` states it: `OVERDUE + n x b / (Y / 2)` for each try, with n members, b bytes of a record
//! at the most and Y bytes a second for bodies, of which headers take half where the rate is small; as many tries as
//! make it likely to get through the loss, and a round trip. A wait is counted while snapshots come.

use std::collections::HashMap;

use super::hasher::EntityHasher;
use crate::limits::OVERDUE_US;
use crate::sequence::Tick;
use crate::state::entity::Entity;

/// Bytes of a record that goes whole, at the most.
const RECORD_BYTES: u64 = 60;
/// What the stated bound is multiplied with: turns of the pace and the loss of whole seconds are not in it.
const GENEROUS: u64 = 2;
/// Tries after which a record has got through, of 1,000,000, all but one.
const MISSED: f64 = 1e-6;

/// Who waits, and since when on the clock of looks.
#[derive(Debug, Default)]
pub struct Starvation {
    waits: HashMap<Entity, (Tick, u64), EntityHasher>,
    /// The longest wait.
    pub worst_us: u64,
}

/// What the bound is made of.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Share of datagrams lost on the way down.
    pub loss: f64,
    /// Round trip.
    pub round_trip_us: u64,
    /// Time between ticks.
    pub period_us: u64,
}

impl Means {
    /// The longest that one of `members` may wait.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn bound_us(&self, members: usize) -> u64 {
        let loss = self.loss.clamp(0.01, 0.9);
        let mut tries = 1.0;
        let mut missed = loss;
        while missed > MISSED {
            missed *= loss;
            tries += 1.0;
        }
        let bodies = self.bytes_per_s as f64 * (1.0 - loss.min(0.5) / 2.0) / 2.0;
        let queue_us = members as f64 * RECORD_BYTES as f64 / (bodies / 2.0) * 1e6;
        let try_us = f64::from(OVERDUE_US) + queue_us + 2.0 * self.period_us as f64;
        GENEROUS * ((try_us * tries) as u64 + self.round_trip_us)
    }
}

impl Starvation {
    /// All begins anew: another session epoch, or a pause.
    pub fn forget(&mut self) {
        self.waits.clear();
    }

    /// Looks at everybody shown whose record is not the newest, with the snapshot it is of. Who waits for too long, once.
    pub fn look(
        &mut self,
        clock_us: u64,
        behind: impl Iterator<Item = (Entity, Tick)>,
        bound_us: u64,
    ) -> Vec<(Entity, u64)> {
        let old = core::mem::take(&mut self.waits);
        let mut too_long = Vec::new();
        for (entity, as_of) in behind {
            let since_us = match old.get(&entity) {
                Some((before, since_us)) if *before == as_of => *since_us,
                _ => clock_us,
            };
            let waited_us = clock_us.saturating_sub(since_us);
            self.worst_us = self.worst_us.max(waited_us);
            if waited_us > bound_us {
                too_long.push((entity, waited_us));
            }
            let since_us = if waited_us > bound_us { clock_us } else { since_us };
            self.waits.insert(entity, (as_of, since_us));
        }
        too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_past_the_bound_is_named() {
        let means = Means {
            bytes_per_s: 64_000,
            loss: 0.0,
            round_trip_us: 50_000,
            period_us: 50_000,
        };
        let bound_us = means.bound_us(20);
        assert!((1_000_000..8_000_000).contains(&bound_us), "{bound_us}");
        assert!(Means { loss: 0.3, ..means }.bound_us(20) > 3 * bound_us);
        let (waits, comes) = (Entity { id: 1, generation: 0 }, Entity { id: 2, generation: 0 });
        let mut starvation = Starvation::default();
        let mut named = Vec::new();
        for step in 0..100u32 {
            let clock_us = u64::from(step) * 100_000;
            let behind = [(waits, Tick(7)), (comes, Tick(step))];
            named.extend(starvation.look(clock_us, behind.into_iter(), 3_000_000));
        }
        assert!(
            !named.is_empty() && named.iter().all(|(entity, _)| *entity == waits),
            "{named:?}"
        );
        assert!(starvation.worst_us > 3_000_000);
    }
}
