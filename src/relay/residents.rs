//! Which session is a player's: of those that were heard the one opened last (THREATS 18).
//!
//! > [`order`](Residents::order) when a session is opened, [`settle`](Residents::settle) when its client is heard first,
//! > [`leave`](Residents::leave) when it ends; each shard takes [what was replaced](Residents::take_replaced) of its own.
//!
//! A player whose game crashed is back long before its old session is idle, and whoever stole a token plays in its place until the
//! player comes back. The token names the player; its newest session stays, the others are told that they were replaced. The number
//! 0 is nobody in particular: such sessions replace none.
//!
//! Invariants: a player has one session at most that is not told to go; one that was never heard replaces nobody.
//!
//! Memory: an entry for each session that was heard.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::state::player::ClientId;

/// The sessions of the players of a relay.
#[derive(Debug, Default)]
pub struct Residents {
    table: Mutex<Table>,
    /// Sessions that wait to be told, so that a shard need not lock to see that there are none.
    waiting: AtomicUsize,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    /// Connection and order.
    sessions: HashMap<ClientId, (u64, u64)>,
    replaced: Vec<u64>,
}

impl Residents {
    /// The order of a session that is opened now: later ones have higher ones.
    #[must_use]
    pub fn order(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The client of a session was heard: an older session of its player is replaced, or this one where it is the older.
    pub fn settle(&self, player: ClientId, connection: u64, order: u64) {
        if player == 0 {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = match table.sessions.get(&player).copied() {
            Some((known, _)) if known == connection => None,
            Some((_, newer)) if newer > order => Some(connection),
            before => {
                table.sessions.insert(player, (connection, order));
                before.map(|(connection, _)| connection)
            }
        };
        if let Some(replaced) = replaced {
            self.push(&mut table, replaced);
        }
    }

    /// A session is to go, at whichever shard it is.
    pub fn dismiss(&self, connection: u64) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        self.push(&mut table, connection);
    }

    fn push(&self, table: &mut Table, connection: u64) {
        table.replaced.push(connection);
        self.waiting.store(table.replaced.len(), Ordering::Release);
    }

    /// A session has ended.
    pub fn leave(&self, player: ClientId, connection: u64) {
        if player == 0 {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(table.sessions.get(&player), Some((known, _)) if *known == connection) {
            table.sessions.remove(&player);
        }
    }

    /// Takes the replaced sessions that `is_own` names.
    pub fn take_replaced(&self, is_own: impl Fn(u64) -> bool, mut each: impl FnMut(u64)) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.replaced.retain(|connection| {
            let own = is_own(*connection);
            if own {
                each(*connection);
            }
            !own
        });
        self.waiting.store(table.replaced.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(residents: &Residents, shard: u64) -> Vec<u64> {
        let mut all = Vec::new();
        residents.take_replaced(
            |connection| connection % 2 == shard,
            |connection| all.push(connection),
        );
        all
    }

    #[test]
    fn threats_18_the_newest_session_of_a_player_stays() {
        let residents = Residents::default();
        let mut orders = core::iter::repeat_with(|| residents.order());
        let mut next = || orders.next().unwrap_or(0);
        let first = next();
        residents.settle(7, 10, first);
        residents.settle(7, 10, first);
        residents.settle(8, 12, next());
        assert!(replaced(&residents, 0).is_empty());
        let (third, fourth) = (next(), next());
        residents.settle(7, 11, fourth);
        residents.settle(8, 14, next());
        assert_eq!(replaced(&residents, 1), [0; 0], "the other shard's");
        assert_eq!(replaced(&residents, 0), [10, 12]);
        assert_eq!(replaced(&residents, 0), [0; 0], "once");
        // One that was opened earlier and is heard later does not end the newer.
        residents.settle(7, 16, third);
        assert_eq!(replaced(&residents, 0), [16]);
        // The old one ends, and the newer goes on being the player's.
        residents.leave(7, 10);
        residents.settle(7, 20, next());
        assert_eq!(replaced(&residents, 1), [11]);
        residents.leave(7, 20);
        residents.settle(7, 22, next());
        assert!(replaced(&residents, 0).is_empty() && replaced(&residents, 1).is_empty());
        for connection in [1, 2, 3] {
            residents.settle(0, connection, next());
        }
        assert!(replaced(&residents, 1).is_empty(), "nobody in particular");
        residents.dismiss(9);
        assert_eq!(replaced(&residents, 1), [9]);
    }
}
