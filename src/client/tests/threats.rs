//! Threats to a client, through what a game and a network can reach (THREATS II to IV; FAULTS 19, 60, 97).

use std::collections::BTreeMap;

use super::relay::{Relay, complete, held, record, remove, shown_x, table_of, update};
use crate::client::display::ShownKind;
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::delta::decode::{DecodeError, Entry};
use crate::delta::layout::Layout;
use crate::state::entity::{Departure, Entity};
use crate::state::record::Record;
use crate::state::slots::Slot;
use crate::window::receive::Rejection;
use crate::wire::payload;
use crate::wire::snapshot::SnapshotHeader;

const STORED: Received = Received::Snapshot {
    shown: true,
    stored: true,
};

/// A client that holds snapshot 1: slots 0 to 4 at x 100.
fn scene() -> (Relay, Client) {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let all = (0..5)
        .map(|slot: Slot| complete(slot, record(u32::from(slot), 100, 0)))
        .collect();
    assert_eq!(client.receive(1, &mut relay.send(1, None, 1_000, all)), STORED);
    relay.hear_all(10_000, &mut client);
    (relay, client)
}

fn fingerprint(client: &mut Client) -> String {
    // An empty datagram clears what the last receive left to read.
    client.receive(0, &mut []);
    client.fingerprint()
}

/// THREATS 22, 23: datagrams of no byte, one, and the most UDP carries; every first byte at every length up to 64; and
/// pieces of a good datagram under every kind. All refused, nothing moved.
#[test]
fn threats_22_datagrams_of_absurd_sizes_are_refused() {
    let (mut relay, mut client) = scene();
    let good = relay.send(2, Some(1), 2_000, vec![update(0, record(0, 101, 1_500))]);
    let before = fingerprint(&mut client);
    for kind in 0..=255u8 {
        for length in (1..=64).chain([1_201, 65_507]) {
            let mut bytes = vec![kind; length];
            assert!(matches!(client.receive(2, &mut bytes), Received::Refused(_)));
            let mut piece = good[..length.min(good.len() - 1)].to_vec();
            piece[0] = kind;
            assert!(matches!(client.receive(2, &mut piece), Received::Refused(_)));
        }
    }
    assert!(matches!(
        client.receive(2, &mut []),
        Received::Refused(Refusal::UnknownKind)
    ));
    assert_eq!(fingerprint(&mut client), before);
    assert_eq!(client.receive(3, &mut good.clone()), STORED);
}

/// THREATS 36: blocks that this version does not know refuse the whole payload with a reason.
#[test]
fn threats_36_unknown_blocks_are_refused_with_a_reason() {
    let (mut relay, mut client) = scene();
    let header = relay.header(2, Some(1), 2_000);
    let table = relay.table(crate::sequence::Tick(1));
    let part = relay.part(&header, Some(&table), &[update(0, record(0, 101, 1_500))]);
    let before = fingerprint(&mut client);
    for flag in [16u8, 32, 128] {
        let mut newer = part.clone();
        newer[0] |= flag;
        newer.extend([0; 8]);
        let refused = Received::Refused(Refusal::MalformedPayload);
        assert_eq!(client.receive(2, &mut relay.seal(newer)), refused);
    }
    assert_eq!(fingerprint(&mut client), before);
    assert_eq!(client.refusals().of(Refusal::MalformedPayload), 3);
}

/// THREATS 89: a challenge is answered at once, however lately the client spoke, once, with the newest one's bytes; and
/// beside the report that is due anyway.
#[test]
fn threats_89_a_challenge_is_answered_at_once_and_once() {
    let (mut relay, mut client) = scene();
    assert!(client.next_timer() > 10_001, "it has just spoken");
    for token in [[3; 8], [4; 8]] {
        assert_eq!(
            client.receive(10_001, &mut relay.challenge(token)),
            Received::Keepalive
        );
    }
    assert!(client.next_timer() <= 10_001);
    assert_eq!(relay.hear_all(10_001, &mut client), 1);
    assert_eq!(relay.answer, Some([4; 8]));
    assert!(client.next_timer() > 10_001);
    relay.hear_all(500_000, &mut client);
    assert_eq!(relay.answer, None);
}

