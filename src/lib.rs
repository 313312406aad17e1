//! Ackline: an edge relay for real-time games.
//!
//! A relay subscribes to **one** authoritative stream and re-encodes deltas for **each** client against that
//! client's own acknowledged baseline. The crate holds the whole system as layers of sans-I/O code: time,
//! randomness and I/O are arguments. `state` knows no bytes, `wire` knows no state, `delta` is where they meet;
//! `relay`, `client` and `origin` stand side by side on it; only `net` makes system calls and only `node` and
//! `bench` have threads. `docs/ARCHITECTURE.md` is the map, `docs/PROTOCOL.md` the wire's authority.
//!
//! Features are walls: `client`, `client-udp`, `origin`, `relay`, `sim`, `node` (default).

#[cfg(feature = "origin")]
pub mod anteroom;
#[cfg(any(feature = "client-udp", feature = "node"))]
pub mod backoff;
pub mod limits;
pub mod sequence;
pub mod state;
pub mod wire;

#[cfg(any(feature = "client", feature = "relay", feature = "origin"))]
pub mod delta;
#[cfg(feature = "impairment")]
pub mod impairment;
#[cfg(any(feature = "client", feature = "relay"))]
pub mod token;
#[cfg(feature = "trace")]
pub mod trace;
#[cfg(any(feature = "relay", feature = "origin"))]
pub mod upstream;
#[cfg(any(feature = "client", feature = "relay"))]
pub mod window;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client-udp")]
pub mod driver;
#[cfg(feature = "origin")]
pub mod origin;
#[cfg(feature = "relay")]
pub mod relay;

#[cfg(feature = "node")]
pub mod bench;
#[cfg(feature = "node")]
pub mod cli;
#[cfg(any(feature = "client-udp", feature = "node"))]
pub mod net;
#[cfg(feature = "node")]
pub mod node;
#[cfg(feature = "scenes")]
pub mod scenes;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "node")]
pub mod top;
