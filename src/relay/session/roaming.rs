//! Where a client may be going: addresses that its datagrams came from and that it has not proven (THREATS 89, 90).
//!
//! > [`Roaming::hear`] is told of every datagram that opened, and says what to do: stay, send a challenge there, or move.
//!
//! A NAT that forgets a client changes its address in mid-stream, so a session goes by its connection id. But a datagram
//! is easily copied and sent from elsewhere first. So the stream stays where it is until the random bytes of a challenge come
//! back, sealed, from the very address that they were sent to.
//!
//! What falls due while the first challenge is under way goes to the new address where so much came from there that it may
//! ([`PROBE_BYTES_FACTOR`]): a client that misses its snapshots pads what it sends. Else it waits for the answer, a round trip at
//! most and once a second: where a NAT changed the address, the old one leads nowhere any more.
//!
//! Invariants: only a datagram with the highest number so far brings a challenge; no more than [`PROBE_BYTES_FACTOR`] times
//! what came from an address goes there before it is proven; a session moves only to where its newest datagram came from.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use subtle::ConstantTimeEq;

use crate::limits::{
    DATAGRAM_MAX, PROBE_BYTES_FACTOR, PROBE_HOLD_MAX_US, PROBE_HOLD_SPACING_US, PROBE_SPACING_US, PROBES_MAX,
    TAG_BYTES,
};
use crate::relay::outbox::Path;
use crate::wire::handshake::DOWN_HEADER_BYTES;
use crate::wire::payload::PathToken;

/// Bytes of a datagram with a challenge: header, flags, clock stamp, the random bytes, tag.
pub const CHALLENGE_BYTES: u64 = (DOWN_HEADER_BYTES + 1 + 2 + size_of::<PathToken>() + TAG_BYTES) as u64;

/// A datagram of the session that opened.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Where it came from.
    pub path: Path,
    /// Its number.
    pub number: u64,
    /// That is the highest so far.
    pub newest: bool,
    /// Its bytes.
    pub bytes: usize,
    /// What it says of a challenge.
    pub answer: Option<PathToken>,
}

/// What is to be done about an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it came from where the client is, or is not the newest.
    Stay,
    /// Nothing more: what may go there has gone there.
    Withhold,
    /// An answer that fits no challenge to where it came from.
    Unmatched,
    /// This challenge goes where it came from; [`Roaming::challenged`] when it went.
    Challenge(PathToken),
    /// The client is there now.
    Move,
}

/// Where a snapshot goes that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Where the client is.
    Here,
    /// Nowhere yet: it waits for an answer.
    Wait,
    /// Where the client may be, and no more than so many bytes of it.
    There(Path, usize),
}

/// One address that is being challenged.
#[derive(Clone, Copy, Debug)]
struct Probe {
    path: Path,
    token: PathToken,
    /// The highest number that came from there.
    newest: u64,
    /// Bytes that came from there, and that went there.
    received: u64,
    sent: u64,
    /// When the last challenge went there.
    sent_us: Option<u64>,
}

/// Where a client may be going.
#[derive(Clone, Debug, Default)]
pub struct Roaming {
    /// The highest number that came from where the client is.
    here: u64,
    probes: [Option<Probe>; PROBES_MAX],
    /// When snapshots were last made to wait for an answer, and whether that came.
    held_us: Option<u64>,
    answered: bool,
}

impl Roaming {
    /// Takes a datagram of a client that is at `current`. `random` makes the bytes of a new challenge.
    pub fn hear(
        &mut self,
        now_us: u64,
        current: Path,
        arrival: Arrival,
        random: impl FnOnce() -> PathToken,
    ) -> Step {
        let Arrival {
            path,
            number,
            newest,
            bytes,
            answer,
        } = arrival;
        if path == current {
            self.here = self.here.max(number);
            return answer.map_or(Step::Stay, |_| Step::Unmatched);
        }
        let here = self.here;
        let Some(probe) = self.probe(path, newest, random) else {
            return answer.map_or(Step::Stay, |_| Step::Unmatched);
        };
        probe.newest = probe.newest.max(number);
        probe.received += bytes as u64;
        match answer {
            Some(answer) if bool::from(answer.ct_eq(&probe.token)) && probe.newest > here => {
                self.here = probe.newest;
                (self.probes, self.answered) = ([None; PROBES_MAX], true);
                return Step::Move;
            }
            Some(_) => return Step::Unmatched,
            None => {}
        }
        if !newest {
            return Step::Stay;
        }
        let is_young = probe
            .sent_us
            .is_some_and(|sent_us| now_us.saturating_sub(sent_us) < PROBE_SPACING_US);
        if is_young || probe.sent + CHALLENGE_BYTES > PROBE_BYTES_FACTOR * probe.received {
            return Step::Withhold;
        }
        Step::Challenge(probe.token)
    }

