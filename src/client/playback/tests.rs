//! Playback as a whole: vectors, random arrivals, outages, faults.

mod entities;
mod faults;
mod outages;
mod random;
pub(in crate::client::playback) mod rig;
pub(in crate::client::playback) mod vectors;
