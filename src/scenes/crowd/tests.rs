use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::scenes::SceneKind;
use crate::scenes::heading::Heading;
use crate::scenes::rehearsal::{Act, Rehearsal, is_deterministic, run};
use crate::state::player::Order;

#[test]
fn the_same_seed_and_players_give_the_same_bits() {
    is_deterministic(SceneKind::Crowd, 200);
}

/// SPEC ID6, ENT9: a minute with players that come, go and send anything is published whole; the rehearsal checks rest.
#[test]
fn ent9_a_minute_with_players_is_published_whole() {
    let mut rehearsal = Rehearsal::new(SceneKind::Crowd, 300, 20.0, 3, 30);
    let acts = run(&mut rehearsal, 60 * 20);
    let count = |of: fn(&WorldSample) -> usize| acts.iter().map(|act| of(&act.sample)).sum::<usize>();
    assert!(count(|sample| sample.events.len()) > 20);
    assert!(count(|sample| sample.tags.len()) > 20);
    assert!(count(|sample| sample.extras.len()) > 20);
    assert_eq!(count(|sample| sample.despawned.len()), 0);
    for hz in [1.0, 128.0] {
        run(&mut Rehearsal::new(SceneKind::Crowd, 20, hz, 3, 30), 300);
    }
}

/// Entities within the view of one, itself included, on average.
fn members(crowd: &Crowd) -> f64 {
    let cells = (2.0 * crowd.half / VIEW_M).ceil() as usize + 2;
    let cell = |place: [f64; 2]| place.map(|part| ((part + crowd.half) / VIEW_M) as usize + 1);
    let mut grid = vec![Vec::new(); cells * cells];
    for walker in &crowd.walkers {
        let [x, y] = cell(walker.position);
        grid[y * cells + x].push(walker.position);
    }
    let mut pairs = 0usize;
    for walker in &crowd.walkers {
        let ([x, y], [at_x, at_y]) = (cell(walker.position), walker.position);
        for row in y - 1..=(y + 1).min(cells - 1) {
            let near = grid[row * cells + x - 1..=row * cells + (x + 1).min(cells - 1)].iter();
            let within =
                |other: &&[f64; 2]| (other[0] - at_x).powi(2) + (other[1] - at_y).powi(2) <= VIEW_M * VIEW_M;
            pairs += near.flatten().filter(within).count();
        }
    }
    pairs as f64 / crowd.walkers.len() as f64
}

/// A view holds about a hundred whatever the number of entities, at the beginning and later; half are at rest.
#[test]
fn a_view_holds_a_hundred_and_half_are_at_rest_whatever_the_number() {
    for entities in [500, 5_000, 20_000] {
        let mut crowd = Crowd::new(entities, 4.0, 1).unwrap();
        let mut sum = 0.0;
        for tick in 0..240 {
            let _ = crowd.next();
            let resting = crowd
                .walkers
                .iter()
                .filter(|walker| walker.velocity == [0.0; 2])
                .count();
            let share = resting as f64 / entities as f64;
            assert!(
                (0.45..0.55).contains(&share),
                "{share} of {entities} at rest at tick {tick}"
            );
            if tick % 60 == 0 {
                let members = members(&crowd);
                assert!(
                    (80.0..125.0).contains(&members),
                    "{entities}: {members} at tick {tick}"
                );
                sum += members;
            }
        }
        println!(
            "{entities} entities, side {:.1} m: {:.1} members",
            2.0 * crowd.half,
            sum / 4.0
        );
    }
}

/// Players own one each, walking ones first, distinct while there are enough, then shared.
#[test]
fn players_own_distinct_walkers_while_there_are_enough() {
    let mut crowd = Crowd::new(100, 20.0, 2).unwrap();
    crowd.set_view(View::WHOLE);
    let first = crowd.next();
    let mut resting: BTreeSet<Entity> = first
        .observed
        .iter()
        .filter(|seen| seen.at_rest)
        .map(|seen| seen.entity)
        .collect();
    let mut owned = BTreeSet::new();
    let mut directives = Vec::new();
    for player in 0..120 {
        crowd.hear(1, PlayerEvent::Joined(player, 0));
    }
    let sample = crowd.next();
    for seen in sample.observed.iter().filter(|seen| !seen.at_rest) {
        resting.remove(&seen.entity);
    }
    crowd.take_directives(&mut directives);
    let assigned = directives
        .iter()
        .filter_map(|(_, directive)| match directive.order {
            Order::Assign { entity, view } => Some((entity.unwrap(), view.unwrap())),
            _ => None,
        });
    for (number, (entity, view)) in assigned.enumerate() {
        assert_eq!(owned.insert(entity), number < 100, "player {number}");
        assert!(
            number >= 40 || !resting.contains(&entity),
            "player {number} owns one at rest"
        );
        assert!(!view.permits(HIDDEN) && view.permits(2) && view.scope == View::WHOLE.scope);
    }
    assert_eq!((owned.len(), sample.extras.len()), (100, 100));
    for player in 0..120 {
        crowd.hear(1, PlayerEvent::Left(player));
    }
    assert_eq!(crowd.next().extras.len(), 100, "nobody is owned any more");
    assert!(crowd.owned == 0 && crowd.drivers.is_empty());
}