/// FAULTS 19, THREATS 66, SPEC CTL4: an update for a slot that the base lacks is refused whole, though another entry of
/// the part is good; it is not held, not shown, and right as soon as the entity comes complete.
#[test]
fn faults_19_state_for_an_unknown_entity_is_not_committed() {
    let (mut relay, mut client) = scene();
    let mut richer = relay.table(crate::sequence::Tick(1));
    richer.insert(9, record(9, 50, 0));
    let header = relay.header(2, Some(1), 2_000);
    let entries = [update(0, record(0, 101, 1_500)), update(9, record(9, 51, 1_500))];
    // The same bits a relay would send whose table has slot 9.
    let part = relay.part(&header, Some(&richer), &entries);
    let before = fingerprint(&mut client);
    let refused = Received::Refused(Refusal::Body(DecodeError::NoSuchMember));
    for _ in 0..50 {
        assert_eq!(client.receive(2, &mut relay.seal(part.clone())), refused);
    }
    assert_eq!(fingerprint(&mut client), before);
    assert_eq!((held(&client), shown_x(&client, 9)), (vec![1], None));
    let whole = vec![complete(9, record(9, 51, 1_500))];
    assert_eq!(
        client.receive(3, &mut relay.send(3, Some(1), 3_000, whole)),
        STORED
    );
    assert_eq!(shown_x(&client, 9), Some(51));
    assert_eq!(
        (client.state(), client.refusing()),
        (SessionState::Connected, None)
    );
}

