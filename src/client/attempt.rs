//! The handshake as the client sees it: ask, be challenged, answer, until a Welcome opens (THREATS 21).
//!
//! A Request is sent until a Challenge echoes the client's randomness, then the Response is. A cookie that
//! brings no Welcome in time may have run out, so the attempt goes back to asking (THREATS 7).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::settings::ClientSettings;
use crate::wire::handshake::{ClientNonce, Cookie, put_request, put_response};
use crate::wire::version::Agreed;

/// How long one cookie is tried; the relay takes it for 30 s at least.
const COOKIE_WITHIN_US: u64 = 5_000_000;

/// An attempt to get a session.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    began_us: u64,
    cookie: Option<(Cookie, u64)>,
    /// What the newest challenge made of both ends' versions.
    agreed: Agreed,
    next_us: u64,
    wait_us: u64,
    tries: u32,
}

impl Attempt {
    pub(super) fn new(settings: &ClientSettings, now_us: u64) -> Attempt {
        Attempt {
            began_us: now_us,
            cookie: None,
            agreed: settings.versions.choose(settings.versions.highest()),
            next_us: now_us,
            wait_us: settings.retry_first_us,
            tries: 0,
        }
    }

    /// Takes a challenge: its cookie, and the highest version that the relay offers. The first one is answered at once, a later one replaces it silently, so that
    /// doubled challenges make no traffic.
    pub(super) fn challenged(
        &mut self,
        settings: &ClientSettings,
        cookie: Cookie,
        offered: u16,
        now_us: u64,
    ) {
        if self.cookie.is_none() {
            (self.next_us, self.wait_us, self.tries) = (now_us, settings.retry_first_us, 0);
        }
        self.cookie = Some((cookie, now_us));
        self.agreed = settings.versions.choose(offered);
    }

    /// What a session that begins now speaks.
    pub(super) fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// True once a Response is being sent.
    pub(super) fn is_challenged(&self) -> bool {
        self.cookie.is_some()
    }

    /// When something is to be sent, or the attempt is to be given up.
    pub(super) fn next_us(&self, settings: &ClientSettings) -> u64 {
        self.next_us.min(self.over_us(settings))
    }

    fn over_us(&self, settings: &ClientSettings) -> u64 {
        self.began_us.saturating_add(settings.connect_within_us)
    }

    /// True when no answer came within the time there is.
    pub(super) fn is_over(&self, settings: &ClientSettings, now_us: u64) -> bool {
        now_us >= self.over_us(settings)
    }

    /// Writes what is due; false when nothing is.
    pub(super) fn poll(
        &mut self,
        settings: &ClientSettings,
        nonce: &ClientNonce,
        now_us: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        if now_us < self.next_us {
            return false;
        }
        if self
            .cookie
            .is_some_and(|(_, since)| now_us.saturating_sub(since) >= COOKIE_WITHIN_US)
        {
            self.cookie = None;
            (self.wait_us, self.tries) = (settings.retry_first_us, 0);
        }
        match &self.cookie {
            Some((cookie, _)) => put_response(out, self.agreed.version, nonce, cookie, &settings.token),
            None => put_request(out, settings.versions.highest(), nonce),
        }
        self.next_us = now_us.saturating_add(self.wait_us);
        self.tries = self.tries.saturating_add(1);
        if self.tries >= settings.quick_tries {
            self.wait_us = (self.wait_us.saturating_mul(3) / 2).min(settings.retry_most_us);
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::wire::handshake::{COOKIE_BYTES, DatagramKind};

    fn sent(attempt: &mut Attempt, settings: &ClientSettings, until_us: u64) -> Vec<(u64, u8)> {
        let (mut sent, mut out) = (Vec::new(), Vec::new());
        loop {
            let now = attempt.next_us(settings);
            if now > until_us || attempt.is_over(settings, now) {
                return sent;
            }
            assert!(attempt.poll(settings, &[1; 16], now, &mut out));
            assert!(!attempt.poll(settings, &[1; 16], now, &mut out), "once each time");
            sent.push((now, out[0]));
        }
    }

    /// THREATS 7, 21: retries back off to a second; an unanswered cookie is dropped for a new request.
    #[test]
    fn threats_21_retries_back_off_and_start_over() {
        let settings = ClientSettings::default();
        let mut attempt = Attempt::new(&settings, 1_000);
        let times = sent(&mut attempt, &settings, 3_000_000);
        let at: Vec<u64> = times.iter().map(|(us, _)| *us / 1_000).collect();
        let quick = [1, 101, 201, 301, 401, 501, 601, 701, 801, 901];
        assert_eq!(at[..10], quick);
        assert_eq!(at[10..13], [1_001, 1_151, 1_376]);
        assert!(
            times
                .windows(2)
                .all(|pair| pair[1].0 - pair[0].0 <= settings.retry_most_us)
        );
        attempt.challenged(&settings, [7; COOKIE_BYTES], 3, 3_000_000);
        attempt.challenged(&settings, [8; COOKIE_BYTES], 3, 3_000_001);
        let times = sent(&mut attempt, &settings, 60_000_000);
        assert_eq!(times[0], (3_000_000, DatagramKind::Response as u8));
        let asked = times
            .iter()
            .find(|(_, kind)| *kind == DatagramKind::Request as u8)
            .map(|(us, _)| *us);
        assert!(
            asked.is_some_and(|us| (8_000_000..=9_500_000).contains(&us)),
            "{asked:?}"
        );
        assert!(attempt.is_over(&settings, 30_001_000) && !attempt.is_over(&settings, 30_000_999));
    }
}
