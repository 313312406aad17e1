//! Which shard has which session: for look-ups by operators, off the packet path.
//!
//! A datagram finds its shard by the connection id itself; nothing here is read for one. No guard is held across a
//! call, let alone an await (FAULTS 80).

use dashmap::DashMap;

use crate::relay::shard::SessionChange;
use crate::state::player::{ClientId, PlayerEvent, PlayerId};

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its shard.
    pub shard: usize,
    /// When it was opened, on the relay's clock.
    pub opened_us: u64,
    /// Whose it is, as its token says; 0 without one.
    pub client: ClientId,
    /// Its client was heard: before that it may be nobody, and no origin is told of it.
    pub joined: bool,
}

/// Every open session of a relay by connection id.
#[derive(Debug, Default)]
pub struct Directory {
    sessions: DashMap<u64, DirectoryEntry>,
}

impl Directory {
    /// Takes what a shard says came and went.
    pub fn record(&self, shard: usize, now_us: u64, changes: impl IntoIterator<Item = SessionChange>) {
        for change in changes {
            match change {
                SessionChange::Opened(connection, client) => {
                    self.sessions.insert(
                        connection,
                        DirectoryEntry {
                            shard,
                            opened_us: now_us,
                            client,
                            joined: false,
                        },
                    );
                }
                SessionChange::Closed(connection, _) => {
                    self.sessions.remove(&connection);
                }
            }
        }
    }

    /// Takes what players did: who joined is a player from then on.
    pub fn hear(&self, events: &[PlayerEvent]) {
        for event in events {
            if let PlayerEvent::Joined(connection, _) = event
                && let Some(mut entry) = self.sessions.get_mut(connection)
            {
                entry.joined = true;
            }
        }
    }

    /// Where a session is.
    #[must_use]
    pub fn find(&self, connection: u64) -> Option<DirectoryEntry> {
        self.sessions.get(&connection).map(|entry| *entry)
    }

    /// Every session whose client was heard and whose it is, in no order.
    #[must_use]
    pub fn players(&self) -> Vec<(PlayerId, ClientId)> {
        let joined = self.sessions.iter().filter(|entry| entry.joined);
        joined.map(|entry| (*entry.key(), entry.client)).collect()
    }

    /// Sessions open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// No session is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::payload::CloseReason;

    /// FAULTS 42, 92: what left is gone.
    #[test]
    fn faults_42_92_the_directory_follows_what_comes_and_goes() {
        let directory = Directory::default();
        directory.record(1, 50, [SessionChange::Opened(7, 42), SessionChange::Opened(8, 0)]);
        assert_eq!(
            directory.find(7),
            Some(DirectoryEntry {
                shard: 1,
                opened_us: 50,
                client: 42,
                joined: false,
            })
        );
        assert!(directory.players().is_empty(), "nobody was heard yet");
        directory.hear(&[PlayerEvent::Joined(7, 42), PlayerEvent::Joined(9, 1)]);
        assert_eq!((directory.players(), directory.len()), (vec![(7, 42)], 2));
        directory.record(1, 60, [SessionChange::Closed(7, CloseReason::Left)]);
        assert!(directory.find(7).is_none() && directory.len() == 1);
        directory.record(1, 60, [SessionChange::Closed(8, CloseReason::Idle)]);
        assert!(directory.is_empty());
    }
}