/// A scene that was given no view assigns none: what its relay is set to holds.
#[test]
fn without_a_view_players_are_assigned_an_entity_alone() {
    let mut crowd = Crowd::new(100, 20.0, 2).unwrap();
    crowd.hear(1, PlayerEvent::Joined(1, 0));
    crowd.next();
    let mut directives = Vec::new();
    crowd.take_directives(&mut directives);
    let assigned = directives
        .iter()
        .find_map(|(_, directive)| match directive.order {
            Order::Assign { entity, view } => Some((entity.is_some(), view)),
            _ => None,
        });
    assert_eq!(assigned, Some((true, None)));
}

/// SPEC PRE2: inputs move the player's own one and are answered; without any the flock has it back.
#[test]
fn pre2_inputs_drive_the_owned_one_and_are_answered() {
    let mut crowd = Crowd::new(200, 20.0, 2).unwrap();
    let _ = crowd.next();
    crowd.hear(1, PlayerEvent::Joined(5, 0));
    let _ = crowd.next();
    let seat = crowd.drivers[0].0;
    let begun = crowd.walkers[seat].position;
    let way = if begun[0] < 0.0 { 127 } else { -127 };
    let mut directives = Vec::new();
    crowd.take_directives(&mut directives);
    for sequence in 1..=40 {
        let input = Input {
            motion: [way, 0],
            heading: Heading(77),
            ..Input::default()
        };
        let payload = input.encode().to_vec();
        crowd.hear(
            1,
            PlayerEvent::Input {
                player: 5,
                sequence,
                payload,
            },
        );
        directives.clear();
        let _ = crowd.next();
        crowd.take_directives(&mut directives);
        let order = Order::Processed(sequence);
        assert_eq!(directives, [(1, Directive { player: 5, order })]);
    }
    let walker = &crowd.walkers[seat];
    let gone = (walker.position[0] - begun[0]).abs();
    assert!(
        (7.0..8.1).contains(&gone) && walker.heading == Heading(77),
        "{gone} m"
    );
    for _ in 0..50 {
        let _ = crowd.next();
    }
    let walker = &crowd.walkers[seat];
    assert!(walker.velocity == [0.0; 2] || walker.walks, "back with its flock");
}

/// Those that hide carry the bit while they rest; guides give signs, hidden ones too.
#[test]
fn hiders_are_tagged_while_they_rest() {
    let mut rehearsal = Rehearsal::new(SceneKind::Crowd, 600, 10.0, 4, 0);
    let mut tags: BTreeMap<Entity, Tags> = BTreeMap::new();
    let (mut resting, mut signs_of_hidden) = (BTreeMap::new(), 0);
    for _ in 0..400 {
        let Act { sample, .. } = rehearsal.act();
        tags.extend(sample.tags.iter().map(|update| (update.entity, update.tags)));
        resting.extend(sample.observed.iter().map(|seen| (seen.entity, seen.at_rest)));
        for (entity, tag) in &tags {
            assert_eq!(*tag == HIDDEN, resting[entity], "{entity}");
        }
        let hidden = |event: &&Event| {
            event
                .entity
                .is_some_and(|entity| tags.get(&entity) == Some(&HIDDEN))
        };
        signs_of_hidden += sample.events.iter().filter(hidden).count();
    }
    assert_eq!(tags.len(), 12);
    assert!(signs_of_hidden > 0);
}

/// What a tick takes: told, and bounded with much room, since other work may share the host.
#[test]
fn a_tick_of_five_thousand_is_cheap() {
    let mut crowd = Crowd::new(5_000, 20.0, 1).unwrap();
    let _ = crowd.next();
    let begun = std::time::Instant::now();
    let ticks = 100;
    let observed: usize = (0..ticks).map(|_| crowd.next().observed.len()).sum();
    let tick = begun.elapsed() / ticks;
    println!("{tick:?} a tick, {} observed", observed / ticks as usize);
    assert!(tick.as_millis() < 40, "{tick:?} a tick");
}
