//! Faults seen elsewhere (FAULTS), and what is right.

use super::relay::{Relay, complete, held, record, shown_x, table_of, update};
use crate::client::inbox::ClientEvent;
use crate::client::refusal::Refusal;
use crate::client::session::{Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::sequence::Tick;
use crate::window::receive::Rejection;
use crate::wire::snapshot::SnapshotHeader;

const STORED: Received = Received::Snapshot {
    shown: true,
    stored: true,
};

/// FAULTS 05: a base of before a source restart is never decoded from after it, though acknowledged.
#[test]
fn faults_05_no_base_crosses_a_restart() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    let before = relay.table(Tick(1));
    client.receive(11_000, &mut relay.new_stream());
    // A relay that gets it wrong: the new stream on the old base.
    let header = relay.header(2, Some(1), 5);
    let part = relay.part(&header, Some(&before), &[]);
    let refused = Received::Refused(Refusal::Window(Rejection::UncommittedGeneration));
    assert_eq!(client.receive(12_000, &mut relay.seal(part)), refused);
    // Or in the session epoch of the old one.
    let same_epoch = SnapshotHeader {
        session_epoch: client.session_epoch(),
        generation: client.generation(),
        ..header
    };
    let part = relay.part(&same_epoch, Some(&before), &[]);
    let refused = Received::Refused(Refusal::UnknownStream);
    assert_eq!(client.receive(12_500, &mut relay.seal(part)), refused);
    client.receive(
        13_000,
        &mut relay.send(3, None, 6, vec![complete(0, record(1, 3, 0))]),
    );
    let header = relay.header(4, Some(1), 7);
    let part = relay.part(&header, Some(&before), &[]);
    let refused = Received::Refused(Refusal::Window(Rejection::BaseMissing));
    assert_eq!(client.receive(14_000, &mut relay.seal(part)), refused);
    assert_eq!((held(&client), shown_x(&client, 0)), (vec![3], Some(3)));
}

/// FAULTS 22: snapshot ids wrap while an entity is quiet and while a client is idle.
#[test]
fn faults_22_an_entity_that_was_quiet_across_the_wrap_moves_again() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let first = u32::MAX - 20;
    let both = vec![complete(0, record(1, 7, 0)), complete(1, record(2, 7, 0))];
    client.receive(1, &mut relay.send(first, None, 1_000, both));
    relay.hear_all(10_000, &mut client);
    for step in 1..60u32 {
        let id = first.wrapping_add(step);
        let base = relay.window.held().last().unwrap().held.id.0;
        let now = u64::from(step) * 20_000;
        let mut entries = vec![update(0, record(1, 100 + step, now))];
        if step == 59 {
            entries.push(update(1, record(2, 500, now)));
        }
        assert_eq!(
            client.receive(now, &mut relay.send(id, Some(base), now, entries)),
            STORED
        );
        relay.hear_all(now + 6_000, &mut client);
        if relay.report.ask {
            relay.commit(&[relay.report.held.as_slice()[0].id.0]);
        }
    }
    assert_eq!((shown_x(&client, 0), shown_x(&client, 1)), (Some(159), Some(500)));
    assert_eq!(client.refusals().total(), 0);
}

/// FAULTS 24: a forged datagram with an absurd number closes nothing.
#[test]
fn faults_24_an_absurd_number_moves_nothing() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    for low in [0u32, 1, 33, 1 << 10, 1 << 31, u32::MAX] {
        let mut forged = vec![0x10];
        forged.extend(low.to_le_bytes());
        forged.extend([0x5A; 60]);
        assert!(matches!(client.receive(1, &mut forged), Received::Refused(_)));
    }
    assert_eq!(
        client.receive(
            2,
            &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))])
        ),
        STORED
    );
    relay.hear_all(10_000, &mut client);
    assert_eq!(
        (relay.report.received_newest, relay.report.received_count),
        (1, 2)
    );
}

/// FAULTS 70: a snapshot with an earlier time fills a table; nothing goes back and the session stays.
#[test]
fn faults_70_an_older_snapshot_is_no_reason_to_leave() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    let sent: Vec<Vec<u8>> = (2..50u32)
        .map(|id| {
            relay.send(
                id,
                Some(1),
                u64::from(id) * 1_000,
                vec![update(0, record(1, 100 + id, u64::from(id) * 1_000))],
            )
        })
        .collect();
    for depth in [3usize, 10, 40] {
        let mut shown = 0;
        for group in sent.chunks(depth) {
            for datagram in group.iter().rev() {
                let _ = client.receive(20_000, &mut datagram.clone());
                let x = shown_x(&client, 0).unwrap();
                assert!(x >= shown, "depth {depth}");
                shown = x;
            }
        }
    }
    assert_eq!(
        (client.state(), shown_x(&client, 0)),
        (SessionState::Connected, Some(149))
    );
    assert_eq!(client.refusals().of(Refusal::DuplicateDatagram), 2 * 48);
    assert_eq!(
        client.newest().map(|newest| (newest.id, newest.server_us)),
        Some((Tick(49), 49_000))
    );
}

/// FAULTS 74: after a source restart its small times and the same ids in the same slots move at once.
#[test]
fn faults_74_pooled_state_of_the_old_stream_is_wiped() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let late = 81_000 * 50_000;
    client.receive(
        1,
        &mut relay.send(81_000, None, late, vec![complete(0, record(1, 7, late))]),
    );
    relay.hear_all(10_000, &mut client);
    client.receive(11_000, &mut relay.new_stream());
    relay.hear_all(16_000, &mut client);
    client.receive(
        17_000,
        &mut relay.send(81_001, None, 50_000, vec![complete(0, record(1, 8, 50_000))]),
    );
    relay.hear_all(23_000, &mut client);
    assert_eq!(shown_x(&client, 0), Some(8));
    client.receive(
        24_000,
        &mut relay.send(
            81_002,
            Some(81_001),
            100_000,
            vec![update(0, record(1, 9, 100_000))],
        ),
    );
    assert_eq!((shown_x(&client, 0), client.refusals().total()), (Some(9), 0));
    assert_eq!(table_of(&client, 81_002).unwrap()[&0], record(1, 9, 100_000));
    assert!(core::iter::from_fn(|| client.poll_event()).any(|event| event == ClientEvent::StreamChanged(2)));
}

/// THREATS 59: session epoch 0 is that before any: no snapshot is of it, not even the first.
#[test]
fn threats_59_no_snapshot_is_of_epoch_zero() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let header = SnapshotHeader {
        session_epoch: 0,
        ..relay.header(1, None, 1_000)
    };
    let part = relay.part(&header, None, &[complete(0, record(1, 3, 0))]);
    let refused = Received::Refused(Refusal::Window(Rejection::OldEpoch));
    assert_eq!(client.receive(1_000, &mut relay.seal(part)), refused);
    assert_eq!((held(&client), client.display().live()), (vec![], 0));
}
