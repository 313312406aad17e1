//! The floor: `sendmmsg` of 64 ready buffers at a time, with the sizes and destinations that a relay's tick had.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use ackline::net::socket::ShardSocket;

/// Datagrams of one call.
const BATCH: usize = 64;
/// Bytes of a buffer.
const BUFFER: usize = 1280;

/// Sends what is ready, and makes nothing.
pub struct RawSender {
    socket: ShardSocket,
    buffers: Vec<[u8; BUFFER]>,
    names: Vec<libc::sockaddr_in>,
}

impl RawSender {
    /// For these destinations, by their place.
    pub fn new(socket: ShardSocket, addresses: &[SocketAddr]) -> RawSender {
        RawSender {
            socket,
            buffers: vec![[0x5A; BUFFER]; BATCH],
            names: addresses.iter().map(name).collect(),
        }
    }

    /// Sends a datagram of each of `letters`, the place of its destination and its size.
    pub fn send(&mut self, letters: &[(u32, u16)]) {
        for batch in letters.chunks(BATCH) {
            self.send_batch(batch);
        }
    }

    fn send_batch(&mut self, batch: &[(u32, u16)]) {
        // SAFETY: all-zero bytes are a valid value of these C structs: null pointers and zero lengths.
        let (mut vectors, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for (((to, bytes), buffer), (vector, header)) in batch
            .iter()
            .zip(&mut self.buffers)
            .zip(vectors.iter_mut().zip(&mut headers))
        {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = usize::from(*bytes).min(BUFFER);
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::from_mut(&mut self.names[*to as usize]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as _;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
        }
        let mut sent = 0;
        while sent < batch.len() {
            // SAFETY: the headers from `sent` on are valid for the length given; each points to a name, a vector and a buffer
            // that outlive the call.
            let count = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    headers.as_mut_ptr().add(sent),
                    (batch.len() - sent) as _,
                    0,
                )
            };
            assert!(count > 0, "sendmmsg: {}", std::io::Error::last_os_error());
            sent += usize::try_from(count).unwrap();
        }
    }
}

fn name(address: &SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(address) = address else {
        panic!("sinks are of IPv4");
    };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}
