//! Events of the world, each told when the picture has come to its time.
//!
//! An event comes by the reliable stream, once and in order, and is usually early: the picture is behind. It waits until r has
//! reached its time. One that is late is told at once, with how late it is: a sound may be left out, a death may not. The order
//! of the stream is kept, so nothing overtakes. Nothing is lost: what finds no room is handed back.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::collections::VecDeque;

use crate::state::update::Event;

/// An event whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The event.
    pub event: Event,
    /// How long ago it was in the picture, microseconds. After a jump of playback events of the time that was left out come
    /// with what that was.
    pub late_us: u64,
}

/// Events that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    waiting: VecDeque<Event>,
}

impl Moments {
    /// Keeps an event until its time; it comes back where `most` wait already.
    pub(super) fn hold(&mut self, event: Event, most: usize) -> Result<(), Event> {
        if self.waiting.len() >= most {
            return Err(event);
        }
        self.waiting.push_back(event);
        Ok(())
    }

    /// The next event whose time has come at `r_us`.
    pub(super) fn poll(&mut self, r_us: Option<u64>) -> Option<Due> {
        let r_us = r_us?;
        self.waiting.front().filter(|event| event.at_us <= r_us)?;
        let event = self.waiting.pop_front()?;
        let late_us = r_us.saturating_sub(event.at_us);
        Some(Due { event, late_us })
    }

    /// Events that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// What waits is void (SPEC PLY7); gives how many.
    pub(super) fn clear(&mut self) -> usize {
        let void = self.waiting.len();
        self.waiting.clear();
        void
    }
}
