//! Seats of players in a world that knows nothing of them: a recording, a scene without players.
//!
//! > [`hear`](Seats::hear) what players did, then [`direct`](Seats::direct) them once for each tick, after the world has
//! > it and before it is sent.
//!
//! Invariants: a player who is there has a living entity, round robin, as long as anybody lives, and another as soon as
//! its own ends; every input heard before a tick is processed in it.

use std::collections::BTreeMap;

use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent, PlayerId};
use crate::state::view::View;
use crate::state::world::World;

/// One player.
#[derive(Debug, Default)]
struct Seat {
    entity: Option<Entity>,
    /// It was told what it may see, and whether it has an entity.
    assigned: bool,
    /// The last input heard, where that was not answered yet.
    heard: Option<u32>,
}

/// Who sits where, by subscriber and player.
#[derive(Debug)]
pub(super) struct Seats {
    view: Option<View>,
    seats: BTreeMap<(u64, PlayerId), Seat>,
    /// Seats given so far.
    given: usize,
}

impl Seats {
    /// No players yet; each will be assigned `view` with its first entity.
    pub(super) fn new(view: Option<View>) -> Seats {
        Seats {
            view,
            seats: BTreeMap::new(),
            given: 0,
        }
    }

    /// Takes what a player did.
    pub(super) fn hear(&mut self, subscriber: u64, event: &PlayerEvent) {
        let key = (subscriber, event.player());
        match event {
            PlayerEvent::Joined(..) => self.seats.entry(key).or_default().assigned = false,
            PlayerEvent::Left(_) => {
                self.seats.remove(&key);
            }
            PlayerEvent::Input { sequence, .. } => self.note(key, *sequence),
            PlayerEvent::InputsLost { first, count, .. } => self.note(key, first.saturating_add(*count - 1)),
            PlayerEvent::Camera { .. } => {}
        }
    }

    fn note(&mut self, key: (u64, PlayerId), sequence: u32) {
        if let Some(seat) = self.seats.get_mut(&key) {
            seat.heard = Some(sequence);
        }
    }

    /// Says what players are to be told with the tick after which the world is this.
    pub(super) fn direct(&mut self, world: &World, out: &mut Vec<(u64, Directive)>) {
        let mut living: Option<Vec<Entity>> = None;
        for ((subscriber, player), seat) in &mut self.seats {
            let mut say = |order| {
                let player = *player;
                out.push((*subscriber, Directive { player, order }));
            };
            let lives = seat.entity.is_some_and(|entity| world.record(entity).is_some());
            if !lives {
                let living = living.get_or_insert_with(|| world.entities().collect());
                let next = living.get(self.given % living.len().max(1)).copied();
                self.given = self.given.wrapping_add(usize::from(next.is_some()));
                seat.assigned &= seat.entity == next;
                seat.entity = next;
            }
            if !core::mem::replace(&mut seat.assigned, true) {
                let (entity, view) = (seat.entity, self.view);
                say(Order::Assign { entity, view });
            }
            if let Some(sequence) = seat.heard.take() {
                say(Order::Processed(sequence));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sequence::Tick;
    use crate::state::schema::tests::full_schema;
    use crate::state::update::{Despawn, Spawn, TickUpdate};

    fn entity(id: u32) -> Entity {
        Entity { id, generation: 0 }
    }

    fn advance(world: &mut World, tick: u32, spawned: &[u32], despawned: &[u32]) {
        let spawn = |id: &u32| Spawn {
            entity: entity(*id),
            class: 0,
            at_us: 0,
        };
        let despawn = |id: &u32| Despawn {
            entity: entity(*id),
            at_us: 0,
            reason: 0,
        };
        let update = TickUpdate {
            origin_tick: u64::from(tick),
            spawned: spawned.iter().map(spawn).collect(),
            despawned: despawned.iter().map(despawn).collect(),
            ..TickUpdate::default()
        };
        assert!(world.advance(Tick(tick), &update).is_some() && world.refused().is_empty());
    }

    fn said(seats: &mut Seats, world: &World) -> Vec<(u64, PlayerId, Order)> {
        let mut out = Vec::new();
        seats.direct(world, &mut out);
        out.into_iter()
            .map(|(subscriber, Directive { player, order })| (subscriber, player, order))
            .collect()
    }

    /// SPEC PRE2, PRE4: who joins gets a living entity, the next one each; another when that ends; inputs are answered
    /// once.
    #[test]
    fn pre4_who_joins_is_seated_round_robin_and_moved_when_the_entity_ends() {
        let mut world = World::new(Arc::new(full_schema()), 1, 8);
        let view = Some("radius:1,2".parse().unwrap());
        let mut seats = Seats::new(view);
        let assign = |subscriber, player, id: Option<u32>| {
            let order = Order::Assign {
                entity: id.map(entity),
                view,
            };
            (subscriber, player, order)
        };
        seats.hear(1, &PlayerEvent::Joined(5, 0));
        assert_eq!(said(&mut seats, &world), [assign(1, 5, None)]);
        assert_eq!(said(&mut seats, &world), []);
        advance(&mut world, 1, &[1, 2], &[]);
        seats.hear(2, &PlayerEvent::Joined(5, 0));
        seats.hear(2, &PlayerEvent::Joined(6, 0));
        assert_eq!(
            said(&mut seats, &world),
            [
                assign(1, 5, Some(1)),
                assign(2, 5, Some(2)),
                assign(2, 6, Some(1))
            ]
        );
        let payload = vec![1];
        let (player, sequence) = (6, 4);
        seats.hear(
            2,
            &PlayerEvent::Input {
                player,
                sequence,
                payload,
            },
        );
        let (first, count) = (5, 2);
        seats.hear(2, &PlayerEvent::InputsLost { player, first, count });
        seats.hear(1, &PlayerEvent::Joined(5, 0));
        assert_eq!(
            said(&mut seats, &world),
            [assign(1, 5, Some(1)), (2, 6, Order::Processed(6))],
            "who joins again is told again"
        );
        seats.hear(1, &PlayerEvent::Left(5));
        advance(&mut world, 2, &[], &[1]);
        assert_eq!(said(&mut seats, &world), [assign(2, 6, Some(2))]);
        advance(&mut world, 3, &[], &[2]);
        assert_eq!(said(&mut seats, &world), [assign(2, 5, None), assign(2, 6, None)]);
    }
}
