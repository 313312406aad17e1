//! The distributions a bench measures, each a histogram that can be added to another.
//!
//! Values are whole numbers: microseconds, bytes or slots, kept to three significant digits. A report carries them
//! as lists of (value, count), so reports of several hosts merge without loss.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::limits::TIER_MAX;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Series {
    /// First Request to first snapshot held, microseconds.
    Joined,
    /// First Request to first complete view, microseconds.
    Complete,
    /// Between two shown snapshots at one client, microseconds, counted from the schedule: a gap of n periods
    /// also counts as the n - 1 shorter waits within it, so that a stall weighs as long as it lasted (FAULTS 54).
    Gap,
    /// Origin publish to client decode, microseconds.
    Latency,
    /// Change at the origin to that entity's next record at a client, microseconds of server time.
    Starvation,
    /// The same of entities at the full rate.
    StarvationFull,
    /// The same of entities at every second tick.
    StarvationHalf,
    /// The same of entities at every fourth tick.
    StarvationQuarter,
    /// Origin publish to delivery of an event, microseconds.
    EventLate,
    /// The same of critical events.
    CriticalLate,
    /// A client pushes an input to the origin has it, microseconds.
    InputLate,
    /// A client pushes an input to the first state of its entity that has it, microseconds.
    InputAnswered,
    /// A client pushes an input to the first frame drawn that shows a state with it, microseconds.
    InputPicture,
    /// A client pushes an input to the first frame drawn in whose predicted pose it is, microseconds.
    InputPredicted,
    /// A valid pose's distance from where the entity was at r, micrometres.
    PoseError,
    /// The playback delay D at each frame drawn, microseconds.
    RenderDelay,
    /// Bytes of a received datagram.
    PacketBytes,
    /// Window slots in use at each snapshot.
    Slots,
    /// A client's wish for an advance to its commit, microseconds.
    Advance,
    /// How late the bench itself was for its own timers, microseconds.
    BenchLate,
}

impl Series {
    /// Every series, in order of its place.
    pub const ALL: [Series; 20] = [
        Series::Joined,
        Series::Complete,
        Series::Gap,
        Series::Latency,
        Series::Starvation,
        Series::StarvationFull,
        Series::StarvationHalf,
        Series::StarvationQuarter,
        Series::EventLate,
        Series::CriticalLate,
        Series::InputLate,
        Series::InputAnswered,
        Series::InputPicture,
        Series::InputPredicted,
        Series::PoseError,
        Series::RenderDelay,
        Series::PacketBytes,
        Series::Slots,
        Series::Advance,
        Series::BenchLate,
    ];

    /// The key in a report's `histograms`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Series::Joined => "joined_us",
            Series::Complete => "complete_us",
            Series::Gap => "gap_us",
            Series::Latency => "latency_us",
            Series::Starvation => "starvation_us",
            Series::StarvationFull => "starvation_full_us",
            Series::StarvationHalf => "starvation_half_us",
            Series::StarvationQuarter => "starvation_quarter_us",
            Series::EventLate => "event_late_us",
            Series::CriticalLate => "critical_late_us",
            Series::InputLate => "input_late_us",
            Series::InputAnswered => "input_answered_us",
            Series::InputPicture => "input_picture_us",
            Series::InputPredicted => "input_predicted_us",
            Series::PoseError => "pose_error_um",
            Series::RenderDelay => "render_delay_us",
            Series::PacketBytes => "packet_bytes",
            Series::Slots => "slots",
            Series::Advance => "advance_us",
            Series::BenchLate => "bench_late_us",
        }
    }
}

/// The series of starvation by rate tier.
pub const STARVATION_BY_TIER: [Series; TIER_MAX as usize + 1] = [
    Series::StarvationFull,
    Series::StarvationHalf,
    Series::StarvationQuarter,
];

/// Pairs of value and count, rising: a histogram as reports carry it.
pub type Buckets = Vec<(u64, u64)>;

/// One histogram for each [`Series`].
#[derive(Clone, Debug)]
pub struct SeriesSet {
    histograms: Vec<Histogram<u64>>,
}

impl Default for SeriesSet {
    fn default() -> SeriesSet {
        SeriesSet {
            histograms: Series::ALL.iter().map(|_| empty()).collect(),
        }
    }
}

/// An empty histogram of three significant digits for values up to an hour in microseconds; larger ones count
/// as that.
fn empty() -> Histogram<u64> {
    let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3);
    histogram.unwrap_or_else(|_| unreachable!("three digits and these bounds are legal"))
}

