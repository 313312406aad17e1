//! Which session is a player's: the newest that was heard (THREATS 18).
//!
//! > [`settle`](Residents::settle) when a session's client is heard first, [`leave`](Residents::leave) when a session ends; each
//! > shard takes [what was replaced](Residents::take_replaced) of its own.
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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::state::player::ClientId;

/// The sessions of the players of a relay.
#[derive(Debug, Default)]
pub struct Residents {
    table: Mutex<Table>,
    /// Sessions that wait to be told, so that a shard need not lock to see that there are none.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<ClientId, u64>,
    replaced: Vec<u64>,
}

impl Residents {
    /// The client of a session was heard: another session of its player is replaced.
    pub fn settle(&self, player: ClientId, connection: u64) {
        if player == 0 {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = table.sessions.insert(player, connection)
            && before != connection
        {
            table.replaced.push(before);
            self.waiting.store(table.replaced.len(), Ordering::Release);
        }
    }

    /// A session has ended.
    pub fn leave(&self, player: ClientId, connection: u64) {
        if player == 0 {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.sessions.get(&player) == Some(&connection) {
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
        residents.settle(7, 10);
        residents.settle(7, 10);
        residents.settle(8, 12);
        assert!(replaced(&residents, 0).is_empty());
        residents.settle(7, 11);
        residents.settle(8, 14);
        assert_eq!(replaced(&residents, 1), [0; 0], "the other shard's");
        assert_eq!(replaced(&residents, 0), [10, 12]);
        assert_eq!(replaced(&residents, 0), [0; 0], "once");
        // The old one ends, and the newer goes on being the player's.
        residents.leave(7, 10);
        residents.settle(7, 20);
        assert_eq!(replaced(&residents, 1), [11]);
        residents.leave(7, 20);
        residents.settle(7, 22);
        assert!(replaced(&residents, 0).is_empty() && replaced(&residents, 1).is_empty());
        for connection in [1, 2, 3] {
            residents.settle(0, connection);
        }
        assert!(replaced(&residents, 1).is_empty(), "nobody in particular");
    }
}
