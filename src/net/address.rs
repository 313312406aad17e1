//! Addresses in the form the kernel reads and writes: socket addresses, and the packet information that says
//! which local address a datagram was sent to or shall leave from.
//!
//! Plain byte layouts of the Linux interface, written and read without `unsafe` and checked against libc's
//! structures at compile time. Ports travel in network order, all else in the host's order.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of a v4 socket address.
const V4_BYTES: usize = 16;
/// Bytes of a v6 socket address, the longer of the two.
const V6_BYTES: usize = 28;
/// Bytes of a control message's header: its length (a word), its level and its type.
const CONTROL_HEADER: usize = size_of::<usize>() + 8;
/// Bytes of v4 packet information: interface, local address, destination of the header.
const V4_INFO_BYTES: usize = 12;
/// Bytes of v6 packet information: address, interface.
const V6_INFO_BYTES: usize = 20;
/// Bytes of a control buffer: one packet information of either family, and room to spare.
const CONTROL_BYTES: usize = 64;

const _: () = assert!(V4_BYTES == size_of::<libc::sockaddr_in>());
const _: () =
    assert!(offset_of!(libc::sockaddr_in, sin_port) == 2 && offset_of!(libc::sockaddr_in, sin_addr) == 4);
const _: () = assert!(V6_BYTES == size_of::<libc::sockaddr_in6>());
const _: () = assert!(offset_of!(libc::sockaddr_in6, sin6_port) == 2);
const _: () = assert!(offset_of!(libc::sockaddr_in6, sin6_addr) == 8);
const _: () = assert!(offset_of!(libc::sockaddr_in6, sin6_scope_id) == 24);
const _: () = assert!(CONTROL_HEADER == size_of::<libc::cmsghdr>());
const _: () = assert!(V4_INFO_BYTES == size_of::<libc::in_pktinfo>());
const _: () = assert!(offset_of!(libc::in_pktinfo, ipi_spec_dst) == 4);
const _: () = assert!(V6_INFO_BYTES == size_of::<libc::in6_pktinfo>());
const _: () = assert!(CONTROL_HEADER + V6_INFO_BYTES.next_multiple_of(8) <= CONTROL_BYTES);

/// The family a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`; with a wildcard address also v4, in mapped form.
    V6,
}

/// One identity for one peer: a v4-mapped v6 address becomes the v4 address, a flow label is dropped (FAULTS 104).
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id())),
        },
    }
}

/// A socket address as the kernel lays it out.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub(super) struct RawAddress([u8; V6_BYTES]);

impl RawAddress {
    pub(super) const BYTES: usize = V6_BYTES;
    pub(super) const EMPTY: RawAddress = RawAddress([0; V6_BYTES]);

    /// Writes `address` for a socket of `family`; returns its length in bytes. A v4 address on a v6 socket is
    /// written in mapped form; a v6 address on a v4 socket as it is, which the kernel refuses when it is sent.
    pub(super) fn write(&mut self, address: SocketAddr, family: Family) -> usize {
        let (ip, scope) = match (canonical(address), family) {
            (SocketAddr::V4(v4), Family::V4) => {
                self.write_fields(libc::AF_INET, v4.port(), [0; 4], [0; 4], &v4.ip().octets());
                return V4_BYTES;
            }
            (SocketAddr::V4(v4), Family::V6) => (v4.ip().to_ipv6_mapped(), 0),
            (SocketAddr::V6(v6), _) => (*v6.ip(), v6.scope_id()),
        };
        self.write_fields(
            libc::AF_INET6,
            address.port(),
            [0; 4],
            scope.to_ne_bytes(),
            &ip.octets(),
        );
        V6_BYTES
    }

    /// `ip` of four bytes sits where the flow label of a v6 address is.
    fn write_fields(&mut self, family: i32, port: u16, flow: [u8; 4], scope: [u8; 4], ip: &[u8]) {
        let mut fields = [0u8; V6_BYTES];
        let v4 = ip.len() == 4;
        let parts: [&[u8]; 5] = [
            &(family as u16).to_ne_bytes(),
            &port.to_be_bytes(),
            if v4 { &[] } else { &flow },
            ip,
            if v4 { &[] } else { &scope },
        ];
        for (place, byte) in fields.iter_mut().zip(parts.into_iter().flatten()) {
            *place = *byte;
        }
        self.0 = fields;
    }

    /// The address in canonical form; `None` for a family that is neither v4 nor v6, or one cut short.
    pub(super) fn read(&self, length: usize) -> Option<SocketAddr> {
        let bytes = self.0.get(..length)?;
        let family = i32::from(u16::from_ne_bytes(take(bytes, 0)?));
        let port = u16::from_be_bytes(take(bytes, 2)?);
        match family {
            libc::AF_INET => Some(SocketAddr::from((Ipv4Addr::from(take::<4>(bytes, 4)?), port))),
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(take::<16>(bytes, 8)?);
                let scope = u32::from_ne_bytes(take(bytes, 24)?);
                Some(canonical(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))))
            }
            _ => None,
        }
    }
}

/// Control messages of one datagram as the kernel lays them out.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct RawControl([u8; CONTROL_BYTES]);

impl RawControl {
    pub(super) const BYTES: usize = CONTROL_BYTES;
    pub(super) const EMPTY: RawControl = RawControl([0; CONTROL_BYTES]);

