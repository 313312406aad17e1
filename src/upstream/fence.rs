//! Tells a restarted origin from one that should be gone (THREATS 80, 81; WINDOW-MODEL A20).
//!
//! A run of an origin is a pair: its epoch, which rises with every start, and its boot nonce, which is random.
//! Invariant: once a run was admitted, no older epoch ever is, nor any of the last runs it replaced in its own
//! epoch, of which a bounded number is remembered.

use crate::limits::FENCED_RUNS_MAX;

/// One run of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Rises with every start.
    pub epoch: u64,
    /// Random at every start.
    pub boot: u64,
}

/// What a run is to the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// A run not seen before: a new stream begins.
    New,
    /// The newest run again: the same stream goes on.
    Continued,
    /// An epoch older than the newest: an origin that should be gone. Refused.
    Older,
    /// The newest epoch, but a run that another one has already replaced. Refused.
    Superseded,
}

/// Remembers the newest run.
#[derive(Clone, Debug, Default)]
pub struct EpochFence {
    newest: Option<Run>,
    superseded: Vec<u64>,
}

impl EpochFence {
    /// A fence that admits any first run.
    #[must_use]
    pub fn new() -> EpochFence {
        EpochFence::default()
    }

    /// The newest run admitted.
    #[must_use]
    pub fn newest(&self) -> Option<Run> {
        self.newest
    }

    /// What this run is; a new one becomes the newest.
    pub fn admit(&mut self, run: Run) -> Admission {
        let Some(newest) = self.newest else {
            self.newest = Some(run);
            return Admission::New;
        };
        if run == newest {
            return Admission::Continued;
        }
        if run.epoch < newest.epoch {
            return Admission::Older;
        }
        if run.epoch > newest.epoch {
            self.superseded.clear();
        } else if self.superseded.contains(&run.boot) {
            return Admission::Superseded;
        } else {
            if self.superseded.len() >= FENCED_RUNS_MAX {
                self.superseded.remove(0);
            }
            self.superseded.push(newest.boot);
        }
        self.newest = Some(run);
        Admission::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THREATS 80, 81: the fencing table.
    #[test]
    fn threats_80_81_the_fencing_table() {
        use Admission::{Continued, New, Older, Superseded};
        let table = [
            ((5, 1), New, "the first run"),
            ((5, 1), Continued, "a reconnect"),
            ((6, 2), New, "a restart"),
            ((5, 1), Older, "the old origin still sends"),
            ((5, 9), Older, "a restart with an older epoch"),
            ((6, 2), Continued, "the newest run is unharmed"),
            ((6, 3), New, "a restart with the same epoch"),
            ((6, 2), Superseded, "the run it replaced"),
            ((6, 3), Continued, "a reconnect to the new one"),
            ((7, 2), New, "a nonce may come again in a newer epoch"),
            ((u64::MAX, 0), New, "the highest epoch"),
            ((0, 0), Older, "the lowest"),
        ];
        let mut fence = EpochFence::new();
        for ((epoch, boot), expected, what) in table {
            assert_eq!(fence.admit(Run { epoch, boot }), expected, "{what}");
        }
        assert_eq!(
            fence.newest(),
            Some(Run {
                epoch: u64::MAX,
                boot: 0
            })
        );
    }

    #[test]
    fn the_fence_remembers_a_bounded_number_of_runs() {
        let mut fence = EpochFence::new();
        for boot in 0..100 {
            assert_eq!(fence.admit(Run { epoch: 1, boot }), Admission::New);
        }
        assert_eq!(fence.superseded.len(), FENCED_RUNS_MAX);
        assert_eq!(fence.admit(Run { epoch: 1, boot: 98 }), Admission::Superseded);
    }
}
