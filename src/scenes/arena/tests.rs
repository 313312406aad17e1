use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::scenes::input::{FIRE, Input};
use crate::scenes::rehearsal::{Act, Rehearsal, is_deterministic, run};
use crate::scenes::{Scene, SceneKind};
use crate::state::player::Order;
use crate::state::sample::Sample;
use crate::state::view::{Range, Scope};

fn rehearsal(bots: usize, hz: f64, players: usize) -> Rehearsal {
    Rehearsal::new(SceneKind::Arena, bots, hz, 1, players)
}

fn kinds(acts: &[Act]) -> BTreeMap<u16, usize> {
    let mut kinds = BTreeMap::new();
    for event in acts.iter().flat_map(|act| &act.sample.events) {
        *kinds.entry(event.kind).or_default() += 1;
    }
    kinds
}

#[test]
fn the_same_seed_and_players_give_the_same_bits() {
    is_deterministic(SceneKind::Arena, 24);
}

/// SPEC ID6, CTL3: a minute with players that come, go and send anything: nothing is refused, everything happens, and what
/// is critical is.
#[test]
fn ctl3_a_minute_with_players_is_published_whole() {
    let mut rehearsal = rehearsal(64, 20.0, 20);
    let acts = run(&mut rehearsal, 60 * 20);
    let kinds = kinds(&acts);
    for kind in [
        event::SHOT,
        event::HIT,
        event::DEATH,
        event::REVIVE,
        event::PICKUP,
        event::TELEPORT,
        event::QUEST,
    ] {
        assert!(
            kinds.get(&kind).is_some_and(|count| *count > 2),
            "kind {kind} in {kinds:?}"
        );
    }
    let critical = [event::HIT, event::DEATH, event::REVIVE, event::QUEST];
    for event in acts.iter().flat_map(|act| &act.sample.events) {
        assert_eq!(event.critical, critical.contains(&event.kind));
    }
    let reasons: BTreeSet<u8> = acts
        .iter()
        .flat_map(|act| act.sample.despawned.iter().map(|despawn| despawn.reason))
        .collect();
    assert_eq!(
        reasons,
        BTreeSet::from([
            event::LEFT,
            event::EXPIRED,
            event::BLOCKED,
            event::STRUCK,
            event::TAKEN
        ])
    );
    let Scene::Arena(arena) = &rehearsal.scene else {
        panic!("an arena");
    };
    let InputCounts {
        taken,
        malformed,
        unknown,
        ..
    } = arena.inputs();
    assert!(
        taken > 1000 && malformed > 100 && unknown == 0,
        "{:?}",
        arena.inputs()
    );
}

/// Without players sixteen bots do several things a second; at every rate and number nothing is refused.
#[test]
fn bots_alone_keep_it_going_at_every_rate_and_number() {
    for (bots, hz, seconds) in [(16, 20.0, 60), (16, 1.0, 60), (16, 128.0, 20), (1500, 10.0, 6)] {
        let acts = run(&mut rehearsal(bots, hz, 0), seconds * hz as usize);
        let kinds = kinds(&acts);
        let events: usize = kinds.values().sum();
        assert!(events > 2 * seconds, "{bots} bots at {hz} Hz: {kinds:?}");
        assert!(
            kinds.contains_key(&event::HIT),
            "{bots} bots at {hz} Hz: {kinds:?}"
        );
        assert!(acts.iter().all(|act| act.directives.is_empty()));
        let shots = kinds[&event::SHOT];
        assert!(shots as f64 <= SHOTS_PER_S * seconds as f64 + SHOTS_TICK_MAX);
        if (bots, hz) == (16, 20.0) {
            assert!(
                kinds[&event::TELEPORT] > 0 && kinds[&event::REVIVE] > 5,
                "{kinds:?}"
            );
        }
    }
}

