//! The publishing core: metres in, upstream messages out, and who receives them. Sans-I/O, no sockets.
//!
//! A game, a trace or a scene hands [`WorldSample`](crate::state::sample::WorldSample)s to a
//! [`Publisher`](publisher::Publisher); [`Subscribers`](subscribers::Subscribers) keeps what each subscriber is
//! still to be sent, and [`Players`](players::Players) what theirs did; [`LagCheck`](lag::LagCheck) looks
//! at shots in the past. Whoever owns the sockets moves the bytes; [`Carrier`](carrier::Carrier) does for streams that do not block.

pub mod carrier;
pub mod error;
pub mod lag;
pub mod players;
pub mod publisher;
pub mod quantise;
pub mod subscribers;
