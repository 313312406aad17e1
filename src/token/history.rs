//! Which tokens were used: each admits one session, once (THREATS 9, 10, 11).
//!
//! > [`claim`](TokenHistory::claim) before a session is made, [`confirm`](TokenHistory::confirm) when its client was heard. A
//! > token is pending in between, and then its client may try again from the same address; after that it admits nobody.
//!
//! Invariants: what was claimed is remembered until it has expired, so nothing is ever evicted; when there is no room a new
//! token is refused. One history serves all shards of a relay: a token is good at one of them.
//!
//! Memory: at most [`TOKENS_MAX`] entries, about 100 bytes each.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use super::start::Start;
use super::{TokenId, TokenRefusal};
use crate::limits::TOKENS_MAX;

/// A token that was claimed.
#[derive(Clone, Copy, Debug)]
struct Claimed {
    expires_s: u64,
    by: IpAddr,
    /// The session that was made of it.
    connection: u64,
    /// Its client was heard.
    confirmed: bool,
}

/// What a claim gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The token was not used before.
    Fresh,
    /// Its client tries again: this session, never heard, makes room for the new one.
    Again(u64),
}

/// The tokens used at a relay.
#[derive(Debug)]
pub struct TokenHistory {
    /// What was minted before it may have been used before it.
    start: Start,
    most: usize,
    claimed: Mutex<HashMap<TokenId, Claimed>>,
}

impl TokenHistory {
    /// An empty history of a relay that began at `began_s`; 0 where no relay had its keys before.
    #[must_use]
    pub fn new(began_s: u64) -> TokenHistory {
        TokenHistory::of_size(began_s, TOKENS_MAX)
    }

    fn of_size(began_s: u64, most: usize) -> TokenHistory {
        TokenHistory {
            start: Start::new(began_s),
            most,
            claimed: Mutex::new(HashMap::new()),
        }
    }

    /// Claims a token, minted at `issued_s`, for the session `connection` of a client at `by`.
    ///
    /// # Errors
    /// [`TokenRefusal::BeforeStart`], [`TokenRefusal::Used`], [`TokenRefusal::HistoryFull`].
    pub fn claim(
        &self,
        now_s: u64,
        id: TokenId,
        issued_s: u64,
        expires_s: u64,
        by: IpAddr,
        connection: u64,
    ) -> Result<Claim, TokenRefusal> {
        if !self.start.allows(now_s, issued_s) {
            return Err(TokenRefusal::BeforeStart);
        }
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = claimed.get_mut(&id) {
            if known.confirmed || known.by != by {
                return Err(TokenRefusal::Used);
            }
            let before = core::mem::replace(&mut known.connection, connection);
            return Ok(Claim::Again(before));
        }
        if claimed.len() >= self.most {
            claimed.retain(|_, known| known.expires_s > now_s);
            if claimed.len() >= self.most {
                return Err(TokenRefusal::HistoryFull);
            }
        }
        let entry = Claimed {
            expires_s,
            by,
            connection,
            confirmed: false,
        };
        claimed.insert(id, entry);
        Ok(Claim::Fresh)
    }

    /// The client of a claimed token was heard: it admits nobody any more.
    pub fn confirm(&self, id: &TokenId) {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = claimed.get_mut(id) {
            known.confirmed = true;
        }
    }

    /// Tokens remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True when none is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn id(n: u32) -> TokenId {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        id
    }

    /// THREATS 9: a token is retried from its own address while its session is pending; once confirmed it admits nobody.
    #[test]
    fn threats_9_a_token_admits_one_session_once() {
        let history = TokenHistory::new(90);
        assert_eq!(history.claim(101, id(1), 100, 130, HOME, 7), Ok(Claim::Fresh));
        assert_eq!(
            history.claim(101, id(1), 100, 130, AWAY, 8),
            Err(TokenRefusal::Used)
        );
        assert_eq!(history.claim(102, id(1), 100, 130, HOME, 9), Ok(Claim::Again(7)));
        assert_eq!(history.claim(102, id(1), 100, 130, HOME, 10), Ok(Claim::Again(9)));
        history.confirm(&id(1));
        for by in [HOME, AWAY] {
            assert_eq!(
                history.claim(103, id(1), 100, 130, by, 11),
                Err(TokenRefusal::Used)
            );
        }
    }

    /// THREATS 10: a full history refuses what is new and forgets nothing that has not expired.
    #[test]
    fn threats_10_a_full_history_refuses_and_never_evicts() {
        let history = TokenHistory::of_size(90, 4);
        for n in 0..4 {
            let expires_s = if n < 2 { 110 } else { 130 };
            assert!(history.claim(101, id(n), 100, expires_s, HOME, 1).is_ok());
            history.confirm(&id(n));
        }
        assert_eq!(
            history.claim(105, id(9), 104, 130, HOME, 1),
            Err(TokenRefusal::HistoryFull)
        );
        for n in 0..4 {
            assert_eq!(
                history.claim(105, id(n), 100, 130, HOME, 1),
                Err(TokenRefusal::Used)
            );
        }
        assert!(
            history.claim(110, id(9), 109, 130, HOME, 1).is_ok(),
            "two have expired"
        );
        assert_eq!(history.len(), 3);
    }

    /// THREATS 11: what was minted before the relay began, or a little later by another clock, may have been used, so it is refused;
    /// it is not remembered, and a later one is good.
    #[test]
    fn threats_11_a_token_from_before_the_start_is_refused() {
        let history = TokenHistory::new(100);
        for (now_s, issued_s) in [
            (100, 99),
            (100, 100),
            (104, 104),
            (110, 105),
            (101, 150),
            (150, 150),
        ] {
            assert_eq!(
                history.claim(now_s, id(1), issued_s, 400, HOME, 1),
                Err(TokenRefusal::BeforeStart),
                "minted at {issued_s}, shown at {now_s}"
            );
        }
        assert!(history.is_empty());
        assert_eq!(history.claim(160, id(1), 160, 400, HOME, 1), Ok(Claim::Fresh));
        let history = TokenHistory::new(100);
        assert_eq!(history.claim(106, id(1), 106, 400, HOME, 1), Ok(Claim::Fresh));
    }
}
