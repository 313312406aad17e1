//! Bytes counted by the allocator: what one client can make a relay hold, and what the relay's frames take
//! (SPEC WIN9, OPS5; docs/VERIFICATION.md has the formulas).
//!
//! A session's bytes are those that come free when it closes, so nothing that sessions share is counted. Each case
//! is a function that gives rows; each has a test, and one test prints all of them as one table, for which they stand in one file.

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use std::sync::Arc;

use ackline::client::settings::ClientSettings;
use ackline::limits::{ARENA_FRAMES, IDLE_US, RESTART_SPACING_US, WINDOW_SLOTS};
use ackline::relay::arena::Arena;
use ackline::relay::budget::Budget;
use ackline::relay::shard::Receipt;
use ackline::sequence::Tick;
use ackline::state::entity::Entity;
use ackline::state::player::{Directive, Order};
use ackline::state::update::{Despawn, Event, Spawn, TickUpdate};
use ackline::state::view::{Range, Scope, View};
use ackline::state::world::World;
use ackline::window::WindowLimits;
use ackline::wire::report::Report;
use pair_harness::calls::calls;
use pair_harness::counting::{self, Counting, Row, freed_by, hold};
use pair_harness::liar::Liar;
use pair_harness::lies::{asks_for_full_state, forges, goes_silent, hoards, never_acknowledges};
use pair_harness::stage::{Cost, Guest, Stage};
use pair_harness::{PERIOD_US, moved, schema};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KIB: usize = 1024;
/// Entities of a large world. Every case is tried in it and in a small one, where snapshots that are not reported take
/// more than tables.
const LARGE: u32 = 1000;
const SMALL: u32 = 50;
/// Most bytes of tables of a client that sees and gets everything.
const WHOLE_TABLES_MAX: usize = 2 * KIB;
/// Everything else of a session, queues included.
const REST_MAX: usize = 16 * KIB;

const _: () = assert!(tables_max(LARGE) == 64 * KIB && tables_max(SMALL) == 9_728);

const TABLES: &str = "32 x max(2 S, S / 4 + 288)";
const VIEW_TABLES: &str = "the same + 28 M + 256";
const REST: &str = "16 KiB";

/// S: slots are counted in chunks of 64.
const fn slots(entities: u32) -> usize {
    (entities as usize).next_multiple_of(64)
}

/// Most bytes of tables a client can make the relay hold: 32 places, each a table of 2 bytes a slot, or a snapshot that
/// is not reported yet: two bits a slot, 6 bytes for each of 32 parts, and 96.
const fn tables_max(entities: u32) -> usize {
    let (table, snapshot) = (2 * slots(entities), slots(entities) / 4 + 288);
    WINDOW_SLOTS * if table > snapshot { table } else { snapshot }
}

/// Asserts the rows of a case in both worlds.
fn hold_both(case: fn(u32) -> Vec<Row>) {
    hold(&case(SMALL));
    hold(&case(LARGE));
}

/// The session's own word for its tables, and the bytes that come free when it closes by this datagram.
fn close(
    stage: &mut Stage,
    index: usize,
    (path, mut goodbye): (ackline::relay::outbox::Path, Vec<u8>),
) -> (usize, usize) {
    let (tables, _) = stage.shard.sessions().nth(index).unwrap().heap_bytes();
    let open = stage.shard.open();
    let all = freed_by(|| assert_eq!(stage.hear(path, &mut goodbye), Receipt::Taken));
    assert_eq!(stage.shard.open(), open - 1);
    (tables, all.saturating_sub(tables))
}

fn close_liar(stage: &mut Stage) -> (usize, usize) {
    let mut liar = stage.liar.take().unwrap();
    let goodbye = liar.close();
    let index = stage.shard.open() - 1;
    close(stage, index, (liar.path, goodbye))
}

fn never_asks() -> ClientSettings {
    let limits = WindowLimits {
        ask_at: usize::MAX,
        ..WindowLimits::default()
    };
    ClientSettings {
        limits,
        ..ClientSettings::default()
    }
}

/// Ticks in which everything moves.
fn all_move(entities: u32) -> impl Fn(u64) -> TickUpdate + Copy {
    move |tick| moved(tick, 0..entities, u32::try_from(tick).unwrap())
}

