//! The handshake as the client sees it: ask, be challenged, answer, until a Welcome opens (THREATS 21).
//!
//! A Request is sent until a Challenge echoes the client's randomness, then the Response is. A cookie that
//! brings no Welcome in time may have run out, so the attempt goes back to asking (THREATS 7).
//!
//! Challenges and denials are in clear: whoever has seen the client's randomness can make some up. So the first few challenges are
//! answered in turn, a Welcome is tried with what each of them offered, and a denial ends the attempt only when no Welcome came
//! within [`DENIED_WAIT_US`] of it.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::settings::ClientSettings;
use crate::wire::handshake::{ClientNonce, Cookie, Denial, put_request, put_response};
use crate::wire::version::Agreed;

/// Challenges that are answered in turn.
const CHALLENGES_MAX: usize = 4;
/// How long after a denial a Welcome is still waited for.
const DENIED_WAIT_US: u64 = 500_000;
/// How long one cookie is tried; the relay takes it for 30 s at least.
const COOKIE_WITHIN_US: u64 = 5_000_000;

/// An attempt to get a session.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    began_us: u64,
    /// The challenges that are being answered, the first one first, and when the first came.
    challenges: Vec<(Cookie, Agreed)>,
    challenged_us: u64,
    /// The first denial, and until when a Welcome is waited for all the same.
    denied: Option<(Denial, u64)>,
    next_us: u64,
    wait_us: u64,
    tries: u32,
}

impl Attempt {
    pub(super) fn new(settings: &ClientSettings, now_us: u64) -> Attempt {
        Attempt {
            began_us: now_us,
            challenges: Vec::with_capacity(CHALLENGES_MAX),
            challenged_us: now_us,
            denied: None,
            next_us: now_us,
            wait_us: settings.retry_first_us,
            tries: 0,
        }
    }

    /// Takes a challenge: its cookie, and the highest version that the relay offers. The first one is answered at once, later ones
    /// wait for their turn, so that doubled challenges make no traffic.
    pub(super) fn challenged(
        &mut self,
        settings: &ClientSettings,
        cookie: Cookie,
        offered: u16,
        now_us: u64,
    ) {
        if self.challenges.is_empty() {
            (self.next_us, self.wait_us, self.tries) = (now_us, settings.retry_first_us, 0);
            self.challenged_us = now_us;
        }
        let challenge = (cookie, settings.versions.choose(offered));
        if self.challenges.len() < CHALLENGES_MAX && !self.challenges.contains(&challenge) {
            self.challenges.push(challenge);
        }
    }

    /// What a session that begins now may speak: what each challenge made of both ends' versions, each once.
    pub(super) fn agreed(&self, settings: &ClientSettings) -> impl Iterator<Item = Agreed> {
        let mut all: [Option<Agreed>; CHALLENGES_MAX] = [None; CHALLENGES_MAX];
        if self.challenges.is_empty() {
            all[0] = Some(settings.versions.choose(settings.versions.highest()));
        }
        for agreed in self.challenges.iter().map(|(_, agreed)| *agreed) {
            if let Some(place) = all
                .iter_mut()
                .find(|known| known.is_none_or(|known| known == agreed))
            {
                *place = Some(agreed);
            }
        }
        all.into_iter().flatten()
    }

    /// The relay, or whoever speaks in its name, denies the session.
    pub(super) fn denied(&mut self, denial: Denial, now_us: u64) {
        self.denied
            .get_or_insert((denial, now_us.saturating_add(DENIED_WAIT_US)));
    }

    /// The denial, once no Welcome came in spite of it.
    pub(super) fn denial(&self, now_us: u64) -> Option<Denial> {
        self.denied
            .filter(|(_, until_us)| now_us >= *until_us)
            .map(|(denial, _)| denial)
    }

    /// True once a Response is being sent.
    pub(super) fn is_challenged(&self) -> bool {
        !self.challenges.is_empty()
    }

    /// When something is to be sent, or the attempt is to be given up.
    pub(super) fn next_us(&self, settings: &ClientSettings) -> u64 {
        let denied_us = self.denied.map_or(u64::MAX, |(_, until_us)| until_us);
        self.next_us.min(self.over_us(settings)).min(denied_us)
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
        if self.is_challenged() && now_us.saturating_sub(self.challenged_us) >= COOKIE_WITHIN_US {
            self.challenges.clear();
            (self.wait_us, self.tries) = (settings.retry_first_us, 0);
        }
        let turn = (self.tries as usize).checked_rem(self.challenges.len());
        match turn.and_then(|turn| self.challenges.get(turn)) {
            Some((cookie, agreed)) => put_response(out, agreed.version, nonce, cookie, &settings.token),
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

    /// THREATS 20, 21: challenges that somebody made up are answered in turn with the true one, and what each offered is tried.
    #[test]
    fn threats_21_made_up_challenges_are_answered_in_turn() {
        let settings = ClientSettings::default();
        let mut attempt = Attempt::new(&settings, 0);
        for (cookie, offered) in [(1, 9), (2, 3), (2, 3), (3, 2), (4, 3), (5, 3)] {
            attempt.challenged(&settings, [cookie; COOKIE_BYTES], offered, 0);
        }
        let mut out = Vec::new();
        let answered: Vec<u8> = (0..8)
            .map(|turn| {
                assert!(attempt.poll(&settings, &[1; 16], turn * 200_000, &mut out));
                crate::wire::handshake::read_response(&out[1..]).map_or(0, |response| response.cookie[0])
            })
            .collect();
        assert_eq!(answered, [1, 2, 3, 4, 1, 2, 3, 4]);
        let offered: Vec<u16> = attempt.agreed(&settings).map(|agreed| agreed.offered).collect();
        assert_eq!(offered, [9, 3, 2]);
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
