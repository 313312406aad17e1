//! The model: which steps there are, at which size, and what must hold after each.
//!
//! A step calls the shipped windows; what surrounds them here is what surrounds them in the product: the relay
//! remembers that it was asked, and that an epoch is wanted, from the last report that was not stale.

use stateright::Property;

use ackline::window::WindowLimits;
use ackline::window::receive::ReceiveWindow;
use ackline::window::send::{Candidate, SendWindow};

use crate::fault::{Fault, Scratch};
use crate::state::{Broken, ClientTable, Entry, Few, State, client_tables, relay_tables};
use crate::step::built;

/// What the network keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Everything ever sent stays deliverable: unlimited loss, duplication and reordering. Names are bounded.
    Persist { ids: u32, generations: u32, epochs: u32 },
    /// At most so many datagrams in flight; each may be lost, delivered, or delivered again. Names are not
    /// bounded, so runs are endless.
    Lossy { down: usize, up: usize },
}

/// When the relay opens a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// At any moment, of any set: more than the relay ever does.
    Any,
    /// When it was asked.
    Asked,
}

/// How large a run is and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub slots: usize,
    pub ask_at: usize,
    pub commit_max: usize,
    /// How many parts a snapshot may have.
    pub parts: &'static [u8],
    pub network: Network,
    pub advance: Advance,
    /// The client may hold any unreported snapshot back from a report.
    pub hold_back: bool,
    /// Snapshots that are not candidates are sent, too.
    pub plain: bool,
    /// A new stream, and so a new session epoch, may begin at any moment.
    pub epochs: bool,
    /// The lease of any held table may be over at any moment.
    pub expiry: bool,
    /// A table at the client may be damaged at any moment, one at a time; digests of the base may be missing.
    pub damage: bool,
    /// The game may ask for a full state at any moment.
    pub request: bool,
    /// Both ends may begin a new session at any moment; its keys are new, so what was in flight is void.
    pub reconnect: bool,
}

impl Size {
    /// Two slots, whole snapshots, endless run over a network of two datagrams down and one up.
    pub const SMALL: Size = Size {
        slots: 2,
        ask_at: 2,
        commit_max: 1,
        parts: &[1],
        network: Network::Lossy { down: 2, up: 1 },
        advance: Advance::Any,
        hold_back: false,
        plain: false,
        epochs: false,
        expiry: false,
        damage: false,
        request: false,
        reconnect: false,
    };

    /// The limits both windows are made with.
    pub fn limits(&self) -> WindowLimits {
        WindowLimits {
            slots: self.slots,
            ask_at: self.ask_at,
            commit_max: self.commit_max,
        }
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The relay sends a snapshot on a base; 0 is the empty table.
    Send {
        base: u32,
        parts: u8,
        candidate: bool,
        digest: bool,
    },
    /// A part arrives at the client. It stays in flight: it may arrive again.
    Arrive(usize),
    /// A part is lost.
    Lose(usize),
    /// The client reports, holding back the unreported tables of this bit set.
    Say { hold_back: u8 },
    /// A report arrives at the relay, and stays in flight.
    Hear(usize),
    /// A report is lost.
    LoseReport(usize),
    /// The relay opens a commit of the usable tables of this bit set.
    Advance { keep: u8 },
    /// The relay starts the epoch that a report called for, or that it needs since every lease is over.
    Restart,
    /// A new stream begins, and a new epoch with it.
    StreamChanged,
    /// The lease of a usable table is over.
    Expire(usize),
    /// A table at the client changes by itself.
    Damage(usize),
    /// The game asks for a full state.
    Request,
    /// Both ends begin a new session.
    Reconnect,
    /// What only a fault does.
    Faulty,
}

/// The protocol at one size, perhaps with a fault.
#[derive(Clone, Debug)]
pub struct WindowModel {
    pub size: Size,
    pub fault: Option<Fault>,
}

impl WindowModel {
    /// The shipped protocol at a size.
    pub fn honest(size: Size) -> WindowModel {
        WindowModel { size, fault: None }
    }

    /// True when `fault` is seeded.
    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// What the relay may name: everything held whose lease is not over.
    pub fn usable(&self, state: &State) -> Few<Entry> {
        let tables = relay_tables(&state.relay);
        let known = |entry: &&Entry| !state.expired.contains(&entry.id);
        tables.iter().filter(known).copied().collect()
    }

