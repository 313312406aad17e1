//! A relay shard and a client on one virtual clock: the smallest whole system.

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use ackline::client::session::SessionState;
use ackline::relay::shard::Receipt;
use ackline::sequence::Tick;
use pair_harness::{Pair, moved};

/// SPEC TAB2, TAB7, DEC12, WIN3: a client joins, completes its view, follows every tick exactly, and its window
/// advances without a withheld tick.
#[test]
fn a_client_joins_and_follows_exactly() {
    let mut pair = Pair::new(200, Tick(1));
    pair.run(600, |tick, n| {
        moved(tick, (0..200u32).filter(|id| (id * 7 + n) % 5 == 0), n)
    });
    let (client, shard) = (&pair.client, &pair.shard);
    assert!(
        matches!(client.state(), SessionState::Connected),
        "{:?}",
        client.state()
    );
    pair.assert_equal();
    let counters = shard.counters();
    println!("{:?}", client.statistics());
    assert!(counters.advances_confirmed > 10, "{counters:?}");
    assert_eq!(counters.withheld[0], 0, "no tick withheld for want of a slot");
    assert_eq!(
        counters.fallbacks.iter().sum::<u64>(),
        0,
        "{:?}",
        counters.fallbacks
    );
    assert_eq!(client.refusals().total(), 0, "{:?}", client.refusals());
    assert!(counters.body_builds < counters.snapshots_sent * 2);
}

/// SPEC DEC6, ID8: ids on the wire pass 2^32 in the middle of a session.
#[test]
fn dec6_ticks_wrap_in_the_middle_of_a_session() {
    let mut pair = Pair::new(50, Tick(u32::MAX - 100));
    pair.run(400, |tick, n| {
        moved(tick, (0..50u32).filter(|id| (id + n) % 3 == 0), n)
    });
    pair.assert_equal();
    assert_eq!(pair.client.refusals().total(), 0, "{:?}", pair.client.refusals());
    assert_eq!(pair.shard.counters().fallbacks.iter().sum::<u64>(), 0);
    assert!(pair.shard.counters().advances_confirmed > 5);
}

/// SPEC WIN10, PLY7, FAULTS 05: a new stream epoch clears the display and voids every baseline.
#[test]
fn faults_05_a_new_stream_voids_every_baseline() {
    let mut pair = Pair::new(50, Tick(1));
    pair.run(100, |tick, n| moved(tick, 0..50, n));
    pair.restart_origin(20);
    pair.run(100, |tick, n| moved(tick, 0..20, n));
    pair.assert_equal();
    assert_eq!(
        (pair.client.stream_epoch(), pair.client.display().live()),
        (2, 20)
    );
}

/// SPEC TAB7: a world of many datagrams is complete after a few snapshots, in any order of slots.
#[test]
fn tab7_a_large_world_completes() {
    let mut pair = Pair::new(3000, Tick(1));
    pair.run(60, |tick, n| moved(tick, 0..20, n));
    pair.assert_equal();
    assert_eq!(pair.client.display().live(), 3000);
}

/// SPEC CTL1, ID2: what is destroyed goes, what is spawned comes, a reused id is another entity.
#[test]
fn ctl1_spawn_and_destroy_travel_as_entries() {
    use ackline::state::entity::Entity;
    use ackline::state::update::{Despawn, Spawn};
    let mut pair = Pair::new(30, Tick(1));
    pair.run(300, |tick, n| {
        let mut update = moved(tick, 0..0, n);
        let at_us = update.server_us;
        let id = n % 30;
        let generation = n / 30;
        update.despawned.push(Despawn {
            entity: Entity { id, generation },
            at_us,
            reason: 1,
        });
        update.spawned.push(Spawn {
            entity: Entity {
                id,
                generation: generation + 1,
            },
            class: 0,
            at_us,
        });
        update
    });
    pair.assert_equal();
    assert_eq!(pair.client.display().live(), 30);
    assert_eq!(pair.client.refusals().total(), 0, "{:?}", pair.client.refusals());
}

/// THREATS 22..35: a million random and mutated datagrams at a relay and at a client: no panic, nothing
/// acknowledged, nothing changed, a count by reason.
#[test]
fn threats_35_a_million_hostile_datagrams_change_nothing() {
    let mut pair = Pair::new(100, Tick(1));
    pair.run(50, |tick, n| moved(tick, 0..100, n));
    let samples = pair.captured();
    assert!(samples.down.len() > 20 && samples.up.len() > 20);
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let frames_before = pair.shard.arena().frames();
    let (reports_before, statistics_before) =
        (pair.shard.counters().reports, pair.client.statistics().clone());
    let mut outbox = pair_harness::Discard::default();
    let stranger = pair_harness::path(9_999);
    let (mut accepted, mut elsewhere) = (0u64, 0u64);
    for round in 0..500_000u64 {
        let make = |samples: &[Vec<u8>], random: &mut dyn FnMut() -> u64| {
            let mut bytes = if round % 3 == 0 {
                (0..random() % 1300).map(|_| random().to_le_bytes()[0]).collect()
            } else {
                samples[random() as usize % samples.len()].clone()
            };
            if round % 3 == 0 && round % 2 == 0 && !bytes.is_empty() {
                bytes[0] = [1, 2, 3, 4, 5, 0x10, 0x20][random() as usize % 7];
            }
            for _ in 0..=random() % 3 {
                match (random() % 4, bytes.len()) {
                    (_, 0) => {}
                    (0, length) => bytes.truncate(random() as usize % length),
                    (1, _) => bytes.push(random().to_le_bytes()[0]),
                    (_, length) => bytes[random() as usize % length] ^= 1 << (random() % 8),
                }
            }
            bytes
        };
        let mut up = make(&samples.up, &mut random);
        let from = if round % 2 == 0 { stranger } else { pair.path };
        match pair.shard.receive(pair.now_us, from, &mut up, &mut outbox) {
            Receipt::Taken => accepted += 1,
            Receipt::Elsewhere(_) => elsewhere += 1,
            Receipt::Refused(_) => {}
        }
        let mut down = make(&samples.down, &mut random);
        pair.client.receive(pair.now_us, &mut down);
    }
    // Requests with a changed nonce are still requests: they are answered, with less than they brought.
    assert!(
        outbox.bytes_out <= outbox.datagrams * 64,
        "answers are challenges"
    );
    assert!(
        accepted >= outbox.datagrams,
        "only handshakes are taken: {accepted} {}",
        outbox.datagrams
    );
    assert_eq!(
        pair.shard.counters().reports,
        reports_before,
        "nothing was acknowledged"
    );
    assert_eq!(pair.shard.open(), 1);
    assert_eq!(pair.shard.arena().frames(), frames_before);
    assert_eq!(
        pair.client.statistics().snapshots_received,
        statistics_before.snapshots_received,
        "nothing was shown"
    );
    assert!(
        pair.shard
            .counters()
            .datagrams_refused
            .iter()
            .filter(|count| **count > 0)
            .count()
            >= 5
    );
    assert!(pair.client.refusals().total() >= 400_000);
    let sum: u64 = pair.shard.counters().datagrams_refused.iter().sum();
    assert_eq!(sum + accepted + elsewhere, 500_000, "each has a reason");
    // And the session goes on as if nothing had been.
    pair.run(50, |tick, n| moved(tick, 0..100, n));
    pair.assert_equal();
}
