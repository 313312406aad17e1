use super::*;
use crate::trace::header::tests::{FULL, header_line, own_trace, packed};
use proptest::prelude::*;
use std::io::Cursor;

const CALM: &str = "0,0,0,0,0,0,1,0,0,0,null,0,0,0,0";

fn row(id: u32, generation: u32, segment: u32) -> String {
    format!("[{id},{generation},{segment},{CALM}]")
}

fn record(t: u32, spawn: &str, despawn: &str, obs: &str) -> String {
    let time = f64::from(t);
    format!(r#"{{"t":{t},"time":{time},"spawn":[{spawn}],"despawn":[{despawn}],"obs":[{obs}],"event":[]}}"#)
}

fn spawn(id: u32, generation: u32) -> String {
    format!(r#"{{"id":{id},"gen":{generation},"kind":"car","model":{{"deep":[1]}}}}"#)
}

fn end(id: u32, generation: u32) -> String {
    format!(r#"{{"id":{id},"gen":{generation}}}"#)
}

/// Reads a header and these records; the records, or the first error as it is shown.
fn read(records: &[String]) -> Result<Vec<TraceRecord>, String> {
    let mut lines = vec![header_line(FULL)];
    lines.extend_from_slice(records);
    let mut reader = TraceReader::from_stream("memory", packed(&lines)).unwrap();
    let read: Result<Vec<_>, _> = reader.by_ref().collect();
    assert!(reader.next().is_none(), "nothing comes after the end or an error");
    read.map_err(|error| error.to_string())
}

fn refused(records: &[String], line: u64, part: &str) {
    let error = read(records).expect_err(part);
    assert!(
        error.starts_with(&format!("memory, line {line}: ")),
        "{error} should name line {line}"
    );
    assert!(error.contains(part), "{error} should say {part}");
}

#[test]
fn columns_are_read_by_name_and_ids_are_used_again() {
    let first = record(
        0,
        &spawn(7, 0),
        "",
        "[7,0,2,1,2,3,0,0,0,-1,4,5,6,80,0.1,0.2,0.3,1]",
    );
    let again = record(1, &spawn(7, 1), &end(7, 0), &row(7, 1, 0));
    let blank = r#"{"t":5,"time":1.0,"spawn":[],"despawn":[],"obs":[[7,1,1,1,2,3,0,0,0,-1,null,null,null,null,null,null,null,null]],
        "event":[{"kind":"hit","id":7,"by":3,"at":[1,2]},{"kind":"clock"}]}"#;
    let records = read(&[first, again, blank.replace('\n', " ")]).unwrap();
    let seen = &records[0].observed[0];
    assert_eq!(seen.entity, Entity { id: 7, generation: 0 });
    assert_eq!((seen.segment, seen.sleep), (2, true));
    assert_eq!(
        (seen.position, seen.rotation),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0, -1.0])
    );
    assert_eq!(
        (seen.velocity, seen.angular),
        (Some([4.0, 5.0, 6.0]), Some([0.1, 0.2, 0.3]))
    );
    assert_eq!(seen.extras, [Some(80)]);
    assert_eq!(records[1].despawned, [Entity { id: 7, generation: 0 }]);
    let unknown = &records[2].observed[0];
    assert_eq!((unknown.velocity, unknown.angular), (None, None));
    assert_eq!((unknown.sleep, &unknown.extras[..]), (false, &[None][..]));
    let event = &records[2].events[0];
    assert_eq!((event.kind.as_str(), event.id), ("hit", Some(7)));
    assert_eq!(event.rest.keys().collect::<Vec<_>>(), ["at", "by"]);
    assert_eq!(records[2].events[1].id, None);
}

