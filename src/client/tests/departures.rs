//! Who goes, and who stays gone, whatever comes late or never (SPEC CTL1, ID2, TAB6, DEC12, CTL6; FAULTS 64).

use super::relay::{Relay, complete, digest, held, record, remove, shown_x, table_of, update};
use crate::client::display::{Absence, DisplayPlace, Fate, Gone, ShownKind};
use crate::client::inbox::ClientEvent;
use crate::client::session::Client;
use crate::client::settings::ClientSettings;
use crate::delta::decode::{Change, Entry};
use crate::sequence::Tick;
use crate::state::entity::{Departure, Entity};
use crate::state::record::Record;
use crate::state::slots::Slot;
use crate::wire::snapshot::SnapshotHeader;

/// A client that holds snapshot 1: entity 1 in slot 0, entity 2 in slot 1, both at 7.
fn scene() -> (Relay, Client) {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let both = vec![complete(0, record(1, 7, 0)), complete(1, record(2, 7, 0))];
    client.receive(1, &mut relay.send(1, None, 1_000, both));
    relay.hear_all(20_000, &mut client);
    (relay, client)
}

fn entity(id: u32) -> Entity {
    Entity { id, generation: 0 }
}

/// A later life of an id.
fn life(id: u32, generation: u32, x: u32) -> Record {
    let mut record = record(id, x, 0);
    record.entity.generation = generation;
    record
}

fn tombstone(client: &Client, slot: Slot) -> Gone {
    match client.display().place(slot) {
        DisplayPlace::Gone(gone) => gone,
        place => panic!("a tombstone, not {place:?}"),
    }
}

/// One sealed snapshot of one part whose view is complete; no digest, as when a budget leaves entries out.
fn complete_view(relay: &mut Relay, id: u32, base: u32, entries: Vec<Entry>) -> Vec<u8> {
    let header = SnapshotHeader {
        view_complete: true,
        ..relay.header(id, Some(base), u64::from(id) * 1_000)
    };
    let part = relay.snapshot(header, vec![entries]).remove(0);
    relay.seal(part)
}

/// SPEC TAB6, CTL1, FAULTS 64: whoever went from a slot before, and however, a removal counts: the entry of the slot's
/// next tenant that is older than that removal comes late and shows nobody.
#[test]
fn tab6_a_late_entry_revives_nobody_in_a_slot_that_was_used_before() {
    for departure in [Departure::Destroyed, Departure::LeftView, Departure::Hidden] {
        let (mut relay, mut client) = scene();
        client.receive(
            2,
            &mut relay.send(2, Some(1), 2_000, vec![remove(0, departure, 3)]),
        );
        relay.hear_all(40_000, &mut client);
        let before = tombstone(&client, 0);
        // Entity 5 comes at 605 and goes at 610; the network delivers 610 first.
        let mut late = relay.send(605, Some(2), 4_000, vec![complete(0, record(5, 9, 3_500))]);
        let end = remove(0, Departure::Destroyed, 4);
        client.receive(70_000, &mut relay.send(610, Some(2), 5_000, vec![end]));
        client.receive(70_001, &mut late);
        assert_eq!((shown_x(&client, 0), client.changes()), (None, &[][..]));
        assert_eq!(table_of(&client, 605).unwrap()[&0].entity, entity(5));
        // Who is known to have gone, and how, stays; since when is new.
        let expected = Gone {
            as_of: Tick(610),
            as_of_us: 5_000,
            ..before
        };
        assert_eq!(tombstone(&client, 0), expected);
        assert_eq!(client.display().live(), 1);
    }
}

