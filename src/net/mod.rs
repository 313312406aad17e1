//! The only place that speaks to the operating system: UDP sockets in batches, waking, clocks.
//!
//! Everything above takes time and datagrams as arguments; this module is where they come from. It is also the
//! only place with `unsafe`, each block with its reason. It knows no sessions, no seals and no state: bytes and
//! addresses go in and come out.
//!
//! Invariants:
//! - An address that leaves this module is canonical: a v4-mapped v6 address is a v4 address (FAULTS 104).
//! - An error of one datagram is counted and passed by; it never ends a loop or a socket (FAULTS 83, 84, 102).
//! - Receiving, sending, waiting and waking allocate nothing after construction.
//!
//! Linux only: `recvmmsg`, `sendmmsg`, `ppoll`, `eventfd`.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "feature `node` needs Linux (recvmmsg, eventfd); elsewhere build with `--no-default-features --features client`"
);

pub mod address;
pub mod batch;
pub mod clock;
pub mod errno;
pub mod files;
pub mod socket;
pub mod waker;
