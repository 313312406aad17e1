//! The replicated world: schema, records, frames. It knows no bytes.
//!
//! A game hands over a [`WorldSample`](sample::WorldSample) in metres; quantised by the schema it becomes a
//! [`TickUpdate`](update::TickUpdate); applied to a [`World`](world::World) it becomes an immutable
//! [`Frame`]. From there on everything is integers (SPEC ID7).

pub mod coding;
pub mod digest;
pub mod entity;
pub mod frame;
pub mod grid;
pub mod player;
pub mod record;
pub mod rotation;
pub mod sample;
pub mod schema;
pub mod slots;
pub mod tiers;
pub mod update;
pub mod view;
pub mod world;

pub use frame::Frame;
