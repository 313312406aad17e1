//! Origin, relay and clients over real loopback sockets, in one process. Bounded in time, on free ports.

mod http;
mod players;
mod secrets;
mod service;
mod upstream;
mod watcher;

use std::path::PathBuf;
use std::time::Duration;

use super::origin::{OriginHandle, OriginSettings, OriginSource};
use super::relay::RelayHandle;
use super::settings::RelaySettings;

/// Longer than anything here takes; a test that waits this long has failed.
const LONG: Duration = Duration::from_secs(20);

/// A recording that goes round.
pub(super) fn source() -> OriginSource {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/rl_2016_3v3_800.jsonl.zst"
    );
    OriginSource::Trace {
        path: PathBuf::from(path),
        repeat: true,
        speed: 1.0,
    }
}

fn origin() -> OriginHandle {
    OriginHandle::start(OriginSettings::loopback(source())).unwrap()
}

/// A relay of two shards that gets its frames from `origin`.
fn relay(origin: &OriginHandle) -> RelayHandle {
    let settings = RelaySettings {
        shards: 2,
        ..RelaySettings::loopback(origin.addr())
    };
    let relay = RelayHandle::start(settings).unwrap();
    assert!(relay.wait_ready(LONG), "no keyframe came");
    relay
}

/// The value of a series.
fn metric(relay: &RelayHandle, series: &str) -> f64 {
    let text = relay.metrics_text();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no series {series}"))
        .parse()
        .unwrap()
}

/// Waits until a series reaches a value.
fn wait_metric(relay: &RelayHandle, series: &str, at_least: f64) {
    let begun = std::time::Instant::now();
    while metric(relay, series) < at_least {
        assert!(
            begun.elapsed() < LONG,
            "{series} is {} and not {at_least}",
            metric(relay, series)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
