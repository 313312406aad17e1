//! Whether a shard keeps up, and what is said when it does not: at most one line in ten seconds.
//!
//! A tick now and then that a newer one overtook is nothing; one in twenty means that the shard lacks time.

/// Time between two lines, microseconds.
const SPACING_US: u64 = 10_000_000;
/// One overtaken tick in so many is what a shard that keeps up may have.
const ONE_IN: u64 = 20;

/// What became of a shard's ticks since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pressure {
    since_us: Option<u64>,
    ticks: u64,
    overruns: u64,
    behind_max: u64,
}

impl Pressure {
    /// So many ticks were taken, so many were overtaken before everybody was served, and so many clients had not got
    /// the last one.
    pub fn note(&mut self, ticks: u64, overruns: u64, behind: u64) {
        self.ticks += ticks;
        self.overruns += overruns;
        self.behind_max = self.behind_max.max(behind);
    }

    /// What to say of `shard` at `now_us`: nothing while it keeps up, or shortly after the last look.
    pub fn complaint(&mut self, now_us: u64, shard: usize) -> Option<String> {
        let since_us = *self.since_us.get_or_insert(now_us);
        let passed_us = now_us.saturating_sub(since_us);
        if passed_us < SPACING_US {
            return None;
        }
        let Pressure {
            ticks,
            overruns,
            behind_max,
            ..
        } = core::mem::replace(
            self,
            Pressure {
                since_us: Some(now_us),
                ..Pressure::default()
            },
        );
        (overruns.saturating_mul(ONE_IN) > ticks).then(|| {
            format!(
                "shard {shard} cannot keep up: in the last {} s a newer tick overtook {overruns} of {ticks} before every client was served, with up to {behind_max} clients behind (or the upstream sent several at once); clients got fewer snapshots, and nothing else is lost: give the relay more cores and --shards, or fewer clients, or the origin fewer ticks a second",
                passed_us / 1_000_000
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THREATS 39: a shard that is behind for a minute says so six times, with what happened since the last time; one
    /// that keeps up says nothing.
    #[test]
    fn threats_39_a_shard_that_is_behind_says_so_every_ten_seconds() {
        let said = |overrun: fn(u64) -> u64| {
            let mut pressure = Pressure::default();
            let turns = (0..=60_000_000u64).step_by(50_000);
            turns
                .filter_map(|now_us| {
                    pressure.note(1, overrun(now_us / 50_000), 7);
                    pressure.complaint(now_us, 3)
                })
                .collect::<Vec<String>>()
        };
        let half = said(|turn| turn % 2);
        assert_eq!(half.len(), 6, "{half:?}");
        let words = "shard 3 cannot keep up: in the last 10 s a newer tick overtook 100 of 200 before";
        assert!(
            half[2].starts_with(words) && half[2].contains("up to 7 clients"),
            "{half:?}"
        );
        assert_eq!(
            said(|turn| u64::from(turn % 20 == 10)),
            [""; 0],
            "one in twenty is nothing"
        );
    }
}
