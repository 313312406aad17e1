//! `ackline check`: validates a configuration without running it.

use std::path::PathBuf;

use super::{Outcome, UsageError};
use crate::node::settings::{PartialSettings, RelaySettings};

const EXAMPLES: &str = "\
It looks at what a relay started with the same file, ACKLINE_* variables and flags would look at: run it in the relay's own \
environment before a SIGHUP. It warns of secrets that others of this host can read and of lines that a flag or variable beats. A refusal names the file and line, variable or flag, the key and the bound, and the exit code is 2.

Examples:
  ackline check --config relay.toml
  ACKLINE_TOKEN_KEYS_FILE=token.keys ackline check --config relay.toml";

/// Flags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Settings as a TOML file
    #[arg(long, env = "ACKLINE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: PartialSettings,
}

/// Runs it.
///
/// # Errors
/// A refused setting, as a [`UsageError`].
pub fn run(mut args: Args) -> anyhow::Result<Outcome> {
    args.settings.note_words(std::env::args());
    let settings = RelaySettings::load(&args.settings, args.config.as_deref())
        .and_then(|settings| settings.check_admission().map(|()| settings))
        .map_err(|error| UsageError(error.to_string()))?;
    let name = match &args.config {
        Some(file) => file.display().to_string(),
        None => "what flags and variables give".to_owned(),
    };
    say!(
        "{name} is valid: clients at {}, {}, admin at {}, upstream {}, shards {}",
        settings.listen,
        settings.admission_in_words(),
        settings.admin,
        settings.upstream.join(", "),
        settings.shards
    );
    let warnings = super::relay::readers(&settings).into_iter();
    warnings
        .chain(settings.places.beaten())
        .for_each(|sentence| complain!("ackline: {sentence}"));
    Ok(Outcome::Success)
}