    /// Writes the packet information that makes a datagram leave from `source`; returns its length in bytes. 0,
    /// and so no message, where the families do not meet: the kernel then chooses the source.
    pub(super) fn write_source(&mut self, source: IpAddr, family: Family) -> usize {
        let mut v4_info = [0u8; V4_INFO_BYTES];
        let mut v6_info = [0u8; V6_INFO_BYTES];
        let (level, kind, info): (i32, i32, &[u8]) = match (source.to_canonical(), family) {
            (IpAddr::V4(v4), Family::V4) => {
                put(&mut v4_info, 4, &v4.octets());
                (libc::IPPROTO_IP, libc::IP_PKTINFO, &v4_info)
            }
            (IpAddr::V6(_), Family::V4) => return 0,
            (IpAddr::V4(v4), Family::V6) => {
                put(&mut v6_info, 0, &v4.to_ipv6_mapped().octets());
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &v6_info)
            }
            (IpAddr::V6(v6), Family::V6) => {
                put(&mut v6_info, 0, &v6.octets());
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &v6_info)
            }
        };
        let length = CONTROL_HEADER + info.len();
        self.0 = [0; CONTROL_BYTES];
        put(&mut self.0, 0, &length.to_ne_bytes());
        put(&mut self.0, size_of::<usize>(), &level.to_ne_bytes());
        put(&mut self.0, size_of::<usize>() + 4, &kind.to_ne_bytes());
        put(&mut self.0, CONTROL_HEADER, info);
        length.next_multiple_of(size_of::<usize>())
    }

    /// The local address a datagram was sent to, in canonical form, from its first packet information.
    pub(super) fn read_local(&self, length: usize) -> Option<IpAddr> {
        let mut rest = self.0.get(..length)?;
        while rest.len() >= CONTROL_HEADER {
            let message = usize::from_ne_bytes(take(rest, 0)?);
            let level = i32::from_ne_bytes(take(rest, size_of::<usize>())?);
            let kind = i32::from_ne_bytes(take(rest, size_of::<usize>() + 4)?);
            let info = rest.get(CONTROL_HEADER..message)?;
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => return take::<4>(info, 4).map(IpAddr::from),
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    return take::<16>(info, 0).map(|ip| IpAddr::from(ip).to_canonical());
                }
                _ => rest = rest.get(message.next_multiple_of(size_of::<usize>())..)?,
            }
        }
        None
    }
}

/// `N` bytes of `bytes` from `at`; `None` where they are not all there.
fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Writes `bytes` into `place` from `at`.
fn put(place: &mut [u8], at: usize, bytes: &[u8]) {
    debug_assert!(
        at + bytes.len() <= place.len(),
        "the field lies inside its structure"
    );
    for (place, byte) in place.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(address: &str, family: Family) -> (SocketAddr, usize) {
        let mut raw = RawAddress([0xee; V6_BYTES]);
        let length = raw.write(address.parse().unwrap(), family);
        (raw.read(length).unwrap(), length)
    }

    /// FAULTS 104: a v4 peer has one identity, whatever the family of the socket it came by.
    #[test]
    fn addresses_come_back_canonical() {
        let v4 = "192.0.2.7:4001".parse::<SocketAddr>().unwrap();
        assert_eq!(read_back("192.0.2.7:4001", Family::V4), (v4, V4_BYTES));
        assert_eq!(read_back("192.0.2.7:4001", Family::V6), (v4, V6_BYTES));
        assert_eq!(read_back("[::ffff:192.0.2.7]:4001", Family::V4), (v4, V4_BYTES));
        assert_eq!(read_back("[::ffff:192.0.2.7]:4001", Family::V6), (v4, V6_BYTES));
        let v6 = "[fe80::1%3]:65535".parse::<SocketAddr>().unwrap();
        assert_eq!(read_back("[fe80::1%3]:65535", Family::V6), (v6, V6_BYTES));
    }

    #[test]
    fn short_or_foreign_addresses_are_refused() {
        let mut raw = RawAddress::EMPTY;
        assert_eq!(raw.read(V6_BYTES), None);
        let length = raw.write("[2001:db8::1]:9".parse().unwrap(), Family::V6);
        for short in (0..length).chain(length + 1..length + 9) {
            assert_eq!(raw.read(short), None, "{short} bytes");
        }
    }

    #[test]
    fn sources_come_back_and_mixed_families_write_nothing() {
        let mut raw = RawControl::EMPTY;
        for (source, family, expected) in [
            ("192.0.2.7", Family::V4, Some("192.0.2.7")),
            ("192.0.2.7", Family::V6, Some("192.0.2.7")),
            ("::ffff:192.0.2.7", Family::V4, Some("192.0.2.7")),
            ("2001:db8::1", Family::V6, Some("2001:db8::1")),
            ("2001:db8::1", Family::V4, None),
        ] {
            let length = raw.write_source(source.parse().unwrap(), family);
            assert_eq!(
                raw.read_local(length),
                expected.map(|ip| ip.parse().unwrap()),
                "{source} {family:?}"
            );
        }
    }

    /// A control buffer of any content is read without a panic.
    #[test]
    fn damaged_control_messages_are_refused() {
        let mut raw = RawControl::EMPTY;
        let length = raw.write_source("2001:db8::1".parse().unwrap(), Family::V6);
        for short in 0..CONTROL_HEADER + V6_INFO_BYTES {
            assert_eq!(raw.read_local(short), None, "{short} bytes");
        }
        for message in [
            0,
            1,
            CONTROL_HEADER - 1,
            CONTROL_HEADER,
            length + 1,
            65,
            usize::MAX,
            usize::MAX - 6,
        ] {
            let mut damaged = raw;
            put(&mut damaged.0, 0, &message.to_ne_bytes());
            damaged.read_local(length);
            put(&mut damaged.0, size_of::<usize>(), &77i32.to_ne_bytes());
            assert_eq!(damaged.read_local(CONTROL_BYTES), None, "{message}");
        }
        assert_eq!(raw.read_local(CONTROL_BYTES + 1), None);
    }
}