/// SPEC ID2: an identity is used once, and nothing of an older generation touches a newer one.
#[test]
fn id2_identities_that_contradict_each_other_are_refused() {
    let born = record(0, &spawn(1, 1), "", "");
    let gone = record(1, "", &end(1, 1), "");
    refused(
        &[born.clone(), record(1, &spawn(1, 2), "", "")],
        3,
        "entity 1#2 spawns while 1#1 is alive",
    );
    let text = "entity 1#1 spawns, but id 1 had generation 1 before";
    refused(
        &[born.clone(), gone.clone(), record(2, &spawn(1, 1), "", "")],
        4,
        text,
    );
    refused(
        &[born.clone(), gone.clone(), record(2, &spawn(1, 0), "", "")],
        4,
        "had generation 1 before",
    );
    refused(
        &[born.clone(), gone.clone(), record(2, "", "", &row(1, 1, 0))],
        4,
        "observation of entity 1#1, which is not alive",
    );
    refused(
        &[born.clone(), gone.clone(), record(2, "", &end(1, 1), "")],
        4,
        "despawn of entity 1#1, which is not alive",
    );
    refused(
        &[born.clone(), record(1, "", "", &row(1, 0, 0))],
        3,
        "(generation 1 of id 1 is)",
    );
    refused(
        &[born.clone(), record(1, "", "", &row(2, 0, 0))],
        3,
        "entity 2#0, which is not alive",
    );
    let twice = format!("{},{}", row(1, 1, 0), row(1, 1, 0));
    refused(
        &[born.clone(), record(1, "", "", &twice)],
        3,
        "1#1 is observed twice",
    );
    let fell = [
        born.clone(),
        record(1, "", "", &row(1, 1, 5)),
        record(2, "", "", &row(1, 1, 4)),
    ];
    refused(&fell, 4, "segment of entity 1#1 is 4 after 5");
    assert!(read(&[born, gone, record(2, &spawn(1, 4), "", &row(1, 4, 0))]).is_ok());
}

#[test]
fn times_that_go_back_are_refused() {
    let good = record(3, "", "", "");
    for time in ["-0.5", "1e300"] {
        let bad = good.replace("\"time\":3", &format!("\"time\":{time}"));
        refused(
            &[bad],
            2,
            "s, but must lie from 0 (the record before) to 10000000 s",
        );
    }
    refused(&[good.clone(), good.clone()], 3, "t is 3 after 3");
    refused(
        &[good.clone(), record(2, "", "", "")],
        3,
        "time is 2 s, but must lie from 3",
    );
    let back = good.replace("\"t\":3", "\"t\":2");
    refused(&[good, back], 3, "t is 2 after 3");
}

