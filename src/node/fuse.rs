//! Ends the process when a thread it cannot do without panics: never a half-dead process (THREATS 98).
//!
//! What supervises the process starts it again within a second; a relay that has lost a shard but answers its
//! probes would serve nobody for ever. The panic's own message comes first on stderr.

use std::io::Write;

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
            // A panic while this one unwinds would end the process too, but not say whose it was.
            let _ = writeln!(
                std::io::stderr(),
                "ackline: {} panicked, so the process ends: restart it and report the message above",
                self.what
            );
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// THREATS 98: a panic in one thread ends the process, and says whose it was. This test runs itself again, with a
    /// thread that panics.
    #[test]
    fn threats_98_a_thread_that_panics_ends_the_process() {
        const CHILD: &str = "ACKLINE_TEST_FUSE";
        if std::env::var_os(CHILD).is_some() {
            let thread = std::thread::spawn(|| {
                let _fuse = Fuse::new("a thread of this test");
                panic!("on purpose");
            });
            // Reached only where the fuse does not blow: the process then ends with success.
            let _ = thread.join();
            return;
        }
        let this = "node::fuse::tests::threats_98_a_thread_that_panics_ends_the_process";
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", this, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("a thread of this test panicked"), "{said}");
    }

    /// Work that ends well blows no fuse.
    #[test]
    fn work_that_ends_well_blows_no_fuse() {
        std::thread::spawn(|| drop(Fuse::new("short work")))
            .join()
            .expect("ends");
    }
}
