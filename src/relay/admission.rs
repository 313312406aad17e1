//! What strangers, and clients, may make a shard do (THREATS 2, 15 to 17).
//!
//! > [`Admission::challenge`] before a cookie goes out, [`Admission::open_token`] once one came back, [`Admission::handshake`]
//! > once its token was found good; [`Census`] counts the sessions of an address over all shards.
//!
//! A *host* is an IPv4 address, or an IPv6 /64: that is what one machine may choose its address from. A *prefix* is a /24 or a
//! /48: the longest that the internet routes, and so the least that one owner has; many players behind one carrier's address
//! translation come from a few of them.
//!
//! Invariants: made-up sources are never counted by prefix, so nobody is shut out by what is said in a neighbour's name; all
//! memory is taken at the start, but for the census, which holds hosts with sessions alone.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::throttle::{Bucket, Pass, Rate, Throttle};
use crate::limits::{
    CROWD_PER_S, HOSTS_THROTTLED_MAX, LIMIT_BURST, LIMIT_BURST_LEAST, REFUSED_PER_HOST_PER_S,
    TOKENS_OPENED_PER_S, TOKENS_RESERVED_PER_S,
};

/// Limits of one shard or of a whole relay. 0 is no limit, everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Cookies sent in a second, in all.
    pub challenges_per_s: u64,
    /// Cookies sent to one host in a second.
    pub challenges_per_host_per_s: u64,
    /// Responses of one host with a good cookie in a second.
    pub handshakes_per_host_per_s: u64,
    /// The same of one prefix.
    pub handshakes_per_prefix_per_s: u64,
    /// Sessions of one host, over all shards.
    pub sessions_per_host: usize,
    /// Sessions whose client was not heard yet.
    pub sessions_unheard: usize,
    /// Datagrams of one session in a second.
    pub up_datagrams_per_s: u64,
    /// Their bytes.
    pub up_bytes_per_s: u64,
    /// Datagrams of one session that cannot be read, at once; one more is allowed each second. Beyond, the session ends.
    pub malformed: u64,
    /// Whether limits of hosts and prefixes hold for this very host too: what comes from loopback is no stranger's.
    pub loopback: bool,
}

impl Limits {
    /// The share of one of so many shards. The kernel spreads clients over them by address and port.
    #[must_use]
    pub fn of_shard(self, shards: usize) -> Limits {
        let shards = shards.max(1);
        Limits {
            sessions_unheard: self.sessions_unheard.div_ceil(shards),
            ..self
        }
    }

    /// What one session may send.
    #[must_use]
    pub fn up_datagrams(&self) -> Rate {
        Rate::new(self.up_datagrams_per_s, 1, 1)
    }

    /// The same in bytes.
    #[must_use]
    pub fn up_bytes(&self) -> Rate {
        Rate::new(self.up_bytes_per_s, 1, crate::limits::DATAGRAM_MAX as u64)
    }

    /// What of it may be unreadable.
    #[must_use]
    pub fn malformed(&self) -> Rate {
        Rate {
            per_s: u64::from(self.malformed > 0),
            burst: self.malformed,
        }
    }

    /// True where limits by address hold.
    fn holds_for(&self, ip: IpAddr) -> bool {
        self.loopback || !ip.is_loopback()
    }
}

/// Why a Request or Response was not answered, or was denied: the labels of `handshakes_limited_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limited {
    /// Cookies enough went out.
    Challenges,
    /// Cookies enough went to that host.
    ChallengesOfHost,
    /// Too many hosts ask at once to tell them apart, and what they share is spent.
    ChallengesCrowded,
    /// That host has begun sessions enough.
    Host,
    /// Its prefix has.
    Prefix,
    /// Too many hosts begin sessions at once to tell them apart, and what they share is spent.
    Crowded,
    /// That host has sessions enough.
    Sessions,
    /// The session that was never heard for the longest made room for another.
    Unheard,
    /// Tokens enough were opened, and that host has shown some that were refused.
    Tokens,
}

