//! Files that people write: configurations, keys, certificates. None is long, and none is waited for: a device has no end, and
//! opening a pipe waits until somebody writes to it, for which a relay that reads its settings again must not stand still.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Bytes of such a file, at most.
const BYTES_MAX: u64 = 1 << 20;

/// The bytes of a file. `kind` is what it should be: "a TOML file".
///
/// # Errors
/// In words: it cannot be read, is a pipe, or is longer than such a file has reason to be.
pub fn read(file: &Path, kind: &str) -> Result<Vec<u8>, String> {
    let unread = |error: std::io::Error| format!("it cannot be read: {error}");
    if std::fs::metadata(file).map_err(unread)?.file_type().is_fifo() {
        return Err(format!("it is a pipe, which might never end: give {kind}"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(unread)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes: give {kind}"));
    }
    Ok(bytes)
}

/// The text of a file, as [`read`] reads it.
///
/// # Errors
/// Those of [`read`]; it is not UTF-8.
pub fn read_text(file: &Path, kind: &str) -> Result<String, String> {
    String::from_utf8(read(file, kind)?).map_err(|_| format!("it is not UTF-8 text: give {kind}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_bytes_that_are_no_text_are_refused() {
        let refusal = read(Path::new("/dev/zero"), "a key file").unwrap_err();
        assert_eq!(refusal, "it is longer than 1048576 bytes: give a key file");
        assert!(
            read(Path::new("/nowhere"), "")
                .unwrap_err()
                .starts_with("it cannot be read")
        );
        let pipe = std::env::temp_dir().join(format!("ackline-small-file-{}.pipe", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|made| made.success()));
        let refusal = read(&pipe, "a TOML file").unwrap_err();
        std::fs::remove_file(&pipe).unwrap();
        assert_eq!(refusal, "it is a pipe, which might never end: give a TOML file");
        let file = std::env::temp_dir().join(format!("ackline-small-file-{}", std::process::id()));
        std::fs::write(&file, [0xFF, 0xFE]).unwrap();
        assert_eq!(
            read_text(&file, "a TOML file").unwrap_err(),
            "it is not UTF-8 text: give a TOML file"
        );
        std::fs::remove_file(file).unwrap();
    }
}
