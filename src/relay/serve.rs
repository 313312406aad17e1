//! Serving one session at one tick: base, commit, bodies, parts.
//!
//! All branches of the walk down are in [`serve`]; what it calls is a look-up or a pure function.

use std::sync::Arc;

use crate::limits::{JOIN_SPACING_US, PARTS_PER_TICK, SILENT_US, UNCONFIRMED_BYTES, digest_spacing_us};
use crate::sequence::Tick;
use crate::state::Frame;
use crate::state::entity::Entity;
use crate::state::slots::Slot;
use crate::window::send::{Candidate, Dropped};
use crate::wire::snapshot::{Held, SnapshotHeader};

use super::arena::Arena;
use super::bodies::{Bodies, full_mask};
use super::compose::{Blocks, Outer, compose};
use super::counters::{Counters, Withheld};
use super::outbox::Outbox;
use super::plan::Planned;
use super::segments::SegmentCache;
use super::session::Session;
use super::table::Table;

/// Bytes a second and bytes at once that one session may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Bytes at once.
    pub burst_bytes: u64,
}

impl Default for Budget {
    /// 4 Mbit/s, 64 KiB at once: a join of a thousand records in one burst.
    fn default() -> Budget {
        Budget {
            bytes_per_s: 512 << 10,
            burst_bytes: 64 << 10,
        }
    }
}

/// What all sessions of a shard share while a tick is served: bodies by base, segments, scratch.
pub struct Kitchen {
    plan: Planned,
    segments: SegmentCache,
    shared: Vec<(Option<Tick>, Bodies)>,
    shared_used: usize,
    private: Bodies,
    forced: Vec<Slot>,
    budget: Budget,
    stopwatch: fn() -> u64,
}

/// Which bodies a session's snapshot uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dish {
    Shared(usize),
    Private,
}

impl Kitchen {
    /// An empty kitchen. `stopwatch` gives nanoseconds for the cost figures; it may stand still.
    #[must_use]
    pub fn new(budget: Budget, stopwatch: fn() -> u64) -> Kitchen {
        Kitchen {
            plan: Planned::default(),
            segments: SegmentCache::new(),
            shared: Vec::new(),
            shared_used: 0,
            private: Bodies::default(),
            forced: Vec::new(),
            budget,
            stopwatch,
        }
    }

    /// A new stream: its layout.
    pub fn set_layout(&mut self, layout: crate::delta::layout::Layout) {
        self.segments.set_layout(layout);
    }

    /// A new frame: nothing made for the last one holds.
    pub fn begin_tick(&mut self, frame: &Frame, counters: &mut Counters) {
        self.segments.begin_tick(frame.slot_count());
        self.shared_used = 0;
        let (hits, misses) = self.segments.take_counts();
        counters.segment_hits += hits;
        counters.segment_misses += misses;
    }

    fn bodies(&self, dish: Dish) -> &Bodies {
        match dish {
            Dish::Shared(index) => self.shared.get(index).map_or(&self.private, |(_, bodies)| bodies),
            Dish::Private => &self.private,
        }
    }

    /// The bodies that turn `base` into the newest frame: shared where base is whole or empty and nothing is
    /// forced, else made for this session. `None` when the base has left the arena.
    fn cook(
        &mut self,
        arena: &Arena,
        base: Option<&Table>,
        requests: &[(u32, u32)],
        counters: &mut Counters,
    ) -> Option<Dish> {
        let frame = arena.newest()?;
        self.forced.clear();
        if !requests.is_empty() {
            let asked = |entity: Entity| requests.contains(&(entity.id, entity.generation));
            let found = frame.records().filter(|(_, record)| asked(record.entity));
            self.forced.extend(found.map(|(slot, _)| slot));
        }
        counters.requested_records += self.forced.len() as u64;
        let key = match base {
            None => Some(None),
            Some(Table::Whole(tick)) => Some(Some(*tick)),
            Some(Table::Explicit { .. } | Table::Lost(_)) => None,
        };
        let key = key.filter(|_| self.forced.is_empty());
        if let Some(key) = key {
            if let Some(index) = self
                .shared
                .iter()
                .take(self.shared_used)
                .position(|(known, _)| *known == key)
            {
                counters.body_shares += 1;
                return Some(Dish::Shared(index));
            }
            if self.shared_used == self.shared.len() {
                self.shared.push((None, Bodies::default()));
            }
        }
        counters.body_builds += 1;
        if !self.plan.plan(arena, base, &self.forced) {
            return None;
        }
        counters.complete_records += u64::from(self.plan.fallback_records());
        let (dish, bodies) = match key {
            Some(key) => {
                let index = self.shared_used;
                self.shared_used += 1;
                let (place, bodies) = self.shared.get_mut(index)?;
                *place = key;
                (Dish::Shared(index), bodies)
            }
            None => (Dish::Private, &mut self.private),
        };
        if !Bodies::fits_one_part(&self.plan, &mut self.segments) {
            // Turn the order, so that what is always lost or never fits is not always the same (SPEC TAB8).
            self.plan.rotate(frame.tick.0 as usize * 389, frame.slot_count());
        }
        bodies.pack(&self.plan, &mut self.segments);
        Some(dish)
    }
}

