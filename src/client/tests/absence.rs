//! Four ways of not being in a packet, told apart: left the view, destroyed, hidden, omitted (SPEC CTL1, CTL6, ID2).

use super::relay::{Relay, complete, digest, record, remove, shown_x, update};
use crate::client::display::{Absence, DisplayPlace, Fate, ShownKind};
use crate::client::session::Client;
use crate::client::settings::ClientSettings;
use crate::delta::decode::Entry;
use crate::sequence::Tick;
use crate::state::entity::{Departure, Entity};
use crate::state::slots::Slot;
use crate::wire::snapshot::SnapshotHeader;

/// A client that holds snapshot 1: entities 1 to `count` in slots 0 and on, all at 7.
fn scene(count: u16) -> (Relay, Client) {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let all = (0..count).map(|slot| complete(slot, record(u32::from(slot) + 1, 7, 0)));
    client.receive(1, &mut relay.send(1, None, 1_000, all.collect()));
    relay.hear_all(20_000, &mut client);
    (relay, client)
}

/// One sealed snapshot of one part on a base, complete, with the base's digest, that leaves something out or not.
fn said_again(relay: &mut Relay, id: u32, base: u32, exhaustive: bool, entries: Vec<Entry>) -> Vec<u8> {
    let header = SnapshotHeader {
        view_complete: true,
        exhaustive,
        base_digest: Some(digest(&relay.table(Tick(base)))),
        ..relay.header(id, Some(base), u64::from(id) * 1_000)
    };
    let part = relay.snapshot(header, vec![entries]).remove(0);
    relay.seal(part)
}

fn absence(client: &Client, slot: Slot) -> Option<Absence> {
    match client.display().place(slot) {
        DisplayPlace::Gone(gone) => Some(gone.absence),
        _ => None,
    }
}

fn omitted(client: &Client, slot: Slot) -> Option<bool> {
    let known = client.display().known(slot)?;
    Some(known.is_omitted(client.newest()?))
}

/// SPEC CTL1: who left the view, was destroyed or is hidden has gone, each in its way; who is omitted for bandwidth is
/// there, and known to be older than the newest snapshot; who did not change is neither.
#[test]
fn ctl1_left_destroyed_hidden_and_omitted_are_told_apart() {
    let (mut relay, mut client) = scene(5);
    let entries = vec![
        remove(0, Departure::LeftView, 0),
        remove(1, Departure::Destroyed, 4),
        remove(2, Departure::Hidden, 0),
        update(3, record(4, 8, 1_900)),
    ];
    client.receive(21_000, &mut said_again(&mut relay, 2, 1, false, entries.clone()));
    let destroyed = Absence::Destroyed {
        at_us: 500,
        reason: 4,
    };
    let gone = [0, 1, 2, 3, 4].map(|slot| absence(&client, slot));
    let expected = [
        Some(Absence::LeftView),
        Some(destroyed),
        Some(Absence::Hidden),
        None,
        None,
    ];
    assert_eq!(gone, expected);
    assert_eq!(
        (omitted(&client, 3), omitted(&client, 4)),
        (Some(false), Some(true))
    );
    let known = client.display().known(4).unwrap();
    assert_eq!((known.as_of, known.age_us(2_000)), (Tick(1), 1_000));
    assert_eq!(client.display().fate(known.record.entity), Fate::Present);
    // The next one leaves nothing out: what it does not name is as it was.
    client.receive(22_000, &mut said_again(&mut relay, 3, 1, true, entries));
    assert_eq!(
        (omitted(&client, 3), omitted(&client, 4)),
        (Some(false), Some(false))
    );
    assert_eq!(shown_x(&client, 4), Some(7));
}

/// SPEC TAB8: a snapshot of which a part is missing may say more than is here.
#[test]
fn tab8_a_part_that_is_missing_may_have_the_rest() {
    let (mut relay, mut client) = scene(2);
    let header = relay.header(2, Some(1), 2_000);
    let parts = vec![
        vec![update(0, record(1, 8, 1_900))],
        vec![update(1, record(2, 8, 1_900))],
    ];
    let mut parts = relay.snapshot(header, parts);
    let mut second = relay.seal(parts.remove(1));
    client.receive(21_000, &mut relay.seal(parts.remove(0)));
    assert_eq!(
        (omitted(&client, 0), omitted(&client, 1)),
        (Some(false), Some(true))
    );
    client.receive(21_001, &mut second);
    assert_eq!(omitted(&client, 1), Some(false));
}

