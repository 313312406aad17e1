//! Playback: which moment of the server is shown, and what everybody looked like then (SPEC PLY, ENT).
//!
//! [`Playback`](stage::Playback) takes what a [`Client`](super::session::Client) receives and gives, for each frame, a pose
//! for each entity with the truth about what that pose is worth.
//!
//! ```text
//!  server time ──────────────────────────────────────────────────────────────────────────────►
//!                                    r                     latest       estimate
//!  snapshots    |      |      |      ┊      |      |      |              ┊
//!                                    ┊◄──────────── D ──────────────────►┊
//!               how old the picture is, beside the way     ◄─ newest here ─► newest that can be here
//! ```
//!
//! The [`estimate`] says what time the newest snapshot that can be here has; the [`delay`] D is what the unevenness of
//! arrivals needs; the [`clock`] moves r towards estimate - D, smoothly, and says Frozen or Waiting where that cannot be done.
//! Each entity's own observations ([`history`]) decide what it looks like at r ([`evaluate`]): the time of a packet never makes
//! an old observation young (SPEC ENT3). Events wait until r has come to them ([`moments`]).
//!
//! All server times are 64-bit microseconds; floats measure differences and metres alone (FAULTS 34). For streams whose
//! records have no times of their own there is [`smoothing`] (SPEC ENT8).

pub mod clock;
pub mod delay;
pub mod estimate;
pub mod evaluate;
pub mod history;
pub mod measure;
pub mod moments;
pub mod pose;
pub mod settings;
pub mod smoothing;
pub mod stage;
pub mod timeline;

mod track;

#[cfg(test)]
mod tests;
