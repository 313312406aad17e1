//! The player behind the client: inputs and camera up; its own state, assignment and messages down (SPEC PRE2, PRE4,
//! CTL3, CTL5).

use super::relay::{Relay, complete, record, update};
use crate::client::camera::CameraError;
use crate::client::inbox::ClientEvent;
use crate::client::inputs::InputError;
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received};
use crate::client::settings::ClientSettings;
use crate::delta::message::{Assigned, Directed, Message};
use crate::limits::{DATAGRAM_MAX, INPUT_BYTES_MAX, INPUTS_WINDOW};
use crate::sequence::Tick;
use crate::state::entity::Entity;
use crate::state::view::{Range, Scope, View};

fn numbers(relay: &Relay) -> Vec<u32> {
    relay.inputs.iter().map(|(number, _)| *number).collect()
}

fn events(client: &mut Client) -> Vec<ClientEvent> {
    core::iter::from_fn(|| client.poll_event()).collect()
}

/// SPEC PRE4: inputs are in every datagram until the relay says that it has them; what it says late changes nothing, and
/// what it cannot have refuses the datagram.
#[test]
fn pre4_inputs_are_repeated_until_they_are_acknowledged() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    assert_eq!(client.push_input(b"left"), Ok(1));
    assert_eq!(client.push_input(b"fire"), Ok(2));
    for at_us in [10_000, 200_000] {
        relay.hear_all(at_us, &mut client);
        let expected = [(1, b"left".to_vec()), (2, b"fire".to_vec())];
        assert_eq!(relay.inputs, expected);
    }
    let mut old = relay.inputs_ack(1);
    assert_eq!(
        client.receive(200_001, &mut relay.inputs_ack(2)),
        Received::Keepalive
    );
    client.receive(200_002, &mut old);
    relay.hear_all(300_000, &mut client);
    assert_eq!(numbers(&relay), [2]);
    for beyond in [0, 4, u32::MAX] {
        let refused = client.receive(300_001, &mut relay.inputs_ack(beyond));
        assert_eq!(refused, Received::Refused(Refusal::MalformedPayload));
    }
    client.receive(300_002, &mut relay.inputs_ack(3));
    relay.hear_all(400_000, &mut client);
    assert_eq!(numbers(&relay), [0u32; 0]);
    let told = client.statistics();
    let counted = (told.inputs_pushed, told.inputs_acknowledged, told.inputs_lost);
    assert_eq!(counted, (2, 2, 0));
}

/// SPEC PRE4: an input does not wait for the next report, but datagrams for inputs' sake keep their distance.
#[test]
fn pre4_an_input_makes_a_datagram_due() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    relay.hear_all(10_000, &mut client);
    assert!(client.next_timer() > 20_000, "nothing to say");
    client.push_input(b"a").unwrap();
    assert_eq!(client.next_timer(), 8_000);
    assert_eq!(relay.hear_all(30_000, &mut client), 1);
    client.push_input(b"b").unwrap();
    assert_eq!(client.next_timer(), 38_000);
    assert_eq!(relay.hear_all(37_999, &mut client), 0);
    assert_eq!(relay.hear_all(38_000, &mut client), 1);
    assert_eq!(numbers(&relay), [1, 2]);
    assert!(
        client.next_timer() > 100_000,
        "said, and not said again for itself"
    );
}

/// SPEC PRE4: inputs pushed before the session begins wait for it; after its end there are none.
#[test]
fn pre4_inputs_wait_for_the_session() {
    let mut relay = Relay::new([1; 16], [2; 16], 77);
    let mut client = Client::new(ClientSettings::default(), [1; 16], 0);
    assert_eq!(client.push_input(b"early"), Ok(1));
    client.receive(0, &mut relay.welcome());
    relay.hear_all(0, &mut client);
    assert_eq!(relay.inputs, [(1, b"early".to_vec())]);
    client.leave(1);
    assert_eq!(client.push_input(b"late"), Err(InputError::SessionOver));
}

/// SPEC PRE4: past the window the oldest inputs are lost, and the game is told once for those in a row.
#[test]
fn pre4_inputs_past_the_window_are_lost_and_told() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    events(&mut client);
    let long = [0; INPUT_BYTES_MAX + 1];
    assert_eq!(client.push_input(&long), Err(InputError::TooLong { bytes: 65 }));
    for number in 1..=INPUTS_WINDOW as u32 + 3 {
        assert_eq!(client.push_input(&[1; INPUT_BYTES_MAX]), Ok(number));
    }
    assert_eq!(
        events(&mut client),
        [ClientEvent::InputsLost { first: 1, count: 3 }]
    );
    relay.hear_all(20_000, &mut client);
    assert_eq!(numbers(&relay), [4, 5, 6, 7, 8, 9, 10]);
    // The relay has up to 20; more are pushed than there is room for.
    client.receive(20_001, &mut relay.inputs_ack(21));
    for _ in 0..19 {
        client.push_input(b"x").unwrap();
    }
    let lost = [ClientEvent::InputsLost { first: 21, count: 2 }];
    assert_eq!(events(&mut client), lost);
    let told = client.statistics();
    assert_eq!((told.inputs_acknowledged, told.inputs_lost), (17, 5));
}

