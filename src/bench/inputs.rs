//! The way up, judged at its end: each input of each player must reach the origin once and in order, or be said to be
//! lost (SPEC PRE4).
//!
//! A client of the bench begins an input with its number and the time at which it was pushed, where the scene has no
//! inputs of its own: then the ledger finds an input under a wrong number too, and how long the way was.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError};

use super::series::{Series, SeriesSet};
use crate::node::origin::Heard;
use crate::state::player::{PlayerEvent, PlayerId};

/// Bytes of a stamped input.
pub const STAMP_BYTES: usize = 8;
/// How long the thread sleeps when there is nothing.
const GLANCE: Duration = Duration::from_millis(20);

/// An input that says its number and the low bits of the time of its push.
#[must_use]
pub fn stamped(number: u32, now_us: u64) -> [u8; STAMP_BYTES] {
    let [a, b, c, d] = number.to_le_bytes();
    let [e, f, g, h, ..] = now_us.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// Number and time of a stamped input; `None` for any other.
fn read_stamp(payload: &[u8]) -> Option<(u32, u32)> {
    let [a, b, c, d, e, f, g, h] = *<&[u8; STAMP_BYTES]>::try_from(payload).ok()?;
    Some((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
}

/// What the origin got of inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Inputs, each once.
    pub delivered: u64,
    /// Inputs that had come before.
    pub duplicated: u64,
    /// Numbers passed over without a word, or given before a lower one.
    pub out_of_order: u64,
    /// Inputs under another number than their client gave them.
    pub wrong: u64,
    /// Inputs of which the relay said that they are lost.
    pub reported_lost: u64,
    /// Players that were there.
    pub players: u64,
}

/// What the origin heard of each player.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The number of the next input of each player.
    next: HashMap<PlayerId, u32>,
    counts: InputCounts,
    series: SeriesSet,
}

impl Ledger {
    /// The origin heard this at `now_us`.
    pub fn take(&mut self, now_us: u64, event: &PlayerEvent) {
        let counts = &mut self.counts;
        let next = match event {
            PlayerEvent::Left(player) => {
                self.next.remove(player);
                return;
            }
            // Said again after every reconnection.
            PlayerEvent::Joined(player, _) => {
                self.next.entry(*player).or_insert_with(|| {
                    counts.players += 1;
                    1
                });
                return;
            }
            PlayerEvent::Camera { .. } => return,
            PlayerEvent::Input { player, .. } | PlayerEvent::InputsLost { player, .. } => {
                self.next.entry(*player).or_insert(1)
            }
        };
        match event {
            PlayerEvent::Input {
                sequence, payload, ..
            } => {
                if *sequence < *next {
                    counts.duplicated += 1;
                    return;
                }
                counts.out_of_order += u64::from(*sequence - *next);
                *next = sequence.saturating_add(1);
                counts.delivered += 1;
                if let Some((number, pushed)) = read_stamp(payload) {
                    counts.wrong += u64::from(number != *sequence);
                    // The low 32 bits of microseconds go round in 71 minutes.
                    let late_us = (now_us as u32).wrapping_sub(pushed);
                    self.series.record(Series::InputLate, u64::from(late_us));
                }
            }
            PlayerEvent::InputsLost { first, count, .. } => {
                counts.out_of_order += u64::from(first.abs_diff(*next));
                *next = first.saturating_add(*count);
                counts.reported_lost += u64::from(*count);
            }
            PlayerEvent::Joined(..) | PlayerEvent::Left(_) | PlayerEvent::Camera { .. } => {}
        }
    }

    /// What was counted, and how long the ways were.
    #[must_use]
    pub fn sum(&self) -> (InputCounts, SeriesSet) {
        (self.counts, self.series.clone())
    }
}

/// A ledger that a thread keeps.
pub struct LedgerKeeper {
    ledger: Arc<Mutex<Ledger>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LedgerKeeper {
    /// Starts the thread that enters what an origin hears.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(heard: Receiver<Heard>) -> std::io::Result<LedgerKeeper> {
        let (ledger, over) = (Arc::<Mutex<Ledger>>::default(), Arc::<AtomicBool>::default());
        let (kept, ends) = (Arc::clone(&ledger), Arc::clone(&over));
        let thread = std::thread::Builder::new()
            .name("bench-inputs".to_owned())
            .spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    match heard.recv_timeout(GLANCE) {
                        Ok(first) => {
                            let mut ledger = lock(&kept);
                            for Heard { at_us, event } in std::iter::once(first).chain(heard.try_iter()) {
                                ledger.take(at_us, &event);
                            }
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            })?;
        Ok(LedgerKeeper {
            ledger,
            over,
            thread: Some(thread),
        })
    }

    /// What was counted so far.
    #[must_use]
    pub fn sum(&self) -> (InputCounts, SeriesSet) {
        lock(&self.ledger).sum()
    }
}

impl Drop for LedgerKeeper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It counts nothing any more.
            let _ = thread.join();
        }
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(player: PlayerId, sequence: u32, stamp: u32) -> PlayerEvent {
        PlayerEvent::Input {
            player,
            sequence,
            payload: stamped(stamp, 1000).to_vec(),
        }
    }

    fn counted(events: &[PlayerEvent]) -> InputCounts {
        let mut ledger = Ledger::default();
        events.iter().for_each(|event| ledger.take(1500, event));
        assert!(
            ledger
                .series
                .quantile(Series::InputLate, 1.0)
                .is_none_or(|late| late == 500)
        );
        ledger.counts
    }

    /// SPEC PRE4: each input once and in order, or said to be lost; every other way is told apart.
    #[test]
    fn pre4_gaps_repeats_and_strange_numbers_are_told_apart() {
        let lost = |first, count| PlayerEvent::InputsLost {
            player: 7,
            first,
            count,
        };
        let good = InputCounts {
            delivered: 4,
            reported_lost: 3,
            players: 1,
            ..InputCounts::default()
        };
        let told = [
            PlayerEvent::Joined(7, 0),
            input(7, 1, 1),
            input(7, 2, 2),
            PlayerEvent::Joined(7, 0),
            lost(3, 3),
            input(7, 6, 6),
            input(7, 7, 7),
        ];
        assert_eq!(counted(&told), good, "a loss that is told is no gap");
        let mut again = told.to_vec();
        again.insert(3, input(7, 2, 2));
        assert_eq!(
            counted(&again),
            InputCounts {
                duplicated: 1,
                ..good
            }
        );
        let mut gap = told.to_vec();
        gap.remove(2);
        assert_eq!(
            counted(&gap),
            InputCounts {
                delivered: 3,
                out_of_order: 1,
                ..good
            }
        );
        let mut wrong = told.to_vec();
        wrong[2] = input(7, 2, 3);
        assert_eq!(counted(&wrong), InputCounts { wrong: 1, ..good });
        let two = [
            PlayerEvent::Joined(7, 0),
            input(7, 1, 1),
            PlayerEvent::Joined(8, 0),
            input(8, 1, 1),
        ];
        assert_eq!(counted(&two).delivered, 2, "each player counts by itself");
    }
}
