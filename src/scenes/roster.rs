//! The players of a scene: who has joined, what they want, what they are to be told.
//!
//! Invariants: everything goes in the order in which it was heard, or by key, so a scene stays a function of what it
//! heard; an input counts as processed whether it made sense or not, so that a client never repeats one for ever.

use std::collections::{BTreeMap, VecDeque};

use super::input::Input;
use crate::limits::{DIRECTIVES_TICK_BYTES_MAX, SUBSCRIBER_PLAYERS_MAX};
use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent, PlayerId};
use crate::state::view::View;

/// Players of one scene, of all relays together; who comes above is not heard.
pub const PLAYERS_MAX: usize = SUBSCRIBER_PLAYERS_MAX;
/// Inputs of one player that wait for a tick; above, the newest replaces the one before.
pub const INPUTS_WAITING_MAX: usize = 64;

/// A player, by the relay's subscription and the relay's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlayerKey {
    /// The subscription its relay has.
    pub subscriber: u64,
    /// The relay's number.
    pub player: PlayerId,
}

/// What was heard of inputs, by what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Taken.
    pub taken: u64,
    /// Ignored: no input by its bytes.
    pub malformed: u64,
    /// Ignored: at or below a number that was processed.
    pub stale: u64,
    /// Ignored: of a player that is not here.
    pub unknown: u64,
    /// Lost on the way, as the relay said.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Player {
    /// What it sits in, as its scene counts; `None` until the scene has made room.
    seat: Option<usize>,
    inputs: Vec<Input>,
    processed: u32,
    /// A number was processed that was not told yet.
    owed: bool,
}

/// The players.
#[derive(Debug, Default)]
pub struct Roster {
    players: BTreeMap<PlayerKey, Player>,
    /// Who waits for a seat; some may have left.
    arrivals: VecDeque<PlayerKey>,
    /// Who is to be told again what it has.
    returns: Vec<PlayerKey>,
    /// Seats that were left.
    departures: Vec<(PlayerKey, usize)>,
    orders: VecDeque<(u64, Directive)>,
    counts: InputCounts,
    /// The view of who joins; `None`: the one that their relay is set to.
    pub view: Option<View>,
}

impl Roster {
    /// Takes in what a relay tells.
    pub fn hear(&mut self, subscriber: u64, event: PlayerEvent) {
        let key = PlayerKey {
            subscriber,
            player: event.player(),
        };
        match event {
            PlayerEvent::Joined(..) => self.join(key),
            PlayerEvent::Left(_) => self.leave(key),
            PlayerEvent::Input {
                sequence, payload, ..
            } => self.input(key, sequence, &payload),
            PlayerEvent::InputsLost { first, count, .. } => {
                self.counts.lost += u64::from(count);
                let last = first.saturating_add(count.saturating_sub(1));
                self.process(key, last);
            }
            PlayerEvent::Camera { .. } => {}
        }
    }

    /// What was heard of inputs.
    #[must_use]
    pub fn counts(&self) -> InputCounts {
        self.counts
    }

    fn join(&mut self, key: PlayerKey) {
        if self.players.contains_key(&key) {
            self.returns.push(key);
        } else if self.players.len() < PLAYERS_MAX {
            self.players.insert(key, Player::default());
            self.arrivals.push_back(key);
        }
    }

    fn leave(&mut self, key: PlayerKey) {
        let Some(player) = self.players.remove(&key) else {
            return;
        };
        match player.seat {
            Some(seat) => self.departures.push((key, seat)),
            None => self.arrivals.retain(|waiting| *waiting != key),
        }
        self.orders
            .retain(|(subscriber, order)| (*subscriber, order.player) != (key.subscriber, key.player));
    }

    fn input(&mut self, key: PlayerKey, sequence: u32, payload: &[u8]) {
        if !self.process(key, sequence) {
            return;
        }
        let Some(input) = Input::decode(payload) else {
            self.counts.malformed += 1;
            return;
        };
        self.counts.taken += 1;
        if let Some(player) = self.players.get_mut(&key) {
            player.inputs.truncate(INPUTS_WAITING_MAX - 1);
            player.inputs.push(input);
        }
    }

    /// Notes that a number is in the state of the next tick; false when that is nothing new.
    fn process(&mut self, key: PlayerKey, sequence: u32) -> bool {
        let Some(player) = self.players.get_mut(&key) else {
            self.counts.unknown += 1;
            return false;
        };
        if sequence <= player.processed {
            self.counts.stale += 1;
            return false;
        }
        (player.processed, player.owed) = (sequence, true);
        true
    }

    /// Who left since the last call, with its seat, in order.
    pub fn take_departures(&mut self) -> Vec<(PlayerKey, usize)> {
        core::mem::take(&mut self.departures)
    }

    /// Who has said again that it is here, with its seat.
    pub fn take_returns(&mut self) -> Vec<(PlayerKey, usize)> {
        let returns = core::mem::take(&mut self.returns);
        let seated = |key: PlayerKey| Some((key, self.players.get(&key)?.seat?));
        returns.into_iter().filter_map(seated).collect()
    }

    /// Who waits longest for a seat.
    #[must_use]
    pub fn arrival(&self) -> Option<PlayerKey> {
        self.arrivals.front().copied()
    }

    /// Gives who waits longest its seat.
    pub fn seat(&mut self, seat: usize) {
        let key = self.arrivals.pop_front();
        if let Some(player) = key.and_then(|key| self.players.get_mut(&key)) {
            player.seat = Some(seat);
        }
    }

