//! Where the program's log lines go: stderr, for people or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::settings::LogFormat;

/// Begins to log; once a process. A later call changes nothing.
pub fn begin(filter: &str, format: LogFormat) {
    // Settings were checked; a filter that is refused all the same leaves the common level.
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(std::io::stderr);
    // Where another log was begun already, that one stays.
    let _ = match format {
        LogFormat::Human => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
