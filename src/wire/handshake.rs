//! The datagrams before a session, and the outer shape of those within one (SPEC OPS, THREATS I).
//!
//! Order: Request (client), Challenge (relay, stateless), Response (client, with the challenge's cookie), then
//! Welcome (relay, sealed) and the session. The relay keeps nothing for a source until a Response carries a
//! cookie it made for that very address and client nonce; a Request is padded so that no answer is longer.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::bytes::{ByteReader, ByteWriter, ReadError};

/// First bytes of Request and Response.
pub const MAGIC: [u8; 4] = *b"ACKL";
/// Bytes of a Request, padding included. Longer than every answer to it (THREATS D9).
pub const REQUEST_BYTES: usize = 256;
/// Bytes of a connect token a Response may carry.
pub const TOKEN_BYTES_MAX: usize = 896;
/// Bytes of a cookie.
pub const COOKIE_BYTES: usize = 24;

/// First byte of every datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DatagramKind {
    /// Client: may I come in.
    Request = 1,
    /// Relay: prove your address.
    Challenge = 2,
    /// Client: here is the proof, and my token.
    Response = 3,
    /// Relay: the first sealed datagram of a session, with what the keys need in clear.
    Welcome = 4,
    /// Relay: no, and why. Only after a valid cookie.
    Denied = 5,
    /// Relay to client, sealed.
    Down = 0x10,
    /// Client to relay, sealed.
    Up = 0x20,
}

impl DatagramKind {
    /// The kind with this first byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<DatagramKind> {
        use DatagramKind as K;
        [
            K::Request,
            K::Challenge,
            K::Response,
            K::Welcome,
            K::Denied,
            K::Down,
            K::Up,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// Why a relay denies a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Denial {
    /// No place for another session.
    Full = 1,
    /// The relay is draining.
    Draining = 2,
    /// The protocol version is not spoken here.
    Version = 3,
    /// The token was refused.
    Token = 4,
}

impl Denial {
    /// Every denial.
    pub const ALL: [Denial; 4] = [Denial::Full, Denial::Draining, Denial::Version, Denial::Token];

    /// The denial with this wire number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Denial> {
        Denial::ALL.into_iter().find(|denial| *denial as u8 == code)
    }

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Denial::Full => "full",
            Denial::Draining => "draining",
            Denial::Version => "version",
            Denial::Token => "token",
        }
    }
}

/// The client's randomness, made anew for each attempt.
pub type ClientNonce = [u8; 16];
/// Proof that a source receives at its address.
pub type Cookie = [u8; COOKIE_BYTES];

/// A Response: what a relay decides a session on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// Protocol version the client has chosen.
    pub version: u16,
    /// The client's randomness.
    pub client_nonce: ClientNonce,
    /// The challenge's cookie.
    pub cookie: Cookie,
    /// The connect token; empty in insecure mode.
    pub token: &'a [u8],
}

/// Without cookie and token: whoever has them may be faster than whose they are.
impl core::fmt::Debug for Response<'_> {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = to.debug_struct("Response");
        shown.field("version", &self.version);
        shown.field("client_nonce", &self.client_nonce);
        shown.field("token_bytes", &self.token.len());
        shown.finish_non_exhaustive()
    }
}

/// The clear header of a Welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WelcomeHeader {
    /// The session's connection id.
    pub connection: u64,
    /// Echo of the client's randomness, so that a client tells attempts apart.
    pub client_nonce: ClientNonce,
    /// The relay's randomness.
    pub relay_nonce: [u8; 16],
    /// Low 32 bits of the datagram number.
    pub number: u32,
}

/// Bytes of the clear header of a Welcome, kind byte included.
pub const WELCOME_HEADER_BYTES: usize = 1 + 8 + 16 + 16 + 4;
/// Bytes of the clear header of a Down datagram: kind, number.
pub const DOWN_HEADER_BYTES: usize = 1 + 4;
/// Bytes of the clear header of an Up datagram: kind, connection id, number.
pub const UP_HEADER_BYTES: usize = 1 + 8 + 4;

