use std::sync::Arc;

use super::*;
use crate::relay::arena::tests::{moved, world};
use crate::state::update::{Despawn, TickUpdate};

fn dies(us: u64, id: u32) -> TickUpdate {
    let entity = Entity { id, generation: 0 };
    TickUpdate {
        server_us: us,
        despawned: vec![Despawn {
            entity,
            at_us: us,
            reason: 0,
        }],
        ..TickUpdate::default()
    }
}

/// A view of ten metres around the first entity.
fn around_the_first() -> Interest {
    let mut interest = Interest::new(View {
        scope: Scope::Owner(Range::new(1_000, 1_000).unwrap()),
        tags: 1,
    });
    interest.assign(Some(Entity { id: 0, generation: 0 }), None);
    interest
}

/// SPEC CTL1: who died while the view was narrow is not seen because the view was whole afterwards.
#[test]
fn ctl1_who_died_before_the_view_was_whole_is_not_adopted() {
    let (mut world, first) = world(3, Tick(1));
    let mut arena = Arena::new(16);
    arena.publish(first);
    arena.publish(world.advance(Tick(2), &dies(20, 2)).unwrap());
    arena.publish(world.advance(Tick(3), &moved(30, [0], 7)).unwrap());
    let newest = world.advance(Tick(4), &dies(40, 1)).unwrap();
    let left = |since| {
        let mut interest = Interest::new(View::WHOLE);
        interest.adopt(&arena, since);
        interest.update(&newest, &arena, &mut Scratch::default());
        interest.left().iter().map(|left| left.slot).collect::<Vec<_>>()
    };
    assert_eq!(left(None), [1, 2]);
    assert_eq!(left(Some(Tick(3))), [1], "whole since tick 3");
}

/// SPEC CTL1: a camera beyond the reach of points sees nobody, and not what it saw before.
#[test]
fn ctl1_a_camera_beyond_all_points_sees_nobody() {
    let (mut world, first) = world(3, Tick(1));
    let range = Range::new(100, 100).unwrap();
    let mut interest = Interest::new(View {
        scope: Scope::Camera(range),
        tags: 1,
    });
    let place = place_of(&first, 0);
    interest.set_camera(place);
    interest.update(&first, &Arena::new(4), &mut Scratch::default());
    assert!(place.is_some() && !interest.members().is_empty());
    interest.set_camera(None);
    let second = world.advance(Tick(2), &moved(20, [0], 7)).unwrap();
    interest.update(&second, &Arena::new(4), &mut Scratch::default());
    assert_eq!(interest.members(), []);
}

/// SPEC CTL1: who came and left while there was no baseline may be shown, so it is remembered until a baseline is newer.
#[test]
fn ctl1_who_left_before_the_first_base_is_not_forgotten() {
    let (mut world, first) = world(2, Tick(1));
    let mut interest = Interest::new(View::WHOLE);
    interest.update(&first, &Arena::new(4), &mut Scratch::default());
    let second = world.advance(Tick(2), &dies(20, 1)).unwrap();
    interest.update(&second, &Arena::new(4), &mut Scratch::default());
    let sparse = |tick| Table::Sparse {
        tick: Tick(tick),
        members: Box::new([(0, 2)]),
        complete: true,
    };
    interest.forget_left_by(None, &second);
    interest.forget_left_by(Some(&sparse(1)), &second);
    assert_eq!(
        interest.left().len(),
        1,
        "shown by what was sent after tick 1, perhaps"
    );
    interest.forget_left_by(Some(&sparse(2)), &second);
    assert_eq!(interest.left(), []);
}