/// SPEC TAB6, ID2: the same where the base has the one who goes: the removal counts for the slot, and it does not make
/// the life destroyed before less destroyed.
#[test]
fn id2_a_destroyed_life_stays_destroyed_and_later_removals_count() {
    let (mut relay, mut client) = scene();
    client.receive(
        2,
        &mut relay.send(2, Some(1), 2_000, vec![remove(0, Departure::Destroyed, 3)]),
    );
    relay.hear_all(40_000, &mut client);
    let destroyed = tombstone(&client, 0).absence;
    let mut late = relay.send(605, Some(2), 4_000, vec![complete(0, record(5, 9, 3_500))]);
    let end = remove(0, Departure::LeftView, 0);
    client.receive(70_000, &mut relay.send(610, Some(2), 5_000, vec![end]));
    client.receive(70_001, &mut late);
    relay.hear_all(90_000, &mut client);
    // Base 605 has entity 5, who left: an update of it at 615 comes after its removal at 620.
    let mut late = relay.send(615, Some(605), 6_000, vec![update(0, record(5, 10, 5_500))]);
    let end = remove(0, Departure::LeftView, 0);
    client.receive(100_000, &mut relay.send(620, Some(605), 7_000, vec![end]));
    client.receive(100_001, &mut late);
    assert_eq!(shown_x(&client, 0), None);
    let gone = tombstone(&client, 0);
    assert_eq!(
        (gone.entity, gone.absence, gone.as_of),
        (entity(1), destroyed, Tick(620))
    );
    // Entity 1 is over; entity 5 left, and may come back.
    client.receive(
        110_000,
        &mut relay.send(621, Some(2), 8_000, vec![complete(0, record(1, 11, 0))]),
    );
    assert_eq!(shown_x(&client, 0), None);
    client.receive(
        110_001,
        &mut relay.send(622, Some(2), 9_000, vec![complete(0, record(5, 12, 0))]),
    );
    assert_eq!(shown_x(&client, 0), Some(12));
}

/// SPEC ID2: an entry that says less of who was destroyed before does not bring them back.
#[test]
fn id2_who_was_destroyed_does_not_merely_leave() {
    let (mut relay, mut client) = scene();
    let end = vec![remove(0, Departure::Destroyed, 3)];
    client.receive(21_000, &mut relay.send(2, Some(1), 2_000, end));
    let before = tombstone(&client, 0);
    let left = vec![remove(0, Departure::LeftView, 0)];
    client.receive(21_001, &mut relay.send(3, Some(1), 3_000, left));
    let expected = Gone {
        as_of: Tick(3),
        as_of_us: 3_000,
        ..before
    };
    assert_eq!(tombstone(&client, 0), expected);
    let again = vec![complete(0, record(1, 9, 0))];
    client.receive(21_002, &mut relay.send(4, Some(1), 4_000, again));
    assert_eq!(shown_x(&client, 0), None);
}

/// SPEC TAB6: of two removals the newer one's snapshot counts, whichever comes first.
#[test]
fn tab6_a_late_removal_does_not_make_a_tombstone_older() {
    let (mut relay, mut client) = scene();
    let mut late = relay.send(2, Some(1), 2_000, vec![remove(0, Departure::Hidden, 0)]);
    let mut between = relay.send(3, Some(1), 2_500, vec![update(0, record(1, 8, 2_400))]);
    let end = remove(0, Departure::LeftView, 0);
    client.receive(21_000, &mut relay.send(4, Some(1), 3_000, vec![end]));
    let before = tombstone(&client, 0);
    assert_eq!((before.absence, before.as_of), (Absence::LeftView, Tick(4)));
    client.receive(21_001, &mut late);
    assert_eq!(tombstone(&client, 0), before);
    client.receive(21_002, &mut between);
    assert_eq!(shown_x(&client, 0), None);
}

/// SPEC ENT9, TAB6: an awake mark says that the member was there: an older removal takes nobody away.
#[test]
fn ent9_a_removal_older_than_an_awake_mark_takes_nobody_away() {
    let (mut relay, mut client) = scene();
    let mut late = relay.send(2, Some(1), 2_000, vec![remove(0, Departure::LeftView, 0)]);
    let mark = Entry {
        slot: 0,
        change: Change::Awake,
    };
    client.receive(21_000, &mut relay.send(3, Some(1), 3_000, vec![mark]));
    client.receive(21_001, &mut late);
    assert_eq!((shown_x(&client, 0), client.changes()), (Some(7), &[][..]));
    assert!(client.display().known(0).unwrap().is_awake());
    let end = remove(0, Departure::LeftView, 0);
    client.receive(21_002, &mut relay.send(4, Some(1), 4_000, vec![end]));
    assert_eq!(shown_x(&client, 0), None);
}

