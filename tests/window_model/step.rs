//! The steps: each is one call of the shipped windows, with what a fault does before and after.

use ackline::sequence::Tick;
use ackline::window::receive::ReceiveWindow;
use ackline::window::send::{Candidate, RestartReason, SendWindow, WindowReport};
use ackline::wire::report::RefuseReason;
use ackline::wire::snapshot::Held;

use crate::fault::{Fault, Scratch};
use crate::model::{Action, Advance, WindowModel};
use crate::state::{
    Broken, ClientTable, Content, Entry, Few, Pact, Part, Said, State, client_tables, relay_tables,
};

/// The relay's table of a candidate, from what its client reported.
pub fn built(candidate: &Candidate<u8>, mask: u32, base: Option<&Content>) -> Content {
    base.copied().unwrap_or_default().with(candidate.id.0, mask)
}

fn insert<T: Ord>(flight: &mut Vec<T>, datagram: T) {
    if let Err(place) = flight.binary_search(&datagram) {
        flight.insert(place, datagram);
    }
}

impl WindowModel {
    /// Takes one step.
    pub fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Send {
                base,
                parts,
                candidate,
                digest,
            } => self.send(state, base, parts, candidate, digest),
            Action::Arrive(index) => self.arrive(state, state.down[index]),
            Action::Lose(index) => {
                state.down.remove(index);
            }
            Action::Say { hold_back } => self.say(state, hold_back),
            Action::Hear(index) => self.hear(state, state.up[index]),
            Action::LoseReport(index) => {
                state.up.remove(index);
            }
            Action::Advance { keep } => self.advance(state, keep),
            Action::Restart => {
                if state.client_tag().0 != state.relay.session_epoch() {
                    state.broke(Broken::NeedlessEpoch);
                }
                self.restart(state);
            }
            Action::StreamChanged => self.restart(state),
            Action::Expire(index) => {
                let id = self.usable(state)[index].id;
                state.expired.push(id);
                state.expired.sort_unstable();
            }
            Action::Damage(index) => {
                let (entry, _) = client_tables(&state.client)[index];
                let tables = state.client.tables_mut();
                tables
                    .filter(|(held, _)| held.id.0 == entry.id)
                    .for_each(|(_, table)| table.damaged = true);
            }
            Action::Request => state.client.refuse(RefuseReason::Requested),
            Action::Reconnect => self.reconnect(state),
            Action::Faulty => self.act_faulty(state),
        }
    }

    fn send(&self, state: &mut State, base: u32, parts: u8, candidate: bool, digest: bool) {
        state.newest += 1;
        let id = state.newest;
        let tables = relay_tables(&state.relay);
        let content = |id: u32| tables.iter().find(|entry| entry.id == id);
        let pact = state.relay.open_commit().map(|commit| {
            let entries: Few<Entry> = commit
                .set()
                .iter()
                .filter_map(|held| content(held.id.0))
                .copied()
                .collect();
            let pact = Pact::new(&entries);
            assert_eq!(
                pact.digest(),
                commit.digest,
                "the set of a generation never changes"
            );
            pact
        });
        let part = Part {
            epoch: state.relay.session_epoch(),
            generation: state.relay.generation(),
            id,
            part: 0,
            base,
            candidate,
            digest: digest && base != 0,
            on: content(base).map_or(Content::default(), |entry| entry.content),
            pact,
        };
        let mut sent: Vec<Part> = (0..parts).map(|index| Part { part: index, ..part }).collect();
        self.sent(state, &mut sent);
        sent.into_iter().for_each(|part| insert(&mut state.down, part));
        if candidate {
            let offered = Candidate {
                id: Tick(id),
                base: (base != 0).then_some(Tick(base)),
                parts: (1 << parts) - 1,
                server_us: 0,
                contents: parts,
            };
            state.relay.offer(offered, &mut Vec::new());
        }
    }

    fn arrive(&self, state: &mut State, part: Part) {
        let tag = state.client_tag();
        let before = client_tables(&state.client);
        let mut header = part.header();
        self.arriving(state, &part, &mut header);
        let intact = client_tables(&state.client)
            .iter()
            .all(|(_, table)| !table.damaged);
        match state.client.admit(&header, ClientTable::digest) {
            Err(rejection) => {
                let quiet = state.client.refusing().is_none();
                state.client.reject(rejection);
                if quiet && intact && state.client.refusing().is_some() {
                    state.broke(Broken::NeedlessRefusal);
                }
            }
            Ok(admission) => {
                if (part.epoch, part.generation) < tag {
                    state.broke(Broken::TookOld);
                }
                if admission.commits() {
                    self.check_set(state, &part);
                }
                let base = self.decoded_on(state, &header, &admission);
                let (content, damaged) = base.map_or((Content::default(), false), |t| (t.content, t.damaged));
                if content != self.content_at_client(part.on) || (damaged && part.digest) {
                    state.broke(Broken::WrongBase);
                }
                let mask = 1 << part.part;
                let id = header.id.0;
                let made = ClientTable {
                    content: content.with(id, mask),
                    damaged,
                    base: header.base.map_or(0, |base| base.0),
                    reported: false,
                };
                let join = |table: &mut ClientTable| {
                    table.content = table.content.with(id, mask);
                    table.damaged |= damaged;
                };
                state
                    .client
                    .accept(&header, &admission, |_| made, join, &mut Vec::new());
                self.arrived(state, &part, &admission);
            }
        }
        self.check_receive(state, tag, &before);
    }

    /// WIN11: the set a client switches to is intact.
    fn check_set(&self, state: &mut State, part: &Part) {
        let tables = client_tables(&state.client);
        let intact = |entry: &Entry| {
            let id = self.id_at_client(entry.id);
            let known = tables.iter().find(|(known, _)| known.id == id);
            known.is_some_and(|(known, table)| {
                !table.damaged
                    && known.mask == entry.mask
                    && known.content == self.content_at_client(entry.content)
            })
        };
        if !part.pact.iter().flat_map(Pact::entries).all(intact) {
            state.broke(Broken::DamagedSetTaken);
        }
    }

    /// WIN7, TAB8: nothing goes back; what was reported stays as it is until a commit or an epoch.
    fn check_receive(&self, state: &mut State, tag: (u32, u32), before: &[(Entry, ClientTable)]) {
        let now = state.client_tag();
        if now < tag {
            state.broke(Broken::WentBack);
        }
        let tables = client_tables(&state.client);
        for (entry, _) in before.iter().filter(|(_, table)| table.reported) {
            match tables.iter().find(|(known, _)| known.id == entry.id) {
                None if now == tag => state.broke(Broken::ReportedDropped),
                Some((known, _)) if now.0 == tag.0 && known != entry => state.broke(Broken::FixedChanged),
                _ => {}
            }
        }
    }

    fn say(&self, state: &mut State, hold_back: u8) {
        let tables = client_tables(&state.client);
        let unreported: Vec<u32> = tables
            .iter()
            .filter(|(_, table)| !table.reported)
            .map(|(entry, _)| entry.id)
            .collect();
        let held_back = |held: Held| {
            let place = unreported.iter().position(|id| *id == held.id.0);
            place.is_some_and(|place| hold_back >> place & 1 == 1)
        };
        let list = state.client.report(held_back);
        for (held, table) in state.client.tables_mut() {
            table.reported |= list.as_slice().contains(&held);
        }
        let (epoch, generation) = state.client_tag();
        let mut said = Said {
            epoch,
            generation,
            ask: state.client.asks(),
            refuse: state.client.refusing().map_or(0, |reason| reason as u8),
            ..Said::default()
        };
        for held in list.as_slice() {
            said.push(held.id.0, held.mask);
        }
        self.said(state, &tables, &mut said);
        insert(&mut state.up, said);
    }

    fn hear(&self, state: &mut State, mut said: Said) {
        let tag = (state.relay.session_epoch(), state.relay.generation());
        self.heard(state, &mut said);
        let list = said.list();
        let report = WindowReport {
            session_epoch: said.epoch,
            generation: said.generation,
            held: &list,
            ask: said.ask,
            refuse: said.reason(),
        };
        let outcome = state.relay.receive(report, built, &mut Vec::new());
        if outcome.contradicted > 0 {
            state.broke(Broken::Contradiction);
        }
        if (state.relay.session_epoch(), state.relay.generation()) < tag {
            state.broke(Broken::WentBack);
        }
        if outcome.confirmed.is_some() {
            state.scratch.retired = 0;
        }
        if !outcome.stale {
            let ignored = self.has(Fault::NothingUsableIgnored)
                && outcome.restart == Some(RestartReason::NothingUsable);
            state.restart_wanted = outcome.restart.is_some() && !ignored;
            state.asked = said.ask;
            self.taken(state, &said);
        }
    }

    fn advance(&self, state: &mut State, keep: u8) {
        if self.size.advance == Advance::Asked {
            let own = state.client_tag() == (state.relay.session_epoch(), state.relay.generation());
            if !own || !state.client.asks() {
                state.broke(Broken::NeedlessAdvance);
            }
        }
        let usable = self.usable(state);
        let chosen = usable
            .iter()
            .enumerate()
            .filter(|(index, _)| keep >> index & 1 == 1);
        let set: Few<Entry> = chosen.map(|(_, entry)| *entry).collect();
        self.open(state, &set);
    }

    /// Opens a commit of a set.
    pub fn open(&self, state: &mut State, set: &[Entry]) {
        let pact = Pact::new(set);
        let before = state.relay.clone();
        let mut freed = Vec::new();
        let opened = state
            .relay
            .open(&pact.held(), pact.digest(), 0, &mut Vec::new(), &mut freed);
        assert!(opened, "the model commits only what is held");
        state.asked = false;
        state.tidy();
        self.opened(state, before, freed.len());
    }

    fn restart(&self, state: &mut State) {
        state.relay.restart(&mut Vec::new(), &mut Vec::new());
        state.asked = false;
        state.restart_wanted = false;
        state.tidy();
        self.restarted(state);
    }

    fn reconnect(&self, state: &mut State) {
        state.relay = SendWindow::new(self.size.limits());
        state.client = ReceiveWindow::new(self.client_limits());
        state.asked = false;
        state.restart_wanted = false;
        state.expired.clear();
        state.scratch = Scratch::default();
        if !self.has(Fault::OldSessionTaken) {
            state.down.clear();
            state.up.clear();
        }
    }
}
