//! What the clients of one thread share: their relay, their judge, their counts, room for a datagram.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use mio::net::UdpSocket;

use super::attack::bystander;
use super::oracle::Oracle;
use super::tally::Tally;
use super::viewer::RenderSettings;
use crate::client::settings::ClientSettings;
use crate::node::minter::Minter;
use crate::state::view::View;

/// What all members share and need at every step.
pub struct Surroundings {
    /// Where the relay is.
    pub relay: SocketAddr,
    /// How clients begin.
    pub settings: ClientSettings,
    /// Each client has a loopback address of its own.
    pub apart: bool,
    /// Number of the first client's player, drawn anew for each run: a player has one session at a relay, and other hosts' benches
    /// have players too.
    pub players_from: u64,
    /// What mints a token for each session; without one the relay must ask for none.
    pub minter: Option<Minter>,
    /// When measuring ends: the links become clean.
    pub clean_us: u64,
    /// Inputs each client pushes in a second.
    pub input_hz: f64,
    /// What each client draws; `None` for nothing.
    pub render: Option<RenderSettings>,
    /// The view that every client must have been given, where it is known.
    pub view: Option<View>,
    /// What the clients of this thread are judged by.
    pub oracle: Oracle,
    /// What this thread counts.
    pub tally: Tally,
    /// Randomness of the system, for the clients' nonces.
    pub random: ring::rand::SystemRandom,
    /// Room for one received datagram, always of its full length.
    pub buffer: Vec<u8>,
    /// Room for one datagram to be sent, or out of a link.
    pub datagram: Vec<u8>,
}

impl Surroundings {
    /// The address of the client of this number, where it has one of its own.
    #[must_use]
    pub fn own_address(&self, client: u32) -> Option<Ipv4Addr> {
        self.apart.then(|| bystander(client))
    }

    /// How the client of this number begins a session: with a token of its own, where tokens are minted. A system without
    /// randomness mints none, and the relay then says no.
    #[must_use]
    pub fn client_settings(&self, client: u64) -> ClientSettings {
        let token = self.minter.as_ref().and_then(|minter| {
            let player = self.players_from.wrapping_add(client);
            minter.mint(player).ok()
        });
        match token {
            Some(token) => self.settings.clone().with_token(&token),
            None => self.settings.clone(),
        }
    }
}

/// Sends a datagram; one that the system does not take is lost, as datagrams may be. `refused` is set when the
/// relay's host says that nobody listens.
pub fn send(socket: &UdpSocket, datagram: &[u8], refused: &mut bool, tally: &mut Tally) {
    match socket.send(datagram) {
        Ok(_) => {
            tally.up += 1;
            tally.up_bytes += datagram.len() as u64;
        }
        Err(error) => *refused |= error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// A socket of its own for a client of `relay`.
///
/// # Errors
/// When the system has no more.
pub fn open_socket(relay: SocketAddr, own: Option<Ipv4Addr>) -> io::Result<UdpSocket> {
    let any: SocketAddr = match relay {
        SocketAddr::V4(_) if own.is_some() => (own.unwrap_or(Ipv4Addr::UNSPECIFIED), 0).into(),
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(relay)?;
    Ok(socket)
}

/// A well-mixed number from a seed (the finaliser of SplitMix64, Sebastiano Vigna, public domain).
#[must_use]
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
