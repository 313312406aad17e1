//! The thread of one shard: a socket, the core, and the loop between them (DESIGN 6).
//!
//! A turn: wait at most 20 ms, take what arrived (reports first), letters of other shards, pass on what players did; frames; serve them in
//! batches, taking reports between the batches; timers; counters. Everything a turn does is bounded, so nothing
//! starves. Of several frames that came at once all go into the arena and the newest alone is sent, so a stall is
//! followed by one snapshot per client (FAULTS 41) and overload lowers the rate instead of growing a backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::channel::Receiver;

use super::directory::Directory;
use super::fuse::Fuse;
use super::metrics::ShardMetrics;
use super::outbox::BatchOutbox;
use super::players::PlayerLine;
use super::post::{Letter, Post};
use super::pressure::Pressure;
use super::roster::RosterQuery;
use super::round::Round;
use super::shelf::{Shelf, Shelved};
use super::status::RelayStatus;
use super::tally::LoopCounters;
use super::turned_away::TurnedAway;
use crate::limits::{BATCH_DATAGRAMS, EXPORT_EVERY_US, LETTERS_MAX, RECEIVE_BATCHES_PER_TURN, SHARD_WAIT_US};
use crate::net::batch::ReceiveBatch;
use crate::net::clock::{monotonic_ns, monotonic_us, thread_cpu_ns};
use crate::net::socket::ShardSocket;
use crate::net::waker::{Waker, wait};
use crate::relay::outbox::{Outbox, Path};
use crate::relay::shard::{Receipt, Shard};
use crate::sequence::Tick;
use crate::state::player::PlayerEvent;
use crate::wire::payload::CloseReason;

/// What a shard shares with the rest of its relay.
pub struct ShardLinks {
    /// Wakes this shard.
    pub waker: Waker,
    /// Where frames come from.
    pub shelf: Arc<Shelf>,
    /// To other shards.
    pub post: Arc<Post>,
    /// From other shards.
    pub inbox: Receiver<Box<Letter>>,
    /// Questions of operators.
    pub queries: Receiver<RosterQuery>,
    /// Who is where.
    pub directory: Arc<Directory>,
    /// To the origin.
    pub players: Arc<PlayerLine>,
    /// How the relay is doing.
    pub status: Arc<RelayStatus>,
    /// What it exports.
    pub metrics: ShardMetrics,
}

/// One shard's loop and everything it owns.
pub struct ShardLoop {
    index: usize,
    shard: Shard,
    socket: ShardSocket,
    links: ShardLinks,
    arrived: ReceiveBatch,
    outbox: BatchOutbox,
    frames: Vec<Arc<Shelved>>,
    said: Vec<PlayerEvent>,
    /// Newest tick in the arena.
    newest: Option<Tick>,
    round: Round,
    /// Directives up to that tick.
    directives: u64,
    looped: LoopCounters,
    pressure: Pressure,
    turned_away: TurnedAway,
    draining: bool,
    timers_due_us: u64,
    export_due_us: u64,
}

/// Questions answered in one turn.
const QUERIES_PER_TURN: usize = 4;

impl ShardLoop {
    /// A shard on its socket.
    #[must_use]
    pub fn new(index: usize, shard: Shard, socket: ShardSocket, links: ShardLinks) -> ShardLoop {
        ShardLoop {
            index,
            shard,
            socket,
            links,
            arrived: ReceiveBatch::new(),
            outbox: BatchOutbox::default(),
            frames: Vec::new(),
            said: Vec::new(),
            newest: None,
            round: Round::default(),
            directives: 0,
            looped: LoopCounters::default(),
            pressure: Pressure::default(),
            turned_away: TurnedAway::default(),
            draining: false,
            timers_due_us: 0,
            export_due_us: 0,
        }
    }

    /// Turns until the relay stops.
    pub fn run(mut self) {
        let _fuse = Fuse::new("a shard");
        while !self.links.status.stopping.load(Ordering::Relaxed) {
            self.turn();
        }
        self.export(monotonic_us());
    }

