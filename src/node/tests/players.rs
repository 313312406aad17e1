//! Players from a client to the built-in origin and back: seats, inputs, views, a new origin.

use super::super::origin::{Heard, OriginHandle, OriginSettings};
use super::watcher::Watcher;
use super::{LONG, metric, origin, relay, source, wait_metric};
use crate::client::inbox::ClientEvent;
use crate::client::session::SessionState;
use crate::delta::message::Assigned;
use crate::limits::INPUTS_WINDOW;
use crate::state::player::PlayerEvent;
use crate::state::view::View;

/// What an origin hears next of players, cameras left out.
fn heard(origin: &OriginHandle) -> PlayerEvent {
    loop {
        let Heard { event, .. } = origin.heard().unwrap().recv_timeout(LONG).unwrap();
        if !matches!(event, PlayerEvent::Camera { .. }) {
            return event;
        }
    }
}

fn last_assigned(watcher: &Watcher) -> Option<Assigned> {
    let assigned = |event: &ClientEvent| match event {
        ClientEvent::Assigned(assigned) => Some(*assigned),
        _ => None,
    };
    watcher.events.iter().rev().find_map(assigned)
}

/// SPEC PRE2, PRE4, CTL1: a client that joins is known to the origin and assigned an entity that lives, with the origin's
/// view; each of its inputs reaches the origin once and in order, and comes back as processed; when it leaves the origin
/// hears it.
#[test]
fn pre4_a_client_is_seated_and_its_inputs_reach_the_origin_and_come_back() {
    let view: View = "radius:30,40".parse().unwrap();
    let origin = OriginHandle::start(OriginSettings {
        view: Some(view),
        ..OriginSettings::loopback(source())
    })
    .unwrap();
    let relay = relay(&origin);
    let mut watcher = Watcher::joined(relay.data_addr());
    let joined = heard(&origin);
    assert!(matches!(joined, PlayerEvent::Joined(..)), "{joined:?}");
    let player = joined.player();
    watcher.run_until("an entity is assigned", |watcher| {
        last_assigned(watcher).is_some_and(|assigned| assigned.entity.is_some())
    });
    let assigned = last_assigned(&watcher).unwrap();
    assert_eq!(assigned.view, view);

    let inputs = u32::try_from(3 * INPUTS_WINDOW).unwrap();
    for number in 1..=inputs {
        watcher.client.push_input(&number.to_le_bytes()).unwrap();
        let processed = |watcher: &Watcher| watcher.client.owner().map_or(0, |owner| owner.processed);
        if number % 32 == 0 {
            watcher.run_until("the inputs are processed", |watcher| processed(watcher) == number);
        }
    }
    for sequence in 1..=inputs {
        let payload = sequence.to_le_bytes().to_vec();
        let expected = PlayerEvent::Input {
            player,
            sequence,
            payload,
        };
        assert_eq!(heard(&origin), expected);
    }
    wait_metric(
        &relay,
        "ackline_input_messages_total{result=\"taken\"}",
        f64::from(inputs),
    );
    assert_eq!(
        metric(&relay, "ackline_input_messages_total{result=\"dropped\"}"),
        0.0
    );
    assert_eq!(
        (origin.counts().players, origin.counts().inputs),
        (1, u64::from(inputs))
    );

    watcher.client.leave(crate::net::clock::monotonic_us());
    watcher.run_until("the session is over", |watcher| {
        matches!(watcher.client.state(), SessionState::Closed(_))
    });
    assert_eq!(heard(&origin), PlayerEvent::Left(player));
    let counts = origin.counts();
    assert_eq!(
        (counts.players, counts.directives_refused, counts.heard_lost),
        (0, 0, 0)
    );
}

/// SPEC PRE4, OPS2: an origin that comes anew is told who is there, seats them again, and hears their inputs from where
/// they are; what was given while there was none is told as lost.
#[test]
fn ops2_a_new_origin_is_told_who_is_there() {
    let first = origin();
    let addr = first.addr();
    let relay = relay(&first);
    let mut watcher = Watcher::joined(relay.data_addr());
    let joined = heard(&first);
    watcher.client.push_input(&[1]).unwrap();
    wait_metric_with(&mut watcher, || metric(&relay, TAKEN) >= 1.0);
    first.stop(false);
    watcher.run_until("the loss is told", |watcher| {
        watcher.saw(&ClientEvent::UpstreamStale(true))
    });
    watcher.client.push_input(&[2]).unwrap();
    for _ in 0..200 {
        watcher.turn();
    }
    watcher.events.clear();
    let second = OriginHandle::start(OriginSettings {
        listen: addr,
        ..OriginSettings::loopback(source())
    })
    .unwrap();
    watcher.run_until("it is seated again", |watcher| {
        last_assigned(watcher).is_some_and(|assigned| assigned.entity.is_some())
    });
    assert_eq!(heard(&second), joined);
    watcher.client.push_input(&[3]).unwrap();
    wait_metric_with(&mut watcher, || metric(&relay, TAKEN) >= 2.0);
    let player = joined.player();
    let (first, count) = (2, 1);
    assert_eq!(heard(&second), PlayerEvent::InputsLost { player, first, count });
    let (sequence, payload) = (3, vec![3]);
    assert_eq!(
        heard(&second),
        PlayerEvent::Input {
            player,
            sequence,
            payload
        }
    );
    assert_eq!(
        metric(&relay, "ackline_input_messages_total{result=\"dropped\"}"),
        1.0
    );
}

const TAKEN: &str = "ackline_input_messages_total{result=\"taken\"}";

/// Runs the client while waiting.
fn wait_metric_with(watcher: &mut Watcher, reached: impl Fn() -> bool) {
    watcher.run_until("the relay has it", |_| reached());
}
