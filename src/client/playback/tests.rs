//! Playback as a whole: vectors, random arrivals, outages, faults.

mod clocks;
mod entities;
mod faults;
mod outages;
mod random;
mod rests;
pub(in crate::client::playback) mod rig;
pub(in crate::client::playback) mod vectors;
