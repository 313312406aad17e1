//! Thresholds such as `latency_p99<20ms`: a figure of the report, a comparison, a bound.
//!
//! A figure's name is its path in the report with underscores, without `_ms` at a group: `latency_p99`,
//! `clients_joined_max`, `truth_mismatches`, `relay_packets_per_cpu_s`. The groups `truth`, `clients` and `packets` may be left
//! out. A map of reasons counts as its sum.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::report::Report;
use super::viewer::counts::Render;
use crate::node::spelling;

/// How a figure compares with the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

/// A figure and its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    name: String,
    comparison: Comparison,
    bound: f64,
    unit: Unit,
}

/// In what a figure beside the bound is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// The figure is a time, whatever unit of time the bound has.
    Millis,
    /// The bound is a percentage.
    Percent,
    Plain,
}

/// What became of a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It held.
    Held,
    /// It did not; the figure.
    Missed(f64),
    /// The figure is not known.
    Unknown,
}

/// Why a threshold cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ThresholdError {
    /// It is no comparison.
    #[error("threshold '{0}': write a figure, one of < <= > >= ==, and a number, such as latency_p99<20ms")]
    Form(String),
    /// The bound is no number.
    #[error("threshold '{text}': '{bound}' is no number; units are ms, s, us, % or none")]
    Bound {
        /// The threshold.
        text: String,
        /// Its bound.
        bound: String,
    },
    /// A unit that the figure does not have.
    #[error("threshold '{text}': {name} is not a time, so its bound takes no unit")]
    Unit {
        /// The threshold.
        text: String,
        /// The figure.
        name: String,
    },
    /// A share, of a time.
    #[error("threshold '{text}': {name} is a time, so its bound takes ms, s, us or no unit, not %")]
    Percent {
        /// The threshold.
        text: String,
        /// The figure.
        name: String,
    },
    /// No figure has this name.
    #[error(
        "threshold '{text}': the report has no figure '{name}'{}; ackline bench --help lists them all",
        near(name)
    )]
    Name {
        /// The threshold.
        text: String,
        /// The figure.
        name: String,
    },
}

/// The figures that may have been meant.
fn near(name: &str) -> String {
    let all = names();
    match spelling::nearest(name, all.iter().map(String::as_str), 3).as_slice() {
        [] => String::new(),
        [one] => format!(", did you mean {one}"),
        several => format!(", did you mean one of {}", several.join(", ")),
    }
}

const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Threshold, ThresholdError> {
        let found = COMPARISONS.iter().find_map(|(sign, comparison)| {
            let (name, bound) = text.split_once(sign)?;
            Some((name.trim(), *comparison, bound.trim()))
        });
        let (name, comparison, bound) = found.ok_or_else(|| ThresholdError::Form(text.to_owned()))?;
        let leaves = figures(&Report::default());
        let Some(leaf) = leaves.get(name) else {
            return Err(ThresholdError::Name {
                text: text.to_owned(),
                name: name.to_owned(),
            });
        };
        let units = [
            ("ms", 1.0, true),
            ("us", 0.001, true),
            ("s", 1000.0, true),
            ("%", 0.01, false),
        ];
        let unit = units.iter().find(|(unit, ..)| bound.ends_with(unit));
        let (number, scale, is_time) = unit.map_or((bound, 1.0, false), |(unit, scale, is_time)| {
            (bound.strip_suffix(unit).unwrap_or(bound), *scale, *is_time)
        });
        // A share of a time means nothing.
        if leaf.is_ms && unit.is_some() && !is_time {
            return Err(ThresholdError::Percent {
                text: text.to_owned(),
                name: name.to_owned(),
            });
        }
        if is_time && !leaf.is_ms {
            return Err(ThresholdError::Unit {
                text: text.to_owned(),
                name: name.to_owned(),
            });
        }
        let malformed = || ThresholdError::Bound {
            text: text.to_owned(),
            bound: bound.to_owned(),
        };
        let bound: f64 = number.trim().parse().map_err(|_| malformed())?;
        if !bound.is_finite() {
            return Err(malformed());
        }
        Ok(Threshold {
            name: name.to_owned(),
            comparison,
            bound: bound * scale,
            unit: match (leaf.is_ms, unit) {
                (true, _) => Unit::Millis,
                (false, Some(("%", ..))) => Unit::Percent,
                (false, _) => Unit::Plain,
            },
        })
    }
}

