//! The cookie of a Challenge: the relay's proof to itself that a source receives at its address.
//!
//! Invariants: nothing is stored for a source; a cookie serves its own address, port and client nonce alone, for two periods.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::net::{IpAddr, SocketAddr};

use ring::hmac;
use subtle::ConstantTimeEq;

use super::bytes::ByteReader;
use super::handshake::{COOKIE_BYTES, ClientNonce, Cookie};

/// How long a cookie secret is used, in microseconds; a cookie outlives at most two.
pub const COOKIE_PERIOD_US: u64 = 30_000_000;

/// Makes and checks cookies. A cookie is computed from the source's address and the client's randomness, never
/// stored; its secret is itself derived from the period's number, so rotation needs no state (THREATS 6..8).
pub struct CookieKey {
    key: hmac::Key,
}

impl CookieKey {
    /// A key from 32 secret bytes.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> CookieKey {
        CookieKey {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// The cookie of a source at `now_us`: 8 bytes of the period's number, 16 of the MAC over it, the address,
    /// the port and the client's randomness.
    #[must_use]
    pub fn cookie(&self, now_us: u64, source: SocketAddr, client_nonce: &ClientNonce) -> Cookie {
        self.of_period(now_us / COOKIE_PERIOD_US, source, client_nonce)
    }

    fn of_period(&self, period: u64, source: SocketAddr, client_nonce: &ClientNonce) -> Cookie {
        let mut mac = hmac::Context::with_key(&self.key);
        mac.update(&period.to_le_bytes());
        match source.ip() {
            IpAddr::V4(ip) => mac.update(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        mac.update(&source.port().to_le_bytes());
        mac.update(client_nonce);
        let tag = mac.sign();
        let mut cookie = [0u8; COOKIE_BYTES];
        let bytes = period
            .to_le_bytes()
            .into_iter()
            .chain(tag.as_ref().iter().copied());
        cookie.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        cookie
    }

    /// True when the cookie was made here for this source in this period or the one before. The comparison
    /// takes the same time wherever it fails.
    #[must_use]
    pub fn is_valid(
        &self,
        now_us: u64,
        source: SocketAddr,
        client_nonce: &ClientNonce,
        cookie: &Cookie,
    ) -> bool {
        let mut reader = ByteReader::new(cookie);
        let Ok(period) = reader.u64() else { return false };
        let now = now_us / COOKIE_PERIOD_US;
        if period != now && period.checked_add(1) != Some(now) {
            return false;
        }
        self.of_period(period, source, client_nonce).ct_eq(cookie).into()
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn source(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// THREATS 6, 7, 8: a cookie serves its own source for two periods and no other.
    #[test]
    fn threats_6_cookies_are_bound_to_source_and_time() {
        let key = CookieKey::new(&[9; 32]);
        let cookie = key.cookie(5, source(1), &[1; 16]);
        assert!(key.is_valid(5, source(1), &[1; 16], &cookie));
        assert!(
            key.is_valid(COOKIE_PERIOD_US * 2 - 1, source(1), &[1; 16], &cookie),
            "threats 8"
        );
        assert!(
            !key.is_valid(COOKIE_PERIOD_US * 2, source(1), &[1; 16], &cookie),
            "threats 7"
        );
        assert!(!key.is_valid(5, source(2), &[1; 16], &cookie));
        assert!(!key.is_valid(5, source(1), &[2; 16], &cookie));
        assert!(!CookieKey::new(&[8; 32]).is_valid(5, source(1), &[1; 16], &cookie));
        for bit in 0..COOKIE_BYTES * 8 {
            let mut flipped = cookie;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.is_valid(5, source(1), &[1; 16], &flipped));
        }
    }
}
