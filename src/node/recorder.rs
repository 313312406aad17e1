//! The recorder behind the `metrics` facade: counters and gauges go to the Prometheus exporter, histograms into
//! buckets of our own.
//!
//! The exporter keeps every sample of a histogram until someone scrapes or upkeep runs (FAULTS 51), and takes a
//! value that stands for a thousand packets as a thousand samples. A shard already counts in buckets; here a
//! bucket's samples are one addition, and memory is the same whether anybody scrapes or not. What is rendered are
//! real buckets, so that they aggregate (FAULTS 52).

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// One relay's recorder. Two relays in one process have two.
pub struct RelayRecorder {
    exporter: PrometheusRecorder,
    handle: PrometheusHandle,
    bounds_of: fn(&str) -> Option<Vec<f64>>,
    families: Mutex<Vec<Family>>,
}

/// The histograms of one name.
struct Family {
    name: String,
    help: String,
    members: Vec<Arc<Buckets>>,
}

/// One histogram: counts by bucket, and the sum.
struct Buckets {
    /// Rendered labels without braces; empty where there are none.
    labels: String,
    bounds: Vec<f64>,
    counts: Box<[AtomicU64]>,
    /// Bits of an `f64`.
    sum: AtomicU64,
}

impl RelayRecorder {
    /// A recorder without series. `bounds_of` gives the upper bounds, rising, of a histogram by its name; one
    /// without bounds becomes a single bucket.
    #[must_use]
    pub fn new(bounds_of: fn(&str) -> Option<Vec<f64>>) -> RelayRecorder {
        let exporter = PrometheusBuilder::new().build_recorder();
        let handle = exporter.handle();
        RelayRecorder {
            exporter,
            handle,
            bounds_of,
            families: Mutex::default(),
        }
    }

    /// Everything as Prometheus text, version 0.0.4: families by name, the series of each by their labels, so that two
    /// scrapes can be compared line by line.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.handle.render();
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        for family in families.iter().filter(|family| !family.members.is_empty()) {
            let Family { name, help, members } = family;
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
            members.iter().for_each(|member| member.render(name, &mut text));
            text.push('\n');
        }
        sorted(&text)
    }

    /// Keeps the exporter's own tables small; to be called every few seconds.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }

    fn family<T>(&self, name: &str, change: impl FnOnce(&mut Family) -> T) -> T {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let at = families
            .iter()
            .position(|family| family.name == name)
            .unwrap_or_else(|| {
                families.push(Family {
                    name: name.to_owned(),
                    help: String::new(),
                    members: Vec::new(),
                });
                families.len() - 1
            });
        change(&mut families[at])
    }
}

impl Recorder for RelayRecorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.exporter.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.exporter.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.family(key.as_str(), |family| {
            description.as_ref().clone_into(&mut family.help)
        });
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.exporter.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.exporter.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={:?}", label.key(), label.value()))
            .collect();
        let labels = labels.join(",");
        let bounds = (self.bounds_of)(key.name()).unwrap_or_default();
        let member = self.family(key.name(), |family| {
            if let Some(known) = family.members.iter().find(|member| member.labels == labels) {
                return Arc::clone(known);
            }
            let member = Arc::new(Buckets::new(labels, bounds));
            family.members.push(Arc::clone(&member));
            member
        });
        Histogram::from_arc(member)
    }
}

impl Buckets {
    fn new(labels: String, bounds: Vec<f64>) -> Buckets {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Buckets {
            labels,
            bounds,
            counts,
            sum: AtomicU64::new(0f64.to_bits()),
        }
    }

