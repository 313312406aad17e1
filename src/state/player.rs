//! What passes between an origin and the players behind a relay (SPEC PRE2, PRE4, CTL5, DEC10).
//!
//! A player is one session of one relay; its number is that relay's and means nothing elsewhere. Up go joins, leaves,
//! cameras and inputs; down go directives: who a player is, what it may see, what it is told, how far its inputs have
//! been processed.

use super::entity::Entity;
use super::view::View;

/// A session of a relay, as the origin names it. It is no secret and no proof.
pub type PlayerId = u64;

/// A player as the studio's backend numbers it: what it put into the token. Authentic where the relay asks for tokens.
pub type ClientId = u64;

/// What a relay tells its origin of a player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlayerEvent {
    /// The session is there. Said again after every reconnection to the origin, so that an origin that knows the player
    /// takes it as nothing new. The second is who the player is at the studio's backend, as its token says; 0 without one.
    Joined(PlayerId, ClientId),
    /// The session is over.
    Left(PlayerId),
    /// One input, once, in the order of their numbers.
    Input {
        /// Whose.
        player: PlayerId,
        /// Its number: rises by one from 1, across what was lost.
        sequence: u32,
        /// The game's bytes, at most [`INPUT_BYTES_MAX`](crate::limits::INPUT_BYTES_MAX).
        payload: Vec<u8>,
    },
    /// Inputs that will never come: they left the client's window, or the relay had no room for them.
    InputsLost {
        /// Whose.
        player: PlayerId,
        /// Number of the first.
        first: u32,
        /// How many, at least one.
        count: u32,
    },
    /// Where the player's free camera is, quantised by the schema.
    Camera {
        /// Whose.
        player: PlayerId,
        /// The three axes.
        position: [u32; 3],
    },
}

impl PlayerEvent {
    /// Whom it is about.
    #[must_use]
    pub fn player(&self) -> PlayerId {
        match self {
            PlayerEvent::Joined(player, _) | PlayerEvent::Left(player) => *player,
            PlayerEvent::Input { player, .. }
            | PlayerEvent::InputsLost { player, .. }
            | PlayerEvent::Camera { player, .. } => *player,
        }
    }
}

/// What an origin tells one player, or its relay about it. It takes effect with the tick it comes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Whom it is for.
    pub player: PlayerId,
    /// What.
    pub order: Order,
}

/// The kinds of directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The player's own entity, and what it may see; `None` for no entity, and for the view as it was.
    Assign {
        /// The entity it owns.
        entity: Option<Entity>,
        /// Its view.
        view: Option<View>,
    },
    /// A message for the player alone, reliable and in order with the events of the world.
    Message {
        /// The game's kind.
        kind: u16,
        /// The game's bytes, at most [`EVENT_BYTES_MAX`](crate::limits::EVENT_BYTES_MAX).
        payload: Vec<u8>,
    },
    /// All inputs up to this number are in the state of the tick (SPEC PRE2).
    Processed(u32),
}

impl Directive {
    /// Bytes it counts as against the bound of a tick.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let payload = match &self.order {
            Order::Message { payload, .. } => payload.len(),
            _ => 0,
        };
        crate::limits::EVENT_OVERHEAD_BYTES + payload
    }
}

const _: () = assert!(size_of::<Directive>() <= crate::limits::EVENT_OVERHEAD_BYTES);
