//! Which slots changed since each base of one tick.
//!
//! The OR of the dirty masks between a base and the newest frame, made for the first session on that base and used by all
//! others. Invariant: what is kept holds for one frame; [`Changes::begin_tick`] lets it go and keeps its memory.

use crate::sequence::Tick;
use crate::state::slots::SlotSet;

use super::arena::Arena;

/// Changes by base.
#[derive(Debug, Default)]
pub struct Changes {
    known: Vec<(Tick, SlotSet)>,
    used: usize,
}

impl Changes {
    /// A new frame: nothing found for the last one holds.
    pub fn begin_tick(&mut self) {
        self.used = 0;
    }

    /// Slots that changed after `base` up to the newest frame of `arena`. `None` when a frame in between has left.
    pub fn since(&mut self, base: Tick, arena: &Arena) -> Option<&SlotSet> {
        let known = self.known.iter().take(self.used);
        let place = match known.map(|(tick, _)| *tick).position(|tick| tick == base) {
            Some(place) => place,
            None => {
                if self.used == self.known.len() {
                    self.known.push((base, SlotSet::default()));
                }
                let (tick, changed) = self.known.get_mut(self.used)?;
                if !arena.changed_since(base, changed) {
                    return None;
                }
                *tick = base;
                self.used += 1;
                self.used - 1
            }
        };
        self.known.get(place).map(|(_, changed)| changed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::tests::{moved, world};
    use super::*;

    /// What is found is what the arena says, asked once or again, and not after the tick it was found for.
    #[test]
    fn changes_hold_for_one_tick() {
        let (mut world, first) = world(4, Tick(1));
        let mut arena = Arena::new(4);
        arena.publish(first);
        let mut changes = Changes::default();
        for step in 2..9u32 {
            arena.publish(
                world
                    .advance(Tick(step), &moved(u64::from(step), [step % 4], step))
                    .unwrap(),
            );
            changes.begin_tick();
            for back in [1, 2, 1, 3, 9, 2] {
                let base = Tick(step).minus(back);
                let mut expected = SlotSet::default();
                let whole = arena.changed_since(base, &mut expected);
                assert_eq!(
                    changes.since(base, &arena),
                    whole.then_some(&expected),
                    "{base:?} at {step}"
                );
            }
        }
    }
}
