//! What one client may send: datagrams, bytes, and datagrams that are authentic and cannot be read.
//!
//! Charged once a datagram opened, so that who does not have the client's key cannot spend what is the client's.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::relay::admission::Limits;
use crate::relay::throttle::Bucket;

/// What a client has sent lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upload {
    datagrams: Bucket,
    bytes: Bucket,
    malformed: Bucket,
}

impl Upload {
    /// One more datagram of so many bytes; false when it is too many.
    pub fn take(&mut self, limits: &Limits, now_us: u64, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let (datagrams, volume) = (limits.up_datagrams(), limits.up_bytes());
        let has_room =
            self.datagrams.has_room(datagrams, now_us, 1) && self.bytes.has_room(volume, now_us, bytes);
        has_room && self.datagrams.take(datagrams, now_us, 1) && self.bytes.take(volume, now_us, bytes)
    }

    /// One more that could not be read; false when the session is to end for it.
    pub fn take_malformed(&mut self, limits: &Limits, now_us: u64) -> bool {
        self.malformed.take(limits.malformed(), now_us, 1)
    }
}