/// Writes a Request of a client that speaks up to `version`.
pub fn put_request(out: &mut Vec<u8>, version: u16, client_nonce: &ClientNonce) {
    out.clear();
    out.put_u8(DatagramKind::Request as u8);
    out.put(&MAGIC);
    out.put_u16(version);
    out.put(client_nonce);
    out.resize(REQUEST_BYTES, 0);
}

/// Reads a Request behind its kind byte: the highest version the client speaks and the client's randomness.
///
/// # Errors
/// [`ReadError`] when it is not exactly [`REQUEST_BYTES`] long, has another magic, or padding that is not zero.
pub fn read_request(bytes: &[u8]) -> Result<(u16, ClientNonce), ReadError> {
    if bytes.len() + 1 != REQUEST_BYTES {
        return Err(ReadError::Short);
    }
    let mut reader = ByteReader::new(bytes);
    read_magic(&mut reader)?;
    let version = reader.u16()?;
    let client_nonce = reader.array()?;
    if reader.rest().iter().any(|byte| *byte != 0) {
        return Err(ReadError::Trailing);
    }
    Ok((version, client_nonce))
}

fn read_magic(reader: &mut ByteReader<'_>) -> Result<(), ReadError> {
    if reader.array::<4>()? == MAGIC {
        Ok(())
    } else {
        Err(ReadError::OutOfRange)
    }
}

/// Writes a Challenge: the highest version of the relay, the client's randomness echoed, the cookie.
pub fn put_challenge(out: &mut impl ByteWriter, version: u16, client_nonce: &ClientNonce, cookie: &Cookie) {
    out.put_u8(DatagramKind::Challenge as u8);
    out.put_u16(version);
    out.put(client_nonce);
    out.put(cookie);
}

/// Reads a Challenge behind its kind byte: the highest version the relay speaks, the echo, the cookie.
///
/// # Errors
/// [`ReadError`] when its length is off.
pub fn read_challenge(bytes: &[u8]) -> Result<(u16, ClientNonce, Cookie), ReadError> {
    let mut reader = ByteReader::new(bytes);
    let challenge = (reader.u16()?, reader.array()?, reader.array()?);
    reader.end()?;
    Ok(challenge)
}

/// Writes a Response that chooses `version`.
pub fn put_response(
    out: &mut Vec<u8>,
    version: u16,
    client_nonce: &ClientNonce,
    cookie: &Cookie,
    token: &[u8],
) {
    debug_assert!(token.len() <= TOKEN_BYTES_MAX);
    out.clear();
    out.put_u8(DatagramKind::Response as u8);
    out.put(&MAGIC);
    out.put_u16(version);
    out.put(client_nonce);
    out.put(cookie);
    out.put_u16(u16::try_from(token.len()).unwrap_or(0));
    out.put(token);
}

/// Reads a Response behind its kind byte.
///
/// # Errors
/// [`ReadError`]: another magic, a token that is too long, bytes missing or left over.
pub fn read_response(bytes: &[u8]) -> Result<Response<'_>, ReadError> {
    let mut reader = ByteReader::new(bytes);
    read_magic(&mut reader)?;
    let version = reader.u16()?;
    let client_nonce = reader.array()?;
    let cookie = reader.array()?;
    let length = usize::from(reader.u16()?);
    if length > TOKEN_BYTES_MAX {
        return Err(ReadError::OutOfRange);
    }
    let token = reader.bytes(length)?;
    reader.end()?;
    Ok(Response {
        version,
        client_nonce,
        cookie,
        token,
    })
}

/// Writes the clear header of a Welcome.
pub fn put_welcome_header(out: &mut impl ByteWriter, header: &WelcomeHeader) {
    out.put_u8(DatagramKind::Welcome as u8);
    out.put_u64(header.connection);
    out.put(&header.client_nonce);
    out.put(&header.relay_nonce);
    out.put_u32(header.number);
}