/// FAULTS 60: a delta made under another schema, and counts of entries up to 2^32 with few bytes behind them: an error
/// value and a counter, no panic and nothing reserved for the count.
#[test]
fn faults_60_mismatched_and_absurd_deltas_are_error_values() {
    let (mut relay, mut client) = scene();
    let before = fingerprint(&mut client);
    let header = relay.header(2, Some(1), 2_000);
    for count in [6u32, 1 << 15, (1 << 15) + 1, 1 << 31, u32::MAX] {
        for body in [&[][..], &[0], &[0xFF; 40], &[0x55; 900]] {
            let mut block = Vec::new();
            SnapshotHeader { count, ..header }.encode(&mut block);
            block.extend(body);
            let payload = Relay::payload(2, payload::SNAPSHOT, &block);
            let received = client.receive(2, &mut relay.seal(payload));
            assert!(
                matches!(received, Received::Refused(Refusal::Body(_))),
                "{count}: {received:?}"
            );
        }
    }
    assert_eq!(fingerprint(&mut client), before);
    // Another schema: no velocities, fewer fields, more bits of rotation.
    let mut other = relay.schema.clone();
    (other.velocity, other.angular) = (None, None);
    other.extras.truncate(1);
    other.rotation_bits = 12;
    let mut stranger = Relay::new([1; 16], [2; 16], 77);
    stranger.layout = Layout::new(&other);
    let table = relay.table(crate::sequence::Tick(1));
    let (mut refused, mut read) = (0, 0);
    for x in 0..200u32 {
        let header = relay.header(10 + x, Some(1), 2_000 + u64::from(x));
        let mut moved = record(0, 100 + x * 7, 1_500);
        moved.extras[0] = x;
        let part = stranger.part(
            &header,
            Some(&table),
            &[update(0, moved), update(1, record(1, x, 1_600))],
        );
        match client.receive(3, &mut relay.seal(part)) {
            Received::Refused(Refusal::Body(_)) => refused += 1,
            // What can be read is legal under the client's schema; the digest of the table finds it out.
            Received::Snapshot { .. } => read += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 100, "{refused} refused, {read} read");
}

/// THREATS 59, 61, SPEC DEC6: stream epochs, session epochs and generations at the top of their range: compared, never
/// wrapped; what is below them is old for good.
#[test]
fn threats_59_the_last_epochs_are_the_last() {
    let (mut relay, mut client) = scene();
    relay.stream_epoch = u32::MAX;
    let block = relay.welcome_payload();
    client.receive(20_000, &mut relay.seal(block));
    assert_eq!(client.stream_epoch(), u32::MAX);
    let top = SnapshotHeader {
        session_epoch: u32::MAX,
        generation: u32::MAX,
        ..relay.header(2, None, 2_000)
    };
    let part = relay.part(&top, None, &[complete(0, record(0, 7, 0))]);
    assert_eq!(client.receive(21_000, &mut relay.seal(part)), STORED);
    for (stream_epoch, session_epoch, generation, expected) in [
        (0, u32::MAX, u32::MAX, Refusal::UnknownStream),
        (1, u32::MAX, u32::MAX, Refusal::UnknownStream),
        (u32::MAX, 0, 0, Refusal::Window(Rejection::OldEpoch)),
        (
            u32::MAX,
            u32::MAX - 1,
            u32::MAX,
            Refusal::Window(Rejection::OldEpoch),
        ),
        (u32::MAX, u32::MAX, 0, Refusal::Window(Rejection::OldGeneration)),
    ] {
        let old = SnapshotHeader {
            stream_epoch,
            session_epoch,
            generation,
            ..relay.header(3, None, 3_000)
        };
        let part = relay.part(&old, None, &[complete(0, record(0, 8, 0))]);
        assert_eq!(
            client.receive(22_000, &mut relay.seal(part)),
            Received::Refused(expected)
        );
    }
    for stream_epoch in [0, 1, u32::MAX - 1] {
        relay.stream_epoch = stream_epoch;
        let block = relay.welcome_payload();
        client.receive(23_000, &mut relay.seal(block));
        assert_eq!(client.stream_epoch(), u32::MAX, "a lower one is old");
    }
    assert_eq!((held(&client), shown_x(&client, 0)), (vec![2], Some(7)));
}

/// THREATS 78: send times that are equal or fall are no error: snapshots are ordered by id.
#[test]
fn threats_78_send_times_order_nothing() {
    let (mut relay, mut client) = scene();
    for (id, server_us, x) in [
        (2u32, 1_000u64, 200u32),
        (3, 1_000, 300),
        (4, 900, 400),
        (5, 1_000, 500),
    ] {
        let entries = vec![update(0, record(0, x, 800))];
        let mut sent = relay.send(id, Some(1), server_us, entries);
        assert_eq!(client.receive(11_000 + u64::from(id), &mut sent), STORED);
        assert_eq!(shown_x(&client, 0), Some(x), "id {id}");
    }
    let mut late = relay.send(6, Some(1), 5_000, vec![update(0, record(0, 600, 4_000))]);
    let mut newer = relay.send(7, Some(1), 4_000, vec![update(0, record(0, 700, 3_000))]);
    client.receive(30_000, &mut newer);
    client.receive(31_000, &mut late);
    assert_eq!(
        shown_x(&client, 0),
        Some(700),
        "7 is newer, whatever the clock says"
    );
    assert_eq!(client.refusals().total(), 0);
}

/// One step of a world of two slots, and how many of its six a snapshot is after.
fn world_after(steps: usize) -> BTreeMap<Slot, Record> {
    let life = |generation, x, us| {
        let mut record = record(9, x, us);
        record.entity = Entity { id: 9, generation };
        record
    };
    match steps {
        0 => BTreeMap::new(),
        1 => BTreeMap::from([(0, life(0, 10, 1_000))]),
        2 => BTreeMap::from([(0, life(0, 11, 2_000))]),
        3 => BTreeMap::new(),
        4 => BTreeMap::from([(1, life(1, 50, 4_000))]),
        5 => BTreeMap::from([(1, life(1, 51, 5_000))]),
        _ => BTreeMap::new(),
    }
}

/// All orders of `items`, one after another.
fn permutations(items: &mut Vec<usize>, at: usize, all: &mut Vec<Vec<usize>>) {
    if at == items.len() {
        all.push(items.clone());
    }
    for next in at..items.len() {
        items.swap(at, next);
        permutations(items, at + 1, all);
        items.swap(at, next);
    }
}

/// THREATS 67, 68, SPEC TAB6, CTL1, ID2: six snapshots in which a life begins, moves and ends, and the next one too, in
/// all 720 orders, each also with any one of them lost or doubled: what is shown is never of an older life than was
/// shown, and in the end it is the world of the newest that came.
#[test]
fn threats_67_every_order_of_six_snapshots() {
    let mut orders = Vec::new();
    permutations(&mut (1..=6).collect(), 0, &mut orders);
    assert_eq!(orders.len(), 720);
    let variants = (0..=6)
        .flat_map(|lost| [(lost, 0)])
        .chain((1..=6).map(|doubled| (0, doubled)));
    for (lost, doubled) in variants {
        for order in &orders {
            let (mut relay, mut client) = scene();
            let table = relay.table(crate::sequence::Tick(1));
            let sent: Vec<Vec<u8>> = (1..=6usize)
                .map(|steps| snapshot(&mut relay, &table, steps))
                .collect();
            let (mut newest, mut life) = (0, 0);
            for steps in order.iter().filter(|steps| **steps != lost) {
                let copies = if *steps == doubled { 2 } else { 1 };
                for _ in 0..copies {
                    client.receive(20_000, &mut sent[steps - 1].clone());
                }
                newest = newest.max(*steps);
                for slot in [5, 6] {
                    if let Some(known) = client.display().known(slot) {
                        assert!(known.record.entity.generation >= life, "{order:?}");
                        life = known.record.entity.generation;
                    }
                }
            }
            let shown: BTreeMap<Slot, Record> = [0, 1]
                .into_iter()
                .filter_map(|slot| Some((slot, client.display().known(slot + 5)?.record)))
                .collect();
            assert_eq!(shown, world_after(newest), "{order:?} without {lost}");
            assert_eq!(client.display().live(), 5 + shown.len());
        }
    }
}

/// The delta from snapshot 1, which has neither life, to the world after `steps`: as a relay says it, with the end of
/// whoever came and went since.
fn snapshot(relay: &mut Relay, table: &BTreeMap<Slot, Record>, steps: usize) -> Vec<u8> {
    let world = world_after(steps);
    let mut entries: Vec<Entry> = Vec::new();
    for slot in [0, 1] {
        match world.get(&slot) {
            Some(record) => entries.push(complete(slot + 5, *record)),
            None if (1..steps).any(|before| world_after(before).contains_key(&slot)) => {
                entries.push(remove(slot + 5, Departure::Destroyed, 0));
            }
            None => {}
        }
    }
    let header = SnapshotHeader {
        view_complete: true,
        ..relay.header(1 + u32::try_from(steps).unwrap(), Some(1), 10_000 + steps as u64)
    };
    let part = relay.part(&header, Some(table), &entries);
    relay.seal(part)
}

/// FAULTS 97, THREATS 67: out of the view and in again, a thousand times with hops of 1 to 10 ticks, over a link that
/// reorders: who is there in the end is shown and moves, nobody else is.
#[test]
fn faults_97_hops_over_the_edge_of_a_view_leave_no_orphan() {
    for hop in 1..=10u32 {
        let (mut relay, mut client) = scene();
        let mut under_way: Vec<Vec<u8>> = Vec::new();
        let (mut id, mut dice) = (1, 7u64);
        let mut base = 1;
        for step in 0..100 * hop {
            id += 1;
            let table = relay.table(crate::sequence::Tick(base));
            let inside = step / hop % 2 == 1;
            let mut entries = vec![update(0, record(0, 1_000 + id, u64::from(id)))];
            match (inside, table.contains_key(&3)) {
                (true, true) => entries.push(update(3, record(3, 1_000 + id, u64::from(id)))),
                (true, false) => entries.push(complete(3, record(3, 1_000 + id, u64::from(id)))),
                (false, true) => entries.push(remove(3, Departure::LeftView, 0)),
                (false, false) => {}
            }
            under_way.push(relay.send(id, Some(base), 3_000 + u64::from(id), entries));
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if dice >> 60 > 3 {
                let pick = (dice >> 33) as usize % under_way.len();
                let mut datagram = under_way.swap_remove(pick);
                client.receive(20_000 * u64::from(id), &mut datagram);
            }
            if under_way.len() > 6 {
                under_way.remove(0);
            }
            relay.hear_all(20_000 * u64::from(id) + 9_000, &mut client);
            if relay.report.ask && relay.window.open_commit().is_none() {
                let newest = relay.report.held.as_slice()[0].id.0;
                if relay.window.find(crate::sequence::Tick(newest)).is_some() {
                    relay.commit(&[newest]);
                }
            }
            base = relay
                .window
                .held()
                .iter()
                .map(|held| held.held.id.0)
                .max()
                .unwrap();
        }
        for inside in [true, false] {
            id += 1;
            let table = relay.table(crate::sequence::Tick(base));
            let entry = match (inside, table.contains_key(&3)) {
                (true, true) => update(3, record(3, 5_000, u64::from(id))),
                (true, false) => complete(3, record(3, 5_000, u64::from(id))),
                (false, true) => remove(3, Departure::LeftView, 0),
                (false, false) => update(0, record(0, 5_000, u64::from(id))),
            };
            let mut sent = relay.send(id, Some(base), 3_000 + u64::from(id), vec![entry]);
            assert!(matches!(
                client.receive(20_000 * u64::from(id), &mut sent),
                Received::Snapshot { .. }
            ));
            relay.hear_all(20_000 * u64::from(id) + 9_000, &mut client);
            if inside {
                assert_eq!(shown_x(&client, 3), Some(5_000), "hop {hop}");
                assert_eq!(client.display().live(), 5);
                base = id;
            }
        }
        assert_eq!(
            (shown_x(&client, 3), client.display().live()),
            (None, 4),
            "hop {hop}"
        );
        assert!(table_of(&client, id).is_some_and(|table| table.len() == 4));
    }
}

/// THREATS 46: what came while no slot was free is shown, never reported, and no base of anything.
#[test]
fn threats_46_what_found_no_slot_is_not_reported() {
    let (mut relay, mut client) = scene();
    for id in 2..=40u32 {
        let header = relay.header(id, None, 1_000);
        let part = relay.part(&header, None, &[complete(0, record(0, id, 0))]);
        client.receive(u64::from(id), &mut relay.seal(part));
    }
    relay.hear_all(200_000, &mut client);
    let reported: Vec<u32> = relay
        .report
        .held
        .as_slice()
        .iter()
        .map(|held| held.id.0)
        .collect();
    assert_eq!(reported, (1..=32).rev().collect::<Vec<_>>());
    assert_eq!(
        client
            .changes()
            .iter()
            .filter(|shown| shown.kind == ShownKind::Updated)
            .count(),
        1
    );
    let header = relay.header(41, Some(40), 1_000);
    let part = relay.part(&header, Some(&BTreeMap::from([(0, record(0, 40, 0))])), &[]);
    assert_eq!(
        client.receive(300_000, &mut relay.seal(part)),
        Received::Refused(Refusal::Window(Rejection::BaseMissing))
    );
}
