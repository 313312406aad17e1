//! What a trace holds, in numbers: the table and the JSON of `ackline trace info`.
//!
//! Percentiles are nearest rank. Times are milliseconds as recorded: gaps are not shortened here.

use super::error::{TraceError, TraceFault};
use super::reader::TraceReader;
use super::record::TraceRow;
use super::spread::Spread;
use core::fmt;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// Speeds are taken from two observations no farther apart than this, in seconds.
const SPEED_GAP_MAX: f64 = 0.3;

/// What a trace holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceInfo {
    /// The recording's name.
    pub name: String,
    /// The kind of recorder.
    pub family: String,
    /// The licence as found.
    pub licence: String,
    /// Size of the file; 0 where it was read from a stream.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Time of the last record minus that of the first.
    pub seconds: f64,
    /// Records a second by the header.
    pub tick_hz: f64,
    /// Columns of an observation.
    pub fields: Vec<String>,
    /// Intervals between records, milliseconds.
    pub interval_ms: Spread,
    /// Spawns.
    pub spawns: u64,
    /// Entities alive after a record.
    pub live: Spread,
    /// Observations.
    pub observations: u64,
    /// Observations a second.
    pub observations_per_s: f64,
    /// Observations in a record.
    pub per_record: Spread,
    /// Observations in a higher segment than the entity's last: teleports and respawns in place.
    pub segment_bumps: u64,
    /// Events.
    pub events: u64,
    /// Time between two observations of one entity in one segment, milliseconds.
    pub gap_ms: Spread,
    /// Lowest position by the header, metres.
    pub min: [f64; 3],
    /// Highest position by the header, metres.
    pub max: [f64; 3],
    /// Kinds of entity, most observed first.
    pub kinds: Vec<KindInfo>,
    /// Kinds of event, most frequent first.
    pub event_kinds: Vec<EventKindInfo>,
}

/// What a trace holds of one kind of entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindInfo {
    /// The kind.
    pub kind: String,
    /// Spawns.
    pub spawns: u64,
    /// Observations.
    pub observations: u64,
    /// Time between two observations of one entity in one segment, milliseconds.
    pub gap_ms: Spread,
    /// Speed from two such observations less than 0.3 s apart, metres a second.
    pub speed: Spread,
}

/// How often one kind of event occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventKindInfo {
    /// The kind.
    pub kind: String,
    /// Events of it.
    pub count: u64,
}

/// The last observation of an id's present life.
struct Seen {
    kind: usize,
    last: Option<(f64, u32, [f64; 3])>,
}

#[derive(Default)]
struct KindSums {
    name: String,
    spawns: u64,
    observations: u64,
    gaps_ms: Vec<f64>,
    speeds: Vec<f64>,
}

/// Sums over the records so far.
#[derive(Default)]
struct Sums {
    kinds: Vec<KindSums>,
    seen: HashMap<u32, Seen>,
    segment_bumps: u64,
    gaps_ms: Vec<f64>,
}

impl Sums {
    fn spawn(&mut self, id: u32, kind: &str) {
        let index = self
            .kinds
            .iter()
            .position(|sums| sums.name == kind)
            .unwrap_or_else(|| {
                self.kinds.push(KindSums {
                    name: kind.to_owned(),
                    ..KindSums::default()
                });
                self.kinds.len() - 1
            });
        if let Some(sums) = self.kinds.get_mut(index) {
            sums.spawns += 1;
        }
        self.seen.insert(
            id,
            Seen {
                kind: index,
                last: None,
            },
        );
    }

    fn observe(&mut self, row: &TraceRow, time: f64) {
        let Some(seen) = self.seen.get_mut(&row.entity.id) else {
            return;
        };
        let Some(sums) = self.kinds.get_mut(seen.kind) else {
            return;
        };
        sums.observations += 1;
        if let Some((last, segment, position)) = seen.last {
            let gap = time - last;
            if segment == row.segment {
                self.gaps_ms.push(gap * 1000.0);
                sums.gaps_ms.push(gap * 1000.0);
                if gap > 0.0 && gap < SPEED_GAP_MAX {
                    let squares = position
                        .iter()
                        .zip(row.position)
                        .map(|(from, to)| (to - from).powi(2));
                    sums.speeds.push(squares.sum::<f64>().sqrt() / gap);
                }
            } else {
                self.segment_bumps += 1;
            }
        }
        seen.last = Some((time, row.segment, row.position));
    }
}