/// SPEC ID2: an older life of the id that a slot showed last is not shown, though its snapshot is newer: neither in place
/// of the newer life, nor after that went.
#[test]
fn id2_an_older_life_is_not_shown_after_a_newer_one() {
    let (mut relay, mut client) = scene();
    client.receive(
        21_000,
        &mut relay.send(2, Some(1), 2_000, vec![complete(0, life(1, 3, 8))]),
    );
    assert_eq!(shown_x(&client, 0), Some(8));
    let older = |id| vec![complete(0, life(1, 2, id))];
    client.receive(21_001, &mut relay.send(3, Some(1), 3_000, older(9)));
    assert_eq!((shown_x(&client, 0), client.changes()), (Some(8), &[][..]));
    let end = remove(0, Departure::LeftView, 0);
    client.receive(21_002, &mut relay.send(4, Some(1), 4_000, vec![end]));
    client.receive(21_003, &mut relay.send(5, Some(1), 5_000, older(10)));
    assert_eq!((shown_x(&client, 0), client.changes()), (None, &[][..]));
    let newer = vec![complete(0, life(1, 4, 11))];
    client.receive(21_004, &mut relay.send(6, Some(1), 6_000, newer));
    assert_eq!(shown_x(&client, 0), Some(11));
}

/// SPEC CTL2, ID2: a removal of somebody who was never shown and is in no table is about nobody: of no entity is
/// anything known by it, and an event about any waits.
#[test]
fn ctl2_a_removal_of_somebody_unknown_says_nothing_of_entity_0() {
    let (mut relay, mut client) = scene();
    let end = remove(9, Departure::Destroyed, 0);
    client.receive(21_000, &mut relay.send(2, Some(1), 2_000, vec![end]));
    assert_eq!(client.display().place(9), DisplayPlace::Never);
    assert_eq!(client.display().fate(entity(0)), Fate::Unknown);
    while client.poll_event().is_some() {}
    relay.push_event(3, Some(entity(0)));
    client.receive(21_001, &mut relay.messages(30_000));
    assert_eq!(client.poll_event(), None);
    // It is told with its entity.
    let first = vec![complete(9, record(0, 5, 0))];
    client.receive(21_002, &mut relay.send(3, Some(1), 3_000, first));
    assert!(matches!(client.poll_event(), Some(ClientEvent::World(event)) if event.kind == 3));
}

/// SPEC ID2: who is removed first as nobody, and then by an entry whose base has them, is known to be gone.
#[test]
fn id2_a_tombstone_of_nobody_takes_the_name_of_who_is_removed() {
    let (mut relay, mut client) = scene();
    let mut late = relay.send(2, Some(1), 2_000, vec![complete(9, record(5, 9, 1_500))]);
    let end = || vec![remove(9, Departure::Destroyed, 4)];
    client.receive(21_000, &mut relay.send(3, Some(1), 3_000, end()));
    client.receive(21_001, &mut late);
    relay.hear_all(40_000, &mut client);
    assert_eq!(client.display().fate(entity(5)), Fate::Unknown);
    client.receive(41_000, &mut relay.send(4, Some(2), 4_000, end()));
    assert_eq!(client.display().fate(entity(5)), Fate::Past);
    let absence = Absence::Destroyed {
        at_us: 500,
        reason: 4,
    };
    assert_eq!(tombstone(&client, 9).absence, absence);
    let again = vec![complete(9, record(5, 10, 0))];
    client.receive(41_001, &mut relay.send(5, Some(1), 5_000, again));
    assert_eq!(shown_x(&client, 9), None, "a destroyed life is over");
}

