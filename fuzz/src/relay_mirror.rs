//! What a relay believes a client holds, worked out again from what the relay sent and the client said.
//!
//! The mirror gets every part. Whatever subset of parts the client reports, the relay's table must be the base's
//! table plus those parts (TAB8): so each body must decode against that table, and each digest must be its digest.

use std::collections::{BTreeMap, BTreeSet};

use ackline::delta::decode::{Change, Entry, body};
use ackline::delta::layout::Layout;
use ackline::limits::WINDOW_SLOTS;
use ackline::relay::session::Session;
use ackline::sequence::Tick;
use ackline::state::digest::Digest;
use ackline::state::schema::Schema;
use ackline::wire::bytes::ByteReader;
use ackline::wire::owner::OwnerBlock;
use ackline::wire::payload::{self, CloseReason, Welcome};
use ackline::wire::report::Report;
use ackline::wire::snapshot::SnapshotHeader;
use ackline::wire::stream::skip_block;

use super::records::{self, Table};

/// A snapshot as it was sent.
#[derive(Clone, Debug, Default)]
struct Sent {
    base: Option<Tick>,
    candidate: bool,
    parts: BTreeMap<u8, Vec<Entry>>,
}

/// See the module.
#[derive(Default)]
pub struct Mirror {
    session_epoch: u32,
    sent: BTreeMap<u32, Sent>,
    tables: BTreeMap<u32, (u32, Table)>,
    said: BTreeSet<(u32, u32, u32)>,
    /// The stream epoch the relay spoke of last.
    pub stream_epoch: u32,
    pub snapshots: u64,
}

impl Mirror {
    /// A payload of the relay.
    pub fn receive(&mut self, bytes: &[u8], schema: &Schema, session: Option<&Session>) {
        let mut reader = ByteReader::new(bytes);
        let known = payload::SNAPSHOT
            | payload::MESSAGES
            | payload::WELCOME
            | payload::CLOSE
            | payload::OWNER
            | payload::INPUTS_ACK
            | payload::PATH_CHALLENGE;
        let flags = payload::flags(&mut reader, known).expect("flags");
        reader.u16().expect("a clock stamp");
        if flags & payload::CLOSE != 0 {
            assert!(CloseReason::from_code(reader.u8().unwrap()).is_some());
        }
        if flags & payload::PATH_CHALLENGE != 0 {
            reader.bytes(8).expect("a challenge");
        }
        if flags & payload::WELCOME != 0 {
            self.stream_epoch = Welcome::decode(&mut reader).expect("a welcome").stream_epoch;
        }
        if flags & payload::INPUTS_ACK != 0 {
            assert!(reader.varint().expect("a number") > 0);
        }
        if flags & payload::OWNER != 0 {
            let block = OwnerBlock::decode(&mut reader).expect("an owner block");
            if block.stream_epoch == self.stream_epoch {
                let layout = Layout::new(schema);
                let mut entries = Vec::new();
                let read = body(&layout, block.record, 1, block.server_us, |_| None, &mut entries);
                read.expect("an owner's record");
                assert!(matches!(entries[0].change, Change::Complete(_)));
            }
        }
        if flags & payload::MESSAGES != 0 {
            skip_block(&mut reader).expect("messages");
        }
        if flags & payload::SNAPSHOT != 0 {
            let header = SnapshotHeader::decode(&mut reader).expect("a header");
            self.snapshot(&header, reader.rest(), schema);
        } else {
            reader.end().expect("nothing behind the blocks");
        }
        if let Some(session) = session {
            assert!(session.window.in_use() <= WINDOW_SLOTS);
        }
    }

