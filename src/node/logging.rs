//! Where the program's log lines go: stderr, for people or as JSON.
//!
//! Nobody waits for the log: a thread of its own writes it, and what it cannot write is lost. A full disk, a reader that has
//! died or stands still must not stop a shard, nor keep a drain from ending. At most [`WAITING_MAX`] lines wait.

use std::io::IsTerminal;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use super::settings::LogFormat;

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
        EnvFilter::builder()
            .with_regex(false)
            .parse(filter)
            .is_ok_and(|filter| (self.set)(filter))
    }
}

/// Begins to log; once a process. A later call changes nothing. What it gives is kept until the end.
pub fn begin(filter: &str, format: LogFormat) -> LogFilter {
    // Settings were checked; a filter that is refused all the same leaves the common level.
    let filter = EnvFilter::builder()
        .with_regex(false)
        .parse(filter)
        .unwrap_or_else(|_| EnvFilter::new("info"));
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
            let _ = lines.try_init();
            LogFilter {
                set: Box::new(move |filter| handle.reload(filter).is_ok()),
                _writer: guard,
            }
        }
    }
}
