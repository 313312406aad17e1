//! A client of an attacker: it has a token and a session like any other, and says what it likes.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::Field;
use super::gun::{Count, noise};
use crate::limits::RECEIVE_SLOT_BYTES;
use crate::token::ConnectToken;
use crate::wire::bytes::{ByteReader, ByteWriter, ReadError};
use crate::wire::handshake::{
    ClientNonce, DOWN_HEADER_BYTES, DatagramKind, Denial, WELCOME_HEADER_BYTES, put_request, put_response,
    read_challenge, read_denied, read_welcome_header,
};
use crate::wire::owner::OwnerBlock;
use crate::wire::payload::{self, CloseReason, Welcome};
use crate::wire::report::Report;
use crate::wire::seal::{Direction, INSECURE_TOKEN_KEY, Opener, Sealer, Secrets};
use crate::wire::snapshot::SnapshotHeader;
use crate::wire::stream::skip_block;
use crate::wire::version::{Agreed, PROTOCOL_VERSION};

/// Between two tries of a handshake.
const RETRY: Duration = Duration::from_millis(100);
/// How long a handshake is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a handshake came to.
pub enum Joined {
    /// A session.
    In(Box<Insider>),
    /// No, and why.
    Denied(Denial),
}

/// See the module.
pub struct Insider {
    socket: UdpSocket,
    /// Its connection id.
    pub connection: u64,
    sealer: Sealer,
    opener: Opener,
    /// What came down.
    pub heard: Count,
    /// Snapshot parts of it.
    pub snapshots: u64,
    /// Of the newest.
    pub stream_epoch: u32,
    /// Of the newest.
    pub session_epoch: u32,
    /// Of the newest.
    pub generation: u32,
    /// The newest snapshot.
    pub newest: u32,
    /// Session epochs begun.
    pub epochs: u64,
    /// The input that the relay waits for.
    pub inputs_next: u32,
    /// How the relay ended it.
    pub closed: Option<CloseReason>,
    /// When the last snapshot came, and the longest time between two.
    last: Option<Instant>,
    /// See `last`.
    pub gap: Duration,
}

impl Insider {
    /// Gets a session from `from`.
    ///
    /// # Errors
    /// When nobody answers, or it is denied.
    pub fn join(field: &Field, from: Ipv4Addr) -> anyhow::Result<Insider> {
        let token = field.token(u64::from(from.to_bits()))?;
        match Insider::try_join(field, from, token.as_ref())? {
            Joined::In(insider) => Ok(*insider),
            Joined::Denied(denial) => bail!("an insider of the attack was denied: {}", denial.label()),
        }
    }

