//! One session and its socket.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::net::SocketAddr;

use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::limits::{DATAGRAM_MAX, DRIVER_RECEIVES_MAX, RECEIVE_SLOT_BYTES, SOCKET_AGAIN_US};
use crate::net::plain::{PlainCounts, PlainSocket};
use crate::wire::handshake::ClientNonce;

/// True when a datagram was this session's: a snapshot that is refused for what it says came from its relay too.
fn is_sign_of_life(received: Received) -> bool {
    match received {
        Received::Refused(refusal) => matches!(
            refusal,
            Refusal::Window(_) | Refusal::Body(_) | Refusal::UnknownStream | Refusal::DistrustedBase
        ),
        _ => true,
    }
}

/// Room for a datagram each way.
pub(super) struct Buffers {
    received: Box<[u8; RECEIVE_SLOT_BYTES]>,
    sent: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers {
            received: Box::new([0; RECEIVE_SLOT_BYTES]),
            sent: Vec::with_capacity(DATAGRAM_MAX),
        }
    }
}

/// A session and the way to its relay.
pub(super) struct Line {
    pub(super) relay: SocketAddr,
    pub(super) client: Client,
    /// `None` while the system gives none.
    socket: Option<PlainSocket>,
    socket_us: u64,
    /// Since when nothing was heard.
    pub(super) quiet_us: u64,
    /// A pause of the game's was taken off the silence; that is done once until it is heard again.
    is_excused: bool,
    /// The number of the token it asks with, until something came of that.
    token: Option<u32>,
    /// Of sockets that are gone.
    past: PlainCounts,
}

impl Line {
    /// Begins to ask `relay` for a session.
    pub(super) fn open(
        relay: SocketAddr,
        settings: ClientSettings,
        nonce: ClientNonce,
        token: u32,
        now_us: u64,
    ) -> Line {
        Line {
            relay,
            client: Client::new(settings, nonce, now_us),
            socket: PlainSocket::connect(relay).ok(),
            socket_us: now_us,
            quiet_us: now_us,
            is_excused: false,
            token: Some(token),
            past: PlainCounts::default(),
        }
    }

    /// True when the session is over.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.client.state(), SessionState::Closed(_))
    }

    /// True when the relay has let the client in and nobody has left.
    pub(super) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::Connected
    }

    /// The number of the token it asked with, once.
    pub(super) fn take_token(&mut self) -> Option<u32> {
        self.token.take()
    }

    /// The game stood still until now: what was not heard meanwhile is no silence, which is counted from `floor_us` on. A game
    /// that never polls in time is excused once, until the relay is heard again.
    pub(super) fn excuse(&mut self, floor_us: u64) {
        if !self.is_excused {
            self.is_excused = true;
            self.quiet_us = self.quiet_us.max(floor_us);
        }
    }

    /// Takes what has arrived; true when anything of it was this session's.
    pub(super) fn receive(
        &mut self,
        now_us: u64,
        buffers: &mut Buffers,
        watch: &mut impl FnMut(&Client, Received),
    ) -> bool {
        let mut heard = false;
        for _ in 0..DRIVER_RECEIVES_MAX {
            let Some(socket) = &mut self.socket else { break };
            let Some(length) = socket.receive(&mut buffers.received[..]) else {
                break;
            };
            let Some(datagram) = buffers.received.get_mut(..length) else {
                break;
            };
            let received = self.client.receive(now_us, datagram);
            if is_sign_of_life(received) {
                (heard, self.quiet_us) = (true, now_us);
                self.is_excused = false;
            }
            watch(&self.client, received);
        }
        heard
    }

    /// Sends what is due.
    pub(super) fn transmit(&mut self, now_us: u64, buffers: &mut Buffers) {
        if self.socket.is_none() && now_us.saturating_sub(self.socket_us) >= SOCKET_AGAIN_US {
            self.rebind(now_us);
        }
        while self.client.poll_transmit(now_us, &mut buffers.sent) {
            if let Some(socket) = &mut self.socket {
                socket.send(&buffers.sent);
            }
        }
    }

    /// Makes the socket anew: another port, and the address of the network there is now. The session goes on: the relay
    /// knows it by its id.
    pub(super) fn rebind(&mut self, now_us: u64) {
        self.socket_us = now_us;
        let socket = PlainSocket::connect(self.relay).ok();
        if let Some(old) = core::mem::replace(&mut self.socket, socket) {
            self.past.add(&old.counts());
        }
    }

    /// When the socket was made.
    pub(super) fn socket_us(&self) -> u64 {
        self.socket_us
    }

    /// Says goodbye once, where there is a session to leave.
    pub(super) fn leave(mut self, now_us: u64, buffers: &mut Buffers) -> PlainCounts {
        if !self.is_closed() {
            self.client.leave(now_us);
            self.transmit(now_us, buffers);
        }
        self.counts()
    }

    /// The address datagrams leave from.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.socket.as_ref().and_then(PlainSocket::local)
    }

    /// What its sockets counted.
    pub(super) fn counts(&self) -> PlainCounts {
        let mut counts = self.past;
        if let Some(socket) = &self.socket {
            counts.add(&socket.counts());
        }
        counts
    }
}