    /// The product's own policy: base and commit are the newest held, commits only when asked, reports hold
    /// nothing back, nothing but candidates. A way out that needs luck is none: liveness looks only at these.
    pub fn is_ordinary(&self, state: &State, action: &Action) -> bool {
        let newest = || self.usable(state).last().map_or(0, |entry| entry.id);
        match *action {
            Action::Send {
                base,
                parts,
                candidate,
                ..
            } => base == newest() && candidate && self.size.parts.last() == Some(&parts),
            Action::Advance { keep } => {
                let count = self.usable(state).len();
                state.asked && (keep == 1 << (count - 1) || self.has(Fault::CommitKeepsAll))
            }
            Action::Say { hold_back } => hold_back == 0 || self.has(Fault::CompleteOnly),
            Action::Arrive(_)
            | Action::Lose(_)
            | Action::Hear(_)
            | Action::LoseReport(_)
            | Action::Restart => true,
            Action::StreamChanged
            | Action::Expire(_)
            | Action::Damage(_)
            | Action::Request
            | Action::Reconnect
            | Action::Faulty => false,
        }
    }

    fn sends(&self, state: &State, actions: &mut Vec<Action>) {
        let room = match self.size.network {
            Network::Persist { ids, .. } => u8::from(state.newest < ids) * 255,
            Network::Lossy { down, .. } => (down - state.down.len()) as u8,
        };
        let usable = self.usable(state);
        for base in usable.iter().map(|entry| entry.id).chain([0]) {
            for &parts in self.size.parts.iter().filter(|parts| **parts <= room) {
                for candidate in [true, false] {
                    for digest in [true, false] {
                        let none = base == 0;
                        let variety = digest || (self.size.damage && !none);
                        if variety && (candidate || (self.size.plain && parts == 1)) {
                            actions.push(Action::Send {
                                base,
                                parts,
                                candidate,
                                digest,
                            });
                        }
                    }
                }
            }
        }
    }

    fn advances(&self, state: &State, actions: &mut Vec<Action>) {
        let room = match self.size.network {
            Network::Persist { generations, .. } => state.relay.generation() < generations,
            Network::Lossy { .. } => true,
        };
        let wanted = state.asked || self.size.advance == Advance::Any;
        if !room || !wanted || state.relay.open_commit().is_some() {
            return;
        }
        let count = self.usable(state).len();
        let all = (1u8 << count) - 1;
        for keep in 1..=all {
            let fits = keep.count_ones() as usize <= self.size.commit_max;
            let meant = !self.has(Fault::CommitKeepsAll) || keep == all;
            if fits && meant {
                actions.push(Action::Advance { keep });
            }
        }
    }

    fn says(&self, state: &State, actions: &mut Vec<Action>) {
        let room = match self.size.network {
            Network::Persist { .. } => true,
            Network::Lossy { up, .. } => state.up.len() < up,
        };
        if !room || state.client.session_epoch() == 0 {
            return;
        }
        let tables = client_tables(&state.client);
        let unreported = tables.iter().filter(|(_, table)| !table.reported);
        let all = (1u8 << unreported.clone().count()) - 1;
        if self.has(Fault::CompleteOnly) {
            let bits = unreported.enumerate().map(|(index, (entry, _))| {
                let whole = entry.mask.count_ones() == u32::from(self.size.parts[0]);
                u8::from(!whole) << index
            });
            let hold_back = bits.sum();
            actions.push(Action::Say { hold_back });
            return;
        }
        let most = if self.size.hold_back { all } else { 0 };
        actions.extend((0..=most).map(|hold_back| Action::Say { hold_back }));
    }

    fn epoch_left(&self, state: &State) -> bool {
        match self.size.network {
            Network::Persist { epochs, .. } => state.relay.session_epoch() < epochs,
            Network::Lossy { .. } => true,
        }
    }

    fn disturbances(&self, state: &State, actions: &mut Vec<Action>) {
        let size = &self.size;
        let usable = self.usable(state).len();
        let over = usable == 0 && !state.expired.is_empty() && !self.has(Fault::LeaseDropsOnly);
        if (state.restart_wanted || (over && size.expiry)) && self.epoch_left(state) {
            actions.push(Action::Restart);
        }
        if size.expiry {
            actions.extend((0..usable).map(Action::Expire));
        }
        if size.epochs && state.relay.in_use() > 0 && self.epoch_left(state) {
            actions.push(Action::StreamChanged);
        }
        let tables = client_tables(&state.client);
        if size.damage && tables.iter().all(|(_, table)| !table.damaged) {
            actions.extend((0..tables.len()).map(Action::Damage));
        }
        if size.request && state.client.session_epoch() > 0 && state.client.refusing().is_none() {
            actions.push(Action::Request);
        }
        if size.reconnect && state.client.session_epoch() > 0 {
            actions.push(Action::Reconnect);
        }
        if self.fault.is_some_and(|fault| fault.may_act(state)) {
            actions.push(Action::Faulty);
        }
    }

