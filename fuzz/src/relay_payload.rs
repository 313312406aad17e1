//! An authentic but hostile client: payloads under the session's real key, reports that lie about everything
//! (THREATS 40..63). Nothing panics, the window keeps its bounds, the relay's idea of what is held is exactly what
//! was said, and the honest client beside it never notices.

use ackline::limits::{RECORD_REQUESTS_MAX, STREAM_MESSAGES_MAX, WINDOW_SLOTS};
use ackline::relay::session::Session;
use ackline::relay::shard::Receipt;
use ackline::sequence::Tick;
use ackline::wire::bytes::ByteReader;
use ackline::wire::payload;
use ackline::wire::report::{HeldList, RefuseReason, Report};
use ackline::wire::snapshot::Held;

use super::relay_mirror::Mirror;
use super::seat::Seat;
use super::stage::{ENTITIES_MAX, Stage, path};
use super::tape::Tape;

/// Steps of one input, and frames it may skip in all.
const STEPS: usize = 96;
const SKIPS: u32 = 1200;

struct Play {
    stage: Stage,
    seat: Seat,
    mirror: Mirror,
    skips: u32,
    sessions: u8,
}

pub fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    let first = [100, u32::MAX - 12][tape.below(2) as usize];
    // Mostly few; at times enough that a snapshot takes several parts.
    let entities = if tape.one_in(6) { ENTITIES_MAX as u32 } else { 16 };
    let mut stage = Stage::new(1 + tape.below(entities), first);
    stage.join();
    let seat = Seat::join(&mut stage, path(50_000), [9; 16]);
    let mut play = Play {
        stage,
        seat,
        mirror: Mirror::default(),
        skips: 0,
        sessions: 1,
    };
    for _ in 0..STEPS {
        if tape.is_over() {
            break;
        }
        play.step(&mut tape);
        play.check();
    }
    play.stage.assert_followed();
    assert!(play.stage.honest.refusals().total() == 0);
}

impl Play {
    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(10) {
            0..=2 => self.stage.tick(tape),
            3 | 4 => self.say(tape, true),
            5 | 6 => self.say(tape, false),
            7 => {
                let payload = tape.block(300).to_vec();
                self.send(&payload, tape);
            }
            8 => match tape.below(3) {
                0 => self.skip(1 + tape.below(8)),
                1 => self.skip(u32::from(tape.u8())),
                _ => self.skip(u32::from(tape.u16()) % 600),
            },
            _ => match tape.below(4) {
                0 => self.stage.restart_origin(),
                1 => self.rejoin(),
                2 => self.stage.now_us += 1_000 * u64::from(tape.u8()),
                _ => self.stage.exchange(),
            },
        }
        self.read_mail();
    }

    fn skip(&mut self, frames: u32) {
        let frames = frames.min(SKIPS - self.skips);
        self.skips += frames;
        self.stage.skip(frames);
    }

    /// Leaves, and comes back as another session; a bounded number of times.
    fn rejoin(&mut self) {
        if self.sessions >= 4 {
            return;
        }
        let mut leave = self.seat.seal(&[payload::CLOSE, 1], 0);
        self.stage.receive(self.seat.path, &mut leave);
        assert!(
            self.stage.session(self.seat.connection).is_none(),
            "who leaves is gone"
        );
        self.sessions += 1;
        self.seat = Seat::join(&mut self.stage, path(50_000), [9 + self.sessions; 16]);
        self.mirror = Mirror::default();
    }

    fn read_mail(&mut self) {
        for (_, mut datagram) in std::mem::take(&mut self.stage.mail) {
            // Mail of a session that was left does not open any more.
            let Some(payload) = self.seat.open(&mut datagram) else {
                continue;
            };
            let frame = self.stage.frame();
            self.mirror
                .receive(payload, &frame.schema, self.stage.session(self.seat.connection));
        }
        if let Some(session) = self.stage.session(self.seat.connection) {
            self.mirror.compare(session);
        }
    }

    /// Sends a report, well-behaved or lying.
    fn say(&mut self, tape: &mut Tape<'_>, honest: bool) {
        let Some(session) = self.stage.session(self.seat.connection) else {
            return;
        };
        let mut bytes = vec![payload::REPORT];
        let report = if honest {
            honest_report(tape, session, self.mirror.stream_epoch)
        } else {
            lying_report(tape, session, self.mirror.stream_epoch)
        };
        report.encode(&mut bytes);
        if !honest {
            tape.damage(&mut bytes);
        }
        self.send(&bytes, tape);
    }

    fn send(&mut self, payload: &[u8], tape: &mut Tape<'_>) {
        let skip = [0, 0, 0, 1, 70, 1100][tape.below(6) as usize];
        let from = if tape.one_in(8) {
            path(50_001)
        } else {
            self.seat.path
        };
        let reports = self.stage.shard.counters().reports;
        let known = self.stage.session(self.seat.connection).is_some();
        let mut datagram = self.seat.seal(payload, skip);
        let receipt = self.stage.receive(from, &mut datagram);
        let taken = self.stage.shard.counters().reports > reports;
        assert!(!taken || receipt == Receipt::Taken);
        assert!(known || receipt != Receipt::Taken, "nobody is there");
        if !taken {
            return;
        }
        let mut report = Report::default();
        let behind = 1 + usize::from(payload[0] & payload::CLOSE != 0);
        report
            .decode_into(&mut ByteReader::new(&payload[behind..]))
            .expect("the relay has read it");
        if let Some(session) = self.stage.session(self.seat.connection) {
            self.mirror.reported(&report, session);
        }
    }

    fn check(&self) {
        let Some(session) = self.stage.session(self.seat.connection) else {
            return;
        };
        let window = &session.window;
        assert!(window.in_use() <= WINDOW_SLOTS, "THREATS 63: at most 32 places");
        assert!(session.requests.len() <= RECORD_REQUESTS_MAX);
        assert!(session.stream.backlog() <= STREAM_MESSAGES_MAX);
        // OPS5: two bytes a slot and table, and as much, with growth, for what a candidate holds.
        let slots = self.stage.frame().slot_count().max(64);
        let (tables, _) = session.heap_bytes();
        assert!(
            tables <= WINDOW_SLOTS * (slots * 8 + 256),
            "{tables} bytes for {slots} slots"
        );
        assert_eq!(
            self.stage.shard.counters().withheld[0],
            0,
            "WIN8: never for want of a slot"
        );
    }
}

