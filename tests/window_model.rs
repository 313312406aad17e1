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

use fault::Fault;
use model::{Advance, Network, Size, WindowModel};
use search::{Graph, compare_twins, mark};
use state::{Broken, Part, Said};

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

fn is_large() -> bool {
    std::env::var("ACKLINE_MODEL").is_ok_and(|size| size == "large")
}

/// Every state of a size is safe, and the states that make this worth saying are among them.
fn safe(name: &str, size: Size) -> usize {
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

/// WIN1, WIN3, WIN4, WIN6, WIN7: two advances, everything sent deliverable for ever.
#[test]
fn safe_with_everything_sent_deliverable() {
    let size = |ids| Size {
        network: persist(ids, 3, 1),
        ..Size::SMALL
    };
    safe("persist, K=2, 4 ids, 3 generations", size(4));
    if is_large() {
        safe("persist, K=2, 5 ids, 3 generations", size(5));
    }
}

/// The same with three slots and commits of one or two.
#[test]
fn safe_with_three_slots() {
    let size = |ids| Size {
        slots: 3,
        commit_max: 2,
        network: persist(ids, 2, 1),
        ..Size::SMALL
    };
    safe("persist, K=3, 4 ids, 2 generations", size(4));
    if is_large() {
        safe("persist, K=3, 5 ids, 2 generations", size(5));
    }
}

/// WIN9, WIN10: epochs at any moment, commits cut off by them included.
#[test]
fn safe_with_epochs() {
    let size = |ids| Size {
        epochs: true,
        network: persist(ids, 3, 2),
        ..Size::SMALL
    };
    safe("persist, K=2, 3 ids, 2 epochs", size(3));
    if is_large() {
        safe("persist, K=2, 4 ids, 2 epochs", size(4));
    }
}

/// TAB8: snapshots of two parts, any of them held back from any report.
#[test]
fn safe_with_parts() {
    let size = |ids| Size {
        parts: &[2],
        hold_back: true,
        network: persist(ids, 2, 1),
        ..Size::SMALL
    };
    safe("persist, K=2, 2 parts, 3 ids", size(3));
    if is_large() {
        safe("persist, K=2, 2 parts, 4 ids", size(4));
    }
}

/// WIN5, WIN10, WIN11 and liveness: everything that can come between, in endless runs.
#[test]
fn live_when_disturbed() {
    let size = |slots, network| Size {
        slots,
        network,
        ..DISTURBED
    };
    live("endless, K=3, disturbed, 1 + 1 in flight", size(3, lossy(1, 1)));
    if is_large() {
        live("endless, K=2, disturbed, 2 + 1 in flight", size(2, lossy(2, 1)));
        live("endless, K=2, disturbed, 1 + 2 in flight", size(2, lossy(1, 2)));
    }
}

/// WIN1..WIN7 and liveness where datagrams of one direction overtake each other, in endless runs.
#[test]
fn live_when_overtaken() {
    let size = |slots, network| Size {
        slots,
        network,
        epochs: true,
        ..Size::SMALL
    };
    live("endless, K=2, lease, 2 + 1 in flight", size(2, lossy(2, 1)));
    live("endless, K=2, lease, 1 + 2 in flight", size(2, lossy(1, 2)));
    if is_large() {
        live("endless, K=2, lease, 2 + 2 in flight", size(2, lossy(2, 2)));
        live("endless, K=3, lease, 2 + 1 in flight", size(3, lossy(2, 1)));
    }
}

/// TAB8 and liveness: snapshots of two parts, reports that hold any of them back, in endless runs.
#[test]
fn live_with_parts() {
    let size = |slots, network| Size {
        slots,
        parts: &[2],
        hold_back: true,
        network,
        ..Size::SMALL
    };
    live("endless, K=2, 2 parts, 2 + 1 in flight", size(2, lossy(2, 1)));
    if is_large() {
        live("endless, K=2, 2 parts, 3 + 1 in flight", size(2, lossy(3, 1)));
        live("endless, K=3, 2 parts, 2 + 1 in flight", size(3, lossy(2, 1)));
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

/// What must be found of a fault: a broken property or a state that is stuck, after so many steps.
#[derive(Debug, PartialEq)]
enum Found {
    Broken(Broken, usize),
    /// Full for ever.
    Full(usize),
    /// With a lost baseline for ever.
    Lost(usize),
}

fn find(fault: Fault, size: Size) -> Found {
    let model = WindowModel {
        size,
        fault: Some(fault),
    };
    let graph = Graph::explore(&model, MOST);
    let (found, state) = if let Some((state, broken)) = graph.broken {
        let steps = graph.trace(&model, state).len();
        (Found::Broken(broken, steps), state)
    } else if let Some(&state) = graph.stuck(mark::LOST, mark::WHOLE).first() {
        (Found::Lost(graph.trace(&model, state).len()), state)
    } else if let Some(&state) = graph.stuck(mark::FULL, mark::FREES).first() {
        (Found::Full(graph.trace(&model, state).len()), state)
    } else {
        panic!("{fault:?} was not found in {} states", graph.states());
    };
    println!(
        "{fault:?}: {found:?}, {} states\n{}",
        graph.states(),
        graph.story(&model, state)
    );
    found
}

/// Two slots and everything sent deliverable: where most faults are found.
const FEW: Size = Size {
    network: persist(4, 3, 1),
    ..Size::SMALL
};
/// The same with epochs at any moment.
const EPOCHS: Size = Size {
    epochs: true,
    network: persist(4, 4, 3),
    ..Size::SMALL
};
/// The same with snapshots of two parts.
const PARTS: Size = Size {
    parts: &[2],
    network: persist(3, 2, 1),
    ..Size::SMALL
};
/// Endless, as the product does it: where faults of liveness are found.
const ENDLESS: Size = Size {
    advance: Advance::Asked,
    network: lossy(1, 1),
    ..Size::SMALL
};

macro_rules! faults {
    ($($name:ident: $fault:ident in $size:expr => $found:expr;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(find(Fault::$fault, $size), $found);
        }
    )*};
}

faults! {
    fault_untagged_reports: UntaggedReports in Size { slots: 3, ..FEW } => Found::Broken(Broken::NamesUnheld, 13);
    fault_received_is_held: ReceivedIsHeld in FEW => Found::Broken(Broken::NamesUnheld, 8);
    fault_other_set: OtherSetSameGeneration in FEW => Found::Broken(Broken::NeedlessRefusal, 10);
    fault_confirm_untagged: ConfirmUntagged in FEW => Found::Broken(Broken::GenerationsApart, 6);
    fault_commit_again: CommitAppliedAgain in FEW => Found::Broken(Broken::ReportedDropped, 10);
    fault_retired_uncounted: RetiredUncounted in FEW => Found::Broken(Broken::RelayOverfull, 8);
    fault_epoch_missing: EpochMissing in EPOCHS => Found::Broken(Broken::NeedlessEpoch, 8);
    fault_ids_restart: IdsRestart in EPOCHS => Found::Broken(Broken::NamesUnheld, 6);
    fault_unordered_epochs: UnorderedEpochs in EPOCHS => Found::Broken(Broken::TookOld, 5);
    fault_generation_modulo_2: GenerationModulo2 in Size { network: persist(5, 4, 1), ..FEW }
        => Found::Broken(Broken::GenerationsApart, 11);
    fault_generation_modulo_3: GenerationModulo3 in Size { network: persist(5, 5, 1), ..FEW }
        => Found::Broken(Broken::GenerationsApart, 16);
    fault_id_modulo_4: IdModulo4 in Size { network: persist(6, 4, 1), ..FEW }
        => Found::Broken(Broken::NeedlessRefusal, 11);
    fault_commit_aborted: CommitAborted in FEW => Found::Broken(Broken::GenerationsApart, 8);
    fault_untagged_asks: UntaggedAsks in Size { advance: Advance::Asked, plain: true, ..FEW }
        => Found::Broken(Broken::NeedlessAdvance, 13);
    fault_untagged_refusals: UntaggedRefusals in Size { request: true, ..EPOCHS }
        => Found::Broken(Broken::NeedlessEpoch, 7);
    fault_commit_unverified: CommitUnverified in Size { damage: true, ..FEW }
        => Found::Broken(Broken::DamagedSetTaken, 8);
    fault_anchor_verified_only: AnchorVerifiedOnly in Size { damage: true, slots: 3, commit_max: 2, ..FEW }
        => Found::Broken(Broken::DamagedSetTaken, 10);
    fault_late_part_stored: LatePartStored in PARTS => Found::Broken(Broken::FixedChanged, 4);
    fault_parts_fixed_when_named: PartsFixedWhenNamed in PARTS => Found::Broken(Broken::FixedChanged, 4);
    fault_mask_grows: MaskGrows in PARTS => Found::Broken(Broken::ContentDiffers, 6);
    fault_all_parts_assumed: AllPartsAssumed in PARTS => Found::Broken(Broken::ContentDiffers, 4);
    fault_unreported_committed: UnreportedCommitted in PARTS => Found::Broken(Broken::NamesUnheld, 2);
    fault_digest_over_all_parts: DigestOverAllParts in PARTS => Found::Broken(Broken::NeedlessRefusal, 7);
    fault_mask_of_all_parts: MaskOfAllParts in PARTS => Found::Broken(Broken::NeedlessRefusal, 7);
    fault_decoded_on_newest: DecodedOnNewest in FEW => Found::Broken(Broken::WrongBase, 8);
    fault_parts_on_different_bases: PartsOnDifferentBases in PARTS => Found::Broken(Broken::ContentDiffers, 6);
    fault_old_generation_taken: OldGenerationTaken in FEW => Found::Broken(Broken::TookOld, 9);
    fault_second_part_under_newer_tag: SecondPartUnderNewerTag in PARTS
        => Found::Broken(Broken::FixedChanged, 9);
    fault_unreported_takes_no_slot: UnreportedTakesNoSlot in FEW => Found::Broken(Broken::ClientOverfull, 6);
    fault_reported_dropped: ReportedDropped in FEW => Found::Broken(Broken::ReportedDropped, 7);
    fault_old_session_taken: OldSessionTaken in Size { reconnect: true, ..FEW }
        => Found::Broken(Broken::NeedlessRefusal, 8);
    fault_commit_keeps_all: CommitKeepsAll in Size { commit_max: 2, ..ENDLESS } => Found::Full(7);
    fault_nothing_said_at_full: NothingSaidAtFull in ENDLESS => Found::Full(5);
    fault_refusal_unsaid: RefusalUnsaid in Size { damage: true, ..ENDLESS } => Found::Lost(5);
    fault_refusal_said_once: RefusalSaidOnce in Size { damage: true, ..ENDLESS } => Found::Lost(11);
    fault_ask_said_once: AskSaidOnce in ENDLESS => Found::Full(9);
    fault_commit_said_once: CommitSaidOnce in ENDLESS => Found::Full(11);
    fault_reported_once: ReportedOnce in ENDLESS => Found::Full(7);
    fault_complete_only: CompleteOnly in Size { parts: &[2], network: lossy(2, 1), ..ENDLESS } => Found::Full(6);
    fault_absence_is_freed: AbsenceIsFreed in Size { network: lossy(1, 2), ..ENDLESS } => Found::Full(11);
    fault_lease_drops_only: LeaseDropsOnly in Size { expiry: true, ..ENDLESS } => Found::Full(9);
    fault_nothing_usable_ignored: NothingUsableIgnored in ENDLESS => Found::Full(9);
}