    /// Goes through the handshake with a token.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn try_join(field: &Field, from: Ipv4Addr, token: Option<&ConnectToken>) -> anyhow::Result<Joined> {
        let socket = UdpSocket::bind((from, 0)).context("an insider has no socket")?;
        socket.connect(field.relay)?;
        socket.set_read_timeout(Some(Duration::from_millis(5)))?;
        let nonce: ClientNonce = crate::node::random::random()?;
        let (mut out, mut buffer) = (Vec::new(), vec![0; RECEIVE_SLOT_BYTES]);
        put_request(&mut out, PROTOCOL_VERSION, &nonce);
        let (begun, mut next) = (Instant::now(), Instant::now());
        while begun.elapsed() < PATIENCE {
            if Instant::now() >= next {
                let _ = socket.send(&out);
                next = Instant::now() + RETRY;
            }
            let Ok(length) = socket.recv(&mut buffer) else {
                continue;
            };
            let datagram = buffer.get_mut(..length).unwrap_or_default();
            let (kind, rest) = datagram.split_first().context("an empty answer")?;
            match DatagramKind::from_byte(*kind) {
                Some(DatagramKind::Challenge) => {
                    if let Ok((_, echo, cookie)) = read_challenge(rest)
                        && echo == nonce
                    {
                        let sealed = token.map_or(&[][..], |token| &token.sealed);
                        put_response(&mut out, PROTOCOL_VERSION, &nonce, &cookie, sealed);
                        next = Instant::now();
                    }
                }
                Some(DatagramKind::Denied) => {
                    if let Ok((_, _, denial)) = read_denied(rest) {
                        return Ok(Joined::Denied(denial));
                    }
                }
                Some(DatagramKind::Welcome) => {
                    let header = read_welcome_header(&mut ByteReader::new(datagram))?;
                    let secrets = Secrets {
                        token_key: token.map_or(INSECURE_TOKEN_KEY, |token| token.secret.0),
                        client_nonce: nonce,
                        relay_nonce: header.relay_nonce,
                        connection: header.connection,
                        agreed: Agreed::NEWEST,
                    };
                    let mut insider = Insider::new(socket, header.connection, &secrets)?;
                    insider.take(datagram);
                    insider.socket.set_nonblocking(true)?;
                    return Ok(Joined::In(Box::new(insider)));
                }
                _ => {}
            }
        }
        bail!(
            "nobody answered an insider of the attack within {} s",
            PATIENCE.as_secs()
        )
    }

    fn new(socket: UdpSocket, connection: u64, secrets: &Secrets) -> anyhow::Result<Insider> {
        Ok(Insider {
            socket,
            connection,
            sealer: secrets.sealer(Direction::Up).context("no sealer")?,
            opener: secrets.opener(Direction::Down).context("no opener")?,
            heard: Count::default(),
            snapshots: 0,
            stream_epoch: 0,
            session_epoch: 0,
            generation: 0,
            newest: 0,
            epochs: 0,
            inputs_next: 1,
            closed: None,
            last: None,
            gap: Duration::ZERO,
        })
    }

    /// Seals a payload under the next number.
    pub fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut payload = payload.to_vec();
        let Some(number) = self.sealer.reserve() else {
            return Vec::new();
        };
        let mut datagram = vec![DatagramKind::Up as u8];
        datagram.put_u64(self.connection);
        #[allow(clippy::cast_possible_truncation)] // The low half travels.
        datagram.put_u32(number as u32);
        let tag = self.sealer.seal(number, &datagram, &mut payload);
        datagram.put(&payload);
        tag.iter().for_each(|tag| datagram.put(tag));
        datagram
    }

    /// Sends a datagram from where it is.
    pub fn send(&self, datagram: &[u8]) {
        let _ = self.socket.send(datagram);
    }

    /// What an honest client that keeps nothing would say.
    pub fn report(&self) -> Report {
        Report {
            stream_epoch: self.stream_epoch,
            session_epoch: self.session_epoch,
            generation: self.generation,
            ..Report::default()
        }
    }

    /// The payload of a report.
    pub fn payload(report: &Report) -> Vec<u8> {
        let mut payload = vec![payload::REPORT];
        report.encode(&mut payload);
        payload
    }

    /// Takes what has come.
    pub fn hear(&mut self) {
        let mut buffer = [0; RECEIVE_SLOT_BYTES];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            self.take(buffer.get_mut(..length).unwrap_or_default());
        }
    }

    fn take(&mut self, datagram: &mut [u8]) {
        self.heard.add(datagram.len());
        let clear = match datagram.first().and_then(|kind| DatagramKind::from_byte(*kind)) {
            Some(DatagramKind::Welcome) => WELCOME_HEADER_BYTES,
            Some(DatagramKind::Down) => DOWN_HEADER_BYTES,
            _ => return,
        };
        let Some((clear, sealed)) = datagram.split_at_mut_checked(clear) else {
            return;
        };
        let Some(low) = clear.last_chunk::<4>().map(|low| u32::from_le_bytes(*low)) else {
            return;
        };
        if let Ok((_, payload)) = self.opener.open(low, clear, sealed) {
            let payload = payload.to_vec();
            // What it cannot read it does not need.
            let _ = self.read(&payload);
        }
    }

    fn read(&mut self, payload: &[u8]) -> Result<(), ReadError> {
        let mut reader = ByteReader::new(payload);
        let flags = reader.u8()?;
        reader.u16()?;
        if flags & payload::CLOSE != 0 {
            self.closed = CloseReason::from_code(reader.u8()?);
        }
        if flags & payload::PATH_CHALLENGE != 0 {
            reader.bytes(8)?;
        }
        if flags & payload::WELCOME != 0 {
            self.stream_epoch = self.stream_epoch.max(Welcome::decode(&mut reader)?.stream_epoch);
        }
        if flags & payload::INPUTS_ACK != 0 {
            self.inputs_next = self.inputs_next.max(reader.varint()?);
        }
        if flags & payload::OWNER != 0 {
            OwnerBlock::decode(&mut reader)?;
        }
        if flags & payload::MESSAGES != 0 {
            skip_block(&mut reader)?;
        }
        if flags & payload::SNAPSHOT != 0 {
            let header = SnapshotHeader::decode(&mut reader)?;
            self.snapshots += 1;
            self.epochs += u64::from(header.session_epoch > self.session_epoch);
            self.session_epoch = self.session_epoch.max(header.session_epoch);
            (self.generation, self.newest) = (header.generation, header.id.0);
            let now = Instant::now();
            if let Some(last) = self.last.replace(now) {
                self.gap = self.gap.max(now - last);
            }
        }
        Ok(())
    }

    /// Follows the stream for a while as an honest client would, so that there is something to lie about.
    pub fn settle(&mut self, during: Duration) {
        let until = Instant::now() + during;
        while Instant::now() < until {
            let report = Insider::payload(&self.report());
            let datagram = self.seal(&report);
            self.send(&datagram);
            std::thread::sleep(Duration::from_millis(20));
            self.hear();
        }
    }

    /// Random bytes of its own.
    pub fn noise(&self, seed: u64, length: usize) -> Vec<u8> {
        noise(seed ^ self.connection, length)
    }
}
