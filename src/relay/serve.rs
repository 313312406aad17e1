//! Serving one session at one tick: base, commit, bodies, parts.
//!
//! All branches of the walk down are in [`serve`]; what it calls is a look-up or a pure function.

use std::sync::Arc;

use crate::limits::{
    DATAGRAM_MAX, JOIN_SPACING_US, PARTS_PER_TICK, SILENT_US, SNAPSHOT_BYTES_MIN, TIER_MAX, digest_spacing_us,
};
use crate::state::Frame;
use crate::state::slots::Slot;
use crate::window::send::Candidate;
use crate::wire::snapshot::{Held, SnapshotHeader};

use super::arena::Arena;
use super::bodies::Bodies;
use super::compose::{Blocks, Outer, compose};
use super::contents::{Contents, full_mask};
use super::counters::{Counters, Withheld};
use super::interest::Interest;
use super::kitchen::{Dish, Kitchen};
use super::outbox::{Outbox, Path};
use super::priority::Urgency;
use super::session::{OwnerRecord, Session, Way};
use super::stamp::LONG_AGO;

/// What the shard leaves of a session's turn and rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The shard keeps up, or it is this session's turn although it does not.
    pub serves: bool,
    /// The relay may send snapshots.
    pub egress: bool,
    /// What the egress cap leaves of every rate, in thousandths.
    pub share_thousandths: u16,
}

impl Default for Turn {
    /// Nothing is held back.
    fn default() -> Turn {
        Turn {
            serves: true,
            egress: true,
            share_thousandths: 1000,
        }
    }
}

/// Serves `session` the newest frame of `arena`. True when a snapshot was sent.
pub fn serve(
    session: &mut Session,
    arena: &Arena,
    kitchen: &mut Kitchen,
    turn: Turn,
    now_us: u64,
    outbox: &mut impl Outbox,
    counters: &mut Counters,
) -> bool {
    let Some(frame) = arena.newest() else { return false };
    session.first.get_or_insert(frame.tick);
    session.served = Some(frame.tick);
    session.deferred = false;
    // Whose turn it is not hears of what is critical now, and of the rest at its next turn, in order.
    if turn.serves || frame.events.iter().any(|event| event.critical) {
        session.hear(arena, frame, &mut kitchen.scratch, counters);
    }
    // What is sent under an id never differs (WINDOW-MODEL A16): a tick is sent once, whoever asks for it again.
    if session.snapshot_of == Some(frame.tick) {
        return false;
    }
    session.fill_purse(kitchen.budget, turn.share_thousandths, now_us);
    if let Some(reason) = reason_to_wait(session, frame, turn, now_us) {
        session.deferred = matches!(reason, Withheld::Behind | Withheld::Moving);
        counters.withhold(reason);
        return false;
    }
    let chosen = session.choose_base(arena);
    let restarted = session.restart_if_wanted(now_us, chosen.err(), &mut kitchen.spare, counters);
    if session.waits_for_restart(now_us) {
        counters.withhold(Withheld::RestartPacing);
        return false;
    }
    let base = if restarted { None } else { chosen.ok().flatten() };
    let base = session.advance_if_asked(now_us, base, arena, &mut kitchen.spare, counters);
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
    if session.purse.bytes() < SNAPSHOT_BYTES_MIN {
        counters.withhold(Withheld::Budget);
        return false;
    }
    let sending = Sending {
        to: match session.roaming.way(now_us, session.round_trip_us) {
            Way::There(path, bytes) => Some((path, bytes)),
            Way::Here | Way::Wait => None,
        },
        base,
        base_complete,
        timed: (session.served_snapshots.wrapping_add(session.connection)).is_multiple_of(TIMED_EVERY),
        ..Sending::default()
    };
    let sending = Sending {
        begun: sending.read(kitchen.stopwatch),
        ..sending
    };
    let requests = take_requests(session, now_us);
    session.widen(base.map(|base| base.id), base_complete);
    session.squeeze(arena, kitchen.budget);
    let sent = if session.interest.is_some() {
        sending.send_view(
            session, arena, frame, kitchen, &requests, now_us, outbox, counters,
        )
    } else {
        sending.send_whole(
            session, arena, frame, kitchen, &requests, now_us, outbox, counters,
        )
    };
    session.requests = requests;
    session.requests.clear();
    sent
}

