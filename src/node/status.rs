//! How a relay is doing, for whoever asks: written by its threads, read by admin and by whoever holds the handle.
//!
//! Plain atomics: each figure is right by itself, two read together may be a moment apart.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crossbeam::utils::CachePadded;

use super::relay::RelayUsage;
use crate::limits::SHARD_STALLED_US;

/// How a relay is doing.
pub struct RelayStatus {
    /// The upstream connection is up.
    pub connected: AtomicBool,
    /// A frame of a keyframe is on the shelf; never false again.
    pub has_world: AtomicBool,
    /// Whoever asks is let in, without a token.
    pub insecure: AtomicBool,
    /// Nobody new is admitted.
    pub draining: AtomicBool,
    /// The threads are to end.
    pub stopping: AtomicBool,
    /// Sessions the relay takes at the most; 0 until it is known.
    pub sessions_max: AtomicU64,
    /// When the last upstream tick came, on the relay's clock; 0 before the first.
    pub last_tick_us: AtomicU64,
    /// Frames published, holds included.
    pub frames: AtomicU64,
    /// Why each upstream that failed could not be had last, in one sentence, by its name in the settings.
    troubles: Mutex<BTreeMap<String, String>>,
    /// By shard.
    pub shards: Vec<CachePadded<ShardStatus>>,
}

/// How one shard is doing. Totals only rise.
#[derive(Default)]
#[allow(missing_docs)]
pub struct ShardStatus {
    /// When its loop turned last, on the relay's clock.
    pub turned_us: AtomicU64,
    pub sessions: AtomicU64,
    pub cpu_ns: AtomicU64,
    pub encode_ns: AtomicU64,
    pub seal_ns: AtomicU64,
    pub packets_measured: AtomicU64,
    pub send_ns: AtomicU64,
    pub sent: AtomicU64,
    pub bytes: AtomicU64,
    pub received: AtomicU64,
}

impl RelayStatus {
    /// The status of a relay of so many shards that begins at `now_us`.
    #[must_use]
    pub fn new(shards: usize, now_us: u64) -> RelayStatus {
        let shard = || {
            CachePadded::new(ShardStatus {
                turned_us: now_us.into(),
                ..ShardStatus::default()
            })
        };
        RelayStatus {
            connected: AtomicBool::new(false),
            has_world: AtomicBool::new(false),
            insecure: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            sessions_max: AtomicU64::new(0),
            last_tick_us: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            troubles: Mutex::default(),
            shards: (0..shards).map(|_| shard()).collect(),
        }
    }

