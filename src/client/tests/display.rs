//! The display: what is shown, since when, and what is gone (SPEC TAB6, CTL1, CTL6, WIN10, PLY7).

use super::relay::{Relay, complete, digest, held, record, remove, shown_x, table_of, update};
use crate::client::display::{Absence, DisplayPlace, ShownKind};
use crate::client::inbox::ClientEvent;
use crate::client::refusal::Refusal;
use crate::client::session::Received;
use crate::client::settings::ClientSettings;
use crate::delta::decode::{Change, Entry};
use crate::sequence::Tick;
use crate::state::entity::Departure;
use crate::state::slots::Slot;
use crate::wire::report::RefuseReason;
use crate::wire::snapshot::SnapshotHeader;

const STORED: Received = Received::Snapshot {
    shown: true,
    stored: true,
};

/// SPEC CTL1, TAB6: each way of departing leaves its own tombstone, and a late part revives nothing.
#[test]
fn ctl1_departures_are_told_apart_and_late_parts_revive_nothing() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let all: Vec<Entry> = (0..4)
        .map(|slot| complete(slot, record(u32::from(slot) + 1, 7, 0)))
        .collect();
    client.receive(1, &mut relay.send(1, None, 1_000, all));
    relay.hear_all(10_000, &mut client);
    let moved: Vec<Entry> = (0..4)
        .map(|slot| update(slot, record(u32::from(slot) + 1, 8, 900)))
        .collect();
    let mut late = relay.send(2, Some(1), 1_500, moved);
    let gone = vec![
        remove(0, Departure::Destroyed, 9),
        remove(1, Departure::LeftView, 0),
        remove(2, Departure::Hidden, 0),
    ];
    assert_eq!(
        client.receive(11_000, &mut relay.send(3, Some(1), 2_000, gone)),
        STORED
    );
    let kinds: Vec<ShownKind> = client.changes().iter().map(|shown| shown.kind).collect();
    let destroyed = Absence::Destroyed {
        at_us: 500,
        reason: 9,
    };
    let expected = [destroyed, Absence::LeftView, Absence::Hidden].map(ShownKind::Removed);
    assert_eq!(kinds, expected);
    assert_eq!(
        client.receive(12_000, &mut late),
        Received::Snapshot {
            shown: true,
            stored: true
        }
    );
    assert_eq!(client.changes().len(), 1, "slot 3 alone was still there");
    assert_eq!((client.display().live(), shown_x(&client, 3)), (1, Some(8)));
    let DisplayPlace::Gone(tomb) = client.display().place(0) else {
        panic!("a tombstone")
    };
    assert_eq!((tomb.absence, tomb.as_of), (destroyed, Tick(3)));
    assert_eq!(
        table_of(&client, 2).unwrap().len(),
        4,
        "as a baseline the late part counts"
    );
    // A destroyed life never comes back; who left may, as may a new life in the same slot.
    relay.hear_all(20_000, &mut client);
    let back = vec![complete(0, record(1, 9, 0)), complete(1, record(2, 9, 0))];
    client.receive(21_000, &mut relay.send(4, Some(3), 3_000, back));
    assert_eq!((shown_x(&client, 0), shown_x(&client, 1)), (None, Some(9)));
    let mut next_life = record(1, 10, 3_000);
    next_life.entity.generation = 1;
    client.receive(
        22_000,
        &mut relay.send(5, Some(3), 3_000, vec![complete(0, next_life)]),
    );
    assert_eq!(client.display().find(next_life.entity), Some(0));
    assert_eq!(client.changes()[0].kind, ShownKind::Entered);
}

/// SPEC TAB6: a removal that comes late takes nothing away that a newer snapshot shows.
#[test]
fn tab6_a_late_removal_takes_nothing_away() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    let mut late = relay.send(2, Some(1), 2_000, vec![remove(0, Departure::LeftView, 0)]);
    client.receive(
        11_000,
        &mut relay.send(3, Some(1), 3_000, vec![update(0, record(1, 8, 2_500))]),
    );
    let received = client.receive(12_000, &mut late);
    assert_eq!(
        received,
        Received::Snapshot {
            shown: false,
            stored: true
        }
    );
    assert_eq!((shown_x(&client, 0), client.display().live()), (Some(8), 1));
    assert_eq!(table_of(&client, 2).unwrap().len(), 0);
}