    fn turn(&mut self) {
        self.rest();
        self.obey();
        self.receive(RECEIVE_BATCHES_PER_TURN);
        self.read_letters();
        self.pass_on();
        self.take_frames();
        self.serve();
        let now_us = monotonic_us();
        if now_us >= self.timers_due_us {
            self.timers_due_us = now_us + SHARD_WAIT_US;
            self.run_timers();
        }
        self.flush();
        self.pass_on();
        if now_us >= self.export_due_us {
            self.export_due_us = now_us + EXPORT_EVERY_US;
            self.export(now_us);
        }
    }

    /// Waits for work, until timers are due; not at all while sessions are still to be served.
    fn rest(&mut self) {
        let wait_us = match self.shard.unserved() {
            0 => self
                .timers_due_us
                .saturating_sub(monotonic_us())
                .min(SHARD_WAIT_US),
            _ => 0,
        };
        let waited = wait(
            &self.socket,
            &self.links.waker,
            Some(Duration::from_micros(wait_us)),
        );
        if let Err(error) = waited {
            // The loop lives on whatever the system says, and does not spin (FAULTS 83).
            self.looped
                .receive_errors
                .record(error.raw_os_error().unwrap_or(-1));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Begins the drain when that is wanted; answers questions.
    fn obey(&mut self) {
        if !self.draining && self.links.status.draining.load(Ordering::Relaxed) {
            self.draining = true;
            self.shard.drain(monotonic_us());
        }
        for query in self.links.queries.try_iter().take(QUERIES_PER_TURN) {
            query.answer(&self.shard, self.index, monotonic_us());
        }
    }

    /// Takes at most so many batches off the socket.
    fn receive(&mut self, batches: usize) {
        for _ in 0..batches {
            let report = self.arrived.receive(&self.socket);
            self.looped.receive_errors.add(&report.errors);
            let now_us = monotonic_us();
            let ShardLoop {
                arrived,
                shard,
                outbox,
                socket,
                looped,
                links,
                ..
            } = self;
            for datagram in arrived.datagrams() {
                if outbox.room() == 0 {
                    flush(outbox, socket, looped);
                }
                let path = Path {
                    remote: datagram.from,
                    local: datagram.local,
                };
                if let Receipt::Elsewhere(owner) = shard.receive(now_us, path, datagram.bytes, outbox) {
                    let taken = links.post.send(owner, path, datagram.bytes);
                    looped.forwarded[usize::from(!taken)] += 1;
                }
            }
            if report.datagrams < BATCH_DATAGRAMS {
                return;
            }
        }
    }

    /// Takes what other shards received for sessions of this one.
    fn read_letters(&mut self) {
        for _ in 0..LETTERS_MAX {
            let Ok(mut letter) = self.links.inbox.try_recv() else {
                return;
            };
            if self.outbox.room() == 0 {
                self.flush();
            }
            let path = letter.path;
            // An id of another shard, or of none at all, was never sent here.
            let _ = self
                .shard
                .receive(monotonic_us(), path, letter.datagram(), &mut self.outbox);
            self.links.post.give_back(letter);
        }
    }

    /// Passes on who came and went, and what players did. The directory comes first: it is what the line's other end
    /// looks at when something had no room.
    fn pass_on(&mut self) {
        let changes = self.shard.take_changes();
        if !changes.is_empty() {
            self.links.directory.record(self.index, monotonic_us(), changes);
        }
        self.shard.take_player_events(&mut self.said);
        if !self.said.is_empty() {
            self.links.directory.hear(&self.said);
            self.links.players.say(self.said.drain(..));
        }
    }

    /// Puts every frame that came into the arena; the newest is what is served.
    fn take_frames(&mut self) {
        let lapped = self.links.shelf.collect_after(self.newest, &mut self.frames);
        let (Some(first), Some(last)) = (self.frames.first(), self.frames.last()) else {
            return;
        };
        if lapped && self.newest.is_some() && first.directives_before != self.directives {
            // Who may see what is not known any more: the sessions begin anew, and the origin says it again.
            self.shard.dismiss(CloseReason::Idle, monotonic_us());
        }
        self.directives = last.directives();
        // The oldest has waited longest: a shard that stood still is as late as that, though it sends the newest alone.
        let waits_since_us = first.taken_us;
        self.newest = Some(last.frame.tick);
        self.round.begin(last.taken_us);
        self.looped.lapped += u64::from(lapped);
        let behind = self.shard.unserved();
        let superseded = self.frames.len() - 1 + usize::from(behind > 0);
        if self.shard.open() > 0 {
            self.looped.overruns += superseded as u64;
            self.pressure
                .note(self.frames.len() as u64, superseded as u64, behind as u64);
        }
        for shelved in self.frames.drain(..) {
            self.shard.publish(Arc::clone(&shelved.frame), &shelved.schema);
        }
        let now_us = monotonic_us();
        self.looped
            .lateness
            .observe(now_us, now_us.saturating_sub(waits_since_us));
    }

    /// Serves the newest frame until everybody has it, or a newer one has come.
    fn serve(&mut self) {
        if self.shard.unserved() == 0 {
            self.round.end();
            return;
        }
        loop {
            // What strangers were answered is no snapshot: it is not measured as one, and takes none's room. Were it left in the
            // outbox, who asks without end would keep sessions from being served until the next tick.
            self.flush();
            let left = self.shard.transmit(monotonic_us(), &mut self.outbox);
            let sent = self.flush();
            if let Some(delay_us) = self.round.delay_us(monotonic_us()) {
                self.looped.delay_us.observe_many(delay_us, sent);
            }
            if !left {
                self.round.end();
                return;
            }
            if self.links.shelf.newest() != self.newest {
                return;
            }
            self.receive(1);
        }
    }

    fn run_timers(&mut self) {
        // Each call does what is due until the outbox is full; what it did is then not due any more.
        loop {
            self.shard.timers(monotonic_us(), &mut self.outbox);
            let full = self.outbox.room() == 0;
            self.flush();
            if !full {
                return;
            }
        }
    }

    /// Sends what is in the outbox: how many datagrams the kernel took.
    fn flush(&mut self) -> u64 {
        flush(&mut self.outbox, &self.socket, &mut self.looped)
    }

    fn export(&mut self, now_us: u64) {
        if let Some(sentence) = self.pressure.complaint(now_us, self.index) {
            tracing::warn!("{sentence}");
        }
        if let Some(sentence) = self
            .turned_away
            .sentence(now_us, self.index, self.shard.counters())
        {
            tracing::warn!("{sentence}");
        }
        self.looped.bytes = self.outbox.bytes();
        self.looped.kernel_drops = self.socket.kernel_drops().unwrap_or(0);
        self.looped.lateness.age(now_us);
        let (open, arena) = (self.shard.open(), self.shard.arena());
        let arena = (arena.frames(), arena.bytes());
        self.links.metrics.tell_versions(self.shard.open_by_version());
        let (level, share) = (self.shard.overload_level(), self.shard.egress_share_thousandths());
        self.links.metrics.tell_pressure(level, share);
        self.links
            .metrics
            .tell(open, arena, self.shard.counters_mut(), &mut self.looped);
        let Some(status) = self.links.status.shards.get(self.index) else {
            return;
        };
        let counters = self.shard.counters();
        let put = |figure: &AtomicU64, value: u64| figure.store(value, Ordering::Relaxed);
        put(&status.turned_us, now_us);
        put(&status.sessions, open as u64);
        put(&status.cpu_ns, thread_cpu_ns());
        put(&status.encode_ns, counters.encode_total_ns);
        put(&status.seal_ns, counters.seal_total_ns);
        put(&status.packets_measured, counters.packets_measured);
        put(&status.send_ns, self.looped.send_ns_total);
        put(&status.sent, self.looped.sent);
        put(&status.bytes, self.looped.bytes);
        put(&status.received, counters.datagrams_received);
    }
}

/// One send call for everything in the outbox; errors are counted and passed by (FAULTS 84).
fn flush(outbox: &mut BatchOutbox, socket: &ShardSocket, looped: &mut LoopCounters) -> u64 {
    if outbox.is_empty() {
        return 0;
    }
    let begun_ns = monotonic_ns();
    let report = outbox.flush(socket);
    let spent_ns = monotonic_ns().saturating_sub(begun_ns);
    let sent = report.sent as u64;
    looped.sent += sent;
    looped.send_ns_total += spent_ns;
    looped.send_ns.observe_many(spent_ns / sent.max(1), sent);
    looped.send_errors.add(&report.errors);
    looped.receive_errors.add(&report.late);
    sent
}
