//! `kill -9` of the relay and of the origin, as processes: every client shows the origin's truth again within
//! three seconds, and nothing of an old stream epoch (SPEC OPS2, PLY7; THREATS 79, 95; FAULTS 44, 46).
#![cfg(all(feature = "node", feature = "scenes"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod rig;

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rig::Rig;

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

#[test]
fn threats_79_95_clients_show_the_truth_again_within_three_seconds() {
    let (upstream, listen) = (free_tcp(), free_udp());
    let mut first_origin = Some(origin(&upstream));
    let mut first_relay = Some(relay(&upstream, &listen));
    let mut rig = Rig::new(&upstream, &listen, CLIENTS);
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
