//! Bytes and requests counted by the allocator: what a client holds, and what a datagram costs it (SPEC OPS5;
//! docs/VERIFICATION.md has the formula).
//!
//! A client's bytes are those that come free when it is dropped. The formula is written out here once more, on the
//! numbers that the client itself reports.

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use ackline::client::playback::clock::ClockMode;
use ackline::client::playback::settings::{PlaybackSettings, PositionBlend};
use ackline::client::playback::stage::Playback;
use ackline::client::settings::ClientSettings;
use ackline::client::statistics::Footprint;
use ackline::limits::{WINDOW_ASK_AT, WINDOW_SLOTS};
use ackline::state::entity::Entity;
use ackline::state::update::{Despawn, Event, ExtraUpdate, Spawn, TickUpdate};
use ackline::window::WindowLimits;
use pair_harness::calls::calls;
use pair_harness::counting::{self, Counting, Row, freed_by, hold};
use pair_harness::moved;
use pair_harness::stage::{Cost, Guest, Stage};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Entities of every case.
const ENTITIES: u32 = 1000;
/// Entities that are drawn.
const DRAWN: u32 = 500;
/// N as a size.
const N: usize = ENTITIES as usize;

/// Everything else of a client: keys, schema, window, the queues of messages and events.
const REST: usize = 128 * 1024;
const FORMULA: &str = "8.5 S T + 78 R + 70 H + 320 S + 80 G + 128 KiB";

/// The formula of docs/VERIFICATION.md. Lists grow by doubling, so each counts twice.
fn bound(footprint: Footprint) -> usize {
    let Footprint {
        slots,
        graves,
        tables,
        poses,
        heads,
    } = footprint;
    17 * slots * tables / 2 + 78 * poses + 70 * heads + 320 * slots + 80 * graves + REST
}

/// The same before anything is known of a stream but N: T, R and H at their most. Between two advances a client
/// holds `held` tables and makes one more; the display and the entries of one datagram hold records too.
fn bound_at(held: usize) -> usize {
    let records = N * (held + 2);
    bound(Footprint {
        slots: N,
        graves: N,
        tables: held + 1,
        poses: records,
        heads: records,
    })
}

/// Everything moves, and each thing's extra field changes too.
fn all_change(tick: u64) -> TickUpdate {
    let n = u32::try_from(tick).unwrap();
    let mut update = moved(tick, 0..ENTITIES, n);
    update.extras = (0..ENTITIES)
        .map(|id| ExtraUpdate {
            entity: Entity { id, generation: 0 },
            mask: 1,
            values: [(id + n) % 500; 8],
        })
        .collect();
    update
}

fn all_move(tick: u64) -> TickUpdate {
    moved(tick, 0..ENTITIES, u32::try_from(tick).unwrap())
}

/// A stage with one client, after some ticks.
fn stage(settings: ClientSettings) -> Stage {
    let mut stage = Stage::new(ENTITIES);
    stage.guests.push(Guest::new(settings, 4_000, stage.now_us));
    stage
}

/// Drops the client: its numbers, and the bytes that come free.
fn count(stage: &mut Stage) -> (Footprint, usize) {
    let guest = stage.guests.remove(0);
    assert_eq!(
        guest.client.refusals().total(),
        0,
        "{:?}",
        guest.client.refusals()
    );
    let footprint = guest.client.footprint();
    let size = size_of_val(&guest.client);
    (footprint, size + freed_by(|| drop(guest.client)))
}

fn rows(what: &'static str, most: &'static str, held: usize, stage: &mut Stage) -> Vec<Row> {
    let (footprint, counted) = count(stage);
    println!("{what}: {footprint:?}");
    vec![
        Row::new(what, FORMULA, bound(footprint), counted),
        Row::new(most, "the same at N = 1000, at most", bound_at(held), counted),
    ]
}

/// Everything moves, nothing is lost: the window advances all the time.
fn steady() -> Vec<Row> {
    let mut stage = stage(ClientSettings::default());
    stage.run(200, all_move);
    assert!(stage.guests[0].client.statistics().advances_applied > 5);
    rows(
        "client, everything moves",
        "client, everything moves",
        WINDOW_ASK_AT + 4,
        &mut stage,
    )
}

/// Each slot's pose and head differ in each of 32 tables, and the game fetches no event.
fn worst() -> Vec<Row> {
    let limits = WindowLimits {
        ask_at: usize::MAX,
        ..WindowLimits::default()
    };
    let mut stage = stage(ClientSettings {
        limits,
        ..ClientSettings::default()
    });
    stage.run(70, |tick| {
        let mut update = all_change(tick);
        let event = Event {
            kind: 1,
            critical: true,
            entity: None,
            at_us: update.server_us,
            payload: vec![7; 250],
        };
        update.events = vec![event; 8];
        update
    });
    let client = &stage.guests[0].client;
    assert_eq!(client.tables().count(), WINDOW_SLOTS);
    let footprint = client.footprint();
    assert!(
        footprint.poses >= N * WINDOW_SLOTS && footprint.heads >= N * WINDOW_SLOTS,
        "{footprint:?}"
    );
    rows(
        "client, each slot differs in each of 32 tables",
        "client, each slot differs in each of 32 tables",
        WINDOW_SLOTS,
        &mut stage,
    )
}

