//! What a hostile relay says: what an honest one might say next, with any number of lies.

use ackline::delta::layout::Layout;
use ackline::delta::message::{Assigned, Directed, Message};
use ackline::limits::COMMIT_SET_MAX;
use ackline::sequence::Tick;
use ackline::state::entity::Entity;
use ackline::state::update::Event;
use ackline::state::view::View;
use ackline::wire::bytes::ByteWriter;
use ackline::wire::owner::{OWNER_RECORD_BYTES_MAX, OwnerBlock};
use ackline::wire::snapshot::{Commit, Held, SnapshotHeader};

use super::super::records::{self, Table};
use super::super::relay_mirror::digest_of;
use super::super::tape::Tape;
use super::Play;

impl Play {
    pub(super) fn put_messages(&mut self, tape: &mut Tape<'_>, out: &mut Vec<u8>) {
        let first = self
            .next_message
            .wrapping_add(tape.below(4))
            .wrapping_sub(tape.below(4));
        let count = 1 + tape.below(5);
        out.put_varint(first);
        out.put_u8(count as u8);
        for _ in 0..count {
            let mut message = Vec::new();
            if tape.one_in(4) {
                message.extend(tape.block(40));
            } else {
                let about = Entity {
                    id: tape.value(0, u32::MAX),
                    generation: tape.below(3),
                };
                let event = Event {
                    kind: u16::from(tape.u8()),
                    critical: false,
                    entity: tape.one_in(2).then_some(about),
                    at_us: self.server_us.min((1 << 48) - 1),
                    payload: tape.block(20).to_vec(),
                };
                let said = match tape.below(8) {
                    0 => Message::Stream(self.client.stream_epoch() + tape.below(2)),
                    1 => Message::Assigned(Assigned {
                        entity: event.entity,
                        view: View::WHOLE,
                    }),
                    2 => Message::Tier(tape.below(3) as u8),
                    3 => Message::Directed(Directed {
                        kind: event.kind,
                        payload: event.payload,
                    }),
                    _ => Message::Event(event),
                };
                said.encode(&mut message);
            }
            out.put_varint(message.len() as u32);
            out.put(&message);
        }
        self.next_message = first.wrapping_add(count);
    }

    /// The state of the client's own entity: one complete record, or any number of lies.
    pub(super) fn put_owner(&self, tape: &mut Tape<'_>, stream_epoch: u32, out: &mut Vec<u8>) {
        let schema = self.schema(stream_epoch);
        let server_us = self.server_us.min((1 << 48) - 1);
        let entries = records::entries(tape, schema, &Table::new(), server_us);
        let mut record = records::encode(&Layout::new(schema), &Table::new(), &entries, server_us);
        if tape.one_in(6) {
            tape.damage(&mut record);
        }
        record.truncate(OWNER_RECORD_BYTES_MAX);
        if record.is_empty() {
            record.push(tape.u8());
        }
        OwnerBlock {
            stream_epoch: stream_epoch ^ u32::from(tape.one_in(8)),
            tick: self.next_id.minus(tape.below(4)),
            server_us,
            processed: tape.below(100),
            record: &record,
        }
        .encode(out);
    }

