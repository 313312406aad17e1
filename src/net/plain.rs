//! One UDP socket to one relay, from the standard library alone: what a client needs, on any system.
//!
//! Non-blocking and connected, so that the kernel passes on what comes from the relay and nothing else. Being connected, it
//! keeps the local address it was made with: when the network changes a new socket is made. An error is never the end of
//! it: each is counted and passed by, and what was to be sent counts as lost (FAULTS 83, 87). Windows reports a closed port at the far end by an
//! error of the next receive (WSAECONNRESET), once for each datagram sent; Linux does so once (ECONNREFUSED). Both are
//! counted as refused, and the receive is tried again.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ring::rand::{SecureRandom, SystemRandom};

use crate::limits::RECEIVE_TRIES;

/// What a socket counted. Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainCounts {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Errors that say that nobody listens at the relay's port.
    pub refused: u64,
    /// Errors that say that there is no way to the relay.
    pub unreachable: u64,
    /// Datagrams dropped for want of room (FAULTS 84).
    pub no_room: u64,
    /// Other errors.
    pub other: u64,
}

impl PlainCounts {
    /// Adds all of `other`.
    pub fn add(&mut self, other: &PlainCounts) {
        self.received += other.received;
        self.sent += other.sent;
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.no_room += other.no_room;
        self.other += other.other;
    }

    fn count(&mut self, kind: ErrorKind) {
        let count = match kind {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => &mut self.refused,
            ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable => &mut self.unreachable,
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory => &mut self.no_room,
            _ => &mut self.other,
        };
        *count += 1;
    }
}

/// A socket to one relay.
#[derive(Debug)]
pub struct PlainSocket {
    socket: UdpSocket,
    counts: PlainCounts,
}

impl PlainSocket {
    /// A socket at a free port, to `relay`.
    ///
    /// # Errors
    /// When the system gives no socket, or has no way to the relay now.
    pub fn connect(relay: SocketAddr) -> io::Result<PlainSocket> {
        let relay = SocketAddr::new(relay.ip().to_canonical(), relay.port());
        let any = match relay.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(relay)?;
        Ok(PlainSocket {
            socket,
            counts: PlainCounts::default(),
        })
    }

    /// The address datagrams leave from, where known.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// The next datagram's length, or `None` when none is there now. Never blocks, and passes by at most
    /// [`RECEIVE_TRIES`] errors.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        for _ in 0..RECEIVE_TRIES {
            match self.socket.recv(buffer) {
                Ok(length) => {
                    self.counts.received += 1;
                    return Some(length);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.counts.count(error.kind()),
            }
        }
        None
    }

    /// Sends a datagram, or counts why it is lost.
    pub fn send(&mut self, datagram: &[u8]) {
        // A refusal of an earlier datagram may be told here, and then nothing was sent.
        for _ in 0..2 {
            match self.socket.send(datagram) {
                Ok(_) => {
                    self.counts.sent += 1;
                    return;
                }
                Err(error) => {
                    self.counts.count(error.kind());
                    if error.kind() != ErrorKind::ConnectionRefused {
                        return;
                    }
                }
            }
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> PlainCounts {
        self.counts
    }
}

/// `N` bytes that nobody can guess, from the system.
///
/// # Errors
/// When the system gives none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (PlainSocket, UdpSocket) {
        let relay = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let socket = PlainSocket::connect(relay.local_addr().expect("bound")).expect("a socket");
        (socket, relay)
    }

    /// Waits for what comes over loopback, which may take a moment.
    fn receive(socket: &mut PlainSocket, buffer: &mut [u8]) -> Option<usize> {
        for _ in 0..200 {
            if let Some(length) = socket.receive(buffer) {
                return Some(length);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        None
    }

    /// FAULTS 83, 87: a refusal told on receive or send ends nothing: the same socket works once somebody listens.
    #[test]
    fn faults_83_87_a_refusal_ends_nothing() {
        let (mut socket, relay) = pair();
        let address = relay.local_addr().expect("bound");
        drop(relay);
        let mut buffer = [0; 64];
        for _ in 0..5 {
            socket.send(b"anybody?");
            assert_eq!(socket.receive(&mut buffer), None);
        }
        assert!(socket.counts().refused > 0, "{:?}", socket.counts());
        let relay = UdpSocket::bind(address).expect("the port is free again");
        socket.send(b"hello");
        let local = socket.local().expect("bound");
        let (length, from) = relay.recv_from(&mut buffer).expect("it arrives");
        assert_eq!((&buffer[..length], from), (&b"hello"[..], local));
        relay.send_to(b"welcome", local).expect("sent");
        assert_eq!(receive(&mut socket, &mut buffer), Some(7));
    }

    #[test]
    fn strangers_are_not_heard() {
        let (mut socket, relay) = pair();
        let local = socket.local().expect("bound");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        stranger.send_to(b"stranger", local).expect("sent");
        relay.send_to(b"relay", local).expect("sent");
        let mut buffer = [0; 64];
        assert_eq!(receive(&mut socket, &mut buffer), Some(5));
        assert_eq!(socket.receive(&mut buffer), None);
    }

    /// FAULTS 104: a v4 relay written as a v6 address is reached.
    #[test]
    fn faults_104_a_mapped_address_is_the_v4_one() {
        let relay = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = relay.local_addr().expect("bound").port();
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), port);
        let mut socket = PlainSocket::connect(mapped).expect("a socket");
        socket.send(b"hello");
        let mut buffer = [0; 64];
        assert_eq!(relay.recv_from(&mut buffer).expect("it arrives").0, 5);
    }

    #[test]
    fn random_bytes_differ() {
        let draw = || random::<16>().expect("the system has some");
        assert_ne!(draw(), draw());
    }
}
