//! The corpus: a text file of JSON lines, what one client after another went through.
//!
//! * `{"op":"session","name":"..."}`: a new client, nothing known.
//! * `{"op":"down","payload":"HEX","expect":"ok"}` or a word of section 10 of docs/PROTOCOL.md. After `ok`
//!   sometimes `"tables":[[id,mask,members,[digest,digest]],...]`, all snapshots held now, and
//!   `"display":[live,[digest,digest]]`, all records shown now, and `"owner":[tick,processed,slot,[digest,digest]]`, the
//!   owner's state, or `null`.
//! * `{"op":"input"}`: the player pushed an input.
//! * `{"op":"report",...}`: the client makes a report; `hold_back` are held snapshots that are not in it.
//! * `{"op":"messages","next":n,"received":["HEX",...]}`: messages that came in order since the last such line.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use ackline::client::session::Client;
use ackline::client::statistics::Statistics;
use ackline::state::digest::Digest;
use ackline::wire::report::Report;

pub struct Corpus {
    out: BufWriter<File>,
    line: String,
    /// Payloads the client accepted.
    pub accepted: u64,
    /// Payloads it refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Injected payloads by name: how many were refused, and how many accepted.
    pub injected: BTreeMap<&'static str, (u64, u64)>,
    /// Injected payloads that were refused, each counted once.
    pub negatives: HashSet<Vec<u8>>,
    /// What went against the document; nothing should.
    pub surprises: Vec<String>,
    pub bytes: u64,
    /// What the clients counted in all.
    pub deeds: Deeds,
}

/// Sums over all clients; see [`Statistics`].
#[derive(Debug, Default)]
pub struct Deeds {
    pub streams_adopted: u64,
    pub epochs_begun: u64,
    pub advances_applied: u64,
    pub parts_late: u64,
    pub events_delivered: u64,
    pub digest_mismatches: u64,
    pub reconciled: u64,
    pub inputs_acknowledged: u64,
    pub owner_states: u64,
    pub reinstated: u64,
    pub parts_window_full: u64,
}

impl Deeds {
    /// Adds what one client counted.
    pub fn add(&mut self, client: &Statistics) {
        self.streams_adopted += client.streams_adopted;
        self.epochs_begun += client.epochs_begun;
        self.advances_applied += client.advances_applied;
        self.parts_late += client.parts_late;
        self.events_delivered += client.events_delivered;
        self.digest_mismatches += client.digest_mismatches;
        self.reconciled += client.reconciled;
        self.inputs_acknowledged += client.inputs_acknowledged;
        self.owner_states += client.owner_states;
        self.reinstated += client.reinstated;
        self.parts_window_full += client.parts_window_full;
    }
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

fn list<T>(items: impl IntoIterator<Item = T>, out: &mut String, put: impl Fn(T, &mut String)) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        put(item, out);
    }
    out.push(']');
}

/// Number and digest of everything shown.
pub fn shown(client: &Client) -> (usize, Digest) {
    let records = client.display().records();
    let sum = records.fold(Digest::EMPTY, |sum, (_, record, _)| sum.plus(Digest::of(&record)));
    (client.display().live(), sum)
}

/// Every snapshot held: id, mask, members, digest.
pub fn tables(client: &Client) -> Vec<(u32, u32, usize, [u32; 2])> {
    let row = |(held, table): (
        ackline::wire::snapshot::Held,
        ackline::client::table::TableView<'_>,
    )| { (held.id.0, held.mask, table.records().count(), table.digest().0) };
    let mut rows: Vec<_> = client.tables().map(row).collect();
    rows.sort_unstable();
    rows
}

impl Corpus {
    pub fn create(path: &Path) -> Corpus {
        Corpus {
            out: BufWriter::new(File::create(path).unwrap()),
            line: String::new(),
            accepted: 0,
            refused: BTreeMap::new(),
            injected: BTreeMap::new(),
            negatives: HashSet::new(),
            surprises: Vec::new(),
            bytes: 0,
            deeds: Deeds::default(),
        }
    }

    fn end_line(&mut self) {
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes()).unwrap();
        self.bytes += self.line.len() as u64;
        self.line.clear();
    }

    pub fn finish(mut self) -> Corpus {
        self.out.flush().unwrap();
        self
    }

    pub fn session(&mut self, name: &str) {
        let _ = write!(self.line, r#"{{"op":"session","name":"{name}"}}"#);
        self.end_line();
    }

    /// A payload and the client's word for it; the client is as it was afterwards.
    pub fn down(&mut self, payload: &[u8], refusal: Option<&'static str>, client: &Client) {
        self.line.push_str(r#"{"op":"down","payload":""#);
        hex(payload, &mut self.line);
        let _ = write!(self.line, r#"","expect":"{}""#, refusal.unwrap_or("ok"));
        if let Some(word) = refusal {
            *self.refused.entry(word).or_default() += 1;
        } else {
            self.accepted += 1;
            if self.accepted.is_multiple_of(5) {
                self.line.push_str(r#","tables":"#);
                list(
                    tables(client),
                    &mut self.line,
                    |(id, mask, members, [a, b]), out| {
                        let _ = write!(out, "[{id},{mask},{members},[{a},{b}]]");
                    },
                );
            }
            if self.accepted.is_multiple_of(10) {
                let (live, Digest([a, b])) = shown(client);
                let _ = write!(self.line, r#","display":[{live},[{a},{b}]]"#);
                match client.owner() {
                    None => self.line.push_str(r#","owner":null"#),
                    Some(owner) => {
                        let Digest([a, b]) = Digest::of(&owner.record);
                        let (tick, processed, slot) = (owner.tick.0, owner.processed, owner.slot);
                        let _ = write!(self.line, r#","owner":[{tick},{processed},{slot},[{a},{b}]]"#);
                    }
                }
            }
        }
        self.line.push('}');
        self.end_line();
    }

    /// The player pushed an input.
    pub fn input(&mut self) {
        self.line.push_str(r#"{"op":"input"}"#);
        self.end_line();
    }

    pub fn report(&mut self, report: &Report, hold_back: &[u32]) {
        self.line.push_str(r#"{"op":"report","hold_back":"#);
        list(hold_back, &mut self.line, |id, out| {
            let _ = write!(out, "{id}");
        });
        let refuse = report
            .refuse
            .map_or("null".to_owned(), |reason| (reason as u8).to_string());
        let _ = write!(
            self.line,
            r#","session_epoch":{},"generation":{},"stream_epoch":{},"ask":{},"refuse":{refuse},"held":"#,
            report.session_epoch, report.generation, report.stream_epoch, report.ask
        );
        list(report.held.as_slice(), &mut self.line, |held, out| {
            let _ = write!(out, "[{},{}]", held.id.0, held.mask);
        });
        self.line.push('}');
        self.end_line();
    }

    pub fn messages(&mut self, next: u32, received: &[Vec<u8>]) {
        let _ = write!(self.line, r#"{{"op":"messages","next":{next},"received":"#);
        list(received, &mut self.line, |message, out| {
            out.push('"');
            hex(message, out);
            out.push('"');
        });
        self.line.push('}');
        self.end_line();
    }
}
