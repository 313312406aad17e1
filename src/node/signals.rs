//! What the operating system tells the program: end, or read the settings again.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal the program acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Reload,
}

/// Waits for signals. From its making on they do not end the process by themselves.
pub struct Signals {
    runtime: Runtime,
    terminate: Stream,
    interrupt: Stream,
    hang_up: Stream,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the system does not let the process handle signals.
    pub fn listen() -> anyhow::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("signals cannot be waited for")?;
        let context = runtime.enter();
        let stream = |kind| signal(kind).context("signals cannot be waited for");
        let (terminate, interrupt) = (stream(SignalKind::terminate())?, stream(SignalKind::interrupt())?);
        let hang_up = stream(SignalKind::hangup())?;
        drop(context);
        Ok(Signals {
            runtime,
            terminate,
            interrupt,
            hang_up,
        })
    }

    /// The next signal; `None` when none came in time.
    pub fn next(&mut self, within: Duration) -> Option<Signal> {
        let Signals {
            runtime,
            terminate,
            interrupt,
            hang_up,
        } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => Some(Signal::End),
                _ = interrupt.recv() => Some(Signal::End),
                _ = hang_up.recv() => Some(Signal::Reload),
                () = tokio::time::sleep(within) => None,
            }
        })
    }
}
