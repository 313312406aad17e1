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
    /// How many of the foremost are due whatever r is.
    released: usize,
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
        if self.released > 0 {
            self.released -= 1;
            return self.waiting.pop_front().map(|event| Due { event, late_us: 0 });
        }
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

    /// What waits is due: its timeline is over and goes on as another (SPEC CTL3: each is told once).
    pub(super) fn release(&mut self) {
        self.released = self.waiting.len();
    }

    /// What waits is void (SPEC PLY7); gives how many.
    pub(super) fn clear(&mut self) -> usize {
        let void = self.waiting.len();
        self.released = 0;
        self.waiting.clear();
        void
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event(at_us: u64) -> Event {
        Event {
            kind: 0,
            critical: true,
            entity: None,
            at_us,
            payload: Vec::new(),
        }
    }

    /// SPEC CTL3, PLY7: what waited when the session changed is due at once and in order; what comes after waits for its time.
    #[test]
    fn ctl3_what_waits_when_a_session_ends_is_due() {
        let mut moments = Moments::default();
        for at_us in [50, 60] {
            moments.hold(event(at_us), 8).unwrap();
        }
        assert_eq!(moments.poll(Some(10)), None);
        moments.release();
        moments.hold(event(20), 8).unwrap();
        let due: Vec<u64> = core::iter::from_fn(|| moments.poll(None))
            .map(|due| due.event.at_us)
            .collect();
        assert_eq!(due, [50, 60]);
        assert_eq!(moments.poll(Some(19)), None);
        assert_eq!(moments.poll(Some(20)).map(|due| due.event.at_us), Some(20));
        moments.hold(event(90), 8).unwrap();
        moments.release();
        assert_eq!((moments.clear(), moments.poll(Some(100))), (1, None));
    }
}