/// SPEC CTL1, ID2: who left or was hidden comes back as the same life and is shown as entered, whichever way the two
/// follow each other; who was destroyed does not.
#[test]
fn ctl1_who_left_or_was_hidden_enters_again() {
    let (mut relay, mut client) = scene(3);
    let mut id = 1;
    for (slot, first, second) in [
        (0, Departure::LeftView, Departure::Hidden),
        (1, Departure::Hidden, Departure::LeftView),
    ] {
        for departure in [first, second] {
            id += 1;
            let gone = vec![remove(slot, departure, 0)];
            client.receive(21_000, &mut relay.send(id, Some(1), 2_000, gone));
            assert_eq!(shown_x(&client, slot), None);
            id += 1;
            let back = vec![complete(slot, record(u32::from(slot) + 1, id, 0))];
            client.receive(21_000, &mut relay.send(id, Some(1), 2_000, back));
            let kinds: Vec<ShownKind> = client.changes().iter().map(|shown| shown.kind).collect();
            assert_eq!(
                (kinds, shown_x(&client, slot)),
                (vec![ShownKind::Entered], Some(id))
            );
        }
    }
    let gone = vec![remove(2, Departure::Destroyed, 1)];
    client.receive(22_000, &mut relay.send(id + 1, Some(1), 2_000, gone));
    let back = vec![complete(2, record(3, 9, 0))];
    client.receive(22_000, &mut relay.send(id + 2, Some(1), 2_000, back));
    assert_eq!((client.changes().len(), shown_x(&client, 2)), (0, None));
}

/// SPEC CTL6: who left and came back unchanged is in the base, and no delta has to name it: a snapshot that leaves nothing
/// out shows it again; one that leaves something out says nothing of it.
#[test]
fn ctl6_only_a_snapshot_that_leaves_nothing_out_says_its_base_again() {
    for departure in [Departure::LeftView, Departure::Hidden] {
        let (mut relay, mut client) = scene(2);
        let gone = vec![remove(0, departure, 0)];
        client.receive(21_000, &mut relay.send(2, Some(1), 2_000, gone));
        client.receive(21_001, &mut said_again(&mut relay, 3, 1, false, vec![]));
        assert_eq!((shown_x(&client, 0), client.changes().len()), (None, 0));
        client.receive(21_002, &mut said_again(&mut relay, 4, 1, true, vec![]));
        assert_eq!(shown_x(&client, 0), Some(7));
        assert_eq!(client.changes()[0].kind, ShownKind::Entered);
        assert_eq!(client.statistics().reinstated, 1);
    }
}

/// SPEC CTL6: a record that is shown of a snapshot after the base is never set back to the base's: neither by a snapshot
/// that omits it, nor by one that says the base again.
#[test]
fn ctl6_an_omitted_newer_record_is_not_set_back() {
    for exhaustive in [false, true] {
        let (mut relay, mut client) = scene(2);
        let moved = vec![update(0, record(1, 8, 1_900))];
        client.receive(21_000, &mut relay.send(2, Some(1), 2_000, moved));
        let other = vec![update(1, record(2, 9, 2_900))];
        client.receive(21_001, &mut said_again(&mut relay, 3, 1, exhaustive, other));
        assert_eq!((shown_x(&client, 0), shown_x(&client, 1)), (Some(8), Some(9)));
        assert_eq!(client.display().known(0).unwrap().as_of, Tick(2));
        assert_eq!(client.statistics().reinstated, 0);
        assert_eq!(omitted(&client, 0), Some(!exhaustive));
    }
}

