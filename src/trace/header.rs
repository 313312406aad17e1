//! The first line of a trace: what the recording is and which columns its observations have.
//!
//! Invariant: the columns of a `TraceHeader` that was parsed hold all of position and rotation, name nothing
//! twice, and its bounds are finite and in order.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::{TraceFault, excerpt};
use crate::limits::{TRACE_COLUMNS_MAX, TRACE_METRES_MAX};
use serde::Deserialize;

/// The format this reader reads.
pub const FORMAT: &str = "gst-trace 1";

/// The header of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceHeader {
    /// The recording's name.
    pub name: String,
    /// The kind of recorder, `rocket-league` for one.
    pub family: String,
    /// The licence as found.
    pub licence: String,
    /// Records a second, as the format's header gives it.
    pub tick_hz: f64,
    /// Lowest position over all observations, metres.
    pub min: [f64; 3],
    /// Highest position over all observations, metres.
    pub max: [f64; 3],
    /// Columns of an observation after id, gen and seg.
    pub fields: Vec<String>,
    /// Turn-based: times have no physical meaning.
    pub time_is_nominal: bool,
    /// Where the columns are.
    pub columns: Columns,
}

/// Where the columns of an observation are, counted from its first value (`id` is 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Values of a row, id, gen and seg included.
    pub count: usize,
    /// px, py, pz.
    pub position: [usize; 3],
    /// qx, qy, qz, qw.
    pub rotation: [usize; 4],
    /// vx, vy, vz.
    pub velocity: Option<[usize; 3]>,
    /// wx, wy, wz.
    pub angular: Option<[usize; 3]>,
    /// sleep.
    pub sleep: Option<usize>,
    /// Integer columns by name, in the header's order: health and whatever else there is.
    pub extras: Vec<(String, usize)>,
}

#[derive(Deserialize)]
struct RawHeader {
    name: String,
    format: String,
    family: String,
    licence: String,
    tick_hz: f64,
    bounds: RawBounds,
    unit: String,
    fields: Vec<String>,
    #[serde(default)]
    time_is_nominal: bool,
}

#[derive(Deserialize)]
struct RawBounds {
    min: [f64; 3],
    max: [f64; 3],
}

impl TraceHeader {
    /// Reads a header line.
    ///
    /// # Errors
    /// It is not JSON, a key is missing, the format is another one, bounds are out of order, or a column is
    /// missing or named twice.
    pub fn parse(line: &[u8]) -> Result<TraceHeader, TraceFault> {
        let raw: RawHeader =
            serde_json::from_slice(line).map_err(|error| TraceFault::of_json(&error, line))?;
        let refuse = |text: String| Err(TraceFault::Header(text));
        if raw.format != FORMAT {
            let format = excerpt(&raw.format, 64);
            return refuse(format!("format is '{format}', but only '{FORMAT}' is read"));
        }
        if raw.unit != "m" {
            let unit = excerpt(&raw.unit, 64);
            return refuse(format!("unit is '{unit}', but only 'm' is read"));
        }
        if !(raw.tick_hz > 0.0 && raw.tick_hz <= 1e6) {
            return refuse(format!("tick_hz is {}, outside 0 to 1000000", raw.tick_hz));
        }
        for (min, max) in raw.bounds.min.into_iter().zip(raw.bounds.max) {
            if !(-TRACE_METRES_MAX <= min && min <= max && max <= TRACE_METRES_MAX) {
                return refuse(format!(
                    "bounds from {min} to {max} are out of order or beyond {TRACE_METRES_MAX} m"
                ));
            }
        }
        let columns = Columns::of(&raw.fields)?;
        Ok(TraceHeader {
            name: raw.name,
            family: raw.family,
            licence: raw.licence,
            tick_hz: raw.tick_hz,
            min: raw.bounds.min,
            max: raw.bounds.max,
            fields: raw.fields,
            time_is_nominal: raw.time_is_nominal,
            columns,
        })
    }
}

impl Columns {
    /// Finds the columns among the header's `fields`.
    fn of(fields: &[String]) -> Result<Columns, TraceFault> {
        if fields.len() > TRACE_COLUMNS_MAX {
            return Err(TraceFault::TooMany {
                what: "columns",
                bound: TRACE_COLUMNS_MAX as u64,
            });
        }
        let mut known = Vec::new();
        let position = Self::group(fields, &mut known, ["px", "py", "pz"], true)?.unwrap_or_default();
        let rotation = Self::group(fields, &mut known, ["qx", "qy", "qz", "qw"], true)?.unwrap_or_default();
        let velocity = Self::group(fields, &mut known, ["vx", "vy", "vz"], false)?;
        let angular = Self::group(fields, &mut known, ["wx", "wy", "wz"], false)?;
        let sleep = Self::group(fields, &mut known, ["sleep"], false)?.map(|[index]| index);
        let mut extras: Vec<(String, usize)> = Vec::new();
        for (index, name) in (3..).zip(fields) {
            if known.contains(&index) {
                continue;
            }
            let twice = extras.iter().any(|(other, _)| other == name)
                || fields.iter().filter(|other| *other == name).count() > 1;
            if twice {
                return Err(TraceFault::Header(format!(
                    "column '{}' is named twice",
                    excerpt(name, 64)
                )));
            }
            extras.push((name.clone(), index));
        }
        Ok(Columns {
            count: fields.len() + 3,
            position,
            rotation,
            velocity,
            angular,
            sleep,
            extras,
        })
    }