/// Entities whose records were asked for, if an answer is due.
fn take_requests(session: &mut Session, now_us: u64) -> Vec<(u32, u32)> {
    let mut requests = core::mem::take(&mut session.requests);
    if now_us.saturating_sub(session.requests_us) < REQUEST_SPACING_US {
        requests.clear();
    } else if !requests.is_empty() {
        session.requests_us = now_us;
    }
    requests
}

/// Every how many snapshots of a view are looked at for the figures.
const SAMPLE_EVERY: u64 = 16;
/// Every how many snapshots of a session are timed: a clock that is read for each costs more than it tells.
const TIMED_EVERY: u64 = 4;

/// Least time between two answers to requests for single records, microseconds (FAULTS 38).
const REQUEST_SPACING_US: u64 = 100_000;

/// Why nothing is planned for a session at this tick.
fn reason_to_wait(session: &Session, frame: &Frame, turn: Turn, now_us: u64) -> Option<Withheld> {
    if now_us.saturating_sub(session.heard_us) > SILENT_US {
        return Some(Withheld::Silent);
    }
    if session.confirmed && session.stream_epoch_known != frame.stream_epoch {
        return Some(Withheld::Unwelcomed);
    }
    if !session.pace.allows(now_us.saturating_sub(session.snapshot_us)) {
        return Some(Withheld::Behind);
    }
    if session.roaming.way(now_us, session.round_trip_us) == Way::Wait {
        return Some(Withheld::Moving);
    }
    if !turn.serves {
        return Some(Withheld::Overload);
    }
    if !turn.egress {
        return Some(Withheld::Egress);
    }
    None
}

/// Observes how old what the client had of those who were sent had become.
fn sample(interest: &Interest, said: impl Iterator<Item = Slot>, frame: &Frame, counters: &mut Counters) {
    for slot in said {
        let age = interest.sent_age_at(slot, frame.tick);
        if let (true, Some(record)) = (age < LONG_AGO, frame.record(slot)) {
            let us = u64::from(age) * u64::from(frame.schema.tick_period_us);
            counters.staleness_us[usize::from(record.tier.min(TIER_MAX))].observe(us);
        }
    }
}

/// What was sent of a snapshot.
#[derive(Default)]
struct Sent {
    parts: u32,
    candidate: Option<Candidate<Arc<Contents>>>,
}

/// Offers what was sent to the window, where it may become a baseline; what has no place any more is kept as memory.
fn offer(
    session: &mut Session,
    candidate: Option<Candidate<Arc<Contents>>>,
    kitchen: &mut Kitchen,
    counters: &mut Counters,
) {
    if let Some(candidate) = candidate {
        session.window.offer(candidate, &mut kitchen.spare.candidates);
    }
    counters.window_slots.observe(session.window.in_use() as u64);
}

/// One snapshot on its way.
#[derive(Default)]
struct Sending {
    /// Where the client may be, if it goes there, and the most bytes that may.
    to: Option<(Path, usize)>,
    base: Option<Held>,
    base_complete: bool,
    /// Its work is measured.
    timed: bool,
    /// Reading of the stopwatch when it began to be made.
    begun: u64,
}

/// What is sent of a snapshot's bodies.
struct Served<'a> {
    bodies: &'a Bodies,
    parts: usize,
    exhaustive: bool,
    encode_ns: u64,
    stopwatch: fn() -> u64,
    limit: Option<usize>,
}

impl Sending {
    /// The stopwatch, where the work is measured; 0 where it is not.
    fn read(&self, stopwatch: fn() -> u64) -> u64 {
        if self.timed { stopwatch() } else { 0 }
    }

