//! The tokens of admin and upstream: given themselves, or in files, which no list of processes shows.

use std::path::Path;

use super::{OutOfBounds, RelaySettings, within};
use crate::limits::UPSTREAM_TOKEN_MAX;
use crate::node::secret::SecretText;
use crate::node::small_file::Pipes;

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
            *token = SecretText::read(Path::new(file), pipes)
                .map_err(|fault| refused(format!("{key} {file:?}: {fault}")))?;
        }
        Ok(())
    }

    /// Checks that the tokens that were given themselves can be shown by somebody.
    pub(super) fn check_tokens(&self) -> Result<(), OutOfBounds> {
        for (key, bytes, token) in [
            ("admin_token", "bytes of admin_token", &self.admin_token),
            ("upstream_token", "bytes of upstream_token", &self.upstream_token),
        ] {
            within(bytes, token.expose().len(), 0..=UPSTREAM_TOKEN_MAX)?;
            token.check().map_err(|fault| OutOfBounds {
                key,
                fault: format!("{key}: {fault}: give the token alone"),
            })?;
        }
        Ok(())
    }
}
