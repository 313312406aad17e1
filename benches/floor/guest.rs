//! A client in short: joins through the handshake, holds what it was sent and says so a round trip later.
//!
//! Its datagrams are real and sealed. What reached it is read from the session at the relay instead of opened, so that ten
//! thousand of them cost the benchmark little: sinks lose nothing, and so a candidate that was sent has arrived.

use std::collections::VecDeque;

use ackline::limits::{WINDOW_ASK_AT, WINDOW_SLOTS};
use ackline::relay::outbox::Path;
use ackline::relay::session::Session;
use ackline::sequence::Tick;
use ackline::wire::bytes::{ByteReader, ByteWriter};
use ackline::wire::handshake::{
    DatagramKind, put_request, put_response, read_challenge, read_welcome_header,
};
use ackline::wire::payload;
use ackline::wire::report::{HeldList, Report};
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Sealer, Secrets};
use ackline::wire::snapshot::Held;
use ackline::wire::version::{Agreed, PROTOCOL_VERSION};

/// What arrives at a guest.
#[derive(Clone, Copy)]
enum Arrival {
    /// A candidate.
    Candidate(Held),
    /// The first packet of a generation, with what its commit keeps.
    Commit(u32, [Held; ackline::limits::COMMIT_SET_MAX], usize),
    /// All messages before this one.
    Messages(u32),
}

pub struct Guest {
    pub path: Path,
    pub connection: u64,
    /// Ticks from a snapshot to the relay's having its report.
    round_trip: u32,
    sealer: Sealer,
    /// What is under way, and the tick at which its report reaches the relay.
    under_way: VecDeque<(Tick, Arrival)>,
    held: Vec<Held>,
    generation: u32,
    seen_generation: u32,
    received: u32,
    stream_epoch: u32,
    /// Next message it expects, that the relay knows of, and that is under way.
    messages: [u32; 3],
}

impl Guest {
    /// Joins: `exchange` gives the relay a datagram and hands back the answer.
    pub fn join(
        path: Path,
        number: u64,
        round_trip: u32,
        stream_epoch: u32,
        mut exchange: impl FnMut(&mut [u8]) -> Vec<u8>,
    ) -> Guest {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        let mut bytes = Vec::new();
        put_request(&mut bytes, PROTOCOL_VERSION, &nonce);
        let challenge = exchange(&mut bytes);
        let (_, _, cookie) = read_challenge(&challenge[1..]).unwrap();
        put_response(&mut bytes, PROTOCOL_VERSION, &nonce, &cookie, b"");
        let welcome = exchange(&mut bytes);
        let header = read_welcome_header(&mut ByteReader::new(&welcome)).unwrap();
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce: nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed: Agreed::NEWEST,
        };
        Guest {
            path,
            connection: header.connection,
            round_trip,
            sealer: secrets.sealer(Direction::Up).unwrap(),
            under_way: VecDeque::new(),
            held: Vec::new(),
            generation: 1,
            seen_generation: 1,
            received: 0,
            stream_epoch,
            messages: [0; 3],
        }
    }

    /// Takes what its session sent at `tick`.
    pub fn take(&mut self, session: &Session, tick: Tick) {
        self.received += 1;
        let due = tick.plus(self.round_trip);
        let window = &session.window;
        let messages = self.messages[1] + u32::try_from(session.stream.backlog()).unwrap();
        if messages > self.messages[2] {
            self.messages[2] = messages;
            self.under_way.push_back((due, Arrival::Messages(messages)));
        }
        if let Some(commit) = window.open_commit()
            && window.generation() > self.seen_generation
        {
            self.seen_generation = window.generation();
            let mut set = [Held::default(); ackline::limits::COMMIT_SET_MAX];
            set[..commit.set().len()].copy_from_slice(commit.set());
            let arrival = Arrival::Commit(window.generation(), set, commit.set().len());
            self.under_way.push_back((due, arrival));
        }
        if let Some(candidate) = window
            .candidates()
            .last()
            .filter(|candidate| candidate.id == tick)
        {
            let held = Held {
                id: candidate.id,
                mask: candidate.parts,
            };
            self.under_way.push_back((due, Arrival::Candidate(held)));
        }
    }

    /// The datagram that reaches the relay at `tick`, if it says anything new; `sent_us` is when the relay sent what it echoes.
    pub fn report(&mut self, tick: Tick, sent_us: u64, out: &mut Vec<u8>) -> bool {
        let mut news = false;
        while let Some((due, arrival)) = self.under_way.front().copied()
            && !due.is_after(tick)
        {
            self.under_way.pop_front();
            news = true;
            match arrival {
                Arrival::Candidate(held) if self.held.len() < WINDOW_SLOTS => self.held.insert(0, held),
                Arrival::Candidate(_) => {}
                Arrival::Messages(next) => self.messages[0] = next,
                Arrival::Commit(generation, set, length) => {
                    self.generation = generation;
                    self.held.retain(|held| set[..length].contains(held));
                }
            }
        }
        if news || self.received == 0 {
            self.say(sent_us, out);
        }
        news || self.received == 0
    }

    /// A report of all it holds.
    pub fn say(&mut self, sent_us: u64, out: &mut Vec<u8>) {
        let mut held = HeldList::default();
        for entry in &self.held {
            assert!(held.push(*entry));
        }
        let report = Report {
            session_epoch: 1,
            generation: self.generation,
            stream_epoch: self.stream_epoch,
            received_newest: self.received,
            received_count: self.received,
            echo: payload::clock_stamp(sent_us),
            ask: self.held.len() >= WINDOW_ASK_AT,
            next_message: self.messages[0],
            held,
            ..Report::default()
        };
        self.messages[1] = self.messages[0];
        let number = self.sealer.reserve().unwrap();
        out.clear();
        out.put_u8(DatagramKind::Up as u8);
        out.put_u64(self.connection);
        out.put_u32(number as u32);
        let header = out.len();
        out.put_u8(payload::REPORT);
        report.encode(out);
        let (clear, text) = out.split_at_mut(header);
        let tag = self.sealer.seal(number, clear, text).unwrap();
        out.put(&tag);
    }

    /// Ticks from a snapshot to its report.
    pub fn round_trip(&self) -> u32 {
        self.round_trip
    }
}
