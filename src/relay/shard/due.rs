//! What a session needs without a frame: words, signs of life, an end.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::handshake::may_be_welcomed;
use crate::limits::{
    IDLE_US, PROBE_US, SESSION_TICKS_MAX, SILENT_US, SNAPSHOT_BYTES_MIN, UNCONFIRMED_US, WELCOME_SPACING_US,
};
use crate::relay::compose::Blocks;
use crate::relay::session::Session;
use crate::wire::payload::CloseReason;
use crate::wire::seal::NUMBERS_MAX;

/// What a session needs without a frame.
pub(super) enum Due {
    Nothing,
    Welcome,
    Blocks(Blocks<'static>),
    Farewell(CloseReason),
    End(CloseReason),
}

/// What is due to a session. `room`: bytes that its budget and the relay's leave for messages.
pub(super) fn due(session: &Session, stream_epoch: u32, room: usize, now_us: u64) -> Due {
    let silent_us = now_us.saturating_sub(session.heard_us);
    if let Some((reason, _, at_us)) = session.closing {
        return if now_us >= at_us {
            Due::Farewell(reason)
        } else {
            Due::Nothing
        };
    }
    if silent_us > IDLE_US {
        return Due::Farewell(CloseReason::Idle);
    }
    if is_spent(session) {
        return Due::Farewell(CloseReason::Exhausted);
    }
    let unwelcomed = !session.confirmed || session.stream_epoch_known != stream_epoch;
    if unwelcomed
        && may_be_welcomed(session)
        && now_us.saturating_sub(session.welcome_us) >= WELCOME_SPACING_US
        && silent_us <= SILENT_US
    {
        return Due::Welcome;
    }
    if !session.confirmed && silent_us > UNCONFIRMED_US {
        return Due::End(CloseReason::Idle);
    }
    if silent_us > SILENT_US {
        let probe = now_us.saturating_sub(session.sent_us) >= PROBE_US;
        return if probe {
            Due::Blocks(Blocks::default())
        } else {
            Due::Nothing
        };
    }
    // Messages ride in snapshots; where none went for a while, or had no room, they go by themselves, and so does a
    // sign of life.
    let quiet_us = now_us.saturating_sub(session.sent_us);
    let untold_us = now_us.saturating_sub(session.messages_us);
    let messages = room >= SNAPSHOT_BYTES_MIN && session.stream.is_due(now_us, session.resend_us());
    if quiet_us >= QUIET_US || (messages && untold_us >= QUIET_US / 4) {
        return Due::Blocks(Blocks {
            messages,
            limit: Some(room),
            ..Blocks::default()
        });
    }
    Due::Nothing
}

/// True when a session's numbers run out (THREATS 27): those of datagrams, but for one to say so, or the ticks that its
/// client can tell apart (SPEC DEC6).
fn is_spent(session: &Session) -> bool {
    let ticks = session
        .first
        .zip(session.served)
        .map(|(first, last)| last.minus(first.0).0);
    session.sealer.next_number() >= NUMBERS_MAX - 1 || ticks.is_some_and(|ticks| ticks >= SESSION_TICKS_MAX)
}

/// Time without any datagram after which a session gets a sign of life, microseconds.
const QUIET_US: u64 = 200_000;
