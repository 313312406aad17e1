//! Where the program's log lines go: stderr, for people or as JSON; and which of them.
//!
//! Nobody waits for the log: a thread of its own writes it, and what it cannot write is lost. A full disk, a reader that has
//! died or stands still must not stop a shard, nor keep a drain from ending. At most 4,096 lines wait.
//!
//! Invariant: a filter that was taken lets something of this program through, or says `off`. The filter's own grammar takes any
//! bare word for the name of a target, so that a misspelt level would silence everything.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::settings::LogFormat;
use super::spelling;

/// Lines that wait for whoever reads the log.
const WAITING_MAX: usize = 4096;

/// Changes what is logged while the program runs. Dropped, it waits a second at most until the last lines are written.
pub struct LogFilter {
    set: Box<dyn Fn(EnvFilter) -> bool + Send + Sync>,
    _writer: WorkerGuard,
}

impl LogFilter {
    /// Logs by another filter from now on; false where it is no filter, or the log is not ours.
    #[must_use]
    pub fn set(&self, filter: &str) -> bool {
        parse(filter).is_ok_and(|filter| (self.set)(filter))
    }
}

/// What can be said of how much is logged.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// What the names of this program's targets begin with.
const OURS: &str = "ackline";
/// What to give instead.
const WISH: &str =
    "give off, error, warn, info, debug or trace, or TARGET=LEVEL, such as ackline::node=debug";
/// The log of this process is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// A filter: a level, or directives as of `RUST_LOG`.
///
/// # Errors
/// What is wrong with it, and what to give: a level that is none, or directives that let no line of this program through.
pub fn parse(text: &str) -> Result<EnvFilter, String> {
    let parts: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    if parts.is_empty() {
        return Err(format!("it is empty: {WISH}"));
    }
    let mut is_heard = false;
    for part in &parts {
        // Spans and their fields stand in brackets: those the filter judges itself.
        let is_span = part.contains('[');
        let (target, level) = part.rsplit_once('=').unwrap_or(("", part));
        if !is_span && !is_level(level) {
            let hint = spelling::hint(level, LEVELS);
            let end = if hint.is_empty() { ":" } else { "" };
            return Err(format!("{level:?} is no level{hint}{end} {WISH}"));
        }
        is_heard |= is_span || target.starts_with(OURS) || OURS.starts_with(target);
    }
    if !is_heard {
        return Err(format!(
            "none of it is about {OURS}, whose lines would all be left out: {WISH}"
        ));
    }
    // Joined anew: the filter takes white space for a part of a name.
    EnvFilter::builder()
        .with_regex(false)
        .parse(parts.join(","))
        .map_err(|error| format!("it is no filter ({error}): {WISH}"))
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
        || matches!(word, "0" | "1" | "2" | "3" | "4" | "5")
}

/// Begins to log; once a process. A later call changes nothing. What it gives is kept until the end.
pub fn begin(filter: &str, format: LogFormat) -> LogFilter {
    // Settings were checked; a filter that is refused all the same leaves the common level.
    let filter = parse(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_MAX)
        .thread_name("ackline-log")
        .finish(std::io::stderr());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(writer);
    // Where another log was begun already, that one stays.
    match format {
        LogFormat::Human => {
            let lines = lines
                .with_ansi(std::io::stderr().is_terminal())
                .with_filter_reloading();
            let handle = lines.reload_handle();
            let _ = lines.try_init();
            LogFilter {
                set: Box::new(move |filter| handle.reload(filter).is_ok()),
                _writer: guard,
            }
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            if lines.try_init().is_ok() {
                set_form(LogFormat::Json);
            }
            LogFilter {
                set: Box::new(move |filter| handle.reload(filter).is_ok()),
                _writer: guard,
            }
        }
    }
}

/// The log of this process is of this form, also where it was not begun: its last words are then too.
pub fn set_form(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Says why the program ends, on stderr: as a line of the log where that is JSON, whose reader would stumble over plain text, and
/// otherwise plainly. Written here and not by the log, which may have ended, or hold back even errors.
pub fn say_fatal(sentence: &str) {
    let line = match IS_JSON.load(Ordering::Relaxed) {
        true => json_line(sentence),
        false => format!("ackline: {sentence}"),
    };
    // Whoever does not take it cannot be told.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// An error as the log has them.
fn json_line(sentence: &str) -> String {
    let mut timestamp = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    serde_json::json!({ "timestamp": timestamp, "level": "ERROR", "message": sentence }).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_a_line_of_the_log() {
        let line: serde_json::Value = serde_json::from_str(&json_line("no \"port\"\nis free")).unwrap();
        assert_eq!(
            (&line["level"], &line["message"]),
            (&"ERROR".into(), &"no \"port\"\nis free".into())
        );
        let stamp = line["timestamp"].as_str().unwrap();
        assert!(stamp.starts_with("20") && stamp.ends_with('Z'), "{stamp}");
    }

    /// FAULTS 108: a filter under which this program would say nothing, without saying so, is refused with the level that was
    /// meant.
    #[test]
    fn faults_108_a_filter_that_silences_by_mistake_is_refused() {
        for (text, words) in [
            ("loud", "\"loud\" is no level: give off, error"),
            ("infoo", "\"infoo\" is no level: did you mean info? give off"),
            ("wanr", "did you mean warn?"),
            ("", "it is empty: give off"),
            (" , ", "it is empty"),
            ("ackline=loud", "\"loud\""),
            ("info,infoo", "\"infoo\" is no level"),
            ("hyper", "\"hyper\" is no level"),
            ("ackline::node", "\"ackline::node\" is no level"),
            ("acklin3=info", "none of it is about ackline"),
            ("hyper=debug,h2=info", "none of it is about ackline"),
            ("a=b=c", "\"c\" is no level"),
            ("ackline=", "\"\" is no level"),
            ("ackline=b=info", "no filter"),
            ("[span=info", "no filter"),
        ] {
            let fault = parse(text).map(|_| ()).unwrap_err();
            assert!(fault.contains(words), "{text:?}: {fault}");
            assert!(fault.contains("such as ackline::node=debug"), "{text:?}: {fault}");
        }
        for text in [
            "info",
            "INFO",
            "off",
            "3",
            "ackline::node=debug",
            "warn,ackline::node::ingest=trace",
            "ackline=info,hyper=warn",
            "info, hyper=off",
            "info,",
            "[span{field=1}]=debug",
        ] {
            assert!(parse(text).is_ok(), "{text:?}");
        }
        // White space is no part of a level, and hides none.
        assert_eq!(
            parse(" info , hyper=off ").unwrap().to_string(),
            parse("info,hyper=off").unwrap().to_string()
        );
    }
}
