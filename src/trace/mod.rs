//! Recorded worlds: files of the format "gst-trace 1" (zstd-compressed JSON lines).
//!
//! The first line is a header, every later line one record: what despawned, spawned, was observed and happened
//! at one instant. [`reader`] turns bytes into checked records, [`world`] turns records into the samples and
//! the schema an origin publishes, [`info`] says what a file holds. A file is not trusted: whatever its bytes,
//! it is read or refused with one sentence, never a panic.

mod conversion;
pub mod error;
mod events;
mod facts;
pub mod header;
pub mod info;
mod lines;
pub mod reader;
pub mod record;
pub mod spread;
pub mod world;
