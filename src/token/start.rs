//! What may have been used before a relay began (THREATS 11): its history is gone, and the tokens are not.
//!
//! > A token is allowed when no backend whose clock is as far ahead as this relay has reason to think could have minted it
//! > before the relay began.
//!
//! A used token and a fresh one look alike but for when they say they were minted, and a backend's clock may be
//! [`LEAD_MAX_S`] ahead. To refuse for that long whatever was minted so near the start would shut everybody out for a minute at
//! each restart. So [`START_SLACK_S`] is allowed for at once, and more where a token shows that its backend is further ahead:
//! such a token is refused in the first minute, unless it was minted too late to have been used, and those like it that come
//! later, when they do not show it any more, are refused too.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CLOCK_SLACK_S, LEAD_MAX_S, START_SLACK_S};

/// A relay's start, as its tokens see it.
#[derive(Debug)]
pub struct Start {
    /// Seconds since 1970.
    began_s: u64,
    /// What was minted then or earlier may have been used; only rises.
    doubted_s: AtomicU64,
}

impl Start {
    /// A start at `began_s` seconds since 1970; 0 where no relay had these keys before.
    #[must_use]
    pub fn new(began_s: u64) -> Start {
        Start {
            began_s,
            doubted_s: began_s.saturating_add(START_SLACK_S).into(),
        }
    }

    /// Whether a token that was minted at `issued_s` cannot have been used before the start. It is at most [`LEAD_MAX_S`]
    /// ahead of `now_s`.
    pub fn allows(&self, now_s: u64, issued_s: u64) -> bool {
        let lead_s = issued_s.saturating_sub(now_s);
        // Whatever was let in by then was minted by this time.
        let latest_s = self.began_s.saturating_add(LEAD_MAX_S);
        if now_s <= latest_s {
            // It took its time from backend to here, so the lead is what it shows, or a little more.
            let shown_s = self.began_s.saturating_add(lead_s.saturating_add(START_SLACK_S));
            self.doubted_s.fetch_max(shown_s.min(latest_s), Ordering::Relaxed);
            if lead_s > CLOCK_SLACK_S {
                return issued_s > latest_s;
            }
        }
        issued_s > self.doubted_s.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THREATS 11: whatever a backend's clock, up to a minute ahead: once a token of it was seen that is not older than a
    /// second, none that was used before the start is good again, whenever it is shown.
    #[test]
    fn threats_11_no_backend_a_minute_ahead_makes_a_used_token_good_again() {
        for lead_s in 0..=LEAD_MAX_S {
            for life_s in 0..=120 {
                let start = Start::new(1_000);
                // It was on its way for a second.
                start.allows(1_001, 1_000 + lead_s);
                for used_s in 930..=1_000 {
                    let shown_s = 1_001 + life_s;
                    assert!(
                        !start.allows(shown_s, used_s + lead_s),
                        "{lead_s} s ahead, at {shown_s}"
                    );
                }
            }
        }
    }

    /// A used token that is shown too early is refused, and so is it later: to show it taught the relay.
    #[test]
    fn threats_11_a_token_that_was_shown_too_early_is_refused_later_too() {
        let start = Start::new(1_000);
        assert!(!start.allows(1_001, 1_040));
        assert!(!start.allows(1_040, 1_040) && !start.allows(1_100, 1_040));
        assert!(start.allows(1_050, 1_050));
    }

    /// Nobody is shut out for long: two seconds where the clocks agree; where the backend is further ahead the start is as far away
    /// as it is.
    #[test]
    fn threats_11_a_restart_shuts_nobody_out_for_long() {
        for (lead_s, let_in_s) in [(0, 2), (3, 2), (5, 2), (6, 55), (30, 31), (59, 2), (60, 1)] {
            let start = Start::new(1_000);
            let first = (1_000..1_200).find(|now_s| start.allows(*now_s, now_s + lead_s));
            assert_eq!(first, Some(1_000 + let_in_s), "{lead_s} s ahead");
        }
        // Tokens of a backend that is late look older; they are good a little later.
        let start = Start::new(1_000);
        assert!(!start.allows(1_060, 1_000) && start.allows(1_066, 1_006));
        // A fleet with one backend that is far ahead: the others wait a minute at most.
        let start = Start::new(1_000);
        assert!(!start.allows(1_000, 1_058) && !start.allows(1_050, 1_050));
        assert!(start.allows(1_061, 1_061));
    }

    /// Keys that no relay had before opened nothing before.
    #[test]
    fn fresh_keys_have_no_past() {
        assert!(Start::new(0).allows(1_000, 1_000) && Start::new(0).allows(1_000, 1_060));
    }
}
