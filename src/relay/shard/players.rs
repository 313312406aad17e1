//! What passes through a shard between players and their origin.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{PLACE_BITS, Shard};
use crate::state::Frame;
use crate::state::player::PlayerEvent;

impl Shard {
    /// Hands the frame's directives to the sessions they are for.
    pub(super) fn direct(&mut self, frame: &Frame) {
        for directive in frame.directives.iter() {
            let connection = directive.player;
            if Shard::of_connection(connection) != self.settings.index {
                continue;
            }
            let place = usize::try_from(connection & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
            if let Some(Some(session)) = self.sessions.get_mut(place)
                && session.connection == connection
            {
                self.counters.directives_taken += 1;
                let scratch = &mut self.kitchen.scratch;
                session.direct(&directive.order, frame, &self.arena, scratch, &mut self.counters);
            }
        }
    }

    /// What the origin is to hear of players, in order: moved to `out`.
    pub fn take_player_events(&mut self, out: &mut Vec<PlayerEvent>) {
        out.append(&mut self.player_events);
    }
}
