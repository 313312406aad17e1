//! The baseline window protocol under a model checker (SPEC WIN1..WIN11, TAB8): every order in which datagrams
//! may be lost, repeated and overtaken, with epochs, refusals, leases and new sessions at any moment.
//!
//! The steps call the windows that ship, [`SendWindow`](ackline::window::send::SendWindow) and
//! [`ReceiveWindow`](ackline::window::receive::ReceiveWindow); there is no second copy of the rules. Only the
//! sizes are smaller (2 or 3 slots, 1 or 2 parts) and a table is the list of what it was made from.
//!
//! * *Safety* is explored with stateright where everything sent stays deliverable for ever, and by our own
//!   search where names are unbounded and the network holds a few datagrams.
//! * *Liveness* is reachability over that whole graph: from every state a good one stays reachable by steps the
//!   product itself takes.
//! * *Faults*: over forty misreadings and simpler designs are seeded, and each is found by its shortest trace.
//!
//! `docs/VERIFICATION.md` has the results. Larger sizes (some minutes, some gigabytes):
//! `ACKLINE_MODEL=large cargo test --release --test window_model -- --nocapture --test-threads 1`.

#![cfg(any(feature = "client", feature = "relay"))]

#[path = "window_model/fault.rs"]
mod fault;
#[path = "window_model/findings.rs"]
mod findings;
#[path = "window_model/key.rs"]
mod key;
#[path = "window_model/model.rs"]
mod model;
#[path = "window_model/search.rs"]
mod search;
#[path = "window_model/seed.rs"]
mod seed;
#[path = "window_model/state.rs"]
mod state;
#[path = "window_model/step.rs"]
mod step;

use std::time::Instant;

use stateright::{Checker, Model};

use ackline::wire::bytes::ByteReader;
use ackline::wire::report::{HeldList, Report};
use ackline::wire::snapshot::SnapshotHeader;

use model::{Advance, Network, Size, WindowModel};
use search::{Graph, compare_twins, mark};
use state::{Part, Said};

/// States at which a run of the usual sizes has gone wrong.
const MOST: usize = 4_000_000;
/// States at which a large run has gone wrong.
const MOST_LARGE: usize = 40_000_000;

const fn persist(ids: u32, generations: u32, epochs: u32) -> Network {
    Network::Persist {
        ids,
        generations,
        epochs,
    }
}

const fn lossy(down: usize, up: usize) -> Network {
    Network::Lossy { down, up }
}

/// Everything that can come between: a damaged table, a lease over, a full state asked for, a new session.
const DISTURBED: Size = Size {
    epochs: true,
    expiry: true,
    damage: true,
    request: true,
    reconnect: true,
    ..Size::SMALL
};

/// The document that lists the runs, by the names that they print.
const DOCUMENT: &str = include_str!("../docs/VERIFICATION.md");

#[track_caller]
fn assert_listed(name: &str) {
    assert!(
        DOCUMENT.contains(name),
        "docs/VERIFICATION.md does not list the run {name:?}"
    );
}

fn is_large() -> bool {
    std::env::var("ACKLINE_MODEL").is_ok_and(|size| size == "large")
}

/// Every state of a size is safe, and the states that make this worth saying are among them.
fn safe(name: &str, size: Size) -> usize {
    assert_listed(name);
    let begun = Instant::now();
    let model = WindowModel::honest(size);
    let checker = model.checker().threads(1).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!(
        "{name}: {states} states, {} steps, {:.1} s",
        checker.state_count(),
        begun.elapsed().as_secs_f64()
    );
    checker.assert_properties();
    states
}

/// Every state of a size is safe, and from every one a way on stays open.
fn live(name: &str, size: Size) -> usize {
    assert_listed(name);
    let begun = Instant::now();
    let model = WindowModel::honest(size);
    let graph = Graph::explore(&model, if is_large() { MOST_LARGE } else { MOST });
    if let Some((state, broken)) = graph.broken {
        panic!("{name}: {broken:?} after\n{}", graph.story(&model, state));
    }
    let (full, lost) = (graph.marked(mark::FULL), graph.marked(mark::LOST));
    println!(
        "{name}: {} states ({full} full, {lost} with a baseline lost), {} steps, {:.1} s",
        graph.states(),
        graph.steps,
        begun.elapsed().as_secs_f64()
    );
    for (from, goal, what) in [
        (mark::FULL, mark::FREES, "a full window is freed"),
        (mark::LOST, mark::WHOLE, "a lost baseline has a way out"),
        (0, mark::HEALTHY, "both ends meet again"),
    ] {
        let stuck = graph.stuck(from, goal);
        if let Some(first) = stuck.first() {
            let story = graph.story(&model, *first);
            panic!(
                "{name}: {what}: not from {} states, such as\n{story}",
                stuck.len()
            );
        }
    }
    assert!(full > 0 && (lost > 0 || !size.damage));
    graph.states()
}

