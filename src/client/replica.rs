//! The replicated world at a client: window, tables and display, and how a snapshot part gets into them.
//!
//! > Two steps: `judge` looks and decodes and changes nothing that lasts; `take` cannot fail and changes all
//! > at once. In between nothing is stored, acknowledged or shown (SPEC TAB2).
//!
//! The order of judging: stream, session epoch, generation and commit, base and digest, then every field of the
//! body. A part is decoded from the base it names and from nothing else (SPEC TAB1, FAULTS 03).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::arrivals::{Arrivals, Noted};
use super::display::{Display, DisplayView, Moment, Shown};
use super::draft::Draft;
use super::owner::OwnerState;
use super::refusal::Refusal;
use super::statistics::{Footprint, Statistics};
use super::table::{ClientTable, RecordPool, TableView};
use crate::delta::decode::Entry;
use crate::delta::layout::Layout;
use crate::delta::schema;
use crate::sequence::Tick;
use crate::state::schema::Schema;
use crate::window::WindowLimits;
use crate::window::receive::{Admission, ReceiveWindow, Rejection};
use crate::wire::owner::OwnerBlock;
use crate::wire::payload::Welcome;
use crate::wire::report::{HeldList, RefuseReason};
use crate::wire::snapshot::{Held, SnapshotHeader};
use core::cell::Cell;

/// A stream whose schema is known.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) epoch: u32,
    pub(super) schema: Schema,
    layout: Layout,
}

impl Stream {
    /// The stream a Welcome brings, or `None` when it is not newer than `known`.
    ///
    /// # Errors
    /// [`Refusal::MalformedSchema`].
    pub(super) fn of(welcome: &Welcome<'_>, known: u32) -> Result<Option<Box<Stream>>, Refusal> {
        if welcome.stream_epoch <= known {
            return Ok(None);
        }
        let schema = schema::decode(welcome.schema).map_err(|_| Refusal::MalformedSchema)?;
        let layout = Layout::new(&schema);
        Ok(Some(Box::new(Stream {
            epoch: welcome.stream_epoch,
            schema,
            layout,
        })))
    }
}

/// A snapshot of which a part was taken; the newest one, where a client is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestSnapshot {
    /// Its id.
    pub id: Tick,
    /// Its frame time, server microseconds.
    pub server_us: u64,
    /// When its first part arrived, microseconds of the caller's clock.
    pub arrived_us: u64,
    /// The parts here, as bits.
    pub parts: u32,
    /// The number of its parts, once known.
    pub of: Option<u8>,
    /// No part says that something was left out: once whole, what it does not name is as in its base.
    pub exhaustive: bool,
    /// Its base has all of the view: with what it names that is all there is to be seen (SPEC DEC12).
    pub view_complete: bool,
    /// The same, and a part brought its base's digest, which was right (CTL6).
    pub asserted: bool,
}

impl NewestSnapshot {
    /// True when every part is here.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.of
            .is_some_and(|of| self.parts.trailing_ones() >= u32::from(of))
    }

    /// True when an entity that changed may be missing from it: for bandwidth, or with a part that is not here.
    #[must_use]
    pub fn omits(&self) -> bool {
        !(self.exhaustive && self.is_whole())
    }
}

/// What a part did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) shown: bool,
    pub(super) stored: bool,
    /// It is of a snapshot newer than any before.
    pub(super) newer: bool,
    /// First complete view of this session epoch.
    pub(super) completed_view: bool,
    /// The upstream's state changed.
    pub(super) stale: Option<bool>,
}

/// The replicated world.
#[derive(Debug)]
pub(super) struct Replica {
    window: ReceiveWindow<ClientTable>,
    pool: RecordPool,
    display: Display,
    stream: Option<Box<Stream>>,
    /// The newest state of the client's own entity in this stream.
    owner: Option<OwnerState>,
    /// The snapshot whose part was taken last, and its frame time.
    taken: Option<(Tick, u64)>,
    /// The stream that the session epoch is of.
    epoch_stream: u32,
    /// The session epoch in which a digest differed.
    distrusted_in: Option<u32>,
    arrivals: Arrivals,
    /// The session epoch in which a view was complete.
    complete_in: u32,
    /// The base of the last complete view. The next need not follow from it: of two snapshots made on an older base, or
    /// on none, the second lacks whom the first brought, though the part that said so was lost, and no delta says it.
    reconciled_on: Option<Tick>,
    stale: bool,
    /// Everything that lived until this server time has been shown, or its end has.
    settled_us: Option<u64>,
    draft: Draft,
    freed: Vec<ClientTable>,
}