    /// What must hold of a state (SPEC WIN1, WIN3, WIN5, WIN9, TAB8).
    pub fn check(&self, state: &mut State) {
        let slots = self.size.slots;
        if state.client.in_use() > slots {
            state.broke(Broken::ClientOverfull);
        }
        if state.relay.in_use() + state.scratch.retired as usize > slots {
            state.broke(Broken::RelayOverfull);
        }
        let (epoch, generation) = state.client_tag();
        if epoch > state.relay.session_epoch() {
            state.broke(Broken::GenerationsApart);
        }
        let held = relay_tables(&state.relay);
        if epoch != state.relay.session_epoch() {
            if !held.is_empty() {
                state.broke(Broken::NamesUnheld);
            }
            return;
        }
        if !(state.confirmed()..=state.relay.generation()).contains(&generation) {
            state.broke(Broken::GenerationsApart);
        }
        let tables = client_tables(&state.client);
        self.check_candidates(state, &tables);
        for entry in held.iter() {
            let id = self.id_at_client(entry.id);
            match tables.iter().find(|(known, _)| known.id == id) {
                None => state.broke(Broken::NamesUnheld),
                Some((known, table)) => {
                    let content = self.content_at_client(entry.content);
                    let same = known.mask == entry.mask && (table.damaged || table.content == content);
                    if !same {
                        state.broke(Broken::ContentDiffers);
                    }
                }
            }
        }
    }
}

impl WindowModel {
    /// The content under an id is the same at both ends even before it is reported (TAB8).
    fn check_candidates(&self, state: &mut State, tables: &[(Entry, ClientTable)]) {
        let differs = |candidate: &Candidate<u8>| {
            let base = candidate.base.and_then(|base| state.relay.find(base));
            let known = tables.iter().find(|(known, _)| known.id == candidate.id.0);
            known.is_some_and(|(known, table)| {
                let built = built(candidate, known.mask, base.map(|base| &base.table));
                !table.damaged && built != known.content
            })
        };
        if !self.has(Fault::IdModulo4) && state.relay.candidates().any(differs) {
            state.broke(Broken::ContentDiffers);
        }
    }
}

impl stateright::Model for WindowModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            relative: matches!(self.size.network, Network::Lossy { .. }),
            relay: SendWindow::new(self.size.limits()),
            asked: false,
            restart_wanted: false,
            expired: Vec::new(),
            newest: 0,
            client: ReceiveWindow::new(self.client_limits()),
            down: Vec::new(),
            up: Vec::new(),
            broken: None,
            scratch: Scratch::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        actions.extend((0..state.down.len()).map(Action::Arrive));
        actions.extend((0..state.up.len()).map(Action::Hear));
        self.says(state, actions);
        self.sends(state, actions);
        self.advances(state, actions);
        self.disturbances(state, actions);
        if matches!(self.size.network, Network::Lossy { .. }) {
            actions.extend((0..state.down.len()).map(Action::Lose));
            actions.extend((0..state.up.len()).map(Action::LoseReport));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        self.step(&mut next, action);
        self.check(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<WindowModel>> {
        type Model = WindowModel;
        let mut properties = vec![
            Property::always("safe", |_: &Model, state: &State| state.broken.is_none()),
            Property::sometimes("the window is full", |_: &Model, state: &State| {
                state.client.is_full()
            }),
            Property::sometimes("a commit is on its way", |_: &Model, state: &State| {
                state.relay.open_commit().is_some() && state.client_tag().1 == state.confirmed()
            }),
            Property::sometimes(
                "a commit is taken and not yet confirmed",
                |_: &Model, state: &State| {
                    state.relay.open_commit().is_some() && state.client_tag().1 > state.confirmed()
                },
            ),
            Property::sometimes("a commit is confirmed", |_: &Model, state: &State| {
                state.relay.session_epoch() == 1 && state.confirmed() == 2
            }),
        ];
        if self.size.epochs {
            properties.push(Property::sometimes(
                "a full client is an epoch behind",
                |_: &Model, state: &State| {
                    state.client.session_epoch() < state.relay.session_epoch() && state.client.is_full()
                },
            ));
        }
        properties
    }
}
