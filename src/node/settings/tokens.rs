//! The tokens of admin and upstream: given themselves, or in files, which no list of processes shows.

use std::path::Path;

use super::{OutOfBounds, RelaySettings};
use crate::node::secret::SecretText;
use crate::node::small_file::{self, Pipes};

/// What a token's file is.
const KIND: &str = "a file of the token alone";

/// A token that was given itself.
pub(super) fn given<'a>(token: &'a SecretText, file: &str) -> Option<&'a SecretText> {
    file.is_empty().then_some(token)
}

/// A token's file, and what it holds.
pub(super) fn filed<'a>(token: &'a SecretText, file: &'a str) -> Option<(&'a str, &'a SecretText)> {
    (!file.is_empty()).then_some((file, token))
}

impl RelaySettings {
    /// Reads the files of tokens, where any are named.
    pub(super) fn read_tokens(&mut self, pipes: Pipes) -> Result<(), OutOfBounds> {
        let parts = [
            (
                ("admin_token", "admin_token_file"),
                &self.admin_token_file,
                &mut self.admin_token,
            ),
            (
                ("upstream_token", "upstream_token_file"),
                &self.upstream_token_file,
                &mut self.upstream_token,
            ),
        ];
        for ((plain, key), file, token) in parts {
            if file.is_empty() {
                continue;
            }
            let refused = |fault: String| OutOfBounds { key, fault };
            if !token.is_empty() {
                let fault = format!("{key} is given beside {plain}: leave out one of them");
                return Err(refused(fault));
            }
            let text = small_file::read_text(Path::new(file), KIND, pipes)
                .map_err(|fault| refused(format!("{key} {file:?}: {fault}")))?;
            match text.trim() {
                "" => return Err(refused(format!("{key} {file:?}: it is empty: give {KIND}"))),
                text => *token = SecretText::from(text),
            }
        }
        Ok(())
    }
}
