//! The operators' HTTP, asked as anybody would.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::catalogue::CATALOGUE;
use super::super::relay::RelayHandle;
use super::super::settings::RelaySettings;
use super::watcher::Watcher;
use super::{LONG, metric, origin, relay, wait_metric};
use crate::limits::ADMIN_CONNECTIONS_MAX;

/// Status, headers and body.
fn ask(admin: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    ask_with(admin, method, path, "")
}

/// The same with other header lines.
fn ask_with(admin: SocketAddr, method: &str, path: &str, lines: &str) -> (u16, String, String) {
    let mut socket = TcpStream::connect(admin).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\nContent-Length: 0\r\n{lines}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

pub(super) fn json(admin: SocketAddr, method: &str, path: &str) -> (u16, Value) {
    let (status, _, body) = ask(admin, method, path);
    (status, serde_json::from_str(&body).unwrap())
}

/// FAULTS 52, 81: before anything came from the upstream every metric is there at zero, the relay is alive and not
/// ready, and says why.
#[test]
fn before_the_first_keyframe_all_metrics_exist_and_ready_says_why_not() {
    // A port that refuses connections: bound once, and free again.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let relay = RelayHandle::start(RelaySettings {
        shards: 2,
        ..RelaySettings::loopback(nobody)
    })
    .unwrap();
    let admin = relay.admin_addr();
    let (status, head, text) = ask(admin, "GET", "/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    for entry in CATALOGUE {
        assert!(
            text.contains(&format!("# TYPE {} ", entry.name)),
            "{}",
            entry.name
        );
    }
    assert!(text.contains("ackline_clients 0") && text.contains("process_threads"));
    assert_eq!(
        json(admin, "GET", "/live"),
        (200, serde_json::json!({ "live": true }))
    );
    let (status, body) = json(admin, "GET", "/ready");
    assert_eq!(status, 503);
    assert!(
        body["reasons"][0].as_str().unwrap().contains("keyframe"),
        "{body}"
    );
    wait_metric(
        &relay,
        "ackline_upstream_connects_total{result=\"connection_refused\"}",
        2.0,
    );
    assert_eq!(ask(admin, "GET", "/nothing").0, 404);
    assert_eq!(ask(admin, "GET", "/drain").0, 405);
}

/// FAULTS 81: ready with the first keyframe, still ready when the upstream is gone, not ready while draining.
#[test]
fn ready_follows_the_first_keyframe_and_the_drain_but_not_the_upstream() {
    let origin = origin();
    let relay = relay(&origin);
    let admin = relay.admin_addr();
    assert_eq!(ask(admin, "GET", "/ready").0, 200);
    origin.stop(false);
    let mut watcher = Watcher::joined(relay.data_addr());
    watcher.run_until("the loss is told", |watcher| watcher.client.is_upstream_stale());
    assert_eq!(
        (ask(admin, "GET", "/ready").0, ask(admin, "GET", "/live").0),
        (200, 200)
    );
    let (status, body) = json(admin, "POST", "/drain");
    assert_eq!((status, &body["draining"]), (202, &Value::Bool(true)));
    let (status, body) = json(admin, "GET", "/ready");
    assert_eq!(
        (status, body["reasons"][0].as_str()),
        (503, Some("the relay is draining"))
    );
}