impl Limited {
    /// Every reason.
    pub const ALL: [Limited; 9] = [
        Limited::Challenges,
        Limited::ChallengesOfHost,
        Limited::ChallengesCrowded,
        Limited::Host,
        Limited::Prefix,
        Limited::Crowded,
        Limited::Sessions,
        Limited::Unheard,
        Limited::Tokens,
    ];

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Limited::Challenges => "challenges",
            Limited::ChallengesOfHost => "challenges_of_host",
            Limited::ChallengesCrowded => "challenges_crowded",
            Limited::Host => "host",
            Limited::Prefix => "prefix",
            Limited::Crowded => "crowded",
            Limited::Sessions => "sessions",
            Limited::Unheard => "unheard",
            Limited::Tokens => "tokens",
        }
    }
}

/// How often what has happened at one shard.
pub struct Admission {
    limits: Limits,
    total: Bucket,
    total_rate: Rate,
    replies: Throttle,
    hosts: Throttle,
    prefixes: Throttle,
    /// Tokens opened, and of those the ones of hosts that show good ones while others show bad ones.
    opened: [Bucket; 2],
    opened_rates: [Rate; 2],
    /// Hosts whose tokens were refused.
    refused: Throttle,
}

impl Admission {
    /// A shard's share of `limits`, which are those of a relay of so many shards. `secrets` are random.
    #[must_use]
    pub fn new(limits: Limits, shards: usize, secrets: [[u8; 16]; 4]) -> Admission {
        let shards = shards.max(1) as u64;
        let share = |per_s: u64| Rate::new(per_s, 2, LIMIT_BURST).shared_by(shards, LIMIT_BURST_LEAST);
        let crowd = Rate::new(CROWD_PER_S, 1, 1).shared_by(shards, 1);
        let [first, second, third, fourth] = secrets;
        let throttle = |per_s: u64, secret| Throttle::new(share(per_s), crowd, HOSTS_THROTTLED_MAX, secret);
        Admission {
            total: Bucket::default(),
            total_rate: Rate::new(limits.challenges_per_s.div_ceil(shards), 1, 1),
            replies: throttle(limits.challenges_per_host_per_s, first),
            hosts: throttle(limits.handshakes_per_host_per_s, second),
            prefixes: throttle(limits.handshakes_per_prefix_per_s, third),
            opened: [Bucket::default(); 2],
            opened_rates: [TOKENS_OPENED_PER_S, TOKENS_RESERVED_PER_S]
                .map(|per_s| Rate::new(per_s, 1, 1).shared_by(shards, 1)),
            refused: throttle(REFUSED_PER_HOST_PER_S, fourth),
            limits,
        }
    }

    /// Whether a cookie may go to `ip`, which anybody may have named.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn challenge(&mut self, now_us: u64, ip: IpAddr) -> Result<(), Limited> {
        if !self.total.has_room(self.total_rate, now_us, 1) {
            return Err(Limited::Challenges);
        }
        if self.limits.holds_for(ip) {
            match self.replies.take(now_us, host_of(ip)) {
                Pass::Own | Pass::Shared => {}
                Pass::Spent => return Err(Limited::ChallengesOfHost),
                Pass::Crowded => return Err(Limited::ChallengesCrowded),
            }
        }
        self.total.take(self.total_rate, now_us, 1);
        Ok(())
    }

    /// Whether the token that `ip` shows, which has proven that it receives there, may be opened: that is what costs. Whoever
    /// shows bad ones spends what all have, and then no more of it, and never the rates of those who show good ones.
    ///
    /// # Errors
    /// [`Limited::Tokens`].
    pub fn open_token(&mut self, now_us: u64, ip: IpAddr) -> Result<(), Limited> {
        let [all, reserve] = &mut self.opened;
        let [all_rate, reserve_rate] = self.opened_rates;
        if all.take(all_rate, now_us, 1) {
            return Ok(());
        }
        match !self.refused.is_spent(now_us, host_of(ip)) && reserve.take(reserve_rate, now_us, 1) {
            true => Ok(()),
            false => Err(Limited::Tokens),
        }
    }

    /// A token that `ip` showed was refused.
    pub fn note_refused(&mut self, now_us: u64, ip: IpAddr) {
        self.refused.take(now_us, host_of(ip));
    }

    /// Whether a session may begin at `ip`, which has proven that it receives there and shown a token that
    /// is good: whoever has none spends nobody's rates.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn handshake(&mut self, now_us: u64, ip: IpAddr) -> Result<(), Limited> {
        if !self.limits.holds_for(ip) {
            return Ok(());
        }
        match self.hosts.take(now_us, host_of(ip)) {
            Pass::Own | Pass::Shared => {}
            Pass::Spent => return Err(Limited::Host),
            Pass::Crowded => return Err(Limited::Crowded),
        }
        match self.prefixes.take(now_us, prefix_of(ip)) {
            Pass::Own | Pass::Shared => Ok(()),
            Pass::Spent => Err(Limited::Prefix),
            Pass::Crowded => Err(Limited::Crowded),
        }
    }
}

