//! What a relay's admin address tells at one moment.

use serde_json::Value;

use crate::bench::admin::Admin;
use crate::bench::scrape::Samples;

/// Pages of `/sessions` asked for at the most, and sessions in each: a view costs the relay no more with more clients.
const PAGES_MAX: usize = 4;
const PAGE: usize = 500;

/// A relay at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When, on this host's monotonic clock.
    pub at_us: u64,
    /// When, on its wall clock, seconds since 1970: the relay says by that when it began.
    pub wall_s: u64,
    /// Its metrics.
    pub samples: Samples,
    /// Why it takes no new clients; empty where it does.
    pub unready: Vec<String>,
    /// What is wrong though it does.
    pub warnings: Vec<String>,
    /// Sessions open.
    pub sessions_total: usize,
    /// Those that were looked at.
    pub sessions: Vec<SessionLine>,
}

/// One session, as far as it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct SessionLine {
    pub connection: String,
    pub shard: u64,
    pub age_s: f64,
    pub silent_ms: u64,
    pub slots_in_use: u64,
    /// `None` before the first baseline.
    pub baseline_age_ticks: Option<u64>,
    pub round_trip_ms: Option<f64>,
    pub loss: Option<f64>,
    pub bytes: u64,
    pub backlog: u64,
    pub is_complete: bool,
}

impl Reading {
    /// Asks the relay, now.
    ///
    /// # Errors
    /// It does not answer, or wants another token.
    pub fn take(admin: &Admin, at_us: u64, wall_s: u64) -> anyhow::Result<Reading> {
        let ready = admin.get("/ready")?;
        let samples = Samples::parse(&body(admin, "/metrics")?);
        // Any server of the web answers something.
        anyhow::ensure!(
            samples.sum("ackline_build_info").is_some(),
            "what answers there is no relay: its /metrics has no ackline_build_info"
        );
        let mut reading = Reading {
            at_us,
            wall_s,
            samples,
            unready: texts(&ready.body, "reasons"),
            warnings: texts(&ready.body, "warnings"),
            ..Reading::default()
        };
        let mut offset = Some(0);
        for _ in 0..PAGES_MAX {
            let Some(from) = offset else { break };
            let page: Value =
                serde_json::from_str(&body(admin, &format!("/sessions?offset={from}&limit={PAGE}"))?)?;
            offset = reading.take_page(&page);
        }
        Ok(reading)
    }

    /// Takes over a page of sessions: where the next begins.
    fn take_page(&mut self, page: &Value) -> Option<u64> {
        self.sessions_total = page["total"]
            .as_u64()
            .and_then(|total| total.try_into().ok())
            .unwrap_or(0);
        let sessions = page["sessions"].as_array().map_or(&[][..], Vec::as_slice);
        self.sessions.extend(sessions.iter().map(session));
        page["next_offset"].as_u64()
    }

    /// The sessions that are worst off, at most so many: first who has most slots in use, then whose baseline is oldest.
    #[must_use]
    pub fn worst(&self, most: usize) -> Vec<&SessionLine> {
        let mut sessions: Vec<&SessionLine> = self.sessions.iter().collect();
        let thousandths = |loss: Option<f64>| (loss.unwrap_or(0.0) * 1e3) as u64;
        sessions.sort_by_key(|one| {
            let pressure = (one.slots_in_use, one.baseline_age_ticks, thousandths(one.loss));
            (core::cmp::Reverse(pressure), one.connection.clone())
        });
        sessions.truncate(most);
        sessions
    }
}

fn body(admin: &Admin, path: &str) -> anyhow::Result<String> {
    let answer = admin.get(path)?;
    match answer.status {
        200 => Ok(answer.body),
        401 => anyhow::bail!("it asks for its admin_token: give --admin-token-file or ACKLINE_ADMIN_TOKEN"),
        _ => anyhow::bail!("it answers GET {path} with {}", answer.in_words()),
    }
}

/// The sentences of `/ready` below a key.
fn texts(body: &str, key: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let reasons = value[key].as_array().map_or(&[][..], Vec::as_slice);
    reasons
        .iter()
        .filter_map(|reason| reason.as_str().map(printable))
        .collect()
}

/// A text of somebody else's on one line of a terminal: what would move its cursor, or paint, is left out.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn session(value: &Value) -> SessionLine {
    let number = |key: &str| value[key].as_u64();
    SessionLine {
        connection: printable(value["connection"].as_str().unwrap_or_default()),
        shard: number("shard").unwrap_or(0),
        age_s: value["age_s"].as_f64().unwrap_or(0.0),
        silent_ms: number("silent_ms").unwrap_or(0),
        slots_in_use: number("slots_in_use").unwrap_or(0),
        baseline_age_ticks: number("baseline_age_ticks"),
        round_trip_ms: value["round_trip_ms"].as_f64(),
        loss: value["loss"].as_f64(),
        bytes: number("bytes").unwrap_or(0),
        backlog: number("backlog").unwrap_or(0),
        is_complete: !value["complete_ms"].is_null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages_are_taken_in_turn_and_the_worst_come_first() {
        let mut reading = Reading::default();
        let line = |name: &str, slots: u64, age: Value| json!({ "connection": name, "slots_in_use": slots, "baseline_age_ticks": age, "complete_ms": 3.5 });
        let first = json!({ "total": 3, "next_offset": 2, "sessions": [line("a", 2, 9.into()), line("b", 30, 1.into())] });
        assert_eq!(reading.take_page(&first), Some(2));
        let last = json!({ "total": 3, "next_offset": null, "sessions": [line("c", 2, Value::Null)] });
        assert_eq!(reading.take_page(&last), None);
        let names = |most| {
            let worst = reading.worst(most);
            worst
                .iter()
                .map(|session| session.connection.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!((names(9), names(1)), ("b a c".to_owned(), "b".to_owned()));
        assert_eq!(reading.sessions_total, 3);
        assert!(reading.sessions.iter().all(|session| session.is_complete));
    }

    #[test]
    fn reasons_are_read_whatever_comes() {
        let body = "{\"ready\":false,\"reasons\":[\"a\",\"b\"],\"warnings\":[\"c\"]}";
        assert_eq!(texts(body, "reasons"), ["a", "b"]);
        assert_eq!(texts(body, "warnings"), ["c"]);
        assert_eq!(texts("nonsense", "reasons"), [""; 0]);
        let escapes = json!({ "reasons": ["a\u{1b}[2Jb\nc"] }).to_string();
        assert_eq!(texts(&escapes, "reasons"), ["a[2Jbc"]);
        let line = session(&json!({ "connection": "\u{1b}[2J7" }));
        assert_eq!(line.connection, "[2J7");
    }
}
