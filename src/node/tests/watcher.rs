//! A client on a socket of its own.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::LONG;
use crate::client::inbox::ClientEvent;
use crate::client::session::Client;
use crate::client::settings::ClientSettings;
use crate::net::clock::monotonic_us;
use crate::state::record::Record;

pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) events: Vec<ClientEvent>,
    socket: UdpSocket,
    relay: SocketAddr,
    out: Vec<u8>,
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    socket
}

impl Watcher {
    pub(super) fn new(relay: SocketAddr) -> Watcher {
        Watcher::with(relay, ClientSettings::default())
    }

    pub(super) fn with(relay: SocketAddr, settings: ClientSettings) -> Watcher {
        let nonce = crate::node::random::random().unwrap();
        let client = Client::new(settings, nonce, monotonic_us());
        Watcher {
            client,
            events: Vec::new(),
            socket: socket(),
            relay,
            out: Vec::new(),
        }
    }

    /// A client whose view is complete.
    pub(super) fn joined(relay: SocketAddr) -> Watcher {
        let mut watcher = Watcher::new(relay);
        watcher.run_until("the view is complete", |watcher| {
            watcher.saw(&ClientEvent::ViewComplete)
        });
        watcher
    }

    /// The client's address changes, as when a NAT forgets it.
    pub(super) fn rebind(&mut self) {
        self.socket = socket();
    }

    pub(super) fn saw(&self, event: &ClientEvent) -> bool {
        self.events.contains(event)
    }

    /// Runs the client until `reached`.
    pub(super) fn run_until(&mut self, what: &str, mut reached: impl FnMut(&Watcher) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            assert!(
                begun.elapsed() < LONG,
                "waited in vain until {what}; {:?}",
                self.client.state()
            );
            self.turn();
        }
    }

    pub(super) fn turn(&mut self) {
        while self.client.poll_transmit(monotonic_us(), &mut self.out) {
            let _ = self.socket.send_to(&self.out, self.relay);
        }
        let mut buffer = [0; 2048];
        if let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            self.client.receive(monotonic_us(), &mut buffer[..length]);
        }
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
    }

    /// What is shown, by entity.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self
            .client
            .display()
            .records()
            .map(|(_, record, _)| record)
            .collect();
        records.sort_by_key(|record| record.entity.id);
        records
    }
}
