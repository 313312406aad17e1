//! The players of a scene: who has joined, what they want, what they are to be told.
//!
//! Invariants: everything goes in the order in which it was heard, or by key, so a scene stays a function of what it
//! heard; an input counts as processed when its scene takes it, whether it made sense or not, so that a client never repeats
//! one for ever, and never before it is in the state that says so.

use std::collections::{BTreeMap, VecDeque};

use super::input::Input;
use crate::limits::{DIRECTIVES_TICK_BYTES_MAX, SUBSCRIBER_PLAYERS_MAX};
use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent, PlayerId};
use crate::state::view::View;

/// Players of one scene, of all relays together; who comes above is not heard.
pub const PLAYERS_MAX: usize = SUBSCRIBER_PLAYERS_MAX;
/// Inputs of one player that wait for a tick; above, the oldest goes. What made no sense or is lost waits for its turn too, as a
/// number.
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
    /// Numbers that were heard, with what is to be played of each.
    waiting: VecDeque<(u32, Option<Input>)>,
    /// The newest number heard.
    heard: u32,
    /// The newest one taken.
    processed: u32,
    /// A number was processed that was not told yet.
    owed: bool,
}

impl Player {
    /// Takes the oldest number that waits, and what is to be played of it.
    fn take(&mut self) -> Option<Option<Input>> {
        let (sequence, input) = self.waiting.pop_front()?;
        (self.processed, self.owed) = (sequence, true);
        Some(input)
    }
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
                self.wait(key, last, None);
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
        let input = Input::decode(payload);
        if self.wait(key, sequence, input) {
            let count = match input {
                Some(_) => &mut self.counts.taken,
                None => &mut self.counts.malformed,
            };
            *count += 1;
        }
    }

    /// A number waits for its turn; false when that is nothing new.
    fn wait(&mut self, key: PlayerKey, sequence: u32, input: Option<Input>) -> bool {
        let Some(player) = self.players.get_mut(&key) else {
            self.counts.unknown += 1;
            return false;
        };
        if sequence <= player.heard {
            self.counts.stale += 1;
            return false;
        }
        player.heard = sequence;
        if player.waiting.len() >= INPUTS_WAITING_MAX {
            player.waiting.pop_front();
        }
        player.waiting.push_back((sequence, input));
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
            while let Some(input) = player.take() {
                inputs.extend(input);
            }
        }
    }

    /// The oldest input of a player that waits, if it lasts no longer than `most_s`; what made no sense before it is passed.
    pub fn take_input(&mut self, key: PlayerKey, most_s: f64) -> Option<Input> {
        let player = self.players.get_mut(&key)?;
        while let Some((_, input)) = player.waiting.front() {
            if input.is_some_and(|input| input.seconds() > most_s) {
                return None;
            }
            if let Some(input) = player.take().flatten() {
                return Some(input);
            }
        }
        None
    }

    /// Passes over the oldest inputs of a player until those that wait last no longer than `most_s`.
    pub fn pass_inputs(&mut self, key: PlayerKey, most_s: f64) {
        let Some(player) = self.players.get_mut(&key) else {
            return;
        };
        let lasts = |(_, input): &(u32, Option<Input>)| input.map_or(0.0, |input| input.seconds());
        let mut all_s: f64 = player.waiting.iter().map(lasts).sum();
        while all_s > most_s
            && let Some(input) = player.take()
        {
            all_s -= input.map_or(0.0, |input| input.seconds());
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
        assert_eq!(processed(&mut roster), [], "not before it is its turn");
        roster.take_inputs(KEY, &mut inputs);
        assert_eq!(processed(&mut roster), [(1, Order::Processed(u32::MAX))]);
        let counts = roster.counts();
        assert_eq!(
            (counts.taken, counts.malformed, counts.stale, counts.unknown),
            (3, 1, 2, 1)
        );
    }

    /// SPEC PRE2: an input counts as processed when it is played and not before; one that lasts longer than there is time for waits.
    #[test]
    fn pre2_an_input_is_processed_when_it_is_played() {
        let mut roster = Roster::default();
        roster.hear(1, PlayerEvent::Joined(7, 0));
        let payload = Input::default().encode();
        roster.hear(1, input(1, &payload));
        roster.hear(1, input(2, &[9]));
        roster.hear(1, input(3, &payload));
        assert_eq!(roster.take_input(KEY, 0.049), None);
        assert_eq!(processed(&mut roster), []);
        assert_eq!(roster.take_input(KEY, 0.051), Some(Input::default()));
        assert_eq!(processed(&mut roster), [(1, Order::Processed(1))]);
        assert_eq!(roster.take_input(KEY, 0.0), None);
        assert_eq!(
            processed(&mut roster),
            [(1, Order::Processed(2))],
            "it was no input"
        );
        for sequence in 4..=10 {
            roster.hear(1, input(sequence, &payload));
        }
        roster.pass_inputs(KEY, 0.12);
        assert_eq!(processed(&mut roster), [(1, Order::Processed(8))], "two are left");
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
