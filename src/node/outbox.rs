//! The core's outbox over a send batch: datagrams are written where the kernel reads them.

use crate::limits::BATCH_DATAGRAMS;
use crate::net::batch::{FlushReport, SendBatch};
use crate::net::socket::ShardSocket;
use crate::relay::outbox::{Outbox, Path};

/// A send batch that the core writes into.
#[derive(Default)]
pub struct BatchOutbox {
    batch: SendBatch,
    bytes: u64,
}

impl BatchOutbox {
    /// Sends what was committed and empties the batch, whatever becomes of it.
    pub fn flush(&mut self, socket: &ShardSocket) -> FlushReport {
        self.batch.flush(socket)
    }

    /// Nothing waits for a flush.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes committed since the outbox was made.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Outbox for BatchOutbox {
    fn room(&self) -> usize {
        BATCH_DATAGRAMS - self.batch.len()
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        self.batch.reserve().map(|slot| slot.as_mut_slice())
    }

    fn commit(&mut self, length: usize, path: Path) {
        self.bytes += length as u64;
        self.batch.commit(length, path.remote, path.local);
    }
}
