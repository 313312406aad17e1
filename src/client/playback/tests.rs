//! Playback as a whole: vectors, random arrivals, outages, faults.

pub(in crate::client::playback) mod vectors;