/// SPEC TAB4, ENT4, CTL7: a throw and a revival are a new segment in the tick of their event; within a segment nobody
/// goes faster than it can.
#[test]
fn tab4_segments_rise_exactly_where_somebody_appears() {
    let mut rehearsal = rehearsal(48, 20.0, 12);
    let mut last: BTreeMap<Entity, Sample> = BTreeMap::new();
    let mut furthest = 0f64;
    for _ in 0..60 * 20 {
        let Act { sample, .. } = rehearsal.act();
        let of_kind = |kinds: &[u16]| -> BTreeSet<Entity> {
            let events = sample.events.iter().filter(|event| kinds.contains(&event.kind));
            events.filter_map(|event| event.entity).collect()
        };
        let appear = of_kind(&[event::TELEPORT, event::REVIVE]);
        let mut rose = BTreeSet::new();
        for seen in &sample.observed {
            let Some(before) = last.insert(seen.entity, *seen) else {
                continue;
            };
            let away = [0, 1, 2].map(|axis: usize| (seen.position[axis] - before.position[axis]).powi(2));
            let away = away.iter().sum::<f64>().sqrt();
            let class = rehearsal.publisher.world().record(seen.entity).unwrap().1.class;
            if seen.segment > before.segment {
                if class == WALKER {
                    assert_eq!(seen.segment, before.segment + 1);
                    rose.insert(seen.entity);
                    furthest = furthest.max(away);
                } else {
                    assert_eq!(class, BEACON);
                }
            } else {
                // A door that shuts may set a walker out of its way.
                let most = if class == MISSILE { 1.6 } else { 1.2 };
                assert!(away < most, "{} of class {class} went {away} m", seen.entity);
            }
        }
        assert_eq!(rose, appear);
    }
    assert!(furthest > 40.0, "across the map, not {furthest} m");
}

/// Players: an entity and a view on joining and on every revival, a welcome, scores, and the number of the last input.
#[test]
fn a_player_is_told_what_it_is_and_how_far_its_inputs_are() {
    let range = Range::new(2_000, 2_500).unwrap();
    let scope = Scope::Owner(range);
    let mut rehearsal = rehearsal(16, 20.0, 10);
    rehearsal.scene.set_view(View {
        scope,
        tags: Tags::MAX,
    });
    let mut owned: BTreeMap<(u64, u64), Entity> = BTreeMap::new();
    let (mut processed, mut scores, mut assigned, mut revivals) = (BTreeMap::new(), 0, 0, 0);
    for _ in 0..60 * 20 {
        let Act { sample, directives } = rehearsal.act();
        let mut welcomed = BTreeSet::new();
        let mut told = BTreeSet::new();
        for (subscriber, Directive { player, order }) in directives {
            let key = (subscriber, player);
            assert!(rehearsal.players.contains_key(&key), "{key:?} has left");
            match order {
                Order::Assign { entity, view } => {
                    let (entity, view) = (entity.unwrap(), view.unwrap());
                    assert!(rehearsal.publisher.world().record(entity).is_some());
                    assert!(owned.insert(key, entity).is_none_or(|before| before == entity));
                    assert!(view.scope == scope && [5, 6].contains(&view.tags), "{view:?}");
                    told.insert(entity);
                    assigned += 1;
                }
                Order::Message { kind, payload } if kind == event::WELCOME => {
                    assert!(payload.len() == 1 && welcomed.insert(key));
                }
                Order::Message { kind, payload } => {
                    assert_eq!((kind, payload.len()), (event::SCORE, 5));
                    scores += 1;
                }
                Order::Processed(last) => {
                    assert!(processed.insert(key, last).is_none_or(|before| before < last));
                }
            }
        }
        let revived = sample.events.iter().filter(|event| event.kind == event::REVIVE);
        for entity in revived.filter_map(|event| event.entity) {
            if owned
                .iter()
                .any(|(key, own)| *own == entity && rehearsal.players.contains_key(key))
            {
                assert!(
                    told.contains(&entity),
                    "{entity} was revived and its player not told"
                );
                revivals += 1;
            }
        }
        for (key, last) in &rehearsal.players {
            // What waits is a quarter of a second of inputs, and what made no sense between them.
            let told = processed.get(key).copied().unwrap_or(0);
            assert!(told <= *last && *last - told <= 16, "{key:?}: {told} of {last}");
        }
    }
    assert!(
        assigned > 20 && scores > 0 && revivals > 0,
        "{assigned} {scores} {revivals}"
    );
}

/// Hidden and seen again: who is stealthy has its team's bit alone, and fires nothing.
#[test]
fn stealth_hides_from_the_other_team_and_ends() {
    let mut rehearsal = rehearsal(32, 20.0, 6);
    let mut tags: BTreeMap<Entity, Tags> = BTreeMap::new();
    let (mut hides, mut shows, mut beacons) = (0, 0, 0);
    for tick in 0..60 * 20 {
        let Act { sample, .. } = rehearsal.act();
        for update in &sample.tags {
            let (_, record) = rehearsal.publisher.world().record(update.entity).unwrap();
            match record.class {
                WALKER if update.tags == 0 => shows += 1,
                WALKER => {
                    hides += 1;
                    assert_eq!(update.tags, TEAMS[record.extras[1] as usize]);
                }
                BEACON => {
                    beacons += 1;
                    assert!(TEAMS.contains(&update.tags) && tick == 0);
                }
                class => assert_eq!(
                    (update.tags, [PAD, PICKUP_CLASS].contains(&class)),
                    (NEUTRAL, true)
                ),
            }
            tags.insert(update.entity, update.tags);
        }
        for event in sample.events.iter().filter(|event| event.kind == event::SHOT) {
            assert_eq!(
                event
                    .entity
                    .and_then(|entity| tags.get(&entity))
                    .copied()
                    .unwrap_or(0),
                0
            );
        }
    }
    assert!(
        hides > 30 && shows > 30 && beacons >= 4,
        "{hides} {shows} {beacons}"
    );
}

