//! Both ends of one session side by side: what the relay believes that a client holds, and what it holds.

use super::player::Player;
use crate::relay::session::Session;
use crate::relay::shard::Shard;
use crate::relay::table::Known;

/// The relay's session of a client.
#[must_use]
pub fn session_of<'s>(shard: &'s Shard, player: &Player) -> Option<&'s Session> {
    shard
        .sessions()
        .find(|session| Some(&session.client_nonce) == player.nonce())
}

/// Both ends' windows in a line.
#[must_use]
pub fn describe(session: &Session, player: &Player, shard: &Shard) -> String {
    let window = &session.window;
    let newest = shard.arena().newest().map(|frame| frame.tick);
    let base = session.choose_base(shard.arena());
    let client = player.client().map(|client| {
        let (epoch, generation, newest) = (
            client.session_epoch(),
            client.generation(),
            client.newest().map(|n| n.id),
        );
        let slots = client.statistics().slots_in_use;
        format!(
            "epoch {epoch}, generation {generation}, newest {newest:?}, {slots} slots, refusing {:?}",
            client.refusing()
        )
    });
    format!(
        "relay: epoch {}, generation {}, newest {newest:?}, base {base:?}, {} held, {} candidates, commit {:?}, whole {}, heard {} us, tokens {}; client: {client:?}",
        window.session_epoch(),
        window.generation(),
        window.held().len(),
        window.candidates().count(),
        window.open_commit(),
        session.whole,
        session.heard_us,
        session.purse.bytes()
    )
}

/// Compares what the relay believes a client holds with what it holds: the oldest and the newest table, or all.
#[must_use]
pub fn compare_tables(session: &Session, player: &Player, shard: &Shard, all: bool) -> Option<String> {
    let client = player.client()?;
    if client.session_epoch() != session.window.session_epoch() {
        return None;
    }
    let held = session.window.held();
    let ends = held.first().into_iter().chain(held.last());
    let looked_at: Vec<_> = if all {
        held.iter().collect()
    } else {
        ends.collect()
    };
    for believed in looked_at {
        let id = believed.held.id;
        let Some((_, table)) = client.tables().find(|(held, _)| *held == believed.held) else {
            return Some(format!(
                "the relay believes that snapshot {id} is held with parts {:b}; it is not",
                believed.held.mask
            ));
        };
        let Some(frame) = shard.arena().frame(id) else {
            continue;
        };
        let slots = believed.table.slot_count(frame);
        for slot in (0..slots).map_while(|slot| u16::try_from(slot).ok()) {
            let has = table.record(slot);
            let right = match believed.table.known(slot, frame) {
                Known::Absent => has.is_none(),
                Known::Old => has.is_some(),
                Known::At(tick) => {
                    let frame = shard.arena().frame(tick);
                    frame.is_none_or(|frame| frame.record(slot) == has.as_ref()) && has.is_some()
                }
            };
            if !right {
                let believed = believed.table.known(slot, frame);
                return Some(format!(
                    "the relay believes {believed:?} of slot {slot} in snapshot {id}; the client has {has:?}"
                ));
            }
        }
    }
    None
}