    /// The whole world, in bodies shared where the base is.
    #[allow(clippy::too_many_arguments)]
    fn send_whole(
        &self,
        session: &mut Session,
        arena: &Arena,
        frame: &Arc<Frame>,
        kitchen: &mut Kitchen,
        requests: &[(u32, u32)],
        now_us: u64,
        outbox: &mut impl Outbox,
        counters: &mut Counters,
    ) -> bool {
        let table = self.base.and_then(|base| session.window.find(base.id));
        let dish = kitchen.cook(arena, table.map(|held| &held.table), requests, counters);
        let Some(dish) = dish else { return false };
        let bodies = kitchen.bodies(dish);
        let needed = bodies.parts().len();
        // Parts are of similar size: what the budget holds, at least one.
        let affordable = session.purse.bytes().div_ceil(DATAGRAM_MAX);
        let trusted = self.to.map_or(PARTS_PER_TICK, |(_, bytes)| bytes / DATAGRAM_MAX);
        let parts = needed.min(affordable).min(trusted).clamp(1, PARTS_PER_TICK);
        session.player.squeezed |= parts < needed && session.whole;
        let served = Served {
            bodies,
            parts,
            exhaustive: parts == needed,
            encode_ns: self.read(kitchen.stopwatch).saturating_sub(self.begun),
            stopwatch: if self.timed { kitchen.stopwatch } else { || 0 },
            limit: None,
        };
        let sent = self.send(&served, session, arena, frame, None, now_us, outbox, counters);
        if sent.parts > 0 {
            offer(session, sent.candidate, kitchen, counters);
        }
        sent.parts > 0
    }

    /// What the session sees, by priority within its budget, with the state of its own entity.
    #[allow(clippy::too_many_arguments)]
    fn send_view(
        &self,
        session: &mut Session,
        arena: &Arena,
        frame: &Arc<Frame>,
        kitchen: &mut Kitchen,
        requests: &[(u32, u32)],
        now_us: u64,
        outbox: &mut impl Outbox,
        counters: &mut Counters,
    ) -> bool {
        let Some(mut interest) = session.interest.take() else {
            return false;
        };
        interest.update(frame, arena, &mut kitchen.scratch);
        let table = self.base.and_then(|base| session.window.find(base.id));
        let table = table.map(|held| &held.table);
        interest.forget_left_by(table, frame);
        let trusted = self.to.map_or(usize::MAX, |(_, bytes)| bytes);
        let bytes = session.purse.bytes().min(trusted);
        let waiting = session.stream.due_bytes(now_us, session.resend_us());
        let urgency = Urgency::new(&frame.schema, session.round_trip_us);
        let owner_slot = interest.owner_slot();
        let owner = kitchen
            .layout()
            .and_then(|layout| session.owner_record(owner_slot?, frame, layout, now_us));
        // What the player predicts from goes first; messages get up to half of the rest.
        let rest = bytes.saturating_sub(owner.as_ref().map_or(0, OwnerRecord::block_bytes));
        let room = rest - waiting.min(rest / 2);
        let dish = kitchen.cook_view(arena, table, &interest, requests, urgency, room, counters);
        session.interest = Some(interest);
        let Some(dish) = dish else { return false };
        let bodies = kitchen.bodies(Dish::Private);
        session.player.squeezed = !dish.exhaustive;
        let served = Served {
            bodies,
            parts: bodies.parts().len(),
            exhaustive: dish.exhaustive,
            encode_ns: self.read(kitchen.stopwatch).saturating_sub(self.begun),
            stopwatch: if self.timed { kitchen.stopwatch } else { || 0 },
            limit: Some(bytes),
        };
        let sent = self.send(
            &served,
            session,
            arena,
            frame,
            owner.as_ref(),
            now_us,
            outbox,
            counters,
        );
        let Sent { parts, candidate } = sent;
        if let (1.., Some(interest)) = (parts, &mut session.interest) {
            let all = dish.exhaustive && parts as usize == served.parts;
            let contents = kitchen.bodies(Dish::Private).contents();
            let listed = || contents.held(full_mask(parts as usize));
            let records = || listed().filter(|(_, removed)| !removed).map(|(slot, _)| slot);
            let sampled = session.served_snapshots.is_multiple_of(SAMPLE_EVERY);
            if sampled {
                counters.view_members.observe(interest.members().len() as u64);
            }
            if all {
                if sampled {
                    sample(interest, kitchen.said(), frame, counters);
                }
                let own = owner_slot.is_some_and(|own| kitchen.said().any(|slot| slot == own));
                interest.note_all_sent(frame.tick, own);
            } else {
                if sampled {
                    sample(interest, records(), frame, counters);
                }
                interest.note_sent(records(), frame.tick);
                let removed = |slot| listed().any(|entry| entry == (slot, true));
                interest.put_off(self.base.map(|base| base.id), frame.tick, removed);
            }
        }
        if parts > 0 {
            offer(session, candidate, kitchen, counters);
        }
        parts > 0
    }

