//! Where faults are seeded: before and after each call of a shipped window.

use ackline::sequence::Tick;
use ackline::window::WindowLimits;
use ackline::window::receive::Admission;
use ackline::window::send::{SendWindow, WindowReport};
use ackline::wire::snapshot::{Commit, Held, SnapshotHeader};

use crate::fault::Fault;
use crate::model::WindowModel;
use crate::state::{ClientTable, Content, Entry, Few, Pact, Part, Said, State, client_tables, relay_tables};
use crate::step::built;

fn summed(digests: impl Iterator<Item = [u32; 2]>) -> [u32; 2] {
    digests.fold([0, 0], |[a, b], [c, d]| [a.wrapping_add(c), b.wrapping_add(d)])
}

/// The client's window drops every reported table that `keep` does not want, by a commit of its own: the
/// shipped window frees in no other way. Its generation is one ahead of the wire from then on.
fn keep_only(state: &mut State, keep: impl Fn(&Entry) -> bool) {
    let tables = client_tables(&state.client);
    let kept = |(entry, table): &&(Entry, ClientTable)| table.reported && keep(entry);
    let mut left: Vec<(Entry, ClientTable)> = tables.iter().filter(kept).copied().collect();
    if left.is_empty() || tables.iter().all(|(entry, _)| keep(entry)) {
        return;
    }
    left.reverse();
    let set: Vec<Held> = left
        .iter()
        .map(|(entry, _)| Held {
            id: Tick(entry.id),
            mask: entry.mask,
        })
        .collect();
    let digest = summed(left.iter().map(|(_, table)| table.digest()));
    let header = SnapshotHeader {
        commit: Commit::new(&set, digest),
        ..Part {
            epoch: state.client.session_epoch(),
            generation: state.client.generation() + 1,
            ..Part::default()
        }
        .header()
    };
    let admission = state.client.admit(&header, ClientTable::digest);
    let admission = admission.expect("the client's own tables are intact to itself");
    let never = |_: Option<&ClientTable>| unreachable!("not a candidate");
    state
        .client
        .accept(&header, &admission, never, |_| {}, &mut Vec::new());
    state.scratch.shift += 1;
}

impl WindowModel {
    /// The limits of the client's window.
    pub fn client_limits(&self) -> WindowLimits {
        let mut limits = self.size.limits();
        limits.slots += usize::from(self.has(Fault::UnreportedTakesNoSlot));
        limits
    }

    /// A snapshot's id as the client knows it.
    pub fn id_at_client(&self, id: u32) -> u32 {
        if self.has(Fault::IdModulo4) && id != 0 {
            (id - 1) % 4 + 1
        } else {
            id
        }
    }

    /// A content as the client knows it.
    pub fn content_at_client(&self, content: Content) -> Content {
        Content(content.0.map(|id| self.id_at_client(id)))
    }

    /// The table that a part is decoded on.
    pub fn decoded_on(
        &self,
        state: &State,
        header: &SnapshotHeader,
        admission: &Admission,
    ) -> Option<ClientTable> {
        if self.has(Fault::DecodedOnNewest) && header.base.is_some() {
            return client_tables(&state.client).last().map(|(_, table)| *table);
        }
        state.client.base(admission).copied()
    }

