//! A file of settings, keys or certificates, read whole: bounded, and never waited for.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The bytes of `file`, at most `most`; `what` it should be is told where it is not.
///
/// A pipe is refused: opening one waits until somebody writes to it, and a relay that reads its settings again must not stand
/// still for that.
///
/// # Errors
/// A pipe, more bytes than that, or a file that cannot be read.
pub fn read(file: &Path, most: u64, what: &str) -> Result<Vec<u8>, String> {
    let unread = |error: std::io::Error| format!("it cannot be read: {error}");
    if std::fs::metadata(file).map_err(unread)?.file_type().is_fifo() {
        return Err(format!("it is a pipe, which might never end: give {what}"));
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(unread)?;
    if bytes.len() as u64 > most {
        return Err(format!("it is longer than {most} bytes: give {what}"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that nobody writes to is refused at once, and so is a file without an end.
    #[test]
    fn pipes_and_endless_files_are_refused() {
        let pipe = std::env::temp_dir().join(format!("ackline-paper-{}.pipe", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|made| made.success()));
        let refused = read(&pipe, 10, "a TOML file").expect_err("a pipe");
        std::fs::remove_file(&pipe).expect("is removed");
        assert_eq!(refused, "it is a pipe, which might never end: give a TOML file");
        let refused = read(Path::new("/dev/zero"), 10, "a TOML file").expect_err("no end");
        assert_eq!(refused, "it is longer than 10 bytes: give a TOML file");
        assert!(
            read(Path::new("/nowhere"), 10, "").is_err_and(|fault| fault.starts_with("it cannot be read"))
        );
        assert_eq!(read(Path::new("/dev/null"), 10, ""), Ok(Vec::new()));
    }
}
