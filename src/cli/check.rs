//! `ackline check`: validates a configuration without running it.

use std::path::PathBuf;

use super::{Outcome, UsageError};
use crate::node::settings::{PartialSettings, RelaySettings};

const EXAMPLES: &str = "\
A refusal names file, line, key and bound, and the exit code is 2.

Example:
  ackline check --config relay.toml";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The TOML file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs it.
///
/// # Errors
/// A refused setting, as a [`UsageError`].
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let settings = RelaySettings::load(&PartialSettings::default(), Some(&args.config))
        .and_then(|settings| settings.check_admission().map(|()| settings))
        .map_err(|error| UsageError(error.to_string()))?;
    say!(
        "{} is valid: clients at {}, admin at {}, upstream {}, shards {}",
        args.config.display(),
        settings.listen,
        settings.admin,
        settings.upstream.join(", "),
        settings.shards
    );
    Ok(Outcome::Success)
}
