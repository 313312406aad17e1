//! The UDP socket of one relay shard.
//!
//! Non-blocking and unconnected: one socket serves all clients of a shard, so the kernel reports no late errors of
//! single peers. Datagrams are never fragmented on the way (FAULTS 85). Buffer sizes are in the unit of the
//! request; the kernel doubles them for its own bookkeeping, and that doubling is taken out again here.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

use super::address::{Family, canonical};

/// How a socket is set up. Zero bytes leave a buffer as the system gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Lets other sockets of this user bind the same address with the same option; the kernel then spreads the
    /// peers over them by address and port. See [`ShardSocket::bind_group`], which refuses a second process.
    pub reuse_port: bool,
    /// Receive buffer to ask for, in bytes, kernel bookkeeping included: some 0.8 KiB for a small datagram.
    pub receive_buffer_bytes: usize,
    /// Send buffer to ask for, in bytes, kernel bookkeeping included.
    pub send_buffer_bytes: usize,
}

/// A bound UDP socket. Receive and send through [`super::batch`]; wait with [`super::waker::wait`].
#[derive(Debug)]
pub struct ShardSocket {
    socket: Socket,
    local: SocketAddr,
    family: Family,
    granted_receive_bytes: usize,
    granted_send_bytes: usize,
    /// Datagrams the kernel dropped, extended from its 32-bit counter.
    drops: AtomicU64,
}

impl ShardSocket {
    /// Binds `addr`, port 0 for any free port. `[::]` takes v4 peers too; a v4-mapped address binds the v4 one.
    /// A wildcard address also asks for packet information, so that a reply can leave from the address that was
    /// asked.
    ///
    /// # Errors
    /// When the system refuses the socket or the address (in use, not there yet, not permitted); the kind is the
    /// system's. A buffer clamped by the system is no error: compare [`ShardSocket::granted_receive_bytes`].
    pub fn bind(addr: SocketAddr, options: SocketOptions) -> io::Result<ShardSocket> {
        let addr = canonical(addr);
        ShardSocket::bind_canonical(addr, options).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot bind the UDP address {addr}: {error}; choose a free address of this host"),
            )
        })
    }

    /// Binds `count` sockets to one address, one for each shard. The first is bound alone: while any other
    /// process, of this user too, holds the address, nothing is bound (FAULTS 105).
    ///
    /// # Errors
    /// As [`ShardSocket::bind`].
    pub fn bind_group(
        addr: SocketAddr,
        count: usize,
        options: SocketOptions,
    ) -> io::Result<Vec<ShardSocket>> {
        let mut group = Vec::with_capacity(count);
        if count == 0 {
            return Ok(group);
        }
        let first = ShardSocket::bind(
            addr,
            SocketOptions {
                reuse_port: false,
                ..options
            },
        )?;
        first.socket.set_reuse_port(true)?;
        let addr = first.local;
        group.push(first);
        for _ in 1..count {
            group.push(ShardSocket::bind(
                addr,
                SocketOptions {
                    reuse_port: true,
                    ..options
                },
            )?);
        }
        Ok(group)
    }

    fn bind_canonical(addr: SocketAddr, options: SocketOptions) -> io::Result<ShardSocket> {
        let (domain, family) = match addr {
            SocketAddr::V4(_) => (Domain::IPV4, Family::V4),
            SocketAddr::V6(_) => (Domain::IPV6, Family::V6),
        };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        if family == Family::V6 {
            socket.set_only_v6(!addr.ip().is_unspecified())?;
        }
        if addr.ip().is_unspecified() {
            ask_for_packet_information(&socket, family)?;
        }
        forbid_fragments(&socket, family);
        ask_for_buffers(&socket, options)?;
        socket.bind(&addr.into())?;
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::InvalidData)?;
        Ok(ShardSocket {
            local: canonical(local),
            family,
            granted_receive_bytes: socket.recv_buffer_size()? / 2,
            granted_send_bytes: socket.send_buffer_size()? / 2,
            drops: AtomicU64::new(0),
            socket,
        })
    }

    /// The bound address, with the port the system chose where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The family of the socket.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Receive buffer granted, in bytes as asked for: less than asked where the system clamps (FAULTS 103).
    pub fn granted_receive_bytes(&self) -> usize {
        self.granted_receive_bytes
    }

    /// Send buffer granted, in bytes as asked for: less than asked where the system clamps.
    pub fn granted_send_bytes(&self) -> usize {
        self.granted_send_bytes
    }

    /// Datagrams the kernel dropped on this socket since it was bound, a full receive buffer above all
    /// (FAULTS 103); never falls. `None` where the kernel does not say (before 4.12). Call it at least once in
    /// two thousand million drops.
    pub fn kernel_drops(&self) -> Option<u64> {
        let now = kernel_drops_32(self.as_raw_fd())?;
        let mut known = self.drops.load(Ordering::Relaxed);
        loop {
            // The distance is signed: another thread may already have stored a later reading.
            let ahead = now.wrapping_sub(known as u32) as i32;
            let Some(ahead) = u64::try_from(ahead).ok().filter(|ahead| *ahead > 0) else {
                return Some(known);
            };
            match self
                .drops
                .compare_exchange_weak(known, known + ahead, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(known + ahead),
                Err(later) => known = later,
            }
        }
    }
}

