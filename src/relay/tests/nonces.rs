//! No number twice under a key, whatever happens to sessions, clients and relays (THREATS 28).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::peer::{Datagrams, Peer, Rig, path};
use crate::limits::REKEY_LOG2;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::wire::payload::CloseReason;

/// What befalls a session between two datagrams.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Ticks, each with a report.
    Ticks(u8),
    /// The client's address changes, and it proves the new one.
    Move(u16),
    /// Both directions come close to the end of a key's numbers.
    NearRenewal,
    /// The client leaves and comes back with the same randomness, as a replay would.
    Again,
    /// The relay is killed and starts again; the client comes back with the same randomness.
    Restart,
    /// The origin is.
    NewStream,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (1u8..8).prop_map(Turn::Ticks),
        2 => (1u16..50).prop_map(Turn::Move),
        2 => Just(Turn::NearRenewal),
        1 => Just(Turn::Again),
        1 => Just(Turn::Restart),
        1 => Just(Turn::NewStream),
    ]
}

/// One session after another on one relay after another, and every key and number that was used.
struct Life {
    rig: Rig,
    peer: Peer,
    seed: u8,
    used: BTreeSet<([u8; 32], u64)>,
    keys: BTreeSet<[u8; 32]>,
    renewals: u64,
}

const PORT: u16 = 4_000;

impl Life {
    fn new() -> Life {
        let mut rig = Life::relay(0);
        Life {
            peer: Peer::join(&mut rig, PORT),
            rig,
            seed: 0,
            used: BTreeSet::new(),
            keys: BTreeSet::new(),
            renewals: 0,
        }
    }

    /// A relay; what it draws from the system is another seed each time.
    fn relay(seed: u8) -> Rig {
        Rig::with(8, Tick(1), |settings| settings.seed = [seed; 32])
    }

    /// The peer says this; what comes back is taken.
    fn say(&mut self, datagram: &[u8]) -> Datagrams {
        let (receipt, answers) = self.rig.hear(self.peer.path, datagram);
        assert_eq!(receipt, Receipt::Taken);
        if self.rig.has(self.peer.connection) {
            let opener = &self.rig.session(self.peer.connection).opener;
            let number = opener.newest();
            let key = opener.key_of(number).expect("it just opened");
            self.note((key, number));
        }
        self.peer.take_all(&answers);
        self.note_down();
        answers
    }

    fn note(&mut self, nonce: ([u8; 32], u64)) {
        self.keys.insert(nonce.0);
        assert!(self.used.insert(nonce), "number {} twice under a key", nonce.1);
    }

    fn note_down(&mut self) {
        for nonce in core::mem::take(&mut self.peer.nonces) {
            self.note(nonce);
        }
    }

    fn tick(&mut self) {
        let report = self.peer.report();
        let datagram = self.peer.say(&report);
        self.say(&datagram);
        let sent = self.rig.turn_moving(4);
        self.peer.take_all(&sent);
        self.note_down();
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Ticks(count) => (0..count).for_each(|_| self.tick()),
            Turn::Move(by) => {
                self.peer.path = path(PORT + by);
                let before = self.peer.challenge.take();
                self.tick();
                if let Some(token) = self.peer.challenge.take().or(before) {
                    let answer = self.peer.answer(token);
                    self.say(&answer);
                }
            }
            Turn::NearRenewal => {
                let before_renewal = |number: u64| (((number >> REKEY_LOG2) + 1) << REKEY_LOG2) - 3;
                let down = before_renewal(self.rig.session(self.peer.connection).sealer.next_number());
                let up = before_renewal(self.peer.sealer.next_number());
                if self.rig.session(self.peer.connection).sealer.next_number() < down
                    && self.peer.sealer.next_number() < up
                {
                    self.rig.shard.skip_numbers(down);
                    self.peer.skip_numbers(down - 1);
                    self.peer.sealer.skip_to(up);
                    self.rig.shard.skip_heard(up - 1);
                    self.renewals += 1;
                }
                (0..6).for_each(|_| self.tick());
            }
            Turn::Again => {
                let leave = self.peer.up(vec![8, CloseReason::Left as u8]);
                self.say(&leave);
                self.rejoin();
            }
            Turn::Restart => {
                self.seed += 1;
                self.rig = Life::relay(self.seed);
                self.rejoin();
            }
            Turn::NewStream => {
                let sent = self.rig.restart_origin(8);
                self.peer.take_all(&sent);
                self.note_down();
            }
        }
    }

    fn rejoin(&mut self) {
        let nonce = self.peer.nonce;
        self.peer = Peer::join_with(&mut self.rig, PORT, nonce);
        self.note_down();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// THREATS 28: across restarts of the relay, replays of a client's randomness, renewals of keys, changes of address and of
    /// stream, with one and the same token key, no number is used twice under a key.
    #[test]
    fn threats_28_no_number_is_used_twice_under_a_key(turns in proptest::collection::vec(turn(), 1..40)) {
        let mut life = Life::new();
        life.note_down();
        for turn in turns {
            life.turn(turn);
        }
        // Each renewal gave each direction a key of its own.
        prop_assert!(life.keys.len() as u64 >= life.renewals);
    }
}

/// The property above is not empty: all that may befall a session, once each.
#[test]
fn threats_28_the_turns_do_what_they_say() {
    let mut life = Life::new();
    life.note_down();
    life.turn(Turn::Ticks(5));
    let first = life.keys.len();
    life.turn(Turn::Move(7));
    assert_eq!(life.rig.shard.counters().migrations, 1);
    assert_eq!(life.keys.len(), first, "a new address has the keys of before");
    life.turn(Turn::NearRenewal);
    assert_eq!(life.keys.len(), first + 2, "one for each direction");
    life.turn(Turn::Again);
    life.turn(Turn::Ticks(2));
    assert_eq!(life.keys.len(), first + 4);
    life.turn(Turn::Restart);
    life.turn(Turn::Ticks(2));
    assert_eq!((life.keys.len(), life.rig.shard.open()), (first + 6, 1));
    life.turn(Turn::NewStream);
    assert!(life.used.len() > 30);
}
