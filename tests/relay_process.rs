//! The relay as a process: signals. An origin and clients live in the test.
#![cfg(feature = "node")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ackline::client::inbox::Ending;
use ackline::client::session::{Client, SessionState};
use ackline::client::settings::ClientSettings;
use ackline::net::clock::monotonic_us;
use ackline::node::origin::{OriginHandle, OriginSettings, OriginSource};
use ackline::node::random::random;
use ackline::wire::payload::CloseReason;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

struct Relay {
    process: Child,
    data: SocketAddr,
}

impl Relay {
    fn start(origin: &OriginHandle) -> Relay {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ackline"))
            .args([
                "relay",
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--log-format",
                "json",
            ])
            .args([
                "--shards",
                "1",
                "--drain-deadline-s",
                "5",
                "--upstream",
                &origin.addr().to_string(),
            ])
            .env_remove("ACKLINE_CONFIG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let data = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let line: serde_json::Value = serde_json::from_str(&line).ok()?;
                line["clients"].as_str()?.parse().ok()
            })
            .expect("the relay says where it listens");
        // Nobody reads on; a full pipe must not stop the relay.
        std::thread::spawn(move || lines.for_each(drop));
        Relay { process, data }
    }

    /// One whose log goes to `log`, which says nothing to this test.
    fn start_logging_to(log: Stdio, origin: &OriginHandle) -> Relay {
        let data = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_ackline"))
            .args(["relay", "--listen", &data.to_string(), "--admin", "127.0.0.1:0"])
            .args(["--shards", "1", "--drain-deadline-s", "5"])
            .args(["--upstream", &origin.addr().to_string()])
            .env_remove("ACKLINE_CONFIG")
            .stderr(log)
            .spawn()
            .unwrap();
        Relay { process, data }
    }

    fn signal(&self, name: &str) {
        let told = Command::new("kill")
            .args([name, &self.process.id().to_string()])
            .status()
            .unwrap();
        assert!(told.success());
    }

    fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LONG, "the relay does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Watcher {
    client: Client,
    socket: UdpSocket,
    relay: SocketAddr,
    datagrams: u64,
}

impl Watcher {
    fn new(relay: SocketAddr) -> Watcher {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let client = Client::new(ClientSettings::default(), random().unwrap(), monotonic_us());
        Watcher {
            client,
            socket,
            relay,
            datagrams: 0,
        }
    }

    fn turn(&mut self) {
        let mut out = Vec::new();
        while self.client.poll_transmit(monotonic_us(), &mut out) {
            let _ = self.socket.send_to(&out, self.relay);
        }
        let mut buffer = [0; 2048];
        if let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            self.datagrams += 1;
            self.client.receive(monotonic_us(), &mut buffer[..length]);
        }
    }

    fn run_until(&mut self, what: &str, reached: impl Fn(&Watcher) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            assert!(begun.elapsed() < LONG, "waited in vain until {what}");
            self.turn();
        }
    }

    fn run_for(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.turn();
        }
    }
}

fn origin() -> OriginHandle {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/rl_2016_3v3_800.jsonl.zst"
    );
    let source = OriginSource::Trace {
        path: PathBuf::from(path),
        repeat: true,
        speed: 1.0,
    };
    OriginHandle::start(OriginSettings {
        tap: false,
        ..OriginSettings::loopback(source)
    })
    .unwrap()
}

/// THREATS 96, FAULTS 94: SIGTERM tells the clients, lets them go and ends with 0.
#[test]
fn threats_96_sigterm_tells_clients_and_ends_with_success() {
    let origin = origin();
    let mut relay = Relay::start(&origin);
    let mut watcher = Watcher::new(relay.data);
    watcher.run_until("snapshots come", |watcher| watcher.client.newest().is_some());
    relay.signal("-HUP");
    relay.signal("-TERM");
    watcher.run_until("the relay says goodbye", |watcher| {
        watcher.client.state() == SessionState::Closed(Ending::Relay(CloseReason::Draining))
    });
    assert_eq!(relay.end().code(), Some(0));
}

/// SPEC OPS4, THREATS 39: a log that cannot be written costs nobody the game: not a full disk, not a reader that has died, not
/// one that stands still.
#[test]
fn ops4_a_log_that_cannot_be_written_stops_nothing() {
    let origin = origin();
    let full_disk = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (_still, mut full_pipe) = std::io::pipe().unwrap();
    // As much as a pipe takes.
    full_pipe.write_all(&[b'\n'; 1 << 16]).unwrap();
    for log in [full_disk(), Stdio::from(writer), Stdio::from(full_pipe)] {
        let mut relay = Relay::start_logging_to(log, &origin);
        let mut watcher = Watcher::new(relay.data);
        watcher.run_until("snapshots come", |watcher| watcher.client.newest().is_some());
        for _ in 0..30 {
            relay.signal("-HUP");
            watcher.run_for(Duration::from_millis(10));
        }
        let before = watcher.datagrams;
        watcher.run_until("snapshots come on", |watcher| watcher.datagrams > before + 3);
        relay.signal("-TERM");
        watcher.run_until("the relay says goodbye", |watcher| {
            watcher.client.state() == SessionState::Closed(Ending::Relay(CloseReason::Draining))
        });
        assert_eq!(relay.end().code(), Some(0));
    }
}

/// FAULTS 41, THREATS 84, 99: a relay that stood still, and is given thirty ticks at once, goes on with the newest and not
/// with what it missed; its sessions live.
#[test]
fn faults_41_after_a_stall_a_client_gets_the_present_and_no_burst() {
    let origin = origin();
    let relay = Relay::start(&origin);
    let mut watcher = Watcher::new(relay.data);
    watcher.run_until("snapshots come", |watcher| watcher.client.newest().is_some());
    relay.signal("-STOP");
    watcher.run_for(Duration::from_millis(1500));
    let before = watcher.datagrams;
    relay.signal("-CONT");
    watcher.run_until("snapshots come again", |watcher| watcher.datagrams > before);
    watcher.run_for(Duration::from_millis(100));
    let burst = watcher.datagrams - before;
    // Missed: 30 ticks. In 100 ms two more are published.
    assert!(burst <= 8, "{burst} datagrams after the stall");
    let newest = watcher.client.newest().map(|newest| newest.id);
    watcher.run_until("the stream goes on", |watcher| {
        watcher.client.newest().map(|newest| newest.id) != newest
    });
    assert_eq!(watcher.client.state(), SessionState::Connected);
}
