//! Files: how many, and so sockets, this process may open; and opening one that may be a pipe.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Raises the number of files this process may open to `wanted`, or as far as the system lets it, and never lowers
/// it. Returns the number in force.
///
/// # Errors
/// When the system does not say how many there may be.
pub fn raise_open_files(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to `limit`, which outlives the call and which any result leaves valid.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let now = limit.rlim_cur;
    if now >= wanted {
        return Ok(now);
    }
    // Beyond the hard limit only with privilege; a refusal leaves the limits as they were.
    for most in [limit.rlim_max.max(wanted), limit.rlim_max] {
        let raised = libc::rlimit {
            rlim_cur: wanted.min(most),
            rlim_max: most,
        };
        // SAFETY: the pointer is to `raised`, which outlives the call and is only read.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(now)
}

/// True of the error of who wanted a file where this process, or the system, has as many as it may.
#[must_use]
pub fn none_left(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Opens a file to read it, and does not wait for the other end where it is a pipe; reading then does not wait either.
///
/// # Errors
/// The system's own.
pub fn open_at_once(file: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_file_is_told_from_who_is_refused() {
        assert!(none_left(&io::Error::from_raw_os_error(libc::EMFILE)));
        assert!(!none_left(&io::ErrorKind::ConnectionAborted.into()));
    }

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let now = raise_open_files(0).expect("is known");
        assert!(now > 0);
        let raised = raise_open_files(now + 1).expect("is known");
        assert!(raised >= now);
        assert_eq!(raise_open_files(1).expect("is known"), raised);
    }
}
