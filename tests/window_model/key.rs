//! How two states are the same.
//!
//! They are when they differ only in the names of snapshots, generations and epochs. The key of a state lists
//! everything that can matter later in a fixed order, with the names replaced: ids and epochs by their rank among
//! those mentioned (the code compares them, nothing else), generations likewise but with "exactly one apart" kept.
//! So unbounded runs have finitely many states. Runs with bounded names use the names themselves.
//!
//! That nothing is missing from the key is checked: `the_reduction_is_a_bisimulation`.

use std::hash::{Hash, Hasher};

use crate::state::{Entry, Part, Said, State, client_tables, relay_tables};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Id,
    Generation,
    Epoch,
}

/// The words that a state is known by.
#[derive(Default)]
pub struct Key {
    kinds: Vec<Kind>,
    words: Vec<u32>,
    names: Vec<(u32, u32)>,
}

thread_local! {
    /// A key's memory, kept between states.
    static KEY: std::cell::RefCell<Key> = std::cell::RefCell::default();
}

impl Key {
    /// A word that is what it is.
    pub fn plain(&mut self, word: u32) {
        self.kinds.push(Kind::Plain);
        self.words.push(word);
    }

    /// A snapshot's id; 0 is none.
    pub fn id(&mut self, id: u32) {
        self.kinds.push(if id == 0 { Kind::Plain } else { Kind::Id });
        self.words.push(id);
    }

    /// An epoch and a generation.
    pub fn tag(&mut self, epoch: u32, generation: u32) {
        self.kinds.extend([Kind::Epoch, Kind::Generation]);
        self.words.extend([epoch, generation]);
    }

    /// A table.
    pub fn entry(&mut self, entry: &Entry) {
        self.id(entry.id);
        self.plain(entry.mask);
        entry.content.0.iter().for_each(|id| self.id(*id));
    }

    /// Replaces names by ranks. Epoch 0, before any, stays itself.
    fn relabel(&mut self) {
        for kind in [Kind::Id, Kind::Generation, Kind::Epoch] {
            // (name, rank), by name.
            let names = &mut self.names;
            names.clear();
            names.push((0, 0));
            for (_, word) in self
                .kinds
                .iter()
                .zip(&self.words)
                .filter(|(known, _)| **known == kind)
            {
                if let Err(place) = names.binary_search_by_key(word, |(name, _)| *name) {
                    names.insert(place, (*word, 0));
                }
            }
            for place in 1..names.len() {
                let (below, rank) = names[place - 1];
                let apart = names[place].0 - below;
                names[place].1 = rank + if kind == Kind::Generation { apart.min(2) } else { 1 };
            }
            for (known, word) in self.kinds.iter().zip(&mut self.words) {
                if *known == kind {
                    let place = names.binary_search_by_key(word, |(name, _)| *name);
                    *word = names[place.expect("collected above")].1;
                }
            }
        }
    }
}

impl State {
    /// Writes the state's key.
    fn write(&self, key: &mut Key) {
        key.kinds.clear();
        key.words.clear();
        key.plain(u32::from(self.asked) | u32::from(self.restart_wanted) << 1);
        key.plain(self.broken.map_or(0, |broken| broken as u32 + 1));
        if !self.relative {
            key.id(self.newest);
        }
        key.tag(self.relay.session_epoch(), self.relay.generation());
        key.plain(u32::from(self.relay.open_commit().is_some()));
        key.plain(self.relay.held().len() as u32);
        relay_tables(&self.relay)
            .iter()
            .for_each(|entry| key.entry(entry));
        key.plain(self.expired.len() as u32);
        self.expired.iter().for_each(|id| key.id(*id));
        key.plain(self.relay.candidates().count() as u32);
        for candidate in self.relay.candidates() {
            key.id(candidate.id.0);
            key.id(candidate.base.map_or(0, |base| base.0));
            key.plain(candidate.parts);
        }
        key.tag(self.client.session_epoch(), self.client.generation());
        key.plain(self.client.refusing().map_or(0, |reason| reason as u32));
        key.plain(self.client.in_use() as u32);
        for (entry, table) in client_tables(&self.client).iter() {
            key.entry(entry);
            key.id(table.base);
            key.plain(u32::from(table.damaged) | u32::from(table.reported) << 1);
        }
        key.plain(self.down.len() as u32);
        for part in &self.down {
            part.write(key);
        }
        key.plain(self.up.len() as u32);
        for said in &self.up {
            said.write(key);
        }
        self.scratch.write(key);
        if self.relative {
            key.relabel();
        }
    }
}

impl Part {
    /// Writes the part into a state's key.
    pub fn write(&self, key: &mut Key) {
        key.tag(self.epoch, self.generation);
        key.id(self.id);
        key.id(self.base);
        key.plain(u32::from(self.part) | u32::from(self.candidate) << 8 | u32::from(self.digest) << 9);
        self.on.0.iter().for_each(|id| key.id(*id));
        key.plain(self.pact.map_or(0, |pact| 1 + pact.skew));
        let set = self.pact.iter().flat_map(|pact| &pact.set);
        set.for_each(|entry| key.entry(entry));
    }
}

impl Said {
    fn write(&self, key: &mut Key) {
        key.tag(self.epoch, self.generation);
        key.plain(u32::from(self.ask) | u32::from(self.refuse) << 1);
        for (id, mask) in self.held {
            key.id(id);
            key.plain(mask);
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        KEY.with_borrow_mut(|key| {
            self.write(key);
            key.words.hash(hasher);
        });
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        let words = |state: &State| {
            let mut key = Key::default();
            state.write(&mut key);
            key.words
        };
        words(self) == words(other)
    }
}