/// The same, with events that fill a session's reliable stream to its 64 messages and 8 KiB.
fn all_move_and_tell(entities: u32) -> impl Fn(u64) -> TickUpdate + Copy {
    move |tick| {
        let mut update = all_move(entities)(tick);
        let event = Event {
            kind: 1,
            critical: true,
            entity: None,
            at_us: update.server_us,
            payload: vec![7; 119],
        };
        update.events = vec![event; 3];
        update
    }
}

/// A client that sees everything and gets everything costs a few numbers a baseline.
fn sees_everything(entities: u32) -> Vec<Row> {
    let mut stage = Stage::new(entities);
    stage
        .guests
        .push(Guest::new(ClientSettings::default(), 4_000, stage.now_us));
    stage.run(200, all_move(entities));
    let session = stage.shard.sessions().next().unwrap();
    assert!(session.whole && stage.shard.counters().advances_confirmed > 5);
    assert_eq!(stage.guests[0].client.refusals().total(), 0);
    let goodbye = stage.dismiss(0);
    let (tables, rest) = close(&mut stage, 0, goodbye);
    vec![
        Row::new(
            "relay, a client that sees and gets everything: tables",
            "2 KiB",
            WHOLE_TABLES_MAX,
            tables,
        ),
        Row::new(
            "relay, a client that sees and gets everything: rest",
            REST,
            REST_MAX,
            rest,
        ),
    ]
}

/// The worst that losses and a client that asks for no advance can bring: each of the 32 places holds a table of
/// its own.
fn loses_parts(entities: u32) -> Vec<Row> {
    let mut stage = Stage::new(entities);
    stage.guests.push(Guest::new(never_asks(), 4_000, stage.now_us));
    stage.guests[0].lose = |number| number % 7 == 3;
    stage.run(60, all_move(entities));
    let session = stage.shard.sessions().next().unwrap();
    // In a small world a snapshot is one part: one that is lost keeps its place until no report of it can come.
    assert_eq!(session.window.in_use(), WINDOW_SLOTS, "every place is taken");
    assert!(entities == SMALL || session.window.held().len() == WINDOW_SLOTS);
    let goodbye = stage.dismiss(0);
    let (tables, rest) = close(&mut stage, 0, goodbye);
    if entities == LARGE {
        assert!(
            tables > tables_max(entities) / 2,
            "the case is the worst: {tables}"
        );
    }
    vec![
        Row::new(
            "relay, a client that loses a part of every snapshot: tables",
            TABLES,
            tables_max(entities),
            tables,
        ),
        Row::new(
            "relay, a client that loses a part of every snapshot: rest",
            REST,
            REST_MAX,
            rest,
        ),
    ]
}

/// The same for a session with a view: each table lists its members, and who is in view is listed beside.
fn loses_parts_of_a_view(entities: u32) -> Vec<Row> {
    let mut stage = Stage::new(entities);
    stage.guests.push(Guest::new(never_asks(), 4_000, stage.now_us));
    stage.run(10, all_move(entities));
    let player = stage.shard.sessions().next().unwrap().connection;
    let range = Range::new(30_000, 40_000).unwrap();
    stage.run(1, |tick| TickUpdate {
        directives: vec![Directive {
            player,
            order: Order::Assign {
                entity: Some(Entity { id: 0, generation: 0 }),
                view: Some(View {
                    scope: Scope::Owner(range),
                    tags: u32::MAX,
                }),
            },
        }],
        ..all_move(entities)(tick)
    });
    stage.guests[0].lose = |number| number % 7 == 3;
    stage.run(60, all_move(entities));
    let session = stage.shard.sessions().next().unwrap();
    let members = session.interest.as_ref().unwrap().members().len();
    assert_eq!(members, entities as usize);
    assert!(entities == SMALL || session.window.held().len() == WINDOW_SLOTS);
    let goodbye = stage.dismiss(0);
    let (tables, rest) = close(&mut stage, 0, goodbye);
    vec![
        Row::new(
            "relay, the same in a view of everybody: tables and members",
            VIEW_TABLES,
            tables_max(entities) + 28 * slots(entities) + 256,
            tables,
        ),
        Row::new(
            "relay, the same in a view of everybody: rest",
            REST,
            REST_MAX,
            rest,
        ),
    ]
}

