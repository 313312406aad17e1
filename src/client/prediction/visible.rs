//! The visible error: by how much what is drawn differs from what is simulated, and how it fades (SPEC PRE3).
//!
//! > Drawn = simulated + error. When the simulation jumps, [`absorb`](VisibleError::absorb) puts the jump into the error, so
//! > that the drawn place stays where it was; [`decay`](VisibleError::decay) takes a share of it away each frame.
//!
//! The share is 0.3 of a frame of 1/60 s: after `dt` seconds what is left is `0.7^(60 dt)`, whatever the frame rate. Below
//! a tenth of the tiny threshold the error is zero exactly (FAULTS 76); above the snap threshold it is not smoothed at all. Units are
//! metres and microseconds.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// Share of the tiny threshold below which an error that fades is over: a pop that nobody sees.
const SETTLED: f64 = 0.1;

/// How a visible error fades.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothingSettings {
    /// Share of the error that goes in one frame of `frame_us`, 0 to 1: 1 smooths nothing.
    pub factor: f64,
    /// The frame that `factor` is meant for, microseconds.
    pub frame_us: f64,
    /// An error shorter than this is adopted at once, metres.
    pub tiny_m: f64,
    /// An error longer than this snaps, metres.
    pub snap_m: f64,
}

impl Default for SmoothingSettings {
    fn default() -> SmoothingSettings {
        SmoothingSettings {
            factor: 0.3,
            frame_us: 1e6 / 60.0,
            tiny_m: 0.01,
            snap_m: 3.0,
        }
    }
}

/// What became of a jump of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Absorbed {
    /// It was tiny, or nothing jumped: what is drawn follows at once.
    Adopted,
    /// What is drawn stays where it was, and the error fades from now on.
    Smoothed,
    /// Too far, or no number: what is drawn jumps with the simulation.
    Snapped,
}

/// The error of one place.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct VisibleError {
    offset: [f64; 3],
}

impl VisibleError {
    /// What is added to the simulated place, metres.
    #[must_use]
    pub fn offset(&self) -> [f64; 3] {
        self.offset
    }

    /// Its length, metres.
    #[must_use]
    pub fn length_m(&self) -> f64 {
        length(self.offset)
    }

    /// The simulated place was `old` and is `new` at the same instant. An error that fades already goes on fading.
    pub fn absorb(&mut self, settings: &SmoothingSettings, old: [f64; 3], new: [f64; 3]) -> Absorbed {
        let mut jump = [0.0; 3];
        for ((jump, old), new) in jump.iter_mut().zip(old).zip(new) {
            *jump = old - new;
        }
        if length(jump) < settings.tiny_m {
            return Absorbed::Adopted;
        }
        for (offset, jump) in self.offset.iter_mut().zip(jump) {
            *offset += jump;
        }
        if self.length_m() <= settings.snap_m {
            Absorbed::Smoothed
        } else {
            self.clear();
            Absorbed::Snapped
        }
    }

    /// Time passes.
    pub fn decay(&mut self, settings: &SmoothingSettings, dt_us: u64) {
        #[allow(clippy::cast_precision_loss)]
        let frames = dt_us as f64 / settings.frame_us;
        let left = (1.0 - settings.factor).clamp(0.0, 1.0).powf(frames);
        for offset in &mut self.offset {
            *offset *= left;
        }
        // Not a number is not longer either.
        let is_long = self.length_m() >= settings.tiny_m * SETTLED;
        if !is_long {
            self.clear();
        }
    }

    /// What is drawn is what is simulated.
    pub fn clear(&mut self) {
        self.offset = [0.0; 3];
    }
}

fn length([x, y, z]: [f64; 3]) -> f64 {
    (x * x + y * y + z * z).sqrt()
}