/// A relay without a free place is ready, since those it has play on, and warns of it; the places there are can be scraped.
#[test]
fn a_full_relay_is_ready_and_warns_of_it() {
    let origin = origin();
    let relay = RelayHandle::start(RelaySettings {
        sessions_max: 1,
        shards: 1,
        ..RelaySettings::loopback(origin.addr())
    })
    .unwrap();
    assert!(relay.wait_ready(LONG));
    let admin = relay.admin_addr();
    assert_eq!(json(admin, "GET", "/ready").1["warnings"], Value::Null);
    let _watcher = Watcher::joined(relay.data_addr());
    wait_metric(&relay, "ackline_clients", 1.0);
    // Metrics and status are exported by the shard one after the other.
    std::thread::sleep(Duration::from_millis(300));
    let (status, body) = json(admin, "GET", "/ready");
    assert_eq!((status, &body["ready"]), (200, &Value::Bool(true)), "{body}");
    let warning = body["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("all 1 places are taken"), "{body}");
    assert_eq!(metric(&relay, "ackline_sessions_max"), 1.0);
}

/// Single sessions are told of in pages, over all shards, and found by id.
#[test]
fn sessions_come_in_pages_and_by_id() {
    let origin = origin();
    let relay = relay(&origin);
    let admin = relay.admin_addr();
    let mut watchers: Vec<Watcher> = (0..5).map(|_| Watcher::joined(relay.data_addr())).collect();
    for watcher in &mut watchers {
        watcher.run_until("it has a snapshot", |watcher| watcher.client.newest().is_some());
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let (status, page) = json(admin, "GET", &format!("/sessions?offset={at}&limit=2"));
        assert_eq!((status, page["total"].as_u64()), (200, Some(5)), "{page}");
        let sessions = page["sessions"].as_array().unwrap();
        assert!(!sessions.is_empty() && sessions.len() <= 2);
        for session in sessions {
            assert!(
                session["bytes"].as_u64().unwrap() > 0 && session["slots_in_use"].as_u64().unwrap() > 0,
                "{session}"
            );
            seen.insert(session["connection"].as_str().unwrap().to_owned());
        }
        offset = page["next_offset"].as_u64();
    }
    assert_eq!(seen.len(), 5);
    let one = seen.first().unwrap();
    let (status, found) = json(admin, "GET", &format!("/sessions?connection={one}"));
    assert_eq!(
        (status, found[0]["connection"].as_str()),
        (200, Some(one.as_str()))
    );
    let seen = (found[0]["view"].as_str(), found[0]["view_tags"].as_str());
    assert_eq!(seen, (Some("whole"), Some("ffffffff")), "as the relay is set");
    let seen = ["client", "protocol", "budget_bytes_per_s"].map(|key| found[0][key].as_u64());
    assert_eq!(
        seen,
        [Some(0), Some(3), Some(512 << 10)],
        "nobody in particular, the relay's own budget"
    );
    wait_metric(&relay, "ackline_sessions{version=\"3\"}", 5.0);
    assert_eq!(ask(admin, "GET", "/sessions?connection=0").0, 404);
    assert_eq!(ask(admin, "GET", "/sessions?connection=xyz").0, 400);
    assert_eq!(ask(admin, "GET", "/sessions?limit=many").0, 400);
}

#[test]
fn config_shows_what_is_in_force_without_secrets() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let settings = RelaySettings {
        upstream_token: "hunter2".into(),
        ..RelaySettings::loopback(nobody)
    };
    let relay = RelayHandle::start(settings).unwrap();
    let (status, config) = json(relay.admin_addr(), "GET", "/config");
    assert_eq!(
        (status, config["listen"].as_str()),
        (200, Some(relay.data_addr().to_string().as_str()))
    );
    assert!(!config.to_string().contains("hunter2"), "{config}");
    assert_eq!(
        config["insecure"], true,
        "on loopback without keys whoever asks is let in"
    );
    wait_metric(&relay, "ackline_insecure", 1.0);
}