fn hoarder(entities: u32) -> Vec<Row> {
    let mut stage = Stage::new(entities);
    stage.liar = Some(Liar::join(&mut stage, 5_000, hoards));
    stage.run(45, all_move(entities));
    let full = |stage: &Stage| stage.shard.sessions().next().unwrap().window.held().len() == WINDOW_SLOTS;
    for _ in 0..60 {
        if full(&stage) {
            break;
        }
        stage.run(1, all_move_and_tell(entities));
    }
    assert!(full(&stage), "every place is held");
    let session = stage.shard.sessions().next().unwrap();
    assert!(session.stream.backlog() >= 60 && stage.shard.counters().messages_dropped > 0);
    let (tables, rest) = close_liar(&mut stage);
    if entities == LARGE {
        assert!(
            tables > tables_max(entities) * 3 / 4,
            "the case is the worst: {tables}"
        );
    }
    vec![
        Row::new(
            "relay, all 32 places and all queues full: tables",
            TABLES,
            tables_max(entities),
            tables,
        ),
        Row::new(
            "relay, all 32 places and all queues full: rest",
            REST,
            REST_MAX,
            rest,
        ),
    ]
}

/// Ten seconds of a client on a shard where another one lives honestly. The honest one gets the same bytes at the
/// same times as without it, the frames take the same memory, and what the other is sent stays in its budget.
fn beside(entities: u32, lie: fn(&mut Liar) -> Vec<Report>) -> Stage {
    const TICKS: u32 = 200;
    let run = |lie: Option<fn(&mut Liar) -> Vec<Report>>| {
        let mut stage = Stage::new(entities);
        let mut guest = Guest::new(ClientSettings::default(), 4_000, stage.now_us);
        guest.log = Some(Vec::new());
        stage.guests.push(guest);
        stage.run(20, all_move_and_tell(entities));
        stage.liar = lie.map(|lie| Liar::join(&mut stage, 5_000, lie));
        for _ in 0..TICKS {
            stage.run(1, all_move_and_tell(entities));
            for session in stage.shard.sessions() {
                assert!(session.window.in_use() <= WINDOW_SLOTS);
                assert!(
                    session.heap_bytes().0 <= tables_max(entities),
                    "{:?}",
                    session.heap_bytes()
                );
            }
        }
        stage
    };
    let (mut alone, mut both) = (run(None), run(Some(lie)));
    let (expected, got) = (
        alone.guests[0].log.take().unwrap(),
        both.guests[0].log.take().unwrap(),
    );
    let least = TICKS as usize * if entities == LARGE { 5 } else { 1 };
    assert!(expected.len() > least, "{} datagrams", expected.len());
    for (index, (expected, got)) in expected.iter().zip(&got).enumerate() {
        assert!(
            expected == got,
            "datagram {index}: at {} instead of {}",
            got.0,
            expected.0
        );
    }
    assert_eq!(expected.len(), got.len());
    assert_eq!(both.guests[0].client.refusals().total(), 0);
    assert_eq!(alone.shard.arena().bytes(), both.shard.arena().bytes());
    let budget = Budget::default();
    let seconds = u64::from(TICKS) * PERIOD_US / 1_000_000;
    let most = budget.burst_bytes + budget.bytes_per_s * seconds + 24 * 1200;
    let bytes = both.liar.as_ref().unwrap().bytes as u64;
    assert!(
        bytes <= most && bytes > 20 * u64::from(entities),
        "{bytes} bytes of at most {most}"
    );
    // Only then is what both share free when the other one closes.
    let (path, mut goodbye) = both.dismiss(0);
    assert_eq!(both.hear(path, &mut goodbye), Receipt::Taken);
    both
}

fn two_rows(entities: u32, tables: &'static str, rest: &'static str, stage: &mut Stage) -> Vec<Row> {
    let (tables_bytes, rest_bytes) = close_liar(stage);
    vec![
        Row::new(tables, TABLES, tables_max(entities), tables_bytes),
        Row::new(rest, REST, REST_MAX, rest_bytes),
    ]
}

fn never_acknowledging(entities: u32) -> Vec<Row> {
    let mut stage = beside(entities, never_acknowledges);
    let session = stage.shard.sessions().next().unwrap();
    assert!(session.window.held().is_empty() && session.window.in_use() == WINDOW_SLOTS);
    // In a small world these snapshots, of one part each, take more than 32 tables would.
    let tables = session.heap_bytes().0;
    assert!(
        entities == LARGE || tables > WINDOW_SLOTS * 2 * slots(entities),
        "{tables}"
    );
    two_rows(
        entities,
        "relay, a client that never acknowledges: tables",
        "relay, a client that never acknowledges: rest",
        &mut stage,
    )
}

