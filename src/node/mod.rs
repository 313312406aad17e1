//! The program's moving parts: threads, sockets driven, settings, metrics, admin (DESIGN 6).
//!
//! tokio runs what is many and slow: the upstream, admin HTTP, an origin's subscribers. Shards and the origin's
//! clockwork are OS threads with plain loops. Everything they decide is decided in the sans-I/O cores below; here
//! are only the loops that feed them time and bytes.
//!
//! Start with [`relay::RelayHandle`] and [`origin::OriginHandle`]: both run inside any process.

pub mod admin;
pub mod catalogue;
mod clockwork;
pub mod control;
pub mod directory;
pub mod fuse;
pub mod host_port;
pub mod ingest;
pub mod intake;
pub mod loggate;
pub mod logging;
pub mod metrics;
pub mod minter;
pub mod number;
pub mod origin;
pub mod outbox;
mod page;
pub mod players;
pub mod post;
pub mod pressure;
pub mod random;
pub mod recorder;
pub mod relay;
pub mod ring;
pub mod roster;
pub mod round;
mod seats;
pub mod secret;
pub mod series;
pub mod settings;
pub mod shard;
pub mod shelf;
pub mod signals;
pub mod small_file;
pub mod source;
pub mod spelling;
pub mod status;
mod subscription;
pub mod supervisor;
pub mod tally;
pub mod tls;
pub mod tuning;
pub mod turned_away;
mod visitors;

#[cfg(test)]
mod tests;
