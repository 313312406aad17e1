//! What a client is told once, at its start. All times are microseconds of the caller's clock.

use core::fmt;

use crate::token::ConnectToken;
use crate::window::WindowLimits;
use crate::wire::seal::INSECURE_TOKEN_KEY;
use crate::wire::version::Versions;

/// Settings of one [`Client`](super::session::Client).
#[derive(Clone)]
pub struct ClientSettings {
    /// The connect token as the backend gave it, at most
    /// [`TOKEN_BYTES_MAX`](crate::wire::handshake::TOKEN_BYTES_MAX) bytes; empty in insecure mode.
    pub token: Vec<u8>,
    /// The key that belongs to the token; the public [`INSECURE_TOKEN_KEY`] in insecure mode.
    pub token_key: [u8; 32],
    /// Versions of the protocol to speak: this crate's and the one before.
    pub versions: Versions,
    /// Sizes of the baseline window.
    pub limits: WindowLimits,
    /// Wait before a Request or Response is sent again for the first time.
    pub retry_first_us: u64,
    /// Requests, and then Responses, that are sent at that pace: at 30% loss each way half of all round trips
    /// fail, and a join must not wait for a long pause to end (SPEC TAB7).
    pub quick_tries: u32,
    /// Longest wait between two of them; after the quick tries each wait is 1.5 times the one before.
    pub retry_most_us: u64,
    /// How long an answer to the handshake is waited for in all.
    pub connect_within_us: u64,
    /// How long a snapshot of several parts waits at least for more of them before it is reported (SPEC TAB8); longer where
    /// jitter spreads parts wider.
    pub hold_back_us: u64,
    /// Shortest time between two reports.
    pub report_gap_us: u64,
    /// Shortest time before a packet that is sent for an input's sake.
    pub input_gap_us: u64,
    /// Longest time between two packets: ten a second and some slack for late timers (SPEC DEC8).
    pub keepalive_us: u64,
}

/// Without the token and its key: whoever has them is let in.
impl fmt::Debug for ClientSettings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("ClientSettings");
        shown.field("token_bytes", &self.token.len());
        shown.field("versions", &self.versions);
        shown.field("limits", &self.limits);
        shown.field("retry_first_us", &self.retry_first_us);
        shown.field("quick_tries", &self.quick_tries);
        shown.field("retry_most_us", &self.retry_most_us);
        shown.field("connect_within_us", &self.connect_within_us);
        shown.field("hold_back_us", &self.hold_back_us);
        shown.field("report_gap_us", &self.report_gap_us);
        shown.field("input_gap_us", &self.input_gap_us);
        shown.field("keepalive_us", &self.keepalive_us);
        shown.finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// These settings with a token of the backend's.
    #[must_use]
    pub fn with_token(self, token: &ConnectToken) -> ClientSettings {
        ClientSettings {
            token: token.sealed.clone(),
            token_key: token.secret.0,
            ..self
        }
    }
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            token: Vec::new(),
            token_key: INSECURE_TOKEN_KEY,
            versions: Versions::SPOKEN,
            limits: WindowLimits::default(),
            retry_first_us: 100_000,
            quick_tries: 10,
            retry_most_us: 1_000_000,
            connect_within_us: 30_000_000,
            hold_back_us: 8_000,
            report_gap_us: 5_000,
            input_gap_us: 8_000,
            keepalive_us: 90_000,
        }
    }
}
