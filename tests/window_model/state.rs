//! A state of the model: both shipped windows, what is in flight between them, and ghosts that say what was meant.

use std::fmt;

use ackline::sequence::Tick;
use ackline::window::receive::ReceiveWindow;
use ackline::window::send::SendWindow;
use ackline::wire::report::RefuseReason;
use ackline::wire::snapshot::{Commit, Held, SnapshotHeader};

use crate::fault::Scratch;

/// Parts of a snapshot at most.
pub const PARTS: usize = 2;
/// Entries of a commit at most.
pub const SET_MAX: usize = 3;
/// Entries of a report at most.
pub const LIST_MAX: usize = 6;

/// What a table holds: for each part of the world the snapshot it was last heard in; 0 is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content(pub [u32; PARTS]);

impl Content {
    /// This content after the parts `mask` of snapshot `id`.
    pub fn with(mut self, id: u32, mask: u32) -> Content {
        for (part, entry) in self.0.iter_mut().enumerate() {
            if mask >> part & 1 == 1 {
                *entry = id;
            }
        }
        self
    }

    /// Digest words; contents that differ have different ones at the sizes of this model.
    pub fn digest(self) -> [u32; 2] {
        self.0.map(|id| id.wrapping_mul(0x9E37_79B9) ^ id)
    }
}

/// A table at the client, with what the window knows about it: the window's own fields are private, and the key
/// needs them. A test checks that nothing is missing (`the_reduction_is_a_bisimulation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTable {
    pub content: Content,
    pub damaged: bool,
    pub base: u32,
    pub reported: bool,
}

impl ClientTable {
    /// The digest as the client computes it.
    pub fn digest(&self) -> [u32; 2] {
        let [a, b] = self.content.digest();
        [a ^ u32::from(self.damaged), b]
    }
}

/// A snapshot with its parts and content, as ghosts carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub id: u32,
    pub mask: u32,
    pub content: Content,
}

/// A commit on its way; `skew` is what a fault adds to its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pact {
    pub set: [Entry; SET_MAX],
    pub skew: u32,
}

impl Pact {
    /// A pact of `entries`, newest first.
    pub fn new(entries: &[Entry]) -> Pact {
        let mut set = [Entry::default(); SET_MAX];
        set[..entries.len()].copy_from_slice(entries);
        set.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.id));
        Pact { set, skew: 0 }
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.set.iter().filter(|entry| entry.id != 0)
    }

    /// The sum of the digests of the set.
    pub fn digest(&self) -> [u32; 2] {
        self.entries().fold([self.skew, 0], |[a, b], entry| {
            let [c, d] = entry.content.digest();
            [a.wrapping_add(c), b.wrapping_add(d)]
        })
    }

    /// The set as the wire has it.
    pub fn held(&self) -> Vec<Held> {
        let held = |entry: &Entry| Held {
            id: Tick(entry.id),
            mask: entry.mask,
        };
        self.entries().map(held).collect()
    }
}

/// A part in flight. `on` is a ghost: what the relay held under the base when it encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    pub epoch: u32,
    pub generation: u32,
    pub id: u32,
    pub part: u8,
    pub base: u32,
    pub candidate: bool,
    pub digest: bool,
    pub on: Content,
    pub pact: Option<Pact>,
}

impl Part {
    /// The header the shipped code reads.
    pub fn header(&self) -> SnapshotHeader {
        SnapshotHeader {
            exhaustive: true,
            stream_epoch: 1,
            session_epoch: self.epoch,
            generation: self.generation,
            id: Tick(self.id),
            part: self.part,
            last: false,
            base: (self.base != 0).then_some(Tick(self.base)),
            server_us: 0,
            candidate: self.candidate,
            view_complete: false,
            stale: false,
            commit: self.pact.map(|pact| {
                Commit::new(&pact.held(), pact.digest())
                    .expect("the model builds only sets the wire can carry")
            }),
            base_digest: (self.digest && self.base != 0).then(|| self.on.digest()),
            count: 0,
        }
    }
}

/// A report in flight: (id, mask) of everything said to be held, newest first, zeros after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Said {
    pub epoch: u32,
    pub generation: u32,
    pub held: [(u32, u32); LIST_MAX],
    pub ask: bool,
    pub refuse: u8,
}

impl Said {
    /// The list as the shipped code reads it.
    pub fn list(&self) -> Vec<Held> {
        let said = self.held.iter().filter(|(id, _)| *id != 0);
        said.map(|(id, mask)| Held {
            id: Tick(*id),
            mask: *mask,
        })
        .collect()
    }

    /// What is refused.
    pub fn reason(&self) -> Option<RefuseReason> {
        RefuseReason::from_code(self.refuse)
    }

    /// Adds an entry and keeps the list newest first.
    pub fn push(&mut self, id: u32, mask: u32) {
        if let Some(place) = self.held.iter_mut().find(|(id, _)| *id == 0) {
            *place = (id, mask);
        }
        self.held.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
    }
}