fn going_silent(entities: u32) -> Vec<Row> {
    let mut stage = beside(entities, goes_silent);
    two_rows(
        entities,
        "relay, acknowledges, then silent: tables",
        "relay, acknowledges, then silent: rest",
        &mut stage,
    )
}

fn asking_for_full_state(entities: u32) -> Vec<Row> {
    let mut stage = beside(entities, asks_for_full_state);
    let headers = &stage.liar.as_ref().unwrap().headers;
    let epochs = headers.last().unwrap().session_epoch;
    let most = 2 + 10_000_000 / RESTART_SPACING_US;
    assert!(
        epochs > 3 && u64::from(epochs) <= most,
        "{epochs} session epochs in 10 s"
    );
    two_rows(
        entities,
        "relay, asks for full state all the time: tables",
        "relay, asks for full state all the time: rest",
        &mut stage,
    )
}

fn forging(entities: u32) -> Vec<Row> {
    let mut stage = beside(entities, forges);
    let counters = stage.shard.counters();
    assert!(
        counters.reports_stale > 100,
        "old generations and epochs: {}",
        counters.reports_stale
    );
    assert!(
        counters.reports_unknown > 100,
        "future and never sent: {}",
        counters.reports_unknown
    );
    assert!(
        counters.reports_contradicting > 20,
        "other parts: {}",
        counters.reports_contradicting
    );
    two_rows(
        entities,
        "relay, forged acknowledgements: tables",
        "relay, forged acknowledgements: rest",
        &mut stage,
    )
}

/// Everything is destroyed at once while a client reports nothing more: each snapshot removes all.
fn removals(entities: u32) -> Vec<Row> {
    let mut stage = Stage::new(entities);
    // It falls silent right after an advance, when it reported one table, so that all other places are candidates.
    fn then_nothing(liar: &mut Liar) -> Vec<Report> {
        liar.stopped |= liar.round > 150 && liar.held.len() <= 2;
        if liar.stopped {
            vec![liar.empty_report()]
        } else {
            vec![liar.honest_report()]
        }
    }
    stage.liar = Some(Liar::join(&mut stage, 5_000, then_nothing));
    for _ in 0..100 {
        if !stage.liar.as_ref().unwrap().stopped {
            stage.run(1, all_move(entities));
        }
    }
    let mut first = true;
    stage.run(40, |tick| {
        let mut update = moved(tick, 0..0, 0);
        if core::mem::take(&mut first) {
            update.despawned = (0..entities)
                .map(|id| Despawn {
                    entity: Entity { id, generation: 0 },
                    at_us: update.server_us,
                    reason: 1,
                })
                .collect();
        }
        update
    });
    let session = stage.shard.sessions().next().unwrap();
    assert_eq!(
        (session.window.held().len(), session.window.candidates().count()),
        (1, WINDOW_SLOTS - 1)
    );
    let removed = session
        .window
        .candidates()
        .last()
        .unwrap()
        .contents
        .held(u32::MAX);
    assert_eq!(removed.filter(|(_, removed)| *removed).count(), entities as usize);
    two_rows(
        entities,
        "relay, all destroyed, never acknowledged: tables",
        "relay, all destroyed, never acknowledged: rest",
        &mut stage,
    )
}

/// The frames of entities that all change in every tick, twice as many as an arena has places.
fn arena(entities: u32) -> Vec<Row> {
    let mut world = World::new(Arc::new(schema()), 1, 520);
    let mut update = all_move(entities)(0);
    update.spawned = (0..entities)
        .map(|id| Spawn {
            entity: Entity { id, generation: 0 },
            class: 0,
            at_us: 0,
        })
        .collect();
    let mut arena = Arena::new(ARENA_FRAMES);
    arena.publish(world.advance(Tick(1), &update).unwrap());
    let mut most = 0;
    for tick in 1..2 * ARENA_FRAMES as u64 {
        let frame = world
            .advance(
                Tick(1).plus(u32::try_from(tick).unwrap()),
                &all_move(entities)(tick),
            )
            .unwrap();
        assert_eq!(frame.dirty().len(), entities as usize);
        arena.publish(frame);
        most = most.max(arena.bytes());
    }
    assert_eq!(arena.frames(), ARENA_FRAMES);
    let said = arena.bytes();
    let counted = freed_by(|| drop(arena));
    assert!(
        counted > said * 9 / 10 && counted < said * 11 / 10,
        "{counted}, and it says {said}"
    );
    let frame = 137 * slots(entities) + 512;
    vec![
        Row::new(
            "relay, frames of entities that all change each tick",
            "512 x (137 S + 512)",
            ARENA_FRAMES * frame,
            counted,
        ),
        Row::new(
            "the same, as the arena counts it",
            "512 x (137 S + 512)",
            ARENA_FRAMES * frame,
            most,
        ),
    ]
}

