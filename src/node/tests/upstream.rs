//! The relay and its origin: what a client sees of a loss, who is refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::origin::{OriginHandle, OriginSettings};
use super::super::relay::RelayHandle;
use super::super::settings::RelaySettings;
use super::super::tls::tests::Papers;
use super::watcher::Watcher;
use super::{LONG, metric, origin, relay, source, wait_metric};
use crate::client::inbox::ClientEvent;
use crate::limits::{EPOCH_MAX, UPSTREAM_CONNECT_US};
use crate::net::clock::monotonic_us;
use crate::net::files::raise_open_files;
use crate::origin::publisher::Publisher;
use crate::state::record::Record;
use crate::state::schema::tests::full_schema;
use crate::state::update::TickUpdate;

/// SPEC OPS2, FAULTS 43, 44, THREATS 87: the origin dies; the client keeps exactly the last world and is told that it is stale;
/// a new origin at the same address is a new stream, and the client follows without a new session.
#[test]
fn ops2_a_client_outlives_its_origin() {
    let first = origin();
    let addr = first.addr();
    let relay = relay(&first);
    let mut watcher = Watcher::joined(relay.data_addr());
    let truth = first.truth().unwrap().clone();
    first.stop(false);
    watcher.run_until("the loss is told", |watcher| {
        watcher.saw(&ClientEvent::UpstreamStale(true))
    });

    // What the relay had last is some tick near the end: the client must have that world, whole.
    let frames: Vec<Vec<Record>> = truth
        .try_iter()
        .map(|truth| {
            let mut records: Vec<Record> = truth.frame.records().map(|(_, record)| *record).collect();
            records.sort_by_key(|record| record.entity.id);
            records
        })
        .collect();
    watcher.run_until("the client has a whole world", |watcher| {
        let held = watcher.records();
        !held.is_empty() && frames.iter().rev().take(30).any(|records| *records == held)
    });
    assert_eq!(metric(&relay, "ackline_upstream_connected"), 0.0);
    assert_eq!(watcher.client.stream_epoch(), 1);

    let second = OriginHandle::start(OriginSettings {
        listen: addr,
        ..OriginSettings::loopback(source())
    })
    .unwrap();
    watcher.run_until("the new stream is followed", |watcher| {
        watcher.client.stream_epoch() == 2 && watcher.client.display().live() > 0
    });
    watcher.run_until("the stream is alive", |watcher| {
        !watcher.client.is_upstream_stale()
    });
    assert_eq!(metric(&relay, "ackline_sessions_opened_total"), 1.0);
    assert_eq!(metric(&relay, "ackline_upstream_epoch_changes_total"), 1.0);
    assert_eq!(metric(&relay, "ackline_upstream_connected"), 1.0);
    assert!(metric(&relay, "ackline_upstream_lag_seconds") < 5.0);
    drop(second);
}

/// FAULTS 43: while the origin is away a tick is repeated once a second. Of who joins between two, and of what strangers are
/// answered then, the age of that tick is no delay of the relay's: it is as fast as ever, and no alert is due.
#[test]
fn faults_43_who_joins_while_the_origin_is_away_is_no_delay() {
    let first = origin();
    let settings = RelaySettings {
        shards: 1,
        ..RelaySettings::loopback(first.addr())
    };
    let relay = RelayHandle::start(settings).unwrap();
    assert!(relay.wait_ready(LONG));
    // A place that a session had, and that is free again when ticks come.
    let mut guest = Watcher::joined(relay.data_addr());
    guest.client.leave(monotonic_us());
    while relay.usage().sessions > 0 {
        guest.turn();
    }
    let begun = Instant::now();
    first.stop(false);
    let holds = || metric(&relay, "ackline_upstream_holds_total");
    wait_metric(&relay, "ackline_upstream_connected", 0.0);
    // In the first second it is repeated more often.
    while metric(&relay, "ackline_upstream_lag_seconds") < 1.2 {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Of how many datagrams the delay was over a quarter of a second.
    let slow = || {
        let bucket = |le: &str| {
            metric(
                &relay,
                &format!("ackline_relay_delay_seconds_bucket{{le=\"{le}\"}}"),
            )
        };
        bucket("+Inf") - bucket("0.25")
    };
    wait_metric(&relay, "ackline_upstream_holds_total", holds() + 1.0);
    let before = slow();
    std::thread::sleep(Duration::from_millis(400));
    // Others ask at the same time, so that answers wait to be sent when the guest takes its place.
    let (mut asked, data) = (Vec::new(), relay.data_addr());
    assert!(
        Watcher::new(data)
            .client
            .poll_transmit(monotonic_us(), &mut asked)
    );
    let over = Arc::new(AtomicBool::new(false));
    let others = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            while !over.load(Ordering::Relaxed) {
                socket.send_to(&asked, data).unwrap();
            }
        }
    });
    let _guest = Watcher::joined(data);
    over.store(true, Ordering::Relaxed);
    others.join().unwrap();
    wait_metric(&relay, "ackline_snapshots_sent_total", 1.0);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(
        slow() - before,
        0.0,
        "the age of a tick that lay ready is no delay"
    );
}

