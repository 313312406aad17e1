//! The errors of a socket as named kinds, and how often each was seen.
//!
//! A kernel error number becomes one of a dozen names, so that the same word stands in a count, a metric label and
//! a log line, and the number of labels is bounded (FAULTS 91).

/// What the kernel said about a datagram or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrnoKind {
    /// `EAGAIN`: the socket's send buffer is full.
    WouldBlock,
    /// `ENOBUFS`, `ENOMEM`: the interface's queue or memory is full.
    NoBuffers,
    /// `ECONNREFUSED`, `ECONNRESET`: nobody listens at that port.
    Refused,
    /// `EHOSTUNREACH`, `EHOSTDOWN`: no such host.
    HostUnreachable,
    /// `ENETUNREACH`, `ENETDOWN`: no route, no interface, or a v4 source address this host does not have.
    NetworkUnreachable,
    /// `EPERM`, `EACCES`: a firewall or the address class forbids it (FAULTS 102).
    NotPermitted,
    /// `EMSGSIZE`: longer than the path's first hop takes; datagrams are never fragmented (FAULTS 85).
    TooLong,
    /// `EINVAL`: port 0, or a v6 source address this host does not have.
    Invalid,
    /// `EADDRNOTAVAIL`: the source address does not exist now.
    AddressNotAvailable,
    /// `EAFNOSUPPORT`: a v6 address on a v4 socket.
    FamilyNotSupported,
    /// `EINTR`: a signal arrived first.
    Interrupted,
    /// Anything else.
    Other,
}

impl ErrnoKind {
    /// Number of kinds.
    pub const COUNT: usize = 12;

    /// Every kind, in the order of the counts.
    pub const ALL: [ErrnoKind; ErrnoKind::COUNT] = [
        ErrnoKind::WouldBlock,
        ErrnoKind::NoBuffers,
        ErrnoKind::Refused,
        ErrnoKind::HostUnreachable,
        ErrnoKind::NetworkUnreachable,
        ErrnoKind::NotPermitted,
        ErrnoKind::TooLong,
        ErrnoKind::Invalid,
        ErrnoKind::AddressNotAvailable,
        ErrnoKind::FamilyNotSupported,
        ErrnoKind::Interrupted,
        ErrnoKind::Other,
    ];

    /// The kind of a kernel error number.
    pub fn of(errno: i32) -> ErrnoKind {
        match errno {
            libc::EAGAIN => ErrnoKind::WouldBlock,
            libc::ENOBUFS | libc::ENOMEM => ErrnoKind::NoBuffers,
            libc::ECONNREFUSED | libc::ECONNRESET => ErrnoKind::Refused,
            libc::EHOSTUNREACH | libc::EHOSTDOWN => ErrnoKind::HostUnreachable,
            libc::ENETUNREACH | libc::ENETDOWN => ErrnoKind::NetworkUnreachable,
            libc::EPERM | libc::EACCES => ErrnoKind::NotPermitted,
            libc::EMSGSIZE => ErrnoKind::TooLong,
            libc::EINVAL => ErrnoKind::Invalid,
            libc::EADDRNOTAVAIL => ErrnoKind::AddressNotAvailable,
            libc::EAFNOSUPPORT => ErrnoKind::FamilyNotSupported,
            libc::EINTR => ErrnoKind::Interrupted,
            _ => ErrnoKind::Other,
        }
    }

    /// The kind's word in metrics and logs.
    pub fn label(self) -> &'static str {
        match self {
            ErrnoKind::WouldBlock => "would_block",
            ErrnoKind::NoBuffers => "no_buffers",
            ErrnoKind::Refused => "refused",
            ErrnoKind::HostUnreachable => "host_unreachable",
            ErrnoKind::NetworkUnreachable => "network_unreachable",
            ErrnoKind::NotPermitted => "not_permitted",
            ErrnoKind::TooLong => "too_long",
            ErrnoKind::Invalid => "invalid",
            ErrnoKind::AddressNotAvailable => "address_not_available",
            ErrnoKind::FamilyNotSupported => "family_not_supported",
            ErrnoKind::Interrupted => "interrupted",
            ErrnoKind::Other => "other",
        }
    }

    /// True where sending more at once cannot help: the rest of a batch is dropped (FAULTS 84).
    pub fn is_congestion(self) -> bool {
        matches!(self, ErrnoKind::WouldBlock | ErrnoKind::NoBuffers)
    }
}

/// How often each kind was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrnoCounts {
    counts: [u64; ErrnoKind::COUNT],
    last: i32,
}

impl ErrnoCounts {
    /// Counts one error by its kernel number.
    pub fn record(&mut self, errno: i32) {
        self.record_many(errno, 1);
    }

    /// Counts `times` errors of one kernel number.
    pub fn record_many(&mut self, errno: i32, times: u64) {
        if times > 0 {
            self.counts[ErrnoKind::of(errno) as usize] += times;
            self.last = errno;
        }
    }

    /// Errors of one kind.
    pub fn get(&self, kind: ErrnoKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Errors of all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// The kernel number of the error counted last, for a log line; `None` when nothing was counted.
    pub fn last(&self) -> Option<i32> {
        (self.last != 0).then_some(self.last)
    }

    /// Adds another count to this one.
    pub fn add(&mut self, other: &ErrnoCounts) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        if other.last != 0 {
            self.last = other.last;
        }
    }

    /// Kinds seen at least once, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (ErrnoKind, u64)> + '_ {
        ErrnoKind::ALL
            .into_iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 91: every error number lands in one of a bounded set of labels, each of its own.
    #[test]
    fn every_number_has_a_label_of_its_own_kind() {
        for (index, kind) in ErrnoKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            for other in &ErrnoKind::ALL[..index] {
                assert_ne!(kind.label(), other.label());
            }
        }
        let mut counts = ErrnoCounts::default();
        for errno in 1..200 {
            counts.record(errno);
        }
        assert_eq!(counts.total(), 199);
        assert_eq!(counts.get(ErrnoKind::NoBuffers), 2);
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 199);
    }

    #[test]
    fn counts_add_up() {
        let mut sum = ErrnoCounts::default();
        assert!(sum.is_empty() && sum.last().is_none());
        let mut one = ErrnoCounts::default();
        one.record_many(libc::ENOBUFS, 5);
        one.record_many(libc::EPERM, 0);
        sum.add(&one);
        sum.add(&ErrnoCounts::default());
        assert_eq!((sum.total(), sum.last()), (5, Some(libc::ENOBUFS)));
        assert_eq!(sum.iter().collect::<Vec<_>>(), [(ErrnoKind::NoBuffers, 5)]);
    }
}