/// THREATS 72: the fullest Up datagram there is fits.
#[test]
fn threats_72_inputs_camera_and_a_full_report_fit_a_datagram() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    for id in 1..40u32 {
        let entries = vec![complete(0, record(1, id, 0))];
        client.receive(
            1_000 * u64::from(id),
            &mut relay.send(id * 100_000, None, 1_000, entries),
        );
        relay.hear_all(1_000 * u64::from(id) + 500, &mut client);
    }
    client.set_camera([1.0, 2.0, 3.0]).unwrap();
    for _ in 0..INPUTS_WINDOW {
        client.push_input(&[1; INPUT_BYTES_MAX]).unwrap();
    }
    let mut out = Vec::new();
    assert!(client.poll_transmit(1_000_000, &mut out));
    relay.hear(&out);
    assert_eq!(relay.report.held.as_slice().len(), 32);
    assert_eq!((relay.inputs.len(), relay.camera.is_some()), (7, true));
    // Ids of five bytes, all kinds of counts, requests.
    let bytes = out.len() - relay.padding;
    assert!(bytes + 32 * 4 + 60 < DATAGRAM_MAX, "{bytes} bytes");
}

/// SPEC PRE4, PLY7: the camera is said in every datagram, on the axes of the stream that is known.
#[test]
fn pre4_the_camera_is_said_in_every_datagram() {
    let mut relay = Relay::new([1; 16], [2; 16], 77);
    let mut client = Client::new(ClientSettings::default(), [1; 16], 0);
    assert_eq!(client.set_camera([1.0, 0.0, 0.0]), Err(CameraError::NoSchema));
    client.receive(0, &mut relay.welcome());
    for at_us in [0, 100_000] {
        relay.hear_all(at_us, &mut client);
        assert_eq!(relay.camera, Some([10_100, 10_000, 10_000]));
    }
    assert!(matches!(
        client.set_camera([1e9, 0.0, 0.0]),
        Err(CameraError::Outside(_))
    ));
    relay.schema.position[0] = crate::state::schema::Axis::new(0.0, 50.0, 0.1).unwrap();
    client.receive(100_001, &mut relay.new_stream());
    relay.hear_all(200_000, &mut client);
    assert_eq!(relay.camera, Some([10, 10_000, 10_000]), "measured anew");
}

/// SPEC PRE2: of the owner's states the newest tick counts, and each names the inputs that are in it.
#[test]
fn pre2_the_newest_owner_state_counts() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    assert_eq!(client.owner(), None);
    let mut late = relay.owner(9, 3, 5, record(7, 100, 8_500));
    let mut newest = relay.owner(10, 4, 5, record(7, 200, 9_500));
    assert_eq!(client.receive(1, &mut newest), Received::Keepalive);
    client.receive(2, &mut late);
    let owner = client.owner().unwrap();
    let said = (owner.tick, owner.server_us, owner.processed, owner.slot);
    assert_eq!(said, (Tick(10), 10_000, 4, 5));
    assert_eq!(owner.record, record(7, 200, 9_500));
    // It is no part of what is shown, and shows nothing.
    assert_eq!(client.display().live(), 0);
    let told = client.statistics();
    assert_eq!((told.owner_states, told.owner_states_late), (1, 1));
}

/// SPEC PLY7: an owner's state of another stream than the one known is not taken, and goes with its stream.
#[test]
fn ply7_an_owner_state_is_of_its_stream() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(1, &mut relay.owner(10, 4, 5, record(7, 200, 9_500)));
    let mut old = relay.owner(11, 4, 5, record(7, 201, 9_600));
    client.receive(2, &mut relay.new_stream());
    assert_eq!(client.owner(), None);
    assert_eq!(client.receive(3, &mut old), Received::Keepalive);
    assert_eq!(client.owner(), None);
    client.receive(4, &mut relay.owner(3, 5, 1, record(8, 1, 500)));
    assert_eq!(client.owner().map(|owner| owner.processed), Some(5));
}

