//! Conformance: a corpus emitted by the shipped relay encoder and the shipped client as the reference, read by a
//! second reader in Python that was written from docs/PROTOCOL.md and docs/PROTOCOL-delta.md alone.
//!
//! `ACKLINE_CONFORMANCE_PACKETS` sets how many payloads must be decoded (10,000 without it),
//! `ACKLINE_CONFORMANCE_OUT` where a copy of the corpus goes, `ACKLINE_CONFORMANCE_SEED` makes another corpus.
//! Without `python3` the corpus is made and checked for what it must hold, and the reading is skipped,
//! which stderr says.
//!
//! The walk: `sessions` runs worlds of `origin` through a relay's shard; `middle` sits between it and the client,
//! logs to `corpus`, and puts in payloads that `damage` makes from good ones (`payloads`, `headers`, `schemas`,
//! `entries`).

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]

mod bits;
mod corpus;
mod damage;
mod dice;
mod entries;
mod forge;
mod headers;
mod middle;
mod origin;
mod payload;
mod payloads;
mod schemas;
mod sessions;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ackline::client::refusal::Refusal;
use corpus::Corpus;
use damage::Damage;

const PACKETS: u64 = 10_000;
/// How often each kind of session comes: once with damaged payloads, once in peace.
const ROUNDS: u64 = 2;

fn packets() -> u64 {
    let text = std::env::var("ACKLINE_CONFORMANCE_PACKETS");
    text.map_or(PACKETS, |text| {
        text.parse().expect("ACKLINE_CONFORMANCE_PACKETS is a number")
    })
}

/// Another number, another corpus.
fn seed() -> u64 {
    let text = std::env::var("ACKLINE_CONFORMANCE_SEED");
    text.map_or(0, |text| {
        text.parse().expect("ACKLINE_CONFORMANCE_SEED is a number")
    })
}

fn emit(path: &Path, packets: u64) -> Corpus {
    let mut corpus = Corpus::create(path);
    let mut damage = Damage::default();
    let each = packets / (ROUNDS * sessions::KINDS as u64) + 1;
    let (seed, mut number) = (seed(), 0);
    while corpus.accepted < packets {
        sessions::run(number, seed, each.max(300), &mut corpus, &mut damage);
        number += 1;
    }
    corpus.finish()
}

/// Every word of section 10 that a payload can earn.
fn reachable() -> impl Iterator<Item = &'static str> {
    let by_payload = |refusal: &Refusal| {
        matches!(
            refusal,
            Refusal::MalformedPayload
                | Refusal::MalformedSchema
                | Refusal::UnknownStream
                | Refusal::DistrustedBase
                | Refusal::Window(_)
                | Refusal::Body(_)
        )
    };
    Refusal::all().filter(by_payload).map(Refusal::label)
}

fn assert_covers(corpus: &Corpus, packets: u64) {
    println!(
        "{} accepted, {} bytes, refused {:?}",
        corpus.accepted, corpus.bytes, corpus.refused
    );
    println!("injected (refused, accepted): {:?}", corpus.injected);
    assert!(
        corpus.surprises.is_empty(),
        "the reference is not as documented: {:#?}",
        corpus.surprises
    );
    assert!(corpus.accepted >= packets);
    assert!(
        corpus.negatives.len() >= 200,
        "{} negative vectors",
        corpus.negatives.len()
    );
    println!("{:?}", corpus.deeds);
    let deeds = &corpus.deeds;
    for (what, count) in [
        ("streams adopted", deeds.streams_adopted),
        ("session epochs begun", deeds.epochs_begun),
        ("advances", deeds.advances_applied),
        ("late parts", deeds.parts_late),
        ("events delivered", deeds.events_delivered),
        ("digests that differed", deeds.digest_mismatches),
        ("members gone unheard", deeds.reconciled),
        ("inputs acknowledged", deeds.inputs_acknowledged),
        ("owner states", deeds.owner_states),
    ] {
        assert!(count >= 3, "{what}: {count}");
    }
    let names = entries::ENTRIES
        .iter()
        .map(|(name, ..)| name)
        .chain(schemas::WOUNDS.iter().map(|(name, _)| name));
    for name in names {
        assert!(corpus.injected.contains_key(name), "never injected: {name}");
    }
    for word in reachable() {
        assert!(
            corpus.refused.contains_key(word),
            "no payload was refused with {word}"
        );
    }
}

/// The counts of the reader's last line, `N packets, N refusals, ...: agreed`.
fn counts(output: &str) -> Option<Vec<u64>> {
    let (counts, verdict) = output.lines().last()?.split_once(": ")?;
    let number = |part: &str| part.split_whitespace().next()?.parse().ok();
    (verdict == "agreed").then(|| counts.split(", ").map(number).collect())?
}

/// SPEC TAB1, TAB2, DEC9, THREATS 44: two independent readers of the protocol's documents decode the same payloads to the
/// same tables, and refuse the same ones with the same words.
#[test]
fn a_second_reader_agrees() {
    let packets = packets();
    let directory = std::env::temp_dir().join(format!("ackline-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("corpus.jsonl");
    let corpus = emit(&path, packets);
    if let Some(copy) = std::env::var_os("ACKLINE_CONFORMANCE_OUT") {
        std::fs::copy(&path, PathBuf::from(copy)).unwrap();
    }
    assert_covers(&corpus, packets);
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/reader.py");
    let output = match Command::new("python3").arg(reader).arg(&path).output() {
        Ok(output) => output,
        Err(error) => {
            // Not by println, which a test that passes keeps to itself.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: the second reader read nothing, since python3 cannot be run ({error})"
            );
            return std::fs::remove_dir_all(&directory).unwrap();
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "the second reader disagrees; the corpus is {}\n{text}\n{}",
        path.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{}", text.trim_end());
    let counts = counts(&text).expect("a summary");
    assert!(counts[0] >= corpus.accepted, "packets: {counts:?}");
    assert!(counts[1] >= corpus.negatives.len() as u64, "refusals: {counts:?}");
    std::fs::remove_dir_all(&directory).unwrap();
}
