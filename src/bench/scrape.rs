//! The relay's own figures: its metrics as text, before and after a run.

use std::collections::BTreeMap;

use anyhow::Context;

use super::admin::Admin;
use super::report::{Reasons, Relay, Report, Spread};
use super::settings::FlagError;

/// The samples of a metrics text: values by name with labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    values: BTreeMap<String, f64>,
}

impl Samples {
    /// Reads Prometheus text; lines that are no samples are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Samples {
        let sample = |line: &str| {
            let (name, value) = line.trim().rsplit_once(' ')?;
            Some((
                name.to_owned(),
                value.parse().ok().filter(|value: &f64| value.is_finite())?,
            ))
        };
        Samples {
            values: text
                .lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(sample)
                .collect(),
        }
    }

    /// Asks an admin listener for its metrics.
    ///
    /// # Errors
    /// When it does not answer with any.
    pub fn fetch(admin: &Admin) -> anyhow::Result<Samples> {
        let addr = &admin.addr;
        let answer = admin.get("/metrics").with_context(|| {
            format!("the relay's admin at {addr} does not answer: check --admin, or leave it out for null relay-side figures")
        })?;
        let status = answer.status;
        if status == 401 {
            let text = match admin.token.is_empty() {
                true => {
                    "asks for its admin_token: give --admin-token-file or --admin-token, or ACKLINE_ADMIN_TOKEN"
                }
                false => {
                    "does not take the token that --admin-token-file, --admin-token or ACKLINE_ADMIN_TOKEN gives: give the relay's admin_token"
                }
            };
            return Err(FlagError(format!("--admin {addr}: it {text}")).into());
        }
        anyhow::ensure!(
            status == 200,
            "the relay's admin at {addr} answers GET /metrics with {}",
            answer.in_words()
        );
        Ok(Samples::parse(&answer.body))
    }

    /// The sum over all labels of one metric; `None` when there is none.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        let mut found = self.of(name).map(|(_, value)| value).peekable();
        found.peek().is_some().then(|| found.sum())
    }

    /// The values of one metric by one of its labels, in order of its words.
    pub fn by_label<'a>(&'a self, name: &'a str, label: &str) -> Vec<(&'a str, f64)> {
        let mark = format!("{label}=\"");
        let word = |labels: &'a str| labels.split(mark.as_str()).nth(1)?.split('"').next();
        self.of(name)
            .filter_map(|(labels, value)| Some((word(labels)?, value)))
            .collect()
    }

    /// The bound of the bucket below which this share of what a histogram took in since `before` lies; `None` where it took
    /// in nothing.
    #[must_use]
    pub fn quantile_since(&self, before: &Samples, name: &str, share: f64) -> Option<f64> {
        let totals = self.buckets_since(before, name);
        let all = totals.last().map_or(0.0, |(_, count)| *count);
        let found = totals.iter().find(|(_, count)| *count >= share * all)?;
        (all > 0.0).then_some(found.0)
    }

    /// The bounds of a histogram and what it took in up to each since `before`.
    #[must_use]
    pub fn buckets_since(&self, before: &Samples, name: &str) -> Vec<(f64, f64)> {
        let bucket = format!("{name}_bucket");
        let mut totals: Vec<(f64, f64)> = Vec::new();
        for (labels, _) in self.of(&bucket) {
            let bound = labels
                .split("le=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let Some(bound) = bound.and_then(|bound| bound.parse().ok()) else {
                continue;
            };
            let key = format!("{bucket}{labels}");
            let count = |samples: &Samples| samples.values.get(&key).copied().unwrap_or(0.0);
            totals.push((bound, rise(count(before), count(self))));
        }
        totals.sort_by(|one, other| one.0.total_cmp(&other.0));
        totals
    }

    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> + 'a {
        self.values.iter().filter_map(move |(key, value)| {
            let labels = key.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        })
    }

    /// What a counter rose since `before`, by the value of its label `reason`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts.
    fn reasons_since(&self, before: &Samples, name: &str) -> Option<Reasons> {
        let mut reasons = Reasons::new();
        for (labels, value) in self.of(name) {
            let reason = labels
                .split("reason=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())?;
            let old = before
                .values
                .get(&format!("{name}{labels}"))
                .copied()
                .unwrap_or(0.0);
            *reasons.entry(reason.to_owned()).or_default() += rise(old, value) as u64;
        }
        (!reasons.is_empty()).then_some(reasons)
    }

    /// The spread, in milliseconds, of what a histogram of seconds took in since `before`, to the bounds of its buckets.
    fn spread_since(&self, before: &Samples, name: &str) -> Spread {
        let totals = self.buckets_since(before, name);
        let all = totals.last().map_or(0.0, |(_, count)| *count);
        let at = |quantile: f64| {
            let found = totals.iter().find(|(_, count)| *count >= quantile * all);
            found
                .map(|(bound, _)| bound * 1e3)
                .filter(|ms| all > 0.0 && ms.is_finite())
        };
        Spread {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: None,
        }
    }

    /// What a counter rose since `before`, all labels together; `None` where there is no such metric.
    #[must_use]
    pub fn since(&self, before: &Samples, name: &str) -> Option<f64> {
        Some(rise(before.sum(name).unwrap_or(0.0), self.sum(name)?))
    }
}

