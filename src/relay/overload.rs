//! What slows down, and in which order, when a shard does not keep up (SPEC OPS1).
//!
//! A level rises with each frame that comes while sessions still wait for the one before, and falls by one after two
//! seconds without: so it recovers by itself. At a level a session is served every 2nd, 4th or 8th tick, by tier:
//!
//! | level | spectators | players |
//! | --- | --- | --- |
//! | 0 | every tick | every tick |
//! | 1 | every 2nd | every tick |
//! | 2 | every 4th | every tick |
//! | 3 | every 4th | every 2nd |
//! | 4 | every 8th | every 4th |
//!
//! A player is who has an entity of its own. What slows down is STATE: structure is in the next snapshot whenever that is,
//! and events go by themselves. Turns are spread, so that each tick carries its share.

/// The highest level.
pub const LEVEL_MAX: u8 = 4;

/// Time without an overrun after which the level falls by one, microseconds.
const CALM_US: u64 = 2_000_000;
/// Least time between two rises, microseconds: a rise shows its effect first.
const RISE_US: u64 = 100_000;

/// Every how many ticks a session is served, as a power of two: spectators, players.
const SPACING_LOG2: [[u32; 2]; LEVEL_MAX as usize + 1] = [[0, 0], [1, 0], [2, 0], [2, 1], [3, 2]];

/// How far behind a shard is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    level: u8,
    /// When the level rose, or when it last fell, or when the last overrun was.
    since_us: u64,
    rose_us: Option<u64>,
}

impl Overload {
    /// A frame has come, and so many sessions had not been served the one before.
    pub fn observe(&mut self, now_us: u64, unserved: usize) {
        if unserved > 0 {
            let spaced = self
                .rose_us
                .is_none_or(|rose| now_us.saturating_sub(rose) >= RISE_US);
            if spaced && self.level < LEVEL_MAX {
                self.level += 1;
                self.rose_us = Some(now_us);
            }
            self.since_us = now_us;
        } else if self.level > 0 && now_us.saturating_sub(self.since_us) >= CALM_US {
            self.level -= 1;
            self.since_us = now_us;
        }
    }

    /// The level, 0 to [`LEVEL_MAX`].
    #[must_use]
    pub fn level(self) -> u8 {
        self.level
    }

    /// True when a session has its turn at `tick`.
    #[must_use]
    pub fn serves(self, plays: bool, place: usize, tick: u32) -> bool {
        let row = SPACING_LOG2[usize::from(self.level.min(LEVEL_MAX))];
        let mask = (1u32 << row[usize::from(plays)]) - 1;
        #[allow(clippy::cast_possible_truncation)]
        let turn = (place as u32).wrapping_add(tick);
        turn & mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(overload: Overload, plays: bool) -> usize {
        (0..64).filter(|tick| overload.serves(plays, 5, *tick)).count()
    }

    /// SPEC OPS1: spectators slow down before players, all by a stated order, and the shard recovers by itself.
    #[test]
    fn ops1_spectators_slow_down_first_and_all_recover() {
        let mut overload = Overload::default();
        let mut now_us = 0;
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push((served(overload, false), served(overload, true)));
            now_us += RISE_US;
            overload.observe(now_us, 3);
        }
        assert_eq!(seen, [(64, 64), (32, 64), (16, 64), (16, 32), (8, 16), (8, 16)]);
        let mut ticks = 0;
        while overload.level() > 0 {
            now_us += 50_000;
            overload.observe(now_us, 0);
            ticks += 1;
        }
        assert_eq!(ticks * 50_000, CALM_US * u64::from(LEVEL_MAX));
    }

    #[test]
    fn one_bad_tick_is_one_level() {
        let mut overload = Overload::default();
        overload.observe(1_000, 3);
        overload.observe(2_000, 3);
        assert_eq!(overload.level(), 1);
    }
}