    fn render(&self, name: &str, text: &mut String) {
        let Buckets {
            labels,
            bounds,
            counts,
            sum,
        } = self;
        let comma = if labels.is_empty() { "" } else { "," };
        let braced = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        let mut total = 0;
        let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}");
        }
        let sum = f64::from_bits(sum.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name}_sum{braced} {sum}\n{name}_count{braced} {total}");
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.counts.get(bucket) {
            bucket.fetch_add(count as u64, Ordering::Relaxed);
        }
        #[allow(clippy::cast_precision_loss)] // A count beyond 2^53 is not reached.
        let more = value * count as f64;
        let added = |sum: u64| Some((f64::from_bits(sum) + more).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

/// The text with its families in the order of their names, and of each counter and gauge the series in the order of
/// their labels. The lines of a histogram keep theirs: its buckets rise.
fn sorted(text: &str) -> String {
    let name = |family: &str| family.split(' ').nth(2).unwrap_or_default().to_owned();
    let mut families: Vec<&str> = text.split_terminator("\n\n").collect();
    families.sort_by_cached_key(|family| name(family));
    let mut out = String::with_capacity(text.len() + 2);
    for family in families {
        let mut lines: Vec<&str> = family.lines().collect();
        let head = lines.partition_point(|line| line.starts_with('#'));
        let is_histogram = lines[..head].iter().any(|line| line.ends_with(" histogram"));
        if !is_histogram {
            lines[head..].sort_unstable();
        }
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Families and series are in order, whatever the order of the tables behind them; buckets rise.
    #[test]
    fn what_is_served_is_in_order() {
        let recorder = recorder();
        metrics::with_local_recorder(&recorder, || {
            for name in ["z_total", "a_total", "m_total"] {
                metrics::describe_counter!(name, "Words, in no order.");
                for reason in ["late", "early", "never", "always"] {
                    metrics::counter!(name, "reason" => reason).increment(1);
                }
            }
            let _ = metrics::histogram!("t_seconds", "shard" => "0");
            metrics::gauge!("b_now").set(2.0);
        });
        let text = recorder.render();
        let families: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        assert_eq!(families, ["a_total", "b_now", "m_total", "t_seconds", "z_total"]);
        let series: Vec<&str> = text.lines().filter(|line| line.starts_with("m_total{")).collect();
        assert!(series.len() == 4 && series.is_sorted(), "{text}");
        let bounds: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split("le=\"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(bounds, ["0.001", "0.01", "0.1", "+Inf"]);
        assert_eq!(text, recorder.render());
    }

    fn recorder() -> RelayRecorder {
        RelayRecorder::new(|name| (name == "t_seconds").then(|| vec![0.001, 0.01, 0.1]))
    }

    /// FAULTS 52: real buckets, cumulative, with the exact sum; there before the first sample.
    #[test]
    fn faults_52_histograms_are_real_buckets_from_the_start() {
        let recorder = recorder();
        let histogram = metrics::with_local_recorder(&recorder, || {
            metrics::describe_histogram!("t_seconds", Unit::Seconds, "Time of a test, in seconds.");
            metrics::histogram!("t_seconds", "shard" => "0")
        });
        let text = recorder.render();
        assert!(text.contains("# HELP t_seconds Time of a test, in seconds.\n# TYPE t_seconds histogram\n"));
        assert!(
            text.contains("t_seconds_bucket{shard=\"0\",le=\"+Inf\"} 0\n"),
            "{text}"
        );
        histogram.record(0.001);
        histogram.record_many(0.05, 1_000_000);
        histogram.record(7.0);
        let text = recorder.render();
        for line in [
            "t_seconds_bucket{shard=\"0\",le=\"0.001\"} 1",
            "t_seconds_bucket{shard=\"0\",le=\"0.01\"} 1",
            "t_seconds_bucket{shard=\"0\",le=\"0.1\"} 1000001",
            "t_seconds_bucket{shard=\"0\",le=\"+Inf\"} 1000002",
            "t_seconds_sum{shard=\"0\"} 50007.001",
            "t_seconds_count{shard=\"0\"} 1000002",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
    }

    /// Two handles of one series are one series; two recorders share nothing.
    #[test]
    fn a_series_is_one_whoever_asks_for_it() {
        let (one, other) = (recorder(), recorder());
        let make = |recorder: &RelayRecorder| {
            metrics::with_local_recorder(recorder, || {
                (metrics::histogram!("t_seconds"), metrics::counter!("t_total"))
            })
        };
        let ((histogram, counter), (again, counter_again)) = (make(&one), make(&one));
        let _unused = make(&other);
        histogram.record(1.0);
        again.record(1.0);
        counter.increment(2);
        counter_again.increment(3);
        let text = one.render();
        assert!(
            text.contains("t_seconds_count 2\n") && text.contains("t_total 5\n"),
            "{text}"
        );
        let text = other.render();
        assert!(
            text.contains("t_seconds_count 0\n") && text.contains("t_total 0\n"),
            "{text}"
        );
    }
}