/// Requests that never end have few places and little time: a probe is answered beside any number of them, and they go.
#[test]
fn requests_that_never_end_keep_no_probe_out() {
    let origin = origin();
    let relay = relay(&origin);
    let admin = relay.admin_addr();
    let half = || {
        let mut socket = TcpStream::connect(admin).unwrap();
        socket.write_all(b"GET /live HTTP/1.1\r\nHo").unwrap();
        socket
    };
    let mut slow: VecDeque<TcpStream> = VecDeque::new();
    for round in 0..10 {
        slow.extend((0..30).map(|_| half()));
        let begun = Instant::now();
        assert_eq!(ask(admin, "GET", "/live").0, 200, "round {round}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    let open = |slow: &VecDeque<TcpStream>| {
        let is_open = |socket: &&TcpStream| {
            socket.set_nonblocking(true).unwrap();
            let read = (&mut &**socket).read(&mut [0]);
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        slow.iter().filter(is_open).count()
    };
    let begun = Instant::now();
    while open(&slow) > ADMIN_CONNECTIONS_MAX {
        assert!(begun.elapsed() < LONG, "{} are open", open(&slow));
        std::thread::sleep(Duration::from_millis(5));
    }
    while open(&slow) > 0 {
        let patience = LONG;
        assert!(begun.elapsed() < patience, "{} are open", open(&slow));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Without a token a page of somebody else in an operator's browser does nothing and reads nothing; programs do, and a probe is
/// told whether the relay is ready, not of whom.
#[test]
fn pages_of_others_neither_drain_nor_read() {
    // A port that refuses connections: bound once, and free again.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let nobody = nobody.unwrap();
    let start = |token: &str| {
        let relay = RelayHandle::start(RelaySettings {
            admin_token: token.into(),
            shards: 1,
            ..RelaySettings::loopback(nobody)
        })
        .unwrap();
        wait_metric(
            &relay,
            "ackline_upstream_connects_total{result=\"connection_refused\"}",
            1.0,
        );
        relay
    };
    let relay = start("");
    let admin = relay.admin_addr();
    for line in [
        "Origin: http://evil.example\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Host: evil.example\r\n",
    ] {
        for (method, path) in [("POST", "/drain"), ("GET", "/config"), ("GET", "/metrics")] {
            let (status, _, body) = ask_with(admin, method, path, line);
            assert_eq!(status, 403, "{method} {path} {line}");
            assert!(body.contains("give the relay an admin_token"), "{body}");
        }
        let (status, _, body) = ask_with(admin, "GET", "/ready", line);
        assert!(status == 503 && !body.contains(&nobody.to_string()), "{body}");
        assert_eq!(ask_with(admin, "GET", "/live", line).0, 200);
    }
    // Those nine are counted, so that a Prometheus which asks by a name with a dot is seen; the probes are not refused.
    wait_metric(&relay, "ackline_admin_refused_total", 9.0);
    assert_eq!(metric(&relay, "ackline_admin_refused_total"), 9.0);
    let (_, _, body) = ask(admin, "GET", "/ready");
    assert!(
        body.contains(&nobody.to_string()) && !body.contains("draining"),
        "{body}"
    );
    assert_eq!(ask(admin, "POST", "/drain").0, 202);

    let relay = start("open sesame");
    let admin = relay.admin_addr();
    let (status, _, body) = ask(admin, "GET", "/ready");
    assert!(status == 503 && body.contains("no keyframe"), "{body}");
    assert!(!body.contains(&nobody.to_string()), "{body}");
    let shown = "Host: evil.example\r\nAuthorization: Bearer open sesame\r\n";
    let (_, _, body) = ask_with(admin, "GET", "/ready", shown);
    assert!(body.contains(&nobody.to_string()), "{body}");
}

/// SPEC OPS3: with an admin token only who shows it sees or does anything; the probes ask for none.
#[test]
fn ops3_with_an_admin_token_only_the_probes_are_open() {
    let origin = origin();
    let relay = RelayHandle::start(RelaySettings {
        admin_token: "open sesame".into(),
        shards: 1,
        ..RelaySettings::loopback(origin.addr())
    })
    .unwrap();
    assert!(relay.wait_ready(LONG));
    let admin = relay.admin_addr();
    let guarded = [
        ("GET", "/metrics"),
        ("GET", "/config"),
        ("GET", "/sessions"),
        ("POST", "/drain"),
    ];
    for shown in [
        "",
        "Authorization: Bearer open sesam\r\n",
        "Authorization: Bearer open sesame!\r\n",
        "Authorization: Basic open sesame\r\n",
    ] {
        for (method, path) in guarded {
            let (status, head, body) = ask_with(admin, method, path, shown);
            assert_eq!(status, 401, "{method} {path} {shown:?}");
            assert!(head.contains("www-authenticate: bearer") && body.contains("admin_token"));
            assert!(!body.contains("sesame"), "{body}");
        }
    }
    assert_eq!(
        (ask(admin, "GET", "/live").0, ask(admin, "GET", "/ready").0),
        (200, 200)
    );
    // The probe above showed none and is no intruder; one that shows a wrong token is.
    let (status, _, _) = ask_with(admin, "GET", "/ready", "Authorization: Bearer wrong\r\n");
    assert_eq!(status, 200);
    wait_metric(&relay, "ackline_admin_refused_total", 17.0);
    assert_eq!(metric(&relay, "ackline_admin_refused_total"), 17.0);
    for (method, path) in guarded {
        let (status, _, body) = ask_with(admin, method, path, "authorization: bearer open sesame\r\n");
        assert!(status == 200 || (path == "/drain" && status == 202), "{path}");
        assert!(!body.contains("sesame"), "{body}");
    }
}
