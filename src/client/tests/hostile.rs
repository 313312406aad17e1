//! Poisoned, mutated and random datagrams: nothing panics, nothing is acknowledged, nothing changes.

use super::relay::{Relay, complete, held, record, shown_x, update};
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::state::slots::Slot;
use crate::wire::payload;
use crate::wire::snapshot::SnapshotHeader;

/// Everything that may change by being received, as text.
fn fingerprint(client: &mut Client) -> String {
    // An empty datagram clears what the last receive left to read.
    client.receive(0, &mut []);
    client.fingerprint()
}

/// A client that holds a table of ten, and the payload of a delta on it with messages.
fn scene() -> (Relay, Client, Vec<u8>) {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let all = (0..10)
        .map(|slot: Slot| complete(slot, record(u32::from(slot), 100, 0)))
        .collect();
    client.receive(1, &mut relay.send(1, None, 1_000, all));
    relay.hear_all(10_000, &mut client);
    relay.push_event(7, None);
    let mut block = Vec::new();
    assert!(relay.stream.put_block(0, 1, 500, &mut block));
    let entries = (2..7)
        .map(|slot: Slot| update(slot, record(u32::from(slot), 150, 1_800)))
        .collect();
    let header = relay.header(2, Some(1), 2_000);
    let snapshot = relay.snapshot(header, vec![entries]).remove(0);
    block.extend(&snapshot[3..]);
    let payload = Relay::payload(9, payload::SNAPSHOT | payload::MESSAGES, &block);
    (relay, client, payload)
}

/// THREATS 24, 25: every bit of a sealed datagram, every cut, and one byte more: refused, nothing moved, and the
/// datagram itself is still taken afterwards.
#[test]
fn threats_24_every_bit_of_a_sealed_datagram_counts() {
    let (mut relay, mut client, payload) = scene();
    let good = relay.seal(payload);
    let before = fingerprint(&mut client);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(
            matches!(client.receive(11_000, &mut bad), Received::Refused(_)),
            "bit {bit}"
        );
    }
    for length in 0..good.len() {
        assert!(matches!(
            client.receive(11_000, &mut good[..length].to_vec()),
            Received::Refused(_)
        ));
    }
    assert_eq!(fingerprint(&mut client), before);
    assert_eq!(
        client.receive(12_000, &mut [&good[..], &[0]].concat()),
        Received::Refused(Refusal::Forged)
    );
    let taken = Received::Snapshot {
        shown: true,
        stored: true,
    };
    assert_eq!(client.receive(12_000, &mut good.clone()), taken);
    assert_ne!(fingerprint(&mut client), before);
}