    /// Puts the inputs of a player since the last call into `inputs`, oldest first.
    pub fn take_inputs(&mut self, key: PlayerKey, inputs: &mut Vec<Input>) {
        inputs.clear();
        if let Some(player) = self.players.get_mut(&key) {
            inputs.append(&mut player.inputs);
        }
    }

    /// Tells a player its entity and, where given, its view.
    pub fn assign(&mut self, key: PlayerKey, entity: Entity, view: Option<View>) {
        let entity = Some(entity);
        self.order(key, Order::Assign { entity, view });
    }

    /// Tells a player something.
    pub fn message(&mut self, key: PlayerKey, kind: u16, payload: Vec<u8>) {
        self.order(key, Order::Message { kind, payload });
    }

    fn order(&mut self, key: PlayerKey, order: Order) {
        let player = key.player;
        self.orders
            .push_back((key.subscriber, Directive { player, order }));
    }

    /// Adds what concerns players, as much as a tick may hold; the rest comes with the next. How far inputs are
    /// processed comes last.
    pub fn take_directives(&mut self, out: &mut Vec<(u64, Directive)>) {
        let mut room = DIRECTIVES_TICK_BYTES_MAX;
        let mut fits = |directive: &Directive| {
            let left = room.checked_sub(directive.bytes());
            room = left.unwrap_or(room);
            left.is_some()
        };
        while self.orders.front().is_some_and(|(_, directive)| fits(directive)) {
            out.extend(self.orders.pop_front());
        }
        if !self.orders.is_empty() {
            return;
        }
        for (key, player) in self.players.iter_mut().filter(|(_, player)| player.owed) {
            let directive = Directive {
                player: key.player,
                order: Order::Processed(player.processed),
            };
            if !fits(&directive) {
                return;
            }
            player.owed = false;
            out.push((key.subscriber, directive));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::heading::Heading;

    fn input(sequence: u32, payload: &[u8]) -> PlayerEvent {
        PlayerEvent::Input {
            player: 7,
            sequence,
            payload: payload.to_vec(),
        }
    }

    const KEY: PlayerKey = PlayerKey {
        subscriber: 1,
        player: 7,
    };

    fn processed(roster: &mut Roster) -> Vec<(u64, Order)> {
        let mut out = Vec::new();
        roster.take_directives(&mut out);
        out.into_iter()
            .map(|(to, directive)| (to, directive.order))
            .collect()
    }

    /// SPEC PRE2, PRE4: in order, once, and answered with the last number, malformed and lost ones included.
    #[test]
    fn pre2_inputs_are_taken_once_in_order_and_answered() {
        let mut roster = Roster::default();
        let pressed = |part| Input {
            heading: Heading(part),
            ..Input::default()
        };
        roster.hear(1, input(1, &pressed(1).encode()));
        roster.hear(1, PlayerEvent::Joined(7, 0));
        assert_eq!(processed(&mut roster), []);
        for (sequence, part) in [(1, 1), (2, 2), (2, 3), (1, 4), (5, 5)] {
            roster.hear(1, input(sequence, &pressed(part).encode()));
        }
        roster.hear(1, input(6, &[1, 2, 3]));
        let mut inputs = vec![Input::default(); 3];
        roster.take_inputs(KEY, &mut inputs);
        assert_eq!(inputs, [pressed(1), pressed(2), pressed(5)]);
        assert_eq!(processed(&mut roster), [(1, Order::Processed(6))]);
        assert_eq!(processed(&mut roster), []);
        let lost = |first, count| PlayerEvent::InputsLost {
            player: 7,
            first,
            count,
        };
        roster.hear(1, lost(7, 3));
        roster.hear(1, lost(u32::MAX, u32::MAX));
        assert_eq!(processed(&mut roster), [(1, Order::Processed(u32::MAX))]);
        let counts = roster.counts();
        assert_eq!(
            (counts.taken, counts.malformed, counts.stale, counts.unknown),
            (3, 1, 2, 1)
        );
    }

    #[test]
    fn a_player_is_known_by_relay_and_number_and_who_leaves_hears_no_more() {
        let mut roster = Roster::default();
        for subscriber in [1, 2, 2] {
            roster.hear(subscriber, PlayerEvent::Joined(7, 0));
        }
        assert_eq!(roster.arrival(), Some(KEY));
        roster.seat(4);
        roster.assign(KEY, Entity::default(), None);
        assert_eq!(
            roster.take_returns(),
            [],
            "who has no seat yet has nothing to be told again"
        );
        roster.hear(1, PlayerEvent::Joined(7, 0));
        assert_eq!(roster.take_returns(), [(KEY, 4)]);
        roster.hear(1, PlayerEvent::Left(7));
        roster.hear(1, PlayerEvent::Left(7));
        assert_eq!(roster.take_departures(), [(KEY, 4)]);
        assert_eq!(processed(&mut roster), []);
        roster.hear(2, PlayerEvent::Left(7));
        assert_eq!((roster.arrival(), roster.take_departures()), (None, vec![]));
    }

    /// What a tick has no room for comes with the next, in order.
    #[test]
    fn directives_above_the_bound_wait() {
        let mut roster = Roster::default();
        let many = DIRECTIVES_TICK_BYTES_MAX / crate::limits::EVENT_OVERHEAD_BYTES + 10;
        for _ in 0..many {
            roster.message(KEY, 1, Vec::new());
        }
        assert_eq!(processed(&mut roster).len(), many - 10);
        assert_eq!(processed(&mut roster).len(), 10);
    }
}
