//! What the handle and the admin share of a running relay.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam::channel::Sender;
use tokio::sync::oneshot;

use super::directory::Directory;
use super::loggate::LogGate;
use super::metrics::RelayMetrics;
use super::roster::{RosterPage, RosterQuery};
use super::settings::{PartialSettings, RelaySettings};
use super::status::RelayStatus;
use crate::limits::SESSIONS_PAGE_MAX;
use crate::net::clock::monotonic_us;
use crate::net::waker::Waker;

/// A shard that does not answer a question within this time is said to be busy.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A running relay, for whoever asks and tells.
pub struct Control {
    /// Settings it was started with, and the ports that were chosen.
    pub settings: RelaySettings,
    /// Settings in force, as they are shown: some change with a reload.
    pub shown: ArcSwap<PartialSettings>,
    /// How it is doing.
    pub status: Arc<RelayStatus>,
    /// Its metrics.
    pub metrics: Arc<RelayMetrics>,
    /// Who is where.
    pub directory: Arc<Directory>,
    /// What is said of those whom the admin refuses.
    pub strangers: Mutex<LogGate>,
    /// To each shard, in order.
    pub shards: Vec<(Sender<RosterQuery>, Waker)>,
}

/// Why a shard was not asked, or did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {0} did not answer within two seconds: it is overloaded or stalled, see /live")]
pub struct ShardBusy(pub usize);

impl Control {
    /// Admits nobody from now on and tells the clients. True the first time.
    pub fn drain(&self) -> bool {
        let first = !self.status.draining.swap(true, Ordering::Relaxed);
        self.wake();
        first
    }

    /// Ends the shard threads.
    pub fn stop(&self) {
        self.status.stopping.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        self.shards.iter().for_each(|(_, waker)| waker.wake());
    }

    /// Counts a request to the admin that did not show its token, or came from a page of somebody else, or by a name that anybody
    /// may let point here, and says so now and then.
    pub fn refuse_admin(&self) {
        self.metrics.refuse_admin();
        let mut gate = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held_back) = gate.pass(monotonic_us(), "admin") {
            let why = match self.settings.admin_token.is_empty() {
                true => {
                    "asks by a name with a dot or from a web page while there is no admin_token (docs/SECURITY.md): give one, or ask by address, localhost or a name without a dot"
                }
                false => "does not show the admin_token",
            };
            tracing::warn!(
                "the admin refuses who {why}: {} since the last line",
                held_back + 1
            );
        }
    }

    /// The metrics as text.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.render(&self.status, monotonic_us())
    }

    /// A page of sessions over all shards, in order of shard and place.
    ///
    /// # Errors
    /// A shard that does not answer.
    pub async fn roster(&self, mut skip: usize, limit: usize) -> Result<RosterPage, ShardBusy> {
        let mut left = limit.min(SESSIONS_PAGE_MAX);
        let mut page = RosterPage::default();
        for shard in 0..self.shards.len() {
            let part = self.ask(shard, None, skip, left).await?;
            skip = skip.saturating_sub(part.total);
            left -= part.views.len().min(left);
            page.total += part.total;
            page.views.extend(part.views);
        }
        Ok(page)
    }

    /// One session, found through the directory.
    ///
    /// # Errors
    /// Its shard does not answer.
    pub async fn session(&self, connection: u64) -> Result<RosterPage, ShardBusy> {
        match self.directory.find(connection) {
            Some(entry) => self.ask(entry.shard, Some(connection), 0, 1).await,
            None => Ok(RosterPage::default()),
        }
    }

    async fn ask(
        &self,
        shard: usize,
        connection: Option<u64>,
        skip: usize,
        limit: usize,
    ) -> Result<RosterPage, ShardBusy> {
        let busy = ShardBusy(shard);
        let (sender, waker) = self.shards.get(shard).ok_or(busy)?;
        let (reply, answer) = oneshot::channel();
        sender
            .try_send(RosterQuery {
                connection,
                skip,
                limit,
                reply,
            })
            .map_err(|_| busy)?;
        waker.wake();
        tokio::time::timeout(ANSWER_WITHIN, answer)
            .await
            .map_err(|_| busy)?
            .map_err(|_| busy)
    }
}
