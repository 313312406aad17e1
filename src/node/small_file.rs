//! Files that people write: configurations, keys, tokens, certificates. None is long, and none is waited for without a bound.
//!
//! Invariant: what is no file of bytes is not read: a device has no end, and a pipe that nobody writes to comes to none. A pipe,
//! as a shell's process substitution makes one, is read where the caller says so, within `PIPE_WITHIN`.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::net::files::open_at_once;

/// Bytes of such a file, at most.
const BYTES_MAX: u64 = 1 << 20;
/// Time in which a pipe must have been written to its end.
const PIPE_WITHIN: Duration = Duration::from_secs(5);
/// How often an empty pipe is looked at again.
const GLANCE: Duration = Duration::from_millis(5);

/// Whether a pipe is read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipes {
    /// It is waited for: nothing runs yet.
    Awaited,
    /// It is refused: who reads has signals to answer.
    Refused,
}

/// The bytes of a file. `kind` is what it should be: "a TOML file".
///
/// # Errors
/// In words: it cannot be read, is no file, or is longer than such a file has reason to be.
pub fn read(file: &Path, kind: &str, pipes: Pipes) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    // Looked at before it is opened, since a device may do something then, and again afterwards, since it may be another.
    check(&std::fs::metadata(file).map_err(unreadable)?, kind, pipes)?;
    let opened = open_at_once(file).map_err(unreadable)?;
    check(&opened.metadata().map_err(unreadable)?, kind, pipes)?;
    let bytes = read_all(opened, kind)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes: give {kind}"));
    }
    Ok(bytes)
}

/// The text of a file, as [`read`] reads it.
///
/// # Errors
/// Those of [`read`]; it is not UTF-8.
pub fn read_text(file: &Path, kind: &str, pipes: Pipes) -> Result<String, String> {
    String::from_utf8(read(file, kind, pipes)?).map_err(|_| format!("it is not UTF-8 text: give {kind}"))
}

/// What is to be said of a file of secrets that others on its host may read; `key` is what names it. Nothing of a pipe.
#[must_use]
pub fn exposed(key: &str, file: &Path) -> Option<String> {
    let metadata = std::fs::metadata(file).ok()?;
    let mode = metadata.permissions().mode() & 0o7777;
    (metadata.is_file() && is_open(metadata.uid(), mode)).then(|| {
        let file = file.display();
        format!(
            "{key} {file} may be read by others of this host (mode {mode:04o}): chmod 600 makes it the owner's alone; where it is root's and a service reads it, chmod 640 and the service's group"
        )
    })
}

/// Whether others than those it is meant for may use a file of `owner`. A file of root's that its group may read is how a service
/// of another user reads what it must not change.
#[must_use]
pub fn is_open(owner: u32, mode: u32) -> bool {
    let shared = if owner == 0 { 0o037 } else { 0o077 };
    mode & shared != 0
}

fn check(metadata: &Metadata, kind: &str, pipes: Pipes) -> Result<(), String> {
    match metadata.file_type() {
        file if file.is_file() => Ok(()),
        pipe if pipe.is_fifo() && pipes == Pipes::Awaited => Ok(()),
        pipe if pipe.is_fifo() => Err(format!(
            "it is a pipe, which is read when a program starts and not again: give {kind}"
        )),
        directory if directory.is_dir() => Err(format!("it is a directory: give {kind}")),
        _ => Err(format!("it is a device or a socket and no file: give {kind}")),
    }
}

/// Reads to the end, or to one byte above the bound. A file never waits; a pipe is waited for.
fn read_all(opened: File, kind: &str) -> Result<Vec<u8>, String> {
    let until = Instant::now() + PIPE_WITHIN;
    let is_pipe = opened.metadata().is_ok_and(|metadata| !metadata.is_file());
    let mut bytes = Vec::new();
    let mut left = opened.take(BYTES_MAX + 1);
    loop {
        match left.read_to_end(&mut bytes) {
            // A pipe without a writer yet looks like one at its end.
            Ok(_) if !is_pipe || !bytes.is_empty() => return Ok(bytes),
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                return Err(format!("it cannot be read: {error}"));
            }
            Ok(_) | Err(_) if Instant::now() < until => std::thread::sleep(GLANCE),
            Ok(_) | Err(_) => {
                let seconds = PIPE_WITHIN.as_secs();
                return Err(format!(
                    "it is a pipe that was not written to its end within {seconds} s: give {kind}"
                ));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn place(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("ackline-small-file-{name}-{}", std::process::id()))
    }

    #[test]
    fn devices_and_bytes_that_are_no_text_are_refused() {
        let refusal = |file: &str| read(Path::new(file), "a key file", Pipes::Awaited).unwrap_err();
        assert_eq!(
            refusal("/dev/zero"),
            "it is a device or a socket and no file: give a key file"
        );
        assert_eq!(refusal("/tmp"), "it is a directory: give a key file");
        assert!(refusal("/nowhere").starts_with("it cannot be read"));
        let file = place("text");
        std::fs::write(&file, [0xFF, 0xFE]).unwrap();
        assert_eq!(
            read_text(&file, "a TOML file", Pipes::Refused).unwrap_err(),
            "it is not UTF-8 text: give a TOML file"
        );
        std::fs::write(&file, vec![b' '; BYTES_MAX as usize + 1]).unwrap();
        assert_eq!(
            read(&file, "a TOML file", Pipes::Refused).unwrap_err(),
            "it is longer than 1048576 bytes: give a TOML file"
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let said = exposed("a_key_file", &file).unwrap();
        assert!(said.starts_with("a_key_file /") && said.contains("(mode 0644): chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(exposed("a_key_file", &file), None);
        std::fs::remove_file(file).unwrap();
    }

    /// Root's file in a service's group is that service's to read; a user's own file is nobody else's.
    #[test]
    fn a_services_group_may_read_what_is_roots() {
        for (owner, mode, open) in [
            (0, 0o600, false),
            (0, 0o640, false),
            (0, 0o440, false),
            (0, 0o660, true),
            (0, 0o644, true),
            (0, 0o604, true),
            (1000, 0o600, false),
            (1000, 0o640, true),
            (1000, 0o604, true),
        ] {
            assert_eq!(is_open(owner, mode), open, "{owner} {mode:o}");
        }
    }

    /// A pipe that nobody writes to holds nobody up: not at all where signals are to be answered, and a few seconds at a start.
    #[test]
    fn a_pipe_is_waited_for_at_a_start_alone_and_not_for_ever() {
        let pipe = place("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let begun = Instant::now();
        let refusal = read(&pipe, "a key file", Pipes::Refused).unwrap_err();
        assert!(refusal.starts_with("it is a pipe, which is read when a program starts"));
        assert!(begun.elapsed() < Duration::from_secs(1));
        let refusal = read(&pipe, "a key file", Pipes::Awaited).unwrap_err();
        assert!(refusal.starts_with("it is a pipe that was not written to its end within 5 s"));
        let writer = {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                use std::io::Write;
                let mut file = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
                for half in ["one ", "two"] {
                    file.write_all(half.as_bytes()).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                }
            })
        };
        assert_eq!(read_text(&pipe, "", Pipes::Awaited).unwrap(), "one two");
        writer.join().unwrap();
        std::fs::remove_file(pipe).unwrap();
    }
}