/// SPEC CTL6, TAB8: of a snapshot in parts, one that says that something is left out is enough, whichever brings the
/// digest.
#[test]
fn ctl6_a_part_that_omits_keeps_the_base_from_being_said_again() {
    let (mut relay, mut client) = scene(2);
    let gone = vec![remove(0, Departure::LeftView, 0)];
    client.receive(21_000, &mut relay.send(2, Some(1), 2_000, gone));
    for (id, omits) in [(3, 0), (4, 1)] {
        let base = relay.table(Tick(1));
        for part in 0..2u8 {
            let header = SnapshotHeader {
                part,
                last: part == 1,
                view_complete: true,
                exhaustive: part != omits,
                base_digest: (part == 0).then(|| digest(&base)),
                ..relay.header(id, Some(1), u64::from(id) * 1_000)
            };
            let payload = relay.part(&header, Some(&base), &[]);
            client.receive(22_000, &mut relay.seal(payload));
        }
        assert!(
            client
                .newest()
                .is_some_and(|newest| newest.is_whole() && newest.omits())
        );
        assert_eq!(shown_x(&client, 0), None);
    }
}

/// SPEC CTL2, CTL6: a snapshot that leaves something out settles nothing: an event about somebody unknown still waits.
#[test]
fn ctl2_an_omitting_snapshot_does_not_settle_an_event() {
    let (mut relay, mut client) = scene(1);
    while client.poll_event().is_some() {}
    relay.push_event_at(1, Some(Entity { id: 9, generation: 0 }), 1_500);
    client.receive(21_000, &mut relay.messages(21_000));
    client.receive(21_001, &mut said_again(&mut relay, 2, 1, false, vec![]));
    assert_eq!(client.statistics().events_delivered, 0);
    client.receive(21_002, &mut said_again(&mut relay, 3, 1, true, vec![]));
    assert_eq!(client.statistics().events_delivered, 1);
}

/// SPEC CTL1: a removal tells how somebody ended only where it can be about them: the base has them, or they were shown
/// by a snapshot after it, for no slot changes hands within the age of a base. Who was there before the slot's next tenant
/// came ended unheard, and may be shown again by what is newer.
#[test]
fn ctl1_a_later_tenants_end_does_not_explain_an_earlier_ones() {
    // Entity 5 is shown by snapshot 2 on base 1, which lacks it.
    let shown = || {
        let (mut relay, mut client) = scene(1);
        let enters = vec![complete(9, record(5, 7, 0))];
        client.receive(21_000, &mut relay.send(2, Some(1), 2_000, enters));
        (relay, client)
    };
    let destroyed = Absence::Destroyed {
        at_us: 500,
        reason: 4,
    };
    let end = || vec![remove(9, Departure::Destroyed, 4)];
    // On the base before it, which it came after: its own end.
    let (mut relay, mut client) = shown();
    client.receive(22_000, &mut relay.send(3, Some(1), 3_000, end()));
    assert_eq!(absence(&client, 9), Some(destroyed));
    assert_eq!(client.changes()[0].kind, ShownKind::Removed(destroyed));
    // On a base that has it.
    let (mut relay, mut client) = shown();
    relay.hear_all(40_000, &mut client);
    client.receive(41_000, &mut relay.send(3, Some(2), 3_000, end()));
    assert_eq!(absence(&client, 9), Some(destroyed));
    // On a base after it that lacks it: somebody else's end.
    let (mut relay, mut client) = shown();
    client.receive(22_000, &mut relay.send(3, Some(1), 3_000, vec![]));
    relay.hear_all(60_000, &mut client);
    assert_eq!(shown_x(&client, 9), Some(7));
    client.receive(61_000, &mut relay.send(5, Some(3), 5_000, end()));
    assert_eq!(absence(&client, 9), Some(Absence::Unheard));
    let again = vec![complete(9, record(5, 8, 0))];
    client.receive(61_001, &mut relay.send(6, Some(1), 6_000, again));
    assert_eq!(shown_x(&client, 9), Some(8));
    // On a base that has another: the same, though no relay should come to it.
    let (mut relay, mut client) = shown();
    let named = vec![complete(9, record(5, 8, 0))];
    let mut unseen = relay.send(3, Some(1), 3_000, vec![complete(9, record(6, 3, 0))]);
    client.receive(22_000, &mut relay.send(4, Some(1), 3_500, named));
    client.receive(22_001, &mut unseen);
    relay.hear_all(60_000, &mut client);
    client.receive(61_000, &mut relay.send(5, Some(3), 5_000, end()));
    assert_eq!(absence(&client, 9), Some(Absence::Unheard));
}
