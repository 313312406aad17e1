//! Datagrams in batches: one `recvmmsg` fills a receive batch, one `sendmmsg` empties a send batch.
//!
//! Both are made once and used for ever: nothing is allocated after construction. Pointers for the kernel are
//! built anew for each call from slots that outlive it, so a batch may be moved and sent to another thread.
//!
//! Errors are per datagram. Receiving counts an error and goes on (FAULTS 83). Sending skips the datagram that
//! the kernel refuses and sends the others (FAULTS 102); where the kernel has no room the rest of the batch is
//! dropped, because newer state replaces it, and nothing waits or spins (FAULTS 84).
#![allow(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

use super::address::{RawAddress, RawControl};
use super::errno::{ErrnoCounts, ErrnoKind};
use super::socket::ShardSocket;
use crate::limits::{BATCH_DATAGRAMS, RECEIVE_SLOT_BYTES, RECEIVE_TRIES, SEND_SLOT_BYTES};

/// One received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Who sent it, in canonical form (FAULTS 104).
    pub from: SocketAddr,
    /// The local address it was sent to, known on a socket bound to a wildcard. A reply should leave from it.
    pub local: Option<IpAddr>,
    /// Its bytes, in place: may be opened where they lie.
    pub bytes: &'a mut [u8],
    /// True when it was longer than a slot and only its beginning is here: to be counted, not to be read.
    pub truncated: bool,
}

/// What one [`ReceiveBatch::receive`] brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveReport {
    /// Datagrams now in the batch. A full batch ([`BATCH_DATAGRAMS`]) means that more may wait.
    pub datagrams: usize,
    /// Errors passed by. Late news of datagrams sent earlier, by their nature.
    pub errors: ErrnoCounts,
}

/// Slots for the datagrams of one receive call.
pub struct ReceiveBatch {
    slots: Box<[[u8; RECEIVE_SLOT_BYTES]]>,
    names: Box<[RawAddress]>,
    controls: Box<[RawControl]>,
    arrived: Box<[Arrived]>,
    filled: usize,
}

/// What the kernel said of one datagram, in canonical form.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    /// `None` where the sender's address is of no known family: such a datagram is not handed out.
    from: Option<SocketAddr>,
    local: Option<IpAddr>,
    length: usize,
    truncated: bool,
}

const NOTHING_ARRIVED: Arrived = Arrived {
    from: None,
    local: None,
    length: 0,
    truncated: false,
};

impl Default for ReceiveBatch {
    fn default() -> ReceiveBatch {
        ReceiveBatch::new()
    }
}

impl ReceiveBatch {
    /// An empty batch with all its memory.
    pub fn new() -> ReceiveBatch {
        ReceiveBatch {
            slots: vec![[0; RECEIVE_SLOT_BYTES]; BATCH_DATAGRAMS].into_boxed_slice(),
            names: vec![RawAddress::EMPTY; BATCH_DATAGRAMS].into_boxed_slice(),
            controls: vec![RawControl::EMPTY; BATCH_DATAGRAMS].into_boxed_slice(),
            arrived: vec![NOTHING_ARRIVED; BATCH_DATAGRAMS].into_boxed_slice(),
            filled: 0,
        }
    }

    /// Replaces the batch by what waits on `socket`, without waiting for more. No datagrams means that none
    /// waits, or that every one of [`RECEIVE_TRIES`] calls met an error: wait again in either case.
    pub fn receive(&mut self, socket: &ShardSocket) -> ReceiveReport {
        self.filled = 0;
        let mut errors = ErrnoCounts::default();
        for _ in 0..RECEIVE_TRIES {
            match self.receive_once(socket) {
                Ok(filled) => {
                    self.filled = filled;
                    break;
                }
                Err(libc::EAGAIN) => break,
                Err(libc::EINTR) => {}
                Err(errno) => errors.record(errno),
            }
        }
        let strange = self
            .arrived
            .iter()
            .take(self.filled)
            .filter(|arrived| arrived.from.is_none())
            .count();
        errors.record_many(libc::EAFNOSUPPORT, strange as u64);
        ReceiveReport {
            datagrams: self.filled - strange,
            errors,
        }
    }

