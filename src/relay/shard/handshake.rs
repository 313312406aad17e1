//! How a session begins: requests and responses, admission, Welcomes.
//!
//! > Nothing is kept for an address that has not returned its cookie, and an answer is never longer than what it answers.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{PLACE_BITS, SessionChange, Shard};
use crate::limits::{IDLE_US, LEASE_US, WELCOME_SPACING_US, WELCOMES_MAX};
use crate::relay::compose::{Blocks, Composed, Outer, compose};
use crate::relay::counters::DatagramRefusal;
use crate::relay::outbox::{Outbox, Path};
use crate::relay::session::{Opening, Session};
use crate::wire::bytes::SliceWriter;
use crate::wire::handshake::{self, Denial, PROTOCOL_VERSION, Response};
use crate::wire::payload::Welcome;
use crate::wire::seal::{Direction, Secrets};

impl Shard {
    pub(super) fn receive_request(
        &mut self,
        now_us: u64,
        path: Path,
        datagram: &[u8],
        outbox: &mut impl Outbox,
    ) -> Result<(), DatagramRefusal> {
        let (_, client_nonce) = handshake::read_request(datagram.get(1..).unwrap_or_default())
            .map_err(|_| DatagramRefusal::Handshake)?;
        let cookie = self.cookies.cookie(now_us, path.remote, &client_nonce);
        self.counters.challenges += 1;
        answer(path, outbox, |out| {
            handshake::put_challenge(out, &client_nonce, &cookie)
        })
    }

    pub(super) fn receive_response(
        &mut self,
        now_us: u64,
        path: Path,
        datagram: &[u8],
        outbox: &mut impl Outbox,
    ) -> Result<(), DatagramRefusal> {
        let response = handshake::read_response(datagram.get(1..).unwrap_or_default())
            .map_err(|_| DatagramRefusal::Handshake)?;
        let Response {
            version,
            client_nonce,
            cookie,
            ..
        } = response;
        if !self.cookies.is_valid(now_us, path.remote, &client_nonce, &cookie) {
            return Err(DatagramRefusal::Cookie);
        }
        if let Some(place) = self.by_source.get(&(path.remote, client_nonce)).copied() {
            // The welcome was lost or is late: say it again, but a replayed response is no lever.
            let fresh = |session: &Session| {
                let spaced = now_us.saturating_sub(session.welcome_us) >= WELCOME_SPACING_US / 2;
                !session.confirmed && spaced && may_be_welcomed(session)
            };
            if matches!(self.sessions.get(place), Some(Some(session)) if fresh(session)) {
                self.welcome(place, now_us, outbox);
            }
            return Ok(());
        }
        let denial = if version != PROTOCOL_VERSION {
            Some(Denial::Version)
        } else if self.draining {
            Some(Denial::Draining)
        } else if self.open >= self.settings.sessions_max {
            Some(Denial::Full)
        } else {
            None
        };
        if let Some(denial) = denial {
            self.counters.handshakes_refused[denial as usize - 1] += 1;
            return answer(path, outbox, |out| {
                handshake::put_denied(out, &client_nonce, denial)
            });
        }
        let place = self
            .admit(now_us, path, client_nonce)
            .ok_or(DatagramRefusal::NoRoom)?;
        self.welcome(place, now_us, outbox);
        Ok(())
    }

    fn admit(&mut self, now_us: u64, path: Path, client_nonce: [u8; 16]) -> Option<usize> {
        let place = self.free.pop().unwrap_or(self.sessions.len());
        let random = u64::from(u32::from_le_bytes(self.entropy.bytes()));
        let connection =
            random << 32 | u64::from(self.settings.index) << PLACE_BITS | u64::try_from(place).ok()?;
        let relay_nonce = self.entropy.bytes();
        let secrets = Secrets {
            token_key: self.settings.token_key,
            client_nonce,
            relay_nonce,
            connection,
        };
        let opening = Opening {
            connection,
            path,
            client_nonce,
            relay_nonce,
            sealer: secrets.sealer(Direction::Down)?,
            opener: secrets.opener(Direction::Up)?,
        };
        let mut session = Box::new(Session::new(opening, now_us));
        session.begin_view(self.settings.view);
        if place == self.sessions.len() {
            self.sessions.push(Some(session));
        } else {
            self.sessions[place] = Some(session);
        }
        self.by_source.insert((path.remote, client_nonce), place);
        self.open += 1;
        self.counters.sessions_opened += 1;
        self.changes.push(SessionChange::Opened(connection));
        Some(place)
    }

    /// Says a Welcome, with the stream's schema.
    pub(super) fn welcome(&mut self, place: usize, now_us: u64, outbox: &mut impl Outbox) {
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return;
        };
        let outer = if session.confirmed {
            Outer::Down
        } else {
            Outer::Welcome
        };
        let welcome = Welcome {
            stream_epoch: self.stream_epoch,
            lease_us: u32::try_from(LEASE_US).unwrap_or(u32::MAX),
            idle_us: u32::try_from(IDLE_US).unwrap_or(u32::MAX),
            schema: &self.schema,
        };
        let blocks = Blocks {
            welcome: Some(welcome),
            ..Blocks::default()
        };
        let sent = compose(session, outer, blocks, now_us, self.settings.stopwatch, outbox);
        if let Some(Composed { bytes, .. }) = sent {
            session.welcomes += 1;
            session.welcome_us = now_us;
            self.counters.datagrams_sent += 1;
            self.counters.bytes_sent += bytes as u64;
        }
    }
}

/// True while a client that was not heard yet may be sent another Welcome, whatever for.
pub(super) fn may_be_welcomed(session: &Session) -> bool {
    session.confirmed || session.welcomes < WELCOMES_MAX
}

/// Puts one clear datagram into the outbox.
fn answer(
    path: Path,
    outbox: &mut impl Outbox,
    put: impl FnOnce(&mut SliceWriter<'_>),
) -> Result<(), DatagramRefusal> {
    let buffer = outbox.reserve().ok_or(DatagramRefusal::NoRoom)?;
    let mut writer = SliceWriter::new(buffer);
    put(&mut writer);
    let length = writer.finish().ok_or(DatagramRefusal::NoRoom)?;
    outbox.commit(length, path);
    Ok(())
}
