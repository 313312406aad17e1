//! Clients on real sockets beside the origin's own truth, turned by hand in one thread.

#![allow(
    dead_code,
    clippy::missing_panics_doc,
    reason = "each test that includes this module uses a part of it, and panics to fail"
)]

pub mod process;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ackline::client::session::{Client, SessionState};
use ackline::client::settings::ClientSettings;
use ackline::net::clock::monotonic_us;
use ackline::node::random::random;
use ackline::sequence::Tick;
use ackline::state::Frame;
use ackline::state::world::World;
use ackline::upstream::subscriber::{Subscriber, SubscriberEvent};

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(30);

/// What the origin published: the frames of the last seconds, by its own stream.
pub struct Truth {
    address: SocketAddr,
    stream: Option<TcpStream>,
    subscriber: Subscriber,
    world: Option<World>,
    frames: VecDeque<Arc<Frame>>,
    tick: Tick,
    pub streams: u32,
}

impl Truth {
    pub fn new(address: &str) -> Truth {
        Truth {
            address: address.parse().unwrap(),
            stream: None,
            subscriber: Subscriber::new(Vec::new()),
            world: None,
            frames: VecDeque::new(),
            tick: Tick(0),
            streams: 0,
        }
    }

    pub fn turn(&mut self) {
        if self.stream.is_none() {
            let Ok(mut stream) = TcpStream::connect_timeout(&self.address, Duration::from_millis(50)) else {
                return;
            };
            if stream.write_all(&self.subscriber.start()).is_err() {
                return;
            }
            stream.set_nonblocking(true).unwrap();
            self.stream = Some(stream);
        }
        let mut events = Vec::new();
        let mut bytes = [0u8; 65_536];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut bytes) {
                Ok(length) if length > 0 => self.subscriber.receive(&bytes[..length], &mut events),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => {
                    self.stream = None;
                    self.subscriber.disconnected(&mut events);
                }
            }
        }
        for event in events {
            match event {
                SubscriberEvent::Stream(stream) if !stream.continued => {
                    self.streams += 1;
                    self.world = Some(World::new(stream.schema, self.streams, 600));
                    self.frames.clear();
                }
                SubscriberEvent::Tick(update) => {
                    self.tick = self.tick.next();
                    let frame = self
                        .world
                        .as_mut()
                        .and_then(|world| world.advance(self.tick, &update));
                    self.frames.extend(frame);
                    if self.frames.len() > 300 {
                        self.frames.pop_front();
                    }
                }
                _ => {}
            }
        }
    }

    /// True when the client shows a complete world, each record as the origin had it at that record's time.
    /// Panics when a record never was so in the stream it is shown in.
    pub fn is_shown_by(&self, client: &Client) -> bool {
        let Some(newest) = self.frames.back() else {
            return false;
        };
        let display = client.display();
        if client.statistics().view_complete_us.is_none() || display.live() != newest.live() {
            return false;
        }
        display.records().all(|(slot, record, _)| {
            let as_of_us = display.known(slot).unwrap().as_of_us;
            let mut then = self
                .frames
                .iter()
                .rev()
                .filter(|frame| frame.server_us == as_of_us)
                .peekable();
            // An old record that has not changed since is compared with the newest truth.
            let equal = |frame: &Arc<Frame>| frame.records().any(|(_, truth)| *truth == record);
            if then.peek().is_some() {
                then.any(equal)
            } else {
                equal(newest)
            }
        })
    }
}

/// A client with its socket; a new session where the old one is dead.
pub struct Viewer {
    socket: UdpSocket,
    pub client: Client,
    heard: Instant,
    pub sessions: u32,
}

impl Viewer {
    pub fn new(relay: &str) -> Viewer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(relay).unwrap();
        socket.set_nonblocking(true).unwrap();
        let client = Client::new(ClientSettings::default(), random().unwrap(), monotonic_us());
        Viewer {
            socket,
            client,
            heard: Instant::now(),
            sessions: 1,
        }
    }

    pub fn turn(&mut self, buffer: &mut Vec<u8>) {
        let mut bytes = [0u8; 2048];
        // A closed port answers with an error; that is no reason to stop.
        while let Ok(length) = self.socket.recv(&mut bytes) {
            self.client.receive(monotonic_us(), &mut bytes[..length]);
            self.heard = Instant::now();
        }
        while self.client.poll_transmit(monotonic_us(), buffer) {
            let _ = self.socket.send(buffer);
        }
        while self.client.poll_event().is_some() {}
        let closed = matches!(self.client.state(), SessionState::Closed { .. });
        if closed || self.heard.elapsed() > Duration::from_secs(1) {
            self.client = Client::new(ClientSettings::default(), random().unwrap(), monotonic_us());
            self.heard = Instant::now();
            self.sessions += 1;
        }
    }
}

pub struct Rig {
    pub truth: Truth,
    pub viewers: Vec<Viewer>,
    buffer: Vec<u8>,
}

impl Rig {
    /// `count` clients of `relay`, and the truth of the origin at `upstream`.
    pub fn new(upstream: &str, relay: &str, count: usize) -> Rig {
        let viewers = (0..count).map(|_| Viewer::new(relay)).collect();
        Rig {
            truth: Truth::new(upstream),
            viewers,
            buffer: Vec::new(),
        }
    }

    /// Turns everything until `done` holds for every viewer; how long that took.
    pub fn until(&mut self, what: &str, done: impl Fn(&Truth, &Viewer) -> bool) -> Duration {
        let begun = Instant::now();
        loop {
            self.truth.turn();
            for viewer in &mut self.viewers {
                viewer.turn(&mut self.buffer);
            }
            if self.viewers.iter().all(|viewer| done(&self.truth, viewer)) {
                return begun.elapsed();
            }
            let left = self
                .viewers
                .iter()
                .filter(|viewer| !done(&self.truth, viewer))
                .count();
            assert!(
                begun.elapsed() < LONG,
                "{what}: {left} clients are not there after {LONG:?}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