    /// The datagrams of the last receive, in the order of arrival.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        self.slots
            .iter_mut()
            .zip(&self.arrived)
            .take(self.filled)
            .filter_map(|(slot, arrived)| {
                Some(Datagram {
                    from: arrived.from?,
                    local: arrived.local,
                    bytes: slot.get_mut(..arrived.length)?,
                    truncated: arrived.truncated,
                })
            })
    }

    /// One `recvmmsg`: the number of slots filled, or the kernel's error number.
    fn receive_once(&mut self, socket: &ShardSocket) -> Result<usize, i32> {
        let mut vectors = [NO_VECTOR; BATCH_DATAGRAMS];
        let mut headers = empty_headers();
        let slots = self
            .slots
            .iter_mut()
            .zip(self.names.iter_mut())
            .zip(self.controls.iter_mut());
        for (((slot, name), control), (vector, header)) in slots.zip(vectors.iter_mut().zip(&mut headers)) {
            *vector = libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: RECEIVE_SLOT_BYTES,
            };
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::from_mut(name).cast();
            header.msg_namelen = RawAddress::BYTES as _;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::from_mut(control).cast();
            header.msg_controllen = RawControl::BYTES as _;
        }
        // SAFETY: the headers are a valid array of the length given. Each points to one slot, one name and one
        // control buffer of its own, of the lengths stated, which `self` and `vectors` hold past the call and
        // nothing else touches meanwhile. All are plain bytes that any content leaves valid. No timeout is given.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as _,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| last_errno())?;
        let read = self.names.iter().zip(&self.controls).zip(&headers).take(count);
        for (((name, control), header), arrived) in read.zip(self.arrived.iter_mut()) {
            *arrived = Arrived {
                from: name.read(header.msg_hdr.msg_namelen as usize),
                local: control.read_local(header.msg_hdr.msg_controllen as _),
                length: (header.msg_len as usize).min(RECEIVE_SLOT_BYTES),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            };
        }
        Ok(count)
    }
}

/// What became of the datagrams of one [`SendBatch::flush`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushReport {
    /// Datagrams the kernel took.
    pub sent: usize,
    /// Datagrams not sent, each under its reason: refused one by one, or dropped with the rest of a batch that
    /// found no room ([`ErrnoKind::is_congestion`]). With `sent` they make up the batch.
    pub errors: ErrnoCounts,
    /// Errors that belonged to earlier datagrams and that the kernel told on the next send. They cost nobody a
    /// datagram of this batch.
    pub late: ErrnoCounts,
}

impl FlushReport {
    /// Adds another report to this one.
    pub fn add(&mut self, other: &FlushReport) {
        self.sent += other.sent;
        self.errors.add(&other.errors);
        self.late.add(&other.late);
    }
}

/// Slots for the datagrams of one send call. Reserve a slot, write into it, commit it; flush when full or at the
/// end of the tick.
pub struct SendBatch {
    slots: Box<[[u8; SEND_SLOT_BYTES]]>,
    names: Box<[RawAddress]>,
    controls: Box<[RawControl]>,
    letters: Box<[Letter]>,
    filled: usize,
}

/// Where a committed datagram goes.
#[derive(Clone, Copy, Debug)]
struct Letter {
    to: SocketAddr,
    from: Option<IpAddr>,
    length: usize,
}

const NO_LETTER: Letter = Letter {
    to: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    from: None,
    length: 0,
};

impl Default for SendBatch {
    fn default() -> SendBatch {
        SendBatch::new()
    }
}

impl SendBatch {
    /// An empty batch with all its memory.
    pub fn new() -> SendBatch {
        SendBatch {
            slots: vec![[0; SEND_SLOT_BYTES]; BATCH_DATAGRAMS].into_boxed_slice(),
            names: vec![RawAddress::EMPTY; BATCH_DATAGRAMS].into_boxed_slice(),
            controls: vec![RawControl::EMPTY; BATCH_DATAGRAMS].into_boxed_slice(),
            letters: vec![NO_LETTER; BATCH_DATAGRAMS].into_boxed_slice(),
            filled: 0,
        }
    }

    /// The next free slot, with old bytes in it; `None` when the batch is full. A slot that is not committed is
    /// the next one again.
    pub fn reserve(&mut self) -> Option<&mut [u8; SEND_SLOT_BYTES]> {
        self.slots.get_mut(self.filled)
    }

    /// Commits the first `length` bytes of the reserved slot as a datagram to `to`. `from` is the local address
    /// it shall leave from, as [`Datagram::local`] told; with `None` the system chooses.
    ///
    /// # Panics
    /// When the batch is full or `length` exceeds a slot: faults of the caller.
    pub fn commit(&mut self, length: usize, to: SocketAddr, from: Option<IpAddr>) {
        assert!(
            length <= SEND_SLOT_BYTES,
            "a datagram of {length} bytes exceeds its slot of {SEND_SLOT_BYTES}"
        );
        assert!(
            !self.is_full(),
            "commit without a reserved slot: flush a full batch first"
        );
        if let Some(letter) = self.letters.get_mut(self.filled) {
            *letter = Letter { to, from, length };
            self.filled += 1;
        }
    }