    /// The probe of an address; a new one, where `begins`, in the place of what was heard of least lately.
    fn probe(&mut self, path: Path, begins: bool, random: impl FnOnce() -> PathToken) -> Option<&mut Probe> {
        let known = |probe: &Option<Probe>| probe.is_some_and(|probe| probe.path == path);
        if !self.probes.iter().any(known) {
            let new = Probe {
                path,
                token: random(),
                newest: 0,
                received: 0,
                sent: 0,
                sent_us: None,
            };
            let oldest = |probe: &&mut Option<Probe>| probe.map(|probe| probe.newest);
            let place = self.probes.iter_mut().min_by_key(oldest).filter(|_| begins)?;
            *place = Some(new);
        }
        let mut probes = self.probes.iter_mut().flatten();
        probes.find(|probe| probe.path == path)
    }

    /// So many bytes went to an address that is not proven.
    pub fn spend(&mut self, path: Path, bytes: usize) {
        let mut probes = self.probes.iter_mut().flatten();
        if let Some(probe) = probes.find(|probe| probe.path == path) {
            probe.sent += bytes as u64;
        }
    }

    /// A challenge of so many bytes went to `path`.
    pub fn challenged(&mut self, now_us: u64, path: Path, bytes: usize) {
        self.spend(path, bytes);
        let mut probes = self.probes.iter_mut().flatten();
        if let Some(probe) = probes.find(|probe| probe.path == path) {
            probe.sent_us = Some(now_us);
        }
        let may_hold = |since: u64| now_us.saturating_sub(since) >= PROBE_HOLD_SPACING_US;
        if self.held_us.is_none_or(may_hold) {
            (self.held_us, self.answered) = (Some(now_us), false);
        }
    }

    /// Where a snapshot goes that is due now: while a challenge is under way to where the newest datagram came from, there, if a
    /// whole datagram and another challenge may.
    #[must_use]
    pub fn way(&self, now_us: u64, round_trip_us: Option<u32>) -> Way {
        if !self.holds(now_us, round_trip_us) {
            return Way::Here;
        }
        let ahead = self.probes.iter().flatten();
        let ahead = ahead.filter(|probe| probe.newest > self.here && probe.sent_us.is_some());
        ahead.max_by_key(|probe| probe.newest).map_or(Way::Wait, |probe| {
            let spent = probe.sent + CHALLENGE_BYTES;
            let bytes = (PROBE_BYTES_FACTOR * probe.received).saturating_sub(spent);
            match usize::try_from(bytes) {
                Ok(bytes) if bytes >= DATAGRAM_MAX => Way::There(probe.path, bytes),
                _ => Way::Wait,
            }
        })
    }