/// WIN1, WIN3, WIN4, WIN6, WIN7: advances, everything sent deliverable for ever.
#[test]
fn safe_with_everything_sent_deliverable() {
    let size = |ids| Size {
        network: persist(ids, 4, 1),
        ..Size::SMALL
    };
    safe("persist, K=2, 5 ids, 4 generations", size(5));
    if is_large() {
        safe("persist, K=2, 6 ids, 4 generations", size(6));
    }
}

/// The same with three slots and commits of one or two.
#[test]
fn safe_with_three_slots() {
    let size = |generations| Size {
        slots: 3,
        commit_max: 2,
        network: persist(5, generations, 1),
        ..Size::SMALL
    };
    safe("persist, K=3, 5 ids, 2 generations", size(2));
    if is_large() {
        safe("persist, K=3, 5 ids, 3 generations", size(3));
    }
}

/// WIN9, WIN10: epochs and leases over at any moment, commits cut off by them included.
#[test]
fn safe_with_epochs() {
    let size = |ids, generations, epochs| Size {
        epochs: true,
        expiry: true,
        network: persist(ids, generations, epochs),
        ..Size::SMALL
    };
    safe("persist, K=2, 4 ids, 4 generations, 2 epochs", size(4, 4, 2));
    if is_large() {
        safe("persist, K=2, 5 ids, 5 generations, 3 epochs", size(5, 5, 3));
    }
}

/// WIN11: a damaged table, and the refusal that follows.
#[test]
fn safe_with_damage() {
    let size = |request, generations| Size {
        damage: true,
        request,
        network: persist(4, generations, 2),
        ..Size::SMALL
    };
    safe(
        "persist, K=2, damaged, 4 ids, 3 generations, 2 epochs",
        size(false, 3),
    );
    if is_large() {
        safe(
            "persist, K=2, damaged, full states asked for, 4 ids, 4 generations, 2 epochs",
            size(true, 4),
        );
    }
}

/// TAB8: snapshots of one or two parts, any of them held back from any report, epochs and leases over at any
/// moment.
#[test]
fn safe_with_parts() {
    let size = |parts, ids| Size {
        parts,
        hold_back: true,
        epochs: true,
        expiry: true,
        network: persist(ids, 3, 2),
        ..Size::SMALL
    };
    safe(
        "persist, K=2, 1 or 2 parts, 3 ids, 3 generations, 2 epochs",
        size(&[1, 2], 3),
    );
    if is_large() {
        safe(
            "persist, K=2, 2 parts, 4 ids, 3 generations, 2 epochs",
            size(&[2], 4),
        );
    }
}

/// WIN5, WIN9, WIN10, WIN11 and liveness: everything that can come between, in endless runs.
#[test]
fn live_when_disturbed() {
    let size = |slots, network| Size {
        slots,
        network,
        ..DISTURBED
    };
    live("endless, K=3, disturbed, 1 + 1 in flight", size(3, lossy(1, 1)));
    if is_large() {
        live("endless, K=2, disturbed, 1 + 2 in flight", size(2, lossy(1, 2)));
        live("endless, K=2, disturbed, 2 + 1 in flight", size(2, lossy(2, 1)));
    }
}

/// WIN1..WIN10 and liveness where datagrams of one direction overtake each other, in endless runs.
#[test]
fn live_when_overtaken() {
    let size = |network| Size {
        network,
        epochs: true,
        expiry: true,
        ..Size::SMALL
    };
    live("endless, K=2, epochs, leases, 2 + 1 in flight", size(lossy(2, 1)));
    live("endless, K=2, epochs, leases, 1 + 2 in flight", size(lossy(1, 2)));
    if is_large() {
        let three = Size {
            slots: 3,
            commit_max: 2,
            network: lossy(1, 2),
            ..Size::SMALL
        };
        live("endless, K=3, 1 + 2 in flight", three);
        live("endless, K=2, epochs, leases, 2 + 2 in flight", size(lossy(2, 2)));
    }
}

