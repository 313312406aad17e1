//! Deltas, reports and baselines over bad links.

use std::cell::Cell;
use std::rc::Rc;

use ackline::relay::budget::Budget;
use ackline::sequence::Tick;

use crate::rig::{Rig, Weather};

const ROUGH: Weather = Weather {
    delay_us: 120_000,
    jitter_us: 60_000,
    loss_percent: 10,
    double_percent: 5,
};

/// A world of `count` at rest, and one client that follows it in this weather.
fn following(first: u32, count: u32, seed: u64, weather: Weather) -> Rig {
    let mut rig = Rig::new(Tick(first), seed);
    rig.tick(|next| {
        for id in 0..count {
            next.spawn(id, 0).moved(id, 0, 100);
        }
    });
    rig.join(weather);
    rig.ticks_to_complete(0, 200);
    rig.quiet(5);
    rig
}

/// FAULTS 03, THREATS 41: steps that add up, over a round trip of 300 ms with reordering: every table is decoded from
/// the base it names.
#[test]
fn faults_03_deltas_apply_to_the_base_they_name() {
    let mut rig = following(1, 40, 3, ROUGH);
    rig.period_us = 20_000;
    for step in 1..400u32 {
        rig.tick(|next| {
            for id in (0..40).filter(|id| (id + step) % 3 == 0) {
                next.moved(id, 0, 100 + step * (1 + id % 3));
                next.colour(id, 0, step * id % 1_000);
            }
        });
    }
    rig.weather(0, Weather::default());
    rig.quiet(15);
    rig.assert_whole(0);
    rig.assert_no_fallback();
    let client = &rig.seats[0].client;
    assert!(
        client.statistics().parts_late > 10,
        "they overtook each other: {:?}",
        client.statistics()
    );
    assert!(client.refusals().total() > 0, "and came twice");
}

/// FAULTS 04: a lever flips once; the first 1, 2 or 5 datagrams with it are lost. It is right as soon as one comes, and
/// no full state is needed for it.
#[test]
fn faults_04_the_last_change_comes_though_its_packets_are_lost() {
    for losses in [1u32, 2, 5] {
        let mut rig = following(1, 100, 4, Weather::default());
        let left = Rc::new(Cell::new(0u32));
        let loses = Rc::clone(&left);
        rig.seats[0].lose = Box::new(move |_| {
            let lost = loses.get() > 0;
            loses.set(loses.get().saturating_sub(1));
            lost
        });
        for lever in 0..100u32 {
            left.set(losses);
            rig.tick(|next| {
                next.colour(lever, 0, 1);
            });
            let mut late = 0;
            while rig.difference(0).is_some() {
                assert!(
                    late <= losses,
                    "lever {lever}: late by {late} ticks after {losses} losses"
                );
                rig.quiet(1);
                late += 1;
            }
        }
        rig.assert_no_fallback();
    }
}

/// FAULTS 06: S is in every third snapshot and then stops; whichever of them is lost, a report of a later one does not
/// count for it.
#[test]
fn faults_06_a_report_says_nothing_of_what_was_lost() {
    for lost in 0..24u32 {
        for more in [0, 1, 3] {
            let mut rig = following(
                1,
                10,
                6,
                Weather {
                    delay_us: 60_000,
                    ..Weather::default()
                },
            );
            let first = rig.tick.plus(1);
            rig.seats[0].lose = Box::new(move |header| {
                (lost..=lost + more).contains(&header.id.since(first).cast_unsigned())
            });
            for step in 0..24u32 {
                rig.tick(|next| {
                    next.moved(0, 0, 200 + step);
                    if step % 3 == 0 && step <= 18 {
                        next.moved(1, 0, 500 + step).colour(1, 0, step + 1);
                    }
                });
            }
            rig.quiet(8);
            rig.assert_whole(0);
            rig.assert_no_fallback();
        }
    }
}

/// FAULTS 22: one entity changes only before and after ticks pass 2^15, 2^16, 2^31 and 2^32, over a bad link, beside
/// others that move, in snapshots of several parts of which some are lost; another client is idle meanwhile.
#[test]
fn faults_22_quiet_entities_and_idle_clients_cross_every_wrap() {
    for edge in [1u32 << 15, 1 << 16, 1 << 31, 0] {
        let mut rig = following(edge.wrapping_sub(120), 300, 22, ROUGH);
        rig.join(ROUGH);
        rig.quiet(20);
        rig.tick(|next| {
            next.moved(7, 0, 333);
        });
        for step in 0..150u32 {
            rig.tick(|next| {
                if step % 50 < 25 {
                    for id in (10..300).filter(|id| (id + step) % 4 > 0) {
                        next.moved(id, 0, 400 + step);
                    }
                }
            });
        }
        assert!(
            Tick(edge).age_at(rig.tick).is_some_and(|age| age > 30),
            "it was crossed"
        );
        rig.tick(|next| {
            next.moved(7, 0, 444).spawn(999, 0).end(8, 0);
        });
        rig.weather(0, Weather::default());
        rig.weather(1, Weather::default());
        rig.quiet(15);
        for seat in 0..2 {
            rig.assert_whole(seat);
        }
        rig.assert_no_fallback();
    }
}

