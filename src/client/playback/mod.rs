//! Playback.

pub mod clock;
pub mod delay;
pub mod estimate;
pub mod settings;
pub mod timeline;

#[cfg(test)]
mod tests;