impl TraceInfo {
    /// Reads a whole file and counts.
    ///
    /// # Errors
    /// The file is refused.
    pub fn load(path: impl AsRef<Path>) -> Result<TraceInfo, TraceError> {
        let bytes = std::fs::metadata(path.as_ref()).map_or(0, |metadata| metadata.len());
        TraceInfo::read(TraceReader::open(path)?, bytes)
    }

    /// Counts all that a reader has left; `bytes` is the file's size.
    ///
    /// # Errors
    /// The file is refused.
    pub fn read(mut reader: TraceReader, bytes: u64) -> Result<TraceInfo, TraceError> {
        let header = reader.header().clone();
        let mut sums = Sums::default();
        let mut event_kinds: HashMap<String, u64> = HashMap::new();
        let (mut times, mut live, mut per_record) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(record) = reader.next() {
            let record = record?;
            for spawn in &record.spawned {
                sums.spawn(spawn.entity.id, &spawn.kind);
            }
            for row in &record.observed {
                sums.observe(row, record.time);
            }
            for event in record.events {
                *event_kinds.entry(event.kind).or_default() += 1;
            }
            times.push(record.time);
            live.push(reader.live() as f64);
            per_record.push(record.observed.len() as f64);
        }
        if times.is_empty() {
            return Err(TraceFault::NoRecords.at(reader.file(), 0));
        }
        let seconds = times
            .last()
            .zip(times.first())
            .map_or(0.0, |(last, first)| last - first);
        let intervals = times
            .iter()
            .zip(times.iter().skip(1))
            .map(|(from, to)| (to - from) * 1000.0);
        let observations = sums.kinds.iter().map(|kind| kind.observations).sum();
        let mut kinds: Vec<KindInfo> = sums.kinds.into_iter().map(KindInfo::of).collect();
        kinds.sort_by_key(|kind| core::cmp::Reverse(kind.observations));
        let mut event_kinds: Vec<EventKindInfo> = event_kinds
            .into_iter()
            .map(|(kind, count)| EventKindInfo { kind, count })
            .collect();
        event_kinds.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
        Ok(TraceInfo {
            name: header.name,
            family: header.family,
            licence: header.licence,
            bytes,
            records: times.len() as u64,
            seconds,
            tick_hz: header.tick_hz,
            fields: header.fields,
            interval_ms: Spread::of(intervals.collect()),
            spawns: kinds.iter().map(|kind| kind.spawns).sum(),
            live: Spread::of(live),
            observations,
            observations_per_s: if seconds > 0.0 {
                observations as f64 / seconds
            } else {
                0.0
            },
            per_record: Spread::of(per_record),
            segment_bumps: sums.segment_bumps,
            events: event_kinds.iter().map(|kind| kind.count).sum(),
            gap_ms: Spread::of(sums.gaps_ms),
            min: header.min,
            max: header.max,
            kinds,
            event_kinds,
        })
    }
}

impl KindInfo {
    fn of(sums: KindSums) -> KindInfo {
        KindInfo {
            kind: sums.name,
            spawns: sums.spawns,
            observations: sums.observations,
            gap_ms: Spread::of(sums.gaps_ms),
            speed: Spread::of(sums.speeds),
        }
    }
}

