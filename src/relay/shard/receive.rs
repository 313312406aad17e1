//! The walk up: whose datagram it is, and what becomes of one of a session.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::farewell::FAREWELLS;
use super::{PLACE_BITS, Receipt, Shard};
use crate::limits::{DATAGRAM_MAX, TAG_BYTES};
use crate::relay::counters::DatagramRefusal;
use crate::relay::outbox::{Outbox, Path};
use crate::relay::session::{Arrival, Hearing, Received};
use crate::state::player::PlayerEvent;
use crate::token::TokenRefusal;
use crate::wire::bytes::ByteReader;
use crate::wire::handshake::{DatagramKind, UP_HEADER_BYTES};
use crate::wire::payload::CloseReason;
use crate::wire::seal::OpenError;

/// Where a datagram of a session is to be taken.
enum Route {
    /// At this place of this shard.
    Here(usize),
    /// At another shard.
    Elsewhere(u8),
}

fn refusal_of(error: OpenError) -> DatagramRefusal {
    match error {
        OpenError::Duplicate => DatagramRefusal::Duplicate,
        OpenError::TooOld => DatagramRefusal::TooOld,
        OpenError::Forged => DatagramRefusal::Forged,
    }
}

impl Shard {
    /// Takes one datagram. A handshake is answered through the outbox.
    pub fn receive(
        &mut self,
        now_us: u64,
        path: Path,
        datagram: &mut [u8],
        outbox: &mut impl Outbox,
    ) -> Receipt {
        self.counters.datagrams_received += 1;
        let kind = datagram.first().map(|byte| DatagramKind::from_byte(*byte));
        let outcome = match kind {
            None => Err(DatagramRefusal::Size),
            _ if datagram.len() > DATAGRAM_MAX => Err(DatagramRefusal::Size),
            Some(Some(DatagramKind::Up)) => match self.route(datagram) {
                Ok(Route::Here(place)) => self.receive_up(now_us, place, path, datagram, outbox),
                Ok(Route::Elsewhere(shard)) => return Receipt::Elsewhere(shard),
                Err(refusal) => Err(refusal),
            },
            Some(Some(DatagramKind::Request)) => self.receive_request(now_us, path, datagram, outbox),
            Some(Some(DatagramKind::Response)) => self.receive_response(now_us, path, datagram, outbox),
            Some(_) => Err(DatagramRefusal::Kind),
        };
        match outcome {
            Ok(()) => Receipt::Taken,
            Err(refusal) => {
                self.counters.refuse(refusal);
                Receipt::Refused(refusal)
            }
        }
    }

    fn route(&self, datagram: &[u8]) -> Result<Route, DatagramRefusal> {
        if datagram.len() < UP_HEADER_BYTES + TAG_BYTES + 1 {
            return Err(DatagramRefusal::Size);
        }
        let mut reader = ByteReader::new(datagram.get(1..).unwrap_or_default());
        let connection = reader.u64().map_err(|_| DatagramRefusal::Size)?;
        let shard = Shard::of_connection(connection);
        let shards = self.settings.limits.shards;
        if shards > 0 && usize::from(shard) >= shards {
            // An invented id: no queue between shards is behind it.
            return Err(DatagramRefusal::UnknownConnection);
        }
        if shard != self.settings.index {
            return Ok(Route::Elsewhere(shard));
        }
        let place = usize::try_from(connection & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
        match self.sessions.get(place) {
            Some(Some(session)) if session.connection == connection => Ok(Route::Here(place)),
            _ => Err(DatagramRefusal::UnknownConnection),
        }
    }

    /// The walk up: open, replay check, record, stop; from a new address a challenge goes back there.
    fn receive_up(
        &mut self,
        now_us: u64,
        place: usize,
        path: Path,
        datagram: &mut [u8],
        outbox: &mut impl Outbox,
    ) -> Result<(), DatagramRefusal> {
        let bytes = datagram.len();
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return Err(DatagramRefusal::UnknownConnection);
        };
        let (header, sealed) = datagram
            .split_at_mut_checked(UP_HEADER_BYTES)
            .ok_or(DatagramRefusal::Size)?;
        let mut number = ByteReader::new(header.get(9..).unwrap_or_default());
        let low = number.u32().map_err(|_| DatagramRefusal::Size)?;
        let newest = session.opener.newest();
        let (number, payload) = session.opener.open(low, header, sealed).map_err(refusal_of)?;
        if !session.upload.take(&self.limits, now_us, bytes) {
            return Err(DatagramRefusal::UpLimit);
        }
        let joined = session.confirmed;
        if !joined
            && let (Some(id), Some(gate)) = (&session.token, &self.settings.gate)
            && !gate.confirm(id, session.client, session.connection, session.order)
        {
            // Another session of its token was heard first: at most one is (THREATS 9).
            self.counters.tokens_refused[TokenRefusal::Used as usize] += 1;
            self.close(place, CloseReason::Replaced);
            return Err(DatagramRefusal::UnknownConnection);
        }
        let mut hearing = Hearing {
            now_us,
            newest: number > newest,
            report: &mut self.report,
            arena: &self.arena,
            counters: &mut self.counters,
            spare: &mut self.kitchen.spare,
            events: &mut self.player_events,
            answer: None,
        };
        if !joined {
            let joined = PlayerEvent::Joined(session.connection, session.client);
            hearing.events.push(joined);
        }
        let received = session.receive(payload, &mut hearing);
        if received.is_err() && !joined {
            hearing.events.pop();
        }
        let Ok(received) = received else {
            if !session.upload.take_malformed(&self.limits, now_us) {
                session
                    .closing
                    .get_or_insert((CloseReason::Protocol, FAREWELLS, now_us));
            }
            return Err(DatagramRefusal::Malformed);
        };
        self.unheard_open -= usize::from(!joined);
        let answer = hearing.answer;
        if let Received::Close(_) = received {
            self.close(place, CloseReason::Left);
            return Ok(());
        }
        let arrival = Arrival {
            path,
            number,
            newest: number > newest,
            bytes,
            answer,
        };
        self.follow(place, now_us, arrival, outbox);
        Ok(())
    }
}
