//! A client and its playback: what is received is what is drawn (SPEC TAB6, ENT4, ENT7, PLY7).

use super::relay::{Relay, complete, record, remove};
use crate::client::display::Absence;
use crate::client::playback::clock::ClockMode;
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::settings::PlaybackSettings;
use crate::client::playback::stage::{Playback, TurnedKind};
use crate::client::session::{Client, Received};
use crate::client::settings::ClientSettings;
use crate::delta::decode::Entry;
use crate::state::entity::{Departure, Entity};

const T: u64 = 50_000;

/// A relay, a client and its playback; snapshot `n` is of server time `n` x 50 ms.
struct Rig {
    relay: Relay,
    client: Client,
    playback: Playback,
    now_us: u64,
}

impl Rig {
    fn new() -> Rig {
        let (relay, client) = Relay::connected(ClientSettings::default());
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.receive(&client, 0);
        Rig {
            relay,
            client,
            playback,
            now_us: 0,
        }
    }

    fn datagram(&mut self, id: u32, entries: Vec<Entry>) -> Vec<u8> {
        self.relay.send(id, None, u64::from(id) * T, entries)
    }

    fn receive(&mut self, datagram: &mut [u8]) -> Received {
        let received = self.client.receive(self.now_us, datagram);
        self.playback.receive(&self.client, self.now_us);
        received
    }

    /// Snapshot `id` arrives 10 ms after its time, and a frame is drawn.
    fn say(&mut self, id: u32, entries: Vec<Entry>) {
        self.now_us = u64::from(id) * T + 10_000;
        let mut datagram = self.datagram(id, entries);
        let received = self.receive(&mut datagram);
        assert!(matches!(received, Received::Snapshot { .. }), "{received:?}");
        self.relay.hear_all(self.now_us, &mut self.client);
        self.playback.frame(self.now_us);
    }

    fn x(&self) -> Option<f64> {
        self.playback.drawn().next()?.at.pose.map(|pose| pose.position[0])
    }
}

/// What arrives is drawn a delay later, between its observations; a late part fills the gap it left.
#[test]
fn tab6_a_late_part_fills_the_gap_of_a_history() {
    let mut rig = Rig::new();
    for id in 1..6 {
        rig.say(id, vec![complete(0, record(1, 10_000, u64::from(id) * T))]);
    }
    assert_eq!(rig.playback.mode(), ClockMode::Playing);
    let mut late = rig.datagram(6, vec![complete(0, record(1, 10_100, 6 * T))]);
    rig.say(7, vec![complete(0, record(1, 10_000, 7 * T))]);
    let sampled = |rig: &Rig, at_us| {
        let at = rig.playback.sample(0, Entity { id: 1, generation: 0 }, at_us);
        at.unwrap().pose.unwrap().position[0]
    };
    assert!(sampled(&rig, 6 * T).abs() < 1e-9);
    let Received::Snapshot { shown, .. } = rig.receive(&mut late) else {
        panic!("a late part is taken")
    };
    assert!(!shown, "the display has newer");
    assert!((sampled(&rig, 6 * T) - 1.0).abs() < 1e-9);
    assert_eq!(rig.playback.statistics().snapshots_late, 1);
}