    /// Sends the parts.
    #[allow(clippy::too_many_arguments)]
    fn send(
        &self,
        served: &Served<'_>,
        session: &mut Session,
        arena: &Arena,
        frame: &Arc<Frame>,
        owner: Option<&OwnerRecord>,
        now_us: u64,
        outbox: &mut impl Outbox,
        counters: &mut Counters,
    ) -> Sent {
        let parts = served.parts;
        let header = self.header(session, arena, frame, now_us);
        let mut bytes = 0;
        let mut seal_ns = 0;
        let mut sent = 0u32;
        let mut said = 0;
        for (index, part) in served.bodies.parts().iter().take(parts).enumerate() {
            let last = index + 1 == parts;
            let header = SnapshotHeader {
                part: u8::try_from(index).unwrap_or(0),
                last,
                exhaustive: served.exhaustive,
                count: part.count,
                // Once a snapshot is enough: each digest costs the client a walk over its table.
                base_digest: header.base_digest.filter(|_| index == 0),
                ..header
            };
            let block = owner
                .filter(|_| last)
                .map(|owner| session.owner_block(owner, frame));
            let blocks = Blocks {
                messages: last,
                owner: block,
                limit: served.limit.map(|limit| limit.saturating_sub(bytes)),
                to: self.to.map(|(path, _)| path),
                snapshot: Some((&header, served.bodies.body(part))),
                ..Blocks::default()
            };
            let Some(composed) = compose(session, Outer::Down, blocks, now_us, served.stopwatch, outbox)
            else {
                break;
            };
            if composed.owner
                && let Some(owner) = owner
            {
                session.note_owner_said(owner, now_us);
                counters.owner_states += 1;
            }
            if let Some((path, _)) = self.to {
                session.roaming.spend(path, composed.bytes);
            }
            bytes += composed.bytes;
            seal_ns += composed.seal_ns;
            sent += 1;
            said += part.count as usize;
        }
        if sent == 0 {
            return Sent::default();
        }
        (session.snapshot_us, session.snapshot_of) = (now_us, Some(frame.tick));
        counters.records_sent += said as u64;
        counters.records_omitted += (served.bodies.records() - said) as u64;
        let candidate = self.record(
            session,
            frame,
            &header,
            served.bodies,
            sent,
            bytes,
            now_us,
            counters,
        );
        if self.timed {
            counters.encode_total_ns += served.encode_ns;
            counters.seal_total_ns += seal_ns;
            counters.packets_measured += u64::from(sent);
            counters.encode_ns.observe(served.encode_ns / u64::from(sent));
            counters.seal_ns.observe(seal_ns / u64::from(sent));
        }
        Sent {
            parts: sent,
            candidate,
        }
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

    /// Notes what was sent; the candidate that is to be offered, where it may become a baseline.
    #[allow(clippy::too_many_arguments)]
    fn record(
        &self,
        session: &mut Session,
        frame: &Frame,
        header: &SnapshotHeader,
        bodies: &Bodies,
        sent: u32,
        bytes: usize,
        now_us: u64,
        counters: &mut Counters,
    ) -> Option<Candidate<Arc<Contents>>> {
        let mut offered = None;
        session.served_snapshots += 1;
        if header.candidate {
            session.candidate_us = now_us;
            let candidate = Candidate {
                id: frame.tick,
                base: header.base,
                parts: full_mask(sent as usize),
                server_us: frame.server_us,
                contents: Arc::clone(bodies.contents()),
            };
            offered = Some(candidate);
        }
        if sent > 2 {
            session.heavy_us = now_us;
        }
        counters.snapshots_sent += 1;
        counters.parts_sent += u64::from(sent);
        counters.datagrams_sent += u64::from(sent);
        counters.bytes_sent += bytes as u64;
        counters.full_snapshots += u64::from(header.base.is_none());
        counters.snapshot_bytes.observe(bytes as u64);
        if let Some(age) = header.base.and_then(|base| base.age_at(frame.tick)) {
            counters.baseline_age.observe(u64::from(age));
        }
        offered
    }
}