/// Sessions of all shards of a relay, together and by host. Asked when sessions begin and end, never on a packet's path.
#[derive(Debug, Default)]
pub struct Census {
    present: AtomicUsize,
    by_host: Mutex<HashMap<u128, usize>>,
}

/// Who has as many sessions as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The relay.
    Relay,
    /// The host, at this relay.
    Host,
}

impl Census {
    /// Sessions there are.
    #[must_use]
    pub fn present(&self) -> usize {
        self.present.load(Ordering::Relaxed)
    }

    /// Counts one more session of `ip`, of at most `most` in all.
    ///
    /// # Errors
    /// The relay has `most`, or the host has all that `limits` allow; nothing is counted then.
    pub fn enter(&self, limits: &Limits, most: usize, ip: IpAddr) -> Result<(), Full> {
        let one_more = |present| (present < most).then_some(present + 1);
        self.present
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map_err(|_| Full::Relay)?;
        if self.enter_host(limits, ip) {
            return Ok(());
        }
        self.present.fetch_sub(1, Ordering::Relaxed);
        Err(Full::Host)
    }

    fn enter_host(&self, limits: &Limits, ip: IpAddr) -> bool {
        if limits.sessions_per_host == 0 || !limits.holds_for(ip) {
            return true;
        }
        let mut by_host = self.by_host.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_host.entry(host_of(ip)).or_default();
        let has_room = *count < limits.sessions_per_host;
        *count += usize::from(has_room);
        has_room
    }

    /// One of them is over.
    pub fn leave(&self, limits: &Limits, ip: IpAddr) {
        self.present.fetch_sub(1, Ordering::Relaxed);
        if limits.sessions_per_host == 0 || !limits.holds_for(ip) {
            return;
        }
        let mut by_host = self.by_host.lock().unwrap_or_else(PoisonError::into_inner);
        let host = host_of(ip);
        if let Some(count) = by_host.get_mut(&host) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                by_host.remove(&host);
            }
        }
    }

    /// Hosts that have a session.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.by_host.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// What one machine may choose its address from: an IPv4 address, or an IPv6 /64.