/// Reads the clear header of a Welcome, kind byte included in `bytes` and already checked.
///
/// # Errors
/// [`ReadError::Short`].
pub fn read_welcome_header(reader: &mut ByteReader<'_>) -> Result<WelcomeHeader, ReadError> {
    reader.u8()?;
    Ok(WelcomeHeader {
        connection: reader.u64()?,
        client_nonce: reader.array()?,
        relay_nonce: reader.array()?,
        number: reader.u32()?,
    })
}

/// Writes a Denied: the highest version of the relay, the client's randomness echoed, the reason.
pub fn put_denied(out: &mut impl ByteWriter, version: u16, client_nonce: &ClientNonce, denial: Denial) {
    out.put_u8(DatagramKind::Denied as u8);
    out.put_u16(version);
    out.put(client_nonce);
    out.put_u8(denial as u8);
}

/// Reads a Denied behind its kind byte: the highest version spoken there, the echo, the reason.
///
/// # Errors
/// [`ReadError`] when its length is off or the reason is unknown.
pub fn read_denied(bytes: &[u8]) -> Result<(u16, ClientNonce, Denial), ReadError> {
    let mut reader = ByteReader::new(bytes);
    let version = reader.u16()?;
    let client_nonce = reader.array()?;
    let denial = Denial::from_code(reader.u8()?).ok_or(ReadError::OutOfRange)?;
    reader.end()?;
    Ok((version, client_nonce, denial))
}

const _: () = assert!(1 + 2 + 16 + COOKIE_BYTES <= REQUEST_BYTES);
const _: () = assert!(1 + 4 + 2 + 16 + COOKIE_BYTES + 2 + TOKEN_BYTES_MAX <= crate::limits::DATAGRAM_MAX);

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::wire::version::PROTOCOL_VERSION;

    /// THREATS 3, D9: a request one byte short, long or unpadded is refused; no answer is longer than it.
    #[test]
    fn threats_3_requests_have_one_form() {
        let mut request = Vec::new();
        put_request(&mut request, PROTOCOL_VERSION, &[4; 16]);
        assert_eq!(read_request(&request[1..]), Ok((PROTOCOL_VERSION, [4; 16])));
        assert!(read_request(&request[1..request.len() - 1]).is_err());
        request.push(0);
        assert!(read_request(&request[1..]).is_err());
        request.pop();
        for index in [1, 200, 255] {
            let mut bad = request.clone();
            bad[index] ^= 1;
            assert!(read_request(&bad[1..]).is_err());
        }
        let (mut challenge, mut denied) = (Vec::new(), Vec::new());
        put_challenge(&mut challenge, PROTOCOL_VERSION, &[4; 16], &[0; COOKIE_BYTES]);
        put_denied(&mut denied, PROTOCOL_VERSION, &[4; 16], Denial::Full);
        assert!(challenge.len() <= request.len() && denied.len() <= request.len());
        assert_eq!(
            read_challenge(&challenge[1..]),
            Ok((PROTOCOL_VERSION, [4; 16], [0; COOKIE_BYTES]))
        );
        assert_eq!(
            read_denied(&denied[1..]),
            Ok((PROTOCOL_VERSION, [4; 16], Denial::Full))
        );
    }

    /// THREATS 23: every first byte and every length up to 64 is read or refused, never more.
    #[test]
    fn threats_23_short_datagrams_of_every_kind_are_refused() {
        for kind in 0..=255u8 {
            for length in 0..=64 {
                let bytes = vec![kind; length];
                assert!(read_request(&bytes).is_err() && read_response(&bytes).is_err());
                let _ = (read_challenge(&bytes), read_denied(&bytes));
                let _ = read_welcome_header(&mut ByteReader::new(&bytes));
            }
            if let Some(known) = DatagramKind::from_byte(kind) {
                assert_eq!(known as u8, kind);
            }
        }
        let mut response = Vec::new();
        put_response(
            &mut response,
            PROTOCOL_VERSION,
            &[1; 16],
            &[2; COOKIE_BYTES],
            b"token",
        );
        let read = read_response(&response[1..]).unwrap();
        assert_eq!((read.token, read.version), (&b"token"[..], PROTOCOL_VERSION));
        response.push(0);
        assert!(read_response(&response[1..]).is_err());
    }
}
