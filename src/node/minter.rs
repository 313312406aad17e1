//! Minting tokens with the host's clock and randomness: what a studio's backend does, for the command line, demo and bench.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;

use super::random::random;
use super::small_file::{self, Pipes};
use crate::net::clock::unix_s;
use crate::state::view::View;
use crate::token::key::is_key;
use crate::token::{ConnectToken, Grant, Secret, TokenKey, TokenKeys};

/// What the keys that tokens are sealed with are in.
pub(crate) const KEY_FILE: &str = "a key file, as `ackline token key` prints one";
/// Seconds a token lives where nothing else is said.
pub const LIFE_S: u64 = 60;

/// What all tokens have in common.
#[derive(Clone, Debug)]
pub struct Minter {
    /// The key they are sealed with.
    pub key: TokenKey,
    /// The fleet they are for.
    pub audience: String,
    /// The relays they are for, as clients reach them.
    pub relays: Vec<SocketAddr>,
    /// Seconds they live.
    pub life_s: u64,
    /// What they let see until the origin says otherwise; the relay's default without.
    pub view: Option<View>,
    /// Bytes a second they allow; the relay's own bound without.
    pub budget_bytes_per_s: Option<u32>,
}

impl Minter {
    /// A minter of plain tokens for one relay.
    #[must_use]
    pub fn new(key: TokenKey, audience: String, relay: SocketAddr) -> Minter {
        Minter {
            key,
            audience,
            relays: vec![relay],
            life_s: LIFE_S,
            view: None,
            budget_bytes_per_s: None,
        }
    }

    /// A fresh key, of number 1.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn fresh_key() -> anyhow::Result<TokenKey> {
        Ok(TokenKey::new(1, random()?))
    }

    /// The keys of a key file.
    ///
    /// # Errors
    /// In words that name the file, and the line; or that what was given is a key itself, which is not repeated.
    pub fn keys_of(file: &Path, pipes: Pipes) -> Result<TokenKeys, String> {
        if is_key(&file.to_string_lossy()) {
            return Err(
                "what is given is a key, or part of one, and not the name of a file (it is secret, and not shown): put the line into a file and name that".to_owned(),
            );
        }
        let name = file.display();
        let text = small_file::read_text(file, KEY_FILE, pipes)
            .map_err(|fault| format!("{name} is no key file: {fault}"))?;
        TokenKeys::parse(&text).map_err(|fault| format!("{name}, {fault}"))
    }

    /// The key that a key file says is minted with: its first.
    ///
    /// # Errors
    /// When it cannot be read or holds no keys.
    pub fn key_of(file: &Path) -> anyhow::Result<TokenKey> {
        let keys = Minter::keys_of(file, Pipes::Awaited).map_err(anyhow::Error::msg)?;
        let key = keys.minting().cloned();
        key.with_context(|| format!("{} holds no key", file.display()))
    }

    /// A token for the player `client`, good from now on.
    ///
    /// # Errors
    /// What is out of its bounds, or a system without randomness.
    pub fn mint(&self, client: u64) -> anyhow::Result<ConnectToken> {
        let issued_s = unix_s();
        let grant = Grant {
            issued_s,
            expires_s: issued_s + self.life_s,
            client,
            audience: self.audience.clone(),
            relays: self.relays.clone(),
            secret: Secret(random()?),
            view: self.view,
            budget_bytes_per_s: self.budget_bytes_per_s,
        };
        Ok(grant.mint(&self.key, random()?)?)
    }
}
