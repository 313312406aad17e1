//! The relay as a service manager sees it (`sd_notify(3)`): a socket in this test stands for systemd.
#![cfg(feature = "node")]
#![allow(clippy::unwrap_used)]

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

struct Service {
    process: Child,
    socket: UnixDatagram,
    path: PathBuf,
}

impl Service {
    /// A relay without an origin, told of the socket and of a watchdog of so many microseconds.
    fn start(name: &str, watchdog: Option<(&str, &str)>) -> Service {
        Service::with(name, watchdog, &[])
    }

    /// The same with more flags.
    fn with(name: &str, watchdog: Option<(&str, &str)>, more: &[&str]) -> Service {
        let path = std::env::temp_dir().join(format!("ackline-{name}-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackline"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ACKLINE_")) {
            command.env_remove(name);
        }
        command.env_remove("WATCHDOG_PID").env_remove("WATCHDOG_USEC");
        if let Some((microseconds, pid)) = watchdog {
            command.env("WATCHDOG_USEC", microseconds);
            if !pid.is_empty() {
                command.env("WATCHDOG_PID", pid);
            }
        }
        let process = command
            .args(["relay", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--upstream", "127.0.0.1:1", "--drain-deadline-s", "7"])
            .args(more)
            .env("NOTIFY_SOCKET", &path)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Service {
            process,
            socket,
            path,
        }
    }

    fn next(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.socket.recv(&mut bytes).expect("something is said");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The next that begins so.
    fn until(&self, begin: &str) -> String {
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            let said = self.next();
            if said.starts_with(begin) {
                return said;
            }
        }
        panic!("{begin} is not said");
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A relay is ready once it listens, whether its origin is there or not; it gives signs of life in time, says that it
/// reloads and that it has, and that it stops.
#[test]
fn a_service_manager_is_told_of_each_step() {
    let mut service = Service::start("supervised", Some(("400000", "")));
    assert_eq!(service.next(), "READY=1", "the first word");
    let begun = Instant::now();
    for _ in 0..5 {
        service.until("WATCHDOG=1");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "five signs within {:?}",
        begun.elapsed()
    );
    service.signal("HUP");
    let said = service.until("RELOADING=1");
    let stamp = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&said);
    let now_us = ackline::net::clock::monotonic_us();
    assert!(
        stamp
            .parse::<u64>()
            .is_ok_and(|stamp| stamp <= now_us && now_us - stamp < 20_000_000),
        "{said}"
    );
    service.until("READY=1");
    service.signal("TERM");
    assert_eq!(
        service.until("STOPPING=1"),
        "STOPPING=1\nEXTEND_TIMEOUT_USEC=17000000"
    );
    assert!(service.process.wait().unwrap().success());
}

/// A reload that is refused ends with the reason in the status line, and not as one that was taken.
#[test]
fn a_service_manager_is_told_of_a_refused_reload() {
    let file = std::env::temp_dir().join(format!("ackline-supervised-{}.toml", std::process::id()));
    std::fs::write(&file, "shards = 1\n").unwrap();
    let service = Service::with("refused", None, &["--config", file.to_str().unwrap()]);
    assert_eq!(service.next(), "READY=1");
    std::fs::write(&file, "shards = 1\nshards = \n").unwrap();
    service.signal("HUP");
    service.until("RELOADING=1");
    let said = service.until("READY=1");
    assert!(
        said.starts_with("READY=1\nSTATUS=reload refused: ") && said.contains("line 2"),
        "{said}"
    );
    std::fs::write(&file, "shards = 1\n").unwrap();
    service.signal("HUP");
    service.until("RELOADING=1");
    assert_eq!(service.until("READY=1"), "READY=1");
    let said = service.until("STATUS=");
    assert!(!said.contains("refused"), "{said}");
    std::fs::remove_file(file).unwrap();
}

/// The watchdog of another process is none of ours; the state is told all the same.
#[test]
fn a_watchdog_of_another_process_gets_no_sign() {
    let service = Service::start("unwatched", Some(("200000", "1")));
    assert_eq!(service.next(), "READY=1");
    let said = service.next();
    assert!(
        said.starts_with("STATUS=no keyframe has come from the upstream yet"),
        "{said}"
    );
    service
        .socket
        .set_read_timeout(Some(Duration::from_millis(600)))
        .unwrap();
    let mut bytes = [0; 1024];
    while let Ok(length) = service.socket.recv(&mut bytes) {
        assert!(bytes[..length].starts_with(b"STATUS="));
    }
}
