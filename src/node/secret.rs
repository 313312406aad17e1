//! A secret that is a text: the tokens of upstream and admin.
//!
//! Invariant: what formats or shows it shows that there is one, and nothing of it. Its bytes are had by name alone.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

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