impl SeriesSet {
    /// Counts one value.
    pub fn record(&mut self, series: Series, value: u64) {
        if let Some(histogram) = self.histograms.get_mut(series as usize) {
            histogram.saturating_record(value);
        }
    }

    /// Counts one value and, where it exceeds `interval`, the waits it hid: `value - interval`, `value - 2
    /// interval` and so on down to `interval`.
    pub fn record_schedule(&mut self, series: Series, value: u64, interval: u64) {
        self.record(series, value);
        let Some(histogram) = self.histograms.get_mut(series as usize).filter(|_| interval > 0) else {
            return;
        };
        // A gap within half a period of the schedule is jitter, not a missed tick.
        let mut rest = value.saturating_sub(interval);
        while rest >= interval / 2 && rest > 0 {
            histogram.saturating_record(rest);
            rest = rest.saturating_sub(interval);
        }
    }

    /// The histogram of a series.
    #[must_use]
    pub fn of(&self, series: Series) -> Option<&Histogram<u64>> {
        self.histograms.get(series as usize)
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &SeriesSet) {
        for (mine, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            // Same bounds on both sides: nothing can be out of range.
            let _ = mine.add(theirs);
        }
    }

    /// As lists of value and count, by key; the largest value is exact.
    #[must_use]
    pub fn to_buckets(&self) -> BTreeMap<String, Buckets> {
        let lists = Series::ALL
            .iter()
            .zip(&self.histograms)
            .map(|(series, histogram)| {
                let mut list: Buckets = histogram
                    .iter_recorded()
                    .map(|step| (step.value_iterated_to(), step.count_at_value()))
                    .collect();
                if let Some(last) = list.last_mut() {
                    last.0 = histogram.max().min(last.0);
                }
                (series.key().to_owned(), list)
            });
        lists.collect()
    }

    /// From lists of value and count.
    #[must_use]
    pub fn from_buckets(lists: &BTreeMap<String, Buckets>) -> SeriesSet {
        let mut set = SeriesSet::default();
        for (series, histogram) in Series::ALL.iter().zip(&mut set.histograms) {
            for (value, count) in lists.get(series.key()).into_iter().flatten() {
                histogram.saturating_record_n(*value, *count);
            }
        }
        set
    }

    /// The value at a quantile in 0..=1; `None` when nothing was counted. Never above the largest value.
    #[must_use]
    pub fn quantile(&self, series: Series, quantile: f64) -> Option<u64> {
        let histogram = self.of(series).filter(|histogram| !histogram.is_empty())?;
        Some(histogram.value_at_quantile(quantile).min(histogram.max()))
    }
}

const _: () = assert!(Series::ALL.len() == Series::BenchLate as usize + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_their_lists_and_add_up() {
        let mut one = SeriesSet::default();
        (1..=1000).for_each(|value| one.record(Series::Latency, value * 17));
        one.record(Series::Slots, 0);
        let again = SeriesSet::from_buckets(&one.to_buckets());
        assert_eq!(again.to_buckets(), one.to_buckets());
        assert_eq!(
            again.quantile(Series::Latency, 1.0).map(|max| max / 17),
            Some(1000)
        );
        let mut both = again.clone();
        both.add(&one);
        assert_eq!(both.of(Series::Latency).map(Histogram::len), Some(2000));
        assert_eq!(
            both.quantile(Series::Latency, 0.5),
            one.quantile(Series::Latency, 0.5)
        );
        assert_eq!(both.quantile(Series::Gap, 0.5), None);
    }

    /// FAULTS 54: a stall of one second in a minute at 20 Hz shows in the 99th percentile.
    #[test]
    fn faults_54_a_stall_counts_from_the_schedule() {
        let mut set = SeriesSet::default();
        for _ in 0..1180 {
            set.record_schedule(Series::Gap, 50_000, 50_000);
        }
        assert_eq!(
            set.of(Series::Gap).map(Histogram::len),
            Some(1180),
            "a punctual tick counts once"
        );
        set.record_schedule(Series::Gap, 1_000_000, 50_000);
        assert!(
            set.quantile(Series::Gap, 0.99).is_some_and(|p99| p99 > 300_000),
            "{:?}",
            set.quantile(Series::Gap, 0.99)
        );
        assert!(
            set.quantile(Series::Gap, 0.999)
                .is_some_and(|p999| p999 > 900_000)
        );
        assert_eq!(set.of(Series::Gap).map(Histogram::len), Some(1180 + 20));
    }
}
