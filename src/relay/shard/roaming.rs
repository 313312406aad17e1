//! Following a client to another address, once it has proven that it receives there (THREATS 89, 90).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::Shard;
use crate::limits::PARTS_PER_TICK;
use crate::relay::compose::{Blocks, Outer, compose};
use crate::relay::counters::PathChallenge;
use crate::relay::outbox::Outbox;
use crate::relay::session::{Arrival, Step, Way};

impl Shard {
    /// Takes note of where a datagram of a session came from: a challenge goes there at once, or the session does.
    pub(super) fn follow(&mut self, place: usize, now_us: u64, arrival: Arrival, outbox: &mut impl Outbox) {
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return;
        };
        let entropy = &mut self.entropy;
        let step = session
            .roaming
            .hear(now_us, session.path, arrival, || entropy.bytes());
        let result = match step {
            Step::Stay => return,
            Step::Withhold => PathChallenge::Withheld,
            Step::Unmatched => PathChallenge::Unmatched,
            Step::Move => {
                session.path = arrival.path;
                self.counters.migrations += 1;
                PathChallenge::Passed
            }
            Step::Challenge(token) => {
                let blocks = Blocks {
                    to: Some(arrival.path),
                    challenge: Some(token),
                    ..Blocks::default()
                };
                let stopwatch = self.settings.stopwatch;
                match compose(session, Outer::Down, blocks, now_us, stopwatch, outbox) {
                    Some(sent) => {
                        session.roaming.challenged(now_us, arrival.path, sent.bytes);
                        self.counters.datagrams_sent += 1;
                        self.counters.bytes_sent += sent.bytes as u64;
                        PathChallenge::Sent
                    }
                    None => PathChallenge::Withheld,
                }
            }
        };
        self.counters.challenge_path(result);
        self.serve_deferred(place, now_us, outbox);
    }

    /// Serves what waited, where it may go now.
    fn serve_deferred(&mut self, place: usize, now_us: u64, outbox: &mut impl Outbox) {
        let Some(Some(session)) = self.sessions.get(place) else {
            return;
        };
        let goes = session.roaming.way(now_us, session.round_trip_us) != Way::Wait;
        if session.deferred && goes && session.closing.is_none() && outbox.room() >= PARTS_PER_TICK {
            self.serve_place(place, now_us, outbox);
        }
    }
}
