//! Which tokens were used: each admits one session, once (THREATS 9, 10, 11).
//!
//! > [`claim`](TokenHistory::claim) before a session is made, [`confirm`](TokenHistory::confirm) when its client was heard,
//! > [`withdraw`](TokenHistory::withdraw) when it ends unheard.
//!
//! The sealed half of a token is seen by whoever sees the Response that carries it, and holds no secret that a session's client
//! needs: a copy gets a session, and can never be heard in it. So a token may have several sessions that were not heard, from
//! any address; the first that is heard is the token's, and the others go. Nobody keeps its owner out by being faster.
//!
//! Invariants: what was claimed is remembered until it has expired and its sessions were heard or are gone, so nothing is ever
//! evicted; when there is no room a new token is refused. One history serves all shards of a relay: a token is good at one of them.
//!
//! Memory: at most [`TOKENS_MAX`] entries, about 150 bytes each.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::start::Start;
use super::{TokenId, TokenRefusal};
use crate::limits::{TOKEN_CLAIMS_MAX, TOKEN_PENDING_MAX, TOKENS_MAX, UNCONFIRMED_US};

/// How long a token that has expired may still have a session that is not heard, seconds.
const LINGER_S: u64 = UNCONFIRMED_US.div_ceil(1_000_000) + 1;

/// A token that was claimed.
#[derive(Clone, Copy, Debug)]
struct Claimed {
    expires_s: u64,
    /// Sessions that were made of it and not heard, the oldest first; 0 for none.
    pending: [u64; TOKEN_PENDING_MAX],
    /// How often it was claimed.
    claims: u32,
    /// The session whose client was heard.
    held_by: Option<u64>,
}

impl Claimed {
    /// One more session that was not heard; the oldest where there is no room for it.
    fn push(&mut self, connection: u64) -> Option<u64> {
        if let Some(free) = self.pending.iter_mut().find(|pending| **pending == 0) {
            *free = connection;
            return None;
        }
        self.pending.rotate_left(1);
        let last = self.pending.last_mut()?;
        Some(core::mem::replace(last, connection))
    }

    /// Forgets a session that was not heard.
    fn remove(&mut self, connection: u64) {
        let mut kept = [0; TOKEN_PENDING_MAX];
        let others = self.pending.iter().filter(|pending| **pending != connection);
        kept.iter_mut().zip(others).for_each(|(to, from)| *to = *from);
        self.pending = kept;
    }
}