/// Serves `session` the newest frame of `arena`. True when a snapshot was sent.
pub fn serve(
    session: &mut Session,
    arena: &Arena,
    kitchen: &mut Kitchen,
    now_us: u64,
    outbox: &mut impl Outbox,
    counters: &mut Counters,
) -> bool {
    let Some(frame) = arena.newest() else { return false };
    session.first.get_or_insert(frame.tick);
    session.served = Some(frame.tick);
    session.deferred = false;
    // What is sent under an id never differs (WINDOW-MODEL A16): a tick is sent once, whoever asks for it again.
    if session.snapshot_of == Some(frame.tick) {
        return false;
    }
    if let Some(reason) = reason_to_wait(session, frame, now_us) {
        session.deferred = reason == Withheld::Behind;
        counters.withhold(reason);
        return false;
    }
    let chosen = session.choose_base(arena);
    let restarted = session.restart_if_wanted(now_us, chosen.err(), counters);
    if session.waits_for_restart(now_us) {
        counters.withhold(Withheld::RestartPacing);
        return false;
    }
    let base = if restarted { None } else { chosen.ok().flatten() };
    session.advance_if_asked(now_us, base, arena, counters);
    let base_complete = base.is_some_and(|base| {
        session
            .window
            .find(base.id)
            .is_some_and(|b| b.table.is_complete())
    });
    session.whole |= base_complete;
    if base_complete && session.complete_us.is_none() {
        session.complete_us = Some(now_us);
        counters
            .view_complete_us
            .observe(now_us.saturating_sub(session.created_us));
    }
    // All that can withhold a snapshot is asked before anything is planned for it: what a client costs its shard is not
    // the client's to choose (SPEC OPS1).
    if !session.whole && now_us.saturating_sub(session.heavy_us) < JOIN_SPACING_US {
        counters.withhold(Withheld::JoinPacing);
        return false;
    }
    refill(session, kitchen.budget, now_us);
    if session.tokens <= 0 {
        counters.withhold(Withheld::Budget);
        return false;
    }
    let begun = (kitchen.stopwatch)();
    let mut requests = core::mem::take(&mut session.requests);
    if now_us.saturating_sub(session.requests_us) < REQUEST_SPACING_US {
        requests.clear();
    } else if !requests.is_empty() {
        session.requests_us = now_us;
    }
    let table = base
        .and_then(|base| session.window.find(base.id))
        .map(|held| &held.table);
    let dish = kitchen.cook(arena, table, &requests, counters);
    session.requests = requests;
    session.requests.clear();
    let Some(dish) = dish else { return false };
    let encode_ns = (kitchen.stopwatch)().saturating_sub(begun);
    let bodies = kitchen.bodies(dish);
    let sending = Sending {
        base,
        base_complete,
        encode_ns,
        bodies,
        stopwatch: kitchen.stopwatch,
    };
    sending.send(session, arena, frame, now_us, outbox, counters)
}

/// Least time between two answers to requests for single records, microseconds (FAULTS 38).
const REQUEST_SPACING_US: u64 = 100_000;

/// Why nothing is planned for a session at this tick.
fn reason_to_wait(session: &Session, frame: &Frame, now_us: u64) -> Option<Withheld> {
    if now_us.saturating_sub(session.heard_us) > SILENT_US {
        return Some(Withheld::Silent);
    }
    if session.confirmed && session.stream_epoch_known != frame.stream_epoch {
        return Some(Withheld::Unwelcomed);
    }
    if !session.pace.allows(now_us.saturating_sub(session.snapshot_us)) {
        return Some(Withheld::Behind);
    }
    None
}

/// One snapshot on its way.
struct Sending<'a> {
    base: Option<Held>,
    base_complete: bool,
    encode_ns: u64,
    bodies: &'a Bodies,
    stopwatch: fn() -> u64,
}

