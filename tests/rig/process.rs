//! The program's own processes, ended without a word or stopped.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};

/// A child that is killed when the test ends.
pub struct Process(Child);

impl Process {
    pub fn start(arguments: &[&str]) -> Process {
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
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// A signal by its name: `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success(), "SIG{name}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Addresses that were free a moment ago.
pub fn free_tcp() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

pub fn free_udp() -> String {
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

/// An origin of 120 moving cubes at 30 ticks a second.
pub fn origin(address: &str) -> Process {
    let scene = ["origin", "--scene", "cubes", "--entities", "120", "--hz", "30"];
    Process::start(&[&scene[..], &["--listen", address]].concat())
}

pub fn relay(upstream: &str, listen: &str) -> Process {
    let fixed = ["relay", "--shards", "2", "--admin", "127.0.0.1:0"];
    Process::start(&[&fixed[..], &["--upstream", upstream, "--listen", listen]].concat())
}