/// Everybody dies and others come under the same ids, twice a second: slots are left to their tombstones.
fn churn() -> Vec<Row> {
    let mut stage = stage(ClientSettings::default());
    let mut generation = 0;
    stage.run(200, |tick| {
        if tick % 20 != 0 {
            return moved(tick, 0..0, 0);
        }
        let mut update = moved(tick, 0..0, 0);
        let at_us = update.server_us;
        for id in 0..100 {
            let entity = Entity { id, generation };
            update.despawned.push(Despawn {
                entity,
                at_us,
                reason: 1,
            });
            let entity = Entity {
                id,
                generation: generation + 1,
            };
            update.spawned.push(Spawn {
                entity,
                class: 0,
                at_us,
            });
        }
        generation += 1;
        update
    });
    let footprint = stage.guests[0].client.footprint();
    assert!(footprint.slots > N && footprint.graves > 500, "{footprint:?}");
    let (footprint, counted) = count(&mut stage);
    vec![Row::new(
        "client, a tenth of all is replaced each second",
        FORMULA,
        bound(footprint),
        counted,
    )]
}

#[test]
fn ops5_a_client_in_steady_state_holds_at_most_its_formula() {
    hold(&steady());
}

#[test]
fn ops5_the_worst_tables_hold_at_most_the_formula() {
    hold(&worst());
}

#[test]
fn ops5_tombstones_cost_at_most_the_formula() {
    hold(&churn());
}

/// Ten seconds of a client that follows a world where everything changes, after twenty to warm up.
fn steady_cost() -> Cost {
    let mut stage = stage(ClientSettings::default());
    stage.run(400, all_change);
    (stage.probe, stage.cost) = (calls, Cost::default());
    stage.run(200, all_change);
    stage.cost
}

/// SPEC OPS5: once grown, a client asks for no memory, neither to take a datagram nor to report.
#[test]
fn ops5_a_datagram_allocates_nothing_at_a_client() {
    let Cost { taken, spoken, .. } = steady_cost();
    assert!(taken.0 > 500 && spoken.0 > 190, "{taken:?} {spoken:?}");
    assert_eq!(
        (taken.1, spoken.1),
        (0, 0),
        "of {taken:?} taken and {spoken:?} spoken"
    );
}

/// Ten seconds of a client that draws 500 entities a hundred times a second, after twenty to warm up; a datagram in ten is lost,
/// one in seven entities begins a segment each second, and each tick has an event.
fn drawn_cost(blend: PositionBlend) -> Cost {
    let update = |tick: u64| {
        let mut update = moved(tick, 0..DRAWN, u32::try_from(tick).unwrap());
        for observed in &mut update.observed {
            // One in seven has a new segment each second.
            if observed.entity.id % 7 == 0 {
                observed.segment = u32::try_from(tick / 20).unwrap();
                observed.segment_us = tick / 20 * 20 * pair_harness::PERIOD_US;
            }
        }
        update.events = vec![Event {
            kind: 1,
            critical: false,
            entity: None,
            at_us: update.server_us,
            payload: Vec::new(),
        }];
        update
    };
    let mut stage = Stage::new(DRAWN);
    let mut guest = Guest::new(ClientSettings::default(), 4_000, stage.now_us);
    guest.lose = |number| number % 10 == 9;
    guest.playback = Some(Playback::new(PlaybackSettings {
        blend,
        ..PlaybackSettings::default()
    }));
    stage.guests.push(guest);
    stage.run(400, update);
    (stage.probe, stage.cost) = (calls, Cost::default());
    stage.run(200, update);
    let playback = stage.guests[0].playback.as_ref().unwrap();
    assert_eq!(playback.mode(), ClockMode::Playing);
    assert!(playback.statistics().snapshots_newer > 500);
    stage.cost
}

/// SPEC ENT1, OPS5: once grown, neither a datagram nor a drawn entity asks for memory: through the client that decodes it, the
/// playback that keeps its histories, and the frame that samples them all.
#[test]
fn ops5_ent1_a_datagram_and_a_frame_of_500_entities_allocate_nothing() {
    for blend in [PositionBlend::Linear, PositionBlend::Hermite] {
        let Cost {
            taken, spoken, drawn, ..
        } = drawn_cost(blend);
        assert!(taken.0 > 500 && drawn.0 > 450_000, "{taken:?} {drawn:?}");
        assert_eq!(
            (taken.1, spoken.1, drawn.1),
            (0, 0, 0),
            "{blend:?}: of {taken:?} taken, {spoken:?} spoken and {drawn:?} drawn"
        );
    }
}

/// Every bound of the client in one table: `cargo test --test client_memory -- --nocapture`.
#[test]
fn ops5_every_bound_in_one_table() {
    let mut rows: Vec<Row> = [steady, worst, churn].iter().flat_map(|case| case()).collect();
    let cost = steady_cost();
    let calls = usize::try_from(cost.taken.1 + cost.spoken.1).unwrap();
    rows.push(Row::new(
        "client, requests for memory in 10 s of steady state",
        "0",
        0,
        calls,
    ));
    counting::print("Client, N = 1000 entities, bytes", &rows);
}
