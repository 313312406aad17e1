//! Whether the token there is good for another session.
//!
//! A token serves one session, and not for long. What a session or a refusal says is about the token that it asked with, so
//! each has a number: one that was given meanwhile is not spent by the session of the one before.
//!
//! Relays that need no token refuse none, so without one none is wanted until a relay says so.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::token::LIFE_MAX_S;

/// The age at which no token is good.
const TOKEN_LIFE_MAX_US: u64 = LIFE_MAX_S * 1_000_000;

/// What is known of the token there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// None is needed.
    None,
    /// Nothing speaks against it.
    Fresh,
    /// A relay refused it; another may take it.
    Refused,
    /// It had its session.
    Spent,
}

/// The token of the sessions asked for from now on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens {
    number: u32,
    worth: Worth,
    /// When it was given, microseconds of the driver's clock.
    given_us: u64,
}

impl Tokens {
    pub(super) fn new(has_one: bool, now_us: u64) -> Tokens {
        Tokens {
            number: 0,
            worth: if has_one { Worth::Fresh } else { Worth::None },
            given_us: now_us,
        }
    }

    /// The number of the token there is.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Another is given; true where it was wanted.
    pub(super) fn set(&mut self, now_us: u64) -> bool {
        let was_wanted = matches!(self.worth, Worth::Refused | Worth::Spent);
        *self = Tokens {
            number: self.number.wrapping_add(1),
            worth: Worth::Fresh,
            given_us: now_us,
        };
        was_wanted
    }

    /// True when asking with it is in vain.
    pub(super) fn is_spent(&self) -> bool {
        self.worth == Worth::Spent
    }

    /// A session began with the token of this number; true where another is wanted now.
    pub(super) fn note_spent(&mut self, number: Option<u32>) -> bool {
        self.note(number, Worth::Spent)
    }

    /// A relay refused the token of this number; true where another is wanted now.
    pub(super) fn note_refused(&mut self, number: Option<u32>) -> bool {
        self.note(number, Worth::Refused)
    }

    fn note(&mut self, number: Option<u32>, worth: Worth) -> bool {
        let is_news = match self.worth {
            Worth::None => worth == Worth::Refused,
            Worth::Fresh => number == Some(self.number),
            Worth::Refused | Worth::Spent => false,
        };
        if is_news {
            self.worth = worth;
        }
        is_news
    }

    /// Another session is to be asked for; true where the token there is will not do, by what it was or by its age.
    pub(super) fn note_need(&self, now_us: u64) -> bool {
        match self.worth {
            Worth::None => false,
            Worth::Fresh => now_us.saturating_sub(self.given_us) >= TOKEN_LIFE_MAX_US,
            Worth::Refused | Worth::Spent => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 44: a token that was given while a session began with the one before is not spent with it, and no token is wanted twice for
    /// one reason.
    #[test]
    fn faults_44_each_session_spends_the_token_it_asked_with() {
        let mut tokens = Tokens::new(true, 0);
        let first = Some(tokens.number());
        assert!(!tokens.set(1_000) && !tokens.note_spent(first) && !tokens.is_spent());
        let second = Some(tokens.number());
        assert!(tokens.note_spent(second) && tokens.is_spent());
        assert!(!tokens.note_spent(second) && !tokens.note_refused(second) && !tokens.note_spent(None));
        assert!(tokens.note_need(2_000) && tokens.set(3_000) && !tokens.is_spent());
        let third = Some(tokens.number());
        assert!(
            tokens.note_refused(third) && !tokens.is_spent(),
            "another relay may take it"
        );
        assert!(tokens.set(4_000) && !tokens.note_need(4_000 + TOKEN_LIFE_MAX_US - 1));
        assert!(tokens.note_need(4_000 + TOKEN_LIFE_MAX_US), "too old");
        let mut none = Tokens::new(false, 0);
        assert!(!none.note_spent(Some(0)) && !none.note_need(u64::MAX) && !none.is_spent());
        assert!(
            none.note_refused(Some(0)) && !none.is_spent(),
            "this relay wants one"
        );
    }
}
