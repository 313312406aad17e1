//! Connect tokens: what a studio's backend gives a player who may come in, and a relay believes.
//!
//! A backend and its relays share a [`TokenKey`]. The backend mints a [`ConnectToken`] and hands it to the client over a
//! channel of its own, which must keep secrets (HTTPS). The client sends the sealed half of it to a relay, which reads a
//! [`Grant`] from it: who comes, until when, where to, what it may see and cost. The secret that both halves carry is what
//! the session's keys are derived from, together with fresh randomness of both ends (see
//! [`Secrets`](crate::wire::seal::Secrets)), so that neither a replay nor a restart repeats a nonce under a key.
//!
//! > Nothing of a sealed half is believed before its tag was checked; expiry and key id stand in clear, authenticated, so
//! > that what is too old is refused without a cipher. A token is refused by a named reason, never by a panic.
//!
//! Sealed half, little-endian: version 1 (u8), key id (u32), expiry (u64, seconds since 1970), salt (16 bytes, which is also
//! the token's id), ciphertext, tag (16). Its key is HKDF-SHA256 (RFC 5869) with salt = the salt, input = the shared key,
//! info = `ackline token 1`; the cipher is AES-256-GCM with a nonce of zeros, which a key of its own makes safe; what stands
//! in clear is authenticated. `docs/PROTOCOL.md` has the fields and an example, which is a test.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::delta::message::{put_view, take_view};
use crate::limits::TAG_BYTES;
use crate::state::view::View;
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};
use crate::wire::handshake::TOKEN_BYTES_MAX;

#[cfg(feature = "relay")]
pub mod history;
pub mod key;
#[cfg(feature = "relay")]
pub mod start;

pub use key::{KeyError, TokenKey, TokenKeys};

/// The version of the sealed half.
pub const TOKEN_VERSION: u8 = 1;
/// Bytes of a token's id.
pub const TOKEN_ID_BYTES: usize = 16;
/// Relay addresses a token may name.
pub const RELAYS_MAX: usize = 8;
/// Bytes of an audience's name.
pub const AUDIENCE_BYTES_MAX: usize = 32;
/// The longest life of a token, seconds: a relay remembers each one until it has expired.
pub const LIFE_MAX_S: u64 = 300;
/// Seconds that the clocks of a backend and a relay differ by at most where both are kept.
pub const CLOCK_SLACK_S: u64 = 5;
/// What of that a relay allows for right after its start, seconds: players wait for it.
pub const START_SLACK_S: u64 = 1;
/// Seconds that a backend's clock may be ahead of a relay's (THREATS 13): what seems to be minted later is refused.
pub const LEAD_MAX_S: u64 = 60;
/// First bytes of a connect token as a client gets it.
const CONNECT_MAGIC: [u8; 4] = *b"ACKT";
/// Bytes of the clear part of a sealed half.
const CLEAR_BYTES: usize = 1 + 4 + 8 + TOKEN_ID_BYTES;

/// Which token.
pub type TokenId = [u8; TOKEN_ID_BYTES];

/// What a token grants: the sealed half, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// When it was minted, seconds since 1970.
    pub issued_s: u64,
    /// From when on it admits nobody, seconds since 1970; at most [`LIFE_MAX_S`] after it was minted.
    pub expires_s: u64,
    /// The player's number at the backend.
    pub client: u64,
    /// The fleet it is for, at most [`AUDIENCE_BYTES_MAX`] bytes; a relay of another name refuses it.
    pub audience: String,
    /// The addresses of the relays it is for, as clients see them: 1 to [`RELAYS_MAX`].
    pub relays: Vec<SocketAddr>,
    /// What the session's keys are derived from.
    pub secret: Secret,
    /// What the session may see until the origin assigns another view; the relay's default without.
    pub view: Option<View>,
    /// Bytes a second the session may be sent; never more than the relay's own budget, which holds without.
    pub budget_bytes_per_s: Option<u32>,
}

/// Thirty-two bytes that are never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl core::fmt::Debug for Secret {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Secret(..)")
    }
}

/// What a client needs of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectToken {
    /// From when on it admits nobody, seconds since 1970.
    pub expires_s: u64,
    /// Relays to try, in order.
    pub relays: Vec<SocketAddr>,
    /// What the session's keys are derived from.
    pub secret: Secret,
    /// The sealed half, for the relay.
    pub sealed: Vec<u8>,
}

