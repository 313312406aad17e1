//! How values spread: median, 99th percentile and greatest. Percentiles are nearest rank.

use core::fmt;
use serde::Serialize;

/// Median, 99th percentile and greatest of some values; zeros where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of these values, which are finite.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_unstable_by(f64::total_cmp);
        let rank = |share: f64| {
            let place = (share * values.len() as f64).ceil() as usize;
            values.get(place.saturating_sub(1)).copied().unwrap_or_default()
        };
        Spread {
            p50: rank(0.5),
            p99: rank(0.99),
            max: rank(1.0),
        }
    }
}

impl fmt::Display for Spread {
    /// Median / 99th percentile / greatest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} / {} / {}",
            short(self.p50),
            short(self.p99),
            short(self.max)
        )
    }
}

/// Whole numbers whole, others with one decimal.
fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_nearest_rank() {
        assert_eq!(Spread::of(vec![]), Spread::default());
        assert_eq!(
            Spread::of(vec![3.0]),
            Spread {
                p50: 3.0,
                p99: 3.0,
                max: 3.0
            }
        );
        let hundred = (1..=100).map(f64::from).collect();
        assert_eq!(
            Spread::of(hundred),
            Spread {
                p50: 50.0,
                p99: 99.0,
                max: 100.0
            }
        );
    }
}
