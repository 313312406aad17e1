//! `ackline trace`: what recorded worlds hold.

use std::path::PathBuf;

mod tune;

use super::{Outcome, UsageError};
use crate::trace::info::TraceInfo;

const EXAMPLES: &str = "\
Examples:
  ackline trace info match.jsonl.zst
  ackline trace info match.jsonl.zst --json
  ackline trace tune match.jsonl.zst other.jsonl.zst --out tables.txt
  ackline trace tune *.jsonl.zst --each-by-the-others";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// What a recording holds, in a table
    #[command(after_help = EXAMPLES)]
    Info {
        /// The recording
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Prefix codes that fit how things move in recordings, and what they save
    #[command(after_help = EXAMPLES)]
    Tune(tune::Args),
}

/// Runs it.
///
/// # Errors
/// A refused file, as a [`UsageError`].
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let (file, json) = match args.command {
        Command::Info { file, json } => (file, json),
        Command::Tune(args) => return tune::run(args),
    };
    let info = TraceInfo::load(file).map_err(|error| UsageError(error.to_string()))?;
    if json {
        say!("{}", serde_json::to_string_pretty(&info)?);
    } else {
        say!("{info}");
    }
    Ok(Outcome::Success)
}