/// THREATS 86: an origin of another version is refused and asked again, for ever; the relay is not ready.
#[test]
fn threats_86_another_protocol_version_is_refused_and_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let strange = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut socket, _) = listener.accept().unwrap();
            // A hello of version 9: length, kind, magic, version.
            let _ = socket.write_all(&[7, 0, 0, 0, 0x11, b'A', b'C', b'K', b'U', 9, 0]);
            let mut rest = Vec::new();
            let _ = socket.read_to_end(&mut rest);
        }
    });
    let relay = RelayHandle::start(RelaySettings {
        shards: 1,
        ..RelaySettings::loopback(addr)
    })
    .unwrap();
    wait_metric(&relay, "ackline_upstream_connects_total{result=\"refused\"}", 3.0);
    assert!(!relay.is_ready());
    strange.join().unwrap();
}

/// THREATS 82: an origin with a token serves only who shows it.
#[test]
fn threats_82_a_relay_without_the_token_is_refused() {
    let settings = OriginSettings {
        token: "secret".into(),
        ..OriginSettings::loopback(source())
    };
    let origin = OriginHandle::start(settings).unwrap();
    let wrong = RelaySettings {
        upstream_token: "sesame".into(),
        ..RelaySettings::loopback(origin.addr())
    };
    let relay = RelayHandle::start(wrong.clone()).unwrap();
    wait_metric(&relay, "ackline_upstream_connects_total{result=\"refused\"}", 1.0);
    assert!(!relay.is_ready() && origin.counts().subscribers == 0);
    let right = RelayHandle::start(RelaySettings {
        upstream_token: "secret".into(),
        ..wrong
    })
    .unwrap();
    assert!(right.wait_ready(LONG));
}

