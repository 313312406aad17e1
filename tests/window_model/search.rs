//! Searches over a model's graph of our own: plain breadth first, which gives the shortest trace of a fault,
//! and reachability backwards over the whole graph, which is what liveness means here (AG EF: from every state
//! a good one stays reachable). The checker's `eventually` sees neither cycles nor joins.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::model::{Action, WindowModel};
use crate::state::{Broken, ClientTable, Entry, State, client_tables};

/// What a state is told apart by.
pub fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// The graph that was explored.
pub struct Graph {
    /// For each state where it was found first: the state before it and the number of the step among its
    /// actions.
    parents: Vec<(u32, u16)>,
    /// The ordinary steps, as (to, from).
    ordinary: Vec<(u32, u32)>,
    /// What is true of each state.
    marks: Vec<u8>,
    /// The first state that broke a property.
    pub broken: Option<(u32, Broken)>,
    /// Steps taken.
    pub steps: usize,
}

/// Marks of a state, as bits.
pub mod mark {
    /// The client's window is full.
    pub const FULL: u8 = 1;
    /// The client refuses to go on, or one of its tables is damaged.
    pub const LOST: u8 = 2;
    /// Both ends are in one epoch and generation, and the relay may name a table that is as it should be.
    pub const HEALTHY: u8 = 4;
    /// An ordinary step may free a slot of the client.
    pub const FREES: u8 = 8;
    /// Not lost.
    pub const WHOLE: u8 = 16;
}

fn marks(model: &WindowModel, state: &State) -> u8 {
    let tables = state.client.tables();
    let full = state.client.in_use() >= model.size.slots;
    let lost = state.client.refusing().is_some() || tables.into_iter().any(|(_, table)| table.damaged);
    let level = state.client_tag() == (state.relay.session_epoch(), state.confirmed());
    let open = state.relay.open_commit().is_some();
    let healthy = level && !open && !lost && !model.usable(state).is_empty();
    let lost = if lost { mark::LOST } else { mark::WHOLE };
    (u8::from(full) * mark::FULL) | lost | (u8::from(healthy) * mark::HEALTHY)
}

/// True when a step takes the client into a new generation or epoch, and something it held is gone.
fn frees(before: &State, after: &State) -> bool {
    let left = client_tables(&after.client);
    let gone = |table: &(Entry, ClientTable)| left.iter().all(|(known, _)| known.id != table.0.id);
    after.client_tag() > before.client_tag() && client_tables(&before.client).iter().any(gone)
}

impl Graph {
    /// Explores until a property breaks, or everything up to `most` states.
    pub fn explore(model: &WindowModel, most: usize) -> Graph {
        let mut graph = Graph {
            parents: Vec::new(),
            ordinary: Vec::new(),
            marks: Vec::new(),
            broken: None,
            steps: 0,
        };
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        let mut waiting: VecDeque<(u32, State)> = VecDeque::new();
        for state in model.init_states() {
            numbers.insert(fingerprint(&state), 0);
            graph.parents.push((0, 0));
            graph.marks.push(marks(model, &state));
            waiting.push_back((0, state));
        }
        let mut actions = Vec::new();
        while let Some((from, state)) = waiting.pop_front() {
            actions.clear();
            model.actions(&state, &mut actions);
            for (place, action) in actions.iter().enumerate() {
                let ordinary = model.is_ordinary(&state, action);
                let Some(next) = model.next_state(&state, *action) else {
                    continue;
                };
                graph.steps += 1;
                let frees = ordinary && frees(&state, &next);
                let to = match numbers.entry(fingerprint(&next)) {
                    Place::Occupied(known) => *known.get(),
                    Place::Vacant(place_of) => {
                        let number = graph.parents.len() as u32;
                        place_of.insert(number);
                        graph.parents.push((from, place as u16));
                        graph.marks.push(marks(model, &next));
                        if let Some(broken) = next.broken {
                            graph.broken = Some((number, broken));
                            return graph;
                        }
                        waiting.push_back((number, next));
                        number
                    }
                };
                if frees {
                    graph.marks[from as usize] |= mark::FREES;
                }
                if ordinary && to != from {
                    graph.ordinary.push((to, from));
                }
            }
            assert!(graph.states() <= most, "more than {most} states");
        }
        graph.ordinary.sort_unstable();
        graph
    }

    /// States found.
    pub fn states(&self) -> usize {
        self.parents.len()
    }

    /// The states with the marks `from` from which no state marked `wanted` can be reached by ordinary steps.
    pub fn stuck(&self, from: u8, wanted: u8) -> Vec<u32> {
        let edges = &self.ordinary;
        let mut reaches: Vec<bool> = self.marks.iter().map(|marks| marks & wanted != 0).collect();
        let mut open: Vec<u32> = (0..reaches.len() as u32)
            .filter(|state| reaches[*state as usize])
            .collect();
        while let Some(state) = open.pop() {
            let first = edges.partition_point(|(to, _)| *to < state);
            for (_, before) in edges[first..].iter().take_while(|(to, _)| *to == state) {
                if !reaches[*before as usize] {
                    reaches[*before as usize] = true;
                    open.push(*before);
                }
            }
        }
        let is_from = |state: &u32| self.marks[*state as usize] & from == from;
        let all = 0..reaches.len() as u32;
        all.filter(is_from)
            .filter(|state| !reaches[*state as usize])
            .collect()
    }

    /// How many states have a mark.
    pub fn marked(&self, mark: u8) -> usize {
        self.marks.iter().filter(|marks| **marks & mark == mark).count()
    }

    /// The shortest way to a state.
    pub fn trace(&self, model: &WindowModel, state: u32) -> Vec<(Action, State)> {
        let mut places = Vec::new();
        let mut at = state;
        while at != 0 {
            let (before, place) = self.parents[at as usize];
            places.push(place);
            at = before;
        }
        let mut now = model.init_states().remove(0);
        let mut steps = Vec::new();
        for place in places.into_iter().rev() {
            let mut actions = Vec::new();
            model.actions(&now, &mut actions);
            let action = actions[usize::from(place)];
            now = model.next_state(&now, action).expect("every action is a step");
            steps.push((action, now.clone()));
        }
        steps
    }

    /// The shortest way to a state, one step a line.
    pub fn story(&self, model: &WindowModel, state: u32) -> String {
        let line = |(action, state): (Action, State)| format!("  {action:?}\n      {state:?}\n");
        self.trace(model, state).into_iter().map(line).collect()
    }
}

/// The fingerprints of all successors of a state.
pub fn successors(model: &WindowModel, state: &State) -> Vec<u64> {
    let mut prints: Vec<u64> = model.next_states(state).iter().map(fingerprint).collect();
    prints.sort_unstable();
    prints.dedup();
    prints
}

/// Explores and checks that any two states with one key have successors with the same keys. Returns how many
/// pairs were compared.
pub fn compare_twins(model: &WindowModel) -> usize {
    let mut known: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut waiting: VecDeque<State> = model.init_states().into();
    let mut pairs = 0;
    while let Some(state) = waiting.pop_front() {
        let own = successors(model, &state);
        match known.entry(fingerprint(&state)) {
            Place::Occupied(twin) => {
                assert_eq!(
                    twin.get(),
                    &own,
                    "two states with one key differ in what may follow: {state:?}"
                );
                pairs += 1;
            }
            Place::Vacant(place) => {
                place.insert(own);
                waiting.extend(model.next_states(&state));
            }
        }
    }
    pairs
}
