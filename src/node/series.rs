//! The shapes in which a metric is fed: totals, parts of a sum, families of words, buckets.
//!
//! A handle is made once, while its recorder is in force, and kept.

use metrics::{Counter, Gauge, Histogram, counter, histogram};

use crate::client::refusal::Refusal;
use crate::relay::counters as core;

/// A counter fed with totals.
pub struct Rising {
    counter: Counter,
    told: u64,
}

impl Rising {
    pub(super) fn new(counter: Counter) -> Rising {
        Rising { counter, told: 0 }
    }

    /// The total now; never below the last one.
    pub fn tell(&mut self, total: u64) {
        let more = total.saturating_sub(self.told);
        if more > 0 {
            self.counter.increment(more);
            self.told = total;
        }
    }
}

/// One member's part of a gauge that is a sum.
pub struct Part {
    gauge: Gauge,
    told: f64,
}

impl Part {
    pub(super) fn new(gauge: Gauge) -> Part {
        Part { gauge, told: 0.0 }
    }

    /// This member's part now.
    #[allow(clippy::cast_precision_loss)] // Counts of things that exist.
    pub fn tell(&mut self, value: u64) {
        let value = value as f64;
        if value != self.told {
            self.gauge.increment(value - self.told);
            self.told = value;
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.tell(0);
    }
}

/// One counter for each word of a closed set.
pub struct Family(Vec<Rising>);

impl Family {
    pub(super) fn new(
        name: &'static str,
        label: &'static str,
        words: impl IntoIterator<Item = String>,
    ) -> Family {
        let make = |word| Rising::new(counter!(name, label => word));
        Family(words.into_iter().map(make).collect())
    }

    /// The totals in the order of the words.
    pub fn tell(&mut self, totals: impl IntoIterator<Item = u64>) {
        self.0
            .iter_mut()
            .zip(totals)
            .for_each(|(rising, total)| rising.tell(total));
    }
}

pub(super) fn words<T>(
    all: impl IntoIterator<Item = T>,
    label: fn(T) -> &'static str,
) -> impl Iterator<Item = String> {
    all.into_iter().map(move |value| label(value).to_owned())
}

pub(super) fn plain(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn rising(name: &'static str) -> Rising {
    Rising::new(counter!(name))
}

/// A histogram fed with buckets of a shard's.
pub struct Filling {
    histogram: Histogram,
    per_unit: f64,
}

impl Filling {
    pub(super) fn new(name: &'static str, per_unit: f64) -> Filling {
        Filling::of(histogram!(name), per_unit)
    }

    pub(super) fn of(histogram: Histogram, per_unit: f64) -> Filling {
        Filling { histogram, per_unit }
    }

    /// Moves what was counted since the last time.
    pub fn tell(&self, counted: &mut core::Histogram) {
        for (mean, count) in counted.take() {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            self.histogram.record_many(mean / self.per_unit, count);
        }
    }
}

/// The words of what clients refuse, and one for codes nobody knows.
pub(super) fn rejection_words() -> impl Iterator<Item = String> {
    words(Refusal::all(), Refusal::label).chain(["unknown".to_owned()])
}

/// Totals by code in the order of the words.
pub(super) fn rejections(by_code: &[u64]) -> Vec<u64> {
    let of = |refusal: Refusal| by_code.get(usize::from(refusal.code())).copied().unwrap_or(0);
    let known: Vec<u64> = Refusal::all().map(of).collect();
    let all: u64 = by_code.iter().sum();
    let unknown = all.saturating_sub(known.iter().sum());
    known.into_iter().chain([unknown]).collect()
}