/// Without the sealed half too: whoever has that takes the token's one session.
impl core::fmt::Debug for ConnectToken {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = to.debug_struct("ConnectToken");
        shown.field("expires_s", &self.expires_s);
        shown.field("relays", &self.relays);
        shown.field("sealed_bytes", &self.sealed.len());
        shown.finish_non_exhaustive()
    }
}

/// Why no token was minted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The addresses are none or too many.
    #[error("a token names 1 to 8 relay addresses, not {0}")]
    Relays(usize),
    /// The audience is too long.
    #[error("an audience has at most 32 bytes, not {0}")]
    Audience(usize),
    /// It would live too long, or end before it begins.
    #[error("a token lives 1 to 300 seconds, not {0}")]
    Life(i64),
    /// It has no room in a handshake; never the case within the bounds above.
    #[error("the sealed token has {0} bytes, more than a handshake carries")]
    Size(usize),
}

/// Why a relay refuses a token: the words of `ackline_tokens_refused_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenRefusal {
    /// None was shown, and this relay lets nobody in without one.
    #[error("no token")]
    Missing,
    /// It is no token of a known version, or would live for longer than tokens do.
    #[error("malformed token")]
    Malformed,
    /// No key of this relay has its key id.
    #[error("unknown key")]
    UnknownKey,
    /// Its time is over, or ends later than that of any token that was minted by now.
    #[error("expired token")]
    Expired,
    /// Its tag does not match.
    #[error("forged token")]
    Forged,
    /// It is for another fleet or for other relays.
    #[error("token for another relay")]
    Elsewhere,
    /// It says that it was minted more than [`LEAD_MAX_S`] from now: the backend's clock is wrong, or this relay's.
    #[error("token from the future")]
    FromTheFuture,
    /// It was, or may have been, minted before this relay began, and used then (THREATS 11).
    #[error("token from before the relay's start")]
    BeforeStart,
    /// It has admitted somebody (THREATS 9).
    #[error("token used before")]
    Used,
    /// The relay remembers as many tokens as it can, and forgets none for a new one (THREATS 10).
    #[error("token history full")]
    HistoryFull,
}

impl TokenRefusal {
    /// Every reason.
    pub const ALL: [TokenRefusal; 10] = [
        TokenRefusal::Missing,
        TokenRefusal::Malformed,
        TokenRefusal::UnknownKey,
        TokenRefusal::Expired,
        TokenRefusal::Forged,
        TokenRefusal::Elsewhere,
        TokenRefusal::FromTheFuture,
        TokenRefusal::BeforeStart,
        TokenRefusal::Used,
        TokenRefusal::HistoryFull,
    ];

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            TokenRefusal::Missing => "missing",
            TokenRefusal::Malformed => "malformed",
            TokenRefusal::UnknownKey => "unknown_key",
            TokenRefusal::Expired => "expired",
            TokenRefusal::Forged => "forged",
            TokenRefusal::Elsewhere => "elsewhere",
            TokenRefusal::FromTheFuture => "from_the_future",
            TokenRefusal::BeforeStart => "before_start",
            TokenRefusal::Used => "used",
            TokenRefusal::HistoryFull => "history_full",
        }
    }
}

struct Length32;

impl KeyType for Length32 {
    fn len(&self) -> usize {
        32
    }
}