/// What a claim gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// How often the token was claimed before.
    pub before: u32,
    /// The session that makes room, of those that were not heard.
    pub instead_of: Option<u64>,
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

    /// True when a token's session was heard, or it was claimed too often: it admits nobody any more.
    #[must_use]
    pub fn is_used(&self, id: &TokenId) -> bool {
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed
            .get(id)
            .is_some_and(|known| known.held_by.is_some() || known.claims >= TOKEN_CLAIMS_MAX)
    }

    /// Claims a token, minted at `issued_s`, for the session `connection`.
    ///
    /// # Errors
    /// [`TokenRefusal::BeforeStart`], [`TokenRefusal::Used`], [`TokenRefusal::HistoryFull`].
    pub fn claim(
        &self,
        now_s: u64,
        id: TokenId,
        issued_s: u64,
        expires_s: u64,
        connection: u64,
    ) -> Result<Claim, TokenRefusal> {
        if !self.start.allows(now_s, issued_s) {
            return Err(TokenRefusal::BeforeStart);
        }
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = claimed.get_mut(&id) {
            if known.held_by.is_some() || known.claims >= TOKEN_CLAIMS_MAX {
                return Err(TokenRefusal::Used);
            }
            known.claims += 1;
            return Ok(Claim {
                before: known.claims - 1,
                instead_of: known.push(connection),
            });
        }
        if claimed.len() >= self.most {
            claimed.retain(|_, known| known.expires_s.saturating_add(LINGER_S) > now_s);
            if claimed.len() >= self.most {
                return Err(TokenRefusal::HistoryFull);
            }
        }
        let mut entry = Claimed {
            expires_s,
            pending: [0; TOKEN_PENDING_MAX],
            claims: 1,
            held_by: None,
        };
        entry.push(connection);
        claimed.insert(id, entry);
        Ok(Claim {
            before: 0,
            instead_of: None,
        })
    }

    /// The client of a session of a claimed token was heard. True when it is the first that was: the token is its own, and the
    /// other sessions made of it are given to `rival`.
    pub fn confirm(&self, id: &TokenId, connection: u64, mut rival: impl FnMut(u64)) -> bool {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = claimed.get_mut(id) else {
            return false;
        };
        if let Some(holder) = known.held_by {
            return holder == connection;
        }
        known.held_by = Some(connection);
        let others = core::mem::replace(&mut known.pending, [0; TOKEN_PENDING_MAX]);
        let others = others
            .into_iter()
            .filter(|other| *other != 0 && *other != connection);
        others.for_each(&mut rival);
        true
    }

    /// A session of a claimed token ended and was never heard.
    pub fn withdraw(&self, id: &TokenId, connection: u64) {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = claimed.get_mut(id) {
            known.remove(connection);
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
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn id(n: u32) -> TokenId {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        id
    }

    fn claim(history: &TokenHistory, now_s: u64, n: u32, connection: u64) -> Result<Claim, TokenRefusal> {
        history.claim(now_s, id(n), 100, 130, connection)
    }

    /// THREATS 9: sessions of one token wait side by side, and the first that is heard is its session, at whichever shard; from
    /// then on it admits nobody, and no other session of it is ever heard.
    #[test]
    fn threats_9_the_first_session_heard_is_the_tokens() {
        let history = TokenHistory::new(90);
        for n in 0..3 {
            let claim = claim(&history, 101, 1, 7 + u64::from(n)).unwrap();
            assert_eq!((claim.before, claim.instead_of), (n, None));
        }
        history.withdraw(&id(1), 8);
        let mut rivals = Vec::new();
        assert!(!history.is_used(&id(1)));
        assert!(history.confirm(&id(1), 9, |rival| rivals.push(rival)));
        assert_eq!(rivals, [7], "8 is gone");
        assert!(history.confirm(&id(1), 9, |_| panic!("once")));
        assert!(!history.confirm(&id(1), 7, |_| panic!("it is another's")));
        assert!(!history.confirm(&id(2), 7, |_| panic!("nobody claimed it")));
        assert!(history.is_used(&id(1)));
        assert_eq!(claim(&history, 103, 1, 11), Err(TokenRefusal::Used));
    }

    /// THREATS 9: copies of a Response do not push the owner's session out but by many within a round trip, and sessions of one
    /// token are bounded in all.
    #[test]
    fn threats_9_copies_make_a_bounded_number_of_sessions() {
        let history = TokenHistory::new(90);
        for n in 0..TOKEN_CLAIMS_MAX {
            let pushed_out = claim(&history, 101, 1, 1 + u64::from(n)).unwrap().instead_of;
            let most = u32::try_from(TOKEN_PENDING_MAX).unwrap();
            assert_eq!(
                pushed_out,
                n.checked_sub(most).map(|oldest| 1 + u64::from(oldest))
            );
        }
        assert!(history.is_used(&id(1)));
        assert_eq!(claim(&history, 101, 1, 999), Err(TokenRefusal::Used));
        assert!(
            history.confirm(&id(1), u64::from(TOKEN_CLAIMS_MAX), |_| {}),
            "it is still its owner's"
        );
    }

    /// THREATS 10: a full history refuses what is new and forgets nothing that has not expired.
    #[test]
    fn threats_10_a_full_history_refuses_and_never_evicts() {
        let history = TokenHistory::of_size(90, 4);
        for n in 0..4 {
            let expires_s = if n < 2 { 110 } else { 130 };
            assert!(history.claim(101, id(n), 100, expires_s, 1).is_ok());
            assert!(history.confirm(&id(n), 1, |_| {}));
        }
        assert_eq!(
            history.claim(105, id(9), 104, 130, 1),
            Err(TokenRefusal::HistoryFull)
        );
        for n in 0..4 {
            assert_eq!(history.claim(105, id(n), 100, 130, 1), Err(TokenRefusal::Used));
        }
        assert_eq!(
            history.claim(116, id(9), 109, 130, 1),
            Err(TokenRefusal::HistoryFull),
            "a session of theirs may still be heard"
        );
        assert!(history.claim(117, id(9), 109, 130, 1).is_ok(), "two have expired");
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
            (101, 101),
            (110, 101),
            (101, 150),
            (150, 150),
        ] {
            assert_eq!(
                history.claim(now_s, id(1), issued_s, 400, 1),
                Err(TokenRefusal::BeforeStart),
                "minted at {issued_s}, shown at {now_s}"
            );
        }
        assert!(history.is_empty());
        assert!(history.claim(160, id(1), 160, 400, 1).is_ok());
        let history = TokenHistory::new(100);
        assert!(history.claim(102, id(1), 102, 400, 1).is_ok());
    }
}
