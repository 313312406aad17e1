//! A recording's bytes: read or refused with one sentence; what is read can be published without an error.

use std::io::Cursor;

use ackline::origin::publisher::Publisher;
use ackline::trace::error::TraceError;
use ackline::trace::reader::TraceReader;
use ackline::trace::world::{TraceOptions, TraceWorld};

/// The first byte says what follows: odd a zstd stream, even its plain text.
pub fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let stream = if kind & 1 == 1 {
        bytes.to_vec()
    } else {
        stored(bytes)
    };
    let reader = match TraceReader::from_stream("fuzz", Cursor::new(stream.clone())) {
        Ok(reader) => reader,
        Err(error) => return one_sentence(&error),
    };
    let mut records = 0u64;
    let mut line = reader.line();
    for record in reader {
        match record {
            Ok(record) => {
                assert!(record.line > line, "lines rise");
                (records, line) = (records + 1, record.line);
            }
            Err(error) => return one_sentence(&error),
        }
    }
    let options = TraceOptions {
        gap_limit: if kind & 2 == 0 { None } else { Some(0.25) },
    };
    let reader = TraceReader::from_stream("fuzz", Cursor::new(stream)).expect("it was read before");
    let world = match TraceWorld::read(reader, &options) {
        Ok(world) => world,
        Err(error) => return one_sentence(&error),
    };
    assert_eq!(world.samples().len() as u64, records);
    let mut publisher = Publisher::new(world.schema().clone(), 1, 1, 0).expect("a trace's schema is legal");
    for sample in world.play(true).take(world.samples().len() * 2) {
        let published = publisher.publish(&sample, 0);
        assert!(
            published.errors.is_empty() && published.message.is_some(),
            "{:?}",
            published.errors
        );
    }
}

fn one_sentence(error: &TraceError) {
    let text = error.to_string();
    assert!(
        !text.is_empty() && text.len() < 4096,
        "{} bytes of error",
        text.len()
    );
}

/// A zstd frame that stores its content as it is (RFC 8878, raw blocks).
pub fn stored(text: &[u8]) -> Vec<u8> {
    let mut out = 0xFD2F_B528u32.to_le_bytes().to_vec();
    out.push(0xA0);
    out.extend((text.len() as u32).to_le_bytes());
    let mut blocks = text.chunks(100_000).peekable();
    if blocks.peek().is_none() {
        out.extend([1, 0, 0]);
    }
    while let Some(block) = blocks.next() {
        let last = u32::from(blocks.peek().is_none());
        let header = last | (block.len() as u32) << 3;
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(block);
    }
    out
}