/// What a counter rose; one that fell began anew with its relay.
fn rise(before: f64, after: f64) -> f64 {
    if after < before { after } else { after - before }
}

/// Fills in a report's relay-side fields from the samples before and after a run.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts and bytes.
pub fn fill(report: &mut Report, before: &Samples, after: &Samples) {
    let per_packet = |work: &str| {
        let seconds = after.since(before, &format!("ackline_{work}_seconds_sum"))?;
        let packets = after.since(before, &format!("ackline_{work}_seconds_count"))?;
        (packets > 0.0).then(|| seconds * 1e9 / packets)
    };
    report.relay = Relay {
        cpu_s: after.since(before, "process_cpu_seconds_total"),
        rss_bytes: after
            .sum("process_resident_memory_bytes")
            .map(|bytes| bytes as u64),
        packets: after
            .since(before, "ackline_datagrams_sent_total")
            .map(|packets| packets as u64),
        packets_per_cpu_s: None,
        encode_ns_per_packet: per_packet("encode"),
        seal_ns_per_packet: per_packet("seal"),
        send_ns_per_packet: per_packet("send"),
        delay_ms: after.spread_since(before, "ackline_relay_delay_seconds"),
    };
    // What the window is to blame for; a joining client's pacing and a silent client's probes are not its.
    let withheld = after.reasons_since(before, "ackline_withheld_ticks_total");
    report.window.withheld_ticks = withheld
        .as_ref()
        .map(|reasons| reasons.get("slot").copied().unwrap_or(0));
    report.withheld = withheld;
    report.fallbacks = after.reasons_since(before, "ackline_full_state_fallbacks_total");
    report.complete_records = after.reasons_since(before, "ackline_complete_records_total");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    use crate::node::secret::SecretText;

    const BEFORE: &str = "ackline_full_state_fallbacks_total{reason=\"lease_over\"} 3\nackline_encode_seconds_sum 1\nackline_encode_seconds_count 10\nackline_relay_delay_seconds_bucket{le=\"0.001\"} 7\nackline_relay_delay_seconds_bucket{le=\"0.002\"} 9\nackline_relay_delay_seconds_bucket{le=\"+Inf\"} 9\n";
    const AFTER: &str = "# HELP ackline_full_state_fallbacks_total x y\n# TYPE a counter\nackline_full_state_fallbacks_total{reason=\"lease_over\"} 5\nackline_full_state_fallbacks_total{reason=\"requested\"} 0\nackline_withheld_ticks_total{reason=\"budget\"} 2\nackline_withheld_ticks_total{reason=\"slot\"} 1\nackline_encode_seconds_bucket{le=\"+Inf\"} 30\nackline_encode_seconds_sum 1.00002\nackline_encode_seconds_count 30\nackline_datagrams_sent_total 20\nackline_relay_delay_seconds_bucket{le=\"0.001\"} 97\nackline_relay_delay_seconds_bucket{le=\"0.002\"} 108\nackline_relay_delay_seconds_bucket{le=\"+Inf\"} 109\nprocess_cpu_seconds_total 2.5\nbroken\nnan_value NaN\n";

    #[test]
    fn figures_are_what_rose_during_the_run() {
        let (before, after) = (Samples::parse(BEFORE), Samples::parse(AFTER));
        let mut report = Report::default();
        fill(&mut report, &before, &after);
        let fallbacks = report.fallbacks.expect("is there");
        assert_eq!(
            fallbacks,
            Reasons::from([("lease_over".to_owned(), 2), ("requested".to_owned(), 0)])
        );
        assert_eq!(
            (report.window.withheld_ticks, report.relay.cpu_s),
            (Some(1), Some(2.5))
        );
        assert_eq!(report.withheld.as_ref().map(|reasons| reasons["budget"]), Some(2));
        assert!(
            report
                .relay
                .encode_ns_per_packet
                .is_some_and(|ns| (ns - 1000.0).abs() < 1e-3)
        );
        let delay = report.relay.delay_ms;
        assert_eq!(
            (delay.p50, delay.p99, delay.p999, delay.max),
            (Some(1.0), Some(2.0), None, None)
        );
        assert_eq!(
            (report.relay.seal_ns_per_packet, report.complete_records),
            (None, None)
        );
    }

    /// Who asks without the token is told which flag gives it.
    #[test]
    fn an_admin_that_wants_a_token_says_which_flag_gives_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let answers = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().expect("asked");
                let mut request = [0; 512];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(b"HTTP/1.0 401 Unauthorized\r\n\r\n{}");
            }
        });
        for (token, words) in [
            ("", "asks for its admin_token: give --admin-token"),
            ("hunter2", "does not take the token"),
        ] {
            let token = SecretText::from(token);
            let addr = addr.to_string();
            let error = Samples::fetch(&Admin { addr, token }).expect_err("refused");
            assert!(
                error.is::<FlagError>() && error.to_string().contains(words),
                "{error}"
            );
            assert!(!error.to_string().contains("hunter2"));
        }
        answers.join().expect("ends");
    }

    #[test]
    fn an_admin_that_is_not_there_is_an_error_in_words() {
        let error = Samples::fetch(&Admin {
            addr: "127.0.0.1:1".to_owned(),
            token: Default::default(),
        })
        .expect_err("refused");
        assert!(
            error.to_string().contains("does not answer: check --admin"),
            "{error}"
        );
    }
}
