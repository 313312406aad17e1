//! Who is let in, where tokens are asked for: one gate for all shards of a relay.
//!
//! > [`open`](Gate::open) a token and ask whether it is good here, [`claim`](Gate::claim) it for a session,
//! > [`confirm`](Gate::confirm) when the session's client was heard, [`leave`](Gate::leave) when it ends. All after the cookie was
//! > found right, never before.
//!
//! Invariants: keys change as a whole, and sessions do not notice; a token that was claimed is claimed at every shard.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::{PoisonError, RwLock};

use super::residents::Residents;
use crate::state::player::ClientId;
use crate::token::history::TokenHistory;
use crate::token::{self, Grant, TokenId, TokenKeys, TokenRefusal};

/// What a relay knows of itself that a token must name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// The fleet's name; a token of another is refused.
    pub audience: String,
    /// Addresses under which clients know the relay; a token that names none of them is refused. Empty: any will do.
    pub addresses: Vec<SocketAddr>,
}

/// Who is let in.
#[derive(Debug)]
pub struct Gate {
    keys: RwLock<TokenKeys>,
    history: TokenHistory,
    whereabouts: Whereabouts,
    residents: Residents,
    unix_s: fn() -> u64,
}

/// A token that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Which.
    pub id: TokenId,
    /// What it grants.
    pub grant: Grant,
    /// How often the token was claimed before.
    pub claims_before: u32,
    /// The session's place in the order of all.
    pub order: u64,
}

/// A token that is good here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    id: TokenId,
    grant: Grant,
}

impl Gate {
    /// A gate that opened at `began_s`, by the clock `unix_s`: seconds since 1970. `began_s` is 0 where no relay had these keys
    /// before.
    #[must_use]
    pub fn new(keys: TokenKeys, whereabouts: Whereabouts, began_s: u64, unix_s: fn() -> u64) -> Gate {
        Gate {
            keys: RwLock::new(keys),
            history: TokenHistory::new(began_s),
            whereabouts,
            residents: Residents::default(),
            unix_s,
        }
    }

    /// Takes other keys from now on. Tokens of keys that are gone are refused; sessions go on.
    pub fn set_keys(&self, keys: TokenKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Opens a token and asks whether it is good here. Nothing is claimed.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    pub fn open(&self, sealed: &[u8]) -> Result<Opened, TokenRefusal> {
        let now_s = (self.unix_s)();
        let (id, grant) = {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            token::open(&keys, now_s, sealed)?
        };
        let Whereabouts { audience, addresses } = &self.whereabouts;
        let is_here = addresses.is_empty() || grant.relays.iter().any(|relay| addresses.contains(relay));
        if grant.audience != *audience || !is_here {
            return Err(TokenRefusal::Elsewhere);
        }
        match self.history.is_used(&id) {
            true => Err(TokenRefusal::Used),
            false => Ok(Opened { id, grant }),
        }
    }

    /// Claims a token for the session `connection`.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    pub fn claim(&self, opened: Opened, connection: u64) -> Result<Admitted, TokenRefusal> {
        let Opened { id, grant } = opened;
        let (issued_s, expires_s) = (grant.issued_s, grant.expires_s);
        let claim = self
            .history
            .claim((self.unix_s)(), id, issued_s, expires_s, connection)?;
        if let Some(oldest) = claim.instead_of {
            self.residents.dismiss(oldest);
        }
        Ok(Admitted {
            id,
            grant,
            claims_before: claim.before,
            order: self.residents.order(),
        })
    }

    /// The client of an admitted token's session was heard for the first time. True when the session is the token's; then it is
    /// the player's too, and others go.
    pub fn confirm(&self, id: &TokenId, player: ClientId, connection: u64, order: u64) -> bool {
        let is_first = self
            .history
            .confirm(id, connection, |rival| self.residents.dismiss(rival));
        if is_first {
            self.residents.settle(player, connection, order);
        }
        is_first
    }

    /// A session ended.
    pub fn leave(&self, id: &TokenId, player: ClientId, connection: u64, confirmed: bool) {
        match confirmed {
            true => self.residents.leave(player, connection),
            false => self.history.withdraw(id, connection),
        }
    }

    /// Which session is a player's.
    #[must_use]
    pub fn residents(&self) -> &Residents {
        &self.residents
    }

    /// Tokens remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.history.len()
    }
}
