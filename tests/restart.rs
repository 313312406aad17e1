//! `kill -9` of the relay and of the origin, as processes: every client shows the origin's truth again within
//! three seconds, and nothing of an old stream epoch (SPEC OPS2, PLY7; THREATS 79, 95; FAULTS 44, 46).
#![cfg(all(feature = "node", feature = "scenes"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
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
const LONG: Duration = Duration::from_secs(30);
/// Within which everyone shows the truth again.
const AGAIN: Duration = Duration::from_secs(3);
const CLIENTS: usize = 20;

/// A child that is killed when the test ends.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let child = Command::new(env!("CARGO_BIN_EXE_ackline"))
            .args(arguments)
            .env_remove("ACKLINE_CONFIG")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }

    /// SIGKILL: nothing is said, nothing is cleaned up.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Addresses that were free a moment ago.
fn free_tcp() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

fn free_udp() -> String {
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

fn origin(address: &str) -> Process {
    Process::start(&[
        "origin",
        "--scene",
        "cubes",
        "--entities",
        "120",
        "--hz",
        "30",
        "--listen",
        address,
    ])
}

fn relay(upstream: &str, listen: &str) -> Process {
    let fixed = ["relay", "--shards", "2", "--admin", "127.0.0.1:0"];
    Process::start(&[&fixed[..], &["--upstream", upstream, "--listen", listen]].concat())
}

/// What the origin published: the frames of the last seconds, by its own stream.
struct Truth {
    address: SocketAddr,
    stream: Option<TcpStream>,
    subscriber: Subscriber,
    world: Option<World>,
    frames: VecDeque<Arc<Frame>>,
    tick: Tick,
    streams: u32,
}

impl Truth {
    fn new(address: &str) -> Truth {
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

    fn turn(&mut self) {
        if self.stream.is_none() {
            let Ok(mut stream) = TcpStream::connect_timeout(&self.address, Duration::from_millis(50)) else {
                return;
            };
            stream.write_all(&self.subscriber.start()).unwrap();
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
    fn is_shown_by(&self, client: &Client) -> bool {
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
            let equal = |frame: &Arc<Frame>| frame.records().any(|(_, truth)| truth == record);
            if then.peek().is_some() {
                then.any(equal)
            } else {
                equal(newest)
            }
        })
    }
}

/// A client with its socket; a new session where the old one is dead.
struct Viewer {
    socket: UdpSocket,
    client: Client,
    heard: Instant,
    sessions: u32,
}

impl Viewer {
    fn new(relay: &str) -> Viewer {
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

    fn turn(&mut self, buffer: &mut Vec<u8>) {
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

struct Rig {
    truth: Truth,
    viewers: Vec<Viewer>,
    buffer: Vec<u8>,
}

impl Rig {
    /// Turns everything until `done` holds for every viewer; how long that took.
    fn until(&mut self, what: &str, done: impl Fn(&Truth, &Viewer) -> bool) -> Duration {
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
                "{what}: {left} of {CLIENTS} clients are not there after {LONG:?}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn threats_79_95_clients_show_the_truth_again_within_three_seconds() {
    let (upstream, listen) = (free_tcp(), free_udp());
    let mut first_origin = Some(origin(&upstream));
    let mut first_relay = Some(relay(&upstream, &listen));
    let viewers = (0..CLIENTS).map(|_| Viewer::new(&listen)).collect();
    let mut rig = Rig {
        truth: Truth::new(&upstream),
        viewers,
        buffer: Vec::new(),
    };
    let joined = rig.until("joining", |truth, viewer| truth.is_shown_by(&viewer.client));
    println!("{CLIENTS} clients show the truth after {joined:?}");

    first_relay.take().unwrap().kill();
    let before: Vec<u32> = rig.viewers.iter().map(|viewer| viewer.sessions).collect();
    let _relay = relay(&upstream, &listen);
    let most = before.iter().copied().max().unwrap();
    let again = rig.until("after the relay's death", |truth, viewer| {
        viewer.sessions > most && truth.is_shown_by(&viewer.client)
    });
    println!("the relay killed and started again: all show the truth after {again:?}");
    assert!(again <= AGAIN, "{again:?} after the relay's death");

    let streams = rig.truth.streams;
    first_origin.take().unwrap().kill();
    let _origin = origin(&upstream);
    let again = rig.until("after the origin's death", |truth, viewer| {
        // A new stream epoch at the client, and only it: a display of the old world has other times and numbers.
        truth.streams > streams && viewer.client.stream_epoch() == 2 && truth.is_shown_by(&viewer.client)
    });
    println!("the origin killed and started again: all show the new world after {again:?}");
    assert!(again <= AGAIN, "{again:?} after the origin's death");
    assert!(
        rig.viewers
            .iter()
            .all(|viewer| viewer.client.refusals().total() < 200),
        "no flood of refusals"
    );
}
