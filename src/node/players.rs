//! From the shards to the origin: who is there and what they did.
//!
//! > Shards [`say`](PlayerLine::say) what happened, after the directory knows who came and went. The ingest has a
//! > [`Caller`]: [`begin`](Caller::begin) at a new connection, then [`collect`](Caller::collect) what to tell.
//!
//! Invariants: a shard never waits, so where the line is full inputs are dropped and counted; joins and leaves are not
//! lost, since the directory says who is there; on one connection a player joins once, and nothing is told of one who
//! has not, nor of a session whose client was never heard; of a player's numbers each is told once, as an input or as lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::channel::{Receiver, Sender, bounded};
use tokio::sync::Notify;

use super::directory::Directory;
use crate::limits::PLAYER_EVENTS_MAX;
use crate::state::player::{ClientId, PlayerEvent, PlayerId};

/// What became of an input: the labels of `input_messages_total{result}`.
pub const INPUT_RESULTS: [&str; 3] = ["taken", "lost", "dropped"];

/// Events told in one go: what a thousand players do in a tick, so that a tick that came waits for no more.
const COLLECT_MAX: usize = 4096;

/// From every shard to the ingest.
#[derive(Debug)]
pub struct PlayerLine {
    sender: Sender<PlayerEvent>,
    receiver: Receiver<PlayerEvent>,
    news: Notify,
    /// A join or a leave had no room.
    behind: AtomicBool,
    dropped: AtomicU64,
}

impl Default for PlayerLine {
    fn default() -> PlayerLine {
        let (sender, receiver) = bounded(PLAYER_EVENTS_MAX);
        PlayerLine {
            sender,
            receiver,
            news: Notify::new(),
            behind: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }
}

impl PlayerLine {
    /// Takes what happened at a shard; what has no room is dropped, and a join or leave found in the directory instead.
    pub fn say(&self, events: impl IntoIterator<Item = PlayerEvent>) {
        for event in events {
            if let Err(refused) = self.sender.try_send(event) {
                match refused.into_inner() {
                    PlayerEvent::Joined(..) | PlayerEvent::Left(_) => {
                        self.behind.store(true, Ordering::Release)
                    }
                    PlayerEvent::Input { .. } => {
                        self.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                    // Lost inputs show in the next number; a camera moves on.
                    PlayerEvent::InputsLost { .. } | PlayerEvent::Camera { .. } => {}
                }
            }
        }
        self.news.notify_one();
    }

    /// Waits until something was said.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

/// What the origin knows of one player.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// It was told of the join, on this connection.
    told: bool,
    /// Number of the first input that was not told of on any connection.
    next: u32,
    /// Where its camera was last.
    camera: Option<[u32; 3]>,
}

impl Default for Known {
    fn default() -> Known {
        Known {
            told: false,
            next: 1,
            camera: None,
        }
    }
}

/// The ingest's end of the line: what is still to be told.
#[derive(Debug)]
pub struct Caller {
    line: Arc<PlayerLine>,
    directory: Arc<Directory>,
    known: HashMap<PlayerId, Known>,
    /// The directory is to be read before anything else is told.
    roster_due: bool,
    results: [u64; INPUT_RESULTS.len()],
}

impl Caller {
    /// The end of `line`; `directory` says who is there.
    #[must_use]
    pub fn new(line: Arc<PlayerLine>, directory: Arc<Directory>) -> Caller {
        Caller {
            line,
            directory,
            known: HashMap::new(),
            roster_due: false,
            results: [0; INPUT_RESULTS.len()],
        }
    }

    /// The line, to wait for news.
    #[must_use]
    pub fn line(&self) -> &Arc<PlayerLine> {
        &self.line
    }

    /// A connection begins: its origin knows nobody.
    pub fn begin(&mut self) {
        self.known.values_mut().for_each(|known| known.told = false);
        self.roster_due = true;
    }