impl fmt::Display for TraceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, value: String| writeln!(f, "{name:<18}{value}");
        line(f, "name", self.name.clone())?;
        line(f, "family", self.family.clone())?;
        line(f, "licence", self.licence.clone())?;
        if self.bytes > 0 {
            line(f, "size", format!("{:.2} MB", self.bytes as f64 / 1e6))?;
        }
        line(f, "columns", self.fields.join(" "))?;
        line(
            f,
            "records",
            format!(
                "{} in {:.1} s, {} a second",
                self.records, self.seconds, self.tick_hz
            ),
        )?;
        line(
            f,
            "interval ms",
            format!("{}  (p50 / p99 / max)", self.interval_ms),
        )?;
        line(f, "spawns", self.spawns.to_string())?;
        line(f, "live", self.live.to_string())?;
        line(
            f,
            "observations",
            format!("{}, {:.0} a second", self.observations, self.observations_per_s),
        )?;
        line(f, "  per record", self.per_record.to_string())?;
        line(f, "  gap ms", self.gap_ms.to_string())?;
        line(f, "segment bumps", self.segment_bumps.to_string())?;
        line(f, "events", self.events.to_string())?;
        for (axis, (min, max)) in ["x", "y", "z"].iter().zip(self.min.iter().zip(self.max)) {
            line(f, &format!("bounds {axis}"), format!("{min} to {max} m"))?;
        }
        writeln!(
            f,
            "\n{:<24}{:>8}{:>14}{:>26}{:>26}",
            "kind", "spawns", "observations", "gap ms", "speed m/s"
        )?;
        for kind in &self.kinds {
            writeln!(
                f,
                "{:<24}{:>8}{:>14}{:>26}{:>26}",
                kind.kind,
                kind.spawns,
                kind.observations,
                kind.gap_ms.to_string(),
                kind.speed.to_string()
            )?;
        }
        if !self.event_kinds.is_empty() {
            writeln!(f, "\n{:<24}{:>8}", "event", "count")?;
        }
        for kind in &self.event_kinds {
            writeln!(f, "{:<24}{:>8}", kind.kind, kind.count)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::header::tests::{FULL, header_line, packed, shared_trace};

    #[test]
    fn a_recording_is_counted() {
        let row = |segment: u32, x: f64| format!("[1,0,{segment},{x},0,0,0,0,0,1,0,0,0,null,0,0,0,0]");
        let record = |t: u32, spawn: &str, obs: &str, event: &str| {
            let time = f64::from(t) / 10.0;
            format!(
                r#"{{"t":{t},"time":{time},"spawn":[{spawn}],"despawn":[],"obs":[{obs}],"event":[{event}]}}"#
            )
        };
        let lines = [
            header_line(FULL),
            record(
                0,
                r#"{"id":1,"gen":0,"kind":"car"},{"id":2,"gen":0,"kind":"ball"}"#,
                &row(0, 1.0),
                "",
            ),
            record(
                1,
                "",
                &row(0, 2.0),
                r#"{"kind":"goal"},{"kind":"clock"},{"kind":"clock"}"#,
            ),
            record(3, "", &row(1, 50.0), ""),
        ];
        let reader = TraceReader::from_stream("memory", packed(&lines)).expect("a header");
        let info = TraceInfo::read(reader, 1).expect("a good trace");
        assert_eq!(
            (info.records, info.spawns, info.observations, info.events),
            (3, 2, 3, 3)
        );
        assert_eq!(info.segment_bumps, 1);
        assert_eq!(
            info.live,
            Spread {
                p50: 2.0,
                p99: 2.0,
                max: 2.0
            }
        );
        assert!((info.interval_ms.max - 200.0).abs() < 1e-9 && (info.gap_ms.max - 100.0).abs() < 1e-9);
        assert!((info.kinds[0].speed.p50 - 10.0).abs() < 1e-9, "{info:?}");
        assert_eq!(
            info.event_kinds[0],
            EventKindInfo {
                kind: "clock".into(),
                count: 2
            }
        );
        let table = info.to_string();
        assert!(
            table.contains("car") && table.contains("goal") && table.contains("bounds z"),
            "{table}"
        );
        let json = serde_json::to_value(&info).expect("numbers and texts");
        assert_eq!(json["kinds"][0]["kind"], "car");
        assert_eq!(json["interval_ms"]["p50"], 100.0);
    }

    /// A file that ends after its header holds nothing that could be played or counted.
    #[test]
    fn a_header_alone_is_refused() {
        let reader = TraceReader::from_stream("memory", packed(&[header_line(FULL)])).expect("a header");
        let error = TraceInfo::read(reader, 1).expect_err("no record").to_string();
        assert!(
            error.starts_with("memory: there is a header but no record"),
            "{error}"
        );
    }

    /// What the recordings' own table says of one of them.
    struct Known {
        name: &'static str,
        counts: [u64; 5],
        interval_ms: [f64; 3],
        live: [f64; 2],
        per_record: [f64; 3],
        gap_ms: [f64; 2],
        seconds: f64,
        kind: (&'static str, u64, [f64; 2], [f64; 2]),
        event: (&'static str, u64),
    }

    #[rustfmt::skip]
    const KNOWN: [Known; 5] = [
        Known { name: "rl_2016_3v3", counts: [7136, 57, 28388, 0, 2634], interval_ms: [48.4, 48.5, 9023.0], live: [8.0, 10.0], per_record: [4.0, 7.0, 9.0],
            gap_ms: [97.0, 97.0], seconds: 385.0, kind: ("car", 22330, [97.0, 97.0], [12.1, 37.1]), event: ("component", 1182) },
        Known { name: "rl_2018_2v2_rec60", counts: [17815, 45, 30581, 0, 3712], interval_ms: [21.3, 21.3, 8049.0], live: [5.0, 6.0], per_record: [2.0, 5.0, 5.0],
            gap_ms: [64.0, 106.0], seconds: 412.0, kind: ("car", 19237, [85.0, 107.0], [13.0, 28.4]), event: ("component", 1724) },
        Known { name: "rl_2025_3v3_demolitions", counts: [8760, 119, 57284, 0, 8055], interval_ms: [45.9, 46.9, 9048.0], live: [8.0, 10.0], per_record: [7.0, 8.0, 9.0],
            gap_ms: [46.0, 47.0], seconds: 491.0, kind: ("car", 44299, [46.0, 47.0], [15.4, 25.1]), event: ("component", 3270) },
        Known { name: "qw_4on4_dm2", counts: [10836, 1205, 138_753, 305, 19039], interval_ms: [34.0, 39.0, 43.0], live: [54.0, 76.0], per_record: [13.0, 20.0, 70.0],
            gap_ms: [35.0, 137.0], seconds: 378.0, kind: ("player", 81365, [35.0, 40.0], [10.2, 19.7]), event: ("fx", 8236) },
        Known { name: "hl2dm_1v1_airfusion", counts: [15010, 959, 43406, 86, 1268], interval_ms: [60.0, 60.0, 60.0], live: [94.0, 108.0], per_record: [3.0, 7.0, 90.0],
            gap_ms: [60.0, 300.0], seconds: 900.0, kind: ("player", 27596, [60.0, 120.0], [6.1, 31.5]), event: ("weapon", 852) },
    ];

    /// Every recording at hand has the statistics that were published with it.
    #[test]
    fn published_statistics_are_met() {
        for known in &KNOWN {
            let Some(path) = shared_trace(known.name) else {
                continue;
            };
            let info = TraceInfo::load(path).expect("a good trace");
            let name = known.name;
            let counts = [
                info.records,
                info.spawns,
                info.observations,
                info.segment_bumps,
                info.events,
            ];
            assert_eq!(counts, known.counts, "{name}");
            assert_eq!([info.live.p50, info.live.max], known.live, "{name}");
            let Spread { p50, p99, max } = info.per_record;
            assert_eq!([p50, p99, max], known.per_record, "{name}");
            let near = |is: f64, should: f64, within: f64| {
                assert!((is - should).abs() <= within, "{name}: {is} should be {should}");
            };
            let Spread { p50, p99, max } = info.interval_ms;
            near(p50, known.interval_ms[0], 0.051);
            near(p99, known.interval_ms[1], 0.051);
            near(max, known.interval_ms[2], 0.51);
            near(info.gap_ms.p50, known.gap_ms[0], 0.51);
            near(info.gap_ms.p99, known.gap_ms[1], 0.51);
            near(info.seconds, known.seconds, 0.6);
            let (kind, observations, gap, speed) = known.kind;
            let found = info
                .kinds
                .iter()
                .find(|found| found.kind == kind)
                .expect("the main kind");
            assert_eq!(found.observations, observations, "{name}");
            near(found.gap_ms.p50, gap[0], 0.51);
            near(found.gap_ms.p99, gap[1], 0.51);
            // Published with one decimal and another convention of rank.
            near(found.speed.p50, speed[0], 0.1);
            near(found.speed.p99, speed[1], 0.1);
            assert_eq!(
                (info.event_kinds[0].kind.as_str(), info.event_kinds[0].count),
                known.event,
                "{name}"
            );
        }
    }
}
