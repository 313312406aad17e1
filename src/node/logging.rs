//! Where the program's log lines go: stderr, for people or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::settings::LogFormat;

/// Changes what is logged while the program runs.
pub struct LogFilter(Box<dyn Fn(EnvFilter) -> bool + Send + Sync>);

impl LogFilter {
    /// Logs by another filter from now on; false where it is no filter, or the log is not ours.
    #[must_use]
    pub fn set(&self, filter: &str) -> bool {
        EnvFilter::builder()
            .with_regex(false)
            .parse(filter)
            .is_ok_and(|filter| (self.0)(filter))
    }
}

/// Begins to log; once a process. A later call changes nothing.
pub fn begin(filter: &str, format: LogFormat) -> LogFilter {
    // Settings were checked; a filter that is refused all the same leaves the common level.
    let filter = EnvFilter::builder()
        .with_regex(false)
        .parse(filter)
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(std::io::stderr);
    // Where another log was begun already, that one stays.
    match format {
        LogFormat::Human => {
            let lines = lines
                .with_ansi(std::io::stderr().is_terminal())
                .with_filter_reloading();
            let handle = lines.reload_handle();
            let _ = lines.try_init();
            LogFilter(Box::new(move |filter| handle.reload(filter).is_ok()))
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            let _ = lines.try_init();
            LogFilter(Box::new(move |filter| handle.reload(filter).is_ok()))
        }
    }
}
