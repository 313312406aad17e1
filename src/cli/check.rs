//! `ackline check`.

use super::Outcome;

/// Flags.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs it.
///
/// # Errors
/// Not written yet.
pub fn run(_args: Args) -> anyhow::Result<Outcome> {
    anyhow::bail!("not written yet")
}
