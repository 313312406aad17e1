//! Ends the process when a thread it cannot do without panics: never a half-dead process (THREATS 98).
//!
//! What supervises the process starts it again within a second; a relay that has lost a shard but answers its
//! probes would serve nobody for ever. The panic's own message comes first on stderr.

/// Lives as long as a thread's work; blows when the thread panics.
pub struct Fuse {
    what: &'static str,
}

impl Fuse {
    /// A fuse for the work named.
    #[must_use]
    pub fn new(what: &'static str) -> Fuse {
        Fuse { what }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "ackline: {} panicked, so the process ends: restart it and report the message above",
                self.what
            );
            std::process::abort();
        }
    }
}
