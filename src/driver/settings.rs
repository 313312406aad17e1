//! What a driver is told at its start.

use std::net::SocketAddr;

use crate::client::settings::ClientSettings;
use crate::limits::{RELAY_BACKOFF_US, RELAY_SILENCE_US};
use crate::token::ConnectToken;

/// Settings of a [`Driver`](super::Driver). Times are microseconds.
#[derive(Clone, Debug)]
pub struct DriverSettings {
    /// Relays that serve this game, in the order in which they are asked; at least one, at most
    /// [`RELAYS_MAX`](crate::limits::RELAYS_MAX).
    pub relays: Vec<SocketAddr>,
    /// What each session is told: the token among it.
    pub client: ClientSettings,
    /// Silence of a relay after which the socket is made anew and a new session is asked for beside the old one.
    pub silence_us: u64,
    /// The least and the most time between two attempts to get a session.
    pub backoff_us: (u64, u64),
    /// How long an attempt lasts where there is another relay to ask.
    pub attempt_us: u64,
    /// The longest that the old display is kept once a new session shows something; until then it is kept anyway.
    pub keep_display_us: u64,
}

impl DriverSettings {
    /// The defaults for these relays, without a token.
    #[must_use]
    pub fn new(relays: Vec<SocketAddr>) -> DriverSettings {
        DriverSettings {
            relays,
            client: ClientSettings::default(),
            silence_us: RELAY_SILENCE_US,
            backoff_us: RELAY_BACKOFF_US,
            attempt_us: 3_000_000,
            keep_display_us: 3_000_000,
        }
    }

    /// The defaults for the relays that a connect token names, with that token.
    #[must_use]
    pub fn of_token(token: &ConnectToken) -> DriverSettings {
        DriverSettings::new(token.relays.clone()).with_token(token)
    }

    /// These settings with this token; the relays stay.
    #[must_use]
    pub fn with_token(mut self, token: &ConnectToken) -> DriverSettings {
        self.client = self.client.with_token(token);
        self
    }

    /// What an attempt is told: it is shorter where there are others to ask.
    pub(super) fn of_attempt(&self) -> ClientSettings {
        let mut client = self.client.clone();
        if self.relays.len() > 1 {
            client.connect_within_us = client.connect_within_us.min(self.attempt_us);
        }
        client
    }
}