impl AsRawFd for ShardSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for ShardSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn ask_for_packet_information(socket: &Socket, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => set_integer(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        Family::V6 => set_integer(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Sets the "don't fragment" flag, and ignores path sizes that a stranger's ICMP claims. A system without the
/// option still works, so a refusal is passed by.
fn forbid_fragments(socket: &Socket, family: Family) {
    // A v6 socket takes the v4 option too, for its v4-mapped peers.
    let _ = set_integer(
        socket,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_PROBE,
    );
    if family == Family::V6 {
        let _ = set_integer(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        );
    }
}

/// Asks with privilege first (beyond the system's maximum), then without (clamped to it).
fn ask_for_buffers(socket: &Socket, options: SocketOptions) -> io::Result<()> {
    let asks = [
        (
            options.receive_buffer_bytes,
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
        ),
        (options.send_buffer_bytes, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ];
    for (bytes, force, ask) in asks {
        if bytes > 0 {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX).min(i32::MAX / 2);
            set_integer(socket, libc::SOL_SOCKET, force, bytes)
                .or_else(|_| set_integer(socket, libc::SOL_SOCKET, ask, bytes))?;
        }
    }
    Ok(())
}

/// Sets one integer option.
pub(super) fn set_integer(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call; the kernel copies it.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel's own counter of dropped datagrams, which wraps at 32 bits.
fn kernel_drops_32(fd: RawFd) -> Option<u32> {
    let mut information = [0u32; 16];
    let mut length = size_of_val(&information) as libc::socklen_t;
    // SAFETY: the pointer and length describe `information`, which outlives the call; any bytes are valid `u32`s.
    let code = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            information.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let place = libc::SK_MEMINFO_DROPS as usize;
    if code == 0 && length as usize >= (place + 1) * size_of::<u32>() {
        Some(information[place])
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    /// FAULTS 103: the granted size is known, and is in the unit of the request.
    #[test]
    fn granted_buffers_are_told_in_the_unit_of_the_request() {
        let options = SocketOptions {
            receive_buffer_bytes: 100_000,
            send_buffer_bytes: 50_000,
            ..Default::default()
        };
        let socket = ShardSocket::bind(loopback(), options).unwrap();
        assert_eq!(
            (socket.granted_receive_bytes(), socket.granted_send_bytes()),
            (100_000, 50_000)
        );
        let wild = SocketOptions {
            receive_buffer_bytes: usize::MAX,
            ..Default::default()
        };
        let socket = ShardSocket::bind(loopback(), wild).unwrap();
        assert!(socket.granted_receive_bytes() >= 100_000);
    }

    /// FAULTS 103: a full receive buffer shows.
    #[test]
    fn kernel_drops_rise_when_a_small_buffer_overflows() {
        let options = SocketOptions {
            receive_buffer_bytes: 4096,
            ..Default::default()
        };
        let socket = ShardSocket::bind(loopback(), options).unwrap();
        let Some(before) = socket.kernel_drops() else {
            println!("skipped: this kernel tells no drops");
            return;
        };
        assert_eq!(before, 0);
        let sender = UdpSocket::bind(loopback()).unwrap();
        for _ in 0..100 {
            sender.send_to(&[1; 1000], socket.local_addr()).unwrap();
        }
        let drops = socket.kernel_drops().unwrap();
        assert!(drops > 0 && drops < 100, "{drops} drops");
        assert_eq!(socket.kernel_drops(), Some(drops));
        // The kernel's counter wraps; ours goes on. A reading behind the known one changes nothing.
        socket
            .drops
            .store((7 << 32) + u64::from(u32::MAX - 3), Ordering::Relaxed);
        assert_eq!(socket.kernel_drops(), Some((8 << 32) + drops));
        socket.drops.store((8 << 32) + drops + 5, Ordering::Relaxed);
        assert_eq!(socket.kernel_drops(), Some((8 << 32) + drops + 5));
    }

    /// FAULTS 105: shards of one process share the address, a second process is refused.
    #[test]
    fn a_group_shares_an_address_and_keeps_a_second_group_out() {
        let group = ShardSocket::bind_group(loopback(), 3, SocketOptions::default()).unwrap();
        let addr = group[0].local_addr();
        assert!(group.iter().all(|socket| socket.local_addr() == addr));
        let error = ShardSocket::bind_group(addr, 3, SocketOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
        assert!(
            ShardSocket::bind_group(addr, 0, SocketOptions::default())
                .unwrap()
                .is_empty()
        );
        drop(group);
        ShardSocket::bind_group(addr, 2, SocketOptions::default()).unwrap();
    }

    /// The kernel spreads peers over a group: with many peers no member stays idle.
    #[test]
    fn a_group_spreads_its_peers() {
        let group = ShardSocket::bind_group(loopback(), 2, SocketOptions::default()).unwrap();
        for _ in 0..64 {
            let peer = UdpSocket::bind(loopback()).unwrap();
            peer.send_to(b"x", group[0].local_addr()).unwrap();
        }
        let mut batch = crate::net::batch::ReceiveBatch::new();
        let each = [
            batch.receive(&group[0]).datagrams,
            batch.receive(&group[1]).datagrams,
        ];
        assert_eq!(each.iter().sum::<usize>(), 64, "{each:?}");
        assert!(each.iter().all(|count| *count > 0), "{each:?}");
    }

    /// FAULTS 107: an address that does not exist is refused by name, with the system's kind.
    #[test]
    fn a_missing_address_is_refused() {
        let error = ShardSocket::bind("192.0.2.1:0".parse().unwrap(), SocketOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    /// FAULTS 104: a v4-mapped literal binds the v4 address.
    #[test]
    fn a_mapped_literal_binds_v4() {
        let socket =
            ShardSocket::bind("[::ffff:127.0.0.1]:0".parse().unwrap(), SocketOptions::default()).unwrap();
        assert_eq!(socket.family(), Family::V4);
        assert_eq!(socket.local_addr().ip().to_string(), "127.0.0.1");
    }
}
