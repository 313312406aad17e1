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
    let (shelf, status) = (Arc::new(Shelf::new(Vec::new())), Arc::new(RelayStatus::new(0, 0)));
    let intake = Intake::new(Arc::clone(&shelf), Arc::clone(&status));
    let (_, _, metrics) = RelayMetrics::new(0);
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
        said
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
