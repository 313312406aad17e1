//! What operators are told of single sessions. Detail belongs here and never into metric labels (FAULTS 91).

use serde::Serialize;
use tokio::sync::oneshot;

use crate::limits::SESSIONS_PAGE_MAX;
use crate::relay::interest::Interest;
use crate::relay::session::Session;
use crate::relay::shard::Shard;
use crate::state::view::View;

/// A question to one shard, answered between ticks.
pub struct RosterQuery {
    /// Only this session; all when `None`.
    pub connection: Option<u64>,
    /// Sessions to skip.
    pub skip: usize,
    /// Sessions to give at the most.
    pub limit: usize,
    /// Where the answer goes.
    pub reply: oneshot::Sender<RosterPage>,
}

/// A shard's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RosterPage {
    /// Sessions asked about, with those skipped.
    pub total: usize,
    /// Those in the page.
    pub views: Vec<SessionView>,
}

/// One session as operators see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct SessionView {
    /// Connection id, hexadecimal.
    pub connection: String,
    pub shard: usize,
    pub remote: String,
    /// The player's number at the backend, as its token says; 0 for nobody in particular, and in insecure mode.
    pub client: u64,
    /// The version of the protocol it speaks.
    pub protocol: u16,
    /// Bytes a second it may be sent: what its token grants, the relay's own bound at most.
    pub budget_bytes_per_s: u64,
    pub age_s: f64,
    /// Time since the client was heard last.
    pub silent_ms: u64,
    pub confirmed: bool,
    pub closing: bool,
    /// What it may see, as the setting `view` says it.
    pub view: String,
    /// Tag bits that it may see, hexadecimal.
    pub view_tags: String,
    /// Its own entity, as id#generation; `null` while it has none.
    pub entity: Option<String>,
    /// The stream the client says it has; 0 before that.
    pub stream_epoch: u32,
    pub session_epoch: u32,
    /// Generation of the baseline window.
    pub generation: u32,
    /// Baselines held at the client, and slots in use.
    pub held: usize,
    pub slots_in_use: usize,
    pub commit_open: bool,
    /// Age of the newest baseline held; `null` before the first.
    pub baseline_age_ticks: Option<u32>,
    pub round_trip_ms: Option<f64>,
    /// Share of datagrams lost on the way to the client, at the last reading.
    pub loss: Option<f64>,
    pub snapshots: u64,
    pub datagrams: u64,
    pub bytes: u64,
    /// Reliable messages not acknowledged yet.
    pub backlog: usize,
    /// Time from opening to the first complete view; `null` before that.
    pub complete_ms: Option<f64>,
    /// Heap bytes of tables and records of what was sent.
    pub table_bytes: usize,
}

impl RosterQuery {
    /// Answers from a shard's sessions.
    pub fn answer(self, shard: &Shard, index: usize, now_us: u64) {
        let asked = |session: &&Session| self.connection.is_none_or(|asked| asked == session.connection);
        let total = shard.sessions().filter(asked).count();
        let views = shard
            .sessions()
            .filter(asked)
            .skip(self.skip)
            .take(self.limit.min(SESSIONS_PAGE_MAX))
            .map(|session| view(session, shard, index, now_us))
            .collect();
        // Whoever asked may have given up.
        let _ = self.reply.send(RosterPage { total, views });
    }
}

#[allow(clippy::cast_precision_loss)] // Times and shares for people.
fn view(session: &Session, of: &Shard, shard: usize, now_us: u64) -> SessionView {
    let window = &session.window;
    // Without an interest a session sees the whole world, and owns nobody.
    let interest = session.interest.as_deref();
    let seen = interest.map_or(View::WHOLE, Interest::view);
    let age = |tick: crate::sequence::Tick| of.arena().newest().and_then(|newest| tick.age_at(newest.tick));
    SessionView {
        connection: format!("{:016x}", session.connection),
        shard,
        remote: session.path.remote.to_string(),
        client: session.client,
        protocol: session.agreed.version,
        budget_bytes_per_s: session.budget(of.budget()).bytes_per_s,
        age_s: now_us.saturating_sub(session.created_us) as f64 / 1e6,
        silent_ms: now_us.saturating_sub(session.heard_us) / 1000,
        confirmed: session.confirmed,
        closing: session.closing.is_some(),
        view: seen.to_string(),
        view_tags: format!("{:08x}", seen.tags),
        entity: interest
            .and_then(Interest::owner)
            .map(|entity| entity.to_string()),
        stream_epoch: session.stream_epoch_known,
        session_epoch: window.session_epoch(),
        generation: window.generation(),
        held: window.held().len(),
        slots_in_use: window.in_use(),
        commit_open: window.open_commit().is_some(),
        baseline_age_ticks: window.held().iter().filter_map(|held| age(held.held.id)).min(),
        round_trip_ms: session.round_trip_us.map(|us| f64::from(us) / 1e3),
        loss: session.loss_thousandths.map(|lost| f64::from(lost) / 1e3),
        snapshots: session.served_snapshots,
        datagrams: session.sealer.next_number(),
        bytes: session.bytes_sent,
        backlog: session.stream.backlog(),
        complete_ms: session
            .complete_us
            .map(|us| us.saturating_sub(session.created_us) as f64 / 1e3),
        table_bytes: session.heap_bytes().0,
    }
}