/// SPEC CTL1: who went out of view between two looks and died there has left, and no more is told of it.
#[test]
fn ctl1_who_died_out_of_view_between_two_looks_has_left() {
    let why_of = |x: u32, looked: bool| {
        let (mut world, first) = world(2, Tick(1));
        let mut arena = Arena::new(16);
        let mut interest = around_the_first();
        let mut scratch = Scratch::default();
        arena.publish(Arc::clone(&first));
        interest.update(&first, &arena, &mut scratch);
        assert_eq!(interest.members().len(), 2);
        let second = world.advance(Tick(2), &moved(20, [1], x)).unwrap();
        arena.publish(Arc::clone(&second));
        if looked {
            interest.update(&second, &arena, &mut scratch);
        }
        let third = world.advance(Tick(3), &dies(30, 1)).unwrap();
        arena.publish(Arc::clone(&third));
        interest.update(&third, &arena, &mut scratch);
        interest.left().first().map(|left| left.why)
    };
    assert_eq!(why_of(3, false), Some(Departure::Destroyed));
    assert_eq!(why_of(3, true), Some(Departure::Destroyed));
    assert_eq!(why_of(19_000, false), Some(Departure::LeftView));
    assert_eq!(why_of(19_000, true), Some(Departure::LeftView));
}

/// SPEC TAB4, TAB8: who came back and was left out is new until it was sent, to every base that is made meanwhile.
#[test]
fn tab8_who_is_left_out_stays_new() {
    let new =
        |interest: &Interest, base, now| interest.is_new(&interest.members()[1], Some(Tick(base)), Tick(now));
    let (mut world, first) = world(2, Tick(1));
    let (arena, mut scratch) = (Arena::new(4), Scratch::default());
    let mut interest = Interest::new(View::WHOLE);
    interest.update(&first, &arena, &mut scratch);
    assert!(new(&interest, 1, 1), "it was never sent");
    interest.put_off(None, Tick(1), |_| false);
    for tick in 2..4 {
        let frame = world
            .advance(Tick(tick), &moved(u64::from(tick) * 10, [0], 7))
            .unwrap();
        interest.update(&frame, &arena, &mut scratch);
    }
    interest.note_sent([1].into_iter(), Tick(3));
    assert!(new(&interest, 1, 3), "that base was made without it");
    assert!(!new(&interest, 3, 3));
    interest.put_off(Some(Tick(3)), Tick(3), |_| false);
    let fourth = world.advance(Tick(4), &moved(40, [0], 9)).unwrap();
    interest.update(&fourth, &arena, &mut scratch);
    assert!(!new(&interest, 3, 4), "who is not new is not made new");
}

/// SPEC CTL1: who left and found no room in a squeezed snapshot is not taken for said by the base made of it.
#[test]
fn ctl1_who_left_and_was_left_out_is_not_forgotten() {
    let left_after = |said: bool| {
        let (mut world, first) = world(2, Tick(1));
        let (arena, mut scratch) = (Arena::new(4), Scratch::default());
        let mut interest = Interest::new(View::WHOLE);
        interest.update(&first, &arena, &mut scratch);
        let second = world.advance(Tick(2), &dies(20, 1)).unwrap();
        interest.update(&second, &arena, &mut scratch);
        interest.put_off(Some(Tick(1)), Tick(2), |_| said);
        let base = Table::Sparse {
            tick: Tick(2),
            members: Box::new([(0, 2)]),
            complete: true,
        };
        let third = world.advance(Tick(3), &moved(30, [0], 9)).unwrap();
        interest.update(&third, &arena, &mut scratch);
        interest.forget_left_by(Some(&base), &third);
        interest.left().len()
    };
    assert_eq!((left_after(false), left_after(true)), (1, 0));
}

/// SPEC CTL3: what befell somebody out of view, in a frame that was not looked at, is not heard once it is in view.
#[test]
fn ctl3_what_befell_out_of_view_is_not_heard_afterwards() {
    let (mut world, first) = world(2, Tick(1));
    let mut arena = Arena::new(16);
    let mut interest = around_the_first();
    let far = world.advance(Tick(2), &moved(20, [1], 19_000)).unwrap();
    let near = world.advance(Tick(3), &moved(30, [1], 3)).unwrap();
    for frame in [&first, &far, &near] {
        arena.publish(Arc::clone(frame));
    }
    interest.update(&near, &arena, &mut Scratch::default());
    assert_eq!(interest.members().len(), 2);
    let hears = |past| interest.hears_of(1, past, Tick(3));
    assert_eq!((hears(&first), hears(&far), hears(&near)), (true, false, true));
}