/// FAULTS 05, THREATS 58, 60: the origin restarts while deltas and reports of the old life are under way; nothing after
/// it names a base from before it.
#[test]
fn faults_05_bases_of_the_old_life_are_not_named() {
    for round in 0..6u64 {
        let mut rig = following(u32::MAX - 40, 30, 50 + round, ROUGH);
        for step in 0..60u32 {
            if step % 20 == 10 {
                rig.restart_origin();
                rig.tick(|next| {
                    for id in 0..20 {
                        next.spawn(id, 0).moved(id, 0, 1_000 + step);
                    }
                });
            }
            rig.tick(|next| {
                next.moved(step % 20, 0, 2_000 + step);
            });
        }
        rig.weather(0, Weather::default());
        rig.quiet(20);
        rig.assert_whole(0);
        let mut first_of = [None; 5];
        for header in &rig.seats[0].tap.headers {
            let first = first_of[header.stream_epoch as usize].get_or_insert(header.id);
            assert!(header.base.is_none_or(|base| !first.is_after(base)), "{header:?}");
        }
        assert!(first_of[4].is_some(), "three restarts");
    }
}

/// FAULTS 55: the parts of one entity become known a tick apart, and whichever of those ticks a client misses, it has
/// all of them in the end; so has one that joins in between.
#[test]
fn faults_55_parts_of_an_entity_that_come_apart() {
    for missed in 0..16u32 {
        let mut rig = following(1, 5, 55, Weather::default());
        let first = rig.tick.plus(1);
        rig.seats[0].lose = Box::new(move |header| missed >> header.id.since(first).clamp(0, 31) & 1 == 1);
        rig.tick(|next| {
            next.spawn(50, 0);
        });
        rig.join(Weather::default());
        rig.tick(|next| {
            next.moved(50, 0, 77);
        });
        rig.join(Weather::default());
        rig.tick(|next| {
            next.colour(50, 0, 5);
        });
        rig.tick(|next| {
            next.colour(50, 0, 0);
        });
        rig.join(Weather::default());
        rig.quiet(12);
        for seat in 0..rig.seats.len() {
            rig.assert_whole(seat);
        }
        rig.assert_no_fallback();
    }
}

/// FAULTS 59: steps of one, for twenty thousand ticks over a lossy link: digests each second find nothing to correct.
#[test]
fn faults_59_nothing_drifts() {
    let mut rig = following(
        u32::MAX - 9_000,
        12,
        59,
        Weather {
            delay_us: 30_000,
            jitter_us: 30_000,
            loss_percent: 5,
            ..Weather::default()
        },
    );
    let mut at = [10_000u32; 12];
    for step in 0..20_000u32 {
        let id = rig.dice.below(12);
        let up = rig.dice.below(2) == 0;
        let x = &mut at[id as usize];
        *x = if up { *x + 1 } else { *x - 1 };
        let x = *x;
        rig.tick(|next| {
            next.moved(u32::try_from(id).unwrap(), 0, x)
                .colour(step % 12, 0, x % 997);
        });
    }
    rig.weather(0, Weather::default());
    rig.quiet(20);
    rig.assert_whole(0);
    let statistics = rig.seats[0].client.statistics();
    assert!(statistics.digest_checked > 800, "{statistics:?}");
    assert_eq!(
        (
            statistics.digest_mismatches,
            statistics.reinstated,
            statistics.reconciled
        ),
        (0, 0, 0)
    );
    rig.assert_no_fallback();
}

/// THREATS 65: more changes than the budget carries: each snapshot is cut, what was sent and held is the base, and when
/// the rush is over everybody is right without full state.
#[test]
fn threats_65_what_was_cut_is_not_taken_for_known() {
    let budget = Budget {
        bytes_per_s: 40_000,
        burst_bytes: 30_000,
    };
    let mut rig = Rig::with(Tick(1), 65, budget);
    rig.tick(|next| {
        for id in 0..600 {
            next.spawn(id, 0).moved(id, 0, 100);
        }
    });
    rig.join(Weather {
        loss_percent: 5,
        ..Weather::default()
    });
    rig.ticks_to_complete(0, 200);
    for step in 0..200u32 {
        let jump = rig.dice.below(15_000);
        rig.tick(|next| {
            for id in 0..600 {
                next.moved(id, 0, u32::try_from(jump).unwrap() + id * step % 5_000);
            }
        });
    }
    assert!(rig.shard.counters().records_omitted > 10_000);
    let (bytes, seconds) = (
        rig.seats[0].tap.bytes,
        (rig.now_us - rig.seats[0].joined_us) / 1_000_000,
    );
    assert!(bytes < budget.bytes_per_s * (seconds + 1) + budget.burst_bytes);
    rig.weather(0, Weather::default());
    rig.quiet(40);
    rig.assert_whole(0);
    rig.assert_no_fallback();
}
