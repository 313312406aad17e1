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

use model::*;
use search::*;
fn cpu() -> f64 { std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9 }

fn probe(name: &str, size: Size, most: usize) {
    let t = cpu();
    let model = WindowModel::honest(size);
    let r = std::panic::catch_unwind(|| Graph::explore(&model, most));
    let Ok(graph) = r else { println!("{name}: more than {most} in {:?}", cpu() - t); return; };
    println!("{name}: {} states {} steps {:?} {:?}", graph.states(), graph.steps, graph.broken, cpu() - t);
    if let Some((state, _)) = graph.broken { println!("{}", graph.story(&model, state)); return; }
    for (what, from, good) in [("full", mark::FULL, (|m| m & mark::FREES != 0) as fn(u8)->bool), ("lost", mark::LOST, |m| m & mark::LOST == 0), ("any", 0, |m| m & mark::HEALTHY != 0)] {
        let stuck = graph.stuck(from, good);
        println!("   {what}: {} of {} stuck", stuck.len(), graph.marked(from));
        if let Some(s) = stuck.first() { println!("{}", graph.story(&model, *s)); }
    }
    println!("   {:?}", cpu() - t);
}

#[test]
fn probes() {
    let most = 8_000_000;
    let k3 = Size { slots: 3, commit_max: 2, ..Size::SMALL };
    probe("K3 asked 1,1", Size { advance: Advance::Asked, network: Network::Lossy { down: 1, up: 1 }, ..k3 }, most);
    probe("K3 any 1,1", Size { network: Network::Lossy { down: 1, up: 1 }, ..k3 }, most);
    probe("K3 asked 2,1", Size { advance: Advance::Asked, ..k3 }, most);
    probe("damage", Size { damage: true, network: Network::Lossy { down: 1, up: 1 }, ..Size::SMALL }, most);
    probe("damage,request,reconnect,lease", Size { damage: true, lease: true, reconnect: true, request: true, network: Network::Lossy { down: 1, up: 1 }, ..Size::SMALL }, most);
    probe("2,2", Size { network: Network::Lossy { down: 2, up: 2 }, ..Size::SMALL }, most);
    probe("3,1", Size { network: Network::Lossy { down: 3, up: 1 }, ..Size::SMALL }, most);
    let persist = |ids, generations, epochs| Network::Persist { ids, generations, epochs };
    probe("persist 3,2,1", Size { network: persist(3,2,1), ..Size::SMALL }, most);
    probe("persist 4,2,1", Size { network: persist(4,2,1), ..Size::SMALL }, most);
    probe("persist 4,3,2", Size { lease: true, network: persist(3,3,2), ..Size::SMALL }, most);
    probe("persist 2p 3,3,2", Size { parts: &[2], hold_back: true, network: persist(3,2,1), ..Size::SMALL }, most);
}
