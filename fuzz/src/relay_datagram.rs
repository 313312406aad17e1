//! Raw datagrams from anywhere into the whole entry of a relay, before any check (THREATS 1..6, 22..31).
//!
//! A stranger has no key: whatever is sent, no report counts, no session comes or goes, no window moves, and no
//! answer is longer than what it answers.

use std::cell::RefCell;
use std::net::SocketAddr;

use ackline::relay::outbox::Path;
use ackline::relay::shard::Receipt;
use ackline::wire::handshake::DatagramKind;

use super::stage::{Counted, Stage, path};
use super::tape::Tape;

fn sources() -> [Path; 4] {
    let at = |text: &str| Path {
        remote: text.parse::<SocketAddr>().unwrap(),
        local: None,
    };
    [
        path(40_000),
        path(40_001),
        at("192.0.2.7:40000"),
        at("[2001:db8::7]:40000"),
    ]
}

thread_local! {
    /// Nothing that a stranger sends may change it, so one stage serves every input.
    static STAGE: RefCell<Stage> = RefCell::new(joined());
}

/// A stage whose honest client has joined, with what went over the wire.
pub fn joined() -> Stage {
    let mut stage = Stage::new(12, 100);
    stage.capture = true;
    stage.join();
    stage.capture = false;
    stage
}

/// What a relay holds that only reports, frames and time may change.
fn fingerprint(stage: &Stage) -> String {
    use std::fmt::Write;
    let counters = stage.shard.counters();
    let mut text = format!(
        "{} {} {} {:?} {} {}",
        stage.shard.open(),
        stage.shard.arena().frames(),
        counters.reports,
        (
            counters.sessions_opened,
            counters.sessions_closed,
            counters.migrations
        ),
        counters.datagrams_sent,
        stage.shard.unserved(),
    );
    for session in stage.shard.sessions() {
        let window = &session.window;
        let held: Vec<_> = window.held().iter().map(|held| held.held).collect();
        let candidates: Vec<_> = window
            .candidates()
            .map(|candidate| (candidate.id, candidate.parts))
            .collect();
        let _ = write!(
            text,
            "{:?}",
            (
                (
                    session.connection,
                    session.path,
                    session.opener.newest(),
                    session.sealer.next_number()
                ),
                (
                    session.heard_us,
                    session.confirmed,
                    session.sent_us,
                    session.welcomes,
                    session.closing
                ),
                (
                    window.session_epoch(),
                    window.generation(),
                    window.open_commit(),
                    held,
                    candidates
                ),
                (
                    session.stream.backlog(),
                    session.heap_bytes(),
                    session.requests.len(),
                    session.purse.bytes()
                ),
            )
        );
    }
    text
}

pub fn run(data: &[u8]) {
    STAGE.with_borrow_mut(|stage| play(stage, &mut Tape::new(data)));
}

fn play(stage: &mut Stage, tape: &mut Tape<'_>) {
    let before = fingerprint(stage);
    let changes = stage.shard.take_changes().len();
    let now_us = stage.now_us + u64::from(tape.u8()) * 500_000;
    for _ in 0..32 {
        if tape.is_over() {
            break;
        }
        let from = tape.pick(&sources()).unwrap();
        let mut datagram = match tape.below(4) {
            0 => tape.block(1500).to_vec(),
            1 => {
                let kinds = [0x20, 0x01, 0x03, 0x02, 0x04, 0x05, 0x10];
                let mut bytes = vec![tape.pick(&kinds).unwrap()];
                bytes.extend(tape.block(1300));
                bytes
            }
            direction => {
                let (up, down) = &stage.captured;
                let templates = if direction == 2 { up } else { down };
                let mut bytes = templates[usize::from(tape.u8()) % templates.len()].clone();
                tape.damage(&mut bytes);
                bytes
            }
        };
        let (length, first) = (datagram.len(), datagram.first().copied());
        let mut outbox = Counted::default();
        let receipt = stage.shard.receive(now_us, from, &mut datagram, &mut outbox);
        assert!(
            outbox.bytes <= length,
            "an answer is longer than the datagram (THREATS D9)"
        );
        assert!(
            outbox.datagrams <= 1 && outbox.to.is_none_or(|to| to == from),
            "answers go to the source"
        );
        if outbox.datagrams > 0 {
            assert_eq!(
                first,
                Some(DatagramKind::Request as u8),
                "only a request is answered"
            );
            assert_eq!(receipt, Receipt::Taken);
        }
        if receipt == Receipt::Taken {
            let kind = first.and_then(DatagramKind::from_byte);
            let handshake = matches!(kind, Some(DatagramKind::Request | DatagramKind::Response));
            assert!(handshake, "without a key only handshakes are taken");
        }
    }
    assert_eq!(
        stage.shard.take_changes().len(),
        0,
        "no session comes or goes ({changes} before)"
    );
    assert_eq!(fingerprint(stage), before, "nothing changes");
}
