//! Where the core puts datagrams: buffers someone else owns and sends.

use std::net::{IpAddr, SocketAddr};

/// The way to a client: its address, and the local address it spoke to where the socket is bound to a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address of ours it used.
    pub local: Option<IpAddr>,
}

/// Datagram buffers of at least [`DATAGRAM_MAX`](crate::limits::DATAGRAM_MAX) bytes.
pub trait Outbox {
    /// How many more datagrams fit before a send.
    fn room(&self) -> usize;
    /// The next buffer, or `None` when full. Taking it twice without a commit gives the same one.
    fn reserve(&mut self) -> Option<&mut [u8]>;
    /// The reserved buffer's first `length` bytes go to `path`.
    fn commit(&mut self, length: usize, path: Path);
}

/// An outbox in memory, for tests and simulation.
#[derive(Debug, Default)]
pub struct MemoryOutbox {
    buffer: Vec<u8>,
    /// What was committed, in order.
    pub sent: Vec<(Path, Vec<u8>)>,
}

impl Outbox for MemoryOutbox {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn reserve(&mut self) -> Option<&mut [u8]> {
        self.buffer.resize(crate::limits::DATAGRAM_MAX, 0);
        Some(&mut self.buffer)
    }

    fn commit(&mut self, length: usize, path: Path) {
        self.sent.push((path, self.buffer[..length].to_vec()));
    }
}