/// SPEC CTL1, ID2: who is removed first as nobody, and then left by an entry whose base has them, may come back: how
/// nobody went is not how they did.
#[test]
fn ctl1_who_left_after_nobody_was_destroyed_may_come_back() {
    let (mut relay, mut client) = scene();
    let mut late = relay.send(2, Some(1), 2_000, vec![complete(9, record(5, 9, 1_500))]);
    let end = vec![remove(9, Departure::Destroyed, 4)];
    client.receive(21_000, &mut relay.send(3, Some(1), 3_000, end));
    client.receive(21_001, &mut late);
    relay.hear_all(40_000, &mut client);
    let left = vec![remove(9, Departure::LeftView, 0)];
    client.receive(41_000, &mut relay.send(4, Some(2), 4_000, left));
    assert_eq!(tombstone(&client, 9).absence, Absence::LeftView);
    let again = vec![complete(9, record(5, 10, 0))];
    client.receive(41_001, &mut relay.send(5, Some(1), 5_000, again));
    assert_eq!(shown_x(&client, 9), Some(10));
}

/// SPEC DEC12, TAB7: two full states in one session epoch, as a relay sends them until the first report, and a death
/// between them that no delta on the second says: a complete view on it takes the dead away, also after one on the first
/// had confirmed them.
#[test]
fn dec12_a_death_between_two_full_states_leaves_no_ghost() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let both = vec![complete(0, record(1, 7, 0)), complete(1, record(2, 7, 0))];
    let mut first = relay.send(1, None, 1_000, both);
    let mut second = relay.send(2, None, 2_000, vec![complete(1, record(2, 8, 0))]);
    client.receive(1, &mut first);
    relay.hear_all(20_000, &mut client);
    client.receive(20_001, &mut second);
    // On base 1 in two parts; the one with the removal is lost.
    let header = SnapshotHeader {
        view_complete: true,
        ..relay.header(3, Some(1), 3_000)
    };
    let parts = vec![
        vec![remove(0, Departure::Destroyed, 0)],
        vec![update(1, record(2, 9, 2_500))],
    ];
    let kept = relay.snapshot(header, parts).remove(1);
    client.receive(20_002, &mut relay.seal(kept));
    assert_eq!(shown_x(&client, 0), Some(7), "nobody said so yet");
    relay.hear_all(40_000, &mut client);
    let moved = vec![update(1, record(2, 10, 3_500))];
    client.receive(40_001, &mut complete_view(&mut relay, 4, 2, moved));
    assert_eq!((shown_x(&client, 0), shown_x(&client, 1)), (None, Some(10)));
    assert_eq!(
        client.changes().last().unwrap().kind,
        ShownKind::Removed(Absence::Unheard)
    );
    assert_eq!(client.statistics().reconciled, 1);
}

/// SPEC DEC12, TAB8: the same with deltas: somebody comes with one snapshot on a base and goes with another on the same
/// base, of which that part is lost.
#[test]
fn dec12_a_death_between_two_deltas_on_one_base_leaves_no_ghost() {
    let (mut relay, mut client) = scene();
    client.receive(
        21_000,
        &mut relay.send(2, Some(1), 2_000, vec![complete(4, record(5, 7, 0))]),
    );
    relay.hear_all(40_000, &mut client);
    client.receive(40_001, &mut complete_view(&mut relay, 3, 2, vec![]));
    assert_eq!(shown_x(&client, 4), Some(7), "confirmed by base 2");
    let header = relay.header(4, Some(1), 4_000);
    let parts = vec![
        vec![update(1, record(2, 9, 3_500))],
        vec![remove(4, Departure::Destroyed, 0)],
    ];
    let kept = relay.snapshot(header, parts).remove(0);
    client.receive(41_000, &mut relay.seal(kept));
    relay.hear_all(80_000, &mut client);
    assert!(held(&client).contains(&4));
    client.receive(81_000, &mut complete_view(&mut relay, 5, 4, vec![]));
    assert_eq!((shown_x(&client, 4), client.display().live()), (None, 2));
}