    /// Datagrams committed and not yet flushed.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True when nothing is committed.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// True when no slot is free.
    pub fn is_full(&self) -> bool {
        self.filled == BATCH_DATAGRAMS
    }

    /// Sends what is committed and empties the batch, whatever becomes of it. Never waits.
    pub fn flush(&mut self, socket: &ShardSocket) -> FlushReport {
        let filled = std::mem::take(&mut self.filled);
        if filled == 0 {
            return FlushReport::default();
        }
        let mut vectors = [NO_VECTOR; BATCH_DATAGRAMS];
        let mut headers = empty_headers();
        self.address(socket, filled, &mut vectors, &mut headers);
        let headers = headers.get_mut(..filled).unwrap_or_default();
        let report = send_all(headers, |rest| send_once(socket, rest));
        debug_assert_eq!(
            report.sent as u64 + report.errors.total(),
            filled as u64,
            "every datagram is told of"
        );
        report
    }

    /// Points the first `filled` headers at their slots and addresses.
    fn address(
        &mut self,
        socket: &ShardSocket,
        filled: usize,
        vectors: &mut [libc::iovec; BATCH_DATAGRAMS],
        headers: &mut [libc::mmsghdr; BATCH_DATAGRAMS],
    ) {
        let family = socket.family();
        let slots = self
            .slots
            .iter_mut()
            .zip(self.names.iter_mut())
            .zip(self.controls.iter_mut());
        let letters = slots.zip(&self.letters).take(filled);
        for ((((slot, name), control), letter), (vector, header)) in
            letters.zip(vectors.iter_mut().zip(headers))
        {
            *vector = libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: letter.length,
            };
            let header = &mut header.msg_hdr;
            header.msg_namelen = name.write(letter.to, family) as _;
            header.msg_name = std::ptr::from_mut(name).cast();
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            let control_bytes = letter.from.map_or(0, |from| control.write_source(from, family));
            if control_bytes > 0 {
                header.msg_control = std::ptr::from_mut(control).cast();
                header.msg_controllen = control_bytes as _;
            }
        }
    }
}

/// Sends `rest` by calls of `send`, which takes at least one from the front or tells the error of the first.
///
/// The error of a first datagram may be news of an earlier one, so a datagram is tried twice before it is given
/// up. Congestion gives up all the rest at once. At most two calls for each datagram.
fn send_all<T>(mut rest: &mut [T], mut send: impl FnMut(&mut [T]) -> Result<usize, i32>) -> FlushReport {
    let mut report = FlushReport::default();
    // The error met by the first of `rest`, when it was tried once.
    let mut met: Option<i32> = None;
    while !rest.is_empty() {
        let result = send(rest);
        if let Err(errno) = result
            && met.is_none()
            && !ErrnoKind::of(errno).is_congestion()
        {
            met = Some(errno);
            continue;
        }
        // The same error twice is this datagram's own; any other outcome shows that the first was not.
        if let Some(earlier) = met.take()
            && result != Err(earlier)
        {
            report.late.record(earlier);
        }
        let gone = match result {
            Ok(sent) => {
                report.sent += sent;
                sent
            }
            Err(errno) => {
                let lost = if ErrnoKind::of(errno).is_congestion() {
                    rest.len()
                } else {
                    1
                };
                report.errors.record_many(errno, lost as u64);
                lost
            }
        };
        rest = rest.get_mut(gone..).unwrap_or_default();
    }
    report
}

/// One `sendmmsg`: the number of datagrams taken, at least one, or the kernel's error number for the first.
fn send_once(socket: &ShardSocket, headers: &mut [libc::mmsghdr]) -> Result<usize, i32> {
    // SAFETY: the headers are a valid array of the length given. Each points to a slot, a name and, where there is
    // one, a control buffer of the lengths stated; the caller holds them past the call and does not touch them
    // meanwhile. The kernel only reads them, and writes `msg_len` of each header.
    let count = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as _,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    match usize::try_from(count) {
        // Nothing taken and no error does not happen; as an error it still ends.
        Ok(0) => Err(libc::EIO),
        Ok(count) => Ok(count.min(headers.len())),
        Err(_) => Err(last_errno()),
    }
}

const NO_VECTOR: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Headers that point to nothing.
fn empty_headers() -> [libc::mmsghdr; BATCH_DATAGRAMS] {
    // SAFETY: a header is integers and raw pointers, for all of which zero bytes are a valid value.
    unsafe { std::mem::zeroed() }
}

/// The error number of the last failed call of this thread.
fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests;