/// THREATS 33, SPEC TAB2: an owner block that is not one complete record refuses the whole payload, and nothing changes.
#[test]
fn threats_33_an_owner_state_is_one_complete_record() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let both = [complete(0, record(1, 7, 0)), complete(1, record(2, 7, 0))];
    let table = crate::client::tests::relay::applied(None, &both);
    let good = relay.body(None, &both[..1], 9_000);
    let mut padded = good.clone();
    padded.push(0);
    let bodies = [
        relay.body(None, &both, 9_000),
        relay.body(Some(&table), &[update(0, record(1, 8, 8_000))], 9_000),
        relay.body(
            None,
            &[super::relay::remove(
                0,
                crate::state::entity::Departure::LeftView,
                0,
            )],
            9_000,
        ),
        good[..good.len() - 1].to_vec(),
        padded,
        vec![0xFF; 20],
    ];
    let before = client.fingerprint();
    for body in bodies {
        let payload = relay.owner_payload(1, 9, 0, &body);
        let refused = client.receive(1, &mut relay.seal(payload));
        assert_eq!(
            refused,
            Received::Refused(Refusal::MalformedPayload),
            "{body:02x?}"
        );
    }
    assert_eq!(client.fingerprint(), before);
    let payload = relay.owner_payload(1, 9, 0, &good);
    client.receive(1, &mut relay.seal(payload));
    assert_eq!(client.owner().map(|owner| owner.slot), Some(0));
}

fn assigned(id: u32) -> Assigned {
    Assigned {
        entity: Some(Entity { id, generation: 0 }),
        view: View {
            scope: Scope::Owner(Range::new(1_000, 1_200).unwrap()),
            tags: 6,
        },
    }
}

fn directed(kind: u16) -> Directed {
    Directed {
        kind,
        payload: vec![9; 3],
    }
}

/// SPEC CTL3: what the origin says to one client keeps its place among the events: it does not overtake one that waits.
#[test]
fn ctl3_messages_keep_their_place_behind_events_that_wait() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    events(&mut client);
    relay.push_message(&Message::Directed(directed(1)));
    relay.push_event(2, Some(Entity { id: 1, generation: 0 }));
    relay.push_message(&Message::Assigned(assigned(1)));
    relay.push_message(&Message::Tier(2));
    relay.push_message(&Message::Directed(directed(3)));
    client.receive(0, &mut relay.messages(0));
    assert_eq!(events(&mut client), [ClientEvent::Directed(directed(1))]);
    assert_eq!((client.assigned(), client.tier()), (Assigned::default(), 0));
    client.receive(
        5_000,
        &mut relay.send(1, None, 1_000, vec![complete(0, record(1, 7, 0))]),
    );
    let told = events(&mut client);
    assert!(
        matches!(&told[..], [
            ClientEvent::World(event),
            ClientEvent::Assigned(to),
            ClientEvent::Tier(2),
            ClientEvent::Directed(last),
        ] if event.kind == 2 && *to == assigned(1) && *last == directed(3)),
        "{told:?}"
    );
    assert_eq!((client.assigned(), client.tier()), (assigned(1), 2));
}

/// SPEC PLY7: what was said in the old stream is not told in the new one, neither what waits nor what is under way. The
/// view stays, the entity was one of the old stream.
#[test]
fn ply7_messages_do_not_cross_a_new_stream() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    relay.push_stream(1);
    relay.push_message(&Message::Assigned(assigned(1)));
    relay.push_message(&Message::Tier(1));
    relay.push_event(2, Some(Entity { id: 9, generation: 0 }));
    relay.push_message(&Message::Directed(directed(3)));
    client.receive(0, &mut relay.messages(0));
    assert_eq!((client.assigned(), client.tier()), (assigned(1), 1));
    relay.push_message(&Message::Assigned(assigned(2)));
    let mut late = relay.messages(200_000);
    events(&mut client);
    client.receive(200_001, &mut relay.new_stream());
    client.receive(200_002, &mut late);
    assert_eq!(events(&mut client), [ClientEvent::StreamChanged(2)]);
    let kept = Assigned {
        entity: None,
        ..assigned(1)
    };
    assert_eq!((client.assigned(), client.tier()), (kept, 0));
    let told = client.statistics();
    assert_eq!((told.events_dropped, told.messages_dropped), (1, 2));
    relay.push_stream(2);
    relay.push_message(&Message::Assigned(assigned(3)));
    client.receive(400_000, &mut relay.messages(400_000));
    assert_eq!(client.assigned(), assigned(3));
}

/// THREATS 72: messages to one client are bounded as events are: what the game does not fetch holds the stream up.
#[test]
fn threats_72_messages_not_fetched_hold_the_stream_up() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let mut sent = 0;
    'rounds: for round in 0..100u64 {
        for _ in 0..8 {
            if relay.stream.backlog() > 50 {
                break 'rounds;
            }
            relay.push_message(&Message::Directed(directed(sent)));
            sent += 1;
        }
        client.receive(round * 200_000, &mut relay.messages(round * 200_000));
        relay.hear_all(round * 200_000 + 100_000, &mut client);
    }
    assert!(sent < 400, "held up");
    let told: Vec<u16> = events(&mut client)
        .into_iter()
        .filter_map(|event| match event {
            ClientEvent::Directed(directed) => Some(directed.kind),
            _ => None,
        })
        .collect();
    assert!(told.len() >= 60 && told.len() <= 64, "{}", told.len());
    assert!(
        told.iter().copied().eq(0..told.len() as u16),
        "in order, none lost"
    );
}