/// TAB8 and liveness: snapshots of parts, reports that hold any of them back, in endless runs.
#[test]
fn live_with_parts() {
    let size = |parts, network| Size {
        parts,
        hold_back: true,
        network,
        ..Size::SMALL
    };
    let between = Size {
        epochs: true,
        expiry: true,
        ..size(&[2], lossy(2, 1))
    };
    live("endless, K=2, 2 parts, epochs, leases, 2 + 1 in flight", between);
    if is_large() {
        live(
            "endless, K=2, 1 or 2 parts, 2 + 1 in flight",
            size(&[1, 2], lossy(2, 1)),
        );
        let damaged = Size {
            damage: true,
            ..size(&[2], lossy(2, 1))
        };
        live("endless, K=2, 2 parts, damaged, 2 + 1 in flight", damaged);
        let three = Size {
            slots: 3,
            ..size(&[2], lossy(2, 1))
        };
        live("endless, K=3, 2 parts, 2 + 1 in flight", three);
    }
}

/// WINDOW-MODEL A22: with commits only when asked and snapshots that are not kept in between, nobody advances
/// for an ask of another generation.
#[test]
fn live_when_asked() {
    let size = Size {
        advance: Advance::Asked,
        plain: true,
        commit_max: 1,
        ..Size::SMALL
    };
    live("endless, K=2, asked, 2 + 1 in flight", size);
}

/// The names of snapshots, generations and epochs do not matter, only their order: states with one key have
/// successors with the same keys.
#[test]
fn the_reduction_is_a_bisimulation() {
    let size = Size {
        network: lossy(1, 1),
        ..DISTURBED
    };
    assert!(compare_twins(&WindowModel::honest(size)) > 50_000);
    let parts = Size {
        parts: &[2],
        hold_back: true,
        network: lossy(2, 1),
        ..Size::SMALL
    };
    assert!(compare_twins(&WindowModel::honest(Size { plain: true, ..parts })) > 50_000);
}

/// The checker and our own search see the same graph.
#[test]
fn two_explorers_agree() {
    let size = Size {
        network: lossy(1, 1),
        epochs: true,
        ..Size::SMALL
    };
    let graph = Graph::explore(&WindowModel::honest(size), MOST);
    let checker = WindowModel::honest(size).checker().threads(1).spawn_dfs().join();
    assert_eq!(checker.unique_state_count(), graph.states());
}

fn crosses_the_wire(part: &Part) {
    let header = part.header();
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    assert_eq!(SnapshotHeader::decode(&mut ByteReader::new(&bytes)), Ok(header));
}

fn report_crosses_the_wire(said: &Said) {
    let mut held = HeldList::default();
    said.list().iter().for_each(|entry| assert!(held.push(*entry)));
    let report = Report {
        session_epoch: said.epoch,
        generation: said.generation,
        ask: said.ask,
        refuse: said.reason(),
        held,
        ..Report::default()
    };
    let mut bytes = Vec::new();
    report.encode(&mut bytes);
    let mut read = Report::default();
    read.decode_into(&mut ByteReader::new(&bytes))
        .expect("what is said can be read");
    assert_eq!(read, report);
}

/// Whatever the model puts in flight has a form on the wire that says the same.
#[test]
fn what_is_in_flight_crosses_the_wire() {
    let size = Size {
        parts: &[1, 2],
        network: persist(3, 2, 2),
        epochs: true,
        damage: true,
        ..Size::SMALL
    };
    let model = WindowModel::honest(size);
    let mut states = model.init_states();
    for _ in 0..7 {
        states = states.iter().flat_map(|state| model.next_states(state)).collect();
        states.sort_by_cached_key(search::fingerprint);
        states.dedup_by_key(|state| search::fingerprint(state));
        states
            .iter()
            .flat_map(|state| &state.down)
            .for_each(crosses_the_wire);
        states
            .iter()
            .flat_map(|state| &state.up)
            .for_each(report_crosses_the_wire);
    }
    assert!(states.len() > 1000);
}