    /// The places of the named columns: of all, or of none where they may be absent.
    fn group<const N: usize>(
        fields: &[String],
        known: &mut Vec<usize>,
        names: [&str; N],
        required: bool,
    ) -> Result<Option<[usize; N]>, TraceFault> {
        let found = names.map(|name| {
            fields
                .iter()
                .position(|field| field == name)
                .map(|place| place + 3)
        });
        if !required && found.iter().all(Option::is_none) {
            return Ok(None);
        }
        for (name, place) in names.iter().zip(found) {
            let place =
                place.ok_or_else(|| TraceFault::Header(format!("column '{name}' is missing from fields")))?;
            known.push(place);
        }
        Ok(Some(found.map(Option::unwrap_or_default)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
pub(crate) mod tests {
    use super::*;

    /// A header with the usual columns and bounds of 100 m.
    pub(crate) fn header_line(fields: &str) -> String {
        let columns: Vec<&str> = fields.split_whitespace().collect();
        serde_json::json!({
            "name": "test", "format": FORMAT, "family": "simulation", "licence": "none", "tick_hz": 20.0,
            "bounds": {"min": [-100, -100, -100], "max": [100, 100, 100]}, "unit": "m", "fields": columns,
        })
        .to_string()
    }

    /// The columns of a recording with everything.
    pub(crate) const FULL: &str = "px py pz qx qy qz qw vx vy vz health wx wy wz sleep";

    /// The lines as a zstd stream.
    pub(crate) fn packed(lines: &[String]) -> std::io::Cursor<Vec<u8>> {
        std::io::Cursor::new(zstd::encode_all(lines.join("\n").as_bytes(), 1).unwrap())
    }

    /// A recording of the repository's own; `None`, and a printed line, where it was not shipped.
    pub(crate) fn own_trace(name: &str) -> Option<std::path::PathBuf> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        at_hand(path.join("tests/data").join(format!("{name}.jsonl.zst")))
    }

    /// A full recording, from the directory `ACKLINE_TRACES` or else beside the project; `None`, and a printed
    /// line, where there is none.
    pub(crate) fn shared_trace(name: &str) -> Option<std::path::PathBuf> {
        let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
        let directory = std::env::var_os("ACKLINE_TRACES").map_or(beside, Into::into);
        at_hand(directory.join(format!("{name}.jsonl.zst")))
    }

    fn at_hand(path: std::path::PathBuf) -> Option<std::path::PathBuf> {
        if !path.is_file() {
            println!("skipped: {} is not here", path.display());
            return None;
        }
        Some(path)
    }

    #[test]
    fn columns_are_found_by_name() {
        let header = TraceHeader::parse(header_line(FULL).as_bytes()).unwrap();
        assert_eq!(header.columns.count, 18);
        assert_eq!(header.columns.rotation, [6, 7, 8, 9]);
        assert_eq!(header.columns.angular, Some([14, 15, 16]));
        assert_eq!(header.columns.extras, [("health".to_owned(), 13)]);
        let header = TraceHeader::parse(header_line("ammo qw qz qy qx pz py px").as_bytes()).unwrap();
        assert_eq!(header.columns.position, [10, 9, 8]);
        assert_eq!(header.columns.velocity, None);
        assert_eq!(header.columns.extras, [("ammo".to_owned(), 3)]);
    }

    #[test]
    fn bad_headers_are_refused_with_a_sentence() {
        let good = header_line(FULL);
        for (bad, part) in [
            ("{".to_owned(), "near byte 1"),
            ("[]".to_owned(), "not a line of this format"),
            (good.replace("\"name\"", "\"mane\""), "missing field `name`"),
            (
                good.replace("gst-trace 1", "gst-trace 2"),
                "only 'gst-trace 1' is read",
            ),
            (
                good.replace("\"unit\":\"m\"", "\"unit\":\"ft\""),
                "only 'm' is read",
            ),
            (
                good.replace("[-100,-100,-100]", "[-100,200,-100]"),
                "out of order",
            ),
            (
                good.replace("[-100,-100,-100]", "[-100,-1e300,-100]"),
                "beyond 1000000 m",
            ),
            (good.replace("[-100,-100,-100]", "[-100,-100]"), "length"),
            (
                good.replace("[-100,-100,-100]", "[-100,1e999,-100]"),
                "number out of range",
            ),
            (good.replace("20.0", "0"), "tick_hz is 0"),
            (good.replace("\"px\"", "\"x\""), "column 'px' is missing"),
            (good.replace("\"wz\"", "\"py\""), "column 'wz' is missing"),
            (good.replace("\"sleep\"", "\"qw\""), "column 'qw' is named twice"),
            (
                good.replace("\"sleep\"", "\"health\""),
                "column 'health' is named twice",
            ),
        ] {
            let error = TraceHeader::parse(bad.as_bytes()).expect_err(part).to_string();
            assert!(error.contains(part), "{error} should say {part}");
        }
        let many = format!("{FULL} {}", (0..32).map(|n| format!("x{n} ")).collect::<String>());
        assert!(
            TraceHeader::parse(header_line(&many).as_bytes())
                .unwrap_err()
                .to_string()
                .contains("32")
        );
    }
}
