//! What an arena tells besides state: events, messages to one player, and why entities end.
//!
//! No payload names an entity: what a player may not see is not hinted at.

use crate::state::entity::Entity;
use crate::state::update::Event;

/// A shot was fired, by the event's entity. Payload: its heading, u16 little endian.
pub const SHOT: u16 = 1;
/// The event's entity was hit. Payload: damage, health left.
pub const HIT: u16 = 2;
/// The event's entity died. Payload: the team that did it.
pub const DEATH: u16 = 3;
/// The event's entity lives again, in a new segment. No payload.
pub const REVIVE: u16 = 4;
/// The event's entity took a pickup. Payload: health afterwards.
pub const PICKUP: u16 = 5;
/// A pad threw the event's entity across the map, into a new segment. No payload.
pub const TELEPORT: u16 = 6;
/// A round is over; no entity. Payload: the scores of both teams since the beginning, u32 little endian each.
pub const QUEST: u16 = 7;

/// Message to a player that joined. Payload: its team.
pub const WELCOME: u16 = 1;
/// Message to a player that killed. Payload: its kills, u32 little endian, and the victim's team.
pub const SCORE: u16 = 2;

/// The entity's player left.
pub const LEFT: u8 = 1;
/// A missile flew its time.
pub const EXPIRED: u8 = 2;
/// A missile met a wall, a building or a door.
pub const BLOCKED: u8 = 3;
/// A missile met somebody.
pub const STRUCK: u8 = 4;
/// A pickup was taken.
pub const TAKEN: u8 = 5;

/// True for the kinds that no rate tier delays or drops (SPEC CTL3).
#[must_use]
pub fn is_critical(kind: u16) -> bool {
    matches!(kind, HIT | DEATH | REVIVE | QUEST)
}

/// An event about `entity`, or about everybody.
#[must_use]
pub fn event(kind: u16, entity: Option<Entity>, at_us: u64, payload: &[u8]) -> Event {
    Event {
        kind,
        critical: is_critical(kind),
        entity,
        at_us,
        payload: payload.to_vec(),
    }
}
