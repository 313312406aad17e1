//! Raw and damaged datagrams at a client in every phase (THREATS 22..31, 40). Without the key nothing moves.

use std::cell::RefCell;

use ackline::client::refusal::Refusal;
use ackline::client::session::{Client, Received, SessionState};
use ackline::client::settings::ClientSettings;
use ackline::wire::bytes::ByteReader;
use ackline::wire::handshake::{DatagramKind, read_challenge, read_denied, read_welcome_header};

use super::relay_datagram::joined;
use super::stage::Stage;
use super::tape::Tape;

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::new(joined());
}

/// Everything a datagram may change at a client, what was only counted aside.
pub fn fingerprint(client: &Client) -> u64 {
    let statistics = client.statistics();
    hash(&format!(
        "{:?}",
        (
            (
                client.state(),
                client.is_upstream_stale(),
                client.lease_us(),
                client.next_timer()
            ),
            (
                statistics.parts_received,
                statistics.snapshots_stored,
                statistics.events_delivered
            ),
            replica_fingerprint(client),
        )
    ))
}

/// Everything a snapshot may change: window, tables, display.
pub fn replica_fingerprint(client: &Client) -> u64 {
    let mut tables: Vec<_> = client
        .tables()
        .map(|(held, table)| (held.id.0, held.mask, table.digest().0))
        .collect();
    tables.sort_unstable();
    let shown: Vec<_> = client
        .display()
        .records()
        .map(|(slot, record, as_of)| (slot, ackline::state::digest::Digest::of(&record).0, as_of))
        .collect();
    let epochs = (client.stream_epoch(), client.session_epoch(), client.generation());
    hash(&format!("{:?}", (epochs, client.newest(), tables, shown)))
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

pub fn run(data: &[u8]) {
    STAGE.with_borrow_mut(|stage| play(stage, &mut Tape::new(data)));
}

fn play(stage: &mut Stage, tape: &mut Tape<'_>) {
    let now_us = stage.now_us;
    if tape.one_in(3) {
        let mut client = Client::new(ClientSettings::default(), [7; 16], now_us);
        asking(&mut client, stage, tape);
        return;
    }
    let before = fingerprint(&stage.honest);
    let refusing = stage.honest.refusing();
    for _ in 0..32 {
        if tape.is_over() {
            break;
        }
        let mut datagram = datagram(stage, tape);
        let received = stage.honest.receive(now_us, &mut datagram);
        assert!(
            matches!(received, Received::Refused(_)),
            "nothing is taken without the key: {received:?}"
        );
        assert!(stage.honest.changes().is_empty() && stage.honest.decoded().next().is_none());
    }
    assert_eq!(fingerprint(&stage.honest), before, "nothing changes");
    assert_eq!(stage.honest.refusing(), refusing);
    assert!(stage.honest.poll_event().is_none(), "the game is told nothing");
}

fn datagram(stage: &Stage, tape: &mut Tape<'_>) -> Vec<u8> {
    match tape.below(4) {
        0 => tape.block(1500).to_vec(),
        1 => {
            let mut bytes = vec![tape.pick(&[0x10, 0x04, 0x02, 0x05, 0x20, 0x01, 0x03]).unwrap()];
            bytes.extend(tape.block(1300));
            bytes
        }
        direction => {
            let (up, down) = &stage.captured;
            let templates = if direction == 2 { down } else { up };
            let mut bytes = templates[usize::from(tape.u8()) % templates.len()].clone();
            tape.damage(&mut bytes);
            bytes
        }
    }
}

/// A client that is still asking: clear answers count when they echo its randomness, sealed ones when they open.
fn asking(client: &mut Client, stage: &Stage, tape: &mut Tape<'_>) {
    let mut out = Vec::new();
    for step in 0..32 {
        if tape.is_over() {
            return;
        }
        let now_us = stage.now_us + step * 50_000;
        if client.poll_transmit(now_us, &mut out) {
            assert!(out.len() <= ackline::limits::DATAGRAM_MAX);
        }
        let mut datagram = datagram(stage, tape);
        let copy = datagram.clone();
        let state = client.state();
        let before = fingerprint(client);
        let received = client.receive(now_us, &mut datagram);
        let echoes = |nonce: Option<[u8; 16]>| assert_eq!(nonce, Some([7; 16]), "another attempt's answer");
        match received {
            Received::Challenged => echoes(read_challenge(&copy[1..]).ok().map(|(_, nonce, _)| nonce)),
            Received::Denied(_) => echoes(read_denied(&copy[1..]).ok().map(|(_, nonce, _)| nonce)),
            Received::Welcomed => {
                let header = read_welcome_header(&mut ByteReader::new(&copy));
                echoes(header.ok().map(|header| header.client_nonce));
            }
            // The other blocks of a datagram are taken though its snapshot is refused.
            Received::Refused(Refusal::Window(_) | Refusal::UnknownStream | Refusal::DistrustedBase) => {}
            Received::Refused(_) => assert_eq!(fingerprint(client), before, "a refusal changes nothing"),
            _ => {
                // Once welcomed by the session's own Welcome, the rest of what was captured opens too.
                assert_eq!(state, SessionState::Connected);
                let kind = copy.first().copied().and_then(DatagramKind::from_byte);
                assert!(matches!(kind, Some(DatagramKind::Down | DatagramKind::Welcome)));
            }
        }
    }
}
