//! How a session begins: requests and responses, admission, Welcomes.
//!
//! > Nothing is kept for an address that has not returned its cookie, and an answer is never longer than what it answers.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{PLACE_BITS, SessionChange, Shard, ShardLimits};
use crate::limits::{IDLE_US, LEASE_US, WELCOME_SPACING_US};
use crate::relay::admission::{Full, Limited};
use crate::relay::compose::{Blocks, Composed, Outer, compose};
use crate::relay::counters::DatagramRefusal;
use crate::relay::gate::{Admitted, Opened};
use crate::relay::outbox::{Outbox, Path};
use crate::relay::session::{Opening, Session};
use crate::token::TokenRefusal;
use crate::wire::bytes::SliceWriter;
use crate::wire::handshake::{self, ClientNonce, Denial, Response};
use crate::wire::payload::{CloseReason, Welcome};
use crate::wire::seal::{Direction, INSECURE_TOKEN_KEY, Secrets};
use crate::wire::version::Agreed;

/// Why no session was opened.
enum Refused {
    Token,
    Limited(Limited),
    NoRoom,
}

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
        if let Err(limited) = self.admission.challenge(now_us, path.remote.ip()) {
            self.counters.limit(limited);
            return Err(DatagramRefusal::HandshakeLimit);
        }
        let cookie = self.cookies.cookie(now_us, path.remote, &client_nonce);
        self.counters.challenges += 1;
        let version = self.settings.versions.highest();
        answer(path, outbox, |out| {
            handshake::put_challenge(out, version, &client_nonce, &cookie)
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
        if let Some(denial) = self.denial(version) {
            return self.deny(denial, path, &client_nonce, outbox);
        }
        let opened = match self.open_token(now_us, path, response.token) {
            Ok(opened) => opened,
            Err(Refused::Token) => return self.deny(Denial::Token, path, &client_nonce, outbox),
            Err(Refused::Limited(limited)) => {
                self.counters.limit(limited);
                return Err(DatagramRefusal::HandshakeLimit);
            }
            Err(Refused::NoRoom) => return Err(DatagramRefusal::NoRoom),
        };
        if let Err(limited) = self.admission.handshake(now_us, path.remote.ip()) {
            self.counters.limit(limited);
            return Err(DatagramRefusal::HandshakeLimit);
        }
        let ShardLimits { limits, census, .. } = &self.settings.limits;
        match census.enter(limits, self.settings.sessions_max, path.remote.ip()) {
            Ok(()) => {}
            Err(Full::Relay) => return self.deny(Denial::Full, path, &client_nonce, outbox),
            Err(Full::Host) => {
                // Its host is full, not the relay: that is counted apart.
                self.counters.limit(Limited::Sessions);
                return self.say_denied(Denial::Full, path, &client_nonce, outbox);
            }
        }
        let granted = self.grant(now_us, path, &response, opened);
        if granted.is_err() {
            let ShardLimits { limits, census, .. } = &self.settings.limits;
            census.leave(limits, path.remote.ip());
        }
        match granted {
            Ok(place) => self.welcome(place, now_us, outbox),
            Err(Refused::Token) => return self.deny(Denial::Token, path, &client_nonce, outbox),
            Err(Refused::NoRoom | Refused::Limited(_)) => return Err(DatagramRefusal::NoRoom),
        }
        Ok(())
    }

    /// Why nobody can be let in now, or not with this version.
    fn denial(&self, version: u16) -> Option<Denial> {
        if !self.settings.versions.include(version) || version < self.version_least {
            Some(Denial::Version)
        } else if self.draining_since_us.is_some() {
            Some(Denial::Draining)
        } else if self.settings.limits.census.present() >= self.settings.sessions_max {
            Some(Denial::Full)
        } else {
            None
        }
    }

    /// Opens a session where the token allows it; its place.
    fn grant(
        &mut self,
        now_us: u64,
        path: Path,
        response: &Response<'_>,
        opened: Option<Opened>,
    ) -> Result<usize, Refused> {
        let free = self.free.pop();
        let place = free.unwrap_or(self.sessions.len());
        let granted = self.grant_at(place, now_us, path, response, opened);
        if granted.is_err() {
            self.free.extend(free);
        }
        granted.map(|()| place)
    }

    fn grant_at(
        &mut self,
        place: usize,
        now_us: u64,
        path: Path,
        response: &Response<'_>,
        opened: Option<Opened>,
    ) -> Result<(), Refused> {
        let connection = self.connection_of(place).ok_or(Refused::NoRoom)?;
        let admitted = match opened.zip(self.settings.gate.clone()) {
            Some((opened, gate)) => {
                let claimed = gate.claim(opened, connection);
                Some(claimed.map_err(|refusal| self.refuse_token(now_us, path, refusal))?)
            }
            None => None,
        };
        self.make_room();
        self.open_session(place, connection, now_us, path, response, admitted)
            .ok_or(Refused::NoRoom)
    }

    /// Where sessions enough wait to be heard, the one that has waited for the longest goes (THREATS 17): an honest client is
    /// heard a round trip after its Welcome.
    fn make_room(&mut self) {
        let most = self.limits.sessions_unheard;
        while most > 0 && self.unheard_open >= most {
            let Some(oldest) = self.unheard.pop_front() else {
                return;
            };
            if let Some(place) = self.unheard(oldest) {
                self.counters.limit(Limited::Unheard);
                self.close(place, CloseReason::Idle);
            }
        }
    }

    /// Forgets who was heard, or is gone, of those at the head of the line.
    pub(super) fn forget_heard(&mut self) {
        while let Some(oldest) = self.unheard.front().copied() {
            if self.unheard(oldest).is_some() {
                return;
            }
            self.unheard.pop_front();
        }
    }

    fn deny(
        &mut self,
        denial: Denial,
        path: Path,
        client_nonce: &ClientNonce,
        outbox: &mut impl Outbox,
    ) -> Result<(), DatagramRefusal> {
        self.counters.handshakes_refused[denial as usize - 1] += 1;
        self.say_denied(denial, path, client_nonce, outbox)
    }

    fn say_denied(
        &self,
        denial: Denial,
        path: Path,
        client_nonce: &ClientNonce,
        outbox: &mut impl Outbox,
    ) -> Result<(), DatagramRefusal> {
        let version = self.settings.versions.highest();
        answer(path, outbox, |out| {
            handshake::put_denied(out, version, client_nonce, denial)
        })
    }

    /// A connection id for a place.
    fn connection_of(&mut self, place: usize) -> Option<u64> {
        let random = u64::from(u32::from_le_bytes(self.entropy.bytes()));
        Some(random << 32 | u64::from(self.settings.index) << PLACE_BITS | u64::try_from(place).ok()?)
    }

    /// Opens a token; `None` in insecure mode, where none may be shown.
    fn open_token(&mut self, now_us: u64, path: Path, token: &[u8]) -> Result<Option<Opened>, Refused> {
        let outcome = match self.settings.gate.clone() {
            Some(gate) => {
                let limited = self.admission.open_token(now_us, path.remote.ip());
                limited.map_err(Refused::Limited)?;
                gate.open(token).map(Some)
            }
            None if token.is_empty() => Ok(None),
            None => Err(TokenRefusal::UnknownKey),
        };
        outcome.map_err(|refusal| self.refuse_token(now_us, path, refusal))
    }

    /// Counts a token that is refused, for a reason that is not told.
    fn refuse_token(&mut self, now_us: u64, path: Path, refusal: TokenRefusal) -> Refused {
        self.counters.tokens_refused[refusal as usize] += 1;
        self.admission.note_refused(now_us, path.remote.ip());
        Refused::Token
    }

    /// The place of a session of this shard that was never heard.
    fn unheard(&self, connection: u64) -> Option<usize> {
        let place = usize::try_from(connection & ((1 << PLACE_BITS) - 1)).ok()?;
        let session = self.sessions.get(place)?.as_ref()?;
        (session.connection == connection && !session.confirmed).then_some(place)
    }

    fn open_session(
        &mut self,
        place: usize,
        connection: u64,
        now_us: u64,
        path: Path,
        response: &Response<'_>,
        admitted: Option<Admitted>,
    ) -> Option<()> {
        let client_nonce = response.client_nonce;
        let agreed = Agreed {
            version: response.version,
            offered: self.settings.versions.highest(),
        };
        let relay_nonce = self.entropy.bytes();
        let secret = admitted.as_ref().map(|admitted| admitted.grant.secret.0);
        let secrets = Secrets {
            token_key: secret.unwrap_or(INSECURE_TOKEN_KEY),
            client_nonce,
            relay_nonce,
            connection,
            agreed,
        };
        let opening = Opening {
            connection,
            path,
            client_nonce,
            relay_nonce,
            agreed,
            sealer: secrets.sealer(Direction::Down)?,
            opener: secrets.opener(Direction::Up)?,
        };
        let mut session = Box::new(Session::new(opening, now_us));
        session.begin_view(self.settings.view);
        if let Some(admitted) = &admitted {
            session.admit(admitted);
        }
        let client = session.client;
        if place == self.sessions.len() {
            self.sessions.push(Some(session));
        } else {
            self.sessions[place] = Some(session);
        }
        self.by_source.insert((path.remote, client_nonce), place);
        self.open += 1;
        self.count_version(agreed.version, true);
        self.unheard_open += 1;
        self.unheard.push_back(connection);
        self.counters.sessions_opened += 1;
        self.changes.push(SessionChange::Opened(connection, client));
        Some(())
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
    session.confirmed || session.welcomes < session.welcomes_max()
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
