//! Who has come and has not shown who he is: so many in all and of one host, and the longest waiting makes room.
//!
//! > [`enter`](Anteroom::enter) names who must go for a newcomer, [`leave`](Anteroom::leave) takes out who is known now or gone.
//!
//! Invariants: a newcomer always gets in; who makes room is of a host that has the most waiting, so one host's crowd makes
//! room by itself; nobody is named twice.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// As many wait at least, whatever the system gives.
const FEWEST: usize = 8;

/// Who waits, by host: an IPv4 address, or an IPv6 /64.
#[derive(Debug)]
pub struct Anteroom {
    all_max: usize,
    host_max: usize,
    arrivals: u64,
    waiting: usize,
    /// Of each host the arrivals, oldest first: which one it was, and who.
    hosts: BTreeMap<u128, VecDeque<(u64, u64)>>,
}

impl Anteroom {
    /// Room for `all_max`, of whom one host other than loopback may be `host_max`; at least one each.
    #[must_use]
    pub fn new(all_max: usize, host_max: usize) -> Anteroom {
        Anteroom {
            all_max: all_max.max(1),
            host_max: host_max.max(1),
            arrivals: 0,
            waiting: 0,
            hosts: BTreeMap::new(),
        }
    }

    /// Lets `who` in from `ip`. Who must go for that, if anybody: he is not waiting any more.
    pub fn enter(&mut self, who: u64, ip: IpAddr) -> Option<u64> {
        let host = host_of(ip);
        let ours = self.hosts.get(&host).map_or(0, VecDeque::len);
        let gone = if ours >= self.host_max && !ip.to_canonical().is_loopback() {
            self.oldest_of(host)
        } else if self.waiting >= self.all_max {
            self.make_room()
        } else {
            None
        };
        self.arrivals += 1;
        self.waiting += 1;
        self.hosts
            .entry(host)
            .or_default()
            .push_back((self.arrivals, who));
        gone
    }

    /// The one who goes next: of those hosts that have the most waiting, whoever waits longest.
    fn make_room(&mut self) -> Option<u64> {
        let longest = |queue: &VecDeque<(u64, u64)>| queue.front().map_or(0, |(arrival, _)| *arrival);
        let host = self
            .hosts
            .iter()
            .max_by_key(|(_, queue)| (queue.len(), core::cmp::Reverse(longest(queue))))
            .map(|(host, _)| *host)?;
        self.oldest_of(host)
    }

    /// The system has no more to give: those who must go at once, an eighth, and no more than who is left ever wait again. Of
    /// `FEWEST` nobody goes.
    pub fn shrink(&mut self) -> Vec<u64> {
        let fewer = self.waiting.saturating_sub(FEWEST).min(self.waiting.div_ceil(8));
        let gone: Vec<u64> = (0..fewer).filter_map(|_| self.make_room()).collect();
        if !gone.is_empty() {
            self.all_max = self.waiting;
        }
        gone
    }

    /// Takes out `who`, who came from `ip`, if he waits still.
    pub fn leave(&mut self, who: u64, ip: IpAddr) {
        let host = host_of(ip);
        let Some(queue) = self.hosts.get_mut(&host) else {
            return;
        };
        if let Some(place) = queue.iter().position(|(_, other)| *other == who) {
            queue.remove(place);
            self.waiting -= 1;
        }
        if queue.is_empty() {
            self.hosts.remove(&host);
        }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn oldest_of(&mut self, host: u128) -> Option<u64> {
        let queue = self.hosts.get_mut(&host)?;
        let gone = queue.pop_front().map(|(_, who)| who);
        self.waiting -= usize::from(gone.is_some());
        if queue.is_empty() {
            self.hosts.remove(&host);
        }
        gone
    }
}

/// What one machine may choose its address from.
fn host_of(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_waiting_of_the_biggest_host_makes_room() {
        let mut room = Anteroom::new(4, 3);
        let (many, few) = (ip("203.0.113.7"), ip("198.51.100.1"));
        assert_eq!(room.enter(1, few), None);
        for who in 2..5 {
            assert_eq!(room.enter(who, many), None);
        }
        assert_eq!(room.enter(5, many), Some(2), "a host's fourth, its own oldest");
        assert_eq!(
            room.enter(6, ip("192.0.2.9")),
            Some(3),
            "not the oldest, who is alone"
        );
        room.leave(1, few);
        assert_eq!(room.len(), 3);
        room.leave(1, few);
        assert_eq!((room.enter(7, few), room.enter(8, few)), (None, Some(4)));
        assert_eq!((room.len(), room.make_room(), room.len()), (4, Some(7), 3));
    }

    /// Ten thousand that come and never speak: nobody else's place is theirs, and nothing grows.
    #[test]
    fn a_crowd_of_one_host_makes_room_by_itself() {
        let mut room = Anteroom::new(512, 32);
        room.enter(0, ip("2001:db8::1"));
        for who in 1..10_000_u64 {
            // Of one /64, whatever the rest of the address.
            let from = ip(&format!("2001:db8:0:1::{who:x}"));
            assert_eq!(
                room.enter(who, from),
                who.checked_sub(32).filter(|gone| *gone > 0)
            );
        }
        assert_eq!((room.len(), room.hosts.len()), (33, 2));
    }

    /// Where a newcomer finds no file left, room is made once, and then kept.
    #[test]
    fn where_the_system_gives_no_more_fewer_wait() {
        let mut room = Anteroom::new(512, 512);
        for who in 0..100 {
            assert_eq!(room.enter(who, ip("127.0.0.1")), None);
        }
        assert_eq!(room.shrink(), (0..13).collect::<Vec<u64>>());
        assert_eq!(room.enter(100, ip("127.0.0.1")), Some(13));
        assert_eq!(room.len(), 87);
        while !room.shrink().is_empty() {}
        assert_eq!(room.len(), FEWEST);
    }

    #[test]
    fn loopback_has_all_the_room() {
        let mut room = Anteroom::new(5, 1);
        for who in 0..5 {
            assert_eq!(room.enter(who, ip("::ffff:127.0.0.1")), None);
        }
        assert_eq!(room.enter(5, ip("127.0.0.1")), Some(0));
        assert!(!room.is_empty());
    }
}