fn host_of(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

/// The least that one owner has: an IPv4 /24, or an IPv6 /48.
fn prefix_of(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(v4) => u128::from(v4.to_bits() >> 8),
        IpAddr::V6(v6) => v6.to_bits() >> 80 << 80,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        challenges_per_s: 20_000,
        challenges_per_host_per_s: 10,
        handshakes_per_host_per_s: 10,
        handshakes_per_prefix_per_s: 40,
        sessions_per_host: 3,
        sessions_unheard: 10,
        up_datagrams_per_s: 100,
        up_bytes_per_s: 10_000,
        malformed: 4,
        loopback: false,
    };

    fn admission() -> Admission {
        Admission::new(LIMITS, 1, [[1; 16], [2; 16], [3; 16], [4; 16]])
    }

    fn v4(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    /// THREATS 2: in one victim's name a stranger gets it ten cookies a second, however often he asks and from whatever port;
    /// IPv6 by /64.
    #[test]
    fn threats_2_one_destination_gets_few_cookies() {
        for ip in ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7"] {
            let (mut admission, ip) = (admission(), ip.parse::<IpAddr>().unwrap());
            let allowed = (0..10_000_000u64)
                .step_by(100)
                .filter(|now_us| admission.challenge(*now_us, ip).is_ok())
                .count();
            assert!((220..=228).contains(&allowed), "{allowed} in ten seconds");
        }
        let mut admission = admission();
        let neighbours = (0..1_000u128).map(|low| IpAddr::V6(((0x2001_0db8_u128 << 96) + low).into()));
        let allowed = neighbours
            .filter(|ip| admission.challenge(0, *ip).is_ok())
            .count();
        assert_eq!(allowed, 128, "one host");
    }

    /// THREATS 1, 16: sources made up by the thousand spend the total, and neither another host's rate nor its prefix's.
    #[test]
    fn threats_16_made_up_sources_shut_nobody_out() {
        let mut admission = admission();
        let honest = v4(0x0A00_0007);
        let (mut sent, mut let_in) = (0, 0);
        for number in 0..100_000u32 {
            let now_us = u64::from(number) * 20;
            sent += u32::from(
                admission
                    .challenge(now_us, v4(0x0A00_0000 ^ (number % 251) ^ (number << 8)))
                    .is_ok(),
            );
            if number % 5_000 == 0 {
                let_in += u32::from(admission.challenge(now_us, honest).is_ok());
            }
        }
        assert!(
            (55_000..=61_000).contains(&sent),
            "{sent} in two seconds, and a burst"
        );
        assert!(let_in >= 4, "{let_in} of 20 tries in two seconds");
        assert_eq!(
            admission.handshake(2_000_000, honest),
            Ok(()),
            "its cookie is good"
        );
    }

    /// THREATS 15: bad tokens spend what opening tokens may cost, and no rate of whoever shows a good one; hosts that show none
    /// that are refused have a reserve.
    #[test]
    fn threats_15_bad_tokens_spend_no_neighbours_rate() {
        let mut admission = admission();
        let (bad, good) = (v4(0xC000_0201), v4(0xC000_0202));
        let (mut opened, mut limited) = (0, 0);
        for number in 0..100_000u64 {
            match admission.open_token(number * 10, bad) {
                Ok(()) => {
                    opened += 1;
                    admission.note_refused(number * 10, bad);
                }
                Err(reason) => {
                    assert_eq!(reason, Limited::Tokens);
                    limited += 1;
                }
            }
            if number % 1_000 == 0 {
                assert_eq!(admission.open_token(number * 10, good), Ok(()));
                assert_eq!(
                    admission.handshake(number * 10, good),
                    Ok(()),
                    "a second's worth is its own"
                );
            }
        }
        assert!(
            (15_000..=21_000).contains(&opened),
            "{opened} in a second, and a burst"
        );
        assert_eq!(opened + limited, 100_000);
    }

    /// THREATS 15: many hosts of one prefix share its rate, and other prefixes have theirs.
    #[test]
    fn threats_15_a_prefix_has_a_share_and_others_have_theirs() {
        let mut admission = admission();
        let outcomes: Vec<_> = (0..200u32)
            .map(|host| admission.handshake(0, v4(0xC000_0200 + host)))
            .collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 128);
        assert_eq!(outcomes.last(), Some(&Err(Limited::Prefix)));
        assert_eq!(admission.handshake(0, v4(0xC000_0300)), Ok(()));
        let one: Vec<_> = (0..130)
            .map(|_| admission.handshake(0, v4(0xC000_0400)))
            .collect();
        assert_eq!(one.last(), Some(&Err(Limited::Host)));
        assert!(
            (0..1_000).all(|_| admission.handshake(0, v4(0x7F00_0001)).is_ok()),
            "loopback"
        );
    }

    #[test]
    fn sessions_of_a_host_are_counted_while_they_last() {
        let (census, ip) = (Census::default(), v4(0xC000_0201));
        assert_eq!(
            [(); 4].map(|()| census.enter(&LIMITS, 4, ip)),
            [Ok(()), Ok(()), Ok(()), Err(Full::Host)]
        );
        let other = v4(0xC000_0202);
        assert_eq!(census.enter(&LIMITS, 4, other), Ok(()));
        assert_eq!(census.enter(&LIMITS, 4, other), Err(Full::Relay), "of all hosts");
        assert_eq!(census.present(), 4);
        census.leave(&LIMITS, ip);
        assert_eq!(census.enter(&LIMITS, 4, ip), Ok(()));
        assert_eq!(census.enter(&LIMITS, 5, ip), Err(Full::Host));
        for _ in 0..3 {
            census.leave(&LIMITS, ip);
        }
        census.leave(&LIMITS, v4(0xC000_0202));
        assert_eq!((census.hosts(), census.present()), (0, 0));
    }
}