/// SPEC DEC12, TAB7: a complete view on the empty table speaks of everybody, each time.
#[test]
fn dec12_a_complete_view_on_the_empty_table_speaks_of_everybody() {
    let (mut relay, mut client) = scene();
    let mut full = |id: u32, entries: Vec<Entry>| {
        let header = SnapshotHeader {
            view_complete: true,
            ..relay.header(id, None, u64::from(id) * 1_000)
        };
        let part = relay.snapshot(header, vec![entries]).remove(0);
        client.receive(21_000, &mut relay.seal(part));
        (shown_x(&client, 0), shown_x(&client, 1))
    };
    let both = vec![complete(0, record(1, 8, 0)), complete(1, record(2, 8, 0))];
    assert_eq!(full(2, both), (Some(8), Some(8)));
    assert_eq!(full(3, vec![complete(1, record(2, 9, 0))]), (None, Some(9)));
}

/// SPEC DEC12, TAB6: on a base that was looked at, who enters by a late snapshot that is older than it goes as well.
#[test]
fn dec12_who_enters_late_on_the_same_base_is_looked_at() {
    let (mut relay, mut client) = scene();
    let mut late = relay.send(2, Some(1), 2_000, vec![complete(4, record(5, 7, 0))]);
    client.receive(21_000, &mut relay.send(3, Some(1), 3_000, vec![]));
    relay.hear_all(40_000, &mut client);
    client.receive(40_001, &mut complete_view(&mut relay, 4, 3, vec![]));
    client.receive(40_002, &mut late);
    assert_eq!(shown_x(&client, 4), Some(7));
    client.receive(40_003, &mut complete_view(&mut relay, 5, 3, vec![]));
    assert_eq!(shown_x(&client, 4), None);
}

/// SPEC DEC12, TAB8: who was named by the base's snapshot itself, in a part that came too late to be held, was not named
/// after the base; by the next snapshot, they were.
#[test]
fn dec12_after_the_base_means_after_it() {
    for named_at in [2, 3] {
        let (mut relay, mut client) = scene();
        let header = relay.header(2, Some(1), 2_000);
        let parts = vec![vec![], vec![complete(4, record(5, 7, 0))]];
        let mut parts = relay.snapshot(header, parts);
        let mut late = relay.seal(parts.remove(1));
        client.receive(21_000, &mut relay.seal(parts.remove(0)));
        relay.hear_all(60_000, &mut client);
        match named_at {
            2 => client.receive(61_000, &mut late),
            _ => client.receive(
                61_000,
                &mut relay.send(3, Some(1), 3_000, vec![complete(4, record(5, 7, 0))]),
            ),
        };
        assert_eq!(shown_x(&client, 4), Some(7));
        client.receive(62_000, &mut complete_view(&mut relay, 4, 2, vec![]));
        let expected = (named_at > 2).then_some(7);
        assert_eq!(shown_x(&client, 4), expected, "named at {named_at}");
    }
}

/// SPEC CTL6, TAB6: who left by an entry that came before the one they entered by, in the parts that bring an advance, is
/// there again once a base that has them is said again.
#[test]
fn ctl6_a_departure_is_remembered_across_an_advance() {
    let (mut relay, mut client) = scene();
    relay.commit(&[1]);
    let mut late = relay.send(11, Some(1), 2_000, vec![complete(9, record(5, 9, 1_500))]);
    let end = remove(9, Departure::LeftView, 0);
    client.receive(21_000, &mut relay.send(12, Some(1), 3_000, vec![end]));
    assert_eq!(client.generation(), 2);
    client.receive(21_001, &mut late);
    assert_eq!(shown_x(&client, 9), None);
    relay.hear_all(40_000, &mut client);
    let header = SnapshotHeader {
        view_complete: true,
        base_digest: Some(digest(&relay.table(Tick(11)))),
        ..relay.header(20, Some(11), 4_000)
    };
    let part = relay.snapshot(header, vec![vec![]]).remove(0);
    client.receive(41_000, &mut relay.seal(part));
    assert_eq!(shown_x(&client, 9), Some(9));
}