impl Threshold {
    /// A figure in the unit of this threshold, for people.
    #[must_use]
    pub fn say(&self, value: f64) -> String {
        match self.unit {
            Unit::Millis => format!("{value:.3} ms"),
            Unit::Percent => format!("{:.3}%", value * 100.0),
            Unit::Plain => format!("{value:.3}"),
        }
    }

    /// Compares with a report's [`figures`].
    #[must_use]
    pub fn hold(&self, figures: &BTreeMap<String, Figure>) -> Outcome {
        let Some(value) = figures.get(&self.name).and_then(|figure| figure.value) else {
            return Outcome::Unknown;
        };
        let held = match self.comparison {
            Comparison::Less => value < self.bound,
            Comparison::LessOrEqual => value <= self.bound,
            Comparison::Greater => value > self.bound,
            Comparison::GreaterOrEqual => value >= self.bound,
            Comparison::Equal => (value - self.bound).abs() < 1e-9,
        };
        if held {
            Outcome::Held
        } else {
            Outcome::Missed(value)
        }
    }
}

/// One number of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its value, where known.
    pub value: Option<f64>,
    is_ms: bool,
}

/// Groups of the report that are no figures.
const NOT_FIGURES: [&str; 15] = [
    "version",
    "command",
    "target",
    "scene",
    "view",
    "impairment",
    "machine",
    "histograms",
    "thresholds",
    "verdict",
    "attacks",
    "notes",
    "clock",
    "examples",
    "missing_examples",
];
/// Groups whose name may be left out.
const SHORT: [&str; 3] = ["truth_", "clients_", "packets_"];

/// Every number of a report by its name.
#[must_use]
pub fn figures(report: &Report) -> BTreeMap<String, Figure> {
    let mut out = BTreeMap::new();
    let is_blind = !report.truth.given;
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(report) {
        for (key, value) in &fields {
            collect(key, value, &mut out);
        }
    }
    // Without a truth nothing was compared: what was not measured is no zero.
    for (_, figure) in out
        .iter_mut()
        .filter(|(name, _)| is_blind && name.starts_with("truth_"))
    {
        figure.value = None;
    }
    let short: Vec<_> = out
        .iter()
        .filter_map(|(name, figure)| {
            let rest = SHORT.iter().find_map(|group| name.strip_prefix(group))?;
            Some((rest.to_owned(), *figure))
        })
        .collect();
    for (name, figure) in short {
        out.entry(name).or_insert(figure);
    }
    out
}

fn collect(path: &str, value: &serde_json::Value, out: &mut BTreeMap<String, Figure>) {
    use serde_json::Value;
    let last = path.rsplit('.').next().unwrap_or(path);
    if NOT_FIGURES.contains(&last) {
        return;
    }
    let is_reasons = matches!(
        last,
        "fallbacks" | "complete_records" | "withheld" | "rejected" | "endings"
    );
    match value {
        Value::Object(fields) if !is_reasons => {
            for (key, item) in fields {
                collect(&format!("{path}.{key}"), item, out);
            }
        }
        Value::Object(reasons) => {
            let sum = reasons.values().filter_map(Value::as_f64).sum();
            out.insert(
                name_of(path),
                Figure {
                    value: Some(sum),
                    is_ms: false,
                },
            );
        }
        Value::Number(number) => {
            out.insert(
                name_of(path),
                Figure {
                    value: number.as_f64(),
                    is_ms: is_ms(path),
                },
            );
        }
        Value::Bool(flag) => {
            out.insert(
                name_of(path),
                Figure {
                    value: Some(f64::from(*flag)),
                    is_ms: false,
                },
            );
        }
        Value::Null => {
            out.insert(
                name_of(path),
                Figure {
                    value: None,
                    is_ms: is_ms(path),
                },
            );
        }
        // Lists of figures by their place, such as starvation_by_tier_0_p99.
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate().filter(|(_, item)| item.is_object()) {
                collect(&format!("{path}.{place}"), item, out);
            }
        }
        Value::String(_) => {}
    }
}

fn is_ms(path: &str) -> bool {
    path.split('.').any(|group| group.ends_with("_ms"))
}

