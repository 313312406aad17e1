//! The bodies of Ackline's fuzz targets.
//!
//! One body, two callers: `fuzz_targets/` hands it what libFuzzer invents, `tests/fuzz_corpus.rs` of the main
//! package includes this file and hands it the committed corpora. A body takes any bytes, reads them as a list
//! of choices ([`tape`]) and asserts the rule it is about at every step.

#![allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)]

pub mod client_datagram;
pub mod client_payload;
#[cfg(feature = "node")]
pub mod config;
pub mod delta_body;
pub mod origin_sample;
pub mod records;
pub mod relay_datagram;
pub mod relay_mirror;
pub mod relay_payload;
pub mod schema;
pub mod seat;
pub mod seeds;
pub mod stage;
pub mod tape;
pub mod trace;
pub mod upstream_stream;

/// A target's name, its body, and its seeds.
pub struct Target {
    /// The name of its fuzz target and of its corpus.
    pub name: &'static str,
    /// Takes any bytes; panics when a rule is broken.
    pub run: fn(&[u8]),
    /// What its corpus began with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "relay_datagram",
        run: relay_datagram::run,
        seeds: seeds::relay_datagram,
    },
    Target {
        name: "relay_payload",
        run: relay_payload::run,
        seeds: seeds::relay_payload,
    },
    Target {
        name: "client_datagram",
        run: client_datagram::run,
        seeds: seeds::client_datagram,
    },
    Target {
        name: "client_payload",
        run: client_payload::run,
        seeds: seeds::client_payload,
    },
    Target {
        name: "delta_body",
        run: delta_body::run,
        seeds: seeds::delta_body,
    },
    Target {
        name: "schema",
        run: schema::run,
        seeds: seeds::schema,
    },
    Target {
        name: "upstream_stream",
        run: upstream_stream::run,
        seeds: seeds::upstream_stream,
    },
    Target {
        name: "origin_sample",
        run: origin_sample::run,
        seeds: seeds::origin_sample,
    },
    Target {
        name: "trace",
        run: trace::run,
        seeds: seeds::trace,
    },
    #[cfg(feature = "node")]
    Target {
        name: "config",
        run: config::run,
        seeds: config::seeds,
    },
];
