//! The sealed link of one session: keys, what was received, and when to speak again.
//!
//! Invariant: nothing here moves before a datagram's tag matched and its payload could be read (FAULTS 24).
//! *Received* counts for loss and round trips alone; what is held as a baseline is the window's to say.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::rhythm::Rhythm;
use super::settings::ClientSettings;
use crate::limits::{DATAGRAM_MAX, TAG_BYTES};
use crate::wire::bytes::ByteWriter;
use crate::wire::handshake::{ClientNonce, DatagramKind, UP_HEADER_BYTES, WelcomeHeader};
use crate::wire::payload::{self, PathToken};
use crate::wire::report::Report;
use crate::wire::seal::{Direction, OpenError, Opener, Sealer, Secrets};
use crate::wire::version::Agreed;

/// A session's link.
pub(super) struct Link {
    connection: u64,
    agreed: Agreed,
    rhythm: Rhythm,
    relay_nonce: [u8; 16],
    sealer: Sealer,
    opener: Opener,
    /// When the peer was heard last.
    heard_us: u64,
    received: Option<Newest>,
    received_count: u32,
    sent_us: Option<u64>,
    /// When there is something new to say.
    news_us: Option<u64>,
    /// There is an input that was not said yet.
    input_waits: bool,
    /// A challenge of the relay that was not answered yet.
    answer: Option<PathToken>,
}

/// The datagram with the highest number.
#[derive(Clone, Copy, Debug)]
struct Newest {
    number: u64,
    stamp: u16,
    arrived_us: u64,
}

impl Link {
    /// A link with the keys of a Welcome; `None` when the crypto library refuses.
    pub(super) fn new(
        token_key: &[u8; 32],
        client_nonce: &ClientNonce,
        header: &WelcomeHeader,
        agreed: Agreed,
        now_us: u64,
    ) -> Option<Link> {
        let secrets = Secrets {
            token_key: *token_key,
            client_nonce: *client_nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed,
        };
        Some(Link {
            connection: header.connection,
            agreed,
            rhythm: Rhythm::new(now_us),
            relay_nonce: header.relay_nonce,
            sealer: secrets.sealer(Direction::Up)?,
            opener: secrets.opener(Direction::Down)?,
            heard_us: now_us,
            received: None,
            received_count: 0,
            sent_us: None,
            news_us: Some(now_us),
            input_waits: false,
            answer: None,
        })
    }

    /// True when a Welcome belongs to this session.
    pub(super) fn is_of(&self, header: &WelcomeHeader) -> bool {
        self.connection == header.connection && self.relay_nonce == header.relay_nonce
    }

    /// Opens a datagram in place.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open<'a>(
        &mut self,
        low: u32,
        header: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<(u64, &'a [u8]), OpenError> {
        self.opener
            .open(low, header, sealed)
            .map(|(number, payload)| (number, &*payload))
    }

    /// Notes a datagram that opened and could be read; gives the numbers it passed over.
    pub(super) fn note_received(&mut self, number: u64, stamp: u16, now_us: u64) -> u64 {
        self.heard_us = now_us;
        self.received_count = self.received_count.wrapping_add(1);
        let passed = match self.received {
            Some(newest) if number <= newest.number => return 0,
            Some(newest) => number - newest.number - 1,
            None => 0,
        };
        self.received = Some(Newest {
            number,
            stamp,
            arrived_us: now_us,
        });
        passed
    }

    /// There is something new to say from `at_us` on.
    pub(super) fn note_news(&mut self, at_us: u64) {
        self.news_us = Some(self.news_us.map_or(at_us, |news| news.min(at_us)));
    }

    /// The relay wants to know that the client receives here: that is said at once (THREATS 89).
    pub(super) fn note_challenge(&mut self, challenge: PathToken) {
        self.answer = Some(challenge);
        self.rhythm.note_challenge();
    }

    /// A newer snapshot came.
    pub(super) fn note_snapshot(&mut self, now_us: u64) {
        self.rhythm.note_snapshot(now_us);
    }

