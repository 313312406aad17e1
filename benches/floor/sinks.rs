//! Sockets that take datagrams and keep none: a filter in the kernel drops each one after it found its socket.
//!
//! So the sender pays for the whole way and nobody has to read; see docs/PERFORMANCE.md for what that flatters.

use std::net::SocketAddr;

use ackline::net::socket::{ShardSocket, SocketOptions};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

/// As many sinks as clients, each with an address of its own.
pub struct Sinks {
    sockets: Vec<Socket>,
    pub addresses: Vec<SocketAddr>,
}

impl Sinks {
    /// # Panics
    /// When the system gives no more sockets: raise `ulimit -n`.
    pub fn new(count: usize) -> Sinks {
        let sockets: Vec<Socket> = (0..count).map(|_| sink()).collect();
        let addresses = sockets
            .iter()
            .map(|socket| socket.local_addr().unwrap().as_socket().unwrap())
            .collect();
        Sinks { sockets, addresses }
    }

    /// The client at this place sends a datagram.
    pub fn say(&self, place: usize, bytes: &[u8], to: SocketAddr) {
        let sent = self.sockets[place].send_to(bytes, &to.into()).unwrap();
        assert_eq!(sent, bytes.len());
    }
}

fn sink() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
        .expect("a socket for each client: raise the limit of open files (ulimit -n)");
    // `ret #0`: of every datagram nothing is kept.
    socket.attach_filter(&[SockFilter::new(0x06, 0, 0, 0)]).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    socket
}

/// A socket to send from, set up as a relay's.
pub fn sender() -> ShardSocket {
    ShardSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), SocketOptions::default()).unwrap()
}
