//! Tables, parts and windows (SPEC TAB, WIN, DEC9).

use serde_json::Value;

use super::relay::{Relay, Table, applied, complete, digest, held, record, shown_x, table_of, update};
use crate::client::display::ShownKind;
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received};
use crate::client::settings::ClientSettings;
use crate::delta::decode::Entry;
use crate::sequence::Tick;
use crate::state::slots::Slot;
use crate::window::receive::Rejection;
use crate::wire::report::RefuseReason;
use crate::wire::snapshot::{Held, SnapshotHeader};

const STORED: Received = Received::Snapshot {
    shown: true,
    stored: true,
};
const LATE: Received = Received::Snapshot {
    shown: false,
    stored: true,
};
const SHOWN: Received = Received::Snapshot {
    shown: true,
    stored: false,
};

fn us(seconds: &Value) -> u64 {
    (seconds.as_f64().unwrap() * 1e6).round() as u64
}

fn name(slot: Slot) -> &'static str {
    ["A", "B"][usize::from(slot)]
}

fn vector() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/delta_42_43_44.json")).unwrap()
}

fn vector_table(value: &Value) -> Table {
    let record = |slot: Slot| {
        let row = &value[name(slot)];
        (
            slot,
            record(
                u32::from(slot) + 1,
                row["x"].as_u64().unwrap() as u32,
                us(&row["obs_s"]),
            ),
        )
    };
    Table::from([record(0), record(1)])
}

/// A packet of the vector as entries on its base.
fn vector_entries(packet: &Value, base: &Table) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (slot, record) in base {
        let Some(delta) = packet["delta"].get(name(*slot)) else {
            continue;
        };
        let mut now = *record;
        let motion = now.motion.as_mut().unwrap();
        motion.position[0] += delta["dx"].as_u64().unwrap_or(0) as u32;
        motion.observed_us = us(&delta["obs_s"]);
        entries.push(update(*slot, now));
    }
    entries
}

fn full(table: &Table) -> Vec<Entry> {
    table
        .iter()
        .map(|(slot, record)| complete(*slot, *record))
        .collect()
}

/// The relay and a client that holds 42 of the vector.
fn holding_42(vector: &Value) -> (Relay, Client, Table) {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let base = vector_table(&vector["baseline"]["table"]);
    let mut sent = relay.send(42, None, 1_000_000, full(&base));
    assert_eq!(client.receive(1, &mut sent), STORED);
    relay.hear_all(10_000, &mut client);
    (relay, client, base)
}

/// SPEC TAB1, TAB2, TAB6, ID4, FAULTS 03 and THREATS 41 (vector delta_42_43_44): 43 and 44 both name 42 and give the same
/// tables in either order and when 43 is lost; an entity not in a packet keeps its observation time; an empty
/// mask is a new observation.
#[test]
fn tab1_tab2_id4_delta_42_43_44() {
    let vector = vector();
    for order in [vec![0, 1], vec![1, 0], vec![1]] {
        let (mut relay, mut client, base) = holding_42(&vector);
        let packets = vector["packets"].as_array().unwrap();
        let sent: Vec<Vec<u8>> = packets
            .iter()
            .map(|packet| {
                let id = packet["id"].as_u64().unwrap() as u32;
                relay.send(id, Some(42), us(&packet["sent_s"]), vector_entries(packet, &base))
            })
            .collect();
        let mut newest = 0;
        for index in &order {
            let late = *index < newest;
            newest = newest.max(*index);
            let received = client.receive(20_000, &mut sent[*index].clone());
            assert_eq!(received, if late { LATE } else { STORED }, "{order:?}");
            assert_eq!(
                client.changes().len(),
                usize::from(!late),
                "TAB6: late parts change no display"
            );
        }
        for index in &order {
            let id = packets[*index]["id"].as_u64().unwrap() as u32;
            assert_eq!(
                table_of(&client, id),
                Some(vector_table(&packets[*index]["table"]))
            );
        }
        assert_eq!(
            shown_x(&client, 0),
            Some(10_040),
            "44 was not applied on top of 43"
        );
        relay.hear_all(30_000, &mut client);
        let packet = &vector["empty_mask"]["packet"];
        let base = relay.table(Tick(44));
        let mut sent = relay.send(45, Some(44), us(&packet["sent_s"]), vector_entries(packet, &base));
        assert_eq!(client.receive(31_000, &mut sent), STORED);
        assert_eq!(
            table_of(&client, 45),
            Some(vector_table(&vector["empty_mask"]["table"]))
        );
        assert_eq!(client.changes()[0].kind, ShownKind::Updated);
        assert_eq!(
            client
                .display()
                .known(client.changes()[0].slot)
                .unwrap()
                .record
                .motion
                .unwrap()
                .observed_us,
            1_150_000
        );
    }
}

