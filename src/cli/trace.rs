//! `ackline trace`: what recorded worlds hold.

use std::path::PathBuf;

use super::{Outcome, UsageError};
use crate::trace::info::TraceInfo;

const EXAMPLES: &str = "\
Examples:
  ackline trace info match.jsonl.zst
  ackline trace info match.jsonl.zst --json";

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
}

/// Runs it.
///
/// # Errors
/// A refused file, as a [`UsageError`].
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let Command::Info { file, json } = args.command;
    let info = TraceInfo::load(file).map_err(|error| UsageError(error.to_string()))?;
    if json {
        say!("{}", serde_json::to_string_pretty(&info)?);
    } else {
        say!("{info}");
    }
    Ok(Outcome::Success)
}
