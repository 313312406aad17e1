//! The players behind an origin's subscribers: who is there, and what they did, in order.
//!
//! > Give [`receive`](Players::receive) every event of a subscriber and [`close`](Players::close) the subscriber that is
//! > gone; take what the game is to hear with [`next`](Players::next).
//!
//! Invariants: what waits is bounded; a join and a leave are never lost, they come later where there is no room; of a
//! player's inputs each comes once and in order, and those that there was no room for are told as lost.

use std::collections::{BTreeMap, VecDeque};

use super::subscribers::SubscriberId;
use crate::limits::{PLAYER_EVENTS_MAX, SUBSCRIBER_PLAYERS_MAX};
use crate::state::player::{ClientId, PlayerEvent, PlayerId};

/// What an origin has counted of its players. Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerCounts {
    /// Inputs and cameras for which there was no room.
    pub dropped: u64,
    /// Inputs of numbers that had come already.
    pub repeated: u64,
    /// Events of players who had not joined.
    pub unknown: u64,
    /// Joins beyond what one subscriber may have.
    pub refused: u64,
}

/// One player of one subscriber.
#[derive(Debug, Default)]
struct Player {
    /// Who it is at the studio's backend, as the relay says.
    client: ClientId,
    /// The game has heard of the join.
    told: bool,
    /// The relay has said that the player left; the game has not heard it.
    left: bool,
    /// It is in the list of those whom something is owed.
    owed: bool,
    /// Number of the first input that the game has heard nothing of; `None` before the first.
    heard: Option<u64>,
    /// One past the number of the last input that came, or was lost.
    reached: u64,
}

/// All players of an origin.
#[derive(Debug, Default)]
pub struct Players {
    members: BTreeMap<SubscriberId, BTreeMap<PlayerId, Player>>,
    queue: VecDeque<(SubscriberId, PlayerEvent)>,
    /// For whom something waits that had no room.
    owed: VecDeque<(SubscriberId, PlayerId)>,
    counts: PlayerCounts,
}

/// Most events that settling one player, and one event more, put into the queue.
const STEP: usize = 4;
const _: () = assert!(STEP < PLAYER_EVENTS_MAX);

impl Players {
    /// Takes what a subscriber says of one of its players.
    pub fn receive(&mut self, id: SubscriberId, event: PlayerEvent) {
        match event {
            PlayerEvent::Joined(player, client) => self.join(id, player, client),
            PlayerEvent::Left(player) => self.leave(id, player),
            PlayerEvent::Input { player, sequence, .. } => {
                self.inputs(id, player, sequence, 1, Some(event));
            }
            PlayerEvent::InputsLost { player, first, count } => self.inputs(id, player, first, count, None),
            PlayerEvent::Camera { player, .. } => self.camera(id, player, event),
        }
    }

    /// A subscriber is gone, and so are its players.
    pub fn close(&mut self, id: SubscriberId) {
        let players = self.members.get(&id).into_iter().flat_map(BTreeMap::keys);
        for player in players.copied().collect::<Vec<_>>() {
            self.leave(id, player);
        }
    }

    /// What the game is to hear next.
    #[allow(clippy::should_implement_trait)] // More may come after `None`.
    pub fn next(&mut self) -> Option<(SubscriberId, PlayerEvent)> {
        while self.has_room()
            && let Some((id, player)) = self.owed.pop_front()
        {
            if let Some(known) = self.player(id, player) {
                known.owed = false;
            }
            self.settle(id, player);
        }
        self.queue.pop_front()
    }