    /// At the relay, before the parts of a snapshot go out.
    pub fn sent(&self, state: &mut State, parts: &mut Vec<Part>) {
        let Some(fault) = self.fault else { return };
        match fault {
            Fault::OtherSetSameGeneration if state.scratch.flag => {
                let first: Vec<u32> = relay_tables(&state.relay).iter().map(|entry| entry.id).collect();
                let other = state
                    .scratch
                    .entries
                    .iter()
                    .find(|entry| !first.contains(&entry.id));
                let pact = other.map(|entry| Pact::new(&[*entry]));
                parts.iter_mut().for_each(|part| part.pact = part.pact.and(pact));
            }
            Fault::CommitSaidOnce if parts[0].pact.is_some() => {
                if state.scratch.flag {
                    parts.iter_mut().for_each(|part| part.pact = None);
                }
                state.scratch.flag = true;
            }
            Fault::PartsOnDifferentBases if parts.len() > 1 => {
                let usable = self.usable(state);
                let other = usable.iter().find(|entry| entry.id != parts[0].base);
                let other = other.copied().unwrap_or_default();
                (parts[1].base, parts[1].on, parts[1].digest) = (other.id, other.content, other.id != 0);
            }
            Fault::DigestOverAllParts | Fault::MaskOfAllParts => {
                for entry in parts
                    .iter_mut()
                    .flat_map(|part| &mut part.pact)
                    .flat_map(|pact| &mut pact.set)
                {
                    let sent = state.scratch.noted(entry.id);
                    if entry.id != 0 && fault == Fault::MaskOfAllParts {
                        entry.mask = sent;
                    } else if entry.id != 0 {
                        entry.content = entry.content.with(entry.id, sent);
                    }
                }
                state.scratch.note(parts[0].id, (1 << parts.len()) - 1);
            }
            Fault::SecondPartUnderNewerTag if parts.len() > 1 => state.scratch.late = parts.pop(),
            _ => {}
        }
    }

    /// At the client, before its window sees a header.
    pub fn arriving(&self, state: &mut State, part: &Part, header: &mut SnapshotHeader) {
        let Some(fault) = self.fault else { return };
        let (epoch, generation) = state.client_tag();
        let same_epoch = part.epoch == epoch;
        let own = state.client.generation();
        match fault {
            Fault::CommitAppliedAgain if same_epoch && part.generation == generation => {
                if let Some(pact) = part.pact {
                    keep_only(state, |entry| pact.entries().any(|kept| kept.id == entry.id));
                }
            }
            Fault::ReportedDropped if part.candidate && state.client.is_full() => {
                let tables = client_tables(&state.client);
                let oldest = tables.iter().find(|(_, table)| table.reported);
                let oldest = oldest.map_or(0, |(entry, _)| entry.id);
                if tables.iter().all(|(entry, _)| entry.id != part.id) {
                    keep_only(state, |entry| entry.id != oldest);
                }
            }
            Fault::UnorderedEpochs => {
                header.session_epoch = state.client.session_epoch() + u32::from(!same_epoch);
            }
            Fault::GenerationModulo2 | Fault::GenerationModulo3 if same_epoch => {
                let modulus = fault.modulus().unwrap_or(1);
                let ahead = (part.generation + modulus - own % modulus) % modulus;
                header.generation = if ahead < 2 { own + ahead } else { own - 1 };
            }
            Fault::IdModulo4 => {
                let at_client = |id: Tick| Tick(self.id_at_client(id.0));
                header.id = Tick(self.id_at_client(header.id.0));
                header.base = header.base.map(at_client);
                header.base_digest = header.base.and(Some(self.content_at_client(part.on).digest()));
            }
            Fault::CommitUnverified | Fault::AnchorVerifiedOnly => {
                header.commit = part.pact.and_then(|pact| self.unverified(state, &pact));
            }
            Fault::OldGenerationTaken if same_epoch => header.generation = part.generation.max(own),
            _ => {}
        }
        header.generation += state.scratch.shift;
    }

    /// A commit whose digest is right whatever the client holds, but for the newest table where that counts.
    fn unverified(&self, state: &State, pact: &Pact) -> Option<Commit> {
        let tables = client_tables(&state.client);
        let digests = pact.entries().enumerate().map(|(index, entry)| {
            let own = tables.iter().find(|(known, _)| known.id == entry.id);
            match own {
                Some((_, table)) if index > 0 || self.has(Fault::CommitUnverified) => table.digest(),
                _ => entry.content.digest(),
            }
        });
        Commit::new(&pact.held(), summed(digests))
    }