/// An own entity that is nowhere is looked for among who came, not in all the world at each tick; it is found all the same.
#[test]
fn an_own_entity_is_found_when_it_comes() {
    use crate::state::update::Spawn;
    let (mut world, first) = world(3, Tick(1));
    let mut arena = Arena::new(16);
    let mut scratch = Scratch::default();
    let mut interest = Interest::new(View::WHOLE);
    let own = Entity { id: 9, generation: 0 };
    interest.assign(Some(own), None);
    arena.publish(Arc::clone(&first));
    interest.update(&first, &arena, &mut scratch);
    assert!(interest.owner_slot().is_none() && interest.sought);
    let spawn = Spawn {
        entity: own,
        class: 0,
        at_us: 20,
    };
    let spawned = TickUpdate {
        spawned: vec![spawn],
        ..moved(20, [0], 7)
    };
    let second = world.advance(Tick(2), &spawned).unwrap();
    arena.publish(Arc::clone(&second));
    interest.update(&second, &arena, &mut scratch);
    assert!(interest.owner_slot().is_some() && !interest.sought);
    interest.assign(Some(Entity { id: 0, generation: 0 }), None);
    let third = world.advance(Tick(3), &moved(30, [0], 8)).unwrap();
    arena.publish(Arc::clone(&third));
    interest.update(&third, &arena, &mut scratch);
    assert_eq!(interest.owner_slot(), Some(0), "an old one that is newly its own");
}

/// SPEC CTL3: what befell somebody in view, in a frame that was not looked at, is heard though it left meanwhile.
#[test]
fn ctl3_what_befell_in_view_is_heard_though_it_left() {
    let (mut world, first) = world(2, Tick(1));
    let mut arena = Arena::new(16);
    let mut interest = around_the_first();
    let mut scratch = Scratch::default();
    arena.publish(Arc::clone(&first));
    interest.update(&first, &arena, &mut scratch);
    let near = world.advance(Tick(2), &moved(20, [1], 3)).unwrap();
    let far = world.advance(Tick(3), &moved(30, [1], 19_000)).unwrap();
    let farther = world.advance(Tick(4), &moved(40, [1], 19_500)).unwrap();
    for frame in [&near, &far, &farther] {
        arena.publish(Arc::clone(frame));
    }
    interest.update(&farther, &arena, &mut scratch);
    assert_eq!(interest.members().len(), 1);
    let hears = [&near, &far, &farther].map(|past| interest.hears_of(1, past, Tick(4)));
    assert_eq!(hears, [true, false, false]);
}

/// SPEC CTL1: where the view's own entity was, in a frame that was not looked at, is asked of that frame: it may have come and
/// gone since, and somebody else lives where it lived.
#[test]
fn ctl1_the_centre_of_a_past_frame_is_where_its_own_entity_was_in_it() {
    use crate::state::update::Spawn;
    let (mut world, first) = world(3, Tick(1));
    let mut interest = around_the_first();
    let arena = Arena::new(4);
    interest.update(&first, &arena, &mut Scratch::default());
    let second = world.advance(Tick(2), &dies(20, 0)).unwrap();
    let spawned = |us, id| TickUpdate {
        spawned: vec![Spawn {
            entity: Entity { id, generation: 0 },
            class: 0,
            at_us: us,
        }],
        ..moved(us, [1], 19_000)
    };
    let third = world.advance(Tick(3), &spawned(30, 9)).unwrap();
    assert_eq!(interest.own_in(&first), place_of(&first, 0));
    assert_eq!(interest.own_in(&second), None);
    assert_eq!(
        interest.own_in(&third),
        None,
        "a stranger lives in its slot, if anybody"
    );
    interest.assign(Some(Entity { id: 1, generation: 0 }), None);
    assert!(interest.owner_slot().is_none(), "not looked for yet");
    assert_eq!(interest.own_in(&third), place_of(&third, 1));
}
