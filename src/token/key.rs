//! The keys that a backend and its relays share.
//!
//! A key has a number, so that several hold at once: a new one is given to the relays first, then to the backend, and the old
//! one is taken from the relays when its last token has expired. Nobody is dropped by that: sessions have keys of their own.

use super::Secret;

/// Keys a relay may hold at once.
pub const KEYS_MAX: usize = 8;

/// One shared key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    id: u32,
    secret: Secret,
}

impl TokenKey {
    /// A key of this number.
    #[must_use]
    pub fn new(id: u32, secret: [u8; 32]) -> TokenKey {
        TokenKey {
            id,
            secret: Secret(secret),
        }
    }

    /// Its number, which tokens name in clear.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its secret bytes.
    pub(super) fn secret(&self) -> &[u8; 32] {
        &self.secret.0
    }

    /// The line of a key file: number, colon, 64 hexadecimal digits.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{}:{}", self.id, to_hex(&self.secret.0))
    }
}

/// Why a text holds no keys. The text itself is never repeated: it is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A line is no key.
    #[error(
        "line {0} is no key: write a number, a colon and 64 hexadecimal digits, as `ackline token key` prints them"
    )]
    Line(usize),
    /// A line is a key of nothing but zeros, which anybody can guess.
    #[error("line {0} is a key of zeros: take one that `ackline token key` prints")]
    Zeros(usize),
    /// Two keys have one number.
    #[error("two keys have the number {0}: give each its own")]
    Twice(u32),
    /// Two lines have one number.
    #[error(
        "lines {0} and {1} have keys of the same number: give each its own, with `ackline token key --next-after FILE`"
    )]
    Lines(usize, usize),
    /// None, or too many.
    #[error("there are {0} keys: give 1 to 8")]
    Count(usize),
}

/// The keys of a relay, 1 to [`KEYS_MAX`]; the first is what a backend mints with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeys(Vec<TokenKey>);

impl TokenKeys {
    /// These keys.
    ///
    /// # Errors
    /// [`KeyError::Twice`], [`KeyError::Count`].
    pub fn new(keys: Vec<TokenKey>) -> Result<TokenKeys, KeyError> {
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(KeyError::Count(keys.len()));
        }
        for (index, key) in keys.iter().enumerate() {
            if keys.iter().skip(index + 1).any(|other| other.id == key.id) {
                return Err(KeyError::Twice(key.id));
            }
        }
        Ok(TokenKeys(keys))
    }

    /// Reads a key file: a key a line; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(text: &str) -> Result<TokenKeys, KeyError> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let said = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut keys: Vec<(usize, TokenKey)> = Vec::new();
        for (number, line) in said {
            let key = parse_key(line).ok_or(KeyError::Line(number))?;
            if key.secret() == &[0; 32] {
                return Err(KeyError::Zeros(number));
            }
            if let Some((other, _)) = keys.iter().find(|(_, other)| other.id == key.id) {
                return Err(KeyError::Lines(*other, number));
            }
            keys.push((number, key));
        }
        TokenKeys::new(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// The numbers of the keys, in their order: the first is minted with.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(TokenKey::id).collect()
    }

    /// The key of a number.
    #[must_use]
    pub fn find(&self, id: u32) -> Option<&TokenKey> {
        self.0.iter().find(|key| key.id == id)
    }

    /// The key that tokens are minted with: the first.
    #[must_use]
    pub fn minting(&self) -> Option<&TokenKey> {
        self.0.first()
    }
}

fn parse_key(line: &str) -> Option<TokenKey> {
    let (id, secret) = line.split_once(':')?;
    let secret = from_hex(secret.trim())?;
    Some(TokenKey::new(id.trim().parse().ok()?, secret.try_into().ok()?))
}

/// Whether a text that should name something is a key, or the digits of one: whoever repeats it would tell it.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let text = text.trim();
    let digits = match text.split_once(':') {
        Some((number, digits)) if number.trim().parse::<u32>().is_ok() => digits.trim(),
        _ => text,
    };
    digits.len() >= DIGITS_LEAST && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Digits from which on what is nothing else is taken for a key that was cut.
const DIGITS_LEAST: usize = 24;

/// Bytes as hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes; `None` for anything else.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    digits
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn key_files_are_read_and_what_is_wrong_is_named_without_the_secret() {
        let one = TokenKey::new(7, [0xAB; 32]);
        let two = TokenKey::new(8, [1; 32]);
        let text = format!(
            "# the new one first\n\n{}\n  {}  \n",
            two.to_line(),
            one.to_line()
        );
        let keys = TokenKeys::parse(&text).unwrap();
        assert_eq!(
            (keys.minting(), keys.find(7), keys.find(9)),
            (Some(&two), Some(&one), None)
        );
        let secret = "ab".repeat(32);
        for (text, error) in [
            (String::new(), KeyError::Count(0)),
            (format!("7:{secret}\n\n7:{secret}"), KeyError::Lines(1, 3)),
            (format!("7:{secret}\n8:{}", "0".repeat(64)), KeyError::Zeros(2)),
            (format!("7:{secret}\n7;{secret}"), KeyError::Line(2)),
            (format!("x:{secret}"), KeyError::Line(1)),
            (format!("7:{secret}0"), KeyError::Line(1)),
            (format!("7:{}", "ag".repeat(32)), KeyError::Line(1)),
        ] {
            assert_eq!(TokenKeys::parse(&text), Err(error), "{text}");
            assert!(!error.to_string().contains(&secret));
        }
        let many = (0..9).map(|id| TokenKey::new(id, [0; 32])).collect();
        assert_eq!(TokenKeys::new(many), Err(KeyError::Count(9)));
        let twins = vec![one.clone(), one.clone()];
        assert_eq!(TokenKeys::new(twins), Err(KeyError::Twice(7)));
        assert_eq!(keys.numbers(), [8, 7]);
        for text in [one.to_line(), secret.clone(), format!(" 7: {} ", &secret[..40])] {
            assert!(is_key(&text), "a key's text is not repeated");
        }
        for text in [
            "token.keys",
            "/etc/ackline/7:keys",
            "cafe",
            &format!("/keys/{secret}"),
        ] {
            assert!(!is_key(text), "{text}");
        }
        assert!(
            !format!("{keys:?}").contains("171"),
            "THREATS: secrets are not shown"
        );
    }
}
