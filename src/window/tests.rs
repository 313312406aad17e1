//! Both halves against each other over a hostile network, with plain sets as the oracle.

mod admission;
mod threats;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::WindowLimits;
use super::receive::{ReceiveWindow, Rejection};
use super::send::{Candidate, SendWindow, WindowOutcome, WindowReport};
use crate::sequence::Tick;
use crate::wire::report::{HeldList, RefuseReason};
use crate::wire::snapshot::{Held, SnapshotHeader};

/// A table in this test: the set of (snapshot, part) it is made of.
type Table = BTreeSet<(u32, u8)>;

fn digest(table: &Table) -> [u32; 2] {
    table.iter().fold([0, 0], |[a, b], (id, part)| {
        let word = id.wrapping_mul(33).wrapping_add(u32::from(*part));
        [
            a.wrapping_add(word.wrapping_mul(0x9E37_79B9)),
            b.wrapping_add(id.wrapping_add(1)),
        ]
    })
}

struct Client {
    window: ReceiveWindow<Table>,
    shown: u32,
}

#[derive(Clone, Debug)]
struct Said {
    epoch: u32,
    generation: u32,
    held: HeldList,
    ask: bool,
    refuse: Option<RefuseReason>,
}

impl Client {
    fn new(limits: WindowLimits) -> Client {
        Client {
            window: ReceiveWindow::new(limits),
            shown: 0,
        }
    }

    fn receive(&mut self, header: &SnapshotHeader) -> Result<(), Rejection> {
        let entry = (header.id.0, header.part);
        let admission = match self.window.admit(header, digest) {
            Ok(admission) => admission,
            Err(rejection) => {
                self.window.reject(rejection);
                return Err(rejection);
            }
        };
        let make = |base: Option<&Table>| {
            let mut table = base.cloned().unwrap_or_default();
            table.insert(entry);
            table
        };
        let join = |table: &mut Table| {
            table.insert(entry);
        };
        self.window
            .accept(header, &admission, make, join, &mut Vec::new());
        self.shown += 1;
        Ok(())
    }

    fn say(&mut self) -> Said {
        let held = self.window.report(|_| false);
        Said {
            epoch: self.window.session_epoch(),
            generation: self.window.generation(),
            held,
            ask: self.window.asks(),
            refuse: self.window.refusing(),
        }
    }

    fn table(&self, id: Tick) -> Option<&Table> {
        self.window
            .tables()
            .find(|(held, _)| held.id == id)
            .map(|(_, table)| table)
    }
}

struct Relay {
    window: SendWindow<u8, Table>,
    next: u32,
    limits: WindowLimits,
}

impl Relay {
    fn new(limits: WindowLimits, first: u32) -> Relay {
        Relay {
            window: SendWindow::new(limits),
            next: first,
            limits,
        }
    }

    /// Sends a snapshot of `parts` parts on the usable base picked by `pick`, or on the empty table.
    fn send(&mut self, parts: u8, pick: usize) -> Vec<SnapshotHeader> {
        self.next = self.next.wrapping_add(1);
        let id = Tick(self.next);
        let usable: Vec<Tick> = self.window.held().iter().map(|held| held.held.id).collect();
        let base = usable.get(pick % (usable.len() + 1)).copied();
        let header = SnapshotHeader {
            stream_epoch: 1,
            session_epoch: self.window.session_epoch(),
            generation: self.window.generation(),
            id,
            part: 0,
            last: false,
            base,
            server_us: 0,
            candidate: true,
            view_complete: false,
            stale: false,
            exhaustive: true,
            commit: self.window.open_commit().copied(),
            base_digest: None,
            count: 0,
        };
        let mask = (1u32 << parts) - 1;
        self.window.offer(
            Candidate {
                id,
                base,
                parts: mask,
                server_us: 0,
                contents: parts,
            },
            &mut Vec::new(),
        );
        (0..parts).map(|part| SnapshotHeader { part, ..header }).collect()
    }

    /// Takes a report, nothing else: no advance, no restart.
    fn take(&mut self, said: &Said) -> WindowOutcome {
        let report = WindowReport {
            session_epoch: said.epoch,
            generation: said.generation,
            held: said.held.as_slice(),
            ask: said.ask,
            refuse: said.refuse,
        };
        let build = |candidate: &Candidate<u8>, mask: u32, base: Option<&Table>| {
            let mut table = base.cloned().unwrap_or_default();
            table.extend(
                (0..candidate.contents)
                    .filter(|part| mask >> part & 1 == 1)
                    .map(|p| (candidate.id.0, p)),
            );
            table
        };
        self.window.receive(report, build, &mut Vec::new())
    }

    fn receive(&mut self, said: &Said) {
        let outcome = self.take(said);
        assert_eq!(outcome.contradicted, 0, "an honest client never contradicts");
        if outcome.restart.is_some() {
            self.window.restart(&mut Vec::new(), &mut Vec::new());
        } else if said.ask && !outcome.stale {
            self.advance(1);
        }
    }

