//! A body of entries against any schema and any baseline: refused, or in its one legal form (TAB2, THREATS 24..35).

use ackline::delta::decode::Change;
use ackline::delta::layout::Layout;

use super::records::{self, Table};
use super::tape::Tape;

pub fn run(data: &[u8]) {
    let mut tape = Tape::new(data);
    let schema = records::schema(&mut tape);
    let layout = Layout::new(&schema);
    let server_us = match tape.below(4) {
        0 => 10_000_000,
        1 => u64::from(tape.u32()),
        2 => (1 << 48) - 1,
        _ => u64::from(tape.u32()) << 16,
    };
    let mut table = Table::new();
    for slot in 0..u16::from(tape.u8() % 6) {
        let at_us = tape.time(server_us, schema.tick_period_us);
        // A gap now and then, so that entries also meet slots without a member.
        table.insert(slot * (1 + slot / 3), records::record(&mut tape, &schema, at_us));
    }
    let (bytes, count) = if tape.one_in(2) {
        let count = usize::from(tape.u8() % 8);
        (tape.rest().to_vec(), count)
    } else {
        let entries = records::entries(&mut tape, &schema, &table, server_us);
        let mut bytes = records::encode(&layout, &table, &entries, server_us);
        let read = records::decode(&layout, &table, &bytes, entries.len(), server_us);
        let read = read.expect("what the encoder writes is read");
        for (said, read) in entries.iter().zip(&read) {
            let same = match (said.change, read.change) {
                // An update may have to travel whole; what it says is the same.
                (Change::Update(said), Change::Update(read) | Change::Complete(read)) => said == read,
                (said, read) => said == read,
            };
            assert!(same && said.slot == read.slot, "{said:?} was read as {read:?}");
        }
        tape.damage(&mut bytes);
        (bytes, entries.len().wrapping_add(tape.below(3) as usize))
    };
    if let Ok(entries) = records::decode(&layout, &table, &bytes, count, server_us) {
        assert_eq!(entries.len(), count);
        let again = records::encode(&layout, &table, &entries, server_us);
        assert_eq!(again, bytes, "one legal form: {entries:?}");
        records::apply(&mut table, &entries);
        table
            .values()
            .for_each(|record| records::assert_within(record, &schema));
    }
    // A baseline from a later frame, as only a hostile relay can cause: nothing panics.
    let earlier_us = tape.time(server_us, schema.tick_period_us);
    let _ = records::decode(&layout, &table, &bytes, count, earlier_us);
}
