//! What one thread counted of its clients; tallies of several threads add up.

use std::collections::BTreeMap;

use super::player::PlayerCounts;
use super::report::{LinkFigures, Reasons};
use super::series::SeriesSet;
use super::trail::EventCounts;
use super::viewer::counts::ViewerCounts;
use super::viewer::strip::Strip;
use crate::client::refusal::Refusal;
use crate::client::session::Client;
use crate::impairment::counts::LinkCounts;

/// Counts of one thread. Everything but `series` is a plain sum.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The distributions.
    pub series: SeriesSet,
    /// Events of the world.
    pub events: EventCounts,
    /// The first few events that leaked, in words.
    pub event_examples: Vec<String>,
    /// What clients drew.
    pub viewers: ViewerCounts,
    /// What one client drew of one entity.
    pub strip: Option<Strip>,
    /// What clients did and saw as players.
    pub players: PlayerCounts,
    /// Clients whose view at the end is not the one they should have been given.
    pub views_unlike: u64,
    /// Datagrams that reached a socket.
    pub arrived: u64,
    /// Datagrams given to clients.
    pub received: u64,
    /// Datagrams given to clients before the clean time.
    pub received_in_run: u64,
    /// Bytes of those received.
    pub bytes: u64,
    /// Datagrams sent to the relay.
    pub up: u64,
    /// Their bytes.
    pub up_bytes: u64,
    /// Refusals by reason.
    pub rejected: Reasons,
    /// Commits applied.
    pub advances: u64,
    /// Digests compared.
    pub digest_checked: u64,
    /// Digests that differed.
    pub digest_mismatches: u64,
    /// Mismatches after which a full state came.
    pub digest_healed: u64,
    /// Clients in a session at the end.
    pub connected: u64,
    /// Sessions that had begun, ended unasked and were followed by another.
    pub reconnects: u64,
    /// Clients that left by plan.
    pub churned: u64,
    /// Why sessions, and attempts to get one, ended unasked.
    pub endings: BTreeMap<&'static str, u64>,
    /// Microseconds in a session, all clients together.
    pub session_us: u64,
    /// The links down.
    pub down_links: LinkCounts,
    /// The links up.
    pub up_links: LinkCounts,
    /// Timers more than 20 ms late.
    pub overruns: u64,
    /// Entities that should be in view at the end and are not.
    pub missing_at_end: u64,
    /// Records of views whose end could not be judged.
    pub unchecked: u64,
}

impl Tally {
    /// Takes over what a client counted in its life.
    pub fn retire(&mut self, client: &Client) {
        let statistics = client.statistics();
        self.advances += statistics.advances_applied;
        self.digest_checked += statistics.digest_checked;
        self.digest_mismatches += statistics.digest_mismatches;
        for (refusal, count) in client.refusals().iter().filter(|(_, count)| *count > 0) {
            self.reject(refusal, count);
        }
    }

    fn reject(&mut self, refusal: Refusal, count: u64) {
        *self.rejected.entry(refusal.label().to_owned()).or_default() += count;
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Tally) {
        self.series.add(&other.series);
        self.events.add(&other.events);
        self.event_examples.extend(other.event_examples.iter().cloned());
        self.viewers.add(&other.viewers);
        if self.strip.is_none() {
            self.strip.clone_from(&other.strip);
        }
        self.players.add(&other.players);
        self.views_unlike += other.views_unlike;
        self.arrived += other.arrived;
        self.received += other.received;
        self.received_in_run += other.received_in_run;
        self.bytes += other.bytes;
        self.up += other.up;
        self.up_bytes += other.up_bytes;
        for (reason, count) in &other.rejected {
            *self.rejected.entry(reason.clone()).or_default() += count;
        }
        self.advances += other.advances;
        self.digest_checked += other.digest_checked;
        self.digest_mismatches += other.digest_mismatches;
        self.digest_healed += other.digest_healed;
        self.connected += other.connected;
        self.reconnects += other.reconnects;
        self.churned += other.churned;
        for (reason, count) in &other.endings {
            *self.endings.entry(reason).or_default() += count;
        }
        self.session_us += other.session_us;
        add_links(&mut self.down_links, &other.down_links);
        add_links(&mut self.up_links, &other.up_links);
        self.overruns += other.overruns;
        self.missing_at_end += other.missing_at_end;
        self.unchecked += other.unchecked;
    }
}

/// Adds what two links did.
pub fn add_links(sum: &mut LinkCounts, more: &LinkCounts) {
    sum.sent += more.sent;
    sum.delivered += more.delivered;
    sum.lost += more.lost;
    sum.duplicated += more.duplicated;
    sum.held += more.held;
    sum.reordered += more.reordered;
    sum.corrupted += more.corrupted;
    sum.overflowed += more.overflowed;
}

/// Fills in what links did.
pub fn fill_links(figures: &mut LinkFigures, counts: &LinkCounts) {
    figures.sent = counts.sent;
    figures.lost = counts.lost;
    figures.duplicated = counts.duplicated;
    figures.reordered = counts.reordered;
    figures.overflowed = counts.overflowed;
}
