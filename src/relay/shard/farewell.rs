//! How sessions are told that they end: by a drain, by a newer session of their player, by whoever lets all of them go.
//!
//! Invariant: who is told is sent nothing else, and is told a few times, since it is UDP; who is not told yet is served on.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{PLACE_BITS, Shard};
use crate::relay::compose::Blocks;
use crate::relay::outbox::Outbox;
use crate::wire::payload::CloseReason;

/// How often a session is told that it ends.
pub(super) const FAREWELLS: u32 = 4;
/// Time between two of them, microseconds.
const FAREWELL_SPACING_US: u64 = 50_000;

impl Shard {
    /// No new sessions; every client is told and let go (SPEC OPS4), at once or a share at a time.
    pub fn drain(&mut self, now_us: u64) {
        self.draining_since_us.get_or_insert(now_us);
        self.let_go(now_us);
    }

    /// Where the shard drains, the share of its places whose time has come is told; the rest is served on.
    pub(super) fn let_go(&mut self, now_us: u64) {
        let Some(since_us) = self.draining_since_us else {
            return;
        };
        let places = self.sessions.len();
        let passed_us = now_us.saturating_sub(since_us);
        let told = match passed_us < self.drain_spread_us {
            true => share(places, passed_us, self.drain_spread_us),
            false => places,
        };
        self.dismiss_first(told, CloseReason::Draining, now_us);
    }

    /// Every session is told that it ends, several times since it is UDP, and is sent nothing else.
    pub fn dismiss(&mut self, reason: CloseReason, now_us: u64) {
        self.dismiss_first(self.sessions.len(), reason, now_us);
    }

    /// The same of the sessions in the first `places`.
    fn dismiss_first(&mut self, places: usize, reason: CloseReason, now_us: u64) {
        for session in self.sessions.iter_mut().take(places).flatten() {
            session.closing.get_or_insert((reason, FAREWELLS, now_us));
        }
    }

    /// Sessions whose player has a newer one are told so and let go (THREATS 18).
    pub(super) fn dismiss_replaced(&mut self, now_us: u64) {
        let Some(gate) = self.settings.gate.clone() else {
            return;
        };
        let own = self.settings.index;
        let is_own = |connection| Shard::of_connection(connection) == own;
        gate.residents().take_replaced(is_own, |connection| {
            let place = usize::try_from(connection & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
            match self.sessions.get_mut(place) {
                Some(Some(session)) if session.connection == connection && session.confirmed => {
                    let farewell = (CloseReason::Replaced, FAREWELLS, now_us);
                    session.closing.get_or_insert(farewell);
                }
                Some(Some(session)) if session.connection == connection => self.unsettled.push(place),
                _ => {}
            }
        });
        for place in core::mem::take(&mut self.unsettled) {
            self.close(place, CloseReason::Replaced);
        }
    }

    /// Tells one session, and closes it after the last time.
    pub(super) fn say_farewell(
        &mut self,
        place: usize,
        reason: CloseReason,
        now_us: u64,
        outbox: &mut impl Outbox,
    ) {
        self.send_blocks(
            place,
            Blocks {
                close: Some(reason),
                ..Blocks::default()
            },
            now_us,
            outbox,
        );
        let Some(Some(session)) = self.sessions.get_mut(place) else {
            return;
        };
        match session.closing {
            Some((reason, left, _)) if left > 1 => {
                session.closing = Some((reason, left - 1, now_us + FAREWELL_SPACING_US));
            }
            _ => self.close(place, reason),
        }
    }
}

/// How many of `places` fall on the first `passed_us` of `of_us`, rounded up.
fn share(places: usize, passed_us: u64, of_us: u64) -> usize {
    let told = u128::from(passed_us) * places as u128;
    usize::try_from(told.div_ceil(u128::from(of_us.max(1)))).unwrap_or(places)
}
