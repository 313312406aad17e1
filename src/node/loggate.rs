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

#[cfg(test)]
mod tests {
    use super::*;

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