/// SPEC CTL1, ENT1: who is destroyed is drawn until r has come to that; who is born, not before.
#[test]
fn ent1_births_and_ends_are_at_their_own_times() {
    let mut rig = Rig::new();
    let mut turns = Vec::new();
    let mut next = record(2, 12_000, 0);
    for id in 1..30 {
        let us = u64::from(id) * T;
        next.born_us = 10 * T;
        next.segment_us = 10 * T;
        next.motion.as_mut().unwrap().observed_us = us;
        let entries = match id {
            0..10 => vec![complete(0, record(1, 10_000, us))],
            10 => vec![remove(0, Departure::LeftView, 0), complete(1, next)],
            _ => vec![complete(1, next)],
        };
        rig.say(id, entries);
        let r_us = rig.playback.r_us();
        turns.extend(
            rig.playback
                .turned()
                .iter()
                .map(|turned| (r_us, turned.entity.id, turned.kind)),
        );
    }
    let of = |entity, appeared: bool| {
        let found = turns
            .iter()
            .find(|(_, id, kind)| *id == entity && matches!(kind, TurnedKind::Appeared) == appeared);
        found.and_then(|(r_us, ..)| *r_us)
    };
    assert!(of(1, true).is_some());
    let (gone, born) = (of(1, false).unwrap(), of(2, true).unwrap());
    assert!(
        (10 * T..11 * T).contains(&gone) && (10 * T..11 * T).contains(&born),
        "{gone} {born}"
    );
    assert_eq!(rig.x(), Some(20.0));
}

/// SPEC PLY7: a new stream clears the picture and begins another timeline.
#[test]
fn ply7_a_new_stream_clears_the_picture() {
    let mut rig = Rig::new();
    for id in 1..10 {
        rig.say(id, vec![complete(0, record(1, 10_000, u64::from(id) * T))]);
    }
    assert_eq!(rig.playback.drawn().count(), 1);
    let generation = rig.playback.generation();
    let mut welcome = rig.relay.new_stream();
    rig.receive(&mut welcome);
    assert_eq!((rig.playback.drawn().count(), rig.playback.seen()), (0, None));
    for (id, us) in [(20, 0), (21, T), (22, 2 * T)] {
        let mut datagram = rig
            .relay
            .send(id, None, us, vec![complete(0, record(7, 11_000, us))]);
        rig.now_us += T;
        rig.receive(&mut datagram);
        rig.playback.frame(rig.now_us);
    }
    assert_eq!(rig.playback.mode(), ClockMode::Playing);
    assert!(rig.playback.generation() > generation);
    assert_eq!(rig.x(), Some(10.0));
}

/// SPEC ENT2: a segment without state is asked for, one record and not a full state.
#[test]
fn ent2_a_segment_without_state_is_asked_for() {
    let mut rig = Rig::new();
    for id in 1..30 {
        let mut said = record(1, 10_000, u64::from(id) * T);
        if id >= 10 {
            (said.segment, said.segment_us, said.motion) = (1, 10 * T, None);
        }
        rig.say(id, vec![complete(0, said)]);
        rig.client.want_records(rig.playback.wanted());
        rig.relay.hear_all(rig.now_us + 30_000, &mut rig.client);
    }
    let drawn = rig.playback.drawn().next().unwrap();
    assert_eq!(
        (drawn.at.mode, drawn.at.pose, drawn.at.segment),
        (PoseMode::Missing, None, 1)
    );
    assert!(!rig.playback.is_view_ready());
    assert_eq!(rig.relay.report.requests, [(1, 0)]);
    let mut back = record(1, 14_000, 30 * T);
    (back.segment, back.segment_us) = (1, 10 * T);
    for id in 30..34 {
        back.motion.as_mut().unwrap().observed_us = u64::from(id) * T;
        rig.say(id, vec![complete(0, back)]);
        rig.client.want_records(rig.playback.wanted());
        rig.relay.hear_all(rig.now_us + 30_000, &mut rig.client);
    }
    assert_eq!(rig.x(), Some(40.0));
    assert!(rig.relay.report.requests.is_empty());
}

/// SPEC CTL3, PRE2: the own entity is drawn by its owner states, and does not make a view wait.
#[test]
fn pre2_owner_states_are_observations_of_the_own_entity() {
    let mut rig = Rig::new();
    rig.say(1, vec![complete(0, record(1, 10_000, T))]);
    for id in 2..20 {
        rig.now_us = u64::from(id) * T + 10_000;
        // A tick of the hand-made relay is a millisecond where owners are concerned.
        let own = record(1, 10_000 + id * 10, u64::from(id) * T);
        let mut owner = rig.relay.owner(id * 50, 0, 0, own);
        rig.receive(&mut owner);
        rig.say(id, Vec::new());
    }
    let drawn = rig.playback.drawn().next().unwrap();
    assert_eq!(drawn.at.mode, PoseMode::Interpolated);
    assert!(rig.x().unwrap() > 1.0);
}

