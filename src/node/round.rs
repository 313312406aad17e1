//! The first round through a shard's sessions after a tick came: what the relay's delay is measured in.
//!
//! > [`begin`](Round::begin) with each tick, [`end`](Round::end) once everybody who was there has it.
//!
//! Invariant: who joins when a round is over is sent a tick that lay ready, by which nobody was kept waiting: nothing is
//! measured of it. While the upstream is away a tick may be a second old, and the relay as fast as ever. Times in
//! microseconds of the relay's clock.

/// The round that is under way, if one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// When the relay had its tick.
    since_us: Option<u64>,
}

impl Round {
    /// A tick came, and the relay had it at `taken_us`.
    pub fn begin(&mut self, taken_us: u64) {
        self.since_us = Some(taken_us);
    }

    /// Everybody was served, or nobody is there.
    pub fn end(&mut self) {
        self.since_us = None;
    }

    /// How long what is sent now has been in the relay; `None` of what goes to who came later.
    #[must_use]
    pub fn delay_us(&self, now_us: u64) -> Option<u64> {
        self.since_us.map(|since_us| now_us.saturating_sub(since_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_who_comes_later_is_no_delay() {
        let mut round = Round::default();
        assert_eq!(round.delay_us(9), None, "before the first tick");
        round.begin(1_000);
        assert_eq!((round.delay_us(1_250), round.delay_us(900)), (Some(250), Some(0)));
        round.end();
        assert_eq!(round.delay_us(600_000), None);
        round.begin(700_000);
        assert_eq!(round.delay_us(700_001), Some(1));
    }
}