    fn snapshot(&mut self, header: &SnapshotHeader, body: &[u8], schema: &Schema) {
        assert!(
            header.session_epoch >= self.session_epoch,
            "session epochs never fall (WIN10)"
        );
        if header.session_epoch > self.session_epoch {
            assert!(
                header.base.is_none() && header.commit.is_none(),
                "a new epoch begins with nothing (WIN10)"
            );
            (self.session_epoch, self.stream_epoch) = (header.session_epoch, header.stream_epoch);
            self.sent.clear();
            self.tables.clear();
        }
        let empty = (0, Table::new());
        let (_, base) = match header.base {
            None => &empty,
            Some(base) => self
                .tables
                .get(&base.0)
                .expect("only what is held is named (WIN1)"),
        };
        if let Some(digest) = header.base_digest {
            assert_eq!(
                digest,
                digest_of(base).0,
                "the base's digest is of the base (DEC9)"
            );
        }
        if let Some(commit) = &header.commit {
            let mut sum = Digest::EMPTY;
            for held in commit.set() {
                let (mask, table) = self
                    .tables
                    .get(&held.id.0)
                    .expect("only what is held is committed (WIN3)");
                assert_eq!(*mask, held.mask, "with the parts of the first report (TAB8)");
                sum = sum.plus(digest_of(table));
            }
            assert_eq!(
                commit.digest, sum.0,
                "the commit's digest is of its tables (DEC9)"
            );
            assert!(
                header.base.is_none_or(|base| commit.find(base).is_some()),
                "only the set is named (WIN4)"
            );
        }
        let layout = Layout::new(schema);
        let entries = records::decode(&layout, base, body, header.count as usize, header.server_us)
            .expect("a relay's body decodes against the base it names (TAB2)");
        assert_eq!(
            records::encode(&layout, base, &entries, header.server_us),
            body,
            "in its one form"
        );
        let sent = self.sent.entry(header.id.0).or_default();
        (sent.base, sent.candidate) = (header.base, header.candidate);
        assert!(
            sent.parts.insert(header.part, entries).is_none(),
            "a part is sent once"
        );
        self.snapshots += 1;
    }

    /// A report that the relay took: what is held now must be what was said, and is the base of what follows.
    pub fn reported(&mut self, report: &Report, session: &Session) {
        for held in report.held.as_slice() {
            self.said.insert((report.session_epoch, held.id.0, held.mask));
        }
        self.compare(session);
    }

    /// Takes over what the relay holds; forgets what it dropped.
    pub fn compare(&mut self, session: &Session) {
        let epoch = session.window.session_epoch();
        if epoch != self.session_epoch {
            assert!(
                session.window.held().is_empty(),
                "nothing is held of an epoch nobody has seen"
            );
            return;
        }
        for held in session.window.held() {
            let (id, mask) = (held.held.id.0, held.held.mask);
            assert!(
                self.said.contains(&(epoch, id, mask)),
                "the relay holds what nobody reported (WIN1)"
            );
            if let Some((known, _)) = self.tables.get(&id) {
                assert_eq!(*known, mask, "a table's parts never change (TAB8)");
                continue;
            }
            let sent = self.sent.get(&id).expect("held means sent");
            assert!(sent.candidate, "only candidates are held");
            let mut table = match sent.base {
                None => Table::new(),
                Some(base) => self
                    .tables
                    .get(&base.0)
                    .expect("on a base that is held")
                    .1
                    .clone(),
            };
            for (part, entries) in &sent.parts {
                if mask >> part & 1 == 1 {
                    records::apply(&mut table, entries);
                }
            }
            self.tables.insert(id, (mask, table));
        }
        self.tables
            .retain(|id, _| session.window.find(Tick(*id)).is_some());
        let tables = &self.tables;
        let waits = |id: &u32| session.window.candidates().any(|candidate| candidate.id.0 == *id);
        self.sent.retain(|id, _| waits(id) || tables.contains_key(id));
    }
}

/// The digest of a table, from its records.
pub fn digest_of(table: &Table) -> Digest {
    table
        .values()
        .fold(Digest::EMPTY, |sum, record| sum.plus(Digest::of(record)))
}
