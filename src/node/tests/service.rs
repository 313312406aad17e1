//! The relay as a service: who may start, what a drain says, who is moved where.

use std::time::{Duration, Instant};

use super::super::relay::RelayHandle;
use super::super::settings::RelaySettings;
use super::watcher::Watcher;
use super::{LONG, metric, origin, relay, wait_metric};
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::session::SessionState;
use crate::client::settings::ClientSettings;
use crate::wire::handshake::Denial;
use crate::wire::payload::CloseReason;
use crate::wire::version::Versions;

/// FAULTS 105: a second relay on the same port is refused in one sentence; two on free ports share nothing.
#[test]
fn faults_105_two_relays_share_neither_a_port_nor_a_metric() {
    let origin = origin();
    let (one, other) = (relay(&origin), relay(&origin));
    let settings = RelaySettings {
        listen: one.data_addr(),
        ..RelaySettings::loopback(origin.addr())
    };
    let error = RelayHandle::start(settings).err().unwrap().to_string();
    assert!(
        error.contains(&one.data_addr().to_string()) && !error.contains('\n'),
        "{error}"
    );
    let settings = RelaySettings {
        admin: one.admin_addr(),
        ..RelaySettings::loopback(origin.addr())
    };
    let error = RelayHandle::start(settings).err().unwrap().to_string();
    assert!(error.contains("admin address"), "{error}");
    let _watcher = Watcher::joined(one.data_addr());
    wait_metric(&one, "ackline_clients", 1.0);
    assert_eq!(metric(&other, "ackline_sessions_opened_total"), 0.0);
}

/// SPEC OPS4: with a spread a drain takes that long to tell the last of its clients, and tells every one.
#[test]
fn ops4_a_drain_with_a_spread_tells_its_clients_one_after_the_other() {
    let origin = origin();
    let relay = RelayHandle::start(RelaySettings {
        shards: 1,
        drain_spread_s: 1,
        ..RelaySettings::loopback(origin.addr())
    })
    .unwrap();
    assert!(relay.wait_ready(LONG));
    let watchers: Vec<Watcher> = (0..4).map(|_| Watcher::joined(relay.data_addr())).collect();
    let begun = Instant::now();
    relay.drain();
    assert!(relay.wait_drained(LONG));
    // The fourth of four is told after three quarters of the time.
    assert!(
        begun.elapsed() >= Duration::from_millis(750),
        "{:?}",
        begun.elapsed()
    );
    wait_metric(&relay, "ackline_sessions_closed_total{reason=\"draining\"}", 4.0);
    drop(watchers);
}

/// SPEC OPS4: a drain tells every client, admits nobody, and is over soon.
#[test]
fn ops4_a_drain_tells_every_client_and_admits_nobody() {
    let origin = origin();
    let relay = relay(&origin);
    let mut watchers: Vec<Watcher> = (0..4).map(|_| Watcher::joined(relay.data_addr())).collect();
    relay.drain();
    for watcher in &mut watchers {
        watcher.run_until("the relay says goodbye", |watcher| {
            watcher.saw(&ClientEvent::Closed(Ending::Relay(CloseReason::Draining)))
        });
    }
    assert!(relay.wait_drained(LONG));
    let mut late = Watcher::new(relay.data_addr());
    late.run_until("it is denied", |late| {
        late.client.state() == SessionState::Closed(Ending::Denied(Denial::Draining))
    });
    wait_metric(&relay, "ackline_sessions_closed_total{reason=\"draining\"}", 4.0);
    assert_eq!(metric(&relay, "ackline_clients"), 0.0);
    let usage = relay.shutdown();
    assert!(
        usage.shard_cpu_ns > 0 && usage.datagrams_sent > 0 && usage.sessions == 0,
        "{usage:?}"
    );
    assert!(
        usage.encode_ns > 0 && usage.seal_ns > 0 && usage.send_ns > 0,
        "{usage:?}"
    );
}

/// FAULTS 50: a client whose address changes is found by its connection id, on whichever shard's socket its
/// datagrams arrive.
#[test]
fn faults_50_a_client_that_moves_keeps_its_session_across_shards() {
    let origin = origin();
    let relay = relay(&origin);
    let mut watcher = Watcher::joined(relay.data_addr());
    let mut moves = 0;
    while metric(&relay, "ackline_datagrams_forwarded_total{result=\"taken\"}") < 1.0 {
        moves += 1;
        assert!(moves < 40, "the kernel never chose the other shard");
        watcher.rebind();
        let newest = watcher.client.newest().map(|newest| newest.id);
        watcher.run_until("snapshots come to the new address", |watcher| {
            watcher.client.newest().map(|newest| newest.id) != newest
        });
        std::thread::sleep(std::time::Duration::from_millis(110));
    }
    assert_eq!(metric(&relay, "ackline_sessions_opened_total"), 1.0);
    assert!(metric(&relay, "ackline_session_migrations_total") >= 1.0);
}

/// Garbage is refused and counted by reason; the session beside it goes on.
#[test]
fn strangers_are_counted_and_disturb_nobody() {
    let origin = origin();
    let relay = relay(&origin);
    let mut watcher = Watcher::joined(relay.data_addr());
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..200 {
        let datagram = vec![0x20; length * 11];
        stranger.send_to(&datagram, relay.data_addr()).unwrap();
    }
    wait_metric(&relay, "ackline_datagrams_refused_total{reason=\"size\"}", 1.0);
    let newest = watcher.client.newest().map(|newest| newest.id);
    watcher.run_until("the stream goes on", |watcher| {
        watcher.client.newest().map(|newest| newest.id) != newest
    });
    assert_eq!(metric(&relay, "ackline_sessions_opened_total"), 1.0);
    // Made-up connection ids name shards that there are not: refused, and no shard is said to be slow.
    for shard in 2..100 {
        let mut datagram = vec![0x20; 60];
        datagram[4] = shard;
        stranger.send_to(&datagram, relay.data_addr()).unwrap();
    }
    wait_metric(
        &relay,
        "ackline_datagrams_refused_total{reason=\"unknown_connection\"}",
        98.0,
    );
    assert_eq!(
        metric(&relay, "ackline_datagrams_forwarded_total{result=\"dropped\"}"),
        0.0
    );
}

/// With `protocol_min` at the newest version clients of the one before are denied, and told which is spoken; others are served.
#[test]
fn threats_20_a_relay_may_end_the_version_before() {
    let origin = origin();
    let relay = RelayHandle::start(RelaySettings {
        protocol_min: 3,
        ..RelaySettings::loopback(origin.addr())
    })
    .unwrap();
    assert!(relay.wait_ready(LONG));
    let old = ClientSettings {
        versions: Versions::between(2, 2).unwrap(),
        ..ClientSettings::default()
    };
    let mut watcher = Watcher::with(relay.data_addr(), old);
    let denied = SessionState::Closed(Ending::Denied(Denial::Version));
    watcher.run_until("it is denied", |watcher| watcher.client.state() == denied);
    Watcher::joined(relay.data_addr());
    wait_metric(
        &relay,
        "ackline_handshakes_refused_total{reason=\"version\"}",
        1.0,
    );
    assert_eq!(metric(&relay, "ackline_sessions{version=\"2\"}"), 0.0);
}
