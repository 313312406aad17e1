//! Events of the reliable stream (SPEC CTL2, CTL3).

use super::relay::{Relay, complete, digest, record, remove};
use crate::client::inbox::{ASK_AFTER_US, ClientEvent, GIVE_UP_AFTER_US, WAITING_MAX};
use crate::client::session::{Client, Received};
use crate::client::settings::ClientSettings;
use crate::sequence::Tick;
use crate::state::entity::{Departure, Entity};
use crate::wire::snapshot::SnapshotHeader;

fn world_events(client: &mut Client) -> Vec<u16> {
    core::iter::from_fn(|| client.poll_event())
        .filter_map(|event| {
            if let ClientEvent::World(event) = event {
                Some(event.kind)
            } else {
                None
            }
        })
        .collect()
}

/// SPEC CTL2, CTL3: events come once and in order; one about an unknown entity waits, is asked about after a
/// second and given up after five; one about an entity that is gone is delivered.
#[test]
fn ctl2_events_wait_for_their_entity() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let entity = |id| Some(Entity { id, generation: 0 });
    for (kind, about) in [(1, None), (2, entity(1)), (3, entity(2)), (4, entity(1))] {
        relay.push_event(kind, about);
    }
    let messages = relay.messages(0);
    client.receive(0, &mut messages.clone());
    assert_eq!(
        client.receive(0, &mut relay.messages(200_000)),
        Received::Keepalive,
        "the same messages again"
    );
    assert_eq!(world_events(&mut client), [1]);
    client.receive(
        5_000,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    assert_eq!(world_events(&mut client), [2]);
    relay.hear_all(ASK_AFTER_US - 1, &mut client);
    assert!(relay.report.requests.is_empty() && relay.report.next_message == 4);
    relay.hear_all(ASK_AFTER_US + 100_000, &mut client);
    assert_eq!(relay.report.requests, [(2, 0)]);
    // Its entity is gone by the time it comes: told all the same.
    relay.hear_all(2_000_000, &mut client);
    client.receive(
        2_000_000,
        &mut relay.send(2, Some(1), 2_000, vec![remove(0, Departure::Destroyed, 1)]),
    );
    client.poll_transmit(GIVE_UP_AFTER_US, &mut Vec::new());
    assert_eq!(world_events(&mut client), [4]);
    let statistics = client.statistics();
    let counted = (
        statistics.events_delivered,
        statistics.events_waited,
        statistics.events_dropped,
    );
    assert_eq!(counted, (3, 2, 1));
}

/// SPEC CTL2, CTL3: an event about somebody who came and went unheard does not hold up those behind it once a whole
/// snapshot at or after its time has said its base again.
#[test]
fn ctl3_an_event_about_an_unheard_life_is_told_once_its_time_is_settled() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(
        1,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    relay.hear_all(10_000, &mut client);
    relay.push_event_at(1, Some(Entity { id: 9, generation: 0 }), 2_500);
    relay.push_event(2, None);
    client.receive(11_000, &mut relay.messages(11_000));
    assert_eq!(world_events(&mut client), [0u16; 0]);
    let base = relay.table(Tick(1));
    let said_again = |relay: &Relay, id, server_us| {
        let header = SnapshotHeader {
            view_complete: true,
            base_digest: Some(digest(&base)),
            ..relay.header(id, Some(1), server_us)
        };
        relay.part(&header, Some(&base), &[])
    };
    let early = said_again(&relay, 2, 2_499);
    client.receive(12_000, &mut relay.seal(early));
    assert_eq!(world_events(&mut client), [0u16; 0], "it may still come");
    let settled = said_again(&relay, 3, 2_500);
    client.receive(13_000, &mut relay.seal(settled));
    assert_eq!(world_events(&mut client), [1, 2]);
    assert_eq!(client.statistics().events_dropped, 0);
}

/// SPEC PLY7: a new stream voids what still waits for entities of the old one.
#[test]
fn ply7_waiting_events_do_not_cross_a_new_stream() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    relay.push_event(1, Some(Entity { id: 1, generation: 0 }));
    client.receive(0, &mut relay.messages(0));
    client.receive(1, &mut relay.new_stream());
    client.receive(2, &mut relay.send(1, None, 5, vec![complete(0, record(1, 3, 0))]));
    assert_eq!(world_events(&mut client), [0u16; 0]);
    assert_eq!(client.statistics().events_dropped, 1);
}

/// SPEC PLY7: events of the old stream that came in the same frame as the new one and were not fetched are void; whoever fetched
/// them before has them.
#[test]
fn ply7_events_nobody_fetched_do_not_cross_a_new_stream() {
    for fetched in [true, false] {
        let (mut relay, mut client) = Relay::connected(ClientSettings::default());
        relay.push_stream(1);
        relay.push_event(1, None);
        client.receive(0, &mut relay.messages(0));
        let before = if fetched {
            world_events(&mut client)
        } else {
            Vec::new()
        };
        client.receive(1, &mut relay.new_stream());
        assert_eq!(before.len(), usize::from(fetched));
        assert_eq!(world_events(&mut client), [0u16; 0]);
        let statistics = client.statistics();
        let counted = (statistics.events_delivered, statistics.events_dropped);
        assert_eq!(counted, (u64::from(fetched), u64::from(!fetched)));
    }
}

/// SPEC PLY7: events of the old stream that are still under way when the new one is shown are not told.
#[test]
fn ply7_events_under_way_do_not_cross_a_new_stream() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    relay.push_stream(1);
    relay.push_event(1, None);
    client.receive(0, &mut relay.messages(0));
    assert_eq!(world_events(&mut client), [1]);
    relay.push_event(2, None);
    let late = relay.messages(1);
    client.receive(2, &mut relay.new_stream());
    client.receive(3, &mut late.clone());
    assert_eq!(world_events(&mut client), [0u16; 0]);
    assert_eq!(client.statistics().events_dropped, 1);
    relay.push_stream(2);
    relay.push_event(3, None);
    client.receive(4, &mut relay.messages(200_000));
    assert_eq!(world_events(&mut client), [3]);
}

/// THREATS 72: a flood of events about unknown entities is bounded, the foremost go first, and what the game
/// does not fetch holds the stream up instead of growing.
#[test]
fn threats_72_waiting_events_are_bounded() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    for round in 0..40u64 {
        for kind in 0..10 {
            let entity = (round < 20).then_some(Entity {
                id: 1_000 + kind,
                generation: 0,
            });
            relay.push_event(round as u16 * 10 + kind as u16, entity);
        }
        client.receive(round * 1_000, &mut relay.messages(round * 1_000));
        relay.hear_all(round * 10_000, &mut client);
        if relay.stream.backlog() > 50 {
            break;
        }
    }
    assert!(client.statistics().events_dropped > 100);
    let told = world_events(&mut client);
    assert!(told.len() <= WAITING_MAX && told.is_sorted(), "{told:?}");
}
