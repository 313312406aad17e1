//! probe
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

use fault::Fault;
use model::*;
use search::*;

fn cpu() -> f64 { std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9 }
fn probe(name: &str, size: Size, most: usize) { probe_model(name, WindowModel::honest(size), most, true) }
fn probe_model(name: &str, model: WindowModel, most: usize, live: bool) {
    let t = cpu();
    let r = std::panic::catch_unwind(|| Graph::explore(&model, most));
    let Ok(graph) = r else { println!("{name}: more than {most} in {:?}", cpu() - t); return; };
    println!("{name}: {} states {} steps {:?} {:?}", graph.states(), graph.steps, graph.broken, cpu() - t);
    if let Some((state, _)) = graph.broken { println!(" in {} steps\n{}", graph.trace(&model, state).len(), graph.story(&model, state)); return; }
    if !live { return; }
    for (what, from, good) in [("full", mark::FULL, (|m| m & mark::FREES != 0) as fn(u8)->bool), ("lost", mark::LOST, |m| m & mark::LOST == 0), ("any", 0, |m| m & mark::HEALTHY != 0)] {
        let stuck = graph.stuck(from, good);
        println!("   {what}: {} of {} stuck", stuck.len(), graph.marked(from));
        if let Some(s) = stuck.first() { println!("{}", graph.story(&model, *s)); }
    }
    println!("   {:?}", cpu() - t);
}

const fn persist(ids: u32, generations: u32, epochs: u32) -> Network { Network::Persist { ids, generations, epochs } }
const fn lossy(down: usize, up: usize) -> Network { Network::Lossy { down, up } }
const FEW: Size = Size { network: persist(4, 3, 1), ..Size::SMALL };
const TWO: Size = Size { parts: &[2], network: persist(3, 2, 1), ..Size::SMALL };

#[test]
fn faults() {
    for (fault, size) in [
        (Fault::UntaggedReports, FEW),
        (Fault::ReceivedIsHeld, FEW),
        (Fault::OtherSetSameGeneration, FEW),
        (Fault::ConfirmUntagged, FEW),
        (Fault::CommitAppliedAgain, FEW),
        (Fault::RetiredUncounted, FEW),
        (Fault::EpochMissing, Size { lease: true, network: persist(4, 4, 2), ..FEW }),
        (Fault::IdsRestart, Size { lease: true, network: persist(4, 4, 2), ..FEW }),
        (Fault::UnorderedEpochs, Size { lease: true, network: persist(4, 4, 2), ..FEW }),
        (Fault::GenerationModulo2, Size { network: persist(5, 4, 1), ..FEW }),
        (Fault::GenerationModulo3, Size { network: persist(5, 5, 1), ..FEW }),
        (Fault::IdModulo4, Size { network: persist(6, 4, 1), ..FEW }),
        (Fault::CommitAborted, FEW),
        (Fault::UntaggedAsks, Size { advance: Advance::Asked, ..FEW }),
        (Fault::UntaggedRefusals, Size { lease: true, request: true, network: persist(4, 4, 3), ..FEW }),
        (Fault::CommitUnverified, Size { damage: true, ..FEW }),
        (Fault::AnchorVerifiedOnly, Size { damage: true, slots: 3, commit_max: 2, ..FEW }),
        (Fault::LatePartStored, TWO),
        (Fault::PartsFixedWhenNamed, TWO),
        (Fault::MaskGrows, TWO),
        (Fault::AllPartsAssumed, TWO),
        (Fault::UnreportedCommitted, TWO),
        (Fault::DigestOverAllParts, TWO),
        (Fault::MaskOfAllParts, TWO),
        (Fault::DecodedOnNewest, FEW),
        (Fault::PartsOnDifferentBases, TWO),
        (Fault::OldGenerationTaken, FEW),
        (Fault::SecondPartUnderNewerTag, TWO),
        (Fault::UnreportedTakesNoSlot, FEW),
        (Fault::ReportedDropped, FEW),
        (Fault::OldSessionTaken, Size { reconnect: true, ..FEW }),
    ] {
        probe_model(&format!("{fault:?}"), WindowModel { size, fault: Some(fault) }, 3_000_000, false);
    }
}

#[test]
fn liveness_faults() {
    let small = Size { network: lossy(1, 1), advance: Advance::Asked, ..Size::SMALL };
    for (fault, size) in [
        (Fault::CommitKeepsAll, Size { commit_max: 2, ..small }),
        (Fault::NothingSaidAtFull, small),
        (Fault::RefusalUnsaid, Size { damage: true, ..small }),
        (Fault::RefusalSaidOnce, Size { damage: true, ..small }),
        (Fault::AskSaidOnce, small),
        (Fault::CommitSaidOnce, small),
        (Fault::ReportedOnce, small),
        (Fault::CompleteOnly, Size { parts: &[2], network: lossy(2, 1), ..small }),
        (Fault::AbsenceIsFreed, Size { network: lossy(1, 2), ..small }),
        (Fault::LeaseDropsOnly, Size { lease: true, ..small }),
        (Fault::NothingUsableIgnored, small),
    ] {
        probe_model(&format!("{fault:?}"), WindowModel { size, fault: Some(fault) }, 3_000_000, true);
    }
}

#[test]
fn probes() {
    let most = 3_000_000;
    probe("small", Size::SMALL, most);
}