    /// Totals in the order of [`INPUT_RESULTS`].
    #[must_use]
    pub fn results(&self) -> [u64; INPUT_RESULTS.len()] {
        let [taken, lost, dropped] = self.results;
        [taken, lost, dropped + self.line.dropped.load(Ordering::Relaxed)]
    }

    /// Adds what is to be told now; some of it, when there is much.
    pub fn collect(&mut self, out: &mut Vec<PlayerEvent>) {
        if core::mem::take(&mut self.roster_due) {
            self.discard();
            self.compare(out);
        }
        let behind = self.line.behind.swap(false, Ordering::AcqRel);
        for _ in 0..COLLECT_MAX {
            let Ok(event) = self.line.receiver.try_recv() else {
                if behind {
                    self.compare(out);
                }
                return;
            };
            self.take(event, out);
        }
        if behind {
            self.line.behind.store(true, Ordering::Release);
        }
    }

    /// Takes what is on the line and tells nobody.
    pub fn discard(&mut self) {
        for event in self.line.receiver.try_iter() {
            match event {
                PlayerEvent::Input { .. } => self.results[2] += 1,
                PlayerEvent::Camera { player, position } => {
                    self.known.entry(player).or_default().camera = Some(position);
                }
                PlayerEvent::Left(player) => {
                    self.known.remove(&player);
                }
                PlayerEvent::Joined(..) | PlayerEvent::InputsLost { .. } => {}
            }
        }
    }

    /// Tells what the directory has and the origin does not know, and the other way round.
    fn compare(&mut self, out: &mut Vec<PlayerEvent>) {
        let mut gone: Vec<PlayerId> = Vec::new();
        for (player, known) in &self.known {
            if self.directory.find(*player).is_none() {
                gone.push(*player);
                if known.told {
                    out.push(PlayerEvent::Left(*player));
                }
            }
        }
        for player in gone {
            self.known.remove(&player);
        }
        for (player, client) in self.directory.players() {
            self.join(player, client, out);
        }
    }

    fn join(&mut self, player: PlayerId, client: ClientId, out: &mut Vec<PlayerEvent>) {
        let known = self.known.entry(player).or_default();
        if core::mem::replace(&mut known.told, true) {
            return;
        }
        out.push(PlayerEvent::Joined(player, client));
        if let Some(position) = known.camera {
            out.push(PlayerEvent::Camera { player, position });
        }
    }

    fn take(&mut self, event: PlayerEvent, out: &mut Vec<PlayerEvent>) {
        let player = event.player();
        match &event {
            PlayerEvent::Joined(_, client) => self.join(player, *client, out),
            PlayerEvent::Left(_) => {
                if self.known.remove(&player).is_some_and(|known| known.told) {
                    out.push(event);
                }
            }
            PlayerEvent::Input { sequence, .. } => {
                let number = *sequence;
                let Some(known) = self.known.get_mut(&player).filter(|known| known.told) else {
                    self.results[2] += 1;
                    return;
                };
                if number >= known.next {
                    lost(player, known.next, number, out);
                    known.next = number.saturating_add(1);
                    self.results[0] += 1;
                    out.push(event);
                }
            }
            PlayerEvent::InputsLost { first, count, .. } => {
                self.results[1] += u64::from(*count);
                let end = first.saturating_add(*count);
                if let Some(known) = self
                    .known
                    .get_mut(&player)
                    .filter(|known| known.told && end > known.next)
                {
                    lost(player, known.next, end, out);
                    known.next = end;
                }
            }
            PlayerEvent::Camera { position, .. } => {
                if let Some(known) = self.known.get_mut(&player) {
                    known.camera = Some(*position);
                    if known.told {
                        out.push(event);
                    }
                }
            }
        }
    }
}

/// Tells that the inputs from `first` to before `end` will never come.
fn lost(player: PlayerId, first: u32, end: u32, out: &mut Vec<PlayerEvent>) {
    if end > first {
        let count = end - first;
        out.push(PlayerEvent::InputsLost { player, first, count });
    }
}

#[cfg(test)]
mod tests;