    /// At the client, after a part was taken.
    pub fn arrived(&self, state: &mut State, part: &Part, admission: &Admission) {
        let Some(fault) = self.fault else { return };
        let new_tag = admission.begins_epoch() || admission.commits();
        let mask = 1 << part.part;
        let late = client_tables(&state.client)
            .iter()
            .any(|(entry, table)| entry.id == part.id && table.reported && !admission.is_stored());
        match fault {
            Fault::UnorderedEpochs if admission.begins_epoch() => state.scratch.wire_epoch = Some(part.epoch),
            Fault::RefusalSaidOnce if admission.begins_epoch() => state.scratch.flag = false,
            Fault::AskSaidOnce if new_tag => state.scratch.flag = false,
            Fault::ReceivedIsHeld => {
                if new_tag {
                    state.scratch.list.clear();
                }
                if !admission.is_stored() {
                    state.scratch.note(part.id, mask);
                }
            }
            Fault::MaskGrows if late => state.scratch.note(part.id, mask),
            Fault::LatePartStored | Fault::PartsFixedWhenNamed if late => {
                let named = fault == Fault::PartsFixedWhenNamed && state.scratch.noted(part.id) != 0;
                let tables = state.client.tables_mut();
                for (_, table) in tables.filter(|(held, _)| held.id.0 == part.id && !named) {
                    table.content = table.content.with(part.id, mask);
                }
            }
            Fault::PartsFixedWhenNamed if part.base != 0 => state.scratch.note(part.base, 1),
            _ => {}
        }
    }

    /// At the client, before a report goes out. `before` is what was held, and reported, until now.
    pub fn said(&self, state: &mut State, before: &[(Entry, ClientTable)], said: &mut Said) {
        let Some(fault) = self.fault else { return };
        match fault {
            Fault::ReceivedIsHeld => {
                for (id, mask) in state.scratch.list.clone() {
                    let known = said.held.iter().any(|(known, _)| *known == id);
                    if !known {
                        said.push(id, mask);
                    }
                }
            }
            Fault::MaskGrows => {
                for (id, mask) in &mut said.held {
                    *mask |= state.scratch.noted(*id);
                }
            }
            Fault::NothingSaidAtFull if state.client.is_full() => said.held = Default::default(),
            Fault::RefusalUnsaid => said.refuse = 0,
            Fault::RefusalSaidOnce if said.refuse != 0 => {
                said.refuse *= u8::from(!state.scratch.flag);
                state.scratch.flag = true;
            }
            Fault::AskSaidOnce if said.ask => {
                said.ask = !state.scratch.flag;
                state.scratch.flag = true;
            }
            Fault::ReportedOnce => {
                let old = |id: u32| before.iter().any(|(entry, t)| entry.id == id && t.reported);
                let held = core::mem::take(&mut said.held);
                for (id, mask) in held.into_iter().filter(|(id, _)| *id != 0 && !old(*id)) {
                    said.push(id, mask);
                }
            }
            _ => {}
        }
    }

    /// At the relay, before its window sees a report.
    pub fn heard(&self, state: &mut State, said: &mut Said) {
        let Some(fault) = self.fault else { return };
        let (epoch, confirmed) = (state.relay.session_epoch(), state.confirmed());
        let open = state.relay.open_commit().is_some();
        let confirms = open && said.generation == confirmed + 1;
        match fault {
            Fault::UntaggedReports if !confirms => said.generation = confirmed,
            Fault::ConfirmUntagged if open => said.generation = confirmed + 1,
            Fault::EpochMissing | Fault::IdsRestart if said.epoch != 0 => {
                let start = |epoch: u32| {
                    epoch
                        .checked_sub(2)
                        .map_or(1, |place| state.scratch.starts[place as usize])
                };
                said.generation = said.generation - start(said.epoch) + start(epoch);
                said.epoch = epoch;
            }
            Fault::GenerationModulo2 | Fault::GenerationModulo3 => {
                let modulus = fault.modulus().unwrap_or(1);
                let ahead = (said.generation + modulus - confirmed % modulus) % modulus;
                said.generation = if ahead < 2 { confirmed + ahead } else { 0 };
            }
            Fault::IdModulo4 => {
                let tables = relay_tables(&state.relay);
                let held = tables.iter().map(|entry| entry.id);
                let sent = state.relay.candidates().map(|candidate| candidate.id.0);
                let mut known: Vec<u32> = held.chain(sent).collect();
                known.sort_unstable();
                for (id, _) in said.held.iter_mut().filter(|(id, _)| *id != 0) {
                    let newest = known.iter().rfind(|known| self.id_at_client(**known) == *id);
                    *id = newest.copied().unwrap_or(u32::MAX / 2);
                }
            }
            Fault::AllPartsAssumed => {
                for (id, mask) in &mut said.held {
                    let sent = state.relay.candidates().find(|candidate| candidate.id.0 == *id);
                    *mask = sent.map_or(*mask, |candidate| candidate.parts);
                }
            }
            Fault::UntaggedAsks => state.asked |= said.ask,
            Fault::UntaggedRefusals => state.restart_wanted |= said.refuse != 0,
            _ => {}
        }
    }

