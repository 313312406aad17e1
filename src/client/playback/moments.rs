//! Events of the world, each told when the picture has come to its time.
//!
//! An event comes by the reliable stream, once and in order, and is usually early: the picture is behind. It waits until r has
//! reached its time. One that is late is told at once, with how late it is: a sound may be left out, a death may not.
//!
//! Each waits for its own time alone: one that is stamped far ahead, on purpose or by mistake, holds up no other. Of those whose
//! time has come the one that came first in the stream is told first. Nothing is lost: where there is no room the one that is
//! furthest ahead is handed back, so that stamps of the far future crowd nobody out either.

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
    /// In the order of the stream.
    waiting: VecDeque<Event>,
    /// How many of the foremost are due whatever r is.
    released: usize,
}

impl Moments {
    /// Keeps an event until its time. Where `most` wait already the one furthest ahead comes back, which may be the new one.
    pub(super) fn hold(&mut self, event: Event, most: usize) -> Result<(), Event> {
        if self.waiting.len() < most {
            self.waiting.push_back(event);
            return Ok(());
        }
        // What is due whatever r is stays.
        let held = (0..).zip(&self.waiting).skip(self.released);
        let furthest = held.max_by_key(|(_, held)| held.at_us);
        match furthest.filter(|(_, held)| held.at_us > event.at_us) {
            Some((place, _)) => {
                let out = self.waiting.remove(place);
                self.waiting.push_back(event);
                out.map_or(Ok(()), Err)
            }
            None => Err(event),
        }
    }

    /// The next event whose time has come at `r_us`.
    pub(super) fn poll(&mut self, r_us: Option<u64>) -> Option<Due> {
        if self.released > 0 {
            self.released -= 1;
            return self.waiting.pop_front().map(|event| Due { event, late_us: 0 });
        }
        let r_us = r_us?;
        let place = self.waiting.iter().position(|event| event.at_us <= r_us)?;
        let event = self.waiting.remove(place)?;
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

    /// SPEC CTL3, THREATS 74: events stamped twenty seconds ahead, as many as there is room for, hold up none of those behind them, and
    /// each is told once, the furthest ahead by being handed back.
    #[test]
    fn ctl3_threats_74_a_stamp_far_ahead_holds_up_no_other() {
        let (mut moments, mut told, mut back) = (Moments::default(), Vec::new(), Vec::new());
        for at_us in 0..1_000_u64 {
            if at_us < 8 {
                back.extend(moments.hold(event(20_000_000 + at_us), 8).err());
            }
            back.extend(moments.hold(event(at_us), 8).err());
            if at_us % 4 == 3 {
                told.extend(core::iter::from_fn(|| moments.poll(Some(at_us))).map(|due| due.event.at_us));
            }
        }
        assert!(
            told.iter().copied().eq(0..1_000),
            "in order, each at its time: {told:?}"
        );
        assert!(back.iter().all(|event| event.at_us >= 20_000_000));
        let late: Vec<u64> = core::iter::from_fn(|| moments.poll(Some(30_000_000)))
            .map(|due| due.late_us)
            .collect();
        assert_eq!((back.len() + late.len(), late.first()), (8, Some(&10_000_000)));
        // Of two that are due the one that came first in the stream is told first.
        for at_us in [70, 60] {
            moments.hold(event(at_us), 8).unwrap();
        }
        assert_eq!(moments.poll(Some(65)).map(|due| due.event.at_us), Some(60));
        moments.hold(event(60), 8).unwrap();
        assert_eq!(moments.poll(Some(90)).map(|due| due.event.at_us), Some(70));
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
