//! What attacks send with: a socket that speaks from any loopback address and counts what comes back.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::Found;
use crate::bench::surroundings::mix;
use crate::limits::{BATCH_DATAGRAMS, SEND_SLOT_BYTES};
use crate::net::batch::{ReceiveBatch, SendBatch};
use crate::net::clock::monotonic_us;
use crate::net::socket::{ShardSocket, SocketOptions};

/// Bytes of socket buffers asked for.
const BUFFER_BYTES: usize = 4 << 20;
/// Between two looks at the clock.
const NAP: Duration = Duration::from_micros(300);
/// Datagrams that are made up for by one look.
const CATCH_UP_MAX: u64 = 512;
/// How long answers are waited for at the end.
const LINGER: Duration = Duration::from_millis(50);

/// Datagrams and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of UDP payload.
    pub bytes: u64,
}

impl Count {
    /// One more.
    pub fn add(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
    }
}

/// See the module.
pub struct Gun {
    socket: ShardSocket,
    outgoing: SendBatch,
    incoming: ReceiveBatch,
    relay: SocketAddr,
    /// What was sent.
    pub sent: Count,
    /// What came back.
    pub heard: Count,
}

impl Gun {
    /// A gun that is aimed at `relay`, which is on loopback.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn new(relay: SocketAddr) -> io::Result<Gun> {
        let options = SocketOptions {
            reuse_port: false,
            receive_buffer_bytes: BUFFER_BYTES,
            send_buffer_bytes: BUFFER_BYTES,
        };
        Ok(Gun {
            socket: ShardSocket::bind(([0, 0, 0, 0], 0).into(), options)?,
            outgoing: SendBatch::new(),
            incoming: ReceiveBatch::new(),
            relay,
            sent: Count::default(),
            heard: Count::default(),
        })
    }

    /// Sends a datagram of at most 1,280 bytes from one of this host's addresses, with the next flush.
    pub fn fire(&mut self, from: Ipv4Addr, datagram: &[u8]) {
        if self.outgoing.is_full() {
            self.flush();
        }
        let length = datagram.len().min(SEND_SLOT_BYTES);
        let Some(slot) = self.outgoing.reserve() else {
            return;
        };
        if let (Some(place), Some(bytes)) = (slot.get_mut(..length), datagram.get(..length)) {
            place.copy_from_slice(bytes);
        }
        self.outgoing.commit(length, self.relay, Some(IpAddr::V4(from)));
        self.sent.add(length);
    }

    fn flush(&mut self) {
        let report = self.outgoing.flush(&self.socket);
        // What the kernel did not take was not sent.
        self.sent.datagrams = self.sent.datagrams.saturating_sub(report.errors.total());
    }

    /// Sends what waits and gives what has come back, with the address it came to.
    pub fn hear(&mut self, mut each: impl FnMut(Ipv4Addr, &mut [u8])) {
        self.flush();
        loop {
            let report = self.incoming.receive(&self.socket);
            for datagram in self.incoming.datagrams() {
                self.heard.add(datagram.bytes.len());
                if let Some(IpAddr::V4(local)) = datagram.local {
                    each(local, datagram.bytes);
                }
            }
            if report.datagrams < BATCH_DATAGRAMS {
                return;
            }
        }
    }

    /// Bytes that came back for each that was sent.
    #[must_use]
    pub fn bytes_out_per_byte_in(&self) -> f64 {
        self.heard.bytes as f64 / self.sent.bytes.max(1) as f64
    }

    /// What an attack came to of which each datagram was an attempt.
    #[must_use]
    pub fn found(&self, observed: String, kept: bool) -> Found {
        Found {
            attempts: self.sent.datagrams,
            to_relay: self.sent,
            from_relay: self.heard,
            observed,
            kept,
        }
    }

    /// Calls `shoot` so often a second, numbered from 0, until `until_us`, and gives what comes back to `each`, with the gun to
    /// answer with.
    pub fn barrage(
        &mut self,
        per_s: u64,
        until_us: u64,
        mut shoot: impl FnMut(&mut Gun, u64),
        mut each: impl FnMut(Ipv4Addr, &mut [u8]) -> Option<Vec<u8>>,
    ) {
        let begun_us = monotonic_us();
        let mut shot = 0;
        let mut answers = Vec::new();
        loop {
            let now_us = monotonic_us();
            if now_us >= until_us {
                break;
            }
            let due = (now_us - begun_us) * per_s / 1_000_000;
            // A bench that was held up does not make up for all of it at once.
            shot = shot.max(due.saturating_sub(CATCH_UP_MAX));
            while shot < due {
                shoot(self, shot);
                shot += 1;
            }
            self.hear(|local, bytes| answers.extend(each(local, bytes).map(|answer| (local, answer))));
            for (local, answer) in answers.drain(..) {
                self.fire(local, &answer);
            }
            std::thread::sleep(NAP);
        }
        std::thread::sleep(LINGER);
        self.hear(|local, bytes| {
            each(local, bytes);
        });
    }
}

/// A loopback address of an attacker: 127.16.0.0 to 127.255.255.255. Bystanders have others.
#[must_use]
pub fn address(number: u64) -> Ipv4Addr {
    let [a, b, c, ..] = mix(number).to_le_bytes();
    Ipv4Addr::new(127, 16 + a % 240, b, c)
}

/// Bytes that look random.
#[must_use]
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8)).flat_map(|word| mix(seed ^ ((word as u64) << 32)).to_le_bytes());
    words.take(length).collect()
}

/// A client nonce.
#[must_use]
pub fn nonce(seed: u64) -> [u8; 16] {
    let mut nonce = [0; 16];
    nonce.copy_from_slice(&noise(seed ^ 0x6E6F_6E63, 16));
    nonce
}