fn base_report(session: &Session, stream_epoch: u32) -> Report {
    Report {
        session_epoch: session.window.session_epoch(),
        generation: session.window.generation(),
        stream_epoch,
        next_message: u32::MAX,
        ..Report::default()
    }
}

/// Everything the relay still knows, newest first, with parts as the tape has them.
fn honest_report(tape: &mut Tape<'_>, session: &Session, stream_epoch: u32) -> Report {
    let mut report = base_report(session, stream_epoch);
    let window = &session.window;
    let subset = tape.u8();
    let mut known: Vec<Held> = window.held().iter().map(|held| held.held).collect();
    for candidate in window.candidates() {
        let mask = if subset & 1 == 0 {
            candidate.parts
        } else {
            candidate.parts & u32::from(subset >> 1)
        };
        if mask != 0 {
            known.push(Held {
                id: candidate.id,
                mask,
            });
        }
    }
    push_falling(&mut report.held, known);
    report.ask = report.held.as_slice().len() >= 16 || subset >> 5 == 7;
    report.received_count = u32::from(subset);
    report
}

fn lying_report(tape: &mut Tape<'_>, session: &Session, stream_epoch: u32) -> Report {
    let mut report = base_report(session, stream_epoch);
    let what = tape.u8();
    let lie = |tape: &mut Tape<'_>, value: u32| match tape.below(5) {
        0 => value.wrapping_sub(1),
        1 => value.wrapping_add(1),
        2 => 0,
        3 => u32::MAX,
        _ => tape.u32(),
    };
    if what & 1 != 0 {
        report.session_epoch = lie(tape, report.session_epoch);
    }
    if what & 2 != 0 {
        report.generation = lie(tape, report.generation);
    }
    if what & 4 != 0 {
        report.stream_epoch = lie(tape, stream_epoch);
    }
    if what & 8 != 0 {
        report.refuse = tape.pick(&RefuseReason::ALL);
    }
    report.ask = what & 16 != 0;
    if what & 32 != 0 {
        report.next_message = u32::from(tape.u8());
        (report.received_newest, report.received_count) = (tape.u32(), tape.u32());
        (report.echo, report.echo_delay) = (tape.u16(), tape.u16());
    }
    if what & 64 != 0 {
        for _ in 0..tape.below(1 + RECORD_REQUESTS_MAX as u32) {
            report
                .requests
                .push((tape.value(0, u32::MAX), tape.value(0, u32::MAX)));
        }
    }
    if what & 128 != 0 {
        for _ in 0..tape.below(9) {
            report.rejected.push((tape.u8(), tape.value(0, u32::MAX)));
        }
    }
    report.held = lying_list(tape, session);
    report
}

fn lying_list(tape: &mut Tape<'_>, session: &Session) -> HeldList {
    let window = &session.window;
    let newest = session.served.unwrap_or(Tick(0));
    let held: Vec<Held> = window.held().iter().map(|held| held.held).collect();
    let sent: Vec<Held> = window
        .candidates()
        .map(|c| Held {
            id: c.id,
            mask: c.parts,
        })
        .collect();
    let mut list = Vec::new();
    for _ in 0..tape.below(WINDOW_SLOTS as u32 + 1) {
        let mut one = match tape.below(5) {
            0 | 1 => tape.pick(&sent),
            2 => tape.pick(&held),
            3 => Some(Held {
                id: newest.minus(u32::from(tape.u8())).plus(16),
                mask: 1,
            }),
            _ => Some(Held {
                id: newest.plus(tape.u32()),
                mask: tape.u32(),
            }),
        }
        .unwrap_or(Held { id: newest, mask: 1 });
        match tape.below(6) {
            0 => one.mask = 1 << tape.below(32),
            1 => one.mask = u32::MAX,
            _ => {}
        }
        list.push(one);
    }
    let mut falling = HeldList::default();
    push_falling(&mut falling, list);
    falling
}

/// The list in falling order of id, each once.
fn push_falling(to: &mut HeldList, mut list: Vec<Held>) {
    let Some(newest) = list
        .iter()
        .map(|held| held.id)
        .reduce(|a, b| if b.is_after(a) { b } else { a })
    else {
        return;
    };
    list.sort_by_key(|held| newest.since(held.id).cast_unsigned());
    list.dedup_by_key(|held| held.id);
    for held in list {
        let _ = to.push(held);
    }
}
