//! `examples/publisher.py`, a game server in another language, feeds a relay: its clients show what it publishes,
//! also where it misbehaves (THREATS 83, 86).
#![cfg(feature = "node")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod rig;

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ackline::node::relay::RelayHandle;
use ackline::node::settings::RelaySettings;
use rig::Rig;

struct Publisher {
    process: Child,
    address: String,
}

impl Publisher {
    /// `None` where there is no Python.
    fn start(arguments: &[&str]) -> Option<Publisher> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/publisher.py");
        let mut process = Command::new("python3")
            .arg(script)
            .args([
                "--listen",
                "127.0.0.1:0",
                "--entities",
                "20",
                "--hz",
                "30",
                "--seconds",
                "60",
            ])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{line}"))
            .to_owned();
        Some(Publisher { process, address })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn feed(arguments: &[&str]) {
    let Some(publisher) = Publisher::start(arguments) else {
        // Not by println, which a test that passes keeps to itself.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: there is no python3 to run examples/publisher.py with"
        );
        return;
    };
    let settings = RelaySettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: "127.0.0.1:0".parse().unwrap(),
        upstream: vec![publisher.address.clone()],
        shards: 1,
        ..RelaySettings::default()
    };
    let relay = RelayHandle::start(settings).unwrap();
    let mut rig = Rig::new(&publisher.address, &relay.data_addr().to_string(), 5);
    let shown = rig.until("the Python publisher's world", |truth, viewer| {
        truth.is_shown_by(&viewer.client)
    });
    println!("{arguments:?}: shown after {shown:?}");
    // Later again: past the breaks, which come in the first ticks, and some spawns and teleports.
    rig.until("forty ticks later", |_, viewer| {
        viewer.client.statistics().snapshots_received > 40
    });
    rig.until("the world after it went on", |truth, viewer| {
        truth.is_shown_by(&viewer.client)
    });
    assert!(
        rig.viewers.iter().all(|viewer| viewer.sessions == 1),
        "no session ended"
    );
    relay.shutdown();
}

#[test]
fn a_publisher_in_python_feeds_a_relay() {
    feed(&[]);
}

#[test]
fn threats_83_a_publisher_that_misbehaves_does_not_end_the_stream() {
    for kind in ["out-of-range", "dead-generation", "truncated"] {
        feed(&["--break", kind]);
    }
}