/// The cipher of one token. `None` is not known to happen: the lengths are constants.
fn cipher(key: &TokenKey, salt: &TokenId) -> Option<LessSafeKey> {
    let mut bytes = [0u8; 32];
    Salt::new(HKDF_SHA256, salt)
        .extract(key.secret())
        .expand(&[b"ackline token 1"], Length32)
        .ok()?
        .fill(&mut bytes)
        .ok()?;
    UnboundKey::new(&AES_256_GCM, &bytes).ok().map(LessSafeKey::new)
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl Grant {
    /// Mints the token of this grant. `id`: 16 fresh random bytes; under one key no two tokens may have the same.
    ///
    /// # Errors
    /// [`MintError`]: what is out of its bounds.
    pub fn mint(&self, key: &TokenKey, id: TokenId) -> Result<ConnectToken, MintError> {
        let life = i64::try_from(self.expires_s)
            .unwrap_or(i64::MAX)
            .saturating_sub(i64::try_from(self.issued_s).unwrap_or(i64::MAX));
        if !(1..=LIFE_MAX_S.cast_signed()).contains(&life) {
            return Err(MintError::Life(life));
        }
        if !(1..=RELAYS_MAX).contains(&self.relays.len()) {
            return Err(MintError::Relays(self.relays.len()));
        }
        if self.audience.len() > AUDIENCE_BYTES_MAX {
            return Err(MintError::Audience(self.audience.len()));
        }
        self.seal(key, id)
    }

    fn seal(&self, key: &TokenKey, id: TokenId) -> Result<ConnectToken, MintError> {
        let mut sealed = Vec::with_capacity(256);
        sealed.put_u8(TOKEN_VERSION);
        sealed.put_u32(key.id());
        sealed.put_u64(self.expires_s);
        sealed.put(&id);
        let clear = sealed.clone();
        let mut private = Vec::with_capacity(192);
        self.encode(&mut private);
        let cipher = cipher(key, &id).ok_or(MintError::Size(0))?;
        let tag = cipher
            .seal_in_place_separate_tag(nonce(), Aad::from(&clear), &mut private)
            .map_err(|_| MintError::Size(private.len()))?;
        sealed.put(&private);
        sealed.put(tag.as_ref());
        if sealed.len() > TOKEN_BYTES_MAX {
            return Err(MintError::Size(sealed.len()));
        }
        Ok(ConnectToken {
            expires_s: self.expires_s,
            relays: self.relays.clone(),
            secret: self.secret,
            sealed,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.issued_s);
        out.put_u64(self.client);
        out.put_text(&self.audience);
        put_addresses(&self.relays, out);
        out.put(&self.secret.0);
        out.put_u32(self.budget_bytes_per_s.unwrap_or(0));
        out.put_u8(u8::from(self.view.is_some()));
        if let Some(view) = &self.view {
            put_view(view, out);
        }
    }

    fn decode(expires_s: u64, bytes: &[u8]) -> Result<Grant, ReadError> {
        let mut reader = ByteReader::new(bytes);
        let (issued_s, client) = (reader.u64()?, reader.u64()?);
        let audience = reader.text()?;
        if audience.len() > AUDIENCE_BYTES_MAX {
            return Err(ReadError::OutOfRange);
        }
        let audience = audience.to_owned();
        let relays = take_addresses(&mut reader)?;
        let secret = Secret(reader.array()?);
        let budget = reader.u32()?;
        let view = match reader.u8()? {
            0 => None,
            1 => Some(take_view(&mut reader)?),
            _ => return Err(ReadError::OutOfRange),
        };
        reader.end()?;
        Ok(Grant {
            issued_s,
            expires_s,
            client,
            audience,
            relays,
            secret,
            view,
            budget_bytes_per_s: Some(budget).filter(|budget| *budget > 0),
        })
    }
}

/// What a sealed half says in clear, which is not believed before the rest was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clear {
    /// The number of the shared key.
    pub key: u32,
    /// From when on it admits nobody, seconds since 1970.
    pub expires_s: u64,
    /// Which token it is.
    pub id: TokenId,
}

/// Splits a sealed half, and reads what stands in clear.
fn split(sealed: &[u8]) -> Result<(Clear, &[u8], &[u8]), TokenRefusal> {
    if sealed.is_empty() {
        return Err(TokenRefusal::Missing);
    }
    let (clear, private) = sealed
        .split_at_checked(CLEAR_BYTES)
        .ok_or(TokenRefusal::Malformed)?;
    let mut reader = ByteReader::new(clear);
    let read = |_: ReadError| TokenRefusal::Malformed;
    let version = reader.u8().map_err(read)?;
    let said = Clear {
        key: reader.u32().map_err(read)?,
        expires_s: reader.u64().map_err(read)?,
        id: reader.array().map_err(read)?,
    };
    if version != TOKEN_VERSION || private.len() < TAG_BYTES || sealed.len() > TOKEN_BYTES_MAX {
        return Err(TokenRefusal::Malformed);
    }
    Ok((said, clear, private))
}

/// What a sealed half says in clear.
///
/// # Errors
/// [`TokenRefusal::Missing`], [`TokenRefusal::Malformed`].
pub fn clear(sealed: &[u8]) -> Result<Clear, TokenRefusal> {
    split(sealed).map(|(said, ..)| said)
}

/// Opens a sealed half, whenever that is: what it would grant. Whether it still does is for [`open`] to say.
///
/// # Errors
/// [`TokenRefusal`]: malformed, unknown key, forged, malformed within.
pub fn unseal(keys: &TokenKeys, sealed: &[u8]) -> Result<Grant, TokenRefusal> {
    let (said, clear, private) = split(sealed)?;
    let key = keys.find(said.key).ok_or(TokenRefusal::UnknownKey)?;
    let cipher = cipher(key, &said.id).ok_or(TokenRefusal::Malformed)?;
    let mut private = private.to_vec();
    let opened = cipher
        .open_in_place(nonce(), Aad::from(clear), &mut private)
        .map_err(|_| TokenRefusal::Forged)?;
    Grant::decode(said.expires_s, opened).map_err(|_| TokenRefusal::Malformed)
}

/// Opens the sealed half of a token at `now_s` seconds since 1970, and gives its id with the grant. Whether it was used is
/// for the history to say, whether it is for this relay for the caller.
///
/// # Errors
/// [`TokenRefusal`]: malformed, unknown key, expired, forged, malformed within, or from the future, asked in this order, the
/// cheapest first.
pub fn open(keys: &TokenKeys, now_s: u64, sealed: &[u8]) -> Result<(TokenId, Grant), TokenRefusal> {
    let Clear { key, expires_s, id } = clear(sealed)?;
    keys.find(key).ok_or(TokenRefusal::UnknownKey)?;
    if now_s >= expires_s || expires_s - now_s > LIFE_MAX_S + LEAD_MAX_S {
        return Err(TokenRefusal::Expired);
    }
    let grant = unseal(keys, sealed)?;
    // Whoever has the key can say anything; a time that no minter gives would undo what is said of restarts.
    let life_s = expires_s.checked_sub(grant.issued_s);
    if !life_s.is_some_and(|life_s| (1..=LIFE_MAX_S).contains(&life_s)) {
        return Err(TokenRefusal::Malformed);
    }
    if grant.issued_s > now_s.saturating_add(LEAD_MAX_S) {
        return Err(TokenRefusal::FromTheFuture);
    }
    Ok((id, grant))
}

impl ConnectToken {
    /// The bytes that a backend hands to its client.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.sealed.len());
        out.put(&CONNECT_MAGIC);
        out.put_u8(TOKEN_VERSION);
        out.put_u64(self.expires_s);
        put_addresses(&self.relays, &mut out);
        out.put(&self.secret.0);
        out.put_u16(u16::try_from(self.sealed.len()).unwrap_or(0));
        out.put(&self.sealed);
        out
    }

    /// Reads what [`encode`](ConnectToken::encode) writes.
    ///
    /// # Errors
    /// [`ReadError`]: another magic or version, lengths out of their bounds, bytes missing or left over.
    pub fn decode(bytes: &[u8]) -> Result<ConnectToken, ReadError> {
        let mut reader = ByteReader::new(bytes);
        if reader.array::<4>()? != CONNECT_MAGIC || reader.u8()? != TOKEN_VERSION {
            return Err(ReadError::OutOfRange);
        }
        let expires_s = reader.u64()?;
        let relays = take_addresses(&mut reader)?;
        let secret = Secret(reader.array()?);
        let length = usize::from(reader.u16()?);
        if length > TOKEN_BYTES_MAX {
            return Err(ReadError::OutOfRange);
        }
        let sealed = reader.bytes(length)?.to_vec();
        reader.end()?;
        Ok(ConnectToken {
            expires_s,
            relays,
            secret,
            sealed,
        })
    }

    /// The token as text: the bytes in hexadecimal.
    #[must_use]
    pub fn to_text(&self) -> String {
        key::to_hex(&self.encode())
    }

    /// Reads what [`to_text`](ConnectToken::to_text) writes, white space around it aside.
    ///
    /// # Errors
    /// [`ReadError`], also for what is no hexadecimal.
    pub fn from_text(text: &str) -> Result<ConnectToken, ReadError> {
        ConnectToken::decode(&key::from_hex(text.trim()).ok_or(ReadError::OutOfRange)?)
    }
}

/// Addresses: a count, then for each the family (4 or 6), the octets and the port.
fn put_addresses(addresses: &[SocketAddr], out: &mut Vec<u8>) {
    out.put_u8(u8::try_from(addresses.len()).unwrap_or(0));
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => {
                out.put_u8(4);
                out.put(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.put_u8(6);
                out.put(&ip.octets());
            }
        }
        out.put_u16(address.port());
    }
}

fn take_addresses(reader: &mut ByteReader<'_>) -> Result<Vec<SocketAddr>, ReadError> {
    let count = usize::from(reader.u8()?);
    if !(1..=RELAYS_MAX).contains(&count) {
        return Err(ReadError::OutOfRange);
    }
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        let ip = match reader.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
            _ => return Err(ReadError::OutOfRange),
        };
        addresses.push(SocketAddr::new(ip, reader.u16()?));
    }
    Ok(addresses)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
