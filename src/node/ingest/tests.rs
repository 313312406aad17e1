//! The upstream side against origins that are not there, refuse, or never finish a message.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Instant;

use super::*;
use crate::node::metrics::RelayMetrics;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// Runs the upstream side with a short patience until `reached` holds of why the relay is not ready.
fn trouble_of(upstream: &str, token: &[u8], reached: impl Fn(&str) -> bool) -> String {
    told_of(upstream, token, reached).0
}

/// The same, with the metrics at that moment.
fn told_of(upstream: &str, token: &[u8], reached: impl Fn(&str) -> bool) -> (String, String) {
    let (shelf, status) = (Arc::new(Shelf::new(Vec::new())), Arc::new(RelayStatus::new(0, 0)));
    let intake = Intake::new(Arc::clone(&shelf), Arc::clone(&status));
    let (all, _, metrics) = RelayMetrics::new(0);
    let (stop, stopped) = watch::channel(false);
    let mut ingest = Ingest::new(
        (vec![upstream.to_owned()], None),
        token.to_vec(),
        intake,
        Caller::new(Arc::default(), Arc::default()),
        (shelf, Arc::clone(&status)),
        metrics,
        stopped,
    );
    ingest.patience_us = 200_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let running = tokio::spawn(ingest.run(1));
        let begun = Instant::now();
        let said = loop {
            let said = status.troubles().join("; ");
            if reached(&said) {
                break said;
            }
            assert!(begun.elapsed() < LONG, "it says {said}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        drop(stop);
        running.abort();
        (said, all.render(&status, monotonic_us()))
    })
}

/// FAULTS 81, 82: who is not there is named by address and reason, in the log and at `/ready` alike.
#[test]
fn faults_81_what_keeps_the_upstream_away_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = trouble_of(&nobody.to_string(), b"", |said| said.contains("127.0.0.1"));
    assert!(
        said.contains(&format!(
            "the upstream {nobody} refuses connections: nothing listens there"
        )),
        "{said}"
    );
    let said = trouble_of("no-such-host.invalid:7700", b"", |said| said.contains("no-such"));
    assert!(
        said.contains("the upstream no-such-host.invalid:7700 has no address now ("),
        "{said}"
    );
}

/// THREATS 86: an origin of another version is named with its address and both versions.
#[test]
fn threats_86_another_version_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let _ = socket.write_all(&[7, 0, 0, 0, 0x11, b'A', b'C', b'K', b'U', 9, 0]);
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    let said = trouble_of(&addr.to_string(), b"", |said| said.contains("version"));
    assert!(
        said.contains(&format!(
            "from the upstream {addr}: upstream hello refused: it is of protocol version 9"
        )),
        "{said}"
    );
}

/// THREATS 82: a wrong token is named as such, with the address.
#[test]
fn threats_82_a_wrong_token_is_named() {
    use crate::node::origin::{OriginHandle, OriginSettings};
    let settings = OriginSettings {
        token: "secret".into(),
        ..OriginSettings::loopback(crate::node::tests::source())
    };
    let origin = OriginHandle::start(settings).unwrap();
    let addr = origin.addr();
    let said = trouble_of(&addr.to_string(), b"sesame", |said| said.contains("token"));
    assert!(said.contains(&format!("from the upstream {addr}: ")), "{said}");
    assert!(
        said.contains("the token is not the one this origin expects"),
        "{said}"
    );
    assert!(!said.contains("sesame") && !said.contains("secret"), "{said}");
}

/// FAULTS 44: an upstream that trickles bytes and never completes a message is given up as a silent one is.
#[test]
fn faults_44_an_upstream_that_trickles_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            // A message of 64 KiB is announced, of which a byte comes each 10 ms.
            let _ = socket.write_all(&[0, 0, 1, 0, 0x11]);
            while socket.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let begun = Instant::now();
    let said = trouble_of(&addr.to_string(), b"", |said| {
        said.contains("completed no message")
    });
    assert!(
        said.contains(&format!(
            "the upstream {addr} completed no message for 0.2 s and is given up"
        )),
        "{said}"
    );
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

/// How often attempts ended so, in a text of metrics.
fn connects(metrics: &str, result: &str) -> u64 {
    let series = format!("ackline_upstream_connects_total{{result=\"{result}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
    value.unwrap().parse().unwrap()
}

/// FAULTS 44: an origin whose process hangs still takes connections, in its kernel's backlog. Every attempt is counted
/// as one that met silence, and the sentence says what it may be; so is one that is closed without a word.
#[test]
fn faults_44_an_origin_that_hangs_is_counted_and_named() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = hung.local_addr().unwrap();
    let (said, metrics) = told_of(&addr.to_string(), b"", |said| said.contains("given up"));
    assert!(
        said.contains(&format!(
            "the upstream {addr} completed no message for 0.2 s and is given up: does its process hang"
        )),
        "{said}"
    );
    assert!(connects(&metrics, "silent") >= 1, "{metrics}");
    assert_eq!(connects(&metrics, "unanswered"), 0);

    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = closing.local_addr().unwrap();
    std::thread::spawn(move || while closing.accept().is_ok() {});
    let (said, metrics) = told_of(&addr.to_string(), b"", |said| {
        said.contains("before it said anything")
    });
    assert!(said.contains("upstream_ca_file"), "{said}");
    assert!(connects(&metrics, "closed") >= 1, "{metrics}");
}

/// FAULTS 44: an origin that streamed and crashes was no silent one: nothing is said of TLS, and the attempt stays one
/// that connected.
#[test]
fn faults_44_an_origin_that_crashes_is_not_taken_for_a_silent_one() {
    use crate::node::origin::{OriginHandle, OriginSettings};
    let origin = OriginHandle::start(OriginSettings::loopback(crate::node::tests::source())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, behind) = (listener.local_addr().unwrap(), origin.addr());
    std::thread::spawn(move || {
        let (mut relay, _) = listener.accept().unwrap();
        let mut origin = std::net::TcpStream::connect(behind).unwrap();
        let (mut up, mut to) = (relay.try_clone().unwrap(), origin.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut up, &mut to));
        // Hello, a keyframe and many ticks; then it is gone in the middle of one.
        let mut left = 60_000;
        let mut bytes = [0; 4096];
        while left > 0 {
            let count = origin.read(&mut bytes).unwrap().min(left);
            relay.write_all(&bytes[..count]).unwrap();
            left -= count;
        }
        let _ = relay.shutdown(std::net::Shutdown::Both);
        drop(listener);
    });
    let (said, metrics) = told_of(&addr.to_string(), b"", |said| {
        said.contains("closed the connection")
    });
    assert!(
        said.contains(&format!(
            "the upstream {addr} closed the connection; it is tried again"
        )),
        "{said}"
    );
    assert_eq!(
        (connects(&metrics, "connected"), connects(&metrics, "closed")),
        (1, 0)
    );
}