/// SPEC ENT9: an awake mark changes no record; a newer record supersedes it; an older one does not.
#[test]
fn ent9_awake_marks_are_ordered_like_records() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    let mut older = relay.send(2, Some(1), 2_000, vec![update(0, record(1, 8, 1_500))]);
    let mark = vec![Entry {
        slot: 0,
        change: Change::Awake,
    }];
    client.receive(11_000, &mut relay.send(3, Some(1), 3_000, mark));
    assert_eq!(
        (client.changes()[0].kind, shown_x(&client, 0)),
        (ShownKind::Awake, Some(7))
    );
    assert_eq!(
        table_of(&client, 3),
        table_of(&client, 1),
        "the table keeps the record"
    );
    client.receive(12_000, &mut older);
    assert!(client.display().known(0).unwrap().is_awake() && shown_x(&client, 0) == Some(8));
    client.receive(
        13_000,
        &mut relay.send(4, Some(1), 4_000, vec![update(0, record(1, 9, 3_500))]),
    );
    assert!(!client.display().known(0).unwrap().is_awake());
}

/// SPEC WIN10, ID1, DEC12: the display outlives a session epoch; the first complete view of the new one takes
/// away what ended while nobody could say so.
#[test]
fn win10_the_display_survives_an_epoch_and_is_reconciled() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let all: Vec<Entry> = (0..3)
        .map(|slot| complete(slot, record(u32::from(slot) + 1, 7, 0)))
        .collect();
    client.receive(1, &mut relay.send(1, None, 1_000, all));
    client.request_full_state(2);
    relay.hear_all(10_000, &mut client);
    assert_eq!(relay.report.refuse, Some(RefuseReason::Requested));
    // Slot 1 ended meanwhile; slot 2 is another entity now.
    let now = vec![complete(0, record(1, 8, 0)), complete(2, record(30, 9, 0))];
    client.receive(11_000, &mut relay.send(2, None, 2_000, now));
    assert_eq!((client.session_epoch(), held(&client)), (2, vec![2]));
    assert_eq!(client.display().live(), 3);
    let kinds: Vec<(Slot, ShownKind)> = client
        .changes()
        .iter()
        .map(|shown| (shown.slot, shown.kind))
        .collect();
    let replaced = (2, ShownKind::Removed(Absence::Unheard));
    assert_eq!(
        kinds,
        [(0, ShownKind::Updated), replaced, (2, ShownKind::Entered)]
    );
    relay.hear_all(20_000, &mut client);
    // Slot 4 enters at 3, after the base: the complete view on base 2 cannot speak of it.
    client.receive(
        21_000,
        &mut relay.send(3, Some(2), 2_500, vec![complete(4, record(5, 1, 0))]),
    );
    let header = SnapshotHeader {
        view_complete: true,
        ..relay.header(4, Some(2), 3_000)
    };
    let part = relay
        .snapshot(header, vec![vec![update(0, record(1, 9, 2_900))]])
        .remove(0);
    client.receive(22_000, &mut relay.seal(part));
    assert_eq!(client.changes()[1].kind, ShownKind::Removed(Absence::Unheard));
    assert_eq!(
        client
            .display()
            .records()
            .map(|(slot, ..)| slot)
            .collect::<Vec<_>>(),
        [0, 2, 4]
    );
    assert_eq!(
        (
            client.statistics().reconciled,
            client.statistics().view_complete_us
        ),
        (1, Some(22_000))
    );
    assert!(core::iter::from_fn(|| client.poll_event()).any(|event| event == ClientEvent::ViewComplete));
}

