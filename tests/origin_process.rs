//! The origin as a process: what it says of its subscribers.
#![cfg(feature = "node")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use ackline::upstream::subscriber::Subscriber;

/// Each subscriber is named by its address: when it subscribes, when it goes, and why it was turned away.
#[test]
fn subscribers_are_named_when_they_come_and_when_they_go() {
    let trace = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/rl_2016_3v3_800.jsonl.zst"
    );
    let mut origin = Command::new(env!("CARGO_BIN_EXE_ackline"))
        .args(["origin", "--trace", trace, "--loop", "--listen", "127.0.0.1:0"])
        .args(["--token", "secret", "--log-format", "json", "--log", "info"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(origin.stderr.take().expect("piped")).lines();
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let next = |what: &str| loop {
        let line = said.recv_timeout(Duration::from_secs(20)).expect(what);
        let text = line["message"].as_str().unwrap_or_default().to_owned();
        if text.starts_with(what) {
            return (text, line);
        }
    };
    let (_, started) = next("origin started");
    let addr = started["relays"].as_str().expect("an address").to_owned();

    let mut good = TcpStream::connect(&addr).expect("connects");
    let name = good.local_addr().expect("has one");
    good.write_all(&Subscriber::new(b"secret".to_vec()).start())
        .expect("writes");
    assert_eq!(next("subscriber").0, format!("subscriber {name} subscribed"));
    drop(good);
    assert_eq!(
        next("subscriber").0,
        format!("subscriber {name} closed the connection")
    );

    let mut wrong = TcpStream::connect(&addr).expect("connects");
    let name = wrong.local_addr().expect("has one");
    wrong
        .write_all(&Subscriber::new(b"sesame".to_vec()).start())
        .expect("writes");
    let _ = wrong.read_to_end(&mut Vec::new());
    drop(wrong);
    let (text, line) = next("subscriber");
    assert_eq!(
        text,
        format!("subscriber {name} was refused: its token is not the right one")
    );
    assert_eq!(line["level"], "WARN");
    let _ = origin.kill();
    let _ = origin.wait();
}