impl Sending<'_> {
    #[allow(clippy::too_many_arguments)]
    fn send(
        &self,
        session: &mut Session,
        arena: &Arena,
        frame: &Arc<Frame>,
        now_us: u64,
        outbox: &mut impl Outbox,
        counters: &mut Counters,
    ) -> bool {
        let needed = self.bodies.parts().len();
        // Parts are of similar size: what the budget holds, at least one.
        let affordable = usize::try_from(session.tokens)
            .unwrap_or(0)
            .div_ceil(crate::limits::DATAGRAM_MAX);
        let parts = needed.min(affordable.max(1)).min(PARTS_PER_TICK);
        let header = self.header(session, arena, frame, now_us);
        let mut bytes = 0;
        let mut seal_ns = 0;
        let mut sent = 0u32;
        for (index, part) in self.bodies.parts().iter().take(parts).enumerate() {
            let header = SnapshotHeader {
                part: u8::try_from(index).unwrap_or(0),
                last: index + 1 == parts,
                exhaustive: parts == needed,
                count: part.count,
                // Once a snapshot is enough: each digest costs the client a walk over its table.
                base_digest: header.base_digest.filter(|_| index == 0),
                ..header
            };
            let blocks = Blocks {
                messages: index + 1 == parts,
                snapshot: Some((&header, self.bodies.body(part))),
                ..Blocks::default()
            };
            let Some(composed) = compose(session, Outer::Down, blocks, now_us, self.stopwatch, outbox) else {
                break;
            };
            bytes += composed.bytes;
            seal_ns += composed.seal_ns;
            sent += 1;
            counters.records_sent += u64::from(part.count);
        }
        if sent == 0 {
            return false;
        }
        (session.snapshot_us, session.snapshot_of) = (now_us, Some(frame.tick));
        self.record(session, frame, &header, sent, bytes, now_us, counters);
        counters.encode_total_ns += self.encode_ns;
        counters.seal_total_ns += seal_ns;
        counters.packets_measured += u64::from(sent);
        counters.encode_ns.observe(self.encode_ns / u64::from(sent));
        counters.seal_ns.observe(seal_ns / u64::from(sent));
        true
    }

    fn header(&self, session: &mut Session, arena: &Arena, frame: &Frame, now_us: u64) -> SnapshotHeader {
        let due = now_us.saturating_sub(session.candidate_us) >= session.candidate_spacing_us();
        let candidate = session.has_place(frame) && (due || self.base.is_none());
        // The first parts of a commit carry the base's digest too: the client looks at that table anyway.
        let committing = session.window.opened_us() == Some(now_us);
        let digest_due =
            committing || now_us.saturating_sub(session.digest_us) >= digest_spacing_us(frame.slot_count());
        let digest = if digest_due {
            session.digest_of(self.base, arena)
        } else {
            None
        };
        if digest.is_some() {
            session.digest_us = now_us;
        }
        SnapshotHeader {
            stream_epoch: frame.stream_epoch,
            session_epoch: session.window.session_epoch(),
            generation: session.window.generation(),
            id: frame.tick,
            part: 0,
            last: false,
            base: self.base.map(|base| base.id),
            server_us: frame.server_us,
            candidate,
            view_complete: self.base_complete,
            stale: frame.stale,
            exhaustive: false,
            commit: session.window.open_commit().copied(),
            base_digest: digest.map(|digest| digest.0),
            count: 0,
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn record(
        &self,
        session: &mut Session,
        frame: &Frame,
        header: &SnapshotHeader,
        sent: u32,
        bytes: usize,
        now_us: u64,
        counters: &mut Counters,
    ) {
        session.served_snapshots += 1;
        session.tokens -= i64::try_from(bytes).unwrap_or(i64::MAX);
        if header.candidate {
            session.candidate_us = now_us;
            let candidate = Candidate {
                id: frame.tick,
                base: header.base,
                parts: full_mask(sent as usize),
                server_us: frame.server_us,
                contents: Arc::clone(self.bodies.contents()),
            };
            session.window.offer(candidate, &mut Dropped);
        }
        if sent > 2 {
            session.heavy_us = now_us;
        }
        let said: usize = self
            .bodies
            .parts()
            .iter()
            .take(sent as usize)
            .map(|part| part.count as usize)
            .sum();
        counters.records_omitted += (self.bodies.records() - said) as u64;
        counters.snapshots_sent += 1;
        counters.parts_sent += u64::from(sent);
        counters.datagrams_sent += u64::from(sent);
        counters.bytes_sent += bytes as u64;
        counters.full_snapshots += u64::from(header.base.is_none());
        counters.snapshot_bytes.observe(bytes as u64);
        counters.window_slots.observe(session.window.in_use() as u64);
        if let Some(age) = header.base.and_then(|base| base.age_at(frame.tick)) {
            counters.baseline_age.observe(u64::from(age));
        }
    }
}

/// Fills the session's budget for the time since it was filled last. A client that was not heard yet has
/// [`UNCONFIRMED_BYTES`], once; the rest of the burst comes with its first word.
fn refill(session: &mut Session, budget: Budget, now_us: u64) {
    let burst = i64::try_from(budget.burst_bytes).unwrap_or(i64::MAX);
    let first = i64::try_from(UNCONFIRMED_BYTES.min(budget.burst_bytes)).unwrap_or(i64::MAX);
    if session.served_snapshots == 0 && !session.burst_given {
        session.tokens = first;
    }
    if session.confirmed {
        if !session.burst_given {
            session.burst_given = true;
            session.tokens = session.tokens.saturating_add(burst - first);
        }
        let elapsed = now_us.saturating_sub(session.tokens_us).min(10_000_000);
        let gained = i64::try_from(elapsed * budget.bytes_per_s / 1_000_000).unwrap_or(i64::MAX);
        session.tokens = session.tokens.saturating_add(gained).min(burst);
    }
    session.tokens_us = now_us;
}