/// SPEC TAB8, CTL6: who left and is there again, unchanged since the base, is not named by a delta; a snapshot
/// that re-asserts its whole base brings it back.
#[test]
fn ctl6_a_member_that_came_back_unchanged_is_reinstated() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(
            1,
            None,
            1_000,
            vec![complete(0, record(1, 7, 0)), complete(1, record(2, 7, 0))],
        ),
    );
    relay.hear_all(10_000, &mut client);
    client.receive(
        11_000,
        &mut relay.send(
            2,
            Some(1),
            2_000,
            vec![
                remove(0, Departure::LeftView, 0),
                remove(1, Departure::LeftView, 0),
            ],
        ),
    );
    assert_eq!(client.display().live(), 0);
    let base_digest = Some(digest(&relay.table(Tick(1))));
    let header = SnapshotHeader {
        view_complete: true,
        base_digest,
        ..relay.header(3, Some(1), 3_000)
    };
    let part = relay
        .snapshot(header, vec![vec![remove(1, Departure::LeftView, 0)]])
        .remove(0);
    client.receive(12_000, &mut relay.seal(part));
    assert_eq!((shown_x(&client, 0), client.display().live()), (Some(7), 1));
    assert_eq!(
        (client.statistics().reinstated, client.statistics().digest_checked),
        (1, 1)
    );
}

/// SPEC CTL6, TAB8: the base's digest comes with one part, and the snapshot is whole with another.
#[test]
fn ctl6_a_base_is_said_again_by_a_snapshot_of_several_parts() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let all = vec![complete(0, record(1, 7, 0)), complete(1, record(2, 7, 0))];
    client.receive(1, &mut relay.send(1, None, 1_000, all));
    relay.hear_all(10_000, &mut client);
    let gone = vec![remove(0, Departure::LeftView, 0)];
    client.receive(11_000, &mut relay.send(2, Some(1), 2_000, gone));
    assert_eq!(client.display().live(), 1);
    let base = relay.table(Tick(1));
    let header = SnapshotHeader {
        view_complete: true,
        last: false,
        base_digest: Some(digest(&base)),
        ..relay.header(3, Some(1), 3_000)
    };
    let first = relay.part(&header, Some(&base), &[]);
    client.receive(12_000, &mut relay.seal(first));
    assert_eq!((shown_x(&client, 0), client.display().live()), (None, 1));
    let rest = SnapshotHeader {
        part: 1,
        last: true,
        base_digest: None,
        ..header
    };
    let second = relay.part(&rest, Some(&base), &[update(1, record(2, 8, 2_500))]);
    client.receive(12_100, &mut relay.seal(second));
    assert_eq!((shown_x(&client, 0), shown_x(&client, 1)), (Some(7), Some(8)));
}

/// SPEC ID1, PLY7: a new stream clears the display at once; nothing of the old one is shown or decoded.
#[test]
fn ply7_a_new_stream_clears_the_display() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    let mut old = relay.send(2, Some(1), 2_000, vec![update(0, record(1, 8, 1_500))]);
    assert_eq!(
        client.receive(11_000, &mut relay.new_stream()),
        Received::Keepalive
    );
    assert_eq!(
        (client.display().records().count(), shown_x(&client, 0)),
        (0, None)
    );
    assert_eq!(
        (client.display().live(), client.stream_epoch(), held(&client)),
        (0, 2, vec![1])
    );
    assert_eq!(
        client.receive(12_000, &mut old),
        Received::Refused(Refusal::UnknownStream)
    );
    assert_eq!(
        client.receive(13_000, &mut relay.welcome()),
        Received::Keepalive,
        "the same again changes nothing"
    );
    relay.hear_all(15_000, &mut client);
    assert_eq!(relay.report.stream_epoch, 2);
    assert_eq!(
        client.receive(
            16_000,
            &mut relay.send(3, None, 5, vec![complete(0, record(1, 3, 0))])
        ),
        STORED
    );
    assert_eq!(
        (client.session_epoch(), held(&client), shown_x(&client, 0)),
        (2, vec![3], Some(3))
    );
    let stale = SnapshotHeader {
        stale: true,
        ..relay.header(4, None, 5)
    };
    let part = relay.snapshot(stale, vec![vec![]]).remove(0);
    client.receive(17_000, &mut relay.seal(part));
    let events: Vec<ClientEvent> = core::iter::from_fn(|| client.poll_event()).collect();
    use ClientEvent::{Connected, StreamChanged, UpstreamStale};
    assert_eq!(
        events,
        [Connected, StreamChanged(1), StreamChanged(2), UpstreamStale(true)]
    );
}