/// One player with inputs of its own: it goes where it wants at the speed of a run, however many inputs it sends beyond the
/// quarter second it begins with, stands still when it falls silent, and is gone when it leaves.
#[test]
fn more_inputs_are_no_more_speed() {
    let ways: Vec<f64> = [1u32, 3, 200].map(way_of).to_vec();
    for (way, inputs_s) in ways.iter().zip([1.0, 1.25, 1.25]) {
        assert!((way - 6.0 * inputs_s).abs() < 1.0, "{ways:?} m in a second");
    }
}

/// SPEC PRE2: what a player sent while it was let in is played when it has its place, and leaves no delay behind: from then on each
/// input is played in the tick it comes with.
#[test]
fn pre2_inputs_sent_before_a_place_leave_no_delay_behind() {
    let mut arena = Arena::new(16, 20.0, 3).unwrap();
    let _ = arena.next();
    arena.hear(4, PlayerEvent::Joined(8, 0));
    let (mut sequence, mut directives) = (0, Vec::new());
    for tick in 0..20 {
        for _ in 0..if tick == 0 { 5 } else { 1 } {
            sequence += 1;
            let payload = Input::default().encode().to_vec();
            let player = 8;
            arena.hear(
                4,
                PlayerEvent::Input {
                    player,
                    sequence,
                    payload,
                },
            );
        }
        arena.next();
        directives.clear();
        arena.take_directives(&mut directives);
        let processed = directives
            .iter()
            .find_map(|(_, directive)| match directive.order {
                Order::Processed(last) => Some(last),
                _ => None,
            });
        assert!(
            processed == Some(sequence) || tick == 0,
            "{tick}: {processed:?} of {sequence}"
        );
    }
}

/// How far a player with so many inputs a tick gets in a second.
fn way_of(inputs: u32) -> f64 {
    let mut arena = Arena::new(16, 20.0, 3).unwrap();
    let mut sequence = 0;
    let _ = arena.next();
    arena.hear(4, PlayerEvent::Joined(8, 0));
    let sample = arena.next();
    let own = sample
        .spawned
        .iter()
        .find(|spawn| spawn.class == WALKER)
        .unwrap()
        .entity;
    let place_in = |sample: &WorldSample| {
        let seen = sample.observed.iter().find(|seen| seen.entity == own);
        seen.map(|seen| [seen.position[0], seen.position[1]])
    };
    let begun = place_in(&sample).unwrap();
    let mut place = begun;
    let inward = if begun[0] < 0.0 { 127 } else { -127 };
    let mut directives = Vec::new();
    for tick in 0..20 {
        for _ in 0..inputs {
            sequence += 1;
            let payload = Input {
                motion: [inward, 0],
                buttons: if tick == 0 { FIRE } else { 0 },
                ..Input::default()
            };
            arena.hear(
                4,
                PlayerEvent::Input {
                    player: 8,
                    sequence,
                    payload: payload.encode().to_vec(),
                },
            );
        }
        let sample = arena.next();
        place = place_in(&sample).unwrap();
        directives.clear();
        arena.take_directives(&mut directives);
        // SPEC PRE2: what is processed was played; of too many the oldest are passed over.
        let processed = directives
            .iter()
            .find_map(|(_, directive)| match directive.order {
                Order::Processed(last) => Some(last),
                _ => None,
            });
        let waits = sequence - processed.unwrap();
        assert!(
            waits <= 5 && (inputs > 1 || waits == 0),
            "{waits} of {inputs} a tick"
        );
    }
    for _ in 0..40 {
        arena.next();
    }
    arena.hear(4, PlayerEvent::Left(8));
    let gone = arena.next().despawned;
    assert!(
        gone.iter()
            .any(|despawn| (despawn.entity, despawn.reason) == (own, event::LEFT))
    );
    brain::distance(begun, place)
}