/// Connections that say nothing, 600 at a time and ever new ones, until it is dropped.
struct Silence {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Silence {
    fn at(addr: SocketAddr) -> Silence {
        raise_open_files(4096).unwrap();
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let (begun, begins) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut held = std::collections::VecDeque::new();
            while !stopped.load(Ordering::Relaxed) {
                held.extend(TcpStream::connect(addr).ok());
                if held.len() > 600 {
                    held.pop_front();
                    let _ = begun.send(());
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        begins.recv_timeout(LONG).unwrap();
        Silence {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// THREATS 82: beside hundreds of connections that say nothing, a relay with the token gets its stream within the time it waits
/// for one, plainly and under TLS.
#[test]
fn threats_82_silent_connections_keep_no_relay_out() {
    let papers = Papers::new("silence");
    for identity in [None, Some(papers.identity())] {
        let trust = identity.is_some().then(|| papers.trust());
        let origin = OriginHandle::start(OriginSettings {
            token: "sesame".into(),
            identity,
            ..OriginSettings::loopback(source())
        })
        .unwrap();
        let silence = Silence::at(origin.addr());
        let relay = RelayHandle::start(RelaySettings {
            upstream_token: "sesame".into(),
            upstream_trust: trust,
            shards: 1,
            ..RelaySettings::loopback(origin.addr())
        })
        .unwrap();
        assert!(relay.wait_ready(Duration::from_micros(UPSTREAM_CONNECT_US)));
        // And stays there, where those who do not subscribe go.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(origin.counts().subscribers, 1);
        assert_eq!(metric(&relay, "ackline_upstream_connected"), 1.0);
        drop(silence);
    }
}

/// THREATS 80: an origin with a lower epoch than one that came before is refused, and a relay that is ready says so, with the way
/// out.
#[test]
fn threats_80_who_is_fenced_out_is_told_at_ready() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let relay = RelayHandle::start(RelaySettings {
        shards: 1,
        ..RelaySettings::loopback(addr)
    })
    .unwrap();
    let ahead = |epoch| Publisher::new(full_schema(), epoch, 1, 0).unwrap();
    for epoch in [u64::MAX, EPOCH_MAX] {
        let (mut socket, _) = listener.accept().unwrap();
        let publisher = ahead(epoch);
        socket.write_all(&publisher.hello()).unwrap();
        socket.write_all(&publisher.keyframe()).unwrap();
        match epoch {
            EPOCH_MAX => assert!(relay.wait_ready(LONG)),
            _ => wait_metric(&relay, "ackline_upstream_connects_total{result=\"refused\"}", 1.0),
        }
    }
    drop(listener);
    let origin = OriginHandle::start(OriginSettings {
        listen: addr,
        ..OriginSettings::loopback(source())
    })
    .unwrap();
    wait_metric(&relay, "ackline_upstream_connects_total{result=\"fenced\"}", 1.0);
    let (status, body) = super::http::json(relay.admin_addr(), "GET", "/ready");
    assert_eq!((status, body["ready"].as_bool()), (200, Some(true)));
    let said = body["warnings"][0].as_str().unwrap();
    assert!(said.contains("is older than epoch 4611686018427387904"), "{said}");
    assert!(said.contains("restart the relay"), "{said}");
    drop(origin);
}

/// THREATS 82: with `upstream_ca_file` ticks come from whom that file vouches for, under TLS, and from nobody else; an origin
/// with a certificate speaks plainly with nobody.
#[test]
fn threats_82_a_relay_believes_whom_its_file_vouches_for() {
    let (papers, others) = (Papers::new("believed"), Papers::new("others"));
    let origin = OriginHandle::start(OriginSettings {
        identity: Some(papers.identity()),
        ..OriginSettings::loopback(source())
    })
    .unwrap();
    let start = |upstream: std::net::SocketAddr, trust: Option<&Papers>| {
        RelayHandle::start(RelaySettings {
            upstream_trust: trust.map(Papers::trust),
            shards: 1,
            ..RelaySettings::loopback(upstream)
        })
        .unwrap()
    };
    let relay = start(origin.addr(), Some(&papers));
    assert!(relay.wait_ready(LONG));
    // Both ways: ticks come, and what players do goes up.
    let mut watcher = Watcher::joined(relay.data_addr());
    watcher.run_until("the world is shown", |watcher| {
        watcher.client.display().live() > 0
    });
    let unbelieved = "ackline_upstream_connects_total{result=\"unbelieved\"}";
    assert_eq!(metric(&relay, unbelieved), 0.0);

    let deceived = start(origin.addr(), Some(&others));
    wait_metric(&deceived, unbelieved, 1.0);
    let plain_origin = super::origin();
    let strict = start(plain_origin.addr(), Some(&papers));
    wait_metric(&strict, unbelieved, 1.0);
    let plain = start(origin.addr(), None);
    // It is no stream of ours that answers, and what it is is known.
    wait_metric(&plain, unbelieved, 1.0);
    for relay in [&deceived, &strict, &plain] {
        assert!(!relay.is_ready());
        assert_eq!(metric(relay, "ackline_upstream_connected"), 0.0);
    }
    assert_eq!(origin.counts().subscribers, 1);
}

/// FAULTS 82: addresses are tried in order; a name that is nobody's and a port that nobody has do not stop it.
#[test]
fn faults_82_the_next_address_is_tried() {
    let origin = origin();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = RelaySettings::loopback(origin.addr());
    let upstream = vec![
        "no-such-host.invalid:7700".to_owned(),
        nobody.to_string(),
        settings.upstream[0].clone(),
    ];
    let relay = RelayHandle::start(RelaySettings { upstream, ..settings }).unwrap();
    assert!(relay.wait_ready(LONG));
    assert!(
        metric(
            &relay,
            "ackline_upstream_connects_total{result=\"connection_refused\"}"
        ) >= 1.0
    );
}

/// One origin serves several relays; each tick is in the tap, in order, with its time.
#[test]
fn an_origin_serves_several_relays_and_tells_its_truth() {
    let settings = OriginSettings {
        wait_for_subscriber: true,
        ..OriginSettings::loopback(source())
    };
    let origin = OriginHandle::start(settings).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(origin.counts().ticks, 0, "it waits for the first subscriber");
    let (one, other) = (relay(&origin), relay(&origin));
    assert!(origin.wait_subscribed(LONG));
    wait_metric(&one, "ackline_upstream_frames_total", 20.0);
    wait_metric(&other, "ackline_upstream_frames_total", 20.0);
    assert_eq!(origin.counts().subscribers, 2);
    let truth = origin.truth().unwrap().clone();
    let counts = origin.stop(true);
    let ticks: Vec<TickUpdate> = truth.try_iter().map(|truth| (*truth.update).clone()).collect();
    assert_eq!(ticks.len() as u64, counts.ticks);
    assert!(
        ticks
            .windows(2)
            .all(|pair| pair[0].origin_tick + 1 == pair[1].origin_tick)
    );
    assert!(
        ticks
            .windows(2)
            .all(|pair| pair[0].published_us <= pair[1].published_us && pair[0].published_us > 0)
    );
    assert_eq!((counts.refused, counts.truth_lost), (0, 0));
}

/// SPEC OPS1: a subscriber that does not read delays neither ticks nor another subscriber.
#[test]
fn ops1_a_subscriber_that_does_not_read_disturbs_nobody() {
    let origin = origin();
    let mut lazy = std::net::TcpStream::connect(origin.addr()).unwrap();
    lazy.write_all(&crate::upstream::subscriber::Subscriber::new(Vec::new()).start())
        .unwrap();
    let relay = relay(&origin);
    let before = metric(&relay, "ackline_upstream_frames_total");
    wait_metric(&relay, "ackline_upstream_frames_total", before + 30.0);
    assert_eq!(origin.counts().stalls, 0);
}