fn name_of(path: &str) -> String {
    let groups = path
        .split('.')
        .map(|group| group.strip_suffix("_ms").unwrap_or(group));
    groups.collect::<Vec<_>>().join("_")
}

/// Names of all figures, those in a left-out group once.
#[must_use]
pub fn names() -> Vec<String> {
    let all = figures(&Report {
        render: Some(Render::default()),
        ..Report::default()
    });
    let is_long = |name: &String| {
        SHORT.iter().any(|group| {
            name.strip_prefix(group)
                .is_some_and(|rest| all.contains_key(rest))
        })
    };
    all.keys().filter(|name| !is_long(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str, report: &Report) -> Outcome {
        text.parse::<Threshold>().expect(text).hold(&figures(report))
    }

    #[test]
    fn thresholds_are_read_with_units_and_held() {
        let mut report = Report::default();
        report.latency_ms.p99 = Some(19.5);
        report.truth.given = true;
        report.window.full_share = Some(0.015);
        report.fallbacks = Some([("a".to_owned(), 2), ("b".to_owned(), 1)].into());
        assert_eq!(outcome("latency_p99<20ms", &report), Outcome::Held);
        assert_eq!(outcome("latency_p99 < 0.0195 s", &report), Outcome::Missed(19.5));
        assert_eq!(outcome("latency_p99<=19500us", &report), Outcome::Held);
        assert_eq!(outcome("latency_p99>=20", &report), Outcome::Missed(19.5));
        assert_eq!(outcome("mismatches==0", &report), Outcome::Held);
        assert_eq!(outcome("truth_mismatches==0", &report), Outcome::Held);
        let blind = Report::default();
        assert_eq!(
            outcome("mismatches==0", &blind),
            Outcome::Unknown,
            "nothing was compared"
        );
        assert_eq!(outcome("truth_missing_at_end==0", &blind), Outcome::Unknown);
        assert_eq!(outcome("window_full_share<1%", &report), Outcome::Missed(0.015));
        assert_eq!(
            outcome("fallbacks<1", &report),
            Outcome::Missed(3.0),
            "reasons count as their sum"
        );
        assert_eq!(outcome("fallbacks<1", &Report::default()), Outcome::Unknown);
        assert_eq!(outcome("clients_joined_max<1s", &report), Outcome::Unknown);
        assert_eq!(outcome("joined_max<1s", &report), Outcome::Unknown);
    }

    /// What was seen is told in the unit of the figure, or of the bound.
    #[test]
    fn a_figure_is_told_with_its_unit() {
        for (text, value, words) in [
            ("latency_p99<1us", 8.495, "8.495 ms"),
            ("latency_p99<0.02s", 30.0, "30.000 ms"),
            ("latency_p99<20", 30.0, "30.000 ms"),
            ("window_full_share<1%", 0.015, "1.500%"),
            ("window_full_share<0.01", 0.015, "0.015"),
            ("fallbacks==0", 3.0, "3.000"),
        ] {
            assert_eq!(text.parse::<Threshold>().expect(text).say(value), words, "{text}");
        }
    }

    #[test]
    fn a_threshold_that_means_nothing_is_refused_in_words() {
        for (text, words) in [
            ("latency_p99", "write a figure"),
            (
                "latency_p99<5%",
                "latency_p99 is a time, so its bound takes ms, s, us or no unit",
            ),
            (
                "latency_p98<20ms",
                "no figure 'latency_p98', did you mean one of latency_p99, latency_p50, latency_p999; ackline bench --help lists",
            ),
            (
                "mismatch<1",
                "did you mean one of mismatches, digest_mismatches; ackline",
            ),
            ("weather<1", "no figure 'weather'; ackline bench --help lists"),
            ("latency_p99<twenty", "'twenty' is no number"),
            ("latency_p99<infms", "is no number"),
            ("mismatches<1ms", "not a time"),
        ] {
            let error = text.parse::<Threshold>().expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(names().contains(&"latency_p99".to_owned()) && names().contains(&"mismatches".to_owned()));
        assert!(!names().contains(&"truth_mismatches".to_owned()));
        for name in [
            "leaks",
            "starvation_max",
            "starvation_by_tier_2_p99",
            "events_critical_late_p99",
            "inputs_missing",
        ] {
            assert!(names().contains(&name.to_owned()), "{name}");
        }
    }
}