impl Replica {
    pub(super) fn new(limits: WindowLimits) -> Replica {
        Replica {
            window: ReceiveWindow::new(limits),
            pool: RecordPool::default(),
            display: Display::default(),
            stream: None,
            owner: None,
            taken: None,
            epoch_stream: 0,
            distrusted_in: None,
            arrivals: Arrivals::new(),
            complete_in: 0,
            reconciled_on: None,
            stale: false,
            settled_us: None,
            draft: Draft::default(),
            freed: Vec::new(),
        }
    }

    pub(super) fn window(&self) -> &ReceiveWindow<ClientTable> {
        &self.window
    }

    pub(super) fn display(&self) -> DisplayView<'_> {
        DisplayView {
            display: &self.display,
            pool: &self.pool,
        }
    }

    pub(super) fn changes(&self) -> &[Shown] {
        self.display.changes()
    }

    pub(super) fn newest(&self) -> Option<&NewestSnapshot> {
        self.arrivals.newest()
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_deref()
    }

    pub(super) fn stream_epoch(&self) -> u32 {
        self.stream.as_ref().map_or(0, |stream| stream.epoch)
    }

    /// Until when, in server microseconds, nobody has lived that was neither shown nor is gone for good.
    pub(super) fn settled_us(&self) -> Option<u64> {
        self.settled_us
    }

    pub(super) fn is_stale(&self) -> bool {
        self.stale
    }

    /// The snapshot whose part was taken last, and its frame time.
    pub(super) fn taken(&self) -> Option<(Tick, u64)> {
        self.taken
    }

    /// The entries of the part taken last.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + Clone + '_ {
        self.draft.resolved(&self.pool)
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (Held, TableView<'_>)> + '_ {
        self.window.tables().map(|(held, table)| {
            (
                held,
                TableView {
                    pool: &self.pool,
                    table,
                },
            )
        })
    }

    /// What its memory is made of.
    pub(super) fn footprint(&self) -> Footprint {
        let (slots, graves) = self.display().slots();
        let (poses, heads) = self.pool.places();
        Footprint {
            slots,
            graves,
            tables: self.window.in_use() + self.pool.spare(),
            poses,
            heads,
        }
    }

    pub(super) fn begin_receive(&mut self) {
        self.taken = None;
        self.draft.clear(&mut self.pool);
        self.display.begin_receive();
    }

    /// Adopts a stream: what is shown of the old one goes at once. Tables stay until the session epoch that
    /// comes with it; nothing of the old stream decodes any more.
    pub(super) fn adopt(&mut self, stream: Box<Stream>) {
        self.stream = Some(stream);
        self.settled_us = None;
        self.owner = None;
        self.display.clear(&mut self.pool);
    }

    /// The newest state of the client's own entity.
    pub(super) fn owner(&self) -> Option<&OwnerState> {
        self.owner.as_ref()
    }

    /// Reads an owner block; `None` where it is of another stream. `adopted` is a stream that comes in the same datagram.
    ///
    /// # Errors
    /// [`Refusal::MalformedPayload`].
    pub(super) fn read_owner(
        &self,
        adopted: Option<&Stream>,
        block: &OwnerBlock<'_>,
    ) -> Result<Option<OwnerState>, Refusal> {
        match adopted.or(self.stream.as_deref()) {
            Some(stream) if stream.epoch == block.stream_epoch => OwnerState::read(block, &stream.layout)
                .map(Some)
                .map_err(|_| Refusal::MalformedPayload),
            _ => Ok(None),
        }
    }

    /// Takes an owner's state that was read; the newest tick wins.
    pub(super) fn take_owner(&mut self, state: Option<OwnerState>, statistics: &mut Statistics) {
        let newer = |state: &OwnerState| self.owner.is_none_or(|known| state.tick.is_after(known.tick));
        match state.filter(newer) {
            Some(state) => {
                self.owner = Some(state);
                statistics.owner_states += 1;
            }
            None => statistics.owner_states_late += 1,
        }
    }

    /// Decides about a part and decodes it. `adopted` is a stream that comes in the same datagram.
    ///
    /// # Errors
    /// [`Refusal`]. What the relay must hear of is remembered by the window.
    pub(super) fn judge(
        &mut self,
        adopted: Option<&Stream>,
        header: &SnapshotHeader,
        body: &[u8],
        statistics: &mut Statistics,
    ) -> Result<Admission, Refusal> {
        let stream = adopted.or(self.stream.as_deref()).ok_or(Refusal::UnknownStream)?;
        // A new stream begins a new session epoch: the old one's tables are of another schema (SPEC ID1).
        let continues = header.session_epoch > 0 && header.session_epoch == self.window.session_epoch();
        if stream.epoch != header.stream_epoch || (continues && stream.epoch != self.epoch_stream) {
            return Err(Refusal::UnknownStream);
        }
        if self.distrusts(header) {
            return Err(Refusal::DistrustedBase);
        }
        let admitted = self.window.admit(header, |table| self.pool.digest(table).0);
        statistics.count_digests(header, &admitted);
        let admission = admitted.map_err(|rejection| {
            if matches!(rejection, Rejection::BaseDigest | Rejection::CommitDigest) {
                self.distrusted_in = Some(header.session_epoch);
            }
            self.window.reject(rejection);
            Refusal::Window(rejection)
        })?;
        let base = self.window.base(&admission);
        self.draft
            .read(&stream.layout, header, body, base, &mut self.pool)
            .map_err(Refusal::Body)?;
        Ok(admission)
    }

    /// Once a digest differed, no table of this session epoch is decoded from: what is wrong is not shown
    /// (THREATS 43).
    fn distrusts(&self, header: &SnapshotHeader) -> bool {
        let epoch = self.window.session_epoch();
        header.base.is_some() && header.session_epoch == epoch && self.distrusted_in == Some(epoch)
    }

    /// Takes the part that was judged last.
    pub(super) fn take(
        &mut self,
        header: &SnapshotHeader,
        admission: &Admission,
        now_us: u64,
        statistics: &mut Statistics,
    ) -> Taken {
        let Noted {
            newer,
            current,
            whole,
        } = self.arrivals.note(header, now_us);
        self.taken = Some((header.id, header.server_us));
        statistics.count_part(admission, newer, current);
        let shut_out = header.candidate && !admission.is_stored() && self.window.is_full();
        statistics.parts_window_full += u64::from(shut_out);
        statistics.entries_decoded += self.draft.entries().len() as u64;
        statistics.first_snapshot_us.get_or_insert(now_us);
        let completed_view = header.view_complete && self.complete_in != header.session_epoch;
        self.show(header, admission, whole, statistics);
        if completed_view {
            self.complete_in = header.session_epoch;
            statistics.view_complete_us.get_or_insert(now_us);
        }
        self.store(header, admission, statistics);
        self.epoch_stream = header.stream_epoch;
        let stale = (newer && header.stale != self.stale).then_some(header.stale);
        self.stale = stale.unwrap_or(self.stale);
        Taken {
            shown: current || !self.display.changes().is_empty(),
            stored: admission.is_stored(),
            newer,
            completed_view,
            stale,
        }
    }

    fn show(
        &mut self,
        header: &SnapshotHeader,
        admission: &Admission,
        whole: bool,
        statistics: &mut Statistics,
    ) {
        let base = self.window.base(admission);
        let moment = Moment {
            id: header.id,
            server_us: header.server_us,
        };
        let (display, pool) = (&mut self.display, &mut self.pool);
        display.apply(moment, self.draft.entries(), header.base.zip(base), pool);
        let as_of = header.base.unwrap_or(header.id.minus(1));
        let asserted = self.arrivals.newest().is_some_and(|newest| newest.asserted);
        if whole && header.view_complete && asserted {
            self.settled_us = Some(header.server_us);
            statistics.reinstated += display.reassert(moment, as_of, base, pool);
        }
        if header.view_complete {
            let all = header.base.is_none() || header.base != self.reconciled_on;
            self.reconciled_on = header.base;
            statistics.reconciled += display.reconcile(moment, as_of, base, all, pool);
        }
    }

    fn store(&mut self, header: &SnapshotHeader, admission: &Admission, statistics: &mut Statistics) {
        let Replica {
            window,
            pool,
            draft,
            freed,
            ..
        } = self;
        let entries = draft.entries();
        // One of the two closures runs, once.
        let pool_for_one = Cell::new(Some(&mut *pool));
        let make = |base: Option<&ClientTable>| match pool_for_one.take() {
            Some(pool) => pool.build(base, entries),
            None => RecordPool::default().build(None, &[]),
        };
        let join = |table: &mut ClientTable| {
            if let Some(pool) = pool_for_one.take() {
                pool.apply(table, entries);
            }
        };
        let before = window.in_use();
        window.accept(header, admission, make, join, freed);
        let grown = window.in_use() + freed.len() > before;
        statistics.snapshots_stored += u64::from(grown);
        for table in freed.drain(..) {
            pool.release(table);
        }
        statistics.slots_in_use = window.in_use() as u64;
        statistics.slots_in_use_max = statistics.slots_in_use_max.max(statistics.slots_in_use);
    }

    /// Everything held, for a report. A snapshot whose parts are not all here waits for them, at least `hold_back_us`
    /// after its first one.
    pub(super) fn report(&mut self, now_us: u64, hold_back_us: u64) -> HeldList {
        let arrivals = &self.arrivals;
        self.window.report(|held| {
            arrivals
                .waits_until(held.id, hold_back_us)
                .is_some_and(|until| now_us < until)
        })
    }

    /// Until when a snapshot waits for more of its parts; `None` when it does not.
    pub(super) fn waits_until(&self, id: Tick, hold_back_us: u64) -> Option<u64> {
        self.arrivals.waits_until(id, hold_back_us)
    }

    /// When the next snapshot after `now_us` has waited enough.
    pub(super) fn next_wait(&self, now_us: u64, hold_back_us: u64) -> Option<u64> {
        self.arrivals.next_end(now_us, hold_back_us)
    }

    /// Asks for a full state.
    pub(super) fn refuse(&mut self, reason: RefuseReason) {
        self.window.refuse(reason);
    }

    /// Flips one bit of one record of a held table; false when nothing is held.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn flip_bit(&mut self, seed: u64) -> bool {
        let tables = self.window.in_use();
        if tables == 0 {
            return false;
        }
        let pick = usize::try_from(seed / 31 % tables as u64).unwrap_or(0);
        let Some((_, table)) = self.window.tables().nth(pick) else {
            return false;
        };
        self.pool.flip_bit(table, seed)
    }
}

impl Statistics {
    fn count_digests(&mut self, header: &SnapshotHeader, admitted: &Result<Admission, Rejection>) {
        let (checked, differs) = match admitted {
            Ok(admission) => (
                u64::from(header.base_digest.is_some()) + u64::from(admission.commits()),
                0,
            ),
            Err(Rejection::BaseDigest | Rejection::CommitDigest) => (1, 1),
            Err(_) => (0, 0),
        };
        self.digest_checked += checked;
        self.digest_mismatches += differs;
    }

    fn count_part(&mut self, admission: &Admission, newer: bool, current: bool) {
        self.parts_received += 1;
        self.snapshots_received += u64::from(newer);
        self.parts_late += u64::from(!current);
        self.parts_stored += u64::from(admission.is_stored());
        self.advances_applied += u64::from(admission.commits());
        self.epochs_begun += u64::from(admission.begins_epoch());
    }
}
