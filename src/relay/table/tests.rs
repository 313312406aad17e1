use super::*;
use crate::relay::arena::tests::{moved, world};
use crate::relay::contents::ContentsBuilder;
use crate::state::entity::Entity;
use crate::state::update::{Despawn, TickUpdate};

fn contents(parts: &[&[(Slot, bool)]], exhaustive: bool) -> Arc<Contents> {
    let mut builder = ContentsBuilder::default();
    for part in parts {
        part.iter()
            .for_each(|(slot, removed)| builder.push(*slot, *removed));
        builder.end_part();
    }
    Arc::new(builder.finish(exhaustive))
}

/// SPEC TAB8: the table is its base plus the held parts; what was not held keeps its old tick.
#[test]
fn tab8_a_table_is_its_base_plus_the_held_parts() {
    let (mut world, first) = world(4, Tick(1));
    let mut arena = Arena::new(16);
    arena.publish(first);
    let whole = Table::Whole(Tick(1));
    let second = world.advance(Tick(2), &moved(50, [0, 1], 7)).unwrap();
    arena.publish(std::sync::Arc::clone(&second));
    let sent = contents(&[&[(0, false)], &[(1, false)]], true);
    let half = Table::build(&second, Some(&whole), &sent, 0b01, &arena);
    assert_eq!(half.known(0, &second), Known::At(Tick(2)));
    assert_eq!(
        half.known(1, &second),
        Known::At(Tick(1)),
        "not held: the base's record"
    );
    assert_eq!(
        half.known(3, &second),
        Known::At(Tick(2)),
        "unchanged counts as known now"
    );
    assert!(half.is_complete());
    let expected = second
        .digest()
        .minus(second.digest_of(1))
        .plus(arena.frame(Tick(1)).unwrap().digest_of(1));
    assert_eq!(half.digest(&arena), Some(expected));
    assert_eq!(
        Table::build(&second, Some(&whole), &sent, 0b11, &arena),
        Table::Whole(Tick(2))
    );
    // From the empty table: only what was held is a member.
    let joining = Table::build(&second, None, &sent, 0b10, &arena);
    assert_eq!((joining.members(&arena), joining.is_complete()), (1, false));
    // Held everything piece by piece, it is whole again although no packet said so.
    let third = world.hold(Tick(3), false);
    arena.publish(std::sync::Arc::clone(&third));
    let rest = contents(&[&[(1, false)]], false);
    assert_eq!(
        Table::build(&third, Some(&half), &rest, 1, &arena),
        Table::Whole(Tick(3))
    );
}

/// SPEC TAB7, DEC12: a table whose members have died is behind a smaller one whose members live.
#[test]
fn tab7_the_dead_are_no_progress_of_a_join() {
    let (mut world, first) = world(4, Tick(1));
    let mut arena = Arena::new(16);
    arena.publish(first);
    let before = Table::Whole(Tick(1));
    assert_eq!(before.members(&arena), 4);
    let dies = |id| Despawn {
        entity: Entity { id, generation: 0 },
        at_us: 50,
        reason: 0,
    };
    let update = TickUpdate {
        despawned: vec![dies(0), dies(1)],
        ..moved(50, [2], 7)
    };
    let second = world.advance(Tick(2), &update).unwrap();
    arena.publish(std::sync::Arc::clone(&second));
    assert_eq!(
        (before.members(&arena), Table::Whole(Tick(2)).members(&arena)),
        (2, 2)
    );
    let partly = Table::build(
        &second,
        Some(&before),
        &contents(&[&[(0, true)], &[(1, true)]], false),
        1,
        &arena,
    );
    assert_eq!((partly.members(&arena), partly.is_complete()), (2, true));
}

/// SPEC TAB8, WIN9: parts on a base whose frame has left make a table that nobody can tell, not one without
/// the base's members.
#[test]
fn tab8_a_table_on_a_base_that_has_left_is_lost() {
    let (mut world, first) = world(4, Tick(1));
    let mut arena = Arena::new(2);
    arena.publish(first);
    for tick in 2..4 {
        arena.publish(world.hold(Tick(tick), false));
    }
    let frame = world.advance(Tick(4), &moved(50, [0, 1], 7)).unwrap();
    arena.publish(std::sync::Arc::clone(&frame));
    let sent = contents(&[&[(0, false)], &[(1, false)]], true);
    let table = Table::build(&frame, Some(&Table::Whole(Tick(1))), &sent, 1, &arena);
    assert_eq!(table, Table::Lost(Tick(4)));
    assert_eq!((table.digest(&arena), table.is_readable(&arena)), (None, false));
    let later = Table::build(&frame, Some(&table), &sent, 2, &arena);
    assert_eq!(later, Table::Lost(Tick(4)), "nor what stands on it");
    let whole = Table::build(&frame, Some(&table), &sent, 3, &arena);
    assert_eq!(
        whole,
        Table::Whole(Tick(4)),
        "all parts make the frame, whatever the base"
    );
}

#[test]
fn ages_saturate_to_old_and_removal_ends_membership() {
    let (mut world, first) = world(2, Tick(1));
    let mut arena = Arena::new(4);
    arena.publish(first);
    let far = Tick(70_000);
    let frame = world.advance(far, &moved(50, [0], 7)).unwrap();
    arena.publish(std::sync::Arc::clone(&frame));
    let base = Table::Explicit {
        tick: Tick(1),
        ages: vec![FRESH, FRESH].into(),
        complete: true,
    };
    let table = Table::build(&frame, Some(&base), &contents(&[&[(1, true)]], false), 1, &arena);
    assert_eq!(
        (table.known(0, &frame), table.known(1, &frame)),
        (Known::Old, Known::Absent)
    );
    assert_eq!((table.digest(&arena), table.is_complete()), (None, false));
}