    /// True while a snapshot is better not sent to where the client was.
    fn holds(&self, now_us: u64, round_trip_us: Option<u32>) -> bool {
        let wait_us =
            round_trip_us.map_or(PROBE_HOLD_MAX_US, |trip_us| u64::from(trip_us) + PROBE_SPACING_US);
        let since = self.held_us.filter(|_| !self.answered);
        since.is_some_and(|since| now_us.saturating_sub(since) < wait_us.min(PROBE_HOLD_MAX_US))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn path(port: u16) -> Path {
        Path {
            remote: ([192, 0, 2, 7], port).into(),
            local: None,
        }
    }

    fn arrival(port: u16, number: u64, answer: Option<PathToken>) -> Arrival {
        Arrival {
            path: path(port),
            number,
            newest: true,
            bytes: 30,
            answer,
        }
    }

    fn hear(roaming: &mut Roaming, now_us: u64, arrival: Arrival) -> Step {
        let token = arrival.path.remote.port().to_le_bytes();
        roaming.hear(now_us, path(1), arrival, || {
            core::array::from_fn(|index| token[index % 2])
        })
    }

    fn token(port: u16) -> PathToken {
        core::array::from_fn(|index| port.to_le_bytes()[index % 2])
    }

    /// THREATS 90: no more than three times what came from an address goes there, and not more often than every 20 ms.
    #[test]
    fn threats_90_no_more_than_three_times_what_came_goes_there() {
        let mut roaming = Roaming::default();
        let (mut sent, mut received) = (0, 0);
        for number in 0..2_000u64 {
            let now_us = number * 1_000;
            let small = Arrival {
                bytes: 5,
                ..arrival(2, number, None)
            };
            received += 5;
            if let Step::Challenge(_) = hear(&mut roaming, now_us, small) {
                sent += CHALLENGE_BYTES;
                roaming.challenged(now_us, path(2), usize::try_from(CHALLENGE_BYTES).unwrap());
            }
            assert!(sent <= 3 * received, "{sent} of {received}");
        }
        assert_eq!(sent / CHALLENGE_BYTES, 100, "one each 20 ms");
    }

    /// THREATS 89, 90: only the right answer, from where its challenge went, moves a session, and only if nothing newer came
    /// from where it is.
    #[test]
    fn threats_89_90_only_the_right_answer_from_there_moves() {
        let mut roaming = Roaming::default();
        assert_eq!(
            hear(&mut roaming, 0, arrival(2, 5, None)),
            Step::Challenge(token(2))
        );
        assert_eq!(
            hear(&mut roaming, 0, arrival(2, 6, Some([0; 8]))),
            Step::Unmatched
        );
        assert_eq!(
            hear(&mut roaming, 0, arrival(1, 7, Some(token(2)))),
            Step::Unmatched
        );
        assert_eq!(
            hear(&mut roaming, 0, arrival(3, 8, Some(token(2)))),
            Step::Unmatched
        );
        let late = Arrival {
            newest: false,
            ..arrival(2, 4, Some(token(2)))
        };
        assert_eq!(
            hear(&mut roaming, 0, late),
            Step::Unmatched,
            "it is still where it was"
        );
        assert_eq!(hear(&mut roaming, 0, arrival(2, 9, Some(token(2)))), Step::Move);
        let stray = Arrival {
            newest: false,
            ..arrival(4, 3, None)
        };
        assert_eq!(
            hear(&mut roaming, 0, stray),
            Step::Stay,
            "an old one brings no challenge"
        );
    }

    /// THREATS 89, 90: a snapshot waits for an answer no longer than a round trip, and not again within a second.
    #[test]
    fn threats_89_90_snapshots_wait_a_round_trip_once_a_second() {
        let mut roaming = Roaming::default();
        assert_eq!(roaming.way(0, None), Way::Here);
        hear(&mut roaming, 0, arrival(2, 1, None));
        roaming.challenged(0, path(2), 32);
        let holds = |roaming: &Roaming, now_us, trip_us| roaming.way(now_us, trip_us) == Way::Wait;
        assert!(holds(&roaming, 59_999, Some(40_000)) && !holds(&roaming, 60_000, Some(40_000)));
        assert!(holds(&roaming, 99_999, None) && !holds(&roaming, 100_000, Some(400_000)));
        roaming.challenged(900_000, path(2), 32);
        assert!(!holds(&roaming, 900_000, None));
        roaming.challenged(1_000_000, path(2), 32);
        assert!(holds(&roaming, 1_000_000, None));
        assert_eq!(
            hear(&mut roaming, 1_000_001, arrival(2, 2, Some(token(2)))),
            Step::Move
        );
        assert_eq!(
            roaming.way(1_000_001, None),
            Way::Here,
            "it is known where the client is"
        );
    }

    /// THREATS 89, 90: where a padded datagram came from, snapshots go at once, within three times what came, and not after the
    /// client was heard again where it is.
    #[test]
    fn threats_89_90_snapshots_go_where_enough_came_from() {
        let mut roaming = Roaming::default();
        let padded = |number| Arrival {
            bytes: DATAGRAM_MAX,
            ..arrival(2, number, None)
        };
        let challenge = usize::try_from(CHALLENGE_BYTES).unwrap();
        assert!(matches!(hear(&mut roaming, 0, padded(5)), Step::Challenge(_)));
        roaming.challenged(0, path(2), challenge);
        let (mut sent, mut received) = (challenge, DATAGRAM_MAX);
        for number in 6..20 {
            while let Way::There(to, most) = roaming.way(1, None) {
                assert_eq!(to, path(2));
                assert!(most >= DATAGRAM_MAX && sent + most + challenge <= 3 * received);
                roaming.spend(to, DATAGRAM_MAX);
                sent += DATAGRAM_MAX;
            }
            assert!(sent + DATAGRAM_MAX + challenge > 3 * received, "all that may");
            assert_eq!(roaming.way(1, None), Way::Wait);
            hear(&mut roaming, 1, padded(number));
            received += DATAGRAM_MAX;
        }
        assert!(matches!(roaming.way(1, None), Way::There(..)));
        hear(&mut roaming, 1, arrival(1, 20, None));
        assert_eq!(roaming.way(1, None), Way::Wait, "it may be here as well");
        assert_eq!(roaming.way(PROBE_HOLD_MAX_US, None), Way::Here);
    }

    /// THREATS 90: who copies datagrams to many addresses does not keep the client's own new one from being proven.
    #[test]
    fn threats_90_copies_from_elsewhere_do_not_crowd_out_the_new_address() {
        let mut roaming = Roaming::default();
        assert!(matches!(
            hear(&mut roaming, 0, arrival(2, 1, None)),
            Step::Challenge(_)
        ));
        assert!(matches!(
            hear(&mut roaming, 0, arrival(3, 2, None)),
            Step::Challenge(_)
        ));
        assert_eq!(hear(&mut roaming, 0, arrival(2, 3, Some(token(2)))), Step::Move);
    }
}