#[test]
fn win9_a_client_that_sees_everything_costs_little() {
    hold_both(sees_everything);
}

#[test]
fn threats_62_the_worst_client_costs_at_most_its_bound() {
    hold_both(loses_parts);
    hold_both(loses_parts_of_a_view);
    hold_both(hoarder);
}

#[test]
fn faults_39_a_client_that_acknowledges_nothing_costs_at_most_its_bound() {
    hold_both(never_acknowledging);
}

#[test]
fn win9_a_client_that_goes_silent_costs_at_most_its_bound() {
    hold_both(going_silent);
}

/// SPEC WIN9, DEC8: who is silent for the idle time is let go, with all that it pinned.
#[test]
fn win9_a_client_that_goes_silent_is_let_go() {
    let entities = SMALL;
    let mut stage = Stage::new(entities);
    stage
        .guests
        .push(Guest::new(ClientSettings::default(), 4_000, stage.now_us));
    stage.run(20, all_move(entities));
    stage.liar = Some(Liar::join(&mut stage, 5_000, goes_silent));
    stage.run(41 + u32::try_from(IDLE_US / PERIOD_US).unwrap() - 5, |tick| {
        moved(tick, 0..5, 1)
    });
    assert_eq!(stage.shard.open(), 2);
    stage.run(20, |tick| moved(tick, 0..5, 1));
    assert_eq!(stage.shard.open(), 1);
    assert!(stage.liar.unwrap().closed.is_some());
}

#[test]
fn win9_a_client_that_asks_for_full_state_costs_at_most_its_bound() {
    hold_both(asking_for_full_state);
}

#[test]
fn win9_forged_acknowledgements_cost_at_most_the_bound() {
    hold_both(forging);
}

#[test]
fn win9_removals_never_acknowledged_cost_at_most_the_bound() {
    hold_both(removals);
}

#[test]
fn ops5_the_arena_costs_at_most_its_formula() {
    hold_both(arena);
}

/// SPEC OPS5: once grown, a relay asks for no memory to take a client's report, nor to serve it.
#[test]
fn ops5_a_report_allocates_nothing() {
    let Cost { heard, served, .. } = steady_cost();
    assert!(heard.0 > 190 && served.0 > 500, "{heard:?} {served:?}");
    assert_eq!(
        (heard.1, served.1),
        (0, 0),
        "of {heard:?} heard and {served:?} served"
    );
}

/// Ten seconds of a client that follows a world where everything moves, after twenty to warm up.
fn steady_cost() -> Cost {
    let entities = LARGE;
    let mut stage = Stage::new(entities);
    stage
        .guests
        .push(Guest::new(ClientSettings::default(), 4_000, stage.now_us));
    stage.run(400, all_move(entities));
    (stage.probe, stage.cost) = (calls, Cost::default());
    stage.run(200, all_move(entities));
    stage.cost
}

/// Every bound of the relay in one table: `cargo test --test memory -- --nocapture`.
#[test]
fn win9_ops5_every_bound_in_one_table() {
    let cases: [fn(u32) -> Vec<Row>; 10] = [
        sees_everything,
        loses_parts,
        loses_parts_of_a_view,
        hoarder,
        never_acknowledging,
        going_silent,
        asking_for_full_state,
        forging,
        removals,
        arena,
    ];
    for (entities, title) in [
        (LARGE, "Relay, N = 1000 entities, S = 1024 slots, bytes"),
        (SMALL, "Relay, N = 50 entities, S = 64 slots, bytes"),
    ] {
        let rows: Vec<Row> = cases.iter().flat_map(|case| case(entities)).collect();
        counting::print(title, &rows);
    }
    let Cost { heard, served, .. } = steady_cost();
    println!(
        "requests for memory in steady state: {} by {} reports, {} by {} datagrams sent",
        heard.1, heard.0, served.1, served.0
    );
}
