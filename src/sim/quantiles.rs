//! Counts of values by size, for percentiles over many runs.
//!
//! Buckets are a power of two split into 32: a percentile is at most 1/32 above the true one. Fixed memory, and
//! two sets add up.

/// Values counted by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    counts: Vec<u64>,
    total: u64,
    most: u64,
}

const SPLIT_BITS: u32 = 5;
const SPLIT: u64 = 1 << SPLIT_BITS;

impl Quantiles {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.most = self.most.max(value);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Quantiles) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts
            .iter_mut()
            .zip(&other.counts)
            .for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        self.most = self.most.max(other.most);
    }

    /// How many values were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The value that `share` (0 to 1) of all values do not exceed, by nearest rank; 0 where there is none.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn at(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(bucket).min(self.most);
            }
        }
        self.most
    }
}

fn bucket(value: u64) -> usize {
    let exponent = (64 - value.leading_zeros()).saturating_sub(SPLIT_BITS + 1);
    let index = u64::from(exponent) * SPLIT + (value >> exponent);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SPLIT {
        return bucket;
    }
    let exponent = bucket / SPLIT - 1;
    let mantissa = bucket - exponent * SPLIT;
    u64::try_from((u128::from(mantissa + 1) << exponent) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bucket_of_the_true_ones() {
        let mut all = Quantiles::default();
        let mut halves = [Quantiles::default(), Quantiles::default()];
        for value in 1..=100_000u64 {
            all.add(value);
            halves[(value % 2) as usize].add(value);
        }
        for (share, truth) in [(0.5, 50_000u64), (0.99, 99_000), (1.0, 100_000), (0.0001, 10)] {
            let found = all.at(share);
            assert!(
                found >= truth && found <= truth + truth / 32 + 1,
                "{share}: {found}"
            );
        }
        let [mut even, odd] = halves;
        even.merge(&odd);
        assert_eq!(even, all);
        assert_eq!(
            (Quantiles::default().at(0.5), all.most(), all.total()),
            (0, 100_000, 100_000)
        );
    }

    #[test]
    fn buckets_cover_every_number_in_order() {
        let mut last = 0;
        for value in (0..5_000).chain([1 << 40, u64::MAX]) {
            let bucket = bucket(value);
            assert!(bucket >= last && upper(bucket) >= value, "{value}");
            last = bucket;
        }
    }
}