/// SPEC WIN2, THREATS 40 (vector: client has only 40): the delta is rejected, nothing is acknowledged, a full state is
/// asked for; once that is stored and acknowledged it may be named.
#[test]
fn win2_a_missing_base_is_refused_and_healed() {
    let vector = vector();
    let base = vector_table(&vector["baseline"]["table"]);
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    assert_eq!(
        client.receive(1, &mut relay.send(40, None, 1_000_000, full(&base))),
        STORED
    );
    relay.hear_all(10_000, &mut client);
    let header = relay.header(43, Some(42), 1_050_000);
    let part = relay.part(
        &header,
        Some(&base),
        &vector_entries(&vector["packets"][0], &base),
    );
    let refused = Received::Refused(Refusal::Window(Rejection::BaseMissing));
    assert_eq!(client.receive(20_000, &mut relay.seal(part)), refused);
    assert_eq!(
        (held(&client), client.changes().len(), client.decoded().count()),
        (vec![40], 0, 0)
    );
    assert_eq!(relay.window.session_epoch(), 1);
    assert_eq!(relay.hear_all(20_000, &mut client), 1, "said at once");
    assert_eq!(relay.report.refuse, Some(RefuseReason::BaseMissing));
    assert_eq!(
        relay.report.held.as_slice(),
        [Held {
            id: Tick(40),
            mask: 1
        }]
    );
    assert_eq!(
        relay.window.session_epoch(),
        2,
        "the relay answers with the next epoch"
    );
    assert_eq!(
        client.receive(30_000, &mut relay.send(44, None, 1_100_000, full(&base))),
        STORED
    );
    relay.hear_all(40_000, &mut client);
    assert_eq!((held(&client), relay.report.refuse), (vec![44], None));
    let entries = vector_entries(&vector["empty_mask"]["packet"], &base);
    assert_eq!(
        client.receive(50_000, &mut relay.send(45, Some(44), 1_150_000, entries)),
        STORED
    );
}

/// A client connected by `settings` that holds nothing, and two parts of snapshot 10: slots 0 and 1.
fn two_parts(settings: ClientSettings) -> (Relay, Client, Vec<Vec<u8>>) {
    let (mut relay, client) = Relay::connected(settings);
    let header = relay.header(10, None, 1_000_000);
    let parts = vec![
        vec![complete(0, record(1, 100, 0))],
        vec![complete(1, record(2, 200, 0))],
    ];
    let parts = relay.snapshot(header, parts);
    let sealed = parts.into_iter().map(|part| relay.seal(part)).collect();
    (relay, client, sealed)
}

/// SPEC TAB8: the first report fixes the parts; a later part is shown, never stored; the next snapshot on that
/// base decodes from base plus held parts.
#[test]
fn tab8_a_part_after_the_report_is_shown_never_stored() {
    let (mut relay, mut client, mut parts) = two_parts(ClientSettings::default());
    assert_eq!(client.receive(100_000, &mut parts[0]), STORED);
    assert_eq!(relay.hear_all(107_999, &mut client), 1, "the keepalive is due");
    assert!(
        relay.report.held.as_slice().is_empty(),
        "the snapshot waits for its second part"
    );
    assert_eq!(client.next_timer(), 112_999);
    assert_eq!(relay.hear_all(112_999, &mut client), 1);
    assert_eq!(
        relay.report.held.as_slice(),
        [Held {
            id: Tick(10),
            mask: 1
        }]
    );
    assert_eq!(client.receive(113_000, &mut parts[1]), SHOWN);
    assert_eq!(
        (shown_x(&client, 1), table_of(&client, 10).unwrap().len()),
        (Some(200), 1)
    );
    relay.hear_all(220_000, &mut client);
    assert_eq!(
        relay.report.held.as_slice(),
        [Held {
            id: Tick(10),
            mask: 1
        }],
        "for ever"
    );
    let entries = vec![update(0, record(1, 110, 50)), complete(1, record(2, 210, 50))];
    assert_eq!(
        client.receive(221_000, &mut relay.send(11, Some(10), 1_100_000, entries.clone())),
        STORED
    );
    assert_eq!(table_of(&client, 11), Some(applied(None, &entries)));
}