    /// True when this subscriber's player is there.
    #[must_use]
    pub fn is_there(&self, id: SubscriberId, player: PlayerId) -> bool {
        let players = self.members.get(&id);
        players
            .and_then(|players| players.get(&player))
            .is_some_and(|player| !player.left)
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> PlayerCounts {
        self.counts
    }

    fn has_room(&self) -> bool {
        PLAYER_EVENTS_MAX - self.queue.len() >= STEP
    }

    fn player(&mut self, id: SubscriberId, player: PlayerId) -> Option<&mut Player> {
        self.members.get_mut(&id)?.get_mut(&player)
    }

    fn join(&mut self, id: SubscriberId, player: PlayerId, client: ClientId) {
        let players = self.members.entry(id).or_default();
        if players.len() >= SUBSCRIBER_PLAYERS_MAX && !players.contains_key(&player) {
            self.counts.refused += 1;
            return;
        }
        let known = players.entry(player).or_default();
        (known.left, known.client) = (false, client);
        self.settle_or_owe(id, player);
    }

    fn leave(&mut self, id: SubscriberId, player: PlayerId) {
        match self.player(id, player) {
            Some(known) => known.left = true,
            None => return self.counts.unknown += 1,
        }
        self.settle_or_owe(id, player);
    }

    /// Inputs from `first` on are over: the one in `input`, or `count` that are lost.
    fn inputs(
        &mut self,
        id: SubscriberId,
        player: PlayerId,
        first: u32,
        count: u32,
        input: Option<PlayerEvent>,
    ) {
        let first = u64::from(first);
        let end = first + u64::from(count);
        let Some(known) = self.player(id, player).filter(|known| !known.left) else {
            return self.counts.unknown += 1;
        };
        if end <= known.reached {
            return self.counts.repeated += 1;
        }
        known.heard.get_or_insert(first);
        known.reached = if input.is_some() { first } else { end };
        if !self.settle_or_owe(id, player) {
            self.counts.dropped += u64::from(input.is_some());
        } else if let Some(input) = input {
            self.queue.push_back((id, input));
            if let Some(known) = self.player(id, player) {
                known.heard = Some(end);
            }
        }
        if let Some(known) = self.player(id, player) {
            known.reached = end;
        }
    }

    fn camera(&mut self, id: SubscriberId, player: PlayerId, event: PlayerEvent) {
        if !self.is_there(id, player) {
            self.counts.unknown += 1;
        } else if self.settle_or_owe(id, player) {
            self.queue.push_back((id, event));
        } else {
            self.counts.dropped += 1;
        }
    }

    /// Queues what the game has not heard of a player; false where there is no room and it has to wait.
    fn settle_or_owe(&mut self, id: SubscriberId, player: PlayerId) -> bool {
        if self.has_room() {
            self.settle(id, player);
            return true;
        }
        if let Some(known) = self.player(id, player)
            && !core::mem::replace(&mut known.owed, true)
        {
            self.owed.push_back((id, player));
        }
        false
    }

    /// Queues what the game has not heard of a player, which is at most three things.
    fn settle(&mut self, id: SubscriberId, player: PlayerId) {
        let Some(players) = self.members.get_mut(&id) else {
            return;
        };
        let Some(known) = players.get_mut(&player) else {
            return;
        };
        let stays = !known.left;
        if stays && !core::mem::replace(&mut known.told, true) {
            self.queue
                .push_back((id, PlayerEvent::Joined(player, known.client)));
        }
        if let Some(first) = known.heard.filter(|heard| known.told && *heard < known.reached) {
            known.heard = Some(known.reached);
            let lost = PlayerEvent::InputsLost {
                player,
                first: u32::try_from(first).unwrap_or(u32::MAX),
                count: u32::try_from(known.reached - first).unwrap_or(u32::MAX),
            };
            self.queue.push_back((id, lost));
        }
        if stays {
            return;
        }
        if known.told {
            self.queue.push_back((id, PlayerEvent::Left(player)));
        }
        if known.owed {
            // It stays while it is in the list of the owed, so that it is there once.
            *known = Player {
                left: true,
                owed: true,
                ..Player::default()
            };
            return;
        }
        players.remove(&player);
        if players.is_empty() {
            self.members.remove(&id);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