/// SPEC TAB2, THREATS 42: an authentic payload poisoned in any one bit either is another legal payload or is
/// refused whole: no table, no display, no message, no acknowledgement moves.
#[test]
fn tab2_a_poisoned_field_changes_nothing() {
    let (mut relay, mut client, payload) = scene();
    let before = fingerprint(&mut client);
    let (mut refused, mut legal) = (0, 0);
    for bit in 0..payload.len() * 8 {
        let mut bad = payload.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        match client.receive(11_000, &mut relay.seal(bad)) {
            Received::Refused(Refusal::Window(_) | Refusal::UnknownStream) => {
                // Well-formed, but a snapshot that does not fit: the messages beside it may count.
                let (again, fresh, _) = scene();
                assert_eq!((held(&client), shown_x(&client, 3)), (vec![1], Some(100)));
                (relay, client) = (again, fresh);
            }
            Received::Refused(_) => {
                refused += 1;
                assert_eq!(fingerprint(&mut client), before, "bit {bit}");
            }
            _ => {
                legal += 1;
                let (again, fresh, _) = scene();
                (relay, client) = (again, fresh);
            }
        }
    }
    assert!(
        refused > payload.len() && legal > 0,
        "{refused} refused, {legal} legal"
    );
    for length in 0..payload.len() {
        let received = client.receive(11_000, &mut relay.seal(payload[..length].to_vec()));
        assert!(matches!(received, Received::Refused(_)), "cut to {length}");
    }
    assert_eq!(fingerprint(&mut client), before);
}

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 29
    }

    fn fill(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// FAULTS 60: a million random and mutated datagrams, raw and sealed: no panic, no acknowledgement from outside, bounded
/// memory, and a count by reason.
#[test]
fn a_million_hostile_datagrams_do_nothing() {
    let (mut relay, mut client, payload) = scene();
    let good = relay.seal(payload.clone());
    let before = fingerprint(&mut client);
    let mut dice = Dice(1);
    let kinds = [1, 2, 3, 4, 5, 0x10, 0x20];
    for round in 0..1_000_000u32 {
        let mut datagram = if round % 4 == 0 {
            let length = (dice.next() % 80) as usize;
            dice.fill(length)
        } else {
            let mut mutated = good.clone();
            for _ in 0..=dice.next() % 3 {
                let index = dice.next() as usize % mutated.len();
                mutated[index] = mutated[index].wrapping_add(1 + (dice.next() % 255) as u8);
            }
            mutated
        };
        if let (Some(first), true) = (datagram.first_mut(), round % 3 == 0) {
            *first = kinds[dice.next() as usize % kinds.len()];
        }
        if datagram != good {
            let received = client.receive(11_000, &mut datagram);
            assert!(
                matches!(received, Received::Refused(_)),
                "round {round}: {received:?}"
            );
        }
    }
    assert_eq!(fingerprint(&mut client), before);
    assert!(client.refusals().total() > 990_000);
    assert!(client.refusals().of(Refusal::Forged) > 100_000);
    assert_eq!(client.state(), SessionState::Connected);
    let reports = relay.hear_all(100_000_000, &mut client);
    assert_eq!(reports, 0, "long silent: closed, nothing said");
}

/// A relay gone wrong: authentic payloads that are random or mutated. No panic, and memory stays bounded.
#[test]
fn an_authentic_relay_gone_wrong_pins_a_bounded_memory() {
    let (mut relay, mut client, payload) = scene();
    let mut dice = Dice(2);
    let mut taken = 0;
    for round in 0..30_000u64 {
        let mut bad = if round % 4 == 0 {
            let length = (dice.next() % 200) as usize;
            dice.fill(length)
        } else {
            payload.clone()
        };
        for _ in 0..dice.next() % 4 {
            if let Some(byte) = bad.get_mut(dice.next() as usize % payload.len()) {
                *byte = dice.next() as u8;
            }
        }
        let datagram = relay.seal(bad);
        taken += u64::from(!matches!(
            client.receive(11_000 + round, &mut datagram.clone()),
            Received::Refused(_)
        ));
        if round % 100 == 0 {
            client.poll_transmit(11_000 + round, &mut Vec::new());
        }
        if !matches!(client.state(), SessionState::Connected) {
            (relay, client, _) = scene();
        }
        assert!(
            client.statistics().slots_in_use <= 32 && client.display().live() <= crate::limits::SLOTS_MAX
        );
    }
    assert!(taken > 0);
}

/// SPEC OPS5: a million entities that come and go, each in its slot: tables and display stay as large as the
/// slots, whatever was once there (THREATS 70).
#[test]
fn ops5_memory_stays_bounded_over_many_lives() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let mut id = 1;
    client.receive(1, &mut relay.send(id, None, 1_000, vec![]));
    let mut largest = 0;
    for round in 0..2_000u32 {
        relay.hear_all(10_000 * u64::from(round + 1), &mut client);
        if relay.report.ask && relay.window.open_commit().is_none() {
            relay.commit(&[relay.report.held.as_slice()[0].id.0]);
        }
        let base = relay.window.held().iter().map(|held| held.held.id.0).max();
        id += 1;
        let entries: Vec<_> = (0..20u16)
            .map(|slot| {
                let mut next = record(u32::from(slot), round, 0);
                next.entity.generation = round;
                complete(slot, next)
            })
            .collect();
        let header = SnapshotHeader {
            view_complete: true,
            ..relay.header(id, base, 2_000)
        };
        let part = relay.snapshot(header, vec![entries]).remove(0);
        client.receive(10_000 * u64::from(round + 1) + 1, &mut relay.seal(part));
        largest = largest.max(client.fingerprint().len());
    }
    assert_eq!(client.display().live(), 20);
    assert!(client.statistics().advances_applied > 50);
    // 17 tables of 20 records and the display, each record some 500 characters of text.
    assert!(largest < 1_000_000, "{largest} characters");
}