/// A driver shows its next session when that view is whole: what came before was not watched, and is drawn all the same. Without
/// adopting it, updates of members that never entered are nobody's.
#[test]
fn ent7_a_view_that_was_whole_before_is_adopted() {
    let mut rig = Rig::new();
    for id in 1..4 {
        rig.say(id, vec![complete(0, record(1, 10_000, u64::from(id) * T))]);
    }
    for (adopts, drawn) in [(false, 0), (true, 1)] {
        rig.playback = Playback::new(PlaybackSettings::default());
        if adopts {
            rig.playback.adopt(&rig.client, rig.now_us);
        }
        let first = if adopts { 9 } else { 4 };
        for id in first..first + 5 {
            rig.say(id, vec![complete(0, record(1, 10_000, u64::from(id) * T))]);
        }
        assert_eq!(rig.playback.mode(), ClockMode::Playing);
        assert_eq!(rig.playback.drawn().count(), drawn);
    }
    let Some(at) = rig.playback.drawn().next().map(|drawn| drawn.at) else {
        panic!("it is drawn")
    };
    assert!(at.valid_at_r && at.mode == PoseMode::Interpolated, "{at:?}");
}

/// SPEC OPS2, ENT5: a session that is adopted costs no blank frame: what was drawn stays, as stale, until there is a picture of the new
/// one, and then who is gone departs and who is there goes on.
#[test]
fn ops2_the_old_picture_stays_until_there_is_a_new_one() {
    let both = |id: u32| {
        let of = |slot| complete(slot, record(u32::from(slot) + 1, 10_000, u64::from(id) * T));
        vec![of(0), of(1)]
    };
    let mut old = Rig::new();
    for id in 1..8 {
        old.say(id, both(id));
    }
    assert_eq!(old.playback.drawn().count(), 2);
    // The new relay's session, whole before it is shown; one of the two has gone meanwhile.
    let mut rig = Rig::new();
    let one = |id: u32| vec![complete(0, record(1, 15_000, u64::from(id) * T))];
    rig.say(30, one(30));
    rig.playback = old.playback;
    rig.playback.adopt(&rig.client, rig.now_us);
    let name = |id| Entity { id, generation: 0 };
    let mut blank_frames = 0;
    for id in 31..40 {
        assert!(rig.playback.drawn().count() > 0, "a blank picture before {id}");
        if rig.playback.mode() == ClockMode::Waiting {
            blank_frames += 1;
            assert!(
                rig.playback
                    .drawn()
                    .all(|drawn| !drawn.at.valid_at_r && drawn.at.mode == PoseMode::Stale)
            );
            assert!(rig.playback.seen().is_none() && !rig.playback.is_view_ready());
            assert!(rig.playback.drawn_at(1, name(2)).is_some());
        }
        rig.say(id, one(id));
        if blank_frames > 0 && rig.playback.mode() == ClockMode::Playing {
            let mut turned: Vec<_> = rig
                .playback
                .turned()
                .iter()
                .map(|turned| (turned.entity.id, turned.kind))
                .collect();
            turned.sort_by_key(|(id, _)| *id);
            let switched = TurnedKind::Switched {
                segment: 0,
                late: true,
            };
            assert_eq!(
                turned,
                [(1, switched), (2, TurnedKind::Departed(Absence::Unheard))]
            );
            break;
        }
    }
    assert!(blank_frames > 0);
    assert_eq!(rig.playback.drawn().count(), 1);
    assert!(rig.playback.drawn().all(|drawn| drawn.at.valid_at_r));
}