    /// At the relay, after a report that was not stale.
    pub fn taken(&self, state: &mut State, said: &Said) {
        if self.has(Fault::AbsenceIsFreed) {
            let listed = |id: u32| said.held.iter().any(|(known, _)| *known == id);
            let tables = relay_tables(&state.relay);
            let freed = tables
                .iter()
                .filter(|entry| !listed(entry.id))
                .map(|entry| entry.id);
            state.expired.extend(freed);
            state.expired.sort_unstable();
            state.expired.dedup();
        }
    }

    /// At the relay, after a commit was opened.
    pub fn opened(&self, state: &mut State, before: SendWindow<u8, Content>, freed: usize) {
        let Some(fault) = self.fault else { return };
        match fault {
            Fault::UntaggedReports | Fault::SecondPartUnderNewerTag => {
                let candidates: Vec<_> = before.candidates().cloned().collect();
                for candidate in candidates {
                    state.relay.offer(candidate, &mut Vec::new());
                }
            }
            Fault::OtherSetSameGeneration => {
                state.scratch.entries = relay_tables(&before).to_vec();
                state.scratch.flag = false;
            }
            Fault::CommitSaidOnce => state.scratch.flag = false,
            Fault::RetiredUncounted => state.scratch.retired = freed as u32,
            Fault::CommitAborted => state.scratch.saved = Some(Box::new(before)),
            _ => {}
        }
    }

    /// At the relay, after a new session epoch began.
    pub fn restarted(&self, state: &mut State) {
        let Some(fault) = self.fault else { return };
        match fault {
            Fault::EpochMissing => state.scratch.starts.push(state.relay.generation()),
            Fault::IdsRestart => {
                state.scratch.starts.push(state.relay.generation());
                state.newest = 0;
            }
            _ => {}
        }
        state.scratch.saved = None;
    }

    /// The step that only a fault takes.
    pub fn act_faulty(&self, state: &mut State) {
        match self.fault {
            Some(Fault::OtherSetSameGeneration) => state.scratch.flag = true,
            Some(Fault::CommitAborted) => {
                if let Some(saved) = state.scratch.saved.take() {
                    state.relay = *saved;
                }
            }
            Some(Fault::UnreportedCommitted) => self.commit_unreported(state),
            Some(Fault::SecondPartUnderNewerTag) => {
                if let Some(late) = state.scratch.late.take() {
                    let held = relay_tables(&state.relay);
                    let open = state.relay.open_commit().is_some();
                    state.down.push(Part {
                        epoch: state.relay.session_epoch(),
                        generation: state.relay.generation(),
                        pact: open.then(|| Pact::new(&held)),
                        ..late
                    });
                    state.down.sort_unstable();
                    state.down.dedup();
                }
            }
            _ => {}
        }
    }

    fn commit_unreported(&self, state: &mut State) {
        let Some(candidate) = state.relay.candidates().next().cloned() else {
            return;
        };
        let held = [Held {
            id: candidate.id,
            mask: candidate.parts,
        }];
        let report = WindowReport {
            session_epoch: state.relay.session_epoch(),
            generation: state.relay.generation(),
            held: &held,
            ask: false,
            refuse: None,
        };
        state.relay.receive(report, built, &mut Vec::new());
        let tables = relay_tables(&state.relay);
        let set = tables.iter().filter(|entry| entry.id == candidate.id.0);
        self.open(state, &set.copied().collect::<Few<Entry>>());
    }
}
