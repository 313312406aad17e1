//! Joining: worlds of many datagrams, loss, traffic meanwhile.

use ackline::client::inbox::ClientEvent;
use ackline::client::refusal::Refusal;
use ackline::sequence::Tick;
use ackline::state::entity::Entity;

use crate::rig::{Rig, Weather};

fn world(count: u32, seed: u64) -> Rig {
    let mut rig = Rig::new(Tick(1), seed);
    rig.tick(|next| {
        for id in 0..count {
            next.spawn(id, 0).moved(id, 0, id * 7);
        }
    });
    rig
}

/// FAULTS 09, THREATS 64: worlds of one to hundreds of datagrams and loss up to a tenth: every join is complete in a
/// time that grows with the world and not beyond, and none begins anew.
#[test]
fn faults_09_joining_makes_progress_with_every_datagram() {
    for (count, most_ticks) in [(100, 10), (2_000, 20), (20_000, 100)] {
        for loss_percent in [0, 2, 5, 10] {
            let mut rig = world(count, u64::from(count) + loss_percent);
            let seat = rig.join(Weather {
                delay_us: 20_000,
                loss_percent,
                ..Weather::default()
            });
            let ticks = rig.ticks_to_complete(seat, most_ticks + 10 * u32::try_from(loss_percent).unwrap());
            rig.quiet(10);
            rig.assert_whole(seat);
            assert_eq!(
                rig.seats[seat].client.session_epoch(),
                1,
                "{count} at {loss_percent}%: {ticks}"
            );
        }
    }
}

/// THREATS 64, D8: forty clients join a world of 1000 at 30% loss and 200 ms: all are complete three seconds after their
/// session began, most in half of that, and none begins anew.
#[test]
fn threats_64_full_state_at_thirty_percent_loss() {
    let mut rig = world(1_000, 64);
    for _ in 0..40 {
        rig.join(Weather {
            delay_us: 100_000,
            loss_percent: 30,
            ..Weather::default()
        });
    }
    for step in 0..160u32 {
        rig.tick(|next| {
            next.moved(step, 0, step);
        });
    }
    let mut took: Vec<u64> = rig
        .seats
        .iter()
        .map(|seat| {
            let statistics = seat.client.statistics();
            statistics.view_complete_us.expect("complete") - statistics.connected_us.expect("connected")
        })
        .collect();
    took.sort_unstable();
    assert!(took[39] < 3_000_000 && took[20] < 2_000_000, "{took:?}");
    assert!(rig.seats.iter().all(|seat| seat.client.session_epoch() == 1));
}

/// FAULTS 19, THREATS 66, 67: clients join in the middle of lives that begin and end each tick, over a link that
/// reorders; one applies nothing for three seconds. Nothing comes before its spawn, no flood of errors, and each is whole
/// in the end.
#[test]
fn faults_19_nothing_comes_before_its_spawn() {
    for seed in 0..4 {
        let mut rig = world(100, seed);
        for _ in 0..3 {
            rig.join(Weather {
                delay_us: 50_000,
                jitter_us: 300_000,
                loss_percent: 10,
                double_percent: 10,
            });
        }
        rig.seats[2].mute = true;
        for step in 0..160u32 {
            rig.tick(|next| {
                for n in 0..5 {
                    let id = 1_000 + step * 5 + n;
                    next.spawn(id, 0).moved(id, 0, id);
                    next.event(1, Some(Entity { id, generation: 0 }));
                    if step >= 20 {
                        next.end(id - 100, 0);
                    }
                }
            });
            if step == 60 {
                rig.seats[2].mute = false;
            }
        }
        for seat in 0..3 {
            rig.weather(seat, Weather::default());
        }
        rig.quiet(40);
        for seat in 0..3 {
            assert_eq!(rig.difference(seat), None, "seed {seed} seat {seat}");
            let client = &mut rig.seats[seat].client;
            let body = client
                .refusals()
                .iter()
                .filter(|(refusal, _)| matches!(refusal, Refusal::Body(_)));
            assert_eq!(
                body.map(|(_, count)| count).sum::<u64>(),
                0,
                "nothing was undecodable"
            );
            while let Some(event) = client.poll_event() {
                if let ClientEvent::World(event) = event {
                    assert!(event.entity.is_some_and(|entity| entity.id >= 1_000));
                }
            }
        }
    }
}
