//! A secret that is a text: the tokens of upstream and admin.
//!
//! Invariant: what formats or shows it shows that there is one, and nothing of it. Its bytes are had by name alone.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::small_file::{self, Pipes};

/// What a secret's file is.
const KIND: &str = "a file of the token alone";
/// What stands where a secret is shown.
const SET: &str = "(set)";

/// A secret text; empty where there is none.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// True where there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The secret that is all of a file, but for white space around it.
    ///
    /// # Errors
    /// In words, without the secret: the file cannot be read, holds none, or holds more than one line.
    pub fn read(file: &Path, pipes: Pipes) -> Result<SecretText, String> {
        let text = small_file::read_text(file, KIND, pipes)?;
        let secret = SecretText::from(text.trim());
        if secret.is_empty() {
            return Err(format!("it is empty: give {KIND}"));
        }
        secret.check().map_err(|fault| format!("{fault}: give {KIND}"))?;
        Ok(secret)
    }

    /// Checks that somebody can show it: it is a header's value or a field of one line, which lose white space at their ends and
    /// cannot hold a new line. Nobody would be let in with one that has either.
    ///
    /// # Errors
    /// What is wrong, without the secret.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.0.contains(['\n', '\r']) {
            return Err("it has more than one line");
        }
        if self.0.chars().any(char::is_control) {
            return Err("it has a control character");
        }
        if self.0.trim() != self.0 {
            return Err("it begins or ends with white space");
        }
        Ok(())
    }

    /// Its bytes: to be said to whom they are for, or compared in constant time.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// What people are shown of it.
    #[must_use]
    pub fn shown(&self) -> &'static str {
        if self.is_empty() { "" } else { SET }
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> SecretText {
        SecretText(text.to_owned())
    }
}

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<SecretText, Infallible> {
        Ok(SecretText::from(text))
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_empty() { "none" } else { SET })
    }
}

/// As it is shown to people.
impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

/// A command line as it is shown to people: the values of flags whose names end in `token`, all of which are secrets, are
/// masked, as `--x VALUE` and as `--x=VALUE`.
pub fn shown_line(words: impl Iterator<Item = String>) -> String {
    let is_secret = |flag: &str| flag.starts_with("--") && flag.ends_with("token");
    let mut follows = false;
    let words = words.map(|word| {
        if core::mem::take(&mut follows) {
            return SET.to_owned();
        }
        match word.split_once('=') {
            Some((flag, _)) if is_secret(flag) => format!("{flag}={SET}"),
            _ => {
                follows = is_secret(&word);
                word
            }
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What a report keeps of the command has its flags, and no secret.
    #[test]
    fn a_command_line_is_shown_without_secrets() {
        let line = "ackline bench --admin-token hunter2 --truth-token=hunter2 --token --hunter2 --token= --seed 3 \
                    --token-keys-file token.keys --threshold latency_p99<20ms";
        assert_eq!(
            shown_line(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned)),
            "ackline bench --admin-token (set) --truth-token=(set) --token (set) --token=(set) --seed 3 \
             --token-keys-file token.keys --threshold latency_p99<20ms"
        );
        let last = ["x", "--token"].map(str::to_owned);
        assert_eq!(shown_line(last.into_iter()), "x --token");
    }

    /// What nobody could show is refused, and the refusal does not tell it.
    #[test]
    fn a_secret_that_nobody_can_show_is_refused() {
        for (text, words) in [
            ("hunter2\nhunter3", "more than one line"),
            ("hunter2\r\nx", "more than one line"),
            ("hunter2\tx\0", "a control character"),
            (" hunter2", "begins or ends with white space"),
            ("hunter2 ", "begins or ends with white space"),
        ] {
            let fault = SecretText::from(text).check().unwrap_err();
            assert!(fault.contains(words) && !fault.contains("hunter"), "{fault}");
        }
        for text in ["", "hunter2", "open sesame", "s\u{e9}same"] {
            assert_eq!(SecretText::from(text).check(), Ok(()));
        }
        let file = std::env::temp_dir().join(format!("ackline-secret-{}", std::process::id()));
        for (text, outcome) in [
            (" hunter2\n\n", Ok(SecretText::from("hunter2"))),
            (
                "hunter2\nhunter3\n",
                Err("it has more than one line: give a file of the token alone".to_owned()),
            ),
            (
                " \n",
                Err("it is empty: give a file of the token alone".to_owned()),
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(SecretText::read(&file, Pipes::Refused), outcome);
        }
        std::fs::remove_file(file).unwrap();
    }

    /// Whatever is made of a secret to be looked at has nothing of it.
    #[test]
    fn what_shows_a_secret_shows_that_there_is_one() {
        let secret: SecretText = "open sesame".parse().unwrap();
        assert_eq!(secret.expose(), b"open sesame");
        assert_eq!(format!("{secret:?} {secret:#?}"), "(set) (set)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"(set)\"");
        assert_eq!(format!("{:?}", SecretText::default()), "none");
        assert_eq!(serde_json::to_string(&SecretText::default()).unwrap(), "\"\"");
        let read: SecretText = serde_json::from_str("\"open sesame\"").unwrap();
        assert_eq!(read, secret);
    }
}
