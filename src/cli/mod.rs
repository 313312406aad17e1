//! The command line: parse, call one function. One file a subcommand.
//!
//! Exit codes: 0 only for success, 1 for a run that failed its own check, 2 for bad usage or configuration.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Prints a line; whoever reads no more ends the program quietly.
macro_rules! say {
    ($($part:tt)*) => { $crate::cli::print_line(format_args!($($part)*)) };
}

pub mod bench;
pub mod check;
pub mod demo;
pub mod origin;
pub mod relay;
#[cfg(feature = "sim")]
pub mod sim;
pub mod trace;

/// Edge relay for real-time games: one authoritative stream in, a delta per client out.
#[derive(Parser, Debug)]
#[command(name = "ackline", version, about, max_term_width = 110)]
struct Ackline {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
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
    /// Recorded worlds.
    Trace(trace::Args),
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

/// Prints a line to standard output. Where nobody reads it any more (`ackline demo | head`), or the disk is full,
/// the program ends with 1: there is nobody left to tell.
fn print_line(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Parses the command line and runs the subcommand.
#[must_use]
pub fn main() -> ExitCode {
    let command = Ackline::parse().command;
    let outcome = match command {
        Command::Demo(args) => demo::run(args),
        Command::Relay(args) => relay::run(args),
        Command::Origin(args) => origin::run(args),
        Command::Bench(args) => bench::run(args),
        #[cfg(feature = "sim")]
        Command::Sim(args) => sim::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Check(args) => check::run(args),
    };
    match outcome {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("ackline: {error:#}");
            let usage = error.downcast_ref::<UsageError>().is_some();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}