#[test]
fn bounds_are_kept() {
    let crowd = |ids: core::ops::Range<u32>| {
        ids.map(|id| format!(r#"{{"id":{id},"gen":0,"kind":"c"}}"#))
            .collect::<Vec<_>>()
            .join(",")
    };
    let most = SLOTS_MAX as u32;
    let full = record(0, &crowd(0..most), "", "");
    assert_eq!(
        read(std::slice::from_ref(&full)).unwrap()[0].spawned.len(),
        SLOTS_MAX
    );
    refused(
        &[full, record(1, &crowd(most..most + 1), "", "")],
        3,
        "more than 32768 entities alive at once",
    );
}

#[test]
fn damaged_streams_are_refused() {
    let whole = packed(&[header_line(FULL), record(0, &spawn(1, 0), "", &row(1, 0, 0))]).into_inner();
    for length in 0..whole.len() {
        let cut = Cursor::new(whole[..length].to_vec());
        let error = match TraceReader::from_stream("memory", cut) {
            Err(error) => error,
            Ok(mut reader) => reader.find_map(Result::err).expect("a cut stream is an error"),
        };
        let text = error.to_string();
        assert!(
            text.contains("damaged or cut off") || (length == 0 && text.contains("is empty")),
            "{text}"
        );
    }
    let mut trailing = whole;
    trailing.extend_from_slice(b"garbage");
    let mut reader = TraceReader::from_stream("memory", Cursor::new(trailing)).unwrap();
    assert!(reader.any(|item| item.is_err()));
    let plain = TraceReader::from_stream("memory", Cursor::new(header_line(FULL).into_bytes()));
    let plain = plain.unwrap_err().to_string();
    assert!(
        plain.starts_with("memory: is no zstd file: it begins as plain JSON"),
        "{plain}"
    );
    let other = TraceReader::from_stream("memory", Cursor::new(b"#!/bin/sh\n".to_vec()));
    let other = other.unwrap_err().to_string();
    assert_eq!(
        other,
        "memory: is no zstd file: give a recording, a file such as match.jsonl.zst"
    );
    let directory = TraceReader::open(env!("CARGO_MANIFEST_DIR"))
        .unwrap_err()
        .to_string();
    assert!(
        directory.contains("is a directory: give a recording"),
        "{directory}"
    );
    let missing = TraceReader::open("no-such-file.jsonl.zst")
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("no-such-file.jsonl.zst: cannot be opened"),
        "{missing}"
    );
}

/// A frame that readers skip may come first, as zstd's own tools write it.
#[test]
fn a_skipped_frame_may_come_first() {
    let mut bytes = vec![0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];
    bytes.extend_from_slice(packed(&[header_line(FULL), record(0, "", "", "")]).get_ref());
    let reader = TraceReader::from_stream("memory", Cursor::new(bytes)).unwrap();
    assert_eq!(reader.map(Result::unwrap).count(), 1);
}

/// What other writers put for a missing number is named as such, not as a fault of JSON's grammar.
#[test]
fn a_value_that_is_no_number_is_named() {
    for word in ["NaN", "nan", "-NaN", "Infinity", "-Infinity", "inf", "-inf"] {
        let text = row(1, 0, 0).replacen("null", word, 1);
        let error = read(&[record(0, &spawn(1, 0), "", &text)]).expect_err(word);
        assert!(error.starts_with("memory, line 2: "), "{error}");
        assert!(
            error.contains("is no number of JSON: write null")
                && error.contains(word.trim_start_matches('-')),
            "{word}: {error}"
        );
    }
}

#[test]
fn own_recordings_are_read() {
    for (name, records) in [("qw_4on4_dm2_600", 600), ("rl_2016_3v3_800", 800)] {
        let Some(path) = own_trace(name) else { continue };
        let reader = TraceReader::open(path).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), records, "{name}");
    }
}

proptest! {
    /// No bytes make the reader panic or give out a record that breaks its word.
    #[test]
    fn no_damage_panics(place in 0usize..4000, with in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut text = [
            header_line(FULL),
            record(0, &format!("{},{}", spawn(1, 0), spawn(2, 3)), "", &row(1, 0, 0)),
            record(1, &spawn(1, 1), &end(1, 0), &format!("{},{}", row(2, 3, 1), row(1, 1, 0))),
        ].join("\n").into_bytes();
        let start = place % text.len();
        let end = (start + with.len()).min(text.len());
        text.splice(start..end, with.iter().copied());
        for bytes in [zstd::encode_all(&text[..], 1).unwrap(), text] {
            if let Ok(reader) = TraceReader::from_stream("memory", Cursor::new(bytes)) {
                for record in reader.flatten() {
                    prop_assert!(record.time.is_finite());
                    prop_assert!(record.observed.iter().all(|row| row.position.iter().all(|p| p.abs() <= 1e6)));
                }
            }
        }
    }

    #[test]
    fn no_damage_to_the_stream_panics(place in any::<usize>(), flip in 1u8..) {
        let mut bytes = packed(&[header_line(FULL), record(0, &spawn(1, 0), "", &row(1, 0, 0))]).into_inner();
        let place = place % bytes.len();
        bytes[place] ^= flip;
        if let Ok(reader) = TraceReader::from_stream("memory", Cursor::new(bytes)) {
            let _ = reader.count();
        }
    }
}
