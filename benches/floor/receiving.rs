//! The floor of the way up: `recvfrom` and nothing else, on a queue that is drained often.
#![allow(unsafe_code)]

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use ackline::net::clock::thread_cpu_ns;

/// Datagrams queued before each drain: as few as stay in the cache.
pub const DRAINED: usize = 64;

/// Takes as many datagrams off `socket`, one by one. CPU time, ns.
pub fn receive_bare(socket: &UdpSocket, datagrams: usize) -> u64 {
    let begun = thread_cpu_ns();
    for _ in 0..datagrams {
        receive_one(socket);
    }
    thread_cpu_ns() - begun
}

fn receive_one(socket: &UdpSocket) {
    let mut bytes = [0u8; 2048];
    let mut name = std::mem::MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: buffer and name are of the lengths given and outlive the call; nothing of them is read.
    let count = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(count > 0, "{}", std::io::Error::last_os_error());
}