    /// From when on the next datagram is padded, since a snapshot is missed.
    fn pads_at(&self) -> Option<u64> {
        self.rhythm
            .pads_at(self.heard_us)
            .filter(|_| self.agreed.is_bound())
    }

    /// Pads the datagram that is being written to the full size, if a snapshot is missed.
    pub(super) fn pad(&mut self, now_us: u64, out: &mut Vec<u8>) {
        let whole = DATAGRAM_MAX - TAG_BYTES;
        if out.len() < whole
            && self.pads_at().is_some_and(|at_us| now_us >= at_us)
            && let Some(flags) = out.get_mut(UP_HEADER_BYTES)
        {
            *flags |= payload::PADDING;
            out.resize(whole, 0);
            self.rhythm.note_padded(now_us);
        }
    }

    /// The answer to the newest challenge, once.
    pub(super) fn take_answer(&mut self) -> Option<PathToken> {
        self.answer.take()
    }

    /// There is a new input: it is said at once, but not too soon after the last time.
    pub(super) fn note_input(&mut self) {
        self.input_waits = true;
    }

    /// True when the relay was silent for the idle time.
    pub(super) fn is_idle(&self, now_us: u64, idle_us: u64) -> bool {
        now_us.saturating_sub(self.heard_us) >= idle_us
    }

    /// When the relay will have been silent too long.
    pub(super) fn idle_at(&self, idle_us: u64) -> u64 {
        self.heard_us.saturating_add(idle_us)
    }

    /// When to speak next: at once to answer a challenge; news or an input, but not too soon after the last time; when a snapshot
    /// is missed; or the keepalive (SPEC DEC8).
    pub(super) fn speak_at(&self, settings: &ClientSettings) -> u64 {
        let Some(sent) = self.sent_us.filter(|_| self.answer.is_none()) else {
            return 0;
        };
        let after = |wait_us: u64| sent.saturating_add(wait_us);
        let mut at_us = after(settings.keepalive_us);
        if let Some(news) = self.news_us {
            at_us = at_us.min(news.max(after(settings.report_gap_us)));
        }
        if self.input_waits {
            at_us = at_us.min(after(settings.input_gap_us));
        }
        if let Some(pads_us) = self.pads_at() {
            at_us = at_us.min(pads_us.max(after(settings.report_gap_us)));
        }
        at_us
    }

    /// Fills in what was received. `echo_delay` is in units of 64 us.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn fill(&self, report: &mut Report, now_us: u64) {
        report.received_count = self.received_count;
        if let Some(newest) = self.received {
            report.received_newest = newest.number as u32;
            report.echo = newest.stamp;
            let delay = now_us.saturating_sub(newest.arrived_us) >> 6;
            report.echo_delay = u16::try_from(delay).unwrap_or(u16::MAX);
        }
    }

    /// Begins an Up datagram: its clear header. `None` when the keys are spent (THREATS 27).
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        let number = self.sealer.reserve()?;
        out.clear();
        out.put_u8(DatagramKind::Up as u8);
        out.put_u64(self.connection);
        out.put_u32(number as u32);
        Some(number)
    }

    /// Seals what was written behind the header. `more_us` is when there will be news again that could not be
    /// said yet.
    pub(super) fn finish(
        &mut self,
        number: u64,
        now_us: u64,
        more_us: Option<u64>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some((header, payload)) = out.split_at_mut_checked(UP_HEADER_BYTES) else {
            return false;
        };
        let Some(tag) = self.sealer.seal(number, header, payload) else {
            return false;
        };
        out.put(&tag);
        (self.sent_us, self.news_us) = (Some(now_us), more_us);
        self.input_waits = false;
        true
    }
}

#[cfg(test)]
impl Link {
    /// What receiving may change, the replay window aside, as text.
    pub(super) fn fingerprint(&self) -> String {
        format!(
            "{:?}",
            (
                self.heard_us,
                self.received,
                self.received_count,
                self.news_us,
                self.answer,
                self.rhythm
            )
        )
    }
}
