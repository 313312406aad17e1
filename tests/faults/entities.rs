//! Lives that end and begin under one id, teleports, and what is shown of them.

use std::collections::BTreeMap;

use ackline::client::display::ShownKind;
use ackline::client::inbox::ClientEvent;
use ackline::sequence::Tick;
use ackline::state::entity::Entity;

use crate::rig::{Rig, Weather};

fn jitter(jitter_us: u64) -> Weather {
    Weather {
        delay_us: 20_000,
        jitter_us,
        loss_percent: 5,
        double_percent: 5,
    }
}

/// FAULTS 21, THREATS 68: id 9 is killed and born again every tick, each life of its own colour, with datagrams up to
/// 300 ms and up to 5 s late: no colour and no event of one life is ever seen on another, and no life comes back.
#[test]
fn faults_21_lives_of_one_id_never_mix() {
    for (seed, late_us) in [(1, 300_000), (2, 300_000), (3, 5_000_000)] {
        let mut rig = Rig::new(Tick(u32::MAX - 100), seed);
        rig.tick(|next| {
            next.spawn(9, 0).colour(9, 0, 1);
            next.spawn(1, 0);
        });
        rig.join(Weather::default());
        rig.quiet(10);
        rig.weather(0, jitter(late_us));
        let mut newest = 0;
        for life in 1..300u32 {
            rig.tick(|next| {
                next.end(9, life - 1)
                    .spawn(9, life)
                    .moved(9, life, life * 10)
                    .colour(9, life, life + 1);
                let kind = u16::try_from(life).unwrap();
                next.event(
                    kind,
                    Some(Entity {
                        id: 9,
                        generation: life,
                    }),
                );
            });
            let shown: Vec<_> = rig.seats[0]
                .client
                .display()
                .records()
                .filter(|(_, record, _)| record.entity.id == 9)
                .map(|(_, record, _)| {
                    (
                        record.entity.generation,
                        record.extras[0],
                        record.motion.map(|m| m.position[0]),
                    )
                })
                .collect();
            for (generation, colour, x) in &shown {
                assert_eq!(*colour, generation + 1);
                assert!(x.is_none_or(|x| x == generation * 10));
            }
            let highest = shown
                .iter()
                .map(|(generation, ..)| *generation)
                .max()
                .unwrap_or(newest);
            newest = newest.max(highest);
            while let Some(event) = rig.seats[0].client.poll_event() {
                if let ClientEvent::World(event) = event {
                    assert_eq!(u32::from(event.kind), event.entity.unwrap().generation);
                }
            }
        }
        rig.weather(0, Weather::default());
        rig.quiet(120);
        rig.assert_whole(0);
        // No life that was shown to end came back.
        let mut ended = BTreeMap::new();
        for seen in &rig.seats[0].seen {
            match seen.shown.kind {
                ShownKind::Removed(_) => {
                    ended.insert(seen.shown.entity, seen.now_us);
                }
                ShownKind::Entered => {
                    assert!(!ended.contains_key(&seen.shown.entity), "seed {seed}: {seen:?}");
                }
                _ => {}
            }
        }
        assert!(
            ended.len() > 10,
            "{late_us}: {} lives were seen to end",
            ended.len()
        );
    }
}

/// FAULTS 56: a thousand lives, each ended and followed in one tick: at the client each begins once and ends once, in
/// order; a life shorter than a tick is never shown half.
#[test]
fn faults_56_end_and_begin_are_both_told() {
    let mut rig = Rig::new(Tick(1), 56);
    rig.tick(|next| {
        next.spawn(9, 0);
    });
    rig.join(Weather::default());
    rig.quiet(10);
    rig.seats[0].seen.clear();
    for life in 1..=1_000u32 {
        rig.tick(|next| {
            next.end(9, life - 1).spawn(9, life).moved(9, life, life);
        });
    }
    rig.quiet(5);
    rig.assert_whole(0);
    let told: Vec<(u32, bool)> = rig.seats[0]
        .seen
        .iter()
        .filter_map(|seen| match seen.shown.kind {
            ShownKind::Entered => Some((seen.shown.entity.generation, true)),
            ShownKind::Removed(_) => Some((seen.shown.entity.generation, false)),
            _ => None,
        })
        .collect();
    let mut begun: Vec<u32> = told
        .iter()
        .filter(|(_, begins)| *begins)
        .map(|(life, _)| *life)
        .collect();
    let mut ended: Vec<u32> = told
        .iter()
        .filter(|(_, begins)| !*begins)
        .map(|(life, _)| *life)
        .collect();
    assert!(begun.is_sorted() && ended.is_sorted());
    begun.dedup();
    ended.dedup();
    assert_eq!(begun, (1..=1_000).collect::<Vec<_>>());
    assert_eq!(ended, (0..1_000).collect::<Vec<_>>());
}

/// FAULTS 30 (on the wire; how it is drawn comes with interpolation): a teleport at rest, in motion and twice in two
/// ticks, with exactly the first packets of it lost: place and segment are one value, and the last one stays.
#[test]
fn faults_30_a_teleport_is_state_until_it_is_held() {
    for losses in 0..8u32 {
        for moving in [false, true] {
            let mut rig = Rig::new(Tick(1), 30);
            rig.tick(|next| {
                next.spawn(3, 0).moved(3, 0, 100);
            });
            rig.join(Weather::default());
            rig.quiet(10);
            if moving {
                for step in 0..10 {
                    rig.tick(|next| {
                        next.moved(3, 0, 101 + step);
                    });
                }
            }
            let first = rig.tick.plus(1);
            rig.seats[0].lose =
                Box::new(move |header| losses >> header.id.since(first).clamp(0, 31) & 1 == 1);
            for (segment, x) in [(1, 9_000), (2, 15_000)] {
                rig.tick(|next| {
                    let us = next.update.server_us;
                    next.moved_in(3, 0, segment, us, x);
                });
                let display = rig.seats[0].client.display();
                let (_, record, _) = display.records().next().unwrap();
                let at = (record.segment, record.motion.unwrap().position[0]);
                let old = if moving { (0, 110) } else { (0, 100) };
                assert!([old, (1, 9_000), (2, 15_000)].contains(&at), "{at:?}");
            }
            rig.quiet(6);
            rig.assert_whole(0);
            rig.assert_no_fallback();
        }
    }
}
