//! Limits how often a log says something: what a stranger or a broken peer can cause must not fill a disk
//! (THREATS 39).

/// Time between two different sentences, and between two of the same, in microseconds.
const SPACING_US: (u64, u64) = (1_000_000, 10_000_000);

/// Lets a sentence through now and then.
#[derive(Clone, Debug, Default)]
pub struct LogGate {
    last: String,
    last_us: Option<u64>,
    held_back: u64,
}

impl LogGate {
    /// Whether to say it now: how many were held back since the last one. Different sentences come at most once a
    /// second, the same one at most every ten.
    pub fn pass(&mut self, now_us: u64, sentence: &str) -> Option<u64> {
        let spacing_us = if sentence == self.last {
            SPACING_US.1
        } else {
            SPACING_US.0
        };
        if self
            .last_us
            .is_some_and(|last_us| now_us.saturating_sub(last_us) < spacing_us)
        {
            self.held_back += 1;
            return None;
        }
        sentence.clone_into(&mut self.last);
        self.last_us = Some(now_us);
        Some(core::mem::take(&mut self.held_back))
    }
}

/// Lines of a [`LogBurst`] at once, and the time in which one more is earned, in microseconds.
const BURST: (u64, u64) = (32, 1_000_000);

/// Lets every line through as long as there are few: those of peers that come and go, each of which counts.
#[derive(Clone, Debug)]
pub struct LogBurst {
    lines: u64,
    earned_us: u64,
    held_back: u64,
}

impl Default for LogBurst {
    fn default() -> LogBurst {
        LogBurst {
            lines: BURST.0,
            earned_us: 0,
            held_back: 0,
        }
    }
}

impl LogBurst {
    /// Whether to say a line now: how many were held back since the last one. A few dozen come at once, then one a
    /// second.
    pub fn pass(&mut self, now_us: u64) -> Option<u64> {
        let earned = now_us.saturating_sub(self.earned_us) / BURST.1;
        self.earned_us = self.earned_us.saturating_add(earned.saturating_mul(BURST.1));
        self.lines = self.lines.saturating_add(earned).min(BURST.0);
        if self.lines == 0 {
            self.held_back += 1;
            return None;
        }
        self.lines -= 1;
        Some(core::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THREATS 39: those who connect and go a thousand times a second are a line a second, after the first few.
    #[test]
    fn threats_39_a_storm_of_visitors_is_a_line_a_second() {
        let mut gate = LogBurst::default();
        let begin_us = 5_000_000;
        let said: Vec<Option<u64>> = (0..10_000u64).map(|n| gate.pass(begin_us + n * 1_000)).collect();
        let count = said.iter().flatten().count() as u64;
        assert_eq!(count, BURST.0 + 9);
        assert!(said.iter().take(32).all(|passed| *passed == Some(0)));
        assert_eq!(
            said.iter().flatten().sum::<u64>() + gate.held_back,
            10_000 - count
        );
        assert!(gate.pass(begin_us + 3_600_000_000).is_some());
        assert_eq!(gate.lines, BURST.0 - 1, "what is earned has a bound");
    }

    /// THREATS 39: a hundred thousand complaints a second are a line a second.
    #[test]
    fn threats_39_a_storm_of_complaints_is_a_line_a_second() {
        let mut gate = LogGate::default();
        let said = |gate: &mut LogGate, text: &dyn Fn(u64) -> String| {
            (0..10_000_000u64)
                .step_by(10_000)
                .filter_map(|now_us| gate.pass(now_us, &text(now_us)))
                .collect()
        };
        let different: Vec<u64> = said(&mut gate, &|now_us| now_us.to_string());
        assert_eq!((different.len(), different[1]), (10, 99));
        let mut gate = LogGate::default();
        let same: Vec<u64> = said(&mut gate, &|_| "the same".to_owned());
        assert_eq!(same, [0]);
        assert_eq!(gate.pass(10_000_000, "the same"), Some(999));
    }
}