    /// Why the relay takes no new clients now; empty when it does. An upstream loss is no reason (FAULTS 81).
    #[must_use]
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.has_world.load(Ordering::Relaxed) {
            reasons.push("no keyframe has come from the upstream yet".to_owned());
        }
        if self.draining.load(Ordering::Relaxed) {
            reasons.push("the relay is draining".to_owned());
        }
        reasons
    }

    /// Why each upstream that failed could not be had last; nothing while one is there.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        if self.connected.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.values().cloned().collect()
    }

    /// That no place is free, in one sentence: who is new is turned away, though the relay is ready.
    #[must_use]
    pub fn full(&self) -> Option<String> {
        let (most, sessions) = (self.sessions_max.load(Ordering::Relaxed), self.sessions());
        (most > 0 && sessions >= most)
            .then(|| format!("all {most} places are taken (sessions_max): new players are turned away"))
    }

    /// True when the relay takes new clients.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.has_world.load(Ordering::Relaxed) && !self.draining.load(Ordering::Relaxed)
    }

    /// Keeps why the upstream `name` could not be had, for whoever asks how the relay is.
    pub fn note_trouble(&self, name: &str, sentence: &str) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.insert(name.to_owned(), sentence.to_owned());
    }

    /// The first shard whose loop has not turned for too long; `None` when all are alive (FAULTS 81).
    #[must_use]
    pub fn stalled_shard(&self, now_us: u64) -> Option<usize> {
        self.shards.iter().position(|shard| {
            let turned_us = shard.turned_us.load(Ordering::Relaxed);
            now_us.saturating_sub(turned_us) > SHARD_STALLED_US
        })
    }

    /// The state in one line, for whoever supervises the process.
    #[must_use]
    pub fn sentence(&self, now_us: u64) -> String {
        if let Some(shard) = self.stalled_shard(now_us) {
            return format!("shard {shard} has not turned for five seconds");
        }
        let clients = self.sessions();
        let reasons = self.unready();
        let state = match reasons.as_slice() {
            [] if self.connected.load(Ordering::Relaxed) => "serving".to_owned(),
            [] => "serving the last state, the upstream is away".to_owned(),
            reasons => reasons.join("; "),
        };
        format!("{state}; {clients} clients")
    }

    /// Sessions open in all shards.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.sum(|shard| &shard.sessions)
    }

    /// What all shards have used.
    #[must_use]
    pub fn usage(&self) -> RelayUsage {
        RelayUsage {
            shard_cpu_ns: self.sum(|shard| &shard.cpu_ns),
            encode_ns: self.sum(|shard| &shard.encode_ns),
            seal_ns: self.sum(|shard| &shard.seal_ns),
            packets_measured: self.sum(|shard| &shard.packets_measured),
            send_ns: self.sum(|shard| &shard.send_ns),
            datagrams_sent: self.sum(|shard| &shard.sent),
            bytes_sent: self.sum(|shard| &shard.bytes),
            datagrams_received: self.sum(|shard| &shard.received),
            sessions: self.sessions(),
            ticks: self.frames.load(Ordering::Relaxed),
        }
    }

    fn sum(&self, figure: impl Fn(&ShardStatus) -> &AtomicU64) -> u64 {
        self.shards
            .iter()
            .map(|shard| figure(shard).load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 81: readiness needs a world once, never an upstream; liveness is the shards' own turning.
    #[test]
    fn faults_81_readiness_and_liveness_do_not_hang_on_the_upstream() {
        let status = RelayStatus::new(2, 0);
        assert_eq!(status.unready(), ["no keyframe has come from the upstream yet"]);
        for (name, text) in [("b:1", "gone"), ("a:1", "nobody is there"), ("b:1", "refused")] {
            status.note_trouble(name, text);
        }
        assert_eq!(status.unready(), ["no keyframe has come from the upstream yet"]);
        assert_eq!(status.troubles(), ["nobody is there", "refused"]);
        assert!(!status.is_ready());
        status.has_world.store(true, Ordering::Relaxed);
        assert!(
            status.unready().is_empty() && status.is_ready(),
            "not connected, still ready"
        );
        assert_eq!(status.troubles().len(), 2, "and what is wrong is told still");
        status.connected.store(true, Ordering::Relaxed);
        assert!(status.troubles().is_empty());
        status.connected.store(false, Ordering::Relaxed);
        status.draining.store(true, Ordering::Relaxed);
        assert_eq!(status.unready(), ["the relay is draining"]);
        assert!(!status.is_ready());
        assert_eq!(status.sentence(0), "the relay is draining; 0 clients");
        status.draining.store(false, Ordering::Relaxed);
        assert_eq!(
            status.sentence(0),
            "serving the last state, the upstream is away; 0 clients"
        );
        status.connected.store(true, Ordering::Relaxed);
        assert_eq!(status.sentence(0), "serving; 0 clients");
        let now_us = SHARD_STALLED_US + 10;
        assert_eq!(status.sentence(now_us), "shard 0 has not turned for five seconds");
        assert_eq!(status.stalled_shard(now_us), Some(0));
        status.shards[0].turned_us.store(now_us, Ordering::Relaxed);
        assert_eq!(status.stalled_shard(now_us), Some(1));
        status.shards[1].turned_us.store(10, Ordering::Relaxed);
        assert_eq!(status.stalled_shard(now_us), None);
    }

    /// A relay without a free place is ready still, and says that it turns players away.
    #[test]
    fn a_relay_without_a_free_place_says_so() {
        let status = RelayStatus::new(2, 0);
        assert_eq!(status.full(), None, "nothing is known of places");
        status.sessions_max.store(5, Ordering::Relaxed);
        status.shards[0].sessions.store(2, Ordering::Relaxed);
        status.shards[1].sessions.store(2, Ordering::Relaxed);
        assert_eq!(status.full(), None);
        status.shards[1].sessions.store(3, Ordering::Relaxed);
        assert_eq!(
            status.full().unwrap(),
            "all 5 places are taken (sessions_max): new players are turned away"
        );
    }

    #[test]
    fn usage_is_the_sum_over_shards() {
        let status = RelayStatus::new(3, 0);
        for shard in &status.shards {
            shard.cpu_ns.store(5, Ordering::Relaxed);
            shard.sessions.store(2, Ordering::Relaxed);
        }
        assert_eq!((status.usage().shard_cpu_ns, status.usage().sessions), (15, 6));
    }
}
