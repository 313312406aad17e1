//! `ackline trace tune`: tables of prefix codes from recordings.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use crate::cli::{Outcome, UsageError};
use crate::delta::tune::Census;
use crate::node::number::whole;
use crate::node::origin::OriginSource;
use crate::node::tuning::{Span, count, size, to_text};
use crate::state::coding::Coding;

/// Flags.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The recordings
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How many ticks a client's baseline lies back
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1usize..=31))]
    base: usize,
    /// Where the tables go, a code a line [default: nowhere]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Judge each recording by tables made of the others
    #[arg(long)]
    each_by_the_others: bool,
}

/// Every tick.
fn all(base: usize) -> Span {
    Span {
        first: 0,
        end: u64::MAX,
        base,
    }
}

/// Runs it.
///
/// # Errors
/// A refused file, as a [`UsageError`]; a file that cannot be written.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let refused = |error: crate::node::source::SourceError| UsageError(error.to_string());
    let span = all(args.base);
    let sources: Vec<OriginSource> = args
        .files
        .iter()
        .map(|path| OriginSource::Trace {
            path: path.clone(),
            repeat: false,
            speed: 1.0,
        })
        .collect();
    let census = Census::default();
    for source in &sources {
        count(source, span, &census).map_err(refused)?;
    }
    let own = Coding::Own(Arc::new(census.lengths()));
    say!(
        "{:<34} {:>10} {:>9} {:>9} {:>9}",
        "bytes a tick",
        "records",
        "plain",
        "standard",
        "these"
    );
    for (index, (file, source)) in args.files.iter().zip(&sources).enumerate() {
        let these = match args.each_by_the_others {
            false => own.clone(),
            true => {
                let others = Census::default();
                for (_, source) in sources.iter().enumerate().filter(|(other, _)| *other != index) {
                    count(source, span, &others).map_err(refused)?;
                }
                Coding::Own(Arc::new(others.lengths()))
            }
        };
        let mut columns = String::new();
        let mut records = 0;
        for coding in [&Coding::Plain, &Coding::Standard, &these] {
            let size = size(source, span, coding).map_err(refused)?;
            records = size.records;
            let bytes = size.bits as f64 / 8.0 / size.ticks.max(1) as f64;
            columns.push_str(&format!(" {bytes:>9.1}"));
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        say!("{name:<34} {records:>10}{columns}");
    }
    if let Some(out) = &args.out {
        let text = to_text(&census.lengths());
        std::fs::write(out, text)
            .with_context(|| format!("--out {}: it cannot be written", out.display()))?;
    }
    Ok(Outcome::Success)
}