    fn advance(&mut self, keep: usize) -> bool {
        let mut held: Vec<(Held, Table)> = self
            .window
            .held()
            .iter()
            .map(|held| (held.held, held.table.clone()))
            .collect();
        held.sort_by_key(|(held, _)| core::cmp::Reverse(held.id.since(Tick(self.next))));
        held.truncate(keep.clamp(1, self.limits.commit_max));
        let sum = held.iter().fold([0u32; 2], |[a, b], (_, table)| {
            let [c, d] = digest(table);
            [a.wrapping_add(c), b.wrapping_add(d)]
        });
        let set: Vec<Held> = held.iter().map(|(held, _)| *held).collect();
        self.window.open(&set, sum, 0, &mut Vec::new(), &mut Vec::new())
    }
}

const SMALL: WindowLimits = WindowLimits {
    slots: 4,
    ask_at: 2,
    commit_max: 2,
};

/// The safety of the protocol at one moment: what the relay may name, the client holds with equal content;
/// both stay within their slots.
fn check(relay: &Relay, client: &Client) -> Result<(), TestCaseError> {
    prop_assert!(relay.window.in_use() <= relay.limits.slots && client.window.in_use() <= relay.limits.slots);
    if relay.window.session_epoch() != client.window.session_epoch() {
        return Ok(());
    }
    let lag = relay.window.generation() - client.window.generation();
    prop_assert!(lag <= 1, "generations are at most one apart");
    for held in relay.window.held().iter() {
        prop_assert_eq!(
            client.table(held.held.id),
            Some(&held.table),
            "the relay names what is not so held"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// SPEC WIN1..WIN7, WIN10, WIN11, TAB8, THREATS 45: over any loss, duplication and reordering the relay never names
    /// what the client does not hold with the same content; ids start just before their wrap.
    #[test]
    fn win1_the_relay_names_only_what_is_held(steps in prop::collection::vec((0u8..12, any::<u8>(), any::<u8>()), 1..120)) {
        let (mut relay, mut client) = (Relay::new(SMALL, u32::MAX - 20), Client::new(SMALL));
        let (mut down, mut up): (Vec<SnapshotHeader>, Vec<Said>) = (Vec::new(), Vec::new());
        let (mut epoch, mut generation) = (0, 0);
        for (kind, a, b) in steps {
            let pick = |length: usize| usize::from(a) % length.max(1);
            match kind {
                0..=2 => down.extend(relay.send(1 + a % 3, usize::from(b))),
                3..=6 if !down.is_empty() => {
                    let header = down[pick(down.len())];
                    let _ = client.receive(&header);
                    if b % 3 > 0 { down.swap_remove(pick(down.len())); }
                }
                7 => up.push(client.say()),
                8 | 9 if !up.is_empty() => {
                    let said = up[pick(up.len())].clone();
                    relay.receive(&said);
                    if b % 2 > 0 { up.swap_remove(pick(up.len())); }
                }
                10 if b % 4 == 0 => { relay.advance(usize::from(a)); }
                11 if b % 16 == 0 => relay.window.restart(&mut Vec::new(), &mut Vec::new()),
                _ => {}
            }
            prop_assert!(client.window.session_epoch() >= epoch, "the epoch never falls");
            if client.window.session_epoch() == epoch {
                prop_assert!(client.window.generation() >= generation, "the generation never falls");
            }
            (epoch, generation) = (client.window.session_epoch(), client.window.generation());
            check(&relay, &client)?;
        }
        // Liveness: once the network delivers, tables are held again and windows advance, whatever came before.
        let start = relay.window.generation();
        for _ in 0..40 {
            for header in relay.send(2, 0) { let _ = client.receive(&header); }
            relay.receive(&client.say());
            check(&relay, &client)?;
        }
        prop_assert!(relay.window.held().iter().next().is_some());
        prop_assert!(relay.window.generation() > start + 2, "windows advance again");
    }
}

/// The vector of a full window: WIN1, WIN3, WIN4, WIN5, WIN6, WIN7, WIN11.
#[test]
fn win5_the_full_window_vector() {
    let vector: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/vectors/window.json")).unwrap();
    let held: Vec<u32> = serde_json::from_value(vector["full_window"]["held"].clone()).unwrap();
    let limits = WindowLimits::default();
    assert_eq!(limits.slots as u64, vector["slots"].as_u64().unwrap());
    let (mut relay, mut client) = (Relay::new(limits, held[0] - 1), Client::new(limits));
    for _ in &held {
        let sent = relay.send(1, 0);
        client.receive(&sent[0]).unwrap();
        let mut said = client.say();
        said.ask = false;
        relay.receive(&said);
    }
    let ids: BTreeMap<u32, &Table> = client
        .window
        .tables()
        .map(|(held, table)| (held.id.0, table))
        .collect();
    assert_eq!(ids.keys().copied().collect::<Vec<_>>(), held);
    assert!(client.window.is_full() && client.window.asks());

    // 43 arrives at a full window: shown, not held, not reported (WIN5).
    let tag_7 = relay.send(1, 31)[0];
    let late_7 = relay.send(1, 31)[0];
    relay.next = 43;
    assert_eq!((tag_7.id, tag_7.base), (Tick(43), Some(Tick(42))));
    client.receive(&tag_7).unwrap();
    let late_report = client.say();
    assert_eq!(late_report.held.as_slice().len(), 32);
    assert_eq!(late_report.held.as_slice()[0].id, Tick(42));

    // The relay commits the next generation with the set {42}; 44 carries it.
    let set = [Held {
        id: Tick(42),
        mask: 1,
    }];
    let anchor = relay.window.find(Tick(42)).unwrap().table.clone();
    assert!(
        relay
            .window
            .open(&set, digest(&anchor), 0, &mut Vec::new(), &mut Vec::new())
    );
    let sent_44 = relay.send(1, 0)[0];
    assert_eq!((sent_44.id, sent_44.base), (Tick(44), Some(Tick(42))));
    // Without the commit it is not decoded on a guess (WIN6).
    let bare = SnapshotHeader {
        commit: None,
        ..sent_44
    };
    assert_eq!(client.receive(&bare), Err(Rejection::UncommittedGeneration));
    // A damaged anchor frees nothing and is refused (WIN11).
    let mut damaged = Client {
        window: client.window.clone(),
        shown: 0,
    };
    damaged.window.tables_mut().for_each(|(held, table)| {
        if held.id == Tick(42) {
            table.insert((9, 9));
        }
    });
    assert_eq!(damaged.receive(&sent_44), Err(Rejection::CommitDigest));
    assert_eq!(
        (damaged.window.in_use(), damaged.window.refusing()),
        (32, Some(RefuseReason::CommitDigest))
    );
    // With the commit: verified, switched, freed, decoded, held (WIN3).
    client.receive(&sent_44).unwrap();
    assert_eq!(
        (client.window.in_use(), client.window.generation()),
        (2, sent_44.generation)
    );
    // A late packet of the old generation is refused by its tag; the commit again frees nothing twice (WIN7).
    assert_eq!(client.receive(&late_7), Err(Rejection::OldGeneration));
    let again = relay.send(1, 0)[0];
    client.receive(&again).unwrap();
    assert_eq!(client.window.in_use(), 3);
    assert_eq!(client.receive(&sent_44), Err(Rejection::DuplicatePart));
    // A late report of the old generation makes nothing usable (WIN1).
    relay.receive(&late_report);
    assert_eq!(
        relay
            .window
            .held()
            .iter()
            .map(|held| held.held.id)
            .collect::<Vec<_>>(),
        [Tick(42)]
    );
    // A client packet tagged with the new generation confirms (WIN3).
    relay.receive(&client.say());
    assert!(relay.window.open_commit().is_none());
    assert!(relay.window.find(Tick(40)).is_none() && relay.window.find(Tick(44)).is_some());
    // The refusal starts the next session epoch with full state; the old epoch's packets are void (WIN10).
    let mut refused = Relay {
        window: relay.window.clone(),
        next: relay.next,
        limits,
    };
    let mut said = damaged.say();
    said.generation = refused.window.generation();
    refused.receive(&said);
    let fresh = refused.send(1, 0)[0];
    assert_eq!(
        (fresh.session_epoch, fresh.base),
        (sent_44.session_epoch + 1, None)
    );
    damaged.receive(&fresh).unwrap();
    assert_eq!((damaged.window.in_use(), damaged.window.refusing()), (1, None));
    assert_eq!(damaged.receive(&sent_44), Err(Rejection::OldEpoch));
}

/// THREATS 62, 63: a client that never reports pins at most the slots; all held and nothing usable restarts.
#[test]
fn threats_63_a_silent_client_pins_at_most_the_slots() {
    let mut relay = Relay::new(SMALL, 0);
    for _ in 0..100 {
        relay.send(3, 0);
        assert!(relay.window.in_use() <= SMALL.slots);
    }
    assert_eq!(relay.window.candidates().count(), SMALL.slots);
    // WIN11: full of what the relay evicted, the client is given a new epoch.
    let mut client = Client::new(SMALL);
    let mut relay = Relay::new(SMALL, 0);
    for _ in 0..SMALL.slots {
        let sent = relay.send(1, 0);
        client.receive(&sent[0]).unwrap();
    }
    for _ in 0..SMALL.slots {
        relay.send(1, 0);
    }
    relay.receive(&client.say());
    assert_eq!(relay.window.session_epoch(), 2);
}
