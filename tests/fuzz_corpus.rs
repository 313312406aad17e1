//! Replays the committed corpora of every fuzz target: what was found once stays found.

#![cfg(all(feature = "client", feature = "relay", feature = "origin", feature = "trace"))]
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/src/lib.rs"]
mod fuzz;

use std::io::Write as _;
use std::path::PathBuf;

/// Runs a target's body over its corpus and its seeds; names the file that fails.
fn replay(name: &str) {
    let target = fuzz::TARGETS.iter().find(|target| target.name == name).unwrap();
    (target.seeds)().iter().for_each(|seed| (target.run)(seed));
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let Ok(files) = std::fs::read_dir(&directory) else {
        // Not by println, which a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: {} is not here", directory.display());
        return;
    };
    let mut count = 0;
    for file in files {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let failed = std::panic::catch_unwind(|| (target.run)(&bytes)).is_err();
        assert!(!failed, "{} fails, see above", path.display());
        count += 1;
    }
    println!("{name}: {count} inputs");
}

macro_rules! replays {
    ($($name:ident),*) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*
        const COVERED: &[&str] = &[
            $(stringify!($name),)*
            #[cfg(feature = "node")]
            "config",
        ];
    };
}

replays!(
    relay_datagram,
    relay_payload,
    client_datagram,
    client_payload,
    delta_body,
    schema,
    upstream_stream,
    origin_sample,
    trace
);

#[cfg(feature = "node")]
#[test]
fn config() {
    replay("config");
}

#[test]
fn every_target_is_replayed() {
    assert!(
        fuzz::TARGETS
            .iter()
            .map(|target| target.name)
            .eq(COVERED.iter().copied())
    );
}
