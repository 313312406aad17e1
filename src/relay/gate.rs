//! Who is let in, where tokens are asked for: one gate for all shards of a relay.
//!
//! > [`admit`](Gate::admit) opens a token, asks whether it is for this relay, and claims it; [`confirm`](Gate::confirm) when the
//! > session's client was heard. Both are called after the cookie was found right, never before.
//!
//! Invariants: keys change as a whole, and sessions do not notice; a token that was claimed is claimed at every shard.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock};

use super::residents::Residents;
use crate::state::player::ClientId;
use crate::token::history::{Claim, TokenHistory};
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
    /// A session that was made of it before and never heard: it goes.
    pub instead_of: Option<u64>,
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

    /// Takes a token for the session `connection` of a client at `by`.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    pub fn admit(&self, sealed: &[u8], by: IpAddr, connection: u64) -> Result<Admitted, TokenRefusal> {
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
        let (issued_s, expires_s) = (grant.issued_s, grant.expires_s);
        let claim = self
            .history
            .claim(now_s, id, issued_s, expires_s, by, connection)?;
        let instead_of = match claim {
            Claim::Fresh => None,
            Claim::Again(before) => Some(before),
        };
        Ok(Admitted {
            id,
            grant,
            instead_of,
        })
    }

    /// The client of an admitted token was heard: it is the session of its player now.
    pub fn confirm(&self, id: &TokenId, player: ClientId, connection: u64) {
        self.history.confirm(id);
        self.residents.settle(player, connection);
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