/// A property that a step or a state broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Broken {
    /// WIN1: the relay may name a table that the client does not hold.
    NamesUnheld,
    /// TAB8: both ends hold one id with different parts or content.
    ContentDiffers,
    /// TAB1: a part was decoded on other content than it was encoded on.
    WrongBase,
    /// WIN7, WIN10: an epoch or a generation went back.
    WentBack,
    /// WIN3: a part of an older epoch or generation was taken.
    TookOld,
    /// WIN3, WIN6: the relay's confirmed generation, the client's and the relay's open one are not in order.
    GenerationsApart,
    /// WIN1, WIN5: more tables than slots at the client.
    ClientOverfull,
    /// WIN1, WIN9: more copies than slots at the relay.
    RelayOverfull,
    /// TAB8: a reported snapshot changed its parts or content.
    FixedChanged,
    /// TAB8: a reported snapshot left without commit or epoch.
    ReportedDropped,
    /// WIN11: the client switched to a set that is not intact.
    DamagedSetTaken,
    /// WIN2: the client refused although nothing is damaged.
    NeedlessRefusal,
    /// WINDOW-MODEL A22: an advance nobody in this generation asked for.
    NeedlessAdvance,
    /// WIN10: a new epoch because of what an older one said.
    NeedlessEpoch,
    /// TAB8: an honest client's report contradicts what the relay knows.
    Contradiction,
}

/// A short list without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Few<T> {
    items: [T; LIST_MAX],
    length: usize,
}

impl<T: Copy + Default> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Few<T> {
        let mut few = Few {
            items: [T::default(); LIST_MAX],
            length: 0,
        };
        for item in items {
            few.items[few.length] = item;
            few.length += 1;
        }
        few
    }
}

impl<T> std::ops::Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.length]
    }
}

impl<T> std::ops::DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..self.length]
    }
}

/// The whole state.
#[derive(Clone)]
pub struct State {
    /// Names are compared by rank (unbounded runs) and not by value.
    pub relative: bool,
    pub relay: SendWindow<u8, Content>,
    pub asked: bool,
    pub restart_wanted: bool,
    /// Held tables that the relay names no more: their lease is over.
    pub expired: Vec<u32>,
    /// The newest snapshot id given out.
    pub newest: u32,
    pub client: ReceiveWindow<ClientTable>,
    pub down: Vec<Part>,
    pub up: Vec<Said>,
    pub broken: Option<Broken>,
    pub scratch: Scratch,
}

/// Everything held at the client, by id.
pub fn client_tables(client: &ReceiveWindow<ClientTable>) -> Few<(Entry, ClientTable)> {
    let entry = |(held, table): (Held, &ClientTable)| {
        let entry = Entry {
            id: held.id.0,
            mask: held.mask,
            content: table.content,
        };
        (entry, *table)
    };
    let mut tables: Few<_> = client.tables().map(entry).collect();
    tables.sort_unstable_by_key(|(entry, _)| entry.id);
    tables
}

/// Everything held at the relay, by id.
pub fn relay_tables(relay: &SendWindow<u8, Content>) -> Few<Entry> {
    let entry = |held: &ackline::window::send::HeldTable<Content>| Entry {
        id: held.held.id.0,
        mask: held.held.mask,
        content: held.table,
    };
    let mut tables: Few<Entry> = relay.held().iter().map(entry).collect();
    tables.sort_unstable_by_key(|entry| entry.id);
    tables
}

impl State {
    /// The client's tag as it is on the wire.
    pub fn client_tag(&self) -> (u32, u32) {
        let epoch = self.scratch.wire_epoch.unwrap_or(self.client.session_epoch());
        (epoch, self.client.generation() - self.scratch.shift)
    }

    /// The relay's confirmed generation.
    pub fn confirmed(&self) -> u32 {
        self.relay.generation() - u32::from(self.relay.open_commit().is_some())
    }

    /// Forgets the leases of what the relay holds no more.
    pub fn tidy(&mut self) {
        let relay = &self.relay;
        self.expired.retain(|id| relay.find(Tick(*id)).is_some());
    }

    /// Marks a broken property; the first one counts.
    pub fn broke(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, generation) = self.client_tag();
        let ids = |mut text: String, entry: Entry| {
            text += &format!(" {}:{:b}", entry.id, entry.mask);
            text
        };
        let relay = relay_tables(&self.relay).iter().copied().fold(String::new(), ids);
        let tables = client_tables(&self.client);
        let client = tables.iter().map(|(entry, _)| *entry).fold(String::new(), ids);
        let open = if self.relay.open_commit().is_some() {
            " open"
        } else {
            ""
        };
        write!(
            f,
            "relay {}/{}{open}{relay} | client {epoch}/{generation}{client}",
            self.relay.session_epoch(),
            self.relay.generation(),
        )
    }
}