/// SPEC TAB8: parts that come together are held together, in any order, and reported at once.
#[test]
fn tab8_parts_that_come_in_time_are_held_together() {
    for order in [[0, 1], [1, 0]] {
        let (mut relay, mut client, parts) = two_parts(ClientSettings::default());
        client.receive(100_000, &mut parts[order[0]].clone());
        assert_eq!(client.receive(101_000, &mut parts[order[1]].clone()), STORED);
        assert!(
            client.next_timer() <= 101_000,
            "whole: there is nothing to wait for"
        );
        relay.hear_all(101_000, &mut client);
        assert_eq!(
            relay.report.held.as_slice(),
            [Held {
                id: Tick(10),
                mask: 3
            }]
        );
        assert_eq!(relay.table(Tick(10)), table_of(&client, 10).unwrap());
        let rejected = Received::Refused(Refusal::Window(Rejection::DuplicatePart));
        let header = relay.header(10, None, 1_000_000);
        let again = relay.part(&header, None, &[complete(0, record(1, 100, 0))]);
        assert_eq!(client.receive(102_000, &mut relay.seal(again)), rejected);
    }
}

/// SPEC TAB8: a newer snapshot does not end the wait of the one before it: each waits for its own parts.
#[test]
fn tab8_each_snapshot_waits_for_its_own_parts() {
    let (mut relay, mut client, mut parts) = two_parts(ClientSettings::default());
    client.receive(100_000, &mut parts[0]);
    assert_eq!(relay.hear_all(100_001, &mut client), 1);
    let header = SnapshotHeader {
        last: false,
        ..relay.header(11, None, 1_016_000)
    };
    let part = relay.part(&header, None, &[complete(5, record(9, 1, 0))]);
    client.receive(106_000, &mut relay.seal(part));
    assert_eq!(relay.hear_all(106_000, &mut client), 0, "both wait");
    client.receive(107_000, &mut parts[1]);
    assert_eq!(relay.hear_all(107_000, &mut client), 1, "news at once");
    assert_eq!(
        relay.report.held.as_slice(),
        [Held {
            id: Tick(10),
            mask: 3
        }]
    );
    assert_eq!(client.next_timer(), 114_000);
}

/// SPEC WIN3, WIN5, WIN8, DEC9: a client asks at half its slots, takes the commit with its digest, frees the rest
/// and confirms with its next packet; the normal case is never full.
#[test]
fn win8_windows_advance_and_never_fill() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let mut base = None;
    for id in 1..200u32 {
        let now = u64::from(id) * 16_000;
        let slot = (id % 7) as Slot;
        let entries = match base.map(|base| relay.table(Tick(base)).contains_key(&slot)) {
            Some(true) => vec![update(slot, record(u32::from(slot), id, now))],
            _ => vec![complete(slot, record(u32::from(slot), id, now))],
        };
        let mut sent = relay.send(id, base, now, entries);
        assert_eq!(client.receive(now, &mut sent), STORED);
        relay.hear_all(now + 6_000, &mut client);
        if relay.report.ask && relay.window.open_commit().is_none() {
            relay.commit(&[id]);
        }
        base = relay.window.held().iter().map(|held| held.held.id.0).max();
        assert_eq!(
            relay.table(Tick(base.unwrap())),
            table_of(&client, base.unwrap()).unwrap()
        );
    }
    let statistics = client.statistics();
    assert!(
        statistics.advances_applied >= 10 && statistics.slots_in_use_max <= 17,
        "{statistics:?}"
    );
    assert_eq!(
        (statistics.digest_mismatches, statistics.parts_window_full),
        (0, 0)
    );
    assert_eq!(statistics.digest_checked, statistics.advances_applied);
    assert_eq!(statistics.snapshots_stored, 199);
}

