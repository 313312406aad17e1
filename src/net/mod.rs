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
//! Linux only: `recvmmsg`, `sendmmsg`, `ppoll`, `eventfd`; but for [`plain`], the one socket of a client, which is all
//! that the feature `client-udp` has of this module: no `unsafe`, no crate beside those of `client`, any system.

#[cfg(all(feature = "node", not(target_os = "linux")))]
compile_error!(
    "feature `node` needs Linux (recvmmsg, eventfd); elsewhere build with `--no-default-features --features client-udp`"
);

#[cfg(feature = "node")]
pub mod address;
#[cfg(feature = "node")]
pub mod batch;
#[cfg(feature = "node")]
pub mod clock;
#[cfg(feature = "node")]
pub mod errno;
#[cfg(feature = "node")]
pub mod files;
#[cfg(feature = "node")]
pub mod notify;
#[cfg(feature = "client-udp")]
pub mod plain;
#[cfg(feature = "node")]
pub mod socket;
#[cfg(feature = "node")]
pub mod terminal;
#[cfg(feature = "node")]
pub mod waker;
