//! The command line: parse, call one function. One file a subcommand.
//!
//! Exit codes: 0 only for success, 1 for a run that failed its own check, 2 for bad usage or configuration.

use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};

use crate::bench::settings::FlagError;
use crate::node::logging;
use crate::node::source::SourceError;

/// Prints a line; whoever reads no more ends the program quietly.
macro_rules! say {
    ($($part:tt)*) => { $crate::cli::print_line(format_args!($($part)*)) };
}

/// Prints a line to standard error; where nobody reads it, or the disk is full, it is lost and nothing else.
macro_rules! complain {
    ($($part:tt)*) => { $crate::cli::complain_line(format_args!($($part)*)) };
}

pub mod bench;
pub mod check;
pub mod demo;
pub mod origin;
pub mod relay;
#[cfg(feature = "sim")]
pub mod sim;
pub mod token;
pub mod top;
pub mod trace;
mod usage;
mod variables;

/// Edge relay for real-time games: one authoritative stream in, a delta per client out.
#[derive(Parser, Debug)]
#[command(name = "ackline", version, about, max_term_width = 110)]
struct Ackline {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant)] // There is one in a process.
enum Command {
    /// The whole system in one process over real loopback UDP, with verifying clients.
    Demo(demo::Args),
    /// The edge relay.
    Relay(relay::Args),
    /// An authoritative origin: a recorded trace or a built-in scene.
    Origin(origin::Args),
    /// Load generator and oracle.
    Bench(bench::Args),
    /// The simulation: origin, relay and clients in virtual time.
    #[cfg(feature = "sim")]
    Sim(sim::Args),
    /// Keys and connect tokens.
    Token(token::Args),
    /// Recorded worlds.
    Trace(trace::Args),
    /// A live terminal view of a running relay.
    Top(top::Args),
    /// Asks a running relay whether it is well: exit code 0 or 1, for container health checks.
    Health(top::HealthArgs),
    /// Validates a configuration without running it.
    Check(check::Args),
}

/// What a subcommand came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked.
    Success,
    /// It ran and failed its own check.
    Failed,
}

/// A wrong flag or configuration, as opposed to a run that went wrong: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Prints a line to standard output. Where nobody reads it any more (`ackline sim | head`) nothing is lost, and the
/// exit code is the run's own; where it cannot be written, to a full disk, the program ends with 1.
fn print_line(line: std::fmt::Arguments<'_>) {
    use std::io::{ErrorKind, Write};
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("ackline: standard output cannot be written to: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}

fn complain_line(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Parses the command line and runs the subcommand.
#[must_use]
pub fn main() -> ExitCode {
    let parsed = usage::command()
        .try_get_matches()
        .and_then(|matches| Ackline::from_arg_matches(&matches));
    let command = match parsed {
        Ok(parsed) => parsed.command,
        Err(error) => match usage::sentence(&error) {
            Some(sentence) => {
                complain!("ackline: {sentence}");
                return ExitCode::from(2);
            }
            // Help and version, which are no errors, end so too.
            None => error.exit(),
        },
    };
    // Those two say it in their log.
    if !matches!(command, Command::Relay(_) | Command::Origin(_)) {
        variables::strange()
            .iter()
            .for_each(|text| complain!("ackline: {text}"));
    }
    let outcome = match command {
        Command::Demo(args) => demo::run(args),
        Command::Relay(args) => relay::run(args),
        Command::Origin(args) => origin::run(args),
        Command::Bench(args) => bench::run(args),
        #[cfg(feature = "sim")]
        Command::Sim(args) => sim::run(args),
        Command::Token(args) => token::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Top(args) => top::run(args),
        Command::Health(args) => top::health(args),
        Command::Check(args) => check::run(args),
    };
    match outcome {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) => {
            let usage = usage_of(&error);
            let code = if usage.is_some() { 2 } else { 1 };
            logging::say_fatal(&usage.unwrap_or_else(|| format!("{error:#}")));
            ExitCode::from(code)
        }
    }
}

/// The sentence of an error that is a wrong flag or configuration; `None` for one of the run.
fn usage_of(error: &anyhow::Error) -> Option<String> {
    if let Some(refused) = error.downcast_ref::<SourceError>() {
        return Some(format!("{}{refused}", flag_of(refused)));
    }
    let flag = error.downcast_ref::<FlagError>().map(ToString::to_string);
    flag.or_else(|| error.downcast_ref::<UsageError>().map(ToString::to_string))
}

/// The flag behind a refused source.
fn flag_of(refused: &SourceError) -> &'static str {
    #[cfg(feature = "scenes")]
    use crate::scenes::SceneError;
    match refused {
        SourceError::Trace(_) => "--trace ",
        SourceError::Speed(_) => "--speed: ",
        SourceError::Schema(_) => "",
        #[cfg(feature = "scenes")]
        SourceError::Scene(SceneError::Unknown { .. }) => "--scene: ",
        #[cfg(feature = "scenes")]
        SourceError::Scene(SceneError::Entities { .. }) => "--entities: ",
        #[cfg(feature = "scenes")]
        SourceError::Scene(SceneError::Rate { .. }) => "--hz: ",
    }
}