    /// A header: what an honest relay might say next, with any number of lies.
    pub(super) fn header(&mut self, tape: &mut Tape<'_>, stream_epoch: u32) -> SnapshotHeader {
        let lies = tape.u8();
        let (mut session_epoch, mut generation) = (self.client.session_epoch(), self.client.generation());
        if session_epoch == 0 {
            (session_epoch, generation) = (1, 1);
        }
        let mut id = self.next_id;
        match tape.below(6) {
            0 | 1 => self.next_id = self.next_id.next(),
            2 => id = id.minus(1),
            3 => id = id.minus(u32::from(tape.u8())),
            4 => self.next_id = self.next_id.plus(1 + tape.below(30)),
            _ => id = id.plus(tape.u32() % (1 << 20)),
        }
        let held: Vec<u32> = self.shadow.keys().copied().collect();
        let before = |other: u32| id.is_after(Tick(other));
        let mut base = tape
            .pick(&held)
            .filter(|base| before(*base) && !tape.one_in(6))
            .map(Tick);
        let mut commit = None;
        let mut base_digest = None;
        if lies & 1 != 0 {
            commit = self.commit(tape, id);
            generation = generation.wrapping_add(1);
            if let Some(commit) = &commit
                && tape.one_in(2)
            {
                base = commit.set().first().map(|held| held.id);
            }
        }
        if lies & 2 != 0 {
            let table = base
                .and_then(|base| self.shadow.get(&base.0))
                .map(|(_, table)| table);
            let right = table.map_or([0; 2], |table| digest_of(table).0);
            base_digest = Some(if tape.one_in(4) { [tape.u32(), 1] } else { right });
        }
        if lies & 4 != 0 {
            generation = generation.wrapping_add(tape.below(3)).wrapping_sub(1);
        }
        if lies & 8 != 0 {
            (session_epoch, base, commit) = (session_epoch.wrapping_add(1), None, None);
            generation = generation.wrapping_add(1);
        }
        if lies & 16 != 0 {
            session_epoch = session_epoch.wrapping_add(tape.below(3)).wrapping_sub(1);
        }
        if lies & 32 != 0 {
            base = Some(id.minus(1 + tape.u32() % i32::MAX as u32));
        }
        let part = if lies & 64 != 0 { tape.below(32) as u8 } else { 0 };
        let shown = tape.u8();
        SnapshotHeader {
            exhaustive: shown & 16 == 0,
            stream_epoch: if lies & 128 != 0 {
                stream_epoch ^ tape.below(4)
            } else {
                stream_epoch
            },
            session_epoch,
            generation,
            id,
            part,
            last: shown & 1 == 0,
            base,
            server_us: self
                .server_us
                .min((1 << 48) - 1)
                .saturating_sub(u64::from(shown >> 6) * 40_000),
            candidate: shown & 2 == 0,
            view_complete: shown & 4 != 0,
            stale: shown & 8 != 0,
            commit,
            base_digest,
            count: 0,
        }
    }

    fn commit(&self, tape: &mut Tape<'_>, id: Tick) -> Option<Commit> {
        let mut set: Vec<Held> = Vec::new();
        let mut sum = [0u32; 2];
        let keep = 1 + tape.below(COMMIT_SET_MAX as u32) as usize;
        let mut held: Vec<(u32, u32)> = self.shadow.iter().map(|(id, (mask, _))| (*id, *mask)).collect();
        held.sort_by_key(|(other, _)| id.since(Tick(*other)));
        held.retain(|(other, _)| id.is_after(Tick(*other)));
        for (other, mask) in held.into_iter().take(keep) {
            let mask = if tape.one_in(8) {
                mask ^ 1 << tape.below(32)
            } else {
                mask
            };
            set.push(Held {
                id: Tick(other),
                mask,
            });
            let [a, b] = digest_of(&self.shadow[&other].1).0;
            sum = [sum[0].wrapping_add(a), sum[1].wrapping_add(b)];
        }
        if tape.one_in(8) {
            sum[0] ^= tape.u32();
        }
        Commit::new(&set, sum)
    }

    pub(super) fn body(&self, tape: &mut Tape<'_>, header: &SnapshotHeader) -> (Vec<u8>, u32) {
        if tape.one_in(8) {
            return (tape.block(100).to_vec(), tape.below(20));
        }
        let schema = self.schema(header.stream_epoch);
        let empty = Table::new();
        let table = header
            .base
            .and_then(|base| self.shadow.get(&base.0))
            .map_or(&empty, |(_, table)| table);
        // The encoder asserts what it writes, so it is only asked for what it may be asked: records of this schema
        // and of no later time. A base of another stream gives a body of complete records.
        let layout = Layout::new(schema);
        let legal = |table: &Table| {
            table.values().all(|record| {
                let motion_us = record.motion.map_or(0, |motion| motion.observed_us);
                let times = [record.born_us, record.segment_us, motion_us];
                times.iter().all(|at_us| *at_us <= header.server_us) && records::is_within(record, schema)
            })
        };
        let table = if legal(table) { table } else { &empty };
        let entries = records::entries(tape, schema, table, header.server_us);
        let mut bytes = records::encode(&layout, table, &entries, header.server_us);
        if tape.one_in(6) {
            tape.damage(&mut bytes);
        }
        let count = entries.len() as u32 + u32::from(tape.one_in(12));
        (bytes, count)
    }
}