/// SPEC WIN5: with all slots in use a snapshot is shown, not stored, and what is held is still reported.
#[test]
fn win5_a_full_window_shows_and_stores_nothing_new() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    for id in 1..=33u32 {
        let header = relay.header(id, None, 1_000);
        let part = relay.part(&header, None, &[complete(0, record(1, id, 0))]);
        let expected = if id <= 32 { STORED } else { SHOWN };
        assert_eq!(client.receive(u64::from(id), &mut relay.seal(part)), expected);
    }
    relay.hear_all(100_000, &mut client);
    assert!(relay.report.ask && relay.report.held.as_slice().len() == 32);
    assert_eq!(
        (shown_x(&client, 0), client.statistics().parts_window_full),
        (Some(33), 1)
    );
}

/// SPEC WIN11, THREATS 43: a client that refuses for another reason already distrusts its tables all the same once a
/// digest differed, until the next session epoch.
#[test]
fn threats_43_distrust_does_not_wait_behind_another_refusal() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    client.request_full_state(11_000);
    assert!(client.flip_bit(0));
    let table = relay.table(Tick(1));
    let header = SnapshotHeader {
        base_digest: Some(digest(&table)),
        ..relay.header(2, Some(1), 2_000)
    };
    let part = relay.part(&header, Some(&table), &[]);
    client.receive(20_000, &mut relay.seal(part));
    assert_eq!(client.statistics().digest_mismatches, 1);
    assert_eq!(client.refusing(), Some(RefuseReason::Requested));
    let mut plain = relay.send(3, Some(1), 3_000, vec![]);
    let distrusted = Received::Refused(Refusal::DistrustedBase);
    assert_eq!(client.receive(21_000, &mut plain), distrusted);
    relay.hear_all(22_000, &mut client);
    let entries = vec![complete(0, record(1, 8, 0))];
    assert_eq!(
        client.receive(30_000, &mut relay.send(4, None, 4_000, entries)),
        STORED
    );
    relay.hear_all(40_000, &mut client);
    assert_eq!(
        client.receive(41_000, &mut relay.send(5, Some(4), 5_000, vec![])),
        STORED
    );
    // What is left of the old epoch is old, not distrusted.
    let late = relay.part(&header, Some(&table), &[]);
    let old = Received::Refused(Refusal::Window(Rejection::OldEpoch));
    assert_eq!(client.receive(42_000, &mut relay.seal(late)), old);
}

/// SPEC DEC9, WIN11, THREATS 43: a flipped bit in a held table is found by the next digest, nothing is decoded
/// from that epoch's tables any more, and the next epoch heals it.
#[test]
fn dec9_a_flipped_bit_is_found_and_healed() {
    for seed in 0..60u64 {
        let (mut relay, mut client) = Relay::connected(ClientSettings::default());
        client.receive(
            1,
            &mut relay.send(
                1,
                None,
                1_000,
                vec![complete(0, record(1, 7, 0)), complete(3, record(2, 9, 0))],
            ),
        );
        relay.hear_all(10_000, &mut client);
        assert!(client.flip_bit(seed * 1_000_003));
        let table = relay.table(Tick(1));
        let good = digest(&table);
        let header = SnapshotHeader {
            base_digest: Some(good),
            ..relay.header(2, Some(1), 2_000)
        };
        let part = relay.part(&header, Some(&table), &[]);
        let refused = Received::Refused(Refusal::Window(Rejection::BaseDigest));
        assert_eq!(
            client.receive(20_000, &mut relay.seal(part)),
            refused,
            "seed {seed}"
        );
        let mut plain = relay.send(3, Some(1), 3_000, vec![]);
        assert_eq!(
            client.receive(21_000, &mut plain),
            Received::Refused(Refusal::DistrustedBase)
        );
        assert_eq!(
            (
                client.statistics().digest_checked,
                client.statistics().digest_mismatches
            ),
            (1, 1)
        );
        relay.hear_all(22_000, &mut client);
        assert_eq!(
            (relay.report.refuse, relay.window.session_epoch()),
            (Some(RefuseReason::BaseDigest), 2)
        );
        let entries = vec![complete(0, record(1, 8, 0))];
        assert_eq!(
            client.receive(30_000, &mut relay.send(4, None, 4_000, entries)),
            STORED
        );
        relay.hear_all(40_000, &mut client);
        assert_eq!((client.refusing(), relay.report.refuse), (None, None));
        assert_eq!(
            client.receive(41_000, &mut relay.send(5, Some(4), 5_000, vec![])),
            STORED
        );
    }
}
